//! `policies.double_delete`: a key that was deleted is deleted once more a moment later.
//!
//! Applications that keep a cache beside a database delete the key when they write to the database. Somebody else who has read the old value there
//! just before may put it into the cache just after; the second deletion ends that.
//!
//! ```text
//!   DEL a ──▶ given on ── delay_ms ──▶ DEL a, the proxy's own: its reply is nobody's
//!   MULTI, DEL a … EXEC: from the answer to EXEC on, and only if that was done
//! ```
//! The second one goes to whoever owns the key then, is sent on as any request is, and is tried again for a while if nobody can be reached. What waits
//! is in memory only: it is gone with the process.
//!
//! Invariant: at most [`DELETES_MAX`] keys with [`DELETES_BYTES_MAX`] bytes wait; what does not fit is left out and counted.

use super::state::Outcome;
use super::{Kind, Rule};
use crate::command::ids::DEL;
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::limits::{
    DELETE_AGAIN_MS, DELETE_TRIES, DELETES_AT_ONCE, DELETES_BYTES_MAX, DELETES_MAX,
};
use crate::merge::{How, Merge};
use crate::time::Time;
use crate::upstream::inflight::Owner;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// When it is deleted once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// So long after the request was given on, in milliseconds.
    pub delay_ms: u64,
}

/// A key that is to be deleted once more.
#[derive(Debug)]
pub(super) struct Delete {
    key: Box<[u8]>,
    db: u32,
    delay_ms: u64,
    /// Of the rule.
    name: String,
    tries: u32,
}

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// By time, and in their order where that is the same.
    due: BTreeMap<(Time, u64), Delete>,
    /// Of clients between MULTI and EXEC.
    inside: BTreeMap<ClientId, Vec<Delete>>,
    /// Of the request that is looked at just now.
    pub(super) marked: Vec<Delete>,
    len: usize,
    bytes: usize,
    serial: u64,
}

impl Queue {
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.len * size_of::<Delete>()
    }

    pub(super) fn next_at(&self) -> Option<Time> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn mark(&mut self, rule: &Rule<Again>, db: u32, key: &[u8]) {
        let (delay_ms, name) = (rule.detail.delay_ms, rule.name.clone());
        self.marked.push(Delete { key: key.into(), db, delay_ms, name, tries: 0 });
    }

    /// Takes one in, unless there are too many.
    fn enter(&mut self, delete: &Delete) -> bool {
        let fits = self.len < DELETES_MAX && self.bytes + delete.key.len() <= DELETES_BYTES_MAX;
        if fits {
            self.len += 1;
            self.bytes += delete.key.len();
        }
        fits
    }

    fn leave(&mut self, delete: &Delete) {
        self.len -= 1;
        self.bytes -= delete.key.len();
    }

    /// The transaction of this client is not done, or the client is gone.
    pub(super) fn forget(&mut self, id: ClientId) {
        for delete in self.inside.remove(&id).unwrap_or_default() {
            self.leave(&delete);
        }
    }

    fn push(&mut self, at: Time, delete: Delete) {
        self.serial += 1;
        self.due.insert((at, self.serial), delete);
    }

    fn pop(&mut self, now: Time) -> Option<Delete> {
        let first = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }
}

/// Whether a key was deleted once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Yes,
    /// Its server has no room, or is not ready yet.
    Later,
    No,
}

/// Nobody: whose reply is dropped.
const NOBODY: ClientId = ClientId::new(u32::MAX, 0);

impl Engine {
    /// The request that was looked at went on: its keys are deleted once more.
    pub(super) fn keep_deletes(&mut self, now: Time, id: ClientId) {
        let is_inside = self.is_queueing(id);
        let Some(state) = &mut self.policy else { return };
        if state.deletes.marked.is_empty() {
            return;
        }
        for delete in core::mem::take(&mut state.deletes.marked) {
            if !state.deletes.enter(&delete) {
                state.count(Kind::DoubleDelete, &delete.name, Outcome::Dropped);
            } else if is_inside {
                state.deletes.inside.entry(id).or_default().push(delete);
            } else {
                state.deletes.push(now.plus_ms(delete.delay_ms), delete);
            }
        }
        self.wake_policies();
    }

