//! How a topic goes from one server to another without a message lost, doubled or out of order.
//!
//! Both servers tell what is published, each over its own connection, and one of these may be behind the other. So the new one's messages
//! wait until the old one has told them or has said its last word; what the old one had told by then is not told again.
//!
//! ```text
//!   old  ─ 1 ─ 2 ─ 3 ─────── 4 ─ unsubscribed            what goes out: 1 2 3 4 │ 5 6
//!   new       subscribed ─ 3 ─ 4 ─ 5 ───── 6 ─ subscribed (asked again: nothing older comes behind that)
//!                          └─ waits ─────┘ └ passes, unless the old one told it
//! ```
//! The old one stays for `HANDOVER_LINGER_MS`. Until all workers know that the topic has moved, some is published at the old server, and it
//! reaches the new one behind what was published there afterwards: nodes pass messages on in their own time. At the old server it comes in
//! order. When all is published at the new server, that one is never behind.
//!
//! What was heard before all this, and comes again from the new one, is known to `recent`.
//!
//! Messages that clients publish at a third node reach the new server over the bus of the cluster, as all messages for a pattern do. The new server
//! may repeat messages of the old server late, so `told` stays for `RECENT_MS` behind the last word of the old server.
//!
//! A shard channel's old server stays no longer than it must: it tells nothing when it has not their slot any more, and as a copy of the new one
//! it tells the same in the same order.
//!
//! Not here: where topics belong (`links`).
//!
//! Invariant: messages wait only while a link of the topic ends.

use super::{Kind, Link, LinkState, Name, Topic};
use crate::account::kept_bytes;
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::limits::{HANDOVER_BYTES_MAX, HANDOVER_LINGER_MS, HANDOVER_PART, RECENT_MS};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Messages of a topic that goes from one server to another.
#[derive(Debug)]
pub(super) struct Handover {
    /// The old server stays until this time. `None`: the new server has not confirmed.
    until: Option<Time>,
    /// The new server may repeat messages of the old one until this time. `None`: the old server has not said its last word.
    settles: Option<Time>,
    /// What the old one told since the new one was asked, and the new one has not, and how often.
    told: BTreeMap<Vec<u8>, u32>,
    /// What the new one told and the old one has not.
    waiting: Waiting,
    /// Memory of `told` and `waiting` in bytes, by [`held_bytes`].
    bytes: usize,
    /// Listeners that came while messages waited, and the place behind the last of these, which were published before.
    came: BTreeMap<ClientId, u64>,
}

/// Memory of one kept message in bytes: text, and its entries in both half-full trees.
fn held_bytes(frame: &[u8]) -> usize {
    kept_bytes::<[(u64, Arc<[u8]>); 6]>(frame.len()) + size_of::<VecDeque<u64>>()
}

/// Messages in their order, each found by its text: thousands may wait, and each that the old server tells is looked up.
#[derive(Debug, Default)]
struct Waiting {
    order: BTreeMap<u64, Arc<[u8]>>,
    places: BTreeMap<Arc<[u8]>, VecDeque<u64>>,
    next: u64,
}

impl Waiting {
    fn push(&mut self, frame: &[u8]) {
        let frame: Arc<[u8]> = frame.into();
        self.order.insert(self.next, Arc::clone(&frame));
        self.places.entry(frame).or_default().push_back(self.next);
        self.next += 1;
    }

    /// Takes the first one with this text out, and returns its place.
    fn take(&mut self, frame: &[u8]) -> Option<u64> {
        let places = self.places.get_mut(frame)?;
        let first = places.pop_front();
        if places.is_empty() {
            self.places.remove(frame);
        }
        first.filter(|first| self.order.remove(first).is_some())
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.order.values()
    }
}

/// Decision on a message of a topic that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passes {
    /// The message waits, or went out before.
    Not,
    /// The message goes out. The place at which the message waited, if it did: listeners that came later do not get it.
    Now(Option<u64>),
}

impl Handover {
    pub(super) fn begun() -> Box<Self> {
        let (told, waiting) = (BTreeMap::new(), Waiting::default());
        Box::new(Self {
            until: None,
            settles: None,
            told,
            waiting,
            bytes: 0,
            came: BTreeMap::new(),
        })
    }

    /// Restarts the times: the topic moves to yet another server, which has not confirmed.
    pub(super) fn begin_again(&mut self) {
        (self.until, self.settles) = (None, None);
    }

    /// Time of the next look at the topic.
    pub(super) fn due(&self, now: Time) -> Time {
        self.settles.or(self.until).unwrap_or(now.plus_ms(HANDOVER_LINGER_MS))
    }

    /// Sets the end of the old server's link when the new server has confirmed, once, and returns it.
    fn stays_until(&mut self, now: Time, kind: Kind) -> Time {
        let linger_ms = if kind == Kind::Shard { 0 } else { HANDOVER_LINGER_MS };
        *self.until.get_or_insert(now.plus_ms(linger_ms))
    }

    /// Records the last word of the old server. Returns false if it was recorded before.
    fn settle(&mut self, now: Time) -> bool {
        // The bus of the cluster delivers messages to each node with another delay. The bus delivers messages of shard channels to the nodes of the shard.
        self.settles.replace(self.settles.unwrap_or(now.plus_ms(RECENT_MS))).is_none()
    }

