//! Free TCP ports on loopback for processes that want to be told their port.
//!
//! A port is bound here first and the socket is kept until the process is about to take it, so that
//! two tests of one run never get the same one. A moment without an owner remains between
//! [`Port::release`] and the bind of the process; whoever starts a process therefore tries again
//! with another port when it exits at once.
//!
//! Ports come from below the range that Linux gives to outgoing connections (32768–60999): a server
//! that is killed and restarted on its port would otherwise find it taken by some client's source
//! port.
//!
//! Ranges, which never mix: single ports, and pairs for cluster nodes, whose bus listens 10 000 above
//! the client port (older servers cannot be told another place). `tests/clients`, which runs at the
//! same time as these tests, has pairs of its own.
//!
//! ```text
//!   10000 ─ cluster: clients ─ 14000 ─ tests/clients ─ 16000 ─ single ─ 20000
//!   20000 ─ cluster: bus ───── 24000 ─ tests/clients ─ 26000 ─ single ─ 32000
//! ```
//!
//! Invariant: within one process no port is handed out twice, until a range is used up and begins
//! again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of single ports: 16000–19999 and 26000–31999.
const COUNT: u32 = 10_000;
/// Number of pairs for cluster nodes: 10000–13999, with the bus at 20000–23999.
const PAIRS: u32 = 4_000;
/// The cluster bus listens so far above the client port unless told otherwise: `CLUSTER_PORT_INCR`
/// of the server.
const BUS_ABOVE: u16 = 10_000;

/// How many ports were handed out or skipped. `u32::MAX` until the first use.
static NEXT: AtomicU32 = AtomicU32::new(u32::MAX);
/// The same for pairs.
static NEXT_PAIR: AtomicU32 = AtomicU32::new(u32::MAX);

/// A loopback port that is reserved by a bound socket.
#[derive(Debug)]
pub struct Port {
    addr: SocketAddr,
    // Held for its side effect only: as long as it lives nobody else can bind the port.
    _listener: TcpListener,
}

impl Port {
    /// Reserves a free port on 127.0.0.1.
    #[track_caller]
    pub fn v4() -> Self {
        Self::reserve(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("no free port on 127.0.0.1")
    }

    /// Reserves a free port on ::1, or `None` where the machine has no IPv6 loopback.
    pub fn v6() -> Option<Self> {
        Self::reserve(IpAddr::V6(Ipv6Addr::LOCALHOST))
    }

    /// Reserves a port that is free on all addresses of both families, as `[::]:port`, or `None` where
    /// the machine has no IPv6.
    pub fn both() -> Option<Self> {
        // Without IPV6_V6ONLY, as std binds, this is IPv4 as well: whoever has the port in either
        // family is in the way.
        Self::reserve(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
    }

    /// The reserved address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Gives the port up for the process that is started next. A bound socket that never listened
    /// and never connected leaves nothing behind in the kernel, so the process can bind at once.
    pub fn release(self) -> SocketAddr {
        self.addr
    }

    fn reserve(ip: IpAddr) -> Option<Self> {
        (0..COUNT).find_map(|_| Self::bind(ip, single(turn(&NEXT, COUNT))))
    }

    fn bind(ip: IpAddr, port: u16) -> Option<Self> {
        let addr = SocketAddr::new(ip, port);
        // std listens with SO_REUSEADDR, which on Linux still refuses a port that somebody
        // listens on.
        TcpListener::bind(addr).ok().map(|listener| Self { addr, _listener: listener })
    }
}

/// The two reserved ports of a cluster node: for clients, and 10 000 above for the cluster bus.
#[derive(Debug)]
pub struct ClusterPort {
    client: Port,
    // Held like the other one until the server takes both.
    _bus: Port,
}

impl ClusterPort {
    /// Reserves a free pair on 127.0.0.1.
    #[track_caller]
    pub fn v4() -> Self {
        Self::reserve(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("no free pair on 127.0.0.1")
    }

    /// Reserves a free pair on ::1, or `None` where the machine has no IPv6 loopback.
    pub fn v6() -> Option<Self> {
        Self::reserve(IpAddr::V6(Ipv6Addr::LOCALHOST))
    }

    /// Gives both ports up for the server that is started next, and returns the client address.
    pub fn release(self) -> SocketAddr {
        self.client.addr
    }

    fn reserve(ip: IpAddr) -> Option<Self> {
        (0..PAIRS).find_map(|_| {
            let port = 10_000 + turn(&NEXT_PAIR, PAIRS);
            let client = Port::bind(ip, port)?;
            let bus = Port::bind(ip, port + BUS_ABOVE)?;
            Some(Self { client, _bus: bus })
        })
    }
}

/// The port of the cluster bus of a node that listens on `client`.
pub fn bus_port(client: u16) -> u16 {
    client + BUS_ABOVE
}

/// The next number below `count`, in turn. Each test process begins at a place of its own, so that
/// two of them rarely meet.
fn turn(next: &AtomicU32, count: u32) -> u16 {
    let begin = std::process::id().wrapping_mul(7919) % count;
    let _ = next.compare_exchange(u32::MAX, begin, Ordering::Relaxed, Ordering::Relaxed);
    // Both counts are far below 65536, so the remainder fits.
    (next.fetch_add(1, Ordering::Relaxed) % count) as u16
}

/// The single port with this number: the range has a gap for the pairs.
fn single(number: u16) -> u16 {
    if number < 4_000 { 16_000 + number } else { 22_000 + number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_differ_and_can_be_bound_after_release() {
        let ports: Vec<Port> = (0..50).map(|_| Port::v4()).collect();
        let numbers: BTreeSet<u16> = ports.iter().map(|port| port.addr().port()).collect();
        assert_eq!(numbers.len(), ports.len());
        for port in ports {
            assert!(TcpListener::bind(port.addr()).is_err(), "a reserved port is taken");
            let addr = port.release();
            assert!(addr.port() < 32_768, "outside the range of outgoing connections");
            assert!(TcpListener::bind(addr).is_ok(), "a released port is free");
        }
    }

    #[test]
    fn a_port_of_both_families_is_nobody_elses_in_either() {
        let Some(port) = Port::both() else { return eprintln!("skipped: no IPv6 here") };
        let number = port.addr().port();
        let loopbacks = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        for ip in loopbacks {
            assert!(TcpListener::bind((ip, number)).is_err(), "taken on {ip}");
        }
        port.release();
        for ip in loopbacks {
            let held = TcpListener::bind((ip, number)).expect("free");
            assert!(Port::bind(IpAddr::V6(Ipv6Addr::UNSPECIFIED), number).is_none(), "{held:?}");
        }
    }

    #[test]
    fn single_ports_and_pairs_do_not_mix() {
        let singles: BTreeSet<u16> = (0..10_000).map(single).collect();
        assert_eq!(singles.len(), 10_000);
        assert!(!singles.iter().any(|port| (10_000..16_000).contains(port)));
        assert!(!singles.iter().any(|port| (20_000..26_000).contains(port)));
        assert!(singles.last().is_some_and(|last| *last < 32_768));
    }

    #[test]
    fn pairs_are_bound_at_both_ports() {
        let pair = ClusterPort::v4();
        let addr = pair.client.addr();
        let bus = SocketAddr::new(addr.ip(), bus_port(addr.port()));
        assert!(TcpListener::bind(addr).is_err() && TcpListener::bind(bus).is_err());
        assert_eq!(pair.release(), addr);
        assert!(TcpListener::bind(addr).is_ok() && TcpListener::bind(bus).is_ok());
    }
}
