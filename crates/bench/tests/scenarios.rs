//! What scenario files may say, what is said about mistakes in them, and that the built-in ones are right.

use bench::plan::{
    Beside, Bound, Distribution, Figure, NetDriver, Pins, Plan, Question, Shape, Stop, TargetKind,
    TargetPlan, Tool, TopologyKind,
};
use bench::scenario::{BUILT_IN, Changes, built_in, limits, load};

#[path = "scenarios/many.rs"]
mod many;

/// The least that is a scenario.
const LEAST: &str = r#"
about = "x"
[[target]]
name = "direct"
[[test]]
request = "GET {key}"
"#;

fn good(text: &str) -> Plan {
    changed(text, &Changes::default())
}

#[track_caller]
fn changed(text: &str, changes: &Changes) -> Plan {
    load("a/file.toml", text, changes).unwrap_or_else(|problems| panic!("{problems}"))
}

/// All problems as text, a line each.
#[track_caller]
fn bad(text: &str) -> String {
    bad_with(text, &Changes::default())
}

#[track_caller]
fn bad_with(text: &str, changes: &Changes) -> String {
    load("file.toml", text, changes).expect_err("a file with mistakes was accepted").to_string()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.tests.iter().map(|test| test.name.as_str()).collect()
}

fn external(name: &str) -> TargetPlan {
    TargetPlan {
        name: name.to_owned(),
        kind: TargetKind::Direct,
        workers: 1,
        driver: None,
        options: Vec::new(),
        optional: false,
        topologies: Vec::new(),
        axis: None,
        beside: Vec::new(),
        idle: 0,
    }
}

#[test]
fn the_least_file_has_the_defaults_of_redis_benchmark() {
    let plan = good(LEAST);
    assert_eq!((plan.name.as_str(), plan.base.as_str(), plan.rounds), ("file", "direct", 3));
    assert_eq!(plan.topologies.len(), 1);
    let test = &plan.tests[0];
    assert_eq!((test.name.as_str(), test.topology.as_str()), ("GET", "one"));
    let load = &test.load;
    assert_eq!((load.tool, load.shape), (Tool::Builtin, Shape::Closed));
    assert_eq!((load.clients, load.pipeline, load.threads, load.value_bytes), (50, 1, 1, 3));
    assert_eq!((load.keys.bytes_min, load.keys.bytes_max, load.keys.hit_ratio), (16, 16, 1.0));
    assert_eq!(load.keys.distribution, Distribution::Uniform);
    assert_eq!((load.stop, load.warmup_ms, load.resp), (Stop::AfterMs(10_000), 1000, 2));
}

/// Every key that a file can have.
const EVERYTHING: &str = r#"
about = "everything"
source = "somewhere"
base = "d"
rounds = 7
pause_s = 0.25
requests = 5000
warmup_s = 0.1

[pin]
proxy = "0"
server = "1-2,5"
load = 3

[load]
threads = 2
hit_ratio = 0.5
resp = 3
seed = 9

[[topology]]
name = "alone"
kind = "single"

[[topology]]
name = "many"
kind = "cluster"
nodes = 6

[[target]]
name = "d"
kind = "direct"

[[target]]
name = "mine"
kind = "command"
program = ["proxy", "--port={port}", "{servers}", "{dir}", "{workers}"]
options = ["-v"]
optional = true
topologies = ["many"]
beside = [{ command = "INFO", every_ms = 500 }]

[[test]]
name = "reads and writes"
mix = [{ request = "GET {key}", weight = 9 }, { request = "SET {key} {value}", weight = 1 }]
shape = "open:1000"
clients = 8
pipeline = 4
keys = 100
key_bytes = "9-14"
value_bytes = "1KiB"
distribution = "zipf:0.99"
duration_s = 2
warmup_s = 0
topology = "many"
targets = ["mine"]

[[test]]
name = "slow"
request = "GET {key}"
shape = "slow-reader:1000"

[[limit]]
figure = "p99"
target = "mine"
of = "d"
tests = "slow"
at_most = 2
"#;

