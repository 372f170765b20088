//! Questions that concern the clients of every worker: CLIENT LIST, KILL, PAUSE, INFO.
//!
//! Workers share nothing, so such a command becomes a [`Question`] that the worker's caller carries to every worker (its own
//! included); each engine gives an [`Answer`], at once or when a server told it, and when all are there the engine that asked writes the reply into the place
//! that it had reserved. The client's next question waits for that, its other requests go on; and no more than a few questions are under way (`limits::QUESTIONS_MAX`): answers can be large.
//!
//! Not here: how a question travels (`server/src/worker/mailbox.rs`).
//!
//! Invariant: a question is answered by each engine exactly once, and changes nothing but what it says.

use crate::acl::{self, Digest};
use crate::bigkeys::{self, BigSeen};
use crate::elsewhere::{ReadTargetReport, ReadsElsewhereCounts};
use crate::hotkeys::HotReport;
use crate::ids::ClientId;
use crate::inside::Inside;
use crate::local::info::servers::Summary;
use crate::losses;
use crate::mirror::{MirrorReport, ShadowReport};
use crate::monitor::{Filter, Monitor};
use crate::observed::Asking;
use crate::policy;
use crate::questions::Turn;
use crate::report::{self, NodeReport};
use crate::slowlog;
use crate::stats::Stats;
use crate::stats::monitors::MonitorOptions;
use crate::tenancy::TenantId;
use crate::topology::view::PoolView;
use crate::upstream::greeting::ServerFacts;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use resp::Protocol;

/// What is asked of every worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The lines of CLIENT LIST.
    List {
        /// Of those with these numbers only.
        ids: Option<Vec<u64>>,
        /// Of those only that listen to topics, or that don't.
        listens: Option<bool>,
        /// With the listener behind what CLIENT LIST has.
        listener: bool,
    },
    /// Close the clients that match.
    Kill(KillFilter),
    /// Hold the clients' requests for so long (all, or only those that write).
    Pause {
        /// From the time that the question is answered.
        ms: u64,
        /// Reads go on.
        writes_only: bool,
    },
    /// Let them go on.
    Unpause,
    /// End the wait of the client with this number.
    Unblock {
        /// `CLIENT ID` of the one that waits.
        number: u64,
        /// With an error, and not as if its time were up.
        error: bool,
    },
    /// The newest entries of the slow log, at most so many.
    SlowLog(usize),
    /// How many there are.
    SlowLen,
    /// Forget them.
    SlowReset,
    /// The keys that come most often.
    HotKeys,
    /// Forget them.
    HotReset,
    /// Count them from now on, or no more.
    HotSwitch(bool),
    /// The keys with large requests or replies.
    BigKeys,
    /// Forget them.
    BigReset,
    /// What comparing reads with mirrors came to.
    Shadow,
    /// Forget it.
    ShadowReset,
    /// Show this client what is asked for from now on.
    Monitor(Monitor, Filter),
    /// Counters and gauges.
    Report,
    /// What is known of the servers.
    View,
    /// Primaries to which no connection was wanted yet are connected to, so that it is known whether they are there.
    ConnectIdle,
    /// The newest entries of `ACL LOG`, at most so many.
    AclLog(usize),
    /// Forget them.
    AclLogReset,
    /// See [`AclWish`]. Not for the workers: the caller answers it, once for all of them.
    Acl(AclWish),
    /// See [`ConfigWish`]. Not for the workers: the caller answers it, once for all of them.
    Config(ConfigWish),
}

/// What a client wants of the proxy's users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclWish {
    /// This user, new or not, gets these rules.
    Set(Vec<u8>, RuleWords),
    /// These go.
    Remove(Vec<Vec<u8>>),
    /// The file is read.
    Load,
    /// The file is written.
    Save,
}

/// Words of rules. There may be passwords among them, so `Debug` shows three stars.
#[derive(Clone, PartialEq, Eq)]
pub struct RuleWords(pub Vec<Vec<u8>>);

impl fmt::Debug for RuleWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What a client wants of the proxy's configuration. Names are those of the options, without the prefix that they have in CONFIG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigWish {
    /// The values of all options whose names match one of these glob patterns.
    Get(Vec<String>),
    /// Other values for these, all or none of them.
    Set(Vec<(String, String)>),
    /// What was changed is written into the configuration file.
    Rewrite,
}

