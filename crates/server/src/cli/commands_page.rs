//! The page `docs/reference/commands.md`: what respool does with each command.
//!
//! Made from the engine's command table, so that the page cannot say something else than the code does. What the table
//! cannot say (how a command that is answered here differs from the server's) stands in [`NOTES`].
//!
//! Not here: commands that the table does not know; those are learnt from the server while respool runs.
//!
//! Invariant: every row of the table is on the page, subcommands in their container's row where all of them share its class and
//! in one of their own where they do not.

use std::fmt::Write;

use engine::command::spread::{Behind, fates};
use engine::command::{COUNT, Class, CommandId};

/// What stands above the table.
const HEAD: &str = "\
# Commands

What respool does with a request is decided by its command and subcommand. The table is that of Redis 7.0 to 8.x and of Valkey 8
and 9; commands that it does not know (modules, newer servers) are looked up in the server's own `COMMAND` reply, and
given on over the shared connection if that says nothing against it. A command or subcommand that neither has is asked for by
`COMMAND INFO`; if no server has it respool answers with the server's error. A name with a NUL is always unknown. Where a server tells
nothing of its commands, or has renamed one, the command goes over a connection of its own that is closed behind the reply.

| word in the table | what happens |
|---|---|
| given on | goes to the server over the shared connection of its protocol and database; the reply comes back byte by byte |
| answered here | respool answers, because the command is about the client's own connection, which the server does not see |
| own connection | given on over a connection of the client's own, which it has for as long as a transaction or a wait lasts |
| not yet | needs its connection for as long as it lasts, which respool does not give yet: an error, and the client's connection stays open |
| `BLOCK`, `CAS`: own connection | given on without the option `BLOCK` (of `XREAD`, `XREADGROUP`) or `CAS` (of `VADD`); with it as the row above |
| control lane | goes to the server over a second connection, so that it overtakes a script that hangs |
| refused | would stop or freeze the server for everybody, or is spoken between servers only: an error, and the connection stays open |

