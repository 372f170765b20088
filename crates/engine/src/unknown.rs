//! Commands and subcommands that neither the table nor the servers' `COMMAND` knows.
//!
//! They never travel over a connection that clients share: a server may take such a name for a command that changes the connection's state,
//! and other clients would get each other's replies.
//!
//! ```text
//!   FOO x ─▶ route: Unknown ─▶ may it be a name at all? ─ no (a NUL, a bar, too long) ──────▶ the server's error, from here
//!                                 └ yes ─▶ COMMAND INFO foo ─▶ one server of each pool ┬ nobody has it ─▶ the same error
//!                                             │ the client waits: Hold::Lookup        ├ it is learnt ─▶ as any command
//!                                             └ up to LOOKUP_NAMES_MAX names in one   └ refused, renamed, not answered in LOOKUP_WAIT_MS ─▶ Apart
//!   FOO x ─▶ route: Apart (no COMMAND reply was read) ─▶ a connection of its own, closed behind the reply
//! ```
//! So a module that was loaded after `COMMAND` was read works at once, and a flood of names costs a server one small request every
//! [`LOOKUP_EVERY_MS`].
//!
//! Not here: what is learnt (`command::learned`), the error texts (`reject`).
//!
//! Invariant: a client that is held with [`Hold::Lookup`] stands in `waiting` or in `queue`, or is about to be resumed.

use crate::client::Hold;
use crate::command::learned::Told;
use crate::command::{self, Class, Learned};
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::lease::{self, Use};
use crate::limits::{
    LOOKUP_EVERY_MS, LOOKUP_KEPT_MS, LOOKUP_NAMES_MAX, LOOKUP_WAIT_MS, LOOKUP_WAITERS_MAX,
    LOOKUPS_KEPT_MAX,
};
use crate::reject::{self, Wording};
use crate::request::Step;
use crate::route::{self, Known, Way};
use crate::scatter::Wish;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Lane, Role, Upstream};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use resp::value;

/// A name that servers are asked for, in lower case: a command's, or `container|subcommand`.
type Name = Box<[u8]>;

/// What servers say of a name. The greatest counts of what several say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    /// Nobody said anything.
    Unsaid,
    /// There is no such command.
    Absent,
    /// There is one, and nothing is known of it: it was renamed.
    Renamed,
    /// It was learnt.
    Known,
}

/// The names that servers are asked for, and who waits for the answers.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// Number of the round under way, or of the last one.
    round: u32,
    /// Its names, and what is found of each; none: no round is under way.
    asked: Vec<(Name, Found)>,
    /// Servers that have not answered it.
    open: usize,
    /// It ends at the latest.
    ends_at: Time,
    /// The names of the next round, and when it may begin.
    next: BTreeSet<Name>,
    next_at: Time,
    /// Who waits for one of these names.
    waiting: Vec<ClientId>,
    /// Who waits for room among the names.
    queue: VecDeque<ClientId>,
    /// What was found, and when: [`Found::Absent`], or nothing that would make the command known.
    kept: BTreeMap<Name, (Found, Time)>,
}

impl Lookups {
    /// What was found of this name lately.
    fn kept(&self, now: Time, name: &[u8]) -> Option<Found> {
        let (found, at) = self.kept.get(name)?;
        (now.since(*at) < LOOKUP_KEPT_MS * 1_000).then_some(*found)
    }

    fn keep(&mut self, now: Time, name: Name, found: Found) {
        if self.kept.len() >= LOOKUPS_KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert(name, (found, now));
    }

    fn is_under_way(&self) -> bool {
        !self.asked.is_empty()
    }

    fn awaits(&self, name: &[u8]) -> bool {
        self.next.contains(name) || self.asked.iter().any(|(asked, _)| **asked == *name)
    }

    /// What servers have may be other from now on: they are asked again.
    pub(crate) fn forget_kept(&mut self) {
        self.kept.clear();
    }

    /// A connection is gone that owed the answer of this round.
    pub(crate) fn is_lost(&mut self, round: u32) {
        if round == self.round {
            self.open = self.open.saturating_sub(1);
        }
    }

