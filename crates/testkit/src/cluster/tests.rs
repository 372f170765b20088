//! The clusters that [`RedisCluster`] starts are real and do what its methods say.
//!
//! Each test starts a cluster of its own and takes some two to six seconds, most of it the server's
//! own waiting. Starts have bounds far above what they take (some 2.2 s), for busy machines.

use std::time::Instant;

use super::*;
use crate::admin::Login;
use crate::conn::Conn;
use crate::relay::End;

#[test]
fn three_primaries_share_all_slots() {
    let begun = Instant::now();
    let cluster = RedisCluster::start(3, 0);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(cluster.primaries(), [0, 1, 2]);
    assert_eq!([0, 5460, 5461, 10922, 16383].map(|slot| cluster.owner_of(slot)), [0, 0, 1, 2, 2]);
    let key = key_in_slot(7000, 0);
    assert!(cluster.node(0).connect().ask(&format!("SET {key} v")).starts_with("-MOVED 7000 "));
    assert_eq!(cluster.node(1).connect().ask(&format!("SET {key} v")), "+OK\r\n");
    assert_eq!(cluster.node(1).keys(), [key.as_bytes()]);
    // The redirected one is not counted.
    assert_eq!((cluster.calls_total("set"), cluster.node(1).calls("set")), (1, 1));
    cluster.reset_calls();
    assert_eq!(cluster.calls_total("set"), 0);
    assert!(cluster.url().starts_with("redis-cluster://127.0.0.1:"));
}

#[test]
fn fifteen_primaries_start_in_time() {
    let begun = Instant::now();
    let cluster = RedisCluster::start(15, 0);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let owners: Vec<usize> = (0..15).map(|at| cluster.owner_of(at * 1092 + 500)).collect();
    assert_eq!(owners, (0..15).collect::<Vec<_>>());
}

#[test]
fn replicas_take_over_when_told_and_when_needed() {
    let begun = Instant::now();
    let mut cluster = RedisCluster::with(3, 1).node_timeout_ms(1_000).start();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(cluster.replicas_of(1), [4]);
    let key = key_in_slot(100, 0);
    cluster.node(0).connect().ask(&format!("SET {key} v"));

    cluster.failover(3, Failover::Graceful);
    cluster.wait_ok();
    assert_eq!((cluster.owner_of(100), cluster.replicas_of(3)), (3, vec![0]));
    assert_eq!(cluster.node(3).connect().ask(&format!("GET {key}")), "$1\r\nv\r\n");

    cluster.failover(0, Failover::Takeover);
    cluster.wait_ok();
    assert_eq!(cluster.owner_of(100), 0);

    // The cluster finds out by itself, and the former primary comes back as a replica.
    cluster.kill(1);
    assert_eq!(cluster.wait_new_owner(6000, 1), 4);
    cluster.restart(1);
    cluster.wait_ok();
    assert_eq!((cluster.primaries(), cluster.replicas_of(4)), (vec![0, 2, 4], vec![1]));
}

#[test]
fn a_paused_primary_loses_its_slots_and_follows_when_it_wakes() {
    let mut cluster = RedisCluster::with(3, 1).node_timeout_ms(1_000).start();
    cluster.pause(2);
    assert_eq!(cluster.wait_new_owner(16_000, 2), 5);
    assert_eq!(cluster.running(), [0, 1, 3, 4, 5]);
    cluster.resume(2);
    cluster.wait_ok();
    assert_eq!(cluster.replicas_of(5), [2]);
}

