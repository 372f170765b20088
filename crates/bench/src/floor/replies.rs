//! What the floor answers to each command: the reply that a server gives in the scenarios, put together in advance.
//!
//! `GET` has a value of the chosen size, `MGET` as many as it has keys, and so on for what load generators send, with
//! what they ask before they begin (`CONFIG GET`, `INFO`, `CLUSTER`, `HELLO`).
//!
//! What it is not: a store. Nothing is remembered, each key exists, and a command that is not known here is answered by
//! an error: a figure of guessed replies would be no lower bound of anything.
//!
//! Invariant: each request that is no request of nothing gets exactly one whole reply.

use resp::encode;
use resp::{Args, Protocol, Request};

use super::limits::REPLY_BYTES_MAX;

/// The replies of a floor.
#[derive(Debug)]
pub(super) struct Replies {
    /// A whole bulk: `$3\r\nxxx\r\n`.
    value: Vec<u8>,
}

impl Replies {
    /// With values of this size.
    pub(super) fn new(value_bytes: u32) -> Self {
        let mut value = Vec::new();
        encode::bulk(&mut value, &vec![b'x'; value_bytes as usize]);
        Self { value }
    }

    /// Answers one request that is not inline. `frame` begins with its first byte and holds its head at least;
    /// `protocol` is that of the connection, which `HELLO` changes.
    #[inline]
    pub(super) fn answer(
        &self,
        request: &Request,
        frame: &[u8],
        protocol: &mut Protocol,
        out: &mut Vec<u8>,
    ) {
        if request.args == 0 {
            return;
        }
        match Kind::of(request.head[0].of(frame)) {
            Kind::Ok => out.extend_from_slice(b"+OK\r\n"),
            Kind::Value => out.extend_from_slice(&self.value),
            Kind::One => out.extend_from_slice(b":1\r\n"),
            Kind::ValuesBehind(skipped) => self.values(request.args.saturating_sub(skipped), out),
            Kind::Rare => self.rare(request, frame, protocol, out),
        }
    }

    /// An array of `count` values.
    fn values(&self, count: u32, out: &mut Vec<u8>) {
        if (count as usize).saturating_mul(self.value.len()) > REPLY_BYTES_MAX {
            return encode::error(
                out,
                b"ERR so many values are more than the floor answers at once",
            );
        }
        encode::array(out, count as usize);
        for _ in 0..count {
            out.extend_from_slice(&self.value);
        }
    }

    /// What is asked seldom, or by one test of redis-benchmark only.
    #[inline(never)]
    fn rare(&self, request: &Request, frame: &[u8], protocol: &mut Protocol, out: &mut Vec<u8>) {
        let [name, first, second] = request.head.map(|span| span.of(frame));
        match name.to_ascii_uppercase().as_slice() {
            b"PING" if request.args == 1 => encode::simple(out, b"PONG"),
            b"PING" | b"ECHO" if request.args == 2 => match first.len()
                == request.head[1].len as usize
            {
                true => encode::bulk(out, first),
                false => encode::error(out, b"ERR the floor keeps no argument as long as this one"),
            },
            b"LRANGE" => self.range(frame, out),
            b"ZPOPMIN" => {
                encode::array(out, 2);
                out.extend_from_slice(&self.value);
                encode::double(out, 1.0, *protocol);
            }
            b"HELLO" => hello(first, request.args, protocol, out),
            b"CONFIG" if first.eq_ignore_ascii_case(b"GET") => {
                encode::map(out, 1, *protocol);
                encode::bulk(out, second);
                encode::bulk(out, b"");
            }
            b"CONFIG" | b"CLIENT" => encode::simple(out, b"OK"),
            b"COMMAND" => encode::array(out, 0),
            b"INFO" => encode::bulk(out, INFO),
            b"CLUSTER" => encode::error(out, b"ERR This instance has cluster support disabled"),
            name => {
                let mut text = b"ERR the floor has no reply for '".to_vec();
                text.extend_from_slice(name);
                text.push(b'\'');
                encode::error(out, &text);
            }
        }
    }

