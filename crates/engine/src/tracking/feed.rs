//! The connections over which servers tell of changed keys.
//!
//! Those of the lane `Tracked` come with the first read of a client, as any shared connection does. Those of the lane `Broadcast` must be there
//! before anything is read, at every primary, as a client with a prefix hears of keys that it never read.
//!
//! Not here: what is told (`tracking`).
//!
//! Invariant: `CLIENT TRACKING` is the end of the greeting of a connection of these lanes: no client's request goes over it before the server has
//! confirmed that.

use super::order::Asked;
use super::own::{is_of_pair, only_tells};
use super::{Changed, Ear, FEED_DB, Leaving, Name, is_before};
use crate::client::Hold;
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{FEED_PREFIX_BYTES_MAX, FEED_PREFIXES_MAX, RELINK_MS};
use crate::reject;
use crate::request::Step;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Lane, Role, Upstream, UpstreamKey};
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::Protocol;

impl Engine {
    /// Ends the greeting of a connection for invalidations with `CLIENT TRACKING`, at once or as soon as the other connection of a pair is ready. Returns false
    /// for other connections.
    pub(crate) fn ask_to_tell(&mut self, now: Time, id: UpstreamId) -> bool {
        let Some(key) = self.upstreams.get(id).map(|up| up.key) else { return false };
        match key.lane {
            _ if only_tells(&key) => return false,
            Lane::Tracked => self.say_tracking(now, id, &[]),
            Lane::Broadcast => {
                let prefixes = self.prefixes_of(id);
                self.say_prefixes(now, id, &prefixes);
            }
            _ => return false,
        }
        true
    }

    /// A connection is ready.
    pub(crate) fn feed_ready(&mut self, now: Time, id: UpstreamId) {
        let Some(key) = self.upstreams.get(id).map(|up| up.key) else { return };
        self.cache_feed_ready(id, key);
        if only_tells(&key) {
            self.teller_ready(now, &key);
        }
        if self.caches.late.remove(&id) {
            // Its keys may have changed before it was listened to.
            self.drop_caches(key);
        }
    }

    /// Switches tracking on over this connection.
    fn say_tracking(&mut self, now: Time, id: UpstreamId, options: &[&[u8]]) {
        let Some(key) = self.upstreams.get(id).map(|up| up.key) else { return };
        let mut words: Vec<&[u8]> = alloc::vec![b"CLIENT", b"TRACKING", b"ON"];
        if key.owner.is_some() {
            words.push(b"NOLOOP");
        }
        let number;
        if is_of_pair(&key) {
            let Some((_, teller)) = self.teller_of(&key) else {
                // The greeting goes on when the other connection is ready.
                let _ =
                    self.upstream_for(now, Ear::of(&key).at(key.node), ClientId::new(u32::MAX, 0));
                return;
            };
            number = teller.to_string();
            words.extend([&b"REDIRECT"[..], number.as_bytes()]);
        }
        words.extend(options);
        self.say_own(now, id, OwnCommand::Track, &words);
    }

    /// The prefixes that this connection tells of.
    pub(super) fn prefixes_of(&self, id: UpstreamId) -> Vec<Name> {
        let Some(owner) = self.upstreams.get(id).and_then(|up| up.key.owner) else {
            return self.caches.prefixes.clone();
        };
        let tracking = self.clients.get(owner).and_then(|client| client.tracking.as_ref());
        covering(tracking.into_iter().flat_map(|tracking| tracking.prefixes.iter().cloned()))
    }

    pub(super) fn say_prefixes(&mut self, now: Time, id: UpstreamId, prefixes: &[Name]) {
        let mut options: Vec<&[u8]> = alloc::vec![b"BCAST"];
        for prefix in prefixes {
            options.extend([&b"PREFIX"[..], prefix]);
        }
        self.say_tracking(now, id, &options);
    }

    /// Requests the wanted prefixes for all clients in BCAST mode at every primary, after slots or nodes changed.
    fn renew_feed(&mut self, now: Time) {
        let clients: Vec<ClientId> = self.caches.broadcast.iter().copied().collect();
        let before = self.take_wanted_prefixes(&clients).unwrap_or(self.caches.prefixes.clone());
        let dbs = self.shared_feed_dbs();
        self.renew_feeds_of(now, &dbs, &before);
        for id in clients {
            self.renew_own_feed(now, id);
        }
    }

