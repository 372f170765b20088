//! The binary as a person meets it: messages, exit codes, documents, and the demo from start to clean end.
//!
//! Each test runs the real binary with an environment of its own, so that the machine's variables change nothing. Waits
//! have deadlines; a process that a test started is stopped by its handle, also when the test fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What a process under test may take to start or to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The binary with a clean environment.
fn respool() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_respool"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null());
    command
}

/// The same for what serves, with the driver of `RESPOOL_TEST_DRIVER`.
fn serving() -> Command {
    let mut command = respool();
    testkit::set_driver(&mut command);
    command
}

/// Runs to the end; for calls that start nothing.
fn run(arguments: &[&str]) -> (i32, String, String) {
    outcome(&respool().args(arguments).output().expect("the binary runs"))
}

fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("output is text");
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn version_and_help() {
    let (code, out, _) = run(&["--version"]);
    assert_eq!((code, out), (0, format!("respool {}\n", env!("CARGO_PKG_VERSION"))));
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, 0);
    for word in [
        "--upstream <URL>",
        "--timeouts-connect-ms <MS>",
        "[env: RESPOOL_WORKERS]",
        "Examples:",
        "Exit codes:",
        "demo",
        "Limits:",
    ] {
        assert!(help.contains(word), "--help lacks {word}:\n{help}");
    }
    assert!(
        !help.contains("demo-guard") && !help.contains("generate-docs"),
        "internal commands stay out of the help"
    );
    let (code, short, _) = run(&["-h"]);
    assert_eq!(code, 0);
    assert!(
        short.lines().count() < 50 && short.lines().count() < help.lines().count(),
        "-h fits a screen"
    );
}

#[test]
fn check_says_ok_or_lists_everything() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let good = file("good.toml", "upstream = \"redis://cache\"\n[timeouts]\nconnect_ms = 5\n");
    let bad = file("bad.toml", "upstream = \"redis://u:hunter2@cache/x\"\nworker = 3\n");
    assert_eq!(run(&["check", &good]), (0, format!("{good}: ok\n"), String::new()));

    let (code, out, err) = run(&["check", &good, &bad, "/nowhere.toml"]);
    assert_eq!((code, out), (2, format!("{good}: ok\n")));
    assert_eq!(
        err,
        format!(
            "{bad}:1:12: upstream: the database is not a whole number from 0 to 2147483647, as in redis://host:6379/0\n\
             {bad}:2:1: worker: unknown key; did you mean `workers`?\n\
             /nowhere.toml: cannot be read: No such file or directory (os error 2)\n"
        )
    );
}

#[test]
fn convert_prints_ours_or_all_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let pool = |name: &str, port: u16| {
        format!(
            "{name}:\n  listen: 127.0.0.1:{port}\n  redis: true\n  timeout: 400\n  backlog: 9\n  servers: [\"h:1:1 a\", \"h:2:1 b\"]\n"
        )
    };
    let pools = file("pools.yml", &(pool("one", 7001) + &pool("two", 7002)));
    let (code, out, err) = run(&["convert", &pools]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(
        err,
        format!(
            "{pools}:1:1: has 2 pools, and one respool serves one of them; choose it with --pool NAME, one of `one`, `two`\n\
             respool: nothing was converted\n"
        )
    );

    let (code, out, err) = run(&["convert", "--pool", "two", &pools]);
    assert_eq!(code, 0, "{err}");
    let first = format!(
        "{pools}:1:1: one: another pool, for a respool of its own: convert it with --pool one\n"
    );
    assert!(
        err.starts_with(&first) && err.contains(":11:3: backlog: has no counterpart: "),
        "{err}"
    );
    assert!(err.lines().all(|note| out.contains(&format!("#   {note}\n"))), "{out}");
    assert!(out.contains("\nlisten = [\"127.0.0.1:7002\"]\n"), "{out}");
    let ours = file("ours.toml", &out);
    assert_eq!(run(&["check", &ours]), (0, format!("{ours}: ok\n"), String::new()));

    let wrong = file(
        "wrong.yml",
        "one:\n  lisen: 1\n  redis: true\n  hash: sha1\n  listen: 7\n  servers: []\n",
    );
    let (code, out, err) = run(&["convert", "--from", "nutcracker", &wrong]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with(&format!("{wrong}:2:3: lisen: unknown key; did you mean `listen`?\n{wrong}:4:3: hash: allowed: one_at_a_time, ")), "{err}");
    assert!(err.ends_with("respool: nothing was converted\n") && err.lines().count() == 4, "{err}");
}

