//! The clients of a row: fifty, in groups that tell whom a fault concerns.
//!
//! ```text
//!   home 0, 1, 2   keys on that primary only, each client in a slot of its own     blast radius
//!   all            keys on each of them; MGET and MSET over several nodes             what is split
//!   large          the same with values up to 1 MiB                                what is streamed
//!   transactions 0, 1, 2   MULTI to EXEC on that primary only                      what holds a connection
//!   queues 0, 1, 2         BLPOP and RPUSH on that primary only                    who waits for long
//!   subscribers 0, 1, 2    SUBSCRIBE and PUBLISH, SSUBSCRIBE and SPUBLISH there    who listens
//!   machine        a server and a proxy of their own, which no fault meets          the noise of the machine
//! ```
//! The others send batches of 1 to 50 requests (GET, SET, MGET, MSET, INCR, APPEND, ECHO, PING) at a
//! steady pace that leaves the machine room: it is the fault that must show in the times, and not the
//! load. A message that a subscriber misses counts as a request without a reply, and one
//! of somebody else is a violation.
//!
//! Invariant: every group has a seed of its own, so that no two clients ever share a key.

use std::time::Duration;

use testkit::checker::{Losses, Work};
use testkit::cluster::RedisCluster;
use testkit::{Checker, RedisServer, Respool};

use crate::stage::{REQUEST_TIMEOUT, SOON, Scale, front_of, key_on};

/// Time from one batch of a client to its next one.
const PACE: Duration = Duration::from_millis(100);
/// The same for clients with large values.
const PACE_LARGE: Duration = Duration::from_millis(250);
/// Longest value of the small ones.
const SMALL_BYTES: usize = 16 * 1024;
/// Longest value of the large ones.
const LARGE_BYTES: usize = 1024 * 1024;

/// The first of the slots in which channels are sought, and how many of them for each client: with
/// six nodes one of six fits.
const CHANNEL_TAGS: u16 = 1_000;
const CHANNEL_TRIES: u16 = 200;

/// Clients that have the same kind of keys.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// For messages.
    pub(crate) name: String,
    /// The primary of the start that has all its keys, if it is one.
    pub(crate) home: Option<usize>,
    /// Whether it has a proxy of its own, to know how much the machine itself is held up.
    pub(crate) machine: bool,
    /// What they do.
    pub(crate) checker: Checker,
}

/// All clients of a row.
#[derive(Debug)]
pub(crate) struct Load {
    /// Groups, those with a home first.
    pub(crate) groups: Vec<Group>,
    /// Brackets in which the servers may lose writes; none is open at the start.
    pub(crate) losses: Losses,
    // They end with the load, the proxy first.
    _machine: (Respool, RedisServer),
}

impl Load {
    /// The usual load. `judge` is a node that can be asked for the final values when the row is
    /// over.
    pub(crate) fn usual(
        proxy: &Respool,
        cluster: &RedisCluster,
        judge: usize,
        scale: Scale,
    ) -> Self {
        let losses = Losses::default();
        let judge = cluster.node(judge).direct_endpoint();
        let base = u64::from(std::process::id()) * 100;
        let at_home = scale.clients * 8 / 50;
        // On each primary. One that queues or listens has two connections.
        let holding = (scale.clients * 2 / 50).max(1);
        let large = (scale.clients * 4 / 50).max(1);
        let group = |number: u64, name: &str, clients: u32| {
            let mut checker = Checker::new(proxy.endpoint(), judge);
            checker.clients = clients;
            // Ended by the run.
            checker.duration = Duration::from_secs(24 * 3_600);
            checker.deadline = REQUEST_TIMEOUT + Duration::from_secs(1);
            checker.value_bytes_max = SMALL_BYTES;
            checker.seed = base + number;
            checker.pace = PACE;
            checker.msets = true;
            checker.losses = Some(losses.clone());
            checker.timeline = true;
            Group { name: name.to_owned(), home: None, machine: false, checker }
        };
        let mut groups: Vec<Group> = (0..3)
            .map(|nth| {
                let mut group = group(nth as u64, &format!("home {nth}"), at_home);
                group.home = Some(nth);
                // Far below 5000, so all of them are slots of this primary.
                let tags = (0..at_home).map(|client| key_on(nth, 100 + client as u16));
                group.checker.tags = tags.collect();
                group
            })
            .collect();
        // One slot of each primary for each client, in turn for its keys.
        let everywhere = |clients: u32| {
            (0..3 * clients).map(|at| key_on(at as usize % 3, 300 + at as u16)).collect()
        };
        for (work, name, slot) in [
            (Work::Transactions, "transactions", 200),
            (Work::Queues, "queues", 250),
            (Work::Subscribers, "subscribers", 270),
        ] {
            for nth in 0..3 {
                let number = groups.len() as u64 + 10;
                let mut group = group(number, &format!("{name} {nth}"), holding);
                (group.home, group.checker.work) = (Some(nth), work);
                group.checker.deadline += work.wait();
                let tags = (0..holding).map(|client| key_on(nth, slot + client as u16));
                group.checker.tags = tags.collect();
                if work == Work::Subscribers {
                    bring_home(&mut group.checker, nth, proxy, cluster);
                }
                groups.push(group);
            }
        }
        let scattered = scale.clients - 3 * at_home - 9 * holding - large;
        let mut all = group(3, "all", scattered);
        (all.checker.tags, all.checker.tags_each) = (everywhere(scattered), 3);
        groups.push(all);
        let mut last = group(4, "large", large);
        (last.checker.tags, last.checker.tags_each) = (everywhere(large), 3);
        last.checker.value_bytes_max = LARGE_BYTES;
        last.checker.depth_max = 6;
        last.checker.pace = PACE_LARGE;
        groups.push(last);
        let server = RedisServer::start();
        let own = front_of(&server.endpoint().url(), &[]);
        let mut machine = group(5, "machine", 5);
        machine.machine = true;
        machine.checker.endpoint = own.endpoint().clone();
        machine.checker.judge = server.endpoint().clone();
        groups.push(machine);
        Self { groups, losses, _machine: (own, server) }
    }

