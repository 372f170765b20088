//! Which keys come most often: one request of so many is looked at, and its keys are counted in windows of time.
//!
//! ```text
//!   requests written for a server ─▶ one of `sample` ─▶ its keys ─▶ sketch ─▶ top      now the window ends ─▶ last
//! ```
//! The requests are looked at when their bytes are about to leave, many at once, and not each as it comes: so it costs one look for each write
//! while it is off, and while it is on a subtraction for each write besides the samples. What was split between servers is counted by its
//! parts, each key once. What is sent a second time (a redirect) is not counted again.
//!
//! The gap from one sample to the next is drawn anew each time, between 1 and twice `sample`, so that no rhythm of clients meets always the same
//! of their keys. Every count that is told is that of the samples times `sample`.
//!
//! Two windows are known: the one that runs and the last whole one. A count is over both, a rate over the time of both.
//!
//! Not here: the command (`local::hotkeys`).
//!
//! Invariant: at most `top` keys of each of two windows and one sketch are kept, and nothing while it is off.

pub(crate) mod sketch;
mod top;

use crate::command::{self, CommandId, Flags, KeyFlags, Learned};
use crate::engine::{Engine, Notice};
use crate::ids::UpstreamId;
use crate::key_name::KeyName;
use crate::limits::{HOTKEYS_AT_ONCE, HOTKEYS_KEYS_MAX, HOTKEYS_TOP_MAX};
use crate::scatter::row_of;
use crate::time::Time;
use crate::upstream::Upstream;
use crate::upstream::inflight::{Owner, Run};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use rapidhash::v3::rapidhash_v3;
use resp::{Args, HEAD_ARGS, Like, RequestLimits, RequestScanner, Scan, Span};
use sketch::Sketch;
use top::{Listed, Top};

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether it is on from the start.
    pub enabled: bool,
    /// One request of so many is looked at; 1 at least.
    pub sample: u32,
    /// So many keys are known of each window; at most `limits::HOTKEYS_TOP_MAX`.
    pub top: usize,
    /// Length of a window, in seconds; 1 at least.
    pub window_s: u64,
    /// The operator is told of a key that comes so often in a second, on average of a window. Each worker judges by its share of that. 0: never.
    pub min_per_s: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { enabled: false, sample: 128, top: 32, window_s: 10, min_per_s: 0 }
    }
}

/// A key and how often it came; estimates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotKey {
    /// Which.
    pub name: KeyName,
    /// In the window that runs.
    pub current: u64,
    /// In the last whole window.
    pub last: u64,
    /// Of both, by commands that may write.
    pub writes: u64,
    /// In a thousand seconds, over the time of both.
    pub per_1000_s: u64,
}

impl HotKey {
    /// How often it came in both windows.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.current + self.last
    }
}

/// What one worker, or all together, know of hot keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotReport {
    /// Whether it is on.
    pub on: bool,
    /// The most frequent first; keys that come equally often by name. At most the option `top` of them.
    pub keys: Vec<HotKey>,
}

impl HotReport {
    /// What these know together: keys of several are added up, and the `len_max` most frequent are kept.
    #[must_use]
    pub fn merged(reports: impl IntoIterator<Item = Self>, len_max: usize) -> Self {
        let mut on = false;
        let mut keys: BTreeMap<KeyName, HotKey> = BTreeMap::new();
        for report in reports {
            on |= report.on;
            for key in report.keys {
                let sum = keys.entry(key.name).or_default();
                sum.current += key.current;
                sum.last += key.last;
                sum.writes += key.writes;
                sum.per_1000_s += key.per_1000_s;
            }
        }
        let keys = keys.into_iter().map(|(name, sum)| HotKey { name, ..sum });
        Self { on, keys: first(keys.collect(), len_max) }
    }
}

/// The most frequent keys of a list, in their order.
fn first(mut keys: Vec<HotKey>, len_max: usize) -> Vec<HotKey> {
    // By comparison, as `sort_by_key` would need a copy of each name.
    keys.sort_by(|a, b| (Reverse(a.count()), &a.name).cmp(&(Reverse(b.count()), &b.name)));
    keys.truncate(len_max);
    keys
}

/// See the module.
#[derive(Debug)]
pub(crate) struct HotKeys {
    options: Options,
    /// From so many samples in a window on the operator is told of a key; the end of all numbers: never.
    told_from: u32,
    random: u64,
    /// What there is while it is on.
    tally: Option<Tally>,
}

