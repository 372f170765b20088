//! The engines of a worker: one for each tenant, the default one first, and one for each login of clients at the servers (`logins`).
//!
//! To the rest of the worker a house looks like one engine. Its ids are the engines' own with the tenant's place in the upper bits of the index, so those
//! of the default tenant are as they were, and a token of the driver leads to its engine without a table.
//!
//! ```text
//!   index of an id:   ┌ place, 8 bits ┬ index in that engine, 21 bits ┐         place 0: the default tenant
//! ```
//! A client that goes over to another tenant gets another id (`House::transfer`); its connection is renamed with it. Places of tenants that are gone are
//! used again, their numbers ([`TenantId`]) never: what other threads name a tenant by is its number.
//!
//! Not here: which clients belong where (`engine::tenancy`), connections (`conn`, `moves`).
//!
//! Invariant: a place is free only when none of its clients and upstreams has a connection.

mod logins;
mod memory;

use super::conn::INDEX_BITS;
use super::entrance::Seats;
use engine::fleet::{Answer, ProcessFacts};
use engine::ids::Id;
use engine::node::Address;
use engine::observed::Observed;
use engine::stats::{Refused, Stats};
use engine::tenancy::{Tenancy, TenantId};
use engine::{Action, ClientId, Engine, Notice, Settings, Time, UpstreamId};
use std::sync::Arc;

/// Bits of an index that are the engine's own.
pub(super) const OWN_BITS: u32 = engine::limits::CONN_INDEX_BITS;
const OWN: u32 = (1 << OWN_BITS) - 1;

/// Places, that of the default tenant included: twice as many as there can be tenants, for those that are about to go, and the others for logins.
const PLACES: usize = 1 << (INDEX_BITS - OWN_BITS);
const PLACES_OF_TENANTS: usize = 2 * config::TENANTS_MAX;
const _: () = assert!(PLACES >= PLACES_OF_TENANTS + logins::LOGINS_MAX);

/// A tenant, as a worker is told of it.
#[derive(Clone, Debug)]
pub struct TenantSettings {
    /// For its engine; with a tenancy.
    pub settings: Settings,
    /// Clients of it at all workers.
    pub seats: Seats,
}

/// One of the tenants beside the default one.
struct Tenant {
    id: TenantId,
    seats: Seats,
    /// Until when its clients get what they are owed; it is to go.
    leaves_at: Option<Time>,
    /// What it is that of; `None`: of a tenant of the configuration.
    login: Option<logins::Held>,
    engine: Engine,
}

/// See the module.
pub struct House {
    first: Engine,
    others: Vec<Option<Box<Tenant>>>,
    /// Tenants for which there is no place yet.
    waiting: Vec<TenantSettings>,
    seed: u64,
    /// What passwords are made of.
    entropy: Option<[u8; 32]>,
    /// Engines that were made of it beside the first one.
    made: u64,
    /// Where the search for output goes on.
    at: usize,
    /// Counters that those had who are gone, in what the worker itself goes by.
    past: Load,
}

/// What a worker's batches are decided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests so far.
    pub requests: u64,
    /// What they have waited for servers, all together.
    pub waited_us: u64,
}

impl Load {
    /// Of one engine.
    pub fn of(stats: &Stats) -> Self {
        Self { requests: stats.requests, waited_us: stats.waited_us() }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            waited_us: self.waited_us + other.waited_us,
        }
    }
}

/// At which place the tenant is that has it.
#[inline]
pub(super) fn place<T>(id: Id<T>) -> usize {
    (id.index >> OWN_BITS) as usize
}

/// As its engine knows it.
#[inline]
pub(super) fn inner<T>(id: Id<T>) -> Id<T> {
    Id::new(id.index & OWN, id.generation)
}

/// As the rest of the worker knows what the engine at a place calls so.
#[inline]
fn outer<T>(place: usize, id: Id<T>) -> Id<T> {
    debug_assert!(id.index <= OWN, "more than 2^21 connections of a tenant");
    Id::new((place as u32) << OWN_BITS | id.index, id.generation)
}

