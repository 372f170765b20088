//! What becomes of a command in front of each kind of deployment, as a value that can be shown.
//!
//! The data path decides request by request, with the keys in hand (`route`, `scatter`). Here the same tables answer without a
//! request: which nodes a command can reach, how their replies become one, what is refused. The page
//! `docs/reference/commands-by-topology.md` is made of it.
//!
//! Not here: permission and arguments; whether a request is well formed is the server's matter. Commands that the table does not
//! know are learnt from the server and go by their keys, or to any node.
//!
//! Invariant: for every row and kind of deployment the answer is what the engine does. `tests/stories/by_topology.rs` sends
//! each command through an engine in front of each of them and compares.

use super::{Begin, Class, Command, CommandId, Find, KeyRule, RequestPolicy, ResponsePolicy, ids};

/// What kind of deployment is behind, as far as it matters to what becomes of a command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Behind {
    /// One server.
    Server,
    /// A primary with replicas, watched by sentinels.
    Sentinel,
    /// A cluster of several primaries.
    Cluster,
    /// Several servers (or deployments of another kind) that share the keys.
    Shards,
}

impl Behind {
    /// All of them, in the order of a table's columns.
    pub const ALL: [Self; 4] = [Self::Server, Self::Sentinel, Self::Cluster, Self::Shards];

    /// Whether keys of one request can have different owners.
    #[must_use]
    pub const fn spreads_keys(self) -> bool {
        matches!(self, Self::Cluster | Self::Shards)
    }
}

/// How the replies of several nodes become one. An error of one is the error of the whole, but for [`Gather::OneOk`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Gather {
    /// The sum of the numbers.
    Sum,
    /// The smallest number.
    Min,
    /// The smallest number of each element.
    MinEach,
    /// The greatest number.
    Max,
    /// The first, if none is an error.
    AllOk,
    /// The first that is no error.
    OneOk,
    /// Element by element, 1 where all are 1.
    And,
    /// Element by element, 1 where any is 1.
    Or,
    /// The elements of all, node by node.
    Join,
    /// The elements of all, each once.
    Union,
    /// The sums of the numbers behind each name.
    SumEach,
    /// One that is not null.
    AnyOfSome,
    /// Each element where its key stands in the request.
    InOrder,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// respool answers.
    Local,
    /// Once for all clients of a worker, at the owner of the channel; a pattern at one node of each deployment.
    Listens,
    /// respool answers as a server that is no cluster, or with `facade.cluster` as one that is.
    Facade,
    /// Needs its connection for as long as it lasts (replication); an error until respool gives such.
    Own,
    /// Never given on; an error.
    Refused,
    /// To the one server, or to the primary that sentinels name.
    Whole,
    /// To the owner of its channel, which is found as that of a key.
    Channel,
    /// To the owner of its key.
    Owner,
    /// To the owner of all its keys; if there is more than one, `CROSSSLOT`.
    OneOwner,
    /// In parts to the owners of its keys.
    Split(Gather),
    /// To every primary.
    All(Gather),
    /// To one primary after the other, with one cursor.
    Iterates,
    /// Always to the same primary, that of slot 0 or of the first shard.
    Any,
}

/// What becomes of a command, by whether the call names keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fates {
    /// With keys; `None`: no call has any.
    pub with_keys: Option<Fate>,
    /// Without keys; `None`: a call without keys is a mistake, and any node says so.
    pub without_keys: Option<Fate>,
    /// It goes over a connection of the client's own.
    pub own_connection: bool,
    /// The same with the option `BLOCK` only.
    pub blocks_by_option: bool,
    /// A replica may answer it, if `reads.policy` says so.
    pub may_be_read_from_replica: bool,
}

/// What becomes of a command in front of `behind`.
#[must_use]
pub fn fates(id: CommandId, behind: Behind) -> Fates {
    let row = id.row();
    let given_on = |fate: Fate| match row.class {
        Class::Local if subscribes(id) => Fate::Listens,
        Class::Local => Fate::Local,
        Class::Leased if is_hidden(id, behind) => Fate::Facade,
        Class::Leased if !is_leased(id) => Fate::Own,
        Class::Leased if id == ids::MULTI && behind != Behind::Server => Fate::Local,
        Class::Leased => fate,
        Class::Refused => Fate::Refused,
        Class::Pass if id == ids::MOVE && behind == Behind::Cluster => Fate::Refused,
        Class::Pass | Class::Beside | Class::Control | Class::Blocking if is_hidden(id, behind) => {
            Fate::Facade
        }
        Class::Counted if behind.spreads_keys() => counted(id),
        Class::Pass
        | Class::Beside
        | Class::Counted
        | Class::Noted
        | Class::Control
        | Class::Blocking => fate,
    };
    let has_keys = !row.keys.is_empty();
    let is_given_on = matches!(given_on(Fate::Whole), Fate::Whole);
    let may_lack_keys = !has_keys || !is_given_on || row.is_script();
    Fates {
        with_keys: (has_keys && is_given_on).then(|| given_on(with_keys(id, behind))),
        without_keys: may_lack_keys.then(|| given_on(without_keys(id, behind))),
        own_connection: row.class == Class::Leased && is_leased(id) && !is_hidden(id, behind),
        blocks_by_option: row.class == Class::Blocking,
        may_be_read_from_replica: has_keys
            && is_given_on
            && behind != Behind::Server
            && row.reads(),
    }
}

