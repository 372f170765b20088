//! A TCP relay that treats what passes through it as badly as a test tells it to.
//!
//! It is placed between the proxy and the server, or between a client and the proxy. It knows bytes
//! only; faults that need to know requests and replies are made by [`mutant`](crate::mutant).
//! Faults are switched while traffic flows, and most apply to connections that exist already.
//!
//! ```text
//!            ┌────────────── Relay ──────────────┐
//!   client ──┤ thread "up":   slice, delay, hole ├──► server
//!          ◄─┤ thread "down": the same, and cut  ├───
//!            └───────────────────────────────────┘
//! ```
//!
//! Invariant: as long as no cut or reset is asked for, both sides see exactly the bytes of the
//! other, in order.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::endpoint::Endpoint;
use crate::ports::Port;

/// How long a thread blocks in the kernel before it looks at its orders again; the delay of a
/// reset.
const TICK: Duration = Duration::from_millis(10);
/// Bytes moved at once.
const CHUNK_BYTES: usize = 32 * 1024;
/// More connections than this are refused: a bound on threads, far above what tests open.
const CONNS_MAX: usize = 512;

/// Bytes under way on a long line, per connection and direction; more are left with their sender.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What is done to the bytes. The default passes them on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Pass bytes on in pieces of one to three, each with a write of its own (both directions).
    pub slice: bool,
    /// Wait so long before each chunk is passed on (both directions).
    pub latency: Duration,
    /// Pass on so many bytes a second, per connection and direction; 0 is unlimited.
    pub bandwidth_bytes_per_s: u64,
    /// Pass nothing on and, but for one chunk, read nothing, while connections stay open (both
    /// directions).
    pub blackhole: bool,
    /// As `blackhole`, but only what clients send: replies come through.
    pub hold_requests: bool,
    /// As `blackhole`, but only what the server sends: requests come through and are executed.
    pub hold_replies: bool,
    /// As on a long line: each chunk arrives so much later, and those behind it are under way
    /// meanwhile (both directions). `latency` lets one chunk at a time under way.
    pub line_delay: Duration,
    /// The delay of each chunk differs by up to this, to both sides; the order stays.
    pub line_jitter: Duration,
    /// Reset new connections at once.
    pub refuse: bool,
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As a peer that closes (FIN).
    Close,
    /// As a peer that died (RST, by `SO_LINGER` 0).
    Reset,
}

/// A running relay.
#[derive(Debug)]
pub struct Relay {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    faults: Mutex<Faults>,
    /// Bytes from the server until the connection that carries the last of them is ended.
    cut: Mutex<Option<(u64, End)>>,
    /// Connections of an earlier epoch end; whether by reset is told by `resets`.
    epoch: AtomicU64,
    resets: AtomicBool,
    stop: AtomicBool,
    accepted: AtomicUsize,
    open: AtomicUsize,
    cuts: AtomicUsize,
    refused: AtomicUsize,
}

impl Relay {
    /// Starts a relay on a free port in front of a TCP endpoint.
    #[track_caller]
    pub fn to(target: &Endpoint) -> Self {
        let shared = Arc::new(Shared {
            target: target.tcp(),
            faults: Mutex::default(),
            cut: Mutex::default(),
            epoch: AtomicU64::new(0),
            resets: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind(Port::v4().release()).expect("a port for the relay");
        listener.set_nonblocking(true).expect("non-blocking listener");
        let endpoint = Endpoint::Tcp(listener.local_addr().expect("address of the relay"));
        let for_thread = Arc::clone(&shared);
        let acceptor = Some(thread::spawn(move || accept_loop(&listener, &for_thread)));
        Self { endpoint, shared, acceptor }
    }

    /// Where to connect instead of to the target.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Changes the faults; what the closure does not touch stays as it was.
    pub fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.shared.faults));
    }

    /// Ends all connections that exist now.
    pub fn end_all(&self, end: End) {
        self.shared.resets.store(end == End::Reset, Ordering::Relaxed);
        self.shared.epoch.fetch_add(1, Ordering::Release);
    }

    /// Lets so many more bytes come from the server, over all connections, and ends the connection
    /// that carries the last of them right behind it, be it in the middle of a reply.
    pub fn cut_after(&self, bytes: u64, end: End) {
        *lock(&self.shared.cut) = Some((bytes, end));
    }

    /// How many times [`Relay::cut_after`] has taken effect.
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::Acquire)
    }

    /// Connections accepted since the start.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Acquire)
    }

    /// Connections refused since the start.
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::Acquire)
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Acquire)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.end_all(End::Close);
        // The threads of the connections are not joined: each ends within a tick or two by the same
        // flag.
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// A test thread that panicked with the lock held has not left a half-written value: these are
/// plain data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept_loop(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stop.load(Ordering::Acquire) {
        match listener.accept() {
            Ok((client, _)) => admit(client, shared),
            Err(_) => thread::sleep(TICK / 5),
        }
    }
}

