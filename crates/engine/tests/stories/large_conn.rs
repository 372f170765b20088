//! A request whose reply was large goes over a connection for such requests, beside those that others share.

use crate::words::{Story, bulk, request};
use engine::limits::{
    LARGE_INFLIGHT_MAX, LARGE_REPLIES_MAX, LARGE_REPLY_KEPT_MS, PROBES_MAX, SILENT_MAX,
    SILENT_PLACE_MS, WINDOW_MIN, WINDOW_WARY,
};

const MIB: usize = 1 << 20;

/// The reply to this request was large.
fn knows(mut story: Story, line: &str) -> Story {
    story.client("first").says(line);
    story.conn(1).gets(line).sends(&bulk(2 * MIB));
    story.client("first").takes();
    story
}

// Found by an attack: clients that ask for 20 MB and leave, one after the other. A write stood behind all of it.
#[test]
fn nobody_waits_behind_replies_that_were_large_before() {
    let mut story = knows(Story::new(), "GET big");
    for number in 0..20 {
        story.client(&number.to_string()).says("GET big");
    }
    story.client("b").says(["SET k b", "GET bigger"]);
    assert_eq!(story.conn(2).takes_requests(), LARGE_INFLIGHT_MAX);
    story.conn(1).gets(["SET k b", "GET bigger"]).answers(["+OK", "nil"]);
    story.client("b").gets(["+OK", "nil"]);
    for number in 0..20 {
        match number % 2 {
            0 => story.client(&number.to_string()).dies(),
            _ => drop(story.client(&number.to_string()).ends()),
        }
    }
    // A server, too, gives up what a client asked for that sends no more.
    story.conn(2).sends(&bulk(2 * MIB)[..40_000]);
    story.conn(2).is_closed();
}

// A server answers all that it has read of a connection before it looks at the next one.
#[test]
fn a_server_has_a_few_requests_with_large_replies_at_a_time() {
    let mut story = knows(Story::new(), "GET big");
    let names: Vec<String> = (0..3 * LARGE_INFLIGHT_MAX).map(|number| number.to_string()).collect();
    for name in &names {
        story.client(name).says("GET big");
    }
    for part in names.chunks(LARGE_INFLIGHT_MAX) {
        assert_eq!(story.conn(2).takes_requests(), LARGE_INFLIGHT_MAX);
        for name in part {
            story.conn(2).sends(&bulk(2 * MIB));
            story.client(name).takes();
        }
    }
    for name in &names {
        story.client(name).says("KEYS *");
    }
    assert_eq!(story.conn(2).takes_requests(), LARGE_INFLIGHT_MAX);
    story.conn(1).gets_nothing();
}

// All places on the connection are those of a client that does not take its replies.
#[test]
fn who_waits_for_a_place_does_not_wait_for_a_slow_reader() {
    let mut story = knows(Story::new(), "GET big");
    story.client("slow").stops_taking().says(["GET big"; LARGE_INFLIGHT_MAX]);
    story.client("b").says("GET big");
    story.conn(2).sends(&bulk(12 * MIB)[..6 * MIB]).is_not_read();
    story.conn(3).gets("GET big").sends(&bulk(2 * MIB));
    story.client("b").takes();
}

#[test]
fn nobody_waits_behind_what_a_server_does_in_a_thread() {
    let mut story = Story::new();
    story.client("a").says(["SET k a", "FLUSHALL", "GET k"]);
    story.conn(1).gets("SET k a").gets_nothing().answers("+OK");
    story.conn(2).gets("FLUSHALL").gets_nothing();
    story.client("b").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.client("b").gets("nil");
    story.conn(2).answers("+OK");
    story.conn(1).gets("GET k").answers("nil");
    story.client("a").gets(["+OK", "+OK", "nil"]);
}

// Found by an attack: as above, with GET between MULTI and EXEC.
#[test]
fn transactions_that_read_go_apart_while_some_are_large() {
    let mut story = Story::new();
    story.client("first").says(["MULTI", "GET big", "EXEC"]);
    story.conn(1).gets(["MULTI", "GET big", "EXEC"]).answers(["+OK", "+QUEUED"]);
    story.conn(1).sends(&[b"*1\r\n", &bulk(2 * MIB)[..]].concat());
    story.client("first").takes();
    story.client("a").sends(&[request("MULTI"), request("SET k a"), request("EXEC")].concat());
    story.conn(1).gets(["MULTI", "SET k a", "EXEC"]);
    story.client("b").sends(&[request("MULTI"), request("GET big"), request("EXEC")].concat());
    story.conn(1).gets_nothing();
    story.conn(2).gets(["MULTI", "GET big"]);
}

