//! One client: what it sent and was not processed, what it waits for, what goes out to it.
//!
//! ```text
//!   socket ─▶ [tail]─▶ scanner ─▶ request ─▶ place reserved ─▶ upstream … reply ─▶ [out] ─▶ socket
//!                 └ stays here while the client is *held*
//! ```
//! A client is *held* when its next request cannot be processed yet: it must wait for its own earlier replies, for an upstream,
//! for room. What it sends meanwhile stays in `tail`, and beyond a bound it is not read. When the reason is gone the engine
//! processes the tail again, from the request that was held.
//!
//! Not here: what its commands mean (`local`, `route`).
//!
//! Invariant: `tail` begins at the first byte of a request (or at the first byte not yet streamed of a large one), and the scanner's position
//! counts from there.

pub(crate) mod late;
pub mod places;

use crate::account::Charge;
use crate::awaited::Awaited;
use crate::beside::Beside;
use crate::command::CommandId;
use crate::ids::UpstreamId;
use crate::lease::Lease;
use crate::limits::{
    MOVED_REPLIES_MAX, SILENT_BYTES, WINDOW_BYTES, WINDOW_MIN, WINDOW_START, WINDOW_WARY,
};
use crate::login::words::Word;
use crate::output::Output;
use crate::pool::taken_bytes;
use crate::pubsub::Listening;
use crate::tenancy::TenantId;
use crate::time::Time;
use crate::tracking::Tracking;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use places::Places;
use resp::{Protocol, RequestScanner};

/// Why a client's next request is not processed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It is: nothing holds the client.
    No,
    /// All of its earlier requests must be answered first, because the next one changes its database or protocol or takes
    /// another connection.
    Drained,
    /// The upstream must become ready or down, or must have room. The client stands in that upstream's list.
    Upstream(UpstreamId),
    /// It had its turn: others have theirs before it goes on. Whether its next request is a large one (see `slow`).
    Turn(bool),
    /// Its replies must go out first: too many of its requests are unanswered, or too many bytes wait for it.
    Output,
    /// `CLIENT PAUSE`. The client stands in the engine's list.
    Paused,
    /// A policy lets its next request wait (see `policy`). The client stands in that one's list.
    Delayed,
    /// Its slot must get an owner, or its owner a successor. The client stands in the engine's list.
    Topology,
    /// A place among the large transfers must become free. The client stands in the engine's list.
    TransferSlot,
    /// A connection of its own must become free. The client stands in the engine's list.
    Lease,
    /// A place among the silent clients must become free (see `silence`). The client stands in the list of that module.
    SilentPlace,
    /// A write of the same key over another connection must be answered first, so that mirrors get both in order (see `mirror`).
    Mirror,
    /// It must be taken to the engine of another tenant, or of a login (see `tenancy`, `login`).
    Moving,
    /// A server must say whether a password is right, or whether its user may do this (see `login`).
    Word,
    /// Servers must say whether they have a command of this name (see `unknown`).
    Lookup,
    /// Not held, but in the middle of a large request: its bytes go straight to that upstream.
    Streaming(UpstreamId),
    /// Not held, but in the middle of a large request whose upstream is gone, or which is refused: its bytes are dropped to
    /// its end.
    Skipping,
}

/// What a client may do, as its user's rules say (see `acl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It must say who it is first.
    Nothing,
    /// Some of it, or there are policies: each request is looked at.
    Confined,
    /// All of it.
    Everything,
}

/// Whether replies are written (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// They are.
    On,
    /// They are not.
    Off,
    /// The reply to the next command is not. Set by `CLIENT REPLY SKIP`.
    SkipNext,
}

/// What is known of the size of a client's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// Nothing, and it has asked for nothing.
    Unknown,
    /// Nothing: it may ask for [`WINDOW_START`] replies to find out.
    Probing,
    /// Nothing, and others find out: it may ask for [`WINDOW_WARY`].
    Wary,
    /// Its recent mean.
    Known,
}

