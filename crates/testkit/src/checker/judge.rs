//! The checker's judgement: a reply against the plan, and the final value of each key against what
//! is possible.
//!
//! Pure functions on the [`Book`]; the only traffic is the reading of the final values, on direct
//! connections: to the judge, and where that is a node of a cluster to the nodes it names.
//!
//! Invariant: on an exact key exactly one reply is right. On a tainted key a reply is right if some
//! order of the unknown writes explains it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Instant;

use resp::Value;

use super::book::{Book, Counter, Log, Retired, Text};
use super::client::Plan;
use super::{Checker, Rule, Verdict, Violation};
use crate::conn::Conn;
use crate::endpoint::Endpoint;
use crate::frames::{quote, request};

/// Keys read in one pipeline of the final reading.
const READ_DEPTH: usize = 50;
/// How often a pipeline of the final reading is tried.
const READ_TRIES: u32 = 50;

/// Whether a reply is right.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Right,
    Wrong(Rule, String),
}

/// A bulk or null reply.
type Bulk<'a> = Option<&'a [u8]>;

/// Settles a request that got a reply which is no error.
pub(super) fn reply(book: &mut Book, plan: &Plan, reply: &[u8]) -> Answer {
    let Ok(Some((value, _))) = resp::value::parse(reply) else {
        return Answer::Wrong(Rule::ForeignReply, format!("no RESP: {}", quote(reply, 120)));
    };
    match (plan, &value) {
        (Plan::Set(at, written), Value::Simple(b"OK")) => {
            stored(book, *at, written);
            Answer::Right
        }
        (Plan::Mset(pairs), Value::Simple(b"OK")) => {
            for (at, written) in pairs {
                stored(book, *at, written);
            }
            Answer::Right
        }
        (Plan::Get(at, expected), value) => match bulk(value) {
            Some(got) => text_read(&book.texts[*at], expected.as_deref(), got),
            None => foreign("GET", reply),
        },
        (Plan::Mget(keys), Value::Array(items)) if items.len() == keys.len() => {
            for ((at, expected), item) in keys.iter().zip(items) {
                let Some(got) = bulk(item) else { return foreign("MGET", reply) };
                let answer = text_read(&book.texts[*at], expected.as_deref(), got);
                if answer != Answer::Right {
                    return answer;
                }
            }
            Answer::Right
        }
        (Plan::Incr(at, expected), Value::Integer(got)) => {
            if book.timed {
                book.counters[*at].acks.push(Instant::now());
            }
            incremented(&mut book.counters[*at], *expected, *got)
        }
        (Plan::Append(at, token, expected), Value::Integer(got)) => {
            if book.timed {
                book.logs[*at].acks.push(Instant::now());
            }
            appended(&mut book.logs[*at], token, *expected, *got)
        }
        (Plan::ReadLog(at, expected), value) => match bulk(value) {
            Some(got) => log_read(&book.logs[*at], expected, got.unwrap_or(b"")),
            None => foreign("GET of a log", reply),
        },
        (Plan::Echo(_, payload), Value::Bulk(got)) if got == payload => Answer::Right,
        (Plan::Echo(_, payload), _) => Answer::Wrong(
            Rule::ForeignReply,
            format!("ECHO or PING of {} got {}", quote(payload, 60), quote(reply, 120)),
        ),
        (plan, _) => foreign(&quote(&plan.request(book), 80), reply),
    }
}

/// A text was written, and its server said so.
fn stored(book: &mut Book, at: usize, written: &[u8]) {
    let text = &mut book.texts[at];
    if book.timed {
        text.acks.extend(number_in(written).map(|number| (number, Instant::now())));
    }
    if text.tainted {
        text.possible.push(Some(written.to_vec()));
    } else {
        text.possible = vec![Some(written.to_vec())];
    }
}

