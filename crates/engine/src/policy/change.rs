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
//! Not here: which words (`namespace`, `values`), what a reply becomes (`outward`).
//!
//! Invariant: each entry of `merges` is that of a merge that is under way.

use super::namespace::Namespace;
use super::outward::{Names, Outward, Rename, Shape};
use super::values::Zstd;
use super::{Kind, Policies, Refusal};
use crate::command::CommandId;
use crate::command::spread::Gather;
use crate::engine::Engine;
use crate::ids::{ClientId, MergeId};
use crate::lease::State;
use crate::limits::CHANGED_TURN_BYTES;
use crate::merge::{How, Merge};
use crate::reject;
use crate::request::Step;
use crate::route::{self, Known};
use crate::scatter::row_of;
use crate::time::Time;
use crate::upstream::inflight::Owner;
use crate::waiting::Waiting;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use resp::encode;

/// The arguments of a request.
type Words<'a> = Vec<Cow<'a, [u8]>>;

/// What is kept of requests that were changed.
#[derive(Default)]
pub(super) struct Changing {
    /// The request that is looked at was judged already, by its client's words.
    is_judged: bool,
    /// What becomes of its reply.
    current: Option<Outward>,
    /// The same of requests under way.
    merges: BTreeMap<MergeId, Outward>,
    /// What values are compressed and opened with.
    zstd: Zstd,
    /// Bytes of replies that were changed in this turn.
    changed_bytes: usize,
    /// Replies that are whole, and are changed in one of the next turns.
    late: Waiting<MergeId>,
}

