//! One client that listens: it comes to topics and leaves them, and asks something in between.
//!
//! Not here: what was said (the module above).
//!
//! Invariant: one question at a time is open, so what a confirmation must say is known.

use std::collections::{BTreeMap, BTreeSet};

use engine::settings::ReadPolicy;
use netio::Address;
use netio::sim::{SimNet, SimRng};
use resp::value::{Value, parse};
use testkit::frames::{quote, request};

use super::{Air, CHANNELS, Channel, Line, is_turned_away, text};
use crate::client::Around;
use crate::plan::{PASSWORD, Plan, pick};

/// What kind of topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Channel,
    Pattern,
    Shard,
}

const WORDS: [[&str; 2]; 3] =
    [["subscribe", "unsubscribe"], ["psubscribe", "punsubscribe"], ["ssubscribe", "sunsubscribe"]];

/// What is to be answered.
#[derive(Debug)]
enum Asked {
    /// AUTH.
    Password,
    /// HELLO 3.
    Hello,
    /// Names to be confirmed.
    Names { kind: Kind, on: bool, names: Vec<Vec<u8>> },
    /// UNSUBSCRIBE of nothing.
    Nothing(Kind),
    /// PING.
    Ping,
    /// GET of a key that is not there.
    Get,
}

/// What was heard of one channel under one topic.
#[derive(Debug, Default)]
struct Track {
    /// From this number on nothing may be missing.
    due_from: u64,
    seen: BTreeSet<u64>,
}

type Tracks = BTreeMap<Vec<u8>, Track>;

/// See the module.
pub(super) struct Listener {
    pub(super) number: u64,
    pub(super) heard: u64,
    line: Line,
    rng: SimRng,
    needs_password: bool,
    wants_resp3: bool,
    resp3: bool,
    topics: [BTreeMap<Vec<u8>, Tracks>; 3],
    asked: Option<Asked>,
    left: u64,
    leaves: bool,
    next_at_us: u64,
}

impl Listener {
    pub(super) fn new(plan: &Plan, net: &SimNet, to: &Address, number: u64, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        Self {
            number,
            heard: 0,
            line: Line::new(net, to),
            needs_password: plan.password,
            wants_resp3: rng.chance(500_000),
            resp3: false,
            topics: Default::default(),
            asked: None,
            left: rng.between(1, 8),
            leaves: rng.chance(200_000),
            next_at_us: net.now_us() + rng.between(0, 5_000),
            rng,
        }
    }

    pub(super) fn go(&mut self) {
        self.line.go();
    }

    pub(super) fn is_gone(&self) -> bool {
        self.line.gone
    }

    /// Whether it has asked all, and heard what it should.
    pub(super) fn is_at_rest(&self, air: &Air) -> bool {
        let quiet = self.left == 0 && self.asked.is_none() && !self.leaves;
        self.line.gone || (quiet && (!air.strict || self.missing(air).is_none()))
    }

    pub(super) fn next_at_us(&self) -> Option<u64> {
        let acts = !self.line.gone
            && self.line.peer.is_connected()
            && self.asked.is_none()
            && (self.left > 0 || self.leaves);
        acts.then_some(self.next_at_us).into_iter().chain(self.line.waits_until_us()).min()
    }

    /// Nothing that is said from now on may be missing.
    pub(super) fn expect_all_from_now(&mut self, air: &Air) {
        let shard = |kind| kind == Kind::Shard as usize;
        for (kind, topics) in self.topics.iter_mut().enumerate() {
            for (name, track) in topics.values_mut().flatten() {
                track.due_from = air.said(&(shard(kind), name.clone())) + 1;
            }
        }
    }

    pub(super) fn describe(&self, air: &Air) -> String {
        format!(
            "listener {} ({}, resp3 {}) asked {:?}, {} acts left, lacks {:?}",
            self.number,
            self.line.peer.local(),
            self.resp3,
            self.asked,
            self.left,
            self.missing(air)
        )
    }

    /// A message that it should have heard and has not: its topic, its channel, its number.
    fn missing(&self, air: &Air) -> Option<String> {
        for (kind, topics) in self.topics.iter().enumerate() {
            for (name, tracks) in topics {
                for (channel, track) in tracks {
                    let key = (kind == Kind::Shard as usize, channel.clone());
                    if let Some(nth) = track.lacks(air, &key, air.said(&key) + 1) {
                        return Some(format!(
                            "{} {nth} of {}",
                            quote(name, 40),
                            quote(channel, 40)
                        ));
                    }
                }
            }
        }
        None
    }

