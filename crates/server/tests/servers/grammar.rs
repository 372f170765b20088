//! Calls of every command of the table: what a client could mean, and what a hostile one makes of it.
//!
//! A call is made of the row's own facts (arity, declared keys), or of a line of [`GRAMMAR`] where options decide where keys
//! stand. Then some of its words become others: another case, a NUL behind, numbers at bounds, options twice, missing, in another
//! order, option words where keys, values and names of groups stand.
//!
//! Invariant: the calls depend on the seed alone.

use engine::command::{Begin, CommandId, Find};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// The words of a call.
pub(crate) type Call = Vec<Vec<u8>>;

/// A command, what stands before its options, these, and what stands behind them. Words in capitals are made up:
/// K a key, KS some, NKS their number and they, KIDS keys and as many ids, KVS keys with values, NKVS the same behind their
/// number; V a value, VS some, NVS with their number; N a number, F a decimal one, T a short time, E nothing.
type Line = (&'static str, &'static str, &'static [&'static str], &'static str);

const RADIUS: &[&str] = &[
    "withcoord",
    "withdist",
    "withhash",
    "count N",
    "count N any",
    "asc",
    "desc",
    "store K",
    "storedist K",
];
const AREA: &[&str] = &[
    "frommember V",
    "fromlonlat F F",
    "byradius F m",
    "bybox F F m",
    "asc",
    "count N",
    "any",
    "storedist",
];
const SORT: &[&str] = &["by V", "by w_*", "limit N N", "get V", "get #", "asc", "alpha", "store K"];
const STREAMS: &[&str] = &["count N", "block N", "noack", "claim N", "group V V"];
const SUMS: &[&str] = &["weights N N", "weights N", "aggregate max", "aggregate V", "withscores"];
const TIMES: &[&str] = &["ex N", "px N", "exat N", "pxat N", "persist", "keepttl"];

