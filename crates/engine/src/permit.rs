//! What clients may do: each is a user, and a user that is confined has its requests looked at.
//!
//! ```text
//!   Access::Nothing     AUTH and its kin, nothing else         Access::Everything   no look at any request
//!   Access::Confined    each request: command, keys, channels; on the short way where it stands (`forward_run`), else here
//! ```
//! What is refused has the order and the words of a server: an unknown command, the number of arguments, then permissions. Where versions
//! differ in words, it is the version of the server behind that counts.
//!
//! Where there are policies everybody counts as confined, so that their requests are looked at for those, too (`policy`).
//!
//! Not here: what rules mean (`acl`), the commands `AUTH`, `HELLO` and `ACL` (`local`).
//!
//! Invariant: `client.user` and `client.access` agree with `settings.users` between any two calls.

use crate::acl::log::{Entry, Reason};
use crate::acl::{Called, Denied, User, Users};
use crate::client::{Access, Client};
use crate::command::ids::EXEC;
use crate::command::keys::KeyRule;
use crate::command::{CommandId, Flags, Learned, lookup_sub};
use crate::elsewhere::Elsewhere;
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::local::{arity_fits, slowlog};
use crate::mirror::shadow::may_be_compared;
use crate::plain::Parts;
use crate::policy::{Kind as Rule, Short};
use crate::pubsub::Kind;
use crate::reject;
use crate::request::Step;
use crate::route::{self, Known};
use crate::settings::Settings;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::{Args, Request};

/// A server has no such command, or no such subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown;

/// The command of a request, as exactly as permissions are said.
pub(crate) fn called<'a>(
    known: &Known,
    args: &[&[u8]],
    learned: Option<&'a Learned>,
) -> Result<Called<'a>, Unknown> {
    let Some(id) = known.id else {
        let learned = learned.and_then(|learned| learned.lookup(args[0]));
        return learned.map(Called::Learned).ok_or(Unknown);
    };
    if slowlog::is_of_servers(Some(id), args) {
        return lookup_sub(id, args[2]).map(Called::Row).ok_or(Unknown);
    }
    match args.get(1) {
        Some(word) if id.row().is_container() => {
            lookup_sub(id, word).map(Called::Row).ok_or(Unknown)
        }
        _ => Ok(Called::Row(id)),
    }
}

impl Engine {
    /// The client is this user from now on.
    pub(crate) fn become_user(&mut self, id: ClientId, user: u32) {
        if let Some(client) = self.clients.get_mut(id) {
            client.user = user;
            client.access = access_of(&self.settings, user);
            client.identity.unknown_since = None;
        }
    }

    /// A client that said nothing yet.
    pub(crate) fn enter_as_default(settings: &Settings, client: &mut Client) {
        let users = &settings.users;
        client.user = users.default_position();
        client.access = match users.is_open() {
            true => access_of(settings, client.user),
            false => Access::Nothing,
        };
    }

    /// Who the client is.
    pub(crate) fn user_of(&self, client: &Client) -> Option<&User> {
        self.settings.users.at(client.user as usize)
    }

    /// What becomes of a request of a client that is confined; `None`: it goes on.
    pub(crate) fn unless_permitted(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
    ) -> Option<Step> {
        let is_inside = self.is_queueing(id);
        if is_inside && known.id.is_some_and(|id| id.row().flags.has(Flags::NO_MULTI)) {
            // It is refused for another reason.
            return None;
        }
        let refusal = self.refusal(id, known, args)?;
        let silent = self.is_silent(id);
        self.stats.command(known.id).rejected += 1;
        if let Refusal::Denied(denied, object) = &refusal {
            self.note_denied(now, id, (*denied).into(), object, is_inside);
        }
        let mut error = Vec::new();
        self.write_refusal(&mut error, id, &refusal, args);
        self.mark_refused(id);
        if known.id == Some(EXEC) {
            if is_inside {
                self.abandon(now, id);
            }
            error = reject::exec_aborted(&error);
        }
        self.reply(id, silent, |out| out.extend_from_slice(&error));
        self.end_skip(id, silent);
        Some(Step::Done)
    }

    /// Why a request of this client is refused, if it is.
    fn refusal(&self, id: ClientId, known: &Known, args: &[&[u8]]) -> Option<Refusal> {
        let client = self.clients.get(id)?;
        let user = self.user_of(client)?;
        if user.allows_everything() {
            // It is looked at for a policy or a mirror.
            return None;
        }
        let called = match called(known, args, self.learned.as_ref()) {
            Ok(called) => called,
            Err(Unknown) => return Some(Refusal::Unknown),
        };
        let unchecked_scripts = self.settings.users.unchecked_scripts;
        let denied = user.rules().check(called, args.iter().copied(), unchecked_scripts).err()?;
        // The word SERVER does not go to the server.
        let count = args.len() - usize::from(slowlog::is_of_servers(known.id, args));
        if let Called::Row(row) = called
            && !arity_fits(row, count)
        {
            return Some(Refusal::Arity(row));
        }
        let object = match (denied, called) {
            (Denied::Key(at) | Denied::Channel(at), _) => args[at].to_vec(),
            (_, Called::Row(row)) => row.name().into(),
            (_, Called::Learned(command)) => command.name.to_vec(),
        };
        Some(Refusal::Denied(denied, object))
    }

