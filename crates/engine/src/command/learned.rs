//! Commands that the table does not know, learnt from a server's own `COMMAND` reply.
//!
//! Modules and servers newer than this release thus work unconfigured: respool knows whether such a command may share
//! a connection and where its keys stand. What the table knows is left alone, because its rows hold decisions that no
//! server makes for us; of its containers only the subcommands that it lacks are learnt.
//!
//! It deliberately learns little: name, arity, flags, the three numbers of the key positions, and the names of
//! subcommands. For a command whose keys these numbers can't tell ([`Flags::MOVABLEKEYS`]) only the server can say them
//! (`COMMAND GETKEYS`).
//!
//! `COMMAND` is asked once; what it did not tell (a module loaded since, another shard's) is added from the replies of
//! `COMMAND INFO` ([`Learned::add`]).
//!
//! The reply comes from a server that may be broken or hostile, so what does not look like a command is skipped and
//! counted, never believed.
//!
//! Invariant: at most [`LEARNED_COUNT_MAX`] commands, and as many subcommands, with names that [`may_be_name`] allows,
//! sorted by name in lower case, no name twice, none that [`lookup()`] or [`lookup_sub`] knows.

use super::word::same_name;
use super::{Class, CommandId, Flags, NAME_BYTES_MAX, lookup, lookup_sub, may_be_name};
use alloc::{boxed::Box, vec::Vec};
use resp::value::Value;

/// The commands of one server that the table does not know.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// Sorted by name.
    commands: Vec<LearnedCommand>,
    /// Likewise, each with the name `container|subcommand`: those of learnt containers, and those that the table's
    /// containers have beside the table's.
    subs: Vec<LearnedCommand>,
    skipped: usize,
}

/// What one entry of a reply to `COMMAND INFO` tells of the name that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// The server has no command of this name.
    Absent,
    /// It is known now.
    Known,
    /// The server has a command, and it is not called so: it was renamed there, or the entry is malformed.
    Other,
}

impl Learned {
    /// Reads the reply of `COMMAND` (RESP2 or RESP3). `None` if it is none, for instance an error because the user
    /// may not call `COMMAND`: then whatever was known before is still the best knowledge.
    #[must_use]
    pub fn from_reply(reply: &Value<'_>) -> Option<Self> {
        let mut learned = Self::default();
        for entry in reply.as_list()? {
            if !learned.take(entry) {
                learned.skipped += 1;
            }
        }
        learned.sort();
        Some(learned)
    }

    /// Adds what the entry of a `COMMAND INFO` reply tells of `name`, in lower case: a command's, or `container|subcommand`.
    pub fn add(&mut self, name: &[u8], entry: &Value<'_>) -> Told {
        if matches!(entry, Value::Null) {
            return Told::Absent;
        }
        let said = entry.as_list().and_then(|fields| fields.first()?.as_text());
        if !said.is_some_and(|said| same_name(said, name)) {
            return Told::Other;
        }
        let is_taken = match name.iter().position(|byte| *byte == b'|') {
            None => self.take(entry),
            Some(bar) => self.take_sub(lookup(&name[..bar]), &name[..bar], entry),
        };
        self.sort();
        if is_taken { Told::Known } else { Told::Other }
    }

    /// Takes an entry in; false if it is passed over. [`Learned::sort`] must follow.
    fn take(&mut self, entry: &Value<'_>) -> bool {
        let Some((command, subs)) = LearnedCommand::from_entry(entry) else { return false };
        let row = lookup(&command.name);
        let name = command.name.clone();
        if row.is_none() {
            if self.commands.len() >= LEARNED_COUNT_MAX || !may_be_name(&name) {
                return false;
            }
            self.commands.push(command);
        }
        // All of them: a malformed one takes no other along.
        subs.iter().filter(|sub| !self.take_sub(row, &name, sub)).count() == 0
    }

    /// The same of a subcommand of `container`, which has this row if the table knows it.
    fn take_sub(&mut self, row: Option<CommandId>, container: &[u8], entry: &Value<'_>) -> bool {
        let Some((mut command, _)) = LearnedCommand::from_entry(entry) else { return false };
        let bar = container.len();
        // Redis 7.0 and later write `container|subcommand`.
        let full =
            command.name.get(..bar) == Some(container) && command.name.get(bar) == Some(&b'|');
        let sub = if full { &command.name[bar + 1..] } else { &command.name[..] };
        if row.is_some_and(|row| lookup_sub(row, sub).is_some()) {
            return true;
        }
        if self.subs.len() >= LEARNED_COUNT_MAX || !may_be_name(sub) {
            return false;
        }
        command.name = [container, b"|", sub].concat().into();
        self.subs.push(command);
        true
    }

    /// Restores the order; doubled names are skipped.
    fn sort(&mut self) {
        for list in [&mut self.commands, &mut self.subs] {
            let unsorted = list.len();
            list.sort_by(|left, right| left.name.cmp(&right.name));
            // The sort is stable, so of two entries with one name the first stays.
            list.dedup_by(|later, earlier| later.name == earlier.name);
            self.skipped += unsorted - list.len();
        }
    }

