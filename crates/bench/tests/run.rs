//! Whole runs of fractions of a second against real servers and proxies: what they record, how they fail, and that they
//! leave nothing behind.
//!
//! nutcracker must be installed, and `respool` is built here (cargo builds binaries for tests of their own package only;
//! within `cargo test --workspace` it is there already).

#[path = "built/mod.rs"]
mod built;
#[path = "run/plans.rs"]
mod plans;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bench::plan::{Beside, Plan, Question, Shape, Stop, TargetKind, TargetPlan, TopologyKind};
use bench::record::{Run, Visit};
use bench::run::{Options, run};
use rustix::process::{Pid, Signal, kill_process};
use testkit::RedisServer;

use built::respool;
use plans::{Observer, alone, children, external, load, options, plan, target, test, visits};

/// Runs a plan that must succeed.
#[track_caller]
fn good(plan: &Plan, options: &Options) -> (Run, Observer) {
    let mut observer = Observer::default();
    match run(plan, options, &mut observer, &AtomicBool::new(false)) {
        Ok(run) => (run, observer),
        Err(error) => panic!("{error:#}"),
    }
}

/// Runs a plan that must fail; returns the message.
#[track_caller]
fn bad(plan: &Plan, options: &Options) -> String {
    let mut observer = Observer::default();
    let error = run(plan, options, &mut observer, &AtomicBool::new(false));
    error.expect_err("this cannot be measured").to_string()
}

#[track_caller]
fn assert_plausible(visit: &Visit, proxied: bool) {
    assert!(visit.requests > 0 && visit.seconds > 0.0, "{visit:?}");
    for (usage, expected) in [(visit.proxy, proxied), (visit.server, true), (visit.load, true)] {
        assert_eq!(usage.cpu_s > 0.0, expected, "{visit:?}");
        // Nobody uses more than the machine has, and no role here has more than a few threads.
        assert!(usage.cpu_s < visit.seconds * 4.0 + 0.1, "{visit:?}");
        assert!((usage.user_s + usage.system_s - usage.cpu_s).abs() < 1e-6, "{visit:?}");
        assert_eq!(usage.rss_bytes_max > 100_000, expected, "{visit:?}");
    }
    assert_eq!(visit.nulls, 0, "{visit:?}");
    assert!(visit.latency.at(50.0).is_some_and(|us| us > 0.0), "{visit:?}");
}

#[test]
fn three_targets_in_turn_and_nothing_is_left_behind() {
    let _alone = alone();
    let targets = vec![
        target("direct", TargetKind::Direct),
        target("respool", TargetKind::Respool),
        target("nutcracker", TargetKind::Nutcracker),
    ];
    let tests = vec![
        test("SET P=1", "one", load("SET {key} {value}", 1)),
        test("GET P=20", "one", load("GET {key}", 20)),
    ];
    let plan = plan(targets, tests);
    let (run, observer) = good(&plan, &options());

    let order = "direct 1, respool 1, nutcracker 1, direct 2, respool 2, nutcracker 2";
    for test in &run.tests {
        let turns: Vec<_> =
            test.visits.iter().map(|v| format!("{} {}", v.target, v.round)).collect();
        assert_eq!(turns.join(", "), order);
        for visit in &test.visits {
            assert_plausible(visit, visit.target != "direct");
        }
    }
    let (set, get) = (&run.tests[0], &run.tests[1]);
    assert_eq!((set.requests.as_str(), set.topology.as_str()), ("SET {key} {value}", "one server"));
    assert!(get.axes.contains(&("pipeline".to_owned(), 20.0)));
    assert!(
        run.targets[0].what.starts_with("Redis ") || run.targets[0].what.starts_with("Valkey ")
    );
    assert!(run.targets[1].what.starts_with("respool 0."), "{:?}", run.targets);
    assert!(run.targets[2].what.starts_with("nutcracker 0."), "{:?}", run.targets);
    assert!(run.left_out.is_empty(), "{:?}", run.left_out);

    // One server and two proxies ran, and stayed the same over all visits.
    assert_eq!(observer.children.len(), 3, "{:?}", observer.children);
    assert_eq!((observer.announced, observer.begun, observer.ended), (12, 12, 12));
    assert_eq!(children(), []);
}

