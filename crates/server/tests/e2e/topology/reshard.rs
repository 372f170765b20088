//! Rows 7 and 8: slots on the move, under load and standing still in the middle.
//!
//! Invariant: moving a slot is no fault. Nobody sees an error, an older value or a second INCR.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use testkit::cluster::{RedisCluster, key_in_slot};
use testkit::frames::request;
use testkit::{Conn, Respool, wait};

use super::{during, front, key_on, load};
use crate::setup::{SOON, long};

/// How many slots are moved under load.
fn moves_min() -> u64 {
    if long() { 4_000 } else { 150 }
}

/// The slots of the run that watches every single reply, and how often one of them is moved.
const SLOTS: Range<u16> = 20..32;
const MOVES: u64 = 60;

/// A fresh cluster of three, a proxy and a client.
fn three() -> (RedisCluster, Respool, Conn) {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let conn = proxy.connect();
    (cluster, proxy, conn)
}

/// Moves slots between the nodes 0 and 1 and back until told to stop, and counts.
///
/// A slot that goes back while gossip of its last move is still on the way can end between two nodes
/// that both believe the other one has it (Redis 7.0). So each move is waited for, and each slot
/// rests while the others have their turn.
fn to_and_fro(cluster: &RedisCluster, slots: Range<u16>, stop: &AtomicBool, moves: &AtomicU64) {
    for slot in slots.cycle().take_while(|_| !stop.load(Ordering::Acquire)) {
        let mut moving = cluster.begin_move(slot, 1 - cluster.owner_of(slot)).expect("moving");
        // One key at a time, so that there is something to meet.
        while moving.move_keys(1).expect("a key") > 0 {
            thread::yield_now();
        }
        moving.finish().expect("moved");
        cluster.wait_agreed();
        moves.fetch_add(1, Ordering::AcqRel);
    }
}

/// The replies to these requests, sent in one write.
#[track_caller]
fn pipeline(conn: &mut Conn, requests: &[&[&str]]) -> Vec<String> {
    let bytes: Vec<Vec<u8>> = requests.iter().map(|args| request(args)).collect();
    let replies = conn.pipeline(&bytes).expect("replies to all");
    replies.into_iter().map(|reply| String::from_utf8_lossy(&reply).into_owned()).collect()
}

// The slots that move are those of the checker's own keys, or the test would move air.
#[test]
fn row_07_resharding_back_and_forth_costs_no_client_an_error() {
    let (cluster, proxy, _) = three();
    // One at a time: a node that takes part in two moves at once can claim, with the newer epoch of the one, the slot that it is just
    // giving away in the other (Redis 7.0), and then both ends name each other.
    let shuttle = cluster.reshard_loop(10..160, 0, 1);
    let mut checker = load(&proxy, &cluster, 1, 12);
    checker.depth_max = 40;
    let (verdict, ()) = during(&checker, || {
        wait::until_true("the moves", Duration::from_secs(if long() { 600 } else { 60 }), || {
            assert!(!shuttle.has_ended());
            shuttle.moves() > moves_min()
        });
    });
    verdict.assert_faultless();
    assert!(verdict.answered > 1_000, "{verdict}");
    shuttle.stop().expect("slots can be moved");
}

