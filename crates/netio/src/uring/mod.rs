//! The driver over io_uring: receiving goes on in the kernel by itself, and all that a turn sends goes out with the one system call that waits
//! for more.
//!
//! ```text
//!   wait ─┬ flush    what the caller asked for since: cancels, sends, receives ─▶ SQ
//!         ├ enter    one system call: hand over, complete, sleep
//!         ├ dispatch kept bytes, then the completions in their order ─▶ events
//!         └ failing  ends that a send found, after the bytes that came before
//! ```
//!
//! A small buffer given to [`Driver::send`] is copied and given back at once, as if it had gone into a larger socket buffer: it goes out with the next wait, and it
//! goes out also when the connection is closed before that. A large one, or any one while many copies are not out, is sent by a system call of its own, and
//! what the socket has no room for is the kernel's to go on with.
//!
//! Not here: what is read when, timeouts of connections, anything about the bytes. `wait` borrows the
//! driver while its callback runs, so no call can come in the middle of a batch.
//!
//! Invariant: what the kernel does for a connection (`Conn::receiving`, `watch`, `flight`) is what its state asks for, whenever a wait enters the kernel;
//! who changes the state puts the connection on the list `dirty`.
//!
//! Where to read next: `conn` for one connection, `ring` for the queues and all memory that the kernel touches, `probe` for where this
//! driver can work. Why it is as it is stands in decision 19
//! (`docs/internals/decisions`).

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt;

use crate::driver::{
    Accepted, Address, CloseReason, ConnId, Driver, Event, INPUT_PER_WAIT_BYTES, ListenerId, Token,
    Tuning, Wait,
};
use crate::listener::Listener;
use crate::slab::Slab;
use crate::socket::{begin_connect, connect_outcome, drop_unsent};
use crate::sys;
use crate::waker::Waker;

pub use crate::accepting::Stream;
pub use probe::{Unfit, probe};

use accept::Acceptor;
use buffers::{Filled, GroupOptions};
use conn::{Buffers, COPY_BYTES_MAX, Conn, End, Receiving, Watch};
use flight::{Flight, Linger};
use op::Op;
use ring::{Completion, Ring, RingOptions};

mod accept;
mod buffers;
mod close;
mod conn;
mod flight;
mod op;
mod probe;
mod ring;
mod serve;

/// Settings of a [`UringDriver`].
#[derive(Clone, Debug)]
pub struct UringOptions {
    /// Operations that go to the kernel in one system call; a power of two.
    pub sq_entries: u32,
    /// Completions that have room before the kernel must keep them aside; a power of two.
    pub cq_entries: u32,
    /// Buffers of 4 KiB to receive into at the beginning, and at most (a power of two). Shared by all connections.
    pub small_buffers: (u16, u16),
    /// The same of 64 KiB, for connections that receive much.
    pub large_buffers: (u16, u16),
    /// How long bytes that count as sent may take to leave after their connection was closed, in microseconds. A peer that takes none of them for so long has
    /// gone, or never will.
    pub linger_us: u64,
    /// For connections that [`Driver::connect`] makes. Accepted ones have what their listener says.
    pub tuning: Tuning,
}

impl Default for UringOptions {
    /// 1 MiB of buffers, which grow to 12 MiB where that many clients send at the same moment.
    fn default() -> Self {
        let RingOptions { sq_entries, cq_entries, small, large } = RingOptions::default();
        Self {
            sq_entries,
            cq_entries,
            small_buffers: (small.buffers, small.buffers_max),
            large_buffers: (large.buffers, large.buffers_max),
            linger_us: 30_000_000,
            tuning: Tuning::default(),
        }
    }
}

/// What a driver met that should be rare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UringCounts {
    /// Receives that found no buffer, and were begun again.
    pub no_buffers: u64,
    /// Calls that found more completions than room. None was lost.
    pub overflows: u64,
    /// Small buffers that exist.
    pub small_buffers: u16,
    /// Large buffers that exist.
    pub large_buffers: u16,
}

