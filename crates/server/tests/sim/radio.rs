//! Clients that listen, one that publishes, and what must be heard.
//!
//! ```text
//!   speaker ── PUBLISH news:1 "7:xx…" ──▶ proxy ──▶ server ──▶ proxy ──▶ listeners of news:1, of news:*
//!                └── Air: on news:1 seven messages were said, of the fifth nobody knows
//! ```
//! The messages of a channel are numbered and the speaker waits for each reply, so a listener can tell what it should have heard. Judged: each
//! name is confirmed with the right count; a message comes only to those who listen to it at that moment, and never twice; the numbers of a
//! channel grow, but for those of which nobody knows; and from a confirmation on nothing is missing, unless servers failed meanwhile.
//!
//! Not here: what other clients say (`script`).
//!
//! Invariant: it has chances of its own, so that the other clients say the same with it and without it.

use std::collections::{BTreeMap, BTreeSet};

use netio::Address;
use netio::sim::{SimNet, SimPeer, SimRng};
use testkit::frames::{Replies, quote, request};

use crate::client::Around;
use crate::plan::{Kind as PlanKind, PASSWORD, Plan, pick};

mod listener;

use listener::Listener;

/// Channels of each kind.
const CHANNELS: usize = 3;
/// So long a connect may take where connects may hang.
const CONNECT_US: u64 = 10_000_000;
/// Messages of the checkup.
const CHECKUP_MESSAGES: u64 = 8;

/// A channel: whether it is a shard channel, and its name.
type Channel = (bool, Vec<u8>);

/// A channel by its number: first the plain ones, then the shard channels.
pub(crate) fn channel(number: usize) -> (bool, Vec<u8>) {
    match number % (2 * CHANNELS) {
        plain if plain < CHANNELS => (false, format!("news:{plain}").into_bytes()),
        shard => (true, format!("shard:{}", shard - CHANNELS).into_bytes()),
    }
}

/// What was said.
#[derive(Debug, Default)]
struct Air {
    said: BTreeMap<Channel, Said>,
    /// Servers do not fail: nothing may be missing.
    strict: bool,
    /// Slots may move or change their primary. What is said on a shard channel before its listeners are at the new place is lost, as it is for
    /// clients of a cluster.
    moves: bool,
}

/// What was said on one channel.
#[derive(Debug, Default)]
struct Said {
    /// The number of the last message.
    last: u64,
    /// Messages of which nobody knows whether the server got them.
    doubtful: BTreeSet<u64>,
}

impl Air {
    fn said(&self, channel: &Channel) -> u64 {
        self.said.get(channel).map_or(0, |said| said.last)
    }

    fn is_doubtful(&self, channel: &Channel, nth: u64) -> bool {
        self.said.get(channel).is_some_and(|said| said.doubtful.contains(&nth))
    }
}

/// The message of this number.
fn text(nth: u64) -> Vec<u8> {
    let mut text = format!("{nth}:").into_bytes();
    text.resize(text.len() + (nth * 37 % 90) as usize, b'x');
    text
}

/// A connection and how it is spoken over.
pub(crate) struct Line {
    peer: SimPeer,
    replies: Replies,
    gone: bool,
    gives_up_us: u64,
}

impl Line {
    /// One that connects now.
    pub(crate) fn new(net: &SimNet, to: &Address) -> Self {
        let gives_up_us = net.now_us() + CONNECT_US;
        Self { peer: net.connect(to), replies: Replies::default(), gone: false, gives_up_us }
    }

    /// Takes what came; the frames that are whole.
    pub(crate) fn heard(&mut self) -> Result<Vec<Vec<u8>>, String> {
        self.replies.push(&self.peer.received());
        std::iter::from_fn(|| self.replies.pop().transpose()).collect()
    }

