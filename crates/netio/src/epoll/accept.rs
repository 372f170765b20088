//! Accepting, for the epoll driver.
//!
//! Each worker watches its share of every listener with EPOLLEXCLUSIVE, so that a new connection
//! wakes one worker and not all. When descriptors or memory run out the listeners are left alone for
//! [`PAUSE_US`]: the waiting connection cannot be refused, and a level-triggered epoll would name it
//! again at once.
//!
//! Not here: who gets the connection in the end; that is the caller's business. The system call and the names of
//! the ends are in `accepting`.
//!
//! Invariant: listeners are in epoll exactly while accepting is wanted and not paused.

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};

use super::{LISTENER_DATA, Stream};
use crate::accepting::{PAUSE_US, Pace, accept_waiting, tune_listeners};
use crate::driver::{Event, ListenerId, Tuning};
use crate::listener::Listener;
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
    pace: Pace,
}

impl Acceptor {
    pub(super) const fn new(listeners: Vec<Listener>, tuning: &Tuning) -> Self {
        let pace = Pace::of(tuning);
        Self { listeners, wanted: false, registered: false, resume_us: None, pace }
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

    /// Other listeners from now on.
    pub(super) fn change(
        &mut self,
        epoll: &OwnedFd,
        keeps: &dyn Fn(ListenerId) -> bool,
        more: Vec<Listener>,
    ) {
        self.deregister(epoll);
        self.listeners.retain(|listener| keeps(listener.id()));
        self.listeners.extend(more);
        if self.resume_us.is_none() {
            self.register(epoll);
        }
    }

    /// What comes from now on is probed like this.
    pub(super) fn tune(&mut self, tuning: &Tuning) {
        self.pace = Pace::of(tuning);
        tune_listeners(&self.listeners, tuning);
    }

    /// Goes on after a pause if its time has come.
    pub(super) fn resume_if_due(&mut self, epoll: &OwnedFd) {
        if self.resume_us.is_some_and(|resume_us| resume_us <= sys::monotonic_us()) {
            self.resume_us = None;
            self.register(epoll);
        }
    }

    /// Accepts what waits at one listener, in bounded number.
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
        let (told, failed) = accept_waiting(listener, self.pace, on_event);
        if failed {
            self.pause(epoll);
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
