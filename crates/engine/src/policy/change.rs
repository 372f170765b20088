//! Requests that go on in other words than their client's, and what becomes of their replies.
//!
//! ```text
//!   dispatch ─▶ users' rules, policies, pause: by the client's own words ─▶ other words ─▶ routes, leases, transactions, tracking …
//!                                                                               │
//!                  reply ─▶ merge of one part, or element of EXEC ─▶ Outward ◀──┘  if names stand in it
//! ```
//! From here on the engine knows the servers' names only, so that slots, redirects, watched and cached keys need to know of nothing. Where the
//! engine itself tells a client names (confirmations, messages, invalidations) it asks [`Engine::outward_name`]. A request whose reply tells no names
//! is forwarded as any other, and its reply streams.
//!
//! Not here: which words (`namespace`), what a reply becomes (`outward`).
//!
//! Invariant: each entry of `merges` is that of a merge that is under way.

use super::namespace::Namespace;
use super::outward::{Outward, Shape};
use crate::command::CommandId;
use crate::command::spread::Gather;
use crate::engine::Engine;
use crate::ids::{ClientId, MergeId};
use crate::lease::State;
use crate::merge::{How, Merge};
use crate::request::Step;
use crate::route::{self, Known};
use crate::scatter::row_of;
use crate::time::Time;
use crate::upstream::inflight::Owner;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use resp::encode;

/// What is kept of requests that were changed.
#[derive(Default)]
pub(super) struct Changing {
    /// The request that is looked at was judged already, by its client's words.
    is_judged: bool,
    /// What becomes of its reply.
    current: Option<Outward>,
    /// The same of requests under way.
    merges: BTreeMap<MergeId, Outward>,
}

