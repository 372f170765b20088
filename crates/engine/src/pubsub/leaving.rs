//! Clients that leave topics: UNSUBSCRIBE and its kin, RESET and QUIT.
//!
//! ```text
//!   (Settles ─▶) Leaves ── each topic lost its listener ──▶ Waits ── each connection answered ──▶ Ends ── each topic forgot the client ──▶ the client gets its reply
//! ```
//! The reply waits for the servers' answers, for two reasons. A message that was published before may still be in the connection's socket, and comes before the
//! confirmation as it does directly; and until the server knows that the last client left, the reply to PUBLISH would count respool.
//!
//! In a cluster, messages for a pattern, and messages for a channel whose home has just changed, may still be on the bus of the cluster. The client leaves
//! [`PATTERN_SETTLE_MS`](crate::limits::PATTERN_SETTLE_MS) or [`LEAVE_SETTLE_MS`](crate::limits::LEAVE_SETTLE_MS) later.
//!
//! One request can leave a hundred thousand topics. Both walks over them take several turns, in which other clients are served ([`LEFT_TOPICS_PER_TURN`]).
//!
//! Not here: how a server is told (`links`), clients that are gone (`gone`).
//!
//! Invariant: a client that leaves stands among `listeners` or `leaving` of each topic that its [`Leaving`] names.

use super::commands::{confirm, listener_bytes};
use super::gone::Part;
use super::{Kind, Listening, Name, Turn, Waiter};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::limits::{LEFT_TOPICS_AT_ONCE, LEFT_TOPICS_PER_TURN};
use crate::local::Call;
use crate::policy::Namespace;
use crate::request::Step;
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use resp::Protocol;

/// An UNSUBSCRIBE, RESET or QUIT of one client. The client is held until each connection for its topics has answered a command that respool sent behind: an
/// UNSUBSCRIBE if the client was the last listener, else a PING.
#[derive(Debug)]
pub(super) struct Leaving {
    turn: Turn,
    /// Topics that have not forgotten the client.
    names: VecDeque<(Kind, Name)>,
    /// The first so many of `names` have the client in `leaving`, the others in `listeners`.
    left: usize,
    /// Answers to come.
    open: usize,
    stage: Stage,
    /// The reply.
    lines: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Messages may be on the bus of a cluster.
    Settles,
    /// Topics lose the client as a listener.
    Leaves,
    /// Servers have not answered; until this time at most.
    Waits(Time),
    /// Topics forget the client.
    Ends,
}

impl Leaving {
    pub(super) fn topics(&self) -> usize {
        self.names.len()
    }

    /// Its part of [`Listening::bytes`].
    pub(super) fn bytes(&self) -> usize {
        self.lines.len() + self.names.iter().map(|(_, name)| listener_bytes(name)).sum::<usize>()
    }

    /// Whether servers should have answered by now.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        matches!(self.stage, Stage::Waits(until) if until <= now)
    }

    /// Removes the last topic of a client that is gone, and how the client stands there.
    pub(super) fn take_last(&mut self) -> Option<(Part, Kind, Name)> {
        let (kind, name) = self.names.pop_back()?;
        let part = if self.names.len() < self.left { Part::Leaves } else { Part::Listens };
        self.left = self.left.min(self.names.len());
        Some((part, kind, name))
    }
}

/// The topics of this kind that a client leaves, by name or all of them, and the confirmations.
fn take_topics(
    listening: &mut Listening,
    protocol: Protocol,
    kind: Kind,
    named: &[&[u8]],
    namespace: Option<&Namespace>,
) -> (VecDeque<(Kind, Name)>, Vec<u8>) {
    let (mut names, mut lines) = (VecDeque::new(), Vec::new());
    let mut line = |name: Option<&[u8]>, count| {
        let shown = name.map(|name| namespace.map_or(name, |namespace| namespace.outward(name)));
        confirm(&mut lines, protocol, kind.unsubscribed(), shown, count);
    };
    if named.is_empty() {
        let all = core::mem::take(&mut listening.topics[kind as usize]);
        let others = listening.count(kind);
        if all.is_empty() {
            line(None, others);
        }
        let count = all.len();
        for (at, name) in all.into_iter().enumerate() {
            line(Some(&name), others + count - 1 - at);
            names.push_back((kind, name));
        }
    }
    for name in named {
        names.extend(listening.topics[kind as usize].take(*name).map(|name| (kind, name)));
        line(Some(name), listening.count(kind));
    }
    (names, lines)
}

