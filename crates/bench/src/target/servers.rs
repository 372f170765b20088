//! The servers of a topology: one, several that know nothing of each other, or a cluster of primaries.
//!
//! They keep nothing on disk, listen on loopback only, and have the server's own defaults otherwise: what is measured is
//! what people run. A cluster is made with the commands of every version since 3.0, so that an old server can be measured
//! too: an epoch for each, its slots, one MEET from the first to each other.
//!
//! What it is not: replicas, sentinels, failover.
//!
//! Invariant: when [`Servers::start`] returns, each server has answered, by its process id is known to be ours and not a
//! stranger on the same port, and a cluster is whole in the eyes of each member.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::process::{Process, Stop, folder, wait_for};
use super::program::Program;
use super::{INTERRUPTED, pin, ports, probe};
use crate::plan::{Topology, TopologyKind};

/// Running servers.
#[derive(Debug)]
pub(super) struct Servers {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    process: Process,
    address: SocketAddr,
}

/// What every start needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    /// Where folders are made.
    pub(super) folder: &'a Path,
    /// Cores to bind to.
    pub(super) cores: &'a [u32],
    /// Ends every wait.
    pub(super) interrupted: &'a AtomicBool,
}

impl Servers {
    /// Starts all of a topology.
    ///
    /// # Errors
    /// In words, with the end of a server's output.
    pub(super) fn start(
        topology: &Topology,
        program: &Program,
        start: Start<'_>,
    ) -> Result<Self, String> {
        let cluster = topology.kind == TopologyKind::Cluster;
        let mut nodes = Vec::new();
        for number in 0..topology.nodes {
            let name = format!("{}-{}-{}", program.name, topology.name, number + 1);
            nodes.push(start_node(&name, program, cluster, start)?);
        }
        let servers = Self { nodes };
        if cluster {
            servers.join()?;
            servers.wait_whole(start.interrupted)?;
        }
        for node in &servers.nodes {
            pin::process(node.process.pid(), start.cores)?;
        }
        Ok(servers)
    }

    /// Where they listen. Not empty.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.address).collect()
    }

    /// Their process ids.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.process.pid()).collect()
    }

    /// Deletes all keys.
    ///
    /// # Errors
    /// In words.
    pub(super) fn flush(&self) -> Result<(), String> {
        self.tell_each(&|_| words(&["FLUSHALL"]))
    }

    /// In words, those that have ended.
    pub(super) fn ended(&mut self) -> Vec<String> {
        self.nodes.iter_mut().filter_map(|node| node.process.ended()).collect()
    }

    /// Makes a cluster of servers that are alone.
    fn join(&self) -> Result<(), String> {
        // Equal epochs would be settled by the servers too, after some seconds of gossip.
        self.tell_each(&|at| words(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]))?;
        let count = self.nodes.len();
        self.tell_each(&|at| {
            let slots = slots(at, count).map(|slot| slot.to_string());
            words(&["CLUSTER", "ADDSLOTS"]).into_iter().chain(slots).collect()
        })?;
        let first = &self.nodes[0];
        for node in &self.nodes[1..] {
            let (host, port) = (node.address.ip().to_string(), node.address.port().to_string());
            tell(first, &words(&["CLUSTER", "MEET", &host, &port]))?;
        }
        Ok(())
    }

    fn wait_whole(&self, interrupted: &AtomicBool) -> Result<(), String> {
        let nodes = format!("cluster_known_nodes:{}\r\n", self.nodes.len());
        let whole = |node: &Node| {
            let info = probe::ask(node.address, &["CLUSTER", "INFO"]).unwrap_or_default();
            info.contains("cluster_state:ok\r\n") && info.contains(&nodes)
        };
        let question = || match interrupted.load(Ordering::Relaxed) {
            true => Some(Err(INTERRUPTED.to_owned())),
            false => self.nodes.iter().all(whole).then_some(Ok(())),
        };
        wait_for(CLUSTER_LIMIT, question)
            .unwrap_or_else(|| Err(format!("the cluster was not whole within {CLUSTER_LIMIT:?}")))
    }

    /// Sends each server the command that `command` makes of its number.
    fn tell_each(&self, command: &dyn Fn(usize) -> Vec<String>) -> Result<(), String> {
        self.nodes.iter().enumerate().try_for_each(|(at, node)| tell(node, &command(at)))
    }
}

/// The slots of server number `at` of `count`: equal parts, the last ones not smaller by more than one.
fn slots(at: usize, count: usize) -> std::ops::Range<usize> {
    SLOTS * at / count..SLOTS * (at + 1) / count
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn tell(node: &Node, command: &[String]) -> Result<(), String> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let reply = probe::ask(node.address, &words);
    reply.map(|_| ()).map_err(|why| {
        let command = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        format!("server {}: {command}: {why}", node.address)
    })
}

