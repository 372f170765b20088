//! Which tenant an engine serves, who belongs to which, and how a client goes over to another one.
//!
//! Each tenant has an engine of its own, so that nothing of one is seen by another: keys, servers, limits, clients, the slow log. Where a client belongs
//! follows from three things that it is or says, the first that tells anything:
//!
//! ```text
//!   its user  ─▶  its name (CLIENT SETNAME)  ─▶  the listener that it came to
//! ```
//! A request that makes a client somebody of another tenant (AUTH, HELLO, CLIENT SETNAME, RESET) is not processed here: the client waits for what it is
//! owed, leaves with that request still to be read, and the other engine answers it.
//!
//! ```text
//!   AUTH b … GET k ─▶ belongs elsewhere? ─ yes ─▶ [Drained] ─▶ [Moving] ─ Action::Move ─▶ release_client ═▶ admit_client ─▶ AUTH b … GET k
//!                           └ no ─▶ answered here                                 └ no place there: keep_client ─▶ AUTH gets an error
//! ```
//! Not here: which engine is which tenant's, and how many clients each may have (the caller).
//!
//! Invariant: between two requests a client belongs to the tenant of the engine that has it.

use crate::acl::DEFAULT;
use crate::acl::Users;
use crate::client::{Access, Client, Hold};
use crate::engine::{Action, Engine};
use crate::glob;
use crate::ids::ClientId;
use crate::local::Call;
use crate::permit::access_of;
use crate::reject;
use crate::request::Step;
use crate::settings::Settings;
use crate::time::Time;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Names a tenant for as long as the process lives: another one of the same name, later, has another number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

impl TenantId {
    /// Whoever belongs to no other tenant belongs to this one.
    pub const DEFAULT: Self = Self(0);
}

/// What an engine knows of tenants, where there are any beside the default one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenancy {
    /// Whose engine it is.
    pub own: TenantId,
    /// What that tenant is called.
    pub name: Arc<str>,
    /// Who belongs where; the same in all engines of a worker.
    pub members: Arc<Members>,
}

/// Who belongs to which tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Sorted by name.
    users: Vec<(Vec<u8>, TenantId)>,
    /// Glob patterns; the first one that matches tells.
    names: Vec<(Vec<u8>, TenantId)>,
}

impl Members {
    /// Users by their names, and patterns of clients' names in the order in which they are looked at.
    #[must_use]
    pub fn new(mut users: Vec<(Vec<u8>, TenantId)>, names: Vec<(Vec<u8>, TenantId)>) -> Self {
        users.sort();
        Self { users, names }
    }

    /// The tenant of a user, if it has one.
    #[must_use]
    pub fn of_user(&self, name: &[u8]) -> Option<TenantId> {
        let at = self.users.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(self.users[at].1)
    }

    /// The tenant of clients that are called so, if there is one.
    #[must_use]
    pub fn of_name(&self, name: &[u8]) -> Option<TenantId> {
        let matches = |(pattern, _): &&(Vec<u8>, TenantId)| glob::means(pattern, name);
        let found = self.names.iter().find(matches).filter(|_| !name.is_empty());
        found.map(|(_, tenant)| *tenant)
    }

    /// Where a client begins that came to a listener of `home`: if nobody has to log in, it is the default user at once.
    #[must_use]
    pub fn entry(&self, users: &Users, home: TenantId) -> TenantId {
        self.of_user(DEFAULT).filter(|_| users.is_open()).unwrap_or(home)
    }
}

impl Settings {
    /// Whether this is an engine of another tenant than the default one, or of a login: its clients have no say in what is the whole process'.
    pub(crate) fn is_of_tenant(&self) -> bool {
        self.own_tenant() != Some(TenantId::DEFAULT)
    }

    /// Whether clients may go from engine to engine.
    fn has_others(&self) -> bool {
        self.tenancy.is_some() || self.login.is_some()
    }
}

/// A client on its way from one engine to another.
#[derive(Debug)]
pub struct Leaver {
    client: Client,
    /// The tenant of the servers that the client used.
    of: Option<TenantId>,
}

impl Engine {
    /// The tenant of the listener that the client came to.
    pub fn note_home(&mut self, id: ClientId, home: TenantId) {
        if let Some(client) = self.clients.get_mut(id) {
            client.identity.home = home;
        }
    }

    /// The number that the next client gets (`CLIENT ID`): those of all workers and tenants are one row.
    pub fn set_next_number(&mut self, number: u64) {
        self.numbers.next = number;
    }

    /// Takes out a client whose [`Action::Move`] is being carried out; `None`: it is gone, or waits for no move.
    #[must_use]
    pub fn release_client(&mut self, id: ClientId) -> Option<Leaver> {
        self.clients.get(id).filter(|client| client.hold == Hold::Moving)?;
        let mut client = self.detach_client(id)?;
        client.upstream = None;
        if self.settings.login.is_some() {
            // Nobody else knows that user.
            client.access = Access::Nothing;
        }
        (client.hold, client.queued, client.corked_until) = (Hold::No, false, None);
        (client.epoch, client.out.dirty) = (0, false);
        let of = match &self.settings.login {
            Some(login) => Some(login.base),
            None => self.settings.own_tenant(),
        };
        Some(Leaver { client, of })
    }