/// The counts of two windows.
#[derive(Debug)]
struct Tally {
    /// Requests up to the next one that is looked at.
    left: u32,
    sketch: Sketch,
    top: Top,
    began: Time,
    /// Of the last whole window; `None`: the first one runs.
    last: Option<Vec<Listed>>,
}

impl HotKeys {
    pub(crate) fn new(options: &Options, workers: u32, seed: u64, now: Time) -> Self {
        let options = Options {
            sample: options.sample.max(1),
            top: options.top.min(HOTKEYS_TOP_MAX),
            window_s: options.window_s.max(1),
            ..*options
        };
        let per_window = options.min_per_s.saturating_mul(options.window_s);
        let of_worker = per_window.div_ceil(u64::from(workers.max(1)));
        let samples = of_worker.div_ceil(u64::from(options.sample)).max(1);
        let told_from = match options.min_per_s {
            0 => u32::MAX,
            _ => u32::try_from(samples).unwrap_or(u32::MAX),
        };
        // Xorshift knows no way out of 0.
        let mut hot = Self { options, told_from, random: seed | 1, tally: None };
        hot.switch(now, options.enabled);
        hot
    }

    /// Other options: what was counted by the former ones is forgotten. What TOPKEYS said of it being on or off holds, unless the option itself
    /// says otherwise than before.
    pub(crate) fn change(&mut self, old: &Options, new: &Options, workers: u32, now: Time) {
        let on = if old.enabled == new.enabled { self.is_on() } else { new.enabled };
        *self = Self::new(&Options { enabled: on, ..*new }, workers, self.random, now);
    }

    /// Whether requests are looked at.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.tally.is_some()
    }

    /// Begins, or ends and forgets everything.
    pub(crate) fn switch(&mut self, now: Time, on: bool) {
        if on == self.is_on() {
            return;
        }
        self.tally = None;
        if on {
            let left = gap(&mut self.random, self.options.sample);
            let (sketch, top) = (Sketch::new(), Top::default());
            self.tally = Some(Tally { left, sketch, top, began: now, last: None });
        }
    }

    /// Forgets what was counted.
    pub(crate) fn reset(&mut self, now: Time) {
        if self.is_on() {
            self.switch(now, false);
            self.switch(now, true);
        }
    }

    /// What is known at this time.
    pub(crate) fn report(&self, now: Time) -> HotReport {
        let (sample, window_us) = (u64::from(self.options.sample), self.window_us());
        let Some(tally) = &self.tally else { return HotReport::default() };
        let windows = now.since(tally.began) / window_us;
        let (current, last) = match windows {
            0 => (Some(&tally.top), tally.last.as_deref().unwrap_or(&[])),
            // It is over, and nobody noticed yet.
            1 => (None, tally.top.list()),
            _ => (None, &[][..]),
        };
        let whole_us = if windows > 0 || tally.last.is_some() { window_us } else { 0 };
        // The first moments say nothing about a second.
        let span_us = (now.since(tally.began) % window_us + whole_us).max(1_000_000);
        let mut keys: BTreeMap<&KeyName, HotKey> = BTreeMap::new();
        let current = current.into_iter().flat_map(Top::list).map(|listed| (true, listed));
        for (is_current, listed) in current.chain(last.iter().map(|listed| (false, listed))) {
            let key = keys.entry(&listed.name).or_default();
            let count = u64::from(listed.count) * sample;
            *if is_current { &mut key.current } else { &mut key.last } += count;
            key.writes += listed.writes() * sample;
        }
        let keys = keys.into_iter().map(|(name, key)| {
            let per_1000_s = key.count().saturating_mul(1_000_000_000) / span_us;
            HotKey { name: name.clone(), per_1000_s, ..key }
        });
        HotReport { on: true, keys: first(keys.collect(), self.options.top) }
    }

    fn window_us(&self) -> u64 {
        self.options.window_s.saturating_mul(1_000_000)
    }

    /// A key of a sampled request. Gives how often it came in this window if the operator is to be told.
    fn add(&mut self, now: Time, key: &[u8], writes: bool) -> Option<u64> {
        let (window_us, random) = (self.window_us(), &mut self.random);
        let tally = self.tally.as_mut()?;
        tally.turn(now, window_us);
        let hash = rapidhash_v3(key);
        let next = || (next_random(random) >> 32) as u32;
        let top = self.options.top;
        let listed = tally.top.add(top, hash, key, writes, &mut tally.sketch, next)?;
        if listed.told || listed.count < self.told_from {
            return None;
        }
        listed.told = true;
        Some(u64::from(listed.count) * u64::from(self.options.sample))
    }

    /// The same; gives what the operator is to be told.
    fn add_and_tell(
        &mut self,
        now: Time,
        key: &[u8],
        writes: bool,
        node: Option<&str>,
    ) -> Option<Notice> {
        let count = self.add(now, key, writes)?;
        Some(Notice::HotKey {
            key: KeyName::new(key).text(),
            count,
            window_s: self.options.window_s,
            node: node.unwrap_or_default().into(),
        })
    }
}

