//! Addresses: where clients connect, and which servers are behind the proxy.
//!
//! Parsing only: no name is resolved and no file looked at. The URL of the servers is read in `url`, because its parts
//! may be secret and everything there is written with that in mind.
//!
//! Invariant: what a type here holds can be used as it is: ports are not 0, paths fit a socket address.

mod parts;
mod url;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::secret::Secret;

pub(crate) use parts::{encode, is_host};

/// Longest path of a unix socket: `sun_path` of Linux has 108 bytes, the last of them a NUL (unix(7)).
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// The port of a Redis server when a URL names none.
pub const DEFAULT_PORT: u16 = 6379;

/// The port of a sentinel when a URL names none (`REDIS_SENTINEL_PORT` of Redis).
pub const SENTINEL_PORT: u16 = 26379;

/// Most nodes or sentinels that one URL can name. More are refused; one that lives is enough at the start, and the
/// others are found by asking it.
pub const SEEDS_MAX: usize = 256;

/// The forms of an upstream that this version takes, for messages.
pub const UPSTREAM_FORMS: &str = "redis://[user:password@]host[:port][/db], redis+unix://[user:password@]/path[?db=n], \
     redis-cluster://[user:password@]host[:port][,host[:port]…] or \
     redis-sentinel://[user:password@]host[:port][,host[:port]…]/name[?db=n&sentinel_user=…&sentinel_password=…&sentinel_tls=…]; \
     with TLS rediss://, rediss-cluster:// and rediss-sentinel://";

/// The forms of a listening address, for messages.
pub const LISTEN_FORMS: &str =
    "address:port such as 127.0.0.1:6380, [::1]:6380 or 0.0.0.0:6380, or unix:/path";

/// The form of an announced address, for messages.
pub const ANNOUNCE_FORMS: &str = "address:port such as 10.0.0.1:6380 or [2001:db8::1]:6380";

/// The servers behind the proxy, and how to log in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrl {
    /// Where it is; of a cluster, the first node to ask; with sentinels, the first of them.
    pub address: UpstreamAddress,
    /// How the servers belong together.
    pub pool: PoolKind,
    /// ACL user; `None` means the user `default`.
    pub user: Option<String>,
    /// Password of that user; `None`: no `AUTH` is sent.
    pub password: Option<Secret>,
    /// Database that a new client starts in.
    pub db: u32,
    /// Connections to the servers go over TLS; never to a unix socket.
    pub tls: bool,
}

/// How the servers behind belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PoolKind {
    /// There is one.
    #[default]
    Standalone,
    /// A Redis Cluster.
    Cluster {
        /// Nodes to ask at the start beside the first; one that lives is enough.
        more_seeds: Vec<UpstreamAddress>,
    },
    /// A primary with replicas, which sentinels watch.
    Sentinel {
        /// Sentinels to ask at the start beside the first; one that lives is enough.
        more_seeds: Vec<UpstreamAddress>,
        /// Name of the primary at the sentinels. Not empty, without control characters.
        name: String,
        /// ACL user at the sentinels; `None` means the user `default`. In a checked configuration never without a password.
        user: Option<String>,
        /// Password at the sentinels; `None`: no `AUTH` is sent to them, whatever the servers need.
        password: Option<Secret>,
        /// Connections to the sentinels go over TLS.
        tls: bool,
    },
}

