//! What is to be measured: a scenario after it was read, checked and unfolded.
//!
//! These types are what the parts of the tool agree on. `scenario` makes them from TOML, `target` starts what they
//! name, `load` drives a [`LoadPlan`], `run` visits every target in turn. They hold no sockets and no text of a file,
//! and nothing here is written into a report (that is `record`).
//!
//! Invariant: a plan satisfies every rule that `scenario` checks: names are unique, each `topology` that a test names
//! exists, weights, counts and durations are not 0.

use crate::template::Template;

/// Everything of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Short name: `predixy-8`.
    pub name: String,
    /// What it shows, one or two sentences for the report.
    pub about: String,
    /// Where the published figures stand that it reproduces, if it does.
    pub source: Option<String>,
    /// How often every target is visited in each test, in turn: A B C A B C. At least 1.
    pub rounds: u32,
    /// Pause before each visit, so that the sockets and the heat of the one before are gone, in milliseconds.
    pub pause_ms: u64,
    /// The target that ratios are taken to. It is one of `targets`.
    pub base: String,
    /// Servers to start with `--spawn`.
    pub topologies: Vec<Topology>,
    /// Endpoints to visit.
    pub targets: Vec<TargetPlan>,
    /// What is done to each of them.
    pub tests: Vec<TestPlan>,
    /// Aims, judged with `--check`.
    pub limits: Vec<Limit>,
    /// Which cores each role may use; empty: the scheduler decides.
    pub pins: Pins,
}

/// Servers behind the targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Name that tests use: `one`, `shards-3`.
    pub name: String,
    /// How the servers belong together.
    pub kind: TopologyKind,
    /// Number of servers (of a cluster: of primaries). At least 1.
    pub nodes: u32,
}

/// How several servers belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyKind {
    /// One server.
    Single,
    /// Servers that know nothing of each other; the proxy spreads keys over them.
    Shards,
    /// A Redis Cluster of primaries without replicas.
    Cluster,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetPlan {
    /// Name in tables: `direct`, `respool`, `respool w=2`.
    pub name: String,
    /// What stands behind the name.
    pub kind: TargetKind,
    /// Worker threads it is started with. At least 1.
    pub workers: u32,
    /// What a respool waits and sends with; `None`: what it takes by itself.
    pub driver: Option<NetDriver>,
    /// More command line arguments for the program.
    pub options: Vec<String>,
    /// Left out with a notice when its program is not on this machine, instead of ending the run.
    pub optional: bool,
    /// Topologies (by name) it is visited with; empty: every one that its kind can serve.
    pub topologies: Vec<String>,
    /// The value of the axis that unfolded it, for plots: (`workers`, 2).
    pub axis: Option<(String, f64)>,
    /// What is asked beside the load, as a monitoring system would.
    pub beside: Vec<Beside>,
    /// Clients that stay connected during each visit and ask nothing.
    pub idle: u32,
}

/// A question that is repeated beside the load while a target is visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Which.
    pub question: Question,
    /// Milliseconds between two of them; at least 1.
    pub every_ms: u64,
}

/// What is asked beside the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Inline command: `INFO`.
    Command(String),
    /// A path of respool's admin listener: `/metrics`. It is started with one then.
    Page(String),
}

impl std::fmt::Display for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(command) => f.write_str(command),
            Self::Page(path) => write!(f, "GET {path}"),
        }
    }
}

impl TargetPlan {
    /// Whether its admin listener is asked for something.
    #[must_use]
    pub fn wants_admin(&self) -> bool {
        self.beside.iter().any(|beside| matches!(beside.question, Question::Page(_)))
    }
}

/// What a floor or a respool waits and sends with: the drivers that respool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetDriver {
    /// Level-triggered epoll.
    Epoll,
    /// io_uring, which not every system allows.
    Uring,
}

impl NetDriver {
    /// As scenarios and command lines write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Uring => "uring",
        }
    }
}

/// What a target is, and so how it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// The server itself. Serves `single` only: the load knows nothing of clusters.
    Direct,
    /// This project's proxy.
    Respool,
    /// twemproxy.
    Nutcracker,
    /// predixy.
    Predixy,
    /// HAProxy in TCP mode, which passes bytes on and knows nothing of requests: each client has a connection to the server of its own.
    Haproxy,
    /// What only receives and answers: the lower bound of every proxy.
    Floor(NetDriver),
    /// Any other program. In each argument `{port}`, `{workers}`, `{servers}` (host:port, joined by commas) and `{dir}` are replaced.
    Command(Vec<String>),
    /// Runs already, was named with `--target`.
    External(Box<External>),
}

/// An endpoint that somebody else started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Where it is and how to log in.
    pub url: config::UpstreamUrl,
    /// Whether the load speaks TLS to it.
    pub tls: bool,
    /// Process ids of the proxy; empty when the target is a server itself.
    pub proxy_pids: Vec<u32>,
    /// Process ids of the servers behind it (of the server itself).
    pub server_pids: Vec<u32>,
}

/// One test: a load, and what it runs against.
#[derive(Clone, Debug, PartialEq)]
pub struct TestPlan {
    /// Name in tables: `SET P=20`.
    pub name: String,
    /// Which [`Topology`].
    pub topology: String,
    /// Targets (by name) it is for; empty: all.
    pub targets: Vec<String>,
    /// The load.
    pub load: LoadPlan,
}

