//! TLS as a layer between the worker and its driver: who is above sees plain bytes, who is below sees records.
//!
//! ```text
//!            worker                    Received(plain)  Sent  Connected after the handshake
//!   ═══════════▼═══════════════════════════▲══════════════════════════════════════════════
//!   send: seal ─▶ one send of records      │ open records, all of a read at once
//!   Secured      ┌──────────── steps ──────┴─ bytes of a handshake wait for their turn
//!                └▶ at most STEPS_PER_WAIT of them in one wait, one address after the other
//!   ═══════════▼═══════════════════════════▲══════════════════════════════════════════════
//!            driver (epoll, io_uring, simulated)
//! ```
//! A connection without TLS goes through: its ids and tokens lack a bit, which is all that is looked at, and while no connection has TLS the events
//! of a wait are not even looked at ([decision 22](../../../../../docs/internals/decisions/0022-tls-is-a-layer-over-the-driver.md)).
//!
//! `records` alone knows the library, `conn` is one connection, `layer` what happens to all of them, `sources` whose handshake goes on, `weights` what
//! they hold.
//!
//! Not here: who speaks TLS and with which certificates (`control/certificates`), names and addresses, RESP.
//!
//! Invariant: the promises of [`netio::driver`], for the caller of this as well. What is held for a connection is bounded: one part of what the caller
//! sends (`SEAL_BYTES`), what one wait of the driver brought, and an unfinished record.

mod conn;
mod layer;
mod records;
mod sources;
#[cfg(test)]
mod tests;
mod weights;

use engine::fleet::{TLS_FAILURES, TlsReport};
use layer::Layer;
use netio::uring::UringCounts;
use netio::{Accepted, Address, ConnId, Driver, Event, Listener, ListenerId, Token, Tuning, Wait};
use sources::Source;
use std::net::IpAddr;

pub use records::{ForClients, ForUpstreams};

/// What holds for TLS in a worker.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// How clients are met; `None`: no listener speaks TLS.
    pub clients: Option<ForClients>,
    /// How servers are met; `None`: none speaks TLS.
    pub upstreams: Option<ForUpstreams>,
    /// A client that takes longer for its handshake is closed.
    pub handshake_ms: u64,
}

/// Why TLS failed, in the order of [`TLS_FAILURES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The handshake took too long.
    Timeout,
    /// The peer speaks something else.
    NotTls,
    /// The peer broke the rules.
    Protocol,
    /// No version or cipher in common.
    Incompatible,
    /// The peer has to show a certificate and shows none.
    NoCertificate,
    /// The peer's certificate is not taken.
    Certificate,
    /// The peer does not take us.
    Refused,
    /// The peer went away before the end of the handshake.
    Closed,
    /// There is no memory left for it.
    Memory,
}

const _: () = assert!(Reason::Memory as usize + 1 == TLS_FAILURES.len());

/// A driver that also does TLS. See the module.
pub struct Secured<D> {
    inner: D,
    layer: Layer,
}

/// Marks the tokens of connections with TLS towards the driver below; those of the caller must not have it.
pub(super) const TOKEN_BIT: u64 = 1 << 30;

/// Marks the ids of connections with TLS towards the caller. An index below never comes so far.
const ID_BIT: u32 = 1 << 31;

/// Handshakes go on by so many steps in one wait. A step is what one read brought, mostly a signature of ours or the check of one: up to a
/// millisecond with RSA, a tenth of that with elliptic curves. The other clients of the worker wait for so long.
const STEPS_PER_WAIT: usize = 2;

/// After a step that ends so late, in microseconds from the first one on, a wait makes no other one: a long key, or a machine that is slow just now.
const STEPS_US_MAX: u64 = 1_000;

/// Of a handshake that waits for its turn so much is kept. No hello of a client is as long as that, nor the records around it, and before our answer it
/// has nothing else to say; of one that has our answer the rest stays in its socket.
const INPUT_BYTES_MAX: usize = 68 << 10;

/// So much of what the caller sends is sealed for one send below.
const SEAL_BYTES: usize = 256 << 10;

/// Buffers for records that are kept for the next send.
const SPARE_BUFFERS_MAX: usize = 16;

/// What a connection costs beside what waits on it: the library's state of it with its keys, an unfinished record, and ours. Measured: 8 KiB
/// at rest, 12 KiB after requests of some KiB; an unfinished record may add 18.
const CONN_BYTES: usize = 20 << 10;

/// Longest cause of a failure, as a peer may have a say in it.
const CAUSE_BYTES_MAX: usize = 300;

impl<D: Driver> Secured<D> {
    /// TLS over this driver.
    pub fn new(inner: D, settings: TlsSettings) -> Self {
        Self { inner, layer: Layer::new(settings) }
    }

    /// The driver below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// What holds for handshakes that begin from now on.
    pub fn change(&mut self, settings: TlsSettings) {
        self.layer.settings = settings;
        // There may be less room for them, too.
        self.layer.weights.change();
    }

    /// How long the driver below may sleep in such a wait.
    pub(super) fn shortened(&mut self, wait: Wait) -> Wait {
        self.layer.shortened(wait)
    }

