//! Learning from the server which commands it has (`COMMAND`), for those that the built-in table does not know.
//!
//! It is asked once, on the first connection that is ready; what that server did not tell is asked for by name (`unknown`), and all of it again
//! only when there are more such names than can be asked for. The reply is long, so a connection that breaks may take it along. Then it is
//! asked again: at once the first time, and after a pause when that was no accident. Otherwise a way to the server on which
//! connections do not last would be filled with nothing but this reply.
//!
//! Not here: what the reply says (`command::learned`).
//!
//! Invariant: at most one connection owes the reply.

use crate::command::Learned;
use crate::engine::Engine;
use crate::ids::UpstreamId;
use crate::limits::{LEARN_AGAIN_MS, LEARN_EVERY_MS};
use crate::time::Time;
use crate::unknown::Lookups;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Lane, Role, Upstream};
use alloc::boxed::Box;
use resp::value;

/// How far the learning is.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    /// It is asked, or answered.
    asked: bool,
    /// Replies that were lost in a row.
    lost: u32,
    /// Not to be asked before.
    after: Time,
    /// An answer was read, and may be asked for again from then on.
    again_at: Option<Time>,
    /// Names that servers are asked for.
    pub(crate) lookups: Box<Lookups>,
}

impl Learning {
    /// Other servers: nothing was asked of them.
    pub(crate) fn begin_again(&mut self) {
        let lookups = core::mem::take(&mut self.lookups);
        *self = Self { lookups, ..Self::default() };
    }

    /// Somebody else asked, and told.
    pub(crate) fn is_told(&mut self, told: bool) {
        self.asked |= told;
    }
}

impl Engine {
    /// This connection is ready to be asked.
    pub(crate) fn learn_from(&mut self, now: Time, id: UpstreamId) {
        if !self.learning.asked && self.learning.after <= now {
            self.learning.asked = true;
            self.say_own(now, id, OwnCommand::Learn, &[b"COMMAND"]);
        }
    }

    /// The reply came.
    pub(crate) fn learning_answered(&mut self, now: Time, reply: &[u8]) {
        self.learning.lost = 0;
        self.learning.again_at = Some(now.plus_ms(LEARN_EVERY_MS));
        if let Ok(Some((commands, _))) = value::parse(reply) {
            // A failure to learn must not make us forget.
            let before = self.learned.take();
            let mut learned = Learned::from_reply(&commands);
            if let (Some(learned), Some(before)) = (&mut learned, &before) {
                learned.keep_waits(before);
            }
            self.learned = learned.or(before);
        }
    }

    /// The servers may have commands by now that they had not then.
    pub(crate) fn learn_again(&mut self, now: Time) {
        if self.learning.again_at.take_if(|at| *at <= now).is_some() {
            self.learning.asked = false;
        }
    }

    /// The connection broke that owed the reply.
    pub(crate) fn learning_lost(&mut self, now: Time) {
        let learning = &mut self.learning;
        learning.asked = false;
        learning.lost = learning.lost.saturating_add(1);
        learning.after = if learning.lost > 1 { now.plus_ms(LEARN_AGAIN_MS) } else { now };
    }

    /// When a connection that is ready is to be asked; `None`: it was asked, or there is none, and the next one is asked.
    pub(crate) fn learn_at(&self) -> Option<Time> {
        (!self.learning.asked).then(|| self.teacher().map(|_| self.learning.after)).flatten()
    }

    /// Asks when the pause is over.
    pub(crate) fn learn_due(&mut self, now: Time) {
        if self.learn_at().is_some_and(|at| at <= now)
            && let Some(id) = self.teacher()
        {
            self.learn_from(now, id);
        }
    }

    /// A connection that anything can be asked over.
    pub(crate) fn teacher(&self) -> Option<UpstreamId> {
        let teaches =
            |up: &Upstream| up.is_ready() && up.role == Role::Shared && up.key.lane == Lane::Shared;
        self.upstreams.iter().find(|(_, up)| teaches(up)).map(|(id, _)| id)
    }
}
