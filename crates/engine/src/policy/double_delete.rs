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
use alloc::borrow::Cow;
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

/// The keys of one request.
#[derive(Debug, Default)]
struct Marked {
    deletes: Vec<Delete>,
    bytes: usize,
    /// Keys that do not fit, by the name of their rule.
    left_out: Vec<(String, u64)>,
}

impl Marked {
    fn is_empty(&self) -> bool {
        self.deletes.is_empty() && self.left_out.is_empty()
    }
}

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// By time, and in their order where that is the same.
    due: BTreeMap<(Time, u64), Delete>,
    /// Of clients between MULTI and EXEC.
    inside: BTreeMap<ClientId, Vec<Delete>>,
    /// Of the request that is looked at just now.
    marked: Marked,
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

    /// The request that is looked at has none.
    #[inline]
    pub(super) fn unmark(&mut self) {
        if !self.marked.is_empty() {
            self.marked = Marked::default();
        }
    }

    /// Marks the keys that a rule is about, as they are named at the server. A request may have more of them than fit: those are only counted.
    pub(super) fn mark<'a>(
        &mut self,
        rule: &Rule<Again>,
        db: u32,
        keys: impl Iterator<Item = Cow<'a, [u8]>>,
    ) {
        let mut left_out = 0;
        for key in keys {
            let bytes = self.marked.bytes + key.len();
            if self.len + self.marked.deletes.len() >= DELETES_MAX
                || self.bytes + bytes > DELETES_BYTES_MAX
            {
                left_out += 1;
                continue;
            }
            self.marked.bytes = bytes;
            let (delay_ms, name) = (rule.detail.delay_ms, rule.name.clone());
            let key = key.into_owned().into_boxed_slice();
            self.marked.deletes.push(Delete { key, db, delay_ms, name, tries: 0 });
        }
        if left_out > 0 {
            self.marked.left_out.push((rule.name.clone(), left_out));
        }
    }

    /// What was marked waits from now on.
    fn enter(&mut self) -> Marked {
        self.len += self.marked.deletes.len();
        self.bytes += self.marked.bytes;
        core::mem::take(&mut self.marked)
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
        let marked = state.deletes.enter();
        for (name, count) in marked.left_out {
            state.count_times(Kind::DoubleDelete, &name, Outcome::Dropped, count);
        }
        if is_inside {
            state.deletes.inside.entry(id).or_default().extend(marked.deletes);
            return;
        }
        for delete in marked.deletes {
            state.deletes.push(now.plus_ms(delete.delay_ms), delete);
        }
        self.wake_policies();
    }

    /// The answer to EXEC of this client begins.
    pub(crate) fn end_deletes_inside(&mut self, now: Time, id: ClientId, done: bool) {
        if !done {
            return self.forget_deletes_inside(id);
        }
        let Some(state) = &mut self.policy else { return };
        for delete in state.deletes.inside.remove(&id).unwrap_or_default() {
            state.deletes.push(now.plus_ms(delete.delay_ms), delete);
        }
        self.wake_policies();
    }

    /// Drops the second deletes of this client's transaction, which ends without being executed.
    pub(crate) fn forget_deletes_inside(&mut self, id: ClientId) {
        if let Some(state) = &mut self.policy {
            state.deletes.forget(id);
        }
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

    fn marked(queue: &mut Queue, keys: &[&[u8]]) -> Marked {
        queue.mark(&rule(), 0, keys.iter().map(|key| Cow::Borrowed(*key)));
        queue.enter()
    }

    #[test]
    fn keys_that_do_not_fit_are_counted_and_not_kept() {
        let mut queue = Queue::default();
        let big = alloc::vec![b'k'; DELETES_BYTES_MAX / 2];
        let first = marked(&mut queue, &[&big, &big, &big]);
        assert_eq!((first.deletes.len(), first.left_out), (2, alloc::vec![(String::new(), 1)]));
        queue.leave(&first.deletes[0]);
        assert_eq!(marked(&mut queue, &[&big]).deletes.len(), 1);
        let mut queue = Queue::default();
        let many = marked(&mut queue, &alloc::vec![&b"k"[..]; DELETES_MAX + 3]);
        assert_eq!(many.deletes.len(), DELETES_MAX);
        assert_eq!(many.left_out, [(String::new(), 3)]);
        assert_eq!(marked(&mut queue, &[b"k"]).left_out, [(String::new(), 1)]);
    }

    #[test]
    fn a_request_that_does_not_go_on_has_no_keys_marked() {
        let mut queue = Queue::default();
        queue.mark(&rule(), 0, [Cow::Borrowed(&b"a"[..])].into_iter());
        queue.unmark();
        assert!(queue.enter().deletes.is_empty());
        assert_eq!(queue.held_bytes(), 0);
    }

    #[test]
    fn those_of_one_time_keep_their_order() {
        let mut queue = Queue::default();
        for delete in marked(&mut queue, &[b"a", b"b", b"c"]).deletes {
            queue.push(Time(7), delete);
        }
        assert_eq!(queue.next_at(), Some(Time(7)));
        assert!(queue.pop(Time(6)).is_none());
        let keys: Vec<Box<[u8]>> =
            core::iter::from_fn(|| queue.pop(Time(7))).map(|delete| delete.key).collect();
        assert_eq!(keys.concat(), b"abc");
    }
}
