//! Clients that wait for elements with BLPOP, one that pushes them, and who got what.
//!
//! ```text
//!   pusher ── RPUSH q:0 "7" ──▶ proxy ──▶ server ──▶ proxy ──▶ a popper that waits with BLPOP q:0 q:1 0, and perhaps leaves before
//! ```
//! Elements are numbered, each is pushed once. Judged: nobody gets what was not pushed, nor what somebody else got; what was acknowledged was
//! pushed once, what was not at most once; and as many elements were popped as were got, but for one at most for each BLPOP of which nobody
//! told the outcome. When all is well again whoever waits is served: connections of the storm keep its faults and a tight worker closes whom it
//! likes, so a pusher that goes then has a successor, and where the door is full one of those who wait makes room for it.
//!
//! Not here: what other clients say (`script`).
//!
//! Invariant: it has chances of its own, so that the other clients say the same with it and without it.

use std::collections::{BTreeMap, BTreeSet};

use netio::Address;
use netio::sim::{SimNet, SimRng};
use resp::value::{Value, parse};
use testkit::frames::{quote, request};
use testkit::model::Effect;

use crate::client::Around;
use crate::plan::{Kind, Layout, PASSWORD, Plan, pick};
use crate::radio::{Line, is_turned_away};
use crate::script::tells_of_left;
use crate::site::Site;

/// Queues.
const QUEUES: usize = 2;
/// Elements that are pushed at the end, at the most, until all who wait are served.
const LAST_ELEMENTS_MAX: u64 = 300;
/// So long a pusher that found the door full waits for the place of one that left.
const ROOM_US: u64 = 100_000;

fn name(queue: usize) -> Vec<u8> {
    format!("q:{queue}").into_bytes()
}

/// What is known of all queues.
#[derive(Debug, Default)]
struct Stock {
    /// The number of the last element.
    last: u64,
    /// Elements whose push was acknowledged, and their queue.
    acked: BTreeMap<u64, usize>,
    /// Elements that somebody got, and the queue that was named.
    got: BTreeMap<u64, usize>,
    /// BLPOPs of which nobody told the outcome.
    in_doubt: usize,
}

/// The one that pushes.
struct Pusher {
    line: Line,
    rng: SimRng,
    needs_password: bool,
    /// What is to be answered: AUTH (`None`), or the push of this element.
    asked: Option<Option<(usize, u64)>>,
    /// It found the door full.
    turned_away: bool,
    left: u64,
    gap_us: u64,
    next_at_us: u64,
}

impl Pusher {
    fn new(plan: &Plan, net: &SimNet, to: &Address, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        Self {
            line: Line::new(net, to),
            needs_password: plan.password,
            asked: None,
            turned_away: false,
            left: pick(&mut rng, &[3, 15, 40]),
            gap_us: pick(&mut rng, &[1, 300, 20_000]),
            next_at_us: net.now_us() + rng.between(0, 10_000),
            rng,
        }
    }

    fn is_at_rest(&self) -> bool {
        self.line.is_gone() || (self.left == 0 && self.asked.is_none())
    }

    fn next_at_us(&self) -> Option<u64> {
        let speaks = !self.is_at_rest() && self.asked.is_none() && self.line.is_connected();
        speaks.then_some(self.next_at_us).into_iter().chain(self.line.waits_until_us()).min()
    }

    fn step(&mut self, around: &Around<'_>, stock: &mut Stock) -> Result<(), String> {
        if self.line.is_gone() {
            return Ok(());
        }
        for reply in self.line.heard()? {
            self.hear(around, stock, &reply)?;
        }
        if !self.line.is_up(around)? {
            return Ok(());
        }
        let may = self.asked.is_none() && !around.draining && around.now_us >= self.next_at_us;
        if may && std::mem::take(&mut self.needs_password) {
            self.asked = Some(None);
            self.line.say(&request(&[b"AUTH", PASSWORD]));
        } else if may && self.left > 0 {
            self.left -= 1;
            stock.last += 1;
            let queue = self.rng.between(0, QUEUES as u64 - 1) as usize;
            self.line.say(&request(&[
                b"RPUSH",
                &name(queue)[..],
                stock.last.to_string().as_bytes(),
            ]));
            self.asked = Some(Some((queue, stock.last)));
        }
        Ok(())
    }

