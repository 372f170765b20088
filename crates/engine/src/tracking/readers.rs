//! The keys that clients have read, each with its clients.
//!
//! A request names thousands of keys, and a search in a large ordered map compares the name with dozens of others, each of which lies elsewhere in
//! memory. So keys are ordered by a hash that stands beside the name. A client that knows names with one hash gains nothing: those are compared by
//! name, as all were without the hash.
//!
//! Not here: invalidations (`tracking`).
//!
//! Invariant: a key is here as long as a client has it, and `bytes` is the memory of keys and clients.

use super::Name;
use crate::ids::{ClientId, NodeId};
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use rapidhash::v3::rapidhash_v3;

/// Bytes of a key beside its name, with its first client (measured: 148 to 195 bytes with glibc's malloc).
const KEY_BYTES: usize = 196;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReadKeys {
    keys: BTreeMap<Key, Readers>,
    bytes: usize,
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

    /// The clients that have this key.
    pub(super) fn get(&self, name: &Name) -> Option<&Readers> {
        self.keys.get(&Key::of(name))
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

    /// These clients have none of their keys any more but those that are named. One pass, however many they are.
    pub(super) fn keep(&mut self, kept: &BTreeMap<ClientId, BTreeSet<Name>>) {
        let mut freed = 0;
        self.keys.retain(|Key { name, .. }, readers| {
            let before = readers.held_bytes(name);
            readers.clients.retain(|id| kept.get(id).is_none_or(|kept| kept.contains(name)));
            let is_read = !readers.clients.is_empty();
            freed += before - if is_read { readers.held_bytes(name) } else { 0 };
            is_read
        });
        self.bytes -= freed;
    }

    /// Takes this key out.
    pub(super) fn remove(&mut self, name: &Name) -> Option<Readers> {
        let readers = self.keys.remove(&Key::of(name))?;
        self.bytes -= readers.held_bytes(name);
        Some(readers)
    }

    /// Takes any key out.
    pub(super) fn pop(&mut self) -> Option<(Name, Readers)> {
        let (Key { name, .. }, readers) = self.keys.pop_first()?;
        self.bytes -= readers.held_bytes(&name);
        Some((name, readers))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, &Readers)> {
        self.keys.iter().map(|(key, readers)| (&key.name, readers))
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of keys, and of what each client of a key takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;

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
                    keys.keep(&kept);
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
            assert_eq!((keys.len(), keys.bytes()), (model.len(), counted(&keys)), "step {step}");
        }
        let all: Vec<Name> = keys.iter().map(|(name, _)| name.clone()).collect();
        for name in &all {
            assert_eq!(keys.get(name).map(|one| &one.clients), model.get(name).map(|one| &one.1));
        }
    }
}
