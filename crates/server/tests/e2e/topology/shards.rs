//! Keys spread over servers that know nothing of each other.
//!
//! Where keys lie is not recomputed here: the expected places are those of the other proxies
//! themselves, recorded (see the engine's golden vectors) or running beside (nutcracker, where it is
//! installed).
//!
//! Invariant: a key is on one shard, always the same one, whoever else is dead.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::ports::Port;
use testkit::process::{Process, find_on_path};
use testkit::{Conn, Endpoint, RedisCluster, Respool, SentinelGroup, Shards, wait};

use crate::setup::{RESPOOL, SOON};

/// The recorded keys, and of each proxy the places that it gave them.
const KEYS: &str = include_str!("../../../../engine/src/route/shard/golden/keys.txt");
const TWEMPROXY: &str = include_str!("../../../../engine/src/route/shard/golden/twemproxy.txt");
const CAMELLIA: &str = include_str!("../../../../engine/src/route/shard/golden/camellia.txt");
const PREDIXY: &str = include_str!("../../../../engine/src/route/shard/golden/predixy.txt");

/// Numbered keys spread evenly, whatever the servers' ports are.
const EVENLY: [&str; 4] = ["--sharding-hash", "murmur", "--sharding-distribution", "modula"];

fn keys() -> Vec<Vec<u8>> {
    let byte = |hex: &[u8]| {
        let text = std::str::from_utf8(hex).expect("hexadecimal digits");
        u8::from_str_radix(text, 16).expect("hexadecimal digits")
    };
    let lines = KEYS.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.as_bytes()[1..].chunks(2).map(byte).collect()).collect()
}

/// The recorded pool that begins so: its servers as they stand there, and the shard of each key.
fn recorded(text: &'static str, begin: &str, holds: &str) -> (Vec<&'static str>, Vec<usize>) {
    let mut lines = text.lines().filter(|line| line.starts_with(begin) && line.contains(holds));
    let line = lines.next().unwrap_or_else(|| panic!("no recorded pool {begin} {holds}"));
    let (pool, places) = line.rsplit_once(" = ").expect("pool = shards");
    // hash, distribution, hash tag, dead servers, servers
    let servers = pool.splitn(5, ' ').nth(4).expect("servers").split('|').collect();
    let places = places.chars().map(|digit| digit.to_digit(36).expect("a digit") as usize);
    (servers, places.collect())
}

/// A line `host:port:weight name` with another address.
fn moved_to(line: &str, endpoint: &Endpoint) -> String {
    let rest = line.splitn(3, ':').nth(2).expect("host:port:weight");
    format!("{}:{rest}", endpoint.tcp())
}

/// Writes every recorded key through the proxy and looks where it is.
#[track_caller]
fn assert_places(shards: &Shards, proxy: &Respool, places: &[usize]) {
    let keys = keys();
    assert_eq!(keys.len(), places.len());
    let mut conn = proxy.connect();
    for key in &keys {
        assert_eq!(conn.command(&[&b"SET"[..], key, b"v"]).expect("SET"), b"+OK\r\n");
    }
    for shard in 0..shards.count() {
        let mut expected: Vec<_> = keys
            .iter()
            .zip(places)
            .filter(|(_, at)| **at == shard)
            .map(|(key, _)| key.clone())
            .collect();
        expected.sort();
        assert_eq!(shards.keys_on(shard), expected, "shard {shard}");
    }
}

#[test]
fn keys_lie_where_twemproxy_puts_them() {
    let (servers, places) = recorded(TWEMPROXY, "fnv1a_64 ketama - - ", " alpha|");
    let shards = Shards::start(servers.len());
    let lines: Vec<String> =
        servers.iter().zip(shards.endpoints()).map(|(line, at)| moved_to(line, &at)).collect();
    let proxy = Respool::to_shards(RESPOOL, &lines).start();
    assert_places(&shards, &proxy, &places);
}

