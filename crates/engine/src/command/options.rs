//! The options of a call, read as its server reads them: one walk that every part of respool uses.
//!
//! Each command that respool looks into has a [`Grammar`]: where its options begin, their words, and how many arguments belong to
//! each. [`given`] walks over a call by it. An argument of an option is therefore never taken for an option, whatever its text
//! and the order of the options, and keys, waiting, names and values of one call cannot be read in two ways.
//!
//! ```text
//!   XREADGROUP  NOACK  GROUP streams c  BLOCK 0  STREAMS s >
//!               ╰───╯  ╰─────────────╯  ╰─────╯  ╰─────────╯       four options, each with what belongs to it
//! ```
//! A word that the grammar lacks is reported as such, and the walk goes on behind it: the server refuses the call, or it is newer
//! than the grammar.
//!
//! Not here: whether the values of options are valid. That is the server's to say.
//!
//! Invariant: each argument from the begin of the options on is reported at most once, in the order of the call.

use super::{Command, ids::same, word};
use core::iter::Enumerate;

/// Where the options of a command stand, and which it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grammar {
    start: Start,
    words: &'static [(&'static str, Takes)],
    /// Whether the first argument that is no option ends them (`XADD key … id field value`).
    ends: bool,
}

/// Where options begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    /// At this argument.
    At(usize),
    /// Behind keys: their number stands at `count_at`, and each takes `step` arguments.
    Behind { count_at: usize, step: usize },
}

/// Which arguments belong to an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Takes {
    /// So many.
    Args(usize),
    /// One, which may have `=` or `~` in front (`MAXLEN ~ 5`).
    Threshold,
    /// A number, and so many times that many (`FIELDS 2 f v g w`).
    Counted(usize),
    /// As many as there are keys (`WEIGHTS`).
    PerKey,
    /// All that follow (`STREAMS`).
    Rest,
}

use Start::{At, Behind};
use Takes::{Args, Counted, PerKey, Rest, Threshold};

impl Grammar {
    /// Whether respool looks into the options of the command.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.words.is_empty()
    }
}

const fn at(start: usize, words: &'static [(&'static str, Takes)]) -> Grammar {
    Grammar { start: At(start), words, ends: false }
}

const fn behind(count_at: usize, step: usize, words: &'static [(&'static str, Takes)]) -> Grammar {
    Grammar { start: Behind { count_at, step }, words, ends: false }
}

const FLAG: Takes = Args(0);
const ONE: Takes = Args(1);

/// A command without options that respool has to know.
pub(super) const NONE: Grammar = at(usize::MAX, &[]);

const SORT_WORDS: &[(&str, Takes)] = &[
    ("asc", FLAG),
    ("desc", FLAG),
    ("alpha", FLAG),
    ("limit", Args(2)),
    ("by", ONE),
    ("get", ONE),
    ("store", ONE),
];
const GEO_WORDS: &[(&str, Takes)] = &[
    ("withdist", FLAG),
    ("withhash", FLAG),
    ("withcoord", FLAG),
    ("any", FLAG),
    ("asc", FLAG),
    ("desc", FLAG),
    ("count", ONE),
    ("store", ONE),
    ("storedist", ONE),
];
const STREAM_WORDS: &[(&str, Takes)] = &[
    ("block", ONE),
    ("count", ONE),
    ("group", Args(2)),
    ("noack", FLAG),
    // Redis 8.4.
    ("claim", ONE),
    ("streams", Rest),
];
const SET_WORDS: &[(&str, Takes)] = &[
    ("nx", FLAG),
    ("xx", FLAG),
    ("get", FLAG),
    ("keepttl", FLAG),
    ("ex", ONE),
    ("px", ONE),
    ("exat", ONE),
    ("pxat", ONE),
    ("ifeq", ONE),
    ("ifne", ONE),
    ("ifdeq", ONE),
    ("ifdne", ONE),
];
const GETEX_WORDS: &[(&str, Takes)] =
    &[("persist", FLAG), ("ex", ONE), ("px", ONE), ("exat", ONE), ("pxat", ONE)];
