//! Requests that wait to be sent to another server, or to the same one again.
//!
//! What one client has parked goes in the order in which the client sent it: when its first is due they all go, and while that must wait they all wait.
//! So each client has a queue of its own, and who looks for what a client has parked does not look at everybody's.
//!
//! Not here: why a request is parked and where it goes (`redirect`, `rescue`), and what stood behind it meanwhile (`overtaken`).
//!
//! Invariant: a parked request has an open place (of its client or merge) and is in no FIFO; no queue is empty, and `bytes` is what they hold.
//! Only the first of a queue waits for a connection, and `waiting` names it.

use crate::behind::{TOUCH_BYTES, Ticket, Touches, Watch};
use crate::command::CommandId;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::limits::PARKED_BYTES_MAX;
use crate::overtaken::{Behind, Look, SentOn};
use crate::reject;
use crate::shares::{Group, Held};
use crate::stats::samples::Source;
use crate::time::Time;
use crate::topology::Place;
use crate::trust::{Question, Resolved};
use crate::upstream::UpstreamKey;
use crate::upstream::inflight::{Owner, Run};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

/// Where a parked request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To whoever owns its key when it is its turn.
    Place(Place),
    /// To this node, behind ASKING: its slot was on its way there at this time.
    Asking(NodeId, Time),
    /// To this node: the request has no key.
    Node(NodeId),
}

/// A request on its way to another server.
#[derive(Debug)]
pub(crate) struct Parked {
    pub owner: Owner,
    pub command: Option<CommandId>,
    pub bytes: Vec<u8>,
    /// What stands behind it in its transaction, up to EXEC, if it is the first of one that came whole: `bytes` has all of it, and `at` counts
    /// from its begin.
    pub rest: Vec<Run>,
    pub tries: u8,
    pub target: Target,
    /// Where its first key lies.
    pub place: Option<Place>,
    /// Who was named as the owner of its place. A table that was asked for meanwhile may be older than that, and those behind it are
    /// sent on to the same node: by another way they could overtake it.
    pub named: Option<NodeId>,
    /// That node was down.
    pub forgot: bool,
    /// The key of the connection that it was on: what else its client sends takes one like that.
    pub like: UpstreamKey,
    /// Not before.
    pub due: Time,
    /// Given up after.
    pub until: Time,
    /// It goes over its client's own connection.
    pub leased: bool,
    /// It waits for this connection.
    pub waits_for: Option<UpstreamId>,
    /// What its client had sent behind it to a server that did not serve it.
    pub behind: Option<Behind>,
    /// The last thing a server said to it, for the error text.
    pub said: String,
    /// Its reply may be data. What is to be known first.
    pub question: Option<Box<Question>>,
    /// The group that has the bytes of this request, from [`Engine::park`] on.
    pub group: Group,
}

impl Parked {
    /// One that goes to whoever owns its place, not before and not after these times.
    pub(crate) fn to_place(
        like: UpstreamKey,
        run: &Run,
        bytes: Vec<u8>,
        place: Place,
        (due, until): (Time, Time),
        said: &str,
    ) -> Self {
        Self {
            owner: run.owner,
            command: run.command,
            bytes,
            rest: Vec::new(),
            tries: run.tries.saturating_add(1),
            target: Target::Place(place),
            place: Some(place),
            named: None,
            forgot: false,
            like,
            due,
            until,
            leased: false,
            waits_for: None,
            behind: None,
            said: String::from(said),
            question: None,
            group: Group::default(),
        }
    }

    /// The reply that it got last, as far as it is kept.
    fn word(&self) -> Vec<u8> {
        [b"-", self.said.as_bytes()].concat()
    }

    /// Bytes that it holds.
    fn weight(&self) -> usize {
        let rest = self.rest.capacity() * size_of::<Run>();
        let touches = self.behind.as_ref().and_then(|behind| behind.touches.as_ref());
        let watched = touches.map_or(0, Touches::len) * TOUCH_BYTES;
        size_of::<Self>() + self.said.capacity() + rest + watched + self.asked_bytes()
    }

    /// Bytes of the request and of the reply that may be data: those that [`PARKED_BYTES_MAX`] is for.
    fn asked_bytes(&self) -> usize {
        self.bytes.len() + self.question.as_ref().map_or(0, |question| question.bytes())
    }
}

