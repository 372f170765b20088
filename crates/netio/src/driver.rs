//! What a worker asks of the network, in completion shape.
//!
//! A worker hands buffers in and gets events back; it never sees readiness, file descriptors or errno. Epoll imitates
//! completions (it tries at once and reports the rest later), io_uring is made of them, and the simulator invents them from a
//! seed. The worker is generic over [`Driver`], so everything that it decides can be replayed.
//!
//! Not here: any byte of RESP, any policy (who is read, when a connection is given up).
//!
//! Invariant: per connection the events come in the order of the stream, at most one send is in flight, and after
//! [`Event::Closed`] (or a call of [`Driver::close`]) no event names that connection's token again.

use crate::listener::Listener;
use crate::socket::Keepalive;
use crate::uring::UringCounts;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Where a stream socket connects to or listens at. Names are resolved before they come here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A unix stream socket by path.
    Unix(PathBuf),
}

/// The caller's name for a connection, carried by every event of it. Opaque to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// The driver's name for a connection: an index and a generation, so that a stale one is noticed and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    /// Place in the driver's slab.
    pub index: u32,
    /// Which of the connections that ever lived at that place.
    pub generation: u32,
}

/// Why a connection is gone, or never came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer reset the connection, or it broke while in use. Carries the OS error number.
    Broken(i32),
    /// The connect was refused or failed. Carries the OS error number.
    ConnectFailed(i32),
    /// A layer over the network gave it up, for this reason. No driver of this crate says so.
    GivenUp(Box<str>),
}

/// A connection that was accepted and belongs to nobody yet; it may travel to another worker.
#[derive(Debug)]
pub struct Accepted<S> {
    /// The driver's own handle of the socket.
    pub socket: S,
    /// The address of the client as Redis prints it: `127.0.0.1:50000`, `[::1]:50000`, `/path/to/sock:0`.
    pub peer: String,
    /// The local address in the same form.
    pub local: String,
    /// The address of the client without its port, an IPv4 address that stands in an IPv6 one as the former; `None`: it
    /// came over a unix socket.
    pub ip: Option<IpAddr>,
    /// The listener that it came to.
    pub listener: ListenerId,
    /// It has one of the last descriptors of the process ([`Tuning::descriptors_max`]), so it cannot stay.
    pub is_surplus: bool,
}

/// The caller's name for a listener, carried by all that is accepted there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// Something happened.
#[derive(Debug)]
pub enum Event<'a, S> {
    /// A listener has a new connection. It is read only after [`Driver::adopt`].
    Accepted(Accepted<S>),
    /// Accepting failed for want of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM). The driver pauses accepting for
    /// a short while on its own, so that this is no busy loop.
    AcceptFailed(i32),
    /// A connect succeeded. Receiving is armed.
    Connected(Token),
    /// Bytes came in; never empty. They live in the driver's buffer until the callback returns.
    Received(Token, &'a [u8]),
    /// The peer will send no more; sends still go out. Comes once, and receiving is off from here.
    Eof(Token),
    /// The send that was in flight went out whole; the buffer comes back, its content untouched.
    Sent(Token, Vec<u8>),
    /// The connection is gone and freed; a buffer that was in flight is lost.
    Closed(Token, CloseReason),
    /// A [`Waker`](crate::Waker) of this driver was used since the last wait.
    Woken,
}

/// How long [`Driver::wait`] may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Reap what is there and return.
    Poll,
    /// Return at the first event or at this time of the driver's clock, in microseconds.
    Until(u64),
    /// Return at the first event.
    Forever,
    /// Sleep to this time of the driver's clock (microseconds) whatever comes, then reap all of it at once. Bounded
    /// waiting that makes batches; a driver may return earlier when `completions` events are there.
    Gather {
        /// End of the sleep.
        until_us: u64,
        /// Enough events to return early.
        completions: u32,
    },
}

