//! A cluster behind: its nodes in the network, and who decides when its slots move and its primaries change.
//!
//! ```text
//!   plan ── troubles, Moving ──▶ ClusterSite ── begin, move a key, end, settle, tell, fail over ──▶ testkit::ModelCluster
//!                                    └── Host per node ── bytes ──▶ the model's node
//! ```
//! Slots move where keys are. A primary that is dead or frozen for a while is followed by a copy, if there is one that lives; a node
//! hears of all this late, and one that is kept in the dark not at all.
//!
//! Not here: what a node answers (`testkit::model`), what becomes of connections (`upstream`).
//!
//! Invariant: what happens depends on the seed and the moments at which it is asked for, and each of them is told in `next_at_us`.

use std::collections::BTreeMap;

use netio::Address;
use netio::sim::{SimNet, SimRng};
use testkit::Model;
use testkit::frames::{Requests, quote};
use testkit::model::{After, ClusterConn, ModelCluster, Standing};

use crate::plan::{PASSWORD, Plan, Trouble};
use crate::upstream::{Host, Mind, Planted, Planter};

/// Slots that are under way at the same time.
const MOVES_MAX: usize = 6;
/// How many more steps of moves there are once the storm is over.
const STEPS_AFTER_THE_STORM: u32 = 40;

/// How a cluster is made, and how restless it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restless {
    /// Primaries.
    pub(crate) shards: usize,
    /// Copies of each.
    pub(crate) replicas: usize,
    /// Longest time between two steps of its own accord, in microseconds.
    pub(crate) gap_us: u64,
    /// Steps: a slot begins, a key moves, a slot ends, a node hears of it.
    pub(crate) steps: u32,
    /// So long a slot stays where it came to, at the least.
    pub(crate) again_us: u64,
    /// So long a primary is dead or frozen before a copy follows it.
    pub(crate) detect_us: u64,
}

/// See the module.
pub(crate) struct ClusterSite {
    hosts: Vec<Host<ClusterConn>>,
    /// What stands here before the keys of clients.
    pub(crate) namespace: &'static str,
    mind: Nodes,
    rng: SimRng,
    restless: Restless,
    steps_left: u32,
    next_at_us: u64,
    /// Since when a node is dead or frozen.
    gone_since_us: Vec<Option<u64>>,
    /// Nodes that hear of nothing.
    in_the_dark: Vec<bool>,
    /// When slots came to where they are.
    arrived_us: BTreeMap<u16, u64>,
    /// What it came to, for the run's report.
    pub(crate) came_to: CameTo,
}

/// How often the rare things happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CameTo {
    /// Slots that reached their new owner.
    pub(crate) moves: u64,
    /// Keys that moved before their slot did.
    pub(crate) keys: u64,
    /// Copies that took over.
    pub(crate) failovers: u64,
}

/// The mind of all nodes.
struct Nodes {
    cluster: ModelCluster,
    planter: Planter,
    /// What nodes hear and say, and what happens to them, is printed.
    talks: bool,
}

impl Mind for Nodes {
    type Conn = ClusterConn;

    fn conn(&mut self, _host: usize) -> ClusterConn {
        self.cluster.conn()
    }

    fn feed(
        &mut self,
        host: usize,
        conn: &mut ClusterConn,
        requests: &mut Requests,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> After {
        let Self { cluster, planter, talks } = self;
        if *talks {
            let after = cluster.feed(host, conn, bytes, out);
            println!("node {host}: {} -> {}", quote(bytes, 400), quote(out, 400));
            return after;
        }
        if planter.planted == Planted::Nothing {
            return cluster.feed(host, conn, bytes, out);
        }
        let redirect = cluster.label(host);
        planter.feed(requests, bytes, &redirect, out, &mut |raw, reply| {
            cluster.feed(host, conn, raw, reply)
        })
    }

    fn deliver(&mut self, conn: &mut ClusterConn, out: &mut Vec<u8>) {
        self.cluster.deliver(conn, out);
        if self.talks && !out.is_empty() {
            println!("of its own accord: {}", quote(out, 400));
        }
    }

    fn leave(&mut self, conn: &ClusterConn) {
        self.cluster.leave(conn);
    }
}

impl ClusterSite {
    /// The cluster of a plan, at these addresses.
    pub(crate) fn new(
        plan: &Plan,
        restless: Restless,
        net: &SimNet,
        at: &[Address],
        planted: Planted,
    ) -> Self {
        let names: Vec<(String, u16)> = at.iter().map(host_and_port).collect();
        let mut cluster = ModelCluster::new(restless.shards, restless.replicas, &names);
        if plan.password {
            cluster.require_password(PASSWORD);
        }
        Self {
            namespace: plan.namespace(),
            hosts: at.iter().map(|at| Host::new(net, at.clone())).collect(),
            mind: Nodes { cluster, planter: Planter::new(planted), talks: false },
            rng: SimRng::new(plan.seed ^ 0x636c_7573_7465_7200),
            restless,
            steps_left: restless.steps,
            next_at_us: net.now_us(),
            gone_since_us: vec![None; at.len()],
            in_the_dark: vec![false; at.len()],
            arrived_us: BTreeMap::new(),
            came_to: CameTo::default(),
        }
    }

