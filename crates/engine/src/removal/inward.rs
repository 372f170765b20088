//! Requests on their way out: names lose the prefix.
//!
//! A request lies whole in what is sent, but for a large one that is streamed: its only key stands in its head, behind which all goes as it comes.
//!
//! Not here: their replies (`outward`).
//!
//! Invariant: for each request that is written one reply is awaited.

use super::outward::{Awaited, Replies};
use super::{Asked, Removal, Treat};
use crate::command::{self, Learned};
use crate::delimiter::word_of;
use crate::policy::namespace::{patterns_of_scan, patterns_of_sort, prefixes_of_tracking};
use crate::policy::outward::{Names, Rename, Shape};
use crate::reject;
use crate::scatter::{keys_of, row_of};
use crate::settings::Limits;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{Args, Form, RequestLimits, RequestScanner, Scan, encode, inline};

/// No server knows this command: one that gets it does nothing, and between MULTI and EXEC it remembers that something was wrong.
const REFUSED: &[u8] = b"respool-refused";

/// What is known of the request that is being written.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Its bytes from the first that is not written.
    part: Vec<u8>,
    /// Its head is written, and this finds its end.
    streams: Option<RequestScanner>,
}

/// A request in the server's words: others, if there are any, and what its reply becomes.
type Reworded<'a> = (Option<Vec<Cow<'a, [u8]>>>, Awaited);

impl Requests {
    /// Bytes that wait for more.
    pub(super) fn bytes(&self) -> usize {
        self.part.len()
    }

    /// Writes these bytes as the server is to get them.
    pub(super) fn write(
        &mut self,
        removal: &Removal,
        bytes: &[u8],
        learned: Option<&Learned>,
        out: &mut Vec<u8>,
        replies: &mut Replies,
    ) {
        let whole;
        let mut rest = match self.part.is_empty() {
            true => bytes,
            false => {
                self.part.extend_from_slice(bytes);
                whole = core::mem::take(&mut self.part);
                &whole[..]
            }
        };
        let limits = RequestLimits {
            bulk_bytes_max: Limits::default().bulk_bytes_max.max(u64::from(u32::MAX)),
            ..RequestLimits::default()
        };
        while !rest.is_empty() {
            let is_begun = self.streams.is_some();
            let mut scanner = self.streams.take().unwrap_or_default();
            match scanner.scan(rest, &limits) {
                Ok(Scan::Complete { consumed, .. }) if is_begun => {
                    out.extend_from_slice(&rest[..consumed]);
                    rest = &rest[consumed..];
                }
                Ok(Scan::Complete { consumed, frame }) => {
                    let (request, behind) = rest.split_at(consumed);
                    match frame.form {
                        Form::Inline => {
                            let words = inline::split(request).unwrap_or_default();
                            let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                            let mut request = Vec::new();
                            encode::request(&mut request, &args);
                            removal.write(&request, &args, learned, out, replies);
                        }
                        _ => {
                            let args: Vec<&[u8]> = Args::new(request).collect();
                            removal.write(request, &args, learned, out, replies);
                        }
                    }
                    rest = behind;
                }
                Ok(Scan::Partial { consumed }) => {
                    let taken = match is_begun {
                        true => {
                            out.extend_from_slice(&rest[..consumed]);
                            true
                        }
                        false => removal.write_head(&scanner, &rest[..consumed], out, replies),
                    };
                    let from = if taken { consumed } else { 0 };
                    self.streams = taken.then_some(scanner);
                    self.part = rest[from..].to_vec();
                    return;
                }
                // Only what was found to be a request is ever sent.
                Err(_) => {
                    debug_assert!(false, "what was to be sent is no request");
                    return;
                }
            }
        }
    }
}

