//! Silent clients (`CLIENT REPLY`) and their requests for long replies.
//!
//! A client that reads replies is slowed down by its own reading; a silent client is not. A server makes no replies for a silent client of its own, but
//! it makes all replies for respool. So a silent client has few requests under way that may have long replies, by the size of its last replies
//! (`Client::silent_window`). Over shared connections, at most [`SILENT_MAX`] silent clients have such requests under way at a node; groups take turns.
//!
//! ```text
//!   a1 … a100: CLIENT REPLY OFF, GET big ×5     a1 … a3 have places, few requests each    a4 … a100 wait
//!   a1 is answered ─▶ a4 has its place          b comes: the fourth place is for other groups
//! ```
//! A client returns its place when all its requests are answered. After [`SILENT_PLACE_MS`] respool takes the place away: a client that also waits for
//! another node, which does not answer, must not keep it. The node of a request is the primary of its first key.
//!
//! Not here: the connection for large replies (`large_replies`).
//!
//! Invariant: at each node, a group holds as many places as it has clients in `places`.

use crate::client::{Client, Hold, ReplyMode};
use crate::command::ids;
use crate::command::{CommandId, Flags};
use crate::engine::Engine;
use crate::ids::{ClientId, ClientKind, NodeId, Slab};
use crate::limits::{SILENT_MAX, SILENT_PLACE_MS};
use crate::route::{Known, Way};
use crate::scatter::keys_of;
use crate::shares::{Group, Held};
use crate::time::Time;
use crate::waiters::{Line, Waiters};
use alloc::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Clients with a place at a node, their groups, and the time at which they took the place.
    places: BTreeMap<(ClientId, NodeId), (Group, Time)>,
    held: BTreeMap<NodeId, Held>,
    waiters: Waiters<NodeId>,
}

impl Silence {
    fn may_have_place(&self, (group, node): &Line<NodeId>) -> bool {
        self.held.get(node).is_none_or(|held| held.has_room(*group, 1, SILENT_MAX))
    }

    /// Takes a place for this client if it is the client's turn; otherwise the client waits.
    fn take_place(&mut self, now: Time, id: ClientId, line: Line<NodeId>) -> bool {
        let (group, node) = line;
        if self.places.contains_key(&(id, node)) {
            return true;
        }
        let room = SILENT_MAX.saturating_sub(self.held.get(&node).map_or(0, Held::total));
        let may = |other: &Line<NodeId>| other.1 == node && self.may_have_place(other);
        if !may(&line) || !self.waiters.is_among_first(id, &line, room, may) {
            self.waiters.enter(id, line, now);
            return false;
        }
        self.waiters.served(id);
        self.places.insert((id, node), (group, now));
        self.held.entry(node).or_default().add(group);
        true
    }

    /// Takes the places of answered, gone and late clients back.
    fn end_places(&mut self, now: Time, clients: &Slab<ClientKind, Client>) {
        let held = &mut self.held;
        self.places.retain(|(id, node), (group, since)| {
            let stays = has_place_until(clients, *id, *since).is_some_and(|until| now < until);
            if !stays && let Some(held) = held.get_mut(node) {
                held.remove(*group);
            }
            stays
        });
        held.retain(|_, held| held.total() > 0);
    }

    /// Checks the invariant; for debug builds.
    pub(crate) fn check(&self) {
        for (node, held) in &self.held {
            let here = self.places.iter().filter(|((_, at), _)| at == node);
            held.check(here.map(|(_, (group, _))| (*group, 1)));
        }
        let places: usize = self.held.values().map(Held::total).sum();
        assert_eq!(places, self.places.len(), "places of silent clients");
    }

    /// The client is gone.
    pub(crate) fn forget(&mut self, id: ClientId) {
        self.waiters.forget(id);
    }
}

/// The end of a client's place; `None`: the client is gone or answered.
fn has_place_until(clients: &Slab<ClientKind, Client>, id: ClientId, since: Time) -> Option<Time> {
    let client = clients.get(id).filter(|client| client.places.open() > 0);
    client.map(|_| since.plus_ms(SILENT_PLACE_MS))
}

