//! One turn of a worker.
//!
//! 1. Messages of other threads are taken. Later news are taken before each request of a client.
//! 2. The driver waits and gives its events to the engine, which sends nothing yet; while more input keeps coming it is polled again, and
//!    under the gate of `gather` it may sleep some tens of microseconds for more.
//! 3. What is due by time is done.
//! 4. Actions of the engine are carried out (connect, close, stop reading), new clients are taken in, and those whose header came become clients.
//! 5. Each upstream with output is flushed once, unless `gather` holds that back for more, then each client.
//! 6. What TLS holds is counted, and who holds too much is closed (`room`).
//! 7. Actions that came of that: clients that have their last reply are closed.
//!
//! Flushing upstreams before clients gets the servers to work while we write to clients. Nothing is sent before all input of the turn is in:
//! that is what makes many requests leave in one write. Connections of one client's own are never held back.
//!
//! Invariant: `now` is read after each sleep, and then serves for everything until the next one.

use super::Worker;
use super::arrivals::Arrivals;
use super::conn::{Clients, Conns, Party, party};
use super::house::House;
use super::mailbox::Mailbox;
use engine::Time;
use engine::ids::{UpstreamId, UpstreamKind};
use netio::{Accepted, CloseReason, ConnId, Driver, Event, Wait};

impl<D: Driver> Worker<D> {
    /// One turn. Sleeps until there is something to do.
    pub fn turn(&mut self) {
        self.read_mail();
        let now = self.take_events();
        self.last_now = now;
        self.engine.handle_timeout(now);
        self.renew_names(now);
        // Closes come before new clients, which may get the places of those that went.
        self.carry_out(now);
        self.take_accepted(now);
        self.end_arrivals(now);
        self.flush_upstreams(now);
        self.flush_clients(now);
        self.weigh();
        self.carry_out(now);
        self.tell();
        self.tell_observed();
        if self.engine.is_leaving() {
            self.end_tenants(now);
        }
        #[cfg(debug_assertions)]
        self.check_now_and_then();
    }

    /// Checks what must hold between turns, behind a few of them: an invariant that a turn has broken stays broken.
    #[cfg(debug_assertions)]
    fn check_now_and_then(&mut self) {
        const EVERY: u8 = 4;
        self.unchecked_turns = (self.unchecked_turns + 1) % EVERY;
        if self.unchecked_turns == 0 {
            self.check_invariants();
        }
    }

    /// Checks what must hold between any two turns.
    ///
    /// # Panics
    /// When something does not hold: a bug of ours.
    #[cfg(debug_assertions)]
    pub fn check_invariants(&self) {
        self.engine.check_invariants();
    }

    /// When the worker must be woken if nothing comes.
    pub fn deadline(&self) -> Option<Time> {
        let engine = self.engine.poll_timeout(self.last_now);
        let held = self.gather.hold_until();
        let headers = self.arrivals.deadline();
        engine
            .into_iter()
            .chain(held)
            .chain(self.drain_until)
            .chain(self.names.deadline())
            .chain(headers)
            .min()
    }

    /// Whether a turn would not sleep now though the network has nothing: output is left, or something is due by time. For simulations, where no
    /// driver sleeps.
    pub fn is_due(&mut self) -> bool {
        let now_us = self.driver.now_us();
        let wait = self.first_wait();
        match self.driver.shortened(wait) {
            Wait::Poll => true,
            Wait::Forever => self.changed,
            Wait::Until(until_us) | Wait::Gather { until_us, .. } => {
                self.changed || until_us <= now_us
            }
        }
    }

    fn first_wait(&self) -> Wait {
        match self.deadline() {
            _ if self.is_done() || self.has_output() => Wait::Poll,
            None => Wait::Forever,
            Some(at) if at <= self.last_now => Wait::Poll,
            Some(at) => self.gather.nap(self.last_now, at).unwrap_or(Wait::Until(at.0)),
        }
    }

    /// Whether something is to be sent that does not wait for more.
    fn has_output(&self) -> bool {
        match self.gather.hold_until() {
            Some(_) => self.engine.has_private_output(),
            None => self.engine.has_output(),
        }
    }

    /// Waits, gathers, and gives every event to the engine. Returns the time of this turn.
    fn take_events(&mut self) -> Time {
        // Without that an idle worker would sleep over the connects and closes that it has to make.
        let first_wait = match std::mem::take(&mut self.changed) {
            true => Wait::Poll,
            false => self.first_wait(),
        };
        let Self { driver, engine, clients, upstreams, accepted, arrivals, clock, gather, .. } =
            self;
        let mut hub = Hub {
            mailbox: &mut self.mailbox,
            engine,
            clients,
            upstreams,
            accepted,
            arrivals,
            ended: Vec::new(),
            now: None,
            clock,
        };
        let mut wait = first_wait;
        gather.begin_turn();
        loop {
            let before = hub.engine.input_events();
            if matches!(wait, Wait::Gather { .. }) {
                hub.now = None;
            }
            driver.wait(wait, &mut |event| hub.take(event));
            let now = hub.now();
            let input = hub.engine.input_events() - before;
            match gather.next_wait(now, input, hub.engine) {
                Some(next) => wait = next,
                None => break,
            }
        }
        let (now, ended) = (hub.now(), hub.ended);
        for conn in ended {
            driver.close(conn);
        }
        now
    }

