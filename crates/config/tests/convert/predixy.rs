//! predixy.

use super::*;
use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution};
use engine::settings::ReadPolicy;

fn file(text: &str) -> Files<'_> {
    Files::one(Peer::Predixy, "etc/predixy.conf", text)
}

/// A pool of groups with these lines more.
fn grouped(more: &str) -> String {
    format!(
        "Bind 127.0.0.1:7\nSentinelServerPool {{\n Hash crc16\n Distribution modula\n{more} Sentinels {{\n  + s1:1\n }}\n Group a {{\n }}\n Group b {{\n }}\n}}\n"
    )
}

const MAIN: &str = "\
# comment
Name cache # for people
Bind 127.0.0.1:7617
WorkerThreads 4
MaxMemory 100M
ClientTimeout 300
Log /var/log/predixy.log
LogRotate 1d
Include pools/sentinel.conf
Include auth.conf
";

const SENTINEL: &str = "\
StandaloneServerPool {
    Password \"hunter2 #\"
    Databases 16
    Hash CRC16
    HashTag \"{}\"
    Distribution modula
    MasterReadPriority 10
    StaticSlaveReadPriority 50
    DynamicSlaveReadPriority 50
    RefreshMethod sentinel
    RefreshInterval 1
    ServerTimeout 1500ms
    ServerFailureLimit 10
    ServerRetryTimeout 1
    KeepAlive 120
    Sentinels hunter3 {
        + 10.0.0.7:26379
        + 10.0.0.8:26380
    }
    Group shard001 {
    }
    Group shard002 {
    }
}
";

const AUTH: &str = "\
Authority {
    Auth {
        Mode read
    }
    Auth hunter4 {
        Mode admin
    }
    Auth hunter5 {
        Mode write
        KeyPrefix a b
    }
}
";

#[test]
fn groups_known_by_sentinels_over_several_files() {
    let files = file(MAIN).with("etc/pools/sentinel.conf", SENTINEL).with("etc/auth.conf", AUTH);
    let (config, notes, _) = files.good();
    let rules = &sharding(&config).rules;
    assert_eq!(rules.compat, Compat::Predixy);
    assert_eq!(
        (rules.hash, &rules.distribution, rules.tag),
        (Hash::Crc16, &Distribution::Modula, Some(*b"{}"))
    );
    let url = |name: &str| format!("redis-sentinel://10.0.0.7:26379,10.0.0.8:26380/{name}");
    assert_eq!(
        shards(&config),
        [(url("shard001"), "shard001", 1), (url("shard002"), "shard002", 1)]
    );
    assert_eq!(passwords(&config), vec![Some("hunter2 #".to_owned()); 2]);
    for url in config.upstream.urls() {
        let config::PoolKind::Sentinel { password: secret, .. } = &url.pool else {
            panic!("{url}")
        };
        assert_eq!(password(secret.as_ref()).as_deref(), Some("hunter3"));
    }
    assert_eq!((listen(&config), config.workers), (vec!["127.0.0.1:7617".to_owned()], 4));
    assert_eq!(config.limits.memory_max_bytes, 100 << 20);
    assert_eq!((config.timeouts.client_idle_ms, config.timeouts.request_ms), (300_000, 1500));
    assert_eq!(config.timeouts.tcp_keepalive_s, 120);
    assert_eq!(config.reads.policy, ReadPolicy::PreferReplica);
    assert_eq!(config.log.file.as_deref(), Some(Path::new("/var/log/predixy.log")));
    assert_eq!(password(config.password.as_ref()).as_deref(), Some("hunter4"));
    noted(&notes, &["etc/predixy.conf:2:1: Name: has no counterpart"]);
    noted(&notes, &["etc/predixy.conf:8:1: LogRotate: "]);
    noted(&notes, &["etc/pools/sentinel.conf:3:5: Databases: "]);
    noted(&notes, &["etc/pools/sentinel.conf:11:5: RefreshInterval: "]);
    noted(&notes, &["etc/auth.conf:2:5: Auth: ", "without one are refused"]);
    noted(&notes, &["etc/auth.conf:8:5: Auth: ", "with this one are refused"]);
    noted(&notes, &["etc/auth.conf:10:9: KeyPrefix: "]);
    assert!(notes.iter().all(|note| !note.contains("hunter")));
}

