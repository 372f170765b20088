//! Connections whose header is still to come, on listeners with `proxy_protocol=on`.
//!
//! ```text
//!   begin ─▶ waiting ─┬─ whole header ─▶ client of the engine, with what came behind the header as its first input
//!                     ├─ no header, a wrong one, time is up ─▶ closed and counted
//!                     └─ the peer goes ─▶ closed
//! ```
//! They are in the driver and not in the engine, which knows clients by their address from the first byte on. A turn's events only note
//! what came; what becomes of it is decided behind them (`Worker::end_arrivals`), when the driver is free.
//!
//! Not here: the bytes of a header (`netio::proxy_header`), who may send one (`entrance`).
//!
//! Invariant: a connection stands here from its adoption until the end of the turn in which its header is whole or its end is known.
//! It holds a reader of fixed size and, in that turn, what came behind the header; there are never more than clients may be.

use super::Worker;
use super::conn::{Seated, client_token};
use super::entrance::{Newcomer, Seat};
use super::moves::TurnedAway;
use engine::Time;
use engine::ids::{Id, Slab};
use engine::stats::Refused;
use netio::proxy_header::{HeaderError, HeaderReader, Origin};
use netio::{ConnId, Driver, ListenerId};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Marks ids of arrivals.
pub(super) enum ArrivalKind {}

/// Names an arrival.
pub(super) type ArrivalId = Id<ArrivalKind>;

/// One connection.
struct Arrival {
    /// Known since the driver has adopted it, which needs the id first.
    conn: Option<ConnId>,
    /// Its own address, for the log and for headers that name no other one.
    peer: String,
    ip: Option<IpAddr>,
    local: String,
    listener: ListenerId,
    seat: Seat,
    reader: HeaderReader,
    due: Time,
    outcome: Option<Outcome>,
    /// What came behind the header.
    rest: Vec<u8>,
    eof: bool,
}

/// What came of an arrival.
enum Outcome {
    Header(Origin),
    Refused(Refused),
    Gone,
}

/// See the module.
#[derive(Default)]
pub(super) struct Arrivals {
    list: Slab<ArrivalKind, Box<Arrival>>,
    /// When the time of each is up.
    due: BTreeSet<(Time, ArrivalId)>,
    /// Those whose outcome is known.
    ended: Vec<ArrivalId>,
}

impl Arrivals {
    /// When the time of the first one is up.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    fn begin<S>(&mut self, newcomer: Newcomer<S>, due: Time) -> (ArrivalId, netio::Accepted<S>) {
        let Newcomer { accepted, seat } = newcomer;
        let id = self.list.insert(Box::new(Arrival {
            conn: None,
            peer: accepted.peer.clone(),
            ip: accepted.ip,
            local: accepted.local.clone(),
            listener: accepted.listener,
            seat,
            reader: HeaderReader::default(),
            due,
            outcome: None,
            rest: Vec::new(),
            eof: false,
        }));
        self.due.insert((due, id));
        (id, accepted)
    }

    /// Bytes came.
    #[cold]
    pub(super) fn received(&mut self, id: ArrivalId, bytes: &[u8]) {
        let Some(arrival) = self.list.get_mut(id) else { return };
        match arrival.outcome {
            Some(Outcome::Header(_)) => arrival.rest.extend_from_slice(bytes),
            Some(_) => {}
            None => match arrival.reader.read(bytes) {
                Ok(None) => {}
                Ok(Some((used, origin))) => {
                    arrival.rest.extend_from_slice(&bytes[used..]);
                    self.end(id, Outcome::Header(origin));
                }
                Err(error) => self.end(
                    id,
                    Outcome::Refused(match error {
                        HeaderError::Missing => Refused::HeaderMissing,
                        HeaderError::Broken => Refused::HeaderBroken,
                    }),
                ),
            },
        }
    }

    /// The peer sends no more. Behind a whole header that is the client's business.
    #[cold]
    pub(super) fn eof(&mut self, id: ArrivalId) {
        let Some(arrival) = self.list.get_mut(id) else { return };
        arrival.eof = true;
        if arrival.outcome.is_none() {
            self.end(id, Outcome::Gone);
        }
    }

    /// The connection is gone.
    #[cold]
    pub(super) fn closed(&mut self, id: ArrivalId) {
        let Some(arrival) = self.list.get_mut(id) else { return };
        let is_new = arrival.outcome.replace(Outcome::Gone).is_none();
        if is_new {
            self.ended.push(id);
        }
    }

    /// The time of some may be up.
    fn expire(&mut self, now: Time) {
        while let Some((due, id)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, id));
            self.end(id, Outcome::Refused(Refused::HeaderLate));
        }
    }

    fn end(&mut self, id: ArrivalId, outcome: Outcome) {
        if let Some(arrival) = self.list.get_mut(id)
            && arrival.outcome.is_none()
        {
            arrival.outcome = Some(outcome);
            self.ended.push(id);
        }
    }

    fn take_ended(&mut self) -> Option<Box<Arrival>> {
        let id = self.ended.pop()?;
        let arrival = self.list.remove(id)?;
        self.due.remove(&(arrival.due, id));
        Some(arrival)
    }
}

