//! The files and arguments of each kind, word by word; real starts are in `tests/run.rs`.

use super::*;

fn target(kind: TargetKind, workers: u32, options: &[&str]) -> TargetPlan {
    TargetPlan {
        name: "it".to_owned(),
        kind,
        workers,
        driver: None,
        options: options.iter().map(|&option| option.to_owned()).collect(),
        optional: false,
        topologies: Vec::new(),
        axis: None,
        beside: Vec::new(),
        idle: 0,
    }
}

/// Arguments, and the text of the one file if there is one, with the folder's name replaced by DIR.
fn made(target: &TargetPlan, topology: TopologyKind, servers: usize) -> (Vec<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let servers: Vec<SocketAddr> =
        (0..servers).map(|n| SocketAddr::from(([127, 0, 0, 1], 7001 + n as u16))).collect();
    let listen = "127.0.0.1:6380".parse().unwrap();
    let parts = Parts {
        target,
        topology,
        servers: &servers,
        value_bytes: 30,
        listen,
        folder: folder.path(),
    };
    let args = parts.args().unwrap();
    let dir = folder.path().to_str().unwrap();
    let args = args.iter().map(|arg| arg.to_str().unwrap().replace(dir, "DIR")).collect();
    let files: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() <= 1);
    (args, files.first().map(|path| fs::read_to_string(path).unwrap()).unwrap_or_default())
}

#[test]
fn respool() {
    let target = target(TargetKind::Respool, 2, &["--log-level", "debug"]);
    let (args, file) = made(&target, TopologyKind::Single, 1);
    assert_eq!(
        args.join(" "),
        "--upstream redis://127.0.0.1:7001 --listen 127.0.0.1:6380 --workers 2 --log-level debug"
    );
    assert_eq!(file, "");
    let (args, _) = made(&target, TopologyKind::Cluster, 2);
    assert_eq!(args[1], "redis-cluster://127.0.0.1:7001,127.0.0.1:7002");
    let (args, file) = made(&target, TopologyKind::Shards, 2);
    assert_eq!(args[..2], ["--config", "DIR/respool.toml"]);
    assert_eq!(
        file,
        "[sharding]\nhash = \"fnv1a_64\"\ndistribution = \"ketama\"\n\
         shards = [\"redis://127.0.0.1:7001\", \"redis://127.0.0.1:7002\"]\n"
    );
}

#[test]
fn nutcracker_over_shards() {
    let target = target(TargetKind::Nutcracker, 1, &["--mbuf-size=512"]);
    let (args, file) = made(&target, TopologyKind::Shards, 2);
    assert_eq!(args[..3], ["-c", "DIR/nutcracker.yml", "--stats-addr=127.0.0.1"]);
    assert!(args[3].starts_with("--stats-port="));
    assert_eq!(args[4..], ["--mbuf-size=512"]);
    assert_eq!(
        file,
        "bench:\n  listen: 127.0.0.1:6380\n  redis: true\n  hash: fnv1a_64\n  distribution: ketama\n  \
         servers:\n    - 127.0.0.1:7001:1\n    - 127.0.0.1:7002:1\n"
    );
}

#[test]
fn respool_over_a_driver() {
    let target = TargetPlan {
        driver: Some(NetDriver::Uring),
        ..target(TargetKind::Respool, 1, &["--max-clients", "20"])
    };
    let (args, _) = made(&target, TopologyKind::Single, 1);
    assert!(args.join(" ").ends_with("--workers 1 --driver uring --max-clients 20"), "{args:?}");
}

#[test]
fn haproxy_in_tcp_mode() {
    let (args, file) = made(&target(TargetKind::Haproxy, 1, &["-dV"]), TopologyKind::Single, 1);
    assert_eq!(args, ["-db", "-f", "DIR/haproxy.cfg", "-dV"]);
    assert_eq!(
        file,
        "global\n    nbthread 1\ndefaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    \
         timeout server 1h\nfrontend bench\n    bind 127.0.0.1:6380\n    default_backend servers\n\
         backend servers\n    server s1 127.0.0.1:7001\n"
    );
}

#[test]
fn predixy_before_each_topology() {
    let target = target(TargetKind::Predixy, 4, &[]);
    let (args, single) = made(&target, TopologyKind::Single, 1);
    assert_eq!(args, ["DIR/predixy.conf"]);
    assert!(single.contains("Bind 127.0.0.1:6380\nWorkerThreads 4\n"), "{single}");
    assert!(single.ends_with(
        "StandaloneServerPool {\n    RefreshMethod fixed\n    Group shard000 {\n        + 127.0.0.1:7001\n    }\n}\n"
    ));
    let (_, shards) = made(&target, TopologyKind::Shards, 2);
    assert!(
        shards.contains("    Hash crc16\n    Distribution modula\n    Group shard000"),
        "{shards}"
    );
    assert!(shards.contains("Group shard001 {\n        + 127.0.0.1:7002\n"), "{shards}");
    let (_, cluster) = made(&target, TopologyKind::Cluster, 2);
    assert!(
        cluster.ends_with(
            "ClusterServerPool {\n    Servers {\n        + 127.0.0.1:7001\n        + 127.0.0.1:7002\n    }\n}\n"
        ),
        "{cluster}"
    );
}

#[test]
fn the_places_of_a_command() {
    let words = ["/bin/proxy", "-p{port}", "{workers}", "--to={servers}", "{dir}/x", "{other}"];
    let words = words.map(str::to_owned).to_vec();
    let target = target(TargetKind::Command(words), 3, &["--also={port}"]);
    let (args, _) = made(&target, TopologyKind::Shards, 2);
    assert_eq!(
        args,
        ["-p6380", "3", "--to=127.0.0.1:7001,127.0.0.1:7002", "DIR/x", "{other}", "--also=6380"]
    );
}

#[test]
fn what_cannot_be_started_is_said() {
    let target = target(TargetKind::Direct, 1, &[]);
    let servers = ["127.0.0.1:7001".parse().unwrap()];
    let folder = tempfile::tempdir().unwrap();
    let parts = Parts {
        target: &target,
        topology: TopologyKind::Single,
        servers: &servers,
        value_bytes: 3,
        listen: servers[0],
        folder: folder.path(),
    };
    assert_eq!(parts.args().unwrap_err(), "`it` is no proxy that can be started");
}

#[test]
fn a_floor_gets_its_driver_and_the_size_of_values() {
    let target = target(TargetKind::Floor(NetDriver::Uring), 1, &[]);
    let (args, file) = made(&target, TopologyKind::Cluster, 0);
    assert_eq!(args.join(" "), "floor --driver uring --port 6380 --value-bytes 30");
    assert_eq!(file, "");
}
