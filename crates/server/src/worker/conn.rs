//! Which connection of the driver belongs to which id of the engine.
//!
//! A token carries the id through the driver: 2 bits for the kind with 1 between them that a layer over the driver may use, 29 for the index,
//! 32 for the generation. The way back is a vector by index for each range of indexes: ids are dense within those of an engine (`house`), and of an engine within it,
//! as mirrors and read targets are.
//!
//! Invariant: a connection stands here from `adopt` or `connect` to its close, and never longer.

use super::arrivals::ArrivalId;
use super::entrance::Seat;
use super::house;
use engine::ids::{ClientKind, Id};
use engine::{ClientId, UpstreamId};
use netio::{ConnId, Token};
use std::marker::PhantomData;

/// The kinds. One look at both bits tells clients, who come all the time, from the others.
const CLIENT: u64 = 0;
const UPSTREAM: u64 = 1 << 31;
const ARRIVAL: u64 = UPSTREAM | 1 << INDEX_BITS;

/// So long are indexes.
pub(super) const INDEX_BITS: u32 = 29;

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

/// Bits of the index on a shelf: the connections of an engine's mirror have so many for their own. Further ones of the engine itself have a shelf more.
const SHELF_BITS: u32 = engine::limits::MIRROR_INDEX_BITS;

/// Shelves of a tenant.
const SHELVES: usize = 1 << (house::OWN_BITS - SHELF_BITS);

/// Things by id. The generation is kept and compared, so that a late word about one that is gone cannot hit the one that has its place. A shelf for
/// each range of indexes that may be dense: the first id of a mirror needs no room for all before it.
struct Table<T, V> {
    shelves: Vec<Vec<Option<(u32, V)>>>,
    kind: PhantomData<fn() -> T>,
}

impl<T, V> Default for Table<T, V> {
    fn default() -> Self {
        Self { shelves: Vec::new(), kind: PhantomData }
    }
}

impl<T, V> Table<T, V> {
    #[inline]
    fn get(&self, id: Id<T>) -> Option<&V> {
        let (shelf, at) = Self::shelf(id);
        match self.shelves.get(shelf)?.get(at) {
            Some(Some((generation, value))) if *generation == id.generation => Some(value),
            _ => None,
        }
    }

    /// On which shelf, and where there.
    #[inline]
    fn shelf(id: Id<T>) -> (usize, usize) {
        ((id.index >> SHELF_BITS) as usize, (id.index & ((1 << SHELF_BITS) - 1)) as usize)
    }

    /// Returns the value that had this index before, if there was one.
    fn set(&mut self, id: Id<T>, value: V) -> Option<V> {
        let (shelf, index) = Self::shelf(id);
        if self.shelves.len() <= shelf {
            self.shelves.resize_with(shelf + 1, Vec::new);
        }
        let shelf = &mut self.shelves[shelf];
        if shelf.len() <= index {
            shelf.resize_with(index + 1, || None);
        }
        shelf[index].replace((id.generation, value)).map(|(_, before)| before)
    }

    fn take(&mut self, id: Id<T>) -> Option<V> {
        self.get(id)?;
        let (shelf, at) = Self::shelf(id);
        self.shelves.get_mut(shelf)?.get_mut(at)?.take().map(|(_, value)| value)
    }

    /// All of one tenant, which are gone from here then.
    fn clear(&mut self, place: usize) -> impl Iterator<Item = V> {
        let all = self.shelves.iter_mut().skip(place * SHELVES).take(SHELVES);
        let all: Vec<_> = all.flat_map(std::mem::take).flatten().collect();
        all.into_iter().map(|(_, value)| value)
    }
}

/// Connections by the ids of what they are to the engines.
pub(super) struct Conns<T> {
    table: Table<T, ConnId>,
    /// Connections without an index, since a later connection has it: an engine may give an index to a new client before the worker carries out the close of the old one.
    displaced: Vec<ConnId>,
}

impl<T> Default for Conns<T> {
    fn default() -> Self {
        Self { table: Table::default(), displaced: Vec::new() }
    }
}

impl<T> Conns<T> {
    /// The connection of this id, if there is one.
    #[inline]
    pub(super) fn get(&self, id: Id<T>) -> Option<ConnId> {
        self.table.get(id).copied()
    }

    pub(super) fn set(&mut self, id: Id<T>, conn: ConnId) {
        self.displaced.extend(self.table.set(id, conn));
    }

