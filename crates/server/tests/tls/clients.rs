//! What clients meet.

use std::sync::Arc;
use std::time::Duration;

use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use testkit::endpoint::Stream;
use testkit::frames::request;
use testkit::ports::Port;
use testkit::tls::Authority;
use testkit::{Conn, Endpoint, RedisServer, wait};

use crate::setup::{DRIVERS, NAME, Proxy, SOON, client};

#[test]
fn pipelines_big_values_and_many_clients_come_through_on_both_drivers() {
    let authority = Authority::new("ca");
    let own = authority.issue("proxy", &[NAME]);
    let server = RedisServer::start();
    for driver in DRIVERS {
        let proxy = Proxy::start(&server.endpoint().url(), &own, &["--driver", driver]);
        let config = client(&authority, None);
        let mut conn = proxy.connect(&config);
        assert_eq!(conn.ask("SET k v"), "+OK\r\n");
        // A pipeline whose replies do not fit any buffer at once.
        let value = "x".repeat(3000);
        let sets: Vec<_> =
            (0..300).map(|at| request(&["SET", &format!("k{at}"), &value])).collect();
        assert!(conn.pipeline(&sets).expect("replies").iter().all(|reply| reply == b"+OK\r\n"));
        let gets: Vec<_> =
            (0..5000).map(|at| request(&["GET", &format!("k{}", at % 300)])).collect();
        let expected = format!("$3000\r\n{value}\r\n").into_bytes();
        assert!(conn.pipeline(&gets).expect("replies").iter().all(|reply| *reply == expected));
        let large = vec![b'y'; 20 << 20];
        let set = [&b"SET"[..], b"large", &large];
        assert_eq!(conn.command(&set).expect("a reply"), b"+OK\r\n", "{driver}");
        let got = conn.command(&["GET", "large"]).expect("a reply");
        assert!(got.len() == large.len() + 13 && got.ends_with(b"y\r\n"), "{}", got.len());
        let mut many: Vec<Conn> = (0..100).map(|_| proxy.connect(&config)).collect();
        for (at, conn) in many.iter_mut().enumerate() {
            assert_eq!(
                conn.ask(&format!("ECHO {at}")),
                format!("${}\r\n{at}\r\n", at.to_string().len())
            );
        }
        assert_eq!((proxy.info("tls_clients"), proxy.info("tls_clients_handshakes")), (101, 101));
        drop(many);
        wait::until_true("clients gone", SOON, || proxy.info("tls_clients") == 1);
        // What holds a connection of its own, and what is told without being asked for.
        assert_eq!(
            conn.ask("MULTI") + &conn.ask("INCR n") + &conn.ask("EXEC"),
            "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n"
        );
        assert_eq!(conn.ask("DEL n"), ":1\r\n");
        let mut listener = proxy.connect(&config);
        assert!(listener.ask("SUBSCRIBE news").starts_with("*3\r\n$9\r\nsubscribe"));
        wait::until_true("a listener", SOON, || conn.ask("PUBLISH news hello") == ":1\r\n");
        assert!(String::from_utf8_lossy(&listener.reply().expect("a message")).contains("hello"));
    }
}

#[test]
fn certificates_of_clients_are_asked_for_as_configured() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let own = authority.issue("proxy", &[NAME]);
    let good = authority.issue("client", &["client.example"]);
    let expired = authority.issue_until("old", &["client.example"], 2001);
    let strange = stranger.issue("strange", &["client.example"]);
    let server = RedisServer::start();
    let ca = authority.ca_file().display().to_string();
    let auth = |auth| ["--tls-client-auth", auth, "--tls-client-ca-file", &ca];
    let trusting = |own| client(&authority, own);

    let proxy = Proxy::start(&server.endpoint().url(), &own, &auth("required"));
    assert_eq!(proxy.connect(&trusting(Some(&good))).ask("PING"), "+PONG\r\n");
    let refusal = proxy.refusal(&trusting(None));
    assert!(refusal.contains("CertificateRequired"), "{refusal}");
    for wrong in [&expired, &strange] {
        proxy.refusal(&trusting(Some(wrong)));
    }
    assert_eq!(proxy.failures("clients", "no_certificate"), 1);
    assert_eq!(proxy.failures("clients", "certificate"), 2);
    let log = proxy.plain.process().log();
    assert!(
        log.contains("TLS with a client failed") && log.contains("shows no certificate"),
        "{log}"
    );

    let proxy = Proxy::start(&server.endpoint().url(), &own, &auth("optional"));
    for fine in [None, Some(&good)] {
        assert_eq!(proxy.connect(&trusting(fine)).ask("PING"), "+PONG\r\n");
    }
    proxy.refusal(&trusting(Some(&strange)));
}

