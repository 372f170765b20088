//! Transactions, scripts and blocking commands of clients with `CLIENT TRACKING`: they read and change keys over another connection than the tracked one.
//!
//! The server says in which order things happened on one connection, and on no two of them. So what is read in a transaction is *marked* first, by
//! a command over the tracked connection that reads the same keys and does nothing, and EXEC waits for its answer, as a script does with the keys that it names:
//!
//! ```text
//!   lease     MULTI  GET k ─▶ QUEUED              EXEC ─▶ [v]
//!   tracked            └─▶ EXISTS k ─▶ :1 ──────────┘             ◀─ invalidate k, whenever it changes from the mark on
//! ```
//! What changes between the mark and the reply to EXEC is told behind that once more. And what a blocking command itself changes is told behind its
//! reply, as it is by a server: the message waits for the reply, or for the answer to a PING behind the message, the *fence*. When that came
//! first, the change was somebody else's.
//!
//! Not here: the transaction (`transaction`), the wait (`blocking`).
//!
//! Invariant: what waits here is told with the reply or with the answer to its fence, in the order in which it came.

use super::{Changed, Name, Tracking, WAITING_BYTES, is_before};
use crate::client::Hold;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::TRACKED_REQUEST_KEYS_MAX;
use crate::request::Step;
use crate::route::Way;
use crate::scatter::Wish;
use crate::time::Time;
use crate::upstream::Lane;
use crate::upstream::inflight::OwnCommand;
use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use resp::Protocol;

/// What is asked over a connection that tells of changes.
#[derive(Debug)]
pub(super) enum Asked {
    /// That it tells this client of these keys, too.
    Mark(ClientId, Vec<Name>),
    /// Whether it has told everything: what waits for this client under this number.
    Fence(ClientId, u64),
    /// The same, of a connection by which this client hears no more.
    LastWord(ClientId, u64),
}

/// How many marks of each client are not answered. EXEC asks at each try, and there may be as many marks as keys are read in all open transactions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(BTreeMap<(ClientId, UpstreamId), usize>);

impl Marks {
    fn begin(&mut self, client: ClientId, upstream: UpstreamId) {
        *self.0.entry((client, upstream)).or_default() += 1;
    }

    /// A mark was answered. Returns whether no other one of this client is open over this connection.
    fn end(&mut self, client: ClientId, upstream: UpstreamId) -> bool {
        let Entry::Occupied(mut open) = self.0.entry((client, upstream)) else { return false };
        *open.get_mut() -= 1;
        let is_last = *open.get() == 0;
        if is_last {
            open.remove();
        }
        is_last
    }

    /// The first connection over which a mark of this client is not answered.
    fn first(&self, client: ClientId) -> Option<UpstreamId> {
        let mut open = self.0.range((client, UpstreamId::new(0, 0))..);
        open.next().filter(|((of, _), _)| *of == client).map(|((_, upstream), _)| *upstream)
    }
}

/// Whether a change of a key will be told that is read in an open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody knows: it is told of behind EXEC.
    Untold,
    /// The server was asked to.
    Asked,
    /// Yes.
    Told,
}

impl State {
    /// It changed, and the server has forgotten who read it.
    pub(super) fn change(&mut self) {
        if *self == Self::Told {
            *self = Self::Untold;
        }
    }
}

/// A change that is told behind a reply.
#[derive(Clone, Debug)]
struct Later {
    /// The place of the reply.
    seq: u32,
    /// The number of the fence that ends the wait before, if one was asked for. Numbers grow from entry to entry.
    number: u64,
    /// The fence was answered.
    is_due: bool,
    changed: Changed,
}

impl Later {
    /// Bytes of the entry. Shared names and lists of keys count in full, as the message holds all of them.
    fn bytes(&self) -> usize {
        let names = self.changed.keys().into_iter().flat_map(|keys| keys.iter());
        let keys: usize = names.map(|key| key.len() + size_of::<Name>()).sum();
        let list = if let Changed::Listed(_, list) = &self.changed { list.len() } else { 0 };
        size_of::<Self>() + keys + list
    }
}

