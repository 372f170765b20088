//! Several listeners: headers of the PROXY protocol, rules about addresses, maxima, and what changes of all that while the proxy runs.
//!
//! What concerns sockets runs with both drivers.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::ports::Port;
use testkit::process::{Process, find_on_path};
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct, info_field};

const DRIVERS: [&str; 2] = ["epoll", "uring"];
const PONG: &[u8] = b"+PONG\r\n";
const MAX_CLIENTS: &[u8] = b"-ERR max number of clients reached\r\n";

/// A server, and a proxy whose file says where it listens; `main` is where everybody may.
struct Doors {
    // The order matters: the proxy goes before its server and its file.
    proxy: Respool,
    server: RedisServer,
    file: PathBuf,
    main: SocketAddr,
    folder: tempfile::TempDir,
}

impl Doors {
    /// With these entries beside the main one, and more lines behind them.
    fn open(driver: &str, entries: &[&str], lines: &str) -> Self {
        let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
        let (file, main) = (folder.path().join("respool.toml"), free());
        fs::write(&file, Self::text(&server, main, entries, lines)).expect("the file");
        let proxy = Respool::with_config(RESPOOL, &file)
            .args(&["--driver", driver])
            .listens_by_config(&Endpoint::Tcp(main))
            .start();
        Self { proxy, server, file, main, folder }
    }

    fn text(server: &RedisServer, main: SocketAddr, entries: &[&str], lines: &str) -> String {
        let main = format!("{main} name=main");
        let entries: Vec<&str> = [&[&*main], entries].concat();
        format!("upstream = \"{}\"\nlisten = {entries:?}\n{lines}", server.endpoint().url())
    }

    /// Other entries and lines from now on; returns when all workers work by them.
    fn change(&self, entries: &[&str], lines: &str) {
        fs::write(&self.file, Self::text(&self.server, self.main, entries, lines))
            .expect("the file");
        self.proxy.reread(SOON);
    }

    fn main(&self) -> Conn {
        to(self.main)
    }

    /// A counter of INFO stats.
    fn refused(&self, why: &str) -> u64 {
        let field = info_field(&mut self.main(), "stats", &format!("refused_clients_{why}"));
        field.expect("the field").parse().expect("a number")
    }

    /// How many clients a listener has, by INFO.
    fn clients_of(&self, name: &str) -> Option<u64> {
        let info = self.main().ask("INFO clients");
        let begins = format!("name={name},clients=");
        let line =
            info.lines().find_map(|line| line.split_once(&begins).map(|(_, count)| count))?;
        Some(line.trim().parse().expect("a number"))
    }
}

fn free() -> SocketAddr {
    Port::v4().release()
}

fn to(at: SocketAddr) -> Conn {
    Conn::to(&Endpoint::Tcp(at))
}

/// A connection that begins with these bytes.
fn begin(at: SocketAddr, bytes: &[u8]) -> Conn {
    let mut conn = to(at);
    conn.send(bytes).expect("sent");
    conn
}

/// One that is refused, and what it is told.
fn refused(mut conn: Conn) -> Vec<u8> {
    // One that has not sent anything yet, or whose input nobody read, may also be reset.
    conn.read_to_close().unwrap_or_default()
}

fn pings(conn: &mut Conn) -> bool {
    conn.command(&["PING"]).is_ok_and(|reply| reply == PONG)
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).expect("a short body").to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &len, body].concat()
}

const V1: &[u8] = b"PROXY TCP4 10.1.2.3 10.0.0.1 50000 6379\r\n";

