//! Commands that the table does not know, learnt from a server's own `COMMAND` reply.
//!
//! Modules and servers newer than this release thus work unconfigured: respool knows whether such a command may share
//! a connection and where its keys stand. What the table knows is left alone, because its rows hold decisions that no
//! server makes for us.
//!
//! It deliberately learns little: name, arity, flags and the three numbers of the key positions. For a command whose
//! keys these numbers can't tell ([`Flags::MOVABLEKEYS`]) only the server can say them (`COMMAND GETKEYS`).
//!
//! The reply comes from a server that may be broken or hostile, so what does not look like a command is skipped and
//! counted, never believed.
//!
//! Invariant: at most [`LEARNED_COUNT_MAX`] commands with names of 1 to [`LEARNED_NAME_BYTES_MAX`] bytes, sorted by
//! name in lower case, no name twice, none that [`lookup()`] knows.

use super::{Class, Flags, lookup};
use alloc::{boxed::Box, vec::Vec};
use resp::value::Value;

/// The commands of one server that the table does not know.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Sorted by name.
    commands: Vec<LearnedCommand>,
    skipped: usize,
}

impl Learned {
    /// Reads the reply of `COMMAND` (RESP2 or RESP3). `None` if it is none, for instance an error because the user
    /// may not call `COMMAND`: then whatever was known before is still the best knowledge.
    #[must_use]
    pub fn from_reply(reply: &Value<'_>) -> Option<Self> {
        let mut learned = Self::default();
        for entry in reply.as_list()? {
            match LearnedCommand::from_entry(entry) {
                Some(command) if lookup(&command.name).is_some() => {}
                Some(command) if learned.commands.len() < LEARNED_COUNT_MAX => {
                    learned.commands.push(command);
                }
                _ => learned.skipped += 1,
            }
        }
        let unsorted = learned.commands.len();
        learned.commands.sort_by(|left, right| left.name.cmp(&right.name));
        // The sort is stable, so of two entries with one name the first stays.
        learned.commands.dedup_by(|later, earlier| later.name == earlier.name);
        learned.skipped += unsorted - learned.commands.len();
        Some(learned)
    }

    /// Finds a command by its name in any case.
    #[must_use]
    pub fn lookup(&self, name: &[u8]) -> Option<&LearnedCommand> {
        let lower = |byte: &u8| byte.to_ascii_lowercase();
        let found = self
            .commands
            .binary_search_by(|command| command.name.iter().copied().cmp(name.iter().map(lower)));
        self.commands.get(found.ok()?)
    }

    /// How many commands were learnt.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// True if the table knows all that the server has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// How many entries of the reply were passed over: malformed, doubled, or beyond a bound. Worth a line in the log
    /// if it is not 0, since these commands will be treated as unknown.
    #[must_use]
    pub fn skipped(&self) -> usize {
        self.skipped
    }
}

/// One learnt command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LearnedCommand {
    /// Lower case.
    pub name: Box<[u8]>,
    /// As in [`Command::arity`](super::Command::arity).
    pub arity: i16,
    /// Those flags that respool knows; others are dropped.
    pub flags: Flags,
    /// What respool does with it, as far as flags can tell.
    pub class: Class,
    /// The key positions as the server gives them.
    pub keys: KeyPositions,
}

/// First key, last key and step of a `COMMAND` reply.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KeyPositions {
    /// Argument index of the first key; 0: no keys, or none that these numbers can tell.
    pub first: u16,
    /// Argument index of the last key; negative: from the end, -1 being the last argument.
    pub last: i16,
    /// Every how many arguments there is a key.
    pub step: u16,
}