/// What is looked at rarely, kept apart so that the rest fits in few cache lines.
#[derive(Debug, Default)]
pub struct Identity {
    /// The client's address as Redis prints it.
    pub addr: String,
    /// Our address that it connected to.
    pub laddr: String,
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// What the listener that it came to is called, if its caller told.
    pub listener: Option<Arc<str>>,
    /// `CLIENT SETINFO lib-name`.
    pub lib_name: Vec<u8>,
    /// `CLIENT SETINFO lib-ver`.
    pub lib_ver: Vec<u8>,
    /// `CLIENT NO-EVICT on`.
    pub no_evict: bool,
    /// `CLIENT NO-TOUCH on`.
    pub no_touch: bool,
    /// It is shown what all clients ask for (see `monitor`).
    pub is_monitor: bool,
    /// Frames that wait until the reply that is going out is whole (see `push`).
    pub pushes: Vec<u8>,
    /// What of its input had to wait here.
    pub(crate) late: late::Late,
    /// The tenant of the listener that it came to.
    pub home: TenantId,
    /// What a server said of its next request.
    pub(crate) word: Option<Box<Word>>,
    /// Long-running request of the client: a blocking command, or a large request that it is sending.
    pub(crate) awaited: Option<Box<Awaited>>,
    /// Since when it has not said who it is; `None`: it has, or nobody has looked yet.
    pub(crate) unknown_since: Option<Time>,
    /// When respool last told the client that its earlier writes cannot be confirmed (see `unconfirmed`).
    pub(crate) told_of_loss_at: Option<Time>,
    /// How often the question was lost.
    pub(crate) words_lost: u8,
    /// Why it could not go to another tenant, until the request that wanted it is answered.
    pub(crate) move_refused: Option<&'static str>,
    /// It came from another tenant or login, and the request that led here is not answered yet.
    pub(crate) is_arriving: bool,
}

impl Identity {
    /// Bytes of what the client named itself, and of frames that wait.
    fn held_bytes(&self) -> usize {
        let Self {
            name,
            lib_name,
            lib_ver,
            pushes,
            word,
            awaited,
            // As long as an address or a name of the configuration.
            addr: _,
            laddr: _,
            listener: _,
            // At most `LATE_MAX`.
            late: _,
            // Numbers.
            no_evict: _,
            no_touch: _,
            is_monitor: _,
            home: _,
            words_lost: _,
            move_refused: _,
            is_arriving: _,
            unknown_since: _,
            told_of_loss_at: _,
        } = self;
        name.len()
            + lib_name.len()
            + lib_ver.len()
            + pushes.len()
            + word.as_ref().map_or(0, |word| word.held_bytes())
            + awaited.as_ref().map_or(0, |awaited| awaited.held_bytes())
    }
}

/// See the module.
#[derive(Debug)]
pub struct Client {
    /// `CLIENT ID`: unique in the process and growing.
    pub number: u64,
    /// Rarely needed.
    pub identity: Box<Identity>,
    /// Finds the ends of requests.
    pub scanner: RequestScanner,
    /// Input that is not processed yet.
    pub tail: Vec<u8>,
    /// Replies on their way.
    pub out: Output,
    /// Order of replies.
    pub places: Places,
    /// The upstream of the last request: still right unless it was retired or the client changed its key.
    pub upstream: Option<UpstreamId>,
    /// Which of a node's shared connections it uses: the same as long as it lives, so that its requests cannot overtake each other
    /// and it reads what it wrote.
    pub conn: u16,
    /// Which connection its last request took instead.
    pub(crate) beside: Beside,
    /// A connection of its own, while its commands hold state there.
    pub lease: Option<Box<Lease>>,
    /// What it listens to, if to anything.
    pub listening: Option<Box<Listening>>,
    /// What it caches, if it does.
    pub tracking: Option<Box<Tracking>>,
    /// Which owners of slots its last request was sent by (see `topology`).
    pub route_epoch: u32,
    /// Why nothing is processed.
    pub hold: Hold,
    /// RESP2 until `HELLO 3`.
    pub protocol: Protocol,
    /// Database.
    pub db: u32,
    /// What it may do.
    pub access: Access,
    /// Who it is: where its user stands in the settings.
    pub user: u32,
    /// `CLIENT REPLY`.
    pub reply_mode: ReplyMode,
    /// No more input is processed; closed when its replies are out.
    pub closing: bool,
    /// The driver reads from it.
    pub reading: bool,
    /// The peer sends no more.
    pub eof: bool,
    /// Its replies wait for those behind them, until then at most (see `cork`).
    pub(crate) corked_until: Option<Time>,
    /// It stands on the engine's resume queue; kept here so that it is there once.
    pub queued: bool,
    /// Upstreams whose reading is stopped because of this client; one that was lost meanwhile may still be among them.
    pub stalls: Vec<UpstreamId>,
    /// A reply went out in part (cut-through) from this upstream: if that dies, the client must be closed.
    pub mid_reply: Option<UpstreamId>,
    /// The last command that was looked at, for `CLIENT LIST`.
    pub last_command: Option<CommandId>,
    /// Recent mean size of its replies, in bytes.
    reply_bytes_mean: u32,
    /// What that is worth.
    pub(crate) sizes: Sizes,
    /// Bytes of the current reply that were cut through to it.
    cut_bytes: usize,
    /// What it has in the engine's account.
    pub charge: Charge,
    /// Replies that may wait for it beyond the marks, in bytes: it writes all before it reads (see `grants`).
    pub(crate) granted: usize,
    /// Its connection ends in front of this place (see `server_loss`).
    pub(crate) lost_at: Option<u32>,
    /// When the driver last reported that some of its output was sent.
    pub(crate) taken_at: Time,
    /// The last span of counting in which it sent something (see `Engine::end_epoch`).
    pub epoch: u32,
    /// When it connected.
    pub opened_at: Time,
    /// When it last sent something.
    pub input_at: Time,
}

