//! A byte stream to an endpoint: TCP or unix socket, plain or under TLS, behind one type.
//!
//! It works blocking (while a connection logs in) and non-blocking (afterwards) alike: what would block is
//! `WouldBlock` in both, which on a blocking socket means that its timeout passed. Names are resolved once, by
//! [`Address::resolve`]; nothing here knows RESP.
//!
//! Invariant: bytes that [`Stream::write`] took are on their way or kept; while some are kept, [`Stream::wants_write`]
//! is true and the owner must call [`Stream::flush`] when the socket can be written.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::UpstreamAddress;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustls::ClientConnection;

/// How long a connect, a handshake or one reply of the log-in may take.
pub(super) const GREET_TIMEOUT: Duration = Duration::from_secs(5);

/// A place to connect to, its name resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// All addresses of an endpoint, in the order to be tried.
    pub(super) fn resolve(address: &UpstreamAddress) -> io::Result<Vec<Self>> {
        Ok(match address {
            UpstreamAddress::Tcp { host, port } => {
                (host.as_str(), *port).to_socket_addrs()?.map(Self::Tcp).collect()
            }
            UpstreamAddress::Unix(path) => vec![Self::Unix(path.clone())],
        })
    }

    /// A socket that is connected, or with `at_once` one over TCP whose connect has only begun. `receive_bytes` is
    /// the size of its receive buffer; it must be known before the connect, since it decides the window's scale.
    pub(super) fn dial(&self, at_once: bool, receive_bytes: Option<usize>) -> io::Result<OwnedFd> {
        let family = match self {
            Self::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Self::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Self::Unix(_) => AddressFamily::UNIX,
        };
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        if let Some(bytes) = receive_bytes {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
        match self {
            Self::Tcp(address) => {
                sockopt::set_tcp_nodelay(&socket, true)?;
                set_blocking(&socket, !at_once)?;
                match rustix::net::connect(&socket, address) {
                    Err(Errno::INPROGRESS) if at_once => {}
                    // A blocking connect whose send timeout passed says this (connect(2), socket(7)).
                    Err(Errno::INPROGRESS) => return Err(ErrorKind::TimedOut.into()),
                    other => other?,
                }
            }
            // It connects at once or waits for room in the listener's queue; there is nothing to wait for later.
            Self::Unix(path) => {
                set_blocking(&socket, true)?;
                rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
                set_blocking(&socket, !at_once)?;
            }
        }
        Ok(socket)
    }
}

/// With `blocking`, every call ends after [`GREET_TIMEOUT`] at the latest.
fn set_blocking(socket: &OwnedFd, blocking: bool) -> io::Result<()> {
    if blocking {
        sockopt::set_socket_timeout(socket, Timeout::Send, Some(GREET_TIMEOUT))?;
        sockopt::set_socket_timeout(socket, Timeout::Recv, Some(GREET_TIMEOUT))?;
    }
    Ok(rustix::io::ioctl_fionbio(socket, !blocking)?)
}

/// One connection's bytes.
#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    /// Around a socket, with TLS when a configuration and a server name are given. The handshake happens by itself in
    /// the course of reading and writing.
    pub(super) fn new(
        socket: OwnedFd,
        tls: Option<&(Arc<rustls::ClientConfig>, String)>,
    ) -> Result<Self, String> {
        let tls = match tls {
            None => None,
            Some((config, name)) => {
                let server = rustls::pki_types::ServerName::try_from(name.clone())
                    .map_err(|_| format!("`{name}` is no name that a certificate can have"))?;
                let tls = ClientConnection::new(Arc::clone(config), server)
                    .map_err(|error| error.to_string())?;
                Some(Box::new(tls))
            }
        };
        Ok(Self { socket: Socket(socket), tls })
    }

    /// From now on calls wait for their socket, up to [`GREET_TIMEOUT`], or do not.
    pub(super) fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        set_blocking(&self.socket.0, blocking)
    }

    /// Reads what is there; 0 is the peer's end.
    #[inline]
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.read(bytes) };
        loop {
            match tls.reader().read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            // A handshake's answer must leave before the peer says more.
            flush_tls(tls, &mut self.socket)?;
            if tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Whether a read may find more without the socket becoming readable: TLS holds a decrypted record.
    pub(super) fn may_hold_more(&self) -> bool {
        self.tls.is_some()
    }

    /// Writes as much as goes.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.write(bytes) };
        flush_tls(tls, &mut self.socket)?;
        let taken = tls.writer().write(bytes)?;
        if taken == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        match flush_tls(tls, &mut self.socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what TLS keeps.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => flush_tls(tls, &mut self.socket),
            None => Ok(()),
        }
    }

    /// Whether TLS keeps bytes that have to leave.
    pub(super) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.0.as_fd()
    }
}

fn flush_tls(tls: &mut ClientConnection, socket: &mut Socket) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(socket)?;
    }
    Ok(())
}

/// A socket of either family.
#[derive(Debug)]
struct Socket(OwnedFd);

impl Read for Socket {
    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut *bytes))?)
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A peer that is gone is an error to be told, and no signal.
        Ok(rustix::io::retry_on_intr(|| rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
