//! The driver over epoll, level-triggered.
//!
//! It imitates completions: a send is tried at once and its rest is reported later, receiving is
//! "armed" by asking for readability. The kernel's TCP path is most of the cost of a proxy, so the
//! rule here is to make no system call that is not needed: one recv per readiness into one shared
//! buffer, no interest in writability but while a send is unfinished, `epoll_ctl` only on change, no
//! `epoll_ctl` at all to close.
//!
//! Level-triggered, because the cost is the same and a connection that was not read to its end needs
//! no list of its own to be remembered by: the next wait names it again.
//!
//! Not here: what is read when, timeouts of connections, anything about the bytes. `wait` borrows the
//! driver while its callback runs, so no call can come in the middle of a batch.
//!
//! Invariant: what epoll is told of a connection (`Conn::registered`) is what its state asks for
//! (`Conn::interest`) whenever no method is running; so no state can spin and none can be forgotten.
//!
//! Where to read next: `conn` for one connection, `accept` for listeners.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::driver::{
    Accepted, Address, CloseReason, ConnId, Driver, Event, INPUT_PER_WAIT_BYTES, ListenerId, Token,
    Tuning, Wait,
};
use crate::listener::Listener;
use crate::slab::Slab;
use crate::socket::{begin_connect, connect_outcome, drop_unsent};
use crate::sys::{self, EpollEvents};
use crate::waker::Waker;

pub use crate::accepting::Stream;

use accept::Acceptor;
use conn::{Conn, Read};

mod accept;
mod conn;

/// Settings of an [`EpollDriver`].
#[derive(Clone, Debug)]
pub struct EpollOptions {
    /// Size of the one buffer that all connections receive into, in bytes; the longest
    /// [`Event::Received`]. At least 1.
    pub recv_bytes: usize,
    /// For connections that [`Driver::connect`] makes. Accepted ones have what their listener says.
    pub tuning: Tuning,
}

impl Default for EpollOptions {
    /// 64 KiB: beyond that a read did not get cheaper per byte, and the buffer should stay in the
    /// second-level cache.
    fn default() -> Self {
        Self { recv_bytes: 64 << 10, tuning: Tuning::default() }
    }
}

/// The real network. It may be made on one thread and used on another.
pub struct EpollDriver {
    epoll: OwnedFd,
    conns: Slab<Entry>,
    /// Events of the last epoll_wait; kept for its memory.
    events: EpollEvents,
    /// How many of them were handed out.
    handed_out: usize,
    /// Bytes that the running wait handed out.
    input_bytes: usize,
    recv_buf: Box<[u8]>,
    /// Connections whose end is known and not yet told; the next wait does not sleep. Ids may be
    /// stale: then the caller closed, or the socket's own event was faster.
    failing: Vec<ConnId>,
    acceptor: Acceptor,
    waker: Waker,
    tuning: Tuning,
}

/// What lives at a place of the slab.
#[derive(Debug)]
enum Entry {
    /// A connection with a socket.
    Live(Conn),
    /// A connect that failed before there was anything to wait for; told by the next wait.
    Stillborn(Token, Errno),
}

