//! What an engine is told at its start: where to, as whom, and the bounds.
//!
//! Plain data; the reading and checking of a configuration is `config`'s, the turning of one into the other is `server`'s.
//! Secrets are bytes here, wrapped so that no `Debug` shows them.

use crate::acl::Users;
use crate::address_map::AddressMap;
use crate::bigkeys;
use crate::command::CommandId;
use crate::elsewhere::Order;
use crate::hotkeys;
use crate::login::Login;
use crate::mirror::Mode;
use crate::near;
use crate::node::Address;
use crate::observed;
use crate::policy::Policies;
use crate::route::shard::{Shard, Sharding};
use crate::slowlog;
use crate::stats::monitors::MonitorOptions;
use crate::tenancy::Tenancy;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use zeroize::Zeroize;

/// A password. `Debug` shows three stars.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Vec<u8>);

impl Drop for Password {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Password {
    /// Wraps the bytes of a password.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for sending upstream.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether `given` is this password, in a time that tells nothing but the length that was given.
    pub fn matches(&self, given: &[u8]) -> bool {
        let mut difference = u8::from(self.0.len() != given.len());
        for (index, byte) in given.iter().enumerate() {
            let own = self.0.get(index).copied().unwrap_or(!byte);
            difference |= own ^ byte;
        }
        difference == 0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A server behind this proxy, and how we greet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Where it is.
    pub address: Address,
    /// User for `AUTH`; `None` is Redis' `default`.
    pub user: Option<Vec<u8>>,
    /// Password for `AUTH`.
    pub password: Option<Password>,
    /// The database that clients start in (their database 0 is this server's database 0; a client starts with `SELECT db`).
    pub db: u32,
    /// Name that our connections get (`CLIENT SETNAME`); empty for none.
    pub client_name: Vec<u8>,
    /// Connections go over TLS.
    pub tls: bool,
}

/// How the servers behind belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pool {
    /// There is one, at the address of [`Node`].
    Standalone,
    /// A Redis Cluster.
    Cluster {
        /// Nodes to ask at the start; one that lives is enough. Not empty.
        seeds: Vec<Address>,
    },
    /// A primary with replicas, watched by sentinels.
    Sentinel {
        /// Sentinels to ask at the start; one that lives is enough. Not empty.
        seeds: Vec<Address>,
        /// Name of the primary at the sentinels.
        name: Vec<u8>,
        /// How sentinels are greeted; its address is of no account.
        greeting: Node,
    },
}

impl Pool {
    /// How the sentinels of this pool are greeted, if it has any.
    pub fn greeting(&self) -> Option<&Node> {
        match self {
            Self::Standalone | Self::Cluster { .. } => None,
            Self::Sentinel { greeting, .. } => Some(greeting),
        }
    }
}

/// Which copy answers reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The primary.
    #[default]
    Primary,
    /// Replicas in turn; the primary while none is fit.
    PreferReplica,
    /// Replicas in turn; an error while none is fit.
    Replica,
    /// Primary and replicas in turn.
    Any,
    /// The node that answers fastest.
    Nearest,
    /// Replicas of our zone, else the primary if it is there, else any replica.
    Zone,
}

/// How reads are spread over copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Which copy.
    pub policy: ReadPolicy,
    /// A replica that is behind its primary by more is passed over (0: however far).
    pub lag_bytes_max: u64,
    /// Zone of this proxy; empty: none.
    pub zone: String,
    /// Zones of nodes, by label or by host alone (a label wins). They win over what servers tell.
    pub zones: Vec<(String, String)>,
    /// How many reads nodes get compared with each other, named as in `zones`; 1 where nothing is said, 0: while no other is fit.
    pub weights: Vec<(String, u16)>,
    /// Reads that always go to the primary.
    pub primary_commands: Vec<CommandId>,
}

impl Reads {
    /// The zone of a node: what the configuration says of its address, else of its host, else what the server told.
    pub fn zone_of<'a>(&'a self, node: &'a crate::node::Node) -> &'a str {
        said_of(&self.zones, node).unwrap_or(&node.zone)
    }

    /// The weight of a node.
    pub fn weight_of(&self, node: &crate::node::Node) -> u16 {
        said_of(&self.weights, node).copied().unwrap_or(1)
    }
}

/// What a table says of a node: of its label, else of its host.
fn said_of<'a, T>(table: &'a [(String, T)], node: &crate::node::Node) -> Option<&'a T> {
    let said = |name: &str| table.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let host = || match &node.address {
        Address::Tcp { host, .. } => said(host),
        Address::Unix(_) => None,
    };
    said(&node.label).or_else(host)
}

