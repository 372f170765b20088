//! The body of the fuzz target for rules of users: whatever the words are, they are rules or an error, and what is shown of a user makes the same one.
//!
//! Here and not in `fuzz/`, so that the committed seeds are replayed by `cargo test` with the very same code. Compiled for tests and fuzzing only.
//!
//! Invariant: [`acl`] returns for every input, or panics because two ways to the same user differ.

use super::describe::Described;
use super::{Called, Rules, Users, file};
use crate::command::{CommandId, lookup, lookup_sub};
use alloc::vec::Vec;

/// Lines of words: the first is rules for `ACL SETUSER`, all the others are requests that this user sends. The whole is also read as an ACL file.
pub fn acl(data: &[u8]) {
    let _ = file::parse(data, "f");
    let mut lines = data.split(|byte| *byte == b'\n').map(words_of);
    let rules = lines.next().unwrap_or_default();
    let mut users = Users::default();
    if users.set(b"u", &rules).is_err() {
        return;
    }
    let Some(user) = users.get(b"u") else { panic!("a user was set and is not there") };
    let Some(again) = described_again(user.rules()) else { return };
    for request in lines.filter(|request| !request.is_empty()) {
        let Some(called) = called(&request) else { continue };
        let check = |rules: &Rules| rules.check(called, request.iter().copied(), false);
        assert_eq!(check(user.rules()), check(&again), "{request:?}");
    }
}

/// The user that its description makes; `None`: a pattern of a selector has quotes, backslashes or parentheses, which Redis (7.0) shows as they are and reads
/// otherwise, or not at all.
fn described_again(rules: &Rules) -> Option<Rules> {
    let text = rules.describe();
    let is_read_otherwise = |byte: &u8| b"\"'\\()".contains(byte);
    let has_any = |selector: Described| {
        let Described { commands, keys, channels } = selector;
        [commands, keys, channels].iter().flatten().any(is_read_otherwise)
    };
    if rules.described().skip(1).any(has_any) {
        return None;
    }
    let line: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
    let (again, wrong) = file::rules_of(&line);
    assert!(wrong.is_empty(), "{wrong:?} of {}", alloc::string::String::from_utf8_lossy(&text));
    let shown = again.describe();
    assert!(
        again == *rules && shown == text,
        "{} became {}",
        text.escape_ascii(),
        shown.escape_ascii()
    );
    Some(again)
}

fn words_of(line: &[u8]) -> Vec<&[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect()
}

fn called<'a>(request: &[&[u8]]) -> Option<Called<'a>> {
    let id = lookup(request[0])?;
    let row: Option<CommandId> = match request.get(1) {
        Some(word) if id.row().is_container() => lookup_sub(id, word),
        _ => Some(id),
    };
    row.map(Called::Row)
}
