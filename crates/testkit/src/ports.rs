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
//! Invariant: within one process no port is handed out twice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// First port that is handed out.
const FIRST: u32 = 14_000;
/// Number of ports in the range; it ends below 32768.
const COUNT: u32 = 18_000;

/// How many ports were handed out or skipped. `u32::MAX` until the first use.
static NEXT: AtomicU32 = AtomicU32::new(u32::MAX);

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
        // Each test process begins at a place of its own, so that two of them rarely meet.
        let begin = std::process::id().wrapping_mul(7919) % COUNT;
        let _ = NEXT.compare_exchange(u32::MAX, begin, Ordering::Relaxed, Ordering::Relaxed);
        (0..COUNT).find_map(|_| {
            let number = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
            let port = u16::try_from(number).ok()?;
            let addr = SocketAddr::new(ip, port);
            // std listens with SO_REUSEADDR, which on Linux still refuses a port that somebody
            // listens on.
            TcpListener::bind(addr).ok().map(|listener| Self { addr, _listener: listener })
        })
    }
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
}
