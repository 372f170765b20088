//! Where a server listens, and a stream to it: TCP or unix socket behind one type.
//!
//! Names are not resolved here: tests talk to loopback addresses and to socket files of their own
//! temporary folder.
//!
//! Invariant: a [`Stream`] over TCP has `TCP_NODELAY` set, so that what a test writes at once
//! leaves at once; sliced input would otherwise be put together again by the kernel.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// How long a connect over loopback may take before it counts as failed. A full accept queue makes
/// the kernel retry after 1 s and 3 s, so this leaves room for both.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a server or of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP, IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A unix stream socket by path.
    Unix(PathBuf),
}

impl Endpoint {
    /// Connects with a deadline.
    ///
    /// # Errors
    /// What the operating system says; `TimedOut` after ten seconds.
    pub fn connect(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(addr) => {
                let stream = TcpStream::connect_timeout(addr, CONNECT_TIMEOUT)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path)?)),
        }
    }

    /// Connects over TLS, after these bytes in plain. The handshake happens with the first read or write.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    ///
    /// # Panics
    /// For a unix socket, and for a name that no certificate can have.
    pub fn connect_tls(
        &self,
        first: &[u8],
        config: &Arc<ClientConfig>,
        name: &str,
    ) -> io::Result<Stream> {
        let mut stream = TcpStream::connect_timeout(&self.tcp(), CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.write_all(first)?;
        let name = ServerName::try_from(name.to_owned()).expect("a name for a certificate");
        let conn = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(conn, stream))))
    }

    /// The address as a URL for `--upstream`: `redis://127.0.0.1:6379` or
    /// `redis+unix:///path/to.sock`.
    pub fn url(&self) -> String {
        match self {
            Self::Tcp(addr) => format!("redis://{addr}"),
            Self::Unix(path) => format!("redis+unix://{}", path.display()),
        }
    }

    /// The address in the form of `--listen`: `127.0.0.1:6380`, `[::1]:6380`, `unix:/path/to.sock`.
    pub fn listen_value(&self) -> String {
        match self {
            Self::Tcp(addr) => addr.to_string(),
            Self::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// The TCP address.
    ///
    /// # Panics
    /// For a unix socket: the test asked the wrong endpoint.
    pub fn tcp(&self) -> SocketAddr {
        match self {
            Self::Tcp(addr) => *addr,
            Self::Unix(path) => panic!("{} is a unix socket, no TCP address", path.display()),
        }
    }
}

/// A connected stream socket of either kind.
#[derive(Debug)]
pub enum Stream {
    /// TCP with `TCP_NODELAY`.
    Tcp(TcpStream),
    /// Unix stream socket.
    Unix(UnixStream),
    /// TLS over TCP; one thread's, so it cannot be cloned.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// A second handle of the same socket, for a thread that writes while another one reads.
    ///
    /// # Errors
    /// When the process is out of file descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tls(_) => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    /// How long one read may block. A zero duration is rounded up, since the kernel takes zero for
    /// "for ever".
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tls(stream) => stream.sock.set_read_timeout(timeout),
        }
    }

    /// How long one write may block; zero is rounded up as above.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(timeout),
            Self::Unix(stream) => stream.set_write_timeout(timeout),
            Self::Tls(stream) => stream.sock.set_write_timeout(timeout),
        }
    }

    /// Closes one or both directions.
    ///
    /// # Errors
    /// When the peer is gone already.
    pub fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()?;
                stream.sock.shutdown(how)
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buf),
            Self::Unix(stream) => stream.read(buf),
            Self::Tls(stream) => stream.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buf),
            Self::Unix(stream) => stream.write(buf),
            Self::Tls(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
