//! The keys that clients have read, each with its clients.
//!
//! A request names thousands of keys, and a search in a large ordered map compares the name with dozens of others, each of which lies elsewhere in
//! memory. So keys are ordered by a hash that stands beside the name. A client that knows names with one hash gains nothing: those are compared by
//! name, as all were without the hash.
//!
//! A change of all keys of a client (`FLUSHALL`) concerns hundreds of thousands of keys. It is noted ([`Dropping`]) and holds from then on; the keys are removed
//! in portions, a portion in each turn.
//!
//! Not here: invalidations (`tracking`).
//!
//! Invariant: a key is here as long as a client has it, or until its portion comes, and `bytes` is the memory of keys and clients.

use super::Name;
use crate::ids::{ClientId, NodeId};
use crate::limits::DROPPED_PER_TURN;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;
use rapidhash::v3::rapidhash_v3;

/// Bytes of a key beside its name, with its first client (measured: 148 to 195 bytes with glibc's malloc).
const KEY_BYTES: usize = 196;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReadKeys {
    keys: BTreeMap<Key, Readers>,
    bytes: usize,
    dropping: Option<Dropping>,
    looking: Option<Looking>,
}

/// A look at all keys, in portions: the last key of the last portion.
#[derive(Debug, Default)]
struct Looking(Option<Key>);

/// Clients that had all of their keys dropped, with the keys that each of them has: those that it kept, and those that it has read since. Other keys of these
/// clients are to be removed.
#[derive(Debug)]
struct Dropping {
    has: BTreeMap<ClientId, BTreeSet<Name>>,
    /// Keys in `has`.
    names: usize,
    /// The last key of the last portion.
    done: Option<Key>,
}

/// Bytes of a key in [`Dropping`].
const NOTED_BYTES: usize = 32;

impl Dropping {
    fn drops(&self, id: ClientId, name: &Name) -> bool {
        self.has.get(&id).is_some_and(|has| !has.contains(name))
    }

    /// The client has this key.
    fn note(&mut self, id: ClientId, name: &Name) {
        if let Some(has) = self.has.get_mut(&id) {
            self.names += usize::from(has.insert(name.clone()));
        }
    }
}

/// A key, ordered by the hash of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    hash: u64,
    name: Name,
}

impl Key {
    fn of(name: &Name) -> Self {
        Self { hash: rapidhash_v3(name), name: name.clone() }
    }
}

/// The clients that read a key.
#[derive(Debug, Default)]
pub(super) struct Readers {
    pub(super) clients: BTreeSet<ClientId>,
    /// Where: only that server tells when it changes.
    pub(super) node: Option<NodeId>,
}

impl Readers {
    fn held_bytes(&self, name: &Name) -> usize {
        name.len() + KEY_BYTES + self.clients.len() * size_of::<ClientId>()
    }
}

impl ReadKeys {
    /// The client reads this key at this node. Clients that read it at another node hear nothing of it from this one: if there are any, respool takes the
    /// key out, returns these clients, and adds nothing.
    pub(super) fn add(
        &mut self,
        id: ClientId,
        name: &Name,
        node: Option<NodeId>,
    ) -> Option<Readers> {
        self.settle(name);
        if let Some(dropping) = &mut self.dropping {
            dropping.note(id, name);
        }
        match self.keys.entry(Key::of(name)) {
            Entry::Vacant(place) => {
                let readers = place.insert(Readers { clients: BTreeSet::from([id]), node });
                self.bytes += readers.held_bytes(name);
            }
            Entry::Occupied(mut place) if place.get().node == node => {
                if place.get_mut().clients.insert(id) {
                    self.bytes += size_of::<ClientId>();
                }
            }
            Entry::Occupied(place) => {
                let former = place.remove();
                self.bytes -= former.held_bytes(name);
                return Some(former);
            }
        }
        None
    }

    /// The clients that have this key, some perhaps no more ([`Self::may_have`]).
    pub(super) fn get(&self, name: &Name) -> Option<&Readers> {
        self.keys.get(&Key::of(name))
    }

    /// Returns false if this client of a key had the key dropped.
    pub(super) fn may_have(&self, id: ClientId, name: &Name) -> bool {
        self.dropping.as_ref().is_none_or(|dropping| !dropping.drops(id, name))
    }

    /// The client has this key no more.
    pub(super) fn remove_reader(&mut self, id: ClientId, name: &Name) {
        if let Entry::Occupied(mut place) = self.keys.entry(Key::of(name))
            && place.get_mut().clients.remove(&id)
        {
            self.bytes -= size_of::<ClientId>();
            if place.get().clients.is_empty() {
                self.bytes -= place.remove().held_bytes(name);
            }
        }
    }