/// All that is told to one client behind replies, in the order in which it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    entries: VecDeque<Later>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in one entry. Returns how many bytes it takes.
    fn push(&mut self, later: Later) -> usize {
        let bytes = later.bytes();
        self.bytes += bytes;
        self.entries.push_back(later);
        bytes
    }

    /// The fence of this number was answered; its entry may be told already.
    fn end_fence(&mut self, number: u64) {
        if let Ok(at) = self.entries.binary_search_by_key(&number, |later| later.number) {
            self.entries[at].is_due = true;
        }
    }

    /// Takes the first one out if it need not wait any more; `head`: the first place without a reply.
    fn pop_due(&mut self, head: u32) -> Option<Changed> {
        let is_due = |later: &mut Later| later.is_due || is_before(later.seq, head);
        let later = self.entries.pop_front_if(is_due)?;
        self.bytes -= later.bytes();
        Some(later.changed)
    }
}

impl Tracking {
    /// A key changed that it may read in its transaction.
    pub(super) fn changed_inside(&mut self, key: &[u8]) {
        if let Some(state) = self.inside.get_mut(key) {
            state.change();
        }
    }

    /// The place of its blocking command, if this change may be that one's doing.
    fn blocked_by(&self, head: u32, changed: &Changed) -> Option<u32> {
        let (seq, keys) = self.blocked.as_ref().filter(|(seq, _)| !is_before(*seq, head))?;
        let mut changed = changed.keys().into_iter().flat_map(|changed| changed.iter());
        let concerns = changed.any(|key| keys.contains(key));
        // Nothing overtakes what waits already.
        (concerns || !self.later.is_empty()).then_some(*seq)
    }
}

impl Engine {
    /// A client queued a command that reads these keys.
    pub(super) fn reads_inside(&mut self, now: Time, id: ClientId, keys: Vec<Name>) {
        let upstream = self.marks_over(id, &keys);
        let state = if upstream.is_some() { State::Asked } else { State::Untold };
        let tracking = self.clients.get_mut(id).and_then(|client| client.tracking.as_mut());
        let Some(tracking) = tracking else { return };
        tracking.inside_bytes += keys.iter().map(|key| key.len() + WAITING_BYTES).sum::<usize>();
        for key in &keys {
            let known = tracking.inside.entry(key.clone()).or_insert(state);
            // Of one that was read before where nobody told of it the reply to that is told again.
            *known = if *known == State::Untold { State::Untold } else { state };
        }
        let Some(upstream) = upstream else { return };
        // Of commands that only read it is the one that leaves even the time of the last access as it is.
        let words: Vec<&[u8]> =
            core::iter::once(&b"EXISTS"[..]).chain(keys.iter().map(|key| &**key)).collect();
        self.say_own(now, upstream, OwnCommand::Mark, &words);
        self.caches.asked.entry(upstream).or_default().push_back(Asked::Mark(id, keys));
        self.caches.marks.begin(id, upstream);
    }

    /// Marks the keys that a script names, if the script takes a connection without invalidations. `Some`: the script waits for the marks.
    pub(crate) fn marks_script(&mut self, now: Time, wish: &Wish<'_>, way: Way) -> Option<Step> {
        let client = self.clients.get(wish.id).filter(|client| client.reads_unheard())?;
        let tracking = client.tracking.as_ref().filter(|_| way == Way::Shared)?;
        // Keys are marked once: respool dispatches the request again when the marks are answered.
        let is_marked = !tracking.inside.is_empty();
        let is_told = tracking.caches_next() || tracking.broadcast;
        if !is_marked && is_told && self.is_tracked(wish) {
            let keys = self.names_in(wish);
            self.reads_inside(now, wish.id, keys);
            self.account_rest(wish.id);
        }
        self.marks_wait(wish.id)
    }

    /// The connection over which keys are marked that are read in a transaction.
    fn marks_over(&self, id: ClientId, keys: &[Name]) -> Option<UpstreamId> {
        let client = self.clients.get(id)?;
        let tracking = client.tracking.as_ref()?;
        let hears_itself = client.protocol == Protocol::Resp3 && tracking.redirect == 0;
        if keys.len() > TRACKED_REQUEST_KEYS_MAX
            || !hears_itself
            || tracking.broadcast
            || client.has_own()
            || !tracking.caches_next()
        {
            return None;
        }
        let first = keys.first()?;
        let node = match self.is_one() {
            true => self.first_node,
            false => self.router.node(self.router.place(first))?,
        };
        let upstream = *self.by_key.get(&client.key_to(node, client.lane(Lane::Shared)))?;
        let high = self.settings.limits.upstream_out_high_bytes;
        self.upstreams
            .get(upstream)
            .is_some_and(|up| up.is_ready() && up.has_room(high))
            .then_some(upstream)
    }

