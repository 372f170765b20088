//! The model's commands on keys: strings, counters, lists.
//!
//! Each function is one command, in the order and with the texts of the server. What changes a key
//! notes it in the log.
//!
//! Invariant: a command that answers with an error has changed nothing.

use std::collections::VecDeque;

use resp::encode;

use super::{Call, Effect, Value, table};

pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const OVERFLOW: &str = "ERR increment or decrement would overflow";

/// The text at a key: `None` where there is no key, an error where it is a list.
fn text_at(call: &mut Call<'_>, at: usize) -> Result<Option<Vec<u8>>, ()> {
    let key = call.args[at].clone();
    match call.keyspace().get(&key) {
        None => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(Value::List(_)) => Err(()),
    }
}

// Writing replaces the value whatever its type was; the callers that must not do that have looked
// before.
fn put(call: &mut Call<'_>, key: &[u8], text: Vec<u8>) {
    call.keyspace().insert(key.to_vec(), Value::Text(text));
}

pub(super) fn get(call: &mut Call<'_>) {
    match text_at(call, 1) {
        Ok(text) => call.bulk_or_null(text.as_deref()),
        Err(()) => call.error(WRONG_TYPE),
    }
}

pub(super) fn strlen(call: &mut Call<'_>) {
    match text_at(call, 1) {
        Ok(text) => call.length(text.map_or(0, |text| text.len())),
        Err(()) => call.error(WRONG_TYPE),
    }
}

/// SET with NX, XX and GET; the expiry options are syntax errors here, since the model has no clock
/// of its own.
pub(super) fn set(call: &mut Call<'_>) {
    let (mut nx, mut xx, mut wants_old) = (false, false, false);
    for at in 3..call.args.len() {
        match call.word(at).as_str() {
            "nx" if !xx => nx = true,
            "xx" if !nx => xx = true,
            "get" => wants_old = true,
            _ => return call.error("ERR syntax error"),
        }
    }
    let old = text_at(call, 1);
    if wants_old && old.is_err() {
        return call.error(WRONG_TYPE);
    }
    let exists = !matches!(old, Ok(None));
    let applies = !(nx && exists || xx && !exists);
    if applies {
        let (key, value) = (call.args[1].clone(), call.args[2].clone());
        put(call, &key, value.clone());
        call.note(&key, Effect::Set(value));
    }
    match (wants_old, applies) {
        (true, _) => call.bulk_or_null(old.unwrap_or(None).as_deref()),
        (false, true) => call.ok(),
        (false, false) => call.bulk_or_null(None),
    }
}

pub(super) fn mget(call: &mut Call<'_>) {
    encode::array(call.out, call.args.len() - 1);
    for at in 1..call.args.len() {
        // A list among the keys reads as null: MGET never fails for one of its keys.
        let text = text_at(call, at).unwrap_or(None);
        call.bulk_or_null(text.as_deref());
    }
}

// An odd number of arguments is an error on their number, with the text of a wrong arity (checked
// by the command itself).
pub(super) fn mset(call: &mut Call<'_>) {
    if call.args.len().is_multiple_of(2) {
        return table::wrong_arity(call, "mset");
    }
    for pair in call.args[1..].chunks_exact(2) {
        put(call, &pair[0], pair[1].clone());
        call.note(&pair[0], Effect::Set(pair[1].clone()));
    }
    call.ok();
}

// A missing key is an empty string here.
pub(super) fn append(call: &mut Call<'_>) {
    let Ok(old) = text_at(call, 1) else {
        return call.error(WRONG_TYPE);
    };
    let (key, more) = (call.args[1].clone(), call.args[2].clone());
    let mut text = old.unwrap_or_default();
    text.extend_from_slice(&more);
    let length = text.len();
    put(call, &key, text);
    call.note(&key, Effect::Append(more));
    call.length(length);
}

pub(super) fn incr(call: &mut Call<'_>) {
    add(call, 1);
}

/// The one script that there is: it counts in its key and returns its argument as an error (`EVAL … 1 key error`), with line breaks that are in it, as
/// Redis 8.2 does.
pub(super) fn eval(call: &mut Call<'_>) {
    if call.args.len() != 5 {
        return call.error("ERR the model has no such script");
    }
    let count = match text_at(call, 3).map(|text| text.as_deref().map(resp::number::parse_i64)) {
        Ok(None) => 0,
        Ok(Some(Some(number))) => number,
        _ => return call.error(NOT_AN_INTEGER),
    };
    let (key, result) = (call.args[3].clone(), count + 1);
    put(call, &key, result.to_string().into_bytes());
    call.note(&key, Effect::Incr { by: 1, result });
    let text = call.args[4].clone();
    call.out.push(b'-');
    call.out.extend_from_slice(&text);
    call.out.extend_from_slice(b"\r\n");
}

