//! Which driver runs, and that one which the system forbids is no reason not to start.
//!
//! That the drivers do the same is shown by the suite of `netio`; with `RESPOOL_TEST_DRIVER=uring` all tests here run on io_uring.
//!
//! Invariant: what `INFO` names is what runs, and the log has the reason where that is not what was asked for.

use std::process::Command;

use testkit::{Conn, RedisServer, Respool};

use crate::admin::Looked;
use crate::setup::{RESPOOL, Stack, direct, info_field};

const REFUSED: &str = "io_uring cannot be used here, the workers use epoll";

#[test]
fn io_uring_serves_where_it_may() {
    if direct() {
        return;
    }
    let stack = Stack::with(&["--driver", "uring"]);
    let mut clients: Vec<_> = (0..20).map(|_| stack.connect()).collect();
    let driver = info_field(&mut clients[0], "server", "multiplexing_api").expect("the driver");
    let log = stack.proxy.as_ref().map(|proxy| proxy.process().log()).unwrap_or_default();
    assert_eq!(log.contains(REFUSED), driver != "uring", "{driver}: {log}");
    if driver != "uring" {
        eprintln!("skipped: {log}");
        return;
    }
    let of_proxy = |conn: &mut Conn, name: &str| info_field(conn, "proxy", name);
    assert_eq!(of_proxy(&mut clients[0], "proxy_driver_wanted").as_deref(), Some("uring"));
    assert_eq!(of_proxy(&mut clients[0], "proxy_driver_reason"), None);
    for worker in 0..2 {
        let ring = of_proxy(&mut clients[0], &format!("proxy_ring_worker_{worker}"));
        let ring = ring.expect("what the ring met");
        assert!(ring.starts_with("no_buffers=0,overflows=0,small_buffers="), "{ring}");
    }
    let large = "x".repeat(300_000);
    for (at, conn) in clients.iter_mut().enumerate() {
        assert_eq!(conn.ask(&format!("SET k{at} v{at}")), "+OK\r\n");
        assert_eq!(conn.command(&["SET", "large", &large]).unwrap(), b"+OK\r\n");
    }
    for (at, conn) in clients.iter_mut().enumerate() {
        let value = format!("v{at}");
        assert_eq!(conn.ask(&format!("GET k{at}")), format!("${}\r\n{value}\r\n", value.len()));
        let reply = conn.command(&["GET", "large"]).unwrap();
        assert_eq!(reply, format!("$300000\r\n{large}\r\n").as_bytes());
    }
    // Its threads have rings.
    let pid = stack.proxy.as_ref().map_or(0, |proxy| proxy.process().pid());
    let rings = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("the descriptors of a child")
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter(|link| link.to_string_lossy().contains("io_uring"))
        .count();
    assert_eq!(rings, 2, "one for each worker");
}

/// A process that may lock no memory, as in some containers: on kernels that count rings as such there is no io_uring for it.
#[test]
fn where_io_uring_is_not_to_be_had_epoll_serves_and_the_log_says_why() {
    if direct() {
        return;
    }
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: there is no setpriv here");
        return;
    }
    let server = RedisServer::start();
    let args = ["--driver", "uring"];
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).locks_no_memory().start();
    let mut conn = proxy.connect();
    let driver = info_field(&mut conn, "server", "multiplexing_api").expect("the driver");
    let log = proxy.process().log();
    assert_eq!(log.contains(REFUSED), driver == "epoll", "{driver}: {log}");
    let mut of_proxy = |name: &str| info_field(&mut conn, "proxy", name);
    assert_eq!(of_proxy("proxy_driver_wanted").as_deref(), Some("uring"));
    assert_eq!(of_proxy("proxy_ring_worker_0").is_some(), driver == "uring");
    let reason = of_proxy("proxy_driver_reason");
    assert_eq!(reason.is_some(), driver == "epoll");
    if let Some(reason) = reason {
        assert!(log.contains("reason=") && log.contains(&reason), "{reason}: {log}");
    }
    assert_eq!(conn.ask("SET k v"), "+OK\r\n");
}

/// `/metrics` has the same: which driver it is, and what rings met where there are some.
#[test]
fn the_page_of_metrics_tells_of_the_driver() {
    if direct() {
        return;
    }
    for wanted in ["auto", "epoll", "uring"] {
        let mut looked = Looked::with(&["--driver", wanted]);
        let driver = info_field(&mut looked.proxy.connect(), "proxy", "proxy_driver").unwrap();
        let page = looked.page();
        let info =
            format!("respool_driver_info{{driver=\"{driver}\",wanted=\"{wanted}\",reason=\"");
        let info = page.lines().find_map(|line| line.strip_prefix(&info)).expect("the driver");
        assert_eq!(info != "\"} 1", wanted == "uring" && driver != "uring", "{info}");
        for sample in [
            "respool_uring_no_buffers_total{worker=\"1\"} 0",
            "respool_uring_overflows_total{worker=\"1\"} 0",
            "respool_uring_buffers{worker=\"1\",size=\"small\"} ",
            "respool_uring_buffers{worker=\"1\",size=\"large\"} ",
        ] {
            let shown = page.lines().any(|line| line.starts_with(sample));
            assert_eq!(shown, driver == "uring", "{sample}");
        }
        looked.proxy.assert_alive();
    }
}

/// The kernel ends the rings of a killed process after the process, and until then they hold what it listened at.
#[test]
fn a_successor_of_one_that_was_killed_gets_its_address() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let begin = || Respool::to(RESPOOL, server.endpoint()).args(&["--driver", "uring"]);
    let mut proxy = begin().start();
    for round in 0..5 {
        let front = proxy.endpoint().clone();
        assert_eq!(proxy.connect().ask(&format!("SET k {round}")), "+OK\r\n");
        proxy.kill();
        proxy = begin().listen_at(&front).start();
        assert_eq!(proxy.connect().ask("GET k"), format!("$1\r\n{round}\r\n"));
    }
}
