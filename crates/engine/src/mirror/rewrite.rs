//! What a write that was done at the primary is at a mirror: the same, or a command with the same effect whenever and wherever it is done.
//!
//! ```text
//!   SPOP s 2          *2 a b        ─▶  SREM s a b               what was chosen at random is named
//!   EXPIRE k 60       :1            ─▶  PEXPIREAT k 17…          a time that begins now becomes a time of the calendar
//!   XADD x * f v      17…-0         ─▶  XADD x 17…-0 f v         what the server made up is taken from its reply
//!   SET k v NX        (null)        ─▶  nothing                  it was not done
//!   BLPOP a b 0       *2 b v        ─▶  LREM b 1 v               nobody waits at a mirror
//! ```
//! It is what a server does for its replicas, made from the outside: of the request and the reply. Scripts are passed as they are.
//!
//! Not here: who gets it (`super`), in which order (`gate`).
//!
//! Invariant: it depends on the request, the reply and the time alone, and an error reply comes to nothing.

use crate::command::options::{Given, given};
use crate::command::{self, word};
use crate::limits::MIRROR_TAKEN_MAX;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use resp::ReplyError;
use resp::value::{Value, parse_within};

/// The words of one command.
pub(crate) type Words = Vec<Vec<u8>>;

/// What is sent to mirrors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: it changed nothing.
    Nothing,
    /// The request as it is.
    AsIs,
    /// This in its place.
    Instead(Words),
    /// It changed something that cannot be said to a mirror; why.
    Unsaid(&'static str),
}

/// What a request that got this reply is at a mirror. `unix_ms`: when the reply came.
pub(crate) fn effect(args: &[&[u8]], reply: &[u8], unix_ms: u64) -> Effect {
    let name = args.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let pops_one = matches!(&*name, b"lpop" | b"rpop") && reply.starts_with(b"*1\r\n");
    let read = match tells_what(&name) {
        true => parse_within(reply, MIRROR_TAKEN_MAX),
        false if pops_one => parse_within(reply, MIRROR_TAKEN_MAX).or_else(|_| begin_of(reply)),
        false => begin_of(reply),
    };
    match read {
        Ok(Some((reply, _))) => effect_of(&name, args, &reply, unix_ms),
        Err(ReplyError::TooManyValues) => Effect::Unsaid("it took too much at once"),
        _ => Effect::Unsaid("its reply is not understood"),
    }
}

/// Whether the reply to this command tells what it took, so that all of it is looked at.
fn tells_what(name: &[u8]) -> bool {
    matches!(
        name,
        b"spop"
            | b"zpopmin"
            | b"zpopmax"
            | b"blpop"
            | b"brpop"
            | b"bzpopmin"
            | b"bzpopmax"
            | b"lmpop"
            | b"blmpop"
            | b"zmpop"
            | b"bzmpop"
    )
}

/// The same reply as a tree without what lies in it: a list with anything in it is one of a null. A script may answer with millions of values, of
/// which nobody needs any.
fn begin_of(reply: &[u8]) -> Result<Option<(Value<'_>, usize)>, ReplyError> {
    let is_list = matches!(reply.first(), Some(b'*' | b'~' | b'>' | b'%'));
    let is_nothing = [&b"*-1\r\n"[..], b"*0\r\n", b"~0\r\n", b">0\r\n", b"%0\r\n"].contains(&reply);
    match is_list && !is_nothing {
        true => Ok(Some((Value::Array(vec![Value::Null]), reply.len()))),
        false => parse_within(reply, MIRROR_TAKEN_MAX),
    }
}

/// The same with a reply that was read.
fn effect_of(name: &[u8], args: &[&[u8]], reply: &Value<'_>, unix_ms: u64) -> Effect {
    if reply.as_error().is_some() {
        return Effect::Nothing;
    }
    let made = match name {
        b"set" | b"setex" | b"psetex" | b"setnx" | b"getset" | b"getex" | b"getdel" | b"msetnx"
        | b"incrbyfloat" => strings(name, args, reply, unix_ms),
        b"expire" | b"pexpire" | b"expireat" | b"pexpireat" | b"persist" | b"restore" | b"copy"
        | b"renamenx" | b"move" | b"swapdb" => keys(name, args, reply, unix_ms),
        b"spop" | b"lpop" | b"rpop" | b"lmove" | b"rpoplpush" | b"blpop" | b"brpop" | b"blmove"
        | b"brpoplpush" | b"lmpop" | b"blmpop" | b"zpopmin" | b"zpopmax" | b"bzpopmin"
        | b"bzpopmax" | b"zmpop" | b"bzmpop" => taken(name, args, reply),
        b"hexpire" | b"hpexpire" | b"hexpireat" | b"hpexpireat" => field_times(name, args, unix_ms),
        b"hsetex" | b"hgetex" | b"msetex" => Some(absolute(args, unix_ms)),
        b"xadd" => stream_entry(args, reply),
        b"xreadgroup" => group_read(args, reply),
        b"sort" | b"georadius" | b"georadiusbymember" => Some(stored(args)),
        b"pfcount" => Some(Effect::Nothing),
        _ => Some(Effect::AsIs),
    };
    made.unwrap_or(Effect::Unsaid("its reply is not what it should be"))
}

fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

fn instead(list: &[&[u8]]) -> Effect {
    Effect::Instead(words(list))
}

fn number(text: &[u8]) -> Option<i64> {
    resp::number::parse_i64(text)
}

/// A time that is so many units from now, as a text of milliseconds since 1970.
fn from_now(text: &[u8], unit_ms: i64, unix_ms: u64) -> Option<Vec<u8>> {
    let span = number(text)?.checked_mul(unit_ms)?;
    let at = i64::try_from(unix_ms).ok()?.checked_add(span)?;
    Some(at.to_string().into_bytes())
}

/// The same of a time that was said as one already.
fn in_ms(text: &[u8], unit_ms: i64) -> Option<Vec<u8>> {
    Some(number(text)?.checked_mul(unit_ms)?.to_string().into_bytes())
}

/// The options of a call, as its server reads them.
fn options<'a>(args: &[&'a [u8]]) -> impl Iterator<Item = Given<'a>> {
    let row = args.first().and_then(|name| command::lookup(name));
    row.into_iter().flat_map(|row| given(row.row(), args.iter().copied()))
}

/// Whether a call has this option.
fn has(args: &[&[u8]], word: &str) -> bool {
    options(args).any(|option| option.is(word))
}

/// Commands on strings.
fn strings(name: &[u8], args: &[&[u8]], reply: &Value<'_>, unix_ms: u64) -> Option<Effect> {
    let key = *args.get(1)?;
    let was_done = *reply != Value::Integer(0);
    Some(match name {
        b"set" => return set(args, reply, unix_ms),
        b"setex" | b"psetex" => {
            let unit_ms = if name == b"setex" { 1_000 } else { 1 };
            let at = from_now(args.get(2)?, unit_ms, unix_ms)?;
            instead(&[b"SET", key, args.get(3)?, b"PXAT", &at])
        }
        b"setnx" | b"msetnx" if !was_done => Effect::Nothing,
        b"setnx" => instead(&[b"SET", key, args.get(2)?]),
        b"getset" => instead(&[b"SET", key, args.get(2)?]),
        b"msetnx" => {
            let mut list = words(args);
            list[0] = b"MSET".to_vec();
            Effect::Instead(list)
        }
        b"getdel" | b"getex" if *reply == Value::Null => Effect::Nothing,
        b"getdel" => instead(&[b"DEL", key]),
        // Of several times the last counts.
        b"getex" => match options(args).last() {
            None => Effect::Nothing,
            Some(option) if option.is("persist") => instead(&[b"PERSIST", key]),
            Some(option) => instead(&[b"PEXPIREAT", key, &time_of(&option, unix_ms)?]),
        },
        // What a server tells its replicas, so that rounding is nobody's matter.
        _ => instead(&[b"SET", key, reply.as_text()?, b"KEEPTTL"]),
    })
}

/// The time behind `EX`, `PX`, `EXAT` or `PXAT`.
fn time_of(option: &Given<'_>, unix_ms: u64) -> Option<Vec<u8>> {
    let time = option.value?;
    match option.word? {
        "ex" => from_now(time, 1_000, unix_ms),
        "px" => from_now(time, 1, unix_ms),
        "exat" => in_ms(time, 1_000),
        "pxat" => in_ms(time, 1),
        _ => None,
    }
}

