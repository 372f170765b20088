//! Subscriptions through the proxy: beside a direct connection, for many clients at once, and while servers come and go.
//!
//! Invariant: after each test the server has no listener but the proxy's, and none at all when the clients have left.

use std::thread;
use std::time::Duration;

use testkit::cluster::{Failover, RedisCluster, key_in_slot};
use testkit::listen::{frame, until_heard};
use testkit::{Conn, Endpoint, Respool, Shards, wait};

use crate::setup::{RESPOOL, SOON, Stack, direct, long};
use crate::topology::{front, key_on};

fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).into_owned()
}

fn next(conn: &mut Conn) -> String {
    text(&conn.reply().expect("a reply or a message"))
}

/// So many connections to the server listen.
fn listeners(stack: &Stack) -> usize {
    let clients = stack.server.connect().ask("CLIENT LIST TYPE pubsub");
    clients.lines().filter(|line| line.starts_with("id=")).count()
}

/// Both answer these lines with the same: so many frames are read after each line.
#[track_caller]
fn alike(stack: &Stack, hello: &str, lines: &[(&str, usize)]) {
    let (mut one, mut other) = (stack.server.connect(), stack.connect());
    for conn in [&mut one, &mut other] {
        // Its reply tells the connection's id.
        conn.ask(hello);
    }
    for (line, frames) in lines {
        let words: Vec<&str> = line.split(' ').collect();
        for conn in [&mut one, &mut other] {
            conn.send_command(&words).expect("sent");
        }
        for number in 0..*frames {
            let (direct, through) = (next(&mut one), next(&mut other));
            assert_eq!(through, direct, "frame {number} of {line} in {lines:?} after {hello}");
        }
    }
    assert!(one.surplus().is_empty() && other.surplus().is_empty(), "{lines:?}");
}

#[test]
fn clients_see_what_they_would_see_directly() {
    let stack = Stack::start();
    let lines: &[&[(&str, usize)]] = &[
        &[("SUBSCRIBE a", 1), ("SUBSCRIBE b a", 2), ("PSUBSCRIBE p* q?", 2), ("SSUBSCRIBE s t", 2)],
        &[("SUBSCRIBE a", 1), ("UNSUBSCRIBE a", 1), ("UNSUBSCRIBE", 1), ("GET k", 1)],
        &[("UNSUBSCRIBE x y", 2), ("PUNSUBSCRIBE", 1), ("SUNSUBSCRIBE s", 1)],
        &[("SUBSCRIBE a", 1), ("PING", 1), ("PING x", 1), ("GET k", 1), ("NOSUCH", 1), ("GET", 1)],
        &[("SUBSCRIBE", 1), ("PSUBSCRIBE", 1), ("SSUBSCRIBE", 1), ("PUBLISH", 1), ("PUBLISH a", 1)],
        &[("SUBSCRIBE a", 1), ("RESET", 1), ("GET k", 1), ("SUBSCRIBE a", 1)],
        &[("PUBSUB NOSUCH", 1), ("PUBSUB NUMSUB", 1), ("PUBSUB CHANNELS no*", 1), ("PUBSUB", 1)],
        &[("CLIENT REPLY OFF", 0), ("SUBSCRIBE a", 1), ("UNSUBSCRIBE", 1)],
        &[("SUBSCRIBE a", 1), ("CLIENT GETNAME", 1), ("MULTI", 1), ("SELECT 1", 1), ("QUIT", 1)],
    ];
    for hello in ["HELLO 2", "HELLO 3"] {
        lines.iter().for_each(|lines| alike(&stack, hello, lines));
    }
    wait::until_true("no listener at the server", SOON, || listeners(&stack) == 0);
}

