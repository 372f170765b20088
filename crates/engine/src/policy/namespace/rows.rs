//! Which commands can be changed for a namespace, and where in their requests and replies names stand.
//!
//! Each row of the command table stands in one of these lists. One that stands in none is refused: whether its reply tells names of keys
//! is for somebody to look up first. So is what only a server's `COMMAND` knows.
//!
//! Not here: the changes (`inward`, `outward`).
//!
//! Invariant: no row stands in two lists, which the tests check for all rows.

use super::super::outward::Shape;
use crate::command::CommandId;

/// What a namespace has to do with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    /// Nothing.
    Free,
    /// Its keys, which the command table finds; and this stands in its reply.
    Keys(Shape),
    /// The same, and patterns of keys (`SORT`).
    Sort,
    /// Names of keys or channels from this argument on, as many as there are.
    Names(usize, Shape),
    /// This argument is a pattern; without it all are meant.
    Pattern(usize),
    /// It goes through all keys.
    Scan,
    /// Prefixes of keys stand behind a word (`CLIENT TRACKING`).
    Tracking,
    /// It is about all that the servers hold.
    Whole,
    /// Nobody can say which keys it is about, or what its reply tells.
    Closed,
}

impl Within {
    /// The one of this row.
    pub(crate) fn of(id: CommandId) -> Self {
        let name = id.name();
        let is_in = |list: &str| list.split(' ').any(|other| other == name);
        match name {
            "sort" | "sort_ro" => Self::Sort,
            "scan" => Self::Scan,
            "keys" => Self::Pattern(1),
            "pubsub|channels" | "pubsub|shardchannels" => Self::Pattern(2),
            "client|tracking" => Self::Tracking,
            "publish" | "spublish" => Self::Names(1, Shape::None),
            "cluster|keyslot" => Self::Names(2, Shape::None),
            "pubsub|numsub" | "pubsub|shardnumsub" => Self::Names(2, Shape::Counts),
            "xread" | "xreadgroup" => Self::Keys(Shape::Streams),
            _ if is_in(LISTENING) => Self::Names(1, Shape::None),
            _ if is_in(KEYED) => Self::Keys(Shape::None),
            _ if is_in(ERRORS) => Self::Keys(Shape::Errors),
            _ if is_in(HEADS) => Self::Keys(Shape::Head),
            _ if is_in(FREE) => Self::Free,
            _ if is_in(WHOLE) => Self::Whole,
            _ => Self::Closed,
        }
    }
}

/// Refused, as nothing sensible could be answered: `RANDOMKEY` is asked until it hits a key of the namespace, which may be never.
#[cfg(test)]
const CLOSED: &str = "bless|scan clusterscan randomkey";

/// About all that a server holds.
const WHOLE: &str = "\
    cluster|countkeysinslot cluster|flushslot cluster|getkeysinslot cluster|slot-stats commandlog|get commandlog|reset dbsize flushall flushdb hotkeys|get hotkeys|reset hotkeys|start \
    hotkeys|stop memory|doctor memory|stats psync replconf swapdb sync trimslots";

/// The reply begins with the key from which something was taken.
const HEADS: &str = "blmpop blpop brpop bzmpop bzpopmax bzpopmin lmpop zmpop";

/// Arguments are names of channels.
const LISTENING: &str = "psubscribe punsubscribe ssubscribe subscribe sunsubscribe unsubscribe";

/// Keys stand where the table says, and no reply has any.
const KEYED: &str = "\
    append arcount ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen armget armset arnext arop arring arscan \
    arseek arset bitcount bitfield bitfield_ro bitop bitpos bless|clear bless|get bless|set blmove blmovem brpoplpush copy \
    decr decrby del delex delifeq digest dump eval eval_ro evalsha evalsha_ro exists expire expireat expiretime fcall fcall_ro geoadd \
    geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore get getbit getdel \
    getex getrange getset hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex himport|set hincrby hincrbyfloat \
    hkeys hlen hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals incr \
    incrby incrbyfloat increx lcs lindex linsert llen lmove lmovem lpop lpos lpush lpushx lrange lrem lset ltrim memory|usage mget \
    move mset msetex msetnx object|encoding object|freq object|idletime object|refcount persist pexpire pexpireat pexpiretime pfadd \
    pfcount pfdebug pfmerge psetex pttl rename renamenx restore restore-asking rpop rpoplpush rpush rpushx sadd scard sdiff sdiffcard \
    sdiffstore set setbit setex setnx setrange sinter sintercard sinterstore sismember smembers smismember smove spop srandmember srem \
    sscan strlen substr sunion sunioncard sunionstore touch ttl type unlink vadd vcard vdim vemb vgetattr vinfo vismember vlinks \
    vrandmember vrange vrem vsetattr vsim watch xadd xdel xidmprecord xlen xrange xrevrange xsetid xtrim zadd zcard zcount zdiff \
    zdiffstore zincrby zinter zintercard zinterstore zlexcount zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore \
    zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan \
    zscore zunion zunionstore";

