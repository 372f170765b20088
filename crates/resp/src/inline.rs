//! Inline requests: a line of words, with the quoting of Redis' `sdssplitargs`.
//!
//! It is what `telnet` users and health checks send (`PING\r\n`). The words are taken apart here because the
//! proxy forwards such a request as an array of bulks, never as a line.
//! It is not the shell: no variables, no nesting; escapes count only inside `"…"`, but for `\'` inside `'…'`.
//! Odd but kept: a vertical tab or form feed separates words only at a word's beginning; a quote may open in
//! the middle of a word (`fo"o b"` is one word); a closing quote must be followed by white space or the end;
//! a NUL ends the line.
//!
//! Invariant: [`count`] and [`split`] agree, since both walk the line with the same function.

use alloc::vec::Vec;

use crate::error::RequestError;

/// The words of one line, which may end in `\n` or `\r\n`.
///
/// # Errors
/// [`RequestError::UnbalancedQuotes`] as `sdssplitargs` returns NULL.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, RequestError> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    walk(line, |piece| match piece {
        Piece::Byte(byte) => word.push(byte),
        Piece::End => words.push(core::mem::take(&mut word)),
    })?;
    Ok(words)
}

/// How many words [`split`] would give; allocates nothing.
///
/// # Errors
/// As [`split`].
pub fn count(line: &[u8]) -> Result<u32, RequestError> {
    let mut words = 0_u32;
    walk(line, |piece| {
        // A line of 64 KiB has at most half as many words.
        words = words.saturating_add(u32::from(matches!(piece, Piece::End)));
    })?;
    Ok(words)
}

enum Piece {
    Byte(u8),
    End,
}

/// Within which quotes the walk stands.
#[derive(Clone, Copy)]
enum Quote {
    None,
    Double,
    Single,
}

fn walk(line: &[u8], mut sink: impl FnMut(Piece)) -> Result<(), RequestError> {
    let line =
        line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
    // A C string: whatever lies behind reads as NUL, and NUL ends it.
    let byte_at = |index: usize| line.get(index).copied().unwrap_or(0);
    let mut at = 0;
    loop {
        while is_space(byte_at(at)) {
            at += 1;
        }
        if byte_at(at) == 0 {
            return Ok(());
        }
        at = walk_word(at, byte_at, &mut sink)?;
        sink(Piece::End);
    }
}

/// Walks one word that begins at `at`; returns the index behind it.
fn walk_word(
    mut at: usize,
    byte_at: impl Fn(usize) -> u8,
    sink: &mut impl FnMut(Piece),
) -> Result<usize, RequestError> {
    let mut quote = Quote::None;
    loop {
        let byte = byte_at(at);
        match (quote, byte) {
            (Quote::None, b' ' | b'\n' | b'\r' | b'\t' | 0) => return Ok(at),
            (Quote::None, b'"') => quote = Quote::Double,
            (Quote::None, b'\'') => quote = Quote::Single,
            (Quote::Double | Quote::Single, 0) => return Err(RequestError::UnbalancedQuotes),
            (Quote::Double, b'"') | (Quote::Single, b'\'') => {
                let next = byte_at(at + 1);
                if next != 0 && !is_space(next) {
                    return Err(RequestError::UnbalancedQuotes);
                }
                return Ok(at + 1);
            }
            (Quote::Single, b'\\') if byte_at(at + 1) == b'\'' => {
                sink(Piece::Byte(b'\''));
                at += 1;
            }
            (Quote::Double, b'\\') if byte_at(at + 1) != 0 => {
                let (value, more) = escape(byte_at(at + 1), byte_at(at + 2), byte_at(at + 3));
                sink(Piece::Byte(value));
                at += more;
            }
            _ => sink(Piece::Byte(byte)),
        }
        at += 1;
    }
}

/// What the bytes behind a backslash inside `"…"` stand for, and how many of them are used.
fn escape(first: u8, second: u8, third: u8) -> (u8, usize) {
    if first == b'x'
        && let (Some(high), Some(low)) = (hex_digit(second), hex_digit(third))
    {
        return (high * 16 + low, 3);
    }
    let value = match first {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    };
    (value, 1)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// C's `isspace` in the C locale.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn words(line: &[u8]) -> Vec<Vec<u8>> {
        split(line).expect("balanced quotes")
    }

    #[test]
    fn blank_lines_have_no_words() {
        for line in [&b""[..], b"\n", b"\r\n", b"  \t \r\n", b"\x0b\x0c\r\n"] {
            assert_eq!(words(line), Vec::<Vec<u8>>::new(), "{line:?}");
        }
    }

    #[test]
    fn words_are_separated_by_white_space() {
        assert_eq!(words(b"  SET  key\tvalue \r\n"), [&b"SET"[..], b"key", b"value"]);
        assert_eq!(words(b"PING"), [b"PING"]);
        // `\v` and `\f` are skipped before a word and belong to it inside.
        assert_eq!(words(b"\x0ba\x0bb"), [b"a\x0bb"]);
    }

    #[test]
    fn double_quotes_know_escapes() {
        assert_eq!(words(br#""\x41\n\r\t\b\a\"\\\q\xZZ""#), [b"A\n\r\t\x08\x07\"\\qxZZ"]);
        assert_eq!(words(br#""" x"#), vec![b"".to_vec(), b"x".to_vec()]);
    }

    #[test]
    fn single_quotes_know_only_their_own_escape() {
        assert_eq!(words(br"'a\'b\n'"), [br"a'b\n"]);
    }

    #[test]
    fn a_quote_may_open_inside_a_word() {
        assert_eq!(words(br#"fo"o b" x"#), [&b"foo b"[..], b"x"]);
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        let lines: [&[u8]; 8] =
            [b"\"", b"'", b"\"a", b"'a", b"\"a\"b", b"'a'b", b"a\"", b"\"a\\\"\r\n"];
        for line in lines {
            assert_eq!(split(line), Err(RequestError::UnbalancedQuotes), "{line:?}");
            assert_eq!(count(line), Err(RequestError::UnbalancedQuotes), "{line:?}");
        }
    }

    #[test]
    fn a_nul_ends_the_line() {
        assert_eq!(words(b"PING\0 more"), [b"PING"]);
        assert_eq!(split(b"\"a\0\""), Err(RequestError::UnbalancedQuotes));
    }
}
