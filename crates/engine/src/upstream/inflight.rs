//! Who waits for the replies of one upstream connection.
//!
//! A server answers in the order it was asked, so a FIFO is enough: `push` when a request is written to the out buffer,
//! `answered` when its reply came. Consecutive requests of one client with one command in one turn are one entry with a count: a pipeline
//! of twenty GETs costs one. The proxy's own commands stand in the same FIFO. Those for whom nothing was written, as an equal request of somebody
//! else is on its way, stand beside it (`sharers`).
//!
//! Not here: the client's order (`client::places`). RESP3 pushes are no answers and must not come here.
//!
//! Invariant: the counts of all runs add up to the requests written and not yet answered, and whoever shares a reply waits for one of them. The length is
//! bounded by the clients' windows and by the upstream's high-water mark of unsent bytes.

use super::sharers::Sharers;
use crate::command::CommandId;
use crate::command::ids::EXEC;
use crate::ids::{ClientId, MergeId};
use crate::limits::SHARED_LOOKS_MAX;
use crate::limits::{OWN_LIST_BYTES, OWN_REPLY_BYTES};
use crate::time::Time;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A client that never is: whose reply is awaited elsewhere by now.
pub(crate) const NOBODY: ClientId = ClientId::new(0, 0);

/// A command that the proxy sends for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCommand {
    /// `HELLO n [AUTH …] [SETNAME …]`: the greeting.
    Hello,
    /// `AUTH`, in the greeting of a server that knows no HELLO.
    Auth,
    /// `SELECT db`, in the greeting.
    Select,
    /// `CLIENT SETNAME`, in the greeting of a server that knows no HELLO. A failure does no harm.
    SetName,
    /// `COMMAND`: learns the commands that the table does not know.
    Learn,
    /// `COMMAND INFO`: whether the server has commands of these names; the number of the round (see `unknown`).
    Lookup(u32),
    /// `READONLY`: lets a replica of a cluster answer reads. `READWRITE` reverts it.
    ReadOnly,
    /// `MULTI`, before the first command of a transaction whose node is known.
    Multi,
    /// `DISCARD` or `SELECT` on a client's own connection. With an error it is not in the state in which it is taken to be, and is closed.
    State,
    /// Something on a client's own connection whose reply tells nothing.
    Aside,
    /// `SUBSCRIBE`, `UNSUBSCRIBE` and their kin, one topic each.
    Listen,
    /// `PING` behind a `SUNSUBSCRIBE`, or behind a message of a changed key: everything before its answer is older.
    Fence,
    /// `EXISTS` over a tracked connection: from its answer on changes of these keys are told.
    Mark,
    /// `CLIENT TRACKING`, right behind the greeting.
    Track,
    /// Something of the near cache.
    Near(NearCommand),
    /// Nothing is sent: the reply to a client's read is to be compared with that of a mirror (see `mirror::shadow`). It stands beside the queue only.
    Shadow(u32),
    /// `SCRIPT LOAD`, before a script is called that this connection has not loaded.
    Script,
    /// `SCRIPT EXISTS` behind NOSCRIPT, `EXISTS` behind MOVED and ASK: whether the server or the script said so (see `trust`). The number of the question.
    Question(u64),
    /// `ASKING`, before a request that a server sent on to the next owner of its slot.
    Asking,
    /// `CLUSTER INFO`: whether the node takes its cluster for whole.
    Standing,
    /// `CLUSTER SLOTS`: who owns what.
    Slots,
    /// `CLUSTER NODES`: whether the node gives slots away.
    Nodes,
    /// `CLIENT UNBLOCK`: ends the wait on a client's own connection.
    Unblock,
    /// `PING` or `FUNCTION RESTORE` in front of `WAIT`: moves the connection's write offset (see `write_offset`).
    Offset {
        /// PING stands in front, so the server may be too old to have this command.
        may_lack: bool,
    },
    /// `PING`: whether a quiet connection is still one.
    Ping,
    /// `FUNCTION LIST`: which functions do not write.
    Functions,
    /// `ROLE`: how a node is.
    Role,
    /// `SENTINEL MYID`: which sentinel it is.
    MyId,
    /// `SENTINEL MASTER`: the epoch of its configuration.
    Epoch,
    /// `SENTINEL GET-MASTER-ADDR-BY-NAME`: who the primary is.
    Primary,
    /// `SENTINEL SLAVES`: who its replicas are.
    Replicas,
    /// `SENTINEL SENTINELS`: who the other sentinels are.
    Sentinels,
    /// What a client said in AUTH, or a question for what it may do (see `login`).
    Word,
    /// `ECHO` of this secret word behind a request whose reply may hold line breaks (see `delimiter`).
    Delimiter(u64),
    /// A command that no server has, with this secret word as its name: ECHO was not taken (see `delimiter`).
    Unknown(u64),
}