/// All of them, by client. Those of which nobody knows the client any more have a queue together.
#[derive(Debug, Default)]
pub(crate) struct ParkedRequests {
    queues: BTreeMap<Option<ClientId>, VecDeque<Parked>>,
    /// What they hold, for the account.
    bytes: usize,
    /// Bytes of the requests alone, by group: one group does not take all of [`PARKED_BYTES_MAX`].
    asked: Held,
    /// By connection: whose first request waits for it.
    waiting: BTreeMap<UpstreamId, BTreeSet<Option<ClientId>>>,
    /// Where those of each client went that were parked, as far as they may not be answered (see `overtaken`): one for a place and a connection.
    pub(crate) sent_on: BTreeMap<ClientId, Vec<SentOn>>,
    /// Those that wait for what stands behind them on a connection.
    watches: BTreeMap<(UpstreamId, ClientId), Watch>,
    /// When looks at what stands behind requests have rested long enough.
    pub(crate) looks_from: Time,
}

impl ParkedRequests {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// `before`: so many of its client's were sent before it.
    fn insert(&mut self, client: Option<ClientId>, before: usize, parked: Parked) {
        let queue = self.queues.entry(client).or_default();
        // One that is not the first any more looks for a connection again when it is.
        if before == 0
            && let Some(upstream) = queue.front_mut().and_then(|first| first.waits_for.take())
        {
            self.end_waiting(client, upstream);
        }
        self.add(client, &parked);
        self.queues.entry(client).or_default().insert(before, parked);
    }

    fn push_front(&mut self, client: Option<ClientId>, parked: Parked) {
        self.insert(client, 0, parked);
    }