/// The real network over io_uring. It stays on the thread that made it.
pub struct UringDriver {
    ring: Ring,
    conns: Slab<Entry>,
    acceptor: Acceptor,
    waker: Waker,
    waker_armed: bool,
    tuning: Tuning,
    /// Connections whose operations must be looked at before the next system call. Ids may be stale.
    dirty: Vec<ConnId>,
    /// Connections that found no buffer. They come first next time, or those that came first would take all of them again.
    starved: Vec<ConnId>,
    /// Connections that have something to tell that the kernel knows nothing of. Ids may be stale.
    ready: Vec<ConnId>,
    /// Connections whose end is known and not yet told; the next wait does not sleep. Ids may be stale.
    failing: Vec<ConnId>,
    /// Operations to be stopped.
    cancels: Vec<Op>,
    /// Sends of closed connections, those that are given up first in front.
    lingering: VecDeque<(u64, ConnId)>,
    linger_us: u64,
    /// Bytes that came in the running wait.
    input_bytes: usize,
    /// Sockets to be closed when the kernel has seen the operations that name them.
    doomed: Vec<OwnedFd>,
    /// Completions of the running batch; kept for its memory.
    completions: Vec<Completion>,
    /// Buffers of copies that went out, to be used again.
    spare: Vec<Vec<u8>>,
    /// Bytes that were copied since the last flush.
    copied_bytes: usize,
    /// So many bytes of copies that are not out, nobody counts: beyond it nothing is copied.
    copies_bytes_max: usize,
    /// Grows with each system call of a wait.
    round: u64,
    no_buffers: u64,
}

/// What lives at a place of the slab.
#[derive(Debug)]
enum Entry {
    /// A connection with a socket.
    Live(Conn),
    /// A connect that failed before there was anything to wait for; told by the next wait.
    Stillborn(Token, Errno),
}

impl UringDriver {
    /// A driver that will accept from `listeners` (none is fine) once [`Driver::accept`] says so.
    ///
    /// # Errors
    /// Why io_uring cannot be used here.
    pub fn new(options: &UringOptions, listeners: Vec<Listener>) -> Result<Self, Unfit> {
        let group = |buffer_bytes, (buffers, buffers_max)| GroupOptions {
            buffer_bytes,
            buffers,
            buffers_max,
        };
        let defaults = RingOptions::default();
        let wanted = RingOptions {
            sq_entries: options.sq_entries,
            cq_entries: options.cq_entries,
            small: group(defaults.small.buffer_bytes, options.small_buffers),
            large: group(defaults.large.buffer_bytes, options.large_buffers),
        };
        let ring = match Ring::new(&wanted) {
            // Smaller rings do as well, at some more system calls.
            Err(Unfit::Memory) => Ring::new(&wanted.modest())?,
            ring => ring?,
        };
        let waker = Waker::new().map_err(|error| {
            Unfit::Failed("have a waker", error.raw_os_error().unwrap_or(libc::EMFILE))
        })?;
        Ok(Self {
            ring,
            conns: Slab::new(),
            acceptor: Acceptor::new(listeners, &options.tuning),
            waker,
            waker_armed: false,
            tuning: options.tuning.clone(),
            dirty: Vec::new(),
            starved: Vec::new(),
            ready: Vec::new(),
            failing: Vec::new(),
            cancels: Vec::new(),
            lingering: VecDeque::new(),
            linger_us: options.linger_us,
            input_bytes: 0,
            doomed: Vec::new(),
            completions: Vec::new(),
            spare: Vec::new(),
            copied_bytes: 0,
            copies_bytes_max: COPIES_BYTES_MAX,
            round: 0,
            no_buffers: 0,
        })
    }

    /// A waker of this driver, for other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// How many connections it holds, with those that are still connecting.
    pub fn conns(&self) -> usize {
        self.conns.len()
    }

    /// What it met that should be rare.
    pub fn counts(&self) -> UringCounts {
        let (small_buffers, large_buffers) = self.ring.buffers();
        let (no_buffers, overflows) = (self.no_buffers, self.ring.overflows());
        UringCounts { no_buffers, overflows, small_buffers, large_buffers }
    }

    fn live(&mut self, id: ConnId) -> Option<&mut Conn> {
        match self.conns.get_mut(id) {
            Some(Entry::Live(conn)) => Some(conn),
            _ => None,
        }
    }

