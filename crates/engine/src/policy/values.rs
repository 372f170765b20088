//! `policies.values`: strings that are stored compressed, for keys that match a pattern.
//!
//! ```text
//!   SET page:1 <html>…       ─▶  SET page:1 ÿrsp 1 length lz4…
//!   GET page:1                ─▶  GET page:1                       ─▶  <html>…
//!   APPEND page:1 x           ─▶  an error: the server would append to what is compressed
//! ```
//! What is stored says by its first bytes what it is. A value without them is as it was written, so what was there before is read as ever; a value of a
//! client that happens to begin with them is stored behind a mark of its own.
//!
//! Not here: how a request goes on when it was changed (`super::change`).
//!
//! Invariant: what a client reads is what a client wrote, whatever the bytes; a command that would see the stored ones is refused.

use super::{Kind, Look, Refusal};
use crate::command::CommandId;
use crate::glob;
use crate::reject;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{encode, number};

/// What stored values begin with that are not as they were written. No text does: the first byte is none of UTF-8.
const MAGIC: &[u8; 4] = b"\xffrsp";

/// Behind it: the value as it was.
const PLAIN: u8 = 0;

/// Behind it: its length as four bytes, little end first, and a block of LZ4.
const LZ4: u8 = 1;

const HEAD_BYTES: usize = MAGIC.len() + 1;

/// Which strings are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    keys: Vec<Box<[u8]>>,
    from_bytes: usize,
    /// What it has to do with each row of the command table.
    rows: Vec<Part>,
}

/// What a command has to do with strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Nothing, or it takes them as they are (`DUMP`, `DEL`).
    None,
    /// This argument is a value; the reply is one with `SET … GET`.
    Value(usize),
    /// The third argument is a value, and the reply is one.
    Swap,
    /// Keys and values take turns.
    Pairs,
    /// The reply is a value.
    Read,
    /// The reply is one value for each key.
    ReadEach,
    /// The value of one key goes to another.
    Move,
    /// It sees what is stored, or may.
    Raw,
    /// It reads other keys by patterns.
    Sort,
}

impl Part {
    fn of(id: CommandId) -> Self {
        match id.name() {
            "set" | "setnx" => Self::Value(2),
            "getset" => Self::Swap,
            "setex" | "psetex" => Self::Value(3),
            "mset" | "msetnx" => Self::Pairs,
            "get" | "getdel" | "getex" => Self::Read,
            "mget" => Self::ReadEach,
            "rename" | "renamenx" | "copy" => Self::Move,
            "sort" | "sort_ro" => Self::Sort,
            name if RAW.contains(&name) => Self::Raw,
            _ => Self::None,
        }
    }
}

/// Commands that work on the bytes of a string, or may.
const RAW: [&str; 33] = [
    "append",
    "bitcount",
    "bitfield",
    "bitfield_ro",
    "bitop",
    "bitpos",
    "decr",
    "decrby",
    "delex",
    "delifeq",
    "digest",
    "eval",
    "eval_ro",
    "evalsha",
    "evalsha_ro",
    "fcall",
    "fcall_ro",
    "getbit",
    "getrange",
    "incr",
    "incrby",
    "incrbyfloat",
    "increx",
    "lcs",
    "msetex",
    "pfadd",
    "pfcount",
    "pfdebug",
    "pfmerge",
    "setbit",
    "setrange",
    "strlen",
    "substr",
];

/// Where values stand in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It is one, or none.
    One,
    /// These elements of an array.
    Some(Vec<bool>),
}

impl Values {
    /// Strings of keys that match one of these patterns are compressed when they have so many bytes or more.
    #[must_use]
    pub fn new(keys: Vec<Box<[u8]>>, from_bytes: usize) -> Self {
        Self { keys, from_bytes, rows: CommandId::all().map(Part::of).collect() }
    }

    fn has_key(&self, key: &[u8]) -> bool {
        self.keys.iter().any(|pattern| glob::matches(pattern, key))
    }