/// Where a tenant's name is, for logs; `None`: there are no tenants.
pub(super) fn name_of(tenancy: Option<&Tenancy>) -> Option<Arc<str>> {
    tenancy.map(|tenancy| tenancy.name.clone())
}

impl House {
    /// A house with the default tenant, and these.
    pub(super) fn new(
        settings: Settings,
        tenants: Vec<TenantSettings>,
        (seed, entropy): (u64, Option<[u8; 32]>),
        now: Time,
    ) -> Self {
        let mut first = Engine::new(settings, seed, now);
        if let Some(bytes) = entropy {
            first.take_entropy(bytes);
        }
        first.warm_up(now);
        let (others, waiting, past) = (Vec::new(), Vec::new(), Load::default());
        let mut house = Self { first, others, waiting, seed, entropy, made: 0, at: 0, past };
        tenants.into_iter().for_each(|tenant| house.add(now, tenant));
        house
    }

    /// A tenant that is new. Those that are still going may have all places that are left; then it begins when one of them is gone.
    fn add(&mut self, now: Time, tenant: TenantSettings) {
        let Some(id) = tenant.settings.tenancy.as_ref().map(|tenancy| tenancy.own) else { return };
        let Some(at) = self.free_place() else { return self.waiting.push(tenant) };
        let TenantSettings { settings, seats } = tenant;
        let mut engine = self.engine(now, id, settings);
        engine.set_mirror_leavers(now, servers_before(&self.mirror_leavers(), None));
        engine.warm_up(now);
        self.settle(at, Tenant { id, seats, leaves_at: None, login: None, engine });
    }

    fn free_place(&self) -> Option<usize> {
        let at = self.others.iter().position(Option::is_none).unwrap_or(self.others.len());
        (at + 1 < PLACES).then_some(at)
    }

    /// One more engine.
    fn engine(&mut self, now: Time, id: TenantId, settings: Settings) -> Engine {
        // The jitter of tenants differs, too.
        let seed = self.seed ^ (u64::from(id.0) << 32);
        let settings = Settings { unix_ahead_us: self.first.settings().unix_ahead_us, ..settings };
        let mut engine = Engine::new(settings, seed, now);
        self.made += 1;
        if let Some(mut bytes) = self.entropy {
            // Each engine has its own, also one that comes after another with its id: what is made of it differs in every bit.
            bytes.iter_mut().zip(self.made.to_le_bytes()).for_each(|(byte, made)| *byte ^= made);
            engine.take_entropy(bytes);
        }
        engine
    }

    fn settle(&mut self, at: usize, tenant: Tenant) {
        let tenant = Some(Box::new(tenant));
        match self.others.get_mut(at) {
            Some(place) => *place = tenant,
            None => self.others.push(tenant),
        }
    }

    #[inline]
    fn get(&self, place: usize) -> Option<&Engine> {
        match place {
            0 => Some(&self.first),
            _ => Some(&self.others.get(place - 1)?.as_ref()?.engine),
        }
    }

    #[inline]
    fn get_mut(&mut self, place: usize) -> Option<&mut Engine> {
        match place {
            0 => Some(&mut self.first),
            _ => Some(&mut self.others.get_mut(place - 1)?.as_mut()?.engine),
        }
    }

    fn places(&self) -> usize {
        1 + self.others.len()
    }

    /// All engines, that of the default tenant first.
    pub fn engines(&self) -> impl Iterator<Item = &Engine> {
        let others = self.others.iter().flatten().map(|tenant| &tenant.engine);
        core::iter::once(&self.first).chain(others)
    }

    fn engines_mut(&mut self) -> impl Iterator<Item = &mut Engine> {
        let others = self.others.iter_mut().flatten().map(|tenant| &mut tenant.engine);
        core::iter::once(&mut self.first).chain(others)
    }

    /// That of the default tenant.
    pub fn first(&self) -> &Engine {
        &self.first
    }

