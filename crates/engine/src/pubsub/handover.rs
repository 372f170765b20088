//! How a topic goes from one server to another without a message lost or doubled.
//!
//! Both servers tell what is published, each over its own connection, and one of these may be behind the other. So the new one's messages
//! wait until the old one has said its last word; what the old one had told by then is not told again.
//!
//! ```text
//!   old  ─ 1 ─ 2 ─ 3 ─────── 4 ─ unsubscribed            what goes out: 1 2 3 4 │ 5 6
//!   new       subscribed ─ 3 ─ 4 ─ 5 ───── 6 ─ subscribed (asked again: nothing older comes behind that)
//!                          └─ waits ─────┘ └ passes, unless the old one told it
//! ```
//! Shard channels do without: a server tells of them only as long as it has their slot.
//!
//! Not here: where topics belong (`links`).
//!
//! Invariant: messages wait only while a link of the topic ends. What two nodes of a cluster are apart in passing messages on to each other must be
//! less than the two answers take; what is apart by more can be lost or doubled.

use super::{Kind, Link, LinkState, Name, Topic};
use crate::engine::Engine;
use crate::limits::HANDOVER_BYTES_MAX;
use crate::time::Time;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Messages of a topic that goes from one server to another.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// What the old one told since the new one was asked, and how often.
    told: BTreeMap<Vec<u8>, u32>,
    /// What the new one told, for as long as the old one may tell it first.
    waiting: Vec<Vec<u8>>,
    bytes: usize,
}

impl Handover {
    /// Whether the old one told this already; then that counts no more.
    fn take_told(&mut self, frame: &[u8]) -> bool {
        let Some(count) = self.told.get_mut(frame) else { return false };
        *count -= 1;
        if *count == 0 {
            self.told.remove(frame);
        }
        true
    }
}

impl Engine {
    /// The topic is confirmed wherever it belongs: where it was before it ends.
    pub(super) fn end_old_links(&mut self, kind: Kind, name: &Name) {
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return };
        let is_over = |link: &mut Link| link.ends && matches!(link.state, LinkState::Held(_));
        let over: Vec<Link> = topic.links.extract_if(.., is_over).collect();
        for link in over {
            let is_told = self.end_link(&link, kind, name, None);
            let Some(upstream) = link.state.upstream().filter(|_| is_told && link.home) else {
                continue;
            };
            if kind != Kind::Shard
                && let Some(topic) = self.subscriptions.topic_mut(kind, name)
            {
                topic.links.push(Link { state: LinkState::Ending(upstream), ..link });
                topic.handover.get_or_insert_default();
            }
        }
    }

    /// While a topic is handed over: whether this message goes out now.
    pub(super) fn is_its_turn(
        &mut self,
        from: Link,
        kind: Kind,
        name: &[u8],
        frame: &[u8],
    ) -> bool {
        let pool = |link: &Link| self.nodes.get(link.node).map(|node| node.pool);
        let Some(topic) = self.subscriptions.topic(kind, name) else { return false };
        let is_before = |link: &Link| link.ends && link.home && pool(link) == pool(&from);
        let waits = !from.ends && topic.links.iter().any(is_before);
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return false };
        let Some(handover) = &mut topic.handover else { return true };
        if !from.ends && !waits {
            return !handover.take_told(frame);
        }
        handover.bytes += frame.len();
        match waits {
            true => handover.waiting.push(frame.to_vec()),
            false => *handover.told.entry(frame.to_vec()).or_default() += 1,
        }
        let is_coming = |link: &Link| link.ends && matches!(link.state, LinkState::Held(_));
        if handover.bytes > HANDOVER_BYTES_MAX && topic.links.iter().any(is_coming) {
            // The new one is not there, and nothing waits.
            (handover.bytes, handover.told) = (0, BTreeMap::new());
        } else if handover.bytes > HANDOVER_BYTES_MAX {
            topic.links.retain(|link| !link.ends);
            self.release(kind, name);
            if let Some(topic) = self.subscriptions.topic_mut(kind, name) {
                topic.handover = None;
            }
        }
        !waits
    }

    /// The old server has said its last word, or is lost: what waited goes out. The new one is asked once more, since what the old one told may
    /// still be on its way from there.
    pub(super) fn hand_over(&mut self, now: Time, kind: Kind, name: &[u8]) {
        let ends = |topic: &Topic| topic.links.iter().any(|link| link.ends);
        if self.subscriptions.topic(kind, name).is_none_or(ends) || !self.release(kind, name) {
            return;
        }
        let Some((name, topic)) = self.subscriptions.topics[kind as usize].get_key_value(name)
        else {
            return;
        };
        let held = topic.links.iter().filter_map(|link| match link.state {
            LinkState::Held(upstream) => Some(upstream),
            _ => None,
        });
        let (name, held): (Name, Vec<_>) = (name.clone(), held.collect());
        for upstream in held {
            self.ask_link(now, upstream, kind, &name);
        }
    }

    /// What waited goes out; whether the topic is handed over.
    pub(super) fn release(&mut self, kind: Kind, name: &[u8]) -> bool {
        let topic = self.subscriptions.topic_mut(kind, name);
        let Some(handover) = topic.and_then(|topic| topic.handover.as_mut()) else { return false };
        let waiting = core::mem::take(&mut handover.waiting);
        let waiting: Vec<Vec<u8>> =
            waiting.into_iter().filter(|frame| !handover.take_told(frame)).collect();
        for frame in &waiting {
            self.send_to_listeners(kind, name, frame);
        }
        true
    }

    /// The new server answered what it was asked behind the last word of the old one: nothing comes twice any more.
    pub(super) fn handed_over(&mut self, kind: Kind, name: &[u8]) {
        if let Some(topic) = self.subscriptions.topic_mut(kind, name)
            && topic.is_held()
            && topic.links.iter().all(|link| !link.ends)
        {
            topic.handover = None;
        }
    }
}
