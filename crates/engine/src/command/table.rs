//! The rows of the command table: data, and the few words it is written in.
//!
//! `cmd(name, arity, flags, keys, class)` is a row; `.spread(request, response)` adds the policies of a command that a
//! cluster sends to several nodes, `.rule(…)` what its key specifications can't say. The facts are what `COMMAND`
//! answers on Redis 8.2 (where that does not know the command: on Valkey 9, then Redis 8.4 and later as far as its
//! command descriptions are published). Key flags of commands newer than 8.2 follow those descriptions, else their
//! read or write flag. `MAY_REPLICATE` is from the sources of the servers, which don't tell it.
//!
//! The class is respool's own decision. `Pass` is what most commands are; the others are these, with the reason:
//! - `CLIENT` and what sets up a connection are `Local`: the server sees respool's connection and not the client's.
//!   `ASKING`, `READONLY` and `READWRITE` likewise set a flag on a connection that is shared.
//! - The blocking pops, `WAIT` and `WAITAOF` are `Leased`: everybody behind them on a shared connection would wait
//!   too. `WAIT` and `WAITAOF` also speak of the writes of their own connection.
//! - `FLUSHALL` and `FLUSHDB` are `Beside`: since Redis 7.4 a thread does it while their client waits, and only that.
//!   `KEYS` is: it looks at all keys, and of its replies nobody knows how large the first is.
//! - `CLUSTER SETSLOT` waits on Valkey 8 and later until replicas have it: `Leased`.
//! - `CONFIG` is `Noted`: some of it (the slow log, the counters) is about what the proxy has, too.
//! - `SLOWLOG` is `Local`: the proxy has its own. `BIGKEYS` and `TOPKEYS` no server has.
//! - `HOTKEYS` (Redis 8.6) goes to every shard, whose `GET` answers a list with one map, so that the lists can be put together (`hotkeysCommand`).
//! - `HIMPORT` (Redis 8.10) keeps its field sets on the connection, so it is `Leased` as a whole.
//! - `SCRIPT DEBUG` switches its connection to the debugger: `Leased`.
//! - `MIGRATE` stops the server until another one has answered, whose address the client gives, and takes keys away to where nobody
//!   looks for them: `Refused`.
//! - `CLUSTER SYNCSLOTS` makes a connection a channel between two servers for moving slots: `Refused`.
//! - `ACL` is `Local`: the proxy has users of its own (`acl`). `ACL SERVER …` is about the servers'.
//! - `CONFIG`, `MODULE`, `FAILOVER`, `REPLICAOF` and the rest of an operator's commands pass: who may call them is a matter of
//!   permission and not of multiplexing.
//! - Scripts pass: what a script does to its connection (`SELECT`, `redis.setresp`) ends with the script.
//!
//! Invariant: sorted by container, then by subcommand, each name once; `command::tests` checks it.

use super::flags::{bit::*, key_bit::*};
use super::keys::{Begin, Find, KeyRule, KeyRule::*, KeySpec};
use super::{
    Categories, Class, Class::*, Command, Flags, KeyFlags, RequestPolicy, ResponsePolicy, options,
};
use RequestPolicy::{AllNodes, AllShards, MultiShard, Special as ToSpecial};
use ResponsePolicy::{
    AggLogicalAnd, AggMin, AggSum, AllSucceeded, Default as AsIs, OneSucceeded,
    Special as BySpecial,
};

/// No flag.
const PLAIN: u32 = 0;

/// A row whose call goes to one node and whose keys are as declared.
const fn cmd(
    name: &'static str,
    arity: i16,
    flags: u32,
    keys: &'static [KeySpec],
    class: Class,
) -> Command {
    Command {
        name,
        arity,
        flags: Flags::of(flags),
        keys,
        grammar: &options::NONE,
        key_rule: KeyRule::Declared,
        request_policy: RequestPolicy::Default,
        response_policy: ResponsePolicy::Default,
        class,
        only_key: 0,
        subcommand_count: 0,
        has_classed_subcommands: false,
        is_plain: false,
        is_shareable: false,
        categories: Categories::none(),
    }
}

impl Command {
    /// The row with the policies of a call that goes to several nodes.
    const fn spread(mut self, request: RequestPolicy, response: ResponsePolicy) -> Self {
        self.request_policy = request;
        self.response_policy = response;
        self
    }

    /// The row with a rule for what its key specifications can't say.
    const fn rule(mut self, rule: KeyRule) -> Self {
        self.key_rule = rule;
        self
    }
}

/// The one key at argument `index`.
const fn at(index: u16, flags: u32) -> KeySpec {
    range(index, 0, 1, flags)
}

/// Keys from argument `first` on: `last` counts from `first`, or from the end if negative; every `step`-th.
const fn range(first: u16, last: i16, step: u16, flags: u32) -> KeySpec {
    let find = Find::Range { last, step, limit: 0 };
    KeySpec { begin: Begin::Index(first), find, flags: KeyFlags::of(flags) }
}

/// Argument `index + count_at` says how many keys there are; they begin at `index + first`, every `step`-th.
const fn counted(index: u16, count_at: u16, first: u16, step: u16, flags: u32) -> KeySpec {
    let find = Find::Counted { count_at, first, step };
    KeySpec { begin: Begin::Index(index), find, flags: KeyFlags::of(flags) }
}

/// Keys after the word `word`, looked for from argument `start` on; `limit` 2 means the first half of what follows.
const fn after(word: &'static str, start: i16, last: i16, limit: u16, flags: u32) -> KeySpec {
    let find = Find::Range { last, step: 1, limit };
    KeySpec { begin: Begin::Keyword { word, start }, find, flags: KeyFlags::of(flags) }
}

/// Keys whose place can't be declared.
const fn unknown(flags: u32) -> KeySpec {
    KeySpec { begin: Begin::Unknown, find: Find::Unknown, flags: KeyFlags::of(flags) }
}

/// No keys.
const NONE: &[KeySpec] = &[];
/// Reads the first argument; what it finds may be stored.
const GEORADIUS: &[KeySpec] = &[
    at(1, RO | ACCESS),
    after("store", 6, 0, 0, OW | UPDATE),
    after("storedist", 6, 0, 0, OW | UPDATE),
];
/// As GEORADIUS, with the options one argument earlier.
const GEORADIUS_BY_MEMBER: &[KeySpec] = &[
    at(1, RO | ACCESS),
    after("store", 5, 0, 0, OW | UPDATE),
    after("storedist", 5, 0, 0, OW | UPDATE),
];
/// The third argument, or if it is empty those after KEYS.
const MIGRATE: &[KeySpec] =
    &[at(3, RW | ACCESS | DELETE), after("keys", -2, -1, 0, RW | ACCESS | DELETE | INCOMPLETE)];
