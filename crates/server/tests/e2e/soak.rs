//! Tagged values while connections to the server are killed at random: no reply may reach a wrong
//! client.
//!
//! A relay stands between proxy and server. It resets connections, cuts them in the middle of
//! replies and slices bytes, and the server itself kills connections by CLIENT KILL. The checker
//! judges. `SOAK_SECONDS` sets the length (default 6); the seed is printed and can be set by
//! `SOAK_SEED`.
//!
//! Invariant: errors and closed connections are expected here; a foreign, lost or repeated effect
//! is not.

use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::relay::End;
use testkit::{Checker, Conn, RedisServer, Relay, Respool};

use crate::setup::{RESPOOL, direct};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn no_foreign_reply_while_upstream_connections_die() {
    let seed = number("SOAK_SEED", u64::from(std::process::id()));
    println!("SOAK_SEED={seed}");
    let server = RedisServer::start();
    let relay = Relay::to(server.endpoint());
    let mut proxy = (!direct()).then(|| Respool::to(RESPOOL, relay.endpoint()).start());
    let front = proxy.as_ref().map_or(relay.endpoint(), Respool::endpoint);

    let mut checker = Checker::new(front, server.endpoint());
    checker.clients = 12;
    checker.duration = Duration::from_secs(number("SOAK_SECONDS", 6));
    checker.seed = seed;
    let mut kills = 0_u32;
    let verdict = thread::scope(|scope| {
        let run = scope.spawn(|| checker.run());
        let mut side = server.connect();
        let mut rng = StdRng::seed_from_u64(seed);
        while !run.is_finished() {
            thread::sleep(Duration::from_millis(rng.random_range(5..120)));
            disturb(&relay, &mut side, &mut rng);
            kills += 1;
        }
        relay.set(|faults| faults.slice = false);
        match run.join() {
            Ok(verdict) => verdict,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    println!("{kills} disturbances, {} cuts in replies: {verdict}", relay.cuts());
    verdict.assert_clean();
    assert!(kills > 20 && relay.cuts() > 0, "{kills} disturbances, {} cuts", relay.cuts());
    assert!(verdict.unknown + verdict.errors > 0, "nothing was hit: {verdict}");
    if let Some(proxy) = &mut proxy {
        proxy.assert_alive();
        // Whatever was cut: a fresh request is answered again.
        let answer = testkit::wait::poll(Duration::from_secs(20), || {
            (Conn::to(proxy.endpoint()).ask("SET after soak") == "+OK\r\n").then_some(())
        });
        assert!(answer.is_some(), "the proxy does not recover");
    }
}

fn disturb(relay: &Relay, side: &mut Conn, rng: &mut StdRng) {
    match rng.random_range(0..10) {
        0..3 => {
            side.ask("CLIENT KILL TYPE normal SKIPME yes");
        }
        3..5 => relay.end_all(End::Reset),
        5 => relay.end_all(End::Close),
        6..9 => {
            let end = if rng.random_bool(0.5) { End::Reset } else { End::Close };
            relay.cut_after(rng.random_range(1..20_000), end);
        }
        _ => {
            let slice = rng.random_bool(0.3);
            relay.set(|faults| faults.slice = slice);
        }
    }
}
