//! Reads `respool.toml` into the draft, and says where in it things are wrong.
//!
//! The text is parsed by the `toml` crate with byte ranges kept, then walked by hand: a derived reader would stop at the
//! first mistake. No file is opened here.
//!
//! Invariant: a source line is shown only where [`may_show`] is sure that it holds no secret.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::compile::{Draft, FileText};
use crate::kind::{Item, Raw, Scalar};
use crate::options::{OPTIONS, OptionSpec, TABLES};
use crate::problem::{Fault, Origin, Problem};
use crate::rules::EJECT;
use crate::suggest::closest;
use crate::tenants;

/// Syntax errors that are reported; after that many the rest is noise of the first.
const SYNTAX_ERRORS_MAX: usize = 8;

/// A file that is being read.
pub(crate) struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    draft: &'a mut Draft,
    problems: Vec<Problem>,
    /// What stands in front of keys: the table of a tenant, whose options are read like those of the file.
    prefix: &'a str,
    /// Options that were read.
    own: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    /// Reads the whole text; what could be read is in the draft, the rest in the problems returned.
    pub(crate) fn read(name: &'a str, text: &'a str, draft: &'a mut Draft) -> Vec<Problem> {
        let (prefix, own) = ("", Vec::new());
        let mut reader = Self { name, text, draft, problems: Vec::new(), prefix, own };
        let (table, errors) = DeTable::parse_recoverable(text);
        // What recovery makes of a broken file would give errors about errors, so values are not looked at then.
        if errors.is_empty() {
            reader.read_root(table.get_ref());
        } else {
            reader.syntax_errors(&errors);
        }
        reader.problems
    }

    /// Reads the table of a tenant in the same way; which options it has, and what is wrong with it.
    pub(crate) fn read_tenant(
        file: FileText<'a>,
        prefix: &'a str,
        entries: &DeTable<'_>,
        draft: &'a mut Draft,
    ) -> (Vec<&'static str>, Vec<Problem>) {
        let (name, text) = (file.name, file.text);
        let mut reader = Self { name, text, draft, problems: Vec::new(), prefix, own: Vec::new() };
        reader.read_root(entries);
        (reader.own, reader.problems)
    }

    fn syntax_errors(&mut self, errors: &[toml::de::Error]) {
        let mut lines = Vec::new();
        for error in errors.iter().take(SYNTAX_ERRORS_MAX) {
            let at = error.span().map_or(self.text.len(), |span| span.start);
            let (line, column) = line_and_column(self.text, at);
            // One slip often gives several errors on its line; the first is the one that helps.
            if lines.contains(&line) {
                continue;
            }
            lines.push(line);
            self.problems.push(Problem {
                origin: Origin::File { name: self.name.to_owned(), line, column },
                key: None,
                message: format!("not valid TOML: {}", error.message().replace('\n', "; ")),
                excerpt: Some(excerpt(self.text, line, column)),
            });
        }
    }

    fn read_root(&mut self, root: &DeTable<'_>) {
        for (key, value) in root {
            let name = key.get_ref().as_ref();
            let is_read_elsewhere = match self.prefix {
                "" => name == "tenants",
                _ => tenants::KEYS.iter().any(|own| own.name == name),
            };
            if is_read_elsewhere {
                continue;
            }
            if let Some(option) = OptionSpec::find(name).filter(|option| option.table().is_none()) {
                self.read_value(option, value);
            } else if TABLES.iter().any(|(table, _)| *table == name) {
                self.read_table(name, value);
            } else {
                self.unknown(key, None);
            }
        }
    }

    /// Reads a table, and those inside it. `TABLES` has no deeper ones than two, which bounds the recursion.
    fn read_table(&mut self, table: &str, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(entries) = value.get_ref() else {
            let found = item(value).scalar.type_name();
            let message = format!("found {found}; allowed: a table, written [{table}]");
            self.problem(&value.span(), table, message);
            return;
        };
        // Turned on by its head alone, with every value at its default.
        if let Some(option) = OptionSpec::find(EJECT[0]).filter(|o| o.table() == Some(table)) {
            let origin = self.origin(&value.span());
            self.draft.set_origin(option, origin);
            self.own.push(option.name);
        }
        for (key, value) in entries {
            let name = format!("{table}.{}", key.get_ref());
            match OptionSpec::find(&name) {
                Some(option) => self.read_value(option, value),
                None if TABLES.iter().any(|(table, _)| *table == name) => {
                    self.read_table(&name, value);
                }
                None => self.unknown(key, Some(table)),
            }
        }
    }

    fn read_value(&mut self, option: &'static OptionSpec, value: &Spanned<DeValue<'_>>) {
        if !self.prefix.is_empty() && !option.is_of_tenant() {
            let message = format!(
                "this is the whole proxy's, and cannot differ between tenants; it stands at the top of the file. Allowed here: {}",
                tenants::ALLOWED
            );
            return self.problem(&value.span(), option.name, message);
        }
        let raw = match value.get_ref() {
            DeValue::Array(items) => Raw::List(items.iter().map(item).collect()),
            DeValue::Table(entries) if option.kind.is_table() => {
                Raw::List(entries.iter().map(|(key, value)| entry(key, value)).collect())
            }
            _ => Raw::One(item(value)),
        };
        if let Some((span, name)) = variable_in(&raw) {
            let message = format!(
                "`${{{name}}}` is not replaced by a variable; {} is the variable of this option, and a password can stand in a file",
                option.environment()
            );
            return self.problem(&span.unwrap_or_else(|| value.span()), option.name, message);
        }
        let origin = self.origin(&value.span());
        match option.kind.assign(self.draft, &raw) {
            Ok(()) => {
                self.draft.set_origin(option, origin);
                self.own.push(option.name);
            }
            Err(faults) => {
                for Fault { span, message } in faults {
                    self.problem(&span.unwrap_or_else(|| value.span()), option.name, message);
                }
            }
        }
    }

    /// Reports a key that no row of the table has, with the one that was probably meant. The value is not shown: it
    /// may be a password under a mistyped name.
    fn unknown(&mut self, key: &Spanned<toml::de::DeString<'_>>, table: Option<&str>) {
        let typed = key.get_ref().as_ref();
        let here = OPTIONS.iter().filter(|option| option.table() == table).map(OptionSpec::key);
        let own = tenants::KEYS.iter().map(|own| own.name).filter(|_| !self.prefix.is_empty());
        let tables = TABLES.iter().map(|(name, _)| *name).chain(own).filter(|_| table.is_none());
        // The right key in the wrong table is a common slip, so an exact match elsewhere comes first.
        let elsewhere = OPTIONS.iter().find(|option| option.key() == typed);
        let advice = match (elsewhere, closest(typed, here.chain(tables))) {
            (Some(option), _) => match option.table() {
                Some(table) => format!("; `{typed}` belongs into [{table}]"),
                None => {
                    format!("; `{typed}` belongs to the top of the file, before the first [table]")
                }
            },
            (None, Some(name)) => format!("; did you mean `{name}`?"),
            (None, None) => match closest(typed, OPTIONS.iter().map(OptionSpec::key)) {
                Some(name) => format!(
                    "; did you mean `{}`?",
                    OPTIONS.iter().find(|o| o.key() == name).map_or(name, |o| o.name)
                ),
                None => String::new(),
            },
        };
        let shown: String = typed.chars().take(40).flat_map(char::escape_debug).collect();
        let name = table.map_or_else(|| shown.clone(), |table| format!("{table}.{shown}"));
        self.problem(&key.span(), &name, format!("unknown key{advice}"));
    }

    fn problem(&mut self, span: &Range<usize>, key: &str, message: String) {
        let (origin, key) = (self.origin(span), Some(format!("{}{key}", self.prefix)));
        self.problems.push(Problem { origin, key, message, excerpt: None });
    }

    fn origin(&self, span: &Range<usize>) -> Origin {
        let (line, column) = line_and_column(self.text, span.start);
        Origin::File { name: self.name.to_owned(), line, column }
    }
}