/// Who asks a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Questioner {
    /// A client of this worker, by index.
    Worker(usize),
    /// The process itself, for those that look after it.
    Control,
}

/// Where the answer to a question goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// To whom.
    pub who: Questioner,
    /// The tenant of the client that asks: the question is for its engines, and the answer for the one of them that asked. Of no account where it is
    /// no client that asks.
    pub tenant: TenantId,
    /// The tenant and the login, if it is a client of a login at the servers that asks (see `login`): then the question is for the engines of that.
    pub login: Option<(TenantId, Digest)>,
    /// Its ticket.
    pub ticket: u64,
}

/// Conditions of CLIENT KILL; all of those given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillFilter {
    /// `ID`.
    pub ids: Option<Vec<u64>>,
    /// `ADDR`.
    pub addr: Option<String>,
    /// `LADDR`.
    pub laddr: Option<String>,
    /// `MAXAGE`, in seconds: connected for at least so long.
    pub max_age_s: Option<u64>,
    /// `TYPE`: whether they listen to topics (`pubsub`) or not (`normal`).
    pub listens: Option<bool>,
    /// `USER`.
    pub user: Option<Vec<u8>>,
    /// A `TYPE` that no client here has.
    pub nobody: bool,
    /// The number of the client that asked, if it is to be spared.
    pub spare: Option<u64>,
}

/// What one worker answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Number and line of each client.
    Lines(Vec<(u64, String)>),
    /// The lines would be more than memory allows.
    TooLarge,
    /// So many were closed.
    Killed(u64),
    /// Whether the wait of the client was ended.
    Unblocked(bool),
    /// Entries of the slow log.
    SlowLog(Vec<slowlog::Entry>),
    /// How many there are.
    SlowLen(u64),
    /// The keys that come most often.
    HotKeys(HotReport),
    /// The keys with large requests or replies, the newest first.
    BigKeys(Vec<bigkeys::Entry>),
    /// A report for each mirror that has some.
    Shadow(Vec<ShadowReport>),
    /// Done.
    Done,
    /// Entries of `ACL LOG`.
    AclLog(Vec<acl::log::Entry>),
    /// How many users were removed, or `None` where another thing was done; or the text of an error reply.
    Acl(Result<Option<u64>, Vec<u8>>),
    /// See [`Report`].
    Report(Box<Report>),
    /// All pools as this worker knows them.
    View(Vec<PoolView>),
    /// Names and values of options, none where something was to be done; or why not, as the text of an error reply.
    Config(Result<Vec<(String, String)>, String>),
    /// Those of several tenants, for a question that no client asked.
    Each(Vec<Self>),
}

