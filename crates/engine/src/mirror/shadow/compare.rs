//! Whether two replies to one read mean the same.
//!
//! Each command that is compared has a shape, which says what may differ between two deployments with the same data:
//!
//! ```text
//!   Exact      GET, LRANGE, XRANGE …   nothing
//!   Set        SMEMBERS, HKEYS …       the order
//!   Map        HGETALL                 the order of the pairs
//!   Number     ZSCORE, GEODIST …       how a number is written (1.5 and 1.50)
//!   Scores     ZRANGE … WITHSCORES     how scores are written, and whether pairs are arrays
//!   Time       TTL, PTTL …             some milliseconds
//! ```
//! One side may speak RESP2 and the other RESP3: maps are lists of pairs, sets are arrays, doubles are texts, booleans are 0 and 1. A command that is not in
//! the table is not compared: what draws by chance, walks, tells of the server or of idle times, or works on all keys.
//!
//! Not here: which reads are compared and when that says something (`super`).
//!
//! Invariant: what is the same to the last byte is equal.

use crate::command::options::given;
use crate::command::{self, COUNT, CommandId};
use alloc::vec::Vec;
use resp::value::{Value, parse};

/// What may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Exact,
    Set,
    Map,
    Number,
    Scores,
    /// In a unit of so many milliseconds.
    Time(u64),
}

/// What is compared, in the order of the table of commands or not.
const SHAPES: &[(&str, Shape)] = &[
    ("bitcount", Shape::Exact),
    ("bitfield_ro", Shape::Exact),
    ("bitpos", Shape::Exact),
    ("exists", Shape::Exact),
    ("expiretime", Shape::Time(1_000)),
    ("geodist", Shape::Number),
    ("geohash", Shape::Exact),
    ("geopos", Shape::Number),
    ("get", Shape::Exact),
    ("getbit", Shape::Exact),
    ("getrange", Shape::Exact),
    ("hexists", Shape::Exact),
    ("hexpiretime", Shape::Time(1_000)),
    ("hget", Shape::Exact),
    ("hgetall", Shape::Map),
    ("hkeys", Shape::Set),
    ("hlen", Shape::Exact),
    ("hmget", Shape::Exact),
    ("hpexpiretime", Shape::Time(1)),
    ("hpttl", Shape::Time(1)),
    ("hstrlen", Shape::Exact),
    ("httl", Shape::Time(1_000)),
    ("hvals", Shape::Set),
    ("lcs", Shape::Exact),
    ("lindex", Shape::Exact),
    ("llen", Shape::Exact),
    ("lpos", Shape::Exact),
    ("lrange", Shape::Exact),
    ("mget", Shape::Exact),
    ("pexpiretime", Shape::Time(1)),
    ("pttl", Shape::Time(1)),
    ("scard", Shape::Exact),
    ("sdiff", Shape::Set),
    ("sinter", Shape::Set),
    ("sintercard", Shape::Exact),
    ("sismember", Shape::Exact),
    ("smembers", Shape::Set),
    ("smismember", Shape::Exact),
    ("strlen", Shape::Exact),
    ("substr", Shape::Exact),
    ("sunion", Shape::Set),
    ("ttl", Shape::Time(1_000)),
    ("type", Shape::Exact),
    ("xlen", Shape::Exact),
    ("xrange", Shape::Exact),
    ("xrevrange", Shape::Exact),
    ("zcard", Shape::Exact),
    ("zcount", Shape::Exact),
    ("zdiff", Shape::Scores),
    ("zinter", Shape::Scores),
    ("zintercard", Shape::Exact),
    ("zlexcount", Shape::Exact),
    ("zmscore", Shape::Number),
    ("zrange", Shape::Scores),
    ("zrangebylex", Shape::Exact),
    ("zrangebyscore", Shape::Scores),
    ("zrank", Shape::Number),
    ("zrevrange", Shape::Scores),
    ("zrevrangebylex", Shape::Exact),
    ("zrevrangebyscore", Shape::Scores),
    ("zrevrank", Shape::Number),
    ("zscore", Shape::Number),
    ("zunion", Shape::Scores),
];

/// The shapes of all commands.
#[derive(Debug)]
pub(super) struct Shapes(Vec<Option<Shape>>);

