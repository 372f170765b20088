//! Other mirrors while clients are connected: one comes, another gets other options, a third goes, and no client is closed for it.
//!
//! ```text
//!   same name, same servers    keeps its queue and its connections, and takes what else is new
//!   new                        is told of the writes that begin from now on, when what was under way before is answered, and behind mirrors that go
//!                              (`successor`)
//!   not named any more         gets what is in its queue, for `timeouts.drain_ms` at most; then it is counted and told what it did not get
//! ```
//! What is under way when a mirror comes is not told to it, and may have gone any way: a plain write over one connection, where the next one of its key
//! goes over another. So writes wait for it (`Before`), with a bound: there may be a reply that comes late.
//!
//! Not here: which changes may be (`config`, `server/src/control`), the settings of clients (`permit`).
//!
//! Invariant: mirrors that go stand behind those of the settings, which stand in their order; each number is that of one mirror.

use super::outer::before;
use super::shadow::Shadow;
use super::target::Target;
use super::{Mirrors, Numbers, Queued, inner_settings, target_of};
use crate::engine::{Action, Engine};
use crate::ids::{ClientId, UpstreamId};
use crate::lease::State;
use crate::limits::{MIRROR_BEFORE_LOOK_MS, MIRROR_BEFORE_MAX_MS, MIRRORS_MAX};
use crate::replace::same_servers;
use crate::settings::{MirrorSettings, Settings};
use crate::time::Time;
use crate::upstream::Role;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What was under way when a mirror came: writes for mirrors wait until all of it is answered.
#[derive(Debug)]
pub(super) struct Before {
    /// Who waits for replies, up to this place.
    clients: Vec<(ClientId, u32)>,
    /// Whose connections owe replies, up to this place.
    upstreams: Vec<(UpstreamId, u64)>,
    /// Nobody waits any longer.
    until: Time,
    /// When it is looked at again, as it stands in the list of deadlines.
    pub(super) listed_at: Option<Time>,
}

impl Engine {
    /// The settings name these mirrors from now on.
    pub(crate) fn change_mirrors(&mut self, now: Time, old: &Settings) {
        if self.settings.mirrors.is_empty() && self.mirrors.is_none() {
            return;
        }
        let (now, seed) = (now.max(self.last_mirror_time()), self.random);
        let is_first = self.mirrors.is_none();
        if is_first {
            self.mirrors = Some(Box::new(Mirrors::without_targets(now)));
        }
        let epoch = self.next_ticket;
        // Where the upstream is another one, it may be that of a mirror that goes, which must not get anything old.
        let drain_ms = match same_servers(&self.settings, old) {
            true => self.settings.timeouts.drain_ms,
            false => 0,
        };
        let until = now.plus_ms(drain_ms);
        let Self { mirrors: Some(mirrors), settings, .. } = self else { return };
        mirrors.now = now;
        let before = core::mem::take(&mut mirrors.targets);
        let (came, ended) = mirrors.replace(before, settings, epoch, (now, until), seed);
        mirrors.take_options(settings);
        let came = came || settings.mirrors != old.mirrors && mirrors.wants_other(old, settings);
        for (numbers, wishes, conns, listed_at) in ended {
            self.forget_mirror(numbers, conns, listed_at);
            self.grant(numbers, wishes);
        }
        if came {
            self.next_ticket += 1;
            self.note_before(now, is_first);
            if let Some(mirrors) = &mut self.mirrors {
                mirrors.epoch = epoch;
            }
        }
        self.change_shadow(now);
        self.run_mirrors(now);
        self.drop_mirrors_if_over();
    }

    /// Reads are compared now, or no more.
    fn change_shadow(&mut self, now: Time) {
        let Self { mirrors: Some(mirrors), settings, clients, .. } = self else { return };
        let new = Shadow::new(settings, now);
        match (&mut mirrors.shadow, new) {
            (Some(_), Some(_)) => {}
            (None, Some(mut shadow)) => {
                // Writes that are under way end there, too.
                let late = mirrors.late.iter().map(|late| &late.pending);
                mirrors.pending.values().chain(late).for_each(|one| shadow.begin_write(&one.keys));
                let leases = clients.iter().filter_map(|(_, client)| client.lease.as_ref());
                let queued = leases.filter_map(|lease| lease.mirrored.as_ref());
                queued.filter(|one| one.is_gated).for_each(|one| shadow.begin_write(&one.keys));
                mirrors.shadow = Some(shadow);
            }
            (_, None) => {
                let shadow = mirrors.shadow.take();
                let listed_at = shadow.and_then(|shadow| shadow.listed_at);
                self.list_again(super::outer::looks(), listed_at, None);
            }
        }
    }

