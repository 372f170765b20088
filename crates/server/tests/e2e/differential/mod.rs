//! The same commands, direct and through the proxy: equal bytes.
//!
//! One server serves both runs, emptied in between, so that its hash seeds, and with them the order
//! of unordered replies, are the same. The commands come from the files in `corpus/` and, for the
//! errors on wrong numbers of arguments, from the server's own COMMAND. They are sent one at a
//! time, in pipelines, and typed inline; in RESP2 and in RESP3.
//!
//! What is left out stands in [`left_out`], by name and with its reason. Nothing is left out by a
//! pattern.
//!
//! Invariant: a line of the corpus is compared to the byte unless the line itself says otherwise
//! (`~`, `?`).

mod arity;
mod corpus;
mod hostile;
mod left_out;

use std::collections::BTreeSet;
use std::time::Duration;

use testkit::frames::quote;
use testkit::{Conn, Endpoint, Mutant, Mutation, RedisServer};

use crate::setup::{Stack, direct};
use corpus::Step;

pub(crate) use corpus::Compare;

/// How many comparisons there must be at least, so that a corpus that is not read shows.
const COMPARISONS_MIN: usize = 2_000;
/// Requests in one pipeline of the pipelined runs.
const DEPTH: usize = 40;
/// Differences that are printed.
const SHOWN_MAX: usize = 30;

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// One at a time, as arrays of bulks.
    Lockstep,
    /// Many in one write.
    Pipelined,
    /// One at a time, as typed lines.
    Inline,
}

/// What the comparisons of one test came to.
#[derive(Default)]
struct Tally {
    compared: usize,
    differences: Vec<String>,
    /// The proxy has a namespace for its clients.
    within: bool,
    /// What it refused for that, by the first words.
    outside: BTreeSet<String>,
}

impl Tally {
    /// Runs the steps on both sides and compares.
    fn run(
        &mut self,
        server: &Endpoint,
        front: &Endpoint,
        title: &str,
        steps: &[Step],
        resp3: bool,
        mode: Mode,
    ) {
        let expected = replies(server, server, steps, resp3, mode);
        let got = replies(server, front, steps, resp3, mode);
        for ((step, expected), got) in steps.iter().zip(&expected).zip(&got) {
            let Some(command) = &step.command else { continue };
            if self.within && got.ends_with(b"(policies.namespace)\r\n") {
                self.outside.insert(command.text.clone());
                continue;
            }
            // A key that is longer, a script that tells its name, and a walk from the middle: where a key stands in it depends on its name.
            let tells =
                ["MEMORY USAGE ", "EVAL \"return KEYS[1]..ARGV[1]\" 1 key arg", "SCAN 184467"];
            if self.within && tells.iter().any(|begin| command.text.starts_with(begin)) {
                continue;
            }
            self.compared += 1;
            if step.compare.of(expected) != step.compare.of(got) {
                let protocol = if resp3 { "RESP3" } else { "RESP2" };
                self.differences.push(format!(
                    "{title}, {protocol}, {mode:?}: {}\n    direct:  {}\n    respool: {}",
                    command.text,
                    quote(expected, 300),
                    quote(got, 300),
                ));
            }
        }
    }

    /// Prints the count and fails the test if anything differed.
    #[track_caller]
    fn finish(self, what: &str, least: usize) {
        println!("{what}: {} comparisons, {} differ", self.compared, self.differences.len());
        let shown = self.differences.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>();
        assert!(
            self.differences.is_empty(),
            "{} of {} differ:\n{}",
            self.differences.len(),
            self.compared,
            shown.join("\n")
        );
        assert!(self.compared >= least, "only {} comparisons, {least} expected", self.compared);
    }
}

