//! A tool as a child process, with a limit of time.
//!
//! Its output is read by two threads, so that a full pipe never blocks it. It is not told that it ended before the
//! caller was: see [`Child::wait`].
//!
//! Invariant: the process is dead and reaped when its [`Child`] is gone.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::super::{Live, LoadError};
use super::csv::Output;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Most bytes kept of each of its streams; a tool with `--csv` prints some hundred.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The program's path.
pub(super) fn find(name: &str) -> Result<PathBuf, LoadError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let package = if name.starts_with("valkey") { "valkey-tools" } else { "redis-tools" };
        LoadError::Tool(format!("{name} is not on PATH; on Debian it is in the package {package}"))
    })
}

/// A running tool.
#[derive(Debug)]
pub(super) struct Child {
    name: &'static str,
    child: std::process::Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Child {
    pub(super) fn start(
        name: &'static str,
        program: &PathBuf,
        args: &[String],
    ) -> Result<Self, LoadError> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| LoadError::Tool(format!("{name} could not be started: {error}")))?;
        let stdout = child.stdout.take().map(|pipe| thread::spawn(move || all(pipe)));
        let stderr = child.stderr.take().map(|pipe| thread::spawn(move || all(pipe)));
        Ok(Self { name, child, stdout, stderr })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, for at most `limit`. `ended` is called when it ended but is not reaped, so that its figures
    /// can still be read from /proc.
    pub(super) fn wait(
        mut self,
        limit: Duration,
        live: &Live,
        ended: impl FnOnce(),
    ) -> Result<Output, LoadError> {
        let deadline = Instant::now() + limit;
        while !self.has_ended() {
            if live.cancel.load(Ordering::Relaxed) {
                return Err(LoadError::Cancelled);
            }
            if Instant::now() > deadline {
                let seconds = limit.as_secs_f64();
                return Err(LoadError::Tool(format!(
                    "{} did not end within {seconds:.0} s and was killed",
                    self.name
                )));
            }
            thread::sleep(LOOK);
        }
        ended();
        let status = self.child.wait();
        let status = status.map_err(|error| LoadError::Tool(format!("{}: {error}", self.name)))?;
        let text = |reader: Option<JoinHandle<String>>| {
            reader.and_then(|it| it.join().ok()).unwrap_or_default()
        };
        Ok(Output { status, stdout: text(self.stdout.take()), stderr: text(self.stderr.take()) })
    }

    /// Whether it ended, without reaping it.
    fn has_ended(&self) -> bool {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else {
            return true;
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error can only be that there is no such child, and then there is nothing to wait for.
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Both are harmless on a process that is reaped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn all(pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // A pipe that breaks has given what it had.
    let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
