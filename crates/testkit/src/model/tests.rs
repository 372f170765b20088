//! The model against its own promises, and against a real server.

use super::*;
use crate::frames::Replies;
use crate::redis::RedisServer;

fn talk(model: &mut Model, conn: &mut ModelConn, input: &str) -> String {
    let mut out = Vec::new();
    let _ = model.feed(conn, input.as_bytes(), &mut out);
    String::from_utf8(out).expect("text")
}

/// One command a line. Each must give the same bytes as a real server of version 7.0 or later.
const SAME_AS_SERVER: &str = "\
SET k v|GET k|get missing|STRLEN k|APPEND k w|GET k|SET k x NX|SET k x XX|SET n 1 XX|SET k y GET|SET k y NX XX
INCR n|INCR n|DECR n|INCRBY n 40|DECRBY n 2|GET n|INCR k|INCRBY n x|INCRBY n 9223372036854775807|DECRBY n -9223372036854775808
SET big 9223372036854775807|INCR big|MSET a 1 b 2|MSET a|MSET a 1 b|MGET a b missing n|EXISTS a a b missing|DEL a missing|DBSIZE
LPUSH l 1 2 3|LLEN l|LLEN missing|LLEN k|GET l|INCR l|APPEND l x|LPUSH k x|MGET l k|STRLEN l|SET l x GET|SET l now|LPUSH l
PING|PING hello|PING a b|ECHO hello|ECHO|GET|GET a b|SET k|FOO|FOO a b|foo bar baz|SELECT 1|GET k|SET k one|SELECT 0|GET k|SELECT 16|SELECT x
CLIENT GETNAME|CLIENT SETNAME joe|CLIENT GETNAME|CLIENT SETNAME|CLIENT FOO|CLIENT ID x|CLIENT SETNAME x\u{1}y|AUTH x|AUTH a b|HELLO 4|HELLO x|HELLO 3 FOO|HELLO 2 SETNAME
TOUCH a b missing|UNLINK b missing|KEYS nosuch*|KEYS|SCAN|SCAN x|SCAN 0 COUNT x|SCAN 0 COUNT 0|SCAN 0 MATCH|SCAN 0 FOO 1|ROLE|ROLE x
COMMAND FOO|COMMAND INFO nope|FLUSHDB x|FLUSHALL sync|GET k|RANDOMKEY|DBSIZE|SCAN 0 COUNT 100|SET only 1|KEYS o*y|KEYS ?nly|SCAN 0 COUNT 100|RANDOMKEY
DEL only|RESET|EXISTS k
EXEC|DISCARD|UNWATCH|MULTI|EXEC|MULTI|DISCARD|MULTI|SET k 1|INCR k|LPUSH k x|GET k|SELECT 1|GET k|EXEC|GET k|SELECT 0|MULTI|MULTI|WATCH k|GET k|EXEC
MULTI|SET k|GET k|EXEC|MULTI|NOSUCH|EXEC|WATCH k n|SET k 5|MULTI|INCR k|EXEC|WATCH k|GET k|MULTI|INCR k|EXEC|WATCH k|INCR k|UNWATCH|MULTI|GET k|EXEC
WATCH k|INCR k|MULTI|DISCARD|MULTI|GET k|EXEC|MULTI|RESET|EXEC
RPUSH q 1 2|RPUSH q 3|BLPOP q 0|BLPOP none q 1|BLPOP k 0|BLPOP q|BLPOP q x|BLPOP q -1|MULTI|BLPOP q 0|BLPOP q 0|EXEC|LLEN q|RPUSH k x";

#[test]
fn answers_as_a_real_server_does() {
    let server = RedisServer::start();
    for hello in ["", "HELLO 3\r\n"] {
        let mut real = server.connect();
        let mut model = Model::new();
        let mut conn = model.conn();
        if !hello.is_empty() {
            real.send(hello.as_bytes()).expect("send");
            real.reply().expect("greeting");
            talk(&mut model, &mut conn, hello);
        }
        for command in SAME_AS_SERVER.lines().flat_map(|line| line.split('|')) {
            let line = format!("{command}\r\n");
            real.send(line.as_bytes()).expect("send");
            let expected = String::from_utf8(real.reply().expect("reply")).expect("text");
            assert_eq!(talk(&mut model, &mut conn, &line), expected, "{command} ({hello:?})");
        }
    }
}

