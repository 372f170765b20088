//! The same rules as `request` and `reply`, written as plainly as possible: the oracle of the tests.
//!
//! It reads one complete buffer from its beginning with index loops, remembers nothing between calls, and
//! copies whatever it likes. It shares no code with the scanners, not even number parsing, so that a mistake
//! would have to be made twice. It is compiled for tests and fuzzing only, never into the product.
//!
//! Invariant: each function follows the C code (or the RESP3 text) line by line; if it and a scanner differ,
//! this is the one to compare with Redis first.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::error::{ReplyError, RequestError};
use crate::limits::{ReplyLimits, RequestLimits};

/// A request as the oracle sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaiveRequest {
    /// All arguments; none for a request of nothing.
    pub args: Vec<Vec<u8>>,
    /// Where each argument begins; empty for an inline request.
    pub starts: Vec<usize>,
    /// Whether it is a line.
    pub inline: bool,
    /// Bytes of the request.
    pub len: usize,
}

/// The first request of `bytes`; `None` if it is not complete.
///
/// # Errors
/// As `RequestScanner::scan`.
pub fn request(bytes: &[u8], limits: &RequestLimits) -> Result<Option<NaiveRequest>, RequestError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes[0] != b'*' {
        return inline_request(bytes, limits);
    }
    let Some(end) = strchr(bytes, b'\r', limits) else {
        return too_big(bytes, limits, RequestError::MultibulkCountTooBig);
    };
    if end + 2 > bytes.len() {
        return Ok(None);
    }
    if bytes[end + 1] != b'\n' {
        return Err(RequestError::InvalidCrlf);
    }
    let count = match string2ll(&bytes[1..end]) {
        Some(count) if count <= i64::from(limits.args_max) => count,
        _ => return Err(RequestError::InvalidMultibulkLength),
    };
    if count > 10 && !limits.authenticated {
        return Err(RequestError::UnauthenticatedMultibulkLength);
    }
    let mut at = end + 2;
    let (mut args, mut starts) = (Vec::new(), Vec::new());
    while (args.len() as i64) < count {
        let rest = &bytes[at..];
        let Some(end) = strchr(rest, b'\r', limits) else {
            return too_big(rest, limits, RequestError::BulkCountTooBig);
        };
        if end + 2 > rest.len() {
            return Ok(None);
        }
        if rest[0] != b'$' {
            return Err(RequestError::ExpectedDollar(rest[0]));
        }
        if rest[end + 1] != b'\n' {
            return Err(RequestError::InvalidCrlf);
        }
        let bulk_bytes_max = limits.bulk_bytes_max.min(1 << 30) as i64;
        let len = match string2ll(&rest[1..end]) {
            Some(len) if len >= 0 && len <= bulk_bytes_max => len as usize,
            _ => return Err(RequestError::InvalidBulkLength),
        };
        if len > 16_384 && !limits.authenticated {
            return Err(RequestError::UnauthenticatedBulkLength);
        }
        at += end + 2;
        if bytes.len() - at < len + 2 {
            return Ok(None);
        }
        if &bytes[at + len..at + len + 2] != b"\r\n" {
            return Err(RequestError::InvalidCrlf);
        }
        args.push(bytes[at..at + len].to_vec());
        starts.push(at);
        at += len + 2;
    }
    Ok(Some(NaiveRequest { args, starts, inline: false, len: at }))
}

fn inline_request(
    bytes: &[u8],
    limits: &RequestLimits,
) -> Result<Option<NaiveRequest>, RequestError> {
    let Some(newline) = strchr(bytes, b'\n', limits) else {
        return too_big(bytes, limits, RequestError::InlineTooBig);
    };
    let mut end = newline;
    if end > 0 && bytes[end - 1] == b'\r' {
        end -= 1;
    }
    let args = sdssplitargs(&bytes[..end]).ok_or(RequestError::UnbalancedQuotes)?;
    Ok(Some(NaiveRequest { args, starts: Vec::new(), inline: true, len: newline + 1 }))
}

fn too_big<T>(
    bytes: &[u8],
    limits: &RequestLimits,
    error: RequestError,
) -> Result<Option<T>, RequestError> {
    if bytes.len() > limits.inline_bytes_max { Err(error) } else { Ok(None) }
}

