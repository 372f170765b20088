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
//! the client port (older servers cannot be told another place). The tests in Python, which run at the
//! same time as these, have pairs of their own (`tests/clients/servers.py`).
//!
//! ```text
//!   10000 ─ cluster: clients ─ 14000 ─ Python ─ 16000 ─ single ─ 20000
//!   20000 ─ cluster: bus ───── 24000 ─ Python ─ 26000 ─ single ─ 32000
//! ```
//!
//! Test processes divide a range into blocks. A process owns a block while it holds the first port of
//! the block bound; no test uses that port for anything else.
//!
//! Invariant: two live processes never hand out the same port. A process hands out a port again only
//! when it has used up its blocks and finds no free one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Ports of a block. The first one marks the block as owned.
const BLOCK: u32 = 50;
/// Ports that are handed out of a block.
const OF_BLOCK: usize = BLOCK as usize - 1;
/// The cluster bus listens so far above the client port unless told otherwise: `CLUSTER_PORT_INCR`
/// of the server.
const BUS_ABOVE: u16 = 10_000;

/// Single ports: 16000–19999 and 26000–31999.
static SINGLES: Range = Range::new(10_000, single);
/// Client ports of cluster nodes: 10000–13999, with the bus at 20000–23999.
static PAIRS: Range = Range::new(4_000, client_of_pair);

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
        SINGLES.find(|port| Self::bind(ip, port))
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
        PAIRS.find(|port| {
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

/// Ports of one kind, by number from 0.
struct Range {
    count: u32,
    port: fn(u32) -> u16,
    owned: Mutex<Owned>,
}

/// The part of a range that this process owns.
struct Owned {
    /// The number that each block begins with, and the socket that marks it.
    blocks: Vec<(u32, TcpListener)>,
    /// How many ports of these blocks were handed out or skipped.
    taken: usize,
}

impl Range {
    const fn new(count: u32, port: fn(u32) -> u16) -> Self {
        Self { count, port, owned: Mutex::new(Owned { blocks: Vec::new(), taken: 0 }) }
    }

    /// Returns what `bind` makes of the first port that it accepts, after at most one try per port of the range.
    fn find<T>(&self, bind: impl Fn(u16) -> Option<T>) -> Option<T> {
        (0..self.count).find_map(|_| bind(self.next()?))
    }

    /// Returns the next port of this process; `None` if other processes own all blocks.
    fn next(&self) -> Option<u16> {
        let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        if owned.taken == owned.blocks.len() * OF_BLOCK {
            match self.block() {
                Some(block) => owned.blocks.push(block),
                None => owned.taken = 0,
            }
        }
        let (first, _) = owned.blocks.get(owned.taken / OF_BLOCK)?;
        let number = first + 1 + (owned.taken % OF_BLOCK) as u32;
        owned.taken += 1;
        Some((self.port)(number))
    }

    /// Takes a free block. Each process starts its search at another block, so that a new process
    /// rarely reuses the ports of one that has just ended.
    fn block(&self) -> Option<(u32, TcpListener)> {
        let blocks = self.count / BLOCK;
        let begin = std::process::id().wrapping_mul(7919) % blocks;
        (0..blocks).find_map(|step| {
            let first = (begin + step) % blocks * BLOCK;
            let mark = TcpListener::bind((Ipv4Addr::LOCALHOST, (self.port)(first))).ok()?;
            Some((first, mark))
        })
    }
}

/// The single port with this number: the range has a gap for the pairs.
fn single(number: u32) -> u16 {
    // At most 31 999.
    (if number < 4_000 { 16_000 + number } else { 22_000 + number }) as u16
}

/// The client port of the pair with this number.
fn client_of_pair(number: u32) -> u16 {
    10_000 + number as u16
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

    /// Each `Range` stands for a process: both cover the same ports.
    #[test]
    fn processes_that_run_at_once_have_no_port_in_common() {
        let [one, other] = [(); 2].map(|()| Range::new(10_000, single));
        let ports =
            |range: &Range| -> BTreeSet<u16> { (0..120).filter_map(|_| range.next()).collect() };
        let (ones, others) = (ports(&one), ports(&other));
        assert_eq!((ones.len(), others.len()), (120, 120));
        assert!(ones.is_disjoint(&others), "{:?}", ones.intersection(&others));
        let firsts: Vec<u16> = one
            .owned
            .lock()
            .expect("no panic")
            .blocks
            .iter()
            .map(|block| (one.port)(block.0))
            .collect();
        drop(one);
        for first in firsts {
            TcpListener::bind((Ipv4Addr::LOCALHOST, first))
                .expect("a process that ends gives its blocks back");
        }
    }

    /// A process skips blocks of others and starts again with its own when no block is free.
    #[test]
    fn a_range_that_is_used_up_begins_again() {
        let few = || Range::new(100, |number| single(9_900 + number));
        let (one, other) = (few(), few());
        let once: Vec<_> = (0..OF_BLOCK).map(|_| one.next().expect("a block")).collect();
        assert!(other.next().is_some(), "the second block");
        assert_eq!(few().next(), None);
        let again: Vec<_> = (0..OF_BLOCK).map(|_| one.next().expect("the block again")).collect();
        assert_eq!(once, again);
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
