//! What the drivers of the real network share about new connections: taking those that wait at a listener,
//! naming both ends, telling a failure of one connection from a want of the whole process.
//!
//! Not here: when a listener is looked at, and the pause after a failure; each driver has its own way to
//! wait for a listener.
//!
//! Invariant: a connection is either given to the caller with both its names, or closed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with, getsockname};

use crate::driver::{Accepted, Event, Tuning};
use crate::listener::Listener;
use crate::socket::{tcp_address, tcp_text};

/// A connected, non-blocking stream socket on its way to the worker that will own it.
#[derive(Debug)]
pub struct Stream(pub(crate) OwnedFd);

impl AsFd for Stream {
    /// The socket, to ask the kernel about it (peer credentials, options).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How many connections are taken, and which are too many: see [`Tuning`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    accepts_max: u32,
    descriptors_max: u32,
}

impl Pace {
    pub(crate) const fn of(tuning: &Tuning) -> Self {
        let Tuning { accepts_max, descriptors_max, .. } = *tuning;
        Self { accepts_max, descriptors_max }
    }
}

/// Accepts what waits at a listener, at its pace. One that is too many is the last one of its event: whoever gets it sends it away first. Returns how many events were told, and whether
/// the last one was a failure, after which accepting should rest for [`PAUSE_US`].
pub(crate) fn accept_waiting(
    listener: &Listener,
    pace: Pace,
    on_event: &mut impl FnMut(Event<'_, Stream>),
) -> (usize, bool) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let mut told = 0;
    for _ in 0..pace.accepts_max {
        match acceptfrom_with(listener, flags) {
            Ok((fd, peer)) => {
                // It can fail only if the client is gone already; then there is nobody to tell.
                let is_surplus = fd.as_raw_fd().unsigned_abs() >= pace.descriptors_max;
                let Some(accepted) = describe(listener, fd, peer) else { continue };
                on_event(Event::Accepted(Accepted { is_surplus, ..accepted }));
                told += 1;
                if is_surplus {
                    break;
                }
            }
            Err(Errno::AGAIN) => break,
            Err(error) if concerns_one_client(error) => {}
            Err(error) => {
                on_event(Event::AcceptFailed(error.raw_os_error()));
                return (told + 1, true);
            }
        }
    }
    (told, false)
}

/// What comes from now on is probed like this. All shares of a listener are one socket, so the last word of any worker counts.
pub(crate) fn tune_listeners(listeners: &[Listener], tuning: &Tuning) {
    for listener in listeners {
        if let Err(error) = listener.set_keepalive(tuning.keepalive) {
            debug_assert!(false, "options of a socket that listens: {error}");
        }
    }
}

/// Names both ends as Redis prints them. `None` if the kernel no longer knows.
fn describe(
    listener: &Listener,
    fd: OwnedFd,
    peer: Option<SocketAddrAny>,
) -> Option<Accepted<Stream>> {
    let local = match &listener.local_text {
        Some(local) => local.clone(),
        None => tcp_text(&tcp_address(getsockname(&fd).ok()?).ok()?),
    };
    let (peer, ip) = match peer.map(tcp_address) {
        Some(Ok(peer)) => (tcp_text(&peer), Some(peer.ip().to_canonical())),
        // A unix client has no address; Redis prints the path of the server's socket.
        _ => (local.clone(), None),
    };
    Some(Accepted {
        socket: Stream(fd),
        peer,
        local,
        ip,
        listener: listener.id(),
        is_surplus: false,
    })
}

/// Whether a failed accept is about the one connection that was at the head of the queue, so that the
/// next one may be tried: it was given up, or (accept(2)) it carries a network error of its own.
fn concerns_one_client(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNABORTED
            | Errno::INTR
            | Errno::PERM
            | Errno::PROTO
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NONET
            | Errno::OPNOTSUPP
    )
}

/// How long accepting rests after a failure, in microseconds.
pub(crate) const PAUSE_US: u64 = 100_000;
