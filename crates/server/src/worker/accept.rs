//! New clients: who serves them, or why nobody does.
//!
//! Any worker may accept (the kernel wakes one that waits); the client then goes to the worker with the fewest clients, so that long-lived
//! connections are spread evenly however they came.
//!
//! Invariant: every accepted connection is adopted here, handed over, or closed, and counted in exactly one worker's load.

use super::Worker;
use super::conn::client_token;
use super::mailbox::Message;
use engine::{Engine, Time};
use netio::{Accepted, Driver, Token};

/// For connections that get one error and a close, and are never heard again.
const TURNED_AWAY: Token = Token(u64::MAX);

impl<D: Driver> Worker<D> {
    pub(super) fn take_accepted(&mut self, now: Time) {
        while let Some(accepted) = self.accepted.pop() {
            match self.fleet.place_client(self.index, self.clients_max) {
                Some(worker) if worker == self.index => self.adopt(now, accepted),
                Some(worker) => self.fleet.send(worker, Message::Client(accepted)),
                None => {
                    self.engine.count_rejected();
                    self.turn_away(accepted);
                }
            }
        }
    }

    /// Takes a client that is counted for this worker already.
    pub(super) fn adopt(&mut self, now: Time, accepted: Accepted<D::Socket>) {
        let (addr, laddr) = (accepted.peer.clone(), accepted.local.clone());
        match self.engine.handle_client_open(now, addr, laddr) {
            Some(id) => {
                let conn = self.driver.adopt(accepted, client_token(id));
                self.clients.set(id, conn);
            }
            None => {
                self.fleet.client_gone(self.index, 1);
                self.turn_away(accepted);
            }
        }
    }

    fn turn_away(&mut self, accepted: Accepted<D::Socket>) {
        let conn = self.driver.adopt(accepted, TURNED_AWAY);
        // A fresh socket has room for a line; if it has not, the close says enough.
        drop(self.driver.send(conn, Engine::turn_away()));
        self.driver.close(conn);
    }
}
