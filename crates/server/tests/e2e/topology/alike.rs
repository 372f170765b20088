//! A cluster beside a single server: the same commands, the same bytes.
//!
//! In the first run all keys of a file of the corpus have one hash tag, so that every command of the
//! corpus can be served: what differs then is what a cluster is not, and stands in [`INTENDED`] by
//! name and with its reason. The second run is made of commands for keys all over the slots, and
//! what cannot be served there is refused in the words of the server.
//!
//! The same runs behind a route that removes its prefix: the single server has the keys as clients say them, and the one behind has not.
//!
//! Invariant: a difference that is not listed fails, and so does a listed one that is none any more, or, where chance makes it, is not asked.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::cluster::RedisCluster;
use testkit::frames::{quote, request};
use testkit::{Conn, RedisServer, Respool, wait};

use super::front;
use crate::differential::{self, Compare};
use crate::setup::{RESPOOL, SOON, long};

/// Differences that are printed.
const SHOWN_MAX: usize = 40;
/// How many comparisons there must be at least, so that a corpus that is not read shows.
const COMPARISONS_MIN: usize = 2_000;

/// Why a cluster answers otherwise, whoever stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// A cluster has the database 0 only. It refuses with these words.
    OneDatabase(&'static str),
    /// Its servers do not follow patterns to other keys. They refuse with these words.
    NoPatterns(&'static str),
    /// Unordered replies have an order by a hash seed that each server has for itself.
    OrderOfItsOwn,
    /// The cursor is the proxy's own: it also tells which node comes next.
    CursorOfItsOwn,
    /// Where a cursor that nobody gave leads depends on the server's hash seed.
    MadeUpCursor,
    /// A key of a cluster has sixteen bytes more, which link the keys of a slot.
    LargerKeys,
    /// `EVAL` leaves its script on the one server that ran it, and the reply is about all of them.
    ScriptsOfOneNode,
}

use Reason::{
    CursorOfItsOwn, LargerKeys, MadeUpCursor, NoPatterns, OneDatabase, OrderOfItsOwn,
    ScriptsOfOneNode,
};

/// Every intended difference: what the command begins with, what it holds besides, and the reason.
const INTENDED: &[(&str, &str, Reason)] = &[
    ("SELECT ", "", OneDatabase("-ERR SELECT is not allowed in cluster mode")),
    ("MOVE ", "", OneDatabase("-ERR MOVE is not allowed in cluster mode")),
    ("SWAPDB ", "", OneDatabase("-ERR SWAPDB is not allowed in cluster mode")),
    ("COPY ", " DB ", OneDatabase("-ERR Copying to another database is not allowed")),
    ("SORT ", " BY ", NoPatterns("-ERR BY option of SORT denied in Cluster mode")),
    ("COMMAND LIST ", "", OrderOfItsOwn),
    ("ACL CAT ", "", OrderOfItsOwn),
    ("SCAN 18446744073709551615", "", MadeUpCursor),
    ("SCAN ", "", CursorOfItsOwn),
    ("MEMORY USAGE ", "", LargerKeys),
    ("SCRIPT EXISTS ", "", ScriptsOfOneNode),
];

/// The place in [`INTENDED`] of a command's intended difference, if there is one for it.
fn intended(text: &str) -> Option<usize> {
    let upper = text.to_ascii_uppercase();
    INTENDED
        .iter()
        .position(|(begin, within, _)| upper.starts_with(begin) && upper.contains(within))
}

impl Reason {
    /// The words of a refusal. What is refused is not asked of the single server, or everything
    /// after it would differ too.
    fn refusal(self) -> Option<&'static str> {
        match self {
            OneDatabase(words) | NoPatterns(words) => Some(words),
            _ => None,
        }
    }

    /// Whether it is chance if they do: two hash seeds can give a short list the same order.
    fn is_chance(self) -> bool {
        matches!(self, OrderOfItsOwn | MadeUpCursor)
    }

    /// Whether two replies differ as they may for this reason, and not in another way.
    fn allows(self, single: &[u8], proxy: &[u8]) -> bool {
        match self {
            OneDatabase(_) | NoPatterns(_) => false,
            OrderOfItsOwn => Compare::AnyOrder.of(single) == Compare::AnyOrder.of(proxy),
            // The page after the cursor, of the one node that has the keys.
            CursorOfItsOwn => second(single) == second(proxy),
            MadeUpCursor => [single, proxy].into_iter().all(|reply| reply.starts_with(b"*2\r\n")),
            LargerKeys => number(single).is_some_and(|bytes| number(proxy) == Some(bytes + 16)),
            ScriptsOfOneNode => single.starts_with(b"*2") && proxy == b"*2\r\n:0\r\n:0\r\n",
        }
    }
}