impl OwnCommand {
    /// How the cause names it when a connection is closed because the server refused it.
    pub(crate) fn needed(self) -> &'static str {
        match self {
            Self::Multi => "MULTI",
            Self::State => "DISCARD or SELECT",
            _ => "CLIENT TRACKING",
        }
    }

    /// A longer reply closes the connection: a server that sends one is none, and until it is whole it is kept for nobody's account.
    pub(crate) fn reply_bytes_max(self) -> usize {
        match self {
            // Lists: of commands, functions, nodes, or of what a client asked about.
            Self::Learn | Self::Lookup(_) | Self::Functions | Self::Word => OWN_LIST_BYTES,
            Self::Slots | Self::Nodes | Self::Replicas | Self::Sentinels => OWN_LIST_BYTES,
            // It is a client's, which has its bounds.
            Self::Near(NearCommand::Fill | NearCommand::Check) | Self::Shadow(_) => OWN_LIST_BYTES,
            Self::Hello | Self::Auth | Self::Select | Self::SetName | Self::ReadOnly => {
                OWN_REPLY_BYTES
            }
            Self::Multi | Self::State | Self::Aside | Self::Listen | Self::Fence | Self::Mark => {
                OWN_REPLY_BYTES
            }
            Self::Track | Self::Near(_) | Self::Script | Self::Question(_) => OWN_REPLY_BYTES,
            Self::Asking | Self::Standing | Self::Unblock => OWN_REPLY_BYTES,
            Self::Ping | Self::Offset { .. } => OWN_REPLY_BYTES,
            Self::MyId
            | Self::Epoch
            | Self::Role
            | Self::Primary
            | Self::Delimiter(_)
            | Self::Unknown(_) => OWN_REPLY_BYTES,
        }
    }
}

/// What the near cache sends, or has of a client's read (see `near`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearCommand {
    /// `CLIENT TRACKING ON REDIRECT`: a feed is to tell of what is read over this connection.
    Arm,
    /// `CLIENT CACHING YES`: of the read behind it.
    Caching,
    /// Nothing is sent: the reply to a client's read is kept. It stands beside the queue only, as what shares a reply.
    Fill,
    /// The same, and it is compared with what is kept.
    Check,
    /// `PING` over a feed: everything before its answer was told.
    Heard,
}

/// Who gets the replies of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A client; its place of the first of these replies. `silent`: the client asked for no replies (`CLIENT REPLY`).
    Client {
        /// Whom.
        id: ClientId,
        /// Place of the next reply of this run.
        seq: u32,
        /// The replies are dropped, their places pass.
        silent: bool,
    },
    /// One part of a request that went to several servers.
    Part {
        /// Which request.
        merge: MergeId,
        /// Which part of it.
        part: u32,
    },
    /// The proxy itself.
    Own(OwnCommand),
}

/// Consecutive requests of one owner.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Who waits.
    pub owner: Owner,
    /// Number of replies to come; at least 1.
    pub count: u32,
    /// Which command, for the statistics; `None` if the table does not know it.
    pub command: Option<CommandId>,
    /// When it was written.
    pub sent_at: Time,
    /// Where the run's first request stands in the connection's output.
    pub at: u64,
    /// Requests of the run, from `at` on, that are answered already.
    pub done: u32,
    /// How often these requests were sent before: sent on, which are one request each, or asked for again (see `backlog`).
    pub tries: u8,
    /// Until when it may be sent on; known from the first time on.
    pub until: Time,
    /// Whether it stands in a transaction.
    pub bond: Bond,
    /// What stands before and behind it.
    pub marks: Marks,
    /// Nothing was written for it: it gets the reply to the request at `at`, which is another client's (see `coalesce`).
    pub shares: bool,
}

