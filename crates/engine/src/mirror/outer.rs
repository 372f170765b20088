//! How an engine within this one reaches the network: its connections by other ids, its wishes as ours, its time in our list of deadlines.
//!
//! ```text
//!   index of a connection:   0 … FIRST_INDEX-1            ours
//!                            FIRST_INDEX | mirror | own   a mirror's; all ones in `own`: no connection, its deadline
//! ```
//! Numbers behind the last mirror's are those of read targets (`elsewhere`), which reach the network the same way.
//!
//! The ways in are those of the outer engine: each looks among our own connections first, and comes here if there is none.
//!
//! Not here: what mirrors are sent (`super`).
//!
//! Invariant: each deadline of a mirror stands in the list once, where `listed_at` says.

use super::report::MirrorReport;
use super::target::{Target, Wishes};
use super::{FIRST_INDEX, Mirrors, Mode, Ticket};
use crate::elsewhere::FIRST as FIRST_READ_TARGET;
use crate::engine::{Action, Engine};
use crate::ids::{ClientId, UpstreamId};
use crate::limits::MIRROR_INDEX_BITS as INDEX_BITS;
use crate::node::Address;
use crate::time::Time;
use alloc::vec::Vec;

/// The part of an index that is the mirror's own.
const OWN: u32 = (1 << INDEX_BITS) - 1;

/// The number of no mirror: the end of the first wait stands in the list by it.
const WAITS: u32 = (FIRST_INDEX >> INDEX_BITS) - 1;

/// That of another one: the first second look at a read stands in the list by it.
const LOOKS: u32 = WAITS - 1;

/// And of one more: what was under way when a mirror came is looked at by it (`change`). That between both is `elsewhere`'s.
const BEFORE: u32 = LOOKS - 2;

/// Whether this is a connection of a mirror.
#[inline]
pub(crate) fn is_mirrors(id: UpstreamId) -> bool {
    id.index >= FIRST_INDEX
}

/// By which ids the connections of an engine within this one are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// The mirror's, or the read target's.
    pub(crate) number: usize,
    /// What generations begin at: a late word about a connection of another one that had this number before finds nothing.
    shift: u32,
}

impl Numbers {
    /// Those of one that was there from the start.
    pub(crate) fn first(number: usize) -> Self {
        Self { number, shift: 0 }
    }

    /// Those of one that comes while clients are connected; `which` grows with each.
    pub(crate) fn new(number: usize, which: u64) -> Self {
        // Two of one number that follow each other lie far apart. Generations of what lives are odd.
        Self { number, shift: (which as u32).wrapping_mul(0x9e37_79b1) << 1 }
    }

    /// Our id for its connection.
    pub(crate) fn outer(self, id: UpstreamId) -> UpstreamId {
        debug_assert!(id.index < OWN, "more connections of a mirror than ids");
        let generation = id.generation.wrapping_add(self.shift);
        UpstreamId::new(FIRST_INDEX | (self.number as u32) << INDEX_BITS | id.index, generation)
    }

    /// Its own id for what has the rest of one of ours.
    pub(crate) fn inner(self, rest: UpstreamId) -> UpstreamId {
        UpstreamId::new(rest.index, rest.generation.wrapping_sub(self.shift))
    }
}

/// Which mirror's, and the rest of the id.
fn inner(id: UpstreamId) -> Option<(usize, UpstreamId)> {
    let rest = id.index.checked_sub(FIRST_INDEX)?;
    Some(((rest >> INDEX_BITS) as usize, UpstreamId::new(rest & OWN, id.generation)))
}

/// What stands in the list of deadlines for a mirror.
pub(crate) fn marker(mirror: u32) -> UpstreamId {
    UpstreamId::new(FIRST_INDEX | mirror << INDEX_BITS | OWN, 0)
}

/// What stands in the list of deadlines for second looks at reads.
pub(super) fn looks() -> UpstreamId {
    marker(LOOKS)
}

/// What stands there for whoever waits for mirrors.
pub(super) fn waits() -> UpstreamId {
    marker(WAITS)
}

/// What stands there for what was under way before.
pub(super) fn before() -> UpstreamId {
    marker(BEFORE)
}

impl Mirrors {
    fn of(&self, id: UpstreamId) -> Option<(&Target, UpstreamId)> {
        let (number, rest) = inner(id)?;
        let target = self.targets.iter().find(|target| target.numbers.number == number)?;
        Some((target, target.numbers.inner(rest)))
    }

