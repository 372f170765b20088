//! [`Driver`] inside the simulated network.
//!
//! A wait never blocks and never moves the time: it gives what is due now and notes until when the
//! worker wanted to sleep. The harness moves the time (see [`super::SimNet`]).
//!
//! Being test infrastructure it is strict: what the contract calls a bug of the caller panics here.
//!
//! Invariant: each connection gives at most one `Received` per wait, as with epoll, and what is left
//! puts the connection on the ready list again, so nothing is forgotten.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use super::net::{Connect, EndId, Net, Owner};
use crate::driver::{
    Accepted, Address, CloseReason, ConnId, Driver, Event, ListenerId, Token, Tuning, Wait,
};
use crate::listener::Listener;
use crate::slab::Slab;
use crate::waker::Waker;

/// A worker's view of the simulated network.
pub struct SimDriver {
    net: Rc<RefCell<Net>>,
    me: usize,
    conns: Slab<SimConn>,
    waker: Waker,
    /// Places of its listeners in the network; the number of one in this list is its id.
    listens: Vec<usize>,
}

/// A simulated socket on its way to the worker that will own it. Dropping it closes it.
#[derive(Debug)]
pub struct SimSocket {
    end: EndId,
    /// Where the end is entered when this is dropped; `None` once it was adopted.
    dropped: Option<Arc<Mutex<Vec<EndId>>>>,
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.lock().unwrap_or_else(PoisonError::into_inner).push(self.end);
        }
    }
}

struct SimConn {
    token: Token,
    end: EndId,
    connecting: bool,
    recv_on: bool,
    eof: bool,
    /// The send in flight, and how much of it is out.
    in_flight: Option<(Vec<u8>, usize)>,
}

/// An event of one connection, with its bytes.
enum Told {
    Connected,
    Received(Vec<u8>),
    Eof,
    Sent(Vec<u8>),
    Closed(CloseReason),
}

impl fmt::Debug for Told {
    /// Bytes by their number: a trace of streams would be unreadable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => write!(f, "Connected"),
            Self::Received(bytes) => write!(f, "Received {}", bytes.len()),
            Self::Eof => write!(f, "Eof"),
            Self::Sent(buf) => write!(f, "Sent {}", buf.len()),
            Self::Closed(why) => write!(f, "Closed {why:?}"),
        }
    }
}

impl SimDriver {
    pub(super) fn new(net: Rc<RefCell<Net>>, me: usize, waker: Waker, listens: Vec<usize>) -> Self {
        Self { net, me, conns: Slab::new(), waker, listens }
    }

    /// A waker of this driver.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Whether the driver has events to give, or its last wait is over by now: a worker on a real network would wake up.
    pub fn is_due(&self) -> bool {
        let net = self.net.borrow();
        let deadline_us = net.drivers[self.me].deadline_us;
        net.is_ready(self.me) || deadline_us.is_some_and(|at_us| at_us <= net.now_us)
    }

    /// How many connections it holds, with those that are still connecting.
    pub fn conns(&self) -> usize {
        self.conns.len()
    }

    /// Takes an end over: from here on what happens at it is told to this driver.
    fn insert(&mut self, end: EndId, token: Token, connecting: bool) -> ConnId {
        let conn = SimConn { token, end, connecting, recv_on: true, eof: false, in_flight: None };
        let id = self.conns.insert(conn);
        let mut net = self.net.borrow_mut();
        net.end_mut(end).owner = Owner::Driver(self.me, id);
        // What came before it had an owner was told to nobody, so the first wait looks.
        net.make_ready(end);
        id
    }

