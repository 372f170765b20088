//! An upstream's life: created on demand, connected, greeted, lost, tried again.
//!
//! Rules (each has a story in `tests/`):
//! - The first request for a key creates its upstream; the clients that want it wait until it is ready or down.
//! - A node known to be down fails requests at once; it is tried again with backoff while someone asks.
//! - A connection that breaks answers all it owes with an error that names the node and the cause, and is connected again at once. An idle
//!   close is no failure. A second connection that does not last a second counts as a failure, so that a server which greets and
//!   hangs up is not stormed.
//!
//! Not here: sockets and names (`server`), the wording of the greeting (`upstream::greeting`).
//!
//! Invariant: an upstream that is not ready has nobody in flight but its own greeting.

use crate::beside::Beside;
use crate::engine::{Action, Engine, Notice};
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{KEPT_BYTES_MAX, KEPT_BYTES_MIN, KEPT_PART, QUICK_MS};
use crate::mirror::is_mirrors;
use crate::node::{Address, Node};
use crate::reject;
use crate::room::is_private;
use crate::server_loss::Failure;
use crate::shares::Group;
use crate::time::Time;
use crate::topology::Topology;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use crate::upstream::roles::serves;
use crate::upstream::{Down, Lane, Role, State, Upstream, UpstreamKey, backoff, greeting};
use crate::write_offset::is_before_7;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// Whether a request can be written now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// Yes, here.
    Ready(UpstreamId),
    /// Not yet: the client is to be held for this upstream.
    Wait(UpstreamId),
    /// No.
    Down(Failure),
}