/// What the proxy sends before and behind a request; in one byte, as runs are copied for each reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    const ASKING: u8 = 1;
    const DELIMITED: u8 = 2;

    /// Of a request that is sent behind `ASKING`, or not.
    #[must_use]
    pub const fn behind_asking(asking: bool) -> Self {
        Self(if asking { Self::ASKING } else { 0 })
    }

    /// Whether it was sent behind `ASKING`.
    #[must_use]
    pub const fn is_behind_asking(self) -> bool {
        self.0 & Self::ASKING != 0
    }

    /// Whether it is one request whose reply ends where the delimiter behind it begins, or a delimiter (see `delimiter`).
    #[inline]
    #[must_use]
    pub const fn is_delimited(self) -> bool {
        self.0 & Self::DELIMITED != 0
    }

    fn set_delimited(&mut self) {
        self.0 |= Self::DELIMITED;
    }
}

/// How a request belongs to others on its connection: a transaction that was written at once (`whole`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// It does not.
    None,
    /// The run begins with the first command behind MULTI.
    First,
    /// Anything else in a transaction, MULTI and EXEC too.
    Later,
}

impl Run {
    /// Requests that were never sent on before.
    #[inline]
    pub fn new(
        owner: Owner,
        count: u32,
        command: Option<CommandId>,
        sent_at: Time,
        at: u64,
    ) -> Self {
        let (until, bond) = (Time::default(), Bond::None);
        let (marks, shares) = (Marks::default(), false);
        let (done, tries) = (0, 0);
        Self { owner, count, command, sent_at, at, done, tries, until, bond, marks, shares }
    }

