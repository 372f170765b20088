//! TOPKEYS: the keys that come most often through the proxy, of all workers together. `HOTKEYS` is the servers' (Redis 8.6).
//!
//! Not here: what is counted (`hotkeys`).

use super::Call;
use crate::command::{ids, lookup_sub};
use crate::engine::Engine;
use crate::fleet::{Answer, Purpose, Question};
use crate::hotkeys::HotReport;
use crate::reject;
use crate::request::Step;
use alloc::vec::Vec;
use resp::{Protocol, encode, number};

/// How many keys are shown if the client does not say.
pub(super) const SHOWN: usize = 10;

const HELP: &[&str] = &[
    "TOPKEYS <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return the <count> keys that come most often through the proxy (default: 10,",
    "    -1 mean all), with estimates over the window that runs and the last whole one.",
    "RESET",
    "    Forget what was counted.",
    "ENABLE",
    "    Count from now on.",
    "DISABLE",
    "    Count no more, and forget what was counted.",
    "HELP",
    "    Print this help.",
];

impl Engine {
    pub(super) fn topkeys_command(&mut self, call: &Call<'_>) -> Step {
        let Some(sub) = lookup_sub(ids::TOPKEYS, call.args[1]) else {
            return self.say(call, |out| reject::unknown_subcommand(out, "topkeys", call.args[1]));
        };
        if !super::arity_fits(sub, call.args.len()) {
            return self.say(call, |out| reject::arity(out, sub.name()));
        }
        match sub {
            ids::TOPKEYS_ENABLE => self.ask(call, Question::HotSwitch(true), Purpose::Ok),
            ids::TOPKEYS_DISABLE => self.ask(call, Question::HotSwitch(false), Purpose::Ok),
            ids::TOPKEYS_RESET => self.ask(call, Question::HotReset, Purpose::Ok),
            ids::TOPKEYS_GET => match shown(call.args) {
                Ok(count) => self.ask(call, Question::HotKeys, Purpose::HotKeys(count)),
                Err(Some(text)) => self.refuse(call, text),
                Err(None) => {
                    self.say(call, |out| reject::subcommand_syntax(out, "topkeys", call.args[1]))
                }
            },
            _ => self.say(call, |out| {
                encode::array(out, HELP.len());
                HELP.iter().for_each(|line| encode::simple(out, line.as_bytes()));
            }),
        }
    }
}

/// How many entries `… GET [count]` wants; the error's text where it has one of its own.
pub(super) fn shown(args: &[&[u8]]) -> Result<usize, Option<&'static str>> {
    match args {
        [_, _] => Ok(SHOWN),
        [_, _, count] => match number::parse_i64(count) {
            // -1: all.
            Some(count) if count >= -1 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
            _ => Err(Some(reject::SLOWLOG_COUNT)),
        },
        _ => Err(None),
    }
}

/// What all workers know together.
pub(super) fn merged(answers: Vec<Answer>, count: usize) -> HotReport {
    let reports = answers.into_iter().filter_map(|answer| match answer {
        Answer::HotKeys(report) => Some(report),
        _ => None,
    });
    HotReport::merged(reports, count)
}

/// The reply: a map for each key.
pub(super) fn write(out: &mut Vec<u8>, report: &HotReport, protocol: Protocol) {
    encode::array(out, report.keys.len());
    for key in &report.keys {
        let reads = key.count().saturating_sub(key.writes);
        let numbers = [
            ("per_second", key.per_1000_s.div_ceil(1_000)),
            ("count", key.count()),
            ("window", key.current),
            ("last_window", key.last),
            ("reads", reads),
            ("writes", key.writes),
        ];
        encode::map(out, 1 + numbers.len(), protocol);
        encode::bulk(out, b"key");
        encode::bulk(out, &key.name.shown());
        for (name, number) in numbers {
            encode::bulk(out, name.as_bytes());
            encode::integer(out, number as i64);
        }
    }
}
