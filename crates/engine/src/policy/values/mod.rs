//! `policies.values`: values that are stored compressed or encrypted, for keys that match a pattern.
//!
//! ```text
//!   SET page:1 <html>…       ─▶  SET page:1 ÿrsp 1 length lz4…
//!   GET page:1                ─▶  GET page:1                       ─▶  <html>…
//!   HSET user:1 mail a@b      ─▶  HSET user:1 mail ÿrsp 2 key nonce …          with `types` that have hashes
//!   APPEND page:1 x           ─▶  an error: the server would append to what is compressed
//! ```
//! What is stored says by its first bytes what it is (`stored`). A value without them is as it was written, so what was there before is read as ever; a
//! value of a client that happens to begin with them is stored behind a mark of its own.
//!
//! Not here: how a request goes on when it was changed (`super::change`), where values stand in replies (`opened`), keys (`keys`).
//!
//! Invariant: what a client reads is what a client wrote, whatever the bytes; a command that would see the stored ones is refused.

mod keys;
mod opened;
mod stored;
mod zstd;

pub use keys::{KEY_BYTES, KEY_NAME_BYTES_MAX, SealingKey, is_name};
pub(crate) use opened::Opened;
pub(crate) use zstd::Zstd;

use super::{Kind, Look, Refusal};
use crate::acl::Entropy;
use crate::command::options::{Given, given, patterns};
use crate::command::{self, CommandId, KeyFlags, ids, word};
use crate::glob::{self, Begins};
use crate::reject;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use keys::Ring;
use opened::Where;
use resp::{Args, encode, number};
use stored::{Form, Kept};

/// What new values are compressed by; what either made is read in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Quick.
    #[default]
    Lz4,
    /// Smaller, and slower.
    Zstd {
        /// How hard it tries, at most [`limits::ZSTD_LEVEL_MAX`](crate::limits::ZSTD_LEVEL_MAX); each level costs more time and memory.
        level: u8,
    },
}

/// What an operator wants of values. Plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Patterns of keys whose values are compressed.
    pub compress: Vec<Box<[u8]>>,
    /// From so many bytes on.
    pub compress_from_bytes: usize,
    /// By what.
    pub compression: Compression,
    /// Patterns of keys whose values are encrypted, compressed before if those patterns match, too.
    pub encrypt: Vec<Box<[u8]>>,
    /// Of keys that match `encrypt` no value is shown that is not encrypted.
    pub encrypted_only: bool,
    /// The first one encrypts, and each decrypts what it encrypted. At most so many as `limits::SEALING_KEYS_MAX`.
    pub keys: Vec<SealingKey>,
    /// It is about strings.
    pub strings: bool,
    /// It is about what the fields of hashes hold.
    pub hashes: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            compress: Vec::new(),
            compress_from_bytes: 1_024,
            compression: Compression::default(),
            encrypt: Vec::new(),
            encrypted_only: false,
            keys: Vec::new(),
            strings: true,
            hashes: false,
        }
    }
}

/// Which values are stored otherwise, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    wanted: Wanted,
    /// Where patterns stand in `wanted.compress` and in `wanted.encrypt`.
    begins: [Begins; 2],
    form: Form,
    /// What it has to do with each row of the command table.
    rows: Vec<Part>,
}

/// What a command has to do with values.
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
    /// Fields and values take turns behind the key.
    Fields,
    /// The same behind `FIELDS` and their number.
    CountedFields,
    /// The reply has values here.
    Reads(Reply),
}

/// Where the values of fields stand in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// Each element.
    All,
    /// Every other element.
    Pairs,
    /// The same if it is asked for.
    WithValues,
    /// The same in the second element, unless they are not asked for.
    Page,
}

impl Part {
    fn of(id: CommandId) -> Self {
        match id.name() {
            "rename" | "renamenx" | "copy" => Self::Move,
            "sort" | "sort_ro" => Self::Sort,
            name if SCRIPTS.contains(&name) => Self::Raw,
            _ => Self::None,
        }
    }