    /// Takes `later` in if it continues this run.
    #[inline]
    fn join(&mut self, later: &Self) -> bool {
        let follows = match (self.owner, later.owner) {
            (
                Owner::Client { id, seq, silent },
                Owner::Client { id: later_id, seq: later_seq, silent: later_silent },
            ) => {
                id == later_id
                    && seq.wrapping_add(self.count) == later_seq
                    && silent == later_silent
            }
            (Owner::Part { merge, part }, Owner::Part { merge: later_merge, part: later_part }) => {
                merge == later_merge && part.wrapping_add(self.count) == later_part
            }
            _ => false,
        };
        let joins = follows
            && self.command == later.command
            && self.sent_at == later.sent_at
            && self.tries == 0
            && later.tries == 0
            && self.bond == Bond::None
            && later.bond == Bond::None;
        if joins {
            self.count += later.count;
        }
        joins
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Inflight {
    runs: VecDeque<Run>,
    requests: usize,
    /// How many were answered or abandoned, ever.
    answered: u64,
    /// Who waits for the same replies.
    sharers: Sharers,
}

impl Inflight {
    /// `run.count` requests were written.
    #[inline]
    pub fn push(&mut self, run: Run) {
        self.requests += run.count as usize;
        if let Some(last) = self.runs.back_mut()
            && last.join(&run)
        {
            return;
        }
        self.runs.push_back(run);
    }

    /// The request that was written last, which did not join others, has a delimiter behind it, or is one.
    pub(crate) fn delimit_last(&mut self) {
        if let Some(last) = self.runs.back_mut() {
            debug_assert!(last.count == 1, "several replies before one delimiter");
            last.marks.set_delimited();
        }
    }

    /// The delimiter that the front request is, or that is behind it.
    pub(crate) fn delimiter(&self) -> Option<u64> {
        self.runs.iter().take(2).find_map(|run| match run.owner {
            Owner::Own(OwnCommand::Delimiter(word)) => Some(word),
            _ => None,
        })
    }

    /// Whether the answer to a question for a topology is owed.
    pub fn owes_topology(&self) -> bool {
        let asks =
            |run: &Run| matches!(run.owner, Owner::Own(OwnCommand::Slots | OwnCommand::Primary));
        self.runs.iter().any(asks)
    }

    /// Returns whether a reply to `CLUSTER NODES` is outstanding.
    pub fn owes_members(&self) -> bool {
        self.runs.iter().any(|run| run.owner == Owner::Own(OwnCommand::Nodes))
    }

    /// Whether the server has not yet said that it tracks what it was asked to.
    pub fn owes_tracking(&self) -> bool {
        self.runs.iter().any(|run| run.owner == Owner::Own(OwnCommand::Track))
    }

    /// This client asks for what the request at this place asks for, and gets the same reply; `run` is its own.
    pub(crate) fn share(&mut self, place: u64, run: Run) {
        debug_assert!((self.answered..self.end()).contains(&place), "nothing is there to share");
        self.sharers.add(place, run);
    }

    /// Whether this client may share the request at this place: one more may, and nothing of the client stands there or behind. `is_idle`: the client
    /// has nothing on its way anywhere.
    pub(crate) fn may_share(&self, place: u64, client: ClientId, is_idle: bool) -> bool {
        self.sharers.has_room(place) && (is_idle || !self.has_from(place, client))
    }

    /// Whether something of this client may stand at this place or behind it. Of a part nobody knows here whose it is.
    fn has_from(&self, place: u64, client: ClientId) -> bool {
        let mut begin = self.end();
        for (looks, run) in self.runs.iter().rev().enumerate() {
            if begin <= place {
                break;
            }
            let may_be = match run.owner {
                Owner::Client { id, .. } => id == client,
                Owner::Part { .. } => true,
                Owner::Own(_) => false,
            };
            if may_be || looks == SHARED_LOOKS_MAX {
                return true;
            }
            begin -= u64::from(run.count);
        }
        self.sharers.shares_from(client, place, SHARED_LOOKS_MAX)
    }

    /// Who shares the front request.
    pub(crate) fn front_sharers(&self) -> &[Run] {
        self.sharers.of(self.answered)
    }

    /// Takes those out that share the request that was answered last; to be given back by [`Self::end_share`].
    pub(crate) fn take_sharers(&mut self) -> Option<Vec<Run>> {
        self.sharers.take_before(self.answered)
    }

    /// They got their replies.
    pub(crate) fn end_share(&mut self, runs: Vec<Run>) {
        self.sharers.give_back(runs);
    }

    /// All runs, oldest first.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// All of them, and all that share their replies.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(self.sharers.all())
    }

    /// The same, each with the place of its first request.
    pub(crate) fn waiting_at(&self) -> impl Iterator<Item = (u64, &Run)> {
        let runs = self.runs.iter().scan(self.answered, |place, run| {
            let at = *place;
            *place += u64::from(run.count);
            Some((at, run))
        });
        runs.chain(self.sharers.all_at())
    }

    /// How many requests were answered or abandoned, ever: the place of the next one.
    #[inline]
    pub fn place(&self) -> u64 {
        self.answered
    }

    /// The place of the next request that is written.
    #[inline]
    pub fn end(&self) -> u64 {
        self.answered + self.requests as u64
    }

    /// Calls `each` for the requests with these places, which must grow: with the run of each, and how many requests of the run stand before
    /// it, those included that are answered. The last comes first. A place that is answered already is passed over.
    pub fn locate(&self, places: &[u64], mut each: impl FnMut(&Run, u32)) {
        let Some((mut last, mut left)) = places.split_last() else { return };
        let mut begin = self.end();
        // By its two halves: the ring's own iterator costs several times as much for each run that is passed.
        let (older, newer) = self.runs.as_slices();
        for half in [newer, older] {
            for run in half.iter().rev() {
                begin -= u64::from(run.count);
                while *last >= begin {
                    // Within the run, so it fits.
                    each(run, run.done + (*last - begin) as u32);
                    let Some(next) = left.split_last() else { return };
                    (last, left) = next;
                }
            }
        }
    }

    /// The place behind the last run for which `is_meant` holds, or whose reply such a one shares; `None`: there is none. Looks at so many runs; where there
    /// are more, those count as meant.
    pub fn place_behind(&self, looks_max: usize, is_meant: impl Fn(&Run) -> bool) -> Option<u64> {
        let shared = self.sharers.last_place(looks_max, &is_meant).map(|place| place + 1);
        let mut end = self.end();
        for (looks, run) in self.runs.iter().rev().enumerate() {
            if looks == looks_max || is_meant(run) {
                return Some(end).max(shared);
            }
            end -= u64::from(run.count);
        }
        shared
    }

    /// Who gets the next reply.
    #[inline]
    pub fn front(&self) -> Option<&Run> {
        self.runs.front()
    }

    /// Who gets the last one.
    pub(crate) fn back(&self) -> Option<&Run> {
        self.runs.back()
    }

    /// Whether anybody shares anything.
    #[inline]
    pub(crate) fn has_sharers(&self) -> bool {
        !self.sharers.is_empty()
    }

    /// How many of the front run's requests, of which there are so many, are answered alike: those up to the first that is shared, or that one. And whether
    /// it is that one.
    #[cold]
    pub(crate) fn alike(&self, count: u32) -> (u32, bool) {
        let Some(place) = self.sharers.first_place() else { return (count, false) };
        // At most the count, so it fits.
        let unshared = (place - self.answered).min(u64::from(count)) as u32;
        (unshared.max(1), unshared == 0)
    }

    /// The next `count` replies came; they belong to the front run.
    #[inline]
    pub fn answered(&mut self, count: u32) {
        let Some(front) = self.runs.front_mut() else {
            debug_assert!(count == 0, "a reply that nobody waits for");
            return;
        };
        debug_assert!(count <= front.count, "more replies than the run has requests");
        self.requests -= count as usize;
        self.answered += u64::from(count);
        front.count -= count;
        front.done += count;
        if front.count == 0 {
            self.runs.pop_front();
            return;
        }
        match &mut front.owner {
            Owner::Client { seq, .. } => *seq = seq.wrapping_add(count),
            Owner::Part { part, .. } => *part += count,
            Owner::Own(_) => {}
        }
    }

    /// Where the oldest unanswered request's run stands; `None` if nobody waits.
    #[inline]
    pub fn kept_from(&self) -> Option<u64> {
        self.runs.front().map(|run| run.at)
    }

    /// The EXEC of the transaction that the front run stands in.
    pub fn end_of_transaction(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.command == Some(EXEC))
    }

