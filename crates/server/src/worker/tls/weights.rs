//! What connections with TLS hold in memory, summed up for each tenant of the worker, and who is given up when that is too much.
//!
//! A connection weighs [`CONN_BYTES`], what came of its handshake so far, what is opened and not told yet, and the records that the driver below has
//! not sent. What is not sealed yet the caller counts. Spare buffers, of which a worker has a fixed number, count nowhere.
//!
//! Not here: how much is too much, and what else takes part in it (`worker/room`).
//!
//! Invariant: the sum of a place is what its connections weigh; one that is to be given up weighs nothing from then on.

use super::super::conn::{Party, party};
use super::super::house;
use super::conn::{Conn, Phase};
use super::layer::{Id, Layer};
use super::records::Failure;
use super::{CONN_BYTES, Reason, Secured};
use netio::Token;

/// The sums, by the place of a tenant.
#[derive(Default)]
pub(super) struct Weights {
    by_place: Vec<usize>,
    changed: bool,
}

/// The place of the tenant whose connection it is. Who is no client yet counts for the default one.
pub(super) fn place(token: Token) -> usize {
    match party(token) {
        Party::Client(id) => house::place(id),
        Party::Upstream(id) => house::place(id),
        Party::Arrival(_) => 0,
    }
}

impl Weights {
    /// They are to be looked at again, whatever they are.
    pub(super) fn change(&mut self) {
        self.changed = true;
    }

    fn add(&mut self, token: Token, before: usize, after: usize) {
        let place = place(token);
        if self.by_place.len() <= place {
            self.by_place.resize(place + 1, 0);
        }
        let sum = &mut self.by_place[place];
        debug_assert!(*sum >= before, "less than one of them weighs");
        *sum = *sum + after - before;
        self.changed = true;
    }
}

impl Conn {
    /// What it holds just now.
    fn held_bytes(&self) -> usize {
        if self.failed.is_some() {
            return 0;
        }
        CONN_BYTES + self.input.len() + self.hello_bytes + self.held.len() + self.sealed_bytes
    }
}

/// Bytes of a handshake that is large: a `ClientHello` with keys of every kind takes 2 KB, a chain of certificates some KB.
const LARGE_HELLO_BYTES: usize = 16 << 10;

impl Layer {
    /// Has the sums know what a connection weighs now.
    #[inline]
    pub(super) fn weigh(&mut self, id: Id) {
        let Self { conns, weights, .. } = self;
        let Some(conn) = conns.get_mut(id) else { return };
        let held = conn.held_bytes();
        if held != conn.weight {
            weights.add(conn.token, conn.weight, held);
            conn.weight = held;
        }
    }

    /// It is gone.
    pub(super) fn unweigh(&mut self, conn: &Conn) {
        self.weights.add(conn.token, conn.weight, 0);
    }

    /// It is somebody else's from now on.
    pub(super) fn reweigh(&mut self, from: Token, to: Token, weight: usize) {
        self.weights.add(from, weight, 0);
        self.weights.add(to, 0, weight);
    }

    /// Marks a client to be given up, for want of memory; what becomes free.
    fn shed(&mut self, id: Id) -> usize {
        let Some(conn) = self.conns.get_mut(id) else { return 0 };
        let cause = "no memory is left for it (limits.memory_max_bytes)".to_owned();
        conn.failed = Some(Failure { reason: Reason::Memory, cause });
        let free = conn.weight;
        self.weigh(id);
        self.leave_crowd(id);
        self.add_work(id);
        free
    }

    /// That the sums are right: those who are to be given up count no more.
    #[cfg(test)]
    pub(super) fn check_weights(&self) {
        let mut sums = vec![0; self.weights.by_place.len()];
        for (_, conn) in self.conns.iter() {
            assert!(conn.failed.is_some() || conn.weight == conn.held_bytes(), "not weighed");
            if conn.weight > 0 {
                sums[place(conn.token)] += conn.weight;
            }
        }
        assert_eq!(sums, self.weights.by_place);
    }

    fn is_shed_from(&self, id: Id, at: usize, phase: impl Fn(&Phase) -> bool) -> bool {
        self.conns.get(id).is_some_and(|conn| {
            conn.is_client()
                && conn.failed.is_none()
                && phase(&conn.phase)
                && place(conn.token) == at
        })
    }

    fn shed_unfinished(&mut self, at: usize, wanted: usize) -> usize {
        let mut free = self.shed_large_hellos(at, wanted);
        let mut most = self.unfinished.largest(at);
        // The largest crowds down to the half of the largest, then those that are the largest now.
        while most > 0 && free < wanted {
            most /= 2;
            for index in (0..self.arrivals.len()).rev() {
                if free >= wanted {
                    break;
                }
                let Some((_, id)) = self.arrivals.get(index).copied() else { break };
                if self.is_in_crowd(id, at, most) {
                    free += self.shed(id);
                }
            }
        }
        free
    }

    /// Gives up clients with a large unfinished handshake, the latest clients first. Few honest handshakes are so large.
    fn shed_large_hellos(&mut self, at: usize, wanted: usize) -> usize {
        let mut free = 0;
        for index in (0..self.arrivals.len()).rev() {
            if free >= wanted {
                break;
            }
            let Some((_, id)) = self.arrivals.get(index).copied() else { break };
            let weight = self.conns.get(id).map_or(0, |conn| conn.weight);
            let is_large = weight > CONN_BYTES + LARGE_HELLO_BYTES;
            if is_large && self.is_shed_from(id, at, |phase| *phase != Phase::Open) {
                free += self.shed(id);
            }
        }
        free
    }

    /// Whether it is a client of this tenant that is not through, from a source with more of them than that.
    fn is_in_crowd(&self, id: Id, at: usize, most: usize) -> bool {
        let crowd = self.conns.get(id).and_then(|conn| conn.crowd);
        crowd.is_some_and(|crowd| crowd.0 == at && self.unfinished.of(crowd) > most)
            && self.is_shed_from(id, at, |phase| *phase != Phase::Open)
    }

    fn shed_open(&mut self, at: usize, wanted: usize) -> usize {
        let mut open: Vec<(usize, Id)> =
            self.conns.iter().map(|(id, conn)| (conn.weight, id)).collect();
        open.retain(|(_, id)| self.is_shed_from(*id, at, |phase| *phase == Phase::Open));
        open.sort_unstable_by_key(|(weight, id)| std::cmp::Reverse((*weight, id.index)));
        let mut free = 0;
        for (_, id) in open {
            if free >= wanted {
                break;
            }
            free += self.shed(id);
        }
        free
    }
}

impl<D> Secured<D> {
    /// Whether something weighs more or less since this was asked last.
    #[inline]
    pub(in super::super) fn take_weighed(&mut self) -> bool {
        std::mem::take(&mut self.layer.weights.changed)
    }

    /// What the connections of each tenant hold, by its place; places that are not there hold nothing.
    pub(in super::super) fn weights(&self) -> &[usize] {
        &self.layer.weights.by_place
    }

    /// Gives up clients of the tenant at this place with unfinished handshakes until so many bytes are free, and returns the free bytes. Clients with more than
    /// [`LARGE_HELLO_BYTES`] of a handshake go first, then clients of the addresses with most such clients, the latest clients first. The next wait closes these clients.
    pub(in super::super) fn shed_unfinished(&mut self, place: usize, wanted: usize) -> usize {
        self.layer.shed_unfinished(place, wanted)
    }

    /// The same of those that are through it: who holds most first.
    pub(in super::super) fn shed_open(&mut self, place: usize, wanted: usize) -> usize {
        self.layer.shed_open(place, wanted)
    }
}