#[test]
fn headers_of_both_versions_name_the_client() {
    if direct() {
        return;
    }
    for driver in DRIVERS {
        let lb = free();
        let socket = tempfile::tempdir().expect("a folder");
        let path = socket.path().join("lb.sock");
        let entries = [
            format!("{lb} name=lb proxy_protocol=on"),
            format!("unix:{} proxy_protocol=on", path.display()),
        ];
        let doors =
            Doors::open(driver, &[&entries[0], &entries[1]], "[slowlog]\nslower_than_us = 0\n");
        let four = [10, 1, 2, 4, 10, 0, 0, 1, 0, 80, 0, 81, 4, 0, 1, 0];
        let six = [&[0x20, 1][..], &[0; 13], &[7], &[0; 16], &[0, 9, 0, 1]].concat();
        let unix = [&b"/run/x"[..], &[0; 210]].concat();
        for (header, addr) in [
            (V1.to_vec(), "10.1.2.3:50000"),
            (b"PROXY TCP6 2001:db8::1 ::1 7 8\r\n".to_vec(), "[2001:db8::1]:7"),
            (v2(0x21, 0x11, &four), "10.1.2.4:80"),
            (v2(0x21, 0x21, &six), "[2001::7]:9"),
            (v2(0x21, 0x31, &unix), "/run/x:0"),
        ] {
            // The first request comes in the same packet, in the next one, and byte by byte.
            let info = b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n";
            let mut together = begin(lb, &[&header[..], info].concat());
            let mut apart = begin(lb, &header);
            let mut bytes = to(lb);
            for byte in &header {
                bytes.send(&[*byte]).expect("sent");
            }
            let told = String::from_utf8(together.reply().expect("a reply")).expect("text");
            for told in [told, apart.ask("CLIENT INFO"), bytes.ask("CLIENT INFO")] {
                assert!(told.contains(&format!(" addr={addr} laddr={lb} ")), "{driver}: {told}");
            }
        }
        for header in [v2(0x20, 0, b""), b"PROXY UNKNOWN\r\n".to_vec()] {
            let told = begin(lb, &header).ask("CLIENT INFO");
            assert!(told.contains(" addr=127.0.0.1:"), "{driver}: {told}");
        }
        let mut local = Conn::to(&Endpoint::Unix(path));
        local.send(V1).expect("sent");
        assert!(local.ask("CLIENT INFO").contains(" addr=10.1.2.3:50000 "));
        // Wherever clients are told of.
        let (mut client, mut monitor) = (begin(lb, V1), doors.main());
        assert_eq!(monitor.ask("MONITOR"), "+OK\r\n");
        assert_eq!(client.ask("SET k v"), "+OK\r\n");
        let seen = wait::until("the line", SOON, || {
            let line = String::from_utf8(monitor.reply().ok()?).ok()?;
            line.contains("\"SET\" \"k\" \"v\"").then_some(line)
        });
        assert!(seen.contains("[0 10.1.2.3:50000]"), "{seen}");
        assert!(doors.main().ask("SLOWLOG GET 128").contains("10.1.2.3:50000"));
        assert_eq!(doors.main().ask("CLIENT KILL 10.1.2.3:50000"), "+OK\r\n");
        wait::until_true("those who left to be noticed", SOON, || {
            doors.clients_of("lb") == Some(0)
        });
    }
}

#[test]
fn without_a_right_header_in_time_nobody_is_served() {
    if direct() {
        return;
    }
    for driver in DRIVERS {
        let lb = free();
        let entry = format!("{lb} name=lb proxy_protocol=on");
        let doors = Doors::open(driver, &[&entry], "[timeouts]\nproxy_header_ms = 300\n");
        assert_eq!(refused(begin(lb, b"*1\r\n$4\r\nPING\r\n")), b"");
        assert_eq!(refused(begin(lb, b"POST / HTTP/1.1\r\n")), b"");
        assert_eq!(refused(begin(lb, b"PROXY TCP4 1.2.3.4 1.2.3.4 1 x\r\nPING\r\n")), b"");
        assert_eq!(refused(begin(lb, &v2(0x21, 0x12, &[0; 12]))), b"");
        let (begun, slow, silent) = (Instant::now(), begin(lb, &V1[..9]), to(lb));
        // They have no number and no line yet.
        assert!(!doors.main().ask("CLIENT LIST").contains(&format!("laddr={lb}")));
        assert_eq!((refused(slow), refused(silent)), (vec![], vec![]));
        assert!(begun.elapsed() >= Duration::from_millis(300), "{driver}: {:?}", begun.elapsed());
        // A check that connects and closes.
        drop(to(lb));
        let counts = ["missing", "broken", "late", "source"]
            .map(|why| doors.refused(&format!("header_{why}")));
        assert_eq!(counts, [2, 2, 2, 0], "{driver}");
        let mut client = begin(lb, V1);
        assert!(pings(&mut client));
        // Its time is not up with that of headers.
        std::thread::sleep(Duration::from_millis(400));
        assert!(pings(&mut client));
        let log = doors.proxy.process().log();
        assert!(log.contains("client refused") && log.contains("header_late"), "{log}");
        // Only some may say who a client is.
        doors.change(&[&entry], "proxy_protocol_from = \"10.0.0.0/8\"\n");
        let told = refused(begin(lb, V1));
        assert!(told.starts_with(b"-DENIED ") || told.is_empty(), "{told:?}");
        assert_eq!(doors.refused("header_source"), 1);
        assert!(pings(&mut client), "who was there stays");
    }
}

