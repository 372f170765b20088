//! One connection of the io_uring driver: its socket, what the kernel does for it, and what waits on either side.
//!
//! ```text
//!   kernel ─▶ kept ─▶ Received          what came after receiving was stopped, or more than one wait may tell
//!   kernel ◀─ flight ◀─ out ◀─ send     copies of small buffers, given back at once
//!                      ◀─ held ◀─ send  one large buffer, or one that must wait; told by Sent
//! ```
//!
//! Not here: the ring and the events; the parent pushes what [`Conn::wants_recv`] and its like ask for.
//!
//! Invariant: bytes go out in the order flight, `out`, `held`, and come in in the order `kept`, kernel, `end`; a later stage moves
//! only when the earlier ones are empty.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::driver::{ConnId, Token};

/// What the kernel does about receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// Nothing.
    Idle,
    /// It receives into buffers of this kind.
    Armed(Buffers),
    /// It was told to stop, and the last completion has not come.
    Stopping,
}

/// What the kernel watches beside receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Nothing.
    Idle,
    /// The end of a connect, or an error.
    Armed,
    /// Nothing, as it would tell of a hang-up again and again, until receiving is armed.
    Parked,
}

/// How the stream from the peer ends, found and not yet told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Eof,
    Broken(Errno),
}

/// Buffers that a receive takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Buffers {
    /// One small one, for a connection of which nothing is known: whoever begins with bulk would else have all that its socket holds kept here, whether
    /// it is read or not.
    #[default]
    First,
    /// Small ones, again and again: the kernel goes on by itself.
    Small,
    /// One large one. Small ones fill in bulk so fast that they run out.
    Large,
}

/// Which buffers suit a connection, by what came lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    pub(super) buffers: Buffers,
    /// Receives in a row that speak for small ones, or for large ones.
    little: u8,
    much: u8,
}

impl Sizes {
    /// So much came at once. Returns whether other buffers suit from now on.
    pub(super) fn note(&mut self, much: bool) -> bool {
        (self.little, self.much) = match much {
            true => (0, self.much.saturating_add(1)),
            false => (self.little.saturating_add(1), 0),
        };
        let suits = match self.buffers {
            Buffers::First if self.little >= TALK_AFTER => Buffers::Small,
            Buffers::Large if self.little >= SMALL_AFTER => Buffers::Small,
            Buffers::First | Buffers::Small if self.much >= LARGE_AFTER => Buffers::Large,
            same => same,
        };
        core::mem::replace(&mut self.buffers, suits) != suits
    }
}

/// A connection with a socket.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) fd: OwnedFd,
    pub(super) token: Token,
    /// The connect has begun and its outcome is not known.
    pub(super) connecting: bool,
    /// The caller wants to receive.
    pub(super) recv_on: bool,
    /// The end of the peer's stream was told.
    pub(super) eof: bool,
    pub(super) receiving: Receiving,
    pub(super) watch: Watch,
    pub(super) sizes: Sizes,
    /// Received and not told; those before `kept_from` were.
    kept: Vec<u8>,
    kept_from: usize,
    /// Follows `kept`.
    pub(super) end: Option<End>,
    /// Copies that the kernel has not got.
    pub(super) out: Vec<u8>,
    /// A buffer of the caller that the kernel has not got whole, and how much of it it has.
    pub(super) held: Option<(Vec<u8>, usize)>,
    /// The send that the kernel has.
    pub(super) flight: Option<ConnId>,
    /// An error that a send found and that was not told yet.
    pub(super) failed: Option<Errno>,
    /// It is on the list of those whose operations must be looked at.
    pub(super) is_dirty: bool,
    /// It is on the list of those that have something to tell.
    pub(super) is_ready: bool,
    /// The round of the driver in which it told something last, and how many bytes.
    round: u64,
    told_bytes: usize,
}

impl Conn {
    /// A connected socket that is to be received from.
    pub(super) fn open(fd: OwnedFd, token: Token) -> Self {
        Self {
            fd,
            token,
            connecting: false,
            recv_on: true,
            eof: false,
            receiving: Receiving::Idle,
            watch: Watch::Idle,
            sizes: Sizes::default(),
            kept: Vec::new(),
            kept_from: 0,
            end: None,
            out: Vec::new(),
            held: None,
            flight: None,
            failed: None,
            is_dirty: false,
            is_ready: false,
            round: 0,
            told_bytes: 0,
        }
    }

    /// A socket whose connect has begun.
    pub(super) fn connecting(fd: OwnedFd, token: Token) -> Self {
        let mut conn = Self::open(fd, token);
        conn.connecting = true;
        conn
    }

    /// Whether bytes are wanted and can still come.
    pub(super) const fn reads(&self) -> bool {
        self.recv_on && !self.eof && !self.connecting
    }

    /// Whether the kernel should receive: not while something waits to be told, which bounds what is kept.
    pub(super) const fn wants_recv(&self) -> bool {
        self.reads() && !self.has_kept() && self.end.is_none() && self.failed.is_none()
    }

    /// Whether a break of the connection would go unnoticed otherwise.
    pub(super) const fn wants_watch(&self) -> bool {
        self.connecting || (!self.wants_recv() && self.failed.is_none())
    }

    /// Whether something waits that may be told now.
    pub(super) const fn has_to_tell(&self) -> bool {
        self.reads() && (self.has_kept() || self.end.is_some())
    }

