//! Calls of a restricted user through respool, really done: nothing of others changes, and nothing of it is shown.
//!
//! That finds what `COMMAND GETKEYS` and `ACL DRYRUN` are silent of: options that a server looks for only when it runs the command.
//!
//! Invariant: what the user may not touch is compared whole, by `DUMP`, with what it was.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::command::{Class, Flags};
use testkit::{Conn, RedisServer, Respool, frames};

use crate::grammar::{Call, Generator, shown};
use crate::{BATCH, RESPOOL, calls, seed, server};

/// Calls that a test makes.
const CALLS: usize = 3_000;

/// What stands in values that the user may not read.
const HIDDEN: &str = "hidden-word";

/// What is put into keys of each type, by the letters of the calls: behind the command and the key.
const DATA: &[(&str, char, &str)] = &[
    ("SET", 'k', "VALUE"),
    ("RPUSH", 'l', "VALUE 2 1"),
    ("SADD", 's', "VALUE f1"),
    ("ZADD", 'z', "1 VALUE 2 f1"),
    ("HSET", 'h', "f1 VALUE f2 1"),
    ("XADD", 'x', "1-1 f1 VALUE"),
    ("GEOADD", 'g', "1.5 1.5 VALUE 1.5 1.6 f1"),
];

/// Has the user do what it likes, and looks after the others.
pub(crate) fn look(name: &str) {
    let Some(server) = server(name, &[]) else { return };
    let mut direct = server.connect();
    // What is dangerous is so by its nature; of that only what has keys in its options is tried.
    let rules = "mallory on >pw ~u:* &u:* +@all -@admin -@dangerous +sort +restore +migrate; default on nopass ~* &* +@all";
    let args = ["--acl-users", rules, "--timeouts-request-ms", "300"];
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(1).args(&args).start();
    // Commands that keep a connection to themselves change what their replies mean.
    let mut generator = Generator::new(seed(), &["u:", "u:", "u:", "s:", "w_"]).only(|id| {
        let row = id.row();
        let is_told = row.flags.has(Flags::PUBSUB) || row.class == Class::Local;
        !row.keys.is_empty() && !is_told && !row.flags.has(Flags::BLOCKING)
    });
    let mut user = login(&proxy);
    let mut succeeded = 0;
    for round in 0..calls(CALLS) / BATCH {
        fill(&mut direct);
        let before = others(&server);
        let calls = std::iter::repeat_with(|| generator.call()).filter(|call| !ends_servers(call));
        let done: Vec<Call> = calls.take(BATCH).collect();
        for call in &done {
            let Some(reply) = said(&mut user, call) else {
                assert!(direct.command(&["PING"]).is_ok(), "{name} ends by {}", shown(call));
                user = login(&proxy);
                continue;
            };
            succeeded += usize::from(!reply.starts_with(b"-"));
            let shows = reply.windows(HIDDEN.len()).any(|bytes| bytes == HIDDEN.as_bytes());
            assert!(!shows, "{name}: {} shows {}", shown(call), reply.escape_ascii());
        }
        let after = others(&server);
        if before != after {
            let changed = |key: &&Vec<u8>| before.get(*key) != after.get(*key);
            let keys = before.keys().chain(after.keys()).filter(changed);
            let keys: Vec<String> = keys.map(|key| key.escape_ascii().to_string()).collect();
            let calls: Vec<String> = done.iter().map(shown).collect();
            panic!("{name}: round {round}: {keys:?} changed by one of\n{}", calls.join("\n"));
        }
    }
    println!("{name}: {succeeded} of {} calls succeeded, seed {}", calls(CALLS), seed());
    assert!(succeeded > calls(CALLS) / 20, "few are valid");
    // What is looked for would be found: an unrestricted user does it.
    fill(&mut direct);
    let (before, mut other) = (others(&server), proxy.connect());
    assert!(other.ask("GET s:k1").contains(HIDDEN));
    assert_eq!(other.ask("SORT u:l1 STORE s:l9"), ":3\r\n");
    assert_ne!(others(&server), before);
}

fn login(proxy: &Respool) -> Conn {
    let mut conn = proxy.connect();
    conn.set_timeout(Duration::from_secs(10));
    assert_eq!(conn.ask("AUTH mallory pw"), "+OK\r\n");
    conn
}

/// Redis 8.2.3 takes the memory for as many numbers as `VADD` and `VSIM` name before it looks at how many there are, and aborts.
fn ends_servers(call: &Call) -> bool {
    let takes_vectors = |name: &Vec<u8>| {
        ["vadd", "vsim"].iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
    };
    call.first().is_some_and(takes_vectors)
        && call.iter().any(|word| word.len() > 9 && word.iter().all(u8::is_ascii_digit))
}

/// The reply; none if the connection is closed for the call.
fn said(conn: &mut Conn, call: &Call) -> Option<Vec<u8>> {
    conn.send(&frames::request(call)).ok()?;
    conn.reply().ok()
}

/// Keys of the user, of others, and of those that a pattern of SORT leads to.
fn fill(direct: &mut Conn) {
    assert_eq!(direct.ask("FLUSHALL"), "+OK\r\n");
    for (command, letter, words) in DATA {
        for (prefix, value) in [("u:", "3"), ("s:", HIDDEN), ("w_", HIDDEN)] {
            for number in 1..=3 {
                let words = words.replace("VALUE", value);
                let reply = direct.ask(&format!("{command} {prefix}{letter}{number} {words}"));
                assert!(!reply.starts_with('-'), "{command} {words}: {reply}");
            }
        }
    }
    for number in 1..=3 {
        assert_eq!(direct.ask(&format!("SET w_{number} {HIDDEN}")), "+OK\r\n");
        assert_eq!(direct.ask(&format!("GEOADD s:{number} 1.5 1.5 {HIDDEN}")), ":1\r\n");
    }
}

/// All keys but those of the user, in every database, with what they hold.
fn others(server: &RedisServer) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut direct, mut all) = (server.connect(), BTreeMap::new());
    for database in 0..16 {
        assert_eq!(direct.ask(&format!("SELECT {database}")), "+OK\r\n");
        let reply = direct.command(&["KEYS", "*"]).expect("a reply");
        let (value, _) = resp::value::parse(&reply).expect("RESP").expect("a whole reply");
        let names = value.as_list().expect("a list").iter().filter_map(|key| key.as_text());
        for name in names.filter(|name| !name.starts_with(b"u:")) {
            let held = direct.command(&[b"DUMP", name]).expect("a reply");
            all.insert([database.to_string().as_bytes(), b"/", name].concat(), held);
        }
    }
    all
}
