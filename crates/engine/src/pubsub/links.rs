//! The servers' side of topics: where each is subscribed to, and how that is kept true.
//!
//! ```text
//!   Wanted ── the connection is ready ──▶ Asked ── confirmed ──▶ Held
//!     ▲ └ lost, refused, the slot moved ◀──┴──────────────┘
//! ```
//! A channel belongs to one server, and PUBLISH goes there too (`homes`): so the number that PUBLISH answers counts
//! everybody who listens through the proxy, and the work is spread. (A cluster passes every message on to all its nodes, so
//! clients that publish elsewhere are heard as well.) A pattern is subscribed to at one node of each deployment. Keyspace events are told
//! by the node that has the key and by no other, so whatever could match one is subscribed to at every primary.
//!
//! Nothing here waits for a server that moved a slot to say so twice: a `sunsubscribe` that nobody asked for and a MOVED both lead to a new look.
//! It does say so twice if we leave a shard channel just then: first that we have left, since the slot goes, and then MOVED, since it has gone.
//! Whether the first was the answer shows only by what comes next, so a PING goes behind each SUNSUBSCRIBE, the *fence*.
//!
//! Not here: who listens (`commands`), messages (`fanout`).
//!
//! Invariant: a link that is `Asked` or `Held` names a connection that was told so and has not been lost since.

