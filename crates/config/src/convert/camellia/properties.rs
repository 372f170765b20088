//! Java's property files: keys and values with their places.
//!
//! A few lines instead of a library, since none that is kept up tells where a key stands. Read as `java.util.Properties`
//! reads it: `#` and `!` begin comments, the first `=`, `:` or blank that is not escaped ends a key, a backslash at the end of a
//! line goes on in the next one.
//!
//! Invariant: each key is at the line where it begins.

use std::rc::Rc;

use super::Setting;
use crate::convert::sheet::Place;

/// Reads a text.
pub(super) fn parse(name: &str, text: &str) -> Vec<Setting> {
    let name: Rc<str> = name.into();
    let mut settings = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let column = line.len() - line.trim_start().len() + 1;
        let mut whole = line.trim_start().to_owned();
        if whole.is_empty() || whole.starts_with(['#', '!']) {
            continue;
        }
        while goes_on(&whole) {
            whole.pop();
            let Some((_, next)) = lines.next() else { break };
            whole.push_str(next.trim_start());
        }
        let (key, value) = split(&whole);
        let place = Place { name: name.clone(), line: index + 1, column };
        settings.push(Setting { place, key: unescape(key), value: unescape(value) });
    }
    settings
}

/// Whether an odd number of backslashes stands at the end.
fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Splits at the first separator that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line.find(|c: char| {
        let ends = !is_escaped && matches!(c, '=' | ':' | ' ' | '\t' | '\u{c}');
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches([' ', '\t', '\u{c}']);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches([' ', '\t', '\u{c}']))
}

/// Takes the backslashes away. A `\u` without four digits stays as it is.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.as_str().chars().take(4).collect();
                match u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32) {
                    Some(c) if digits.len() == 4 => {
                        out.push(c);
                        chars.nth(3);
                    }
                    _ => out.push('u'),
                }
            }
            Some(c) => out.push(c),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_and_lines() {
        let text = "# c\n! c\n\nport=6380\n  a.b : c d \nk\\=1=v\nlong=a\\\n   b\\\\\nempty\nj={\"a\\:\":1}\nu=\\u00e4\\u\n";
        let found: Vec<(String, String, usize, usize)> = parse("f", text)
            .into_iter()
            .map(|setting| (setting.key, setting.value, setting.place.line, setting.place.column))
            .collect();
        let is =
            |key: &str, value: &str, line, column| (key.to_owned(), value.to_owned(), line, column);
        assert_eq!(
            found,
            [
                is("port", "6380", 4, 1),
                is("a.b", "c d ", 5, 3),
                is("k=1", "v", 6, 1),
                is("long", "ab\\", 7, 1),
                is("empty", "", 9, 1),
                is("j", "{\"a:\":1}", 10, 1),
                is("u", "\u{e4}u", 11, 1),
            ]
        );
    }
}