#[test]
fn a_cluster() {
    let text = "\
ClusterServerPool {
    MasterReadPriority 0
    StaticSlaveReadPriority 50
    DynamicSlaveReadPriority 50
    RefreshInterval 3s
    Servers {
        + hunter2@10.0.0.1:7000
        + [::1]:7001
        + fe80::1:7002
    }
}
";
    let bad = file(text).bad();
    assert_eq!(
        bad,
        ["etc/predixy.conf:8:9: Servers: a host has letters, digits and `.` `-` `_` only"]
    );
    let text = text.replace("        + [::1]:7001\n", "");
    let (config, notes, _) = file(&text).good();
    assert_eq!(upstream(&config), "redis-cluster://10.0.0.1:7000,[fe80::1]:7002");
    assert_eq!(passwords(&config), [Some("hunter2".to_owned())]);
    assert_eq!(
        (config.reads.policy, config.timeouts.topology_period_ms),
        (ReadPolicy::Replica, 3000)
    );
    // Its own defaults: everybody, on every interface, waiting without end.
    assert_eq!((listen(&config), config.protected_mode), (vec!["0.0.0.0:7617".to_owned()], false));
    assert_eq!(config.timeouts.request_ms, 0);
    noted(&notes, &["Servers: the nodes of a cluster share one password"]);
}

#[test]
fn groups_of_fixed_servers() {
    let text = "\
Bind /run/predixy.sock
StandaloneServerPool {
    RefreshMethod fixed
    Hash atol
    Distribution random
    Group a {
        + hunter2@10.0.0.1:6379
        + 10.0.0.2:6379
    }
    Group b {
        + /run/r.sock
    }
}
";
    let (config, notes, _) = file(text).good();
    let rules = &sharding(&config).rules;
    assert_eq!(
        (rules.hash, &rules.distribution, rules.tag),
        (Hash::Atol, &Distribution::Random, None)
    );
    assert_eq!(
        shards(&config),
        [
            ("redis://10.0.0.1:6379".to_owned(), "a", 1),
            ("redis+unix:///run/r.sock".to_owned(), "b", 1)
        ]
    );
    assert_eq!(passwords(&config), [Some("hunter2".to_owned()), None]);
    assert_eq!(listen(&config), ["unix:/run/predixy.sock"]);
    noted(&notes, &["etc/predixy.conf:8:9: Group: has no counterpart: a replica"]);
}

#[test]
fn one_group_is_not_hashed() {
    let text = grouped("").replace(" Group b {\n }\n", "");
    let (config, notes, _) = file(&text).good();
    assert_eq!(upstream(&config), "redis-sentinel://s1:1/a");
    noted(&notes, &[": Hash: has no effect in predixy either"]);
    noted(&notes, &[": Distribution: has no effect in predixy either"]);
}

#[test]
fn tags_are_heeded_only_where_the_file_says_so() {
    let tag = |more: &str| sharding(&file(&grouped(more)).good().0).rules.tag;
    assert_eq!(tag(""), None);
    assert_eq!(tag(" HashTag \"\"\n"), None);
    assert_eq!(tag(" HashTag <>\n"), Some(*b"<>"));
}

#[test]
fn priorities_without_an_exact_policy_are_noted() {
    let (config, notes, _) =
        file(&grouped(" MasterReadPriority 60\n DynamicSlaveReadPriority 50\n")).good();
    assert_eq!(config.reads.policy, ReadPolicy::Primary);
    noted(&notes, &[": MasterReadPriority: no reads.policy is exactly this"]);
    noted(&notes, &[": DynamicSlaveReadPriority: no reads.policy is exactly this"]);
    // Only dynamic replicas exist where sentinels tell all servers.
    let (config, _, _) = file(&grouped(" DynamicSlaveReadPriority 50\n")).good();
    assert_eq!(config.reads.policy, ReadPolicy::Any);
}

#[test]
fn fixed_groups_of_one_server_are_read_from_it_whatever_the_priorities() {
    let text = |servers: &str| {
        format!(
            "StandaloneServerPool {{\n RefreshMethod fixed\n StaticSlaveReadPriority 90\n Group a {{\n{servers} }}\n}}\n"
        )
    };
    let (alone, with_replica) = (text("  + h:1\n"), text("  + h:1\n  + h:2\n"));
    let words = "no reads.policy is exactly this";
    let (_, notes, _) = file(&alone).good();
    assert!(notes.iter().all(|note| !note.contains(words)), "{notes:?}");
    let (_, notes, _) = file(&with_replica).good();
    noted(&notes, &[": StaticSlaveReadPriority: ", words]);
}