    /// Whether a round has nothing to wait for any more.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_under_way() && self.open == 0
    }
}

impl Engine {
    /// What becomes of a request whose command, or subcommand, nobody knows; `None`: it goes apart.
    pub(crate) fn unless_apart(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
    ) -> Option<Step> {
        let found = self.look_up(now, id, known, args);
        if !matches!(found, Lookup::Apart) {
            // It was to go apart when it came first, before `COMMAND` was read.
            self.drop_unused_lease(id);
        }
        match found {
            Lookup::Absent => {
                let silent = self.is_silent(id);
                self.stats.command(known.id).rejected += 1;
                self.mark_refused(id);
                let mut error = Vec::new();
                self.write_unknown(&mut error, known, args);
                self.reply(id, silent, |out| out.extend_from_slice(&error));
                self.end_skip(id, silent);
                Some(Step::Done)
            }
            Lookup::Wait => Some(Step::Hold(Hold::Lookup)),
            Lookup::Apart => None,
        }
    }

    /// What is known of a name that is in no table, or asks servers for it.
    pub(crate) fn look_up(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
    ) -> Lookup {
        if self.hides_cluster(known.id) {
            // The proxy answers for the whole container.
            return Lookup::Absent;
        }
        let Some(learned) = self.learned.as_ref().filter(|_| known.way == Way::Unknown) else {
            return if known.way == Way::Apart { Lookup::Apart } else { Lookup::Absent };
        };
        let Some(name) = name_of(known, args, learned) else { return Lookup::Absent };
        match self.learning.lookups.kept(now, &name) {
            Some(Found::Absent) => return Lookup::Absent,
            Some(_) => return Lookup::Apart,
            None => {}
        }
        let lookups = &mut *self.learning.lookups;
        let has_room = lookups.next.len() < LOOKUP_NAMES_MAX;
        if lookups.awaits(&name) {
            lookups.waiting.push(id);
        } else if has_room {
            lookups.next.insert(name);
            lookups.waiting.push(id);
        } else if lookups.queue.len() < LOOKUP_WAITERS_MAX {
            lookups.queue.push_back(id);
        } else {
            // Whoever makes so many names must not keep a new command from being known.
            self.learn_again(now);
            return Lookup::Absent;
        }
        Lookup::Wait
    }

    /// Whether servers look the second word of such a request up, too.
    pub(crate) fn is_container(&self, known: &Known, name: &[u8]) -> bool {
        match known.id {
            Some(id) => id.row().is_container(),
            None => {
                let learned = self.learned.as_ref().and_then(|learned| learned.lookup(name));
                learned.is_some_and(|command| command.is_container)
            }
        }
    }

    /// The error for a command, or a subcommand, that no server has, in the server's words.
    pub(crate) fn write_unknown(&self, out: &mut Vec<u8>, known: &Known, args: &[&[u8]]) {
        let wording = if self.facts.is_since(7, 0) { Wording::Present } else { Wording::Before7 };
        let at = known.id.map_or(1, |id| route::sub_at(id, args.len(), |n| args[n]));
        match args.get(at).filter(|_| self.is_container(known, args[0])) {
            Some(sub) => reject::unknown_subcommand_of(out, args[0], sub, wording),
            None => reject::unknown_command_of(out, args[0], args[1..].iter().copied(), wording),
        }
    }

    /// A request over a connection of the client's own that is closed behind the reply. Its client waits for that, as nobody knows what the
    /// command does to what comes next.
    pub(crate) fn send_apart(&mut self, now: Time, wish: &Wish<'_>) -> Step {
        let Some(client) = self.clients.get(wish.id) else { return Step::Gone };
        if client.places.open() > 0 {
            return Step::Hold(Hold::Drained);
        }
        let node = match self.node_of(now, wish) {
            Ok(node) => node,
            Err(step) => return step,
        };
        match self.lease_to(now, wish.id, node, Use::Blocking) {
            lease::Way::Hold(hold) => Step::Hold(hold),
            lease::Way::Down(error) => self.refuse_leased(now, wish, node, &error),
            lease::Way::Ready(upstream) => {
                self.write_leased(now, wish.id, upstream, wish.frame, wish.row, wish.silent);
                self.note_awaited(wish.id, wish.frame);
                if let Some(client) = self.clients.get_mut(wish.id) {
                    client.hold = Hold::Drained;
                }
                Step::Done
            }
        }
    }

