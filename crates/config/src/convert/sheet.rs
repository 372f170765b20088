//! What a reader writes to: our options, notes, and problems; and the TOML made of them.
//!
//! Not here: anything that one peer alone has.
//!
//! Invariant: [`Sheet::finish`] gives out no text that [`load_file`] refuses. What it refuses becomes a problem at the place of
//! the peer's key that the option came from.

use std::fmt::Write;
use std::io;
use std::rc::Rc;

use super::{Converted, Note, Peer};
use crate::compile::{FileText, load_file};
use crate::kind::Kind;
use crate::listen::Listen;
use crate::options::{OPTIONS, OptionSpec, TABLES};
use crate::problem::{Origin, Problem, Problems};
use crate::suggest::closest;

/// A place in a file of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The file's name, as it was given or as it was included.
    pub(super) name: Rc<str>,
    /// Line, from 1.
    pub(super) line: usize,
    /// Column in characters, from 1.
    pub(super) column: usize,
}

impl Place {
    /// The beginning of a file.
    pub(super) fn of_file(name: &str) -> Self {
        Self { name: name.into(), line: 1, column: 1 }
    }

    fn origin(&self) -> Origin {
        Origin::File { name: self.name.to_string(), line: self.line, column: self.column }
    }
}

/// A value of one of our options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    Switch(bool),
    List(Vec<String>),
    /// Names of the operator's own, and what they stand for.
    Table(Vec<(String, String)>),
}