    /// Requests the prefixes of one new or changed client in BCAST mode at every primary.
    pub(super) fn renew_feed_for(&mut self, now: Time, id: ClientId) {
        if !self.caches.broadcast.contains(&id) {
            return;
        }
        let before = self.take_wanted_prefixes(&[id]);
        let mut dbs = self.feed_dbs_of(id);
        if before.is_some() {
            dbs.extend(self.feeds().filter(|(_, key)| key.owner.is_none()).map(|(_, key)| key.db));
        }
        let before = before.unwrap_or(self.caches.prefixes.clone());
        self.renew_feeds_of(now, &dbs, &before);
        self.renew_own_feed(now, id);
    }

    fn renew_feeds_of(&mut self, now: Time, dbs: &BTreeSet<u32>, before: &[Name]) {
        for node in self.router.primaries() {
            for db in dbs {
                self.renew_feed_of(now, node, *db, before);
            }
        }
    }

    /// The databases for which clients hear of every change over connections that they share.
    fn shared_feed_dbs(&self) -> BTreeSet<u32> {
        self.caches.broadcast.iter().flat_map(|id| self.feed_dbs_of(*id)).collect()
    }

    /// Databases in which this client hears of changes over shared connections.
    fn feed_dbs_of(&self, id: ClientId) -> BTreeSet<u32> {
        let Some(client) = self.clients.get(id) else { return BTreeSet::new() };
        let earlier = client.tracking.iter().flat_map(|tracking| tracking.earlier.iter());
        let shared = |ear: &Ear| ear.lane == Lane::Broadcast && ear.owner.is_none();
        earlier.copied().chain(client.ear()).filter(shared).map(|ear| ear.db).collect()
    }

    fn renew_feed_of(&mut self, now: Time, node: NodeId, db: u32, before: &[Name]) {
        let key = Ear { lane: Lane::Broadcast, db, owner: None, pairs: false }.at(node);
        let listed = self.by_key.get(&key).copied();
        let Some(id) = listed.or_else(|| self.new_upstream(key, Role::Shared)) else {
            return self.close_untold(db);
        };
        // A connection that did not say CLIENT TRACKING yet will say it with the prefixes of then.
        let _ = self.availability(now, id);
        if before == self.caches.prefixes
            || !self.upstreams.get(id).is_some_and(Upstream::asked_to_tell)
        {
            return;
        }
        if before.iter().all(|prefix| self.caches.prefixes.binary_search(prefix).is_ok()) {
            let new =
                self.caches.prefixes.iter().filter(|prefix| before.binary_search(prefix).is_err());
            let new: Vec<Name> = new.cloned().collect();
            return self.say_prefixes(now, id, &new);
        }
        // A server takes no prefix that begins another one, so those go first; what changed at this moment is told to nobody.
        self.say_own(now, id, OwnCommand::Track, &[b"CLIENT", b"TRACKING", b"OFF"]);
        let prefixes = self.caches.prefixes.clone();
        self.say_prefixes(now, id, &prefixes);
        self.drop_caches(key);
    }

    /// There is no room for one more connection that sends invalidations of this database, as for a server that came later: its clients would miss changes.
    fn close_untold(&mut self, db: u32) {
        let clients = self.caches.broadcast.iter().copied();
        let untold: Vec<ClientId> =
            clients.filter(|id| self.feed_dbs_of(*id).contains(&db)).collect();
        for id in untold {
            self.close_client(
                id,
                Some("there is no room for one more connection that sends invalidations"),
            );
        }
    }

    /// Extends the requested prefixes by those of these clients: the fewest prefixes that cover all, as servers refuse overlapping ones. Unused prefixes
    /// stay: servers then send some needless messages. respool skips clients whose prefixes are covered. Returns the former prefixes if they differ.
    fn take_wanted_prefixes(&mut self, clients: &[ClientId]) -> Option<Vec<Name>> {
        let round = self.caches.prefix_round;
        let mut new: Vec<Name> = Vec::new();
        for id in clients {
            let client = self.clients.get_mut(*id).filter(|client| !client.has_own());
            let tracking = client.and_then(|client| client.tracking.as_mut());
            let Some(tracking) = tracking.filter(|one| one.covered_in != Some(round)) else {
                continue;
            };
            tracking.covered_in = Some(round);
            match tracking.broadcast {
                true => new.extend(tracking.prefixes.iter().cloned()),
                false => new.push(Arc::from(&b""[..])),
            }
        }
        if new.is_empty() {
            return None;
        }
        let all: BTreeSet<Name> = self.caches.prefixes.iter().cloned().chain(new).collect();
        let before = core::mem::replace(&mut self.caches.prefixes, covering(all.into_iter()));
        (before != self.caches.prefixes).then_some(before)
    }