impl Shapes {
    pub(super) fn new() -> Self {
        let mut shapes = alloc::vec![None; COUNT];
        for id in CommandId::all() {
            shapes[id.index()] = Self::of_one(id);
        }
        Self(shapes)
    }

    /// `None`: it is not compared.
    pub(super) fn of(&self, id: CommandId) -> Option<Shape> {
        self.0.get(id.index()).copied().flatten()
    }

    /// The same for one that is asked for seldom.
    pub(super) fn of_one(id: CommandId) -> Option<Shape> {
        SHAPES.iter().find(|(name, _)| *name == id.name()).map(|(_, shape)| *shape)
    }
}

/// The names of the commands whose replies are compared, and as what: `exact`, `set`, `map`, `number`, `scores` or `time`.
pub fn compared_commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    let word = |shape| match shape {
        Shape::Exact => "exact",
        Shape::Set => "set",
        Shape::Map => "map",
        Shape::Number => "number",
        Shape::Scores => "scores",
        Shape::Time(_) => "time",
    };
    SHAPES.iter().map(move |(name, shape)| (*name, word(*shape)))
}

/// A reply without what the protocol adds to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Plain<'a> {
    Null,
    Int(i64),
    Text(&'a [u8]),
    /// Its first word: the rest is said differently by every version.
    Error(&'a [u8]),
    List(Vec<Self>),
}

/// Whether these replies to one read are equal, give or take so many milliseconds. What cannot be read is compared byte by byte.
pub(super) fn are_equal(shape: Shape, args: &[&[u8]], one: &[u8], other: &[u8], ms: u64) -> bool {
    if one == other {
        return true;
    }
    let (Ok(Some((one, _))), Ok(Some((other, _)))) = (parse(one), parse(other)) else {
        return false;
    };
    let (mut one, mut other) = (plain(&one), plain(&other));
    match shape {
        Shape::Exact => one == other,
        Shape::Set => {
            sort(&mut one, 1);
            sort(&mut other, 1);
            one == other
        }
        Shape::Map => {
            sort(&mut one, 2);
            sort(&mut other, 2);
            one == other
        }
        Shape::Number => is_near(&one, &other),
        Shape::Scores => {
            let row = args.first().and_then(|name| command::lookup(name));
            let with = row.is_some_and(|row| {
                given(row.row(), args.iter().copied()).any(|option| option.is("withscores"))
            });
            if with { have_equal_scores(one, other) } else { one == other }
        }
        Shape::Time(unit_ms) => {
            // A time in seconds is rounded, which may be up to one on each side.
            let slack = ms.div_ceil(unit_ms) + u64::from(unit_ms > 1);
            is_within(&one, &other, slack)
        }
    }
}

fn plain<'a>(value: &Value<'a>) -> Plain<'a> {
    match value {
        Value::Null => Plain::Null,
        Value::Integer(number) => Plain::Int(*number),
        Value::Bool(yes) => Plain::Int(i64::from(*yes)),
        Value::Simple(text)
        | Value::Bulk(text)
        | Value::Double(text)
        | Value::BigNumber(text)
        | Value::Verbatim { text, .. } => Plain::Text(text),
        Value::Error(text) | Value::BulkError(text) => {
            Plain::Error(text.split(|byte| *byte == b' ').next().unwrap_or_default())
        }
        Value::Array(list) | Value::Set(list) | Value::Push(list) => {
            Plain::List(list.iter().map(plain).collect())
        }
        Value::Map(pairs) => {
            Plain::List(pairs.iter().flat_map(|(key, value)| [plain(key), plain(value)]).collect())
        }
    }
}

/// Brings groups of so many elements in an order of their own.
fn sort(value: &mut Plain<'_>, group: usize) {
    let Plain::List(list) = value else { return };
    if group == 1 {
        return list.sort();
    }
    if !list.len().is_multiple_of(group) {
        return;
    }
    let mut groups: Vec<Vec<Plain<'_>>> = Vec::new();
    let mut rest = core::mem::take(list).into_iter();
    while let Some(first) = rest.next() {
        groups.push(core::iter::once(first).chain(rest.by_ref().take(group - 1)).collect());
    }
    groups.sort();
    list.extend(groups.into_iter().flatten());
}