    /// Whether requests of this row may have to be changed or refused.
    pub(super) fn concerns(&self, id: CommandId) -> bool {
        self.rows[id.index()] != Part::None
    }

    /// Whether a large request of which only these first arguments are here must be whole before it is known what is stored of it.
    pub(super) fn must_be_whole(&self, row: CommandId, head: &[&[u8]]) -> bool {
        let key = row.row().only_key_at().and_then(|at| head.get(at));
        self.concerns(row) && key.is_none_or(|key| self.has_key(key))
    }

    /// Why a request is refused; `None`: it goes on.
    pub(super) fn outside(&self, look: &Look<'_>) -> Option<Refusal> {
        let row = look.row?;
        let matching = look.keys.iter().filter(|key| self.has_key(key)).count();
        let refused = match self.rows[row.index()] {
            Part::Raw => matching > 0,
            Part::Move => matching == 1 && look.keys.len() > 1,
            Part::Value(2) if matching > 0 => look.args.iter().skip(3).any(|word| compares(word)),
            Part::Sort => reads_by_pattern(look.args),
            _ => false,
        };
        if !refused {
            return None;
        }
        let mut reply = Vec::new();
        encode::error(&mut reply, reject::sees_stored(row.name()).as_bytes());
        Some(Refusal { kind: Kind::Values, name: String::new(), reply })
    }

    /// Puts the values of a request as they are stored in place of what clients say, and tells where values stand in its reply. `args`: in the clients'
    /// words; `changed`: what goes on. The flag: whether anything was changed.
    pub(crate) fn inward<'a>(
        &self,
        row: Option<CommandId>,
        args: &[&'a [u8]],
        changed: &mut [Cow<'a, [u8]>],
    ) -> (bool, Option<Opened>) {
        let part = row.map_or(Part::None, |row| self.rows[row.index()]);
        let is_meant = args.get(1).is_some_and(|key| self.has_key(key));
        let one = is_meant.then_some(Opened::One);
        match part {
            Part::Read => (false, one),
            Part::Value(_) | Part::Swap if is_meant => {
                let at = if let Part::Value(at) = part { at } else { 2 };
                let Some(value) = args.get(at) else { return (false, None) };
                changed[at] = self.stored(value);
                let gets =
                    at == 2 && args.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"get"));
                (true, one.filter(|_| part == Part::Swap || gets))
            }
            Part::Pairs => {
                let mut is_changed = false;
                for at in (1..args.len().saturating_sub(1)).step_by(2) {
                    if self.has_key(args[at]) {
                        changed[at + 1] = self.stored(args[at + 1]);
                        is_changed = true;
                    }
                }
                (is_changed, None)
            }
            Part::ReadEach => {
                let each: Vec<bool> = args.iter().skip(1).map(|key| self.has_key(key)).collect();
                let any = each.contains(&true);
                (false, any.then_some(Opened::Some(each)))
            }
            _ => (false, None),
        }
    }

    /// A value as it is stored.
    fn stored<'a>(&self, value: &'a [u8]) -> Cow<'a, [u8]> {
        if value.len() >= self.from_bytes.max(HEAD_BYTES + 4) {
            let mut stored = Vec::with_capacity(value.len() / 2);
            stored.extend_from_slice(MAGIC);
            stored.push(LZ4);
            stored.extend(lz4_flex::block::compress_prepend_size(value));
            if stored.len() < value.len() {
                return Cow::Owned(stored);
            }
        }
        if value.starts_with(MAGIC) {
            return Cow::Owned([MAGIC.as_slice(), &[PLAIN], value].concat());
        }
        Cow::Borrowed(value)
    }
}

/// An option of `SET` that compares with what is stored.
fn compares(word: &[u8]) -> bool {
    [&b"ifeq"[..], b"ifne", b"ifdeq", b"ifdne"].iter().any(|other| word.eq_ignore_ascii_case(other))
}