/// Whether a client listens from then on.
fn subscribes(id: CommandId) -> bool {
    matches!(id, ids::SUBSCRIBE | ids::PSUBSCRIBE | ids::SSUBSCRIBE)
}

/// A command whose reply tells who listens, where keys have several owners.
fn counted(id: CommandId) -> Fate {
    match id {
        ids::PUBLISH | ids::SPUBLISH => Fate::Channel,
        ids::PUBSUB_NUMPAT => Fate::All(Gather::Max),
        ids::PUBSUB_NUMSUB | ids::PUBSUB_SHARDNUMSUB => Fate::All(Gather::SumEach),
        _ => Fate::All(Gather::Union),
    }
}

/// Whether a client gets a connection of its own for it.
fn is_leased(id: CommandId) -> bool {
    matches!(id, ids::MULTI | ids::WATCH) || super::waits::may_wait(id)
}

/// Whether this is a `CLUSTER` command that would lead clients past the proxy.
fn is_hidden(id: CommandId, behind: Behind) -> bool {
    let cluster = ids::CLUSTER;
    behind != Behind::Server && (id == cluster || cluster.subcommands().any(|sub| sub == id))
}

fn with_keys(id: CommandId, behind: Behind) -> Fate {
    let row = id.row();
    if !behind.spreads_keys() {
        return Fate::Whole;
    }
    match row.request_policy {
        _ if has_one_key(row) => Fate::Owner,
        _ if splits(row) => Fate::Split(gather_parts(row)),
        _ => Fate::OneOwner,
    }
}

/// How the replies to the parts of one call become one.
#[must_use]
pub fn gather_parts(row: &Command) -> Gather {
    match row.response_policy {
        ResponsePolicy::AggSum => Gather::Sum,
        ResponsePolicy::AllSucceeded => Gather::AllOk,
        _ => Gather::InOrder,
    }
}

/// Whether a call whose keys have several owners is taken apart. One that counts its keys (`MSETEX`) is not: the count would be wrong in
/// each part, and what it promises of all keys together (`NX`, `XX`) would hold for none.
#[must_use]
pub fn splits(row: &Command) -> bool {
    row.request_policy == RequestPolicy::MultiShard
        && !row.keys.iter().any(|spec| matches!(spec.find, Find::Counted { .. }))
}

/// Whether no call has more than one key that the proxy can see. The patterns of `SORT` name keys that nobody sees.
fn has_one_key(row: &Command) -> bool {
    let mut specs = row.keys.iter().filter(|spec| spec.begin != Begin::Unknown);
    let is_one = |find: Find| matches!(find, Find::Range { last: 0, .. });
    let first = specs.next().is_some_and(|spec| is_one(spec.find));
    first && specs.next().is_none() && !matches!(row.key_rule, KeyRule::Sort | KeyRule::Migrate)
}

fn without_keys(id: CommandId, behind: Behind) -> Fate {
    if !behind.spreads_keys() {
        return Fate::Whole;
    }
    if id == ids::SCAN {
        return Fate::Iterates;
    }
    match id.row().request_policy {
        RequestPolicy::AllShards | RequestPolicy::AllNodes => {
            gather(id).map_or(Fate::Any, Fate::All)
        }
        _ => Fate::Any,
    }
}

/// How the replies of all primaries to a command without keys become one; `None`: the reply of one node is as good.
#[must_use]
pub fn gather(id: CommandId) -> Option<Gather> {
    if id == ids::RANDOMKEY {
        return Some(Gather::AnyOfSome);
    }
    if id == ids::WAITAOF {
        return Some(Gather::MinEach);
    }
    match id.row().response_policy {
        ResponsePolicy::AggSum => Some(Gather::Sum),
        ResponsePolicy::AggMin => Some(Gather::Min),
        ResponsePolicy::AggMax => Some(Gather::Max),
        ResponsePolicy::AllSucceeded => Some(Gather::AllOk),
        ResponsePolicy::OneSucceeded => Some(Gather::OneOk),
        ResponsePolicy::AggLogicalAnd => Some(Gather::And),
        ResponsePolicy::AggLogicalOr => Some(Gather::Or),
        ResponsePolicy::Default => Some(Gather::Join),
        ResponsePolicy::Special => None,
    }
}