impl Changing {
    /// The reply that a client expects in place of this one, and how many bytes that cost. `left`: values may have so many bytes.
    #[inline]
    fn change(&mut self, outward: &Outward, reply: &[u8], left: usize) -> (Vec<u8>, usize) {
        let mut changed = Vec::with_capacity(reply.len());
        let cost_bytes = outward.write(reply, left, &mut self.zstd, &mut changed);
        (changed, cost_bytes)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.merges.len() * size_of::<(MergeId, Outward)>() + self.late.len() * size_of::<MergeId>()
    }
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
        let row = known.id.map(|row| row_of(row, args));
        let Some((changed, outward)) = self.in_other_words(row, args) else {
            if let Some(state) = &mut self.policy {
                state.end_judged(id);
            }
            let mut reply = Vec::new();
            reject::write(&mut reply, reject::NOT_ENCRYPTING);
            let refusal = Refusal { kind: Kind::Values, name: String::new(), reply };
            return self.refuse_ruled(now, id, known.id, refusal);
        };
        if let Some(state) = &mut self.policy {
            state.changing.is_judged = true;
            state.changing.current = outward;
        }
        let step = match changed {
            None => self.dispatch_as_is(now, id, frame, args),
            Some(changed) => {
                let args: Vec<&[u8]> = changed.iter().map(|arg| &**arg).collect();
                let mut frame = Vec::new();
                encode::request(&mut frame, &args);
                self.dispatch_as_is(now, id, &frame, &args)
            }
        };
        if let Some(state) = &mut self.policy {
            state.changing.is_judged = false;
            state.changing.current = None;
        }
        step
    }

    /// A request in the servers' words, if they are others, and what becomes of its reply. `None`: a value of it cannot be encrypted.
    fn in_other_words<'a>(
        &mut self,
        row: Option<CommandId>,
        args: &[&'a [u8]],
    ) -> Option<(Option<Words<'a>>, Option<Outward>)> {
        let Some(policies) = &self.settings.policies else { return Some((None, None)) };
        let (mut changed, mut outward) = (None, None);
        if let Some(namespace) = &policies.rules().namespace
            && let Some(inward) = namespace.inward(row, args, self.learned.as_ref())
        {
            let (rename, shape) = (Rename::Without(namespace.prefix().into()), inward.shape);
            outward = (shape != Shape::None).then_some(Outward::Names(Names { rename, shape }));
            changed = Some(inward.args);
        }
        if let Some(values) = &policies.rules().values {
            let is_other = changed.is_some();
            let mut words =
                changed.unwrap_or_else(|| args.iter().map(|arg| Cow::Borrowed(*arg)).collect());
            let entropy = self.acl.entropy.as_mut();
            let zstd = &mut self.policy.as_mut()?.changing.zstd;
            let (is_changed, opened) = values.inward(row, args, &mut words, entropy, zstd)?;
            changed = (is_other || is_changed).then_some(words);
            let room = self.settings.limits.client_out_max_bytes;
            outward = opened.map(|opened| Outward::Values(opened, room)).or(outward);
        }
        Some((changed, outward))
    }

    /// Whether requests may go on in other words than their clients'.
    pub(crate) fn changes_requests(&self) -> bool {
        let changes =
            |one: &Policies| one.rules().namespace.is_some() || one.rules().values.is_some();
        self.settings.policies.as_ref().is_some_and(|one| changes(one))
    }

    /// Whether the request that is looked at was judged before it was changed. It is asked once.
    pub(crate) fn was_judged(&mut self) -> bool {
        self.policy.as_mut().is_some_and(|state| core::mem::take(&mut state.changing.is_judged))
    }

    /// Whether the reply to the request that is looked at just now must be changed.
    pub(crate) fn changes_reply(&self) -> bool {
        self.policy.as_ref().is_some_and(|state| state.changing.current.is_some())
    }

    /// The same in front of one server, where nothing else collects it.
    pub(crate) fn collects_alone(&self, known: &Known) -> bool {
        self.is_one() && self.changes_reply() && !known.counts_listeners()
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

    /// Returns the client's form of a whole reply; `None` if respool sends the reply unchanged.
    pub(crate) fn change_merged(
        &mut self,
        merge: MergeId,
        client: ClientId,
        reply: &[u8],
    ) -> Option<Vec<u8>> {
        let changing = &mut self.policy.as_mut()?.changing;
        let outward = changing.merges.remove(&merge)?;
        self.clients.get(client)?;
        let (changed, cost_bytes) = changing.change(&outward, reply, usize::MAX);
        changing.changed_bytes += cost_bytes;
        Some(changed)
    }

    /// Whether this reply, which is whole, is changed in one of the next turns: a value of some KB at the server may be one of MB here, and those of many
    /// clients come at once. Replies behind it go on.
    pub(crate) fn opens_later(&mut self, merge: MergeId) -> bool {
        let waits = self.changes_later(merge);
        if waits {
            let group = self.group_of(self.merges.get(merge).map(|merge| merge.client));
            if let Some(state) = &mut self.policy {
                state.changing.late.push(group, merge);
            }
        }
        waits
    }

    /// Whether it must wait for that.
    pub(crate) fn changes_later(&self, merge: MergeId) -> bool {
        self.has_changed_enough()
            && self.policy.as_ref().is_some_and(|one| one.changing.merges.contains_key(&merge))
    }

    /// Whether replies wait for that.
    pub(crate) fn has_late_replies(&self) -> bool {
        self.policy.as_ref().is_some_and(|state| !state.changing.late.is_empty())
    }

    /// A turn begins for replies that are changed: first those that wait.
    pub(crate) fn run_late_replies(&mut self, now: Time) {
        let Some(state) = &mut self.policy else { return };
        state.changing.changed_bytes = 0;
        for _ in 0..state.changing.late.len() {
            if self.has_changed_enough() {
                return;
            }
            let Some(state) = &mut self.policy else { return };
            let Some(merge) = state.changing.late.pop() else { return };
            self.finish_merge(now, merge);
        }
    }

    /// An element of the reply to EXEC becomes what the client expects; of the room for values so much is left.
    pub(crate) fn change_element(&mut self, outward: &Outward, reply: &mut Vec<u8>, left: usize) {
        if let Some(state) = &mut self.policy {
            let cost_bytes;
            (*reply, cost_bytes) = state.changing.change(outward, reply, left);
            state.changing.changed_bytes += cost_bytes;
        }
    }

    /// Whether replies that are changed wait for the next turn.
    #[inline]
    pub(crate) fn has_changed_enough(&self) -> bool {
        self.policy.as_ref().is_some_and(|one| one.changing.changed_bytes >= CHANGED_TURN_BYTES)
    }

    /// Replies have the room of a whole turn again.
    pub(crate) fn begin_changing(&mut self) {
        if let Some(state) = &mut self.policy {
            state.changing.changed_bytes = 0;
        }
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
        let (protocol, room) = (client.protocol, self.spare.room());
        let how = How::All(Gather::AllOk);
        let merge = self.insert_merge(Merge::new(id, seq, silent, protocol, how, 1, room));
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
        let Some(row) = row else { return self.changes_requests() };
        let values = self.settings.policies.as_ref().and_then(|one| one.rules().values.as_ref());
        let key_is_here = row.row().only_key_at().is_some_and(|at| at < head.len());
        let by_name = self.namespace().is_some_and(|one| one.concerns(row)) && !key_is_here;
        by_name || values.is_some_and(|values| values.must_be_whole(row, head))
    }

    /// Another namespace: nobody is to go on in the middle of something with other names than those that he began with.
    pub(super) fn leave_namespace(&mut self) {
        for id in self.clients.ids() {
            if self.clients.get(id).is_some_and(|client| client.closing) {
                continue;
            }
            self.tell_closed(id, "the namespace of its keys is another one now");
            // Confirmations that come from now on would show the servers' names.
            match self.clients.get(id).is_some_and(|client| client.listening.is_some()) {
                true => self.close_client(id, None),
                false => self.send_away(id),
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