/// Whether `SORT` reads strings whose names it makes up.
fn reads_by_pattern(args: &[&[u8]]) -> bool {
    let words = args.iter().skip(2).zip(args.iter().skip(3));
    words.into_iter().any(|(word, pattern)| {
        let reads = word.eq_ignore_ascii_case(b"by") || word.eq_ignore_ascii_case(b"get");
        reads && pattern.contains(&b'*') && !pattern.windows(2).any(|two| two == b"->")
    })
}

/// A stored value as it was written; `room`: how long it may be. `None`: it cannot be read.
fn opened(stored: &[u8], room: usize) -> Option<Cow<'_, [u8]>> {
    let Some(rest) = stored.strip_prefix(MAGIC) else { return Some(Cow::Borrowed(stored)) };
    match rest.split_first()? {
        (&PLAIN, value) => Some(Cow::Borrowed(value)),
        (&LZ4, block) => {
            let (len, block) = block.split_at_checked(4)?;
            let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
            // LZ4 makes at most 255 bytes of one: who says more lies, and no memory is taken for it.
            if len > room || len > block.len().saturating_mul(255) {
                return None;
            }
            let value = lz4_flex::block::decompress(block, len).ok()?;
            (value.len() == len).then_some(Cow::Owned(value))
        }
        _ => None,
    }
}

impl Opened {
    /// Writes a reply with its values as they were written, of which all together have at most `room` bytes.
    pub(super) fn write(&self, reply: &[u8], room: usize, out: &mut Vec<u8>) {
        let begin = out.len();
        if self.write_parts(reply, begin.saturating_add(room), out).is_none() {
            out.truncate(begin);
            reject::write(out, reject::NOT_OPENED);
        }
    }

    fn write_parts(&self, reply: &[u8], end: usize, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::One => one(reply, end, out).map(|_| ()),
            Self::Some(each) => {
                if reply.first() != Some(&b'*') {
                    out.extend_from_slice(reply);
                    return Some(());
                }
                let line = reply.iter().position(|byte| *byte == b'\r')? + 2;
                out.extend_from_slice(reply.get(..line)?);
                let mut rest = reply.get(line..)?;
                for is_meant in each {
                    rest = match is_meant {
                        true => one(rest, end, out)?,
                        false => {
                            let len = rest.len() - after(rest)?.len();
                            out.extend_from_slice(&rest[..len]);
                            &rest[len..]
                        }
                    };
                }
                rest.is_empty().then_some(())
            }
        }
    }
}

/// Writes one value as it was written; what is no string goes on as it is. Returns what follows.
fn one<'a>(reply: &'a [u8], end: usize, out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let rest = after(reply)?;
    let whole = &reply[..reply.len() - rest.len()];
    match text(whole) {
        Some(stored) => encode::bulk(out, &opened(stored, end.saturating_sub(out.len()))?),
        None => out.extend_from_slice(whole),
    }
    Some(rest)
}

/// What stands behind the first value.
fn after(reply: &[u8]) -> Option<&[u8]> {
    match resp::ReplyScanner::default().scan(reply) {
        Ok(resp::Scan::Complete { consumed, .. }) => reply.get(consumed..),
        _ => None,
    }
}