#[test]
fn rules_about_addresses_hold_for_those_who_come() {
    if direct() {
        return;
    }
    for driver in DRIVERS {
        let (lb, other) = (free(), free());
        let socket = tempfile::tempdir().expect("a folder");
        let path = socket.path().join("r.sock");
        let entries = [
            format!("{lb} name=lb proxy_protocol=on deny=10.9.0.0/16|2001:db8::/32"),
            format!("{other} allow=10.0.0.0/8"),
            format!("unix:{}", path.display()),
        ];
        let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
        let doors = Doors::open(driver, &entries, "");
        let from = |ip: &str| begin(lb, format!("PROXY TCP4 {ip} 1.1.1.1 1 2\r\n").as_bytes());
        let (mut old, mut local) = (from("10.1.2.3"), Conn::to(&Endpoint::Unix(path.clone())));
        assert!(pings(&mut old) && pings(&mut local));
        let denied = refused(from("10.9.1.1"));
        let text = "-DENIED respool: clients with this address may not connect here.";
        assert!(denied.starts_with(text.as_bytes()) && denied.ends_with(b"\r\n"), "{denied:?}");
        assert!(refused(begin(lb, b"PROXY TCP6 2001:db8::9 ::1 1 2\r\n")).starts_with(b"-DENIED"));
        let told = refused(to(other));
        assert!(told.starts_with(b"-DENIED"), "{told:?}");
        assert_eq!(doors.refused("address"), 3);
        // Other rules: nobody who is there is sent away.
        doors.change(&entries, "allow_clients = [\"127.0.0.1\", \"172.16.0.0/12\"]\n");
        assert!(pings(&mut old) && pings(&mut local));
        assert!(refused(from("10.1.2.3")).starts_with(b"-DENIED"));
        assert!(pings(&mut from("172.16.0.9")));
        assert!(refused(Conn::to(&Endpoint::Unix(path.clone()))).starts_with(b"-DENIED"));
        // Clients have no say in it.
        let error = doors.main().ask("CONFIG SET respool.deny_clients 127.0.0.1");
        assert!(error.contains("can't set protected config"), "{error}");
        doors.change(&entries, "allow_clients = \"unix\"\ndeny_clients = \"10.0.0.0/8\"\n");
    }
}

#[test]
fn a_rate_of_connections_is_about_the_real_address() {
    if direct() {
        return;
    }
    let lb = free();
    let entry = format!("{lb} name=lb proxy_protocol=on");
    let rule = "[policies]\nrate = [\"connections=1 burst=2 per=address\"]\n";
    let doors = Doors::open("epoll", &[&entry], "");
    doors.change(&[&entry], rule);
    let from = |ip: &str| {
        let header = format!("PROXY TCP4 {ip} 10.0.0.1 50000 6379\r\n");
        begin(lb, header.as_bytes())
    };
    // Two at once are let in, and one more for each second that this takes.
    let mut inside = 0;
    let told = loop {
        let mut client = from("10.1.2.3");
        match client.command(&["PING"]) {
            Ok(reply) if reply == PONG => inside += 1,
            Ok(reply) => break reply,
            // It was closed before its words were read.
            Err(_) => break Vec::new(),
        }
        assert!(inside < 30, "nobody is refused");
    };
    assert!(inside >= 2, "{inside}");
    let expected = b"-ERR respool: too many new connections (policies.rate)\r\n";
    assert!(told == expected || told.is_empty(), "{}", String::from_utf8_lossy(&told));
    let mut other = from("10.1.2.4");
    assert!(pings(&mut other), "another client of the same balancer");
    let stats = other.ask("INFO stats");
    assert!(stats.contains("refused_clients_rate:1\r\n"), "{stats}");
}

