//! Subscriptions: many clients listen, a server sees one listener per worker.
//!
//! ```text
//!   client a ─ SUBSCRIBE news ─┐                      ┌─ SUBSCRIBE news ─▶ server   (once, for the first of them)
//!   client b ─ SUBSCRIBE news ─┴─▶ topic "news" ──────┤
//!   client a ◀─ message ─┬────────  listeners  ◀──────┴─ message ◀──────── server   (once)
//!   client b ◀─ message ─┘
//! ```
//! A *topic* is a channel, a pattern or a shard channel that somebody listens to. Each worker has one connection per server for all of them,
//! on a lane of its own and in RESP2, where a message is the same bytes as a RESP3 push but for the first one.
//!
//! A client gets the confirmation when the server has confirmed to us, so what is published afterwards reaches it, and nobody counts the last
//! one any more after it left. A client that leaves gets everything that was published before: its
//! confirmation waits for a round trip on the connection over which the topic is heard (`Leaving`).
//! From the confirmation on a lost
//! connection, a failover or a slot that moves is made good here: the topic is subscribed to again, wherever it belongs now. What is published
//! in between is lost, as it is for a client that connects again itself.
//!
//! Files: `commands` SUBSCRIBE, `leaving` UNSUBSCRIBE, `links` the servers' side, `homes` where a topic belongs, `handover` how a topic changes its server, `recent` what was heard before, `gone` clients that are gone, `fanout` messages on their way to
//! clients, `count` how many listen.
//!
//! Not here: PUBLISH on its way to a server (`request`, `scatter`).
//!
//! Invariant: a client stands among a topic's listeners exactly if the topic stands in its own list;
//! a topic that nobody listens to, waits for or leaves is gone.

mod commands;
mod count;
mod fanout;
mod gone;
mod handover;
mod homes;
mod leaving;
mod links;
mod recent;

pub(crate) use commands::{is_said_while_listening, verb};
pub(crate) use count::Listeners;

use crate::client::Client;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::inside::Inside;
use crate::limits::{RELINK_TOPICS_PER_TURN, SUBSCRIBED_BYTES_MAX, UNANSWERED_TOPICS_BYTES_MAX};
use crate::local::Call;
use crate::shares::{Group, Held, is_share};
use crate::time::Time;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use gone::Gone;
use handover::Handover;
use homes::HomesSeen;
use leaving::Leaving;
use recent::Recent;

/// Name of a topic, held once however many listen.
pub(crate) type Name = Arc<[u8]>;

/// What kind of topic; each has its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE: at the owner of its slot.
    Shard,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    /// The words of commands and replies, begin and end of listening.
    fn words(self) -> [&'static [u8]; 2] {
        match self {
            Self::Channel => [b"subscribe", b"unsubscribe"],
            Self::Pattern => [b"psubscribe", b"punsubscribe"],
            Self::Shard => [b"ssubscribe", b"sunsubscribe"],
        }
    }

    fn subscribed(self) -> &'static [u8] {
        self.words()[0]
    }

    fn unsubscribed(self) -> &'static [u8] {
        self.words()[1]
    }
}

