//! The table `[sharding]` as people write it: what becomes of each form, and what they read where it is wrong.

use std::io;

use config::{
    Config, Eject, FileText, PoolKind, Problems, Sharding, Sources, Upstream, load, load_file,
};
use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution, Shards};

fn file(text: &str) -> Result<Config, Problems> {
    let no_files = |_: config::Place<'_>| Err(io::Error::from(io::ErrorKind::NotFound));
    load_file(FileText { name: "r.toml", text }, &no_files)
}

fn sharding(config: Config) -> Sharding {
    match config.upstream {
        Upstream::Shards(sharding) => sharding,
        Upstream::One(url) => panic!("not sharded: {url}"),
    }
}

/// The sharding of a right file.
fn right(text: &str) -> Sharding {
    sharding(file(text).unwrap_or_else(|problems| panic!("{text}\n{problems}")))
}

/// The messages of a wrong file.
fn wrong(text: &str) -> String {
    file(text).expect_err(text).to_string()
}

/// Names and weights, in order.
fn names(sharding: &Sharding) -> Vec<(&str, u32)> {
    sharding.shards.iter().map(|shard| (shard.shard.name.as_str(), shard.shard.weight)).collect()
}

#[test]
fn the_server_list_of_twemproxy_is_taken_as_it_is() {
    let sharding = right(
        r#"
[sharding]
hash = "murmur"
hash_tag = "{}"
shards = [
  "10.0.0.1:6379:1",
  "10.0.0.2:6380:2 beta",
  "/run/redis.sock:1",
]
"#,
    );
    assert_eq!(names(&sharding), [("10.0.0.1:6379", 1), ("beta", 2), ("/run/redis.sock:", 1)]);
    let shown: Vec<_> = sharding.shards.iter().map(|shard| shard.url.to_string()).collect();
    assert_eq!(
        shown,
        ["redis://10.0.0.1:6379", "redis://10.0.0.2:6380", "redis+unix:///run/redis.sock"]
    );
    let rules = &sharding.rules;
    assert_eq!((rules.compat, rules.hash), (Compat::Twemproxy, Hash::Murmur));
    assert_eq!((&rules.distribution, rules.tag), (&Distribution::Ketama, Some(*b"{}")));
}

#[test]
fn every_form_of_a_pool_can_be_a_shard() {
    let text = r#"
[sharding]
distribution = "modula"
shards = [
  "redis://u:p@10.0.0.1/0 weight=3",
  "redis-sentinel://s1,s2/main",
  "redis-cluster://n1,n2 name=c  weight=2",
  "redis+unix:///run/r.sock name=local",
]
"#;
    let config = file(text).unwrap();
    assert_eq!(
        config.upstream.to_string(),
        "4 shards: redis://10.0.0.1:6379, redis-sentinel://s1:26379,s2:26379/main, \
         redis-cluster://n1:6379,n2:6379, redis+unix:///run/r.sock"
    );
    let sharding = sharding(config);
    assert_eq!(names(&sharding), [("10.0.0.1:6379", 3), ("main", 1), ("c", 2), ("local", 1)]);
    assert!(matches!(sharding.shards[2].url.pool, PoolKind::Cluster { .. }));
}

#[test]
fn a_long_list_is_shown_by_its_first_shards() {
    let shards: Vec<_> = (1..=6).map(|n| format!("\"h{n}:6379:1\"")).collect();
    let config = file(&format!("sharding.shards = [{}]", shards.join(","))).unwrap();
    assert_eq!(
        config.upstream.to_string(),
        "6 shards: redis://h1:6379, redis://h2:6379, redis://h3:6379, redis://h4:6379 and 2 more"
    );
    let one = file("sharding.shards = \"h:6379:1\"").unwrap();
    assert_eq!(one.upstream.to_string(), "1 shard: redis://h:6379");
}

