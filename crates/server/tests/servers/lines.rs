//! Line breaks that a server puts into the line of a reply: which commands have them, and that respool keeps them from everybody else.
//!
//! Invariant: a command whose reply breaks lines at some server is one behind which respool sends a delimiter.

use engine::command::{Class, CommandId, Flags};
use engine::delimiter::breaks_lines;
use testkit::{Conn, RedisServer, Respool, frames};

use crate::{RESPOOL, calls, seed, server};

/// Shapes of arguments that each command is tried with.
const SHAPES: usize = 25;

/// Arguments.
const WORDS: [&[u8]; 9] =
    [b"x\r\n$1\r\na\r\n+y", b"\r\n+y", b"x\r\ny", b"\r", b"\n", b"k", b"1", b"0", b"x\0\r\n+y"];

/// What ends servers, connections, or the test.
const LEFT_OUT: [&str; 31] = [
    "acl|load",
    "acl|save",
    "auth",
    "bgrewriteaof",
    "bgsave",
    "client",
    "cluster",
    "config|rewrite",
    "config|set",
    "debug",
    "discard",
    "exec",
    "failover",
    "flushall",
    "hello",
    "migrate",
    "module",
    "monitor",
    "multi",
    "psync",
    "quit",
    "replconf",
    "replicaof",
    "reset",
    "restore-asking",
    "save",
    "script|debug",
    "script|kill",
    "shutdown",
    "slaveof",
    "sync",
];

/// Scripts, and what is said about them, with line breaks where a client can put some.
const TEXTS: [&[&str]; 24] = [
    &["EVAL", "error('x\\r\\n$1\\r\\na\\r\\n+y')", "0"],
    &["EVAL", "error({err='x\\r\\n+y'})", "0"],
    &["EVAL", "error('x\\0\\r\\n+y')", "0"],
    &["EVAL", "assert(false, 'x\\r\\n+y')", "0"],
    &["EVAL", "return _G['x\\r\\n+y']", "0"],
    &["EVAL", "return ({})['x\\r\\n+y'].z", "0"],
    &["EVAL", "return redis['x\\r\\n+y']()", "0"],
    &["EVAL", "redis.call('x\\r\\n+y')", "0"],
    &["EVAL", "return {err='x\\r\\n+y'}", "0"],
    &["EVAL", "return {ok='x\\r\\n+y'}", "0"],
    &["EVAL", "return {{ok='x\\r\\n+y'},{err='x\\r\\n$9\\r\\n'}}", "0"],
    &["EVAL", "return {{err='x\\0\\r\\n+y'},{ok='x\\0\\r\\n+y'}}", "0"],
    &["EVAL", "return redis.error_reply('x\\r\\n+y')", "0"],
    &["EVAL", "return 1 'x\\r\\n+y'", "0"],
    &["EVAL", "#!x\r+y\nreturn 1", "0"],
    &["EVAL_RO", "error('x\\r\\n+y')", "0"],
    &["FCALL", "bad\r\n+y", "0"],
    &["FCALL", "bad", "0"],
    &["FUNCTION", "LIST", "x\r\n$1\r\na\r\n+y"],
    &["FUNCTION", "LOAD", "#!lua name=a\nreturn 1 'x\r\\r\\n+y'"],
    &["FUNCTION", "LOAD", "#!lua name=a\nerror('x\\r\\n+y')"],
    &["FUNCTION", "LOAD", "#!x\r+y\nreturn"],
    &["FUNCTION", "DELETE", "x\r\n+y"],
    &["SCRIPT", "LOAD", "return 1 'x\r\\r\\n+y'"],
];

/// Looks at what the server answers itself.
pub(crate) fn compare(name: &str) {
    let Some(server) = server(name, &[]) else { return };
    let mut rng = oorandom(seed());
    let mut conn = server.connect();
    for command in CommandId::all().filter(|command| is_tried(*command)) {
        for _ in 0..calls(SHAPES) {
            let mut call: Vec<&[u8]> = command.name().split('|').map(str::as_bytes).collect();
            call.extend((0..rng() % 5).map(|_| WORDS[rng() as usize % WORDS.len()]));
            if breaks_a_line(&server, &mut conn, &call) {
                let shown: Vec<_> = call.iter().map(|arg| arg.escape_ascii().to_string()).collect();
                assert!(breaks_lines(Some(command)), "{name}: {shown:?} breaks a line");
            }
        }
    }
}

fn is_tried(command: CommandId) -> bool {
    let row = command.row();
    let (name, container) = (row.name, row.name.split('|').next().unwrap_or_default());
    let waits = row.flags.has(Flags::BLOCKING) || row.flags.has(Flags::PUBSUB);
    // A word of its own is no call.
    let is_call = !row.is_container();
    is_call
        && !waits
        && row.class != Class::Local
        && !LEFT_OUT.contains(&name)
        && !LEFT_OUT.contains(&container)
}

/// Whether the reply to this call is more than one frame.
fn breaks_a_line(server: &RedisServer, conn: &mut Conn, call: &[&[u8]]) -> bool {
    let requests = [frames::request(call), frames::request(&["ECHO", "behind"])];
    match conn.pipeline(&requests) {
        Ok(replies) if replies[1] == b"$6\r\nbehind\r\n" => false,
        _ => {
            *conn = server.connect();
            true
        }
    }
}

/// A xorshift generator.
fn oorandom(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 16
    }
}

/// Says all of it through respool while others share the connection.
pub(crate) fn look(name: &str) {
    let Some(server) = server(name, &[]) else { return };
    let proxy = Respool::to(RESPOOL, server.endpoint()).workers(1).start();
    let mut writer = proxy.connect();
    // A function that fails so; before Redis 7 there are none.
    let function =
        "#!lua name=l\nredis.register_function('bad', function() error('x\\r\\n+y') end)";
    let _ = writer.command(&["FUNCTION", "LOAD", function]);
    let requests: Vec<Vec<u8>> = TEXTS.iter().map(|text| frames::request(text)).collect();
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..3)
            .map(|n| {
                let proxy = &proxy;
                scope.spawn(move || honest(proxy, n))
            })
            .collect();
        let mut round = 0;
        while round < calls(4) || others.iter().any(|other| !other.is_finished()) {
            let mut hostile = proxy.connect();
            let replies = hostile.pipeline(&requests).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(replies.len(), TEXTS.len(), "{name}");
            assert!(hostile.surplus().is_empty(), "{name}: {:?}", hostile.surplus());
            let inside = requests[round % requests.len()].clone();
            let [multi, exec, behind] =
                [&["MULTI"][..], &["EXEC"], &["ECHO", "behind"]].map(frames::request);
            let last = hostile.pipeline(&[multi, inside, exec, behind]).expect("replies").pop();
            assert_eq!(last.as_deref(), Some(&b"$6\r\nbehind\r\n"[..]), "{name}");
            round += 1;
        }
        others.into_iter().for_each(|other| other.join().expect("an honest client"));
    });
}

/// Asks many times for what nobody else asks for, over the connection that all share.
fn honest(proxy: &Respool, number: usize) {
    let mut conn = proxy.connect();
    for asked in 0..300 {
        let word = format!("{number}-{asked}");
        assert_eq!(conn.ask(&format!("SET own-{number} {word}")), "+OK\r\n");
        assert_eq!(
            conn.ask(&format!("GET own-{number}")),
            format!("${}\r\n{word}\r\n", word.len())
        );
    }
}
