//! The section about the near cache.
//!
//! Not here: what is kept (`near`).
//!
//! Invariant: `hits`, `misses` and `bypassed` are all reads that could have been kept, each once.

use super::{Source, line};
use crate::report::MEMORY_KINDS;
use alloc::string::String;

pub(super) fn cache(out: &mut String, source: &Source<'_>) {
    let (sum, stats) = (&source.sum, &source.sum.stats);
    let bytes = MEMORY_KINDS.iter().position(|kind| *kind == "near_cache");
    line(out, "cache_enabled", u8::from(source.settings.cache.enabled));
    line(out, "cache_entries", sum.cache_entries);
    line(out, "cache_bytes", bytes.map_or(0, |at| sum.memory[at]));
    line(out, "cache_feeds", sum.cache_feeds);
    line(out, "cache_hits", stats.cache_hits);
    line(out, "cache_misses", stats.cache_misses);
    line(out, "cache_bypassed", stats.cache_bypassed);
    line(out, "cache_kept", stats.cache_kept);
    line(out, "cache_dropped_changed", stats.cache_dropped_changed);
    line(out, "cache_dropped_expired", stats.cache_dropped_expired);
    line(out, "cache_dropped_evicted", stats.cache_dropped_evicted);
    line(out, "cache_dropped_lost", stats.cache_dropped_lost);
    line(out, "cache_refused", stats.cache_refused);
}