    fn pop_front(&mut self, client: Option<ClientId>) -> Option<Parked> {
        let queue = self.queues.get_mut(&client)?;
        let parked = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&client);
        }
        if let Some(upstream) = parked.waits_for {
            self.end_waiting(client, upstream);
        }
        self.bytes -= parked.weight();
        self.asked.remove_many(parked.group, parked.asked_bytes());
        Some(parked)
    }

    fn add(&mut self, client: Option<ClientId>, parked: &Parked) {
        self.bytes += parked.weight();
        self.asked.add_many(parked.group, parked.asked_bytes());
        if let Some(upstream) = parked.waits_for {
            self.waiting.entry(upstream).or_default().insert(client);
        }
    }

    fn end_waiting(&mut self, client: Option<ClientId>, upstream: UpstreamId) {
        if let Some(clients) = self.waiting.get_mut(&upstream) {
            clients.remove(&client);
            if clients.is_empty() {
                self.waiting.remove(&upstream);
            }
        }
    }

    /// Whoever waits for this connection is looked at again.
    fn wake(&mut self, id: UpstreamId) {
        for client in self.waiting.remove(&id).unwrap_or_default() {
            if let Some(first) = self.queues.get_mut(&client).and_then(VecDeque::front_mut) {
                first.waits_for = None;
            }
        }
    }

    /// It waits for what stands behind it, if there is something.
    fn watch_for(&mut self, parked: &Parked) {
        if let Some(behind) = &parked.behind
            && let Some(touches) = &behind.touches
        {
            let watch = self.watches.entry((behind.upstream, behind.client)).or_default();
            watch.add(behind.ticket, touches);
        }
    }

    /// It waits for that no more.
    pub(crate) fn unwatch(&mut self, parked: &mut Parked) {
        let Some(behind) = parked.behind.take() else { return };
        let key = (behind.upstream, behind.client);
        if let Some(touches) = &behind.touches
            && let Some(watch) = self.watches.get_mut(&key)
            && watch.remove(behind.ticket, touches)
        {
            self.watches.remove(&key);
        }
    }

    /// What this client has parked that waits for what stands behind it on this connection.
    pub(crate) fn watch(&self, id: UpstreamId, client: ClientId) -> Option<&Watch> {
        self.watches.get(&(id, client))
    }

    /// See [`Watch::overtake`].
    pub(crate) fn overtake(
        &mut self,
        key: (UpstreamId, ClientId),
        seq: u32,
        later: &Touches,
    ) -> Vec<Ticket> {
        self.watches.get_mut(&key).map(|watch| watch.overtake(later, seq)).unwrap_or_default()
    }

    /// Whose parked requests wait for what stands behind them on this connection, and were not looked at yet.
    pub(crate) fn unsettled(&self, id: UpstreamId) -> impl Iterator<Item = ClientId> {
        let clients = ClientId::new(0, 0)..=ClientId::new(u32::MAX, u32::MAX);
        let of_connection = self.watches.range((id, *clients.start())..=(id, *clients.end()));
        of_connection.filter(|(_, watch)| watch.is_unsettled).map(|((_, client), _)| *client)
    }

    /// All of these were looked at; `known`: there is nothing left to find out.
    pub(crate) fn settle(&mut self, key: (UpstreamId, ClientId), known: bool) {
        if let Some(watch) = self.watches.get_mut(&key) {
            watch.is_unsettled = !known;
        }
    }

    pub(crate) fn first_mut(&mut self, client: ClientId) -> Option<&mut Parked> {
        self.queues.get_mut(&Some(client)).and_then(VecDeque::front_mut)
    }

    /// How many of what this client has parked stand before the first for which that does not hold.
    pub(crate) fn partition_point(
        &self,
        client: ClientId,
        is_before: impl FnMut(&Parked) -> bool,
    ) -> usize {
        self.queues.get(&Some(client)).map_or(0, |queue| queue.partition_point(is_before))
    }

    /// Of each client the one that goes first.
    fn firsts(&self) -> impl Iterator<Item = &Parked> {
        self.queues.values().filter_map(VecDeque::front)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Parked> {
        self.queues.values().flatten()
    }

    /// What each client has parked, in bytes. Of some nobody knows the client.
    pub(crate) fn by_client(&self) -> impl Iterator<Item = (ClientId, usize)> {
        self.queues.iter().filter_map(|(client, queue)| {
            client.map(|client| (client, queue.iter().map(Parked::weight).sum()))
        })
    }

    /// Checks the invariant; for debug builds.
    pub(crate) fn check(&self) {
        assert_eq!(self.bytes, self.all().map(Parked::weight).sum(), "bytes that are parked");
        self.asked.check(self.all().map(|parked| (parked.group, parked.asked_bytes())));
        assert!(self.queues.values().all(|queue| !queue.is_empty()), "an empty queue");
        let mut waiting: BTreeMap<UpstreamId, BTreeSet<_>> = BTreeMap::new();
        for (client, queue) in &self.queues {
            let behind = queue.iter().skip(1);
            assert!(behind.clone().all(|parked| parked.waits_for.is_none()), "not the first");
            if let Some(upstream) = queue.front().and_then(|first| first.waits_for) {
                waiting.entry(upstream).or_default().insert(*client);
            }
        }
        assert_eq!(self.waiting, waiting, "who waits for a connection");
        let mut watching: BTreeMap<(UpstreamId, ClientId), usize> = BTreeMap::new();
        for behind in self.all().filter_map(|parked| parked.behind.as_ref()) {
            *watching.entry((behind.upstream, behind.client)).or_default() += 1;
        }
        let watches: BTreeMap<_, _> =
            self.watches.iter().map(|(key, watch)| (*key, watch.count)).collect();
        assert_eq!(watches, watching, "who waits for what stands behind");
    }

    /// What this client has parked, in order.
    pub(crate) fn of(&self, client: Option<ClientId>) -> impl Iterator<Item = &Parked> {
        self.queues.get(&client).into_iter().flatten()
    }

    /// The same, to be changed.
    pub(crate) fn of_mut(&mut self, client: Option<ClientId>) -> impl Iterator<Item = &mut Parked> {
        self.queues.get_mut(&client).into_iter().flatten()
    }

    /// Nodes told what they know: whoever waits for that is looked at again.
    pub(crate) fn wake_questions(&mut self, now: Time) {
        let all = self.queues.values_mut().flatten();
        all.filter(|parked| parked.question.is_some()).for_each(|parked| parked.due = now);
    }

    /// Gives an answer to the question that takes it, of the client with this index, or of one that nobody knows any more.
    pub(crate) fn answer_question(
        &mut self,
        now: Time,
        index: u32,
        mut takes: impl FnMut(&mut Question) -> bool,
    ) {
        let of_client = Some(ClientId::new(index, 0))..=Some(ClientId::new(index, u32::MAX));
        let unknown = self.queues.contains_key(&None).then_some(None..=None);
        for range in [Some(of_client), unknown].into_iter().flatten() {
            for parked in self.queues.range_mut(range).flat_map(|(_, queue)| queue) {
                if let Some(question) = &mut parked.question
                    && takes(question)
                {
                    parked.due = now;
                    return;
                }
            }
        }
    }
}