#[test]
fn every_key_arrives() {
    let plan = good(EVERYTHING);
    assert_eq!((plan.base.as_str(), plan.rounds, plan.pause_ms), ("d", 7, 250));
    assert_eq!(plan.source.as_deref(), Some("somewhere"));
    assert_eq!(plan.pins, Pins { proxy: vec![0], server: vec![1, 2, 5], load: vec![3] });
    assert_eq!((plan.topologies[1].kind, plan.topologies[1].nodes), (TopologyKind::Cluster, 6));
    let mine = &plan.targets[1];
    assert!(matches!(&mine.kind, TargetKind::Command(words) if words[1] == "--port={port}"));
    assert_eq!((mine.options[0].as_str(), mine.optional), ("-v", true));
    assert_eq!(mine.topologies, ["many"]);
    assert_eq!(
        mine.beside,
        [Beside { question: Question::Command("INFO".to_owned()), every_ms: 500 }]
    );
    let test = &plan.tests[0];
    assert_eq!((test.topology.as_str(), test.targets[0].as_str()), ("many", "mine"));
    let load = &test.load;
    assert_eq!(load.mix.iter().map(|(_, weight)| *weight).collect::<Vec<_>>(), [9, 1]);
    assert_eq!(load.shape, Shape::Open { rate: 1000.0 });
    assert_eq!((load.clients, load.pipeline, load.threads, load.resp), (8, 4, 2, 3));
    assert_eq!((load.keys.count, load.keys.bytes_min, load.keys.bytes_max), (100, 9, 14));
    assert_eq!((load.keys.hit_ratio, load.value_bytes, load.seed), (0.5, 1024, 9));
    assert_eq!((load.stop, load.warmup_ms), (Stop::AfterMs(2000), 0));
    // The second takes what stands at the top.
    let slow = &plan.tests[1].load;
    assert_eq!((slow.stop, slow.warmup_ms), (Stop::AfterRequests(5000), 100));
    assert_eq!(slow.shape, Shape::SlowReader { bytes_per_s: 1000 });
    assert_eq!((plan.limits[0].figure, plan.limits[0].bound), (Figure::P99, Bound::AtMost(2.0)));
}

#[test]
fn a_floor_and_a_respool_have_a_driver() {
    let kind = |text: &str| good(&least(TARGET, text)).targets[0].kind.clone();
    assert_eq!(kind("name = \"floor\"\n"), TargetKind::Floor(NetDriver::Epoll));
    let uring = "name = \"x\"\nkind = \"floor\"\ndriver = \"uring\"\n";
    assert_eq!(kind(uring), TargetKind::Floor(NetDriver::Uring));
    let driver = |text: &str| good(&least(TARGET, text)).targets[0].driver;
    assert_eq!(driver("name = \"respool\"\n"), None, "it chooses by itself");
    assert_eq!(driver("name = \"respool\"\ndriver = \"uring\"\n"), Some(NetDriver::Uring));
    assert_eq!(driver(uring), None, "a floor has it in its kind");
}

#[test]
fn lists_unfold_with_readable_names() {
    let plan = good(
        r#"
about = "x"
[[topology]]
name = "one"
kind = "single"
[[topology]]
name = "shards-3"
kind = "shards"
nodes = 3
[[target]]
name = "respool"
workers = [1, 2]
[[test]]
request = ["SET {key} {value}", "GET {key}"]
pipeline = [1, 20]
[[test]]
name = "sizes"
request = "GET {key}"
value_bytes = ["16B", 4096, "1MiB"]
[[test]]
name = "where"
request = "GET {key}"
clients = [1, 1000]
topology = ["one", "shards-3"]
[[test]]
request = "GET user:{key}"
name = "how"
shape = ["closed", "open:500", "storm", "slow-reader:10"]
[[test]]
name = "keys"
request = "GET {key}"
distribution = ["uniform", "zipf:1.2"]
hit_ratio = [0.5, 1]
[[limit]]
figure = "throughput"
target = "respool w=2"
of = "respool"
at_most = 3
"#,
    );
    let targets: Vec<_> = plan.targets.iter().map(|t| (t.name.as_str(), t.axis.clone())).collect();
    assert_eq!(
        targets,
        [
            ("respool w=1", Some(("workers".to_owned(), 1.0))),
            ("respool w=2", Some(("workers".to_owned(), 2.0)))
        ]
    );
    assert_eq!(
        names(&plan),
        [
            "SET P=1",
            "SET P=20",
            "GET P=1",
            "GET P=20",
            "sizes 16B",
            "sizes 4KiB",
            "sizes 1MiB",
            "where c=1 on one",
            "where c=1000 on one",
            "where c=1 on shards-3",
            "where c=1000 on shards-3",
            "how closed",
            "how open 500/s",
            "how storm",
            "how slow reader 10B/s",
            "keys uniform hit=0.5",
            "keys uniform hit=1",
            "keys zipf 1.2 hit=0.5",
            "keys zipf 1.2 hit=1",
        ]
    );
    // A family stands for its members, but none is compared with itself.
    let limits: Vec<_> = plan.limits.iter().map(|l| (&*l.target, l.of.as_deref())).collect();
    assert_eq!(limits, [("respool w=2", Some("respool w=1"))]);
}