/// Counters and gauges of one worker at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Which worker.
    pub worker: u32,
    /// What a server said of itself; empty while none has greeted this worker.
    pub server: ServerFacts,
    /// Counters.
    pub stats: Stats,
    /// Clients connected.
    pub clients: u64,
    /// Of these, those of each listener by what it is called. The caller adds listeners that have none.
    pub listeners: Vec<(Arc<str>, u64)>,
    /// Of these, those that wait for the reply to a blocking command, or for the end of a pause.
    pub blocked_clients: u64,
    /// Clients that cache what they read.
    pub tracking_clients: u64,
    /// Replies that are kept, and connections over which servers tell of changes of them (see `near`).
    pub cache_entries: u64,
    /// See `cache_entries`.
    pub cache_feeds: u64,
    /// Clients whose next request waits, by [`report::WAITS`].
    pub waiting: [u64; report::WAITS.len()],
    /// Upstream connections that are open.
    pub upstreams: u64,
    /// Requests that wait for a reply.
    pub inflight: u64,
    /// Bytes buffered for clients and upstreams.
    pub buffered_bytes: u64,
    /// Bytes held, by [`report::MEMORY_KINDS`].
    pub memory: [u64; report::MEMORY_KINDS.len()],
    /// The largest amount that waits to go out to one client.
    pub client_out_bytes_max: u64,
    /// The largest amount of input that waits of one client.
    pub client_in_bytes_max: u64,
    /// Connections that clients have of their own.
    pub leases_taken: u64,
    /// Clients that wait for one.
    pub leases_waiting: u64,
    /// Connections that are kept ready for the next of them.
    pub leases_idle: u64,
    /// Entries of the slow log.
    pub slowlog_entries: u64,
    /// How long ago a server last told who owns what, in microseconds, of the pool where that is longest ago; `None`: nobody had to.
    pub topology_age_us: Option<u64>,
    /// State of the connection to the node, in words.
    pub node_state: String,
    /// The servers.
    pub nodes: Vec<NodeReport>,
    /// Processor time of the worker's thread in its own code, in microseconds. Of this the engine knows nothing; its caller enters it.
    pub cpu_user_us: u64,
    /// The same in the kernel.
    pub cpu_system_us: u64,
    /// What the worker's ring met, where its driver is io_uring. Its caller enters this, too.
    pub ring: Option<RingReport>,
    /// What came of TLS in this worker, where somebody speaks it. Its caller enters this, too.
    pub tls: Option<TlsReport>,
    /// The keys that come most often, at most `limits::HOTKEYS_TOP_MAX` of them; only in the answer to a question, which has a time.
    pub hotkeys: HotReport,
    /// Large requests and replies since the start.
    pub big_seen: BigSeen,
    /// Entries of big keys; the same key may have one at another worker.
    pub big_keys: u64,
    /// The latency monitors that `stats.monitors`, also those of the nodes, are of: while they change, workers may differ.
    pub monitors: Vec<MonitorOptions>,
    /// What policies did, by policy and name of the rule.
    pub policies: Vec<policy::Outcomes>,
    /// What the operator's programs did, by name of the rule.
    pub own: Vec<policy::OwnReport>,
    /// Other deployments that get what clients write.
    pub mirrors: Vec<MirrorReport>,
    /// Other deployments that answer what clients read.
    pub read_targets: Vec<ReadTargetReport>,
    /// What is counted of all of them together; `None`: there are none.
    pub reads_elsewhere: Option<ReadsElsewhereCounts>,
    /// Logins of clients at the servers, whose engines are counted in (see `login`).
    pub logins: u64,
    /// Which tenant's it is; `None`: there are none.
    pub tenant: Option<Arc<str>>,
}

/// What a worker's ring of io_uring met that should be rare, since the start, and the buffers that it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingReport {
    /// Receives that found no buffer, and were begun again.
    pub no_buffers: u64,
    /// Calls that found more completions than room.
    pub overflows: u64,
    /// Buffers that exist, by [`BUFFER_SIZES`].
    pub buffers: [u64; BUFFER_SIZES.len()],
}

/// The sizes of a ring's buffers, in words: for connections that receive little at a time, and for those that receive much.
pub const BUFFER_SIZES: [&str; 2] = ["small", "large"];

/// Connections with TLS of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsReport {
    /// Of clients.
    pub clients: TlsSide,
    /// To servers.
    pub upstreams: TlsSide,
}

/// Those of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSide {
    /// There now, their handshake over.
    pub open: u64,
    /// There now, their handshake under way.
    pub unfinished: u64,
    /// Handshakes that came to their end, since the start.
    pub handshakes: u64,
    /// Of these, those that went on from an earlier connection.
    pub resumed: u64,
    /// Connections that ended because of TLS, by [`TLS_FAILURES`].
    pub failures: [u64; TLS_FAILURES.len()],
}

impl TlsSide {
    /// Adds those of another worker.
    pub fn add(&mut self, other: &Self) {
        self.open += other.open;
        self.unfinished += other.unfinished;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        for (own, other) in self.failures.iter_mut().zip(other.failures) {
            *own += other;
        }
    }
}

/// Why TLS fails: no handshake in time; the peer speaks something else; it breaks the rules; no version or cipher in common; it shows no certificate; its
/// certificate is not taken; it does not take us; it went away; there was no memory left for it.
pub const TLS_FAILURES: [&str; 9] = [
    "timeout",
    "not_tls",
    "protocol",
    "incompatible",
    "no_certificate",
    "certificate",
    "refused",
    "closed",
    "memory",
];

