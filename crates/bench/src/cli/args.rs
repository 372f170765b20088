//! What can be written on the command line, with its help texts.
//!
//! Values with a form of their own (targets, CPUs, distributions) arrive as text and are read by the functions that
//! scenarios use, so that both take the same forms and complain in the same words.
//!
//! Invariant: a number that clap accepts is within the bounds of `scenario::limits`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{ArgGroup, Parser, Subcommand};

use crate::plan::{NetDriver, Tool};
use crate::scenario::{limits, values};

/// Measures proxies for Redis the way the field does: throughput, latency, and the CPU of proxy and server.
#[derive(Debug, Parser)]
#[command(name = "respool-bench", version, max_term_width = 110)]
pub(super) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a scenario, and write a report
    Run(Box<RunArgs>),
    /// Run one load against endpoints, without a scenario
    Load(Box<LoadArgs>),
    /// Answer requests and do nothing else: the lower bound that proxies are compared with
    Floor(FloorArgs),
    /// List the built-in scenarios
    List,
    /// Show what a scenario does: its targets, tests and how long they take
    Show(ShowArgs),
    /// Show the file of a run again, as a table or as documents
    Report(ReportArgs),
    /// Say what got better or worse between two runs, beyond the noise
    Compare(CompareArgs),
}

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(super) struct RunArgs {
    /// Name of a built-in scenario (see `list`), or path of a .toml file
    pub(super) scenario: String,

    /// Start the scenario's servers and proxies on this machine, and stop them at the end
    #[arg(long, conflicts_with = "target")]
    pub(super) spawn: bool,

    /// Use the short form of the scenario: seconds instead of minutes
    #[arg(long)]
    pub(super) short: bool,

    /// Visits of each target in each test
    #[arg(long, value_name = "N", value_parser = number::<u32>(1, limits::ROUNDS_MAX))]
    pub(super) rounds: Option<u32>,

    /// Length of each visit in seconds
    #[arg(long, value_name = "S")]
    pub(super) duration_s: Option<f64>,

    /// Only tests whose name contains one of these texts
    #[arg(long, value_name = "TEXT", num_args = 1..)]
    pub(super) only: Vec<String>,

    /// Only these targets of the scenario
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "target")]
    pub(super) visit: Vec<String>,

    /// What makes the load: builtin, redis-benchmark or valkey-benchmark
    #[arg(long, value_parser = values::tool)]
    pub(super) tool: Option<Tool>,

    /// Program of respool, instead of the one beside this program or on PATH
    #[arg(long, value_name = "PATH")]
    pub(super) respool: Option<PathBuf>,

    /// Program of predixy, instead of the one on PATH
    #[arg(long, value_name = "PATH")]
    pub(super) predixy: Option<PathBuf>,

    /// Program of nutcracker, instead of the one on PATH
    #[arg(long, value_name = "PATH")]
    pub(super) nutcracker: Option<PathBuf>,

    /// Program of haproxy, instead of the one on PATH
    #[arg(long, value_name = "PATH")]
    pub(super) haproxy: Option<PathBuf>,

    /// Endpoints that run already
    #[command(flatten)]
    pub(super) endpoints: Endpoints,

    /// Where processes run
    #[command(flatten)]
    pub(super) pinning: Pinning,

    /// Where results go
    #[command(flatten)]
    pub(super) output: Output,

    /// Judge the scenario's limits; a missed one ends with exit code 1
    #[arg(long)]
    pub(super) check: bool,
}

/// Arguments of `load`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = LOAD_EXAMPLES,
    group = ArgGroup::new("form").args(["rate", "storm", "slow_reader"]),
    group = ArgGroup::new("end").args(["duration_s", "requests"]),
    group = ArgGroup::new("chosen").args(["zipf", "sequential"]),
)]
pub(super) struct LoadArgs {
    /// Endpoints
    #[command(flatten)]
    pub(super) endpoints: Endpoints,

