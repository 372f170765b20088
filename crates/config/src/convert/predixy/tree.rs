//! The text of predixy's configuration as a tree.
//!
//! Done character by character as `ConfParser::parse` does it, with its oddities: a key ends at a blank only, `#` begins a comment
//! also in the middle of a word, and of a value without quotes as many characters are cut off at the end as it has blanks.
//! Where predixy refuses a blank or a carriage return behind `{`, this does not.
//!
//! Invariant: a file that is being included cannot be included again inside itself, and at most [`FILES_MAX`] files are read.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::convert::Source;
use crate::convert::sheet::{Place, Sheet};

/// Files that are read at most, the first one included; a chain of them without end is refused.
const FILES_MAX: usize = 64;
/// Scopes inside scopes at most, as in predixy.
const DEPTH_MAX: usize = 10;

/// A key, its value, and what stands in its scope.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) key: String,
    pub(super) value: String,
    /// Whether predixy cut the value.
    pub(super) is_cut: bool,
    /// Whether it has a scope, which may be empty.
    pub(super) is_scope: bool,
    pub(super) children: Vec<Self>,
}

impl Node {
    /// Whether it has this key; keys may be written in capitals or not.
    pub(super) fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }
}

/// Reads a file and those that it includes. What is wrong is in the sheet.
pub(super) fn read(source: &Source<'_>, sheet: &mut Sheet) -> Vec<Node> {
    let mut reader =
        Reader { source, sheet, open: Vec::new(), files: 0, scopes: Vec::new(), root: Vec::new() };
    reader.file(Path::new(source.file.name).to_owned(), source.file.text);
    if let Some(scope) = reader.scopes.first() {
        let place = scope.place.clone();
        reader.sheet.wrong(&place, "", "a scope that is not closed");
    }
    reader.root
}

struct Reader<'a, 'b> {
    source: &'a Source<'a>,
    sheet: &'b mut Sheet,
    /// The files that are being read, outermost first.
    open: Vec<PathBuf>,
    files: usize,
    /// The scopes that are open, outermost first.
    scopes: Vec<Node>,
    root: Vec<Node>,
}

impl Reader<'_, '_> {
    fn file(&mut self, path: PathBuf, text: &str) {
        self.files += 1;
        let name: Rc<str> = path.display().to_string().into();
        self.open.push(path);
        for (index, line) in text.lines().enumerate() {
            let column = line.len() - line.trim_start().len() + 1;
            let place = Place { name: name.clone(), line: index + 1, column };
            match parse(line.trim_end_matches('\r')) {
                Line::Nothing => {}
                Line::Key { key, value, .. } if key.eq_ignore_ascii_case("Include") => {
                    self.include(&place, &value);
                }
                Line::Key { key, value, is_cut, is_scope } => {
                    let node = Node { place, key, value, is_cut, is_scope, children: Vec::new() };
                    self.add(node);
                }
                Line::End => match self.scopes.pop() {
                    Some(scope) => self.close(scope),
                    None => self.sheet.wrong(&place, "", "a `}` without a scope"),
                },
                // The line is not repeated; it may hold a password.
                Line::Wrong => self.sheet.wrong(
                    &place,
                    "",
                    "cannot be read: behind a quoted value only `{` can follow",
                ),
            }
        }
        self.open.pop();
    }

    fn add(&mut self, node: Node) {
        if !node.is_scope {
            return self.close(node);
        }
        if self.scopes.len() == DEPTH_MAX {
            self.sheet.wrong(&node.place, &node.key, "nested too deeply");
        }
        self.scopes.push(node);
    }

    /// Puts a complete node where it belongs.
    fn close(&mut self, node: Node) {
        match self.scopes.last_mut() {
            Some(scope) => scope.children.push(node),
            None => self.root.push(node),
        }
    }