fn admit(client: TcpStream, shared: &Arc<Shared>) {
    let full = shared.open.load(Ordering::Acquire) >= CONNS_MAX;
    if full || lock(&shared.faults).refuse {
        shared.refused.fetch_add(1, Ordering::AcqRel);
        let _ = rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO));
        return;
    }
    shared.accepted.fetch_add(1, Ordering::AcqRel);
    // The client sees an accepted connection that closes when the target cannot be reached.
    let Ok(server) = TcpStream::connect_timeout(&shared.target, Duration::from_secs(5)) else {
        return;
    };
    for stream in [&client, &server] {
        let ready = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_nodelay(true))
            .and_then(|()| stream.set_read_timeout(Some(TICK)))
            .and_then(|()| stream.set_write_timeout(Some(TICK)));
        if ready.is_err() {
            return;
        }
    }
    shared.open.fetch_add(1, Ordering::AcqRel);
    let epoch = shared.epoch.load(Ordering::Acquire);
    let pair = Arc::new(Pair {
        client,
        server,
        shared: Arc::clone(shared),
        epoch,
        ended: AtomicBool::new(false),
    });
    for down in [false, true] {
        let pair = Arc::clone(&pair);
        thread::spawn(move || pump(&pair, down));
    }
}

/// The two sockets of one relayed connection. Both close when the last thread lets go of it.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    shared: Arc<Shared>,
    epoch: u64,
    ended: AtomicBool,
}

impl Pair {
    /// Marks the connection as ended, so that both threads let go of it.
    fn end(&self, end: End) {
        if end == End::Reset {
            for stream in [&self.client, &self.server] {
                let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
            }
        }
        self.ended.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        if self.shared.epoch.load(Ordering::Acquire) != self.epoch {
            let reset = self.shared.resets.load(Ordering::Relaxed);
            self.end(if reset { End::Reset } else { End::Close });
        }
        self.ended.load(Ordering::Acquire)
    }

