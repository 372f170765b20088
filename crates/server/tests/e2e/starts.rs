//! Signals while respool starts: SIGHUP ends nothing, SIGTERM ends in order, other commands are as any program.
//!
//! A start is held by a command that prints a password, a command of another kind by a pipe that nobody writes to: so each signal comes
//! at a moment that the test has chosen.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use testkit::ports::Port;
use testkit::process::Process;
use testkit::wait;

use crate::setup::{RESPOOL, SOON, direct};

/// A start that waits for its password, and what lets it go on.
struct Held {
    process: Process,
    go: PathBuf,
    folder: tempfile::TempDir,
}

impl Held {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (began, go) = (path("began"), path("go"));
        let command = format!(
            // It ends with the folder, too: nobody waits for it when the process has gone.
            "touch {0}; until test -e {1} || ! test -e {0}; do sleep 0.01; done; echo pw",
            began.display(),
            go.display()
        );
        let text = format!(
            "upstream = \"redis://127.0.0.1:1\"\nlisten = \"{}\"\n[acl]\nusers = [\"u on ~* +@all \\\"password_command={command}\\\"\"]\n",
            Port::v4().release()
        );
        fs::write(path("respool.toml"), text).expect("the file");
        let mut command = Command::new(RESPOOL);
        command.arg("--config").arg(path("respool.toml"));
        let process = spawn(&mut command, folder.path());
        wait::until_true("the command", SOON, || began.exists());
        Self { process, go, folder }
    }
}

fn spawn(command: &mut Command, folder: &Path) -> Process {
    Process::spawn("respool", command, &folder.join("log")).expect("it starts")
}

#[test]
fn a_hangup_in_the_middle_of_a_start_has_the_configuration_read_again() {
    if direct() {
        return;
    }
    let mut held = Held::start();
    held.process.signal(Signal::HUP);
    fs::write(&held.go, "").expect("the file");
    let log = || held.process.log();
    wait::until_true("the reload", SOON, || log().contains("the configuration is as before"));
    assert!(log().contains(" listens "), "{}", log());
    assert!(held.process.exited().is_none());
    held.process.signal(Signal::TERM);
    assert!(held.process.wait_exit(SOON).is_some_and(|status| status.success()));
    drop(held.folder);
}

#[test]
fn the_log_says_that_mirrors_make_it_one_worker() {
    if direct() {
        return;
    }
    let listen = Port::v4().release();
    let plain = format!("upstream = \"redis://127.0.0.1:1\"\nlisten = \"{listen}\"\n");
    let mirrors = "[mirrors]\ntargets = [\"redis://127.0.0.1:2\"]\n";
    for (more, workers) in
        [(mirrors, "workers=1 one_worker_for="), ("workers = 2\n", "workers=2\n")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("respool.toml");
        fs::write(&file, format!("{plain}{more}")).expect("the file");
        let process = spawn(Command::new(RESPOOL).arg("--config").arg(&file), folder.path());
        wait::until_true("the log", SOON, || process.log().contains(" listens "));
        assert!(process.log().contains(workers), "{}", process.log());
    }
}

#[test]
fn asked_to_end_in_the_middle_of_a_start_it_ends_at_once_and_in_order() {
    if direct() {
        return;
    }
    for signal in [Signal::TERM, Signal::INT] {
        let mut held = Held::start();
        held.process.signal(signal);
        let status = held.process.wait_exit(SOON);
        assert!(status.is_some_and(|status| status.success()), "{signal:?}: {status:?}");
        // What it waited for goes, too.
        fs::write(&held.go, "").expect("the file");
    }
}

// Some log rotations and supervisors send them to every process that they know.
#[test]
fn signals_that_ask_for_nothing_end_nothing() {
    if direct() {
        return;
    }
    for signal in [Signal::USR1, Signal::USR2] {
        // In the middle of the start, when nothing is logged yet, and later.
        let mut held = Held::start();
        held.process.signal(signal);
        fs::write(&held.go, "").expect("the file");
        let log = || held.process.log();
        wait::until_true("the listener", SOON, || log().contains(" listens "));
        held.process.signal(signal);
        wait::until_true("the line", SOON, || log().contains("SIGUSR1 and SIGUSR2 do nothing"));
        held.process.signal(Signal::TERM);
        assert!(held.process.wait_exit(SOON).is_some_and(|status| status.success()), "{signal:?}");
    }
}

#[test]
fn a_hangup_ends_what_is_no_proxy_unless_it_is_to_be_ignored() {
    if direct() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    // The tests themselves may run under nohup.
    for (at_start, ends) in [("--default-signal=HUP", true), ("--ignore-signal=HUP", false)] {
        let mut env = Command::new("env");
        let mut checking = spawn(env.args([at_start, RESPOOL, "check"]).arg(&pipe), folder.path());
        // Opened when it is opened for reading, by then its command is known.
        let end = File::options().write(true).open(&pipe).expect("the pipe");
        checking.signal(Signal::HUP);
        // One that is ignored goes on to the end of the file, which is no configuration.
        drop(end);
        let status = checking.wait_exit(SOON).expect("it ends");
        let by = ends.then_some(Signal::HUP.as_raw());
        assert_eq!((status.signal(), status.code()), (by, (!ends).then_some(2)), "{status}");
    }
}