#[test]
fn all_mistakes_come_at_once_with_their_places() {
    let text = r#"abuot = "x"
rounds = 0

[load]
clients = "many"
pipelin = 20

[[topology]]
name = "one"
kind = "alone"

[[target]]
name = "respol"

[[test]]
request = "GET {key}"
targets = ["respool"]
"#;
    assert_eq!(
        bad(text),
        "file.toml:1:1: abuot: unknown key; did you mean `about`?\n\
         file.toml:1:1: about: is missing: one sentence on what the scenario shows\n\
         file.toml:2:10: rounds: found 0; allowed: a whole number from 1 to 1000\n\
         file.toml:5:11: load.clients: found the string \"many\"; allowed: a whole number from 1 to 60000\n\
         file.toml:6:1: load.pipelin: unknown key; did you mean `pipeline`?\n\
         file.toml:10:8: topology[1].kind: found `alone`; allowed: single, shards, cluster\n\
         file.toml:12:1: target[1].kind: is missing: direct, respool, nutcracker, predixy, haproxy, floor or command \
         (it may only be left out when the name says it)\n\
         file.toml:17:12: test[1].targets: no target is called `respool`; there are: "
    );
}

#[test]
fn broken_toml_is_shown_with_its_line() {
    let message = bad("about = \"x\"\nrounds = = 3\n");
    assert!(message.starts_with("file.toml:2:10: not valid TOML: "), "{message}");
    assert!(message.contains("    2 | rounds = = 3\n      |          ^"), "{message}");
}

/// Adds to the least scenario, or replaces in it.
fn least(from: &str, to: &str) -> String {
    assert!(LEAST.contains(from), "{from}");
    LEAST.replace(from, to)
}

const TARGET: &str = "name = \"direct\"\n";
const REQUEST: &str = "request = \"GET {key}\"\n";

