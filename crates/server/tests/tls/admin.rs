//! The admin listener over TLS: who gets there, with which certificates, and other ones while it runs. `curl` is the one who asks, where it is there.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use testkit::ports::Port;
use testkit::tls::{Authority, Pair};
use testkit::{RedisServer, Respool, wait};

use crate::setup::{NAME, RESPOOL, SOON, client};

/// A proxy whose admin listener speaks TLS.
struct Looked {
    // The order matters: the proxy goes before its server.
    proxy: Respool,
    _server: RedisServer,
    port: u16,
}

impl Looked {
    fn start(own: &Pair, args: &[&str]) -> Self {
        let server = RedisServer::start();
        let listen = Port::v4().release();
        let (cert, key) = (shown(&own.cert_file), shown(&own.key_file));
        let address = listen.to_string();
        let given = ["--admin-listen", &address, "--admin-tls-cert-file", &cert];
        let given = [&given[..], &["--admin-tls-key-file", &key], args].concat();
        let proxy = Respool::to(RESPOOL, server.endpoint()).args(&given).workers(1).start();
        Self { proxy, _server: server, port: listen.port() }
    }

    /// What is answered to a GET, or why nothing is.
    fn get(&self, config: &Arc<ClientConfig>, path: &str, more: &str) -> Result<String, String> {
        let mut conn = open(self.port, config)?;
        ask(&mut conn, path, more)
    }
}

type Conn = StreamOwned<ClientConnection, TcpStream>;

pub(crate) fn open(port: u16, config: &Arc<ClientConfig>) -> Result<Conn, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    let name = NAME.try_into().expect("a name");
    let conn = ClientConnection::new(Arc::clone(config), name).map_err(|e| e.to_string())?;
    Ok(StreamOwned::new(conn, stream))
}

/// Asks on a connection that stays; head and body.
pub(crate) fn ask(conn: &mut Conn, path: &str, more: &str) -> Result<String, String> {
    say(conn, "GET", path, more)
}

