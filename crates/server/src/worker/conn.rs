//! Which connection of the driver belongs to which id of the engine.
//!
//! A token carries the engine's id through the driver: 1 bit for the kind, 31 for the index, 32 for the generation. The way back
//! is a vector by index, since the engine's ids are dense.
//!
//! Invariant: a connection stands here from `adopt` or `connect` to its close, and never longer.

use engine::ids::Id;
use engine::{ClientId, UpstreamId};
use netio::{ConnId, Token};
use std::marker::PhantomData;

/// Marks the tokens of upstreams.
const UPSTREAM_BIT: u64 = 1 << 31;

/// Whose connection an event is about.
pub(super) enum Party {
    /// A client's.
    Client(ClientId),
    /// An upstream's.
    Upstream(UpstreamId),
}

/// The token of a client's connection.
pub(super) fn client_token(id: ClientId) -> Token {
    token(id, 0)
}

/// The token of an upstream's connection.
pub(super) fn upstream_token(id: UpstreamId) -> Token {
    token(id, UPSTREAM_BIT)
}

fn token<T>(id: Id<T>, kind: u64) -> Token {
    debug_assert!(u64::from(id.index) < UPSTREAM_BIT, "more than 2^31 connections");
    Token(u64::from(id.generation) << 32 | kind | u64::from(id.index))
}

/// Whose token it is.
#[inline]
pub(super) fn party(token: Token) -> Party {
    let generation = (token.0 >> 32) as u32;
    let index = (token.0 & (UPSTREAM_BIT - 1)) as u32;
    if token.0 & UPSTREAM_BIT == 0 {
        Party::Client(Id::new(index, generation))
    } else {
        Party::Upstream(Id::new(index, generation))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_brings_the_id_back() {
        for (index, generation) in [(0, 1), (7, u32::MAX), ((1 << 31) - 1, 3)] {
            let client = ClientId::new(index, generation);
            assert!(matches!(party(client_token(client)), Party::Client(id) if id == client));
            let upstream = UpstreamId::new(index, generation);
            assert!(
                matches!(party(upstream_token(upstream)), Party::Upstream(id) if id == upstream)
            );
        }
    }
}