/// The same, and an error may quote a key.
const ERRORS: &str = "\
    xack xackdel xautoclaim xcfgset xclaim xdelex xgroup|create xgroup|createconsumer xgroup|delconsumer xgroup|destroy xgroup|setid \
    xinfo|consumers xinfo|groups xinfo|stream xnack xpending";

/// Without keys, and nothing of a database in the reply.
const FREE: &str = "\
    acl acl|cat acl|deluser acl|dryrun acl|genpass acl|getuser acl|help acl|list acl|load acl|log acl|save acl|setuser acl|users \
    acl|whoami asking auth backup backup|abort backup|cleanup backup|help backup|list backup|seal backup|start backup|status \
    bgrewriteaof bgsave bigkeys bigkeys|get bigkeys|help bigkeys|len bigkeys|reset bless client client|caching client|capa \
    client|getname client|getredir client|help client|id client|import-source client|info client|kill client|list client|no-evict \
    client|no-touch client|pause client|reply client|setinfo client|setname client|trackinginfo client|unblock client|unpause cluster \
    cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|cancelslotmigrations cluster|count-failure-reports \
    cluster|delslots cluster|delslotsrange cluster|failover cluster|flushslots cluster|forget cluster|getslotmigrations cluster|help \
    cluster|info cluster|links cluster|meet cluster|migrateslots cluster|migration cluster|myid cluster|myshardid cluster|nodes \
    cluster|replicas cluster|replicate cluster|reset cluster|saveconfig cluster|set-config-epoch cluster|setslot cluster|shards \
    cluster|slaves cluster|slots cluster|syncslots command command|count command|docs command|getkeys \
    command|getkeysandflags command|help command|info command|list commandlog commandlog|help commandlog|len config config|get \
    config|help config|resetstat config|rewrite config|set debug discard echo exec failover function function|delete function|dump \
    function|flush function|help function|kill function|list function|load function|restore function|stats hello himport \
    himport|discard himport|discardall himport|prepare hotkeys hotkeys|help info lastsave latency latency|doctor latency|graph latency|help latency|histogram latency|history \
    latency|latest latency|reset lolwut memory memory|help memory|malloc-stats memory|purge migrate module \
    module|help module|list module|load module|loadex module|unload monitor multi object object|help pfselftest ping pubsub \
    pubsub|help pubsub|numpat quit readonly readwrite replicaof reset role save script script|debug script|exists script|flush \
    script|help script|kill script|load script|show select shutdown slaveof slowlog slowlog|get slowlog|help slowlog|len slowlog|reset \
    time topkeys topkeys|disable topkeys|enable topkeys|get topkeys|help topkeys|reset unwatch wait waitaof xgroup xgroup|help xinfo xinfo|help";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const ONES: &str = "client|tracking cluster|keyslot keys publish pubsub|channels pubsub|numsub pubsub|shardchannels pubsub|shardnumsub \
        scan sort sort_ro spublish xread xreadgroup";

    #[test]
    fn every_row_stands_in_one_list() {
        let lists = [ONES, CLOSED, WHOLE, HEADS, LISTENING, KEYED, ERRORS, FREE];
        let words = |list: &'static str| list.split(' ').filter(|word| !word.is_empty());
        let all: Vec<&str> = lists.iter().flat_map(|list| words(list)).collect();
        for id in CommandId::all() {
            let times = all.iter().filter(|name| **name == id.name()).count();
            assert_eq!(times, 1, "{} stands in {times} lists", id.name());
            let is_closed = words(CLOSED).any(|name| name == id.name());
            assert_eq!(Within::of(id) == Within::Closed, is_closed, "{}", id.name());
        }
        assert_eq!(all.len(), crate::command::COUNT, "names that no row has");
    }

    #[test]
    fn what_has_keys_is_not_free() {
        for id in CommandId::all().filter(|id| !id.row().keys.is_empty()) {
            let is_refused = id.row().class == crate::command::Class::Refused;
            let within = Within::of(id);
            assert!(within != Within::Free || is_refused, "{} has keys", id.name());
        }
        for id in CommandId::all().filter(|id| matches!(Within::of(*id), Within::Keys(_))) {
            assert!(!id.row().keys.is_empty(), "{} has no keys", id.name());
        }
    }
}
