//! Finds where a client's request ends, without building anything.
//!
//! The rules are those of the strictest supported server. Redis (6.2 to 8.2, `processMultibulkBuffer`) takes the
//! byte behind the `\r` of a `*N` or `$N` line for `\n` unchecked, and so the two bytes behind an argument. Valkey
//! (8.1 and 9.1, `parseMultibulk`) checks them and closes the connection, which other clients share: so they are
//! checked here, and only the client that sent them is closed. Everything else is as in Redis' `processInputBuffer`
//! and `processInlineBuffer`: a NUL hides the rest of a line from C's `strchr`, so a line with a NUL before its
//! end never ends; `*0` and `*-1` are requests of nothing. **Requests are forwarded verbatim. Were the proxy to find
//! an end where the server finds none (or the other way round), one client's bytes would become another client's
//! request: request smuggling.** So whatever is accepted here ends where every supported server ends it.
//! Limits before authentication are those of Redis 7.2 (7.0.0 knew none).
//!
//! One departure: Redis notices a line above 64 KiB only when it happens to look at an unfinished one. Here a
//! line whose end does not lie within the first 64 KiB + 1 bytes is refused however it arrives.
//!
//! Not here: what a command means, which of its arguments are keys, and what becomes of a refused client.
//!
//! Invariant: for the same bytes and limits any chunking gives the same frames and the same error, and
//! `position()` is the number of bytes consumed since the last frame ended.

use memchr::memchr2;

use crate::error::RequestError;
use crate::inline;
pub use crate::limits::RequestLimits;
use crate::limits::{
    BULK_BYTES_CEILING, LONG_FRAME_BYTES, LONG_FRAME_ELEMENTS, UNAUTHENTICATED_ARGS_MAX,
    UNAUTHENTICATED_BULK_BYTES_MAX,
};
use crate::number::parse_i64;
pub use crate::scan::Scan;
use crate::scan::{bulk_digits, is_digits, is_digits_32};

/// How many leading arguments a scan remembers: the command, a subcommand or first key, and one more.
pub const HEAD_ARGS: usize = 3;

/// Least bytes of an argument on the wire, `$0\r\n\r\n`. Every argument of a complete frame has as many,
/// which is why the fast path may look at six bytes at once.
const ARG_BYTES_MIN: usize = 6;

/// A piece of a request, relative to the request's first byte.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte of the piece.
    pub start: u32,
    /// Bytes in the piece.
    pub len: u32,
}

impl Span {
    /// The piece of `frame`, which begins at the request's first byte. Empty if it reaches outside.
    #[must_use]
    #[inline]
    pub fn of(self, frame: &[u8]) -> &[u8] {
        let start = self.start as usize;
        // 32-bit targets could wrap here; a wrapped end is before the start, hence "outside".
        let end = start.wrapping_add(self.len as usize);
        frame.get(start..end).unwrap_or(&[])
    }
}

/// What a request is like. One look at this finds nearly all of them to be ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Nothing (`*0`, `*-1`).
    #[default]
    Nothing,
    /// None of the others.
    Ordinary,
    /// It has [`LONG_FRAME_BYTES`] or more, or [`LONG_FRAME_ELEMENTS`] arguments or more.
    Long,
    /// A line for people (`PING\r\n`), perhaps a blank one. `head` is not set then; use [`inline::split`].
    Inline,
}

/// One complete request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the whole request, from its first to its last, however many scans it took.
    pub len: u64,
    /// Number of arguments with the command. 0: a request of nothing (`*0`, `*-1`, a blank line), to be
    /// skipped without a reply.
    pub args: u32,
    /// What is to be known before anything else.
    pub form: Form,
    /// Spans of the first arguments; those behind `args` are empty.
    pub head: [Span; HEAD_ARGS],
}