/// Where the server behind the proxy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamAddress {
    /// A TCP endpoint.
    Tcp {
        /// A name, to be resolved on each connect, or an IP address (IPv6 without brackets).
        host: String,
        /// `1..=65535`.
        port: u16,
    },
    /// Path of a unix socket, at most [`UNIX_PATH_BYTES_MAX`] bytes.
    Unix(PathBuf),
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// A TCP endpoint, port `1..=65535`.
    Tcp(SocketAddr),
    /// Path of a unix socket, at most [`UNIX_PATH_BYTES_MAX`] bytes.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Reads `address:port` or `unix:/path`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/x` is how URLs write it; there is no host to lose between the slashes.
            return unix_path(path.strip_prefix("//").unwrap_or(path)).map(Self::Unix);
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 => {
                Err(format!("found `{text}`: port 0 is no fixed port; allowed: 1 to 65535"))
            }
            Ok(address) => Ok(Self::Tcp(address)),
            Err(_) => Err(format!("found `{text}`{}; allowed: {LISTEN_FORMS}", hint_listen(text))),
        }
    }

    /// Whether only this machine can connect there.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

/// Reads an address that clients are told to connect to: what means "every interface" to a listener means nothing to them, and a unix
/// socket is not reached over a network.
pub(crate) fn parse_announced(text: &str) -> Result<SocketAddr, String> {
    let found = |why: &str| format!("found `{text}`{why}; allowed: {ANNOUNCE_FORMS}");
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => Err(found(" (port 0 is no fixed port)")),
        Ok(address) if address.ip().to_canonical().is_unspecified() => Err(found(
            " (clients connect to what is announced, and that is no address to connect to: name the one of an interface)",
        )),
        Ok(address) => Ok(address),
        Err(_) if text.starts_with("unix:") || text.starts_with('/') => {
            Err(found(" (clients of a cluster connect over TCP)"))
        }
        Err(_) => Err(found(hint_listen(text))),
    }
}

impl UpstreamUrl {
    /// Every address that the URL names, in its order: the server, or the nodes or sentinels to ask first.
    pub fn addresses(&self) -> impl Iterator<Item = &UpstreamAddress> {
        let more = match &self.pool {
            PoolKind::Standalone => &[][..],
            PoolKind::Cluster { more_seeds } | PoolKind::Sentinel { more_seeds, .. } => more_seeds,
        };
        std::iter::once(&self.address).chain(more)
    }
}

impl fmt::Display for UpstreamUrl {
    /// The URL without its credentials, fit for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secured = if self.tls { "s" } else { "" };
        let pool = match &self.pool {
            PoolKind::Standalone => "",
            PoolKind::Cluster { .. } => "-cluster",
            PoolKind::Sentinel { .. } => "-sentinel",
        };
        if !pool.is_empty() {
            write!(f, "redis{secured}{pool}://{}", self.address)?;
            self.addresses().skip(1).try_for_each(|seed| write!(f, ",{seed}"))?;
        }
        match &self.pool {
            PoolKind::Standalone => {}
            PoolKind::Cluster { .. } => return Ok(()),
            PoolKind::Sentinel { name, tls, .. } => {
                write!(f, "/{}", parts::encode(name))?;
                let db = (self.db != 0).then(|| format!("db={}", self.db));
                let other = (*tls != self.tls).then(|| format!("sentinel_tls={tls}"));
                let parameters: Vec<String> = db.into_iter().chain(other).collect();
                return match parameters.is_empty() {
                    true => Ok(()),
                    false => write!(f, "?{}", parameters.join("&")),
                };
            }
        }
        match &self.address {
            UpstreamAddress::Tcp { .. } if self.db == 0 => {
                write!(f, "redis{secured}://{}", self.address)
            }
            UpstreamAddress::Tcp { .. } => {
                write!(f, "redis{secured}://{}/{}", self.address, self.db)
            }
            UpstreamAddress::Unix(_) if self.db == 0 => write!(f, "redis+{}", self.address),
            UpstreamAddress::Unix(_) => write!(f, "redis+{}?db={}", self.address, self.db),
        }
    }
}

