//! Equal reads of many clients that are sent once: the server counts fewer of them, and every client gets what it would have got alone.
//!
//! Invariant: reads of different clients meet, as the proxy stands still while they are sent; each is either counted by the server or by the proxy,
//! and no reply is older than what was acknowledged before its request.

use testkit::{Conn, RedisServer, Respool};

use crate::setup::{RESPOOL, direct, info_field};

const CLIENTS: usize = 50;
const ROUNDS: usize = 100;

/// One worker, which waits a little for more input.
const ARGS: [&str; 6] = [
    "--batching-coalesce-reads",
    "true",
    "--batching-gather-us",
    "2000",
    "--batching-gather-clients-min",
    "2",
];

/// How often the server did this command since its counters began.
fn calls(server: &mut Conn, command: &str) -> usize {
    let line = info_field(server, "commandstats", &format!("cmdstat_{command}"));
    let line = line.unwrap_or_else(|| panic!("{command} was never called"));
    let calls = line.split(',').find_map(|field| field.strip_prefix("calls="));
    calls.expect("a count").parse().expect("a number")
}

fn bulk(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    resp::encode::bulk(&mut out, value);
    out
}

#[test]
fn the_server_does_fewer_reads_and_all_replies_are_right() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&ARGS).workers(1).start();
    let mut conns: Vec<Conn> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    let mut writer = proxy.connect();
    let mut at_server = server.connect();
    assert_eq!(at_server.ask("CONFIG RESETSTAT"), "+OK\r\n");
    for round in 0..ROUNDS {
        let value = format!("value of round {round}");
        assert_eq!(writer.ask(&format!("SET hot {round}")), "+OK\r\n");
        writer.command(&["HSET", "hash", "field", &value]).expect("a reply");
        proxy.pause();
        for (number, conn) in conns.iter_mut().enumerate() {
            // Each reads what all read, in its own order, and something of its own between.
            let own = format!("own:{number}");
            let lines: [&[&str]; 4] = [
                &["GET", "hot"],
                &["SET", &own, &value],
                &["HGET", "hash", "field"],
                &["GET", &own],
            ];
            lines.iter().for_each(|line| conn.send_command(line).expect("room"));
        }
        proxy.resume();
        for conn in &mut conns {
            assert_eq!(conn.reply().expect("a reply"), bulk(round.to_string().as_bytes()));
            assert_eq!(conn.reply().expect("a reply"), b"+OK\r\n");
            for _ in 0..2 {
                assert_eq!(conn.reply().expect("a reply"), bulk(value.as_bytes()));
            }
        }
    }
    let made = 3 * CLIENTS * ROUNDS;
    let done = calls(&mut at_server, "get") + calls(&mut at_server, "hget");
    let coalesced = info_field(&mut writer, "stats", "coalesced_reads").expect("a field");
    let coalesced: usize = coalesced.parse().expect("a number");
    assert_eq!(done + coalesced, made, "a read that nobody counted");
    // Of three reads of a client the first is shared: the others stand behind its write.
    assert!(done < made * 3 / 4, "{done} of {made} reads were done by the server");
    assert_eq!(calls(&mut at_server, "set"), (CLIENTS + 1) * ROUNDS, "writes are never shared");
}

#[test]
fn a_large_value_goes_to_all_that_asked_for_it() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&ARGS).workers(1).start();
    let mut conns: Vec<Conn> = (0..8).map(|_| proxy.connect()).collect();
    let value: Vec<u8> = (0..3 << 20).map(|at: u32| b'a' + (at % 23) as u8).collect();
    let set: [&[u8]; 3] = [b"SET", b"large", &value];
    assert_eq!(conns[0].command(&set).expect("a reply"), b"+OK\r\n");
    let wanted = bulk(&value);
    for _ in 0..10 {
        for conn in &mut conns {
            conn.send_command(&["GET", "large"]).expect("room");
            conn.send_command(&["STRLEN", "large"]).expect("room");
        }
        for conn in &mut conns {
            assert!(conn.reply().expect("a reply") == wanted);
            assert_eq!(conn.reply().expect("a reply"), b":3145728\r\n");
        }
    }
    let coalesced = info_field(&mut conns[0], "stats", "coalesced_reads").expect("a field");
    assert_ne!(coalesced, "0", "no two of them met");
}
