//! Users of the servers: what a client says in AUTH is given on, and its requests go over connections that are logged in with the same words.
//!
//! ```text
//!   AUTH bob pw ─▶ a user of the proxy? ─ yes ─▶ as ever (`acl`)
//!                     └ no ─▶ [Word] ─ AUTH bob pw ─▶ a server ─┬ WRONGPASS ─▶ its words are the answer, the client is who it was
//!                                                               └ OK ─▶ Action::LogIn ─▶ the engine of this login ─▶ AUTH bob pw ─▶ OK
//! ```
//! A *login* is a name with a password. Each has an engine of its own (see `tenancy`), whose connections are greeted with it and which has no rules: what its
//! clients may do the servers say, also of what scripts do, of channels, and of what the proxy answers (`words`).
//!
//! Not here: which engines there are (the caller), what is asked of servers for it (`words`).
//!
//! Invariant: a client in the engine of a login is that user, and a server said that the name and the password which that very client told are right.

pub(crate) mod words;

use crate::acl::{DEFAULT, Digest, Users};
use crate::client::{Client, Hold};
use crate::command::{CommandId, ids};
use crate::elsewhere::Order;
use crate::engine::{Action, Engine};
use crate::ids::ClientId;
use crate::limits::LOGIN_BYTES_MAX;
use crate::local::Call;
use crate::near;
use crate::node::LoginAnswer;
use crate::reject;
use crate::request::Step;
use crate::settings::{Node, Password, ReadsElsewhere, Settings};
use crate::tenancy::TenantId;
use crate::time::Time;
use crate::upstream::UpstreamKey;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A name and a password as a client said them. Two are the same if both are.
#[derive(Clone, Debug)]
pub struct Said {
    /// `None`: the password alone, which is that of `default`.
    name: Option<Box<[u8]>>,
    password: Password,
    digest: Digest,
}

impl PartialEq for Said {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.digest)
    }
}

impl Eq for Said {}

impl Said {
    /// What stands in `AUTH [name] password`.
    #[must_use]
    pub fn new(name: Option<&[u8]>, password: &[u8]) -> Self {
        let digest = Digest::of_login(name.unwrap_or(DEFAULT), password);
        Self { name: name.map(Into::into), password: Password::new(password), digest }
    }

    /// Whose name it is.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or(DEFAULT)
    }

    /// Tells logins apart.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether it is the one with this digest, in a time that tells nothing.
    #[must_use]
    pub fn is(&self, other: &Digest) -> bool {
        self.digest.is(other)
    }

    /// The words for a server.
    fn request(&self) -> Vec<&[u8]> {
        let name = self.name.as_deref();
        core::iter::once(&b"AUTH"[..]).chain(name).chain([self.password.bytes()]).collect()
    }

    fn greets(&self, node: &mut Node) {
        node.user = (self.name() != DEFAULT).then(|| self.name().to_vec());
        node.password = Some(self.password.clone());
    }
}

/// Whose engine it is, if it is that of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Who.
    pub said: Said,
    /// The tenant whose servers these are.
    pub base: TenantId,
    /// The proxy's own users. `Settings::users` has the one user of the login, and a `default` that nobody is.
    pub users: Arc<Users>,
}

impl Settings {
    /// The same for the engine of a login at the servers of this tenant; `None`: the name is one of the proxy's own users, or such logins are not wanted.
    #[must_use]
    pub fn for_login(&self, base: TenantId, said: &Said) -> Option<Self> {
        if !self.passes(said.name()) {
            return None;
        }
        let mut settings = Self {
            users: Arc::new(Users::of_login(said.name())),
            login: Some(Arc::new(Login { said: said.clone(), base, users: self.users.clone() })),
            // What is kept here would outlive the right to read it, and other deployments do not know the user.
            cache: near::Options::default(),
            mirrors: Vec::new(),
            elsewhere: ReadsElsewhere { order: Order::Main, ..ReadsElsewhere::default() },
            ..self.clone()
        };
        said.greets(&mut settings.node);
        for child in settings.shards.iter_mut().flat_map(|shards| &mut shards.children) {
            said.greets(&mut child.node);
        }
        Some(settings)
    }

    /// The users of the proxy, also where clients are those of a login.
    pub(crate) fn proxy_users(&self) -> &Arc<Users> {
        self.login.as_ref().map_or(&self.users, |login| &login.users)
    }

    /// Whether a name is to be judged by the servers. `default` is, unless it has a password here: it is what clients are before they say anything.
    pub(crate) fn passes(&self, name: &[u8]) -> bool {
        self.pass_through
            && match self.proxy_users().get(name) {
                None => true,
                Some(user) => name == DEFAULT && !user.rules().has_password(),
            }
    }

    /// Where the user of the login stands.
    pub(crate) fn login_position(&self) -> u32 {
        let name = self.login.as_ref().map_or(DEFAULT, |login| login.said.name());
        self.users.position(name).unwrap_or(0) as u32
    }