#[test]
fn what_is_large_is_not_asked_for_twice() {
    let mut story = knows(Story::new(), "GET 1");
    for number in 2..5 {
        let line = format!("GET {number}");
        story.client("first").says(&line);
        story.conn(1).gets(&line).sends(&bulk(2 * MIB));
        story.client("first").takes();
    }
    for number in 1..5 {
        story.client(&number.to_string()).says(&format!("GET {number}"));
    }
    assert_eq!(story.conn(2).takes_requests(), 4);
    story.conn(2).sends(&bulk(40 * MIB)[..40_000]);
    story.client("5").says("GET 1");
    // The others wait for what they asked for; the next one does not.
    story.conn(3).gets("GET 1").gets_nothing();
}

#[test]
fn a_client_that_sends_no_more_and_reads_gets_its_large_reply() {
    let mut story = knows(Story::new(), "GET big");
    story.client("a").says("GET big").ends();
    let reply = bulk(2 * MIB);
    story.conn(2).gets("GET big").sends(&reply[..40_000]);
    story.client("b").says("GET big").ends();
    story.conn(2).sends(&reply[40_000..]);
    assert!(story.client("a").takes() == reply);
    // On the connection that all share it gets whatever it asked for.
    story.client("c").says("GET large").ends();
    story.client("d").says("GET k").ends();
    story.conn(1).gets(["GET large", "GET k"]);
    story.client("c").dies();
    story.conn(1).sends(&reply).answers("nil");
    story.client("d").gets("nil");
}

#[test]
fn requests_of_one_client_stay_in_order() {
    let mut story = knows(Story::new(), "GET big");
    story.client("a").says(["SET big 1", "GET big", "SET big 2", "GET k"]);
    story.conn(1).gets("SET big 1").gets_nothing();
    assert_eq!(story.connects_made(), 1, "the one before is not answered yet");
    story.conn(1).answers("+OK");
    story.conn(2).gets("GET big").sends(&bulk(2 * MIB)[..MIB]);
    story.conn(1).gets_nothing();
    story.conn(2).sends(&bulk(2 * MIB)[MIB..]);
    story.conn(1).gets(["SET big 2", "GET k"]).answers(["+OK", "nil"]);
    let got = story.client("a").takes();
    assert_eq!(got, [b"+OK\r\n", &bulk(2 * MIB)[..], b"+OK\r\n$-1\r\n"].concat());
}

#[test]
fn a_request_is_known_by_its_command_and_key_its_script_or_all_of_it() {
    for (line, like, other) in [
        ("GETRANGE k 0 -1", "GETRANGE k 0 -2", "GET k"),
        ("HGETALL k", "HGETALL k", "HGETALL l"),
        ("MGET a b", "MGET a b", "MGET b a"),
        ("EVAL script 0 1", "EVAL script 1 a", "EVAL other 0 1"),
        ("EVALSHA abc 0 1", "EVALSHA abc 1 a", "EVAL abc 0 1"),
        ("LRANGE k 0 -1", "LRANGE k 0 1", "GET k"),
        ("GET k", "GET k", "SET k 2"),
    ] {
        let mut story = knows(Story::new(), line);
        story.client("a").says(other);
        story.conn(1).gets(other);
        story.client("b").says(like);
        story.conn(1).gets_nothing();
        story.conn(2).gets(like);
    }
}

#[test]
fn pipelines_of_others_are_given_on_as_before() {
    let mut story = knows(Story::new(), "GET big");
    story.client("a").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.client("a").gets("nil");
    let pipeline = [request("GET k"), request("SET k v"), request("MGET k l")].concat();
    story.client("a").sends(&pipeline.repeat(50));
    for _ in 0..50 {
        story.conn(1).gets(["GET k", "SET k v", "MGET k l"]);
    }
    assert_eq!(story.connects_made(), 1);
}

#[test]
fn each_node_of_a_cluster_has_such_a_connection() {
    let mut story = Story::warm_cluster();
    story.client("first").says("GET a4");
    story.node("n1").gets("GET a4").sends(&bulk(2 * MIB));
    story.client("first").takes();
    story.client("a").says(["GET a4", "GET a8"]);
    story.node_conn("n1", 1).gets_nothing();
    story.node_conn("n1", 2).gets("GET a4").gets_nothing().answers("nil");
    story.node_conn("n1", 1).gets("GET a8").answers("nil");
    story.client("a").gets(["nil", "nil"]);
    story.client("a").says("HGETALL a4");
    story.node_conn("n1", 1).gets("HGETALL a4");
}