#[test]
fn a_listener_has_its_own_maximum() {
    if direct() {
        return;
    }
    for driver in DRIVERS {
        let few = free();
        let entry = |max: u32| format!("{few} name=few max_clients={max}");
        let doors = Doors::open(driver, &[&entry(2)], "");
        let mut clients: Vec<Conn> = (0..2).map(|_| to(few)).collect();
        assert!(clients.iter_mut().all(pings));
        assert_eq!(doors.clients_of("few"), Some(2));
        assert_eq!(refused(to(few)), MAX_CLIENTS);
        assert!(pings(&mut doors.main()), "the others have room");
        assert_eq!((doors.refused("listener_max_clients"), doors.refused("max_clients")), (1, 0));
        let rejected = info_field(&mut doors.main(), "stats", "rejected_connections");
        assert_eq!(rejected.as_deref(), Some("1"));
        doors.change(&[&entry(3)], "");
        clients.push(to(few));
        assert!(clients.iter_mut().all(pings));
        assert_eq!(refused(to(few)), MAX_CLIENTS);
        doors.change(&[&entry(1)], "");
        assert!(clients.iter_mut().all(pings), "nobody is sent away by a lower maximum");
        clients.truncate(1);
        wait::until_true("those who left to be noticed", SOON, || {
            doors.clients_of("few") == Some(1)
        });
        assert_eq!(refused(to(few)), MAX_CLIENTS);
        clients.clear();
        wait::until_true("a free seat", SOON, || pings(&mut to(few)));
    }
}

#[test]
fn listeners_come_and_go_while_it_runs() {
    if direct() {
        return;
    }
    for driver in DRIVERS {
        let (first, second) = (free(), free());
        let doors = Doors::open(driver, &[&format!("{first} name=first")], "");
        let path = doors.folder.path().join("new.sock");
        let unix = |mode: &str| format!("unix:{} {mode}", path.display());
        let mut old = to(first);
        assert!(pings(&mut old));
        doors.change(&[&format!("{second} name=second"), &unix("mode=0700")], "");
        assert!(pings(&mut old), "{driver}: clients of a listener that goes stay");
        assert!(Conn::open(&Endpoint::Tcp(first)).is_err(), "{driver}: nobody listens there");
        let mut all: Vec<Conn> = (0..8).map(|_| to(second)).collect();
        assert!(all.iter_mut().all(pings), "every worker has it");
        assert!(pings(&mut Conn::to(&Endpoint::Unix(path.clone()))));
        let mode = || fs::symlink_metadata(&path).expect("the socket").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o700);
        doors.change(&[&format!("{second} name=zwei"), &unix("mode=0770")], "");
        assert_eq!(
            (mode(), doors.clients_of("zwei")),
            (0o770, Some(0)),
            "the label of a client stays"
        );
        assert_eq!(doors.clients_of("second"), Some(8));
        // One that cannot be had: nothing changes.
        let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let taken = held.local_addr().expect("bound").to_string();
        let text = Doors::text(&doors.server, doors.main, &[&taken], "");
        fs::write(&doors.file, text).expect("the file");
        doors.proxy.process().signal(Signal::HUP);
        let log = wait::until("a line of the log", SOON, || {
            let log = doors.proxy.process().log();
            log.contains("the configuration stays as it was").then_some(log)
        });
        assert!(log.contains("the address is in use by another process"), "{log}");
        assert!(pings(&mut to(second)) && path.exists());
        // And back: the port is free again, and the socket's file goes with its listener.
        doors.change(&[&format!("{first} name=first")], "");
        assert!(pings(&mut to(first)) && all.iter_mut().all(pings) && pings(&mut old));
        wait::until_true("the file to go", SOON, || !path.exists());
        let mut proxy = doors.proxy;
        drop((all, old));
        assert!(proxy.terminate(SOON).is_some_and(|status| status.success()), "{driver}");
    }
}