impl Value {
    /// The value as TOML.
    fn toml(&self) -> String {
        let quoted = |text: &String| toml::Value::String(text.clone()).to_string();
        match self {
            Self::Text(text) => quoted(text),
            Self::Number(number) => number.to_string(),
            Self::Switch(on) => on.to_string(),
            Self::Table(entries) => {
                let entry = |(name, text): &(String, String)| {
                    format!("{} = {}", quoted(name), quoted(text))
                };
                format!("{{ {} }}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
            Self::List(items) if items.len() == 1 => format!("[{}]", quoted(&items[0])),
            Self::List(items) => {
                let lines: String =
                    items.iter().map(|item| format!("  {},\n", quoted(item))).collect();
                format!("[\n{lines}]")
            }
        }
    }
}

/// One of our options, and the peer's key that it came from.
struct Setting {
    option: &'static str,
    value: Value,
    place: Place,
    key: String,
}

/// A conversion in the making.
pub(super) struct Sheet {
    file: Place,
    settings: Vec<Setting>,
    notes: Vec<Note>,
    problems: Vec<Problem>,
}

impl Sheet {
    /// An empty one, for the file of this name.
    pub(super) fn new(file: &str) -> Self {
        Self {
            file: Place::of_file(file),
            settings: Vec::new(),
            notes: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Sets one of our options; an earlier value is replaced.
    pub(super) fn set(&mut self, option: &'static str, value: Value, at: &Place, key: &str) {
        debug_assert!(OptionSpec::find(option).is_some(), "{option} is none of our options");
        self.settings.retain(|setting| setting.option != option);
        self.settings.push(Setting { option, value, place: at.clone(), key: key.to_owned() });
    }

    /// Sets an option that is text.
    pub(super) fn text(&mut self, option: &'static str, text: &str, at: &Place, key: &str) {
        self.set(option, Value::Text(text.to_owned()), at, key);
    }

    /// Adds to an option that is a list.
    pub(super) fn push(&mut self, option: &'static str, item: String, at: &Place, key: &str) {
        let known = self.settings.iter_mut().find(|setting| setting.option == option);
        match known.map(|setting| &mut setting.value) {
            Some(Value::List(items)) => items.push(item),
            _ => self.set(option, Value::List(vec![item]), at, key),
        }
    }

    /// Adds to an option that is a table.
    pub(super) fn entry(
        &mut self,
        option: &'static str,
        entry: (String, String),
        at: &Place,
        key: &str,
    ) {
        let known = self.settings.iter_mut().find(|setting| setting.option == option);
        match known.map(|setting| &mut setting.value) {
            Some(Value::Table(entries)) => entries.push(entry),
            _ => self.set(option, Value::Table(vec![entry]), at, key),
        }
    }

    /// Sets an option that is a number. Beyond the option's bounds the bound is set, and noted.
    pub(super) fn number(&mut self, option: &'static str, number: u64, at: &Place, key: &str) {
        let (min, max) = match OptionSpec::find(option).map(|option| &option.kind) {
            Some(Kind::Count { min, max, .. } | Kind::Bytes { min, max, .. }) => {
                (*min as u64, *max as u64)
            }
            Some(Kind::Time { min, max, .. }) => (*min, *max),
            _ => (0, u64::MAX),
        };
        let bounded = number.clamp(min, max);
        if bounded != number {
            let message =
                format!("becomes {option} = {bounded}, since {min} to {max} are allowed there");
            self.note(at, key, message);
        }
        self.set(option, Value::Number(bounded), at, key);
    }

    /// Takes an option back, so that a later key replaces it.
    pub(super) fn unset(&mut self, option: &str) {
        self.settings.retain(|setting| setting.option != option);
    }

    /// Whether an option was set.
    pub(super) fn has(&self, option: &str) -> bool {
        self.settings.iter().any(|setting| setting.option == option)
    }

    /// Adds an address to listen on. A name of a host is noted, since respool listens on addresses only.
    pub(super) fn listen(&mut self, host: &str, port: &str, at: &Place, key: &str) {
        let address = match host.trim_matches(['[', ']']) {
            "" | "*" => "0.0.0.0",
            "localhost" => "127.0.0.1",
            host => host,
        };
        let Some(port) = super::values::port(port) else {
            return self.wrong(at, key, "the port is not a number from 1 to 65535".to_owned());
        };
        match address.parse::<std::net::IpAddr>() {
            Ok(ip) => {
                let text = std::net::SocketAddr::new(ip, port).to_string();
                self.push("listen", text, at, key);
            }
            Err(_) if crate::address::is_host(address) => self.note(
                at,
                key,
                format!("respool listens on addresses and not on names: set listen = [\"ADDRESS:{port}\"] with that of `{address}`"),
            ),
            Err(_) => self.wrong(at, key, "no address to listen on".to_owned()),
        }
    }

    /// Notes something about a key.
    pub(super) fn note(&mut self, at: &Place, key: &str, message: impl Into<String>) {
        let (key, message) = (one_line(key), one_line(&message.into()));
        self.notes.push(Note { origin: at.origin(), key, message });
    }

    /// Notes that a key becomes nothing; `advice` says why, or what to do instead.
    pub(super) fn lost(&mut self, at: &Place, key: &str, advice: &str) {
        self.note(at, key, format!("has no counterpart: {advice}"));
    }

    /// Notes something that no line of the file says.
    pub(super) fn remark(&mut self, message: impl Into<String>) {
        let (origin, key, message) = (Origin::Unset, String::new(), message.into());
        self.notes.push(Note { origin, key, message });
    }

    /// Reports something that is wrong.
    pub(super) fn wrong(&mut self, at: &Place, key: &str, message: impl Into<String>) {
        let key = (!key.is_empty()).then(|| one_line(key));
        let message = one_line(&message.into());
        self.problems.push(Problem { origin: at.origin(), key, message, excerpt: None });
    }

    /// Reports a key that the peer does not know, with the one that was probably meant.
    pub(super) fn unknown<'k>(
        &mut self,
        at: &Place,
        key: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) {
        let advice = closest(key, known)
            .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        // What was not understood may be a piece of a password.
        let shown: String = key.chars().take(40).flat_map(char::escape_debug).collect();
        self.wrong(at, &shown, format!("unknown key{advice}"));
    }

    /// Whether something is wrong so far.
    pub(super) fn is_wrong(&self) -> bool {
        !self.problems.is_empty()
    }

    /// What is wrong.
    pub(super) fn into_problems(mut self) -> Problems {
        let name = self.file.name.clone();
        sort(&mut self.problems, &name, |problem| &problem.origin);
        Problems(self.problems)
    }

    /// The result.
    pub(super) fn finish(mut self, peer: Peer) -> Result<Converted, Problems> {
        if self.is_wrong() {
            return Err(self.into_problems());
        }
        self.keep_open();
        self.tell_of_passwords();
        let name = self.file.name.clone();
        sort(&mut self.notes, &name, |note| &note.origin);
        let toml = self.write(peer);
        let no_files = |_: crate::Place<'_>| -> io::Result<Vec<u8>> {
            Err(io::Error::other("a converted configuration names no password file"))
        };
        match load_file(FileText { name: "", text: &toml }, &no_files) {
            Ok(_) => Ok(Converted { peer, toml, notes: self.notes }),
            Err(problems) => {
                problems.0.into_iter().for_each(|problem| self.refused(problem));
                Err(self.into_problems())
            }
        }
    }

    /// The peers let anybody in who reaches them; so does what is made of their files, if they asked for no password.
    fn keep_open(&mut self) {
        let Some(Setting { value: Value::List(items), place, key, .. }) =
            self.settings.iter().find(|setting| setting.option == "listen")
        else {
            return;
        };
        let is_public =
            |item: &String| Listen::parse(item).is_ok_and(|entry| !entry.address.is_local());
        if self.has("password") || !items.iter().any(is_public) {
            return;
        }
        let (place, key) = (place.clone(), key.clone());
        self.set("protected_mode", Value::Switch(false), &place, &key);
        self.note(
            &place,
            &key,
            "other machines can reach it and no password was asked for, so that protected_mode = false keeps it as it was; \
             better give password_file and take that line out",
        );
    }

    fn tell_of_passwords(&mut self) {
        let is_secret = |setting: &&Setting| {
            OptionSpec::find(setting.option).is_some_and(OptionSpec::is_secret)
                && !setting.option.ends_with("upstream")
                && !setting.option.ends_with("shards")
        };
        let names: Vec<String> = self
            .settings
            .iter()
            .filter(is_secret)
            .map(|setting| format!("{0} (better {0}_file)", setting.option))
            .collect();
        if !names.is_empty() {
            self.remark(format!("passwords stand in this file: {}", names.join(", ")));
        }
    }

    /// What our own rules have against a value, told at the peer's key.
    fn refused(&mut self, problem: Problem) {
        let option = problem.key.unwrap_or_default();
        let from = self.settings.iter().find(|setting| setting.option == option);
        let (place, key) = from.map_or_else(
            || (self.file.clone(), String::new()),
            |setting| (setting.place.clone(), setting.key.clone()),
        );
        self.wrong(&place, &key, format!("cannot become `{option}`: {}", problem.message));
    }

    /// The TOML: notes first, then the options in the order of the documents.
    fn write(&self, peer: Peer) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "# Made by `respool convert` from {}, a configuration of {}.",
            one_line(&self.file.name),
            peer.name()
        );
        if !self.notes.is_empty() {
            text.push_str("#\n# Not carried over, or not as it was:\n");
        }
        for note in &self.notes {
            let _ = writeln!(text, "#   {}", one_line(&note.to_string()));
        }
        for table in std::iter::once(None).chain(TABLES.iter().map(|(table, _)| Some(*table))) {
            let options = OPTIONS.iter().filter(|option| option.table() == table);
            let lines: String = options.filter_map(|option| self.line(option)).collect();
            if lines.is_empty() {
                continue;
            }
            let head = table.map_or_else(String::new, |table| format!("[{table}]\n"));
            let _ = write!(text, "\n{head}{lines}");
        }
        text
    }

    fn line(&self, option: &OptionSpec) -> Option<String> {
        let setting = self.settings.iter().find(|setting| setting.option == option.name)?;
        Some(format!("{} = {}\n", option.key(), setting.value.toml()))
    }
}

/// Sorts by place: the first file first, then the others as they come; what has no place comes last.
fn sort<T>(items: &mut [T], first: &str, origin: fn(&T) -> &Origin) {
    let mut names = vec![first.to_owned()];
    for item in items.iter() {
        if let Origin::File { name, .. } = origin(item)
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    }
    items.sort_by_key(|item| match origin(item) {
        Origin::File { name, line, column } => {
            (names.iter().position(|known| known == name).unwrap_or(names.len()), *line, *column)
        }
        _ => (names.len() + 1, 0, 0),
    });
}

/// Text that stays in its line: names of keys and pools are the file's, and may have anything in them.
fn one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_debug().collect() } else { c.to_string() };
    text.chars().map(escaped).collect()
}
