//! Where the server behind is, as a worker needs it: an address, or a name that must be resolved on each connect.
//!
//! Invariant: a name is never resolved on a worker's thread.

use config::UpstreamAddress;
use netio::Address;
use std::net::{IpAddr, SocketAddr};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAddress {
    /// Connect here.
    Fixed(Address),
    /// Ask the resolver first, each time: names move.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl From<&UpstreamAddress> for NodeAddress {
    fn from(address: &UpstreamAddress) -> Self {
        match address {
            UpstreamAddress::Unix(path) => Self::Fixed(Address::Unix(path.clone())),
            UpstreamAddress::Tcp { host, port } => match host.parse::<IpAddr>() {
                Ok(ip) => Self::Fixed(Address::Tcp(SocketAddr::new(ip, *port))),
                Err(_) => Self::Name { host: host.clone(), port: *port },
            },
        }
    }
}