    /// Something went over this client's own connection that may have changed it: nobody else gets it.
    pub(crate) fn spoil_lease(&mut self, id: ClientId) {
        if let Some(lease) = self.clients.get_mut(id).and_then(|client| client.lease.as_mut()) {
            lease.unclean = true;
        }
    }

    /// Whether this may go over a connection that clients share; for debug builds.
    pub(crate) fn may_share(&self, args: &[&[u8]]) -> bool {
        let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
        !matches!(known.way, Way::Unknown | Way::Apart)
    }

    /// A server answered a round, or will not (`None`).
    pub(crate) fn lookup_answered(&mut self, round: u32, reply: Option<&[u8]>) {
        let lookups = &mut *self.learning.lookups;
        if round != lookups.round || lookups.open == 0 {
            return;
        }
        lookups.open -= 1;
        let Some(Ok(Some((reply, _)))) = reply.map(value::parse) else { return };
        let entries = reply.as_list().filter(|entries| entries.len() == lookups.asked.len());
        let (Some(entries), Some(learned)) = (entries, &mut self.learned) else { return };
        for ((name, found), entry) in lookups.asked.iter_mut().zip(entries) {
            let told = match learned.add(name, entry) {
                Told::Absent => Found::Absent,
                Told::Other => Found::Renamed,
                Told::Known => Found::Known,
            };
            *found = told.max(*found);
        }
    }

    /// When there is something to do for names.
    pub(crate) fn lookups_at(&self) -> Option<Time> {
        let lookups = &*self.learning.lookups;
        if lookups.is_under_way() {
            return Some(lookups.ends_at);
        }
        (!lookups.next.is_empty() || !lookups.queue.is_empty()).then_some(lookups.next_at)
    }

    /// Ends a round that is answered or takes too long, and begins the next one.
    pub(crate) fn lookups_due(&mut self, now: Time) {
        let lookups = &*self.learning.lookups;
        if lookups.is_answered() || (lookups.is_under_way() && lookups.ends_at <= now) {
            self.end_lookups(now);
        }
        if self.learning.lookups.is_under_way() || self.learning.lookups.next_at > now {
            return;
        }
        if self.learning.lookups.next.is_empty() {
            return self.wake_lookup_queue();
        }
        self.begin_lookups(now);
    }

    fn begin_lookups(&mut self, now: Time) {
        let servers = self.servers_to_ask();
        let ends_at = now.plus_ms(self.patience_ms().min(LOOKUP_WAIT_MS));
        let lookups = &mut *self.learning.lookups;
        lookups.round = lookups.round.wrapping_add(1);
        lookups.asked = core::mem::take(&mut lookups.next)
            .into_iter()
            .map(|name| (name, Found::Unsaid))
            .collect();
        lookups.next_at = now.plus_ms(LOOKUP_EVERY_MS);
        (lookups.open, lookups.ends_at) = (servers.len(), ends_at);
        if servers.is_empty() {
            return self.end_lookups(now);
        }
        let round = lookups.round;
        let names: Vec<Name> = lookups.asked.iter().map(|(name, _)| name.clone()).collect();
        let mut args: Vec<&[u8]> = Vec::with_capacity(names.len() + 2);
        args.extend([&b"COMMAND"[..], b"INFO"]);
        args.extend(names.iter().map(|name| &**name));
        for server in servers {
            self.say_own(now, server, OwnCommand::Lookup(round), &args);
        }
    }