    fn hear(&mut self, around: &Around<'_>, stock: &mut Stock, reply: &[u8]) -> Result<(), String> {
        if is_turned_away(around, reply) {
            self.asked = None;
            self.turned_away = true;
            return Ok(());
        }
        match (reply.first(), self.asked.take()) {
            (Some(b'+'), Some(None)) => {}
            (Some(b':'), Some(Some((queue, element)))) => {
                stock.acked.insert(element, queue);
            }
            (Some(b'-'), Some(Some(_))) if around.failing => {}
            (_, asked) => return Err(format!("{} answers {asked:?}", quote(reply, 80))),
        }
        self.next_at_us = around.now_us + self.rng.between(0, self.gap_us);
        Ok(())
    }
}

/// What a popper has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Password,
    /// BLPOP of the queues from this one on.
    Element(usize),
}

/// One that waits for elements.
struct Popper {
    number: u64,
    line: Line,
    rng: SimRng,
    needs_password: bool,
    asked: Option<Asked>,
    /// How often servers had been replaced then.
    said: usize,
    left: u64,
    /// It goes while it waits.
    leaves_at_us: Option<u64>,
    next_at_us: u64,
}

impl Popper {
    fn new(plan: &Plan, net: &SimNet, to: &Address, number: u64, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        Self {
            number,
            line: Line::new(net, to),
            needs_password: plan.password,
            asked: None,
            said: 0,
            left: rng.between(1, 12),
            leaves_at_us: rng.chance(250_000).then(|| net.now_us() + rng.between(0, 400_000)),
            next_at_us: net.now_us() + rng.between(0, 5_000),
            rng,
        }
    }

    fn waits(&self) -> bool {
        matches!(self.asked, Some(Asked::Element(_)))
    }

    /// Whether it does nothing of its own accord: it may wait for an element.
    fn is_at_rest(&self) -> bool {
        let quiet = match self.asked {
            None => self.left == 0,
            asked => asked != Some(Asked::Password) && self.leaves_at_us.is_none(),
        };
        self.line.is_gone() || quiet
    }

    fn next_at_us(&self) -> Option<u64> {
        let connected = !self.line.is_gone() && self.line.is_connected();
        let acts = connected && self.asked.is_none() && self.left > 0;
        let acts = acts.then_some(self.next_at_us);
        let leaves = self.leaves_at_us.filter(|_| connected && self.waits());
        acts.into_iter().chain(leaves).chain(self.line.waits_until_us()).min()
    }

    fn describe(&self) -> String {
        format!(
            "popper {} ({}) asked {:?}, {} left",
            self.number,
            self.line.local(),
            self.asked,
            self.left
        )
    }

    fn step(&mut self, around: &Around<'_>, stock: &mut Stock) -> Result<(), String> {
        if self.line.is_gone() {
            return Ok(());
        }
        for frame in self.line.heard()? {
            self.hear(around, stock, &frame)?;
        }
        if !self.line.is_up(around).map_err(|why| format!("{why}: {}", self.describe()))? {
            if self.line.is_gone() {
                self.is_in_doubt(stock);
            }
            return Ok(());
        }
        if around.draining {
            return Ok(());
        }
        if self.waits() && self.leaves_at_us.is_some_and(|at_us| at_us <= around.now_us) {
            self.go(stock);
        } else if self.asked.is_none() && self.left > 0 && around.now_us >= self.next_at_us {
            self.said = around.epochs.settled;
            self.ask();
        }
        Ok(())
    }

    fn ask(&mut self) {
        if std::mem::take(&mut self.needs_password) {
            self.asked = Some(Asked::Password);
            return self.line.say(&request(&[b"AUTH", PASSWORD]));
        }
        self.left -= 1;
        let from = self.rng.between(0, QUEUES as u64 - 1) as usize;
        let mut words = vec![b"BLPOP".to_vec()];
        words.extend((from..QUEUES).map(name));
        words.push(b"0".to_vec());
        self.asked = Some(Asked::Element(from));
        self.line.say(&request(&words));
    }

