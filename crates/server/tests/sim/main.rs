//! The whole worker on a simulated network and virtual time: thousands of runs in which everything goes wrong that can.
//!
//! Each seed is a world of its own (`plan`): one to three workers with their mailboxes, models of the servers behind (one, shards, a cluster on the move, several of which the
//! settings name by turns), clients that
//! cut, delay, flood, abandon and never read, a server that dies, freezes and comes back. Judged all along and at the end:
//!
//! - each request gets exactly one reply, its own, in order, or its connection closes for a reason that is known;
//! - an error is forgiven only where upstreams fail; while none does, replies equal those of a direct connection, to the byte;
//! - what was acknowledged was done once, what was not at most once, what was never sent never;
//! - an element that somebody waited for is given once, and lost only where nobody was told what became of a BLPOP;
//! - what servers are replaced by others goes over without a request that is lost, overtaken or done by those that are named no more;
//! - what a client keeps of what it read is what is there, or it was told; nobody is told of what is not its own;
//! - what the proxy keeps itself is never given to one who has seen a later value, and when all is quiet nothing of it is old;
//! - memory, windows and upstreams stay within their bounds; after the drain nothing is left; nothing waits for ever.
//!
//! A failure prints its seed. `SIM_SEED=n cargo test -p server --test sim replay -- --nocapture` runs that seed alone and prints the end of its trace,
//! with the invariants checked behind each turn instead of one of four;
//! `SIM_SEEDS=n` runs so many seeds of each kind, `RESPOOL_LONG=1` twelve times as many as usual, checked so too, and
//! `SIM_GO_ON=1` goes on behind a failure and tells all of them at the end. `proof` shows that the judge finds what is planted.
//!
//! Invariant: a seed gives the same run, event by event (`the_same_seed_is_the_same_run`).

mod cache;
mod client;
mod cluster;
mod crew;
mod deployments;
mod elsewhere;
mod headers;
mod hostile;
mod ledger;
mod logins;
mod mail;
mod mirrored;
mod names;
mod plan;
mod proof;
mod queue;
mod radio;
mod script;
mod site;
mod strangers;
mod tenants;
mod tls;
mod upstream;
mod world;

use std::time::{Duration, Instant};

use plan::{Kind, Plan};
use upstream::Planted;
use world::{Outcome, Reached, World};

/// Lines of the network's trace that a replay prints.
const TRACE_LINES: usize = 400;

/// Memory that is taken between two runs which have to be the same.
const BALLAST_BYTES: usize = 128 << 20;

/// Names the seed when a run ends by a panic of the code under test.
struct Naming(u64);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", how_to_replay(self.0));
        }
    }
}

fn how_to_replay(seed: u64) -> String {
    let kind = Kind::of(seed);
    format!(
        "seed {seed} ({kind:?}); replay: SIM_SEED={seed} cargo test -p server --test sim replay -- --nocapture"
    )
}

fn run(seed: u64, planted: Planted) -> Result<Outcome, String> {
    let _naming = Naming(seed);
    World::new(Plan::new(seed), planted).run()
}

