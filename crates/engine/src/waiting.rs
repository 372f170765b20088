//! Clients, or replies for them, that wait for a turn, by user and address: a group with a thousand clients has as many turns as a group with one.
//!
//! Not here: how much a client may do in its turn (`turns` at an upstream, `slow` in the worker); lines in which a group may have all that it may have (`waiters`).
//!
//! Invariant: `turns` has each group of which clients wait, once.

use crate::engine::Engine;
use crate::ids::ClientId;
use crate::shares::Group;
use alloc::collections::{BTreeMap, VecDeque};

/// See the module.
#[derive(Debug)]
pub struct Waiting<T = ClientId> {
    /// In each group the client that came first is first.
    clients: BTreeMap<Group, VecDeque<T>>,
    turns: VecDeque<Group>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { clients: BTreeMap::new(), turns: VecDeque::new() }
    }
}

impl<T: Copy + PartialEq> Waiting<T> {
    /// The client waits behind the others of its group, and a group of which none waited behind the other groups.
    pub(crate) fn push(&mut self, group: Group, client: T) {
        let clients = self.clients.entry(group).or_default();
        if clients.is_empty() {
            self.turns.push_back(group);
        }
        clients.push_back(client);
    }

    /// Takes out the client that has the next turn; its group becomes the last one.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let group = self.turns.pop_front()?;
        let clients = self.clients.get_mut(&group)?;
        let first = clients.pop_front();
        if clients.is_empty() {
            self.clients.remove(&group);
        } else {
            self.turns.push_back(group);
        }
        first
    }

    /// Takes this client out. Returns whether the client waited.
    pub(crate) fn remove(&mut self, client: T) -> bool {
        let found = self.clients.iter_mut().find_map(|(group, clients)| {
            let at = clients.iter().position(|id| *id == client)?;
            clients.remove(at);
            Some((*group, clients.is_empty()))
        });
        if let Some((group, true)) = found {
            self.clients.remove(&group);
            self.turns.retain(|other| *other != group);
        }
        found.is_some()
    }

    /// Whether no client waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// How many clients wait.
    pub(crate) fn len(&self) -> usize {
        self.clients.values().map(VecDeque::len).sum()
    }

    /// All clients that wait, group by group.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        self.clients.values().flatten().copied()
    }
}

impl Engine {
    /// The group of a client; all connections that no client has are one group.
    pub(crate) fn group_of(&self, client: Option<ClientId>) -> Group {
        let client = client.and_then(|id| self.clients.get(id));
        client.map_or(Group::default(), |client| Group::of(client, &self.settings.users))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn id(number: u32) -> ClientId {
        ClientId::new(number, 1)
    }

    fn all(waiting: &mut Waiting) -> Vec<ClientId> {
        core::iter::from_fn(|| waiting.pop()).collect()
    }

    #[test]
    fn groups_have_their_turns_one_after_the_other() {
        let mut waiting = Waiting::default();
        let [a, b, c] = [1, 2, 3].map(Group::of_user);
        for (group, client) in [(a, 1), (a, 2), (a, 3), (b, 4), (b, 5), (c, 6)] {
            waiting.push(group, id(client));
        }
        assert_eq!(waiting.len(), 6);
        assert_eq!(waiting.pop(), Some(id(1)));
        // This client has more to write.
        waiting.push(a, id(1));
        assert_eq!(all(&mut waiting), [4, 6, 2, 5, 3, 1].map(id));
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_client_that_is_taken_out_has_no_turn_and_leaves_those_of_others() {
        let mut waiting = Waiting::default();
        let [a, b] = [1, 2].map(Group::of_user);
        for (group, client) in [(a, 1), (a, 2), (b, 3)] {
            waiting.push(group, id(client));
        }
        assert!(waiting.remove(id(3)) && !waiting.remove(id(3)));
        assert!(waiting.remove(id(1)));
        assert_eq!(waiting.iter().collect::<Vec<_>>(), [id(2)]);
        assert_eq!(all(&mut waiting), [id(2)]);
        assert!(waiting.is_empty());
    }
}