    fn hear(&mut self, around: &Around<'_>, stock: &mut Stock, frame: &[u8]) -> Result<(), String> {
        let gap_us = pick(&mut self.rng, &[1, 500, 30_000]);
        self.next_at_us = around.now_us + self.rng.between(0, gap_us);
        if is_turned_away(around, frame) {
            self.is_in_doubt(stock);
            return Ok(());
        }
        let from = match self.asked {
            Some(Asked::Password) if frame == b"+OK\r\n" => {
                self.asked = None;
                return Ok(());
            }
            Some(Asked::Element(from)) => from,
            asked => return Err(format!("{} answers {asked:?}", quote(frame, 80))),
        };
        // What would wake it is sent elsewhere now.
        let is_left = tells_of_left(frame) && self.said < around.epochs.begun;
        if frame.starts_with(b"-") && (around.failing || is_left) {
            self.is_in_doubt(stock);
            return Ok(());
        }
        self.asked = None;
        let Ok(Some((Value::Array(parts), _))) = parse(frame) else {
            return Err(format!("{} is no element", quote(frame, 80)));
        };
        let [Value::Bulk(key), Value::Bulk(element)] = parts.as_slice() else {
            return Err(format!("{} is no element", quote(frame, 80)));
        };
        let queue = (from..QUEUES).find(|queue| name(*queue) == *key);
        let queue = queue.ok_or_else(|| format!("{} was not asked for", quote(key, 20)))?;
        let number = resp::number::parse_i64(element).and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| (1..=stock.last).contains(number));
        let number = number.ok_or_else(|| format!("{} was never pushed", quote(element, 20)))?;
        match stock.got.insert(number, queue) {
            None => Ok(()),
            Some(_) => Err(format!("element {number} was given for the second time")),
        }
    }

    fn go(&mut self, stock: &mut Stock) {
        self.is_in_doubt(stock);
        self.line.go();
    }

    fn is_in_doubt(&mut self, stock: &mut Stock) {
        stock.in_doubt += usize::from(self.waits());
        self.asked = None;
    }
}

/// See the module.
pub(crate) struct Queues {
    pusher: Pusher,
    poppers: Vec<Popper>,
    stock: Stock,
    rng: SimRng,
    net: SimNet,
    to: Address,
    /// All is well: whoever waits is to be served, with so many elements or successors of the pusher at the most.
    elements_left: Option<u64>,
    /// From when on a pusher that is gone has a successor.
    succeeds_at_us: u64,
    /// Successors that it had when all was well.
    successors: u32,
}

impl Queues {
    /// Those of a plan, which connect now. In front of several servers and in a crowd there are none.
    pub(crate) fn new(plan: &Plan, net: &SimNet, to: &Address) -> Option<Self> {
        if plan.layout != Layout::One || plan.kind == Kind::Crowd {
            return None;
        }
        let mut rng = SimRng::new(plan.seed ^ 0x7175_6575_6573);
        let pusher = Pusher::new(plan, net, to, rng.next_u64());
        let poppers = (0..rng.between(1, 5))
            .map(|number| Popper::new(plan, net, to, number, rng.next_u64()))
            .collect();
        Some(Self {
            pusher,
            poppers,
            stock: Stock::default(),
            rng,
            net: net.clone(),
            to: to.clone(),
            elements_left: None,
            succeeds_at_us: 0,
            successors: 0,
        })
    }

    /// Everybody does what is to be done now.
    pub(crate) fn step(&mut self, around: &Around<'_>) -> Result<(), String> {
        let stock = &mut self.stock;
        self.pusher.step(around, stock).map_err(|why| format!("the pusher: {why}"))?;
        for popper in &mut self.poppers {
            let number = popper.number;
            popper.step(around, stock).map_err(|why| format!("popper {number}: {why}"))?;
        }
        if !around.draining && self.owes() && around.now_us >= self.succeeds_at_us {
            self.provide(around);
        }
        Ok(())
    }

    /// Whether somebody is to be served, and nobody is about to push.
    fn owes(&self) -> bool {
        self.elements_left.is_some_and(|left| left > 0) && self.pusher.is_at_rest() && self.waits()
    }

    /// One element more; by a successor if the pusher is gone, which comes when there is room for it.
    fn provide(&mut self, around: &Around<'_>) {
        if std::mem::take(&mut self.pusher.turned_away) {
            let popper = self.poppers.iter_mut().find(|popper| popper.waits());
            popper.into_iter().for_each(|popper| popper.go(&mut self.stock));
            self.succeeds_at_us = around.now_us + ROOM_US;
            return;
        }
        self.elements_left = self.elements_left.map(|left| left - 1);
        match self.pusher.line.is_gone() {
            true => {
                self.successors += 1;
                let seed = self.rng.next_u64();
                self.pusher = Pusher::new(around.plan, &self.net, &self.to, seed);
            }
            false => self.pusher.left += 1,
        }
    }

