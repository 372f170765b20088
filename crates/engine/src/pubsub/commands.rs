//! SUBSCRIBE and its kin, and the commands that a client in RESP2 may send while it listens.
//!
//! A client is held from its SUBSCRIBE to the confirmation, so its next request sees it done.
//!
//! Not here: UNSUBSCRIBE (`leaving`), how a server is told (`links`).
//!
//! Invariant: confirmations go out whatever CLIENT REPLY says, as at a server, since they are no replies.

use super::gone::Part;
use super::leaving::Leaving;
use super::links::is_event;
use super::{Kind, Listening, Name, Topic, Turn, Wait};
use crate::client::{Client, Hold};
use crate::command::{CommandId, ids};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::limits::{CLIENT_TOPICS_MAX, TOPIC_BYTES_MAX};
use crate::local::{Call, arity_fits};
use crate::reject;
use crate::request::Step;
use crate::route::{Known, Way};
use crate::scatter::row_of;
use crate::server_loss::Failure;
use crate::shares::Group;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// Bytes that a client's listening to a topic takes beside the name.
const LISTENER_BYTES: usize = 64;

/// Names of one client are recounted in debug builds up to here: a turn would take too long.
const CHECKED_BYTES_MAX: usize = 64 << 10;

/// Which kind of topic a command begins or ends to listen to, and whether it begins.
pub(crate) fn verb(command: crate::command::CommandId) -> Option<(Kind, bool)> {
    match command {
        ids::SUBSCRIBE => Some((Kind::Channel, true)),
        ids::PSUBSCRIBE => Some((Kind::Pattern, true)),
        ids::SSUBSCRIBE => Some((Kind::Shard, true)),
        ids::UNSUBSCRIBE => Some((Kind::Channel, false)),
        ids::PUNSUBSCRIBE => Some((Kind::Pattern, false)),
        ids::SUNSUBSCRIBE => Some((Kind::Shard, false)),
        _ => None,
    }
}

impl Engine {
    /// SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE.
    pub(crate) fn subscribe(&mut self, now: Time, call: &Call<'_>, kind: Kind) -> Step {
        if let Some(step) = self.unless_ready_for_topics(now, call, kind, true) {
            return step;
        }
        let names: Vec<Name> = call.args[1..].iter().map(|name| Arc::from(*name)).collect();
        if kind != Kind::Shard && self.router.removes() && names.iter().any(|name| is_event(name)) {
            return self.refuse(call, reject::NO_EVENTS_WITHOUT_PREFIX);
        }
        if names.iter().any(|name| name.len() > TOPIC_BYTES_MAX) {
            return self.refuse(call, reject::TOPIC_TOO_LONG);
        }
        let bytes: usize = names.iter().map(listener_bytes).sum();
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        let listens = client.listening.as_ref();
        if listens.map_or(0, |own| own.topics()) + names.len() > CLIENT_TOPICS_MAX {
            return self.refuse(call, reject::CLIENT_TOPICS_MAX);
        }
        let group =
            listens.map_or_else(|| Group::of(client, &self.settings.users), |own| own.group);
        if !self.subscriptions.has_room(group, bytes) {
            return self.refuse(call, reject::SUBSCRIPTIONS_MAX);
        }
        for name in &names {
            self.subscriptions.topics[kind as usize]
                .entry(name.clone())
                .or_default()
                .waiting
                .insert(call.id);
            self.listeners_changed(kind, name);
        }
        for name in &names {
            if let Err(step) = self.link_for(now, call, kind, name) {
                self.give_up_waiting(call.id, kind, &names);
                return step;
            }
        }
        let patience_ms = self.patience_ms();
        let Some(client) = self.clients.get_mut(call.id) else { return Step::Gone };
        let turn = Turn::of(client, call);
        self.stats.requests += 1;
        let until = now.plus_ms(patience_ms);
        let count = names.len();
        let wait = Wait { turn, kind, names, until, confirmed: 0 };
        let new = || Box::new(Listening { group, ..Listening::default() });
        let listening = client.listening.get_or_insert_with(new);
        listening.wait = Some(wait);
        self.subscriptions.add(listening, count, bytes);
        self.hold_for_answers(call.id);
        self.subscriptions.waits.push_back((until, call.id));
        self.look_at_wait(call.id);
        self.account_counted();
        Step::Done
    }

