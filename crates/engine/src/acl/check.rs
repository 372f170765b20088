//! Whether a user may do what a request asks for (`ACLCheckAllUserCommandPerm`).
//!
//! All keys of the request are looked at, each with what the command does to it, and its channels. One selector must allow all of it. What
//! goes wrong is told as Redis tells it: with several selectors what the one says that came furthest.
//!
//! What a script does with keys that it does not name nobody sees here, and the server does it with our own rights there: users with
//! restrictions get scripts only where the operator takes that on ([`super::Users::unchecked_scripts`]).
//!
//! Invariant: nothing is allocated, so that requests can be checked on their short way.

use super::selector::{Access, Selector};
use super::{Rules, words};
use crate::command::learned::{KeyPositions, LearnedCommand};
use crate::command::options::patterns;
use crate::command::{CommandId, Flags, KeyFlags, ids, keys};
use core::iter::{Skip, StepBy};

/// The command of a request, as it is known.
#[derive(Clone, Copy, Debug)]
pub enum Called<'a> {
    /// A row of the table, of the subcommand where it has one.
    Row(CommandId),
    /// A command that a server told us of.
    Learned(&'a LearnedCommand),
}

/// What is not allowed; the numbers are those of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The command.
    Command,
    /// A key.
    Key(usize),
    /// A channel.
    Channel(usize),
    /// A script.
    Script,
    /// `BY` or `GET` of SORT, with keys that nobody sees here.
    SortBy,
    /// See `SortBy`.
    SortGet,
}

impl Denied {
    /// Redis tells the one with the highest number of these, and of equal ones that of the later argument.
    fn rank(self) -> (u8, usize) {
        match self {
            Self::Key(at) => (2, at),
            Self::Channel(at) => (4, at),
            _ => (1, 0),
        }
    }
}

impl Rules {
    /// Looks at a request.
    ///
    /// # Errors
    /// What is not allowed of it.
    pub fn check<'a, I>(
        &self,
        called: Called<'_>,
        args: I,
        unchecked_scripts: bool,
    ) -> Result<(), Denied>
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        let mut denied = Denied::Command;
        for selector in self.selectors() {
            match selector.check(called, &args) {
                Ok(()) => return self.check_hidden(called, &args, unchecked_scripts),
                Err(error) if error.rank() > denied.rank() => denied = error,
                Err(_) => {}
            }
        }
        Err(denied)
    }

    /// What of a request does not stand in it.
    fn check_hidden<'a, I>(
        &self,
        called: Called<'_>,
        args: &I,
        unchecked_scripts: bool,
    ) -> Result<(), Denied>
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        let Called::Row(id) = called else { return Ok(()) };
        if id.row().is_script() && !unchecked_scripts && !self.allows_everything() {
            return Err(Denied::Script);
        }
        if matches!(id, ids::SORT | ids::SORT_RO) {
            let reads_all = |selector: &Selector| {
                selector.reads_all_keys() && selector.check(called, args).is_ok()
            };
            if let Some(denied) = hidden_keys(args)
                && !self.selectors().any(reads_all)
            {
                return Err(denied);
            }
        }
        Ok(())
    }
}

impl Selector {
    fn check<'a, I>(&self, called: Called<'_>, args: &I) -> Result<(), Denied>
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        match called {
            Called::Row(id) => {
                // AUTH, HELLO and the like nobody can be forbidden.
                let is_allowed = self.commands.has(id) || id.row().flags.has(Flags::NO_AUTH);
                if !is_allowed && !self.allows_with(id, args) {
                    return Err(Denied::Command);
                }
                self.check_keys(id, args)?;
                self.check_channels(id, args)
            }
            Called::Learned(command) => {
                if !self.commands.has_other(&command.name) {
                    return Err(Denied::Command);
                }
                self.check_learned(command, args)
            }
        }
    }

    /// Whether the first argument behind the command makes it allowed.
    fn allows_with<'a, I>(&self, id: CommandId, args: &I) -> bool
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        args.clone().nth(1).is_some_and(|first| self.commands.has_with(id, first))
    }

    fn check_keys<'a, I>(&self, id: CommandId, args: &I) -> Result<(), Denied>
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        if self.has_all_keys() || id.row().keys.is_empty() {
            return Ok(());
        }
        let mut denied = None;
        keys(id.row(), args.clone(), |at, key, flags| {
            if denied.is_none()
                && !flags.has(KeyFlags::NOT_KEY)
                && !self.allows_key(key, Access::needed(flags))
            {
                denied = Some(Denied::Key(at));
            }
        });
        denied.map_or(Ok(()), Err)
    }

    fn check_channels<'a, I>(&self, id: CommandId, args: &I) -> Result<(), Denied>
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        let (count, is_pattern) = match id {
            _ if self.has_all_channels() => return Ok(()),
            ids::PUBLISH | ids::SPUBLISH => (1, false),
            ids::SUBSCRIBE | ids::SSUBSCRIBE => (usize::MAX, false),
            ids::PSUBSCRIBE => (usize::MAX, true),
            _ => return Ok(()),
        };
        let channels = args.clone().enumerate().skip(1).take(count);
        for (at, channel) in channels {
            // A pattern is compared as a string of C there.
            let name = if is_pattern { words::c_string(channel) } else { channel };
            if !self.allows_channel(name, is_pattern) {
                return Err(Denied::Channel(at));
            }
        }
        Ok(())
    }

    /// Where a server could not say where the keys stand, any of the arguments may be one: only who may use all keys may call it.
    fn check_learned<'a, I>(&self, command: &LearnedCommand, args: &I) -> Result<(), Denied>
    where
        I: Iterator<Item = &'a [u8]> + Clone,
    {
        if self.has_all_keys() {
            return Ok(());
        }
        if command.flags.has(Flags::MOVABLEKEYS) {
            return Err(Denied::Key(0));
        }
        let needed = Access { read: true, write: !command.flags.has(Flags::READONLY) };
        match positions(command.keys, args) {
            Some(mut found) => found
                .find(|(_, key)| !self.allows_key(key, needed))
                .map_or(Ok(()), |(at, _)| Err(Denied::Key(at))),
            None => Ok(()),
        }
    }
}

/// The keys that first, last and step of a `COMMAND` reply tell.
fn positions<'a, I>(
    keys: KeyPositions,
    args: &I,
) -> Option<impl Iterator<Item = (usize, &'a [u8])> + use<'a, I>>
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    let first = usize::from(keys.first);
    let last = match usize::try_from(keys.last) {
        Ok(last) => last,
        Err(_) => args.clone().count().checked_sub(keys.last.unsigned_abs().into())?,
    };
    if first == 0 {
        return None;
    }
    let found: StepBy<Skip<_>> =
        args.clone().enumerate().skip(first).step_by(usize::from(keys.step.max(1)));
    Some(found.take_while(move |(at, _)| *at <= last))
}

/// The first option of SORT that names keys nobody sees here (`sortCommandGeneric`).
fn hidden_keys<'a, I>(args: &I) -> Option<Denied>
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    patterns(ids::SORT.row(), args.clone()).find_map(|pattern| match pattern.is_weight {
        // Without a star it is no key, but says that nothing is to be sorted.
        true => pattern.names_keys().then_some(Denied::SortBy),
        false => Some(Denied::SortGet),
    })
}
