//! Rows 7 and 8: slots on the move, under load and standing still in the middle.
//!
//! Invariant: moving a slot is no fault. Nobody sees an error, an older value or a second INCR.

use std::thread;
use std::time::Duration;

use testkit::cluster::{RedisCluster, SlotMove, slot_of};
use testkit::wait;

use crate::judge::Expect;
use crate::load::Load;
use crate::run::run;
use crate::stage::{IMPATIENT, Scale, front};

/// Slots that go from the first node to the second and back. The slots of the clients that are at
/// home on the first are among them, and a third of everybody else's.
const SHUTTLE: u16 = 2_000;

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_07_thousands_of_slots_move_under_load() {
    let scale = Scale::long();
    let cluster = RedisCluster::start(3, 0);
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 2, scale);
    let moves = scale.of_thirty(4_000, 400);
    // The slots with keys are the first, so a short run meets them on their way back as well.
    let slots = SHUTTLE.min((moves / 2) as u16);
    let report = run(&mut proxy, load, scale, |story| {
        let shuttle = cluster.reshard_loop(0..slots, 0, 1);
        wait::until_true("the moves", Duration::from_secs(600), || {
            assert!(!shuttle.has_ended(), "{:?}", shuttle.moves());
            shuttle.moves() >= moves
        });
        println!("{} moves in {:?}", shuttle.moves(), story.begun.elapsed());
        shuttle.stop().expect("slots can be moved");
        cluster.wait_ok();
    });
    let documented = super::MOVED_AWAY.to_vec();
    Expect { documented, ..Expect::default() }.judge(&report);
}

// Each of the clients that are at home on the first node has its keys in one slot, half of which is
// on the other side for as long as a phase lasts.
#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_08_slots_stay_half_moved() {
    let scale = Scale::long();
    let cluster = RedisCluster::start(3, 0);
    let mut proxy = front(&cluster, &IMPATIENT);
    // A request with keys on both sides can only wait for the end of the move, which does not come.
    let load =
        Load::usual(&proxy, &cluster, 2, scale).home(0, |checker| checker.multi_keys_max = 1);
    let tags = load.groups[0].checker.tags.clone();
    let report = run(&mut proxy, load, scale, |_| {
        let mut open: Vec<SlotMove> = Vec::new();
        for tag in &tags {
            let slot = slot_of(tag.as_bytes());
            let mut moving = cluster.begin_move(slot, 1).expect("the move");
            let all = cluster.node(0).connect().ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}"));
            let all: usize = all.trim_start_matches(':').trim_end().parse().expect("a number");
            assert!(all > 4, "{all} keys in a slot: nothing would be half");
            assert_eq!(moving.move_keys(all / 2), Ok(all / 2));
            open.push(moving);
        }
        thread::sleep(scale.phase);
        for moving in open {
            moving.finish().expect("the end");
        }
        cluster.wait_ok();
    });
    let documented = super::MOVED_AWAY.to_vec();
    Expect { documented, ..Expect::default() }.judge(&report);
}
