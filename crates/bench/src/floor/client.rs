//! One client of the floor: bytes in, replies out.
//!
//! ```text
//!   received ─▶ scanner ─▶ Replies::answer ─▶ out ─▶ one send
//!                  │ unfinished
//!                  └▶ kept   its first bytes, already scanned        rest   bytes that must be scanned (again)
//! ```
//!
//! What it is not: a socket, and no order of several clients; both are the service's.
//!
//! Invariant: however the bytes are cut, the replies are the same; and `rest` holds whole requests only while `held`.

use std::mem;

use resp::{Form, Protocol, Request, RequestError, RequestLimits, RequestScanner, Scan};
use resp::{encode, inline};

use super::limits::{KEPT_BYTES_MAX, OUT_BYTES_MAX};
use super::replies::Replies;

/// A client.
#[derive(Debug, Default)]
pub(super) struct Client {
    scanner: RequestScanner,
    limits: RequestLimits,
    protocol: Protocol,
    kept: Vec<u8>,
    rest: Vec<u8>,
    held: bool,
    failed: bool,
    /// Replies that are not sent yet.
    pub(super) out: Vec<u8>,
}

impl Client {
    /// Answers all requests that are whole now.
    #[inline]
    pub(super) fn receive(&mut self, bytes: &[u8], replies: &Replies) {
        if self.failed {
            return;
        }
        if self.rest.is_empty() {
            let taken = self.answer(bytes, replies);
            self.rest.extend_from_slice(&bytes[taken..]);
            return;
        }
        let mut rest = mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let taken = self.answer(&rest, replies);
        rest.drain(..taken);
        self.rest = rest;
    }

    /// Whether requests wait until the replies before them went out; [`Client::receive`] of nothing goes on with them.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Whether it sent what is no request; it is closed after the error that says so.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Answers what is whole in `bytes`; returns how many of them are done with.
    #[inline]
    fn answer(&mut self, bytes: &[u8], replies: &Replies) -> usize {
        self.held = false;
        let mut at = 0;
        while at < bytes.len() {
            if self.out.len() >= OUT_BYTES_MAX {
                self.held = true;
                break;
            }
            match self.scanner.scan(&bytes[at..], &self.limits) {
                Ok(Scan::Complete { consumed, frame }) => {
                    self.reply(&frame, &bytes[at..at + consumed], replies);
                    at += consumed;
                }
                Ok(Scan::Partial { consumed }) => {
                    self.keep(&bytes[at..at + consumed]);
                    return at + consumed;
                }
                Err(error) => {
                    self.fail(error);
                    return bytes.len();
                }
            }
        }
        at
    }

    /// Answers the request that ends with `piece`.
    #[inline]
    fn reply(&mut self, request: &Request, piece: &[u8], replies: &Replies) {
        if request.form == Form::Inline {
            self.reply_to_line(piece, replies);
        } else if self.kept.is_empty() {
            replies.answer(request, piece, &mut self.protocol, &mut self.out);
        } else {
            self.keep(piece);
            replies.answer(request, &self.kept, &mut self.protocol, &mut self.out);
            self.kept.clear();
        }
    }

    /// Answers a line for people (`PING\r\n`) as the array that it stands for.
    fn reply_to_line(&mut self, line: &[u8], replies: &Replies) {
        let words = match inline::split(line) {
            Ok(words) => words,
            Err(error) => return self.fail(error),
        };
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut frame = Vec::new();
        encode::request(&mut frame, &words);
        if let Ok(Scan::Complete { frame: request, .. }) =
            RequestScanner::default().scan(&frame, &self.limits)
        {
            replies.answer(&request, &frame, &mut self.protocol, &mut self.out);
        }
    }