/// The second element of an array, in words.
fn second(reply: &[u8]) -> Option<String> {
    let (value, _) = resp::value::parse(reply).ok()??;
    Some(format!("{:?}", value.as_list()?.get(1)?))
}

fn number(reply: &[u8]) -> Option<i64> {
    match resp::value::parse(reply) {
        Ok(Some((resp::Value::Integer(number), _))) => Some(number),
        _ => None,
    }
}

struct Pair {
    single: RedisServer,
    behind: Behind,
    proxy: Respool,
    /// A route removes what stands before the keys.
    removes: bool,
}

/// What the proxy is in front of.
enum Behind {
    Cluster(RedisCluster),
    Server(RedisServer),
}

impl Behind {
    fn nodes(&self) -> Vec<Conn> {
        match self {
            Self::Cluster(cluster) => (0..3).map(|node| cluster.node(node).connect()).collect(),
            Self::Server(server) => vec![server.connect()],
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Cluster(cluster) => cluster.url(),
            Self::Server(server) => server.endpoint().url(),
        }
    }
}

/// What a route removes.
const REMOVED: &str = "order:";

impl Pair {
    fn start() -> Self {
        let cluster = RedisCluster::start(3, 0);
        let proxy = front(&cluster, &[]);
        let behind = Behind::Cluster(cluster);
        Self { single: RedisServer::start(), behind, proxy, removes: false }
    }

    /// The only route leads there and removes its prefix.
    fn removing(behind: Behind) -> Self {
        let shards = [format!("{} name=orders", behind.url())];
        let route = format!("{REMOVED}=orders");
        let proxy = Respool::to_shards(RESPOOL, &shards)
            .args(&["--sharding-routes", &route, "--sharding-remove-prefix", REMOVED])
            .start();
        let mut conn = proxy.connect();
        wait::until_true("the servers", SOON, || conn.ask("EXISTS order:x") == ":0\r\n");
        Self { single: RedisServer::start(), behind, proxy, removes: true }
    }

    /// Makes all servers forget what an earlier run may have left.
    fn empty(&self) {
        let nodes = self.behind.nodes().into_iter();
        for mut conn in nodes.chain([self.single.connect()]) {
            for words in ["FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH", "CONFIG RESETSTAT"] {
                assert_eq!(conn.ask(words), "+OK\r\n", "{words}");
            }
            conn.ask("CONFIG SET slowlog-log-slower-than -1");
            conn.ask("SLOWLOG RESET");
        }
        for mut conn in [self.single.connect(), self.proxy.connect()] {
            conn.ask("ACL LOG RESET");
            conn.ask("ACL DELUSER bob");
        }
    }

    fn clients(&self, resp3: bool) -> [Conn; 2] {
        [self.single.endpoint(), self.proxy.endpoint()].map(|endpoint| {
            let mut conn = Conn::to(endpoint);
            if resp3 {
                assert!(conn.ask("HELLO 3").starts_with('%'));
            }
            conn
        })
    }
}

/// Gives every key of a command the tag. Which arguments are keys the server itself says.
fn tagged(asker: &mut Conn, args: &[Vec<u8>], tag: &str) -> Vec<Vec<u8>> {
    let mut ask: Vec<&[u8]> = vec![b"COMMAND", b"GETKEYS"];
    ask.extend(args.iter().map(Vec::as_slice));
    let reply = asker.command(&ask).expect("COMMAND GETKEYS");
    let keys = resp::value::parse(&reply).ok().flatten();
    let keys: Vec<&[u8]> = keys
        .as_ref()
        .and_then(|(value, _)| value.as_list())
        .map(|list| list.iter().filter_map(|key| key.as_text()).collect())
        .unwrap_or_default();
    let is_sort = args[0].eq_ignore_ascii_case(b"sort") || args[0].eq_ignore_ascii_case(b"sort_ro");
    let is_key = |index: usize, arg: &Vec<u8>| {
        index > 0 && (keys.contains(&arg.as_slice()) || is_sort && arg.contains(&b'*'))
    };
    let name = |index: usize, arg: &Vec<u8>| match is_key(index, arg) {
        true => [tag.as_bytes(), arg].concat(),
        false => arg.clone(),
    };
    args.iter().enumerate().map(|(index, arg)| name(index, arg)).collect()
}

/// A key that is longer, and a script that tells its name.
fn tells_the_name(args: &[Vec<u8>]) -> bool {
    let text = shown(args);
    ["MEMORY USAGE ", "EVAL return KEYS[1]..ARGV[1] 1 "].iter().any(|begin| text.starts_with(begin))
}

fn shown(args: &[Vec<u8>]) -> String {
    let words: Vec<String> = args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
    words.join(" ")
}

