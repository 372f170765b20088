//! A child process that a test owns: its signals, its output in a file, its cost as the kernel
//! counts it.
//!
//! It knows nothing of Redis or of the proxy; [`redis`](crate::redis) and
//! [`respool`](crate::respool) add that. Figures come from `/proc/<pid>` and so exist on Linux
//! only, like the proxy itself.
//!
//! Invariant: the process is dead and reaped when its [`Process`] is gone. When that happens while
//! a test fails, the end of the process's output is printed, since it most often tells why.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::wait;

/// How much of the output is printed when a test fails.
const LOG_TAIL_BYTES: usize = 8 * 1024;
/// Clock ticks per second in `/proc/<pid>/stat`; `USER_HZ`, which is 100 in the ABI of every usual
/// Linux architecture.
const TICKS_PER_SECOND: u64 = 100;

/// How long a process may take to stop.
const STOPPED: Duration = Duration::from_secs(10);

/// A running child process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output (both streams) appended to the file `log`. `name` is used
    /// in messages.
    ///
    /// # Errors
    /// When the program cannot be started or the log cannot be opened.
    pub fn spawn(name: &str, command: &mut Command, log: &Path) -> io::Result<Self> {
        let out = File::options().create(true).append(true).open(log)?;
        let child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. A process that is gone already is no error: tests kill what may have ended
    /// by itself.
    pub fn signal(&self, signal: Signal) {
        // The pid cannot have been reused: the child is reaped by `self.child` only.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Stops the process without its knowledge (SIGSTOP), and waits until all its threads stand still:
    /// on a busy machine that is some time after the signal. Its sockets stay open, so it looks hung to
    /// its peers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        wait::until_true("the process to stop", STOPPED, || self.stands_still());
    }

    /// Whether no thread of it can run: each is stopped, or the process has ended.
    fn stands_still(&self) -> bool {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            return true;
        };
        tasks.flatten().all(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The name before it may hold anything, a parenthesis too.
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            matches!(state, None | Some('T' | 'Z' | 'X'))
        })
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills at once (SIGKILL) and reaps.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The exit status if the process has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the end of the process, for at most `limit`.
    pub fn wait_exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait::poll(limit, || self.exited())
    }

    /// CPU time used so far by all threads, user and system. Resolution 10 ms.
    pub fn cpu_time(&self) -> Duration {
        let stat = self.proc_file("stat");
        // The second field is the program's name in parentheses and may hold spaces; count from
        // behind it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let tick = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        // utime and stime are fields 14 and 15 of proc(5), 11 and 12 counted from the state.
        Duration::from_millis((tick(11) + tick(12)) * 1000 / TICKS_PER_SECOND)
    }

    /// Resident memory now, in bytes.
    pub fn rss_bytes(&self) -> u64 {
        self.status_kib("VmRSS:") * 1024
    }

    /// The largest resident memory that the process ever had, in bytes.
    pub fn rss_peak_bytes(&self) -> u64 {
        self.status_kib("VmHWM:") * 1024
    }

    /// Open file descriptors now.
    pub fn fds(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// All that the process has written so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The end of [`Process::log`], for messages.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let mut start = log.len().saturating_sub(LOG_TAIL_BYTES);
        while !log.is_char_boundary(start) {
            start += 1;
        }
        log[start..].to_owned()
    }

    fn proc_file(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid())).unwrap_or_default()
    }

    fn status_kib(&self, key: &str) -> u64 {
        self.proc_file("status")
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let ended = self.exited();
        // SIGKILL also ends a paused process.
        self.kill();
        if std::thread::panicking() {
            let how =
                ended.map_or("was running".to_owned(), |status| format!("had ended: {status}"));
            eprintln!("--- {} ({how}), end of its output:\n{}", self.name, self.log_tail());
        }
    }
}

/// The path of a program on PATH.
pub fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Raises the soft limit of open files of the test process itself to the hard one, and returns it.
/// Tests that open thousands of connections size themselves by it.
pub fn raise_fd_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // A failure leaves the limit as it is; what it was is then the answer.
    match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(folder: &Path) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", "echo hello; exec sleep 60"]);
        Process::spawn("sleeper", &mut command, &folder.join("log")).expect("sh starts")
    }

    #[test]
    fn output_signals_and_figures() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut process = sleeper(folder.path());
        wait::until_true("output", Duration::from_secs(10), || process.log().contains("hello"));
        // The memory of the shell gives way to that of `sleep`, and the kernel adds up pages of several threads only now and then.
        wait::until_true("a peak that is no less", Duration::from_secs(10), || {
            let rss_bytes = process.rss_bytes();
            rss_bytes > 0 && process.rss_peak_bytes() >= rss_bytes
        });
        assert!(process.fds() >= 3);
        assert!(process.exited().is_none());

        process.pause();
        assert!(process.proc_file("stat").contains(") T "), "it stands still at once");
        process.resume();
        process.signal(Signal::TERM);
        let status = process.wait_exit(Duration::from_secs(10)).expect("TERM ends sleep");
        assert!(!status.success());
    }

    #[test]
    fn dropping_kills() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let process = sleeper(folder.path());
        let proc_folder = PathBuf::from(format!("/proc/{}", process.pid()));
        assert!(proc_folder.exists());
        drop(process);
        assert!(!proc_folder.exists(), "killed and reaped");
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let log = folder.path().join("log");
        let process = Process::spawn("spinner", &mut command, &log).expect("sh starts");
        wait::until_true("CPU time", Duration::from_secs(20), || {
            process.cpu_time() >= Duration::from_millis(30)
        });
    }
}