impl Engine {
    pub(crate) fn park(&mut self, now: Time, mut parked: Parked) {
        // What its client sends from now on must not overtake this, nor a part of its request.
        let epoch = self.route_epoch;
        let id = self.client_of(parked.owner);
        match id.and_then(|id| self.clients.get_mut(id)) {
            Some(client) => {
                client.route_epoch = epoch.wrapping_sub(1);
                parked.group = Group::of(client, &self.settings.users);
            }
            // Nobody waits for it any more; but a merge must get its last part to end.
            None if matches!(parked.owner, Owner::Client { .. }) => return,
            None => {}
        }
        let given_up = match parked.question {
            // It is looked at before it is due.
            Some(_) => now >= parked.until,
            None => parked.due > parked.until,
        };
        let (group, bytes) = (parked.group, parked.asked_bytes());
        if given_up || !self.parked.asked.has_room_for_bytes(group, bytes, PARKED_BYTES_MAX) {
            return match &parked.question {
                // It may have been executed.
                Some(question) if question.may_be_data() => {
                    self.answer_with_data(now, &parked, &question.reply);
                }
                _ => self.give_up(now, &parked),
            };
        }
        // Mostly the last. One that was sent before and comes back goes first again.
        let queue = self.parked.queues.get(&id);
        let behind = queue.map_or(0, |queue| {
            queue.iter().rev().take_while(|other| self.goes_before(&parked, other)).count()
        });
        let before = queue.map_or(0, VecDeque::len) - behind;
        let touches = parked.behind.is_some().then(|| self.touches_of(&parked));
        if let Some(behind) = &mut parked.behind {
            behind.touches = touches;
        }
        self.parked.watch_for(&parked);
        self.parked.insert(id, before, parked);
        self.account_counted();
    }

    /// Requests of clients that are gone are not sent on any more.
    pub(crate) fn drop_unwanted_parked(&mut self) {
        let is_gone = |client: &Option<ClientId>| {
            client.is_some_and(|client| self.clients.get(client).is_none())
        };
        let gone: Vec<_> = self.parked.queues.keys().copied().filter(is_gone).collect();
        gone.into_iter().for_each(|client| self.drop_parked(client));
    }

    /// Drops all parked requests of this client.
    pub(crate) fn drop_parked(&mut self, client: Option<ClientId>) {
        while let Some(mut parked) = self.parked.pop_front(client) {
            self.parked.unwatch(&mut parked);
            // A merge ends with its last part, wanted or not.
            self.give_up(Time::default(), &parked);
        }
    }

    /// When the next parked request is to be looked at. Of each client only the first counts: the others go when it goes.
    pub(crate) fn parked_at(&self) -> Option<Time> {
        let firsts = self.parked.firsts().filter(|parked| parked.waits_for.is_none());
        firsts.map(|parked| self.look_at(parked)).min()
    }

    /// This upstream became ready or down: whoever is parked for it is looked at again.
    pub(crate) fn wake_parked(&mut self, id: UpstreamId) {
        self.parked.wake(id);
    }

    /// The nodes that parked requests are on their way to. One that gets its first slot is in nobody's table yet.
    pub(crate) fn targets(&self) -> impl Iterator<Item = NodeId> {
        self.parked.all().filter_map(|parked| match parked.target {
            Target::Asking(target, _) | Target::Node(target) => Some(target),
            Target::Place(_) => parked.named,
        })
    }

    /// Whether a parked request waits for this connection.
    pub(crate) fn waits_parked(&self, id: UpstreamId) -> bool {
        self.parked.waiting.contains_key(&id)
    }

    /// Sends on what is due.
    pub(crate) fn run_parked(&mut self, now: Time) {
        let is_due = |parked: &Parked| parked.waits_for.is_none() && parked.due <= now;
        let queues = self.parked.queues.iter();
        let due: Vec<_> = queues
            .filter(|(_, queue)| queue.front().is_some_and(is_due))
            .map(|(client, _)| *client)
            .collect();
        for client in due {
            loop {
                if let Some(client) = client {
                    self.look_if_due(now, client);
                }
                let Some(mut parked) = self.parked.pop_front(client) else { break };
                if self.waits_on(now, &mut parked) {
                    self.parked.push_front(client, parked);
                    break;
                }
                self.parked.unwatch(&mut parked);
            }
        }
    }

