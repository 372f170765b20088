//! Moving slots from node to node, in steps between which a test can stand still, or without end.
//!
//! The steps and their order are those of the cluster specification and of `redis-cli --cluster
//! reshard`. A client sees, in this order:
//!
//! ```text
//!   begin       target IMPORTING, source MIGRATING   present keys: served   absent: ASK
//!   move_keys   MIGRATE some keys                    moved keys: ASK        both kinds: TRYAGAIN
//!   finish      the rest, SETSLOT NODE everywhere    all keys: MOVED
//! ```
//!
//! Connections go to the servers themselves, past any relay: a partition of clients does not stop a
//! move.
//!
//! A target that does not know the source's epoch yet claims the slot with one that is no greater,
//! and loses it again to what the source had said before it gave the slot up; then nobody has it,
//! for ever. Slots that go back and forth quickly meet that, so a move begins when the target knows.
//!
//! Invariant: the target imports before the source migrates, and owns the slot before the source
//! gives it up, so that at no time a key has no node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::admin;
use crate::cluster::node::Peer;
use crate::cluster::view::Member;
use crate::conn::Conn;
use crate::wait;

/// Keys that one `MIGRATE` of [`SlotMove::finish`] and of [`Resharder`] takes: few, so that slots
/// stay open for a while.
const BATCH: usize = 10;
/// How long one `MIGRATE` may take, in milliseconds.
const MIGRATE_TIMEOUT_MS: &str = "5000";

/// How long news of an epoch takes at most; nodes tell each other everything once a second.
const GOSSIP_LIMIT: Duration = Duration::from_secs(10);

/// A slot on its way from one primary to another. Dropped in the middle, it stays half moved.
#[derive(Debug)]
#[must_use = "the slot stays half moved until `finish` or `cancel`"]
pub struct SlotMove {
    slot: u16,
    from: Link,
    to: Link,
    /// Other primaries, told at the end.
    others: Vec<Peer>,
}

#[derive(Debug)]
struct Link {
    peer: Peer,
    conn: Conn,
}

impl Link {
    fn to(peer: Peer) -> Result<Self, String> {
        Ok(Self { conn: peer.open()?, peer })
    }

    fn set_slot(&mut self, slot: u16, what: &[&str]) -> Result<(), String> {
        let slot = slot.to_string();
        let args = [&["CLUSTER", "SETSLOT", &slot], what].concat();
        admin::text(&mut self.conn, &args).map(drop)
    }

    /// The epoch with which a node claims its slots, as this one knows it.
    fn epoch_of(&mut self, id: &str) -> Result<u64, String> {
        let members = Member::read_all(&admin::text(&mut self.conn, &["CLUSTER", "NODES"])?)?;
        let member = members.iter().find(|member| member.id == id);
        member.map(|member| member.config_epoch).ok_or_else(|| format!("no node {id}"))
    }

    fn keys(&mut self, slot: u16, count: usize) -> Result<Vec<Vec<u8>>, String> {
        let (slot, count) = (slot.to_string(), count.to_string());
        admin::list(&mut self.conn, &["CLUSTER", "GETKEYSINSLOT", &slot, &count])
    }

    /// Sends keys away. Keys that are gone meanwhile are no error (`NOKEY`).
    fn migrate(&mut self, to: &Peer, keys: &[Vec<u8>]) -> Result<(), String> {
        let addr = to.endpoint.tcp();
        let (host, port) = (addr.ip().to_string(), addr.port().to_string());
        let mut args = vec!["MIGRATE", &host, &port, "", "0", MIGRATE_TIMEOUT_MS];
        args.extend(to.login.migrate_args());
        args.push("KEYS");
        let mut args: Vec<&[u8]> = args.into_iter().map(str::as_bytes).collect();
        args.extend(keys.iter().map(Vec::as_slice));
        admin::text(&mut self.conn, &args).map(drop)
    }
}

impl SlotMove {
    pub(crate) fn begin(
        slot: u16,
        from: Peer,
        to: Peer,
        others: Vec<Peer>,
    ) -> Result<Self, String> {
        let (mut from, mut to) = (Link::to(from)?, Link::to(to)?);
        let id = from.peer.id.clone();
        let epoch = from.epoch_of(&id)?;
        wait::poll(GOSSIP_LIMIT, || {
            to.epoch_of(&id).is_ok_and(|known| known >= epoch).then_some(())
        })
        .ok_or_else(|| format!("the target does not learn of epoch {epoch} of {id}"))?;
        to.set_slot(slot, &["IMPORTING", &from.peer.id])?;
        from.set_slot(slot, &["MIGRATING", &to.peer.id])?;
        Ok(Self { slot, from, to, others })
    }

