//! A blocking RESP client with deadlines: what a test holds in its hand.
//!
//! It shows replies as raw bytes, sends whatever it is told (also what is no RESP) and reports a
//! closed connection as what it is. It does not reconnect, retry or interpret.
//!
//! Invariant: no call blocks longer than the connection's timeout, with the exception of
//! [`Conn::stream`], which hands the socket out.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::endpoint::{Endpoint, Stream};
use crate::frames::{Replies, quote, request};

/// Default of [`Conn::set_timeout`]. Far above what anything takes, so that only a hang reaches it
/// on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// A connection to a server or to the proxy.
#[derive(Debug)]
pub struct Conn {
    stream: Stream,
    timeout: Duration,
    replies: Replies,
    scratch: Vec<u8>,
}

impl Conn {
    /// Connects.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn open(endpoint: &Endpoint) -> io::Result<Self> {
        Ok(Self::over(endpoint.connect()?))
    }

    /// Connects over TLS to who must have a certificate for this name.
    ///
    /// # Errors
    /// As [`Conn::open`]; what the handshake says comes with the first call.
    pub fn open_tls(
        endpoint: &Endpoint,
        config: &Arc<ClientConfig>,
        name: &str,
    ) -> io::Result<Self> {
        Self::open_tls_behind(endpoint, b"", config, name)
    }

    /// The same after these bytes in plain: a header of the PROXY protocol.
    ///
    /// # Errors
    /// As [`Conn::open_tls`].
    pub fn open_tls_behind(
        endpoint: &Endpoint,
        header: &[u8],
        config: &Arc<ClientConfig>,
        name: &str,
    ) -> io::Result<Self> {
        Ok(Self::over(endpoint.connect_tls(header, config, name)?))
    }

    fn over(stream: Stream) -> Self {
        let scratch = vec![0; READ_BYTES];
        Self { stream, timeout: TIMEOUT, replies: Replies::default(), scratch }
    }

    /// Connects, or fails the test.
    #[track_caller]
    pub fn to(endpoint: &Endpoint) -> Self {
        Self::open(endpoint).unwrap_or_else(|error| panic!("connect to {endpoint:?}: {error}"))
    }

    /// Sets how long each later call may take.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// The socket, for tests that stream without framing. Bytes already read by this value are not
    /// seen there.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the peer is gone, or does not read for the timeout.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(self.timeout)?;
        // The handshake of TLS, which comes with the first write, reads as well.
        self.stream.set_read_timeout(self.timeout)?;
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends a request without waiting for its reply.
    ///
    /// # Errors
    /// As [`Conn::send`].
    pub fn send_command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        self.send(&request(args))
    }

    /// Reads one whole reply (in RESP3 also a push) as raw bytes.
    ///
    /// # Errors
    /// `TimedOut`, `UnexpectedEof` when the peer closed before or within the reply, `InvalidData`
    /// when it is no RESP.
    pub fn reply(&mut self) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let reply =
                self.replies.pop().map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
            if let Some(reply) = reply {
                return Ok(reply);
            }
            if self.read_more(deadline)? == 0 {
                let half = quote(self.replies.rest(), 80);
                let text = format!("closed before the end of a reply: {half}");
                return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
            }
        }
    }

    /// Sends a request and reads its reply.
    ///
    /// # Errors
    /// As [`Conn::send`] and [`Conn::reply`].
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Vec<u8>> {
        self.send_command(args)?;
        self.reply()
    }

    /// [`Conn::command`] with the words of a string as arguments, failing the test on anything but
    /// a reply. The reply comes as text, with its type byte and line ends: `+OK\r\n`.
    #[track_caller]
    pub fn ask(&mut self, words: &str) -> String {
        let args: Vec<&str> = words.split_whitespace().collect();
        match self.command(&args) {
            Ok(reply) => String::from_utf8_lossy(&reply).into_owned(),
            Err(error) => panic!("{words}: {error}"),
        }
    }

    /// Sends all requests in one write, then reads as many replies. Meant for pipelines that fit
    /// the kernel's buffers; a larger one needs a thread that reads.
    ///
    /// # Errors
    /// As [`Conn::send`] and [`Conn::reply`].
    pub fn pipeline(&mut self, requests: &[Vec<u8>]) -> io::Result<Vec<Vec<u8>>> {
        self.send(&requests.concat())?;
        requests.iter().map(|_| self.reply()).collect()
    }

    /// Reads until the peer closes and returns all bytes that came before. A reset counts as a
    /// close: a server that closes with unread input in its socket resets, whatever it meant.
    ///
    /// # Errors
    /// `TimedOut` when the peer leaves the connection open.
    pub fn read_to_close(&mut self) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.timeout;
        let mut all = self.replies.take_rest();
        loop {
            match self.stream_read(deadline) {
                Ok(0) => return Ok(all),
                Ok(count) => all.extend_from_slice(&self.scratch[..count]),
                Err(error) if is_gone(&error) => return Ok(all),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether no byte comes within `limit`: for tests that say that no reply may come. `false`
    /// also if the peer closes.
    pub fn is_silent_for(&mut self, limit: Duration) -> bool {
        if !self.replies.rest().is_empty() {
            return false;
        }
        let read = self.read_more(Instant::now() + limit);
        read.is_err_and(|error| error.kind() == ErrorKind::TimedOut)
    }

    /// Bytes that were read and belong to no reply that was asked for.
    pub fn surplus(&self) -> &[u8] {
        self.replies.rest()
    }

    /// Tells the peer that nothing more will be sent; replies can still be read.
    ///
    /// # Errors
    /// When the peer is gone.
    pub fn half_close(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Closes at once: over TCP the peer sees a reset, whatever is on its way.
    ///
    /// # Panics
    /// When the system does not take the option: a failed test.
    pub fn reset(self) {
        if let Stream::Tcp(_) | Stream::Tls(_) = &self.stream {
            rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))
                .expect("SO_LINGER");
        }
    }

    /// Reads what is there, waiting for at least one byte; 0 is the end of the stream.
    fn read_more(&mut self, deadline: Instant) -> io::Result<usize> {
        let count = self.stream_read(deadline)?;
        self.replies.push(&self.scratch[..count]);
        Ok(count)
    }

    fn stream_read(&mut self, deadline: Instant) -> io::Result<usize> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            self.stream.set_read_timeout(left)?;
            match self.stream.read(&mut self.scratch) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The kernel says EAGAIN for a passed timeout; one name for it is enough.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no reply within the timeout"));
                }
                other => return other,
            }
        }
    }
}

