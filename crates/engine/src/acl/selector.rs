//! A selector: commands, keys and channels that are allowed together.
//!
//! Invariant: patterns of keys are none while all keys are allowed, and the same for channels.

use super::commands::Commands;
use crate::command::KeyFlags;
use crate::glob::{self, Begins};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What may be done with a key: read it, write it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Access {
    /// Both.
    pub(super) const ALL: Self = Self { read: true, write: true };

    /// What a command needs that does this with a key. One that only looks whether it is there needs neither.
    pub(super) fn needed(flags: KeyFlags) -> Self {
        let writes = KeyFlags::INSERT.with(KeyFlags::DELETE).with(KeyFlags::UPDATE);
        Self { read: flags.has(KeyFlags::ACCESS), write: flags.intersects(writes) }
    }

    fn covers(self, needed: Self) -> bool {
        (self.read || !needed.read) && (self.write || !needed.write)
    }
}

#[derive(Clone, PartialEq, Eq)]
struct KeyPattern {
    access: Access,
    pattern: Box<[u8]>,
}

/// See the module.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) commands: Commands,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    /// Where they stand in `keys`.
    begins: Begins,
    all_channels: bool,
    channels: Vec<Box<[u8]>>,
}

impl Selector {
    /// Everything, from now on.
    pub(super) fn allow_all(&mut self) {
        self.commands.set_all(true);
        self.set_all_keys(true);
        self.set_all_channels(true);
    }

    /// Whether nothing is forbidden.
    pub(super) fn allows_everything(&self) -> bool {
        self.all_keys && self.all_channels && self.commands.are_all()
    }

    pub(super) fn set_all_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.keys.clear();
        self.begins.clear();
    }

    pub(super) fn set_all_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channels.clear();
    }

    pub(super) fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    pub(super) fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    /// Adds a pattern; a known one gets what it did not have.
    pub(super) fn add_keys(&mut self, pattern: &[u8], access: Access) {
        match self.keys.iter_mut().find(|known| *known.pattern == *pattern) {
            Some(known) => {
                known.access.read |= access.read;
                known.access.write |= access.write;
            }
            None => {
                self.begins.add(self.keys.len(), pattern);
                self.keys.push(KeyPattern { access, pattern: pattern.into() });
            }
        }
    }

    /// How many patterns of keys and of channels there are.
    pub(super) fn patterns(&self) -> usize {
        self.keys.len() + self.channels.len()
    }

    pub(super) fn add_channels(&mut self, pattern: &[u8]) {
        if !self.channels.iter().any(|known| **known == *pattern) {
            self.channels.push(pattern.into());
        }
    }

    /// Whether a key may be used so.
    pub(super) fn allows_key(&self, key: &[u8], needed: Access) -> bool {
        let fits =
            |known: &KeyPattern| known.access.covers(needed) && glob::matches(&known.pattern, key);
        self.all_keys
            || match self.keys.len() > glob::FEW {
                true => self.begins.of(key).any(|at| fits(&self.keys[at])),
                false => self.keys.iter().any(fits),
            }
    }

    /// Whether every key may be read.
    pub(super) fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|known| known.access.read && *known.pattern == *b"*")
    }

    /// Whether a channel may be used; a pattern must stand here as it is.
    pub(super) fn allows_channel(&self, name: &[u8], is_pattern: bool) -> bool {
        let fits = |known: &[u8]| match is_pattern {
            true => known == name,
            false => glob::matches(known, name),
        };
        self.all_channels || self.channels().any(fits)
    }

    pub(super) fn channels(&self) -> impl Iterator<Item = &[u8]> {
        self.channels.iter().map(|pattern| &**pattern)
    }

    /// The rules for keys, with a blank between them.
    pub(super) fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rule = |known: &KeyPattern| {
            let sign: &[u8] = match (known.access.read, known.access.write) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                // As `~*` it would be all keys, behind which no other pattern is taken.
                _ if *known.pattern == *b"*" => b"%RW~",
                _ => b"~",
            };
            [sign, &known.pattern].concat()
        };
        self.keys.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// The same for channels.
    pub(super) fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rule = |pattern: &[u8]| [b"&", pattern].concat();
        self.channels().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules for commands.
    pub(super) fn describe_commands(&self) -> Vec<u8> {
        self.commands.describe()
    }
}