/// All topics of one worker.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    topics: [BTreeMap<Name, Topic>; 3],
    /// What each connection was asked and has not confirmed, in that order.
    asked: BTreeMap<UpstreamId, Unanswered>,
    /// Queued SUBSCRIBEs and UNSUBSCRIBEs of each connection, in order. respool sends them at the end of the turn, or when the connection has room again.
    unsaid: BTreeMap<UpstreamId, VecDeque<Asked>>,
    /// Bytes of these.
    unsaid_bytes: usize,
    /// Clients that leave a topic to which others listen, by the connection that is asked for its
    /// fence at the end of the turn: one for all of them.
    fences_due: BTreeMap<UpstreamId, Vec<Waiter>>,
    /// Clients that wait for each fence under way, in the order of the fences.
    fences: BTreeMap<UpstreamId, VecDeque<Vec<Waiter>>>,
    /// Clients that wait for confirmations and until when, in the order of the times. Of those that were served the entry stays till then.
    waits: VecDeque<(Time, ClientId)>,
    /// When all topics are looked at again: somewhere one may not be where it belongs.
    relink_at: Option<Time>,
    /// The last topic that a look at all topics has reached; such a look takes several turns.
    pass: Option<Option<(Kind, Name)>>,
    /// Single topics that respool looks at again, by time.
    looks: BTreeSet<(Time, Kind, Name)>,
    /// The owners of slots by which they were last looked at.
    route_epoch: u32,
    /// Bytes of names, for each client that listens.
    bytes: usize,
    /// [`Listening::held_bytes`] by group: one group does not take all of [`SUBSCRIBED_BYTES_MAX`].
    held: Held,
    /// How many listen at the other workers, as far as they told.
    elsewhere: BTreeMap<(Kind, Name), BTreeMap<u32, u32>>,
    /// What the others know of ours.
    told: BTreeMap<(Kind, Name), u32>,
    /// Topics whose number of listeners changed since the others were told.
    changed: BTreeSet<(Kind, Name)>,
    /// For lists of listeners.
    scratch: Vec<ClientId>,
    /// What was heard a moment ago, where topics can go to another server.
    recent: Recent,
    /// Clients that are gone and stand among listeners still.
    gone: Gone,
    /// Clients that leave more topics than a turn allows, in the order of their next parts.
    leavers: VecDeque<ClientId>,
    /// Clients that wait for messages on the bus of a cluster before they leave topics, by the time when they leave.
    settling: BTreeSet<(Time, ClientId)>,
    /// The homes of channels, as far as changes are concerned.
    homes: HomesSeen,
}

/// What a topic takes beside its name, with its first listener and its connection (measured: 456 bytes with glibc's malloc).
const TOPIC_BYTES: usize = 460;

/// What is known of a topic of other workers, or known to them, beside its name.
const TOLD_BYTES: usize = 192;

/// One topic.
#[derive(Debug, Default)]
struct Topic {
    listeners: BTreeSet<ClientId>,
    /// Clients whose SUBSCRIBE waits for it.
    waiting: BTreeSet<ClientId>,
    /// Clients whose UNSUBSCRIBE is not confirmed: they get what was published before it.
    leaving: BTreeSet<ClientId>,
    /// Where it is subscribed to.
    links: Vec<Link>,
    /// How often it was sent on since it was last confirmed.
    tries: u8,
    /// It goes from one server to another just now.
    handover: Option<Box<Handover>>,
    /// When it last went to another server.
    moved: Option<Time>,
    /// The time of the next look at this topic: its entry in [`Subscriptions::looks`].
    look_at: Option<Time>,
}

/// A topic at one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    node: NodeId,
    /// Every message of the topic comes from here; others only add what happens at themselves (keyspace events of a cluster).
    home: bool,
    /// The topic belongs elsewhere now; kept until it is heard there.
    ends: bool,
    /// With `ends`: the link stays for keyspace events of its node and only ends as home.
    stays_beside: bool,
    state: LinkState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    /// Not asked for: the connection is not ready.
    Wanted,
    /// Asked for over this connection.
    Asked(UpstreamId),
    /// Confirmed.
    Held(UpstreamId),
    /// Told that it ends, which is not confirmed: until then messages come from here.
    /// Of a topic that only clients that leave are told of, all links are.
    Ending(UpstreamId),
}

impl LinkState {
    fn upstream(self) -> Option<UpstreamId> {
        match self {
            Self::Wanted => None,
            Self::Asked(upstream) | Self::Held(upstream) | Self::Ending(upstream) => Some(upstream),
        }
    }
}

/// One SUBSCRIBE or UNSUBSCRIBE that a server has not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    on: bool,
    kind: Kind,
    name: Name,
    /// Whose UNSUBSCRIBE it is, and the place of its reply.
    waiter: Option<Waiter>,
}

impl Asked {
    fn held_bytes(&self) -> usize {
        self.name.len() + size_of::<Self>()
    }
}

/// SUBSCRIBEs and UNSUBSCRIBEs that one connection has not confirmed. The server answers with the same names, and closes the connection if too many answers wait for
/// respool (`client-output-buffer-limit pubsub`).
#[derive(Debug, Default)]
struct Unanswered {
    all: VecDeque<Asked>,
    bytes: usize,
}

impl Unanswered {
    fn push(&mut self, asked: Asked) {
        self.bytes += asked.held_bytes();
        self.all.push_back(asked);
    }