impl Engine {
    /// The wait that a silent client owes before this request, if the reply may be long. Requests in a transaction are exempt: their replies are QUEUED, and MULTI
    /// has waited.
    #[cold]
    pub(crate) fn waits_in_silence(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
    ) -> Option<Hold> {
        let client = self.clients.get(id).filter(|client| client.reply_mode != ReplyMode::On)?;
        let is_transaction = client.lease.as_ref().is_some_and(|lease| lease.is_transaction());
        if is_transaction || !self.may_answer_at_length(known, args[0]) {
            return None;
        }
        if client.places.open() >= client.silent_window() {
            return Some(Hold::Drained);
        }
        // Dedicated connections have limits of their own (`lease`).
        if !matches!(known.way, Way::Shared | Way::Unknown) {
            return None;
        }
        let line = (Group::of(client, &self.settings.users), self.node_of_silent(args));
        let Self { grants, clients, .. } = self;
        grants.silence.end_places(now, clients);
        (!grants.silence.take_place(now, id, line)).then_some(Hold::SilentPlace)
    }

    /// The node at which a silent client needs a place.
    fn node_of_silent(&self, args: &[&[u8]]) -> NodeId {
        if self.is_one() {
            return self.first_node;
        }
        let keys = keys_of(args, self.learned.as_ref());
        let place = keys.first().map(|(_, key)| self.router.steady_place(key));
        place.and_then(|place| self.router.node(place)).unwrap_or(self.first_node)
    }

    /// Whether the reply to such a request may be large, whatever its arguments are.
    #[cold]
    fn may_answer_at_length(&self, known: &Known, name: &[u8]) -> bool {
        if !matches!(known.way, Way::Shared | Way::Leased | Way::Apart | Way::Unknown) {
            return false;
        }
        match known.id {
            Some(id) => !id.row().writes() || id.row().is_script() || returns_what_it_keeps(id),
            None => {
                let learned = self.learned.as_ref().and_then(|learned| learned.lookup(name));
                learned.is_none_or(|command| !command.flags.has(Flags::WRITE))
            }
        }
    }

    /// The next time at which a waiting client can have a place.
    pub(crate) fn silent_places_at(&self, now: Time) -> Option<Time> {
        let silence = &self.grants.silence;
        if silence.waiters.is_empty() {
            return None;
        }
        if silence.waiters.any(|line| silence.may_have_place(line)) {
            return Some(now);
        }
        let places = silence.places.iter();
        let ends = places.map(|((id, _), (_, since))| {
            has_place_until(&self.clients, *id, *since).unwrap_or(now)
        });
        ends.min()
    }

    /// Resumes clients for which there is a place now.
    pub(crate) fn run_silence(&mut self, now: Time) {
        if self.grants.silence.waiters.is_empty() {
            return;
        }
        let Self { grants, clients, resume, .. } = self;
        let silence = &mut grants.silence;
        silence.end_places(now, clients);
        for id in silence.waiters.first(SILENT_MAX, |line| silence.may_have_place(line)) {
            match clients.get_mut(id).filter(|client| client.hold == Hold::SilentPlace) {
                Some(client) => {
                    if !core::mem::replace(&mut client.queued, true) {
                        resume.push_back(id);
                    }
                }
                // The client waits for something else by now.
                None => silence.waiters.forget(id),
            }
        }
    }
}

/// Whether a command writes and returns data that it leaves there, so that it may be called again and again for a large reply.
fn returns_what_it_keeps(command: CommandId) -> bool {
    matches!(
        command,
        ids::GEORADIUS
            | ids::GEORADIUSBYMEMBER
            | ids::GETEX
            | ids::HGETEX
            | ids::LMOVE
            | ids::LMOVEM
            | ids::RPOPLPUSH
            | ids::SORT
            | ids::XAUTOCLAIM
            | ids::XCLAIM
            | ids::XREADGROUP
    )
}