    fn of_mut(&mut self, id: UpstreamId) -> Option<(&mut Target, UpstreamId)> {
        let at = self.numbered(inner(id)?.0)?;
        let target = self.targets.get_mut(at)?;
        let id = target.numbers.inner(inner(id)?.1);
        Some((target, id))
    }

    /// Where the mirror of a number stands.
    pub(super) fn numbered(&self, number: usize) -> Option<usize> {
        self.targets.iter().position(|target| target.numbers.number == number)
    }
}

impl Engine {
    /// Something happened to a connection of a mirror. By a pointer: were it seen that an engine calls one, nothing of the way of a request would be
    /// inlined as it is (3 % more instructions for a reply).
    #[cold]
    #[inline(never)]
    pub(crate) fn mirror_event(
        &mut self,
        now: Time,
        id: UpstreamId,
        event: &mut dyn FnMut(&mut Self, UpstreamId),
    ) {
        let Some((number, own)) = inner(id) else { return };
        if number >= FIRST_READ_TARGET {
            return self.read_target_event(now, (number, own), event);
        }
        let Some(mirrors) = &mut self.mirrors else { return };
        if let Some((target, id)) = mirrors.of_mut(id) {
            core::hint::black_box(event)(&mut target.engine, id);
        }
        if let Some(at) = mirrors.numbered(number) {
            self.run_mirror(now, at);
        }
    }

    /// What a mirror's engine knows of its connection.
    #[cold]
    pub(crate) fn at_mirror<'a, T>(
        &'a self,
        id: UpstreamId,
        ask: impl FnOnce(&'a Self, UpstreamId) -> Option<T>,
    ) -> Option<T> {
        if let Some((number, own)) = inner(id).filter(|(number, _)| *number >= FIRST_READ_TARGET) {
            let target = self.elsewhere.as_ref()?.target(number)?;
            return ask(&target.engine, target.numbers.inner(own));
        }
        let (target, id) = self.mirrors.as_ref()?.of(id)?;
        ask(&target.engine, id)
    }

    /// The next buffer for a connection of a mirror.
    #[cold]
    pub(crate) fn begin_mirror_send(&mut self, id: UpstreamId) -> Option<Vec<u8>> {
        if let Some((number, own)) = inner(id).filter(|(number, _)| *number >= FIRST_READ_TARGET) {
            let target = self.elsewhere.as_mut()?.target_mut(number)?;
            return target.engine.begin_upstream_send(target.numbers.inner(own));
        }
        let (target, id) = self.mirrors.as_mut()?.of_mut(id)?;
        target.engine.begin_upstream_send(id)
    }

    /// Where a connection of a mirror leads.
    #[cold]
    pub(crate) fn mirror_address(&self, id: UpstreamId) -> Option<&Address> {
        self.at_mirror(id, |engine, id| engine.upstream_address(id))
    }

    /// Does something with the mirrors, and what comes of it.
    pub(crate) fn tell_mirrors(&mut self, now: Time, tell: impl FnOnce(&mut Mirrors)) {
        if let Some(mirrors) = &mut self.mirrors {
            tell(mirrors);
            self.run_mirrors(now);
        }
    }

    /// All mirrors go on with what they can do.
    pub(crate) fn run_mirrors(&mut self, now: Time) {
        let count = |engine: &Self| engine.mirrors.as_ref().map_or(0, |one| one.targets.len());
        let mut at = 0;
        while at < count(self) {
            let before = count(self);
            self.run_mirror(now, at);
            // One that is over is gone when it was run.
            at += usize::from(count(self) == before);
        }
    }

    /// The one that stands there.
    pub(super) fn run_mirror(&mut self, now: Time, at: usize) {
        let Some(mirrors) = &mut self.mirrors else { return };
        let now = now.max(mirrors.now);
        mirrors.now = now;
        self.look_at_leavers(at);
        let Some(mirrors) = &mut self.mirrors else { return };
        let Some(target) = mirrors.targets.get_mut(at) else { return };
        let (numbers, wishes) = (target.numbers, target.run(now));
        let due = target.poll_timeout(now);
        let before = core::mem::replace(&mut target.listed_at, due);
        let is_over = target.is_over(now);
        self.list_again(marker(numbers.number as u32), before, due);
        self.grant(numbers, wishes);
        if is_over {
            self.end_mirror(now, numbers.number);
        }
    }