#[test]
fn slots_move_in_steps() {
    let cluster = RedisCluster::start(3, 0);
    let keys: Vec<String> = (0..4).map(|nth| key_in_slot(42, nth)).collect();
    let mut source = cluster.node(0).connect();
    for key in &keys {
        assert_eq!(source.ask(&format!("SET {key} v")), "+OK\r\n");
    }
    let get = |conn: &mut Conn, key: &str| conn.ask(&format!("GET {key}"));

    let mut step = cluster.begin_move(42, 2).expect("begin");
    assert_eq!(get(&mut source, &keys[0]), "$1\r\nv\r\n");
    assert!(get(&mut source, &key_in_slot(42, 9)).starts_with("-ASK 42 "));
    step.move_key(&keys[1]).expect("move");
    assert!(get(&mut source, &keys[1]).starts_with("-ASK 42 "));
    let both = source.ask(&format!("MGET {} {}", keys[0], keys[1]));
    assert!(both.starts_with("-TRYAGAIN"), "{both}");
    let mut target = cluster.node(2).connect();
    assert!(get(&mut target, &keys[1]).starts_with("-MOVED 42 "));
    assert_eq!(target.ask("ASKING"), "+OK\r\n");
    assert_eq!(get(&mut target, &keys[1]), "$1\r\nv\r\n");

    step.cancel().expect("cancel");
    assert_eq!(cluster.node(0).keys().len(), 4);
    assert!(get(&mut source, &key_in_slot(42, 9)).starts_with("$-1"), "no ASK any more");

    let mut step = cluster.begin_move(42, 2).expect("begin");
    assert_eq!((step.slot(), step.move_keys(3), step.move_keys(3)), (42, Ok(3), Ok(1)));
    assert_eq!(cluster.owner_of(42), 0);
    step.finish().expect("finish");
    cluster.wait_ok();
    assert_eq!((cluster.owner_of(42), cluster.node(2).keys().len()), (2, 4));
    assert!(get(&mut source, &keys[0]).starts_with("-MOVED 42 "));
    // The third one was told too.
    assert!(
        cluster
            .node(1)
            .connect()
            .ask(&format!("GET {}", keys[0]))
            .contains(&format!(":{}\r\n", cluster.node(2).endpoint().tcp().port()))
    );
}

#[test]
fn a_reshard_loop_goes_there_and_back_and_tells_what_stops_it() {
    let mut cluster = RedisCluster::start(3, 0);
    let keys: Vec<String> = (0..25).map(|nth| key_in_slot(11, nth)).collect();
    for key in &keys {
        cluster.node(0).connect().ask(&format!("SET {key} v"));
    }
    let total =
        |cluster: &RedisCluster| cluster.node(0).keys().len() + cluster.node(1).keys().len();
    let reshard = cluster.reshard_loop(10..14, 0, 1);
    wait::until_true("two rounds", LIMIT, || reshard.moves() >= 6);
    assert!(reshard.stop().expect("no error") >= 6);
    cluster.wait_ok();
    assert_eq!(total(&cluster), 25);

    // It goes on from wherever the slots are.
    let reshard = cluster.reshard_loop(10..14, 0, 1);
    wait::until_true("a move", LIMIT, || reshard.moves() >= 1);
    cluster.kill(1);
    wait::until_true("the loop to end", LIMIT, || reshard.has_ended());
    assert!(reshard.stop().expect_err("a dead node").starts_with("slot 1"));
}

#[test]
fn logins_hostnames_and_one_node() {
    let cluster = RedisCluster::with(1, 1)
        .login(Login::with_user("app", "secret"))
        .hostnames(|index| format!("node-{index}.test"))
        .preferred_endpoint("hostname")
        .start();
    assert!(Conn::to(cluster.node(0).endpoint()).ask("GET k").starts_with("-NOAUTH"));
    let slots = cluster.node(1).connect().ask("CLUSTER SLOTS");
    assert!(slots.contains("node-0.test") && slots.contains("node-1.test"), "{slots}");
    assert!(cluster.url_of(&[1]).starts_with("redis-cluster://app:secret@127.0.0.1:"));
    // Replicas and slots need the login too.
    assert!(cluster.node(0).connect().ask("WAIT 1 5000").starts_with(":1"));
}

