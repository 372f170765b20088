//! twemproxy.

use super::*;
use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution};

const TWO: &str = "\
alpha:
  listen: 127.0.0.1:22121
  hash: md5
  hash_tag: \"{}\"
  distribution: modula
  timeout: 400
  backlog: 1024
  redis: true
  redis_auth: hunter2
  auto_eject_hosts: true
  server_retry_timeout: 2000
  server_failure_limit: 4
  servers:
    - 10.0.0.1:6379:1 one
    - 10.0.0.2:11211:3
    - /run/r.sock:2
beta:
  listen: /run/beta.sock 0770
  redis: true
  redis_db: 5
  servers:
    - 10.0.0.3:11211:2
    - 10.0.0.4:6379:1 four
";

fn file(text: &str) -> Files<'_> {
    Files::one(Peer::Nutcracker, "n.yml", text)
}

#[test]
fn a_pool_keeps_all_that_decides_where_keys_go() {
    let (config, notes, _) = file(TWO).pool("alpha").good();
    let rules = &sharding(&config).rules;
    assert_eq!(rules.compat, Compat::Twemproxy);
    assert_eq!(
        (rules.hash, &rules.distribution, rules.tag),
        (Hash::Md5, &Distribution::Modula, Some(*b"{}"))
    );
    assert_eq!(
        shards(&config),
        [
            ("redis://10.0.0.1:6379".to_owned(), "one", 1),
            ("redis://10.0.0.2:11211".to_owned(), "10.0.0.2", 3),
            ("redis+unix:///run/r.sock".to_owned(), "/run/r.sock:", 2),
        ]
    );
    assert_eq!(listen(&config), ["127.0.0.1:22121"]);
    assert_eq!((config.timeouts.connect_ms, config.timeouts.request_ms), (400, 400));
    let eject = sharding(&config).eject.unwrap();
    assert_eq!((eject.failures, eject.probe_ms), (4, 2000));
    // It asks clients for the password that it has at the servers.
    assert_eq!(passwords(&config), vec![Some("hunter2".to_owned()); 3]);
    assert_eq!(password(config.password.as_ref()).as_deref(), Some("hunter2"));
    assert!(config.protected_mode);
    noted(&notes, &["n.yml:7:3: backlog: has no counterpart"]);
    noted(&notes, &["n.yml:17:1: beta: another pool", "--pool beta"]);
    noted(&notes, &["upstream_password_file"]);
    noted(&notes, &["twemproxy-arm"]);
    assert!(notes.iter().all(|note| !note.contains("hunter2")));
}

#[test]
fn a_database_and_defaults_keep_the_names() {
    let (config, notes, toml) = file(TWO).pool("beta").good();
    let rules = &sharding(&config).rules;
    assert_eq!(
        (rules.hash, &rules.distribution, rules.tag),
        (Hash::Fnv1a64, &Distribution::Ketama, None)
    );
    assert_eq!(
        shards(&config),
        [
            ("redis://10.0.0.3:11211/5".to_owned(), "10.0.0.3", 2),
            ("redis://10.0.0.4:6379/5".to_owned(), "four", 1),
        ]
    );
    assert_eq!(
        (listen(&config), config.unix_mode),
        (vec!["unix:/run/beta.sock".to_owned()], 0o770)
    );
    assert_eq!((config.timeouts.request_ms, sharding(&config).eject), (0, None));
    noted(&notes, &["timeouts.request_ms = 0"]);
    // The notes stand in the file as well.
    assert!(
        toml.starts_with(
            "# Made by `respool convert` from n.yml, a configuration of nutcracker.\n"
        )
    );
    for note in &notes {
        assert!(toml.contains(&format!("#   {note}\n")), "{note}");
    }
}

#[test]
fn several_pools_are_asked_for() {
    assert_eq!(
        file(TWO).bad(),
        [
            "n.yml:1:1: has 2 pools, and one respool serves one of them; choose it with --pool NAME, one of `alpha`, `beta`"
        ]
    );
    assert_eq!(
        file(TWO).pool("gamma").bad(),
        ["n.yml:1:1: has no pool `gamma`; there are `alpha`, `beta`"]
    );
    assert_eq!(file("").bad(), ["n.yml:1:1: has no pool in it"]);
}

#[test]
fn what_lies_beyond_our_bounds_is_set_to_the_bound_and_noted() {
    let text = "a:\n  listen: 127.0.0.1:1\n  redis: true\n  auto_eject_hosts: true\n  server_failure_limit: 0\n  server_retry_timeout: 5\n  servers: [\"h:1:1\", \"i:1:1\"]\n";
    let (config, notes, _) = file(text).good();
    let eject = sharding(&config).eject.unwrap();
    assert_eq!((eject.failures, eject.probe_ms), (1, 10));
    noted(&notes, &["n.yml:5:3: server_failure_limit: becomes sharding.eject.failures = 1"]);
    noted(
        &notes,
        &[
            "n.yml:6:3: server_retry_timeout: becomes sharding.eject.probe_ms = 10, since 10 to 3600000",
        ],
    );
}