// Each client knows every reply to the byte: counters in two slots that go to and fro, and MSET and
// MGET over these and a third slot that stays.
#[test]
fn row_07_requests_on_the_very_slots_that_move_are_executed_once_and_in_order() {
    let (cluster, proxy, _) = three();
    let (stop, moves) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let shuttle = scope.spawn(|| to_and_fro(&cluster, SLOTS, &stop, &moves));
        let moves = &moves;
        let clients: Vec<_> = (0..10)
            .map(|client| {
                let proxy = &proxy;
                scope.spawn(move || {
                    let mut conn = proxy.connect();
                    let keys: Vec<String> = [client, client + 5]
                        .map(|nth| SLOTS.start + nth % SLOTS.len() as u16)
                        .map(|slot| format!("{{{}}}:{client}", key_in_slot(slot, 0)))
                        .into_iter()
                        .chain([key_on(2, client)])
                        .collect();
                    let counter = |at: usize| format!("{}:count", keys[at]);
                    for round in (1..).take_while(|_| moves.load(Ordering::Acquire) < MOVES) {
                        let value = format!("v{client}:{round}");
                        let mut mset = vec!["MSET"];
                        keys.iter().for_each(|key| mset.extend([key.as_str(), &value]));
                        let mut mget = vec!["MGET"];
                        mget.extend(keys.iter().map(String::as_str));
                        let (first, second) = (counter(0), counter(1));
                        let replies = pipeline(
                            &mut conn,
                            &[
                                &["INCR", &first],
                                &mset,
                                &["INCR", &second],
                                &mget,
                                &["INCR", &first],
                                &["APPEND", &format!("{second}:log"), "x"],
                                &["STRLEN", &format!("{second}:log")],
                            ],
                        );
                        let element = format!("${}\r\n{value}\r\n", value.len());
                        let expected = [
                            format!(":{}\r\n", 2 * round - 1),
                            "+OK\r\n".to_owned(),
                            format!(":{round}\r\n"),
                            format!("*3\r\n{}", element.repeat(3)),
                            format!(":{}\r\n", 2 * round),
                            format!(":{round}\r\n"),
                            format!(":{round}\r\n"),
                        ];
                        assert_eq!(replies, expected, "client {client}, round {round}");
                    }
                })
            })
            .collect();
        let ends: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Release);
        ends.into_iter().for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)));
        shuttle.join().unwrap_or_else(|panic| resume_unwind(panic));
    });
}