fn set(args: &[&[u8]], reply: &Value<'_>, unix_ms: u64) -> Option<Effect> {
    let (Some(key), Some(value)) = (args.get(1), args.get(2)) else { return None };
    if args.len() == 3 {
        return Some(Effect::AsIs);
    }
    let mut list = words(&[b"SET", key, value]);
    let (mut wants_old, mut condition) = (false, None);
    for option in options(args) {
        match option.word? {
            "nx" | "xx" | "ifeq" | "ifne" | "ifdeq" | "ifdne" => condition = Some(option),
            "get" => wants_old = true,
            "keepttl" => list.push(b"KEEPTTL".to_vec()),
            _ => list.extend([b"PXAT".to_vec(), time_of(&option, unix_ms)?]),
        }
    }
    let was_done = match condition {
        None => Some(true),
        Some(condition) if wants_old => held(&condition, reply),
        Some(_) => Some(*reply != Value::Null),
    };
    Some(match was_done {
        Some(true) => Effect::Instead(list),
        Some(false) => Effect::Nothing,
        None => Effect::Unsaid("its reply does not tell whether it was done"),
    })
}

/// Whether the condition of a `SET … GET` held for this value of before, which is the reply; `None`: the value does not tell (digests of Redis 8.4).
/// `IFNE` and `IFDNE` hold where there is no key.
fn held(condition: &Given<'_>, before: &Value<'_>) -> Option<bool> {
    let is_null = *before == Value::Null;
    match condition.word? {
        "nx" => Some(is_null),
        "xx" => Some(!is_null),
        "ifeq" => Some(before.as_text() == condition.value),
        "ifne" => Some(before.as_text() != condition.value),
        "ifdeq" if is_null => Some(false),
        "ifdne" if is_null => Some(true),
        _ => None,
    }
}

/// Commands on keys as a whole.
fn keys(name: &[u8], args: &[&[u8]], reply: &Value<'_>, unix_ms: u64) -> Option<Effect> {
    if *reply == Value::Integer(0) {
        return Some(Effect::Nothing);
    }
    let key = *args.get(1)?;
    let until = |at: Vec<u8>| instead(&[b"PEXPIREAT", key, &at]);
    Some(match name {
        b"expire" => until(from_now(args.get(2)?, 1_000, unix_ms)?),
        b"pexpire" => until(from_now(args.get(2)?, 1, unix_ms)?),
        b"expireat" => until(in_ms(args.get(2)?, 1_000)?),
        b"pexpireat" => until(in_ms(args.get(2)?, 1)?),
        b"restore" => return restore(args, unix_ms),
        b"move" | b"swapdb" => Effect::Unsaid("it concerns two databases"),
        b"copy" if has(args, "db") => Effect::Unsaid("it concerns two databases"),
        b"copy" => instead(&[b"COPY", key, args.get(2)?, b"REPLACE"]),
        b"renamenx" => instead(&[b"RENAME", key, args.get(2)?]),
        _ => Effect::AsIs,
    })
}

fn restore(args: &[&[u8]], unix_ms: u64) -> Option<Effect> {
    let mut list = words(args);
    if number(args.get(2)?)? > 0 && !has(args, "absttl") {
        list[2] = from_now(args.get(2)?, 1, unix_ms)?;
        list.push(b"ABSTTL".to_vec());
    }
    if !has(args, "replace") {
        list.push(b"REPLACE".to_vec());
    }
    Some(Effect::Instead(list))
}

/// Commands that take something away and tell what.
fn taken(name: &[u8], args: &[&[u8]], reply: &Value<'_>) -> Option<Effect> {
    let is_empty = reply.as_list().is_some_and(<[_]>::is_empty);
    if *reply == Value::Null || is_empty {
        return Some(Effect::Nothing);
    }
    let key = *args.get(1)?;
    let list = reply.as_list();
    Some(match name {
        b"spop" => match list {
            Some(members) => removal(b"SREM", key, members.iter().map(Value::as_text))?,
            None => instead(&[b"SREM", key, reply.as_text()?]),
        },
        b"zpopmin" | b"zpopmax" => removal(b"ZREM", key, members(list?).into_iter())?,
        // By value, not by end: the server gives an element to a blocked client before it executes the next push or pop of another connection, and the mirror hears of that push first.
        b"blpop" | b"brpop" => {
            let [key, value] = list? else { return None };
            element(name == b"blpop", key.as_text()?, value.as_text()?)
        }
        b"lpop" | b"rpop" => match list.map_or(reply.as_text(), only_text) {
            Some(value) => element(name == b"lpop", key, value),
            None if list.is_some() => Effect::AsIs,
            None => return None,
        },
        b"blmove" => instead(&[b"LMOVE", key, args.get(2)?, args.get(3)?, args.get(4)?]),
        b"brpoplpush" => instead(&[b"RPOPLPUSH", key, args.get(2)?]),
        b"bzpopmin" | b"bzpopmax" => {
            let [key, member, _] = list? else { return None };
            instead(&[b"ZREM", key.as_text()?, member.as_text()?])
        }
        b"lmpop" | b"blmpop" => {
            let [key, values] = list? else { return None };
            let (key, values, from_left) = (key.as_text()?, values.as_list()?, has(args, "left"));
            let pop: &[u8] = if from_left { b"LPOP" } else { b"RPOP" };
            match values {
                [value] => element(from_left, key, value.as_text()?),
                _ => instead(&[pop, key, values.len().to_string().as_bytes()]),
            }
        }
        b"zmpop" | b"bzmpop" => {
            let [key, pairs] = list? else { return None };
            removal(b"ZREM", key.as_text()?, members(pairs.as_list()?).into_iter())?
        }
        _ => Effect::AsIs,
    })
}

