//! Servers that are reached over TLS.

use std::fs;
use std::process::Command;

use testkit::frames::request;
use testkit::ports::{ClusterPort, Port};
use testkit::process::Process;
use testkit::tls::{Authority, Pair};
use testkit::{Conn, Endpoint, RedisServer, Respool, redis, wait};

use crate::setup::{DRIVERS, NAME, Proxy, RESPOOL, SOON, Server, client, owned, tls_args};

/// Options by which the proxy trusts this authority.
fn trusting(authority: &Authority) -> [String; 2] {
    ["--upstream-tls-ca-file".to_owned(), authority.ca_file().display().to_string()]
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

fn shows(pair: &Pair) -> [String; 4] {
    let (cert, key) = (pair.cert_file.display(), pair.key_file.display());
    [
        "--upstream-tls-cert-file".to_owned(),
        cert.to_string(),
        "--upstream-tls-key-file".to_owned(),
        key.to_string(),
    ]
}

#[test]
fn all_kinds_of_traffic_reach_a_server_over_tls_on_both_drivers() {
    let authority = Authority::new("ca");
    let own = authority.issue("all", &["localhost", "127.0.0.1", NAME]);
    let Some(mut server) = Server::start(&authority, &own, &[]) else { return };
    for driver in DRIVERS {
        // By a name and by an address; clients over TLS as well.
        for host in ["localhost", "127.0.0.1"] {
            let args = [&owned(&["--driver", driver])[..], &trusting(&authority)].concat();
            let proxy = Proxy::start(&server.url(host), &own, &words(&args));
            let mut conn = proxy.connect(&client(&authority, None));
            assert_eq!(conn.ask("FLUSHALL"), "+OK\r\n", "{driver} {host}");
            let large = vec![b'z'; 8 << 20];
            assert_eq!(conn.command(&[&b"SET"[..], b"l", &large]).expect("a reply"), b"+OK\r\n");
            assert_eq!(conn.command(&["GET", "l"]).expect("a reply").len(), large.len() + 12);
            let value = "v".repeat(2000);
            let sets: Vec<_> = (0..2000).map(|_| request(&["SET", "k", &value])).collect();
            assert_eq!(conn.pipeline(&sets).expect("replies").len(), 2000);
            assert_eq!(
                conn.ask("MULTI") + &conn.ask("INCR n") + &conn.ask("EXEC"),
                "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n"
            );
            let mut waiting = proxy.connect(&client(&authority, None));
            waiting.send_command(&["BLPOP", "q", "10"]).expect("sent");
            let mut listener = proxy.plain.connect();
            assert!(listener.ask("SUBSCRIBE news").contains("subscribe"));
            wait::until_true("a listener", SOON, || conn.ask("PUBLISH news hello") == ":1\r\n");
            assert_eq!(conn.ask("LPUSH q e"), ":1\r\n");
            assert!(String::from_utf8_lossy(&waiting.reply().expect("an element")).contains('e'));
            // All connections to the server are of TLS: its plain port has this test's own alone.
            assert!(proxy.info("tls_upstreams") >= 3, "{}", proxy.info("tls_upstreams"));
            let list = server.plain.connect().ask("CLIENT LIST");
            let port = format!("laddr=127.0.0.1:{}", server.plain.endpoint().tcp().port());
            let ours = |line: &&str| line.contains("name=respool") && line.contains(&port);
            assert_eq!(list.lines().filter(ours).count(), 0, "{list}");
        }
    }
    // A server that comes back is greeted over TLS again.
    let args = trusting(&authority);
    let proxy = Proxy::start(&server.url("127.0.0.1"), &own, &words(&args));
    let mut conn = proxy.plain.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    server.plain.restart();
    wait::until_true("it is back", SOON, || conn.ask("SET k v") == "+OK\r\n");
}

/// What a client is told of the server, which must name it and the cause; the log must tell the same.
fn error_of(upstream: &str, args: &[String], logged: &[&str]) -> String {
    let proxy = Respool::to_url(RESPOOL, upstream).args(&words(args)).start();
    let error = proxy.connect().ask("GET k");
    // The log is written by a thread of its own, somewhat later.
    let is_told = || logged.iter().all(|word| proxy.process().log().contains(word));
    wait::until_true("the log", SOON, is_told);
    error
}

#[test]
fn servers_that_are_not_to_be_trusted_get_nothing_and_errors_say_why() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let own = authority.issue("all", &["localhost", "127.0.0.1"]);
    let elsewhere = authority.issue("elsewhere", &["db.example"]);
    let Some(server) = Server::start(&authority, &own, &[]) else { return };
    let Some(other) = Server::start(&authority, &elsewhere, &[]) else { return };
    let (trusts, mistrusts) = (trusting(&authority), trusting(&stranger));
    for (server, args, word) in [
        (&server, mistrusts.to_vec(), "UnknownIssuer"),
        (&other, trusts.to_vec(), "not valid for name"),
    ] {
        let error = error_of(&server.url("127.0.0.1"), &args, &["upstream down", word]);
        let node = format!("127.0.0.1:{}", server.port);
        assert!(error.starts_with('-') && error.contains(&node), "{error}");
        assert!(error.contains("TLS: ") && error.contains(word), "{error}");
    }
    // Who speaks TLS to a plain port may be answered that this is no command, or not at all; and the other way round.
    let plain = server.plain.endpoint().tcp().port();
    let error = error_of(&format!("rediss://127.0.0.1:{plain}"), &trusts, &[]);
    let told = ["TLS: the peer does not speak TLS here", "connect: timed out"];
    assert!(told.iter().any(|told| error.contains(told)), "{error}");
    let error = error_of(&format!("redis://127.0.0.1:{}", server.port), &[], &[]);
    assert!(error.starts_with('-'), "{error}");
    // The name can be another, and whoever wants can trust anybody.
    let named = [&trusts[..], &owned(&["--upstream-tls-server-name", "db.example"])].concat();
    assert_eq!(error_of(&other.url("127.0.0.1"), &named, &[]), "$-1\r\n");
    let insecure = owned(&["--upstream-tls-insecure", "true"]);
    assert_eq!(error_of(&other.url("127.0.0.1"), &insecure, &["NOT checked"]), "$-1\r\n");
}