// The slot stays half moved: one key is here, one there, one nowhere.
#[test]
fn row_08_a_half_moved_slot_is_served_key_by_key() {
    let (cluster, proxy, mut conn) = three();
    let tag = key_on(0, 30);
    let [stays, moves, absent] = ["stays", "moves", "new"].map(|name| format!("{{{tag}}}{name}"));
    assert_eq!(conn.ask(&format!("MSET {stays} 1 {moves} 2")), "+OK\r\n");
    let mut slot = cluster.begin_move(30, 1).expect("the move");
    slot.move_key(&moves).expect("the key");

    // Other clients have traffic of the same connections around each ASKING: it must stand right
    // before its own request and before no other.
    thread::scope(|scope| {
        for client in 0..6 {
            let (proxy, tag, stays, moves) = (&proxy, &tag, &stays, &moves);
            scope.spawn(move || {
                let mut conn = proxy.connect();
                let own = format!("{{{tag}}}own{client}");
                let elsewhere = key_on(1, client);
                for round in 1..=30 {
                    let count = round.to_string();
                    let replies = pipeline(
                        &mut conn,
                        &[
                            &["GET", stays],
                            &["INCR", &own],
                            &["GET", moves],
                            &["SET", &elsewhere, &count],
                            &["INCR", &own],
                            &["GET", &elsewhere],
                            &["GET", stays],
                        ],
                    );
                    let expected = [
                        "$1\r\n1\r\n".to_owned(),
                        format!(":{}\r\n", 2 * round - 1),
                        "$1\r\n2\r\n".to_owned(),
                        "+OK\r\n".to_owned(),
                        format!(":{}\r\n", 2 * round),
                        format!("${}\r\n{count}\r\n", count.len()),
                        "$1\r\n1\r\n".to_owned(),
                    ];
                    assert_eq!(replies, expected, "client {client}, round {round}");
                }
            });
        }
    });
    assert_eq!(conn.ask(&format!("SET {absent} 3")), "+OK\r\n");
    assert_eq!(cluster.node(1).connect().ask("DBSIZE"), ":14\r\n", "new keys are at the target");

    // Keys on both sides: TRYAGAIN until the move goes on, which a client sees as a wait.
    conn.send_command(&["MGET", &stays, &moves, &absent]).expect("sent");
    conn.send_command(&["PING"]).expect("sent");
    assert!(conn.is_silent_for(Duration::from_millis(200)), "it waits for the move");
    slot.finish().expect("the end");
    assert_eq!(conn.reply().expect("the values"), b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
    assert_eq!(conn.reply().expect("in order"), b"+PONG\r\n");
}

// A slot may migrate for hours. Meanwhile its next owner executes transactions with keys that moved already or exist nowhere yet.
// Valkey 9.1 redirects EXEC and not the first command, so respool reaches the next owner with watched keys only.
#[test]
fn row_08_transactions_go_on_while_their_slot_migrates() {
    let (cluster, _proxy, mut conn) = three();
    let tag = key_on(0, 32);
    let (there, fresh) = (format!("{{{tag}}}there"), format!("{{{tag}}}fresh"));
    assert_eq!(conn.ask(&format!("SET {there} 1")), "+OK\r\n");
    let mut slot = cluster.begin_move(32, 1).expect("the move");
    slot.move_key(&there).expect("the key");
    conn.set_timeout(SOON);
    let late = conn.ask("INFO server").contains("valkey_version:9.");
    for (key, mut value) in [(&there, 1), (&fresh, 0)] {
        let incr: &[&str] = &["INCR", key];
        if !late {
            let replies = pipeline(&mut conn, &[&["MULTI"], incr, incr, &["EXEC"], &["GET", key]]);
            let done = format!("*2\r\n:{}\r\n:{}\r\n", value + 1, value + 2);
            let read = format!("$1\r\n{}\r\n", value + 2);
            assert_eq!(replies, ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", &done, &read]);
            value += 2;
        }
        for begin in ["", "WATCH"].into_iter().filter(|begin| !begin.is_empty() || !late) {
            if begin == "WATCH" {
                assert_eq!(conn.ask(&format!("WATCH {key}")), "+OK\r\n");
                let read = conn.ask(&format!("STRLEN {key}"));
                assert_eq!(read, format!(":{}\r\n", u8::from(value > 0)));
            }
            let replies = ["MULTI", &incr.join(" "), "EXEC"].map(|words| conn.ask(words));
            value += 1;
            assert_eq!(replies, ["+OK\r\n", "+QUEUED\r\n", &format!("*1\r\n:{value}\r\n")]);
        }
        assert_eq!(conn.ask(&format!("GET {key}")), format!("$1\r\n{value}\r\n"));
    }
    slot.finish().expect("the end");
    assert_eq!(conn.ask(&format!("EXISTS {there} {fresh}")), ":2\r\n");
}

// The end of waiting: TRYAGAIN for longer than a request is tried is an error of this request and
// of no other one.
#[test]
fn row_08_a_move_that_never_ends_is_told_in_the_end() {
    let (cluster, _proxy, mut conn) = three();
    let tag = key_on(0, 31);
    assert_eq!(conn.ask(&format!("MSET {{{tag}}}a 1 {{{tag}}}b 2")), "+OK\r\n");
    let mut slot = cluster.begin_move(31, 1).expect("the move");
    slot.move_key(&format!("{{{tag}}}a")).expect("the key");
    conn.set_timeout(SOON);
    let error = conn.ask(&format!("MGET {{{tag}}}a {{{tag}}}b"));
    assert!(error.starts_with('-') && error.contains("TRYAGAIN"), "{error}");
    assert_eq!(conn.ask(&format!("GET {{{tag}}}a")), "$1\r\n1\r\n");
    assert_eq!(conn.ask(&format!("GET {{{tag}}}b")), "$1\r\n2\r\n");
    slot.cancel().expect("back");
    assert_eq!(conn.ask(&format!("MGET {{{tag}}}a {{{tag}}}b")), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}

// One part of a split request is sent on, the others are not; the reply is in the order of the
// request all the same.
#[test]
fn row_08_one_part_of_a_split_request_is_asked_elsewhere() {
    let (cluster, _proxy, mut conn) = three();
    let keys: Vec<String> = (0..3).map(|nth| key_on(nth, 40)).collect();
    let moving = &keys[0];
    let words = keys.join(" ");
    assert_eq!(conn.ask(&format!("MSET {} a {} b {} c", keys[0], keys[1], keys[2])), "+OK\r\n");
    let mut slot = cluster.begin_move(40, 2).expect("the move");
    slot.move_key(moving).expect("the key");
    let mut resp3 = Conn::to(_proxy.endpoint());
    assert!(resp3.ask("HELLO 3").starts_with('%'));
    for conn in [&mut conn, &mut resp3] {
        let replies = pipeline(
            conn,
            &[
                &["GET", &keys[1]],
                &["MGET", &keys[2], moving, "nothing", &keys[1], moving],
                &["EXISTS", moving, &keys[1], moving],
                &["GET", moving],
            ],
        );
        let null = if replies[1].contains('_') { "_\r\n" } else { "$-1\r\n" };
        let values = format!("*5\r\n$1\r\nc\r\n$1\r\na\r\n{null}$1\r\nb\r\n$1\r\na\r\n");
        assert_eq!(replies, ["$1\r\nb\r\n", &values, ":3\r\n", "$1\r\na\r\n"]);
    }
    assert_eq!(conn.ask(&format!("MSET {} x {} y {} z", keys[0], keys[1], keys[2])), "+OK\r\n");
    assert_eq!(conn.ask(&format!("UNLINK {words}")), ":3\r\n");
    slot.finish().expect("the end");
    assert_eq!(conn.ask(&format!("EXISTS {words}")), ":0\r\n");
}

// Values too large for a buffer are streamed: what was streamed to the wrong node has to be sent
// again from somewhere, or the client has to be told.
#[test]
fn row_08_large_values_find_their_node() {
    const BYTES: usize = 8 * 1024 * 1024;
    let (cluster, proxy, mut conn) = three();
    let value = "0123456789abcdef".repeat(BYTES / 16);
    let key = key_on(0, 50);
    assert_eq!(conn.command(&["SET", &key, &value]).expect("SET"), b"+OK\r\n");
    let whole = format!("${BYTES}\r\n{value}\r\n").into_bytes();
    assert!(conn.command(&["GET", &key]).expect("GET") == whole, "8 MiB come back");

    let mut slot = cluster.begin_move(50, 1).expect("the move");
    slot.move_key(&key).expect("the key");
    assert!(conn.command(&["GET", &key]).expect("GET") == whole, "read where it is now");
    slot.finish().expect("the end");
    // A client on the other worker, whose table is old; a small request is what tells it.
    for _ in 0..4 {
        let mut other = proxy.connect();
        assert!(other.command(&["GET", &key]).expect("GET") == whole, "read by a stale table");
        assert_eq!(other.command(&["SET", &key, &value]).expect("SET"), b"+OK\r\n");
    }
    let (far, near) = (key_on(2, 51), key_on(1, 51));
    let reply = conn.command(&["MSET", &far, &value, &near, "small"]).expect("MSET");
    // It is larger than what is kept to be split.
    let reply = String::from_utf8_lossy(&reply).into_owned();
    assert!(reply == "+OK\r\n" || reply.contains("too large to be split"), "{reply}");
    let stored = reply == "+OK\r\n";
    assert_eq!(conn.ask(&format!("EXISTS {near} {far}")), format!(":{}\r\n", 2 * u8::from(stored)));
}

// The first thing a proxy sees of the move is a large SET that its old node redirects.
#[test]
fn row_08_a_large_write_by_a_stale_table_is_stored_or_told() {
    const BYTES: usize = 8 * 1024 * 1024;
    let (cluster, proxy, _) = three();
    let value = "v".repeat(BYTES);
    let mut told = 0;
    for number in 60..64 {
        let key = key_on(0, number);
        cluster.begin_move(number, 1).and_then(testkit::cluster::SlotMove::finish).expect("moved");
        let mut conn = proxy.connect();
        let reply = conn.command(&["SET", &key, &value]).expect("a reply");
        let length = conn.ask(&format!("STRLEN {key}"));
        match reply.starts_with(b"-") {
            true => {
                told += 1;
                assert!(!reply.starts_with(b"-MOVED"), "a redirect is no answer to a client");
                assert_eq!(length, ":0\r\n");
                // The table is right by now.
                assert_eq!(conn.command(&["SET", &key, &value]).expect("SET"), b"+OK\r\n");
            }
            false => assert_eq!(length, format!(":{BYTES}\r\n")),
        }
    }
    println!("{told} of 4 large writes were refused");
}
