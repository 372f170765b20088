//! Which commands a selector allows.
//!
//! A bit for each row of the table, subcommands too, and a list for what the table does not know: commands of modules, which have a dot in
//! their names. `future` says what holds for all others, as the bit that `+@all` sets in Redis.
//!
//! Not here: keys and channels (`selector`).
//!
//! Invariant: rules for a container hold for its subcommands as well, as they were at that moment: a later rule for one of them wins.

use super::RuleError;
use super::words::{c_string, ends_name};
use crate::command::word;
use crate::command::{COUNT, Categories, CommandId, lookup, lookup_sub};
use alloc::boxed::Box;
use alloc::vec::Vec;

const WORDS: usize = COUNT.div_ceil(64);

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Commands {
    bits: [u64; WORDS],
    /// Whether commands are allowed that nothing was said of.
    future: bool,
    /// Of commands that the table does not know: names in lower case, and whether they are allowed.
    others: Vec<(Box<[u8]>, bool)>,
    /// First arguments with which a command is allowed that is not else.
    first_args: Vec<(CommandId, Box<[u8]>)>,
    /// The rules as they were given, behind the first one.
    text: Vec<u8>,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            bits: [0; WORDS],
            future: false,
            others: Vec::new(),
            first_args: Vec::new(),
            text: Vec::new(),
        }
    }
}

impl Commands {
    /// `+@all` or `-@all`.
    pub(super) fn set_all(&mut self, allowed: bool) {
        *self = Self::default();
        self.future = allowed;
        if allowed {
            CommandId::all().for_each(|id| self.set(id, true));
        }
    }

    /// Whether every command is allowed, also those that nobody knows yet.
    pub(super) fn are_all(&self) -> bool {
        self.future
            && self.others.iter().all(|(_, allowed)| *allowed)
            && CommandId::all().all(|id| self.has(id))
    }

    /// Whether this row is allowed, whatever its arguments.
    #[inline]
    pub(super) fn has(&self, id: CommandId) -> bool {
        self.bits[id.index() / 64] & (1 << (id.index() % 64)) != 0
    }

    /// Whether this row is allowed with this first argument.
    pub(super) fn has_with(&self, id: CommandId, first: &[u8]) -> bool {
        let is_said = |(known, arg): &(CommandId, Box<[u8]>)| *known == id && word::is(first, arg);
        self.first_args.iter().any(is_said)
    }

    /// Whether a command is allowed that the table does not know.
    pub(super) fn has_other(&self, name: &[u8]) -> bool {
        let said = self.others.iter().find(|(known, _)| word::same_name(name, known));
        said.map_or(self.future, |(_, allowed)| *allowed)
    }

    /// `+name`, `-name`, `+name|sub` and so on: the word without its sign.
    pub(super) fn change(&mut self, word: &[u8], allowed: bool) -> Result<(), RuleError> {
        let word = c_string(word);
        if let Some(category) = word.strip_prefix(b"@") {
            let category = Categories::named(category).ok_or(RuleError::UnknownCommand)?;
            for id in CommandId::all().filter(|id| id.row().categories.intersects(category)) {
                self.change_row(id, allowed);
            }
            self.note(word, allowed);
            return Ok(());
        }
        let bar = word.iter().rposition(|byte| *byte == b'|');
        match bar {
            Some(bar) if allowed => self.allow_with(word, bar),
            _ => {
                match row(word) {
                    Some(id) => self.change_row(id, allowed),
                    None if is_of_module(word) => self.change_other(word, allowed),
                    None => return Err(RuleError::UnknownCommand),
                }
                self.note(word, allowed);
                Ok(())
            }
        }
    }

    /// `+name|sub`: a subcommand, or a first argument of what has none.
    fn allow_with(&mut self, word: &[u8], bar: usize) -> Result<(), RuleError> {
        let (name, sub) = (&word[..bar], &word[bar + 1..]);
        let id = row(name).ok_or(RuleError::UnknownCommand)?;
        if id.name().contains('|') {
            return Err(RuleError::OfSubcommand);
        }
        // With a blank in it, it would be two rules in the file.
        if sub.is_empty() || ends_name(sub) {
            return Err(RuleError::Syntax);
        }
        if id.row().is_container() {
            let id = row(word).ok_or(RuleError::UnknownCommand)?;
            self.change_row(id, true);
        } else {
            // Case does not count, and what is said again stands behind the others, as it is shown: rules that are read again are the same.
            let sub: Box<[u8]> = sub.to_ascii_lowercase().into();
            self.first_args.retain(|(known, arg)| *known != id || *arg != sub);
            self.first_args.push((id, sub));
        }
        self.note(word, true);
        Ok(())
    }

    fn change_row(&mut self, id: CommandId, allowed: bool) {
        self.set(id, allowed);
        self.first_args.retain(|(known, _)| *known != id);
        id.subcommands().for_each(|sub| self.set(sub, allowed));
    }

    fn set(&mut self, id: CommandId, allowed: bool) {
        let (word, bit) = (id.index() / 64, 1 << (id.index() % 64));
        match allowed {
            true => self.bits[word] |= bit,
            false => self.bits[word] &= !bit,
        }
    }

    fn change_other(&mut self, name: &[u8], allowed: bool) {
        let name = name.to_ascii_lowercase();
        self.others.retain(|(known, _)| **known != *name);
        self.others.push((name.into(), allowed));
    }

    /// The rule goes behind the others, and those go that it makes void: its own name, and subcommands of it
    /// (`ACLSelectorRemoveCommandRule` of Redis 7.2).
    fn note(&mut self, word: &[u8], allowed: bool) {
        let word = word.to_ascii_lowercase();
        let is_void = |rule: &&[u8]| {
            let rest = rule.get(1..).and_then(|rule| rule.strip_prefix(&*word));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"|"))
        };
        let rules = self.text.split(|byte| *byte == b' ');
        let mut rules: Vec<&[u8]> =
            rules.filter(|rule| !rule.is_empty() && !is_void(rule)).collect();
        let rule = [if allowed { b"+" } else { b"-" }, &*word].concat();
        rules.push(&rule);
        self.text = rules.join(&b' ');
    }

    /// As rules that lead here.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut text = if self.future { b"+@all".to_vec() } else { b"-@all".to_vec() };
        if !self.text.is_empty() {
            text.push(b' ');
            text.extend_from_slice(&self.text);
        }
        text
    }
}

/// The row with this name, `container|subcommand` for a subcommand (`lookupCommandBySdsLogic`).
fn row(name: &[u8]) -> Option<CommandId> {
    let mut parts = name.split(|byte| *byte == b'|');
    let command = lookup(parts.next()?)?;
    match (parts.next(), parts.next()) {
        (None, _) => Some(command),
        (Some(sub), None) => lookup_sub(command, sub),
        _ => None,
    }
}

/// Whether it may be a command of a module. Of these only the servers know which there are.
fn is_of_module(name: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let dot = name.iter().position(|byte| *byte == b'.');
    name.iter().all(is_letter) && dot.is_some_and(|dot| dot > 0 && dot + 1 < name.len())
}
