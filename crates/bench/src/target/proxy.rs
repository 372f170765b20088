//! How each kind of proxy is started: its files and its arguments.
//!
//! Each gets its own defaults wherever it has some, as many workers as the plan says, and a hash that spreads keys over
//! shards as its own documentation recommends (ketama with fnv1a_64 for nutcracker and respool, crc16 modulo for predixy): different
//! placements, the same work.
//!
//! What it is not: tuning. More options come from the plan, word by word, behind ours.
//!
//! Invariant: when [`Proxy::start`] returns, a SET went through it to a server (a floor answers it itself, as all); an answer to PING would not show that the
//! server behind is reached, since most proxies answer it themselves.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::process::{Process, Stop, folder, wait_for};
use super::program::Program;
use super::servers::Start;
use super::{INTERRUPTED, pin, ports, probe};
use crate::plan::{NetDriver, TargetKind, TargetPlan, Topology, TopologyKind};

/// Name of the socket of an admin listener in the proxy's folder.
const ADMIN: &str = "admin.sock";

/// A running proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    process: Process,
    address: SocketAddr,
    /// Socket of its admin listener, if it has one.
    admin: Option<PathBuf>,
}

/// What a proxy is started for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front<'a> {
    /// How its servers belong together.
    pub(super) topology: &'a Topology,
    /// Where they listen.
    pub(super) servers: &'a [SocketAddr],
    /// Size of the values that the load reads, which a floor makes up.
    pub(super) value_bytes: u32,
}

/// What a proxy is to be put together from.
struct Parts<'a> {
    target: &'a TargetPlan,
    topology: TopologyKind,
    servers: &'a [SocketAddr],
    value_bytes: u32,
    listen: SocketAddr,
    folder: &'a Path,
}

impl Proxy {
    /// Starts `target` in front of the servers of `front`.
    ///
    /// # Errors
    /// In words, with the end of its output.
    pub(super) fn start(
        target: &TargetPlan,
        program: &Program,
        front: Front<'_>,
        start: Start<'_>,
    ) -> Result<Self, String> {
        let mut why = String::new();
        for attempt in 0..PORT_TRIES {
            let listen = ports::free().ok_or("no port of 127.0.0.1 is free")?;
            let Front { topology, servers, value_bytes } = front;
            let name = format!("{}-{}-{value_bytes}-{attempt}", target.name, topology.name);
            let folder = folder(start.folder, &name)?;
            let topology = topology.kind;
            let parts = Parts { target, topology, servers, value_bytes, listen, folder: &folder };
            let args = parts.args()?;
            let stop = match target.kind {
                TargetKind::Command(_) => Stop::Ask,
                _ => Stop::Kill,
            };
            let process = Process::spawn(&target.name, &program.path, &args, &folder, stop);
            let process =
                process.map_err(|error| format!("{}: {error}", program.path.display()))?;
            let admin = target.wants_admin().then(|| folder.join(ADMIN));
            let mut proxy = Self { process, address: listen, admin };
            match proxy.wait_ready(start) {
                Ok(()) => {
                    pin::process(proxy.process.pid(), start.cores)?;
                    return Ok(proxy);
                }
                Err(text) if text == INTERRUPTED => return Err(text),
                Err(text) => why = text,
            }
        }
        Err(why)
    }

    /// Where clients connect.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Socket of its admin listener, if it was started with one.
    pub(super) fn admin(&self) -> Option<PathBuf> {
        self.admin.clone()
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// In words, when it has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.process.ended()
    }

    fn wait_ready(&mut self, start: Start<'_>) -> Result<(), String> {
        let mut last = String::new();
        let question = || {
            if start.interrupted.load(Ordering::Relaxed) {
                return Some(Err(INTERRUPTED.to_owned()));
            }
            if let Some(text) = self.process.ended() {
                return Some(Err(text));
            }
            match probe::ask(self.address, &["SET", "respool-bench:ready", "1"]) {
                Ok(_) => Some(Ok(())),
                // An error reply may be that of a proxy whose connection to the server is not up yet.
                Err(text) => {
                    last = text;
                    None
                }
            }
        };
        let answer = wait_for(START_LIMIT, question);
        answer.unwrap_or_else(|| {
            Err(format!(
                "no SET went through on {} within {START_LIMIT:?} ({last}); the end of its output:\n{}",
                self.address,
                self.process.log_tail()
            ))
        })
    }
}