impl Tally {
    /// Begins the window of this time, if that is another one.
    fn turn(&mut self, now: Time, window_us: u64) {
        let windows = now.since(self.began) / window_us;
        if windows == 0 {
            return;
        }
        let listed = self.top.take();
        // In a window that nobody looked at nothing came.
        self.last = Some(if windows == 1 { listed } else { Vec::new() });
        self.sketch.clear();
        self.began = self.began + windows * window_us;
    }
}

/// Requests up to the next sample, that one included: `sample` on average.
pub(crate) fn gap(random: &mut u64, sample: u32) -> u32 {
    let span = u64::from(sample) * 2 - 1;
    (((next_random(random) >> 32) * span) >> 32) as u32 + 1
}

/// xorshift64*.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

impl Engine {
    /// What was written for this server since the last time is about to leave: some of it is looked at.
    #[inline]
    pub(crate) fn sample_requests(&mut self, id: UpstreamId) {
        let Self { upstreams, hotkeys, .. } = self;
        if upstreams.get_mut(id).is_some_and(|upstream| !hotkeys.passes(upstream)) {
            self.look_at_samples(id);
        }
    }

    #[inline(never)]
    fn look_at_samples(&mut self, id: UpstreamId) {
        let Self { upstreams, nodes, hotkeys, learned, notices, .. } = self;
        let Some(upstream) = upstreams.get_mut(id) else { return };
        loop {
            let (places, count) = hotkeys.places(upstream);
            let node = nodes.get(upstream.key.node).map(|node| node.label.as_str());
            upstream.inflight.locate(&places[..count], |run, skip| {
                let Some(request) = Sampled::find(upstream, run, skip) else { return };
                request.keys(run.command, learned.as_ref(), |key, writes| {
                    notices.extend(hotkeys.add_and_tell(run.sent_at, key, writes, node));
                });
            });
            if count < HOTKEYS_AT_ONCE {
                return;
            }
        }
    }

    /// The same of reads that are not written, as an equal one is (see `coalesce`).
    #[cold]
    pub(crate) fn look_at_shared(&mut self, now: Time) {
        let Self { upstreams, nodes, hotkeys, notices, coalescer, .. } = self;
        for read in coalescer.sampled.drain(..) {
            let node = upstreams.get(read.upstream).and_then(|up| nodes.get(up.key.node));
            let node = node.map(|node| node.label.as_str());
            let Some(request) = Sampled::of(&read.request, RequestScanner::default()) else {
                continue;
            };
            request.keys(Some(read.command), None, |key, writes| {
                notices.extend(hotkeys.add_and_tell(now, key, writes, node));
            });
        }
    }
}

impl HotKeys {
    /// Whether none of the requests that were written for this server since the last time is to be looked at; then they are passed.
    #[inline]
    fn passes(&mut self, upstream: &mut Upstream) -> bool {
        let Some(tally) = self.tally.as_mut() else { return true };
        let end = upstream.inflight.end();
        // Those that are answered already were written before it was switched on.
        let fresh = end.saturating_sub(upstream.sampled_to.max(upstream.inflight.place()));
        if fresh >= u64::from(tally.left) {
            return false;
        }
        // Less than `left`, so it fits.
        tally.left -= fresh as u32;
        upstream.sampled_to = end;
        true
    }

    /// One more request came, for which nothing is written: whether it is to be looked at.
    #[inline]
    pub(crate) fn takes_one(&mut self) -> bool {
        let Some(tally) = self.tally.as_mut() else { return false };
        tally.left -= 1;
        if tally.left > 0 {
            return false;
        }
        tally.left = gap(&mut self.random, self.options.sample);
        true
    }

