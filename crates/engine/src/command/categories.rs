//! Which categories of Redis' access control a command belongs to (`+@read`, `-@dangerous`).
//!
//! Most of it follows from the flags of the row, as in a server (`of`); what does not stands in `EXPLICIT`, with the facts of Redis 7.0
//! and, for commands that it does not know, of the servers that have them. `tests/command_table.rs` compares with a running server.
//!
//! Not here: what users may do with it (`acl`).
//!
//! Invariant: `EXPLICIT` is sorted as the table is, and each of its names has a row.

use super::ids::same;
use super::word;
use super::{Flags, flags::bit};

/// A set of categories.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Categories(u32);

/// Every category by the name that rules have for it, in the order of `ACL CAT`.
pub const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

const KEYSPACE: u32 = 1;
const READ: u32 = 1 << 1;
const WRITE: u32 = 1 << 2;
const SET: u32 = 1 << 3;
const SORTEDSET: u32 = 1 << 4;
const LIST: u32 = 1 << 5;
const HASH: u32 = 1 << 6;
const STRING: u32 = 1 << 7;
const BITMAP: u32 = 1 << 8;
const HYPERLOGLOG: u32 = 1 << 9;
const GEO: u32 = 1 << 10;
const STREAM: u32 = 1 << 11;
const PUBSUB: u32 = 1 << 12;
const ADMIN: u32 = 1 << 13;
const FAST: u32 = 1 << 14;
const SLOW: u32 = 1 << 15;
const BLOCKING: u32 = 1 << 16;
const DANGEROUS: u32 = 1 << 17;
const CONNECTION: u32 = 1 << 18;
const TRANSACTION: u32 = 1 << 19;
const SCRIPTING: u32 = 1 << 20;

impl Categories {
    /// The category with this name, in any case.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        let at = NAMES.iter().position(|known| word::is(name, known))?;
        Some(Self(1 << at))
    }

    /// None of them.
    pub(super) const fn none() -> Self {
        Self(0)
    }

    /// Whether the two have a category in common.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let is_in = move |(at, _): &(usize, &&str)| self.0 & (1 << at) != 0;
        NAMES.iter().enumerate().filter(is_in).map(|(_, name)| *name)
    }
}

/// The categories of a row with these flags; `explicit` are those that it has beside (`setImplicitACLCategories` in Redis' server.c).
pub(super) const fn of(flags: Flags, explicit: u32) -> Categories {
    let mut set = explicit;
    // Redis' vector sets are a module, and commands of modules are in the categories that they name: these name none.
    if flags.has(Flags::MODULE) {
        return Categories(set);
    }
    let implied: [(u32, u32); 6] = [
        (bit::WRITE, WRITE),
        (bit::READONLY, if explicit & SCRIPTING == 0 { READ } else { 0 }),
        (bit::ADMIN, ADMIN | DANGEROUS),
        (bit::PUBSUB, PUBSUB),
        (bit::FAST, FAST),
        (bit::BLOCKING, BLOCKING),
    ];
    let mut at = 0;
    while at < implied.len() {
        if flags.intersects(Flags::of(implied[at].0)) {
            set |= implied[at].1;
        }
        at += 1;
    }
    if set & FAST == 0 {
        set |= SLOW;
    }
    Categories(set)
}