    /// Sends a parked request, or gives it up. Returns whether it must wait instead.
    fn waits_on(&mut self, now: Time, parked: &mut Parked) -> bool {
        if parked.waits_for.is_some() {
            return true;
        }
        if parked.question.is_some() {
            match self.resolve(now, parked) {
                Resolved::Open => return true,
                Resolved::Data(reply) => {
                    self.answer_with_data(now, parked, &reply);
                    return false;
                }
                Resolved::GoesOn if now >= parked.until => {
                    self.give_up(now, parked);
                    return false;
                }
                Resolved::GoesOn => self.stats.note_redirect(&parked.word()),
            }
        }
        match self.look_behind(parked) {
            Look::Go => {}
            Look::Wait if now < parked.until => return true,
            Look::Wait => {
                self.give_up(now, parked);
                return false;
            }
            Look::Overtaken => {
                let mut error = Vec::new();
                reject::write(&mut error, reject::OVERTAKEN);
                self.give_up_with(now, parked, &error);
                return false;
            }
        }
        let again_at = self.send_parked(now, parked);
        parked.due = again_at.unwrap_or(parked.due);
        again_at.is_some()
    }

    pub(crate) fn give_up(&mut self, now: Time, parked: &Parked) {
        let error = reject::gave_up(parked.tries, &parked.said);
        self.give_up_with(now, parked, &error);
    }

    /// Its reply was a script's.
    fn answer_with_data(&mut self, now: Time, parked: &Parked, reply: &[u8]) {
        self.leave_parked_lease(parked);
        self.stats.command(parked.command).failed += 1;
        let source = self.source_of(now, parked);
        self.stats.note_error(Source { node: Some(parked.like.node), ..source }, reply, 1);
        self.answer_owner(now, parked.owner, reply);
        self.give_up_rest(&parked.rest, reply);
    }

    fn source_of(&self, now: Time, parked: &Parked) -> Source {
        Source::own(now, parked.command, self.client_of(parked.owner))
    }

    /// Its client gets this error for it, and for all of a transaction.
    fn give_up_with(&mut self, now: Time, parked: &Parked, error: &[u8]) {
        self.leave_parked_lease(parked);
        self.stats.note_own_error(self.source_of(now, parked), error, 1);
        self.answer_owner(now, parked.owner, error);
        self.give_up_rest(&parked.rest, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Lane;

    fn client(index: u32) -> ClientId {
        ClientId::new(index, 1)
    }

    fn upstream(index: u32) -> UpstreamId {
        UpstreamId::new(index, 1)
    }

    /// A request of this client that waits for this connection, or for none.
    fn parked(index: u32, waits_for: Option<UpstreamId>) -> Parked {
        let (node, lane) = (NodeId::new(1, 1), Lane::Shared);
        let like = UpstreamKey { node, resp3: false, db: 0, lane, conn: 0, owner: None };
        let owner = Owner::Client { id: client(index), seq: 0, silent: false };
        let run = Run::new(owner, 1, None, Time::default(), 0);
        let times = (Time::default(), Time::default());
        let (bytes, place) = (b"GET k\r\n".to_vec(), Place { pool: 0, slot: 1 });
        Parked { waits_for, ..Parked::to_place(like, &run, bytes, place, times, "TRYAGAIN x") }
    }

    fn waiting(parked: &ParkedRequests, id: UpstreamId) -> usize {
        parked.waiting.get(&id).map_or(0, BTreeSet::len)
    }

    #[test]
    fn a_connection_knows_who_waits_for_it_however_much_is_parked() {
        let mut all = ParkedRequests::default();
        for index in 0..100 {
            all.push_front(Some(client(index)), parked(index, Some(upstream(index % 2))));
            (1..10).for_each(|before| all.insert(Some(client(index)), before, parked(index, None)));
        }
        all.check();
        assert_eq!((waiting(&all, upstream(0)), waiting(&all, upstream(1))), (50, 50));
        // Another one that goes before it looks for a connection itself.
        all.insert(Some(client(0)), 0, parked(0, None));
        // One that goes on waits no more.
        assert!(all.pop_front(Some(client(2))).is_some());
        all.check();
        assert_eq!((waiting(&all, upstream(0)), waiting(&all, upstream(1))), (48, 50));
        all.wake(upstream(1));
        all.check();
        assert_eq!((waiting(&all, upstream(0)), waiting(&all, upstream(1))), (48, 0));
        assert!(all.of(Some(client(1))).all(|parked| parked.waits_for.is_none()));
    }
}
