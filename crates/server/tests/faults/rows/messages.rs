//! Row 9: messages while primaries hand over and slots move, again and again.
//!
//! Invariant: a listener of a plain channel hears each message that was published through the proxy once and in order.

use std::time::Duration;

use testkit::checker::Work;
use testkit::cluster::Failover;
use testkit::wait;

use crate::judge::Expect;
use crate::load::Load;
use crate::run::run;
use crate::stage::{IMPATIENT, SOON, Scale, front, quick_six};

/// Slots that go from the first primary to the second and back.
const SHUTTLE: u16 = 50;

#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_09_messages_while_primaries_hand_over_and_slots_move() {
    let scale = Scale::long();
    let cluster = quick_six();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 0, scale).only(Work::Subscribers);
    // Each of the three hands over and gets back what it had.
    let rounds = scale.of_thirty(34, 2);
    let moves = scale.of_thirty(200, 20);
    let report = run(&mut proxy, load, scale, |story| {
        for _ in 0..rounds {
            for successor in [3, 4, 5, 0, 1, 2] {
                cluster.failover(successor, Failover::Graceful);
                cluster.wait_ok();
            }
        }
        println!("{} failovers in {:?}", rounds * 6, story.begun.elapsed());
        cluster.wait_ok();
        let shuttle = cluster.reshard_loop(0..SHUTTLE, 0, 1);
        wait::until_true("the moves", SOON + Duration::from_secs(moves), || {
            assert!(!shuttle.has_ended(), "{:?}", shuttle.moves());
            shuttle.moves() >= moves
        });
        println!(
            "{} failovers and {} moves in {:?}",
            rounds * 6,
            shuttle.moves(),
            story.begun.elapsed()
        );
        shuttle.stop().expect("slots can be moved");
        cluster.wait_ok();
    });
    // A primary that hands over lets whoever writes to it wait, and publishing counts as that.
    Expect { slow: vec![0, 1, 2], ..Expect::default() }.judge(&report);
}