pub(super) fn decr(call: &mut Call<'_>) {
    add(call, -1);
}

pub(super) fn incrby(call: &mut Call<'_>) {
    match resp::number::parse_i64(&call.args[2]) {
        Some(by) => add(call, by),
        None => call.error(NOT_AN_INTEGER),
    }
}

// The smallest number has no positive counterpart, so it cannot be negated; the server has a text
// for just this.
pub(super) fn decrby(call: &mut Call<'_>) {
    match resp::number::parse_i64(&call.args[2]) {
        Some(i64::MIN) => call.error("ERR decrement would overflow"),
        Some(by) => add(call, -by),
        None => call.error(NOT_AN_INTEGER),
    }
}

// Only canonical integers count: no sign "+", no leading zeros, no blanks (string2ll).
fn add(call: &mut Call<'_>, by: i64) {
    let old = match text_at(call, 1) {
        Err(()) => return call.error(WRONG_TYPE),
        Ok(None) => 0,
        Ok(Some(text)) => match resp::number::parse_i64(&text) {
            Some(number) => number,
            None => return call.error(NOT_AN_INTEGER),
        },
    };
    let Some(result) = old.checked_add(by) else {
        return call.error(OVERFLOW);
    };
    let key = call.args[1].clone();
    put(call, &key, result.to_string().into_bytes());
    call.note(&key, Effect::Incr { by, result });
    call.integer(result);
}

// Several elements are pushed one by one, so the last one becomes the head.
pub(super) fn lpush(call: &mut Call<'_>) {
    push(call, VecDeque::push_front);
}

pub(super) fn rpush(call: &mut Call<'_>) {
    push(call, VecDeque::push_back);
}

fn push(call: &mut Call<'_>, put: fn(&mut VecDeque<Vec<u8>>, Vec<u8>)) {
    let key = call.args[1].clone();
    let empty = || Value::List(VecDeque::new());
    let elements = call.args[2..].to_vec();
    let Value::List(list) = call.keyspace().entry(key.clone()).or_insert_with(empty) else {
        return call.error(WRONG_TYPE);
    };
    elements.iter().for_each(|element| put(list, element.clone()));
    let length = list.len();
    elements.into_iter().for_each(|element| call.note(&key, Effect::Push(element)));
    call.length(length);
}

/// LREM with a count of 1 or -1, which is all that anybody here says.
pub(super) fn lrem(call: &mut Call<'_>) {
    let (key, count, element) = (call.args[1].clone(), call.word(2), call.args[3].clone());
    let list = match call.keyspace().get_mut(&key) {
        None => return call.length(0),
        Some(Value::Text(_)) => return call.error(WRONG_TYPE),
        Some(Value::List(list)) => list,
    };
    let at = match count.as_str() {
        "1" => list.iter().position(|one| *one == element),
        "-1" => list.iter().rposition(|one| *one == element),
        _ => return call.error(NOT_AN_INTEGER),
    };
    let Some(at) = at else { return call.length(0) };
    list.remove(at);
    if list.is_empty() {
        call.keyspace().remove(&key);
    }
    call.note(&key, Effect::Pop(element));
    call.length(1);
}

pub(super) fn llen(call: &mut Call<'_>) {
    let key = call.args[1].clone();
    let length = match call.keyspace().get(&key) {
        None => 0,
        Some(Value::List(list)) => list.len(),
        Some(Value::Text(_)) => return call.error(WRONG_TYPE),
    };
    call.length(length);
}

pub(super) fn del(call: &mut Call<'_>) {
    let mut removed = 0;
    for key in &call.args[1..] {
        if call.keyspace().remove(key).is_some() {
            removed += 1;
            call.note(key, Effect::Delete);
        }
    }
    call.integer(removed);
}

pub(super) fn exists(call: &mut Call<'_>) {
    let args = call.args;
    // A key that is named twice counts twice.
    let found = args[1..].iter().filter(|key| call.keyspace().contains_key(*key)).count();
    call.length(found);
}

pub(super) fn flushdb(call: &mut Call<'_>) {
    if flush_option_is_valid(call) {
        call.keyspace().clear();
        call.model.trackers.flushed();
        call.ok();
    }
}

pub(super) fn flushall(call: &mut Call<'_>) {
    if flush_option_is_valid(call) {
        call.model.databases.iter_mut().for_each(std::collections::BTreeMap::clear);
        call.model.trackers.flushed();
        call.ok();
    }
}

fn flush_option_is_valid(call: &mut Call<'_>) -> bool {
    let valid = call.args.len() == 1
        || call.args.len() == 2 && matches!(call.word(1).as_str(), "sync" | "async");
    if !valid {
        call.error("ERR syntax error");
    }
    valid
}

pub(super) fn echo(call: &mut Call<'_>) {
    encode::bulk(call.out, &call.args[1]);
}
