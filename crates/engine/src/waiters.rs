//! Clients that wait for a connection of their own, in the order they came.
//!
//! Not here: what wakes them (`lease`).
//!
//! Invariant: each client stands in it once, and both maps have the same clients.

use crate::ids::ClientId;
use crate::time::Time;
use alloc::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: u64,
    in_order: BTreeMap<u64, (ClientId, Time)>,
    numbers: BTreeMap<ClientId, u64>,
}

impl Waiters {
    /// The client waits from now on, if it does not already; since when.
    pub(crate) fn enter(&mut self, id: ClientId, now: Time) -> Time {
        let next = self.next;
        let number = *self.numbers.entry(id).or_insert(next);
        self.next += u64::from(number == next);
        self.in_order.entry(number).or_insert((id, now)).1
    }

    /// It does not wait any more.
    pub(crate) fn forget(&mut self, id: ClientId) {
        if let Some(number) = self.numbers.remove(&id) {
            self.in_order.remove(&number);
        }
    }

    /// Who waits longest comes first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClientId, Time)> {
        self.in_order.values().copied()
    }

    /// Whether it would be the turn of this client, waiting or not, if so many were served.
    pub(crate) fn is_among_first(&self, id: ClientId, room: usize) -> bool {
        let number = self.numbers.get(&id).copied().unwrap_or(self.next);
        self.in_order.range(..number).take(room).count() < room
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn whoever_came_first_is_first_and_comes_once() {
        let mut waiters = Waiters::default();
        let [a, b, c] = [1, 2, 3].map(|n| ClientId::new(n, 1));
        assert_eq!(waiters.enter(b, Time(1)), Time(1));
        assert_eq!(waiters.enter(a, Time(2)), Time(2));
        assert_eq!(waiters.enter(b, Time(3)), Time(1), "it keeps its place");
        assert_eq!(waiters.iter().map(|(id, _)| id).collect::<Vec<_>>(), [b, a]);
        assert!(waiters.is_among_first(b, 1) && !waiters.is_among_first(a, 1));
        assert!(waiters.is_among_first(c, 3) && !waiters.is_among_first(c, 2));
        assert!(!waiters.is_among_first(b, 0));
        waiters.forget(b);
        assert!(waiters.is_among_first(a, 1));
        assert_eq!(waiters.enter(b, Time(4)), Time(4), "at the end again");
        assert!(!waiters.is_among_first(b, 1));
        waiters.forget(a);
        waiters.forget(b);
        assert!(waiters.is_empty());
    }
}
