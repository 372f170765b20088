//! What becomes of a request: which way it goes, before it is asked whether that way is open.
//!
//! Today there is one server, so a route is a matter of the command alone: over the shared connection, over the control lane,
//! answered here, or refused. The tree of routes (shards, replicas, mirrors) takes its place here.
//!
//! Not here: connections and their states (`connect`).
//!
//! Invariant: the way depends on nothing but the arguments and the tables, so it is the same for the same request. Over a
//! connection that clients share goes only what the table or a server's `COMMAND` knows by its whole name.

pub mod hash;
pub mod shard;
pub mod slot;

use crate::command::waits::{Waits, waits};
use crate::command::{self, Class, CommandId, Learned, LearnedCommand, ids, word};
use crate::local::slowlog;

/// A command as far as the tables know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Row of the static table (of the subcommand, where that matters), if it has one.
    pub id: Option<CommandId>,
    /// Where it goes.
    pub way: Way,
    /// It writes, as far as is known; unknown commands count as writing.
    pub writes: bool,
    /// It may be sent before AUTH.
    pub before_auth: bool,
}

impl Known {
    /// Whether the reply tells how many listen, which the proxy completes.
    pub(crate) fn counts_listeners(&self) -> bool {
        self.id.is_some_and(|id| id.row().class == Class::Counted)
    }
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over the shared connection.
    Shared,
    /// Over the control lane.
    Control,
    /// Answered by the proxy.
    Local,
    /// Needs a connection of its own.
    Leased,
    /// Not given on.
    Refused,
    /// As far as is known no server has this command, or this subcommand: it goes nowhere before servers were asked for
    /// it (see `unknown`).
    Unknown,
    /// No server told its commands, or only servers know it and it has to do with the connection: over a connection of the client's own that is closed
    /// behind the reply, whatever the server takes the name for (see `unknown`).
    Apart,
    /// A line of HTTP: a browser was made to speak to us. The client is closed without a word, as Redis does
    /// (`securityWarningCommand`); given on, the server would close the shared connection.
    Http,
}

impl Way {
    /// The same, and [`Way::Apart`] for what is unknown.
    #[inline]
    pub(crate) fn or_apart(self) -> Self {
        if self == Self::Unknown { Self::Apart } else { self }
    }
}

/// Looks a request up. `arg` gives the arguments by index, 0 being the command.
///
/// Only what the table or the servers' `COMMAND` knows gets a way over a connection that clients share: a name that
/// nobody knows is [`Way::Unknown`], or [`Way::Apart`] while no `COMMAND` reply was read; likewise the second word of a
/// container, which servers look up as they do a name.
pub fn classify<'a>(
    count: usize,
    arg: impl Fn(usize) -> &'a [u8],
    learned: Option<&Learned>,
) -> Known {
    let name = arg(0);
    let Some(mut id) = command::lookup(name) else {
        if word::same_name(name, "post") || word::same_name(name, "host:") {
            return Known { id: None, way: Way::Http, writes: false, before_auth: true };
        }
        let way = way_beside_table(name, (count > 1).then(|| arg(1)), learned);
        return Known { id: None, way, writes: true, before_auth: false };
    };
    if id.row().is_container() && count > 1 {
        let at = sub_at(id, count, &arg);
        match command::lookup_sub(id, arg(at)) {
            // Of those that are the servers' the proxy's own row decides.
            Some(sub) if at == 1 && id.row().has_classed_subcommands => id = sub,
            Some(_) => {}
            None => {
                let way = way_of_sub(id, arg(at), learned);
                return Known { id: Some(id), way, writes: id.row().writes(), before_auth: false };
            }
        }
    }
    let row = id.row();
    let blocks = row.class == Class::Blocking && waits(id, (0..count).map(&arg)) != Waits::No;
    Known {
        id: Some(id),
        way: way_of(row.class, blocks),
        writes: writes(id, (count > 1).then(|| arg(1))),
        before_auth: row.flags.has(command::Flags::NO_AUTH),
    }
}

/// Which argument of a container's call names the subcommand: the second, or in `SLOWLOG SERVER GET` the third, as the
/// server gets it without the word SERVER.
pub(crate) fn sub_at<'a>(
    container: CommandId,
    count: usize,
    arg: impl Fn(usize) -> &'a [u8],
) -> usize {
    if count > 2 && slowlog::is_of_servers(Some(container), &[arg(0), arg(1), arg(2)]) {
        2
    } else {
        1
    }
}

/// The way of a command that the table does not know.
fn way_beside_table(name: &[u8], sub: Option<&[u8]>, learned: Option<&Learned>) -> Way {
    if !command::may_be_name(name) {
        return Way::Unknown;
    }
    let Some(learned) = learned else { return Way::Apart };
    match (learned.lookup(name), sub) {
        (None, _) => Way::Unknown,
        (Some(row), Some(sub)) if row.is_container => {
            let is_known = command::may_be_name(sub) && learned.lookup_sub(name, sub).is_some();
            if is_known { way_of_learned(row) } else { Way::Unknown }
        }
        (Some(row), _) => way_of_learned(row),
    }
}

