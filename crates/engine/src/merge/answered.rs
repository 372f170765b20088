//! Replies for the parts of a request come, and the merged one goes to its client.
//!
//! respool does not copy a large reply to a request of one part into the merge: it writes the client's form from the upstream's buffer and sends that.
//!
//! Not here: which servers are asked (`scatter`), how replies become one (`merge`), in which other words a client gets it (`policy::change`).
//!
//! Invariant: a merge is removed when its last part is answered, and its client gets one reply.

use super::{Merge, scan};
use crate::engine::Engine;
use crate::ids::{ClientId, MergeId};
use crate::limits::CUT_THROUGH_BYTES;
use crate::local::info::servers::Summary;
use crate::mirror::{Kept, Ticket};
use crate::scatter::if_small;
use crate::time::Time;
use alloc::vec::Vec;

/// The client and the place of a merged reply.
struct Asker {
    client: ClientId,
    seq: u32,
    silent: bool,
    /// See [`Merge::is_lost`].
    is_lost: bool,
}

impl Asker {
    fn of(merge: &Merge) -> Self {
        let &Merge { client, seq, silent, is_lost, .. } = merge;
        Self { client, seq, silent, is_lost }
    }
}

impl Engine {
    /// One or several replies for parts of a request came.
    pub(crate) fn part_replies(
        &mut self,
        now: Time,
        id: MergeId,
        part: u32,
        count: u32,
        bytes: &[u8],
    ) {
        if self.has_mirrors() {
            self.mirror_replies(now, id, part, count, bytes);
        }
        let is_large = bytes.len() >= CUT_THROUGH_BYTES && !self.changes_later(id);
        let Some(merge) = self.merges.get_mut(id) else { return };
        let wanted = self.clients.get(merge.client).is_some();
        if wanted && is_large && merge.gives_on() {
            return self.finish_large(now, id, bytes);
        }
        if wanted {
            merge.make_room(&mut self.pool);
        }
        merge.take(part, count, if wanted { bytes } else { &[] });
        self.account_merge(id);
        self.finish_merge(now, id);
    }

    /// One reply for one part.
    pub(crate) fn part_reply(&mut self, now: Time, id: MergeId, part: u32, reply: &[u8]) {
        self.part_replies(now, id, part, 1, reply);
    }

    /// How the servers are while the node of this index gives a page of SCAN.
    fn seen_of_page(&mut self, index: usize, asked: bool) -> scan::Seen {
        let pages = self.pages();
        let (node, mark) = (pages.nodes.get(index).copied(), pages.mark);
        let node = node.and_then(|node| self.nodes.get(node));
        // A node without a question may give slots away; the iteration then visits all nodes again.
        scan::Seen { mark, gives: !asked || node.is_some_and(|node| node.gives) }
    }

    pub(crate) fn finish_merge(&mut self, now: Time, id: MergeId) {
        if self.merges.get(id).is_none_or(|merge| !merge.is_whole()) || self.opens_later(id) {
            return;
        }
        let page_of = self.merges.get(id).and_then(Merge::page_of);
        let seen = page_of.map(|(index, asked)| self.seen_of_page(index, asked));
        let Some(merge) = self.remove_merge(id) else { return };
        let asker = Asker::of(&merge);
        if let Some(ticket) = merge.info_ticket() {
            let summary = Summary::of(&merge.replies());
            self.pool.give(self.spare.take_apart(merge));
            return self.servers_told(ticket, summary);
        }
        let mut out = core::mem::take(&mut self.scratch_parts.merged);
        out.clear();
        merge.write(&mut out, seen, &mut self.spare.spans);
        self.pool.give(self.spare.take_apart(merge));
        if let Some(changed) = self.change_merged(id, asker.client, &out) {
            out = changed;
        }
        self.hand_merged(now, id, asker, out);
    }

    /// Finishes a request of one part whose reply is large, with one copy.
    #[cold]
    fn finish_large(&mut self, now: Time, id: MergeId, reply: &[u8]) {
        let Some(merge) = self.remove_merge(id) else { return };
        let asker = Asker::of(&merge);
        self.pool.give(self.spare.take_apart(merge));
        let changed = self.change_merged(id, asker.client, reply);
        self.hand_merged(now, id, asker, changed.unwrap_or_else(|| reply.to_vec()));
    }

    /// Gives its client a merged reply.
    #[inline(always)]
    fn hand_merged(&mut self, now: Time, id: MergeId, asker: Asker, out: Vec<u8>) {
        let Asker { client, seq, silent, is_lost } = asker;
        let kept = match self.has_mirrors() {
            _ if self.elsewhere.is_some() && self.is_backed(now, id, &out) => Kept::Yes,
            true => self.keep_for_mirrors(now, Ticket::Merge(id), (client, seq, silent), &out),
            false => Kept::No,
        };
        match kept {
            Kept::No | Kept::Instead(_) if is_lost => self.lose_client(client, seq),
            Kept::No if out.len() >= CUT_THROUGH_BYTES => {
                return self.deliver_large(client, seq, silent, out);
            }
            Kept::No => self.deliver(client, seq, 1, silent, &out),
            Kept::Instead(error) => self.deliver(client, seq, 1, silent, &error),
            Kept::Yes => {}
        }
        self.scratch_parts.merged = if_small(out);
    }
}
