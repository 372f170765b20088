//! Themes C and J: the topology changes many times, not once.
//!
//! Invariant: whatever the last change was, what is served afterwards is what the servers have.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::{RedisCluster, SLOTS, SlotMove};
use testkit::{Conn, Respool, SentinelGroup, wait};

use crate::setup::{RESPOOL, SOON, long};
use crate::topology::{HOLD, front, key_on};

// bitnami/charts #3472 (wrong primary after the second failover), predixy #189 (data out of reach after a failover to another host).
#[test]
fn c8_after_each_of_many_failovers_the_primary_is_the_one_that_sentinels_name() {
    let group = SentinelGroup::start(2, 3);
    let proxy = Respool::to_url(RESPOOL, &group.url()).args(&HOLD).start();
    // The same connection from begin to end, and one for each worker.
    let mut conns: Vec<Conn> = (0..4).map(|_| proxy.connect()).collect();
    for round in 0..if long() { 50 } else { 2 } {
        let primary = group.failover();
        let begun = Instant::now();
        // Written to the one that is named, and to no other that takes itself for a primary: as soon
        // as the proxy has heard of it, and without an error until then.
        for (nth, conn) in conns.iter_mut().enumerate() {
            wait::until_true("the write", Duration::from_secs(4), || {
                assert_eq!(conn.ask(&format!("SET {nth}:{round} v")), "+OK\r\n", "round {round}");
                group.connect(primary).ask(&format!("GET {nth}:{round}")) == "$1\r\nv\r\n"
            });
            assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        }
        assert!(group.connect(primary).ask("ROLE").contains("master"), "round {round}");
        for server in (0..3).filter(|server| *server != primary) {
            group.wait_in_sync(server);
        }
    }
}

// envoy #38516, corvus #148, undermoon #316: keys were missed by SCAN. Three nodes become six, and three again, while it goes on.
#[test]
fn j7_an_iteration_over_three_six_and_three_nodes_finds_every_key() {
    const KEYS: usize = 6_000;
    let mut cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let mut conn = proxy.connect();
    // In a few slots, so that whole shares of the keys can be moved between two pages.
    let slots: Vec<u16> = (0..30).map(|n| n * (SLOTS / 30)).collect();
    let tags: Vec<String> =
        slots.iter().map(|slot| testkit::cluster::key_in_slot(*slot, 0)).collect();
    let names: Vec<String> =
        (0..KEYS).map(|n| format!("{{{}}}:{n}", tags[n % tags.len()])).collect();
    for chunk in names.chunks(500) {
        let pairs: Vec<String> = chunk.iter().map(|name| format!("{name} v")).collect();
        assert_eq!(conn.ask(&format!("MSET {}", pairs.join(" "))), "+OK\r\n");
    }
    let first: Vec<usize> = slots.iter().map(|slot| cluster.owner_of(*slot)).collect();
    let newcomers: Vec<usize> = (0..3).map(|_| cluster.add_node()).collect();
    cluster.wait_ok();
    // There, spread over the newcomers, and back; a slot between two pages each time.
    let there = slots.iter().enumerate().filter(|(nth, _)| nth % 2 == 0);
    let there: Vec<(u16, usize)> =
        there.map(|(nth, slot)| (*slot, newcomers[nth / 2 % 3])).collect();
    let back =
        slots.iter().zip(&first).filter(|(slot, _)| there.iter().any(|(moved, _)| moved == *slot));
    let back: Vec<(u16, usize)> = back.map(|(slot, owner)| (*slot, *owner)).collect();
    let mut moves = there.into_iter().chain(back);
    let (mut found, mut cursor, mut pages) = (BTreeSet::new(), "0".to_owned(), 0);
    loop {
        let reply = conn.command(&["SCAN", &cursor, "COUNT", "150"]).expect("a page");
        let value = resp::value::parse(&reply).expect("RESP").expect("whole").0;
        let page = value.as_list().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&reply)));
        cursor = String::from_utf8_lossy(page[0].as_text().expect("a cursor")).into_owned();
        let keys = page[1].as_list().expect("keys").iter().filter_map(|key| key.as_text());
        found.extend(keys.map(|key| String::from_utf8_lossy(key).into_owned()));
        pages += 1;
        assert!(pages < 5_000, "it does not end");
        if pages % 3 == 0
            && let Some((slot, to)) = moves.next()
        {
            let moved = cluster.begin_move(slot, to).and_then(SlotMove::finish);
            moved.unwrap_or_else(|error| panic!("slot {slot}: {error}"));
        }
        if cursor == "0" {
            break;
        }
    }
    println!("{pages} pages, {} moves left", moves.count());
    let missing = names.iter().filter(|name| !found.contains(*name)).count();
    assert_eq!(missing, 0, "of {KEYS}");
}

// rhubarbgroup/redis-cache #558 and others want it, with an error instead of nil for what cannot be asked.
#[test]
fn j8_mget_with_doubles_and_nils_over_a_node_that_dies_and_returns() {
    let mut cluster = RedisCluster::with(3, 0).partial_coverage().start();
    let proxy = front(&cluster, &[]);
    let mut conn = proxy.connect();
    let [a, b, c] = [0, 1, 2].map(|nth| key_on(nth, 70));
    let mget = format!("MGET {b} {a} none{{{b}}} {a} {c} {b} {a}");
    assert_eq!(conn.ask(&format!("MSET {a} 1 {b} 2")), "+OK\r\n");
    let whole = "*7\r\n$1\r\n2\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n$-1\r\n$1\r\n2\r\n$1\r\n1\r\n";
    assert_eq!(conn.ask(&mget), whole);
    let port = cluster.node(1).endpoint().tcp().port().to_string();
    cluster.kill(1);
    for words in [mget.clone(), format!("EXISTS {a} {b} {c}"), format!("TOUCH {a} {b}")] {
        let error = conn.ask(&words);
        assert!(error.starts_with('-') && !error.contains("MOVED"), "{words}: {error}");
        assert!(error.contains(&port) || error.starts_with("-CLUSTERDOWN"), "{words}: {error}");
    }
    assert_eq!(conn.ask(&format!("MGET {c} {a} {a}")), "*3\r\n$-1\r\n$1\r\n1\r\n$1\r\n1\r\n");
    cluster.restart(1);
    cluster.wait_ok();
    wait::until_true("the node", SOON, || conn.ask(&format!("SET {b} 2")) == "+OK\r\n");
    assert_eq!(conn.ask(&mget), whole);
}

// redis-rs #2115: after a demotion, READONLY until somebody restarts the client. Here the table of every node is stale as well: the
// sentinels are told last.
#[test]
fn c2_a_demoted_primary_is_left_without_a_word_of_readonly() {
    let group = SentinelGroup::start(1, 3);
    let proxy = Respool::to_url(RESPOOL, &group.url()).args(&HOLD).start();
    let mut conn = proxy.connect();
    let mut replies = BTreeSet::new();
    let until = |conn: &mut Conn, replies: &mut BTreeSet<String>, limit: Duration| {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            replies.insert(conn.ask("SET k v"));
            thread::sleep(Duration::from_millis(5));
        }
    };
    until(&mut conn, &mut replies, Duration::from_millis(300));
    let former = group.primary();
    let primary = group.failover();
    assert_ne!(primary, former);
    until(&mut conn, &mut replies, Duration::from_millis(2_500));
    assert_eq!(replies, BTreeSet::from(["+OK\r\n".to_owned()]));
}
