//! Small plans, an observer of runs, and a look at what this process has started.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::built::respool;
use bench::plan::{
    Distribution, External, KeyPlan, LoadPlan, Pins, Plan, Shape, Stop, TargetKind, TargetPlan,
    TestPlan, Tool, Topology, TopologyKind,
};
use bench::record::{Run, Tick, Visit};
use bench::run::{Options, Watch};
use bench::template::Template;
use rustix::process::{Pid, Signal, kill_process};
use testkit::RedisServer;

/// One run at a time: the load's CPU is that of this process, and so are its children.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed says nothing about the next one.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closed loop, 8 clients, 300 ms, 1000 keys.
pub(crate) fn load(request: &str, pipeline: u32) -> LoadPlan {
    LoadPlan {
        tool: Tool::Builtin,
        shape: Shape::Closed,
        mix: vec![(Template::parse(request).unwrap(), 1)],
        clients: 8,
        pipeline,
        threads: 1,
        keys: KeyPlan {
            count: 1000,
            distribution: Distribution::Uniform,
            bytes_min: 16,
            bytes_max: 16,
            hit_ratio: 1.0,
        },
        value_bytes: 3,
        resp: 2,
        stop: Stop::AfterMs(300),
        warmup_ms: 0,
        seed: 1,
    }
}

pub(crate) fn test(name: &str, topology: &str, load: LoadPlan) -> TestPlan {
    TestPlan { name: name.to_owned(), topology: topology.to_owned(), targets: Vec::new(), load }
}

pub(crate) fn topology(name: &str, kind: TopologyKind, nodes: u32) -> Topology {
    Topology { name: name.to_owned(), kind, nodes }
}

pub(crate) fn target(name: &str, kind: TargetKind) -> TargetPlan {
    TargetPlan {
        name: name.to_owned(),
        kind,
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

/// A server that runs already, with the ids of proxies that are claimed to stand before it.
pub(crate) fn external(name: &str, server: &RedisServer, proxy_pids: &[u32]) -> TargetPlan {
    let url = config::UpstreamUrl::parse(&server.endpoint().url()).unwrap();
    let external = External {
        url,
        tls: false,
        proxy_pids: proxy_pids.to_vec(),
        server_pids: vec![server.process().pid()],
    };
    target(name, TargetKind::External(Box::new(external)))
}

/// Two rounds, one server called `one`, no pins.
pub(crate) fn plan(targets: Vec<TargetPlan>, tests: Vec<TestPlan>) -> Plan {
    Plan {
        name: "test".to_owned(),
        about: "A plan of a test.".to_owned(),
        source: None,
        rounds: 2,
        pause_ms: 10,
        base: "direct".to_owned(),
        topologies: vec![topology("one", TopologyKind::Single, 1)],
        targets,
        tests,
        limits: Vec::new(),
        pins: Pins::default(),
    }
}

/// With what is built here.
pub(crate) fn options() -> Options {
    Options {
        spawn: true,
        programs: vec![("respool".to_owned(), respool())],
        command: "respool-bench test".to_owned(),
        ..Options::default()
    }
}

/// `target round` of each visit of the first test.
pub(crate) fn visits(run: &Run) -> Vec<String> {
    run.tests[0].visits.iter().map(|visit| format!("{} {}", visit.target, visit.round)).collect()
}

/// A core that this process may use.
pub(crate) fn allowed_core() -> u32 {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..1024).find(|&core| allowed.is_set(core as usize)).unwrap()
}

/// Processes whose parent is this one, zombies too: (id, name).
pub(crate) fn children() -> Vec<(u32, String)> {
    children_of(std::process::id())
}

/// Processes whose parent is this one.
pub(crate) fn children_of(parent: u32) -> Vec<(u32, String)> {
    let wanted = parent.to_string();
    let stat = |path: PathBuf| std::fs::read_to_string(path.join("stat")).ok();
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(|entry| stat(entry.ok()?.path()));
    let child = |stat: String| {
        let (head, tail) = stat.rsplit_once(')')?;
        let (pid, name) = head.split_once(" (")?;
        let parent = tail.split_ascii_whitespace().nth(1)?;
        (parent == wanted).then(|| (pid.parse().unwrap_or(0), name.to_owned()))
    };
    entries.filter_map(child).collect()
}

/// Counts what it is told, and notes what runs at the end of each visit.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub(crate) announced: usize,
    pub(crate) begun: usize,
    pub(crate) ended: usize,
    pub(crate) ticks: usize,
    pub(crate) notices: Vec<String>,
    /// All children seen.
    pub(crate) children: BTreeSet<(u32, String)>,
    /// Cores that they may use, in the kernel's words.
    pub(crate) cores: Vec<String>,
    /// In this test, at the first tick, kill the child of this name.
    pub(crate) kill: Option<(String, &'static str)>,
    /// That is visited now.
    pub(crate) test: String,
}

impl Watch for Observer {
    fn begins(&mut self, visits: usize) {
        self.announced = visits;
    }

    fn prepares(&mut self, _what: &str) {}

    fn visit_begins(&mut self, test: &str, _target: &str, _round: u32, _seconds: Option<f64>) {
        self.begun += 1;
        self.test = test.to_owned();
    }

    fn tick(&mut self, _tick: &Tick) {
        self.ticks += 1;
        let Some((_, victim)) = self.kill.take_if(|(test, _)| *test == self.test) else { return };
        for (pid, name) in children() {
            if name == victim {
                let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
                kill_process(pid, Signal::KILL).unwrap();
            }
        }
    }

    fn visit_ends(&mut self, _visit: &Visit) {
        self.ended += 1;
        for (pid, name) in children() {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            self.cores.extend(cores.map(|cores| cores.trim().to_owned()));
            self.children.insert((pid, name));
        }
    }

    fn notice(&mut self, text: &str) {
        self.notices.push(text.to_owned());
    }
}
