//! Which connection of the driver belongs to which id of the engine.
//!
//! A token carries the id through the driver: 2 bits for the kind with 1 between them that a layer over the driver may use, 29 for the index,
//! 32 for the generation. The way back is a vector by index, since the engine's ids are dense.
//!
//! Invariant: a connection stands here from `adopt` or `connect` to its close, and never longer.

use super::arrivals::ArrivalId;
use super::entrance::Seat;
use engine::ids::{ClientKind, Id};
use engine::{ClientId, UpstreamId};
use netio::{ConnId, Token};
use std::marker::PhantomData;

/// The kinds. One look at both bits tells clients, who come all the time, from the others.
const CLIENT: u64 = 0;
const UPSTREAM: u64 = 1 << 31;
const ARRIVAL: u64 = UPSTREAM | 1 << INDEX_BITS;

/// So long are indexes.
const INDEX_BITS: u32 = 29;

/// For connections that get one error and a close, and are never heard again: the arrival that never is.
pub(super) const TURNED_AWAY: Token =
    Token((u32::MAX as u64) << 32 | ARRIVAL | ((1 << INDEX_BITS) - 1));

/// Whose connection an event is about.
pub(super) enum Party {
    /// A client's.
    Client(ClientId),
    /// An upstream's.
    Upstream(UpstreamId),
    /// That of somebody whose header is to come.
    Arrival(ArrivalId),
}

/// The token of a client's connection.
pub(super) fn client_token(id: ClientId) -> Token {
    token(id, CLIENT)
}

/// The token of an upstream's connection.
pub(super) fn upstream_token(id: UpstreamId) -> Token {
    token(id, UPSTREAM)
}

/// The token of a connection whose header is to come.
pub(super) fn arrival_token(id: ArrivalId) -> Token {
    token(id, ARRIVAL)
}

fn token<T>(id: Id<T>, kind: u64) -> Token {
    debug_assert!(id.index < 1 << INDEX_BITS, "more than 2^29 connections");
    Token(u64::from(id.generation) << 32 | kind | u64::from(id.index))
}

/// Whose token it is.
#[inline]
pub(super) fn party(token: Token) -> Party {
    let generation = (token.0 >> 32) as u32;
    let index = token.0 as u32 & ((1 << INDEX_BITS) - 1);
    match token.0 & ARRIVAL {
        CLIENT => Party::Client(Id::new(index, generation)),
        UPSTREAM => Party::Upstream(Id::new(index, generation)),
        _ => Party::Arrival(Id::new(index, generation)),
    }
}

/// Connections by engine id. The generation is kept and compared, so that a late word about one that is gone cannot hit the one that
/// has its place.
pub(super) struct Conns<T>(Vec<Option<(u32, ConnId)>>, PhantomData<fn() -> T>);

impl<T> Default for Conns<T> {
    fn default() -> Self {
        Self(Vec::new(), PhantomData)
    }
}

impl<T> Conns<T> {
    /// The connection of this id, if there is one.
    #[inline]
    pub(super) fn get(&self, id: Id<T>) -> Option<ConnId> {
        match self.0.get(id.index as usize) {
            Some(Some((generation, conn))) if *generation == id.generation => Some(*conn),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, id: Id<T>, conn: ConnId) {
        let index = id.index as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        debug_assert!(self.0[index].is_none(), "a connection is forgotten without a close");
        self.0[index] = Some((id.generation, conn));
    }

    pub(super) fn take(&mut self, id: Id<T>) -> Option<ConnId> {
        self.get(id)?;
        self.0.get_mut(id.index as usize)?.take().map(|(_, conn)| conn)
    }
}

/// The connections of clients, with their seats.
#[derive(Default)]
pub(super) struct Clients {
    conns: Conns<ClientKind>,
    /// By the index of the client.
    seats: Vec<Option<Seat>>,
}

impl Clients {
    /// The connection of this client, if there is one.
    #[inline]
    pub(super) fn get(&self, id: ClientId) -> Option<ConnId> {
        self.conns.get(id)
    }

    pub(super) fn set(&mut self, id: ClientId, conn: ConnId, seat: Seat) {
        self.conns.set(id, conn);
        let index = id.index as usize;
        if self.seats.len() <= index {
            self.seats.resize_with(index + 1, || None);
        }
        self.seats[index] = Some(seat);
    }

    /// Its seat is free from here on.
    pub(super) fn take(&mut self, id: ClientId) -> Option<ConnId> {
        let conn = self.conns.take(id)?;
        self.seats[id.index as usize] = None;
        Some(conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_brings_the_id_back() {
        for (index, generation) in [(0, 1), (7, u32::MAX), ((1 << INDEX_BITS) - 1, 3)] {
            let client = ClientId::new(index, generation);
            assert!(matches!(party(client_token(client)), Party::Client(id) if id == client));
            let upstream = UpstreamId::new(index, generation);
            assert!(
                matches!(party(upstream_token(upstream)), Party::Upstream(id) if id == upstream)
            );
            let arrival = ArrivalId::new(index, generation);
            assert!(matches!(party(arrival_token(arrival)), Party::Arrival(id) if id == arrival));
        }
    }
}