/// C's `strchr`, but blind behind the bound of a line.
fn strchr(bytes: &[u8], wanted: u8, limits: &RequestLimits) -> Option<usize> {
    for (index, byte) in bytes.iter().enumerate() {
        if index > limits.inline_bytes_max || *byte == 0 {
            return None;
        }
        if *byte == wanted {
            return Some(index);
        }
    }
    None
}

/// A number is what prints as the same text again.
fn string2ll(text: &[u8]) -> Option<i64> {
    let text = core::str::from_utf8(text).ok()?;
    text.parse::<i64>().ok().filter(|number| number.to_string() == text)
}

/// `sdssplitargs`, statement by statement; `None` where that returns NULL.
#[must_use]
pub fn sdssplitargs(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut line = line.to_vec();
    line.extend_from_slice(&[0; 4]);
    let isspace = |byte: u8| b" \t\n\x0b\x0c\r".contains(&byte);
    let mut vector = Vec::new();
    let mut p = 0;
    loop {
        while line[p] != 0 && isspace(line[p]) {
            p += 1;
        }
        if line[p] == 0 {
            return Some(vector);
        }
        let (mut inq, mut insq, mut done) = (false, false, false);
        let mut current = Vec::new();
        while !done {
            if inq {
                if line[p] == b'\\'
                    && line[p + 1] == b'x'
                    && line[p + 2].is_ascii_hexdigit()
                    && line[p + 3].is_ascii_hexdigit()
                {
                    let digits = [line[p + 2], line[p + 3]];
                    let digits = core::str::from_utf8(&digits).ok()?;
                    current.push(u8::from_str_radix(digits, 16).ok()?);
                    p += 3;
                } else if line[p] == b'\\' && line[p + 1] != 0 {
                    p += 1;
                    current.push(match line[p] {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'b' => 0x08,
                        b'a' => 0x07,
                        other => other,
                    });
                } else if line[p] == b'"' {
                    if line[p + 1] != 0 && !isspace(line[p + 1]) {
                        return None;
                    }
                    done = true;
                } else if line[p] == 0 {
                    return None;
                } else {
                    current.push(line[p]);
                }
            } else if insq {
                if line[p] == b'\\' && line[p + 1] == b'\'' {
                    p += 1;
                    current.push(b'\'');
                } else if line[p] == b'\'' {
                    if line[p + 1] != 0 && !isspace(line[p + 1]) {
                        return None;
                    }
                    done = true;
                } else if line[p] == 0 {
                    return None;
                } else {
                    current.push(line[p]);
                }
            } else {
                match line[p] {
                    b' ' | b'\n' | b'\r' | b'\t' | 0 => done = true,
                    b'"' => inq = true,
                    b'\'' => insq = true,
                    other => current.push(other),
                }
            }
            if line[p] != 0 {
                p += 1;
            }
        }
        vector.push(current);
    }
}

/// Bytes of the first reply of `bytes`; `None` if it is not complete.
///
/// # Errors
/// As `ReplyScanner::scan`.
pub fn reply(bytes: &[u8], limits: &ReplyLimits) -> Result<Option<usize>, ReplyError> {
    element(bytes, 0, 0, limits)
}

/// Where the element that begins at `at` ends. `depth` aggregates are open around it.
fn element(
    bytes: &[u8],
    at: usize,
    depth: usize,
    limits: &ReplyLimits,
) -> Result<Option<usize>, ReplyError> {
    if at == bytes.len() {
        return Ok(None);
    }
    let kind = bytes[at];
    if b"+-,(".contains(&kind) {
        return text(&bytes[at + 1..], limits).map(|end| end.map(|end| at + 1 + end));
    }
    if !b":_#$!=*%~>|".contains(&kind) {
        return Err(ReplyError::UnexpectedByte(kind));
    }
    let Some((line, next)) = number_line(bytes, at)? else { return Ok(None) };
    match kind {
        b':' if string2ll(line).is_none() => Err(ReplyError::BadInteger),
        b'_' if !line.is_empty() => Err(ReplyError::BadNull),
        b'#' if line != b"t" && line != b"f" => Err(ReplyError::BadBool),
        b':' | b'_' | b'#' => Ok(Some(next)),
        b'$' | b'*' if line == b"-1" => Ok(Some(next)),
        b'$' if line == b"?" => chunks(bytes, next, limits),
        b'*' | b'~' | b'%' if line == b"?" => {
            if depth == limits.depth_max {
                return Err(ReplyError::TooDeep);
            }
            streamed(bytes, next, kind == b'%', depth + 1, limits)
        }
        b'$' | b'!' | b'=' => {
            let len = unsigned(line)?;
            if len > limits.bulk_bytes_max {
                return Err(ReplyError::BadLength);
            }
            if kind == b'=' && len < 4 {
                return Err(ReplyError::BadVerbatim);
            }
            payload(bytes, next, len)
        }
        _ => {
            let mut count = u128::from(unsigned(line)?);
            if depth == limits.depth_max {
                return Err(ReplyError::TooDeep);
            }
            if kind == b'%' || kind == b'|' {
                count *= 2;
            }
            let mut at = next;
            while count > 0 {
                let Some(end) = element(bytes, at, depth + 1, limits)? else { return Ok(None) };
                at = end;
                count -= 1;
            }
            // What an attribute belongs to stands at the attribute's own depth.
            match kind {
                b'|' if depth == 0 && bytes.get(at) == Some(&b'>') => {
                    Err(ReplyError::UnexpectedByte(b'>'))
                }
                b'|' => element(bytes, at, depth, limits),
                _ => Ok(Some(at)),
            }
        }
    }
}

