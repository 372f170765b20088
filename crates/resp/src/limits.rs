//! Every bound of this crate, with what happens there.
//!
//! The figures of requests are those of Redis 7.2 to 8 and Valkey 8 (`server.h`: `PROTO_INLINE_MAX_SIZE`,
//! `proto_max_bulk_len`; `networking.c`: `processMultibulkBuffer`). Those of replies are ours: a server is
//! trusted more than a client, and a scanner that keeps no payload needs bounds only to notice nonsense.
//! This module does not enforce anything; the scanners do.
//!
//! Invariant: no bound here lets a scanner's own memory grow with what the peer sends.

/// Longest line that may stay unfinished: an inline request, a `*N` or a `$N` line. Bytes.
/// Behind it the request is refused with a `too big …` error. `PROTO_INLINE_MAX_SIZE` of Redis.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Longest argument of a request by default, bytes: `proto-max-bulk-len` of Redis, 512 MiB.
/// A longer one is refused with `invalid bulk length` as soon as it is announced.
pub const BULK_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Ceiling of [`RequestLimits::bulk_bytes_max`], 1 GiB: a larger setting counts as this one.
/// It keeps the first [`crate::HEAD_ARGS`] arguments within the 32 bits of a [`crate::Span`].
pub const BULK_BYTES_CEILING: u64 = 1024 * 1024 * 1024;

/// Most arguments of a request: `INT_MAX`, as in Redis since 7.0.
/// More are refused with `invalid multibulk length`.
pub const ARGS_MAX: u32 = i32::MAX as u32;

/// Most arguments before authentication; more are refused with `unauthenticated multibulk length`.
pub const UNAUTHENTICATED_ARGS_MAX: u32 = 10;

/// Longest argument before authentication, bytes; a longer one is refused with `unauthenticated bulk length`.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: u64 = 16_384;

/// Deepest nesting of a reply by default. The deepest reply of Redis itself (`COMMAND DOCS`) stays below 10, but a Lua
/// script may nest until Lua's own stack of 8000 places is full, and the others on its connection must not suffer from
/// that. A deeper one is [`crate::ReplyError::TooDeep`].
pub const REPLY_DEPTH_MAX: usize = 8_192;

/// Levels of a reply whose memory a scanner keeps for the next one; more is given back at the reply's end.
pub const REPLY_LEVELS_KEPT_MAX: usize = 64;

/// Deepest nesting of a reply that is read into a tree ([`crate::value::parse`]), which recurses. Only replies of known
/// commands are.
pub const VALUE_DEPTH_MAX: usize = 32;

/// Longest line that carries a number or a flag in a reply (`$N`, `:N`, `#t` …), bytes, with its `\r`.
/// Twenty digits and a sign fit easily; a longer one is [`crate::ReplyError::LineTooLong`].
pub const REPLY_HEADER_BYTES_MAX: usize = 32;

/// Longest free text line of a reply by default (`+ - , (`), bytes. Redis itself sets no bound (a script may
/// return a long status), and the line streams through, so it is as generous as a bulk's.
/// A longer one is [`crate::ReplyError::LineTooLong`].
pub const REPLY_LINE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Longest bulk of a reply by default, bytes. `proto-max-bulk-len` can be raised in a server, hence above
/// 512 MiB. A longer one is [`crate::ReplyError::BadLength`].
pub const REPLY_BULK_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// From so many bytes on a frame is called long ([`crate::Form::Long`], [`crate::LongReply`]). Whatever the scanners' short ways find
/// is below it: nine bulks of 999 bytes.
pub const LONG_FRAME_BYTES: u64 = 9 << 10;

/// From so many arguments or elements on it is, too.
pub const LONG_FRAME_ELEMENTS: u32 = 1_000;

/// Bounds of one client's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Longest argument, bytes (default [`BULK_BYTES_MAX`], at most [`BULK_BYTES_CEILING`]).
    pub bulk_bytes_max: u64,
    /// Most arguments (default [`ARGS_MAX`]).
    pub args_max: u32,
    /// Longest unfinished line, bytes (default [`INLINE_BYTES_MAX`]).
    pub inline_bytes_max: usize,
    /// Whether the client may send more than [`UNAUTHENTICATED_ARGS_MAX`] arguments and longer ones than
    /// [`UNAUTHENTICATED_BULK_BYTES_MAX`]. Default true.
    pub authenticated: bool,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            bulk_bytes_max: BULK_BYTES_MAX,
            args_max: ARGS_MAX,
            inline_bytes_max: INLINE_BYTES_MAX,
            authenticated: true,
        }
    }
}

/// Bounds of one server's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimits {
    /// Deepest nesting; a flat array has depth 1 (default [`REPLY_DEPTH_MAX`]).
    pub depth_max: usize,
    /// Longest free text line, bytes (default [`REPLY_LINE_BYTES_MAX`]).
    pub line_bytes_max: u64,
    /// Longest bulk, and longest chunk of a streamed string, bytes (default [`REPLY_BULK_BYTES_MAX`]).
    pub bulk_bytes_max: u64,
}

impl Default for ReplyLimits {
    fn default() -> Self {
        Self {
            depth_max: REPLY_DEPTH_MAX,
            line_bytes_max: REPLY_LINE_BYTES_MAX,
            bulk_bytes_max: REPLY_BULK_BYTES_MAX,
        }
    }
}
