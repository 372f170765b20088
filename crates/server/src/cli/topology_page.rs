//! The page `docs/reference/commands-by-topology.md`: where each command goes in front of each kind of deployment.
//!
//! Made of `engine::command::spread`, which speaks for the engine's own decisions, so the page cannot promise something else. The
//! groups are those of the servers' documentation and say nothing about what happens.
//!
//! Not here: what a command is and which connection it takes (`commands_page`).
//!
//! Invariant: every row of the command table stands in exactly one row of the page; subcommands of a container that share all their
//! columns share a row.

use std::fmt::Write;

use engine::command::spread::{Behind, Fate, Fates, Gather, fates};
use engine::command::{self, CommandId};

/// What stands above the tables.
const HEAD: &str = "\
# Commands by topology

What becomes of each command in front of one server, of a server that [sentinels](../guides/sentinel.md) watch, of a
[cluster](../guides/cluster.md) and of [shards](../guides/sharding.md). What a command is, and which connection it takes, is in
[commands.md](commands.md). Commands that are not listed (modules, newer servers) go by the keys that the server's own `COMMAND`
tells of, or to any node if it tells of none.

| in the tables | what happens |
|---|---|
| server, primary | given on to the one server, or to the primary that sentinels name |
| by key | to the owner of its key: of its slot in a cluster, of the key among shards |
| one slot | to the owner of its keys, which must lie in one slot; else `CROSSSLOT`, as from a server of a cluster |
| one shard | the same among shards: all keys on one shard (and in one slot, where that shard is a cluster); else `CROSSSLOT` |
| split | in parts to the owners of its keys, all parts of a node in one write; the replies become one as said |
| all | to every primary; the replies become one as said. If a slot or shard has no primary just now it is an error and nothing is sent |
| cursor | to one primary after the other, with one cursor over all |
| any | always to the same primary: that of slot 0, or of the first shard |
| shared | subscribed to once for all clients of a worker: in a cluster a channel at its home, one of all nodes; else at the owner that a key of its name would have; a pattern at one node of each cluster or shard; shard channels at the owner of the slot (keyspace events: at every primary) |
| by channel | to where its channel is subscribed to |
| respool | answered by respool |
| facade | answered by respool: as by a server that is no cluster, or with `facade.cluster` as by one |
| …, own connection | over a connection of the client's own, for as long as a transaction or a wait lasts |
| not yet | an error: needs its connection for as long as it lasts, which respool does not give yet |
| refused | an error: not given on |
| *x*; bare: *y* | *x* if the call names keys, *y* if it names none |
| *x*; `BLOCK`: *y* | *y* with the option `BLOCK`, else *x* |

How replies become one: *sum*, *least*, *greatest* of numbers; *all OK*: the first if none is an error; *one OK*: the first that is no
error; *all 1*, *any 1*: element by element; *joined*: the elements of all; *each once*: the same without
repetitions; *sum of each*: name by name; *in order*: each element where its key stands in the
request; *one of them*: one that is not null. An error of one node is the error of the whole (but for *one OK*): nothing is left out
of a sum or a list.

*replica*: a replica may answer, where there are some and [`reads.policy`](../guides/replica-reads.md) says so. Everything else
goes to primaries; that includes what the servers themselves would have sent to replicas as well (`CONFIG SET`, `SCRIPT FLUSH`).

In a cluster there is database 0 only: `SELECT` of another one, `MOVE`, and `COPY … DB` to another one are answered as every cluster
answers them, also in front of Valkey 9 with `cluster-databases`. The distribution `random` of shards chooses one shard for all keys of a request.
";