/// How respool shows itself to clients that know clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facade {
    /// As a cluster; else as a server that is none.
    pub on: bool,
    /// Addresses of its nodes: of this respool and others with the same servers behind. Empty: the address that a client connected to.
    pub announce: Vec<Address>,
    /// Where this respool listens itself: an announced address that stands here is not asked whether it lives. One that we cannot tell to be
    /// ours (we listen on all interfaces) is asked, which does no harm: we answer.
    pub listens: Vec<Address>,
    /// Its nodes speak TLS, with each other too.
    pub tls: bool,
}

/// Keys spread over several pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardsSettings {
    /// Which key goes where.
    pub sharding: Sharding,
    /// The pools, in the order of the configuration.
    pub children: Vec<ShardSettings>,
    /// When a shard that fails is left out; `None`: never, its keys get errors until it is back.
    pub eject: Option<Eject>,
}

/// When a shard that fails is left out of the distribution, and how it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eject {
    /// Failures within the window at which a shard is left out; 1 at least.
    pub failures: u32,
    /// How long a failure counts.
    pub window_ms: u64,
    /// How often a shard that is left out is probed; it takes part again when a probe is answered.
    pub probe_ms: u64,
}

/// One of several pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSettings {
    /// Its name and weight, as the distribution looks at it.
    pub shard: Shard,
    /// How its servers are greeted, and where the one is of a standalone pool.
    pub node: Node,
    /// How its servers belong together.
    pub pool: Pool,
}

/// Another deployment that gets what clients write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSettings {
    /// As logs and reports call it.
    pub name: String,
    /// How its servers are greeted, and where the one is of a standalone deployment.
    pub node: Node,
    /// How its servers belong together.
    pub pool: Pool,
    /// The database that clients of the proxy begin in: its writes go to that of `node`, those of others to the same number.
    pub outer_db: u32,
    /// What clients wait for.
    pub mode: Mode,
    /// It gets writes of keys that match one of these glob patterns; empty: of all.
    pub keys: Vec<Vec<u8>>,
    /// Of these so many in a hundred, by the hash of the key; 100 at most.
    pub percent: u8,
    /// Bytes of writes that it has not answered. One that does not fit is dropped and counted.
    pub queue_max_bytes: usize,
    /// `FLUSHALL` and `FLUSHDB` go to it as well.
    pub flush: bool,
    /// Of a hundred reads whose keys it gets so many are asked of it, too, and compared; 0: none.
    pub shadow_percent: u8,
    /// The report on differences shows values.
    pub shadow_samples: bool,
    /// Times to live that lie no further apart are equal, in milliseconds.
    pub shadow_ttl_ms: u64,
}

/// Other deployments that answer what clients read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadsElsewhere {
    /// At most `limits::READ_TARGETS_MAX`; none: all is read from the upstream.
    pub targets: Vec<ReadTargetSettings>,
    /// Who is asked first.
    pub order: Order,
    /// Reads of keys that match one of these glob patterns; empty: of all.
    pub keys: Vec<Vec<u8>>,
    /// Of these so many in a hundred; 100 at most.
    pub percent: u8,
    /// Only of keys that a worker is asked for so often within a second; 0: of all.
    pub hot_per_s: u64,
    /// Somebody else is asked after this time without an answer, in milliseconds.
    pub timeout_ms: u64,
    /// With [`Order::Main`]: a target is asked, too, if the upstream has not answered for so long, in milliseconds; 0: none is.
    pub hedge_after_ms: u64,
    /// Of a hundred reads so many may be asked of a target since the upstream took long.
    pub hedge_percent: u8,
    /// Bytes of reads that one target has not answered. One that does not fit is asked of somebody else.
    pub inflight_max_bytes: usize,
}

impl Default for ReadsElsewhere {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            order: Order::Targets,
            keys: Vec::new(),
            percent: 100,
            hot_per_s: 0,
            timeout_ms: 500,
            hedge_after_ms: 0,
            hedge_percent: 5,
            inflight_max_bytes: 4 << 20,
        }
    }
}

/// Another deployment that answers what clients read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTargetSettings {
    /// As logs and reports call it.
    pub name: String,
    /// How its servers are greeted, and where the one is of a standalone deployment.
    pub node: Node,
    /// How its servers belong together.
    pub pool: Pool,
    /// The database that clients of the proxy begin in: its reads go to that of `node`, those of others to the same number.
    pub outer_db: u32,
}

