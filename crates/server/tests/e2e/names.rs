//! Names that no table has: a NUL behind a command that changes the connection, unknown commands in the server's own words, renamed commands.
//!
//! Servers find a command by the hash of the whole name and compare as C strings, so some `NAME\0suffix` are NAME to them, others at each start. Many are
//! tried, and while they are, other clients of the same connection must see what is theirs.
//!
//! Invariant: no request here depends on which names a server happens to find.

use testkit::frames::{quote, request};
use testkit::redis::major_version;
use testkit::{Conn, RedisServer, Respool};

use crate::setup::{RESPOOL, Stack, direct, long};

/// What changes a connection, or is about the whole server, with arguments that make it do so.
const STATEFUL: &[&[&str]] = &[
    &["SELECT", "1"],
    &["MULTI"],
    &["WATCH", "k"],
    &["SUBSCRIBE", "c"],
    &["MONITOR"],
    &["HELLO", "3"],
    &["QUIT"],
    &["RESET"],
    &["ASKING"],
    &["BLPOP", "nobody", "0"],
    &["DEBUG", "SLEEP", "3"],
    &["SHUTDOWN", "NOSAVE"],
    &["FLUSHALL"],
    &["CLIENT", "REPLY", "OFF"],
    &["CLIENT", "REPLY", "SKIP"],
    &["CONFIG", "SET", "maxclients", "1000"],
    &["SCRIPT", "KILL"],
    &["FUNCTION", "FLUSH"],
    &["OBJECT", "ENCODING", "k"],
    &["MEMORY", "USAGE", "k"],
    &["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"],
    &["XINFO", "STREAM", "s"],
    &["PUBSUB", "CHANNELS"],
    &["LATENCY", "RESET"],
    &["MODULE", "LIST"],
    &["SLOWLOG", "RESET"],
    &["ACL", "SETUSER", "eve", "on", "nopass", "+@all"],
    &["COMMAND", "COUNT"],
    &["CLUSTER", "RESET"],
];

/// The same call with a NUL and a number behind the word at `at`.
fn with_nul(words: &[&str], at: usize, number: usize) -> Vec<u8> {
    let mut words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    words[at].extend_from_slice(format!("\0{number}").as_bytes());
    request(&words)
}

/// Sends many of these names; each is an unknown command, or subcommand.
#[track_caller]
fn spray(conn: &mut Conn, words: &[&str], at: usize, count: usize) {
    let requests: Vec<Vec<u8>> = (0..count).map(|number| with_nul(words, at, number)).collect();
    for reply in conn.pipeline(&requests).expect("a reply to each") {
        let known = !reply.to_ascii_lowercase().starts_with(b"-err unknown ");
        assert!(!known, "{words:?} with a NUL behind word {at}: {}", quote(&reply, 200));
    }
}

#[test]
fn a_name_with_a_nul_changes_nothing_for_those_who_share_the_connection() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let proxy = Some(Respool::to(RESPOOL, server.endpoint()).workers(1).start());
    let stack = Stack { proxy, server };
    let count = if long() { 6_000 } else { 600 };
    let mut other = stack.connect();
    assert_eq!(other.ask("SET k v"), "+OK\r\n");
    for words in STATEFUL {
        for at in 0..words.len().min(2) {
            // Only a container's second word is part of its name.
            if at == 1 && !is_container(words[0]) {
                continue;
            }
            let mut hostile = stack.connect();
            spray(&mut hostile, words, at, count);
            for number in 0..4 {
                let said = format!("{}-{at}-{number}", words.join("-"));
                assert_eq!(other.ask(&format!("SETEX own 60 {said}")), "+OK\r\n");
                assert_eq!(other.ask("GET own"), format!("${}\r\n{said}\r\n", said.len()));
                assert_eq!(other.ask("GET k"), "$1\r\nv\r\n");
            }
        }
    }
    let mut server = stack.server.connect();
    assert_eq!(server.ask("DBSIZE"), ":2\r\n");
    assert!(!server.ask("ACL LIST").contains("eve"), "a user was made");
}

fn is_container(name: &str) -> bool {
    engine::command::lookup(name.as_bytes()).is_some_and(|id| id.row().is_container())
}