    /// Says this.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.peer.send(bytes);
    }

    /// Its address, as the proxy sees it.
    pub(crate) fn local(&self) -> String {
        self.peer.local()
    }

    /// Whether it can be spoken over.
    pub(crate) fn is_connected(&self) -> bool {
        self.peer.is_connected()
    }

    /// Whether it is over.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Ends it.
    pub(crate) fn go(&mut self) {
        self.peer.close();
        self.gone = true;
    }

    /// Whether it can be spoken over now; it may be over, and then rightly or not.
    pub(crate) fn is_up(&mut self, around: &Around<'_>) -> Result<bool, String> {
        let faults = &around.plan.client_faults;
        if self.peer.is_over() {
            let refused = self.peer.connect_error().is_some() && faults.connect_refused_ppm > 0;
            let right = faults.reset_ppm > 0
                || refused
                || around.draining
                || around.plan.tight
                || around.may_be_lost();
            self.go();
            return if right { Ok(false) } else { Err("its connection ended".to_owned()) };
        }
        if !self.peer.is_connected()
            && around.now_us >= self.gives_up_us
            && faults.connect_hangs_ppm > 0
        {
            self.go();
        }
        Ok(!self.gone && self.peer.is_connected())
    }

    /// When it gives up, if nothing comes of it.
    pub(crate) fn waits_until_us(&self) -> Option<u64> {
        (!self.gone && !self.peer.is_connected()).then_some(self.gives_up_us)
    }
}

/// Whether it was turned away at the door.
pub(crate) fn is_turned_away(around: &Around<'_>, reply: &[u8]) -> bool {
    around.plan.tight && reply.starts_with(b"-ERR max number of clients")
}

/// The one that publishes.
struct Speaker {
    line: Line,
    rng: SimRng,
    needs_password: bool,
    /// What is to be answered: the greeting (`None`), or the message of this number.
    asked: Option<Option<(Channel, u64)>>,
    left: u64,
    gap_us: u64,
    next_at_us: u64,
}

impl Speaker {
    fn new(plan: &Plan, net: &SimNet, to: &Address, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        Self {
            line: Line::new(net, to),
            needs_password: plan.password,
            asked: None,
            left: pick(&mut rng, &[3, 15, 40]),
            gap_us: pick(&mut rng, &[1, 300, 20_000]),
            next_at_us: net.now_us() + rng.between(0, 10_000),
            rng,
        }
    }

    fn is_at_rest(&self) -> bool {
        self.line.gone || (self.left == 0 && self.asked.is_none())
    }

    fn next_at_us(&self) -> Option<u64> {
        let speaks = !self.is_at_rest() && self.asked.is_none() && self.line.peer.is_connected();
        speaks.then_some(self.next_at_us).into_iter().chain(self.line.waits_until_us()).min()
    }

    fn step(&mut self, around: &Around<'_>, air: &mut Air) -> Result<(), String> {
        if self.line.gone {
            return Ok(());
        }
        for reply in self.line.heard()? {
            self.hear(around, air, &reply)?;
        }
        if !self.line.is_up(around)? {
            if self.line.gone {
                self.is_in_doubt(air);
            }
            return Ok(());
        }
        let may = self.asked.is_none() && !around.draining && around.now_us >= self.next_at_us;
        if may && self.needs_password {
            self.needs_password = false;
            self.asked = Some(None);
            self.line.peer.send(&request(&[b"AUTH", PASSWORD]));
        } else if may && self.left > 0 {
            self.left -= 1;
            let channel = channel(self.rng.between(0, 2 * CHANNELS as u64 - 1) as usize);
            let said = air.said.entry(channel.clone()).or_default();
            said.last += 1;
            let verb: &[u8] = if channel.0 { b"SPUBLISH" } else { b"PUBLISH" };
            self.line.peer.send(&request(&[verb, &channel.1, &text(said.last)]));
            self.asked = Some(Some((channel, said.last)));
        }
        Ok(())
    }

    fn hear(&mut self, around: &Around<'_>, air: &mut Air, reply: &[u8]) -> Result<(), String> {
        if is_turned_away(around, reply) {
            self.is_in_doubt(air);
            return Ok(());
        }
        match (reply.first(), &self.asked) {
            (Some(b'+'), Some(None)) | (Some(b':'), Some(Some(_))) => self.asked = None,
            (Some(b'-'), Some(Some(_))) if around.failing => self.is_in_doubt(air),
            _ => return Err(format!("{} answers {:?}", quote(reply, 80), self.asked)),
        }
        self.next_at_us = around.now_us + self.rng.between(0, self.gap_us);
        Ok(())
    }