fn say(conn: &mut Conn, method: &str, path: &str, more: &str) -> Result<String, String> {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {NAME}\r\n{more}\r\n");
    conn.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let (mut answer, mut buf) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned)
            });
            if length.is_none_or(|length| length.parse::<usize>().expect("a length") <= body.len())
            {
                return Ok(text);
            }
        }
        match conn.read(&mut buf).map_err(|error| error.to_string())? {
            0 => return Err("the end".to_owned()),
            count => answer.extend_from_slice(&buf[..count]),
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Runs `curl` with these arguments: whether it is happy, and what it prints. `None`: there is none.
fn curl(args: &[&str]) -> Option<(bool, String)> {
    let done = Command::new("curl").args(["-sS", "--max-time", "20"]).args(args).output();
    let Ok(done) = done else {
        println!("skipped: curl is missing");
        return None;
    };
    let text = [done.stdout, done.stderr].concat();
    Some((done.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn it_answers_over_tls_and_in_plain_it_says_nothing() {
    let authority = Authority::new("ca");
    let looked = Looked::start(&authority.issue("admin", &[NAME]), &[]);
    let trusting = client(&authority, None);
    let stats = looked.get(&trusting, "/stats", "").expect("an answer");
    assert!(stats.starts_with("HTTP/1.1 200") && stats.contains("uptime_us"), "{stats}");
    let stranger = client(&Authority::new("stranger"), None);
    looked.get(&stranger, "/stats", "").expect_err("nobody it trusts");
    // Another site's page is kept out as without TLS.
    let foreign = looked.get(&trusting, "/stats", "Origin: https://evil.example\r\n");
    assert!(foreign.expect("an answer").starts_with("HTTP/1.1 403"));
    // No HTTP: what comes back is an alert at most, and then the end.
    let mut plain = TcpStream::connect(("127.0.0.1", looked.port)).expect("connect");
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.len() < 16 && !answer.starts_with(b"HTTP"), "{answer:?}");
    wait::until_true("the log to tell of it", SOON, || {
        looked.proxy.process().log().contains("TLS at the admin listener failed")
    });
}

#[test]
fn curl_and_top_get_there_by_name_and_authority() {
    let (authority, stranger) = (Authority::new("ca"), Authority::new("stranger"));
    let own = authority.issue("admin", &[NAME, "127.0.0.1"]);
    let token = authority.folder().join("token");
    fs::write(&token, "hush\n").expect("the file");
    let (token, ca) = (shown(&token), shown(&authority.ca_file()));
    let looked = Looked::start(&own, &["--admin-token-file", &token]);
    let (port, base) = (looked.port, format!("https://127.0.0.1:{}", looked.port));
    let resolve = format!("{NAME}:{port}:127.0.0.1");
    let by_name = format!("https://{NAME}:{port}/readyz");
    if let Some((happy, text)) = curl(&["--cacert", &ca, "--resolve", &resolve, &by_name]) {
        assert!(happy && text.contains("\"ok\""), "{text}");
        let other = shown(&stranger.ca_file());
        let refused = curl(&["--cacert", &other, "--resolve", &resolve, &by_name]);
        assert!(refused.is_some_and(|(happy, _)| !happy));
        let wrong = format!("http://127.0.0.1:{port}/healthz");
        assert!(curl(&[&wrong]).is_some_and(|(happy, text)| !happy && !text.contains("ok")));
    }
    let top = |args: &[&str]| {
        let given = ["top", "--once", "--token-file", &token];
        let done = Command::new(RESPOOL).args(given).args(args).output().expect("respool top");
        let text = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, text) = top(&["--admin", &base, "--ca-file", &ca]);
    assert!(code == Some(0) && text.contains("requests"), "{text}");
    let (code, text) = top(&["--admin", &base, "--ca-file", &shown(&stranger.ca_file())]);
    assert!(code != Some(0) && text.contains("UnknownIssuer"), "{text}");
    let (code, text) = top(&["--admin", &base, "--ca-file", "/no/such/file"]);
    assert!(code == Some(2) && text.contains("--ca-file"), "{code:?} {text}");
    let address = format!("127.0.0.1:{port}");
    let (code, text) = top(&["--admin", &address, "--ca-file", &ca]);
    assert!(code == Some(2) && text.contains("https://"), "{code:?} {text}");
}

#[test]
fn certificates_are_asked_for_where_that_is_wanted() {
    let (authority, operators) = (Authority::new("ca"), Authority::new("operators"));
    let own = authority.issue("admin", &[NAME]);
    let (known, foreign) =
        (operators.issue("op", &["op.example"]), authority.issue("app", &["app.example"]));
    let ca = shown(&operators.ca_file());
    let with = |pair: Option<&Pair>| client(&authority, pair);
    let given = |auth: &'static str| {
        ["--admin-tls-client-ca-file", &*ca, "--admin-tls-client-auth", auth].map(str::to_owned)
    };
    let start = |auth: &'static str| {
        let args = given(auth);
        Looked::start(&own, &args.each_ref().map(String::as_str))
    };
    let looked = start("required");
    let shown = looked.get(&with(Some(&known)), "/stats", "").expect("an answer");
    assert!(shown.starts_with("HTTP/1.1 200"), "{shown}");
    looked.get(&with(None), "/healthz", "").expect_err("not even that");
    // Who had to show one may change something without a token, and nobody else.
    let drain = |looked: &Looked, pair| {
        let mut conn = open(looked.port, &with(pair)).expect("a connection");
        say(&mut conn, "POST", "/drain", "Content-Length: 0\r\n").expect("an answer")
    };
    assert!(drain(&looked, Some(&known)).starts_with("HTTP/1.1 200"));
    looked.get(&with(Some(&foreign)), "/stats", "").expect_err("another authority");
    let looked = start("optional");
    let without = looked.get(&with(None), "/healthz", "").expect("an answer");
    assert!(without.starts_with("HTTP/1.1 200"), "{without}");
    for pair in [None, Some(&known)] {
        assert!(drain(&looked, pair).starts_with("HTTP/1.1 403"));
    }
    looked.get(&with(Some(&foreign)), "/stats", "").expect_err("another authority");
}

#[test]
fn other_certificates_hold_for_whoever_comes_next() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let own = before.issue("admin", &[NAME]);
    let looked = Looked::start(&own, &[]);
    let (old, new) = (client(&before, None), client(&after, None));
    let mut stays = open(looked.port, &old).expect("connect");
    assert!(ask(&mut stays, "/healthz", "").is_ok_and(|text| text.starts_with("HTTP/1.1 200")));
    let next = after.issue("admin", &[NAME]);
    fs::write(&own.cert_file, &next.cert).expect("certificate");
    looked.proxy.process().signal(Signal::HUP);
    wait::until_true("half of a change to be refused", SOON, || {
        let log = looked.proxy.process().log();
        log.contains("--admin-tls-cert-file") && log.contains("stays as it was")
    });
    assert!(looked.get(&old, "/healthz", "").is_ok(), "the old one is still there");
    fs::write(&own.key_file, &next.key).expect("key");
    looked.proxy.process().signal(Signal::HUP);
    wait::until_true("the new one", SOON, || looked.get(&new, "/healthz", "").is_ok());
    looked.get(&old, "/healthz", "").expect_err("the old one is gone");
    assert!(ask(&mut stays, "/healthz", "").is_ok_and(|text| text.starts_with("HTTP/1.1 200")));
}

#[test]
fn who_does_not_finish_the_handshake_is_closed_and_holds_nobody_up() {
    let authority = Authority::new("ca");
    let looked = Looked::start(&authority.issue("admin", &[NAME]), &[]);
    let trusting = client(&authority, None);
    let begun = Instant::now();
    let mut half: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut conn = TcpStream::connect(("127.0.0.1", looked.port)).expect("connect");
            conn.write_all(&[22, 3, 1]).expect("sent");
            conn
        })
        .collect();
    assert!(looked.get(&trusting, "/healthz", "").is_ok());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    for conn in &mut half {
        conn.set_read_timeout(Some(SOON)).expect("a timeout");
        let closed = conn.read(&mut [0; 64]);
        assert!(
            !matches!(&closed, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
            "{closed:?}"
        );
    }
}