#[test]
fn names_cannot_break_out_of_their_line() {
    let pool = |name: &str| {
        format!("{name}:\n  listen: 127.0.0.1:1\n  redis: true\n  servers: [\"h:1:1\"]\n")
    };
    let text = pool("a") + &pool("\"b\\nlisten = 1\\e[0m\"");
    let (config, notes, _) = file(&text).pool("a").good();
    assert_eq!(listen(&config), ["127.0.0.1:1"]);
    assert!(notes.iter().all(|note| !note.contains(char::is_control)), "{notes:?}");
    let text = pool("a") + &pool("a");
    assert_eq!(file(&text).bad(), ["n.yml:1:1: has two pools with the name `a`"]);
}

#[test]
fn mistakes_come_all_at_once_with_file_line_and_key() {
    let text = "\
a:
  listen: 127.0.0.1
  hash: sha1
  hash_tag: x
  timeout: 1s
  redis: yes
  serverz: []
  timeout: 5
  hash_tags:
  servers:
    - 10.0.0.1:6379
    - 10.0.0.1:6379:0
b:
  lisen: 1
";
    assert_eq!(
        file(text).pool("a").bad(),
        [
            "n.yml:2:3: listen: not host:port, nor the path of a unix socket",
            "n.yml:3:3: hash: allowed: one_at_a_time, md5, crc16, crc32, crc32a, fnv1_64, fnv1a_64, fnv1_32, fnv1a_32, hsieh, murmur, jenkins",
            "n.yml:4:3: hash_tag: allowed: two characters, as in \"{}\"",
            "n.yml:5:3: timeout: not a whole number from 0 up",
            "n.yml:6:3: redis: allowed: false, true",
            "n.yml:7:3: serverz: unknown key; did you mean `servers`?",
            "n.yml:8:3: timeout: stands in this pool twice",
            "n.yml:9:3: hash_tags: unknown key; did you mean `hash_tag`?",
            "n.yml:11:7: servers: \"10.0.0.1:6379\" has no port; a server is \"host:port:weight [name]\" or \"/path:weight [name]\"",
            "n.yml:12:7: servers: \"10.0.0.1:6379:0\" has no weight from 1 up; a server is \"host:port:weight [name]\" or \"/path:weight [name]\"",
            "n.yml:14:3: lisen: unknown key; did you mean `listen`?",
        ]
    );
    let bad = file("a: [1\nb: 2\n").bad();
    assert!(bad[0].starts_with("n.yml:2:") && bad[0].contains("not valid YAML"), "{bad:?}");
}

#[test]
fn what_our_own_rules_refuse_is_told_at_the_peers_key() {
    let text = "a:\n  listen: 127.0.0.1:1\n  redis: true\n  servers: [\"h:1:1 x\", \"i:1:1 x\"]\n";
    let bad = file(text).bad();
    assert!(bad[0].starts_with("n.yml:4:3: servers: cannot become `sharding.shards`: "), "{bad:?}");
    let text = text.replace("h:1:1 x", "h:1:4294967295 w");
    let bad = file(&text).bad();
    assert!(bad[0].contains(":4:3: servers: ") && bad[0].contains("add up to more"), "{bad:?}");
}

#[test]
fn a_pool_that_anybody_can_reach_stays_one_and_that_is_noted() {
    let text = "a:\n  listen: 0.0.0.0:7\n  redis: true\n  servers: [\"h:1:1\"]\n";
    let (config, notes, _) = file(text).good();
    assert!(!config.protected_mode);
    noted(&notes, &["n.yml:2:3: listen:", "protected_mode = false"]);
    let text = text.replace("0.0.0.0:7", "cache.internal:7");
    let (config, notes, _) = file(&text).good();
    assert!(config.protected_mode);
    noted(&notes, &["n.yml:2:3: listen:", "addresses and not on names", "cache.internal"]);
}

#[test]
fn each_key_of_the_source_does_something() {
    const KEYS: [(&str, &str); 17] = [
        ("listen", "127.0.0.1:8"),
        ("hash", "md5"),
        ("hash_tag", "\"{}\""),
        ("distribution", "modula"),
        ("timeout", "7"),
        ("backlog", "7"),
        ("client_connections", "7"),
        ("tcpkeepalive", "true"),
        ("reuseport", "true"),
        ("redis_auth", "p"),
        ("redis_db", "7"),
        ("preconnect", "true"),
        ("auto_eject_hosts", "true"),
        ("server_connections", "7"),
        ("server_retry_timeout", "70"),
        ("server_failure_limit", "7"),
        ("servers", "[\"i:1:1\"]"),
    ];
    let text = |key: &str, value: &str| {
        let mut lines =
            vec![("listen", "127.0.0.1:7"), ("redis", "true"), ("servers", "[\"h:1:1\"]")];
        lines.retain(|(other, _)| *other != key);
        lines.push((key, value));
        let lines: Vec<String> = lines
            .iter()
            .filter(|(key, _)| !key.is_empty())
            .map(|(k, v)| format!("  {k}: {v}\n"))
            .collect();
        format!("a:\n{}", lines.concat())
    };
    let plain = text("", "");
    let texts: Vec<(&str, String)> =
        KEYS.iter().map(|(key, value)| (*key, text(key, value))).collect();
    let variants = texts.iter().map(|(key, text)| (*key, file(text)));
    each_key_does_something(&file(&plain), variants);
}