    /// The state of a connection has changed: before the next system call its operations are looked at.
    fn mark_dirty(&mut self, id: ConnId) {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return };
        if !std::mem::replace(&mut conn.is_dirty, true) {
            self.dirty.push(id);
        }
    }

    /// The connection may have something to tell that no completion will bring.
    fn mark_ready(&mut self, id: ConnId) {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return };
        if conn.has_to_tell() && !std::mem::replace(&mut conn.is_ready, true) {
            self.ready.push(id);
        }
    }

    /// A send found an error; it is told after what came before.
    fn mark_failed(&mut self, id: ConnId, error: Errno) {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return };
        if conn.failed.is_none() {
            conn.failed = Some(error);
            self.failing.push(id);
        }
    }

    /// Pushes everything that changed since the last system call.
    fn flush(&mut self) {
        self.give_up_lingering();
        self.copied_bytes = 0;
        for op in self.cancels.drain(..) {
            self.ring.cancel(op);
        }
        if !self.waker_armed
            && let Some(fd) = self.waker.watched()
        {
            self.waker_armed = true;
            self.ring.poll(fd, libc::POLLIN as u32, Op::Wake);
        }
        self.acceptor.arm(&mut self.ring);
        for id in std::mem::take(&mut self.starved) {
            self.sync(id);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            self.sync(id);
        }
        // For its memory: nothing was pushed meanwhile.
        debug_assert!(self.dirty.is_empty(), "looking at a connection makes none dirty");
        self.dirty = dirty;
    }

    /// Makes the kernel do what the state of a connection asks for.
    fn sync(&mut self, id: ConnId) {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return };
        conn.is_dirty = false;
        if conn.flight.is_none() && !conn.connecting && conn.failed.is_none() {
            let flight = if conn.out.is_empty() {
                conn.held.take().map(|(buf, sent)| Flight::new(id, buf, sent, false))
            } else {
                Some(Flight::new(id, std::mem::take(&mut conn.out), 0, true))
            };
            conn.flight = flight.map(|flight| self.ring.launch(conn.fd.as_raw_fd(), flight));
        }
        match conn.receiving {
            Receiving::Idle if conn.wants_recv() => {
                let buffers = conn.sizes.buffers;
                conn.receiving = Receiving::Armed(buffers);
                self.ring.recv(conn.fd.as_fd(), id, buffers);
            }
            Receiving::Armed(buffers) if !conn.wants_recv() || buffers != conn.sizes.buffers => {
                conn.receiving = Receiving::Stopping;
                self.ring.cancel(Op::Recv(id));
            }
            _ => {}
        }
        if conn.watch == Watch::Idle && conn.wants_watch() {
            conn.watch = Watch::Armed;
            // Errors and hang-ups are told unasked.
            let events = if conn.connecting { libc::POLLOUT as u32 } else { 0 };
            self.ring.poll(conn.fd.as_fd(), events, Op::Watch(id));
        }
    }

    /// How many completions the next system call waits for, and for how long in microseconds; `None` is for ever.
    fn plan(&self, wait: Wait) -> (u32, Option<u64>) {
        let until_us = match wait {
            Wait::Poll => return (0, None),
            Wait::Gather { until_us, completions } => {
                let left_us = until_us.saturating_sub(self.now_us());
                // Sends complete, too, and nearly always at once: they are no input.
                let want = completions.saturating_add(self.ring.sends_queued()).min(GATHER_MAX);
                return if left_us == 0 { (0, None) } else { (want, Some(left_us)) };
            }
            Wait::Until(until_us) => Some(until_us),
            Wait::Forever => None,
        };
        if !self.ready.is_empty() || !self.failing.is_empty() {
            return (0, None);
        }
        let lingering = self.lingering.front().map(|(until_us, _)| *until_us);
        let until_us = [until_us, self.acceptor.resume_us(), lingering].into_iter().flatten().min();
        match until_us.map(|until_us| until_us.saturating_sub(self.now_us())) {
            Some(0) => (0, None),
            timeout_us => (1, timeout_us),
        }
    }

    /// Takes a caller's or a copy's memory for the next copies, if it is of that size.
    fn keep_spare(&mut self, mut buf: Vec<u8>) {
        if self.spare.len() < SPARES_MAX && buf.capacity() <= 2 * COPY_BYTES_MAX {
            buf.clear();
            self.spare.push(buf);
        }
    }
}

impl Driver for UringDriver {
    type Socket = Stream;

    fn now_us(&self) -> u64 {
        sys::monotonic_us()
    }

    fn adopt(&mut self, accepted: Accepted<Stream>, token: Token) -> ConnId {
        let id = self.conns.insert(Entry::Live(Conn::open(accepted.socket.0, token)));
        self.mark_dirty(id);
        id
    }

