//! Rows 21 to 24: clients that do not read, hardly send, send nonsense, or come in thousands.
//!
//! Invariant: the damage stays with the client that does it: memory is bounded and the others are
//! served.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use testkit::frames::request;
use testkit::process::raise_fd_limit;
use testkit::{Checker, Conn, RedisServer, Respool, Verdict, wait};

use crate::setup::{RESPOOL, SOON, Stack, direct};

const MIB: u64 = 1024 * 1024;

/// Clients that ask for megabytes and read nothing. The server makes all of their replies before it sends the first byte, so on a busy
/// machine each of them is time that passes before the proxy has anything to do.
const SLEEPERS: usize = 24;
const SLEEPER_VALUE_BYTES: usize = 1_000_000;

/// Their servers make hundreds of megabytes of replies: one test after the other, so that none is judged by what
/// another one costs.
static IN_TURN: Mutex<()> = Mutex::new(());

fn put_to_sleep(stack: &Stack, requests: usize) -> Vec<Conn> {
    let value = "x".repeat(SLEEPER_VALUE_BYTES);
    stack.server.connect().command(&["SET", "big", &value]).expect("SET");
    let pipeline = request(&["GET", "big"]).repeat(requests);
    (0..SLEEPERS)
        .map(|_| {
            let mut conn = stack.connect();
            conn.send(&pipeline).expect("a pipeline of small requests");
            conn
        })
        .collect()
}

/// Others use the same server meanwhile, for four seconds, and until enough of their requests are answered.
///
/// # Panics
/// When a reply is wrong, or requests are not answered any more. The machine decides how many seconds that takes: the server makes hundreds of megabytes.
fn others(stack: &Stack) -> Verdict {
    const ENOUGH: u64 = 200;
    let mut checker = Checker::new(stack.front(), stack.server.endpoint());
    checker.clients = 4;
    checker.duration = Duration::from_secs(4);
    let run = || {
        let verdict = checker.run();
        println!("{verdict}");
        verdict.assert_clean();
        verdict
    };
    let verdict = run();
    let mut answered = verdict.answered;
    wait::until_true("the others are served", SOON, || {
        answered > ENOUGH || {
            answered += run().answered;
            false
        }
    });
    verdict
}

/// The longest batch of others that share a server, and no proxy, with as many sleepers.
fn slowest_directly(requests: usize) -> Duration {
    let stack = Stack { proxy: None, server: RedisServer::start() };
    let _sleepers = put_to_sleep(&stack, requests);
    others(&stack).slowest
}

// A shared connection brings replies for everybody: it cannot simply be left unread for the sake of
// one client.
#[test]
fn row_21_slow_readers_cost_bounded_memory() {
    // Half of what the sleepers are owed, and what each may have comes to twice that: the limit is what bounds them.
    const LIMIT_MIB: u64 = 192;
    const REQUESTS: usize = 24;
    // A test that failed says nothing about the next one.
    let _turn = IN_TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let memory_max = format!("{LIMIT_MIB}MiB");
    let mut stack = Stack::with(&[
        "--limits-memory-max-bytes",
        &memory_max,
        "--limits-client-out-max-bytes",
        "16MiB",
        "--timeouts-stall-ms",
        "100",
        // A server that makes all these replies at once may be late to greet: no matter of this test.
        "--timeouts-connect-ms",
        "20000",
    ]);
    let before = stack.rss_bytes();
    let mut sleepers = put_to_sleep(&stack, REQUESTS);
    others(&stack);
    if direct() {
        return;
    }
    let growth = stack.rss_bytes().saturating_sub(before);
    println!("growth with {SLEEPERS} readers asleep: {} KiB", growth / 1024);
    // The limit counts buffers; beside them there is what the allocator keeps and what is being
    // read.
    assert!(growth < (LIMIT_MIB + 64) * MIB, "grew by {growth} bytes");

    // Who wakes up gets whole replies and then perhaps an end, never something in between.
    let whole = format!("${SLEEPER_VALUE_BYTES}\r\n{}\r\n", "x".repeat(SLEEPER_VALUE_BYTES));
    let mut served = 0;
    for sleeper in &mut sleepers {
        for _ in 0..REQUESTS {
            match sleeper.reply() {
                Ok(reply) => assert!(reply == whole.as_bytes(), "a broken reply"),
                Err(error) if testkit::conn::is_gone(&error) => break,
                Err(error) => panic!("a slow reader hangs: {error}"),
            }
            served += 1;
        }
    }
    println!("{served} replies to those that woke up");
    stack.assert_alive();
}