/// The fate of a write of a text is unknown.
fn perhaps_stored(book: &mut Book, at: usize, written: &[u8]) {
    let text = &mut book.texts[at];
    // The first unknown write: what is there if it was not executed is the last acknowledged value.
    if !text.tainted && text.possible.is_empty() {
        text.possible.push(None);
    }
    text.tainted = true;
    text.possible.push(Some(written.to_vec()));
}

/// Settles a request that got an error or no reply: a write of it may or may not have been
/// executed.
pub(super) fn unknown(book: &mut Book, plan: &Plan) {
    match plan {
        Plan::Set(at, written) => perhaps_stored(book, *at, written),
        // Its parts are independent of each other: each may have been executed.
        Plan::Mset(pairs) => {
            for (at, written) in pairs {
                perhaps_stored(book, *at, written);
            }
        }
        Plan::Incr(at, _) => {
            let counter = &mut book.counters[*at];
            counter.tainted = true;
            counter.unknown += 1;
        }
        Plan::Append(at, token, _) => {
            let log = &mut book.logs[*at];
            log.tainted = true;
            log.unknown.push(token.clone());
        }
        Plan::Get(..) | Plan::Mget(_) | Plan::ReadLog(..) | Plan::Echo(..) => {}
    }
}

/// Reads every key of a client on a direct connection and judges it.
pub(super) fn final_values(checker: &Checker, book: Book, verdict: &mut Verdict) {
    let judge = &checker.judge;
    let owner = book.owner.clone();
    let keys = book.into_keys();
    let mut conn = Conn::to(judge);
    for chunk in keys.chunks(READ_DEPTH) {
        let requests: Vec<_> = chunk.iter().map(|key| request(&["GET", key.name()])).collect();
        let replies = read_surely(judge, &mut conn, &requests);
        for (key, reply) in chunk.iter().zip(&replies) {
            verdict.keys_judged += 1;
            let value = resp::value::parse(reply).ok().flatten().map(|(value, _)| value);
            let answer = match value.as_ref().and_then(bulk) {
                Some(got) => match (final_value(key, got), &checker.losses) {
                    (wrong @ Answer::Wrong(Rule::LostWrite, _), Some(losses)) => {
                        match losses.excuse_final(key, got) {
                            Some(lost) => {
                                verdict.lost += lost;
                                Answer::Right
                            }
                            None => wrong,
                        }
                    }
                    (answer, _) => answer,
                },
                None => foreign("final GET", reply),
            };
            if let Answer::Wrong(rule, words) = answer {
                let words = format!("client {owner}, final value: {words}");
                verdict.violations.push(Violation { rule, words });
            }
        }
    }
}

/// Reads over and over if need be: a test that kills connections on the server may hit this one as
/// well. What another node of a cluster has is read there.
pub(super) fn read_surely(judge: &Endpoint, conn: &mut Conn, requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut last = String::new();
    for _ in 0..READ_TRIES {
        match conn.pipeline(requests).and_then(|replies| follow_moved(requests, replies)) {
            Ok(replies) => return replies,
            Err(error) => last = error.to_string(),
        }
        *conn = Conn::to(judge);
    }
    panic!("the final values cannot be read: {last}")
}

/// Asks the nodes that `-MOVED` names for what the judge does not have. Where slots still move while
/// it is judged one step may not be enough; then all is read again.
fn follow_moved(requests: &[Vec<u8>], mut replies: Vec<Vec<u8>>) -> io::Result<Vec<Vec<u8>>> {
    let mut conns: BTreeMap<String, Conn> = BTreeMap::new();
    for (request, reply) in requests.iter().zip(&mut replies) {
        let Some(at) = reply.strip_prefix(b"-MOVED ") else { continue };
        let at = String::from_utf8_lossy(at).into_owned();
        // `-MOVED <slot> <address>:<port>`
        let at = at.split_whitespace().nth(1).unwrap_or_default().to_owned();
        if !conns.contains_key(&at) {
            let addr = at.parse().map_err(|error| io::Error::other(format!("{at}: {error}")))?;
            conns.insert(at.clone(), Conn::open(&Endpoint::Tcp(addr))?);
        }
        if let Some(conn) = conns.get_mut(&at) {
            conn.send(request)?;
            *reply = conn.reply()?;
        }
    }
    match replies.iter().find(|reply| sends_on(reply)) {
        Some(reply) => Err(io::Error::other(format!("a slot moves: {}", quote(reply, 160)))),
        None => Ok(replies),
    }
}

