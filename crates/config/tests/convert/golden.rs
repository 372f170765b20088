//! Converted pools send keys where the peers themselves sent them: the engine's golden vectors, by way of the peers' own files.
//!
//! A line of the vectors is written as the peer's file, converted, loaded, and asked for each key.
//!
//! Invariant: every recorded pool without dead servers is asked for every key, and a peer without any fails.

use super::*;
use engine::route::shard::Shards;

const KEYS: &str = include_str!("../../../engine/src/route/shard/golden/keys.txt");

/// A recorded pool: its settings, its servers, and the server of each key.
struct Pool {
    hash: &'static str,
    distribution: &'static str,
    tag: Option<&'static str>,
    servers: Vec<&'static str>,
    places: Vec<usize>,
}

/// The pools of a file in which nothing is dead.
fn pools(text: &'static str) -> impl Iterator<Item = Pool> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (pool, places) = line.rsplit_once(" = ").unwrap();
        let fields: Vec<&str> = pool.splitn(5, ' ').collect();
        (fields[3] == "-").then(|| Pool {
            hash: fields[0],
            distribution: fields[1],
            tag: Some(fields[2]).filter(|tag| *tag != "-"),
            servers: fields[4].split('|').collect(),
            places: places.chars().map(|digit| digit.to_digit(36).unwrap() as usize).collect(),
        })
    })
}

fn keys() -> Vec<Vec<u8>> {
    let byte = |hex: &[u8]| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap();
    let lines = KEYS.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.as_bytes()[1..].chunks(2).map(byte).collect()).collect()
}

/// Asserts where the keys go. `address` is the URL of a server of the pool.
#[track_caller]
fn assert_places(file: &Files<'_>, pool: &Pool, address: impl Fn(usize) -> String) {
    let (config, _, toml) = file.good();
    // With one server nothing is hashed.
    let Upstream::Shards(sharding) = &config.upstream else {
        assert!(pool.servers.len() == 1 && upstream(&config) == address(0), "{toml}");
        return;
    };
    let names = sharding.shards.iter().map(|shard| shard.shard.clone()).collect();
    let shards = Shards::new(sharding.rules.clone(), names).unwrap();
    let keys = keys();
    assert_eq!(keys.len(), pool.places.len());
    for (key, place) in keys.iter().zip(&pool.places) {
        let found = shards.of(key, || panic!("chance decides nothing here"));
        assert_eq!(sharding.shards[found].url.to_string(), address(*place), "{key:x?}\n{toml}");
    }
}

/// The URL of a line `host:port:weight name`, or of one with the path of a unix socket.
fn url_of(line: &str) -> String {
    let address = line.split(' ').next().unwrap().rsplit_once(':').unwrap().0;
    if address.starts_with('/') {
        format!("redis+unix://{address}")
    } else {
        format!("redis://{address}")
    }
}

#[test]
fn twemproxys_keys_stay_where_they_are() {
    let mut count = 0;
    for pool in pools(include_str!("../../../engine/src/route/shard/golden/twemproxy.txt")) {
        let tag = pool.tag.map_or(String::new(), |tag| format!("  hash_tag: '{tag}'\n"));
        let servers: String = pool.servers.iter().map(|line| format!("    - '{line}'\n")).collect();
        let text = format!(
            "a:\n  listen: 127.0.0.1:1\n  redis: true\n  hash: {}\n  distribution: {}\n{tag}  servers:\n{servers}",
            pool.hash, pool.distribution
        );
        let file = Files::one(Peer::Nutcracker, "n.yml", &text);
        assert_places(&file, &pool, |place| url_of(pool.servers[place]));
        // With a database the lines become URLs, and nothing else may change.
        let text = format!("{text}  redis_db: 3\n");
        let file = Files::one(Peer::Nutcracker, "n.yml", &text);
        assert_places(&file, &pool, |place| {
            let url = url_of(pool.servers[place]);
            if url.contains("unix") { format!("{url}?db=3") } else { format!("{url}/3") }
        });
        count += 1;
    }
    assert!(count > 20, "{count} pools");
}

#[test]
fn overlords_keys_stay_where_they_are() {
    let mut count = 0;
    for pool in pools(include_str!("../../../engine/src/route/shard/golden/overlord.txt")) {
        // A cluster of overlord has a tag in any case, the program of the vectors had not.
        let Some(tag) = pool.tag else { continue };
        let hash = if pool.hash == "one_at_a_time" { "one_on_time" } else { pool.hash };
        let servers: String = pool.servers.iter().map(|line| format!("'{line}',")).collect();
        // What the file says of the distribution does not matter to overlord.
        let text = format!(
            "[[clusters]]\nname='a'\ncache_type='redis'\nlisten_addr='127.0.0.1:1'\nhash_method='{hash}'\n\
             hash_distribution='modula'\nhash_tag='{tag}'\nservers=[{servers}]\n"
        );
        let file = Files::one(Peer::Overlord, "o.toml", &text);
        assert_places(&file, &pool, |place| url_of(pool.servers[place]));
        count += 1;
    }
    assert!(count > 10, "{count} pools");
}

#[test]
fn predixys_keys_stay_where_they_are() {
    let address = |place: usize| format!("10.0.0.{place}:6379");
    let mut count = 0;
    for pool in pools(include_str!("../../../engine/src/route/shard/golden/predixy.txt")) {
        let tag = pool.tag.map_or(String::new(), |tag| format!(" HashTag \"{tag}\"\n"));
        let groups: String = (0..pool.servers.len())
            .map(|place| format!(" Group {} {{\n + {}\n }}\n", pool.servers[place], address(place)))
            .collect();
        let text = format!(
            "StandaloneServerPool {{\n RefreshMethod fixed\n Hash {}\n Distribution {}\n{tag}{groups}}}\n",
            pool.hash, pool.distribution
        );
        let file = Files::one(Peer::Predixy, "p.conf", &text);
        assert_places(&file, &pool, |place| format!("redis://{}", address(place)));
        count += 1;
    }
    assert!(count > 5, "{count} pools");
}

#[test]
fn camellias_keys_stay_where_they_are() {
    let address = |place: usize| format!("10.0.0.{place}:6379");
    let mut count = 0;
    for pool in pools(include_str!("../../../engine/src/route/shard/golden/camellia.txt")) {
        let function = match (pool.hash, pool.tag) {
            ("java31", None) => "DefaultShardingFunc",
            ("java31", Some("{}")) => "DefaultHashTagShardingFunc",
            ("crc16", Some("{}")) => "CRC16HashTagShardingFunc",
            other => panic!("camellia has no function for {other:?}"),
        };
        let size: usize = pool.servers.iter().map(|buckets| buckets.split('-').count()).sum();
        let map: Vec<String> = (0..pool.servers.len())
            .map(|place| format!("\"{}\":\"redis://@{}\"", pool.servers[place], address(place)))
            .collect();
        let text = format!(
            "sharding.func.class.name=com.netease.nim.camellia.core.client.env.{function}\n\
             route.conf={{\"type\":\"sharding\",\"operation\":{{\"bucketSize\":{size},\"operationMap\":{{{}}}}}}}\n",
            map.join(",")
        );
        let file = Files::one(Peer::Camellia, "c.properties", &text);
        assert_places(&file, &pool, |place| format!("redis://{}", address(place)));
        count += 1;
    }
    assert!(count > 5, "{count} pools");
}
