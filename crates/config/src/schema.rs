//! What a configuration is, as plain values that the rest of the program reads.
//!
//! Every field holds a value that was checked already: ranges, lengths and the rules between fields are the matter of
//! [`crate::options`] and `compile`, not of the reader. This module does not parse and does no IO.
//!
//! Invariant: `Config::default()` passes every check, and its values are the defaults that the generated documents show
//! (the option table reads them from here, so they are written once).

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use engine::acl::Users;
use engine::command::CommandId;
use engine::settings::{OnLoss, ReadPolicy};
use engine::stats::monitors::MonitorOptions;

use crate::address::{ListenAddress, PoolKind, UpstreamAddress, UpstreamUrl};
use crate::listen::Listen;
use crate::mirrors::Mirrors;
use crate::network::{ClientRules, Network};
use crate::policies::Policies;
use crate::read_targets::ReadTargets;
use crate::secret::{Secret, SecretUrl};
use crate::sharding::{ShardUrl, Sharding};
use crate::tenants::Tenant;
use crate::tls::{AdminTls, ReceiverTls, Tls, UpstreamTls};
use crate::users::Acl;

/// Everything that can be set. See [`crate::options::OPTIONS`] for names, ranges and explanations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The servers behind the proxy, with the credentials to use there (already read from their files).
    pub upstream: Upstream,
    /// The file that the password of [`Config::upstream`] was read from, if it was.
    pub upstream_password_file: Option<PathBuf>,
    /// How clients are met that speak TLS; which listeners do says `listen`.
    pub tls: Tls,
    /// How servers are met that speak TLS; which do say their URLs.
    pub upstream_tls: UpstreamTls,
    /// Where clients connect. At least one entry; no address and no name twice.
    pub listen: Vec<Listen>,
    /// Permission bits of unix sockets that are listened on and have none of their own, `0..=0o777`.
    pub unix_mode: u32,
    /// Which clients may come, at every listener.
    pub client_rules: ClientRules,
    /// Who may send headers of the PROXY protocol to listeners that ask for them; empty: whoever reaches these.
    pub proxy_protocol_from: Vec<Network>,
    /// Worker threads, `1..=256`.
    pub workers: usize,
    /// CPUs that workers are pinned to: worker `i` goes to `cpus[i % cpus.len()]`. Empty: no pinning.
    pub cpus: Vec<usize>,
    /// By which means of the kernel workers wait for sockets.
    pub driver: NetDriver,
    /// Clients connected at the same time, over all workers; one more is told so and closed.
    pub max_clients: usize,
    /// What clients must present with `AUTH`; `None`: no `AUTH` needed. Already read from its file.
    pub password: Option<Secret>,
    /// The file that [`Config::password`] was read from, if it was.
    pub password_file: Option<PathBuf>,
    /// Take over what changes in the configuration file while the program runs.
    pub watch_config: bool,
    /// Refuse to listen beyond this machine without a password. Checked before the program starts.
    pub protected_mode: bool,
    /// The name our connections carry on the server (`CLIENT SETNAME`). Empty: no name is set.
    pub client_name_upstream: String,
    /// The file that the password at sentinels was read from, if it was.
    pub sentinel_password_file: Option<PathBuf>,
    /// What to connect to instead of addresses that servers tell. None twice.
    pub address_map: Vec<MappedAddress>,
    /// Which copy answers reads.
    pub reads: Reads,
    /// How respool shows itself to clients that know clusters.
    pub facade: Facade,
    /// How the loss of a server is shown to clients.
    pub on_upstream_loss: OnLoss,
    /// Who clients can be, as it is written.
    pub acl: Acl,
    /// The users that come of [`Config::acl`] and [`Config::password`].
    pub users: Arc<Users>,
    /// What is refused, slowed or changed of requests, as it is written.
    pub policies: Policies,
    /// What comes of [`Config::policies`]; all workers share it. `None`: nothing is wanted.
    pub intercepts: Option<Arc<engine::policy::Policies>>,
    /// Other deployments that get what clients write.
    pub mirrors: Mirrors,
    /// `[read_targets]`: other deployments that answer what clients read.
    pub read_targets: ReadTargets,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How much things may hold.
    pub limits: Limits,
    /// Which requests are kept as slow.
    pub slowlog: Slowlog,
    /// Commands whose times are counted with bounds of the operator's own, at most 16 sets of them. Names differ.
    pub latency_monitors: Vec<MonitorOptions>,
    /// How keys that come often are looked for.
    pub hotkeys: HotKeys,
    /// Which requests and replies count as large.
    pub bigkeys: BigKeys,
    /// How requests are gathered into larger writes.
    pub batching: Batching,
    /// Replies that are kept.
    pub cache: Cache,
    /// What is logged, how and where.
    pub log: Log,
    /// Which requests stand in the log one by one.
    pub access_log: AccessLog,
    /// Which requests become spans of traces, and where those go.
    pub tracing: Tracing,
    /// What is told to somebody else at once.
    pub alarms: Alarms,
    /// HTTP for those who look after the proxy.
    pub admin: Admin,
    /// Tenants beside the default one, at most [`crate::TENANTS_MAX`]. Names differ; none in the configuration of a tenant.
    pub tenants: Vec<Tenant>,
}