    /// What is sent, with the places {key} {value} {keys:N} {pairs:N} {number}; several make a mix. Keys that are read
    /// are written first
    #[arg(long, value_name = "REQUEST", default_value = "GET {key}")]
    pub(super) request: Vec<String>,

    /// How often each --request is sent, compared with the others: as many as there are requests, in their order
    #[arg(long, value_name = "N", value_parser = number::<u32>(1, limits::WEIGHT_MAX))]
    pub(super) weight: Vec<u32>,

    /// Connections
    #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = number::<u32>(1, limits::CLIENTS_MAX))]
    pub(super) clients: u32,

    /// Requests in flight on each connection
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1, limits::PIPELINE_MAX))]
    pub(super) pipeline: u32,

    /// Threads of the load
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1, limits::THREADS_MAX))]
    pub(super) threads: u32,

    /// Send so many requests per second, whatever the replies do; latency counts from when a request was due
    #[arg(long, value_name = "PER_S")]
    pub(super) rate: Option<f64>,

    /// Each connection: connect, one request, its reply, close
    #[arg(long)]
    pub(super) storm: bool,

    /// Each connection reads at most so many bytes per second
    #[arg(long, value_name = "BYTES_PER_S")]
    pub(super) slow_reader: Option<u64>,

    /// Length of a visit in seconds [default: 5]
    #[arg(long, value_name = "S")]
    pub(super) duration_s: Option<f64>,

    /// End a visit after so many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<u64>(1, limits::REQUESTS_MAX))]
    pub(super) requests: Option<u64>,

    /// Seconds at the beginning that do not count
    #[arg(long, value_name = "S", default_value_t = 0.5)]
    pub(super) warmup_s: f64,

    /// Visits of each target, in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1, limits::ROUNDS_MAX))]
    pub(super) rounds: u32,

    /// Different keys
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number::<u64>(1, limits::KEYS_MAX))]
    pub(super) keys: u64,

    /// Length of keys in bytes, or a range such as 9-14
    #[arg(long, value_name = "N", default_value = "16", value_parser = values::key_bytes)]
    pub(super) key_bytes: (u32, u32),

    /// Length of a {value}: 100, 16B, 4KiB, 1MiB
    #[arg(short = 'd', long, value_name = "SIZE", default_value = "3", value_parser = values::value_bytes)]
    pub(super) value_bytes: u32,

    /// Choose keys by Zipf's law with this exponent (0.99 is that of YCSB) instead of uniformly
    #[arg(long, value_name = "EXPONENT")]
    pub(super) zipf: Option<f64>,

    /// Choose keys one after the other
    #[arg(long)]
    pub(super) sequential: bool,

    /// Share of the keys read that exist
    #[arg(long, value_name = "0..1", default_value_t = 1.0)]
    pub(super) hit_ratio: f64,

    /// Protocol of the connections: 2 or 3
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number::<u8>(2, 3))]
    pub(super) resp: u8,

    /// Seed of everything that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// What makes the load: builtin, redis-benchmark or valkey-benchmark
    #[arg(long, default_value = "builtin", value_parser = values::tool)]
    pub(super) tool: Tool,

    /// Where processes run
    #[command(flatten)]
    pub(super) pinning: Pinning,

    /// Where results go
    #[command(flatten)]
    pub(super) output: Output,
}

/// Endpoints that run already.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Endpoints {
    /// An endpoint that runs already: NAME=URL[,pid=N[+N]][,server-pid=N[+N]]. The URL is host:port,
    /// redis://user:password@host:port/db, rediss://..., or redis+unix:///path. `pid` are the processes of the proxy,
    /// `server-pid` those of the servers behind it: without them there are no figures of CPU. May be repeated; the
    /// targets are visited in turn
    #[arg(long, value_name = "TARGET")]
    pub(super) target: Vec<String>,

    /// Certificate authorities (PEM) for rediss:// targets
    #[arg(long, value_name = "FILE")]
    pub(super) tls_ca: Option<PathBuf>,
}