    fn is_in_doubt(&mut self, air: &mut Air) {
        if let Some(Some((channel, nth))) = self.asked.take() {
            air.said.entry(channel).or_default().doubtful.insert(nth);
        }
    }
}

/// See the module.
pub(crate) struct Radio {
    speaker: Speaker,
    listeners: Vec<Listener>,
    air: Air,
}

impl Radio {
    /// The speaker and the listeners of a plan, which connect now.
    pub(crate) fn new(plan: &Plan, net: &SimNet, to: &Address) -> Self {
        let mut rng = SimRng::new(plan.seed ^ 0x7261_6469_6f00);
        let most = if plan.kind == PlanKind::Crowd { 2 } else { 6 };
        let speaker = Speaker::new(plan, net, to, rng.next_u64());
        let listeners = (0..rng.between(1, most))
            .map(|number| Listener::new(plan, net, to, number, rng.next_u64()))
            .collect();
        // What is said between the former servers and the new ones is lost.
        let strict = !(plan.kind.server_fails() || plan.changes());
        let air = Air { strict, moves: plan.is_cluster(), ..Air::default() };
        Self { speaker, listeners, air }
    }

    /// Everybody does what is to be done now.
    pub(crate) fn step(&mut self, around: &Around<'_>) -> Result<(), String> {
        self.speaker.step(around, &mut self.air).map_err(|why| format!("the speaker: {why}"))?;
        for listener in &mut self.listeners {
            listener
                .step(around, &self.air)
                .map_err(|why| format!("listener {}: {why}", listener.number))?;
        }
        Ok(())
    }

    /// Whether all is said and heard, for now.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.speaker.is_at_rest()
            && self.listeners.iter().all(|listener| listener.is_at_rest(&self.air))
    }

    /// When somebody next does something of its own accord.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        let listeners = self.listeners.iter().filter_map(Listener::next_at_us);
        listeners.chain(self.speaker.next_at_us()).min()
    }

    /// Everything is well: from now on nothing may be missing. Somebody new listens, and more is said.
    pub(crate) fn check_up(&mut self, plan: &Plan, net: &SimNet, to: &Address) {
        self.air.strict = true;
        self.speak_up();
        let number = self.listeners.len() as u64;
        self.listeners.push(Listener::new(plan, net, to, number, !plan.seed));
        if self.speaker.line.gone {
            self.speaker = Speaker::new(plan, net, to, !plan.seed);
        }
    }

    /// Slots rest and everybody had time to find them: nothing at all may be missing.
    pub(crate) fn last_call(&mut self) {
        self.air.moves = false;
        self.speak_up();
    }

    fn speak_up(&mut self) {
        for listener in &mut self.listeners {
            listener.expect_all_from_now(&self.air);
        }
        self.speaker.left = CHECKUP_MESSAGES;
    }

    /// After the drain: whether anybody is still connected.
    pub(crate) fn connected(&self) -> Option<String> {
        let listener = self.listeners.iter().find(|listener| !listener.is_gone());
        let speaker = (!self.speaker.line.gone).then(|| "the speaker".to_owned());
        listener.map(|listener| listener.describe(&self.air)).or(speaker)
    }

    /// Messages that listeners heard.
    pub(crate) fn heard(&self) -> u64 {
        self.listeners.iter().map(|listener| listener.heard).sum()
    }

    /// For messages.
    pub(crate) fn describe(&self) -> String {
        let busy = self.listeners.iter().filter(|listener| !listener.is_at_rest(&self.air));
        let mut text: Vec<String> = busy.map(|listener| listener.describe(&self.air)).collect();
        if !self.speaker.is_at_rest() {
            text.push(format!(
                "speaker: {} left, asked {:?}",
                self.speaker.left, self.speaker.asked
            ));
        }
        text.join("\n")
    }

    /// Everybody goes for good.
    pub(crate) fn close(&mut self) {
        self.listeners.iter_mut().for_each(Listener::go);
        self.speaker.line.go();
    }
}