/// What is replaced in the least scenario, by what, and what is then said.
const MISTAKES: &[(&str, &str, &str)] = &[
    (REQUEST, "", "5:1: test[1].request: is missing: what is sent"),
    (
        REQUEST,
        "request = [\"GET {key}\", 5]\n",
        "test[1].request: found 5; allowed: a text such as",
    ),
    (REQUEST, "request = []\n", "test[1].request: the list is empty"),
    (REQUEST, "request = \"GET {kei}\"\n", "test[1].request: "),
    (REQUEST, "request = \"GET {key}\"\nmix = []\n", "test[1].mix: `request` and `mix` both say"),
    (REQUEST, "mix = [{ request = \"GET {key}\" }]\n", "test[1].mix[1].weight: is missing"),
    (REQUEST, "mix = [1]\n", "test[1].mix[1]: found 1; allowed: a table"),
    (
        REQUEST,
        "request = \"GET {key}\"\nshape = \"open\"\n",
        "test[1].shape: found `open`; allowed: \"closed\"",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\npipeline = [1, 2, 1]\n",
        "test[1].pipeline: stands here twice",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\npipeline = [1, 0]\n",
        "7:16: test[1].pipeline: found 0; allowed: a whole number from 1 to 10000",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\nduration_s = 1\nrequests = 5\n",
        "test[1].requests: `duration_s` and `requests` both end",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\nduration_s = 0.01\n",
        "allowed: a number of seconds from 0.05 to 86400",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\ntool = \"redis-benchmrk\"\n",
        "did you mean `redis-benchmark`?",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\ntool = \"redis-benchmark\"\nshape = \"storm\"\n",
        "redis-benchmark makes a closed load only; allowed here: builtin (test `GET`)",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\ntool = \"valkey-benchmark\"\nhit_ratio = 0.5\n",
        "valkey-benchmark knows no hit ratio",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\nkeys = 1000\nkey_bytes = 2\n",
        "test[1].keys: 1000 different keys do not fit into 2 bytes",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\ntopology = \"two\"\n",
        "test[1].topology: no topology is called `two`; there are: one",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\n[[test]]\nrequest = \"GET x\"\n",
        "two tests are called `GET`; give this one another `name`",
    ),
    (TARGET, "name = \"direct\"\nworkers = 2\n", "kind `direct` is the server itself"),
    (TARGET, "name = \"nutcracker\"\nworkers = 2\n", "nutcracker has one thread"),
    (TARGET, "name = \"respool\"\nprogram = \"x\"\n", "is for kind `command` only"),
    (TARGET, "name = \"x\"\nkind = \"command\"\n", "target[1].program: is missing"),
    (
        TARGET,
        "name = \"x\"\nkind = \"command\"\nprogram = [\"x\", \"{prot}\"]\n",
        "`{prot}` is unknown; allowed: {port}",
    ),
    (TARGET, "name = \"floor\"\nworkers = 2\n", "the floor has one thread and no options"),
    (TARGET, "name = \"floor\"\noptions = \"-v\"\n", "the floor has one thread and no options"),
    (TARGET, "name = \"floor\"\nprogram = \"x\"\n", "is for kind `command` only"),
    (TARGET, "name = \"respool\"\ndriver = \"auto\"\n", "found `auto`; allowed: epoll, uring"),
    (TARGET, "name = \"predixy\"\ndriver = \"uring\"\n", "is for kinds `floor` and `respool` only"),
    (TARGET, "name = \"floor\"\ndriver = \"kqueue\"\n", "found `kqueue`; allowed: epoll, uring"),
    (TARGET, "name = \"respool\"\nworkers = [1, 2, 2]\n", "two targets are called `respool w=2`"),
    (
        TARGET,
        "name = \"direct\"\ntopologies = [\"onee\"]\n",
        "no topology is called `onee`; did you mean `one`?",
    ),
    (
        TARGET,
        "name = \"direct\"\nbeside = [{ command = \"INFO\" }]\n",
        "target[1].beside[1].every_ms: is missing",
    ),
    (
        TARGET,
        "name = \"respool\"\nbeside = [{ command = \"INFO\", page = \"/metrics\", every_ms = 5 }]\n",
        "target[1].beside[1].page: stands beside `command`; give one of the two",
    ),
    (
        TARGET,
        "name = \"direct\"\nbeside = [{ page = \"/metrics\", every_ms = 5 }]\n",
        "target[1].beside: has a `page`, which only respool has",
    ),
    (TARGET, "name = \"a\\nb\"\n", "allowed: one line of at most 60 characters"),
    (
        "about = \"x\"\n",
        "about = \"x\"\nbase = \"direkt\"\n",
        "base: no target is called `direkt`; did you mean `direct`?",
    ),
    (
        "about = \"x\"\n",
        "about = \"x\"\npin.proxy = \"zero\"\n",
        "pin.proxy: found `zero`; allowed: numbers of CPUs",
    ),
    (
        "about = \"x\"\n",
        "about = \"x\"\nload = 3\n",
        "load: found 3; allowed: a table, written [load]",
    ),
    ("about = \"x\"\n", "about = \"x\"\n[short]\nonly = []\n", "short.only: the list is empty"),
    (
        "about = \"x\"\n",
        "about = \"x\"\n[[topology]]\nname = \"s\"\nkind = \"shards\"\n",
        "topology[1].nodes: is missing",
    ),
    (
        "about = \"x\"\n",
        "about = \"x\"\n[[topology]]\nname = \"s\"\nkind = \"single\"\nnodes = 2\n",
        "kind `single` is one server",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\n[[limit]]\nfigure = \"cpu\"\ntarget = \"direct\"\nof = \"direct\"\nat_most = 1\n",
        "limit[1].figure: found `cpu`; allowed: throughput",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\n[[limit]]\nfigure = \"p50\"\ntarget = \"direct\"\nof = \"direct\"\ntests = \"GTE\"\nat_most = 1\n",
        "limit[1].tests: no test is called `GTE`; did you mean `GET`?",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\n[[limit]]\nfigure = \"p50\"\ntarget = \"direct\"\n",
        "limit[1].at_most: is missing: the greatest ratio that is good (or `at_least`",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\n[[limit]]\nfigure = \"p50\"\ntarget = \"direct\"\nat_most = 1\nat_least = 1\n",
        "limit[1].at_least: stands beside `at_most`; give one of the two",
    ),
    (
        REQUEST,
        "request = \"GET {key}\"\n[[limit]]\nfigure = \"p50\"\ntarget = \"direct\"\nat_most = 1\nenough = 2\n",
        "limit[1].enough: is for a ratio; say `of` which target, or leave it out",
    ),
    (TARGET, "name = \"direct\"\nidle = 0\n", "target[1].idle: found 0; allowed: a whole number"),
];

