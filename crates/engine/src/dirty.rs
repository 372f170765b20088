//! Upstreams that have something to send at the end of the turn, in the order in which they are sent to.
//!
//! A server takes up what comes over several connections about in the order in which we write to them. So those that were written to first are sent
//! first, and before all others those that serve one client: whoever sends a `BLPOP` does not wait for a reply to it, and what another client sends
//! then, or the same person over another connection, must find it waiting. Who waits first is served first. And those for topics: where a slot has
//! just gone, the new owner must hear who listens before it hears what is published there.
//!
//! ```text
//!   turn:  GET (shared)   BLPOP a (lease 1)   BLPOP b (lease 2)   RPUSH (shared)        sent:  lease 1, lease 2, shared
//! ```
//! Not here: what is to be sent (`output`).
//!
//! Invariant: each stands here once, and exactly while its `out.dirty` is set.

use crate::ids::UpstreamId;
use crate::upstream::Upstream;
use alloc::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct DirtyUpstreams {
    first: VecDeque<UpstreamId>,
    shared: VecDeque<UpstreamId>,
}

impl DirtyUpstreams {
    /// A connection that clients share has something to send, or has more memory than before: each turn sends and weighs the listed connections.
    #[inline]
    pub(crate) fn push(&mut self, id: UpstreamId, upstream: &mut Upstream) {
        if !upstream.out.dirty {
            upstream.out.dirty = true;
            self.shared.push_back(id);
        }
    }

    /// One that serves a single client, or topics, has something to send.
    #[inline]
    pub(crate) fn push_first(&mut self, id: UpstreamId, upstream: &mut Upstream) {
        if !upstream.out.dirty {
            upstream.out.dirty = true;
            self.first.push_back(id);
        }
    }

    /// A connection of the mirror has something to send; the mirror's own engine has its record.
    pub(crate) fn push_of_mirror(&mut self, id: UpstreamId) {
        if !self.contains(id) {
            self.shared.push_back(id);
        }
    }

    /// The next one to be sent to.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<UpstreamId> {
        self.pop_first().or_else(|| self.shared.pop_front())
    }

    /// The next one to be sent to of those that clients do not share.
    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<UpstreamId> {
        self.first.pop_front()
    }

    /// It has nothing to send any more.
    pub(crate) fn forget(&mut self, id: UpstreamId) {
        self.first.retain(|dirty| *dirty != id);
        self.shared.retain(|dirty| *dirty != id);
    }

    /// How many have something to send of those that clients share.
    #[inline]
    pub(crate) fn shared_len(&self) -> usize {
        self.shared.len()
    }

    /// Whether any has something to send that clients do not share.
    #[inline]
    pub(crate) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    /// Whether this one has something to send.
    pub(crate) fn contains(&self, id: UpstreamId) -> bool {
        self.first.contains(&id) || self.shared.contains(&id)
    }
}