    pub(super) const fn has_kept(&self) -> bool {
        self.kept_from < self.kept.len()
    }

    /// Whether bytes that come now must wait: for their turn, or as enough was told in this round.
    pub(super) fn must_keep(&mut self, round: u64) -> bool {
        if self.round != round {
            (self.round, self.told_bytes) = (round, 0);
        }
        !self.reads() || self.has_kept() || self.told_bytes >= TOLD_BYTES_MAX
    }

    /// So many bytes were told in this round.
    pub(super) const fn note_told(&mut self, bytes: usize) {
        self.told_bytes += bytes;
    }

    /// Keeps bytes for later.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// What was kept, in pieces of bounded length; [`Conn::told_kept`] takes it away.
    pub(super) fn kept_piece(&self) -> &[u8] {
        let kept = &self.kept[self.kept_from..];
        &kept[..kept.len().min(TOLD_BYTES_MAX)]
    }

    /// So many bytes of what was kept were told.
    pub(super) fn told_kept(&mut self, bytes: usize) {
        self.kept_from += bytes;
        if !self.has_kept() {
            // Its memory goes, too: that something is kept is rare.
            (self.kept, self.kept_from) = (Vec::new(), 0);
        }
    }

    /// Takes a small buffer over by a copy, if nothing is in front of it that does not move.
    ///
    /// `spare` has memory for it: a connection that has nothing to send keeps none.
    pub(super) fn copy(&mut self, buf: &[u8], spare: &mut Vec<Vec<u8>>) -> bool {
        let fits = self.out.len() + buf.len() <= COPY_BYTES_MAX;
        if !fits || self.connecting || self.flight.is_some() || self.failed.is_some() {
            return false;
        }
        if self.out.capacity() == 0 {
            self.out = spare.pop().unwrap_or_default();
        }
        self.out.extend_from_slice(buf);
        true
    }

    /// Sends what was copied by a system call of its own. Returns whether all is out.
    pub(super) fn send_copied(&mut self) -> Result<bool, Errno> {
        if self.out.is_empty() {
            return Ok(true);
        }
        let sent = try_send(&self.fd, &self.out)?;
        self.out.drain(..sent);
        Ok(self.out.is_empty())
    }

    /// Sends a buffer by a system call of its own, behind what was copied. Gives it back if all is out; otherwise it is held.
    pub(super) fn send_large(&mut self, buf: Vec<u8>) -> Result<Option<Vec<u8>>, Errno> {
        debug_assert!(self.held.is_none(), "one send at a time");
        let blocked = self.connecting || self.failed.is_some() || self.flight.is_some();
        let sent = match !blocked && self.send_copied()? {
            true => try_send(&self.fd, &buf)?,
            false => 0,
        };
        if sent == buf.len() {
            return Ok(Some(buf));
        }
        self.held = Some((buf, sent));
        Ok(None)
    }

    /// One receive by a system call of its own. `None` where there is nothing, or nothing more.
    pub(super) fn receive_now(&self, buf: &mut [u8]) -> Option<usize> {
        recv(&self.fd, buf, RecvFlags::DONTWAIT)
            .ok()
            .map(|(_, count)| count)
            .filter(|count| *count > 0)
    }
}

/// One send; 0 when there is no room.
fn try_send(fd: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    // Without NOSIGNAL a broken connection would kill the process by SIGPIPE.
    match send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        done => done,
    }
}

/// Most that is copied for a connection. A copy of 4 KiB takes some 40 ns, of 64 KiB a microsecond; a send takes five.
pub(super) const COPY_BYTES_MAX: usize = 16 << 10;

/// Most that a connection tells in one round, but for the buffer that reaches it. Whoever wants it to stop can say so only between two waits.
const TOLD_BYTES_MAX: usize = 64 << 10;

/// Full small buffers in a row that make a connection one of large ones.
const LARGE_AFTER: u8 = 2;

/// Receives in a row that do not fill a small buffer, and that make a new connection one of small ones.
const TALK_AFTER: u8 = 4;

/// Receives in a row that a small buffer would have held, and that make it one of small ones again.
const SMALL_AFTER: u8 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_gets_large_buffers_and_talk_small_ones_again() {
        let mut sizes = Sizes::default();
        // One full buffer may be chance.
        assert!(!sizes.note(true) && !sizes.note(false) && !sizes.note(true));
        assert!(sizes.note(true) && sizes.buffers == Buffers::Large);
        for _ in 0..100 {
            // A last short piece of each value does not count for talk.
            assert!(!sizes.note(true) && !sizes.note(false));
        }
        let changed = (0..40).position(|_| sizes.note(false));
        assert_eq!(changed, Some(usize::from(SMALL_AFTER) - 2), "one had come before");
        assert_eq!(sizes.buffers, Buffers::Small);
    }

    #[test]
    fn a_new_connection_gets_one_small_buffer_until_it_talks() {
        let mut sizes = Sizes::default();
        let changed = (0..9).position(|_| sizes.note(false));
        assert_eq!((changed, sizes.buffers), (Some(usize::from(TALK_AFTER) - 1), Buffers::Small));
        let mut sizes = Sizes::default();
        let changed = (0..9).position(|_| sizes.note(true));
        assert_eq!((changed, sizes.buffers), (Some(usize::from(LARGE_AFTER) - 1), Buffers::Large));
    }
}
