//! What respool knows about the commands of Redis and Valkey, before a server has said anything.
//!
//! One row per command and per subcommand of Redis 7.0 to 8.x and of Valkey 8 and 9: how many arguments it takes, what
//! it does, where its keys stand, how a cluster spreads it and gathers its answers, and its [`Class`]: what respool
//! does with it. The facts are those of the servers' own `COMMAND` replies; `tests/command_table.rs` compares every
//! row with a running server. What the table does not know (modules, newer servers) is [`learned`] from the server.
//!
//! It deliberately does not judge a request: arity is not checked here, because the server's own error text is the
//! true one and a newer server may accept more. It holds no `SENTINEL` rows, because respool asks sentinels itself
//! and never stands in front of one.
//!
//! Where to read: [`lookup()`] finds a row by the name on the wire, [`keys()`] finds the keys of a call, [`ids`] names the
//! rows the engine speaks of, `table` is the data.
//!
//! Invariant: a [`CommandId`] indexes a row of the table, and the rows of a container's subcommands follow its own.

pub mod categories;
pub mod flags;
pub mod ids;
pub mod keys;
pub mod learned;
mod lookup;
pub mod options;
mod shareable;
pub mod spread;
mod table;
pub mod waits;
pub mod word;

pub use categories::Categories;
pub use flags::{Flags, KeyFlags};
pub use keys::{Begin, Find, KeyRule, KeySpec, keys};
pub use learned::{Learned, LearnedCommand};
pub use lookup::{NAME_BYTES_MAX, lookup, lookup_sub, may_be_name};

/// How many rows the table has, containers and subcommands included.
pub const COUNT: usize = table::ROWS.len();

/// The table, with what can be computed from its neighbours filled in.
static TABLE: [Command; COUNT] = linked();

/// [`CommandId::breaks_lines`] of each row, by itself as each request asks for it.
static BREAKS_LINES: [bool; COUNT] = breaking();

/// A row of the command table. Made by [`lookup()`], [`lookup_sub`] and the constants of [`ids`] only, so it always
/// names a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandId(u16);

impl CommandId {
    /// The id of the row at `index`, for tables of counters and for walking over all rows.
    #[must_use]
    pub const fn from_index(index: usize) -> Option<Self> {
        // COUNT is far below 65536 (asserted in `linked`), so the cast keeps the value.
        if index < COUNT { Some(Self(index as u16)) } else { None }
    }

    /// The index of the row: below [`COUNT`], so it fits an array of counters per command.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether its arguments may name another database than the client's.
    #[must_use]
    pub const fn names_database(self) -> bool {
        self.0 == ids::MOVE.0 || self.0 == ids::COPY.0
    }

    /// The row.
    #[inline]
    #[must_use]
    pub fn row(self) -> &'static Command {
        &TABLE[self.index()]
    }

    /// The name as the servers give it: lower case, `container|subcommand` for subcommands.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// True if the reply may hold line breaks where RESP has none: the text is that of a script, a function or a module (see `delimiter`).
    #[inline]
    #[must_use]
    pub fn breaks_lines(self) -> bool {
        BREAKS_LINES[self.index()]
    }

    /// Every row, subcommands behind their container.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..COUNT as u16).map(Self)
    }

    /// The rows of a container's subcommands; empty for a plain command.
    pub fn subcommands(self) -> impl Iterator<Item = Self> {
        let first = self.0 + 1;
        (first..first + self.row().subcommand_count).map(Self)
    }
}