    /// Whether all is said, for now; when all is well nobody waits then.
    pub(crate) fn is_at_rest(&self) -> bool {
        let waits = self.elements_left.is_some() && self.waits();
        self.pusher.is_at_rest() && self.poppers.iter().all(Popper::is_at_rest) && !waits
    }

    /// When somebody next does something of its own accord.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        let poppers = self.poppers.iter().filter_map(Popper::next_at_us);
        let provides = self.owes().then_some(self.succeeds_at_us);
        poppers.chain(self.pusher.next_at_us()).chain(provides).min()
    }

    /// Everything is well: whoever waits is served.
    pub(crate) fn check_up(&mut self, plan: &Plan) {
        self.elements_left = Some(LAST_ELEMENTS_MAX);
        if self.pusher.line.is_gone() {
            self.pusher = Pusher::new(plan, &self.net, &self.to, !plan.seed);
        }
        self.poppers.iter_mut().for_each(|popper| popper.leaves_at_us = None);
    }

    /// Whether somebody waits for an element, and is owed it when the proxy ends.
    pub(crate) fn waits(&self) -> bool {
        self.poppers.iter().any(Popper::waits)
    }

    /// After the drain: whether anybody is still connected.
    pub(crate) fn connected(&self) -> Option<String> {
        let popper = self.poppers.iter().find(|popper| !popper.line.is_gone());
        let pusher = (!self.pusher.line.is_gone()).then(|| "the pusher".to_owned());
        popper.map(Popper::describe).or(pusher)
    }

    /// Elements that were got.
    pub(crate) fn got(&self) -> u64 {
        self.stock.got.len() as u64
    }

    /// How often a pusher had a successor when all was well.
    pub(crate) fn successors(&self) -> u32 {
        self.successors
    }

    /// For messages.
    pub(crate) fn describe(&self) -> String {
        let mut text: Vec<String> = self.poppers.iter().map(Popper::describe).collect();
        text.push(format!("pusher: {} left, asked {:?}", self.pusher.left, self.pusher.asked));
        text.join("\n")
    }

    /// Everybody goes for good.
    pub(crate) fn close(&mut self) {
        let stock = &mut self.stock;
        self.poppers.iter_mut().for_each(|popper| popper.go(stock));
        self.pusher.line.go();
    }

    /// Compares with what the server did, when all is over.
    pub(crate) fn judge(&mut self, site: &Site) -> Result<(), String> {
        self.poppers.iter_mut().for_each(|popper| popper.is_in_doubt(&mut self.stock));
        let (mut pushed, mut popped) = (BTreeSet::new(), BTreeSet::new());
        for queue in 0..QUEUES {
            for effect in site.effects(0, &name(queue), false)? {
                let (set, element) = match &effect {
                    Effect::Push(element) => (&mut pushed, element),
                    Effect::Pop(element) => (&mut popped, element),
                    other => return Err(format!("{other:?} was never asked for")),
                };
                let number = resp::number::parse_i64(element).unwrap_or_default() as u64;
                if !set.insert((number, queue)) {
                    return Err(format!("{effect:?} of queue {queue} was done twice"));
                }
            }
        }
        let stock = &self.stock;
        let is_in = |set: &BTreeSet<(u64, usize)>, (number, queue): (&u64, &usize)| {
            set.contains(&(*number, *queue))
        };
        if let Some(lost) = stock.acked.iter().find(|element| !is_in(&pushed, *element)) {
            return Err(format!("{lost:?} was acknowledged and not pushed"));
        }
        if let Some(foreign) = stock.got.iter().find(|element| !is_in(&popped, *element)) {
            return Err(format!("{foreign:?} was given and not popped"));
        }
        let lost = popped.len() - stock.got.len();
        if lost > stock.in_doubt {
            return Err(format!(
                "{lost} elements were popped for nobody, and {} BLPOPs are in doubt",
                stock.in_doubt
            ));
        }
        Ok(())
    }
}
