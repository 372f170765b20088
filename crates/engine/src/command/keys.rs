//! Where the keys of a call stand.
//!
//! The servers declare for each command where to begin looking and how to go on from there; [`keys`] follows these
//! declarations as a server does for `COMMAND GETKEYSANDFLAGS`. A handful of commands can't be declared completely
//! and have a [`KeyRule`], which follows what the command itself does when it runs. That matters where the two could
//! differ: a key that the server writes and respool overlooked would be a hole in routing and in permissions.
//!
//! Not here: whether the call is valid. An invalid call yields the keys that can be told, possibly none, and the server
//! gives the error. Keys that a script makes up, and those of `SORT … BY/GET` patterns, are nowhere in the call.
//!
//! Invariant: every index that is reported is that of an argument of the call, and is reported with that argument. The
//! work is linear in the number of arguments, a fixed number of passes, without allocation.

use super::options::{Given, given, number};
use super::{Command, KeyFlags, word};

/// Calls `each` for every key of a call, in the order of the declarations, with the index of the argument, the key,
/// and what the command does with it.
///
/// `args` are the arguments with the name as number 0; for a subcommand both words count. Names of shard channels and
/// the like are reported too, with [`KeyFlags::NOT_KEY`].
pub fn keys<'a, I>(command: &Command, args: I, mut each: impl FnMut(usize, &'a [u8], KeyFlags))
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    match command.key_rule {
        KeyRule::Declared => declared(command.keys, &args, &mut each),
        KeyRule::Sort | KeyRule::GeoStore => {
            declared(&command.keys[..1], &args, &mut each);
            stored(command, &args, &mut each);
        }
        KeyRule::Streams => streams(command, &args, command.keys[0].flags, &mut each),
        KeyRule::Migrate => migrate(command, &args, &mut each),
        KeyRule::Set => first_key(&args, set_flags(&args), &mut each),
        KeyRule::Bitfield => first_key(&args, bitfield_flags(command, &args), &mut each),
    }
}

/// One declaration: some keys of a command and what is done with them.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where to begin.
    pub begin: Begin,
    /// How to go on from there.
    pub find: Find,
    /// What the command does with these keys.
    pub flags: KeyFlags,
}

/// Where the search for keys begins (`begin_search` of a key specification).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// At the argument with this index.
    Index(u16),
    /// After the first argument that is `word`. A group of that name misleads servers here; a [`KeyRule`] is not misled.
    Keyword {
        /// Lower case.
        word: &'static str,
        /// Where to begin looking for it; negative: that many from the end, looking towards the front.
        start: i16,
    },
    /// Can't be declared.
    Unknown,
}

/// How to find keys from the beginning on (`find_keys` of a key specification).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Find {
    /// From the beginning to `last`.
    Range {
        /// Counted from the beginning; negative: from the end of the call, -1 being its last argument.
        last: i16,
        /// Every how many arguments there is a key; at least 1.
        step: u16,
        /// 0 or 1: no limit. 2, with a negative `last`: only the first half of what is left is keys, and so on.
        limit: u16,
    },
    /// As many as an argument says.
    Counted {
        /// Where the number stands, counted from the beginning.
        count_at: u16,
        /// Where the first key stands, counted from the beginning.
        first: u16,
        /// Every how many arguments there is a key; at least 1.
        step: u16,
    },
    /// Can't be declared.
    Unknown,
}

/// What a command does about its keys that its declarations can't say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyRule {
    /// The declarations say it all.
    Declared,
    /// `SORT`: the last `STORE` names a key.
    Sort,
    /// `GEORADIUS` and `GEORADIUSBYMEMBER`: the last of all `STORE` and `STOREDIST` is the one that counts.
    GeoStore,
    /// `XREAD` and `XREADGROUP`: the option `STREAMS`, which is no group and no consumer of that name.
    Streams,
    /// `MIGRATE`: with an empty third argument the keys follow the option `KEYS`.
    Migrate,
    /// `SET`: the option `GET` makes it a read as well.
    Set,
    /// `BITFIELD`: reads only, unless an operation writes.
    Bitfield,
}

/// Follows declarations. One that does not fit the call yields nothing, as on a server.
fn declared<'a, I>(specs: &[KeySpec], args: &I, each: &mut impl FnMut(usize, &'a [u8], KeyFlags))
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    for spec in specs {
        let begin = match spec.begin {
            Begin::Index(index) => Some(usize::from(index)),
            // Commands with a keyword have a rule, which reads their options as they do themselves.
            Begin::Keyword { .. } | Begin::Unknown => None,
        };
        let range = begin.and_then(|begin| key_range(spec.find, begin, args));
        if let Some(range) = range {
            report(args, range, spec.flags, each);
        }
    }
}