#[test]
fn convert_follows_includes_and_says_what_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    file("pool.conf", b"ClusterServerPool {\n  Servers {\n    + 10.0.0.1:7000\n  }\n}\n");
    let main = file("predixy.conf", b"Bind 127.0.0.1:7617\nInclude pool.conf\n");
    let (code, out, err) = run(&["convert", &main]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("upstream = \"redis-cluster://10.0.0.1:7000\""), "{out}");

    let unclear = file("x.conf", b"port 7\n");
    let (code, out, err) = run(&["convert", &unclear]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains(
            "--from, one of: predixy, nutcracker, redis-cluster-proxy, overlord, camellia"
        ),
        "{err}"
    );
    let (code, _, err) = run(&["convert", "--from", "haproxy", &unclear]);
    assert!(code == 2 && err.contains("predixy, nutcracker"), "{err}");
    assert_eq!(
        run(&["convert", "/nowhere.conf"]),
        (
            2,
            String::new(),
            "/nowhere.conf: cannot be read: No such file or directory (os error 2)\n".to_owned()
        )
    );
    let binary = file("b.conf", b"a\xff");
    let (code, _, err) = run(&["convert", &binary]);
    assert_eq!((code, err), (2, format!("{binary}: cannot be read: not valid UTF-8 at byte 1\n")));
}

#[test]
fn the_example_of_the_repository_passes_the_check() {
    let example = root().join("respool.example.toml").display().to_string();
    assert_eq!(run(&["check", &example]), (0, format!("{example}: ok\n"), String::new()));
}

#[test]
fn wrong_values_of_all_sources_come_together_with_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.toml");
    std::fs::write(&file, "workers = 0\n").unwrap();
    let file = file.display();
    let output = respool()
        .args(["--config", &file.to_string(), "--listen", "6380", "--max-clients", "-3"])
        .env("RESPOOL_LOG_LEVEL", "loud")
        .env("RESPOOL_SERVICE_PORT", "ignored: Kubernetes makes such names")
        .output()
        .unwrap();
    let (code, out, err) = outcome(&output);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(
        err,
        format!(
            "{file}:1:11: workers: found 0; allowed: a whole number from 1 to 256\n\
             environment RESPOOL_LOG_LEVEL: found `loud`; allowed: error, warn, info, debug, trace\n\
             --listen: found `6380` (for this machine only write 127.0.0.1:PORT, for every interface 0.0.0.0:PORT or [::]:PORT); allowed: address:port such as 127.0.0.1:6380, [::1]:6380 or 0.0.0.0:6380, or unix:/path\n\
             --max-clients: found `-3`; allowed: a whole number from 1 to 1000000\n\
             upstream: no server is named; say which one the proxy is for, as in --upstream redis://127.0.0.1:6379 or upstream = \"redis://127.0.0.1:6379\" (or try `respool demo`)\n\
             respool: 5 problems in the configuration, nothing was started (see `respool --help`)\n"
        )
    );
}

