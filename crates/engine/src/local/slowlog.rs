//! SLOWLOG: the proxy's own slow log, of all workers together.
//!
//! `SLOWLOG SERVER GET | LEN | RESET | HELP` is the servers' own: it goes there without the word SERVER.
//!
//! Not here: what is kept (`slowlog`).

use super::Call;
use crate::command::word;
use crate::command::{CommandId, ids, lookup_sub};
use crate::engine::Engine;
use crate::fleet::{Answer, Purpose, Question};
use crate::reject;
use crate::request::Step;
use crate::slowlog::Entry;
use alloc::vec::Vec;
use core::cmp::Reverse;
use resp::{encode, number};

/// How many entries are shown if the client does not say.
const SHOWN: i64 = 10;

const HELP: &[&str] = &[
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>] [DETAIL]",
    "    Return top <count> entries from the slowlog of the proxy (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "    and with DETAIL: time in queues before, both times together, server,",
    "    number of requests that waited behind it",
    "LEN",
    "    Return the length of the slowlog of the proxy.",
    "RESET",
    "    Reset the slowlog of the proxy.",
    "SERVER <subcommand> [<arg> ...]",
    "    The same of the servers behind.",
    "HELP",
    "    Print this help.",
];

/// Whether this is about what the servers keep themselves: their slow log, or with the same words their users.
pub(crate) fn is_of_servers(command: Option<CommandId>, args: &[&[u8]]) -> bool {
    matches!(command, Some(ids::SLOWLOG | ids::ACL))
        && matches!(args, [_, word, _, ..] if word::same_name(word, "server"))
}

/// The same in the server's words.
pub(crate) fn for_server(args: &[&[u8]]) -> Vec<u8> {
    let words: Vec<&[u8]> = args[..1].iter().chain(&args[2..]).copied().collect();
    let mut frame = Vec::new();
    encode::request(&mut frame, &words);
    frame
}

impl Engine {
    pub(super) fn slowlog_command(&mut self, call: &Call<'_>) -> Step {
        let Some(sub) = lookup_sub(ids::SLOWLOG, call.args[1]) else {
            return self.say(call, |out| reject::unknown_subcommand(out, "slowlog", call.args[1]));
        };
        if !super::arity_fits(sub, call.args.len()) {
            return self.say(call, |out| reject::arity(out, sub.name()));
        }
        match sub {
            ids::SLOWLOG_LEN => self.ask(call, Question::SlowLen, Purpose::SlowLen),
            ids::SLOWLOG_RESET => self.ask(call, Question::SlowReset, Purpose::Ok),
            ids::SLOWLOG_GET => self.slowlog_get(call),
            _ => self.say(call, |out| {
                encode::array(out, HELP.len());
                HELP.iter().for_each(|line| encode::simple(out, line.as_bytes()));
            }),
        }
    }

    fn slowlog_get(&mut self, call: &Call<'_>) -> Step {
        let (rest, detail) = match &call.args[2..] {
            [rest @ .., last] if word::is(last, b"DETAIL") => (rest, true),
            rest => (rest, false),
        };
        let count = match rest {
            [] => Some(SHOWN),
            [count] => number::parse_i64(count),
            _ => {
                return self
                    .say(call, |out| reject::subcommand_syntax(out, "slowlog", call.args[1]));
            }
        };
        let Some(count) = count.filter(|count| *count >= -1) else {
            return self.refuse(call, reject::SLOWLOG_COUNT);
        };
        // -1: all.
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let count = count.min(self.settings.slowlog.max_len);
        self.ask(call, Question::SlowLog(count), Purpose::SlowLog { count, detail })
    }
}

/// All workers' entries as one reply, the newest first.
/// `detail`: with how long each waited here and behind others, how long that and the rest took together, which server answered, and how many others waited for it. Redis' form has six fields, and
/// go-redis reads an entry with more of them as the begin of the next one.
pub(super) fn write(
    out: &mut Vec<u8>,
    answers: Vec<Answer>,
    (count, detail): (usize, bool),
    unix_ahead_us: u64,
) {
    let entries = answers.into_iter().filter_map(|answer| match answer {
        Answer::SlowLog(entries) => Some(entries),
        _ => None,
    });
    let mut entries: Vec<Entry> = entries.flatten().collect();
    entries.sort_by_key(|entry| Reverse(entry.number));
    entries.truncate(count);
    encode::array(out, entries.len());
    for entry in entries {
        encode::array(out, if detail { 10 } else { 6 });
        encode::integer(out, entry.number as i64);
        encode::integer(out, ((entry.at.0 + unix_ahead_us) / 1_000_000) as i64);
        encode::integer(out, entry.took_us as i64);
        encode::array(out, entry.args.len());
        entry.args.iter().for_each(|arg| encode::bulk(out, arg));
        encode::bulk(out, entry.addr.as_bytes());
        encode::bulk(out, &entry.name);
        if detail {
            encode::integer(out, entry.queued_us as i64);
            encode::integer(out, entry.queued_us.saturating_add(entry.took_us) as i64);
            encode::bulk(out, entry.node.as_bytes());
            encode::integer(out, entry.behind as i64);
        }
    }
}

/// How many entries all workers have, of which no more than this are shown.
pub(super) fn len(answers: &[Answer], max_len: usize) -> u64 {
    let lens = answers.iter().map(|answer| match answer {
        Answer::SlowLen(len) => *len,
        _ => 0,
    });
    lens.sum::<u64>().min(max_len as u64)
}
