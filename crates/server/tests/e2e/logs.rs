//! What is told of single events: log lines that come too often, the access log, spans and alarms.
//!
//! Invariant: receivers are listeners of the test itself, so that what they got is known byte for byte.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{RedisServer, Respool, wait};

use crate::admin::Looked;
use crate::setup::{RESPOOL, SOON, direct};

/// Somebody who takes POSTs, and tells the test what came: path and body.
struct Receiving {
    url: String,
    posts: Receiver<(String, Value)>,
}

impl Receiving {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (tell, posts) = channel();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let tell = tell.clone();
                std::thread::spawn(move || serve(&stream, &tell));
            }
        });
        Self { url, posts }
    }

    /// All that comes until `is_enough` says so of what is there.
    fn until(
        &self,
        is_enough: impl Fn(&[Value]) -> bool,
        items: fn(&Value) -> Vec<Value>,
    ) -> Vec<Value> {
        let mut all = Vec::new();
        while !is_enough(&all) {
            let post = self.posts.recv_timeout(SOON);
            let (_, body) = post.unwrap_or_else(|_| panic!("not enough came: {all:?}"));
            all.extend(items(&body));
        }
        all
    }
}

fn serve(stream: &TcpStream, tell: &Sender<(String, Value)>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(rest) = line.strip_prefix("POST ") {
                path = rest.split(' ').next().unwrap_or_default().to_owned();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let body = serde_json::from_slice(&body).expect("JSON");
        if tell.send((path, body)).is_err() {
            return;
        }
        let mut stream = stream;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    }
}

/// The access lines of a log in JSON.
fn access_lines(proxy: &Respool) -> Vec<Value> {
    let log = proxy.process().log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "access" || line["message"] == "request").collect()
}

#[test]
fn a_server_that_comes_and_goes_does_not_flood_the_log() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let args = [
        ["--log-burst", "5"],
        ["--log-burst-window-s", "2"],
        ["--timeouts-reconnect-min-ms", "1"],
        ["--timeouts-reconnect-max-ms", "1"],
    ];
    let proxy =
        Respool::to(RESPOOL, server.endpoint()).args(args.as_flattened()).workers(1).start();
    let (mut killer, mut conn) = (server.connect(), proxy.connect());
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        killer.ask("CLIENT KILL TYPE normal SKIPME yes");
        // An error is as good as a reply.
        conn.ask("GET k");
        std::thread::sleep(Duration::from_millis(5));
    }
    let left_out = |log: &str| {
        log.lines()
            .filter(|line| line.contains("log lines left out"))
            .any(|line| line.contains("upstream"))
    };
    wait::until_true("a line of what was left out", SOON, || left_out(&proxy.process().log()));
    let log = proxy.process().log();
    for message in [" upstream ready", " upstream lost, its requests"] {
        let count =
            log.lines().filter(|line| line.contains(message) && !line.contains("left out")).count();
        // Windows begin with a line, so of two seconds each there are at most four by now, and one more while the test waited.
        assert!(count <= 25, "{count} of `{message}`:\n{log}");
    }
    assert_eq!(conn.ask("PING"), "+PONG\r\n");
}

#[test]
fn the_access_log_tells_of_requests_that_fit_and_changes_while_it_runs() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let args = ["--log-format", "json", "--log-level", "warn", "--acl-config-set", "all"];
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).start();
    let mut conn = proxy.connect();
    conn.ask("SET user:1 before");
    assert_eq!(conn.ask("CLIENT SETNAME web"), "+OK\r\n");
    for change in ["key_prefix user:", "client web", "sample 1"] {
        assert_eq!(conn.ask(&format!("CONFIG SET respool.access_log.{change}")), "+OK\r\n");
    }
    conn.ask("SET user:1 a-secret");
    conn.ask("SET other x");
    conn.ask("LPUSH user:1 x");
    proxy.connect().ask("GET user:1");
    conn.ask("GET user:1");
    wait::until_true("three lines", SOON, || access_lines(&proxy).len() >= 3);
    assert_eq!(conn.ask("CONFIG SET respool.access_log.sample 0"), "+OK\r\n");
    conn.ask("GET user:1");
    std::thread::sleep(Duration::from_millis(200));
    let lines = access_lines(&proxy);
    let told: Vec<_> = lines
        .iter()
        .map(|line| [&line["command"], &line["key"], &line["error"], &line["bytes"]])
        .collect();
    let wanted = [("set", "", 5), ("lpush", "WRONGTYPE", 68), ("get", "", 14)];
    let wanted: Vec<[Value; 4]> = wanted
        .iter()
        .map(|(name, error, bytes)| [json!(name), json!("user:1"), json!(error), json!(bytes)])
        .collect();
    assert_eq!(told, wanted.iter().map(|line| line.each_ref()).collect::<Vec<_>>(), "{lines:?}");
    for line in &lines {
        assert_eq!((&line["level"], &line["name"]), (&json!("INFO"), &json!("web")));
        assert!(line["addr"].as_str().is_some_and(|addr| addr.starts_with("127.0.0.1:")), "{line}");
        let us = |field: &str| line[field].as_u64().expect("a time");
        assert_eq!(us("total_us"), us("queued_us") + us("upstream_us"));
    }
    assert!(!proxy.process().log().contains("a-secret"));
}