/// Configured bounds. Each doc line says what happens at it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Clients of this worker. One more gets `-ERR max number of clients reached` and is closed, as Redis does.
    pub clients_max: usize,
    /// Reply bytes waiting for one client: above, it is not read (its pipeline is slowed).
    pub client_out_high_bytes: usize,
    /// Reply bytes waiting for one client while others wait behind it on an upstream and it takes some: at it that upstream is not read.
    pub client_out_max_bytes: usize,
    /// Request bytes of one client that wait here: above, it is not read.
    pub client_in_high_bytes: usize,
    /// Unanswered requests of one client: at it, it is not read.
    pub client_inflight_max: u32,
    /// Request bytes waiting for one upstream: above, clients that want to send there wait.
    pub upstream_out_high_bytes: usize,
    /// All buffered bytes of this worker: above, the client with the most is closed, again until it fits.
    pub memory_max_bytes: usize,
    /// From here on a request is streamed over an upstream of its own.
    pub large_request_bytes: u64,
    /// From here on a reply is large: the next request of its kind goes over a connection for those (see `large_replies`).
    pub large_reply_bytes: u64,
    /// Large requests under way at once; more of them wait their turn.
    pub large_transfers_max: usize,
    /// Connections that clients of this worker have of their own (transactions, blocking commands). At it a further one waits its turn, and
    /// gets an error after the request timeout.
    pub leases_max: usize,
    /// Idle connections that are kept ready for the next of them, at each server that had one: in the database that clients begin in they
    /// stay, in others for as long as a client is there. Together with the other idle ones at most `limits::SPARES_MAX`.
    pub leases_min: usize,
    /// Connections that clients of this worker have of their own since they cache with NOLOOP: one to each server. At it CLIENT TRACKING with
    /// NOLOOP is refused.
    pub noloop_conns_max: usize,
    /// Upstreams of this worker to one server (databases × protocols, large requests). At it a further one is refused with an error.
    pub upstreams_max: usize,
    /// Shared upstreams of this worker to all servers together. At it a further one is refused with an error. `usize::MAX`: without a bound.
    pub shared_conns_max: usize,
    /// Shared connections of this worker to one server, for each protocol and database in use; 1 at least. Clients are spread evenly over
    /// them, and each keeps to the same ones.
    pub shared_conns: u16,
    /// One argument of a request; above, `-ERR Protocol error: invalid bulk length` and a close (Redis' `proto-max-bulk-len`).
    pub bulk_bytes_max: u64,
}

/// Configured times, in milliseconds.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// From the begin of a connect to the end of the greeting; where a shared connection to the server stands, the greeting has `request_ms`.
    pub connect_ms: u64,
    /// An upstream that owes a reply and gives nothing for this time is closed (0: never).
    pub request_ms: u64,
    /// A client that has to say who it is and has not for this time is closed (0: never).
    pub auth_ms: u64,
    /// A client that says nothing for this time and waits for nothing is closed (0: never).
    pub client_idle_ms: u64,
    /// A client that takes none of its replies for this time counts as one that does not read: nobody waits for it any more, and it may write on.
    pub stall_ms: u64,
    /// So long a request waits for an owner of its slot, after the start or after the cluster was last whole.
    pub topology_wait_ms: u64,
    /// The table of a cluster is asked for at least so often (0: only when there is a sign that it is stale).
    pub topology_period_ms: u64,
    /// So long a request waits while its slot's primary is down, for another one to take over (0: it fails at once).
    pub failover_hold_ms: u64,
    /// A shared upstream that was quiet for so long is asked with `PING` (0: never).
    pub ping_ms: u64,
    /// The names of servers are resolved again so often while we are connected, and connections to an address that a name no longer has are
    /// given up (0: only on connect). The caller's to do ([`crate::Engine::handle_upstream_moved`]).
    pub resolve_ms: u64,
    /// First wait after a failed connect; it doubles with each further failure.
    pub reconnect_min_ms: u64,
    /// Longest wait between two connects.
    pub reconnect_max_ms: u64,
    /// A mirror that is one no more gets what waits for it for so long.
    pub drain_ms: u64,
}