impl Client {
    /// A client that just connected.
    pub fn new(number: u64, identity: Identity, now: Time) -> Self {
        Self {
            number,
            identity: Box::new(identity),
            scanner: RequestScanner::default(),
            tail: Vec::new(),
            out: Output::default(),
            places: Places::default(),
            upstream: None,
            lease: None,
            listening: None,
            tracking: None,
            conn: 0,
            beside: Beside::No,
            route_epoch: 0,
            hold: Hold::No,
            protocol: Protocol::Resp2,
            db: 0,
            access: Access::Nothing,
            user: 0,
            reply_mode: ReplyMode::On,
            closing: false,
            reading: true,
            eof: false,
            corked_until: None,
            queued: false,
            stalls: Vec::new(),
            mid_reply: None,
            last_command: None,
            reply_bytes_mean: (WINDOW_BYTES / WINDOW_START as u64) as u32,
            sizes: Sizes::Unknown,
            cut_bytes: 0,
            charge: Charge::default(),
            granted: 0,
            lost_at: None,
            taken_at: now,
            epoch: 0,
            opened_at: now,
            input_at: now,
        }
    }

    /// How many requests it may have unanswered, by the recent size of its replies.
    pub fn window(&self, inflight_max: u32) -> u32 {
        if self.sizes == Sizes::Wary {
            return WINDOW_WARY.min(inflight_max);
        }
        let fits = WINDOW_BYTES / u64::from(self.reply_bytes_mean.max(1));
        (fits.min(u64::from(inflight_max)) as u32).max(WINDOW_MIN.min(inflight_max))
    }

    /// How many requests for long replies the client may have unanswered while it takes no replies, by the recent size of its replies.
    pub(crate) fn silent_window(&self) -> u32 {
        if self.sizes != Sizes::Known {
            return WINDOW_MIN;
        }
        let fits = SILENT_BYTES / self.reply_bytes_mean.max(1);
        fits.clamp(1, WINDOW_MIN)
    }

    /// `count` replies of `bytes` together came: the mean follows, quickly where many came at once.
    #[inline]
    pub fn note_replies(&mut self, count: u32, bytes: usize) {
        if count == 0 {
            return;
        }
        let bytes = bytes + core::mem::take(&mut self.cut_bytes);
        // Most often it is one, and a division takes as long as all else here.
        let mean = if count == 1 { bytes } else { bytes / count as usize };
        let mean = mean.min(u32::MAX as usize) as u32;
        self.reply_bytes_mean = if count >= 8 {
            mean
        } else {
            self.reply_bytes_mean - self.reply_bytes_mean / 8 + mean / 8
        };
    }

    /// Its first replies: they are all that is known.
    #[cold]
    pub(crate) fn note_first_replies(&mut self, count: u32, bytes: usize) {
        if count > 0 {
            let bytes = bytes + core::mem::take(&mut self.cut_bytes);
            self.reply_bytes_mean = (bytes / count as usize).min(u32::MAX as usize) as u32;
            self.sizes = Sizes::Known;
        }
    }

    /// Whether replies to it have told their size.
    pub(crate) fn is_size_known(&self) -> bool {
        self.sizes == Sizes::Known
    }

    /// Whether what it waits for is little, as far as one knows.
    pub(crate) fn asks_for_little(&self) -> bool {
        let (open, mean) = (u64::from(self.places.open()), u64::from(self.reply_bytes_mean));
        match self.sizes {
            Sizes::Known => open * mean <= MOVED_REPLIES_MAX,
            // Nobody knows, but it has no more to ask for.
            Sizes::Unknown | Sizes::Probing | Sizes::Wary => open == 1 && self.hold == Hold::No,
        }
    }