/// Whether every number in them is the same, however it is written.
fn is_near(one: &Plain<'_>, other: &Plain<'_>) -> bool {
    match (one, other) {
        (Plain::List(one), Plain::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_near(a, b))
        }
        (Plain::Text(one), Plain::Text(other)) => one == other || is_same_number(one, other),
        _ => one == other,
    }
}

fn is_same_number(one: &[u8], other: &[u8]) -> bool {
    let number = |text: &[u8]| core::str::from_utf8(text).ok()?.parse::<f64>().ok();
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Members with their scores, as pairs or one behind the other.
fn have_equal_scores(one: Plain<'_>, other: Plain<'_>) -> bool {
    let (Plain::List(one), Plain::List(other)) = (&one, &other) else { return one == other };
    let (one, other) = (flat(one), flat(other));
    one.len() == other.len()
        && one.iter().zip(&other).enumerate().all(|(at, (a, b))| match at % 2 {
            0 => a == b,
            _ => is_near(a, b),
        })
}

fn flat<'p, 'a>(list: &'p [Plain<'a>]) -> Vec<&'p Plain<'a>> {
    let mut all = Vec::new();
    for element in list {
        match element {
            Plain::List(pair) => all.extend(pair),
            one => all.push(one),
        }
    }
    all
}

/// Times, alone or in lists. What is negative is no time but says that there is none.
fn is_within(one: &Plain<'_>, other: &Plain<'_>, slack: u64) -> bool {
    match (one, other) {
        (Plain::Int(one), Plain::Int(other)) if *one >= 0 && *other >= 0 => {
            one.abs_diff(*other) <= slack
        }
        (Plain::List(one), Plain::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_within(a, b, slack))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;
    use resp::encode;

    fn equal(shape: Shape, words: &str, one: &str, other: &str) -> bool {
        let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let both = are_equal(shape, &args, one.as_bytes(), other.as_bytes(), 100);
        let swapped = are_equal(shape, &args, other.as_bytes(), one.as_bytes(), 100);
        assert_eq!(both, swapped, "{one:?} and {other:?}");
        both
    }

    #[test]
    fn every_name_is_that_of_a_command_that_reads_a_key() {
        for (name, _) in SHAPES {
            let id = crate::command::lookup(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
            assert!(id.row().reads() && !id.row().is_container(), "{name}");
            assert!(!id.row().keys.is_empty(), "{name}");
        }
        let shapes = Shapes::new();
        let known = CommandId::all().filter(|id| shapes.of(*id).is_some()).count();
        assert_eq!(known, SHAPES.len());
        for name in ["srandmember", "randomkey", "scan", "hscan", "object|encoding", "dump", "keys"]
        {
            let id = CommandId::all().find(|id| id.name() == name);
            assert!(id.is_some_and(|id| shapes.of(id).is_none()), "{name}");
        }
    }

    #[test]
    fn the_protocol_makes_no_difference() {
        let resp2 = "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n";
        let map = "%2\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\n1\r\n";
        assert!(equal(Shape::Map, "HGETALL h", resp2, map));
        assert!(!equal(Shape::Map, "HGETALL h", resp2, &map.replace('2', "3")));
        assert!(!equal(Shape::Exact, "LRANGE l 0 -1", resp2, map));
        assert!(equal(Shape::Exact, "GET k", "$-1\r\n", "_\r\n"));
        assert!(equal(Shape::Exact, "SISMEMBER s m", ":1\r\n", "#t\r\n"));
        assert!(!equal(Shape::Exact, "SISMEMBER s m", ":1\r\n", "#f\r\n"));
        assert!(equal(
            Shape::Set,
            "SMEMBERS s",
            "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            "~2\r\n$1\r\nb\r\n$1\r\na\r\n"
        ));
        let pairs = "*2\r\n*2\r\n$1\r\nm\r\n,1.5\r\n*2\r\n$1\r\nn\r\n,3\r\n";
        let flat = "*4\r\n$1\r\nm\r\n$4\r\n1.50\r\n$1\r\nn\r\n$1\r\n3\r\n";
        assert!(equal(Shape::Scores, "ZRANGE z 0 -1 WITHSCORES", pairs, flat));
        assert!(!equal(
            Shape::Scores,
            "ZRANGE z 0 -1 WITHSCORES",
            pairs,
            &flat.replace("1.50", "1.51")
        ));
        // Without scores a member is a text, however much it looks like a number.
        assert!(!equal(Shape::Scores, "ZRANGE z 0 -1", "*1\r\n$1\r\n1\r\n", "*1\r\n$3\r\n1.0\r\n"));
    }

    #[test]
    fn numbers_times_and_errors() {
        assert!(equal(Shape::Number, "ZSCORE z m", ",1e3\r\n", "$4\r\n1000\r\n"));
        assert!(!equal(Shape::Number, "ZSCORE z m", ",1e3\r\n", "$-1\r\n"));
        assert!(!equal(Shape::Exact, "GET k", "$1\r\n1\r\n", "$3\r\n1.0\r\n"));
        assert!(equal(Shape::Time(1), "PTTL k", ":5000\r\n", ":4900\r\n"));
        assert!(!equal(Shape::Time(1), "PTTL k", ":5000\r\n", ":4899\r\n"));
        assert!(equal(Shape::Time(1_000), "TTL k", ":5\r\n", ":4\r\n"));
        assert!(!equal(Shape::Time(1_000), "TTL k", ":5\r\n", ":2\r\n"));
        // That there is none is no time that is near to another.
        assert!(!equal(Shape::Time(1), "PTTL k", ":-1\r\n", ":-2\r\n"));
        assert!(!equal(Shape::Time(1), "PTTL k", ":5\r\n", ":-1\r\n"));
        assert!(equal(Shape::Exact, "GET k", "-WRONGTYPE one\r\n", "-WRONGTYPE other\r\n"));
        assert!(!equal(Shape::Exact, "GET k", "-WRONGTYPE one\r\n", "-ERR other\r\n"));
        assert!(!equal(Shape::Map, "HGETALL h", "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\nb\r\n"));
        assert!(!equal(Shape::Exact, "GET k", "$1\r\nx\r\n", "what is no reply"));
    }

    fn list(kind: u8, words: &[String]) -> Vec<u8> {
        let mut out = Vec::new();
        encode::array(&mut out, words.len());
        words.iter().for_each(|word| encode::bulk(&mut out, word.as_bytes()));
        out[0] = kind;
        out
    }

    proptest! {
        #[test]
        fn another_order_and_protocol_are_equal_and_another_element_is_not(
            words in proptest::collection::vec("[a-z0-9.]{0,6}", 1..20),
            turn in 0usize..20, at in 0usize..20,
        ) {
            let mut moved = words.clone();
            moved.rotate_left(turn % words.len());
            let (one, other) = (list(b'*', &words), list(b'~', &moved));
            prop_assert!(are_equal(Shape::Set, &[b"SMEMBERS", b"s"], &one, &other, 0));
            prop_assert_eq!(are_equal(Shape::Exact, &[b"LRANGE"], &one, &other, 0), words == moved);
            let place = at % moved.len();
            moved[place].push('!');
            let changed = list(b'*', &moved);
            prop_assert!(!are_equal(Shape::Set, &[b"SMEMBERS", b"s"], &one, &changed, 0));
            moved.remove(place);
            prop_assert!(!are_equal(Shape::Set, &[b"SMEMBERS", b"s"], &one, &list(b'*', &moved), 0));
        }

        #[test]
        fn pairs_in_another_order_are_equal_and_another_value_is_not(
            pairs in proptest::collection::btree_map("[a-z]{1,4}", "[a-z]{0,4}", 1..12),
            turn in 0usize..12,
        ) {
            let flat = |pairs: &[(String, String)]| -> Vec<String> {
                pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect()
            };
            let mut pairs: Vec<(String, String)> = pairs.into_iter().collect();
            let one = list(b'*', &flat(&pairs));
            let len = pairs.len();
            pairs.rotate_left(turn % len);
            let mut map = list(b'*', &flat(&pairs));
            let announced = alloc::format!("%{len}\r\n");
            let end = map.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            map.splice(..end, announced.bytes());
            prop_assert!(are_equal(Shape::Map, &[b"HGETALL", b"h"], &one, &map, 0));
            pairs[0].1.push('!');
            prop_assert!(!are_equal(Shape::Map, &[b"HGETALL", b"h"], &one, &list(b'*', &flat(&pairs)), 0));
        }
    }
}