/// The replies to all steps, in order; empty ones for steps that are no command. A closed
/// connection shows as its bytes in words, so that it compares unequal to a reply.
fn replies(
    server: &Endpoint,
    to: &Endpoint,
    steps: &[Step],
    resp3: bool,
    mode: Mode,
) -> Vec<Vec<u8>> {
    empty(server);
    forget_users(to);
    let mut conn = fresh(to, resp3);
    let mut replies = Vec::with_capacity(steps.len());
    let depth = if mode == Mode::Pipelined { DEPTH } else { 1 };
    let mut rest = steps;
    while !rest.is_empty() {
        if rest[0].command.is_none() {
            conn = fresh(to, resp3);
            replies.push(Vec::new());
            rest = &rest[1..];
            continue;
        }
        let run = rest.iter().take(depth).take_while(|step| step.command.is_some()).count();
        let (batch, later) = rest.split_at(run);
        let bytes: Vec<u8> = batch
            .iter()
            .filter_map(|step| step.command.as_ref())
            .flat_map(|command| command.bytes(mode == Mode::Inline))
            .collect();
        let sent = conn.send(&bytes);
        for _ in batch {
            let reply = match &sent {
                Ok(()) => conn.reply(),
                Err(error) => Err(error.kind().into()),
            };
            // A difference that ends the connection must not hide what comes after it.
            replies.push(reply.unwrap_or_else(|error| {
                let text = format!("(no reply: {error})").into_bytes();
                conn = fresh(to, resp3);
                text
            }));
        }
        rest = later;
    }
    replies
}

/// A connection in the wanted protocol.
fn fresh(to: &Endpoint, resp3: bool) -> Conn {
    let mut conn = Conn::to(to);
    conn.set_timeout(Duration::from_secs(15));
    if resp3 {
        let greeting = conn.ask("HELLO 3");
        assert!(greeting.starts_with('%'), "HELLO 3: {greeting}");
    }
    conn
}

/// Makes the server forget everything that a run may have left.
fn empty(server: &Endpoint) {
    let mut conn = Conn::to(server);
    for words in [
        "FLUSHALL",
        "SCRIPT FLUSH",
        "FUNCTION FLUSH",
        "CONFIG RESETSTAT",
        // On a busy machine anything may be slow.
        "CONFIG SET slowlog-log-slower-than -1",
        "SLOWLOG RESET",
    ] {
        assert_eq!(conn.ask(words), "+OK\r\n", "{words}");
    }
}

/// Makes whoever is asked forget the users that runs make. The proxy has its own.
fn forget_users(asked: &Endpoint) {
    let mut conn = Conn::to(asked);
    assert_eq!(conn.ask("ACL LOG RESET"), "+OK\r\n");
    // How many of them there are does not matter.
    conn.ask("ACL DELUSER arg1 arg2 arg3 arg4 bob");
}

/// Arguments of a command, and how its replies are compared.
pub(crate) type Compared = (Vec<Vec<u8>>, Compare);

/// The commands of the corpus files, file by file, for comparisons of other pairs.
pub(crate) fn commands() -> Vec<Vec<Compared>> {
    let commands = |steps: Vec<Step>| {
        steps.into_iter().filter_map(|step| Some((step.command?.args, step.compare))).collect()
    };
    let files = corpus::files().into_iter().map(|(_, steps)| steps);
    files.chain([corpus::typed()]).map(commands).collect()
}

/// Compares one file of the corpus between a server and something in front of it, in RESP3 and in
/// lockstep; returns the number of comparisons. For faults that must not change a byte.
pub(crate) fn compare_collections(server: &RedisServer, front: &Endpoint) -> usize {
    let mut tally = Tally::default();
    for (title, steps) in corpus::files().into_iter().filter(|(title, _)| *title == "collections") {
        for resp3 in [false, true] {
            tally.run(server.endpoint(), front, title, &steps, resp3, Mode::Lockstep);
        }
    }
    let compared = tally.compared;
    tally.finish("with a fault", 1);
    compared
}

#[test]
fn the_comparison_sees_a_difference() {
    let server = RedisServer::start();
    let mutant = Mutant::to(server.endpoint(), Mutation::DropSet, 10);
    let mut tally = Tally::default();
    for (title, steps) in corpus::files().into_iter().take(1) {
        tally.run(server.endpoint(), mutant.endpoint(), title, &steps, false, Mode::Lockstep);
    }
    assert!(mutant.planted() > 1, "{} writes dropped", mutant.planted());
    assert!(!tally.differences.is_empty(), "dropped writes were not seen");
    assert!(tally.differences.len() < tally.compared / 4, "more differs than what was dropped");
}

