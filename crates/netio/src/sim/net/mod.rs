//! The inside of the simulated network: ends of connections, listeners, and the queue of what will
//! happen when.
//!
//! Everything that takes time is a [`Happening`] in one queue, ordered by time and then by the order in
//! which it was scheduled. Handling one changes ends and tells their owners: a driver's end goes on
//! that driver's ready list, a scripted peer's end reads and writes at once.
//!
//! Not here: the trait ([`super::driver`]) and the handles of scripted peers ([`super::peer`]).
//!
//! Invariant: nothing here depends on anything but the seed, the faults and the calls made; there is no
//! real clock, no hash order, no address of memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use crate::driver::{Address, ConnId};
use crate::sim::faults::SimFaults;
use crate::sim::pipe::Pipe;
use crate::sim::rng::SimRng;
use crate::waker::Waker;

mod connect;
mod flow;

/// One end of a connection, by its place in [`Net::ends`]. Places are never reused, so that nothing
/// scheduled for a closed connection can hit a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sim) struct EndId(pub(in crate::sim) u32);

/// The whole network.
pub(in crate::sim) struct Net {
    pub(in crate::sim) now_us: u64,
    pub(in crate::sim) rng: SimRng,
    faults: SimFaults,
    faults_at: Vec<(Address, SimFaults)>,
    queue: BinaryHeap<Reverse<Happening>>,
    scheduled: u64,
    ends: Vec<End>,
    pub(in crate::sim) listeners: Vec<ListenerState>,
    pub(in crate::sim) drivers: Vec<DriverState>,
    /// Ends whose accepted socket was dropped without being adopted.
    pub(in crate::sim) dropped: Arc<Mutex<Vec<EndId>>>,
    ports: u32,
    digest: Digest,
    trace: Option<Vec<String>>,
}

/// One end of a connection.
pub(in crate::sim) struct End {
    /// The far end; `None` until the connect has reached a listener.
    other: Option<EndId>,
    /// Where the connection was made to; the same for both ends.
    to: Address,
    pub(in crate::sim) owner: Owner,
    pub(in crate::sim) connect: Connect,
    pub(in crate::sim) faults: SimFaults,
    /// Own address as the far end sees it, and the far end's, in the form of CLIENT LIST.
    pub(in crate::sim) local: String,
    pub(in crate::sim) peer: String,
    pub(in crate::sim) inbox: Pipe,
    /// The owner has bytes to write and waits for room.
    wants_room: bool,
    /// The end of the own stream is on its way to the other end.
    ended: bool,
    /// A reset has arrived.
    pub(in crate::sim) reset: bool,
    /// It is on its driver's ready list already.
    pub(in crate::sim) queued: bool,
    /// The owner has closed it.
    pub(in crate::sim) closed: bool,
    /// What a scripted peer holds; unused for a driver's end.
    pub(in crate::sim) script: Script,
}

/// The application side of a scripted peer.
#[derive(Default)]
pub(in crate::sim) struct Script {
    /// Sent by the script, not yet taken by the socket.
    pub(in crate::sim) outbox: VecDeque<u8>,
    /// The stream ends after the outbox.
    pub(in crate::sim) ends_after_outbox: bool,
    /// Read from the socket, not yet taken by the script.
    pub(in crate::sim) received: Vec<u8>,
    /// The script does not read.
    pub(in crate::sim) paused: bool,
    /// Chance made it stop reading until this time.
    stalled_until_us: u64,
    /// It has read the end of the stream.
    pub(in crate::sim) eof: bool,
}

/// Who is told of what happens at an end.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Owner {
    /// Accepted or waiting to be, adopted by nobody.
    Nobody,
    /// A connection of a driver.
    Driver(usize, ConnId),
    /// A scripted peer.
    Script,
}

/// How far a connect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Connect {
    Pending,
    Done,
    Failed(i32),
}

pub(in crate::sim) struct ListenerState {
    pub(in crate::sim) address: Address,
    /// Drivers that share it; empty for a scripted server.
    pub(in crate::sim) drivers: Vec<usize>,
    pub(in crate::sim) open: bool,
    /// Connections that wait to be accepted, with the driver that chance gave them to.
    pub(in crate::sim) backlog: VecDeque<(EndId, Option<usize>)>,
}

