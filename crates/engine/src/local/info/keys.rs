//! The sections about keys: those that come often, and large requests and replies.
//!
//! Invariant: the name of a key stands last on its line, as it may have a comma.

use super::{Source, line};
use crate::hotkeys::HotReport;
use crate::local::topkeys::SHOWN;
use alloc::format;
use alloc::string::String;

pub(super) fn hotkeys(out: &mut String, source: &Source<'_>) {
    let options = &source.settings.hotkeys;
    let reports = source.reports.iter().map(|report| report.hotkeys.clone());
    let hot = HotReport::merged(reports, SHOWN);
    line(out, "hotkeys_enabled", u8::from(hot.on));
    line(out, "hotkeys_sample", options.sample);
    line(out, "hotkeys_window_s", options.window_s);
    for (index, key) in hot.keys.iter().enumerate() {
        let (per_1000_s, count, writes) = (key.per_1000_s, key.count(), key.writes);
        let reads = count.saturating_sub(writes);
        let rate = per_1000_s.div_ceil(1_000);
        let value = format!(
            "per_second={rate},count={count},reads={reads},writes={writes},key={}",
            key.name.text()
        );
        line(out, &format!("hotkey_{index}"), value);
    }
}

pub(super) fn bigkeys(out: &mut String, source: &Source<'_>) {
    let options = &source.settings.bigkeys;
    line(out, "bigkeys_bytes_min", options.bytes_min);
    line(out, "bigkeys_elements_min", options.elements_min);
    line(out, "bigkeys_entries", source.sum.big_keys);
    line(out, "bigkeys_requests", source.sum.big_seen.requests);
    line(out, "bigkeys_replies", source.sum.big_seen.replies);
}
