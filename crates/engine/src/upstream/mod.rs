//! One connection to the server: its state, what waits to be sent, and who waits for replies.
//!
//! ```text
//!   Idle ─connect─▶ Connecting ─connected─▶ Greeting ─replies good─▶ Ready
//!                       │                      │                      │ closed, overdue reply, malformed reply
//!                       └──── failed ──────────┴──▶ Down ◀────────────┘ (from Ready first Connecting again, at once)
//!                                                    └─ after backoff ─▶ Connecting
//! ```
//! Poison rule: a connection on which a reply is overdue, malformed or was abandoned half way is closed and never used again;
//! whoever waits on it gets an error that names the node and the cause. That is how a reply never reaches the wrong request.
//!
//! Not here: sockets, and the choice of an upstream for a request (`route`).
//!
//! Invariant: requests are written only while `Ready` (the greeting's while `Greeting`), and `inflight` is empty in every
//! other state.

pub mod backoff;
pub mod greeting;
pub mod inflight;
pub(crate) mod roles;
mod sharers;

use crate::account::Charge;
use crate::backlog::{Pace, requests_max};
use crate::defect::Refused;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::{KEPT_BYTES_MAX, SHORT_LIFE_US, STALL_MIN_US, TURN_BYTES};
use crate::output::Output;
use crate::removal::Edge;
use crate::scripts::Digest;
use crate::settings::Timeouts;
use crate::shares::Group;
use crate::slowlog::Pulse;
use crate::stats::node::Traffic;
use crate::time::Time;
use crate::topology::Place;
use crate::waiting::Waiting;
use crate::write_offset::MovedBy;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use inflight::Inflight;
use resp::{Protocol, ReplyScanner};

/// Which traffic shares a connection: all requests with an equal key may be multiplexed with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UpstreamKey {
    /// The server.
    pub node: NodeId,
    /// RESP2 and RESP3 clients see different reply types, so their connections are kept apart instead of translating.
    pub resp3: bool,
    /// Database, selected once in the greeting.
    pub db: u32,
    /// Ordinary or control.
    pub lane: Lane,
    /// Which of several alike: that of the client (`Client::conn`). 0 where there is one, and for what the proxy asks itself.
    pub conn: u16,
    /// The one client whose it is, as the server must tell its writes from those of others (see `tracking`); `None`: it is shared.
    pub owner: Option<ClientId>,
}

impl UpstreamKey {
    /// The protocol of this connection.
    pub fn protocol(&self) -> Protocol {
        if self.resp3 { Protocol::Resp3 } else { Protocol::Resp2 }
    }
}

/// Why there is a second connection with the same protocol and database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Ordinary commands.
    Shared,
    /// A sentinel: our own questions, and its messages.
    Sentinel,
    /// Requests of clients that cache what they read; the server tracks it (see `tracking`).
    Tracked,
    /// The same of clients that are told of every change of keys with certain prefixes.
    Broadcast,
    /// What servers tell of replies that are kept (see `near`).
    Feed,
    /// Topics that clients listen to (see `pubsub`).
    Messages,
    /// Another respool of the facade: nothing but our question whether it lives (see `peers`).
    Peer,
    /// `AUTH` of clients who may be users of the server, and nothing else (see `login`).
    Login,
    /// Commands that must not queue behind a running script: `SCRIPT KILL`, `FUNCTION KILL`, `FUNCTION STATS`.
    Control,
}

impl Lane {
    /// Whether clients' requests go over it.
    pub(crate) fn carries_requests(self) -> bool {
        !matches!(self, Self::Sentinel | Self::Peer | Self::Messages | Self::Feed | Self::Login)
    }

    /// Whether clients hear of messages or invalidations over it, so that it cannot end while they listen.
    pub(crate) fn is_feed(self) -> bool {
        matches!(self, Self::Messages | Self::Broadcast)
    }

    /// Whether the server tells of changed keys over it, by pushes.
    pub(crate) fn tells(self) -> bool {
        matches!(self, Self::Tracked | Self::Broadcast | Self::Feed)
    }
}

/// What was asked for the sake of pages of SCAN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paged {
    /// Where the last question begins in what is sent.
    pub(crate) begins_at: Option<u64>,
    /// Questions that are not answered, others of the same kind among them.
    pub(crate) open: u32,
}