/// What the network knows of a driver.
pub(in crate::sim) struct DriverState {
    /// Connections that may have something to tell. May hold stale ids and idle connections.
    pub(in crate::sim) ready: VecDeque<ConnId>,
    pub(in crate::sim) waker: Waker,
    pub(in crate::sim) accepting: bool,
    /// End of the pause after a failed accept.
    pub(in crate::sim) accept_from_us: u64,
    /// When it asked to be woken by its last wait; `None` is "at the first event".
    pub(in crate::sim) deadline_us: Option<u64>,
    /// It was dropped: nothing can be due for it, whoever still holds its waker.
    pub(in crate::sim) gone: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Happening {
    at_us: u64,
    /// Order of scheduling; makes the order of one moment definite.
    seq: u64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A connect reaches its destination, the listener at that place of the list of addresses.
    Syn(EndId, u32),
    /// The outcome of a connect comes back.
    ConnectDone(EndId, Result<(), i32>),
    /// Bytes arrive.
    Arrive(EndId, usize),
    /// The end of the stream arrives.
    End(EndId),
    /// A reset arrives.
    Reset(EndId),
    /// There is room to write, or a stall is over.
    GoOn(EndId),
}

/// A running hash (FNV-1a, 64 bit) of all that is written to it, so that a line costs no memory.
struct Digest(u64);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        Ok(())
    }
}

impl Net {
    pub(in crate::sim) fn new(seed: u64, faults: SimFaults) -> Self {
        Self {
            now_us: START_US,
            rng: SimRng::new(seed),
            faults,
            faults_at: Vec::new(),
            queue: BinaryHeap::new(),
            scheduled: 0,
            ends: Vec::new(),
            listeners: Vec::new(),
            drivers: Vec::new(),
            dropped: Arc::default(),
            ports: 0,
            digest: Digest(FNV_START),
            trace: None,
        }
    }

    pub(in crate::sim) fn set_faults(&mut self, at: Option<&Address>, faults: SimFaults) {
        let Some(at) = at else {
            self.faults = faults;
            return;
        };
        match self.faults_at.iter_mut().find(|(address, _)| address == at) {
            Some((_, known)) => *known = faults,
            None => self.faults_at.push((at.clone(), faults)),
        }
    }

    fn faults_for(&self, to: &Address) -> SimFaults {
        let special = self.faults_at.iter().find(|(address, _)| address == to);
        special.map_or(self.faults, |(_, faults)| *faults)
    }

    pub(in crate::sim) fn end(&self, id: EndId) -> &End {
        &self.ends[id.0 as usize]
    }

    pub(in crate::sim) fn end_mut(&mut self, id: EndId) -> &mut End {
        &mut self.ends[id.0 as usize]
    }

