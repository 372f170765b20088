//! The checker: clients that know what every reply has to be, and judge a run by the invariants of
//! the fault matrix.
//!
//! Each client thread has keys of its own, so it alone decides what is in them and can predict each
//! reply to the byte. Values and payloads name the client and a sequence number; a reply that
//! belongs to somebody else cannot look right. The rules:
//!
//! - **I1** no acknowledged write is lost,
//! - **I2** no reply reaches a wrong request or client,
//! - **I3** no write is executed twice, and no transaction in part,
//! - **I4** every request ends, by a reply or by the end of its connection, within the deadline.
//!
//! Error replies and closed connections are no violation: they are counted, and a write that ended
//! so may or may not have been executed. Its key is retired (see `book`), so that all later
//! replies stay predictable. Whether errors were expected in a run is for the test to say, from the
//! counts.
//!
//! Invariant: a run on a server that does nothing wrong has no violation, whatever is closed or
//! killed meanwhile. The opposite, that a server that does something wrong is caught, is shown with
//! [`mutant`](crate::mutant).

mod book;
mod client;
mod judge;
mod losses;
mod queues;
mod seat;
mod subscribers;
mod timeline;
mod transactions;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::endpoint::Endpoint;

pub use losses::Losses;
pub use timeline::Batch;

/// How many different error texts a verdict keeps.
const ERROR_TEXTS_MAX: usize = 20;
/// How many violations a verdict keeps.
const VIOLATIONS_MAX: usize = 10;

/// What the clients of a run do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// Pipelines of GET, SET, MGET, INCR, APPEND, ECHO and PING.
    #[default]
    Pipelines,
    /// MULTI and EXEC, all or nothing.
    Transactions,
    /// BLPOP on one connection and RPUSH on another.
    Queues,
    /// SUBSCRIBE or SSUBSCRIBE on one connection and PUBLISH or SPUBLISH on another.
    Subscribers,
}

impl Work {
    /// Connections that a client has at the same time.
    pub fn conns(self) -> usize {
        match self {
            Self::Pipelines | Self::Transactions => 1,
            Self::Queues | Self::Subscribers => 2,
        }
    }

    /// The longest wait that a request itself asks the server for. The request timeout of a proxy begins after it.
    pub fn wait(self) -> Duration {
        match self {
            Self::Queues => queues::WAIT,
            Self::Pipelines | Self::Transactions | Self::Subscribers => Duration::ZERO,
        }
    }
}

/// What to run. Make one with [`Checker::new`] and change the fields.
#[derive(Clone, Debug)]
pub struct Checker {
    /// Where the clients connect: the proxy.
    pub endpoint: Endpoint,
    /// Where the final values are read: the server itself, on a direct connection. Of a cluster any
    /// node; the others are found through it.
    pub judge: Endpoint,
    /// What the clients do.
    pub work: Work,
    /// Number of client threads.
    pub clients: u32,
    /// How long they send.
    pub duration: Duration,
    /// The time that I4 allows a request: the timeout that the proxy is configured with, one second, and [`Work::wait`].
    pub deadline: Duration,
    /// Requests in one pipeline: 1 to this many, at random.
    pub depth_max: usize,
    /// Longest value in bytes. Most are far shorter.
    pub value_bytes_max: usize,
    /// Every second client speaks RESP3.
    pub mixed_protocols: bool,
    /// Decides keys, commands, depths and lengths. Two runs at the same time on one server need
    /// different seeds, since the seed is part of the keys' names.
    pub seed: u64,
    /// Set to true to end the run early.
    pub stop: Arc<AtomicBool>,
    /// Least time from the beginning of one batch of a client to that of its next one; zero lets
    /// clients go as fast as they can. The clients' beginnings are spread over it.
    pub pace: Duration,
    /// Hash tags, in braces at the begin of each key, by which a test puts keys where it wants them.
    /// Client n has so many of them as [`Checker::tags_each`] says, from place n times that on and
    /// around again, and uses them for its keys in turn. Empty: keys are spread.
    pub tags: Vec<String>,
    /// How many of the tags each client has.
    pub tags_each: usize,
    /// Most keys in one MGET or MSET.
    pub multi_keys_max: usize,
    /// Whether there are MSETs, one for each MGET.
    pub msets: bool,
    /// Whether reads may give a value of their key from another time, as replicas do: an older one,
    /// or one that was sent right behind the read. The final values must be right all the same.
    pub stale_reads: bool,
    /// Times in which the servers themselves may have lost what they acknowledged. `None`: never.
    pub losses: Option<Losses>,
    /// Every so many-th batch its client leaves with everything in flight; 0: never.
    pub leaves_every: u32,
    /// Whether the verdict keeps each [`Batch`].
    pub timeline: bool,
}