/// What the kernel is to do by itself for the connections of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Probing of silent peers over TCP.
    pub keepalive: Option<Keepalive>,
    /// Bytes of a connection that we made which the peer does not acknowledge for so long break it (TCP_USER_TIMEOUT; 0: the system's
    /// some 15 minutes).
    pub user_timeout_ms: u32,
    /// Connections taken from a listener at a time, so that a flood of them cannot starve the others; and what many workers hold at the same
    /// moment of those that are still to be sent away.
    pub accepts_max: u32,
    /// A connection that is accepted with this descriptor or a higher one is marked as one too many. The kernel gives the lowest that is free, so
    /// those from here on stay for what the process connects and opens itself.
    pub descriptors_max: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            keepalive: Some(Keepalive::default()),
            user_timeout_ms: 0,
            accepts_max: ACCEPTS_MAX,
            descriptors_max: u32::MAX,
        }
    }
}

/// See [`Tuning::accepts_max`].
pub const ACCEPTS_MAX: u32 = 64;

/// A network as a worker sees it. Not shared between threads; only [`Accepted`] and wakers travel.
pub trait Driver {
    /// Handle of an accepted socket.
    type Socket: Send + 'static;

    /// Monotonic time in microseconds since some start; the only clock that a worker has.
    fn now_us(&self) -> u64;

    /// Takes a connection over under `token` and arms receiving.
    fn adopt(&mut self, accepted: Accepted<Self::Socket>, token: Token) -> ConnId;

    /// From here on the connection is known by another token: somebody read its beginning, and now it is somebody else's.
    /// Not called while an event of it is being told.
    fn rename(&mut self, conn: ConnId, token: Token);

    /// Begins to connect; ends in [`Event::Connected`] or [`Event::Closed`], never before the next [`Driver::wait`].
    /// There is no timeout here: the caller closes what takes too long.
    fn connect(&mut self, to: &Address, token: Token) -> ConnId;

    /// Arms (`true`) or stops (`false`) receiving. Stopping takes effect at once, also within a running `wait`.
    /// A stale id is ignored, here and below.
    fn recv(&mut self, conn: ConnId, on: bool);

    /// Sends `buf`, which is not empty. Gives it back at once if the kernel took all of it, or the driver a copy, which
    /// goes out with the next [`Driver::wait`] and in any case before the socket is closed; `None` means that it is in
    /// flight: [`Event::Sent`] returns it, or [`Event::Closed`] tells that it failed. One send at a time per connection:
    /// calling again before that is a bug of the caller.
    #[must_use]
    fn send(&mut self, conn: ConnId, buf: Vec<u8>) -> Option<Vec<u8>>;

    /// Closes and frees at once; a send in flight is dropped, one that was given back is not. No event follows.
    fn close(&mut self, conn: ConnId);

    /// Closes as [`Driver::close`] does, but sends nothing any more: the kernel drops what the peer has not taken, and the peer sees a reset. After an
    /// orderly close the kernel keeps these bytes for as long as the peer keeps its side open.
    fn reset(&mut self, conn: ConnId);

    /// Begins (`true`) or stops (`false`) accepting on all listeners of this driver. `false` for good is
    /// [`Driver::close_listeners`].
    fn accept(&mut self, on: bool);

    /// Closes the listeners whose ids `keeps` refuses, and has these as well. Whether it accepts stays as it is.
    fn listen(&mut self, keeps: &dyn Fn(ListenerId) -> bool, more: Vec<Listener>);

    /// Closes the listeners of this driver.
    fn close_listeners(&mut self);

    /// What sockets that come from now on are to be like; those that are there stay as they are.
    fn tune(&mut self, tuning: &Tuning);

    /// What its rings met, if it has any.
    fn uring_counts(&self) -> Option<UringCounts> {
        None
    }

    /// Sleeps as told and gives every event to `on_event`. Errors and end of stream of one connection are its events, never a
    /// failure of the wait. Returns the number of events.
    fn wait(&mut self, wait: Wait, on_event: &mut impl FnMut(Event<'_, Self::Socket>)) -> usize;
}

/// Bytes that one wait hands out, and what one connection or one fetch adds. The rest of its events is for the next wait, so that the caller can stop
/// reading, or close, before more comes than it has memory for. Much more than thousands of small requests.
pub(crate) const INPUT_PER_WAIT_BYTES: usize = 4 << 20;