#[test]
fn keys_lie_where_a_converted_nutcracker_yml_puts_them() {
    let (servers, places) = recorded(TWEMPROXY, "fnv1a_64 ketama - - ", " alpha|");
    let shards = Shards::start(servers.len());
    let lines: String = servers
        .iter()
        .zip(shards.endpoints())
        .map(|(line, at)| format!("    - {}\n", moved_to(line, &at)))
        .collect();
    let folder = tempfile::tempdir().expect("temporary folder");
    let (theirs, ours) = (folder.path().join("nutcracker.yml"), folder.path().join("respool.toml"));
    let text = format!(
        "pool:\n  listen: 127.0.0.1:22121\n  redis: true\n  timeout: 5000\n  servers:\n{lines}"
    );
    fs::write(&theirs, text).expect("the file can be written");
    let output = Command::new(RESPOOL).arg("convert").arg(&theirs).output().expect("respool runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(&ours, &output.stdout).expect("the file can be written");
    let proxy = Respool::with_config(RESPOOL, &ours).start();
    assert_places(&shards, &proxy, &places);
}

#[test]
fn keys_lie_where_camellia_and_predixy_put_them() {
    let shards = Shards::start(3);
    let urls = |count: usize| -> Vec<String> {
        let named = shards.endpoints().into_iter().take(count).enumerate();
        named.map(|(nth, at)| format!("{} name=g{nth}", at.url())).collect()
    };
    let (buckets, places) = recorded(CAMELLIA, "java31 buckets - - ", " 0-2-4|1-3-5 ");
    let proxy = Respool::to_shards(RESPOOL, &urls(2))
        .args(&["--sharding-compat", "camellia", "--sharding-buckets", &buckets.join(",")])
        .start();
    assert_places(&shards, &proxy, &places);

    (0..3).for_each(|shard| assert_eq!(shards.connect(shard).ask("FLUSHALL"), "+OK\r\n"));
    let (_, places) = recorded(PREDIXY, "atol modula - - ", " g0|g1|g2 ");
    let proxy = Respool::to_shards(RESPOOL, &urls(3))
        .args(&["--sharding-compat", "predixy", "--sharding-hash", "atol"])
        .args(&["--sharding-distribution", "modula"])
        .start();
    assert_places(&shards, &proxy, &places);
}

// The proxy that is to be replaced, in the same minute on the same servers: what one writes the
// other one finds.
#[test]
fn a_running_twemproxy_and_respool_find_each_others_keys() {
    let Some(nutcracker) = find_on_path("nutcracker") else {
        println!("no nutcracker on PATH: nothing was tested");
        return;
    };
    let shards = Shards::start(4);
    let lines: Vec<String> = (1..)
        .zip(shards.endpoints())
        .map(|(weight, at)| format!("{}:{weight}", at.tcp()))
        .collect();
    let folder = tempfile::tempdir().expect("temporary folder");
    let (listen, stats) = (Port::v4().release(), Port::v4().release());
    for (hash, distribution) in
        [("murmur", "ketama"), ("md5", "modula"), ("crc32a", "ketama"), ("one_at_a_time", "modula")]
    {
        let servers: Vec<String> = lines.iter().map(|line| format!("   - {line}\n")).collect();
        let config = format!(
            "pool:\n  listen: {listen}\n  hash: {hash}\n  hash_tag: \"{{}}\"\n  \
             distribution: {distribution}\n  redis: true\n  servers:\n{}",
            servers.concat()
        );
        let file = folder.path().join("nutcracker.yml");
        fs::write(&file, config).expect("the configuration can be written");
        let mut command = Command::new(&nutcracker);
        command.arg("-c").arg(&file).args(["-s", &stats.port().to_string()]);
        let _old = Process::spawn("nutcracker", &mut command, &folder.path().join("log"))
            .expect("nutcracker starts");
        let mut old = wait::until("nutcracker", SOON, || Conn::open(&Endpoint::Tcp(listen)).ok());
        let proxy = Respool::to_shards(RESPOOL, &lines)
            .args(&["--sharding-hash", hash, "--sharding-distribution", distribution])
            .args(&["--sharding-hash-tag", "{}"])
            .start();
        let mut new = proxy.connect();
        for number in 0..300 {
            let key = match number % 3 {
                0 => format!("key:{number}"),
                1 => format!("{{user{}}}:{number}", number / 10),
                _ => "x".repeat(number % 40 + 1) + &number.to_string(),
            };
            let (writer, reader) =
                if number % 2 == 0 { (&mut old, &mut new) } else { (&mut new, &mut old) };
            assert_eq!(writer.ask(&format!("SET {key} {number}")), "+OK\r\n");
            let value = number.to_string();
            let expected = format!("${}\r\n{value}\r\n", value.len());
            assert_eq!(reader.ask(&format!("GET {key}")), expected, "{hash} {distribution} {key}");
        }
        assert_eq!(new.ask("FLUSHALL"), "+OK\r\n");
    }
}

#[test]
fn requests_for_many_keys_go_over_all_shards() {
    const COUNT: usize = 2_000;
    let shards = Shards::start(3);
    let urls: Vec<String> = shards.endpoints().iter().map(Endpoint::url).collect();
    let proxy = Respool::to_shards(RESPOOL, &urls).args(&EVENLY).start();
    for hello in ["HELLO 2", "HELLO 3"] {
        let mut conn = proxy.connect();
        conn.ask(hello);
        let keys: Vec<String> = (0..COUNT).map(|n| format!("key:{n}")).collect();
        let pairs: Vec<String> = (0..COUNT).map(|n| format!("key:{n} v{n}")).collect();
        assert_eq!(conn.ask(&format!("MSET {}", pairs.join(" "))), "+OK\r\n");
        assert!((0..3).all(|shard| shards.keys_on(shard).len() > COUNT / 10), "all have some");
        let values = conn.ask(&format!("MGET {}", keys.join(" ")));
        let expected: String = (0..COUNT)
            .map(|n| format!("v{n}"))
            .map(|value| format!("${}\r\n{value}\r\n", value.len()))
            .collect();
        assert_eq!(values, format!("*{COUNT}\r\n{expected}"));
        assert_eq!(conn.ask("DBSIZE"), format!(":{COUNT}\r\n"));
        let mut found = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = conn.command(&["SCAN", &cursor, "COUNT", "300"]).expect("a page");
            let value = resp::value::parse(&reply).expect("RESP").expect("whole").0;
            let page = value.as_list().expect("a page");
            cursor = String::from_utf8_lossy(page[0].as_text().expect("a cursor")).into_owned();
            let names = page[1].as_list().expect("keys").iter().filter_map(|key| key.as_text());
            found.extend(names.map(|key| String::from_utf8_lossy(key).into_owned()));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found.len(), COUNT);
        assert_eq!(conn.ask(&format!("EXISTS {}", keys.join(" "))), format!(":{COUNT}\r\n"));
        assert_eq!(conn.ask(&format!("DEL {}", keys.join(" "))), format!(":{COUNT}\r\n"));
        assert_eq!(conn.ask("DBSIZE"), ":0\r\n");
    }
    // Plain servers have more databases than one.
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SELECT 3"), "+OK\r\n");
    assert_eq!(conn.ask("MSET a 1 b 2 c 3 d 4 e 5"), "+OK\r\n");
    assert_eq!(conn.ask("DBSIZE"), ":5\r\n");
    assert_eq!(proxy.connect().ask("DBSIZE"), ":0\r\n");
}