impl Checker {
    /// A run of eight clients for two seconds with pipelines up to 50 and values up to 64 KiB.
    pub fn new(endpoint: &Endpoint, judge: &Endpoint) -> Self {
        Self {
            endpoint: endpoint.clone(),
            judge: judge.clone(),
            work: Work::default(),
            clients: 8,
            duration: Duration::from_secs(2),
            deadline: Duration::from_secs(20),
            depth_max: 50,
            value_bytes_max: 64 * 1024,
            mixed_protocols: true,
            seed: 1,
            stop: Arc::default(),
            pace: Duration::ZERO,
            tags: Vec::new(),
            tags_each: 1,
            multi_keys_max: 4,
            msets: false,
            stale_reads: false,
            losses: None,
            leaves_every: 0,
            timeline: false,
        }
    }

    /// Runs all clients to the end and then reads every key once more. The first violation stops
    /// all clients.
    pub fn run(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut all_used = Vec::new();
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.clients)
                .map(|number| scope.spawn(move || self.run_client(number)))
                .collect();
            for thread in threads {
                match thread.join() {
                    Ok((part, used)) => {
                        verdict.add(part);
                        all_used.push(used);
                    }
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        for used in all_used {
            match used {
                Used::Keys(book) => judge::final_values(self, book, &mut verdict),
                Used::Trios(trios) => transactions::final_values(self, &trios, &mut verdict),
                Used::Queues(queues) => queues::final_values(self, &queues, &mut verdict),
                Used::Nothing => {}
            }
        }
        // One is enough to fail; a few more help to see what kind of fault it is.
        verdict.violations.truncate(VIOLATIONS_MAX);
        verdict
    }

    fn run_client(&self, number: u32) -> (Verdict, Used) {
        match self.work {
            Work::Pipelines => {
                let (verdict, book) = client::run(self, number);
                (verdict, Used::Keys(book))
            }
            Work::Transactions => {
                let (verdict, trios) = transactions::run(self, number);
                (verdict, Used::Trios(trios))
            }
            Work::Queues => {
                let (verdict, queues) = queues::run(self, number);
                (verdict, Used::Queues(queues))
            }
            Work::Subscribers => (subscribers::run(self, number), Used::Nothing),
        }
    }

    /// The channel of a client that listens, and `None` for a shard channel.
    pub fn plain_channel(&self, client: u32) -> Option<String> {
        (!subscribers::is_shard(client)).then(|| self.channel(client))
    }

    /// The channel of a client that listens.
    fn channel(&self, client: u32) -> String {
        let owner = self.owner(client);
        let tag = self.tags_of(client).into_iter().next().unwrap_or_else(|| owner.clone());
        format!("{{{tag}}}{owner}:channel")
    }

    /// How all names and values of a client begin.
    fn owner(&self, client: u32) -> String {
        format!("{}:{client}", self.seed)
    }

    /// The tags of one client.
    fn tags_of(&self, client: u32) -> Vec<String> {
        let begin = client as usize * self.tags_each;
        let tags = self.tags.iter().cycle().skip(begin % self.tags.len().max(1));
        tags.take(self.tags_each).cloned().collect()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The keys that a client has used, for the last judgement.
enum Used {
    Keys(book::Book),
    Trios(Vec<transactions::Trio>),
    Queues(Vec<queues::Queue>),
    /// A channel keeps nothing.
    Nothing,
}

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// I1: an acknowledged write is lost.
    LostWrite,
    /// I2: a reply that belongs to another request or client, or to none.
    ForeignReply,
    /// I3: a write was executed twice.
    Replay,
    /// I3: a transaction was executed in part.
    HalfDone,
    /// I4: a request that neither got a reply nor lost its connection in time.
    Hang,
}

/// One broken rule, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// Client, request, what was expected and what came.
    pub words: String,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Requests sent.
    pub requests: u64,
    /// Requests that got a reply other than an error.
    pub answered: u64,
    /// Requests that got an error reply.
    pub errors: u64,
    /// Requests whose connection ended before their reply, and messages that were published and never came.
    pub unknown: u64,
    /// Batches in which the client left (see [`Checker::leaves_every`]); their requests are counted as sent only.
    pub left: u64,
    /// Connections that the other side ended.
    pub closed: u64,
    /// Connects that failed.
    pub connect_failures: u64,
    /// Keys whose value was read directly after the run, and channels from which something was heard.
    pub keys_judged: u64,
    /// The longest time that a batch took from its sending to its last reply.
    pub slowest: Duration,
    /// Error replies by text, with how often each came; at most twenty texts.
    pub error_texts: BTreeMap<String, u64>,
    /// Acknowledged writes that are gone and that [`Checker::losses`] excuses.
    pub lost: u64,
    /// Reads of values from another time that [`Checker::stale_reads`] excuses.
    pub stale: u64,
    /// All batches in the order in which each client sent them, if [`Checker::timeline`] is set.
    pub batches: Vec<Batch>,
    /// Broken rules, at most ten. A run ends soon after the first.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// The first broken rule.
    pub fn first(&self) -> Option<Rule> {
        self.violations.first().map(|violation| violation.rule)
    }

    /// Fails the test if a rule was broken, or if nothing was judged at all.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
        assert!(self.answered > 0 && self.keys_judged > 0, "nothing was judged: {self}");
    }

    /// As [`Verdict::assert_clean`], and no request may have failed either.
    #[track_caller]
    pub fn assert_faultless(&self) {
        self.assert_clean();
        assert!(self.errors + self.unknown + self.closed + self.connect_failures == 0, "{self}");
    }