    /// Prints from now on what nodes hear and say, and what happens to their slots.
    pub(crate) fn talk(&mut self) {
        self.mind.talks = true;
    }

    fn tell_reader(&self, what: std::fmt::Arguments<'_>) {
        if self.mind.talks {
            println!("cluster: {what}");
        }
    }

    /// The hosts of its nodes.
    pub(crate) fn hosts(&self) -> &[Host<ClusterConn>] {
        &self.hosts
    }

    /// What its nodes know and did.
    pub(crate) fn model(&self) -> &ModelCluster {
        &self.mind.cluster
    }

    /// Changes places with the model behind.
    pub(crate) fn swap_model(&mut self, other: &mut Model) {
        self.mind.cluster.swap_model(other);
    }

    /// How often the planted fault hit.
    pub(crate) fn hits(&self) -> u32 {
        self.mind.planter.hits
    }

    /// Something happens to one of its nodes.
    pub(crate) fn suffer(&mut self, now_us: u64, node: usize, trouble: Trouble) {
        self.tell_reader(format_args!("node {node} at {now_us}: {trouble:?}"));
        let standing = match trouble {
            Trouble::Down => Standing::Down,
            Trouble::Loading => Standing::Loading,
            Trouble::ReadOnly => Standing::ReadOnly,
            Trouble::FailOver => return self.follow(node),
            Trouble::InTheDark => {
                self.in_the_dark[node] = true;
                return;
            }
            _ => Standing::Well,
        };
        let cluster = &mut self.mind.cluster;
        cluster.stand(node, standing);
        self.hosts[node].suffer(trouble);
        let gone = matches!(trouble, Trouble::Dead | Trouble::Frozen);
        let since_us = &mut self.gone_since_us[node];
        *since_us = if gone { Some(since_us.unwrap_or(now_us)) } else { None };
        if trouble == Trouble::Well {
            // It meets the others again, and hears from them.
            self.in_the_dark[node] = false;
            cluster.tell(node);
        }
    }

    /// Everything is well, and everybody knows everything. Slots move on for a while.
    pub(crate) fn settle(&mut self, now_us: u64) {
        for node in 0..self.hosts.len() {
            self.suffer(now_us, node, Trouble::Well);
        }
        self.steps_left = self.restless.steps.min(STEPS_AFTER_THE_STORM);
        self.next_at_us = now_us;
    }

    /// It goes for good.
    pub(crate) fn close(&mut self) {
        self.hosts.iter_mut().for_each(Host::close);
    }

    /// Nothing happens of its own accord any more.
    pub(crate) fn rest(&mut self) {
        self.steps_left = 0;
    }

    /// Does what can be done now.
    pub(crate) fn pump(&mut self, now_us: u64) {
        self.follow_the_gone(now_us);
        while self.next_step_us().is_some_and(|at_us| at_us <= now_us) {
            self.steps_left = self.steps_left.saturating_sub(1);
            self.step(now_us);
            self.next_at_us = now_us + self.rng.between(1, self.restless.gap_us);
        }
        for (node, host) in self.hosts.iter_mut().enumerate() {
            host.pump(node, &mut self.mind);
        }
        self.hosts.iter_mut().for_each(|host| host.deliver(&mut self.mind));
    }

    /// A slot that is under way comes to its end even if no other one begins: a request for a key here and one there waits for it.
    fn next_step_us(&self) -> Option<u64> {
        let goes_on = self.steps_left > 0 || self.mind.cluster.is_moving();
        goes_on.then_some(self.next_at_us)
    }

    /// When it next does something of its own accord.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        let detect_us = self.restless.detect_us;
        let cluster = &self.mind.cluster;
        let primaries = (0..cluster.shards()).map(|shard| cluster.primary(shard));
        let follows = primaries
            .filter(|node| self.successor(*node).is_some())
            .filter_map(|node| self.gone_since_us[node].map(|at_us| at_us + detect_us));
        follows.chain(self.next_step_us()).min()
    }