    fn pop(&mut self) -> Option<Asked> {
        let asked = self.all.pop_front()?;
        self.bytes -= asked.held_bytes();
        Some(asked)
    }

    fn is_full(&self) -> bool {
        self.bytes >= UNANSWERED_TOPICS_BYTES_MAX
    }
}

/// A client, and where its reply belongs that waits for a server's word.
type Waiter = (ClientId, Turn);

/// Where the reply to a SUBSCRIBE or UNSUBSCRIBE belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// At this place.
    Place(u32),
    /// In the answer to an EXEC.
    Inside(Inside),
}

impl Turn {
    /// Takes a place for the call, unless it has one in a transaction.
    fn of(client: &mut Client, call: &Call<'_>) -> Self {
        match call.inside {
            Some(at) => Self::Inside(at),
            None => Self::Place(client.places.reserve(1)),
        }
    }
}

/// What one client listens to.
#[derive(Debug, Default)]
pub struct Listening {
    topics: [BTreeSet<Name>; 3],
    wait: Option<Wait>,
    leaving: Option<Leaving>,
    /// Its part of [`Subscriptions::bytes`]: of all that it listens to, waits for and leaves.
    bytes: usize,
    /// The group that has these bytes: the group of the client when it began to listen.
    group: Group,
}

/// A SUBSCRIBE whose topics are not all confirmed. The client is held meanwhile.
#[derive(Debug)]
struct Wait {
    turn: Turn,
    kind: Kind,
    names: Vec<Name>,
    until: Time,
    /// Of so many from the first on it is known that they were confirmed.
    confirmed: usize,
}

impl Listening {
    /// Bytes of what it listens to, as if nobody else did.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes + self.topics() * TOPIC_BYTES
    }

    /// How many topics it listens to, waits for and leaves.
    fn topics(&self) -> usize {
        let waits = self.wait.as_ref().map_or(0, |wait| wait.names.len());
        let leaves = self.leaving.as_ref().map_or(0, Leaving::topics);
        self.topics.iter().map(BTreeSet::len).sum::<usize>() + waits + leaves
    }

    /// Whether the client listens to anything.
    pub(crate) fn any(&self) -> bool {
        self.topics.iter().any(|names| !names.is_empty())
    }

    /// All that the client listens to, or is about to.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Kind, &Name)> {
        let of = |kind: Kind| self.topics[kind as usize].iter().map(move |name| (kind, name));
        let wait =
            self.wait.iter().flat_map(|wait| wait.names.iter().map(|name| (wait.kind, name)));
        Kind::ALL.into_iter().flat_map(of).chain(wait)
    }

    /// Whether the client listens to nothing and waits for nothing.
    fn is_idle(&self) -> bool {
        !self.any() && self.wait.is_none() && self.leaving.is_none()
    }

    /// How many topics of this kind.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.topics[kind as usize].len()
    }

    /// The number in a confirmation: channels and patterns are counted together, shard channels apart (`clientSubscriptionsCount`).
    fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.len(Kind::Channel) + self.len(Kind::Pattern),
            Kind::Shard => self.len(Kind::Shard),
        }
    }
}