/// Who may use a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Every client whose requests have its key.
    Shared,
    /// Nobody new: a slow client held it up, those that wait on it are still served, then it is closed.
    Retired,
    /// One client that streams a large request.
    Transfer(ClientId),
    /// One client whose commands hold state there.
    Leased(ClientId),
    /// One part of one client's blocking command.
    Errand(ClientId),
    /// Nobody for the moment: kept for the next large request or lease.
    Spare(Time),
}

impl Role {
    /// Whether it is one client's, for as long as its command lasts.
    pub fn is_private(self) -> bool {
        matches!(self, Self::Leased(_) | Self::Errand(_))
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not connected, and nobody asked.
    Idle,
    /// A connect is under way since then.
    Connecting(Time),
    /// Connected, the greeting's replies are awaited since then.
    Greeting(Time),
    /// In use.
    Ready,
    /// The connect or the greeting failed. Requests fail at once until a connect succeeds.
    Down(Down),
}

/// Why an upstream is down, and until when it is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// The next connect is not before.
    pub until: Time,
    /// The server's own error reply (without the `-`), if that was the cause: a refused SELECT or HELLO is answered with it.
    pub refused: Option<Vec<u8>>,
}

/// Reading is stopped because this client takes its reply more slowly than the server gives it.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// Who is slow.
    pub client: ClientId,
    /// Since when reading is stopped.
    pub since: Time,
    /// When the client last took something, or asked for it.
    pub progress_at: Time,
    /// When the oldest request of someone else that waits behind it was written; `None` if nobody waits.
    pub others_since: Option<Time>,
}

/// Requests that a connection took and never sent.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) bytes: Vec<u8>,
    /// Where each stands is counted from the first byte.
    pub(crate) runs: Vec<inflight::Run>,
}