    /// These clients have none of their keys any more but those that are named.
    pub(super) fn keep(&mut self, kept: BTreeMap<ClientId, BTreeSet<Name>>) {
        let names = kept.values().map(BTreeSet::len).sum();
        let before = self.dropping.take().map(|before| before.has).unwrap_or_default();
        let mut dropping = Dropping { has: kept, names, done: None };
        for (id, has) in before {
            if !dropping.has.contains_key(&id) {
                dropping.names += has.len();
                dropping.has.insert(id, has);
            }
        }
        self.dropping = Some(dropping);
    }

    /// Whether keys are to be removed.
    pub(super) fn is_dropping(&self) -> bool {
        self.dropping.is_some()
    }

    /// Looks at the next portion of the keys and their clients.
    pub(super) fn drop_some(&mut self) {
        let Some(mut dropping) = self.dropping.take() else { return };
        let from = dropping.done.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut portion = self.keys.range_mut((from, Bound::Unbounded));
        let mut unread = Vec::new();
        let mut looks = 0;
        while looks < DROPPED_PER_TURN
            && let Some((key, readers)) = portion.next()
        {
            looks += readers.clients.len().max(1);
            let before = readers.held_bytes(&key.name);
            readers.clients.retain(|id| !dropping.drops(*id, &key.name));
            self.bytes -= before - readers.held_bytes(&key.name);
            dropping.done = Some(key.clone());
            if readers.clients.is_empty() {
                unread.push(key.clone());
            }
        }
        let is_over = portion.next().is_none();
        for key in unread {
            if let Some(readers) = self.keys.remove(&key) {
                self.bytes -= readers.held_bytes(&key.name);
            }
        }
        self.dropping = Some(dropping).filter(|_| !is_over);
    }

    /// Begins a look at all keys.
    pub(super) fn begin_look(&mut self) {
        self.looking = Some(Looking::default());
    }

    /// Whether a look has not come to the last key.
    pub(super) fn is_looking(&self) -> bool {
        self.looking.is_some()
    }

    /// The next keys of the look that meet this condition.
    pub(super) fn look_on(&mut self, is_meant: impl Fn(&Name, &Readers) -> bool) -> Vec<Name> {
        let Some(Looking(last)) = self.looking.take() else { return Vec::new() };
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut meant = Vec::new();
        for (count, (key, readers)) in self.keys.range((from, Bound::Unbounded)).enumerate() {
            if is_meant(&key.name, readers) {
                meant.push(key.name.clone());
            }
            if count + 1 == DROPPED_PER_TURN {
                self.looking = Some(Looking(Some(key.clone())));
                break;
            }
        }
        meant
    }

    /// Removes the clients from this key that had it dropped.
    fn settle(&mut self, name: &Name) {
        let Some(dropping) = &self.dropping else { return };
        let Entry::Occupied(mut place) = self.keys.entry(Key::of(name)) else { return };
        let before = place.get().held_bytes(name);
        let clients = &mut place.get_mut().clients;
        clients.retain(|id| !dropping.drops(*id, name));
        let is_unread = clients.is_empty();
        self.bytes -= before;
        match is_unread {
            true => _ = place.remove(),
            false => self.bytes += place.get().held_bytes(name),
        }
    }

    /// Takes this key out.
    pub(super) fn remove(&mut self, name: &Name) -> Option<Readers> {
        self.settle(name);
        let readers = self.keys.remove(&Key::of(name))?;
        self.bytes -= readers.held_bytes(name);
        Some(readers)
    }