/// Where options stand between, before or behind keys.
const GRAMMAR: &[Line] = &[
    ("sort", "K", SORT, ""),
    ("sort_ro", "K", SORT, ""),
    ("georadius", "K F F F m", RADIUS, ""),
    ("georadius_ro", "K F F F m", RADIUS, ""),
    ("georadiusbymember", "K V F m", RADIUS, ""),
    ("georadiusbymember_ro", "K V F m", RADIUS, ""),
    ("geosearch", "K", AREA, ""),
    ("geosearchstore", "K K", AREA, ""),
    ("xread", "", STREAMS, "streams KIDS"),
    ("xreadgroup", "group V V", STREAMS, "streams KIDS"),
    ("xreadgroup", "", STREAMS, "streams KIDS"),
    ("zunionstore", "K NKS", SUMS, ""),
    ("zinterstore", "K NKS", SUMS, ""),
    ("zdiffstore", "K NKS", &[], ""),
    ("zunion", "NKS", SUMS, ""),
    ("zinter", "NKS", SUMS, ""),
    ("zdiff", "NKS", &["withscores"], ""),
    ("zintercard", "NKS", &["limit N"], ""),
    ("sintercard", "NKS", &["limit N"], ""),
    ("sunioncard", "NKS", &["limit N"], ""),
    ("sdiffcard", "NKS", &["limit N"], ""),
    ("zmpop", "NKS min", &["count N"], ""),
    ("lmpop", "NKS left", &["count N"], ""),
    ("bzmpop", "T NKS max", &["count N"], ""),
    ("blmpop", "T NKS right", &["count N"], ""),
    ("eval", "V NKS VS", &[], ""),
    ("eval_ro", "V NKS VS", &[], ""),
    ("evalsha", "V NKS VS", &[], ""),
    ("evalsha_ro", "V NKS VS", &[], ""),
    ("fcall", "V NKS VS", &[], ""),
    ("fcall_ro", "V NKS VS", &[], ""),
    ("migrate", "h N K N N", &["copy", "replace", "auth V", "auth2 V V", "keys KS"], ""),
    ("migrate", "h N E N N", &["copy", "replace", "auth V", "auth2 V V"], "keys KS"),
    ("set", "K V", &["get", "ex N", "px N", "nx", "xx", "keepttl", "ifeq V"], ""),
    ("getex", "K", TIMES, ""),
    ("bitfield", "K", &["get u8 N", "set u8 N N", "incrby u8 N N", "overflow sat"], ""),
    ("bitfield_ro", "K", &["get u8 N"], ""),
    ("bitop", "and K KS", &[], ""),
    ("copy", "K K", &["db N", "replace"], ""),
    ("restore", "K N V", &["replace", "absttl", "idletime N", "freq N"], ""),
    ("lcs", "K K", &["len", "idx", "minmatchlen N", "withmatchlen"], ""),
    ("zrangestore", "K K N N", &["byscore", "bylex", "rev", "limit N N"], ""),
    ("zrange", "K N N", &["byscore", "bylex", "rev", "limit N N", "withscores"], ""),
    ("zadd", "K", &["nx", "xx", "gt", "lt", "ch", "incr"], "F V"),
    ("xadd", "K", &["nomkstream", "maxlen N", "maxlen ~ N", "limit N", "minid V"], "* V V"),
    ("xtrim", "K", &["maxlen N", "maxlen ~ N", "limit N", "minid V"], ""),
    ("xgroup|create", "K V $", &["mkstream", "entriesread N"], ""),
    ("xautoclaim", "K V V N 0", &["count N", "justid"], ""),
    ("mset", "KVS", &[], ""),
    ("msetnx", "KVS", &[], ""),
    ("msetex", "NKVS", &["ex N", "nx", "xx", "keepttl"], ""),
    ("del", "KS", &[], ""),
    ("unlink", "KS", &[], ""),
    ("touch", "KS", &[], ""),
    ("exists", "KS", &[], ""),
    ("mget", "KS", &[], ""),
    ("watch", "KS", &[], ""),
    ("sinter", "KS", &[], ""),
    ("sunion", "KS", &[], ""),
    ("sdiff", "KS", &[], ""),
    ("sinterstore", "K KS", &[], ""),
    ("sunionstore", "K KS", &[], ""),
    ("sdiffstore", "K KS", &[], ""),
    ("pfcount", "KS", &[], ""),
    ("pfmerge", "K KS", &[], ""),
    ("pfdebug", "getreg K", &[], ""),
    ("blpop", "KS T", &[], ""),
    ("brpop", "KS T", &[], ""),
    ("bzpopmin", "KS T", &[], ""),
    ("bzpopmax", "KS T", &[], ""),
    ("blmove", "K K left right T", &[], ""),
    ("brpoplpush", "K K T", &[], ""),
    ("memory|usage", "K", &["samples N"], ""),
    ("hexpire", "K N", &["nx", "xx", "gt"], "fields NVS"),
    ("hpexpire", "K N", &["nx", "xx", "gt"], "fields NVS"),
    ("hpersist", "K", &[], "fields NVS"),
    ("hgetdel", "K", &[], "fields NVS"),
    ("hgetex", "K", TIMES, "fields NVS"),
    ("hsetex", "K", &["ex N", "px N", "fnx", "fxx", "keepttl"], "fields 1 V V"),
    ("vadd", "K values 2 F F V", &["cas", "q8", "ef N"], ""),
    ("vsim", "K ele V", &["withscores", "count N", "filter V"], ""),
];

/// Words that are options somewhere, and values that mean something.
const WORDS: &[&str] = &[
    "streams",
    "group",
    "noack",
    "block",
    "count",
    "claim",
    "store",
    "storedist",
    "get",
    "by",
    "limit",
    "alpha",
    "asc",
    "desc",
    "keys",
    "auth",
    "auth2",
    "copy",
    "replace",
    "weights",
    "aggregate",
    "fields",
    "ex",
    "px",
    "nx",
    "xx",
    "ids",
    "numkeys",
    "any",
    "withscores",
    "db",
    "idle",
    "force",
    "justid",
    "maxlen",
    "mkstream",
    "samples",
    "overflow",
    "set",
    "incrby",
    "u8",
    "left",
    "min",
    "v",
    "*",
    "#",
    "$",
    ">",
    "-",
    "+",
    "w_*",
    "w_*->f",
    "nosort",
    "0-0",
    "",
];

/// Numbers that are read in more than one way.
const NUMBERS: &[&[u8]] = &[
    b"+1",
    b"01",
    b"-0",
    b"-1",
    b" 1",
    b"1 ",
    b"1\0",
    b"1\x002",
    b"1.0",
    b"1e0",
    b"0x1",
    b"2147483647",
    b"2147483648",
    b"4294967297",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551617",
    b"-9223372036854775808",
    b"",
    b"1\n",
    b"\x001",
    b"nan",
    b"inf",
];

