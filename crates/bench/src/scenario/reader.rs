//! Walks the tables of a TOML file and notes what is wrong in them, with line and column.
//!
//! A derived reader would stop at the first mistake; this one goes on, so that a person sees all of them at once. It
//! knows the shape of TOML and nothing of scenarios: which keys a table has and what a value may be, the caller says.
//!
//! Invariant: a value that a method returns was accepted by the caller's reader; whatever is left out has been noted,
//! except where the key is simply absent.

use std::ops::Range;

use config::suggest::closest;
use config::{Origin, Problem, Problems};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Syntax errors that are reported; after that many the rest is noise of the first.
const SYNTAX_ERRORS_MAX: usize = 8;

/// The problems of one file, in the making.
pub(super) struct Notes<'a> {
    name: &'a str,
    text: &'a str,
    problems: Vec<Problem>,
}

impl<'a> Notes<'a> {
    /// For the file `name` with the content `text`.
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, problems: Vec::new() }
    }

    /// Notes a problem that stands at a place of the file.
    pub(super) fn at(&mut self, span: &Range<usize>, key: &str, message: impl Into<String>) {
        let (line, column) = line_and_column(self.text, span.start);
        let origin = Origin::File { name: self.name.to_owned(), line, column };
        self.problems.push(Problem {
            origin,
            key: Some(key.to_owned()).filter(|key| !key.is_empty()),
            message: message.into(),
            excerpt: None,
        });
    }

    /// Notes a problem of the file as a whole.
    pub(super) fn whole_file(&mut self, message: impl Into<String>) {
        let message = format!("{}: {}", self.name, message.into());
        self.problems.push(Problem { origin: Origin::Unset, key: None, message, excerpt: None });
    }

    /// Notes a problem that the command line made.
    pub(super) fn argument(&mut self, flag: &str, message: impl Into<String>) {
        let origin = Origin::Argument(flag.to_owned());
        self.problems.push(Problem { origin, key: None, message: message.into(), excerpt: None });
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.problems.len()
    }

    /// All of them in reading order, if there are any.
    pub(super) fn finish(mut self) -> Result<(), Problems> {
        self.problems.sort_by_key(|problem| match &problem.origin {
            Origin::File { line, column, .. } => (1, *line, *column),
            other => (2, usize::from(other.layer()), 0),
        });
        if self.problems.is_empty() { Ok(()) } else { Err(Problems(self.problems)) }
    }

    /// Parses the text. `None` after a syntax error: what recovery makes of a broken file gives errors about errors.
    pub(super) fn parse(&mut self) -> Option<Spanned<DeTable<'a>>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        let mut lines = Vec::new();
        for error in errors.iter().take(SYNTAX_ERRORS_MAX) {
            let span = error.span().unwrap_or(self.text.len()..self.text.len());
            let (line, column) = line_and_column(self.text, span.start);
            // One slip often gives several errors on its line; the first is the one that helps.
            if lines.contains(&line) {
                continue;
            }
            lines.push(line);
            self.at(&span, "", format!("not valid TOML: {}", error.message().replace('\n', "; ")));
            if let Some(problem) = self.problems.last_mut() {
                problem.excerpt = Some(excerpt(self.text, line, column));
            }
        }
        errors.is_empty().then_some(table)
    }
}

/// One table of the file.
#[derive(Clone)]
pub(super) struct Section<'t> {
    table: &'t DeTable<'t>,
    /// Where its head stands, for problems of the whole table.
    pub(super) span: Range<usize>,
    path: String,
}

impl<'t> Section<'t> {
    /// Opens a table of which only the keys `allowed` are known; notes the others.
    pub(super) fn open(
        notes: &mut Notes<'_>,
        table: &'t DeTable<'t>,
        span: Range<usize>,
        path: String,
        allowed: &[&str],
    ) -> Self {
        let section = Self { table, span, path };
        for (key, _) in table {
            let typed = key.get_ref().as_ref();
            if !allowed.contains(&typed) {
                let advice = match closest(typed, allowed.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("allowed: {}", allowed.join(", ")),
                };
                let message = format!("unknown key; {advice}");
                notes.at(&key.span(), &section.key(&shown(typed)), message);
            }
        }
        section
    }

    /// The dotted name of a key in messages.
    pub(super) fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Whether the key is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// Where the value of a key stands; the table itself when there is none.
    pub(super) fn span_of(&self, name: &str) -> Range<usize> {
        self.table.get(name).map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Reads one value. `read` answers with "found this; allowed is that".
    pub(super) fn one<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.table.get(name)?;
        match read(value.get_ref()) {
            Ok(value) => Some(value),
            Err(message) => {
                notes.at(&value.span(), &self.key(name), message);
                None
            }
        }
    }

    /// Reads one value that must be there; `why` says what it is for.
    pub(super) fn required<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        why: &str,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<T> {
        if !self.has(name) {
            notes.at(&self.span, &self.key(name), format!("is missing: {why}"));
        }
        self.one(notes, name, read)
    }

    /// Reads one value, or a list of them, each with its place. `None` when one was bad.
    pub(super) fn list<T>(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        read: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Vec<Spanned<T>>> {
        let value = self.table.get(name)?;
        let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        if items.is_empty() {
            let message = "the list is empty; leave the key out, or name at least one value";
            notes.at(&value.span(), &self.key(name), message);
            return None;
        }
        let mut values = Vec::with_capacity(items.len());
        for item in &items {
            match read(item.get_ref()) {
                Ok(value) => values.push(Spanned::new(item.span(), value)),
                Err(message) => notes.at(&item.span(), &self.key(name), message),
            }
        }
        (values.len() == items.len()).then_some(values)
    }

    /// A table within this one.
    pub(super) fn section(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        allowed: &[&str],
    ) -> Option<Self> {
        let value = self.table.get(name)?;
        match value.get_ref() {
            DeValue::Table(table) => {
                Some(Self::open(notes, table, value.span(), self.key(name), allowed))
            }
            other => {
                let message = format!("found {}; allowed: a table, written [{name}]", found(other));
                notes.at(&value.span(), &self.key(name), message);
                None
            }
        }
    }

    /// A list of tables within this one, numbered from 1 in messages.
    pub(super) fn sections(
        &self,
        notes: &mut Notes<'_>,
        name: &str,
        allowed: &[&str],
    ) -> Vec<Self> {
        let Some(value) = self.table.get(name) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            let found = found(value.get_ref());
            let message = format!("found {found}; allowed: tables, each written [[{name}]]");
            notes.at(&value.span(), &self.key(name), message);
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let path = format!("{}[{}]", self.key(name), index + 1);
            match item.get_ref() {
                DeValue::Table(table) => {
                    sections.push(Self::open(notes, table, item.span(), path, allowed));
                }
                other => {
                    notes.at(
                        &item.span(),
                        &path,
                        format!("found {}; allowed: a table", found(other)),
                    );
                }
            }
        }
        sections
    }
}

/// What stands in the file, for "found …".
pub(super) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string \"{}\"", shown(text)),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
        DeValue::Datetime(_) => "a date".to_owned(),
    }
}

/// A text for a message: short and without control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

/// Line and column of a byte, both from 1; the column counts characters.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
}

/// The source line with a caret below the column. A scenario holds no secrets: endpoints come from the command line.
fn excerpt(text: &str, line: usize, column: usize) -> String {
    let source = text.lines().nth(line - 1).unwrap_or("").trim_end();
    let source: String = source.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let caret = " ".repeat((column - 1).min(source.chars().count()));
    format!("{line:>5} | {source}\n      | {caret}^")
}

/// Characters of a wrong value that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;
