//! The section about mirrors: how each is, and what became of what it was sent.
//!
//! Invariant: one line a mirror, its name last but for the kinds of its errors, as a name may have a comma.

use super::{Source, line};
use crate::mirror::mirrors_of;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

pub(super) fn mirrors(out: &mut String, source: &Source<'_>) {
    let all = mirrors_of(source.reports);
    line(out, "mirrors", all.len());
    for (index, mirror) in all.iter().enumerate() {
        let counts = &mirror.counts;
        let value = format!(
            "mode={},state={},lag_ms={},queued={},queued_bytes={},done={},failed={},dropped={},unsure={},name={}",
            mirror.mode,
            mirror.state,
            mirror.lag_us / 1_000,
            mirror.queued,
            mirror.queued_bytes,
            counts.done,
            counts.failed,
            counts.dropped,
            counts.unsure,
            mirror.name
        );
        line(out, &format!("mirror_{index}"), value);
        if let Some(shadow) = &mirror.shadow {
            let value = format!(
                "equal={},different={},racing={},void={},large={},dropped={},different_per_million={}",
                shadow.equal,
                shadow.different,
                shadow.racing,
                shadow.void,
                shadow.large,
                shadow.dropped,
                shadow.different_per_million()
            );
            line(out, &format!("mirror_{index}_shadow_reads"), value);
        }
        let mut errors = String::new();
        for (word, count) in &counts.errors {
            let comma = if errors.is_empty() { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(errors, "{comma}{word}={count}");
        }
        if !errors.is_empty() {
            line(out, &format!("mirror_{index}_errors"), errors);
        }
    }
}
