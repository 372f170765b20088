//! The write offset of the connection over which `WAIT` and `WAITAOF` go.
//!
//! A server counts the replicas that have the replication stream up to the last write of this connection (`woff` in Redis' server.c). A client
//! of respool wrote over another connection. So respool sends a command in front, which moves the offset of the connection to the end of the stream, behind
//! all writes of the client:
//!
//! | server | commands that move the offset | command in front |
//! |---|---|---|
//! | Redis before 7.2 | all | `PING` |
//! | Redis since 7.2, Valkey | commands that the server sends to replicas | `FUNCTION RESTORE` of a dump without functions |
//! | server of unknown version, without `HELLO` (Redis before 6, or renamed) | unknown | both |
//!
//! `FUNCTION RESTORE … APPEND` goes to replicas whenever it succeeds (`functionRestoreCommand` in Redis' functions.c), names no key, works in a cluster, and
//! adds nothing with this dump.
//!
//! A refused command in front (`NOPERM`, `OOM`, `NOREPLICAS`, renamed) leaves an old offset, and the server's count would be too high. So the client gets the error.
//! In a transaction nothing can stand in front of `WAIT`, so respool refuses `EXEC` where `PING` is not enough.
//!
//! Not here: primaries that were lost (`unconfirmed`), the wait (`blocking`, `errand`).
//!
//! Invariant: a client gets a count of a server only if the command in front succeeded.

use crate::connect::error_reply;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::reject;
use crate::server_loss::Failure;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;

/// `FUNCTION DUMP` of a Redis 7.0 without functions: the version of the format (10), and the CRC64 of that. Later servers read it, too
/// (`verifyDumpPayload` in Redis' cluster.c).
const NO_FUNCTIONS: &[u8] = b"\x0a\x00\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda";

/// The commands that move the write offset of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MovedBy {
    /// The server has not told its version.
    #[default]
    Unknown,
    /// All commands.
    Any,
    /// Commands that the server sends to replicas.
    Writes,
}

/// Whether this error comes from a server between Redis 4.0.11 and 7.0, where all commands move the offset. Later servers quote the name otherwise (`processCommand` in server.c).
pub(crate) fn is_before_7(error: &[u8]) -> bool {
    error.starts_with(b"ERR unknown command `")
}

impl Engine {
    /// Moves the write offset of this connection to the end of the replication stream, for the `WAIT` behind.
    pub(crate) fn move_write_offset(&mut self, now: Time, id: UpstreamId) {
        let Some(moved_by) = self.upstreams.get(id).map(|upstream| upstream.offset_moved_by) else {
            return;
        };
        if moved_by != MovedBy::Writes {
            self.say_own(now, id, OwnCommand::Offset { may_lack: false }, &[b"PING"]);
        }
        if moved_by != MovedBy::Any {
            let words = [&b"FUNCTION"[..], b"RESTORE", NO_FUNCTIONS, b"APPEND"];
            let may_lack = moved_by == MovedBy::Unknown;
            self.say_own(now, id, OwnCommand::Offset { may_lack }, &words);
        }
    }

    /// The server refused to move the write offset. The `WAIT` behind gets the error, and the connection ends.
    pub(crate) fn offset_refused(&mut self, now: Time, id: UpstreamId, error: &[u8]) {
        let runs = self.take_runs(id);
        self.answer_runs(now, id, &runs, false, &Failure::refusal(error_reply(error)));
        let text = reject::quoted(error);
        self.lose_upstream(
            now,
            id,
            &alloc::format!("refused the command in front of WAIT: {text}"),
            true,
        );
    }

    /// The reason why `EXEC` of a transaction with `WAIT` must not go to the server.
    pub(crate) fn refuses_count(&mut self, now: Time, id: ClientId) -> Option<Failure> {
        if let Some(failure) = self.unconfirmed(now, id) {
            return Some(failure);
        }
        let lease = self.clients.get(id).and_then(|client| client.lease.as_ref());
        let upstream = lease.and_then(|lease| self.upstreams.get(lease.upstream?));
        let moved_by = upstream.map_or(self.facts.offset_moved_by(), |up| up.offset_moved_by);
        (moved_by != MovedBy::Any)
            .then(|| Failure::refusal(error_reply(reject::WAIT_INSIDE.as_bytes())))
    }
}
