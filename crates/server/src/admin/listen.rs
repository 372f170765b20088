//! The sockets of the admin listener, and how many connections it has at once.
//!
//! Invariant: at most [`CONNS_MAX`] connections; one more waits in the kernel's queue until another one ends.

use super::secured::Secured;
use super::{App, router};
use crate::run::StartError;
use ::config::ListenAddress;
use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Collectors and a few browsers. Whoever is slow to speak must not keep others out for long, see `IDLE_MAX`.
const CONNS_MAX: usize = 64;

/// A connection on which nothing moves for so long is closed, unless a request of it is being answered: a drain and a profile take their time.
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
pub(crate) fn bind(addresses: &[ListenAddress], unix_mode: u32) -> Result<Vec<Bound>, StartError> {
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
                std::fs::set_permissions(path, Permissions::from_mode(unix_mode))?;
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
                let inner = Secured { inner, settings: app.settings.clone() };
                spawn(Limited { inner, permits, idle_max: IDLE_MAX }, router(app.clone()));
            }
            Bound::Unix(listener, path) => {
                let inner = UnixListener::from_std(listener)?;
                spawn(Limited { inner, permits, idle_max: IDLE_MAX }, router(app.clone()));
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

fn spawn<L: Listener<Io: Link>>(listener: Limited<L>, router: Router) {
    let router = router.layer(axum::middleware::from_fn(count));
    let service = router.into_make_service_with_connect_info::<Answering>();
    let serve = axum::serve(listener, service);
    tokio::spawn(async move {
        if let Err(error) = serve.await {
            tracing::error!(%error, "the admin listener has ended");
        }
    });
}

/// What is known of a connection beneath HTTP.
pub(super) trait Link {
    /// Whether TLS is spoken over it.
    fn is_tls(&self) -> bool;
}

impl Link for UnixStream {
    fn is_tls(&self) -> bool {
        false
    }
}

/// How many requests of a connection are being answered, and whether that is one with TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct Answering {
    count: Arc<AtomicUsize>,
    is_tls: bool,
}

impl Answering {
    fn begin(&self) -> Begun {
        self.count.fetch_add(1, Ordering::Relaxed);
        Begun(self.clone())
    }

    fn is_none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether this request came over TLS.
    pub(super) fn is_secured(request: &Request) -> bool {
        let answering = request.extensions().get::<ConnectInfo<Self>>();
        answering.is_some_and(|ConnectInfo(answering)| answering.is_tls)
    }
}

/// One that ends when it is dropped, as it is with the future that waits for the answer.
struct Begun(Answering);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<L: Listener<Io: Link>> Connected<IncomingStream<'_, Limited<L>>> for Answering {
    fn connect_info(stream: IncomingStream<'_, Limited<L>>) -> Self {
        stream.remote_addr().clone()
    }
}

/// Counts a request for as long as there is no answer.
async fn count(request: Request, next: Next) -> Response {
    let answering = request.extensions().get::<ConnectInfo<Answering>>();
    let _begun = answering.map(|ConnectInfo(answering)| answering.begin());
    next.run(request).await
}

/// A listener that takes no more connections than there are permits.
struct Limited<L> {
    inner: L,
    permits: Arc<Semaphore>,
    idle_max: Duration,
}

impl<L: Listener<Io: Link>> Listener for Limited<L> {
    type Io = Permitted<L::Io>;
    /// Nobody asks for addresses; this is what axum hands on of a connection.
    type Addr = Answering;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // It is never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let (io, _) = self.inner.accept().await;
        let answering = Answering { is_tls: io.is_tls(), ..Answering::default() };
        let idle_max = self.idle_max;
        let idle = Box::pin(tokio::time::sleep(idle_max));
        (Permitted { io, idle, idle_max, answering: answering.clone(), _permit: permit }, answering)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Answering::default())
    }
}

/// A connection that gives its permit back with its end, which comes when nothing is read for too long.
struct Permitted<T> {
    io: T,
    idle: Pin<Box<tokio::time::Sleep>>,
    idle_max: Duration,
    answering: Answering,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Permitted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(context, buf);
        let until = tokio::time::Instant::now() + self.idle_max;
        if polled.is_ready() {
            self.idle.as_mut().reset(until);
            return polled;
        }
        if self.idle.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        if self.answering.is_none() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.idle.as_mut().reset(until);
        // Asked so that it wakes this connection again.
        self.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn who_says_nothing_is_closed_and_who_waits_for_an_answer_is_not() {
        let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        bound.set_nonblocking(true).unwrap();
        let address = bound.local_addr().unwrap();
        let asking = std::thread::spawn(move || {
            let mut silent = TcpStream::connect(address).unwrap();
            let mut conn = TcpStream::connect(address).unwrap();
            conn.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let (mut answer, mut nothing) = (String::new(), String::new());
            // It comes long after an idle connection is closed, and then this one is idle, too.
            let _ = conn.read_to_string(&mut answer);
            let _ = silent.read_to_string(&mut nothing);
            (answer, nothing)
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (answer, nothing) = runtime.block_on(async {
            let slow = || async {
                tokio::time::sleep(Duration::from_millis(600)).await;
                "late"
            };
            let (_sender, settings) = tokio::sync::watch::channel(Arc::default());
            let inner = Secured { inner: TcpListener::from_std(bound).unwrap(), settings };
            let permits = Arc::new(Semaphore::new(2));
            let limited = Limited { inner, permits, idle_max: Duration::from_millis(100) };
            spawn(limited, Router::new().route("/slow", axum::routing::get(slow)));
            while !asking.is_finished() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            asking.join().unwrap()
        });
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("late"), "{answer}");
        assert_eq!(nothing, "");
    }
}