const HSETEX_WORDS: &[(&str, Takes)] = &[
    ("nx", FLAG),
    ("xx", FLAG),
    ("fnx", FLAG),
    ("fxx", FLAG),
    ("keepttl", FLAG),
    ("ex", ONE),
    ("px", ONE),
    ("exat", ONE),
    ("pxat", ONE),
    ("fields", Counted(2)),
    ("fvs", Counted(2)),
];
const HGETEX_WORDS: &[(&str, Takes)] = &[
    ("persist", FLAG),
    ("ex", ONE),
    ("px", ONE),
    ("exat", ONE),
    ("pxat", ONE),
    ("fields", Counted(1)),
];
const MSETEX_WORDS: &[(&str, Takes)] = &[
    ("nx", FLAG),
    ("xx", FLAG),
    ("keepttl", FLAG),
    ("ex", ONE),
    ("px", ONE),
    ("exat", ONE),
    ("pxat", ONE),
];
const ADD_WORDS: &[(&str, Takes)] = &[
    ("nomkstream", FLAG),
    ("keepref", FLAG),
    ("delref", FLAG),
    ("acked", FLAG),
    ("maxlen", Threshold),
    ("minid", Threshold),
    ("limit", ONE),
    ("idmpauto", ONE),
    ("idmp", Args(2)),
];
const SCAN_WORDS: &[(&str, Takes)] = &[
    ("match", ONE),
    ("count", ONE),
    ("type", ONE),
    ("slot", ONE),
    ("novalues", FLAG),
    ("noscores", FLAG),
];
const POP_WORDS: &[(&str, Takes)] =
    &[("left", FLAG), ("right", FLAG), ("min", FLAG), ("max", FLAG), ("count", ONE)];
const RANGE_WORDS: &[(&str, Takes)] =
    &[("byscore", FLAG), ("bylex", FLAG), ("rev", FLAG), ("limit", Args(2)), ("withscores", FLAG)];
const COMBINE_WORDS: &[(&str, Takes)] =
    &[("weights", PerKey), ("aggregate", ONE), ("withscores", FLAG)];
const MIGRATE_WORDS: &[(&str, Takes)] = &[
    ("copy", FLAG),
    ("replace", FLAG),
    // Passwords may well be words of options.
    ("auth", ONE),
    ("auth2", Args(2)),
    ("keys", Rest),
];
const BITFIELD_WORDS: &[(&str, Takes)] =
    &[("get", Args(2)), ("set", Args(3)), ("incrby", Args(3)), ("overflow", ONE)];
const TRACKING_WORDS: &[(&str, Takes)] = &[
    ("redirect", ONE),
    ("prefix", ONE),
    ("bcast", FLAG),
    ("optin", FLAG),
    ("optout", FLAG),
    ("noloop", FLAG),
];
const RESTORE_WORDS: &[(&str, Takes)] =
    &[("replace", FLAG), ("absttl", FLAG), ("idletime", ONE), ("freq", ONE)];
const HELLO_WORDS: &[(&str, Takes)] = &[("auth", Args(2)), ("setname", ONE)];