#[test]
fn each_kind_of_mistake_has_its_message() {
    for (from, to, expected) in MISTAKES {
        let message = bad(&least(from, to));
        assert!(message.contains(expected), "{to}\n  gives: {message}\n  not:   {expected}");
        assert!(message.starts_with("file.toml:"), "a place is missing: {message}");
    }
}

#[test]
fn a_file_without_targets_or_tests_says_so() {
    assert_eq!(
        bad("about = \"x\"\n"),
        "file.toml: no [[target]]; at least one says what is measured\n\
         file.toml: no [[test]]; at least one says what is sent"
    );
}

#[test]
fn bounds_are_reached() {
    let many: Vec<String> = (1..=limits::TESTS_MAX).map(|n| n.to_string()).collect();
    let text = |list: &[String]| {
        let clients = list.join(", ");
        least(
            "request = \"GET {key}\"\n",
            &format!("request = \"GET {{key}}\"\nclients = [{clients}]\n"),
        )
    };
    assert_eq!(good(&text(&many)).tests.len(), limits::TESTS_MAX);
    let more = [many.as_slice(), &["9999".to_owned()]].concat();
    assert!(
        bad(&text(&more)).contains("the tests unfold into 201 with this one; allowed: at most 200")
    );

    let workers = |count: usize| {
        let workers: Vec<String> = (1..=count).map(|n| n.to_string()).collect();
        least(
            "name = \"direct\"\n",
            &format!("name = \"respool\"\nworkers = [{}]\n", workers.join(", ")),
        )
    };
    assert_eq!(good(&workers(limits::TARGETS_MAX)).targets.len(), limits::TARGETS_MAX);
    assert!(bad(&workers(limits::TARGETS_MAX + 1)).contains("unfold into 51; allowed: at most 50"));
}

const SHORTENED: &str = r#"
about = "x"
rounds = 5
duration_s = 10
warmup_s = 2
[short]
rounds = 1
duration_s = 0.5
warmup_s = 0.1
pause_s = 0
only = "GET"
[[topology]]
name = "one"
kind = "single"
[[topology]]
name = "two"
kind = "shards"
nodes = 2
[[target]]
name = "direct"
[[target]]
name = "respool"
workers = [1, 2]
[[test]]
request = ["SET {key} {value}", "GET {key}"]
[[test]]
name = "more workers"
request = "GET {key}"
targets = ["direct", "respool w=2"]
[[test]]
name = "sharded"
request = "GET {key}"
topology = "two"
[[limit]]
figure = "server_cpu"
target = "respool"
of = "direct"
tests = ["SET"]
at_most = 1
"#;

#[test]
fn short_is_the_files_and_flags_are_stronger() {
    let short = Changes { short: true, ..Changes::default() };
    let plan = changed(SHORTENED, &short);
    assert_eq!((plan.rounds, plan.pause_ms, names(&plan)), (1, 0, vec!["GET"]));
    assert_eq!((plan.tests[0].load.stop, plan.tests[0].load.warmup_ms), (Stop::AfterMs(500), 100));
    // The limit was for a test that is not run.
    assert!(plan.limits.is_empty());

    let both = Changes {
        rounds: Some(2),
        duration_s: Some(0.08),
        only: vec!["set".to_owned()],
        tool: Some(Tool::RedisBenchmark),
        pins: Some(Pins { proxy: vec![4], ..Pins::default() }),
        ..short
    };
    let plan = changed(SHORTENED, &both);
    assert_eq!((plan.rounds, names(&plan)), (2, vec!["SET"]));
    let load = &plan.tests[0].load;
    assert_eq!(
        (load.stop, load.warmup_ms, load.tool),
        (Stop::AfterMs(80), 80, Tool::RedisBenchmark)
    );
    assert_eq!(plan.pins.proxy, [4]);
    assert_eq!(plan.limits.len(), 2);
}

