//! The judge itself is judged: what is planted in the world must be found.
//!
//! A simulation that never fails proves nothing unless it can. Each fault is planted in the server behind, where a bug of the
//! proxy would look the same to the clients.
//!
//! Invariant: a run in which a planted fault hit is a run that fails.

use crate::plan::Kind;
use crate::run;
use crate::upstream::Planted;

/// Runs sound seeds with a planted fault. Where it hit, the run must have failed; `hits_min` of them must have been hit.
fn is_found(planted: Planted, kind: Kind) {
    let mut found = 0;
    for seed in (0..).filter(|seed| Kind::of(*seed) == kind).take(24) {
        match run(seed, planted) {
            Ok(outcome) if outcome.hits == 0 => {}
            Ok(outcome) => {
                panic!("seed {seed}: {planted:?} hit {} times and was not found", outcome.hits)
            }
            Err(_) => found += 1,
        }
    }
    assert!(found >= 8, "{planted:?} hit in {found} of 24 runs only");
}

#[test]
fn a_swapped_reply_is_found() {
    is_found(Planted::SwappedReplies, Kind::Sound);
}

#[test]
fn a_dropped_write_is_found() {
    is_found(Planted::DroppedWrite, Kind::Sound);
}

#[test]
fn an_incr_that_is_done_twice_is_found() {
    is_found(Planted::DoubledIncr, Kind::Sound);
}