/// The grammar of each command whose options respool looks into, in the order of the table.
const GRAMMARS: &[(&str, Grammar)] = &[
    ("bitfield", at(2, BITFIELD_WORDS)),
    ("blmpop", behind(2, 1, POP_WORDS)),
    ("bzmpop", behind(2, 1, POP_WORDS)),
    ("client|tracking", at(3, TRACKING_WORDS)),
    ("cluster|setslot", at(4, &[("timeout", ONE)])),
    ("clusterscan", at(2, SCAN_WORDS)),
    ("copy", at(3, &[("db", ONE), ("replace", FLAG)])),
    ("georadius", at(6, GEO_WORDS)),
    ("georadiusbymember", at(5, GEO_WORDS)),
    ("getex", at(2, GETEX_WORDS)),
    ("hello", at(2, HELLO_WORDS)),
    ("hgetex", at(2, HGETEX_WORDS)),
    ("hscan", at(3, SCAN_WORDS)),
    ("hsetex", at(2, HSETEX_WORDS)),
    ("lmpop", behind(1, 1, POP_WORDS)),
    ("migrate", at(6, MIGRATE_WORDS)),
    ("msetex", behind(1, 2, MSETEX_WORDS)),
    ("restore", at(4, RESTORE_WORDS)),
    ("scan", at(2, SCAN_WORDS)),
    ("set", at(3, SET_WORDS)),
    ("sort", at(2, SORT_WORDS)),
    ("sort_ro", at(2, SORT_WORDS)),
    ("sscan", at(3, SCAN_WORDS)),
    ("xadd", Grammar { start: At(2), words: ADD_WORDS, ends: true }),
    ("xread", at(1, STREAM_WORDS)),
    ("xreadgroup", at(1, STREAM_WORDS)),
    ("zdiff", behind(1, 1, COMBINE_WORDS)),
    ("zinter", behind(1, 1, COMBINE_WORDS)),
    ("zmpop", behind(1, 1, POP_WORDS)),
    ("zrange", at(4, RANGE_WORDS)),
    ("zrangebyscore", at(4, RANGE_WORDS)),
    ("zrevrange", at(4, RANGE_WORDS)),
    ("zrevrangebyscore", at(4, RANGE_WORDS)),
    ("zscan", at(3, SCAN_WORDS)),
    ("zunion", behind(1, 1, COMBINE_WORDS)),
];

/// How many commands have a grammar.
pub(super) const COUNT: usize = GRAMMARS.len();

/// The grammar of the command with this name, if it is the one behind those that were `found`: both lists are sorted, so one walk
/// over the table finds all.
pub(super) const fn next(name: &str, found: usize) -> Option<&'static Grammar> {
    if found < COUNT && same(name.as_bytes(), GRAMMARS[found].0.as_bytes()) {
        Some(&GRAMMARS[found].1)
    } else {
        None
    }
}

/// One argument that stands where an option may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given<'a> {
    /// The number of the argument, the name of the command being 0.
    pub at: usize,
    /// Which option it is, in lower case. `None`: no option of this command, or one without its arguments.
    pub word: Option<&'static str>,
    /// The argument behind it, if one belongs to it.
    pub value: Option<&'a [u8]>,
    /// How many arguments belong to it.
    pub args: usize,
}

impl Given<'_> {
    /// Whether it is this option.
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        self.word == Some(word)
    }

    /// The number of the argument behind it.
    #[must_use]
    pub fn value_at(&self) -> usize {
        self.at + 1
    }
}

/// The options of a call, in its order. `args` begin with the name; for a subcommand both words count.
pub fn given<'a, I>(command: &Command, args: I) -> Options<'a, I>
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    let grammar = command.grammar;
    let (start, keys) = match grammar.start {
        At(start) => (start, 0),
        Behind { count_at, step } => {
            let count = args.clone().nth(count_at).and_then(number);
            let behind = count.and_then(|count| count.checked_mul(step)?.checked_add(count_at + 1));
            (behind.unwrap_or(usize::MAX), count.unwrap_or(0))
        }
    };
    let mut rest = args.enumerate();
    let is_over = grammar.words.is_empty() || (start > 0 && rest.nth(start - 1).is_none());
    Options { rest, grammar, keys, is_over }
}

/// See [`given`].
#[derive(Clone, Debug)]
pub struct Options<'a, I: Iterator<Item = &'a [u8]>> {
    rest: Enumerate<I>,
    grammar: &'static Grammar,
    keys: usize,
    is_over: bool,
}