    /// The new one tells this: whether the old one did already. Then that counts no more.
    fn take_told(&mut self, frame: &[u8]) -> bool {
        let Some(count) = self.told.get_mut(frame) else { return false };
        *count -= 1;
        if *count == 0 {
            self.told.remove(frame);
        }
        self.bytes -= held_bytes(frame);
        true
    }

    /// The old one tells this, which the new one does as well, before or after. Returns the place at which the message waited.
    fn note_told(&mut self, frame: &[u8]) -> Option<u64> {
        let place = self.waiting.take(frame);
        if place.is_some() {
            self.bytes -= held_bytes(frame);
        } else {
            *self.told.entry(frame.to_vec()).or_default() += 1;
            self.bytes += held_bytes(frame);
        }
        place
    }

    /// A client listens from now on.
    pub(super) fn listener_came(&mut self, id: ClientId) {
        if !self.waiting.is_empty() {
            self.came.insert(id, self.waiting.next);
        }
    }

    /// A client listens no more.
    pub(super) fn listener_left(&mut self, id: ClientId) {
        self.came.remove(&id);
    }

    /// Whether a message that waited at this place was published before this client came.
    pub(super) fn came_behind(&self, id: ClientId, place: u64) -> bool {
        self.came.get(&id).is_some_and(|came| place < *came)
    }

    /// The messages that wait for the old server and were published after this client came.
    pub(super) fn waiting_for(&self, id: ClientId) -> Vec<Arc<[u8]>> {
        let waiting = self.waiting.order.iter();
        waiting
            .filter(|(place, _)| !self.came_behind(id, **place))
            .map(|(_, frame)| frame.clone())
            .collect()
    }

    /// The new one tells this, and the old one has not.
    fn keep(&mut self, frame: &[u8]) {
        self.waiting.push(frame);
        self.bytes += held_bytes(frame);
    }
}

impl Engine {
    /// The topic is confirmed wherever it belongs: where it was before it ends, in time.
    pub(super) fn end_old_links(&mut self, now: Time, kind: Kind, name: &Name) {
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return };
        if let Some(handover) = &mut topic.handover {
            let until = handover.stays_until(now, kind);
            if now < until {
                return self.subscriptions.look_by(kind, name, until);
            }
        }
        let is_over = |link: &mut Link| link.ends && matches!(link.state, LinkState::Held(_));
        let over: Vec<Link> = topic.links.extract_if(.., is_over).collect();
        let (beside, over): (Vec<Link>, Vec<Link>) =
            over.into_iter().partition(|link| link.stays_beside);
        if topic.stay_beside(&beside) {
            self.hand_over(now, kind, name);
        }
        for link in over {
            let is_told = self.end_link(&link, kind, name, None);
            let Some(upstream) = link.state.upstream().filter(|_| is_told && link.home) else {
                continue;
            };
            if let Some(topic) = self.subscriptions.topic_mut(kind, name) {
                topic.links.push(Link { state: LinkState::Ending(upstream), ..link });
                topic.handover.get_or_insert_with(Handover::begun);
            }
        }
    }

    /// Decides on a message of a topic that is handed over.
    pub(super) fn passes(
        &mut self,
        now: Time,
        from: Link,
        (kind, name): (Kind, &[u8]),
        frame: &[u8],
    ) -> Passes {
        let pool = |link: &Link| self.nodes.get(link.node).map(|node| node.pool);
        // All topics may go at once.
        let part = self.settings.limits.memory_max_bytes / HANDOVER_PART;
        let bytes_max = HANDOVER_BYTES_MAX.min(part / self.subscriptions.len().max(1));
        let Some(topic) = self.subscriptions.topic(kind, name) else { return Passes::Not };
        let is_before = |link: &Link| link.ends && link.home && pool(link) == pool(&from);
        let waits = !from.ends && topic.links.iter().any(is_before);
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return Passes::Not };
        let Some(handover) = &mut topic.handover else { return Passes::Now(None) };
        let mut passes = if waits { Passes::Not } else { Passes::Now(None) };
        if from.ends {
            passes = Passes::Now(handover.note_told(frame));
        } else if handover.take_told(frame) {
            return Passes::Not;
        } else if waits {
            handover.keep(frame);
        }
        if handover.bytes > bytes_max && handover.waiting.is_empty() {
            // The new one is not there yet, or never tells what was before it.
            (handover.bytes, handover.told) = (0, BTreeMap::new());
            return Passes::Now(None);
        }
        if handover.bytes > bytes_max {
            self.give_up_handover(now, kind, name);
        }
        passes
    }

    /// The old server is too far behind: it ends now, and what waited goes out.
    fn give_up_handover(&mut self, now: Time, kind: Kind, name: &[u8]) {
        let Some((name, _)) = self.subscriptions.topics[kind as usize].get_key_value(name) else {
            return;
        };
        let name = name.clone();
        let Some(topic) = self.subscriptions.topic_mut(kind, &name) else { return };
        let over: Vec<Link> = topic.links.extract_if(.., |link| link.ends).collect();
        let (beside, over): (Vec<Link>, Vec<Link>) =
            over.into_iter().partition(|link| link.stays_beside);
        topic.stay_beside(&beside);
        let tells = |link: &&Link| matches!(link.state, LinkState::Held(_));
        for link in over.iter().filter(tells) {
            self.end_link(link, kind, &name, None);
        }
        self.release(now, kind, &name);
        if let Some(topic) = self.subscriptions.topic_mut(kind, &name) {
            topic.handover = None;
        }
    }

    /// The old server has said its last word, or is lost: what waited goes out. The new one is asked once more, since what the old one told may
    /// still be on its way from there.
    pub(super) fn hand_over(&mut self, now: Time, kind: Kind, name: &[u8]) {
        let ends = |topic: &Topic| topic.links.iter().any(|link| link.ends);
        if self.subscriptions.topic(kind, name).is_none_or(ends) || !self.release(now, kind, name) {
            return;
        }
        let handover =
            self.subscriptions.topic_mut(kind, name).and_then(|topic| topic.handover.as_mut());
        if !handover.is_some_and(|handover| handover.settle(now)) {
            return;
        }
        let Some((name, topic)) = self.subscriptions.topics[kind as usize].get_key_value(name)
        else {
            return;
        };
        let held = topic.links.iter().filter_map(|link| match link.state {
            LinkState::Held(upstream) if link.home => Some(upstream),
            _ => None,
        });
        let (name, held): (Name, Vec<_>) = (name.clone(), held.collect());
        for upstream in held {
            self.ask_link(now, upstream, kind, &name);
        }
    }

    /// What waited goes out; whether the topic is handed over.
    pub(super) fn release(&mut self, now: Time, kind: Kind, name: &[u8]) -> bool {
        let topic = self.subscriptions.topic_mut(kind, name);
        let Some(handover) = topic.and_then(|topic| topic.handover.as_mut()) else { return false };
        let waiting = core::mem::take(&mut handover.waiting);
        handover.bytes -= waiting.iter().map(|frame| held_bytes(frame)).sum::<usize>();
        for (place, frame) in &waiting.order {
            self.note_heard(now, frame);
            self.send_to_listeners(kind, name, frame, Some(*place));
        }
        true
    }

    /// The new server confirmed the topic again, behind the last word of the old server. Only the bus of the cluster can bring repetitions now.
    pub(super) fn handed_over(&mut self, now: Time, kind: Kind, name: &[u8]) {
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return };
        if !topic.is_held() || topic.links.iter().any(|link| link.ends) {
            return;
        }
        match topic.handover.as_ref().map(|handover| handover.settles) {
            // The connection to the old server was lost just now.
            Some(None) => self.hand_over(now, kind, name),
            Some(Some(settles)) if settles > now => {
                self.subscriptions.look_by(kind, name, settles);
            }
            _ => topic.handover = None,
        }
    }
}

