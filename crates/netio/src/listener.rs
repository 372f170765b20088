//! Bound sockets that clients connect to.
//!
//! Bound once at boot and then cloned, so that each worker has a share of one queue of connections:
//! without SO_REUSEPORT a taken port is noticed, and no connection is stranded in the queue of a
//! worker that stopped.
//!
//! Not here: accepting, which is the driver's ([`crate::epoll`]).
//!
//! Invariant: a unix socket file that we made is removed when its last clone is dropped, and a file
//! that is not ours is never removed: neither a living server's socket nor anything that is no socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, Stat, chmod, lstat, unlink};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, bind, connect, getsockname, listen, sockopt};

use crate::driver::{Address, ListenerId};
use crate::socket::{
    Keepalive, bound_unsent, set_tcp_options, stream_socket, tcp_address, tcp_text,
};

/// How to listen.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted. The kernel cuts it to `net.core.somaxconn`.
    pub backlog: u16,
    /// Permission bits of a unix socket file, for example `0o770`; by the umask where `None`.
    pub unix_mode: Option<u32>,
    /// Probing of silent clients, on TCP; inherited by every accepted socket.
    pub keepalive: Option<Keepalive>,
    /// What the caller calls it.
    pub id: ListenerId,
}

impl Default for ListenOptions {
    fn default() -> Self {
        let keepalive = Some(Keepalive::default());
        Self { backlog: 1024, unix_mode: None, keepalive, id: ListenerId::default() }
    }
}

/// A bound and listening socket, or one worker's share of it.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    local: Address,
    /// `Accepted::local` of every connection, unless it depends on the connection (wildcard address).
    pub(crate) local_text: Option<String>,
    id: ListenerId,
    /// Removes the socket file when the last share goes; `None` for TCP.
    _file: Option<Arc<SocketFile>>,
}

impl Listener {
    /// Binds `to` and listens. Port 0 takes any free port, see [`Listener::local_addr`]. An IPv6
    /// address takes no IPv4 connections, so that `0.0.0.0` and `[::]` can be listened on side by side.
    ///
    /// # Errors
    /// `AddrInUse` if another process listens there. For a unix path also if a file is there that is
    /// not a socket; a socket file whose server is gone is replaced. Two processes that start at the
    /// same time on the same stale path may both win; the later one then has the path.
    pub fn bind(to: &Address, options: &ListenOptions) -> io::Result<Self> {
        let fd = stream_socket(to)?;
        let (local, file) = match to {
            Address::Tcp(addr) => (bind_tcp(&fd, addr, options)?, None),
            Address::Unix(path) => {
                let file = bind_unix(&fd, path, options)?;
                (Address::Unix(path.clone()), Some(Arc::new(file)))
            }
        };
        listen(&fd, options.backlog.into())?;
        let local_text = fixed_local_text(&local);
        Ok(Self { fd, local, local_text, id: options.id, _file: file })
    }

    /// Another share of the same queue of connections, for another worker.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            local: self.local.clone(),
            local_text: self.local_text.clone(),
            id: self.id,
            _file: self._file.clone(),
        })
    }

    /// Connections that are accepted from now on are probed like this.
    pub(crate) fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        match self.local {
            Address::Tcp(_) => Ok(set_tcp_options(&self.fd, keepalive)?),
            Address::Unix(_) => Ok(()),
        }
    }

    /// What the caller calls it.
    pub const fn id(&self) -> ListenerId {
        self.id
    }

    /// Where it listens, with the real port.
    pub const fn local_addr(&self) -> &Address {
        &self.local
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The file of a unix socket that we bound.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode, by which we know the file again: a successor may have replaced it.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if lstat(&self.path).is_ok_and(|stat| identity(&stat) == self.identity) {
            // Nobody is left to be told of a failure; the next start deals with a stale file.
            let _ = unlink(&self.path);
        }
    }
}

fn bind_tcp(fd: &OwnedFd, addr: &SocketAddr, options: &ListenOptions) -> io::Result<Address> {
    // Without it a restart would have to wait for the old connections in TIME_WAIT.
    sockopt::set_socket_reuseaddr(fd, true)?;
    if addr.is_ipv6() {
        sockopt::set_ipv6_v6only(fd, true)?;
    }
    set_tcp_options(fd, options.keepalive)?;
    bound_unsent(fd)?;
    bind(fd, addr)?;
    Ok(Address::Tcp(tcp_address(getsockname(fd)?)?))
}

fn bind_unix(fd: &OwnedFd, path: &Path, options: &ListenOptions) -> io::Result<SocketFile> {
    let addr = SocketAddrUnix::new(path)?;
    match bind(fd, &addr) {
        Err(Errno::ADDRINUSE) => {
            remove_stale(path, &addr)?;
            bind(fd, &addr)?;
        }
        done => done?,
    }
    let file = SocketFile { path: path.to_owned(), identity: identity(&lstat(path)?) };
    // Before `listen`: until then connects are refused, so nobody slips in under the wrong mode.
    if let Some(mode) = options.unix_mode {
        chmod(path, Mode::from_raw_mode(mode))?;
    }
    Ok(file)
}

/// Removes the file at `path` if it is a socket that nobody listens on.
fn remove_stale(path: &Path, addr: &SocketAddrUnix) -> io::Result<()> {
    let stat = lstat(path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        let text = format!("{} exists and is not a socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
    }
    let probe = stream_socket(&Address::Unix(path.to_owned()))?;
    match connect(&probe, addr) {
        Err(Errno::CONNREFUSED) => Ok(unlink(path)?),
        // Gone in the meantime.
        Err(Errno::NOENT) => Ok(()),
        // It answered, or its backlog is full (EAGAIN), or we may not even ask (EACCES): it lives.
        _ => Err(Errno::ADDRINUSE.into()),
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// The local address of all connections of a listener, where it is the same for all.
fn fixed_local_text(local: &Address) -> Option<String> {
    match local {
        Address::Tcp(addr) if addr.ip().is_unspecified() => None,
        Address::Tcp(addr) => Some(tcp_text(addr)),
        Address::Unix(path) => Some(format!("{}:0", path.display())),
    }
}