    /// The tenant that takes clients without a login of the servers; `None`: it is such a login's.
    pub(crate) fn own_tenant(&self) -> Option<TenantId> {
        match &self.login {
            Some(_) => None,
            None => Some(self.tenancy.as_ref().map_or(TenantId::DEFAULT, |tenancy| tenancy.own)),
        }
    }
}

/// Who somebody is that told a password.
pub(crate) enum Identified {
    /// This user of the proxy.
    Ours(u32),
    /// The user of this engine's login.
    Theirs,
    /// That is not known yet, or it is nobody; what becomes of the request.
    Not(Step),
}

impl Engine {
    /// Whose password this is. `name`: none was said.
    pub(crate) fn identify(
        &mut self,
        now: Time,
        call: &Call<'_>,
        name: Option<&[u8]>,
        password: &[u8],
    ) -> Identified {
        let passes = self.settings.passes(name.unwrap_or(DEFAULT));
        let users = self.settings.proxy_users();
        let ours = match name {
            // Who has a password here needs no server, and without one `default` would be anybody.
            Some(DEFAULT) | None if passes => users.whose_password(password),
            None => users.authenticate_alone(password),
            Some(name) => users.authenticate(name, password),
        };
        match ours {
            Some(user) => Identified::Ours(user),
            None if !passes || name.map_or(0, <[u8]>::len) + password.len() > LOGIN_BYTES_MAX => {
                Identified::Not(self.wrong_password(now, call, name, reject::WRONGPASS.as_bytes()))
            }
            None => self.identify_there(now, call, name, password),
        }
    }

    /// The same by a server.
    fn identify_there(
        &mut self,
        now: Time,
        call: &Call<'_>,
        name: Option<&[u8]>,
        password: &[u8],
    ) -> Identified {
        let said = Said::new(name, password);
        let is_here = self.settings.login.as_ref().is_some_and(|login| login.said == said);
        if !is_here && let Some(why) = self.cannot_log_in(call) {
            return Identified::Not(self.refuse(call, &why));
        }
        if call.inside.is_some() {
            // It cannot wait there for a server, and it is that user already, by a password that was right.
            return Identified::Theirs;
        }
        match self.word_on(now, call.id, &said.digest) {
            None => Identified::Not(self.ask_who(now, call, said)),
            Some(Err(error)) => Identified::Not(self.wrong_password(now, call, name, &error)),
            Some(Ok(())) if is_here => Identified::Theirs,
            Some(Ok(())) => Identified::Not(self.begin_log_in(call, said)),
        }
    }

    fn begin_log_in(&mut self, call: &Call<'_>, said: Said) -> Step {
        let Some(client) = self.clients.get_mut(call.id) else { return Step::Gone };
        if let Some(error) = client.identity.move_refused.take() {
            return self.refuse(call, error);
        }
        if client.places.open() > 0 {
            return Step::Hold(Hold::Drained);
        }
        self.actions.push_back(Action::LogIn(call.id, Box::new(said)));
        Step::Hold(Hold::Moving)
    }

    /// Why a client cannot go over to a login now.
    fn cannot_log_in(&self, call: &Call<'_>) -> Option<String> {
        let client = self.clients.get(call.id)?;
        let base = match &self.settings.login {
            Some(login) => login.base,
            None => self.settings.own_tenant()?,
        };
        if self.tenant_without_user(client) != base {
            return Some(reject::LOGIN_ELSEWHERE.into());
        }
        self.cannot_move(call, reject::OTHER_LOGIN)
    }

    /// Where a client belongs that is no user of the proxy.
    fn tenant_without_user(&self, client: &Client) -> TenantId {
        let members = self.settings.tenancy.as_ref().map(|tenancy| &tenancy.members);
        let of_name = members.and_then(|members| members.of_name(&client.identity.name));
        // What it is called later leads nowhere else (see `unless_it_stays`).
        let here = self.settings.login.as_ref().map(|login| login.base);
        here.or(of_name).unwrap_or(client.identity.home)
    }

    /// Whether this is ACL of a client whose user the servers know, and not the proxy.
    pub(crate) fn asks_servers_of_users(&self, command: Option<CommandId>, args: &[&[u8]]) -> bool {
        command == Some(ids::ACL) && args.len() > 1 && self.settings.login.is_some()
    }

    /// A connection of a login is ready.
    pub(crate) fn note_login_taken(&mut self, key: &UpstreamKey) {
        if self.settings.login.is_some()
            && key.lane.carries_requests()
            && let Some(node) = self.nodes.get_mut(key.node)
        {
            node.login = LoginAnswer::Taken;
        }
    }

    /// A server refused what the connections of this login say first. Where it had taken it before, the login is over, and so are its clients: a server closes
    /// those of a user that it removes, too.
    pub(crate) fn login_refused(&mut self, node: crate::ids::NodeId, error: &[u8]) {
        const REFUSALS: [&[u8]; 3] = [b"WRONGPASS", b"NOAUTH", b"ERR invalid password"];
        if self.settings.login.is_none()
            || self.draining
            || !REFUSALS.iter().any(|begin| error.starts_with(begin))
        {
            return;
        }
        if !self.is_one() {
            let Some(node) = self.nodes.get_mut(node) else { return };
            if node.login != LoginAnswer::Taken {
                node.login = LoginAnswer::Refused;
                return;
            }
        }
        self.stats.logins_revoked += 1;
        self.dismiss("the servers take its password no more");
    }