#[test]
fn corpus_is_answered_with_equal_bytes() {
    let stack = Stack::start();
    let mut tally = Tally::default();
    for (title, steps) in corpus::files().into_iter().chain([corpus::transactions()]) {
        for resp3 in [false, true] {
            for mode in [Mode::Lockstep, Mode::Pipelined, Mode::Inline] {
                tally.run(stack.server.endpoint(), stack.front(), title, &steps, resp3, mode);
            }
        }
    }
    tally.finish("corpus", COMPARISONS_MIN);
}

/// What a namespace refuses, of what the corpus asks for.
const OUTSIDE: &[&str] = &["RANDOMKEY"];

#[test]
fn a_namespace_is_answered_with_equal_bytes() {
    if direct() {
        return;
    }
    // The runs empty the server, and count its keys.
    let whole = ["--policies-namespace-whole-database", "true"];
    let prefix = ["--policies-namespace-prefix", "team-a:"];
    let stack = Stack::with(&[prefix, whole].concat());
    let mut tally = Tally { within: true, ..Tally::default() };
    let files = corpus::files().into_iter().chain([corpus::transactions()]);
    for (title, steps) in files.chain([("typed", corpus::typed())]) {
        for resp3 in [false, true] {
            for mode in [Mode::Lockstep, Mode::Pipelined] {
                tally.run(stack.server.endpoint(), stack.front(), title, &steps, resp3, mode);
            }
        }
    }
    let outside: Vec<&str> = tally.outside.iter().map(String::as_str).collect();
    assert_eq!(outside, OUTSIDE);
    tally.finish("namespace", COMPARISONS_MIN);
}

#[test]
fn values_that_are_encrypted_are_answered_with_equal_bytes() {
    if direct() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    std::fs::write(&file, "5a".repeat(32)).expect("a key");
    let keys = format!("k key_file={}", file.display());
    let all = ["--policies-values-encrypt", "*", "--policies-values-compress", "*"];
    let types = ["--policies-values-types", "string,hash", "--policies-values-keys", &keys];
    let stack =
        Stack::with(&[&all[..], &types, &["--policies-values-encrypted-only", "true"]].concat());
    let (mut tally, steps) = (Tally::default(), corpus::values());
    for resp3 in [false, true] {
        for mode in [Mode::Lockstep, Mode::Pipelined] {
            tally.run(stack.server.endpoint(), stack.front(), "values", &steps, resp3, mode);
        }
    }
    tally.finish("values", 4 * 100);
}

#[test]
fn keys_of_every_type_are_answered_with_equal_bytes() {
    let stack = Stack::start();
    let mut tally = Tally::default();
    let steps = corpus::typed();
    for resp3 in [false, true] {
        tally.run(stack.server.endpoint(), stack.front(), "typed", &steps, resp3, Mode::Pipelined);
    }
    tally.finish("types", COMPARISONS_MIN);
}

#[test]
fn wrong_numbers_of_arguments_are_answered_with_equal_bytes() {
    let stack = Stack::start();
    let mut tally = Tally::default();
    let steps = arity::steps(&mut stack.server.connect());
    for resp3 in [false, true] {
        tally.run(stack.server.endpoint(), stack.front(), "arity", &steps, resp3, Mode::Pipelined);
    }
    tally.finish("numbers of arguments", 1_000);
}

#[test]
fn malformed_input_is_answered_with_equal_bytes() {
    let stack = Stack::start();
    let mut tally = Tally::default();
    for case in hostile::cases() {
        let expected = hostile::answer(stack.server.endpoint(), &case);
        let got = hostile::answer(stack.front(), &case);
        tally.compared += 1;
        if expected != got {
            tally
                .differences
                .push(format!("{}\n    direct:  {expected}\n    respool: {got}", case.name));
        }
    }
    tally.finish("malformed input", 40);
}

impl Compare {
    /// What of a reply is compared.
    pub(crate) fn of(self, reply: &[u8]) -> Vec<u8> {
        match self {
            Self::Bytes => reply.to_vec(),
            Self::Type => reply[..reply.len().min(1)].to_vec(),
            Self::AnyOrder => match resp::value::parse(reply) {
                Ok(Some((resp::Value::Array(items) | resp::Value::Set(items), _))) => {
                    let mut shown: Vec<String> =
                        items.iter().map(|item| format!("{item:?}")).collect();
                    shown.sort();
                    format!("{}{}", char::from(reply[0]), shown.join(" ")).into_bytes()
                }
                _ => reply.to_vec(),
            },
        }
    }
}
