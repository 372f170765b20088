//! One connection with TLS: where it stands, and what waits on it in either direction.
//!
//! ```text
//!   connect ─▶ Connecting ─▶ Handshake ─▶ Open ─▶ closed by the caller, by the peer, or given up with a cause
//!   adopt   ───────────────▶
//! ```
//! Not here: the driver, the order among connections (`layer`).
//!
//! Invariant: `input` is empty once the handshake is over; `held` is not empty only while the caller reads nothing.

use super::INPUT_BYTES_MAX;
use super::records::{Failure, Records};
use super::sources::{Crowd, Source, Turn};
use netio::{ConnId, Token};

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// TCP connects.
    Connecting,
    /// Keys are agreed on.
    Handshake,
    /// Bytes of the caller can be sent.
    Open,
}

/// Who is at the other end.
pub(super) enum Peer {
    /// A client from this address, which shares its turns with all of its source.
    Client { addr: String, source: Source },
    /// The server of this host.
    Upstream { host: Box<str> },
}

/// Whether the peer has ended its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// No.
    No,
    /// Yes, which is told when everything before it is.
    Due,
    /// Yes, and the caller knows.
    Told,
}

/// See the module.
pub(super) struct Conn {
    /// Of the driver below.
    pub(super) inner: ConnId,
    /// Of the caller.
    pub(super) token: Token,
    pub(super) peer: Peer,
    pub(super) phase: Phase,
    /// There once the handshake has begun.
    pub(super) records: Option<Records>,
    /// The caller wants to receive.
    pub(super) recv_on: bool,
    /// The driver below receives.
    pub(super) reads: bool,
    /// Its handshake can go on, and waits for this turn.
    pub(super) turn: Option<Turn>,
    /// It counts among these clients, which are not through their handshake.
    pub(super) crowd: Option<Crowd>,
    /// It stands among those that something is to be done for.
    pub(super) in_work: bool,
    /// What came of a handshake that waits for its turn.
    pub(super) input: Vec<u8>,
    /// What is decrypted while the caller wants nothing.
    pub(super) held: Vec<u8>,
    /// The caller has got something.
    pub(super) heard: bool,
    pub(super) end: End,
    /// What the caller sends, and how much of it is sealed.
    pub(super) sending: Option<(Vec<u8>, usize)>,
    /// The driver below has a send of ours.
    pub(super) in_flight: bool,
    /// Of so many bytes.
    pub(super) sealed_bytes: usize,
    /// So much came of its handshake, which the library may still have.
    pub(super) hello_bytes: usize,
    /// What it counts for among all (see `weights`).
    pub(super) weight: usize,
    /// It is to be given up.
    pub(super) failed: Option<Failure>,
}

impl Conn {
    pub(super) fn new(token: Token, peer: Peer, phase: Phase) -> Self {
        Self {
            // Replaced before anybody asks.
            inner: ConnId { index: u32::MAX, generation: u32::MAX },
            token,
            peer,
            phase,
            records: None,
            recv_on: true,
            reads: true,
            turn: None,
            crowd: None,
            in_work: false,
            input: Vec::new(),
            held: Vec::new(),
            heard: false,
            end: End::No,
            sending: None,
            in_flight: false,
            sealed_bytes: 0,
            hello_bytes: 0,
            weight: 0,
            failed: None,
        }
    }

    pub(super) fn is_client(&self) -> bool {
        matches!(self.peer, Peer::Client { .. })
    }

    /// With whom it shares its turns.
    pub(super) fn source(&self) -> Source {
        match self.peer {
            Peer::Client { source, .. } => source,
            Peer::Upstream { .. } => Source::Upstreams,
        }
    }

    /// Whether the driver below is to receive: during the handshake while there is room, then as the caller wants. Who waits for a turn is read, too, since
    /// an end that is not seen would cost a signature for nobody.
    pub(super) fn wants_read(&self) -> bool {
        match self.phase {
            Phase::Connecting => self.reads,
            Phase::Handshake => self.input.len() < INPUT_BYTES_MAX,
            Phase::Open => self.recv_on && self.end == End::No,
        }
    }

    /// Whether the peer may have ended its stream and still be worth the step that it waits for: it has our answer, and what it sent may be all that
    /// was missing; or it did not begin with TLS at all, which costs nothing and is to be told as that.
    pub(super) fn is_worth_its_turn(&self) -> bool {
        let is_known = match &self.records {
            None => self.input.first().is_some_and(|first| *first != HANDSHAKE),
            Some(records) => !self.is_client() || records.is_understood(),
        };
        self.turn.is_some() && is_known
    }

    /// The buffer that the caller gets back, when all of it is with the kernel.
    pub(super) fn take_sent(&mut self) -> Option<Vec<u8>> {
        let whole = self.sending.as_ref().is_some_and(|(buf, sealed)| *sealed == buf.len());
        if self.in_flight || !whole {
            return None;
        }
        self.sending.take().map(|(buf, _)| buf)
    }
}

/// The type of a record that every handshake begins with.
const HANDSHAKE: u8 = 22;