/// See the module.
#[derive(Debug)]
pub struct Upstream {
    /// What it is for.
    pub key: UpstreamKey,
    /// Who may use it.
    pub role: Role,
    /// The group of the client that it serves alone, or served last.
    pub(crate) group: Group,
    /// The command that it was taken for waits at the server.
    pub(crate) blocks: bool,
    /// Where it is in its life.
    pub state: State,
    /// Requests on their way.
    pub out: Output,
    /// Who waits.
    pub inflight: Inflight,
    /// Up to this place of `inflight` replies are looked at one by one: a request that the server did not serve waits for what stands behind it
    /// (see `overtaken`).
    pub watched_until: u64,
    /// Finds the ends of replies.
    pub scanner: ReplyScanner,
    /// Bytes of a reply that is not whole and was not cut through.
    pub tail: Vec<u8>,
    /// Bytes of the current reply that a client has already (or that were dropped because it is gone).
    pub forwarded: u64,
    /// The current frame is a push: skipped to its end.
    pub in_push: bool,
    /// A reply waits in the tail for the bytes of its request, which the driver has.
    pub waits_for_buffer: bool,
    /// Clients held until this upstream is ready, down, or less congested.
    pub waiters: Waiting,
    /// Reading is stopped.
    pub stall: Option<Stall>,
    /// respool sent `READONLY`: a replica of a cluster answers reads over this connection.
    pub readonly: bool,
    /// How long clients that take nothing have stopped reading on this connection while others waited, in microseconds. They have
    /// the stall timeout together: many of them hold the others up no longer than one.
    pub stalled_us: u64,
    /// When bytes last moved in either direction.
    pub progress_at: Time,
    /// The client whose script was sent last over this connection, if it is known, and the place behind its reply (`trials`).
    pub(crate) last_script: Option<(Option<ClientId>, u64)>,
    /// The place of the next reply when `busy` last looked, and the first look that saw this place, if a script was under way.
    pub(crate) script_seen: Option<(u64, Time)>,
    /// Where a request was last found in the output (`redirect`): where its run begins, how many stand before it, and where it stands.
    pub(crate) found: Cell<(u64, u32, u64)>,
    /// The last error reply that said that a frame is no protocol (`defect`).
    pub(crate) refused: Option<Box<Refused>>,
    /// Where the key of the large request lies whose bytes are not kept (`transfer`).
    pub(crate) streamed_place: Option<Place>,
    /// Up to this place of the queue requests were passed that could have been looked at (`hotkeys`).
    pub(crate) sampled_to: u64,
    /// Where names become others, in both directions, if the servers know them by others (`removal`).
    pub(crate) edge: Option<Box<Edge>>,
    /// What never left the connection before this one: it goes out first when this one is ready.
    pub(crate) carried: Option<Carried>,
    /// The connection that is made to take its place (see `backlog`).
    pub(crate) relief: Option<UpstreamId>,
    /// How large its replies are.
    pub(crate) pace: Pace,
    /// When its last reply came, for the slow log.
    pub(crate) slow: Pulse,
    /// How many replies it had brought at the last look at its speed, and how many requests waited.
    pub(crate) at_look: (u64, u64),
    /// How long the way to the server and back takes at most, in microseconds (see `speed`).
    pub(crate) way_us: u64,
    /// Failed connects in a row.
    pub failures: u32,
    /// The server refused the greeting when it was last down: it lives.
    pub(crate) is_refused: bool,
    /// Why it was last down, in words, without the node's name: `connect: Connection refused`.
    pub cause: String,
    /// From when on a request that finds it down has it tried again, and waits for how that ends; `None`: not before its time, as it took long the
    /// last time, or others can do the work.
    pub(crate) tried_from: Option<Time>,
    /// When it last became ready.
    pub ready_at: Time,
    /// The place of the first request behind the greeting.
    pub(crate) ready_place: u64,
    /// The server may take its time until then: the command under way waits for something (for ever: the end of time).
    pub no_reply_before: Option<Time>,
    /// Questions before pages of SCAN.
    pub(crate) paged: Paged,
    /// Epoch that a sentinel told before its next answer.
    pub(crate) told_epoch: Option<u64>,
    /// When it is looked at again: not after its deadline (`timers`).
    pub(crate) wake_at: Option<Time>,
    /// The id that the connection has at its server; `None` if that has not told it.
    pub server_id: Option<u64>,
    /// The commands that move the connection's write offset.
    pub(crate) offset_moved_by: MovedBy,
    /// Scripts that were loaded over this connection.
    pub(crate) scripts: BTreeSet<Digest>,
    /// What went over it; its requests are counted by `inflight`, and `traffic.requests` is what that had at the last reset of the counters.
    pub(crate) traffic: Traffic,
    /// Connections in a row that did not last (see `limits::SHORT_LIFE_US`).
    pub short_lives: u32,
    /// Sent bytes that are kept at most: at the bound it counts as full.
    pub(crate) kept_max_bytes: usize,
    /// Requests that may wait for replies: fewer while replies are large (see `backlog`).
    pub(crate) requests_max: usize,
    /// What it has in the engine's account of single clients.
    pub(crate) charge_own: Charge,
    /// The same, of all that use it.
    pub(crate) charge: Charge,
}

impl Upstream {
    /// One that is not connected.
    pub fn new(key: UpstreamKey, role: Role) -> Self {
        Self {
            key,
            role,
            group: Group::default(),
            blocks: false,
            state: State::Idle,
            out: Output::default(),
            inflight: Inflight::default(),
            scanner: ReplyScanner::default(),
            tail: Vec::new(),
            forwarded: 0,
            in_push: false,
            waits_for_buffer: false,
            waiters: Waiting::default(),
            stall: None,
            readonly: false,
            stalled_us: 0,
            progress_at: Time::default(),
            last_script: None,
            script_seen: None,
            found: Cell::new((u64::MAX, 0, 0)),
            watched_until: 0,
            refused: None,
            streamed_place: None,
            sampled_to: 0,
            edge: None,
            carried: None,
            relief: None,
            pace: Pace::default(),
            slow: Pulse::default(),
            at_look: (0, 0),
            way_us: 0,
            failures: 0,
            is_refused: false,
            cause: String::new(),
            tried_from: None,
            ready_at: Time::default(),
            ready_place: 0,
            no_reply_before: None,
            paged: Paged::default(),
            told_epoch: None,
            wake_at: None,
            server_id: None,
            offset_moved_by: MovedBy::default(),
            scripts: BTreeSet::new(),
            traffic: Traffic::default(),
            short_lives: 0,
            kept_max_bytes: KEPT_BYTES_MAX,
            requests_max: requests_max(&key, 0, false),
            charge_own: Charge::default(),
            charge: Charge::default(),
        }
    }

