//! The part of a command that a mirror with `keys=` or `percent=` gets.
//!
//! ```text
//!   DEL, UNLINK, MSET                     the keys that it wants
//!   writes none of the keys it wants      nothing
//!   writes one, all keys are wanted       the command
//!   writes one, others are not wanted     nothing, and the command counts as dropped: the mirror lacks keys that it reads
//! ```
//! Not here: the rewriting of commands for mirrors (`told`, `rewrite`).
//!
//! Invariant: respool sends a mirror no key that the mirror does not want, except keys that scripts do not name.

use super::publishes;
use super::rewrite::Words;
use super::target::Target;
use crate::command::{self, CommandId, KeyFlags, ids};
use crate::scatter::{keys_of, row_of};
use alloc::vec::Vec;

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Share {
    Nothing,
    Words(Words),
    /// The mirror wants a key that the command writes, and not all of the others: the command is dropped.
    Apart,
}

/// The reason for [`Share::Apart`] in counters, the log and errors.
pub(super) const APART: &str = "it has keys that this mirror does not get";

/// The share of this mirror of a command.
pub(super) fn share_of(target: &Target, command: &Words) -> Share {
    let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    let row = args.first().and_then(|name| command::lookup(name));
    if matches!(row, Some(ids::FLUSHALL | ids::FLUSHDB)) && !target.settings.flush {
        return Share::Nothing;
    }
    let found = keys_of(&args, None);
    if found.is_empty() || row.is_some_and(publishes) {
        // Scripts without keys and messages go to every mirror: no key says which of them wants it.
        return Share::Words(command.clone());
    }
    match row.map(CommandId::name) {
        Some("del" | "unlink") => parts(target, command, &found, 1),
        Some("mset") => parts(target, command, &found, 2),
        _ if !written(row, &args).iter().any(|key| target.wants(key)) => Share::Nothing,
        _ if found.iter().all(|(_, key)| target.wants(key)) => Share::Words(command.clone()),
        _ => Share::Apart,
    }
}

/// The command with those of its keys that the mirror wants; each key has `step` words.
fn parts(target: &Target, command: &Words, found: &[(usize, &[u8])], step: usize) -> Share {
    let mut share = command[..1].to_vec();
    for (at, key) in found {
        if target.wants(key) {
            share.extend_from_slice(command.get(*at..at + step).unwrap_or_default());
        }
    }
    if share.len() > 1 { Share::Words(share) } else { Share::Nothing }
}

/// The keys that a command writes. If the table declares none, the function returns all keys: XREADGROUP moves the position of its group, and its key counts as read.
fn written<'a>(row: Option<CommandId>, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let mut written = Vec::new();
    if let Some(row) = row {
        command::keys(row_of(row, args).row(), args.iter().copied(), |_, key, flags| {
            if !flags.has(KeyFlags::RO) {
                written.push(key);
            }
        });
    }
    match written.is_empty() {
        true => keys_of(args, None).into_iter().map(|(_, key)| key).collect(),
        false => written,
    }
}
