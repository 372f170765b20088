//! A real server (`redis-server` or `valkey-server`) in a temporary folder, alone, without
//! persistence.
//!
//! The program is taken from the environment variable `RESPOOL_TEST_SERVER`, which allows to run
//! the whole suite against another version, else from PATH; [`RedisServer::start_named`] takes one of
//! those that `tests/servers/install` has fetched. This is one server; several of them are
//! made into something by [`cluster`](crate::cluster), [`sentinel`](crate::sentinel) and
//! [`shards`](crate::shards).
//!
//! Invariant: after [`RedisServer::start`] the process that answers on the endpoint is the child of
//! this value, shown by the process id that it reports, and not a stranger on the same port.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use crate::conn::Conn;
use crate::endpoint::Endpoint;
use crate::ports::Port;
use crate::process::{Process, find_on_path};
use crate::wait;

/// How long a server may take to answer after its start. It takes some 20 ms on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How often another port is tried when the process exits at once.
const PORT_TRIES: u32 = 5;

/// A running server.
#[derive(Debug)]
pub struct RedisServer {
    // The order matters: the process is killed before its folder is removed.
    process: Process,
    endpoint: Endpoint,
    program: PathBuf,
    args: Vec<String>,
    folder: TempDir,
}

impl RedisServer {
    /// Starts a server on a free port of 127.0.0.1.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// As [`RedisServer::start`], with more arguments, which override the built-in ones:
    /// `&["--requirepass", "x"]`.
    #[track_caller]
    pub fn start_with(args: &[&str]) -> Self {
        for _ in 1..PORT_TRIES {
            let place = Endpoint::Tcp(Port::v4().release());
            if let Ok(server) = Self::try_start_at(&place, args) {
                return server;
            }
        }
        Self::start_at(&Endpoint::Tcp(Port::v4().release()), args)
    }

    /// Starts the server of this name and version (`valkey-9.1`, see `tests/servers/install`), as [`RedisServer::start_with`] does.
    ///
    /// # Errors
    /// The reason why it is not on this machine, for the test to say that it skips it.
    #[track_caller]
    pub fn start_named(name: &str, args: &[&str]) -> Result<Self, String> {
        let program = named(name)?;
        let mut told = String::new();
        for _ in 0..PORT_TRIES {
            let folder = tempfile::tempdir().expect("temporary folder");
            match Self::run(program.clone(), folder, Endpoint::Tcp(Port::v4().release()), args) {
                Ok(server) => return Ok(server),
                Err(log) => told = log,
            }
        }
        panic!("{name} does not start: {told}");
    }

    /// Starts a server on a unix socket in its own folder; it has no TCP port.
    #[track_caller]
    pub fn start_unix(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let endpoint = Endpoint::Unix(folder.path().join("redis.sock"));
        Self::run(program(), folder, endpoint, args).unwrap_or_else(|log| panic!("server: {log}"))
    }

    /// Starts a server at a given place, for tests in which the proxy was told the place before.
    #[track_caller]
    pub fn start_at(endpoint: &Endpoint, args: &[&str]) -> Self {
        Self::try_start_at(endpoint, args).unwrap_or_else(|log| panic!("server: {log}"))
    }

    /// As [`RedisServer::start_at`], for callers that try another place.
    ///
    /// # Errors
    /// The end of the server's log when it exits or does not answer.
    pub fn try_start_at(endpoint: &Endpoint, args: &[&str]) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("temporary folder");
        Self::run(program(), folder, endpoint.clone(), args)
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The child process, for signals and figures.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// A new direct connection.
    #[track_caller]
    pub fn connect(&self) -> Conn {
        Conn::to(&self.endpoint)
    }

    /// Kills it (SIGKILL). The endpoint stays known for [`RedisServer::restart`].
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it without its knowledge: it looks hung.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Lets it go on after [`RedisServer::pause`].
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Kills it if it still runs and starts it again at the same place, in the same folder: empty
    /// unless its arguments made it persist, while a cluster node still knows its cluster.
    #[track_caller]
    pub fn restart(&mut self) {
        let endpoint = self.endpoint.clone();
        self.restart_at(&endpoint);
    }

    /// As [`RedisServer::restart`], at another place.
    #[track_caller]
    pub fn restart_at(&mut self, endpoint: &Endpoint) {
        self.kill();
        self.endpoint = endpoint.clone();
        self.process = launch(&self.program, &self.folder, &self.endpoint, &self.args);
        if let Err(log) = wait_ready(&mut self.process, &self.endpoint) {
            panic!("server did not come back: {log}");
        }
    }