    /// Finds a command by its name in any case.
    #[must_use]
    pub fn lookup(&self, name: &[u8]) -> Option<&LearnedCommand> {
        find(&self.commands, name.iter().map(u8::to_ascii_lowercase))
    }

    /// Finds a subcommand that the table does not know by the names of its container and itself in any case.
    #[must_use]
    pub fn lookup_sub(&self, container: &[u8], sub: &[u8]) -> Option<&LearnedCommand> {
        find(&self.subs, container.iter().chain(b"|").chain(sub).map(u8::to_ascii_lowercase))
    }

    /// Counts the command of this call as one that may wait at the server, as if it had the flag `blocking`. `call` are the name and, if there is one, the
    /// subcommand.
    pub fn note_wait(&mut self, call: &[&[u8]]) {
        let lower = |name: &[u8]| name.to_ascii_lowercase();
        if let Some(name) = call.first() {
            lease(&mut self.commands, &lower(name));
        }
        if let [name, sub, ..] = call {
            lease(&mut self.subs, &lower(&[name, &b"|"[..], sub].concat()));
        }
    }

    /// Takes over which commands were seen to wait ([`Learned::note_wait`]).
    pub fn keep_waits(&mut self, of: &Self) {
        for (list, of) in [(&mut self.commands, &of.commands), (&mut self.subs, &of.subs)] {
            let waits = of.iter().filter(|command| command.class == Class::Leased);
            waits.for_each(|command| lease(list, &command.name));
        }
    }

