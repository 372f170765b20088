//! Loopback ports for the processes that are started.
//!
//! They are taken below the range of outgoing connections (32768 on Linux unless changed), since the load itself opens and
//! closes tens of thousands of those and would now and then sit on a port between its choice and the server's bind. A
//! server of a cluster also binds the port 10 000 above its own; that one is below the range as well, and looked at too.
//!
//! Invariant: a port is handed out once per process until all have been; it was free a moment ago. Whoever starts a
//! program on it must be ready to take another one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// First port that is handed out.
const FIRST: u32 = 10_500;
/// Number of ports in the range; with [`CLUSTER_BUS`] on top it ends below 32768.
const COUNT: u32 = 12_000;
/// Where a cluster's servers talk to each other: so far above their port.
const CLUSTER_BUS: u32 = 10_000;

/// How many were handed out or skipped. `u32::MAX` until the first use.
static NEXT: AtomicU32 = AtomicU32::new(u32::MAX);

/// A port of 127.0.0.1 that is free, and so is its cluster bus. `None` when none of the range is.
pub(super) fn free() -> Option<SocketAddr> {
    // Two runs at a time begin at different places.
    let begin = std::process::id().wrapping_mul(7919) % COUNT;
    let _ = NEXT.compare_exchange(u32::MAX, begin, Ordering::Relaxed, Ordering::Relaxed);
    (0..COUNT).find_map(|_| {
        let number = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = can_bind(number)?;
        can_bind(number + CLUSTER_BUS)?;
        Some(port)
    })
}

fn can_bind(number: u32) -> Option<SocketAddr> {
    let port = u16::try_from(number).ok()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(address).ok().map(|_| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_are_free_and_stay_below_outgoing_connections() {
        let ports: std::collections::BTreeSet<_> = (0..50).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 50);
        for address in ports {
            assert!(TcpListener::bind(address).is_ok());
            assert!(u32::from(address.port()) + CLUSTER_BUS < 32_768);
        }
    }
}
