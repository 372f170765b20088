//! The replies that are kept: found by the bytes of their request, dropped by a key, and never more than there is room for.
//!
//! ```text
//!   connection, bytes of the request ─▶ hash ─▶ [heads] ─▶ entry ─▶ entry …      a hit is one hash and one comparison
//!   hash of a key, entry             ─▶ [by_key], in order                       a change drops all of the key
//!   node, connection                 ─▶ [read_over], a list of entries           a lost one drops all of its list, and looks at no other
//! ```
//! A key is known by its hash alone: two with the same one are dropped together, which costs a read and is never wrong. When there is no room,
//! a hand goes round the entries and takes the first that nobody asked for since it last came by (CLOCK).
//!
//! Not here: what may be kept, and when it must go (`near`).
//!
//! Invariant: `bytes` is what all entries cost together, and every entry stands in `by_key` with each of its keys and in the list of its connection; see [`Table::check`].

use crate::ids::{NodeId, UpstreamId};
use crate::limits::DROPPED_PER_TURN;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// What an entry costs beside its bytes, and each of its keys: its place in the lists, rounded up.
const ENTRY_BYTES: usize = 160;
const KEY_BYTES: usize = 48;

/// No entry.
const NONE: u32 = u32::MAX;

/// Lists that entries are found by, at the least.
const HEADS_MIN: usize = 64;

/// How keys and requests are hashed: with a secret, so that nobody can name a thousand that stand in one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes(RapidSecrets);

impl Hashes {
    pub(super) fn new(secret: u64) -> Self {
        Self(RapidSecrets::seed(secret))
    }

    /// The hash that a key is known by.
    #[inline]
    pub(super) fn key(&self, key: &[u8]) -> u64 {
        rapidhash_v3_seeded(key, &self.0)
    }

    /// A request that would take this connection.
    #[inline]
    pub(super) fn wanted<'a>(&self, upstream: UpstreamId, frame: &'a [u8]) -> Wanted<'a> {
        let spread = u64::from(upstream.index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Wanted { upstream, frame, hash: rapidhash_v3_seeded(frame, &self.0) ^ spread }
    }
}

/// A request that is looked up: where it would go, and its bytes.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) upstream: UpstreamId,
    pub(super) frame: &'a [u8],
    pub(super) hash: u64,
}

/// What is known of a request.
#[derive(Debug)]
enum State {
    /// It is on its way, at this place of its connection.
    Asked(u64),
    /// This is the reply.
    Kept(Box<[u8]>),
    /// The reply is not to be kept: it is too large, or an error. No key leads here.
    Unfit,
}

/// See the module.
#[derive(Debug)]
struct Entry {
    upstream: UpstreamId,
    node: NodeId,
    hash: u64,
    frame: Box<[u8]>,
    keys: Box<[u64]>,
    state: State,
    /// From then on it serves no more.
    until: Time,
    /// Rounds of the feeds that had begun when the reply came.
    rounds: u64,
    /// The table kept other replies with these keys then, which may be older.
    is_beside: bool,
    /// Somebody asked for it since the hand came by.
    visited: bool,
    /// The next one in its list.
    next: u32,
    /// The place of the entry in the list of its connection.
    listed: u32,
    /// The entry is dropped, stands in no list of a connection, and is removed in a later turn.
    dropped: bool,
}

impl Entry {
    fn cost(&self) -> usize {
        let reply = if let State::Kept(reply) = &self.state { reply.len() } else { 0 };
        ENTRY_BYTES + self.frame.len() + reply + KEY_BYTES * self.keys.len()
    }
}

/// A reply that is kept.
#[derive(Clone, Copy)]
pub(super) struct Kept<'a> {
    pub(super) reply: &'a [u8],
    pub(super) keys: &'a [u64],
    /// Rounds of the feeds that had begun when it came.
    pub(super) rounds: u64,
    /// Whether the table kept other replies with these keys then. Until the next round is over they may be older: a client that has seen this reply must not see them.
    pub(super) is_beside: bool,
}

