//! What was measured: the run file (`run.json`), which every table, report and comparison is made from.
//!
//! Raw samples only, one per visit and one per second: medians, spreads and ratios are computed from them when they are
//! shown (`stats`), so that an old file can be read again by better arithmetic; [`TimesFloor`] is the exception, so that
//! scripts need no arithmetic for the figure that is looked at first. No secret gets in here: a target is
//! described by its name, program and version, never by its URL's password.
//!
//! Invariant: a [`Visit`] is only recorded when every reply of it was free of errors; a target that fails ends the run.

use serde::{Deserialize, Serialize};

/// Number of the file's form. A reader refuses a greater one.
pub const FORMAT: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// Version of `respool-bench`.
    pub bench_version: String,
    /// Name of the scenario.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// Where the published figures stand that it reproduces.
    pub source: Option<String>,
    /// The command line, without secrets.
    pub command: String,
    /// When it began, RFC 3339 in UTC.
    pub began: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Rounds asked for.
    pub rounds: u32,
    /// Name of the target that ratios are taken to.
    pub base: String,
    /// Where it ran.
    pub machine: Machine,
    /// Who was measured, in order of the visits.
    pub targets: Vec<Target>,
    /// What was measured, in order.
    pub tests: Vec<Test>,
    /// What each proxy costs as a multiple of the floor; empty without one. For scripts: reports compute it anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times_floor: Vec<TimesFloor>,
    /// Once a second, over all tests.
    pub timeline: Vec<Tick>,
    /// What a reader must know before believing a figure: each a whole sentence.
    pub warnings: Vec<String>,
    /// What was left out and why, each a whole sentence.
    pub left_out: Vec<String>,
}

/// Where a run took place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model name of the first CPU.
    pub cpu: String,
    /// Cores that are online.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Which cores each role was bound to, in words; empty: not bound.
    pub pinned: String,
}

/// One target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// What it is, in words: `respool 0.1.0, 1 worker`.
    pub what: String,
    /// The value of the axis that unfolded it: (`workers`, 2).
    pub axis: Option<(String, f64)>,
    /// Whether it is a floor, which only receives and answers: the first of a run is what proxies are multiples of.
    #[serde(default)]
    pub floor: bool,
}

/// The CPU per request of a target as a multiple of the floor's: medians of the ratios within each round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimesFloor {
    /// Name of the test.
    pub test: String,
    /// Name of the target.
    pub target: String,
    /// Name of the floor.
    pub floor: String,
    /// Of all of its CPU.
    pub cpu: f64,
    /// Of the user part; `None` where no clock tick told the parts apart.
    pub user: Option<f64>,
    /// Of the system part.
    pub system: Option<f64>,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Its name.
    pub name: String,
    /// The requests in words: `SET {key} {value}`.
    pub requests: String,
    /// Commands that one request stands for: 30 for `MGET {keys:30}` is still 1; a pipeline is no request.
    pub tool: String,
    /// In words: `closed`, `open, 10000/s`, `storm`, `slow reader, 1000000 B/s`.
    pub shape: String,
    /// Servers in words: `one server`, `3 shards`.
    pub topology: String,
    /// Numbers by name, for plots: `pipeline`, `clients`, `value_bytes`, `keys`, `nodes`.
    pub axes: Vec<(String, f64)>,
    /// Every visit, in the order they happened.
    pub visits: Vec<Visit>,
}

/// One visit of one target in one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Name of the target.
    pub target: String,
    /// Round, from 1.
    pub round: u32,
    /// Seconds after the begin of the run.
    pub began_s: f64,
    /// Length without the warm-up, in seconds.
    pub seconds: f64,
    /// Requests answered in that time.
    pub requests: u64,
    /// Requests whose reply was a null, when reads were among them.
    pub nulls: u64,
    /// Latency of them.
    pub latency: Latency,
    /// CPU of the proxy; zero for a server itself.
    pub proxy: Usage,
    /// CPU of all servers.
    pub server: Usage,
    /// CPU of the load.
    pub load: Usage,
    /// The idle clients beside the load, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// Threads of the load: when its CPU comes near to that many cores, it and not the target was the limit.
    pub load_threads: u32,
    /// Mean number of cores that strangers used meanwhile.
    pub other_cores: f64,
    /// Mean number of cores that the host took away (steal).
    pub stolen_cores: f64,
}

/// Clients that stayed connected and asked nothing, and what the proxy needed for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// How many.
    pub clients: u32,
    /// Resident memory of the proxy before the first of them: the least that was seen before any visit of the run, since a process may keep
    /// what it once had.
    pub rss_before_bytes: u64,
    /// When all of them stood and had each had one reply, before the load began.
    pub rss_bytes: u64,
}

impl Idle {
    /// Bytes for each of them; `None` where there was no proxy to be measured.
    #[must_use]
    pub fn bytes_per_client(&self) -> Option<f64> {
        let bytes = self.rss_bytes.saturating_sub(self.rss_before_bytes);
        (self.clients > 0 && self.rss_bytes > 0).then(|| bytes as f64 / f64::from(self.clients))
    }
}

/// Latencies in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Least.
    pub min_us: f64,
    /// Greatest.
    pub max_us: f64,
    /// (percentile, microseconds), ascending: at least 50, 90, 99, 99.9, 99.99 with the built-in generator.
    pub percentiles: Vec<(f64, f64)>,
}

impl Latency {
    /// The value at `percentile`, if the tool gave it.
    #[must_use]
    pub fn at(&self, percentile: f64) -> Option<f64> {
        self.percentiles.iter().find(|(p, _)| (p - percentile).abs() < 1e-9).map(|&(_, us)| us)
    }
}

/// What processes of one role used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds on a CPU, exact (the scheduler's count).
    pub cpu_s: f64,
    /// Seconds in user code (of `cpu_s`, split by the clock tick's samples).
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
    /// Times a thread gave its core up by itself.
    pub voluntary_switches: u64,
    /// Times the scheduler took it.
    pub involuntary_switches: u64,
    /// Greatest resident memory seen, in bytes.
    pub rss_bytes_max: u64,
}

/// What happened within about one second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Seconds after the begin of the run, at the end of the span.
    pub at_s: f64,
    /// Index of the test in [`Run::tests`].
    pub test: usize,
    /// Name of the target.
    pub target: String,
    /// Requests per second within the span; not known while an external tool makes the load.
    pub requests_per_s: Option<f64>,
    /// Cores of the proxy in use, user and system.
    pub proxy: Cores,
    /// Cores of all servers in use.
    pub server: Cores,
    /// Cores of the load in use.
    pub load: Cores,
}

/// Cores in use, as a fraction: 0.5 is half of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cores {
    /// In user code.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

impl Cores {
    /// Both parts.
    #[must_use]
    pub fn used(self) -> f64 {
        self.user + self.system
    }
}