    fn follow_the_gone(&mut self, now_us: u64) {
        for shard in 0..self.mind.cluster.shards() {
            let primary = self.mind.cluster.primary(shard);
            let overdue = self.gone_since_us[primary]
                .is_some_and(|at_us| at_us + self.restless.detect_us <= now_us);
            if overdue && let Some(next) = self.successor(primary) {
                self.take_over(next);
            }
        }
    }

    /// A copy of this primary that can follow it.
    fn successor(&self, primary: usize) -> Option<usize> {
        let cluster = &self.mind.cluster;
        let shard = (0..cluster.shards()).find(|shard| cluster.primary(*shard) == primary)?;
        let alive = |node: &usize| *node != primary && self.gone_since_us[*node].is_none();
        cluster.members(shard).iter().copied().find(alive)
    }

    /// The shard of this node changes its primary, though nobody is dead (`CLUSTER FAILOVER`).
    fn follow(&mut self, node: usize) {
        let cluster = &self.mind.cluster;
        let shard = (0..cluster.shards()).find(|shard| cluster.members(*shard).contains(&node));
        let next = shard.and_then(|shard| self.successor(cluster.primary(shard)));
        if let Some(next) = next {
            self.take_over(next);
        }
    }

    fn take_over(&mut self, next: usize) {
        self.tell_reader(format_args!("node {next} takes over"));
        if self.mind.cluster.fail_over(next) {
            self.came_to.failovers += 1;
        }
    }

    /// One step of the slots on their way, or of the news about them.
    fn step(&mut self, now_us: u64) {
        let moves = self.mind.cluster.moves();
        let chance = self.rng.between(0, 99);
        if self.steps_left > 0 && (moves.is_empty() || (moves.len() < MOVES_MAX && chance < 25)) {
            return self.begin(now_us);
        }
        if moves.is_empty() {
            return;
        }
        if chance < 40 {
            let node = self.rng.between(0, self.hosts.len() as u64 - 1) as usize;
            if !self.in_the_dark[node] {
                self.tell_reader(format_args!("node {node} hears of everything"));
                self.mind.cluster.tell(node);
            }
            return;
        }
        let (slot, from, to, ended) = moves[self.rng.between(0, moves.len() as u64 - 1) as usize];
        let gone = |shard| self.gone_since_us[self.mind.cluster.primary(shard)].is_some();
        if gone(from) || gone(to) {
            return;
        }
        if ended {
            self.tell_reader(format_args!("shard {from} hears that it lost slot {slot} to {to}"));
            self.mind.cluster.settle(slot);
            self.arrived_us.insert(slot, now_us);
            self.came_to.moves += 1;
        } else if self.mind.cluster.move_key(slot) {
            self.came_to.keys += 1;
            if self.mind.planter.planted == Planted::LostOnTheWay {
                self.lose(slot);
            }
        } else {
            self.tell_reader(format_args!("shard {to} has slot {slot}"));
            self.mind.cluster.end_move(slot);
        }
    }

    /// A slot begins its way; most often one that has keys.
    fn begin(&mut self, now_us: u64) {
        let cluster = &mut self.mind.cluster;
        let nth = self.rng.between(0, 1 << 20) as usize;
        let slot = match cluster.nth_key(nth) {
            Some(key) if self.rng.chance(900_000) => testkit::model::key_slot(key),
            // Now and then that of a channel.
            _ if !nth.is_multiple_of(3) => testkit::model::key_slot(&crate::radio::channel(nth).1),
            _ => (nth % testkit::model::SLOTS) as u16,
        };
        let to = self.rng.between(0, cluster.shards() as u64 - 1) as usize;
        let rests = self
            .arrived_us
            .get(&slot)
            .is_some_and(|at_us| at_us.saturating_add(self.restless.again_us) > now_us);
        if !rests && cluster.begin_move(slot, to) {
            self.tell_reader(format_args!("slot {slot} begins its way to shard {to}"));
        }
    }

    /// The planted fault: a key of this slot is gone.
    fn lose(&mut self, slot: u16) {
        if self.mind.cluster.lose_key(slot) {
            self.mind.planter.hits += 1;
        }
    }
}

fn host_and_port(at: &Address) -> (String, u16) {
    match at {
        Address::Tcp(at) => (at.ip().to_string(), at.port()),
        Address::Unix(path) => panic!("a node of a cluster has a port, {path:?} has none"),
    }
}
