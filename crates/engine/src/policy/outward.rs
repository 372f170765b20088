//! The reply to a request that was changed, as the client expects it.
//!
//! A reply is walked through once and copied, and only what stands where names stand is written anew. Replies must be whole for that; they are
//! collected as those of requests that were split (`merge`).
//!
//! Not here: which request has which (`namespace::rows`, `removal::inward`), what values are (`values`).
//!
//! Invariant: what does not have the shape that is expected becomes an error and is not shown.

use super::values::{Opened, Zstd};
use crate::glob::Matcher;
use crate::limits::{MATCH_STEPS_MIN, MATCH_STEPS_PER_BYTE};
use crate::reject;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::{ReplyScanner, Scan, encode, number};

/// Where names stand in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Nowhere.
    None,
    /// In errors only.
    Errors,
    /// The reply is one, or null.
    Name,
    /// The first element of an array.
    Head,
    /// All elements.
    Names,
    /// All elements of the second element.
    Page,
    /// The first of each pair, whether the pairs are arrays or those of a map.
    Streams,
    /// Every other element.
    Counts,
}

/// What becomes of one reply. No command tells both names and values of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outward {
    /// Names are others.
    Names(Names),
    /// Values are as they were written, with so many bytes at most.
    Values(Opened, usize),
}

impl Outward {
    /// Writes the reply as the client gets it. `left`: values may have so many bytes. Returns how many bytes that cost.
    pub(crate) fn write(
        &self,
        reply: &[u8],
        left: usize,
        zstd: &mut Zstd,
        out: &mut Vec<u8>,
    ) -> usize {
        match self {
            Self::Names(names) => {
                names.write(reply, out);
                out.len()
            }
            Self::Values(opened, room) => opened.write(reply, left.min(*room), zstd, out),
        }
    }
}

/// See [`Outward`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) rename: Rename,
    pub(crate) shape: Shape,
}

/// What a server's name becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rename {
    /// It loses what it begins with; one that begins otherwise is none of the clients'.
    Without(Arc<[u8]>),
    /// It gets this in front. With a pattern, lists hold only what matches it then.
    With(Arc<[u8]>, Option<Box<[u8]>>),
}

impl Rename {
    /// `None`: the clients are not told of it.
    fn name<'a>(&self, name: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Without(prefix) => name.strip_prefix(&**prefix).map(Cow::Borrowed),
            Self::With(prefix, _) => Some(Cow::Owned([prefix, name].concat())),
        }
    }
}

impl Names {
    /// Bytes that it holds alone beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.rename {
            Rename::With(_, pattern) => pattern.as_ref().map_or(0, |pattern| pattern.len()),
            Rename::Without(_) => 0,
        }
    }

    /// Writes the reply as the client gets it.
    pub(crate) fn write(&self, reply: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        if let Err(error) = self.write_parts(reply, out) {
            out.truncate(begin);
            reject::write(out, error);
        }
    }

    /// The same; `Err`: the reply has another shape, or takes too long, and what was written is of no use.
    pub(crate) fn write_parts(&self, reply: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        if matches!(reply.first(), Some(b'-' | b'!')) {
            self.write_error(reply, out);
            return Ok(());
        }
        if self.shape == Shape::Errors || is_null(reply) {
            out.extend_from_slice(reply);
            return Ok(());
        }
        let error = match self.rename {
            Rename::Without(_) => reject::NOT_CHANGED,
            Rename::With(..) => reject::NOT_PREFIXED,
        };
        let mut walk = Walk { rest: reply, out, rename: &self.rename, error };
        walk.all(self.shape).ok_or(walk.error)
    }

    /// `NOGROUP` quotes the key. What else a server says does not.
    fn write_error(&self, reply: &[u8], out: &mut Vec<u8>) {
        let mut rest = reply;
        if reply.starts_with(b"-NOGROUP ") {
            let (lost, added): (&[u8], &[u8]) = match &self.rename {
                Rename::Without(prefix) => (prefix, b""),
                Rename::With(prefix, _) => (b"", prefix),
            };
            for before in [&b"key '"[..], b"key name '"] {
                let quoted = [before, lost].concat();
                let found = reply.windows(quoted.len()).position(|part| part == quoted);
                if let Some(at) = found {
                    out.extend_from_slice(&reply[..at + before.len()]);
                    out.extend_from_slice(added);
                    rest = &reply[at + quoted.len()..];
                    break;
                }
            }
        }
        out.extend_from_slice(rest);
    }
}