    fn rename(&mut self, conn: ConnId, token: Token) {
        if let Some(live) = self.live(conn) {
            live.token = token;
        }
    }

    fn connect(&mut self, to: &Address, token: Token) -> ConnId {
        match begin_connect(to, &self.tuning) {
            Ok(fd) => {
                let id = self.conns.insert(Entry::Live(Conn::connecting(fd, token)));
                self.mark_dirty(id);
                id
            }
            Err(error) => {
                let id = self.conns.insert(Entry::Stillborn(token, error));
                self.failing.push(id);
                id
            }
        }
    }

    fn recv(&mut self, conn: ConnId, on: bool) {
        let Some(live) = self.live(conn) else { return };
        if live.recv_on == on {
            return;
        }
        live.recv_on = on;
        if on && live.watch == Watch::Parked {
            live.watch = Watch::Idle;
        }
        self.mark_dirty(conn);
        self.mark_ready(conn);
    }

    fn send(&mut self, conn: ConnId, buf: Vec<u8>) -> Option<Vec<u8>> {
        debug_assert!(!buf.is_empty(), "an empty send would never be told as sent");
        // To a stale id the bytes are lost as they would be on a closed connection.
        let held = self.ring.copies_bytes() + self.copied_bytes;
        let may_copy = held + buf.len() <= self.copies_bytes_max;
        let Self { conns, spare, .. } = self;
        let Some(Entry::Live(live)) = conns.get_mut(conn) else { return None };
        if may_copy && live.copy(&buf, spare) {
            self.copied_bytes += buf.len();
            self.mark_dirty(conn);
            return Some(buf);
        }
        match live.send_large(buf) {
            Ok(Some(buf)) => return Some(buf),
            Ok(None) => self.mark_dirty(conn),
            Err(error) => self.mark_failed(conn, error),
        }
        None
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(Entry::Live(live)) = self.conns.remove(conn) {
            self.retire(conn, live, true);
        }
    }

    fn reset(&mut self, conn: ConnId) {
        if let Some(Entry::Live(live)) = self.conns.remove(conn) {
            drop_unsent(&live.fd);
            self.retire(conn, live, false);
        }
    }

    fn accept(&mut self, on: bool) {
        self.acceptor.set(&mut self.ring, on);
    }

    fn listen(&mut self, keeps: &dyn Fn(ListenerId) -> bool, more: Vec<Listener>) {
        self.acceptor.change(&mut self.ring, keeps, more);
    }

    fn close_listeners(&mut self) {
        self.acceptor.close(&mut self.ring);
    }

    fn tune(&mut self, tuning: &Tuning) {
        self.tuning = tuning.clone();
        self.acceptor.tune(tuning);
    }

    fn uring_counts(&self) -> Option<UringCounts> {
        Some(self.counts())
    }

    fn wait(&mut self, wait: Wait, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        loop {
            self.round += 1;
            self.flush();
            let (want, timeout_us) = self.plan(wait);
            self.ring.enter(want, timeout_us);
            if !self.doomed.is_empty() && self.ring.is_submitted() {
                self.doomed.clear();
            }
            let told = self.dispatch(on_event);
            let over = match wait {
                Wait::Poll | Wait::Gather { .. } => true,
                Wait::Until(until_us) => told > 0 || self.now_us() >= until_us,
                Wait::Forever => told > 0,
            };
            if over {
                return told;
            }
        }
    }
}

/// System calls of one wait that fetch what is there beyond the first. Kernels from 6.13 on complete twenty operations in each: some 500, as many events
/// as the epoll driver takes at once. What is beyond comes with the next wait, so that sends and timers get their turn.
const FETCHES_MAX: usize = 25;

/// Completions that a gather waits for at most: within the room of the queue, whatever is asked for.
const GATHER_MAX: u32 = 1024;

/// Copies that the kernel has not sent, at most, of all connections together. They are a fast way for those who read, and the caller, who has its buffers
/// back, does not know of them: what many hold who do not read must be the caller's to count.
const COPIES_BYTES_MAX: usize = 8 << 20;

/// Buffers of copies that are kept for use: as many as a large turn sends. At most 8 MiB, mostly far less.
const SPARES_MAX: usize = 256;

#[cfg(test)]
mod tests;
