//! Server replies to MULTI, EXEC, DISCARD and UNWATCH, and the connection state that they leave behind.
//!
//! ```text
//!   MULTI  -NOPERM …      no transaction; respool closes the connection behind it
//!   EXEC   *…             done; the client is in the database of its last SELECT
//!   EXEC   -EXECABORT     given back      any other error to what ends it: the server may still queue or watch, the connection goes
//!   SELECT between them   the connection goes, unless its database is known
//! ```
//! Not here: the requests (`transaction`).
//!
//! Invariant: respool marks a connection as unclean before it reads the next reply, if the connection's state may have changed.

use crate::command::{CommandId, ids};
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::lease::State;
use crate::time::Time;
use crate::upstream::Role;

impl Engine {
    /// A SELECT became part of a transaction; `selected` is where it leads, if that is known. Whatever the server makes of it, nobody else gets this
    /// connection: it may be in another database than those that wait for a client.
    pub(super) fn note_selected(&mut self, id: ClientId, selected: Option<u32>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let Some(lease) = client.lease.as_mut() else { return };
        lease.unclean |= selected != Some(client.db);
        lease.db_after = selected.or(lease.db_after);
    }

    /// Handles the reply to the client's MULTI. A server that refuses MULTI executes the following commands one by one, as for a direct client. respool has
    /// forwarded them as parts of a transaction, so their replies would lack the changes of a namespace or value transform, and mirrors would miss
    /// the writes: in these cases respool closes the client.
    fn multi_answered(&mut self, id: ClientId, seq: u32, is_refused: bool) {
        let is_rewritten = self.changes_requests() || self.has_mirrors();
        let Some(client) = self.clients.get_mut(id) else { return };
        let has_more = client.places.next() != seq.wrapping_add(1);
        let Some(lease) = &mut client.lease else { return };
        if !is_refused {
            lease.queues = true;
        }
        // A later error is the reply to a nested MULTI.
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

    /// Whether a reply to this command over this connection begins or ends a transaction of the lease. The replies to a whole transaction (`whole`) come
    /// over a shared connection and do not concern the lease.
    #[inline]
    pub(crate) fn may_end_lease(&self, id: UpstreamId, command: Option<CommandId>) -> bool {
        matches!(command, Some(ids::MULTI | ids::EXEC | ids::DISCARD | ids::WATCH | ids::UNWATCH))
            && self.upstreams.get(id).is_some_and(|up| matches!(up.role, Role::Leased(_)))
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
        let is_refused = reply.starts_with(b"-");
        if command == Some(ids::WATCH) {
            // Without a watched key, the next requests of the client go where their keys are.
            if is_refused && lease.sent == 1 && matches!(lease.state, State::Watching) {
                lease.state = State::Ending;
            }
            return;
        }
        lease.unclean |= is_refused && !reply.starts_with(b"-EXECABORT ");
        if command == Some(ids::EXEC) {
            lease.done = reply.starts_with(b"*") && !reply.starts_with(b"*-");
            let done = lease.done;
            self.show_transaction(now, id);
            self.end_deletes_inside(now, id, done);
        }
    }
}
