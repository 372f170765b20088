//! Redis' ACL file: a line for each user, `user name rules…`.
//!
//! Not here: reading and writing it (`server`).
//!
//! Invariant: what is written is read as the same users; a file with one error gives none.

use super::{DEFAULT, RuleError, Rules, Users, ends_name, merged};
use crate::limits::USERS_MAX;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A user that was read: its name and its rules.
pub type Named = (Box<[u8]>, Rules);

/// Reads a file; messages call it `name`.
///
/// # Errors
/// All that is wrong with it, in the words of Redis' `ACL LOAD`, without passwords.
pub fn parse(text: &[u8], name: &str) -> Result<Vec<Named>, String> {
    let mut users: Vec<Named> = Vec::new();
    let mut errors = String::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (b"user", Some(user)) = (words[0], words.get(1)) else {
            errors += &format!(
                "{name}:{number} should start with user keyword followed by the username. "
            );
            continue;
        };
        let shown = String::from_utf8_lossy(user);
        if ends_name(user) {
            errors +=
                &format!("'{name}:{number}: username '{shown}' contains invalid characters. ");
            continue;
        }
        if users.iter().any(|(known, _)| **known == **user) {
            errors += &format!("WARNING: Duplicate user '{shown}' found on line {number}. ");
            continue;
        }
        if users.len() >= USERS_MAX {
            errors += &format!("{name}:{number}: there are more than {USERS_MAX} users. ");
            break;
        }
        let (rules, wrong) = rules_of(&words[2..]);
        let wrong = wrong.iter().map(|wrong| format!("{name}:{number}: {wrong}"));
        errors.extend(wrong);
        users.push(((*user).into(), rules));
    }
    match errors.is_empty() {
        true => Ok(users),
        false => Err(format!(
            "{errors}WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
        )),
    }
}

/// The rules of one line, and what is wrong with them: each unknown command, and the first of anything else, since that may be why the
/// rest is wrong, and is not repeated, since it may be a password.
pub fn rules_of(words: &[&[u8]]) -> (Rules, Vec<String>) {
    let (mut rules, mut wrong) = (Rules::default(), Vec::new());
    let Ok(words) = merged(words) else {
        wrong.push(String::from("Unmatched parenthesis in selector definition."));
        return (rules, wrong);
    };
    let mut is_told = false;
    for word in words {
        match rules.apply(word.trim_ascii()) {
            Ok(()) => {}
            Err(error @ RuleError::UnknownCommand) => {
                let word = String::from_utf8_lossy(&word).into_owned();
                wrong.push(format!("Error in applying operation '{word}': {}. ", error.text()));
            }
            Err(error) => {
                if !core::mem::replace(&mut is_told, true) {
                    wrong.push(format!("{}. ", error.text()));
                }
            }
        }
    }
    (rules, wrong)
}

/// The words of a line with quotes, as in Redis' configuration file; `None`: a quote does not end.
#[must_use]
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    resp::inline::split(line).ok()
}

/// The users as a file.
#[must_use]
pub fn write(users: &Users) -> Vec<u8> {
    users.iter().flat_map(|user| [user.line(), b"\n".to_vec()].concat()).collect()
}

/// Users with these rules; the default user is open if it is not among them.
#[must_use]
pub fn users_of(read: Vec<Named>) -> Users {
    let mut users = Users::default();
    for (name, rules) in read {
        users.put(&name, rules);
    }
    debug_assert!(users.get(DEFAULT).is_some(), "there is a default user");
    users
}