/// The arguments from `first` to `last`, both included, every `step`-th. No `last`: to the end of the call.
struct KeyRange {
    first: usize,
    last: Option<usize>,
    step: usize,
}

/// Where the keys stand, from `begin` on. It may reach beyond the call, which [`report`] sees.
fn key_range<'a, I>(find: Find, begin: usize, args: &I) -> Option<KeyRange>
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    match find {
        Find::Range { last, step, limit } => {
            let last = match (usize::try_from(last), limit) {
                (Ok(last), _) => Some(begin + last),
                // The whole rest is by far the most frequent (DEL, MGET): it needs no count of the arguments.
                (Err(_), 0 | 1) if last == -1 => None,
                (Err(_), 0 | 1) => {
                    Some(args.clone().count().checked_sub(last.unsigned_abs().into())?)
                }
                (Err(_), limit) => {
                    let rest = args.clone().count().checked_sub(begin)? / usize::from(limit);
                    Some((begin + rest).checked_sub(last.unsigned_abs().into())?)
                }
            };
            Some(KeyRange { first: begin, last, step: step.into() })
        }
        Find::Counted { count_at, first, step } => {
            let count = number(args.clone().nth(begin + usize::from(count_at))?)?;
            let (first, step) = (begin + usize::from(first), usize::from(step));
            let last = count.checked_sub(1)?.checked_mul(step)?.checked_add(first)?;
            Some(KeyRange { first, last: Some(last), step })
        }
        Find::Unknown => None,
    }
}

/// Reports the keys of a range, or none if it reaches beyond the call: then the call is wrong, and half of its keys
/// would be a guess.
fn report<'a, I>(
    args: &I,
    range: KeyRange,
    flags: KeyFlags,
    each: &mut impl FnMut(usize, &'a [u8], KeyFlags),
) where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    let KeyRange { first, last, step } = range;
    let last = match last {
        // The one key of GET and most others: one walk up to it is all.
        Some(last) if last == first => {
            if let Some(key) = args.clone().nth(first) {
                each(first, key, flags);
            }
            return;
        }
        Some(last) if last < first || args.clone().nth(last).is_none() => return,
        Some(last) => last,
        None => usize::MAX,
    };
    let numbered = args.clone().enumerate().skip(first).step_by(step.max(1));
    for (index, key) in numbered.take_while(|(index, _)| *index <= last) {
        each(index, key, flags);
    }
}

/// Reports the argument of the last `STORE` or `STOREDIST`, which is the one that counts.
fn stored<'a, I>(command: &Command, args: &I, each: &mut impl FnMut(usize, &'a [u8], KeyFlags))
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    let stores = |option: &Given<'_>| option.is("store") || option.is("storedist");
    if let Some(option) = given(command, args.clone()).filter(stores).last()
        && let Some(key) = option.value
    {
        each(option.value_at(), key, KeyFlags::OW.with(KeyFlags::UPDATE));
    }
}

/// `XREAD … STREAMS key … id …`: the first half of what follows.
///
/// With an option that respool does not know, another `STREAMS` may be the one of a newer server: each argument counts that could then
/// be a key.
fn streams<'a, I>(
    command: &Command,
    args: &I,
    flags: KeyFlags,
    each: &mut impl FnMut(usize, &'a [u8], KeyFlags),
) where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    let mut found = None;
    let mut is_sure = true;
    for option in given(command, args.clone()) {
        is_sure &= option.word.is_some();
        if option.is("streams") {
            found = Some((option.at, option.args));
        }
    }
    let (first, mut last, mut behind) = match found {
        Some((at, args)) => (at, at, args),
        None => (usize::MAX, 0, 0),
    };
    let mut begin = first;
    if !is_sure {
        let count = args.clone().count();
        for (at, _) in args.clone().enumerate().skip(1).filter(|(_, arg)| word::is(arg, "streams"))
        {
            begin = begin.min(at);
            (last, behind) = (at, count - at - 1);
        }
    }
    let end = last + 1 + behind / 2;
    let keys = args.clone().enumerate().skip(begin.saturating_add(1));
    keys.take_while(|(at, _)| *at < end).for_each(|(at, key)| each(at, key, flags));
}

/// `MIGRATE host port key db timeout [COPY] [REPLACE] [AUTH p] [AUTH2 u p] [KEYS key …]`.
fn migrate<'a, I>(command: &Command, args: &I, each: &mut impl FnMut(usize, &'a [u8], KeyFlags))
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    const KEY: usize = 3;
    let flags = command.keys[0].flags;
    let Some(key) = args.clone().nth(KEY) else { return };
    match given(command, args.clone()).find(|option| option.is("keys")) {
        None => each(KEY, key, flags),
        Some(keys) if key.is_empty() => {
            let listed = args.clone().enumerate().skip(keys.value_at());
            listed.for_each(|(index, key)| each(index, key, flags));
        }
        // A key here and there is a syntax error: a server migrates none of them.
        Some(_) => {}
    }
}