#[test]
fn requests_become_spans_and_children_of_the_trace_that_a_client_names() {
    if direct() {
        return;
    }
    let (server, collector) = (RedisServer::start(), Receiving::start());
    let args = [
        "--tracing-sample",
        "1",
        "--tracing-endpoint",
        &collector.url,
        "--tracing-service-name",
        "shop",
    ];
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).start();
    let (mut plain, mut named) = (proxy.connect(), proxy.connect());
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    named.ask(&format!("CLIENT SETNAME traceparent=00-{trace}-{span}-01"));
    plain.ask("SET k v");
    named.ask("LPUSH k v");
    let spans = |body: &Value| {
        assert_eq!(
            body["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"],
            "shop"
        );
        body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
    };
    let named_span = |name: &'static str| move |span: &Value| span["name"] == name;
    let both = |all: &[Value]| ["set", "lpush"].iter().all(|name| all.iter().any(named_span(name)));
    let all = collector.until(both, spans);
    let find = |name| all.iter().find(|span| named_span(name)(span)).expect("a span");
    let (set, lpush) = (find("set"), find("lpush"));
    assert!(set["parentSpanId"].is_null() && set["traceId"] != lpush["traceId"], "{set}");
    assert_eq!((&lpush["traceId"], &lpush["parentSpanId"]), (&json!(trace), &json!(span)));
    assert_eq!(lpush["status"]["message"], "WRONGTYPE");
    let nanos =
        |span: &Value, field: &str| span[field].as_str().and_then(|text| text.parse::<u64>().ok());
    let begin = nanos(set, "startTimeUnixNano").expect("a time");
    assert!(nanos(set, "endTimeUnixNano").expect("a time") > begin);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    assert!((now.as_secs()).abs_diff(begin / 1_000_000_000) < 60);
}

#[test]
fn alarms_are_posted_at_most_once_a_second() {
    if direct() {
        return;
    }
    let (mut server, receiver) = (RedisServer::start(), Receiving::start());
    let hook = format!("{}/hook", receiver.url);
    let args = [
        "--alarms-webhook",
        &hook,
        "--alarms-slow-over-us",
        "5000",
        "--bigkeys-bytes-min",
        "10KiB",
    ];
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).workers(1).start();
    let mut conn = proxy.connect();
    let begun = std::time::Instant::now();
    let script = "for i = 1, 20000000 do end return 1";
    conn.command(&["EVAL", script, "1", "slow-key"]).expect("a reply");
    conn.command(&["SET".as_bytes(), b"big-key", &[b'x'; 20_000]]).expect("a reply");
    server.kill();
    let alarms = |body: &Value| {
        assert_eq!(body["source"], "respool");
        body["alarms"].as_array().expect("alarms").clone()
    };
    let of = |kind: &'static str| move |alarm: &Value| alarm["kind"] == kind;
    let is_all = |all: &[Value]| {
        ["slow", "big", "upstream_down"].iter().all(|kind| all.iter().any(of(kind)))
    };
    // What takes the place of the lost connection is refused as well.
    let all = receiver.until(is_all, alarms);
    let find = |kind| all.iter().find(|alarm| of(kind)(alarm)).expect("an alarm");
    assert_eq!(
        (&find("slow")["command"], &find("slow")["key"]),
        (&json!("eval"), &json!("slow-key"))
    );
    assert!(find("slow")["upstream_us"].as_u64().is_some_and(|us| us >= 5_000));
    assert_eq!(
        (&find("big")["key"], &find("big")["direction"]),
        (&json!("big-key"), &json!("request"))
    );
    assert!(find("upstream_down")["cause"].is_string());
    let posts = 1 + receiver.posts.try_iter().count();
    assert!(posts as u64 <= begun.elapsed().as_secs() + 2);
}

