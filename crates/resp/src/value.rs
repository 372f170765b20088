//! A reply as a tree, for the slow path: answers to the proxy's own commands, and tests.
//!
//! Text is borrowed; only the lists are allocated. It is not for replies that pass through: those are never
//! looked into. Attributes are read and dropped, since no command of the proxy's own asks for them, and
//! streamed forms (which no server sends today) come out as their plain ones, except that a streamed string
//! has no contiguous text to borrow and is [`ReplyError::UnexpectedByte`] here.
//!
//! Invariant: what [`parse`] takes, [`crate::ReplyScanner`] with default limits takes too, with the same
//! length. Nothing is allocated for a length that is only announced.

use alloc::vec::Vec;

use crate::error::ReplyError;
use crate::limits::{ReplyLimits, VALUE_DEPTH_MAX};
use crate::number::parse_i64;
use crate::reply::ReplyScanner;
use crate::scan::Scan;

/// One reply, borrowing its text from the bytes it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `+text`
    Simple(&'a [u8]),
    /// `-CODE text`, without the `-`
    Error(&'a [u8]),
    /// `:n`
    Integer(i64),
    /// `$n`
    Bulk(&'a [u8]),
    /// `_`, `$-1` or `*-1`
    Null,
    /// `,text`, as the server wrote it
    Double(&'a [u8]),
    /// `#t` or `#f`
    Bool(bool),
    /// `=n`
    Verbatim {
        /// Three letters, `txt` or `mkd`.
        format: [u8; 3],
        /// What follows the colon.
        text: &'a [u8],
    },
    /// `(digits`
    BigNumber(&'a [u8]),
    /// `!n`
    BulkError(&'a [u8]),
    /// `*n`
    Array(Vec<Self>),
    /// `%n`, in the server's order
    Map(Vec<(Self, Self)>),
    /// `~n`
    Set(Vec<Self>),
    /// `>n`
    Push(Vec<Self>),
}

impl<'a> Value<'a> {
    /// The text of a simple, bulk or verbatim string; `None` for anything else, errors included.
    #[must_use]
    pub fn as_text(&self) -> Option<&'a [u8]> {
        match self {
            Self::Simple(text) | Self::Bulk(text) | Self::Verbatim { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The text of an error of either form.
    #[must_use]
    pub fn as_error(&self) -> Option<&'a [u8]> {
        match self {
            Self::Error(text) | Self::BulkError(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of an array, set or push.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::Array(list) | Self::Set(list) | Self::Push(list) => Some(list),
            _ => None,
        }
    }
}

/// The first reply in `bytes` and its length; `None` if it is not complete.
///
/// # Errors
/// What [`ReplyScanner`] with default limits refuses, nesting beyond [`VALUE_DEPTH_MAX`], a verbatim string without
/// its colon, and a streamed string.
pub fn parse(bytes: &[u8]) -> Result<Option<(Value<'_>, usize)>, ReplyError> {
    parse_within(bytes, usize::MAX)
}

/// The same of a reply with no more than `values_max` values, its own and those of attributes among them.
///
/// # Errors
/// Those of [`parse`], and [`ReplyError::TooManyValues`].
pub fn parse_within(
    bytes: &[u8],
    values_max: usize,
) -> Result<Option<(Value<'_>, usize)>, ReplyError> {
    // The scanner goes first: it bounds depth and lengths, so that the recursion below meets only what is
    // complete, and a reply of a million announced and three present elements allocates nothing.
    let limits = ReplyLimits { depth_max: VALUE_DEPTH_MAX, ..ReplyLimits::default() };
    let mut scanner = ReplyScanner::with_limits(limits);
    let Scan::Complete { consumed, .. } = scanner.scan(bytes)? else { return Ok(None) };
    let rest = bytes.get(..consumed).unwrap_or(bytes);
    let mut reader = Reader { rest, depth: 0, left: values_max };
    let value = reader.value()?;
    Ok(Some((value, consumed)))
}

/// Walks one frame that is known to be complete.
struct Reader<'a> {
    rest: &'a [u8],
    depth: usize,
    /// So many values more may come.
    left: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<Value<'a>, ReplyError> {
        self.left = self.left.checked_sub(1).ok_or(ReplyError::TooManyValues)?;
        let (kind, line) = loop {
            match self.line()? {
                // A loop, since a server may put any number of attributes before one value.
                (b'|', line) => drop(self.pairs(line)?),
                other => break other,
            }
        };
        Ok(match kind {
            b'+' => Value::Simple(line),
            b'-' => Value::Error(line),
            b',' => Value::Double(line),
            b'(' => Value::BigNumber(line),
            b'_' => Value::Null,
            b'#' => Value::Bool(line == b"t"),
            b':' => Value::Integer(parse_i64(line).ok_or(ReplyError::BadInteger)?),
            b'$' | b'*' if line == b"-1" => Value::Null,
            b'$' => Value::Bulk(self.payload(line)?),
            b'!' => Value::BulkError(self.payload(line)?),
            b'=' => verbatim(self.payload(line)?)?,
            b'*' => Value::Array(self.list(line)?),
            b'~' => Value::Set(self.list(line)?),
            b'>' => Value::Push(self.list(line)?),
            b'%' => Value::Map(self.pairs(line)?),
            other => return Err(ReplyError::UnexpectedByte(other)),
        })
    }

    /// The next line: its first byte and what lies between that and its `\r\n`.
    fn line(&mut self) -> Result<(u8, &'a [u8]), ReplyError> {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n");
        let (line, rest) = end
            .and_then(|end| self.rest.split_at_checked(end + 2))
            .ok_or(ReplyError::BadLineEnd)?;
        self.rest = rest;
        match line {
            [kind, text @ .., b'\r', b'\n'] => Ok((*kind, text)),
            _ => Err(ReplyError::BadLineEnd),
        }
    }

    fn payload(&mut self, line: &[u8]) -> Result<&'a [u8], ReplyError> {
        if line == b"?" {
            return Err(ReplyError::UnexpectedByte(b'?'));
        }
        let len = usize::try_from(length(line)?).map_err(|_| ReplyError::BadLength)?;
        let (payload, rest) = self.rest.split_at_checked(len).ok_or(ReplyError::BadLength)?;
        self.rest = rest.strip_prefix(b"\r\n").ok_or(ReplyError::BadLineEnd)?;
        Ok(payload)
    }

    fn list(&mut self, line: &[u8]) -> Result<Vec<Value<'a>>, ReplyError> {
        let mut list = Vec::new();
        self.each(line, |reader| {
            list.push(reader.value()?);
            Ok(())
        })?;
        Ok(list)
    }

    fn pairs(&mut self, line: &[u8]) -> Result<Vec<(Value<'a>, Value<'a>)>, ReplyError> {
        let mut list = Vec::new();
        self.each(line, |reader| {
            list.push((reader.value()?, reader.value()?));
            Ok(())
        })?;
        Ok(list)
    }

    /// Calls `read` once for each element (or pair) that `line` announces.
    fn each(
        &mut self,
        line: &[u8],
        mut read: impl FnMut(&mut Self) -> Result<(), ReplyError>,
    ) -> Result<(), ReplyError> {
        // The scanner has bounded the depth already; this keeps the recursion safe by itself.
        self.depth += 1;
        if self.depth > VALUE_DEPTH_MAX {
            return Err(ReplyError::TooDeep);
        }
        if line == b"?" {
            while !self.rest.starts_with(b".") {
                read(self)?;
            }
            self.line()?;
        } else {
            for _ in 0..length(line)? {
                read(self)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

fn verbatim(payload: &[u8]) -> Result<Value<'_>, ReplyError> {
    match payload {
        [a, b, c, b':', text @ ..] => Ok(Value::Verbatim { format: [*a, *b, *c], text }),
        _ => Err(ReplyError::BadVerbatim),
    }
}

fn length(line: &[u8]) -> Result<u64, ReplyError> {
    parse_i64(line).and_then(|len| u64::try_from(len).ok()).ok_or(ReplyError::BadLength)
}