/// Reports argument 1 with flags that depend on the call.
fn first_key<'a, I>(args: &I, flags: KeyFlags, each: &mut impl FnMut(usize, &'a [u8], KeyFlags))
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    if let Some(key) = args.clone().nth(1) {
        each(1, key, flags);
    }
}

/// `SET key value [options]`: with `GET` the old value is given to the client.
fn set_flags<'a, I>(args: &I) -> KeyFlags
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    // Wherever it stands, as servers see it for their permissions (`setGetKeys`).
    if args.clone().skip(3).any(|arg| word::is(arg, "get")) {
        return KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE);
    }
    KeyFlags::OW.with(KeyFlags::UPDATE)
}

/// `BITFIELD key [GET type offset] [OVERFLOW how] [SET …] [INCRBY …]`: what is not surely a read counts as a write.
fn bitfield_flags<'a, I>(command: &Command, args: &I) -> KeyFlags
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    let reads = |option: Given<'_>| option.is("get") || option.is("overflow");
    if given(command, args.clone()).all(reads) {
        return KeyFlags::RO.with(KeyFlags::ACCESS);
    }
    KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::UPDATE)
}

#[cfg(test)]
mod tests {
    use super::{Begin, KeyFlags, KeyRule, keys};
    use crate::command::{COUNT, CommandId, lookup, lookup_sub};
    use alloc::{format, string::String, vec::Vec};
    use proptest::prelude::*;

