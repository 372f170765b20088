//! What comparisons came to: of all of them, by command and by prefix of the key, with the last differences.
//!
//! A prefix is what stands before the first `:` of the first key. Values of differences are data: they are kept only where that is wanted, and shortened.
//!
//! Not here: when a comparison says something (`super`), how two replies are compared (`compare`).
//!
//! Invariant: rows and samples have a bound; each read that was looked at is in exactly one number of each of its two rows and of the sum.

use crate::command::CommandId;
use crate::key_name::KeyName;
use crate::limits::{
    SHADOW_PREFIX_BYTES, SHADOW_PREFIXES_MAX, SHADOW_SAMPLE_BYTES, SHADOW_SAMPLES_MAX,
};
use crate::report::summed;
use crate::time::Time;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What became of reads that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// Both sides said the same.
    pub equal: u64,
    /// They did not, three times in a row.
    pub different: u64,
    /// Something wrote the key meanwhile: it says nothing.
    pub racing: u64,
    /// It says nothing for another reason: the mirror did not answer, or too late, or the primary did not.
    pub void: u64,
    /// The request or its reply was too large to be kept.
    pub large: u64,
    /// There was no room, or the mirror was behind or away: it was not asked.
    pub dropped: u64,
}

impl ShadowCounts {
    /// Reads whose replies were held against each other.
    pub fn compared(&self) -> u64 {
        self.equal + self.different
    }

    /// Of a million that were compared so many differ.
    pub fn different_per_million(&self) -> u64 {
        (self.different * 1_000_000).checked_div(self.compared()).unwrap_or(0)
    }

    /// Adds what another worker counted.
    pub(in crate::mirror) fn add_all(&mut self, other: &Self) {
        self.equal += other.equal;
        self.different += other.different;
        self.racing += other.racing;
        self.void += other.void;
        self.large += other.large;
        self.dropped += other.dropped;
    }

    fn add(&mut self, fate: Fate) {
        let count = match fate {
            Fate::Equal => &mut self.equal,
            Fate::Different => &mut self.different,
            Fate::Racing => &mut self.racing,
            Fate::Void => &mut self.void,
            Fate::Large => &mut self.large,
            Fate::Dropped => &mut self.dropped,
        };
        *count += 1;
    }
}

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Equal,
    Different,
    Racing,
    Void,
    Large,
    Dropped,
}

/// A command or a prefix, and what became of its reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShadowRow {
    /// Its name. Of a prefix bytes that are not printable are escapes.
    pub name: String,
    /// See [`ShadowCounts`].
    pub counts: ShadowCounts,
    /// When the first difference was seen.
    pub first: Option<Time>,
    /// And the last one.
    pub last: Option<Time>,
}

impl ShadowRow {
    fn add(&mut self, other: &Self) {
        self.counts.add_all(&other.counts);
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
    }
}

/// The rows of several workers, most differences first.
fn joined(rows: &[ShadowRow], others: &[ShadowRow]) -> Vec<ShadowRow> {
    let all = rows.iter().chain(others);
    ordered(summed(all, |one, other| one.name == other.name, ShadowRow::add))
}

/// Most differences first.
fn ordered(mut rows: Vec<ShadowRow>) -> Vec<ShadowRow> {
    rows.sort_by(|one, other| {
        let most = |row: &ShadowRow| (row.counts.different, row.counts.equal);
        most(other).cmp(&most(one)).then_with(|| one.name.cmp(&other.name))
    });
    rows
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowSample {
    /// When it was seen.
    pub at: Time,
    /// The command.
    pub command: &'static str,
    /// Its first key.
    pub key: KeyName,
    /// The begins of both replies, the primary's first; where values are shown.
    pub replies: Option<[Vec<u8>; 2]>,
}

/// The whole report on one mirror.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShadowReport {
    /// The name of the mirror.
    pub mirror: String,
    /// Whose it is; `None`: there are no tenants.
    pub tenant: Option<Arc<str>>,
    /// Of all of them.
    pub counts: ShadowCounts,
    /// By command, most differences first.
    pub commands: Vec<ShadowRow>,
    /// By prefix, most differences first. One without a name has the keys without a prefix.
    pub prefixes: Vec<ShadowRow>,
    /// Reads of prefixes for which there was no row any more.
    pub other_prefixes: ShadowCounts,
    /// The last differences, the newest first.
    pub samples: Vec<ShadowSample>,
}