    /// How many commands were learnt, subcommands aside.
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

/// Commands of this name, in lower case, take dedicated connections.
fn lease(sorted: &mut [LearnedCommand], name: &[u8]) {
    let found = sorted.binary_search_by(|command| (*command.name).cmp(name));
    if let Some(command) = found.ok().and_then(|index| sorted.get_mut(index)) {
        command.class = Class::Leased;
    }
}

/// Finds a name in lower case.
fn find(
    sorted: &[LearnedCommand],
    name: impl Iterator<Item = u8> + Clone,
) -> Option<&LearnedCommand> {
    let found = sorted.binary_search_by(|command| command.name.iter().copied().cmp(name.clone()));
    sorted.get(found.ok()?)
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
    /// True if the command or one of its subcommands can change the connection's state (category `@connection`, flag `pubsub`): respool closes that
    /// connection behind the reply.
    pub changes_connection: bool,
    /// True if it has subcommands, so that the server looks its second word up.
    pub is_container: bool,
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
    /// One entry of the reply: `[name, arity, [flag …], first, last, step, …]`, with the categories as number 6 from Redis 6.0 on and the entries of the
    /// subcommands as number 9 from Redis 7.0 on, which are returned beside it.
    fn from_entry<'v, 'a>(entry: &'v Value<'a>) -> Option<(Self, &'v [Value<'a>])> {
        let fields = entry.as_list()?;
        let number = |index: usize| match fields.get(index)? {
            Value::Integer(number) => Some(*number),
            _ => None,
        };
        let name = fields.first()?.as_text();
        let name = name.filter(|name| (1..=ENTRY_NAME_BYTES_MAX).contains(&name.len()))?;
        let flags = flag_set(fields.get(2)?)?;
        let subcommands = fields.get(SUBCOMMANDS).and_then(Value::as_list).unwrap_or(&[]);
        let all = || subcommands.iter().chain([entry]);
        let command = Self {
            name: name.to_ascii_lowercase().into(),
            arity: i16::try_from(number(1)?).ok()?,
            flags,
            class: class_of(all().filter_map(flags_of_entry).fold(flags, Flags::with)),
            changes_connection: all().any(is_about_connection),
            is_container: !subcommands.is_empty(),
            keys: KeyPositions {
                first: u16::try_from(number(3)?).ok()?,
                last: i16::try_from(number(4)?).ok()?,
                step: u16::try_from(number(5)?).ok()?,
            },
        };
        Some((command, subcommands))
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

/// True if the entry's command can change the state of its connection.
fn is_about_connection(entry: &Value<'_>) -> bool {
    let categories =
        entry.as_list().and_then(|fields| fields.get(CATEGORIES)?.as_list()).unwrap_or(&[]);
    flags_of_entry(entry).is_some_and(|flags| flags.has(Flags::PUBSUB))
        || categories.iter().any(|word| word.as_text().is_some_and(|word| word == b"@connection"))
}

/// A list of words (simple strings, in RESP3 a set) as flags.
fn flag_set(words: &Value<'_>) -> Option<Flags> {
    let known = words.as_list()?.iter().filter_map(|word| Flags::from_word(word.as_text()?));
    Some(known.fold(Flags::default(), Flags::with))
}

/// How many commands are learnt, and how many subcommands. Those beyond are skipped and count as unknown. Redis 8 with
/// all its modules has some 250 that the table does not know.
pub const LEARNED_COUNT_MAX: usize = 4096;

/// The longest name of an entry: `container|subcommand`.
const ENTRY_NAME_BYTES_MAX: usize = 2 * NAME_BYTES_MAX + 1;

/// Index of the ACL categories in an entry.
const CATEGORIES: usize = 6;

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
    fn what_is_about_the_connection_goes_apart_alone_and_in_a_container() {
        let about = |name: &str, category: &str| {
            let entry = entry(name, -1, &["fast"], [0, 0, 0]).replacen("*6", "*7", 1);
            format!("{entry}*2\r\n+@fast\r\n+{category}\r\n")
        };
        let listen = entry("m.listen", -2, &["pubsub"], [0, 0, 0]);
        let learned = learn(&[
            about("m.mode", "@connection"),
            about("m.other", "@slow"),
            listen,
            container("m.box", &[about("m.box|mode", "@connection")]),
            container("m.plain", &[about("m.plain|get", "@read")]),
        ]);
        let apart = |name: &[u8]| learned.lookup(name).unwrap().changes_connection;
        assert!(apart(b"m.mode") && apart(b"m.listen") && apart(b"m.box"));
        assert!(!apart(b"m.other") && !apart(b"m.plain"));
        assert!(learned.lookup_sub(b"m.box", b"mode").unwrap().changes_connection);
    }

    /// A container's entry with these subcommands.
    fn container(name: &str, subs: &[String]) -> String {
        let plain = entry(name, -2, &[], [0, 0, 0]).replacen("*6", "*10", 1);
        format!("{plain}*0\r\n*0\r\n*0\r\n*{}\r\n{}", subs.len(), subs.concat())
    }

    #[test]
    fn subcommands_are_learnt_of_learnt_containers_and_of_the_tables_own() {
        let subs = [entry("m.c|go", 2, &[], [0, 0, 0]), entry("m.c|x\0", 2, &[], [0, 0, 0])];
        let newer = [
            entry("config|get", -3, &[], [0, 0, 0]),
            entry("config|brandnew", 2, &["blocking"], [0, 0, 0]),
        ];
        let learned = learn(&[container("m.c", &subs), container("CONFIG", &newer)]);
        assert!(learned.lookup(b"M.C").is_some_and(|command| command.is_container));
        assert!(learned.lookup_sub(b"m.C", b"GO").is_some());
        assert_eq!(learned.lookup_sub(b"config", b"BrandNew").unwrap().class, Class::Leased);
        for (container, sub) in [(&b"m.c"[..], &b"x"[..]), (b"m.c", b"x\0"), (b"config", b"get")] {
            assert!(learned.lookup_sub(container, sub).is_none(), "{sub:?}");
        }
        assert!(learned.lookup(b"m.c|go").is_none(), "a name on the wire has no bar");
        assert_eq!((learned.len(), learned.skipped()), (1, 1));
    }

    #[test]
    fn later_entries_are_added_and_belong_to_the_name_that_was_asked_for() {
        let mut learned = Learned::default();
        let mut add = |name: &str, entry: &str| {
            let (value, _) = resp::value::parse(entry.as_bytes()).unwrap().unwrap();
            learned.add(name.as_bytes(), &value)
        };
        let info = |name: &str| entry(name, 2, &[], [0, 0, 0]);
        assert_eq!(add("m.get", "*-1\r\n"), Told::Absent);
        assert_eq!(add("m.get", "_\r\n"), Told::Absent);
        assert_eq!(add("m.get", &info("M.GET")), Told::Known);
        // `rename-command CONFIG secret`: the server tells the name that the command had.
        assert_eq!(add("secret", &info("config")), Told::Other);
        assert_eq!(add("m.x", ":1\r\n"), Told::Other);
        assert_eq!(add("config|new", &info("config|new")), Told::Known);
        assert_eq!(add("m.get|new", &info("m.get|old")), Told::Other);
        assert!(learned.lookup(b"m.get").is_some() && learned.lookup(b"secret").is_none());
        assert!(learned.lookup_sub(b"CONFIG", b"NEW").is_some());
        assert_eq!(learned.len(), 1);
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
            entry(&"x".repeat(NAME_BYTES_MAX + 1), 1, &[], [0, 0, 0]),
            entry("m.nul\0", 1, &[], [0, 0, 0]),
            entry("m.bar|x", 1, &[], [0, 0, 0]),
            entry("m.arity", 1 << 40, &[], [0, 0, 0]),
            entry("m.keys", 1, &[], [-1, 0, 0]),
            entry("m.twice", 1, &[], [0, 0, 0]),
            entry("M.TWICE", 2, &[], [0, 0, 0]),
        ];
        let learned = learn(&wrong);
        assert_eq!((learned.len(), learned.skipped()), (1, 10));
        assert_eq!(learned.lookup(b"m.twice").unwrap().arity, 1);
        assert!(learn(&[entry(&"x".repeat(NAME_BYTES_MAX), 1, &[], [0, 0, 0])]).len() == 1);
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