#[test]
fn given_targets_take_the_place_of_the_files() {
    let with = |names: &[&str]| {
        let targets = names.iter().map(|name| external(name)).collect();
        changed(SHORTENED, &Changes { targets, ..Changes::default() })
    };
    // Names that the file does not know: everything of the first topology, but no load twice.
    let plan = with(&["a", "b"]);
    assert_eq!((plan.base.as_str(), names(&plan)), ("a", vec!["SET", "GET"]));
    assert!(plan.tests.iter().all(|test| test.targets.is_empty()));
    // Names that it knows keep its meaning.
    let plan = with(&["respool w=2", "direct"]);
    assert_eq!((plan.base.as_str(), names(&plan)), ("direct", vec!["SET", "GET"]));
    assert_eq!(plan.topologies.len(), 1);
    assert_eq!(plan.limits.len(), 2);
}

#[test]
fn some_targets_can_be_visited_alone() {
    let with = |names: &[&str]| Changes {
        visit: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Changes::default()
    };
    let plan = changed(SHORTENED, &with(&["respool"]));
    assert_eq!((plan.base.as_str(), plan.targets.len()), ("respool w=1", 2));
    assert_eq!(names(&plan), ["SET", "GET", "more workers", "sharded"]);
    assert_eq!(plan.tests[2].targets, ["respool w=2"]);
    let plan = changed(SHORTENED, &with(&["respool w=1"]));
    assert_eq!(names(&plan), ["SET", "GET", "sharded"]);
    assert_eq!(
        bad_with(SHORTENED, &with(&["predixy"])),
        "--visit: no target is called `predixy`; there are: direct, respool w=1, respool w=2"
    );
    let text = least(
        "request = \"GET {key}\"\n",
        "request = \"GET {key}\"\ntargets = \"direct\"\n[[target]]\nname = \"predixy\"\n",
    );
    assert_eq!(
        bad_with(&text, &with(&["predixy"])),
        "--visit: no test of this scenario is for these targets"
    );
}

#[test]
fn flags_that_leave_nothing_are_refused() {
    let only = Changes { only: vec!["HGET".to_owned()], ..Changes::default() };
    assert_eq!(
        bad_with(SHORTENED, &only),
        "--only: no test's name contains `HGET`; there are: SET, GET, more workers, sharded"
    );
    let zero = Changes { rounds: Some(0), duration_s: Some(0.0), ..Changes::default() };
    assert_eq!(
        bad_with(SHORTENED, &zero),
        "--rounds: found 0; allowed: at least 1\n\
         --duration-s: found 0; allowed: seconds from 0.05 to 86400"
    );
    let text = least("request = \"GET {key}\"\n", "request = \"GET {key}\"\nshape = \"storm\"\n");
    let tool = Changes { tool: Some(Tool::RedisBenchmark), ..Changes::default() };
    assert_eq!(
        bad_with(&text, &tool),
        "--tool: test `GET`: redis-benchmark makes a closed load only; allowed here: builtin; \
         leave such tests out with --only"
    );
}

#[test]
fn built_in_scenarios_are_the_files_of_the_repository() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/scenarios");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let embedded: Vec<String> = BUILT_IN.iter().map(|(name, _)| format!("{name}.toml")).collect();
    assert_eq!(files, embedded);
}

/// Name, tests, targets, visits of one round when every program is there and serves every topology.
const EXPECTED: &[(&str, usize, usize, usize)] = &[
    ("camellia-4", 12, 4, 48),
    ("camellia-cluster", 8, 2, 16),
    ("churn", 1, 6, 6),
    ("cost", 4, 6, 24),
    ("idle", 2, 4, 8),
    ("large", 6, 4, 24),
    ("monitoring-cost", 4, 8, 32),
    ("near-cache", 2, 3, 6),
    ("pipeline-ladder", 6, 6, 36),
    ("predixy-8", 6, 8, 30),
    ("scale", 13, 8, 60),
    ("server-cost", 4, 4, 16),
    ("sweep", 128, 2, 256),
];