/// What one visit does to one target.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPlan {
    /// Who makes the load.
    pub tool: Tool,
    /// In which manner requests follow each other.
    pub shape: Shape,
    /// Requests and their weights. Not empty. With [`Tool::RedisBenchmark`] exactly one.
    pub mix: Vec<(Template, u32)>,
    /// Connections. At least 1.
    pub clients: u32,
    /// Requests in flight on each connection at most. At least 1.
    pub pipeline: u32,
    /// Threads of the generator. At least 1.
    pub threads: u32,
    /// Which keys.
    pub keys: KeyPlan,
    /// Bytes of a `{value}`.
    pub value_bytes: u32,
    /// Protocol of the connections: 2 or 3.
    pub resp: u8,
    /// When it ends.
    pub stop: Stop,
    /// Time at the beginning whose requests count nowhere, in milliseconds.
    pub warmup_ms: u64,
    /// Seed of everything that is random in it.
    pub seed: u64,
}

/// Who makes the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The generator of this crate.
    Builtin,
    /// `redis-benchmark` from PATH.
    RedisBenchmark,
    /// `valkey-benchmark` from PATH.
    ValkeyBenchmark,
}

/// In which manner requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Each connection keeps `pipeline` requests in flight: a reply lets the next one go.
    Closed,
    /// A fixed number of requests per second over all connections, sent when they are due whatever the replies do.
    /// Latency counts from the time a request was due, so that a stall of the target counts for all it delayed.
    Open {
        /// Requests per second over all connections.
        rate: f64,
    },
    /// Each connection: connect, one request, its reply, close; `clients` of them at a time.
    Storm,
    /// Closed, but each connection reads at most so fast.
    SlowReader {
        /// Bytes per second and connection.
        bytes_per_s: u64,
    },
}

/// Which keys requests name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyPlan {
    /// How many different ones. At least 1.
    pub count: u64,
    /// How they are chosen.
    pub distribution: Distribution,
    /// Shortest key in bytes. Key number n has a fixed length between the two.
    pub bytes_min: u32,
    /// Longest key in bytes.
    pub bytes_max: u32,
    /// Share of the keys read that exist, 0 to 1. They are written before the first visit; a key that does not exist is
    /// drawn from a range of its own.
    pub hit_ratio: f64,
}

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Each as likely as any other.
    Uniform,
    /// Key number n with a probability proportional to n^-exponent.
    Zipf {
        /// Greater than 0; 0.99 is that of YCSB.
        exponent: f64,
    },
    /// One after the other, over all connections.
    Sequential,
}

/// When a visit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After so many milliseconds (without the warm-up).
    AfterMs(u64),
    /// After so many requests (with the warm-up).
    AfterRequests(u64),
}

/// An aim: a ratio, or a figure, that must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// What is compared.
    pub figure: Figure,
    /// The target that is judged.
    pub target: String,
    /// The target it is compared with. Skipped with a notice when that one was left out. `None`: the figure itself is judged, in its own
    /// unit.
    pub of: Option<String>,
    /// Tests (by name) it holds for; empty: all.
    pub tests: Vec<String>,
    /// The test whose figure of `of` is taken, if it is another one than the judged.
    pub of_test: Option<String>,
    /// Of the median of the ratios within each round; of two tests, of the ratio of their medians; without `of`, of the median.
    pub bound: Bound,
    /// A figure that is good whatever the ratio says, in its own unit.
    pub enough: Option<f64>,
}

/// What is good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// So much or less.
    AtMost(f64),
    /// So much or more.
    AtLeast(f64),
}

impl Bound {
    /// Whether a value is good.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        self.holds_for(value, self.value())
    }

    /// Whether a value is good on this side of another one.
    #[must_use]
    pub fn holds_for(self, value: f64, bound: f64) -> bool {
        match self {
            Self::AtMost(_) => value <= bound,
            Self::AtLeast(_) => value >= bound,
        }
    }

    /// The bound itself.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::AtMost(value) | Self::AtLeast(value) => value,
        }
    }

    /// `at most` or `at least`.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::AtMost(_) => "at most",
            Self::AtLeast(_) => "at least",
        }
    }
}

/// A figure that can be compared. Lower is better for all but `Throughput`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Requests per second.
    Throughput,
    /// CPU of the proxy per request, in microseconds.
    ProxyCpu,
    /// Its user part.
    ProxyUser,
    /// Its system part.
    ProxySystem,
    /// CPU of all servers per request, in microseconds.
    ServerCpu,
    /// Its user part.
    ServerUser,
    /// Its system part.
    ServerSystem,
    /// Median latency in microseconds.
    P50,
    /// 99th percentile of the latency in microseconds.
    P99,
    /// 99.9th percentile of the latency in microseconds.
    P999,
    /// Greatest resident memory of the proxy within a visit, in MiB.
    ProxyRss,
    /// Resident memory of the proxy that an idle client takes, in KiB.
    IdleRss,
}

/// Cores per role, as the numbers of CPUs. Empty: not pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Of each proxy (one is visited at a time).
    pub proxy: Vec<u32>,
    /// Of all servers.
    pub server: Vec<u32>,
    /// Of the load.
    pub load: Vec<u32>,
}
