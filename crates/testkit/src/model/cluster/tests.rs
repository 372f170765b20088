//! The model of a cluster against its own promises, and against a real one.

use super::*;
use crate::RedisCluster;
use crate::frames::request;

/// Three shards with one copy each, at ports from 7000 on.
fn cluster() -> ModelCluster {
    let at: Vec<(String, u16)> = (7000..7006).map(|port| ("127.0.0.1".to_owned(), port)).collect();
    ModelCluster::new(3, 1, &at)
}

/// What a node answers, on a new connection, one request a line.
fn ask(cluster: &mut ModelCluster, node: usize, lines: &str) -> String {
    let mut conn = cluster.conn();
    let mut out = Vec::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let _ = cluster.feed(node, &mut conn, &request(&words), &mut out);
    }
    String::from_utf8(out).expect("text")
}

#[test]
fn slots_are_those_of_the_specification() {
    // The specification's own examples: of the CRC, and of a tag.
    for (key, slot) in [("", 0), ("foo", 12_182), ("123456789", 0x31c3), ("{foo}bar", 12_182)] {
        assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
    }
    assert_eq!(key_slot(b"{}foo"), crc16(b"{}foo") % 16_384, "an empty tag is none");
}

#[test]
fn a_slot_goes_key_by_key() {
    let mut cluster = cluster();
    // Slot 12182, of node 2; three keys with one tag.
    let set = "SET {foo}a 1\nSET {foo}b 2";
    assert_eq!(ask(&mut cluster, 0, set), "-MOVED 12182 127.0.0.1:7002\r\n".repeat(2));
    assert_eq!(ask(&mut cluster, 2, set), "+OK\r\n".repeat(2));
    assert!(cluster.begin_move(12_182, 0) && cluster.is_moving());
    assert_eq!(
        ask(&mut cluster, 2, "GET {foo}a\nGET {foo}c"),
        "$1\r\n1\r\n-ASK 12182 127.0.0.1:7000\r\n"
    );
    assert!(cluster.move_key(12_182));
    let both = "MGET {foo}a {foo}b";
    let try_again = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    assert_eq!(ask(&mut cluster, 2, both), try_again);
    assert_eq!(ask(&mut cluster, 0, both), "-MOVED 12182 127.0.0.1:7002\r\n");
    assert_eq!(ask(&mut cluster, 0, &format!("ASKING\n{both}")), format!("+OK\r\n{try_again}"));
    assert_eq!(ask(&mut cluster, 0, "ASKING\nGET {foo}a\nGET {foo}a").matches("MOVED").count(), 1);
    assert_eq!(ask(&mut cluster, 0, "ASKING\nSET {foo}c 3"), "+OK\r\n+OK\r\n");
    assert_eq!(ask(&mut cluster, 2, "DBSIZE"), ":1\r\n");
    assert!(cluster.move_key(12_182) && !cluster.move_key(12_182));
    cluster.end_move(12_182);
    // The source has not heard of it, a third one has not either.
    assert_eq!(ask(&mut cluster, 2, both), "-ASK 12182 127.0.0.1:7000\r\n");
    assert_eq!(ask(&mut cluster, 1, both), "-MOVED 12182 127.0.0.1:7002\r\n");
    assert_eq!(ask(&mut cluster, 0, both), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    cluster.settle(12_182);
    cluster.tell(1);
    for node in [1, 2] {
        assert_eq!(ask(&mut cluster, node, both), "-MOVED 12182 127.0.0.1:7000\r\n");
    }
    assert_eq!(cluster.effects(b"{foo}c"), [Effect::Set(b"3".to_vec())]);
}

#[test]
fn a_copy_answers_reads_for_those_who_ask_for_it_and_takes_over() {
    let mut cluster = cluster();
    ask(&mut cluster, 2, "SET foo 1");
    let moved = "-MOVED 12182 127.0.0.1:7002\r\n";
    assert_eq!(ask(&mut cluster, 5, "GET foo"), moved);
    assert_eq!(
        ask(&mut cluster, 5, "READONLY\nGET foo\nSET foo 2"),
        format!("+OK\r\n$1\r\n1\r\n{moved}")
    );
    assert!(ask(&mut cluster, 5, "ROLE").starts_with("*5\r\n$5\r\nslave\r\n"));
    assert!(cluster.fail_over(5) && !cluster.fail_over(5));
    assert_eq!(ask(&mut cluster, 5, "INCR foo"), ":2\r\n");
    assert_eq!(ask(&mut cluster, 2, "INCR foo"), "-MOVED 12182 127.0.0.1:7005\r\n");
    assert_eq!(ask(&mut cluster, 0, "INCR foo"), moved, "it has not heard of it");
}

#[test]
fn a_shard_channel_is_heard_where_its_slot_is_and_ends_when_that_goes() {
    let mut cluster = cluster();
    let moved = "-MOVED 12182 127.0.0.1:7002\r\n";
    assert_eq!(ask(&mut cluster, 0, "SSUBSCRIBE foo\nSPUBLISH foo x"), moved.repeat(2));
    let mut conn = cluster.conn();
    let mut out = Vec::new();
    let _ = cluster.feed(2, &mut conn, b"SSUBSCRIBE foo\r\nSUBSCRIBE bar\r\n", &mut out);
    let hears = |cluster: &mut ModelCluster| {
        let mut out = Vec::new();
        cluster.deliver(&conn, &mut out);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(ask(&mut cluster, 2, "SPUBLISH foo x\nPUBLISH bar y"), ":1\r\n".repeat(2));
    assert!(hears(&mut cluster).starts_with("*3\r\n$8\r\nsmessage\r\n"));
    assert!(cluster.begin_move(12_182, 0));
    cluster.end_move(12_182);
    assert_eq!(hears(&mut cluster), "", "the source has not heard of it");
    cluster.settle(12_182);
    assert_eq!(hears(&mut cluster), "*3\r\n$12\r\nsunsubscribe\r\n$3\r\nfoo\r\n:0\r\n");
    assert_eq!(ask(&mut cluster, 0, "SPUBLISH foo z\nPUBLISH bar z"), ":0\r\n".repeat(2));
    assert!(hears(&mut cluster).ends_with("$3\r\nbar\r\n$1\r\nz\r\n"), "of any node");
}

#[test]
fn nodes_refuse_what_they_cannot_serve_now() {
    let mut cluster = cluster();
    for (standing, get, set) in [
        (Standing::Down, "-CLUSTERDOWN", "-CLUSTERDOWN"),
        (Standing::Loading, "-LOADING", "-LOADING"),
        (Standing::ReadOnly, "$-1", "-READONLY"),
        (Standing::Well, "$-1", "+OK"),
    ] {
        cluster.stand(2, standing);
        assert!(ask(&mut cluster, 2, "GET foo").starts_with(get), "{standing:?}");
        assert!(ask(&mut cluster, 2, "SET foo 1\nDEL foo").starts_with(set), "{standing:?}");
    }
}

#[test]
fn an_iteration_gives_every_key_of_a_node_and_no_other() {
    let mut cluster = cluster();
    let (mut own, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..200 {
        let key = format!("key:{number}");
        let node = cluster.owner(key_slot(key.as_bytes()));
        ask(&mut cluster, node, &format!("SET {key} x"));
        if node == 1 {
            own.insert(key);
        }
    }
    let mut cursor = "0".to_owned();
    loop {
        let page = ask(&mut cluster, 1, &format!("SCAN {cursor} MATCH key:* COUNT 5"));
        let words: Vec<&str> = page.split("\r\n").collect();
        seen.extend(words.iter().filter(|word| word.starts_with("key:")).map(|w| w.to_string()));
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, own);
    assert_eq!(ask(&mut cluster, 1, "DBSIZE"), format!(":{}\r\n", own.len()));
}

/// What a node says of a slot under way, told by a real cluster: the same words and the same order of checks.
#[test]
fn redirects_as_a_real_cluster_does() {
    let real = RedisCluster::start(3, 0);
    let at: Vec<(String, u16)> = real
        .endpoints()
        .iter()
        .map(|endpoint| (endpoint.tcp().ip().to_string(), endpoint.tcp().port()))
        .collect();
    let mut model = ModelCluster::new(3, 0, &at);
    let id = |node: usize| {
        real.node(node).connect().ask("CLUSTER MYID").lines().nth(1).expect("an id").to_owned()
    };
    let same = |model: &mut ModelCluster, node: usize, lines: &str| {
        let mut conn = real.node(node).connect();
        let mut expected = String::new();
        for line in lines.lines() {
            expected.push_str(&conn.ask(line));
        }
        assert_eq!(ask(model, node, lines), expected, "node {node}: {lines}");
    };
    same(&mut model, 2, "SET {foo}a 1\nSET {foo}b 2");
    same(
        &mut model,
        0,
        "GET {foo}a\nSET {foo}a 1\nMGET {foo}a x\nGET\nNOPE a\nASKING\nGET {foo}a\nSELECT 1",
    );
    model.begin_move(12_182, 0);
    real.node(0).connect().ask(&format!("CLUSTER SETSLOT 12182 IMPORTING {}", id(2)));
    real.node(2).connect().ask(&format!("CLUSTER SETSLOT 12182 MIGRATING {}", id(0)));
    let lines = "GET {foo}a\nGET {foo}c\nMGET {foo}a {foo}c\nMGET {foo}c {foo}c\nMGET {foo}d {foo}c\nEXISTS {foo}a {foo}a";
    same(&mut model, 2, lines);
    same(&mut model, 0, lines);
    same(
        &mut model,
        0,
        "ASKING\nMGET {foo}c {foo}d\nASKING\nGET {foo}c\nGET {foo}c\nASKING\nSET {foo}c 3",
    );
    same(&mut model, 2, "MGET {foo}a {foo}b\nSET {foo}c 4\nMSET {foo}x 1 {foo}y 2");
    same(&mut model, 0, "ASKING\nMSET {foo}x 1 {foo}y 2\nASKING\nMGET {foo}c {foo}c");
}
