//! Cuts a stream of bytes into whole frames, for the parts of the testkit that are sans-IO.
//!
//! Replies are kept as raw bytes, so that a test can compare what came over the wire and not an
//! interpretation of it. The scanners are those of the product: they are proved against an oracle
//! in `resp` itself, and the differential run would show a scanner that accepts too much as a
//! difference.
//!
//! Invariant: the frames given out, put together, are exactly the bytes that were pushed, without
//! gap or overlap.

use resp::{Args, ReplyScanner, RequestLimits, RequestScanner, Scan};

/// Reply frames of one connection.
#[derive(Debug, Default)]
pub struct Replies {
    pending: Pending,
    scanner: ReplyScanner,
}

impl Replies {
    /// Adds bytes that came in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.bytes.extend_from_slice(bytes);
    }

    /// The next whole reply, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// In words when the bytes are no RESP.
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self.scanner.scan(self.pending.unscanned()) {
            Ok(Scan::Complete { consumed, .. }) => Ok(Some(self.pending.take(consumed))),
            Ok(Scan::Partial { consumed }) => {
                self.pending.scanned += consumed;
                Ok(None)
            }
            Err(error) => Err(format!("{error:?} in {}", quote(self.pending.rest(), 80))),
        }
    }

    /// The bytes that belong to no whole reply yet.
    pub fn rest(&self) -> &[u8] {
        self.pending.rest()
    }

    /// Takes [`Replies::rest`] out, for a connection that has ended.
    pub fn take_rest(&mut self) -> Vec<u8> {
        self.scanner.reset();
        let unscanned = self.pending.unscanned().len();
        self.pending.take(unscanned)
    }
}

/// One request as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFrame {
    /// Its bytes.
    pub raw: Vec<u8>,
    /// Its arguments; none for an empty request, which gets no reply.
    pub args: Vec<Vec<u8>>,
}

/// Requests of one connection.
#[derive(Debug, Default)]
pub struct Requests {
    pending: Pending,
    scanner: RequestScanner,
    limits: RequestLimits,
}

impl Requests {
    /// Adds bytes that came in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.bytes.extend_from_slice(bytes);
    }

    /// The next whole request, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// The server's reply to malformed input, after which it closes the connection.
    pub fn pop(&mut self) -> Result<Option<RequestFrame>, Vec<u8>> {
        let (consumed, request) = match self.scanner.scan(self.pending.unscanned(), &self.limits) {
            Ok(Scan::Complete { consumed, frame }) => (consumed, frame),
            Ok(Scan::Partial { consumed }) => {
                self.pending.scanned += consumed;
                return Ok(None);
            }
            Err(error) => return Err(error_reply(&error)),
        };
        let raw = self.pending.take(consumed);
        let args = if request.args == 0 {
            Vec::new()
        } else if request.form == resp::Form::Inline {
            resp::inline::split(&raw).map_err(|error| error_reply(&error))?
        } else {
            Args::new(&raw).map(<[u8]>::to_vec).collect()
        };
        Ok(Some(RequestFrame { raw, args }))
    }
}

fn error_reply(error: &resp::RequestError) -> Vec<u8> {
    let mut reply = Vec::new();
    error.write_reply(&mut reply);
    reply
}

/// Bytes that came in and were not given out, with a mark how far the scanner has consumed them.
///
/// ```text
///   bytes:  [ given out | of the current frame, scanned | not scanned ]
///           0           start                           start + scanned
/// ```
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    start: usize,
    scanned: usize,
}

/// Given-out bytes at the front are dropped when they are more than this, so that a long stream
/// does not pile up and a pipeline of small frames is not moved for each of them.
const COMPACT_BYTES: usize = 64 * 1024;

impl Pending {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn unscanned(&self) -> &[u8] {
        &self.bytes[self.start + self.scanned..]
    }

    /// The current frame, which ends `consumed` bytes after the scanned ones.
    fn take(&mut self, consumed: usize) -> Vec<u8> {
        let end = self.start + self.scanned + consumed;
        let frame = self.bytes[self.start..end].to_vec();
        self.start = end;
        self.scanned = 0;
        if self.start == self.bytes.len() || self.start > COMPACT_BYTES {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        frame
    }
}

/// Bytes in a form for messages: printable ASCII as it is, the rest escaped, at most `limit` bytes
/// of them.
pub fn quote(bytes: &[u8], limit: usize) -> String {
    let shown = bytes[..bytes.len().min(limit)].escape_ascii();
    match bytes.len() {
        len if len > limit => format!("\"{shown}…\" ({len} bytes)"),
        _ => format!("\"{shown}\""),
    }
}

/// A request in wire form.
pub fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
    let mut out = Vec::with_capacity(16 + args.iter().map(|arg| arg.len() + 16).sum::<usize>());
    resp::encode::request(&mut out, &args);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_come_out_whole_however_they_are_cut() {
        let stream = b"+OK\r\n$5\r\nhello\r\n*2\r\n:1\r\n$-1\r\n%1\r\n+a\r\n_\r\n";
        for step in 1..stream.len() {
            let mut replies = Replies::default();
            let mut found = Vec::new();
            for piece in stream.chunks(step) {
                replies.push(piece);
                while let Some(reply) = replies.pop().expect("valid RESP") {
                    found.push(reply);
                }
            }
            assert_eq!(found.len(), 4, "pieces of {step}");
            assert_eq!(found.concat(), stream);
            assert!(replies.rest().is_empty());
        }
    }

    #[test]
    fn requests_come_out_with_their_arguments() {
        let mut requests = Requests::default();
        requests.push(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\r\nset \"a b\" c\r\n*1\r\n$4\r\nPI");
        let mut args = Vec::new();
        while let Some(frame) = requests.pop().expect("valid requests") {
            let words = frame.args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned());
            args.push(words.collect::<Vec<_>>());
        }
        let expected: [Vec<&str>; 3] = [vec!["GET", "k"], vec![], vec!["set", "a b", "c"]];
        assert_eq!(args, expected);
        requests.push(b"NG\r\n");
        let frame = requests.pop().expect("valid request").expect("whole");
        assert_eq!(frame.raw, b"*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn malformed_input_gives_the_servers_reply() {
        let mut requests = Requests::default();
        requests.push(b"*1\r\n:3\r\n");
        let reply = requests.pop().expect_err("a bulk was expected");
        assert_eq!(reply, b"-ERR Protocol error: expected '$', got ':'\r\n");
        let mut replies = Replies::default();
        replies.push(b"what\r\n");
        assert!(replies.pop().is_err());
    }

    #[test]
    fn long_streams_do_not_pile_up() {
        let mut replies = Replies::default();
        for _ in 0..10_000 {
            replies.push(b"+0123456789012345678901234567890123456789\r\n+half");
            assert!(replies.pop().expect("valid").is_some());
            replies.push(b"\r\n");
            assert!(replies.pop().expect("valid").is_some());
        }
        assert!(replies.pending.bytes.len() <= 2 * COMPACT_BYTES);
    }
}
