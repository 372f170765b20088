//! Networks that clients come from: what rules about addresses are made of.
//!
//! Not here: what becomes of a client that a rule concerns (`server::worker`).
//!
//! Invariant: a network has no bits behind its prefix, and one of IPv4 is never written as one of IPv6, so that addresses are compared
//! with it as they are.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// What a network looks like, for messages.
pub(crate) const NETWORK_FORMS: &str = "networks such as 10.0.0.0/8, 2001:db8::/32, single addresses, and unix for clients of unix sockets";

/// Most networks of one list.
pub(crate) const NETWORKS_MAX: usize = 1024;

/// Some of the places that clients may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The unix sockets of this machine.
    Unix,
    /// Addresses of IP.
    Ip(IpNet),
}

/// Which clients may come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRules {
    /// Those from here; empty: from anywhere.
    pub allow: Vec<Network>,
    /// But none of these.
    pub deny: Vec<Network>,
}

impl Network {
    /// Reads a network or an address.
    ///
    /// # Errors
    /// What is wrong; goes on after the text that was found.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let net = match text.parse::<IpNet>() {
            Ok(net) => net,
            Err(_) => match text.parse::<IpAddr>() {
                Ok(ip) => IpNet::from(ip),
                Err(_) => return Err(hint(text).to_owned()),
            },
        };
        if net.trunc() != net {
            return Err(format!(
                ", which has bits behind its prefix (did you mean {}?)",
                net.trunc()
            ));
        }
        Ok(Self::Ip(canonical(net)))
    }

    /// Whether a client with this address is one of it; `None`: it came over a unix socket. IPv4 addresses stand as such.
    pub fn contains(&self, ip: Option<IpAddr>) -> bool {
        match (self, ip) {
            (Self::Unix, ip) => ip.is_none(),
            (Self::Ip(net), Some(ip)) => net.contains(&ip),
            (Self::Ip(_), None) => false,
        }
    }
}

impl ClientRules {
    /// Whether a client with this address may come, see [`Network::contains`].
    pub fn admit(&self, ip: Option<IpAddr>) -> bool {
        let is_in = |networks: &[Network]| networks.iter().any(|network| network.contains(ip));
        (self.allow.is_empty() || is_in(&self.allow)) && !is_in(&self.deny)
    }
}

/// IPv4 addresses in those of IPv6 (`::ffff:10.0.0.0/104`) as IPv4.
fn canonical(net: IpNet) -> IpNet {
    let IpNet::V6(six) = net else { return net };
    let four = six.addr().to_ipv4_mapped().zip(six.prefix_len().checked_sub(96));
    four.and_then(|(ip, prefix)| Ipv4Net::new(ip, prefix).ok()).map_or(net, IpNet::V4)
}

/// What a person probably meant.
fn hint(text: &str) -> &'static str {
    match text.split_once('/') {
        Some((ip, _)) if ip.parse::<Ipv4Addr>().is_ok() => {
            ", whose prefix is no number from 0 to 32"
        }
        Some((ip, _)) if ip.parse::<Ipv6Addr>().is_ok() => {
            ", whose prefix is no number from 0 to 128"
        }
        _ if text.starts_with("unix:") => ", where unix stands for all unix sockets",
        _ if text.contains(':') && text.parse::<std::net::SocketAddr>().is_ok() => {
            ", where clients have any port"
        }
        _ => "",
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix => f.write_str("unix"),
            Self::Ip(net) if net.prefix_len() == net.max_prefix_len() => net.addr().fmt(f),
            Self::Ip(net) => net.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        Network::parse(text).unwrap_or_else(|why| panic!("{text}{why}"))
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn networks_are_read_and_shown() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::1", "::1"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("unix", "unix"),
        ] {
            assert_eq!(network(text).to_string(), shown);
            assert_eq!(network(shown), network(text));
        }
        for (text, why) in [
            ("10.0.0.1/8", "did you mean 10.0.0.0/8?"),
            ("10.0.0.0/33", "from 0 to 32"),
            ("::/129", "from 0 to 128"),
            ("unix:/run/x", "all unix sockets"),
            ("10.0.0.1:80", "any port"),
            ("10.0.0", ""),
            ("", ""),
            ("cache.example", ""),
        ] {
            let message = Network::parse(text).expect_err(text);
            assert!(
                message.contains(why) && message.is_empty() == why.is_empty(),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn who_denies_wins_and_who_allows_none_allows_all() {
        let rules = |allow: &[&str], deny: &[&str]| ClientRules {
            allow: allow.iter().map(|text| network(text)).collect(),
            deny: deny.iter().map(|text| network(text)).collect(),
        };
        let all = rules(&[], &[]);
        assert!(all.admit(ip("1.2.3.4")) && all.admit(ip("::1")) && all.admit(None));
        let some = rules(&["10.0.0.0/8", "::1"], &["10.6.0.0/16"]);
        assert!(some.admit(ip("10.5.255.255")) && some.admit(ip("::1")));
        assert!(!some.admit(ip("10.6.0.1")) && !some.admit(ip("11.0.0.0")));
        assert!(!some.admit(ip("::2")) && !some.admit(None));
        let local = rules(&["unix"], &[]);
        assert!(local.admit(None) && !local.admit(ip("127.0.0.1")));
        let remote = rules(&[], &["unix", "0.0.0.0/0"]);
        assert!(!remote.admit(None) && !remote.admit(ip("9.9.9.9")) && remote.admit(ip("::9")));
    }
}