/// Runs a sixth of `count` seeds of one kind, twelve times as many with `RESPOOL_LONG=1`, or as many as `SIM_SEEDS` says; tells the most that they came to.
fn run_kind(kind: Kind, count: usize) -> Reached {
    let usual = if is_long() { 2 * count } else { count.div_ceil(6) };
    let count = number("SIM_SEEDS").map_or(usual, |count| count as usize);
    let mut reached = Reached::default();
    let goes_on = std::env::var_os("SIM_GO_ON").is_some();
    let mut failures = Vec::new();
    let mut slowest = (Duration::ZERO, kind.first_seed());
    let (mut executed, mut errors, mut iterations, mut transactions, mut turns) = (0, 0, 0, 0, 0);
    let (mut messages, mut elements, mut kept) = (0, 0, 0);
    for seed in (kind.first_seed()..).filter(|seed| Kind::of(*seed) == kind).take(count) {
        let begun = Instant::now();
        let outcome = run(seed, Planted::Nothing);
        slowest = slowest.max((begun.elapsed(), seed));
        match outcome {
            Ok(outcome) => {
                executed += outcome.executed;
                errors += outcome.errors;
                iterations += outcome.iterations;
                messages += outcome.messages;
                elements += outcome.elements;
                kept += outcome.kept;
                transactions += outcome.transactions;
                turns = outcome.turns.max(turns);
                reached.join(&outcome.reached);
                reached.moves += outcome.came_to.moves;
                reached.keys += outcome.came_to.keys;
                reached.failovers += outcome.came_to.failovers;
                reached.changes += outcome.changed.changes;
                reached.replaced += outcome.changed.replaced;
                reached.under_way += outcome.changed.under_way;
                reached.compared += u64::from(outcome.compared);
            }
            Err(why) if goes_on => {
                println!("{why}\n{}", how_to_replay(seed));
                failures.push(seed);
            }
            Err(why) => panic!("{why}\n{}", how_to_replay(seed)),
        }
    }
    assert!(failures.is_empty(), "{} of {count} seeds failed: {failures:?}", failures.len());
    println!(
        "{kind:?}, {count} seeds, {executed} requests, {errors} errors, {iterations} iterations, {transactions} transactions, {messages} messages heard, {elements} elements popped, {kept} values kept, at most {turns} turns, slowest {slowest:?}: {reached:?}"
    );
    assert!(transactions > 0, "no transaction came to its end");
    assert!(messages > 0, "nobody heard a message");
    let has_queues = kind.first_seed() == 0 && kind != Kind::Crowd;
    assert!(kept > 0 || kind == Kind::Crowd, "nobody kept anything");
    assert!(elements > 0 || !has_queues, "nobody waited for an element and got it");
    reached
}

/// Whether the long versions of tests were asked for.
fn is_long() -> bool {
    std::env::var_os("RESPOOL_LONG").is_some()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, it is {text}")))
}

#[test]
fn nothing_fails_and_every_byte_is_as_direct() {
    let reached = run_kind(Kind::Sound, 90);
    assert!(
        reached.coalesced > 0 && reached.cache_hits > 0,
        "the seeds do not come to what they are for"
    );
}

#[test]
fn unkind_clients_harm_nobody_else() {
    run_kind(Kind::UnkindClients, 40);
}

#[test]
fn a_troubled_server_costs_errors_and_nothing_more() {
    run_kind(Kind::TroubledServer, 50);
}

#[test]
fn everything_at_once() {
    let reached = run_kind(Kind::Everything, 50);
    assert!(
        reached.losses > 0 && reached.failures > 0,
        "the seeds do not come to what they are for"
    );
}

#[test]
fn large_requests_and_replies_through_small_bounds() {
    let reached = run_kind(Kind::Heavy, 20);
    assert!(reached.in_bytes > 100_000, "the seeds do not come to what they are for");
}

#[test]
fn a_crowd_of_two_thousand() {
    let reached = run_kind(Kind::Crowd, 8);
    assert!(reached.coalesced > 500, "the seeds do not come to what they are for");
}

#[test]
fn slots_move_and_primaries_hand_over_without_an_error() {
    let reached = run_kind(Kind::MovingCluster, 40);
    assert!(
        reached.moves > 20 && reached.keys > 20 && reached.failovers > 0 && reached.redirects > 0,
        "the seeds do not come to what they are for"
    );
}

#[test]
fn a_troubled_cluster_costs_errors_and_nothing_more() {
    let reached = run_kind(Kind::TroubledCluster, 40);
    assert!(
        reached.losses > 0 && reached.failovers > 0 && reached.redirects > 0,
        "the seeds do not come to what they are for"
    );
}

#[test]
fn a_cluster_and_all_at_once() {
    run_kind(Kind::ClusterAndAll, 30);
}

#[test]
fn shards_look_like_one_server() {
    run_kind(Kind::Shards, 20);
}

#[test]
fn troubled_shards_cost_errors_and_nothing_more() {
    run_kind(Kind::TroubledShards, 40);
}

#[test]
fn copies_answer_reads() {
    run_kind(Kind::Replicas, 15);
}

#[test]
fn copies_answer_reads_in_trouble() {
    run_kind(Kind::TroubledReplicas, 15);
}

#[test]
fn changes_of_the_configuration_cost_nobody_anything() {
    let reached = run_kind(Kind::Reconfigured, 90);
    assert!(
        reached.changes > 80 && reached.replaced > 20 && reached.under_way > 60,
        "the seeds do not come to what they are for"
    );
}

