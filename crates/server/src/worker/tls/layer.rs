//! All connections with TLS of a worker: what their events mean, and what is done about them between two waits.
//!
//! While the driver below tells its events it is borrowed, so [`Layer::take`] only opens records and notes what is to be done;
//! [`Layer::settle`] does it when the wait is over: sends, closes, and the next steps of handshakes.
//!
//! Invariant: a connection stands at most once in `turns` and in `work`; while one of them is not empty no wait sleeps.

use super::conn::{Conn, End, Peer, Phase};
use super::records::{Failure, Fed, Records};
use super::sources::{Crowds, Source, Turns};
use super::weights::{Weights, place};
use super::{
    Reason, SEAL_BYTES, SPARE_BUFFERS_MAX, STEPS_PER_WAIT, STEPS_US_MAX, TOKEN_BIT, TlsSettings,
};
use engine::fleet::{TlsReport, TlsSide};
use engine::ids::{self, Slab};
use netio::{CloseReason, ConnId, Driver, Event, Token, Wait};
use std::collections::VecDeque;

/// Marks the ids of this layer.
pub(super) enum ConnKind {}

/// Names a connection with TLS.
pub(super) type Id = ids::Id<ConnKind>;

/// See the module.
pub(super) struct Layer {
    pub(super) settings: TlsSettings,
    pub(super) conns: Slab<ConnKind, Box<Conn>>,
    /// Handshakes that can go on.
    turns: Turns,
    /// Connections that something is to be done for when the driver is free.
    work: Vec<Id>,
    /// Clients by the time at which they came; those whose handshake is over stay until they are met.
    pub(super) arrivals: VecDeque<(u64, Id)>,
    /// Clients whose handshake is not over.
    pub(super) unfinished: Crowds,
    /// Where records are opened.
    plain: Vec<u8>,
    /// Buffers for records.
    spare: Vec<Vec<u8>>,
    counts: TlsReport,
    pub(super) weights: Weights,
}

/// The token under which the driver below knows a connection.
pub(super) fn inner_token(id: Id) -> Token {
    debug_assert!(u64::from(id.index) < TOKEN_BIT, "more than 2^30 connections with TLS");
    Token(u64::from(id.generation) << 32 | TOKEN_BIT | u64::from(id.index))
}

/// Whose token it is, of those that this layer gives out.
#[inline]
fn id_of(token: Token) -> Option<Id> {
    match token.0 & TOKEN_BIT {
        0 => None,
        _ => Some(Id::new((token.0 & (TOKEN_BIT - 1)) as u32, (token.0 >> 32) as u32)),
    }
}

