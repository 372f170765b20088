//! A man in the middle that understands RESP and lies: it plants the faults that the
//! [`checker`](crate::checker) must catch.
//!
//! A checker that never complains proves nothing, so each of its rules is tried against a server
//! that breaks it. The faults live here, outside of the product, which has no fault code at all.
//!
//! Each connection is served in lockstep: all whole requests that are there, then all their
//! replies. That keeps a batch of pipelined requests together, which a swap needs, and makes the
//! thread simple. Blocking commands and pushes do not work through it.
//!
//! Invariant: without a mutation the bytes pass unchanged; with one, exactly the planted fault is
//! added, and [`Mutant::planted`] counts it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::frames::{Replies, RequestFrame, Requests};
use crate::ports::Port;

/// How long a thread blocks before it looks whether it shall end.
const TICK: Duration = Duration::from_millis(10);
/// How long a batch of replies may take before the connection is given up.
const REPLY_TICKS_MAX: u32 = 3_000;
/// Bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// The fault that is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// None: bytes pass unchanged.
    Nothing,
    /// Two different bulk replies to neighbouring requests of one batch change places.
    SwapReplies,
    /// A SET is answered `+OK` and never reaches the server.
    DropSet,
    /// An INCR is executed twice; the client sees the second reply.
    ReplayIncr,
    /// An APPEND is executed twice; the client sees the first reply.
    ReplayAppend,
    /// A reply is held back for ever, with the connection open.
    Hang,
}

/// A running man in the middle.
#[derive(Debug)]
pub struct Mutant {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    mutation: Mutation,
    /// Every so many-th opportunity is used.
    every: u64,
    opportunities: AtomicU64,
    planted: AtomicU64,
    stop: AtomicBool,
}

impl Mutant {
    /// Starts one in front of a TCP endpoint. Of the requests (or pairs of replies) that suit the
    /// mutation each `every`-th is taken, counted over all connections; `every` is at least 1.
    #[track_caller]
    pub fn to(target: &Endpoint, mutation: Mutation, every: u64) -> Self {
        let shared = Arc::new(Shared {
            target: target.tcp(),
            mutation,
            every: every.max(1),
            opportunities: AtomicU64::new(0),
            planted: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let listener = TcpListener::bind(Port::v4().release()).expect("a port for the mutant");
        listener.set_nonblocking(true).expect("non-blocking listener");
        let endpoint = Endpoint::Tcp(listener.local_addr().expect("address of the mutant"));
        let for_thread = Arc::clone(&shared);
        let acceptor = Some(thread::spawn(move || accept_loop(&listener, &for_thread)));
        Self { endpoint, shared, acceptor }
    }

    /// Where to connect instead of to the target.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How many faults were planted so far.
    pub fn planted(&self) -> u64 {
        self.shared.planted.load(Ordering::Acquire)
    }
}

impl Drop for Mutant {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept_loop(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stop.load(Ordering::Acquire) {
        let Ok((client, _)) = listener.accept() else {
            thread::sleep(TICK / 5);
            continue;
        };
        let shared = Arc::clone(shared);
        // An error of one connection ends that connection, as it would with a server.
        thread::spawn(move || Middle::new(client, shared).and_then(|mut middle| middle.serve()));
    }
}

/// What becomes of one request of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Forwarded; its reply is passed on.
    Pass,
    /// Not forwarded; answered `+OK`.
    Drop,
    /// Forwarded twice; the first reply is passed on if true, else the second.
    Twice(bool),
    /// Forwarded; neither its reply nor any later one is passed on.
    Hang,
}

/// One connection.
struct Middle {
    client: TcpStream,
    server: TcpStream,
    requests: Requests,
    replies: Replies,
    shared: Arc<Shared>,
    chunk: Vec<u8>,
    hung: bool,
}

impl Middle {
    fn new(client: TcpStream, shared: Arc<Shared>) -> io::Result<Self> {
        let server = TcpStream::connect_timeout(&shared.target, Duration::from_secs(5))?;
        for stream in [&client, &server] {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TICK))?;
        }
        Ok(Self {
            client,
            server,
            requests: Requests::default(),
            replies: Replies::default(),
            shared,
            chunk: vec![0; CHUNK_BYTES],
            hung: false,
        })
    }

    /// Batch after batch until one side closes or the mutant is dropped.
    fn serve(&mut self) -> io::Result<()> {
        while !self.shared.stop.load(Ordering::Acquire) {
            let Some(count) = tick_read(&mut self.client, &mut self.chunk)? else { continue };
            if count == 0 {
                return Ok(());
            }
            self.requests.push(&self.chunk[..count]);
            let mut batch = Vec::new();
            while let Some(frame) = self.requests.pop().map_err(malformed)? {
                batch.push(frame);
            }
            self.serve_batch(&batch)?;
        }
        Ok(())
    }

