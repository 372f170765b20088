//! Whether a call makes its server wait before it answers, and for how long.
//!
//! Such a call must not go over a connection that others share: they would wait as well. The way of a request and the time until
//! its reply is missed come from this one place.
//!
//! Not here: the connection that the call gets (`blocking`), and what a server that is busy does.
//!
//! Invariant: a call that a supported server waits for is never said to be answered at once.

use super::options::given;
use super::{CommandId, Flags, ids, word};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// The server answers at once.
    No,
    /// At most so many milliseconds; 0: the server refuses what is said of the time.
    For(u64),
    /// Until something comes.
    Forever,
}

/// Whether some call of this command waits at the server, as its flags say and beyond that.
pub fn may_wait(command: CommandId) -> bool {
    let beyond = matches!(command, ids::CLUSTER_SETSLOT | ids::VSIM | ids::VADD);
    beyond || command.row().flags.has(Flags::BLOCKING)
}

/// What this call does. `args` begin with the name.
pub fn waits<'a, I>(command: CommandId, args: I) -> Waits
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    let at = |index: usize| args.clone().nth(index);
    match command {
        ids::WAIT => milliseconds(at(2)),
        ids::WAITAOF => milliseconds(at(3)),
        ids::CLUSTER_SETSLOT => {
            let named = given(command.row(), args).filter(|option| option.is("timeout")).last();
            named.map_or(Waits::For(SETSLOT_MS), |option| milliseconds(option.value))
        }
        ids::XREAD | ids::XREADGROUP => of_streams(command, args),
        ids::BLMPOP | ids::BZMPOP => seconds(at(1)),
        // Options may stand behind the time.
        ids::BLMOVEM => longest(seconds(at(5)), seconds(args.last())),
        // A thread of the server does it, and only the caller waits (vset.c in Redis 8.0). What that takes nobody says.
        ids::VSIM => Waits::For(THREAD_MS),
        ids::VADD if args.clone().skip(1).any(|arg| word::is(arg, "cas")) => Waits::For(THREAD_MS),
        ids::VADD => Waits::No,
        _ if may_wait(command) => seconds(args.last()),
        _ => Waits::No,
    }
}

/// How long `CLUSTER SETSLOT` of Valkey 8 waits for replicas if the call does not say (`CLUSTER_OPERATION_TIMEOUT`).
const SETSLOT_MS: u64 = 2_000;

/// How long a thread of the server may take before it counts as late like all others.
const THREAD_MS: u64 = 1;

/// `XREAD … BLOCK ms … STREAMS …`. Behind STREAMS all are keys and ids; of several BLOCK the last counts.
fn of_streams<'a, I>(command: CommandId, args: I) -> Waits
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    let mut found = Waits::No;
    for option in given(command.row(), args.clone()) {
        match option.word {
            Some("block") => found = milliseconds(option.value),
            // A newer server may know it, and see a BLOCK in what is an argument here.
            None if args.clone().skip(1).any(|arg| word::is(arg, "block")) => {
                return Waits::Forever;
            }
            _ => {}
        }
    }
    found
}

fn milliseconds(text: Option<&[u8]>) -> Waits {
    match text.and_then(resp::number::parse_i64).map(u64::try_from) {
        Some(Ok(0)) => Waits::Forever,
        Some(Ok(ms)) => Waits::For(ms),
        _ => Waits::For(0),
    }
}

/// A time in seconds as `strtold` reads it.
fn seconds(text: Option<&[u8]>) -> Waits {
    let text = text.and_then(|text| core::str::from_utf8(text).ok()).unwrap_or_default();
    match text.parse::<f64>() {
        // A tenth of a millisecond is still not for ever.
        Ok(seconds) if seconds > 0.0 => Waits::For(((seconds * 1_000.0) as u64).max(1)),
        Ok(_) => Waits::Forever,
        // A hexadecimal number may well be 0.
        Err(_) if text.trim_start_matches(['+', '-']).starts_with(['0']) => Waits::Forever,
        Err(_) => Waits::For(0),
    }
}