impl Removal {
    fn name<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.strip_prefix(&*self.prefix)
    }

    fn names(&self, shape: Shape, pattern: Option<Box<[u8]>>) -> Awaited {
        match shape {
            Shape::None => Awaited::Plain,
            _ => {
                Awaited::Names(Names { rename: Rename::With(self.prefix.clone(), pattern), shape })
            }
        }
    }

    /// One whole request.
    fn write(
        &self,
        request: &[u8],
        args: &[&[u8]],
        learned: Option<&Learned>,
        out: &mut Vec<u8>,
        replies: &mut Replies,
    ) {
        if args.is_empty() {
            // A request of nothing has no reply.
            return;
        }
        match self.reworded(args, learned) {
            Ok((None, reply)) => {
                out.extend_from_slice(request);
                replies.push(reply);
            }
            Ok((Some(words), reply)) => {
                encode::array(out, words.len());
                words.iter().for_each(|word| encode::bulk(out, word));
                replies.push(reply);
            }
            Err(error) => {
                encode::request(out, &[REFUSED]);
                replies.push(refusal(&error));
            }
        }
    }

    /// The begin of a large request, if its key is in it. What is behind it goes on as it is.
    fn write_head(
        &self,
        scanner: &RequestScanner,
        begin: &[u8],
        out: &mut Vec<u8>,
        replies: &mut Replies,
    ) -> bool {
        let head: Vec<&[u8]> = scanner.head().iter().map(|span| span.of(begin)).collect();
        let Some(id) = head.first().and_then(|name| command::lookup(name)) else { return false };
        let (Some(at), Treat::Keys(shape), Some(last)) =
            (id.row().only_key_at(), self.rows[id.index()], scanner.head().last())
        else {
            return false;
        };
        let (Some(key), Some(count)) = (head.get(at), scanner.args()) else { return false };
        let mut words = head.clone();
        replies.push(match self.name(key) {
            Some(name) => {
                words[at] = name;
                self.names(shape, None)
            }
            None => {
                words[0] = REFUSED;
                refusal(reject::NOT_OF_ROUTE)
            }
        });
        encode::array(out, count as usize);
        words.iter().for_each(|word| encode::bulk(out, word));
        // Both bytes behind the last one were written with it.
        out.extend_from_slice(&begin[(last.start + last.len) as usize + 2..]);
        true
    }

    /// `Err`: why it is refused.
    fn reworded<'a>(
        &self,
        args: &[&'a [u8]],
        learned: Option<&Learned>,
    ) -> Result<Reworded<'a>, String> {
        let Some(row) = command::lookup(args[0]).map(|id| row_of(id, args)) else {
            // A command that no server knows gets the server's error, and so does a second word of respool's.
            let is_word = args.len() == 1 && word_of(args[0]).is_some();
            let is_known = !is_word && learned.is_none_or(|known| known.lookup(args[0]).is_some());
            let name = || String::from_utf8_lossy(args[0]).to_ascii_lowercase();
            return match is_known {
                true => Err(reject::not_without_prefix(&name())),
                false => Ok((None, Awaited::Plain)),
            };
        };
        let foreign = || String::from(reject::NOT_OF_ROUTE);
        match self.rows[row.index()] {
            Treat::AsIs => Ok((None, Awaited::Plain)),
            Treat::Multi => Ok((None, Awaited::Multi)),
            Treat::Exec => Ok((None, Awaited::Exec)),
            Treat::Discard => Ok((None, Awaited::Discard)),
            Treat::Tells(shape) => Ok((None, self.names(shape, None))),
            Treat::Keys(shape) => {
                let words = self.with_keys(args).ok_or_else(foreign)?;
                Ok((Some(words), self.names(shape, None)))
            }
            Treat::Sort => {
                let mut words = self.with_keys(args).ok_or_else(foreign)?;
                for at in patterns_of_sort(args) {
                    words[at] = Cow::Borrowed(self.name(args[at]).ok_or_else(foreign)?);
                }
                Ok((Some(words), Awaited::Plain))
            }
            Treat::Pattern => Ok(match args.get(1).filter(|_| args.len() == 2) {
                Some(pattern) => {
                    let (asked, left_out) = Asked::of(&self.prefix, pattern).words(pattern);
                    let words = [args[0], asked].map(Cow::Borrowed).to_vec();
                    (Some(words), self.names(Shape::Names, left_out))
                }
                None => (None, Awaited::Plain),
            }),
            Treat::Scan => Ok(self.scan(args)),
            Treat::Tracking => Ok(self.tracking(args)),
            Treat::Closed => Err(reject::not_without_prefix(row.name())),
        }
    }

    fn with_keys<'a>(&self, args: &[&'a [u8]]) -> Option<Vec<Cow<'a, [u8]>>> {
        let mut words: Vec<Cow<'a, [u8]>> = args.iter().map(|arg| Cow::Borrowed(*arg)).collect();
        for (at, key) in keys_of(args, None) {
            words[at] = Cow::Borrowed(self.name(key)?);
        }
        Some(words)
    }

    /// `SCAN cursor MATCH pattern …`: of several patterns a server takes the last.
    fn scan<'a>(&self, args: &[&'a [u8]]) -> Reworded<'a> {
        let mut words: Vec<Cow<'a, [u8]>> = args.iter().map(|arg| Cow::Borrowed(*arg)).collect();
        let mut left_out = None;
        for at in patterns_of_scan(args) {
            let (asked, rest) = Asked::of(&self.prefix, args[at]).words(args[at]);
            (words[at], left_out) = (Cow::Borrowed(asked), rest);
        }
        (Some(words), self.names(Shape::Page, left_out))
    }

    /// `CLIENT TRACKING ON BCAST PREFIX p …`: of keys that no key here begins with nothing is to be told.
    fn tracking<'a>(&self, args: &[&'a [u8]]) -> Reworded<'a> {
        let asked = prefixes_of_tracking(args);
        if asked.is_empty() {
            return (None, Awaited::Plain);
        }
        let mut words: Vec<Cow<'a, [u8]>> = Vec::with_capacity(args.len());
        for (at, arg) in args.iter().enumerate() {
            if !asked.contains(&at) && !asked.contains(&(at + 1)) {
                words.push(Cow::Borrowed(*arg));
            }
        }
        let prefixes = asked.into_iter().map(|at| args[at]);
        if !prefixes.clone().any(|prefix| self.prefix.starts_with(prefix)) {
            let own: Vec<&[u8]> = prefixes.filter_map(|prefix| self.name(prefix)).collect();
            if own.is_empty() {
                let words = alloc::vec![Cow::Borrowed(&b"PING"[..])];
                return (Some(words), Awaited::Instead(b"+OK\r\n".to_vec()));
            }
            let pairs = own.into_iter().flat_map(|prefix| [&b"PREFIX"[..], prefix]);
            words.extend(pairs.map(Cow::Borrowed));
        }
        (Some(words), Awaited::Plain)
    }
}