/// Where processes run.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Pinning {
    /// Bind a role to CPUs: proxy=0, server=1-2, load=3. May be repeated; roles that are not named are not bound
    #[arg(long, value_name = "ROLE=CPUS", num_args = 1.., conflicts_with = "no_pin")]
    pub(super) pin: Vec<String>,

    /// Bind nothing, whatever the scenario says
    #[arg(long)]
    pub(super) no_pin: bool,
}

/// Where results go.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Output {
    /// Folder for run.json, report.html and report.md [default of `run`: bench-results/SCENARIO-TIME]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,

    /// Write the run file here as well
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Write the report as Markdown here as well
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,

    /// Write the report as HTML here as well
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

/// Arguments of `floor`.
#[derive(Debug, clap::Args)]
#[command(after_help = FLOOR_EXAMPLES)]
pub(super) struct FloorArgs {
    /// What it waits and sends with: epoll or uring
    #[arg(long, default_value = "epoll", value_parser = values::net_driver)]
    pub(super) driver: NetDriver,

    /// Port of 127.0.0.1; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(super) port: u16,

    /// Length of the value that GET is answered with: 100, 16B, 4KiB, 1MiB
    #[arg(short = 'd', long, value_name = "SIZE", default_value = "3", value_parser = values::value_bytes)]
    pub(super) value_bytes: u32,
}

/// Arguments of `show`.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Name of a built-in scenario (see `list`), or path of a .toml file
    pub(super) scenario: String,

    /// Show its short form
    #[arg(long)]
    pub(super) short: bool,

    /// Print the file itself, to begin an own one with
    #[arg(long)]
    pub(super) toml: bool,
}

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// The file of a run: run.json
    pub(super) run: PathBuf,

    /// Write the report as HTML
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Write the report as Markdown
    #[arg(long, value_name = "FILE")]
    pub(super) markdown: Option<PathBuf>,

    /// Write the plots as SVG files
    #[arg(long, value_name = "DIR")]
    pub(super) pictures: Option<PathBuf>,
}

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArgs {
    /// The file of the earlier run
    pub(super) before: PathBuf,

    /// The file of the later run
    pub(super) after: PathBuf,

    /// End with exit code 1 when something got worse
    #[arg(long)]
    pub(super) fail_on_worse: bool,
}

/// Reads a whole number within bounds.
fn number<T>(low: u64, high: u64) -> RangedU64ValueParser<T>
where
    T: TryFrom<u64> + Clone + Send + Sync,
{
    RangedU64ValueParser::new().range(low..=high)
}

const RUN_EXAMPLES: &str = "\
Examples:
  respool-bench run predixy-8 --spawn                  everything on this machine
  respool-bench run cost --spawn --check               the project's limits
  respool-bench run camellia-4 --spawn --short --only get mget
  respool-bench run pipeline-ladder --target direct=127.0.0.1:6379,server-pid=812 \\
      --target proxy=127.0.0.1:6380,pid=940,server-pid=812

Exit codes: 0 done; 1 the run failed or a limit was missed; 2 wrong command line, scenario or file.";

const FLOOR_EXAMPLES: &str = "\
It prints its address and answers until SIGTERM or Ctrl-C. Scenarios start it by themselves (`kind = \"floor\"`).

Examples:
  respool-bench floor --driver uring --port 6390 -d 1KiB
  respool-bench load --target floor=127.0.0.1:6390,pid=1234 --target proxy=127.0.0.1:6380,pid=940";

const LOAD_EXAMPLES: &str = "\
Examples:
  respool-bench load --target 127.0.0.1:6380 -c 100 -P 16
  respool-bench load --target a=127.0.0.1:6379 --target b=127.0.0.1:6380 --rounds 3
  respool-bench load --target 127.0.0.1:6380 --rate 20000 --zipf 0.99
  respool-bench load --target 127.0.0.1:6380 --request 'GET {key}' --weight 9 \\
      --request 'SET {key} {value}' --weight 1 -d 1KiB
  respool-bench load --target 127.0.0.1:6380 --storm --request PING";