    pub(in crate::sim) fn next_at_us(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse(next)| next.at_us)
    }

    /// Handles everything up to `until_us`, which becomes the time.
    pub(in crate::sim) fn advance_to(&mut self, until_us: u64) {
        self.bury_dropped();
        while self.next_at_us().is_some_and(|at_us| at_us <= until_us) {
            let Some(Reverse(next)) = self.queue.pop() else { break };
            self.now_us = self.now_us.max(next.at_us);
            self.happen(next.what);
        }
        self.now_us = self.now_us.max(until_us);
    }

    fn schedule(&mut self, at_us: u64, what: What) {
        self.scheduled += 1;
        self.queue.push(Reverse(Happening { at_us, seq: self.scheduled, what }));
    }

    fn delay_us(&mut self, faults: &SimFaults) -> u64 {
        self.rng.between(faults.delay_us.0, faults.delay_us.1)
    }

    /// Schedules for one end after a delay, without overtaking what is on the way to it.
    fn send_to(&mut self, to: EndId, what: What) {
        let faults = self.end(to).faults;
        let at_us = self.now_us + self.delay_us(&faults);
        let inbox = &mut self.end_mut(to).inbox;
        inbox.last_arrival_us = inbox.last_arrival_us.max(at_us);
        let at_us = inbox.last_arrival_us;
        self.schedule(at_us, what);
    }

    fn happen(&mut self, what: What) {
        self.note(format_args!("{what:?}"));
        match what {
            What::Syn(end, place) => self.syn(end, place as usize),
            What::ConnectDone(end, result) => {
                if !self.end(end).closed {
                    let done = result.map_or_else(Connect::Failed, |()| Connect::Done);
                    self.end_mut(end).connect = done;
                    self.tell(end);
                }
            }
            What::Arrive(end, count) => self.arrive(end, count),
            What::End(end) => {
                // After a reset there is no orderly end any more.
                if !self.end(end).reset {
                    self.end_mut(end).inbox.ended = true;
                    self.tell(end);
                }
            }
            What::Reset(end) => {
                let state = self.end_mut(end);
                state.reset = true;
                state.inbox.cut_off();
                self.tell(end);
            }
            What::GoOn(end) => self.tell(end),
        }
    }

    fn arrive(&mut self, end: EndId, count: usize) {
        let faults = self.end(end).faults;
        if self.end(end).closed {
            // Nobody reads here any more: the kernel answers with a reset.
            self.end_mut(end).inbox.clear();
            self.reset_other(end);
        } else if self.rng.chance(faults.reset_ppm) {
            self.break_both(end);
        } else {
            self.end_mut(end).inbox.arrive(count);
            if self.rng.chance(faults.stall_ppm) {
                let stall_us = self.rng.between(faults.stall_us.0, faults.stall_us.1);
                self.stall(end, stall_us);
            }
            self.tell(end);
        }
    }

    /// Tells the owner of an end that something is new there.
    fn tell(&mut self, id: EndId) {
        if self.end(id).closed {
            return;
        }
        match self.end(id).owner {
            Owner::Nobody => {}
            Owner::Driver(..) => self.make_ready(id),
            Owner::Script => self.run_script(id),
        }
    }

    /// Puts a driver's end on that driver's ready list, once: as with epoll, a connection is named once
    /// per wait however much has happened to it.
    pub(in crate::sim) fn make_ready(&mut self, id: EndId) {
        if let Owner::Driver(driver, conn) = self.end(id).owner
            && !std::mem::replace(&mut self.end_mut(id).queued, true)
        {
            self.drivers[driver].ready.push_back(conn);
        }
    }

    /// Whether a wait of `driver` would have something to look at.
    pub(in crate::sim) fn is_ready(&self, driver: usize) -> bool {
        let state = &self.drivers[driver];
        if state.gone {
            return false;
        }
        !state.ready.is_empty() || state.waker.is_pending() || self.waiting_for(driver).is_some()
    }

    /// When the next driver wants to run: now if one is ready, else the first of their deadlines, ends
    /// of accept pauses and happenings.
    pub(in crate::sim) fn next_wakeup_us(&self) -> Option<u64> {
        if (0..self.drivers.len()).any(|driver| self.is_ready(driver)) {
            return Some(self.now_us);
        }
        let paused = |state: &&DriverState| state.accepting && state.accept_from_us > self.now_us;
        let pauses = self.drivers.iter().filter(paused).map(|state| state.accept_from_us);
        let deadlines = self.drivers.iter().filter_map(|state| state.deadline_us);
        let next = deadlines.chain(pauses).chain(self.next_at_us()).min()?;
        Some(next.max(self.now_us))
    }

    /// Ends that nobody has closed yet.
    pub(in crate::sim) fn open_ends(&self) -> usize {
        self.ends.iter().filter(|end| !end.closed).count()
    }

    /// The chance that a wait ends its batch early. A matter of the worker and not of a connection, so
    /// it is taken from the general faults.
    pub(in crate::sim) const fn split_batch_ppm(&self) -> u32 {
        self.faults.split_batch_ppm
    }

    /// Folds one line into the digest, and keeps it if a trace is recorded.
    pub(in crate::sim) fn note(&mut self, line: fmt::Arguments<'_>) {
        let now_us = self.now_us;
        // Writing into a number cannot fail.
        let _ = writeln!(self.digest, "{now_us} {line}");
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now_us} {line}"));
        }
    }

    pub(in crate::sim) const fn digest(&self) -> u64 {
        self.digest.0
    }

    pub(in crate::sim) fn record(&mut self) {
        self.trace.get_or_insert_default();
    }

    pub(in crate::sim) fn take_trace(&mut self) -> Vec<String> {
        self.trace.replace(Vec::new()).unwrap_or_default()
    }
}

/// The simulation begins at one second, so that a time that is wrongly 0 is noticed.
const START_US: u64 = 1_000_000;

/// FNV-1a, 64 bit.
const FNV_START: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01B3;
