//! Messages on their way from a server to all clients that listen.
//!
//! On a connection for topics nothing but what is about topics comes, so each frame is looked at by its first word: a message, a confirmation, an
//! answer to our PING. A message is handed on as the bytes it has, but for the first one, which makes it an array or a push.
//!
//! A message that is too large for any client's output is not kept: its listeners are closed, as they would be when they do not take it, and the
//! rest is dropped as it comes.
//!
//! Not here: who listens (`commands`).
//!
//! Invariant: bytes are consumed up to the end of the last whole frame, or up to what was dropped.

use super::handover::Passes;
use super::links::is_event;
use super::{Kind, Topic};
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::policy::Namespace;
use crate::redirect::sends_on;
use crate::reply::{Fault, malformed, unasked};
use crate::time::Time;
use crate::upstream::inflight::{OwnCommand, Owner};
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Args, Protocol, Scan, encode};

const FENCE: Owner = Owner::Own(OwnCommand::Fence);

impl Engine {
    /// Looks at all whole frames at the begin of `input`; returns the bytes done with.
    pub(crate) fn listened(
        &mut self,
        now: Time,
        id: UpstreamId,
        input: &[u8],
    ) -> Result<usize, Fault> {
        let mut pos = 0;
        while pos < input.len() {
            let Some(upstream) = self.upstreams.get_mut(id).filter(|up| up.is_ready()) else {
                return Ok(input.len());
            };
            if self.grants.fan.is_spent() {
                self.fan_out_later(id);
                return Ok(pos);
            }
            let begun = (upstream.scanner.position() - upstream.forwarded) as usize;
            let rest = input.get(pos + begun..).filter(|rest| !rest.is_empty());
            let Some(rest) = rest else { return Ok(pos) };
            match upstream.scanner.scan(rest).map_err(|error| malformed(&error))? {
                Scan::Complete { consumed, .. } => {
                    let end = pos + begun + consumed;
                    if core::mem::take(&mut upstream.forwarded) == 0 {
                        self.listened_frame(now, id, &input[pos..end])?;
                    }
                    pos = end;
                }
                Scan::Partial { .. } => return Ok(pos + self.bound_message(id, &input[pos..])),
            }
        }
        Ok(pos)
    }

    /// A frame that is not whole waits, within the bound of a client's output. Returns the bytes dropped.
    fn bound_message(&mut self, id: UpstreamId, begun: &[u8]) -> usize {
        let Some(upstream) = self.upstreams.get_mut(id) else { return 0 };
        let bound = self.settings.limits.client_out_max_bytes as u64;
        if upstream.forwarded == 0
            && upstream.scanner.position() + upstream.scanner.missing() <= bound
        {
            return 0;
        }
        let scanned = upstream.scanner.position() - upstream.forwarded;
        let first = upstream.forwarded == 0;
        upstream.forwarded += scanned;
        if first && let Some((kind, name, _)) = message_head(begun) {
            for client in self.listeners(kind, name) {
                self.evict_unread(client, "a message for it was larger than its output may be");
            }
        }
        scanned as usize
    }

    fn listened_frame(&mut self, now: Time, id: UpstreamId, frame: &[u8]) -> Result<(), Fault> {
        if let Some((kind, name, channel)) = message_head(frame) {
            self.fan_out(now, id, (kind, name, channel), frame);
            return Ok(());
        }
        let owner = self.upstreams.get(id).and_then(|up| up.inflight.front()).map(|run| run.owner);
        match (frame.first(), owner) {
            (Some(b'-'), Some(Owner::Own(OwnCommand::Listen))) => {
                self.listening_refused(now, id, frame);
                return Ok(());
            }
            (Some(b'*'), _) => {}
            // The second word of a server that moved the slot of a channel that we left.
            (Some(b'-'), Some(Owner::Own(OwnCommand::Fence))) if sends_on(frame) => return Ok(()),
            (Some(b'+' | b'-'), Some(Owner::Own(OwnCommand::Ping | OwnCommand::Fence))) => {
                return self.listened_pong(id);
            }
            _ => return Err(unasked(frame)),
        }
        let mut words = Args::new(frame);
        let word = words.next().unwrap_or_default();
        let is_ping = matches!(owner, Some(Owner::Own(OwnCommand::Ping | OwnCommand::Fence)));
        if word == b"pong" && is_ping {
            return self.listened_pong(id);
        }
        let name = words.next().unwrap_or_default();
        for kind in Kind::ALL {
            if word == kind.subscribed() || word == kind.unsubscribed() {
                self.listening_word(now, id, word == kind.subscribed(), kind, name);
                return Ok(());
            }
        }
        Err(String::from("sent a message of an unknown kind"))
    }

    fn listened_pong(&mut self, id: UpstreamId) -> Result<(), Fault> {
        let Some(upstream) = self.upstreams.get_mut(id) else { return Ok(()) };
        let is_fence = upstream.inflight.front().is_some_and(|run| run.owner == FENCE);
        upstream.answered(1);
        if is_fence {
            self.fence_answered(id);
        }
        Ok(())
    }

