//! All that runs for a plan: servers by topology, proxies by target and topology.
//!
//! Invariant: a proxy ends before the servers behind it, and the folder of both is removed last.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use config::{PoolKind, UpstreamAddress, UpstreamUrl};
use tempfile::TempDir;

use super::program::Program;
use super::proxy::{Front, Proxy};
use super::servers::{Servers, Start};
use super::{external, pin};
use crate::load::Endpoint;
use crate::plan::{External, Pins, TargetKind, TargetPlan, Topology, TopologyKind};

/// What a visit needs to know of its target.
#[derive(Clone, Debug)]
pub struct Station {
    /// Where the load goes.
    pub endpoint: Endpoint,
    /// Processes of the proxy; empty for a server itself.
    pub proxy: Vec<u32>,
    /// Processes of the servers.
    pub server: Vec<u32>,
    /// Socket of the proxy's admin listener, if it was started with one.
    pub admin: Option<PathBuf>,
}

/// What a proxy is found by: its target, its topology, and of a floor also the size of its values, else 0.
type Place = (String, String, u32);

/// All that runs.
#[derive(Debug)]
pub struct Fleet<'a> {
    // The order matters: fields are dropped from the top, and proxies go before servers, both before the folder.
    proxies: BTreeMap<Place, Proxy>,
    servers: BTreeMap<String, Servers>,
    folder: TempDir,
    programs: BTreeMap<String, Program>,
    pins: &'a Pins,
    tls: Option<Arc<rustls::ClientConfig>>,
    interrupted: &'a AtomicBool,
}