#[test]
fn latency_monitors_become_ours() {
    let monitor = "LatencyMonitor all {\n Commands {\n + all\n - blpop\n + nosuch\n }\n TimeSpan {\n + 500\n + 100\n + 100\n }\n}\n\
                   LatencyMonitor \"re ads\" {\n Commands {\n + GET\n }\n TimeSpan {\n + 9\n }\n}\n";
    let text = format!("ClusterServerPool {{\n Servers {{\n + 127.0.0.1:7000\n }}\n}}\n{monitor}");
    let converted = file(&text).convert().expect("a configuration");
    let line = "monitors = { \"all\" = \"+all -blpop 100 500\", \"re_ads\" = \"+get 9\" }";
    assert!(converted.toml.contains(line), "{}", converted.toml);
    let notes: Vec<String> = converted.notes.iter().map(ToString::to_string).collect();
    let has = |words: &str| notes.iter().any(|note| note.contains(words));
    assert!(has("does not have it") && has("is called re_ads here"), "{notes:?}");
}

#[test]
fn rights_of_clients_are_never_widened_without_a_word() {
    let with = |auth: &str| grouped("") + "Authority {\n" + auth + "}\n";
    for (auth, expected, words) in [
        (" Auth {\n  Mode write\n }\n Auth pw {\n  Mode admin\n }\n", None, "gets an error now"),
        (" Auth pw {\n  Mode read\n }\n", Some("pw"), "rights have no counterpart"),
        (" Auth pw {\n  Mode admin\n }\n", Some("pw"), "Mode makes no difference"),
        (" Auth {\n  Mode read\n }\n", None, "rights have no counterpart"),
    ] {
        let text = with(auth);
        let (config, notes, _) = file(&text).good();
        assert_eq!(password(config.password.as_ref()).as_deref(), expected, "{auth}");
        noted(&notes, &[": Auth: ", words]);
    }
}

#[test]
fn includes_that_cannot_be_followed() {
    assert_eq!(
        file("Include other.conf\n").with("etc/other.conf", "Include predixy.conf\n").bad(),
        ["etc/other.conf:1:1: Include: etc/predixy.conf includes itself"]
    );
    let bad = file("\n  Include nowhere.conf\n").bad();
    assert!(
        bad[0].starts_with("etc/predixy.conf:2:3: Include: etc/nowhere.conf: cannot be read: "),
        "{bad:?}"
    );
    // Each file is read as often as it is named, but not without end.
    let twice = "Include b.conf\nInclude b.conf\n".repeat(40);
    let bad = file(&twice).with("etc/b.conf", "# nothing\n").bad();
    assert!(bad[0].contains("Include: more than 64 files"), "{bad:?}");
}

#[test]
fn mistakes_come_all_at_once_with_file_line_and_key() {
    let text = "\
Bind 7617
MaxMemory 1T
WorkerThread 2
CustomCommand {
  a.b {
    Mod read
  }
}
DataCenter {
  DZ x {
  }
}
Authority {
  Auth x {
    Mode root
  }
}
StandaloneServerPool {
  RefreshMethod fixed
  Hash md5
  HashTag {}
  Pasword hunter2
  ServerTimeout soon
  Sentinels {
    + s:1
  }
  Group a {
  }
  Group b {
    - h:1
  }
}
";
    let at = |rest: &str| format!("etc/predixy.conf:{rest}");
    assert_eq!(
        file(text).bad(),
        [
            at("1:1: Bind: not host:port, nor the path of a unix socket"),
            at("2:1: MaxMemory: allowed: a number, with K, M or G behind it if needed"),
            at("3:1: WorkerThread: unknown key; did you mean `WorkerThreads`?"),
            at("6:5: Mod: unknown key; did you mean `Mode`?"),
            at("10:3: DZ: unknown key; did you mean `DC`?"),
            at("15:5: Mode: allowed: read, write, admin"),
            at("18:1: Distribution: is missing; with several groups predixy asks for it"),
            at("20:3: Hash: allowed: atol, crc16"),
            at("22:3: Pasword: unknown key; did you mean `Password`?"),
            at("23:3: ServerTimeout: allowed: a number of seconds, or with ms or us behind it"),
            at("24:3: Sentinels: is only for RefreshMethod sentinel"),
            at("27:3: Group: no server in it"),
            at("29:3: Group: no server in it"),
            at("30:5: Group: a server is written as + address"),
        ]
    );
    assert_eq!(
        file("Name x\n").bad(),
        [at(
            "1:1: no server pool in it: a ClusterServerPool, SentinelServerPool or StandaloneServerPool is needed"
        )]
    );
    assert_eq!(
        file("}\nServers {\n").bad(),
        [at("1:1: a `}` without a scope"), at("2:1: a scope that is not closed")]
    );
    let pool = grouped("");
    let twice = format!("{pool}{pool}");
    assert_eq!(
        file(&twice).bad(),
        [at("14:1: SentinelServerPool: a second server pool; predixy has one")]
    );
    assert_eq!(
        file(&pool).pool("a").bad(),
        [at("1:1: --pool is for files with several pools by name, which this kind has not")]
    );
}

