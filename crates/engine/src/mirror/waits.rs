//! Replies that wait until mirrors have answered, too.
//!
//! ```text
//!   enter ─▶ left 1 … n ──▶ answered ─▶ left 0 ─┬─ the reply is here: it goes out
//!                  └─ keep: the reply is here ──┴─ its time is over: it goes out all the same
//! ```
//! There may be a hundred thousand, and each reply and each answer looks here, so nothing goes through all of them: the first end is that of an
//! ordered set, a client's transactions stand beside each other, and bytes are counted as they come and go.
//!
//! Not here: who gets a reply (`outer`), which mirrors are waited for (`super`).
//!
//! Invariant: `ends` has one entry for each wait that has its reply, and `reply_bytes` is what those replies hold.

use super::Ticket;
use crate::ids::ClientId;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// What becomes of a reply that mirrors may have to answer before.
pub(crate) enum Kept {
    /// It goes out.
    No,
    /// This goes out in its place.
    Instead(Vec<u8>),
    /// It waits.
    Yes,
}

/// The reply of a primary, and where it goes.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) client: ClientId,
    pub(super) seq: u32,
    pub(super) silent: bool,
    pub(super) bytes: Vec<u8>,
}

/// A request whose client waits for mirrors.
#[derive(Debug, Default)]
struct Wait {
    /// Mirrors that have not answered.
    left: u32,
    /// What the first of them said that checks.
    error: Option<Vec<u8>>,
    /// The primary's reply, once it is there, and how long it waits.
    reply: Option<(Time, Reply)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waits: BTreeMap<Ticket, Wait>,
    ends: BTreeSet<(Time, Ticket)>,
    reply_bytes: usize,
    /// When the first of them ends, as it stands in the list of deadlines.
    pub(super) listed_at: Option<Time>,
}

impl Waits {
    /// One mirror more is waited for.
    pub(super) fn enter(&mut self, ticket: Ticket) {
        self.waits.entry(ticket).or_default().left += 1;
    }

    /// A mirror has answered. The reply that goes out now, and the error that takes its place.
    pub(super) fn answered(
        &mut self,
        ticket: Ticket,
        error: Option<Vec<u8>>,
    ) -> Option<(Reply, Option<Vec<u8>>)> {
        // It may have waited too long.
        let wait = self.waits.get_mut(&ticket)?;
        wait.left -= 1;
        wait.error = wait.error.take().or(error);
        if wait.left > 0 || wait.reply.is_none() {
            return None;
        }
        let wait = self.remove(ticket)?;
        Some((wait.reply?.1, wait.error))
    }

    /// The reply to a request is here: whether it waits, and until when at most.
    pub(super) fn keep(&mut self, ticket: Ticket, until: Time, reply: impl Fn() -> Reply) -> Kept {
        let Some(wait) = self.waits.get_mut(&ticket) else { return Kept::No };
        if wait.left == 0 {
            let error = self.remove(ticket).and_then(|wait| wait.error);
            return error.map_or(Kept::No, Kept::Instead);
        }
        let reply = reply();
        self.reply_bytes += reply.bytes.len();
        self.ends.insert((until, ticket));
        if let Some((before, reply)) = wait.reply.replace((until, reply)) {
            debug_assert!(false, "two replies to one request");
            self.reply_bytes -= reply.bytes.len();
            self.ends.remove(&(before, ticket));
        }
        Kept::Yes
    }

    /// A reply that has waited long enough.
    pub(super) fn take_over(&mut self, now: Time) -> Option<Reply> {
        let (_, ticket) = *self.ends.first().filter(|(until, _)| *until <= now)?;
        Some(self.remove(ticket)?.reply?.1)
    }

    /// Nobody waits for what this client's transactions were answered.
    pub(super) fn forget(&mut self, client: ClientId) {
        let of_client = Ticket::Exec(client, 0)..=Ticket::Exec(client, u32::MAX);
        let tickets: Vec<Ticket> = self.waits.range(of_client).map(|(id, _)| *id).collect();
        for ticket in tickets {
            self.remove(ticket);
        }
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Wait> {
        let wait = self.waits.remove(&ticket)?;
        if let Some((until, reply)) = &wait.reply {
            self.reply_bytes -= reply.bytes.len();
            self.ends.remove(&(*until, ticket));
        }
        Some(wait)
    }

    /// When the first of them has waited long enough.
    pub(super) fn first_end(&self) -> Option<Time> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// Whether a reply waits here.
    pub(super) fn has_replies(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Bytes of replies that wait.
    pub(super) fn held_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// Checks what must hold; for debug builds.
    pub(super) fn check(&self) {
        let replies = self.waits.iter().filter_map(|(ticket, wait)| {
            let (until, reply) = wait.reply.as_ref()?;
            assert!(self.ends.contains(&(*until, *ticket)), "a wait without an end");
            Some(reply.bytes.len())
        });
        let (count, bytes) = replies.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        assert_eq!((count, bytes), (self.ends.len(), self.reply_bytes), "replies that wait");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(client: ClientId, seq: u32) -> Reply {
        Reply { client, seq, silent: false, bytes: b"+OK\r\n".to_vec() }
    }

    #[test]
    fn each_ends_at_its_time_and_those_of_a_client_go_with_it() {
        let [one, other] = [ClientId::new(1, 1), ClientId::new(2, 1)];
        let mut waits = Waits::default();
        for (client, seq, until) in [(one, 7, 30), (other, 7, 10), (one, 8, 20)] {
            let ticket = Ticket::Exec(client, seq);
            waits.enter(ticket);
            assert!(matches!(waits.keep(ticket, Time(until), || reply(client, seq)), Kept::Yes));
        }
        assert_eq!((waits.first_end(), waits.held_bytes()), (Some(Time(10)), 15));
        assert!(waits.take_over(Time(9)).is_none());
        assert_eq!(waits.take_over(Time(10)).map(|one| one.client), Some(other));
        assert!(waits.take_over(Time(10)).is_none());
        let (out, error) = waits.answered(Ticket::Exec(one, 8), Some(b"-no".to_vec())).unwrap();
        assert_eq!((out.seq, error, waits.first_end()), (8, Some(b"-no".to_vec()), Some(Time(30))));
        waits.check();
        waits.forget(one);
        assert_eq!((waits.first_end(), waits.held_bytes()), (None, 0));
        assert!(!waits.has_replies() && waits.waits.is_empty());
    }

    /// With a walk through all of them for each this takes minutes.
    #[test]
    fn a_hundred_thousand_cost_each_other_nothing() {
        let mut waits = Waits::default();
        let client = |seq: u32| ClientId::new(seq, 1);
        for seq in 0..100_000 {
            let ticket = Ticket::Exec(client(seq), seq);
            waits.enter(ticket);
            waits.keep(ticket, Time(u64::from(seq)), || reply(client(seq), seq));
            assert_eq!(waits.first_end(), Some(Time(0)));
            assert_eq!(waits.held_bytes(), 5 * (seq as usize + 1));
        }
        for seq in 0..50_000 {
            assert!(waits.answered(Ticket::Exec(client(seq), seq), None).is_some());
            assert_eq!(waits.first_end(), Some(Time(u64::from(seq) + 1)));
        }
        for seq in 50_000..100_000 {
            waits.forget(client(seq));
            assert!(waits.first_end() > Some(Time(u64::from(seq))) || !waits.has_replies());
        }
        assert_eq!((waits.held_bytes(), waits.waits.len()), (0, 0));
    }
}
