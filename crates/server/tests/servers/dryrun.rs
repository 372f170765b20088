//! Who may do what: respool's decision beside that of a server (`ACL DRYRUN`), with the same rules.
//!
//! Invariant: what the server denies respool denies. What it denies beside that is in [`STRICTER`], with the reason.

use std::collections::BTreeMap;
use std::io::Write;

use engine::command::{CommandId, Flags};
use testkit::{RedisServer, Respool};

use crate::grammar::{Call, Generator, shown};
use crate::keys::{is_done, is_known, row};
use crate::{BATCH, RESPOOL, asked, calls, seed, server};

/// Calls that a test asks about, for each user.
const CALLS: usize = 3_000;

/// Users with rules of each kind: patterns of keys and channels, keys to read or to write only, commands, selectors.
const USERS: &[(&str, &str)] = &[
    ("keys", "on >pw ~u:* &u:* +@all"),
    ("ways", "on >pw %R~u:* %W~w:* %RW~b:* &* +@all"),
    ("commands", "on >pw ~* &* +@read +@string -get +object|encoding +sort -mset -@blocking"),
    ("selectors", "on >pw ~u:* +@read (~w:* +@write +get) (%R~b:* +copy +sort +@stream)"),
    ("nothing", "on >pw +@all"),
];

/// Commands that respool denies where the server does not, and why.
const STRICTER: &[(&str, &str)] = &[
    ("sort", "what BY and GET read the server judges when it runs the command"),
    ("sort_ro", "likewise"),
    (
        "xreadgroup",
        "of a call without GROUP servers see no keys, and find it wrong when they run it",
    ),
    ("pfmerge", "of a call with the destination alone servers see no key"),
    ("zdiffstore", "of a call with a wrong number of keys servers see none of its keys"),
    ("zinterstore", "likewise"),
    ("zunionstore", "likewise"),
];

/// Compares decisions with those of this server.
pub(crate) fn compare(name: &str) {
    let Some(server) = server(name, &[]) else { return };
    let mut direct = server.connect();
    if !direct.ask("ACL HELP").contains("DRYRUN") {
        let _ = writeln!(std::io::stderr(), "skipped: {name} has no ACL DRYRUN");
        return;
    }
    let users = USERS.iter().map(|(name, rules)| format!("{name} {rules}"));
    let users = users.collect::<Vec<_>>().join(";");
    let proxy = Respool::to(RESPOOL, server.endpoint()).args(&["--acl-users", &users]).start();
    let mut through = proxy.connect();
    for (user, rules) in USERS {
        let set: Vec<&str> = ["ACL", "SETUSER", user].into_iter().chain(words(rules)).collect();
        assert_eq!(direct.command(&set).expect("a reply"), b"+OK\r\n", "{name}: {user}");
    }
    let mut generator = Generator::new(seed(), &["u:", "u:", "w:", "b:", "s:"]);
    let mut found = Found::default();
    for round in 0..calls(CALLS) * USERS.len() / BATCH {
        let user = USERS[round % USERS.len()].0;
        let calls: Vec<Call> = (0..BATCH).map(|_| generator.call()).collect();
        let ask = ["ACL", "DRYRUN", user];
        let theirs = asked(&mut direct, &ask, &calls);
        let ours = asked(&mut through, &ask, &calls);
        for ((call, theirs), ours) in calls.iter().zip(theirs).zip(ours) {
            found.compare(user, call, &theirs, &ours, &server);
        }
    }
    println!("{name}: {} allowed, {} denied, seed {}", found.allowed, found.denied, seed());
    let few = calls(CALLS) / 10;
    assert!(found.allowed > few && found.denied > few, "few are valid");
    found.stricter.retain(|name, _| !STRICTER.iter().any(|(known, _)| known == name));
    assert!(
        found.holes.is_empty() && found.stricter.is_empty(),
        "{name} denies, and we do not:\n{}\nand we deny, and it does not:\n{}",
        found.holes.join("\n"),
        found.stricter.values().cloned().collect::<Vec<_>>().join("\n"),
    );
}

/// The words of rules; a selector is one.
fn words(rules: &str) -> Vec<&str> {
    let (mut words, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, char) in rules.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            ' ' if depth == 0 => {
                words.push(&rules[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    words.push(&rules[begin..]);
    words
}

#[derive(Default)]
struct Found {
    allowed: usize,
    denied: usize,
    holes: Vec<String>,
    stricter: BTreeMap<String, String>,
}

impl Found {
    fn compare(
        &mut self,
        user: &str,
        call: &Call,
        theirs: &[u8],
        ours: &[u8],
        server: &RedisServer,
    ) {
        let is_denied = |reply: &[u8]| reply.starts_with(b"$");
        let (allowed, denied) = (theirs == b"+OK\r\n", is_denied(theirs));
        self.allowed += usize::from(allowed);
        self.denied += usize::from(denied);
        let line = || {
            let text = |reply: &[u8]| reply.escape_ascii().to_string();
            format!("  {user}: {}  theirs: {}  ours: {}", shown(call), text(theirs), text(ours))
        };
        let id = row(call);
        if id.is_some_and(|id| is_known(call, id)) {
            return;
        }
        if denied && ours == b"+OK\r\n" {
            let for_a_key = theirs.ends_with(b" key\r\n");
            let is_hole = id.is_none_or(|id| !for_a_key || is_done(call, id, server));
            if is_hole {
                self.holes.push(line());
            }
        }
        let Some(row) = id.map(CommandId::row) else { return };
        // Scripts are for nobody who is restricted, whatever keys they name.
        if allowed && is_denied(ours) && !row.flags.has(Flags::NO_MANDATORY_KEYS) {
            self.stricter.entry(row.name.to_owned()).or_insert_with(line);
        }
    }
}