#[test]
fn requests_are_those_that_the_server_counted() {
    let _alone = alone();
    let server = RedisServer::start();
    let mut all = load("SET {key} {value}", 5);
    all.stop = Stop::AfterRequests(5000);
    let mut plan = plan(vec![external("redis", &server, &[])], vec![test("SET", "one", all)]);
    plan.base = "redis".to_owned();
    let (run, _) = good(&plan, &Options::default());
    let visits = &run.tests[0].visits;
    assert_eq!(visits.iter().map(|visit| visit.requests).collect::<Vec<_>>(), [5000, 5000]);
    visits.iter().for_each(|visit| assert_plausible(visit, false));
    let stats = server.connect().ask("INFO commandstats");
    assert!(stats.contains("cmdstat_set:calls=10000,"), "{stats}");
    assert_eq!(run.tests[0].topology, "as it was found");
    assert!(run.targets[0].what.starts_with("redis-server at 127.0.0.1:"), "{:?}", run.targets);
    assert!(bench::account::name_of(server.process().pid()).is_some(), "it is left alone");
}

#[test]
fn keys_are_found_on_shards_and_each_target_finds_its_own() {
    let _alone = alone();
    let targets = vec![
        target("nutcracker", TargetKind::Nutcracker),
        target("respool", TargetKind::Respool),
        target("direct", TargetKind::Direct),
    ];
    let mut plan = plan(targets, vec![test("GET", "three", load("GET {key}", 4))]);
    plan.base = "nutcracker".to_owned();
    plan.topologies.push(plans::topology("three", TopologyKind::Shards, 3));
    let (run, observer) = good(&plan, &options());
    assert_eq!(visits(&run), ["nutcracker 1", "respool 1", "nutcracker 2", "respool 2"]);
    run.tests[0].visits.iter().for_each(|visit| assert_plausible(visit, true));
    assert_eq!(run.tests[0].topology, "3 shards");
    assert_eq!(run.left_out.len(), 1);
    assert!(run.left_out[0].contains("the load talks to one endpoint"), "{:?}", run.left_out);
    assert_eq!(observer.notices, run.left_out);
    assert_eq!(observer.children.len(), 5, "three servers and two proxies");
    assert_eq!(children(), []);
}

#[test]
fn a_longer_visit_makes_ticks() {
    let _alone = alone();
    let mut long = load("SET {key} {value}", 1);
    long.stop = Stop::AfterMs(1400);
    let mut plan = plan(vec![target("direct", TargetKind::Direct)], vec![test("SET", "one", long)]);
    plan.rounds = 1;
    let (run, observer) = good(&plan, &options());
    assert_eq!(
        run.timeline.len(),
        2,
        "one after a second and one for the rest: {:?}",
        run.timeline
    );
    assert_eq!(observer.ticks, 2);
    for tick in &run.timeline {
        assert_eq!((tick.test, tick.target.as_str()), (0, "direct"));
        assert!(tick.requests_per_s.is_some_and(|rate| rate > 100.0), "{tick:?}");
        assert!(tick.server.used() > 0.0 && tick.load.used() > 0.0 && tick.proxy.used() == 0.0);
    }
    assert!(run.timeline[1].at_s - run.timeline[0].at_s > 0.2);
    // The rates of both spans and the sum of the visit tell of the same requests.
    let visit = &run.tests[0].visits[0];
    let rate = visit.requests as f64 / visit.seconds;
    let seen = run.timeline[0].requests_per_s.unwrap();
    assert!((0.3..3.0).contains(&(seen / rate)), "{seen} in the first second, {rate} over all");
}

#[test]
fn a_rate_that_is_kept_has_no_warning_of_it() {
    let _alone = alone();
    let mut open = load("SET {key} {value}", 10);
    open.shape = Shape::Open { rate: 500.0 };
    let mut plan =
        plan(vec![target("direct", TargetKind::Direct)], vec![test("open", "one", open)]);
    plan.rounds = 1;
    let (run, _) = good(&plan, &options());
    assert_eq!(run.tests[0].shape, "open, 500/s");
    let (requests, seconds) = (run.tests[0].visits[0].requests, run.tests[0].visits[0].seconds);
    assert!((requests as f64 / seconds) < 600.0, "{requests} in {seconds} s");
}