    pub(super) fn step(&mut self, around: &Around<'_>, air: &Air) -> Result<(), String> {
        if self.line.gone {
            return Ok(());
        }
        for frame in self.line.heard()? {
            if is_turned_away(around, &frame) {
                self.asked = None;
                continue;
            }
            self.hear(around, air, &frame).map_err(|why| {
                format!("{why}: it hears {}; {}", quote(&frame, 120), self.describe(air))
            })?;
        }
        if !self.line.is_up(around).map_err(|why| format!("{why}: {}", self.describe(air)))? {
            return Ok(());
        }
        if self.asked.is_none() && !around.draining && around.now_us >= self.next_at_us {
            self.act();
        }
        Ok(())
    }

    fn act(&mut self) {
        if self.needs_password {
            self.needs_password = false;
            return self.ask(Asked::Password, &[b"AUTH", PASSWORD]);
        }
        if std::mem::take(&mut self.wants_resp3) {
            return self.ask(Asked::Hello, &[b"HELLO", b"3"]);
        }
        if self.left == 0 {
            if self.leaves {
                self.line.go();
            }
            return;
        }
        self.left -= 1;
        let kind = [Kind::Channel, Kind::Pattern, Kind::Shard][self.rng.between(0, 2) as usize];
        match self.rng.between(0, 9) {
            0 => self.ask(Asked::Ping, &[b"PING"]),
            1 if self.resp3 => self.ask(Asked::Get, &[b"GET", b"nobody's"]),
            2 => {
                let names: Vec<Vec<u8>> = self.topics[kind as usize].keys().cloned().collect();
                let verb = WORDS[kind as usize][1].as_bytes();
                let asked = match names.is_empty() {
                    true => Asked::Nothing(kind),
                    false => Asked::Names { kind, on: false, names },
                };
                self.ask(asked, &[verb]);
            }
            chance => self.say_names(kind, chance > 4),
        }
    }

    fn say_names(&mut self, kind: Kind, on: bool) {
        let count = if kind == Kind::Shard && !on { 1 } else { self.rng.between(1, 3) };
        let mut names = Vec::new();
        for _ in 0..count {
            let at = self.rng.between(0, CHANNELS as u64 - 1);
            names.push(match kind {
                Kind::Channel => format!("news:{at}").into_bytes(),
                Kind::Pattern => [&b"news:*"[..], b"news:?", b"news:1"][at as usize].to_vec(),
                Kind::Shard => format!("shard:{at}").into_bytes(),
            });
        }
        // The shard channels of one command have one slot.
        if kind == Kind::Shard {
            names.dedup();
            names.truncate(1);
        }
        let verb = WORDS[kind as usize][usize::from(!on)].as_bytes();
        let words: Vec<Vec<u8>> = [verb.to_vec()].into_iter().chain(names.clone()).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.ask(Asked::Names { kind, on, names }, &words);
    }

    fn ask(&mut self, asked: Asked, words: &[&[u8]]) {
        self.asked = Some(asked);
        self.line.peer.send(&request(words));
    }

    fn answered(&mut self, around: &Around<'_>) {
        self.asked = None;
        let gap_us = pick(&mut self.rng, &[1, 500, 30_000, 200_000]);
        self.next_at_us = around.now_us + self.rng.between(0, gap_us);
    }

    fn hear(&mut self, around: &Around<'_>, air: &Air, frame: &[u8]) -> Result<(), String> {
        let (value, _) = parse(frame).map_err(|_| "no RESP")?.ok_or("half a frame")?;
        let parts = match &value {
            Value::Push(parts) if self.resp3 => parts,
            Value::Array(parts) if !self.resp3 => parts,
            _ => return self.hear_reply(around, frame),
        };
        let word = parts.first().and_then(Value::as_text).unwrap_or_default();
        let part = |at: usize| parts.get(at).and_then(Value::as_text).unwrap_or_default();
        match (word, parts.len()) {
            (b"message", 3) => self.message(air, Kind::Channel, part(1), part(1), part(2)),
            (b"smessage", 3) => self.message(air, Kind::Shard, part(1), part(1), part(2)),
            (b"pmessage", 4) => self.message(air, Kind::Pattern, part(1), part(2), part(3)),
            (b"pong", 2) if matches!(self.asked, Some(Asked::Ping)) && self.listens() => {
                self.answered(around);
                Ok(())
            }
            (_, 3) => {
                let Value::Integer(count) = parts[2] else { return Err("no count".to_owned()) };
                self.confirmed(around, air, word, parts[1].as_text(), count)
            }
            _ => Err("of no kind".to_owned()),
        }
    }

    fn listens(&self) -> bool {
        self.topics.iter().any(|topics| !topics.is_empty())
    }

