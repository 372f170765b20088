//! The model's subscriptions: who listens to what, and messages on their way to those who do.
//!
//! A connection's messages wait here until its owner asks for them ([`Model::deliver`](super::Model::deliver)), since a model writes only to the
//! connection that it is fed by. Channels and patterns are heard at every node of a cluster; a shard channel is heard at the nodes of the
//! shard that has its slot, and those that listen are told when the slot goes.
//!
//! Not here: which node takes a request for a shard channel (`cluster`).
//!
//! Invariant: what waits for a connection is given out before the reply to its next request, so that nothing overtakes a confirmation.

use std::collections::{BTreeMap, BTreeSet};

use resp::{Protocol, encode};

use super::{Call, Model, iterate};

/// What kind of name is listened to; each kind has its own names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Channel,
    Pattern,
    Shard,
}

impl Kind {
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::Channel => ["subscribe", "unsubscribe"],
            Self::Pattern => ["psubscribe", "punsubscribe"],
            Self::Shard => ["ssubscribe", "sunsubscribe"],
        }
    }
}

/// Everybody who listens, by the number of the connection.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: BTreeMap<u64, Listener>,
}

#[derive(Debug, Default)]
struct Listener {
    /// The deployment and the node of a cluster at which it is.
    deployment: usize,
    node: usize,
    names: [BTreeSet<Vec<u8>>; 3],
    /// For each shard channel the primary of its slot when it was subscribed to.
    primaries: BTreeMap<Vec<u8>, usize>,
    waiting: Vec<Letter>,
}

/// Something that nobody asked for at this moment.
#[derive(Clone, Debug)]
struct Letter {
    words: Vec<Vec<u8>>,
    /// The number at the end of the word about a shard channel whose slot went.
    count: Option<usize>,
}

impl Listener {
    /// Channels and patterns are counted together, shard channels apart.
    fn count(&self, kind: Kind) -> usize {
        let len = |kind: Kind| self.names[kind as usize].len();
        match kind {
            Kind::Shard => len(kind),
            Kind::Channel | Kind::Pattern => len(Kind::Channel) + len(Kind::Pattern),
        }
    }
}

impl Listeners {
    /// Whether a connection listens to anything.
    pub(super) fn listens(&self, conn: u64) -> bool {
        let own = self.all.get(&conn);
        own.is_some_and(|own| own.names.iter().any(|names| !names.is_empty()))
    }

    /// A connection is over, or listens to nothing any more.
    pub(super) fn forget(&mut self, conn: u64) {
        self.all.remove(&conn);
    }

    /// Gives out what waits for a connection.
    pub(super) fn take(&mut self, conn: u64, protocol: Protocol, out: &mut Vec<u8>) {
        let Some(own) = self.all.get_mut(&conn) else { return };
        for letter in own.waiting.drain(..) {
            begin(out, protocol, letter.words.len() + usize::from(letter.count.is_some()));
            letter.words.iter().for_each(|word| encode::bulk(out, word));
            letter.count.iter().for_each(|count| encode::integer(out, *count as i64));
        }
    }

    /// The nodes of a deployment at which connections listen to shard channels, and to which, and who was the primary then.
    pub(super) fn shard_channels(&self, deployment: usize) -> BTreeSet<(usize, Vec<u8>, usize)> {
        let of = |own: &Listener| {
            let node = own.node;
            own.primaries.clone().into_iter().map(move |(name, at)| (node, name, at))
        };
        self.all.values().filter(|own| own.deployment == deployment).flat_map(of).collect()
    }

    /// The slot of a shard channel left this node: those that listen there are told, and do so no more.
    pub(super) fn end_shard_channel(&mut self, deployment: usize, node: usize, name: &[u8]) {
        let is_there = |own: &&mut Listener| own.deployment == deployment && own.node == node;
        for own in self.all.values_mut().filter(is_there) {
            own.primaries.remove(name);
            if own.names[Kind::Shard as usize].remove(name) {
                let words = vec![b"sunsubscribe".to_vec(), name.to_vec()];
                let count = Some(own.count(Kind::Shard));
                own.waiting.push(Letter { words, count });
            }
        }
    }

