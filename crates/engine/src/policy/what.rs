//! Which requests a rule is about: commands, and patterns of keys.
//!
//! Not here: what becomes of them (the files beside).
//!
//! Invariant: nothing is allocated by a comparison, so that requests can be looked at on their short way.

use crate::command::word;
use crate::command::{COUNT, Categories, Class, CommandId, lookup, lookup_sub};
use crate::glob;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const WORDS: usize = COUNT.div_ceil(64);

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct What {
    /// A bit for each row of the table.
    rows: [u64; WORDS],
    /// Commands that the table does not know, in lower case.
    others: Vec<Box<[u8]>>,
    /// All that the table does not know.
    any_other: bool,
    /// One key of the request must match one of these; none: whatever its keys.
    keys: Vec<Box<[u8]>>,
}

impl What {
    /// Requests with one of these commands and one of these keys. Words are names (`get`, `config|set`, `ft.search`), categories (`@write`) or
    /// `@all`; without any all commands are meant. Commands that the proxy answers itself are meant if they are named, and by the other words
    /// only with `own`.
    ///
    /// # Errors
    /// The word that is no command and no category.
    pub fn new(words: &[&str], keys: Vec<Box<[u8]>>, own: bool) -> Result<Self, String> {
        let mut what = Self { rows: [0; WORDS], others: Vec::new(), any_other: false, keys };
        if words.is_empty() {
            what.add_all(own);
        }
        for word in words {
            if word::same_name(word, "@all") {
                what.add_all(own);
            } else if let Some(category) = word.strip_prefix('@') {
                let category = Categories::named(category.as_bytes()).ok_or(word.to_string())?;
                let rows = CommandId::all().filter(|id| id.row().categories.intersects(category));
                rows.filter(|id| is_meant(*id, own)).for_each(|id| what.add(id));
            } else if let Some(id) = row(word) {
                core::iter::once(id).chain(id.subcommands()).for_each(|id| what.add(id));
            } else if word.contains('.') && !word.contains('|') {
                what.others.push(word.to_ascii_lowercase().into_bytes().into());
            } else {
                return Err(word.to_string());
            }
        }
        Ok(what)
    }

    fn add_all(&mut self, own: bool) {
        self.any_other = true;
        CommandId::all().filter(|id| is_meant(*id, own)).for_each(|id| self.add(id));
    }

    fn add(&mut self, id: CommandId) {
        self.rows[id.index() / 64] |= 1 << (id.index() % 64);
    }

    /// Whether this row is meant, with some keys at least.
    #[inline]
    pub(crate) fn has_row(&self, id: CommandId) -> bool {
        self.rows[id.index() / 64] & (1 << (id.index() % 64)) != 0
    }

    /// Whether this command is meant; the name counts where the table does not know it.
    pub(crate) fn names(&self, row: Option<CommandId>, name: &[u8]) -> bool {
        match row {
            Some(row) => self.has_row(row),
            None => self.any_other || self.others.iter().any(|other| word::same_name(name, other)),
        }
    }

    /// Whether it depends on the keys.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether a request with this key is meant.
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.keys.iter().any(|pattern| glob::means(pattern, key))
    }

    /// Whether a request with these keys is meant.
    pub(crate) fn has_any<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> bool {
        self.keys.is_empty() || keys.any(|key| self.has_key(key))
    }
}

/// Whether a word that names no command means this one.
fn is_meant(id: CommandId, own: bool) -> bool {
    own || id.row().class != Class::Local
}

/// A command by its name: `get`, or `config|set`.
fn row(name: &str) -> Option<CommandId> {
    match name.split_once('|') {
        Some((container, sub)) => lookup_sub(lookup(container.as_bytes())?, sub.as_bytes()),
        None => lookup(name.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(what: &What, command: &str) -> bool {
        what.names(row(command), command.as_bytes())
    }

    #[test]
    fn words_are_names_categories_and_all() {
        let what = What::new(&["GET", "config|set", "object", "Ft.Search"], Vec::new(), false);
        let what = what.expect("commands");
        for command in ["get", "config|set", "object|freq", "object", "ft.search", "FT.SEARCH"] {
            assert!(names(&what, command), "{command}");
        }
        for command in ["set", "config", "config|get", "ft.sugget"] {
            assert!(!names(&what, command), "{command}");
        }
        let what = What::new(&["@write"], Vec::new(), false).expect("a category");
        assert!(names(&what, "set") && !names(&what, "get") && !names(&what, "a.b"));
        assert_eq!(What::new(&["get", "gett"], Vec::new(), true), Err("gett".into()));
        assert_eq!(What::new(&["@nosuch"], Vec::new(), true), Err("@nosuch".into()));
    }

    #[test]
    fn what_the_proxy_answers_itself_must_be_named_or_wanted() {
        for words in [&[][..], &["@all"], &["@connection", "@fast"]] {
            let without = What::new(words, Vec::new(), false).expect("words");
            let with = What::new(words, Vec::new(), true).expect("words");
            assert!(!names(&without, "ping") && names(&with, "ping"), "{words:?}");
            assert!(names(&without, "get"));
        }
        assert!(names(&What::new(&["ping"], Vec::new(), false).expect("a name"), "ping"));
        assert!(names(&What::new(&[], Vec::new(), false).expect("all"), "no.such"));
    }

    #[test]
    fn one_key_must_match_one_pattern() {
        let what =
            What::new(&[], alloc::vec![b"a:*".as_slice().into(), b"b".as_slice().into()], true);
        let what = what.expect("keys");
        let any = |keys: &[&str]| what.has_any(keys.iter().map(|key| key.as_bytes()));
        assert!(any(&["a:1"]) && any(&["x", "b"]) && !any(&["a", "bb"]) && !any(&[]));
    }
}
