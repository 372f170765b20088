//! Clients of the checker that say MULTI: each transaction must be done as a whole or not at all.
//!
//! A transaction raises a counter and appends its token to two logs, all in one slot. Some are sent in one packet, some in
//! two with the replies between, some behind a WATCH of keys that nobody else changes, and some end with DISCARD.
//!
//! | what came | what must be there in the end |
//! |---|---|
//! | EXEC gave its replies | all of it, and the replies were the next ones |
//! | EXECABORT, null, DISCARD, EXEC was never sent | nothing of it |
//! | another error, or no reply | all of it or nothing |
//!
//! Invariant: whatever a transaction came to, both logs hold the same tokens and the counter is their number.

use std::io;
use std::time::Instant;

use rand::Rng;
use rand::rngs::StdRng;
use resp::Value;

use super::book::Log;
use super::judge::{self, Answer};
use super::seat::{Begun, Seat};
use super::{Checker, Rule, Verdict, Violation};
use crate::conn::Conn;
use crate::frames::{quote, request};

/// Most transactions in one packet.
const DEPTH_MAX: usize = 5;
/// The keys are exchanged for new ones when so many transactions were done with them.
const TOKENS_MAX: usize = 300;

/// The keys of one client at a time.
#[derive(Clone, Debug)]
pub(super) struct Trio {
    /// What is in both logs; its name is that of the first.
    log: Log,
    second: String,
    counter: String,
}

impl Trio {
    fn new(tag: &str, owner: &str, number: u64) -> Self {
        let name = |kind: &str| format!("{{{tag}}}{owner}:{kind}{number}");
        let log = Log { name: name("first"), ..Log::default() };
        Self { log, second: name("second"), counter: name("transactions") }
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exec,
    Discard,
}

/// One transaction.
#[derive(Debug)]
struct Transaction {
    token: String,
    watches: bool,
    end: End,
}

impl Transaction {
    /// Its requests, with what is said to those before the last one.
    fn requests(&self, trio: &Trio) -> Vec<(Vec<u8>, &'static [u8])> {
        let (ok, queued) = (&b"+OK\r\n"[..], &b"+QUEUED\r\n"[..]);
        let watch = self.watches.then(|| (request(&["WATCH", &trio.counter]), ok));
        let rest = [
            (request(&["MULTI"]), ok),
            (request(&["INCR", &trio.counter]), queued),
            (request(&["APPEND", &trio.log.name, &self.token]), queued),
            (request(&["APPEND", &trio.second, &self.token]), queued),
            (request(&[if self.end == End::Exec { "EXEC" } else { "DISCARD" }]), ok),
        ];
        watch.into_iter().chain(rest).collect()
    }
}

/// What became of a transaction.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    NotDone,
    Unknown,
}

/// Runs one client to the end of the run or to its first violation.
pub(super) fn run(checker: &Checker, number: u32) -> (Verdict, Vec<Trio>) {
    let seat = Seat::new(checker, number);
    let tag = checker.tags_of(number).into_iter().next().unwrap_or_else(|| seat.owner.clone());
    let trio = Trio::new(&tag, &seat.owner, 0);
    let rng = seat.rng();
    let mut client = Client { seat, rng, tag, trio, used: Vec::new(), made: 0, exact: true };
    let mut conn = None;
    while client.seat.goes_on() {
        let begun = Instant::now();
        conn = match conn.take().or_else(|| client.seat.connect()) {
            Some(conn) => client.batch(conn),
            None => continue,
        };
        client.seat.pause(begun);
    }
    client.used.push(client.trio);
    (client.seat.verdict, client.used)
}

struct Client<'a> {
    seat: Seat<'a>,
    rng: StdRng,
    tag: String,
    trio: Trio,
    used: Vec<Trio>,
    made: u64,
    /// Nothing was refused or is unknown, so each reply is known.
    exact: bool,
}

