//! Which arguments are secrets: shown as `(redacted)` to MONITOR and in the slow log, as servers do.
//!
//! Not here: the log of the process, which never has arguments.
//!
//! Invariant: an argument that may be a password of the server or of the proxy is a secret, whatever stands around it.

use crate::command::word;
use crate::local::config;

/// What stands for a secret.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

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

fn is_secret(args: &[&[u8]], index: usize) -> bool {
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
            SECRET_SETTINGS.iter().any(|secret| word::is(name, secret)) || is_secret_option(name)
        };
        is(1, b"set") && index > 2 && args.get(index - 1).is_some_and(is_secret)
    } else {
        false
    }
}

/// Options of the proxy that hold a password, or may hold one in a URL.
fn is_secret_option(name: &[u8]) -> bool {
    let name = word::lower(name);
    name.strip_prefix(config::PREFIX).is_some_and(|option| {
        option.ends_with(b"password")
            || option == b"upstream"
            || option == b"sharding.shards"
            || option == b"acl.users"
    })
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
            (
                "CONFIG SET maxmemory 1 requirepass pw",
                "CONFIG SET maxmemory 1 requirepass (redacted)",
            ),
            ("CONFIG SET respool.Password pw", "CONFIG SET respool.Password (redacted)"),
            ("CONFIG SET respool.upstream redis://:pw@h", "CONFIG SET respool.upstream (redacted)"),
            ("CONFIG SET respool.workers 2", "CONFIG SET respool.workers 2"),
            ("SET auth pw", "SET auth pw"),
            ("ACL LIST", "ACL LIST"),
        ] {
            assert_eq!(redacted(line), seen.as_bytes(), "{line}");
        }
    }
}