    fn feeds(&self) -> impl Iterator<Item = (UpstreamId, UpstreamKey)> {
        let feeds = self.upstreams.iter().filter(|(_, up)| up.key.lane == Lane::Broadcast);
        feeds.map(|(id, up)| (id, up.key))
    }

    /// With nobody left who hears of every change over the shared connections they go.
    fn end_feed(&mut self) {
        self.caches.prefixes.clear();
        self.caches.prefix_round += 1;
        let shared: Vec<UpstreamId> =
            self.feeds().filter(|(_, key)| key.owner.is_none()).map(|(id, _)| id).collect();
        for id in shared {
            self.retire(id);
        }
    }

    /// What a client in RESP2 waits for before it reads: the connections that tell of changes.
    pub(crate) fn feed_wait(&mut self, now: Time, id: ClientId) -> Option<Step> {
        let client = self.clients.get(id)?;
        let redirected = client.tracking.as_ref().is_some_and(|tracking| tracking.redirect != 0);
        if client.protocol != Protocol::Resp2 || !redirected {
            return None;
        }
        // It may have come to this protocol in the same packet.
        self.renew_feeds(now);
        self.wait_for_feed(now, id)
    }

    /// What a client waits for until every change is told to it from here on.
    pub(super) fn wait_for_feed(&mut self, now: Time, id: ClientId) -> Option<Step> {
        let ear = self.clients.get(id)?.ear()?;
        let conns = match ear.lane {
            Lane::Broadcast => 2,
            // Of a pair the other one comes with the first request.
            _ if ear.pairs => 1,
            _ => return None,
        };
        for node in self.router.primaries() {
            let mut keys = ear.conns_at(node).take(conns);
            let waits_for = keys.find_map(|key| self.waits_to_hear(now, key, id));
            if let Some(upstream) = waits_for {
                return Some(Step::Hold(Hold::Upstream(upstream)));
            }
        }
        None
    }

    /// The connection of this key, if it is to tell of changes and does not yet.
    fn waits_to_hear(
        &mut self,
        now: Time,
        key: UpstreamKey,
        client: ClientId,
    ) -> Option<UpstreamId> {
        match self.upstream_for(now, key, client) {
            Availability::Wait(upstream) => Some(upstream),
            // Its requests go another way, and would overtake the one to tell of what they change.
            Availability::Ready(upstream) => self
                .upstreams
                .get(upstream)
                .is_some_and(|up| up.inflight.owes_tracking())
                .then_some(upstream),
            Availability::Down(_) => None,
        }
    }

    /// What was asked of a connection of these lanes is confirmed.
    pub(crate) fn feed_confirmed(&mut self, now: Time, id: UpstreamId) {
        // Those wait that must hear of what they change themselves.
        self.wake_waiters(id);
        match self.upstreams.get(id).and_then(|up| up.key.owner) {
            Some(owner) => self.leave_earlier_feeds(now, owner),
            None => self.leave_all_earlier_feeds(now),
        }
    }

    fn leave_all_earlier_feeds(&mut self, now: Time) {
        for id in self.caches.broadcast.iter().copied().collect::<Vec<_>>() {
            self.leave_earlier_feeds(now, id);
        }
    }

    /// Ends the former connections of a client in BCAST mode that hears over other connections at every primary by now. The former connections deliver
    /// first which changes they had under way.
    fn leave_earlier_feeds(&mut self, now: Time, id: ClientId) {
        let Some((ear, earlier)) = self.may_leave(id) else { return };
        let nodes = self.router.primaries();
        let keys = earlier.iter().flat_map(|ear| nodes.iter().map(|node| ear.at(*node)));
        let listed = keys.filter_map(|key| self.by_key.get(&key).copied());
        let tells = |id: &UpstreamId| self.upstreams.get(*id).is_some_and(|up| up.is_ready());
        let feeds: Vec<UpstreamId> = listed.filter(tells).collect();
        let number = self.next_fence();
        if let Some(tracking) = self.clients.get_mut(id).and_then(|c| c.tracking.as_mut()) {
            tracking.leaving = Some(Leaving { ear, waits: feeds.len() + 1, number });
        }
        for feed in feeds {
            self.ask_fence(now, feed, Asked::LastWord(id, number));
        }
        self.said_last_word(id, number);
    }