    /// Where a tenant is, also one that is about to go.
    fn find(&self, id: TenantId) -> Option<usize> {
        if id == TenantId::DEFAULT {
            return Some(0);
        }
        let is = |tenant: &Option<Box<Tenant>>| tenant.as_ref().is_some_and(|one| one.id == id);
        self.others.iter().position(is).map(|at| at + 1)
    }

    /// Where a tenant is that takes clients.
    pub(super) fn open(&self, id: TenantId) -> Option<usize> {
        let leaves = |place: usize| {
            let tenant = place.checked_sub(1).and_then(|at| self.others[at].as_ref());
            tenant.is_some_and(|tenant| tenant.leaves_at.is_some())
        };
        self.find(id).filter(|place| !leaves(*place))
    }

    /// The number of the tenant at a place.
    pub(super) fn tenant_at(&self, place: usize) -> TenantId {
        let other = place.checked_sub(1).and_then(|at| self.others.get(at)?.as_ref());
        other.map_or(TenantId::DEFAULT, |tenant| tenant.id)
    }

    /// Where an upstream's engine is.
    pub(super) fn tenant_of(&self, id: UpstreamId) -> TenantId {
        self.tenant_at(place(id))
    }

    /// The bound of clients of the tenant at a place; `None`: there is none of its own.
    pub(super) fn seats(&self, place: usize) -> Option<&Seats> {
        let tenant = self.others.get(place.checked_sub(1)?)?.as_ref()?;
        Some(&tenant.seats)
    }

    /// Whether there is no tenant but the default one, not even one that goes.
    fn is_one(&self) -> bool {
        self.others.is_empty()
    }
}

/// Clients come, move and go.
impl House {
    /// The place of the tenant where a client begins that came to a listener of this one; `None`: that tenant is gone.
    pub(super) fn entry(&self, home: TenantId) -> Option<usize> {
        let settings = self.first.settings();
        let Some(tenancy) = &settings.tenancy else { return self.open(home) };
        self.open(tenancy.members.entry(&settings.users, home))
    }

    /// See [`Engine::unless_too_many_come`]: by the rules of the tenant at a place.
    pub(super) fn unless_too_many_come(
        &mut self,
        now: Time,
        place: usize,
        addr: &str,
    ) -> Option<Vec<u8>> {
        self.get_mut(place)?.unless_too_many_come(now, addr)
    }

    /// See [`Engine::handle_client_open`]. `number`: the client's (`CLIENT ID`).
    pub(super) fn handle_client_open(
        &mut self,
        now: Time,
        place: usize,
        home: TenantId,
        (addr, laddr): (String, String),
        number: u64,
    ) -> Option<ClientId> {
        let engine = self.get_mut(place)?;
        engine.set_next_number(number);
        let id = engine.handle_client_open(now, addr, laddr)?;
        engine.note_home(id, home);
        Some(outer(place, id))
    }

    /// Takes a client over to the tenant at a place; its id there. `None`: it is gone, or has changed its mind.
    pub(super) fn transfer(&mut self, id: ClientId, to: usize) -> Option<ClientId> {
        self.get(to)?;
        let leaver = self.get_mut(place(id))?.release_client(inner(id))?;
        Some(outer(to, self.get_mut(to)?.admit_client(leaver)))
    }

    /// See [`Engine::client_address`].
    pub(super) fn client_address(&self, id: ClientId) -> Option<&str> {
        self.get(place(id))?.client_address(inner(id))
    }

    /// See [`Engine::begin_admitted`].
    pub(super) fn begin_admitted(&mut self, now: Time, id: ClientId) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.begin_admitted(now, inner(id));
        }
    }

    /// See [`Engine::keep_client`].
    pub(super) fn keep_client(&mut self, id: ClientId, error: &'static str) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.keep_client(inner(id), error);
        }
    }

    /// See [`Engine::note_listener`].
    pub(super) fn note_listener(&mut self, id: ClientId, label: Arc<str>) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.note_listener(inner(id), label);
        }
    }

    /// See [`Engine::count_refused`].
    pub(super) fn count_refused(&mut self, why: Refused) {
        self.first.count_refused(why);
    }

    /// Clients of all tenants.
    pub fn client_count(&self) -> usize {
        self.engines().map(Engine::client_count).sum()
    }

    /// See [`Engine::mirrors_are_idle`].
    pub(super) fn mirrors_are_idle(&self) -> bool {
        self.engines().all(Engine::mirrors_are_idle)
    }

    /// See [`Engine::take_gone_clients`].
    pub(super) fn take_gone_clients(&mut self) -> usize {
        self.engines_mut().map(Engine::take_gone_clients).sum()
    }
}