fn sends_on(reply: &[u8]) -> bool {
    [&b"-MOVED "[..], b"-ASK ", b"-TRYAGAIN "].iter().any(|word| reply.starts_with(word))
}

fn final_value(key: &Retired, got: Bulk<'_>) -> Answer {
    match key {
        Retired::Text(text) if text.possible.is_empty() => text_read(text, None, got),
        Retired::Text(text) => {
            let last = text.possible.last().and_then(Option::as_deref);
            text_read(text, last, got)
        }
        Retired::Counter(counter) => {
            let number = got.map_or(Some(0), |text| std::str::from_utf8(text).ok()?.parse().ok());
            match number {
                Some(number) => between(counter, number),
                None => foreign(&counter.name, got.unwrap_or_default()),
            }
        }
        Retired::Log(log) => log_content(log, got.unwrap_or(b"")),
    }
}

/// `Some(None)` is null; `None` is neither a bulk nor a null.
pub(super) fn bulk<'a>(value: &Value<'a>) -> Option<Bulk<'a>> {
    match value {
        Value::Bulk(bytes) => Some(Some(bytes)),
        Value::Null => Some(None),
        _ => None,
    }
}

fn foreign(request: &str, reply: &[u8]) -> Answer {
    Answer::Wrong(Rule::ForeignReply, format!("{request} got {}", quote(reply, 160)))
}

// Works for values read within a run and for final ones; only a tainted key has more than one right
// value.
fn text_read(text: &Text, expected: Bulk<'_>, got: Bulk<'_>) -> Answer {
    let possible = text.tainted && text.possible.iter().any(|value| value.as_deref() == got);
    if got == expected || possible {
        return Answer::Right;
    }
    let words = format!(
        "{} is {}, expected {}{}",
        text.name,
        shown(got),
        shown(expected),
        if text.tainted { " or another of the unknown writes" } else { "" },
    );
    Answer::Wrong(if is_older(got, expected) { Rule::LostWrite } else { Rule::ForeignReply }, words)
}

/// Whether a wrong value is an earlier one of the same key (or nothing), so that a write was lost
/// and not a reply mixed up.
fn is_older(got: Bulk<'_>, expected: Bulk<'_>) -> bool {
    // `seed:client:purpose:number:len:padding`; the purpose names the place of the key in the book.
    let parse = |value: &[u8]| {
        let text = String::from_utf8_lossy(&value[..value.len().min(100)]).into_owned();
        let mut parts = text.splitn(6, ':').map(str::to_owned);
        let owner = [parts.next()?, parts.next()?, parts.next()?];
        Some((owner, parts.next()?.parse::<u64>().ok()?))
    };
    match (got, expected) {
        (None, _) => true,
        (Some(got), Some(expected)) => match (parse(got), parse(expected)) {
            (Some(got), Some(expected)) => got.0 == expected.0 && got.1 < expected.1,
            _ => false,
        },
        (Some(_), None) => false,
    }
}

/// The number in a value of a text, by which older and newer ones are told apart.
pub(super) fn number_in(value: &[u8]) -> Option<u64> {
    // `seed:client:purpose:number:len:padding`
    let text = String::from_utf8_lossy(&value[..value.len().min(100)]).into_owned();
    text.split(':').nth(3)?.parse().ok()
}