    /// A message for everybody who listens, at these nodes. Returns how many copies of it there were at the node that sends: a server counts
    /// its own.
    fn send(
        &mut self,
        kind: Kind,
        channel: &[u8],
        text: &[u8],
        (deployment, node): (usize, usize),
        nodes: Option<&[usize]>,
    ) -> usize {
        let word = if kind == Kind::Shard { "smessage" } else { "message" };
        let mut copies = 0;
        for own in self.all.values_mut().filter(|own| own.deployment == deployment) {
            if nodes.is_some_and(|nodes| !nodes.contains(&own.node)) {
                continue;
            }
            let before = own.waiting.len();
            if own.names[kind as usize].contains(channel) {
                let words = vec![word.into(), channel.to_vec(), text.to_vec()];
                own.waiting.push(Letter { words, count: None });
            }
            let patterns = &own.names[Kind::Pattern as usize];
            let matching = patterns.iter().filter(|_| kind == Kind::Channel);
            for pattern in matching.filter(|pattern| iterate::fits(pattern, channel)) {
                let words = vec!["pmessage".into(), pattern.clone(), channel.into(), text.into()];
                own.waiting.push(Letter { words, count: None });
            }
            if own.node == node {
                copies += own.waiting.len() - before;
            }
        }
        copies
    }
}

fn begin(out: &mut Vec<u8>, protocol: Protocol, len: usize) {
    match protocol {
        Protocol::Resp2 => encode::array(out, len),
        Protocol::Resp3 => encode::push(out, len),
    }
}

fn confirm(call: &mut Call<'_>, word: &str, name: Option<&[u8]>, count: usize) {
    begin(call.out, call.conn.protocol, 3);
    encode::bulk(call.out, word.as_bytes());
    call.bulk_or_null(name);
    call.length(count);
}

fn start(call: &mut Call<'_>, kind: Kind) {
    for at in 1..call.args.len() {
        let name = call.args[at].clone();
        let Model { listeners, deployment, .. } = &mut *call.model;
        let own = listeners.all.entry(call.conn.id).or_default();
        (own.deployment, own.node) = (*deployment, call.place.node);
        own.names[kind as usize].insert(name.clone());
        if kind == Kind::Shard {
            own.primaries.insert(name.clone(), call.place.primary);
        }
        let count = own.count(kind);
        confirm(call, kind.words()[0], Some(&name), count);
    }
}

fn stop(call: &mut Call<'_>, kind: Kind) {
    let own = call.model.listeners.all.entry(call.conn.id).or_default();
    let names: Vec<Vec<u8>> = match call.args.len() {
        1 => own.names[kind as usize].iter().cloned().collect(),
        _ => call.args[1..].to_vec(),
    };
    if names.is_empty() {
        let count = own.count(kind);
        confirm(call, kind.words()[1], None, count);
    }
    for name in &names {
        let own = call.model.listeners.all.entry(call.conn.id).or_default();
        own.names[kind as usize].remove(name);
        if kind == Kind::Shard {
            own.primaries.remove(name);
        }
        let count = own.count(kind);
        confirm(call, kind.words()[1], Some(name), count);
    }
}

pub(super) fn subscribe(call: &mut Call<'_>) {
    start(call, Kind::Channel);
}

pub(super) fn psubscribe(call: &mut Call<'_>) {
    start(call, Kind::Pattern);
}

pub(super) fn ssubscribe(call: &mut Call<'_>) {
    start(call, Kind::Shard);
}

pub(super) fn unsubscribe(call: &mut Call<'_>) {
    stop(call, Kind::Channel);
}

pub(super) fn punsubscribe(call: &mut Call<'_>) {
    stop(call, Kind::Pattern);
}

pub(super) fn sunsubscribe(call: &mut Call<'_>) {
    stop(call, Kind::Shard);
}

pub(super) fn publish(call: &mut Call<'_>) {
    let [_, channel, text] = call.args else { return };
    let from = (call.model.deployment, call.place.node);
    let copies = call.model.listeners.send(Kind::Channel, channel, text, from, None);
    call.length(copies);
}

pub(super) fn spublish(call: &mut Call<'_>) {
    let [_, channel, text] = call.args else { return };
    let Call { model, place, .. } = call;
    let nodes = place.shard.as_deref();
    let from = (model.deployment, place.node);
    let copies = model.listeners.send(Kind::Shard, channel, text, from, nodes);
    call.length(copies);
}