    /// What EXEC of this client waits for: that the keys which it reads are marked.
    pub(crate) fn marks_wait(&self, id: ClientId) -> Option<Step> {
        self.caches.marks.first(id).map(|upstream| Step::Hold(Hold::Upstream(upstream)))
    }

    /// For debug builds.
    ///
    /// # Panics
    /// When the counts of marks are not those of the marks that are open.
    pub(crate) fn check_marks(&self) {
        let mut counted = Marks::default();
        for (upstream, asked) in &self.caches.asked {
            for asked in asked {
                if let Asked::Mark(client, _) = asked {
                    counted.begin(*client, *upstream);
                }
            }
        }
        assert_eq!(counted, self.caches.marks, "marks that are open");
    }

    /// EXEC took this place, in which these keys are read.
    pub(super) fn exec_reads(
        &mut self,
        id: ClientId,
        seq: u32,
        inside: BTreeMap<Name, State>,
        caches: bool,
        apart: bool,
    ) {
        let tracking = self.clients.get_mut(id).and_then(|client| client.tracking.as_mut());
        let Some(tracking) = tracking else { return };
        tracking.exec = Some(seq);
        if tracking.broadcast {
            // It is told of every change. What it hears of these before the reply is told again behind it.
            return tracking.reading.begin(seq, inside.into_keys().collect());
        }
        // What another client is told comes over another connection.
        if apart || tracking.redirect != 0 {
            let untold = inside.into_iter().filter(|(_, state)| *state != State::Told);
            return tracking.again.extend(untold.map(|(key, _)| (seq, key)));
        }
        if !caches {
            return;
        }
        let keys: Vec<Name> = inside.into_keys().collect();
        tracking.reading.begin(seq, keys.clone());
        keys.iter().for_each(|key| self.remember(id, key));
    }

    /// What was asked over a connection that tells of changes was answered; `fine`: not with an error.
    pub(crate) fn feed_answered(&mut self, id: UpstreamId, fine: bool) {
        let Some(queue) = self.caches.asked.get_mut(&id) else { return };
        let asked = queue.pop_front();
        if queue.is_empty() {
            self.caches.asked.remove(&id);
        }
        // EXEC of this client may wait for the mark, and nobody else does.
        if let Some(client) = asked.and_then(|asked| self.end_asked(id, asked, fine)) {
            self.wake_waiter(id, client);
        }
    }

    /// Nothing that was asked over this connection will be answered. Clients that wait for it are woken when it is made again or given up.
    pub(super) fn asked_in_vain(&mut self, id: UpstreamId) {
        let asked = self.caches.asked.remove(&id).unwrap_or_default();
        for asked in asked {
            self.end_asked(id, asked, false);
        }
    }

    /// Returns the client whose last mark over this connection that was.
    fn end_asked(&mut self, upstream: UpstreamId, asked: Asked, fine: bool) -> Option<ClientId> {
        match asked {
            Asked::Mark(client, keys) => {
                let is_last = self.caches.marks.end(client, upstream);
                self.marked(client, &keys, fine);
                return is_last.then_some(client);
            }
            // The reply that goes before may have come in the same turn, over its own connection.
            Asked::Fence(client, number) => self.caches.fenced.push((client, number)),
            Asked::LastWord(client, number) => self.said_last_word(client, number),
        }
        None
    }

    fn marked(&mut self, id: ClientId, keys: &[Name], fine: bool) {
        let tracking = self.clients.get_mut(id).and_then(|client| client.tracking.as_mut());
        let Some(tracking) = tracking else { return };
        let mut told = Vec::new();
        for key in keys {
            if let Some(state) =
                tracking.inside.get_mut(key).filter(|state| **state == State::Asked)
            {
                *state = if fine { State::Told } else { State::Untold };
                told.push(key.clone());
            }
        }
        if fine {
            told.iter().for_each(|key| self.remember(id, key));
        }
    }