impl Subscriptions {
    /// Bytes of the names of topics, for each client that listens, and of the topics.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = self.bytes + self.unsaid_bytes + self.len() * TOPIC_BYTES;
        bytes.saturating_sub(self.gone.topics().min(self.len()) * TOPIC_BYTES)
    }

    /// Whether a client of this group may listen to names of so many bytes more.
    fn has_room(&self, group: Group, wanted: usize) -> bool {
        let left = SUBSCRIBED_BYTES_MAX.checked_sub(self.bytes() + wanted);
        left.is_some_and(|left| is_share(self.held.of(group) + wanted, left))
    }

    /// Adds so many names with so many bytes to a client.
    fn add(&mut self, listening: &mut Listening, names: usize, bytes: usize) {
        listening.bytes += bytes;
        self.bytes += bytes;
        self.held.add_many(listening.group, names * TOPIC_BYTES + bytes);
    }

    /// Removes so many names with so many bytes from a client.
    fn remove(&mut self, listening: &mut Listening, names: usize, bytes: usize) {
        listening.bytes -= bytes;
        self.bytes -= bytes;
        self.held.remove_many(listening.group, names * TOPIC_BYTES + bytes);
    }

    fn push_unsaid(&mut self, id: UpstreamId, asked: Asked) {
        self.unsaid_bytes += asked.held_bytes();
        self.unsaid.entry(id).or_default().push_back(asked);
    }

    fn pop_unsaid(&mut self, id: UpstreamId) -> Option<Asked> {
        let unsaid = self.unsaid.get_mut(&id)?;
        let asked = unsaid.pop_front();
        if unsaid.is_empty() {
            self.unsaid.remove(&id);
        }
        self.unsaid_bytes -= asked.as_ref().map_or(0, Asked::held_bytes);
        asked
    }

    /// How many topics there are.
    fn len(&self) -> usize {
        self.topics.iter().map(BTreeMap::len).sum()
    }

    /// The patterns to which clients of other workers listen.
    fn patterns_elsewhere(&self) -> impl Iterator<Item = &Name> {
        let first = |kind| (kind, Name::from(&[][..]));
        let patterns = self.elsewhere.range(first(Kind::Pattern)..first(Kind::Shard));
        patterns.map(|((_, name), _)| name)
    }

    /// Bytes of what workers know of each other's topics.
    pub(crate) fn told_bytes(&self) -> usize {
        (self.elsewhere.len() + self.told.len() + self.changed.len()) * TOLD_BYTES
    }

    fn topic(&self, kind: Kind, name: &[u8]) -> Option<&Topic> {
        self.topics[kind as usize].get(name)
    }

    fn topic_mut(&mut self, kind: Kind, name: &[u8]) -> Option<&mut Topic> {
        self.topics[kind as usize].get_mut(name)
    }

    fn is_empty(&self) -> bool {
        self.topics.iter().all(BTreeMap::is_empty)
    }

    fn each_link(&mut self) -> impl Iterator<Item = (Kind, &Name, &mut Link)> {
        Kind::ALL.into_iter().zip(&mut self.topics).flat_map(|(kind, topics)| {
            topics.iter_mut().flat_map(move |(name, topic)| {
                topic.links.iter_mut().map(move |link| (kind, name, link))
            })
        })
    }

    fn names(&self) -> Vec<(Kind, Name)> {
        let of_kind =
            |kind: Kind| self.topics[kind as usize].keys().map(move |name| (kind, name.clone()));
        Kind::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// At most `count` names behind this one.
    fn names_behind(&self, last: Option<&(Kind, Name)>, count: usize) -> Vec<(Kind, Name)> {
        let of_kind = |kind: Kind| {
            let from = match last {
                Some((of, name)) if *of == kind => Bound::Excluded(name),
                _ => Bound::Unbounded,
            };
            let topics = self.topics[kind as usize].range::<Name, _>((from, Bound::Unbounded));
            topics.map(move |(name, _)| (kind, name.clone()))
        };
        let begin = last.map_or(0, |(kind, _)| *kind as usize);
        Kind::ALL.into_iter().skip(begin).flat_map(of_kind).take(count).collect()
    }

    /// The topics to be looked at in this turn, at most [`RELINK_TOPICS_PER_TURN`].
    fn names_due(&mut self, now: Time) -> Vec<(Kind, Name)> {
        if self.pass.is_none() && self.relink_at.is_some_and(|at| at <= now) {
            (self.relink_at, self.pass) = (None, Some(None));
        }
        let mut names = Vec::new();
        while names.len() < RELINK_TOPICS_PER_TURN
            && let Some((_, kind, name)) = self.pop_look(now)
        {
            if let Some(topic) = self.topic_mut(kind, &name) {
                topic.look_at = None;
            }
            names.push((kind, name));
        }
        if let Some(last) = self.pass.take() {
            let count = (RELINK_TOPICS_PER_TURN - names.len()).max(1);
            let more = self.names_behind(last.as_ref(), count);
            self.pass = (more.len() == count).then(|| more.last().cloned());
            names.extend(more);
        }
        names
    }

    fn pop_look(&mut self, now: Time) -> Option<(Time, Kind, Name)> {
        self.looks.first().filter(|(at, ..)| *at <= now)?;
        self.looks.pop_first()
    }

    /// Whether no client listens, and nothing is left to do for clients that did.
    fn is_idle(&self) -> bool {
        self.is_empty()
            && self.waits.is_empty()
            && self.unsaid.is_empty()
            && self.fences_due.is_empty()
            && self.gone.is_empty()
            && self.leavers.is_empty()
            && self.settling.is_empty()
            && self.changed.is_empty()
    }

    /// Removes all looks: no client listens.
    fn forget_looks(&mut self) {
        if self.look_at().is_some() {
            (self.relink_at, self.pass) = (None, None);
            self.looks.clear();
        }
    }

    /// The time of the next look at topics.
    fn look_at(&self) -> Option<Time> {
        let pass = self.pass.is_some().then(Time::default);
        let first = self.looks.first().map(|(at, ..)| *at);
        pass.into_iter().chain(first).chain(self.relink_at).min()
    }

    /// Looks at this topic at that time at the latest.
    fn look_by(&mut self, kind: Kind, name: &[u8], at: Time) {
        let Some((name, topic)) = self.topics[kind as usize].get_key_value(name) else { return };
        let (name, before) = (name.clone(), topic.look_at);
        if before.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = before {
            self.looks.remove(&(before, kind, name.clone()));
        }
        if let Some(topic) = self.topic_mut(kind, &name) {
            topic.look_at = Some(at);
        }
        self.looks.insert((at, kind, name));
    }

    /// All topics are to be looked at, at the latest then.
    fn relink_by(&mut self, at: Time) {
        self.relink_at = Some(self.relink_at.map_or(at, |before| before.min(at)));
    }
}

