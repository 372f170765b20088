//! The engines of logins: one for each name and password that clients have at the servers of a tenant (`engine::login`).
//!
//! ```text
//!   Action::LogIn ─▶ log_in ─┬ there is one with these words ─────▶ its place
//!                            └ a new one, told what its tenant's engine knows of the servers ─▶ a free place
//!   its last client goes ── LOGIN_IDLE_MS ─▶ it goes          the servers refuse it ─▶ its clients are closed, it goes
//! ```
//! A server may take several passwords of a user, or, of one with `nopass`, any, and whoever may say `ACL SETUSER` there makes as many users as it likes. So logins in use are
//! shared fairly by tenant, by address and by user, and those of a user by address (`engine::shares`).
//!
//! To other workers a login is known by its tenant and a digest of its name and password, as its engine has another number at each of them.
//!
//! Not here: whether a password is right (`engine::login`), which clients go where (`moves`).
//!
//! Invariant: there are at most [`LOGINS_MAX`] of them beside those that are about to go, and no two of these have the same words and the same tenant.

use super::{House, PLACES, PLACES_OF_TENANTS, Tenant};
use crate::worker::entrance::Seats;
use engine::acl::Digest;
use engine::fleet::{Answer, Question, ReplyTo};
use engine::login::Said;
use engine::news::{News, Reach};
use engine::shares::{self, Group};
use engine::tenancy::TenantId;
use engine::{Engine, Settings, Time, reject};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Logins at a time in a worker, those included that nobody uses any more; of these one makes room for another. The next client is told to try again later.
pub(super) const LOGINS_MAX: usize = 128;

/// Of those in use a user may have so many at most: its fair share of all while nobody else has any.
const LOGINS_OF_USER_MAX: usize = LOGINS_MAX - LOGINS_MAX / shares::RESERVE_PART;

/// The last logins of all are for tenants that have none.
const LOGINS_OF_NEW_TENANTS: usize = 4;

/// The logins before them are for addresses that have none, too.
const LOGINS_OF_NEW_ADDRESSES: usize = 4;

/// A login that nobody uses is kept for so long.
const LOGIN_IDLE_MS: u64 = 10_000;

/// Clients of a login that is over have so long for what they are owed.
const LOGIN_LEAVE_MS: u64 = 5_000;

/// Numbers of logins have this bit: those of tenants are given by somebody else.
const OF_LOGINS: u32 = 1 << 31;

/// What is kept of the engine of a login.
pub(super) struct Held {
    /// The tenant whose servers these are.
    base: TenantId,
    /// Which user it is, and from where the client came that it was made for.
    of: Group,
    /// Since when it has no client.
    empty_since: Option<Time>,
}

/// How many logins each tenant, each address and each user has.
#[derive(Default)]
struct Shares {
    by_tenant: shares::Held,
    by_address: shares::Held,
    by_user: shares::Held,
    /// The logins of each user, by address.
    of_users: BTreeMap<Group, shares::Held>,
}

impl Shares {
    fn add(&mut self, base: TenantId, of: Group) {
        self.by_tenant.add(Self::all_of(base));
        self.by_address.add(of.of_anybody());
        self.by_user.add(of.anywhere());
        self.of_users.entry(of.anywhere()).or_default().add(of);
    }

    /// All users of the servers of a tenant.
    fn all_of(base: TenantId) -> Group {
        Group::of_login(base, b"", "")
    }

    /// An error if all logins are in use, or so many as this group may have.
    fn has_room_for(&self, base: TenantId, of: Group) -> Result<(), &'static str> {
        let is_new_tenant = self.by_tenant.of(Self::all_of(base)) == 0;
        let is_new_address = self.by_address.of(of.of_anybody()) == 0;
        let kept = match (is_new_tenant, is_new_address) {
            (true, _) => 0,
            (false, true) => LOGINS_OF_NEW_TENANTS,
            (false, false) => LOGINS_OF_NEW_TENANTS + LOGINS_OF_NEW_ADDRESSES,
        };
        if self.by_user.total() + kept >= LOGINS_MAX {
            return Err(reject::LOGINS_FULL);
        }
        let of_user = self.of_users.get(&of.anywhere());
        let has_room = self.by_user.has_room(of.anywhere(), 1, LOGINS_MAX)
            && of_user.is_none_or(|held| held.has_room(of, 1, LOGINS_OF_USER_MAX));
        if has_room { Ok(()) } else { Err(reject::LOGINS_OF_USER_FULL) }
    }
}