    /// Tells a client what changed: at once, or behind the reply whose doing it may be. `by`: whom that was told, and when.
    pub(super) fn tell_in_order(
        &mut self,
        by: Option<(Time, UpstreamId)>,
        id: ClientId,
        changed: Changed,
    ) {
        let Some(client) = self.clients.get(id) else { return };
        let Some(tracking) = client.tracking.as_ref() else { return };
        let (exec, head) = (client.exec_under_way(), client.places.head());
        // Another client has an order of its own.
        let (later, by) = match (tracking.redirect, exec.filter(|_| !tracking.broadcast)) {
            (0, Some(seq)) => (Some(seq), None),
            (0, None) => (by.and_then(|_| tracking.blocked_by(head, &changed)), by),
            _ => (None, None),
        };
        let Some(seq) = later else { return self.tell_changed(id, &changed) };
        let number = self.next_fence();
        if let Some((now, upstream)) = by {
            // Asks over this connection whether everything was told to this client.
            self.ask_fence(now, upstream, Asked::Fence(id, number));
        }
        if let Some(tracking) = self.clients.get_mut(id).and_then(|c| c.tracking.as_mut()) {
            let bytes = tracking.later.push(Later { seq, number, is_due: false, changed });
            self.grants.fan.pay(bytes, false);
            self.account_rest(id);
        }
    }

    /// A number that no fence had.
    pub(super) fn next_fence(&mut self) -> u64 {
        self.caches.next_fence += 1;
        self.caches.next_fence
    }

    /// Asks whether everything was told over this connection.
    pub(super) fn ask_fence(&mut self, now: Time, upstream: UpstreamId, asked: Asked) {
        self.say_own(now, upstream, OwnCommand::Fence, &[b"PING"]);
        self.caches.asked.entry(upstream).or_default().push_back(asked);
    }

    /// All that came in this turn was looked at: what waited for fences that were answered is told.
    pub(super) fn tell_fenced(&mut self) {
        for (client, number) in core::mem::take(&mut self.caches.fenced) {
            let tracking = self.clients.get_mut(client).and_then(|c| c.tracking.as_mut());
            if let Some(tracking) = tracking {
                tracking.later.end_fence(number);
                self.track_delivered(client);
            }
        }
    }

    /// Changes are told that waited for a reply that was given, or for a fence that was answered.
    pub(super) fn tell_later(&mut self, id: ClientId) {
        while let Some(client) = self.clients.get_mut(id)
            && let head = client.places.head()
            && let Some(tracking) = client.tracking.as_mut()
            && let Some(changed) = tracking.later.pop_due(head)
        {
            self.tell_changed(id, &changed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_ends_its_own_wait_wherever_it_stands_and_nothing_overtakes() {
        let mut waiting = Waiting::default();
        for number in [3, 4, 7, 9] {
            let changed = Changed::Keys([Name::from(&b"key"[..])].into());
            let later = Later { seq: number as u32 / 8, number, is_due: false, changed };
            assert!(waiting.push(later) > 3);
        }
        // Of nobody, of one behind the first, of the first.
        for (number, due) in [(5, 0), (4, 0), (3, 2)] {
            waiting.end_fence(number);
            assert_eq!(core::iter::from_fn(|| waiting.pop_due(0)).count(), due);
        }
        // That one was told already.
        waiting.end_fence(3);
        assert_eq!(core::iter::from_fn(|| waiting.pop_due(1)).count(), 1);
        assert!(waiting.held_bytes() > 3 && !waiting.is_empty());
        assert_eq!(core::iter::from_fn(|| waiting.pop_due(2)).count(), 1);
        assert_eq!((waiting.held_bytes(), waiting.is_empty()), (0, true));
    }

    /// A look at every mark for each question would be five thousand million.
    #[test]
    fn a_hundred_thousand_marks_are_open_while_each_transaction_asks_for_its_own() {
        let of = |number: u32| (ClientId::new(number / 100, 1), UpstreamId::new(number % 2, 0));
        let mut marks = Marks::default();
        for number in 0..100_000 {
            let (client, upstream) = of(number);
            marks.begin(client, upstream);
        }
        for number in 0..100_000 {
            let (client, upstream) = of(number);
            // The last one over the first connection is answered before the last one over the second.
            let first = if number % 100 == 99 { 1 } else { 0 };
            assert_eq!(marks.first(client), Some(UpstreamId::new(first, 0)));
            // EXEC is woken twice, and not with each answer.
            assert_eq!(marks.end(client, upstream), number % 100 >= 98);
        }
        assert!(marks.0.is_empty() && marks.first(ClientId::new(7, 1)).is_none());
    }
}