/// Finds the ends of one client's requests. Holds no bytes, only where it stands.
///
/// Which fields mean something when:
/// ```text
///            *3\r\n $3\r\n SET\r\n $5\r\n hel|lo\r\n $…      | = position
/// args  0       3                                     announced, 0 before the line is consumed
/// args_left     3      2             1                arguments whose `$N` line is not yet consumed
/// bulk_left            5  0          7      4         bytes of the present argument, its CRLF included
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestScanner {
    position: u64,
    bulk_left: u64,
    args: u32,
    args_left: u32,
    head: [Span; HEAD_ARGS],
}

impl RequestScanner {
    /// Looks for the end of the current request.
    ///
    /// `bytes` begins at the first byte not yet consumed of it. Consumed bytes are never needed again; the
    /// few bytes of an unfinished line are not consumed and must be presented again with more. After
    /// [`Scan::Complete`] the scanner is fresh again.
    ///
    /// # Errors
    /// Whatever Redis calls a protocol error. The client is to be answered and closed; the scanner must be
    /// [`reset`](Self::reset) before any other use.
    #[inline]
    pub fn scan(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
    ) -> Result<Scan<Request>, RequestError> {
        if self.position == 0
            && let Some(frame) = short_request(bytes, limits)
        {
            // A short request's length was just compared with `bytes.len()`, so it fits a usize.
            return Ok(Scan::Complete { consumed: frame.len as usize, frame });
        }
        self.resume(bytes, limits)
    }

    /// Bytes of the unfinished request consumed so far.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Whether nothing of a request has been consumed. (The first thing consumed is a whole `*N` line.)
    #[must_use]
    pub const fn is_fresh(&self) -> bool {
        self.position == 0
    }

    /// The announced number of arguments, once the `*N` line is consumed.
    #[must_use]
    pub const fn args(&self) -> Option<u32> {
        if self.args == 0 { None } else { Some(self.args) }
    }

    /// Spans of those of the first [`HEAD_ARGS`] arguments that are wholly consumed, their CRLF included.
    #[must_use]
    pub fn head(&self) -> &[Span] {
        let begun = self.args - self.args_left;
        let whole = if self.bulk_left > 0 { begun.saturating_sub(1) } else { begun };
        self.head.get(..whole as usize).unwrap_or(&self.head)
    }

    /// Lower bound of the bytes still to come until the request ends; 0 while the scanner is fresh.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.bulk_left + self.args_left as u64 * ARG_BYTES_MIN as u64
    }

    /// Bytes still to come of the argument that the scan stands in, its CRLF included; 0 between two arguments.
    #[must_use]
    pub const fn bulk_missing(&self) -> u64 {
        self.bulk_left
    }

    /// Forgets the unfinished request.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The general case: large or many arguments, inline requests, anything that arrives in pieces.
    #[inline(never)]
    fn resume(
        &mut self,
        bytes: &[u8],
        limits: &RequestLimits,
    ) -> Result<Scan<Request>, RequestError> {
        let mut at = 0;
        if self.position == 0 {
            match bytes.first() {
                None => return Ok(Scan::Partial { consumed: 0 }),
                Some(b'*') => {}
                Some(_) => return scan_inline(bytes, limits),
            }
            let Some((count, consumed)) = count_line(bytes, limits)? else {
                return Ok(Scan::Partial { consumed: 0 });
            };
            if count == 0 {
                let frame = Request { len: consumed as u64, ..Request::default() };
                return Ok(Scan::Complete { consumed, frame });
            }
            self.args = count;
            self.args_left = count;
            at = consumed;
        }
        let start = self.position;
        loop {
            // `at` never passes the end: it grows by whole lines found and by what is there of a bulk.
            let rest = bytes.get(at..).unwrap_or(&[]);
            if self.bulk_left > 0 {
                let whole = usize::try_from(self.bulk_left).unwrap_or(usize::MAX);
                let Some(bulk) = rest.get(..whole) else {
                    // Both bytes of the end are looked at together, as the server does.
                    let data = rest.len().min(whole - 2);
                    self.bulk_left -= data as u64;
                    at += data;
                    self.position = start + at as u64;
                    return Ok(Scan::Partial { consumed: at });
                };
                if bulk.last_chunk::<2>() != Some(b"\r\n") {
                    return Err(RequestError::InvalidCrlf);
                }
                at += whole;
                self.bulk_left = 0;
            }
            self.position = start + at as u64;
            if self.args_left == 0 {
                let (len, args) = (self.position, self.args);
                let frame = Request { len, args, form: form(len, args), head: self.head };
                self.reset();
                return Ok(Scan::Complete { consumed: at, frame });
            }
            if let Some((span, end)) = short_bulk(bytes, at)
                && u64::from(span.len) <= limits.bulk_bytes_max
            {
                self.note_arg(start + (end - 2) as u64 - u64::from(span.len), span.len.into());
                at = end;
                continue;
            }
            let Some((len, line)) = bulk_line(bytes.get(at..).unwrap_or(&[]), limits)? else {
                return Ok(Scan::Partial { consumed: at });
            };
            at += line;
            self.note_arg(start + at as u64, len);
            self.bulk_left = len + 2;
        }
    }

    /// An argument of `len` bytes begins at `start`.
    #[inline]
    fn note_arg(&mut self, start: u64, len: u64) {
        let index = (self.args - self.args_left) as usize;
        if let Some(span) = self.head.get_mut(index) {
            // BULK_BYTES_CEILING keeps both within 32 bits: at most two such bulks lie before the third.
            debug_assert!(start + len <= u64::from(u32::MAX), "a head argument beyond 32 bits");
            *span = Span { start: start as u32, len: len as u32 };
        }
        self.args_left -= 1;
    }
}