impl ShadowReport {
    /// Adds what another worker says of the same mirror.
    fn add(&mut self, other: &Self) {
        self.counts.add_all(&other.counts);
        self.commands = joined(&self.commands, &other.commands);
        self.prefixes = joined(&self.prefixes, &other.prefixes);
        let beyond = self.prefixes.len().min(SHADOW_PREFIXES_MAX);
        for row in self.prefixes.drain(beyond..) {
            self.other_prefixes.add_all(&row.counts);
        }
        self.other_prefixes.add_all(&other.other_prefixes);
        self.samples.extend_from_slice(&other.samples);
        self.samples.sort_by_key(|sample| core::cmp::Reverse(sample.at));
        self.samples.truncate(SHADOW_SAMPLES_MAX);
    }
}

/// What workers say, each mirror once.
pub fn shadows_of<'a>(all: impl Iterator<Item = &'a ShadowReport>) -> Vec<ShadowReport> {
    let is_same = |one: &ShadowReport, other: &ShadowReport| {
        (&one.mirror, &one.tenant) == (&other.mirror, &other.tenant)
    };
    summed(all, is_same, ShadowReport::add)
}

#[derive(Debug, Default)]
struct Row {
    counts: ShadowCounts,
    seen: Option<(Time, Time)>,
}

impl Row {
    fn add(&mut self, now: Time, fate: Fate) {
        self.counts.add(fate);
        if fate == Fate::Different {
            let first = self.seen.map_or(now, |(first, _)| first);
            self.seen = Some((first, now));
        }
    }

    fn shown(&self, name: String) -> ShadowRow {
        let Self { counts, seen } = self;
        let (first, last) = seen.unzip();
        ShadowRow { name, counts: *counts, first, last }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: ShadowCounts,
    commands: BTreeMap<&'static str, Row>,
    prefixes: BTreeMap<Vec<u8>, Row>,
    others: ShadowCounts,
    samples: VecDeque<ShadowSample>,
}

impl Tally {
    /// What became of a read with this first key.
    pub(crate) fn add(&mut self, now: Time, command: CommandId, key: &[u8], fate: Fate) {
        self.counts.add(fate);
        self.commands.entry(command.name()).or_default().add(now, fate);
        let prefix = prefix_of(key);
        if let Some(row) = self.prefixes.get_mut(prefix) {
            row.add(now, fate);
        } else if self.prefixes.len() < SHADOW_PREFIXES_MAX {
            self.prefixes.entry(prefix.to_vec()).or_default().add(now, fate);
        } else {
            self.others.add(fate);
        }
    }

    /// A difference was seen; with both replies if values may be kept.
    pub(crate) fn sample(
        &mut self,
        now: Time,
        command: CommandId,
        key: &[u8],
        replies: Option<[&[u8]; 2]>,
    ) {
        if self.samples.len() == SHADOW_SAMPLES_MAX {
            self.samples.pop_front();
        }
        let begin = |reply: &[u8]| reply[..reply.len().min(SHADOW_SAMPLE_BYTES)].to_vec();
        self.samples.push_back(ShadowSample {
            at: now,
            command: command.name(),
            key: KeyName::new(key),
            replies: replies.map(|both| both.map(begin)),
        });
    }

    pub(crate) fn counts(&self) -> ShadowCounts {
        self.counts
    }

