//! Clients that take no replies (`CLIENT REPLY`) and ask for what may be long.
//!
//! A client that takes no replies is slowed by nothing that it would have to read. A server that it is connected to makes no replies for it, but for respool a server
//! makes all of them. So what may answer at length is given on for such a client only while it has few requests under way ([`WINDOW_MIN`]), and over connections that
//! clients share only for a few of these clients at a time ([`SILENT_MAX`], in turn by group).
//!
//! ```text
//!   a1 a2 a3 … a100: CLIENT REPLY OFF, GET big ×5        a1 … a7 have places: four requests each       a8 … a100 wait
//!   a1 is answered ─▶ a8 has its place                   b comes: the eighth place is for other groups
//! ```
//! A place is given back when its client waits for no reply, and after [`SILENT_PLACE_MS`] in any case: a node that does not answer keeps no other client waiting.
//!
//! Not here: connections for large replies (`large_replies`).
//!
//! Invariant: each group holds as many places as clients of it that stand in `places`.

use crate::client::{Client, Hold, ReplyMode};
use crate::command::ids;
use crate::command::{CommandId, Flags};
use crate::engine::Engine;
use crate::ids::{ClientId, ClientKind, Slab};
use crate::limits::{SILENT_MAX, SILENT_PLACE_MS, WINDOW_MIN};
use crate::route::{Known, Way};
use crate::shares::{Group, Held};
use crate::time::Time;
use crate::waiters::{Line, Waiters};
use alloc::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Clients with a place, and since when.
    places: BTreeMap<ClientId, (Group, Time)>,
    held: Held,
    waiters: Waiters<()>,
}

impl Silence {
    fn may_have_place(&self, (group, ()): &Line<()>) -> bool {
        self.held.has_room(*group, 1, SILENT_MAX)
    }

    /// Whether it is the turn of this client, which has a place then.
    fn take_place(&mut self, now: Time, id: ClientId, group: Group) -> bool {
        if self.places.contains_key(&id) {
            return true;
        }
        let line = (group, ());
        let room = SILENT_MAX.saturating_sub(self.held.total());
        let may = |line: &Line<()>| self.may_have_place(line);
        if !may(&line) || !self.waiters.is_among_first(id, &line, room, may) {
            self.waiters.enter(id, line, now);
            return false;
        }
        self.waiters.served(id);
        self.places.insert(id, (group, now));
        self.held.add(group);
        true
    }

    /// Takes places back.
    fn end_places(&mut self, now: Time, clients: &Slab<ClientKind, Client>) {
        let held = &mut self.held;
        self.places.retain(|id, (group, since)| {
            let stays = has_place_until(clients, *id, *since).is_some_and(|until| now < until);
            if !stays {
                held.remove(*group);
            }
            stays
        });
    }

    /// Checks the invariant; for debug builds.
    pub(crate) fn check(&self) {
        self.held.check(self.places.values().map(|(group, _)| (*group, 1)));
        let both = self.places.keys().find(|id| self.waiters.contains(**id));
        assert_eq!(both, None, "a client with a place waits for one");
    }

    /// The client is gone.
    pub(crate) fn forget(&mut self, id: ClientId) {
        self.waiters.forget(id);
    }
}

/// Until when a client has its place; `None`: no longer.
fn has_place_until(clients: &Slab<ClientKind, Client>, id: ClientId, since: Time) -> Option<Time> {
    let client = clients.get(id).filter(|client| client.places.open() > 0);
    client.map(|_| since.plus_ms(SILENT_PLACE_MS))
}

impl Engine {
    /// For what a client must wait before this request, if it takes no replies and this one may be long. In a transaction each reply is QUEUED, and MULTI has waited.
    #[cold]
    pub(crate) fn waits_in_silence(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        name: &[u8],
    ) -> Option<Hold> {
        let client = self.clients.get(id).filter(|client| client.reply_mode != ReplyMode::On)?;
        let is_transaction = client.lease.as_ref().is_some_and(|lease| lease.is_transaction());
        if is_transaction || !self.may_answer_at_length(known, name) {
            return None;
        }
        if client.places.open() >= WINDOW_MIN {
            return Some(Hold::Drained);
        }
        // Connections of single clients are counted elsewhere (`lease`).
        if !matches!(known.way, Way::Shared | Way::Unknown) {
            return None;
        }
        let group = Group::of(client, &self.settings.users);
        let Self { grants, clients, .. } = self;
        grants.silence.end_places(now, clients);
        (!grants.silence.take_place(now, id, group)).then_some(Hold::SilentPlace)
    }

    /// Whether the reply to such a request may be large, whatever the client has sent.
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

    /// When a place is to be taken back that clients wait for.
    pub(crate) fn silent_places_at(&self, now: Time) -> Option<Time> {
        let silence = &self.grants.silence;
        if silence.waiters.is_empty() {
            return None;
        }
        if silence.waiters.any(|line| silence.may_have_place(line)) {
            return Some(now);
        }
        let places = silence.places.iter();
        let ends = |(id, (_, since)): (&ClientId, &(Group, Time))| {
            has_place_until(&self.clients, *id, *since).unwrap_or(now)
        };
        places.map(ends).min()
    }

    /// Clients that wait for a place go on.
    pub(crate) fn run_silence(&mut self, now: Time) {
        if self.grants.silence.waiters.is_empty() {
            return;
        }
        let Self { grants, clients, resume, .. } = self;
        let silence = &mut grants.silence;
        silence.end_places(now, clients);
        let room = SILENT_MAX.saturating_sub(silence.held.total());
        for id in silence.waiters.first(room, |line| silence.may_have_place(line)) {
            match clients.get_mut(id).filter(|client| client.hold == Hold::SilentPlace) {
                Some(client) => {
                    if !core::mem::replace(&mut client.queued, true) {
                        resume.push_back(id);
                    }
                }
                // It waits for something else by now.
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
