//! Where handshakes come from: whose goes on next, and which address has most that are not over.
//!
//! ```text
//!   10.0.0.7   h h h h h h h h …      one source after the other, of each the oldest:
//!   10.0.0.9   h                      7, 9, 12, 7, 12, 7, 7 …
//!   10.0.0.12  h h
//! ```
//! So a source with thousands of hellos keeps a client of another one waiting for one step of a handshake, and not for all of its own.
//!
//! Not here: what a step is, how many of them a wait makes (`layer`), who is closed for want of memory (`weights`).
//!
//! Invariant: a handshake waits at most once, from [`Turns::push`] to its turn or to [`Turns::remove`]; nothing of a connection that is gone is kept.

use super::layer::Id;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};

/// Who shares turns, in the order in which they have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// Servers. respool connects to them itself, and clients wait for that: they go first.
    Upstreams,
    /// Clients over unix sockets.
    Local,
    /// Clients from this address.
    V4(u32),
    /// Clients from this network of 64 bits, all of which one host may have.
    V6(u64),
}

impl Source {
    /// The source of a client with this address.
    pub(super) fn of(ip: Option<IpAddr>) -> Self {
        match ip.map(|ip| ip.to_canonical()) {
            None => Self::Local,
            Some(IpAddr::V4(ip)) => Self::V4(ip.to_bits()),
            Some(IpAddr::V6(ip)) => Self::V6((ip.to_bits() >> 64) as u64),
        }
    }
}

/// Names a handshake that waits.
pub(super) type Turn = u64;

/// Handshakes that can go on. See the module.
pub(super) struct Turns {
    /// Of each source in the order in which they could.
    waiting: BTreeMap<(Source, Turn), Id>,
    next: Turn,
    /// Who had the last turn.
    last: Source,
}

impl Default for Turns {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: 0, last: Source::Upstreams }
    }
}

impl Turns {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// This one can go on.
    pub(super) fn push(&mut self, source: Source, id: Id) -> Turn {
        let turn = self.next;
        self.next += 1;
        self.waiting.insert((source, turn), id);
        turn
    }

    /// It is gone.
    pub(super) fn remove(&mut self, source: Source, turn: Turn) {
        self.waiting.remove(&(source, turn));
    }

    /// Whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Id> {
        let (&first, _) = self.waiting.first_key_value()?;
        let behind = (Excluded((self.last, Turn::MAX)), Unbounded);
        let key = match first.0 {
            Source::Upstreams => first,
            // Behind the last source it begins again.
            _ => self.waiting.range(behind).next().map_or(first, |(&key, _)| key),
        };
        if key.0 != Source::Upstreams {
            self.last = key.0;
        }
        self.waiting.remove(&key)
    }
}

/// A source of handshakes with the clients of the tenant at a place.
pub(super) type Crowd = (usize, Source);

/// How many clients are not through their handshake, by tenant and source.
#[derive(Default)]
pub(super) struct Crowds {
    counts: BTreeMap<Crowd, usize>,
    sum: usize,
}

impl Crowds {
    /// All of them.
    pub(super) fn sum(&self) -> usize {
        self.sum
    }

    /// Those of one.
    pub(super) fn of(&self, crowd: Crowd) -> usize {
        self.counts.get(&crowd).copied().unwrap_or_default()
    }

    /// Those of the largest one of this tenant.
    pub(super) fn largest(&self, place: usize) -> usize {
        let crowds = self.counts.range((place, Source::Upstreams)..(place + 1, Source::Upstreams));
        crowds.map(|(_, count)| *count).max().unwrap_or_default()
    }

    /// One more.
    pub(super) fn join(&mut self, crowd: Crowd) {
        self.sum += 1;
        *self.counts.entry(crowd).or_default() += 1;
    }

    /// One is through, or gone.
    pub(super) fn leave(&mut self, crowd: Crowd) {
        self.sum -= 1;
        let Some(count) = self.counts.get_mut(&crowd) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&crowd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of(Some(text.parse().unwrap()))
    }

    #[test]
    fn a_host_is_one_source_by_whatever_address_of_it() {
        assert_eq!(source("10.0.0.1"), source("::ffff:10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_eq!(source("2001:db8:0:1::5"), source("2001:db8:0:1:ffff::9"));
        assert_ne!(source("2001:db8:0:1::5"), source("2001:db8:0:2::5"));
        assert_ne!(Source::of(None), source("0.0.0.0"));
    }

    #[test]
    fn sources_have_turns_one_after_the_other_and_servers_the_first() {
        let (mut turns, id) = (Turns::default(), |at| Id::new(at, 1));
        let (many, few) = (source("10.0.0.1"), source("10.0.0.2"));
        let first = turns.push(many, id(0));
        for at in 1..1000 {
            turns.push(many, id(at));
        }
        turns.push(few, id(2000));
        turns.push(few, id(2001));
        turns.push(Source::Local, id(3000));
        turns.remove(many, first);
        let mut order = |count| -> Vec<u32> {
            (0..count).map(|_| turns.pop().map_or(u32::MAX, |id| id.index)).collect()
        };
        assert_eq!(order(7), [3000, 1, 2000, 2, 2001, 3, 4]);
        turns.push(few, id(2002));
        turns.push(Source::Upstreams, id(4000));
        turns.push(Source::Upstreams, id(4001));
        let mut order = |count| -> Vec<u32> {
            (0..count).map(|_| turns.pop().map_or(u32::MAX, |id| id.index)).collect()
        };
        assert_eq!(order(5), [4000, 4001, 2002, 5, 6]);
        assert_eq!(order(994), (7..1000).chain([u32::MAX]).collect::<Vec<_>>());
        assert!(turns.is_empty());
    }

    #[test]
    fn crowds_are_counted_by_tenant() {
        let mut crowds = Crowds::default();
        let (one, other) = ((0, source("10.0.0.1")), (1, source("10.0.0.1")));
        for crowd in [one, one, other, (0, Source::Local)] {
            crowds.join(crowd);
        }
        assert_eq!((crowds.sum(), crowds.largest(0), crowds.largest(1)), (4, 2, 1));
        crowds.leave(one);
        crowds.leave(other);
        assert_eq!((crowds.of(one), crowds.of(other), crowds.largest(1)), (1, 0, 0));
    }
}