#[test]
fn many_listeners_cost_the_server_one_for_each_worker() {
    let count = if long() { 10_000 } else { 1_000 };
    // Somebody publishes beside them.
    let stack = Stack::with(&["--max-clients", "10100"]);
    let mut clients: Vec<Conn> = (0..count).map(|_| stack.connect()).collect();
    for conn in &mut clients {
        conn.send(b"SUBSCRIBE news\r\n").expect("sent");
    }
    for conn in &mut clients {
        assert_eq!(next(conn), frame('*', &["subscribe", "news", ":1"]));
    }
    let mut server = stack.server.connect();
    if !direct() {
        let seen = server.ask("PUBSUB NUMSUB news");
        assert!(
            ["1", "2"].iter().any(|n| seen == frame('*', &["news", &format!(":{n}")])),
            "{seen}"
        );
    }
    let all = format!(":{count}");
    let mut publisher = stack.connect();
    wait::until_true("all workers know of each other's listeners", SOON, || {
        publisher.ask("PUBSUB NUMSUB news") == frame('*', &["news", &all])
    });
    assert_eq!(publisher.ask("PUBLISH news hello"), format!("{all}\r\n"));
    for conn in &mut clients {
        assert_eq!(next(conn), frame('*', &["message", "news", "hello"]));
    }
    // Half of them leave in their ways.
    for conn in clients.drain(..count / 2) {
        drop(conn);
    }
    let all = format!(":{}", count - count / 2);
    wait::until_true("those that left are not counted", SOON, || {
        publisher.ask("PUBSUB NUMSUB news") == frame('*', &["news", &all])
    });
    drop(clients);
    wait::until_true("no listener at the server", SOON, || listeners(&stack) == 0);
}

#[test]
fn whoever_left_is_counted_no_more() {
    let stack = Stack::start();
    let (mut listener, mut publisher) = (stack.connect(), stack.connect());
    for n in 0..300 {
        let channel = format!("c{n}");
        assert_eq!(
            listener.ask(&format!("SUBSCRIBE {channel}")),
            frame('*', &["subscribe", &channel, ":1"])
        );
        assert_eq!(publisher.ask(&format!("PUBLISH {channel} x")), ":1\r\n");
        assert_eq!(next(&mut listener), frame('*', &["message", &channel, "x"]));
        assert_eq!(
            listener.ask(&format!("UNSUBSCRIBE {channel}")),
            frame('*', &["unsubscribe", &channel, ":0"])
        );
        assert_eq!(publisher.ask(&format!("PUBLISH {channel} x")), ":0\r\n");
    }
    assert!(listener.surplus().is_empty());
}

// Of a fifth of such messages nothing was seen: the client had left while they were in the socket.
#[test]
fn what_was_published_before_a_client_leaves_comes_before_the_confirmation() {
    let stack = Stack::start();
    let ways = [
        ("SUBSCRIBE", "UNSUBSCRIBE", "PUBLISH"),
        ("PSUBSCRIBE", "PUNSUBSCRIBE", "PUBLISH"),
        ("SSUBSCRIBE", "SUNSUBSCRIBE", "SPUBLISH"),
        ("SUBSCRIBE", "RESET", "PUBLISH"),
    ];
    let mut publisher = stack.connect();
    for (n, (begin, end, publish)) in ways.iter().cycle().take(200).enumerate() {
        let channel = format!("c{n}");
        let mut others: Vec<Conn> = (0..n / ways.len() % 3).map(|_| stack.connect()).collect();
        let mut client = stack.connect();
        for conn in others.iter_mut().chain([&mut client]) {
            conn.ask(&format!("{begin} {channel}"));
        }
        // The workers tell each other how many listen, in their own time.
        assert!(publisher.ask(&format!("{publish} {channel} hello")).starts_with(':'));
        client.send(format!("{end}\r\nPING\r\n").as_bytes()).expect("sent");
        let frames: Vec<String> = (0..3).map(|_| next(&mut client)).collect();
        assert!(frames[0].contains("hello"), "{end} {n}: {frames:?}");
        let ends = frames[1].to_uppercase();
        assert!(ends.contains(end) && frames[2] == "+PONG\r\n", "{end} {n}: {frames:?}");
    }
}

