//! The judge itself is judged: what is planted in the world must be found.
//!
//! A simulation that never fails proves nothing unless it can. Each fault is planted in the server behind, where a bug of the
//! proxy would look the same to the clients.
//!
//! Runs go on until enough of them have found it, in the long version (`RESPOOL_LONG=1`) to the end.
//!
//! Invariant: a run in which a planted fault hit is a run that fails, but for faults that only somebody can see who looks at the right key
//! later: of those many must be found.

use crate::plan::Kind;
use crate::upstream::Planted;
use crate::{is_long, run};

/// In how many runs it must be found: in half as many as in the long version.
fn enough(found_min: u32) -> u32 {
    if is_long() { found_min } else { found_min.div_ceil(2) }
}

/// Runs sound seeds with a planted fault. Where it hit, the run must have failed; `hits_min` of them must have been hit.
fn is_found(planted: Planted, kind: Kind, hits_min: u32) {
    let (mut found, hits_min) = (0, enough(hits_min));
    for seed in (kind.first_seed()..).filter(|seed| Kind::of(*seed) == kind).take(24) {
        match run(seed, planted) {
            Ok(outcome) if outcome.hits == 0 => {}
            // The drain came before the write was sent on, and its client went.
            Ok(outcome) if planted == Planted::DoneThenMoved && outcome.is_cut_short => {}
            Ok(outcome) => {
                panic!("seed {seed}: {planted:?} hit {} times and was not found", outcome.hits)
            }
            Err(_) => found += 1,
        }
        if found >= hits_min && !is_long() {
            break;
        }
    }
    assert!(found >= hits_min, "{planted:?} hit in {found} of 24 runs only");
}

/// The same for faults that not everybody sees.
fn is_often_found(planted: Planted, kind: Kind, found_min: u32) {
    let seeds = (kind.first_seed()..).filter(|seed| Kind::of(*seed) == kind).take(40);
    let (mut found, mut missed, found_min) = (0, 0, enough(found_min));
    for seed in seeds {
        match run(seed, planted) {
            Ok(outcome) => missed += u32::from(outcome.hits > 0),
            Err(_) => found += 1,
        }
        if found >= found_min && !is_long() {
            break;
        }
    }
    assert!(found >= found_min, "{planted:?} found in {found} runs only, and missed in {missed}");
    println!("{planted:?}: found in {found} runs, missed in {missed}");
}

#[test]
fn a_swapped_reply_is_found() {
    is_found(Planted::SwappedReplies, Kind::Sound, 8);
}

// One that is written over before anybody reads it is seen by nobody.
#[test]
fn a_dropped_write_is_found() {
    is_often_found(Planted::DroppedWrite, Kind::Sound, 20);
}

#[test]
fn an_incr_that_is_done_twice_is_found() {
    is_found(Planted::DoubledIncr, Kind::Sound, 8);
}

// A write whose client has gone is not sent on, so it is done once and there is nothing to find.
#[test]
fn a_write_that_is_done_and_then_sent_on_is_found() {
    is_often_found(Planted::DoneThenMoved, Kind::MovingCluster, 20);
}

#[test]
fn the_same_is_found_where_errors_are_forgiven() {
    is_found(Planted::DoneThenMoved, Kind::TroubledCluster, 8);
}

#[test]
fn a_redirection_that_reaches_a_client_is_found() {
    is_often_found(Planted::ShownMoved, Kind::TroubledCluster, 12);
}

#[test]
fn a_key_that_is_lost_on_its_way_is_found() {
    is_often_found(Planted::LostOnTheWay, Kind::MovingCluster, 8);
}

#[test]
fn a_key_that_an_iteration_leaves_out_is_found() {
    is_often_found(Planted::SkippedInScan, Kind::Shards, 8);
}

#[test]
fn a_swapped_reply_of_a_shard_is_found() {
    is_found(Planted::SwappedReplies, Kind::Shards, 8);
}

#[test]
fn a_write_that_a_node_drops_is_found() {
    is_often_found(Planted::DroppedWrite, Kind::TroubledCluster, 12);
}

// Where errors are forgiven only the look at what was done finds it.
#[test]
fn a_torn_transaction_is_found() {
    is_found(Planted::TornTransaction, Kind::TroubledServer, 6);
}

#[test]
fn an_element_that_is_popped_for_nobody_is_found() {
    is_often_found(Planted::LostElement, Kind::Sound, 12);
}

#[test]
fn a_message_that_is_lost_is_found() {
    is_often_found(Planted::LostMessage, Kind::Sound, 12);
}

#[test]
fn a_message_that_comes_twice_is_found() {
    is_often_found(Planted::DoubledMessage, Kind::Sound, 12);
}

// Where two deployments are one after the other in the settings, either may be right for what was under way.
#[test]
fn a_write_of_a_server_that_is_not_named_is_found() {
    is_often_found(Planted::OtherDeployment, Kind::Reconfigured, 20);
}

// What changes again, or is read again, before the end is seen by nobody.
#[test]
fn a_change_that_is_not_told_is_found() {
    is_often_found(Planted::LostChange, Kind::Sound, 8);
}