/// What is behind the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// One server, one cluster, or one server that sentinels know.
    One(UpstreamUrl),
    /// Keys are spread over several of them.
    Shards(Sharding),
}

/// What to connect to instead of an address that a server tells. Hosts are names or IP addresses, IPv6 without brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedAddress {
    /// In the place of one host and port.
    Port {
        /// As it is told.
        host: String,
        /// As it is told.
        port: u16,
        /// What to connect to.
        to_host: String,
        /// What to connect to.
        to_port: u16,
    },
    /// In the place of a host, with any port that has no entry of its own.
    Host {
        /// As it is told.
        host: String,
        /// What to connect to, with the same port.
        to_host: String,
    },
}

impl fmt::Display for MappedAddress {
    /// As it is written after a flag.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |host: &str, port: &u16| {
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
        };
        match self {
            Self::Port { host, port, to_host, to_port } => {
                write!(f, "{}={}", place(host, port), place(to_host, to_port))
            }
            Self::Host { host, to_host } => write!(f, "{host}={to_host}"),
        }
    }
}

impl MappedAddress {
    /// Whether both say where the same place is.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Port { host, port, .. }, Self::Port { host: other, port: other_port, .. }) => {
                (host, port) == (other, other_port)
            }
            (Self::Host { host, .. }, Self::Host { host: other, .. }) => host == other,
            _ => false,
        }
    }
}

/// Which copy of the data answers requests that only read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Which.
    pub policy: ReadPolicy,
    /// A replica that is behind its primary by more bytes is passed over; 0: however far.
    pub lag_max: usize,
    /// Zone of this respool, for the policy `zone`.
    pub zone: Option<String>,
    /// Zones of servers, by `host:port` or host (IPv6 `[::1]:6379`, `::1`), instead of what they tell. None twice.
    pub zones: Vec<(String, String)>,
    /// Weights of servers among those that answer reads, named as in `zones`; 1 where nothing is said.
    pub weights: Vec<(String, u16)>,
    /// Commands that always go to the primary.
    pub primary_commands: Vec<CommandId>,
}

/// How respool shows itself to clients that know clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facade {
    /// As a cluster.
    pub cluster: bool,
    /// Addresses of its nodes, none of them unspecified; empty: the one that a client connected to.
    pub announce: Vec<SocketAddr>,
}

/// How long things may take. The unit is the end of each name; 0 means "no limit" where the field says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of a connect to the server's answer to our greeting; a server to which a shared connection stands has `request_ms` for the greeting.
    pub connect_ms: u64,
    /// From a request's sending to its reply. 0: no limit.
    pub request_ms: u64,
    /// What a client has for its header, where a listener asks for one of the PROXY protocol.
    pub proxy_header_ms: u64,
    /// What a client has for saying who it is, where it must. 0: no limit.
    pub auth_ms: u64,
    /// A client that has nothing to wait for and says nothing this long is closed. 0: never.
    pub client_idle_ms: u64,
    /// From SIGTERM to the drain, while clients are still accepted and `/readyz` says no. 0: none.
    pub lame_duck_ms: u64,
    /// What requests in flight get when the program is asked to stop.
    pub drain_ms: u64,
    /// How long a client may take none of its replies until it counts as one that does not read.
    pub stall_ms: u64,
    /// How long a request waits while no node of the cluster owns its slot.
    pub topology_wait_ms: u64,
    /// How often the slots of a cluster are asked for without a sign that they changed; 0: never.
    pub topology_period_ms: u64,
    /// How long a request waits while the primary of its slot is down; 0: it fails at once.
    pub failover_hold_ms: u64,
    /// A shared connection to a server that was quiet for so long is asked with `PING`. 0: never.
    pub ping_ms: u64,
    /// How often names of servers are resolved again while we are connected. 0: only on connect.
    pub resolve_ms: u64,
    /// Silence after which the kernel probes a TCP peer. 0: no probes.
    pub tcp_keepalive_s: u64,
    /// Wait before the first attempt to connect again.
    pub reconnect_min_ms: u64,
    /// Longest wait between two attempts; not below `reconnect_min_ms`.
    pub reconnect_max_ms: u64,
}