impl Layer {
    pub(super) fn new(settings: TlsSettings) -> Self {
        Self {
            settings,
            conns: Slab::default(),
            turns: Turns::default(),
            work: Vec::new(),
            arrivals: VecDeque::new(),
            unfinished: Crowds::default(),
            plain: Vec::new(),
            spare: Vec::new(),
            counts: TlsReport::default(),
            weights: Weights::default(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }

    /// Whether nothing waits for a turn or a wait.
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        self.turns.is_empty() && self.work.is_empty()
    }

    pub(super) fn report(&self) -> Option<TlsReport> {
        let is_used = self.settings.clients.is_some() || self.settings.upstreams.is_some();
        if !is_used && self.counts == TlsReport::default() && self.conns.is_empty() {
            return None;
        }
        let mut report = self.counts.clone();
        for (_, conn) in self.conns.iter() {
            match (&conn.peer, &conn.phase) {
                (_, Phase::Connecting) => {}
                (Peer::Client { .. }, Phase::Handshake) => report.clients.unfinished += 1,
                (Peer::Client { .. }, Phase::Open) => report.clients.open += 1,
                (Peer::Upstream { .. }, Phase::Handshake) => report.upstreams.unfinished += 1,
                (Peer::Upstream { .. }, Phase::Open) => report.upstreams.open += 1,
            }
        }
        Some(report)
    }

    /// A client that was accepted.
    pub(super) fn open_client(
        &mut self,
        token: Token,
        addr: String,
        source: Source,
        now_us: u64,
    ) -> Id {
        let mut conn = Conn::new(token, Peer::Client { addr, source }, Phase::Handshake);
        let crowd = (place(token), source);
        conn.crowd = Some(crowd);
        let id = self.conns.insert(Box::new(conn));
        self.unfinished.join(crowd);
        self.weigh(id);
        self.arrivals.push_back((now_us, id));
        // Those that are through are met at the front sooner or later; one that hangs there must not keep thousands behind it.
        if self.arrivals.len() > ARRIVALS_SLACK + 2 * self.unfinished.sum() {
            let conns = &self.conns;
            self.arrivals.retain(|(_, id)| is_unfinished(conns, *id));
        }
        id
    }

    /// A server that is being connected to.
    pub(super) fn open_upstream(&mut self, token: Token, host: &str) -> Id {
        let peer = Peer::Upstream { host: host.into() };
        let id = self.conns.insert(Box::new(Conn::new(token, peer, Phase::Connecting)));
        self.weigh(id);
        id
    }

    pub(super) fn set_inner(&mut self, id: Id, inner: ConnId) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.inner = inner;
        }
    }

    /// What came before the connection was one of TLS, and whether more will.
    pub(super) fn begin_with(&mut self, id: Id, input: Vec<u8>, ended: bool) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let is_due = ended || !input.is_empty();
        conn.input = input;
        conn.end = if ended { End::Due } else { End::No };
        self.weigh(id);
        if is_due {
            self.add_step(id);
            // An end may spare it.
            self.add_work(id);
        }
    }

    pub(super) fn rename(&mut self, id: Id, token: Token) {
        if let Some(conn) = self.conns.get_mut(id) {
            let (from, weight) = (std::mem::replace(&mut conn.token, token), conn.weight);
            self.reweigh(from, token, weight);
        }
    }

    /// How long the driver below may sleep.
    pub(super) fn shortened(&mut self, wait: Wait) -> Wait {
        if !self.turns.is_empty() || !self.work.is_empty() {
            return Wait::Poll;
        }
        match (wait, self.next_timeout_us()) {
            (Wait::Forever, Some(at_us)) => Wait::Until(at_us),
            (Wait::Until(until_us), Some(at_us)) => Wait::Until(until_us.min(at_us)),
            (wait, _) => wait,
        }
    }

    /// When the client that has been at its handshake for longest is given up.
    fn next_timeout_us(&mut self) -> Option<u64> {
        while let Some((since_us, id)) = self.arrivals.front() {
            if is_unfinished(&self.conns, *id) {
                return Some(since_us.saturating_add(self.settings.handshake_ms * 1000));
            }
            self.arrivals.pop_front();
        }
        None
    }

    /// One event of the driver below.
    #[inline]
    pub(super) fn take<S>(&mut self, event: Event<'_, S>, on_event: &mut impl FnMut(Event<'_, S>)) {
        let token = match &event {
            Event::Received(token, _)
            | Event::Sent(token, _)
            | Event::Connected(token)
            | Event::Eof(token)
            | Event::Closed(token, _) => *token,
            Event::Accepted(_) | Event::AcceptFailed(_) | Event::Woken => return on_event(event),
        };
        let Some(id) = id_of(token) else { return on_event(event) };
        let Some(conn) = self.conns.get_mut(id) else { return };
        match event {
            Event::Received(_, bytes) if conn.phase == Phase::Open => {
                self.open_records(id, bytes, on_event);
            }
            Event::Received(_, bytes) => {
                conn.input.extend_from_slice(bytes);
                let is_full = !conn.wants_read();
                if is_full && conn.is_client() && conn.records.is_none() {
                    conn.failed.get_or_insert_with(too_much);
                }
                self.weigh(id);
                self.add_step(id);
                if is_full {
                    self.add_work(id);
                }
            }
            Event::Sent(_, buf) => {
                conn.in_flight = false;
                conn.sealed_bytes = 0;
                self.weigh(id);
                self.recycle(buf);
                self.add_work(id);
            }
            Event::Connected(_) => {
                conn.phase = Phase::Handshake;
                self.add_step(id);
            }
            Event::Eof(_) => {
                conn.end = conn.end_after(End::Due);
                // Whoever waits for a turn has it only if that may still be of use.
                self.add_work(id);
            }
            Event::Closed(_, why) => self.closed_below(id, why, on_event),
            Event::Accepted(_) | Event::AcceptFailed(_) | Event::Woken => {}
        }
    }

    /// Opens what came on a connection that is through its handshake, and tells it as one.
    fn open_records<S>(&mut self, id: Id, bytes: &[u8], on_event: &mut impl FnMut(Event<'_, S>)) {
        let Self { conns, plain, .. } = self;
        let Some(conn) = conns.get_mut(id) else { return };
        let Some(records) = conn.records.as_mut() else { return };
        if conn.failed.is_some() || conn.end != End::No {
            return;
        }
        plain.clear();
        let fed = records.feed(bytes, plain);
        let mut is_held = false;
        if !plain.is_empty() {
            if conn.recv_on && conn.held.is_empty() {
                conn.heard = true;
                on_event(Event::Received(conn.token, plain));
            } else {
                conn.held.extend_from_slice(plain);
                is_held = true;
            }
        }
        if conn.note(fed) {
            self.add_work(id);
        }
        if is_held {
            self.weigh(id);
        }
    }

    /// The driver below has lost the connection.
    #[cold]
    fn closed_below<S>(
        &mut self,
        id: Id,
        why: CloseReason,
        on_event: &mut impl FnMut(Event<'_, S>),
    ) {
        let Some(conn) = self.forget(id) else { return };
        let why = match (&conn.failed, &why) {
            // What it was to be given up for is the better reason.
            (Some(failure), _) => {
                self.count(&conn, failure);
                CloseReason::GivenUp(told(failure))
            }
            (None, CloseReason::Broken(_)) if conn.is_green() => {
                let failure = gone(&conn);
                self.count(&conn, &failure);
                CloseReason::GivenUp(told(&failure))
            }
            (None, _) => why,
        };
        on_event(Event::Closed(conn.token, why));
    }

    /// Does what is to be done now that the driver is free.
    pub(super) fn settle<D: Driver>(
        &mut self,
        driver: &mut D,
        on_event: &mut impl FnMut(Event<'_, D::Socket>),
    ) {
        if self.unfinished.sum() > 0 {
            self.expire(driver.now_us());
        }
        let mut work = std::mem::take(&mut self.work);
        for id in work.drain(..) {
            if let Some(conn) = self.conns.get_mut(id) {
                conn.in_work = false;
                self.serve(driver, id, on_event);
            }
        }
        // Nothing above asks for more of it but through the caller, who is not asked before this returns.
        debug_assert!(self.work.is_empty(), "work that came of work");
        self.work = work;
        if !self.turns.is_empty() {
            self.take_turns(driver, on_event);
        }
    }

    /// Lets some handshakes go on, within what a wait has for that.
    #[cold]
    fn take_turns<D: Driver>(
        &mut self,
        driver: &mut D,
        on_event: &mut impl FnMut(Event<'_, D::Socket>),
    ) {
        let begun_us = driver.now_us();
        for _ in 0..STEPS_PER_WAIT {
            let Some(id) = self.turns.pop() else { return };
            self.step(driver, id, on_event);
            if driver.now_us().saturating_sub(begun_us) >= STEPS_US_MAX {
                return;
            }
        }
    }

    /// Clients that take too long.
    fn expire(&mut self, now_us: u64) {
        while self.next_timeout_us().is_some_and(|at_us| at_us <= now_us) {
            let Some((_, id)) = self.arrivals.pop_front() else { return };
            if let Some(conn) = self.conns.get_mut(id) {
                let cause = format!("no handshake within {} ms", self.settings.handshake_ms);
                conn.failed.get_or_insert(Failure { reason: Reason::Timeout, cause });
                self.add_work(id);
            }
        }
    }

    /// Lets a handshake go on by what came of it.
    fn step<D: Driver>(
        &mut self,
        driver: &mut D,
        id: Id,
        on_event: &mut impl FnMut(Event<'_, D::Socket>),
    ) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.turn = None;
        let input = std::mem::take(&mut conn.input);
        conn.hello_bytes += input.len();
        if conn.failed.is_none() {
            let mut held = std::mem::take(&mut conn.held);
            let fed =
                begun(&self.settings, conn).and_then(|records| records.feed(&input, &mut held));
            conn.held = held;
            conn.note(fed);
        }
        let over = conn.failed.is_none()
            && conn.records.as_ref().is_some_and(|records| !records.is_handshaking());
        if over {
            conn.phase = Phase::Open;
            conn.hello_bytes = 0;
            let is_client = conn.is_client();
            let resumed = conn.records.as_ref().is_some_and(Records::is_resumed);
            let token = conn.token;
            let side = self.side(is_client);
            side.handshakes += 1;
            side.resumed += u64::from(resumed);
            if is_client {
                self.leave_crowd(id);
            } else {
                on_event(Event::Connected(token));
            }
        }
        self.weigh(id);
        self.serve(driver, id, on_event);
    }

    /// Sends what is to be sent, tells what is to be told, and ends what has failed.
    fn serve<D: Driver>(
        &mut self,
        driver: &mut D,
        id: Id,
        on_event: &mut impl FnMut(Event<'_, D::Socket>),
    ) {
        self.pump(driver, id);
        let Some(conn) = self.conns.get_mut(id) else { return };
        if let Some(buf) = conn.take_sent() {
            on_event(Event::Sent(conn.token, buf));
        }
        if conn.recv_on && conn.phase == Phase::Open && !conn.held.is_empty() {
            let held = std::mem::take(&mut conn.held);
            conn.heard = true;
            on_event(Event::Received(conn.token, &held));
            self.weigh(id);
        }
        let Some(conn) = self.conns.get_mut(id) else { return };
        let ended = conn.failed.is_none() && conn.end == End::Due && conn.held.is_empty();
        if ended && conn.is_green() {
            if !conn.is_worth_its_turn() {
                conn.failed = Some(gone(conn));
            }
        } else if ended && conn.recv_on {
            conn.end = End::Told;
            on_event(Event::Eof(conn.token));
        }
        if conn.failed.is_some() {
            return self.give_up(driver, id, on_event);
        }
        self.adjust_reading(driver, id);
    }

    /// Has the driver below receive, or not.
    fn adjust_reading<D: Driver>(&mut self, driver: &mut D, id: Id) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let wanted = conn.wants_read();
        if conn.reads != wanted {
            conn.reads = wanted;
            driver.recv(conn.inner, wanted);
        }
    }

    /// Seals and sends, one part after the other, until the driver below has one in flight or nothing is left.
    fn pump<D: Driver>(&mut self, driver: &mut D, id: Id) {
        loop {
            let Self { conns, spare, work, .. } = &mut *self;
            let Some(conn) = conns.get_mut(id) else { return };
            let Some(records) = conn.records.as_mut() else { return };
            if conn.in_flight {
                return;
            }
            let mut sealed = spare.pop().unwrap_or_default();
            records.write(&mut sealed);
            if conn.phase == Phase::Open
                && conn.failed.is_none()
                && let Some((buf, done)) = &mut conn.sending
            {
                let part = (buf.len() - *done).min(SEAL_BYTES);
                match records.seal(&buf[*done..*done + part], &mut sealed) {
                    Ok(()) => *done += part,
                    Err(failure) => {
                        conn.failed = Some(failure);
                        // Given up with the next step: here nobody hears of it.
                        if !std::mem::replace(&mut conn.in_work, true) {
                            work.push(id);
                        }
                    }
                }
            }
            if sealed.is_empty() {
                return self.recycle(sealed);
            }
            let bytes = sealed.len();
            match driver.send(conn.inner, sealed) {
                Some(sealed) => self.recycle(sealed),
                None => {
                    (conn.in_flight, conn.sealed_bytes) = (true, bytes);
                    self.weigh(id);
                }
            }
        }
    }

    /// Ends a connection, after the last word about why.
    #[cold]
    fn give_up<D: Driver>(
        &mut self,
        driver: &mut D,
        id: Id,
        on_event: &mut impl FnMut(Event<'_, D::Socket>),
    ) {
        // The alert, if there is one and room for it.
        self.pump(driver, id);
        let Some(conn) = self.forget(id) else { return };
        driver.close(conn.inner);
        let Some(failure) = &conn.failed else { return };
        self.count(&conn, failure);
        on_event(Event::Closed(conn.token, CloseReason::GivenUp(told(failure))));
    }

    /// As [`Driver::recv`].
    pub(super) fn recv<D: Driver>(&mut self, driver: &mut D, id: Id, on: bool) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.recv_on = on;
        let is_due = on && (!conn.held.is_empty() || conn.end == End::Due);
        self.adjust_reading(driver, id);
        if is_due {
            self.add_work(id);
        }
    }

    /// As [`Driver::send`].
    pub(super) fn send<D: Driver>(
        &mut self,
        driver: &mut D,
        id: Id,
        buf: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let conn = self.conns.get_mut(id)?;
        debug_assert!(conn.sending.is_none(), "one send at a time");
        conn.sending = Some((buf, 0));
        self.pump(driver, id);
        self.conns.get_mut(id)?.take_sent()
    }

    /// As [`Driver::close`].
    pub(super) fn close<D: Driver>(&mut self, driver: &mut D, id: Id) {
        if let Some(conn) = self.conns.get_mut(id)
            && conn.phase == Phase::Open
            && conn.failed.is_none()
            && let Some(records) = &mut conn.records
        {
            // What is not sealed yet is dropped, as a send in flight is.
            conn.sending = None;
            records.say_end();
            self.pump(driver, id);
        }
        if let Some(conn) = self.forget(id) {
            driver.close(conn.inner);
            if !conn.is_client() && conn.phase == Phase::Handshake {
                // Whoever connects waits for so long and no longer.
                self.counts.upstreams.failures[Reason::Timeout as usize] += 1;
            }
        }
    }

    /// As [`Driver::reset`].
    pub(super) fn reset<D: Driver>(&mut self, driver: &mut D, id: Id) {
        if let Some(conn) = self.forget(id) {
            driver.reset(conn.inner);
        }
    }

    /// Takes a connection out of everything that is counted or kept by its state.
    fn forget(&mut self, id: Id) -> Option<Box<Conn>> {
        let conn = self.conns.remove(id)?;
        self.unweigh(&conn);
        if let Some(turn) = conn.turn {
            self.turns.remove(conn.source(), turn);
        }
        if let Some(crowd) = conn.crowd {
            self.unfinished.leave(crowd);
        }
        Some(conn)
    }

    /// It does not count among those that are not through any more.
    pub(super) fn leave_crowd(&mut self, id: Id) {
        if let Some(crowd) = self.conns.get_mut(id).and_then(|conn| conn.crowd.take()) {
            self.unfinished.leave(crowd);
        }
    }

    fn add_step(&mut self, id: Id) {
        if let Some(conn) = self.conns.get_mut(id)
            && conn.turn.is_none()
        {
            conn.turn = Some(self.turns.push(conn.source(), id));
        }
    }

    pub(super) fn add_work(&mut self, id: Id) {
        if let Some(conn) = self.conns.get_mut(id)
            && !conn.in_work
        {
            conn.in_work = true;
            self.work.push(id);
        }
    }

    fn recycle(&mut self, mut buf: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS_MAX {
            buf.clear();
            self.spare.push(buf);
        }
    }

    fn side(&mut self, is_client: bool) -> &mut TlsSide {
        if is_client { &mut self.counts.clients } else { &mut self.counts.upstreams }
    }

    /// Counts a failure. That of an upstream is told by whoever needed it, that of a client by nobody else.
    fn count(&mut self, conn: &Conn, failure: &Failure) {
        self.side(conn.is_client()).failures[failure.reason as usize] += 1;
        let Peer::Client { addr, .. } = &conn.peer else { return };
        let cause = &failure.cause;
        match failure.reason {
            // Whoever looks whether the port is open does that, every few seconds.
            Reason::Closed => tracing::debug!(%addr, %cause, "TLS with a client failed"),
            _ => tracing::info!(%addr, %cause, "TLS with a client failed"),
        }
    }
}

impl Conn {
    /// Notes what a piece of the stream came to; whether something is to be done about it.
    fn note(&mut self, fed: Result<Fed, Failure>) -> bool {
        match fed {
            Ok(fed) => {
                if fed.ended {
                    self.end = self.end_after(End::Due);
                }
                fed.wants_write || fed.ended
            }
            Err(failure) => {
                self.failed.get_or_insert(failure);
                true
            }
        }
    }

    /// The end is told once, by whichever sign of it comes first.
    fn end_after(&self, end: End) -> End {
        if self.end == End::Told { End::Told } else { end }
    }

    /// Whether an end of the connection means that TLS did not come about: before the end of the handshake, or, where a server may still refuse our certificate,
    /// before its first word.
    fn is_green(&self) -> bool {
        match self.peer {
            _ if self.phase != Phase::Open => true,
            Peer::Client { .. } => false,
            Peer::Upstream { .. } => !self.heard && self.held.is_empty(),
        }
    }
}

/// The records of a connection whose handshake begins now at the latest.
fn begun<'a>(settings: &TlsSettings, conn: &'a mut Conn) -> Result<&'a mut Records, Failure> {
    let records = match (conn.records.take(), &conn.peer) {
        (Some(records), _) => records,
        (None, Peer::Client { .. }) => {
            Records::server(settings.clients.as_ref().ok_or_else(not_set_up)?)?
        }
        (None, Peer::Upstream { host }) => {
            Records::client(settings.upstreams.as_ref().ok_or_else(not_set_up)?, host)?
        }
    };
    Ok(conn.records.insert(records))
}

/// The configuration names certificates wherever it names TLS; this is for the moment in which it changes.
fn not_set_up() -> Failure {
    Failure { reason: Reason::Protocol, cause: "TLS is not set up any more".to_owned() }
}

/// Why a client is not heard to the end of its hello.
fn too_much() -> Failure {
    let cause = "sent more than a hello before it was answered".to_owned();
    Failure { reason: Reason::Protocol, cause }
}

/// Why a connection that was not through is gone.
fn gone(conn: &Conn) -> Failure {
    let cause = match (&conn.phase, &conn.peer) {
        (Phase::Open, _) => {
            "closed the connection right after the handshake (does it want a certificate of ours?)"
        }
        (_, Peer::Upstream { .. }) => {
            "closed the connection during the handshake (is it a port for TLS?)"
        }
        (_, Peer::Client { .. }) => "closed the connection during the handshake",
    };
    Failure { reason: Reason::Closed, cause: cause.to_owned() }
}

/// The cause as whoever has to do with the connection is told.
fn told(failure: &Failure) -> Box<str> {
    format!("TLS: {}", failure.cause).into()
}

fn is_unfinished(conns: &Slab<ConnKind, Box<Conn>>, id: Id) -> bool {
    conns.get(id).is_some_and(|conn| conn.phase != Phase::Open && conn.failed.is_none())
}

/// Arrivals that may be kept beyond twice as many as have not finished.
const ARRIVALS_SLACK: usize = 64;