    /// How a client in BCAST mode hears at every primary, and how it heard before, if it is not leaving that already.
    fn may_leave(&self, id: ClientId) -> Option<(Ear, Vec<Ear>)> {
        let client = self.clients.get(id)?;
        let tracking = client.tracking.as_ref()?;
        if !tracking.broadcast || tracking.earlier.is_empty() || tracking.leaving.is_some() {
            return None;
        }
        let ear = client.ear()?;
        let tells = |key: &UpstreamKey| {
            let upstream = self.by_key.get(key).and_then(|id| self.upstreams.get(*id));
            upstream.is_some_and(|up| up.is_ready() && !up.inflight.owes_tracking())
        };
        let all_tell = |node: &NodeId| ear.conns_at(*node).all(|key| tells(&key));
        let earlier = || tracking.earlier.iter().copied().filter(|other| *other != ear).collect();
        self.router.primaries().iter().all(all_tell).then(|| (ear, earlier()))
    }

    /// One more of the connections by which a client heard before has told all.
    pub(super) fn said_last_word(&mut self, id: ClientId, number: u64) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let hears_by = client.ear();
        let Some(tracking) = client.tracking.as_mut() else { return };
        let leaving = tracking.leaving.as_mut().filter(|leaving| leaving.number == number);
        let Some(leaving) = leaving else { return };
        leaving.waits -= 1;
        let Leaving { ear, waits, .. } = *leaving;
        if waits > 0 {
            return;
        }
        tracking.leaving = None;
        // It may have taken yet another way meanwhile: then that is looked at.
        self.caches.changed.insert(id);
        self.caches.left = true;
        if hears_by == Some(ear) {
            tracking.earlier.clear();
            self.leave_own(id, Some(ear));
        }
    }

    /// A server refuses further prefixes, while it is busy, say. The connection ends with the replies to the requests behind the refused command, and another
    /// connection takes its place. Returns false if the connection is no shared feed.
    pub(crate) fn replaces_feed(&mut self, now: Time, id: UpstreamId) -> bool {
        let shared = self.upstreams.get(id).filter(|up| up.role == Role::Shared);
        let Some(key) = shared.map(|up| up.key).filter(|key| key.lane == Lane::Broadcast) else {
            return false;
        };
        self.retire(id);
        // `renew_own_feed` makes a connection of a single client anew.
        self.caches.changed.extend(key.owner);
        if key.owner.is_none()
            && let Some(next) = self.new_upstream(key, Role::Shared)
        {
            self.connect(now, next);
            self.feed_is_late(key);
        }
        true
    }

    /// A connection of clients in BCAST mode was lost. Keys that these clients read over other connections may change before the next connection sends
    /// invalidations.
    pub(crate) fn feed_is_late(&mut self, key: UpstreamKey) {
        let next = self.by_key.get(&key).copied().filter(|_| key.lane == Lane::Broadcast);
        let is_coming = |id: &UpstreamId| !self.upstreams.get(*id).is_some_and(Upstream::is_ready);
        if let Some(next) = next.filter(is_coming) {
            self.caches.late.insert(next);
        }
    }

    /// A connection of these lanes is gone: what changed meanwhile nobody knows.
    pub(crate) fn feed_lost(&mut self, id: UpstreamId, key: UpstreamKey) {
        self.cache_lost(id, key);
        if matches!(key.lane, Lane::Tracked | Lane::Broadcast) {
            self.drop_caches(key);
            self.asked_in_vain(id);
            self.feed_is_late(key);
            if only_tells(&key) {
                self.teller_lost(&key);
            }
            // One that was in use for a transaction is not connected again by itself.
            self.caches.changed.extend(key.owner);
        }
    }

    /// Clients or owners changed: the connections follow.
    pub(crate) fn follow_feed(&mut self, now: Time) {
        self.renew_feeds(now);
        if !self.caches.begun.is_empty() {
            self.answer_begun(now);
        }
        if !self.caches.were_deaf.is_empty() {
            self.tell_who_was_deaf(now);
        }
    }

    fn tell_who_was_deaf(&mut self, now: Time) {
        for (id, seq) in core::mem::take(&mut self.caches.were_deaf) {
            let places = self.clients.get(id).map(|client| &client.places);
            let owes = places.is_some_and(|one| one.open() > 0 && !is_before(seq, one.head()));
            if owes || self.wait_for_feed(now, id).is_some() {
                self.caches.were_deaf.insert(id, seq);
            } else {
                self.tell_in_order(None, id, Changed::All);
            }
        }
    }

    fn renew_feeds(&mut self, now: Time) {
        if !self.caches.fenced.is_empty() {
            self.tell_fenced();
        }
        let moved = self.caches.route_epoch != self.route_epoch;
        if self.caches.look_at.is_some_and(|at| at <= now) {
            self.caches.look_at = None;
            self.caches.keys.begin_look();
        }
        if self.looks_at_owners() {
            self.look_at_owners();
        }
        if !moved && self.caches.changed.is_empty() && !self.caches.left {
            return;
        }
        for id in core::mem::take(&mut self.caches.changed) {
            self.renew_feed_for(now, id);
            self.leave_earlier_feeds(now, id);
        }
        if moved {
            self.follow_owners(now);
        }
        if self.caches.left && self.caches.may_look_at(now) <= now {
            (self.caches.left, self.caches.looked_at) = (false, Some(now));
            self.end_feed_without_clients();
        }
    }

    /// Ends the shared connections in databases in which no client hears over them any more.
    fn end_feed_without_clients(&mut self) {
        let dbs = self.shared_feed_dbs();
        if dbs.is_empty() && !self.caches.prefixes.is_empty() {
            return self.end_feed();
        }
        let is_left = |key: &UpstreamKey| key.owner.is_none() && !dbs.contains(&key.db);
        let left = self.feeds().filter(|(_, key)| is_left(key));
        for id in left.map(|(id, _)| id).collect::<Vec<_>>() {
            self.retire(id);
        }
    }

    /// Whether a client that asks to hear of every change over connections that it shares finds room for these. `Err`: the error text.
    pub(super) fn room_for_feed(&self, id: ClientId) -> Result<(), &'static str> {
        let Some(client) = self.clients.get(id) else { return Ok(()) };
        let db = if client.protocol == Protocol::Resp2 { FEED_DB } else { client.db };
        let ear = Ear { lane: Lane::Broadcast, db, owner: None, pairs: false };
        let mut missing = 0;
        for key in self.router.primaries().into_iter().map(|node| ear.at(node)) {
            if self.by_key.contains_key(&key) {
                continue;
            }
            if !self.has_room_for_feed(&key) {
                return Err(reject::FEEDS_MAX);
            }
            missing += 1;
        }
        let has_room = missing == 0 || self.has_room_for_feeds(missing);
        has_room.then_some(()).ok_or(reject::SHARED_CONNS_MAX)
    }

    /// Follows a change of slots or nodes.
    fn follow_owners(&mut self, now: Time) {
        if !self.is_one() && self.caches.keys.len() > 0 {
            self.caches.look_at.get_or_insert(now.plus_ms(RELINK_MS));
        }
        self.caches.route_epoch = self.route_epoch;
        if self.caches.broadcast.is_empty() {
            return;
        }
        let before: BTreeSet<UpstreamId> = self.feeds().map(|(id, _)| id).collect();
        let heard: BTreeSet<Ear> = self.feeds().map(|(_, key)| Ear::of(&key)).collect();
        self.renew_feed(now);
        // An additional connection of clients that heard before, and not the first one of a client that changed its way.
        let is_late = |(id, key): &(UpstreamId, UpstreamKey)| {
            !before.contains(id) && heard.contains(&Ear::of(key))
        };
        let late: Vec<UpstreamId> = self.feeds().filter(is_late).map(|(id, _)| id).collect();
        self.caches.late.extend(late);
        self.leave_all_earlier_feeds(now);
    }
}

/// The fewest of these prefixes, which come in order, that cover all; if these are too many, the longest one that does. None is so long that a server
/// takes it for no protocol.
fn covering(prefixes: impl Iterator<Item = Name>) -> Vec<Name> {
    let mut kept: Vec<Name> = Vec::new();
    for prefix in prefixes {
        let prefix = match prefix.get(..FEED_PREFIX_BYTES_MAX) {
            Some(begin) if begin.len() < prefix.len() => Arc::from(begin),
            _ => prefix,
        };
        if !kept.last().is_some_and(|last| prefix.starts_with(last)) {
            kept.push(prefix);
        }
    }
    let bytes: usize = kept.iter().map(|prefix| prefix.len()).sum();
    let [first, .., last] = kept.as_slice() else { return kept };
    if kept.len() <= FEED_PREFIXES_MAX && bytes <= FEED_PREFIX_BYTES_MAX {
        return kept;
    }
    // What the first and the last one in order have in common all between them have.
    let common = first.iter().zip(&**last).take_while(|(one, other)| one == other).count();
    alloc::vec![Arc::from(&first[..common])]
}