/// How a request begins that has two arguments, the first of three bytes.
const TWO_ARGS: u64 = u64::from_le_bytes(*b"*2\r\n$3\r\n");

/// The same with three.
const THREE_ARGS: u64 = u64::from_le_bytes(*b"*3\r\n$3\r\n");

/// The same of PING and its like.
const PING: u64 = u64::from_le_bytes(*b"*1\r\n$4\r\n");

/// A whole request of 1 to 9 arguments below 1000 bytes each (the command's name below 10), which is nearly all
/// there is.
///
/// `None` says nothing about the bytes: the general case decides. It must only never say `Some` where that
/// one would say something else.
#[inline]
fn short_request(bytes: &[u8], limits: &RequestLimits) -> Option<Request> {
    // `*N\r\n$D\r\n` in one load and one comparison; only the two digits are left to look at.
    let line = bytes.first_chunk::<8>()?;
    let line = u64::from_le_bytes(*line);
    let (args, name) = match line {
        // Nothing but a shortcut for GET, SET and their like: where the branch is predicted, the processor
        // need not wait for the loaded digits before it loads the next argument's line.
        TWO_ARGS => (2, 3),
        THREE_ARGS => (3, 3),
        PING => (1, 4),
        _ => {
            let line = line ^ u64::from_le_bytes(*b"*0\r\n$0\r\n");
            let args = (line >> 8) as u32 & 0xff;
            if !is_digits(line, 0x0000_0100_0000_0100) || args == 0 {
                return None;
            }
            (args, (line >> 40) as u32)
        }
    };
    if limits.args_max < 9 || limits.bulk_bytes_max < 999 {
        return None;
    }
    let mut head = [Span { start: 8, len: name }, Span::default(), Span::default()];
    let mut at = behind_crlf(bytes, 8 + name as usize)?;
    if args > 1 {
        (head[1], at) = short_bulk(bytes, at)?;
    }
    if args > 2 {
        (head[2], at) = short_bulk(bytes, at)?;
        for _ in 3..args {
            (_, at) = short_bulk(bytes, at)?;
        }
    }
    // Nine arguments below 1000 bytes are not long.
    Some(Request { len: at as u64, args, form: Form::Ordinary, head })
}