    /// The places of those that are to be looked at. If all places that there is room for are taken there may be more.
    fn places(&mut self, upstream: &mut Upstream) -> ([u64; HOTKEYS_AT_ONCE], usize) {
        let (mut places, mut count) = ([0; HOTKEYS_AT_ONCE], 0);
        while count < HOTKEYS_AT_ONCE && !self.passes(upstream) {
            let Some(tally) = self.tally.as_mut() else { break };
            let place = upstream.sampled_to.max(upstream.inflight.place());
            upstream.sampled_to = place + u64::from(tally.left);
            tally.left = gap(&mut self.random, self.options.sample);
            places[count] = upstream.sampled_to - 1;
            count += 1;
        }
        (places, count)
    }
}

/// A request that is looked at.
struct Sampled<'a> {
    /// From its first byte on; there may be more behind it.
    bytes: &'a [u8],
    /// Its first arguments.
    head: [&'a [u8]; HEAD_ARGS],
    head_len: usize,
    /// All of it is here.
    is_whole: bool,
}

impl<'a> Sampled<'a> {
    /// The request of this run behind so many others, if it is a client's and its bytes are here.
    fn find(upstream: &'a Upstream, run: &Run, skip: u32) -> Option<Self> {
        if matches!(run.owner, Owner::Own(_)) || run.tries > 0 {
            return None;
        }
        let limits = RequestLimits { bulk_bytes_max: u64::MAX, ..RequestLimits::default() };
        let mut bytes = upstream.out.bytes_at(run.at)?;
        let mut scanner = RequestScanner::default();
        let mut left = skip;
        while left > 0 {
            let Ok(Scan::Complete { consumed, frame }) = scanner.scan(bytes, &limits) else {
                return None;
            };
            let like = Like::of(&frame, bytes, &limits);
            bytes = &bytes[consumed..];
            let (alike, len) = like.map_or((0, 0), |like| like.scan_all(bytes, left - 1));
            bytes = &bytes[len..];
            left -= 1 + alike;
        }
        Self::of(bytes, scanner)
    }

    /// The one that these bytes begin with.
    fn of(bytes: &'a [u8], mut scanner: RequestScanner) -> Option<Self> {
        let limits = RequestLimits { bulk_bytes_max: u64::MAX, ..RequestLimits::default() };
        let mut head = [&[][..]; HEAD_ARGS];
        let (spans, is_whole) = match scanner.scan(bytes, &limits).ok()? {
            Scan::Complete { frame, .. } => (frame.head, true),
            Scan::Partial { .. } => ([Span::default(); HEAD_ARGS], false),
        };
        let spans = if is_whole { &spans[..] } else { scanner.head() };
        for (arg, span) in head.iter_mut().zip(spans) {
            *arg = span.of(bytes);
        }
        Some(Self { bytes, head, head_len: spans.len(), is_whole })
    }

    /// Each key, and whether the command may write.
    fn keys(
        &self,
        command: Option<CommandId>,
        learned: Option<&Learned>,
        mut each: impl FnMut(&[u8], bool),
    ) {
        let Some(id) = command else { return self.keys_of_learned(learned, each) };
        let row = id.row();
        if let Some(at) = row.only_key_at()
            && at < self.head_len
            && row.keys.iter().all(|spec| !spec.flags.has(KeyFlags::NOT_KEY))
        {
            return each(self.head[at], row.writes());
        }
        if self.is_whole && (row.is_container() || !row.keys.is_empty()) {
            let row = row_of(id, &self.head).row();
            let mut left = HOTKEYS_KEYS_MAX;
            command::keys(row, Args::new(self.bytes), |_, key, flags| {
                if left > 0 && !flags.has(KeyFlags::NOT_KEY) {
                    left -= 1;
                    each(key, row.writes());
                }
            });
        }
    }