/// What the comparisons of one test came to.
#[derive(Default)]
struct Tally {
    compared: usize,
    differences: Vec<String>,
    /// Which of [`INTENDED`] were met.
    used: BTreeSet<usize>,
}

impl Tally {
    /// Asks both sides and compares.
    fn ask(&mut self, [single, proxy]: &mut [Conn; 2], args: &[Vec<u8>], compare: Compare) {
        let bytes = request(args);
        let ask = |conn: &mut Conn| {
            let reply = conn.send(&bytes).and_then(|()| conn.reply());
            reply.unwrap_or_else(|error| format!("(no reply: {error})").into_bytes())
        };
        let got = ask(proxy);
        if got.starts_with(b"-ERR respool: no route for the key ") {
            // The server finds no keys in a call that is no right one, and so nothing stands before them.
            assert!(!shown(args).contains(REMOVED), "{}", quote(&got, 200));
            return;
        }
        let text = shown(args);
        let known = intended(&text).map(|at| (at, INTENDED[at].2));
        self.compared += 1;
        if let Some((at, Some(words))) = known.map(|(at, reason)| (at, reason.refusal()))
            && got.starts_with(words.as_bytes())
        {
            self.used.insert(at);
            return;
        }
        let expected = ask(single);
        if compare.of(&expected) == compare.of(&got) {
            self.used.extend(known.filter(|(_, reason)| reason.is_chance()).map(|(at, _)| at));
            return;
        }
        if let Some((at, _)) = known.filter(|(_, reason)| reason.allows(&expected, &got)) {
            self.used.insert(at);
            return;
        }
        let (expected, got) = (quote(&expected, 200), quote(&got, 200));
        self.differences.push(format!("{text}\n    single:  {expected}\n    respool: {got}"));
    }

    #[track_caller]
    fn finish(self, least: usize) -> BTreeSet<usize> {
        println!("{} comparisons, {} differ", self.compared, self.differences.len());
        let shown: Vec<String> = self.differences.iter().take(SHOWN_MAX).cloned().collect();
        assert!(shown.is_empty(), "{} differ:\n{}", self.differences.len(), shown.join("\n"));
        assert!(self.compared >= least, "only {} comparisons", self.compared);
        self.used
    }
}

#[test]
fn with_one_hash_tag_the_corpus_is_answered_as_by_one_server() {
    // The files lie on different nodes.
    let used = corpus(&Pair::start(), |nth| format!("{{{}}}", super::key_on(nth % 3, 500)));
    let stale: Vec<_> =
        (0..INTENDED.len()).filter(|at| !used.contains(at)).map(|at| INTENDED[at]).collect();
    assert!(stale.is_empty(), "no differences any more: {stale:?}");
}

#[test]
fn behind_a_route_that_removes_its_prefix_a_server_is_as_one_that_sees_it() {
    let pair = Pair::removing(Behind::Server(RedisServer::start()));
    corpus(&pair, |_| REMOVED.to_owned());
    let cluster = RedisCluster::start(3, 0);
    let pair = Pair::removing(Behind::Cluster(cluster));
    corpus(&pair, |nth| format!("{REMOVED}{{{}}}", super::key_on(nth % 3, 500)));
    // None of them was told.
    for mut conn in pair.behind.nodes() {
        let keys = conn.ask("KEYS *");
        assert!(!keys.contains(REMOVED), "{keys}");
    }
}

/// Sends all commands of the corpus, with what `tag` says of the number of their file before each key; which intended differences were met.
fn corpus(pair: &Pair, tag: impl Fn(u16) -> String) -> BTreeSet<usize> {
    let mut asker = pair.single.connect();
    let mut tally = Tally::default();
    for (nth, commands) in (0_u16..).zip(differential::commands()) {
        let tag = tag(nth);
        let commands: Vec<_> = commands
            .iter()
            .map(|(args, compare)| (tagged(&mut asker, args, &tag), *compare))
            .collect();
        for resp3 in [false, true] {
            pair.empty();
            let mut clients = pair.clients(resp3);
            for (args, compare) in &commands {
                if !pair.removes || !tells_the_name(args) {
                    tally.ask(&mut clients, args, *compare);
                }
            }
        }
    }
    tally.finish(COMPARISONS_MIN)
}

