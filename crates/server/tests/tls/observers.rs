//! Spans and alarms that go out over TLS: to whom, and what happens when that is somebody else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testkit::tls::Authority;
use testkit::{RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON};

/// The path of a webhook is what it is known by.
const SECRET: &str = "services/T0/B0/secret-of-the-hook";

/// Somebody who takes POSTs over TLS.
struct Receiving {
    port: u16,
    /// Path and body of each.
    posts: Receiver<(String, String)>,
}

impl Receiving {
    /// Answers with this status line and these headers.
    fn start(config: ServerConfig, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (tell, posts) = channel();
        let config = Arc::new(config);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tell, config) = (tell.clone(), Arc::clone(&config));
                std::thread::spawn(move || serve(stream, config, answer, &tell));
            }
        });
        Self { port, posts }
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/{SECRET}", self.port)
    }
}

/// One connection; what is no TLS, or no HTTP, ends it.
fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    answer: &str,
    tell: &Sender<(String, String)>,
) -> Option<()> {
    let conn = ServerConnection::new(config).expect("a server");
    let mut reader = BufReader::new(StreamOwned::new(conn, stream));
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            if let Some(rest) = line.strip_prefix("POST ") {
                path = rest.split(' ').next()?.to_owned();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        tell.send((path, String::from_utf8(body).ok()?)).ok()?;
        let text = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
        reader.get_mut().write_all(text.as_bytes()).ok()?;
        reader.get_mut().flush().ok()?;
    }
}

/// A proxy to which every request is slow, with these options.
fn proxy(server: &RedisServer, options: &[(&str, &str)]) -> Respool {
    let mut args = vec!["--alarms-slow-over-us", "1", "--alarms-kinds", "slow"];
    options.iter().for_each(|(flag, value)| args.extend([flag, value]));
    Respool::to(RESPOOL, server.endpoint()).args(&args).workers(1).start()
}

/// Waits until the log has a line with these words; the line.
#[track_caller]
fn wait_for(proxy: &Respool, words: &[&str]) -> String {
    let line = || {
        let log = proxy.process().log();
        let fits = |line: &&str| words.iter().all(|word| line.contains(word));
        log.lines().find(fits).map(str::to_owned)
    };
    wait::poll(SOON, line).unwrap_or_else(|| panic!("{words:?}: {}", proxy.process().log_tail()))
}

fn shown(path: &std::path::Path) -> String {
    path.display().to_string()
}

#[test]
fn spans_and_alarms_go_to_receivers_that_are_trusted() {
    let authority = Authority::new("observers");
    let (hook, ours) = (authority.issue("hook", &["127.0.0.1"]), authority.issue("us", &["us"]));
    // The one wants a certificate of ours, the other none.
    let webhook = Receiving::start(authority.server(&hook, true), "200 OK");
    let collector = Receiving::start(authority.server(&hook, false), "204 No Content");
    let server = RedisServer::start();
    let (ca, cert, key) =
        (shown(&authority.ca_file()), shown(&ours.cert_file), shown(&ours.key_file));
    let endpoint = format!("https://127.0.0.1:{}", collector.port);
    let proxy = proxy(
        &server,
        &[
            ("--alarms-webhook", &webhook.url("127.0.0.1")),
            ("--alarms-tls-ca-file", &ca),
            ("--alarms-tls-cert-file", &cert),
            ("--alarms-tls-key-file", &key),
            ("--tracing-sample", "1"),
            ("--tracing-endpoint", &endpoint),
            ("--tracing-tls-ca-file", &ca),
        ],
    );
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    let (path, body) = webhook.posts.recv_timeout(SOON).expect("alarms");
    assert_eq!(path, format!("/{SECRET}"));
    assert!(body.contains("\"kind\":\"slow\"") && body.contains("\"command\":\"set\""), "{body}");
    let (path, body) = collector.posts.recv_timeout(SOON).expect("spans");
    assert!(path == "/v1/traces" && body.contains("resourceSpans"), "{path}: {body}");
    // The connection is kept: what comes next goes the same way.
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    webhook.posts.recv_timeout(SOON).expect("alarms again");
    assert!(!proxy.process().log().contains("could not be delivered"));
}

