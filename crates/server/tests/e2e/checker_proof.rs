//! The checker itself, in the place in which it is used: a fault behind the proxy must be seen in
//! front of it.
//!
//! `testkit` shows the same on a direct connection. Here the liar stands between proxy and server,
//! so that its faults come through shared connections, in other batches than those of the clients.
//!
//! Invariant: each planted fault is reported by its own rule; without one nothing is reported.

use std::time::Duration;

use testkit::checker::Rule;
use testkit::{Checker, Mutant, Mutation, RedisServer, Respool, Verdict};

use crate::setup::{RESPOOL, Stack, direct};

// One fault in 300 opportunities: rare enough that a checker which looks at samples only would miss
// it.
fn run_behind_proxy(mutation: Mutation) -> (Verdict, u64) {
    let server = RedisServer::start();
    let mutant = Mutant::to(server.endpoint(), mutation, 300);
    let proxy = (!direct()).then(|| {
        Respool::to(RESPOOL, mutant.endpoint()).args(&["--timeouts-request-ms", "30000"]).start()
    });
    let front = proxy.as_ref().map_or(mutant.endpoint(), Respool::endpoint);
    let mut checker = Checker::new(front, server.endpoint());
    // The run ends with the first violation; this is how long a blind checker would take to be
    // found out.
    checker.duration = Duration::from_secs(40);
    checker.value_bytes_max = 4096;
    if mutation == Mutation::Hang {
        checker.deadline = Duration::from_secs(2);
    }
    if mutation == Mutation::Nothing {
        checker.duration = Duration::from_secs(2);
    }
    (checker.run(), mutant.planted())
}

fn caught(mutation: Mutation, rules: &[Rule]) {
    let (verdict, planted) = run_behind_proxy(mutation);
    assert!(planted > 0, "no fault was planted: {verdict}");
    let first = verdict.first().unwrap_or_else(|| panic!("{mutation:?} was not caught: {verdict}"));
    assert!(rules.contains(&first), "{mutation:?}: {verdict}");
}

#[test]
fn a_clean_server_is_clean_direct_and_through_the_proxy() {
    let stack = Stack::start();
    for (seed, endpoint) in [(1, stack.server.endpoint()), (2, stack.front())] {
        let mut checker = Checker::new(endpoint, stack.server.endpoint());
        checker.seed = seed;
        checker.run().assert_faultless();
    }
}

#[test]
fn an_honest_man_in_the_middle_is_clean() {
    let (verdict, planted) = run_behind_proxy(Mutation::Nothing);
    verdict.assert_faultless();
    assert_eq!(planted, 0);
}

#[test]
fn a_swapped_reply_is_caught() {
    // Two values of one key in the wrong order look like an older value.
    caught(Mutation::SwapReplies, &[Rule::ForeignReply, Rule::LostWrite]);
}

#[test]
fn a_dropped_write_is_caught() {
    caught(Mutation::DropSet, &[Rule::LostWrite]);
}

#[test]
fn a_replayed_incr_is_caught() {
    caught(Mutation::ReplayIncr, &[Rule::Replay]);
}

#[test]
fn a_replayed_append_is_caught() {
    caught(Mutation::ReplayAppend, &[Rule::Replay]);
}

#[test]
fn a_request_without_an_end_is_caught() {
    caught(Mutation::Hang, &[Rule::Hang]);
}