impl Engine {
    /// UNSUBSCRIBE, PUNSUBSCRIBE, SUNSUBSCRIBE.
    pub(crate) fn unsubscribe(&mut self, now: Time, call: &Call<'_>, kind: Kind) -> Step {
        if let Some(step) = self.unless_ready_for_topics(now, call, kind, false) {
            return step;
        }
        let Some(client) = self.clients.get_mut(call.id) else { return Step::Gone };
        let waiter = (call.id, Turn::of(client, call));
        self.stats.requests += 1;
        let policies = self.settings.policies.as_ref();
        let namespace = policies.and_then(|policies| policies.rules().namespace.as_ref());
        let (protocol, named) = (client.protocol, &call.args[1..]);
        let listening = client.listening.get_or_insert_default();
        let (names, lines) = take_topics(listening, protocol, kind, named, namespace);
        self.grants.slow.pay_names(call.args.len(), names.len());
        self.begin_leaving(now, waiter, names, lines);
        Step::Done
    }

    /// RESET and QUIT end all subscriptions of a client without a confirmation. Their replies wait, as a confirmation does, for earlier replies and for
    /// earlier messages. Returns whether there are any to wait for.
    pub(crate) fn leaves_before_end(&mut self, now: Time, id: ClientId) -> bool {
        let Some(client) = self.clients.get_mut(id) else { return false };
        let Some(listening) = client.listening.as_mut().filter(|own| own.any()) else {
            return false;
        };
        if client.places.open() > 0 {
            return true;
        }
        let of_kind = |kind: Kind| {
            let names = core::mem::take(&mut listening.topics[kind as usize]);
            names.into_iter().map(move |name| (kind, name))
        };
        let names: VecDeque<(Kind, Name)> = Kind::ALL.into_iter().flat_map(of_kind).collect();
        let waiter = (id, Turn::Place(client.places.reserve(1)));
        self.grants.slow.pay_names(1, names.len());
        self.begin_leaving(now, waiter, names, Vec::new());
        self.waits_for_topics(id)
    }

    /// The client leaves these topics, which its own list does not have any more, and gets these lines behind all messages that were published before.
    fn begin_leaving(
        &mut self,
        now: Time,
        (id, turn): Waiter,
        names: VecDeque<(Kind, Name)>,
        lines: Vec<u8>,
    ) {
        let first = names.iter().take(LEFT_TOPICS_AT_ONCE);
        let settle_ms = first.map(|(kind, name)| self.settle_ms(now, *kind, name)).max();
        let settle_ms = settle_ms.unwrap_or(0);
        let Some(client) = self.clients.get_mut(id) else { return };
        let listening = client.listening.get_or_insert_default();
        self.subscriptions.add(listening, 0, lines.len());
        let stage = if settle_ms > 0 { Stage::Settles } else { Stage::Leaves };
        listening.leaving = Some(Leaving { turn, names, left: 0, open: 0, stage, lines });
        if settle_ms > 0 {
            self.subscriptions.settling.insert((now.plus_ms(settle_ms), id));
        }
        self.leave_part(now, id, LEFT_TOPICS_AT_ONCE);
        self.go_on_later(id);
        if self.waits_for_topics(id) {
            self.hold_for_answers(id);
        }
        self.account_counted();
    }

    fn leaving_mut(&mut self, id: ClientId) -> Option<&mut Leaving> {
        self.clients.get_mut(id)?.listening.as_mut()?.leaving.as_mut()
    }

    /// Clients leave more topics, as many as a turn allows, each client some of its own.
    pub(super) fn leave_in_parts(&mut self, now: Time) {
        let mut rest = LEFT_TOPICS_PER_TURN;
        while rest > 0
            && let Some(id) = self.subscriptions.leavers.pop_front()
        {
            let topics = self.leave_part(now, id, rest.min(LEFT_TOPICS_AT_ONCE));
            rest = rest.saturating_sub(topics.max(1));
            self.go_on_later(id);
        }
    }

    /// Clients leave now whose messages were given time.
    pub(super) fn leave_settled(&mut self, now: Time) {
        while let Some((at, id)) = self.subscriptions.settling.first().copied()
            && at <= now
        {
            self.subscriptions.settling.pop_first();
            if let Some(leaving) = self.leaving_mut(id).filter(|own| own.stage == Stage::Settles) {
                leaving.stage = Stage::Leaves;
                self.go_on_later(id);
            }
        }
    }

    /// A client that could leave more topics just now is queued for the next turn.
    fn go_on_later(&mut self, id: ClientId) {
        let leaving = self.leaving_mut(id);
        if leaving.is_some_and(|leaving| matches!(leaving.stage, Stage::Leaves | Stage::Ends)) {
            self.subscriptions.leavers.push_back(id);
        }
    }

