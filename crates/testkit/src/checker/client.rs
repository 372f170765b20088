//! One client thread of the checker: plans a batch, sends it, holds each reply against the plan.
//!
//! A batch is one write of 1 to `depth_max` requests. Its bytes, with those of the expected
//! replies, stay below a bound: a client that writes without reading may be slowed by the proxy for
//! good, which is right but no test of this kind.
//!
//! Invariant: each planned request is settled exactly once, as answered, as an error, or as
//! unknown.

use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;

use super::book::Book;
use super::judge::{self, Answer};
use super::seat::Seat;
use super::{Checker, Rule, Verdict};
use crate::conn::Conn;
use crate::frames::request;

/// Requests and expected replies of one batch, unless a single one is larger.
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Longest payload of an ECHO or PING. What a proxy answers itself it has to keep as a whole, and
/// respool refuses to do so for more than `limits.large_request_bytes`.
const ECHO_BYTES_MAX: usize = 128 * 1024;
/// Pause after a batch with errors. Clients that ask on at full speed while nothing works would
/// fill a run with errors.
const ERROR_PAUSE: Duration = Duration::from_millis(3);

/// One planned request. The numbers are places in the book.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// SET of a text to this value.
    Set(usize, Vec<u8>),
    /// MSET of different texts, each to its value.
    Mset(Vec<(usize, Vec<u8>)>),
    /// GET of a text; the value that it has at this point of the batch.
    Get(usize, Option<Vec<u8>>),
    /// MGET of texts, each with its value at this point.
    Mget(Vec<(usize, Option<Vec<u8>>)>),
    /// INCR; the value afterwards.
    Incr(usize, u64),
    /// APPEND of a token; the length afterwards.
    Append(usize, String, usize),
    /// GET of a log; its content at this point.
    ReadLog(usize, Vec<u8>),
    /// ECHO or PING (`true`) with a payload.
    Echo(bool, Vec<u8>),
}

impl Plan {
    /// The request as it is sent.
    pub(super) fn request(&self, book: &Book) -> Vec<u8> {
        let text = |at: &usize| book.texts[*at].name.as_bytes();
        match self {
            Self::Set(at, value) => request(&[b"SET", text(at), value]),
            Self::Mset(pairs) => {
                let mut args: Vec<&[u8]> = vec![b"MSET"];
                for (at, value) in pairs {
                    args.extend([text(at), value]);
                }
                request(&args)
            }
            Self::Get(at, _) => request(&[b"GET", text(at)]),
            Self::Mget(keys) => {
                let mut args: Vec<&[u8]> = vec![b"MGET"];
                args.extend(keys.iter().map(|(at, _)| text(at)));
                request(&args)
            }
            Self::Incr(at, _) => request(&[b"INCR", book.counters[*at].name.as_bytes()]),
            Self::Append(at, token, _) => {
                request(&[b"APPEND", book.logs[*at].name.as_bytes(), token.as_bytes()])
            }
            Self::ReadLog(at, _) => request(&[b"GET", book.logs[*at].name.as_bytes()]),
            Self::Echo(false, payload) => request(&[&b"ECHO"[..], payload]),
            Self::Echo(true, payload) => request(&[&b"PING"[..], payload]),
        }
    }

    /// Bytes that request and reply will take, about.
    fn bytes(&self) -> usize {
        let of = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        64 + match self {
            Self::Set(_, value) | Self::ReadLog(_, value) => value.len(),
            Self::Mset(pairs) => pairs.iter().map(|(_, value)| 64 + value.len()).sum(),
            Self::Get(_, value) => of(value),
            Self::Mget(keys) => keys.iter().map(|(_, value)| 64 + of(value)).sum(),
            Self::Incr(..) | Self::Append(..) => 0,
            Self::Echo(_, payload) => 2 * payload.len(),
        }
    }
}

/// Runs one client to the end of the run or to its first violation.
pub(super) fn run(checker: &Checker, number: u32) -> (Verdict, Book) {
    let seat = Seat::new(checker, number);
    let mut book = Book::with_tags(checker.seed, number, checker.tags_of(number));
    book.timed = checker.losses.is_some();
    let mut client = Client { rng: seat.rng(), seat, book };
    let mut conn = None;
    while client.seat.goes_on() {
        let begun = Instant::now();
        conn = match conn.take().or_else(|| client.seat.connect()) {
            Some(conn) => client.batch(conn),
            None => continue,
        };
        client.seat.pause(begun);
    }
    (client.seat.verdict, client.book)
}

struct Client<'a> {
    seat: Seat<'a>,
    rng: StdRng,
    book: Book,
}