/// The text that is alone in a list.
fn only_text<'a>(list: &[Value<'a>]) -> Option<&'a [u8]> {
    match list {
        [value] => value.as_text(),
        _ => None,
    }
}

/// The removal of one element of a list, the first or the last with this value.
fn element(from_left: bool, key: &[u8], value: &[u8]) -> Effect {
    instead(&[b"LREM", key, if from_left { b"1" } else { b"-1" }, value])
}

/// The members among members and scores: in turn, or as pairs.
fn members<'a>(list: &[Value<'a>]) -> Vec<Option<&'a [u8]>> {
    match list.first() {
        Some(Value::Array(_)) => list
            .iter()
            .map(|pair| pair.as_list().and_then(|pair| pair.first()).and_then(Value::as_text))
            .collect(),
        _ => list.iter().step_by(2).map(Value::as_text).collect(),
    }
}

fn removal<'a>(
    name: &[u8],
    key: &[u8],
    members: impl Iterator<Item = Option<&'a [u8]>>,
) -> Option<Effect> {
    let mut list = words(&[name, key]);
    for member in members {
        list.push(member?.to_vec());
    }
    Some(Effect::Instead(list))
}

/// `HEXPIRE key time [condition] FIELDS n field …`. The condition goes along: what it is held against goes along, too.
fn field_times(name: &[u8], args: &[&[u8]], unix_ms: u64) -> Option<Effect> {
    let mut list = words(args);
    let time = args.get(2)?;
    list[0] = b"HPEXPIREAT".to_vec();
    list[2] = match name {
        b"hexpire" => from_now(time, 1_000, unix_ms)?,
        b"hpexpire" => from_now(time, 1, unix_ms)?,
        b"hexpireat" => in_ms(time, 1_000)?,
        _ => in_ms(time, 1)?,
    };
    Some(Effect::Instead(list))
}

/// `EX` and `PX` of a command become `PXAT`.
fn absolute(args: &[&[u8]], unix_ms: u64) -> Effect {
    let mut list = words(args);
    for option in options(args).filter(|option| option.is("ex") || option.is("px")) {
        if let Some(time) = time_of(&option, unix_ms) {
            (list[option.at], list[option.value_at()]) = (b"PXAT".to_vec(), time);
        }
    }
    Effect::Instead(list)
}

/// `XADD key [options] id field value …`: with the id that it got.
fn stream_entry(args: &[&[u8]], reply: &Value<'_>) -> Option<Effect> {
    let Some(id) = reply.as_text() else {
        return (*reply == Value::Null).then_some(Effect::Nothing);
    };
    let at = options(args).find(|option| option.word.is_none())?.at;
    let mut list = words(args);
    list[at] = id.to_vec();
    Some(Effect::Instead(list))
}

/// Without BLOCK: nobody waits at a mirror.
fn group_read(args: &[&[u8]], reply: &Value<'_>) -> Option<Effect> {
    if *reply == Value::Null {
        return Some(Effect::Nothing);
    }
    let blocks: Vec<usize> =
        options(args).filter(|option| option.is("block")).map(|option| option.at).collect();
    if blocks.is_empty() {
        return Some(Effect::AsIs);
    }
    let is_left = |at: &usize| !blocks.contains(at) && !blocks.contains(&at.wrapping_sub(1));
    let left = (0..args.len()).filter(is_left).map(|at| args[at].to_vec());
    Some(Effect::Instead(left.collect()))
}

