//! Clients of the checker that wait for elements: BLPOP on one connection, RPUSH on another.
//!
//! Each client has a list of its own and knows what it pushed, so it knows what it must be given: nothing twice, nothing of
//! somebody else, in order. A BLPOP whose reply does not come may have taken an element along, as with any server; so may one
//! whose client leaves while it waits. Nothing else may be missing.
//!
//! ```text
//!   pushed and acknowledged = taken + still there + at most one for each BLPOP in doubt
//! ```
//! Invariant: a list is used no more after the first thing about it that is in doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;
use resp::Value;

use super::judge;
use super::seat::{Begun, Seat};
use super::{Checker, Losses, Rule, Verdict, Violation};
use crate::conn::Conn;
use crate::frames::{quote, request};

/// How long a BLPOP waits at most, in seconds. The request timeout of a proxy begins behind it.
const WAIT_S: &str = "0.5";
/// As [`WAIT_S`].
pub(super) const WAIT: Duration = Duration::from_millis(500);
/// The same where nothing will come.
const WAIT_IN_VAIN_S: &str = "0.01";
/// How long a client waits before it leaves, so that it leaves a BLPOP that waits.
const BEFORE_LEAVING: Duration = Duration::from_millis(5);
/// A list is exchanged for a new one when so many elements went through it.
const ELEMENTS_MAX: usize = 300;

/// A list and what is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    name: String,
    /// With which its elements begin.
    owner: String,
    /// What was pushed, and when it was acknowledged, if it was.
    pushed: BTreeMap<u64, Option<Instant>>,
    taken: BTreeMap<u64, Instant>,
    /// BLPOPs that may have taken an element without a reply.
    doubts: u64,
    /// Something is in doubt.
    unsure: bool,
}

impl Queue {
    /// Whether an acknowledged push or pop may have been lost by the servers themselves.
    fn is_excused(&self, losses: Option<&Losses>) -> bool {
        let mut acks = self.pushed.values().flatten().chain(self.taken.values());
        losses.is_some_and(|losses| acks.any(|at| losses.excuse(*at)))
    }

    /// What stands first, as far as is known.
    fn first(&self) -> Option<u64> {
        self.pushed.keys().find(|number| !self.taken.contains_key(number)).copied()
    }

    /// An element was given to its client; or what is wrong with it.
    fn take(&mut self, number: Option<u64>, losses: Option<&Losses>) -> Result<(), (Rule, String)> {
        let name = &self.name;
        let Some(number) = number.filter(|number| self.pushed.contains_key(number)) else {
            return Err((Rule::ForeignReply, format!("{name} gave what was never pushed to it")));
        };
        let before = self.taken.get(&number).copied();
        let excused = |at| losses.is_some_and(|losses| losses.excuse(at));
        if before.is_some_and(|at| !excused(at)) {
            return Err((Rule::Replay, format!("{name} gave element {number} twice")));
        }
        let first = self.first();
        if !self.unsure && first != Some(number) && !self.is_excused(losses) {
            let words = format!("{name} gave element {number}, the first is {first:?}");
            return Err((Rule::LostWrite, words));
        }
        self.taken.insert(number, Instant::now());
        Ok(())
    }

    /// How many elements were lost with an excuse, or what is wrong with what is left.
    fn judged(&self, left: &[Option<u64>], losses: Option<&Losses>) -> Result<u64, (Rule, String)> {
        let name = &self.name;
        let excused = |at: &Instant| losses.is_some_and(|losses| losses.excuse(*at));
        let mut there = BTreeSet::new();
        for number in left {
            let Some(number) = number.filter(|number| self.pushed.contains_key(number)) else {
                return Err((Rule::ForeignReply, format!("{name} has what was never pushed")));
            };
            let again = self.taken.get(&number).is_some_and(|at| !excused(at));
            if !there.insert(number) || again {
                return Err((Rule::Replay, format!("{name} has element {number} twice")));
            }
        }
        let gone = |number: &u64| !self.taken.contains_key(number) && !there.contains(number);
        let missing: Vec<(&u64, &Instant)> = self
            .pushed
            .iter()
            .filter_map(|(number, ack)| Some((number, ack.as_ref()?)))
            .filter(|(number, _)| gone(number))
            .collect();
        let unexcused = missing.iter().filter(|(_, ack)| !excused(ack)).count() as u64;
        if unexcused > self.doubts {
            let words = format!(
                "{name}: {unexcused} elements are gone and {} can have been taken unseen: {missing:?}",
                self.doubts
            );
            return Err((Rule::LostWrite, words));
        }
        Ok((missing.len() as u64).saturating_sub(self.doubts))
    }
}