    /// How many of `count` bytes from the server may pass, and how the connection ends if not all
    /// of them.
    fn allowance(&self, count: usize) -> (usize, Option<End>) {
        let mut cut = lock(&self.shared.cut);
        match *cut {
            Some((left, end)) if left <= count as u64 => {
                *cut = None;
                // `left` is at most `count`, so it fits.
                (left as usize, Some(end))
            }
            Some((left, end)) => {
                *cut = Some((left - count as u64, end));
                (count, None)
            }
            None => (count, None),
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Moves bytes in one direction until the connection is over.
fn pump(pair: &Pair, down: bool) {
    let (mut from, to) =
        if down { (&pair.server, &pair.client) } else { (&pair.client, &pair.server) };
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut line = Line::default();
    while !pair.is_over() {
        if !line.deliver(pair, to, down) {
            return;
        }
        if line.bytes >= LINE_BYTES_MAX {
            thread::sleep(TICK / 5);
            continue;
        }
        let count = match from.read(&mut chunk) {
            Ok(0) => {
                // A half close is passed on as one; the other direction goes on.
                line.drain(pair, to, down);
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(count) => count,
            Err(error) if is_tick(&error) => continue,
            Err(_) => return pair.end(End::Reset),
        };
        let (allowed, cut) = if down { pair.allowance(count) } else { (count, None) };
        let faults = *lock(&pair.shared.faults);
        if line.takes(&faults) {
            line.enter(&chunk[..allowed], &faults);
        } else if !pass_on(pair, to, &chunk[..allowed], down) {
            return;
        }
        if let Some(end) = cut {
            line.drain(pair, to, down);
            pair.end(end);
            pair.shared.cuts.fetch_add(1, Ordering::AcqRel);
            return;
        }
    }
}

/// What is under way on a long line, in one direction of one connection.
#[derive(Default)]
struct Line {
    /// When each chunk arrives; the times rise.
    chunks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// Chunks so far: the jitter goes up and down with them, the same in each run.
    entered: u32,
}

impl Line {
    /// Whether a chunk goes over the line: also behind the last one that does.
    fn takes(&self, faults: &Faults) -> bool {
        !faults.line_delay.is_zero() || !self.chunks.is_empty()
    }

    fn enter(&mut self, bytes: &[u8], faults: &Faults) {
        // 0, 4, 1, 5, 2, 6, 3 sevenths from the least to the greatest delay: far from steady.
        let step = self.entered * 4 % 7;
        self.entered = (self.entered + 1) % 7;
        let least = faults.line_delay.saturating_sub(faults.line_jitter);
        let arrives = Instant::now() + least + faults.line_jitter * 2 * step / 7;
        let arrives = self.chunks.back().map_or(arrives, |(last, _)| arrives.max(*last));
        self.bytes += bytes.len();
        self.chunks.push_back((arrives, bytes.to_vec()));
    }

    /// Passes on what has arrived; `false` when the connection is over.
    fn deliver(&mut self, pair: &Pair, to: &TcpStream, down: bool) -> bool {
        while self.chunks.front().is_some_and(|(arrives, _)| *arrives <= Instant::now()) {
            let Some((_, bytes)) = self.chunks.pop_front() else { break };
            self.bytes -= bytes.len();
            if !pass_on(pair, to, &bytes, down) {
                return false;
            }
        }
        true
    }

    /// Waits for all that is under way, before an end.
    fn drain(&mut self, pair: &Pair, to: &TcpStream, down: bool) {
        while !self.chunks.is_empty() && self.deliver(pair, to, down) && wait(pair, TICK / 5) {}
    }
}

/// Writes with the faults that are set now; `false` when the connection is over.
fn pass_on(pair: &Pair, to: &TcpStream, bytes: &[u8], down: bool) -> bool {
    let faults = *lock(&pair.shared.faults);
    // The time that the bytes take on a slow line passes before they are there, not after.
    let micros = (bytes.len() as u64 * 1_000_000).checked_div(faults.bandwidth_bytes_per_s);
    let delay = faults.latency + Duration::from_micros(micros.unwrap_or(0));
    if !wait(pair, delay) || !leave_hole(pair, down) {
        return false;
    }
    // 1, 2, 3, 1, 2, 3 …: every split of short frames is met within a few requests.
    let mut piece_bytes = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        piece_bytes = piece_bytes % 3 + 1;
        let take = if faults.slice { piece_bytes.min(rest.len()) } else { rest.len() };
        if !write_all(pair, to, &rest[..take]) {
            return false;
        }
        rest = &rest[take..];
    }
    true
}

/// Holds bytes back as long as there is a black hole; a thread in it reads nothing more either.
fn leave_hole(pair: &Pair, down: bool) -> bool {
    let holds = |faults: Faults| {
        faults.blackhole || if down { faults.hold_replies } else { faults.hold_requests }
    };
    while holds(*lock(&pair.shared.faults)) {
        if !wait(pair, TICK) {
            return false;
        }
    }
    true
}

fn write_all(pair: &Pair, mut to: &TcpStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        if pair.is_over() {
            return false;
        }
        match to.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if is_tick(&error) => {}
            Err(_) => {
                pair.end(End::Reset);
                return false;
            }
        }
    }
    true
}

/// Waits in ticks; `false` when the connection is over meanwhile.
fn wait(pair: &Pair, duration: Duration) -> bool {
    let deadline = Instant::now() + duration;
    while !pair.is_over() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(TICK));
    }
    false
}