/// Elements up to a `.`; of a map, an even number of them.
fn streamed(
    bytes: &[u8],
    mut at: usize,
    pairs: bool,
    depth: usize,
    limits: &ReplyLimits,
) -> Result<Option<usize>, ReplyError> {
    let mut count = 0;
    loop {
        if bytes.get(at) == Some(&b'.') {
            if pairs && count % 2 == 1 {
                return Err(ReplyError::UnexpectedByte(b'.'));
            }
            let Some((line, next)) = number_line(bytes, at)? else { return Ok(None) };
            if !line.is_empty() {
                return Err(ReplyError::BadNull);
            }
            return Ok(Some(next));
        }
        let Some(end) = element(bytes, at, depth, limits)? else { return Ok(None) };
        at = end;
        count += 1;
    }
}

/// Chunks up to one of no bytes.
fn chunks(bytes: &[u8], mut at: usize, limits: &ReplyLimits) -> Result<Option<usize>, ReplyError> {
    loop {
        if at == bytes.len() {
            return Ok(None);
        }
        if bytes[at] != b';' {
            return Err(ReplyError::UnexpectedByte(bytes[at]));
        }
        let Some((line, next)) = number_line(bytes, at)? else { return Ok(None) };
        let len = unsigned(line)?;
        if len > limits.bulk_bytes_max {
            return Err(ReplyError::BadLength);
        }
        if len == 0 {
            return Ok(Some(next));
        }
        let Some(end) = payload(bytes, next, len)? else { return Ok(None) };
        at = end;
    }
}

fn payload(bytes: &[u8], at: usize, len: u64) -> Result<Option<usize>, ReplyError> {
    let end = at as u128 + u128::from(len) + 2;
    if end > bytes.len() as u128 {
        return Ok(None);
    }
    let end = end as usize;
    if &bytes[end - 2..end] != b"\r\n" {
        return Err(ReplyError::BadLineEnd);
    }
    Ok(Some(end))
}

/// The end of a free text line.
fn text(bytes: &[u8], limits: &ReplyLimits) -> Result<Option<usize>, ReplyError> {
    for index in 0..bytes.len() {
        if bytes[index..].starts_with(b"\r\n") {
            return Ok(Some(index + 2));
        }
        // Whether a last `\r` is text depends on what follows it.
        let is_text = bytes[index] != b'\r' || index + 1 < bytes.len();
        if is_text && index as u64 >= limits.line_bytes_max {
            return Err(ReplyError::LineTooLong);
        }
    }
    Ok(None)
}

/// What stands between the byte at `at` and its `\r\n`, and where the next line begins.
fn number_line(bytes: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, ReplyError> {
    for end in at..at + 32 {
        if end >= bytes.len() {
            return Ok(None);
        }
        if bytes[end] == b'\r' {
            return match bytes.get(end + 1) {
                None => Ok(None),
                Some(b'\n') => Ok(Some((&bytes[at + 1..end], end + 2))),
                Some(_) => Err(ReplyError::BadLineEnd),
            };
        }
    }
    Err(ReplyError::LineTooLong)
}

fn unsigned(line: &[u8]) -> Result<u64, ReplyError> {
    string2ll(line).and_then(|len| u64::try_from(len).ok()).ok_or(ReplyError::BadLength)
}