/// Categories that do not follow from the flags.
const EXPLICIT: &[(&str, u32)] = &[
    ("append", STRING),
    ("asking", CONNECTION),
    ("auth", CONNECTION),
    ("bitcount", BITMAP),
    ("bitfield", BITMAP),
    ("bitfield_ro", BITMAP),
    ("bitop", BITMAP),
    ("bitpos", BITMAP),
    ("blmove", LIST),
    ("blmovem", LIST),
    ("blmpop", LIST),
    ("blpop", LIST),
    ("brpop", LIST),
    ("brpoplpush", LIST),
    ("bzmpop", SORTEDSET),
    ("bzpopmax", SORTEDSET),
    ("bzpopmin", SORTEDSET),
    ("client|caching", CONNECTION),
    ("client|capa", CONNECTION),
    ("client|getname", CONNECTION),
    ("client|getredir", CONNECTION),
    ("client|help", CONNECTION),
    ("client|id", CONNECTION),
    ("client|import-source", CONNECTION),
    ("client|info", CONNECTION),
    ("client|kill", CONNECTION),
    ("client|list", CONNECTION),
    ("client|no-evict", CONNECTION),
    ("client|no-touch", CONNECTION),
    ("client|pause", CONNECTION),
    ("client|reply", CONNECTION),
    ("client|setinfo", CONNECTION),
    ("client|setname", CONNECTION),
    ("client|tracking", CONNECTION),
    ("client|trackinginfo", CONNECTION),
    ("client|unblock", CONNECTION),
    ("client|unpause", CONNECTION),
    ("cluster|flushslot", KEYSPACE),
    ("clusterscan", KEYSPACE),
    ("command", CONNECTION),
    ("command|count", CONNECTION),
    ("command|docs", CONNECTION),
    ("command|getkeys", CONNECTION),
    ("command|getkeysandflags", CONNECTION),
    ("command|help", CONNECTION),
    ("command|info", CONNECTION),
    ("command|list", CONNECTION),
    ("copy", KEYSPACE),
    ("dbsize", KEYSPACE),
    ("decr", STRING),
    ("decrby", STRING),
    ("del", KEYSPACE),
    ("delex", STRING),
    ("delifeq", STRING),
    ("digest", STRING),
    ("discard", TRANSACTION),
    ("dump", KEYSPACE),
    ("echo", CONNECTION),
    ("eval", SCRIPTING),
    ("eval_ro", SCRIPTING),
    ("evalsha", SCRIPTING),
    ("evalsha_ro", SCRIPTING),
    ("exec", TRANSACTION),
    ("exists", KEYSPACE),
    ("expire", KEYSPACE),
    ("expireat", KEYSPACE),
    ("expiretime", KEYSPACE),
    ("fcall", SCRIPTING),
    ("fcall_ro", SCRIPTING),
    ("flushall", KEYSPACE | DANGEROUS),
    ("flushdb", KEYSPACE | DANGEROUS),
    ("function|delete", SCRIPTING),
    ("function|dump", SCRIPTING),
    ("function|flush", SCRIPTING),
    ("function|help", SCRIPTING),
    ("function|kill", SCRIPTING),
    ("function|list", SCRIPTING),
    ("function|load", SCRIPTING),
    ("function|restore", SCRIPTING),
    ("function|stats", SCRIPTING),
    ("geoadd", GEO),
    ("geodist", GEO),
    ("geohash", GEO),
    ("geopos", GEO),
    ("georadius", GEO),
    ("georadius_ro", GEO),
    ("georadiusbymember", GEO),
    ("georadiusbymember_ro", GEO),
    ("geosearch", GEO),
    ("geosearchstore", GEO),
    ("get", STRING),
    ("getbit", BITMAP),
    ("getdel", STRING),
    ("getex", STRING),
    ("getrange", STRING),
    ("getset", STRING),
    ("hdel", HASH),
    ("hello", CONNECTION),
    ("hexists", HASH),
    ("hexpire", HASH),
    ("hexpireat", HASH),
    ("hexpiretime", HASH),
    ("hget", HASH),
    ("hgetall", HASH),
    ("hgetdel", HASH),
    ("hgetex", HASH),
    ("himport", HASH),
    ("himport|discard", HASH),
    ("himport|discardall", HASH),
    ("himport|prepare", HASH),
    ("himport|set", HASH),
    ("hincrby", HASH),
    ("hincrbyfloat", HASH),
    ("hkeys", HASH),
    ("hlen", HASH),
    ("hmget", HASH),
    ("hmset", HASH),
    ("hpersist", HASH),
    ("hpexpire", HASH),
    ("hpexpireat", HASH),
    ("hpexpiretime", HASH),
    ("hpttl", HASH),
    ("hrandfield", HASH),
    ("hscan", HASH),
    ("hset", HASH),
    ("hsetex", HASH),
    ("hsetnx", HASH),
    ("hstrlen", HASH),
    ("httl", HASH),
    ("hvals", HASH),
    ("incr", STRING),
    ("incrby", STRING),
    ("incrbyfloat", STRING),
    ("increx", STRING),
    ("info", DANGEROUS),
    ("keys", KEYSPACE | DANGEROUS),
    ("lastsave", ADMIN | DANGEROUS),
    ("lcs", STRING),
    ("lindex", LIST),
    ("linsert", LIST),
    ("llen", LIST),
    ("lmove", LIST),
    ("lmovem", LIST),
    ("lmpop", LIST),
    ("lpop", LIST),
    ("lpos", LIST),
    ("lpush", LIST),
    ("lpushx", LIST),
    ("lrange", LIST),
    ("lrem", LIST),
    ("lset", LIST),
    ("ltrim", LIST),
    ("mget", STRING),
    ("migrate", KEYSPACE | DANGEROUS),
    ("move", KEYSPACE),
    ("mset", STRING),
    ("msetex", STRING),
    ("msetnx", STRING),
    ("multi", TRANSACTION),
    ("object|encoding", KEYSPACE),
    ("object|freq", KEYSPACE),
    ("object|help", KEYSPACE),
    ("object|idletime", KEYSPACE),
    ("object|refcount", KEYSPACE),
    ("persist", KEYSPACE),
    ("pexpire", KEYSPACE),
    ("pexpireat", KEYSPACE),
    ("pexpiretime", KEYSPACE),
    ("pfadd", HYPERLOGLOG),
    ("pfcount", HYPERLOGLOG),
    ("pfdebug", HYPERLOGLOG),
    ("pfmerge", HYPERLOGLOG),
    ("pfselftest", HYPERLOGLOG),
    ("ping", CONNECTION),
    ("psetex", STRING),
    ("pttl", KEYSPACE),
    ("quit", CONNECTION),
    ("randomkey", KEYSPACE),
    ("readonly", CONNECTION),
    ("readwrite", CONNECTION),
    ("rename", KEYSPACE),
    ("renamenx", KEYSPACE),
    ("reset", CONNECTION),
    ("restore", KEYSPACE | DANGEROUS),
    ("restore-asking", KEYSPACE | DANGEROUS),
    ("role", ADMIN | DANGEROUS),
    ("rpop", LIST),
    ("rpoplpush", LIST),
    ("rpush", LIST),
    ("rpushx", LIST),
    ("sadd", SET),
    ("scan", KEYSPACE),
    ("scard", SET),
    ("script|debug", SCRIPTING),
    ("script|exists", SCRIPTING),
    ("script|flush", SCRIPTING),
    ("script|help", SCRIPTING),
    ("script|kill", SCRIPTING),
    ("script|load", SCRIPTING),
    ("script|show", SCRIPTING),
    ("sdiff", SET),
    ("sdiffcard", SET),
    ("sdiffstore", SET),
    ("select", CONNECTION),
    ("set", STRING),
    ("setbit", BITMAP),
    ("setex", STRING),
    ("setnx", STRING),
    ("setrange", STRING),
    ("sinter", SET),
    ("sintercard", SET),
    ("sinterstore", SET),
    ("sismember", SET),
    ("smembers", SET),
    ("smismember", SET),
    ("smove", SET),
    ("sort", SET | SORTEDSET | LIST | DANGEROUS),
    ("sort_ro", SET | SORTEDSET | LIST | DANGEROUS),
    ("spop", SET),
    ("srandmember", SET),
    ("srem", SET),
    ("sscan", SET),
    ("strlen", STRING),
    ("substr", STRING),
    ("sunion", SET),
    ("sunioncard", SET),
    ("sunionstore", SET),
    ("swapdb", KEYSPACE | DANGEROUS),
    ("touch", KEYSPACE),
    ("trimslots", KEYSPACE),
    ("ttl", KEYSPACE),
    ("type", KEYSPACE),
    ("unlink", KEYSPACE),
    ("unwatch", TRANSACTION),
    ("wait", CONNECTION),
    ("waitaof", CONNECTION),
    ("watch", TRANSACTION),
    ("xack", STREAM),
    ("xackdel", STREAM),
    ("xadd", STREAM),
    ("xautoclaim", STREAM),
    ("xcfgset", STREAM),
    ("xclaim", STREAM),
    ("xdel", STREAM),
    ("xdelex", STREAM),
    ("xgroup|create", STREAM),
    ("xgroup|createconsumer", STREAM),
    ("xgroup|delconsumer", STREAM),
    ("xgroup|destroy", STREAM),
    ("xgroup|help", STREAM),
    ("xgroup|setid", STREAM),
    ("xidmprecord", STREAM),
    ("xinfo|consumers", STREAM),
    ("xinfo|groups", STREAM),
    ("xinfo|help", STREAM),
    ("xinfo|stream", STREAM),
    ("xlen", STREAM),
    ("xnack", STREAM),
    ("xpending", STREAM),
    ("xrange", STREAM),
    ("xread", STREAM),
    ("xreadgroup", STREAM),
    ("xrevrange", STREAM),
    ("xsetid", STREAM),
    ("xtrim", STREAM),
    ("zadd", SORTEDSET),
    ("zcard", SORTEDSET),
    ("zcount", SORTEDSET),
    ("zdiff", SORTEDSET),
    ("zdiffstore", SORTEDSET),
    ("zincrby", SORTEDSET),
    ("zinter", SORTEDSET),
    ("zintercard", SORTEDSET),
    ("zinterstore", SORTEDSET),
    ("zlexcount", SORTEDSET),
    ("zmpop", SORTEDSET),
    ("zmscore", SORTEDSET),
    ("zpopmax", SORTEDSET),
    ("zpopmin", SORTEDSET),
    ("zrandmember", SORTEDSET),
    ("zrange", SORTEDSET),
    ("zrangebylex", SORTEDSET),
    ("zrangebyscore", SORTEDSET),
    ("zrangestore", SORTEDSET),
    ("zrank", SORTEDSET),
    ("zrem", SORTEDSET),
    ("zremrangebylex", SORTEDSET),
    ("zremrangebyrank", SORTEDSET),
    ("zremrangebyscore", SORTEDSET),
    ("zrevrange", SORTEDSET),
    ("zrevrangebylex", SORTEDSET),
    ("zrevrangebyscore", SORTEDSET),
    ("zrevrank", SORTEDSET),
    ("zscan", SORTEDSET),
    ("zscore", SORTEDSET),
    ("zunion", SORTEDSET),
    ("zunionstore", SORTEDSET),
];

/// The categories of the next row, where so many of [`EXPLICIT`] stand before it: both are sorted, so one walk over the table finds all.
pub(super) const fn explicit(name: &str, found: usize) -> Option<u32> {
    if found < EXPLICIT.len() && same(name.as_bytes(), EXPLICIT[found].0.as_bytes()) {
        Some(EXPLICIT[found].1)
    } else {
        None
    }
}

/// How many rows have categories that do not follow from their flags.
pub(super) const EXPLICIT_COUNT: usize = EXPLICIT.len();
