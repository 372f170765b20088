//! Tables whose keys are the operator's own, lists of commands, and the file that each password can come from.

use std::io;

use config::{
    Config, FileText, MappedAddress, PoolKind, Problems, Secret, Sharding, Sources, Upstream, load,
};
use engine::command::lookup;

/// Password files of these tests: what a file holds is `its name` in capitals. `gone` is not there, `empty` is empty.
fn read(place: config::Place<'_>) -> io::Result<Vec<u8>> {
    let config::Place::File(path) = place else { return Err(io::ErrorKind::NotFound.into()) };
    match path.to_str().unwrap_or_default() {
        "gone" => Err(io::ErrorKind::NotFound.into()),
        "empty" => Ok(b"\n".to_vec()),
        name => Ok(format!("{}\n", name.to_uppercase()).into_bytes()),
    }
}

/// Loads a file with an upstream, environment and command line.
fn layers(
    text: &str,
    environment: &[(&str, &str)],
    arguments: &[(&'static str, &[&str])],
) -> Result<Config, Problems> {
    let environment: Vec<_> =
        environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let arguments: Vec<_> = arguments
        .iter()
        .map(|(name, values)| (*name, values.iter().map(|v| (*v).to_owned()).collect()))
        .collect();
    let file = Some(FileText { name: "r.toml", text });
    let arguments = &arguments;
    let sources = Sources {
        file,
        environment: &environment,
        arguments,
        changes: &[],
        read_secret: &read,
        memory_bytes: None,
    };
    load(&sources).map(|loaded| loaded.config)
}

fn right(text: &str) -> Config {
    layers(text, &[], &[]).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

fn wrong(text: &str) -> String {
    layers(text, &[], &[]).expect_err(text).to_string()
}

const CLUSTER: &str = "upstream = \"redis-cluster://h\"\n";

fn port(host: &str, port: u16, to_host: &str, to_port: u16) -> MappedAddress {
    MappedAddress::Port { host: host.into(), port, to_host: to_host.into(), to_port }
}

fn host(host: &str, to_host: &str) -> MappedAddress {
    MappedAddress::Host { host: host.into(), to_host: to_host.into() }
}

#[test]
fn the_address_map_is_read_from_every_source_in_the_same_way() {
    let expected = [
        port("10.0.0.5", 6379, "127.0.0.1", 7000),
        host("10.0.0.5", "gateway"),
        port("::1", 7000, "::2", 7001),
    ];
    let table = "[address_map]\n\"10.0.0.5:6379\" = \"127.0.0.1:7000\"\n\"10.0.0.5\" = \"gateway\"\n\
                 \"[0::1]:7000\" = \"[::2]:7001\"";
    let inline = "address_map = { \"10.0.0.5:6379\" = \"127.0.0.1:7000\", \"10.0.0.5\" = \"gateway\", \
                  \"[::1]:7000\" = \"[::2]:7001\" }";
    for text in [table, inline] {
        let map = right(&format!("{CLUSTER}{text}")).address_map;
        assert!(expected.iter().all(|entry| map.contains(entry)) && map.len() == 3, "{map:?}");
    }
    let words = "10.0.0.5:6379=127.0.0.1:7000, 10.0.0.5=gateway,[::1]:7000=[::2]:7001";
    let by_environment = layers(CLUSTER, &[("RESPOOL_ADDRESS_MAP", words)], &[]).unwrap();
    assert_eq!(by_environment.address_map, expected);
    let one = layers(&format!("{CLUSTER}{table}"), &[], &[("address_map", &["a=b"])]).unwrap();
    assert_eq!(one.address_map, [host("a", "b")], "a stronger source replaces the table");
    assert_eq!(right(CLUSTER).address_map, []);
}

#[test]
fn mistakes_in_the_address_map_have_their_place() {
    let text = "\
upstream = \"redis-cluster://h\"
[address_map]
\"10.0.0.5:6379\" = \"127.0.0.1\"
\"a:0\" = \"b:1\"
\"a\" = 7000
\"[::1\" = \"b\"
\"[::1]:1\" = \"b:1\"
\"[0::1]:1\" = \"c:1\"
\"a b\" = \"c\"
";
    let forms = "\"host:port\" = \"host:port\", or \"host\" = \"host\" for every other port of a host; IPv6 with a port is written [::1]:6379";
    let twice = wrong(text);
    let (first, last): (Vec<_>, Vec<_>) =
        twice.lines().partition(|line| !line.contains("stands here twice"));
    assert_eq!(
        first.join("\n"),
        format!(
            "\
r.toml:3:1: address_map: found the entry \"10.0.0.5:6379\", which has a port on one side only; allowed: {forms}
r.toml:4:1: address_map: found the entry \"a:0\", which has a port that is not a number from 1 to 65535; allowed: {forms}
r.toml:5:7: address_map: found an integer; allowed: {forms}
r.toml:6:1: address_map: found the entry \"[::1\", which has no closing `]`; allowed: {forms}
r.toml:9:1: address_map: found the entry \"a b\", which is no host (letters, digits and `.` `-` `_` only); allowed: {forms}"
        )
    );
    // Which of the two comes first is the parser's affair.
    assert_eq!(last.len(), 1);
    assert!(last[0].contains(":1\", whose left side"), "{last:?}");
    let words = layers(CLUSTER, &[("RESPOOL_ADDRESS_MAP", "a")], &[("address_map", &["=b"])]);
    let words = words.unwrap_err().to_string();
    assert!(words.contains("RESPOOL_ADDRESS_MAP: found `a`; allowed: "), "{words}");
    assert!(words.contains("--address-map: found the entry \"\", which is no host"), "{words}");
    assert_eq!(
        wrong(&format!("{CLUSTER}address_map = [\"a=b\"]")),
        format!("r.toml:2:16: address_map: found the string \"a=b\"; allowed: {forms}")
    );
    assert_eq!(
        wrong(&format!("{CLUSTER}address_map = {{ \"a:1\" = \"127.0.0.1:6380\" }}")),
        "r.toml:2:15: address_map: leads to `127.0.0.1:6380`, where the proxy itself listens; change one of the two"
    );
}

/// In TOML a line behind a table's head belongs to the table.
#[test]
fn a_password_in_the_wrong_table_is_told_and_not_shown() {
    let text = format!(
        "{CLUSTER}[address_map]\na = \"b\"\npassword = \"hunter2\"\npasword = \"hunter 3\"\nworkers = 4444"
    );
    let found = wrong(&text);
    assert!(
        found.contains(
            "r.toml:4:1: address_map: found the entry \"password\", which is an option of its own"
        ),
        "{found}"
    );
    assert!(
        !found.contains("hunt") && !found.contains("4444") && found.lines().count() == 3,
        "{found}"
    );
}

#[test]
fn zones_are_by_address_or_host() {
    let zones = |config: Config| config.reads.zones;
    let table = right(&format!(
        "{CLUSTER}[reads.zones]\n\"10.0.0.5:6379\" = \"eu-1 a\"\n\"[0::1]:7000\" = \"b\""
    ));
    let expected =
        [("10.0.0.5:6379".to_owned(), "eu-1 a".to_owned()), ("[::1]:7000".into(), "b".into())];
    let found = zones(table);
    assert!(expected.iter().all(|zone| found.contains(zone)) && found.len() == 2, "{found:?}");
    let words = layers(CLUSTER, &[], &[("reads.zones", &["h=a", "::1=b"])]).unwrap();
    assert_eq!(zones(words), [("h".to_owned(), "a".to_owned()), ("::1".into(), "b".into())]);
    assert_eq!(
        wrong(&format!("{CLUSTER}[reads]\nzones = {{ h = \"\", \"h:x\" = \"a\" }}")),
        "\
r.toml:3:11: reads.zones: found the entry \"h\", which has no zone; allowed: \"host:port\" = \"zone\", or \"host\" = \"zone\" for every other port of a host; IPv6 with a port is written [::1]:6379
r.toml:3:19: reads.zones: found the entry \"h:x\", which has a port that is not a number from 1 to 65535; allowed: \"host:port\" = \"zone\", or \"host\" = \"zone\" for every other port of a host; IPv6 with a port is written [::1]:6379"
    );
}

#[test]
fn commands_are_known_by_name_and_containers_stand_for_their_subcommands() {
    let commands = |text: &str| right(&format!("{CLUSTER}{text}")).reads.primary_commands;
    let get = lookup(b"get").unwrap();
    assert_eq!(commands("reads.primary_commands = [\"GET\", \"get\"]"), [get]);
    let object = lookup(b"object").unwrap();
    let all: Vec<_> = std::iter::once(object).chain(object.subcommands()).collect();
    assert_eq!(commands("reads.primary_commands = \"object\""), all);
    let one = commands("reads.primary_commands = [\"OBJECT freq\"]");
    assert_eq!(one.iter().map(|id| id.name()).collect::<Vec<_>>(), ["object|freq"]);
    assert_eq!(
        wrong(&format!("{CLUSTER}[reads]\nprimary_commands = [\"gett\", 5]")),
        "\
r.toml:3:21: reads.primary_commands: found the string \"gett\", a command that respool does not know (did you mean `get`?); such commands go to the primary in any case; allowed: names of commands, such as \"get\" or \"object|freq\"
r.toml:3:29: reads.primary_commands: found 5; allowed: names of commands, such as \"get\" or \"object|freq\""
    );
}

#[test]
fn connections_to_a_server_are_bounded_by_its_limit() {
    let text = format!("{CLUSTER}[limits]\nconns_per_node = 8\nupstream_conns_max = 8");
    assert_eq!(right(&format!("workers = 2\n{text}")).limits.conns_per_node, 8);
    assert_eq!(
        wrong(&format!(
            "workers = 2\n{CLUSTER}[limits]\nconns_per_node = 9\nupstream_conns_max = 8"
        )),
        "r.toml:4:18: limits.conns_per_node: `limits.conns_per_node` (9) is above `limits.upstream_conns_max` (8); allowed: not above"
    );
}

/// User and password at the sentinels.
fn at_sentinels(config: Config) -> (Option<String>, Option<Secret>) {
    match config.upstream {
        Upstream::One(url) => match url.pool {
            PoolKind::Sentinel { user, password, .. } => (user, password),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_password_of_sentinels_can_come_from_a_file() {
    let login = |text: &str| at_sentinels(right(text));
    let password = |text: &str| Some(Secret::new(text));
    let url = "upstream = \"redis-sentinel://s/m\"\n";
    assert_eq!(login(&format!("{url}sentinel_password_file = \"one\"")), (None, password("ONE")));
    let both = "sentinel_user = \"u\"\nsentinel_password_file = \"one\"";
    assert_eq!(login(&format!("{url}{both}")), (Some("u".into()), password("ONE")));
    // They take the place of those in the URL, one by one.
    let full = "upstream = \"redis-sentinel://s/m?sentinel_user=w&sentinel_password=x\"\n";
    assert_eq!(
        login(&format!("{full}sentinel_password = \"y\"")),
        (Some("w".into()), password("y"))
    );
    let alone = "upstream = \"redis-sentinel://s/m?sentinel_user=w\"\n";
    let found = login(&format!("{alone}sentinel_password_file = \"one\""));
    assert_eq!(found, (Some("w".into()), password("ONE")));
    // A stronger source decides between the two.
    let text = format!("{url}sentinel_password_file = \"one\"");
    let config = layers(&text, &[("RESPOOL_SENTINEL_PASSWORD", "env")], &[]).unwrap();
    assert_eq!(at_sentinels(config), (None, password("env")));
}

#[test]
fn mistakes_about_the_password_of_sentinels_name_their_place() {
    let url = "upstream = \"redis-sentinel://s/m\"\n";
    let alone = "a user at the sentinels without a password; give sentinel_password_file, sentinel_password, or sentinel_password=… in \
                 the URL (for a user with `nopass` any password does)";
    for (text, expected) in [
        (format!("{url}sentinel_user = \"u\""), format!("r.toml:2:17: sentinel_user: {alone}")),
        (
            "upstream = \"redis-sentinel://s/m?sentinel_user=u\"".to_owned(),
            format!("r.toml:1:12: upstream: {alone}"),
        ),
        (
            format!("{url}sentinel_user = \"u\"\nsentinel_password_file = \"gone\""),
            "r.toml:3:26: sentinel_password_file: cannot read gone: entity not found".to_owned(),
        ),
        (
            format!("{url}sentinel_password_file = \"empty\""),
            "r.toml:2:26: sentinel_password_file: empty is empty; it must hold the password".to_owned(),
        ),
        (
            format!("{url}sentinel_password_file = \"a\"\nsentinel_password = \"hunter2\""),
            "r.toml:2:26: sentinel_password_file: `sentinel_password` and `sentinel_password_file` are both set; give one of them"
                .to_owned(),
        ),
        (
            "upstream = \"redis://h\"\nsentinel_user = \"u\"\nsentinel_password_file = \"a\"".to_owned(),
            "r.toml:2:17: sentinel_user: set without a redis-sentinel:// URL, which it is about; give one, or leave this out\n\
             r.toml:3:26: sentinel_password_file: set without a redis-sentinel:// URL, which it is about; give one, or leave this out"
                .to_owned(),
        ),
    ] {
        assert_eq!(wrong(&text), expected);
    }
}

fn sharding(config: Config) -> Sharding {
    match config.upstream {
        Upstream::Shards(sharding) => sharding,
        Upstream::One(url) => panic!("not sharded: {url}"),
    }
}

#[test]
fn each_shard_can_have_its_own_passwords_from_files() {
    let text = r#"
upstream_password_file = "all"
sentinel_password_file = "watch"
[sharding]
shards = [
  "redis://u@a password_file=own weight=2",
  "b:6379:1",
  "redis-sentinel://s/m password_file=main sentinel_password_file=guard",
  "redis-sentinel://s/n",
]
"#;
    let shards = sharding(right(text)).shards;
    let shown = |secret: &Option<Secret>| {
        secret.as_ref().map(|secret| String::from_utf8_lossy(secret.reveal()).into_owned())
    };
    let servers: Vec<_> = shards.iter().map(|shard| shown(&shard.url.password).unwrap()).collect();
    assert_eq!(servers, ["OWN", "ALL", "MAIN", "ALL"]);
    assert_eq!((shards[0].url.user.as_deref(), shards[0].shard.weight), (Some("u"), 2));
    let sentinels: Vec<_> = shards
        .iter()
        .filter_map(|shard| match &shard.url.pool {
            PoolKind::Sentinel { password, .. } => shown(password),
            _ => None,
        })
        .collect();
    assert_eq!(sentinels, ["GUARD", "WATCH"]);
}

#[test]
fn mistakes_about_passwords_of_shards_name_the_shard() {
    let shards = |list: &str| format!("sharding.shards = [{list}]");
    let expected = "\
r.toml:1:19: sharding.shards: shard 1: cannot read its password_file: entity not found
r.toml:1:19: sharding.shards: shard 2: its sentinel_password_file is empty; it must hold the password";
    let list =
        r#""redis://a password_file=gone", "redis-sentinel://s/m sentinel_password_file=empty""#;
    assert_eq!(wrong(&shards(list)), expected);
    let alone = wrong(&shards(r#""redis-sentinel://s/m?sentinel_user=u", "a:1:1""#));
    assert!(alone.contains("shard 1 has a user at the sentinels without a password"), "{alone}");
    let nowhere = wrong(&format!("sentinel_password = \"x\"\n{}", shards(r#""a:1:1""#)));
    assert!(nowhere.starts_with("r.toml:1:21: sentinel_password: set without a redis-sentinel"));
}

#[test]
fn weights_are_numbers_by_address_or_host() {
    let weights = |config: Config| config.reads.weights;
    let table = right(&format!(
        "{CLUSTER}[reads.weights]\n\"10.0.0.5:6379\" = 3\n\"[0::1]:7000\" = 0\nspare = \"2\""
    ));
    let expected = [("10.0.0.5:6379", 3), ("[::1]:7000", 0), ("spare", 2)];
    let found = weights(table);
    assert!(expected.iter().all(|(name, weight)| found.contains(&((*name).to_owned(), *weight))));
    assert_eq!(found.len(), 3, "{found:?}");
    let words = layers(CLUSTER, &[], &[("reads.weights", &["h=3", "::1=1"])]).unwrap();
    assert_eq!(weights(words), [("h".to_owned(), 3), ("::1".to_owned(), 1)]);
    let told =
        wrong(&format!("{CLUSTER}[reads]\nweights = {{ a = 101, b = -1, c = \"x\", d = true }}"));
    assert_eq!(told.matches("has no weight from 0 to 100").count(), 3, "{told}");
    assert_eq!(told.lines().count(), 4, "{told}");
}

#[test]
fn monitors_are_a_name_and_its_words_in_every_source() {
    let monitors = |config: Config| -> Vec<(String, usize, Vec<u64>)> {
        let shown = |one: &engine::stats::monitors::MonitorOptions| {
            (one.name.clone(), one.commands.len(), one.bounds_us.clone())
        };
        config.latency_monitors.iter().map(shown).collect()
    };
    let two = [("reads".to_owned(), 2, vec![200, 500]), ("set".to_owned(), 1, vec![10])];
    let table = "[latency.monitors]\nreads = \"+get +mget 200 500\"\nset = \"+set 10\"";
    assert_eq!(monitors(right(&format!("{CLUSTER}{table}"))), two);
    let words = [("RESPOOL_LATENCY_MONITORS", "reads=+get +mget 200 500,set=+set 10")];
    assert_eq!(monitors(layers(CLUSTER, &words, &[]).unwrap()), two);
    assert_eq!(monitors(right(CLUSTER)), []);
    let told = wrong(&format!(
        "{CLUSTER}[latency.monitors]\na = \"+gett 1\"\n\"b c\" = \"+get 1\"\nd = 5\ne = \"+get 2 1\""
    ));
    for why in [
        "r.toml:3:1: latency.monitors: found the entry \"a\", which names a command that respool does not know (did you mean `get`?)",
        "r.toml:4:1: latency.monitors: found the entry \"b c\", which has no name that INFO could show",
        "r.toml:5:5: latency.monitors: found an integer; allowed: ",
        "r.toml:6:1: latency.monitors: found the entry \"e\", which has numbers that do not grow",
    ] {
        assert!(told.contains(why), "{why}\nis not in\n{told}");
    }
    let many: String = (0..17).map(|n| format!("m{n} = \"+get 1\"\n")).collect();
    let told = wrong(&format!("{CLUSTER}[latency.monitors]\n{many}"));
    assert!(told.contains("found 17 monitors; allowed: up to 16"), "{told}");
}

#[test]
fn the_cache_has_its_bounds_and_reads_from_primaries() {
    let text = "upstream = \"redis://h\"\n[cache]\nenabled = true\nkeys = [\"a:*\", \"b?\"]\nvalue_max_bytes = \"8KiB\"\n";
    let cache = right(text).cache;
    assert_eq!((cache.enabled, cache.keys.len(), cache.value_max_bytes), (true, 2, 8 << 10));
    let all = wrong(
        "upstream = \"redis://h\"\n[cache]\nttl_ms = 0\nvalue_max_bytes = \"1MiB\"\nkeys = [\"\"]\n",
    );
    for told in [
        "r.toml:3:10: cache.ttl_ms: found 0; allowed: a whole number of milliseconds from 1 to 86400000",
        "r.toml:4:19: cache.value_max_bytes: found",
        "r.toml:5:9: cache.keys: found",
        "allowed: patterns as `KEYS` takes them, such as \"user:*\"",
    ] {
        assert!(all.contains(told), "{told}\n{all}");
    }
    let copies = wrong(&format!("{CLUSTER}[cache]\nenabled = true\n[reads]\npolicy = \"any\"\n"));
    assert!(copies.contains("leave `reads.policy` at `primary`, or the cache off"), "{copies}");
}