/// Runs one client to the end of the run or to its first violation.
pub(super) fn run(checker: &Checker, number: u32) -> (Verdict, Vec<Queue>) {
    let seat = Seat::new(checker, number);
    let tag = checker.tags_of(number).into_iter().next().unwrap_or_else(|| seat.owner.clone());
    let rng = seat.rng();
    let queue = Queue::default();
    let mut client = Client { seat, rng, tag, queue, used: Vec::new(), made: 0 };
    client.renew();
    let (mut gives, mut takes) = (None, None);
    while client.seat.goes_on() {
        let begun = Instant::now();
        let pair = gives.take().or_else(|| client.seat.connect());
        let pair = pair.zip(takes.take().or_else(|| client.seat.connect()));
        let Some((giver, taker)) = pair else { continue };
        (gives, takes) = client.round(giver, taker);
        if client.queue.unsure || client.queue.pushed.len() > ELEMENTS_MAX {
            client.renew();
        }
        client.seat.pause(begun);
    }
    client.used.push(client.queue);
    (client.seat.verdict, client.used)
}

struct Client<'a> {
    seat: Seat<'a>,
    rng: StdRng,
    tag: String,
    queue: Queue,
    used: Vec<Queue>,
    made: u64,
}

impl Client<'_> {
    /// A new list takes the place of the old one.
    fn renew(&mut self) {
        let name = format!("{{{}}}{}:queue{}", self.tag, self.seat.owner, self.made);
        let owner = self.seat.owner.clone();
        let fresh = Queue { name, owner, ..Queue::default() };
        let old = std::mem::replace(&mut self.queue, fresh);
        if !old.pushed.is_empty() {
            self.used.push(old);
        }
    }

    /// One of the things that are done with a queue. Connections come back if they can be used further.
    fn round(&mut self, mut giver: Conn, mut taker: Conn) -> (Option<Conn>, Option<Conn>) {
        let chance = if self.seat.leaves() { 19 } else { self.rng.random_range(0..20) };
        match chance {
            // Somebody waits, and then something comes.
            0..8 => {
                let begun = self.seat.begin(2);
                let asked = self.ask(&mut taker, WAIT_S, 1);
                let gave = self.push(&mut giver, &begun, 1);
                let took = self.pop(&mut taker, &begun, asked, false);
                self.seat.end(&begun);
                (gave.then_some(giver), took.then_some(taker))
            }
            // It is there before.
            8..15 => {
                let begun = self.seat.begin(1);
                let gave = self.push(&mut giver, &begun, 2);
                let begun = self.seat.begin_part(begun, 2);
                let mut took = self.ask(&mut taker, WAIT_S, 2);
                for _ in 0..2 {
                    let sure = !self.queue.unsure;
                    took = self.pop(&mut taker, &begun, took, sure);
                }
                self.seat.end(&begun);
                (gave.then_some(giver), took.then_some(taker))
            }
            // Nothing comes.
            15..19 => {
                let begun = self.seat.begin(1);
                let asked = self.ask(&mut taker, WAIT_IN_VAIN_S, 1);
                let took = self.pop(&mut taker, &begun, asked, false);
                self.seat.end(&begun);
                (Some(giver), took.then_some(taker))
            }
            // Who waits leaves, and may take something along that comes in this moment.
            _ => {
                self.ask(&mut taker, "0", 1);
                std::thread::sleep(BEFORE_LEAVING);
                drop(taker);
                self.queue.doubts += 1;
                self.queue.unsure = true;
                let begun = self.seat.begin(1);
                let gave = self.push(&mut giver, &begun, 2);
                self.seat.end(&begun);
                (gave.then_some(giver), None)
            }
        }
    }

    fn ask(&mut self, conn: &mut Conn, wait_s: &str, times: usize) -> bool {
        conn.send(&request(&["BLPOP", &self.queue.name, wait_s]).repeat(times)).is_ok()
    }

    /// Pushes so many elements; whether the connection can be used further.
    fn push(&mut self, conn: &mut Conn, begun: &Begun, count: u64) -> bool {
        let numbers: Vec<u64> = (1..=count).map(|step| self.made + step).collect();
        self.made += count;
        let elements = numbers.iter().map(|number| format!("{}#{number}", self.seat.owner));
        let mut args = vec!["RPUSH".to_owned(), self.queue.name.clone()];
        args.extend(elements);
        let sent = conn.send(&request(&args));
        let reply = self.reply(conn, begun, sent);
        let acked = matches!(&reply, Ok(reply) if reply.starts_with(b":"));
        self.queue.unsure |= !acked;
        let ack = acked.then(Instant::now);
        self.queue.pushed.extend(numbers.into_iter().map(|number| (number, ack)));
        if let Ok(reply) = &reply
            && !acked
            && !reply.starts_with(b"-")
        {
            self.seat.violate(Rule::ForeignReply, format!("RPUSH got {}", quote(reply, 80)));
        }
        reply.is_ok()
    }

    /// Reads the reply to a BLPOP, if one was `asked`; `sure`: there is an element for it.
    fn pop(&mut self, conn: &mut Conn, begun: &Begun, asked: bool, sure: bool) -> bool {
        let sent = if asked { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        let reply = self.reply(conn, begun, sent);
        let Ok(reply) = reply else {
            self.queue.doubts += 1;
            self.queue.unsure = true;
            return false;
        };
        let losses = self.seat.checker.losses.as_ref();
        let value = resp::value::parse(&reply).ok().flatten().map(|(value, _)| value);
        let wrong = match value {
            Some(Value::Array(items)) if items.len() == 2 => {
                let [key, element] = [&items[0], &items[1]].map(|item| match item {
                    Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    _ => String::new(),
                });
                let number = number_in(&element, &self.seat.owner);
                match key == self.queue.name {
                    true => self.queue.take(number, losses).err(),
                    false => Some((Rule::ForeignReply, format!("BLPOP gave {key}"))),
                }
            }
            Some(Value::Null) if sure && !self.queue.is_excused(losses) => {
                Some((Rule::LostWrite, format!("{} is empty", self.queue.name)))
            }
            Some(Value::Null) => None,
            _ if reply.starts_with(b"-") => {
                self.queue.doubts += 1;
                self.queue.unsure = true;
                None
            }
            _ => Some((Rule::ForeignReply, format!("BLPOP got {}", quote(&reply, 120)))),
        };
        if let Some((rule, words)) = wrong {
            self.seat.violate(rule, words);
        }
        true
    }

    /// The next reply, counted, if what it answers was sent.
    fn reply(
        &mut self,
        conn: &mut Conn,
        begun: &Begun,
        sent: io::Result<()>,
    ) -> io::Result<Vec<u8>> {
        conn.set_timeout(self.seat.left(begun));
        let reply = sent.and_then(|()| conn.reply());
        match &reply {
            Ok(reply) if reply.starts_with(b"-") => self.seat.note_error(reply),
            Ok(_) => self.seat.verdict.answered += 1,
            Err(error) => {
                self.seat.verdict.unknown += 1;
                self.seat.note_end(error, 1);
            }
        }
        reply
    }
}

