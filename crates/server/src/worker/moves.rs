//! Clients come to their tenants, go over to others, and go with them.
//!
//! ```text
//!   accepted ─▶ open_client ─▶ [tenant of the listener, or of the default user] ── Action::Move ─▶ move_client ─▶ [another one, another id]
//!                                                                                                        └ no seat there: stays, gets an error
//!   a server takes its name and password ── Action::LogIn ─▶ log_client_in ─▶ [the engine of that login, of the same tenant]
//! ```
//! Not here: which tenant it is (`engine::tenancy`), the engines (`house`).
//!
//! Invariant: a client has a seat in the tenant that it is in, if that tenant counts its clients, and in no other one.

use super::Worker;
use super::conn::client_token;
use super::entrance::{Entrance, Seat};
use super::house;
use engine::login::Said;
use engine::stats::Refused;
use engine::tenancy::TenantId;
use engine::{ClientId, Engine, Time, reject};
use netio::Driver;
use std::sync::Arc;

/// What a client gets from the listener that it came to.
pub(super) struct Origin {
    label: Arc<str>,
    tenant: TenantId,
}

impl Origin {
    pub(super) fn of(entrance: &Entrance) -> Self {
        Self { label: entrance.label.clone(), tenant: entrance.tenant }
    }
}

/// Why a connection does not become a client, and what it is told; `None`: nothing.
#[derive(Debug)]
pub(super) struct TurnedAway {
    pub(super) why: Refused,
    pub(super) text: Option<Vec<u8>>,
}

impl From<Refused> for TurnedAway {
    fn from(why: Refused) -> Self {
        Self { why, text: Engine::turn_away(why) }
    }
}

impl<D: Driver> Worker<D> {
    /// A client for the engine of its tenant, with its seat there. Who is refused because of the tenant is not counted yet.
    pub(super) fn open_client(
        &mut self,
        now: Time,
        origin: Origin,
        addresses: (String, String),
    ) -> Result<(ClientId, Option<Seat>), TurnedAway> {
        let Origin { label, tenant } = origin;
        let place = self.engine.entry(tenant).ok_or(Refused::TenantMaxClients)?;
        let seat = self.seat_in(place).map_err(|()| Refused::TenantMaxClients)?;
        if let Some(text) = self.engine.unless_too_many_come(now, place, &addresses.0) {
            return Err(TurnedAway { why: Refused::Rate, text: Some(text) });
        }
        let number = self.process.next_client();
        match self.engine.handle_client_open(now, place, tenant, addresses, number) {
            Some(id) => {
                self.engine.note_listener(id, label);
                Ok((id, seat))
            }
            // The engine has counted it.
            None => Err(Refused::MaxClients.into()),
        }
    }

    /// A seat in the tenant at a place; none where it does not count its clients.
    fn seat_in(&self, place: usize) -> Result<Option<Seat>, ()> {
        match self.engine.seats(place) {
            None => Ok(None),
            Some(seats) => seats.take().map(Some).ok_or(()),
        }
    }

    /// A client belongs to another tenant now, and waits to be taken there.
    pub(super) fn move_client(&mut self, now: Time, id: ClientId, to: TenantId) {
        let Some(place) = self.engine.open(to) else {
            return self.engine.keep_client(id, reject::TENANT_GONE);
        };
        if self.engine.base_at(house::place(id)) == to {
            // It has a seat there already.
            return self.move_seated(now, id, place);
        }
        let Ok(seat) = self.seat_in(place) else {
            return self.engine.keep_client(id, reject::TENANT_FULL);
        };
        let Some(new) = self.engine.transfer(id, place) else { return };
        if let Some(conn) = self.clients.rename(id, new, seat) {
            self.driver.rename(conn, client_token(new));
        }
        self.engine.begin_admitted(now, new);
    }

    /// A client is a user of the servers now, and waits to be taken to the engine of its login.
    pub(super) fn log_client_in(&mut self, now: Time, id: ClientId, said: &Said) {
        // A client that is gone has nowhere to go.
        let Some(addr) = self.engine.client_address(id).map(str::to_owned) else { return };
        match self.engine.log_in(now, house::place(id), said, &addr) {
            Ok(place) => self.move_seated(now, id, place),
            Err(error) => self.engine.keep_client(id, error),
        }
    }

    /// The client goes to another engine of its tenant.
    fn move_seated(&mut self, now: Time, id: ClientId, place: usize) {
        let Some(new) = self.engine.transfer(id, place) else { return };
        if let Some(conn) = self.clients.rename_seated(id, new) {
            self.driver.rename(conn, client_token(new));
        }
        self.engine.begin_admitted(now, new);
    }

    /// Tenants whose clients have what they are owed, or whose time is up, are closed with all that is theirs.
    pub(super) fn end_tenants(&mut self, now: Time) {
        self.engine.look_at_logins(now);
        let left = self.engine.left(now);
        if left.is_empty() {
            return;
        }
        for place in left {
            let tenant = self.engine.tenant_at(place);
            // What its mirrors have not got is told, as nobody can be asked for it later.
            self.engine.end_mirrors_of(now, place);
            self.tell();
            let clients: Vec<_> = self.clients.clear(place).collect();
            self.fleet.client_gone(self.index, clients.len());
            let upstreams = self.upstreams.clear(place);
            clients.into_iter().chain(upstreams).for_each(|conn| self.driver.close(conn));
            self.forget_questions(tenant);
            self.names.forget(|id| house::place(id) == place);
            self.engine.remove(now, place);
        }
        // Another tenant may have got the place.
        self.carry_out(now);
    }
}
