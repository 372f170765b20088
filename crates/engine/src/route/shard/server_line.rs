//! A server as the `servers:` lists of twemproxy and overlord write it: `host:port:weight [name]`.
//!
//! The point is the name, out of which a ring is made: one character off, and all keys move. Both take the name if there is
//! one. Without one overlord takes `host:port`; twemproxy does too, but leaves out port 11211 (memcached's, as libmemcached
//! does), and for a Unix socket `/path:weight` its name is the path *with* the colon behind it.
//!
//! Not here: resolving hosts, or whether the address is one at all.
//!
//! Invariant: a line that the proxy accepts gives the name that the proxy uses.

use super::{Compat, Shard};
use alloc::borrow::ToOwned;
use alloc::string::String;

/// One line of a server list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLine {
    /// `host:port`, or the path of a Unix socket.
    pub address: String,
    /// Name and weight.
    pub shard: Shard,
}

/// The port that twemproxy leaves out of names.
const PORT_LEFT_OUT: u16 = 11211;

impl ServerLine {
    /// Reads `line` by the rules of `compat`; predixy and camellia write servers otherwise and have no names, so theirs are
    /// read by twemproxy's rules.
    ///
    /// # Errors
    /// A text to show: what the line should look like, or which part of it is wrong.
    pub fn parse(compat: Compat, line: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            alloc::format!(
                "{line:?} {what}; a server is \"host:port:weight [name]\" or \"/path:weight [name]\""
            )
        };
        // The name has no space in it, so the last one separates.
        let (place, name) = match line.rsplit_once(' ') {
            Some((_, "")) => return Err(wrong("ends with a space")),
            Some((place, name)) => (place, Some(name)),
            None => (line, None),
        };
        let (address, weight) = place.rsplit_once(':').ok_or_else(|| wrong("has no weight"))?;
        let weight = number(weight)
            .filter(|weight| *weight > 0)
            .ok_or_else(|| wrong("has no weight from 1 up"))?;
        if address.is_empty() {
            return Err(wrong("has no address"));
        }
        let default_name = if address.starts_with('/') {
            &place[..=address.len()]
        } else {
            let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong("has no port"))?;
            let port =
                number(port).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
            let port = port.ok_or_else(|| wrong("has no port from 1 to 65535"))?;
            let leaves_out = !matches!(compat, Compat::Overlord);
            if port == PORT_LEFT_OUT && leaves_out { host } else { address }
        };
        let name = name.unwrap_or(default_name).to_owned();
        Ok(Self { address: address.to_owned(), shard: Shard { name, weight } })
    }
}

/// A number of digits only; Rust's own parser would let a sign pass.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(compat: Compat, line: &str) -> (String, String, u32) {
        let line = ServerLine::parse(compat, line).expect("a good line");
        (line.address, line.shard.name, line.shard.weight)
    }

    fn is(address: &str, name: &str, weight: u32) -> (String, String, u32) {
        (address.to_owned(), name.to_owned(), weight)
    }

    #[test]
    fn names() {
        let twemproxy = |line| named(Compat::Twemproxy, line);
        assert_eq!(twemproxy("10.0.0.1:6379:1"), is("10.0.0.1:6379", "10.0.0.1:6379", 1));
        assert_eq!(twemproxy("10.0.0.1:6379:7 alpha"), is("10.0.0.1:6379", "alpha", 7));
        assert_eq!(twemproxy("cache:11211:2"), is("cache:11211", "cache", 2));
        assert_eq!(twemproxy("cache:11211:2 x"), is("cache:11211", "x", 2));
        assert_eq!(twemproxy("/run/redis.sock:3"), is("/run/redis.sock", "/run/redis.sock:", 3));
        assert_eq!(twemproxy("/run/redis.sock:3 s"), is("/run/redis.sock", "s", 3));
        assert_eq!(twemproxy("::1:6379:1"), is("::1:6379", "::1:6379", 1));
        assert_eq!(named(Compat::Overlord, "cache:11211:2"), is("cache:11211", "cache:11211", 2));
    }

    #[test]
    fn refused() {
        for line in [
            "",
            "host",
            "host:1",
            "host:6379:0",
            "host:6379:-1",
            "host:6379:+1",
            "host:6379:x",
            "host:0:1",
            "host:65536:1",
            "host:p:1",
            "host:6379:1 ",
            "host:6379:1  name",
            ":1",
            "/path",
            "host:6379:99999999999",
        ] {
            let error = ServerLine::parse(Compat::Twemproxy, line).expect_err(line);
            assert!(error.contains("host:port:weight"), "{error}");
        }
    }
}