/// The groups in the servers' documentation, each with its commands.
const GROUPS: &[(&str, &str)] = &[
    (
        "Keys",
        "copy del delex delifeq digest dump exists expire expireat expiretime keys migrate move object persist pexpire pexpireat \
         pexpiretime pttl randomkey rename renamenx restore scan clusterscan sort sort_ro touch ttl type unlink wait waitaof",
    ),
    (
        "Strings",
        "append decr decrby get getdel getex getrange getset incr incrby incrbyfloat increx lcs mget mset msetex msetnx psetex set \
         setex setnx setrange strlen substr",
    ),
    (
        "Hashes",
        "hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex himport hincrby hincrbyfloat hkeys hlen hmget hmset \
         hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals",
    ),
    (
        "Lists",
        "blmove blmovem blmpop blpop brpop brpoplpush lindex linsert llen lmove lmovem lmpop lpop lpos lpush lpushx lrange lrem lset \
         ltrim rpop rpoplpush rpush rpushx",
    ),
    (
        "Sets",
        "sadd scard sdiff sdiffcard sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop srandmember \
         srem sscan sunion sunioncard sunionstore",
    ),
    (
        "Sorted sets",
        "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop zmscore \
         zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank \
         zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore",
    ),
    (
        "Streams",
        "xack xackdel xadd xautoclaim xcfgset xclaim xdel xdelex xgroup xidmprecord xinfo xlen xnack xpending xrange xread \
         xreadgroup xrevrange xsetid xtrim",
    ),
    (
        "Bitmaps, HyperLogLog, geo",
        "bitcount bitfield bitfield_ro bitop bitpos getbit setbit pfadd pfcount pfdebug pfmerge pfselftest geoadd geodist geohash \
         geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore",
    ),
    (
        "Arrays and vector sets",
        "arcount ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen armget armset arnext arop arring arscan \
         arseek arset vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim",
    ),
    ("Scripts and functions", "eval eval_ro evalsha evalsha_ro fcall fcall_ro function script"),
    ("Transactions", "discard exec multi unwatch watch"),
    (
        "Publish and subscribe",
        "psubscribe publish pubsub punsubscribe spublish ssubscribe subscribe sunsubscribe unsubscribe",
    ),
    ("Connection", "auth client echo hello ping quit reset select"),
    ("Cluster", "asking bless cluster readonly readwrite"),
    (
        "Server",
        "acl backup bgrewriteaof bgsave bigkeys command commandlog config dbsize debug failover flushall flushdb hotkeys info lastsave latency lolwut \
         memory module monitor psync replconf replicaof restore-asking role save shutdown slaveof slowlog swapdb sync time topkeys trimslots",
    ),
];

/// With so many subcommands of one kind a row does not name them.
const SUBCOMMANDS_MAX: usize = 20;

/// The page.
pub(super) fn page() -> String {
    let mut page = format!(
        "<!-- Generated from crates/engine/src/command/spread.rs by `{}`. Do not edit. -->\n{HEAD}",
        config::documents::REGENERATE
    );
    for (title, names) in GROUPS {
        // Writing to a `String` cannot fail.
        let _ = write!(
            page,
            "\n## {title}\n\n| command | one server | sentinels | cluster | shards | replica |\n|---|---|---|---|---|---|\n"
        );
        for name in names.split_whitespace() {
            if let Some(id) = command::lookup(name.as_bytes()) {
                rows(&mut page, id);
            }
        }
    }
    page
}

/// The row of a command, or a row for each kind of its subcommands.
fn rows(page: &mut String, id: CommandId) {
    let title = id.name().to_uppercase();
    let mut kinds: Vec<([Fates; 4], Vec<String>)> = Vec::new();
    for sub in id.subcommands() {
        let columns = Behind::ALL.map(|behind| fates(sub, behind));
        let (_, word) = sub.name().split_once('|').unwrap_or_default();
        match kinds.iter_mut().find(|(known, _)| *known == columns) {
            Some((_, words)) => words.push(word.to_uppercase()),
            None => kinds.push((columns, vec![word.to_uppercase()])),
        }
    }
    match kinds.as_slice() {
        [] => row(page, &format!("`{title}`"), Behind::ALL.map(|behind| fates(id, behind))),
        [(columns, _)] => row(page, &format!("`{title}` …"), *columns),
        _ => {
            for (columns, words) in &kinds {
                let which = match words.len() {
                    // Nobody reads so many; the other rows name the exceptions.
                    SUBCOMMANDS_MAX.. => "… (all others)".to_owned(),
                    _ => format!("`{}`", words.join("` `")),
                };
                row(page, &format!("`{title}` {which}"), *columns);
            }
        }
    }
}

