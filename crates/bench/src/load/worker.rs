//! One thread of the generator: its connections, and a loop that reads, writes and waits.
//!
//! A turn of the loop first reads everything that came, then writes to every connection that may send: the way
//! redis-benchmark does it, whose requests therefore arrive in bursts, and so do ours. In the closed loop a connection
//! sends its next `pipeline` requests when *all* replies to the last ones are there, also as redis-benchmark does;
//! figures of both can be compared.
//!
//! The clock is read once for all replies of a turn (they were there when the wait returned) and once for each
//! connection that is written to, since behind fifty writes of some microseconds each the turn's time is stale.
//!
//! Not here: storms (`storm`), and what time and numbers of requests mean (`control`).
//!
//! Invariant: a request is counted at most once, and only a reply (or in the open loop, the load's end) counts it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::conn::{Conn, Fault, READ_BYTES};
use super::control::{Control, Tally};
use super::keys::Chooser;
use super::poll::{Event, Interest, Poll};
use super::requests::Requests;
use super::schedule::{Bucket, Schedule};
use super::stream::Address;
use super::supply::{Order, Supply};
use super::{Endpoint, LoadError, greet};
use crate::plan::{LoadPlan, Shape};

/// Receive buffer of a slow reader's socket, in bytes. The kernel doubles it; small, so that the target feels at once
/// that nobody reads.
const SLOW_RECEIVE_BYTES: usize = 4 * 1024;

/// How often a slow reader reads, in nanoseconds.
const SLOW_TURN_NS: u64 = 5_000_000;

/// What every thread of a load is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) address: &'a Address,
    pub(super) plan: &'a LoadPlan,
    pub(super) control: &'a Control<'a>,
    /// Number of this thread, and of all.
    pub(super) thread: u32,
    pub(super) threads: u32,
    /// The bytes of a `{value}`.
    pub(super) value: &'a [u8],
    /// An endpoint that says nothing at all for so long is given up.
    pub(super) silence_max: Duration,
}

impl<'a> Job<'a> {
    /// How many of the connections are this thread's.
    pub(super) fn clients(&self) -> u32 {
        let (all, threads) = (self.plan.clients, self.threads);
        all / threads + u32::from(self.thread < all % threads)
    }

    /// What makes this thread's requests.
    pub(super) fn supply(&self) -> Result<Supply<'a>, LoadError> {
        let plan = self.plan;
        Ok(Supply {
            requests: Requests::new(plan, self.value).map_err(LoadError::Plan)?,
            chooser: Chooser::new(&plan.keys, plan.seed, self.thread, self.threads)
                .map_err(LoadError::Plan)?,
            control: self.control,
            pipeline: plan.pipeline,
            schedule: None,
            bytes: Vec::with_capacity(4096),
        })
    }

    /// Gives up an endpoint from which nothing came since `heard_ns`.
    pub(super) fn refuse_silence(&self, heard_ns: u64, now_ns: u64) -> Result<(), LoadError> {
        let silence = Duration::from_nanos(now_ns.saturating_sub(heard_ns));
        if silence <= self.silence_max {
            return Ok(());
        }
        let (url, seconds) = (&self.endpoint.url, silence.as_secs_f64());
        Err(LoadError::Connection(format!(
            "{url}: it stopped answering; nothing came for {seconds:.1} s"
        )))
    }

    /// Says in words what went wrong with a connection.
    pub(super) fn explain(
        &self,
        fault: Fault,
        requests: &Requests,
        greeting: &[&'static str],
    ) -> LoadError {
        let url = &self.endpoint.url;
        match fault {
            Fault::Closed => LoadError::Connection(format!(
                "{url}: it closed a connection in the middle of the load"
            )),
            Fault::Io(error) => greet::unreachable(self.endpoint, &error),
            Fault::Protocol(text) => LoadError::Protocol(format!("{url}: {text}")),
            Fault::Error { request, text } => {
                let greeted = request.and_then(|number| greeting.get((u32::MAX - number) as usize));
                let command = match (greeted, request) {
                    (Some(command), _) => (*command).to_owned(),
                    (None, Some(number)) => requests.text(number).to_owned(),
                    // Said without being asked: by a proxy that has no room for another client, for one.
                    (None, None) => "connect".to_owned(),
                };
                LoadError::ErrorReply { command, text }
            }
        }
    }
}

/// A connection and what it has still to do.
#[derive(Debug)]
struct Client {
    conn: Conn,
    order: Order,
    /// Slow reader: what it may read.
    bucket: Option<Bucket>,
    /// It stands in `Worker::ready`.
    is_ready: bool,
    /// It has nothing more to do.
    is_done: bool,
    interest: Interest,
}

