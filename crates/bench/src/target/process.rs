//! A child process: its output in a file, its end with its owner.
//!
//! It gets a process group of its own, so that Ctrl-C at the terminal reaches this program only, which then ends them in
//! order, and so that children of a script end with it. Should this program be killed, the kernel kills the child: that
//! needs a call between fork and exec, which safe Rust cannot make, so the child is started through `setpriv` (util-linux)
//! where there is one; `setpriv` becomes the program, so the process id is the program's own.
//!
//! What it is not: a supervisor; nothing is started again.
//!
//! Invariant: when a [`Process`] is gone, so is its process group, and the child was waited for.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// A running child.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    stop: Stop,
}

/// How it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// At once. For programs that are known to leave nothing behind.
    Kill,
    /// Asked first (SIGTERM) and given [`POLITE_LIMIT`]. For programs of others, which may have to stop something themselves.
    Ask,
}

impl Process {
    /// Starts `program` in `folder`, which gets its output as `NAME.log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn spawn(
        name: &str,
        program: &Path,
        args: &[OsString],
        folder: &Path,
        stop: Stop,
    ) -> io::Result<Self> {
        let log = folder.join(format!("{}.log", file_name(name)));
        let out = File::options().create(true).append(true).open(&log)?;
        let mut command = match setpriv() {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(args).current_dir(folder).process_group(0);
        let child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
        Ok(Self { name: name.to_owned(), child, log, stop })
    }

    /// The process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status if it has ended.
    pub(super) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// In words with the end of its output, if it has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.exited()?;
        let tail = self.log_tail();
        let tail = if tail.is_empty() { "it wrote nothing".to_owned() } else { tail };
        Some(format!("{} (process {}) has ended ({status}):\n{tail}", self.name, self.pid()))
    }

    /// The end of what it wrote.
    pub(super) fn log_tail(&self) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.log)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).trim().to_owned()
    }

    fn signal_group(&self, signal: Signal) {
        // The group's number cannot have been given to another one: its leader is waited for by `self.child` only, and a
        // group that is empty already is no error.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.stop == Stop::Ask && self.exited().is_none() {
            self.signal_group(Signal::TERM);
            let deadline = Instant::now() + POLITE_LIMIT;
            while self.exited().is_none() && Instant::now() < deadline {
                thread::sleep(PAUSE);
            }
        }
        self.signal_group(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A name for a file: `respool w=2` must not make folders.
pub(super) fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(safe).collect()
}

/// The program that lets a child die with us, if it is here and knows how (that of busybox does not).
fn setpriv() -> Option<&'static PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let works = |path: &PathBuf| {
        let mut command = Command::new(path);
        command.args(["--pdeathsig", "KILL", "--", "true"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    FOUND.get_or_init(|| super::program::on_path("setpriv").filter(works)).as_ref()
}

/// Asks `question` every few milliseconds until it answers, for at most `limit`. `None`: the limit passed.
pub(super) fn wait_for<T>(limit: Duration, mut question: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        // The time is read first, so that the last question comes after the deadline.
        let late = Instant::now() >= deadline;
        let answer = question();
        if answer.is_some() || late {
            return answer;
        }
        thread::sleep(PAUSE);
    }
}

/// A new folder below `parent`.
///
/// # Errors
/// In words.
pub(super) fn folder(parent: &Path, name: &str) -> Result<PathBuf, String> {
    let path = parent.join(file_name(name));
    fs::create_dir_all(&path).map_err(|error| format!("folder {}: {error}", path.display()))?;
    Ok(path)
}

/// How much of the output a message shows.
const LOG_TAIL_BYTES: u64 = 4 * 1024;
/// How long [`Stop::Ask`] waits.
const POLITE_LIMIT: Duration = Duration::from_secs(3);
/// Between two questions: short beside every limit, long enough to leave the cores to what is waited for.
const PAUSE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, folder: &Path, stop: Stop) -> Process {
        let args = ["-c".into(), script.into()];
        Process::spawn("a shell", Path::new("/bin/sh"), &args, folder, stop).unwrap()
    }

    fn runs(pid: u32) -> bool {
        crate::account::name_of(pid).is_some()
    }

    /// The pid that a script wrote to the file `child`.
    fn child_of(folder: &Path) -> u32 {
        wait_for(Duration::from_secs(10), || {
            fs::read_to_string(folder.join("child")).ok()?.trim().parse().ok()
        })
        .expect("the script writes it")
    }

    #[test]
    fn the_whole_group_ends_with_the_owner() {
        for stop in [Stop::Kill, Stop::Ask] {
            let folder = tempfile::tempdir().unwrap();
            let script = "sleep 100 & echo $! > child.part; mv child.part child; wait";
            let process = shell(script, folder.path(), stop);
            let (pid, child) = (process.pid(), child_of(folder.path()));
            assert!(runs(pid) && runs(child));
            let begin = Instant::now();
            drop(process);
            assert!(begin.elapsed() < POLITE_LIMIT, "a shell ends when asked");
            // The grandchild is reaped by init, some moments later.
            let gone = wait_for(Duration::from_secs(10), || (!runs(child)).then_some(()));
            assert!(!runs(pid) && gone.is_some());
        }
    }

    #[test]
    fn an_end_is_told_with_the_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = shell("echo last words; exit 3", folder.path(), Stop::Kill);
        let text = wait_for(Duration::from_secs(10), || process.ended()).unwrap();
        let begin = format!("a shell (process {}) has ended (exit status: 3):\n", process.pid());
        assert_eq!(text, begin + "last words");
    }

    #[test]
    fn names_make_no_folders() {
        assert_eq!(file_name("../respool w=2"), "..-respool-w-2");
    }

    #[test]
    fn questions_end() {
        let mut asked = 0;
        let answer: Option<()> = wait_for(Duration::ZERO, || {
            asked += 1;
            None
        });
        assert_eq!((answer, asked), (None, 1));
    }
}