impl Engine {
    /// The upstream that new requests of this key use, for this client.
    pub(crate) fn upstream_for(
        &mut self,
        now: Time,
        key: UpstreamKey,
        client: ClientId,
    ) -> Availability {
        if let Some(id) = self.by_key.get(&key).copied() {
            self.retire_if_stalled(now, id, client);
        }
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => match self.new_shared(now, key, client) {
                Some(id) => id,
                None => return Availability::Down(Failure::refusal(self.too_many_upstreams(&key))),
            },
        };
        match self.availability(now, id) {
            Availability::Wait(id) if self.takes_more(id, client) => Availability::Ready(id),
            availability => availability,
        }
    }

    /// Whether this upstream takes a request; one that is idle begins to connect.
    pub(crate) fn availability(&mut self, now: Time, id: UpstreamId) -> Availability {
        let high = self.settings.limits.upstream_out_high_bytes;
        let Some(upstream) = self.upstreams.get(id) else {
            return Availability::Down(Failure::loss(reject::node("of this client", "is gone")));
        };
        match &upstream.state {
            State::Ready if upstream.has_room(high) => return Availability::Ready(id),
            // Known to be down: fails at once, also while it is tried again, unless it is known within a moment how that ends.
            State::Down(_) if upstream.tried_from.is_some_and(|from| from <= now) => {
                self.connect(now, id);
            }
            State::Down(Down { refused: Some(error), until }) => {
                let error = error_reply(error);
                if *until <= now {
                    // No timer tries what only a client's wish can need, so the asking does.
                    self.connect(now, id);
                }
                return Availability::Down(Failure::refusal(error));
            }
            State::Down(_) => return Availability::Down(self.away_of(upstream)),
            State::Connecting(_) | State::Greeting(_)
                if upstream.failures > 0 && upstream.tried_from.is_none() =>
            {
                return Availability::Down(self.away_of(upstream));
            }
            State::Idle => self.connect(now, id),
            State::Ready | State::Connecting(_) | State::Greeting(_) => {}
        }
        Availability::Wait(id)
    }

    /// Its server cannot be reached, or does not take us.
    fn away_of(&self, upstream: &Upstream) -> Failure {
        let text = reject::node(self.label(upstream.key.node), &upstream.cause);
        match upstream.is_refused {
            true => Failure::refusal(text),
            false => Failure::loss(text),
        }
    }

    /// The key of the first connection for the ordinary traffic to a node, which our own questions take.
    pub(crate) fn shared_key(&self, node: NodeId, protocol: Protocol, db: u32) -> UpstreamKey {
        let (resp3, lane) = (protocol == Protocol::Resp3, Lane::Shared);
        UpstreamKey { node, resp3, db, lane, conn: 0, owner: None }
    }

    /// How texts name a node.
    pub(crate) fn label(&self, node: NodeId) -> &str {
        self.nodes.get(node).map_or("(forgotten)", |node| &node.label)
    }

    /// Creates an upstream; `None` at the bound.
    pub(crate) fn new_upstream(&mut self, key: UpstreamKey, role: Role) -> Option<UpstreamId> {
        // Connections of single clients and feeds have bounds of their own.
        let has_room = match key.owner {
            Some(owner) => self.may_own(owner),
            None if key.lane == Lane::Broadcast => {
                self.has_room_for_feed(&key) && self.make_room_anywhere(key.lane)
            }
            None if is_private(&key, role) => true,
            None => {
                // respool asks for room at the node first, so that a connection ends only if the new connection is made.
                (self.has_room_at(key.node) || self.end_idle(key.node))
                    && (role != Role::Shared || self.make_room_anywhere(key.lane))
            }
        };
        if !has_room {
            return None;
        }
        let mut upstream = Upstream::new(key, role);
        upstream.edge = self.edge_of(&key);
        let part = self.settings.limits.memory_max_bytes / KEPT_PART;
        upstream.kept_max_bytes = part.clamp(KEPT_BYTES_MIN, KEPT_BYTES_MAX);
        upstream.out.keeps =
            self.keeps_output_of(&key) && role == Role::Shared && key.lane.carries_requests();
        if let Some(client) = serves(&key, role).and_then(|client| self.clients.get(client)) {
            upstream.group = Group::of(client, &self.settings.users);
        }
        let id = self.upstreams.insert(upstream);
        if let Some(upstream) = self.upstreams.get(id) {
            self.roles.enter(id, upstream);
        }
        if role == Role::Shared {
            self.list(key, id);
        }
        Some(id)
    }

    /// Requests of this key find this upstream.
    pub(crate) fn list(&mut self, key: UpstreamKey, id: UpstreamId) {
        self.by_key.insert(key, id);
        self.set_short_path(&key, Some(id));
    }

    /// Creates an upstream for one client; the error reply if there can be none. To a node that is known to be down there is none: the
    /// connections that all share are tried with growing waits, and if each client tried one for itself, that would be a storm.
    pub(crate) fn new_private(
        &mut self,
        key: UpstreamKey,
        role: Role,
    ) -> Result<UpstreamId, Failure> {
        if let Some(upstream) = self.away(key.node, key.protocol(), key.db) {
            return Err(self.away_of(upstream));
        }
        let made = self.new_upstream(key, role);
        made.ok_or_else(|| Failure::refusal(self.too_many_upstreams(&key)))
    }

    /// Whether what is sent is kept until it is answered: it may have to go to another server, or be shown in the slow log, or somebody wants to
    /// be told of it.
    pub(crate) fn keeps_output(&self) -> bool {
        !self.is_one() || self.settings.slowlog.is_on() || self.settings.observed.is_on()
    }

    /// The upstream of this key is found no more.
    pub(crate) fn unlist(&mut self, key: &UpstreamKey) {
        self.by_key.remove(key);
        self.set_short_path(key, None);
        // Whoever has requests open there must not overtake them on the connection that takes its place.
        match key.owner {
            Some(owner) => self.take_other_connections(owner),
            None => self.route_epoch = self.route_epoch.wrapping_add(1),
        }
    }

    fn set_short_path(&mut self, key: &UpstreamKey, id: Option<UpstreamId>) {
        if key.lane == Lane::Shared
            && key.beside() == Beside::No
            && key.db == self.settings.node.db
            && let Some(node) = self.nodes.get_mut(key.node)
        {
            node.set_shared(key.conn, usize::from(key.resp3), id);
        }
    }

    /// Connects ahead of the first request, so that a node that is down is known and told at the start.
    pub fn warm_up(&mut self, now: Time) {
        self.refresh_topologies(now);
        if !self.is_one() {
            return;
        }
        let key = self.shared_key(self.first_node, Protocol::Resp2, self.settings.node.db);
        if self.by_key.contains_key(&key) {
            return;
        }
        if let Some(id) = self.new_upstream(key, Role::Shared) {
            self.connect(now, id);
        }
    }

    pub(crate) fn connect(&mut self, now: Time, id: UpstreamId) {
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.state = State::Connecting(now);
            self.actions.push_back(Action::Connect(id));
        }
        self.schedule(id);
    }

    /// The key of an upstream; `None` if it is gone.
    pub fn upstream_key(&self, id: UpstreamId) -> Option<UpstreamKey> {
        if is_mirrors(id) {
            return self.at_mirror(id, |engine, id| engine.upstream_key(id));
        }
        self.upstreams.get(id).map(|upstream| upstream.key)
    }

    /// Where to connect it to; `None` if it is gone.
    pub fn upstream_address(&self, id: UpstreamId) -> Option<&Address> {
        let Some(upstream) = self.upstreams.get(id) else { return self.mirror_address(id) };
        self.nodes.get(upstream.key.node).map(|node| &node.address)
    }

    /// Whether the engine still waits for this connect: after the resolving of a name it may not.
    pub fn wants_connect(&self, id: UpstreamId) -> bool {
        if is_mirrors(id) {
            return self.at_mirror(id, |engine, id| Some(engine.wants_connect(id))) == Some(true);
        }
        self.upstreams.get(id).is_some_and(|up| matches!(up.state, State::Connecting(_)))
    }

    /// The connect succeeded.
    pub fn handle_upstream_connected(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else {
            return self.mirror_event(now, id, &mut |engine, id| {
                engine.handle_upstream_connected(now, id);
            });
        };
        let State::Connecting(since) = upstream.state else { return };
        // The time for a connect includes the greeting's.
        upstream.state = State::Greeting(since);
        upstream.way_us = now.since(since);
        upstream.progress_at = now;
        self.schedule(id);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let (key, at) = (upstream.key, upstream.out.position());
        if key.lane == Lane::Peer {
            return self.greet_peer(now, id);
        }
        if self.is_left(key.node) {
            // How it was greeted is forgotten, and nobody else's password must come there.
            return self.fail_upstream(now, id, crate::replace::CAUSE, None);
        }
        if key.lane == Lane::Login {
            // Whoever comes first says who it is.
            return self.upstream_ready(now, id);
        }
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let greeting = greeting::of(&self.router, &self.nodes, &self.settings, &key);
        let out = upstream.out.buf(&mut self.pool);
        let asked = greeting::write(out, greeting, &key);
        self.sent_own(now, id, at, &asked);
    }

    /// Writes a command of the proxy's own.
    pub(crate) fn say_own(&mut self, now: Time, id: UpstreamId, own: OwnCommand, args: &[&[u8]]) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let at = upstream.out.position();
        encode::request(upstream.out.buf(&mut self.pool), args);
        self.sent_own(now, id, at, &[own]);
    }

    /// Own commands were written, the first of them at `at`.
    pub(crate) fn sent_own(&mut self, now: Time, id: UpstreamId, at: u64, asked: &[OwnCommand]) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        for own in asked {
            upstream.inflight.push(Run::new(Owner::Own(*own), 1, None, now, at));
        }
        self.touch_upstream(id);
    }

    /// A reply to a command of the proxy's own.
    pub(crate) fn own_reply(&mut self, now: Time, id: UpstreamId, own: OwnCommand, reply: &[u8]) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let key = upstream.key;
        upstream.note_greeted(now.since(self.own_asked_at));
        if key.lane == Lane::Peer {
            return self.peer_answered(now, id);
        }
        if own == OwnCommand::Hello {
            upstream.server_id = greeting::server_id(reply);
        }
        let text = reply.strip_prefix(b"-");
        let error = text.map(|text| text.strip_suffix(b"\r\n").unwrap_or(text).to_vec());
        match (own, error) {
            (OwnCommand::Hello, None) if key.lane == Lane::Sentinel => {}
            (OwnCommand::Hello, None) if self.is_no_primary(&key, reply) => {
                self.disown_primary(key.node);
                return self.fail_upstream(now, id, "is no primary any more", None);
            }
            (OwnCommand::Hello, None) => self.learn_from_hello(id, &key, reply),
            (OwnCommand::Word, error) => self.word_answered(now, id, error),
            (OwnCommand::Unknown(word), _) => self.second_word_answered(id, word),
            (OwnCommand::Unblock, _) => self.unblock_answered(id, Some(reply)),
            (OwnCommand::Question(number), _) => self.question_answered(now, id, number, reply),
            (OwnCommand::Role, _) => self.role_reply(now, id, reply),
            // A server that answers with an error answers.
            (OwnCommand::Ping, _) => self.ping_answered(key.node, reply),
            (OwnCommand::Near(own), error) => self.cache_told(now, id, own, error.is_none()),
            (OwnCommand::Mark | OwnCommand::Fence, error) => self.feed_answered(id, error.is_none()),
            (OwnCommand::Hello, Some(error)) if greeting::knows_no_hello(&error) && !key.resp3 => {
                return self.greet_old(now, id);
            }
            (OwnCommand::Learn, None) => self.learning_answered(now, reply),
            (OwnCommand::Lookup(round), _) => self.lookup_answered(round, Some(reply)),
            (OwnCommand::Functions, _) => self.functions_told(reply),
            (OwnCommand::Offset { may_lack: true }, Some(error)) if is_before_7(&error) => {}
            (OwnCommand::Offset { .. }, Some(error)) => return self.offset_refused(now, id, &error),
            (
                OwnCommand::Slots
                | OwnCommand::Nodes
                | OwnCommand::Standing
                | OwnCommand::MyId
                | OwnCommand::Epoch
                | OwnCommand::Primary
                | OwnCommand::Replicas
                | OwnCommand::Sentinels,
                _,
            ) => self.topology_reply(now, id, own, reply),
            (
                OwnCommand::Auth
                | OwnCommand::Select
                | OwnCommand::SetName
                | OwnCommand::ReadOnly
                | OwnCommand::Asking,
                None,
            )
            // That ASKING failed shows in the reply behind it.
            | (OwnCommand::Delimiter(_) | OwnCommand::Script | OwnCommand::Aside | OwnCommand::Listen | OwnCommand::Shadow(_), _)
            | (OwnCommand::Multi | OwnCommand::State | OwnCommand::Track | OwnCommand::Offset { .. }, None)
            | (
                OwnCommand::SetName
                | OwnCommand::Learn
                | OwnCommand::ReadOnly
                | OwnCommand::Asking,
                Some(_),
            ) => {}
            (
                OwnCommand::Hello
                | OwnCommand::Auth
                | OwnCommand::Select
                | OwnCommand::Track
                | OwnCommand::Multi
                | OwnCommand::State,
                Some(error),
            ) => return self.own_refused(now, id, own, error),
        }
        self.greet_on(now, id, own);
    }

    /// Learns zone, version and role of a server from its reply to HELLO.
    fn learn_from_hello(&mut self, id: UpstreamId, key: &UpstreamKey, hello: &[u8]) {
        self.learn_zone(key.node, hello);
        self.facts.learn(hello, key.protocol());
        let moved_by = self.facts.offset_moved_by();
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.offset_moved_by = moved_by;
        }
    }

    /// The zone that a server tells in its answer to HELLO (Valkey 8.1).
    fn learn_zone(&mut self, node: NodeId, hello: &[u8]) {
        if let Some(zone) = greeting::zone(hello)
            && let Some(node) = self.nodes.get_mut(node)
        {
            node.zone = zone;
        }
    }

    /// Whether sentinels named this node as the primary and it says itself that it is a copy: it was one until just now.
    fn is_no_primary(&self, key: &UpstreamKey, hello: &[u8]) -> bool {
        let pool = self.nodes.get(key.node).map(|node| usize::from(node.pool));
        let pool = pool.and_then(|pool| self.router.pools.get(pool));
        matches!(pool.map(|pool| &pool.topology), Some(Topology::Sentinel(group)) if group.primary == Some(key.node))
            && greeting::says_no_primary(hello)
    }

    /// The server knows no HELLO. What was sent behind it is sent again, behind AUTH, and its first replies are not looked at.
    fn greet_old(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let key = upstream.key;
        // A SELECT before AUTH may have failed; the same place is now one whose failure does no harm.
        let pending = upstream.inflight.len();
        while upstream.inflight.abandon().is_some() {}
        let harmless = alloc::vec![OwnCommand::SetName; pending];
        let at = upstream.out.position();
        self.sent_own(now, id, at, &harmless);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let at = upstream.out.position();
        let greeting = greeting::of(&self.router, &self.nodes, &self.settings, &key);
        let out = upstream.out.buf(&mut self.pool);
        let asked = greeting::write_old(out, greeting, &key);
        if asked.is_empty() && pending == 0 {
            self.upstream_ready(now, id);
        } else {
            self.sent_own(now, id, at, &asked);
        }
    }

    pub(crate) fn upstream_ready(&mut self, now: Time, id: UpstreamId) {
        let Some(node) = self.upstreams.get(id).map(|upstream| upstream.key.node) else { return };
        self.home_returns(now, node);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.state = State::Ready;
        let again = upstream.ready_at != Time::default() || upstream.failures > 0;
        upstream.ready_at = now;
        upstream.ready_place = upstream.inflight.end();
        self.opening.remove(id);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let was_down = core::mem::take(&mut upstream.failures) > 0;
        let (key, upstream_role) = (upstream.key, upstream.role);
        if matches!(upstream_role, Role::Spare(_)) {
            self.set_role(id, Role::Spare(now));
        }
        self.note_login_taken(&key);
        let readonly = self.needs_readonly(&key);
        self.count_connect(now, key.node, again);
        let server = format!("{} {}", self.facts.server, self.facts.version);
        let main = upstream_role == Role::Shared
            && key.lane == Lane::Shared
            && !key.resp3
            && key.db == self.settings.node.db;
        let node = self.label(key.node).to_string();
        let server = server.trim().to_string();
        self.notices.push_back(Notice::NodeReady { node, key, server, main });
        if key.lane == Lane::Shared {
            self.learn_from(now, id);
            self.functions_askable();
        }
        if readonly {
            self.say_readonly(id);
        }
        self.renew_readers();
        if was_down {
            // One that was not down ends nobody's wait: that must stay bounded while other connections come and go.
            self.node_is_back(now, key.node);
            self.try_others(now, key.node);
        }
        if key.lane == Lane::Messages {
            self.listening_ready(now, id);
        }
        self.feed_ready(now, id);
        self.send_carried(id);
        if matches!(upstream_role, Role::Spare(_)) {
            self.relieve(now, id);
        }
        self.refresh_upstream_ready(now, id);
        self.probe_ready(now, id, key.node);
        self.wake_waiters(id);
    }

    /// The connect failed, or the connection is gone; `cause` in words, without the node's name.
    pub fn handle_upstream_closed(&mut self, now: Time, id: UpstreamId, cause: &str) {
        if is_mirrors(id) {
            return self.mirror_event(now, id, &mut |engine, id| {
                engine.handle_upstream_closed(now, id, cause);
            });
        }
        self.lose_heard(now, id, cause);
    }

    /// The connection is of no more use. `ours`: we end it, so the socket must be closed.
    pub(crate) fn lose_upstream(&mut self, now: Time, id: UpstreamId, cause: &str, ours: bool) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if !upstream.has_socket() {
            return;
        }
        if ours {
            self.actions.push_back(Action::CloseUpstream(id));
        }
        if upstream.key.lane == Lane::Peer {
            return self.peer_lost(id);
        }
        if !upstream.is_ready() {
            // Nothing but the greeting was written: whoever waits is told that its request was not sent.
            let cause = match upstream.state {
                State::Greeting(_) => format!("the greeting failed: {cause}"),
                _ => cause.to_string(),
            };
            return self.connection_failed(now, id, &cause, None);
        }
        self.note_refused_frame(id, cause, ours);
        self.note_lost_writes(now, id);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let short_lived = upstream.note_life(now, &self.settings.timeouts, ours);
        let (role, half_given, key) = (upstream.role, upstream.forwarded > 0, upstream.key);
        upstream.state = State::Idle;
        let untouched = upstream.out.untouched_from();
        let requests = upstream.inflight.len();
        let runs = self.take_runs(id);
        self.count_loss(key.node);
        let again = !short_lived && !self.draining;
        let runs = match role {
            // What was sent there belongs together.
            Role::Leased(_) | Role::Errand(_) => runs,
            // What it was told is told to the next one whole.
            Role::Shared if key.lane == Lane::Messages => runs,
            Role::Shared if again && self.is_one() => self.carry(id, runs),
            _ => self.rescue(now, id, runs),
        };
        self.observe_lost(now, id, &runs, &reject::node(self.label(key.node), cause));
        self.reset_upstream(id);
        self.weigh_upstream(id);
        self.dirty_upstreams.forget(id);
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.out.dirty = false;
        }
        if requests > 0 {
            self.node_failed(now, key.node);
            let node = self.label(key.node).to_string();
            self.notices.push_back(Notice::UpstreamLost {
                node,
                cause: cause.to_string(),
                requests,
            });
        }
        // What never left the connection was not executed.
        let was_sent = |run: &Run| run.at < untouched || run.done > 0 || run.shares;
        let (sent, unsent): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(was_sent);
        self.answer_lost(now, id, key, &sent, half_given, cause);
        self.answer_lost(now, id, key, &unsent, false, &not_sent(cause));
        if let Role::Leased(client) = role {
            let failure = Failure::loss(reject::node(self.label(key.node), cause));
            self.lease_lost(id, client, &failure);
        }
        if key.lane == Lane::Messages {
            self.close_listeners(id);
            self.listening_lost(id);
        }
        self.feed_lost(id, key);
        self.refresh_upstream_lost(now, id, cause);
        if role == Role::Shared && short_lived {
            // The requests that fail from now on are not sent.
            self.connection_failed(now, id, &not_sent(cause), None);
        } else if role == Role::Shared && !self.draining {
            self.connect(now, id);
        } else {
            self.wake_waiters(id);
            self.remove_upstream(id);
        }
    }

    pub(crate) fn take_runs(&mut self, id: UpstreamId) -> Vec<Run> {
        let Some(upstream) = self.upstreams.get_mut(id) else { return Vec::new() };
        core::iter::from_fn(|| upstream.inflight.abandon()).collect()
    }

    /// The upstream of a large request is gone: the rest of the request is dropped.
    pub(crate) fn stop_streaming(&mut self, client_id: ClientId, id: UpstreamId) {
        if let Some(client) = self.clients.get_mut(client_id)
            && client.hold == crate::client::Hold::Streaming(id)
        {
            client.hold = crate::client::Hold::Skipping;
            // Its reading may be stopped because that upstream was full.
            self.update_reading(client_id);
        }
    }

    /// We give a connection up that was not ready yet.
    pub(crate) fn fail_upstream(
        &mut self,
        now: Time,
        id: UpstreamId,
        cause: &str,
        refused: Option<Vec<u8>>,
    ) {
        // The end of another connection may have ended this one already.
        if self.upstreams.get(id).is_some_and(Upstream::has_socket) {
            self.actions.push_back(Action::CloseUpstream(id));
            self.connection_failed(now, id, cause, refused);
        }
    }

    fn connection_failed(
        &mut self,
        now: Time,
        id: UpstreamId,
        cause: &str,
        refused: Option<Vec<u8>>,
    ) {
        if self.upstreams.get(id).is_some_and(|up| up.key.lane == Lane::Peer) {
            return self.peer_lost(id);
        }
        let (random, is_one) = (self.next_random(), self.is_one());
        self.take_runs(id);
        self.reset_upstream(id);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.out.dirty = false;
        upstream.failures = upstream.failures.saturating_add(1);
        let spent_ms = match upstream.state {
            State::Connecting(since) | State::Greeting(since) => now.since(since) / 1_000,
            _ => 0,
        };
        let wait_ms =
            backoff::wait_ms(&self.settings.timeouts, upstream.failures, spent_ms, random);
        let key = upstream.key;
        let (first, theirs) = (upstream.failures == 1, refused.is_some());
        (upstream.cause, upstream.is_refused) = (cause.to_string(), false);
        let theirs_error = refused.clone();
        let is_quick = (is_one || theirs) && spent_ms < QUICK_MS;
        upstream.tried_from =
            is_quick.then(|| now.plus_ms(self.settings.timeouts.reconnect_min_ms));
        upstream.state = State::Down(Down { until: now.plus_ms(wait_ms), refused });
        let carried = upstream.carried.take();
        self.weigh_upstream(id);
        self.schedule(id);
        self.dirty_upstreams.forget(id);
        if let Some(carried) = carried {
            self.answer_lost(now, id, key, &carried.runs, false, &not_sent(cause));
        }
        if key.lane == Lane::Messages {
            self.listening_lost(id);
            let failure = match &theirs_error {
                Some(error) => Failure::refusal(error_reply(error)),
                None => Failure::loss(reject::node(self.label(key.node), cause)),
            };
            self.listening_failed(now, key.node, &failure);
        }
        self.count_failure(now, key.node, theirs);
        self.doubt_homes();
        self.feed_is_late(key);
        self.refresh_upstream_lost(now, id, cause);
        if first {
            self.renew_readers();
        }
        if !theirs {
            self.node_failed(now, key.node);
            // A replica may come back without its data.
            self.set_unfit(key.node);
            self.forget_refusal(key.node);
        }
        if first && !theirs {
            let node = self.label(key.node).to_string();
            self.notices.push_back(Notice::NodeDown { node, key, cause: cause.to_string() });
        }
        self.wake_waiters(id);
        if self.upstreams.get(id).is_some_and(|up| matches!(up.role, Role::Spare(_))) {
            // Nobody waits for it; the next client that takes a connection has another one made.
            self.remove_upstream(id);
        }
    }

    /// A node that was down takes connections again: the others to it need not wait for their time.
    pub(crate) fn try_others(&mut self, now: Time, node: NodeId) {
        let waits = |up: &Upstream| {
            up.key.node == node
                && matches!(&up.state, State::Down(Down { refused: None, until }) if *until > now)
        };
        let others = self.upstreams.iter().filter(|(_, up)| waits(up));
        for id in others.map(|(id, _)| id).collect::<Vec<_>>() {
            self.connect(now, id);
        }
    }

    /// Whether the server speaks this protocol and has this database, for HELLO and SELECT.
    pub(crate) fn probe(
        &mut self,
        now: Time,
        protocol: Protocol,
        db: u32,
        client: ClientId,
    ) -> Availability {
        let key = self.shared_key(self.node_to_probe(protocol, db), protocol, db);
        self.upstream_for(now, key, client)
    }

    /// Who is asked whether there is this protocol and database: any that lives, so that clients can say HELLO while one is away.
    pub(crate) fn node_to_probe(&self, protocol: Protocol, db: u32) -> NodeId {
        let first = self.router.any_node().unwrap_or(self.first_node);
        if self.is_one() {
            return first;
        }
        let lives = |node: &NodeId| self.away(*node, protocol, db).is_none();
        core::iter::once(first).chain(self.router.primaries()).find(lives).unwrap_or(first)
    }

    /// The connection that shows that a node is down, of those that a client with this protocol and database would share.
    fn away(&self, node: NodeId, protocol: Protocol, db: u32) -> Option<&Upstream> {
        let keys = [(protocol, db), (Protocol::Resp2, self.settings.node.db)];
        let keys = keys.map(|(protocol, db)| self.shared_key(node, protocol, db));
        let listed = keys.iter().filter_map(|key| self.upstreams.get(*self.by_key.get(key)?));
        listed.into_iter().find(|up| up.is_away())
    }

    /// Whether the connections to a node show that it cannot be reached.
    pub(crate) fn is_away(&self, node: NodeId) -> bool {
        self.shared_of(node).any(Upstream::is_away) && !self.is_there(node)
    }

    /// Whether a connection to a node stands.
    pub(crate) fn is_there(&self, node: NodeId) -> bool {
        self.shared_of(node).any(|up| matches!(up.state, State::Ready))
    }

    pub(crate) fn shared_of(&self, node: NodeId) -> impl Iterator<Item = &Upstream> {
        let ids = self.nodes.get(node).into_iter().flat_map(Node::all_shared);
        ids.filter_map(|id| self.upstreams.get(id))
    }

    /// Forgets a shared upstream whose greeting the server refused for what a client asked (a database that does not exist), so that the
    /// next client asks again and none of them fill the table. Returns whether that was the case.
    pub(crate) fn forget_refused(&mut self, protocol: Protocol, db: u32) -> bool {
        let key = self.shared_key(self.node_to_probe(protocol, db), protocol, db);
        let Some(id) = self.by_key.get(&key).copied() else { return false };
        let refused = |up: &Upstream| matches!(&up.state, State::Down(d) if d.refused.is_some());
        let Some(upstream) = self.upstreams.get(id).filter(|up| refused(up)) else { return false };
        if upstream.waiters.is_empty() {
            self.remove_upstream(id);
        }
        true
    }
}

/// Why requests that were not written are answered with an error when their connection breaks.
fn not_sent(cause: &str) -> String {
    format!("{}: {cause}", reject::NOT_SENT)
}

pub(crate) fn error_reply(error: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::error(&mut out, error);
    out
}