    /// A connection to the node failed. The caller reports a refused login after this call.
    pub(crate) fn forget_refusal(&mut self, node: crate::ids::NodeId) {
        if let Some(node) = self.nodes.get_mut(node).filter(|node| node.login != LoginAnswer::Taken)
        {
            node.login = LoginAnswer::Open;
        }
    }

    /// Whether a node is up and refuses the login of this engine: a wait for a new primary would not change that.
    pub(crate) fn refuses_login(&self, node: crate::ids::NodeId) -> bool {
        self.nodes.get(node).is_some_and(|node| node.login == LoginAnswer::Refused)
    }

    /// What an engine knows of its servers, for that of a login which begins.
    pub fn brief(&mut self, now: Time, of: &Self) {
        self.generation = of.generation;
        if self.learned.is_none() {
            self.learned.clone_from(&of.learned);
            self.learning.is_told(self.learned.is_some());
        }
        let told: Vec<_> = of.told().collect();
        if told.is_empty() {
            (0..self.router.pools.len()).for_each(|pool| self.want_topology(pool as u16));
        }
        for news in told {
            self.handle_news(now, news);
        }
    }

    /// From where a client comes.
    #[must_use]
    pub fn client_address(&self, id: ClientId) -> Option<&str> {
        self.clients.get(id).map(|client| &*client.identity.addr)
    }

    /// Numbers of questions begin here. No two engines that have the same place one after the other may use the same.
    pub fn begin_tickets(&mut self, first: u64) {
        self.next_ticket = first;
    }

    /// Checks the invariant.
    pub(crate) fn check_login(&self) {
        let Some(login) = &self.settings.login else { return };
        for (_, client) in self.clients.iter() {
            let is_it = self.user_of(client).is_some_and(|user| user.name() == login.said.name());
            let leaves =
                client.hold == Hold::Moving || client.closing || !client.is_authenticated();
            assert!(is_it || leaves, "somebody else over the connections of a login");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_login_is_its_name_and_its_password() {
        let said = Said::new(Some(b"bob"), b"pw");
        assert_eq!(said, Said::new(Some(b"bob"), b"pw"));
        for (name, password) in [
            (Some(&b"bob"[..]), &b"pW"[..]),
            (Some(b"bobp"), b"w"),
            (Some(b""), b"bobpw"),
            (None, b"pw"),
        ] {
            assert_ne!(said, Said::new(name, password));
        }
        assert_eq!(Said::new(None, b"pw"), Said::new(Some(b"default"), b"pw"), "the same user");
        assert_eq!(said.request(), [&b"AUTH"[..], b"bob", b"pw"]);
        assert_eq!(Said::new(None, b"pw").request(), [&b"AUTH"[..], b"pw"]);
        let shown = format!("{said:?}");
        assert!(!shown.contains("pw") && !shown.contains("112"), "{shown}");
    }

    #[test]
    fn whom_the_servers_judge() {
        let mut settings = Settings { pass_through: true, ..Settings::default() };
        let mut users = Users::default();
        users.set(b"ann", &[b"on", b">x"]).unwrap();
        settings.users = Arc::new(users.clone());
        assert!(settings.passes(b"bob") && settings.passes(DEFAULT) && !settings.passes(b"ann"));
        users.change(DEFAULT, |rules| rules.set_password(b"x"));
        settings.users = Arc::new(users);
        assert!(settings.passes(b"bob") && !settings.passes(DEFAULT));
        settings.pass_through = false;
        assert!(
            !settings.passes(b"bob")
                && settings.for_login(TenantId::DEFAULT, &Said::new(Some(b"bob"), b"pw")).is_none()
        );
    }

    #[test]
    fn connections_of_a_login_are_greeted_with_it_and_nobody_is_let_in_here() {
        let base = Settings { pass_through: true, ..Settings::default() };
        let said = Said::new(Some(b"bob"), b"pw");
        let settings = base.for_login(TenantId(3), &said).unwrap();
        assert_eq!(settings.node.user.as_deref(), Some(&b"bob"[..]));
        assert!(settings.node.password.as_ref().is_some_and(|password| password.matches(b"pw")));
        assert_eq!(settings.own_tenant(), None);
        for (name, password) in [(&b"bob"[..], &b"pw"[..]), (b"bob", b""), (DEFAULT, b"")] {
            assert_eq!(settings.users.authenticate(name, password), None);
        }
        assert!(!settings.users.is_open());
        assert!(settings.users.get(b"bob").is_some_and(|bob| bob.rules().allows_everything()));
        let default = base.for_login(TenantId(3), &Said::new(None, b"pw")).unwrap();
        assert!(default.node.user.is_none() && !default.users.is_open());
        assert_eq!(base.for_login(TenantId(3), &said).unwrap().users, settings.users);
    }
}