    /// A mirror came: what is under way now is waited for, and transactions that have begun are not told to it.
    fn note_before(&mut self, now: Time, is_first: bool) {
        let Self { mirrors: Some(mirrors), clients, upstreams, .. } = self else { return };
        // A transaction may have begun when there was none.
        let epoch = if is_first { 0 } else { mirrors.epoch };
        let mut places = Vec::new();
        for (id, client) in clients.iter_mut() {
            let blocks = client.lease.as_ref().is_some_and(|one| matches!(one.state, State::Once));
            if blocks && is_first {
                // What it takes when it is served nobody tells.
                mirrors.targets.iter_mut().for_each(Target::note_blocked);
            } else if client.places.open() > 0 && !blocks {
                places.push((id, client.places.next()));
            }
            if let Some(lease) = &mut client.lease
                && matches!(lease.state, State::Queueing(_))
            {
                let queued = || Box::new(Queued { epoch, ..Queued::default() });
                lease.mirrored.get_or_insert_with(queued);
            }
        }
        let blocks = |role: Role| match role {
            Role::Leased(id) => clients.get(id).is_some_and(|client| {
                client.lease.as_ref().is_some_and(|one| matches!(one.state, State::Once))
            }),
            _ => false,
        };
        let owing =
            upstreams.iter().filter(|(_, one)| !one.inflight.is_empty() && !blocks(one.role));
        let owing = owing.map(|(id, upstream)| (id, upstream.inflight.end())).collect();
        let listed_at = mirrors.before.take().and_then(|before| before.listed_at);
        mirrors.before = Some(Before {
            clients: places,
            upstreams: owing,
            until: now.plus_ms(MIRROR_BEFORE_MAX_MS),
            listed_at,
        });
        self.before_due(now);
    }

    /// Whether a write that mirrors are told of must wait for what was under way when one came; then it is woken.
    pub(super) fn waits_for_before(&mut self, id: ClientId) -> bool {
        let is_there = |mirrors: &Mirrors| mirrors.before.is_some();
        if !self.mirrors.as_deref().is_some_and(is_there) || !self.is_before_open() {
            return false;
        }
        if let Some(mirrors) = &mut self.mirrors {
            mirrors.gates.wait(id);
        }
        true
    }

    /// Whether anything of it is not answered. What is done with is forgotten, from the end on, so that nothing is looked at again and again.
    fn is_before_open(&mut self) -> bool {
        let Self { mirrors: Some(mirrors), clients, upstreams, .. } = self else { return false };
        let Some(before) = &mut mirrors.before else { return false };
        while let Some((id, end)) = before.clients.last() {
            let head = clients.get(*id).map(|client| client.places.head());
            // Places are counted modulo 2^32.
            if head.is_some_and(|head| end.wrapping_sub(head) as i32 > 0) {
                return true;
            }
            before.clients.pop();
        }
        while let Some((id, end)) = before.upstreams.last() {
            if upstreams.get(*id).is_some_and(|upstream| upstream.inflight.place() < *end) {
                return true;
            }
            before.upstreams.pop();
        }
        false
    }

    /// It is time to look whether it is answered.
    pub(super) fn before_due(&mut self, now: Time) {
        let is_open = self.is_before_open();
        let Some(mirrors) = &mut self.mirrors else { return };
        let Some(state) = &mut mirrors.before else { return };
        let at = (is_open && state.until > now).then(|| now.plus_ms(MIRROR_BEFORE_LOOK_MS));
        let listed_at = core::mem::replace(&mut state.listed_at, at);
        if at.is_none() {
            mirrors.before = None;
            self.wake_gate_waiters();
        }
        // It may stand there no more, as it is due just now.
        self.list_again(before(), listed_at, at);
    }

    /// A mirror that goes has what it was to get, or has had its time.
    pub(super) fn end_mirror(&mut self, now: Time, number: usize) {
        let Some(mirrors) = &mut self.mirrors else { return };
        let Some(at) = mirrors.numbered(number) else { return };
        let mut target = mirrors.targets.remove(at);
        let (wishes, conns) = target.end(now);
        self.forget_mirror(target.numbers, conns, target.listed_at);
        self.grant(target.numbers, wishes);
        self.drop_mirrors_if_over();
        self.run_successors(now);
    }

    /// Nothing of a mirror is left but its connections, which are closed.
    fn forget_mirror(&mut self, numbers: Numbers, conns: Vec<UpstreamId>, listed_at: Option<Time>) {
        self.list_again(super::marker(numbers.number as u32), listed_at, None);
        let closes = conns.into_iter().map(Action::CloseUpstream).collect();
        self.carry_out(numbers, closes, Vec::new());
    }

    /// All mirrors that go have no more time: the servers of the configuration are about to be others, which may be theirs.
    pub(crate) fn end_leaving_mirrors(&mut self, now: Time) {
        let goes = |target: &&Target| !target.is_live();
        let numbers: Vec<usize> = self
            .mirrors
            .iter()
            .flat_map(|mirrors| &mirrors.targets)
            .filter(goes)
            .map(|target| target.numbers.number)
            .collect();
        numbers.into_iter().for_each(|number| self.end_mirror(now, number));
    }