#[test]
fn who_asks_for_a_name_gets_the_certificate_with_it() {
    let authority = Authority::new("ca");
    let own = authority.issue("proxy", &[NAME]);
    let other = authority.issue("other", &["other.example", "*.wild.example"]);
    let server = RedisServer::start();
    let more = format!("{} {}", other.cert_file.display(), other.key_file.display());
    let proxy = Proxy::start(&server.endpoint().url(), &own, &["--tls-more-certs", &more]);
    let config = client(&authority, None);
    for name in [NAME, "other.example", "a.wild.example"] {
        let mut conn = Conn::open_tls(&proxy.tls, &config, name).expect("connect");
        assert_eq!(conn.ask("PING"), "+PONG\r\n", "{name}");
    }
    // A client of a name that nobody has gets the first, and refuses it.
    let mut conn = Conn::open_tls(&proxy.tls, &config, "nobody.example").expect("connect");
    let error = conn.command(&["PING"]).expect_err("the wrong name").to_string();
    assert!(error.contains(NAME), "{error}");
    wait::until_true("the failure is counted", SOON, || proxy.failures("clients", "refused") == 1);
}

#[test]
fn old_versions_are_refused_where_that_is_wished() {
    let authority = Authority::new("ca");
    let own = authority.issue("proxy", &[NAME]);
    let server = RedisServer::start();
    let of = |versions: &[_]| Arc::new(authority.client_of(None, versions));
    let proxy = Proxy::start(&server.endpoint().url(), &own, &[]);
    for version in [&TLS12, &TLS13] {
        assert_eq!(proxy.connect(&of(&[version])).ask("PING"), "+PONG\r\n", "{version:?}");
    }
    let proxy = Proxy::start(&server.endpoint().url(), &own, &["--tls-min-version", "1.3"]);
    assert_eq!(proxy.connect(&of(&[&TLS13])).ask("PING"), "+PONG\r\n");
    let refusal = proxy.refusal(&of(&[&TLS12]));
    assert!(refusal.contains("ProtocolVersion"), "{refusal}");
    assert_eq!(proxy.failures("clients", "incompatible"), 1);
}

fn kind(conn: &mut Conn) -> Option<HandshakeKind> {
    match conn.stream() {
        Stream::Tls(stream) => stream.conn.handshake_kind(),
        _ => None,
    }
}

/// Whichever worker they come to.
#[test]
fn clients_that_come_again_go_on_from_their_last_handshake() {
    let authority = Authority::new("ca");
    let own = authority.issue("proxy", &[NAME]);
    let server = RedisServer::start();
    for (resumption, resumed) in [("true", 6), ("false", 0)] {
        let proxy = Proxy::start(&server.endpoint().url(), &own, &["--tls-resumption", resumption]);
        for version in [&TLS12, &TLS13] {
            let config = Arc::new(authority.client_of(None, &[version]));
            let mut kinds = Vec::new();
            let mut open = Vec::new();
            for _ in 0..4 {
                let mut conn = proxy.connect(&config);
                assert_eq!(conn.ask("PING"), "+PONG\r\n");
                kinds.push(kind(&mut conn));
                open.push(conn);
            }
            assert_eq!(kinds[0], Some(HandshakeKind::Full));
            let expected = if resumed > 0 { HandshakeKind::Resumed } else { HandshakeKind::Full };
            assert!(kinds[1..].iter().all(|kind| *kind == Some(expected)), "{version:?} {kinds:?}");
        }
        assert_eq!(proxy.info("tls_clients_resumed"), resumed);
    }
}