    /// The same of a command that only the server knows.
    fn keys_of_learned(&self, learned: Option<&Learned>, mut each: impl FnMut(&[u8], bool)) {
        let Some(row) = learned.and_then(|learned| learned.lookup(self.head[0])) else { return };
        if self.is_whole {
            let mut left = HOTKEYS_KEYS_MAX;
            row.keys(Args::new(self.bytes), |_, key| {
                if left > 0 {
                    left -= 1;
                    each(key, row.flags.has(Flags::WRITE));
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn hot(options: Options, workers: u32) -> HotKeys {
        HotKeys::new(&Options { enabled: true, ..options }, workers, 7, Time(0))
    }

    fn counts(report: &HotReport) -> Vec<(Vec<u8>, u64, u64, u64)> {
        report
            .keys
            .iter()
            .map(|key| (key.name.shown(), key.current, key.last, key.writes))
            .collect()
    }

    #[test]
    fn gaps_are_the_sample_on_average_and_never_the_same_for_long() {
        for sample in [1, 2, 32, 1_000_000] {
            let mut random = 3;
            let gaps: Vec<u64> = (0..10_000).map(|_| gap(&mut random, sample).into()).collect();
            let (low, high) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
            assert!(*low >= 1 && *high < u64::from(sample) * 2, "{sample}: {low} {high}");
            let mean = gaps.iter().sum::<u64>() as f64 / 10_000.0;
            assert!((mean / f64::from(sample) - 1.0).abs() < 0.05, "{sample}: {mean}");
        }
    }

    #[test]
    fn two_windows_are_known_and_nothing_older() {
        let mut hot = hot(Options { sample: 1, window_s: 10, ..Options::default() }, 1);
        for (second, key) in [(0, b"a"), (1, b"b"), (2, b"b")] {
            hot.add(Time(second * 1_000_000), key, key == b"a");
        }
        let first = hot.report(Time(4_000_000));
        assert_eq!(counts(&first), [(b"b".to_vec(), 2, 0, 0), (b"a".to_vec(), 1, 0, 1)]);
        assert_eq!(first.keys[0].per_1000_s, 500);
        hot.add(Time(12_000_000), b"a", false);
        let second = hot.report(Time(15_000_000));
        assert_eq!(counts(&second), [(b"a".to_vec(), 1, 1, 1), (b"b".to_vec(), 0, 2, 0)]);
        assert_eq!(second.keys[0].per_1000_s, 2_000 / 15);
        assert_eq!(counts(&hot.report(Time(20_000_000))), [(b"a".to_vec(), 0, 1, 0)]);
        assert_eq!(counts(&hot.report(Time(40_000_000))), []);
    }

    #[test]
    fn the_operator_is_told_of_a_key_once_a_window() {
        let options = Options { sample: 2, window_s: 10, min_per_s: 1, ..Options::default() };
        let mut hot = hot(options, 1);
        let mut told = |second: u64| {
            (0..20)
                .filter_map(|_| hot.add(Time(second * 1_000_000), b"k", true))
                .collect::<Vec<_>>()
        };
        assert_eq!((told(0), told(1), told(11)), (alloc::vec![10], Vec::new(), alloc::vec![10]));
        // Of four workers each has its share.
        let mut share = super::HotKeys::new(&Options { enabled: true, ..options }, 4, 1, Time(0));
        assert_eq!(share.add(Time(0), b"k", true), None);
        assert_eq!(share.add(Time(0), b"k", true), Some(4));
    }

    #[test]
    fn what_workers_know_is_added_up() {
        let report = |from: u64| {
            let key = |n: u64| HotKey {
                name: KeyName::new(format!("k{n}").as_bytes()),
                current: n,
                last: 10 * n,
                writes: n,
                per_1000_s: 100,
            };
            HotReport { on: true, keys: (from..from + 3).map(key).collect() }
        };
        let merged = HotReport::merged([report(1), report(2), HotReport::default()], 3);
        assert!(merged.on);
        let shown: Vec<_> = counts(&merged)
            .into_iter()
            .zip(&merged.keys)
            .map(|(counts, key)| (counts, key.per_1000_s))
            .collect();
        assert_eq!(
            shown,
            [
                ((b"k3".to_vec(), 6, 60, 6), 200),
                ((b"k2".to_vec(), 4, 40, 4), 200),
                ((b"k4".to_vec(), 4, 40, 4), 100),
            ]
        );
        assert!(!HotReport::merged([], 3).on);
    }

    #[test]
    fn switched_off_nothing_is_kept() {
        let mut hot = hot(Options { sample: 1, ..Options::default() }, 1);
        hot.add(Time(0), b"k", true);
        hot.reset(Time(1));
        assert_eq!(hot.report(Time(1)), HotReport { on: true, keys: Vec::new() });
        hot.add(Time(2), b"k", true);
        hot.switch(Time(3), false);
        assert_eq!(
            (hot.add(Time(3), b"k", true), hot.report(Time(3))),
            (None, HotReport::default())
        );
        hot.switch(Time(4), true);
        assert_eq!(hot.report(Time(4)).keys, []);
    }
}