#[test]
fn who_is_not_to_be_trusted_gets_nothing_and_the_log_says_why() {
    let (authority, stranger) = (Authority::new("observers"), Authority::new("stranger"));
    let right = authority.issue("hook", &["127.0.0.1"]);
    let other_name = authority.issue("other", &["other.example"]);
    let untrusted = stranger.issue("hook", &["127.0.0.1"]);
    // It takes connections and says nothing.
    let plain = TcpListener::bind("127.0.0.1:0").expect("a port");
    let plain_port = plain.local_addr().expect("an address").port();
    let server = RedisServer::start();
    let ca = shown(&authority.ca_file());
    let cases = [
        (authority.server(&right, true), "ertificate"),
        (authority.server(&other_name, false), "not valid for name"),
        (stranger.server(&untrusted, false), "UnknownIssuer"),
    ];
    for (config, cause) in cases {
        let receiver = Receiving::start(config, "200 OK");
        let hook = receiver.url("127.0.0.1");
        let proxy = proxy(&server, &[("--alarms-webhook", &hook), ("--alarms-tls-ca-file", &ca)]);
        assert_eq!(proxy.connect().ask("SET k v"), "+OK\r\n");
        let address = format!("127.0.0.1:{}", receiver.port);
        let words = ["could not be delivered", "alarms", &address, cause];
        let line = wait_for(&proxy, &words);
        assert!(receiver.posts.try_recv().is_err(), "{cause}: it got something");
        assert!(!line.contains("secret-of-the-hook"), "{line}");
        let info = proxy.connect().ask("INFO proxy");
        assert!(info.contains("proxy_telemetry_dropped_alarms_post:"), "{info}");
    }
    let hook = format!("https://127.0.0.1:{plain_port}/{SECRET}");
    let silent = proxy(&server, &[("--alarms-webhook", &hook), ("--alarms-tls-ca-file", &ca)]);
    let begun = Instant::now();
    assert_eq!(silent.connect().ask("SET k v"), "+OK\r\n");
    let line = wait_for(&silent, &["could not be delivered", "timeout"]);
    assert!(begun.elapsed() < Duration::from_secs(15) && !line.contains("secret-of"), "{line}");
    drop(plain);
}

#[test]
fn who_sends_us_elsewhere_is_not_followed() {
    let authority = Authority::new("observers");
    let pair = authority.issue("hook", &["127.0.0.1"]);
    let answer = "307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/elsewhere";
    let receiver = Receiving::start(authority.server(&pair, false), answer);
    let (hook, ca) = (receiver.url("127.0.0.1"), shown(&authority.ca_file()));
    let server = RedisServer::start();
    let proxy = proxy(&server, &[("--alarms-webhook", &hook), ("--alarms-tls-ca-file", &ca)]);
    assert_eq!(proxy.connect().ask("SET k v"), "+OK\r\n");
    let line = wait_for(&proxy, &["could not be delivered", "307"]);
    assert!(!line.contains("elsewhere\""), "{line}");
}

#[test]
fn other_authorities_hold_from_the_next_post_on() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let receiver =
        Receiving::start(after.server(&after.issue("hook", &["127.0.0.1"]), false), "200 OK");
    let server = RedisServer::start();
    let ca = before.folder().join("trusted.pem");
    std::fs::copy(before.ca_file(), &ca).expect("copied");
    let (hook, file) = (receiver.url("127.0.0.1"), shown(&ca));
    let proxy = proxy(&server, &[("--alarms-webhook", &hook), ("--alarms-tls-ca-file", &file)]);
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    wait_for(&proxy, &["could not be delivered", "UnknownIssuer"]);
    std::fs::write(&ca, "no certificate").expect("the file");
    proxy.process().signal(Signal::HUP);
    let line =
        wait_for(&proxy, &["stays as it was", "--alarms-tls-ca-file", "holds no certificate"]);
    assert!(!line.contains("secret-of"), "{line}");
    std::fs::copy(after.ca_file(), &ca).expect("copied");
    proxy.process().signal(Signal::HUP);
    wait_for(&proxy, &["certificates have changed"]);
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    receiver.posts.recv_timeout(SOON).expect("alarms");
}