#[test]
fn a_receiver_that_hangs_or_is_not_there_holds_nobody_up() {
    if direct() {
        return;
    }
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hook = format!("http://{}", silent.local_addr().expect("an address"));
    let server = RedisServer::start();
    let args = [
        ["--alarms-webhook", &hook],
        ["--alarms-slow-over-us", "1"],
        ["--tracing-sample", "1"],
        ["--tracing-endpoint", "http://127.0.0.1:9"],
    ];
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(args.as_flattened()).start();
    let mut conn = proxy.connect();
    let begun = std::time::Instant::now();
    for _ in 0..5_000 {
        assert_eq!(conn.ask("SET k v"), "+OK\r\n");
    }
    assert!(begun.elapsed() < SOON);
    let words = ["could not be delivered", "some were dropped"];
    wait::until_true("the log to tell of it", SOON, || {
        let log = proxy.process().log();
        words.iter().any(|words| log.contains(words)) && log.contains("what=\"spans\"")
    });
}

/// A word that stands where tokens of webhooks and collectors stand.
const TOKEN: &str = "t0ken";

#[test]
fn nobody_is_told_the_path_of_a_webhook_or_a_collector() {
    if direct() {
        return;
    }
    let receiver = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = receiver.local_addr().expect("an address");
    // One answers with its path, as some servers do in their errors; the other is not there.
    std::thread::spawn(move || {
        for stream in receiver.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let answer =
                format!("HTTP/1.1 307 {path}\r\nlocation: {path}\r\ncontent-length: 0\r\n\r\n");
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    let hook = format!("http://{at}/services/{TOKEN}/x?key={TOKEN}");
    let endpoint = format!("http://127.0.0.1:9/{TOKEN}");
    let args = [
        ["--alarms-webhook", &hook],
        ["--alarms-slow-over-us", "1"],
        ["--tracing-sample", "1"],
        ["--tracing-endpoint", &endpoint],
        ["--log-level", "trace"],
        ["--log-burst", "0"],
        ["--acl-config-set", "all"],
    ];
    let looked = Looked::with(args.as_flattened());
    let mut conn = looked.proxy.connect();
    let set = format!("CONFIG SET respool.alarms.webhook http://{at}/{TOKEN}");
    assert!(conn.ask(&set).starts_with("-ERR CONFIG SET failed"));
    let failed = |what: &str| {
        let line = format!("what=\"{what}\"");
        let log = looked.proxy.process().log();
        log.lines().any(|told| told.contains("could not be delivered") && told.contains(&line))
    };
    wait::until_true("two posts that fail", SOON, || {
        conn.ask("SET k v");
        failed("alarms") && failed("spans")
    });
    let mut told = vec![looked.proxy.process().log(), looked.page()];
    for asked in ["CONFIG GET respool.*", "INFO everything", "SLOWLOG GET 100", "ACL LOG"] {
        told.push(conn.ask(asked));
    }
    for path in ["/config", "/stats", "/topology", "/slowlog"] {
        told.push(looked.get(path).1.to_string());
    }
    let shown = conn.ask("CONFIG GET respool.alarms.webhook");
    assert!(shown.contains(&format!("http://{at}/***")), "{shown}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respool.toml");
    for wrong in
        [format!("https://u:{TOKEN}@h/"), format!("ftp://h/{TOKEN}"), format!("http://h/ {TOKEN}")]
    {
        for option in ["[alarms]\nwebhook", "[tracing]\nendpoint"] {
            fs::write(&file, format!("upstream = \"redis://h\"\n{option} = \"{wrong}\"\n"))
                .expect("the file");
            let check = Command::new(RESPOOL).arg("check").arg(&file).output().expect("an end");
            assert!(!check.status.success(), "{wrong}");
            told.push(String::from_utf8_lossy(&[check.stdout, check.stderr].concat()).into_owned());
        }
    }
    for text in told {
        let line = text.lines().find(|line| line.contains(TOKEN));
        assert_eq!(line, None);
    }
}