/// See the module.
pub(crate) struct Generator {
    rng: StdRng,
    /// Each row, those with keys several times, and those of [`GRAMMAR`] more often yet.
    rows: Vec<CommandId>,
    /// What keys begin with.
    prefixes: &'static [&'static str],
    /// The letter of the command's type, see [`LETTERS`].
    letter: char,
    /// Keys of the call so far: each has another name, so that it is known by it.
    keys: usize,
    /// Of a hundred calls so many are changed.
    mutated_percent: u32,
}

impl Generator {
    /// Keys begin with one of `prefixes`.
    pub(crate) fn new(seed: u64, prefixes: &'static [&'static str]) -> Self {
        let weight = |id: &CommandId| match id {
            _ if id.row().is_container() => 0,
            _ if lines(id.name()).next().is_some() => 12,
            _ if !id.row().keys.is_empty() => 3,
            _ => 1,
        };
        let rows = CommandId::all().flat_map(|id| std::iter::repeat_n(id, weight(&id))).collect();
        let rng = StdRng::seed_from_u64(seed);
        Self { rng, rows, prefixes, letter: 'k', keys: 0, mutated_percent: 60 }
    }

    /// Only commands that `is_wanted`.
    pub(crate) fn only(mut self, is_wanted: impl Fn(CommandId) -> bool) -> Self {
        self.rows.retain(|id| is_wanted(*id));
        self
    }

    /// A call. It may be wrong in any way, but it has at least one word.
    pub(crate) fn call(&mut self) -> Call {
        self.keys = 0;
        let id = *self.rows.choose(&mut self.rng).expect("rows");
        self.letter = letter(id.name());
        let mut call: Call = id.name().split('|').map(Into::into).collect();
        let own: Vec<&Line> = lines(id.name()).collect();
        match own.choose(&mut self.rng) {
            Some((_, before, options, after)) => {
                self.words(before, &mut call);
                for _ in 0..self.rng.random_range(0..4) {
                    if let Some(option) = options.choose(&mut self.rng) {
                        self.words(option, &mut call);
                    }
                }
                self.words(after, &mut call);
            }
            None => self.plain(id, &mut call),
        }
        if self.rng.random_range(0..100) < self.mutated_percent {
            for _ in 0..self.rng.random_range(1..4) {
                self.mutate(&mut call);
            }
        }
        call
    }

    /// What arity and declarations say.
    fn plain(&mut self, id: CommandId, call: &mut Call) {
        let row = id.row();
        let more = if row.arity < 0 { self.rng.random_range(0..4) } else { 0 };
        for index in call.len()..usize::from(row.arity.unsigned_abs()) + more {
            let is_key = row.keys.iter().any(|spec| match (spec.begin, spec.find) {
                (Begin::Index(at), Find::Range { last, step, .. }) => {
                    let (at, step) = (usize::from(at), usize::from(step.max(1)));
                    let is_within = last < 0 || index <= at + last.unsigned_abs() as usize;
                    index >= at && is_within && (index - at).is_multiple_of(step)
                }
                _ => false,
            });
            let word = if is_key { self.key() } else { self.value() };
            call.push(word);
        }
    }

    /// The words of one part of a line.
    fn words(&mut self, part: &str, call: &mut Call) {
        for word in part.split_ascii_whitespace() {
            let count = self.rng.random_range(1..4);
            match word {
                "K" => call.push(self.key()),
                "KS" => call.extend((0..count).map(|_| self.key())),
                "NKS" => {
                    call.push(count.to_string().into());
                    call.extend((0..count).map(|_| self.key()));
                }
                "KIDS" => {
                    call.extend((0..count).map(|_| self.key()));
                    call.extend((0..count).map(|_| b"0-0".to_vec()));
                }
                "KVS" | "NKVS" => {
                    if word == "NKVS" {
                        call.push(count.to_string().into());
                    }
                    (0..count).for_each(|_| call.extend([self.key(), self.value()]));
                }
                "V" => call.push(self.value()),
                "VS" => call.extend((1..count).map(|_| self.value())),
                "NVS" => {
                    call.push(count.to_string().into());
                    call.extend((0..count).map(|_| self.value()));
                }
                "N" => call.push(self.number()),
                "F" => call.push(b"1.5".to_vec()),
                "T" => call.push(b"0.01".to_vec()),
                "E" => call.push(Vec::new()),
                plain => call.push(plain.into()),
            }
        }
    }

    fn key(&mut self) -> Vec<u8> {
        self.keys += 1;
        // A key may have any name, that of an option, too.
        if self.rng.random_range(0..12) == 0 {
            return self.value();
        }
        let prefix = self.prefixes.choose(&mut self.rng).expect("prefixes");
        format!("{prefix}{}{}", self.letter, self.keys).into()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.random_range(0..5) {
            0 => self.number(),
            1 => format!("f{}", self.rng.random_range(0..3)).into(),
            _ => (*WORDS.choose(&mut self.rng).expect("words")).into(),
        }
    }

    fn number(&mut self) -> Vec<u8> {
        match self.rng.random_range(0..8) {
            0 => NUMBERS.choose(&mut self.rng).expect("numbers").to_vec(),
            _ => self.rng.random_range(0..5).to_string().into(),
        }
    }

    /// Changes one thing of a call.
    fn mutate(&mut self, call: &mut Call) {
        let at = self.rng.random_range(0..call.len());
        let other = self.rng.random_range(0..call.len());
        match self.rng.random_range(0..11) {
            0 | 1 => call[at] = call[at].to_ascii_uppercase(),
            2 => {
                let flip =
                    |byte: &u8| if self.rng.random() { byte.to_ascii_uppercase() } else { *byte };
                call[at] = call[at].iter().map(flip).collect();
            }
            // The name of a command with a NUL is unknown to both sides nearly always.
            3 | 4 if at > 0 => call[at]
                .extend([&b"\0"[..], b"\0x", b" "].choose(&mut self.rng).copied().expect("ends")),
            5 => {
                let numbers = (1..call.len()).filter(|at| call[*at].iter().all(u8::is_ascii_digit));
                if let Some(at) = numbers.collect::<Vec<_>>().choose(&mut self.rng) {
                    call[*at] = NUMBERS.choose(&mut self.rng).expect("numbers").to_vec();
                }
            }
            6 if at > 0 => call.insert(other.max(1), call[at].clone()),
            7 if at > 0 => {
                let pair: Vec<Vec<u8>> = call[at..].iter().take(2).cloned().collect();
                call.splice(at..at, pair);
            }
            8 if at > 0 => drop(call.remove(at)),
            9 if at > 0 && other > 0 => call.swap(at, other),
            _ if at > 0 => {
                let word: Vec<u8> = (*WORDS.choose(&mut self.rng).expect("words")).into();
                if self.rng.random() { call.insert(at, word) } else { call[at] = word }
            }
            _ => {}
        }
    }
}

