//! CONFIG of the servers, as far as it is about what the proxy has a share in: its own slow log and its own counters, and when a script makes a
//! server busy.
//!
//! `CONFIG SET slowlog-log-slower-than`, `CONFIG SET slowlog-max-len`, `CONFIG SET busy-reply-threshold` (`lua-time-limit`) and `CONFIG RESETSTAT` go on to
//! the servers as ever. Whoever sends them to a proxy looks at the result through it, so they also hold here, for all workers, until the process
//! ends or the next one comes.
//!
//! Not here: the configuration of the proxy (`settings`), which knows no change while it runs.
//!
//! Invariant: what a server refuses by its form (a value that is no number) changes nothing here.

use crate::command::word;
use crate::command::{Class, ids, lookup_sub};
use crate::engine::Engine;
use crate::limits::SLOWLOG_ENTRIES_MAX;
use crate::news::What;
use crate::route::Known;
use crate::stats::Stats;
use crate::stats::node::NodeStats;
use resp::number;

/// What is to be other from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The counters begin again.
    reset: bool,
    /// From here on a request is slow; the end of time: none is.
    slower_than_us: Option<u64>,
    /// Entries of the slow log.
    max_len: Option<usize>,
    /// A script that runs for longer makes the server busy.
    busy_after_ms: Option<u64>,
}

impl Engine {
    /// A request was given on: it may be a CONFIG that concerns the proxy, or change which commands there are.
    pub(crate) fn overhear(&mut self, known: &Known, args: &[&[u8]]) {
        if known.id == Some(ids::MODULE) {
            self.learning.lookups.forget_kept();
        }
        if known.id.is_none_or(|id| id.row().class != Class::Noted) {
            return;
        }
        if let Some(change) = change_of(args) {
            self.take_over(change);
            self.tell_others(0, What::Config(change));
        }
    }

    /// All counters begin again; gauges and the slow log stay, as in a server.
    fn reset_counters(&mut self) {
        self.stats = Stats::default();
        for (_, node) in self.nodes.iter_mut() {
            node.stats = NodeStats::default();
        }
        for (_, upstream) in self.upstreams.iter_mut() {
            upstream.reset_traffic();
        }
    }

    /// Somebody changed what the proxy has a share in.
    pub(crate) fn take_over(&mut self, change: Change) {
        if change.reset {
            self.reset_counters();
        }
        if let Some(after_ms) = change.busy_after_ms {
            self.set_busy_after(after_ms);
        }
        let mut options = self.settings.slowlog;
        options.slower_than_us = change.slower_than_us.unwrap_or(options.slower_than_us);
        options.max_len = change.max_len.unwrap_or(options.max_len);
        if options != self.settings.slowlog {
            self.settings.slowlog = options;
            self.slowlog.change(&options);
            self.observer.set_slowlog(self.slowlog.from_us);
        }
    }
}

fn change_of(args: &[&[u8]]) -> Option<Change> {
    let mut change = Change::default();
    match lookup_sub(ids::CONFIG, args.get(1)?)? {
        ids::CONFIG_RESETSTAT if args.len() == 2 => change.reset = true,
        ids::CONFIG_SET => {
            for pair in args.get(2..)?.chunks(2) {
                let [name, value] = pair else { return None };
                let number = || number::parse_i64(value);
                match &*word::lower(name) {
                    // -1: nothing is slow.
                    b"slowlog-log-slower-than" => {
                        let us = number().filter(|us| *us >= -1)?;
                        change.slower_than_us = Some(u64::try_from(us).unwrap_or(u64::MAX));
                    }
                    b"slowlog-max-len" => {
                        let len = usize::try_from(number()?).ok()?;
                        change.max_len = Some(len.min(SLOWLOG_ENTRIES_MAX));
                    }
                    b"busy-reply-threshold" | b"lua-time-limit" => {
                        change.busy_after_ms = Some(u64::try_from(number()?).ok()?);
                    }
                    _ => {}
                }
            }
        }
        _ => return None,
    }
    (change != Change::default()).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn change(line: &str) -> Option<Change> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        change_of(&args)
    }

    #[test]
    fn only_what_the_proxy_has_a_share_in_changes_it() {
        let reset = Change { reset: true, ..Change::default() };
        assert_eq!(change("config ResetStat"), Some(reset));
        let both = change("CONFIG SET maxmemory 1 slowlog-max-len 7 SLOWLOG-LOG-SLOWER-THAN 0");
        let slow = Change { slower_than_us: Some(0), max_len: Some(7), ..Change::default() };
        assert_eq!(both, Some(slow));
        let off = Change { slower_than_us: Some(u64::MAX), ..Change::default() };
        assert_eq!(change("CONFIG SET slowlog-log-slower-than -1"), Some(off));
        let busy = Change { busy_after_ms: Some(10), ..Change::default() };
        assert_eq!(change("CONFIG SET lua-time-limit 10"), Some(busy));
        assert_eq!(change("CONFIG SET Busy-Reply-Threshold 10"), Some(busy));
        for none in [
            "CONFIG SET busy-reply-threshold -1",
            "CONFIG",
            "CONFIG RESETSTAT x",
            "CONFIG GET slowlog-max-len",
            "CONFIG SET maxmemory 1",
            "CONFIG SET slowlog-max-len",
            "CONFIG SET slowlog-max-len -1",
            "CONFIG SET slowlog-max-len 5 slowlog-log-slower-than soon",
            "CONFIG SET slowlog-log-slower-than -2",
        ] {
            assert_eq!(change(none), None, "{none}");
        }
        let many = change("CONFIG SET slowlog-max-len 9000000000").and_then(|all| all.max_len);
        assert_eq!(many, Some(SLOWLOG_ENTRIES_MAX));
    }
}