impl<D: Driver> Worker<D> {
    /// Awaits the header of a connection that is counted for this worker already.
    pub(super) fn await_header(&mut self, now: Time, newcomer: Newcomer<D::Socket>) {
        let due = now.plus_ms(self.entrances.header_ms);
        let (id, accepted) = self.arrivals.begin(newcomer, due);
        let conn = self.driver.adopt(accepted, super::conn::arrival_token(id));
        if let Some(arrival) = self.arrivals.list.get_mut(id) {
            arrival.conn = Some(conn);
        }
    }

    /// Makes clients of those whose header is whole, and closes those that will have none.
    pub(super) fn end_arrivals(&mut self, now: Time) {
        self.arrivals.expire(now);
        while let Some(mut arrival) = self.arrivals.take_ended() {
            match arrival.outcome.take() {
                Some(Outcome::Header(origin)) => self.arrived(now, *arrival, origin),
                Some(Outcome::Refused(why)) => {
                    self.refuse_arrival(&arrival.peer, &arrival, why.into());
                }
                Some(Outcome::Gone) | None => self.close_arrival(&arrival),
            }
        }
    }

    /// Closes all, for an end of the proxy: none of them has asked for anything.
    pub(super) fn close_arrivals(&mut self) {
        while let Some((_, id)) = self.arrivals.due.pop_first() {
            self.arrivals.end(id, Outcome::Gone);
        }
        while let Some(arrival) = self.arrivals.take_ended() {
            self.close_arrival(&arrival);
        }
    }

    /// A header is whole: from here on it is a client.
    fn arrived(&mut self, now: Time, arrival: Arrival, origin: Origin) {
        let (addr, ip) = match origin {
            Origin::Itself => (arrival.peer.clone(), arrival.ip),
            Origin::Tcp(from) => (from.to_string(), Some(from.ip().to_canonical())),
            Origin::Unix(path) if path.is_empty() => ("unix:0".to_owned(), None),
            Origin::Unix(path) => (format!("{path}:0"), None),
        };
        let Some(conn) = arrival.conn else { return };
        let Some(entrance) = self.entrances.get(arrival.listener) else {
            // The listener was closed meanwhile, and with it went what holds for its clients.
            return self.close_arrival(&arrival);
        };
        if let Err(why) = self.entrances.judge(entrance, ip) {
            return self.refuse_arrival(&addr, &arrival, why.into());
        }
        let origin = super::moves::Origin::of(entrance);
        let (id, tenant) =
            match self.open_client(now, origin, (addr.clone(), arrival.local.clone())) {
                Ok(opened) => opened,
                Err(turned) if turned.why == Refused::MaxClients => {
                    // The engine has counted it.
                    self.say_why(&arrival, turned);
                    return self.close_arrival(&arrival);
                }
                Err(turned) => return self.refuse_arrival(&addr, &arrival, turned),
            };
        if self.entrances.has_tls(arrival.listener) {
            let Arrival { rest, eof, .. } = arrival;
            let conn = self.driver.secure(conn, client_token(id), (addr, ip), rest, eof);
            return self.clients.set(id, conn, Seated { listener: arrival.seat, tenant });
        }
        self.driver.rename(conn, client_token(id));
        self.clients.set(id, conn, Seated { listener: arrival.seat, tenant });
        if !arrival.rest.is_empty() {
            self.engine.handle_client_bytes(now, id, &arrival.rest);
        }
        if arrival.eof {
            self.engine.handle_client_eof(now, id);
        }
    }

    fn refuse_arrival(&mut self, addr: &str, arrival: &Arrival, turned: TurnedAway) {
        self.count_refused(addr, arrival.listener, turned.why);
        self.say_why(arrival, turned);
        self.close_arrival(arrival);
    }

    /// Sends the text for why it is refused, if there is one and it would be understood.
    fn say_why(&mut self, arrival: &Arrival, turned: TurnedAway) {
        if !self.entrances.has_tls(arrival.listener)
            && let Some((conn, text)) = arrival.conn.zip(turned.text)
        {
            drop(self.driver.send(conn, text));
        }
    }

    fn close_arrival(&mut self, arrival: &Arrival) {
        self.fleet.client_gone(self.index, 1);
        if let Some(conn) = arrival.conn {
            self.driver.close(conn);
        }
    }
}
