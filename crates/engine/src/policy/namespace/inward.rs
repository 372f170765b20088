//! A request with the names of clients becomes one with those of the servers.
//!
//! Not here: what is refused before (`super`).
//!
//! Invariant: the number of arguments stays, but for patterns that are added; no argument changes that is no name.

use super::{Namespace, Within};
use crate::command::options::{Pattern, given, patterns};
use crate::command::{CommandId, Learned, ids};
use crate::policy::outward::Shape;
use crate::scatter::keys_of;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// A request that was changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changed<'a> {
    /// Its arguments.
    pub(crate) args: Vec<Cow<'a, [u8]>>,
    /// Where names stand in its reply.
    pub(crate) shape: Shape,
}

impl Namespace {
    /// What goes on in place of this request; `None`: the request itself.
    pub(crate) fn inward<'a>(
        &self,
        row: Option<CommandId>,
        args: &[&'a [u8]],
        learned: Option<&Learned>,
    ) -> Option<Changed<'a>> {
        let row = row?;
        let within = self.rows[row.index()];
        let mut changed: Vec<Cow<'a, [u8]>> = Vec::with_capacity(args.len() + 2);
        changed.extend(args.iter().map(|arg| Cow::Borrowed(*arg)));
        let shape = match within {
            Within::Free | Within::Whole | Within::Closed => return None,
            Within::Keys(shape) => {
                self.change_keys(args, learned, &mut changed);
                shape
            }
            Within::Sort => {
                self.change_keys(args, learned, &mut changed);
                self.change_sort(args, &mut changed);
                Shape::None
            }
            Within::Names(from, shape) => {
                let names = args.iter().enumerate().skip(from);
                // Of PUBLISH the rest is the message. No channel is left out, `__redis__:invalidate` neither: respool writes the
                // invalidations of its clients itself (`tracking`), and what is published there comes from a client.
                let count = if listens_or_counts(row) { usize::MAX } else { 1 };
                for (at, name) in names.take(count) {
                    changed[at] = self.prefixed(name);
                }
                shape
            }
            Within::Pattern(at) => {
                match args.get(at) {
                    Some(pattern) => changed[at] = self.prefixed(pattern),
                    None if row == ids::KEYS => return None,
                    None => changed.push(self.prefixed(b"*")),
                }
                Shape::Names
            }
            Within::Scan => {
                self.change_scan(args, &mut changed);
                Shape::Page
            }
            Within::Tracking => {
                self.change_prefixes(args, &mut changed);
                Shape::None
            }
        };
        Some(Changed { args: changed, shape })
    }

    /// This name as servers know it.
    pub(crate) fn prefixed<'a>(&self, name: &[u8]) -> Cow<'a, [u8]> {
        let mut whole = Vec::with_capacity(self.prefix.len() + name.len());
        whole.extend_from_slice(&self.prefix);
        whole.extend_from_slice(name);
        Cow::Owned(whole)
    }

    fn change_keys<'a>(
        &self,
        args: &[&'a [u8]],
        learned: Option<&Learned>,
        changed: &mut [Cow<'a, [u8]>],
    ) {
        for (at, key) in keys_of(args, learned) {
            changed[at] = self.prefixed(key);
        }
    }

    fn change_sort<'a>(&self, args: &[&'a [u8]], changed: &mut [Cow<'a, [u8]>]) {
        for at in patterns_of_sort(args) {
            changed[at] = self.prefixed(args[at]);
        }
    }

    /// In front of all options, so that one of the client's own wins, as the last one does, and what is wrong with them is still wrong.
    fn change_scan<'a>(&self, args: &[&'a [u8]], changed: &mut Vec<Cow<'a, [u8]>>) {
        for at in patterns_of_scan(args) {
            changed[at] = self.prefixed(args[at]);
        }
        if args.len() > 1 {
            let all = [Cow::Borrowed(&b"MATCH"[..]), self.prefixed(b"*")];
            changed.splice(2..2, all);
        }
    }

    /// `CLIENT TRACKING on … PREFIX p`. Without one all of the namespace is meant, which `tracking` knows.
    fn change_prefixes<'a>(&self, args: &[&'a [u8]], changed: &mut [Cow<'a, [u8]>]) {
        for at in prefixes_of_tracking(args) {
            changed[at] = self.prefixed(args[at]);
        }
    }
}

/// `BY` and `GET` of `SORT` name keys by patterns. Without a star it is no key: `BY nosort`, `GET #`.
pub(crate) fn patterns_of_sort(args: &[&[u8]]) -> Vec<usize> {
    let patterns = patterns(ids::SORT.row(), args.iter().copied());
    patterns.filter(Pattern::names_keys).map(|pattern| pattern.at).collect()
}

/// Where `CLIENT TRACKING` has its prefixes.
pub(crate) fn prefixes_of_tracking(args: &[&[u8]]) -> Vec<usize> {
    let options = given(ids::CLIENT_TRACKING.row(), args.iter().copied());
    options.filter(|option| option.is("prefix")).map(|option| option.value_at()).collect()
}

/// Where `SCAN` has its patterns.
pub(crate) fn patterns_of_scan(args: &[&[u8]]) -> Vec<usize> {
    let options = given(ids::SCAN.row(), args.iter().copied());
    options.filter(|option| option.is("match")).map(|option| option.value_at()).collect()
}

