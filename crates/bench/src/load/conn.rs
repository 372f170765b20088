//! One connection of a running load: bytes out, replies in, and which request each reply belongs to.
//!
//! ```text
//!   requests ─► (out: what the socket did not take) ─► socket ─► reads of up to 64 KiB ─► scanner ─► sent.pop
//!                                                               └► tail: an unfinished line, kept for the next read
//! ```
//!
//! A server answers in order, so a FIFO says whose reply it is. Every reply is looked at: an error ends the load. What
//! is to be sent and when is not decided here.
//!
//! Invariant: `sent` holds exactly the requests whose bytes were handed to [`Conn::send`] and whose reply has not been
//! told yet. In the steady state nothing is allocated.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use resp::{ReplyScanner, Scan, Value, value};

use super::stream::Stream;

/// Bytes read at once, into a buffer that all connections of a thread share.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// Longest piece of an error's text that is waited for and shown. Redis' own stay below 1 KiB.
const ERROR_BYTES_MAX: usize = 4 * 1024;

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// From when on its latency counts.
    pub(super) since_ns: u64,
    /// Its number in the mix.
    pub(super) request: u32,
}

/// Why a connection cannot go on.
#[derive(Debug)]
pub(super) enum Fault {
    /// The peer closed it.
    Closed,
    /// The operating system says so.
    Io(io::Error),
    /// An error reply to this request.
    Error { request: Option<u32>, text: String },
    /// What came is no RESP, or nobody asked for it.
    Protocol(String),
}

/// What the reply that is being read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Null,
    Other,
    /// A push of RESP3 belongs to no request.
    Push,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    stream: Stream,
    scanner: ReplyScanner,
    reply: Reply,
    tail: Vec<u8>,
    out: Vec<u8>,
    out_at: usize,
    /// The requests in flight, oldest first.
    pub(super) sent: VecDeque<Sent>,
}

impl Conn {
    /// Around a stream that does not block, with room for so many requests in flight.
    pub(super) fn new(stream: Stream, in_flight_max: usize) -> Self {
        Self {
            stream,
            scanner: ReplyScanner::default(),
            reply: Reply::Other,
            tail: Vec::new(),
            out: Vec::new(),
            out_at: 0,
            sent: VecDeque::with_capacity(in_flight_max),
        }
    }

    /// The stream, to register its socket.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Sends bytes, or keeps what the socket does not take.
    #[inline]
    pub(super) fn send(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while self.out.is_empty() && !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or(&[]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::Io(error)),
            }
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Sends what was kept, as far as it goes.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        match self.try_flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(Fault::Io(error)),
            _ => Ok(()),
        }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        self.stream.flush()?;
        while let Some(kept @ [_, ..]) = self.out.get(self.out_at..) {
            self.out_at += self.stream.write(kept)?;
        }
        self.out.clear();
        self.out_at = 0;
        Ok(())
    }

    /// Whether bytes wait for the socket.
    #[inline]
    pub(super) fn wants_write(&self) -> bool {
        !self.out.is_empty() || self.stream.wants_write()
    }

    /// Reads at most `bytes_max`, and tells each request whose reply is complete and whether that was a null. Returns
    /// the number of bytes read. `buffer` has [`READ_BYTES`] and holds nothing afterwards that is needed again.
    #[inline]
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        bytes_max: usize,
        mut on: impl FnMut(Sent, bool),
    ) -> Result<usize, Fault> {
        let mut total = 0;
        while total < bytes_max {
            let kept = self.tail.len();
            let end = buffer.len().min(kept.saturating_add(bytes_max - total));
            let (front, back) = buffer.split_at_mut(kept.min(end));
            front.copy_from_slice(&self.tail);
            let read = match self.stream.read(back.get_mut(..end - kept).unwrap_or_default()) {
                Ok(0) => return Err(Fault::Closed),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(Fault::Closed);
                }
                Err(error) => return Err(Fault::Io(error)),
            };
            self.tail.clear();
            total += read;
            self.parse(buffer.get(..kept + read).unwrap_or_default(), &mut on)?;
            // A plain socket says by itself when there is more; asking again would be one call in vain.
            if !self.stream.may_hold_more() {
                break;
            }
        }
        Ok(total)
    }

    #[inline]
    fn parse(&mut self, mut rest: &[u8], on: &mut impl FnMut(Sent, bool)) -> Result<(), Fault> {
        while let Some(&first) = rest.first() {
            if self.scanner.is_fresh() {
                self.reply = match first {
                    b'-' | b'!' => match error_text(rest) {
                        Some(text) => return Err(self.error_reply(text)),
                        // The scanner would swallow the text; the tail keeps it until it is whole.
                        None => break,
                    },
                    b'$' | b'*' if rest.get(1) == Some(&b'-') => Reply::Null,
                    b'_' => Reply::Null,
                    b'>' => Reply::Push,
                    // No server sends them unasked. Behind one an error would pass unseen.
                    b'|' => return Err(Fault::Protocol("it sends attributes of RESP3".to_owned())),
                    _ => Reply::Other,
                };
            }
            match self.scanner.scan(rest) {
                Ok(Scan::Complete { consumed, .. }) => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    self.answered(on)?;
                }
                Ok(Scan::Partial { consumed }) => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    break;
                }
                Err(error) => {
                    return Err(Fault::Protocol(format!("what it sends is no RESP: {error}")));
                }
            }
        }
        self.tail.extend_from_slice(rest);
        Ok(())
    }

    #[inline]
    fn answered(&mut self, on: &mut impl FnMut(Sent, bool)) -> Result<(), Fault> {
        if self.reply == Reply::Push {
            return Ok(());
        }
        let Some(sent) = self.sent.pop_front() else {
            return Err(Fault::Protocol(
                "it sends more replies than it was sent requests".to_owned(),
            ));
        };
        on(sent, self.reply == Reply::Null);
        Ok(())
    }

    fn error_reply(&self, text: String) -> Fault {
        Fault::Error { request: self.sent.front().map(|sent| sent.request), text }
    }
}

