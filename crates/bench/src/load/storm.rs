//! The storm: each client connects, sends one request, takes its reply, closes, and begins anew.
//!
//! A log-in (`AUTH`, `HELLO 3`, `SELECT`), if one is needed, travels in the same write as the request, and its replies
//! are part of the round. The latency counts from the begin of the connect to the reply.
//!
//! Connections are closed as real clients do, with a FIN. That leaves the client's port in TIME_WAIT, and there are
//! about 28 000 ports; Linux uses such a port of loopback again after one second (`net.ipv4.tcp_tw_reuse` is 2 by
//! default since 4.19), which is enough for 28 000 connections per second. Closing with a reset (SO_LINGER 0) would
//! avoid it, but then the target would take its error path, which is not what it does for clients that behave. Where
//! ports do run out the load fails and says so.
//!
//! Invariant: never more than `clients` connections at a time, and each carries one request.

use std::io;

use super::LoadError;
use super::conn::{Conn, READ_BYTES, Sent};
use super::control::Tally;
use super::greet::{self, Greeting};
use super::poll::{Interest, Poll};
use super::stream::Stream;
use super::supply::Supply;
use super::worker::Job;

/// One thread's part of a storm.
pub(super) struct Storm<'a> {
    job: Job<'a>,
    poll: Poll,
    supply: Supply<'a>,
    greeting: Greeting,
    /// `None`: this client has ended, since no request is left.
    conns: Vec<Option<Conn>>,
    buffer: Vec<u8>,
    tally: Tally,
    active: usize,
    heard_ns: u64,
}

impl<'a> Storm<'a> {
    /// Prepares. Nothing is connected before the gate opens.
    pub(super) fn prepare(job: Job<'a>) -> Result<Self, LoadError> {
        let mut conns = Vec::new();
        conns.resize_with(job.clients() as usize, || None);
        Ok(Self {
            poll: Poll::new().map_err(|error| greet::unreachable(job.endpoint, &error))?,
            supply: job.supply()?,
            greeting: Greeting::new(&job.endpoint.url, job.plan.resp),
            buffer: vec![0; READ_BYTES],
            tally: Tally::new(),
            active: conns.len(),
            heard_ns: 0,
            conns,
            job,
        })
    }

    /// Runs until the load is over or no request is left.
    pub(super) fn run(mut self) -> Result<Tally, LoadError> {
        self.heard_ns = self.job.control.now_ns();
        for token in 0..self.conns.len() {
            self.begin(token)?;
        }
        while !self.job.control.is_over() && self.active > 0 {
            self.poll.wait().map_err(|error| self.failed(&error))?;
            let now_ns = self.job.control.now_ns();
            let (mut at, mut replies) = (0, 0);
            while let Some(event) = self.poll.event(at) {
                at += 1;
                let Some(event) = event else { continue };
                if event.writable && !event.broken {
                    self.push(event.token)?;
                }
                if event.readable && self.read(event.token, now_ns)? {
                    replies += 1;
                    self.heard_ns = now_ns;
                    self.tally.last_ns = now_ns;
                    self.begin(event.token)?;
                }
            }
            self.job.control.add_live(replies);
            self.job.refuse_silence(self.heard_ns, now_ns)?;
        }
        Ok(self.tally)
    }

    /// Begins a client's next round, or ends the client.
    fn begin(&mut self, token: usize) -> Result<(), LoadError> {
        // Closed first: its port and its place at the target are free before the next one asks for one.
        let Some(place) = self.conns.get_mut(token) else { return Ok(()) };
        *place = None;
        if self.job.control.is_over() || self.job.control.take(1) == 0 {
            self.active -= 1;
            return Ok(());
        }
        let since_ns = self.job.control.now_ns();
        let socket = self
            .job
            .address
            .dial(true, None)
            .map_err(|error| greet::unreachable(self.job.endpoint, &error))?;
        let stream =
            Stream::new(socket, self.job.endpoint.tls.as_ref()).map_err(LoadError::Connection)?;
        let mut conn = Conn::new(stream, 1 + self.greeting.commands.len());
        self.supply.bytes.clear();
        self.supply.bytes.extend_from_slice(&self.greeting.bytes);
        // Log-ins are numbered from the top, where no request of a mix is.
        conn.sent.extend(
            (0..self.greeting.commands.len() as u32)
                .map(|number| Sent { since_ns, request: u32::MAX - number }),
        );
        let request = self.supply.requests.write(&mut self.supply.chooser, &mut self.supply.bytes);
        conn.sent.push_back(Sent { since_ns, request });
        // While the connect is under way the socket takes nothing and the bytes are kept.
        let sent = conn.send(&self.supply.bytes);
        sent.map_err(|fault| {
            self.job.explain(fault, &self.supply.requests, &self.greeting.commands)
        })?;
        let interest = Interest { read: true, write: conn.wants_write() };
        self.poll.add(conn.stream(), token, interest).map_err(|error| self.failed(&error))?;
        if let Some(place) = self.conns.get_mut(token) {
            *place = Some(conn);
        }
        Ok(())
    }

    /// Sends what was kept.
    fn push(&mut self, token: usize) -> Result<(), LoadError> {
        let Some(Some(conn)) = self.conns.get_mut(token) else { return Ok(()) };
        let flushed = conn.flush();
        flushed.map_err(|fault| {
            self.job.explain(fault, &self.supply.requests, &self.greeting.commands)
        })?;
        let interest = Interest { read: true, write: conn.wants_write() };
        self.poll
            .set(conn.stream(), token, interest)
            .map_err(|error| greet::unreachable(self.job.endpoint, &error))
    }

    /// Reads; true when the client's round is over.
    fn read(&mut self, token: usize, now_ns: u64) -> Result<bool, LoadError> {
        let Some(Some(conn)) = self.conns.get_mut(token) else { return Ok(false) };
        let counts = self.job.control.counts(now_ns);
        let tally = &mut self.tally;
        let received = conn.receive(&mut self.buffer, usize::MAX, |sent, null| {
            // The replies to the log-in are no requests of the plan.
            if counts && sent.request < u32::MAX / 2 {
                tally.count(now_ns.saturating_sub(sent.since_ns), null);
            }
        });
        received.map_err(|fault| {
            self.job.explain(fault, &self.supply.requests, &self.greeting.commands)
        })?;
        let is_answered = conn.sent.is_empty();
        if !is_answered && conn.wants_write() {
            // A TLS handshake answers what it reads.
            self.push(token)?;
        }
        Ok(is_answered)
    }

    fn failed(&self, error: &io::Error) -> LoadError {
        greet::unreachable(self.job.endpoint, error)
    }
}