    /// `LRANGE key start stop` of a list that is long enough. Negative indexes would need its length.
    fn range(&self, frame: &[u8], out: &mut Vec<u8>) {
        let mut indexes = Args::new(frame).skip(2).map(|arg| {
            let text = std::str::from_utf8(arg).unwrap_or_default();
            text.parse::<u32>().ok()
        });
        match (indexes.next().flatten(), indexes.next().flatten()) {
            (Some(start), Some(stop)) => {
                self.values(stop.saturating_add(1).saturating_sub(start), out);
            }
            _ => encode::error(out, b"ERR value is not an integer or out of range"),
        }
    }
}

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `+OK`.
    Ok,
    /// One value.
    Value,
    /// `:1`.
    One,
    /// As many values as there are arguments behind so many.
    ValuesBehind(u32),
    /// Whatever [`Replies::rare`] says.
    Rare,
}

impl Kind {
    /// Of a command's name, in small letters or large ones.
    #[inline]
    fn of(name: &[u8]) -> Self {
        // A number is compared at once with all names, where texts would be compared one after the other.
        match number(name) {
            SET | SETEX | PSETEX | MSET | HMSET | LSET | LTRIM | SELECT | AUTH | FLUSHALL
            | FLUSHDB | READONLY | QUIT => Self::Ok,
            GET | GETEX | GETSET | GETDEL | GETRANGE | HGET | LINDEX | LPOP | RPOP | SPOP => {
                Self::Value
            }
            DEL | UNLINK | EXISTS | TOUCH | INCR | DECR | INCRBY | DECRBY | EXPIRE | PEXPIRE
            | PERSIST | TTL | PTTL | STRLEN | APPEND | SETNX | SETBIT | GETBIT | LPUSH | RPUSH
            | LLEN | SADD | SREM | SCARD | HSET | HSETNX | HDEL | HLEN | HEXISTS | HINCRBY
            | ZADD | ZREM | ZCARD | PUBLISH | DBSIZE => Self::One,
            MGET => Self::ValuesBehind(1),
            HMGET => Self::ValuesBehind(2),
            _ => Self::Rare,
        }
    }
}

/// A name of at most eight letters as a number, large letters and small ones alike; 0 for a longer one.
const fn number(name: &[u8]) -> u64 {
    if name.len() > 8 {
        return 0;
    }
    let (mut number, mut at) = (0, 0);
    while at < name.len() {
        // Without the bit that tells small letters from large ones.
        number = number << 8 | (name[at] & !0x20) as u64;
        at += 1;
    }
    number
}

/// Names of commands as [`number`]s.
macro_rules! names {
    ($($name:ident)*) => { $(const $name: u64 = number(stringify!($name).as_bytes());)* };
}

names! {
    SET SETEX PSETEX MSET HMSET LSET LTRIM SELECT AUTH FLUSHALL FLUSHDB READONLY QUIT
    GET GETEX GETSET GETDEL GETRANGE HGET LINDEX LPOP RPOP SPOP
    DEL UNLINK EXISTS TOUCH INCR DECR INCRBY DECRBY EXPIRE PEXPIRE PERSIST TTL PTTL STRLEN APPEND SETNX
    SETBIT GETBIT LPUSH RPUSH LLEN SADD SREM SCARD HSET HSETNX HDEL HLEN HEXISTS HINCRBY ZADD ZREM ZCARD
    PUBLISH DBSIZE
    MGET HMGET
}

/// `HELLO [2|3 …]`: what clients look for in its answer, and the connection's protocol from here on.
fn hello(version: &[u8], args: u32, protocol: &mut Protocol, out: &mut Vec<u8>) {
    match version {
        _ if args == 1 => {}
        b"2" => *protocol = Protocol::Resp2,
        b"3" => *protocol = Protocol::Resp3,
        _ => return encode::error(out, b"NOPROTO unsupported protocol version"),
    }
    encode::map(out, 4, *protocol);
    for (name, text) in [("server", "redis"), ("version", "7.0.0"), ("mode", "standalone")] {
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, text.as_bytes());
    }
    encode::bulk(out, b"proto");
    encode::integer(out, i64::from(protocol.version()));
}

