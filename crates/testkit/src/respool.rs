//! The proxy under test as a child process.
//!
//! The path of the binary is given by the test (`env!("CARGO_BIN_EXE_respool")`), since a library
//! cannot know it. What is set here is only where it listens and which upstream it has; every other
//! option comes from the test.
//!
//! Invariant: when [`Builder::start`] returns, the proxy has accepted a connection and answered on
//! it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::conn::Conn;
use crate::endpoint::Endpoint;
use crate::ports::Port;
use crate::process::Process;
use crate::wait;

/// How long the proxy may take to answer after its start. It takes some milliseconds on an idle
/// machine; debug builds on loaded machines are slower.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How often another port is tried when the process exits at once.
const PORT_TRIES: u32 = 5;

/// Names the driver of every proxy that is started here: `RESPOOL_TEST_DRIVER=uring cargo test -p server`.
const DRIVER_VARIABLE: &str = "RESPOOL_TEST_DRIVER";

/// How to start a proxy.
#[derive(Debug)]
pub struct Builder {
    program: PathBuf,
    upstream: Option<String>,
    workers: u32,
    listen: Listen,
    args: Vec<OsString>,
    fd_limit: Option<u32>,
    locks_no_memory: bool,
}

#[derive(Debug)]
enum Listen {
    V4,
    V6,
    Unix,
    At(Endpoint),
    /// Where its configuration says.
    Configured(Endpoint),
}

impl Builder {
    /// Number of workers; 2 if not told.
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// Adds options.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(OsString::from));
        self
    }

    /// Listens on a unix socket instead of a port.
    pub fn listen_unix(mut self) -> Self {
        self.listen = Listen::Unix;
        self
    }

    /// Listens on ::1 instead of 127.0.0.1.
    pub fn listen_v6(mut self) -> Self {
        self.listen = Listen::V6;
        self
    }

    /// Listens at a place that an earlier proxy had.
    pub fn listen_at(mut self, endpoint: &Endpoint) -> Self {
        self.listen = Listen::At(endpoint.clone());
        self
    }

    /// Listens where its configuration says, of which this is one place.
    pub fn listens_by_config(mut self, endpoint: &Endpoint) -> Self {
        self.listen = Listen::Configured(endpoint.clone());
        self
    }

    /// Limits the open files of the process (soft and hard, so that it cannot raise the limit
    /// itself).
    pub fn fd_limit(mut self, fds: u32) -> Self {
        self.fd_limit = Some(fds);
        self
    }

    /// Takes the right and the allowance to lock memory from the process, as containers do (needs `setpriv` of util-linux).
    pub fn locks_no_memory(mut self) -> Self {
        self.locks_no_memory = true;
        self
    }

    /// Starts the proxy and waits until it answers a PING (an error counts: it may want a
    /// password).
    #[track_caller]
    pub fn start(self) -> Respool {
        let is_given = matches!(self.listen, Listen::At(_) | Listen::Configured(_));
        let tries = if is_given { 1 } else { PORT_TRIES };
        let mut log = String::new();
        for _ in 0..tries {
            match self.try_start() {
                Ok(proxy) => return proxy,
                Err(text) => log = text,
            }
        }
        panic!("the proxy does not start:\n{log}");
    }

    fn try_start(&self) -> Result<Respool, String> {
        let folder = tempfile::tempdir().expect("temporary folder");
        let endpoint = match &self.listen {
            Listen::V4 => Endpoint::Tcp(Port::v4().release()),
            Listen::V6 => Endpoint::Tcp(Port::v6().expect("IPv6 loopback").release()),
            Listen::Unix => Endpoint::Unix(folder.path().join("respool.sock")),
            Listen::At(endpoint) | Listen::Configured(endpoint) => endpoint.clone(),
        };
        let mut command = self.command(&endpoint);
        let mut process =
            Process::spawn("respool", &mut command, &folder.path().join("respool.log"))
                .map_err(|error| error.to_string())?;
        let answered = wait::poll(START_LIMIT, || {
            if process.exited().is_some() {
                return Some(false);
            }
            let mut conn = Conn::open(&endpoint).ok()?;
            conn.set_timeout(Duration::from_secs(5));
            conn.command(&["PING"]).ok().map(|_| true)
        });
        if answered == Some(true) {
            return Ok(Respool { process, endpoint, _folder: folder });
        }
        Err(process.log_tail())
    }

    fn command(&self, endpoint: &Endpoint) -> Command {
        let mut limits = String::new();
        if let Some(fds) = self.fd_limit {
            limits.push_str(&format!("ulimit -n {fds} && "));
        }
        let mut become_proxy = "exec";
        if self.locks_no_memory {
            limits.push_str("ulimit -l 0 && ");
            become_proxy = "exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock";
        }
        let mut command = if limits.is_empty() {
            Command::new(&self.program)
        } else {
            // The shell sets the limits and becomes the proxy: no code between fork and exec is
            // needed here.
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{limits}{become_proxy} \"$0\" \"$@\"")]);
            shell.arg(&self.program);
            shell
        };
        if let Some(upstream) = &self.upstream {
            command.args(["--upstream", upstream]);
        }
        if !matches!(self.listen, Listen::Configured(_)) {
            command.args(["--listen", &endpoint.listen_value()]);
        }
        command.args(["--workers", &self.workers.to_string()]);
        // A whole suite can be run with one driver. The environment, so that a test which names a driver has its own.
        set_driver(&mut command);
        // Most tests of a lost server look at the error, which names it; `e2e/server_loss` has the default. The environment, for the same reason.
        command.env("RESPOOL_ON_UPSTREAM_LOSS", "error");
        command.args(&self.args);
        command
    }
}