#[test]
fn a_request_whose_replies_are_small_again_is_forgotten() {
    let mut story = knows(Story::new(), "GET big");
    story.client("a").says("GET big");
    story.conn(2).gets("GET big").answers("nil");
    story.client("a").gets("nil");
    story.after_ms(LARGE_REPLY_KEPT_MS).client("b").says("GET k");
    story.conn(1).gets("GET k").answers("nil");
    story.after_ms(20).client("a").says("GET big");
    story.conn(1).gets("GET big");
}

#[test]
fn only_so_many_are_known_and_the_newest() {
    let mut story = Story::new();
    for number in 0..=LARGE_REPLIES_MAX {
        let line = format!("GET {number}");
        story.client("a").says(&line);
        story.conn(1).gets(&line).sends(&bulk(MIB));
        story.client("a").takes();
        story.after_ms(1);
    }
    story.client("a").says("GET 0");
    story.conn(1).gets("GET 0").answers("nil");
    story.client("a").gets("nil").says("GET 1");
    story.conn(1).gets_nothing();
    story.conn(2).gets("GET 1");
}

// Found by an attack: CLIENT REPLY OFF, and a pipeline of GETs of 20 MB. Of a client that it is connected to a server makes no replies then.
#[test]
fn one_that_takes_no_replies_has_few_large_ones_under_way() {
    let mut story = Story::new();
    story.client("a").says("CLIENT REPLY OFF").sends(&request("GET big").repeat(50));
    story.client("b").says("SET k b");
    assert_eq!(story.conn(1).takes_requests(), WINDOW_MIN as usize + 1);
    let reply = bulk(2 * MIB);
    story.conn(1).sends(&[reply.repeat(WINDOW_MIN as usize), b"+OK\r\n".to_vec()].concat());
    story.client("b").gets("+OK");
    story.conn(1).gets_nothing();
    for _ in 0..20 {
        assert_eq!(story.conn(2).takes_requests(), 1, "its replies are known to be large");
        story.conn(2).sends(&reply);
    }
    story.client("a").gets_nothing();
}

/// Silent clients at this address send six requests each, every client for a key of its own. Returns the number of requests that reach the server.
fn mute_clients(story: &mut Story, count: usize, address: &str) -> usize {
    for number in 0..count {
        let line = format!("GET big{number}");
        let client = format!("{number}@{address}");
        story.client(&client).says("CLIENT REPLY OFF").sends(&request(&line).repeat(6));
    }
    story.conn(1).takes_requests()
}

/// Requests of the first clients of one group that have places. Two of these clients probe the size of their replies.
const FIRST: usize = PROBES_MAX as usize * WINDOW_MIN as usize
    + (SILENT_MAX - 1 - PROBES_MAX as usize) * WINDOW_WARY as usize;

// Found by a test from outside: each of 100 clients with CLIENT REPLY OFF had replies of 15 MB under way before one had come.
#[test]
fn of_clients_that_take_no_replies_a_few_have_large_ones_under_way() {
    let mut story = Story::new();
    assert_eq!(mute_clients(&mut story, 50, "10.0.0.1"), FIRST);
    let other = mute_clients(&mut story, 1, "10.0.0.2");
    assert_eq!(other, WINDOW_WARY as usize, "another group has a place");
    story.client("w").says("CLIENT REPLY OFF").sends(&request("SET k v").repeat(2));
    assert_eq!(story.conn(1).takes_requests(), 2, "writes answer briefly");
    story.conn(1).sends(&[b"$-1\r\n".repeat(FIRST + other), b"+OK\r\n".repeat(2)].concat());
    let mut asked = FIRST + other;
    loop {
        let under_way = story.conn(1).takes_requests();
        assert!(under_way <= SILENT_MAX * WINDOW_MIN as usize, "{under_way}");
        asked += under_way;
        match under_way {
            0 => break,
            _ => story.conn(1).sends(&b"$-1\r\n".repeat(under_way)),
        };
    }
    assert_eq!(asked, 51 * 6);
}

#[test]
fn a_client_that_takes_no_replies_has_its_place_for_a_moment() {
    let mut story = Story::new();
    assert_eq!(mute_clients(&mut story, 5, "10.0.0.1"), FIRST);
    story.after_ms(SILENT_PLACE_MS - 1);
    story.conn(1).gets_nothing();
    story.after_ms(1);
    assert_eq!(story.conn(1).takes_requests(), 2 * WINDOW_WARY as usize);
}

