//! Clients in BCAST mode are told of all keys with one of their prefixes, read or not.
//!
//! ```text
//!   server: a:1 a:2 b:1 changed ─▶ prefix "a:" ─▶ [a:1 a:2]     ─▶ all clients with it
//!                                  prefix ""   ─▶ [a:1 a:2 b:1] ─▶ all clients with it
//! ```
//! A server tells of thousands of keys at once, and thousands of clients hear of them. So which keys begin with a prefix is found once for all that have it.
//!
//! Not here: the connections that tell (`feed`), and in which order a client hears of what (`order`).
//!
//! Invariant: a client is told of each key once, as no two of its prefixes overlap.

use super::wire::BEGIN;
use super::{Changed, Ear, Name, Tracking, is_before};
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{FAN_KEY_COST, FAN_NAME_COST};
use crate::time::Time;
use crate::upstream::{Lane, UpstreamKey};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::Protocol;

impl Tracking {
    /// Whether no reply is on its way that a change may have to be told behind.
    fn nothing_under_way(&self, head: u32) -> bool {
        let blocks = self.blocked.as_ref().is_some_and(|(place, _)| !is_before(*place, head));
        !blocks && self.later.is_empty() && !self.reading.is_open(head)
    }
}

/// What is told of one change to those with a prefix.
struct ByPrefix {
    /// In order.
    all: Arc<[Name]>,
    /// Those with each prefix that was asked for.
    found: BTreeMap<Name, Arc<[Name]>>,
}

impl ByPrefix {
    fn new(keys: &Arc<[Name]>) -> Self {
        // Servers tell of them in order.
        let is_ordered = keys.windows(2).all(|pair| pair[0] < pair[1]);
        let all = match is_ordered {
            true => keys.clone(),
            false => keys.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect(),
        };
        Self { all, found: BTreeMap::new() }
    }

    /// One message for each prefix (`trackingBroadcastInvalidationMessages` in Redis' tracking.c).
    fn told_to(&mut self, tracking: &Tracking) -> Vec<Arc<[Name]>> {
        if tracking.prefixes.len() <= self.all.len() {
            let lists = tracking.prefixes.iter().map(|prefix| self.with(prefix));
            return lists.filter(|list| !list.is_empty()).collect();
        }
        let prefixes = self.all.iter().filter_map(|key| tracking.prefix_of(key));
        let prefixes: BTreeSet<&Name> = prefixes.collect();
        prefixes.into_iter().map(|prefix| self.with(prefix)).collect()
    }

    fn with(&mut self, prefix: &Name) -> Arc<[Name]> {
        if prefix.is_empty() {
            return self.all.clone();
        }
        if let Some(list) = self.found.get(prefix) {
            return list.clone();
        }
        let behind = &self.all[self.all.partition_point(|key| key < prefix)..];
        let count = behind.partition_point(|key| key.starts_with(prefix));
        let list: Arc<[Name]> = behind[..count].into();
        self.found.insert(prefix.clone(), list.clone());
        list
    }
}

impl Engine {
    /// Who gets a message of changed keys that came over this connection in the server's own words: the owner of the connection, while it reads nothing just now.
    /// The server knows of it what it knows itself.
    pub(super) fn hears_as_told(&self, from: UpstreamKey, frame: &[u8]) -> Option<ClientId> {
        let owner = from.owner.filter(|_| from.lane == Lane::Broadcast)?;
        let client = self.clients.get(owner)?;
        let tracking = client.tracking.as_ref()?;
        let is_plain = client.protocol == Protocol::Resp3
            && tracking.broadcast
            && tracking.redirect == 0
            && tracking.nothing_under_way(client.places.head())
            && client.ear() == Some(Ear::of(&from))
            && self.namespace().is_none();
        (is_plain && frame.strip_prefix(BEGIN).is_some_and(|keys| keys.starts_with(b"*")))
            .then_some(owner)
    }