impl Topic {
    /// Turns links of former homes into links for keyspace events of their nodes. Returns false if
    /// there are none.
    fn stay_beside(&mut self, links: &[Link]) -> bool {
        let beside = |link: &Link| Link { home: false, ends: false, stays_beside: false, ..*link };
        self.links.extend(links.iter().map(beside));
        !links.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_found_by_its_text_and_goes_out_in_its_order() {
        let mut handover = Handover::begun();
        let texts = [b"a".as_slice(), b"b", b"a", b"c"];
        texts.iter().for_each(|text| handover.keep(text));
        let waiting = |handover: &Handover| handover.waiting_for(ClientId::new(0, 1)).concat();
        handover.note_told(b"a");
        let each = held_bytes(b"a");
        assert_eq!((waiting(&handover), handover.bytes), (b"bac".to_vec(), 3 * each));
        handover.note_told(b"x");
        assert!(each > 200, "a short message takes much more than its text");
        assert_eq!((waiting(&handover), handover.bytes), (b"bac".to_vec(), 4 * each));
        handover.note_told(b"a");
        handover.note_told(b"a");
        assert_eq!(waiting(&handover), b"bc");
        assert!(handover.take_told(b"a") && handover.take_told(b"x"));
        assert!(!handover.take_told(b"a"), "it was told once more often than it waited");
        assert_eq!((handover.bytes, handover.waiting.places.len()), (2 * each, 2));
    }

    #[test]
    fn a_listener_does_not_get_messages_that_waited_before_it_came() {
        let [early, late] = [ClientId::new(0, 1), ClientId::new(1, 1)];
        let mut handover = Handover::begun();
        handover.listener_came(early);
        handover.keep(b"a");
        handover.listener_came(late);
        handover.keep(b"b");
        let waiting = |handover: &Handover, id| handover.waiting_for(id).concat();
        assert_eq!(
            (waiting(&handover, early), waiting(&handover, late)),
            (b"ab".to_vec(), b"b".to_vec())
        );
        let place = handover.note_told(b"a").expect("it waited");
        assert!(handover.came_behind(late, place) && !handover.came_behind(early, place));
        handover.listener_left(late);
        assert!(handover.came.is_empty());
    }
}