    /// Keeps the begin of an unfinished request.
    fn keep(&mut self, piece: &[u8]) {
        let room = KEPT_BYTES_MAX.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn fail(&mut self, error: RequestError) {
        error.write_reply(&mut self.out);
        self.failed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies to `bytes` in pieces of so many.
    fn replies_to(bytes: &[u8], piece: usize) -> (Client, String) {
        let (mut client, replies) = (Client::default(), Replies::new(3));
        bytes.chunks(piece).for_each(|piece| client.receive(piece, &replies));
        let text = String::from_utf8(mem::take(&mut client.out)).unwrap();
        (client, text)
    }

    fn requests(list: &[&[&[u8]]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        list.iter().for_each(|words| encode::request(&mut bytes, words));
        bytes
    }

    #[test]
    fn any_cut_gives_the_same_replies() {
        let long = vec![b'v'; 3 * KEPT_BYTES_MAX];
        let mut bytes = requests(&[
            &[b"SET", b"key", b"value"],
            &[b"GET", b"key"],
            &[b"SET", b"key", &long],
            &[b"MGET", b"a", &long, b"c"],
        ]);
        bytes.extend_from_slice(b"*0\r\nPING\r\n\r\nget \"a key\"\r\n");
        bytes.extend(requests(&[&[b"INCR", b"n"]]));
        let expected = "+OK\r\n$3\r\nxxx\r\n+OK\r\n*3\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n$3\r\nxxx\r\n\
                        +PONG\r\n$3\r\nxxx\r\n:1\r\n";
        for piece in (1..=40).chain([97, 1000, 1023, 1024, 1025, bytes.len()]) {
            let (client, text) = replies_to(&bytes, piece);
            assert_eq!(text, expected, "pieces of {piece}");
            assert!(client.rest.is_empty() && client.kept.is_empty(), "pieces of {piece}");
        }
    }

    #[test]
    fn a_large_value_is_not_kept() {
        let long = vec![b'v'; 1 << 20];
        let bytes = requests(&[&[b"SET", b"key", &long]]);
        // All but the line break behind it, which is looked at as one.
        let (client, text) = replies_to(&bytes[..bytes.len() - 2], 4096);
        assert_eq!((text.as_str(), client.kept.len()), ("", KEPT_BYTES_MAX));
        assert!(client.rest.is_empty());
    }

    #[test]
    fn an_argument_beyond_what_is_kept_is_not_answered_wrongly() {
        let long = vec![b'v'; 2 * KEPT_BYTES_MAX];
        let bytes = requests(&[&[b"PING", &long]]);
        let (_, whole) = replies_to(&bytes, bytes.len());
        assert_eq!(whole.len(), long.len() + "$2048\r\n\r\n".len());
        let (_, cut) = replies_to(&bytes, 1500);
        assert_eq!(cut, "-ERR the floor keeps no argument as long as this one\r\n");
    }

    #[test]
    fn what_is_no_request_is_answered_and_then_nothing_is() {
        let (mut client, text) = replies_to(b"*1\r\n$4\r\nPING\r\n*1\r\n!4\r\nPING\r\n", 5);
        assert_eq!(text, "+PONG\r\n-ERR Protocol error: expected '$', got '!'\r\n");
        assert!(client.has_failed());
        client.receive(b"PING\r\n", &Replies::new(3));
        assert!(client.out.is_empty());
    }

    #[test]
    fn requests_wait_while_their_replies_are_not_read() {
        let (mut client, replies) = (Client::default(), Replies::new(100_000));
        let get: &[&[u8]] = &[b"GET", b"key"];
        let bytes = requests(&[get; 10]);
        client.receive(&bytes, &replies);
        assert!(client.is_held());
        let mut sent = 0;
        while !client.out.is_empty() {
            assert!(client.out.len() < OUT_BYTES_MAX + 100_020, "{}", client.out.len());
            sent += mem::take(&mut client.out).len();
            client.receive(&[], &replies);
        }
        assert_eq!((sent, client.is_held()), (10 * "$100000\r\n\r\n".len() + 1_000_000, false));
    }
}