/// Names and arguments that no server knows, in any bytes.
fn unknown_calls() -> Vec<Vec<Vec<u8>>> {
    let long = |len: usize| vec![b'n'; len];
    let bytes = |text: &[u8]| text.to_vec();
    let mut names: Vec<Vec<u8>> = [
        &b"nosuch"[..],
        b"NoSuch",
        b"",
        b" ",
        b"a b",
        b"config|get",
        b"client|reply",
        b"no\r\nsuch",
        b"\n",
        b"nosuch\r\n",
        b"\xff\xfe",
        b"nosuch\0x",
        b"\0",
        b"'q'",
        b"%s%n",
    ]
    .iter()
    .map(|name| name.to_vec())
    .collect();
    names.extend([127, 128, 129, 200].map(long));
    let args: Vec<Vec<Vec<u8>>> = vec![
        vec![],
        vec![bytes(b"a")],
        vec![bytes(b"a"), bytes(b"b c")],
        vec![long(200), bytes(b"y")],
        vec![long(120), long(20), bytes(b"z")],
        vec![long(125), bytes(b"y")],
        vec![bytes(b"ab"); 40],
        vec![bytes(b"a\0b"), bytes(b"c\r\nd")],
        vec![bytes(b""), bytes(b"\xff")],
    ];
    let mut calls = Vec::new();
    for name in &names {
        calls.extend(args.iter().map(|args| [std::slice::from_ref(name), &args[..]].concat()));
    }
    // Before 7.0 each container has its own words and its own order of checks.
    if major_version() >= 7 {
        let subs = [&b"nope"[..], b"", b"no\r\npe", b"nope\0x", b"\xff", b"get|x", b"NoPe"];
        let subs = subs.iter().map(|sub| sub.to_vec()).chain([127, 128, 200].map(long));
        let subs: Vec<Vec<u8>> = subs.collect();
        let mut containers: Vec<&str> = STATEFUL.iter().map(|words| words[0]).collect();
        containers.retain(|name| is_container(name));
        containers.dedup();
        for name in containers {
            for sub in &subs {
                calls.push(vec![name.as_bytes().to_vec(), sub.clone()]);
                calls.push(vec![name.to_lowercase().into_bytes(), sub.clone(), bytes(b"k")]);
            }
        }
    }
    calls
}

#[test]
fn errors_for_unknown_names_are_the_servers_to_the_byte() {
    let stack = Stack::start();
    let (mut server, mut front) = (stack.server.connect(), stack.connect());
    front.ask("GET k");
    let calls = unknown_calls();
    let requests: Vec<Vec<u8>> = calls.iter().map(|args| request(args)).collect();
    let expected = server.pipeline(&requests).expect("replies");
    let got = front.pipeline(&requests).expect("replies");
    for ((args, expected), got) in requests.iter().zip(&expected).zip(&got) {
        assert_eq!(quote(got, 400), quote(expected, 400), "{}", quote(args, 200));
    }
    assert!(requests.len() > 150, "only {}", requests.len());
    // In a transaction it aborts it.
    for args in requests.iter().step_by(7) {
        let whole = [request(&["MULTI"]), request(&["SET", "k", "1"]), args.clone()];
        let whole = [&whole[..], &[request(&["EXEC"]), request(&["GET", "k"])]].concat();
        let expected = server.pipeline(&whole).expect("replies");
        let got = front.pipeline(&whole).expect("replies");
        assert_eq!(got, expected, "{}", quote(args, 200));
    }
}

#[test]
fn a_renamed_command_works_and_its_connection_serves_nobody_else() {
    if direct() {
        return;
    }
    let server = RedisServer::start_with(&["--rename-command", "SELECT", "secret-select"]);
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(1).start();
    let (mut own, mut other) = (proxy.connect(), proxy.connect());
    assert_eq!(other.ask("SET k v"), "+OK\r\n");
    for _ in 0..20 {
        assert_eq!(own.ask("SECRET-SELECT 1"), "+OK\r\n");
        assert_eq!(own.ask("GET k"), "$1\r\nv\r\n");
        assert_eq!(other.ask("GET k"), "$1\r\nv\r\n");
    }
    let list = server.connect().ask("CLIENT LIST");
    assert!(!list.contains(" db=1 "), "{list}");
}

#[test]
fn a_server_that_tells_nobody_its_commands_answers_for_itself() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let said = server.connect().ask("ACL SETUSER proxy on >pw ~* &* +@all -command");
    assert_eq!(said, "+OK\r\n");
    let url = format!("redis://proxy:pw@127.0.0.1:{}", port(&server));
    let proxy = Respool::to_url(RESPOOL, &url).workers(1).start();
    let (mut direct, mut front) = (server.connect(), proxy.connect());
    assert_eq!(front.ask("SET k v"), "+OK\r\n");
    for line in ["NOSUCH a b", "OBJECT NOPE k", "NOSUCH"] {
        assert_eq!(front.ask(line), direct.ask(line), "{line}");
        assert_eq!(front.ask("GET k"), "$1\r\nv\r\n");
    }
    spray(&mut front, &["SELECT", "1"], 0, 300);
    assert_eq!(front.ask("GET k"), "$1\r\nv\r\n");
}

fn port(server: &RedisServer) -> u16 {
    match server.endpoint() {
        testkit::Endpoint::Tcp(address) => address.port(),
        other => panic!("{other:?} has no port"),
    }
}
