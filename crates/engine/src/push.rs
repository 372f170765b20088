//! Frames that answer nothing: messages of subscriptions, invalidations, lines of MONITOR.
//!
//! Such a frame may stand between two replies, never inside one. A frame waits until the reply is whole while the first part of a large reply is
//! out already (cut-through), and while an answer to EXEC is being put together that may begin to listen (`inside`).
//!
//! A message of a subscription also waits for the reply to its client's EXEC: a server sends the message of a PUBLISH in a transaction behind that reply, and the
//! connection over which respool hears of the message may be ahead of the one with the transaction.
//!
//! Not here: who gets which frame.
//!
//! Invariant: what is out to a client is a sequence of whole frames, but for the last one while `mid_reply` is set.

use crate::client::{Client, Hold};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::pool::BufferPool;
use alloc::vec::Vec;

impl Engine {
    /// Sends the client a frame that is no reply. respool evicts a client that reads too slowly at the bound of its output.
    pub(crate) fn push(&mut self, id: ClientId, write: impl FnOnce(&mut Vec<u8>)) {
        self.push_behind(id, false, write);
    }

    /// Gives the client a message of a subscription: behind the reply to the EXEC that may have published it.
    pub(crate) fn push_message(&mut self, id: ClientId, write: impl FnOnce(&mut Vec<u8>)) {
        let behind_exec = self.waits_for_exec(id);
        self.push_behind(id, behind_exec, write);
    }

    fn push_behind(&mut self, id: ClientId, behind_exec: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let waits = behind_exec || self.assembled(id).is_some();
        let Some(client) = self.clients.get_mut(id).filter(|client| !client.closing) else {
            return;
        };
        // Frames keep their order: one behind another that waits does wait.
        if waits || client.mid_reply.is_some() || !client.identity.pushes.is_empty() {
            let before = client.identity.pushes.len();
            write(&mut client.identity.pushes);
            self.grants.fan.pay(client.identity.pushes.len() - before, false);
            if behind_exec && client.hold == Hold::No {
                // Nothing behind EXEC is looked at either; the end of that wait gives the frame.
                client.hold = Hold::Drained;
            }
        } else {
            let out = client.out.buf(&mut self.pool);
            let before = out.len();
            write(out);
            self.grants.fan.pay(out.len() - before, !client.out.dirty);
            if !client.out.dirty {
                client.out.dirty = true;
                self.dirty_clients.push(id);
            }
        }
        if client.out.pending() + client.identity.pushes.len()
            > self.settings.limits.client_out_max_bytes
        {
            return self.evict_unread(id, "it took its messages too slowly");
        }
        self.account_rest(id);
        self.settle_if_needed(id);
    }

    /// The reply to EXEC is out: the frames that waited for it go out behind it.
    #[cold]
    pub(crate) fn end_pushes_behind_exec(&mut self, id: ClientId) {
        if !self.waits_for_exec(id) && self.assembled(id).is_none() {
            self.end_held_pushes(id);
        }
    }

    /// The answer that was put together is out: what waited for that goes out behind it.
    pub(crate) fn end_held_pushes(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id).filter(|client| client.mid_reply.is_none())
        else {
            return;
        };
        end_of_cut_through(client, &mut self.pool);
        self.mark_client_dirty(id);
    }
}

/// The reply that was cut through is whole: what waited for that goes out behind it.
#[cold]
pub(crate) fn end_of_cut_through(client: &mut Client, pool: &mut BufferPool) {
    if !client.identity.pushes.is_empty() {
        let pushes = core::mem::take(&mut client.identity.pushes);
        client.out.buf(pool).extend_from_slice(&pushes);
    }
}