    /// Changes all groups before the proxy.
    pub(crate) fn each(mut self, change: impl Fn(&mut Checker)) -> Self {
        let groups = self.groups.iter_mut().filter(|group| !group.machine);
        groups.for_each(|group| change(&mut group.checker));
        self
    }

    /// Leaves those before the proxy that do this work.
    pub(crate) fn only(mut self, work: Work) -> Self {
        self.groups.retain(|group| group.machine || group.checker.work == work);
        self
    }

    /// Changes the group that is at home on a primary.
    pub(crate) fn home(mut self, nth: usize, change: impl Fn(&mut Checker)) -> Self {
        self.groups.iter_mut().filter(|group| group.home == Some(nth)).for_each(|group| {
            change(&mut group.checker);
        });
        self
    }

    /// Connections of all clients of the proxy.
    pub(crate) fn conns(&self) -> usize {
        let groups = self.groups.iter().filter(|group| !group.machine);
        let conns = |checker: &Checker| checker.clients as usize * checker.work.conns();
        groups.map(|group| conns(&group.checker)).sum()
    }
}

/// Gives the clients that listen to plain channels such channels as the proxy listens to at the nth
/// primary. Any node can be the home of a plain channel, which follows from its name and the node's
/// address, so another tag is tried until it is that one.
fn bring_home(checker: &mut Checker, nth: usize, proxy: &Respool, cluster: &RedisCluster) {
    for client in 0..checker.clients {
        let is_home = |tag: u16, checker: &mut Checker| {
            checker.tags[client as usize] = key_on(nth, tag);
            let channel = checker.plain_channel(client);
            channel.is_none_or(|channel| home_of(&channel, proxy, cluster) == nth)
        };
        let first = CHANNEL_TAGS + client as u16 * CHANNEL_TRIES;
        let found = (first..first + CHANNEL_TRIES).any(|tag| is_home(tag, checker));
        assert!(found, "of {CHANNEL_TRIES} channels none is at home at primary {nth}");
    }
}

/// The node at which the proxy listens to a channel.
fn home_of(channel: &str, proxy: &Respool, cluster: &RedisCluster) -> usize {
    let mut listener = proxy.connect();
    let confirmed = listener.ask(&format!("SUBSCRIBE {channel}"));
    assert!(confirmed.contains("subscribe"), "{confirmed}");
    let mut home = None;
    testkit::wait::until_true("a node to have the subscription", SOON, || {
        home = cluster.running().into_iter().find(|node| {
            let mut conn = cluster.node(*node).connect();
            !conn.ask(&format!("PUBSUB NUMSUB {channel}")).ends_with(":0\r\n")
        });
        home.is_some()
    });
    home.expect("a node has the subscription")
}