/// Replies with one key that the table checks for one over a certain connection.
const OTHERS_LOOKED_AT: usize = 64;

/// What was found.
pub(super) enum Found<'a> {
    /// The reply.
    Kept(Kept<'a>),
    /// It is on its way.
    Asked,
    /// It is not to be kept.
    Unfit,
    /// Nothing.
    Nothing,
}

/// What came of a request whose reply was to be looked at.
#[derive(Clone, Copy)]
pub(crate) enum Answer<'a> {
    /// This reply.
    Whole(&'a [u8]),
    /// A reply that is too large to be here as a whole.
    InParts,
    /// None, or one that says nothing.
    None,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// The first entry of each list; a power of two of them, or none yet.
    heads: Vec<u32>,
    /// Which entries are of a key. In one order, so that an entry of a key that thousands are of goes as fast as any.
    by_key: BTreeSet<(u64, u32)>,
    /// The entries that were read over each connection. Clients can make connections end as often as they like.
    read_over: BTreeMap<(NodeId, UpstreamId), Vec<u32>>,
    asked: BTreeMap<(UpstreamId, u64), u32>,
    /// Entries to be removed, if they are still dropped ones.
    dropped: Vec<u32>,
    /// Reads that went to the server though their reply is kept or on its way, by their places; the hash of each.
    checks: BTreeMap<(UpstreamId, u64), u64>,
    bytes: usize,
    hand: usize,
}