/// One thread's work.
pub(super) struct Worker<'a> {
    job: Job<'a>,
    poll: Poll,
    clients: Vec<Client>,
    supply: Supply<'a>,
    /// Open loop: requests of the schedule that were given to a lane.
    released: u64,
    /// Open loop: all requests of a counted load are released.
    is_exhausted: bool,
    /// Clients that may have something to send.
    ready: VecDeque<usize>,
    buffer: Vec<u8>,
    tally: Tally,
    /// Clients that have something to do.
    active: usize,
    /// Replies of this turn.
    replies: u64,
    /// Replies of all turns.
    replies_all: u64,
    /// When something was last received.
    heard_ns: u64,
}

impl<'a> Worker<'a> {
    /// Connects this thread's clients.
    pub(super) fn connect(job: Job<'a>) -> Result<Self, LoadError> {
        let plan = job.plan;
        let poll = Poll::new().map_err(system)?;
        let slow = matches!(plan.shape, Shape::SlowReader { .. });
        let mut clients = Vec::with_capacity(job.clients() as usize);
        for token in 0..job.clients() as usize {
            if job.control.is_over() {
                break;
            }
            let receive_bytes = slow.then_some(SLOW_RECEIVE_BYTES);
            let stream = greet::connect(job.endpoint, job.address, plan.resp, receive_bytes)?;
            stream.set_blocking(false).map_err(system)?;
            // A slow reader is woken by time, not by its socket.
            let interest = Interest { read: !slow, write: false };
            poll.add(&stream, token, interest).map_err(system)?;
            clients.push(Client {
                conn: Conn::new(stream, plan.pipeline as usize),
                order: Order::default(),
                bucket: None,
                is_ready: false,
                is_done: false,
                interest,
            });
        }
        Ok(Self {
            poll,
            supply: job.supply()?,
            released: 0,
            is_exhausted: false,
            ready: VecDeque::with_capacity(clients.len()),
            buffer: vec![0; READ_BYTES],
            tally: Tally::new(),
            active: clients.len(),
            replies: 0,
            replies_all: 0,
            heard_ns: 0,
            clients,
            job,
        })
    }

    /// Runs until the load is over or this thread's part of it is done.
    pub(super) fn run(mut self) -> Result<Tally, LoadError> {
        let start_ns = self.job.control.now_ns();
        self.heard_ns = start_ns;
        match self.job.plan.shape {
            Shape::Open { rate } => {
                let share = self.clients.len() as f64 / f64::from(self.job.plan.clients);
                let (thread, threads) = (self.job.thread, self.job.threads);
                let schedule = Schedule::new(start_ns, rate, share, thread, threads);
                self.supply.schedule = Some((schedule, self.clients.len() as u64));
            }
            Shape::SlowReader { bytes_per_s } => {
                self.clients
                    .iter_mut()
                    .for_each(|client| client.bucket = Some(Bucket::new(bytes_per_s, start_ns)));
            }
            Shape::Closed | Shape::Storm => {}
        }
        (0..self.clients.len()).for_each(|token| self.make_ready(token));
        while !self.job.control.is_over() && self.active > 0 {
            self.turn()?;
        }
        self.settle();
        Ok(self.tally)
    }

    fn turn(&mut self) -> Result<(), LoadError> {
        self.write_ready()?;
        self.arm_timer().map_err(system)?;
        if self.active == 0 {
            return Ok(());
        }
        self.poll.wait().map_err(system)?;
        let now_ns = self.job.control.now_ns();
        let mut at = 0;
        while let Some(event) = self.poll.event(at) {
            at += 1;
            if let Some(event) = event {
                self.handle(event, now_ns)?;
            }
        }
        if matches!(self.job.plan.shape, Shape::SlowReader { .. }) {
            for token in 0..self.clients.len() {
                self.read(token, now_ns, false)?;
            }
        }
        self.replies_all += self.replies;
        self.job.control.add_live(std::mem::take(&mut self.replies));
        self.release_due(now_ns);
        self.check_silence(now_ns)
    }

    #[inline]
    fn handle(&mut self, event: Event, now_ns: u64) -> Result<(), LoadError> {
        if event.readable {
            self.read(event.token, now_ns, event.broken)?;
        }
        if event.writable {
            self.make_ready(event.token);
        }
        Ok(())
    }