impl Client<'_> {
    fn plan(&mut self) -> Transaction {
        self.made += 1;
        Transaction {
            token: format!("{}#{};", self.seat.owner, self.made),
            watches: self.rng.random_bool(0.3),
            end: if self.rng.random_bool(0.1) { End::Discard } else { End::Exec },
        }
    }

    /// Sends some transactions and settles them; the connection comes back if it can be used further.
    fn batch(&mut self, mut conn: Conn) -> Option<Conn> {
        let in_two = self.rng.random_bool(0.3);
        let count = if in_two { 1 } else { self.rng.random_range(1..=DEPTH_MAX) };
        let all: Vec<Transaction> = (0..count).map(|_| self.plan()).collect();
        let parts: Vec<_> = all.iter().map(|one| one.requests(&self.trio)).collect();
        let requests = parts.iter().map(Vec::len).sum();
        if self.seat.leaves() {
            self.leave(conn, &all[0], &parts[0]);
            return None;
        }
        let begun = self.seat.begin(requests);
        let mut fate = match in_two {
            true => None,
            false => conn.send(&bytes_of(&parts.concat())).err(),
        };
        for (one, requests) in all.iter().zip(&parts) {
            let outcome = self.one(&mut conn, &begun, one, requests, in_two, &mut fate);
            self.settle(one, &outcome);
        }
        self.seat.end(&begun);
        self.renew();
        if let Some(error) = fate {
            self.seat.note_end(&error, requests);
            return None;
        }
        if !conn.surplus().is_empty() {
            self.seat.note_surplus(&conn);
        }
        Some(conn)
    }

    /// The client goes in the middle of a transaction, or right behind it.
    fn leave(&mut self, mut conn: Conn, one: &Transaction, requests: &[(Vec<u8>, &[u8])]) {
        let whole = self.rng.random_bool(0.5);
        let sent = if whole { requests.len() } else { self.rng.random_range(1..requests.len()) };
        self.seat.verdict.requests += sent as u64;
        let _ = conn.send(&bytes_of(&requests[..sent]));
        let outcome = match whole && one.end == End::Exec {
            true => Outcome::Unknown,
            false => Outcome::NotDone,
        };
        self.settle(one, &outcome);
        self.renew();
    }

    /// New keys take the place of those of which something is not known, or that have much in them.
    fn renew(&mut self) {
        if !self.exact || self.trio.log.acked.len() > TOKENS_MAX {
            let fresh = Trio::new(&self.tag, &self.seat.owner, self.made);
            self.used.push(std::mem::replace(&mut self.trio, fresh));
            self.exact = true;
        }
    }

    /// One transaction, which `in_two` packets is not sent yet.
    fn one(
        &mut self,
        conn: &mut Conn,
        begun: &Begun,
        one: &Transaction,
        requests: &[(Vec<u8>, &[u8])],
        in_two: bool,
        fate: &mut Option<io::Error>,
    ) -> Outcome {
        let lost = if one.end == End::Exec { Outcome::Unknown } else { Outcome::NotDone };
        let (before, last) = requests.split_at(requests.len() - 1);
        let send = |conn: &mut Conn, part: &[_], fate: &mut Option<io::Error>| {
            if in_two && fate.is_none() {
                *fate = conn.send(&bytes_of(part)).err();
            }
        };
        send(conn, before, fate);
        let mut refused = false;
        for (request, expected) in before {
            let Some(reply) = self.reply(conn, begun, fate) else { continue };
            match reply.first() {
                // Without its WATCH it is a transaction all the same.
                Some(b'-') => refused |= !request.starts_with(b"*2\r\n$5\r\nWATCH\r\n"),
                _ if reply == *expected => {}
                _ => {
                    let words = format!("{} got {}", quote(request, 80), quote(&reply, 80));
                    self.seat.violate(Rule::HalfDone, words);
                }
            }
        }
        if in_two && fate.is_some() {
            // What would have done it was never sent.
            self.seat.verdict.unknown += 1;
            return Outcome::NotDone;
        }
        send(conn, last, fate);
        match self.reply(conn, begun, fate) {
            None => lost,
            Some(reply) if reply.starts_with(b"-EXECABORT ") => Outcome::NotDone,
            Some(reply) if reply.starts_with(b"-") => lost,
            Some(_) if one.end == End::Discard => Outcome::NotDone,
            Some(reply) => self.executed(one, &reply, refused),
        }
    }

    /// The next reply, counted; `None` if there is none any more.
    fn reply(
        &mut self,
        conn: &mut Conn,
        begun: &Begun,
        fate: &mut Option<io::Error>,
    ) -> Option<Vec<u8>> {
        if fate.is_none() {
            conn.set_timeout(self.seat.left(begun));
            match conn.reply() {
                Ok(reply) => {
                    match reply.first() {
                        Some(b'-') => self.seat.note_error(&reply),
                        _ => self.seat.verdict.answered += 1,
                    }
                    return Some(reply);
                }
                Err(error) => *fate = Some(error),
            }
        }
        self.seat.verdict.unknown += 1;
        None
    }

    /// EXEC got a reply that is no error.
    fn executed(&mut self, one: &Transaction, reply: &[u8], refused: bool) -> Outcome {
        let value = resp::value::parse(reply).ok().flatten().map(|(value, _)| value);
        let items = match value {
            Some(Value::Null) => return Outcome::NotDone,
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let numbers: Vec<u64> = items
            .iter()
            .filter_map(|item| match item {
                Value::Integer(number) => u64::try_from(*number).ok(),
                _ => None,
            })
            .collect();
        let before: usize = self.trio.log.acked.iter().map(String::len).sum();
        let length = (before + one.token.len()) as u64;
        let expected = [self.trio.log.acked.len() as u64 + 1, length, length];
        let words =
            || format!("EXEC of {} got {}, expected {expected:?}", one.token, quote(reply, 120));
        if refused || items.len() != 3 || numbers.len() != 3 || numbers[1] != numbers[2] {
            self.seat.violate(Rule::HalfDone, words());
        } else if self.exact && numbers != expected {
            let losses = self.seat.checker.losses.as_ref();
            let excused =
                losses.is_some_and(|all| self.trio.log.acks.iter().any(|at| all.excuse(*at)));
            if numbers[0] > expected[0] {
                self.seat.violate(Rule::Replay, words());
            } else if !excused {
                self.seat.violate(Rule::LostWrite, words());
            }
            self.exact = false;
        }
        Outcome::Done
    }

    fn settle(&mut self, one: &Transaction, outcome: &Outcome) {
        let log = &mut self.trio.log;
        match outcome {
            Outcome::Done => {
                log.acked.push(one.token.clone());
                log.acks.push(Instant::now());
            }
            Outcome::NotDone => self.exact &= one.end == End::Discard,
            Outcome::Unknown => {
                log.unknown.push(one.token.clone());
                self.exact = false;
            }
        }
    }
}