    /// What happened so far, and what is there; `None`: nobody speaks TLS, nor did.
    pub fn report(&self) -> Option<TlsReport> {
        self.layer.report()
    }

    /// As [`Driver::adopt`], for a client that speaks TLS.
    pub fn adopt_secured(&mut self, accepted: Accepted<D::Socket>, token: Token) -> ConnId {
        let (peer, source) = (accepted.peer.clone(), Source::of(accepted.ip));
        let id = self.layer.open_client(token, peer, source, self.inner.now_us());
        let inner = self.inner.adopt(accepted, layer::inner_token(id));
        self.layer.set_inner(id, inner);
        outer_id(id)
    }

    /// A client of whom something was read in plain speaks TLS from here on: `input` is what came of that, `ended` that nothing more does, `ip` the address that
    /// it shares its turns with. It has another id from now on.
    pub fn secure(
        &mut self,
        conn: ConnId,
        token: Token,
        (addr, ip): (String, Option<IpAddr>),
        input: Vec<u8>,
        ended: bool,
    ) -> ConnId {
        let id = self.layer.open_client(token, addr, Source::of(ip), self.inner.now_us());
        self.inner.rename(conn, layer::inner_token(id));
        self.layer.set_inner(id, conn);
        self.layer.begin_with(id, input, ended);
        outer_id(id)
    }

    /// As [`Driver::connect`], to a server that speaks TLS; `host` is what its certificate has to be for. [`Event::Connected`] tells the end of the
    /// handshake.
    pub fn connect_secured(&mut self, to: &Address, token: Token, host: &str) -> ConnId {
        let id = self.layer.open_upstream(token, host);
        let inner = self.inner.connect(to, layer::inner_token(id));
        self.layer.set_inner(id, inner);
        outer_id(id)
    }
}

/// The caller's name for a connection with TLS.
fn outer_id(id: layer::Id) -> ConnId {
    debug_assert!(id.index & ID_BIT == 0, "more than 2^31 connections");
    ConnId { index: id.index | ID_BIT, generation: id.generation }
}

/// The connection with TLS that the caller names; `None`: it has none.
#[inline]
fn own_id(conn: ConnId) -> Option<layer::Id> {
    match conn.index & ID_BIT {
        0 => None,
        _ => Some(layer::Id::new(conn.index & !ID_BIT, conn.generation)),
    }
}

impl<D: Driver> Driver for Secured<D> {
    type Socket = D::Socket;

    fn now_us(&self) -> u64 {
        self.inner.now_us()
    }

    fn adopt(&mut self, accepted: Accepted<D::Socket>, token: Token) -> ConnId {
        debug_assert!(token.0 & TOKEN_BIT == 0, "a token with the bit of TLS");
        self.inner.adopt(accepted, token)
    }

    fn connect(&mut self, to: &Address, token: Token) -> ConnId {
        debug_assert!(token.0 & TOKEN_BIT == 0, "a token with the bit of TLS");
        self.inner.connect(to, token)
    }

    #[inline]
    fn recv(&mut self, conn: ConnId, on: bool) {
        match own_id(conn) {
            None => self.inner.recv(conn, on),
            Some(id) => self.layer.recv(&mut self.inner, id, on),
        }
    }

    #[inline]
    fn send(&mut self, conn: ConnId, buf: Vec<u8>) -> Option<Vec<u8>> {
        match own_id(conn) {
            None => self.inner.send(conn, buf),
            Some(id) => self.layer.send(&mut self.inner, id, buf),
        }
    }

    #[inline]
    fn close(&mut self, conn: ConnId) {
        match own_id(conn) {
            None => self.inner.close(conn),
            Some(id) => self.layer.close(&mut self.inner, id),
        }
    }

    fn reset(&mut self, conn: ConnId) {
        match own_id(conn) {
            None => self.inner.reset(conn),
            Some(id) => self.layer.reset(&mut self.inner, id),
        }
    }

    fn rename(&mut self, conn: ConnId, token: Token) {
        debug_assert!(token.0 & TOKEN_BIT == 0, "a token with the bit of TLS");
        match own_id(conn) {
            None => self.inner.rename(conn, token),
            Some(id) => self.layer.rename(id, token),
        }
    }

    fn accept(&mut self, on: bool) {
        self.inner.accept(on);
    }

    fn listen(&mut self, keeps: &dyn Fn(ListenerId) -> bool, more: Vec<Listener>) {
        self.inner.listen(keeps, more);
    }

    fn close_listeners(&mut self) {
        self.inner.close_listeners();
    }

    fn tune(&mut self, tuning: &Tuning) {
        self.inner.tune(tuning);
    }

    fn uring_counts(&self) -> Option<UringCounts> {
        self.inner.uring_counts()
    }

    #[inline]
    fn wait(&mut self, wait: Wait, on_event: &mut impl FnMut(Event<'_, Self::Socket>)) -> usize {
        if self.layer.is_empty() {
            return self.inner.wait(wait, on_event);
        }
        let Self { inner, layer } = self;
        let wait = layer.shortened(wait);
        let told = inner.wait(wait, &mut |event| layer.take(event, on_event));
        layer.settle(inner, on_event);
        told
    }
}
