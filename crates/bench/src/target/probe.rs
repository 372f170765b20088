//! One request, one reply, with a deadline: for preparing the servers and proxies that were started here.
//!
//! It is no client: no login, no TLS, no unix socket, and a connection for each request. Requests are arrays, since
//! nutcracker takes no inline commands. Endpoints of others are asked by `load::ask`.
//!
//! Invariant: a call returns within about [`DEADLINE`], whatever the other side does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long one request may take. FLUSHALL of some gigabytes takes the longest.
const DEADLINE: Duration = Duration::from_secs(20);
/// What is asked of here answers with less; more is a mistake.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// Sends one request and returns the reply's text, empty for one that is no text.
///
/// # Errors
/// In words, without the address: it could not connect, it was closed, it answered an error.
pub(super) fn ask(address: SocketAddr, words: &[&str]) -> Result<String, String> {
    let deadline = Instant::now() + DEADLINE;
    let in_words = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE).map_err(in_words)?;
    stream.set_write_timeout(Some(DEADLINE)).map_err(in_words)?;
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut bytes = Vec::new();
    resp::encode::request(&mut bytes, &words);
    stream.write_all(&bytes).map_err(in_words)?;

    let mut reply = Vec::new();
    let mut chunk = [0; 4096];
    while reply.len() < REPLY_BYTES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        // A timeout of zero would mean none.
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).map_err(in_words)?;
        let len = stream.read(&mut chunk).map_err(in_words)?;
        if len == 0 {
            return Err("the connection was closed".to_owned());
        }
        reply.extend_from_slice(&chunk[..len]);
        if let Some((value, _)) = resp::value::parse(&reply).map_err(|error| error.to_string())? {
            return text(&value);
        }
    }
    Err(format!("the reply is longer than {REPLY_BYTES_MAX} bytes"))
}

fn text(value: &resp::Value<'_>) -> Result<String, String> {
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value.as_error() {
        Some(error) => Err(words(error)),
        None => Ok(value.as_text().map(words).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that answers one connection with these bytes, in two pieces.
    fn answers(reply: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let len = stream.read(&mut request).unwrap();
            assert_eq!(&request[..len], b"*1\r\n$4\r\nPING\r\n");
            let (head, tail) = reply.split_at(reply.len() / 2);
            stream.write_all(head).unwrap();
            stream.flush().unwrap();
            std::thread::sleep(Duration::from_millis(10));
            stream.write_all(tail).unwrap();
        });
        address
    }

    #[test]
    fn texts_errors_and_ends() {
        assert_eq!(ask(answers(b"+PONG\r\n"), &["PING"]).unwrap(), "PONG");
        assert_eq!(ask(answers(b"$4\r\nPONG\r\n"), &["PING"]).unwrap(), "PONG");
        assert_eq!(ask(answers(b":1\r\n"), &["PING"]).unwrap(), "");
        assert_eq!(ask(answers(b"-ERR no\r\n"), &["PING"]).unwrap_err(), "ERR no");
        assert_eq!(ask(answers(b"+PO"), &["PING"]).unwrap_err(), "the connection was closed");
        assert!(ask(answers(b"nonsense\r\n"), &["PING"]).is_err());
    }

    #[test]
    fn nobody_there() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(ask(address, &["PING"]).unwrap_err().contains("refused"));
    }
}