    /// All of it.
    pub(crate) fn report(&self, mirror: &str) -> ShadowReport {
        let commands = self.commands.iter().map(|(name, row)| row.shown((*name).into()));
        let prefixes =
            self.prefixes.iter().map(|(name, row)| row.shown(name.escape_ascii().to_string()));
        ShadowReport {
            mirror: mirror.into(),
            tenant: None,
            counts: self.counts,
            commands: ordered(commands.collect()),
            prefixes: ordered(prefixes.collect()),
            other_prefixes: self.others,
            samples: self.samples.iter().rev().cloned().collect(),
        }
    }
}

/// What stands before the first `:`, up to a bound; nothing, if there is none.
fn prefix_of(key: &[u8]) -> &[u8] {
    let end = key.iter().position(|byte| *byte == b':').unwrap_or(0);
    &key[..end.min(SHADOW_PREFIX_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ids::GET;
    use alloc::format;

    #[test]
    fn rows_have_a_bound_and_what_is_beyond_is_counted_together() {
        let mut tally = Tally::default();
        for n in 0..SHADOW_PREFIXES_MAX + 5 {
            tally.add(Time(n as u64), GET, format!("p{n}:x").as_bytes(), Fate::Equal);
        }
        let report = tally.report("b");
        assert_eq!(report.prefixes.len(), SHADOW_PREFIXES_MAX);
        assert_eq!((report.counts.equal, report.other_prefixes.equal), (261, 5));
        assert_eq!(report.commands.len(), 1);
    }

    #[test]
    fn the_first_and_the_last_difference_are_told_and_only_so_many_samples_kept() {
        let mut tally = Tally::default();
        tally.add(Time(1), GET, b"user:1", Fate::Equal);
        assert_eq!(tally.report("b").prefixes[0].first, None);
        for at in 10..100 {
            tally.add(Time(at), GET, b"user:1", Fate::Different);
            tally.sample(Time(at), GET, b"user:1", Some([&[b'x'; 9_999], b"$-1\r\n"]));
        }
        tally.add(Time(200), GET, b"no prefix", Fate::Racing);
        let report = tally.report("b");
        let row = &report.prefixes[0];
        assert_eq!(
            (row.name.as_str(), row.first, row.last),
            ("user", Some(Time(10)), Some(Time(99)))
        );
        assert_eq!(report.prefixes[1].name, "");
        assert_eq!(
            (report.counts.compared(), report.counts.different_per_million()),
            (91, 989_010)
        );
        assert_eq!((report.samples.len(), report.samples[0].at), (SHADOW_SAMPLES_MAX, Time(99)));
        let replies = report.samples[0].replies.as_ref().unwrap();
        assert_eq!((replies[0].len(), replies[1].len()), (SHADOW_SAMPLE_BYTES, 5));
    }

    #[test]
    fn what_workers_say_of_a_mirror_is_one_report() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.add(Time(5), GET, b"a:1", Fate::Different);
        one.sample(Time(5), GET, b"a:1", None);
        other.add(Time(3), GET, b"a:2", Fate::Different);
        other.sample(Time(3), GET, b"a:2", None);
        other.add(Time(9), GET, b"b:2", Fate::Equal);
        let sum = shadows_of([one.report("new"), other.report("new")].iter());
        assert_eq!(sum.len(), 1);
        let sum = &sum[0];
        assert_eq!((sum.counts.different, sum.counts.equal), (2, 1));
        assert_eq!(sum.commands.len(), 1);
        let of_a = &sum.prefixes[0];
        assert_eq!((of_a.name.as_str(), of_a.counts.different), ("a", 2));
        let seen = (Some(Time(3)), Some(Time(5)));
        assert_eq!((of_a.first, of_a.last), seen);
        let times: Vec<Time> = sum.samples.iter().map(|sample| sample.at).collect();
        assert_eq!(times, [Time(5), Time(3)], "the newest first");

        // Prefixes of all workers together have the bound that those of each have.
        let full = |from: usize| {
            let mut tally = Tally::default();
            for n in from..from + SHADOW_PREFIXES_MAX {
                tally.add(Time::default(), GET, format!("{n}:k").as_bytes(), Fate::Equal);
            }
            tally.report("new")
        };
        let sum = shadows_of([full(0), full(10)].iter()).remove(0);
        assert_eq!(sum.prefixes.len(), SHADOW_PREFIXES_MAX);
        assert_eq!(sum.other_prefixes.equal, 10);
        assert_eq!(sum.counts.equal as usize, 2 * SHADOW_PREFIXES_MAX);
    }
}
