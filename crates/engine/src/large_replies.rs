//! Requests whose replies were large go over a shared connection of their own.
//!
//! Over a connection that clients share, a reply stands before all that were asked for after it. A reply of
//! a mebibyte (`Limits::large_reply_bytes`) takes milliseconds, two hundred of them seconds, also if nobody wants them any more. Nobody
//! knows how large a reply will be, but the next one to the same request will be about as large as the last.
//!
//! ```text
//!   GET a ──▶ connection 0 ──▶ 20 MB         noted: GET of a
//!   GET a ──▶ connection beside it           small requests go on over connection 0, beside it
//! ```
//! Commands that a server does in a thread while their client waits, `KEYS`, and what tells of commands ([`Class::Beside`]), go over it, too.
//! That connection has a few requests at a time (`Upstream::has_room`), since a server answers all that it has read of a connection
//! before it looks at the next one. For a minute after a transaction had a large reply, every transaction that reads takes a dedicated connection (`lease`).
//!
//! A request is known by its command and key if it has one key, by its script if it calls one, else by all its bytes.
//!
//! Other modules: `beside` has the connections, `transfer` has large requests, `silence` has silent clients, and `backlog` has large replies that came unexpected.
//!
//! Invariant: at most [`LARGE_REPLIES_MAX`] requests are known.

use crate::command::CommandId;
use crate::command::ids::EXEC;
use crate::engine::Engine;
use crate::ids::UpstreamId;
use crate::limits::{LARGE_REPLIES_MAX, LARGE_REPLY_KEPT_MS};
use crate::redirect::find_request_bytes;
use crate::time::Time;
use crate::upstream::Lane;
use alloc::collections::BTreeMap;
use rapidhash::v3::rapidhash_v3;
use resp::Args;

/// The hash of a request whose next reply will be about as large as its last. It is not keyed: if two collide, one of
/// them goes over the connection for large replies, where it waits as it would have waited on the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    /// Of a request with this one key.
    fn of_key(command: CommandId, key: &[u8]) -> Self {
        Self(rapidhash_v3(key).wrapping_add(command.index() as u64))
    }

    /// The number of its part if all are divided into so many.
    pub(crate) fn part(self, parts: u16) -> u16 {
        (self.0 % u64::from(parts.max(1))) as u16
    }

    /// `None`: the command writes, and its replies are small.
    pub(crate) fn of(command: Option<CommandId>, frame: &[u8]) -> Option<Self> {
        let Some(row) = command.map(CommandId::row) else {
            return Some(Self(rapidhash_v3(frame)));
        };
        if command == Some(EXEC) {
            return Some(Self::of_key(EXEC, b""));
        }
        let part = match row.only_key_at() {
            _ if row.is_script() => Args::new(frame).nth(1),
            _ if !row.reads() => return None,
            Some(index) => Args::new(frame).nth(index),
            None => None,
        };
        match (command, part) {
            (Some(command), Some(part)) => Some(Self::of_key(command, part)),
            _ => Some(Self(rapidhash_v3(frame))),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LargeReplies {
    /// When a large reply to each came last.
    seen_at: BTreeMap<Fingerprint, Time>,
    /// When old ones are looked for next.
    look_at: Time,
}

impl LargeReplies {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.seen_at.is_empty()
    }

    /// Whether the last reply to a request of this command with this key was large.
    pub(crate) fn has_key(&self, command: CommandId, key: &[u8]) -> bool {
        self.seen_at.contains_key(&Fingerprint::of_key(command, key))
    }

    /// Whether some transaction had a large reply. Of a transaction that was given on as a whole nobody knows which.
    pub(crate) fn has_transaction(&self) -> bool {
        self.has_key(EXEC, b"")
    }

    pub(crate) fn has(&self, command: Option<CommandId>, frame: &[u8]) -> bool {
        let print = Fingerprint::of(command, frame);
        print.is_some_and(|print| self.seen_at.contains_key(&print))
    }

    fn note(&mut self, now: Time, print: Fingerprint) {
        if self.seen_at.len() >= LARGE_REPLIES_MAX && !self.seen_at.contains_key(&print) {
            let oldest = self.seen_at.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(print, _)| *print) {
                self.seen_at.remove(&oldest);
            }
        }
        self.seen_at.insert(print, now);
    }

    /// Forgets those to which no large reply has come for long.
    #[inline]
    pub(crate) fn forget_old(&mut self, now: Time) {
        if self.is_empty() || now < self.look_at {
            return;
        }
        self.look_at = now.plus_ms(LARGE_REPLY_KEPT_MS / 60);
        self.seen_at.retain(|_, at| now < at.plus_ms(LARGE_REPLY_KEPT_MS));
    }
}

impl Engine {
    /// Another part of the reply in front on this connection came. The first time that it is seen to be large, its request is noted.
    #[cold]
    pub(crate) fn note_if_large(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let bytes = upstream.scanner.position() + upstream.scanner.missing();
        let place = upstream.inflight.place();
        if bytes < self.settings.limits.large_reply_bytes
            || upstream.key.lane != Lane::Shared
            || upstream.key.owner.is_some()
            || upstream.pace.large_at.replace(place) == Some(place)
        {
            return;
        }
        // Perhaps nobody waits for it.
        self.sweep.looks_at_deserted = true;
        let Some(run) = upstream.inflight.front() else { return };
        let Some((_, request)) = find_request_bytes(upstream, run, run.done) else { return };
        if let Some(print) = Fingerprint::of(run.command, request) {
            self.grants.large_replies.note(now, print);
        }
    }
}