/// Events.
impl House {
    /// See [`Engine::handle_client_bytes`].
    #[inline]
    pub(super) fn handle_client_bytes(&mut self, now: Time, id: ClientId, bytes: &[u8]) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_client_bytes(now, inner(id), bytes);
        }
    }

    /// See [`Engine::handle_upstream_bytes`].
    #[inline]
    pub(super) fn handle_upstream_bytes(&mut self, now: Time, id: UpstreamId, bytes: &[u8]) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_upstream_bytes(now, inner(id), bytes);
        }
    }

    /// See [`Engine::handle_client_sent`].
    #[inline]
    pub(super) fn handle_client_sent(&mut self, now: Time, id: ClientId, buf: Vec<u8>) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_client_sent(now, inner(id), buf);
        }
    }

    /// See [`Engine::handle_upstream_sent`].
    #[inline]
    pub(super) fn handle_upstream_sent(&mut self, now: Time, id: UpstreamId, buf: Vec<u8>) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_upstream_sent(now, inner(id), buf);
        }
    }

    /// See [`Engine::mark_client_dirty`].
    pub(super) fn mark_client_dirty(&mut self, id: ClientId) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.mark_client_dirty(inner(id));
        }
    }

    /// See [`Engine::mark_upstream_dirty`].
    pub(super) fn mark_upstream_dirty(&mut self, id: UpstreamId) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.mark_upstream_dirty(inner(id));
        }
    }

    /// See [`Engine::handle_upstream_connected`].
    pub(super) fn handle_upstream_connected(&mut self, now: Time, id: UpstreamId) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_upstream_connected(now, inner(id));
        }
    }

    /// See [`Engine::handle_upstream_closed`].
    pub(super) fn handle_upstream_closed(&mut self, now: Time, id: UpstreamId, cause: &str) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_upstream_closed(now, inner(id), cause);
        }
    }

    /// See [`Engine::handle_upstream_moved`].
    pub(super) fn handle_upstream_moved(&mut self, id: UpstreamId) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_upstream_moved(inner(id));
        }
    }

    /// See [`Engine::handle_client_eof`].
    pub(super) fn handle_client_eof(&mut self, now: Time, id: ClientId) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_client_eof(now, inner(id));
        }
    }

    /// See [`Engine::handle_client_closed`].
    pub(super) fn handle_client_closed(&mut self, now: Time, id: ClientId) {
        if let Some(engine) = self.get_mut(place(id)) {
            engine.handle_client_closed(now, inner(id));
        }
    }

    /// See [`Engine::handle_timeout`].
    #[inline]
    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.engines_mut().for_each(|engine| engine.handle_timeout(now));
    }

    /// See [`Engine::poll_timeout`]; also when the time of a tenant is up that goes.
    #[inline]
    pub(super) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let first = self.first.poll_timeout(now);
        if self.is_one() {
            return first;
        }
        let others = self.others.iter().flatten();
        let others = others.flat_map(|tenant| {
            let goes = tenant.leaves_at.into_iter().chain(tenant.idle_until());
            tenant.engine.poll_timeout(now).into_iter().chain(goes)
        });
        first.into_iter().chain(others).min()
    }

    /// See [`Engine::handle_answers`].
    pub(super) fn handle_answers(
        &mut self,
        now: Time,
        (tenant, ticket): (TenantId, u64),
        answers: Vec<Answer>,
        facts: &ProcessFacts,
    ) {
        if let Some(engine) = self.find(tenant).and_then(|place| self.get_mut(place)) {
            engine.handle_answers(now, ticket, answers, facts);
        }
    }
}