impl Topic {
    /// Whether nobody listens to it or is about to; some may be leaving.
    fn is_over(&self) -> bool {
        self.listeners.is_empty() && self.waiting.is_empty()
    }

    /// Whether it is subscribed to, or about to be, and does not end.
    fn goes_on(&self) -> bool {
        let ends = |link: &Link| matches!(link.state, LinkState::Ending(_));
        let mut links = self.links.iter().filter(|link| !link.ends).peekable();
        links.peek().is_some() && !links.any(ends)
    }

    fn is_held(&self) -> bool {
        let mut links = self.links.iter().filter(|link| !link.ends).peekable();
        links.peek().is_some() && links.all(|link| matches!(link.state, LinkState::Held(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn with_topics(count: usize) -> Subscriptions {
        let mut all = Subscriptions::default();
        for number in 0..count {
            for kind in Kind::ALL {
                let name = Name::from(format!("{number}").into_bytes());
                all.topics[kind as usize].insert(name, Topic::default());
            }
        }
        all
    }

    #[test]
    fn a_look_at_all_topics_takes_several_turns_and_sees_each_once() {
        for count in [0, 1, RELINK_TOPICS_PER_TURN, 3 * RELINK_TOPICS_PER_TURN + 1] {
            let mut all = with_topics(count);
            all.relink_by(Time::default());
            let (mut seen, mut turns) = (Vec::new(), 0);
            while all.look_at().is_some() {
                let names = all.names_due(Time::default());
                assert!(names.len() <= RELINK_TOPICS_PER_TURN);
                seen.extend(names);
                turns += 1;
            }
            assert!(turns <= 3 * count / RELINK_TOPICS_PER_TURN + 1, "{turns}");
            assert_eq!(seen, all.names());
        }
    }

    #[test]
    fn one_topic_is_looked_at_without_the_others_at_the_earliest_time_that_was_asked_for() {
        let mut all = with_topics(100);
        let at = |ms| Time::default().plus_ms(ms);
        for ms in [30, 20, 40] {
            all.look_by(Kind::Channel, b"7", at(ms));
        }
        all.look_by(Kind::Channel, b"gone", at(1));
        assert_eq!((all.look_at(), all.names_due(at(19)).len()), (Some(at(20)), 0));
        assert_eq!(all.names_due(at(20)), [(Kind::Channel, Name::from(&b"7"[..]))]);
        assert_eq!((all.look_at(), all.looks.len()), (None, 0));
        all.relink_by(at(50));
        all.topics = Default::default();
        assert!(all.is_idle() && all.look_at().is_some());
        all.forget_looks();
        assert_eq!(all.look_at(), None);
    }
}