/// Reads the value of the first argument.
const READ: &[KeySpec] = &[at(1, RO | ACCESS)];
/// Changes the first argument, tells nothing of its value.
const CHANGE: &[KeySpec] = &[at(1, RW | UPDATE)];
/// Changes the first argument and tells what is or was in it.
const READ_CHANGE: &[KeySpec] = &[at(1, RW | ACCESS | UPDATE)];
/// Takes something away from the first argument, or takes it away.
const TAKE: &[KeySpec] = &[at(1, RW | DELETE)];
/// Looks at the first argument without giving away its data.
const LOOK: &[KeySpec] = &[at(1, RO)];
/// Adds to the first argument.
const ADD: &[KeySpec] = &[at(1, RW | INSERT)];
/// Takes from the first argument and adds to the second.
const MOVE: &[KeySpec] = &[at(1, RW | ACCESS | DELETE), at(2, RW | INSERT)];
/// Reads the keys whose number is the first argument.
const READ_COUNTED: &[KeySpec] = &[counted(1, 0, 1, 1, RO | ACCESS)];
/// Takes from the first argument and tells what.
const POP: &[KeySpec] = &[at(1, RW | ACCESS | DELETE)];
/// As LOOK, after a subcommand.
const SUB_LOOK: &[KeySpec] = &[at(2, RO)];
/// Takes from one of all arguments but the last, the time to wait.
const POP_FROM_ALL: &[KeySpec] = &[range(1, -2, 1, RW | ACCESS | DELETE)];
/// Reads all arguments.
const READ_ALL: &[KeySpec] = &[range(1, -1, 1, RO | ACCESS)];
/// Overwrites the first argument.
const SET: &[KeySpec] = &[at(1, OW | UPDATE)];
/// Overwrites the first argument with what it makes of the keys counted by the second.
const STORE_COUNTED: &[KeySpec] = &[at(1, OW | UPDATE), counted(2, 0, 1, 1, RO | ACCESS)];
/// As READ, after a subcommand.
const SUB_READ: &[KeySpec] = &[at(2, RO | ACCESS)];
/// A read-only script: reads the keys counted by the second argument.
const SCRIPT_READ: &[KeySpec] = &[counted(2, 0, 1, 1, RO | ACCESS)];
/// A script: may do anything to the keys counted by the second argument.
const SCRIPT: &[KeySpec] = &[counted(2, 0, 1, 1, RW | ACCESS | UPDATE)];
/// Looks at all arguments.
const LOOK_ALL: &[KeySpec] = &[range(1, -1, 1, RO)];
/// Overwrites the first argument with what it makes of the others.
const STORE_ALL: &[KeySpec] = &[at(1, OW | UPDATE), range(2, -1, 1, RO | ACCESS)];