/// Servers of mirrors of tenants that leave before this time; without a time, of all leaving tenants.
fn servers_before(leavers: &[(Time, Vec<Address>)], until: Option<Time>) -> Vec<Address> {
    let earlier = leavers.iter().filter(|(at, _)| until.is_none_or(|until| *at < until));
    earlier.flat_map(|(_, servers)| servers).cloned().collect()
}

/// An action of the engine at this place, with the ids that the rest of the worker knows.
fn outward(place: usize, action: Action) -> Action {
    match action {
        Action::Connect(id) => Action::Connect(outer(place, id)),
        Action::CloseUpstream(id) => Action::CloseUpstream(outer(place, id)),
        Action::CloseClient(id) => Action::CloseClient(outer(place, id)),
        Action::ResetClient(id) => Action::ResetClient(outer(place, id)),
        Action::ReadClient(id, on) => Action::ReadClient(outer(place, id), on),
        Action::ReadUpstream(id, on) => Action::ReadUpstream(outer(place, id), on),
        Action::Move(id, tenant) => Action::Move(outer(place, id), tenant),
        Action::LogIn(id, said) => Action::LogIn(outer(place, id), said),
        other @ (Action::Ask(..) | Action::Answer(..) | Action::Tell(..)) => other,
    }
}

/// What is to be done.
impl House {
    /// See [`Engine::poll_action`]; with the tenant that wants it.
    #[inline]
    pub(super) fn poll_action(&mut self) -> Option<(TenantId, Action)> {
        if let Some(action) = self.first.poll_action() {
            return Some((TenantId::DEFAULT, action));
        }
        if self.is_one() { None } else { self.poll_action_of_others() }
    }

    fn poll_action_of_others(&mut self) -> Option<(TenantId, Action)> {
        for (at, tenant) in (1..).zip(&mut self.others) {
            let Some(tenant) = tenant else { continue };
            if let Some(action) = tenant.engine.poll_action() {
                return Some((tenant.id, outward(at, action)));
            }
        }
        None
    }

    /// See [`Engine::poll_notice`]; with the tenant's name, if there are tenants.
    pub(super) fn poll_notice(&mut self) -> Option<(Option<Arc<str>>, Notice)> {
        self.engines_mut().find_map(|engine| {
            let notice = engine.poll_notice()?;
            Some((name_of(engine.settings().tenancy.as_ref()), notice))
        })
    }

    /// See [`Engine::poll_observed`]; likewise.
    pub(super) fn poll_observed(&mut self) -> Option<Observed> {
        self.engines_mut().find_map(|engine| {
            let observed = engine.poll_observed()?;
            Some(Observed { tenant: name_of(engine.settings().tenancy.as_ref()), ..observed })
        })
    }

    /// The next thing of this kind, whoever's. The search goes on where it found the last one, and ends when all have none.
    #[inline]
    fn next<T>(&mut self, poll: impl Fn(&mut Engine) -> Option<Id<T>>) -> Option<Id<T>> {
        if self.is_one() {
            return poll(&mut self.first);
        }
        for _ in 0..self.places() {
            let place = self.at;
            if let Some(id) = self.get_mut(place).and_then(&poll) {
                return Some(outer(place, id));
            }
            self.at = (place + 1) % self.places();
        }
        None
    }

    /// See [`Engine::poll_dirty_private_upstream`].
    #[inline]
    pub(super) fn poll_dirty_private_upstream(&mut self) -> Option<UpstreamId> {
        self.next(Engine::poll_dirty_private_upstream)
    }

    /// See [`Engine::poll_dirty_upstream`].
    #[inline]
    pub(super) fn poll_dirty_upstream(&mut self) -> Option<UpstreamId> {
        self.next(Engine::poll_dirty_upstream)
    }

    /// See [`Engine::poll_dirty_client`].
    #[inline]
    pub(super) fn poll_dirty_client(&mut self) -> Option<ClientId> {
        self.next(Engine::poll_dirty_client)
    }

