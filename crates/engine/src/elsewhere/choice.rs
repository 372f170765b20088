//! Which reads other deployments may answer: commands that only read, by the pattern of their keys, and if wanted only of keys that come often.
//!
//! Not here: which deployment is asked (`super`).
//!
//! Invariant: what is kept of hot keys has a bound, whatever keys come.

use super::Order;
use crate::command::{self, CommandId};
use crate::glob;
use crate::hotkeys::sketch::Sketch;
use crate::limits::{READ_TARGET_HOT_MAX, READ_TARGET_HOT_WINDOW_MS};
use crate::settings::ReadsElsewhere;
use crate::time::Time;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Reads that stay where they are: what walks (a cursor is a server's own), what is done for its effect, and what reads more than it names.
const LEFT_OUT: [&str; 6] = ["hscan", "sscan", "zscan", "touch", "pfcount", "sort_ro"];

/// Whether calls of this command may be answered elsewhere: plain reads with keys.
pub(crate) fn may_go(command: CommandId) -> bool {
    let row = command.row();
    row.is_plain
        && row.reads()
        && !row.writes()
        && !row.keys.is_empty()
        && !row.is_container()
        && !LEFT_OUT.contains(&row.name)
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Choice {
    /// By the index of the command.
    commands: Vec<bool>,
    patterns: Vec<Vec<u8>>,
    percent: u32,
    hot: Option<Hot>,
    random: u64,
}

impl Choice {
    pub(crate) fn new(options: &ReadsElsewhere, seed: u64, now: Time) -> Self {
        let mut commands = Vec::new();
        for id in CommandId::all() {
            if commands.len() <= id.index() {
                commands.resize(id.index() + 1, false);
            }
            commands[id.index()] = may_go(id);
        }
        Self {
            commands,
            patterns: options.keys.clone(),
            percent: u32::from(options.percent),
            hot: (options.hot_per_s > 0).then(|| Hot::new(options.hot_per_s, now)),
            random: seed | 1,
        }
    }

    pub(crate) fn takes_command(&self, command: CommandId) -> bool {
        self.commands.get(command.index()).is_some_and(|may| *may)
    }

    fn takes_key(&self, key: &[u8]) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| glob::means(pattern, key))
    }

    /// One more read of the short way, of this key (the first, if it has several): whether it is to be looked at closer.
    pub(crate) fn counts(&mut self, now: Time, command: CommandId, key: &[u8]) -> bool {
        if !self.takes_command(command) || !self.takes_key(key) {
            return false;
        }
        let Self { hot: Some(hot), random, .. } = self else { return true };
        hot.count(now, rapidhash::v3::rapidhash_v3(key), random)
    }

    /// Whether this read goes elsewhere.
    pub(crate) fn takes(&mut self, now: Time, command: CommandId, keys: &[&[u8]]) -> bool {
        if !self.takes_command(command)
            || keys.is_empty()
            || !keys.iter().all(|key| self.takes_key(key))
        {
            return false;
        }
        if let Some(hot) = &mut self.hot {
            hot.turn(now);
            if !keys.iter().any(|key| hot.is_hot(rapidhash::v3::rapidhash_v3(key))) {
                return false;
            }
        }
        self.percent >= 100 || self.below(100) < self.percent
    }

    /// Where among so many the search for one begins.
    pub(crate) fn first(&mut self, order: Order, count: usize) -> usize {
        match order {
            Order::Random => self.below(count.max(1) as u32) as usize,
            Order::Targets | Order::Main => 0,
        }
    }

    /// A number below this one.
    fn below(&mut self, bound: u32) -> u32 {
        (next(&mut self.random) >> 32) as u32 % bound
    }
}

/// Xorshift with a multiplication: an even spread is wanted, and no more.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Keys that come often: so often within a second, in this one or the one before.
#[derive(Debug)]
struct Hot {
    from: u32,
    sketch: Sketch,
    began: Time,
    now: BTreeSet<u64>,
    before: BTreeSet<u64>,
}

impl Hot {
    fn new(per_s: u64, now: Time) -> Self {
        let from = u32::try_from(per_s).unwrap_or(u32::MAX);
        Self {
            from,
            sketch: Sketch::new(),
            began: now,
            now: BTreeSet::new(),
            before: BTreeSet::new(),
        }
    }