/// Everything that an engine is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of this worker, from 0.
    pub worker: u32,
    /// Options that stand otherwise in the file and wait for a restart, for INFO.
    pub pending: Vec<&'static str>,
    /// Number of workers; client ids are spread over them so that they are unique.
    pub workers: u32,
    /// The server behind, or how each of them is greeted where there are several.
    pub node: Node,
    /// How the servers behind belong together.
    pub pool: Pool,
    /// What to connect to instead of addresses that servers tell.
    pub address_map: AddressMap,
    /// What clients see of the loss of a server.
    pub on_upstream_loss: OnLoss,
    /// Which copy answers reads.
    pub reads: Reads,
    /// How respool shows itself to clients that know clusters.
    pub facade: Facade,
    /// Several pools instead of `pool`; `node` then says only in which database clients start.
    pub shards: Option<ShardsSettings>,
    /// Who clients can be, and what they may do then.
    pub users: Arc<Users>,
    /// Bounds.
    pub limits: Limits,
    /// Times.
    pub timeouts: Timeouts,
    /// Equal reads of several clients that are sent together are sent once.
    pub coalesce_reads: bool,
    /// Replies that are kept.
    pub cache: near::Options,
    /// The slow log.
    pub slowlog: slowlog::Options,
    /// Latency monitors, at most `limits::LATENCY_MONITORS_MAX`; the same for all workers.
    pub monitors: Vec<MonitorOptions>,
    /// Keys that come often.
    pub hotkeys: hotkeys::Options,
    /// Requests and replies that are large.
    pub bigkeys: bigkeys::Options,
    /// Requests that are told one by one.
    pub observed: observed::Options,
    /// What is refused, slowed or changed of requests; the same for all workers. `None`: nothing.
    pub policies: Option<Arc<Policies>>,
    /// Other deployments that get what clients write. At most `limits::MIRRORS_MAX`, and with them `workers` is 1.
    pub mirrors: Vec<MirrorSettings>,
    /// Other deployments that answer what clients read.
    pub elsewhere: ReadsElsewhere,
    /// Unix time when the clock of the events stood at 0, in microseconds. For what is shown with a date.
    pub unix_ahead_us: u64,
    /// Whose engine it is; `None`: there are no tenants.
    pub tenancy: Option<Tenancy>,
    /// Who is no user of the proxy may be one of the servers (see `login`).
    pub pass_through: bool,
    /// The login that all clients of the engine have at the servers; `None`: it is the engine of a tenant.
    pub login: Option<Arc<Login>>,
}

impl Settings {
    /// When shards are left out, if they are.
    pub(crate) fn eject(&self) -> Option<Eject> {
        self.shards.as_ref().and_then(|shards| shards.eject)
    }

    /// Whether something is to be looked at in every request, whoever sends it: for a policy, for mirrors, or for read targets.
    pub(crate) fn looks_at_requests(&self) -> bool {
        let policies = self.policies.as_ref().is_some_and(|policies| policies.are_about_requests());
        policies || !self.mirrors.is_empty() || !self.elsewhere.targets.is_empty()
    }

    /// Whether this is the worker that acts for all where one is enough. Of a login none does: its tenant's engines act for it, which may more.
    pub(crate) fn is_first(&self) -> bool {
        self.worker == 0 && self.login.is_none()
    }
}

/// What a client sees whose request went with a server, or finds none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// An error reply that names the server and the cause.
    #[default]
    Error,
    /// The end of its connection, as without a proxy.
    Close,
}

impl OnLoss {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Error, Self::Close];
    /// Their names in the configuration.
    pub const NAMES: [&'static str; 2] = ["error", "close"];
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients_max: 10_000,
            client_out_high_bytes: 1 << 20,
            client_out_max_bytes: 16 << 20,
            client_in_high_bytes: 1 << 20,
            client_inflight_max: 16_384,
            upstream_out_high_bytes: 4 << 20,
            memory_max_bytes: 1 << 30,
            large_request_bytes: 256 << 10,
            large_reply_bytes: 1 << 20,
            large_transfers_max: 16,
            leases_max: 1_024,
            noloop_conns_max: 1_024,
            leases_min: 0,
            upstreams_max: 256,
            shared_conns_max: usize::MAX,
            shared_conns: 1,
            bulk_bytes_max: 512 << 20,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_ms: 1_000,
            request_ms: 10_000,
            auth_ms: 0,
            client_idle_ms: 0,
            stall_ms: 20,
            topology_wait_ms: 2_000,
            topology_period_ms: 10_000,
            failover_hold_ms: 0,
            ping_ms: 0,
            resolve_ms: 1_000,
            reconnect_min_ms: 50,
            reconnect_max_ms: 1_000,
            drain_ms: 10_000,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            worker: 0,
            pending: Vec::new(),
            workers: 1,
            node: Node {
                address: Address::tcp("127.0.0.1", 6379),
                user: None,
                password: None,
                db: 0,
                client_name: Vec::new(),
                tls: false,
            },
            pool: Pool::Standalone,
            address_map: AddressMap::default(),
            reads: Reads::default(),
            on_upstream_loss: OnLoss::default(),
            facade: Facade::default(),
            shards: None,
            users: Arc::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            coalesce_reads: false,
            cache: near::Options::default(),
            slowlog: slowlog::Options::default(),
            monitors: Vec::new(),
            hotkeys: hotkeys::Options::default(),
            bigkeys: bigkeys::Options::default(),
            observed: observed::Options::default(),
            policies: None,
            mirrors: Vec::new(),
            elsewhere: ReadsElsewhere::default(),
            unix_ahead_us: 0,
            tenancy: None,
            pass_through: false,
            login: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_password_matches_itself_only_and_is_never_shown() {
        let password = Password::new(*b"secret");
        assert!(password.matches(b"secret"));
        for wrong in [&b"secre"[..], b"secrets", b"", b"Secret", b"secret\0"] {
            assert!(!password.matches(wrong));
        }
        assert_eq!(format!("{password:?}"), "***");
    }
}