    /// Reads another file in the place of a line. Its path is relative to the file that names it.
    fn include(&mut self, place: &Place, value: &str) {
        let folder = self.open.last().and_then(|path| path.parent()).unwrap_or(Path::new(""));
        let path = folder.join(value);
        let mut wrong = |message: String| self.sheet.wrong(place, "Include", message);
        if value.is_empty() {
            return wrong("no file is named".to_owned());
        }
        if self.open.contains(&path) {
            return wrong(format!("{} includes itself", path.display()));
        }
        if self.files == FILES_MAX {
            return wrong(format!("more than {FILES_MAX} files"));
        }
        match (self.source.read)(&path) {
            Ok(text) => self.file(path, &text),
            Err(error) => wrong(format!("{}: cannot be read: {error}", path.display())),
        }
    }
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Nothing,
    Key { key: String, value: String, is_cut: bool, is_scope: bool },
    End,
    Wrong,
}

/// Reads one line.
fn parse(line: &str) -> Line {
    let blank = |c: char| matches!(c, ' ' | '\t');
    let line = line.trim_start_matches([' ', '\t', '\r']);
    if line.is_empty() || line.starts_with('#') {
        return Line::Nothing;
    }
    let end = line.find(|c| blank(c) || c == '#').unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches([' ', '\t', '\r']);
    if let Some(quoted) = rest.strip_prefix('"') {
        return quoted_value(key, quoted);
    }
    let value = rest.split('#').next().unwrap_or("");
    if value.is_empty() && key == "}" {
        return Line::End;
    }
    plain_value(key, value)
}

/// A value without quotes: up to a comment, and a scope if it ends with `{`.
fn plain_value(key: &str, value: &str) -> Line {
    let trimmed = value.trim_end();
    let (value, is_scope) = match trimmed.strip_suffix('{') {
        Some(value) => (value, true),
        None => (value, false),
    };
    let blanks = value.chars().filter(char::is_ascii_whitespace).count();
    let mut cut = value.to_owned();
    for _ in 0..blanks {
        cut.pop();
    }
    let is_cut = cut != value.trim_end();
    Line::Key { key: key.to_owned(), value: cut, is_cut, is_scope }
}

/// A value in quotes, in which `\"` and `\\` are characters. It may lack its end.
fn quoted_value(key: &str, text: &str) -> Line {
    let mut value = String::new();
    let mut is_escaped = false;
    let mut rest = "";
    for (at, c) in text.char_indices() {
        match c {
            '\\' | '"' if is_escaped => {
                is_escaped = false;
                value.push(c);
            }
            '\\' => is_escaped = true,
            '"' => {
                rest = &text[at + 1..];
                break;
            }
            c => value.push(c),
        }
    }
    let rest = rest.split('#').next().unwrap_or("").trim();
    let is_scope = match rest {
        "" => false,
        "{" => true,
        _ => return Line::Wrong,
    };
    Line::Key { key: key.to_owned(), value, is_cut: false, is_scope }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str, value: &str, is_cut: bool, is_scope: bool) -> Line {
        Line::Key { key: key.into(), value: value.into(), is_cut, is_scope }
    }

    #[test]
    fn lines() {
        for (line, expected) in [
            ("", Line::Nothing),
            ("  # x", Line::Nothing),
            ("Name x", key("Name", "x", false, false)),
            ("\tName\tx # y", key("Name", "x", false, false)),
            ("Password a#b", key("Password", "a", false, false)),
            ("Password \"a#b\"", key("Password", "a#b", false, false)),
            (r#"Password "a\"\\b" # x"#, key("Password", "a\"\\b", false, false)),
            ("Password \"a", key("Password", "a", false, false)),
            ("Servers {", key("Servers", "", false, true)),
            ("Servers { \r", key("Servers", "", false, true)),
            ("Group g {", key("Group", "g", false, true)),
            ("Auth \"p w\" {", key("Auth", "p w", false, true)),
            ("Auth \"p\" x", Line::Wrong),
            ("+ 10.0.0.1:1", key("+", "10.0.0.1:1", false, false)),
            // As predixy does it: one blank inside, so one character off the end.
            ("Name a bc", key("Name", "a b", true, false)),
            ("Flag", key("Flag", "", false, false)),
            ("}", Line::End),
            ("  } # end", Line::End),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