    /// The window may be over.
    fn turn(&mut self, now: Time) {
        let window_us = READ_TARGET_HOT_WINDOW_MS * 1_000;
        let gone_us = now.since(self.began);
        if gone_us < window_us {
            return;
        }
        self.before = core::mem::take(&mut self.now);
        if gone_us >= 2 * window_us {
            self.before.clear();
        }
        self.sketch.clear();
        self.began = now;
    }

    fn count(&mut self, now: Time, hash: u64, random: &mut u64) -> bool {
        self.turn(now);
        let count = self.sketch.add(hash, || (next(random) >> 32) as u32);
        if count >= self.from && self.now.len() < READ_TARGET_HOT_MAX {
            self.now.insert(hash);
        }
        self.is_hot(hash)
    }

    fn is_hot(&self, hash: u64) -> bool {
        self.now.contains(&hash) || self.before.contains(&hash)
    }
}

/// The key that decides about a read of the short way.
pub(crate) fn deciding<'a>(
    command: CommandId,
    mut args: impl Iterator<Item = &'a [u8]>,
) -> &'a [u8] {
    args.nth(command.row().only_key_at().unwrap_or(1)).unwrap_or_default()
}

/// The names of all commands whose calls may be answered elsewhere, in the order of the table.
pub fn commands() -> impl Iterator<Item = &'static str> {
    CommandId::all().filter(|id| may_go(*id)).map(command::CommandId::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ReadsElsewhere {
        ReadsElsewhere { keys: alloc::vec![b"user:*".to_vec()], ..ReadsElsewhere::default() }
    }

    #[test]
    fn only_what_reads_named_keys_goes_elsewhere() {
        let all: Vec<_> = commands().collect();
        for name in ["get", "mget", "hgetall", "zrange", "ttl", "sinter", "exists", "getrange"] {
            assert!(all.contains(&name), "{name}");
        }
        for name in [
            "set",
            "getex",
            "getdel",
            "keys",
            "scan",
            "hscan",
            "dbsize",
            "randomkey",
            "eval_ro",
            "fcall_ro",
            "xread",
            "touch",
            "pfcount",
            "sort",
            "sort_ro",
            "blpop",
            "watch",
            "object",
            "memory",
            "ping",
            "publish",
        ] {
            assert!(!all.contains(&name), "{name}");
        }
    }

    #[test]
    fn keys_and_shares_decide() {
        let get = command::lookup(b"get").unwrap();
        let mget = command::lookup(b"mget").unwrap();
        let mut choice = Choice::new(&options(), 7, Time(0));
        assert!(choice.takes(Time(0), get, &[b"user:1"]) && !choice.takes(Time(0), get, &[b"x"]));
        // Of several keys all must be meant.
        assert!(!choice.takes(Time(0), mget, &[b"user:1", b"x"]));
        assert!(!choice.takes(Time(0), mget, &[]));
        let mut part = Choice::new(&ReadsElsewhere { percent: 30, ..options() }, 7, Time(0));
        let taken = (0..10_000).filter(|_| part.takes(Time(0), get, &[b"user:1"])).count();
        assert!((2_700..3_300).contains(&taken), "{taken}");
    }

    #[test]
    fn a_key_is_hot_from_its_count_on_until_a_second_is_over_without_it() {
        let get = command::lookup(b"get").unwrap();
        let options = ReadsElsewhere { hot_per_s: 10, ..ReadsElsewhere::default() };
        let mut choice = Choice::new(&options, 7, Time(0));
        let ms = |ms: u64| Time(ms * 1_000);
        for _ in 0..9 {
            assert!(!choice.counts(ms(1), get, b"k"));
        }
        assert!(choice.counts(ms(1), get, b"k") && choice.takes(ms(1), get, &[b"k"]));
        assert!(!choice.counts(ms(1), get, b"cold"));
        // In the next second it goes on at once, and after one without it, no more.
        assert!(choice.takes(ms(1_100), get, &[b"k"]));
        assert!(!choice.takes(ms(2_200), get, &[b"k"]));
        // However many keys come, no more are kept than there is room for.
        let mut choice = Choice::new(&ReadsElsewhere { hot_per_s: 1, ..options }, 7, Time(0));
        for n in 0..10_000u32 {
            choice.counts(ms(1), get, &n.to_le_bytes());
        }
        assert_eq!(choice.hot.map(|hot| hot.now.len()), Some(READ_TARGET_HOT_MAX));
    }
}