    /// The answer to EXEC of this client begins.
    pub(crate) fn end_deletes_inside(&mut self, now: Time, id: ClientId, done: bool) {
        let Some(state) = &mut self.policy else { return };
        if !done {
            return state.deletes.forget(id);
        }
        for delete in state.deletes.inside.remove(&id).unwrap_or_default() {
            state.deletes.push(now.plus_ms(delete.delay_ms), delete);
        }
        self.wake_policies();
    }

    /// Deletes what is due, or tries again a little later.
    pub(super) fn run_deletes(&mut self, now: Time) {
        for _ in 0..DELETES_AT_ONCE {
            let Some(delete) = self.policy.as_mut().and_then(|state| state.deletes.pop(now)) else {
                return;
            };
            let sent = self.delete_again(now, &delete);
            let Some(state) = &mut self.policy else { return };
            let is_sent = sent == Sent::Yes;
            if !is_sent && delete.tries < DELETE_TRIES {
                // Clients that wait for room at its server go first, for as long as that takes.
                let tries = delete.tries + u32::from(sent == Sent::No);
                state.deletes.push(now.plus_ms(DELETE_AGAIN_MS), Delete { tries, ..delete });
                continue;
            }
            state.deletes.leave(&delete);
            let outcome = if is_sent { Outcome::Repeated } else { Outcome::Failed };
            state.count(Kind::DoubleDelete, &delete.name, outcome);
        }
    }

    /// Sends one, if its server takes it now.
    fn delete_again(&mut self, now: Time, delete: &Delete) -> Sent {
        let node = match self.is_one() {
            true => Some(self.first_node),
            false => self.router.node(self.router.place(&delete.key)),
        };
        let Some(node) = node else { return Sent::No };
        let key = self.shared_key(node, Protocol::Resp2, delete.db);
        let upstream = match self.upstream_in_turn(now, key, NOBODY) {
            Availability::Ready(upstream) => upstream,
            Availability::Wait(_) => return Sent::Later,
            Availability::Down(_) => return Sent::No,
        };
        let mut frame = Vec::new();
        encode::request(&mut frame, &[b"DEL", &delete.key]);
        let room = self.spare.room();
        let merge = Merge::new(NOBODY, 0, true, Protocol::Resp2, How::Add(0), 1, room);
        let owner = Owner::Part { merge: self.insert_merge(merge), part: 0 };
        self.write_part(now, upstream, owner, Some(DEL), &frame);
        Sent::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::super::What;
    use super::*;

    fn rule() -> Rule<Again> {
        let what = What::new(&["del"], Vec::new(), false).expect("a command");
        Rule { what, name: String::new(), error: None, detail: Again { delay_ms: 5 } }
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut queue = Queue::default();
        let big = alloc::vec![b'k'; DELETES_BYTES_MAX / 2];
        for _ in 0..3 {
            queue.mark(&rule(), 0, &big);
        }
        let marked = core::mem::take(&mut queue.marked);
        let fits: Vec<bool> = marked.iter().map(|delete| queue.enter(delete)).collect();
        assert_eq!(fits, [true, true, false]);
        queue.leave(&marked[0]);
        assert!(queue.enter(&marked[2]));
        let mut queue = Queue::default();
        queue.mark(&rule(), 0, b"k");
        let marked = core::mem::take(&mut queue.marked);
        let entered = (0..2 * DELETES_MAX).filter(|_| queue.enter(&marked[0])).count();
        assert_eq!(entered, DELETES_MAX);
    }

    #[test]
    fn those_of_one_time_keep_their_order() {
        let mut queue = Queue::default();
        for key in [&b"a"[..], b"b", b"c"] {
            queue.mark(&rule(), 0, key);
        }
        for delete in core::mem::take(&mut queue.marked) {
            queue.push(Time(7), delete);
        }
        assert_eq!(queue.next_at(), Some(Time(7)));
        assert!(queue.pop(Time(6)).is_none());
        let keys: Vec<Box<[u8]>> =
            core::iter::from_fn(|| queue.pop(Time(7))).map(|delete| delete.key).collect();
        assert_eq!(keys.concat(), b"abc");
    }
}