/// What the process knows and an engine does not, for INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Version of respool.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Since the start.
    pub uptime_s: u64,
    /// When it started, in seconds since 1970.
    pub started_unix_s: u64,
    /// Port of the first TCP listener, 0 if none.
    pub tcp_port: u16,
    /// The configuration file, empty if none.
    pub config_file: String,
    /// The executable's path.
    pub executable: String,
    /// Kernel and machine: `Linux 6.1.0 x86_64`.
    pub os: String,
    /// Which driver runs: `epoll`.
    pub driver: String,
    /// Which one the configuration asks for: `auto`.
    pub driver_wanted: String,
    /// Why it is not the one that was asked for; empty where it is.
    pub driver_reason: String,
    /// Worker threads.
    pub workers: u32,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// Highest resident memory, in bytes.
    pub rss_max_bytes: u64,
    /// CPU time of the process in the kernel, in microseconds.
    pub cpu_system_us: u64,
    /// CPU time of the process in its own code, in microseconds.
    pub cpu_user_us: u64,
    /// Microseconds since 1970, for `server_time_usec`.
    pub unix_us: u64,
    /// `max_clients` of the configuration.
    pub clients_max: u64,
    /// What observers did not get, by [`losses::Loss`].
    pub losses: [u64; losses::LOSSES],
}

/// What the engine that asked does with the answers.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// CLIENT LIST.
    List,
    /// CLIENT KILL in the new form: the reply is the number.
    Kill,
    /// CLIENT KILL addr: the reply is OK or an error.
    KillOne,
    /// CLIENT UNBLOCK: 1 or 0.
    Unblock,
    /// SLOWLOG GET of so many.
    SlowLog {
        /// Entries.
        count: usize,
        /// With what only the proxy knows.
        detail: bool,
    },
    /// SLOWLOG LEN.
    SlowLen,
    /// TOPKEYS GET of so many.
    HotKeys(usize),
    /// BIGKEYS GET of so many.
    BigKeys(usize),
    /// BIGKEYS LEN.
    BigLen,
    /// MONITOR: OK, and lines from then on.
    Monitor,
    /// Anything that ends in OK.
    Ok,
    /// CLIENT TRACKING with a client of another worker to be told.
    Track(Box<crate::tracking::Tracking>),
    /// INFO with these sections.
    Info(Box<InfoWish>),
    /// CONFIG of the proxy.
    Config(ConfigWish),
    /// ACL SETUSER and its kin.
    Acl,
    /// ACL LOG of so many.
    AclLog(usize),
}

/// What INFO is made of, as far as it is there.
#[derive(Clone, Debug, Default)]
pub struct InfoWish {
    /// In lower case; none: the default.
    pub(crate) sections: Vec<String>,
    /// Servers have still to answer; the workers are asked behind them.
    pub(crate) waits: bool,
    /// Their answers; `None`: they are not asked.
    pub(crate) servers: Option<Summary>,
}

impl Asked {
    /// Whether servers have still to answer, and no worker is asked before.
    pub(crate) fn waits_for_servers(&self) -> bool {
        matches!(&self.purpose, Purpose::Info(wish) if wish.waits)
    }
}

/// A question under way.
#[derive(Debug)]
pub struct Asked {
    /// Its number.
    pub ticket: u64,
    /// Who asked.
    pub client: ClientId,
    /// The place that waits for the reply.
    pub seq: u32,
    /// Where it belongs in the answer to EXEC, if it was asked in a transaction.
    pub(crate) inside: Option<Inside>,
    /// The reply is dropped (`CLIENT REPLY OFF`).
    pub silent: bool,
    /// The client's when it asked; a HELLO behind the question changes nothing of the reply.
    pub protocol: Protocol,
    /// What to make of the answers.
    pub purpose: Purpose,
    /// The question changes something, and may close its own client.
    pub(crate) changes: bool,
    /// The question's turn among the questions that wait, kept after the question was asked.
    pub(crate) turn: Option<Turn>,
    /// Bytes of this record and of the question.
    pub(crate) bytes: usize,
    /// For the slow log, when it is answered.
    pub(crate) noted: Option<slowlog::Noted>,
    /// For the access log and spans, when it is answered.
    pub(crate) observed: Option<Asking>,
}