fn row(page: &mut String, title: &str, columns: [Fates; 4]) {
    let _ = write!(page, "| {title}");
    for (behind, fates) in Behind::ALL.into_iter().zip(columns) {
        let _ = write!(page, " | {}", cell(fates, behind));
    }
    let replica = columns.iter().any(|fates| fates.may_be_read_from_replica);
    let _ = writeln!(page, " | {} |", if replica { "yes" } else { "" });
}

/// What becomes of a command, in the words of the page.
fn cell(fates: Fates, behind: Behind) -> String {
    let mut text = match (fates.with_keys, fates.without_keys) {
        (Some(with), Some(without)) if with != without => {
            format!("{}; bare: {}", words(with, behind), words(without, behind))
        }
        (Some(one), _) | (None, Some(one)) => words(one, behind),
        // A row has either kind of call.
        (None, None) => String::new(),
    };
    if fates.own_connection {
        text += ", own connection";
    }
    if fates.blocks_by_option {
        text += "; `BLOCK`, `CAS`: own connection";
    }
    text
}

fn words(fate: Fate, behind: Behind) -> String {
    let word = match fate {
        Fate::Local => "respool",
        Fate::Listens => "shared",
        Fate::Facade => "facade",
        Fate::Own => "not yet",
        Fate::Refused => "refused",
        Fate::Whole if behind == Behind::Server => "server",
        Fate::Whole => "primary",
        Fate::Channel => "by channel",
        Fate::Owner => "by key",
        Fate::OneOwner if behind == Behind::Cluster => "one slot",
        Fate::OneOwner => "one shard",
        Fate::Split(how) => return format!("split: {}", gathered(how)),
        Fate::All(how) => return format!("all: {}", gathered(how)),
        Fate::Iterates => "cursor",
        Fate::Any => "any",
    };
    word.to_owned()
}

fn gathered(how: Gather) -> &'static str {
    match how {
        Gather::Sum => "sum",
        Gather::Min => "least",
        Gather::MinEach => "least of each",
        Gather::Max => "greatest",
        Gather::AllOk => "all OK",
        Gather::OneOk => "one OK",
        Gather::And => "all 1",
        Gather::Or => "any 1",
        Gather::Join => "joined",
        Gather::Union => "each once",
        Gather::SumEach => "sum of each",
        Gather::AnyOfSome => "one of them",
        Gather::InOrder => "in order",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.split_whitespace()).collect();
        for name in (0..command::COUNT).filter_map(CommandId::from_index).map(CommandId::name) {
            if !name.contains('|') {
                let times = grouped.iter().filter(|known| **known == name).count();
                assert_eq!(times, 1, "{name}");
            }
        }
        for name in grouped {
            assert!(command::lookup(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn rows_say_what_happens() {
        let page = page();
        for line in [
            "| `GET` | server | primary | by key | by key | yes |",
            "| `SET` | server | primary | by key | by key |  |",
            "| `MGET` | server | primary | split: in order | split: in order | yes |",
            "| `MSET` | server | primary | split: all OK | split: all OK |  |",
            "| `MSETNX` | server | primary | one slot | one shard |  |",
            "| `DBSIZE` | server | primary | all: sum | all: sum |  |",
            "| `SCAN` | server | primary | cursor | cursor |  |",
            "| `EVAL` | server | primary | one slot; bare: any | one shard; bare: any |  |",
            "| `CLIENT` … | respool | respool | respool | respool |  |",
            "| `BLPOP` | server, own connection | primary, own connection | one slot, own connection | one shard, own connection |  |",
            "| `SUBSCRIBE` | shared | shared | shared | shared |  |",
            "| `SCRIPT` `KILL` | server | primary | all: one OK | all: one OK |  |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}");
        }
    }
}
