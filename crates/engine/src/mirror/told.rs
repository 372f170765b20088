//! What mirrors are told of a write when the primary has answered it: the same, something else in its place, or nothing.
//!
//! Not here: what it becomes (`rewrite`), to whom it goes (`super`).
//!
//! Invariant: of what failed nothing is told, and of what may have been done that it may have been.

use super::rewrite::{self, Effect, Words};
use crate::command;
use alloc::vec::Vec;
use resp::Args;

/// What a request comes to at mirrors.
pub(super) enum Told {
    Words(Option<Words>),
    /// Nobody knows whether it was done.
    Unsure,
    Unsaid(&'static str),
}

/// What mirrors are told of a request that got this reply. `script`: the one that it calls by its digest.
pub(super) fn told_of(
    frame: Option<&[u8]>,
    reply: &[u8],
    unix_ms: u64,
    script: Option<Vec<u8>>,
) -> Told {
    if reply.is_empty() || reply.starts_with(b"-ERR respool: upstream ") {
        return Told::Unsure;
    }
    let Some(frame) = frame else {
        return match reply.starts_with(b"-") {
            true => Told::Words(None),
            false => Told::Unsaid("there was no room to keep it"),
        };
    };
    let args: Vec<&[u8]> = Args::new(frame).collect();
    let row = args.first().and_then(|name| command::lookup(name));
    if reply.starts_with(b"-") {
        // A script that fails may have written before.
        let was_script = row.is_some_and(|row| row.row().is_script());
        let refused = [&b"-NOSCRIPT "[..], b"-NOPERM ", b"-CROSSSLOT "];
        let may_have = was_script && !refused.iter().any(|word| reply.starts_with(word));
        return if may_have { Told::Unsure } else { Told::Words(None) };
    }
    match rewrite::effect(&args, reply, unix_ms) {
        Effect::Nothing => Told::Words(None),
        Effect::AsIs => Told::Words(Some(as_is(&args, script))),
        Effect::Instead(words) => Told::Words(Some(words)),
        Effect::Unsaid(why) => Told::Unsaid(why),
    }
}

/// As it came; a script that is known goes along with its call.
fn as_is(args: &[&[u8]], script: Option<Vec<u8>>) -> Words {
    let mut words: Words = args.iter().map(|word| word.to_vec()).collect();
    if let Some(script) = script {
        words[0] = b"EVAL".to_vec();
        words[1] = script;
    }
    words
}

/// As a list of commands.
pub(super) fn vec_of(words: Option<Words>) -> Vec<Words> {
    words.into_iter().collect()
}