    /// The process ends: what mirrors have not got is counted and told.
    pub fn end_mirrors(&mut self, now: Time) {
        for target in self.mirrors.iter_mut().flat_map(|mirrors| &mut mirrors.targets) {
            if !target.is_idle() && target.is_live() {
                target.leave(now, now);
            }
        }
        self.end_leaving_mirrors(now);
    }

    /// The last mirror is gone: nothing of them is on the way of a request any more.
    fn drop_mirrors_if_over(&mut self) {
        if !self.mirrors.as_ref().is_some_and(|mirrors| mirrors.targets.is_empty()) {
            return;
        }
        self.wake_gate_waiters();
        let Some(mirrors) = self.mirrors.take() else { return };
        debug_assert!(
            !mirrors.waits.has_replies(),
            "a client waits for mirrors that there are not"
        );
        self.list_again(super::outer::waits(), mirrors.waits.listed_at, None);
        self.list_again(before(), mirrors.before.and_then(|before| before.listed_at), None);
        let looks = mirrors.shadow.and_then(|shadow| shadow.listed_at);
        self.list_again(super::outer::looks(), looks, None);
        for (_, client) in self.clients.iter_mut() {
            let lease = client.lease.as_mut();
            if let Some(queued) = lease.and_then(|lease| lease.mirrored.as_mut()) {
                // The answer to its EXEC may be on its way as one that is looked at: it stays, and says nothing to mirrors that come later.
                (queued.bytes, queued.is_gated, queued.epoch) = (0, false, 0);
            }
        }
    }
}

/// What is left of a mirror that had to end at once.
type Ended = (Numbers, super::target::Wishes, Vec<UpstreamId>, Option<Time>);

impl Mirrors {
    /// Takes over of these what stays. Whether some are new, and those that had to end at once, for their numbers.
    fn replace(
        &mut self,
        mut before: Vec<Target>,
        settings: &Settings,
        epoch: u64,
        (now, until): (Time, Time),
        seed: u64,
    ) -> (bool, Vec<Ended>) {
        let mut wanted: Vec<(&MirrorSettings, Option<Target>)> = Vec::new();
        for mirror in &settings.mirrors {
            let is_it = |target: &Target| {
                let inner = inner_settings(settings, mirror);
                target.is_live()
                    && target.settings.name == mirror.name
                    && target.settings.outer_db == mirror.outer_db
                    && same_servers(target.engine.settings(), &inner)
            };
            let known = before.iter().position(is_it).map(|at| before.remove(at));
            wanted.push((mirror, known));
        }
        for target in before.iter_mut().filter(|target| target.is_live()) {
            target.leave(now, until);
            self.shadow.iter_mut().for_each(|shadow| shadow.forget(target.numbers.number));
        }
        let mut ended = Vec::new();
        let news = wanted.iter().filter(|(_, known)| known.is_none()).count();
        let stay = wanted.len() - news;
        while before.len() + stay + news > MIRRORS_MAX {
            let first = (0..before.len()).min_by_key(|at| before[*at].leaves_at);
            let mut target = before.remove(first.unwrap_or_default());
            let (wishes, conns) = target.end(now);
            ended.push((target.numbers, wishes, conns, target.listed_at));
        }
        let mut taken: Vec<usize> = before.iter().map(|one| one.numbers.number).collect();
        taken.extend(wanted.iter().filter_map(|(_, known)| Some(known.as_ref()?.numbers.number)));
        for (which, (mirror, known)) in wanted.into_iter().enumerate() {
            self.targets.push(match known {
                Some(mut target) => {
                    target.change(mirror.clone(), inner_settings(settings, mirror), now);
                    target
                }
                None => {
                    let number = (0..MIRRORS_MAX).find(|number| !taken.contains(number));
                    let number = number.unwrap_or_default();
                    taken.push(number);
                    let which = epoch * MIRRORS_MAX as u64 + which as u64;
                    let numbers = Numbers::new(number, which);
                    let mut target = target_of(settings, mirror, numbers, seed ^ which, now);
                    target.since = epoch;
                    target
                }
            });
        }
        self.targets.append(&mut before);
        (news > 0, ended)
    }

    /// Whether one that stays is to get more than before: then what is under way may be what it gets from now on.
    fn wants_other(&self, old: &Settings, new: &Settings) -> bool {
        let of = |settings: &Settings| -> Vec<_> {
            let mirrors = settings.mirrors.iter();
            mirrors.map(|one| (one.keys.clone(), one.percent, one.flush)).collect()
        };
        of(old) != of(new)
    }
}