#[test]
fn keys_move_behind_a_password_and_on_ipv6() {
    if crate::ports::Port::v6().is_none() {
        return;
    }
    let cluster = RedisCluster::with(2, 0).login(Login::with_password("secret")).v6().start();
    assert!(cluster.node(0).endpoint().tcp().is_ipv6());
    let key = key_in_slot(3, 0);
    cluster.node(0).connect().ask(&format!("SET {key} v"));
    cluster.begin_move(3, 1).and_then(SlotMove::finish).expect("move");
    assert_eq!(cluster.node(1).keys(), [key.as_bytes()]);
    let moved = cluster.node(0).connect().ask(&format!("GET {key}"));
    assert!(moved.starts_with("-MOVED 3 ::1:"), "{moved}");
}

#[test]
fn relays_are_the_announced_addresses() {
    let cluster = RedisCluster::with(3, 1).relays().start();
    let relay_port = cluster.node(1).endpoint().tcp().port();
    assert_ne!(relay_port, cluster.node(1).direct_endpoint().tcp().port());
    let mut through = Conn::to(cluster.node(0).endpoint());
    let moved = through.ask(&format!("GET {}", key_in_slot(6000, 0)));
    assert_eq!(moved, format!("-MOVED 6000 127.0.0.1:{relay_port}\r\n"));

    // Frozen for clients, healthy for the cluster.
    cluster.node(0).relay().set(|faults| faults.blackhole = true);
    through.set_timeout(Duration::from_millis(100));
    assert!(through.command(&["PING"]).is_err());
    let known = cluster.node(1).members().expect("view");
    assert!(known.iter().all(Member::is_settled));
    cluster.node(0).relay().set(|faults| faults.blackhole = false);
    through.set_timeout(Duration::from_secs(10));
    assert_eq!(through.reply().expect("late"), b"+PONG\r\n");
    cluster.node(0).relay().end_all(End::Reset);
    assert!(through.command(&["PING"]).is_err());
    cluster.wait_ok();
}

#[test]
fn nodes_come_and_go() {
    let mut cluster = RedisCluster::start(2, 0);
    let added = cluster.add_node();
    assert_eq!((added, cluster.primaries()), (2, vec![0, 1, 2]));
    cluster.begin_move(0, added).and_then(SlotMove::finish).expect("move");
    assert_eq!(cluster.owner_of(0), added);
    cluster.begin_move(0, 0).and_then(SlotMove::finish).expect("move back");
    assert!(cluster.is_primary(added), "without a slot it stays what it is");

    let id = cluster.node(added).id().to_owned();
    cluster.remove_node(added);
    cluster.wait_ok();
    assert!(cluster.node(0).members().expect("view").iter().all(|member| member.id != id));
    assert_eq!((cluster.count(), cluster.node(added).state()), (3, State::Dead));
}

#[test]
fn a_moved_node_keeps_its_id_and_slots() {
    let mut cluster = RedisCluster::start(2, 0);
    let (id, before) = (cluster.node(1).id().to_owned(), cluster.node(1).endpoint().clone());
    cluster.move_node(1);
    cluster.wait_ok();
    assert_eq!((cluster.node(1).id(), cluster.owner_of(16_000)), (id.as_str(), 1));
    assert_ne!(cluster.node(1).endpoint(), &before);
    let port = cluster.node(1).endpoint().tcp().port();
    let moved = cluster.node(0).connect().ask(&format!("GET {}", key_in_slot(16_000, 0)));
    assert_eq!(moved, format!("-MOVED 16000 127.0.0.1:{port}\r\n"));
}

#[test]
fn coverage_can_be_partial() {
    let cluster = RedisCluster::with(2, 0).uncovered(100..200).start();
    assert_eq!((cluster.find_owner(150), cluster.find_owner(200)), (None, Some(0)));
    let answer = |slot| cluster.node(0).connect().ask(&format!("GET {}", key_in_slot(slot, 0)));
    assert!(answer(0).starts_with("-CLUSTERDOWN"), "one hole takes all down");
    cluster.tell_all(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    wait::until_true("the covered part to serve", LIMIT, || answer(0).starts_with("$-1"));
    assert!(answer(150).starts_with("-CLUSTERDOWN Hash slot not served"));
    cluster.assign(1, 100..200);
    cluster.wait_ok();
    assert_eq!(cluster.owner_of(150), 1);
}