#[test]
fn row_21_many_slow_readers_hold_the_others_up_no_longer_than_one() {
    // One client may stop a shared connection for `timeouts.stall_ms`. A dozen of them on a worker
    // must not do so one after the other: that would be twenty-four seconds.
    const REQUESTS: usize = 12;
    let _turn = IN_TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let stack =
        Stack::with(&["--limits-client-out-max-bytes", "4MiB", "--timeouts-stall-ms", "2000"]);
    let mut sleepers = put_to_sleep(&stack, REQUESTS);
    let verdict = others(&stack);
    assert!(verdict.slowest < Duration::from_secs(10), "held up: {verdict}");
    // What they do not take is kept, and none of them is closed.
    for conn in &mut sleepers {
        for _ in 0..REQUESTS {
            conn.reply().expect("a reply for one that reads late");
        }
    }
}

#[test]
fn row_21_slow_readers_hold_nobody_up_with_the_defaults() {
    const REQUESTS: usize = 20;
    let _turn = IN_TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stack = Stack::start();
    let sleepers = put_to_sleep(&stack, REQUESTS);
    let slowest = others(&stack).slowest;
    drop(sleepers);
    // A busy machine is slow for a direct client, too.
    let is_usual = slowest < Duration::from_secs(5);
    assert!(is_usual || slowest < 3 * slowest_directly(REQUESTS), "held up for {slowest:?}");
    stack.assert_alive();
}

#[test]
fn who_writes_all_before_it_reads_is_served() {
    let stack = Stack::start();
    let value = "v".repeat(1_000);
    let mut conn = stack.connect();
    conn.set_timeout(Duration::from_secs(60));
    assert_eq!(conn.ask(&format!("SET written {value}")), "+OK\r\n");
    let count = 150_000;
    conn.send(&request(&["GET", "written"]).repeat(count)).expect("all of it is taken");
    let expected = format!("$1000\r\n{value}\r\n");
    for number in 0..count {
        let reply = conn.reply().expect("a reply");
        assert!(reply == expected.as_bytes(), "reply {number}");
    }
}

// A buffer allocated with the connection would cost ten thousand clients hundreds of megabytes.
#[test]
fn row_22_idle_and_trickling_connections_are_cheap() {
    let fds = raise_fd_limit();
    let count = usize::try_from(fds / 4).unwrap_or(usize::MAX).min(1_500);
    let mut stack = Stack::start();
    // Warm: the first connections pay for what all share.
    let warm: Vec<Conn> = (0..20).map(|_| stack.connect()).collect();
    drop(warm);
    let before = stack.rss_bytes();

    let mut conns: Vec<Conn> = (0..count).map(|_| stack.connect()).collect();
    for (at, conn) in conns.iter_mut().enumerate() {
        // A third idles from the start, a third after a request, a third sends a request byte by
        // byte.
        match at % 3 {
            0 => {}
            1 => assert_eq!(conn.ask("PING"), "+PONG\r\n"),
            _ => conn.send(b"*2\r\n$3\r\nG").expect("a few bytes"),
        }
    }
    let begun = Instant::now();
    assert_eq!(stack.connect().ask("PING"), "+PONG\r\n");
    let accept = begun.elapsed();
    let growth = stack.rss_bytes().saturating_sub(before);
    println!("{count} connections: {} bytes each, accept in {accept:?}", growth / count as u64);
    if !direct() {
        assert!(growth / count as u64 <= 32 * 1024, "{growth} bytes for {count} connections");
    }
    assert!(accept < Duration::from_secs(1), "accepting took {accept:?}");

    for conn in conns.iter_mut().skip(2).step_by(3) {
        for byte in b"ET\r\n$4\r\nnone" {
            conn.send(&[*byte]).expect("one byte");
        }
        conn.send(b"\r\n").expect("the end");
        assert_eq!(conn.reply().expect("reply"), b"$-1\r\n");
    }
    stack.assert_alive();
}

// Idle means no input and nothing owed; the other client stays because it talks.
#[test]
fn row_22_idle_clients_are_closed_where_that_is_configured() {
    if direct() {
        return;
    }
    let stack = Stack::with(&["--timeouts-client-idle-ms", "1000"]);
    let mut idle = stack.connect();
    let mut busy = stack.connect();
    assert_eq!(idle.ask("PING"), "+PONG\r\n");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(busy.ask("PING"), "+PONG\r\n");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(idle.read_to_close().expect("closed"), b"");
    assert_eq!(busy.ask("PING"), "+PONG\r\n");
}