/// The argument that begins at `at`, if it is whole and below 1000 bytes: its span, and where its CRLF ends.
#[inline(always)]
pub(crate) fn short_bulk(bytes: &[u8], at: usize) -> Option<(Span, usize)> {
    let (len, line) = short_bulk_line(bytes.get(at..)?)?;
    // Callers that keep the start look at the first 9 KiB only, so it fits.
    let span = Span { start: (at + line) as u32, len };
    Some((span, behind_crlf(bytes, at + line + len as usize)?))
}

/// Where the `\r\n` ends that stands at `at`.
#[inline(always)]
pub(crate) fn behind_crlf(bytes: &[u8], at: usize) -> Option<usize> {
    // One comparison with the length: `at` is below 2^33, so the compiler knows that two bytes are there.
    (bytes.get(..at + 2)?.last_chunk::<2>()? == b"\r\n").then_some(at + 2)
}

/// A `$N\r\n` line of one to three digits: the number, and the line's bytes.
#[inline(always)]
fn short_bulk_line(bytes: &[u8]) -> Option<(u32, usize)> {
    let [word @ .., fifth, sixth] = *bytes.first_chunk::<ARG_BYTES_MIN>()?;
    let word = u32::from_le_bytes(word);
    let single = word ^ u32::from_le_bytes(*b"$0\r\n");
    if is_digits_32(single, 0x0000_0100) {
        return Some((single >> 8, 4));
    }
    match bulk_digits(word)? {
        (len, 2) => (fifth == b'\n').then_some((len, 5)),
        (len, _) => ([fifth, sixth] == *b"\r\n").then_some((len, 6)),
    }
}

/// The form of a request that is neither nothing nor a line for people.
fn form(len: u64, args: u32) -> Form {
    match len >= LONG_FRAME_BYTES || args >= LONG_FRAME_ELEMENTS {
        true => Form::Long,
        false => Form::Ordinary,
    }
}

/// The line of `*N`: the number of arguments (0 for none and for negative ones) and the line's bytes with
/// both bytes of its end. `None`: unfinished.
fn count_line(bytes: &[u8], limits: &RequestLimits) -> Result<Option<(u32, usize)>, RequestError> {
    let Some((line, behind)) = header(bytes, limits, RequestError::MultibulkCountTooBig)? else {
        return Ok(None);
    };
    if behind != b'\n' {
        return Err(RequestError::InvalidCrlf);
    }
    let count = line.get(1..).and_then(parse_i64).unwrap_or(i64::MAX);
    if count > i64::from(limits.args_max) {
        return Err(RequestError::InvalidMultibulkLength);
    }
    if !limits.authenticated && count > i64::from(UNAUTHENTICATED_ARGS_MAX) {
        return Err(RequestError::UnauthenticatedMultibulkLength);
    }
    // Within 0 and `args_max`, which is 32 bits wide.
    Ok(Some((count.max(0) as u32, line.len() + 2)))
}

/// The line of `$N`: the argument's bytes, and the line's with both bytes of its end. `None`: unfinished.
fn bulk_line(bytes: &[u8], limits: &RequestLimits) -> Result<Option<(u64, usize)>, RequestError> {
    let Some((line, behind)) = header(bytes, limits, RequestError::BulkCountTooBig)? else {
        return Ok(None);
    };
    let digits = match line {
        [b'$', digits @ ..] => digits,
        [other, ..] => return Err(RequestError::ExpectedDollar(*other)),
        // The line is empty: the byte that stands where a `$` should is its `\r`.
        [] => return Err(RequestError::ExpectedDollar(b'\r')),
    };
    if behind != b'\n' {
        return Err(RequestError::InvalidCrlf);
    }
    let len = parse_i64(digits).and_then(|len| u64::try_from(len).ok());
    match len {
        Some(len) if len <= limits.bulk_bytes_max.min(BULK_BYTES_CEILING) => {
            if !limits.authenticated && len > UNAUTHENTICATED_BULK_BYTES_MAX {
                return Err(RequestError::UnauthenticatedBulkLength);
            }
            Ok(Some((len, line.len() + 2)))
        }
        _ => Err(RequestError::InvalidBulkLength),
    }
}

