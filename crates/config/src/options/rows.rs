//! The rows of the table.
//!
//! Data only: what a row is, and what is made of it, stands in the module above; what a kind of value does, in `kind`.
//!
//! Invariant: names are unique, and every field of [`crate::schema::Config`] has its row.

mod admin;
mod cache;
mod edges;
mod listen;
mod loss;
mod routes;
mod tables;
mod tls;

use super::{OptionSpec, mirrors, policies, read_targets, users};
use crate::compile::Draft;
use crate::kind::Kind;
use crate::schema::{Alarms, LogFormat, LogLevel, NetDriver, WORKERS_MAX};
use crate::sharding::{EJECT_FAILURES_MAX, Layout};
use engine::route::hash::Hash;
use engine::route::shard::Compat;
use engine::settings::ReadPolicy;
use std::sync::LazyLock;

pub use tables::TABLES;

/// The policies of `reads.policy`, and their names in the same order.
const READ_POLICIES: [ReadPolicy; 6] = [
    ReadPolicy::Primary,
    ReadPolicy::PreferReplica,
    ReadPolicy::Replica,
    ReadPolicy::Any,
    ReadPolicy::Nearest,
    ReadPolicy::Zone,
];
const READ_POLICY_NAMES: [&str; 6] =
    ["primary", "prefer-replica", "replica", "any", "nearest", "zone"];

/// An hour in milliseconds, and a day: the longest times that make sense here.
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Units of sizes.
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const GIB: usize = 1024 * MIB;

/// Milliseconds with bounds.
const fn ms(min: u64, max: u64, at: fn(&mut Draft) -> &mut u64) -> Kind {
    Kind::Time { unit: "milliseconds", min, max, at }
}

/// The engine's names of former proxies and of hashes, in its order.
static COMPATS: LazyLock<Vec<&str>> = LazyLock::new(|| Compat::all().map(Compat::name).collect());
static HASHES: LazyLock<Vec<&str>> = LazyLock::new(|| Hash::all().map(Hash::name).collect());

/// All options, in the order of the documents.
pub static OPTIONS: &[OptionSpec] = &joined::<{ count(GROUPS) }>(GROUPS);

const GROUPS: &[&[OptionSpec]] = &[
    SERVERS,
    listen::ROWS,
    REST,
    routes::ROWS,
    policies::ROWS,
    tls::ROWS,
    admin::ROWS,
    edges::ROWS,
    mirrors::ROWS,
    read_targets::ROWS,
];

const fn count(groups: &[&[OptionSpec]]) -> usize {
    let (mut at, mut sum) = (0, 0);
    while at < groups.len() {
        sum += groups[at].len();
        at += 1;
    }
    sum
}

/// The rows of all groups, one behind the other; `N` is their [`count`].
const fn joined<const N: usize>(groups: &[&[OptionSpec]]) -> [OptionSpec; N] {
    let mut rows = [groups[0][0]; N];
    let (mut group, mut at, mut row) = (0, 0, 0);
    while group < groups.len() {
        if at < groups[group].len() {
            rows[row] = groups[group][at];
            (at, row) = (at + 1, row + 1);
        } else {
            (group, at) = (group + 1, 0);
        }
    }
    rows
}

/// What is behind the proxy.
const SERVERS: &[OptionSpec] = &[
    OptionSpec::new(
        "upstream",
        "The server behind the proxy, or a cluster, or the sentinels of a server",
        "In user and password \
         the characters `/ ? # & @ : %` are percent-encoded. A name is resolved again on each connect. Of a cluster's nodes, and of \
         sentinels (port 26379 if none is given), one that lives is enough: it tells the others. `redis-sentinel://` has the name \
         of the server at the sentinels for a path; user and password before the hosts are those of the server, `sentinel_user` and \
         `sentinel_password` those of the sentinels. Passwords are better kept out of the command line, where every user of the \
         machine can read them: see `upstream_password_file`. Either this or `sharding.shards` must be given.",
        Kind::Upstream { at: |d| &mut d.upstream },
    )
    .short('u')
    .default_note("none, this or `sharding.shards` must be given"),
    OptionSpec::new(
        "upstream_user",
        "ACL user to log in with at the server",
        "Takes the place of a user in the URL. Needs a password as well. With `sharding.shards` it is for those whose URL has neither \
         user nor password.",
        Kind::Text { at: |d| &mut d.upstream_user },
    ),
    OptionSpec::new(
        "upstream_password",
        "Password to log in with at the server",
        "Takes the place of a password in the URL. With `sharding.shards` it is for those whose URL has neither user nor password.",
        Kind::Secret { at: |d| &mut d.upstream_password },
    ),
    OptionSpec::new(
        "upstream_password_file",
        "File that holds the password to log in with at the server",
        "Read at the start and with the configuration; one newline at the end does not count. Relative paths start at the working directory.",
        Kind::Path { at: |d| &mut d.config.upstream_password_file },
    ),
    OptionSpec::new(
        "sentinel_user",
        "ACL user to log in with at sentinels",
        "Takes the place of `sentinel_user` in the URL. Needs a password as well. With `sharding.shards` it is for those whose URL has \
         neither `sentinel_user` nor `sentinel_password`.",
        Kind::Text { at: |d| &mut d.sentinel_user },
    ),
    OptionSpec::new(
        "sentinel_password",
        "Password to log in with at sentinels",
        "Takes the place of `sentinel_password` in the URL. With `sharding.shards` it is for those whose URL has neither `sentinel_user` \
         nor `sentinel_password`.",
        Kind::Secret { at: |d| &mut d.sentinel_password },
    ),
    OptionSpec::new(
        "sentinel_password_file",
        "File that holds the password to log in with at sentinels",
        "Read at the start and with the configuration; one newline at the end does not count. Relative paths start at the working directory.",
        Kind::Path { at: |d| &mut d.config.sentinel_password_file },
    ),
    OptionSpec::new(
        "address_map",
        "What to connect to instead of addresses that servers tell",
        "For clusters and sentinels whose nodes know each other by addresses that cannot be reached from here: behind NAT, in containers. \
         Holds for what `CLUSTER SLOTS`, `MOVED`, `ASK` and sentinels tell, not for addresses of the configuration. Names are compared as \
         the servers tell them. An address is replaced once; one with its port wins over its host. Where a server names no host, the \
         one that it was asked at counts. In the file also as a table of its own, `[address_map]`.",
        Kind::AddressMap { at: |d| &mut d.config.address_map },
    ),
    loss::ON_UPSTREAM_LOSS,
];

