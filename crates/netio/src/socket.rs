//! Small things about stream sockets that listener and driver share: options, addresses as text.
//!
//! Not here: any state of a connection, any waiting.
//!
//! Invariant: every TCP socket that leaves this crate has TCP_NODELAY set. The proxy batches its
//! writes itself, so Nagle's algorithm could only add latency.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername,
    getsockname, socket_with, sockopt,
};

use socket2::SockRef;

use crate::driver::{Address, Tuning};

/// When the kernel probes a silent TCP peer, and when it gives the connection up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe, in seconds (TCP_KEEPIDLE, 1–32767).
    pub idle_s: u16,
    /// Time between probes, in seconds (TCP_KEEPINTVL, 1–32767).
    pub interval_s: u16,
    /// Unanswered probes that end the connection (TCP_KEEPCNT, 1–127).
    pub count: u8,
}

impl Default for Keepalive {
    /// As Redis does for its default `tcp-keepalive 300` (`anetKeepAlive` in its anet.c): first
    /// probe after 300 s, then every 100 s, three times.
    fn default() -> Self {
        Self { idle_s: 300, interval_s: 100, count: 3 }
    }
}

/// A non-blocking stream socket of the right family, closed on exec.
pub(crate) fn stream_socket(to: &Address) -> Result<OwnedFd, Errno> {
    let family = match to {
        Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(family, SocketType::STREAM, flags, None)
}

/// Sets what every TCP socket gets. On a listener too: accepted sockets inherit all of it on Linux,
/// which saves four system calls per accepted connection.
pub(crate) fn set_tcp_options(fd: impl AsFd, keepalive: Option<Keepalive>) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(&fd, true)?;
    sockopt::set_socket_keepalive(&fd, keepalive.is_some())?;
    let Some(Keepalive { idle_s, interval_s, count }) = keepalive else { return Ok(()) };
    sockopt::set_tcp_keepidle(&fd, Duration::from_secs(idle_s.into()))?;
    sockopt::set_tcp_keepintvl(&fd, Duration::from_secs(interval_s.into()))?;
    sockopt::set_tcp_keepcnt(&fd, count.into())
}

/// Bytes that the kernel accepts for a client beyond those that it can send at once (`TCP_NOTSENT_LOWAT`, Linux 3.12). The rest stays in respool's memory and counts there. Without this
/// bound, clients that do not read use up the kernel's memory for TCP sockets (`net.ipv4.tcp_mem`) with 4 MiB each; near its limit the kernel narrows the windows of all connections, those to servers included.
pub(crate) const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// Sets [`UNSENT_BYTES_MAX`] on a listener; accepted sockets inherit it.
pub(crate) fn bound_unsent(fd: &OwnedFd) -> io::Result<()> {
    SockRef::from(fd).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)
}

/// Makes the close of this socket a reset, with which the kernel drops unsent bytes (`SO_LINGER` with 0 s, socket(7)). A broken socket has nothing to
/// drop, so errors are ignored.
pub(crate) fn drop_unsent(fd: impl AsFd) {
    let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
}

/// Tells the peer that nothing more comes. A connection that is gone already needs no telling.
pub(crate) fn end_output(fd: impl AsFd) {
    let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
}

/// Begins to connect a new non-blocking socket. The outcome is told by writability and SO_ERROR.
///
/// A unix connect to a full backlog gives EAGAIN at once and nothing later would tell that there is
/// room, so that is an error like any other.
pub(crate) fn begin_connect(to: &Address, tuning: &Tuning) -> Result<OwnedFd, Errno> {
    let Tuning { keepalive, user_timeout_ms, .. } = *tuning;
    let fd = stream_socket(to)?;
    let begun = match to {
        Address::Tcp(addr) => {
            set_tcp_options(&fd, keepalive)?;
            if user_timeout_ms > 0 {
                sockopt::set_tcp_user_timeout(&fd, user_timeout_ms)?;
            }
            connect(&fd, addr)
        }
        Address::Unix(path) => connect(&fd, &SocketAddrUnix::new(path)?),
    };
    match begun {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(error),
    }
}

/// How a begun connect ended: the error of the socket, or success.
///
/// A TCP connect to a free port of the ephemeral range on the own host can by chance pick that very
/// port as its source and connect to itself ("simultaneous open"). A proxy that retries a dead local
/// server meets this within hours and would then talk to itself, so it counts as refused.
pub(crate) fn connect_outcome(fd: impl AsFd) -> Result<(), Errno> {
    sockopt::socket_error(&fd)??;
    let local = getsockname(&fd)?;
    let tcp = matches!(local.address_family(), AddressFamily::INET | AddressFamily::INET6);
    // getpeername fails if the peer has reset the connection since; then there was one, and the next
    // recv tells of its end.
    if tcp && getpeername(&fd).ok().flatten() == Some(local) {
        return Err(Errno::CONNREFUSED);
    }
    Ok(())
}

/// An address as Redis prints it in CLIENT LIST: `127.0.0.1:50000`, `[::1]:50000`; the caller deals
/// with unix sockets, whose accepted side has no address of its own.
pub(crate) fn tcp_text(addr: &SocketAddr) -> String {
    match addr {
        SocketAddr::V4(v4) => v4.to_string(),
        // Not `to_string`: that would add the scope id, which Redis never prints.
        SocketAddr::V6(v6) => format!("[{}]:{}", v6.ip(), v6.port()),
    }
}

/// The TCP address in `any`, or an error for another family.
pub(crate) fn tcp_address(any: SocketAddrAny) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(any)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::bind;

    #[test]
    fn tcp_text_is_the_form_of_client_list() {
        assert_eq!(tcp_text(&"127.0.0.1:50000".parse().unwrap()), "127.0.0.1:50000");
        assert_eq!(tcp_text(&"[::1]:50000".parse().unwrap()), "[::1]:50000");
        assert_eq!(tcp_text(&"[fe80::1%3]:50000".parse().unwrap()), "[fe80::1]:50000");
    }

    #[test]
    fn a_socket_connected_to_itself_is_refused() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let fd = stream_socket(&Address::Tcp(any)).unwrap();
        bind(&fd, &any).unwrap();
        let own = tcp_address(getsockname(&fd).unwrap()).unwrap();
        // Simultaneous open with oneself succeeds at once on loopback.
        match connect(&fd, &own) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => panic!("self-connect did not begin: {error}"),
        }
        assert_eq!(connect_outcome(&fd), Err(Errno::CONNREFUSED));
    }
}
