//! The guard of the demo's server: a process that lives exactly as long as its standard input is open.
//!
//! The demo holds the other end of that pipe. However the demo ends - asked to, crashed, killed with SIGKILL - the kernel
//! closes the pipe, and the guard stops the server and removes the folder. A handler inside the demo could not promise
//! that, nor could the proxy's second-signal exit.
//!
//! Invariant: the guard ends, with its child dead and the folder gone, within [`STOP_WITHIN`] and a little.

use std::fs::remove_dir_all;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::ArgMatches;
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::Failure;

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "demo-guard";
/// The server's socket in the folder.
pub(super) const SOCKET: &str = "server.sock";
/// The server's log in the folder.
pub(super) const LOG: &str = "server.log";

/// An empty file that says that the server ended by itself; its log is still in the folder then.
pub(super) const ENDED: &str = "server.ended";

/// How long the server may take to end when asked to; then it is killed. It has nothing to save.
const STOP_WITHIN: Duration = Duration::from_secs(3);

/// Pause between two looks at the server.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// `respool demo-guard SERVER FOLDER`.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let path = |name| matches.get_one::<PathBuf>(name).cloned().unwrap_or_default();
    let (program, folder) = (path("server"), path("folder"));
    let outcome = guard_server(&program, &folder);
    // The folder was made for this server alone, see `private::make_folder`.
    let removed = remove_dir_all(&folder);
    outcome?;
    Ok(removed?)
}

/// Runs the server until it ends by itself or standard input closes.
fn guard_server(program: &Path, folder: &Path) -> io::Result<()> {
    let mut server = spawn_server(program, folder)?;
    let (closed, input_closed) = mpsc::channel();
    thread::spawn(move || {
        // Nothing is ever written there; the end of the stream or an error mean the same.
        let _ = io::stdin().read(&mut [0]);
        let _ = closed.send(());
    });
    loop {
        match input_closed.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return stop(&mut server),
        }
        if server.try_wait()?.is_some() {
            // It could not start, or somebody sent SHUTDOWN. The folder stays until the demo ends, which reads the log.
            std::fs::write(folder.join(ENDED), [])?;
            let _ = input_closed.recv();
            return Ok(());
        }
    }
}

/// A server that keeps nothing and that only this user can reach.
fn spawn_server(program: &Path, folder: &Path) -> io::Result<Child> {
    Command::new(program)
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"])
        .args(["--unixsocketperm", "700", "--unixsocket"])
        .arg(folder.join(SOCKET))
        .arg("--dir")
        .arg(folder)
        .arg("--logfile")
        .arg(folder.join(LOG))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Asks the server to end, then insists. The process is our own child and not waited for yet, so that its number cannot
/// belong to another by now.
fn stop(server: &mut Child) -> io::Result<()> {
    if server.try_wait()?.is_none() {
        // Failing to ask leaves the insisting below.
        let _ = kill_process(Pid::from_child(server), Signal::TERM);
    }
    let deadline = Instant::now() + STOP_WITHIN;
    while server.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            server.kill()?;
            server.wait()?;
            break;
        }
        thread::sleep(LOOK_EVERY / 10);
    }
    Ok(())
}
