//! What becomes of a request: which way it goes, before it is asked whether that way is open.
//!
//! Today there is one server, so a route is a matter of the command alone: over the shared connection, over the control lane,
//! answered here, or refused. The tree of routes (shards, replicas, mirrors) takes its place here.
//!
//! Not here: connections and their states (`connect`).
//!
//! Invariant: the way depends on nothing but the arguments and the tables, so it is the same for the same request.

pub mod hash;
pub mod shard;
pub mod slot;

use crate::command::waits::{Waits, waits};
use crate::command::{self, Class, CommandId, Learned, ids, word};

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
    /// A line of HTTP: a browser was made to speak to us. The client is closed without a word, as Redis does
    /// (`securityWarningCommand`); given on, the server would close the shared connection.
    Http,
}

/// Looks a request up. `arg` gives the arguments by index, 0 being the command.
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
        let class = learned.and_then(|l| l.lookup(name)).map_or(Class::Pass, |row| row.class);
        return Known { id: None, way: way_of(class, false), writes: true, before_auth: false };
    };
    if id.row().has_classed_subcommands
        && count > 1
        && let Some(sub) = command::lookup_sub(id, arg(1))
    {
        id = sub;
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

fn way_of(class: Class, blocks: bool) -> Way {
    match class {
        Class::Pass | Class::Counted | Class::Noted => Way::Shared,
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
        assert_eq!(way("no.such.command k"), Way::Shared);
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