#[test]
fn what_is_not_said_is_as_in_the_former_proxy() {
    let rules = |compat: &str, more: &str| {
        let shards = r#"shards = ["a:1:1", "b:1:1"]"#;
        right(&format!("[sharding]\ncompat = \"{compat}\"\n{shards}\n{more}\n")).rules
    };
    for compat in ["twemproxy", "twemproxy-arm"] {
        let rules = rules(compat, "");
        assert_eq!((rules.distribution, rules.hash), (Distribution::Ketama, Hash::Fnv1a64));
        assert_eq!((rules.tag, rules.compat.name()), (None, compat));
    }
    let overlord = rules("overlord", "");
    assert_eq!((overlord.distribution, overlord.hash), (Distribution::Ketama, Hash::Fnv1a64));
    assert_eq!(overlord.tag, Some(*b"{}"));
    let camellia = rules("camellia", "buckets = [\"0-2\", \"1\"]");
    assert_eq!(camellia.distribution, Distribution::Buckets(vec![0, 1, 0]));
    assert_eq!((camellia.hash, camellia.tag), (Hash::Java31, None));
    let predixy = rules("predixy", "distribution = \"modula\"\nhash = \"atol\"\nhash_tag = \"\"");
    assert_eq!((predixy.distribution, predixy.hash), (Distribution::Modula, Hash::Atol));
    assert_eq!(predixy.tag, None);
    assert_eq!(rules("predixy", "distribution = \"random\"").distribution, Distribution::Random);
}

/// Every name that the engine knows can be written, and means what the engine means by it.
#[test]
fn all_names_of_the_engine_are_allowed() {
    let shards = r#"shards = ["a:1:1", "b:1:1"]"#;
    for hash in Hash::all() {
        let text =
            format!("[sharding]\n{shards}\ndistribution = \"modula\"\nhash = \"{}\"", hash.name());
        assert_eq!(right(&text).rules.hash, hash);
    }
    for compat in Compat::all() {
        let more = "distribution = \"modula\"\nhash = \"crc16\"";
        let text = format!("[sharding]\n{shards}\n{more}\ncompat = \"{}\"", compat.name());
        let sharding = right(&text);
        assert_eq!(sharding.rules.compat, compat);
        let laid_out = sharding.shards.iter().map(|shard| shard.shard.clone()).collect();
        assert!(Shards::new(sharding.rules, laid_out).is_ok());
    }
}

#[test]
fn credentials_that_stand_apart_are_for_shards_without_their_own() {
    let text = r#"
upstream_user = "all"
upstream_password = "p"
[sharding]
shards = ["a:6379:1", "redis://own:q@b", "redis://:q@c", "redis-cluster://d name=d"]
"#;
    let logins: Vec<_> = right(text)
        .shards
        .into_iter()
        .map(|shard| (shard.url.user, shard.url.password.unwrap().reveal().to_vec()))
        .collect();
    let login = |user: Option<&str>, password: &[u8]| (user.map(str::to_owned), password.to_vec());
    assert_eq!(
        logins,
        [
            login(Some("all"), b"p"),
            login(Some("own"), b"q"),
            login(None, b"q"),
            login(Some("all"), b"p")
        ]
    );
}