#[test]
fn both_families_and_a_socket_for_some_side_by_side() {
    if direct() {
        return;
    }
    let Some(both) = Port::both() else { return eprintln!("skipped: no IPv6 here") };
    let any6 = both.release();
    let any4 = SocketAddr::from(([0, 0, 0, 0], any6.port()));
    let folder = tempfile::tempdir().expect("a folder");
    let (open, closed) = (folder.path().join("open.sock"), folder.path().join("closed.sock"));
    let entries = [
        format!("{any6} name=six deny=2001:db8::/32"),
        format!("{any4} name=four"),
        format!("unix:{} mode=0666", open.display()),
        format!("unix:{}", closed.display()),
    ];
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let doors = Doors::open("epoll", &entries, "protected_mode = false\nunix_mode = \"0600\"\n");
    for at in [format!("127.0.0.1:{}", any4.port()), format!("[::1]:{}", any6.port())] {
        let told = to(at.parse().expect("an address")).ask("CLIENT INFO");
        assert!(told.contains(&format!(" laddr={at} ")), "{told}");
    }
    for (path, mode) in [(&open, 0o666), (&closed, 0o600)] {
        let meta = fs::symlink_metadata(path).expect("the socket");
        assert!(meta.file_type().is_socket() && meta.permissions().mode() & 0o777 == mode);
        assert!(pings(&mut Conn::to(&Endpoint::Unix(path.clone()))));
    }
    wait::until_true("those of both families to be gone", SOON, || {
        (doors.clients_of("four"), doors.clients_of("six")) == (Some(0), Some(0))
    });
}

/// Figures for those who look after it: metrics, the list of clients, the totals of the console.
#[test]
fn clients_are_told_by_listener_and_refusals_by_reason() {
    if direct() {
        return;
    }
    let (lb, admin) = (free(), free());
    let entry = format!("{lb} name=lb proxy_protocol=on deny=10.9.0.0/16");
    let doors = Doors::open("epoll", &[&entry], &format!("[admin]\nlisten = \"{admin}\"\n"));
    let agent = ureq::Agent::new_with_defaults();
    let get = |path: &str| {
        let answer = agent.get(format!("http://{admin}{path}")).call();
        answer.expect("an answer").body_mut().read_to_string().expect("text")
    };
    let (mut client, mut main) = (begin(lb, V1), doors.main());
    assert!(pings(&mut client) && pings(&mut main));
    assert!(refused(begin(lb, b"PROXY TCP4 10.9.0.1 1.1.1.1 1 2\r\n")).starts_with(b"-DENIED"));
    assert_eq!(refused(begin(lb, b"PING\r\n")), b"");
    let page = get("/metrics");
    for sample in [
        "respool_listener_clients{listener=\"lb\"} 1",
        "respool_listener_clients{listener=\"main\"} 1",
    ] {
        assert!(page.lines().any(|line| line == sample), "{sample}\n{page}");
    }
    let sum = |reason: &str| -> u64 {
        let end = format!("reason=\"{reason}\"}} ");
        let samples = page.lines().filter(|line| line.starts_with("respool_clients_refused_total"));
        samples
            .filter_map(|line| line.split_once(&end))
            .map(|(_, n)| n.parse::<u64>().unwrap())
            .sum()
    };
    assert_eq!((sum("address"), sum("header_missing"), sum("max_clients")), (1, 1, 0));
    let clients: serde_json::Value = serde_json::from_str(&get("/clients")).expect("JSON");
    let listed = |addr: &str| {
        let all = clients["clients"].as_array().expect("a list");
        all.iter()
            .find(|client| client["addr"].as_str().is_some_and(|at| at.starts_with(addr)))
            .cloned()
    };
    assert_eq!(listed("10.1.2.3:50000").expect("the client")["listener"], "lb");
    assert_eq!(listed("127.0.0.1").expect("the other")["listener"], "main");
    assert!(!doors.main().ask("CLIENT LIST").contains("listener="), "that is Redis' form");
    let stats: serde_json::Value = serde_json::from_str(&get("/stats")).expect("JSON");
    let lb = stats["listeners"].as_array().expect("a list").iter().find(|l| l["name"] == "lb");
    assert_eq!(lb.expect("the listener")["clients"], 1);
    assert_eq!(stats["refused"]["address"], 1);
}

