//! Replies with values in them, as clients expect them.
//!
//! Not here: which reply has values where (`super`), what a value becomes (`stored`).
//!
//! Invariant: one value that cannot be shown makes an error of the whole reply; what stands beside it is not shown either.

use super::stored::{Fault, Form};
use super::zstd::Zstd;
use alloc::vec::Vec;
use resp::{encode, number};

/// Where values stand in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// It is one, or none.
    One,
    /// These elements of an array: `None` is none, `Some(true)` one that must be encrypted.
    Some(Vec<Option<bool>>),
    /// Each element of an array.
    All,
    /// Every other element of an array, the second one of each inner array, or the values of a map.
    Pairs,
    /// Every other element of the second element.
    Page,
}

/// What becomes of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(super) at: Where,
    pub(super) form: Form,
    /// Only values that were encrypted are shown. Not about [`Where::Some`].
    pub(super) sealed_only: bool,
}

impl Opened {
    /// Writes a reply with its values as they were written, of which all together have at most `room` bytes. Returns how many bytes that cost: all the room
    /// where it ends in an error, which may come after many values were opened.
    pub(in super::super) fn write(
        &self,
        reply: &[u8],
        room: usize,
        zstd: &mut Zstd,
        out: &mut Vec<u8>,
    ) -> usize {
        let begin = out.len();
        let end = begin.saturating_add(room);
        let mut walk = Walk { rest: reply, out, end, form: &self.form, zstd };
        if let Err(fault) = walk.whole(self) {
            out.truncate(begin);
            encode::error(out, fault.text().as_bytes());
            return room;
        }
        out.len() - begin
    }
}

/// Goes through a reply and writes it.
struct Walk<'a, 'o> {
    rest: &'a [u8],
    out: &'o mut Vec<u8>,
    /// How long `out` may become.
    end: usize,
    form: &'o Form,
    zstd: &'o mut Zstd,
}