    /// What went over it since the counters began.
    pub(crate) fn traffic(&self) -> Traffic {
        let requests = self.inflight.end() - self.traffic.requests;
        Traffic { requests, ..self.traffic }
    }

    /// The counters begin again.
    pub(crate) fn reset_traffic(&mut self) {
        self.traffic = Traffic { requests: self.inflight.end(), ..Traffic::default() };
    }

    /// Appends a request to the output; returns where it stands.
    #[inline]
    pub fn append(&mut self, pool: &mut crate::pool::BufferPool, bytes: &[u8]) -> u64 {
        let at = self.out.position();
        self.out.buf(pool).extend_from_slice(bytes);
        at
    }

    /// Whether it takes more: neither too much waits to be sent nor too much is kept for the case that it must be sent on, nor do too many requests
    /// wait for replies. While clients wait for room, each of them gets a little of it in its turn. Of requests with large replies a server has a few at a
    /// time: it answers all that it has read before it looks at anybody else.
    #[inline(always)]
    pub fn has_room(&self, out_high_bytes: usize) -> bool {
        let high = match self.waiters.is_empty() {
            true => out_high_bytes,
            false => out_high_bytes.min(TURN_BYTES),
        };
        self.has_room_for_bytes(high)
            && (self.inflight.len() < self.requests_max || self.has_ended_trial())
    }

    /// Whether less is to be sent than this, and little is kept.
    #[inline(always)]
    pub(crate) fn has_room_for_bytes(&self, high: usize) -> bool {
        self.out.pending() < high
            && self.out.kept_bytes() < self.kept_max_bytes
            && self.inflight.bytes() < self.kept_max_bytes
    }

