//! Real clusters: several `redis-server --cluster-enabled yes` processes on loopback that have met,
//! share the slots and have their replicas in sync.
//!
//! A cluster is made as an operator makes it: `ADDSLOTS`, `MEET`, `REPLICATE`, and after that it is
//! a cluster like any other. Nothing is simulated and nothing is shortened, but that its times are
//! small. A start takes a little more than two seconds whatever its size, because a primary waits so
//! long after its start until it accepts writes (`CLUSTER_WRITABLE_DELAY` in the server).
//!
//! ```text
//!   Builder ── RedisCluster ─┬─ Node 0 … primaries    process, relay, counters   (node.rs)
//!   (form.rs)  (here, and    ├─ Node p … replicas     node k follows node k modulo p
//!              health.rs)    ├─ SlotMove, Resharder   slots on the move          (slots.rs)
//!                            └─ Member                what a node believes       (view.rs)
//! ```
//!
//! Set-up and questions go to the servers themselves. With relays, all that clients and replicas
//! send goes through the relay of the node, and only the cluster bus goes past it: a frozen relay is
//! a node that its cluster takes for healthy and that no client reaches.
//!
//! Invariant: a node keeps its number for the life of the cluster, through failover, death and
//! restart; only its role changes.

mod form;
mod health;
mod node;
mod slots;
mod view;

use std::ops::Range;
use std::time::Duration;

use crate::admin::field;
use crate::endpoint::Endpoint;
use crate::wait;

use node::{Peer, Setup};
use slots::Shuttle;

pub use form::Builder;
pub use node::{Node, State};
pub use slots::{Resharder, SlotMove};
pub use view::{Member, SLOTS, key_in_slot, slot_of};

/// How long the cluster may take for anything: to form, to agree, to elect. Some ten times of what
/// it takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// A manual failover that is not done after this has failed without a word
/// (`CLUSTER_MF_TIMEOUT` in the server is 5 s) and is asked for again.
const FAILOVER_AGAIN: Duration = Duration::from_secs(6);

/// How a replica is told to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// With the primary's help; no write is lost.
    Graceful,
    /// Without the primary, with the votes of the others.
    Force,
    /// Without asking anybody.
    Takeover,
}

/// A running cluster.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Node>,
    setup: Setup,
}

impl RedisCluster {
    /// Starts a cluster with the default options.
    #[track_caller]
    pub fn start(primaries: usize, replicas_each: usize) -> Self {
        Self::with(primaries, replicas_each).start()
    }

    /// Begins a cluster with options.
    pub fn with(primaries: usize, replicas_each: usize) -> Builder {
        Builder::new(primaries, replicas_each)
    }

    /// Number of nodes ever started, dead ones included.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// A node by its number: first the primaries of the start, then their replicas, of which number
    /// k followed number k modulo the number of primaries.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// Numbers of the nodes that run and are not paused.
    pub fn running(&self) -> Vec<usize> {
        let all = 0..self.nodes.len();
        all.filter(|index| self.nodes[*index].state() == State::Running).collect()
    }