impl Engine {
    /// The namespace of the clients, if they live in one.
    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        self.settings.policies.as_ref()?.rules().namespace.as_ref()
    }

    /// A name of the servers, as clients know it.
    pub(crate) fn outward_name<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        self.namespace().map_or(name, |namespace| namespace.outward(name))
    }

    /// What stands before all names of clients at the servers.
    pub(crate) fn name_prefix(&self) -> &[u8] {
        self.namespace().map_or(&[], Namespace::prefix)
    }

    /// A request of a client whose words are not those of the servers.
    pub(crate) fn dispatch_changed(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
    ) -> Step {
        let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
        if let Some(step) = self.not_now(now, id, &known, (frame, args)) {
            return step;
        }
        let policies = self.settings.policies.clone();
        let namespace = policies.as_ref().and_then(|policies| policies.rules().namespace.as_ref());
        let row = known.id.map(|row| row_of(row, args));
        let changed = namespace.and_then(|namespace| {
            Some((namespace, namespace.inward(row, args, self.learned.as_ref())?))
        });
        self.set_judged(true);
        let step = match changed {
            None => self.dispatch_as_is(now, id, frame, args),
            Some((namespace, changed)) => {
                if changed.shape != Shape::None
                    && let Some(state) = &mut self.policy
                {
                    let prefix = namespace.prefix().into();
                    state.changing.current = Some(Outward { prefix, shape: changed.shape });
                }
                let args: Vec<&[u8]> = changed.args.iter().map(|arg| &**arg).collect();
                let mut frame = Vec::new();
                encode::request(&mut frame, &args);
                self.dispatch_as_is(now, id, &frame, &args)
            }
        };
        self.set_judged(false);
        if let Some(state) = &mut self.policy {
            state.changing.current = None;
        }
        step
    }

    fn set_judged(&mut self, is_judged: bool) {
        if let Some(state) = &mut self.policy {
            state.changing.is_judged = is_judged;
        }
    }

    /// Whether the request that is looked at was judged before it was changed. It is asked once.
    pub(crate) fn was_judged(&mut self) -> bool {
        self.policy
            .as_mut()
            .is_some_and(|state| core::mem::take(&mut state.changing.is_judged))
    }

    /// Whether the reply to the request that is looked at just now must be changed.
    pub(crate) fn changes_reply(&self) -> bool {
        self.policy.as_ref().is_some_and(|state| state.changing.current.is_some())
    }

    /// What is to become of that reply.
    pub(crate) fn take_outward(&mut self) -> Option<Outward> {
        self.policy.as_mut()?.changing.current.take()
    }

    /// The request that is looked at is this one now.
    pub(crate) fn note_changed(&mut self, merge: MergeId) {
        if let Some(state) = &mut self.policy
            && let Some(outward) = state.changing.current.take()
        {
            state.changing.merges.insert(merge, outward);
        }
    }

    /// A reply is whole: it becomes what the client expects.
    pub(crate) fn change_merged(&mut self, merge: MergeId, reply: &mut Vec<u8>) {
        let Some(state) = &mut self.policy else { return };
        let Some(outward) = state.changing.merges.remove(&merge) else { return };
        let mut changed = Vec::with_capacity(reply.len());
        outward.write(reply, &mut changed);
        *reply = changed;
    }

    /// Who gets the reply to a request over a connection of the client's own.
    pub(crate) fn owner_for_changed(&mut self, id: ClientId, seq: u32, silent: bool) -> Owner {
        let plain = Owner::Client { id, seq, silent };
        let Some(client) = self.clients.get(id) else { return plain };
        let state = client.lease.as_ref().map(|lease| &lease.state);
        if matches!(state, Some(State::Queueing(_) | State::Ending)) {
            // Its reply is QUEUED.
            return plain;
        }
        let (protocol, room) = (client.protocol, self.spare.room(self.pool.take()));
        let how = How::All(Gather::AllOk);
        let merge = self.merges.insert(Merge::new(id, seq, silent, protocol, how, 1, room));
        self.note_changed(merge);
        Owner::Part { merge, part: 0 }
    }

    /// The first arguments of a large request that is streamed, in the servers' words, and the bytes that stand for them. `None`: as they are.
    pub(crate) fn change_large(
        &self,
        known: &Known,
        head: &[&[u8]],
        begin: &[u8],
    ) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
        let namespace = self.namespace()?;
        let at = known.id?.row().only_key_at()?;
        let key = *head.get(at)?;
        let changed = namespace.prefixed(key).into_owned();
        // Where the key stands, by its address: it is a part of these bytes.
        let start = (key.as_ptr() as usize).checked_sub(begin.as_ptr() as usize)?;
        let line = begin.get(..start)?.iter().rposition(|byte| *byte == b'$')?;
        let mut bytes = begin[..line].to_vec();
        encode::bulk(&mut bytes, &changed);
        bytes.extend_from_slice(begin.get(start + key.len() + 2..)?);
        let mut words: Vec<Vec<u8>> = head.iter().map(|word| word.to_vec()).collect();
        words[at] = changed;
        Some((words, bytes))
    }

    /// Whether a large request of this kind must be whole before it can be changed.
    pub(crate) fn is_changed_whole(&self, row: Option<CommandId>, head: &[&[u8]]) -> bool {
        let Some(namespace) = self.namespace() else { return false };
        let Some(row) = row else { return true };
        namespace.concerns(row) && row.row().only_key_at().is_none_or(|at| at >= head.len())
    }

    /// Another namespace: nobody is to go on in the middle of something with other names than those that he began with.
    pub(super) fn leave_namespace(&mut self) {
        for id in self.clients.ids() {
            if self.clients.get(id).is_some_and(|client| client.closing) {
                continue;
            }
            self.tell_closed(id, "the namespace of its keys is another one now");
            match self.is_blocked(id) {
                true => self.close_client(id, None),
                false => self.begin_close(id),
            }
        }
    }

    /// See the module.
    pub(super) fn check_changed(&self) {
        let Some(state) = &self.policy else { return };
        for merge in state.changing.merges.keys() {
            assert!(self.merges.get(*merge).is_some(), "a reply that nobody waits for is changed");
        }
        assert!(state.changing.current.is_none() && !state.changing.is_judged);
    }
}
