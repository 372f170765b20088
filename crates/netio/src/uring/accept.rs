//! Accepting, for the io_uring driver.
//!
//! The kernel is asked to tell once when a client waits (a poll with EPOLLEXCLUSIVE, so that one worker wakes and not all);
//! then those that wait are taken by accept4(2). Not by a multishot accept, which takes clients that this worker no longer wants, does not tell
//! their addresses, and fails for want of descriptors (EMFILE) also when nobody waits, with the limit of
//! the time when it was armed.
//!
//! When descriptors or memory run out the listeners are left alone for [`PAUSE_US`].
//!
//! Not here: who gets the connection in the end; that is the caller's business.
//!
//! Invariant: a listener is closed only when no operation on it is in the kernel, which would hold its port.

use std::os::fd::AsFd;

use super::op::Op;
use super::ring::Ring;
use crate::accepting::{PAUSE_US, Pace, Stream, accept_waiting, tune_listeners};
use crate::driver::{ConnId, Event, ListenerId, Tuning};
use crate::listener::Listener;
use crate::sys;

/// The listeners of one driver.
#[derive(Debug)]
pub(super) struct Acceptor {
    listeners: Vec<Listener>,
    /// What the kernel does about each.
    asked: Vec<Asked>,
    /// The caller wants connections.
    wanted: bool,
    /// End of the pause after a failure, by the driver's clock.
    resume_us: Option<u64>,
    /// How often all were closed; what comes from before is nobody's.
    generation: u32,
    pace: Pace,
}

/// What the kernel does about a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Nothing.
    Idle,
    /// It tells when a client waits.
    Armed,
    /// It was told to stop, and the completion has not come.
    Stopping,
}

impl Acceptor {
    pub(super) fn new(listeners: Vec<Listener>, tuning: &Tuning) -> Self {
        let (asked, pace) = (vec![Asked::Idle; listeners.len()], Pace::of(tuning));
        Self { listeners, asked, wanted: false, resume_us: None, generation: 0, pace }
    }

    /// When a pause ends that somebody waits for.
    pub(super) const fn resume_us(&self) -> Option<u64> {
        self.resume_us
    }

    /// Begins or stops accepting. Beginning does not end a pause early.
    pub(super) fn set(&mut self, ring: &mut Ring, on: bool) {
        self.wanted = on;
        if on {
            return;
        }
        self.resume_us = None;
        self.stop(ring);
    }

    /// Has the kernel tell no more.
    fn stop(&mut self, ring: &mut Ring) {
        for (at, asked) in self.asked.iter_mut().enumerate() {
            // Left there it would be woken in place of a worker that accepts.
            if *asked == Asked::Armed {
                *asked = Asked::Stopping;
                ring.cancel(op(at, self.generation));
            }
        }
    }

    /// Stops accepting and closes the listeners, here and in the kernel, before it returns.
    pub(super) fn close(&mut self, ring: &mut Ring) {
        self.set(ring, false);
        self.change(ring, &|_| false, Vec::new());
    }

    /// Other listeners from now on; those that go are closed before it returns, also in the kernel.
    pub(super) fn change(
        &mut self,
        ring: &mut Ring,
        keeps: &dyn Fn(ListenerId) -> bool,
        more: Vec<Listener>,
    ) {
        self.stop(ring);
        if !self.listeners.is_empty() {
            // The first one stops them, the second one completes that they stopped. What they tell waits in the queue.
            ring.enter(0, None);
            ring.enter(0, None);
        }
        self.generation = self.generation.wrapping_add(1);
        self.listeners.retain(|listener| keeps(listener.id()));
        self.listeners.extend(more);
        self.asked = vec![Asked::Idle; self.listeners.len()];
    }

    /// What comes from now on is probed like this.
    pub(super) fn tune(&mut self, tuning: &Tuning) {
        self.pace = Pace::of(tuning);
        tune_listeners(&self.listeners, tuning);
    }

    /// Asks the kernel about each listener that should be asked about and is not, a pause aside.
    pub(super) fn arm(&mut self, ring: &mut Ring) {
        if !self.wanted {
            return;
        }
        if let Some(resume_us) = self.resume_us {
            if resume_us > sys::monotonic_us() {
                return;
            }
            self.resume_us = None;
        }
        for (at, asked) in self.asked.iter_mut().enumerate() {
            if *asked == Asked::Idle {
                *asked = Asked::Armed;
                ring.poll(self.listeners[at].as_fd(), CLIENT_WAITS, op(at, self.generation));
            }
        }
    }

    /// The kernel told of a listener: accepts what waits there.
    pub(super) fn serve(
        &mut self,
        listener: ConnId,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let at = listener.index as usize;
        if listener.generation != self.generation || at >= self.listeners.len() {
            return 0;
        }
        self.asked[at] = Asked::Idle;
        // An earlier listener's failure in the same batch may just have paused all.
        if !self.wanted || self.resume_us.is_some() {
            return 0;
        }
        let (told, failed) = accept_waiting(&self.listeners[at], self.pace, on_event);
        if failed {
            self.resume_us = Some(sys::monotonic_us() + PAUSE_US);
        }
        told
    }
}

fn op(at: usize, generation: u32) -> Op {
    Op::Listen(ConnId { index: at as u32, generation })
}

/// Somebody waits to be accepted, and one of those who ask is to be woken.
const CLIENT_WAITS: u32 = libc::POLLIN as u32 | libc::EPOLLEXCLUSIVE as u32;
