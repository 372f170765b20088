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
const MARK: &[u8] = b"hidden-word";

/// What belongs to others, of each type.
const OTHERS: &[&[&str]] = &[
    &["SET", "s:1", "hidden-word"],
    &["RPUSH", "s:2", "hidden-word", "2"],
    &["SADD", "s:3", "hidden-word", "2"],
    &["ZADD", "s:4", "1", "hidden-word"],
    &["HSET", "s:5", "f1", "hidden-word"],
    &["XADD", "s:6", "1-1", "f1", "hidden-word"],
    &["GEOADD", "s:7", "1.5", "1.5", "hidden-word"],
    &["SET", "w_1", "hidden-word"],
    &["HSET", "w_2", "f", "hidden-word"],
];

/// What belongs to the user, so that calls find something.
const OWN: &[&[&str]] = &[
    &["SET", "u:1", "1"],
    &["RPUSH", "u:2", "1", "2"],
    &["SADD", "u:3", "1", "2"],
    &["ZADD", "u:1z", "1", "a"],
    &["XADD", "u:4", "1-1", "f1", "1"],
    &["GEOADD", "u:5", "1.5", "1.5", "v"],
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
    let mut generator = Generator::new(seed(), &["u:", "u:", "s:", "w_"]).only(|id| {
        let row = id.row();
        let is_told = row.flags.has(Flags::PUBSUB) || row.class == Class::Local;
        !row.keys.is_empty() && !is_told && !row.flags.has(Flags::BLOCKING)
    });
    let mut user = login(&proxy);
    for round in 0..calls(CALLS) / BATCH {
        fill(&mut direct);
        let before = others(&server);
        let done: Vec<Call> = (0..BATCH).map(|_| generator.call()).collect();
        for call in &done {
            let Some(reply) = said(&mut user, call) else {
                user = login(&proxy);
                continue;
            };
            let shows = reply.windows(MARK.len()).any(|bytes| bytes == MARK);
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
}

fn login(proxy: &Respool) -> Conn {
    let mut conn = proxy.connect();
    conn.set_timeout(Duration::from_secs(10));
    assert_eq!(conn.ask("AUTH mallory pw"), "+OK\r\n");
    conn
}

/// The reply; none if the connection is closed for the call.
fn said(conn: &mut Conn, call: &Call) -> Option<Vec<u8>> {
    conn.send(&frames::request(call)).ok()?;
    conn.reply().ok()
}

fn fill(direct: &mut Conn) {
    assert_eq!(direct.ask("FLUSHALL"), "+OK\r\n");
    for words in OTHERS.iter().chain(OWN) {
        let reply = direct.command(words).expect("a reply");
        assert!(!reply.starts_with(b"-"), "{words:?}: {}", reply.escape_ascii());
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