    /// Holds the client until its earlier requests are answered, since one of them may be a PUBLISH to these topics. A command of a transaction cannot wait,
    /// as the server has answered EXEC.
    pub(super) fn unless_ready_for_topics(
        &mut self,
        now: Time,
        call: &Call<'_>,
        kind: Kind,
        on: bool,
    ) -> Option<Step> {
        if call.inside.is_some() {
            return None;
        }
        if self.clients.get(call.id)?.places.open() > 0 {
            return Some(Step::Hold(Hold::Drained));
        }
        let crowded = self.crowded_for_topics(now, kind, (on, &call.args[1..]), call.id);
        crowded.map(|id| Step::Hold(Hold::Upstream(id)))
    }

    /// What a client listens to is other than before: it is told so in its turn.
    pub(super) fn confirm_to(&mut self, id: ClientId, turn: Turn, lines: &[u8]) {
        match turn {
            Turn::Place(seq) => self.deliver(id, seq, 1, false, lines),
            Turn::Inside(at) => self.confirm_inside(id, at, lines),
        }
    }

    /// Whether all that this client waits for is confirmed; then it listens, and goes on.
    pub(super) fn look_at_wait(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let protocol = client.protocol;
        let Some(listening) = client.listening.as_mut() else { return };
        let Some(wait) = listening.wait.as_mut() else { return };
        let is_held =
            |name: &Name| self.subscriptions.topic(wait.kind, name).is_some_and(Topic::is_held);
        while wait.names.get(wait.confirmed).is_some_and(is_held) {
            wait.confirmed += 1;
        }
        if wait.confirmed < wait.names.len() {
            return;
        }
        // One that was confirmed before may have been lost meanwhile.
        if let Some(lost) = wait.names.iter().position(|name| !is_held(name)) {
            wait.confirmed = lost;
            return;
        }
        let Some(wait) = listening.wait.take() else { return };
        let policies = self.settings.policies.as_ref();
        let namespace = policies.and_then(|policies| policies.rules().namespace.as_ref());
        let mut lines = Vec::new();
        for name in &wait.names {
            if !listening.topics[wait.kind as usize].insert(name.clone()) {
                self.subscriptions.remove(listening, 1, listener_bytes(name));
            }
            let count = listening.count(wait.kind);
            let shown = namespace.map_or(&**name, |namespace| namespace.outward(name));
            confirm(&mut lines, protocol, wait.kind.subscribed(), Some(shown), count);
        }
        for name in &wait.names {
            if let Some(topic) = self.subscriptions.topic_mut(wait.kind, name) {
                topic.waiting.remove(&id);
                if topic.listeners.insert(id) {
                    topic.handover.iter_mut().for_each(|handover| handover.listener_came(id));
                }
            }
            self.listeners_changed(wait.kind, name);
        }
        self.confirm_to(id, wait.turn, &lines);
    }

    /// Whether this client waits for a server's word on what it listens to.
    pub(crate) fn waits_for_topics(&self, id: ClientId) -> bool {
        let listening = self.clients.get(id).and_then(|client| client.listening.as_ref());
        listening.is_some_and(|listening| listening.wait.is_some() || listening.leaving.is_some())
    }

    /// Whether this client waits for a confirmation and should have it by now: of its SUBSCRIBE, of its UNSUBSCRIBE.
    pub(super) fn waits_since_before(&self, now: Time, id: ClientId) -> (bool, bool) {
        let listening = self.clients.get(id).and_then(|client| client.listening.as_ref());
        let Some(listening) = listening else { return (false, false) };
        (
            listening.wait.as_ref().is_some_and(|wait| wait.until <= now),
            listening.leaving.as_ref().is_some_and(|leaving| leaving.is_overdue(now)),
        )
    }

    /// What this client waits for does not come; it gets the error.
    pub(super) fn fail_wait(&mut self, id: ClientId, failure: &Failure) {
        let listening = self.clients.get_mut(id).and_then(|client| client.listening.as_mut());
        let Some(listening) = listening else { return };
        let Some(wait) = listening.wait.take() else { return };
        let bytes: usize = wait.names.iter().map(listener_bytes).sum();
        self.subscriptions.remove(listening, wait.names.len(), bytes);
        self.give_up_waiting(id, wait.kind, &wait.names);
        self.forget_empty_listening(id);
        match wait.turn {
            Turn::Place(seq) => self.deliver_failure(id, seq, 1, false, failure),
            Turn::Inside(at) => self.answer_inside_late(id, at, failure),
        }
    }

    fn give_up_waiting(&mut self, id: ClientId, kind: Kind, names: &[Name]) {
        for name in names {
            if let Some(topic) = self.subscriptions.topic_mut(kind, name) {
                topic.waiting.remove(&id);
            }
            self.listeners_changed(kind, name);
            self.drop_unused(kind, name, None);
        }
    }