/// The text of an error that stands at the beginning of `bytes`; `None` while more of it is to come.
fn error_text(bytes: &[u8]) -> Option<String> {
    let text = match value::parse(bytes) {
        Ok(Some((Value::Error(text) | Value::BulkError(text), _))) => text,
        Ok(None) if bytes.len() < ERROR_BYTES_MAX => return None,
        // Endless or malformed: what is there says enough.
        _ => bytes.get(1..).unwrap_or_default(),
    };
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// A connection with `in_flight` requests, and its peer.
    fn pair(in_flight: u32) -> (Conn, UnixStream) {
        let (here, peer) = UnixStream::pair().expect("socket pair");
        here.set_nonblocking(true).expect("non-blocking");
        let mut conn = Conn::new(Stream::new(here.into(), None).expect("plain"), 8);
        conn.sent.extend((0..in_flight).map(|request| Sent { since_ns: 0, request }));
        (conn, peer)
    }

    /// Feeds `bytes` in pieces of `piece` and collects (request, null).
    fn fed(bytes: &[u8], piece: usize, in_flight: u32) -> Result<Vec<(u32, bool)>, Fault> {
        let (mut conn, mut peer) = pair(in_flight);
        let (mut buffer, mut seen) = (vec![0; READ_BYTES], Vec::new());
        for piece in bytes.chunks(piece) {
            peer.write_all(piece).expect("room");
            conn.receive(&mut buffer, usize::MAX, |sent, null| seen.push((sent.request, null)))?;
        }
        Ok(seen)
    }

    #[test]
    fn any_pieces_give_the_same_replies_in_order() {
        let bytes = b"+OK\r\n$-1\r\n$3\r\na\r\n\r\n*2\r\n$-1\r\n:5\r\n>2\r\n+p\r\n+q\r\n_\r\n*-1\r\n:-1\r\n";
        for piece in 1..=bytes.len() {
            let seen = fed(bytes, piece, 7).expect("no fault");
            assert_eq!(
                seen,
                [(0, false), (1, true), (2, false), (3, false), (4, true), (5, true), (6, false)],
                "pieces of {piece}"
            );
        }
    }

    #[test]
    fn an_error_in_any_pieces_is_told_with_its_request_and_whole_text() {
        for error in ["-ERR it is broken\r\n", "!16\r\nERR it is broken\r\n"] {
            let bytes = format!("+OK\r\n:1\r\n{error}+OK\r\n");
            for piece in 1..=bytes.len() {
                match fed(bytes.as_bytes(), piece, 5) {
                    Err(Fault::Error { request: Some(2), text }) => {
                        assert_eq!(text, "ERR it is broken");
                    }
                    other => panic!("pieces of {piece}: {other:?}"),
                }
            }
        }
        let endless = format!("-{}", "x".repeat(ERROR_BYTES_MAX));
        assert!(
            matches!(fed(endless.as_bytes(), 100, 1), Err(Fault::Error { .. })),
            "an endless one too"
        );
    }

    #[test]
    fn strangers_are_faults() {
        assert!(
            matches!(fed(b"+OK\r\n+OK\r\n", 64, 1), Err(Fault::Protocol(_))),
            "one reply too many"
        );
        assert!(matches!(fed(b"HTTP/1.1 400\r\n", 64, 1), Err(Fault::Protocol(_))));
        assert!(matches!(fed(b"|1\r\n+a\r\n+b\r\n-ERR\r\n", 64, 1), Err(Fault::Protocol(_))));
        let (mut conn, peer) = pair(1);
        drop(peer);
        let fault = conn.receive(&mut vec![0; READ_BYTES], usize::MAX, |_, _| {});
        assert!(matches!(fault, Err(Fault::Closed)));
    }

    #[test]
    fn reads_stop_at_the_bytes_allowed() {
        let (mut conn, mut peer) = pair(2);
        let mut buffer = vec![0; READ_BYTES];
        peer.write_all(b"$5\r\nhello\r\n+OK\r\n").expect("room");
        let mut replies = 0;
        for bytes in [3, 3, 3, 3] {
            assert_eq!(
                conn.receive(&mut buffer, bytes, |_, _| replies += 1).expect("no fault"),
                bytes
            );
        }
        assert_eq!(replies, 1);
        assert_eq!(
            conn.receive(&mut buffer, usize::MAX, |_, _| replies += 1).expect("no fault"),
            4
        );
        assert_eq!(replies, 2);
    }

    #[test]
    fn what_the_socket_does_not_take_is_kept_and_sent_later() {
        let (mut conn, mut peer) = pair(0);
        let bytes: Vec<u8> = (0..4 << 20).map(|at: u32| at as u8).collect();
        conn.send(&bytes).expect("no fault");
        conn.send(b"end").expect("no fault");
        assert!(conn.wants_write());
        let reader = std::thread::spawn(move || {
            let mut received = vec![0; (4 << 20) + 3];
            io::Read::read_exact(&mut peer, &mut received).map(|()| received)
        });
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while conn.wants_write() && std::time::Instant::now() < until {
            conn.flush().expect("no fault");
            std::thread::yield_now();
        }
        let received = reader.join().expect("reader").expect("all bytes");
        assert!(received.starts_with(&bytes) && received.ends_with(b"end"));
    }
}