/// One row: a command, a container (`CLIENT`), or a subcommand (`CLIENT LIST`).
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Lower case; `container|subcommand` for subcommands.
    pub name: &'static str,
    /// Number of arguments with the name (a subcommand counts both words); negative: at least that many.
    ///
    /// Where versions disagree this is what the most permissive one takes, so it may be used to find arguments, not to
    /// refuse a request on a server's behalf.
    pub arity: i16,
    /// As Redis 8.2 has it, else Valkey 9, else the newest Redis whose description is published.
    pub flags: Flags,
    /// Where the keys stand, as the servers declare it. Use [`keys()`], which also knows what they can't declare.
    pub keys: &'static [KeySpec],
    /// Its options, as far as respool looks into them. Read them by [`options::given`].
    pub grammar: &'static options::Grammar,
    /// What `keys` can't say: `SORT … STORE`, `MIGRATE … KEYS` and the like.
    pub key_rule: KeyRule,
    /// Which nodes of a cluster a call must reach.
    pub request_policy: RequestPolicy,
    /// How the answers of several nodes become one.
    pub response_policy: ResponsePolicy,
    /// What respool does with it.
    pub class: Class,
    /// Argument index of the key, where the call has exactly one and always at the same place; 0 otherwise.
    pub only_key: u8,
    /// How many rows of subcommands follow this one.
    pub subcommand_count: u16,
    /// True if a subcommand differs from this row in its class or in whether it writes, so that the engine must look
    /// at the second word. False means that the second word makes no difference to what respool does.
    pub has_classed_subcommands: bool,
    /// True if the server of its key is all that there is to know: it is forwarded whatever its arguments are, and does not run for long. Never true of
    /// a container, whose second word a server looks up as it does a name.
    pub is_plain: bool,
    /// True if equal calls of several clients may be answered by one (`shareable`).
    pub is_shareable: bool,
    /// The categories of access control that it belongs to.
    pub categories: Categories,
}

impl Command {
    /// True if it runs a script or a function.
    #[inline]
    #[must_use]
    pub const fn is_script(&self) -> bool {
        self.flags.has(Flags::NO_MANDATORY_KEYS)
    }

    /// True if any copy of the data may answer: the command only reads.
    #[inline]
    #[must_use]
    pub const fn reads(&self) -> bool {
        self.flags.has(Flags::READONLY)
    }

    /// Where the key stands of a command that has exactly one, always there.
    #[inline]
    #[must_use]
    pub const fn only_key_at(&self) -> Option<usize> {
        if self.only_key == 0 { None } else { Some(self.only_key as usize) }
    }

    /// True for `CLIENT`, `CONFIG` and the like, whose second word says what they do.
    #[must_use]
    pub const fn is_container(&self) -> bool {
        self.subcommand_count > 0
    }

    /// True if a server that pauses writes (`CLIENT PAUSE … WRITE`) holds this command back.
    #[inline]
    #[must_use]
    pub const fn writes(&self) -> bool {
        self.flags.intersects(Flags::WRITE.with(Flags::MAY_REPLICATE))
    }
}

/// What respool does with a command in front of one server whose connections many clients share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// Goes over a shared connection: leaves no trace on it, and its one reply comes when its turn comes.
    Pass,
    /// As [`Class::Pass`], but its reply tells how many listen to a channel. The server sees one listener for many clients.
    Counted,
    /// As [`Class::Pass`], but respool looks at it on its way.
    Noted,
    /// As [`Class::Pass`], but over the connection for large replies: a server may do it in a thread while its client
    /// waits (`FLUSHALL` since Redis 7.4), and whatever stands behind it on its connection with it; or it looks at all
    /// keys (`KEYS`); or the reply is large (`COMMAND DOCS`).
    Beside,
    /// Answered by respool, because it asks about or changes the client's own connection, of which the server sees
    /// nothing. `EXEC`, `DISCARD` and `UNWATCH` are here for the client that has no transaction open.
    Local,
    /// Needs an upstream connection of its own: it changes the state of the connection (`MULTI`, `HIMPORT`), makes the
    /// server stop answering on it for a while (`BLPOP`, `WAIT`), or turns it into a stream (`PSYNC`).
    Leased,
    /// As [`Class::Leased`] if the call has a `BLOCK` option, as [`Class::Pass`] if not. Only the arguments tell.
    Blocking,
    /// Stops a script that runs for too long, or tells of it. On a shared connection it would wait behind that very script, so it goes over a lane of its
    /// own.
    Control,
    /// Never forwarded: stops or freezes the server for everybody (`SHUTDOWN`, `DEBUG`, `MIGRATE`), or is spoken
    /// between servers only.
    Refused,
}

/// Which nodes of a cluster a call must reach (tip `request_policy` of a `COMMAND` reply).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestPolicy {
    /// No tip: the node that owns the keys, or any one if there are none.
    Default,
    /// Every node that owns slots.
    AllShards,
    /// Every node, replicas included.
    AllNodes,
    /// Keys may lie on several shards: the call is split by key.
    MultiShard,
    /// None of these; each such command is its own case.
    Special,
}