fn is_tick(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::{Conn, is_gone};
    use crate::redis::RedisServer;
    use crate::wait;

    fn setup() -> (RedisServer, Relay, Conn) {
        let server = RedisServer::start();
        let relay = Relay::to(server.endpoint());
        let conn = Conn::to(relay.endpoint());
        (server, relay, conn)
    }

    #[test]
    fn passes_bytes_on_whole_and_sliced() {
        let (_server, relay, mut conn) = setup();
        let value = "x".repeat(5_000);
        for slice in [false, true] {
            relay.set(|faults| faults.slice = slice);
            assert_eq!(conn.command(&["SET", "k", &value]).expect("reply"), b"+OK\r\n");
            assert_eq!(conn.ask("GET k"), format!("$5000\r\n{value}\r\n"));
        }
        assert_eq!((relay.accepted(), relay.open()), (1, 1));
        drop(conn);
        wait::until_true("the close", Duration::from_secs(10), || relay.open() == 0);
    }

    #[test]
    fn cuts_within_a_reply() {
        let (_server, relay, mut conn) = setup();
        conn.ask("SET k 0123456789");
        relay.cut_after(8, End::Reset);
        let error = conn.command(&["GET", "k"]).expect_err("cut");
        assert!(is_gone(&error), "{error}");
        assert_eq!(relay.cuts(), 1);
        // A new connection works: the cut was for once.
        assert_eq!(Conn::to(relay.endpoint()).ask("STRLEN k"), ":10\r\n");
    }

    #[test]
    fn resets_delays_and_swallows() {
        let (_server, relay, mut conn) = setup();
        relay.set(|faults| faults.latency = Duration::from_millis(40));
        let begun = Instant::now();
        conn.ask("PING");
        assert!(begun.elapsed() >= Duration::from_millis(80), "once in each direction");

        relay.set(|faults| *faults = Faults { blackhole: true, ..Faults::default() });
        conn.set_timeout(Duration::from_millis(100));
        assert_eq!(conn.command(&["PING"]).expect_err("hole").kind(), ErrorKind::TimedOut);
        relay.set(|faults| faults.blackhole = false);
        conn.set_timeout(Duration::from_secs(10));
        assert_eq!(conn.reply().expect("it was only late"), b"+PONG\r\n");

        relay.end_all(End::Reset);
        let error = conn.reply().expect_err("reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);

        relay.set(|faults| faults.refuse = true);
        let refused = Conn::open(relay.endpoint()).and_then(|mut conn| conn.command(&["PING"]));
        assert!(is_gone(&refused.expect_err("refused")));
    }

    #[test]
    fn bandwidth_is_bounded() {
        let (_server, relay, mut conn) = setup();
        let value = "x".repeat(20_000);
        relay.set(|faults| faults.bandwidth_bytes_per_s = 100_000);
        let begun = Instant::now();
        conn.command(&["ECHO", &value]).expect("reply");
        // 20 kB up and 20 kB down at 100 kB/s.
        assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    }

    #[test]
    fn one_direction_can_be_held() {
        let (server, relay, mut conn) = setup();
        conn.set_timeout(Duration::from_millis(300));
        relay.set(|faults| faults.hold_replies = true);
        assert!(conn.command(&["INCR", "n"]).is_err());
        assert_eq!(server.connect().ask("GET n"), "$1\r\n1\r\n", "it was executed");
        relay.set(|faults| faults.hold_replies = false);
        assert_eq!(conn.reply().expect("late"), b":1\r\n");
        relay.set(|faults| faults.hold_requests = true);
        assert!(conn.command(&["INCR", "n"]).is_err());
        assert_eq!(server.connect().ask("GET n"), "$1\r\n1\r\n", "it was not");
        relay.set(|faults| faults.hold_requests = false);
        assert_eq!(conn.reply().expect("late"), b":2\r\n");
    }

    #[test]
    fn a_long_line_delays_all_chunks_alike_and_keeps_their_order() {
        let (_server, relay, mut conn) = setup();
        relay.set(|faults| {
            faults.line_delay = Duration::from_millis(100);
            faults.line_jitter = Duration::from_millis(20);
        });
        let begun = Instant::now();
        for number in 0..10 {
            conn.send_command(&["ECHO", &number.to_string()]).expect("sent");
            thread::sleep(Duration::from_millis(15));
        }
        for number in 0..10 {
            assert_eq!(conn.reply().expect("reply"), format!("$1\r\n{number}\r\n").as_bytes());
        }
        // One after the other they would take two seconds.
        let took = begun.elapsed();
        assert!(
            took >= Duration::from_millis(250) && took < Duration::from_millis(1_500),
            "{took:?}"
        );
        relay.set(|faults| *faults = Faults::default());
        assert_eq!(conn.ask("PING"), "+PONG\r\n");
    }
}
