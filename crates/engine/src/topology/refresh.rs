//! When the topology of a pool is asked for again, and whom.
//!
//! Wanted on every sign that it is stale (a redirect, a lost node, a place without an owner, a sentinel's message) and once in a
//! while; asked one at a time, at most so often, of one node after the other, those that are known to be down left out. Whoever answers
//! first with something usable ends the round. While nobody answers, what was last known goes on serving.
//!
//! Not here: what the answer says (`slots`, `sentinel`) and what becomes of it (`topology`).
//!
//! Invariant: `asking` names an upstream that was asked or is to be asked when it is ready.

use super::sentinel::Told;
use super::slots::SLOTS;
use super::{PoolState, Topology, sentinel, slots};
use crate::engine::{Engine, Notice};
use crate::ids::{NodeId, UpstreamId};
use crate::limits::{
    CLUSTER_NODES_MAX, SENTINEL_EVERY_MS, SENTINEL_NODES_MAX, TOPOLOGY_AGAIN_MS, TOPOLOGY_EVERY_MS,
    TOPOLOGY_PATIENCE_MS,
};
use crate::news::What;
use crate::node::Address;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Lane, Role, State, UpstreamKey};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use resp::encode;
use resp::value::Value;

/// What is seen when what is known of a pool is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign<T> {
    /// Nothing that says who knows better.
    Bare,
    /// This one is the new owner of something, or said that it is not the owner: it knows of the change before all others.
    Named(T),
    /// This one named a node that nobody has told of. It is asked for all nodes of its cluster, too.
    Stranger(T),
    /// This one cannot be reached. Where a copy of it has taken over, that copy knows of it before all others.
    Lost(T),
}

impl<T> Sign<T> {
    /// The same of another kind of name; without one it is bare.
    pub(crate) fn map<U>(self, name: impl FnOnce(T) -> Option<U>) -> Sign<U> {
        match self {
            Self::Bare => Sign::Bare,
            Self::Named(node) => name(node).map_or(Sign::Bare, Sign::Named),
            Self::Stranger(node) => name(node).map_or(Sign::Bare, Sign::Stranger),
            Self::Lost(node) => name(node).map_or(Sign::Bare, Sign::Lost),
        }
    }
}

/// Why an answer is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Useless {
    /// It tells nothing of what was asked.
    Empty,
    /// It names so many nodes, more than [`CLUSTER_NODES_MAX`].
    TooManyNodes(usize),
    /// It has so many ranges, more than there are slots.
    TooManyRanges(usize),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    wanted: bool,
    asking: Option<UpstreamId>,
    /// When that one counts as silent, and another one is asked.
    patience_until: Time,
    /// Not before this.
    not_before: Time,
    /// When it is wanted without a sign.
    again_at: Option<Time>,
    /// There was a message during a question: its answer may be older than that.
    heard: bool,
    /// A sentinel named another primary than the others; respool asks the next sentinel soon.
    in_doubt: bool,
    /// Whose turn it is, of all and of copies.
    turn: usize,
    copies_turn: usize,
    /// Of the signs since the last question.
    named: Option<NodeId>,
    lost: Option<NodeId>,
    /// The nodes of the cluster are asked for with the next question.
    members: bool,
    /// Whose copies were asked the last time because it was lost.
    asked_copies_of: Option<NodeId>,
    /// The first worker was told that it is wanted here (see `news`).
    pub(crate) wish_passed_on: bool,
    /// The last answer to CLUSTER INFO said that the cluster is down, as a node does that is cut off from the others.
    cut_off: bool,
    /// How many answers in a row came from such nodes and were left out.
    doubted: usize,
    /// How many in a row took the question and broke: so many were passed over without a pause.
    passed_over: u32,
    /// Why the last question brought nothing, for error texts; empty: it did.
    pub(crate) cause: String,
    /// When a node last told something usable.
    pub(crate) told_at: Option<Time>,
    /// When the question was written whose answer is the table.
    pub(crate) told_for: Time,
}