fn bytes_of(requests: &[(Vec<u8>, &[u8])]) -> Vec<u8> {
    requests.iter().flat_map(|(request, _)| request.iter().copied()).collect()
}

/// Reads the keys of a client on a direct connection and judges them.
pub(super) fn final_values(checker: &Checker, trios: &[Trio], verdict: &mut Verdict) {
    let mut conn = Conn::to(&checker.judge);
    for trio in trios {
        let keys = [&trio.log.name, &trio.second, &trio.counter];
        let requests = keys.map(|key| request(&["GET", key]));
        let replies = judge::read_surely(&checker.judge, &mut conn, &requests);
        verdict.keys_judged += 3;
        let [first, second, counter] = [0, 1, 2].map(|nth| {
            let reply: &[u8] = &replies[nth];
            let value = resp::value::parse(reply).ok().flatten().map(|(value, _)| value);
            match value {
                Some(Value::Bulk(bytes)) => bytes.to_vec(),
                _ => Vec::new(),
            }
        });
        match judged(checker, trio, &first, &second, &counter) {
            Ok(lost) => verdict.lost += lost,
            Err((rule, words)) => {
                let words = format!("final value of a transaction: {words}");
                verdict.violations.push(Violation { rule, words });
            }
        }
    }
}

/// How many transactions were lost with an excuse, or what is wrong.
fn judged(
    checker: &Checker,
    trio: &Trio,
    first: &[u8],
    second: &[u8],
    counter: &[u8],
) -> Result<u64, (Rule, String)> {
    let name = &trio.log.name;
    if first != second {
        let words = format!("{name} is {}, its twin {}", quote(first, 300), quote(second, 300));
        return Err((Rule::HalfDone, words));
    }
    let tokens = first.iter().filter(|byte| **byte == b';').count();
    let count = String::from_utf8_lossy(counter).parse().unwrap_or(0_usize);
    if tokens != count {
        let words = format!("{name} has {tokens} tokens and the counter is {count}");
        return Err((Rule::HalfDone, words));
    }
    match judge::log_content(&trio.log, first) {
        Answer::Right => Ok(0),
        Answer::Wrong(Rule::LostWrite, words) => {
            let lost = checker.losses.as_ref().and_then(|losses| losses.log(&trio.log, first));
            lost.ok_or((Rule::LostWrite, words))
        }
        Answer::Wrong(rule, words) => Err((rule, words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoint;

    fn judge(first: &str, second: &str, counter: &str) -> Option<Rule> {
        let nowhere = Endpoint::Tcp(([127, 0, 0, 1], 1).into());
        let checker = Checker::new(&nowhere, &nowhere);
        let mut trio = Trio::new("t", "o", 0);
        trio.log.acked = vec!["a;".into(), "b;".into()];
        trio.log.unknown = vec!["u;".into()];
        let texts = [first, second, counter].map(str::as_bytes);
        judged(&checker, &trio, texts[0], texts[1], texts[2]).err().map(|(rule, _)| rule)
    }

    #[test]
    fn half_of_a_transaction_is_told() {
        assert_eq!(judge("a;b;", "a;b;", "2"), None);
        assert_eq!(judge("a;b;u;", "a;b;u;", "3"), None);
        assert_eq!(judge("a;b;u;", "a;b;", "2"), Some(Rule::HalfDone));
        assert_eq!(judge("a;b;u;", "a;b;u;", "2"), Some(Rule::HalfDone));
        assert_eq!(judge("a;", "a;", "1"), Some(Rule::LostWrite));
        assert_eq!(judge("a;b;b;", "a;b;b;", "3"), Some(Rule::Replay));
        assert_eq!(judge("a;b;refused;", "a;b;refused;", "3"), Some(Rule::ForeignReply));
    }
}