impl Table {
    /// Number of requests that something is known of.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    /// What all entries cost.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn head(&self, hash: u64) -> Option<usize> {
        // By its upper half, as the lower one is what keys of a sketch are told apart by.
        (!self.heads.is_empty()).then(|| (hash >> 32) as usize & (self.heads.len() - 1))
    }

    #[inline]
    fn find(&self, wanted: Wanted<'_>) -> Option<usize> {
        let mut at = self.heads[self.head(wanted.hash)?];
        while let Some(Some(entry)) = self.entries.get(at as usize) {
            if entry.hash == wanted.hash
                && entry.upstream == wanted.upstream
                && !entry.dropped
                && *entry.frame == *wanted.frame
            {
                return Some(at as usize);
            }
            at = entry.next;
        }
        None
    }

    /// What serves this request at this time. One that has served its time goes; then the second is true.
    #[inline]
    pub(super) fn look(&mut self, wanted: Wanted<'_>, now: Time) -> (Found<'_>, bool) {
        let Some(at) = self.find(wanted) else { return (Found::Nothing, false) };
        let is_over = |entry: &Entry| now >= entry.until && !matches!(entry.state, State::Asked(_));
        if self.entries[at].as_ref().is_some_and(is_over) {
            self.remove(at);
            return (Found::Nothing, true);
        }
        let found = match &mut self.entries[at] {
            Some(Entry { state: State::Kept(reply), visited, keys, rounds, is_beside, .. }) => {
                *visited = true;
                Found::Kept(Kept { reply, keys, rounds: *rounds, is_beside: *is_beside })
            }
            Some(Entry { state: State::Asked(_), .. }) => Found::Asked,
            _ => Found::Unfit,
        };
        (found, false)
    }

    /// This request was sent, at this place of its connection to this node; its reply is to be kept until then. It stood nowhere.
    pub(super) fn ask(
        &mut self,
        wanted: Wanted<'_>,
        node: NodeId,
        place: u64,
        keys: &[u64],
        until: Time,
    ) {
        debug_assert!(self.find(wanted).is_none(), "a request that is asked for twice");
        if self.heads.len() <= self.len() {
            self.grow();
        }
        let Some(head) = self.head(wanted.hash) else { return };
        let list = self.read_over.entry((node, wanted.upstream)).or_default();
        let entry = Entry {
            upstream: wanted.upstream,
            node,
            hash: wanted.hash,
            frame: wanted.frame.into(),
            keys: keys.into(),
            state: State::Asked(place),
            until,
            rounds: 0,
            is_beside: false,
            visited: false,
            next: self.heads[head],
            listed: list.len() as u32,
            dropped: false,
        };
        self.bytes += entry.cost();
        let at = match self.free.pop() {
            Some(at) => at as usize,
            None => {
                self.entries.push(None);
                self.entries.len() - 1
            }
        };
        self.entries[at] = Some(entry);
        // Memory ends long before.
        let number = at as u32;
        list.push(number);
        self.heads[head] = number;
        for key in keys {
            self.by_key.insert((*key, number));
        }
        self.asked.insert((wanted.upstream, place), number);
    }

    /// Twice as many lists.
    fn grow(&mut self) {
        let count = (self.heads.len() * 2).max(HEADS_MIN);
        self.heads = alloc::vec![NONE; count];
        for (at, entry) in self.entries.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            let head = &mut self.heads[(entry.hash >> 32) as usize & (count - 1)];
            entry.next = core::mem::replace(head, at as u32);
        }
    }

    /// The reply to what was asked at this place came, and is to be kept if it is wanted still, with a bound of its bytes and the rounds of the feeds that have begun;
    /// `None`: there is nothing to keep. Whether it is kept now.
    pub(super) fn answered(
        &mut self,
        (upstream, place): (UpstreamId, u64),
        reply: Answer<'_>,
        (bytes_max, rounds): (usize, u64),
    ) -> bool {
        let Some(at) = self.asked.remove(&(upstream, place)) else { return false };
        let is_beside = self.is_beside(at);
        let Some(entry) = self.entries.get_mut(at as usize).and_then(Option::as_mut) else {
            return false;
        };
        let cost = entry.cost();
        match reply {
            Answer::None => {
                self.remove(at as usize);
                false
            }
            Answer::Whole(reply) if reply.len() <= bytes_max && !reply.starts_with(b"-") => {
                entry.state = State::Kept(reply.into());
                (entry.rounds, entry.is_beside) = (rounds, is_beside);
                self.bytes = self.bytes - cost + entry.cost();
                true
            }
            Answer::Whole(_) | Answer::InParts => {
                entry.state = State::Unfit;
                let keys = core::mem::take(&mut entry.keys);
                self.bytes = self.bytes - cost + entry.cost();
                self.forget_keys(at, &keys);
                false
            }
        }
    }

    /// This request was sent though something is known of it; its reply is to be looked at.
    pub(super) fn check_at(&mut self, wanted: Wanted<'_>, place: u64) {
        self.checks.insert((wanted.upstream, place), wanted.hash);
    }

    /// Its reply came. If it is another one than that which is kept, the keys have changed. How many entries went.
    pub(super) fn checked(
        &mut self,
        (upstream, place): (UpstreamId, u64),
        reply: Answer<'_>,
    ) -> u64 {
        let Some(hash) = self.checks.remove(&(upstream, place)) else { return 0 };
        let mut at = self.head(hash).map_or(NONE, |head| self.heads[head]);
        while let Some(Some(entry)) = self.entries.get(at as usize) {
            if entry.hash == hash && entry.upstream == upstream && !entry.dropped {
                break;
            }
            at = entry.next;
        }
        let Some(Some(entry)) = self.entries.get(at as usize) else { return 0 };
        let is_other = match (&entry.state, reply) {
            (State::Kept(kept), Answer::Whole(reply)) => **kept != *reply,
            (State::Kept(_), _) => true,
            // What is asked for by now stands behind it.
            (State::Asked(_) | State::Unfit, _) => false,
        };
        if !is_other {
            return 0;
        }
        entry.keys.clone().iter().map(|key| self.drop_key(*key)).sum()
    }

    /// These keys lead to this entry no more.
    fn forget_keys(&mut self, number: u32, keys: &[u64]) {
        for key in keys {
            self.by_key.remove(&(*key, number));
        }
    }

    fn remove(&mut self, at: usize) -> bool {
        let Some(entry) = self.entries.get_mut(at).and_then(Option::take) else { return false };
        self.bytes -= entry.cost();
        let number = at as u32;
        self.free.push(number);
        if let Some(head) = self.head(entry.hash) {
            if self.heads[head] == number {
                self.heads[head] = entry.next;
            } else {
                let mut before = self.heads[head];
                while let Some(Some(other)) = self.entries.get_mut(before as usize) {
                    if other.next == number {
                        other.next = entry.next;
                        break;
                    }
                    before = other.next;
                }
            }
        }
        self.forget_keys(number, &entry.keys);
        if !entry.dropped {
            self.unlist((entry.node, entry.upstream), entry.listed);
        }
        if let State::Asked(place) = entry.state {
            self.asked.remove(&(entry.upstream, place));
        }
        !entry.dropped
    }

    /// The entry at this place of a connection's list leaves it; the last one takes the place.
    fn unlist(&mut self, of: (NodeId, UpstreamId), place: u32) {
        let Some(list) = self.read_over.get_mut(&of) else { return };
        list.swap_remove(place as usize);
        if let Some(moved) = list.get(place as usize) {
            if let Some(Some(entry)) = self.entries.get_mut(*moved as usize) {
                entry.listed = place;
            }
        } else if list.is_empty() {
            self.read_over.remove(&of);
        }
    }

    /// The entries of this key.
    fn of_key(&self, key: u64) -> impl Iterator<Item = u32> {
        self.by_key.range((key, 0)..=(key, NONE)).map(|(_, number)| *number)
    }

    /// Whether a reply to this key is kept, or on its way to be.
    pub(super) fn knows(&self, key: u64) -> bool {
        self.of_key(key).next().is_some()
    }

    /// Whether other replies over the connection of this entry have a key of it.
    fn is_beside(&self, at: u32) -> bool {
        let Some(entry) = self.entries.get(at as usize).and_then(Option::as_ref) else {
            return false;
        };
        entry.keys.iter().any(|key| self.knows_other(*key, entry.upstream, Some(at)))
    }

    /// Whether a reply to another request than this one, of this key and over its connection, is kept or on its way to be.
    pub(super) fn knows_beside(&self, key: u64, wanted: Wanted<'_>) -> bool {
        let own = self.find(wanted).map(|at| at as u32);
        self.knows_other(key, wanted.upstream, own)
    }

    /// The table checks [`OTHERS_LOOKED_AT`] replies. If a key has more replies, the answer is yes.
    fn knows_other(&self, key: u64, upstream: UpstreamId, own: Option<u32>) -> bool {
        let over = |at: u32| self.entries.get(at as usize)?.as_ref().map(|entry| entry.upstream);
        let others = self.of_key(key).filter(|at| Some(*at) != own);
        let mut looks = others.enumerate();
        looks.any(|(count, at)| count >= OTHERS_LOOKED_AT || over(at) == Some(upstream))
    }

    /// The key changed. How many entries went.
    pub(super) fn drop_key(&mut self, key: u64) -> u64 {
        let numbers: Vec<u32> = self.of_key(key).collect();
        numbers.into_iter().map(|at| u64::from(self.remove(at as usize))).sum()
    }

    /// Drops the entries of this list. Many of them are removed in later turns ([`Self::remove_dropped`]). Returns how many they were.
    fn drop_listed(&mut self, of: (NodeId, UpstreamId)) -> u64 {
        let numbers = self.read_over.remove(&of).unwrap_or_default();
        let count = numbers.len() as u64;
        if numbers.len() <= DROPPED_PER_TURN {
            numbers.into_iter().for_each(|at| _ = self.remove(at as usize));
            return count;
        }
        for at in &numbers {
            if let Some(Some(entry)) = self.entries.get_mut(*at as usize) {
                entry.dropped = true;
            }
        }
        self.dropped.extend(numbers);
        count
    }

    /// Whether dropped entries are to be removed.
    pub(super) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Removes some of the dropped entries.
    pub(super) fn remove_dropped(&mut self) {
        for _ in 0..DROPPED_PER_TURN {
            let Some(at) = self.dropped.pop() else { break };
            let entry = self.entries.get(at as usize).and_then(Option::as_ref);
            // It may have made room, and another entry has its place.
            if entry.is_some_and(|entry| entry.dropped) {
                self.remove(at as usize);
            }
        }
        if self.is_empty() {
            let checks = core::mem::take(&mut self.checks);
            *self = Self { checks, ..Self::default() };
        }
    }

    /// Everything that was read at this node goes.
    pub(super) fn drop_node(&mut self, node: NodeId) -> u64 {
        let lists = self.read_over.range((node, UpstreamId::new(0, 0))..).map(|(of, _)| *of);
        let lists: Vec<_> = lists.take_while(|(of, _)| *of == node).collect();
        lists.into_iter().map(|of| self.drop_listed(of)).sum()
    }

    /// Everything that was read over this connection to this node goes.
    pub(super) fn drop_upstream(&mut self, node: NodeId, upstream: UpstreamId) -> u64 {
        let checks = self.checks.range((upstream, 0)..=(upstream, u64::MAX));
        for place in checks.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.checks.remove(&place);
        }
        self.drop_listed((node, upstream))
    }

    /// What is on its way over this connection is not to be kept.
    pub(super) fn drop_asked(&mut self, upstream: UpstreamId) -> u64 {
        let asked = self.asked.range((upstream, 0)..=(upstream, u64::MAX));
        let asked: Vec<u32> = asked.map(|(_, at)| *at).collect();
        asked.into_iter().map(|at| u64::from(self.remove(at as usize))).sum()
    }

    /// Everything goes.
    pub(super) fn drop_all(&mut self) -> u64 {
        self.checks.clear();
        let lists: Vec<_> = self.read_over.keys().copied().collect();
        lists.into_iter().map(|of| self.drop_listed(of)).sum()
    }

    /// Makes room until all entries together cost no more than this. How many went.
    pub(super) fn make_room(&mut self, bytes_max: usize) -> u64 {
        let mut gone = 0;
        while self.bytes > bytes_max && !self.is_empty() {
            self.hand = if self.hand < self.entries.len() { self.hand } else { 0 };
            match &mut self.entries[self.hand] {
                Some(entry) if entry.visited => entry.visited = false,
                Some(_) => gone += u64::from(self.remove(self.hand)),
                None => {}
            }
            self.hand += 1;
        }
        gone
    }

    /// Checks the invariant; for debug builds.
    pub(super) fn check(&self) {
        let entries = || self.entries.iter().flatten();
        assert_eq!(self.bytes, entries().map(Entry::cost).sum::<usize>(), "bytes of the cache");
        assert_eq!(self.len(), entries().count(), "entries of the cache");
        for (at, entry) in self.entries.iter().enumerate() {
            let Some(entry) = entry else { continue };
            let wanted = Wanted { upstream: entry.upstream, frame: &entry.frame, hash: entry.hash };
            let listed = self.read_over.get(&(entry.node, entry.upstream));
            let listed = listed.and_then(|list| list.get(entry.listed as usize));
            if !entry.dropped {
                assert_eq!(self.find(wanted), Some(at), "an entry that nobody finds");
                assert_eq!(listed, Some(&(at as u32)), "an entry in no list of a connection");
            }
            for key in &entry.keys {
                assert!(self.by_key.contains(&(*key, at as u32)), "a key without it");
            }
            if let State::Asked(place) = entry.state {
                assert_eq!(self.asked.get(&(entry.upstream, place)), Some(&(at as u32)));
            }
        }
        let distinct = |keys: &[u64]| keys.iter().collect::<BTreeSet<_>>().len();
        let listed = entries().map(|entry| distinct(&entry.keys)).sum::<usize>();
        assert_eq!(self.by_key.len(), listed);
        let dropped = entries().filter(|entry| entry.dropped).count();
        assert_eq!(self.read_over.values().map(Vec::len).sum::<usize>() + dropped, self.len());
        assert!(dropped <= self.dropped.len(), "a dropped entry that nobody removes");
        assert!(self.read_over.values().all(|list| !list.is_empty()), "a list without an entry");
        let is_asked = |entry: &&Entry| matches!(entry.state, State::Asked(_));
        assert_eq!(self.asked.len(), entries().filter(is_asked).count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    const HASHES: Hashes = Hashes(RapidSecrets::seed(7));

    fn upstream(index: u32) -> UpstreamId {
        UpstreamId::new(index, 0)
    }

    /// Asks for this at this place, of these keys.
    fn ask(table: &mut Table, frame: &[u8], place: u64, keys: &[&[u8]]) {
        let keys: Vec<u64> = keys.iter().map(|key| HASHES.key(key)).collect();
        let wanted = HASHES.wanted(upstream(1), frame);
        table.ask(wanted, NodeId::new(0, 0), place, &keys, Time(100));
        table.check();
    }

    fn kept(table: &mut Table, frame: &[u8], now: u64) -> Option<Vec<u8>> {
        match table.look(HASHES.wanted(upstream(1), frame), Time(now)).0 {
            Found::Kept(kept) => Some(kept.reply.to_vec()),
            _ => None,
        }
    }

    #[test]
    fn a_reply_is_kept_for_its_request_on_its_connection_until_its_time() {
        let mut table = Table::default();
        ask(&mut table, b"GET k", 7, &[b"k"]);
        assert!(matches!(
            table.look(HASHES.wanted(upstream(1), b"GET k"), Time(1)).0,
            Found::Asked
        ));
        assert!(table.answered((upstream(1), 7), Answer::Whole(b"v"), (10, 0)));
        assert_eq!(kept(&mut table, b"GET k", 99).as_deref(), Some(&b"v"[..]));
        assert_eq!(kept(&mut table, b"GET l", 99), None);
        assert!(matches!(
            table.look(HASHES.wanted(upstream(2), b"GET k"), Time(1)).0,
            Found::Nothing
        ));
        let (found, over) = table.look(HASHES.wanted(upstream(1), b"GET k"), Time(100));
        assert!(matches!(found, Found::Nothing) && over);
        assert_eq!((table.len(), table.bytes()), (0, 0));
        table.check();
    }

    #[test]
    fn a_change_drops_every_reply_that_a_key_is_in_also_those_on_their_way() {
        let mut table = Table::default();
        for (place, frame, keys) in [
            (1, &b"GET a"[..], &[&b"a"[..]][..]),
            (2, b"MGET a b", &[b"a", b"b"]),
            (3, b"GET b", &[b"b"]),
        ] {
            ask(&mut table, frame, place, keys);
        }
        assert!(table.answered((upstream(1), 1), Answer::Whole(b"1"), (10, 0)));
        assert_eq!(table.drop_key(HASHES.key(b"a")), 2);
        table.check();
        assert!(!table.knows(HASHES.key(b"a")) && table.knows(HASHES.key(b"b")));
        assert!(
            !table.answered((upstream(1), 2), Answer::Whole(b"old"), (10, 0)),
            "it is not wanted any more"
        );
        assert!(table.answered((upstream(1), 3), Answer::Whole(b"2"), (10, 0)));
        assert_eq!(kept(&mut table, b"MGET a b", 1), None);
        assert_eq!(kept(&mut table, b"GET b", 1).as_deref(), Some(&b"2"[..]));
        assert_eq!(table.drop_node(NodeId::new(1, 0)), 0);
        assert_eq!(table.drop_node(NodeId::new(0, 0)), 1);
        table.check();
    }

    #[test]
    fn what_is_too_large_or_an_error_is_known_and_not_kept() {
        let mut table = Table::default();
        ask(&mut table, b"GET k", 1, &[b"k"]);
        assert!(!table.answered((upstream(1), 1), Answer::Whole(&[0; 11]), (10, 0)));
        assert!(matches!(
            table.look(HASHES.wanted(upstream(1), b"GET k"), Time(1)).0,
            Found::Unfit
        ));
        assert!(!table.knows(HASHES.key(b"k")), "nothing of it can be old");
        ask(&mut table, b"GET w", 2, &[b"w"]);
        assert!(!table.answered((upstream(1), 2), Answer::Whole(b"-WRONG\r\n"), (10, 0)));
        ask(&mut table, b"GET e", 3, &[b"e"]);
        assert!(!table.answered((upstream(1), 3), Answer::None, (10, 0)));
        ask(&mut table, b"GET p", 4, &[b"p"]);
        assert!(!table.answered((upstream(1), 4), Answer::InParts, (10, 0)));
        assert_eq!(table.len(), 3);
        table.check();
    }

    #[test]
    fn a_reply_that_is_another_one_than_the_kept_one_drops_its_keys() {
        for (reply, gone) in [
            (Answer::Whole(b"v"), 0),
            (Answer::Whole(b"w"), 2),
            (Answer::InParts, 2),
            (Answer::None, 2),
        ] {
            let mut table = Table::default();
            ask(&mut table, b"GET k", 1, &[b"k"]);
            ask(&mut table, b"STRLEN k", 2, &[b"k"]);
            table.check_at(HASHES.wanted(upstream(1), b"GET k"), 3);
            assert!(table.answered((upstream(1), 1), Answer::Whole(b"v"), (10, 0)));
            assert_eq!(table.checked((upstream(1), 3), reply), gone);
            assert_eq!(table.checked((upstream(1), 3), Answer::None), 0, "it is answered once");
            table.check();
        }
        // What is asked for behind it is newer.
        let mut table = Table::default();
        table.check_at(HASHES.wanted(upstream(1), b"GET k"), 3);
        ask(&mut table, b"GET k", 4, &[b"k"]);
        assert_eq!(table.checked((upstream(1), 3), Answer::Whole(b"w")), 0);
    }

    #[test]
    fn without_room_what_nobody_asks_for_goes_first() {
        let mut table = Table::default();
        for n in 0..200_u64 {
            ask(&mut table, format!("GET k{n}").as_bytes(), n, &[format!("k{n}").as_bytes()]);
            assert!(table.answered((upstream(1), n), Answer::Whole(b"value"), (10, 0)));
        }
        for n in (0..200).step_by(2) {
            assert!(kept(&mut table, format!("GET k{n}").as_bytes(), 1).is_some());
        }
        let half = table.bytes() / 2;
        assert!((99..=101).contains(&table.make_room(half)));
        table.check();
        let even = (0..200).step_by(2);
        let left = even.filter(|n| kept(&mut table, format!("GET k{n}").as_bytes(), 1).is_some());
        assert!(left.count() >= 99);
        let rest = table.len() as u64;
        assert_eq!((table.make_room(0), table.len(), table.bytes()), (rest, 0, 0));
        table.check();
    }

    /// A list of each key's entries, looked through for each entry that goes, would be looked at ten thousand million times.
    #[test]
    fn a_hundred_thousand_replies_of_the_same_keys_go_at_once() {
        let keys: Vec<u64> = (0..16).map(|n: u8| HASHES.key(&[n])).collect();
        let fill = |table: &mut Table| {
            for n in 0..100_000_u64 {
                let frame = format!("GETRANGE k {n} 1");
                let wanted = HASHES.wanted(upstream(1), frame.as_bytes());
                table.ask(wanted, NodeId::new(0, 0), n, &keys, Time(100));
            }
        };
        let mut table = Table::default();
        fill(&mut table);
        assert_eq!(table.drop_key(keys[3]), 100_000);
        fill(&mut table);
        assert_eq!(table.drop_node(NodeId::new(0, 0)), 100_000);
        while table.has_dropped() {
            table.remove_dropped();
        }
        assert_eq!((table.len(), table.bytes(), table.by_key.len()), (0, 0, 0));
    }

    #[test]
    fn a_lost_connection_drops_what_was_read_over_it_and_a_lost_node_all_of_its() {
        let mut table = Table::default();
        // Connections 0 to 3, of which two are to each node.
        let node = |index: u32| NodeId::new(index / 2, 0);
        for n in 0..40_u32 {
            let frame = format!("GET k{n}");
            let wanted = HASHES.wanted(upstream(n % 4), frame.as_bytes());
            table.ask(wanted, node(n % 4), u64::from(n), &[u64::from(n)], Time(100));
            let place = (upstream(n % 4), u64::from(n));
            assert!(n >= 20 || table.answered(place, Answer::Whole(b"v"), (10, 0)));
            table.check_at(wanted, u64::from(n) + 100);
        }
        assert_eq!(table.drop_key(4), 1);
        table.check();
        assert_eq!(table.drop_asked(upstream(1)), 5);
        table.check();
        assert_eq!(table.drop_upstream(node(0), upstream(0)), 9);
        assert_eq!(table.drop_upstream(node(0), upstream(0)), 0);
        assert_eq!((table.len(), table.checks.len()), (25, 30));
        table.check();
        assert_eq!((table.drop_node(node(0)), table.drop_node(node(0))), (5, 0));
        table.check();
        assert_eq!((table.drop_node(node(2)), table.len(), table.bytes()), (20, 0, 0));
        assert!(table.read_over.is_empty() && table.asked.is_empty());
        table.check();
    }

    /// With a look at all that is kept for each of these, this would be thirty thousand million looks.
    #[test]
    fn connections_that_nothing_was_read_over_go_without_a_look_at_what_is_kept() {
        let mut table = Table::default();
        for n in 0..100_000_u64 {
            let frame = format!("GET k{n}");
            let wanted = HASHES.wanted(upstream(1), frame.as_bytes());
            table.ask(wanted, NodeId::new(0, 0), n, &[n], Time(100));
            table.check_at(wanted, n);
        }
        for n in 2..100_000 {
            assert_eq!(table.drop_upstream(NodeId::new(0, 0), upstream(n)), 0);
            assert_eq!(table.drop_asked(upstream(n)), 0);
            assert_eq!(table.drop_node(NodeId::new(n, 0)), 0);
        }
        assert_eq!((table.len(), table.checks.len()), (100_000, 100_000));
    }

    #[test]
    fn two_tables_hash_otherwise() {
        let (one, other) = (Hashes::new(1), Hashes::new(2));
        assert_ne!(one.key(b"k"), other.key(b"k"));
        let hash = |hashes: &Hashes| hashes.wanted(upstream(1), b"GET k").hash;
        assert_ne!(hash(&one), hash(&other));
    }

    #[test]
    fn thousands_of_dropped_entries_serve_nobody_and_are_removed_in_portions() {
        let mut table = Table::default();
        let count = 3 * DROPPED_PER_TURN as u64;
        let frame = |number: u64| format!("GET {number}").into_bytes();
        for number in 0..count {
            ask(&mut table, &frame(number), number, &[&frame(number)]);
            table.answered((upstream(1), number), Answer::Whole(b"$1\r\nv\r\n"), (64, 0));
        }
        assert_eq!((table.drop_all(), table.has_dropped()), (count, true));
        let is_found = |table: &mut Table, number: u64| {
            let frame = frame(number);
            let wanted = HASHES.wanted(upstream(1), &frame);
            !matches!(table.look(wanted, Time(0)).0, Found::Nothing)
        };
        assert!((0..count).all(|number| !is_found(&mut table, number)));
        // One of them is asked for again, and one makes room.
        ask(&mut table, &frame(7), count, &[&frame(7)]);
        assert_eq!(table.make_room(table.bytes() - 1), 0);
        let mut left = table.len();
        while table.has_dropped() {
            table.check();
            table.remove_dropped();
            assert!(left - table.len() <= DROPPED_PER_TURN);
            left = table.len();
        }
        assert_eq!(left, 1);
        table.check();
        assert!(is_found(&mut table, 7));
    }
}