impl Tenant {
    fn has_login(&self, base: TenantId, digest: &Digest) -> bool {
        let login = self.engine.settings().login.as_ref();
        login.is_some_and(|login| login.base == base && login.said.is(digest))
    }

    /// Whether it takes clients.
    fn stays(&self) -> bool {
        self.leaves_at.is_none() && !self.engine.is_draining()
    }

    /// When it is to go for want of clients.
    pub(super) fn idle_until(&self) -> Option<Time> {
        let since = self.login.as_ref()?.empty_since?;
        Some(since.plus_ms(LOGIN_IDLE_MS))
    }
}

impl House {
    /// The tenant and the login of an engine, if it has one.
    pub(in crate::worker) fn login_of(&self, id: TenantId) -> Option<(TenantId, Digest)> {
        if id.0 & OF_LOGINS == 0 {
            return None;
        }
        let engine = self.get(self.find(id)?)?;
        engine.settings().login.as_ref().map(|login| (login.base, login.said.digest()))
    }

    /// The tenant that the engine at a place is of, or whose servers its login is for.
    pub(in crate::worker) fn base_at(&self, place: usize) -> TenantId {
        let tenant = place.checked_sub(1).and_then(|at| self.others.get(at)?.as_ref());
        let held = tenant.and_then(|tenant| tenant.login.as_ref());
        held.map_or_else(|| self.tenant_at(place), |held| held.base)
    }