#[test]
fn who_waits_is_served_in_the_order_of_coming_and_by_the_whole_request() {
    let mut model = Model::new();
    let [mut first, mut second, mut third, mut other] = [(); 4].map(|()| model.conn());
    for conn in [&mut first, &mut second, &mut third] {
        assert_eq!(talk(&mut model, conn, "BLPOP none q 0\r\n"), "");
    }
    model.leave(&second);
    let pushed = talk(&mut model, &mut other, "MULTI\r\nLPUSH q a\r\nLPUSH q b\r\nEXEC\r\n");
    assert_eq!(pushed, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n");
    for (conn, element) in [(&first, "b"), (&third, "a")] {
        let mut out = Vec::new();
        model.deliver(conn, &mut out);
        assert_eq!(out, format!("*2\r\n$1\r\nq\r\n$1\r\n{element}\r\n").as_bytes());
    }
    assert_eq!(talk(&mut model, &mut first, "LLEN q\r\n"), ":0\r\n");
    let [push, pop] = [Effect::Push, Effect::Pop];
    let log = [push(b"a".to_vec()), push(b"b".to_vec()), pop(b"b".to_vec()), pop(b"a".to_vec())];
    assert_eq!(model.effects(0, b"q"), log);
}

/// Who says it (0 listens, 1 publishes), what, and how many frames the listener and the publisher get.
const LISTENING: &[(usize, &str, usize, usize)] = &[
    (0, "SUBSCRIBE a b a", 3, 0),
    (0, "PSUBSCRIBE a* ?", 2, 0),
    (0, "SSUBSCRIBE a", 1, 0),
    (0, "PING", 1, 0),
    (0, "PING x", 1, 0),
    (0, "GET k", 1, 0),
    (1, "PUBLISH a one", 3, 1),
    (1, "PUBLISH c two", 1, 1),
    (1, "PUBLISH nobody x", 0, 1),
    (1, "SPUBLISH a three", 1, 1),
    (1, "SPUBLISH b x", 0, 1),
    (0, "UNSUBSCRIBE a nothing", 2, 0),
    (0, "UNSUBSCRIBE", 1, 0),
    (0, "UNSUBSCRIBE", 1, 0),
    (1, "PUBLISH b x", 1, 1),
    (0, "PUNSUBSCRIBE a*", 1, 0),
    (0, "PUNSUBSCRIBE ?", 1, 0),
    (0, "SUNSUBSCRIBE", 1, 0),
    (1, "PUBLISH a x", 0, 1),
    (0, "SUBSCRIBE", 1, 0),
    (0, "GET k", 1, 0),
];

fn frames_of(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((_, len)) = resp::value::parse(bytes).expect("frames") {
        frames.push(bytes[..len].to_vec());
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty(), "half a frame");
    frames
}

#[test]
fn those_who_listen_hear_what_a_real_server_tells_them() {
    let server = RedisServer::start();
    for hello in ["HELLO 2\r\n", "HELLO 3\r\n"] {
        let mut real = [server.connect(), server.connect()];
        let mut model = Model::new();
        let mut conns = [model.conn(), model.conn()];
        real[0].send(hello.as_bytes()).expect("send");
        real[0].reply().expect("greeting");
        talk(&mut model, &mut conns[0], hello);
        for (who, line, listener, publisher) in LISTENING {
            let line = format!("{line}\r\n");
            real[*who].send(line.as_bytes()).expect("send");
            let mut given = [String::new(), String::new()];
            given[*who] = talk(&mut model, &mut conns[*who], &line);
            let mut letters = Vec::new();
            model.deliver(&conns[0], &mut letters);
            given[0].push_str(&String::from_utf8(letters).expect("text"));
            for (at, frames) in [listener, publisher].into_iter().enumerate() {
                let mut expected: Vec<Vec<u8>> =
                    (0..*frames).map(|_| real[at].reply().expect("a frame")).collect();
                let mut given = frames_of(given[at].as_bytes());
                if line.starts_with("PUBLISH") {
                    // Which pattern comes first is a matter of the server's hash seed.
                    expected.sort();
                    given.sort();
                }
                let text = |frames: Vec<Vec<u8>>| String::from_utf8(frames.concat());
                assert_eq!(text(given), text(expected), "{line} ({hello:?}), connection {at}");
            }
        }
    }
}

#[test]
fn greets_in_both_protocols() {
    let mut model = Model::new();
    let mut conn = model.conn();
    assert!(talk(&mut model, &mut conn, "HELLO\r\n").starts_with("*14\r\n$6\r\nserver\r\n"));
    let greeting = talk(&mut model, &mut conn, "HELLO 3 SETNAME bob\r\n");
    assert!(greeting.starts_with("%7\r\n"), "{greeting}");
    assert!(greeting.contains("$5\r\nproto\r\n:3\r\n"));
    assert_eq!(talk(&mut model, &mut conn, "GET nothing\r\n"), "_\r\n");
    assert_eq!(talk(&mut model, &mut conn, "CLIENT GETNAME\r\n"), "$3\r\nbob\r\n");
}

#[test]
fn password_is_demanded() {
    let mut model = Model::new();
    model.require_password(b"secret");
    let mut conn = model.conn();
    assert_eq!(talk(&mut model, &mut conn, "GET k\r\n"), "-NOAUTH Authentication required.\r\n");
    assert!(talk(&mut model, &mut conn, "AUTH wrong\r\n").starts_with("-WRONGPASS"));
    assert!(talk(&mut model, &mut conn, "HELLO 3\r\n").starts_with("-NOAUTH HELLO"));
    assert!(talk(&mut model, &mut conn, "HELLO 3 AUTH default secret\r\n").starts_with("%7"));
    assert_eq!(talk(&mut model, &mut conn, "GET k\r\n"), "_\r\n");
}

#[test]
fn every_cut_of_the_input_gives_the_same_output() {
    let input = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\nGET k\r\n\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\nQUIT\r\nGET k\r\n";
    let expected = "+OK\r\n$2\r\n\r\n\r\n:1\r\n+OK\r\n";
    for cut in 0..=input.len() {
        let mut model = Model::new();
        let mut conn = model.conn();
        let mut out = Vec::new();
        let _ = model.feed(&mut conn, &input[..cut], &mut out);
        assert_eq!(model.feed(&mut conn, &input[cut..], &mut out), After::Close);
        assert_eq!(String::from_utf8_lossy(&out), expected, "cut at {cut}");
        assert_eq!(model.executed(), 4, "nothing is executed after QUIT");
    }
}

#[test]
fn what_was_applied_is_logged_in_order() {
    let mut model = Model::new();
    let mut conn = model.conn();
    talk(&mut model, &mut conn, "INCR n\r\nINCRBY n 4\r\nINCR k x\r\nAPPEND a x\r\nDEL a b\r\n");
    let incr = |by, result| Effect::Incr { by, result };
    assert_eq!(model.effects(0, b"n"), [incr(1, 1), incr(4, 5)]);
    assert_eq!(model.effects(0, b"a"), [Effect::Append(b"x".to_vec()), Effect::Delete]);
    assert_eq!(model.effects(0, b"k"), [], "an error changes nothing");
    assert_eq!(model.text(0, b"n"), Some(&b"5"[..]));
    assert_eq!(model.effects(1, b"n"), [], "databases are apart");
}

#[test]
fn command_describes_itself_in_whole_frames() {
    let mut model = Model::new();
    for hello in ["HELLO 2\r\n", "HELLO 3\r\n"] {
        let mut conn = model.conn();
        talk(&mut model, &mut conn, hello);
        let mut replies = Replies::default();
        replies
            .push(talk(&mut model, &mut conn, "COMMAND\r\nCOMMAND INFO get nope\r\n").as_bytes());
        let whole = replies.pop().expect("RESP").expect("COMMAND");
        assert!(whole.len() > 1000);
        let info = replies.pop().expect("RESP").expect("COMMAND INFO");
        assert!(info.starts_with(b"*2\r\n*10\r\n$3\r\nget\r\n:2\r\n"));
        assert!(replies.rest().is_empty(), "{:?}", replies.rest());
    }
}

#[test]
fn command_info_agrees_with_the_servers_own() {
    let server = RedisServer::start();
    let mut real = server.connect();
    let mut model = Model::new();
    let mut conn = model.conn();
    for (name, flags) in [("get", "+readonly\r\n+fast"), ("mget", "+readonly\r\n+fast")] {
        let expected = real.ask(&format!("COMMAND INFO {name}"));
        let given = talk(&mut model, &mut conn, &format!("COMMAND INFO {name}\r\n"));
        assert!(expected.contains(flags) && given.contains(flags));
        // The model has fewer ACL categories and key flags; its specs and tips are the server's.
        let specs = |text: &str| text[text.find("begin_search").expect("a key spec")..].to_owned();
        assert_eq!(specs(&given), specs(&expected), "{name}");
    }
}
