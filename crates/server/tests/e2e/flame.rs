//! CPU profiles: what they show under load, that they harm nobody, and that they end with whoever asked for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{Checker, wait, xml};

use crate::admin::{Looked, TOKEN};
use crate::setup::{SOON, direct};

/// Status, type and text of an answer, whatever it is.
fn get(looked: &Looked, path: &str) -> (u16, String, String) {
    let mut answer = looked.agent.get(format!("{}{path}", looked.base)).call().expect("an answer");
    let kind = answer.headers()["content-type"].to_str().expect("text").to_owned();
    let text = answer.body_mut().read_to_string().expect("a body");
    (answer.status().as_u16(), kind, text)
}

/// A request of which nobody has read the answer.
fn ask(looked: &Looked, path: &str) -> TcpStream {
    let host = looked.base.trim_start_matches("http://");
    let mut conn = TcpStream::connect(host).expect("a connection");
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    write!(conn, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{token}\r\n").expect("the request");
    conn
}

/// Whether the process handles SIGPROF.
fn is_sampled(looked: &Looked) -> bool {
    let path = format!("/proc/{}/status", looked.proxy.process().pid());
    let status = std::fs::read_to_string(path).expect("its status");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("it");
    // Number 27 on x86-64 and ARM64; the mask begins with 1.
    u64::from_str_radix(caught.trim(), 16).expect("a mask") >> 26 & 1 == 1
}

#[test]
fn a_profile_under_load_shows_the_workers_and_every_reply_is_right() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    assert!(!is_sampled(&looked));
    let mut checker = Checker::new(looked.proxy.endpoint(), looked.server.endpoint());
    checker.duration = Duration::from_secs(60);
    // Mostly small requests: what is to be seen is the proxy and not the copying.
    checker.value_bytes_max = 1024;
    thread::scope(|scope| {
        let run = scope.spawn(|| checker.run());
        // As many signals as there can be.
        let (status, kind, svg) = get(&looked, "/debug/flame?seconds=2&hz=1000");
        assert_eq!((status, kind.as_str()), (200, "image/svg+xml"), "{svg}");
        xml::check(&svg).expect("well-formed");
        assert!(svg.contains("<title>respool-0 (") || svg.contains("<title>respool-1 ("), "{svg}");
        assert!(svg.contains("engine::") && svg.contains("server::worker::"), "{svg}");
        assert!(svg.contains("netio::") && svg.contains("<title>[kernel] ("), "{svg}");
        assert!(!is_sampled(&looked), "something is left of it");

        let (status, kind, text) = get(&looked, "/debug/flame?seconds=1&format=folded");
        assert_eq!((status, kind.as_str()), (200, "text/plain; charset=utf-8"), "{text}");
        let is_stack = |line: &str| {
            line.rsplit_once(' ').is_some_and(|(_, count)| count.parse::<u64>().is_ok())
        };
        assert!(text.lines().all(is_stack), "{text}");
        let of_worker =
            |line: &&str| line.starts_with("respool-0;") || line.starts_with("respool-1;");
        let deep = text.lines().filter(of_worker).any(|line| line.matches(';').count() >= 3);
        assert!(deep, "{text}");

        checker.stop.store(true, Ordering::Release);
        let verdict = run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        verdict.assert_clean();
        assert_eq!((verdict.errors, verdict.unknown), (0, 0), "{verdict}");
    });
    let log = looked.proxy.process().log();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}

#[test]
fn one_at_a_time_and_each_ends_with_who_asked_for_it() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    let first = ask(&looked, "/debug/flame?seconds=60");
    wait::until_true("the first profile", SOON, || is_sampled(&looked));
    let (status, _, text) = get(&looked, "/debug/flame?seconds=1");
    let error: Value = serde_json::from_str(&text).expect("JSON");
    let error = error["error"].as_str().expect("an error");
    assert!(status == 409 && error.contains("another profile"), "{status} {text}");
    // The control thread has time for others.
    assert_eq!(looked.get("/healthz").0, 200);
    drop(first);
    wait::until_true("its end", SOON, || !is_sampled(&looked));
    wait::until_true("another one", SOON, || get(&looked, "/debug/flame?seconds=1").0 == 200);
}

#[test]
fn the_end_of_the_process_does_not_wait_for_it() {
    if direct() {
        return;
    }
    let mut looked = Looked::start();
    let mut conn = ask(&looked, "/debug/flame?seconds=60");
    wait::until_true("the profile", SOON, || is_sampled(&looked));
    let begin = Instant::now();
    assert!(looked.proxy.terminate(SOON).is_some_and(|status| status.success()));
    assert!(begin.elapsed() < SOON);
    let _ = conn.read(&mut [0]);
}

#[test]
fn what_cannot_be_done_is_refused() {
    if direct() {
        return;
    }
    let looked = Looked::with(&["--admin-token", "secret"]);
    let asked = |path: &str, token: &str| {
        let get = looked.agent.get(format!("{}{path}", looked.base));
        let mut answer = get.header("Authorization", token).call().expect("an answer");
        (answer.status().as_u16(), answer.body_mut().read_to_string().expect("a body"))
    };
    assert_eq!(asked("/debug/flame?seconds=1", "").0, 401);
    for wrong in ["seconds=0", "seconds=61", "seconds=x", "hz=0", "hz=1001", "format=png", "what=1"]
    {
        let (status, text) = asked(&format!("/debug/flame?{wrong}"), "Bearer secret");
        assert!(status == 400 && text.contains("\"error\""), "{wrong}: {status} {text}");
    }
    let (status, text) = asked("/debug/flame?seconds=61", "Bearer secret");
    assert!(status == 400 && text.contains("seconds: from 1 to 60"), "{text}");
    assert!(!is_sampled(&looked));
}