    /// See [`Engine::begin_upstream_send`].
    #[inline]
    pub(super) fn begin_upstream_send(&mut self, id: UpstreamId) -> Option<Vec<u8>> {
        self.get_mut(place(id))?.begin_upstream_send(inner(id))
    }

    /// See [`Engine::begin_client_send`].
    #[inline]
    pub(super) fn begin_client_send(&mut self, id: ClientId) -> Option<Vec<u8>> {
        self.get_mut(place(id))?.begin_client_send(inner(id))
    }

    /// See [`Engine::has_output`].
    #[inline]
    pub(super) fn has_output(&self) -> bool {
        self.engines().any(Engine::has_output)
    }

    /// See [`Engine::has_private_output`].
    #[inline]
    pub(super) fn has_private_output(&self) -> bool {
        self.engines().any(Engine::has_private_output)
    }

    /// See [`Engine::shared_upstreams_dirty`].
    #[inline]
    pub(super) fn shared_upstreams_dirty(&self) -> usize {
        self.engines().map(Engine::shared_upstreams_dirty).sum()
    }

    /// See [`Engine::upstream_address`].
    pub(super) fn upstream_address(&self, id: UpstreamId) -> Option<&Address> {
        self.get(place(id))?.upstream_address(inner(id))
    }

    /// See [`Engine::wants_connect`].
    pub(super) fn wants_connect(&self, id: UpstreamId) -> bool {
        self.get(place(id)).is_some_and(|engine| engine.wants_connect(inner(id)))
    }

    /// See [`Engine::upstream_tls_host`].
    pub(super) fn upstream_tls_host(&self, id: UpstreamId) -> Option<&str> {
        self.get(place(id))?.upstream_tls_host(inner(id))
    }
}

/// What the worker itself goes by.
impl House {
    /// See [`Engine::input_events`].
    #[inline]
    pub(super) fn input_events(&self) -> u64 {
        self.engines().map(Engine::input_events).sum()
    }

    /// See [`Engine::end_epoch`].
    pub(super) fn end_epoch(&mut self) -> u64 {
        self.engines_mut().map(Engine::end_epoch).sum()
    }

    /// What all tenants together have done; it never gets less.
    pub(super) fn load(&self) -> Load {
        self.engines().map(|engine| Load::of(engine.stats())).fold(self.past, Load::plus)
    }

    /// See [`Engine::note_outside`].
    pub(super) fn note_outside(&mut self, place: usize, bytes: usize) -> usize {
        self.get_mut(place).map_or(0, |engine| engine.note_outside(bytes))
    }

    /// See [`Engine::make_room_for_outside`].
    pub(super) fn make_room_for_outside(&mut self, place: usize) -> usize {
        self.get_mut(place).map_or(0, Engine::make_room_for_outside)
    }

    /// See [`Engine::cork_replies_us`].
    pub(super) fn cork_replies_us(&mut self, us: u64) {
        self.engines_mut().for_each(|engine| engine.cork_replies_us(us));
    }

    /// Other settings from now on, and other tenants. Those that are in it no more go when their clients have what they are owed, or at `leave_at`.
    pub(super) fn reconfigure(
        &mut self,
        now: Time,
        settings: Settings,
        tenants: Vec<TenantSettings>,
        leave_at: Time,
    ) {
        let wanted = |id: TenantId| {
            let own = |tenant: &TenantSettings| tenant.settings.tenancy.as_ref().map(|t| t.own);
            tenants.iter().any(|tenant| own(tenant) == Some(id))
        };
        for tenant in self.others.iter_mut().flatten() {
            if tenant.leaves_at.is_none() && tenant.login.is_none() && !wanted(tenant.id) {
                tenant.leaves_at = Some(leave_at);
                tenant.engine.dismiss("its tenant is gone");
            }
        }
        self.waiting.clear();
        let gone = self.others.iter().flatten().filter(|tenant| tenant.leaves_at.is_some());
        for base in gone.map(|tenant| tenant.id).collect::<Vec<_>>() {
            self.reconfigure_logins(now, base, None, leave_at);
        }
        for tenant in tenants {
            let own = tenant.settings.tenancy.as_ref().map(|tenancy| tenancy.own);
            if let Some(base) = own {
                self.reconfigure_logins(now, base, Some(&tenant.settings), leave_at);
            }
            let known = self.others.iter_mut().flatten();
            match known.into_iter().find(|known| Some(known.id) == own) {
                Some(known) => {
                    known.seats = tenant.seats;
                    known.engine.reconfigure(now, tenant.settings);
                }
                None => self.add(now, tenant),
            }
        }
        self.reconfigure_logins(now, TenantId::DEFAULT, Some(&settings), leave_at);
        self.first.reconfigure(now, settings);
        self.name_mirror_leavers(now);
    }