/// The way of a subcommand that the table's container has not.
fn way_of_sub(container: CommandId, sub: &[u8], learned: Option<&Learned>) -> Way {
    let class = container.row().class;
    match (class, learned) {
        // The proxy answers for the whole container, and has no such subcommand.
        (Class::Local, _) => Way::Unknown,
        _ if !command::may_be_name(sub) => Way::Unknown,
        (Class::Refused, _) => Way::Refused,
        (_, None) => Way::Apart,
        (_, Some(learned)) => match learned.lookup_sub(container.name().as_bytes(), sub) {
            None => Way::Unknown,
            Some(_) if class == Class::Leased => Way::Leased,
            Some(row) => way_of_learned(row),
        },
    }
}

/// Route of a command that the table lacks and a server's `COMMAND` reply describes.
fn way_of_learned(row: &LearnedCommand) -> Way {
    if row.changes_connection { Way::Apart } else { way_of(row.class, false) }
}

fn way_of(class: Class, blocks: bool) -> Way {
    match class {
        Class::Pass | Class::Beside | Class::Counted | Class::Noted => Way::Shared,
        Class::Control => Way::Control,
        Class::Local => Way::Local,
        Class::Leased => Way::Leased,
        Class::Blocking if blocks => Way::Leased,
        Class::Blocking => Way::Shared,
        Class::Refused => Way::Refused,
    }
}