    /// Takes in a client of another engine. A client of another tenant begins in this tenant's database; a client that stays in its tenant keeps the
    /// database that it selected, as behind AUTH at a server. [`Self::begin_admitted`] processes the input of the client.
    #[must_use]
    pub fn admit_client(&mut self, leaver: Leaver) -> ClientId {
        let Leaver { mut client, of } = leaver;
        client.identity.is_arriving = true;
        client.conn = self.next_conn();
        match &self.settings.login {
            // A server said so of what this client told, or it would not be here. Its database is the one that it is in.
            Some(_) => {
                client.user = self.settings.login_position();
                client.access = access_of(&self.settings, client.user);
                client.identity.unknown_since = None;
            }
            None => {
                if of != self.settings.own_tenant() {
                    client.db = self.settings.node.db;
                }
                // Users are everybody's, but what is looked at beside them (policies, mirrors) is each tenant's own.
                match client.access {
                    Access::Nothing => client.user = self.settings.users.default_position(),
                    _ => client.access = access_of(&self.settings, client.user),
                }
            }
        }
        // Its next request takes connections that it has not yet.
        client.route_epoch = self.route_epoch.wrapping_sub(1);
        self.sweep.look_for_unknown(Time::default());
        let id = self.add_client(client);
        self.mark_client_dirty(id);
        self.account_client(id);
        id
    }

    /// Processes what a client has sent that was taken in.
    pub fn begin_admitted(&mut self, now: Time, id: ClientId) {
        self.resume_client(now, id);
    }

    /// The request that led the client here is answered.
    pub(crate) fn end_arrival(&mut self, id: ClientId) {
        if (self.settings.has_others() || self.settings.pass_through)
            && let Some(client) = self.clients.get_mut(id)
        {
            client.identity.is_arriving = false;
        }
    }

    /// A request by which a client would be somebody else is not done, and was answered with an error. A client that came here for it cannot go back, and
    /// is closed: it must not be here who it was there.
    pub(crate) fn unless_arrived(&mut self, id: ClientId, step: Step) -> Step {
        let is_arriving = |client: &Client| client.identity.is_arriving;
        if step == Step::Done && self.clients.get(id).is_some_and(is_arriving) {
            self.begin_close(id);
        }
        step
    }

    /// The client cannot go where it belongs, and stays as it is; the request that would have moved it gets this error.
    pub fn keep_client(&mut self, id: ClientId, error: &'static str) {
        let Some(client) = self.clients.get_mut(id).filter(|client| client.hold == Hold::Moving)
        else {
            return;
        };
        client.identity.move_refused = Some(error);
        if !client.queued {
            client.queued = true;
            self.resume.push_back(id);
        }
    }

    /// Where a client belongs that is this user and has this name; `None`: nobody knows of tenants.
    fn tenant_for(&self, client: &Client, user: Option<u32>, name: &[u8]) -> Option<TenantId> {
        if !self.settings.has_others() {
            return None;
        }
        let home = client.identity.home;
        let Some(tenancy) = &self.settings.tenancy else { return Some(home) };
        let members = &tenancy.members;
        let user = user.and_then(|user| self.settings.proxy_users().at(user as usize));
        let of_user = user.and_then(|user| members.of_user(user.name()));
        Some(of_user.or_else(|| members.of_name(name)).unwrap_or(home))
    }

    /// What becomes of a request by which the client would be this user, or have this name (`None`: those that it is and has now); `None`: it stays here.
    pub(crate) fn unless_it_stays(
        &mut self,
        call: &Call<'_>,
        user: Option<u32>,
        name: Option<&[u8]>,
    ) -> Option<Step> {
        let own = self.settings.own_tenant();
        if own.is_none() && user.is_none() {
            // Who is a user of the servers stays where that is known, whatever it is called.
            return None;
        }
        let client = self.clients.get(call.id)?;
        let user = user.or(client.is_authenticated().then_some(client.user));
        let to = self.tenant_for(client, user, name.unwrap_or(&client.identity.name))?;
        if Some(to) == own {
            return None;
        }
        if let Some(client) = self.clients.get_mut(call.id)
            && let Some(error) = client.identity.move_refused.take()
        {
            return Some(self.refuse(call, error));
        }
        if let Some(why) = self.cannot_move(call, reject::OTHER_TENANT) {
            return Some(self.refuse(call, &why));
        }
        Some(self.begin_move(call.id, to))
    }

    /// Where a client belongs that is the default user without a name, if that is elsewhere.
    fn reset_leads_to(&self, id: ClientId) -> Option<TenantId> {
        if !self.settings.has_others() {
            return None;
        }
        let home = self.clients.get(id)?.identity.home;
        let to = match &self.settings.tenancy {
            Some(tenancy) => tenancy.members.entry(self.settings.proxy_users(), home),
            None => home,
        };
        (Some(to) != self.settings.own_tenant()).then_some(to)
    }

