//! Requests that policies let wait, in the order in which they go on.
//!
//! There are only so many, of which no group of clients has all (`shares`).
//!
//! Not here: why they wait (`judge`).
//!
//! Invariant: `held` counts those that stand in `order`.

use crate::ids::ClientId;
use crate::shares::{Group, Held};
use crate::time::Time;
use alloc::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    order: BTreeMap<(Time, ClientId), Group>,
    held: Held,
}

impl Delayed {
    /// A client's request waits till then.
    pub(super) fn add(&mut self, at: Time, id: ClientId, group: Group) {
        if self.order.insert((at, id), group).is_none() {
            self.held.add(group);
        }
    }

    /// It does not any more.
    pub(super) fn remove(&mut self, at: Time, id: ClientId) {
        if let Some(group) = self.order.remove(&(at, id)) {
            self.held.remove(group);
        }
    }

    /// The first that is due.
    pub(super) fn take_due(&mut self, now: Time) -> Option<ClientId> {
        let (at, id) = self.order.first_key_value().map(|(key, _)| *key)?;
        if at > now {
            return None;
        }
        self.remove(at, id);
        Some(id)
    }

    /// All of them wait no longer than till then.
    pub(super) fn end_all(&mut self, at: Time) {
        let order = core::mem::take(&mut self.order);
        self.order = order.into_iter().map(|((_, id), group)| ((at, id), group)).collect();
    }

    /// When the first is due.
    pub(super) fn next_at(&self) -> Option<Time> {
        self.order.first_key_value().map(|((at, _), _)| *at)
    }

    /// Whether one more of this group may wait.
    pub(super) fn has_room(&self, group: Group, max: usize) -> bool {
        self.held.has_room(group, 1, max)
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn contains(&self, at: Time, id: ClientId) -> bool {
        self.order.contains_key(&(at, id))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Time, ClientId)> {
        self.order.keys().copied()
    }
}