impl LearnedCommand {
    /// One entry of the reply: `[name, arity, [flag …], first, last, step, …]`, with the entries of the subcommands as
    /// number 9 from Redis 7.0 on.
    fn from_entry(entry: &Value<'_>) -> Option<Self> {
        let fields = entry.as_list()?;
        let number = |index: usize| match fields.get(index)? {
            Value::Integer(number) => Some(*number),
            _ => None,
        };
        let name = fields.first()?.as_text();
        let name = name.filter(|name| (1..=LEARNED_NAME_BYTES_MAX).contains(&name.len()))?;
        let flags = flag_set(fields.get(2)?)?;
        let subcommands = fields.get(SUBCOMMANDS).and_then(Value::as_list).unwrap_or(&[]);
        Some(Self {
            name: name.to_ascii_lowercase().into(),
            arity: i16::try_from(number(1)?).ok()?,
            flags,
            class: class_of(subcommands.iter().filter_map(flags_of_entry).fold(flags, Flags::with)),
            keys: KeyPositions {
                first: u16::try_from(number(3)?).ok()?,
                last: i16::try_from(number(4)?).ok()?,
                step: u16::try_from(number(5)?).ok()?,
            },
        })
    }

    /// Calls `each` for every key of a call with its argument index. `args` begin with the name. Reports nothing for
    /// a command without keys and for one whose keys the three numbers can't tell.
    pub fn keys<'a>(
        &self,
        args: impl Iterator<Item = &'a [u8]> + Clone,
        mut each: impl FnMut(usize, &'a [u8]),
    ) {
        let KeyPositions { first, last, step } = self.keys;
        if first == 0 || step == 0 || self.flags.has(Flags::MOVABLEKEYS) {
            return;
        }
        let last = match usize::try_from(last) {
            Ok(last) => last,
            Err(_) => args.clone().count().saturating_sub(last.unsigned_abs().into()),
        };
        let numbered = args.enumerate().skip(first.into()).step_by(step.into());
        numbered.take_while(|(index, _)| *index <= last).for_each(|(index, key)| each(index, key));
    }
}

/// What flags tell about sharing a connection: a command that may wait, or that has to do with channels, would hold up
/// or confuse everybody else on it. For a container this is decided by all its subcommands together, because the
/// safe mistake is to lease once too often.
fn class_of(flags: Flags) -> Class {
    if flags.intersects(Flags::BLOCKING.with(Flags::PUBSUB)) { Class::Leased } else { Class::Pass }
}

/// The flags of one entry, for the subcommands.
fn flags_of_entry(entry: &Value<'_>) -> Option<Flags> {
    flag_set(entry.as_list()?.get(2)?)
}

/// A list of words (simple strings, in RESP3 a set) as flags.
fn flag_set(words: &Value<'_>) -> Option<Flags> {
    let known = words.as_list()?.iter().filter_map(|word| Flags::from_word(word.as_text()?));
    Some(known.fold(Flags::default(), Flags::with))
}

/// How many commands are learnt from one server. Those beyond are skipped: they pass as unknown ones do. Redis 8 with
/// all its modules has some 250 that the table does not know.
pub const LEARNED_COUNT_MAX: usize = 4096;

/// The longest name that is learnt, in bytes. A command with a longer one is skipped.
pub const LEARNED_NAME_BYTES_MAX: usize = 64;