impl<'a> Fleet<'a> {
    /// Nothing runs yet. `programs`: see [`Fleet::needs`].
    ///
    /// # Errors
    /// When there is no place for temporary files.
    pub fn new(
        programs: BTreeMap<String, Program>,
        pins: &'a Pins,
        tls: Option<Arc<rustls::ClientConfig>>,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("respool-bench-").tempdir();
        let folder = folder.map_err(|error| format!("no temporary folder: {error}"))?;
        let (proxies, servers) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { proxies, servers, folder, programs, pins, tls, interrupted })
    }

    /// The program that a target needs, as a key of `programs`; `None` for one that needs none.
    #[must_use]
    pub fn needs(target: &TargetPlan) -> Option<&str> {
        match &target.kind {
            TargetKind::Direct | TargetKind::External(_) => None,
            TargetKind::Respool
            | TargetKind::Nutcracker
            | TargetKind::Predixy
            | TargetKind::Haproxy => Some(super::serves::kind_name(&target.kind)),
            TargetKind::Floor(_) => Some(FLOOR),
            TargetKind::Command(words) => words.first().map(String::as_str),
        }
    }

    /// Finds the program of servers among those that can be one.
    ///
    /// # Errors
    /// A sentence that names it and its package.
    pub fn find_server(given: &[(String, PathBuf)]) -> Result<Program, String> {
        Program::find_one_of(&["redis-server", "valkey-server"], given)
    }

    /// A target that can be visited, after what it needs was started. `topology` may be missing for an external one only;
    /// `value_bytes` is the size of the values that will be read.
    ///
    /// # Errors
    /// In words, with the output of a program that did not come up.
    pub fn station(
        &mut self,
        target: &TargetPlan,
        topology: Option<&Topology>,
        value_bytes: u32,
    ) -> Result<Station, String> {
        if let TargetKind::External(external) = &target.kind {
            return self.external(external);
        }
        let topology = topology.ok_or("the plan names no servers for it")?;
        let (addresses, server) = match target.kind {
            TargetKind::Floor(_) => (Vec::new(), Vec::new()),
            _ => self.servers(topology)?,
        };
        if target.kind == TargetKind::Direct {
            let (endpoint, proxy) = (endpoint(addresses[0]), Vec::new());
            return Ok(Station { endpoint, proxy, server, admin: None });
        }
        let proxy = self.proxy(target, Front { topology, servers: &addresses, value_bytes })?;
        let (endpoint, admin) = (endpoint(proxy.address()), proxy.admin());
        Ok(Station { endpoint, proxy: vec![proxy.pid()], server, admin })
    }

    /// Whether an external target can be measured, and what it is in words.
    ///
    /// # Errors
    /// In words: the endpoint is dead or answers errors, a process is gone.
    pub fn check(&self, external: &External) -> Result<String, String> {
        external::check(external, &external::endpoint(external, self.tls.as_ref())?)
    }

    /// Whether keys lie where the servers say and not where a proxy chose: then one target's fill serves all.
    #[must_use]
    pub fn places_are_common(topology: &Topology) -> bool {
        topology.kind != TopologyKind::Shards
    }

    /// Deletes all keys of a topology's servers, if they run.
    ///
    /// # Errors
    /// In words.
    pub fn flush(&self, topology: &Topology) -> Result<(), String> {
        self.servers.get(&topology.name).map_or(Ok(()), Servers::flush)
    }

    /// Ends the proxies and servers of a topology that nobody needs any more.
    pub fn release(&mut self, topology: &str) {
        self.proxies.retain(|(_, of, _), _| of != topology);
        self.servers.remove(topology);
    }

    /// In words with the end of their output, the processes that have ended by themselves. Empty when all run.
    pub fn ended(&mut self) -> String {
        let proxies = self.proxies.values_mut().filter_map(Proxy::ended);
        let servers = self.servers.values_mut().flat_map(Servers::ended);
        proxies.chain(servers).collect::<Vec<_>>().join("\n")
    }

    fn external(&self, external: &External) -> Result<Station, String> {
        let station = Station {
            endpoint: external::endpoint(external, self.tls.as_ref())?,
            proxy: external.proxy_pids.clone(),
            server: external.server_pids.clone(),
            admin: None,
        };
        let roles = [(&station.proxy, &self.pins.proxy), (&station.server, &self.pins.server)];
        for (pids, cores) in roles {
            pids.iter().try_for_each(|&pid| pin::process(pid, cores))?;
        }
        Ok(station)
    }

    fn servers(&mut self, topology: &Topology) -> Result<(Vec<SocketAddr>, Vec<u32>), String> {
        if !self.servers.contains_key(&topology.name) {
            let program = self.programs.get(SERVER).ok_or("no server program was looked for")?;
            let servers = Servers::start(topology, program, self.start(&self.pins.server))?;
            self.servers.insert(topology.name.clone(), servers);
        }
        let servers = &self.servers[&topology.name];
        Ok((servers.addresses(), servers.pids()))
    }

    fn proxy(&mut self, target: &TargetPlan, front: Front<'_>) -> Result<&Proxy, String> {
        let value_bytes = match target.kind {
            TargetKind::Floor(_) => front.value_bytes,
            _ => 0,
        };
        let key = (target.name.clone(), front.topology.name.clone(), value_bytes);
        if !self.proxies.contains_key(&key) {
            let program = Self::needs(target).and_then(|name| self.programs.get(name));
            let program = program.ok_or("its program was not looked for")?;
            let start = self.start(&self.pins.proxy);
            let proxy = Proxy::start(target, program, front, start)?;
            self.proxies.insert(key.clone(), proxy);
        }
        Ok(&self.proxies[&key])
    }

    fn start<'s>(&'s self, cores: &'s [u32]) -> Start<'s> {
        Start { folder: self.folder.path(), cores, interrupted: self.interrupted }
    }
}

/// An endpoint on loopback without login.
fn endpoint(address: SocketAddr) -> Endpoint {
    let address = UpstreamAddress::Tcp { host: address.ip().to_string(), port: address.port() };
    Endpoint {
        url: UpstreamUrl {
            address,
            pool: PoolKind::Standalone,
            user: None,
            password: None,
            db: 0,
            tls: false,
        },
        tls: None,
    }
}

/// The program of a floor: this one.
const FLOOR: &str = "respool-bench";
/// The key of the server's program, whichever of them it is.
pub const SERVER: &str = "server";
