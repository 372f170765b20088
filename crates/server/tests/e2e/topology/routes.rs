//! Keys that begin alike go to servers of their own: the whole configuration of `docs/guides/routes.md`, over real servers and a real cluster.
//!
//! Invariant: that of the module above.

use std::fs;
use std::path::PathBuf;

use testkit::{Conn, RedisCluster, Respool, Shards, wait};

use crate::setup::{RESPOOL, SOON};

const GUIDE: &str = include_str!("../../../../../docs/guides/routes.md");

/// The servers of the guide: two of users, the rest, and a cluster.
struct Site {
    shards: Shards,
    cluster: RedisCluster,
    folder: tempfile::TempDir,
}

impl Site {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        Self { shards: Shards::start(3), cluster: RedisCluster::start(3, 0), folder }
    }

    /// Writes the configuration of the guide with these servers, and with something changed.
    fn write(&self, from: &str, to: &str) -> PathBuf {
        self.write_nth(1, from, to)
    }

    /// The same of the `nth` configuration there, from 1.
    fn write_nth(&self, nth: usize, from: &str, to: &str) -> PathBuf {
        let text = GUIDE.split("```toml\n").nth(nth).expect("a configuration in the guide");
        let mut text = text.split("```").next().expect("its end").to_owned();
        let single = self.shards.endpoints();
        for (theirs, ours) in [
            ("redis://10.0.0.1:6379", single[0].url()),
            ("redis://10.0.0.2:6379", single[1].url()),
            ("redis://10.0.0.9:6379", single[2].url()),
            ("redis-cluster://10.0.1.1:6379,10.0.1.2:6379", self.cluster.url()),
        ] {
            assert!(nth > 1 || text.contains(theirs), "{theirs} in the guide");
            text = text.replace(theirs, &ours);
        }
        assert!(!text.contains("10.0."), "{text}");
        assert!(text.contains(from), "{from}: {text}");
        let file = self.folder.path().join("respool.toml");
        fs::write(&file, text.replace(from, to)).expect("the file can be written");
        file
    }

    /// Keys in the cluster, sorted.
    fn in_cluster(&self) -> Vec<String> {
        let keys = (0..3).flat_map(|node| self.cluster.node(node).keys());
        let mut keys: Vec<String> =
            keys.map(|key| String::from_utf8_lossy(key.as_ref()).into_owned()).collect();
        keys.sort();
        keys
    }

    fn on(&self, shard: usize) -> Vec<String> {
        let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
        self.shards.keys_on(shard).into_iter().map(text).collect()
    }
}

fn nowhere(key: &str) -> String {
    format!("-ERR respool: no route for the key '{key}' (see sharding.routes)\r\n")
}

/// All keys by SCAN, sorted.
fn scanned(conn: &mut Conn) -> Vec<String> {
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let reply = conn.command(&["SCAN", &cursor, "COUNT", "7"]).expect("a page");
        let value = resp::value::parse(&reply).expect("RESP").expect("whole").0;
        let page = value.as_list().expect("a page");
        cursor = String::from_utf8_lossy(page[0].as_text().expect("a cursor")).into_owned();
        let names = page[1].as_list().expect("keys").iter().filter_map(|key| key.as_text());
        found.extend(names.map(|key| String::from_utf8_lossy(key).into_owned()));
        if cursor == "0" {
            found.sort();
            return found;
        }
    }
}