/// Gives a proxy that a test starts by itself the driver that `RESPOOL_TEST_DRIVER` names for all; an option of its command line is stronger.
pub fn set_driver(command: &mut Command) {
    if let Some(driver) = std::env::var_os(DRIVER_VARIABLE) {
        command.env("RESPOOL_DRIVER", driver);
    }
}

/// A running proxy.
#[derive(Debug)]
pub struct Respool {
    // The order matters: the process is killed before its folder is removed.
    process: Process,
    endpoint: Endpoint,
    _folder: TempDir,
}

impl Respool {
    /// Begins a proxy in front of `upstream`.
    pub fn to(program: impl AsRef<Path>, upstream: &Endpoint) -> Builder {
        Self::to_url(program, &upstream.url())
    }

    /// Begins a proxy in front of an upstream URL: for passwords and databases in it, for clusters
    /// and for sentinels.
    pub fn to_url(program: impl AsRef<Path>, upstream: &str) -> Builder {
        Self::begin(program.as_ref(), Some(upstream.to_owned()))
    }

    /// Begins a proxy in front of several pools, each by its URL with weight and name or by a server
    /// line. How keys are shared among them is told by more options.
    pub fn to_shards(program: impl AsRef<Path>, shards: &[String]) -> Builder {
        Self::begin(program.as_ref(), None).args(&["--sharding-shards", &shards.join(";")])
    }

    /// Begins a proxy with a configuration file, which says what is behind it.
    pub fn with_config(program: impl AsRef<Path>, file: &Path) -> Builder {
        let mut builder = Self::begin(program.as_ref(), None).args(&["--config"]);
        builder.args.push(file.into());
        builder
    }

    fn begin(program: &Path, upstream: Option<String>) -> Builder {
        Builder {
            program: program.to_owned(),
            upstream,
            workers: 2,
            listen: Listen::V4,
            args: Vec::new(),
            fd_limit: None,
            locks_no_memory: false,
        }
    }

    /// Where clients connect.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The child process, for signals and figures.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// A new client connection.
    #[track_caller]
    pub fn connect(&self) -> Conn {
        Conn::to(&self.endpoint)
    }

    /// Fails the test, with the proxy's last words, unless it is still running.
    #[track_caller]
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.process.exited() {
            panic!("the proxy has ended ({status}):\n{}", self.process.log_tail());
        }
    }

    /// Kills it at once (SIGKILL).
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it without its knowledge: what is sent to it meanwhile waits in the kernel.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Lets it go on after [`Respool::pause`].
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Has it read its configuration again (SIGHUP), and waits until every worker works by that: one
    /// of them does so before another, so what one client sees says nothing about the next.
    #[track_caller]
    pub fn reread(&self, limit: Duration) {
        let done = || self.process.log().matches("every worker works by what was read").count();
        let before = done();
        self.process.signal(Signal::HUP);
        wait::until_true("every worker to work by what was read", limit, || done() > before);
    }

    /// Asks it to drain and end (SIGTERM) and does not wait.
    pub fn signal_terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Asks it to drain and end (SIGTERM) and waits for that. `None` when it still runs after
    /// `limit`.
    pub fn terminate(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.signal_terminate();
        self.process.wait_exit(limit)
    }

    /// Waits for the end of a proxy that was signalled by other means. `None` when it still runs
    /// after `limit`.
    pub fn wait_exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.process.wait_exit(limit)
    }
}