    fn flush_upstreams(&mut self, now: Time) {
        while let Some(id) = self.engine.poll_dirty_private_upstream() {
            self.flush_upstream(now, id);
        }
        if self.gather.holds(now, self.engine.shared_upstreams_dirty() as u64) {
            return;
        }
        while let Some(id) = self.engine.poll_dirty_upstream() {
            self.flush_upstream(now, id);
        }
    }

    fn flush_upstream(&mut self, now: Time, id: UpstreamId) {
        let Some(conn) = self.upstreams.get(id) else { return };
        while let Some(buf) = self.engine.begin_upstream_send(id) {
            match self.driver.send(conn, buf) {
                Some(buf) => self.engine.handle_upstream_sent(now, id, buf),
                None => break,
            }
        }
    }

    fn flush_clients(&mut self, now: Time) {
        while let Some(id) = self.engine.poll_dirty_client() {
            let Some(conn) = self.clients.get(id) else { continue };
            while let Some(buf) = self.engine.begin_client_send(id) {
                match self.driver.send(conn, buf) {
                    Some(buf) => self.engine.handle_client_sent(now, id, buf),
                    None => break,
                }
            }
        }
    }
}

/// What the events of a wait go to, while the driver is borrowed.
struct Hub<'a, S> {
    mailbox: &'a mut Mailbox<S>,
    engine: &'a mut House,
    clients: &'a mut Clients,
    upstreams: &'a mut Conns<UpstreamKind>,
    accepted: &'a mut Vec<Accepted<S>>,
    arrivals: &'a mut Arrivals,
    /// Connections whose peer ended them and that must be closed when the driver is free.
    ended: Vec<ConnId>,
    now: Option<Time>,
    clock: &'a dyn Fn() -> u64,
}

impl<S> Hub<'_, S> {
    #[inline]
    fn now(&mut self) -> Time {
        let clock = self.clock;
        *self.now.get_or_insert_with(|| Time(clock()))
    }

    #[inline]
    fn take(&mut self, event: Event<'_, S>) {
        let now = self.now();
        match event {
            Event::Received(token, bytes) => match party(token) {
                Party::Client(id) => {
                    if self.mailbox.has_unread() {
                        self.hear_news(now);
                    }
                    self.engine.handle_client_bytes(now, id, bytes);
                }
                Party::Upstream(id) => self.engine.handle_upstream_bytes(now, id, bytes),
                Party::Arrival(id) => self.arrivals.received(id, bytes),
            },
            Event::Sent(token, buf) => match party(token) {
                Party::Client(id) => {
                    self.engine.handle_client_sent(now, id, buf);
                    self.engine.mark_client_dirty(id);
                }
                Party::Upstream(id) => {
                    self.engine.handle_upstream_sent(now, id, buf);
                    self.engine.mark_upstream_dirty(id);
                }
                // It was closed when that was sent.
                Party::Arrival(_) => {}
            },
            Event::Accepted(accepted) => self.accepted.push(accepted),
            Event::AcceptFailed(errno) => {
                tracing::warn!(error = %os_error(errno), "cannot accept a client, trying again shortly");
            }
            Event::Connected(token) => {
                if let Party::Upstream(id) = party(token) {
                    self.engine.handle_upstream_connected(now, id);
                }
            }
            Event::Eof(token) => self.eof(now, party(token)),
            Event::Closed(token, why) => self.closed(now, party(token), why),
            Event::Woken => {}
        }
    }

    /// The engine hears news that came since the begin of the turn: the client's request may be sent because of them.
    #[cold]
    fn hear_news(&mut self, now: Time) {
        while let Some((to, news)) = self.mailbox.take_news() {
            self.engine.handle_news(now, to, news);
        }
    }

    #[cold]
    fn eof(&mut self, now: Time, party: Party) {
        match party {
            Party::Client(id) => self.engine.handle_client_eof(now, id),
            Party::Arrival(id) => self.arrivals.eof(id),
            Party::Upstream(id) => {
                self.ended.extend(self.upstreams.take(id));
                self.engine.handle_upstream_closed(now, id, "closed the connection");
            }
        }
    }

    #[cold]
    fn closed(&mut self, now: Time, party: Party, why: CloseReason) {
        match party {
            Party::Client(id) => {
                self.clients.take(id);
                self.engine.handle_client_closed(now, id);
            }
            Party::Arrival(id) => self.arrivals.closed(id),
            Party::Upstream(id) => {
                self.upstreams.take(id);
                self.engine.handle_upstream_closed(now, id, &in_words(why));
            }
        }
    }
}

fn in_words(why: CloseReason) -> String {
    match why {
        CloseReason::Broken(0) => "the connection broke".to_owned(),
        CloseReason::Broken(errno) => os_error(errno),
        CloseReason::ConnectFailed(errno) => format!("connect: {}", os_error(errno)),
        CloseReason::GivenUp(cause) => cause.into_string(),
    }
}

/// The system's words for an error number, without the number.
pub(super) fn os_error(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
