//! overlord.

use super::*;
use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution};

fn file(text: &str) -> Files<'_> {
    Files::one(Peer::Overlord, "o.toml", text)
}

const THREE: &str = r#"
pprof = "0.0.0.0:2110"
log = "/var/log/overlord.log"
[proxy]
read_timeout = 7000
max_connections = 900
use_metrics = true
[[clusters]]
name = "cache"
hash_method = "one_on_time"
hash_distribution = "modula"
hash_tag = ""
cache_type = "redis"
listen_proto = "tcp"
listen_addr = "26379"
redis_auth = "hunter2"
dial_timeout = 1000
read_timeout = 2000
write_timeout = 3000
node_connections = 2
ping_fail_limit = 3
ping_auto_eject = true
slowlog_slower_than = 10
servers = [
    "10.0.0.1:11211:1",
    "10.0.0.2:6379:3",
]
[[clusters]]
name = "slots"
cache_type = "redis_cluster"
listen_proto = "unix"
listen_addr = "/run/o.sock"
hash_tag = "{}"
servers = ["10.0.0.1:7000", "10.0.0.2:7001:1"]
[[clusters]]
name = "mc"
cache_type = "memcache"
listen_addr = "127.0.0.1:1"
servers = ["10.0.0.1:11211:1 a"]
"#;

#[test]
fn a_cluster_of_servers_keeps_what_overlord_really_does() {
    let (config, notes, _) = file(THREE).pool("cache").good();
    let rules = &sharding(&config).rules;
    assert_eq!((rules.compat, rules.hash), (Compat::Overlord, Hash::OneAtATime));
    // An empty tag is `{}` to overlord, and every distribution is ketama.
    assert_eq!((&rules.distribution, rules.tag), (&Distribution::Ketama, Some(*b"{}")));
    assert_eq!(
        shards(&config),
        [
            ("redis://10.0.0.1:11211".to_owned(), "10.0.0.1:11211", 1),
            ("redis://10.0.0.2:6379".to_owned(), "10.0.0.2:6379", 3),
        ]
    );
    assert_eq!((listen(&config), config.max_clients), (vec!["0.0.0.0:26379".to_owned()], 900));
    assert_eq!((config.timeouts.connect_ms, config.timeouts.request_ms), (1000, 2000));
    assert_eq!((config.timeouts.client_idle_ms, config.slowlog.slower_than_us), (7000, 10));
    assert_eq!(sharding(&config).eject.unwrap().failures, 3);
    assert_eq!(passwords(&config), [None, None]);
    noted(&notes, &["o.toml:11:1: hash_distribution: becomes ketama"]);
    noted(
        &notes,
        &["o.toml:16:1: redis_auth: has no counterpart: overlord does not use it either"],
    );
    noted(&notes, &["o.toml:28:1: clusters: another cluster", "--pool slots"]);
    noted(&notes, &["o.toml:2:1: pprof: "]);
    noted(&notes, &["o.toml:7:1: proxy.use_metrics: "]);
    assert!(notes.iter().all(|note| !note.contains("hunter2")));
}

#[test]
fn an_unknown_hash_is_what_overlord_makes_of_it() {
    for (method, hash, is_noted) in
        [("sha1", Hash::Fnv1a64, true), ("", Hash::Fnv1a64, false), ("crc32a", Hash::Crc32a, false)]
    {
        let text = THREE.replace("one_on_time", method);
        let (config, notes, _) = file(&text).pool("cache").good();
        assert_eq!(sharding(&config).rules.hash, hash, "{method}");
        assert_eq!(
            notes.iter().any(|note| note.contains("hash_method: becomes fnv1a_64")),
            is_noted
        );
    }
}

#[test]
fn a_redis_cluster() {
    let (config, notes, _) = file(THREE).pool("slots").good();
    assert_eq!(upstream(&config), "redis-cluster://10.0.0.1:7000,10.0.0.2:7001");
    assert_eq!(listen(&config), ["unix:/run/o.sock"]);
    assert_eq!(config.timeouts.request_ms, 0);
    noted(&notes, &["o.toml:33:1: hash_tag: is not for a Redis Cluster"]);
}