#[test]
fn a_value_that_predixy_cuts_is_cut_and_noted() {
    let text = grouped(" Password ab cd\n");
    let (config, notes, _) = file(&text).good();
    assert_eq!(passwords(&config), vec![Some("ab c".to_owned()); 2]);
    noted(&notes, &["etc/predixy.conf:5:2: Password: predixy cuts off"]);
    let (_, notes, _) = file(&format!("Name a bc\n{}", grouped(""))).good();
    noted(&notes, &["etc/predixy.conf:1:1: Name: predixy cuts off"]);
}

#[test]
fn of_what_is_said_twice_the_last_counts_but_servers_add_up() {
    let text = "\
Bind 127.0.0.1:7
Bind 127.0.0.1:8
ClusterServerPool {
  ServerTimeout 1
  ServerTimeout 2
  Servers {
    + a:1
  }
  Servers {
    + b:2
  }
}
";
    let (config, notes, _) = file(text).good();
    assert_eq!(
        (listen(&config), config.timeouts.request_ms),
        (vec!["127.0.0.1:8".to_owned()], 2000)
    );
    assert_eq!(upstream(&config), "redis-cluster://a:1,b:2");
    noted(&notes, &["etc/predixy.conf:1:1: Bind: is said again"]);
    noted(&notes, &["etc/predixy.conf:4:3: ServerTimeout: is said again"]);
    assert!(notes.iter().all(|note| !note.contains("Servers")), "{notes:?}");
}

#[test]
fn each_key_of_the_source_does_something() {
    const TOP: [(&str, &str); 19] = [
        ("Name", "Name x\n"),
        ("Bind", "Bind 127.0.0.1:8\n"),
        ("LocalDC", "LocalDC x\n"),
        ("WorkerThreads", "WorkerThreads 3\n"),
        ("MaxMemory", "MaxMemory 1G\n"),
        ("ClientTimeout", "ClientTimeout 1\n"),
        ("BufSize", "BufSize 8192\n"),
        ("Log", "Log x\n"),
        ("LogRotate", "LogRotate 1d\n"),
        ("AllowMissLog", "AllowMissLog false\n"),
        ("LogVerbSample", "LogVerbSample 1\n"),
        ("LogDebugSample", "LogDebugSample 1\n"),
        ("LogInfoSample", "LogInfoSample 1\n"),
        ("LogNoticeSample", "LogNoticeSample 1\n"),
        ("LogWarnSample", "LogWarnSample 1\n"),
        ("LogErrorSample", "LogErrorSample 1\n"),
        (
            "LatencyMonitor",
            "LatencyMonitor all {\n Commands {\n + get\n }\n TimeSpan {\n + 1\n }\n}\n",
        ),
        (
            "DataCenter",
            "DataCenter {\n DC x {\n AddrPrefix {\n + 10\n }\n ReadPolicy {\n x 1\n }\n }\n}\n",
        ),
        ("CustomCommand", "CustomCommand {\n a {\n Mode read\n MinArgs 2\n MaxArgs 3\n }\n}\n"),
    ];
    const POOL: [(&str, &str); 12] = [
        ("Password", " Password x\n"),
        ("MasterReadPriority", " MasterReadPriority 60\n DynamicSlaveReadPriority 50\n"),
        ("StaticSlaveReadPriority", " StaticSlaveReadPriority 50\n MasterReadPriority 0\n"),
        ("DynamicSlaveReadPriority", " DynamicSlaveReadPriority 50\n"),
        ("RefreshInterval", " RefreshInterval 2\n"),
        ("ServerTimeout", " ServerTimeout 2\n"),
        ("ServerFailureLimit", " ServerFailureLimit 2\n"),
        ("ServerRetryTimeout", " ServerRetryTimeout 2\n"),
        ("KeepAlive", " KeepAlive 2\n"),
        ("Databases", " Databases 2\n"),
        ("HashTag", " HashTag <>\n"),
        ("Group", " Group c {\n + h:1\n }\n"),
    ];
    let plain = grouped("");
    let texts: Vec<(&str, String)> = TOP
        .iter()
        .map(|(key, text)| (*key, format!("{plain}{text}")))
        .chain(POOL.iter().map(|(key, text)| (*key, grouped(text))))
        .collect();
    each_key_does_something(&file(&plain), texts.iter().map(|(key, text)| (*key, file(text))));
}