#[test]
fn a_dead_shard_takes_its_own_keys_away_and_is_named() {
    let mut shards = Shards::start(3);
    let urls: Vec<String> = shards.endpoints().iter().map(Endpoint::url).collect();
    let proxy = Respool::to_shards(RESPOOL, &urls).args(&EVENLY).start();
    let mut conn = proxy.connect();
    let keys: Vec<String> = (0..60).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        assert_eq!(conn.ask(&format!("SET {key} v")), "+OK\r\n");
    }
    let lost: BTreeSet<Vec<u8>> = shards.keys_on(1).into_iter().collect();
    assert!(lost.len() > 5 && lost.len() < 55);
    let port = shards.server(1).endpoint().tcp().port().to_string();
    shards.server_mut(1).kill();
    let mut slowest = Duration::ZERO;
    for key in &keys {
        let begun = Instant::now();
        let reply = conn.ask(&format!("GET {key}"));
        slowest = slowest.max(begun.elapsed());
        match lost.contains(key.as_bytes()) {
            true => assert!(reply.starts_with('-') && reply.contains(&port), "{key}: {reply}"),
            false => assert_eq!(reply, "$1\r\nv\r\n", "{key}"),
        }
    }
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    for words in ["MGET", "EXISTS", "TOUCH"] {
        let reply = conn.ask(&format!("{words} {}", keys.join(" ")));
        assert!(reply.starts_with('-') && reply.contains(&port), "{words}: {reply}");
    }
    for words in ["DBSIZE", "KEYS *", "FLUSHALL"] {
        let reply = conn.ask(words);
        assert!(reply.starts_with('-') && reply.contains(&port), "{words}: {reply}");
    }
    shards.server_mut(1).restart();
    let mine = lost.first().map(|key| String::from_utf8_lossy(key).into_owned()).expect("a key");
    let begun = Instant::now();
    wait::until_true("the shard", SOON, || conn.ask(&format!("SET {mine} v")) == "+OK\r\n");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // FLUSHALL has emptied the others, as its error did not say otherwise.
    assert_eq!(conn.ask("DBSIZE"), ":1\r\n");
}