    fn serve_batch(&mut self, batch: &[RequestFrame]) -> io::Result<()> {
        let answered: Vec<&RequestFrame> = batch.iter().filter(|f| !f.args.is_empty()).collect();
        let fates: Vec<Fate> = answered.iter().map(|frame| self.fate(frame)).collect();
        let mut bytes = Vec::new();
        for (frame, fate) in answered.iter().zip(&fates) {
            let times = match fate {
                Fate::Drop => 0,
                Fate::Pass | Fate::Hang => 1,
                Fate::Twice(_) => 2,
            };
            (0..times).for_each(|_| bytes.extend_from_slice(&frame.raw));
        }
        self.server.write_all(&bytes)?;
        let mut replies = Vec::new();
        for fate in fates {
            let reply = match fate {
                Fate::Drop => b"+OK\r\n".to_vec(),
                Fate::Pass | Fate::Hang => self.server_reply()?,
                Fate::Twice(first) => {
                    let both = [self.server_reply()?, self.server_reply()?];
                    both[usize::from(!first)].clone()
                }
            };
            self.hung |= fate == Fate::Hang;
            replies.push(if self.hung { Vec::new() } else { reply });
        }
        self.swap_some(&mut replies);
        self.client.write_all(&replies.concat())
    }

    fn fate(&self, frame: &RequestFrame) -> Fate {
        let (name, fate): (&[u8], Fate) = match self.shared.mutation {
            Mutation::Nothing | Mutation::SwapReplies => return Fate::Pass,
            Mutation::DropSet => (b"SET", Fate::Drop),
            Mutation::ReplayIncr => (b"INCR", Fate::Twice(false)),
            Mutation::ReplayAppend => (b"APPEND", Fate::Twice(true)),
            Mutation::Hang => (b"GET", Fate::Hang),
        };
        if frame.args[0].eq_ignore_ascii_case(name) && self.take_opportunity() {
            fate
        } else {
            Fate::Pass
        }
    }

    fn swap_some(&self, replies: &mut [Vec<u8>]) {
        if self.shared.mutation != Mutation::SwapReplies {
            return;
        }
        for at in 1..replies.len() {
            let is_bulk = |reply: &[u8]| reply.starts_with(b"$") && !reply.starts_with(b"$-1");
            let (a, b) = (&replies[at - 1], &replies[at]);
            if is_bulk(a) && is_bulk(b) && a != b && self.take_opportunity() {
                replies.swap(at - 1, at);
            }
        }
    }

    /// Counts an opportunity and tells whether it is one to use.
    fn take_opportunity(&self) -> bool {
        let number = self.shared.opportunities.fetch_add(1, Ordering::AcqRel) + 1;
        let used = number.is_multiple_of(self.shared.every);
        if used {
            self.shared.planted.fetch_add(1, Ordering::AcqRel);
        }
        used
    }

    fn server_reply(&mut self) -> io::Result<Vec<u8>> {
        for _ in 0..REPLY_TICKS_MAX {
            if let Some(reply) =
                self.replies.pop().map_err(|error| malformed(error.into_bytes()))?
            {
                return Ok(reply);
            }
            if self.shared.stop.load(Ordering::Acquire) {
                break;
            }
            match tick_read(&mut self.server, &mut self.chunk)? {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(count) => self.replies.push(&self.chunk[..count]),
                None => {}
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

/// One read; `None` when nothing came within the tick.
fn tick_read(stream: &mut TcpStream, chunk: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(chunk) {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}

fn malformed(text: Vec<u8>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::Conn;
    use crate::frames::request;
    use crate::redis::RedisServer;

    /// What a client sees of `requests` through a mutant that takes every opportunity.
    fn through(mutation: Mutation, requests: &[&str]) -> (RedisServer, Vec<String>, u64) {
        let server = RedisServer::start();
        let mutant = Mutant::to(server.endpoint(), mutation, 1);
        let mut conn = Conn::to(mutant.endpoint());
        let batch: Vec<Vec<u8>> =
            requests.iter().map(|words| request(&words.split(' ').collect::<Vec<_>>())).collect();
        let replies = conn.pipeline(&batch).expect("replies");
        let text =
            replies.iter().map(|reply| String::from_utf8_lossy(reply).into_owned()).collect();
        (server, text, mutant.planted())
    }

    #[test]
    fn passes_unchanged() {
        let (_server, replies, planted) = through(Mutation::Nothing, &["SET k v", "GET k"]);
        assert_eq!(replies, ["+OK\r\n", "$1\r\nv\r\n"]);
        assert_eq!(planted, 0);
    }

    #[test]
    fn swaps_drops_and_replays() {
        let (_server, replies, planted) = through(Mutation::SwapReplies, &["ECHO a", "ECHO b"]);
        assert_eq!(replies, ["$1\r\nb\r\n", "$1\r\na\r\n"]);
        assert_eq!(planted, 1);

        let (server, replies, _) = through(Mutation::DropSet, &["SET k v"]);
        assert_eq!(replies, ["+OK\r\n"]);
        assert_eq!(server.connect().ask("GET k"), "$-1\r\n");

        let (_server, replies, _) = through(Mutation::ReplayIncr, &["INCR n"]);
        assert_eq!(replies, [":2\r\n"]);

        let (server, replies, _) = through(Mutation::ReplayAppend, &["APPEND a x"]);
        assert_eq!(replies, [":1\r\n"]);
        assert_eq!(server.connect().ask("GET a"), "$2\r\nxx\r\n");
    }

    #[test]
    fn hangs() {
        let server = RedisServer::start();
        let mutant = Mutant::to(server.endpoint(), Mutation::Hang, 1);
        let mut conn = Conn::to(mutant.endpoint());
        assert_eq!(conn.ask("PING"), "+PONG\r\n");
        conn.set_timeout(Duration::from_millis(100));
        assert_eq!(conn.command(&["GET", "k"]).expect_err("hangs").kind(), ErrorKind::TimedOut);
    }
}