/// How much things may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Unsent replies from which a client is not read any more until they shrink.
    pub client_out_high_bytes: usize,
    /// Unsent replies at which an upstream that others wait on is not read for this client; not below `client_out_high_bytes`.
    pub client_out_max_bytes: usize,
    /// Unfinished or waiting request bytes from which a client is not read any more.
    pub client_in_high_bytes: usize,
    /// Requests of one client that may wait for their replies; at the bound it is not read.
    pub client_inflight_max: usize,
    /// Unsent requests on an upstream connection from which clients that feed it are not read.
    pub upstream_out_high_bytes: usize,
    /// Buffers of the whole process; above it the client that holds most is closed first.
    pub memory_max_bytes: usize,
    /// Size from which a request goes over a connection of its own and is streamed.
    pub large_request_bytes: usize,
    /// Size of a reply from which the next request of its kind goes over a connection beside the others.
    pub large_reply_bytes: usize,
    /// Streamed requests at the same time; more have to wait.
    pub large_transfers_max: usize,
    /// Longest bulk string in a request (Redis: `proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// Shared connections to one server over all workers, for each protocol and database; 0: one for each worker.
    pub conns_per_node: usize,
    /// Connections to one node, over all workers.
    pub upstream_conns_max: usize,
    /// Shared connections to all servers of this tenant together, over all workers. No option: the server program sets it when it shares out descriptors among tenants.
    pub shared_conns_max: usize,
    /// Connections that clients have of their own, over all workers.
    pub leases_max: usize,
    /// Idle ones that are kept ready at each server that had one, for each worker.
    pub leases_min: usize,
    /// Connections that clients have of their own since they cache with NOLOOP, over all workers.
    pub noloop_conns_max: usize,
}

/// Which requests are kept as slow, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slowlog {
    /// From here on a request is slow.
    pub slower_than_us: u64,
    /// Entries that are kept. 0: none.
    pub max_len: usize,
}

/// How keys that come often are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotKeys {
    /// From the start on.
    pub enabled: bool,
    /// One request of so many is looked at.
    pub sample: usize,
    /// Keys that are known of each window.
    pub top: usize,
    /// Length of a window.
    pub window_s: u64,
    /// The log tells of a key that comes so often in a second. 0: never.
    pub min_per_s: usize,
}

/// Replies to reads that are kept by each worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Whether any are.
    pub enabled: bool,
    /// What a worker keeps.
    pub memory_max_bytes: usize,
    /// The largest reply.
    pub value_max_bytes: usize,
    /// How long one serves.
    pub ttl_ms: u64,
    /// Patterns of keys. None: all.
    pub keys: Vec<String>,
    /// How often a request comes before its reply is kept.
    pub min_reads: usize,
}

/// Which requests and replies count as large, and how many are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BigKeys {
    /// Those of so many bytes.
    pub bytes_min: usize,
    /// Those of so many elements.
    pub elements_min: usize,
    /// Entries that are kept. 0: none, and nothing is looked for.
    pub max_len: usize,
}

/// How requests are gathered into larger writes, which is what makes small requests cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Longest wait for more input before requests are written upstream. 0: never wait.
    pub gather_us: u64,
    /// What is enough for each server: half of the active clients, at most this many inputs.
    pub gather_completions: usize,
    /// A worker with fewer active clients does not gather.
    pub gather_clients_min: usize,
    /// Times that input is polled again without waiting while more keeps coming.
    pub polls: usize,
    /// Equal reads of several clients that leave in one write are sent once.
    pub coalesce_reads: bool,
}