#[test]
fn requests_beside_the_load_are_made_and_must_not_fail() {
    let _alone = alone();
    let server = RedisServer::start();
    let mut redis = external("redis", &server, &[]);
    redis.beside =
        vec![Beside { question: Question::Command("INFO server".to_owned()), every_ms: 20 }];
    let mut plan = plan(vec![redis], vec![test("SET", "one", load("SET {key} {value}", 1))]);
    plan.base = "redis".to_owned();
    good(&plan, &Options::default());
    let stats = server.connect().ask("INFO commandstats");
    let calls = stats.split("cmdstat_info:calls=").nth(1).expect("INFO was asked");
    let calls: u32 = calls.split(',').next().unwrap().parse().unwrap();
    // 300 ms and two rounds make 28; a loaded machine makes fewer.
    assert!((4..=30).contains(&calls), "{calls}");

    plan.targets[0].beside[0].question = Question::Command("NOSUCH".to_owned());
    let text = bad(&plan, &Options::default());
    assert!(text.starts_with("SET, redis, round 1: `NOSUCH` beside the load: "), "{text}");
}

#[test]
fn idle_clients_stand_beside_the_load_and_are_weighed() {
    let _alone = alone();
    let idle = |name: &str, kind| TargetPlan { idle: 200, ..target(name, kind) };
    let targets = vec![
        target("alone", TargetKind::Respool),
        idle("respool", TargetKind::Respool),
        idle("direct", TargetKind::Direct),
    ];
    let plan = plan(targets, vec![test("SET", "one", load("SET {key} {value}", 1))]);
    let (run, _) = good(&plan, &options());
    let visits = &run.tests[0].visits;
    for visit in visits {
        assert_eq!(visit.idle.map(|idle| idle.clients), (visit.target != "alone").then_some(200));
    }
    let of = |name: &'static str| visits.iter().filter(move |visit| visit.target == name);
    // What was there before is the least of all rounds, and of a server itself no proxy is weighed.
    let before: Vec<u64> = of("respool").map(|v| v.idle.unwrap().rss_before_bytes).collect();
    assert_eq!(before[0], before[1]);
    for visit in of("respool") {
        let bytes = visit.idle.unwrap().bytes_per_client().unwrap();
        assert!(bytes < 64.0 * 1024.0, "{visit:?}");
    }
    assert!(of("direct").all(|visit| visit.idle.unwrap().bytes_per_client().is_none()));
    assert!(run.targets[1].what.ends_with(", beside 200 idle clients"), "{:?}", run.targets);
}

#[test]
fn idle_clients_that_are_turned_away_end_the_run() {
    let _alone = alone();
    let mut few = TargetPlan { idle: 20, ..target("few", TargetKind::Respool) };
    few.options = vec!["--max-clients".to_owned(), "10".to_owned()];
    let mut plan = plan(vec![few], vec![test("SET", "one", load("SET {key} {value}", 1))]);
    plan.base = "few".to_owned();
    let text = bad(&plan, &options());
    assert!(text.contains("idle clients: ") && text.contains("max number of clients"), "{text}");
}

#[test]
fn haproxy_passes_bytes_on_where_it_is_installed() {
    let _alone = alone();
    let mut haproxy = target("haproxy", TargetKind::Haproxy);
    haproxy.optional = true;
    let targets = vec![target("direct", TargetKind::Direct), haproxy];
    let plan = plan(targets, vec![test("GET", "one", load("GET {key}", 1))]);
    let (run, _) = good(&plan, &options());
    if let Some(left_out) = run.left_out.first() {
        assert!(left_out.contains("apt-get install haproxy"), "{left_out}");
        return;
    }
    for visit in &run.tests[0].visits {
        assert_plausible(visit, visit.target == "haproxy");
    }
    assert!(
        run.targets[1].what.starts_with("haproxy 2.")
            || run.targets[1].what.starts_with("haproxy 3."),
        "{:?}",
        run.targets
    );
}

#[test]
fn endpoints_that_cannot_be_measured_are_named_before_the_run() {
    let _alone = alone();
    let mut server = RedisServer::start();
    let tests = || vec![test("SET", "one", load("SET {key} {value}", 1))];

    let gone = Command::new("true").spawn().map(|mut child| {
        child.wait().unwrap();
        child.id()
    });
    let gone = gone.unwrap();
    let text = bad(&plan(vec![external("it", &server, &[gone])], tests()), &Options::default());
    assert_eq!(text, format!("target `it`: there is no process {gone}"));

    let own = std::process::id();
    let text = bad(&plan(vec![external("it", &server, &[own])], tests()), &Options::default());
    assert_eq!(text, format!("target `it`: process {own} is this benchmark itself"));

    let locked = RedisServer::start_with(&["--requirepass", "secret"]);
    let text = bad(&plan(vec![external("it", &locked, &[])], tests()), &Options::default());
    assert!(text.contains("answers PING with an error: NOAUTH"), "{text}");

    let mut dead = external("it", &server, &[]);
    server.kill();
    let TargetKind::External(it) = &mut dead.kind else { panic!("made so above") };
    it.server_pids.clear();
    let text = bad(&plan(vec![dead], tests()), &Options::default());
    assert!(text.starts_with("target `it`: 127.0.0.1:"), "{text}");
    assert!(text.contains("does not answer PING"), "{text}");
}