impl Parts<'_> {
    /// Writes the files that the program wants, and returns its arguments.
    fn args(&self) -> Result<Vec<OsString>, String> {
        let mut args: Vec<OsString> = match &self.target.kind {
            TargetKind::Respool => self.respool()?,
            TargetKind::Nutcracker => self.nutcracker()?,
            TargetKind::Predixy => vec![self.write("predixy.conf", &self.predixy())?.into()],
            TargetKind::Haproxy => {
                vec!["-db".into(), "-f".into(), self.write("haproxy.cfg", &self.haproxy())?.into()]
            }
            TargetKind::Floor(driver) => self.floor(*driver),
            TargetKind::Command(words) => {
                words.iter().skip(1).map(|word| self.fill(word).into()).collect()
            }
            TargetKind::Direct | TargetKind::External(_) => {
                return Err(format!("`{}` is no proxy that can be started", self.target.name));
            }
        };
        args.extend(self.target.options.iter().map(|option| OsString::from(self.fill(option))));
        Ok(args)
    }

    fn respool(&self) -> Result<Vec<OsString>, String> {
        let servers: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        let mut args: Vec<OsString> = match self.topology {
            TopologyKind::Single => {
                vec!["--upstream".into(), format!("redis://{}", servers[0]).into()]
            }
            TopologyKind::Cluster => {
                vec!["--upstream".into(), format!("redis-cluster://{}", servers.join(",")).into()]
            }
            TopologyKind::Shards => {
                let shards: Vec<String> =
                    servers.iter().map(|server| format!("\"redis://{server}\"")).collect();
                let text = format!(
                    "[sharding]\nhash = \"fnv1a_64\"\ndistribution = \"ketama\"\nshards = [{}]\n",
                    shards.join(", ")
                );
                vec!["--config".into(), self.write("respool.toml", &text)?.into()]
            }
        };
        args.extend(["--listen".into(), self.listen.to_string().into()]);
        args.extend(["--workers".into(), self.target.workers.to_string().into()]);
        if let Some(driver) = self.target.driver {
            args.extend(["--driver".into(), driver.name().into()]);
        }
        if self.target.wants_admin() {
            let socket = self.folder.join(ADMIN);
            args.extend(["--admin-listen".into(), format!("unix:{}", socket.display()).into()]);
        }
        Ok(args)
    }

    fn nutcracker(&self) -> Result<Vec<OsString>, String> {
        let mut text = format!(
            "bench:\n  listen: {}\n  redis: true\n  hash: fnv1a_64\n  distribution: ketama\n  servers:\n",
            self.listen
        );
        for server in self.servers {
            text.push_str(&format!("    - {server}:1\n"));
        }
        // It opens a port for its statistics whether one wants them or not; the default one may be taken.
        let stats = ports::free().ok_or("no port of 127.0.0.1 is free")?.port();
        let mut args = vec!["-c".into(), self.write("nutcracker.yml", &text)?.into()];
        args.extend(["--stats-addr=127.0.0.1".into(), format!("--stats-port={stats}").into()]);
        Ok(args)
    }

    fn floor(&self, driver: NetDriver) -> Vec<OsString> {
        let (port, value_bytes) = (self.listen.port().to_string(), self.value_bytes.to_string());
        let words =
            ["floor", "--driver", driver.name(), "--port", &port, "--value-bytes", &value_bytes];
        words.map(OsString::from).to_vec()
    }

    /// As its `conf/` documents. Logging of every so-many-th request is off: its default would be measured too.
    fn predixy(&self) -> String {
        let mut text = format!(
            "Name bench\nBind {}\nWorkerThreads {}\nLogInfoSample 0\n\
             Authority {{\n    Auth {{\n        Mode admin\n    }}\n}}\n",
            self.listen, self.target.workers
        );
        let list = |indent: &str| {
            self.servers.iter().map(|s| format!("{indent}+ {s}\n")).collect::<String>()
        };
        match self.topology {
            TopologyKind::Cluster => {
                text.push_str(&format!(
                    "ClusterServerPool {{\n    Servers {{\n{}    }}\n}}\n",
                    list("        ")
                ));
            }
            TopologyKind::Single | TopologyKind::Shards => {
                text.push_str("StandaloneServerPool {\n    RefreshMethod fixed\n");
                // It refuses several groups without a hash, and needs none for one.
                if self.servers.len() > 1 {
                    text.push_str("    Hash crc16\n    Distribution modula\n");
                }
                for (number, server) in self.servers.iter().enumerate() {
                    text.push_str(&format!(
                        "    Group shard{number:03} {{\n        + {server}\n    }}\n"
                    ));
                }
                text.push_str("}\n");
            }
        }
        text
    }

    /// In TCP mode, in the foreground (`-db`), with as many threads as workers. What it must be told beside that are timeouts, without which it
    /// warns, long enough that idle connections stay; how many connections it takes it derives from the limit of open files.
    fn haproxy(&self) -> String {
        let servers = self.servers.iter().enumerate();
        let servers =
            servers.map(|(number, server)| format!("    server s{} {server}\n", number + 1));
        format!(
            "global\n    nbthread {}\ndefaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    \
             timeout server 1h\nfrontend bench\n    bind {}\n    default_backend servers\nbackend servers\n{}",
            self.target.workers,
            self.listen,
            servers.collect::<String>()
        )
    }

    /// Replaces the places of a word.
    fn fill(&self, word: &str) -> String {
        let servers: Vec<_> = self.servers.iter().map(SocketAddr::to_string).collect();
        word.replace("{port}", &self.listen.port().to_string())
            .replace("{workers}", &self.target.workers.to_string())
            .replace("{servers}", &servers.join(","))
            .replace("{dir}", &self.folder.to_string_lossy())
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

/// How long a proxy may take until a request goes through; most take milliseconds.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often another port is tried when it ends at once.
const PORT_TRIES: u32 = 3;

#[cfg(test)]
mod tests;