/// How the process is run, and everything that has a table of its own.
const REST: &[OptionSpec] = &[
    OptionSpec::new(
        "workers",
        "Worker threads",
        "Each serves its share of the clients and has its own connections to the server. One worker can serve some \
         hundred thousand requests a second; more of them than cores do harm.",
        Kind::Count { min: 1, max: WORKERS_MAX, at: |d| &mut d.config.workers },
    )
    .needs_restart()
    .short('w')
    .default_note("the number of `cpus` if given, otherwise of available cores"),
    OptionSpec::new(
        "cpus",
        "CPUs to pin the workers to",
        "Numbers or ranges: `[0, 2]`, `[\"0-3\"]`; on the command line `0-3,6`. Worker i goes to the i-th of them, and around again. \
         Empty: the system decides.",
        Kind::Cpus { at: |d| &mut d.config.cpus },
    )
    .needs_restart(),
    OptionSpec::new(
        "driver",
        "What of the kernel the workers wait with for sockets",
        "`uring` (io_uring) needs Linux 6.1; where the kernel or a container forbids it, a line of the log says why and `epoll` is used. \
         `auto` is `epoll` on every kernel, as io_uring was measured to cost as much.",
        Kind::Choice {
            names: || &NetDriver::NAMES,
            set: |d, i| d.config.driver = NetDriver::ALL[i],
            index: |d| Some(d.config.driver as usize),
        },
    )
    .needs_restart(),
    OptionSpec::new(
        "password",
        "Password that clients must present with AUTH",
        "Better kept in `password_file`: the command line can be read by every user of the machine.",
        Kind::Secret { at: |d| &mut d.config.password },
    ),
    OptionSpec::new(
        "password_file",
        "File that holds the password that clients must present",
        "Read at the start and with the configuration; one newline at the end does not count. Relative paths start at the working directory.",
        Kind::Path { at: |d| &mut d.config.password_file },
    ),
    OptionSpec::new(
        "watch_config",
        "Take over changes of the configuration file, and of files that it names, at run time",
        "respool reads the configuration again, as with SIGHUP, when one of these files is written or a link to it is swapped: the configuration file, \
         certificates and their keys, files that hold a secret, programs of `policies.own`. A wrong file changes nothing, and the log names its faults. See the [operations guide](../guides/operations.md#other-settings-while-it-runs).",
        Kind::Switch { at: |d| &mut d.config.watch_config },
    ),
    OptionSpec::new(
        "protected_mode",
        "Refuse to listen beyond this machine without a password",
        "A user with `nopass` counts as no password. A unix socket that every user of the machine may write to (mode `0777`) counts as beyond \
         this machine. Set it to `false` for networks that something else protects.",
        Kind::Switch { at: |d| &mut d.config.protected_mode },
    ),
    OptionSpec::for_trusted_clients(
        "client_name_upstream",
        "Name of our connections on the server",
        "What `CLIENT LIST` shows there. Printable ASCII without spaces; empty: no name is set.",
        Kind::ClientName { at: |d| &mut d.config.client_name_upstream },
    ),
    OptionSpec::new(
        "sharding.shards",
        "The shards: URLs with weight and name, or server lines of another proxy",
        "A URL has any of the forms of `upstream`; behind it can stand `weight=N` (1 if not given), `name=TEXT`, and \
         `password_file=PATH` and `sentinel_password_file=PATH` with its own passwords. A server line is \
         `host:port:weight name` as in the lists of twemproxy and overlord, to be copied as it is. With ketama, and with modula in \
         twemproxy's way, names decide which keys a shard has, so they must stay what they were; without one a server is named by its \
         address as twemproxy (overlord) names it, a server with sentinels by its name there, and a cluster needs one. In the \
         environment and on the command line shards are separated by semicolons, and the flag may be repeated. All shards must be in \
         the same database, so with a cluster among them in 0.",
        Kind::Shards { at: |d| &mut d.sharding.entries },
    ),
    OptionSpec::new(
        "sharding.compat",
        "The proxy whose rules hold where proxies of the same settings differ",
        "Set it to the one that stored the keys. `twemproxy-arm` is twemproxy on machines where C's `char` has no sign; it differs for \
         keys with bytes from 0x80 up. For a new pool any will do.",
        Kind::Choice {
            names: || COMPATS.as_slice(),
            set: |d, i| d.sharding.compat = Compat::all().nth(i).unwrap_or_default(),
            index: |d| Compat::all().position(|compat| compat == d.sharding.compat),
        },
    ),
    OptionSpec::new(
        "sharding.distribution",
        "How hashes are laid out over the shards",
        "`ketama` is a ring made of the shards' names, on which a shard that comes or goes moves only its own share; `modula` the \
         remainder by the sum of the weights; `buckets` the remainder by the number of buckets, see `sharding.buckets`; `random` any \
         shard for each request, for caches that hold the same everywhere.",
        Kind::Choice {
            names: || &Layout::NAMES,
            set: |d, i| d.sharding.distribution = Layout::ALL.get(i).copied(),
            index: |d| d.sharding.distribution.map(|layout| layout as usize),
        },
    )
    .default_note("that of `sharding.compat`: ketama for twemproxy and overlord, buckets for camellia; predixy has none"),
    OptionSpec::new(
        "sharding.hash",
        "The hash of a key",
        "Several are not what their name says elsewhere, but what the proxies make of them. `atol` is predixy's, `java31` camellia's \
         default.",
        Kind::Choice {
            names: || HASHES.as_slice(),
            set: |d, i| d.sharding.hash = Hash::all().nth(i),
            index: |d| d.sharding.hash.and_then(|hash| Hash::all().position(|known| known == hash)),
        },
    )
    .default_note("that of `sharding.compat`: fnv1a_64 for twemproxy and overlord, java31 for camellia; predixy has none"),
    OptionSpec::new(
        "sharding.hash_tag",
        "The two characters of a hash tag: only what stands between them is hashed",
        "So that keys with the same tag are on the same shard. Empty: tags are not heeded.",
        Kind::HashTag { at: |d| &mut d.sharding.tag },
    )
    .default_note("that of `sharding.compat`: \"{}\" for overlord, nothing for the others"),
    OptionSpec::new(
        "sharding.buckets",
        "The buckets of each shard, for the distribution `buckets`",
        "As camellia writes them, `\"0-2-4\"`, one list for each shard in their order. Each number from 0 to the highest occurs once.",
        Kind::Buckets { at: |d| &mut d.sharding.buckets },
    ),
    OptionSpec::new(
        "sharding.eject.failures",
        "Failures within `sharding.eject.window_ms` at which a shard is left out",
        "Connects that fail, connections that are lost with requests under way, and replies that are overdue.",
        Kind::Count { min: 1, max: EJECT_FAILURES_MAX, at: |d| &mut d.sharding.eject.failures },
    ),
    OptionSpec::new(
        "sharding.eject.window_ms",
        "How long a failure counts",
        "",
        ms(1, HOUR_MS, |d| &mut d.sharding.eject.window_ms),
    ),
    OptionSpec::new(
        "sharding.eject.probe_ms",
        "How often a shard that is left out is probed",
        "It takes part again when a probe was answered.",
        ms(10, HOUR_MS, |d| &mut d.sharding.eject.probe_ms),
    ),
    OptionSpec::for_trusted_clients(
        "reads.policy",
        "Who answers requests that only read",
        "`prefer-replica`: replicas in turn, the primary while none is fit; `replica`: replicas only; `any`: primary and replicas in turn; \
         `nearest`: whoever answers fastest; `zone`: replicas of `reads.zone`, else the primary if it is there, else any replica. With \
         all but `primary` a client may read what is a little older than what it wrote.",
        Kind::Choice {
            names: || &READ_POLICY_NAMES,
            set: |d, i| d.config.reads.policy = READ_POLICIES.get(i).copied().unwrap_or_default(),
            index: |d| READ_POLICIES.iter().position(|policy| *policy == d.config.reads.policy),
        },
    ),
    OptionSpec::for_trusted_clients(
        "reads.lag_max",
        "A replica that is behind its primary by more bytes is passed over; 0: however far",
        "Known once a second, from the nodes' own word (`ROLE`). One that has lost its primary, or loads, is passed over in any case.",
        Kind::Bytes { min: 0, max: GIB, at: |d| &mut d.config.reads.lag_max },
    ),
    OptionSpec::for_trusted_clients(
        "reads.zone",
        "Zone of this respool, for the policy `zone`",
        "Servers tell theirs from Valkey 8.1 on (`availability-zone`).",
        Kind::Text { at: |d| &mut d.config.reads.zone },
    ),
    OptionSpec::for_trusted_clients(
        "reads.zones",
        "Zones of servers, for the policy `zone`",
        "For servers that do not tell theirs, or tell a wrong one. By the address that respool connects to, or by its host; an address \
         with its port wins. In the file also as a table of its own, `[reads.zones]`.",
        Kind::Zones { at: |d| &mut d.config.reads.zones },
    ),
    OptionSpec::for_trusted_clients(
        "reads.weights",
        "How many reads servers get, compared with each other",
        "A server that is not named has the weight 1; one with 0 gets reads only while no other is fit. For the policies that take turns \
         (`prefer-replica`, `replica`, `any`, `zone`). By the address that respool connects to, or by its host; an address with its port \
         wins. In the file also as a table of its own, `[reads.weights]`.",
        Kind::Weights { at: |d| &mut d.config.reads.weights },
    ),
    OptionSpec::for_trusted_clients(
        "reads.primary_commands",
        "Commands that always go to the primary, though they only read",
        "For what must not be older than the last write. One with subcommands stands for all of them.",
        Kind::Commands { at: |d| &mut d.config.reads.primary_commands },
    ),
    OptionSpec::new(
        "facade.cluster",
        "Whether respool shows itself as a cluster",
        "For client libraries in cluster mode. Off: `CLUSTER` is answered as by a server that is no cluster, wherever there are several \
         servers behind.",
        Kind::Switch { at: |d| &mut d.config.facade.cluster },
    ),
    OptionSpec::new(
        "facade.announce",
        "Addresses of the nodes that are shown, each with an equal share of the slots",
        "Those of this respool and of others in front of the same servers, the same list in each. One where nobody answers gets no slots \
         until somebody does again. Empty: one node, at the address that the client connected to.",
        Kind::Announce { at: |d| &mut d.config.facade.announce },
    ),
    users::USERS,
    users::FILE,
    users::UNCHECKED_SCRIPTS,
    users::PASS_THROUGH,
    users::BY_PASSWORD,
    users::CONFIG_SET,
    OptionSpec::for_trusted_clients(
        "timeouts.connect_ms",
        "Time for a connect, including the server's answer to our greeting",
        "Where a shared connection to the server stands, a new one is given `timeouts.request_ms` for the greeting: a server that a script or \
         a slow command keeps busy greets nobody meanwhile.",
        ms(1, HOUR_MS, |d| &mut d.config.timeouts.connect_ms),
    ),
    OptionSpec::for_clients(
        "timeouts.request_ms",
        "Time from sending a request to its reply; 0: no limit",
        "A reply that is overdue closes its upstream connection, and every request that waits there gets an error: a \
         late reply can so never reach the wrong client.",
        ms(0, DAY_MS, |d| &mut d.config.timeouts.request_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.proxy_header_ms",
        "Time for the header of a client, at a listener with `proxy_protocol=on`",
        "A client that has not sent all of it by then is closed.",
        ms(1, HOUR_MS, |d| &mut d.config.timeouts.proxy_header_ms),
    ),
    OptionSpec::new(
        "timeouts.auth_ms",
        "Time in which a client must log in, where it must; 0: no limit",
        "From its connect, or from a `RESET` that ends its login, to an `AUTH` or `HELLO` that is right. One that has not by then is closed, and counted as refused (`auth_late`). Where \
         clients need no password nobody is closed.",
        ms(0, HOUR_MS, |d| &mut d.config.timeouts.auth_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.client_idle_ms",
        "Silence after which a client that waits for nothing is closed; 0: never",
        "",
        ms(0, 7 * DAY_MS, |d| &mut d.config.timeouts.client_idle_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.lame_duck_ms",
        "Time between SIGTERM and the drain, in which clients are still accepted",
        "`/readyz` says no from SIGTERM on, so that a load balancer sends nobody here any more before connections are refused: somewhat longer than it \
         takes it to notice. 0: the drain begins at once, as with SIGINT always. A second signal begins it, too.",
        ms(0, HOUR_MS, |d| &mut d.config.timeouts.lame_duck_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.drain_ms",
        "Time that requests in flight get when the program is asked to stop",
        "After SIGTERM (and `timeouts.lame_duck_ms`) or SIGINT nothing new is accepted. A further signal stops at once. Tenants and mirrors that a new configuration does not have any more get as long, too.",
        ms(0, HOUR_MS, |d| &mut d.config.timeouts.drain_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.stall_ms",
        "How long a client may take none of its replies until it counts as one that does not read",
        "Then the upstream connection that it shares with others is read on for them and its replies are kept; and if it is held with requests that we have not read, it may have twice as many replies \
         waiting, and again after the same time: it writes its whole pipeline before it reads. All within `limits.memory_max_bytes`.",
        ms(10, HOUR_MS, |d| &mut d.config.timeouts.stall_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.topology_wait_ms",
        "How long a request waits while no node of the cluster owns its slot, or no sentinel names the server",
        "At the start, and after the cluster was last whole or the server last known. Then it gets an error, that of a cluster its own \
         CLUSTERDOWN.",
        ms(0, HOUR_MS, |d| &mut d.config.timeouts.topology_wait_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.topology_period_ms",
        "How often the slots of a cluster are asked for without a sign that they changed; 0: never",
        "Signs are redirects, lost connections and nodes that do not answer. Sentinels, which also tell of changes themselves, are \
         asked once a second unless this is 0.",
        ms(0, HOUR_MS, |d| &mut d.config.timeouts.topology_period_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.failover_hold_ms",
        "How long a request waits while the primary that it is for is down and may have a successor; 0: it fails at once",
        "With a cluster or sentinels behind. With more than they need to promote a replica (`cluster-node-timeout` and a second or two; \
         `down-after-milliseconds` and some more), clients see a pause instead of errors. Requests that were under way to the lost node still get an error, unless they only read.",
        ms(0, HOUR_MS, |d| &mut d.config.timeouts.failover_hold_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.ping_ms",
        "Silence after which a shared connection to a server is asked with PING; 0: never",
        "Finds a server that hangs, or a network that lost the connection without a word, before a request has to.",
        ms(0, HOUR_MS, |d| &mut d.config.timeouts.ping_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.resolve_ms",
        "How often names of servers are resolved again; 0: only on connect",
        "When the address behind a name has changed, connections to the old one are replaced.",
        ms(0, HOUR_MS, |d| &mut d.config.timeouts.resolve_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.tcp_keepalive_s",
        "Silence after which the kernel probes a TCP peer; 0: no probes",
        "",
        Kind::Time { unit: "seconds", min: 0, max: 32_767, at: |d| &mut d.config.timeouts.tcp_keepalive_s },
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.reconnect_min_ms",
        "Wait before the first attempt to connect again",
        "It doubles with each failure, with some randomness, up to `timeouts.reconnect_max_ms`, and counts from the beginning of the \
         attempt.",
        ms(1, HOUR_MS, |d| &mut d.config.timeouts.reconnect_min_ms),
    ),
    OptionSpec::for_trusted_clients(
        "timeouts.reconnect_max_ms",
        "Longest wait between two attempts to connect",
        "Not below `timeouts.reconnect_min_ms`. So long a server that is well again may go unnoticed.",
        ms(1, HOUR_MS, |d| &mut d.config.timeouts.reconnect_max_ms),
    ),
    OptionSpec::for_trusted_clients(
        "limits.client_out_high_bytes",
        "Unsent replies from which a client is not read until they shrink",
        "One that takes none of them for `timeouts.stall_ms` has more to write before it reads, and may have more of them waiting.",
        Kind::Bytes { min: 4 * KIB, max: GIB, at: |d| &mut d.config.limits.client_out_high_bytes },
    ),
    OptionSpec::for_trusted_clients(
        "limits.client_out_max_bytes",
        "Unsent replies of one client at which an upstream that others wait on is not read for it",
        "For a client that takes nothing for `timeouts.stall_ms` it is read all the same, and one that takes so little that others wait for `timeouts.request_ms` is closed. Subscribers are closed at it. Not below `limits.client_out_high_bytes` and not above `limits.memory_max_bytes`.",
        Kind::Bytes { min: 64 * KIB, max: 64 * GIB, at: |d| &mut d.config.limits.client_out_max_bytes },
    ),
    OptionSpec::for_trusted_clients(
        "limits.client_in_high_bytes",
        "Waiting request bytes from which a client is not read until they shrink",
        "",
        Kind::Bytes { min: 4 * KIB, max: GIB, at: |d| &mut d.config.limits.client_in_high_bytes },
    ),
    OptionSpec::for_trusted_clients(
        "limits.client_inflight_max",
        "Requests of one client that may wait for their replies",
        "At the bound the client is not read: a deeper pipeline is slowed, not cut.",
        Kind::Count { min: 1, max: 1_048_576, at: |d| &mut d.config.limits.client_inflight_max },
    ),
    OptionSpec::for_trusted_clients(
        "limits.upstream_out_high_bytes",
        "Unsent requests on an upstream connection from which its clients are not read",
        "",
        Kind::Bytes { min: 64 * KIB, max: 4 * GIB, at: |d| &mut d.config.limits.upstream_out_high_bytes },
    ),
    OptionSpec::for_trusted_clients(
        "limits.memory_max_bytes",
        "Memory for clients, of the whole process",
        "Counts all that is held for clients: buffers, replies that are collected, connections of their own, topics, tracked keys, TLS, the \
         near cache. Each worker has an equal part. Above it the near cache gives way, then the client that causes most is closed first. \
         See [operations](../guides/operations.md#memory).",
        Kind::Bytes { min: 16 * MIB, max: 1024 * GIB, at: |d| &mut d.config.limits.memory_max_bytes },
    )
    .default_note("half of the memory that the process may use (its control group, or the machine), at most 1GiB"),
    OptionSpec::for_trusted_clients(
        "limits.large_request_bytes",
        "Size from which a request goes over a connection of its own, streamed",
        "Not above `limits.bulk_bytes_max`. Where a rule or a mirror looks at keys and the request has not just one, among its first \
         arguments, the request is kept until it is whole instead, up to 64 MiB.",
        Kind::Bytes { min: 16 * KIB, max: 512 * MIB, at: |d| &mut d.config.limits.large_request_bytes },
    ),
    OptionSpec::for_trusted_clients(
        "limits.large_reply_bytes",
        "Size of a reply from which the next request of its kind goes over a connection beside the others",
        "So small requests do not wait for large replies. A request is known by its command and key, by its script, or by all its bytes, for a \
         minute.",
        Kind::Bytes { min: 32 * KIB, max: 512 * MIB, at: |d| &mut d.config.limits.large_reply_bytes },
    ),
    OptionSpec::for_trusted_clients(
        "limits.large_transfers_max",
        "Streamed requests at the same time",
        "More of them wait, and their clients are not read meanwhile. Clients of one user at one address get seven eighths at most.",
        Kind::Count { min: 1, max: 1024, at: |d| &mut d.config.limits.large_transfers_max },
    ),
    OptionSpec::for_trusted_clients(
        "limits.bulk_bytes_max",
        "Longest bulk string in a request",
        "What Redis calls proto-max-bulk-len.",
        Kind::Bytes { min: MIB, max: GIB, at: |d| &mut d.config.limits.bulk_bytes_max },
    ),
    OptionSpec::for_trusted_clients(
        "limits.conns_per_node",
        "Shared connections to one server, over all workers; 0: one for each worker",
        "For each protocol (RESP2, RESP3) and database in use. Clients are spread evenly over them, and each keeps to the same one of a \
         server, so that it reads what it wrote. Each worker has one at least, and all have as many: the number is rounded up to a \
         multiple of `workers`. More of them make batches smaller and so each request dearer; they help where one connection is what \
         limits, as a server with I/O threads or a network with a limit for each. Large requests and further databases need room below \
         `limits.upstream_conns_max` as well.",
        Kind::Count { min: 0, max: 65_536, at: |d| &mut d.config.limits.conns_per_node },
    ),
    OptionSpec::for_trusted_clients(
        "limits.upstream_conns_max",
        "Connections to one server, over all workers",
        "Not below the number of workers, which need one each, nor below `limits.conns_per_node`. Connections of clients with \
         `CLIENT TRACKING … BCAST`, one for each database, come on top: a quarter of this limit at most, and one for each worker at least.",
        Kind::Count { min: 1, max: 65_536, at: |d| &mut d.config.limits.upstream_conns_max },
    ),
    OptionSpec::for_trusted_clients(
        "limits.leases_max",
        "Connections that clients have of their own, over all workers",
        "For transactions and blocking commands, while these last. A client beyond it waits its turn, and gets an error after \
         `timeouts.request_ms`. Clients of one user at one address get seven eighths at most, and blocking commands leave one in eight to \
         transactions; clients that wait are served in turn by user and address. So one machine can block on three quarters of them. They \
         do not count for `limits.upstream_conns_max`; the server's own limit of clients must leave room.",
        Kind::Count { min: 1, max: 1_000_000, at: |d| &mut d.config.limits.leases_max },
    ),
    OptionSpec::for_trusted_clients(
        "limits.leases_min",
        "Idle ones of these that are kept ready at each server, for each worker",
        "From the first one on that a client took there, for each protocol and database in use. The next client then need not wait for a \
         connect, and others cannot overtake it meanwhile ([which order holds](../guides/operations.md#the-order-of-blocking-commands)). \
         Of one worker at most 32 connections are idle, over all servers.",
        Kind::Count { min: 0, max: 32, at: |d| &mut d.config.limits.leases_min },
    ),
    OptionSpec::for_trusted_clients(
        "limits.noloop_conns_max",
        "Connections of clients that cache with `NOLOOP`, over all workers",
        "Such a client has one of its own to each server (in RESP2 with `REDIRECT` two), for as long as it tracks, since the server tells its changes from those of others by the          connection. Beyond the limit `CLIENT TRACKING` with `NOLOOP` is refused, or a request to a server that came later; in `BCAST` mode the          client is closed then. Clients of one user at one address get seven eighths at most. They do not count for `limits.upstream_conns_max`.",
        Kind::Count { min: 1, max: 1_000_000, at: |d| &mut d.config.limits.noloop_conns_max },
    ),
    OptionSpec::for_clients(
        "slowlog.slower_than_us",
        "Requests that took so long, from being given on to their reply, stand in `SLOWLOG GET`",
        "",
        Kind::Time { unit: "microseconds", min: 0, max: 3_600_000_000, at: |d| &mut d.config.slowlog.slower_than_us },
    ),
    OptionSpec::for_trusted_clients(
        "slowlog.max_len",
        "Entries of the slow log that are kept, the newest; 0: none",
        "While the log is on, requests are kept until they are answered, so that an entry can show their arguments. What stands in it is \
         told by the [operations guide](../guides/operations.md#the-slow-log).",
        Kind::Count { min: 0, max: 1_000_000, at: |d| &mut d.config.slowlog.max_len },
    ),
    OptionSpec::for_clients(
        "latency.monitors",
        "Sets of commands whose times are counted in buckets of your own, for `INFO latency NAME`",
        "By a name the commands, taken in and out in this order (`+all`, `+get`, `-blpop`), and where the buckets end, in microseconds and growing: \
         `reads = \"+get +mget 200 500 1000\"`. Over all servers and for each. At most 16; without one nothing is counted. In the file also as a \
         table of its own, `[latency.monitors]`.",
        Kind::Monitors { at: |d| &mut d.config.latency_monitors },
    ),
    OptionSpec::for_clients(
        "hotkeys.enabled",
        "Count which keys come most often, from the start on",
        "`TOPKEYS ENABLE` and `TOPKEYS DISABLE` do it while respool runs, until it is started again. The \
         [operations guide](../guides/operations.md#hot-keys-and-big-keys) tells how to read what `TOPKEYS GET` shows.",
        Kind::Switch { at: |d| &mut d.config.hotkeys.enabled },
    ),
    OptionSpec::for_clients(
        "hotkeys.sample",
        "One request of so many is looked at; 1: each",
        "Fewer cost more and tell more exactly: a key that was looked at n times is estimated within 2/√n of its true count, \
         19 times out of 20.",
        Kind::Count { min: 1, max: 1_000_000, at: |d| &mut d.config.hotkeys.sample },
    ),
    OptionSpec::for_clients(
        "hotkeys.top",
        "Keys that are known of each window, for each worker",
        "All others are only estimated, so that one of them can take the place of one that is known.",
        Kind::Count { min: 1, max: 128, at: |d| &mut d.config.hotkeys.top },
    ),
    OptionSpec::for_clients(
        "hotkeys.window_s",
        "Length of the windows in which keys are counted",
        "What is shown is over the window that runs and the last whole one.",
        Kind::Time { unit: "seconds", min: 1, max: 3600, at: |d| &mut d.config.hotkeys.window_s },
    ),
    OptionSpec::for_trusted_clients(
        "hotkeys.min_per_s",
        "The log tells of a key that comes so often in a second, on average of a window; 0: never",
        "Once for each window and worker. Each worker judges by its share: this divided by `workers`.",
        Kind::Count { min: 0, max: 1_000_000_000, at: |d| &mut d.config.hotkeys.min_per_s },
    ),
    OptionSpec::for_clients(
        "bigkeys.bytes_min",
        "Requests and replies of so many bytes stand in `BIGKEYS GET`",
        "Bytes as they go over the wire, lengths and line ends included.",
        Kind::Bytes { min: 10 * KIB, max: 4 * GIB, at: |d| &mut d.config.bigkeys.bytes_min },
    ),
    OptionSpec::for_clients(
        "bigkeys.elements_min",
        "Those of so many elements stand there, too",
        "Arguments of a request; of a reply what its outermost array, set or map has, keys and values of a map by themselves.",
        Kind::Count { min: 1_000, max: 1_000_000_000, at: |d| &mut d.config.bigkeys.elements_min },
    ),
    OptionSpec::for_clients(
        "bigkeys.max_len",
        "Entries of big keys that are kept, those that were seen last; 0: none are looked for",
        "One for each key, command and direction. The log tells of each at most once a minute, and of 20 a minute and worker in all.",
        Kind::Count { min: 0, max: 1024, at: |d| &mut d.config.bigkeys.max_len },
    ),
    OptionSpec::for_trusted_clients(
        "batching.gather_us",
        "Longest wait for more input before requests are written upstream; 0: never wait",
        "Costs that much latency at most, and only while many clients are active (`batching.gather_clients_min`), servers have a queue and the \
         waits bring input; it ends when half of these clients have sent something, or after a quarter of the time in which each sends once. In front of n > 3 primaries it is log₂ n times as long (the quarter 1 + log₂ n times). In front of \
         several servers the first replies of a pipeline wait for those behind them as well, 1 + log₂ n times as long at most, so that they leave in one write, and when half of the clients \
         have sent something the worker may sleep once, this long at most, for the others.",
        Kind::Time { unit: "microseconds", min: 0, max: 10_000, at: |d| &mut d.config.batching.gather_us },
    ),
    OptionSpec::for_trusted_clients(
        "batching.gather_completions",
        "Inputs for each server that are enough: half of the active clients, at most this many",
        "Requests that go to several servers leave in as many writes, so for `n` servers the sleep is for `n / (n + 1)` of the active clients, \
         at most `n` times this many.",
        Kind::Count { min: 1, max: 4096, at: |d| &mut d.config.batching.gather_completions },
    ),
    OptionSpec::for_trusted_clients(
        "batching.gather_clients_min",
        "Active clients of a worker below which it does not gather",
        "",
        Kind::Count { min: 1, max: 1_000_000, at: |d| &mut d.config.batching.gather_clients_min },
    ),
    OptionSpec::for_trusted_clients(
        "batching.polls",
        "Times that input is polled again without waiting while more keeps coming",
        "",
        Kind::Count { min: 0, max: 64, at: |d| &mut d.config.batching.polls },
    ),
    OptionSpec::for_trusted_clients(
        "batching.coalesce_reads",
        "Send equal reads of several clients that leave in one write once, and give each the reply",
        "For keys that many read at the same moment: the server does one `GET` instead of as many as there are clients, at most 32. What a client gets is what it          could have got without it. Commands that read one key and give the same to whoever asks (`GET`, `HGET`, `HGETALL`, `LRANGE` …), `MGET` and          `EXISTS`, up to 1 KiB, byte for byte the same. The server's own counts (`commandstats`, `keyspace_hits`, LFU) see one read. See the          [operations guide](../guides/operations.md#keys-that-many-read-at-once).",
        Kind::Switch { at: |d| &mut d.config.batching.coalesce_reads },
    ),
    cache::ENABLED,
    cache::MEMORY_MAX_BYTES,
    cache::VALUE_MAX_BYTES,
    cache::TTL_MS,
    cache::KEYS,
    cache::MIN_READS,
    OptionSpec::for_trusted_clients(
        "log.level",
        "Least severe level that is written",
        "The environment variable RESPOOL_LOG, if set, takes its place with a filter such as `info,server=debug`.",
        Kind::Choice {
            names: || &LogLevel::NAMES,
            set: |d, i| d.config.log.level = LogLevel::ALL[i],
            index: |d| Some(d.config.log.level as usize),
        },
    ),
    OptionSpec::for_trusted_clients(
        "log.format",
        "Shape of log lines",
        "`human` is one readable line an event, `json` one object a line. `auto` is `human`, with colours on a terminal.",
        Kind::Choice {
            names: || &LogFormat::NAMES,
            set: |d, i| d.config.log.format = LogFormat::ALL[i],
            index: |d| Some(d.config.log.format as usize),
        },
    ),
    OptionSpec::new(
        "log.file",
        "Append log lines to this file instead of standard error",
        "",
        Kind::Path { at: |d| &mut d.config.log.file },
    ),
    OptionSpec::for_trusted_clients(
        "log.burst",
        "Lines of one kind in each window; 0: no bound",
        "What comes beyond is counted, and one line tells how many when the window is over. A kind is a place in the program, so the same event at \
         another server is the same kind. The access log has bounds of its own.",
        Kind::Count { min: 0, max: 1_000_000, at: |d| &mut d.config.log.burst },
    ),
    OptionSpec::for_trusted_clients(
        "log.burst_window_s",
        "Length of the window of `log.burst`",
        "It begins with the first line of the kind.",
        Kind::Time { unit: "seconds", min: 1, max: 3600, at: |d| &mut d.config.log.burst_window_s },
    ),
    OptionSpec::for_trusted_clients(
        "access_log.sample",
        "One of so many requests that fit stands in the log; 1: each, 0: none",
        "The gap from one to the next is drawn anew each time. While it is 0 nothing is looked at.",
        Kind::Count { min: 0, max: 1_000_000_000, at: |d| &mut d.config.access_log.sample },
    ),
    OptionSpec::for_trusted_clients(
        "access_log.commands",
        "Only of these commands; none: of all",
        "A command with subcommands means all of them.",
        Kind::Commands { at: |d| &mut d.config.access_log.commands },
    ),
    OptionSpec::for_trusted_clients(
        "access_log.key_prefix",
        "Only if the first key begins so",
        "Each request that fits else is looked at for it, which costs more than all other conditions.",
        Kind::Text { at: |d| &mut d.config.access_log.key_prefix },
    ),
    OptionSpec::for_trusted_clients(
        "access_log.client",
        "Only of clients whose address or name matches",
        "A pattern as of `KEYS`: `10.0.0.*`, `worker-?`.",
        Kind::Text { at: |d| &mut d.config.access_log.client },
    ),
    OptionSpec::for_trusted_clients(
        "access_log.slower_than_us",
        "Only if the reply took so long, from being given on",
        "",
        Kind::Time { unit: "microseconds", min: 0, max: 3_600_000_000, at: |d| &mut d.config.access_log.slower_than_us },
    ),
    OptionSpec::for_trusted_clients(
        "tracing.sample",
        "One of so many requests becomes a span; 1: each, 0: none",
        "Needs `tracing.endpoint`. While it is 0 nothing is looked at.",
        Kind::Count { min: 0, max: 1_000_000_000, at: |d| &mut d.config.tracing.sample },
    ),
    OptionSpec::new(
        "tracing.endpoint",
        "Collector that takes OTLP over HTTP, such as \"http://127.0.0.1:4318\"",
        "Spans go to `/v1/traces` there, as JSON, at most once a second. With `https://` over TLS, see `[tracing.tls]`.",
        Kind::HttpUrl { at: |d| &mut d.config.tracing.endpoint },
    ),
    OptionSpec::for_trusted_clients(
        "tracing.service_name",
        "Name that the spans come under (`service.name`)",
        "",
        Kind::Text { at: |d| &mut d.config.tracing.service_name },
    ),
    OptionSpec::new(
        "alarms.webhook",
        "URL that alarms are posted to, as JSON; none: there are no alarms",
        "At most once a second, with all that came meanwhile. With `https://` over TLS, see `[alarms.tls]`.",
        Kind::HttpUrl { at: |d| &mut d.config.alarms.webhook },
    ),
    OptionSpec::for_trusted_clients(
        "alarms.slow_over_us",
        "A request that took so long is an alarm; 0: none is",
        "From being given on to its reply. Of requests that were sent and answered together it is one alarm. The slow log has a bound of its own.",
        Kind::Time { unit: "microseconds", min: 0, max: 3_600_000_000, at: |d| &mut d.config.alarms.slow_over_us },
    ),
    OptionSpec::for_trusted_clients(
        "alarms.kinds",
        "What is an alarm: slow requests, hot keys, big keys, servers that cannot be reached",
        "Hot and big keys as often as the log tells of them (`[hotkeys]`, `[bigkeys]`).",
        Kind::Names { names: &Alarms::KINDS, at: |d| &mut d.config.alarms.kinds },
    ),
];