/// The text of a bulk string; `None`: it is none.
fn text(whole: &[u8]) -> Option<&[u8]> {
    let end = whole.iter().position(|byte| *byte == b'\r')?;
    let len = usize::try_from(number::parse_i64(whole[..end].strip_prefix(b"$")?)?).ok()?;
    whole.get(end + 2..end + 2 + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn values(from_bytes: usize) -> Values {
        Values::new(vec![b"p:*".as_slice().into()], from_bytes)
    }

    fn shown(value: &[u8], room: usize) -> Vec<u8> {
        let mut reply = Vec::new();
        encode::bulk(&mut reply, value);
        let mut out = Vec::new();
        Opened::One.write(&reply, room, &mut out);
        out
    }

    #[test]
    fn what_shrinks_is_stored_so_and_read_as_it_was() {
        let value = b"abc".repeat(1_000);
        let stored = values(100).stored(&value).into_owned();
        assert!(stored.starts_with(MAGIC) && stored.len() < 100, "{}", stored.len());
        let mut whole = Vec::new();
        encode::bulk(&mut whole, &value);
        assert_eq!(shown(&stored, 3_100), whole);
        // A small one, and one that does not shrink.
        assert_eq!(values(100).stored(b"abcabc"), Cow::Borrowed(&b"abcabc"[..]));
        let noise: Vec<u8> = (0..200u64).map(|n| ((n * n * 7_919) >> 5) as u8).collect();
        assert!(values(100).stored(&noise).len() <= noise.len());
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let value = b"abc".repeat(1_000);
        let stored = values(100).stored(&value).into_owned();
        let error = b"-ERR respool: ";
        for broken in
            [&stored[..stored.len() - 3], b"\xffrsp", b"\xffrsp\x07abc", b"\xffrsp\x01abc"]
        {
            assert!(shown(broken, 1 << 20).starts_with(error), "{broken:?}");
        }
        assert!(shown(&stored, 2_999).starts_with(error), "there is a bound");
        let mut bomb = stored.clone();
        bomb[5..9].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(shown(&bomb, usize::MAX).starts_with(error), "it says more than it can be");
    }

    #[test]
    fn elements_are_read_each_by_its_key() {
        let stored = values(10).stored(&[b'x'; 50]).into_owned();
        let mut reply = b"*3\r\n".to_vec();
        encode::bulk(&mut reply, &stored);
        encode::bulk(&mut reply, &stored);
        reply.extend_from_slice(b"$-1\r\n");
        let mut out = Vec::new();
        Opened::Some(vec![true, false, true]).write(&reply, 1_000, &mut out);
        let mut expected = b"*3\r\n".to_vec();
        encode::bulk(&mut expected, &[b'x'; 50]);
        encode::bulk(&mut expected, &stored);
        expected.extend_from_slice(b"$-1\r\n");
        assert_eq!(out, expected);
    }

    /// A new command on strings is looked at by somebody before it reads what is stored.
    #[test]
    fn every_command_on_strings_has_its_part() {
        for category in ["string", "bitmap", "hyperloglog", "scripting"] {
            let category = crate::command::Categories::named(category.as_bytes()).expect("one");
            for id in CommandId::all().filter(|id| !id.row().keys.is_empty()) {
                let is_of_it = id.row().categories.intersects(category);
                assert!(!is_of_it || Part::of(id) != Part::None, "{}", id.name());
            }
        }
        let is_raw = |name: &&str| crate::command::lookup(name.as_bytes()).map(Part::of);
        assert!(RAW.iter().all(|name| is_raw(name) == Some(Part::Raw)), "a name that no row has");
    }

    proptest! {
        /// Whatever the value is, what is read is what was written.
        #[test]
        fn any_value_comes_back(
            begin in prop_oneof![Just(&b""[..]), Just(&b"\xffrsp"[..]), Just(&b"\xffrsp\x01"[..])],
            rest in proptest::collection::vec(any::<u8>(), 0..60),
            times in 1..20usize,
            from_bytes in 0..200usize,
        ) {
            let value = [begin, &rest.repeat(times)].concat();
            let stored = values(from_bytes).stored(&value).into_owned();
            prop_assert_eq!(&*opened(&stored, value.len()).unwrap(), &*value);
            prop_assert!(stored.len() <= value.len() + HEAD_BYTES);
        }

        /// Whatever stands at the server: no panic, and no more memory than was allowed.
        #[test]
        fn any_bytes_are_no_harm(stored in proptest::collection::vec(any::<u8>(), 0..60)) {
            let stored = [&b"\xffrsp\x01"[..], &stored].concat();
            prop_assert!(opened(&stored, 1_000).is_none_or(|value| value.len() <= 1_000));
        }
    }
}