#[test]
fn an_error_reply_ends_the_run_without_a_figure() {
    let _alone = alone();
    // PING is allowed, so only the load meets the error.
    let server = RedisServer::start();
    assert_eq!(server.connect().ask("ACL SETUSER default -set"), "+OK\r\n");
    let plan = plan(
        vec![external("it", &server, &[])],
        vec![test("SET", "one", load("SET {key} {value}", 1))],
    );
    let text = bad(&plan, &Options::default());
    assert!(text.starts_with("SET, it, round 1: the reply to `SET "), "{text}");
    assert!(text.contains("NOPERM"), "{text}");
}

#[test]
fn a_proxy_that_dies_is_named_with_its_last_words() {
    let _alone = alone();
    let mut long = load("SET {key} {value}", 1);
    long.stop = Stop::AfterMs(20_000);
    let plan = plan(
        vec![target("direct", TargetKind::Direct), target("twem", TargetKind::Nutcracker)],
        vec![test("short", "one", load("SET {key} {value}", 1)), test("long", "one", long)],
    );
    // Killed when it is visited the third time.
    let mut observer =
        Observer { kill: Some(("long".to_owned(), "nutcracker")), ..Observer::default() };
    let mut options = options();
    options.programs.clear();
    let mut shortened = plan.clone();
    shortened.tests[1].targets = vec!["twem".to_owned()];
    let begin = Instant::now();
    let error = run(&shortened, &options, &mut observer, &AtomicBool::new(false)).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("long, twem, round 1: "), "{text}");
    assert!(text.contains("twem (process "), "{text}");
    assert!(text.contains("has ended (signal: 9 (SIGKILL))"), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(15), "the visit is not waited for");
    assert_eq!(children(), []);
}

#[test]
fn a_program_that_does_not_come_up_is_told_with_its_output() {
    let _alone = alone();
    let script = "echo I cannot >&2; exit 4".to_owned();
    let words = vec!["sh".to_owned(), "-c".to_owned(), script];
    let plan = plan(
        vec![target("direct", TargetKind::Direct), target("sad", TargetKind::Command(words))],
        vec![test("SET", "one", load("SET {key} {value}", 1))],
    );
    let text = bad(&plan, &options());
    assert!(text.starts_with("SET, sad: sad (process "), "{text}");
    assert!(text.ends_with("has ended (exit status: 4):\nI cannot"), "{text}");
    assert_eq!(children(), []);
}

#[test]
fn a_missing_program_ends_the_run_unless_it_is_optional() {
    let _alone = alone();
    let mut missing = target("predixy", TargetKind::Predixy);
    let mut options = options();
    options.programs.push(("predixy".to_owned(), "/no/such/predixy".into()));
    let tests = || vec![test("SET", "one", load("SET {key} {value}", 1))];
    let direct = || target("direct", TargetKind::Direct);
    let text = bad(&plan(vec![direct(), missing.clone()], tests()), &options);
    assert_eq!(
        text,
        "target `predixy`: predixy: /no/such/predixy is no program that can be started"
    );
    missing.optional = true;
    let (run, observer) = good(&plan(vec![direct(), missing], tests()), &options);
    assert_eq!(visits(&run), ["direct 1", "direct 2"]);
    assert_eq!(run.left_out.len(), 1);
    assert_eq!(observer.notices, run.left_out);
    assert_eq!(observer.announced, 2);
}

