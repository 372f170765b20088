//! BIGKEYS: large requests and replies that went through the proxy, of all workers together.
//!
//! Not here: what is noted (`bigkeys`).

use super::{Call, topkeys};
use crate::bigkeys::{self, Entry};
use crate::command::{ids, lookup_sub};
use crate::engine::Engine;
use crate::fleet::{Answer, Purpose, Question};
use crate::reject;
use crate::request::Step;
use alloc::vec::Vec;
use resp::{Protocol, encode};

const HELP: &[&str] = &[
    "BIGKEYS <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return the <count> keys with large requests or replies that were seen last",
    "    (default: 10, -1 mean all).",
    "LEN",
    "    Return how many there are.",
    "RESET",
    "    Forget them.",
    "HELP",
    "    Print this help.",
];

impl Engine {
    pub(super) fn bigkeys_command(&mut self, call: &Call<'_>) -> Step {
        let Some(sub) = lookup_sub(ids::BIGKEYS, call.args[1]) else {
            return self.say(call, |out| reject::unknown_subcommand(out, "bigkeys", call.args[1]));
        };
        if !super::arity_fits(sub, call.args.len()) {
            return self.say(call, |out| reject::arity(out, sub.name()));
        }
        match sub {
            ids::BIGKEYS_LEN => self.ask(call, Question::BigKeys, Purpose::BigLen),
            ids::BIGKEYS_RESET => self.ask(call, Question::BigReset, Purpose::Ok),
            ids::BIGKEYS_GET => match topkeys::shown(call.args) {
                Ok(count) => self.ask(call, Question::BigKeys, Purpose::BigKeys(count)),
                Err(Some(text)) => self.refuse(call, text),
                Err(None) => {
                    self.say(call, |out| reject::subcommand_syntax(out, "bigkeys", call.args[1]))
                }
            },
            _ => self.say(call, |out| {
                encode::array(out, HELP.len());
                HELP.iter().for_each(|line| encode::simple(out, line.as_bytes()));
            }),
        }
    }
}

/// All workers' entries as one list, the newest first, at most so many.
pub(super) fn merged(answers: Vec<Answer>, count: usize) -> Vec<Entry> {
    let entries = answers.into_iter().filter_map(|answer| match answer {
        Answer::BigKeys(entries) => Some(entries),
        _ => None,
    });
    bigkeys::merged(entries.flatten(), count)
}

/// The reply: a map for each entry.
pub(super) fn write(out: &mut Vec<u8>, entries: &[Entry], unix_ahead_us: u64, protocol: Protocol) {
    encode::array(out, entries.len());
    for entry in entries {
        let key = entry.key.shown();
        let texts: [(&str, &[u8]); 5] = [
            ("key", &key),
            ("command", entry.command.as_bytes()),
            ("direction", entry.direction.word().as_bytes()),
            ("client", entry.addr.as_bytes()),
            ("node", entry.node.as_bytes()),
        ];
        let numbers = [
            ("bytes_max", entry.bytes_max),
            ("elements_max", entry.elements_max),
            ("count", entry.count),
            ("last_seen", (entry.at.0 + unix_ahead_us) / 1_000_000),
        ];
        encode::map(out, texts.len() + numbers.len(), protocol);
        for (name, text) in texts {
            encode::bulk(out, name.as_bytes());
            encode::bulk(out, text);
        }
        for (name, number) in numbers {
            encode::bulk(out, name.as_bytes());
            encode::integer(out, number as i64);
        }
    }
}