fn is_null(reply: &[u8]) -> bool {
    reply.first() == Some(&b'_') || reply.starts_with(b"$-1") || reply.starts_with(b"*-1")
}

/// Goes through a reply and copies it.
struct Walk<'a, 'o> {
    rest: &'a [u8],
    out: &'o mut Vec<u8>,
    rename: &'a Rename,
    /// What stands for a reply that cannot be gone through.
    error: &'static str,
}

impl<'a> Walk<'a, '_> {
    /// A reply of this shape. `None`: it has another one.
    fn all(&mut self, shape: Shape) -> Option<()> {
        match shape {
            Shape::None | Shape::Errors => self.copy(),
            Shape::Name => self.name(),
            Shape::Head => {
                self.header()?;
                self.name()?;
                self.copy_all()
            }
            Shape::Names => self.names(),
            Shape::Page => {
                self.header()?;
                self.copy()?;
                self.names()
            }
            Shape::Streams => {
                let (sign, count) = self.header()?;
                for _ in 0..count {
                    if sign != b'%' {
                        self.header()?;
                    }
                    self.name()?;
                    self.copy()?;
                }
                Some(())
            }
            Shape::Counts => {
                let (sign, count) = self.header()?;
                let pairs = if sign == b'%' { count } else { count / 2 };
                for _ in 0..pairs {
                    self.name()?;
                    self.copy()?;
                }
                Some(())
            }
        }
    }

    /// The sign and the number of a line; both are copied.
    fn header(&mut self) -> Option<(u8, usize)> {
        let (sign, count, end) = self.peek()?;
        if !matches!(sign, b'*' | b'%' | b'~' | b'>') {
            return None;
        }
        self.out.extend_from_slice(&self.rest[..end]);
        self.rest = &self.rest[end..];
        Some((sign, count))
    }

    /// The sign, the number, and the length of a line.
    fn peek(&self) -> Option<(u8, usize, usize)> {
        let end = self.rest.iter().position(|byte| *byte == b'\r')?;
        let (sign, digits) = self.rest[..end].split_first()?;
        let count = usize::try_from(number::parse_i64(digits)?).ok()?;
        (self.rest.len() >= end + 2).then_some((*sign, count, end + 2))
    }

    /// The text of a bulk string, which is passed.
    fn text(&mut self) -> Option<&'a [u8]> {
        let (sign, len, head) = self.peek()?;
        let text = self.rest.get(head..head.checked_add(len)?)?;
        if sign != b'$' {
            return None;
        }
        self.rest = self.rest.get(head + len + 2..)?;
        Some(text)
    }

    /// A name, as the clients know it.
    fn name(&mut self) -> Option<()> {
        let text = self.text()?;
        encode::bulk(self.out, &self.rename.name(text)?);
        Some(())
    }

    /// A list of names. What does not belong to the clients is left out.
    fn names(&mut self) -> Option<()> {
        let (sign, count, end) = self.peek()?;
        if !matches!(sign, b'*' | b'~') {
            return None;
        }
        self.rest = &self.rest[end..];
        let mut names = Vec::with_capacity(count.min(self.rest.len() / 5));
        let mut left = MATCH_STEPS_MIN + MATCH_STEPS_PER_BYTE * self.rest.len();
        let mut asked = match self.rename {
            Rename::With(_, pattern) => pattern.as_ref().map(|pattern| Matcher::new(pattern)),
            Rename::Without(_) => None,
        };
        for _ in 0..count {
            let Some(name) = self.rename.name(self.text()?) else { continue };
            let Ok(is_asked_for) =
                asked.as_mut().map_or(Ok(true), |asked| asked.matches_within(&name, &mut left))
            else {
                self.error = reject::MATCH_TOO_LONG;
                return None;
            };
            names.extend(is_asked_for.then_some(name));
        }
        self.out.push(sign);
        self.out.extend_from_slice(alloc::string::ToString::to_string(&names.len()).as_bytes());
        self.out.extend_from_slice(b"\r\n");
        names.into_iter().for_each(|name| encode::bulk(self.out, &name));
        Some(())
    }

    /// One value as it is.
    fn copy(&mut self) -> Option<()> {
        let Ok(Scan::Complete { consumed, .. }) = ReplyScanner::default().scan(self.rest) else {
            return None;
        };
        let (value, rest) = self.rest.split_at(consumed);
        self.out.extend_from_slice(value);
        self.rest = rest;
        Some(())
    }

    fn copy_all(&mut self) -> Option<()> {
        self.out.extend_from_slice(core::mem::take(&mut self.rest));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use proptest::prelude::*;

    const SHAPES: [Shape; 8] = [
        Shape::None,
        Shape::Errors,
        Shape::Name,
        Shape::Head,
        Shape::Names,
        Shape::Page,
        Shape::Streams,
        Shape::Counts,
    ];

    fn renamed(rename: Rename, shape: Shape, reply: &[u8]) -> String {
        let mut out = Vec::new();
        Names { rename, shape }.write(reply, &mut out);
        String::from_utf8_lossy(&out).into()
    }

    fn outward(shape: Shape, reply: &[u8]) -> String {
        renamed(Rename::Without(b"t:".as_slice().into()), shape, reply)
    }

    fn with(pattern: Option<&[u8]>) -> Rename {
        Rename::With(b"t:".as_slice().into(), pattern.map(Into::into))
    }

    #[test]
    fn names_get_it_back_and_lists_hold_what_was_asked_for() {
        for (shape, pattern, reply, expected) in [
            (Shape::Name, None, "$1\r\nk\r\n", "$3\r\nt:k\r\n"),
            (Shape::Name, None, "$-1\r\n", "$-1\r\n"),
            (Shape::Head, None, "*2\r\n$0\r\n\r\n$1\r\nv\r\n", "*2\r\n$2\r\nt:\r\n$1\r\nv\r\n"),
            (Shape::Names, None, "*1\r\n$1\r\na\r\n", "*1\r\n$3\r\nt:a\r\n"),
            (Shape::Names, Some("*a"), "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*1\r\n$3\r\nt:a\r\n"),
            (Shape::Names, Some("?:b"), "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*1\r\n$3\r\nt:b\r\n"),
            (
                Shape::Page,
                Some("u*"),
                "*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n",
                "*2\r\n$1\r\n7\r\n*0\r\n",
            ),
            (
                Shape::Errors,
                None,
                "-NOGROUP No such key 's' or consumer group 'g'\r\n",
                "-NOGROUP No such key 't:s' or consumer group 'g'\r\n",
            ),
        ] {
            let pattern = pattern.map(str::as_bytes);
            assert_eq!(renamed(with(pattern), shape, reply.as_bytes()), expected);
        }
        let shown = renamed(with(None), Shape::Names, b"+OK\r\n");
        assert!(shown.starts_with("-ERR respool: ") && shown.contains("sharding.remove_prefix"));
    }

    #[test]
    fn a_pattern_that_takes_too_long_is_told() {
        let key = "a".repeat(20_000);
        let reply = format!("*20\r\n{}", format!("$20000\r\n{key}\r\n").repeat(20));
        let asked =
            |pattern: &str| renamed(with(Some(pattern.as_bytes())), Shape::Names, reply.as_bytes());
        let long = "a".repeat(10_000);
        assert_eq!(asked(&format!("*{long}b")), "*0\r\n", "its end is looked at first");
        let error = asked(&format!("*{long}b*"));
        assert!(
            error.starts_with("-ERR respool: to match the keys with this pattern takes too long")
        );
        // Few parts, or short ones, are found however long the names are.
        assert!(asked("*a*aa*a?a*[ab]a*").starts_with("*20\r\n$20002\r\nt:aaa"));
        assert_eq!(asked("t:*b*a*"), "*0\r\n");
    }

    #[test]
    fn names_lose_their_prefix_where_they_stand() {
        for (shape, reply, expected) in [
            (Shape::Head, "*2\r\n$3\r\nt:q\r\n$1\r\nv\r\n", "*2\r\n$1\r\nq\r\n$1\r\nv\r\n"),
            (Shape::Head, "*-1\r\n", "*-1\r\n"),
            (Shape::Head, "_\r\n", "_\r\n"),
            (Shape::Names, "*2\r\n$3\r\nt:a\r\n$2\r\nt:\r\n", "*2\r\n$1\r\na\r\n$0\r\n\r\n"),
            (Shape::Names, "*2\r\n$3\r\nu:a\r\n$3\r\nt:b\r\n", "*1\r\n$1\r\nb\r\n"),
            (
                Shape::Page,
                "*2\r\n$1\r\n7\r\n*1\r\n$3\r\nt:a\r\n",
                "*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n",
            ),
            (
                Shape::Streams,
                "*1\r\n*2\r\n$3\r\nt:s\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$3\r\nt:v\r\n",
                "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$3\r\nt:v\r\n",
            ),
            (Shape::Streams, "%1\r\n$3\r\nt:s\r\n*0\r\n", "%1\r\n$1\r\ns\r\n*0\r\n"),
            (Shape::Counts, "*2\r\n$3\r\nt:c\r\n:1\r\n", "*2\r\n$1\r\nc\r\n:1\r\n"),
            (
                Shape::Errors,
                "-NOGROUP No such key 't:s' or consumer group 't:g'\r\n",
                "-NOGROUP No such key 's' or consumer group 't:g'\r\n",
            ),
            (
                Shape::Errors,
                "-NOGROUP No such consumer group 'g' for key name 't:s'\r\n",
                "-NOGROUP No such consumer group 'g' for key name 's'\r\n",
            ),
            (Shape::Names, "-ERR 't:a'\r\n", "-ERR 't:a'\r\n"),
        ] {
            assert_eq!(outward(shape, reply.as_bytes()), expected);
        }
    }

    #[test]
    fn what_has_another_shape_is_not_shown() {
        for (shape, reply) in [
            (Shape::Head, "$3\r\nt:q\r\n"),
            (Shape::Head, "*2\r\n$3\r\nu:q\r\n$1\r\nv\r\n"),
            (Shape::Names, "+OK\r\n"),
            (Shape::Page, "*1\r\n$1\r\n0\r\n"),
            (Shape::Streams, "*1\r\n$3\r\nt:s\r\n"),
        ] {
            assert!(outward(shape, reply.as_bytes()).starts_with("-ERR respool: "), "{reply}");
        }
    }

    proptest! {
        /// Whatever a server says, one whole value comes of it, or an error.
        #[test]
        fn any_bytes_are_no_harm(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("*2\r\n"), Just("$3\r\nt:a\r\n"), Just("$-1\r\n"), Just(":1\r\n"), Just("*0\r\n"),
                    Just("%1\r\n"), Just("_\r\n"), Just("-NOGROUP key 't:"), Just("*99\r\n"), Just("$9\r\n"), Just("\r\n"),
                ],
                0..8,
            ),
            shape in 0..SHAPES.len(),
        ) {
            let reply: String = parts.concat();
            let shown = outward(SHAPES[shape], reply.as_bytes());
            prop_assert!(shown.len() <= reply.len() + 128);
            let shown = renamed(with(None), SHAPES[shape], reply.as_bytes());
            prop_assert!(shown.len() <= 2 * reply.len() + 160);
        }
    }
}