/// The bytes before a line's `\r` and the byte behind it, once that is there; `too_big` if the end does not come.
///
/// An unfinished line is searched again from its beginning each time. A peer that sends it byte by byte costs
/// at most one pass over 64 KiB per read, as in Redis; remembering how far one has looked would save that
/// and add a state that could be wrong.
#[inline]
fn header<'a>(
    bytes: &'a [u8],
    limits: &RequestLimits,
    too_big: RequestError,
) -> Result<Option<(&'a [u8], u8)>, RequestError> {
    match line_end(bytes, b'\r', limits) {
        Some(end) => Ok(bytes.get(..end).zip(bytes.get(end + 1).copied())),
        None if bytes.len() > limits.inline_bytes_max => Err(too_big),
        None => Ok(None),
    }
}

/// Where the line ends as C's `strchr` sees it: not behind a NUL. Not behind the bound either.
#[inline]
fn line_end(bytes: &[u8], end: u8, limits: &RequestLimits) -> Option<usize> {
    let window = bytes.len().min(limits.inline_bytes_max.saturating_add(1));
    let window = bytes.get(..window)?;
    let found = memchr2(end, 0, window)?;
    window.get(found).filter(|byte| **byte == end).map(|_| found)
}

/// A request typed by a person, or by a load balancer's health check: one line.
fn scan_inline(bytes: &[u8], limits: &RequestLimits) -> Result<Scan<Request>, RequestError> {
    let Some(end) = line_end(bytes, b'\n', limits) else {
        if bytes.len() > limits.inline_bytes_max {
            return Err(RequestError::InlineTooBig);
        }
        return Ok(Scan::Partial { consumed: 0 });
    };
    let args = inline::count(bytes.get(..=end).unwrap_or(&[]))?;
    let (len, head) = (end as u64 + 1, [Span::default(); HEAD_ARGS]);
    let frame = Request { len, args, form: Form::Inline, head };
    Ok(Scan::Complete { consumed: end + 1, frame })
}

/// The arguments of one complete request that is not inline, in order.
///
/// On bytes that are no complete request it ends early; it never panics and never reads outside.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Args<'a> {
    /// `frame` is the whole request, as [`RequestScanner`] found it.
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Self {
        match numbered_line(frame, b'*') {
            Some((count, rest)) => Self { rest, left: u32::try_from(count).unwrap_or(0) },
            None => Self { rest: &[], left: 0 },
        }
    }

    /// How many arguments are still announced. On a complete request exactly as many follow.
    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let head = match short_bulk_line(self.rest) {
            Some((len, line)) => self.rest.get(line..).map(|rest| (i64::from(len), rest)),
            None => numbered_line(self.rest, b'$'),
        };
        let arg = head.and_then(|(len, rest)| {
            let (arg, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            Some((arg, rest.get(2..)?))
        });
        match arg {
            Some((arg, rest)) => {
                self.rest = rest;
                Some(arg)
            }
            None => {
                self.left = 0;
                None
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Garbage may end early, so nothing is promised but the most there can be: six bytes each.
        (0, Some((self.left as usize).min(self.rest.len() / ARG_BYTES_MIN)))
    }
}

/// A line of `kind` and a number: that number, and what follows the line.
#[inline]
fn numbered_line(bytes: &[u8], kind: u8) -> Option<(i64, &[u8])> {
    let (first, text) = bytes.split_first()?;
    if *first != kind {
        return None;
    }
    // Numbers have at most 20 bytes, so the end is looked for there only.
    let end = text.iter().take(21).position(|byte| *byte == b'\r')?;
    let (number, rest) = text.split_at_checked(end)?;
    Some((parse_i64(number)?, rest.get(2..)?))
}