    /// The place of the engine that has this login, for a client of the engine at `from` with this address. It is made if there is none.
    pub(in crate::worker) fn log_in(
        &mut self,
        now: Time,
        from: usize,
        said: &Said,
        addr: &str,
    ) -> Result<usize, &'static str> {
        if self.first.is_draining() {
            return Err(reject::TENANT_GONE);
        }
        let base = self.base_at(from);
        let digest = said.digest();
        if let Some(place) = self.find_login(base, &digest, Tenant::stays) {
            return Ok(place);
        }
        let at_base = self.open(base).ok_or(reject::TENANT_GONE)?;
        let engine = self.get(at_base).ok_or(reject::TENANT_GONE)?;
        let settings = engine.settings().for_login(base, said).ok_or(reject::TENANT_GONE)?;
        let of = Group::of_login(base, said.name(), addr);
        self.make_room(now, base, of)?;
        let at = self.free_place().ok_or(reject::LOGINS_FULL)?;
        let id = self.next_login_id(settings.worker, settings.workers);
        let seats = match self.seats(at_base) {
            Some(seats) => seats.clone(),
            None => Seats { max: usize::MAX, taken: Arc::default() },
        };
        let mut engine = self.engine(now, id, settings);
        engine.begin_tickets(self.made << 32);
        if let Some(of) = self.get(at_base) {
            engine.brief(now, of);
        }
        engine.warm_up(now);
        let login = Some(Held { base, of, empty_since: Some(now) });
        self.settle(at, Tenant { id, seats, leaves_at: None, login, engine });
        Ok(at + 1)
    }

    /// No other engine, of this worker or of another one, has had the same number.
    fn next_login_id(&self, worker: u32, workers: u32) -> TenantId {
        let number = (self.made as u32).wrapping_mul(workers.max(1)).wrapping_add(worker);
        TenantId(OF_LOGINS | number)
    }

    /// Sees to it that there is room for one more login of this group at the servers of this tenant.
    fn make_room(&mut self, now: Time, base: TenantId, of: Group) -> Result<(), &'static str> {
        let logins = self.others.iter().flatten().filter(|tenant| tenant.login.is_some());
        if logins.count() >= PLACES - PLACES_OF_TENANTS {
            // Those that are about to go have not gone yet.
            return Err(reject::LOGINS_FULL);
        }
        let kept = self.held_by(Tenant::stays);
        let used = self.held_by(|tenant| tenant.stays() && tenant.engine.client_count() > 0);
        used.has_room_for(base, of)?;
        if kept.by_user.total() < LOGINS_MAX {
            return Ok(());
        }
        let unused = self.others.iter_mut().flatten().filter_map(|tenant| {
            let user = tenant.login.as_ref()?.of.anywhere();
            let is_unused = tenant.stays() && tenant.engine.client_count() == 0;
            is_unused.then_some((user, tenant))
        });
        // Of the user that has most, so that nobody drives others out with one password after the other.
        let oldest = unused
            .min_by_key(|(user, tenant)| (Reverse(kept.by_user.of(*user)), tenant.idle_until()));
        let (_, oldest) = oldest.ok_or(reject::LOGINS_FULL)?;
        oldest.engine.dismiss("another login needs its place");
        oldest.leaves_at = Some(now);
        Ok(())
    }

    /// Who has how many of these logins.
    fn held_by(&self, counts: impl Fn(&Tenant) -> bool) -> Shares {
        let mut shares = Shares::default();
        let counted = self.others.iter().flatten().filter(|tenant| counts(tenant));
        let held = counted.filter_map(|tenant| tenant.login.as_ref());
        held.for_each(|held| shares.add(held.base, held.of));
        shares
    }

    fn find_login(
        &self,
        base: TenantId,
        digest: &Digest,
        is_wanted: fn(&Tenant) -> bool,
    ) -> Option<usize> {
        let is = |tenant: &Option<Box<Tenant>>| {
            tenant.as_ref().is_some_and(|one| one.has_login(base, digest) && is_wanted(one))
        };
        self.others.iter().position(is).map(|at| at + 1)
    }

    /// Notes which logins have no clients, and lets those go that have had none for long, or whose servers refuse them.
    pub(in crate::worker) fn look_at_logins(&mut self, now: Time) {
        for tenant in self.others.iter_mut().flatten() {
            let Some(held) = tenant.login.as_mut() else { continue };
            match tenant.engine.client_count() {
                0 => drop(held.empty_since.get_or_insert(now)),
                _ => held.empty_since = None,
            }
            if tenant.leaves_at.is_some() {
                continue;
            }
            if tenant.idle_until().is_some_and(|until| until <= now) {
                tenant.engine.dismiss("nobody uses its login");
                tenant.leaves_at = Some(now);
            } else if tenant.engine.is_draining() && !self.first.is_draining() {
                tenant.leaves_at = Some(now.plus_ms(LOGIN_LEAVE_MS));
            }
        }
    }

    /// Who goes on with what the engine of a login has counted.
    pub(super) fn heir(&mut self, tenant: &Tenant) -> Option<&mut Engine> {
        let base = tenant.login.as_ref()?.base;
        self.find(base).and_then(|place| self.get_mut(place))
    }

    /// Whether there are any.
    #[inline]
    pub(in crate::worker) fn has_logins(&self) -> bool {
        self.others.iter().flatten().any(|tenant| tenant.login.is_some())
    }

    /// The settings of a tenant are others, so those of the logins at its servers are, too; `None`: the tenant is gone.
    pub(super) fn reconfigure_logins(
        &mut self,
        now: Time,
        base: TenantId,
        settings: Option<&Settings>,
        leave_at: Time,
    ) {
        for tenant in self.others.iter_mut().flatten() {
            let is_there = tenant.login.as_ref().is_some_and(|held| held.base == base);
            let Some(login) = tenant.engine.settings().login.clone().filter(|_| is_there) else {
                continue;
            };
            match settings.and_then(|settings| settings.for_login(base, &login.said)) {
                Some(settings) => tenant.engine.reconfigure(now, settings),
                None if tenant.leaves_at.is_none() => {
                    tenant.engine.dismiss("its user is none of the servers' any more");
                    tenant.leaves_at = Some(leave_at);
                }
                None => {}
            }
        }
    }

    /// Tells an engine, or those that its news are for.
    pub(in crate::worker) fn handle_news(
        &mut self,
        now: Time,
        (tenant, login): (TenantId, Option<Digest>),
        news: News,
    ) {
        if let Some(digest) = login {
            let place = self.find_login(tenant, &digest, Tenant::stays);
            if let Some(engine) = place.and_then(|place| self.get_mut(place)) {
                engine.handle_news(now, news);
            }
            return;
        }
        if news.reach() == Reach::All {
            self.tell_logins(now, tenant, &news);
        }
        if let Some(engine) = self.find(tenant).and_then(|place| self.get_mut(place)) {
            engine.handle_news(now, news);
        }
    }

    /// Tells all logins at the servers of a tenant.
    pub(in crate::worker) fn tell_logins(&mut self, now: Time, base: TenantId, news: &News) {
        for tenant in self.others.iter_mut().flatten() {
            if tenant.login.as_ref().is_some_and(|held| held.base == base) {
                tenant.engine.handle_news(now, news.clone());
            }
        }
    }

    /// See [`Engine::answer`], for the engine of the client that asks; of a tenant, with those of the logins at its servers.
    pub(in crate::worker) fn answer(
        &mut self,
        now: Time,
        to: ReplyTo,
        question: &Question,
    ) -> Option<Answer> {
        let found = self.find(to.tenant);
        let found = found.or_else(|| {
            let (base, digest) = to.login?;
            self.find_login(base, &digest, Tenant::stays)
        });
        let Some(place) = found else {
            // It is gone here already, and so are its clients.
            return Some(Answer::Done);
        };
        let own = self.get_mut(place)?.answer(now, to, question);
        // What is shown to a monitor goes by the numbers of its engine.
        if to.login.is_some() || !self.has_logins() || matches!(question, Question::Monitor(..)) {
            return own;
        }
        let others = self.others.iter_mut().flatten();
        let others = others
            .filter(|tenant| tenant.login.as_ref().is_some_and(|held| held.base == to.tenant));
        let answers = others.map(|tenant| tenant.engine.answer(now, to, question));
        joined(core::iter::once(own).chain(answers).collect())
    }

    /// The answers of all tenants to a question that no client asked. Of questions that are answered later none is of that kind.
    pub(in crate::worker) fn answers(
        &mut self,
        now: Time,
        to: ReplyTo,
        question: &Question,
    ) -> Answer {
        if self.is_one() {
            return self.first.answer(now, to, question).unwrap_or(Answer::Done);
        }
        let tenants = self.others.iter().flatten().filter(|tenant| tenant.login.is_none());
        let tenants = core::iter::once(TenantId::DEFAULT).chain(tenants.map(|tenant| tenant.id));
        let tenants: Vec<TenantId> = tenants.collect();
        let answers = tenants.into_iter().filter_map(|tenant| match question {
            // What is known of the servers a login was told.
            Question::View => self.get_mut(self.find(tenant)?)?.answer(now, to, question),
            _ => self.answer(now, ReplyTo { tenant, ..to }, question),
        });
        let flat = answers.flat_map(|answer| match answer {
            Answer::Each(answers) => answers,
            answer => vec![answer],
        });
        Answer::Each(flat.collect())
    }
}