The errors are explained in the [operations guide](../guides/operations.md#errors-that-respool-itself-gives). Number and kind of arguments of
what is given on are checked by the server, in its own words.

| command | what happens | to know |
|---|---|---|
";

/// What is to be known beyond the class, by the command's name.
const NOTES: &[(&str, &str)] = &[
    (
        "acl",
        "About the [users](../guides/users.md) of the proxy. `ACL SERVER LIST|SETUSER …` is about the servers'.",
    ),
    (
        "auth",
        "Against the [users](../guides/users.md) of respool's configuration; `default` has its `password`.",
    ),
    (
        "bigkeys",
        "Large requests and replies that went through the proxy, of all workers: `BIGKEYS GET [count]|LEN|RESET`. No server has it.",
    ),
    (
        "client",
        "About the clients of the proxy, over all workers. `TRACKING` lets the server track over connections that \
         all caching clients share, but for those with `NOLOOP`; `UNBLOCK` has the server end the wait; `PAUSE` holds requests in the proxy.",
    ),
    ("cluster", "To the one server behind. respool does not speak for a cluster."),
    ("command", "The server's own, so it also lists what the proxy does not give on."),
    (
        "config",
        "The server's own. A client can read the server's configuration, `requirepass` included, and change it, as far as the user may \
         that respool logs in with.",
    ),
    ("discard", "As for a client without a transaction: an error."),
    ("exec", "As for a client without a transaction: an error."),
    ("hello", "The server's own reply, with the client's id at the proxy in it."),
    (
        "info",
        "The proxy's own figures, with the keys of all primaries (`keyspace`) and whether one loads (`loading`). \
         `INFO upstream [section …]` and sections that only the server has are the server's.",
    ),
    ("latency", "The server's, about all that it does."),
    (
        "monitor",
        "The requests of all clients of the proxy, of all workers; `MONITOR [MATCH pattern] … [CLIENT id] …` shows fewer. What scripts do inside \
         is the server's to show. A client that does not keep up is closed.",
    ),
    (
        "publish",
        "The number counts every client that listens, over all workers, though the server sees one listener for each worker.",
    ),
    (
        "psubscribe",
        "As `SUBSCRIBE`. In front of a cluster a pattern that could match keyspace events is subscribed to at every primary.",
    ),
    (
        "pubsub",
        "The server's, with `NUMSUB` and `SHARDNUMSUB` counting every client as for `PUBLISH`.",
    ),
    ("quit", "Replies that are owed come first."),
    (
        "reset",
        "Back to RESP2, the first database, no name, and the user `default`, unauthenticated if that has a password.",
    ),
    (
        "select",
        "The first client to ask for a database waits until a connection has selected it; the server's refusal is given on.",
    ),
    (
        "slowlog",
        "The proxy's own, of all workers: what took long from being given on to the reply; `GET … DETAIL` tells more. `SLOWLOG SERVER GET|LEN|RESET` is the servers'.",
    ),
    ("spublish", "As `PUBLISH`."),
    (
        "ssubscribe",
        "As `SUBSCRIBE`, at the owner of the channel's slot, and there again when the slot moves.",
    ),
    (
        "subscribe",
        "respool listens once per worker for all its clients, and hands on. The confirmation comes when the server has confirmed; a lost \
         connection or a failover is made good without the client's doing.",
    ),
    ("swapdb", "Changes the databases for everyone, as without a proxy."),
    ("time", "The server's clock."),
    (
        "topkeys",
        "The proxy's own, of all workers: the keys that come most often. `TOPKEYS ENABLE|DISABLE|GET [count]|RESET`. No server has it.",
    ),
    ("unwatch", "As for a client that watches nothing: `OK`."),
    (
        "wait",
        "Asks for the copies of everything written so far, on every primary; the least number is the answer.",
    ),
    (
        "waitaof",
        "Asks for the copies of everything written so far, on every primary; the least number is the answer.",
    ),
];

/// The page.
pub(super) fn page() -> String {
    let mut page = format!(
        "<!-- Generated from crates/engine/src/command/table.rs by `{}`. Do not edit. -->\n{HEAD}",
        config::documents::REGENERATE
    );
    for id in (0..COUNT).filter_map(CommandId::from_index) {
        // Subcommands are taken along with their container.
        if !id.name().contains('|') {
            rows(&mut page, id);
        }
    }
    page
}

/// The row of a command, and those of its subcommands that respool treats differently.
fn rows(page: &mut String, id: CommandId) {
    let command = id.row();
    let note = NOTES.iter().find(|(name, _)| *name == command.name).map_or("", |(_, note)| note);
    row(page, id, note);
    for sub in id.subcommands().filter(|sub| sub.row().class != command.class) {
        row(page, sub, "");
    }
}

fn row(page: &mut String, id: CommandId, note: &str) {
    let command = id.row();
    let own = fates(id, Behind::Server).own_connection;
    let name = command.name.to_uppercase().replace('|', " ");
    // A bar ends a cell, in code, too.
    let note = note.replace('|', "\\|");
    // Writing to a `String` cannot fail.
    let _ = writeln!(page, "| `{name}` | {} | {note} |", words(command.class, own));
}

/// The class in the words of the page.
fn words(class: Class, own_connection: bool) -> &'static str {
    match class {
        Class::Pass | Class::Beside | Class::Counted | Class::Noted => "given on",
        Class::Local => "answered here",
        Class::Leased if own_connection => "own connection",
        Class::Leased => "not yet",
        Class::Blocking => "`BLOCK`, `CAS`: own connection",
        Class::Control => "control lane",
        Class::Refused => "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_note_has_its_command() {
        for (name, _) in NOTES {
            assert!(engine::command::lookup(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn every_command_is_on_the_page_with_what_happens() {
        let page = page();
        for line in [
            "| `GET` | given on |  |",
            "| `MULTI` | own connection |  |",
            "| `SYNC` | not yet |  |",
            "| `CLUSTER SETSLOT` | own connection |  |",
            "| `SCRIPT DEBUG` | not yet |  |",
            "| `SCRIPT` | given on |  |",
            "| `SCRIPT KILL` | control lane |  |",
            "| `XREAD` | `BLOCK`, `CAS`: own connection |  |",
            "| `SHUTDOWN` | refused |  |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}");
        }
        let commands = (0..COUNT).filter_map(CommandId::from_index);
        for name in commands.map(CommandId::name).filter(|name| !name.contains('|')) {
            assert!(page.contains(&format!("| `{}` |", name.to_uppercase())), "{name}");
        }
        // CLIENT's subcommands are all answered here, as CLIENT is, so they share its row.
        assert!(!page.contains("CLIENT LIST"));
    }
}