    /// The client listens to nothing and waits for nothing any more.
    pub(crate) fn leave_all(&mut self, id: ClientId) {
        let listening = self.clients.get_mut(id).and_then(|client| client.listening.take());
        let Some(mut listening) = listening else { return };
        let (names, bytes) = (listening.topics(), listening.bytes);
        self.subscriptions.remove(&mut listening, names, bytes);
        self.subscriptions.gone.add(id, *listening);
        self.leave_for_the_gone();
    }

    /// Takes clients that are gone out of what they listened to, as many of their topics as this turn allows. A message of one of the others
    /// finds nobody.
    pub(super) fn leave_for_the_gone(&mut self) {
        while let Some((id, what, kind, name)) = self.subscriptions.gone.next() {
            match what {
                Part::Waits => self.give_up_waiting(id, kind, &[name]),
                Part::Leaves => self.stop_telling(id, kind, &name),
                Part::Listens => {
                    if let Some(topic) = self.subscriptions.topic_mut(kind, &name) {
                        topic.listeners.remove(&id);
                        topic.handover.iter_mut().for_each(|handover| handover.listener_left(id));
                    }
                    self.listeners_changed(kind, &name);
                    self.drop_unused(kind, &name, None);
                }
            }
        }
    }

    /// For debug builds: what each client that listens has counted is what all have.
    pub(crate) fn check_subscribed(&self) {
        let all = || self.clients.iter().filter_map(|(_, client)| client.listening.as_ref());
        let mut bytes = 0;
        for listening in all() {
            bytes += listening.bytes;
            if listening.bytes < CHECKED_BYTES_MAX {
                let names: usize = listening.all().map(|(_, name)| listener_bytes(name)).sum();
                let leaves = listening.leaving.as_ref().map_or(0, Leaving::bytes);
                assert_eq!(listening.bytes, names + leaves, "bytes of what a client listens to");
            }
        }
        assert_eq!(self.subscriptions.bytes, bytes, "bytes of what clients listen to");
        let parts = all().map(|listening| (listening.group, listening.held_bytes()));
        self.subscriptions.held.check(parts);
    }

    pub(super) fn forget_empty_listening(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id)
            && client.listening.as_ref().is_some_and(|own| own.is_idle())
        {
            client.listening = None;
        }
    }

    /// What a client in RESP2 says that listens, as a server that looks the command up first (`processCommand`). `None`: it may.
    pub(crate) fn while_listening(
        &mut self,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
    ) -> Option<Step> {
        let command = known.id.map(|command| row_of(command, args));
        let is_unknown = matches!(known.way, Way::Unknown | Way::Apart);
        if is_unknown || is_said_while_listening(command) {
            return None;
        }
        self.stats.command(known.id).rejected += 1;
        let silent = self.is_silent(id);
        self.reply(id, silent, |out| match command {
            Some(command) if !arity_fits(command, args.len()) => {
                reject::arity(out, command.name());
            }
            _ => reject::while_listening(out, command, args[0]),
        });
        self.end_skip(id, silent);
        Some(Step::Done)
    }
}

impl Client {
    /// Whether it listens to any topic.
    pub(crate) fn listens(&self) -> bool {
        self.listening.as_ref().is_some_and(|own| own.any())
    }

    /// Whether it gets messages in between and can therefore say little: in RESP2 they look like replies.
    pub(crate) fn listens_in_resp2(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.listens()
    }

    /// To how many topics of this kind it listens.
    pub(crate) fn listens_to(&self, kind: Kind) -> usize {
        self.listening.as_ref().map_or(0, |listening| listening.len(kind))
    }
}

/// Whether a client that listens in RESP2 may say this. `None`: the table does not know the command.
pub(crate) fn is_said_while_listening(command: Option<CommandId>) -> bool {
    command.is_some_and(|command| {
        matches!(command, ids::PING | ids::QUIT | ids::RESET) || verb(command).is_some()
    })
}

pub(super) fn listener_bytes(name: &Name) -> usize {
    name.len() + LISTENER_BYTES
}

/// One confirmation.
pub(super) fn confirm(
    out: &mut Vec<u8>,
    protocol: Protocol,
    word: &[u8],
    name: Option<&[u8]>,
    count: usize,
) {
    match protocol {
        Protocol::Resp2 => encode::array(out, 3),
        Protocol::Resp3 => encode::push(out, 3),
    }
    encode::bulk(out, word);
    match name {
        Some(name) => encode::bulk(out, name),
        None => encode::null(out, protocol),
    }
    encode::integer(out, count as i64);
}