/// The number of an element of this owner.
fn number_in(element: &str, owner: &str) -> Option<u64> {
    element.strip_prefix(owner)?.strip_prefix('#')?.parse().ok()
}

/// Reads what is left in the lists of a client on a direct connection and judges it.
pub(super) fn final_values(checker: &Checker, queues: &[Queue], verdict: &mut Verdict) {
    let mut conn = Conn::to(&checker.judge);
    for queue in queues {
        let requests = [request(&["LRANGE", &queue.name, "0", "-1"])];
        let replies = judge::read_surely(&checker.judge, &mut conn, &requests);
        let value = resp::value::parse(&replies[0]).ok().flatten().map(|(value, _)| value);
        let Some(Value::Array(items)) = value else {
            let words = format!("{}: LRANGE got {}", queue.name, quote(&replies[0], 80));
            verdict.violations.push(Violation { rule: Rule::ForeignReply, words });
            continue;
        };
        let left: Vec<Option<u64>> = items
            .iter()
            .map(|item| match item {
                Value::Bulk(bytes) => number_in(&String::from_utf8_lossy(bytes), &queue.owner),
                _ => None,
            })
            .collect();
        verdict.keys_judged += 1;
        match queue.judged(&left, checker.losses.as_ref()) {
            Ok(lost) => verdict.lost += lost,
            Err((rule, words)) => verdict.violations.push(Violation { rule, words }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pushed, the last of them perhaps.
    fn queue() -> Queue {
        let ack = Some(Instant::now());
        let pushed = BTreeMap::from([(1, ack), (2, ack), (3, None)]);
        Queue { name: "q".into(), pushed, ..Queue::default() }
    }

    fn rule<T>(result: Result<T, (Rule, String)>) -> Option<Rule> {
        result.err().map(|(rule, _)| rule)
    }

    #[test]
    fn elements_come_once_and_in_order() {
        let mut queue = queue();
        assert_eq!(rule(queue.take(Some(2), None)), Some(Rule::LostWrite), "the first is 1");
        assert_eq!(rule(queue.take(Some(1), None)), None);
        assert_eq!(rule(queue.take(Some(1), None)), Some(Rule::Replay));
        assert_eq!(rule(queue.take(Some(9), None)), Some(Rule::ForeignReply));
        assert_eq!(rule(queue.take(None, None)), Some(Rule::ForeignReply));
    }

    #[test]
    fn what_is_left_accounts_for_all_that_was_not_taken() {
        let mut queue = queue();
        queue.take(Some(1), None).expect("the first");
        let judged = |queue: &Queue, left: &[u64]| {
            let left: Vec<_> = left.iter().map(|number| Some(*number)).collect();
            rule(queue.judged(&left, None))
        };
        assert_eq!(judged(&queue, &[2]), None);
        assert_eq!(judged(&queue, &[2, 3]), None, "the last may be there");
        assert_eq!(judged(&queue, &[]), Some(Rule::LostWrite));
        assert_eq!(judged(&queue, &[1, 2]), Some(Rule::Replay), "it was taken");
        assert_eq!(judged(&queue, &[2, 2]), Some(Rule::Replay));
        assert_eq!(judged(&queue, &[2, 7]), Some(Rule::ForeignReply));
        queue.doubts = 1;
        assert_eq!(judged(&queue, &[]), None, "a BLPOP without a reply took it");
    }
}
