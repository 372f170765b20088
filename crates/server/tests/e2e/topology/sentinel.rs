//! A primary that sentinels watch: found, followed, and never taken for what it was before.
//!
//! All keys are on one server here, so the three kinds of keys of [`watch`] fare alike.
//!
//! Invariant: a server that sentinels no longer name gets no request, also while it believes itself
//! a primary.

use std::thread;
use std::time::Duration;

use testkit::admin::{self, Login};
use testkit::ports::Port;
use testkit::{Conn, Endpoint, Respool, SentinelGroup, wait};

use super::HOLD;
use super::watch::{Tally, watch};
use crate::setup::{RESPOOL, SOON};

/// Clients that count.
const CLIENTS: u16 = 6;
/// A request timeout below the sentinels' own time to notice a hung primary.
const IMPATIENT: [&str; 2] = ["--timeouts-request-ms", "800"];

/// A proxy that knows all sentinels, before servers whose replicas follow already: one that is in
/// sync may still wait up to a second for the first write of its primary.
fn front(group: &SentinelGroup, args: &[&str]) -> Respool {
    let replicas = group.endpoints().len() - 1;
    let mut conn = group.connect(0);
    assert_eq!(conn.ask("SET followed yes"), "+OK\r\n");
    assert_eq!(conn.ask(&format!("WAIT {replicas} 20000")), format!(":{replicas}\r\n"));
    Respool::to_url(RESPOOL, &group.url()).args(args).start()
}

/// Requests in flight may fail, and a replica may have missed the last writes; nothing else. Gives
/// the number of writes that are gone.
#[track_caller]
fn assert_paused(tallies: &[Tally; 3]) -> usize {
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    for tally in tallies {
        tally.assert_sound();
        assert!(tally.read_errors.is_empty(), "{:?}", tally.read_errors);
    }
    let errors = sum(|tally| tally.write_errors.len());
    assert!(errors <= usize::from(CLIENTS), "{errors} errors: one a client was in flight at most");
    sum(|tally| tally.lost as usize)
}

/// Waits until every worker has heard of a failover that the sentinels agree on. The former primary
/// takes itself for one for longer than this waits, so it is no help to a proxy that hears nothing.
#[track_caller]
fn wait_followed(group: &SentinelGroup, proxy: &Respool, primary: usize) {
    let mut conns: Vec<Conn> = (0..8).map(|_| proxy.connect()).collect();
    for (nth, conn) in conns.iter_mut().enumerate() {
        wait::until_true("the proxy to follow", Duration::from_secs(4), || {
            assert_eq!(conn.ask(&format!("SET followed:{nth} v")), "+OK\r\n");
            group.connect(primary).ask(&format!("GET followed:{nth}")) == "$1\r\nv\r\n"
        });
    }
}

/// Every worker writes to this server and to no other.
#[track_caller]
fn assert_written_to(group: &SentinelGroup, proxy: &Respool, server: usize, others: &[usize]) {
    let calls = |server: &usize| {
        let info = admin::text(&mut group.connect(*server), &["INFO", "commandstats"]);
        let info = info.expect("INFO");
        let line = info.lines().find(|line| line.starts_with("cmdstat_setnx:calls="));
        let calls = line.and_then(|line| line.split(['=', ',']).nth(1)?.parse().ok());
        calls.unwrap_or(0_u64)
    };
    let before: Vec<u64> = others.iter().map(calls).collect();
    let here = calls(&server);
    for number in 0..8 {
        assert_eq!(proxy.connect().ask(&format!("SETNX {server}:{number} v")), ":1\r\n");
    }
    assert_eq!(calls(&server), here + 8);
    // A replica repeats what its primary did; a former primary has not done it itself.
    for (other, before) in others.iter().zip(before) {
        let role = group.connect(*other).ask("ROLE");
        assert!(
            !role.contains("master") || calls(other) == before,
            "server {other} was written to"
        );
    }
}

#[test]
fn a_failover_by_command_is_followed() {
    let group = SentinelGroup::start(2, 3);
    let proxy = front(&group, &HOLD);
    let (tallies, primary) = watch(&proxy, CLIENTS, || {
        let primary = group.failover();
        thread::sleep(Duration::from_millis(1_500));
        primary
    });
    // What the former primary acknowledged after the promotion and before the sentinels told of it
    // is gone, whoever asks them; so nothing is said of lost writes here.
    assert_paused(&tallies);
    // The former primary takes itself for one for some seconds more.
    wait_followed(&group, &proxy, primary);
    assert_written_to(&group, &proxy, primary, &[0]);
}