fn longest(one: Waits, other: Waits) -> Waits {
    match (one, other) {
        (Waits::For(one), Waits::For(other)) => Waits::For(one.max(other)),
        (Waits::No, other) => other,
        (one, Waits::No) => one,
        _ => Waits::Forever,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{lookup, lookup_sub};
    use alloc::vec::Vec;

    fn of(line: &str) -> Waits {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let id = lookup(args[0]).unwrap();
        let id = args.get(1).and_then(|sub| lookup_sub(id, sub)).unwrap_or(id);
        waits(id, args.iter().copied())
    }

    #[test]
    fn the_call_says_how_long_the_reply_may_take() {
        for (call, waits) in [
            ("BLPOP a b 0", Waits::Forever),
            ("BLPOP a b 1.5", Waits::For(1_500)),
            ("BLPOP a 0.00001", Waits::For(1)),
            ("BLPOP a 0x0", Waits::Forever),
            ("BLMPOP 2 1 a LEFT", Waits::For(2_000)),
            ("BLMOVE a b LEFT RIGHT 3", Waits::For(3_000)),
            ("BLMOVEM a b LEFT RIGHT 0 COUNT 3", Waits::Forever),
            ("WAIT 1 100", Waits::For(100)),
            ("WAITAOF 1 0 100", Waits::For(100)),
            ("WAIT 1 0", Waits::Forever),
            ("CLUSTER SETSLOT 1 STABLE", Waits::For(2_000)),
            ("CLUSTER SETSLOT 1 NODE x TIMEOUT\0 0", Waits::Forever),
            ("CLUSTER SETSLOT 1 STABLE timeout 50", Waits::For(50)),
            ("VSIM k ELE e", Waits::For(1)),
            ("VADD k VALUES 1 1 e CAS", Waits::For(1)),
            ("VADD k VALUES 1 1 e", Waits::No),
            // Refused at once.
            ("BLPOP a -1", Waits::Forever),
            ("BLPOP a soon", Waits::For(0)),
            ("GET k", Waits::No),
        ] {
            assert_eq!(of(call), waits, "{call}");
        }
    }

    #[test]
    fn streams_are_waited_for_with_block_alone() {
        for (call, waits) in [
            ("XREAD STREAMS block 0", Waits::No),
            ("XREAD COUNT 1 BLOCK 250 STREAMS s $", Waits::For(250)),
            ("XREAD BLOCK 5 BLOCK 0 STREAMS s $", Waits::Forever),
            ("XREAD BLOCK 0 BLOCK 5 STREAMS s $", Waits::For(5)),
            ("XREAD BLOCK +1 STREAMS s $", Waits::For(0)),
            ("XREAD BLOCK\0 0 STREAMS s $", Waits::Forever),
            ("XREAD COUNT\0 1 block\0x 0 STREAMS s $", Waits::Forever),
            ("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", Waits::Forever),
            ("XREADGROUP NOACK GROUP streams c BLOCK 0 STREAMS s >", Waits::Forever),
            ("XREADGROUP COUNT 1 GROUP streams c BLOCK 0 STREAMS s >", Waits::Forever),
            ("XREADGROUP GROUP\0 streams c BLOCK 0 STREAMS s >", Waits::Forever),
            ("XREADGROUP GROUP g c CLAIM 1 BLOCK 0 STREAMS s >", Waits::Forever),
            ("XREADGROUP GROUP g c NOACK BLOCK 7 GROUP g block STREAMS s >", Waits::For(7)),
            ("XREADGROUP GROUP block block COUNT 1 STREAMS s >", Waits::No),
            ("XREADGROUP COUNT 1 GROUP block block STREAMS s >", Waits::No),
            ("XREADGROUP NEWER COUNT BLOCK 0 GROUP g c STREAMS s >", Waits::Forever),
        ] {
            assert_eq!(of(call), waits, "{call}");
        }
    }
}