    fn run(
        program: PathBuf,
        folder: TempDir,
        endpoint: Endpoint,
        args: &[&str],
    ) -> Result<Self, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut process = launch(&program, &folder, &endpoint, &args);
        wait_ready(&mut process, &endpoint)?;
        Ok(Self { process, endpoint, program, args, folder })
    }
}

/// The server program, or a message that says how to get one.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("RESPOOL_TEST_SERVER") {
        return PathBuf::from(path);
    }
    find_on_path("redis-server")
        .or_else(|| find_on_path("valkey-server"))
        .expect("neither redis-server nor valkey-server is on PATH: install one of these packages")
}

/// The names that `tests/servers/install` knows, oldest first; `redis-7.0` is the one on PATH.
pub const NAMES: [&str; 5] = ["redis-6.2", "redis-7.0", "redis-8.2", "valkey-8.1", "valkey-9.1"];

/// The program of the server of this name. Nothing is downloaded here: `tests/servers/install` does that, before tests run.
///
/// # Errors
/// The reason why there is none.
pub fn named(name: &str) -> Result<PathBuf, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/servers/install");
    let output = Command::new(script).args(["--offline", name]).output();
    let output = output.map_err(|error| format!("{name}: {script}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout).into()),
        false => Err(text(&output.stderr)),
    }
}

/// The major version of [`program`], for options that older servers refuse; 0 when it does not tell.
pub fn major_version() -> u32 {
    static MAJOR: OnceLock<u32> = OnceLock::new();
    *MAJOR.get_or_init(|| {
        let output = Command::new(program()).arg("--version").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        // `Redis server v=7.0.15 sha=…`, `Valkey server v=8.0.1 sha=…`
        let text = String::from_utf8_lossy(&text);
        let version = text.split_once(" v=").and_then(|(_, rest)| rest.split_once('.'));
        version.and_then(|(major, _)| major.parse().ok()).unwrap_or(0)
    })
}

fn launch(program: &Path, folder: &TempDir, endpoint: &Endpoint, args: &[String]) -> Process {
    let mut command = Command::new(program);
    command.arg("--dir").arg(folder.path());
    match endpoint {
        Endpoint::Tcp(addr) => {
            command.arg("--bind").arg(addr.ip().to_string());
            command.arg("--port").arg(addr.port().to_string());
        }
        Endpoint::Unix(path) => {
            command.args(["--port", "0", "--unixsocket"]).arg(path);
        }
    }
    // Nothing on disk, and a bound on memory so that a faulty test cannot take the machine.
    command.args(["--save", "", "--appendonly", "no", "--maxmemory", "4gb"]);
    command.args(args);
    Process::spawn("redis-server", &mut command, &folder.path().join("server.log"))
        .expect("the server program can be started")
}

/// Waits until the process answers, for the start limit. The error is the end of its log.
fn wait_ready(process: &mut Process, endpoint: &Endpoint) -> Result<(), String> {
    let pid_line = format!("process_id:{}\r\n", process.pid());
    let ready = wait::poll(START_LIMIT, || {
        if process.exited().is_some() {
            return Some(false);
        }
        let mut conn = Conn::open(endpoint).ok()?;
        conn.set_timeout(Duration::from_secs(5));
        let info = conn.command(&["INFO", "server"]).ok()?;
        // A server with a password does not tell its process id to strangers; that it refuses is
        // answer enough.
        let info = String::from_utf8_lossy(&info);
        (info.contains(&pid_line) || info.starts_with("-NOAUTH")).then_some(true)
    });
    match ready {
        Some(true) => Ok(()),
        _ => Err(process.log_tail()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_pauses_and_restarts_empty_at_the_same_place() {
        let mut server = RedisServer::start();
        let mut conn = server.connect();
        assert_eq!(conn.ask("SET k v"), "+OK\r\n");

        server.pause();
        conn.set_timeout(Duration::from_millis(50));
        assert!(conn.command(&["GET", "k"]).is_err(), "a paused server does not answer");
        server.resume();
        conn.set_timeout(crate::conn::TIMEOUT);
        assert_eq!(conn.reply().expect("late reply"), b"$1\r\nv\r\n");

        let info = server.connect().ask("INFO server");
        assert!(info.contains(&format!("_version:{}.", major_version())), "{info}");

        let before = server.endpoint().clone();
        server.restart();
        assert_eq!(server.endpoint(), &before);
        assert_eq!(server.connect().ask("GET k"), "$-1\r\n");
    }

    #[test]
    fn unix_socket_and_password() {
        let server = RedisServer::start_unix(&["--requirepass", "secret"]);
        let mut conn = server.connect();
        assert!(conn.ask("GET k").starts_with("-NOAUTH"));
        assert_eq!(conn.ask("AUTH secret"), "+OK\r\n");
        assert_eq!(conn.ask("PING"), "+PONG\r\n");
    }
}