/// The flags that a script can have (`scripts_flags_def` in Redis' script.c).
const SCRIPT_FLAGS: [&[u8]; 5] =
    [b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"];

/// Whether a command with this row writes, or may pass something on to replicas, as far as its arguments tell.
pub(crate) fn writes(command: CommandId, first: Option<&[u8]>) -> bool {
    let says = first.filter(|_| matches!(command, ids::EVAL | ids::EVAL_RO)).and_then(may_write);
    says.unwrap_or_else(|| command.row().writes())
}

/// What a script says of itself: `#!lua flags=no-writes` (`evalExtractShebangFlags` in Redis' eval.c). `None`: nothing, or what no server
/// understands.
pub(crate) fn may_write(body: &[u8]) -> Option<bool> {
    let end = body.iter().position(|byte| *byte == b'\n')?;
    let mut words = body[..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if words.next() != Some(b"#!lua") {
        return None;
    }
    let mut writes = true;
    for word in words {
        for flag in word.strip_prefix(b"flags=")?.split(|byte| *byte == b',') {
            if !SCRIPT_FLAGS.contains(&flag) {
                return None;
            }
            writes &= flag != SCRIPT_FLAGS[0];
        }
    }
    Some(writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn way(line: &str) -> Way {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        classify(args.len(), |n| args[n], None).way
    }

    #[test]
    fn the_command_decides_the_way() {
        assert_eq!(way("get k"), Way::Shared);
        assert_eq!(way("no.such.command k"), Way::Apart);
        assert_eq!(way("PING"), Way::Local);
        assert_eq!(way("CLIENT LIST"), Way::Local);
        assert_eq!(way("MULTI"), Way::Leased);
        assert_eq!(way("script load x"), Way::Shared);
        assert_eq!(way("script kill"), Way::Control);
        assert_eq!(way("script"), Way::Shared);
        assert_eq!(way("DEBUG SLEEP 0"), Way::Refused);
        assert_eq!(way("POST / HTTP/1.1"), Way::Http);
        assert_eq!(way("Host: 127.0.0.1:6379"), Way::Http);
    }

    /// Whether it goes over a connection that others use, now or later.
    fn is_shared(args: &[&[u8]], learned: Option<&Learned>) -> bool {
        let known = classify(args.len(), |n| args[n], learned);
        !matches!(known.way, Way::Unknown | Way::Apart | Way::Http)
    }

    fn learned(entries: &str) -> Learned {
        let (value, _) = resp::value::parse(entries.as_bytes()).unwrap().unwrap();
        Learned::from_reply(&value).unwrap()
    }

    /// A module's command, and one with a subcommand.
    const MODULE: &str = "*2\r\n*6\r\n$5\r\nm.get\r\n:-1\r\n*0\r\n:0\r\n:0\r\n:0\r\n\
        *10\r\n$3\r\nm.c\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n\
        *1\r\n*6\r\n$6\r\nm.c|go\r\n:2\r\n*0\r\n:0\r\n:0\r\n:0\r\n";

    #[test]
    fn what_a_server_says_is_about_the_connection_goes_apart() {
        let mode =
            "*1\r\n*7\r\n$6\r\nm.mode\r\n:-1\r\n*0\r\n:0\r\n:0\r\n:0\r\n*1\r\n+@connection\r\n";
        let args: [&[u8]; 2] = [b"M.MODE", b"a"];
        let way = classify(args.len(), |n| args[n], Some(&learned(mode))).way;
        assert_eq!(way, Way::Apart);
    }

    /// Every byte at every place of every name: over a shared connection goes what the tables have by its whole name, and nothing else.
    #[test]
    fn no_name_beside_the_tables_shares_a_connection() {
        let (empty, module) = (Learned::default(), learned(MODULE));
        let tables = [None, Some(&empty), Some(&module)];
        for id in CommandId::all() {
            let (name, sub) = match id.name().split_once('|') {
                None => (id.name(), None),
                Some((name, sub)) => (name, Some(sub)),
            };
            let word = sub.unwrap_or(name).as_bytes();
            for at in 0..=word.len() {
                for byte in 0..=u8::MAX {
                    let mut other = word.to_vec();
                    other.insert(at, byte);
                    let args: [&[u8]; 3] = match sub {
                        None => [&other, b"k", b"1"],
                        Some(_) => [name.as_bytes(), &other, b"1"],
                    };
                    let parent = command::lookup(name.as_bytes()).unwrap();
                    let is_row = match sub {
                        None => command::lookup(&other).is_some(),
                        Some(_) => command::lookup_sub(parent, &other).is_some(),
                    };
                    for learned in tables {
                        let shared = is_shared(&args, learned);
                        let is_learnt = learned.is_some_and(|all| all.lookup(&other).is_some());
                        // Of what is never forwarded the second word makes no difference.
                        let never = parent.row().class == Class::Refused && sub.is_some();
                        assert!(is_row || is_learnt || never || !shared, "{args:?}");
                        assert!(byte != 0 || never || !shared, "{args:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_learnt_shares_a_connection_by_its_whole_name() {
        let module = learned(MODULE);
        for (args, shares) in [
            (&[&b"M.Get"[..], b"k"][..], true),
            (&[b"m.get\0", b"k"], false),
            (&[b"m.get\0x", b"k"], false),
            (&[b"m.gets", b"k"], false),
            // No container: its second word is any word.
            (&[b"m.get", b"x\0"], true),
            (&[b"m.c"], true),
            (&[b"M.C", b"GO"], true),
            (&[b"m.c", b"go\0"], false),
            (&[b"m.c", b"stop"], false),
            (&[b"m.c\0", b"go"], false),
            (&[b"m.c|go"], false),
            (&[b"slowlog", b"server", b"get\0"], false),
            (&[b"acl", b"server", b"whoami\0x"], false),
            (&[b"hotkeys", b"start"], true),
            (&[b"hotkeys", b"start\0"], false),
        ] {
            assert_eq!(is_shared(args, Some(&module)), shares, "{args:?}");
        }
        assert!(!is_shared(&[b"m.get", b"k"], None), "nothing was learnt");
    }

    #[test]
    fn a_script_may_say_that_it_only_reads() {
        let writes = |args: &[&str]| classify(args.len(), |n| args[n].as_bytes(), None).writes;
        assert!(!writes(&["EVAL", "#!lua flags=allow-stale,no-writes\nreturn 1", "0"]));
        assert!(!writes(&["EVAL", "#!lua  flags=no-writes flags=no-cluster\n", "0"]));
        for body in [
            "return 'no-writes'",
            "#!lua\nflags=no-writes",
            "#!lua",
            "",
            "flags=no-writes",
            "#!lua flags=no-writes",
            "#!js flags=no-writes\n",
            "#!lua name=x flags=no-writes\n",
            "#!lua flags=no-writes,other\n",
        ] {
            assert!(writes(&["EVAL", body, "0"]), "{body}");
        }
        assert!(writes(&["EVALSHA", "#!lua flags=no-writes\n", "0"]));
        assert!(!writes(&["EVAL_RO", "return 1", "0"]) && writes(&["EVAL"]));
        // What says that it may write is held back, though it will be refused.
        assert!(writes(&["EVAL_RO", "#!lua\nreturn 1", "0"]));
    }

    #[test]
    fn reading_a_stream_blocks_only_when_told() {
        assert_eq!(way("XREAD STREAMS block 0"), Way::Shared);
        assert_eq!(way("XREAD COUNT 2 BLOCK 0 STREAMS s 0"), Way::Leased);
        assert_eq!(way("XREADGROUP GROUP block block COUNT 1 STREAMS s >"), Way::Shared);
        assert_eq!(way("XREADGROUP GROUP g c NOACK BLOCK 1 STREAMS s >"), Way::Leased);
        // In any order, and with words that end for a server at a NUL.
        for line in [
            "XREADGROUP NOACK GROUP streams c BLOCK 0 STREAMS s >",
            "XREADGROUP COUNT 1 GROUP streams c BLOCK 0 STREAMS s >",
            "XREADGROUP GROUP\0 streams c BLOCK 0 STREAMS s >",
            "XREAD COUNT\0 1 BLOCK 0 STREAMS s $",
            "XREAD block\0x 0 STREAMS s $",
        ] {
            assert_eq!(way(line), Way::Leased, "{line:?}");
        }
        assert_eq!(way("XREADGROUP NOACK GROUP block block STREAMS s >"), Way::Shared);
    }
}