impl<'a> Walk<'a, '_> {
    fn whole(&mut self, opened: &Opened) -> Result<(), Fault> {
        let is_list = matches!(self.rest.first(), Some(b'*' | b'%' | b'~'));
        let sealed_only = opened.sealed_only;
        match &opened.at {
            Where::One => self.value(sealed_only)?,
            // An error, or nothing.
            _ if !is_list || self.rest.starts_with(b"*-1") => self.copy()?,
            Where::Some(each) => {
                if self.header()? != (b'*', each.len()) {
                    return Err(Fault::Damaged);
                }
                for expected in each {
                    match expected {
                        Some(sealed_only) => self.value(*sealed_only)?,
                        None => self.copy()?,
                    }
                }
            }
            Where::All => {
                let (sign, count) = self.header()?;
                if sign == b'%' {
                    return Err(Fault::Damaged);
                }
                for _ in 0..count {
                    self.value(sealed_only)?;
                }
            }
            Where::Pairs => self.pairs(sealed_only)?,
            Where::Page => {
                if self.header()? != (b'*', 2) {
                    return Err(Fault::Damaged);
                }
                self.copy()?;
                self.pairs(sealed_only)?;
            }
        }
        if self.rest.is_empty() { Ok(()) } else { Err(Fault::Damaged) }
    }

    fn pairs(&mut self, sealed_only: bool) -> Result<(), Fault> {
        let (sign, count) = self.header()?;
        let is_nested = sign != b'%' && self.rest.first() == Some(&b'*') && count > 0;
        let is_flat = sign != b'%' && !is_nested;
        if is_flat && count % 2 != 0 {
            return Err(Fault::Damaged);
        }
        let pairs = if is_flat { count / 2 } else { count };
        for _ in 0..pairs {
            if is_nested && self.header()? != (b'*', 2) {
                return Err(Fault::Damaged);
            }
            self.copy()?;
            self.value(sealed_only)?;
        }
        Ok(())
    }

    /// Passes the line of a list; its sign and its number.
    fn header(&mut self) -> Result<(u8, usize), Fault> {
        let (line, rest) = self.line().ok_or(Fault::Damaged)?;
        let (sign, digits) = line.split_first().ok_or(Fault::Damaged)?;
        let count = number::parse_i64(digits).and_then(|count| usize::try_from(count).ok());
        if !matches!(sign, b'*' | b'%' | b'~') {
            return Err(Fault::Damaged);
        }
        self.out.extend_from_slice(&self.rest[..self.rest.len() - rest.len()]);
        self.rest = rest;
        Ok((*sign, count.ok_or(Fault::Damaged)?))
    }

    /// The next line without its end, and what follows.
    fn line(&self) -> Option<(&'a [u8], &'a [u8])> {
        let end = self.rest.iter().position(|byte| *byte == b'\r')?;
        Some((&self.rest[..end], self.rest.get(end + 2..)?))
    }

    /// Writes one value as it was written; what is no string goes on as it is.
    fn value(&mut self, sealed_only: bool) -> Result<(), Fault> {
        let Some(stored) = self.text() else { return self.copy() };
        let room = self.end.saturating_sub(self.out.len());
        encode::bulk(self.out, &self.form.open(stored, room, sealed_only, self.zstd)?);
        self.next().ok_or(Fault::Damaged).map(|_| ())
    }

    /// Writes one element as it is.
    fn copy(&mut self) -> Result<(), Fault> {
        let whole = self.next().ok_or(Fault::Damaged)?;
        self.out.extend_from_slice(whole);
        Ok(())
    }

    /// Passes one element.
    fn next(&mut self) -> Option<&'a [u8]> {
        let Ok(resp::Scan::Complete { consumed, .. }) =
            resp::ReplyScanner::default().scan(self.rest)
        else {
            return None;
        };
        let (whole, rest) = self.rest.split_at_checked(consumed)?;
        self.rest = rest;
        Some(whole)
    }

    /// The text of a bulk string; `None`: it is none.
    fn text(&self) -> Option<&'a [u8]> {
        let (line, rest) = self.line()?;
        let len = usize::try_from(number::parse_i64(line.strip_prefix(b"$")?)?).ok()?;
        rest.get(..len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::stored::Kept;
    use super::super::stored::tests::{form, key};
    use super::*;
    use crate::acl::Entropy;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use proptest::prelude::*;

    const SEALED: Kept = Kept { compressed: false, sealed: true };

    fn opened(at: Where, sealed_only: bool) -> Opened {
        Opened { at, form: form(10, &[key("k", 1)]), sealed_only }
    }

    fn shown(opened: &Opened, reply: &[u8]) -> String {
        let mut out = Vec::new();
        opened.write(reply, 1_000, &mut Zstd::default(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// A reply in which `{x}` stands for a bulk string of `x` as it is stored, and `x` for one that is no value.
    fn reply(text: &str, kept: Option<Kept>) -> Vec<u8> {
        let mut entropy = Entropy::new([1; 32]);
        let mut out = Vec::new();
        for word in text.split_ascii_whitespace() {
            match word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
                Some(value) => {
                    let form = form(10, &[key("k", 1)]);
                    let stored = kept.map(|kept| {
                        let stored = form.store(
                            kept,
                            value.as_bytes(),
                            Some(&mut entropy),
                            &mut Zstd::default(),
                        );
                        stored.expect("stored").into_owned()
                    });
                    encode::bulk(&mut out, &stored.unwrap_or_else(|| value.into()));
                }
                None if word.starts_with(['*', '%', '~', '_', '-', '$', ':']) => {
                    out.extend_from_slice(word.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                None => encode::bulk(&mut out, word.as_bytes()),
            }
        }
        out
    }

    #[test]
    fn values_are_opened_where_they_stand() {
        for (at, text) in [
            (Where::One, "{v}"),
            (Where::One, "$-1"),
            (Where::One, "_"),
            (Where::One, "-ERR"),
            (Where::One, ":1"),
            (Where::All, "*3 {a} $-1 {b}"),
            (Where::All, "*3 {a} _ {b}"),
            (Where::All, "*0"),
            (Where::All, "*-1"),
            (Where::All, "-WRONGTYPE"),
            (Where::Pairs, "*4 f {a} g {b}"),
            (Where::Pairs, "%2 f {a} g {b}"),
            (Where::Pairs, "*2 *2 f {a} *2 g {b}"),
            (Where::Pairs, "*0"),
            (Where::Pairs, "%0"),
            (Where::Page, "*2 17 *4 f {a} g {b}"),
            (Where::Page, "*2 0 *0"),
        ] {
            let expected = String::from_utf8(reply(text, None)).expect("text");
            let stored = reply(text, Some(SEALED));
            assert_eq!(shown(&opened(at.clone(), true), &stored), expected, "{at:?} {text}");
            assert_eq!(shown(&opened(at, false), expected.as_bytes()), expected);
        }
    }

    #[test]
    fn elements_are_read_each_by_its_key() {
        let stored = reply("*4 {a} {b} {c} $-1", Some(SEALED));
        let plain = reply("*4 {a} {b} {c} $-1", None);
        let each = vec![Some(true), Some(false), Some(true), Some(true)];
        let whole = shown(&opened(Where::Some(each), false), &stored);
        assert_eq!(whole.as_bytes(), plain);
        // One that is not meant is as it is.
        let mut marked = b"*2\r\n".to_vec();
        encode::bulk(&mut marked, b"\xffrsp\x00");
        encode::bulk(&mut marked, b"\xffrsp\x00x");
        let mut out = Vec::new();
        opened(Where::Some(vec![None, Some(false)]), true).write(
            &marked,
            99,
            &mut Zstd::default(),
            &mut out,
        );
        assert_eq!(out, b"*2\r\n$5\r\n\xffrsp\x00\r\n$1\r\nx\r\n");
        let each = vec![Some(false), None, Some(true), None];
        let refused = shown(&opened(Where::Some(each), false), &plain);
        assert_eq!(refused, format!("-{}\r\n", crate::reject::NOT_ENCRYPTED));
    }

    #[test]
    fn one_that_cannot_be_shown_makes_an_error_of_all() {
        let mut stored = reply("*4 f {a} g {b}", Some(SEALED));
        let at = stored.len() - 3;
        stored[at] ^= 1;
        let text = shown(&opened(Where::Pairs, false), &stored);
        assert_eq!(text, format!("-{}\r\n", crate::reject::not_decrypted("k")));
        let other = Opened { form: form(10, &[]), ..opened(Where::Pairs, false) };
        assert_eq!(shown(&other, &stored), format!("-{}\r\n", crate::reject::no_key("k")));
    }

    const PARTS: [&[u8]; 12] = [
        b"*2\r\n",
        b"*4\r\n",
        b"%1\r\n",
        b"$1\r\nf\r\n",
        b"$-1\r\n",
        b"_\r\n",
        b"*-1\r\n",
        b"$5\r\n\xffrsp\x00\r\n",
        b"$5\r\n\xffrsp\x02\r\n",
        b"$99\r\n",
        b"\r\n",
        b":1\r\n",
    ];

    proptest! {
        /// Whatever a server says, one whole reply comes of it, or an error.
        #[test]
        fn any_reply_is_no_harm(
            parts in proptest::collection::vec(
                proptest::sample::select(PARTS.to_vec()),
                0..8,
            ),
            at in 0..5usize,
            sealed_only in any::<bool>(),
        ) {
            let at = [
                Where::One, Where::Some(vec![Some(true), None]), Where::All, Where::Pairs, Where::Page,
            ][at].clone();
            let reply = parts.concat();
            let mut out = Vec::new();
            opened(at, sealed_only).write(&reply, 1_000, &mut Zstd::default(), &mut out);
            let whole = resp::ReplyScanner::default().scan(&out);
            let is_whole = matches!(whole, Ok(resp::Scan::Complete { consumed, .. }) if consumed == out.len());
            prop_assert!(is_whole, "{:?}", String::from_utf8_lossy(&out));
        }
    }
}