#[test]
fn every_message_comes_once_and_in_order() {
    let stack = Stack::start();
    let mut listeners: Vec<Conn> = (0..8).map(|_| stack.connect()).collect();
    for conn in &mut listeners {
        conn.ask("SUBSCRIBE c");
        conn.ask("PSUBSCRIBE c*");
    }
    let mut publisher = stack.connect();
    let messages = 5_000;
    for batch in (0..messages).collect::<Vec<u32>>().chunks(500) {
        let bytes: String = batch.iter().map(|n| format!("PUBLISH c {n}\r\n")).collect();
        publisher.send(bytes.as_bytes()).expect("sent");
        for _ in batch {
            assert_eq!(next(&mut publisher), ":16\r\n");
        }
    }
    for conn in &mut listeners {
        for n in 0..messages {
            let n = n.to_string();
            assert_eq!(next(conn), frame('*', &["message", "c", &n]));
            assert_eq!(next(conn), frame('*', &["pmessage", "c*", "c", &n]));
        }
    }
}

#[test]
fn a_server_that_comes_back_is_listened_to_again() {
    if direct() {
        return;
    }
    let mut stack = Stack::start();
    let mut listener = stack.connect();
    assert_eq!(listener.ask("SUBSCRIBE a b"), frame('*', &["subscribe", "a", ":1"]));
    assert_eq!(next(&mut listener), frame('*', &["subscribe", "b", ":2"]));
    for round in 0..3 {
        stack.server.restart();
        let mut publisher = stack.server.connect();
        wait::until_true("the proxy listens again", SOON, || {
            publisher.ask("PUBSUB NUMSUB a b") == frame('*', &["a", ":1", "b", ":1"])
        });
        let said = format!("round{round}");
        publisher.ask(&format!("PUBLISH b {said}"));
        assert_eq!(next(&mut listener), frame('*', &["message", "b", &said]));
    }
    // While it is away whoever asks is told, and whoever listens waits.
    stack.server.kill();
    let mut other = stack.connect();
    wait::until_true("an error that names the node", SOON, || {
        other.ask("SUBSCRIBE c").starts_with("-ERR respool: upstream 127.0.0.1")
    });
    assert!(listener.is_silent_for(Duration::from_millis(100)));
}

#[test]
fn keyspace_events_come_from_every_primary_of_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    cluster.tell_all(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    let proxy = front(&cluster, &[]);
    let (mut events, mut all) = (proxy.connect(), proxy.connect());
    events.ask("SUBSCRIBE __keyevent@0__:set");
    all.ask("PSUBSCRIBE *");
    let mut conn = proxy.connect();
    for nth in 0..3 {
        let key = key_on(nth, 7);
        assert_eq!(conn.ask(&format!("SET {key} 1")), "+OK\r\n");
        assert_eq!(next(&mut events), frame('*', &["message", "__keyevent@0__:set", &key]));
        let space = format!("__keyspace@0__:{key}");
        assert_eq!(next(&mut all), frame('*', &["pmessage", "*", &space, "set"]));
        assert_eq!(next(&mut all), frame('*', &["pmessage", "*", "__keyevent@0__:set", &key]));
        // An ordinary message comes once, whichever node passes it on.
        conn.ask(&format!("PUBLISH {key} hello"));
        assert_eq!(next(&mut all), frame('*', &["pmessage", "*", &key, "hello"]));
    }
    thread::sleep(Duration::from_millis(100));
    assert!(all.is_silent_for(Duration::from_millis(50)), "{:?}", text(all.surplus()));
}

