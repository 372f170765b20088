//! The keys of calls: ours, and those that a server finds (`COMMAND GETKEYS`).
//!
//! Invariant: a key that the server reports and we do not fails the test, unless the server refuses the call for its form; one that we
//! report and the server does not does so, too. What is known stands in [`TWICE`], with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use engine::command::{Class, CommandId, KeyFlags, lookup, lookup_sub};
use resp::value::parse;
use testkit::RedisServer;

use crate::grammar::{Call, Generator, shown};
use crate::{BATCH, asked, calls, seed, server};

/// Calls that a test asks about.
const CALLS: usize = 12_000;

/// Differences that are shown of each command.
const SHOWN_MAX: usize = 3;

/// Option words that stand in a call of this command more than once, so that servers report other keys than the command uses when it runs;
/// respool goes by what runs. `effects` shows that nothing is missed.
const TWICE: &[(&str, &[&str], &str)] = &[
    (
        "georadius",
        &["store", "storedist"],
        "the last is written; servers before Valkey 9 report the first",
    ),
    ("georadiusbymember", &["store", "storedist"], "likewise"),
    (
        "sort",
        &["store"],
        "the last is written; an argument STORE of another option confuses servers",
    ),
    (
        "xread",
        &["streams"],
        "servers take the first for the option, also if it is an argument of another one",
    ),
    ("xreadgroup", &["streams"], "likewise, such as the name of a group"),
];

/// Commands of which some server reports keys that they do not use.
const KEYLESS: &[&str] = &["xgroup|help", "xinfo|help", "object|help", "memory|help"];

/// Whether a difference is a known one: see [`TWICE`] and [`KEYLESS`]; and what is refused in any case does no harm.
pub(crate) fn is_known(call: &Call, id: CommandId) -> bool {
    let is = |word: &Vec<u8>, option: &&str| {
        let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
        word.eq_ignore_ascii_case(option.as_bytes())
    };
    let count = |words: &[&str]| {
        call[1..].iter().filter(|word| words.iter().any(|option| is(word, option))).count()
    };
    let twice = |row: &(&str, &[&str], &str)| row.0 == id.name() && count(row.1) > 1;
    TWICE.iter().any(twice) || KEYLESS.contains(&id.name()) || id.row().class == Class::Refused
}

/// Compares the keys of calls with those that this server finds.
pub(crate) fn compare(name: &str) {
    let Some(server) = server(name, &[]) else { return };
    let mut conn = server.connect();
    let mut generator = Generator::new(seed(), &["k:"]);
    let mut found = Found::default();
    for _ in 0..calls(CALLS) / BATCH {
        let calls: Vec<Call> = (0..BATCH).map(|_| generator.call()).collect();
        for (call, reply) in calls.iter().zip(asked(&mut conn, &["COMMAND", "GETKEYS"], &calls)) {
            found.compare(call, &reply, &server);
        }
    }
    println!("{name}: {} calls with keys compared, seed {}", found.compared, seed());
    assert!(found.compared > calls(CALLS) / 4, "only {} have keys", found.compared);
    assert!(
        found.missing.is_empty() && found.more.is_empty(),
        "{name} finds keys that we do not:\n{}\nand we find keys that it does not:\n{}",
        listed(&found.missing),
        listed(&found.more),
    );
}

/// Differences by the command's name.
type Differences = BTreeMap<String, Vec<String>>;

#[derive(Default)]
struct Found {
    compared: usize,
    missing: Differences,
    more: Differences,
}

impl Found {
    fn compare(&mut self, call: &Call, reply: &[u8], server: &RedisServer) {
        // What neither the table nor the server knows travels over no shared connection, and to nobody who is restricted.
        let Some(id) = row(call) else { return };
        let (value, _) = parse(reply).expect("RESP").expect("a whole reply");
        // The call has no keys, or it is wrong.
        let Some(theirs) = value.as_list() else { return };
        let theirs: BTreeSet<&[u8]> = theirs.iter().filter_map(|key| key.as_text()).collect();
        let (mut ours, mut keys) = (BTreeSet::new(), BTreeSet::new());
        engine::command::keys(id.row(), call.iter().map(Vec::as_slice), |_, key, flags| {
            ours.insert(key);
            if !flags.has(KeyFlags::NOT_KEY) {
                keys.insert(key);
            }
        });
        self.compared += 1;
        if is_known(call, id) {
            return;
        }
        let note = |differences: &mut Differences| {
            let names = |keys: &BTreeSet<&[u8]>| {
                keys.iter().map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
            };
            let line =
                format!("{}  theirs: {}  ours: {}", shown(call), names(&theirs), names(&ours));
            differences.entry(id.name().to_owned()).or_default().push(line);
        };
        if !theirs.is_subset(&ours) && is_done(call, id, server) {
            note(&mut self.missing);
        }
        if !keys.is_subset(&theirs) {
            note(&mut self.more);
        }
    }
}

/// Whether a server does something with the keys that it reports of a call. It reports keys of wrong calls, too: it reads a number of keys as
/// C's `atoi` does there (`+1`, `01`, `1x`), and strictly when it runs the command. So the call is made, at a server without data.
pub(crate) fn is_done(call: &Call, id: CommandId, server: &RedisServer) -> bool {
    let row = id.row();
    if row.is_script() {
        // Which script it is, a server may ask before.
        return call.get(2).is_none_or(|count| is_strict(count));
    }
    let mut conn = server.connect();
    // What blocks is done.
    conn.set_timeout(Duration::from_secs(1));
    let reply = conn.command(call);
    !reply.is_ok_and(|reply| reply.starts_with(b"-ERR "))
}

/// A number as servers write it, and one that can be true of a call.
fn is_strict(word: &[u8]) -> bool {
    let text = std::str::from_utf8(word).ok();
    text.and_then(|text| text.parse::<u16>().ok()).is_some_and(|n| n.to_string().as_bytes() == word)
}

/// The row of a call's command.
pub(crate) fn row(call: &Call) -> Option<CommandId> {
    let id = lookup(&call[0])?;
    match id.row().is_container() {
        true => lookup_sub(id, call.get(1)?),
        false => Some(id),
    }
}

fn listed(differences: &Differences) -> String {
    let lines = differences.iter().flat_map(|(name, lines)| {
        let count = lines.len();
        let head = format!("  {name} ({count}):");
        std::iter::once(head).chain(lines.iter().take(SHOWN_MAX).map(|line| format!("    {line}")))
    });
    lines.collect::<Vec<_>>().join("\n")
}