    /// Accepts what waits for this driver, or fails to by chance and rests as epoll's acceptor does.
    fn accept_waiting(&mut self, on_event: &mut impl FnMut(Event<'_, SimSocket>)) -> usize {
        let mut told = 0;
        while told < ACCEPTS_PER_WAIT {
            let mut net = self.net.borrow_mut();
            let Some((place, at)) = net.waiting_for(self.me) else { break };
            let Some((end, _)) = net.listeners[place].backlog.get(at).copied() else { break };
            let faults = net.end(end).faults;
            if net.rng.chance(faults.accept_failed_ppm) {
                let resume_us = net.now_us + ACCEPT_PAUSE_US;
                net.drivers[self.me].accept_from_us = resume_us;
                net.note(format_args!("driver {} AcceptFailed", self.me));
                drop(net);
                on_event(Event::AcceptFailed(libc::EMFILE));
                return told + 1;
            }
            net.listeners[place].backlog.remove(at);
            net.note(format_args!("driver {} Accepted {end:?}", self.me));
            let socket = SimSocket { end, dropped: Some(Arc::clone(&net.dropped)) };
            let (peer, local) = (net.end(end).peer.clone(), net.end(end).local.clone());
            drop(net);
            let ip = peer.parse().ok().map(|peer: SocketAddr| peer.ip().to_canonical());
            let number = self.listens.iter().position(|own| *own == place).unwrap_or_default();
            let listener = ListenerId(number as u32);
            on_event(Event::Accepted(Accepted {
                socket,
                peer,
                local,
                ip,
                listener,
                is_surplus: false,
            }));
            told += 1;
        }
        told
    }

    /// Everything that one connection has to tell now.
    ///
    /// Returned and not called back, so that the network is not borrowed while the worker's code runs.
    fn serve(&mut self, id: ConnId) -> Vec<Told> {
        let Some(conn) = self.conns.get_mut(id) else { return Vec::new() };
        let net = &mut *self.net.borrow_mut();
        net.end_mut(conn.end).queued = false;
        if conn.connecting {
            return match net.end(conn.end).connect {
                Connect::Pending => Vec::new(),
                Connect::Failed(error) => vec![Told::Closed(CloseReason::ConnectFailed(error))],
                Connect::Done => {
                    conn.connecting = false;
                    // Bytes may have come with it; they are the next wait's.
                    net.make_ready(conn.end);
                    vec![Told::Connected]
                }
            };
        }
        let mut told = Vec::new();
        told.extend(conn.receive(net));
        let end = net.end(conn.end);
        // As in Linux, what arrived before the reset can still be read, if somebody reads.
        if end.reset && !(conn.reads() && end.inbox.readable() > 0) {
            told.push(Told::Closed(CloseReason::Broken(libc::ECONNRESET)));
            return told;
        }
        if conn.reads() && (end.inbox.readable() > 0 || end.inbox.ended) {
            // More is there than one wait gives.
            net.make_ready(conn.end);
        }
        told.extend(conn.send_rest(net).map(Told::Sent));
        told
    }
}

impl SimConn {
    const fn reads(&self) -> bool {
        self.recv_on && !self.eof
    }

    /// One read, cut by chance, or the end of the stream.
    fn receive(&mut self, net: &mut Net) -> Option<Told> {
        if !self.reads() {
            return None;
        }
        let readable = net.end(self.end).inbox.readable();
        if readable > 0 {
            let count =
                net.some_of(readable.min(RECV_BYTES), net.end(self.end).faults.read_bytes_max);
            return Some(Told::Received(net.read(self.end, count)));
        }
        if net.end(self.end).inbox.ended && !net.end(self.end).reset {
            self.eof = true;
            return Some(Told::Eof);
        }
        None
    }

    /// Goes on with the send in flight; gives its buffer back when it is out.
    fn send_rest(&mut self, net: &mut Net) -> Option<Vec<u8>> {
        let (buf, sent) = self.in_flight.as_mut()?;
        let rest = buf.len() - *sent;
        let count_max = net.some_of(rest, net.end(self.end).faults.write_bytes_max);
        *sent += net.write(self.end, &buf[*sent..], count_max);
        if *sent < buf.len() {
            return None;
        }
        self.in_flight.take().map(|(buf, _)| buf)
    }
}

impl Driver for SimDriver {
    type Socket = SimSocket;

    fn now_us(&self) -> u64 {
        self.net.borrow().now_us
    }

    fn adopt(&mut self, mut accepted: Accepted<SimSocket>, token: Token) -> ConnId {
        // From here on the connection is closed by name and no more by dropping the socket.
        accepted.socket.dropped = None;
        self.insert(accepted.socket.end, token, false)
    }

    fn rename(&mut self, conn: ConnId, token: Token) {
        if let Some(state) = self.conns.get_mut(conn) {
            state.token = token;
        }
    }

    fn connect(&mut self, to: &Address, token: Token) -> ConnId {
        let end = self.net.borrow_mut().connect(to);
        self.insert(end, token, true)
    }

    fn recv(&mut self, conn: ConnId, on: bool) {
        let Some(state) = self.conns.get_mut(conn) else { return };
        state.recv_on = on;
        if on {
            // What arrived while it was off was looked at and left, so it has to be looked at again.
            self.net.borrow_mut().make_ready(state.end);
        }
    }