    /// A client leaves at most `max` topics. Returns the number of topics that respool looked at.
    fn leave_part(&mut self, now: Time, id: ClientId, max: usize) -> usize {
        let mut count = 0;
        while count < max
            && let Some(leaving) = self.leaving_mut(id)
            && leaving.stage == Stage::Leaves
        {
            let Some((kind, name)) = leaving.names.get(leaving.left).cloned() else {
                self.wait_to_leave(now, id);
                break;
            };
            leaving.left += 1;
            let waiter = (id, leaving.turn);
            let open = self.leave(waiter, kind, &name);
            if let Some(leaving) = self.leaving_mut(id) {
                leaving.open += open;
            }
            count += 1;
        }
        count + self.end_part(id, max - count)
    }

    /// The client listens to this topic no more, and gets the messages that were published before. Returns the number of answers that the client waits for.
    fn leave(&mut self, waiter: Waiter, kind: Kind, name: &Name) -> usize {
        if let Some(topic) = self.subscriptions.topic_mut(kind, name) {
            topic.listeners.remove(&waiter.0);
            topic.leaving.insert(waiter.0);
        }
        self.listeners_changed(kind, name);
        self.fence_topic(kind, name, waiter) + self.drop_unused(kind, name, Some(waiter))
    }

    /// The client has left all topics, and waits for the servers' answers.
    fn wait_to_leave(&mut self, now: Time, id: ClientId) {
        // At once, so that a later PUBLISH of another client does not go out before.
        self.say_unsaid(now);
        let until = now.plus_ms(self.patience_ms());
        let Some(leaving) = self.leaving_mut(id) else { return };
        if leaving.open == 0 {
            leaving.stage = Stage::Ends;
            return;
        }
        leaving.stage = Stage::Waits(until);
        self.subscriptions.waits.push_back((until, id));
    }

    /// A server answered a command that this reply waits for, or never will.
    pub(super) fn left(&mut self, (id, turn): Waiter) {
        let leaving = self.leaving_mut(id).filter(|leaving| leaving.turn == turn);
        let Some(leaving) = leaving else { return };
        leaving.open -= 1;
        if leaving.open == 0 && leaving.stage != Stage::Leaves {
            self.begin_end(id);
        }
    }

    /// All messages that were published before the client left have come, or never will.
    pub(super) fn begin_end(&mut self, id: ClientId) {
        let Some(leaving) = self.leaving_mut(id) else { return };
        if leaving.stage == Stage::Ends {
            return;
        }
        leaving.stage = Stage::Ends;
        self.end_part(id, LEFT_TOPICS_AT_ONCE);
        self.go_on_later(id);
    }

    /// At most `max` topics forget a client that has left them; behind the last one the client gets its reply. Returns the number of topics.
    fn end_part(&mut self, id: ClientId, max: usize) -> usize {
        let mut count = 0;
        while let Some(leaving) = self.leaving_mut(id)
            && leaving.stage == Stage::Ends
        {
            if leaving.names.is_empty() {
                self.end_leaving(id);
                break;
            }
            if count == max {
                break;
            }
            let Some((kind, name)) = leaving.names.pop_front() else { break };
            leaving.left = leaving.left.saturating_sub(1);
            self.stop_telling(id, kind, &name);
            self.forget_bytes(id, 1, listener_bytes(&name));
            count += 1;
        }
        count
    }

    /// The client gets its reply.
    fn end_leaving(&mut self, id: ClientId) {
        let listening = self.clients.get_mut(id).and_then(|client| client.listening.as_mut());
        let Some(leaving) = listening.and_then(|listening| listening.leaving.take()) else {
            return;
        };
        self.forget_bytes(id, 0, leaving.lines.len());
        self.forget_empty_listening(id);
        self.confirm_to(id, leaving.turn, &leaving.lines);
    }

    fn forget_bytes(&mut self, id: ClientId, names: usize, bytes: usize) {
        if let Some(client) = self.clients.get_mut(id)
            && let Some(listening) = client.listening.as_mut()
        {
            self.subscriptions.remove(listening, names, bytes);
        }
    }

    /// The topic forgets a client that has left it. Messages that wait for another server go out to the client.
    pub(super) fn stop_telling(&mut self, id: ClientId, kind: Kind, name: &Name) {
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return };
        let waiting = topic.handover.as_ref().map(|handover| handover.waiting_for(id));
        for frame in waiting.unwrap_or_default() {
            self.send_message(&[id], &frame);
        }
        if let Some(topic) = self.subscriptions.topic_mut(kind, name) {
            topic.leaving.remove(&id);
            topic.handover.iter_mut().for_each(|handover| handover.listener_left(id));
        }
        self.drop_unused(kind, name, None);
    }
}