    /// Takes the runs of a transaction out, from the front one to EXEC. What the server still answers to them goes to nobody.
    pub fn disown_transaction(&mut self) -> Vec<Run> {
        let mut taken: Vec<Run> = Vec::new();
        while taken.last().is_none_or(|run| run.command != Some(EXEC))
            && let Some(run) = self.runs.pop_front()
        {
            taken.push(run);
        }
        for run in taken.iter().rev() {
            let owner = Owner::Own(OwnCommand::Aside);
            // Of the proxy's own each has its entry.
            for _ in 0..run.count {
                let own = Run::new(owner, 1, None, run.sent_at, run.at);
                self.runs.push_front(Run { marks: run.marks, ..own });
            }
        }
        taken
    }

    /// Takes the front run out: the connection is gone and will not answer. Behind a request that is shared come those that share it, and then what is
    /// left of its run.
    pub fn abandon(&mut self) -> Option<Run> {
        if let Some(run) = self.sharers.take_one_before(self.answered) {
            return Some(run);
        }
        let mut run = *self.runs.front()?;
        if let Some(place) = self.sharers.first_place() {
            run.count = (place + 1 - self.answered).min(u64::from(run.count)) as u32;
        }
        self.answered(run.count);
        Some(run)
    }

    /// Requests that wait for a reply.
    #[inline]
    pub fn len(&self) -> usize {
        self.requests
    }