#[test]
fn the_configuration_of_the_guide_puts_each_key_where_it_says() {
    let mut site = Site::start();
    let proxy = Respool::with_config(RESPOOL, &site.write("", "")).start();
    let mut conn = proxy.connect();
    let mut keys: Vec<String> = Vec::new();
    for begin in ["user:", "order:", "order:archive:", "session:"] {
        keys.extend((0..30).map(|n| format!("{begin}{n}")));
    }
    let pairs: Vec<String> = keys.iter().map(|key| format!("{key} {key}")).collect();
    wait::until_true("all shards", SOON, || {
        conn.ask(&format!("MSET {}", pairs.join(" "))) == "+OK\r\n"
    });
    let of = |begin: &[&str]| -> Vec<String> {
        let mut own: Vec<String> = keys
            .iter()
            .filter(|key| {
                let longest =
                    ["order:archive:", "user:", "order:"].into_iter().find(|p| key.starts_with(p));
                begin.contains(&longest.unwrap_or(""))
            })
            .cloned()
            .collect();
        own.sort();
        own
    };
    // Both share the users.
    let mut users = [site.on(0), site.on(1)];
    assert!(users.iter().all(|part| part.len() > 3), "{users:?}");
    let mut all = users.concat();
    all.sort();
    assert_eq!(all, of(&["user:"]));
    assert_eq!(site.in_cluster(), of(&["order:"]));
    assert_eq!(site.on(2), of(&["order:archive:", ""]));
    // And all of it is one Redis.
    let values: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
    assert_eq!(conn.ask(&format!("MGET {}", keys.join(" "))), format!("*120\r\n{values}"));
    assert_eq!(conn.ask("DBSIZE"), ":120\r\n");
    keys.sort();
    assert_eq!(scanned(&mut conn), keys);
    assert!(conn.ask("RENAME user:1 order:1").starts_with("-CROSSSLOT "));
    assert_eq!(conn.ask("RENAME session:1 session:x"), "+OK\r\n");
    // A transaction in one route, and what waits there.
    for (line, reply) in [
        ("MULTI", "+OK\r\n"),
        ("SET session:1 a", "+QUEUED\r\n"),
        ("RPUSH session:list b", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n+OK\r\n:1\r\n"),
        ("BLPOP session:none session:list 5", "*2\r\n$12\r\nsession:list\r\n$1\r\nb\r\n"),
    ] {
        assert_eq!(conn.ask(line), reply, "{line}");
    }
    // Who is dead takes its own routes along, and no other.
    let port = site.shards.server(2).endpoint().tcp().port().to_string();
    site.shards.server_mut(2).kill();
    let lost = conn.ask("GET session:2");
    assert!(lost.starts_with('-') && lost.contains(&port), "{lost}");
    assert_eq!(conn.ask("GET order:2"), "$7\r\norder:2\r\n");
    users.iter_mut().for_each(|part| part.truncate(1));
    for key in users.concat() {
        assert_eq!(conn.ask(&format!("GET {key}")), format!("${}\r\n{key}\r\n", key.len()));
    }
}

#[test]
fn keys_without_a_route_are_refused_and_routes_change_while_it_runs() {
    let site = Site::start();
    let file = site.write("catch_all = \"rest\"\n", "");
    let proxy = Respool::with_config(RESPOOL, &file).args(&["--watch-config", "true"]).start();
    let mut conn = proxy.connect();
    wait::until_true("all shards", SOON, || conn.ask("SET order:1 a") == "+OK\r\n");
    assert_eq!(conn.ask("SET session:1 a"), nowhere("session:1"));
    assert_eq!(conn.ask("MSET user:1 a session:2 b"), nowhere("session:2"));
    assert_eq!(conn.ask("EXISTS user:1"), ":0\r\n");
    let mut listener = proxy.connect();
    assert_eq!(listener.ask("SUBSCRIBE news"), "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(conn.ask("PUBLISH news hi"), ":1\r\n");
    assert_eq!(
        listener.reply().expect("a message"),
        b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
    );
    // Orders go to a plain server now, and there is a place for the rest.
    site.write("\"order:\" = \"orders\"", "\"order:\" = \"users-a\"\n\"old:\" = \"orders\"");
    wait::until_true("the new routes", SOON, || conn.ask("SET session:1 a") == "+OK\r\n");
    assert_eq!(conn.ask("SET order:2 b"), "+OK\r\n");
    assert_eq!(conn.ask("GET order:1"), "$-1\r\n");
    assert_eq!(
        (site.on(0), site.on(2)),
        (vec!["order:2".to_owned()], vec!["session:1".to_owned()])
    );
    assert_eq!(site.in_cluster(), ["order:1"]);
}

/// A name as a bulk.
fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn what_a_route_removes_its_servers_do_not_see_and_clients_see_all_of() {
    let site = Site::start();
    let file = site.write_nth(2, "", "");
    let proxy = Respool::with_config(RESPOOL, &file).start();
    let mut conn = proxy.connect();
    let keys: Vec<String> = (0..60).map(|n| format!("order:{n}")).collect();
    let pairs: Vec<String> = keys.iter().map(|key| format!("{key} {key}")).collect();
    wait::until_true("all shards", SOON, || {
        conn.ask(&format!("MSET {} session:1 x", pairs.join(" "))) == "+OK\r\n"
    });
    let mut numbers: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    numbers.sort();
    assert_eq!(site.in_cluster(), numbers);
    assert_eq!(site.on(2), ["session:1"]);
    let values: String = keys.iter().map(|key| bulk(key)).collect();
    assert_eq!(conn.ask(&format!("MGET {}", keys.join(" "))), format!("*60\r\n{values}"));
    assert_eq!(conn.ask("DBSIZE"), ":61\r\n");
    let mut all = [&keys[..], &["session:1".to_owned()]].concat();
    all.sort();
    assert_eq!(scanned(&mut conn), all);
    for (pattern, count) in [
        ("*", 61),
        ("order:*", 60),
        ("order:1*", 11),
        ("*:1", 2),
        ("?rder:?", 10),
        ("x*", 0),
        ("5*", 0),
    ] {
        let reply = conn.ask(&format!("KEYS {pattern}"));
        assert!(reply.starts_with(&format!("*{count}\r\n")), "{pattern}: {reply}");
    }
    // A transaction, what waits, what was taken, and streams.
    for (line, reply) in [
        ("MULTI", "+OK\r\n".to_owned()),
        ("RPUSH order:{l}:1 a b c", "+QUEUED\r\n".to_owned()),
        ("LMPOP 2 order:{l}:0 order:{l}:1 LEFT", "+QUEUED\r\n".to_owned()),
        ("EXEC", format!("*2\r\n:3\r\n*2\r\n{}*1\r\n{}", bulk("order:{l}:1"), bulk("a"))),
        (
            "BLPOP order:{l}:0 order:{l}:1 5",
            format!("*2\r\n{}{}", bulk("order:{l}:1"), bulk("b")),
        ),
        ("RENAME order:{l}:1 order:{l}:2", "+OK\r\n".to_owned()),
        ("XADD order:s 1-1 f v", bulk("1-1")),
        (
            "XREADGROUP GROUP g c STREAMS order:s >",
            "-NOGROUP No such key 'order:s' or consumer group 'g' in XREADGROUP with GROUP option\r\n".to_owned(),
        ),
        ("EVAL return(redis.call('GET',KEYS[1])) 1 order:7", bulk("order:7")),
        ("RENAME order:1 session:1", "-CROSSSLOT Keys in request don't hash to the same slot\r\n".to_owned()),
    ] {
        assert_eq!(conn.ask(line), reply, "{line}");
    }
    assert!(conn.ask("SUBSCRIBE __keyspace@0__:order:1").contains("(sharding.remove_prefix)"));
    // A large value is streamed.
    let large = "v".repeat(3 << 20);
    assert_eq!(conn.command(&["SET", "order:large", &large]).expect("a reply"), b"+OK\r\n");
    assert!(conn.command(&["GET", "order:large"]).expect("a reply") == bulk(&large).as_bytes());
    // Who caches is told the name that it read.
    let mut reader = proxy.connect();
    assert!(reader.ask("HELLO 3").starts_with('%'));
    assert_eq!(reader.ask("CLIENT TRACKING ON"), "+OK\r\n");
    assert_eq!(reader.ask("GET order:7"), bulk("order:7"));
    assert_eq!(conn.ask("SET order:7 new"), "+OK\r\n");
    let told = reader.reply().expect("an invalidation");
    assert_eq!(told, format!(">2\r\n{}*1\r\n{}", bulk("invalidate"), bulk("order:7")).as_bytes());
    assert_eq!(reader.ask("GET order:7"), bulk("new"));
}

#[test]
fn kept_replies_and_removal_go_together_and_removal_changes_while_it_runs() {
    let site = Site::start();
    let file = site.write_nth(2, "", "");
    let args = ["--watch-config", "true", "--cache-enabled", "true"];
    let proxy = Respool::with_config(RESPOOL, &file).args(&args).start();
    let (mut conn, mut other) = (proxy.connect(), proxy.connect());
    wait::until_true("all shards", SOON, || conn.ask("SET order:1 a") == "+OK\r\n");
    for round in 0..20 {
        assert_eq!(other.ask(&format!("SET order:1 {round}")), "+OK\r\n");
        let value = bulk(&round.to_string());
        wait::until_true("the new value", SOON, || conn.ask("GET order:1") == value);
        assert_eq!(conn.ask("GET order:1"), value);
    }
    // The same keys have other names when the servers see the prefix; nobody gets half of both.
    site.write_nth(2, "remove_prefix = [\"order:\"]\n", "");
    let begin = std::time::Instant::now();
    loop {
        let reply = conn.ask("GET order:1");
        assert!(reply == bulk("19") || reply == "$-1\r\n", "{reply}");
        if reply == "$-1\r\n" {
            break;
        }
        assert!(begin.elapsed() < SOON, "the configuration is not read again");
    }
    assert_eq!(conn.ask("SET order:2 b"), "+OK\r\n");
    assert_eq!(site.in_cluster(), ["1", "order:2"]);
    let listed = conn.ask("KEYS *");
    assert!(
        listed == format!("*2\r\n{}{}", bulk("1"), bulk("order:2"))
            || listed == format!("*2\r\n{}{}", bulk("order:2"), bulk("1")),
        "{listed}"
    );
}