    /// Whether a request of this client will be refused: those that watch are not shown it.
    pub(crate) fn is_refused(&self, id: ClientId, client: &Client, args: &[&[u8]]) -> bool {
        let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
        client.access == Access::Confined && self.refusal(id, &known, args).is_some()
    }

    fn write_refusal(&self, out: &mut Vec<u8>, id: ClientId, refusal: &Refusal, args: &[&[u8]]) {
        let user = self.clients.get(id).and_then(|client| self.user_of(client));
        let user = user.map_or(&b""[..], User::name);
        match refusal {
            Refusal::Unknown => {
                let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
                self.write_unknown(out, &known, args);
            }
            Refusal::Arity(row) => reject::arity(out, row.name()),
            Refusal::Denied(denied, object) => {
                reject::not_permitted(out, *denied, user, object, self.facts.is_since(7, 2));
            }
        }
    }

    /// A command that is never forwarded, or needs a connection that this client does not get.
    pub(crate) fn refuse_row(
        &mut self,
        id: ClientId,
        row: Option<CommandId>,
        count: usize,
        silent: bool,
    ) -> Step {
        let name = row.map_or("command", CommandId::name);
        let fits = row.is_none_or(|command| arity_fits(command, count));
        self.stats.command(row).rejected += 1;
        self.reply(id, silent, |out| match fits {
            true => reject::refused(out, name),
            false => reject::arity(out, name),
        });
        Step::Done
    }

    /// Something was refused: it stands in `ACL LOG`.
    pub(crate) fn note_denied(
        &mut self,
        now: Time,
        id: ClientId,
        reason: Reason,
        object: &[u8],
        is_inside: bool,
    ) {
        let Some(client) = self.clients.get(id) else { return };
        let user = self.user_of(client).map_or(&b""[..], User::name).to_vec();
        self.note_denied_to(now, id, reason, object, (user, is_inside));
    }

    /// The same for whoever somebody is or wanted to be.
    pub(crate) fn note_denied_to(
        &mut self,
        now: Time,
        id: ClientId,
        reason: Reason,
        object: &[u8],
        (user, is_inside): (Vec<u8>, bool),
    ) {
        let client = self.client_line(now, id);
        let object = object.to_vec();
        let (count, first_at, at) = (1, now, now);
        let entry = Entry { id: 0, count, reason, is_inside, object, user, first_at, at, client };
        self.acl.log.add(entry, (self.settings.worker, self.settings.workers));
    }

    /// Of a large request only the first arguments are here. Whether they tell that it is permitted, whatever else stands in it.
    pub(crate) fn permits_head(&self, client: &Client, known: &Known, head: &[&[u8]]) -> bool {
        if client.access != Access::Confined {
            return true;
        }
        if self.user_of(client).is_some_and(User::allows_everything) {
            return true;
        }
        let (Some(row), Some(user)) = (known.id, self.user_of(client)) else { return false };
        let is_told = row.row().only_key_at().is_some_and(|at| at < head.len())
            && row.row().key_rule == KeyRule::Declared
            && !row.row().is_container();
        is_told && user.rules().check(Called::Row(row), head.iter().copied(), false).is_ok()
    }

    /// Applies changed users and rules: closes clients whose user is gone, whose channels are refused now, or whose long-running request is refused now.
    pub(crate) fn change_users(&mut self, old: &Arc<Users>) {
        if Arc::ptr_eq(old, &self.settings.users) {
            return;
        }
        let users = self.settings.users.clone();
        let is_open = users.is_open();
        for id in self.clients.ids() {
            let Some(client) = self.clients.get_mut(id) else { continue };
            let before = old.at(client.user as usize);
            let Some(user) = before.and_then(|before| users.follow(before)) else {
                self.drop_parked(Some(id));
                self.close_without_user(id);
                continue;
            };
            client.user = user;
            if client.access != Access::Nothing || is_open {
                client.access = access_of(&self.settings, user);
            }
            let (Some(before), Some(after)) = (before, users.at(user as usize)) else { continue };
            if before.revision() == after.revision() {
                continue;
            }
            if !after.allows_everything() {
                self.mark_rules_changed(id);
            }
            if self.listens_in_vain(id, before, after) {
                self.close_client(id, Some("its user may not listen to these channels any more"));
            } else if self.awaits_in_vain(id) {
                self.drop_parked(Some(id));
                self.close_client(id, Some("its user may not do any more what it waits for"));
            }
        }
    }

