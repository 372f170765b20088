//! The program as people use it: the real binary, its exit codes and messages, and each built-in scenario end to end in
//! fractions of a second.
//!
//! `respool` is `built` for it, since cargo builds binaries for tests of their own package only.

mod built;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bench::record::Run;
use bench::report::json;
use bench::scenario::BUILT_IN;
use built::respool;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::RedisServer;
use testkit::ports::Port;

/// One run at a time, so that short visits are not starved by each other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_respool-bench"));
    command.args(args);
    command
}

/// What a program answered.
struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

fn answer(output: Output) -> Answer {
    Answer {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn call(args: &[&str]) -> Answer {
    answer(program(args).output().unwrap())
}

#[track_caller]
fn good(args: &[&str]) -> Answer {
    let answer = call(args);
    assert_eq!(answer.code, Some(0), "{args:?}\n{}{}", answer.out, answer.err);
    answer
}

/// Fails with this code; the last line of what it says begins with `error: ` and is returned.
#[track_caller]
fn bad(code: i32, args: &[&str]) -> String {
    let answer = call(args);
    assert_eq!(answer.code, Some(code), "{args:?}\n{}{}", answer.out, answer.err);
    let at = answer.err.find("error: ").unwrap_or_else(|| panic!("no error: {}", answer.err));
    answer.err[at + "error: ".len()..].trim_end().to_owned()
}

fn url(server: &RedisServer) -> String {
    server.endpoint().tcp().to_string()
}

/// Runs a scenario in its shortest form; returns what was recorded.
#[track_caller]
fn scenario(name: &str, more: &[&str]) -> Run {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let (respool, out) = (respool(), folder.path().join("out"));
    let mut args = vec!["run", name, "--spawn", "--short", "--duration-s", "0.2", "--rounds", "1"];
    args.extend(["--respool", respool.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    args.extend(more);
    let answer = good(&args);
    let run = json::read(&out.join("run.json")).unwrap();
    assert_eq!(run.scenario, name);
    assert!(run.tests.iter().all(|test| answer.out.contains(&test.name)), "{}", answer.out);
    for file in ["report.html", "report.md"] {
        let text = std::fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains(&run.tests[0].name), "{file}");
        assert!(
            answer.err.contains(&format!("wrote {}", out.join(file).display())),
            "{}",
            answer.err
        );
    }
    run
}

/// `test target` of each visit.
fn visits(run: &Run) -> Vec<String> {
    let of = |test: &bench::record::Test| -> Vec<String> {
        test.visits.iter().map(|visit| format!("{}: {}", test.name, visit.target)).collect()
    };
    run.tests.iter().flat_map(of).collect()
}

#[test]
fn predixy_8_runs() {
    let run = scenario("predixy-8", &["--visit", "direct", "respool", "respool w=3"]);
    assert_eq!(
        visits(&run),
        [
            "SET P=1: direct",
            "SET P=1: respool",
            "SET P=20: direct",
            "SET P=20: respool",
            "GET P=1: direct",
            "GET P=1: respool",
            "GET P=20: direct",
            "GET P=20: respool",
            "SET P=20, 3 threads: direct",
            "SET P=20, 3 threads: respool w=3",
            "GET P=20, 3 threads: direct",
            "GET P=20, 3 threads: respool w=3",
        ]
    );
    assert!(run.tests.iter().flat_map(|test| &test.visits).all(|visit| visit.server.cpu_s > 0.0));
}

#[test]
fn pipeline_ladder_runs() {
    assert_eq!(scenario("pipeline-ladder", &["--visit", "direct", "respool"]).tests.len(), 6);
}

#[test]
fn camellia_4_runs_and_says_who_cannot_serve_shards() {
    let run = scenario("camellia-4", &["--visit", "direct", "nutcracker"]);
    let visits = visits(&run);
    assert_eq!(visits.len(), 4 * (2 + 1 + 1), "{visits:?}");
    assert!(visits.contains(&"mget on shards-15: nutcracker".to_owned()), "{visits:?}");
    let said =
        run.left_out.iter().any(|text| text.contains("`direct`") && text.contains("shards-3"));
    assert!(said, "{:?}", run.left_out);
}

#[test]
fn camellia_cluster_runs() {
    let run = scenario("camellia-cluster", &["--visit", "respool"]);
    assert_eq!(visits(&run).len(), 8, "{:?}", visits(&run));
}

#[test]
fn monitoring_cost_runs() {
    let run = scenario("monitoring-cost", &["--visit", "off", "everything"]);
    assert_eq!((run.base.as_str(), visits(&run).len()), ("off", 8));
}

#[test]
fn scale_runs() {
    // Ten thousand clients need 20 000 descriptors in the proxy, which not every machine for tests allows.
    let visit = ["--visit", "direct", "respool w=1", "respool w=2"];
    let run = scenario("scale", &[&visit[..], &["--only", "P=", "c=200", "16B", "1MiB"]].concat());
    assert!(visits(&run).contains(&"GET P=20: respool w=2".to_owned()), "{:?}", visits(&run));
}

#[test]
fn cost_runs() {
    let run = scenario("cost", &["--visit", "direct", "respool", "--no-pin", "--only", "SET P=1"]);
    assert_eq!(visits(&run).len(), 2, "{:?}", visits(&run));
}

#[test]
fn large_runs() {
    let visit = ["--visit", "direct", "respool", "--only", "64KiB"];
    let run = scenario("large", &visit);
    assert_eq!(visits(&run).len(), 4, "{:?}", visits(&run));
    // Peaks are of the visit: the server of the second test has what the first one wrote, the proxy no more than it needs.
    let proxy = run.tests[0].visits[1].proxy;
    assert!(proxy.rss_bytes_max > 1 << 20, "{proxy:?}");
}

#[test]
fn churn_runs() {
    let run = scenario("churn", &["--visit", "floor", "respool"]);
    assert_eq!(visits(&run), ["GET: floor", "GET: respool"]);
}

#[test]
fn idle_needs_open_files_for_its_clients() {
    // Ten thousand clients and as many sockets in the proxy, which not every machine for tests allows; `tests/run.rs` has a smaller one.
    let shown = good(&["show", "idle"]).out;
    assert!(
        shown.contains("respool idle  over epoll  --max-clients 12000  + 10000 idle clients"),
        "{shown}"
    );
}

#[test]
fn server_cost_runs_and_judges_its_limits() {
    let _alone = alone();
    let respool = respool();
    let folder = TempDir::new().unwrap();
    let args = [
        "run",
        "server-cost",
        "--spawn",
        "--short",
        "--duration-s",
        "0.3",
        "--rounds",
        "1",
        "--check",
        "--respool",
    ];
    let mut args = args.to_vec();
    args.extend([respool.to_str().unwrap(), "--out", folder.path().to_str().unwrap()]);
    let answer = call(&args);
    // A debug build on a busy machine may miss a limit: then code 1 is right, and it says so.
    let missed = answer.out.contains("FAIL");
    assert_eq!(answer.code, Some(i32::from(missed)), "{}{}", answer.out, answer.err);
    for judged in ["SET P=1: server CPU of respool is ", "GET P=1: server CPU of respool is "] {
        assert!(answer.out.contains(judged), "{}", answer.out);
    }
}

#[test]
fn every_scenario_is_listed_and_shown() {
    let list = good(&["list"]).out;
    assert_eq!(list.lines().count(), BUILT_IN.len());
    for (name, toml) in BUILT_IN {
        assert!(list.contains(&format!("\n{name} ")) || list.starts_with(name), "{list}");
        let shown = good(&["show", name]).out;
        assert!(
            shown.starts_with(&format!("{name}: ")) && shown.contains(" visits, about "),
            "{shown}"
        );
        assert_eq!(good(&["show", name, "--toml"]).out.trim_end(), toml.trim_end());
    }
}

#[test]
fn wrong_command_lines_end_with_code_2_and_say_what_to_do() {
    for (args, expected) in [
        (
            &["run", "predixi-8", "--spawn"][..],
            "no scenario is called `predixi-8`; did you mean `predixy-8`?",
        ),
        (&["run", "redis"], "no scenario is called `redis`; there are: camellia-4"),
        (&["run", "nowhere/x.toml", "--spawn"], "cannot read the scenario nowhere/x.toml: "),
        (&["run", "cost"], "nothing to measure: give --spawn to start"),
        (
            &["run", "cost", "--spawn", "--target", "a=h:1"],
            "the argument '--spawn' cannot be used with",
        ),
        (&["run", "cost", "--spawn", "--only", "HGET"], "--only: no test's name contains `HGET`"),
        (
            &["run", "cost", "--spawn", "--visit", "predixi"],
            "--visit: no target is called `predixi`",
        ),
        (&["run", "cost", "--spawn", "--tool", "memtier"], "allowed: builtin, redis-benchmark"),
        (
            &["run", "cost", "--spawn", "--pin", "proxi=0"],
            "--pin: found role `proxi`; allowed: proxy=CPUS",
        ),
        (
            &["run", "cost", "--spawn", "--pin", "load=x"],
            "--pin load: found `x`; allowed: numbers of CPUs",
        ),
        (&["run", "cost", "--spawn", "--rounds", "0"], "invalid value '0' for '--rounds <N>'"),
        (&["load"], "nothing to measure: name an endpoint"),
        (&["load", "--target", "h:1", "--request", "GET {kei}"], "--request: "),
        (
            &["load", "--target", "h:1", "--weight", "3", "--request", "PING", "--request", "PING"],
            "--weight stands 1 times",
        ),
        (
            &["load", "--target", "h:1", "--rate", "0"],
            "--rate and --slow-reader take a number above 0",
        ),
        (&["load", "--target", "h:1", "--rate", "5", "--storm"], "cannot be used with"),
        (&["load", "--target", "h:1", "--zipf", "-1"], "unexpected argument '-1'"),
        (&["load", "--target", "h:1", "--hit-ratio", "2"], "--hit-ratio: found 2; allowed: 0 to 1"),
        (
            &["load", "--target", "h:1", "--keys", "1000", "--key-bytes", "2"],
            "1000 different keys do not fit into 2 bytes",
        ),
        (
            &["load", "--target", "h:1", "--tool", "redis-benchmark", "--storm"],
            "redis-benchmark makes a closed load only",
        ),
        (
            &["load", "--target", "a=rediss://h:1"],
            "target `a` speaks TLS; name the certificates to trust with --tls-ca",
        ),
        (
            &["load", "--target", "rediss://h:1", "--tls-ca", "/nowhere.pem"],
            "cannot take certificates from /nowhere.pem",
        ),
        (&["report", "/nowhere.json"], "/nowhere.json: "),
        (&["compare", "/nowhere.json", "/nowhere.json"], "/nowhere.json: "),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
    ] {
        let message = bad(2, args);
        assert!(message.contains(expected), "{args:?}\n  says: {message}\n  not:  {expected}");
    }
}

#[test]
fn a_scenario_with_mistakes_shows_all_of_them() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, "rounds = 0\nabuot = 1\n").unwrap();
    let message = bad(2, &["run", path.to_str().unwrap(), "--spawn"]);
    for expected in
        ["mine.toml:1:10: rounds: found 0", "mine.toml:2:1: abuot: unknown key", "no [[test]]"]
    {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_dead_endpoint_is_named() {
    let port = Port::v4().release().to_string();
    let message = bad(1, &["load", "--target", &format!("gone={port}"), "--duration-s", "0.1"]);
    assert!(message.contains("gone") && message.contains(&port), "{message}");
}

#[test]
fn a_process_that_is_gone_is_named() {
    let server = RedisServer::start();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let target = format!("a={},server-pid={pid}", url(&server));
    let message = bad(1, &["load", "--target", &target, "--duration-s", "0.1"]);
    assert!(message.contains("`a`") && message.contains(&pid.to_string()), "{message}");
}

#[test]
fn error_replies_are_no_figures_and_passwords_stay_secret() {
    let server = RedisServer::start_with(&["--requirepass", "hunter2"]);
    let at = url(&server);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("run.json");
    let load = |target: &str| {
        call(&["load", "--target", target, "--duration-s", "0.1", "--json", file.to_str().unwrap()])
    };
    let without = load(&format!("locked={at}"));
    assert_eq!(without.code, Some(1), "{}", without.err);
    assert!(without.err.contains("locked") && without.err.contains("NOAUTH"), "{}", without.err);
    assert!(without.out.is_empty() && !file.exists(), "a figure of errors: {}", without.out);

    let wrong = load(&format!("locked=redis://:hunter3@{at}"));
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("WRONGPASS") && !wrong.err.contains("hunter3"), "{}", wrong.err);

    let right = load(&format!("open=redis://:hunter2@{at}"));
    assert_eq!(right.code, Some(0), "{}", right.err);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(!written.contains("hunter2") && written.contains("redis://***@"), "{written}");

    // The parser repeats what it does not understand; not the password in it.
    let words = format!("a=redis://:hunter2@{at}");
    for args in [&["load", &words][..], &["list", &words], &["run", "cost", "--rounds", &words]] {
        let message = bad(2, args);
        assert!(!message.contains("hunter2") && message.contains("***@"), "{message}");
    }
}

#[test]
fn a_load_is_shown_written_reported_and_compared() {
    let _alone = alone();
    let server = RedisServer::start();
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let target = format!("server={},server-pid={}", url(&server), server.process().pid());
    let load = |json: &str, more: &[&str]| {
        let json = file(json);
        let common = ["load", "--target", &target, "--duration-s", "0.2", "--warmup-s", "0"];
        good(&[&common[..], &["--json", &json], more].concat())
    };
    let mix = [
        "--request",
        "GET {key}",
        "--weight",
        "9",
        "--request",
        "SET {key} {value}",
        "--weight",
        "1",
    ];
    let out = load(
        "a.json",
        &[&mix[..], &["-c", "4", "-P", "4", "--zipf", "0.99", "--keys", "100"]].concat(),
    )
    .out;
    assert!(out.contains("GET+SET") && out.contains("server"), "{out}");
    let run = json::read(Path::new(&file("a.json"))).unwrap();
    let visit = &run.tests[0].visits[0];
    assert!(visit.requests > 0 && visit.server.cpu_s > 0.0 && visit.nulls == 0, "{visit:?}");
    assert!(run.command.starts_with("respool-bench load --target 'server="), "{}", run.command);

    load("b.json", &["--storm", "--request", "PING", "-c", "2"]);
    let (html, markdown, pictures) = (file("r.html"), file("r.md"), file("pictures"));
    let a = file("a.json");
    assert!(good(&["report", &a]).out.contains("GET+SET"));
    good(&["report", &a, "--html", &html, "--markdown", &markdown, "--pictures", &pictures]);
    assert!(std::fs::read_to_string(&html).unwrap().contains("GET+SET"));
    assert!(std::fs::read_to_string(&markdown).unwrap().contains("GET+SET"));
    assert!(std::fs::read_dir(&pictures).unwrap().count() > 0);
    // A run compared with itself has nothing worse.
    good(&["compare", &a, &a, "--fail-on-worse"]);
}

#[test]
fn other_forms_of_load_run() {
    let _alone = alone();
    let server = RedisServer::start();
    let at = url(&server);
    for more in [
        &["--rate", "500", "-c", "2"][..],
        &["--slow-reader", "20000", "-c", "2", "-d", "1KiB"],
        &["--resp", "3", "--sequential", "-n", "2000"],
        &["--request", "MGET {keys:5}", "--threads", "2", "--rounds", "2"],
    ] {
        let common = ["load", "--target", &at, "--warmup-s", "0"];
        let end: &[&str] = if more.contains(&"-n") { &[] } else { &["--duration-s", "0.2"] };
        good(&[&common[..], end, more].concat());
    }
}

#[test]
fn ctrl_c_ends_a_run_in_order() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    let args =
        ["run", "pipeline-ladder", "--spawn", "--visit", "direct", "--duration-s", "30", "--out"];
    let mut command = program(&args);
    command.arg(&out).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let answer = answer(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(1), "{}", answer.err);
    assert!(
        answer.err.contains("error: interrupted; what was started is stopped"),
        "{}",
        answer.err
    );
    assert!(!out.exists(), "a folder without a run was left");
}