/// An entry of a table with keys of the operator's own. Where the value is neither a string nor a number, it is what is wrong; it is not shown, because
/// it may be a password in the wrong table.
fn entry<'v>(
    key: &'v Spanned<toml::de::DeString<'_>>,
    value: &'v Spanned<DeValue<'_>>,
) -> Item<'v> {
    match value.get_ref() {
        DeValue::String(text) => {
            Item { scalar: Scalar::Pair(key.get_ref(), text), span: Some(key.span()) }
        }
        // A weight.
        DeValue::Integer(n) => {
            Item { scalar: Scalar::Weighed(key.get_ref(), n.as_str()), span: Some(value.span()) }
        }
        other => Item { scalar: Scalar::Other(other.type_str()), span: Some(value.span()) },
    }
}

/// One value of the file as a scalar.
/// A word such as `${NAME}` in a string, as other programs replace it by a variable, and where.
fn variable_in<'v>(raw: &Raw<'v>) -> Option<(Option<Range<usize>>, &'v str)> {
    let items = match raw {
        Raw::One(item) => core::slice::from_ref(item),
        Raw::List(items) => items,
    };
    items.iter().find_map(|item| {
        let (Scalar::Text(text) | Scalar::Pair(_, text)) = item.scalar else { return None };
        let (_, rest) = text.split_once("${")?;
        let (name, _) = rest.split_once('}')?;
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
        is_name.then(|| (item.span.clone(), name))
    })
}