    pub(crate) fn list_again(&mut self, id: UpstreamId, before: Option<Time>, at: Option<Time>) {
        if before != at {
            self.forget_deadline(id, before);
            self.deadlines.extend(at.map(|at| (at, id)));
        }
    }

    /// What an engine within this one wants done for its connections.
    pub(crate) fn carry_out(
        &mut self,
        numbers: Numbers,
        actions: Vec<Action>,
        dirty: Vec<UpstreamId>,
    ) {
        for action in actions {
            self.actions.push_back(match action {
                Action::Connect(id) => Action::Connect(numbers.outer(id)),
                Action::CloseUpstream(id) => Action::CloseUpstream(numbers.outer(id)),
                Action::ReadUpstream(id, on) => Action::ReadUpstream(numbers.outer(id), on),
                other => other,
            });
        }
        for id in dirty {
            self.dirty_upstreams.push_of_mirror(numbers.outer(id));
        }
    }

    pub(super) fn grant(&mut self, numbers: Numbers, wishes: Wishes) {
        self.carry_out(numbers, wishes.actions, wishes.dirty);
        self.notices.extend(wishes.notices);
        if !wishes.again.is_empty() {
            let now = self.last_mirror_time();
            self.look_again(now, numbers.number, wishes.again);
        }
        let checks = self.mirrors.as_ref().is_some_and(|mirrors| {
            let target = mirrors.numbered(numbers.number).map(|at| &mirrors.targets[at]);
            target.is_some_and(|one| one.settings.mode == Mode::AllChecked)
        });
        for (ticket, error) in wishes.answered {
            self.mirror_answered(ticket, error.filter(|_| checks));
        }
    }

    /// One of those that a reply waits for has answered.
    fn mirror_answered(&mut self, ticket: Ticket, error: Option<Vec<u8>>) {
        let Some(mirrors) = &mut self.mirrors else { return };
        let Some((reply, error)) = mirrors.waits.answered(ticket, error) else { return };
        let bytes = error.as_ref().unwrap_or(&reply.bytes);
        self.deliver(reply.client, reply.seq, 1, reply.silent, bytes);
        self.list_waits();
    }

    /// When the first wait ends stands in the list.
    pub(super) fn list_waits(&mut self) {
        let Some(mirrors) = &mut self.mirrors else { return };
        let at = mirrors.waits.first_end();
        let before = core::mem::replace(&mut mirrors.waits.listed_at, at);
        self.list_again(marker(WAITS), before, at);
    }

    /// The deadline of a mirror has come, and stands in the list no more.
    #[cold]
    pub(crate) fn mirror_due(&mut self, now: Time, id: UpstreamId) {
        if let Some((number, _)) = inner(id)
            && (FIRST_READ_TARGET..LOOKS as usize).contains(&number)
            && id != before()
        {
            return self.read_target_due(now, number);
        }
        let Some(mirrors) = &mut self.mirrors else { return };
        if id == marker(WAITS) {
            mirrors.waits.listed_at = None;
            return self.end_waits(now);
        }
        if id == looks() {
            if let Some(shadow) = &mut mirrors.shadow {
                shadow.listed_at = None;
            }
            return self.looks_due(now);
        }
        if id == before() {
            return self.before_due(now);
        }
        let Some(at) = inner(id).and_then(|(number, _)| mirrors.numbered(number)) else { return };
        if let Some(target) = mirrors.targets.get_mut(at) {
            target.listed_at = None;
            core::hint::black_box(Self::handle_timeout)(&mut target.engine, now);
        }
        self.run_mirror(now, at);
    }

    /// Those go on that waited too long for a mirror. It gets the write all the same when it can.
    fn end_waits(&mut self, now: Time) {
        let patience_ms = self.patience_ms();
        let Some(mirrors) = &mut self.mirrors else { return };
        let checks = mirrors.targets.iter().any(|one| one.settings.mode == Mode::AllChecked);
        let late = crate::reject::mirror_late(patience_ms);
        while let Some(mirrors) = &mut self.mirrors
            && let Some(reply) = mirrors.waits.take_over(now)
        {
            let bytes = if checks { &late } else { &reply.bytes };
            self.deliver(reply.client, reply.seq, 1, reply.silent, bytes);
        }
        self.list_waits();
    }