    /// There are policies now, or none any more.
    pub(crate) fn renew_access(&mut self) {
        for (_, client) in self.clients.iter_mut() {
            if client.access != Access::Nothing {
                client.access = access_of(&self.settings, client.user);
            }
        }
    }

    /// See the module.
    pub(crate) fn check_users(&self) {
        for (_, client) in self.clients.iter() {
            let user = self.user_of(client);
            assert!(user.is_some(), "a client that is nobody");
            let is_seen = self.settings.looks_at_requests();
            let everything = user.is_some_and(User::allows_everything) && !is_seen;
            let agrees = client.access == Access::Nothing
                || (client.access == Access::Everything) == everything;
            assert!(agrees, "a client may do other than its user");
        }
    }

    fn close_without_user(&mut self, id: ClientId) {
        const CAUSE: &str = "its user is gone";
        let Some(client) = self.clients.get_mut(id) else { return };
        client.access = Access::Nothing;
        client.user = self.settings.users.default_position();
        self.sweep.look_for_unknown(Time::default());
        if self.asked.is_change_of(id) {
            // It removed itself, and gets the answer before it goes.
            self.tell_closed(id, CAUSE);
            self.begin_close(id);
        } else {
            self.close_client(id, Some(CAUSE));
        }
    }

    /// Whether a client listens to what its user may not any more (`ACLKillPubsubClientsIfNeeded`).
    fn listens_in_vain(&self, id: ClientId, before: &User, after: &User) -> bool {
        let Some(listening) = self.clients.get(id).and_then(|client| client.listening.as_ref())
        else {
            return false;
        };
        let (before, after) = (before.rules(), after.rules());
        let keeps_all = !before.sees_all_channels()
            && before.channels().all(|pattern| after.channels().any(|other| other == pattern));
        if after.sees_all_channels() || keeps_all {
            return false;
        }
        listening.all().any(|(kind, topic)| {
            !after.allows_topic(self.outward_name(topic), kind == Kind::Pattern)
        })
    }
}

/// Whether this client may send this plain request, and no policy is against it.
pub(crate) fn permits(
    settings: &Settings,
    elsewhere: &mut Option<Box<Elsewhere>>,
    parts: &Parts<'_>,
    command: CommandId,
    (request, frame): (&Request, &[u8]),
) -> bool {
    if let Some(elsewhere) = elsewhere
        && elsewhere.wants(parts.now, command, frame)
    {
        return false;
    }
    allows(settings, parts, command, (request, frame), &[])
}

/// The same, wherever it is answered. Policies of these kinds are dealt with by the caller.
pub(crate) fn allows(
    settings: &Settings,
    parts: &Parts<'_>,
    command: CommandId,
    (request, frame): (&Request, &[u8]),
    beside: &[Rule],
) -> bool {
    if !settings.mirrors.is_empty()
        && (!command.row().reads() || may_be_compared(settings, parts.now, command, frame))
    {
        // What writes is looked at, and some of what reads.
        return false;
    }
    let (users, client) = (&settings.users, &*parts.client);
    // Of a container the second word tells what it is.
    let user = users.at(client.user as usize).filter(|_| !command.row().is_container());
    user.is_some_and(|user| {
        // One who may do everything is looked at for something else.
        user.allows_everything()
            || user
                .rules()
                .check(Called::Row(command), Args::new(frame), users.unchecked_scripts)
                .is_ok()
    }) && settings.policies.as_ref().is_none_or(|policies| {
        let short = || Short::new(settings, client, command, (request, frame), parts.now);
        policies.passes(command, short, beside)
    })
}

/// A plain request that was permitted went on.
#[inline(always)]
pub(crate) fn charge<const CONFINED: bool>(
    settings: &Settings,
    parts: &Parts<'_>,
    command: CommandId,
    request: &Request,
    frame: &[u8],
) {
    if CONFINED
        && let Some(policies) = settings.policies.as_ref().filter(|one| one.has_rate(command))
    {
        policies.charge(&Short::new(settings, parts.client, command, (request, frame), parts.now));
    }
}

/// Why a request is refused.
enum Refusal {
    Unknown,
    Arity(CommandId),
    /// With the command, key or channel.
    Denied(Denied, Vec<u8>),
}

pub(crate) fn access_of(settings: &Settings, user: u32) -> Access {
    let may_all = settings.users.at(user as usize).is_some_and(User::allows_everything);
    match may_all && !settings.looks_at_requests() {
        true => Access::Everything,
        false => Access::Confined,
    }
}