    fn hear_reply(&mut self, around: &Around<'_>, frame: &[u8]) -> Result<(), String> {
        let asked = self.asked.as_ref().ok_or("nothing was asked")?;
        // The copies of a cluster that has just come are not known at once.
        let lacks_copies = around.plan.reads_by(ReadPolicy::Replica)
            && frame.starts_with(b"-ERR respool: no replica is fit");
        let fits = match asked {
            Asked::Password => frame == b"+OK\r\n",
            Asked::Hello => frame.starts_with(b"%"),
            Asked::Ping => frame == b"+PONG\r\n" && (self.resp3 || !self.listens()),
            Asked::Get => frame == b"_\r\n" || lacks_copies,
            Asked::Names { .. } | Asked::Nothing(_) => false,
        };
        let may_fail = match asked {
            Asked::Names { on, .. } => *on,
            Asked::Get | Asked::Hello => true,
            _ => false,
        };
        if !(fits || (may_fail && around.failing && frame.starts_with(b"-"))) {
            return Err("not what was asked".to_owned());
        }
        self.resp3 |= fits && matches!(asked, Asked::Hello);
        self.answered(around);
        Ok(())
    }

    /// The number in a confirmation.
    fn count(&self, kind: Kind) -> i64 {
        let len = |kind: Kind| self.topics[kind as usize].len() as i64;
        match kind {
            Kind::Shard => len(kind),
            Kind::Channel | Kind::Pattern => len(Kind::Channel) + len(Kind::Pattern),
        }
    }

    fn confirmed(
        &mut self,
        around: &Around<'_>,
        air: &Air,
        word: &[u8],
        name: Option<&[u8]>,
        count: i64,
    ) -> Result<(), String> {
        let (kind, on, over) = match (&mut self.asked, name) {
            (Some(Asked::Nothing(kind)), None) => (*kind, false, true),
            (Some(Asked::Names { kind, on, names }), Some(name)) => {
                let at = names.iter().position(|asked| asked == name).ok_or("not asked for")?;
                names.remove(at);
                (*kind, *on, names.is_empty())
            }
            _ => return Err("nobody asked for it".to_owned()),
        };
        if word != WORDS[kind as usize][usize::from(!on)].as_bytes() {
            return Err(format!("it asked otherwise, {kind:?}, {on}"));
        }
        match name {
            Some(name) if on => {
                let begin = || tracks(air, kind, name);
                self.topics[kind as usize].entry(name.to_vec()).or_insert_with(begin);
            }
            Some(name) => {
                self.topics[kind as usize].remove(name);
            }
            None => {}
        }
        if count != self.count(kind) {
            return Err(format!("the count is {}", self.count(kind)));
        }
        if over {
            self.answered(around);
        }
        Ok(())
    }

    fn message(
        &mut self,
        air: &Air,
        kind: Kind,
        name: &[u8],
        channel: &[u8],
        said: &[u8],
    ) -> Result<(), String> {
        let tracks = self.topics[kind as usize].get_mut(name).ok_or("it does not listen to it")?;
        let track = tracks.get_mut(channel).ok_or("the pattern does not fit")?;
        let key: Channel = (kind == Kind::Shard, channel.to_vec());
        let digits = said.split(|byte| *byte == b':').next().unwrap_or_default();
        let nth = resp::number::parse_i64(digits).and_then(|nth| u64::try_from(nth).ok());
        let nth = nth.filter(|nth| *nth > 0 && *nth <= air.said(&key) && text(*nth) == said);
        let nth = nth.ok_or("never said")?;
        self.heard += 1;
        let later = track.seen.range(nth..).next().copied();
        if later == Some(nth) {
            return Err("for the second time".to_owned());
        }
        if later.is_some() && !air.is_doubtful(&key, nth) {
            return Err(format!("after {later:?}"));
        }
        if air.strict
            && let Some(missing) = track.lacks(air, &key, nth)
        {
            return Err(format!("without {missing}"));
        }
        track.seen.insert(nth);
        Ok(())
    }
}

impl Track {
    /// The first message before `end` that is missing.
    fn lacks(&self, air: &Air, channel: &Channel, end: u64) -> Option<u64> {
        if channel.0 && air.moves {
            return None;
        }
        (self.due_from..end).find(|nth| !self.seen.contains(nth) && !air.is_doubtful(channel, *nth))
    }
}

/// The channels of a topic that begins to be listened to now.
fn tracks(air: &Air, kind: Kind, name: &[u8]) -> Tracks {
    let channels: Vec<Vec<u8>> = match kind {
        Kind::Pattern if name != b"news:1" => {
            (0..CHANNELS).map(|number| format!("news:{number}").into_bytes()).collect()
        }
        _ => vec![name.to_vec()],
    };
    let begin = |channel: Vec<u8>| {
        let due_from = air.said(&(kind == Kind::Shard, channel.clone())) + 1;
        (channel, Track { due_from, seen: BTreeSet::new() })
    };
    channels.into_iter().map(begin).collect()
}
