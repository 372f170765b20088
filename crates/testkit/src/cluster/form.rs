//! How single nodes become a cluster: options, slots, and the nodes' introduction to each other.
//!
//! The order is what makes it quick. Slots and epochs are given while each node is still alone, so
//! that none has to be agreed on later and no primary ever finds itself in a minority (which would
//! cost it a node timeout of waiting). Then every pair is introduced, since gossip would need seconds
//! to do it. Then replicas follow their primaries.
//!
//! Invariant: no two nodes of a cluster have the same configuration epoch when they meet.

use std::ops::Range;
use std::time::Duration;

use super::node::{Node, Setup};
use super::{LIMIT, Member, RedisCluster, SLOTS};
use crate::admin::Login;
use crate::ports::bus_port;
use crate::wait;

/// A `MEET` that got lost is repeated after this.
const MEET_AGAIN: Duration = Duration::from_secs(2);
/// Default of [`Builder::node_timeout_ms`].
const NODE_TIMEOUT_MS: u64 = 1_500;

/// How to start a cluster.
#[derive(Debug)]
pub struct Builder {
    primaries: usize,
    replicas_each: usize,
    uncovered: Range<u16>,
    setup: Setup,
}

impl Builder {
    pub(super) fn new(primaries: usize, replicas_each: usize) -> Self {
        let setup = Setup {
            node_timeout_ms: NODE_TIMEOUT_MS,
            login: Login::default(),
            v6: false,
            relays: false,
            hostname: None,
            args: Vec::new(),
        };
        Self { primaries, replicas_each, uncovered: 0..0, setup }
    }

    /// After how many milliseconds without an answer a node counts as failed; 1500 if not told. A
    /// replica takes over some 0.5 to 1.5 s later.
    pub fn node_timeout_ms(mut self, node_timeout_ms: u64) -> Self {
        self.setup.node_timeout_ms = node_timeout_ms;
        self
    }

    /// Who is let in.
    pub fn login(mut self, login: Login) -> Self {
        self.setup.login = login;
        self
    }

    /// On ::1 instead of 127.0.0.1. Panics at the start where the machine has no such address.
    pub fn v6(mut self) -> Self {
        self.setup.v6 = true;
        self
    }

    /// Puts a [`Relay`](crate::relay::Relay) before each node, which the node announces as its own
    /// address.
    pub fn relays(mut self) -> Self {
        self.setup.relays = true;
        self
    }

    /// Lets each node announce the host name that `name` gives for its number, beside its address
    /// (server 7.0 or newer).
    pub fn hostnames(mut self, name: fn(usize) -> String) -> Self {
        self.setup.hostname = Some(name);
        self
    }

    /// What `CLUSTER SLOTS` names first: `ip`, `hostname` or `unknown-endpoint` (server 7.0 or
    /// newer).
    pub fn preferred_endpoint(self, kind: &str) -> Self {
        self.args(&["--cluster-preferred-endpoint-type", kind])
    }

    /// Keeps the covered slots serving when others have no node.
    pub fn partial_coverage(self) -> Self {
        self.args(&["--cluster-require-full-coverage", "no"])
    }

    /// Leaves these slots without a node. The start then waits for agreement only.
    pub fn uncovered(mut self, slots: Range<u16>) -> Self {
        self.uncovered = slots;
        self
    }

    /// Adds arguments of the servers; they override the built-in ones.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.setup.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Starts the processes and waits until they are a cluster: every node says so, all agree, all
    /// replicas are in sync.
    #[track_caller]
    pub fn start(self) -> RedisCluster {
        assert!(!(self.setup.v6 && self.setup.relays), "relays listen on 127.0.0.1 only");
        let count = self.primaries * (1 + self.replicas_each);
        let nodes = (0..count).map(|index| Node::start(&self.setup, index));
        let nodes: Result<Vec<Node>, String> = nodes.collect();
        let cluster = RedisCluster {
            nodes: nodes.unwrap_or_else(|error| panic!("{error}")),
            setup: self.setup,
        };
        cluster.share_slots(self.primaries, &self.uncovered);
        cluster.meet_all();
        for replica in self.primaries..count {
            cluster.replicate(replica, replica % self.primaries);
        }
        if self.uncovered.is_empty() {
            cluster.wait_ok();
        } else {
            cluster.wait_agreed();
        }
        cluster
    }
}

impl RedisCluster {
    /// Shares the slots evenly among the first nodes and gives each node an epoch of its own, so
    /// that none has to be agreed on later.
    #[track_caller]
    fn share_slots(&self, primaries: usize, uncovered: &Range<u16>) {
        for index in 0..self.nodes.len() {
            let epoch = (index + 1).to_string();
            self.must(index, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
        }
        // At most 16384 in every step, so it fits.
        let bound = |index: usize| (usize::from(SLOTS) * index / primaries) as u16;
        for index in 0..primaries {
            let own = bound(index)..bound(index + 1);
            let covered = own.filter(|slot| !uncovered.contains(slot));
            let slots: Vec<String> = covered.map(|slot| slot.to_string()).collect();
            if !slots.is_empty() {
                let mut args = vec!["CLUSTER", "ADDSLOTS"];
                args.extend(slots.iter().map(String::as_str));
                self.must(index, &args);
            }
        }
    }

    /// Introduces all running nodes to each other, and waits until each knows all.
    #[track_caller]
    pub(super) fn meet_all(&self) {
        wait::until("the nodes to meet", LIMIT, || {
            let running = self.running();
            // Every pair, and not one node to all: gossip would need seconds for the rest.
            for (at, one) in running.iter().enumerate() {
                for other in &running[at + 1..] {
                    self.meet(*one, *other);
                }
            }
            wait::poll(MEET_AGAIN, || {
                running.iter().all(|index| self.view(*index).is_ok()).then_some(())
            })
        });
    }

    #[track_caller]
    fn meet(&self, one: usize, other: usize) {
        let node = &self.nodes[other];
        let known = self.nodes[one].members().unwrap_or_default();
        let at = node.endpoint().tcp();
        let has_met = |m: &Member| m.id == node.id() && m.is_settled() && m.port == at.port();
        if !known.iter().any(has_met) {
            let bus = bus_port(node.direct_endpoint().tcp().port());
            let (ip, port, bus) = (at.ip().to_string(), at.port().to_string(), bus.to_string());
            self.must(one, &["CLUSTER", "MEET", &ip, &port, &bus]);
        }
    }
}