#[test]
fn a_server_may_want_a_certificate_of_ours() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let own = authority.issue("all", &["127.0.0.1"]);
    let strange = stranger.issue("strange", &["127.0.0.1"]);
    let Some(server) = Server::start(&authority, &own, &["--tls-auth-clients", "yes"]) else {
        return;
    };
    let with = |pair| [&trusting(&authority)[..], &shows(pair)].concat();
    assert_eq!(error_of(&server.url("127.0.0.1"), &with(&own), &[]), "$-1\r\n");
    for args in [with(&strange), trusting(&authority).to_vec()] {
        let error = error_of(&server.url("127.0.0.1"), &args, &[]);
        assert!(error.starts_with('-') && error.contains("TLS: "), "{error}");
    }
}

/// Three nodes whose plain ports are closed when the cluster stands.
#[test]
fn a_cluster_that_has_ports_for_tls_only() {
    let authority = Authority::new("ca");
    let own = authority.issue("all", &["127.0.0.1", NAME]);
    let mut nodes: Vec<(RedisServer, u16)> = Vec::new();
    for _ in 0..3 {
        let port = ClusterPort::v4().release().port();
        let more = "--cluster-enabled yes --tls-cluster yes --tls-replication yes --cluster-node-timeout 5000";
        let more: Vec<String> = more.split(' ').map(str::to_owned).collect();
        let args = [&tls_args(&authority, &own, port)[..], &more].concat();
        let place = Endpoint::Tcp(Port::v4().release());
        let Ok(server) = RedisServer::try_start_at(&place, &words(&args)) else {
            eprintln!("skipped: this server has no TLS");
            return;
        };
        nodes.push((server, port));
    }
    let config = client(&authority, None);
    let over_tls = |port: u16| {
        let endpoint = Endpoint::Tcp(([127, 0, 0, 1], port).into());
        Conn::open_tls(&endpoint, &config, "127.0.0.1").expect("connect")
    };
    for (at, (server, _)) in nodes.iter().enumerate() {
        let range = ["0 5460", "5461 10922", "10923 16383"][at];
        assert_eq!(server.connect().ask(&format!("CLUSTER ADDSLOTSRANGE {range}")), "+OK\r\n");
        let meet = format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].1);
        assert_eq!(server.connect().ask(&meet), "+OK\r\n");
    }
    for (server, _) in &nodes {
        assert_eq!(server.connect().ask("CONFIG SET port 0"), "+OK\r\n");
    }
    wait::until_true("the cluster stands", SOON, || {
        nodes.iter().all(|(_, port)| {
            let info = over_tls(*port).ask("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
    });
    let url = format!("rediss-cluster://127.0.0.1:{}", nodes[0].1);
    let proxy = Proxy::start(&url, &own, &words(&trusting(&authority)));
    let mut conn = proxy.connect(&config);
    wait::until_true("the proxy knows the slots", SOON, || conn.ask("SET a 1") == "+OK\r\n");
    for at in 0..200 {
        assert_eq!(conn.ask(&format!("SET key{at} {at}")), "+OK\r\n");
    }
    let keys: Vec<String> = (0..200).map(|at| format!("key{at}")).collect();
    assert_eq!(conn.ask(&format!("DEL {}", keys.join(" "))), ":200\r\n");
    // A slot that another node has meanwhile: the redirect leads to a port for TLS as well.
    let slot = 12_182; // of `foo`
    assert_eq!(conn.ask("SET foo bar"), "+OK\r\n");
    assert_eq!(conn.ask("DEL foo"), ":1\r\n");
    let to = over_tls(nodes[0].1).ask("CLUSTER MYID");
    let to = to.lines().nth(1).unwrap_or_default().to_owned();
    for (_, port) in &nodes {
        assert_eq!(over_tls(*port).ask(&format!("CLUSTER SETSLOT {slot} NODE {to}")), "+OK\r\n");
    }
    assert_eq!(conn.ask("SET foo bar"), "+OK\r\n");
    assert_eq!(over_tls(nodes[0].1).ask("GET foo"), "$3\r\nbar\r\n");
    assert!(proxy.info("tls_upstreams") >= 3);
}

#[test]
fn sentinels_and_servers_that_have_ports_for_tls_only() {
    let authority = Authority::new("ca");
    let own = authority.issue("all", &["127.0.0.1"]);
    let Some(server) = Server::start(&authority, &own, &["--tls-replication", "yes"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let port = Port::v4().release().port();
    let (cert, key) = (own.cert_file.display(), own.key_file.display());
    let text = format!(
        "bind 127.0.0.1\nport 0\ntls-port {port}\ntls-cert-file {cert}\ntls-key-file {key}\ntls-ca-cert-file {}\n\
         tls-auth-clients no\ntls-replication yes\nsentinel monitor main 127.0.0.1 {} 1\n",
        authority.ca_file().display(),
        server.port
    );
    let file = folder.path().join("sentinel.conf");
    fs::write(&file, text).expect("a file");
    let mut command = Command::new(redis::program());
    command.arg(&file).arg("--sentinel");
    let log = folder.path().join("sentinel.log");
    let sentinel = Process::spawn("sentinel", &mut command, &log).expect("a sentinel");
    let endpoint = Endpoint::Tcp(([127, 0, 0, 1], port).into());
    let config = client(&authority, None);
    wait::until_true("the sentinel answers", SOON, || {
        let conn = Conn::open_tls(&endpoint, &config, "127.0.0.1");
        conn.is_ok_and(|mut conn| conn.command(&["PING"]).is_ok_and(|reply| reply == b"+PONG\r\n"))
    });
    assert_eq!(server.plain.connect().ask("CONFIG SET port 0"), "+OK\r\n");
    let url = format!("rediss-sentinel://127.0.0.1:{port}/main");
    let proxy = Respool::to_url(RESPOOL, &url).args(&words(&trusting(&authority))).start();
    let mut conn = proxy.connect();
    wait::until_true("the proxy knows the primary", SOON, || conn.ask("SET k v") == "+OK\r\n");
    assert_eq!(conn.ask("GET k"), "$1\r\nv\r\n");
    drop(sentinel);
}
