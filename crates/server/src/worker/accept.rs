//! New clients: who serves them, or why nobody does.
//!
//! Any worker may accept (the kernel wakes one that waits); the client then goes to the worker with the fewest clients, so that long-lived
//! connections are spread evenly however they came.
//!
//! Not here: what holds at a listener (`entrance`), connections whose header is to come (`arrivals`).
//!
//! Invariant: every accepted connection is adopted here, handed over, or closed, and counted in exactly one worker's load.

use super::Worker;
use super::conn::{Seated, TURNED_AWAY, client_token};
use super::entrance::{Newcomer, Seat};
use super::mailbox::Message;
use super::moves::{Origin, TurnedAway};
use engine::Time;
use engine::stats::Refused;
use netio::{Accepted, Driver, ListenerId};

impl<D: Driver> Worker<D> {
    pub(super) fn take_accepted(&mut self, now: Time) {
        while let Some(accepted) = self.accepted.pop() {
            match self.let_in(&accepted) {
                Ok(Some((worker, seat))) => {
                    let newcomer = Newcomer { accepted, seat };
                    if worker == self.index {
                        self.welcome(now, newcomer);
                    } else {
                        self.fleet.send(worker, Message::Client(newcomer));
                    }
                }
                // Its listener is closed, and what held there is forgotten.
                Ok(None) => {}
                Err(why) => {
                    self.count_refused(&accepted.peer, accepted.listener, why);
                    self.turn_away(accepted, why.into());
                }
            }
        }
    }

    /// The worker that is to serve a connection, which is counted there, and its seat.
    fn let_in(&self, accepted: &Accepted<D::Socket>) -> Result<Option<(usize, Seat)>, Refused> {
        let Some(entrance) = self.entrances.get(accepted.listener) else { return Ok(None) };
        if accepted.is_surplus {
            return Err(Refused::MaxClients);
        }
        let seat = self.entrances.admit(entrance, accepted)?;
        let worker = self.fleet.place_client(self.index, self.clients_max);
        worker.map(|worker| Some((worker, seat))).ok_or(Refused::MaxClients)
    }

    /// Takes a connection that is counted for this worker already.
    pub(super) fn welcome(&mut self, now: Time, newcomer: Newcomer<D::Socket>) {
        let entrance = self.entrances.get(newcomer.accepted.listener);
        match entrance.map(|entrance| (entrance.proxy_protocol, Origin::of(entrance))) {
            Some((true, _)) if !self.engine.is_draining() => self.await_header(now, newcomer),
            Some((false, origin)) => self.adopt(now, newcomer, origin),
            // One that asked for nothing yet, of a proxy that ends or a listener that is closed.
            Some((true, _)) | None => self.fleet.client_gone(self.index, 1),
        }
    }

    fn adopt(&mut self, now: Time, newcomer: Newcomer<D::Socket>, origin: Origin) {
        let Newcomer { accepted, seat } = newcomer;
        let addresses = (accepted.peer.clone(), accepted.local.clone());
        match self.open_client(now, origin, addresses) {
            Ok((id, tenant)) => {
                let conn = match self.entrances.has_tls(accepted.listener) {
                    true => self.driver.adopt_secured(accepted, client_token(id)),
                    false => self.driver.adopt(accepted, client_token(id)),
                };
                self.clients.set(id, conn, Seated { listener: seat, tenant });
            }
            Err(turned) => {
                self.fleet.client_gone(self.index, 1);
                // What is above the maximum of all the engine has counted.
                if turned.why != Refused::MaxClients {
                    self.count_refused(&accepted.peer, accepted.listener, turned.why);
                }
                self.turn_away(accepted, turned);
            }
        }
    }

    /// Counts a connection that does not become a client, and tells the log.
    #[cold]
    pub(super) fn count_refused(&mut self, addr: &str, listener: ListenerId, why: Refused) {
        self.engine.count_refused(why);
        let listener = self.entrances.get(listener).map(|entrance| &*entrance.label);
        tracing::warn!(
            worker = self.index,
            addr,
            listener = listener.unwrap_or_default(),
            reason = why.word(),
            "client refused"
        );
    }

    fn turn_away(&mut self, accepted: Accepted<D::Socket>, turned: TurnedAway) {
        if self.entrances.has_tls(accepted.listener) {
            // It would not understand a word before a handshake, which is not made for that.
            return;
        }
        let conn = self.driver.adopt(accepted, TURNED_AWAY);
        if let Some(text) = turned.text {
            // A fresh socket has room for a line; if it has not, the close says enough.
            drop(self.driver.send(conn, text));
        }
        self.driver.close(conn);
    }
}