    fn add(&mut self, part: Self) {
        self.requests += part.requests;
        self.answered += part.answered;
        self.errors += part.errors;
        self.unknown += part.unknown;
        self.left += part.left;
        self.closed += part.closed;
        self.connect_failures += part.connect_failures;
        self.keys_judged += part.keys_judged;
        self.slowest = self.slowest.max(part.slowest);
        self.lost += part.lost;
        self.stale += part.stale;
        self.batches.extend(part.batches);
        for (text, count) in part.error_texts {
            self.note_error(text, count);
        }
        self.violations.extend(part.violations);
    }

    fn note_error(&mut self, text: String, count: u64) {
        let known = self.error_texts.len();
        match self.error_texts.entry(text) {
            std::collections::btree_map::Entry::Occupied(mut entry) => *entry.get_mut() += count,
            std::collections::btree_map::Entry::Vacant(entry) if known < ERROR_TEXTS_MAX => {
                entry.insert(count);
            }
            std::collections::btree_map::Entry::Vacant(_) => {}
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests: {} answered, {} errors, {} unknown; {} connections closed, {} connects \
             failed; {} keys judged; slowest batch {:?}",
            self.requests,
            self.answered,
            self.errors,
            self.unknown,
            self.closed,
            self.connect_failures,
            self.keys_judged,
            self.slowest,
        )?;
        if self.lost + self.stale > 0 {
            write!(
                f,
                "; excused: {} writes lost, {} reads of another time",
                self.lost, self.stale
            )?;
        }
        for (text, count) in &self.error_texts {
            write!(f, "\n  error {count}× {text}")?;
        }
        for violation in &self.violations {
            write!(f, "\n  VIOLATION {:?}: {}", violation.rule, violation.words)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutant::{Mutant, Mutation};
    use crate::redis::RedisServer;
    use crate::relay::{End, Relay};

    #[test]
    fn a_clean_server_passes_without_a_fault() {
        let server = RedisServer::start();
        let verdict = Checker::new(server.endpoint(), server.endpoint()).run();
        verdict.assert_faultless();
        assert!(verdict.answered > 500, "{verdict}");
    }

    #[test]
    fn all_kinds_of_work_pass_on_a_clean_server() {
        let server = RedisServer::start();
        for work in [Work::Transactions, Work::Queues, Work::Subscribers] {
            let mut checker = Checker::new(server.endpoint(), server.endpoint());
            checker.work = work;
            let verdict = checker.run();
            verdict.assert_faultless();
            assert!(verdict.answered > 500, "{work:?}: {verdict}");
        }
    }

    #[test]
    fn connections_that_die_are_no_violation() {
        for work in [Work::Pipelines, Work::Transactions, Work::Queues, Work::Subscribers] {
            connections_die_under(work);
        }
    }

    fn connections_die_under(work: Work) {
        let server = RedisServer::start();
        let relay = Relay::to(server.endpoint());
        let mut checker = Checker::new(relay.endpoint(), server.endpoint());
        checker.work = work;
        let verdict = thread::scope(|scope| {
            let run = scope.spawn(|| checker.run());
            while !run.is_finished() {
                thread::sleep(Duration::from_millis(50));
                relay.end_all(End::Reset);
            }
            run.join().expect("checker")
        });
        verdict.assert_clean();
        assert!(verdict.closed > 5 && verdict.unknown > 5, "{verdict}");
    }

    /// A run through a mutant that plants its fault a few times.
    fn first_violation(mutation: Mutation, work: Work) -> (Option<Rule>, Verdict) {
        let server = RedisServer::start();
        let mutant = Mutant::to(server.endpoint(), mutation, 200);
        let mut checker = Checker::new(mutant.endpoint(), server.endpoint());
        checker.work = work;
        checker.clients = 4;
        checker.deadline = Duration::from_secs(3);
        checker.duration = Duration::from_secs(30);
        let verdict = checker.run();
        assert!(mutant.planted() > 0, "{verdict}");
        (verdict.first(), verdict)
    }

    #[test]
    fn planted_faults_are_caught_by_their_rule() {
        for (mutation, rule) in [
            (Mutation::DropSet, Rule::LostWrite),
            (Mutation::ReplayIncr, Rule::Replay),
            (Mutation::ReplayAppend, Rule::Replay),
            (Mutation::Hang, Rule::Hang),
        ] {
            let (first, verdict) = first_violation(mutation, Work::Pipelines);
            assert_eq!(first, Some(rule), "{mutation:?}: {verdict}");
        }
        // Two of a client's own replies in the wrong order look like a foreign reply or, when both
        // are values of one key, like an older one; it is caught either way.
        let (first, verdict) = first_violation(Mutation::SwapReplies, Work::Pipelines);
        assert!(first.is_some(), "{verdict}");
        // One command of a transaction goes there twice.
        let (first, verdict) = first_violation(Mutation::ReplayAppend, Work::Transactions);
        assert_eq!(first, Some(Rule::HalfDone), "{verdict}");
    }
}
