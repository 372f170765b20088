//! One connection of the epoll driver: its socket, what it waits for, and what epoll knows of that.
//!
//! ```text
//!   connect ──► connecting ──OUT──► open ──recv 0──► eof (sends still go)
//!   adopt   ─────────────────────►  open             │
//!                                     └── error ─────┴──► failed ──► told, freed
//! ```
//!
//! Not here: events and the slab; the parent decides what is told.
//!
//! Invariant: `in_flight` is at most one send, and its `sent` bytes are the ones that the kernel took.

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::driver::Token;

/// A connection with a socket.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) fd: OwnedFd,
    pub(super) token: Token,
    /// The connect has begun and its outcome is not known.
    pub(super) connecting: bool,
    /// The caller wants to receive.
    pub(super) recv_on: bool,
    /// The peer has said that nothing more comes.
    pub(super) eof: bool,
    /// The send that the kernel did not take whole.
    pub(super) in_flight: Option<InFlight>,
    /// An error that was found and not told yet.
    pub(super) failed: Option<Errno>,
    /// What epoll watches for; `None` while it does not know the socket.
    registered: Option<EventFlags>,
}

/// A send that is not finished.
#[derive(Debug)]
pub(super) struct InFlight {
    buf: Vec<u8>,
    /// Bytes of `buf` that the kernel has taken.
    sent: usize,
}

/// What one recv brought.
pub(super) enum Read {
    /// That many bytes, at least one.
    Bytes(usize),
    /// The end of the peer's stream.
    End,
    /// Nothing now.
    Nothing,
    /// The connection is broken.
    Broken(Errno),
}

impl Conn {
    /// A connected socket that is to be received from.
    pub(super) const fn open(fd: OwnedFd, token: Token) -> Self {
        Self {
            fd,
            token,
            connecting: false,
            recv_on: true,
            eof: false,
            in_flight: None,
            failed: None,
            registered: None,
        }
    }

    /// A socket whose connect has begun.
    pub(super) const fn connecting(fd: OwnedFd, token: Token) -> Self {
        let mut conn = Self::open(fd, token);
        conn.connecting = true;
        conn
    }

    /// Whether bytes are wanted and can still come.
    pub(super) const fn reads(&self) -> bool {
        self.recv_on && !self.eof && !self.connecting
    }

    /// What epoll should watch for.
    fn interest(&self) -> EventFlags {
        if self.connecting {
            // A finished connect, good or bad, makes the socket writable.
            return EventFlags::OUT;
        }
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, self.reads());
        interest.set(EventFlags::OUT, self.in_flight.is_some());
        interest
    }

    /// Tells epoll if the interest has changed. A parked connection that waits for nothing stays out.
    pub(super) fn sync(&mut self, epoll: &OwnedFd, data: EventData) -> Result<(), Errno> {
        let interest = self.interest();
        match self.registered {
            Some(registered) if registered == interest => return Ok(()),
            Some(_) => epoll::modify(epoll, &self.fd, data, interest)?,
            None if interest.is_empty() => return Ok(()),
            None => epoll::add(epoll, &self.fd, data, interest)?,
        }
        self.registered = Some(interest);
        Ok(())
    }

    /// Takes the socket out of epoll, which would otherwise report its hang-up for ever.
    pub(super) fn park(&mut self, epoll: &OwnedFd) {
        // It is registered, so this cannot fail; if it did, the caller would come here again.
        if epoll::delete(epoll, &self.fd).is_ok() {
            self.registered = None;
        }
    }

    /// One recv into `buf`.
    pub(super) fn receive(&self, buf: &mut [u8]) -> Read {
        match recv(&self.fd, buf, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Read::End,
            Ok((_, count)) => Read::Bytes(count),
            Err(Errno::AGAIN | Errno::INTR) => Read::Nothing,
            Err(error) => Read::Broken(error),
        }
    }

    /// Sends `buf` and gives it back if the kernel took it whole; otherwise it is in flight. During a
    /// connect it waits for the outcome.
    pub(super) fn send(&mut self, buf: Vec<u8>) -> Result<Option<Vec<u8>>, Errno> {
        debug_assert!(self.in_flight.is_none(), "one send at a time");
        let sent = match self.connecting || self.failed.is_some() {
            true => 0,
            false => self.try_send(&buf)?,
        };
        if sent == buf.len() {
            return Ok(Some(buf));
        }
        self.in_flight = Some(InFlight { buf, sent });
        Ok(None)
    }

    /// Goes on with the send in flight, and gives its buffer back when it is out.
    pub(super) fn send_rest(&mut self) -> Result<Option<Vec<u8>>, Errno> {
        let Some(InFlight { buf, sent }) = &self.in_flight else { return Ok(None) };
        let sent = sent + self.try_send(&buf[*sent..])?;
        if sent < buf.len() {
            if let Some(in_flight) = &mut self.in_flight {
                in_flight.sent = sent;
            }
            return Ok(None);
        }
        Ok(self.in_flight.take().map(|in_flight| in_flight.buf))
    }

    /// One send; 0 when there is no room.
    fn try_send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        // Without NOSIGNAL a broken connection would kill the process by SIGPIPE.
        match send(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            done => done,
        }
    }
}