impl Topology {
    /// Who can be asked for it, each once.
    pub(super) fn candidates(&self) -> Vec<NodeId> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Cluster(cluster) => cluster.candidates(),
            Self::Sentinel(group) => group.candidates(),
        }
    }

    /// Those of them that are configured.
    fn seeds(&self) -> &[NodeId] {
        match self {
            Self::One(_) => &[],
            Self::Cluster(cluster) => cluster.seeds(),
            Self::Sentinel(group) => &group.seeds,
        }
    }

    /// The copies of a primary, where those can be asked for it.
    fn copies_of(&self, primary: NodeId) -> Vec<NodeId> {
        match self {
            Self::Cluster(cluster) => cluster.copies_of(primary).to_vec(),
            Self::One(_) | Self::Sentinel(_) => Vec::new(),
        }
    }
}

impl Refresh {
    /// One that is `wanted` at once, or never.
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    fn at(&self) -> Option<Time> {
        match self.asking {
            Some(_) => Some(self.patience_until),
            None if self.wanted => Some(self.not_before),
            None => self.again_at,
        }
    }

    /// The period is another one (0: there is none).
    pub(crate) fn is_due_after(&mut self, now: Time, period_ms: u64) {
        self.again_at = (period_ms > 0).then(|| now.plus_ms(period_ms));
    }

    fn note(&mut self, sign: Sign<NodeId>) {
        self.wanted = true;
        match sign {
            Sign::Bare => {}
            Sign::Named(node) => self.named = Some(node),
            Sign::Stranger(node) => (self.named, self.members) = (Some(node), true),
            Sign::Lost(node) => self.lost = Some(node),
        }
    }

    /// Whether it is the turn of this node's copies: every other time. One that is cut off would else be asked for ever.
    fn is_turn_of_copies(&mut self, lost: NodeId) -> bool {
        let others = self.asked_copies_of.take() == Some(lost);
        self.asked_copies_of = (!others).then_some(lost);
        !others
    }
}

impl PoolState {
    /// The nodes to be asked for the topology, the first of them that can be; each of those that know it in turn, but that which is sure to
    /// know of a change first.
    fn whom_to_ask(&mut self) -> Vec<NodeId> {
        let candidates = self.topology.candidates();
        let refresh = &mut self.refresh;
        let named = refresh.named.take().into_iter();
        let lost = refresh.lost.take().filter(|lost| refresh.is_turn_of_copies(*lost));
        let copies = lost.map_or(Vec::new(), |lost| self.topology.copies_of(lost));
        let turn = if copies.is_empty() { &mut refresh.turn } else { &mut refresh.copies_turn };
        *turn = turn.wrapping_add(1);
        let copies = in_turn(&copies, refresh.copies_turn);
        // A table may name thousands of nodes that do not exist. Every other question after one that brought nothing goes to the configured ones.
        let after_failure = !refresh.cause.is_empty() && refresh.turn.is_multiple_of(2);
        let seeds = if after_failure { self.topology.seeds() } else { &[] };
        let seeds = in_turn(seeds, refresh.turn / 2);
        let others = in_turn(&candidates, refresh.turn.wrapping_sub(1));
        named.chain(copies).chain(seeds).chain(others).collect()
    }
}

/// All of them, beginning with the one whose turn it is.
fn in_turn(nodes: &[NodeId], turn: usize) -> impl Iterator<Item = NodeId> + '_ {
    let (before, from) = nodes.split_at(turn % nodes.len().max(1));
    from.iter().chain(before).copied()
}

impl Engine {
    /// There was a sign that what is known of a pool is stale.
    pub(crate) fn want_topology(&mut self, pool: u16) {
        self.heed_sign(pool, Sign::Bare);
    }

    /// The same, with what the sign says of who knows.
    pub(crate) fn heed_sign(&mut self, pool: u16, sign: Sign<NodeId>) {
        if let Some(state) = self.router.pools.get_mut(usize::from(pool))
            && !matches!(state.topology, Topology::One(_))
        {
            // Sentinels are asked, not the servers that they name.
            let is_cluster = matches!(state.topology, Topology::Cluster(_));
            let sign = if is_cluster { sign } else { Sign::Bare };
            state.refresh.note(sign);
            if !self.asks() {
                self.pass_wish_on(pool, sign);
            }
        }
    }

    /// A node cannot be reached.
    pub(crate) fn want_topology_without(&mut self, lost: NodeId) {
        if let Some(pool) = self.nodes.get(lost).map(|node| node.pool) {
            self.heed_sign(pool, Sign::Lost(lost));
        }
    }

