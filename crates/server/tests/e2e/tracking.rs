//! Client-side caching through the proxy, with caches that are compared with the server at the end.
//!
//! Invariant: whatever happened, a value that a client still has in its cache is the server's.

use std::time::{Duration, Instant};

use testkit::cluster::RedisCluster;
use testkit::{Cache, Conn, wait};

use crate::setup::{SOON, Stack, long};
use crate::topology::front;

fn key(number: usize) -> String {
    format!("key:{number}")
}

/// Reads and writes for a while, `meanwhile` something now and then; at the end every cache must be true.
#[track_caller]
fn assert_caches_stay_true(
    caches: &mut [Cache],
    writer: &mut Conn,
    mut meanwhile: impl FnMut(usize),
) {
    let rounds = if long() { 20_000 } else { 2_000 };
    let mut random = 1u64;
    let mut next = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    let count = caches.len();
    for round in 0..rounds {
        caches[next(count)].get(&key(next(50)));
        match next(10) {
            0 => drop(writer.ask(&format!("SET {} {round}", key(next(50))))),
            1 => drop(writer.ask(&format!("DEL {}", key(next(50))))),
            2 => {
                // Its own connection writes as well.
                let cache = &mut caches[next(count)];
                cache.conn.send_command(&["INCR", &format!("n{}", key(next(5)))]).expect("sent");
                cache.reply();
            }
            _ => {}
        }
        meanwhile(round);
    }
    // What is on its way arrives; then nothing may differ.
    let deadline = Instant::now() + SOON;
    loop {
        caches.iter_mut().for_each(|cache| cache.listen(Duration::from_millis(50)));
        let wrong: Vec<String> = caches
            .iter()
            .flat_map(|cache| &cache.values)
            .filter(|(key, value)| {
                let real = writer.ask(&format!("GET {key}"));
                let real = if real == "$-1\r\n" { "_\r\n".to_owned() } else { real };
                real != **value
            })
            .map(|(key, value)| format!("{key}: {value:?}"))
            .collect();
        if wrong.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "stale for ever: {wrong:?}");
    }
}

#[test]
fn caches_stay_true_in_every_mode() {
    let stack = Stack::start();
    let modes = ["", "", "OPTOUT", "NOLOOP", "BCAST", "BCAST PREFIX key: PREFIX nkey:"];
    let mut caches: Vec<Cache> =
        modes.iter().map(|mode| Cache::new(stack.connect(), mode)).collect();
    let mut writer = stack.connect();
    assert_caches_stay_true(&mut caches, &mut writer, |_| {});
    for (cache, mode) in caches.iter().zip(modes) {
        assert!(cache.told > 50, "{mode}: told of {} keys", cache.told);
    }
    assert!(caches.iter().any(|cache| !cache.values.is_empty()));
}

#[test]
fn connections_that_are_lost_leave_no_stale_value() {
    let stack = Stack::start();
    let modes = ["", "", "", "BCAST", "BCAST PREFIX key:"];
    let mut caches: Vec<Cache> =
        modes.iter().map(|mode| Cache::new(stack.connect(), mode)).collect();
    let (mut writer, mut killer) = (stack.server.connect(), stack.server.connect());
    assert_caches_stay_true(&mut caches, &mut writer, |round| {
        if round % 400 == 399 {
            // All of the proxy's, and those of nobody else.
            let list = killer.ask("CLIENT LIST");
            for line in list.lines().filter(|line| line.contains("name=respool")) {
                let id =
                    line.split(' ').next().and_then(|id| id.strip_prefix("id=")).expect("an id");
                killer.ask(&format!("CLIENT KILL ID {id}"));
            }
        }
    });
    assert!(caches.iter().all(|cache| cache.dropped > 0));
}

#[test]
fn caches_stay_true_before_a_cluster_whose_slots_move() {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let modes = ["", "", "NOLOOP", "BCAST", "BCAST PREFIX key:"];
    let mut caches: Vec<Cache> =
        modes.iter().map(|mode| Cache::new(proxy.connect(), mode)).collect();
    let mut writer = proxy.connect();
    let slots: Vec<u16> = (0..50).map(|n| testkit::cluster::slot_of(key(n).as_bytes())).collect();
    let mut moves = 0;
    assert_caches_stay_true(&mut caches, &mut writer, |round| {
        if round % 400 == 399 {
            let slot = slots[moves % slots.len()];
            let to = (cluster.owner_of(slot) + 1) % 3;
            let mut moving = cluster.begin_move(slot, to).expect("moving");
            while moving.move_keys(10).expect("keys") > 0 {}
            moving.finish().expect("moved");
            cluster.wait_agreed();
            moves += 1;
        }
    });
    assert!(moves > 3);
    proxy_lives(&mut writer);
}

fn proxy_lives(conn: &mut Conn) {
    assert_eq!(conn.ask("PING"), "+PONG\r\n");
}

#[test]
fn many_caches_cost_the_server_one_connection_for_each_worker() {
    let stack = Stack::start();
    let mut caches: Vec<Cache> = (0..200).map(|_| Cache::new(stack.connect(), "")).collect();
    let mut server = stack.server.connect();
    assert_eq!(server.ask("SET key:1 a"), "+OK\r\n");
    for cache in &mut caches {
        assert_eq!(cache.get("key:1"), "$1\r\na\r\n");
    }
    let tracking = server.ask("INFO clients");
    let count = tracking.lines().find_map(|line| line.strip_prefix("tracking_clients:"));
    assert!(matches!(count, Some("1" | "2")), "{count:?}");
    assert_eq!(server.ask("SET key:1 b"), "+OK\r\n");
    wait::until_true("everybody was told", SOON, || {
        caches.iter_mut().for_each(|cache| cache.listen(Duration::from_millis(1)));
        caches.iter().all(|cache| cache.told == 1)
    });
}

#[test]
fn a_resp2_client_hears_through_another_one_of_any_worker() {
    let stack = Stack::start();
    // Enough that both workers have some.
    for _ in 0..8 {
        let (mut reader, mut ear) = (stack.connect(), stack.connect());
        let id = ear.ask("CLIENT ID");
        ear.ask("SUBSCRIBE __redis__:invalidate");
        let id = id.trim_start_matches(':').trim_end();
        assert_eq!(reader.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK\r\n");
        reader.ask("GET k");
        assert_eq!(stack.connect().ask("INCR k").as_bytes()[0], b':');
        let heard = ear.reply().expect("a message");
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(
            heard.contains("__redis__:invalidate") && heard.ends_with("*1\r\n$1\r\nk\r\n"),
            "{heard}"
        );
    }
    assert!(stack.connect().ask("CLIENT TRACKING ON REDIRECT 999999").contains("does not exist"));
}
