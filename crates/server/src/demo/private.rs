//! The demo's server, seen from the proxy's process: found, started through the guard, waited for, stopped.
//!
//! Invariant: once [`PrivateServer::start`] made the folder, dropping what it made (also on its error paths) ends the
//! server and removes the folder.

use std::fs::DirBuilder;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use config::address::UNIX_PATH_BYTES_MAX;
use config::{PoolKind, UpstreamAddress, UpstreamUrl};

use super::guard;
use crate::cli::{self, Failure};

/// Names of servers, in the order they are looked for.
const SERVERS: [&str; 2] = ["valkey-server", "redis-server"];

/// How long the server may take until it answers. An idle machine needs some 20 ms; a busy one gets time.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Pause between two looks at the server.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Folders that are tried, should names be taken by leftovers.
const FOLDERS_MAX: u32 = 100;

/// Lines of the server's log that are shown when it did not start.
const LOG_LINES_SHOWN: usize = 5;

/// A running server of the demo.
pub(super) struct PrivateServer {
    name: String,
    folder: PathBuf,
    guard: Child,
}

impl PrivateServer {
    /// Starts a server and waits until it answers, or until `stopped` is set.
    pub(super) fn start(stopped: &AtomicBool) -> Result<Self, Failure> {
        let program = find_server()?;
        let name =
            program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = make_folder().map_err(|error| {
            Failure::Runtime(format!(
                "respool demo: cannot make a folder in {}: {error}",
                std::env::temp_dir().display()
            ))
        })?;
        let guard = spawn_guard(&program, &folder).map_err(|error| {
            // Nothing runs in it yet, so that the guard's part falls to us.
            let _ = std::fs::remove_dir(&folder);
            Failure::Runtime(format!("respool demo: cannot start a second process: {error}"))
        })?;
        let mut server = Self { name, folder, guard };
        server.wait_until_ready(stopped)?;
        Ok(server)
    }

    /// The program's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The temporary folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the server listens.
    pub(super) fn url(&self) -> String {
        let address = UpstreamAddress::Unix(self.folder.join(guard::SOCKET));
        let pool = PoolKind::Standalone;
        UpstreamUrl { address, pool, user: None, password: None, db: 0, tls: false }.to_string()
    }

    fn wait_until_ready(&mut self, stopped: &AtomicBool) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_WITHIN;
        let socket = self.folder.join(guard::SOCKET);
        while !stopped.load(Ordering::Relaxed) {
            if answers(&socket) {
                return Ok(());
            }
            let ended = self.folder.join(guard::ENDED).exists() || self.guard.try_wait()?.is_some();
            if ended || Instant::now() >= deadline {
                let what = if ended { "ended at once" } else { "did not answer in time" };
                return Err(Failure::Runtime(format!(
                    "respool demo: {} {what}{}",
                    self.name,
                    self.last_words()
                )));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// The end of the server's log, if there is one.
    fn last_words(&self) -> String {
        let log = std::fs::read(self.folder.join(guard::LOG)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> =
            log.lines().rev().take(LOG_LINES_SHOWN).map(|line| format!("\n  {line}")).collect();
        if lines.is_empty() {
            String::new()
        } else {
            format!("; its log says{}", lines.into_iter().rev().collect::<String>())
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // Closing the pipe is what tells the guard; it bounds the time it takes, so that waiting here ends.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// The first server on PATH.
fn find_server() -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    SERVERS.iter().find_map(|name| cli::find_program(name, &path)).ok_or_else(|| {
        Failure::Runtime(
            "respool demo: no valkey-server or redis-server on PATH.\n\
             Install one of the packages, for instance with\n  \
             apt install redis-server      (Debian, Ubuntu; newer ones also have valkey-server)\n  \
             dnf install valkey            (Fedora)\n  \
             brew install redis            (Homebrew)\n\
             or use a server that you have: respool --upstream redis://HOST:6379"
                .to_owned(),
        )
    })
}

/// Makes a folder that only this user can enter. `create` fails where the name exists, so that nobody else's folder is
/// ever used (and later removed).
fn make_folder() -> io::Result<PathBuf> {
    let mut parent = std::env::temp_dir();
    if parent.join("respool-demo-4294967295-99").join(guard::SOCKET).as_os_str().len()
        > UNIX_PATH_BYTES_MAX
    {
        // macOS and some CI systems have long TMPDIRs; a socket's path must be short.
        parent = PathBuf::from("/tmp");
    }
    let process = std::process::id();
    for attempt in 0..FOLDERS_MAX {
        let folder = parent.join(format!("respool-demo-{process}-{attempt}"));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Starts this binary again as the guard. A process group of its own keeps the terminal's Ctrl-C from it: the proxy is to
/// finish its requests first.
fn spawn_guard(program: &Path, folder: &Path) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg(guard::COMMAND)
        .args([program, folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Whether a server answers PING there.
fn answers(socket: &Path) -> bool {
    let ping = || -> io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line == "+PONG\r\n")
    };
    ping().unwrap_or(false)
}