fn refusal(error: &str) -> Awaited {
    let mut reply = Vec::new();
    reject::write(&mut reply, error);
    Awaited::Instead(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::format;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn sent(pieces: &[&[u8]]) -> (String, VecDeque<Awaited>) {
        let removal = Removal::new(b"o:").expect("a prefix");
        let (mut requests, mut replies) = (Requests::default(), Replies::default());
        let mut out = Vec::new();
        for piece in pieces {
            requests.write(&removal, piece, None, &mut out, &mut replies);
        }
        assert_eq!(requests.bytes(), 0);
        (String::from_utf8_lossy(&out).into(), replies.awaited)
    }

    fn request(line: &str) -> Vec<u8> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut out = Vec::new();
        encode::request(&mut out, &args);
        out
    }

    #[test]
    fn keys_lose_the_prefix_wherever_they_stand() {
        for (line, expected) in [
            ("GET o:k", "GET k"),
            ("GET o:", "GET "),
            ("MSET o:a o:1 o:b 2", "MSET a o:1 b 2"),
            ("EVAL s 2 o:a o:b o:c", "EVAL s 2 a b o:c"),
            ("XREAD COUNT 2 STREAMS o:a o:b 0 0", "XREAD COUNT 2 STREAMS a b 0 0"),
            (
                "SORT o:k BY o:w_* GET # GET o:x*->f STORE o:d",
                "SORT k BY w_* GET # GET x*->f STORE d",
            ),
            ("SORT o:k BY nosort", "SORT k BY nosort"),
            ("SORT o:k GET\0x o:x* STORE\0 o:d", "SORT k GET\0x x* STORE\0 d"),
            ("XREAD STREAMS\0 o:a 0", "XREAD STREAMS\0 a 0"),
            ("SCAN 0 Match\0 o:*", "SCAN 0 Match\0 *"),
            ("OBJECT ENCODING o:k", "OBJECT ENCODING k"),
            ("KEYS o:a*", "KEYS a*"),
            ("KEYS *a", "KEYS *"),
            ("KEYS u:*", "KEYS []"),
            ("KEYS", "KEYS"),
            ("SCAN 0 MATCH o:* COUNT 5 match o:a", "SCAN 0 MATCH * COUNT 5 match a"),
            ("SCAN 0 COUNT MATCH", "SCAN 0 COUNT MATCH"),
            ("PUBLISH o:c m", "PUBLISH o:c m"),
            ("COMMAND GETKEYS GET o:k", "COMMAND GETKEYS GET o:k"),
            ("DBSIZE", "DBSIZE"),
            (
                "CLIENT TRACKING ON BCAST PREFIX o:a PREFIX u: PREFIX o:b",
                "CLIENT TRACKING ON BCAST PREFIX a PREFIX b",
            ),
            (
                "CLIENT TRACKING ON NOLOOP BCAST PREFIX o PREFIX u:",
                "CLIENT TRACKING ON NOLOOP BCAST",
            ),
            ("CLIENT TRACKING ON BCAST PREFIX u:", "PING"),
            ("CLIENT TRACKING ON BCAST", "CLIENT TRACKING ON BCAST"),
            ("CLIENT TRACKING ON REDIRECT 7 NOLOOP", "CLIENT TRACKING ON REDIRECT 7 NOLOOP"),
        ] {
            let (out, awaited) = sent(&[&request(line)]);
            assert_eq!(out, String::from_utf8_lossy(&request(expected)), "{line}");
            assert_eq!(awaited.len(), 1);
        }
    }

    #[test]
    fn what_cannot_be_changed_is_not_sent() {
        let lines = [
            "XREAD STREAMS\0 u:k 0",
            "SORT o:k STORE\0 u:d",
            "GET u:k",
            "MGET o:a b",
            "SORT o:k BY w_*",
            "FT.SEARCH i q",
            "CLUSTERSCAN 0",
        ];
        for line in lines {
            let (out, mut awaited) = sent(&[&request(line)]);
            assert_eq!(out, String::from_utf8_lossy(&request("respool-refused")), "{line}");
            let Some(Awaited::Instead(error)) = awaited.pop_front() else { panic!("{line}") };
            assert!(error.starts_with(b"-ERR respool: "), "{line}");
        }
    }

    #[test]
    fn a_large_request_is_streamed_behind_its_key() {
        let removal = Removal::new(b"o:").expect("a prefix");
        let (mut requests, mut replies) = (Requests::default(), Replies::default());
        let mut out = Vec::new();
        let value = "v".repeat(100_000);
        let whole = request(&format!("SET o:k {value} EX 7"));
        requests.write(&removal, &whole[..60_000], None, &mut out, &mut replies);
        assert!(out.len() > 59_000 && requests.bytes() == 0, "it is not kept");
        requests.write(&removal, &whole[60_000..], None, &mut out, &mut replies);
        assert!(out == request(&format!("SET k {value} EX 7")));
        requests.write(&removal, &request("GET o:k"), None, &mut out, &mut replies);
        assert!(out.ends_with(&request("GET k")));
        assert_eq!(replies.awaited.len(), 2);
        let whole = request(&format!("SET u:k {value}"));
        let (out, _) = sent(&[&whole[..60_000], &whole[60_000..]]);
        assert!(out.starts_with("*3\r\n$15\r\nrespool-refused\r\n$3\r\nu:k\r\n"));
    }

    proptest! {
        /// However requests are cut into pieces, the server gets the same, and one reply is awaited for each.
        #[test]
        fn pieces_make_no_difference(
            keys in proptest::collection::vec("[a-z]{0,12}", 1..6),
            cuts in proptest::collection::vec(0usize..200, 0..6),
        ) {
            let lines = |prefix: &str| -> Vec<u8> {
                let line = |key: &String| request(&format!("SET {prefix}{key} value-{key} KEEPTTL"));
                keys.iter().map(line).collect::<Vec<_>>().concat()
            };
            let (given, wanted) = (lines("o:"), lines(""));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % given.len()).collect();
            cuts.extend([0, given.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &given[pair[0]..pair[1]]).collect();
            let (out, awaited) = sent(&pieces);
            prop_assert_eq!(out.to_string(), String::from_utf8_lossy(&wanted).to_string());
            prop_assert_eq!(awaited.len(), keys.len());
        }
    }
}
