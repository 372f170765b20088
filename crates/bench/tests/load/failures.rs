//! What fails ends the load with a message, at once, and never becomes a figure.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bench::load::{Live, LoadError, ask, drive};
use bench::plan::{Shape, Stop};
use testkit::RedisServer;
use testkit::ports::Port;

use crate::support::{at, endpoint, plan, run};

const SHAPES: [Shape; 4] = [
    Shape::Closed,
    Shape::Open { rate: 5000.0 },
    Shape::Storm,
    Shape::SlowReader { bytes_per_s: 100_000 },
];

#[test]
fn an_error_reply_ends_the_load_in_every_shape() {
    let server = RedisServer::start();
    ask(&endpoint(&server), "SET a text").expect("SET");
    for shape in SHAPES {
        let mut plan = plan(&[("PING", 50), ("LPUSH a {value}", 1)]);
        (plan.shape, plan.stop) = (shape, Stop::AfterMs(10_000));
        let began = Instant::now();
        match run(&endpoint(&server), &plan) {
            Err(LoadError::ErrorReply { command, text }) => {
                assert_eq!(command, "LPUSH a {value}");
                assert!(text.starts_with("WRONGTYPE"), "{text}");
            }
            other => panic!("{shape:?}: {other:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(3), "{shape:?}");
    }
}

#[test]
fn nobody_there() {
    let address = Port::v4().release();
    let error =
        run(&at(&format!("redis://{address}")), &plan(&[("PING", 1)])).expect_err("refused");
    assert!(
        matches!(&error, LoadError::Connection(text) if text.contains("nobody listens there")),
        "{error}"
    );
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let error = ask(&at("redis+unix:///nonexistent/redis.sock"), "PING").expect_err("no socket");
    assert!(matches!(error, LoadError::Connection(_)), "{error}");
}

#[test]
fn a_target_that_goes_away_in_the_middle() {
    for shape in SHAPES {
        let mut server = RedisServer::start();
        let mut plan = plan(&[("PING", 1)]);
        (plan.shape, plan.stop) = (shape, Stop::AfterMs(20_000));
        let place = endpoint(&server);
        let live = Live::default();
        let error = std::thread::scope(|scope| {
            let load = scope.spawn(|| drive(&place, &plan, &live, &mut |_| {}));
            testkit::wait::until_true("replies", Duration::from_secs(10), || {
                live.replies.load(Ordering::Relaxed) > 0
            });
            server.kill();
            load.join().expect("thread")
        });
        assert!(matches!(error, Err(LoadError::Connection(_))), "{shape:?}: {error:?}");
    }
}

#[test]
fn a_wrong_password_is_told_without_it() {
    let server = RedisServer::start_with(&["--requirepass", "right"]);
    for (protocol, command) in [(2, "AUTH"), (3, "HELLO")] {
        let mut place = endpoint(&server);
        place.url.password = Some(config::Secret::new("wrong-one"));
        for shape in [Shape::Closed, Shape::Storm] {
            let mut plan = plan(&[("PING", 1)]);
            (plan.resp, plan.shape) = (protocol, shape);
            let error = run(&place, &plan).expect_err("refused");
            assert!(
                matches!(&error, LoadError::ErrorReply { command: told, .. } if told == command),
                "{error}"
            );
            assert!(error.to_string().contains("WRONGPASS"), "{error}");
            assert!(!error.to_string().contains("wrong-one"), "{error}");
        }
    }
    let error = run(&endpoint(&server), &plan(&[("GET {key}", 1)])).expect_err("no password");
    assert!(error.to_string().contains("NOAUTH"), "{error}");
}

#[test]
fn a_stranger_that_speaks_no_resp() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    let place = at(&format!("redis://{}", listener.local_addr().expect("address")));
    let server = std::thread::spawn(move || {
        // The first connection only looks for the address; the second is the load's.
        let _first = listener.accept().expect("first");
        let (mut conn, _) = listener.accept().expect("second");
        let _ = conn.read(&mut [0; 1024]);
        let _ = conn.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = conn.read(&mut [0; 1024]);
    });
    let mut plan = plan(&[("PING", 1)]);
    plan.clients = 1;
    let error = run(&place, &plan).expect_err("no RESP");
    assert!(matches!(error, LoadError::Protocol(_)), "{error}");
    server.join().expect("stranger");
}

#[test]
fn a_cancelled_load_ends_soon() {
    let server = RedisServer::start();
    for shape in SHAPES {
        let mut plan = plan(&[("PING", 1)]);
        (plan.shape, plan.stop) = (shape, Stop::AfterMs(60_000));
        let place = endpoint(&server);
        let live = Live::default();
        let (ended, waited) = std::thread::scope(|scope| {
            let load = scope.spawn(|| drive(&place, &plan, &live, &mut |_| {}));
            testkit::wait::until_true("replies", Duration::from_secs(10), || {
                live.replies.load(Ordering::Relaxed) > 0
            });
            let cancelled = Instant::now();
            live.cancel.store(true, Ordering::Relaxed);
            (load.join().expect("thread"), cancelled.elapsed())
        });
        assert!(matches!(ended, Err(LoadError::Cancelled)), "{shape:?}: {ended:?}");
        assert!(
            waited < Duration::from_millis(500),
            "{shape:?}: {waited:?} (50 ms on an idle machine)"
        );
    }
}

#[test]
fn plans_that_cannot_be() {
    let server = RedisServer::start();
    let place = endpoint(&server);
    let refused = |plan| match run(&place, &plan) {
        Err(LoadError::Plan(text)) => text,
        other => panic!("{other:?}"),
    };
    let mut short = plan(&[("PING", 1)]);
    short.warmup_ms = 500;
    assert!(refused(short).contains("within the warm-up"));
    let mut keys = plan(&[("GET {key}", 1)]);
    (keys.keys.bytes_min, keys.keys.count) = (2, 1000);
    assert!(refused(keys).contains("at least 4 bytes"));
    let mut rate = plan(&[("PING", 1)]);
    rate.shape = Shape::Open { rate: 0.0 };
    assert!(refused(rate).contains("above 0"));
    let mut clients = plan(&[("PING", 1)]);
    clients.clients = u32::MAX;
    assert!(refused(clients).contains("open files"));
}