    /// When a topology is to be asked for.
    pub(crate) fn refresh_at(&self) -> Option<Time> {
        if !self.asks() {
            return None;
        }
        self.router.pools.iter().filter_map(|pool| pool.refresh.at()).min()
    }

    /// Asks for every topology that is due.
    pub(crate) fn refresh_topologies(&mut self, now: Time) {
        if !self.asks() {
            return;
        }
        for pool in 0..self.router.pools.len() {
            if self.router.pools[pool].refresh.at().is_some_and(|at| at <= now) {
                self.refresh_topology(now, pool as u16);
            }
        }
    }

    /// Asks the next node that is not known to be down.
    fn refresh_topology(&mut self, now: Time, pool: u16) {
        let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return };
        if matches!(state.topology, Topology::One(_)) {
            return;
        }
        // Whoever was asked before has not answered in time. If it does later, that is as good.
        state.refresh.asking = None;
        state.refresh.wanted = true;
        for node in state.whom_to_ask() {
            if let Some(id) = self.ask_for_topology(now, pool, node) {
                let refresh = &mut self.router.pools[usize::from(pool)].refresh;
                refresh.asking = Some(id);
                refresh.patience_until = now.plus_ms(TOPOLOGY_PATIENCE_MS);
                return;
            }
        }
        if self.router.is_cluster(pool) {
            self.shard_failed(now, pool);
        }
        self.refresh_failed(now, pool, None);
    }

    /// Asks one node; `None` if it is known to be down, or if there is no room for a connection to it.
    fn ask_for_topology(&mut self, now: Time, pool: u16, node: NodeId) -> Option<UpstreamId> {
        // What a sign named may be forgotten by now.
        self.nodes.get(node)?;
        let key = self.topology_key(pool, node)?;
        let listed = self.by_key.get(&key).copied();
        let id = listed.or_else(|| self.new_upstream(key, Role::Shared))?;
        let upstream = self.upstreams.get(id)?;
        let (state, failing) = (upstream.state.clone(), upstream.failures > 0);
        match state {
            State::Down(_) => return None,
            State::Connecting(_) | State::Greeting(_) if failing => return None,
            State::Idle => self.connect(now, id),
            State::Connecting(_) | State::Greeting(_) => {}
            // Asked before, and silent: one more question in the same line changes nothing.
            State::Ready if upstream.stall.is_some() || upstream.inflight.owes_topology() => {
                return None;
            }
            State::Ready => self.write_topology_question(now, id),
        }
        let node = self.label(node).to_string();
        self.notices.push_back(Notice::TopologyAsked { node });
        Some(id)
    }

    /// Sentinels are asked in RESP3, where messages and answers can be told apart, unless they do not speak it.
    fn topology_key(&self, pool: u16, node: NodeId) -> Option<UpstreamKey> {
        let state = self.router.pools.get(usize::from(pool))?;
        let lane = match &state.topology {
            Topology::Sentinel(_) => Lane::Sentinel,
            _ => Lane::Shared,
        };
        let resp3 = lane == Lane::Sentinel;
        let key = UpstreamKey { node, resp3, db: 0, lane, conn: 0, owner: None };
        let refused = self
            .by_key
            .get(&key)
            .and_then(|id| self.upstreams.get(*id))
            .is_some_and(|up| matches!(&up.state, State::Down(down) if down.refused.is_some()));
        Some(UpstreamKey { resp3: key.resp3 && !refused, ..key })
    }

    /// Asks over this connection, behind what it was sent before.
    pub(crate) fn write_topology_question(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let Some(node) = self.nodes.get(upstream.key.node) else { return };
        let Some(pool) = self.router.pools.get_mut(usize::from(node.pool)) else { return };
        let with_members = core::mem::take(&mut pool.refresh.members);
        let at = upstream.out.position();
        let out = upstream.out.buf(&mut self.pool);
        match &pool.topology {
            Topology::Sentinel(group) => {
                encode::request(out, &[b"SENTINEL", b"MYID"]);
                // MASTER stands before the address: a failover between the two replies makes the epoch too small, and respool believes the next answer.
                encode::request(out, &[b"SENTINEL", b"MASTER", &group.name]);
                encode::request(out, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", &group.name]);
                // The old word, which every version knows.
                encode::request(out, &[b"SENTINEL", b"SLAVES", &group.name]);
                encode::request(out, &[b"SENTINEL", b"SENTINELS", &group.name]);
                let asked = [
                    OwnCommand::MyId,
                    OwnCommand::Epoch,
                    OwnCommand::Primary,
                    OwnCommand::Replicas,
                    OwnCommand::Sentinels,
                ];
                self.sent_own(now, id, at, &asked);
            }
            _ => {
                encode::request(out, &[b"CLUSTER", b"INFO"]);
                let mut asked = alloc::vec![OwnCommand::Standing];
                if with_members {
                    encode::request(out, &[b"CLUSTER", b"NODES"]);
                    asked.push(OwnCommand::Nodes);
                }
                encode::request(out, &[b"CLUSTER", b"SLOTS"]);
                upstream.paged.open += 1;
                asked.push(OwnCommand::Slots);
                self.sent_own(now, id, at, &asked);
            }
        }
    }

    /// This upstream became ready; perhaps it is one that was to be asked.
    pub(crate) fn refresh_upstream_ready(&mut self, now: Time, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if upstream.key.lane == Lane::Sentinel && upstream.key.resp3 {
            // Its answer is a push, so nobody stands in the FIFO for it.
            let out = upstream.out.buf(&mut self.pool);
            encode::request(out, &[b"SUBSCRIBE", b"+switch-master"]);
            self.touch_upstream(id);
        }
        if self.pool_asking(id).is_some() {
            self.write_topology_question(now, id);
        }
    }

    /// A sentinel sent a message.
    pub(crate) fn sentinel_message(&mut self, now: Time, id: UpstreamId) {
        let Some(node) = self.upstreams.get(id).map(|upstream| upstream.key.node) else { return };
        let Some(pool) = self.nodes.get(node).map(|node| node.pool) else { return };
        if let Some(state) = self.router.pools.get_mut(usize::from(pool)) {
            let refresh = &mut state.refresh;
            (refresh.wanted, refresh.not_before) = (true, now);
            // The sender knows. An answer of another sentinel may be older than the message, or never come.
            refresh.named = Some(node);
            refresh.asking = refresh.asking.filter(|asked| *asked == id);
            refresh.heard = refresh.asking.is_some();
        }
    }

    /// This upstream is gone; if it was asked, another one is.
    pub(crate) fn refresh_upstream_lost(&mut self, now: Time, id: UpstreamId, cause: &str) {
        if let Some(pool) = self.pool_asking(id) {
            let node = self.upstreams.get(id).map(|up| self.label(up.key.node).to_string());
            let cause = format!("{}: {cause}", node.unwrap_or_default());
            let is_down =
                self.upstreams.get(id).is_none_or(|up| matches!(up.state, State::Down(_)));
            self.refresh_failed(now, pool, Some(cause));
            self.pass_over(now, pool, is_down);
        }
    }

    /// The next one is asked at once. One that is down is not asked before its connection stands again, and that has its own waits; one that
    /// was connected is back in no time. When each took the question and broke, there is a pause, as if there had been one after each.
    fn pass_over(&mut self, now: Time, pool: u16, is_down: bool) {
        let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return };
        let candidates = state.topology.candidates().len() as u32;
        let refresh = &mut state.refresh;
        refresh.passed_over += u32::from(!is_down);
        if refresh.passed_over < candidates.max(1) {
            refresh.not_before = now;
        } else {
            let pauses = core::mem::take(&mut refresh.passed_over);
            refresh.not_before = now.plus_ms(TOPOLOGY_AGAIN_MS * u64::from(pauses));
        }
    }

    fn pool_asking(&self, id: UpstreamId) -> Option<u16> {
        let mut pools = self.router.pools.iter();
        pools.position(|pool| pool.refresh.asking == Some(id)).map(|pool| pool as u16)
    }

    fn refresh_failed(&mut self, now: Time, pool: u16, cause: Option<String>) {
        let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return };
        let refresh = &mut state.refresh;
        refresh.asking = None;
        refresh.wanted = true;
        refresh.not_before = now.plus_ms(TOPOLOGY_AGAIN_MS);
        if let Some(cause) = cause {
            refresh.cause.clone_from(&cause);
            self.notices.push_back(Notice::TopologyFailed { cause: cause.clone() });
            self.tell_others(pool, What::Failed(cause));
        }
    }

    fn refresh_done(&mut self, now: Time, pool: u16) {
        let random = self.next_random() % 1_000;
        let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return };
        let period_ms = match (&state.topology, self.settings.timeouts.topology_period_ms) {
            // Their messages may be lost on the way.
            (Topology::Sentinel(_), _) => SENTINEL_EVERY_MS,
            (_, period_ms) => period_ms + random,
        };
        let covered = state.is_covered();
        let refresh = &mut state.refresh;
        refresh.asking = None;
        // A table with a hole in it is a sign that there is a better one.
        let heard = core::mem::take(&mut refresh.heard);
        let in_doubt = core::mem::take(&mut refresh.in_doubt);
        refresh.wanted = !covered || heard || in_doubt;
        refresh.passed_over = 0;
        refresh.cause.clear();
        refresh.told_at = Some(now);
        let pause_ms = if in_doubt { TOPOLOGY_AGAIN_MS } else { TOPOLOGY_EVERY_MS };
        refresh.not_before = if heard { now } else { now.plus_ms(pause_ms) };
        refresh.again_at =
            (self.settings.timeouts.topology_period_ms > 0).then(|| now.plus_ms(period_ms));
        if covered && self.router.is_cluster(pool) {
            self.shard_answers(pool);
        }
        self.ask_missing_homes(now, pool);
    }

    /// Asks each home that the table does not name for `CLUSTER NODES`, and requests the next table
    /// soon. Tables name a former primary again after a while; a removed node names no member.
    fn ask_missing_homes(&mut self, now: Time, pool: u16) {
        let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return };
        let Topology::Cluster(cluster) = &state.topology else { return };
        let missing: Vec<NodeId> = cluster.missing_homes().collect();
        if !missing.is_empty() {
            state.refresh.wanted = true;
        }
        for node in missing {
            self.ask_for_members(now, pool, node);
        }
    }

    /// Sends `CLUSTER NODES` to one node. respool connects for this only to a node with a ready
    /// connection for topics: another server may have the address of a node that left the table.
    fn ask_for_members(&mut self, now: Time, pool: u16, node: NodeId) {
        let Some(key) = self.topology_key(pool, node) else { return };
        let tells = self.tells(node);
        let id = match self.by_key.get(&key).copied() {
            None if tells => self.new_upstream(key, Role::Shared),
            listed => listed,
        };
        let Some(id) = id else { return };
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if matches!(upstream.state, State::Idle) && tells {
            self.connect(now, id);
        } else if upstream.is_ready()
            && upstream.stall.is_none()
            && !upstream.inflight.owes_members()
        {
            let at = upstream.out.position();
            encode::request(upstream.out.buf(&mut self.pool), &[b"CLUSTER", b"NODES"]);
            self.sent_own(now, id, at, &[OwnCommand::Nodes]);
        }
    }

    /// Whether the table of this node is left out: it is cut off from its cluster, or the cluster is down as a whole. Then the next node is
    /// asked at once; when all say so, it is believed.
    fn doubts(&mut self, now: Time, pool: u16, node: NodeId) -> bool {
        let cause = format!("{}: says that its cluster is down", self.label(node));
        let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return false };
        let Topology::Cluster(cluster) = &state.topology else { return false };
        let candidates = cluster.candidates().len();
        let refresh = &mut state.refresh;
        if !core::mem::take(&mut refresh.cut_off) || refresh.doubted + 1 >= candidates {
            refresh.doubted = 0;
            return false;
        }
        refresh.doubted += 1;
        self.refresh_failed(now, pool, Some(cause));
        self.router.pools[usize::from(pool)].refresh.not_before = now;
        true
    }

    /// Whether respool rejects the primary that this sentinel names, because other sentinels reported a later failover. The replicas in this answer do not
    /// count then.
    fn doubts_primary(&mut self, id: UpstreamId, pool: u16, address: &Address) -> bool {
        let Some(upstream) = self.upstreams.get_mut(id) else { return false };
        let (teller, epoch) = (upstream.key.node, upstream.told_epoch.take());
        let Some(named) = self.told_nodes(pool, [address]).pop() else { return false };
        let live = self.live_candidates(pool);
        let Some(state) = self.router.pool_mut(pool) else { return false };
        let Topology::Sentinel(group) = &mut state.topology else { return false };
        let primary = group.primary;
        match group.believes(teller, (address, primary == Some(named)), epoch, &live) {
            Told::Believed => return false,
            Told::DoubtedAgain => {}
            Told::Doubted => {
                state.refresh.in_doubt = true;
                let [teller, named] = [teller, named].map(|node| self.label(node).to_string());
                let primary = primary.map_or(String::new(), |node| self.label(node).to_string());
                let cause = format!("{teller}: names {named}, while later news name {primary}");
                self.notices.push_back(Notice::TopologyFailed { cause });
            }
        }
        // The named address may belong to no known node.
        self.forget_nodes();
        true
    }

    /// The sentinels that are neither down nor silent.
    fn live_candidates(&self, pool: u16) -> Vec<NodeId> {
        let is_live = |node: &NodeId| {
            let id = self.topology_key(pool, *node).and_then(|key| self.by_key.get(&key));
            let upstream = id.and_then(|id| self.upstreams.get(*id));
            upstream.is_none_or(|upstream| !upstream.is_away() && upstream.stall.is_none())
        };
        let state = self.router.pools.get(usize::from(pool));
        let known = state.map_or(Vec::new(), |state| state.topology.candidates());
        known.into_iter().filter(is_live).collect()
    }

    /// A sentinel told its identity, or none.
    fn sentinel_is(&mut self, pool: u16, node: NodeId, id: Option<Vec<u8>>) {
        let state = self.router.pool_mut(pool);
        if let Some(Topology::Sentinel(group)) = state.map(|state| &mut state.topology) {
            group.is_known_as(node, id);
        }
    }

    /// Whether this sentinel names a primary that respool rejected.
    fn dissents(&self, pool: u16, teller: NodeId) -> bool {
        let state = self.router.pools.get(usize::from(pool));
        matches!(state.map(|state| &state.topology), Some(Topology::Sentinel(group)) if group.dissents(teller))
    }

    /// The answer to one of the questions.
    pub(crate) fn topology_reply(
        &mut self,
        now: Time,
        id: UpstreamId,
        own: OwnCommand,
        reply: &[u8],
    ) {
        let Some(node) = self.upstreams.get(id).map(|upstream| upstream.key.node) else { return };
        let Some(pool) = self.nodes.get(node).map(|node| node.pool) else { return };
        let asked_at = self.own_asked_at;
        let parsed = resp::value::parse(reply).ok().flatten().map(|(value, _)| value);
        if let Some(upstream) = self.upstreams.get_mut(id).filter(|_| own == OwnCommand::Slots) {
            upstream.paged.open = upstream.paged.open.saturating_sub(1);
        }
        if own == OwnCommand::MyId {
            return self.sentinel_is(pool, node, sentinel::id(reply));
        }
        if own == OwnCommand::Epoch {
            if let Some(upstream) = self.upstreams.get_mut(id) {
                upstream.told_epoch = sentinel::epoch(reply);
            }
            return;
        }
        if own == OwnCommand::Slots && self.doubts(now, pool, node) {
            return;
        }
        // A node that left the table meanwhile has no more say in it.
        let knows = self.router.pools.get(usize::from(pool)).is_some_and(|state| state.knows(node));
        let parsed = parsed.filter(|_| knows);
        let named = parsed.as_ref().filter(|_| own == OwnCommand::Primary);
        if let Some(address) = named.and_then(sentinel::primary)
            && self.doubts_primary(id, pool, &address)
        {
            return;
        }
        if own == OwnCommand::Replicas && self.dissents(pool, node) {
            return;
        }
        let taken = match parsed.as_ref() {
            Some(value) => self.take_answer(now, pool, node, (own, asked_at), value),
            None => Err(Useless::Empty),
        };
        if taken.is_ok()
            && let Some(from) = self.nodes.get(node).map(|node| node.address.clone())
        {
            self.tell_answer(pool, from, (own, asked_at), reply);
        }
        match (own, taken) {
            (OwnCommand::Standing | OwnCommand::Nodes, _) => {}
            (OwnCommand::Slots | OwnCommand::Sentinels, Ok(())) => self.refresh_done(now, pool),
            (_, Ok(())) | (OwnCommand::Replicas | OwnCommand::Sentinels, Err(_)) => {}
            (_, Err(useless)) => {
                let error = parsed.as_ref().and_then(Value::as_error);
                let words = match (error, useless) {
                    (Some(text), _) => crate::reject::quoted(text),
                    (None, Useless::Empty) => self.knows_nothing(pool),
                    (None, Useless::TooManyNodes(count)) => {
                        format!("names {count} nodes, more than {CLUSTER_NODES_MAX}")
                    }
                    (None, Useless::TooManyRanges(count)) => {
                        format!("tells {count} ranges of slots, of which there are {SLOTS}")
                    }
                };
                let cause = format!("{}: {words}", self.label(node));
                self.refresh_failed(now, pool, Some(cause));
            }
        }
    }

    fn knows_nothing(&self, pool: u16) -> String {
        match self.router.pools.get(usize::from(pool)).map(|pool| &pool.topology) {
            Some(Topology::Sentinel(group)) => {
                format!("knows no primary `{}`", String::from_utf8_lossy(&group.name))
            }
            _ => String::from("knows no slots"),
        }
    }

    /// Takes in what a node told.
    ///
    /// # Errors
    /// If that is of no use.
    pub(crate) fn take_answer(
        &mut self,
        now: Time,
        pool: u16,
        node: NodeId,
        (own, asked_at): (OwnCommand, Time),
        value: &Value<'_>,
    ) -> Result<(), Useless> {
        match own {
            OwnCommand::Slots => {
                let host = self.host_of(node);
                let ranges = slots::parse(value, &host).filter(|ranges| !ranges.is_empty());
                let ranges = ranges.ok_or(Useless::Empty)?;
                if ranges.len() > SLOTS {
                    return Err(Useless::TooManyRanges(ranges.len()));
                }
                let count = slots::count_nodes(&ranges);
                if count > CLUSTER_NODES_MAX {
                    return Err(Useless::TooManyNodes(count));
                }
                self.note_told_for(pool, asked_at);
                self.apply_slots(now, pool, node, &ranges);
            }
            OwnCommand::Nodes => self.note_members(node, value),
            OwnCommand::Standing => {
                if let Some(state) = self.router.pools.get_mut(usize::from(pool)) {
                    state.refresh.cut_off = slots::says_down(value);
                }
                // Of no interest to others.
                return Err(Useless::Empty);
            }
            OwnCommand::Primary => {
                let address = sentinel::primary(value).ok_or(Useless::Empty)?;
                self.note_told_for(pool, asked_at);
                self.apply_primary(now, pool, node, &address);
            }
            OwnCommand::Replicas | OwnCommand::Sentinels => {
                let read = match own {
                    OwnCommand::Sentinels => sentinel::sentinels,
                    _ => sentinel::replicas,
                };
                let mut addresses = read(value).ok_or(Useless::Empty)?;
                if addresses.len() > SENTINEL_NODES_MAX {
                    self.note_instances_left_out(node, addresses.len());
                    addresses.truncate(SENTINEL_NODES_MAX);
                }
                if own == OwnCommand::Sentinels {
                    self.apply_sentinels(pool, node, &addresses);
                } else {
                    self.apply_replicas(pool, &addresses);
                }
            }
            _ => return Err(Useless::Empty),
        }
        Ok(())
    }

    fn note_instances_left_out(&mut self, teller: NodeId, told: usize) {
        let teller = self.label(teller);
        let cause = format!("{teller}: names {told} instances of which {SENTINEL_NODES_MAX} count");
        self.notices.push_back(Notice::TopologyFailed { cause });
    }

    fn note_told_for(&mut self, pool: u16, asked_at: Time) {
        if let Some(state) = self.router.pools.get_mut(usize::from(pool)) {
            state.refresh.told_for = state.refresh.told_for.max(asked_at);
        }
    }

    /// The host of a node, for answers that leave it out.
    pub(crate) fn host_of(&self, node: NodeId) -> String {
        match self.nodes.get(node).map(|node| &node.address) {
            Some(Address::Tcp { host, .. }) => host.clone(),
            _ => String::from("127.0.0.1"),
        }
    }
}