#[test]
fn row_9_shard_channels_follow_their_slots() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let slots = 20..26;
    let channels: Vec<String> = slots.clone().map(|slot| key_in_slot(slot, 0)).collect();
    let mut listener = proxy.connect();
    for (n, channel) in (1..).zip(&channels) {
        let confirmed = listener.ask(&format!("SSUBSCRIBE {channel}"));
        assert_eq!(confirmed, frame('*', &["ssubscribe", channel, &format!(":{n}")]));
    }
    // Another one comes and goes all the time, and one does ordinary work over the same nodes.
    let (mut restless, mut worker, mut publisher) =
        (proxy.connect(), proxy.connect(), proxy.connect());
    let mut count = 0;
    for round in 0..if long() { 40 } else { 8 } {
        for (slot, channel) in slots.clone().zip(&channels) {
            let moving = cluster.begin_move(slot, 1 - cluster.owner_of(slot)).expect("moving");
            assert_eq!(
                restless.ask(&format!("SSUBSCRIBE {channel}")),
                frame('*', &["ssubscribe", channel, ":1"])
            );
            moving.finish().expect("moved");
            let answer = restless.ask(&format!("SUNSUBSCRIBE {channel}"));
            assert_eq!(answer, frame('*', &["sunsubscribe", channel, ":0"]));
            for other in &channels {
                count += 1;
                assert_eq!(worker.ask(&format!("INCR count{{{other}}}")).as_bytes()[0], b':');
            }
        }
        for channel in &channels {
            let mut publish = |n: u32| {
                publisher.ask(&format!("SPUBLISH {channel} {round}-{n}"));
            };
            // It is told of no move and hears what is said afterwards.
            until_heard(&mut publish, &mut listener, Duration::from_secs(5));
        }
        cluster.wait_agreed();
    }
    let sum: u64 = channels
        .iter()
        .map(|channel| worker.ask(&format!("GET count{{{channel}}}")))
        .filter_map(|reply| reply.lines().nth(1)?.parse::<u64>().ok())
        .sum();
    assert_eq!(sum, count);
    listener.send(b"SUNSUBSCRIBE\r\n").expect("sent");
    let mut left = Vec::new();
    for _ in &channels {
        left.push(next(&mut listener));
    }
    assert!(left.iter().all(|frame| frame.contains("sunsubscribe")), "{left:?}");
}

#[test]
fn listeners_go_along_with_a_failover() {
    let mut cluster = RedisCluster::with(3, 1).node_timeout_ms(1_000).start();
    let proxy = front(&cluster, &[]);
    let slot = 100;
    let (channel, mut plain, mut shard) = (key_in_slot(slot, 0), proxy.connect(), proxy.connect());
    plain.ask(&format!("SUBSCRIBE {channel}"));
    shard.ask(&format!("SSUBSCRIBE {channel}"));
    let mut publisher = proxy.connect();
    // Graceful, then by death.
    for graceful in [true, false] {
        let owner = cluster.owner_of(slot);
        if graceful {
            let replica = cluster.replicas_of(owner)[0];
            cluster.failover(replica, Failover::Graceful);
        } else {
            cluster.kill(owner);
        }
        cluster.wait_new_owner(slot, owner);
        for (verb, listener) in [("PUBLISH", &mut plain), ("SPUBLISH", &mut shard)] {
            let mut publish = |n: u32| {
                publisher.ask(&format!("{verb} {channel} {n}"));
            };
            until_heard(&mut publish, listener, Duration::from_secs(10));
        }
    }
}

#[test]
fn each_channel_of_a_pool_of_shards_has_its_shard() {
    let shards = Shards::start(3);
    let urls: Vec<String> = shards.endpoints().iter().map(Endpoint::url).collect();
    let proxy = Respool::to_shards(RESPOOL, &urls).start();
    let (mut exact, mut pattern, mut publisher) =
        (proxy.connect(), proxy.connect(), proxy.connect());
    pattern.ask("PSUBSCRIBE c*");
    for n in 0..20 {
        let channel = format!("c{n}");
        exact.ask(&format!("SUBSCRIBE {channel}"));
        assert_eq!(publisher.ask(&format!("PUBLISH {channel} x")), ":2\r\n");
        assert_eq!(next(&mut exact), frame('*', &["message", &channel, "x"]));
        assert_eq!(next(&mut pattern), frame('*', &["pmessage", "c*", &channel, "x"]));
    }
}