fn item<'v>(value: &'v Spanned<DeValue<'_>>) -> Item<'v> {
    let scalar = match value.get_ref() {
        DeValue::String(text) => Scalar::Text(text),
        DeValue::Integer(n) => Scalar::Integer(i64::from_str_radix(n.as_str(), n.radix()).ok()),
        DeValue::Boolean(b) => Scalar::Switch(*b),
        DeValue::Array(_) => Scalar::Other("list"),
        DeValue::Table(_) => Scalar::Other("table"),
        other => Scalar::Other(other.type_str()),
    };
    Item { scalar, span: Some(value.span()) }
}

/// Line and column of a byte, both from 1; the column counts characters.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
}

/// The source line with a caret below the column; the text right of `=` is masked unless it is surely harmless.
fn excerpt(text: &str, line: usize, column: usize) -> String {
    let source = text.lines().nth(line - 1).unwrap_or("").trim_end();
    let shown = if may_show(text, line) {
        source.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    } else {
        match source.split_once('=') {
            Some((key, _)) if is_bare_key(key.trim()) => {
                format!("{key}= ... (hidden, may be secret)")
            }
            _ => "... (hidden, may be secret)".to_owned(),
        }
    };
    let caret = " ".repeat((column - 1).min(shown.chars().count()));
    format!("{line:>5} | {shown}\n      | {caret}^")
}

/// Whether a line can be shown in a message: it is a table's head, or begins with the key of an option that is no
/// secret. A mistyped key, an inline table or anything unclear hides the line, because a password may be in it.
fn may_show(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let current = lines.last().copied().unwrap_or("").trim();
    // A line inside a long string can look like anything.
    if lines.iter().any(|source| opens_long_string(source)) {
        return false;
    }
    // Two assignments in a line, a word like "password", user information of a URL.
    let lower = current.to_lowercase();
    if current.matches('=').count() > 1 || lower.contains("pass") || current.contains('@') {
        return false;
    }
    if let Some(header) = current.strip_prefix('[') {
        return header.trim_matches(['[', ']', ' ']).split('.').all(is_bare_key);
    }
    let key = current.split([' ', '\t', '=']).next().unwrap_or("");
    let key = key.rsplit('.').next().unwrap_or("");
    OPTIONS.iter().any(|option| option.key() == key && !option.is_secret())
}

/// Whether a value starts a string that may go on over several lines.
fn opens_long_string(value: &str) -> bool {
    value.contains("\"\"\"") || value.contains("'''")
}

/// Whether the text is a key of letters, digits, `_`, `-` and dots.
fn is_bare_key(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
