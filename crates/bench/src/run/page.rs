//! Asks for a page of an admin listener on a unix socket, as a collector of metrics does.
//!
//! Only that: one request on a connection of its own, and the whole answer read.
//!
//! Invariant: an answer other than 200 is an error.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks for `path`.
pub(super) fn get(socket: &Path, path: &str) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    match line.starts_with(b"HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(line).into_owned())),
    }
}
