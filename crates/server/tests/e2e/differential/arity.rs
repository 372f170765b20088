//! Wrong and right numbers of arguments for every command that the server has.
//!
//! The list is the server's own COMMAND, so a newer server is tested with its newer commands. Each
//! command is sent with its name alone and with one to four arguments more, each subcommand in the
//! same way. Most of these are errors on the number of arguments; the rest are executed with
//! arguments that make no sense, and compared just the same.
//!
//! Invariant: nothing is sent that [`left_out`](super::left_out) names.

use std::collections::BTreeSet;

use resp::Value;
use testkit::Conn;

use super::corpus::{Command, Compare, Step};
use super::left_out::{BY_TYPE, LEFT_OUT, leaves_out};

/// Arguments beyond the name. They are neither numbers nor known words, and name no key that is
/// there.
const MORE: [&str; 4] = ["arg1", "arg2", "arg3", "arg4"];

/// The steps, made from the server's list.
pub(super) fn steps(server: &mut Conn) -> Vec<Step> {
    let names = names(server);
    for (name, _) in LEFT_OUT {
        let container = name.split('|').next().unwrap_or(name);
        // Other versions have fewer subcommands; a container that is not there is a mistake in the
        // list.
        let known = names.contains(*name) || names.contains(container);
        assert!(known, "left out, but no command of the server: {name}");
    }
    let mut steps = Vec::new();
    for name in names.iter().filter(|name| !leaves_out(name)) {
        let words: Vec<&str> = name.split('|').collect();
        for count in 0..=MORE.len() {
            let args: Vec<&str> = words.iter().chain(&MORE[..count]).copied().collect();
            let compare =
                if BY_TYPE.contains(&name.as_str()) { Compare::Type } else { Compare::Bytes };
            steps.push(Step { compare, ..Step::command(Command::from_args(&args)) });
        }
        // A connection each, so that what one command leaves behind (a database, a name) ends with
        // it.
        steps.push(Step { command: None, compare: Compare::Bytes });
    }
    steps
}

/// Commands and, as `command|subcommand`, subcommands, sorted.
fn names(server: &mut Conn) -> BTreeSet<String> {
    let reply = server.command(&["COMMAND"]).expect("COMMAND");
    let Ok(Some((Value::Array(rows), _))) = resp::value::parse(&reply) else {
        panic!("COMMAND is no array");
    };
    let mut names = BTreeSet::new();
    for row in &rows {
        let Value::Array(fields) = row else { panic!("a row of COMMAND is no array") };
        names.insert(text(&fields[0]));
        if let Some(Value::Array(subcommands)) = fields.get(9) {
            for subcommand in subcommands {
                let Value::Array(fields) = subcommand else { panic!("a subcommand is no array") };
                names.insert(text(&fields[0]));
            }
        }
    }
    assert!(names.len() > 200, "{} commands", names.len());
    names
}

fn text(value: &Value<'_>) -> String {
    match value {
        Value::Bulk(text) | Value::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("a name expected: {other:?}"),
    }
}