/// Clients choose what they send by the version. There is no role and no memory to tell of.
const INFO: &[u8] = b"# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n";

#[cfg(test)]
mod tests {
    use super::*;
    use resp::{RequestLimits, RequestScanner, Scan};

    /// The reply to the words of `request`, in the protocol of the connection.
    fn reply_in(protocol: &mut Protocol, request: &str) -> String {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let (mut frame, mut out) = (Vec::new(), Vec::new());
        encode::request(&mut frame, &words);
        let scan = RequestScanner::default().scan(&frame, &RequestLimits::default());
        let Ok(Scan::Complete { frame: request, .. }) = scan else { panic!("{scan:?}") };
        Replies::new(3).answer(&request, &frame, protocol, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn reply(request: &str) -> String {
        reply_in(&mut Protocol::Resp2, request)
    }

    #[test]
    fn each_command_of_the_scenarios_has_the_reply_of_a_server() {
        for (request, expected) in [
            ("SET k v", "+OK\r\n"),
            ("SETEX k 10000 v", "+OK\r\n"),
            ("MSET k v k v", "+OK\r\n"),
            ("GET k", "$3\r\nxxx\r\n"),
            ("get k", "$3\r\nxxx\r\n"),
            ("gEt k", "$3\r\nxxx\r\n"),
            ("MGET a b", "*2\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n"),
            ("HMGET h a", "*1\r\n$3\r\nxxx\r\n"),
            ("PING", "+PONG\r\n"),
            ("ping hello", "$5\r\nhello\r\n"),
            ("INCR k", ":1\r\n"),
            ("LPUSH k v", ":1\r\n"),
            ("SADD k v", ":1\r\n"),
            ("HSET h f v", ":1\r\n"),
            ("ZADD z 1 v", ":1\r\n"),
            ("LPOP k", "$3\r\nxxx\r\n"),
            ("SPOP k", "$3\r\nxxx\r\n"),
            ("LRANGE k 0 1", "*2\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n"),
            ("ZPOPMIN z", "*2\r\n$3\r\nxxx\r\n$1\r\n1\r\n"),
            ("SELECT 3", "+OK\r\n"),
            ("CLIENT SETNAME x", "+OK\r\n"),
            ("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
            ("CONFIG SET save x", "+OK\r\n"),
            ("COMMAND DOCS", "*0\r\n"),
            ("CLUSTER NODES", "-ERR This instance has cluster support disabled\r\n"),
        ] {
            assert_eq!(reply(request), expected, "{request}");
        }
        assert!(reply("INFO server").contains("redis_version:7.0.0\r\n"));
    }

    #[test]
    fn what_is_not_known_is_an_error_and_no_guess() {
        assert_eq!(reply("EVAL x 0"), "-ERR the floor has no reply for 'EVAL'\r\n");
        // Too long to be a number, and the same number but for a bit.
        assert_eq!(reply("INCRBYFLOAT k 1"), "-ERR the floor has no reply for 'INCRBYFLOAT'\r\n");
        assert!(reply("LRANGE k 0 -1").starts_with("-ERR "));
        assert!(reply("GE4 k").starts_with("-ERR "));
    }

    #[test]
    fn hello_changes_the_protocol() {
        let mut protocol = Protocol::Resp2;
        assert!(reply_in(&mut protocol, "HELLO").starts_with("*8\r\n"));
        let answer = reply_in(&mut protocol, "HELLO 3");
        assert!(answer.starts_with("%4\r\n") && answer.ends_with("$5\r\nproto\r\n:3\r\n"));
        assert_eq!(protocol, Protocol::Resp3);
        assert!(reply_in(&mut protocol, "CONFIG GET x").starts_with("%1\r\n"));
        assert!(reply_in(&mut protocol, "HELLO 4").starts_with("-NOPROTO "));
        assert_eq!(protocol, Protocol::Resp3);
    }

    #[test]
    fn more_values_than_a_reply_may_have_are_an_error() {
        let replies = Replies::new(64 << 20);
        let mut out = Vec::new();
        replies.values(9, &mut out);
        assert!(out.starts_with(b"-ERR so many values"));
    }
}