// Found by a test from outside: silent clients of a shard that hung held the places of all shards.
#[test]
fn silent_clients_of_a_node_that_hangs_leave_other_nodes_to_others() {
    let mut story = Story::warm_cluster();
    for number in 0..10 {
        let client = format!("{number}@10.0.0.{number}");
        story.client(&client).says("CLIENT REPLY OFF").sends(&request("GET a4").repeat(6));
    }
    let hung = story.node("n1").takes_requests();
    assert!(hung <= SILENT_MAX * WINDOW_MIN as usize, "{hung}");
    story.client("b").says(["CLIENT REPLY OFF", "GET b4"]);
    story.node("n2").gets("GET b4");
}

#[test]
fn of_what_may_answer_at_length_one_that_takes_no_replies_has_few_under_way() {
    let skip = [request("CLIENT REPLY SKIP"), request("GET big")].concat().repeat(50);
    let multi = [request("MULTI"), request("GET big"), request("EXEC")].concat().repeat(20);
    for (line, most) in [
        ("EVAL s 0", WINDOW_MIN as usize),
        ("MGET big big", WINDOW_MIN as usize),
        ("GETEX big", WINDOW_MIN as usize),
        ("XREADGROUP GROUP g c STREAMS s 0", WINDOW_MIN as usize),
        ("SET k v", 50),
        ("PUBLISH c m", 50),
    ] {
        let mut story = Story::new();
        story.client("a").says("CLIENT REPLY OFF").sends(&request(line).repeat(50));
        assert_eq!(story.server().takes_requests(), most, "{line}");
    }
    let mut story = Story::new();
    story.client("a").sends(&skip);
    // Each CLIENT REPLY has its place behind those before it.
    assert_eq!(story.server().takes_requests(), WINDOW_MIN as usize / 2);
    story.client("b").says("CLIENT REPLY OFF").sends(&multi);
    assert_eq!(story.server().takes_requests(), 3, "one transaction");
    let mut story = Story::new();
    story.client("c").says("WATCH k");
    story.server().gets("WATCH k").answers("+OK");
    story.client("c").gets("+OK").says("CLIENT REPLY OFF");
    story.client("c").sends(&request("GET big").repeat(50));
    assert_eq!(story.server().takes_requests(), WINDOW_MIN as usize);
}

#[test]
fn replies_that_are_dropped_tell_how_large_replies_are() {
    for (parts, reply) in [(1, bulk(2 * MIB)), (64, bulk(20_000).repeat(64))] {
        let mut story = Story::new();
        story.client("a").says("CLIENT REPLY OFF").sends(&request("GET k").repeat(parts));
        let mut owed = story.server().takes_requests();
        for part in reply.chunks(reply.len() / parts) {
            assert!(owed > 0);
            story.server().sends(part);
            owed += story.server().takes_requests();
            owed -= 1;
        }
        story.client("a").says("CLIENT REPLY ON").gets("+OK");
        story.client("a").sends(&request("GET l").repeat(1_000));
        let window = (4 * MIB * parts / reply.len()).max(WINDOW_MIN as usize);
        let asked = story.server().takes_requests();
        assert!(asked <= window * 2, "{asked} of {window}");
    }
}

#[test]
fn large_replies_that_nobody_takes_are_no_backlog() {
    let mut story = knows(Story::new(), "GET big");
    for name in ["a", "c"] {
        story.client(name).says(["CLIENT REPLY OFF", "GET big", "GET big"]);
    }
    assert_eq!(story.conn(2).takes_requests(), 4);
    let reply = bulk(20 * MIB);
    story.conn(2).sends(&reply[..40_000]);
    assert_eq!(story.connects_made(), 2);
    story.client("b").says("GET big");
    story.conn(2).sends(&reply[40_000..80_000]);
    assert_eq!(story.connects_made(), 3);
    story.conn(3).gets("GET big").sends(&bulk(2 * MIB));
    story.client("b").takes();
}

// A server sends such a client nothing, so it does all that it was sent before the end.
#[test]
fn one_that_takes_no_replies_and_sends_no_more_has_its_writes_done() {
    let mut story = knows(Story::new(), "GET big");
    story.client("a").says(["CLIENT REPLY OFF", "GET big", "SET k a"]).ends();
    let reply = bulk(2 * MIB);
    story.conn(2).gets("GET big").sends(&reply[..40_000]).is_open();
    story.conn(2).sends(&reply[40_000..]);
    story.conn(1).gets("SET k a").answers("+OK");
    story.client("a").is_closed();
}
