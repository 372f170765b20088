//! What a proxy costs as a multiple of the floor.
//!
//! The floor of a run is its first floor target: a reader looks for one number, and a second floor (of another driver) is
//! shown as a multiple of the first, as proxies are.
//!
//! What it is not: a limit; those may name any target, floors too.
//!
//! Invariant: a target without CPU of its own, and a test without the floor, have no multiple.

use super::ratio;
use crate::plan::Figure;
use crate::record::{Run, Target, Test, TimesFloor};

/// The name of the floor that a run's proxies are multiples of.
#[must_use]
pub fn floor(run: &Run) -> Option<&str> {
    run.targets.iter().find(|target| target.floor).map(|target| target.name.as_str())
}

/// Whether a target with this name is a floor.
pub(crate) fn is_floor(targets: &[Target], name: &str) -> bool {
    targets.iter().any(|target| target.floor && target.name == name)
}

/// The multiple of one target in one test, user and system apart.
#[must_use]
pub fn times_floor(run: &Run, test: &Test, target: &str) -> Option<TimesFloor> {
    let floor = floor(run)?;
    let of = |figure| {
        ratio(test, target, floor, figure).map(|ratio| ratio.median).filter(|it| it.is_finite())
    };
    Some(TimesFloor {
        test: test.name.clone(),
        target: target.to_owned(),
        floor: floor.to_owned(),
        cpu: of(Figure::ProxyCpu)?,
        user: of(Figure::ProxyUser),
        system: of(Figure::ProxySystem),
    })
}

/// All multiples of a run, test by test in the order of its targets, the floor's own left out.
#[must_use]
pub fn all_times_floor(run: &Run) -> Vec<TimesFloor> {
    let floor = floor(run);
    let others = || run.targets.iter().filter(|target| Some(target.name.as_str()) != floor);
    let of = |test| others().filter_map(move |target| times_floor(run, test, &target.name));
    run.tests.iter().flat_map(of).collect()
}
