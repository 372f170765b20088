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
        let text = GUIDE.split("```toml\n").nth(1).expect("a configuration in the guide");
        let mut text = text.split("```").next().expect("its end").to_owned();
        let single = self.shards.endpoints();
        for (theirs, ours) in [
            ("redis://10.0.0.1:6379", single[0].url()),
            ("redis://10.0.0.2:6379", single[1].url()),
            ("redis://10.0.0.9:6379", single[2].url()),
            ("redis-cluster://10.0.1.1:6379,10.0.1.2:6379", self.cluster.url()),
        ] {
            assert!(text.contains(theirs), "{theirs} in the guide");
            text = text.replace(theirs, &ours);
        }
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