    /// Whether replies are looked at one by one.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.inflight.place() < self.watched_until
    }

    /// Whether requests may be written now, unsent bytes apart.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    /// Whether every command of its greeting was answered.
    pub(crate) fn has_greeted(&self) -> bool {
        matches!(self.state, State::Greeting(_)) && self.inflight.is_empty()
    }

    /// Whether `CLIENT TRACKING` was written over it.
    pub(crate) fn asked_to_tell(&self) -> bool {
        self.is_ready() || self.inflight.owes_tracking()
    }

    /// Whether it is being made, and nothing says yet that it will not be.
    pub(crate) fn is_coming(&self) -> bool {
        matches!(self.state, State::Connecting(_) | State::Greeting(_)) && self.failures == 0
    }

    /// Whether bytes can travel. Of one that was lost and connects again, late events of the old connection can still come in the same
    /// turn; they are of no interest.
    #[inline]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Greeting(_) | State::Ready)
    }

    /// Whether there is a socket.
    pub fn has_socket(&self) -> bool {
        matches!(self.state, State::Connecting(_) | State::Greeting(_) | State::Ready)
    }

    /// The connection ends. Returns whether it and the one before it both lasted for a moment only. `ours`: respool ends it.
    pub(crate) fn note_life(&mut self, now: Time, timeouts: &Timeouts, ours: bool) -> bool {
        // A timeout says nothing of the next connection. A malformed reply does: respool would connect without end to a server that sends
        // one in reply to the greeting.
        let overdue = self.overdue_at(timeouts).is_some_and(|at| at <= now);
        let short = !overdue && now.since(self.ready_at) < SHORT_LIFE_US;
        self.short_lives = if short { self.short_lives + 1 } else { 0 };
        if ours {
            // A server that refuses the first words each time is tried again with growing waits.
            self.failures = self.short_lives.saturating_sub(2);
        }
        self.short_lives > 1
    }

    /// Whether it is down only as its last connections were short (`CLIENT KILL` at the server, say), and no connect has failed since.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.short_lives > 1 && self.failures == 1
    }

    /// Whether it shows that its node cannot be reached. That the node refuses the greeting is an answer.
    pub fn is_away(&self) -> bool {
        match &self.state {
            State::Down(down) => down.refused.is_none(),
            State::Connecting(_) | State::Greeting(_) => self.failures > 0,
            State::Idle | State::Ready => false,
        }
    }

    /// When something must be done about it if nothing happens before; `None`: never.
    pub fn deadline(&self, timeouts: &Timeouts) -> Option<Time> {
        match &self.state {
            State::Idle => None,
            State::Connecting(since) | State::Greeting(since) => {
                Some(since.plus_ms(timeouts.connect_ms))
            }
            // No request asks for the connection that tells clients of all changes.
            State::Down(down) if self.key.lane == Lane::Broadcast => Some(down.until),
            State::Down(down) => down.refused.is_none().then_some(down.until),
            State::Ready => self.ready_deadline(timeouts),
        }
    }

    fn ready_deadline(&self, timeouts: &Timeouts) -> Option<Time> {
        if let Some(stall) = &self.stall {
            // Alone it harms nobody and may take its time.
            let others_since = stall.others_since?;
            // Those behind are owed an answer within the request timeout, however the client in front goes on.
            let owed = others_since.plus_ms(timeouts.request_ms);
            let owed = (timeouts.request_ms > 0).then_some(owed);
            let patience_ends = stall.progress_at + self.patience_us(timeouts);
            return owed.into_iter().chain([patience_ends]).min();
        }
        if let Role::Spare(since) = self.role {
            return Some(since.plus_ms(crate::limits::SPARE_IDLE_MS));
        }
        if self.key.lane == Lane::Peer {
            return self.inflight.front().map(|run| run.sent_at.plus_ms(timeouts.connect_ms));
        }
        if self.inflight.is_empty() {
            // On a connection of its own a PING could end up in a transaction.
            return (timeouts.ping_ms > 0 && self.role == Role::Shared)
                .then(|| self.progress_at.plus_ms(timeouts.ping_ms));
        }
        self.overdue_at(timeouts)
    }

    /// For how long a client may take nothing while others wait behind it, until this connection is read all the same.
    pub(crate) fn patience_us(&self, timeouts: &Timeouts) -> u64 {
        let stall_us = timeouts.stall_ms.saturating_mul(1_000);
        stall_us.saturating_sub(self.stalled_us).max(STALL_MIN_US)
    }

    /// Something was written: if this connection is stalled, somebody else than the slow client may wait behind it now.
    #[inline]
    pub(crate) fn note_others(&mut self) {
        if let Some(stall) = self.stall.as_mut().filter(|stall| stall.others_since.is_none()) {
            stall.others_since = self.inflight.others_since(stall.client);
        }
    }

    /// Whoever waits on a stalled connection is known to do so, or has only just been written; for debug builds.
    pub(crate) fn check_stall(&self) {
        if let Some(stall) = self.stall.filter(|stall| stall.others_since.is_none()) {
            let others = self.inflight.others_since(stall.client);
            assert!(self.out.dirty || others.is_none(), "others wait on a stopped connection");
        }
    }

    /// When the oldest request counts as unanswered: no byte moved for the request timeout since it was written.
    pub fn overdue_at(&self, timeouts: &Timeouts) -> Option<Time> {
        if timeouts.request_ms == 0 {
            return None;
        }
        let front = self.inflight.front()?;
        let since = front.sent_at.max(self.progress_at);
        let since = self.no_reply_before.map_or(since, |before| before.max(since));
        (since != Time(u64::MAX)).then(|| since.plus_ms(timeouts.request_ms))
    }

    /// The server answered so many of the front requests.
    #[inline(always)]
    pub(crate) fn answered(&mut self, count: u32) {
        self.inflight.answered(count);
        if let Some(edge) = &mut self.edge {
            edge.answered(count);
        }
    }

    /// Forgets everything of a connection that is gone. The caller has emptied `inflight` before.
    pub fn reset(&mut self, pool: &mut crate::pool::BufferPool) {
        debug_assert!(self.inflight.is_empty(), "someone still waits on a connection that is gone");
        self.out.clear(pool);
        if let Some(edge) = &mut self.edge {
            edge.reset();
        }
        self.scanner.reset();
        pool.give(core::mem::take(&mut self.tail));
        self.scripts.clear();
        (self.server_id, self.offset_moved_by) = (None, MovedBy::default());
        self.forwarded = 0;
        self.in_push = false;
        self.waits_for_buffer = false;
        (self.paged, self.told_epoch) = (Paged::default(), None);
        self.stall = None;
        self.stalled_us = 0;
    }
}