use super::handover::Handover;
use super::homes::Homes;
use super::{Asked, Kind, Link, LinkState, Name, Topic, Unanswered, Waiter};
use crate::connect::Availability;
use crate::engine::Engine;
use crate::glob;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{CROWDED_NAMES_MAX, RELINK_MS, RELINK_REFUSED_MS, SENT_ON_AT_ONCE};
use crate::local::Call;
use crate::redirect::{moved_to, sends_on};
use crate::reject;
use crate::request::Step;
use crate::server_loss::Failure;
use crate::settings::OnLoss;
use crate::time::Time;
use crate::topology::Place;
use crate::topology::refresh::Sign;
use crate::upstream::inflight::{OwnCommand, Owner};
use crate::upstream::{Lane, Role, UpstreamKey};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Channels on which a server tells what happens to its own keys (`notifyKeyspaceEvent` in Redis' notify.c).
const EVENTS: [&[u8]; 2] = [b"__keyspace@", b"__keyevent@"];

/// Whether this channel tells of one server's own keys.
pub(super) fn is_event(channel: &[u8]) -> bool {
    EVENTS.iter().any(|begin| channel.starts_with(begin))
}

/// Whether a server may tell a listener to this topic of its own keys.
fn tells_events(kind: Kind, name: &[u8]) -> bool {
    match kind {
        Kind::Channel => is_event(name),
        Kind::Pattern => EVENTS.iter().any(|begin| glob::may_begin_with(name, begin)),
        Kind::Shard => false,
    }
}

impl Engine {
    /// Sees to it that a topic is subscribed to where it belongs, for a client that asks for it.
    pub(super) fn link_for(
        &mut self,
        now: Time,
        call: &Call<'_>,
        kind: Kind,
        name: &Name,
    ) -> Result<(), Step> {
        if !self.subscriptions.topic(kind, name).is_some_and(Topic::goes_on) {
            let links = match self.belongs(None, kind, name) {
                Ok(links) => links,
                Err(pool) => return Err(self.unserved_call(now, call, pool)),
            };
            // Where clients leave it just now it is asked for behind its end.
            self.release(now, kind, name);
            let moved = self.moved_lately(now, kind, name).then_some(now);
            if let Some(topic) = self.subscriptions.topic_mut(kind, name) {
                (topic.handover, topic.links) = (None, links);
                topic.moved = topic.moved.max(moved);
            }
        }
        let Err((node, failure)) = self.ask_links(now, kind, name) else { return Ok(()) };
        if !self.is_one()
            && let Some(hold) = self.hold_for_failover(now, node)
        {
            return Err(Step::Hold(hold));
        }
        self.stats.command(Some(call.command)).rejected += 1;
        Err(self.say_failure(call, &failure))
    }

    /// Where a topic belongs. `Err`: this pool has nobody for it just now.
    fn belongs(&self, homes: Option<&Homes>, kind: Kind, name: &[u8]) -> Result<Vec<Link>, u16> {
        let link = |node, home| Link {
            node,
            home,
            ends: false,
            stays_beside: false,
            state: LinkState::Wanted,
        };
        let mut links = Vec::with_capacity(1);
        match kind {
            Kind::Channel | Kind::Shard => {
                links.push(link(self.channel_home(homes, kind, name)?, true));
            }
            Kind::Pattern => {
                for pool in 0..self.router.pools.len() as u16 {
                    links.push(link(self.pattern_home(homes, pool)?, true));
                }
            }
        }
        if tells_events(kind, name) && !self.is_one() {
            for node in self.router.primaries() {
                if links.iter().all(|other| other.node != node) {
                    links.push(link(node, false));
                }
            }
        }
        Ok(links)
    }

    /// Whether this topic is subscribed to at this node by every worker that listens to it; the tables of all are alike.
    pub(super) fn belongs_at(
        &self,
        homes: Option<&Homes>,
        kind: Kind,
        name: &[u8],
        node: NodeId,
    ) -> bool {
        self.belongs(homes, kind, name)
            .is_ok_and(|links| links.iter().any(|link| link.node == node))
    }

    /// Counts the nodes, of these, where this worker still listens to a topic that has left them.
    pub(super) fn lingers_at(&self, kind: Kind, name: &[u8], nodes: &[NodeId]) -> usize {
        let Some(topic) = self.subscriptions.topic(kind, name) else { return 0 };
        let lingers = |link: &&Link| {
            link.ends && link.home && !link.stays_beside && matches!(link.state, LinkState::Held(_))
        };
        topic.links.iter().filter(lingers).filter(|link| nodes.contains(&link.node)).count()
    }

    /// At how many nodes it is subscribed to.
    pub(super) fn places_of(&self, kind: Kind, name: &[u8]) -> usize {
        self.belongs(None, kind, name).map_or(1, |links| links.len())
    }

    /// Asks for those links of a topic that are not asked for, as far as their connections are ready. `Err`: a node is known to be down.
    fn ask_links(&mut self, now: Time, kind: Kind, name: &Name) -> Result<(), (NodeId, Failure)> {
        let Some(topic) = self.subscriptions.topic(kind, name) else { return Ok(()) };
        let wanted = topic.links.iter().filter(|link| link.state == LinkState::Wanted);
        let nodes: Vec<NodeId> = wanted.map(|link| link.node).collect();
        let mut down = Ok(());
        for node in nodes {
            match self.listening_upstream(now, node) {
                Ok(Some(upstream)) => self.ask_link(now, upstream, kind, name),
                Ok(None) => {}
                Err(failure) => down = Err((node, failure)),
            }
        }
        down
    }

    /// The key of the connection to a node for its topics.
    pub(super) fn messages_key(node: NodeId) -> UpstreamKey {
        let lane = Lane::Messages;
        UpstreamKey { node, resp3: false, db: 0, lane, conn: 0, owner: None }
    }

    /// The connection to a node for its topics. `None`: it is not ready yet; when it is, all that is wanted there is asked for.
    fn listening_upstream(
        &mut self,
        now: Time,
        node: NodeId,
    ) -> Result<Option<UpstreamId>, Failure> {
        let key = Self::messages_key(node);
        let listed = self.by_key.get(&key).copied();
        let Some(id) = listed.or_else(|| self.new_upstream(key, Role::Shared)) else {
            return Err(Failure::refusal(self.too_many_upstreams(&key)));
        };
        match self.availability(now, id) {
            Availability::Down(failure) => Err(failure),
            Availability::Ready(_) | Availability::Wait(_) => {
                Ok(self.upstreams.get(id).is_some_and(|up| up.is_ready()).then_some(id))
            }
        }
    }

    pub(super) fn ask_link(&mut self, now: Time, id: UpstreamId, kind: Kind, name: &Name) {
        let Some(node) = self.upstreams.get(id).map(|up| up.key.node) else { return };
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return };
        for link in topic.links.iter_mut().filter(|link| link.node == node) {
            link.state = LinkState::Asked(id);
        }
        // Behind its end, if it has just ended there.
        let asked = Asked { on: true, kind, name: name.clone(), waiter: None };
        self.subscriptions.push_unsaid(id, asked);
        self.say_over(now, id);
    }

    fn say_listening(&mut self, now: Time, id: UpstreamId, asked: Asked) {
        let [on, off] = asked.kind.words();
        let verb = if asked.on { on } else { off };
        self.say_own(now, id, OwnCommand::Listen, &[verb, &asked.name]);
        if !asked.on && asked.kind == Kind::Shard && !self.is_one() {
            self.say_fence(now, id, Vec::new());
        }
        self.subscriptions.asked.entry(id).or_default().push(asked);
    }

    /// A topic that nobody listens to or waits for ends, and goes when nobody leaves it any more.
    /// Returns how many servers are to confirm it to `waiter`.
    pub(super) fn drop_unused(&mut self, kind: Kind, name: &Name, waiter: Option<Waiter>) -> usize {
        let topics = &mut self.subscriptions.topics[kind as usize];
        let Some(topic) = topics.get_mut(name).filter(|topic| topic.is_over()) else { return 0 };
        let mut links = core::mem::take(&mut topic.links);
        if topic.leaving.is_empty() {
            topics.remove(name);
        }
        let mut open = 0;
        links.retain_mut(|link| match link.state {
            LinkState::Ending(_) => true,
            LinkState::Asked(upstream) | LinkState::Held(upstream) => {
                let ends_later = self.end_link(link, kind, name, waiter);
                link.state = LinkState::Ending(upstream);
                open += usize::from(ends_later);
                ends_later
            }
            LinkState::Wanted => false,
        });
        if let Some(topic) = self.subscriptions.topic_mut(kind, name) {
            topic.links = links;
        }
        open
    }

    /// A client leaves a topic that goes on, or that ends already: all that was published before has
    /// come when each of its connections has answered a PING. Returns how many are asked.
    pub(super) fn fence_topic(&mut self, kind: Kind, name: &Name, waiter: Waiter) -> usize {
        let Some(topic) = self.subscriptions.topic(kind, name) else { return 0 };
        let is_over = topic.is_over();
        let is_fenced = |link: &&Link| !is_over || matches!(link.state, LinkState::Ending(_));
        let upstreams = topic.links.iter().filter(is_fenced);
        let upstreams: Vec<_> = upstreams.filter_map(|link| link.state.upstream()).collect();
        let mut count = 0;
        for upstream in upstreams {
            let due = self.subscriptions.fences_due.entry(upstream).or_default();
            // One for all names of a client, which stand one behind the other.
            if due.last() != Some(&waiter) {
                due.push(waiter);
                count += 1;
            }
        }
        count
    }

    /// A PING that is answered behind all messages that were published before.
    fn say_fence(&mut self, now: Time, id: UpstreamId, waiters: Vec<Waiter>) {
        self.say_own(now, id, OwnCommand::Fence, &[b"PING"]);
        self.subscriptions.fences.entry(id).or_default().push_back(waiters);
    }

    /// Asks for the fences that clients of this turn wait for.
    fn say_fences(&mut self, now: Time) {
        for (id, waiters) in core::mem::take(&mut self.subscriptions.fences_due) {
            match self.upstreams.get(id).is_some_and(|upstream| upstream.is_ready()) {
                true => self.say_fence(now, id, waiters),
                false => waiters.into_iter().for_each(|waiter| self.left(waiter)),
            }
        }
    }

    /// A fence is answered: whoever waits for it has got all that was published before.
    pub(super) fn fence_answered(&mut self, id: UpstreamId) {
        let waiters = self.subscriptions.fences.get_mut(&id).and_then(VecDeque::pop_front);
        waiters.into_iter().flatten().for_each(|waiter| self.left(waiter));
    }

    /// Tells a server that nobody listens here any more; whether it could be told.
    pub(super) fn end_link(
        &mut self,
        link: &Link,
        kind: Kind,
        name: &Name,
        waiter: Option<Waiter>,
    ) -> bool {
        let is_ready =
            |id: &UpstreamId| self.upstreams.get(*id).is_some_and(|upstream| upstream.is_ready());
        let Some(id) = link.state.upstream().filter(is_ready) else { return false };
        let asked = Asked { on: false, kind, name: name.clone(), waiter };
        self.subscriptions.push_unsaid(id, asked);
        true
    }

    /// Sends queued SUBSCRIBEs and UNSUBSCRIBEs to servers, as far as their connections have room. Answers count as overdue from this time on.
    pub(super) fn say_unsaid(&mut self, now: Time) {
        let ids: Vec<UpstreamId> = self.subscriptions.unsaid.keys().copied().collect();
        ids.into_iter().for_each(|id| self.say_over(now, id));
    }

    /// Sends the queued SUBSCRIBEs and UNSUBSCRIBEs of one connection.
    fn say_over(&mut self, now: Time, id: UpstreamId) {
        while !self.takes_no_topics(id)
            && let Some(asked) = self.subscriptions.pop_unsaid(id)
        {
            match self.upstreams.get(id).is_some_and(|upstream| upstream.is_ready()) {
                true => self.say_listening(now, id, asked),
                false => asked.waiter.into_iter().for_each(|waiter| self.left(waiter)),
            }
        }
    }

    /// Whether so much waits to be sent over this connection, or to be answered, that nothing is to be added.
    fn takes_no_topics(&self, id: UpstreamId) -> bool {
        let high = self.settings.limits.upstream_out_high_bytes;
        let is_full = self.subscriptions.asked.get(&id).is_some_and(Unanswered::is_full);
        self.upstreams.get(id).is_some_and(|up| up.is_ready() && (is_full || !up.has_room(high)))
    }

    /// A connection that a request with these topics needs and that has no room. The client waits for it: names can be many, and names that servers are told of
    /// clients that have gone are in no client's account.
    pub(super) fn crowded_for_topics(
        &mut self,
        now: Time,
        kind: Kind,
        (on, names): (bool, &[&[u8]]),
        id: ClientId,
    ) -> Option<UpstreamId> {
        self.say_unsaid(now);
        let ids = self.subscriptions.asked.keys().copied();
        let crowded: Vec<UpstreamId> = ids.filter(|id| self.takes_no_topics(*id)).collect();
        let first = *crowded.first()?;
        let listening = self.clients.get(id).and_then(|client| client.listening.as_ref());
        let all =
            listening.map(|own| &own.topics[kind as usize]).filter(|_| !on && names.is_empty());
        if names.len() > CROWDED_NAMES_MAX || all.is_some_and(|all| all.len() > CROWDED_NAMES_MAX) {
            return Some(first);
        }
        let all = all.into_iter().flatten().map(|name| &**name);
        let mut needed = names.iter().copied().chain(all);
        needed.find_map(|name| self.crowded_for(kind, (on, name), &crowded))
    }

    /// The connection of these that begins or ends this topic.
    fn crowded_for(
        &self,
        kind: Kind,
        (on, name): (bool, &[u8]),
        crowded: &[UpstreamId],
    ) -> Option<UpstreamId> {
        let topic = self.subscriptions.topic(kind, name);
        let linked = topic.into_iter().flat_map(|topic| &topic.links);
        let mut linked = linked.filter_map(|link| link.state.upstream());
        if !on || topic.is_some_and(Topic::goes_on) {
            return linked.find(|id| crowded.contains(id));
        }
        let links = self.belongs(None, kind, name).unwrap_or_default();
        let ids = links.iter().filter_map(|link| self.by_key.get(&Self::messages_key(link.node)));
        ids.copied().find(|id| crowded.contains(id))
    }

    /// A connection for topics is ready: it is told all of them that belong there.
    pub(crate) fn listening_ready(&mut self, now: Time, id: UpstreamId) {
        let Some(node) = self.upstreams.get(id).map(|up| up.key.node) else { return };
        let wanted: Vec<(Kind, Name)> = self
            .subscriptions
            .each_link()
            .filter(|(_, _, link)| link.node == node && link.state == LinkState::Wanted)
            .map(|(kind, name, _)| (kind, name.clone()))
            .collect();
        for (kind, name) in wanted {
            self.ask_link(now, id, kind, &name);
        }
    }

    /// A connection for topics is lost, and with it what was published since. With [`OnLoss::Close`] whoever listened over it alone is told so, as at a server:
    /// its connection ends.
    pub(crate) fn close_listeners(&mut self, id: UpstreamId) {
        if self.settings.on_upstream_loss != OnLoss::Close {
            return;
        }
        let is_heard =
            |link: &&Link| matches!(link.state, LinkState::Held(_) | LinkState::Ending(_));
        let mut listeners: BTreeSet<ClientId> = BTreeSet::new();
        let is_lost =
            |topic: &&Topic| topic.links.iter().any(|link| link.state.upstream() == Some(id));
        let topics = self.subscriptions.topics.iter().flat_map(|topics| topics.values());
        for topic in topics.filter(is_lost) {
            let heard = topic.links.iter().filter(is_heard);
            let (lost, left): (Vec<&Link>, Vec<&Link>) =
                heard.partition(|link| link.state.upstream() == Some(id));
            // While a topic goes from one server to another it is heard from both. What happens at a server itself is told there alone.
            let goes_on = lost.iter().all(|link| link.home) && left.iter().any(|link| link.home);
            if !lost.is_empty() && !goes_on {
                listeners.extend(topic.listeners.iter().chain(&topic.leaving));
            }
        }
        for client in listeners {
            if let Some(next) = self.clients.get(client).map(|client| client.places.next()) {
                self.lose_client(client, next);
            }
        }
    }

    /// A connection for topics is gone. What it held is to be asked for again, there or elsewhere.
    pub(crate) fn listening_lost(&mut self, id: UpstreamId) {
        let asked = self.subscriptions.asked.remove(&id).unwrap_or_default();
        let fences = self.subscriptions.fences.remove(&id).unwrap_or_default();
        let lost = |link: &Link| link.state.upstream() == Some(id);
        let topics = self.subscriptions.topics.iter_mut().flat_map(|topics| topics.values_mut());
        for topic in topics.filter(|topic| topic.links.iter().any(lost)) {
            let is_over = topic.is_over();
            topic.links.retain(|link| !(lost(link) && (link.ends || is_over)));
            topic
                .links
                .iter_mut()
                .filter(|link| lost(link))
                .for_each(|link| link.state = LinkState::Wanted);
        }
        // Whoever finds the connection gone may not know the time.
        if !self.subscriptions.is_empty() {
            self.subscriptions.relink_by(Time::default());
        }
        // With the connection the server forgot who listened.
        let mut asked = asked.all;
        while let Some(unsaid) = self.subscriptions.pop_unsaid(id) {
            asked.push_back(unsaid);
        }
        let ends = asked.into_iter().filter_map(|asked| asked.waiter);
        for waiter in ends.chain(fences.into_iter().flatten()) {
            self.left(waiter);
        }
    }

    /// A node could not be connected to: whoever waits for a topic there gets the error, unless it
    /// belongs to another one now. Those that listen already wait on.
    pub(crate) fn listening_failed(&mut self, now: Time, node: NodeId, failure: &Failure) {
        let mut waiting: Vec<ClientId> = Vec::new();
        let mut goes = false;
        if self.subscriptions.is_empty() {
            return;
        }
        let pool = self.nodes.get(node).map_or(0, |node| node.pool);
        let has_other = self.has_other_home(pool, node);
        for (kind, topics) in Kind::ALL.into_iter().zip(&self.subscriptions.topics) {
            let was = |topic: &Topic| topic.links.iter().any(|link| link.node == node);
            for (name, topic) in topics.iter().filter(|(_, topic)| was(topic)) {
                // Where another node can be a home, one that cannot be reached is none.
                let stays = match has_other && kind != Kind::Shard && !tells_events(kind, name) {
                    true => false,
                    false => self.belongs_at(None, kind, name, node),
                };
                match stays {
                    true => waiting.extend(&topic.waiting),
                    false => goes = true,
                }
            }
        }
        let wait_ms = if goes { 0 } else { RELINK_REFUSED_MS };
        self.subscriptions.relink_by(now.plus_ms(wait_ms));
        for client in waiting {
            self.fail_wait(client, failure);
        }
    }

    /// Whether any topic belongs to this connection.
    pub(crate) fn is_listened_to(&self, id: UpstreamId) -> bool {
        let topics = self.subscriptions.topics.iter().flat_map(|topics| topics.values());
        let mut links = topics.flat_map(|topic| &topic.links);
        links.any(|link| link.state.upstream() == Some(id))
    }

    /// The server's word on what we asked last, or one that nobody asked for: then the slot of a shard channel moved.
    pub(super) fn listening_word(
        &mut self,
        now: Time,
        id: UpstreamId,
        on: bool,
        kind: Kind,
        name: &[u8],
    ) {
        let fits = |asked: &Asked| asked.on == on && asked.kind == kind && *asked.name == *name;
        if self.next_asked(id).is_some_and(fits) {
            let waiter = self.pop_asked(id).and_then(|asked| asked.waiter);
            waiter.into_iter().for_each(|waiter| self.left(waiter));
        } else if on {
            return;
        }
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return };
        let over = |link: &Link| link.state.upstream() == Some(id);
        if on {
            topic.tries = 0;
            // A link that ends already stays so: its UNSUBSCRIBE is behind this answer.
            let asked = |link: &&mut Link| link.state == LinkState::Asked(id);
            topic.links.iter_mut().filter(asked).for_each(|link| link.state = LinkState::Held(id));
            self.topic_confirmed(now, kind, name);
            return self.handed_over(now, kind, name);
        }
        let ended = |link: &Link| link.ends || link.state == LinkState::Ending(id);
        topic.links.retain(|link| !(over(link) && ended(link)));
        // The answer to our own UNSUBSCRIBE can be followed by a new SUBSCRIBE that is still under way.
        let held = |link: &&mut Link| link.state == LinkState::Held(id);
        topic.links.iter_mut().filter(held).for_each(|link| link.state = LinkState::Wanted);
        // A topic that is over needs no look; a client may leave a hundred thousand topics.
        if !topic.is_over() {
            self.subscriptions.look_by(kind, name, now);
        }
        self.hand_over(now, kind, name);
    }

    /// One more server confirmed a topic: if that was the last one, those that wait for it look, and where it belonged before it ends.
    fn topic_confirmed(&mut self, now: Time, kind: Kind, name: &[u8]) {
        let Some((name, topic)) = self.subscriptions.topics[kind as usize].get_key_value(name)
        else {
            return;
        };
        if !topic.is_held() {
            return;
        }
        let name = name.clone();
        let waiting: Vec<ClientId> = topic.waiting.iter().copied().collect();
        self.end_old_links(now, kind, &name);
        waiting.into_iter().for_each(|client| self.look_at_wait(client));
    }

    /// What the next answer is about: nothing while a fence is to be answered first.
    fn next_asked(&self, id: UpstreamId) -> Option<&Asked> {
        let front = self.upstreams.get(id)?.inflight.front()?;
        let is_listen = front.owner == Owner::Own(OwnCommand::Listen);
        self.subscriptions.asked.get(&id)?.all.front().filter(|_| is_listen)
    }

    fn pop_asked(&mut self, id: UpstreamId) -> Option<Asked> {
        let upstream = self.upstreams.get_mut(id)?;
        upstream.answered(1);
        let unanswered = self.subscriptions.asked.get_mut(&id)?;
        let was_full = unanswered.is_full();
        let asked = unanswered.pop();
        if was_full && !unanswered.is_full() {
            self.wake_waiters(id);
        }
        asked
    }

    /// The server refused what we asked last.
    pub(super) fn listening_refused(&mut self, now: Time, id: UpstreamId, error: &[u8]) {
        let Some(asked) = self.pop_asked(id) else { return };
        asked.waiter.into_iter().for_each(|waiter| self.left(waiter));
        let Some(node) = self.upstreams.get(id).map(|up| up.key.node) else { return };
        let Some(topic) =
            self.subscriptions.topic_mut(asked.kind, &asked.name).filter(|_| asked.on)
        else {
            return;
        };
        for link in topic.links.iter_mut().filter(|link| link.state == LinkState::Asked(id)) {
            link.state = LinkState::Wanted;
        }
        topic.tries = topic.tries.saturating_add(1);
        let at_once = topic.tries <= SENT_ON_AT_ONCE;
        if sends_on(error) {
            let epoch = self.route_epoch;
            let moved = self.take_moved(node, &asked.name, error);
            let at = now.plus_ms(if moved && at_once { 0 } else { RELINK_MS });
            return match self.route_epoch == epoch {
                true => self.subscriptions.look_by(asked.kind, &asked.name, at),
                // Other topics of the slot move as well.
                false => self.subscriptions.relink_by(at),
            };
        }
        let waiting: Vec<ClientId> = topic.waiting.iter().copied().collect();
        let listeners: Vec<ClientId> = match self.settings.login.is_some() {
            // It took the right to listen away from their user, and would have closed them.
            true if error.starts_with(b"-NOPERM") => topic.listeners.iter().copied().collect(),
            _ => Vec::new(),
        };
        self.subscriptions.look_by(asked.kind, &asked.name, now.plus_ms(RELINK_REFUSED_MS));
        let failure = Failure::refusal(error.to_vec());
        for client in waiting {
            self.fail_wait(client, &failure);
        }
        for client in listeners {
            self.close_client(client, Some("its user may not listen to these channels any more"));
        }
    }

    /// Takes a MOVED in; whether it was one.
    fn take_moved(&mut self, from: NodeId, channel: &[u8], error: &[u8]) -> bool {
        let Some(pool) = self.nodes.get(from).map(|node| node.pool) else { return false };
        let Some((slot, address)) = moved_to(error, &self.host_of(from)) else {
            self.want_topology(pool);
            return false;
        };
        let place = self.router.channel_place(channel);
        match self.known_node(pool, &address).filter(|_| place == (Place { pool, slot })) {
            Some(owner) => self.patch_slot(place, owner),
            None => {
                self.heed_sign(pool, Sign::Named(from));
                return false;
            }
        }
        true
    }

    /// When topics are to be looked at, or the first client has waited long enough.
    pub(crate) fn subscriptions_at(&self) -> Option<Time> {
        let waits = self.subscriptions.waits.front().map(|(until, _)| *until);
        let can_be_said = |id: &UpstreamId| !self.takes_no_topics(*id);
        let is_due = self.subscriptions.unsaid.keys().any(can_be_said)
            || !self.subscriptions.fences_due.is_empty();
        let leave = !self.subscriptions.gone.is_empty() || !self.subscriptions.leavers.is_empty();
        let ends = (is_due || leave).then_some(Time::default());
        let settles = self.subscriptions.settling.first().map(|(at, _)| *at);
        let returns = self.subscriptions.homes.returns_at();
        self.subscriptions
            .look_at()
            .into_iter()
            .chain(waits)
            .chain(settles)
            .chain(returns)
            .chain(ends)
            .min()
    }

    /// Does what is due.
    pub(crate) fn run_subscriptions(&mut self, now: Time) {
        self.see_homes(now);
        if self.subscriptions.route_epoch != self.route_epoch {
            self.subscriptions.route_epoch = self.route_epoch;
            if !self.subscriptions.is_empty() {
                self.subscriptions.relink_by(now.plus_ms(RELINK_MS));
            }
        }
        if self.subscriptions.is_idle() {
            return self.subscriptions.forget_looks();
        }
        let names = self.subscriptions.names_due(now);
        if !names.is_empty() {
            let homes = self.homes_now();
            names.iter().for_each(|(kind, name)| self.relink(now, &homes, *kind, name));
        }
        while let Some((until, id)) = self.subscriptions.waits.front().copied()
            && until <= now
        {
            self.subscriptions.waits.pop_front();
            let (joins, leaves) = self.waits_since_before(now, id);
            if joins {
                let error = reject::not_confirmed(self.patience_ms());
                self.fail_wait(id, &Failure::refusal(error));
            }
            if leaves {
                self.begin_end(id);
            }
        }
        self.subscriptions.gone.begin_turn();
        self.leave_for_the_gone();
        self.leave_settled(now);
        self.leave_in_parts(now);
        self.say_unsaid(now);
        self.say_fences(now);
        self.tell_listeners();
    }

    /// All servers are others. The former ones tell nothing any more, and nobody who asks for a topic before the new ones are known is led to
    /// them.
    pub(crate) fn relink_topics(&mut self, now: Time) {
        for (kind, name) in self.subscriptions.names() {
            self.release(now, kind, &name);
            if let Some(topic) = self.subscriptions.topic_mut(kind, &name) {
                (topic.handover, topic.links) = (None, Vec::new());
            }
            self.subscriptions.relink_by(now);
        }
    }

    /// A topic goes to where it belongs now. One that ends stays.
    fn relink(&mut self, now: Time, homes: &Homes, kind: Kind, name: &Name) {
        if self.subscriptions.topic(kind, name).is_none_or(Topic::is_over) {
            return;
        }
        let mut links = match self.belongs(Some(homes), kind, name) {
            Ok(links) => links,
            Err(pool) => {
                self.want_topology(pool);
                let at = now.plus_ms(RELINK_REFUSED_MS);
                return self.subscriptions.look_by(kind, name, at);
            }
        };
        let settles = |topic: &Topic| {
            topic.handover.is_some()
                && topic.links.iter().all(|link| link.state != LinkState::Wanted)
        };
        if self.subscriptions.topic(kind, name).is_some_and(settles) {
            // One step after the other: of three servers that tell the same two would be heard.
            self.topic_confirmed(now, kind, name);
            self.hand_over(now, kind, name);
            self.handed_over(now, kind, name);
            return self.look_again_when_settled(now, kind, name);
        }
        let mut comes_back = false;
        let Some(topic) = self.subscriptions.topic_mut(kind, name) else { return };
        for link in &mut links {
            let before = topic.links.iter().find(|before| before.node == link.node);
            link.state = before.map_or(LinkState::Wanted, |before| before.state);
            if let LinkState::Ending(_) = link.state {
                // It comes back before it has gone, and is asked for behind its end.
                (link.state, comes_back) = (LinkState::Wanted, true);
            }
            let was_home = before.is_some_and(|before| before.home);
            if was_home && !link.home && matches!(link.state, LinkState::Held(_)) {
                // This node delivers every message until the new home has confirmed.
                (link.home, link.ends, link.stays_beside) = (true, true, true);
            }
        }
        // Where it was until now it stays until the new place has confirmed it, so that nothing is missed in between.
        let is_old = |link: &Link| links.iter().all(|other| other.node != link.node);
        let held = |link: &Link| matches!(link.state, LinkState::Held(_) | LinkState::Ending(_));
        let (stay, go): (Vec<Link>, Vec<Link>) =
            topic.links.iter().copied().filter(is_old).partition(held);
        links.extend(stay.into_iter().map(|link| Link { ends: true, ..link }));
        if links.iter().any(|link| link.ends && link.home) {
            // The new place may be confirmed late: what is heard meanwhile it may tell again.
            topic.handover.get_or_insert_with(Handover::begun);
        }
        let was_home = |node| topic.links.iter().any(|link| link.node == node && link.home);
        if links.iter().any(|link| link.home && !was_home(link.node)) {
            topic.moved = Some(now);
            topic.handover.iter_mut().for_each(|handover| handover.begin_again());
        }
        topic.links = links;
        if comes_back {
            self.release(now, kind, name);
        }
        for link in &go {
            self.end_link(link, kind, name, None);
        }
        // A node that is down is connected to again in time, and asked then.
        let _ = self.ask_links(now, kind, name);
        self.topic_confirmed(now, kind, name);
        self.hand_over(now, kind, name);
    }

    /// A topic on its way is looked at again when its old server may go, or soon if it is going.
    fn look_again_when_settled(&mut self, now: Time, kind: Kind, name: &[u8]) {
        let topic = self.subscriptions.topic(kind, name);
        let handover = topic.and_then(|topic| topic.handover.as_ref());
        let until = handover.map_or(now, |handover| handover.due(now));
        self.subscriptions.look_by(kind, name, until.max(now.plus_ms(RELINK_MS)));
    }
}