    /// The slot.
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Moves at most so many of the keys that are still at the source. Gives their number; fewer
    /// than asked for means that none is left.
    ///
    /// # Errors
    /// When one of the two nodes does not do its part.
    pub fn move_keys(&mut self, count: usize) -> Result<usize, String> {
        let keys = self.from.keys(self.slot, count)?;
        if !keys.is_empty() {
            self.from.migrate(&self.to.peer, &keys)?;
        }
        Ok(keys.len())
    }

    /// Moves one key, so that a test knows which keys are where.
    ///
    /// # Errors
    /// As [`SlotMove::move_keys`].
    pub fn move_key(&mut self, key: &str) -> Result<(), String> {
        self.from.migrate(&self.to.peer, &[key.as_bytes().to_vec()])
    }

    /// Moves the keys that are left and gives the slot to the target. All other primaries that can
    /// be reached are told; the rest learns it from the target.
    ///
    /// # Errors
    /// As [`SlotMove::move_keys`].
    pub fn finish(mut self) -> Result<(), String> {
        while self.move_keys(BATCH)? > 0 {}
        let node = ["NODE", &self.to.peer.id.clone()];
        self.to.set_slot(self.slot, &node)?;
        self.from.set_slot(self.slot, &node)?;
        for other in &self.others {
            let _ = Link::to(other.clone()).and_then(|mut link| link.set_slot(self.slot, &node));
        }
        Ok(())
    }

    /// Moves keys back and leaves the slot where it was.
    ///
    /// # Errors
    /// As [`SlotMove::move_keys`].
    pub fn cancel(mut self) -> Result<(), String> {
        // The source first: it serves what it has and sends nobody to the target any more.
        self.from.set_slot(self.slot, &["STABLE"])?;
        loop {
            let keys = self.to.keys(self.slot, BATCH)?;
            if keys.is_empty() {
                return self.to.set_slot(self.slot, &["STABLE"]);
            }
            self.to.migrate(&self.from.peer, &keys)?;
        }
    }
}

/// Two primaries between which [`Resharder`] moves slots.
#[derive(Debug)]
pub(crate) struct Shuttle {
    /// Each slot, and which of the two ends has it now.
    pub(crate) slots: Vec<(u16, usize)>,
    pub(crate) ends: [Peer; 2],
    pub(crate) others: Vec<Peer>,
}

/// A thread that moves slots there and back again until it is stopped.
#[derive(Debug)]
pub struct Resharder {
    stop: Arc<AtomicBool>,
    moves: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Resharder {
    pub(crate) fn start(shuttle: Shuttle) -> Self {
        let (stop, moves) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (for_thread, count) = (Arc::clone(&stop), Arc::clone(&moves));
        let thread = thread::spawn(move || run(shuttle, &for_thread, &count));
        Self { stop, moves, thread: Some(thread) }
    }

    /// Slots moved so far.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Whether it has ended by itself, because of an error.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it at the next whole move: every slot has one owner then, be it this or that one. Gives
    /// the number of slots moved.
    ///
    /// # Errors
    /// What had stopped it earlier: a node that did not do its part, for example because it was
    /// killed.
    pub fn stop(mut self) -> Result<u64, String> {
        self.join()?;
        Ok(self.moves())
    }

    fn join(&mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err("the thread that moves slots has panicked".to_owned()),
            None => Ok(()),
        }
    }
}

impl Drop for Resharder {
    fn drop(&mut self) {
        // Whoever drops it does not ask how it went.
        let _ = self.join();
    }
}

fn run(mut shuttle: Shuttle, stop: &AtomicBool, moves: &AtomicU64) -> Result<(), String> {
    while !stop.load(Ordering::Acquire) {
        for (slot, end) in &mut shuttle.slots {
            if stop.load(Ordering::Acquire) {
                break;
            }
            let (from, to) = (&shuttle.ends[*end], &shuttle.ends[1 - *end]);
            SlotMove::begin(*slot, from.clone(), to.clone(), shuttle.others.clone())
                .and_then(SlotMove::finish)
                .map_err(|error| format!("slot {slot}: {error}"))?;
            *end = 1 - *end;
            moves.fetch_add(1, Ordering::AcqRel);
        }
    }
    Ok(())
}
