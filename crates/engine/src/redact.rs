//! Which arguments are secrets: shown as `(redacted)` to MONITOR and in the slow log, as servers do.
//!
//! Not here: the log of the process, which never has arguments.
//!
//! Invariant: an argument that may be a password of the server or of the proxy is a secret, whatever stands around it.

use crate::command::word;
use crate::local::config;

/// What stands for a secret.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// So many commands inside of each other are looked into; what is inside of more is a secret. Each argument is looked at
/// by itself, and there may be a million of them.
const DEPTH_MAX: usize = 4;

/// Settings of servers whose values are secrets.
const SECRET_SETTINGS: [&[u8]; 7] = [
    b"requirepass",
    b"masterauth",
    b"masteruser",
    b"primaryauth",
    b"primaryuser",
    b"tls-key-file-pass",
    b"tls-client-key-file-pass",
];

/// The argument as it may be shown.
pub(crate) fn shown<'a>(args: &[&'a [u8]], index: usize) -> &'a [u8] {
    if is_secret(args, index) { REDACTED } else { args[index] }
}

fn is_secret(mut args: &[&[u8]], mut index: usize) -> bool {
    let mut depth = 0;
    while let Some(inner) = inner_command(args).filter(|inner| *inner <= index) {
        depth += 1;
        if depth > DEPTH_MAX {
            return true;
        }
        (args, index) = (&args[inner..], index - inner);
    }
    if index == 0 {
        return false;
    }
    let is = |at: usize, word: &[u8]| args.get(at).is_some_and(|arg| word::is(arg, word));
    // Whatever the other options are, so that a wrong call shows no password either.
    let behind =
        |word: &[u8], count: usize| (1..=count.min(index - 1)).any(|n| is(index - n, word));
    if is(0, b"auth") {
        true
    } else if is(0, b"hello") {
        index > 1 && behind(b"auth", 2)
    } else if is(0, b"migrate") {
        // Its first five arguments are no options.
        index > 6 && (behind(b"auth", 1) || behind(b"auth2", 2))
    } else if is(0, b"acl") {
        let sub = if is(1, b"server") { 2 } else { 1 };
        index > sub && [&b"setuser"[..], b"deluser", b"getuser"].iter().any(|word| is(sub, word))
    } else if is(0, b"config") {
        let is_secret = |name: &&[u8]| {
            SECRET_SETTINGS.iter().any(|secret| word::is(name, secret))
                || is_secret_option(name, args[index])
        };
        is(1, b"set") && index > 2 && args.get(index - 1).is_some_and(is_secret)
    } else {
        false
    }
}

/// Where a command begins that a command is about: `COMMAND GETKEYS AUTH pw`.
fn inner_command(args: &[&[u8]]) -> Option<usize> {
    let is = |at: usize, word: &[u8]| args.get(at).is_some_and(|arg| word::is(arg, word));
    let at = match () {
        () if is(0, b"command") && (is(1, b"getkeys") || is(1, b"getkeysandflags")) => 2,
        () if is(0, b"acl") && is(1, b"dryrun") => 3,
        () if is(0, b"acl") && is(1, b"server") && is(2, b"dryrun") => 4,
        () => return None,
    };
    (args.len() > at).then_some(at)
}

/// Whether an option of the proxy has a value that may be a secret. The options are not known here, so all are taken for secrets but
/// sizes, times and switches of options that no password stands in.
fn is_secret_option(name: &[u8], value: &[u8]) -> bool {
    let name = word::lower(name);
    let Some(option) = name.strip_prefix(config::PREFIX) else { return false };
    let is_number = value.first().is_some_and(u8::is_ascii_digit)
        && value.iter().all(u8::is_ascii_alphanumeric)
        && value.iter().skip_while(|byte| byte.is_ascii_digit()).count() <= "KiB".len();
    let is_switch = matches!(value, b"true" | b"false" | b"yes" | b"no" | b"on" | b"off");
    option.ends_with(b"password") || option.ends_with(b"token") || !(is_number || is_switch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn redacted(line: &str) -> Vec<u8> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        (0..args.len()).map(|index| shown(&args, index)).collect::<Vec<_>>().join(&b' ')
    }

    #[test]
    fn commands_inside_of_many_others_are_secrets() {
        let begin = "COMMAND GETKEYS ".repeat(DEPTH_MAX + 1);
        let seen = redacted(&[&begin, "GET k"].concat());
        assert_eq!(seen, [&begin, "(redacted) (redacted)"].concat().as_bytes());
    }

    #[test]
    fn passwords_are_not_shown_wherever_they_stand() {
        for (line, seen) in [
            ("AUTH pw", "AUTH (redacted)"),
            ("auth user pw", "auth (redacted) (redacted)"),
            ("HELLO 3 AUTH u p SETNAME n", "HELLO 3 AUTH (redacted) (redacted) SETNAME n"),
            ("MIGRATE h 1 '' 0 9 AUTH pw KEYS a", "MIGRATE h 1 '' 0 9 AUTH (redacted) KEYS a"),
            ("HELLO 3 auth\0x u p", "HELLO 3 auth\0x (redacted) (redacted)"),
            ("CONFIG SET requirepass\0 pw", "CONFIG SET requirepass\0 (redacted)"),
            ("MIGRATE h 1 k 0 9 AUTH2 u p", "MIGRATE h 1 k 0 9 AUTH2 (redacted) (redacted)"),
            ("ACL SETUSER u >p", "ACL SETUSER (redacted) (redacted)"),
            ("COMMAND GETKEYS AUTH u p", "COMMAND GETKEYS AUTH (redacted) (redacted)"),
            ("command getkeysandflags acl dryrun u hello 3 auth u p", {
                "command getkeysandflags acl dryrun u hello 3 auth (redacted) (redacted)"
            }),
            ("ACL SERVER DRYRUN u AUTH p", "ACL SERVER DRYRUN u AUTH (redacted)"),
            (
                "CONFIG SET maxmemory 1 requirepass pw",
                "CONFIG SET maxmemory 1 requirepass (redacted)",
            ),
            ("CONFIG SET respool.Password pw", "CONFIG SET respool.Password (redacted)"),
            ("CONFIG SET respool.upstream redis://:pw@h", "CONFIG SET respool.upstream (redacted)"),
            ("CONFIG SET respool.password 12345", "CONFIG SET respool.password (redacted)"),
            ("CONFIG SET respool.admin.token 12345", "CONFIG SET respool.admin.token (redacted)"),
            (
                "CONFIG SET respool.alarms.webhook https://h/pw",
                "CONFIG SET respool.alarms.webhook (redacted)",
            ),
            ("CONFIG SET respool.mirrors.targets redis://:pw@h x 1", {
                "CONFIG SET respool.mirrors.targets (redacted) x 1"
            }),
            ("CONFIG SET respool.policies.values.keys k=pw", {
                "CONFIG SET respool.policies.values.keys (redacted)"
            }),
            ("CONFIG SET respool.policies.rename config=9abcdef", {
                "CONFIG SET respool.policies.rename (redacted)"
            }),
            ("CONFIG SET respool.workers 2", "CONFIG SET respool.workers 2"),
            (
                "CONFIG SET respool.limits.memory_max_bytes 64MiB respool.cache.enabled true",
                "CONFIG SET respool.limits.memory_max_bytes 64MiB respool.cache.enabled true",
            ),
            ("SET auth pw", "SET auth pw"),
            ("ACL LIST", "ACL LIST"),
        ] {
            assert_eq!(redacted(line), seen.as_bytes(), "{line}");
        }
    }
}