#[test]
fn who_speaks_something_else_or_nothing_is_closed_and_disturbs_nobody() {
    let authority = Authority::new("ca");
    let own = authority.issue("proxy", &[NAME]);
    let server = RedisServer::start();
    let mut proxy = Proxy::start(&server.endpoint().url(), &own, &["--tls-handshake-ms", "300"]);
    let config = client(&authority, None);
    let mut fine = proxy.connect(&config);
    assert_eq!(fine.ask("PING"), "+PONG\r\n");
    let mut plain = Conn::to(&proxy.tls);
    plain.send(&request(&["PING"])).expect("sent");
    let end = plain.read_to_close().expect("a close");
    assert!(!end.windows(4).any(|word| word == b"PONG"), "{end:?}");
    let mut silent = Conn::to(&proxy.tls);
    assert_eq!(silent.read_to_close().expect("a close"), b"");
    assert_eq!(proxy.failures("clients", "not_tls"), 1);
    assert_eq!(proxy.failures("clients", "timeout"), 1);
    // And the other way round.
    let mut lost = Conn::open_tls(proxy.plain.endpoint(), &config, NAME).expect("connect");
    lost.set_timeout(Duration::from_millis(500));
    lost.command(&["PING"]).expect_err("a plain port");
    // Who looks whether the port is open, breaks off, resets.
    for _ in 0..50 {
        let mut conn = Conn::to(&proxy.tls);
        let _ = conn.send(&[0x16, 3, 1, 2]);
        conn.reset();
    }
    wait::until_true("all are gone", SOON, || proxy.failures("clients", "closed") == 50);
    assert_eq!(fine.ask("PING"), "+PONG\r\n");
    proxy.plain.assert_alive();
}

/// What a load balancer says of the client comes before TLS, in plain; with it may come the beginning of the handshake.
#[test]
fn a_header_of_the_proxy_protocol_comes_before_the_handshake() {
    let authority = Authority::new("ca");
    let own = authority.issue("proxy", &[NAME]);
    let server = RedisServer::start();
    let behind = Endpoint::Tcp(Port::v4().release());
    let listen = format!("{} tls=true proxy_protocol=on name=lb", behind.listen_value());
    let proxy = Proxy::start(&server.endpoint().url(), &own, &["--listen", &listen]);
    let config = client(&authority, None);
    let header = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 6390\r\n";
    for _ in 0..20 {
        let conn = Conn::open_tls_behind(&behind, header, &config, NAME);
        let mut conn = conn.expect("connect");
        assert!(conn.ask("CLIENT INFO").contains("addr=192.0.2.7:4711"));
    }
    // Without it, or with it where none is wanted, nobody comes in.
    let mut bare = Conn::open_tls(&behind, &config, NAME).expect("connect");
    bare.command(&["PING"]).expect_err("no header");
    let mut other = Conn::open_tls_behind(&proxy.tls, header, &config, NAME).expect("connect");
    other.command(&["PING"]).expect_err("a header that is not TLS");
    assert_eq!(
        (proxy.info("tls_clients_handshakes"), proxy.failures("clients", "not_tls")),
        (20, 1)
    );
}

/// A client that closes in order is told the same, and its replies come before.
#[test]
fn ends_are_told_in_either_direction() {
    let authority = Authority::new("ca");
    let own = authority.issue("proxy", &[NAME]);
    let server = RedisServer::start();
    let mut proxy = Proxy::start(&server.endpoint().url(), &own, &[]);
    let config = client(&authority, None);
    let mut conn = proxy.connect(&config);
    conn.send(&[request(&["SET", "k", "v"]), request(&["GET", "k"])].concat()).expect("sent");
    conn.half_close().expect("half closed");
    assert_eq!(conn.read_to_close().expect("a close"), b"+OK\r\n$1\r\nv\r\n");
    let mut conn = proxy.connect(&config);
    assert_eq!(conn.ask("QUIT"), "+OK\r\n");
    // Without the word that nothing more comes this would be an error of the library.
    assert_eq!(conn.read_to_close().expect("a close"), b"");
    let mut conn = proxy.connect(&config);
    assert_eq!(conn.ask("PING"), "+PONG\r\n");
    assert!(proxy.plain.terminate(SOON).is_some_and(|status| status.success()));
    assert_eq!(conn.read_to_close().expect("a close"), b"");
}