    /// Bytes of what is known of them.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        (self.runs.len() + self.sharers.len()) * size_of::<Run>()
    }

    /// Whether nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes the requests of such clients out of their runs: what the server answers to them goes to nobody. In their order.
    pub(crate) fn disown(&mut self, is_meant: impl Fn(ClientId) -> bool) -> Vec<Run> {
        let mut taken = Vec::new();
        for run in &mut self.runs {
            if let Owner::Client { id, seq, .. } = run.owner
                && is_meant(id)
            {
                taken.push(*run);
                run.owner = Owner::Client { id: NOBODY, seq, silent: true };
            }
        }
        taken
    }

    /// When the oldest request of someone else than this client was written; `None` if nobody else waits.
    pub fn others_since(&self, client: ClientId) -> Option<Time> {
        let other = |run: &&Run| match run.owner {
            Owner::Client { id, .. } => id != client && id != NOBODY,
            Owner::Own(OwnCommand::Delimiter(_)) => false,
            Owner::Part { .. } | Owner::Own(_) => true,
        };
        let since = |run: &Run| run.sent_at;
        let shared = self.sharers.all().find(other).map(since);
        self.runs.iter().find(other).map(since).into_iter().chain(shared).min()
    }

    /// Checks the invariant; for debug builds.
    pub fn check(&self) {
        assert_eq!(self.requests, self.runs.iter().map(|run| run.count as usize).sum::<usize>());
        assert!(self.runs.iter().all(|run| run.count > 0), "an empty run");
        assert!(!self.runs.iter().any(|run| run.shares), "a run without a request");
        self.sharers.check(self.answered..self.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ids::GET;

    fn run(client: u32, seq: u32, count: u32) -> Run {
        let owner = Owner::Client { id: ClientId::new(client, 1), seq, silent: false };
        Run::new(owner, count, Some(GET), Time(7), 0)
    }

    #[test]
    fn a_pipeline_is_one_entry_and_is_answered_in_parts() {
        let mut inflight = Inflight::default();
        inflight.push(run(1, u32::MAX, 2));
        inflight.push(run(1, 1, 3));
        inflight.push(run(2, 0, 1));
        assert_eq!((inflight.runs.len(), inflight.len()), (2, 6));
        inflight.answered(4);
        assert!(matches!(inflight.front().unwrap().owner, Owner::Client { seq: 3, .. }));
        assert_eq!(inflight.others_since(ClientId::new(1, 1)), Some(Time(7)));
        assert_eq!(Inflight::default().others_since(ClientId::new(1, 1)), None);
        inflight.answered(1);
        assert_eq!(inflight.place(), 5);
        inflight.check();
        assert_eq!(inflight.abandon().unwrap().count, 1);
        assert!(inflight.is_empty());
    }

    #[test]
    fn requests_are_found_by_their_places() {
        let mut inflight = Inflight::default();
        for (client, count) in [(1, 3), (2, 1), (3, 4)] {
            inflight.push(run(client, 0, count));
        }
        inflight.answered(1);
        assert_eq!((inflight.place(), inflight.end()), (1, 8));
        let mut found = Vec::new();
        inflight.locate(&[0, 1, 2, 3, 6, 7], |run, before| found.push((run.count, before)));
        assert_eq!(found, [(4, 3), (4, 2), (1, 0), (2, 2), (2, 1)]);
    }

    #[test]
    fn the_last_of_a_client_is_found_from_behind() {
        let mut inflight = Inflight::default();
        for (client, count) in [(1, 2), (2, 3), (1, 4), (3, 5)] {
            inflight.push(run(client, client * 100 + count, count));
        }
        inflight.answered(1);
        let place_behind = |inflight: &Inflight, client: u32, looks_max: usize| {
            let id = ClientId::new(client, 1);
            let is_meant =
                |run: &Run| matches!(run.owner, Owner::Client { id: of, .. } if of == id);
            inflight.place_behind(looks_max, is_meant)
        };
        assert_eq!(place_behind(&inflight, 1, 10), Some(9));
        assert_eq!(place_behind(&inflight, 2, 10), Some(5));
        assert_eq!(place_behind(&inflight, 3, 10), Some(14));
        assert_eq!(place_behind(&inflight, 4, 10), None);
        // Nobody looked further, so it may be there.
        assert_eq!(place_behind(&inflight, 2, 1), Some(9));
        inflight.answered(1);
        assert_eq!((inflight.place(), place_behind(&inflight, 1, 10)), (2, Some(9)));
    }

    fn sharer(client: u32, seq: u32) -> Run {
        Run { shares: true, ..run(client, seq, 1) }
    }

    fn client_of(run: &Run) -> u32 {
        match run.owner {
            Owner::Client { id, .. } => id.index,
            _ => panic!("not a client's"),
        }
    }

    #[test]
    fn what_is_shared_is_answered_by_itself() {
        let mut inflight = Inflight::default();
        inflight.push(run(1, 0, 5));
        inflight.share(2, sharer(3, 0));
        inflight.share(2, sharer(2, 0));
        inflight.check();
        let alike = |inflight: &Inflight| {
            let (count, is_shared) = inflight.alike(inflight.front().unwrap().count);
            assert_eq!(is_shared, !inflight.front_sharers().is_empty());
            count
        };
        assert_eq!((alike(&inflight), inflight.front_sharers().len()), (2, 0));
        inflight.answered(2);
        assert_eq!((alike(&inflight), inflight.front_sharers().len()), (1, 2));
        assert!(inflight.take_sharers().is_none(), "it is not answered yet");
        inflight.answered(1);
        let sharers = inflight.take_sharers().unwrap();
        assert_eq!(sharers.iter().map(client_of).collect::<Vec<_>>(), [3, 2]);
        inflight.end_share(sharers);
        assert_eq!((alike(&inflight), inflight.front_sharers().len()), (2, 0));
        inflight.check();
    }

    #[test]
    fn what_is_shared_is_abandoned_in_its_order() {
        let mut inflight = Inflight::default();
        inflight.push(run(1, 0, 3));
        inflight.push(run(2, 0, 1));
        inflight.share(3, sharer(5, 0));
        inflight.share(1, sharer(3, 0));
        inflight.share(1, sharer(4, 0));
        assert_eq!(inflight.others_since(ClientId::new(1, 1)), Some(Time(7)));
        let runs: Vec<_> = core::iter::from_fn(|| inflight.abandon()).collect();
        let told: Vec<_> =
            runs.iter().map(|run| (client_of(run), run.count, run.done, run.shares)).collect();
        let expected = [
            (1, 2, 0, false),
            (3, 1, 0, true),
            (4, 1, 0, true),
            (1, 1, 2, false),
            (2, 1, 0, false),
            (5, 1, 0, true),
        ];
        assert_eq!(told, expected);
        assert_eq!((inflight.is_empty(), inflight.len()), (true, 0));
        inflight.check();
    }

    #[test]
    fn who_has_something_there_or_behind_does_not_share() {
        let mut inflight = Inflight::default();
        for client in 1..4 {
            inflight.push(run(client, 0, 2));
        }
        let may = |inflight: &Inflight, client, place| {
            inflight.may_share(place, ClientId::new(client, 1), false)
        };
        assert!(!may(&inflight, 1, 0) && !may(&inflight, 1, 1), "its own");
        assert!(may(&inflight, 1, 2) && may(&inflight, 1, 5), "its own are before");
        assert!(!may(&inflight, 3, 0) && may(&inflight, 4, 0));
        inflight.share(3, sharer(4, 0));
        assert!(!may(&inflight, 4, 2) && !may(&inflight, 4, 3) && may(&inflight, 4, 4));
        let part = Owner::Part { merge: MergeId::new(0, 0), part: 0 };
        inflight.push(Run::new(part, 1, Some(GET), Time(7), 0));
        assert!(!may(&inflight, 4, 5) && !may(&inflight, 4, 6), "a part may be anybody's");
        assert!(inflight.may_share(5, ClientId::new(4, 1), true), "it has nothing on its way");
        let own = Owner::Own(OwnCommand::Ping);
        inflight.push(Run::new(own, 1, None, Time(7), 0));
        assert!(may(&inflight, 9, 7));
    }

    #[test]
    fn only_so_many_share_and_only_so_far_is_looked() {
        let mut inflight = Inflight::default();
        inflight.push(run(1, 0, 1));
        let may =
            |inflight: &Inflight, client| inflight.may_share(0, ClientId::new(client, 1), false);
        for client in 2..2 + crate::limits::SHARERS_MAX as u32 {
            assert!(may(&inflight, client));
            inflight.share(0, sharer(client, 0));
        }
        assert!(!may(&inflight, 1_000));
        inflight.check();
        let mut inflight = Inflight::default();
        inflight.push(run(1, 0, 1));
        for client in 2..2 + SHARED_LOOKS_MAX as u32 {
            assert!(may(&inflight, 1_000));
            inflight.push(run(client, 0, 1));
        }
        assert!(!may(&inflight, 1_000), "nobody looked at the first of them");
    }
}