/// How the answers of several nodes become one (tip `response_policy` of a `COMMAND` reply).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResponsePolicy {
    /// No tip. Without keys: the collections are put together in any order; with keys: in the order of the keys.
    Default,
    /// The first answer that is no error; an error only if there is none.
    OneSucceeded,
    /// One answer if none is an error; the first error if there is one.
    AllSucceeded,
    /// The sum of the numbers.
    AggSum,
    /// The smallest number.
    AggMin,
    /// The greatest number.
    AggMax,
    /// Element by element: 1 if all are 1.
    AggLogicalAnd,
    /// Element by element: 1 if any is 1.
    AggLogicalOr,
    /// None of these; each such command is its own case.
    Special,
}

/// Fills in what a row says about the rows after it, at compile time, so that it can't be forgotten.
const fn linked() -> [Command; COUNT] {
    let mut rows = [table::ROWS[0]; COUNT];
    assert!(COUNT < u16::MAX as usize, "CommandId holds 16 bits");
    let mut container = 0;
    let mut index = 0;
    while index < COUNT {
        rows[index] = table::ROWS[index];
        rows[index].only_key = only_key(&rows[index]);
        if has_bar(rows[index].name) {
            rows[container].subcommand_count += 1;
            // Compared as numbers, because `==` on an enum is not const.
            let same_class = rows[index].class as u8 == rows[container].class as u8;
            if !same_class || rows[index].writes() != rows[container].writes() {
                rows[container].has_classed_subcommands = true;
            }
        } else {
            container = index;
        }
        index += 1;
    }
    index = 0;
    let (mut shareable, mut explicit, mut grammars) = (0, 0, 0);
    while index < COUNT {
        rows[index].is_plain = matches!(rows[index].class, Class::Pass)
            && !rows[index].is_container()
            && !rows[index].is_script()
            && !says_of_scripts(rows[index].name)
            && !CommandId(index as u16).names_database();
        if shareable::is_next(rows[index].name, shareable) {
            rows[index].is_shareable = true;
            shareable += 1;
        }
        if let Some(grammar) = options::next(rows[index].name, grammars) {
            rows[index].grammar = grammar;
            grammars += 1;
        }
        let categories = match categories::explicit(rows[index].name, explicit) {
            Some(categories) => {
                explicit += 1;
                categories
            }
            None => 0,
        };
        rows[index].categories = categories::of(rows[index].flags, categories);
        index += 1;
    }
    assert!(explicit == categories::EXPLICIT_COUNT, "categories of what is not in the table");
    assert!(grammars == options::COUNT, "options of a command that is not in the table");
    assert!(shareable == shareable::NAMES.len(), "a shareable command that is not in the table");
    rows
}

/// The place of the only key, 0 if there is none or not always one.
const fn only_key(row: &Command) -> u8 {
    if row.keys.len() != 1
        || !matches!(row.key_rule, KeyRule::Declared | KeyRule::Set | KeyRule::Bitfield)
    {
        return 0;
    }
    match (row.keys[0].begin, row.keys[0].find) {
        (Begin::Index(index), Find::Range { last: 0, .. }) if index < 256 => index as u8,
        _ => 0,
    }
}

/// True for the name of a subcommand.
/// See [`CommandId::breaks_lines`].
const fn breaking() -> [bool; COUNT] {
    let (rows, mut breaks, mut index) = (linked(), [false; COUNT], 0);
    while index < COUNT {
        breaks[index] = rows[index].is_script() || says_of_scripts(rows[index].name);
        assert!(!(breaks[index] && rows[index].is_plain), "a plain request has no delimiter");
        index += 1;
    }
    breaks
}

/// Whether this is `FUNCTION` or `SCRIPT`, a subcommand of them, or the name of a module's command.
const fn says_of_scripts(name: &str) -> bool {
    begins(name, b"function") || begins(name, b"script") || has_byte(name, b'.')
}

/// Whether the name, or the container's of a subcommand, is this one.
const fn begins(name: &str, container: &[u8]) -> bool {
    let name = name.as_bytes();
    let mut index = 0;
    while index < container.len() {
        if index == name.len() || name[index] != container[index] {
            return false;
        }
        index += 1;
    }
    index == name.len() || name[index] == b'|'
}

const fn has_bar(name: &str) -> bool {
    has_byte(name, b'|')
}

const fn has_byte(name: &str, byte: u8) -> bool {
    let mut index = 0;
    while index < name.len() {
        if name.as_bytes()[index] == byte {
            return true;
        }
        index += 1;
    }
    false
}

#[cfg(test)]
mod tests;