// A batch in which an INCR failed still bounds the later replies from above: no INCR of it runs
// twice.
fn incremented(counter: &mut Counter, expected: u64, got: i64) -> Answer {
    counter.acked += 1;
    let Ok(got) = u64::try_from(got) else {
        return foreign(&counter.name, got.to_string().as_bytes());
    };
    if counter.tainted {
        return match got {
            // Replies of one counter rise; at most every INCR planned so far has been executed.
            _ if got > expected => over(&counter.name, got, expected),
            0 => under(&counter.name, got, 1),
            _ => Answer::Right,
        };
    }
    match got.cmp(&expected) {
        std::cmp::Ordering::Equal => Answer::Right,
        std::cmp::Ordering::Greater => over(&counter.name, got, expected),
        std::cmp::Ordering::Less => under(&counter.name, got, expected),
    }
}

// Each acknowledged INCR has been executed once; each unknown one at most once.
fn between(counter: &Counter, got: u64) -> Answer {
    let high = counter.acked + counter.unknown;
    if got > high {
        over(&counter.name, got, high)
    } else if got < counter.acked {
        under(&counter.name, got, counter.acked)
    } else {
        Answer::Right
    }
}

fn over(name: &str, got: u64, most: u64) -> Answer {
    Answer::Wrong(Rule::Replay, format!("{name} is {got}, above {most}: executed twice"))
}

fn under(name: &str, got: u64, least: u64) -> Answer {
    Answer::Wrong(Rule::LostWrite, format!("{name} is {got}, below the acknowledged {least}"))
}

// The length alone tells of a replay. What else is wrong with a log shows in its content, which is
// judged after the run and read now and then within it.
fn appended(log: &mut Log, token: &str, expected: usize, got: i64) -> Answer {
    log.acked.push(token.to_owned());
    let (got, expected) = (u64::try_from(got).unwrap_or(0), expected as u64);
    if got > expected {
        over(&log.name, got, expected)
    } else if got < expected && !log.tainted {
        under(&log.name, got, expected)
    } else {
        Answer::Right
    }
}

fn log_read(log: &Log, expected: &[u8], got: &[u8]) -> Answer {
    // A tainted log is judged as a whole after the run.
    if got == expected || log.tainted {
        return Answer::Right;
    }
    let (shown_got, shown_expected) = (quote(got, 200), quote(expected, 200));
    let words = format!("{} is {shown_got}, expected {shown_expected}", log.name);
    let rule = match got.len() {
        len if len > expected.len() && got.starts_with(expected) => Rule::Replay,
        len if len < expected.len() && expected.starts_with(got) => Rule::LostWrite,
        _ => Rule::ForeignReply,
    };
    Answer::Wrong(rule, words)
}

/// Every token at most once, none of a stranger, and all acknowledged ones, these in their order.
pub(super) fn log_content(log: &Log, got: &[u8]) -> Answer {
    let wrong = |rule, what: &str, token: &str| {
        Answer::Wrong(rule, format!("{}: {what} {token} in {}", log.name, quote(got, 400)))
    };
    let text = String::from_utf8_lossy(got);
    let known: BTreeSet<&str> = log.acked.iter().chain(&log.unknown).map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    let mut acked = log.acked.iter().peekable();
    for token in text.split_inclusive(';') {
        if !known.contains(token) {
            return wrong(Rule::ForeignReply, "a token that was never appended,", token);
        }
        if !seen.insert(token) {
            return wrong(Rule::Replay, "appended twice,", token);
        }
        acked.next_if(|next| *next == token);
    }
    match acked.next() {
        None => Answer::Right,
        Some(token) => wrong(Rule::LostWrite, "lost or out of order,", token),
    }
}