#[test]
fn unknown_flags_get_a_suggestion() {
    let (code, _, err) = run(&["--wrokers", "3"]);
    assert_eq!(code, 2);
    assert!(err.contains("'--wrokers'") && err.contains("'--workers'"), "{err}");
    let (code, _, err) = run(&["--pasword", "hunter2"]);
    assert_eq!(code, 2);
    assert!(err.contains("'--password'") && !err.contains("hunter2"), "{err}");
    let (code, _, err) = run(&["--workers", "3", "--workers", "4"]);
    assert_eq!(code, 2);
    assert!(err.contains("cannot be used multiple times"), "{err}");
}

#[test]
fn a_config_file_that_is_missing_or_no_text_is_a_usage_error() {
    let (code, _, err) = run(&["-c", "/nowhere.toml"]);
    assert_eq!(
        (code, err.as_str()),
        (2, "/nowhere.toml: cannot be read: No such file or directory (os error 2)\n")
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.toml");
    std::fs::write(&file, b"workers = 1 # \xff").unwrap();
    let (code, _, err) = outcome(&respool().env("RESPOOL_CONFIG", &file).output().unwrap());
    assert_eq!(code, 2);
    assert!(err.contains("not valid UTF-8 at byte 14"), "{err}");
}

#[test]
fn completions_know_flags_and_names() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = run(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(script.contains("limits-memory-max-bytes") && script.contains("json"), "{shell}");
    }
    let (code, _, err) = run(&["completions", "tcsh"]);
    assert_eq!(code, 2);
    assert!(err.contains("bash, zsh, fish"), "{err}");
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let mut child =
        respool().arg("man").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn bash_accepts_the_completion_script() {
    let (_, script, _) = run(&["completions", "bash"]);
    let mut bash =
        Command::new("bash").args(["-n"]).stdin(Stdio::piped()).spawn().expect("bash is there");
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn generated_documents_are_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let (code, written, err) = run(&["generate-docs", &folder.path().display().to_string()]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(written.lines().count(), 8);
    for name in [
        "docs/reference/commands-by-topology.md",
        "docs/reference/commands.md",
        "docs/reference/configuration.md",
        "docs/reference/metrics.md",
        "docs/reference/openapi.json",
        "docs/reference/respool.1",
        "docs/reference/respool.schema.json",
        "respool.example.toml",
    ] {
        let fresh = std::fs::read_to_string(folder.path().join(name)).unwrap();
        let committed = std::fs::read_to_string(root().join(name)).unwrap_or_default();
        assert!(fresh == committed, "{name} is stale; write it again with `cargo xtask docs`");
    }
    let (_, man, _) = run(&["man"]);
    assert_eq!(
        man,
        std::fs::read_to_string(folder.path().join("docs/reference/respool.1")).unwrap()
    );
}

#[test]
fn demo_without_a_server_names_the_packages() {
    let empty = tempfile::tempdir().unwrap();
    let (code, _, err) =
        outcome(&respool().arg("demo").env("PATH", empty.path()).output().unwrap());
    assert_eq!(code, 1);
    for word in ["valkey-server", "redis-server", "apt install", "--upstream"] {
        assert!(err.contains(word), "{err}");
    }
}

#[test]
fn demo_tells_why_the_server_did_not_start_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (bin, temp) = (folder.path().join("bin"), folder.path().join("tmp"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&temp).unwrap();
    // Finds its --logfile as the last argument, as the guard gives it.
    let script = "#!/bin/sh\nfor log; do :; done\necho 'no good today' > \"$log\"\nexit 1\n";
    std::fs::write(bin.join("redis-server"), script).unwrap();
    std::fs::set_permissions(bin.join("redis-server"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let started = Instant::now();
    let output = respool().arg("demo").env("PATH", &bin).env("TMPDIR", &temp).output().unwrap();
    let (code, _, err) = outcome(&output);
    assert_eq!(
        (code, err.as_str()),
        (1, "respool demo: redis-server ended at once; its log says\n  no good today\n")
    );
    assert!(started.elapsed() < PATIENCE / 2, "it does not wait for a server that is gone");
    assert_empty(&temp);
}

#[test]
fn demo_can_be_stopped_while_the_server_is_starting() {
    let folder = tempfile::tempdir().unwrap();
    let (bin, temp) = (folder.path().join("bin"), folder.path().join("tmp"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&temp).unwrap();
    // Leaves a sign that it runs, and never answers.
    let started = folder.path().join("started");
    let script = format!("#!/bin/sh\n: > '{}'\nexec /bin/sleep 30\n", started.display());
    std::fs::write(bin.join("valkey-server"), script).unwrap();
    std::fs::set_permissions(bin.join("valkey-server"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    let mut child = respool().arg("demo").env("PATH", &bin).env("TMPDIR", &temp).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !started.exists() {
        assert!(Instant::now() < deadline, "the server was not started");
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    // Much less than the ten seconds that a server may take.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_empty(&temp);
}

#[test]
fn demo_refuses_wrong_options_before_it_starts_anything() {
    let (code, out, err) = run(&["demo", "--workers", "0"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("--workers: found `0`"), "{err}");
    let (code, _, err) = run(&["demo", "--upstream", "redis://h"]);
    assert_eq!(code, 2, "{err}");
}

/// A running demo, killed at the latest when the test ends.
struct Demo {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    said: String,
    temp: tempfile::TempDir,
}

impl Demo {
    /// Starts the demo on an address that should be free, and reads what it says up to the end of its introduction.
    fn start(listen: &str) -> Self {
        Self::start_with(listen, &["--log-level".to_owned(), "error".to_owned()])
    }

    /// The same with options of its own.
    fn start_with(listen: &str, options: &[String]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let mut child = serving()
            .args(["demo", "--listen", listen, "--workers", "1"])
            // Demos of other tests begin at the same time.
            .args(["--admin-listen", &format!("127.0.0.1:{}", free_port())])
            .args(options)
            .env("TMPDIR", temp.path())
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut demo = Self { child, out, said: String::new(), temp };
        while !demo.said.contains("Ctrl-C stops both") {
            let read = demo.out.read_line(&mut demo.said).unwrap();
            assert!(read > 0, "the demo ended early: {}", demo.said);
        }
        demo
    }

    /// The address of the proxy, as the demo told it.
    fn proxy(&self) -> String {
        let line = self
            .said
            .lines()
            .find_map(|line| line.trim().strip_prefix("proxy "))
            .expect("a line for the proxy");
        line.trim().to_owned()
    }

    /// Sends an inline command through the proxy and reads one line; the proxy may need a moment to listen.
    fn ask(&self, command: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = loop {
            match TcpStream::connect(self.proxy()) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "cannot connect: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }

    /// Sends a signal and waits until the demo is gone. SIGINT goes to the whole process group, as Ctrl-C on a terminal
    /// does; the others to the demo alone.
    fn signal(&mut self, name: &str) -> Option<i32> {
        let group = if name == "INT" { "-" } else { "" };
        let id = format!("{group}{}", self.child.id());
        assert!(Command::new("kill").args(["-s", name, "--", &id]).status().unwrap().success());
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "still running after SIG{name}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the folder and with it the server are gone.
    fn assert_clean(&self) {
        let deadline = Instant::now() + PATIENCE;
        let there = || std::fs::read_dir(self.temp.path()).unwrap().next().is_some();
        let running = || processes_with(&self.temp.path().display().to_string());
        while there() || !running().is_empty() {
            assert!(Instant::now() < deadline, "the folder is still there, or {:?}", running());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes that have a text in their command line; a Redis server shows its options there only until it has started, so
/// the guard, which waits for the server's end, is what this finds.
fn processes_with(text: &str) -> Vec<String> {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn assert_empty(folder: &Path) {
    let left: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn demo_serves_and_cleans_up_on_sigterm_and_sigint() {
    for signal in ["TERM", "INT"] {
        let mut demo = Demo::start(&format!("127.0.0.1:{}", free_port()));
        assert_eq!(demo.ask("SET demo:key 1"), "+OK\r\n");
        assert_eq!(demo.ask("INCR demo:key"), ":2\r\n");
        assert!(demo.said.contains("redis-cli -p "), "{}", demo.said);
        assert_eq!(demo.signal(signal), Some(0), "SIG{signal} is an orderly end");
        demo.assert_clean();
    }
}

// What the demo is for: somebody new finds what is slow, what is hot and what is large.
#[test]
fn demo_with_a_sample_load_shows_what_is_wrong_with_it() {
    let options = ["--log-level", "error", "--load"].map(str::to_owned);
    let mut demo = Demo::start_with(&format!("127.0.0.1:{}", free_port()), &options);
    let admin = demo.said.lines().find_map(|line| line.trim().strip_prefix("respool top --admin "));
    let admin = admin.expect("where the admin listener is").to_owned();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (code, frame, error) = run(&["top", "--admin", &admin, "--once"]);
        let found = ["session:popular", "report:yearly", "EVAL", "hincrby", "primary", "ready"];
        if code == 0 && found.iter().all(|word| frame.contains(word)) {
            let hot = frame.lines().find(|line| line.starts_with("session:popular"));
            assert!(hot.is_some(), "the hot key is the first of its table:\n{frame}");
            break;
        }
        assert!(Instant::now() < deadline, "{error}\n{frame}");
    }
    assert_eq!(demo.signal("TERM"), Some(0));
    demo.assert_clean();
}

#[test]
fn top_says_why_it_has_nothing_to_show() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let (code, _, error) = run(&["top", "--admin", &nobody, "--once"]);
    assert!(code == 1 && error.contains(&nobody) && error.contains("admin.listen"), "{error}");
}

#[test]
fn demo_cleans_up_even_after_sigkill() {
    let mut demo = Demo::start(&format!("127.0.0.1:{}", free_port()));
    assert_eq!(demo.ask("PING"), "+PONG\r\n");
    assert_eq!(demo.signal("KILL"), None);
    demo.assert_clean();
}

#[test]
fn log_lines_are_json_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.log");
    let log =
        ["--log-format", "json", "--log-level", "info", "--log-file", &file.display().to_string()]
            .map(str::to_owned);
    let mut demo = Demo::start_with(&format!("127.0.0.1:{}", free_port()), &log);
    assert_eq!(demo.ask("PING"), "+PONG\r\n");
    demo.signal("TERM");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.is_empty(), "a start is worth a line");
    for line in text.lines() {
        let event: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event["level"].is_string() && event["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn demo_leaves_a_taken_port_and_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let wanted = taken.local_addr().unwrap().to_string();
    let mut demo = Demo::start(&wanted);
    assert_ne!(demo.proxy(), wanted);
    assert!(
        demo.said.contains(&format!("note    {wanted} is taken, so {} is used", demo.proxy())),
        "{}",
        demo.said
    );
    assert_eq!(demo.ask("PING"), "+PONG\r\n");
    demo.signal("TERM");
    demo.assert_clean();
}

#[test]
fn a_taken_port_is_a_runtime_failure_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let mut child = serving()
        .args([
            "--upstream",
            "redis://127.0.0.1:1",
            "--listen",
            &listen,
            "--workers",
            "1",
            "--log-level",
            "error",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill().unwrap();
            panic!("it must not run beside the program that has the port");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(status.code(), Some(1), "{err}");
    assert!(err.contains(&listen), "the message names the address: {err}");
}

#[test]
fn a_log_file_that_cannot_be_opened_is_named() {
    let (code, _, err) =
        run(&["--upstream", "redis://127.0.0.1:1", "--log-file", "/nowhere/r.log"]);
    assert_eq!(
        (code, err.as_str()),
        (
            1,
            "respool: cannot open the log file /nowhere/r.log: No such file or directory (os error 2)\n"
        )
    );
}
