//! The servers behind: where each is, what it is called, and the shared connections to it.
//!
//! A node is known by its address as the topology tells it. Several pools may name the same address; they share the node only
//! when they log in as the same user, which is why a node belongs to one pool.
//!
//! Not here: which node a key belongs to (`topology`), the connections themselves (`upstream`).
//!
//! Invariant: a node's label is its address in words, and two live nodes of an engine never have the same one.

use crate::ids::UpstreamId;
use crate::topology::reads::Health;
use alloc::format;
use alloc::string::{String, ToString};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A TCP endpoint. The host is a name, to be resolved on each connect, or an IP address (IPv6 without brackets).
    Tcp {
        /// Name or IP address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Path of a unix socket.
    Unix(String),
}

impl Address {
    /// A TCP endpoint.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }

    /// How error texts and logs name it: `127.0.0.1:6379`, `[::1]:6379`, `/run/redis.sock`.
    pub fn label(&self) -> String {
        match self {
            Self::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port } => format!("{host}:{port}"),
            Self::Unix(path) => path.to_string(),
        }
    }
}

/// One server.
#[derive(Debug)]
pub struct Node {
    /// Which pool it belongs to.
    pub pool: u16,
    /// Where it is.
    pub address: Address,
    /// [`Address::label`], kept because error texts need it.
    pub label: String,
    /// How it is, for reads.
    pub health: Health,
    /// When it was last asked, it was giving slots to another node.
    pub gives_slots: bool,
    /// Its zone, if it told one (Valkey 8).
    pub zone: String,
    /// The shared connections of the database that clients start in, for RESP2 and RESP3: what the short path looks at.
    pub shared: [Option<UpstreamId>; 2],
}

impl Node {
    /// One without connections.
    pub fn new(pool: u16, address: Address) -> Self {
        let label = address.label();
        Self {
            pool,
            address,
            label,
            health: Health::default(),
            gives_slots: false,
            zone: String::new(),
            shared: [None; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_as_addresses_are_written() {
        assert_eq!(Address::tcp("::1", 7000).label(), "[::1]:7000");
        assert_eq!(Address::tcp("cache.example", 6379).label(), "cache.example:6379");
        assert_eq!(Address::Unix("/run/r.sock".into()).label(), "/run/r.sock");
    }
}