    fn of_strings(id: CommandId) -> Self {
        match id.name() {
            "set" | "setnx" => Self::Value(2),
            "getset" => Self::Swap,
            "setex" | "psetex" => Self::Value(3),
            "mset" | "msetnx" => Self::Pairs,
            "get" | "getdel" | "getex" => Self::Read,
            "mget" => Self::ReadEach,
            name if RAW_STRINGS.contains(&name) => Self::Raw,
            _ => Self::None,
        }
    }

    fn of_hashes(id: CommandId) -> Self {
        match id.name() {
            "hset" | "hmset" => Self::Fields,
            "hsetnx" => Self::Value(3),
            "hsetex" => Self::CountedFields,
            "hget" => Self::Read,
            "hmget" | "hvals" | "hgetex" | "hgetdel" => Self::Reads(Reply::All),
            "hgetall" => Self::Reads(Reply::Pairs),
            "hrandfield" => Self::Reads(Reply::WithValues),
            "hscan" => Self::Reads(Reply::Page),
            name if RAW_HASHES.contains(&name) => Self::Raw,
            _ => Self::None,
        }
    }
}

/// Commands that may do anything with their keys.
const SCRIPTS: [&str; 6] = ["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"];

/// Commands that work on the bytes of a string, or may.
const RAW_STRINGS: [&str; 27] = [
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

/// Commands that work on the bytes that a field of a hash holds, or whose fields a client named before.
const RAW_HASHES: [&str; 4] = ["himport|set", "hincrby", "hincrbyfloat", "hstrlen"];

impl Values {
    /// What is wanted, for each command. `None`: nothing is.
    #[must_use]
    pub fn new(wanted: Wanted) -> Option<Self> {
        if wanted.compress.is_empty() && wanted.encrypt.is_empty() {
            return None;
        }
        let part = |id: CommandId| {
            let strings = if wanted.strings { Part::of_strings(id) } else { Part::None };
            let hashes = if wanted.hashes { Part::of_hashes(id) } else { Part::None };
            let of = [Part::of(id), strings, hashes];
            of.into_iter().find(|part| *part != Part::None).unwrap_or(Part::None)
        };
        let rows = CommandId::all().map(part).collect();
        let ring = Arc::new(Ring(wanted.keys.clone()));
        let (from_bytes, compression) = (wanted.compress_from_bytes, wanted.compression);
        let form = Form { from_bytes, compression, ring };
        let begins = [&wanted.compress, &wanted.encrypt].map(|patterns| {
            let mut begins = Begins::default();
            patterns.iter().enumerate().for_each(|(at, pattern)| begins.add(at, pattern));
            begins
        });
        Some(Self { wanted, begins, form, rows })
    }

    /// What is done with the values of a key; `None`: nothing.
    fn kept(&self, key: &[u8]) -> Option<Kept> {
        let has = |patterns: &[Box<[u8]>], begins: &Begins| match patterns.len() > glob::FEW {
            true => begins.of(key).any(|at| glob::means(&patterns[at], key)),
            false => patterns.iter().any(|one| glob::means(one, key)),
        };
        let [compress, encrypt] = &self.begins;
        let compressed = has(&self.wanted.compress, compress);
        let kept = Kept { compressed, sealed: has(&self.wanted.encrypt, encrypt) };
        (kept != Kept::default()).then_some(kept)
    }

    /// Whether requests of this row may have to be changed or refused.
    pub(super) fn concerns(&self, id: CommandId) -> bool {
        self.rows[id.index()] != Part::None
    }

    /// Whether a request on its short way has nothing to do with any value that is stored otherwise.
    pub(super) fn leaves(&self, id: CommandId, frame: &[u8]) -> bool {
        let mut leaves = self.rows[id.index()] != Part::Sort;
        command::keys(id.row(), Args::new(frame), |_, key, flags| {
            leaves = leaves && !flags.has(KeyFlags::INCOMPLETE) && self.kept(key).is_none();
        });
        leaves
    }

    /// Whether a large request of which only these first arguments are here must be whole before it is known what is stored of it.
    pub(super) fn must_be_whole(&self, row: CommandId, head: &[&[u8]]) -> bool {
        let key = row.row().only_key_at().and_then(|at| head.get(at));
        self.concerns(row) && key.is_none_or(|key| self.kept(key).is_some())
    }

    /// Why a request is refused; `None`: it goes on.
    pub(super) fn outside(&self, look: &Look<'_>) -> Option<Refusal> {
        let row = look.row?;
        let mut kept = look.keys.iter().map(|key| self.kept(key));
        let refused = match self.rows[row.index()] {
            Part::Raw => kept.any(|kept| kept.is_some()),
            Part::Move => {
                // A value must not come to where nobody opens it, nor one that is open to where all are to be encrypted.
                let mut ways = kept.map(|kept| kept.map(|kept| kept.sealed));
                let first = ways.next();
                ways.any(|way| Some(way) != first)
            }
            Part::Value(2) if row.name() == "set" => {
                kept.any(|kept| kept.is_some())
                    && given(row.row(), look.args.iter().copied()).any(|option| compares(&option))
            }
            Part::Sort => self.reads_by_pattern(look.args),
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
    /// words; `changed`: what goes on. The flag: whether anything was changed. `None`: a value cannot be encrypted, and nothing may go on.
    pub(crate) fn inward<'a>(
        &self,
        row: Option<CommandId>,
        args: &[&'a [u8]],
        changed: &mut [Cow<'a, [u8]>],
        mut entropy: Option<&mut Entropy>,
        zstd: &mut Zstd,
    ) -> Option<(bool, Option<Opened>)> {
        let part = row.map_or(Part::None, |row| self.rows[row.index()]);
        if let Part::ReadEach = part {
            let each: Vec<_> =
                args.iter().skip(1).map(|key| self.kept(key).map(|kept| self.must(kept))).collect();
            let any = each.iter().any(Option::is_some);
            return Some((false, any.then(|| self.opened(Where::Some(each), false))));
        }
        let mut is_changed = false;
        let mut put = |at: usize, kept: Kept| -> Option<()> {
            if let (Some(value), Some(place)) = (args.get(at), changed.get_mut(at)) {
                *place = self.form.store(kept, value, entropy.as_deref_mut(), zstd)?;
                is_changed = true;
            }
            Some(())
        };
        if part == Part::Pairs {
            for at in (1..args.len().saturating_sub(1)).step_by(2) {
                if let Some(kept) = self.kept(args[at]) {
                    put(at + 1, kept)?;
                }
            }
            return Some((is_changed, None));
        }
        let key = args.get(1).filter(|_| part != Part::None);
        let Some(kept) = key.and_then(|key| self.kept(key)) else { return Some((false, None)) };
        for at in part.values_at(args) {
            put(at, kept)?;
        }
        let opened = part.reply(row, args).map(|at| self.opened(at, self.must(kept)));
        Some((is_changed, opened))
    }

    /// Whether only values that were encrypted are shown.
    fn must(&self, kept: Kept) -> bool {
        kept.sealed && self.wanted.encrypted_only
    }

    fn opened(&self, at: Where, sealed_only: bool) -> Opened {
        Opened { at, form: self.form.clone(), sealed_only }
    }

    /// Whether `SORT` reads values of keys whose names it makes up.
    fn reads_by_pattern(&self, args: &[&[u8]]) -> bool {
        patterns(ids::SORT.row(), args.iter().copied()).any(|pattern| {
            let of_hash = pattern.reads_hashes();
            pattern.names_keys() && if of_hash { self.wanted.hashes } else { self.wanted.strings }
        })
    }
}

impl Part {
    /// The arguments that are values of the first key.
    fn values_at(self, args: &[&[u8]]) -> Vec<usize> {
        match self {
            Self::Value(at) => alloc::vec![at],
            Self::Swap => alloc::vec![2],
            Self::Fields => (3..args.len()).step_by(2).collect(),
            Self::CountedFields => counted_fields(args),
            _ => Vec::new(),
        }
    }

    /// Where values of the first key stand in the reply; `None`: nowhere.
    fn reply(self, row: Option<CommandId>, args: &[&[u8]]) -> Option<Where> {
        match self {
            Self::Read | Self::Swap => Some(Where::One),
            Self::Value(2) => has_option(row, args, "get").then_some(Where::One),
            Self::Reads(Reply::All) => Some(Where::All),
            Self::Reads(Reply::Pairs) => Some(Where::Pairs),
            Self::Reads(Reply::WithValues) => {
                let with = args.get(3).is_some_and(|arg| word::is(arg, "withvalues"));
                with.then_some(Where::Pairs)
            }
            Self::Reads(Reply::Page) => (!has_option(row, args, "novalues")).then_some(Where::Page),
            _ => None,
        }
    }
}

/// Where values stand in `HSETEX key [options] FIELDS n field value …`. A server refuses what is written otherwise.
fn counted_fields(args: &[&[u8]]) -> Vec<usize> {
    let options = given(ids::HSETEX.row(), args.iter().copied());
    let is_number = |option: &Given<'_>| option.value.and_then(number::parse_i64).is_some();
    let fields = options.filter(|option| option.is("fields") || option.is("fvs"));
    let fields = fields.filter(is_number);
    fields.flat_map(|option| (option.at + 3..=option.at + option.args).step_by(2)).collect()
}

/// Whether a call has this option.
fn has_option(row: Option<CommandId>, args: &[&[u8]], word: &str) -> bool {
    row.is_some_and(|row| given(row.row(), args.iter().copied()).any(|option| option.is(word)))
}

/// Whether an option of `SET` compares with what is stored.
fn compares(option: &Given<'_>) -> bool {
    matches!(option.word, Some("ifeq" | "ifne" | "ifdeq" | "ifdne"))
}

#[cfg(test)]
mod tests {
    use super::stored::tests::key;
    use super::*;
    use crate::command::Categories;

    fn patterns(all: &[&str]) -> Vec<Box<[u8]>> {
        all.iter().map(|one| one.as_bytes().into()).collect()
    }

    fn values() -> Values {
        let wanted = Wanted {
            compress: patterns(&["c:*", "b:*"]),
            encrypt: patterns(&["s:*", "b:*"]),
            keys: alloc::vec![key("k", 1)],
            hashes: true,
            ..Wanted::default()
        };
        Values::new(wanted).expect("something")
    }

    fn row(name: &str) -> CommandId {
        command::lookup(name.as_bytes()).expect("a command")
    }

    /// Which arguments are changed, and where values are in the reply.
    fn inward(text: &str) -> (Vec<usize>, Option<Where>) {
        let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let mut changed: Vec<Cow<'_, [u8]>> = args.iter().map(|arg| Cow::Borrowed(*arg)).collect();
        let mut entropy = Entropy::new([1; 32]);
        let (is_changed, opened) = values()
            .inward(
                Some(row(&text[..text.find(' ').unwrap()])),
                &args,
                &mut changed,
                Some(&mut entropy),
                &mut Zstd::default(),
            )
            .expect("it can be encrypted");
        let others = (0..args.len()).filter(|at| *changed[*at] != *args[*at]).collect::<Vec<_>>();
        assert_eq!(is_changed, !others.is_empty());
        (others, opened.map(|opened| opened.at))
    }

    #[test]
    fn values_stand_where_commands_have_them() {
        for (text, changed, reply) in [
            ("set s:1 v", &[2][..], None),
            ("set s:1 v ex 5 get", &[2], Some(Where::One)),
            ("setnx s:1 get", &[2], None),
            ("setex s:1 5 v", &[3], None),
            ("getset s:1 v", &[2], Some(Where::One)),
            ("mset a v s:1 v b:1 v", &[4, 6], None),
            ("mget a s:1", &[], Some(Where::Some(alloc::vec![None, Some(false)]))),
            ("mget a b", &[], None),
            ("get s:1", &[], Some(Where::One)),
            ("get a", &[], None),
            ("hset s:1 f v g w", &[3, 5], None),
            ("hset a f v", &[], None),
            ("hmset s:1 f v", &[3], None),
            ("hsetnx s:1 f v", &[3], None),
            ("hsetex s:1 fields 2 f v g w", &[5, 7], None),
            ("hsetex s:1 fnx ex 5 fields 1 fields v", &[8], None),
            ("hsetex s:1 keepttl fields 1 f v", &[6], None),
            ("hsetex s:1 ex\0 5 Fields\0x 1 fields v", &[7], None),
            ("set s:1 v Get\0x", &[2], Some(Where::One)),
            ("hrandfield s:1 5 withvalues\0", &[], Some(Where::Pairs)),
            ("hscan s:1 0 count\0 5 NoValues\0x", &[], None),
            ("hscan s:1 0 count novalues", &[], Some(Where::Page)),
            ("hsetex s:1 fields x f v", &[], None),
            ("hget s:1 f", &[], Some(Where::One)),
            ("hmget s:1 f g", &[], Some(Where::All)),
            ("hvals s:1", &[], Some(Where::All)),
            ("hgetex s:1 persist fields 1 f", &[], Some(Where::All)),
            ("hgetdel s:1 fields 1 f", &[], Some(Where::All)),
            ("hgetall s:1", &[], Some(Where::Pairs)),
            ("hrandfield s:1", &[], None),
            ("hrandfield s:1 5", &[], None),
            ("hrandfield s:1 5 WITHVALUES", &[], Some(Where::Pairs)),
            ("hscan s:1 0 match novalues", &[], Some(Where::Page)),
            ("hscan s:1 0 count 5 NoValues", &[], None),
            ("hkeys s:1", &[], None),
            ("lpush s:1 v", &[], None),
        ] {
            assert_eq!(inward(text), (changed.to_vec(), reply), "{text}");
        }
    }

    #[test]
    fn without_a_source_of_nonces_nothing_is_written() {
        let args: [&[u8]; 3] = [b"set", b"s:1", b"v"];
        let mut changed = args.map(Cow::Borrowed);
        assert!(
            values()
                .inward(Some(row("set")), &args, &mut changed, None, &mut Zstd::default())
                .is_none()
        );
        assert!(
            values()
                .inward(Some(row("get")), &args[..2], &mut changed, None, &mut Zstd::default())
                .is_some()
        );
        let args: [&[u8]; 3] = [b"set", b"c:1", b"v"];
        assert!(
            values()
                .inward(Some(row("set")), &args, &mut changed, None, &mut Zstd::default())
                .is_some()
        );
    }

    fn is_refused(values: &Values, text: &str) -> bool {
        let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        values
            .outside(&Look::new(Some(row(&text[..text.find(' ').unwrap()])), &args, 0, None))
            .is_some()
    }

    #[test]
    fn what_sees_stored_bytes_is_refused() {
        let values = values();
        for text in [
            "append s:1 x",
            "strlen c:1",
            "hincrby s:1 f 1",
            "hincrbyfloat s:1 f 1",
            "hstrlen s:1 f",
            "eval x 1 s:1",
            "rename s:1 a",
            "rename a s:1",
            "rename s:1 c:1",
            "copy c:1 b:1",
            "set s:1 v ifeq x",
            "sort l by s:*",
            "sort l get s:*->f",
        ] {
            assert!(is_refused(&values, text), "{text}");
        }
        for text in [
            "append a x",
            "hincrby a f 1",
            "rename s:1 b:1",
            "rename a b",
            "rename c:1 c:2",
            "setnx s:1 ifeq",
            "sort l by nosort get #",
            "hdel s:1 f",
            "del s:1 a",
        ] {
            assert!(!is_refused(&values, text), "{text}");
        }
    }

    /// What stays on its short way is what the long way would neither refuse nor change.
    #[test]
    fn requests_about_other_keys_stay_on_their_short_way() {
        let leaves = |text: &str| {
            let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
            let mut frame = Vec::new();
            encode::request(&mut frame, &args);
            values().leaves(row(&text[..text.find(' ').unwrap()]), &frame)
        };
        for text in ["get a", "mget a b", "append a x", "mset a v b v", "hset a f v", "rename a b"]
        {
            assert!(leaves(text) && !is_refused(&values(), text), "{text}");
            assert_eq!(inward(text), (Vec::new(), None), "{text}");
        }
        for text in [
            "get s:1",
            "mget a c:1",
            "append s:1 x",
            "mset a v b:1 v",
            "rename a s:1",
            "sort l by a",
        ] {
            assert!(!leaves(text), "{text}");
        }
    }

    #[test]
    fn types_that_are_not_meant_are_left_alone() {
        let only = |strings: bool, hashes: bool| {
            let wanted = Wanted { strings, hashes, ..values().wanted };
            Values::new(wanted).expect("something")
        };
        assert!(!only(true, false).concerns(row("hget")) && only(true, false).concerns(row("get")));
        assert!(only(false, true).concerns(row("hget")) && !only(false, true).concerns(row("get")));
        assert!(!is_refused(&only(true, false), "hincrby s:1 f 1"));
        assert!(!is_refused(&only(true, false), "sort l get s:*->f"));
        assert!(!is_refused(&only(false, true), "append s:1 x"));
        assert!(is_refused(&only(false, true), "eval x 1 s:1"));
        assert_eq!(Values::new(Wanted::default()), None);
    }

    /// A new command on strings or hashes is looked at by somebody before it reads what is stored.
    #[test]
    fn every_command_on_values_has_its_part() {
        let of = |categories: &[&str], part: fn(CommandId) -> Part, others: &[&str]| {
            for category in categories {
                let category = Categories::named(category.as_bytes()).expect("one");
                for id in CommandId::all().filter(|id| !id.row().keys.is_empty()) {
                    let is_of_it =
                        id.row().categories.intersects(category) && !others.contains(&id.name());
                    let has_part = part(id) != Part::None || Part::of(id) != Part::None;
                    assert!(!is_of_it || has_part, "{}", id.name());
                }
            }
        };
        of(&["string", "bitmap", "hyperloglog", "scripting"], Part::of_strings, &[]);
        let names_only = [
            "hdel",
            "hexists",
            "hexpire",
            "hexpireat",
            "hexpiretime",
            "hkeys",
            "hlen",
            "hpersist",
            "hpexpire",
            "hpexpireat",
            "hpexpiretime",
            "hpttl",
            "httl",
        ];
        of(&["hash"], Part::of_hashes, &names_only);
        let find = |name: &str| CommandId::all().find(|id| id.name() == name);
        let all = |names: &[&str], part: fn(CommandId) -> Part| {
            names.iter().all(|name| find(name).map(part) == Some(Part::Raw))
        };
        assert!(
            all(&SCRIPTS, Part::of) && all(&RAW_STRINGS, Part::of_strings),
            "a name that no row has"
        );
        assert!(all(&RAW_HASHES, Part::of_hashes), "a name that no row has");
        assert!(names_only.iter().all(|name| find(name).is_some()), "a name that no row has");
    }
}
