//! Which reads may be answered together with an equal one (`coalesce`).
//!
//! Two such calls that a server does at the same moment get the same bytes, whoever calls, and that one of them was not made is seen by nobody.
//! Left out, though they only read:
//! - what draws by chance (`RANDOMKEY`, `SRANDMEMBER`, `HRANDFIELD`, `ZRANDMEMBER`): whoever draws wants a draw of his own;
//! - what tells a time, or how long something is idle (`TTL` and its kin, `OBJECT`, `XPENDING`, `XINFO`): it is another at every look, and
//!   nobody asks for it so often that it would matter;
//! - what is called for its effect (`TOUCH`), or may write (`PFCOUNT` puts its estimate into the key, `GETEX`, `GETDEL`);
//! - what walks (`SCAN` and its kin): each walk is of one client;
//! - what is about the server and not about a key (`MEMORY USAGE`, `DUMP`, `KEYS`, `DBSIZE`);
//! - what works on several keys (`SINTER`, `ZUNION` …) or may take long (`SORT_RO`, `LCS`): rare, and seldom equal. `MGET` and `EXISTS`
//!   are here, as many ask for several keys and always for the same.
//!
//! Not here: when they are (`coalesce`).
//!
//! Invariant: each of them is plain, and to the server it only reads; `command::tests` checks it.

use super::ids::same;

/// Their names, in the order of the table.
pub(super) const NAMES: &[&str] = &[
    "bitcount",
    "bitfield_ro",
    "bitpos",
    "exists",
    "geodist",
    "geohash",
    "geopos",
    "geosearch",
    "get",
    "getbit",
    "getrange",
    "hexists",
    "hget",
    "hgetall",
    "hkeys",
    "hlen",
    "hmget",
    "hstrlen",
    "hvals",
    "lindex",
    "llen",
    "lpos",
    "lrange",
    "mget",
    "scard",
    "sismember",
    "smembers",
    "smismember",
    "strlen",
    "substr",
    "type",
    "xlen",
    "xrange",
    "xrevrange",
    "zcard",
    "zcount",
    "zlexcount",
    "zmscore",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrank",
    "zrevrange",
    "zrevrangebylex",
    "zrevrangebyscore",
    "zrevrank",
    "zscore",
];

/// Whether this is one of them: both are sorted, so one walk over the table finds all.
pub(super) const fn is_next(name: &str, found: usize) -> bool {
    found < NAMES.len() && same(name.as_bytes(), NAMES[found].as_bytes())
}