    /// Returns the list of these keys for messages. respool writes each list once for all clients; `lists` finds it by the address of the names, which `ByPrefix` keeps.
    fn list_of(
        &mut self,
        lists: &mut BTreeMap<*const Name, Arc<[u8]>>,
        keys: &Arc<[Name]>,
    ) -> Arc<[u8]> {
        if let Some(list) = lists.get(&keys.as_ptr()) {
            return list.clone();
        }
        let mut list = Vec::new();
        self.write_list(&mut list, keys);
        let list: Arc<[u8]> = list.into();
        lists.insert(keys.as_ptr(), list.clone());
        list
    }

    /// A server told over this connection that these keys changed.
    pub(super) fn tell_broadcast(
        &mut self,
        by: (Time, UpstreamId),
        from: UpstreamKey,
        keys: &Arc<[Name]>,
    ) {
        let mut by_prefix = ByPrefix::new(keys);
        let mut lists = BTreeMap::new();
        // Over a connection of its own nobody but the owner hears anything.
        let listeners: Vec<ClientId> = match from.owner {
            Some(owner) => self.caches.broadcast.get(&owner).copied().into_iter().collect(),
            None => self.caches.broadcast.iter().copied().collect(),
        };
        for id in listeners {
            if !self.hears(id, from) {
                continue;
            }
            let Some(client) = self.clients.get_mut(id) else { continue };
            let head = client.places.head();
            let tracking = client.tracking.as_mut().filter(|tracking| tracking.broadcast);
            let Some(tracking) = tracking else { continue };
            let told = by_prefix.told_to(tracking);
            let looked_at = tracking.prefixes.len().min(keys.len());
            let compared = if tracking.reading.is_open(head) { keys.len() } else { 0 };
            let cost = looked_at * FAN_NAME_COST + compared * FAN_KEY_COST;
            self.grants.fan.pay(cost, false);
            for keys in &told {
                // As in `key_changed`.
                tracking.again.extend(tracking.reading.places_of(keys, head));
            }
            self.account_rest(id);
            for keys in told {
                let list = self.list_of(&mut lists, &keys);
                self.tell_in_order(Some(by), id, Changed::Listed(keys, list));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn name(name: &str) -> Name {
        name.as_bytes().into()
    }

    #[test]
    fn each_is_told_of_the_keys_with_its_prefixes() {
        let keys = ["b:2", "a:1", "b", "b:1", "a:1", "c"].map(name);
        let told = |prefixes: &[&str]| {
            let prefixes = prefixes.iter().copied().map(name).collect();
            let lists = ByPrefix::new(&Arc::from(&keys[..]))
                .told_to(&Tracking { prefixes, ..Tracking::default() });
            let words = |list: &Arc<[Name]>| -> Vec<String> {
                list.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
            };
            lists.iter().map(words).collect::<Vec<_>>()
        };
        assert_eq!(told(&[""]), [["a:1", "b", "b:1", "b:2", "c"]]);
        assert_eq!(told(&["b:", "d", "a:1", "c:"]), [&["a:1"][..], &["b:1", "b:2"]]);
        // More prefixes than keys.
        let many = ["a:", "a0", "a1", "b:1", "b:2", "b:3", "d"];
        assert_eq!(told(&many), [["a:1"], ["b:1"], ["b:2"]]);
        assert!(told(&["x"]).is_empty());
    }

    #[test]
    fn which_keys_have_a_prefix_is_found_once_for_all_clients() {
        let keys: Vec<Name> = (0..3_000).map(|n| name(&alloc::format!("k:{n}"))).collect();
        let mut by_prefix = ByPrefix::new(&keys.into());
        let prefixes = BTreeSet::from([name("k:1"), name("k:2")]);
        let tracking = Tracking { prefixes, ..Tracking::default() };
        let (first, second) = (by_prefix.told_to(&tracking), by_prefix.told_to(&tracking));
        assert!(first.iter().zip(&second).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert_eq!(first.iter().map(|list| list.len()).sum::<usize>(), 2 * 1_111);
    }
}