/// What is logged, how and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least severe level that is written.
    pub level: LogLevel,
    /// The shape of a line.
    pub format: LogFormat,
    /// Append to this file; `None`: standard error.
    pub file: Option<PathBuf>,
    /// Lines of one kind in each window. 0: as many as come.
    pub burst: usize,
    /// Length of that window.
    pub burst_window_s: u64,
}

/// Which requests stand in the log one by one. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessLog {
    /// One of so many that fit. 0: none.
    pub sample: usize,
    /// Of these commands, subcommands included; empty: of all.
    pub commands: Vec<CommandId>,
    /// Whose first key begins so.
    pub key_prefix: Option<String>,
    /// Of clients whose address or name matches this pattern.
    pub client: Option<String>,
    /// That took so long at least.
    pub slower_than_us: u64,
}

/// Which requests become spans of traces, and where those go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// One of so many. 0: none.
    pub sample: usize,
    /// The collector; `None`: there is none, and no spans.
    pub endpoint: Option<SecretUrl>,
    /// The name that the spans come under. Always set.
    pub service_name: Option<String>,
    /// How the collector is met where its URL is `https://`.
    pub tls: ReceiverTls,
}

/// What is told to somebody else at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarms {
    /// Where it is posted to; `None`: nowhere.
    pub webhook: Option<SecretUrl>,
    /// From here on a request is so slow that it is told. 0: none is.
    pub slow_over_us: u64,
    /// What is told: some of [`Alarms::KINDS`].
    pub kinds: Vec<&'static str>,
    /// How the receiver is met where the URL is `https://`.
    pub tls: ReceiverTls,
}

impl Alarms {
    /// All that there is to tell: a slow request, a hot key, a big key, a server that cannot be reached.
    pub const KINDS: [&'static str; 4] = ["slow", "hot", "big", "upstream_down"];
}

/// HTTP for those who look after the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens; empty: nowhere. None twice, none of `Config::listen`.
    pub listen: Vec<ListenAddress>,
    /// What requests must present; `None`: nothing. Already read from its file.
    pub token: Option<Secret>,
    /// The file that the token was read from, if it was.
    pub token_file: Option<PathBuf>,
    /// How those are met who ask by TCP.
    pub tls: AdminTls,
    /// Which upstreams have to serve for `/readyz`.
    pub ready_upstreams: ReadyUpstreams,
}

/// Which upstreams have to serve for `/readyz` to say yes. What is not ready in the process itself always counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyUpstreams {
    /// None has to.
    #[default]
    None,
    /// One of them.
    Any,
    /// Each.
    All,
}

impl ReadyUpstreams {
    /// All of them, in the order of [`ReadyUpstreams::NAMES`].
    pub const ALL: [Self; 3] = [Self::None, Self::Any, Self::All];
    /// The names in the configuration.
    pub const NAMES: [&'static str; 3] = ["none", "any", "all"];
}

/// Severity of log lines, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// The program cannot do what it was asked to.
    Error,
    /// Something is wrong but work goes on.
    Warn,
    /// Starts, stops, connects, losses.
    Info,
    /// Decisions of the program, for finding a fault.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// All levels, in the order of [`LogLevel::NAMES`].
    pub const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];
    /// The names in the configuration.
    pub const NAMES: [&'static str; 5] = ["error", "warn", "info", "debug", "trace"];
}

/// By which means of the kernel workers wait for sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetDriver {
    /// What does best as far as it was measured (`docs/internals/driver-sweep.md`): [`NetDriver::Epoll`] on every kernel.
    Auto,
    /// epoll(7).
    Epoll,
    /// io_uring(7), or epoll where it cannot be used.
    Uring,
}

impl NetDriver {
    /// All of them, in the order of [`NetDriver::NAMES`].
    pub const ALL: [Self; 3] = [Self::Auto, Self::Epoll, Self::Uring];
    /// The names in the configuration.
    pub const NAMES: [&'static str; 3] = ["auto", "epoll", "uring"];
}

/// Shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// [`LogFormat::Human`]; with colours when the output is a terminal.
    Auto,
    /// One readable line an event, without colours.
    Human,
    /// One JSON object an event and line.
    Json,
}