    /// When something last happened to a mirror.
    pub(crate) fn last_mirror_time(&self) -> Time {
        let of_mirrors = self.mirrors.as_ref().map_or(Time::default(), |mirrors| mirrors.now);
        let of_targets = self.elsewhere.as_ref().map_or(Time::default(), |reads| reads.now());
        of_mirrors.max(of_targets)
    }

    /// A client is gone: nobody waits for what its transaction was answered.
    pub(crate) fn forget_waits(&mut self, id: ClientId) {
        if let Some(mirrors) = &mut self.mirrors {
            mirrors.waits.forget(id);
            self.list_waits();
        }
    }

    /// Whether the keys of these commands lie at one place, so that they can be a transaction.
    pub(crate) fn lie_together(&self, commands: &[Vec<&[u8]>]) -> bool {
        if self.is_one() {
            return true;
        }
        let keys = commands.iter().flat_map(|args| crate::scatter::keys_of(args, None));
        let mut places = keys.map(|(_, key)| self.router.place(key));
        let first = places.next();
        places.all(|place| Some(place) == first)
    }

    /// Whether all that clients wrote was told to all mirrors, those that go as well.
    pub fn mirrors_are_idle(&self) -> bool {
        self.mirrors.as_ref().is_none_or(|mirrors| {
            mirrors.targets.iter().all(Target::is_idle) && mirrors.late.is_empty()
        })
    }

    /// How the mirrors are.
    pub(crate) fn mirror_reports(&self, now: Time) -> Vec<MirrorReport> {
        let targets = self.mirrors.iter().flat_map(|mirrors| &mirrors.targets);
        targets.map(|target| target.report(now)).collect()
    }

    /// How many deadlines of mirrors stand in the list.
    pub(crate) fn mirror_deadlines(&self) -> usize {
        let of_targets = self.elsewhere.as_ref().map_or(0, |reads| reads.listed());
        of_targets
            + self.mirrors.as_ref().map_or(0, |mirrors| {
                let listed = mirrors.targets.iter().filter(|target| target.listed_at.is_some());
                let looks = mirrors.shadow.as_ref().and_then(|shadow| shadow.listed_at);
                let before = mirrors.before.as_ref().and_then(|before| before.listed_at);
                let waits = [mirrors.waits.listed_at, looks, before].into_iter().flatten();
                listed.count() + waits.count()
            })
    }

    /// Whether anything of a client waits here.
    pub(crate) fn mirrors_owe_clients(&self) -> bool {
        self.elsewhere.as_ref().is_some_and(|reads| reads.owes_clients())
            || self
                .mirrors
                .as_ref()
                .is_some_and(|mirrors| mirrors.waits.has_replies() || !mirrors.pending.is_empty())
    }

    /// Checks what must hold; for debug builds.
    pub(crate) fn check_mirrors(&self) {
        self.elsewhere.iter().for_each(|reads| reads.check());
        let Some(mirrors) = &self.mirrors else { return };
        mirrors.targets.iter().for_each(Target::check);
        mirrors.check_shadow();
        mirrors.waits.check();
        let leaving = |target: &&Target| !target.is_live();
        assert!(
            mirrors.targets.iter().skip_while(|one| one.is_live()).all(|one| leaving(&one)),
            "one that goes stands before one that stays"
        );
        for (merge, _) in mirrors.pending.keys() {
            assert!(self.merges.get(*merge).is_some(), "a write that nobody answers");
        }
        let kept: usize = mirrors.pending.values().map(|pending| pending.bytes).sum();
        let late: usize = mirrors.late.iter().map(|late| late.bytes).sum();
        assert_eq!(late, mirrors.late_bytes, "bytes of what came late");
        let leases = self.clients.iter().filter_map(|(_, client)| client.lease.as_ref());
        let queued: usize =
            leases.filter_map(|lease| lease.mirrored.as_ref()).map(|queued| queued.bytes).sum();
        assert_eq!(kept + queued, mirrors.pending_bytes, "bytes of writes under way");
        if mirrors.pending.is_empty() && queued == 0 {
            let gated = self.clients.iter().any(|(_, client)| {
                client.lease.as_ref().is_some_and(|lease| lease.mirrored.is_some())
            });
            assert!(gated || mirrors.gates.len() == 0, "a gate that nobody leaves");
        }
    }
}