/// What commands of a type begin with, and the letter that their keys have behind the prefix: so calls find something of their type, where a
/// test has put it there. Sets go by all their names, as strings begin with an S as well.
const LETTERS: &[(&str, char)] = &[
    ("z", 'z'),
    ("bz", 'z'),
    ("x", 'x'),
    ("geo", 'g'),
    ("h", 'h'),
    ("lcs", 'k'),
    ("l", 'l'),
    ("bl", 'l'),
    ("br", 'l'),
    ("rp", 'l'),
    ("sort", 'l'),
    ("sadd", 's'),
    ("scard", 's'),
    ("sdiff", 's'),
    ("sinter", 's'),
    ("sunion", 's'),
    ("sis", 's'),
    ("smembers", 's'),
    ("smis", 's'),
    ("smove", 's'),
    ("spop", 's'),
    ("srand", 's'),
    ("srem", 's'),
    ("sscan", 's'),
];

fn letter(name: &str) -> char {
    let fits = LETTERS.iter().find(|(begin, _)| name.starts_with(begin));
    fits.map_or('k', |(_, letter)| *letter)
}

fn lines(name: &str) -> impl Iterator<Item = &'static Line> {
    GRAMMAR.iter().filter(move |line| line.0 == name)
}

/// A call for a person, who can repeat it.
pub(crate) fn shown(call: &Call) -> String {
    let word = |word: &Vec<u8>| format!("\"{}\"", word.escape_ascii());
    call.iter().map(word).collect::<Vec<_>>().join(" ")
}