    /// Where clients connect, in the order of the nodes.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.nodes.iter().map(|node| node.endpoint().clone()).collect()
    }

    /// The cluster as a URL: `redis-cluster://user:password@host:port,host:port`, with these nodes
    /// as seeds.
    pub fn url_of(&self, seeds: &[usize]) -> String {
        let hosts: Vec<String> =
            seeds.iter().map(|seed| self.nodes[*seed].endpoint().tcp().to_string()).collect();
        format!("redis-cluster://{}{}", self.setup.login.url_part(), hosts.join(","))
    }

    /// [`RedisCluster::url_of`] all nodes.
    pub fn url(&self) -> String {
        self.url_of(&(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// Kills a node (SIGKILL).
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
    }

    /// Stops a node without its knowledge (SIGSTOP): its sockets stay open and it looks hung.
    pub fn pause(&mut self, index: usize) {
        self.nodes[index].pause();
    }

    /// Lets a paused node go on (SIGCONT).
    pub fn resume(&mut self, index: usize) {
        self.nodes[index].resume();
    }

    /// Starts a killed node again at the same place, with the same id and without data. A primary
    /// that comes back before its replica has taken over takes the replica's data away too: that is
    /// how Redis without persistence is.
    #[track_caller]
    pub fn restart(&mut self, index: usize) {
        self.nodes[index].restart();
    }

    /// Restarts a node at other ports, with the same id and without data, and introduces it to the
    /// others; they learn the new address.
    #[track_caller]
    pub fn move_node(&mut self, index: usize) {
        self.nodes[index].move_away(self.setup.v6);
        self.meet_all();
    }

    /// Starts one more node, an empty primary that all others know, and gives its number.
    #[track_caller]
    pub fn add_node(&mut self) -> usize {
        let index = self.nodes.len();
        let node = Node::start(&self.setup, index).unwrap_or_else(|error| panic!("{error}"));
        self.nodes.push(node);
        self.meet_all();
        index
    }

    /// Takes a node out: all others forget it, then it is killed. It must hold no slot and have no
    /// replica.
    #[track_caller]
    pub fn remove_node(&mut self, index: usize) {
        let id = self.nodes[index].id().to_owned();
        for other in self.running() {
            if other != index {
                self.must(other, &["CLUSTER", "FORGET", &id]);
            }
        }
        self.kill(index);
    }

    /// Makes a node the replica of another one. It must hold no slot and no key. Does not wait for
    /// the data.
    #[track_caller]
    pub fn replicate(&self, replica: usize, primary: usize) {
        self.must(replica, &["CLUSTER", "REPLICATE", self.nodes[primary].id()]);
    }

    /// Gives slots that nobody has to a node. Does not wait for the others to hear of it.
    #[track_caller]
    pub fn assign(&self, index: usize, slots: Range<u16>) {
        let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
        // One argument a slot: ranges came with server 7.0 only.
        let mut args = vec!["CLUSTER", "ADDSLOTS"];
        args.extend(slots.iter().map(String::as_str));
        self.must(index, &args);
    }

    /// The node that owns a slot: of those running that claim it for themselves, the one with the
    /// greatest epoch. `None` when nobody does.
    pub fn find_owner(&self, slot: u16) -> Option<usize> {
        let claims = self.running().into_iter().filter_map(|index| {
            let own = self.nodes[index].members().ok()?.into_iter().find(|m| m.is("myself"))?;
            (own.is("master") && own.owns(slot)).then_some((own.config_epoch, index))
        });
        claims.max().map(|(_, index)| index)
    }

    /// As [`RedisCluster::find_owner`], failing the test when nobody owns the slot.
    #[track_caller]
    pub fn owner_of(&self, slot: u16) -> usize {
        self.find_owner(slot).unwrap_or_else(|| panic!("slot {slot} has no owner"))
    }

    /// Whether a running node takes itself for a primary.
    pub fn is_primary(&self, index: usize) -> bool {
        let info = self.nodes[index].peer().text(&["INFO", "replication"]);
        info.is_ok_and(|info| field(&info, "role") == Some("master"))
    }

    /// Numbers of the running nodes that take themselves for primaries.
    pub fn primaries(&self) -> Vec<usize> {
        self.running().into_iter().filter(|index| self.is_primary(*index)).collect()
    }

    /// Numbers of the running replicas of a node, by their own word.
    pub fn replicas_of(&self, primary: usize) -> Vec<usize> {
        let id = self.nodes[primary].id();
        let follows = |index: &usize| {
            let members = self.nodes[*index].members().unwrap_or_default();
            members.iter().any(|m| m.is("myself") && m.primary.as_deref() == Some(id))
        };
        self.running().into_iter().filter(follows).collect()
    }

    /// Tells a replica to take over and waits until it has. The others may not know yet:
    /// [`RedisCluster::wait_ok`] waits for that.
    #[track_caller]
    pub fn failover(&self, replica: usize, how: Failover) {
        assert!(!self.is_primary(replica), "node {replica} is a primary already");
        let args: &[&str] = match how {
            Failover::Graceful => &["CLUSTER", "FAILOVER"],
            Failover::Force => &["CLUSTER", "FAILOVER", "FORCE"],
            Failover::Takeover => &["CLUSTER", "FAILOVER", "TAKEOVER"],
        };
        wait::until("the failover", LIMIT, || {
            // An error is a replica that has taken over since the last question.
            let _ = self.nodes[replica].peer().text(args);
            wait::poll(FAILOVER_AGAIN, || self.is_primary(replica).then_some(()))
        });
    }

    /// Waits until another node than `former` owns a slot, and gives its number.
    #[track_caller]
    pub fn wait_new_owner(&self, slot: u16, former: usize) -> usize {
        wait::until("a new owner", LIMIT, || self.find_owner(slot).filter(|owner| *owner != former))
    }

    /// Begins to move a slot from its owner to another primary.
    ///
    /// # Errors
    /// When one of the two nodes does not do its part.
    pub fn begin_move(&self, slot: u16, to: usize) -> Result<SlotMove, String> {
        let from = self.find_owner(slot).ok_or_else(|| format!("slot {slot} has no owner"))?;
        let [from_peer, to_peer] = [from, to].map(|index| self.nodes[index].peer().clone());
        SlotMove::begin(slot, from_peer, to_peer, self.primaries_but(&[from, to]))
    }

    /// Moves slots between two primaries there and back again until told to stop. Each of the slots
    /// belongs to one of the two now.
    #[track_caller]
    pub fn reshard_loop(&self, slots: Range<u16>, one: usize, other: usize) -> Resharder {
        assert!(!slots.is_empty() && one != other, "nothing to move");
        let of_one = self.nodes[one].members().unwrap_or_else(|error| panic!("{error}"));
        let of_one = of_one.iter().find(|member| member.is("myself"));
        let end = |slot: u16| usize::from(!of_one.is_some_and(|member| member.owns(slot)));
        Resharder::start(Shuttle {
            slots: slots.map(|slot| (slot, end(slot))).collect(),
            ends: [one, other].map(|index| self.nodes[index].peer().clone()),
            others: self.primaries_but(&[one, other]),
        })
    }

    /// [`Node::calls`] of all running nodes together. Without replicas this is how often clients
    /// had the command executed.
    #[track_caller]
    pub fn calls_total(&self, command: &str) -> u64 {
        self.running().into_iter().map(|index| self.nodes[index].calls(command)).sum()
    }

    /// [`Node::reset_calls`] on all running nodes.
    #[track_caller]
    pub fn reset_calls(&self) {
        for index in self.running() {
            self.nodes[index].reset_calls();
        }
    }

    /// Sends a command to all running nodes and fails the test unless each takes it.
    #[track_caller]
    pub fn tell_all(&self, args: &[&str]) {
        for index in self.running() {
            self.must(index, args);
        }
    }

    /// Running primaries other than these.
    fn primaries_but(&self, but: &[usize]) -> Vec<Peer> {
        let primaries = self.primaries().into_iter().filter(|index| !but.contains(index));
        primaries.map(|index| self.nodes[index].peer().clone()).collect()
    }

    /// Sends a command to a node and fails the test unless it takes it.
    #[track_caller]
    fn must(&self, index: usize, args: &[&str]) -> String {
        let reply = self.nodes[index].peer().text(args);
        reply.unwrap_or_else(|error| panic!("node {index}: {error}"))
    }
}

#[cfg(test)]
mod tests;