#[test]
fn mistakes_come_all_at_once_with_file_line_and_key() {
    assert_eq!(
        file(THREE).pool("mc").bad(),
        [
            "o.toml:37:1: cache_type: allowed: redis, redis_cluster; respool does not speak memcached",
        ]
    );
    let text = r#"
logs = "x"
[proxy]
read_timeouts = 1
[[clusters]]
name = "a"
cache_type = "redis"
listen_addr = "127.0.0.1:x"
read_timeout = -1
hash_tag = "{"
ping_auto_eject = "yes"
serverz = 1
servers = ["10.0.0.1:1", 7]
"#;
    assert_eq!(
        file(text).bad(),
        [
            "o.toml:2:1: logs: unknown key; did you mean `log`?",
            "o.toml:4:1: proxy.read_timeouts: unknown key; did you mean `proxy.read_timeout`?",
            "o.toml:8:1: listen_addr: the port is not a number from 1 to 65535",
            "o.toml:9:1: read_timeout: not a whole number from 0 up",
            "o.toml:10:1: hash_tag: not two characters, so that overlord heeds no tags at all, which respool cannot do with its ring",
            "o.toml:11:1: ping_auto_eject: not true or false",
            "o.toml:12:1: serverz: unknown key; did you mean `servers`?",
            "o.toml:13:12: servers: \"10.0.0.1:1\" has no port; a server is \"host:port:weight [name]\" or \"/path:weight [name]\"",
            "o.toml:13:26: servers: not a string",
        ]
    );
    assert_eq!(file("debug = true\n").bad(), ["o.toml:1:1: has no pool in it"]);
    assert!(file("a = [\n").bad()[0].contains("not valid TOML"));
}

#[test]
fn each_key_of_the_source_does_something() {
    const TOP: [(&str, &str); 12] = [
        ("pprof", "pprof = \"x\""),
        ("stat", "stat = \"x\""),
        ("stdout", "stdout = true"),
        ("debug", "debug = true"),
        ("log", "log = \"x\""),
        ("log_lv", "log_lv = 1"),
        ("log_vl", "log_vl = 1"),
        ("family", "family = \"x\""),
        ("host", "host = \"x\""),
        ("proxy.read_timeout", "proxy.read_timeout = 1"),
        ("proxy.write_timeout", "proxy.write_timeout = 1"),
        ("proxy.max_connections", "proxy.max_connections = 1"),
    ];
    const CLUSTER: [(&str, &str); 14] = [
        ("hash_method", "hash_method = \"md5\""),
        ("hash_distribution", "hash_distribution = \"modula\""),
        ("hash_tag", "hash_tag = \"<>\""),
        ("listen_proto", "listen_proto = \"unix\""),
        ("redis_auth", "redis_auth = \"x\""),
        ("dial_timeout", "dial_timeout = 7"),
        ("read_timeout", "read_timeout = 7"),
        ("write_timeout", "write_timeout = 7"),
        ("node_connections", "node_connections = 7"),
        ("node_pipe_count", "node_pipe_count = 7"),
        ("ping_fail_limit", "ping_fail_limit = 7"),
        ("ping_auto_eject", "ping_auto_eject = true"),
        ("slowlog_slower_than", "slowlog_slower_than = 7"),
        ("proxy.use_metrics", ""),
    ];
    let text = |top: &str, more: &str| {
        format!(
            "{top}\n[[clusters]]\nname='a'\ncache_type='redis'\nlisten_addr='127.0.0.1:1'\nservers=['h:1:1']\n{more}\n"
        )
    };
    let plain = text("", "");
    let texts: Vec<(&str, String)> = TOP
        .iter()
        .map(|(key, line)| (*key, text(line, "")))
        .chain(CLUSTER.iter().map(|(key, line)| {
            if line.is_empty() {
                (*key, text("proxy.use_metrics = true", ""))
            } else {
                (*key, text("", line))
            }
        }))
        .collect();
    each_key_does_something(&file(&plain), texts.iter().map(|(key, text)| (*key, file(text))));
}