// A cluster, a primary under sentinels and a plain server side by side.
#[test]
fn shards_can_be_deployments_of_any_kind() {
    let cluster = RedisCluster::start(3, 0);
    let group = SentinelGroup::start(1, 1);
    let single = Shards::start(1);
    let shards = [
        format!("{} name=cluster", cluster.url()),
        format!("{} name=watched", group.url()),
        format!("{} name=single", single.endpoints()[0].url()),
    ];
    let proxy = Respool::to_shards(RESPOOL, &shards).args(&EVENLY).start();
    let mut conn = proxy.connect();
    let keys: Vec<String> = (0..300).map(|n| format!("key:{n}")).collect();
    let pairs: Vec<String> = keys.iter().map(|key| format!("{key} {key}")).collect();
    assert_eq!(conn.ask(&format!("MSET {}", pairs.join(" "))), "+OK\r\n");
    let values: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
    assert_eq!(conn.ask(&format!("MGET {}", keys.join(" "))), format!("*300\r\n{values}"));
    assert_eq!(conn.ask("DBSIZE"), ":300\r\n");
    let in_cluster: usize = (0..3).map(|node| cluster.node(node).keys().len()).sum();
    let watched = group.connect(0).ask("DBSIZE");
    let single = single.keys_on(0).len();
    assert_eq!(watched, format!(":{}\r\n", 300 - in_cluster - single));
    assert!(in_cluster > 20 && single > 20 && in_cluster + single < 280, "{in_cluster} {single}");
    // Redirects within the one child are followed there.
    let slots: BTreeSet<u16> =
        cluster.node(0).keys().iter().map(|key| testkit::cluster::slot_of(key)).take(10).collect();
    for slot in slots {
        let moved = cluster.begin_move(slot, 1);
        moved.and_then(testkit::cluster::SlotMove::finish).expect("the move");
    }
    assert_eq!(conn.ask(&format!("MGET {}", keys.join(" "))), format!("*300\r\n{values}"));
    assert_eq!(conn.ask(&format!("DEL {}", keys.join(" "))), ":300\r\n");
    // One database for all, since one of them has no other.
    assert!(conn.ask("SELECT 1").starts_with('-'));
}