    fn listeners(&self, kind: Kind, name: &[u8]) -> Vec<ClientId> {
        let topic = self.subscriptions.topic(kind, name);
        topic.map(|topic| topic.told().copied().collect()).unwrap_or_default()
    }

    /// A message came. From a node that is not the topic's home only what happened there is taken: the rest comes from home.
    fn fan_out(
        &mut self,
        now: Time,
        from: UpstreamId,
        (kind, name, channel): (Kind, &[u8], &[u8]),
        frame: &[u8],
    ) {
        let Some(topic) = self.subscriptions.topic(kind, name) else { return };
        let link = topic.links.iter().find(|link| link.state.upstream() == Some(from)).copied();
        let is_event = is_event(channel);
        let Some(link) = link.filter(|link| link.home || is_event) else { return };
        if is_event && link.home && !self.has_keys(link.node) {
            return;
        }
        // Who listens to all channels is not told of keys by names that nobody here knows.
        if is_event && self.router.removes() && self.removes_at(link.node) {
            return;
        }
        let mut place = None;
        if !is_event {
            let (moved, is_handed_over) = (topic.moved, topic.handover.is_some());
            if !link.ends && self.subscriptions.recent.was_heard(now, moved, frame) {
                return;
            }
            if is_handed_over {
                match self.passes(now, link, (kind, name), frame) {
                    Passes::Now(waited) => place = waited,
                    Passes::Not => return,
                }
            }
            self.note_heard(now, frame);
        }
        self.send_to_listeners(kind, name, frame, place);
    }

    fn has_keys(&self, node: NodeId) -> bool {
        let pool = self.nodes.get(node).map(|node| node.pool);
        pool.is_some_and(|pool| self.router.has_keys(pool, node))
    }

    /// A message goes out that another server may tell again.
    pub(super) fn note_heard(&mut self, now: Time, frame: &[u8]) {
        if !self.is_one() {
            self.subscriptions.recent.note(now, frame);
        }
    }

    /// One message to all that listen. `place`: the place at which the message waited in a handover.
    pub(super) fn send_to_listeners(
        &mut self,
        kind: Kind,
        name: &[u8],
        frame: &[u8],
        place: Option<u64>,
    ) {
        let mut listeners = core::mem::take(&mut self.subscriptions.scratch);
        listeners.clear();
        if let Some(topic) = self.subscriptions.topic(kind, name) {
            listeners.extend(topic.told());
            if let (Some(place), Some(handover)) = (place, &topic.handover) {
                listeners.retain(|id| !handover.came_behind(*id, place));
            }
        }
        self.send_message(&listeners, frame);
        self.subscriptions.scratch = listeners;
    }

    /// One message to these clients.
    pub(super) fn send_message(&mut self, listeners: &[ClientId], frame: &[u8]) {
        let changed = self.namespace().map(|namespace| outward(namespace, frame));
        let frame = changed.as_deref().unwrap_or(frame);
        for id in listeners {
            let Some(client) = self.clients.get(*id) else { continue };
            let sign = if client.protocol == Protocol::Resp3 { b'>' } else { b'*' };
            self.push_message(*id, |out| {
                out.push(sign);
                out.extend_from_slice(&frame[1..]);
            });
        }
        self.stats.messages += listeners.len() as u64;
    }
}

impl Topic {
    /// Clients that get its messages. None stands in both: it is held while it leaves.
    fn told(&self) -> impl Iterator<Item = &ClientId> {
        self.listeners.iter().chain(&self.leaving)
    }
}

/// A message with the names that clients in a namespace know.
fn outward(namespace: &Namespace, frame: &[u8]) -> Vec<u8> {
    let words: Vec<&[u8]> = Args::new(frame).collect();
    let names = if words.first() == Some(&&b"pmessage"[..]) { 1..3 } else { 1..2 };
    let mut out = Vec::with_capacity(frame.len());
    encode::array(&mut out, words.len());
    for (at, word) in words.into_iter().enumerate() {
        encode::bulk(&mut out, if names.contains(&at) { namespace.outward(word) } else { word });
    }
    out
}

/// The topic and the channel of a message, which may not be whole; `None`: it is none.
fn message_head(frame: &[u8]) -> Option<(Kind, &[u8], &[u8])> {
    if frame.first() != Some(&b'*') {
        return None;
    }
    let mut words = Args::new(frame);
    let kind = match words.next()? {
        b"message" => Kind::Channel,
        b"pmessage" => Kind::Pattern,
        b"smessage" => Kind::Shard,
        _ => return None,
    };
    let name = words.next()?;
    match kind {
        Kind::Pattern => Some((kind, name, words.next()?)),
        Kind::Channel | Kind::Shard => Some((kind, name, name)),
    }
}