impl LogFormat {
    /// All formats, in the order of [`LogFormat::NAMES`].
    pub const ALL: [Self; 3] = [Self::Auto, Self::Human, Self::Json];
    /// The names in the configuration.
    pub const NAMES: [&'static str; 3] = ["auto", "human", "json"];
}

/// Shards that a log line names; of more it tells the number.
const SHOWN_SHARDS_MAX: usize = 4;

impl Upstream {
    /// All URLs, in the order of the configuration; one at least.
    pub fn urls(&self) -> impl Iterator<Item = &UpstreamUrl> {
        let (one, shards) = match self {
            Self::One(url) => (Some(url), &[][..]),
            Self::Shards(sharding) => (None, &sharding.shards[..]),
        };
        one.into_iter().chain(shards.iter().map(|shard: &ShardUrl| &shard.url))
    }

    /// The database that clients start in.
    pub fn db(&self) -> u32 {
        // All shards agree in it, and there is one at least.
        self.urls().next().map_or(0, |url| url.db)
    }
}

impl fmt::Display for Upstream {
    /// Without credentials and short, fit for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = match self {
            Self::One(url) => return url.fmt(f),
            Self::Shards(sharding) => sharding.shards.len(),
        };
        write!(f, "{count} shard{}", if count == 1 { "" } else { "s" })?;
        for (index, url) in self.urls().take(SHOWN_SHARDS_MAX).enumerate() {
            write!(f, "{} {url}", if index == 0 { ":" } else { "," })?;
        }
        match count.saturating_sub(SHOWN_SHARDS_MAX) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Bytes in a KiB; the defaults below read better with it.
const KIB: usize = 1024;
/// Bytes in a MiB.
const MIB: usize = 1024 * KIB;

/// Most workers that can be asked for.
pub const WORKERS_MAX: usize = 256;

/// Most clients that can be asked for.
pub const CLIENTS_MAX: usize = 1_000_000;

impl Config {
    /// What needs a restart stays as it is in `running`: what binds sockets, the number of workers, and, of each tenant its own, the servers
    /// while mirrors are told what goes there. `leaving`: some are told although they are mirrors no more.
    pub(crate) fn keep_fixed(&mut self, running: &Self, leaving: bool) {
        self.keep_process(running);
        self.keep_route(running, leaving);
        for tenant in &mut self.tenants {
            tenant.config.keep_process(running);
            if let Some(before) = running.tenant(&tenant.name) {
                tenant.config.keep_route(before, leaving);
            }
        }
    }

    fn keep_process(&mut self, running: &Self) {
        self.unix_mode = running.unix_mode;
        self.workers = running.workers;
        self.cpus.clone_from(&running.cpus);
        self.driver = running.driver;
        self.admin.listen.clone_from(&running.admin.listen);
    }

    fn keep_route(&mut self, running: &Self, leaving: bool) {
        if self.leaves_mirrored_servers(running, leaving) {
            self.upstream.clone_from(&running.upstream);
            // They were looked at beside the other servers: one of them may be what stays.
            self.mirrors.clone_from(&running.mirrors);
        }
    }

    /// Whether these servers are others than in `running`, and mirrors are told what goes to those. A mirror could be one of the new ones, and get
    /// everything twice, or something old behind something new.
    pub(crate) fn leaves_mirrored_servers(&self, running: &Self, leaving: bool) -> bool {
        (leaving || running.mirrors.is_on()) && self.upstream != running.upstream
    }

    /// What holds for a tenant.
    pub(crate) fn tenant(&self, name: &str) -> Option<&Self> {
        self.tenants.iter().find(|tenant| tenant.name == name).map(|tenant| &tenant.config)
    }

    /// The engines of tenants run in the same workers.
    pub(crate) fn share_workers(&mut self) {
        self.tenants.iter_mut().for_each(|tenant| tenant.config.workers = self.workers);
    }

    /// Whether there is one worker for the order of what mirrors get, those of tenants included.
    pub fn wants_one_worker(&self) -> bool {
        let tenants = self.tenants.iter().map(|tenant| &tenant.config.mirrors);
        core::iter::once(&self.mirrors).chain(tenants).any(Mirrors::wants_one_worker)
    }

