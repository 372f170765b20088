//! The processes of a group: data servers, and sentinels with the file that each of them keeps.
//!
//! A sentinel wants a configuration file that it can rewrite, and finds there after a restart what it
//! knew before; so each has a folder of its own that outlives the process. What the processes do
//! together is in the parent.
//!
//! Invariant: a sentinel keeps its id for ever, since the others would take another one for one more
//! sentinel.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::LIMIT;
use crate::admin::{self, Login, field};
use crate::endpoint::Endpoint;
use crate::ports::Port;
use crate::process::Process;
use crate::redis::{RedisServer, program};
use crate::relay::Relay;
use crate::wait;

/// How often another port is tried when a process exits at once.
const PORT_TRIES: u32 = 5;

/// What all sentinels are told.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) name: String,
    pub(super) quorum: usize,
    pub(super) down_after_ms: u64,
    pub(super) failover_timeout_ms: u64,
    pub(super) login: Login,
    pub(super) sentinel_password: Option<String>,
}

impl Watch {
    pub(super) fn sentinel_login(&self) -> Login {
        self.sentinel_password.as_deref().map(Login::with_password).unwrap_or_default()
    }

    /// The configuration of a sentinel, in the form that sentinels write themselves.
    fn config(&self, own: &Identity, primary: &Endpoint, known: &[Identity]) -> String {
        let (at, primary, name) = (own.endpoint.tcp(), primary.tcp(), &self.name);
        let mut lines = vec![
            format!("bind {}\nport {}", at.ip(), at.port()),
            format!("sentinel myid {}", own.id),
            format!("sentinel monitor {name} {} {} {}", primary.ip(), primary.port(), self.quorum),
            format!("sentinel down-after-milliseconds {name} {}", self.down_after_ms),
            format!("sentinel failover-timeout {name} {}", self.failover_timeout_ms),
        ];
        let (user, password) = self.login.parts();
        lines.extend(user.map(|user| format!("sentinel auth-user {name} {user}")));
        lines.extend(password.map(|password| format!("sentinel auth-pass {name} {password}")));
        if let Some(password) = &self.sentinel_password {
            lines.push(format!("requirepass {password}\nsentinel sentinel-pass {password}"));
        }
        for other in known.iter().filter(|other| other.id != own.id) {
            let (at, id) = (other.endpoint.tcp(), &other.id);
            lines.push(format!("sentinel known-sentinel {name} {} {} {id}", at.ip(), at.port()));
        }
        lines.join("\n") + "\n"
    }
}

/// A data server and the relay before it.
#[derive(Debug)]
pub(super) struct Server {
    // The relay goes before the server behind it.
    pub(super) relay: Option<Relay>,
    pub(super) server: RedisServer,
}

impl Server {
    pub(super) fn start(
        login: &Login,
        relays: bool,
        args: &[String],
        primary: Option<&Endpoint>,
    ) -> Result<Self, String> {
        let mut last = String::new();
        for _ in 0..PORT_TRIES {
            match Self::try_start(login, relays, args, primary) {
                Ok(server) => return Ok(server),
                Err(log) => last = log,
            }
        }
        Err(format!("the server does not start: {last}"))
    }

    fn try_start(
        login: &Login,
        relays: bool,
        args: &[String],
        primary: Option<&Endpoint>,
    ) -> Result<Self, String> {
        let endpoint = Endpoint::Tcp(Port::v4().release());
        let relay = relays.then(|| Relay::to(&endpoint));
        let mut all = login.server_args();
        // The first synchronisation does not wait for more replicas to come.
        all.extend(["--repl-diskless-sync-delay", "0"].map(str::to_owned));
        if let Some(relay) = &relay {
            let addr = relay.endpoint().tcp();
            all.extend(["--replica-announce-ip".to_owned(), addr.ip().to_string()]);
            all.extend(["--replica-announce-port".to_owned(), addr.port().to_string()]);
        }
        if let Some(primary) = primary.map(Endpoint::tcp) {
            all.push("--replicaof".to_owned());
            all.extend([primary.ip().to_string(), primary.port().to_string()]);
        }
        all.extend_from_slice(args);
        let args: Vec<&str> = all.iter().map(String::as_str).collect();
        let server = RedisServer::try_start_at(&endpoint, &args)?;
        Ok(Self { relay, server })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        self.relay.as_ref().map_or(self.server.endpoint(), Relay::endpoint)
    }
}

/// What sentinels know of each other.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    id: String,
    pub(super) endpoint: Endpoint,
}

impl Identity {
    /// A new one, with an id that no other sentinel has.
    pub(super) fn at(port: Port) -> Self {
        let id = (0..40).map(|_| format!("{:x}", rand::random_range(0..16))).collect();
        Self { id, endpoint: Endpoint::Tcp(port.release()) }
    }
}

/// A sentinel process.
#[derive(Debug)]
pub(super) struct Sentinel {
    // The order matters: the process is killed before its folder is removed.
    process: Process,
    pub(super) is_running: bool,
    pub(super) identity: Identity,
    folder: TempDir,
}

impl Sentinel {
    pub(super) fn start(
        watch: &Watch,
        mut identity: Identity,
        primary: &Endpoint,
        known: &[Identity],
    ) -> Result<Self, String> {
        let mut last = String::new();
        for _ in 0..PORT_TRIES {
            let folder = tempfile::tempdir().expect("temporary folder");
            let config = watch.config(&identity, primary, known);
            fs::write(config_file(&folder), config).expect("the configuration can be written");
            let mut process = launch(&folder);
            match wait_ready(&mut process, &identity.endpoint, &watch.sentinel_login()) {
                Ok(()) => return Ok(Self { process, is_running: true, identity, folder }),
                Err(log) => last = log,
            }
            // Somebody has taken the port. The others learn the new one when the sentinel greets.
            identity.endpoint = Endpoint::Tcp(Port::v4().release());
        }
        Err(format!("the sentinel does not start: {last}"))
    }

    pub(super) fn kill(&mut self) {
        self.process.kill();
        self.is_running = false;
    }

    /// Starts the process again with the file that it had rewritten. The error is the end of its
    /// log.
    pub(super) fn restart(&mut self, login: &Login) -> Result<(), String> {
        self.process = launch(&self.folder);
        wait_ready(&mut self.process, &self.identity.endpoint, login)?;
        self.is_running = true;
        Ok(())
    }
}

fn config_file(folder: &TempDir) -> PathBuf {
    folder.path().join("sentinel.conf")
}

fn launch(folder: &TempDir) -> Process {
    let mut command = Command::new(program());
    command.arg(config_file(folder)).arg("--sentinel").current_dir(folder.path());
    Process::spawn("sentinel", &mut command, &folder.path().join("sentinel.log"))
        .expect("the server program can be started")
}

/// Waits until the process itself answers. The error is the end of its log.
fn wait_ready(process: &mut Process, endpoint: &Endpoint, login: &Login) -> Result<(), String> {
    let pid = process.pid().to_string();
    let ready = wait::poll(LIMIT, || {
        if process.exited().is_some() {
            return Some(false);
        }
        let mut conn = login.open(endpoint).ok()?;
        let info = admin::text(&mut conn, &["INFO", "server"]).ok()?;
        (field(&info, "process_id") == Some(&pid)).then_some(true)
    });
    (ready == Some(true)).then_some(()).ok_or_else(|| process.log_tail())
}