/// These write only with STORE.
fn stored(args: &[&[u8]]) -> Effect {
    match has(args, "store") || has(args, "storedist") {
        true => Effect::AsIs,
        false => Effect::Nothing,
    }
}

/// Whether doing it twice comes to the same as once: then it may be sent again where nobody knows whether it was done.
pub(crate) fn repeats(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 24] = [
        b"set",
        b"mset",
        b"del",
        b"unlink",
        b"pexpireat",
        b"persist",
        b"sadd",
        b"srem",
        b"hset",
        b"hmset",
        b"hdel",
        b"zrem",
        b"setrange",
        b"setbit",
        b"lset",
        b"restore",
        b"hpexpireat",
        b"hpersist",
        b"copy",
        b"sinterstore",
        b"sunionstore",
        b"sdiffstore",
        b"zunionstore",
        b"xdel",
    ];
    NAMES.iter().any(|known| word::same_name(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    const NOW_MS: u64 = 1_700_000_000_123;

    fn sent(request: &str, reply: &str) -> String {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let text = |words: Words| {
            let words: Vec<String> =
                words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            words.join(" ")
        };
        match effect(&args, reply.as_bytes(), NOW_MS) {
            Effect::Nothing => "nothing".into(),
            Effect::AsIs => "as it is".into(),
            Effect::Instead(words) => text(words),
            Effect::Unsaid(why) => alloc::format!("! {why}"),
        }
    }

    #[test]
    fn what_was_not_done_is_not_sent() {
        for (request, reply) in [
            ("SET k v", "-OOM no\r\n"),
            ("SET k v NX", "$-1\r\n"),
            ("SET k v XX", "_\r\n"),
            ("SET k v NX GET", "$1\r\no\r\n"),
            ("SET k v XX GET", "$-1\r\n"),
            ("SET k v IFEQ ex", "$-1\r\n"),
            ("SET k v IFEQ ex GET", "$-1\r\n"),
            ("SET k v GET EX 5 IFEQ ex", "$5\r\nother\r\n"),
            ("SET k v IFNE ex GET", "$2\r\nex\r\n"),
            ("SET k v IFDEQ 0123456789abcdef GET", "_\r\n"),
            ("SETNX k v", ":0\r\n"),
            ("MSETNX a 1 b 2", ":0\r\n"),
            ("GETDEL k", "$-1\r\n"),
            ("GETEX k", "$1\r\nv\r\n"),
            ("GETEX k EX 5", "$-1\r\n"),
            ("EXPIRE k 5", ":0\r\n"),
            ("PERSIST k", ":0\r\n"),
            ("SPOP s", "$-1\r\n"),
            ("SPOP s 3", "*0\r\n"),
            ("LPOP l", "$-1\r\n"),
            ("BLPOP a 1", "*-1\r\n"),
            ("ZPOPMIN z", "*0\r\n"),
            ("XADD x NOMKSTREAM * f v", "$-1\r\n"),
            ("SORT l", "*0\r\n"),
            ("COPY a b", ":0\r\n"),
            ("XREADGROUP GROUP g c STREAMS s >", "*-1\r\n"),
            ("SORT store BY store", "*0\r\n"),
        ] {
            assert_eq!(sent(request, reply), "nothing", "{request}");
        }
    }

    #[test]
    fn a_digest_says_nothing_of_the_value_before() {
        for request in ["SET k v GET IFDEQ 0123456789abcdef", "SET k v IFDNE 0123456789abcdef GET"]
        {
            let told = sent(request, "$3\r\nold\r\n");
            assert_eq!(told, "! its reply does not tell whether it was done", "{request}");
        }
    }

    #[test]
    fn times_that_begin_now_become_times_of_the_calendar() {
        for (request, reply, expected) in [
            ("SET k v EX 10", "+OK\r\n", "SET k v PXAT 1700000010123"),
            ("SET k v PX 10 NX", "+OK\r\n", "SET k v PXAT 1700000000133"),
            ("SET k v GET EXAT 1700000099", "$-1\r\n", "SET k v PXAT 1700000099000"),
            ("set k v keepttl", "+OK\r\n", "SET k v KEEPTTL"),
            ("SETEX k 2 v", "+OK\r\n", "SET k v PXAT 1700000002123"),
            ("PSETEX k 2 v", "+OK\r\n", "SET k v PXAT 1700000000125"),
            ("GETEX k PX 7", "$1\r\nv\r\n", "PEXPIREAT k 1700000000130"),
            ("GETEX k PERSIST", "$1\r\nv\r\n", "PERSIST k"),
            ("EXPIRE k 60 NX", ":1\r\n", "PEXPIREAT k 1700000060123"),
            ("PEXPIRE k -5", ":1\r\n", "PEXPIREAT k 1700000000118"),
            ("EXPIREAT k 9", ":1\r\n", "PEXPIREAT k 9000"),
            ("RESTORE k 500 x", "+OK\r\n", "RESTORE k 1700000000623 x ABSTTL REPLACE"),
            ("RESTORE k 0 x REPLACE", "+OK\r\n", "RESTORE k 0 x REPLACE"),
            ("HEXPIRE h 1 FIELDS 1 f", "*1\r\n:1\r\n", "HPEXPIREAT h 1700000001123 FIELDS 1 f"),
            ("HSETEX h EX 1 FIELDS 1 ex 2", ":1\r\n", "HSETEX h PXAT 1700000001123 FIELDS 1 ex 2"),
            ("MSETEX 1 ex 100 EX 1", ":1\r\n", "MSETEX 1 ex 100 PXAT 1700000001123"),
            ("GETEX k EX 1 PX 7", "$1\r\nv\r\n", "PEXPIREAT k 1700000000130"),
            ("SET k v EX\0x 10 Get\0", "$-1\r\n", "SET k v PXAT 1700000010123"),
            ("SET k v IFEQ ex", "+OK\r\n", "SET k v"),
            ("SET k v IFEQ ex GET", "$2\r\nex\r\n", "SET k v"),
            ("SET k v IFNE ex GET PX 1", "$5\r\nother\r\n", "SET k v PXAT 1700000000124"),
            ("SET k v IFNE ex GET", "$-1\r\n", "SET k v"),
            ("SET k v GET IFDNE 0123456789abcdef", "$-1\r\n", "SET k v"),
            ("RESTORE k 500 replace ABSTTL\0", "+OK\r\n", "RESTORE k 500 replace ABSTTL\0 REPLACE"),
        ] {
            assert_eq!(sent(request, reply), expected, "{request}");
        }
    }

    #[test]
    fn what_a_server_chose_is_taken_from_its_reply() {
        for (request, reply, expected) in [
            ("SPOP s", "$1\r\na\r\n", "SREM s a"),
            ("SPOP s 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "SREM s a b"),
            ("SPOP s 2", "~1\r\n$1\r\na\r\n", "SREM s a"),
            ("ZPOPMIN z", "*2\r\n$1\r\na\r\n$1\r\n1\r\n", "ZREM z a"),
            ("ZPOPMAX z 2", "*2\r\n*2\r\n$1\r\na\r\n,1\r\n*2\r\n$1\r\nb\r\n,2\r\n", "ZREM z a b"),
            ("BLPOP a b 0", "*2\r\n$1\r\nb\r\n$1\r\nv\r\n", "LREM b 1 v"),
            ("BRPOP a 0", "*2\r\n$1\r\na\r\n$1\r\nv\r\n", "LREM a -1 v"),
            ("BLMOVE a b LEFT RIGHT 0", "$1\r\nv\r\n", "LMOVE a b LEFT RIGHT"),
            ("BRPOPLPUSH a b 0", "$1\r\nv\r\n", "RPOPLPUSH a b"),
            ("BZPOPMIN a 0", "*3\r\n$1\r\na\r\n$1\r\nm\r\n$1\r\n1\r\n", "ZREM a m"),
            ("BLMPOP 0 1 a LEFT", "*2\r\n$1\r\na\r\n*2\r\n$1\r\nx\r\n$1\r\ny\r\n", "LPOP a 2"),
            ("ZMPOP 1 a MIN", "*2\r\n$1\r\na\r\n*1\r\n*2\r\n$1\r\nm\r\n$1\r\n1\r\n", "ZREM a m"),
            ("XADD x * f v", "$3\r\n5-1\r\n", "XADD x 5-1 f v"),
            (
                "XADD x MAXLEN ~ 9 LIMIT 3 * f v",
                "$3\r\n5-1\r\n",
                "XADD x MAXLEN ~ 9 LIMIT 3 5-1 f v",
            ),
            (
                "XADD x NOMKSTREAM MINID 4 5-* f v",
                "$3\r\n5-1\r\n",
                "XADD x NOMKSTREAM MINID 4 5-1 f v",
            ),
            ("XADD x MAXLEN ~\0 9 *\0 f v", "$3\r\n5-1\r\n", "XADD x MAXLEN ~\0 9 5-1 f v"),
            ("LMPOP 1 left RIGHT", "*2\r\n$4\r\nleft\r\n*1\r\n$1\r\nx\r\n", "LREM left -1 x"),
            ("LPOP l", "$1\r\na\r\n", "LREM l 1 a"),
            ("RPOP l", "$1\r\na\r\n", "LREM l -1 a"),
            ("LPOP l 5", "*1\r\n$1\r\na\r\n", "LREM l 1 a"),
            (
                "XREADGROUP NOACK BLOCK\0 5 GROUP streams block BLOCK 0 STREAMS s >",
                "*1\r\n*0\r\n",
                "XREADGROUP NOACK GROUP streams block STREAMS s >",
            ),
            ("INCRBYFLOAT k 0.1", "$3\r\n0.3\r\n", "SET k 0.3 KEEPTTL"),
            ("SETNX k v", ":1\r\n", "SET k v"),
            ("GETSET k v", "$-1\r\n", "SET k v"),
            ("GETDEL k", "$1\r\nv\r\n", "DEL k"),
            ("MSETNX a 1 b 2", ":1\r\n", "MSET a 1 b 2"),
            ("RENAMENX a b", ":1\r\n", "RENAME a b"),
            (
                "XREADGROUP GROUP g c COUNT 1 BLOCK 5 STREAMS s >",
                "*1\r\n*0\r\n",
                "XREADGROUP GROUP g c COUNT 1 STREAMS s >",
            ),
        ] {
            assert_eq!(sent(request, reply), expected, "{request}");
        }
    }

    #[test]
    fn what_is_the_same_everywhere_goes_as_it_is() {
        for (request, reply) in [
            ("SET k v", "+OK\r\n"),
            ("INCR k", ":5\r\n"),
            ("LPUSH l a", ":1\r\n"),
            ("LPOP l 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
            ("EVAL s 1 k", "$-1\r\n"),
            ("DEL a b", ":0\r\n"),
            ("SORT l STORE d", ":0\r\n"),
            ("SORT l STORE\0 d", ":0\r\n"),
            ("PERSIST k", ":1\r\n"),
            // HSET with the result would end the field's time to live.
            ("HINCRBYFLOAT h f 0.1", "$3\r\n0.3\r\n"),
        ] {
            assert_eq!(sent(request, reply), "as it is", "{request}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_told() {
        for (request, reply) in [
            ("MOVE k 1", ":1\r\n"),
            ("COPY a b DB 2", ":1\r\n"),
            ("COPY a b REPLACE db\0x 2", ":1\r\n"),
            ("SPOP s", ":9\r\n"),
            ("SPOP s", "$9\r\n"),
        ] {
            assert!(sent(request, reply).starts_with('!'), "{request}");
        }
    }

    /// Read into a tree and made into words these take a hundred times what they are.
    #[test]
    fn of_a_long_reply_only_what_was_taken_is_looked_at_and_that_has_a_bound() {
        let long = |count: usize| {
            let values = "$1\r\nm\r\n".repeat(count);
            alloc::format!("*{count}\r\n{values}")
        };
        // Twice as many values as there may be, and deeper than a tree may be.
        let deep = alloc::format!("{}:1\r\n", "*1\r\n".repeat(100));
        for reply in [long(2 * MIRROR_TAKEN_MAX), deep] {
            for request in ["EVAL s 1 k", "LPOP l 9", "XREADGROUP GROUP g c STREAMS s >"] {
                assert_eq!(sent(request, &reply), "as it is", "{request}");
            }
        }
        let words = sent("SPOP s 9", &long(MIRROR_TAKEN_MAX - 1));
        assert_eq!(words.len(), "SREM s".len() + 2 * (MIRROR_TAKEN_MAX - 1));
        assert!(sent("SPOP s 9", &long(MIRROR_TAKEN_MAX)).starts_with('!'));
        for empty in ["*0\r\n", "*-1\r\n", "$-1\r\n", "_\r\n", "~0\r\n"] {
            assert_eq!(sent("LPOP l 9", empty), "nothing", "{empty}");
        }
        assert_eq!(sent("EVAL s 1 k", "!5\r\nERR x\r\n"), "nothing");
    }
}