/// Commands that can be split, and some for one key between them, on keys all over the slots.
fn scattered(rng: &mut StdRng) -> Vec<String> {
    // Few names, so that keys are there, gone, of another type, and named twice in one command.
    let key = |rng: &mut StdRng| format!("key{}", rng.random_range(0..60));
    let keys = |rng: &mut StdRng| {
        let count = rng.random_range(1..12);
        (0..count).map(|_| key(rng)).collect::<Vec<_>>()
    };
    let number = rng.random_range(0..1_000).to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match rng.random_range(0..16) {
        0..3 => [words(&["MGET"]), keys(rng)].concat(),
        3..5 => {
            let pairs = keys(rng).into_iter().flat_map(|key| [key, number.clone()]);
            words(&["MSET"]).into_iter().chain(pairs).collect()
        }
        5 => [words(&["DEL"]), keys(rng)].concat(),
        6 => [words(&["UNLINK"]), keys(rng)].concat(),
        7 => [words(&["EXISTS"]), keys(rng)].concat(),
        8 => [words(&["TOUCH"]), keys(rng)].concat(),
        9 => words(&["DBSIZE"]),
        10 => words(&["SET", &key(rng), &number]),
        11 => words(&["INCR", &key(rng)]),
        12 => words(&["LPUSH", &key(rng), &number]),
        13 => words(&["SADD", &key(rng), &number]),
        14 => words(&["GET", &key(rng)]),
        _ => words(&["EXPIRE", &key(rng), "1000"]),
    }
}

// Wrong types stand between the keys, so parts fail while others do not: MGET gives a null for them
// as one server does, and sums leave nothing out.
#[test]
fn requests_over_all_slots_are_answered_as_by_one_server() {
    let pair = Pair::start();
    let mut rng = StdRng::seed_from_u64(4);
    let rounds = if long() { 20_000 } else { 2_000 };
    let mut tally = Tally::default();
    for resp3 in [false, true] {
        pair.empty();
        let mut clients = pair.clients(resp3);
        for _ in 0..rounds {
            let args: Vec<Vec<u8>> =
                scattered(&mut rng).into_iter().map(String::into_bytes).collect();
            tally.ask(&mut clients, &args, Compare::Bytes);
        }
        for words in [
            "KEYS *",
            "KEYS key1*",
            "MGET",
            "MSET",
            "MSET a",
            "MSET a 1 b",
            "DEL",
            "EXISTS",
            "TOUCH",
            "UNLINK",
            "DBSIZE x",
            "FLUSHALL x",
            "FLUSHALL ASYNC",
            "DBSIZE",
            "KEYS",
            "FLUSHDB SYNC",
            "PING",
            "ECHO x",
            "TIME x",
            "PUBLISH c m",
            "SCRIPT EXISTS x",
            "SCRIPT FLUSH",
            "FUNCTION LIST",
            "FUNCTION DELETE x",
            "SCRIPT KILL",
            "OBJECT ENCODING",
            "MEMORY USAGE nothing",
            "DUMP nothing",
        ] {
            let args: Vec<Vec<u8>> = words.split(' ').map(|word| word.into()).collect();
            tally.ask(&mut clients, &args, Compare::AnyOrder);
        }
    }
    tally.finish(2 * rounds);
}

// What would have to be done on several nodes at once is refused in the servers' own words, whole,
// before any part of it is done; with a hash tag it is done.
#[test]
fn what_cannot_be_split_is_refused_as_a_cluster_refuses_it() {
    let pair = Pair::start();
    let [_, mut proxy] = pair.clients(false);
    let [one, other] = [0, 1].map(|nth| super::key_on(nth, 510));
    assert_eq!(proxy.ask(&format!("MSET {one} 1 {other} 2")), "+OK\r\n");
    let cross = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    for words in [
        "MSETNX A x B y",
        "RENAME A B",
        "RENAMENX A B",
        "COPY A B",
        "SINTER A B",
        "SUNION A B",
        "SDIFF A B",
        "SINTERSTORE A A B",
        "SINTERCARD 2 A B",
        "SMOVE A B m",
        "RPOPLPUSH A B",
        "LMOVE A B LEFT RIGHT",
        "LMPOP 2 A B LEFT",
        "ZMPOP 2 A B MIN",
        "ZUNION 2 A B",
        "ZINTERSTORE A 2 A B",
        "ZRANGESTORE A B 0 -1",
        "PFCOUNT A B",
        "PFMERGE A B",
        "BITOP AND A A B",
        "LCS A B",
        "GEOSEARCHSTORE A B FROMLONLAT 1 1 BYRADIUS 1 m",
        "XREAD STREAMS A B 0 0",
        "EVAL return 2 A B",
        "SORT A STORE B",
    ] {
        let named = |one: &str, other: &str| {
            let word = |word: &str| match word {
                "A" => one.to_owned(),
                "B" => other.to_owned(),
                word => word.to_owned(),
            };
            words.split(' ').map(word).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(proxy.ask(&named(&one, &other)), cross, "{words}");
        let tag = format!("{{{one}}}");
        let reply = proxy.ask(&named(&format!("{tag}a"), &format!("{tag}b")));
        assert_ne!(reply, cross, "{words}");
    }
    assert_eq!(proxy.ask(&format!("MGET {one} {other}")), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}
