//! TLS of the admin listener: what a TCP connection is before HTTP is spoken over it.
//!
//! ```text
//!   accept ─▶ Plain                              where no certificate is configured
//!          └▶ Handshake ─▶ Open                  else; in the connection's own task, as it is the first to read
//!                └─ too late, or not TLS ─▶ closed
//! ```
//! The certificates are those in force when the connection came. Other ones hold for whoever comes next.
//!
//! Not here: certificates (`control/certificates`), how many connections there are (`listen`), who may ask (`guard`).
//!
//! Invariant: on a connection that began with a handshake nothing is ever read or written in plain.

use super::AdminSettings;
use super::listen::Link;
use axum::serve::Listener;
use engine::shares::Net;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// Who has not come to the end of the handshake by then is closed.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// Longest cause of a failure in the log, as a peer may have a say in it.
const CAUSE_CHARS_MAX: usize = 300;

/// A TCP socket whose connections speak TLS if the settings say so.
pub(super) struct Secured {
    pub(super) inner: TcpListener,
    pub(super) settings: watch::Receiver<Arc<AdminSettings>>,
}

/// One of its connections.
pub(super) struct Conn {
    state: State,
    addr: std::net::SocketAddr,
    is_certified: bool,
}

enum State {
    Plain(TcpStream),
    Handshake(Box<Accept<TcpStream>>, Pin<Box<Sleep>>),
    Open(Box<TlsStream<TcpStream>>),
    /// The handshake failed.
    Failed,
}

impl Listener for Secured {
    type Io = Conn;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, addr) = Listener::accept(&mut self.inner).await;
        let settings = self.settings.borrow().clone();
        let is_certified = settings.tls.is_some() && settings.wants_certificates;
        let state = match &settings.tls {
            None => State::Plain(stream),
            Some(with) => {
                let accept = TlsAcceptor::from(Arc::clone(&with.0)).accept(stream);
                let late = tokio::time::sleep(HANDSHAKE_MAX);
                State::Handshake(Box::new(accept), Box::pin(late))
            }
        };
        (Conn { state, addr, is_certified }, addr)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

impl Link for Conn {
    fn is_tls(&self) -> bool {
        !matches!(self.state, State::Plain(_))
    }

    fn is_certified(&self) -> bool {
        self.is_certified
    }

    fn net(&self) -> Net {
        Net::of_ip(self.addr.ip())
    }
}

impl Conn {
    /// Goes on with the handshake, if there is one; ready when bytes can be read and written.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let State::Handshake(accept, late) = &mut self.state else {
            return Poll::Ready(match self.state {
                State::Failed => Err(io::ErrorKind::BrokenPipe.into()),
                _ => Ok(()),
            });
        };
        let done = match Pin::new(&mut **accept).poll(context) {
            Poll::Ready(done) => done,
            Poll::Pending => {
                ready!(late.as_mut().poll(context));
                Err(io::ErrorKind::TimedOut.into())
            }
        };
        match done {
            Ok(stream) => {
                self.state = State::Open(Box::new(stream));
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                self.state = State::Failed;
                self.tell(&error);
                Poll::Ready(Err(error))
            }
        }
    }

    fn tell(&self, error: &io::Error) {
        let addr = self.addr;
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let cause: String = error.to_string().chars().map(plain).take(CAUSE_CHARS_MAX).collect();
        match error.kind() {
            // Whoever looks whether the port is open does that, every few seconds.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                tracing::debug!(%addr, cause, "TLS at the admin listener failed");
            }
            _ => tracing::info!(%addr, cause, "TLS at the admin listener failed"),
        }
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(context))?;
        match &mut self.state {
            State::Plain(stream) => Pin::new(stream).poll_read(context, buf),
            State::Open(stream) => Pin::new(&mut **stream).poll_read(context, buf),
            State::Handshake(..) | State::Failed => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Conn {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(context))?;
        match &mut self.state {
            State::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            State::Open(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
            State::Handshake(..) | State::Failed => {
                Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Plain(stream) => Pin::new(stream).poll_flush(context),
            State::Open(stream) => Pin::new(&mut **stream).poll_flush(context),
            // Nothing of ours is written before the end of the handshake.
            State::Handshake(..) | State::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            State::Open(stream) => Pin::new(&mut **stream).poll_shutdown(context),
            State::Handshake(..) | State::Failed => Poll::Ready(Ok(())),
        }
    }
}