#[test]
fn the_death_of_the_primary_is_a_pause_and_its_return_is_no_trap() {
    let mut group = SentinelGroup::start(1, 3);
    let proxy = front(&group, &HOLD);
    let (tallies, primary) = watch(&proxy, CLIENTS, || {
        group.server_mut(0).kill();
        let primary = group.wait_new_primary(0);
        let mut conn = proxy.connect();
        wait::until_true("the new primary", Duration::from_secs(2), || {
            conn.ask("SET served yes") == "+OK\r\n"
        });
        primary
    });
    let lost = assert_paused(&tallies);
    assert!(lost <= usize::from(CLIENTS), "{lost} writes are gone");
    // It comes back as a primary, without data, until the sentinels have seen it.
    group.server_mut(0).restart();
    assert_written_to(&group, &proxy, primary, &[0]);

    // Nobody is left to tell: what is known goes on.
    for sentinel in group.running() {
        group.kill_sentinel(sentinel);
    }
    thread::sleep(Duration::from_millis(1_500));
    assert_written_to_again(&proxy);
}

fn assert_written_to_again(proxy: &Respool) {
    for number in 0..8 {
        assert_eq!(proxy.connect().ask(&format!("SET after:{number} v")), "+OK\r\n");
    }
}

#[test]
fn a_hung_primary_is_left_and_its_late_replies_reach_nobody() {
    let group = SentinelGroup::start(1, 3);
    let proxy = front(&group, &[IMPATIENT, HOLD].concat());
    let (tallies, primary) = watch(&proxy, CLIENTS, || {
        group.server(0).pause();
        // The only replica. The group itself would ask the one that hangs as well.
        let primary = 1;
        wait::until_true("the sentinels to agree", SOON, || {
            (0..3).all(|sentinel| group.primary_by(sentinel) == Some(primary))
        });
        let mut conn = proxy.connect();
        wait::until_true("the new primary", Duration::from_secs(3), || {
            conn.ask("SET served yes") == "+OK\r\n"
        });
        group.server(0).resume();
        thread::sleep(Duration::from_millis(700));
        primary
    });
    assert_paused(&tallies);
    assert_written_to(&group, &proxy, primary, &[0]);
}

// The URL names one sentinel. It tells of the others, and after its death they are enough.
#[test]
fn sentinels_are_found_through_one_another() {
    let mut group = SentinelGroup::start(1, 3);
    let all = group.url();
    let first = group.sentinel_endpoints()[0].tcp();
    let nobody = Port::v4().release();
    let url = format!("redis-sentinel://{nobody},{first}/{}", group.name());
    assert_ne!(url, all);
    let proxy = Respool::to_url(RESPOOL, &url).args(&HOLD).start();
    assert_written_to_again(&proxy);
    // One more, which nobody was told of.
    let added = group.add_sentinel();
    thread::sleep(Duration::from_millis(1_500));
    group.kill_sentinel(0);
    group.server_mut(0).kill();
    group.wait_new_primary(0);
    let begun = std::time::Instant::now();
    let mut conn = proxy.connect();
    wait::until_true("the new primary", SOON, || conn.ask("SET served yes") == "+OK\r\n");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(group.running().contains(&added));
}

#[test]
fn servers_and_sentinels_have_logins_of_their_own() {
    let group = SentinelGroup::with(1, 3)
        .name("cache")
        .login(Login::with_user("app", "secret"))
        .sentinel_password("guard")
        .start();
    let proxy = front(&group, &HOLD);
    for hello in ["HELLO 2", "HELLO 3"] {
        let mut conn = proxy.connect();
        conn.ask(hello);
        assert_eq!(conn.ask("SET k v"), "+OK\r\n");
        assert_eq!(conn.ask("MGET k k"), "*2\r\n$1\r\nv\r\n$1\r\nv\r\n");
        assert_eq!(conn.ask("SELECT 2"), "+OK\r\n");
        assert!(["$-1\r\n", "_\r\n"].contains(&conn.ask("GET k").as_str()));
    }
    let primary = group.failover();
    wait_followed(&group, &proxy, primary);
    assert_written_to(&group, &proxy, primary, &[]);

    let wrong = group.url().replace("guard", "wrong");
    let error = told(&wrong);
    assert!(error.contains("WRONGPASS"), "{error}");
}

/// What a client hears from a proxy that cannot begin.
fn told(url: &str) -> String {
    let proxy = Respool::to_url(RESPOOL, url).args(&["--timeouts-topology-wait-ms", "300"]).start();
    let mut conn: Conn = proxy.connect();
    let error = conn.ask("GET k");
    assert!(error.starts_with('-'), "{error}");
    error
}

#[test]
fn what_is_wrong_with_sentinels_is_told() {
    let group = SentinelGroup::start(1, 1);
    let error = told(&group.url().replace("/mymaster", "/nobody"));
    assert!(error.contains("nobody"), "{error}");
    let nobody = Endpoint::Tcp(Port::v4().release()).tcp();
    let error = told(&format!("redis-sentinel://{nobody}/mymaster"));
    assert!(error.contains("refused") && error.contains(&nobody.port().to_string()), "{error}");
    // A server that is no sentinel.
    let server = group.endpoints()[0].tcp();
    let error = told(&format!("redis-sentinel://{server}/mymaster"));
    assert!(error.contains("unknown command"), "{error}");
}
