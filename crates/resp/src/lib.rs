//! RESP2 and RESP3 as bytes: find where a frame ends, look at its arguments, write replies.
//!
//! What it is: resumable scanners ([`RequestScanner`] for what clients send, [`ReplyScanner`] for what
//! servers send), borrowed views ([`Args`], [`Value`]), and writers ([`encode`]). The data path never builds
//! a tree: it learns how long a frame is and forwards the bytes as they lie.
//!
//! What it is not: it does no IO, keeps no payload, knows no command and no time. It says what a protocol
//! error is called ([`RequestError`], [`ReplyError`]), not what happens to the connection afterwards.
//!
//! The one invariant: **any chunking of a stream gives the same frames and the same error.** A frame's bytes
//! are forwarded verbatim, so the end that [`RequestScanner`] finds must be the end that the server finds;
//! a difference would let a client smuggle a request into another client's stream.
//!
//! Where to read next: `request` for the hot path and for the rules taken from Redis' `networking.c`;
//! `reply` for the RESP3 types; `naive` for the same rules written as slowly and plainly as possible.
//! All bounds are in [`limits`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod encode;
pub mod error;
pub mod inline;
pub mod like;
pub mod limits;
pub mod number;
pub mod protocol;
pub mod reply;
pub mod request;
pub mod scan;
pub mod value;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod naive;
#[cfg(test)]
mod tests;

pub use error::{ReplyError, RequestError};
pub use like::{Alike, Like};
pub use limits::{ReplyLimits, RequestLimits};
pub use protocol::Protocol;
pub use reply::{LongReply, ReplyScanner};
pub use request::{Args, Form, HEAD_ARGS, Request, RequestScanner, Span};
pub use scan::Scan;
pub use value::Value;
