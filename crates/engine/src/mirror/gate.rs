//! Which writes may be under way at the primary at the same time, so that the order of their replies is the order in which they were done.
//!
//! Over one connection a server answers in the order in which it does things. Over two nobody knows: a reply that comes first may be the later one's.
//! So two writes of one key go over one connection, or one after the other:
//!
//! ```text
//!   key k   ─▶ [connection 3, two under way]      a third over connection 3: goes;  one over connection 5: waits until all three are answered
//! ```
//! Whoever waits closes the gate: what comes then waits as well, over whatever connection, so that nobody waits for ever.
//!
//! Blocking commands wait at the server for as long as they like and hold nobody up. What one took is told to mirrors when the gates of its keys are
//! free: behind the push that woke it, whose reply may still be on its way.
//!
//! Not here: what is sent (`rewrite`), to whom (`target`).
//!
//! Invariant: a gate that is here has something under way or something late; as many leave as entered.

use crate::ids::{ClientId, UpstreamId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A key by its hash, with its database. Two of the same hash wait for each other without need, no more.
pub(crate) type KeyHash = u64;

#[derive(Clone, Copy, Debug)]
struct Gate {
    upstream: UpstreamId,
    count: u32,
    is_closed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    gates: BTreeMap<KeyHash, Gate>,
    waiters: Vec<ClientId>,
}

impl Gates {
    /// Whether a write of these keys may go over this connection now.
    pub(crate) fn lets(&self, keys: &[KeyHash], upstream: UpstreamId) -> bool {
        keys.iter().all(|key| {
            self.gates.get(key).is_none_or(|gate| !gate.is_closed && gate.upstream == upstream)
        })
    }

    /// Whether nothing is under way that writes one of these keys.
    pub(crate) fn is_free(&self, keys: &[KeyHash]) -> bool {
        keys.iter().all(|key| !self.gates.contains_key(key))
    }

    /// Somebody waits for these keys.
    pub(crate) fn close(&mut self, keys: &[KeyHash]) {
        for key in keys {
            if let Some(gate) = self.gates.get_mut(key) {
                gate.is_closed = true;
            }
        }
    }

    /// This client waits for a gate; it is woken when one is free.
    pub(crate) fn wait(&mut self, client: ClientId) {
        self.waiters.push(client);
    }

    /// A write of these keys is under way.
    pub(crate) fn enter(&mut self, keys: &[KeyHash], upstream: UpstreamId) {
        for key in keys {
            let gate =
                self.gates.entry(*key).or_insert(Gate { upstream, count: 0, is_closed: false });
            gate.count += 1;
        }
    }

    /// It is answered. Whether a gate is free now.
    pub(crate) fn leave(&mut self, keys: &[KeyHash]) -> bool {
        let mut is_free = false;
        for key in keys {
            let Some(gate) = self.gates.get_mut(key) else {
                debug_assert!(false, "more leave than entered");
                continue;
            };
            gate.count -= 1;
            if gate.count == 0 {
                self.gates.remove(key);
                is_free = true;
            }
        }
        is_free
    }

    /// Those that waited, in the order in which they came.
    pub(crate) fn take_waiters(&mut self) -> Vec<ClientId> {
        core::mem::take(&mut self.waiters)
    }

    /// How many keys are being written.
    pub(crate) fn len(&self) -> usize {
        self.gates.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_goes_over_one_connection_at_a_time_and_nobody_waits_for_ever() {
        let [one, other] = [UpstreamId::new(1, 1), UpstreamId::new(2, 1)];
        let mut gates = Gates::default();
        gates.enter(&[7], one);
        assert!(gates.lets(&[7], one) && !gates.lets(&[7, 8], other) && gates.lets(&[8], other));
        gates.enter(&[7], one);
        assert!(!gates.leave(&[7]) && !gates.is_free(&[7]));
        gates.close(&[7, 9]);
        assert!(!gates.lets(&[7], one), "who comes now stands behind the one that waits");
        assert!(gates.leave(&[7]));
        assert!(gates.lets(&[7], other) && gates.is_free(&[7, 9]) && gates.len() == 0);
    }
}