/// Where the subcommands stand in an entry.
const SUBCOMMANDS: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String, vec};

    /// A `COMMAND` entry as text of RESP2.
    fn entry(name: &str, arity: i64, flags: &[&str], keys: [i64; 3]) -> String {
        let flags: String = flags.iter().map(|flag| format!("+{flag}\r\n")).collect();
        let count = flags.matches('+').count();
        let [first, last, step] = keys;
        format!(
            "*6\r\n${}\r\n{name}\r\n:{arity}\r\n*{count}\r\n{flags}:{first}\r\n:{last}\r\n:{step}\r\n",
            name.len()
        )
    }

    fn learn(entries: &[String]) -> Learned {
        let reply = format!("*{}\r\n{}", entries.len(), entries.concat());
        let (value, _) = resp::value::parse(reply.as_bytes()).unwrap().unwrap();
        Learned::from_reply(&value).unwrap()
    }

    #[test]
    fn learns_what_the_table_does_not_know() {
        let learned = learn(&[
            entry("json.set", -4, &["write", "denyoom", "module"], [1, 1, 1]),
            entry("GET", 2, &["readonly"], [1, 1, 1]),
            entry("MOD.Wait", -2, &["blocking"], [0, 0, 0]),
            entry("mod.listen", -2, &["pubsub", "some_new_flag"], [0, 0, 0]),
        ]);
        assert_eq!((learned.len(), learned.skipped()), (3, 0));
        let set = learned.lookup(b"JSON.set").unwrap();
        assert_eq!((set.arity, set.class), (-4, Class::Pass));
        assert_eq!(set.flags, Flags::WRITE.with(Flags::DENYOOM).with(Flags::MODULE));
        assert_eq!(learned.lookup(b"mod.wait").unwrap().class, Class::Leased);
        assert_eq!(learned.lookup(b"mod.listen").unwrap().class, Class::Leased);
        assert!(learned.lookup(b"get").is_none(), "the table's row stands");
        assert!(learned.lookup(b"json.se").is_none() && learned.lookup(b"").is_none());
    }

    #[test]
    fn a_container_is_as_careful_as_its_subcommands() {
        let sub = entry("m.c|wait", 2, &["blocking"], [0, 0, 0]);
        let plain = entry("m.c", -2, &[], [0, 0, 0]).replacen("*6", "*10", 1);
        let learned = learn(&[format!("{plain}*0\r\n*0\r\n*0\r\n*1\r\n{sub}")]);
        assert_eq!(learned.lookup(b"m.c").unwrap().class, Class::Leased);
    }

    #[test]
    fn keys_by_first_last_and_step() {
        let learned = learn(&[
            entry("m.all", -2, &[], [1, -1, 1]),
            entry("m.pairs", -2, &[], [1, -1, 2]),
            entry("m.none", -2, &[], [0, 0, 0]),
            entry("m.move", -2, &["movablekeys"], [1, -1, 1]),
            entry("m.second", -2, &[], [2, 2, 1]),
            entry("m.odd", -2, &[], [1, -9, 0]),
        ]);
        let keys = |name: &str| {
            let args = [name.as_bytes(), b"a", b"b", b"c"];
            let mut found = vec![];
            learned
                .lookup(name.as_bytes())
                .unwrap()
                .keys(args.into_iter(), |index, _| found.push(index));
            found
        };
        assert_eq!(keys("m.all"), [1, 2, 3]);
        assert_eq!(keys("m.pairs"), [1, 3]);
        assert_eq!(keys("m.second"), [2]);
        for none in ["m.none", "m.move", "m.odd"] {
            assert!(keys(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn what_is_no_command_is_skipped_and_counted() {
        let wrong = [
            "$-1\r\n".into(),
            ":5\r\n".into(),
            "*0\r\n".into(),
            entry("", 1, &[], [0, 0, 0]),
            entry(&"x".repeat(LEARNED_NAME_BYTES_MAX + 1), 1, &[], [0, 0, 0]),
            entry("m.arity", 1 << 40, &[], [0, 0, 0]),
            entry("m.keys", 1, &[], [-1, 0, 0]),
            entry("m.twice", 1, &[], [0, 0, 0]),
            entry("M.TWICE", 2, &[], [0, 0, 0]),
        ];
        let learned = learn(&wrong);
        assert_eq!((learned.len(), learned.skipped()), (1, 8));
        assert_eq!(learned.lookup(b"m.twice").unwrap().arity, 1);
        assert!(learn(&[entry(&"x".repeat(LEARNED_NAME_BYTES_MAX), 1, &[], [0, 0, 0])]).len() == 1);
    }

    #[test]
    fn the_count_is_bounded() {
        let entries: Vec<_> = (0..LEARNED_COUNT_MAX + 10)
            .map(|number| entry(&format!("m.{number}"), 1, &[], [0, 0, 0]))
            .collect();
        let learned = learn(&entries);
        assert_eq!((learned.len(), learned.skipped()), (LEARNED_COUNT_MAX, 10));
    }

    #[test]
    fn an_error_teaches_nothing() {
        assert!(Learned::from_reply(&Value::Error(b"NOPERM")).is_none());
        assert!(Learned::from_reply(&Value::Array(vec![])).unwrap().is_empty());
    }
}
