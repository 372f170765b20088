//! The section about read targets: how each is, and what became of what it was asked.
//!
//! Invariant: one line a target, its name last, as a name may have a comma.

use super::{Source, line};
use crate::elsewhere::read_targets_of;
use alloc::format;
use alloc::string::String;

pub(super) fn read_targets(out: &mut String, source: &Source<'_>) {
    let targets = read_targets_of(source.reports);
    line(out, "read_targets", targets.len());
    let each = source.reports.iter().filter_map(|report| report.reads_elsewhere);
    let (mut back, mut unhedged, mut is_on) = (0, 0, false);
    for counts in each {
        (back, unhedged, is_on) = (back + counts.back, unhedged + counts.unhedged, true);
    }
    if is_on {
        line(out, "reads_back_at_upstream", back);
        line(out, "reads_not_hedged", unhedged);
    }
    for (index, sum) in targets.iter().enumerate() {
        let counts = &sum.counts;
        let value = format!(
            "state={},open={},open_bytes={},answered={},failed={},late={},refused={},full={},hedged={},outages={},name={}",
            if sum.is_out { "out" } else { "ready" },
            sum.open,
            sum.open_bytes,
            counts.answered,
            counts.failed,
            counts.late,
            counts.refused,
            counts.full,
            counts.hedged,
            counts.outages,
            sum.name
        );
        line(out, &format!("read_target_{index}"), value);
    }
}