/// Starts one server, on another port when the first was taken meanwhile.
fn start_node(
    name: &str,
    program: &Program,
    cluster: bool,
    start: Start<'_>,
) -> Result<Node, String> {
    let mut why = String::new();
    for attempt in 0..PORT_TRIES {
        let address = ports::free().ok_or("no port of 127.0.0.1 is free")?;
        let folder = folder(start.folder, &format!("{name}-{attempt}"))?;
        let args = args(address, cluster, &folder);
        let process = Process::spawn(name, &program.path, &args, &folder, Stop::Kill);
        let process = process.map_err(|error| format!("{}: {error}", program.path.display()))?;
        let mut node = Node { process, address };
        match wait_ready(&mut node, start.interrupted) {
            Ok(()) => return Ok(node),
            Err(text) if text == INTERRUPTED => return Err(text),
            Err(text) => why = text,
        }
    }
    Err(why)
}

fn args(address: SocketAddr, cluster: bool, folder: &Path) -> Vec<OsString> {
    let port = address.port().to_string();
    let mut args: Vec<OsString> =
        ["--bind", "127.0.0.1", "--port", &port].map(OsString::from).to_vec();
    args.extend(["--save", "", "--appendonly", "no", "--dir"].map(OsString::from));
    args.push(PathBuf::from(folder).into());
    // Direct connections of the largest tests, and those of proxies on top. Where fewer files may be open the server takes
    // what it gets and says so in its log.
    args.extend(["--maxclients", "20000"].map(OsString::from));
    if cluster {
        args.extend(["--cluster-enabled", "yes"].map(OsString::from));
    }
    args
}

fn wait_ready(node: &mut Node, interrupted: &AtomicBool) -> Result<(), String> {
    let own = format!("process_id:{}\r\n", node.process.pid());
    let question = || {
        if interrupted.load(Ordering::Relaxed) {
            return Some(Err(INTERRUPTED.to_owned()));
        }
        if let Some(text) = node.process.ended() {
            return Some(Err(text));
        }
        let info = probe::ask(node.address, &["INFO", "server"]).ok()?;
        info.contains(&own).then_some(Ok(()))
    };
    wait_for(START_LIMIT, question).unwrap_or_else(|| {
        let tail = node.process.log_tail();
        Err(format!(
            "the server did not answer on {} within {START_LIMIT:?}:\n{tail}",
            node.address
        ))
    })
}

/// Slots of a Redis Cluster.
const SLOTS: usize = 16_384;
/// How long a server may take to answer; it takes some 20 ms on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long the members of a cluster may take to know each other; it takes some seconds of gossip.
const CLUSTER_LIMIT: Duration = Duration::from_secs(60);
/// How often another port is tried when a server ends at once.
const PORT_TRIES: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_served_once() {
        for count in 1..20 {
            let all: Vec<usize> = (0..count).flat_map(|at| slots(at, count)).collect();
            assert!(all.iter().copied().eq(0..SLOTS), "{count} servers");
        }
    }

    fn start(kind: TopologyKind, nodes: u32, interrupted: &AtomicBool) -> Result<Servers, String> {
        let folder = tempfile::tempdir().unwrap();
        let program = Program::find_one_of(&["redis-server", "valkey-server"], &[]).unwrap();
        let topology = Topology { name: "test".to_owned(), kind, nodes };
        Servers::start(
            &topology,
            &program,
            Start { folder: folder.path(), cores: &[], interrupted },
        )
    }

    #[test]
    fn shards_are_flushed_and_end_with_their_owner() {
        let mut servers = start(TopologyKind::Shards, 2, &AtomicBool::new(false)).unwrap();
        let (addresses, pids) = (servers.addresses(), servers.pids());
        for &address in &addresses {
            assert_eq!(probe::ask(address, &["SET", "key", "value"]).unwrap(), "OK");
        }
        servers.flush().unwrap();
        for &address in &addresses {
            assert_eq!(probe::ask(address, &["GET", "key"]).unwrap(), "");
        }
        assert_eq!(servers.ended(), Vec::<String>::new());
        drop(servers);
        assert!(pids.iter().all(|&pid| crate::account::name_of(pid).is_none()));
    }

    #[test]
    fn a_cluster_is_whole_for_each_member() {
        let servers = start(TopologyKind::Cluster, 3, &AtomicBool::new(false)).unwrap();
        // CLUSTER KEYSLOT foo is 12182: of the third server.
        let addresses = servers.addresses();
        assert_eq!(probe::ask(addresses[2], &["SET", "foo", "bar"]).unwrap(), "OK");
        let moved = probe::ask(addresses[0], &["GET", "foo"]).unwrap_err();
        assert_eq!(moved, format!("MOVED 12182 {}", addresses[2]));
    }

    #[test]
    fn an_interrupt_ends_the_start() {
        let text = start(TopologyKind::Single, 1, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(text, INTERRUPTED);
    }
}