/// Whether all arguments from the first name on are names.
fn listens_or_counts(row: CommandId) -> bool {
    use crate::command::ids::{PUBSUB_NUMSUB, PUBSUB_SHARDNUMSUB};
    crate::pubsub::verb(row).is_some() || matches!(row, PUBSUB_NUMSUB | PUBSUB_SHARDNUMSUB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::lookup;
    use crate::scatter::row_of;
    use alloc::string::String;

    fn inward(line: &str) -> (String, Shape) {
        let namespace = Namespace::new(b"t:", false).expect("a prefix");
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let row = lookup(args[0]).map(|row| row_of(row, &args));
        match namespace.inward(row, &args, None) {
            Some(changed) => {
                let words: Vec<String> =
                    changed.args.iter().map(|arg| String::from_utf8_lossy(arg).into()).collect();
                (words.join(" "), changed.shape)
            }
            None => (line.into(), Shape::None),
        }
    }

    #[test]
    fn keys_get_the_prefix_wherever_they_stand() {
        for (line, changed) in [
            ("GET k", "GET t:k"),
            ("MSET a 1 b 2", "MSET t:a 1 t:b 2"),
            ("EVAL s 2 a b c", "EVAL s 2 t:a t:b c"),
            ("FCALL f 1 a b", "FCALL f 1 t:a b"),
            ("OBJECT ENCODING k", "OBJECT ENCODING t:k"),
            ("XREAD COUNT 2 STREAMS a b 0 0", "XREAD COUNT 2 STREAMS t:a t:b 0 0"),
            ("ZUNIONSTORE d 2 a b", "ZUNIONSTORE t:d 2 t:a t:b"),
            (
                "SORT k BY w_* GET # GET o_*->f STORE d",
                "SORT t:k BY t:w_* GET # GET t:o_*->f STORE t:d",
            ),
            ("SORT k BY nosort", "SORT t:k BY nosort"),
            ("SORT k GET\0 o_* Store\0x d", "SORT t:k GET\0 t:o_* Store\0x t:d"),
            ("XREAD Streams\0 a 0", "XREAD Streams\0 t:a 0"),
            (
                "XREADGROUP NOACK GROUP streams c STREAMS a >",
                "XREADGROUP NOACK GROUP streams c STREAMS t:a >",
            ),
            ("GEORADIUS k 1 2 3 m STORE\0 d", "GEORADIUS t:k 1 2 3 m STORE\0 t:d"),
            ("CLIENT TRACKING on BCAST Prefix\0x a", "CLIENT TRACKING on BCAST Prefix\0x t:a"),
            ("SORT_RO k GET store", "SORT_RO t:k GET store"),
            ("PUBLISH c m", "PUBLISH t:c m"),
            ("SUBSCRIBE a b", "SUBSCRIBE t:a t:b"),
            ("SUBSCRIBE __redis__:invalidate a", "SUBSCRIBE t:__redis__:invalidate t:a"),
            ("CLUSTER KEYSLOT k", "CLUSTER KEYSLOT t:k"),
            (
                "CLIENT TRACKING on BCAST PREFIX a PREFIX b",
                "CLIENT TRACKING on BCAST PREFIX t:a PREFIX t:b",
            ),
            ("CLIENT TRACKING on REDIRECT prefix", "CLIENT TRACKING on REDIRECT prefix"),
            ("COMMAND GETKEYS GET k", "COMMAND GETKEYS GET k"),
            ("PING k", "PING k"),
            ("GET", "GET"),
        ] {
            assert_eq!(inward(line).0, changed);
        }
    }

    #[test]
    fn patterns_get_it_too_and_there_is_always_one() {
        for (line, changed, shape) in [
            ("KEYS a*", "KEYS t:a*", Shape::Names),
            ("KEYS", "KEYS", Shape::None),
            ("PUBSUB CHANNELS", "PUBSUB CHANNELS t:*", Shape::Names),
            ("PUBSUB CHANNELS a?", "PUBSUB CHANNELS t:a?", Shape::Names),
            ("PUBSUB NUMSUB a b", "PUBSUB NUMSUB t:a t:b", Shape::Counts),
            ("SCAN 0", "SCAN 0 MATCH t:*", Shape::Page),
            ("SCAN 0 COUNT 5 MATCH a", "SCAN 0 MATCH t:* COUNT 5 MATCH t:a", Shape::Page),
            ("SCAN 0 COUNT MATCH", "SCAN 0 MATCH t:* COUNT MATCH", Shape::Page),
            ("SCAN 0 MATCH\0 a", "SCAN 0 MATCH t:* MATCH\0 t:a", Shape::Page),
            ("SCAN 0 TYPE match MATCH a", "SCAN 0 MATCH t:* TYPE match MATCH t:a", Shape::Page),
            ("SCAN 0 COUNT", "SCAN 0 MATCH t:* COUNT", Shape::Page),
            ("SCAN", "SCAN", Shape::Page),
        ] {
            assert_eq!(inward(line), (changed.into(), shape), "{line}");
        }
    }

    #[test]
    fn a_prefix_has_nothing_that_means_something_elsewhere() {
        for good in ["a", "team-a:", "x/y.z@1#2+3=_"] {
            assert!(Namespace::new(good.as_bytes(), false).is_ok(), "{good}");
        }
        for wrong in ["", "a*", "{a}", "a b", "a'", "[a]", "a?", "__a", "ä"] {
            assert!(Namespace::new(wrong.as_bytes(), false).is_err(), "{wrong}");
        }
        assert!(Namespace::new(&[b'a'; PREFIX + 1], false).is_err());
    }

    const PREFIX: usize = super::super::PREFIX_BYTES_MAX;
}