    /// Takes the displaced connections. The caller closes them, since no id leads to them any more.
    pub(super) fn take_displaced(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.displaced)
    }

    pub(super) fn take(&mut self, id: Id<T>) -> Option<ConnId> {
        self.table.take(id)
    }

    /// All connections of the tenant at this place, which are gone from here then.
    pub(super) fn clear(&mut self, place: usize) -> impl Iterator<Item = ConnId> {
        self.table.clear(place)
    }
}

/// What a client occupies.
pub(super) struct Seated {
    /// Its place at its listener.
    pub(super) listener: Seat,
    /// Its place in its tenant, if that counts.
    pub(super) tenant: Option<Seat>,
}

/// The connections of clients, with their seats.
#[derive(Default)]
pub(super) struct Clients {
    conns: Conns<ClientKind>,
    seats: Table<ClientKind, Seated>,
}

impl Clients {
    /// The connection of this client, if there is one.
    #[inline]
    pub(super) fn get(&self, id: ClientId) -> Option<ConnId> {
        self.conns.get(id)
    }

    pub(super) fn set(&mut self, id: ClientId, conn: ConnId, seats: Seated) {
        self.conns.set(id, conn);
        drop(self.seats.set(id, seats));
    }

    /// See [`Conns::take_displaced`].
    pub(super) fn take_displaced(&mut self) -> Vec<ConnId> {
        self.conns.take_displaced()
    }

    /// Its seats are free from here on.
    pub(super) fn take(&mut self, id: ClientId) -> Option<ConnId> {
        let conn = self.conns.take(id)?;
        drop(self.seats.take(id));
        Some(conn)
    }

    /// The client is known by another id now, and has this seat in its tenant. Its connection.
    pub(super) fn rename(
        &mut self,
        from: ClientId,
        to: ClientId,
        tenant: Option<Seat>,
    ) -> Option<ConnId> {
        let (conn, seats) = (self.conns.take(from)?, self.seats.take(from)?);
        let Seated { listener, tenant: before } = seats;
        drop(before);
        self.set(to, conn, Seated { listener, tenant });
        Some(conn)
    }

    /// The same, and it keeps the seat that it has.
    pub(super) fn rename_seated(&mut self, from: ClientId, to: ClientId) -> Option<ConnId> {
        let (conn, seats) = (self.conns.take(from)?, self.seats.take(from)?);
        self.set(to, conn, seats);
        Some(conn)
    }

    /// All connections of clients of the tenant at this place, which are gone from here then.
    pub(super) fn clear(&mut self, place: usize) -> impl Iterator<Item = ConnId> {
        self.seats.clear(place).for_each(drop);
        self.conns.clear(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of a mirror of the last tenant are as far from 0 as ids can be.
    #[test]
    fn what_is_far_apart_needs_little_room_and_goes_with_its_tenant() {
        let mut table = Table::<ClientKind, u32>::default();
        let far = ClientId::new((1 << INDEX_BITS) - 2, 1);
        let near = ClientId::new(0, 1);
        table.set(near, 1);
        table.set(ClientId::new(far.index, 1 << 9), 2);
        assert_eq!((table.get(near), table.get(far)), (Some(&1), None));
        let room: usize = table.shelves.iter().map(Vec::capacity).sum();
        assert!(room <= 2 << SHELF_BITS, "{room}");
        let place = house::place(far);
        assert_eq!(table.clear(place).collect::<Vec<_>>(), [2]);
        assert_eq!(table.clear(place).count() + table.clear(1).count(), 0);
        assert_eq!(table.take(near), Some(1));
    }

    // The close of the first connection comes after the second one is set, as with clients from other workers in one pass over the mailbox.
    #[test]
    fn a_connection_whose_place_another_one_has_is_not_forgotten() {
        let conn = |index| ConnId { index, generation: 1 };
        let (first, second) = (ClientId::new(3, 1), ClientId::new(3, 3));
        let mut conns = Conns::<ClientKind>::default();
        conns.set(first, conn(10));
        assert!(conns.take_displaced().is_empty());
        conns.set(second, conn(11));
        assert_eq!(conns.take_displaced(), [conn(10)]);
        assert_eq!((conns.take(first), conns.take(second)), (None, Some(conn(11))));
        assert!(conns.take_displaced().is_empty());
    }

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
