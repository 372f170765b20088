//! Which functions of the servers do not write, asked while writes are paused: `FCALL` of these goes on then, as at a server.
//!
//! What a function may do stands in its library (`flags={'no-writes'}`), so only the server can tell (`FUNCTION LIST`). It is asked when the first
//! `FCALL` is held; those that may pass go on when the answer is there. Nothing is loaded during the pause: that would be a write.
//!
//! Not here: scripts, whose first line tells (`route::may_write`), and the pause itself.
//!
//! Invariant: outside of a pause of writes nothing is known.

use crate::command::CommandId;
use crate::command::ids::FCALL;
use crate::engine::Engine;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use resp::value::{self, Value};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    asked: bool,
    /// Names of functions that do not write.
    names: BTreeSet<Vec<u8>>,
}

impl Readers {
    /// Whether it is known of this function that it does not write.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }
}

impl Engine {
    /// A request is held by a pause; if it calls a function, it may be one that does not write.
    pub(crate) fn ask_functions(&mut self, now: Time, command: Option<CommandId>) {
        if command == Some(FCALL)
            && !self.readers.asked
            && self.pause.is_some_and(|pause| pause.writes_only)
            && let Some(id) = self.teacher()
        {
            self.readers.asked = true;
            self.say_own(now, id, OwnCommand::Functions, &[b"FUNCTION", b"LIST"]);
        }
    }

    /// The answer.
    pub(crate) fn functions_told(&mut self, reply: &[u8]) {
        if self.pause.is_some_and(|pause| pause.writes_only)
            && let Ok(Some((libraries, _))) = value::parse(reply)
        {
            self.readers.names = names_of_readers(&libraries);
            self.resume.extend(self.paused_clients.drain(..));
        }
    }

    /// The connection broke that owed the answer.
    pub(crate) fn functions_lost(&mut self) {
        self.readers.asked = false;
    }

    /// There is a connection that can be asked: who is held looks again.
    pub(crate) fn functions_askable(&mut self) {
        if !self.readers.asked && self.pause.is_some_and(|pause| pause.writes_only) {
            self.resume.extend(self.paused_clients.drain(..));
        }
    }
}

/// What `FUNCTION LIST` says, in RESP2 or RESP3.
fn names_of_readers(libraries: &Value<'_>) -> BTreeSet<Vec<u8>> {
    let libraries = libraries.as_list().unwrap_or_default().iter();
    let functions = libraries.filter_map(|library| field(library, b"functions")?.as_list());
    let reads = |function: &&Value<'_>| {
        let flags = field(function, b"flags").and_then(Value::as_list).unwrap_or_default();
        flags.iter().any(|flag| flag.as_text() == Some(b"no-writes"))
    };
    let names = functions.flatten().filter(reads).filter_map(|f| field(f, b"name")?.as_text());
    names.map(<[u8]>::to_vec).collect()
}

/// The value of this name, of a map or of a list of names and values.
fn field<'v, 'a>(value: &'v Value<'a>, name: &[u8]) -> Option<&'v Value<'a>> {
    if let Value::Map(pairs) = value {
        return pairs.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value);
    }
    let pair = value.as_list()?.chunks_exact(2).find(|pair| pair[0].as_text() == Some(name))?;
    Some(&pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn names(reply: &str) -> Vec<Vec<u8>> {
        let (value, _) = value::parse(reply.as_bytes()).expect("valid").expect("whole");
        names_of_readers(&value).into_iter().collect()
    }

    #[test]
    fn both_protocols_tell_who_does_not_write() {
        // As Redis 7.0.15 answers, but for the order and number of fields.
        let function = |name: &str, flags: &str| {
            format!(
                "*6\r\n$4\r\nname\r\n$1\r\n{name}\r\n$11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n{flags}"
            )
        };
        let (writes, reads) = (function("w", "*0\r\n"), function("r", "*1\r\n+no-writes\r\n"));
        let head = "$12\r\nlibrary_name\r\n$1\r\nl\r\n$9\r\nfunctions\r\n";
        let resp2 = format!("*1\r\n*4\r\n{head}*2\r\n{writes}{reads}");
        assert_eq!(names(&resp2), [b"r"]);
        let resp3 = resp2
            .replace("*1\r\n*4\r\n", "*1\r\n%2\r\n")
            .replace("*6\r\n", "%3\r\n")
            .replace("*1\r\n+", "~1\r\n+")
            .replace("*0\r\n", "~0\r\n")
            .replace("$-1\r\n", "_\r\n");
        assert_eq!(names(&resp3), [b"r"]);
    }

    #[test]
    fn what_is_no_list_of_libraries_tells_nothing() {
        for reply in
            ["-ERR x\r\n", "*0\r\n", "*1\r\n*1\r\n$9\r\nfunctions\r\n", "*1\r\n:1\r\n", "+OK\r\n"]
        {
            assert!(names(reply).is_empty(), "{reply}");
        }
    }
}
