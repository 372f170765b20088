//! Writers: each appends one complete element (or the head of an aggregate) to an out buffer.
//!
//! They are for what the proxy says itself: local replies, errors, its own commands to servers. What passes
//! through is copied, not written again. They do not check that an aggregate's head is followed by as many
//! elements as it announces; that is the caller's part.
//!
//! Invariant: whatever text comes in, the line structure stays sound. CR and LF inside a line become spaces,
//! as in Redis (`afterErrorReply`/`addReplyErrorFormat`), so no text can inject a second reply.

use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::protocol::Protocol;

/// `+text`. CR and LF inside become spaces.
pub fn simple(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'+');
    line_text(out, text);
}

/// `-text`; `text` begins with the error code (`ERR …`). CR and LF at both ends are cut, inside they become
/// spaces.
pub fn error(out: &mut Vec<u8>, text: &[u8]) {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = text.iter().position(|byte| !is_break(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_break(byte)).map_or(start, |last| last + 1);
    out.push(b'-');
    line_text(out, &text[start..end]);
}

/// `:value`.
pub fn integer(out: &mut Vec<u8>, value: i64) {
    head(out, b':', value);
}

/// `$length`, the bytes, CRLF. Any bytes.
pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    bulk_head(out, bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// `$length` CRLF, behind which the caller writes that many bytes and CRLF: for what comes in several pieces.
pub fn bulk_head(out: &mut Vec<u8>, len: usize) {
    size_head(out, b'$', len);
}

/// No value: `$-1` in RESP2, `_` in RESP3.
pub fn null(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// No array (an aborted `EXEC`, a timed-out `BLPOP`): `*-1` in RESP2, `_` in RESP3.
pub fn null_array(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(match protocol {
        Protocol::Resp2 => b"*-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// Head of an array of `len` elements.
pub fn array(out: &mut Vec<u8>, len: usize) {
    size_head(out, b'*', len);
}

/// Head of a map of `len` pairs; in RESP2 an array of `2 * len`.
pub fn map(out: &mut Vec<u8>, len: usize, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => size_head(out, b'*', len.saturating_mul(2)),
        Protocol::Resp3 => size_head(out, b'%', len),
    }
}

/// Head of a set of `len` elements; in RESP2 an array.
pub fn set(out: &mut Vec<u8>, len: usize, protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => size_head(out, b'*', len),
        Protocol::Resp3 => size_head(out, b'~', len),
    }
}

/// Head of a RESP3 push of `len` elements. (In RESP2 messages are plain arrays: use [`array()`].)
pub fn push(out: &mut Vec<u8>, len: usize) {
    size_head(out, b'>', len);
}

/// `,value` in RESP3, a bulk with the same text in RESP2. Digits and exponents are written as Redis 7.2 does
/// (`fpconv_dtoa`: the shortest digits that read back as the same number).
pub fn double(out: &mut Vec<u8>, value: f64, protocol: Protocol) {
    let mut text = Vec::with_capacity(32);
    double_text(&mut text, value);
    match protocol {
        Protocol::Resp2 => bulk(out, &text),
        Protocol::Resp3 => {
            out.push(b',');
            line_text(out, &text);
        }
    }
}

/// `#t`/`#f` in RESP3, `:1`/`:0` in RESP2.
pub fn boolean(out: &mut Vec<u8>, value: bool, protocol: Protocol) {
    out.extend_from_slice(match (protocol, value) {
        (Protocol::Resp2, true) => b":1\r\n",
        (Protocol::Resp2, false) => b":0\r\n",
        (Protocol::Resp3, true) => b"#t\r\n",
        (Protocol::Resp3, false) => b"#f\r\n",
    });
}

/// Text with a three-letter format (`txt`, `mkd`): `=` in RESP3, a plain bulk without the format in RESP2.
pub fn verbatim(out: &mut Vec<u8>, format: [u8; 3], text: &[u8], protocol: Protocol) {
    match protocol {
        Protocol::Resp2 => bulk(out, text),
        Protocol::Resp3 => {
            size_head(out, b'=', text.len().saturating_add(4));
            out.extend_from_slice(&format);
            out.push(b':');
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// A request as clients send it: an array of bulks.
pub fn request(out: &mut Vec<u8>, args: &[&[u8]]) {
    // Once and not with every other argument; a head and two ends of lines are rarely longer.
    out.reserve(args.iter().map(|arg| arg.len() + 10).sum::<usize>() + 6);
    array(out, args.len());
    for arg in args {
        bulk(out, arg);
    }
}

fn head(out: &mut Vec<u8>, kind: u8, value: i64) {
    let mut digits = itoa::Buffer::new();
    out.push(kind);
    out.extend_from_slice(digits.format(value).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn size_head(out: &mut Vec<u8>, kind: u8, len: usize) {
    // Nearly all there are.
    let digit = |value: usize| b'0' + value as u8;
    match len {
        0..=9 => return out.extend_from_slice(&[kind, digit(len), b'\r', b'\n']),
        10..=99 => {
            return out.extend_from_slice(&[kind, digit(len / 10), digit(len % 10), b'\r', b'\n']);
        }
        _ => {}
    }
    let mut digits = itoa::Buffer::new();
    out.push(kind);
    out.extend_from_slice(digits.format(len).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// `text` on one line, with its CRLF.
fn line_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

/// The number as `fpconv_dtoa` writes it.
///
/// Rust's `{:e}` yields the same shortest digits; only the layout differs. With `digits × 10^exponent`,
/// Redis writes an integer while few zeros are appended, a fraction while few are put in front, and
/// otherwise `d.ddde±x`.
fn double_text(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    if magnitude == 0.0 {
        return out.push(b'0');
    }
    let mut scientific = alloc::string::String::new();
    // Writing to a String cannot fail, and `{:e}` always has its `e`; were either false, no digits follow.
    let _ = write!(scientific, "{magnitude:e}");
    let (mantissa, power) = scientific.split_once('e').unwrap_or(("", "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    layout_digits(out, &digits, power);
}

/// `power` is the exponent of the first digit: 1234.5 has digits `12345` and power 3.
fn layout_digits(out: &mut Vec<u8>, digits: &[u8], power: i32) {
    let count = digits.len() as i32; // at most 17
    let appended = power - count + 1;
    if appended >= 0 && power < count + 7 {
        out.extend_from_slice(digits);
        out.extend(core::iter::repeat_n(b'0', appended.unsigned_abs() as usize));
    } else if appended < 0 && (appended > -7 || power.abs() < 4) {
        if power < 0 {
            out.extend_from_slice(b"0.");
            out.extend(core::iter::repeat_n(b'0', (power + 1).unsigned_abs() as usize));
            out.extend_from_slice(digits);
        } else {
            let (whole, fraction) = digits.split_at(digits.len().min(power as usize + 1));
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        }
    } else {
        let (first, rest) = digits.split_at(digits.len().min(1));
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        out.push(b'e');
        out.push(if power < 0 { b'-' } else { b'+' });
        out.extend_from_slice(itoa::Buffer::new().format(power.unsigned_abs()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn lines_cannot_be_broken_by_their_text() {
        assert_eq!(written(|o| simple(o, b"a\r\n+b")), b"+a  +b\r\n");
        assert_eq!(written(|o| error(o, b"\r\nERR a\nb\r\n\r\n")), b"-ERR a b\r\n");
        assert_eq!(written(|o| error(o, b"\r\n")), b"-\r\n");
        assert_eq!(written(|o| error(o, b"")), b"-\r\n");
    }

    #[test]
    fn every_element_has_its_form_in_each_protocol() {
        use Protocol::{Resp2, Resp3};
        let cases: [(Vec<u8>, &[u8]); 21] = [
            (written(|o| integer(o, i64::MIN)), b":-9223372036854775808\r\n"),
            (written(|o| bulk(o, b"a\r\nb")), b"$4\r\na\r\nb\r\n"),
            (written(|o| null(o, Resp2)), b"$-1\r\n"),
            (written(|o| null(o, Resp3)), b"_\r\n"),
            (written(|o| null_array(o, Resp2)), b"*-1\r\n"),
            (written(|o| null_array(o, Resp3)), b"_\r\n"),
            (written(|o| array(o, 12)), b"*12\r\n"),
            (written(|o| map(o, 3, Resp2)), b"*6\r\n"),
            (written(|o| map(o, 3, Resp3)), b"%3\r\n"),
            (written(|o| set(o, 3, Resp2)), b"*3\r\n"),
            (written(|o| set(o, 3, Resp3)), b"~3\r\n"),
            (written(|o| push(o, 2)), b">2\r\n"),
            (written(|o| double(o, 0.5, Resp2)), b"$3\r\n0.5\r\n"),
            (written(|o| double(o, 0.5, Resp3)), b",0.5\r\n"),
            (written(|o| boolean(o, true, Resp2)), b":1\r\n"),
            (written(|o| boolean(o, false, Resp2)), b":0\r\n"),
            (written(|o| boolean(o, true, Resp3)), b"#t\r\n"),
            (written(|o| boolean(o, false, Resp3)), b"#f\r\n"),
            (written(|o| verbatim(o, *b"txt", b"hi", Resp2)), b"$2\r\nhi\r\n"),
            (written(|o| verbatim(o, *b"txt", b"hi", Resp3)), b"=6\r\ntxt:hi\r\n"),
            (written(|o| request(o, &[b"GET", b""])), b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n"),
        ];
        for (got, wanted) in cases {
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn doubles_look_as_in_redis() {
        let cases: [(f64, &str); 18] = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (3.15, "3.15"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (1e-7, "1e-7"),
            (1.25e-9, "1.25e-9"),
            (10_000_000.0, "10000000"),
            (1e8, "1e+8"),
            (123_456_789.0, "123456789"),
            (1e21, "1e+21"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, text) in cases {
            let mut wanted = alloc::vec![b','];
            wanted.extend_from_slice(text.as_bytes());
            wanted.extend_from_slice(b"\r\n");
            assert_eq!(written(|o| double(o, value, Protocol::Resp3)), wanted, "{text}");
        }
    }
}