    /// So many bytes of a reply went out before the rest of it came. They count when it is whole.
    pub fn note_part(&mut self, bytes: usize) {
        self.cut_bytes += bytes;
    }

    /// Bytes held for this client.
    pub fn held_bytes(&self) -> usize {
        self.flow_bytes() + self.rest_bytes()
    }

    /// Bytes in its buffers: what is not processed, and what is to go out. Of what grows piece by piece its room counts, as it takes memory, too.
    #[inline]
    pub(crate) fn flow_bytes(&self) -> usize {
        self.out.pending() + taken_bytes(&self.tail) + self.places.held_bytes()
    }

    /// The same at the most, in fewer steps: all room counts.
    #[inline]
    pub(crate) fn flow_bytes_max(&self) -> usize {
        self.out.pending() + self.tail.capacity() + self.places.room_bytes()
    }

    /// All else: frames that wait, names, its transaction, what it caches just now. What it listens to is counted with the topics. Every field is named: one
    /// that is added must be judged first.
    pub(crate) fn rest_bytes(&self) -> usize {
        let Self {
            identity,
            lease,
            tracking,
            // In `flow_bytes`.
            tail: _,
            out: _,
            places: _,
            // In `Subscriptions`.
            listening: _,
            // A bounded number of spans.
            scanner: _,
            // As many as connections to servers.
            stalls: _,
            // Numbers.
            number: _,
            upstream: _,
            conn: _,
            beside: _,
            route_epoch: _,
            hold: _,
            protocol: _,
            db: _,
            access: _,
            user: _,
            reply_mode: _,
            closing: _,
            reading: _,
            eof: _,
            corked_until: _,
            queued: _,
            mid_reply: _,
            last_command: _,
            reply_bytes_mean: _,
            cut_bytes: _,
            sizes: _,
            granted: _,
            lost_at: _,
            taken_at: _,
            charge: _,
            epoch: _,
            opened_at: _,
            input_at: _,
        } = self;
        identity.held_bytes()
            + lease.as_ref().map_or(0, |lease| lease.held_bytes())
            + tracking.as_ref().map_or(0, |tracking| tracking.held_bytes())
    }

    /// How many of its places are owed a reply before it may be closed.
    pub(crate) fn owed(&self) -> u32 {
        self.lost_at.map_or(self.places.open(), |at| at.wrapping_sub(self.places.head()))
    }

    /// Replies that wait for it, or for their turn.
    #[inline]
    pub(crate) fn waiting_out(&self) -> usize {
        self.out.pending() + self.places.ready_bytes()
    }

    /// Since when it has taken none of its output, at the latest: what it asked for last may have come only then.
    #[inline]
    pub(crate) fn untaken_since(&self) -> Time {
        self.taken_at.max(self.input_at)
    }

    /// Whether it said who it is, or need not.
    #[inline]
    pub fn is_authenticated(&self) -> bool {
        self.access != Access::Nothing
    }

    /// Nothing is owed to it and nothing of it waits.
    pub fn is_idle(&self) -> bool {
        self.places.open() == 0
            && self.out.pending() == 0
            && self.tail.is_empty()
            && self.hold == Hold::No
            && self.lease.is_none()
    }

    /// Whether its requests may take the short path: plain forwarding without a second look.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.is_plain_with(Access::Everything)
    }

    /// The same for a client that may do this much.
    #[inline]
    pub(crate) fn is_plain_with(&self, access: Access) -> bool {
        self.access == access
            && self.reply_mode == ReplyMode::On
            && self.lease.is_none()
            && self.tracking.is_none()
            && self.beside == Beside::No
            && !self.listens_in_resp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_size_of_replies() {
        let mut client = Client::new(1, Identity::default(), Time::default());
        assert_eq!(client.window(16_384), WINDOW_START);
        client.note_replies(64, 64 * 5);
        assert_eq!(client.window(16_384), 16_384);
        client.note_replies(10, 10 << 20);
        assert_eq!(client.window(16_384), WINDOW_MIN);
        assert_eq!(client.window(4), 4);
    }

    #[test]
    fn an_idle_client_takes_less_than_a_kibibyte() {
        let bytes = size_of::<Client>() + size_of::<Identity>();
        assert!(bytes < 1024, "{bytes} bytes");
    }
}