impl UpstreamAddress {
    /// Reads an address as the server lists of other proxies have it: `host:port`, IPv6 without brackets, or a path.
    /// The text is not repeated in errors.
    pub(crate) fn from_server_line(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return unix_path(text).map(Self::Unix);
        }
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        if !parts::is_host(host) {
            return Err(parts::HOST_RULE.to_owned());
        }
        match port.parse::<u16>() {
            Ok(port) if port != 0 => Ok(Self::Tcp { host: host.to_owned(), port }),
            _ => Err("the port is not a number from 1 to 65535".to_owned()),
        }
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Checks the path of a unix socket.
fn unix_path(path: &str) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("the path of the unix socket is empty, write unix:/path".to_owned());
    }
    if path.contains('\0') {
        return Err("the path of the unix socket contains a NUL".to_owned());
    }
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err(format!(
            "the path of the unix socket has {} bytes; the system allows {UNIX_PATH_BYTES_MAX}",
            path.len()
        ));
    }
    Ok(Path::new(path).to_owned())
}

/// What a person probably meant by a listening address that is none.
fn hint_listen(text: &str) -> &'static str {
    let port_only = text.trim_start_matches(['*', ':']);
    if !port_only.is_empty() && port_only.bytes().all(|b| b.is_ascii_digit()) {
        return " (for this machine only write 127.0.0.1:PORT, for every interface 0.0.0.0:PORT or [::]:PORT)";
    }
    if text.starts_with('/') {
        return " (a unix socket is written unix:/path)";
    }
    if text.parse::<IpAddr>().is_ok() {
        return " (the port is missing)";
    }
    let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
    match host {
        "localhost" => " (write 127.0.0.1:PORT, or [::1]:PORT)",
        _ if host.contains(':') => " (an IPv6 address must stand in brackets)",
        _ if host.bytes().any(|b| b.is_ascii_alphabetic()) => {
            " (names are not resolved here, write an IP address)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses() {
        for text in ["127.0.0.1:6380", "[::1]:6380", "unix:/run/r.sock", "0.0.0.0:1", "[::]:65535"]
        {
            assert_eq!(ListenAddress::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(ListenAddress::parse("unix:///r").unwrap(), ListenAddress::Unix("/r".into()));
        for (text, local) in [
            ("127.8.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("unix:/r", true),
            ("0.0.0.0:1", false),
            ("10.0.0.1:1", false),
            ("[::]:1", false),
        ] {
            assert_eq!(ListenAddress::parse(text).unwrap().is_local(), local, "{text}");
        }
    }

    #[test]
    fn announced_addresses_are_those_that_can_be_connected_to() {
        for text in ["10.0.0.1:6380", "[2001:db8::1]:1", "127.0.0.1:65535"] {
            assert_eq!(parse_announced(text).unwrap().to_string(), text);
        }
        for (text, hint) in [
            ("0.0.0.0:6380", "no address to connect to"),
            ("[::]:6380", "no address to connect to"),
            ("[::ffff:0.0.0.0]:6380", "no address to connect to"),
            ("unix:/run/r.sock", "over TCP"),
            ("/run/r.sock", "over TCP"),
            ("10.0.0.1:0", "port 0"),
            ("cache.example:6380", "not resolved"),
            ("10.0.0.1", "port is missing"),
        ] {
            let message = parse_announced(text).unwrap_err();
            assert!(message.contains(hint) && message.ends_with(ANNOUNCE_FORMS), "{message}");
        }
    }

    #[test]
    fn listen_mistakes_get_a_hint() {
        for (text, hint) in [
            ("6380", "for this machine only"),
            (":6380", "for this machine only"),
            ("*:6380", "for this machine only"),
            ("localhost:6380", "127.0.0.1:PORT"),
            ("127.0.0.1", "port is missing"),
            ("::1:6380", "port is missing"),
            ("cache.example:6380", "not resolved"),
            ("/run/r.sock", "unix:/path"),
            ("127.0.0.1:0", "port 0"),
            ("127.0.0.1:70000", "allowed:"),
            ("unix:", "is empty"),
        ] {
            let message = ListenAddress::parse(text).unwrap_err();
            assert!(message.contains(hint), "{text}: {message}");
        }
    }
}