/// Every row, sorted by name, subcommands after their container.
#[rustfmt::skip] // One row per command reads as a table, and greps as one.
pub(super) const ROWS: &[Command] = &[
    cmd("acl", -2, PLAIN, NONE, Local),
    cmd("acl|cat", -2, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("acl|deluser", -3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local)
        .spread(AllNodes, AllSucceeded),
    cmd("acl|dryrun", -4, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("acl|genpass", -2, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("acl|getuser", 3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("acl|help", 2, LOADING | STALE, NONE, Local),
    cmd("acl|list", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("acl|load", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("acl|log", -2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("acl|save", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local)
        .spread(AllNodes, AllSucceeded),
    cmd("acl|setuser", -3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local)
        .spread(AllNodes, AllSucceeded),
    cmd("acl|users", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("acl|whoami", 2, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("append", 3, WRITE | DENYOOM | FAST, ADD, Pass),
    cmd("arcount", 2, READONLY | FAST, READ, Pass),
    cmd("ardel", -3, WRITE | FAST, TAKE, Pass),
    cmd("ardelrange", -4, WRITE, TAKE, Pass),
    cmd("arget", 3, READONLY | FAST, READ, Pass),
    cmd("argetrange", 4, READONLY, READ, Pass),
    cmd("argrep", -6, READONLY, READ, Pass),
    cmd("arinfo", -2, READONLY, READ, Pass),
    cmd("arinsert", -3, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("arlastitems", -3, READONLY, READ, Pass),
    cmd("arlen", 2, READONLY | FAST, READ, Pass),
    cmd("armget", -3, READONLY | FAST, READ, Pass),
    cmd("armset", -4, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("arnext", 2, READONLY | FAST, READ, Pass),
    cmd("arop", -5, READONLY, READ, Pass),
    cmd("arring", -4, WRITE | DENYOOM, CHANGE, Pass),
    cmd("arscan", -4, READONLY, READ, Pass),
    cmd("arseek", 3, WRITE | FAST, CHANGE, Pass),
    cmd("arset", -4, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("asking", 1, FAST, NONE, Local),
    cmd("auth", -2, FAST | NOSCRIPT | LOADING | STALE | NO_AUTH | ALLOW_BUSY, NONE, Local),
    cmd("backup", 2, PLAIN, NONE, Pass),
    cmd("backup|abort", 2, ADMIN | NOSCRIPT, NONE, Pass),
    cmd("backup|cleanup", 2, ADMIN | NOSCRIPT, NONE, Pass),
    cmd("backup|help", 2, LOADING | STALE, NONE, Pass),
    cmd("backup|list", 2, ADMIN | STALE, NONE, Pass),
    cmd("backup|seal", 2, ADMIN | NOSCRIPT, NONE, Pass),
    cmd("backup|start", 2, ADMIN | NOSCRIPT, NONE, Pass),
    cmd("backup|status", 2, ADMIN | STALE, NONE, Pass),
    cmd("bgrewriteaof", 1, ADMIN | NOSCRIPT | NO_ASYNC_LOADING, NONE, Pass),
    cmd("bgsave", -1, ADMIN | NOSCRIPT | NO_ASYNC_LOADING, NONE, Pass),
    cmd("bigkeys", -2, PLAIN, NONE, Local),
    cmd("bigkeys|get", -2, ADMIN | LOADING | STALE, NONE, Local),
    cmd("bigkeys|help", 2, LOADING | STALE, NONE, Local),
    cmd("bigkeys|len", 2, ADMIN | LOADING | STALE, NONE, Local),
    cmd("bigkeys|reset", 2, ADMIN | LOADING | STALE, NONE, Local),
    cmd("bitcount", -2, READONLY, READ, Pass),
    cmd("bitfield", -2, WRITE | DENYOOM, &[at(1, RW | ACCESS | UPDATE | VARIABLE)], Pass)
        .rule(Bitfield),
    cmd("bitfield_ro", -2, READONLY | FAST, READ, Pass),
    cmd("bitop", -4, WRITE | DENYOOM, &[at(2, OW | UPDATE), range(3, -1, 1, RO | ACCESS)], Pass),
    cmd("bitpos", -3, READONLY, READ, Pass),
    cmd("bless", -2, PLAIN, NONE, Pass),
    cmd("bless|clear", 4, WRITE | FAST, &[at(2, RW)], Pass),
    cmd("bless|get", 3, FAST, SUB_LOOK, Pass),
    cmd("bless|scan", -4, PLAIN, NONE, Pass).spread(ToSpecial, BySpecial),
    cmd("bless|set", 4, WRITE | DENYOOM | FAST, &[at(2, RW)], Pass),
    cmd("blmove", 6, WRITE | DENYOOM | BLOCKING, MOVE, Leased),
    cmd("blmovem", -6, WRITE | DENYOOM | BLOCKING, MOVE, Leased),
    cmd("blmpop", -5, WRITE | BLOCKING | MOVABLEKEYS,
        &[counted(2, 0, 1, 1, RW | ACCESS | DELETE)], Leased),
    cmd("blpop", -3, WRITE | BLOCKING, POP_FROM_ALL, Leased),
    cmd("brpop", -3, WRITE | BLOCKING, POP_FROM_ALL, Leased),
    cmd("brpoplpush", 4, WRITE | DENYOOM | BLOCKING, MOVE, Leased),
    cmd("bzmpop", -5, WRITE | BLOCKING | MOVABLEKEYS,
        &[counted(2, 0, 1, 1, RW | ACCESS | DELETE)], Leased),
    cmd("bzpopmax", -3, WRITE | BLOCKING | FAST, POP_FROM_ALL, Leased),
    cmd("bzpopmin", -3, WRITE | BLOCKING | FAST, POP_FROM_ALL, Leased),
    cmd("client", -2, PLAIN, NONE, Local),
    cmd("client|caching", 3, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|capa", -3, NOSCRIPT | LOADING | STALE | ALLOW_BUSY, NONE, Local),
    cmd("client|getname", 2, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|getredir", 2, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|help", 2, LOADING | STALE, NONE, Local),
    cmd("client|id", 2, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|import-source", 3, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|info", 2, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|kill", -3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|list", -2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|no-evict", 3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|no-touch", 3, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|pause", -3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|reply", 3, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|setinfo", 4, NOSCRIPT | LOADING | STALE, NONE, Local)
        .spread(AllNodes, AllSucceeded),
    cmd("client|setname", 3, NOSCRIPT | LOADING | STALE, NONE, Local)
        .spread(AllNodes, AllSucceeded),
    cmd("client|tracking", -3, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|trackinginfo", 2, NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|unblock", -3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("client|unpause", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("cluster", -2, PLAIN, NONE, Pass),
    cmd("cluster|addslots", -3, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|addslotsrange", -4, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|bumpepoch", 2, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|cancelslotmigrations", 2, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|count-failure-reports", 3, ADMIN | STALE, NONE, Pass),
    cmd("cluster|countkeysinslot", 3, STALE, NONE, Pass),
    cmd("cluster|delslots", -3, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|delslotsrange", -4, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|failover", -2, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|flushslot", -3, WRITE | ADMIN | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|flushslots", 2, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|forget", 3, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|getkeysinslot", 4, STALE, NONE, Pass),
    cmd("cluster|getslotmigrations", 2, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|help", 2, LOADING | STALE, NONE, Pass),
    cmd("cluster|info", 2, STALE, NONE, Pass),
    cmd("cluster|keyslot", 3, STALE, NONE, Pass),
    cmd("cluster|links", 2, STALE, NONE, Pass),
    cmd("cluster|meet", -4, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|migrateslots", -4, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|migration", -4, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|myid", 2, STALE, NONE, Pass),
    cmd("cluster|myshardid", 2, STALE, NONE, Pass),
    cmd("cluster|nodes", 2, STALE, NONE, Pass),
    cmd("cluster|replicas", 3, ADMIN | STALE, NONE, Pass),
    cmd("cluster|replicate", -3, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|reset", -2, ADMIN | NOSCRIPT | STALE, NONE, Pass),
    cmd("cluster|saveconfig", 2, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|set-config-epoch", 3, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("cluster|setslot", -4, ADMIN | STALE | NO_ASYNC_LOADING | MAY_REPLICATE, NONE, Leased),
    cmd("cluster|shards", 2, LOADING | STALE, NONE, Pass),
    cmd("cluster|slaves", 3, ADMIN | STALE, NONE, Pass),
    cmd("cluster|slot-stats", -4, LOADING | STALE, NONE, Pass).spread(AllShards, AsIs),
    cmd("cluster|slots", 2, LOADING | STALE, NONE, Pass),
    cmd("cluster|syncslots", -3, ADMIN | STALE | NO_ASYNC_LOADING, NONE, Refused),
    cmd("clusterscan", -2, READONLY, &[at(1, NOT_KEY)], Pass).spread(ToSpecial, BySpecial),
    cmd("command", -1, LOADING | STALE, NONE, Beside),
    cmd("command|count", 2, LOADING | STALE, NONE, Beside),
    cmd("command|docs", -2, LOADING | STALE, NONE, Beside),
    cmd("command|getkeys", -3, LOADING | STALE, NONE, Beside),
    cmd("command|getkeysandflags", -3, LOADING | STALE, NONE, Beside),
    cmd("command|help", 2, LOADING | STALE, NONE, Beside),
    cmd("command|info", -2, LOADING | STALE, NONE, Beside),
    cmd("command|list", -2, LOADING | STALE, NONE, Beside),
    cmd("commandlog", -2, PLAIN, NONE, Pass),
    cmd("commandlog|get", 4, ADMIN | LOADING | STALE, NONE, Pass).spread(AllNodes, AsIs),
    cmd("commandlog|help", 2, LOADING | STALE, NONE, Pass),
    cmd("commandlog|len", 3, ADMIN | LOADING | STALE, NONE, Pass).spread(AllNodes, AggSum),
    cmd("commandlog|reset", 3, ADMIN | LOADING | STALE, NONE, Pass).spread(AllNodes, AllSucceeded),
    cmd("config", -2, PLAIN, NONE, Noted),
    cmd("config|get", -3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Noted),
    cmd("config|help", 2, LOADING | STALE, NONE, Noted),
    cmd("config|resetstat", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Noted)
        .spread(AllNodes, AllSucceeded),
    cmd("config|rewrite", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Noted)
        .spread(AllNodes, AllSucceeded),
    cmd("config|set", -4, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Noted)
        .spread(AllNodes, AllSucceeded),
    cmd("copy", -3, WRITE | DENYOOM, &[at(1, RO | ACCESS), at(2, OW | UPDATE)], Pass),
    cmd("dbsize", 1, READONLY | FAST, NONE, Pass).spread(AllShards, AggSum),
    cmd("debug", -2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Refused),
    cmd("decr", 2, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("decrby", 3, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("del", -2, WRITE, &[range(1, -1, 1, RM | DELETE)], Pass).spread(MultiShard, AggSum),
    cmd("delex", -2, WRITE | FAST, TAKE, Pass),
    cmd("delifeq", 3, WRITE | FAST, &[at(1, RM | DELETE)], Pass),
    cmd("digest", 2, READONLY | FAST, READ, Pass),
    cmd("discard", 1, FAST | NOSCRIPT | LOADING | STALE | ALLOW_BUSY, NONE, Local),
    cmd("dump", 2, READONLY, READ, Pass),
    cmd("echo", 2, FAST | LOADING | STALE, NONE, Local),
    cmd("eval", -3, MOVABLEKEYS | NOSCRIPT | STALE | NO_MANDATORY_KEYS | SKIP_MONITOR
        | MAY_REPLICATE,
        SCRIPT, Pass),
    cmd("eval_ro", -3, READONLY | MOVABLEKEYS | NOSCRIPT | STALE | NO_MANDATORY_KEYS
        | SKIP_MONITOR, SCRIPT_READ, Pass),
    cmd("evalsha", -3, MOVABLEKEYS | NOSCRIPT | STALE | NO_MANDATORY_KEYS
        | SKIP_MONITOR | MAY_REPLICATE,
        SCRIPT, Pass),
    cmd("evalsha_ro", -3, READONLY | MOVABLEKEYS | NOSCRIPT | STALE | NO_MANDATORY_KEYS
        | SKIP_MONITOR, SCRIPT_READ, Pass),
    cmd("exec", 1, NOSCRIPT | LOADING | STALE | SKIP_COMMANDLOG, NONE, Local),
    cmd("exists", -2, READONLY | FAST, LOOK_ALL, Pass).spread(MultiShard, AggSum),
    cmd("expire", -3, WRITE | FAST, CHANGE, Pass),
    cmd("expireat", -3, WRITE | FAST, CHANGE, Pass),
    cmd("expiretime", 2, READONLY | FAST, READ, Pass),
    cmd("failover", -1, ADMIN | NOSCRIPT | STALE, NONE, Pass),
    cmd("fcall", -3, MOVABLEKEYS | NOSCRIPT | STALE | NO_MANDATORY_KEYS | SKIP_MONITOR
        | MAY_REPLICATE,
        SCRIPT, Pass),
    cmd("fcall_ro", -3, READONLY | MOVABLEKEYS | NOSCRIPT | STALE | NO_MANDATORY_KEYS
        | SKIP_MONITOR, SCRIPT_READ, Pass),
    cmd("flushall", -1, WRITE, NONE, Beside).spread(AllShards, AllSucceeded),
    cmd("flushdb", -1, WRITE, NONE, Beside).spread(AllShards, AllSucceeded),
    cmd("function", -2, PLAIN, NONE, Pass),
    cmd("function|delete", 3, WRITE | NOSCRIPT, NONE, Pass).spread(AllShards, AllSucceeded),
    cmd("function|dump", 2, NOSCRIPT, NONE, Pass),
    cmd("function|flush", -2, WRITE | NOSCRIPT, NONE, Pass).spread(AllShards, AllSucceeded),
    cmd("function|help", 2, LOADING | STALE, NONE, Pass),
    cmd("function|kill", 2, NOSCRIPT | ALLOW_BUSY, NONE, Control).spread(AllShards, OneSucceeded),
    cmd("function|list", -2, NOSCRIPT, NONE, Pass),
    cmd("function|load", -3, WRITE | DENYOOM | NOSCRIPT, NONE, Pass)
        .spread(AllShards, AllSucceeded),
    cmd("function|restore", -3, WRITE | DENYOOM | NOSCRIPT, NONE, Pass)
        .spread(AllShards, AllSucceeded),
    cmd("function|stats", 2, NOSCRIPT | ALLOW_BUSY, NONE, Control).spread(AllShards, BySpecial),
    cmd("geoadd", -5, WRITE | DENYOOM, CHANGE, Pass),
    cmd("geodist", -4, READONLY, READ, Pass),
    cmd("geohash", -2, READONLY, READ, Pass),
    cmd("geopos", -2, READONLY, READ, Pass),
    cmd("georadius", -6, WRITE | DENYOOM | MOVABLEKEYS, GEORADIUS, Pass).rule(GeoStore),
    cmd("georadius_ro", -6, READONLY, READ, Pass),
    cmd("georadiusbymember", -5, WRITE | DENYOOM | MOVABLEKEYS, GEORADIUS_BY_MEMBER, Pass)
        .rule(GeoStore),
    cmd("georadiusbymember_ro", -5, READONLY, READ, Pass),
    cmd("geosearch", -7, READONLY, READ, Pass),
    cmd("geosearchstore", -8, WRITE | DENYOOM, &[at(1, OW | UPDATE), at(2, RO | ACCESS)], Pass),
    cmd("get", 2, READONLY | FAST, READ, Pass),
    cmd("getbit", 3, READONLY | FAST, READ, Pass),
    cmd("getdel", 2, WRITE | FAST, POP, Pass),
    cmd("getex", -2, WRITE | FAST, READ_CHANGE, Pass),
    cmd("getrange", 4, READONLY, READ, Pass),
    cmd("getset", 3, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("hdel", -3, WRITE | FAST, TAKE, Pass),
    cmd("hello", -1, FAST | NOSCRIPT | LOADING | STALE | NO_AUTH | ALLOW_BUSY, NONE, Local),
    cmd("hexists", 3, READONLY | FAST, LOOK, Pass),
    cmd("hexpire", -6, WRITE | FAST, CHANGE, Pass),
    cmd("hexpireat", -6, WRITE | FAST, CHANGE, Pass),
    cmd("hexpiretime", -5, READONLY | FAST, READ, Pass),
    cmd("hget", 3, READONLY | FAST, READ, Pass),
    cmd("hgetall", 2, READONLY, READ, Pass),
    cmd("hgetdel", -5, WRITE | FAST, POP, Pass),
    cmd("hgetex", -5, WRITE | FAST, READ_CHANGE, Pass),
    cmd("himport", -2, PLAIN, NONE, Leased),
    cmd("himport|discard", 3, PLAIN, NONE, Leased).spread(AllShards, AsIs),
    cmd("himport|discardall", 2, PLAIN, NONE, Leased).spread(AllShards, AsIs),
    cmd("himport|prepare", -4, DENYOOM, NONE, Leased).spread(AllShards, AsIs),
    cmd("himport|set", -5, WRITE | DENYOOM, &[at(2, OW | UPDATE)], Leased),
    cmd("hincrby", 4, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("hincrbyfloat", 4, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("hkeys", 2, READONLY, READ, Pass),
    cmd("hlen", 2, READONLY | FAST, LOOK, Pass),
    cmd("hmget", -3, READONLY | FAST, READ, Pass),
    cmd("hmset", -4, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("hotkeys", -2, PLAIN, NONE, Pass),
    cmd("hotkeys|get", -2, ADMIN | NOSCRIPT, NONE, Pass).spread(AllShards, AsIs),
    cmd("hotkeys|help", 2, LOADING | STALE, NONE, Pass),
    cmd("hotkeys|reset", 2, ADMIN | NOSCRIPT, NONE, Pass).spread(AllShards, AllSucceeded),
    cmd("hotkeys|start", -2, ADMIN | NOSCRIPT, NONE, Pass).spread(AllShards, AllSucceeded),
    cmd("hotkeys|stop", 2, ADMIN | NOSCRIPT, NONE, Pass).spread(AllShards, AllSucceeded),
    cmd("hpersist", -5, WRITE | FAST, CHANGE, Pass),
    cmd("hpexpire", -6, WRITE | FAST, CHANGE, Pass),
    cmd("hpexpireat", -6, WRITE | FAST, CHANGE, Pass),
    cmd("hpexpiretime", -5, READONLY | FAST, READ, Pass),
    cmd("hpttl", -5, READONLY | FAST, READ, Pass),
    cmd("hrandfield", -2, READONLY, READ, Pass),
    cmd("hscan", -3, READONLY, READ, Pass),
    cmd("hset", -4, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("hsetex", -6, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("hsetnx", 4, WRITE | DENYOOM | FAST, ADD, Pass),
    cmd("hstrlen", 3, READONLY | FAST, LOOK, Pass),
    cmd("httl", -5, READONLY | FAST, READ, Pass),
    cmd("hvals", 2, READONLY, READ, Pass),
    cmd("incr", 2, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("incrby", 3, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("incrbyfloat", 3, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("increx", -2, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("info", -1, LOADING | STALE, NONE, Local).spread(AllShards, BySpecial),
    cmd("keys", 2, READONLY, NONE, Beside).spread(AllShards, AsIs),
    cmd("lastsave", 1, FAST | LOADING | STALE, NONE, Pass),
    cmd("latency", -2, PLAIN, NONE, Pass),
    cmd("latency|doctor", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Pass)
        .spread(AllNodes, BySpecial),
    cmd("latency|graph", 3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Pass)
        .spread(AllNodes, BySpecial),
    cmd("latency|help", 2, LOADING | STALE, NONE, Pass),
    cmd("latency|histogram", -2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Pass)
        .spread(AllNodes, BySpecial),
    cmd("latency|history", 3, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Pass)
        .spread(AllNodes, BySpecial),
    cmd("latency|latest", 2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Pass)
        .spread(AllNodes, BySpecial),
    cmd("latency|reset", -2, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Pass)
        .spread(AllNodes, AggSum),
    cmd("lcs", -3, READONLY, &[range(1, 1, 1, RO | ACCESS)], Pass),
    cmd("lindex", 3, READONLY, READ, Pass),
    cmd("linsert", 5, WRITE | DENYOOM, ADD, Pass),
    cmd("llen", 2, READONLY | FAST, LOOK, Pass),
    cmd("lmove", 5, WRITE | DENYOOM, MOVE, Pass),
    cmd("lmovem", -5, WRITE | DENYOOM, MOVE, Pass),
    cmd("lmpop", -4, WRITE | MOVABLEKEYS, &[counted(1, 0, 1, 1, RW | ACCESS | DELETE)], Pass),
    cmd("lolwut", -1, READONLY | FAST, NONE, Pass),
    cmd("lpop", -2, WRITE | FAST, POP, Pass),
    cmd("lpos", -3, READONLY, READ, Pass),
    cmd("lpush", -3, WRITE | DENYOOM | FAST, ADD, Pass),
    cmd("lpushx", -3, WRITE | DENYOOM | FAST, ADD, Pass),
    cmd("lrange", 4, READONLY, READ, Pass),
    cmd("lrem", 4, WRITE, TAKE, Pass),
    cmd("lset", 4, WRITE | DENYOOM, CHANGE, Pass),
    cmd("ltrim", 4, WRITE, TAKE, Pass),
    cmd("memory", -2, PLAIN, NONE, Pass),
    cmd("memory|doctor", 2, PLAIN, NONE, Pass).spread(AllShards, BySpecial),
    cmd("memory|help", 2, LOADING | STALE, NONE, Pass),
    cmd("memory|malloc-stats", 2, PLAIN, NONE, Pass).spread(AllShards, BySpecial),
    cmd("memory|purge", 2, PLAIN, NONE, Pass).spread(AllShards, AllSucceeded),
    cmd("memory|stats", 2, PLAIN, NONE, Pass).spread(AllShards, BySpecial),
    cmd("memory|usage", -3, READONLY, SUB_LOOK, Pass),
    cmd("mget", -2, READONLY | FAST, READ_ALL, Pass).spread(MultiShard, AsIs),
    cmd("migrate", -6, WRITE | MOVABLEKEYS, MIGRATE, Refused).rule(Migrate),
    cmd("module", -2, PLAIN, NONE, Pass),
    cmd("module|help", 2, LOADING | STALE, NONE, Pass),
    cmd("module|list", 2, ADMIN | NOSCRIPT, NONE, Pass),
    cmd("module|load", -3, ADMIN | NOSCRIPT | NO_ASYNC_LOADING, NONE, Pass),
    cmd("module|loadex", -3, ADMIN | NOSCRIPT | NO_ASYNC_LOADING, NONE, Pass),
    cmd("module|unload", 3, ADMIN | NOSCRIPT | NO_ASYNC_LOADING, NONE, Pass),
    cmd("monitor", 1, ADMIN | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("move", 3, WRITE | FAST, READ_CHANGE, Pass),
    cmd("mset", -3, WRITE | DENYOOM, &[range(1, -1, 2, OW | UPDATE)], Pass)
        .spread(MultiShard, AllSucceeded),
    cmd("msetex", -4, WRITE | DENYOOM | MOVABLEKEYS, &[counted(1, 0, 1, 2, OW | UPDATE)], Pass)
        .spread(MultiShard, AllSucceeded),
    cmd("msetnx", -3, WRITE | DENYOOM, &[range(1, -1, 2, OW | INSERT)], Pass),
    cmd("multi", 1, FAST | NOSCRIPT | LOADING | STALE | ALLOW_BUSY, NONE, Leased),
    cmd("object", -2, PLAIN, NONE, Pass),
    cmd("object|encoding", 3, READONLY, SUB_LOOK, Pass),
    cmd("object|freq", 3, READONLY, SUB_LOOK, Pass),
    cmd("object|help", 2, LOADING | STALE, NONE, Pass),
    cmd("object|idletime", 3, READONLY, SUB_LOOK, Pass),
    cmd("object|refcount", 3, READONLY, SUB_LOOK, Pass),
    cmd("persist", 2, WRITE | FAST, CHANGE, Pass),
    cmd("pexpire", -3, WRITE | FAST, CHANGE, Pass),
    cmd("pexpireat", -3, WRITE | FAST, CHANGE, Pass),
    cmd("pexpiretime", 2, READONLY | FAST, READ, Pass),
    cmd("pfadd", -2, WRITE | DENYOOM | FAST, ADD, Pass),
    cmd("pfcount", -2, READONLY | MAY_REPLICATE, &[range(1, -1, 1, RW | ACCESS)], Pass),
    cmd("pfdebug", 3, WRITE | DENYOOM | ADMIN, &[at(2, RW | ACCESS)], Pass),
    cmd("pfmerge", -2, WRITE | DENYOOM,
        &[at(1, RW | ACCESS | INSERT), range(2, -1, 1, RO | ACCESS)], Pass),
    cmd("pfselftest", 1, ADMIN, NONE, Pass),
    cmd("ping", -1, FAST, NONE, Local).spread(AllShards, AllSucceeded),
    cmd("psetex", 4, WRITE | DENYOOM, SET, Pass),
    cmd("psubscribe", -2, PUBSUB | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("psync", -3, ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI, NONE, Leased),
    cmd("pttl", 2, READONLY | FAST, READ, Pass),
    cmd("publish", 3, PUBSUB | FAST | LOADING | STALE | MAY_REPLICATE, NONE, Counted),
    cmd("pubsub", -2, PLAIN, NONE, Pass),
    cmd("pubsub|channels", -2, PUBSUB | LOADING | STALE, NONE, Counted),
    cmd("pubsub|help", 2, LOADING | STALE, NONE, Pass),
    cmd("pubsub|numpat", 2, PUBSUB | LOADING | STALE, NONE, Counted),
    cmd("pubsub|numsub", -2, PUBSUB | LOADING | STALE, NONE, Counted),
    cmd("pubsub|shardchannels", -2, PUBSUB | LOADING | STALE, NONE, Counted),
    cmd("pubsub|shardnumsub", -2, PUBSUB | LOADING | STALE, NONE, Counted),
    cmd("punsubscribe", -1, PUBSUB | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("quit", -1, FAST | NOSCRIPT | LOADING | STALE | NO_AUTH | ALLOW_BUSY, NONE, Local),
    cmd("randomkey", 1, READONLY, NONE, Pass).spread(AllShards, BySpecial),
    cmd("readonly", 1, FAST | LOADING | STALE, NONE, Local),
    cmd("readwrite", 1, FAST | LOADING | STALE, NONE, Local),
    cmd("rename", 3, WRITE, &[at(1, RW | ACCESS | DELETE), at(2, OW | UPDATE)], Pass),
    cmd("renamenx", 3, WRITE | FAST, &[at(1, RW | ACCESS | DELETE), at(2, OW | INSERT)], Pass),
    cmd("replconf", -1, ADMIN | NOSCRIPT | LOADING | STALE | ALLOW_BUSY, NONE, Leased),
    cmd("replicaof", 3, ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("reset", 1, FAST | NOSCRIPT | LOADING | STALE | NO_AUTH | ALLOW_BUSY, NONE, Local),
    cmd("restore", -4, WRITE | DENYOOM, SET, Pass),
    cmd("restore-asking", -4, WRITE | DENYOOM | ASKING, SET, Pass),
    cmd("role", 1, FAST | NOSCRIPT | LOADING | STALE, NONE, Pass),
    cmd("rpop", -2, WRITE | FAST, POP, Pass),
    cmd("rpoplpush", 3, WRITE | DENYOOM, MOVE, Pass),
    cmd("rpush", -3, WRITE | DENYOOM | FAST, ADD, Pass),
    cmd("rpushx", -3, WRITE | DENYOOM | FAST, ADD, Pass),
    cmd("sadd", -3, WRITE | DENYOOM | FAST, ADD, Pass),
    cmd("save", 1, ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI, NONE, Pass),
    cmd("scan", -2, READONLY, NONE, Pass).spread(ToSpecial, BySpecial),
    cmd("scard", 2, READONLY | FAST, LOOK, Pass),
    cmd("script", -2, PLAIN, NONE, Pass),
    cmd("script|debug", -3, NOSCRIPT, NONE, Leased),
    cmd("script|exists", -3, NOSCRIPT, NONE, Pass).spread(AllShards, AggLogicalAnd),
    cmd("script|flush", -2, NOSCRIPT, NONE, Pass).spread(AllNodes, AllSucceeded),
    cmd("script|help", 2, LOADING | STALE, NONE, Pass),
    cmd("script|kill", 2, NOSCRIPT | ALLOW_BUSY, NONE, Control).spread(AllShards, OneSucceeded),
    cmd("script|load", 3, NOSCRIPT | STALE, NONE, Pass).spread(AllNodes, AllSucceeded),
    cmd("script|show", 3, NOSCRIPT | STALE, NONE, Pass),
    cmd("sdiff", -2, READONLY, READ_ALL, Pass),
    cmd("sdiffcard", -3, READONLY | MOVABLEKEYS, READ_COUNTED, Pass),
    cmd("sdiffstore", -3, WRITE | DENYOOM, STORE_ALL, Pass),
    cmd("select", 2, FAST | LOADING | STALE, NONE, Local),
    cmd("set", -3, WRITE | DENYOOM, &[at(1, RW | ACCESS | UPDATE | VARIABLE)], Pass).rule(Set),
    cmd("setbit", 4, WRITE | DENYOOM, READ_CHANGE, Pass),
    cmd("setex", 4, WRITE | DENYOOM, SET, Pass),
    cmd("setnx", 3, WRITE | DENYOOM | FAST, &[at(1, OW | INSERT)], Pass),
    cmd("setrange", 4, WRITE | DENYOOM, CHANGE, Pass),
    cmd("shutdown", -1, ADMIN | NOSCRIPT | LOADING | STALE | ALLOW_BUSY | NO_MULTI, NONE, Refused),
    cmd("sinter", -2, READONLY, READ_ALL, Pass),
    cmd("sintercard", -3, READONLY | MOVABLEKEYS, READ_COUNTED, Pass),
    cmd("sinterstore", -3, WRITE | DENYOOM, STORE_ALL, Pass),
    cmd("sismember", 3, READONLY | FAST, LOOK, Pass),
    cmd("slaveof", 3, ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING, NONE, Pass),
    cmd("slowlog", -2, PLAIN, NONE, Local),
    cmd("slowlog|get", -2, ADMIN | LOADING | STALE, NONE, Local).spread(AllNodes, AsIs),
    cmd("slowlog|help", 2, LOADING | STALE, NONE, Local),
    cmd("slowlog|len", 2, ADMIN | LOADING | STALE, NONE, Local).spread(AllNodes, AggSum),
    cmd("slowlog|reset", 2, ADMIN | LOADING | STALE, NONE, Local).spread(AllNodes, AllSucceeded),
    cmd("smembers", 2, READONLY, READ, Pass),
    cmd("smismember", -3, READONLY | FAST, READ, Pass),
    cmd("smove", 4, WRITE | FAST, MOVE, Pass),
    cmd("sort", -2, WRITE | DENYOOM | MOVABLEKEYS,
        &[at(1, RO | ACCESS), unknown(RO | ACCESS), unknown(OW | UPDATE)], Pass).rule(Sort),
    cmd("sort_ro", -2, READONLY | MOVABLEKEYS, &[at(1, RO | ACCESS), unknown(RO | ACCESS)], Pass),
    cmd("spop", -2, WRITE | FAST, POP, Pass),
    cmd("spublish", 3, PUBSUB | FAST | LOADING | STALE | MAY_REPLICATE, &[at(1, NOT_KEY)], Counted),
    cmd("srandmember", -2, READONLY, READ, Pass),
    cmd("srem", -3, WRITE | FAST, TAKE, Pass),
    cmd("sscan", -3, READONLY, READ, Pass),
    cmd("ssubscribe", -2, PUBSUB | NOSCRIPT | LOADING | STALE, &[range(1, -1, 1, NOT_KEY)], Local),
    cmd("strlen", 2, READONLY | FAST, LOOK, Pass),
    cmd("subscribe", -2, PUBSUB | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("substr", 4, READONLY, READ, Pass),
    cmd("sunion", -2, READONLY, READ_ALL, Pass),
    cmd("sunioncard", -3, READONLY | MOVABLEKEYS, READ_COUNTED, Pass),
    cmd("sunionstore", -3, WRITE | DENYOOM, STORE_ALL, Pass),
    cmd("sunsubscribe", -1, PUBSUB | NOSCRIPT | LOADING | STALE,
        &[range(1, -1, 1, NOT_KEY)], Local),
    cmd("swapdb", 3, WRITE | FAST, NONE, Pass),
    cmd("sync", 1, ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI, NONE, Leased),
    cmd("time", 1, FAST | LOADING | STALE, NONE, Pass),
    cmd("topkeys", -2, PLAIN, NONE, Local),
    cmd("topkeys|disable", 2, ADMIN | NOSCRIPT, NONE, Local),
    cmd("topkeys|enable", 2, ADMIN | NOSCRIPT, NONE, Local),
    cmd("topkeys|get", -2, ADMIN | NOSCRIPT, NONE, Local),
    cmd("topkeys|help", 2, LOADING | STALE, NONE, Local),
    cmd("topkeys|reset", 2, ADMIN | NOSCRIPT, NONE, Local),
    cmd("touch", -2, READONLY | FAST, LOOK_ALL, Pass).spread(MultiShard, AggSum),
    cmd("trimslots", -5, WRITE, NONE, Pass),
    cmd("ttl", 2, READONLY | FAST, READ, Pass),
    cmd("type", 2, READONLY | FAST, LOOK, Pass),
    cmd("unlink", -2, WRITE | FAST, &[range(1, -1, 1, RM | DELETE)], Pass)
        .spread(MultiShard, AggSum),
    cmd("unsubscribe", -1, PUBSUB | NOSCRIPT | LOADING | STALE, NONE, Local),
    cmd("unwatch", 1, FAST | NOSCRIPT | LOADING | STALE | ALLOW_BUSY, NONE, Local),
    cmd("vadd", -1, WRITE | DENYOOM | MODULE, READ_CHANGE, Blocking),
    cmd("vcard", -1, READONLY | FAST | MODULE, READ_CHANGE, Pass),
    cmd("vdim", -1, READONLY | FAST | MODULE, READ_CHANGE, Pass),
    cmd("vemb", -1, READONLY | FAST | MODULE, READ_CHANGE, Pass),
    cmd("vgetattr", -1, READONLY | FAST | MODULE, READ_CHANGE, Pass),
    cmd("vinfo", -1, READONLY | FAST | MODULE, READ_CHANGE, Pass),
    cmd("vismember", -1, READONLY | MODULE, READ_CHANGE, Pass),
    cmd("vlinks", -1, READONLY | FAST | MODULE, READ_CHANGE, Pass),
    cmd("vrandmember", -1, READONLY | MODULE, READ_CHANGE, Pass),
    cmd("vrange", -4, READONLY | MODULE, READ, Pass),
    cmd("vrem", -1, WRITE | MODULE, READ_CHANGE, Pass),
    cmd("vsetattr", -1, WRITE | FAST | MODULE, READ_CHANGE, Pass),
    cmd("vsim", -1, READONLY | MODULE, READ_CHANGE, Leased),
    cmd("wait", 3, BLOCKING, NONE, Leased).spread(AllShards, AggMin),
    cmd("waitaof", 4, BLOCKING, NONE, Leased).spread(AllShards, AggMin),
    cmd("watch", -2, FAST | NOSCRIPT | LOADING | STALE | ALLOW_BUSY, LOOK_ALL, Leased),
    cmd("xack", -4, WRITE | FAST, CHANGE, Pass),
    cmd("xackdel", -6, WRITE | FAST, &[at(1, RW | UPDATE | DELETE)], Pass),
    cmd("xadd", -5, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("xautoclaim", -6, WRITE | FAST, TAKE, Pass),
    cmd("xcfgset", -2, WRITE | FAST, CHANGE, Pass),
    cmd("xclaim", -6, WRITE | FAST, CHANGE, Pass),
    cmd("xdel", -3, WRITE | FAST, TAKE, Pass),
    cmd("xdelex", -5, WRITE | FAST, TAKE, Pass),
    cmd("xgroup", -2, PLAIN, NONE, Pass),
    cmd("xgroup|create", -5, WRITE | DENYOOM, &[at(2, RW | INSERT)], Pass),
    cmd("xgroup|createconsumer", 5, WRITE | DENYOOM, &[at(2, RW | INSERT)], Pass),
    cmd("xgroup|delconsumer", 5, WRITE, &[at(2, RW | DELETE)], Pass),
    cmd("xgroup|destroy", 4, WRITE, &[at(2, RW | DELETE)], Pass),
    cmd("xgroup|help", 2, LOADING | STALE, NONE, Pass),
    cmd("xgroup|setid", -5, WRITE, &[at(2, RW | UPDATE)], Pass),
    cmd("xidmprecord", 5, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("xinfo", -2, PLAIN, NONE, Pass),
    cmd("xinfo|consumers", 4, READONLY, SUB_READ, Pass),
    cmd("xinfo|groups", 3, READONLY, SUB_READ, Pass),
    cmd("xinfo|help", 2, LOADING | STALE, NONE, Pass),
    cmd("xinfo|stream", -3, READONLY, SUB_READ, Pass),
    cmd("xlen", 2, READONLY | FAST, LOOK, Pass),
    cmd("xnack", -7, WRITE | FAST, CHANGE, Pass),
    cmd("xpending", -3, READONLY, READ, Pass),
    cmd("xrange", -4, READONLY, READ, Pass),
    cmd("xread", -4, READONLY | BLOCKING | MOVABLEKEYS,
        &[after("streams", 1, -1, 2, RO | ACCESS)], Blocking).rule(Streams),
    cmd("xreadgroup", -7, WRITE | BLOCKING | MOVABLEKEYS,
        &[after("streams", 4, -1, 2, RO | ACCESS)], Blocking).rule(Streams),
    cmd("xrevrange", -4, READONLY, READ, Pass),
    cmd("xsetid", -3, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("xtrim", -4, WRITE, TAKE, Pass),
    cmd("zadd", -4, WRITE | DENYOOM | FAST, CHANGE, Pass),
    cmd("zcard", 2, READONLY | FAST, LOOK, Pass),
    cmd("zcount", 4, READONLY | FAST, READ, Pass),
    cmd("zdiff", -3, READONLY | MOVABLEKEYS, READ_COUNTED, Pass),
    cmd("zdiffstore", -4, WRITE | DENYOOM | MOVABLEKEYS, STORE_COUNTED, Pass),
    cmd("zincrby", 4, WRITE | DENYOOM | FAST, READ_CHANGE, Pass),
    cmd("zinter", -3, READONLY | MOVABLEKEYS, READ_COUNTED, Pass),
    cmd("zintercard", -3, READONLY | MOVABLEKEYS, READ_COUNTED, Pass),
    cmd("zinterstore", -4, WRITE | DENYOOM | MOVABLEKEYS, STORE_COUNTED, Pass),
    cmd("zlexcount", 4, READONLY | FAST, READ, Pass),
    cmd("zmpop", -4, WRITE | MOVABLEKEYS, &[counted(1, 0, 1, 1, RW | ACCESS | DELETE)], Pass),
    cmd("zmscore", -3, READONLY | FAST, READ, Pass),
    cmd("zpopmax", -2, WRITE | FAST, POP, Pass),
    cmd("zpopmin", -2, WRITE | FAST, POP, Pass),
    cmd("zrandmember", -2, READONLY, READ, Pass),
    cmd("zrange", -4, READONLY, READ, Pass),
    cmd("zrangebylex", -4, READONLY, READ, Pass),
    cmd("zrangebyscore", -4, READONLY, READ, Pass),
    cmd("zrangestore", -5, WRITE | DENYOOM, &[at(1, OW | UPDATE), at(2, RO | ACCESS)], Pass),
    cmd("zrank", -3, READONLY | FAST, READ, Pass),
    cmd("zrem", -3, WRITE | FAST, TAKE, Pass),
    cmd("zremrangebylex", 4, WRITE, TAKE, Pass),
    cmd("zremrangebyrank", 4, WRITE, TAKE, Pass),
    cmd("zremrangebyscore", 4, WRITE, TAKE, Pass),
    cmd("zrevrange", -4, READONLY, READ, Pass),
    cmd("zrevrangebylex", -4, READONLY, READ, Pass),
    cmd("zrevrangebyscore", -4, READONLY, READ, Pass),
    cmd("zrevrank", -3, READONLY | FAST, READ, Pass),
    cmd("zscan", -3, READONLY, READ, Pass),
    cmd("zscore", 3, READONLY | FAST, READ, Pass),
    cmd("zunion", -3, READONLY | MOVABLEKEYS, READ_COUNTED, Pass),
    cmd("zunionstore", -4, WRITE | DENYOOM | MOVABLEKEYS, STORE_COUNTED, Pass),
];
