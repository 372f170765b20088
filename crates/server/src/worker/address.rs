//! How a worker gets to a server that its engine names: at once, or through the resolver.
//!
//! Invariant: a name is never resolved on a worker's thread.

use super::mailbox::Name;
use engine::node;
use netio::Address;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeAddress {
    /// Connect here.
    Fixed(Address),
    /// Ask the resolver first, each time: names move.
    Name(Name),
}

impl From<&node::Address> for NodeAddress {
    fn from(address: &node::Address) -> Self {
        match address {
            node::Address::Unix(path) => Self::Fixed(Address::Unix(PathBuf::from(path))),
            node::Address::Tcp { host, port } => match host.parse::<IpAddr>() {
                Ok(ip) => Self::Fixed(Address::Tcp(SocketAddr::new(ip, *port))),
                Err(_) => Self::Name(Name { host: host.clone(), port: *port }),
            },
        }
    }
}