    /// Whether a client that says RESET gets what it is owed first, as it will leave.
    pub(crate) fn reset_waits(&self, id: ClientId) -> bool {
        let is_owed = |client: &Client| client.places.open() > 0;
        self.reset_leads_to(id).is_some() && self.clients.get(id).is_some_and(is_owed)
    }

    /// What becomes of a client that is the default user without a name from now on, if that belongs elsewhere.
    pub(crate) fn unless_reset_here(&mut self, call: &Call<'_>) -> Option<Step> {
        let to = self.reset_leads_to(call.id)?;
        let client = self.clients.get_mut(call.id)?;
        if let Some(error) = client.identity.move_refused.take() {
            // It is nobody already, and may not be that here.
            let step = self.refuse(call, error);
            self.begin_close(call.id);
            return Some(step);
        }
        Some(self.begin_move(call.id, to))
    }

    fn begin_move(&mut self, id: ClientId, to: TenantId) -> Step {
        if self.clients.get(id).is_some_and(|client| client.places.open() > 0) {
            return Step::Hold(Hold::Drained);
        }
        self.actions.push_back(Action::Move(id, to));
        Step::Hold(Hold::Moving)
    }

    /// Why a client cannot go over now: what it has begun here cannot go on there.
    pub(crate) fn cannot_move(&self, call: &Call<'_>, begin: &str) -> Option<String> {
        let client = self.clients.get(call.id)?;
        let why = if call.inside.is_some() {
            "the client is in a transaction: say EXEC or DISCARD first"
        } else if client.lease.is_some() {
            "the client watches keys or is in a transaction: say UNWATCH or DISCARD first"
        } else if client.listening.is_some() && client.listens() {
            "the client listens to channels: unsubscribe first"
        } else if client.tracking.is_some() {
            "the client caches: say CLIENT TRACKING OFF first"
        } else if client.identity.is_monitor {
            "the client is a monitor: say RESET first"
        } else {
            return None;
        };
        Some(format!("{begin}{why}"))
    }

    /// After a change of users or tenants: who belongs elsewhere now gets what it is owed, then it is closed. Connected again it comes where it belongs.
    pub(crate) fn close_strangers(&mut self) {
        if self.settings.tenancy.is_none() {
            return;
        }
        // Whether a login stays is the caller's to say.
        let Some(own) = self.settings.own_tenant() else { return };
        for id in self.clients.ids() {
            let Some(client) = self.clients.get(id) else { continue };
            let user = client.is_authenticated().then_some(client.user);
            let stays = self.tenant_for(client, user, &client.identity.name) == Some(own);
            if stays || client.closing {
                continue;
            }
            self.tell_closed(id, "it belongs to another tenant now");
            self.send_away(id);
        }
    }

    /// Closes a client as [`Engine::begin_close`] does; at once also if it is in the middle of a large request.
    pub(crate) fn send_away(&mut self, id: ClientId) {
        let is_sending =
            |client: &Client| matches!(client.hold, Hold::Streaming(_) | Hold::Skipping);
        match self.clients.get(id).is_some_and(is_sending) {
            true => self.close_client(id, None),
            false => self.begin_close(id),
        }
    }

    /// The tenant goes: no client is taken in any more, and those that are here get what they are owed, then they are closed.
    pub fn dismiss(&mut self, cause: &str) {
        self.drain();
        for id in self.clients.ids() {
            if self.clients.get(id).is_some_and(|client| !client.closing) {
                self.tell_closed(id, cause);
            }
            self.send_away(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = TenantId(1);
    const B: TenantId = TenantId(2);

    fn members() -> Members {
        let users = alloc::vec![(b"zoe".to_vec(), B), (b"anna".to_vec(), A)];
        let names = alloc::vec![(b"a-*".to_vec(), A), (b"*".to_vec(), B)];
        Members::new(users, names)
    }

    #[test]
    fn a_user_and_a_name_tell_where_somebody_belongs() {
        let members = members();
        assert_eq!(members.of_user(b"anna"), Some(A));
        assert_eq!(members.of_user(b"zoe"), Some(B));
        assert_eq!(members.of_user(b"default"), None);
        assert_eq!(members.of_name(b"a-1"), Some(A), "the first that matches");
        assert_eq!(members.of_name(b"b"), Some(B));
        assert_eq!(members.of_name(b""), None, "who has no name has none that matches");
    }

    #[test]
    fn whoever_is_let_in_as_the_default_user_begins_where_that_belongs() {
        let open = Users::default();
        let closed = Users::with_password(b"secret");
        let members = Members::new(alloc::vec![(DEFAULT.to_vec(), B)], Vec::new());
        assert_eq!(members.entry(&open, A), B);
        assert_eq!(members.entry(&closed, A), A, "it is nobody before AUTH");
        assert_eq!(Members::default().entry(&open, A), A);
    }
}