impl<'a, I: Iterator<Item = &'a [u8]> + Clone> Iterator for Options<'a, I> {
    type Item = Given<'a>;

    fn next(&mut self) -> Option<Given<'a>> {
        if self.is_over {
            return None;
        }
        let (at, arg) = self.rest.next()?;
        let known = self.grammar.words.iter().find(|(word, _)| word::is(arg, word));
        let unknown = Given { at, word: None, value: None, args: 0 };
        let Some((word, takes)) = known else {
            self.is_over = self.grammar.ends;
            return Some(unknown);
        };
        let value = self.rest.clone().next().map(|(_, value)| value);
        let args = match *takes {
            Args(args) => args,
            Threshold => 1 + usize::from(value.is_some_and(is_approximate)),
            // A number that is none is refused, and where the fields would end nobody knows.
            Counted(step) => value
                .and_then(number)
                .and_then(|count| count.checked_mul(step)?.checked_add(1))
                .unwrap_or(usize::MAX),
            PerKey => self.keys,
            Rest => usize::MAX,
        };
        if args == usize::MAX {
            self.is_over = true;
            return Some(Given { at, word: Some(word), value, args: self.rest.clone().count() });
        }
        if args > 0 {
            // Without all of its arguments a server takes it for no option.
            let mut behind = self.rest.clone();
            if behind.nth(args - 1).is_none() {
                return Some(unknown);
            }
            self.rest = behind;
        }
        Some(Given { at, word: Some(word), value: value.filter(|_| args > 0), args })
    }
}

/// `~` or `=` in front of a threshold.
fn is_approximate(arg: &[u8]) -> bool {
    word::is_exactly(arg, b"~") || word::is_exactly(arg, b"=")
}

/// A number of keys or fields, as strict as a server reads it (`string2ll`): digits only, no sign, no zero in front.
pub(super) fn number(text: &[u8]) -> Option<usize> {
    resp::number::parse_i64(text).and_then(|number| usize::try_from(number).ok())
}

/// A pattern of `SORT` that names keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern<'a> {
    /// The number of the argument.
    pub at: usize,
    /// The pattern.
    pub text: &'a [u8],
    /// It stands behind `BY`, else behind `GET`.
    pub is_weight: bool,
}

impl Pattern<'_> {
    /// Whether a server reads keys by it: without a star before the first NUL it looks nothing up (`lookupKeyByPattern`).
    #[must_use]
    pub fn names_keys(&self) -> bool {
        word::c_string(self.text).contains(&b'*')
    }

    /// Whether a field of hashes is read by it, else strings: `->` behind the star, and something behind that.
    #[must_use]
    pub fn reads_hashes(&self) -> bool {
        let text = word::c_string(self.text);
        let star = text.iter().position(|byte| *byte == b'*').unwrap_or(text.len());
        let arrow = text[star..].windows(2).position(|two| two == b"->");
        arrow.is_some_and(|arrow| star + arrow + 2 < text.len())
    }
}