/// The answers of a tenant and of the logins at its servers as one; `None`: one of them comes later, and only that one has something to say.
fn joined(answers: Vec<Option<Answer>>) -> Option<Answer> {
    let mut answers: Vec<Answer> = answers.into_iter().collect::<Option<_>>()?;
    if answers.len() == 1 {
        return answers.pop();
    }
    let mut others = answers.split_off(1);
    match answers.first_mut() {
        Some(Answer::Report(report)) => {
            for other in others.drain(..) {
                if let Answer::Report(other) = other {
                    report.absorb_login(&other);
                }
            }
            answers.pop()
        }
        _ => {
            answers.append(&mut others);
            Some(Answer::Each(answers))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Found by an attack: 128 users of one tenant, all from one address, kept those of other tenants out.
    #[test]
    fn the_last_logins_are_for_addresses_and_tenants_that_have_none() {
        let mut shares = Shares::default();
        let mut log_in = |base: u32, name: &str, host: u8| {
            let base = TenantId(base);
            let of = Group::of_login(base, name.as_bytes(), &format!("10.0.0.{host}:1"));
            let has_room = shares.has_room_for(base, of);
            has_room.inspect(|()| shares.add(base, of)).is_ok()
        };
        let names: Vec<String> = (0..2 * LOGINS_MAX).map(|number| format!("u{number}")).collect();
        let one_address = names.iter().filter(|name| log_in(7, name, 1)).count();
        assert_eq!(one_address, LOGINS_MAX - LOGINS_OF_NEW_ADDRESSES - LOGINS_OF_NEW_TENANTS);
        let other_addresses = (2..100).filter(|host| log_in(7, "x", *host)).count();
        assert_eq!(other_addresses, LOGINS_OF_NEW_ADDRESSES);
        let other_tenants = (8..100).filter(|base| log_in(*base, "alice", 1)).count();
        assert_eq!(other_tenants, LOGINS_OF_NEW_TENANTS);
    }
}
