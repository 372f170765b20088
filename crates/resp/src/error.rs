//! What can be wrong with the bytes of a client or of a server.
//!
//! [`RequestError`] is the client's fault and has the exact words that Redis answers with before it closes
//! the connection (`networking.c` of Redis 7.2 and 8, Valkey 8: `setProtocolError`). [`ReplyError`] is the
//! server's fault; no client ever reads it in these words, it goes to logs and counters.
//! This module decides nothing about the connection: both errors mean that it cannot be used further.
//!
//! Invariant: [`RequestError::write_reply`] writes one complete RESP error line, whatever the client sent.

use alloc::vec::Vec;
use core::fmt;

use crate::encode;

/// A request that Redis refuses as a protocol error. The connection is to be answered and closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The number behind `*` is none, or above the most arguments allowed.
    InvalidMultibulkLength,
    /// The number behind `$` is none, negative, or above the longest argument allowed.
    InvalidBulkLength,
    /// An argument does not begin with `$` but with this byte.
    ExpectedDollar(u8),
    /// An inline request with an open quote, or with a letter right behind a closing one.
    UnbalancedQuotes,
    /// An inline request whose line does not end within the bound.
    InlineTooBig,
    /// A `*N` line that does not end within the bound.
    MultibulkCountTooBig,
    /// A `$N` line that does not end within the bound.
    BulkCountTooBig,
    /// A `*N` or `$N` line, or an argument, does not end in `\r\n` (Valkey since 8.1).
    InvalidCrlf,
    /// More than ten arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// An argument above 16 384 bytes before authentication.
    UnauthenticatedBulkLength,
}

impl RequestError {
    /// Appends the error reply that Redis sends for it, `-ERR Protocol error: …\r\n`.
    pub fn write_reply(&self, out: &mut Vec<u8>) {
        let mut text = Vec::with_capacity(64);
        text.extend_from_slice(b"ERR Protocol error: ");
        match self {
            // The byte goes out raw as C's `%c` does; `encode::error` makes a CR or LF a space, as Redis does.
            Self::ExpectedDollar(byte) => {
                text.extend_from_slice(b"expected '$', got '");
                text.push(*byte);
                text.push(b'\'');
            }
            other => text.extend_from_slice(other.cause().as_bytes()),
        }
        encode::error(out, &text);
    }

    /// What is wrong, in Redis' words and without the byte of [`Self::ExpectedDollar`].
    /// Constant, so that it can name a counter.
    #[must_use]
    pub const fn cause(&self) -> &'static str {
        match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::ExpectedDollar(_) => "expected '$'",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::InlineTooBig => "too big inline request",
            Self::MultibulkCountTooBig => "too big mbulk count string",
            Self::BulkCountTooBig => "too big bulk count string",
            Self::InvalidCrlf => "invalid CRLF in request",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.cause())?;
        match self {
            Self::ExpectedDollar(byte) => write!(f, ", got '{}'", byte.escape_ascii()),
            _ => Ok(()),
        }
    }
}

impl core::error::Error for RequestError {}

/// A reply that is no RESP2 or RESP3. What follows on that connection cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// No type begins with this byte, or none may begin with it here (a `.` outside a streamed aggregate,
    /// something else than `;` inside a streamed string, a `>` behind an attribute).
    UnexpectedByte(u8),
    /// The number of a `$ ! = * % ~ > | ;` line is none, negative (but for the two nulls), or too large.
    BadLength,
    /// The line of a `:` is no 64-bit integer.
    BadInteger,
    /// A `#` line is neither `#t` nor `#f`.
    BadBool,
    /// A `_` or `.` line has something behind that byte.
    BadNull,
    /// A verbatim string without `xxx:` at its beginning.
    BadVerbatim,
    /// A line or a bulk does not end in `\r\n` where it should.
    BadLineEnd,
    /// A line does not end within its bound.
    LineTooLong,
    /// Aggregates nested beyond the bound.
    TooDeep,
    /// More values than are to be read into a tree.
    TooManyValues,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedByte(byte) => {
                return write!(f, "reply: unexpected byte '{}'", byte.escape_ascii());
            }
            Self::BadLength => "reply: bad length",
            Self::BadInteger => "reply: bad integer",
            Self::BadBool => "reply: bad boolean",
            Self::BadNull => "reply: bad null",
            Self::BadVerbatim => "reply: bad verbatim string",
            Self::BadLineEnd => "reply: missing line end",
            Self::LineTooLong => "reply: line too long",
            Self::TooDeep => "reply: nested too deep",
            Self::TooManyValues => "reply: too many values",
        })
    }
}

impl core::error::Error for ReplyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn reply_of(error: RequestError) -> Vec<u8> {
        let mut out = Vec::new();
        error.write_reply(&mut out);
        out
    }

    /// The texts are spelt out here a second time: they are what clients see and match on.
    #[test]
    fn texts_are_those_of_redis() {
        use RequestError::*;
        let expected: [(RequestError, &[u8]); 10] = [
            (InvalidMultibulkLength, b"-ERR Protocol error: invalid multibulk length\r\n"),
            (InvalidBulkLength, b"-ERR Protocol error: invalid bulk length\r\n"),
            (ExpectedDollar(b'x'), b"-ERR Protocol error: expected '$', got 'x'\r\n"),
            (UnbalancedQuotes, b"-ERR Protocol error: unbalanced quotes in request\r\n"),
            (InlineTooBig, b"-ERR Protocol error: too big inline request\r\n"),
            (MultibulkCountTooBig, b"-ERR Protocol error: too big mbulk count string\r\n"),
            (BulkCountTooBig, b"-ERR Protocol error: too big bulk count string\r\n"),
            (InvalidCrlf, b"-ERR Protocol error: invalid CRLF in request\r\n"),
            (
                UnauthenticatedMultibulkLength,
                b"-ERR Protocol error: unauthenticated multibulk length\r\n",
            ),
            (UnauthenticatedBulkLength, b"-ERR Protocol error: unauthenticated bulk length\r\n"),
        ];
        for (error, bytes) in expected {
            assert_eq!(reply_of(error), bytes);
        }
    }

    #[test]
    fn a_newline_as_the_wrong_byte_does_not_break_the_line() {
        assert_eq!(
            reply_of(RequestError::ExpectedDollar(b'\r')),
            b"-ERR Protocol error: expected '$', got ' '\r\n"
        );
        assert_eq!(
            reply_of(RequestError::ExpectedDollar(b'\n')),
            b"-ERR Protocol error: expected '$', got ' '\r\n"
        );
    }

    #[test]
    fn display_escapes_bytes() {
        assert_eq!(
            RequestError::ExpectedDollar(7).to_string(),
            "Protocol error: expected '$', got '\\x07'"
        );
        assert_eq!(ReplyError::UnexpectedByte(b'\n').to_string(), "reply: unexpected byte '\\n'");
    }
}