#[test]
fn an_interrupt_ends_a_visit_and_all_that_was_started() {
    let _alone = alone();
    let mut long = load("SET {key} {value}", 1);
    long.stop = Stop::AfterMs(60_000);
    let plan =
        plan(vec![target("nutcracker", TargetKind::Nutcracker)], vec![test("SET", "one", long)]);
    let interrupted = AtomicBool::new(false);
    let begin = Instant::now();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            // As soon as the load has run for a second.
            testkit::wait::poll(Duration::from_secs(20), || (children().len() >= 2).then_some(()));
            std::thread::sleep(Duration::from_millis(500));
            interrupted.store(true, Ordering::Relaxed);
        });
        run(&plan, &options(), &mut Observer::default(), &interrupted)
    });
    assert_eq!(result.unwrap_err().to_string(), "interrupted");
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(children(), []);
}

/// The program itself, told to end by a signal while it visits; returns its output when it has ended.
fn signalled(signal: Signal) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("long.toml");
    let text = "about = \"Ended early.\"\nrounds = 1\nduration_s = 60\nbase = \"nutcracker\"\n\
                [[topology]]\nname = \"one\"\nkind = \"single\"\n[[target]]\nname = \"nutcracker\"\n\
                kind = \"nutcracker\"\n[[test]]\nname = \"SET\"\nrequest = \"SET {key} {value}\"\n";
    std::fs::write(&scenario, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_respool-bench"));
    command.arg("run").arg(&scenario).args(["--spawn", "--out"]).arg(folder.path().join("out"));
    // A program that is killed cannot remove its folder; so it goes with ours.
    command.env("TMPDIR", folder.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    // By the names one sees that setpriv has become them. A `nutcracker --version` comes before the server.
    let started = || {
        let children = plans::children_of(pid);
        let has = |name: &str| children.iter().any(|(_, child)| child == name);
        (has("nutcracker") && children.len() == 2).then_some(children)
    };
    let children = testkit::wait::poll(Duration::from_secs(30), started);
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
    let output = child.wait_with_output().unwrap();
    let children = children.unwrap_or_else(|| panic!("two children did not come: {output:?}"));
    testkit::wait::until_true("the end of its children", Duration::from_secs(10), || {
        children.iter().all(|&(pid, _)| bench::account::name_of(pid).is_none())
    });
    output
}

#[test]
fn the_program_ends_what_it_started_when_it_is_interrupted() {
    let _alone = alone();
    let output = signalled(Signal::INT);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("interrupted"), "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
}

#[test]
fn the_kernel_ends_what_was_started_when_the_program_is_killed() {
    let _alone = alone();
    // Part of util-linux, which every common distribution installs by default.
    assert!(Command::new("setpriv").arg("--version").output().is_ok(), "install util-linux");
    assert_eq!(signalled(Signal::KILL).status.signal(), Some(9));
}

#[test]
fn pins_bind_each_role_and_are_recorded() {
    let _alone = alone();
    let mut plan = plan(
        vec![target("nutcracker", TargetKind::Nutcracker)],
        vec![test("SET", "one", load("SET {key} {value}", 1))],
    );
    let core = plans::allowed_core();
    plan.pins.proxy = vec![core];
    plan.pins.server = vec![core];
    plan.pins.load = vec![core];
    let (run, observer) = good(&plan, &options());
    assert_eq!(
        run.machine.pinned,
        format!("proxy on core {core}, servers on core {core}, load on core {core}")
    );
    assert_eq!(observer.children.len(), 2);
    assert!(observer.cores.iter().all(|cores| *cores == core.to_string()), "{:?}", observer.cores);
    // One core for all: what was used fits into it.
    for visit in &run.tests[0].visits {
        let used = visit.proxy.cpu_s + visit.server.cpu_s + visit.load.cpu_s;
        assert!(used < visit.seconds * 1.2 + 0.1, "{visit:?}");
    }

    plan.pins.load = vec![70_000];
    let text = bad(&plan, &options());
    assert_eq!(text, "pins of the load: there is no core 70000");
}

#[test]
fn workers_are_passed_on() {
    let _alone = alone();
    let mut two = target("respool w=2", TargetKind::Respool);
    two.workers = 2;
    two.axis = Some(("workers".to_owned(), 2.0));
    let mut plan = plan(vec![two], vec![test("SET", "one", load("SET {key} {value}", 1))]);
    plan.base = "respool w=2".to_owned();
    plan.rounds = 1;
    assert!(respool().is_file());
    let (run, _) = good(&plan, &options());
    assert!(run.targets[0].what.contains(", 2 workers, before "), "{:?}", run.targets);
    assert_eq!(run.targets[0].axis, Some(("workers".to_owned(), 2.0)));
    assert_plausible(&run.tests[0].visits[0], true);
}
