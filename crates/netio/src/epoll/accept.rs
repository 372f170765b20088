//! Accepting, for the epoll driver.
//!
//! Each worker watches its share of every listener with EPOLLEXCLUSIVE, so that a new connection
//! wakes one worker and not all. When descriptors or memory run out the listeners are left alone for
//! [`PAUSE_US`]: the waiting connection cannot be refused, and a level-triggered epoll would name it
//! again at once.
//!
//! Not here: who gets the connection in the end; that is the caller's business.
//!
//! Invariant: listeners are in epoll exactly while accepting is wanted and not paused.

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with, getsockname};

use super::{LISTENER_DATA, Stream};
use crate::driver::{Accepted, Event, Tuning};
use crate::listener::Listener;
use crate::socket::{tcp_address, tcp_text};
use crate::sys;

/// The listeners of one driver.
#[derive(Debug)]
pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    /// The caller wants connections.
    wanted: bool,
    /// The listeners are in epoll.
    registered: bool,
    /// End of the pause after a failure, by the driver's clock.
    resume_us: Option<u64>,
}

impl Acceptor {
    pub(super) const fn new(listeners: Vec<Listener>) -> Self {
        Self { listeners, wanted: false, registered: false, resume_us: None }
    }

    /// When a pause ends that somebody waits for.
    pub(super) const fn resume_us(&self) -> Option<u64> {
        self.resume_us
    }

    /// Begins or stops accepting. Beginning does not end a pause early.
    pub(super) fn set(&mut self, epoll: &OwnedFd, on: bool) {
        self.wanted = on;
        if !on {
            self.resume_us = None;
            self.deregister(epoll);
        } else if self.resume_us.is_none() {
            self.register(epoll);
        }
    }

    /// Stops accepting and drops the listeners.
    pub(super) fn close(&mut self, epoll: &OwnedFd) {
        self.set(epoll, false);
        self.listeners.clear();
    }

    /// What comes from now on is probed like this. All shares of a listener are one socket, so the last word of any worker counts.
    pub(super) fn tune(&self, tuning: &Tuning) {
        for listener in &self.listeners {
            if let Err(error) = listener.set_keepalive(tuning.keepalive) {
                debug_assert!(false, "options of a socket that listens: {error}");
            }
        }
    }

    /// Goes on after a pause if its time has come.
    pub(super) fn resume_if_due(&mut self, epoll: &OwnedFd) {
        if self.resume_us.is_some_and(|resume_us| resume_us <= sys::monotonic_us()) {
            self.resume_us = None;
            self.register(epoll);
        }
    }

    /// Accepts what waits at one listener, at most [`ACCEPTS_PER_EVENT`].
    pub(super) fn serve(
        &mut self,
        epoll: &OwnedFd,
        listener: usize,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        // An earlier listener's failure in the same batch may just have paused all.
        if !self.registered {
            return 0;
        }
        let Some(listener) = self.listeners.get(listener) else { return 0 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let mut told = 0;
        for _ in 0..ACCEPTS_PER_EVENT {
            match acceptfrom_with(listener, flags) {
                Ok((fd, peer)) => {
                    // It can fail only if the client is gone already; then there is nobody to tell.
                    let Some(accepted) = describe(listener, fd, peer) else { continue };
                    on_event(Event::Accepted(accepted));
                    told += 1;
                }
                Err(Errno::AGAIN) => break,
                Err(error) if concerns_one_client(error) => {}
                Err(error) => {
                    on_event(Event::AcceptFailed(error.raw_os_error()));
                    self.pause(epoll);
                    return told + 1;
                }
            }
        }
        told
    }

    fn pause(&mut self, epoll: &OwnedFd) {
        self.deregister(epoll);
        self.resume_us = Some(sys::monotonic_us() + PAUSE_US);
    }

    fn register(&mut self, epoll: &OwnedFd) {
        if self.registered || !self.wanted {
            return;
        }
        self.registered = true;
        let interest = EventFlags::IN | EventFlags::EXCLUSIVE;
        for (at, listener) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENER_DATA + at as u64);
            if epoll::add(epoll, listener, data, interest).is_err() {
                // No memory for the watch: the same want as a failed accept, and the same cure.
                return self.pause(epoll);
            }
        }
    }

    /// Takes the listeners out of epoll. By hand, as other workers' clones keep the socket alive and
    /// so in this epoll, even when ours is closed.
    fn deregister(&mut self, epoll: &OwnedFd) {
        if !self.registered {
            return;
        }
        self.registered = false;
        for listener in &self.listeners {
            // Fails for one that could not be added; then it is not there, as wanted.
            let _ = epoll::delete(epoll, listener);
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
    let peer = match peer.map(tcp_address) {
        Some(Ok(peer)) => tcp_text(&peer),
        // A unix client has no address; Redis prints the path of the server's socket.
        _ => local.clone(),
    };
    Some(Accepted { socket: Stream(fd), peer, local })
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

/// Connections taken per readiness of a listener, so that a flood of them cannot starve the others.
const ACCEPTS_PER_EVENT: usize = 64;

/// How long accepting rests after a failure, in microseconds.
const PAUSE_US: u64 = 100_000;
