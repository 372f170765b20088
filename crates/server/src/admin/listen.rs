//! The sockets of the admin listener, and how many connections it has at once.
//!
//! Invariant: at most [`CONNS_MAX`] connections; one more waits in the kernel's queue until another one ends.

use super::{App, router};
use crate::run::StartError;
use ::config::ListenAddress;
use axum::serve::Listener;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Collectors and a few browsers. Whoever is slow to speak must not keep others out for long, see `IDLE_MAX`.
const CONNS_MAX: usize = 64;

/// A connection on which nothing moves for so long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A socket that is bound and serves nobody yet.
pub(crate) enum Bound {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A unix socket, whose file goes with it.
    Unix(std::os::unix::net::UnixListener, PathBuf),
}

/// Binds the addresses of the configuration.
///
/// # Errors
/// The first that cannot be bound.
pub(crate) fn bind(addresses: &[ListenAddress]) -> Result<Vec<Bound>, StartError> {
    let bind = |address: &ListenAddress| -> io::Result<Bound> {
        match address {
            ListenAddress::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Bound::Tcp(listener))
            }
            ListenAddress::Unix(path) => {
                // A file that nobody listens on is left of a process that was killed.
                if std::os::unix::net::UnixStream::connect(path)
                    .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
                {
                    std::fs::remove_file(path)?;
                }
                let listener = std::os::unix::net::UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Bound::Unix(listener, path.clone()))
            }
        }
    };
    let bound = addresses.iter().map(|address| {
        bind(address).map_err(|error| StartError::Listen { address: address.to_string(), error })
    });
    bound.collect()
}

/// Serves until the runtime ends. Must be called in it.
pub(crate) fn serve(bound: Vec<Bound>, app: &App) -> io::Result<Vec<SocketFile>> {
    let permits = Arc::new(Semaphore::new(CONNS_MAX));
    let mut files = Vec::new();
    for bound in bound {
        let permits = Arc::clone(&permits);
        match bound {
            Bound::Tcp(listener) => {
                let inner = TcpListener::from_std(listener)?;
                spawn(Limited { inner, permits }, app);
            }
            Bound::Unix(listener, path) => {
                let inner = UnixListener::from_std(listener)?;
                spawn(Limited { inner, permits }, app);
                files.push(SocketFile(path));
            }
        }
    }
    Ok(files)
}

/// Removes the file of a unix socket when it is dropped.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Nobody is left to be told; the next start deals with a file that is left.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn spawn<L>(listener: L, app: &App)
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let serve = axum::serve(listener, router(app.clone()).into_make_service());
    tokio::spawn(async move {
        if let Err(error) = serve.await {
            tracing::error!(%error, "the admin listener has ended");
        }
    });
}

/// A listener that takes no more connections than there are permits.
struct Limited<L> {
    inner: L,
    permits: Arc<Semaphore>,
}

impl<L: Listener> Listener for Limited<L> {
    type Io = Permitted<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // It is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let (io, address) = self.inner.accept().await;
        let idle = Box::pin(tokio::time::sleep(IDLE_MAX));
        (Permitted { io, idle, _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

/// A connection that gives its permit back with its end, which comes when nothing is read for too long.
struct Permitted<T> {
    io: T,
    idle: Pin<Box<tokio::time::Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Permitted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(context, buf);
        if polled.is_ready() {
            let until = tokio::time::Instant::now() + IDLE_MAX;
            self.idle.as_mut().reset(until);
            return polled;
        }
        match self.idle.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Permitted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
