//! The demo's sample load: ordinary traffic with something wrong in it, to be found with the console or `respool top`.
//!
//! Some two thousand requests in a second on a few hundred keys, of which one comes far more often than the others; every two seconds a large value
//! is read, and every five a script runs for some tens of milliseconds.
//!
//! Not here: a benchmark. That is `respool-bench`.
//!
//! Invariant: it waits for its replies, so it never has more than one batch under way; it ends by itself when the proxy does.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use config::{Listen, ListenAddress};

/// The key that comes far more often than the others.
const HOT: &str = "session:popular";
/// The key whose value is large.
const BIG: &str = "report:yearly";
/// Bytes of that value.
const BIG_BYTES: usize = 2 << 20;
/// A script that takes some tens of milliseconds.
const SLOW: &str = "EVAL \"local n = 0; for i = 1, 3000000 do n = n + i end; return redis.call('incrby', KEYS[1], n % 7)\" 1 totals";

/// Requests of a batch, and the time between two.
const BATCH: usize = 20;
const EVERY: Duration = Duration::from_millis(10);
/// Ordinary keys.
const KEYS: u64 = 300;
/// How long the proxy may take to listen.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Sends it to the first of these addresses that is one of TCP, until the proxy ends.
pub(super) fn begin(listen: &[Listen], password: Option<String>) -> io::Result<()> {
    let tcp = |entry: &Listen| match &entry.address {
        ListenAddress::Tcp(address) => Some(*address),
        ListenAddress::Unix(_) => None,
    };
    let Some(mut address) = listen.iter().find_map(tcp) else { return Ok(()) };
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    let builder = std::thread::Builder::new().name("demo-load".to_owned());
    builder.spawn(move || {
        let until = Instant::now() + CONNECT_WITHIN;
        let stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < until => std::thread::sleep(EVERY),
                Err(error) => return tracing::warn!(%error, "no sample load"),
            }
        };
        // It ends with the connection, which ends with the proxy.
        let _ = Load::new(stream).and_then(|mut load| load.run(password.as_deref()));
    })?;
    Ok(())
}

struct Load {
    stream: TcpStream,
    replies: BufReader<TcpStream>,
    random: u64,
    batches: u64,
}

impl Load {
    fn new(stream: TcpStream) -> io::Result<Self> {
        let replies = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, replies, random: 1, batches: 0 })
    }

    fn run(&mut self, password: Option<&str>) -> io::Result<()> {
        if let Some(password) = password {
            self.send(&[format!("AUTH {password}")])?;
        }
        self.send(&[
            "CLIENT SETNAME sample-load".to_owned(),
            format!("SETRANGE {BIG} {BIG_BYTES} x"),
        ])?;
        loop {
            let batch = self.batch();
            self.send(&batch)?;
            if self.batches.is_multiple_of(500) {
                // By itself: what stands behind it would look as slow.
                self.send(&[SLOW.to_owned()])?;
            }
            std::thread::sleep(EVERY);
        }
    }

    fn batch(&mut self) -> Vec<String> {
        self.batches += 1;
        let mut batch: Vec<String> = (0..BATCH).map(|_| self.request()).collect();
        if self.batches.is_multiple_of(200) {
            batch.push(format!("GET {BIG}"));
        }
        batch
    }

    fn request(&mut self) -> String {
        // A generator with a full period (Knuth's MMIX); its high bits are good enough to choose keys.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (number, chance) = ((self.random >> 33) % KEYS, (self.random >> 40) % 100);
        match chance {
            0..40 => format!("GET {HOT}"),
            40..75 => format!("GET user:{number}"),
            75..90 => format!("SET user:{number} {number}"),
            90..98 => format!("HINCRBY visits page:{number} 1"),
            // A mistake that an application makes.
            _ => "LPUSH visits x".to_owned(),
        }
    }

    /// Sends these requests, each on a line, and waits for their replies.
    fn send(&mut self, lines: &[String]) -> io::Result<()> {
        let end = format!("end-of-batch-{}", self.batches);
        let mut text = lines.join("\r\n");
        text.push_str(&format!("\r\nECHO {end}\r\n"));
        self.stream.write_all(text.as_bytes())?;
        self.read_to(format!("\r\n{end}\r\n").as_bytes())
    }

    /// Reads to this mark, which no reply before it has in it.
    fn read_to(&mut self, mark: &[u8]) -> io::Result<()> {
        let mut last: Vec<u8> = Vec::new();
        let mut some = [0; 16 << 10];
        while !last.ends_with(mark) {
            let count = self.replies.read(&mut some)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            last.extend_from_slice(&some[..count]);
            let surplus = last.len().saturating_sub(mark.len());
            last.drain(..surplus);
        }
        Ok(())
    }
}