    /// The URLs of all servers, those of tenants too.
    pub fn urls(&self) -> impl Iterator<Item = &UpstreamUrl> {
        let of_tenants = self.tenants.iter().flat_map(|tenant| tenant.config.upstream.urls());
        self.upstream.urls().chain(of_tenants)
    }
}

impl Default for Config {
    /// The defaults, with `redis://127.0.0.1:6379` as the upstream (which a real start must name).
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            upstream: Upstream::One(default_upstream()),
            tenants: Vec::new(),
            upstream_password_file: None,
            tls: Tls::default(),
            upstream_tls: UpstreamTls::default(),
            listen: vec![ListenAddress::Tcp(([127, 0, 0, 1], 6380).into()).into()],
            unix_mode: 0o700,
            client_rules: ClientRules::default(),
            proxy_protocol_from: Vec::new(),
            workers: cores.min(WORKERS_MAX),
            cpus: Vec::new(),
            driver: NetDriver::Auto,
            max_clients: 10_000,
            password: None,
            password_file: None,
            watch_config: false,
            protected_mode: true,
            client_name_upstream: "respool".to_owned(),
            sentinel_password_file: None,
            address_map: Vec::new(),
            reads: Reads::default(),
            facade: Facade::default(),
            on_upstream_loss: OnLoss::Close,
            acl: Acl::default(),
            users: Arc::default(),
            policies: Policies::default(),
            intercepts: None,
            mirrors: Mirrors::default(),
            read_targets: ReadTargets::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            slowlog: Slowlog::default(),
            latency_monitors: Vec::new(),
            hotkeys: HotKeys::default(),
            bigkeys: BigKeys::default(),
            batching: Batching::default(),
            cache: Cache::default(),
            log: Log::default(),
            access_log: AccessLog::default(),
            tracing: Tracing::default(),
            alarms: Alarms::default(),
            admin: Admin::default(),
        }
    }
}

/// What stands in the documents for the server, which a real start must name.
pub(crate) fn default_upstream() -> UpstreamUrl {
    UpstreamUrl {
        pool: PoolKind::Standalone,
        address: UpstreamAddress::Tcp { host: "127.0.0.1".to_owned(), port: 6379 },
        user: None,
        password: None,
        db: 0,
        tls: false,
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_ms: 1000,
            request_ms: 10_000,
            proxy_header_ms: 5000,
            auth_ms: 30_000,
            client_idle_ms: 0,
            lame_duck_ms: 0,
            drain_ms: 10_000,
            stall_ms: 20,
            topology_wait_ms: 2000,
            topology_period_ms: 10_000,
            failover_hold_ms: 0,
            ping_ms: 5000,
            resolve_ms: 1000,
            tcp_keepalive_s: 300,
            reconnect_min_ms: 50,
            reconnect_max_ms: 1000,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client_out_high_bytes: MIB,
            client_out_max_bytes: 16 * MIB,
            client_in_high_bytes: MIB,
            client_inflight_max: 16_384,
            upstream_out_high_bytes: 4 * MIB,
            memory_max_bytes: 1024 * MIB,
            large_request_bytes: 256 * KIB,
            large_reply_bytes: MIB,
            large_transfers_max: 16,
            bulk_bytes_max: 512 * MIB,
            conns_per_node: 0,
            upstream_conns_max: 256,
            shared_conns_max: usize::MAX,
            leases_max: 4096,
            leases_min: 1,
            noloop_conns_max: 4096,
        }
    }
}

impl Default for Slowlog {
    fn default() -> Self {
        Self { slower_than_us: 10_000, max_len: 128 }
    }
}

impl Default for HotKeys {
    fn default() -> Self {
        Self { enabled: false, sample: 128, top: 32, window_s: 10, min_per_s: 10_000 }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            enabled: false,
            memory_max_bytes: 64 * MIB,
            value_max_bytes: 16 * KIB,
            ttl_ms: 5_000,
            keys: Vec::new(),
            min_reads: 4,
        }
    }
}

impl Default for BigKeys {
    fn default() -> Self {
        Self { bytes_min: MIB, elements_min: 10_000, max_len: 128 }
    }
}

impl Default for Batching {
    fn default() -> Self {
        Self {
            gather_us: 200,
            gather_completions: 24,
            gather_clients_min: 32,
            polls: 2,
            coalesce_reads: false,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            format: LogFormat::Auto,
            file: None,
            burst: 20,
            burst_window_s: 10,
        }
    }
}

impl Default for Tracing {
    fn default() -> Self {
        let service_name = Some("respool".to_owned());
        Self { sample: 0, endpoint: None, service_name, tls: ReceiverTls::default() }
    }
}

impl Default for Alarms {
    fn default() -> Self {
        let kinds = Self::KINDS.to_vec();
        Self { webhook: None, slow_over_us: 0, kinds, tls: ReceiverTls::default() }
    }
}