/// What stands behind `BY` and `GET` of a `SORT` or `SORT_RO`.
pub fn patterns<'a, I>(command: &Command, args: I) -> impl Iterator<Item = Pattern<'a>>
where
    I: Iterator<Item = &'a [u8]> + Clone,
{
    given(command, args).filter_map(|option| {
        let is_weight = option.is("by");
        let text = option.value.filter(|_| is_weight || option.is("get"))?;
        Some(Pattern { at: option.value_at(), text, is_weight })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::waits::waits;
    use crate::command::{CommandId, keys, lookup, lookup_sub};
    use crate::route::classify;
    use alloc::{format, string::String, vec::Vec};
    use proptest::prelude::*;

    /// The options of a call written as words: `word@at+args`, and `?@at` for what is none.
    fn read(call: &str) -> String {
        let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        let mut id = lookup(args[0]).unwrap();
        id = args.get(1).and_then(|sub| lookup_sub(id, sub)).unwrap_or(id);
        let options = given(id.row(), args.iter().copied());
        let shown = options.map(|option| match option.word {
            Some(word) => format!("{word}@{}+{}", option.at, option.args),
            None => format!("?@{}", option.at),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn arguments_of_options_are_no_options() {
        for (call, options) in [
            ("SET k v", ""),
            ("SET k", ""),
            ("SET k v EX get GET", "ex@3+1 get@5+0"),
            ("SORT k BY get LIMIT 0 1 STORE by", "by@2+1 limit@4+2 store@7+1"),
            ("SORT k LIMIT 0", "?@2 ?@3"),
            ("SORT k STORE", "?@2"),
            ("XREAD BLOCK 0 STREAMS block 0", "block@1+1 streams@3+2"),
            (
                "XREADGROUP NOACK GROUP streams block COUNT 1 STREAMS s >",
                "noack@1+0 group@2+2 count@5+1 streams@7+2",
            ),
            ("XREADGROUP GROUP g STREAMS", "group@1+2"),
            ("XADD k MAXLEN ~ 5 LIMIT 3 * limit 1", "maxlen@2+2 limit@5+1 ?@7"),
            ("XADD k NOMKSTREAM MINID 5 1-1 maxlen 1", "nomkstream@2+0 minid@3+1 ?@5"),
            ("HSETEX h EX 5 FIELDS 1 px 7 KEEPTTL", "ex@2+1 fields@4+3 keepttl@8+0"),
            ("HSETEX h FIELDS x a b", "fields@2+3"),
            ("HGETEX h FIELDS 2 ex px PERSIST", "fields@2+3 persist@6+0"),
            ("MSETEX 2 ex 1 px 2 EX 5", "ex@6+1"),
            ("MSETEX +1 ex 1 EX 5", ""),
            ("LMPOP 1 left RIGHT COUNT 2", "right@3+0 count@4+1"),
            ("BZMPOP 0 1 max MIN", "min@4+0"),
            ("ZUNION 2 a b WEIGHTS withscores 2 WITHSCORES", "weights@4+2 withscores@7+0"),
            ("ZRANGE withscores 0 1 LIMIT 0 5 WITHSCORES", "limit@4+2 withscores@7+0"),
            ("SCAN 0 COUNT match MATCH count", "count@2+1 match@4+1"),
            ("HSCAN h 0 MATCH novalues NOVALUES", "match@3+1 novalues@5+0"),
            (
                "CLIENT TRACKING ON REDIRECT prefix PREFIX p BCAST",
                "redirect@3+1 prefix@5+1 bcast@7+0",
            ),
            ("MIGRATE h 1 k 0 9 AUTH2 keys auth KEYS a b", "auth2@6+2 keys@9+2"),
            ("RESTORE k 0 replace REPLACE", "replace@4+0"),
            ("HELLO 3 AUTH setname x SETNAME n", "auth@2+2 setname@5+1"),
            ("GET k EX 1", ""),
        ] {
            assert_eq!(read(call), options, "{call}");
        }
    }

    #[test]
    fn words_are_compared_as_a_server_does() {
        assert_eq!(read("SET k v g\0 GET\0 Get\0x EX\0 5"), "?@3 get@4+0 get@5+0 ex@6+1");
        assert_eq!(read("XADD k MAXLEN ~\0x 5 * f v"), "maxlen@2+2 ?@5");
    }

    /// What respool makes of a call: its keys and what is done with them, whether and how long it waits, its way, and its options.
    fn seen(id: CommandId, call: &[&[u8]]) -> String {
        let mut seen = String::new();
        keys(id.row(), call.iter().copied(), |at, _, flags| seen += &format!("{at}:{flags:?} "));
        let waits = waits(id, call.iter().copied());
        let known = classify(call.len(), |at| call[at], None);
        let options = given(id.row(), call.iter().copied());
        let options: Vec<_> = options.map(|one| (one.at, one.word, one.args)).collect();
        format!("{seen}{waits:?} {known:?} {options:?}")
    }

    /// Words of options, numbers, and arguments that are none.
    fn argument() -> impl Strategy<Value = String> {
        let words: Vec<&str> =
            GRAMMARS.iter().flat_map(|(_, one)| one.words).map(|(word, _)| *word).collect();
        prop_oneof![
            3 => proptest::sample::select(words).prop_map(String::from),
            2 => "[0-3]",
            1 => "[a-c]",
        ]
    }

    proptest! {
        /// A server takes `word`, `WORD` and `Word\0x` for one option, and so does everything here.
        #[test]
        fn case_and_what_stands_behind_a_nul_make_no_difference(
            row in 0..GRAMMARS.len(),
            args in proptest::collection::vec(argument(), 0..14),
            upper in any::<u16>(),
            suffix in proptest::collection::vec("(\0[a-z\0]{0,3})?", 14),
        ) {
            let id = CommandId::all().find(|id| id.name() == GRAMMARS[row].0).unwrap();
            let names: Vec<&[u8]> = id.name().split('|').map(str::as_bytes).collect();
            let is_word = |arg: &str| arg.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
            let changed: Vec<String> = args
                .iter()
                .zip(&suffix)
                .enumerate()
                .map(|(at, (arg, suffix))| match (is_word(arg), upper >> at & 1) {
                    (true, 1) => arg.to_ascii_uppercase() + suffix,
                    (true, _) => arg.clone() + suffix,
                    (false, _) => arg.clone(),
                })
                .collect();
            let call = |args: &[String]| {
                let args = args.iter().map(String::as_bytes);
                let call: Vec<&[u8]> = names.iter().copied().chain(args).collect();
                seen(id, &call)
            };
            prop_assert_eq!(call(&args), call(&changed));
        }

        /// Every argument is reported at most once, in order, and none beyond the call.
        #[test]
        fn options_stand_in_the_call(
            row in 0..GRAMMARS.len(),
            args in proptest::collection::vec(argument(), 0..14),
        ) {
            let id = CommandId::all().find(|id| id.name() == GRAMMARS[row].0).unwrap();
            let names = id.name().split('|').map(str::as_bytes);
            let call: Vec<&[u8]> = names.chain(args.iter().map(String::as_bytes)).collect();
            let mut next = 1;
            for option in given(id.row(), call.iter().copied()) {
                prop_assert!(option.at >= next && option.at + option.args < call.len());
                prop_assert_eq!(option.value, (option.args > 0).then(|| call[option.value_at()]));
                next = option.at + option.args + 1;
            }
        }
    }

    #[test]
    fn patterns_of_sort_are_read_up_to_the_first_nul() {
        let sort = lookup(b"sort").unwrap().row();
        let read = |text: &str| {
            let call = [&b"SORT"[..], b"k", b"GET\0", text.as_bytes()];
            let pattern = patterns(sort, call.into_iter()).next().unwrap();
            (pattern.at, pattern.names_keys(), pattern.reads_hashes())
        };
        assert_eq!(read("#"), (3, false, false));
        assert_eq!(read("w_*"), (3, true, false));
        assert_eq!(read("w_*->f"), (3, true, true));
        assert_eq!(read("w_*->"), (3, true, false), "without a field it is a string");
        assert_eq!(read("w->*"), (3, true, false), "the arrow stands behind the star");
        assert_eq!(read("w_*\0->f"), (3, true, false));
        assert_eq!(read("w\0*"), (3, false, false));
        let call = [&b"SORT"[..], b"k", b"BY", b"get", b"GET", b"by"];
        let found: Vec<_> =
            patterns(sort, call.into_iter()).map(|found| (found.at, found.is_weight)).collect();
        assert_eq!(found, [(3, true), (5, false)]);
    }

    #[test]
    fn numbers_as_strict_as_a_server() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"120"), Some(120));
        for wrong in
            [&b""[..], b"01", b"+1", b"-1", b" 1", b"1 ", b"1.0", b"99999999999999999999999"]
        {
            assert_eq!(number(wrong), None);
        }
    }
}
