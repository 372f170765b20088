//! What a server answers to the begin and the end of a transaction, and what it leaves on the connection.
//!
//! ```text
//!   MULTI  -NOPERM …      no transaction; the connection serves nobody else
//!   EXEC   *…             done; the client is in the database of its last SELECT
//!   EXEC   -EXECABORT     given back      any other error to what ends it: the server may still queue or watch, the connection goes
//!   SELECT between them   the connection goes, unless its database is known
//! ```
//! Not here: what goes to the server (`transaction`).
//!
//! Invariant: a connection that may be in another state than it was taken in is marked as unclean before the next reply is looked at.

use crate::command::{CommandId, ids};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::lease::State;
use crate::time::Time;

impl Engine {
    /// A SELECT became part of a transaction; `selected` is where it leads, if that is known. Whatever the server makes of it, nobody else gets this
    /// connection: it may be in another database than those that wait for a client.
    pub(super) fn note_selected(&mut self, id: ClientId, selected: Option<u32>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let Some(lease) = client.lease.as_mut() else { return };
        lease.unclean |= selected != Some(client.db);
        lease.db_after = selected.or(lease.db_after);
    }

    /// The server's answer to MULTI begins. A server that refuses it does what stands behind it as it comes, as for a client that asks it directly, and there is
    /// no transaction. Replies to what is under way by then would go out as they are, and its writes to no mirror: where those are changed, or there
    /// are mirrors, the client is closed.
    fn multi_answered(&mut self, id: ClientId, seq: u32, is_refused: bool) {
        let is_rewritten = self.changes_requests() || self.has_mirrors();
        let Some(client) = self.clients.get_mut(id) else { return };
        let has_more = client.places.next() != seq.wrapping_add(1);
        let Some(lease) = &mut client.lease else { return };
        if !is_refused {
            lease.queues = true;
        }
        // An error behind that is about a MULTI inside of MULTI.
        if lease.queues {
            return;
        }
        lease.unclean = true;
        lease.state = State::Ending;
        self.account_rest(id);
        if is_rewritten && has_more {
            self.evict(id, "its server refused MULTI and does what stands behind it as it comes");
        }
    }

    /// The server's answer to what ends a transaction or a watch begins: EXEC with an array was done. A server that refuses the command, as one that knows
    /// it by another name or not for this user, may still watch keys or queue commands: nobody else gets that connection.
    pub(crate) fn end_answered(
        &mut self,
        now: Time,
        (id, seq): (ClientId, u32),
        command: Option<CommandId>,
        reply: &[u8],
    ) {
        let lease = self.clients.get_mut(id).and_then(|client| client.lease.as_mut());
        let Some(lease) = lease else { return };
        if command == Some(ids::MULTI) {
            return self.multi_answered(id, seq, reply.starts_with(b"-"));
        }
        lease.unclean |= reply.starts_with(b"-") && !reply.starts_with(b"-EXECABORT ");
        if command == Some(ids::EXEC) {
            lease.done = reply.starts_with(b"*") && !reply.starts_with(b"*-");
            let done = lease.done;
            self.show_transaction(now, id);
            self.end_deletes_inside(now, id, done);
        }
    }
}