#[test]
fn built_in_scenarios_unfold_as_expected() {
    for short in [false, true] {
        let changes = Changes { short, ..Changes::default() };
        let mut seen = Vec::new();
        for (name, text) in BUILT_IN {
            let plan = load(name, text, &changes).unwrap_or_else(|problems| panic!("{problems}"));
            let each = |targets: &Vec<String>| match targets.len() {
                0 => plan.targets.len(),
                some => some,
            };
            let visits = plan.tests.iter().map(|test| each(&test.targets)).sum();
            assert_eq!(plan.name, *name);
            seen.push((*name, plan.tests.len(), plan.targets.len(), visits));
        }
        assert_eq!(seen, EXPECTED);
    }
}

#[test]
fn built_in_scenarios_say_what_the_field_measured() {
    let plan = |name| good(built_in(name).unwrap());
    let ladder = plan("pipeline-ladder");
    let depths: Vec<u32> = ladder.tests.iter().map(|test| test.load.pipeline).collect();
    assert_eq!(depths, [1, 2, 3, 50, 100, 200]);

    let predixy = plan("predixy-8");
    assert_eq!(names(&predixy)[..4], ["SET P=1", "SET P=20", "GET P=1", "GET P=20"]);
    assert!(
        predixy.tests.iter().all(|test| test.load.clients == 50 && test.load.keys.count == 3000)
    );

    let camellia = plan("camellia-4");
    let nodes: Vec<u32> = camellia.topologies.iter().map(|topology| topology.nodes).collect();
    assert_eq!(nodes, [1, 3, 15]);
    let load = &camellia.tests[0].load;
    assert_eq!((load.keys.count, load.keys.bytes_min, load.keys.bytes_max), (10_000, 9, 14));
    assert_eq!((load.clients, load.value_bytes), (50, 30));

    let scale = plan("scale");
    let clients: Vec<u32> = scale
        .tests
        .iter()
        .filter(|test| test.name.contains("c="))
        .map(|t| t.load.clients)
        .collect();
    assert_eq!(clients, [1, 10, 50, 200, 1000, 10_000]);

    let cost = plan("cost");
    assert_eq!(cost.limits.len(), 11);
    assert_eq!(cost.pins, Pins { proxy: vec![0], server: vec![1], load: vec![1] });
    assert!(cost.tests.iter().all(|test| test.load.tool == Tool::RedisBenchmark));

    // What costs CPU is set against the floor on both drivers; only one of them is there everywhere.
    for name in ["cost", "pipeline-ladder", "predixy-8"] {
        let plan = plan(name);
        let floors: Vec<_> = plan
            .targets
            .iter()
            .filter_map(|target| match target.kind {
                TargetKind::Floor(driver) => Some((driver, target.optional)),
                _ => None,
            })
            .collect();
        assert_eq!(floors, [(NetDriver::Epoll, false), (NetDriver::Uring, true)], "{name}");
    }

    let server_cost = plan("server-cost");
    assert_eq!((server_cost.limits.len(), &server_cost.pins), (5, &Pins::default()));
    assert_eq!(server_cost.limits[0].bound, Bound::AtMost(0.30));
}

#[test]
fn names_of_scenarios_are_suggested() {
    assert_eq!(
        built_in("predixi-8").unwrap_err(),
        "no scenario is called `predixi-8`; did you mean `predixy-8`?"
    );
    let message = built_in("redis").unwrap_err();
    assert!(
        message.starts_with("no scenario is called `redis`; there are: camellia-4, "),
        "{message}"
    );
}

#[test]
fn the_example_in_the_documentation_is_a_scenario() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/bench-scenarios.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, block) = page.split_once("```toml\n").expect("an example");
    let (block, _) = block.split_once("```").expect("its end");
    let plan = bench::scenario::load("example", block, &Changes::default()).unwrap();
    assert!(plan.tests.len() > 1, "{:?}", plan.tests);
}
