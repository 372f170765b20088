//! What TLS holds counts against `limits.memory_max_bytes`: floods stay within it, and whoever was there goes on.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use testkit::process::raise_fd_limit;
use testkit::tls::Authority;
use testkit::{Conn, Endpoint, RedisServer, wait};

use crate::setup::{NAME, Proxy, SOON, client};

/// The least that can be set.
const LIMIT: u64 = 16 << 20;
const ARGS: [&str; 4] =
    ["--limits-memory-max-bytes", "16MiB", "--limits-client-out-max-bytes", "4MiB"];

fn port(proxy: &Proxy) -> u16 {
    match &proxy.tls {
        Endpoint::Tcp(address) => address.port(),
        other => panic!("{other:?} is no port"),
    }
}

/// A field of INFO.
fn field(conn: &mut Conn, section: &str, name: &str) -> u64 {
    field_of(&conn.ask(&format!("INFO {section}")), name)
}

/// A field of what INFO has said.
fn field_of(info: &str, name: &str) -> u64 {
    let prefix = format!("{name}:");
    let field = info.lines().find_map(|line| line.strip_prefix(&prefix));
    field.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name} in {info}"))
}

#[test]
fn a_flood_of_handshakes_stays_within_the_bound_and_closes_itself() {
    let authority = Authority::new("ca");
    let pair = authority.issue("proxy", &[NAME]);
    let server = RedisServer::start();
    raise_fd_limit();
    let args = [&ARGS[..], &["--tls-handshake-ms", "600000"]].concat();
    let proxy = Proxy::start(&server.endpoint().url(), &pair, &args);
    let config = client(&authority, None);
    let mut before = proxy.connect(&config);
    assert_eq!(before.ask("SET k v"), "+OK\r\n");
    let mut looks = proxy.plain.connect();
    assert!(field(&mut looks, "memory", "memory_tls_bytes") > 10_000);
    let resident = proxy.plain.process().rss_bytes();
    // A hello that never ends: as long as it may be, and then nothing.
    let mut hello = vec![22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xf8];
    hello.resize(12 << 10, 7);
    let mut flood = Vec::new();
    for count in 0..1_200 {
        let mut conn = TcpStream::connect(("127.0.0.1", port(&proxy))).expect("connect");
        // It may be closed by then.
        let _ = conn.write_all(&hello);
        flood.push(conn);
        if count % 100 == 99 {
            let held = field(&mut looks, "memory", "memory_tls_bytes");
            assert!(held <= LIMIT, "{held} after {count}");
            assert_eq!(before.ask("GET k"), "$1\r\nv\r\n");
        }
    }
    wait::until_true("the last ones to be closed", SOON, || {
        field(&mut looks, "tls", "tls_clients_unfinished") + proxy.failures("clients", "memory")
            == 1_200
    });
    let unfinished = field(&mut looks, "tls", "tls_clients_unfinished");
    let closed = proxy.failures("clients", "memory");
    assert!(unfinished > 100 && closed > 300, "{unfinished} wait, {closed} are closed");
    assert_eq!(field(&mut looks, "stats", "evicted_clients"), 0, "it was nobody else's turn");
    let grown = proxy.plain.process().rss_peak_bytes() - resident;
    assert!(grown < 3 * LIMIT, "it has grown by {grown}");
    drop(flood);
    wait::until_true("the memory to be free again", SOON, || {
        field(&mut looks, "memory", "memory_tls_bytes") < 60_000
    });
    assert_eq!(proxy.connect(&config).ask("GET k"), "$1\r\nv\r\n");
}

#[test]
fn slow_readers_over_tls_stay_within_the_bound() {
    let authority = Authority::new("ca");
    let pair = authority.issue("proxy", &[NAME]);
    let server = RedisServer::start();
    let proxy = Proxy::start(&server.endpoint().url(), &pair, &ARGS);
    let config = client(&authority, None);
    let (mut good, mut looks) = (proxy.connect(&config), proxy.plain.connect());
    // Answered here, so that no server is what slows them down.
    let asks = format!("ECHO {}\r\n", "v".repeat(10_000)).repeat(600);
    let mut slow = Vec::new();
    let mut most = 0;
    for _ in 0..30 {
        let mut conn = proxy.connect(&config);
        conn.set_timeout(Duration::from_secs(1));
        // Some are closed while they still ask.
        let _ = conn.send(asks.as_bytes());
        slow.push(conn);
        // Of one moment, as bytes go from the one to the other. With what is in flight for those who are just being closed.
        let info = looks.ask("INFO memory");
        let held = field_of(&info, "memory_tls_bytes") + field_of(&info, "memory_clients_bytes");
        most = held.max(most);
        assert!(held <= LIMIT + (1 << 20), "{held}");
        assert_eq!(good.ask("PING"), "+PONG\r\n");
    }
    assert!(most > LIMIT / 2, "only {most} were ever held");
    wait::until_true("some of them to be closed", SOON, || {
        field(&mut looks, "stats", "evicted_clients") > 0
    });
    assert_eq!(good.ask("SET k v"), "+OK\r\n");
}
