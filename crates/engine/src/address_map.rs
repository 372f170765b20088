//! Addresses that servers tell and that are not theirs from where we stand: behind NAT, in another network, inside containers.
//!
//! ```text
//!   CLUSTER SLOTS, MOVED, ASK, sentinels ─▶ told ─▶ AddressMap::at ─▶ where we connect
//!                                                   ├ that host and port ─▶ any address
//!                                                   └ that host          ─▶ another host, the same port
//! ```
//! Where a server names no host it means itself, so the host that it was asked at is looked up.
//!
//! Not here: addresses from the configuration. They say where to connect already and are used as they are.
//!
//! Invariant: an address is replaced once; what it becomes is not looked up again.

use crate::node::Address;
use alloc::collections::BTreeMap;
use alloc::string::String;

/// What to connect to instead of what servers tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMap {
    hosts: BTreeMap<String, Host>,
}

/// What is known of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Host {
    /// Its ports, each with what takes its place.
    ports: BTreeMap<u16, Address>,
    /// What takes the place of the host for every other port.
    any_port: Option<String>,
}

impl AddressMap {
    /// `to` takes the place of this host and port. The last word counts.
    pub fn map_address(&mut self, host: impl Into<String>, port: u16, to: Address) {
        self.hosts.entry(host.into()).or_default().ports.insert(port, to);
    }

    /// `to` takes the place of this host, with every port that has no address of its own here. The last word counts.
    pub fn map_host(&mut self, host: impl Into<String>, to: impl Into<String>) {
        self.hosts.entry(host.into()).or_default().any_port = Some(to.into());
    }

    /// Whether nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// What takes the place of `told`; `None`: it is right as it is.
    pub fn at(&self, told: &Address) -> Option<Address> {
        let Address::Tcp { host, port } = told else { return None };
        let known = self.hosts.get(host)?;
        let exact = known.ports.get(port).cloned();
        exact.or_else(|| Some(Address::tcp(known.any_port.clone()?, *port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_wins_over_its_host_and_nothing_is_replaced_twice() {
        let mut map = AddressMap::default();
        assert!(map.is_empty());
        map.map_host("10.0.0.5", "front");
        map.map_address("10.0.0.5", 7000, Address::tcp("127.0.0.1", 1));
        map.map_address("front", 7001, Address::tcp("nowhere", 2));
        map.map_address("n1", 7000, Address::Unix("/run/r.sock".into()));
        let at = |host: &str, port| map.at(&Address::tcp(host, port));
        assert_eq!(at("10.0.0.5", 7000), Some(Address::tcp("127.0.0.1", 1)));
        assert_eq!(at("10.0.0.5", 7001), Some(Address::tcp("front", 7001)));
        assert_eq!(at("n1", 7000), Some(Address::Unix("/run/r.sock".into())));
        for (host, port) in [("n1", 7001), ("10.0.0.50", 7000), ("front", 7000), ("", 7000)] {
            assert_eq!(at(host, port), None, "{host}:{port}");
        }
        assert_eq!(map.at(&Address::Unix("10.0.0.5".into())), None);
        assert!(!map.is_empty());
    }
}