    /// The keys of a call written as words, as `index:key:flags` with the flags' first letters.
    fn found(call: &str) -> String {
        let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).map(unquoted).collect();
        let mut id = lookup(args[0]).unwrap();
        if id.row().is_container() {
            id = lookup_sub(id, args[1]).unwrap();
        }
        let mut found = Vec::new();
        keys(id.row(), args.iter().copied(), |index, key, flags| {
            assert_eq!(args[index], key);
            let kind = [KeyFlags::RO, KeyFlags::RW, KeyFlags::OW, KeyFlags::RM, KeyFlags::NOT_KEY];
            let kind = kind.iter().position(|kind| flags.has(*kind)).unwrap();
            found.push(format!("{index}{}", ["r", "w", "o", "d", "-"][kind]));
        });
        found.join(" ")
    }

    /// `''` stands for the empty argument.
    fn unquoted(arg: &[u8]) -> &[u8] {
        if arg == b"''" { b"" } else { arg }
    }

    #[test]
    fn ranges() {
        assert_eq!(found("get k"), "1r");
        assert_eq!(found("GET"), "");
        assert_eq!(found("ping"), "");
        assert_eq!(found("del a b c"), "1d 2d 3d");
        assert_eq!(found("mset a 1 b 2"), "1o 3o");
        assert_eq!(found("blpop a b 0"), "1w 2w");
        assert_eq!(found("blpop"), "");
        assert_eq!(found("smove a b m"), "1w 2w");
        assert_eq!(found("bitop and d a b"), "2o 3r 4r");
        assert_eq!(found("object encoding k"), "2r");
        assert_eq!(found("spublish ch m"), "1-");
        assert_eq!(found("lcs a b"), "1r 2r");
        assert_eq!(found("lcs a"), "", "half a call has no keys");
    }

    #[test]
    fn counted() {
        assert_eq!(found("eval s 2 a b c"), "3w 4w");
        assert_eq!(found("eval_ro s 1 a b c"), "3r");
        assert_eq!(found("eval s 0 a"), "");
        assert_eq!(found("eval s 3 a b"), "", "fewer keys than announced");
        assert_eq!(found("eval s 18446744073709551615 a b"), "");
        assert_eq!(found("eval s -1 a b"), "");
        assert_eq!(found("zunionstore d 2 a b weights 1 2"), "1o 3r 4r");
        assert_eq!(found("zunion 2 a b"), "2r 3r");
        assert_eq!(found("lmpop 2 a b left"), "2w 3w");
        assert_eq!(found("bzmpop 0 2 a b min"), "3w 4w");
        assert_eq!(found("msetex 2 a 1 b 2 ex 9"), "2o 4o");
        assert_eq!(found("sintercard 1 a limit 1"), "2r");
    }

    #[test]
    fn keywords() {
        assert_eq!(found("xread count 2 streams a b 0 0"), "4r 5r");
        assert_eq!(found("xread block 0 STREAMS a 0"), "4r");
        assert_eq!(found("xreadgroup group streams c streams a >"), "5r");
        assert_eq!(found("xread streams"), "");
        assert_eq!(found("xread streams a"), "");
        assert_eq!(found("xread streams streams 0"), "2r");
        // In any order, and whatever a group and a consumer are called.
        assert_eq!(found("xreadgroup noack group streams c block 0 streams s >"), "8r");
        assert_eq!(found("xreadgroup count 1 group streams c block 0 streams s >"), "9r");
        assert_eq!(found("xreadgroup count 1 group c streams streams a b > >"), "7r 8r");
        // An option of a newer server may take the first STREAMS for its argument.
        assert_eq!(found("xread newer streams a streams b 0"), "3r 4r 5r");
    }

    #[test]
    fn a_nul_ends_a_word() {
        assert_eq!(found("xread STREAMS\0 a 0"), "2r");
        assert_eq!(found("xread count\0x 1 streams\0x a b 0 0"), "4r 5r");
        assert_eq!(found("xreadgroup GROUP\0 streams c streams\0 a >"), "5r");
        assert_eq!(found("sort k get\0 store STORE\0 d"), "1r 5o");
        assert_eq!(found("georadius k 1 2 3 m Store\0x a"), "1r 7o");
        assert_eq!(found("georadiusbymember k m 1 km storedist\0 a"), "1r 6o");
        assert_eq!(found("migrate h 1 '' 0 5 auth\0 keys keys\0 a"), "9w");
        assert_eq!(found("set k v GET\0x"), "1w");
        assert_eq!(found("bitfield k get\0 u8 0"), "1r");
        assert_eq!(found("bitfield k get\0 u8 0 SET\0 u8 0 1"), "1w");
        assert_eq!(found("sort k st\0ore d"), "1r");
    }

    #[test]
    fn commands_with_a_keyword_have_a_rule() {
        for id in CommandId::all() {
            let has_keyword =
                id.row().keys.iter().any(|spec| matches!(spec.begin, Begin::Keyword { .. }));
            assert!(!has_keyword || id.row().key_rule != KeyRule::Declared, "{}", id.name());
        }
    }

    #[test]
    fn rules() {
        assert_eq!(found("sort k by w_* get # store d"), "1r 7o");
        assert_eq!(found("sort k by store get d"), "1r", "an option's argument is no STORE");
        assert_eq!(found("sort k store a limit 0 1 STORE b"), "1r 8o");
        assert_eq!(found("sort k store"), "1r");
        assert_eq!(found("sort_ro k by w_*"), "1r");
        assert_eq!(found("georadius k 1 2 3 m store a storedist b"), "1r 9o");
        assert_eq!(found("georadiusbymember k m 1 km store a"), "1r 6o");
        assert_eq!(found("georadius_ro k 1 2 3 m"), "1r");
        assert_eq!(found("migrate h 1 k 0 5"), "3w");
        assert_eq!(found("migrate h 1 '' 0 5 copy auth keys keys a b"), "10w 11w");
        assert_eq!(found("migrate h 1 '' 0 5 auth2 u keys KEYS a"), "10w");
        assert_eq!(found("migrate h 1 k 0 5 keys a"), "");
        assert_eq!(found("set k v"), "1o");
        assert_eq!(found("set k get"), "1o", "the value is no option");
        assert_eq!(found("set k v ex 5 GET"), "1w");
        assert_eq!(found("bitfield k get u8 0 overflow wrap"), "1r");
        assert_eq!(found("bitfield k get u8 0 set u8 0 1"), "1w");
        assert_eq!(found("bitfield k nonsense"), "1w");
    }

    proptest! {
        /// Whatever the arguments are: nothing panics, every reported index is that of an argument after the name,
        /// and each declaration reports an argument at most once.
        #[test]
        fn any_call_of_any_command(
            row in 0..COUNT,
            args in proptest::collection::vec(
                prop_oneof!["store", "keys", "streams", "get", "limit", "auth2", "[0-9]{1,3}", "[a-c]", ""],
                0..12,
            ),
        ) {
            let id = CommandId::from_index(row).unwrap();
            let name = id.name().as_bytes();
            let call: Vec<&[u8]> =
                core::iter::once(name).chain(args.iter().map(String::as_bytes)).collect();
            let mut seen = Vec::new();
            keys(id.row(), call.iter().copied(), |index, key, flags| {
                assert!(index > 0 && call[index] == key);
                assert!(flags != KeyFlags::default());
                seen.push(index);
            });
            let declarations = id.row().keys.len();
            let often = seen.iter().map(|index| seen.iter().filter(|same| *same == index).count());
            prop_assert!(often.max().unwrap_or(0) <= declarations);
            keys(id.row(), core::iter::empty(), |_, _, _| panic!("a key of nothing"));
        }
    }
}