impl Client<'_> {
    /// Sends one batch and settles it; the connection comes back if it can be used further.
    fn batch(&mut self, mut conn: Conn) -> Option<Conn> {
        let plans = self.plan();
        let bytes: Vec<u8> = plans.iter().flat_map(|plan| plan.request(&self.book)).collect();
        if self.seat.leaves() {
            // Whether it is taken or not, nobody will know.
            self.seat.verdict.requests += plans.len() as u64;
            let _ = conn.send(&bytes);
            plans.iter().for_each(|plan| judge::unknown(&mut self.book, plan));
            self.book.end_batch();
            return None;
        }
        let begun = self.seat.begin(plans.len());
        let errors_before = self.seat.verdict.errors;
        let sent = conn.send(&bytes);
        let mut fate = sent.err();
        for plan in &plans {
            let reply = match fate {
                None => {
                    conn.set_timeout(self.seat.left(&begun));
                    conn.reply()
                }
                Some(_) => Err(std::io::ErrorKind::UnexpectedEof.into()),
            };
            match reply {
                Ok(reply) => self.settle(plan, &reply),
                Err(error) => {
                    judge::unknown(&mut self.book, plan);
                    self.seat.verdict.unknown += 1;
                    fate.get_or_insert(error);
                }
            }
        }
        self.seat.end(&begun);
        self.book.end_batch();
        if let Some(error) = fate {
            self.seat.note_end(&error, plans.len());
            return None;
        }
        if !conn.surplus().is_empty() {
            self.seat.note_surplus(&conn);
        }
        if self.seat.verdict.errors > errors_before {
            std::thread::sleep(ERROR_PAUSE);
        }
        // Now and then a client leaves and comes back, and is spread to another worker.
        (!self.rng.random_bool(0.005)).then_some(conn)
    }

    fn settle(&mut self, plan: &Plan, reply: &[u8]) {
        if reply.starts_with(b"-") || reply.starts_with(b"!") {
            judge::unknown(&mut self.book, plan);
            self.seat.note_error(reply);
            return;
        }
        self.seat.verdict.answered += 1;
        if let Answer::Wrong(rule, words) = judge::reply(&mut self.book, plan, reply)
            && !self.excused(rule, plan, reply)
        {
            self.seat.violate(rule, words);
        }
    }

    /// Whether a reply that is not the expected one is as the test said that replies may be: read
    /// from a replica, or without a write that the servers themselves may have lost.
    fn excused(&mut self, rule: Rule, plan: &Plan, reply: &[u8]) -> bool {
        if self.seat.checker.stale_reads && judge::is_own(&self.book, plan, reply) {
            self.seat.verdict.stale += 1;
            return true;
        }
        if rule != Rule::LostWrite {
            return false;
        }
        let Some(losses) = &self.seat.checker.losses else { return false };
        let lost = losses.excuse_reply(&mut self.book, plan, reply);
        self.seat.verdict.lost += lost.unwrap_or(0);
        lost.is_some()
    }

    /// Plans a batch, and advances the book as if every request of it succeeded.
    fn plan(&mut self) -> Vec<Plan> {
        let depth = self.rng.random_range(1..=self.seat.checker.depth_max.max(1));
        let mut plans = Vec::with_capacity(depth);
        let mut bytes = 0;
        while plans.len() < depth && bytes < BATCH_BYTES_MAX {
            let plan = self.plan_one(BATCH_BYTES_MAX - bytes);
            bytes += plan.bytes();
            plans.push(plan);
        }
        plans
    }

    fn plan_one(&mut self, room: usize) -> Plan {
        let at = self.rng.random_range(0..self.book.texts.len());
        // The first request of a batch may be larger than what a batch holds; later ones fit it.
        let bytes_max = match room {
            BATCH_BYTES_MAX => self.seat.checker.value_bytes_max,
            _ => self.seat.checker.value_bytes_max.min(room),
        };
        match self.rng.random_range(0..10) {
            0..3 => {
                let value = self.book.tagged(&format!("t{at}"), bytes_max, &mut self.rng);
                self.book.texts[at].value = Some(value.clone());
                Plan::Set(at, value)
            }
            3..6 => Plan::Get(at, self.book.texts[at].value.clone()),
            6 if self.seat.checker.msets && self.rng.random_bool(0.5) => {
                self.plan_mset(at, bytes_max)
            }
            6 => {
                let count = self.rng.random_range(1..=self.seat.checker.multi_keys_max.max(1));
                let texts = &self.book.texts;
                let pick = |rng: &mut StdRng| {
                    let at = rng.random_range(0..texts.len());
                    (at, texts[at].value.clone())
                };
                Plan::Mget((0..count).map(|_| pick(&mut self.rng)).collect())
            }
            7 => {
                self.book.counters[at].planned += 1;
                Plan::Incr(at, self.book.counters[at].planned)
            }
            8 if self.rng.random_bool(0.2) => {
                Plan::ReadLog(at, self.book.logs[at].planned.concat().into_bytes())
            }
            8 => {
                let number = self.book.next();
                let token = format!("{}#{number};", self.book.owner);
                let log = &mut self.book.logs[at];
                log.planned.push(token.clone());
                Plan::Append(at, token, log.planned_len())
            }
            _ => {
                let ping = self.rng.random_bool(0.5);
                let bytes_max = (bytes_max / 2).min(ECHO_BYTES_MAX);
                Plan::Echo(ping, self.book.tagged("echo", bytes_max, &mut self.rng))
            }
        }
    }

    /// MSET of texts from one on, each once.
    fn plan_mset(&mut self, first: usize, bytes_max: usize) -> Plan {
        let texts = self.book.texts.len();
        let count = self.rng.random_range(1..=self.seat.checker.multi_keys_max.clamp(1, texts));
        let pairs = (0..count).map(|step| {
            let at = (first + step) % texts;
            let value = self.book.tagged(&format!("t{at}"), bytes_max / count, &mut self.rng);
            self.book.texts[at].value = Some(value.clone());
            (at, value)
        });
        Plan::Mset(pairs.collect())
    }
}
