//! One node of a cluster: its server process, its identity, and the relay before it if there is
//! one.
//!
//! What several nodes do together is in the parent; here nothing is known of other nodes.
//!
//! Invariant: a node's id and the place where clients find it stay the same from its start until
//! [`Node::move_away`], whatever happens to the process.

use crate::admin::{self, Login};
use crate::cluster::view::Member;
use crate::conn::Conn;
use crate::endpoint::Endpoint;
use crate::ports::{ClusterPort, bus_port};
use crate::process::Process;
use crate::redis::{RedisServer, major_version};
use crate::relay::Relay;

/// How often another pair of ports is tried when the process exits at once.
const PORT_TRIES: u32 = 5;

/// How a node can be reached for set-up, past any relay. Threads that work on a cluster hold copies.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) id: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) login: Login,
}

impl Peer {
    pub(crate) fn open(&self) -> Result<Conn, String> {
        self.login.open(&self.endpoint)
    }

    /// Asks over a connection of its own.
    pub(crate) fn text(&self, args: &[&str]) -> Result<String, String> {
        admin::text(&mut self.open()?, args)
    }

    /// Its view of the cluster.
    pub(crate) fn members(&self) -> Result<Vec<Member>, String> {
        Member::read_all(&self.text(&["CLUSTER", "NODES"])?)
    }
}

/// What the test has done to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It is stopped without its knowledge and looks hung.
    Paused,
    /// It was killed.
    Dead,
}

/// What all nodes of a cluster have in common.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) node_timeout_ms: u64,
    pub(crate) login: Login,
    pub(crate) v6: bool,
    pub(crate) relays: bool,
    pub(crate) hostname: Option<fn(usize) -> String>,
    pub(crate) args: Vec<String>,
}

/// A node of a cluster.
#[derive(Debug)]
pub struct Node {
    // The relay goes before the server behind it.
    relay: Option<Relay>,
    server: RedisServer,
    peer: Peer,
    state: State,
}

impl Node {
    /// Starts a node that knows no other. `index` is its number, for its host name.
    pub(crate) fn start(setup: &Setup, index: usize) -> Result<Self, String> {
        let mut last = String::new();
        for _ in 0..PORT_TRIES {
            match Self::try_start(setup, index) {
                Ok(node) => return Ok(node),
                Err(log) => last = log,
            }
        }
        Err(format!("node {index} does not start: {last}"))
    }

    fn try_start(setup: &Setup, index: usize) -> Result<Self, String> {
        let endpoint = Endpoint::Tcp(free_pair(setup.v6));
        let relay = setup.relays.then(|| Relay::to(&endpoint));
        let mut args = setup.login.server_args();
        let mut add = |name: &str, value: &str| args.extend([name.to_owned(), value.to_owned()]);
        add("--cluster-enabled", "yes");
        add("--cluster-node-timeout", &setup.node_timeout_ms.to_string());
        // A replica takes over however long it has heard nothing, and stays with its primary: where
        // a test puts replicas, there they are.
        add("--cluster-replica-validity-factor", "0");
        add("--cluster-migration-barrier", "1000");
        if major_version() >= 7 {
            // The same for a primary that gives its last slot away: it stays one.
            add("--cluster-allow-replica-migration", "no");
        }
        // The first synchronisation does not wait for more replicas to come.
        add("--repl-diskless-sync-delay", "0");
        // A replica of which the others know no offset is not listed in CLUSTER SLOTS, and without
        // writes the offset moves by these pings only.
        add("--repl-ping-replica-period", "1");
        if let Some(relay) = &relay {
            // Clients, but also replicas, are sent to the relay; the bus has its own, direct way.
            let port = endpoint.tcp().port();
            add("--cluster-announce-ip", &relay.endpoint().tcp().ip().to_string());
            add("--cluster-announce-port", &relay.endpoint().tcp().port().to_string());
            add("--cluster-announce-bus-port", &bus_port(port).to_string());
        }
        if let Some(hostname) = setup.hostname {
            add("--cluster-announce-hostname", &hostname(index));
        }
        args.extend(setup.args.iter().cloned());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let server = RedisServer::try_start_at(&endpoint, &args)?;
        let mut peer = Peer { id: String::new(), endpoint, login: setup.login.clone() };
        peer.id = peer.text(&["CLUSTER", "MYID"])?;
        Ok(Self { relay, server, peer, state: State::Running })
    }

    /// The node's id, 40 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.peer.id
    }

    /// Where clients connect: the relay if there is one. This is what the cluster announces.
    pub fn endpoint(&self) -> &Endpoint {
        self.relay.as_ref().map_or(&self.peer.endpoint, Relay::endpoint)
    }

    /// Where the server itself listens.
    pub fn direct_endpoint(&self) -> &Endpoint {
        &self.peer.endpoint
    }

    /// What the test has done to the process.
    pub fn state(&self) -> State {
        self.state
    }

    /// The child process, for signals and figures.
    pub fn process(&self) -> &Process {
        self.server.process()
    }

    /// The relay before the node.
    ///
    /// # Panics
    /// When the cluster was started without relays.
    pub fn relay(&self) -> &Relay {
        self.relay.as_ref().expect("this cluster was started without relays")
    }

    /// A new connection to the server itself, authenticated.
    #[track_caller]
    pub fn connect(&self) -> Conn {
        self.peer.open().unwrap_or_else(|error| panic!("connect to node: {error}"))
    }

    /// Its view of the cluster.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn members(&self) -> Result<Vec<Member>, String> {
        self.peer.members()
    }

    /// All its keys, in order. A replica has those of its primary.
    #[track_caller]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let keys = admin::list(&mut self.connect(), &["KEYS", "*"]);
        let mut keys = keys.unwrap_or_else(|error| panic!("{error}"));
        keys.sort();
        keys
    }

    /// How often it has executed a command since its start or [`Node::reset_calls`]. What it
    /// redirected or refused does not count; what a replica repeats after its primary does.
    #[track_caller]
    pub fn calls(&self, command: &str) -> u64 {
        let info = self.peer.text(&["INFO", "commandstats"]);
        admin::calls_in(&info.unwrap_or_else(|error| panic!("{error}")), command)
    }

    /// Sets the counters of [`Node::calls`] to zero.
    #[track_caller]
    pub fn reset_calls(&self) {
        self.peer.text(&["CONFIG", "RESETSTAT"]).unwrap_or_else(|error| panic!("{error}"));
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill();
        self.state = State::Dead;
    }

    pub(crate) fn pause(&mut self) {
        self.server.pause();
        self.state = State::Paused;
    }

    pub(crate) fn resume(&mut self) {
        self.server.resume();
        self.state = State::Running;
    }

    pub(crate) fn restart(&mut self) {
        self.server.restart();
        self.state = State::Running;
    }

    /// Restarts the server at other ports. It keeps its id and what it knows of its cluster.
    pub(crate) fn move_away(&mut self, v6: bool) {
        assert!(self.relay.is_none(), "a node behind a relay has its address from the relay");
        let endpoint = Endpoint::Tcp(free_pair(v6));
        self.server.restart_at(&endpoint);
        self.peer.endpoint = endpoint;
        self.state = State::Running;
    }
}

fn free_pair(v6: bool) -> std::net::SocketAddr {
    let pair = if v6 { ClusterPort::v6().expect("IPv6 loopback") } else { ClusterPort::v4() };
    pair.release()
}
