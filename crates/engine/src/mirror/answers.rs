//! What a mirror's replies tell: whether something failed, and whether it may have been done all the same.
//!
//! Not here: what becomes of an entry then (`target`).
//!
//! Invariant: a reply is looked at from its first byte on; what a script answered as data is no error.

use crate::command;
use crate::reject;
use crate::trust::speaks_freely;
use alloc::vec::Vec;
use memchr::memmem;
use resp::{Args, ReplyScanner, RequestLimits, RequestScanner, Scan};

/// The error in a reply, or in its begin; in the answer to EXEC that of one of its commands. What a script answered is data.
pub(super) fn error_of(reply: &[u8], is_exec: bool) -> Option<Vec<u8>> {
    match reply.first() {
        Some(b'-') => return Some(reply.to_vec()),
        Some(b'*') if is_exec && reply.windows(3).any(|three| three == b"\r\n-") => {}
        _ => return None,
    }
    let end = reply.iter().position(|byte| *byte == b'\n')? + 1;
    let (mut rest, mut scanner) = (&reply[end..], ReplyScanner::default());
    while let Ok(Scan::Complete { consumed, .. }) = scanner.scan(rest) {
        let (element, after) = rest.split_at(consumed);
        if element.starts_with(b"-") {
            return Some(element.to_vec());
        }
        if after.is_empty() {
            return None;
        }
        rest = after;
    }
    None
}

/// Whether an error says that the servers are not there, or not yet, and not that they refuse what they are asked.
pub(super) fn is_unreached(error: &[u8]) -> bool {
    const WORDS: [&[u8]; 8] = [
        b"-ERR respool: upstream ",
        b"-ERR respool: the primary is not known",
        b"-ERR respool: given up after",
        b"-ERR respool: no connection of its own",
        b"-CLUSTERDOWN ",
        b"-LOADING ",
        b"-MASTERDOWN ",
        b"-READONLY ",
    ];
    WORDS.iter().any(|word| error.starts_with(word)) || error.starts_with(b"-EXECABORT ")
}

/// Whether one of these requests may answer with any error text.
pub(super) fn runs_scripts(requests: &[u8]) -> bool {
    let limits = RequestLimits { bulk_bytes_max: u64::MAX, ..RequestLimits::default() };
    let (mut scanner, mut rest) = (RequestScanner::default(), requests);
    while let Ok(Scan::Complete { consumed, .. }) = scanner.scan(rest, &limits) {
        if speaks_freely(Args::new(&rest[..consumed]).next().and_then(command::lookup)) {
            return true;
        }
        rest = &rest[consumed..];
    }
    false
}

/// Whether something that got this error may have been done all the same.
pub(super) fn may_be_done(error: &[u8]) -> bool {
    let lost = error.starts_with(b"-ERR respool: upstream ");
    let is_unsent = || memmem::find(error, reject::NOT_SENT.as_bytes()).is_some();
    (lost && !is_unsent()) || error.starts_with(b"-ERR respool: given up")
}