    /// Of each pool one connection to a server that takes requests just now, another one in each round.
    fn servers_to_ask(&self) -> Vec<UpstreamId> {
        let mut pools: BTreeMap<u16, Vec<UpstreamId>> = BTreeMap::new();
        let takes = |up: &Upstream| {
            up.is_ready()
                && up.role == Role::Shared
                && up.key.lane == Lane::Shared
                && up.stall.is_none()
                && !self.is_left(up.key.node)
        };
        for (id, upstream) in self.upstreams.iter().filter(|(_, up)| takes(up)) {
            let pool = self.nodes.get(upstream.key.node).map_or(0, |node| node.pool);
            pools.entry(pool).or_default().push(id);
        }
        let round = self.learning.lookups.round as usize;
        pools.into_values().map(|servers| servers[round % servers.len()]).collect()
    }

    fn end_lookups(&mut self, now: Time) {
        let lookups = &mut *self.learning.lookups;
        for (name, found) in core::mem::take(&mut lookups.asked) {
            if found != Found::Known {
                lookups.keep(now, name, found);
            }
        }
        lookups.open = 0;
        let answered = core::mem::take(&mut lookups.waiting);
        // Those who have waited for room come before the next names of those who had it.
        self.wake_lookup_queue();
        answered.into_iter().for_each(|id| self.wake_for_lookup(id));
    }

    /// The next of those that wait for room look again.
    fn wake_lookup_queue(&mut self) {
        let room = LOOKUP_NAMES_MAX.min(self.learning.lookups.queue.len());
        for id in self.learning.lookups.queue.drain(..room).collect::<Vec<_>>() {
            self.wake_for_lookup(id);
        }
    }

    fn wake_for_lookup(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id).filter(|client| client.hold == Hold::Lookup)
            && !core::mem::replace(&mut client.queued, true)
        {
            self.resume.push_back(id);
        }
    }

    /// The client is gone.
    pub(crate) fn forget_lookup_of(&mut self, id: ClientId) {
        self.learning.lookups.waiting.retain(|waiting| *waiting != id);
        self.learning.lookups.queue.retain(|waiting| *waiting != id);
    }

    /// Other servers: whoever waits looks again.
    pub(crate) fn forget_lookups(&mut self) {
        let lookups = core::mem::take(&mut *self.learning.lookups);
        // A late answer of the servers before must not count.
        (self.learning.lookups.round, self.learning.lookups.next_at) =
            (lookups.round, lookups.next_at);
        lookups.waiting.into_iter().chain(lookups.queue).for_each(|id| self.wake_for_lookup(id));
    }

    /// Checks the invariant, and the bounds.
    pub(crate) fn check_lookups(&self) {
        let Lookups { asked, next, waiting, queue, kept, .. } = &*self.learning.lookups;
        assert!(asked.len() <= LOOKUP_NAMES_MAX && next.len() <= LOOKUP_NAMES_MAX);
        assert!(queue.len() <= LOOKUP_WAITERS_MAX && kept.len() <= LOOKUPS_KEPT_MAX);
        let listed: BTreeSet<ClientId> = waiting.iter().chain(queue).copied().collect();
        for (id, client) in self.clients.iter().filter(|(_, one)| one.hold == Hold::Lookup) {
            assert!(
                listed.contains(&id) || client.queued,
                "a client waits for a name and nobody asks for it"
            );
        }
    }
}

/// See [`Engine::look_up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// No server has it.
    Absent,
    /// Servers are asked.
    Wait,
    /// Servers do not say: it goes over a connection that is closed afterwards.
    Apart,
}

/// The name to ask servers for; `None`: none of them can have it.
fn name_of(known: &Known, args: &[&[u8]], learned: &Learned) -> Option<Name> {
    let container = match known.id {
        Some(id) if id.row().class == Class::Local => return None,
        Some(id) => Some(id.name().as_bytes()),
        None => {
            let command = learned.lookup(args[0]);
            command.filter(|command| command.is_container).map(|command| &*command.name)
        }
    };
    let name = match (container, args.get(1)) {
        (Some(container), Some(sub)) if command::may_be_name(sub) => {
            [container, b"|", &sub.to_ascii_lowercase()].concat()
        }
        (None, _) if command::may_be_name(args[0]) => args[0].to_ascii_lowercase(),
        _ => return None,
    };
    Some(name.into())
}
