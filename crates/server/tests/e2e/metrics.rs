//! `/metrics` of the real binary: its formats, latency monitors, and what observers did not get.
//!
//! What a real Prometheus makes of it is tried in `tests/admin`.
//!
//! Invariant: what is lost is made to be lost: receivers that are not there, a file that is always full, a pipe that nobody reads.

use std::fs::OpenOptions;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use testkit::{Conn, wait};

use crate::admin::Looked;
use crate::setup::{SOON, direct, info_field};

/// Requests, each after the ones before it were answered in parts of so many.
const REQUESTS: usize = 5_000;

const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;version=0.0.4;q=0.5";

/// Content type and bytes of the page.
fn page(looked: &Looked, accept: &str) -> (String, Vec<u8>) {
    let get = looked.agent.get(format!("{}/metrics", looked.base));
    let mut answer = get.header("Accept", accept).call().expect("the page");
    let kind = answer.headers()["content-type"].to_str().expect("text").to_owned();
    (kind, answer.body_mut().read_to_vec().expect("the page"))
}

/// The value of this sample, as the text has it.
fn value(looked: &Looked, sample: &str) -> Option<u64> {
    let text = String::from_utf8(page(looked, "text/plain").1).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a number"))
}

fn dropped(looked: &Looked, what: &str, cause: &str) -> usize {
    let sample = format!("respool_telemetry_dropped_total{{what=\"{what}\",cause=\"{cause}\"}}");
    value(looked, &sample).expect("it is always there") as usize
}

/// Of all workers.
fn requests(looked: &Looked) -> usize {
    let text = String::from_utf8(page(looked, "text/plain").1).expect("text");
    let values = text.lines().filter_map(|line| line.strip_prefix("respool_requests_total{"));
    let number = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<usize>().ok());
    values.map(|line| number(line).expect("a number")).sum()
}

fn load(conn: &mut Conn, at_once: usize) {
    for _ in 0..REQUESTS / at_once {
        conn.send("GET k\r\n".repeat(at_once).as_bytes()).expect("sent");
        (0..at_once).for_each(|_| drop(conn.reply().expect("a reply")));
    }
}

#[test]
fn the_page_comes_in_the_format_that_its_reader_likes_best() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    looked.proxy.connect().ask("GET k");
    let (kind, bytes) = page(&looked, PROTOBUF);
    assert!(kind.starts_with("application/vnd.google.protobuf; proto=io.prometheus"), "{kind}");
    // The first family behind its length: field 1, of this length, is its name.
    assert_eq!(
        &bytes[bytes.iter().position(|byte| *byte == 0x0a).expect("a name")..][..20],
        b"\x0a\x12respool_build_info"
    );
    let (kind, _) = page(&looked, &PROTOBUF.replace("delimited", "delimited;q=0.4"));
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
}

#[test]
fn monitors_are_there_as_long_as_they_are_configured() {
    if direct() {
        return;
    }
    let looked = Looked::with(&["--latency-monitors", "reads=+get 1 10000000"]);
    let mut conn = looked.proxy.connect();
    let sample = |end: &str| format!("respool_monitor_duration_seconds_{end}");
    assert_eq!(value(&looked, &sample("count{monitor=\"reads\"}")), Some(0));
    conn.ask("SET k v");
    load(&mut conn, 50);
    let all = Some(REQUESTS as u64);
    assert_eq!(value(&looked, &sample("count{monitor=\"reads\"}")), all);
    assert_eq!(value(&looked, &sample("bucket{monitor=\"reads\",le=\"10.0\"}")), all);
    let node = looked.server.endpoint().tcp();
    let of_node = format!(
        "respool_monitor_node_duration_seconds_count{{monitor=\"reads\",node=\"{node}\",pool=\"0\"}}"
    );
    assert_eq!(value(&looked, &of_node), all);
    let words = ["CONFIG", "SET", "respool.latency.monitors", "writes=+set 5"];
    assert_eq!(conn.command(&words).expect("a reply"), b"+OK\r\n");
    assert_eq!(value(&looked, &sample("count{monitor=\"reads\"}")), None);
    conn.ask("SET k v");
    assert_eq!(value(&looked, &sample("count{monitor=\"writes\"}")), Some(1));
}

#[test]
fn what_observers_lose_is_counted_to_the_last_one() {
    if direct() {
        return;
    }
    let args = [
        ["--access-log-sample", "1"],
        ["--log-file", "/dev/full"],
        ["--log-burst", "1"],
        ["--tracing-sample", "1"],
        ["--tracing-endpoint", "http://127.0.0.1:9"],
        ["--alarms-webhook", "http://127.0.0.1:9/hook"],
        ["--alarms-slow-over-us", "1"],
        ["--acl-config-set", "all"],
    ];
    let looked = Looked::with(args.as_flattened());
    let mut conn = looked.proxy.connect();
    // More than a worker tells of in a turn.
    load(&mut conn, 200);
    for timeout_ms in 100..110 {
        let set = format!("CONFIG SET respool.timeouts.connect_ms {timeout_ms}");
        assert_eq!(conn.ask(&set), "+OK\r\n");
    }
    let of = |ways: [(&str, &str); 3]| -> usize {
        ways.iter().map(|(what, cause)| dropped(&looked, what, cause)).sum()
    };
    let turn = ("requests", "turn");
    let requests = requests(&looked);
    assert!(requests >= REQUESTS + 10, "{requests}: those that respool answers itself, too");
    // Whatever is wanted of a request goes one of these ways.
    wait::until_true("each span to be counted", SOON, || {
        of([("spans", "queue"), ("spans", "post"), turn]) == requests
    });
    wait::until_true("each line to be counted", SOON, || {
        of([("access_log", "queue"), ("access_log", "write"), turn]) == requests
    });
    wait::until_true("alarms to be counted", SOON, || dropped(&looked, "alarms", "post") > 0);
    for (what, cause) in [turn, ("spans", "post"), ("access_log", "write"), ("log", "burst")] {
        let count = dropped(&looked, what, cause);
        assert!(count > 0, "{what} {cause}");
        let field = format!("proxy_telemetry_dropped_{what}_{cause}");
        let told = info_field(&mut conn, "proxy", &field).expect("in INFO, too");
        assert!(told.parse::<usize>().expect("a number") >= count, "{field}:{told}");
    }
}

#[test]
fn lines_for_a_pipe_that_nobody_reads_are_counted_and_hold_nobody_up() {
    if direct() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("log");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    // Open for both: with a writer alone respool would wait for a reader, and without one its writes would fail.
    let _reader = OpenOptions::new().read(true).write(true).open(&pipe).expect("the pipe");
    let path = pipe.display().to_string();
    let looked = Looked::with(&["--access-log-sample", "1", "--log-file", &path]);
    let mut conn = looked.proxy.connect();
    // Few enough for each turn; all of them are more than the pipe and the queue take.
    (0..5).for_each(|_| load(&mut conn, 50));
    assert_eq!(dropped(&looked, "requests", "turn"), 0);
    let lost = dropped(&looked, "access_log", "queue");
    assert!((1..2 * REQUESTS).contains(&lost), "{lost}");
    assert_eq!(dropped(&looked, "access_log", "write"), 0);
}