/// Whether a read gave nothing but values of its own key, be they those of another time: a replica
/// is behind its primary, or ahead of a read that was sent right before a write.
pub(super) fn is_own(book: &Book, plan: &Plan, reply: &[u8]) -> bool {
    let Ok(Some((value, _))) = resp::value::parse(reply) else { return false };
    let own = |at: usize, got: Option<Bulk<'_>>| {
        let prefix = format!("{}:t{at}:", book.owner);
        got.is_some_and(|got| got.is_none_or(|got| got.starts_with(prefix.as_bytes())))
    };
    match (plan, &value) {
        (Plan::Get(at, _), value) => own(*at, bulk(value)),
        (Plan::Mget(keys), Value::Array(items)) if items.len() == keys.len() => {
            keys.iter().zip(items).all(|((at, _), item)| own(*at, bulk(item)))
        }
        // Tokens are appended in one order, so each state of a log begins like every later one.
        (Plan::ReadLog(at, _), value) => bulk(value).is_some_and(|got| {
            let planned = book.logs[*at].planned.concat().into_bytes();
            book.logs[*at].tainted || planned.starts_with(got.unwrap_or_default())
        }),
        _ => false,
    }
}

fn shown(value: Bulk<'_>) -> String {
    value.map_or("null".to_owned(), |value| quote(value, 80))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(answer: Answer) -> Option<Rule> {
        match answer {
            Answer::Right => None,
            Answer::Wrong(rule, _) => Some(rule),
        }
    }

    fn set(book: &mut Book, at: usize, value: &str) -> Plan {
        book.texts[at].value = Some(value.as_bytes().to_vec());
        Plan::Set(at, value.as_bytes().to_vec())
    }

    fn get(book: &Book, at: usize) -> Plan {
        Plan::Get(at, book.texts[at].value.clone())
    }

    #[test]
    fn an_exact_key_has_one_right_reply() {
        let mut book = Book::new(1, 1);
        let plan = set(&mut book, 0, "1:1:t0:1:0:");
        assert_eq!(rule(reply(&mut book, &plan, b"+OK\r\n")), None);
        let plan = set(&mut book, 0, "1:1:t0:2:0:");
        assert_eq!(rule(reply(&mut book, &plan, b"+OK\r\n")), None);
        let plan = get(&book, 0);
        assert_eq!(rule(reply(&mut book, &plan, b"$11\r\n1:1:t0:2:0:\r\n")), None);
        let lost = Some(Rule::LostWrite);
        assert_eq!(rule(reply(&mut book, &plan, b"$11\r\n1:1:t0:1:0:\r\n")), lost, "older");
        assert_eq!(rule(reply(&mut book, &plan, b"$-1\r\n")), lost, "gone");
        assert_eq!(rule(reply(&mut book, &plan, b"_\r\n")), lost, "gone in RESP3");
        let foreign = Some(Rule::ForeignReply);
        assert_eq!(rule(reply(&mut book, &plan, b"$11\r\n1:2:t0:1:0:\r\n")), foreign, "client");
        assert_eq!(rule(reply(&mut book, &plan, b"$11\r\n1:1:t1:1:0:\r\n")), foreign, "key");
        assert_eq!(rule(reply(&mut book, &plan, b"+OK\r\n")), foreign, "type");
    }

    #[test]
    fn a_tainted_key_may_hold_each_unknown_write() {
        let mut book = Book::new(1, 1);
        let first = set(&mut book, 0, "first");
        reply(&mut book, &first, b"+OK\r\n");
        let second = set(&mut book, 0, "second");
        unknown(&mut book, &second);
        let plan = get(&book, 0);
        assert_eq!(rule(reply(&mut book, &plan, b"$5\r\nfirst\r\n")), None);
        assert_eq!(rule(reply(&mut book, &plan, b"$6\r\nsecond\r\n")), None);
        assert_eq!(rule(reply(&mut book, &plan, b"$5\r\nthird\r\n")), Some(Rule::ForeignReply));
        book.end_batch();
        assert_eq!(book.texts[0].value, None, "a fresh key");
        let old = book.into_keys().remove(0);
        assert_eq!(rule(final_value(&old, Some(b"first"))), None);
        assert_eq!(rule(final_value(&old, Some(b"second"))), None);
        assert_eq!(rule(final_value(&old, None)), Some(Rule::LostWrite));
    }

    #[test]
    fn an_unknown_first_write_may_have_left_nothing() {
        let mut book = Book::new(1, 1);
        let plan = set(&mut book, 0, "x");
        unknown(&mut book, &plan);
        book.end_batch();
        let old = book.into_keys().remove(0);
        assert_eq!(rule(final_value(&old, None)), None);
        assert_eq!(rule(final_value(&old, Some(b"x"))), None);
        assert_eq!(rule(final_value(&old, Some(b"y"))), Some(Rule::ForeignReply));
    }

    #[test]
    fn counters_stay_between_acknowledged_and_possible() {
        let mut counter = Counter { name: "n".into(), ..Counter::default() };
        assert_eq!(rule(incremented(&mut counter, 1, 1)), None);
        assert_eq!(rule(incremented(&mut counter, 2, 3)), Some(Rule::Replay));
        assert_eq!(rule(incremented(&mut counter, 3, 2)), Some(Rule::LostWrite));
        let counter = Counter { acked: 3, unknown: 2, ..counter };
        let judged: Vec<_> = (2..=6).map(|got| rule(between(&counter, got))).collect();
        assert_eq!(judged, [Some(Rule::LostWrite), None, None, None, Some(Rule::Replay)]);
    }

    #[test]
    fn logs_hold_each_token_once_and_in_order() {
        let tokens = |names: &[&str]| names.iter().map(|name| format!("{name};")).collect();
        let log =
            Log { acked: tokens(&["a", "b", "c"]), unknown: tokens(&["u"]), ..Log::default() };
        assert_eq!(rule(log_content(&log, b"a;b;c;")), None);
        assert_eq!(rule(log_content(&log, b"a;b;u;c;")), None);
        assert_eq!(rule(log_content(&log, b"a;b;b;c;")), Some(Rule::Replay));
        assert_eq!(rule(log_content(&log, b"a;u;b;u;c;")), Some(Rule::Replay));
        assert_eq!(rule(log_content(&log, b"a;c;")), Some(Rule::LostWrite));
        assert_eq!(rule(log_content(&log, b"a;c;b;")), Some(Rule::LostWrite));
        assert_eq!(rule(log_content(&log, b"a;b;c;x;")), Some(Rule::ForeignReply));
    }

    #[test]
    fn echoes_must_be_ones_own() {
        let mut book = Book::new(1, 1);
        let plan = Plan::Echo(false, b"mine".to_vec());
        assert_eq!(rule(reply(&mut book, &plan, b"$4\r\nmine\r\n")), None);
        assert_eq!(rule(reply(&mut book, &plan, b"$5\r\nyours\r\n")), Some(Rule::ForeignReply));
    }

    #[test]
    fn values_of_another_time_are_told_from_those_of_others() {
        let mut book = Book::new(1, 1);
        let plan = set(&mut book, 0, "1:1:t0:5:0:");
        reply(&mut book, &plan, b"+OK\r\n");
        let plan = get(&book, 0);
        let own = |plan: &Plan, reply: &[u8]| is_own(&book, plan, reply);
        assert!(own(&plan, b"$11\r\n1:1:t0:4:0:\r\n") && own(&plan, b"$-1\r\n"));
        assert!(!own(&plan, b"$11\r\n1:1:t1:4:0:\r\n"), "another key");
        assert!(!own(&plan, b"$11\r\n1:2:t0:4:0:\r\n"), "another client");
        assert!(!own(&plan, b"+OK\r\n") && !own(&Plan::Incr(0, 2), b":1\r\n"));
        let mget = Plan::Mget(vec![(0, None), (1, None)]);
        assert!(own(&mget, b"*2\r\n$-1\r\n$11\r\n1:1:t1:4:0:\r\n"));
        assert!(!own(&mget, b"*2\r\n$11\r\n1:1:t1:4:0:\r\n$-1\r\n"), "the wrong order");
    }
}