// An announced length is a promise of the client and no reason to allocate anything. What is sent
// here never completes, so it is held (or streamed) for as long as the connections live.
#[test]
fn row_23_hostile_announcements_cost_little_memory() {
    const CONNS: u64 = 60;
    let mut stack = Stack::start();
    stack.connect().ask("PING");
    let before = stack.rss_bytes();
    let mut conns = Vec::new();
    for at in 0..CONNS {
        let mut conn = stack.connect();
        let input: Vec<u8> = match at % 4 {
            0 => b"*1000000\r\n".to_vec(),
            1 => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nabc".to_vec(),
            2 => vec![b'a'; 60_000],
            _ => b"*2\r\n$4\r\nECHO\r\n$400000000\r\n".to_vec(),
        };
        conn.send(&input).expect("input");
        conns.push(conn);
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(stack.connect().ask("PING"), "+PONG\r\n");
    if !direct() {
        let growth = stack.rss_bytes().saturating_sub(before);
        println!("{} bytes for each hostile connection", growth / CONNS);
        assert!(growth <= CONNS * MIB, "{growth} bytes for {CONNS} connections");
    }
    // A command with a great many small arguments is bounded by its bytes, and answered.
    let mut conn = stack.connect();
    let mut many = b"*100001\r\n$3\r\nDEL\r\n".to_vec();
    many.extend(b"$1\r\nk\r\n".repeat(100_000));
    conn.send(&many).expect("a long request");
    assert_eq!(conn.reply().expect("reply"), b":0\r\n");
    stack.assert_alive();
}

// Most of these clients leave without a word, many before they are accepted.
#[test]
fn row_24_a_storm_of_connections_hurts_nobody_who_is_there() {
    let mut stack = Stack::start();
    let mut there = stack.connect();
    let begun = Instant::now();
    thread::scope(|scope| {
        for thread in 0..4 {
            let front = stack.front().clone();
            scope.spawn(move || {
                for number in 0..500 {
                    let mut conn = Conn::to(&front);
                    if (number + thread) % 3 == 0 {
                        assert_eq!(conn.ask("PING"), "+PONG\r\n");
                    }
                }
            });
        }
        while begun.elapsed() < Duration::from_secs(1) {
            assert_eq!(there.ask("SET k v"), "+OK\r\n");
        }
    });
    println!("2000 connections in {:?}", begun.elapsed());
    assert_eq!(there.ask("GET k"), "$1\r\nv\r\n");
    stack.assert_alive();
}

// With no descriptor left the listener stays readable: a loop that only tries to accept again would
// take a whole core.
#[test]
fn row_24_running_out_of_descriptors_is_survived_without_a_busy_loop() {
    if direct() {
        return;
    }
    const FDS: u32 = 160;
    let server = RedisServer::start();
    let mut proxy = Respool::to(RESPOOL, server.endpoint()).fd_limit(FDS).start();
    let mut there = proxy.connect();
    assert_eq!(there.ask("SET k v"), "+OK\r\n");

    // The kernel accepts what the proxy cannot: these connect, and wait or are sent away.
    let crowd: Vec<Conn> = (0..FDS * 2).filter_map(|_| Conn::open(proxy.endpoint()).ok()).collect();
    assert!(crowd.len() > FDS as usize, "{} connections", crowd.len());
    let cpu_before = proxy.process().cpu_time();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        assert_eq!(there.ask("GET k"), "$1\r\nv\r\n");
        thread::sleep(Duration::from_millis(50));
    }
    let cpu = proxy.process().cpu_time() - cpu_before;
    println!("{} descriptors open, {cpu:?} of CPU in two seconds", proxy.process().fds());
    assert!(cpu < Duration::from_secs(1), "{cpu:?} of CPU in two seconds");
    proxy.assert_alive();

    drop(crowd);
    wait::until_true("new clients to be served again", SOON, || {
        Conn::open(proxy.endpoint())
            .and_then(|mut conn| {
                conn.set_timeout(Duration::from_secs(2));
                conn.command(&["GET", "k"])
            })
            .is_ok_and(|reply| reply == b"$1\r\nv\r\n")
    });
}