#[test]
fn changes_in_trouble_cost_errors_and_nothing_more() {
    let reached = run_kind(Kind::TroubledReconfigured, 80);
    assert!(
        reached.losses > 0 && reached.replaced > 20 && reached.under_way > 60,
        "the seeds do not come to what they are for"
    );
}

#[test]
fn changes_and_all_at_once() {
    run_kind(Kind::ReconfiguredAndAll, 12);
}

#[test]
fn a_mirror_has_what_its_primary_has() {
    let reached = run_kind(Kind::Mirrored, 72);
    assert!(reached.compared > 8 && reached.mirrored > 100, "{reached:?}");
    assert!(reached.read_alike > 20, "{reached:?}");
}

#[test]
fn a_mirror_in_trouble_disturbs_nobody() {
    let reached = run_kind(Kind::MirrorAway, 30);
    assert!(reached.compared > 2 && reached.missed > 0, "{reached:?}");
}

#[test]
fn trouble_on_both_sides_is_counted() {
    let reached = run_kind(Kind::TroubledMirrored, 20);
    assert!(reached.missed > 0 && reached.losses > 0, "{reached:?}");
}

#[test]
fn mirrors_come_and_go_and_nobody_notices() {
    let reached = run_kind(Kind::ChangingMirrors, 150);
    assert!(reached.compared > 5 && reached.mirrored > 100, "{reached:?}");
}

/// In this seed a door is full for the pusher.
#[test]
fn whoever_waits_is_served_when_the_pusher_goes() {
    let outcome =
        run(5458, Planted::Nothing).unwrap_or_else(|why| panic!("{why}\n{}", how_to_replay(5458)));
    assert!(outcome.successors > 0, "the seed does not come to what it is for");
}

/// Of these seeds one has EXEC of a transaction that a cluster began and one server ends, one a subscription behind the former servers, one a
/// request that waits for the next connection to a server that is named no more.
#[test]
fn what_changes_had_broken_is_mended() {
    for seed in [2_000_145, 2_000_082, 2_001_215] {
        run(seed, Planted::Nothing).unwrap_or_else(|why| panic!("{why}\n{}", how_to_replay(seed)));
    }
}

/// In this seed clients in a namespace ask for keys of several shards at once, of which the first one alone was asked.
#[test]
fn keys_of_several_shards_are_each_asked_of_theirs_in_a_namespace() {
    run(1_002_046, Planted::Nothing)
        .unwrap_or_else(|why| panic!("{why}\n{}", how_to_replay(1_002_046)));
}

/// In this seed a primary hands over and is handed back between two requests of a pipeline, and does the second one only.
#[test]
fn what_a_slot_that_came_back_let_by_is_not_done_behind_it() {
    let outcome = run(1_000_184, Planted::Nothing)
        .unwrap_or_else(|why| panic!("{why}\n{}", how_to_replay(1_000_184)));
    assert!(outcome.errors > 0, "the seed does not come to what it is for");
}

/// The second time the process is larger, which INFO would tell in more digits.
#[test]
fn the_same_seed_is_the_same_run() {
    let seeds = [
        5, 8, 24, 1_000_000, 1_000_002, 1_000_004, 1_000_006, 1_000_007, 2_000_000, 2_000_004,
        2_000_007, 3_000_000, 3_000_006,
    ];
    let digests = || {
        seeds.map(|seed| {
            let outcome = run(seed, Planted::Nothing);
            (seed, outcome.unwrap_or_else(|why| panic!("{why}\n{}", how_to_replay(seed))).digest)
        })
    };
    let first = digests();
    let ballast = std::hint::black_box(vec![1_u8; BALLAST_BYTES]);
    assert_eq!(first, digests());
    drop(ballast);
}

/// Runs the seed of `SIM_SEED`, and tells what happened; without it there is nothing to replay.
#[test]
fn replay() {
    let Some(seed) = number("SIM_SEED") else { return };
    if seed >= hostile::HOSTILE_FROM {
        return hostile::replay(seed);
    }
    let plan = Plan::new(seed);
    println!("{plan:#?}");
    let _naming = Naming(seed);
    let mut world = World::new(plan, Planted::Nothing);
    world.record();
    let outcome = world.run();
    world.trace(TRACE_LINES).iter().for_each(|line| println!("{line}"));
    match outcome {
        Ok(outcome) => println!("{outcome:#?}"),
        Err(why) => panic!("{why}"),
    }
}