    /// See [`Engine::end_mirrors`], of the tenant at a place.
    pub(super) fn end_mirrors_of(&mut self, now: Time, place: usize) {
        if let Some(engine) = self.get_mut(place) {
            engine.end_mirrors(now);
        }
    }

    /// The same of all.
    pub(super) fn end_mirrors(&mut self, now: Time) {
        self.engines_mut().for_each(|engine| engine.end_mirrors(now));
    }

    /// Places of tenants whose last client is gone and whose mirrors have all that those wrote, or whose time is up.
    pub(super) fn left(&self, now: Time) -> Vec<usize> {
        let is_over = |tenant: &Tenant| {
            let is_done = tenant.engine.client_count() == 0 && tenant.engine.mirrors_are_idle();
            tenant.leaves_at.is_some_and(|at| at <= now || is_done)
        };
        let others = (1..).zip(&self.others);
        others
            .filter(|(_, tenant)| tenant.as_deref().is_some_and(is_over))
            .map(|(place, _)| place)
            .collect()
    }

    /// Nothing of the tenant at this place is left: its connections are closed.
    pub(super) fn remove(&mut self, now: Time, place: usize) {
        let Some(tenant) = self.others.get_mut(place - 1).and_then(Option::take) else { return };
        match self.heir(&tenant) {
            Some(heir) => heir.inherit(&tenant.engine),
            None => self.past = self.past.plus(Load::of(tenant.engine.stats())),
        }
        while self.others.last().is_some_and(Option::is_none) {
            self.others.pop();
        }
        self.at = 0;
        self.name_mirror_leavers(now);
        if let Some(next) = self.waiting.pop() {
            self.add(now, next);
        }
    }

    /// Tells each engine the servers for which its new mirrors wait: those of mirrors of tenants that leave, or leave earlier.
    fn name_mirror_leavers(&mut self, now: Time) {
        let leavers = self.mirror_leavers();
        let before = |until: Option<Time>| servers_before(&leavers, until);
        self.first.set_mirror_leavers(now, before(None));
        for tenant in self.others.iter_mut().flatten() {
            tenant.engine.set_mirror_leavers(now, before(tenant.leaves_at));
        }
    }

    /// For each leaving tenant the time at which it goes, and the servers of its mirrors that have queued writes.
    fn mirror_leavers(&self) -> Vec<(Time, Vec<Address>)> {
        let others = self.others.iter().flatten();
        others.filter_map(|one| Some((one.leaves_at?, one.engine.busy_mirror_servers()))).collect()
    }

    /// Whether some tenant goes, or there are logins, which may go at any time.
    #[inline]
    pub(super) fn is_leaving(&self) -> bool {
        self.others.iter().flatten().any(|tenant| tenant.leaves_at.is_some()) || self.has_logins()
    }

    /// See [`Engine::drain`].
    pub(super) fn drain(&mut self) {
        self.engines_mut().for_each(Engine::drain);
    }

    /// See [`Engine::is_draining`].
    pub(super) fn is_draining(&self) -> bool {
        self.first.is_draining()
    }

    /// See [`Engine::check_invariants`].
    #[cfg(debug_assertions)]
    pub(super) fn check_invariants(&self) {
        self.engines().for_each(Engine::check_invariants);
    }
}

#[cfg(test)]
mod tests;