impl EpollDriver {
    /// A driver that will accept from `listeners` (none is fine) once [`Driver::accept`] says so.
    ///
    /// # Errors
    /// No descriptor or no memory left. It needs two descriptors.
    pub fn new(options: &EpollOptions, listeners: Vec<Listener>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = Waker::new()?;
        if let Some(fd) = waker.watched() {
            epoll::add(&epoll, fd, EventData::new_u64(WAKER_DATA), EventFlags::IN)?;
        }
        Ok(Self {
            epoll,
            conns: Slab::new(),
            events: EpollEvents::with_room(EVENTS_PER_WAIT),
            handed_out: 0,
            input_bytes: 0,
            recv_buf: vec![0; options.recv_bytes.max(1)].into_boxed_slice(),
            failing: Vec::new(),
            acceptor: Acceptor::new(listeners, &options.tuning),
            waker,
            tuning: options.tuning.clone(),
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

    fn live(&mut self, id: ConnId) -> Option<&mut Conn> {
        match self.conns.get_mut(id) {
            Some(Entry::Live(conn)) => Some(conn),
            _ => None,
        }
    }

    /// Makes epoll agree with the state of the connection, after a change. A connection that cannot
    /// be watched (ENOMEM, or ENOSPC by `max_user_watches`) would hang for ever, so it is given up.
    fn sync(&mut self, id: ConnId) {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return };
        if let Err(error) = conn.sync(&self.epoll, conn_data(id)) {
            conn.failed.get_or_insert(error);
            self.failing.push(id);
        }
    }

    /// Microseconds that the next epoll_wait may take; `None` is for ever.
    fn sleep_us(&self, wait: Wait) -> Option<u64> {
        if !self.failing.is_empty() {
            return Some(0);
        }
        let until_us = match wait {
            Wait::Poll | Wait::Gather { .. } => return Some(0),
            Wait::Until(until_us) => Some(until_us),
            Wait::Forever => None,
        };
        let until_us = [until_us, self.acceptor.resume_us()].into_iter().flatten().min()?;
        Some(until_us.saturating_sub(self.now_us()))
    }

    /// Waits for events, for so long at most.
    fn take_events(&mut self, sleep_us: Option<u64>) {
        self.handed_out = 0;
        if let Err(error) = self.events.wait(self.epoll.as_fd(), sleep_us) {
            // Only a signal can interrupt it; any other error would be a bug of this file.
            debug_assert_eq!(error, Errno::INTR, "epoll_wait failed");
        }
    }

    /// Whether the last epoll_wait brought more than was handed out so far. What it said may be out of date: a read or a send then finds nothing
    /// to do, and of a connection that was closed the id is stale.
    fn has_rest(&self) -> bool {
        self.handed_out < self.events.len()
    }

    /// Handles what the last epoll_wait brought, as far as a wait goes, then the connections that failed outside of it.
    fn dispatch(&mut self, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        let mut told = 0;
        self.input_bytes = 0;
        while self.has_rest() && self.input_bytes < INPUT_PER_WAIT_BYTES {
            let (flags, data) = self.events.at(self.handed_out);
            self.handed_out += 1;
            told += match data {
                WAKER_DATA => {
                    self.waker.take();
                    on_event(Event::Woken);
                    1
                }
                data if data >= LISTENER_DATA => {
                    let listener = (data - LISTENER_DATA) as usize;
                    self.acceptor.serve(&self.epoll, listener, on_event)
                }
                data => self.serve(conn_id(data), flags, on_event),
            };
        }
        // After the sockets' own events, so that bytes that came before a failure are told first.
        for at in 0..self.failing.len() {
            told += self.fail(self.failing[at], on_event);
        }
        self.failing.clear();
        told
    }

    /// Handles readiness of one connection: at most one recv and one send.
    fn serve(
        &mut self,
        id: ConnId,
        flags: EventFlags,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        if conn.connecting {
            return self.finish_connect(id, on_event);
        }
        let reads = conn.reads();
        let sends = conn.in_flight.is_some();
        let ended = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        let mut told = 0;
        if reads && (ended || flags.contains(EventFlags::IN)) {
            told += self.receive(id, flags, on_event);
        }
        if sends && (ended || flags.contains(EventFlags::OUT)) {
            told += self.send_rest(id, on_event);
        }
        if !reads && !sends && ended {
            told += self.ended_unasked(id, flags, on_event);
        }
        told
    }

    /// One recv; the common case of the whole driver.
    fn receive(
        &mut self,
        id: ConnId,
        flags: EventFlags,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        match conn.receive(&mut self.recv_buf) {
            Read::Bytes(count) => {
                self.input_bytes += count;
                on_event(Event::Received(conn.token, &self.recv_buf[..count]));
            }
            Read::End => {
                conn.eof = true;
                on_event(Event::Eof(conn.token));
                self.sync(id);
            }
            Read::Broken(error) => self.remove_broken(id, error, on_event),
            Read::Nothing if flags.contains(EventFlags::ERR) => {
                return self.ended_unasked(id, flags, on_event);
            }
            Read::Nothing => return 0,
        }
        1
    }

    /// Goes on with the send in flight; the socket has room or is broken.
    fn send_rest(&mut self, id: ConnId, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        // `receive` may just have ended the connection.
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        match conn.send_rest() {
            Ok(Some(buf)) => {
                on_event(Event::Sent(conn.token, buf));
                self.sync(id);
                1
            }
            Ok(None) => 0,
            Err(error) => {
                conn.failed = Some(error);
                self.fail(id, on_event)
            }
        }
    }

    /// The connection ended while nothing was asked of it.
    ///
    /// An error is told. A bare hang-up is not: a unix peer that closed gives one at once although its
    /// last bytes are still to be read, and they must not be lost because reading was paused. Epoll
    /// reports a hang-up whether asked or not, so the socket is taken out of it, until receiving is
    /// armed again or a send fails.
    fn ended_unasked(
        &mut self,
        id: ConnId,
        flags: EventFlags,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        if flags.contains(EventFlags::ERR) {
            let error = match sockopt::socket_error(&conn.fd) {
                Ok(Err(error)) | Err(error) => error,
                // The error was taken by somebody; the connection is no better for it.
                Ok(Ok(())) => Errno::PIPE,
            };
            self.remove_broken(id, error, on_event);
            return 1;
        }
        conn.park(&self.epoll);
        0
    }

    /// Ends a connection whose failure was found by a send or by the bookkeeping. What the peer sent
    /// before is told first: often it is the error text that explains the failure.
    fn fail(&mut self, id: ConnId, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        let conn = match self.conns.get_mut(id) {
            None => return 0,
            Some(Entry::Live(conn)) => conn,
            Some(Entry::Stillborn(token, error)) => {
                let reason = CloseReason::ConnectFailed(error.raw_os_error());
                on_event(Event::Closed(*token, reason));
                self.conns.remove(id);
                return 1;
            }
        };
        let Some(error) = conn.failed else { return 0 };
        let mut told = 0;
        while conn.reads() && told < LAST_READS_MAX {
            let Read::Bytes(count) = conn.receive(&mut self.recv_buf) else { break };
            on_event(Event::Received(conn.token, &self.recv_buf[..count]));
            told += 1;
        }
        self.remove_broken(id, error, on_event);
        told + 1
    }

    fn finish_connect(
        &mut self,
        id: ConnId,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        match connect_outcome(&conn.fd) {
            Ok(()) => {
                conn.connecting = false;
                on_event(Event::Connected(conn.token));
                self.sync(id);
            }
            Err(error) => {
                let reason = CloseReason::ConnectFailed(error.raw_os_error());
                on_event(Event::Closed(conn.token, reason));
                self.conns.remove(id);
            }
        }
        1
    }

    fn remove_broken(
        &mut self,
        id: ConnId,
        error: Errno,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) {
        // Dropping the only descriptor of a socket takes it out of epoll.
        if let Some(Entry::Live(conn)) = self.conns.remove(id) {
            // A connection that could not even be watched while connecting never came to be.
            let reason = match conn.connecting {
                true => CloseReason::ConnectFailed(error.raw_os_error()),
                false => CloseReason::Broken(error.raw_os_error()),
            };
            on_event(Event::Closed(conn.token, reason));
        }
    }
}

impl Driver for EpollDriver {
    type Socket = Stream;

    fn now_us(&self) -> u64 {
        sys::monotonic_us()
    }

    fn adopt(&mut self, accepted: Accepted<Stream>, token: Token) -> ConnId {
        let id = self.conns.insert(Entry::Live(Conn::open(accepted.socket.0, token)));
        self.sync(id);
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
                self.sync(id);
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
        if let Some(live) = self.live(conn) {
            live.recv_on = on;
            self.sync(conn);
        }
    }

    fn send(&mut self, conn: ConnId, buf: Vec<u8>) -> Option<Vec<u8>> {
        debug_assert!(!buf.is_empty(), "an empty send would never be told as sent");
        // To a stale id the bytes are lost as they would be on a closed connection.
        let live = self.live(conn)?;
        match live.send(buf) {
            Ok(Some(buf)) => return Some(buf),
            Ok(None) => self.sync(conn),
            Err(error) => {
                live.failed = Some(error);
                self.failing.push(conn);
            }
        }
        None
    }

    fn close(&mut self, conn: ConnId) {
        // Dropping the only descriptor of a socket takes it out of epoll.
        self.conns.remove(conn);
    }

    fn reset(&mut self, conn: ConnId) {
        if let Some(Entry::Live(live)) = self.conns.remove(conn) {
            drop_unsent(&live.fd);
        }
    }

    fn accept(&mut self, on: bool) {
        self.acceptor.set(&self.epoll, on);
    }

    fn listen(&mut self, keeps: &dyn Fn(ListenerId) -> bool, more: Vec<Listener>) {
        self.acceptor.change(&self.epoll, keeps, more);
    }

    fn close_listeners(&mut self) {
        self.acceptor.close(&self.epoll);
    }

    fn tune(&mut self, tuning: &Tuning) {
        self.tuning = tuning.clone();
        self.acceptor.tune(tuning);
    }

    /// `completions` of [`Wait::Gather`] is ignored: epoll can sleep until the first event or for a
    /// time, not until the n-th event.
    fn wait(&mut self, wait: Wait, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        if let Wait::Gather { until_us, .. } = wait
            && until_us > self.now_us()
        {
            sys::sleep_until(until_us);
        }
        loop {
            self.acceptor.resume_if_due(&self.epoll);
            if !self.has_rest() {
                self.take_events(self.sleep_us(wait));
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

/// The epoll data of a connection: its id in one word.
fn conn_data(id: ConnId) -> EventData {
    EventData::new_u64(u64::from(id.index) << 32 | u64::from(id.generation))
}

fn conn_id(data: u64) -> ConnId {
    ConnId { index: (data >> 32) as u32, generation: data as u32 }
}

/// Events taken per epoll_wait. Beyond it the kernel hands out the others next time, in turn.
const EVENTS_PER_WAIT: usize = 512;

/// Reads of a connection that failed on sending, before its end is told. With the default buffer
/// 1 MiB, more than an error text needs.
const LAST_READS_MAX: usize = 16;

/// Epoll data from here on is a listener's. As the index of a connection is the upper half, it would
/// take 2^32 - 2 connections to collide.
const LISTENER_DATA: u64 = 0xFFFF_FFFE << 32;

/// Epoll data of the waker.
const WAKER_DATA: u64 = u64::MAX;