    /// Reads from one connection. `broken`: its end is near, so read whatever the bucket says.
    #[inline]
    fn read(&mut self, token: usize, now_ns: u64, broken: bool) -> Result<(), LoadError> {
        let counts = self.job.control.counts(now_ns);
        let (tally, replies) = (&mut self.tally, &mut self.replies);
        let Some(client) = self.clients.get_mut(token) else { return Ok(()) };
        let bytes_max = match &mut client.bucket {
            Some(bucket) if !broken => bucket.allowance(now_ns),
            _ => usize::MAX,
        };
        let received = client.conn.receive(&mut self.buffer, bytes_max, |sent, null| {
            *replies += 1;
            if counts {
                tally.count(now_ns.saturating_sub(sent.since_ns), null);
            }
        });
        let bytes =
            received.map_err(|fault| self.job.explain(fault, &self.supply.requests, &[]))?;
        if bytes == 0 {
            return Ok(());
        }
        self.heard_ns = now_ns;
        self.tally.last_ns = now_ns;
        if let Some(bucket) = &mut client.bucket {
            bucket.take(bytes);
        }
        // In the open loop every reply makes room; in the closed one only the last of a batch does.
        let has_room = client.conn.sent.is_empty() || client.order.lane.backlog() > 0;
        if has_room || client.conn.wants_write() {
            self.make_ready(token);
        }
        Ok(())
    }

    #[inline]
    fn make_ready(&mut self, token: usize) {
        if let Some(client) = self.clients.get_mut(token)
            && !client.is_ready
            && !client.is_done
        {
            client.is_ready = true;
            self.ready.push_back(token);
        }
    }

    fn write_ready(&mut self) -> Result<(), LoadError> {
        while let Some(token) = self.ready.pop_front() {
            let written = self.write(token);
            written.map_err(|fault| self.job.explain(fault, &self.supply.requests, &[]))?;
        }
        Ok(())
    }

    /// Sends what one connection may send.
    #[inline]
    fn write(&mut self, token: usize) -> Result<(), Fault> {
        let Some(client) = self.clients.get_mut(token) else { return Ok(()) };
        client.is_ready = false;
        if client.conn.wants_write() {
            client.conn.flush()?;
        }
        while !client.conn.wants_write()
            && self.supply.render(&mut client.order, &mut client.conn.sent, token)
        {
            client.conn.send(&self.supply.bytes)?;
        }
        // Only the closed loop runs out of work: an open one may have more due in a moment.
        if self.supply.schedule.is_none() && client.conn.sent.is_empty() {
            client.is_done = true;
            self.active -= 1;
        }
        let wanted = Interest { write: client.conn.wants_write(), ..client.interest };
        if wanted != client.interest {
            client.interest = wanted;
            self.poll.set(client.conn.stream(), token, wanted).map_err(Fault::Io)?;
        }
        Ok(())
    }

    /// Open loop: gives every connection what became due.
    fn release_due(&mut self, now_ns: u64) {
        let Some((schedule, lanes)) = self.supply.schedule else { return };
        let due = schedule.due(now_ns);
        while self.released < due && !self.is_exhausted {
            if self.job.control.take(1) == 0 {
                self.is_exhausted = true;
                break;
            }
            let token = (self.released % lanes) as usize;
            if let Some(client) = self.clients.get_mut(token) {
                client.order.lane.release();
            }
            self.released += 1;
            self.make_ready(token);
        }
        if self.is_exhausted && self.replies_all == self.released {
            self.active = 0;
        }
    }

    /// Lets the next wait end when something is due.
    fn arm_timer(&self) -> io::Result<()> {
        match (self.supply.schedule, self.job.plan.shape) {
            (Some((schedule, _)), _) if !self.is_exhausted => {
                let now_ns = self.job.control.now_ns();
                self.poll.wake_after(schedule.due_ns(self.released).saturating_sub(now_ns))
            }
            (None, Shape::SlowReader { .. }) => self.poll.wake_after(SLOW_TURN_NS),
            _ => Ok(()),
        }
    }

    /// Gives an endpoint up that says nothing at all. An open loop that ends by time goes on to its end, since there
    /// the silence is a result.
    fn check_silence(&self, now_ns: u64) -> Result<(), LoadError> {
        if self.supply.schedule.is_some() && !self.job.control.ends_by_count() {
            return Ok(());
        }
        let waits = self.supply.schedule.is_none() || self.replies_all < self.released;
        if waits { self.job.refuse_silence(self.heard_ns, now_ns) } else { Ok(()) }
    }

    /// At the end of an open loop: what was due and is not answered counts with its age so far, or a target that
    /// stops would look like one that was never asked.
    fn settle(&mut self) {
        let (Some((schedule, lanes)), Some(end_ns)) =
            (self.supply.schedule, self.job.control.ended_at())
        else {
            return;
        };
        self.release_due(end_ns);
        let tally = &mut self.tally;
        let mut age = |since_ns: u64| {
            if let Some(age_ns) = end_ns.checked_sub(since_ns) {
                tally.unanswered += 1;
                tally.latency.record(age_ns);
            }
        };
        for (lane, client) in (0..).zip(&mut self.clients) {
            client.conn.sent.iter().for_each(|sent| age(sent.since_ns));
            while let Some(since_ns) = client.order.lane.take(&schedule, lane, lanes) {
                age(since_ns);
            }
        }
    }
}

fn system(error: io::Error) -> LoadError {
    LoadError::Connection(format!("epoll: {error}"))
}