/// A real balancer in front, if there is one.
#[test]
fn clients_of_haproxy_keep_their_address() {
    if direct() {
        return;
    }
    let Some(program) = find_on_path("haproxy")
        .or_else(|| Some(PathBuf::from("/usr/sbin/haproxy")).filter(|path| path.exists()))
    else {
        return eprintln!("skipped: haproxy is not installed");
    };
    for (driver, send) in [
        ("epoll", "send-proxy"),
        ("epoll", "send-proxy-v2"),
        ("uring", "send-proxy-v2 check inter 100"),
    ] {
        let (lb, front) = (free(), free());
        let entry = format!("{lb} name=lb proxy_protocol=on");
        let doors = Doors::open(driver, &[&entry], "proxy_protocol_from = \"127.0.0.0/8\"\n");
        let file = doors.folder.path().join("haproxy.cfg");
        let text = format!(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
             listen redis\n bind {front}\n server respool {lb} {send}\n"
        );
        fs::write(&file, text).expect("the file");
        let log = doors.folder.path().join("haproxy.log");
        let mut command = Command::new(&program);
        command.args(["-db", "-f"]).arg(&file);
        let mut balancer = Process::spawn("haproxy", &mut command, &log).expect("it starts");
        let mut client = wait::until("the balancer", SOON, || {
            assert!(balancer.exited().is_none(), "{}", balancer.log());
            Conn::open(&Endpoint::Tcp(front)).ok()
        });
        let own = match client.stream() {
            testkit::endpoint::Stream::Tcp(stream) => stream.local_addr().expect("connected"),
            _ => panic!("a TCP client"),
        };
        let told = client.ask("CLIENT INFO");
        assert!(told.contains(&format!(" addr={own} laddr={lb} ")), "{send}: {told}");
        assert_eq!(client.ask("SET k v"), "+OK\r\n");
        let value = "x".repeat(300_000);
        assert_eq!(client.command(&["SET", "big", &value]).expect("a reply"), b"+OK\r\n");
        let big = client.command(&["GET", "big"]).expect("a reply");
        assert_eq!(big.len(), value.len() + "$300000\r\n\r\n".len());
        // Its checks of the server's health are no clients and no failures.
        std::thread::sleep(Duration::from_millis(300));
        let failed = ["missing", "broken", "late", "source"]
            .map(|why| doors.refused(&format!("header_{why}")));
        assert_eq!(failed, [0; 4], "{send}");
        assert!(pings(&mut client));
        balancer.kill();
    }
}

/// What the guide tells people to write does what it says.
#[test]
fn the_configuration_of_the_guide_runs() {
    if direct() {
        return;
    }
    let guide = include_str!("../../../../docs/guides/listeners.md");
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let (local, public, server) = (free(), free(), RedisServer::start());
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, password) = (folder.path().join("r.sock"), folder.path().join("password"));
    fs::write(&password, "sesame\n").expect("the file");
    let mut text = text.expect("a configuration").to_owned();
    for (from, to) in [
        ("redis://10.0.0.5:6379", server.endpoint().url()),
        ("127.0.0.1:6380", local.to_string()),
        ("0.0.0.0:6390", format!("0.0.0.0:{}", public.port())),
        ("/run/respool/respool.sock", socket.display().to_string()),
        ("/etc/respool/password", password.display().to_string()),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, &to);
    }
    let file = folder.path().join("respool.toml");
    fs::write(&file, text).expect("the file");
    let _proxy =
        Respool::with_config(RESPOOL, &file).listens_by_config(&Endpoint::Tcp(local)).start();
    let mut client = begin(public, V1);
    assert_eq!(client.ask("AUTH sesame"), "+OK\r\n");
    assert!(client.ask("CLIENT INFO").contains(" addr=10.1.2.3:50000 "));
    assert!(
        refused(begin(public, b"PROXY TCP4 10.66.1.1 10.0.0.1 1 2\r\n")).starts_with(b"-DENIED")
    );
    assert!(
        refused(begin(public, b"PROXY TCP4 11.0.0.1 10.0.0.1 1 2\r\n")).starts_with(b"-DENIED")
    );
    let mut job = Conn::to(&Endpoint::Unix(socket.clone()));
    assert_eq!(job.ask("AUTH sesame"), "+OK\r\n");
    let mode = fs::symlink_metadata(&socket).expect("the socket").permissions().mode() & 0o777;
    assert_eq!(mode, 0o770);
    assert!(job.ask("INFO clients").contains("name=jobs,clients=1"));
}
