//! A network that exists only in memory, with virtual time and with faults from a seed.
//!
//! Any number of workers ([`SimDriver`]) and scripted peers ([`SimPeer`], [`SimListener`]) live in one
//! [`SimNet`] on one thread. Nothing happens by itself: the harness lets workers and peers do what they
//! can at the current moment, and then moves the time to the next one at which something is due.
//!
//! ```text
//!   loop {
//!       each worker: one turn (its driver.wait gives what is due now)
//!       each scripted peer: look at received(), send()
//!       match net.next_wakeup() { Some(t) => net.advance_to(t), None => break }
//!   }
//! ```
//!
//! Not here: threads, real sockets, TCP's own congestion and retransmission. A connection is an ordered
//! stream of bytes per direction with delays, cuts, a bounded buffer, ends and resets.
//!
//! Invariant: the same seed, faults and calls give the same run, event by event
//! ([`SimNet::digest`] tells two runs apart).
//!
//! Where to read next: [`SimFaults`] for what may go wrong; `net` for the inside.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::driver::Address;
use crate::waker::Waker;

use net::{DriverState, Net};

mod driver;
mod faults;
mod net;
mod peer;
mod pipe;
mod rng;

pub use driver::{SimDriver, SimSocket};
pub use faults::SimFaults;
pub use peer::{SimListener, SimPeer};
pub use rng::SimRng;

/// The simulated network; clones are handles of the same one.
#[derive(Clone)]
pub struct SimNet {
    net: Rc<RefCell<Net>>,
}

impl SimNet {
    /// An empty network at one second past the start of its clock. `faults` hold for every connection
    /// that is begun while nothing else is set.
    pub fn new(seed: u64, faults: SimFaults) -> Self {
        Self { net: Rc::new(RefCell::new(Net::new(seed, faults))) }
    }

    /// Sets the faults of connections that begin from now on.
    pub fn set_faults(&self, faults: SimFaults) {
        self.net.borrow_mut().set_faults(None, faults);
    }

    /// Sets the faults of connections to one address that begin from now on, in place of the general
    /// ones: flaky servers beside sound clients, for example.
    pub fn set_faults_at(&self, at: &Address, faults: SimFaults) {
        self.net.borrow_mut().set_faults(Some(at), faults);
    }

    /// A worker's driver, which will accept at `listen` once it is told to. Drivers that name the same
    /// address share it, and chance decides which of them gets a connection. What is accepted carries
    /// the number of its address in this list.
    ///
    /// # Panics
    /// If a scripted server listens at one of the addresses.
    pub fn driver(&self, listen: &[Address]) -> SimDriver {
        let net = &mut *self.net.borrow_mut();
        let me = net.drivers.len();
        let mut listens = Vec::new();
        for address in listen {
            let place = net.listener_place(address);
            listens.push(place);
            let listener = &mut net.listeners[place];
            let taken = listener.open && listener.drivers.is_empty();
            assert!(!taken, "a scripted server listens at {address:?}");
            listener.open = true;
            listener.drivers.push(me);
        }
        let waker = Waker::simulated();
        net.drivers.push(DriverState {
            ready: VecDeque::new(),
            waker: waker.clone(),
            accepting: false,
            accept_from_us: 0,
            deadline_us: None,
            gone: false,
        });
        SimDriver::new(Rc::clone(&self.net), me, waker, listens)
    }

    /// A scripted server at `at`. A closed one may be opened again: that is a server's restart.
    ///
    /// # Panics
    /// If somebody listens there.
    pub fn listen(&self, at: &Address) -> SimListener {
        let net = &mut *self.net.borrow_mut();
        let place = net.listener_place(at);
        assert!(!net.listeners[place].open, "somebody listens at {at:?}");
        net.listeners[place].open = true;
        SimListener::new(Rc::clone(&self.net), place)
    }

    /// A scripted client that begins to connect to `to`.
    pub fn connect(&self, to: &Address) -> SimPeer {
        let end = self.net.borrow_mut().connect(to);
        SimPeer::new(Rc::clone(&self.net), end)
    }

    /// Resets every connection to `to` that is open, towards both ends; returns how many ends were
    /// open. As when a firewall drops its table.
    pub fn reset_all_to(&self, to: &Address) -> usize {
        self.net.borrow_mut().break_all_to(to)
    }

    /// The virtual time, in microseconds; also every driver's clock.
    pub fn now_us(&self) -> u64 {
        self.net.borrow().now_us
    }

    /// When the network itself next does something.
    pub fn next_event_at(&self) -> Option<u64> {
        self.net.borrow().next_at_us()
    }

    /// When somebody next has something to do: now if a driver has events to give, else the earliest
    /// of the network's happenings and the drivers' deadlines. `None`: nothing will ever happen again
    /// unless a peer acts.
    pub fn next_wakeup(&self) -> Option<u64> {
        self.net.borrow().next_wakeup_us()
    }

    /// Moves the time to `until_us` (never back), with everything that happens on the way.
    pub fn advance_to(&self, until_us: u64) {
        self.net.borrow_mut().advance_to(until_us);
    }

    /// Moves the time to [`next_event_at`](Self::next_event_at). False if nothing is due ever.
    pub fn step(&self) -> bool {
        let next = self.next_event_at();
        if let Some(at_us) = next {
            self.advance_to(at_us);
        }
        next.is_some()
    }

    /// Ends of connections that their owner has not closed. After a complete drain it is 0.
    pub fn open_ends(&self) -> usize {
        let net = &mut *self.net.borrow_mut();
        net.bury_dropped();
        net.open_ends()
    }

    /// A number that two runs share if and (but for chance) only if the same things happened in the
    /// same order at the same times.
    pub fn digest(&self) -> u64 {
        self.net.borrow().digest()
    }

    /// Keeps a line of text for everything that happens from now on, for a run that is being replayed.
    /// Grows without bound.
    pub fn record_trace(&self) {
        self.net.borrow_mut().record();
    }

    /// Takes the lines that were kept.
    pub fn take_trace(&self) -> Vec<String> {
        self.net.borrow_mut().take_trace()
    }
}