    fn send(&mut self, conn: ConnId, buf: Vec<u8>) -> Option<Vec<u8>> {
        assert!(!buf.is_empty(), "an empty send");
        let state = self.conns.get_mut(conn)?;
        assert!(state.in_flight.is_none(), "a second send while one is in flight");
        let net = &mut *self.net.borrow_mut();
        state.in_flight = Some((buf, 0));
        if state.connecting || net.end(state.end).reset {
            // The outcome of the connect, or the reset, is on the ready list and decides.
            return None;
        }
        state.send_rest(net)
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(state) = self.conns.remove(conn) {
            self.net.borrow_mut().close(state.end);
        }
    }

    fn reset(&mut self, conn: ConnId) {
        if let Some(state) = self.conns.remove(conn) {
            self.net.borrow_mut().abort(state.end);
        }
    }

    fn accept(&mut self, on: bool) {
        self.net.borrow_mut().drivers[self.me].accepting = on;
    }

    /// Nothing here is silent without a reason that the simulator gave.
    fn tune(&mut self, _: &Tuning) {}

    /// What listens in the real network cannot come into this one.
    fn listen(&mut self, keeps: &dyn Fn(ListenerId) -> bool, more: Vec<Listener>) {
        assert!(more.is_empty(), "a real listener in the simulated network");
        let net = &mut *self.net.borrow_mut();
        for (number, place) in self.listens.iter().enumerate() {
            if keeps(ListenerId(number as u32)) {
                continue;
            }
            let drivers = &mut net.listeners[*place].drivers;
            let shared = drivers.len();
            drivers.retain(|driver| *driver != self.me);
            if drivers.is_empty() && shared > 0 {
                net.close_listener(*place);
            }
        }
    }

    fn close_listeners(&mut self) {
        self.accept(false);
        self.listen(&|_| false, Vec::new());
    }

    /// Gives what is due at the current virtual time and returns; the end of the wanted sleep is noted
    /// for [`SimNet::next_wakeup`](super::SimNet::next_wakeup). A gather is no different: time only
    /// moves between waits.
    fn wait(&mut self, wait: Wait, on_event: &mut impl FnMut(Event<'_, SimSocket>)) -> usize {
        let (batch, split_ppm) = {
            let net = &mut *self.net.borrow_mut();
            net.bury_dropped();
            net.drivers[self.me].deadline_us = match wait {
                Wait::Poll | Wait::Forever => None,
                Wait::Until(until_us) | Wait::Gather { until_us, .. } => Some(until_us),
            };
            (std::mem::take(&mut net.drivers[self.me].ready), net.split_batch_ppm())
        };
        let mut told = self.accept_waiting(on_event);
        if self.waker.is_pending() {
            self.waker.take();
            on_event(Event::Woken);
            told += 1;
        }
        let mut batch = batch;
        while let Some(id) = batch.pop_front() {
            for event in self.serve(id) {
                told += 1;
                self.tell(id, event, on_event);
            }
            if told > 0 && self.net.borrow_mut().rng.chance(split_ppm) {
                break;
            }
        }
        // What was split off comes first next time, before what became ready meanwhile.
        let mut net = self.net.borrow_mut();
        let ready = &mut net.drivers[self.me].ready;
        batch.extend(ready.drain(..));
        *ready = batch;
        told
    }
}

impl SimDriver {
    /// Hands one event to the worker, and frees the connection if it was the last one.
    fn tell(&mut self, id: ConnId, event: Told, on_event: &mut impl FnMut(Event<'_, SimSocket>)) {
        let Some(conn) = self.conns.get(id) else { return };
        let (token, end) = (conn.token, conn.end);
        self.net.borrow_mut().note(format_args!("{token:?} {event:?}"));
        match event {
            Told::Connected => on_event(Event::Connected(token)),
            Told::Received(bytes) => on_event(Event::Received(token, &bytes)),
            Told::Eof => on_event(Event::Eof(token)),
            Told::Sent(buf) => on_event(Event::Sent(token, buf)),
            Told::Closed(why) => {
                self.conns.remove(id);
                self.net.borrow_mut().close(end);
                on_event(Event::Closed(token, why));
            }
        }
    }
}

impl Drop for SimDriver {
    /// A worker that goes takes its sockets with it, as a process does.
    fn drop(&mut self) {
        self.close_listeners();
        let mut net = self.net.borrow_mut();
        for conn in self.conns.drain() {
            net.close(conn.end);
        }
        net.drivers[self.me].ready.clear();
        net.drivers[self.me].deadline_us = None;
        net.drivers[self.me].gone = true;
    }
}

/// Longest `Received`, as with epoll.
const RECV_BYTES: usize = 64 << 10;

/// Connections accepted per wait, as with epoll.
const ACCEPTS_PER_WAIT: usize = 64;

/// Pause after a failed accept, as with epoll.
const ACCEPT_PAUSE_US: u64 = 100_000;