    /// Takes any key out.
    pub(super) fn pop(&mut self) -> Option<(Name, Readers)> {
        let (Key { name, .. }, mut readers) = self.keys.pop_first()?;
        self.bytes -= readers.held_bytes(&name);
        if let Some(dropping) = &self.dropping {
            readers.clients.retain(|id| !dropping.drops(*id, &name));
        }
        Some((name, readers))
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Readers)> {
        self.keys.iter().map(|(key, readers)| (&key.name, readers))
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of keys, and of what each client of a key takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.dropping.as_ref().map_or(0, |dropping| dropping.names * NOTED_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn name(number: u32) -> Name {
        format!("key:{number}").into_bytes().into()
    }

    /// The bytes of all keys and clients, counted anew.
    fn counted(keys: &ReadKeys) -> usize {
        keys.iter().map(|(name, readers)| readers.held_bytes(name)).sum()
    }

    #[test]
    fn each_key_has_its_readers_and_the_bytes_are_those_of_what_is_there() {
        let mut random = 7_u64;
        let mut below = |count: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as u32 % count
        };
        let client = |number| ClientId::new(number, 0);
        let nodes = [None, Some(NodeId::new(1, 0)), Some(NodeId::new(2, 0))];
        let mut keys = ReadKeys::default();
        let mut model: BTreeMap<Name, (Option<NodeId>, BTreeSet<ClientId>)> = BTreeMap::new();
        for step in 0..20_000 {
            let (key, id) = (name(below(50)), client(below(5)));
            match below(20) {
                0..12 => {
                    let node = nodes[usize::from(below(10) == 0) * below(3) as usize];
                    let moved = model.get(&key).is_some_and(|(known, _)| *known != node);
                    let former = if moved { model.remove(&key) } else { None };
                    let told = keys.add(id, &key, node).map(|one| (one.node, one.clients));
                    assert_eq!(told, former, "step {step}");
                    assert!(!moved || keys.add(id, &key, node).is_none());
                    model.entry(key).or_insert((node, BTreeSet::new())).1.insert(id);
                }
                12..16 => {
                    keys.remove_reader(id, &key);
                    if let Some((_, clients)) = model.get_mut(&key) {
                        clients.remove(&id);
                    }
                }
                16..18 => {
                    let told = keys.remove(&key).map(|one| (one.node, one.clients));
                    assert_eq!(told, model.remove(&key), "step {step}");
                }
                18 => {
                    let kept = BTreeMap::from([(id, BTreeSet::from([key.clone()]))]);
                    keys.keep(kept);
                    if below(2) == 0 {
                        while keys.is_dropping() {
                            keys.drop_some();
                        }
                    }
                    for (name, (_, clients)) in &mut model {
                        clients.retain(|other| *other != id || *name == key);
                    }
                }
                _ => {
                    let popped = keys.pop();
                    let known = popped.as_ref().and_then(|(name, _)| model.remove(name));
                    assert_eq!(
                        popped.map(|(_, one)| (one.node, one.clients)),
                        known,
                        "step {step}"
                    );
                }
            }
            model.retain(|_, (_, clients)| !clients.is_empty());
            let known: Vec<Name> = keys.iter().map(|(name, _)| name.clone()).collect();
            for name in &known {
                let clients = keys.get(name).into_iter().flat_map(|one| one.clients.iter());
                let told: BTreeSet<ClientId> =
                    clients.filter(|id| keys.may_have(**id, name)).copied().collect();
                let expected = model.get(name).map(|(_, clients)| clients.clone());
                assert_eq!(told, expected.unwrap_or_default(), "step {step}");
                keys.settle(name);
            }
            let noted = keys.dropping.as_ref().map_or(0, |dropping| dropping.names * NOTED_BYTES);
            let held = (keys.len(), keys.bytes());
            assert_eq!(held, (model.len(), counted(&keys) + noted), "step {step}");
        }
        let all: Vec<Name> = keys.iter().map(|(name, _)| name.clone()).collect();
        for name in &all {
            assert_eq!(keys.get(name).map(|one| &one.clients), model.get(name).map(|one| &one.1));
        }
    }

    #[test]
    fn a_look_sees_each_key_once_in_portions() {
        let mut keys = ReadKeys::default();
        let count = 2 * DROPPED_PER_TURN as u32 + 3;
        for number in 0..count {
            assert!(keys.add(ClientId::new(number % 7, 0), &name(number), None).is_none());
        }
        keys.begin_look();
        let mut seen = Vec::new();
        while keys.is_looking() {
            let portion = keys.look_on(|_, _| true);
            assert!(portion.len() <= DROPPED_PER_TURN);
            portion.iter().for_each(|name| _ = keys.remove(name));
            seen.extend(portion);
        }
        assert_eq!((seen.len(), keys.len()), (count as usize, 0));
        keys.begin_look();
        assert!(keys.look_on(|_, _| true).is_empty() && !keys.is_looking());
    }

    #[test]
    fn keys_that_are_dropped_are_removed_in_portions_and_keys_that_are_read_meanwhile_stay() {
        let (client, other) = (ClientId::new(1, 0), ClientId::new(2, 0));
        let mut keys = ReadKeys::default();
        let count = 3 * DROPPED_PER_TURN as u32;
        for number in 0..count {
            assert!(keys.add(client, &name(number), None).is_none());
        }
        assert!(keys.add(other, &name(0), None).is_none());
        keys.keep(BTreeMap::from([(client, BTreeSet::from([name(1)]))]));
        assert!(keys.may_have(other, &name(0)) && !keys.may_have(client, &name(0)));
        assert!(keys.may_have(client, &name(1)) && !keys.may_have(client, &name(9)));
        let mut left = keys.len();
        while keys.is_dropping() {
            for number in [2, 3] {
                assert!(keys.add(client, &name(number), None).is_none());
            }
            keys.drop_some();
            assert!(left - keys.len() <= DROPPED_PER_TURN);
            left = keys.len();
        }
        let all: BTreeSet<Name> = keys.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(all, (0..4).map(name).collect());
        assert_eq!(keys.bytes(), counted(&keys));
    }
}