#[test]
fn shards_come_from_the_environment_and_the_command_line_too() {
    let load = |environment: &[(&str, &str)], arguments: &[(&'static str, Vec<String>)]| {
        let environment: Vec<_> =
            environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        load(&Sources {
            file: None,
            environment: &environment,
            arguments,
            changes: &[],
            read_secret: &|_| Err(io::Error::from(io::ErrorKind::NotFound)),
            memory_bytes: None,
        })
        .map(|loaded| loaded.config)
    };
    // URLs of clusters and sentinels have commas, so these are no separators.
    let list = "redis-cluster://a,b name=one; redis-sentinel://c,d/two;e:6379:4 three";
    let from_environment = sharding(load(&[("RESPOOL_SHARDING_SHARDS", list)], &[]).unwrap());
    assert_eq!(names(&from_environment), [("one", 1), ("two", 1), ("three", 4)]);
    assert_eq!(from_environment.shards[0].url.addresses().count(), 2);
    let arguments = [
        ("sharding.shards", vec!["redis://a".to_owned(), "redis://b".to_owned()]),
        ("sharding.buckets", vec!["0-2".to_owned(), "1".to_owned()]),
        ("sharding.distribution", vec!["buckets".to_owned()]),
    ];
    let from_arguments = sharding(load(&[("RESPOOL_SHARDING_SHARDS", list)], &arguments).unwrap());
    assert_eq!(names(&from_arguments), [("a:6379", 1), ("b:6379", 1)]);
    let mistake = [("sharding.shards", vec!["redis://u:hunter2@a/x".to_owned()])];
    assert_eq!(
        load(&[("RESPOOL_SHARDING_HASH_TAG", "{")], &mistake).unwrap_err().to_string(),
        "\
environment RESPOOL_SHARDING_HASH_TAG: found `{`; allowed: two printable ASCII characters, such as \"{}\", or nothing
--sharding-shards: the database is not a whole number from 0 to 2147483647, as in redis://host:6379/0"
    );
}

#[test]
fn single_values_are_refused_where_they_stand() {
    let text = r#"
[sharding]
shards = [
  "10.0.0.1:6379:1",
  "10.0.0.2:6379",
  "redis://u:hunter2@h weight=0",
  5,
  "redis://u:hunter2@h nam=x",
]
compat = "nutcracker"
distribution = "ring"
hash = "sha1"
hash_tag = "{}}"
buckets = ["0-2", "1,3", 4, "65536"]
shard = "a"
"#;
    let forms = "a URL as for `upstream`, behind it weight=N, name=TEXT, password_file=PATH and sentinel_password_file=PATH if needed, as in \"redis://10.0.0.1:6379 weight=2 name=a\"; \
                 or host:port:weight and a name if there is one, as twemproxy and overlord write it: \"10.0.0.1:6379:2 a\"";
    let buckets =
        "for each shard its buckets as numbers below 65536 joined by `-`, such as \"0-2-4\"";
    assert_eq!(
        wrong(text),
        format!(
            "\
r.toml:5:3: sharding.shards: what has no :// in it is read as a server of a list, and it has no port; allowed: {forms}
r.toml:6:3: sharding.shards: the weight is not a whole number from 1 to 4294967295
r.toml:7:3: sharding.shards: found a number; allowed: {forms}
r.toml:8:3: sharding.shards: behind the URL only weight=N, name=TEXT, password_file=PATH and sentinel_password_file=PATH can follow; a space in a password is written %20
r.toml:10:10: sharding.compat: found the string \"nutcracker\"; allowed: twemproxy, twemproxy-arm, overlord, predixy, camellia
r.toml:11:16: sharding.distribution: found the string \"ring\"; allowed: ketama, modula, random, buckets
r.toml:12:8: sharding.hash: found the string \"sha1\"; allowed: fnv1_64, fnv1a_64, fnv1_32, fnv1a_32, crc16, crc32, crc32a, md5, murmur, hsieh, jenkins, one_at_a_time, atol, java31
r.toml:13:12: sharding.hash_tag: found the string \"{{}}}}\"; allowed: two printable ASCII characters, such as \"{{}}\", or nothing
r.toml:14:19: sharding.buckets: found the string \"1,3\"; allowed: {buckets}
r.toml:14:26: sharding.buckets: found 4; allowed: {buckets}
r.toml:14:29: sharding.buckets: found the string \"65536\"; allowed: {buckets}
r.toml:15:1: sharding.shard: unknown key; did you mean `shards`?"
        )
    );
}

#[test]
fn shards_that_do_not_go_together_are_refused() {
    for (text, expected) in [
        (
            "shards = []".to_owned(),
            "r.toml:2:10: sharding.shards: found 0 shards; allowed: 1 to 1024",
        ),
        (
            format!(
                "shards = [{}]",
                (0..1025).map(|n| format!("\"h{n}:1:1\"")).collect::<Vec<_>>().join(",")
            ),
            "r.toml:2:10: sharding.shards: found 1025 shards; allowed: 1 to 1024",
        ),
        (
            "shards = [\"a:1:1 x\", \"b:1:1\", \"c:1:1 x\"]".to_owned(),
            "r.toml:2:10: sharding.shards: two shards have the name \"x\", so they cannot be told apart; allowed: a different name=TEXT for each",
        ),
        (
            "shards = [\"a:1:1 x\", \"a:1:2 y\"]".to_owned(),
            "r.toml:2:10: sharding.shards: shard 2 is the same as shard 1; each server or cluster can be in the list once",
        ),
        (
            "shards = [\"a:1:4294967295\", \"b:1:1\"]".to_owned(),
            "r.toml:2:10: sharding.shards: the weights of all shards add up to more than 4294967295",
        ),
        (
            "shards = [\"redis://a/1\", \"redis://b\"]".to_owned(),
            "r.toml:2:10: sharding.shards: shard 1 is in the database 1 and shard 2 in 0; allowed: the same for all, because clients are in one database on all shards",
        ),
        (
            "shards = [\"redis://a/1\", \"redis-cluster://b name=b\"]".to_owned(),
            "r.toml:2:10: sharding.shards: shard 1 is in the database 1, but shard 2 is a cluster, which has the database 0 only; clients are in the same database on all shards",
        ),
        (
            "shards = [\"redis-cluster://b name=b\", \"redis-sentinel://a/m?db=2\"]".to_owned(),
            "r.toml:2:10: sharding.shards: shard 2 is in the database 2, but shard 1 is a cluster, which has the database 0 only; clients are in the same database on all shards",
        ),
        (
            "shards = [\"redis-cluster://a/1 name=b\"]".to_owned(),
            "r.toml:2:11: sharding.shards: a cluster has the database 0 only, so nothing follows the hosts",
        ),
        (
            "shards = [\"redis-cluster://a\", \"b:1:1\"]".to_owned(),
            "r.toml:2:10: sharding.shards: shard 1 has no name, by which its keys would be found again when its URL changes; add name=TEXT",
        ),
        (
            "shards = [\"redis://u@a\", \"b:1:1\"]".to_owned(),
            "r.toml:2:10: sharding.shards: shard 1 has a user without a password; give user:password@ in its URL, password_file=PATH behind it, or upstream_password_file and no user in the URL (for a user with `nopass` any password does)",
        ),
        (
            "shards = [\"a:1:1\", \"127.0.0.1:6380:1\"]".to_owned(),
            "r.toml:2:10: sharding.shards: one of the shards is `127.0.0.1:6380`, where the proxy itself listens; change one of the two",
        ),
        (
            "shards = [\"a:1:1\", \"redis-cluster://b,localhost:6380 name=c\"]".to_owned(),
            "r.toml:2:10: sharding.shards: one of the shards is `127.0.0.1:6380`, where the proxy itself listens; change one of the two",
        ),
    ] {
        let text = format!("[sharding]\n{text}\n");
        assert_eq!(wrong(&text), expected, "{text}");
    }
}

#[test]
fn layouts_that_cannot_be_are_refused() {
    let two = "shards = [\"a:6379:1\", \"b:6379:1\"]";
    for (text, expected) in [
        (
            format!("{two}\nhash = \"atol\""),
            "r.toml:3:8: sharding.hash: hash \"atol\" cannot be used with ketama: its results are too narrow, nearly all keys would meet one shard; allowed with ketama: every hash but atol and java31, which are for modula and buckets",
        ),
        (
            format!("{two}\ncompat = \"predixy\""),
            "\
r.toml:3:10: sharding.compat: predixy has no default for `sharding.distribution`; give it as in the former configuration (modula or random)
r.toml:3:10: sharding.compat: predixy has no default for `sharding.hash`; give it as in the former configuration (atol or crc16)",
        ),
        (
            format!("{two}\ncompat = \"overlord\"\nhash_tag = \"\""),
            "r.toml:4:12: sharding.hash_tag: found nothing, which overlord itself takes for \"{}\"; allowed with it: two characters",
        ),
        (
            format!("{two}\nbuckets = [\"0\", \"1\"]"),
            "r.toml:3:11: sharding.buckets: only the distribution `buckets` has buckets; set `sharding.distribution` to it, or leave this out",
        ),
        (
            format!("{two}\ndistribution = \"buckets\""),
            "r.toml:3:16: sharding.distribution: found 0 for 2 shards; allowed: one list of buckets for each shard, in the order of `sharding.shards`",
        ),
        (
            format!("{two}\ndistribution = \"buckets\"\nbuckets = [\"0\"]"),
            "r.toml:4:11: sharding.buckets: found 1 for 2 shards; allowed: one list of buckets for each shard, in the order of `sharding.shards`",
        ),
        (
            format!("{two}\ndistribution = \"buckets\"\nbuckets = [\"0-1\", \"1\"]"),
            "r.toml:4:11: sharding.buckets: bucket 1 is given twice; allowed: every number from 0 to the highest exactly once",
        ),
        (
            format!("{two}\ndistribution = \"buckets\"\nbuckets = [\"0\", \"2\"]"),
            "r.toml:4:11: sharding.buckets: bucket 1 is given to no shard; allowed: every number from 0 to the highest exactly once",
        ),
    ] {
        let text = format!("[sharding]\n{text}\n");
        assert_eq!(wrong(&text), expected, "{text}");
    }
}

#[test]
fn upstream_and_shards_exclude_each_other() {
    let both = "`upstream` and `sharding.shards` are both set; `upstream` is the one place of all keys, `sharding.shards` several that share them: give one of the two";
    assert_eq!(
        wrong("upstream = \"redis://h\"\nsharding.shards = \"a:1:1\""),
        format!("r.toml:2:19: sharding.shards: {both}")
    );
    // A list that was refused is still one: nobody is asked for an upstream then.
    assert!(!wrong("sharding.shards = \"a\"").contains("no server is named"));
    let alone =
        "set without `sharding.shards`, which it is about; give the shards, or leave this out";
    assert_eq!(
        wrong(
            "upstream = \"redis://h\"\n[sharding]\nhash = \"md5\"\ncompat = \"overlord\"\nbuckets = []"
        ),
        format!(
            "r.toml:3:8: sharding.hash: {alone}\nr.toml:4:10: sharding.compat: {alone}\nr.toml:5:11: sharding.buckets: {alone}"
        )
    );
    assert!(wrong("sharding.hash_tag = \"{}\"").contains("no server is named"));
}

/// One wrong option does not make others wrong.
#[test]
fn a_refused_option_is_not_held_against_the_others() {
    let text = "[sharding]\nshards = [\"a:1:1\", \"b:1:1\"]\ncompat = \"predixi\"\nbuckets = [\"0\", \"0\"]";
    assert_eq!(
        wrong(text),
        "r.toml:3:10: sharding.compat: found the string \"predixi\"; allowed: twemproxy, twemproxy-arm, overlord, predixy, camellia"
    );
}

/// Shards that fail are left out only where somebody asked for it: by a value, from any source, or by the table's head.
#[test]
fn ejection_is_on_where_its_table_is() {
    let shards = "sharding.shards = [\"a:1:1\", \"b:1:1\"]\n";
    let eject = |more: &str| right(&format!("{shards}{more}")).eject;
    assert_eq!(eject(""), None);
    assert_eq!(eject("[sharding.eject]"), Some(Eject::default()));
    assert_eq!(
        eject("[sharding.eject]\nfailures = 1\nprobe_ms = 50"),
        Some(Eject { failures: 1, probe_ms: 50, ..Eject::default() })
    );
    let text = FileText { name: "r.toml", text: shards };
    let sources = Sources {
        file: Some(text),
        environment: &[("RESPOOL_SHARDING_EJECT_WINDOW_MS".to_owned(), "7".to_owned())],
        arguments: &[],
        changes: &[],
        read_secret: &|_| Err(io::ErrorKind::NotFound.into()),
        memory_bytes: None,
    };
    let expected = Eject { window_ms: 7, ..Eject::default() };
    assert_eq!(sharding(load(&sources).unwrap().config).eject, Some(expected));
}

#[test]
fn mistakes_in_the_table_of_ejection_have_their_place() {
    assert_eq!(
        wrong(
            "[sharding]\nshards = [\"a:1:1\"]\nfailures = 2\n[sharding.eject]\nfailures = 0\nprobes_ms = 1\nprobe_ms = 1"
        ),
        "\
r.toml:3:1: sharding.failures: unknown key; `failures` belongs into [sharding.eject]
r.toml:5:12: sharding.eject.failures: found 0; allowed: a whole number from 1 to 1000
r.toml:6:1: sharding.eject.probes_ms: unknown key; did you mean `probe_ms`?
r.toml:7:12: sharding.eject.probe_ms: found 1; allowed: a whole number of milliseconds from 10 to 3600000"
    );
    assert_eq!(
        wrong("[sharding]\nshards = [\"a:1:1\"]\neject = true"),
        "r.toml:3:9: sharding.eject: found true or false; allowed: a table, written [sharding.eject]"
    );
    assert_eq!(
        wrong("upstream = \"redis://h\"\n[sharding.eject]"),
        "r.toml:2:1: sharding.eject.failures: set without `sharding.shards`, which it is about; give the shards, or leave \
         this out"
    );
}