/// Whether an error means that the peer has closed or reset the connection, and not that it is
/// slow.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server that accepts once, sends `bytes` and closes after it has seen the end of the input.
    fn speaks(bytes: &'static [u8]) -> (Endpoint, thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let endpoint = Endpoint::Tcp(listener.local_addr().expect("address"));
        let thread = thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("accept");
            peer.write_all(bytes).expect("write");
            let mut seen = Vec::new();
            peer.read_to_end(&mut seen).expect("read");
            seen
        });
        (endpoint, thread)
    }

    #[test]
    fn replies_and_end_are_told_apart() {
        let (endpoint, server) = speaks(b"+OK\r\n$3\r\nab");
        let mut conn = Conn::to(&endpoint);
        assert_eq!(conn.command(&["PING"]).expect("reply"), b"+OK\r\n");
        conn.half_close().expect("half close");
        assert_eq!(server.join().expect("server"), b"*1\r\n$4\r\nPING\r\n");
        let error = conn.reply().expect_err("half a reply");
        assert!(is_gone(&error), "{error}");
        assert_eq!(conn.read_to_close().expect("closed"), b"$3\r\nab");
    }

    #[test]
    fn a_silent_server_is_a_timeout() {
        let (endpoint, server) = speaks(b"");
        let mut conn = Conn::to(&endpoint);
        conn.set_timeout(Duration::from_millis(20));
        assert_eq!(conn.reply().expect_err("nothing comes").kind(), ErrorKind::TimedOut);
        assert!(conn.is_silent_for(Duration::from_millis(5)));
        drop(conn);
        server.join().expect("server");
    }
}
