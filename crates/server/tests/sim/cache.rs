//! Clients that keep what they read until they are told that it changed, one that changes it, and what nobody may keep.
//!
//! ```text
//!   writer ── SET c:1 "7" ──▶ proxy ──▶ server ──▶ proxy ──▶ keepers that have read c:1: invalidate c:1
//!   keeper ── GET c:1 ──▶ "7" kept until then
//! ```
//! A key has one writer, whose values are numbered. Judged: a reply is not older than what was acknowledged when it was asked for; nobody is
//! told of keys that are not its own; and when all is quiet nobody keeps what is not there any more. Reads are plain, in pipelines and inside
//! `MULTI`, in default mode, with `BCAST` and with `NOLOOP`.
//!
//! Readers beside them keep nothing: what they are given may be kept by the proxy. None goes back in time, and when all is quiet all of them see what is there.
//!
//! Not here: what other clients say (`script`).
//!
//! Invariant: it has chances of its own, so that the other clients say the same with it and without it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use netio::Address;
use netio::sim::{SimNet, SimRng};
use resp::value::{Value, parse};
use testkit::frames::{quote, request};
use testkit::model::Effect;

use crate::client::Around;
use crate::plan::{Kind, Layout, PASSWORD, Plan, pick};
use crate::radio::{Line, is_turned_away};
use crate::site::Site;

/// Keys that are kept.
const KEYS: u64 = 6;
/// What everybody does once more when all is well.
const CHECKUP_ACTS: u64 = 6;

fn name(number: u64) -> Vec<u8> {
    format!("c:{number}").into_bytes()
}

/// What is known of the keys.
#[derive(Debug, Default)]
struct Truth {
    /// The number of the last value.
    last: u64,
    /// For each key the last value whose write was acknowledged; 0: none.
    acked: BTreeMap<Vec<u8>, u64>,
    /// Values whose write was answered with an error. A server that was slow may do it all the same, and behind a later one that came over another connection.
    doubtful: BTreeSet<u64>,
    /// No server forgets, or has an older state than another.
    keeps: bool,
    /// Copies do not answer, and no shard is left out: nobody reads what is older.
    strict: bool,
    /// Slots may move under a transaction.
    moves: bool,
    /// Shards are left out while they fail, so a key may be on several.
    spread: bool,
}

/// A write under way.
#[derive(Debug)]
struct Write {
    key: Vec<u8>,
    /// 0 for DEL.
    value: u64,
    /// What DEL must answer, where that is known.
    removes: Option<bool>,
}

/// The one that writes.
struct Writer {
    line: Line,
    rng: SimRng,
    needs_password: bool,
    /// What is to be answered: AUTH (`None`), or a write.
    asked: Option<Option<Write>>,
    left: u64,
    gap_us: u64,
    next_at_us: u64,
}

impl Writer {
    fn new(plan: &Plan, net: &SimNet, to: &Address, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        Self {
            line: Line::new(net, to),
            needs_password: plan.password,
            asked: None,
            left: pick(&mut rng, &[3, 20, 60]),
            gap_us: pick(&mut rng, &[1, 300, 20_000]),
            next_at_us: net.now_us() + rng.between(0, 10_000),
            rng,
        }
    }

    fn is_at_rest(&self) -> bool {
        self.line.is_gone() || (self.left == 0 && self.asked.is_none())
    }

    fn next_at_us(&self) -> Option<u64> {
        let writes = !self.is_at_rest() && self.asked.is_none() && self.line.is_connected();
        writes.then_some(self.next_at_us).into_iter().chain(self.line.waits_until_us()).min()
    }

    fn step(&mut self, around: &Around<'_>, truth: &mut Truth) -> Result<(), String> {
        if self.line.is_gone() {
            return Ok(());
        }
        for reply in self.line.heard()? {
            self.hear(around, truth, &reply)?;
        }
        if !self.line.is_up(around)? {
            return Ok(());
        }
        let may = self.asked.is_none() && !around.draining && around.now_us >= self.next_at_us;
        if may && std::mem::take(&mut self.needs_password) {
            self.asked = Some(None);
            self.line.say(&request(&[b"AUTH", PASSWORD]));
        } else if may && self.left > 0 {
            self.write(truth);
        }
        Ok(())
    }

    fn write(&mut self, truth: &mut Truth) {
        self.left -= 1;
        let key = name(self.rng.between(0, KEYS - 1));
        let value = match self.rng.chance(120_000) {
            true => 0,
            false => {
                truth.last += 1;
                truth.last
            }
        };
        self.line.say(&match value {
            0 => request(&[b"DEL", &key[..]]),
            value => request(&[b"SET", &key[..], value.to_string().as_bytes()]),
        });
        // Until that is acknowledged nothing is known of the key.
        let before = truth.acked.remove(&key).filter(|_| value == 0 && !truth.spread);
        let removes = before.map(|before| before > 0);
        self.asked = Some(Some(Write { key, value, removes }));
    }

    fn hear(&mut self, around: &Around<'_>, truth: &mut Truth, reply: &[u8]) -> Result<(), String> {
        if is_turned_away(around, reply) {
            self.asked = None;
            return Ok(());
        }
        match (reply.first(), self.asked.take()) {
            (Some(b'+'), Some(None)) => {}
            (Some(b'+' | b':'), Some(Some(Write { key, value, removes })))
                if removes.is_none_or(|removes| {
                    reply == [b':', b'0' + u8::from(removes), b'\r', b'\n']
                }) =>
            {
                truth.acked.insert(key, value);
            }
            (Some(b'-'), Some(Some(Write { value, .. }))) if around.failing => {
                truth.doubtful.insert(value);
            }
            (_, asked) => return Err(format!("{} answers {asked:?}", quote(reply, 80))),
        }
        self.next_at_us = around.now_us + self.rng.between(0, self.gap_us);
        Ok(())
    }
}

/// What a keeper has asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Password,
    Hello,
    /// CLIENT TRACKING ON.
    On,
    /// CLIENT TRACKING OFF.
    Off,
    /// A value, which is to be this or a later one; `None`: nothing is known.
    Value(Vec<u8>, Option<u64>),
    Multi,
    Queued,
    /// EXEC of a read of this key.
    Exec(Vec<u8>),
}

/// One that keeps what it reads.
struct Keeper {
    number: u64,
    line: Line,
    rng: SimRng,
    /// The words behind CLIENT TRACKING ON.
    mode: Vec<&'static str>,
    begun: bool,
    needs_password: bool,
    asked: VecDeque<Asked>,
    /// What it keeps: 0 stands for no value.
    kept: BTreeMap<Vec<u8>, u64>,
    left: u64,
    gap_us: u64,
    next_at_us: u64,
}

impl Keeper {
    fn new(plan: &Plan, net: &SimNet, to: &Address, number: u64, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        let mut mode = match rng.between(0, 3) {
            0 => vec!["BCAST"],
            1 => vec!["BCAST", "PREFIX", "c:"],
            _ => Vec::new(),
        };
        if rng.chance(250_000) {
            mode.push("NOLOOP");
        }
        Self {
            number,
            line: Line::new(net, to),
            mode,
            begun: false,
            needs_password: plan.password,
            asked: VecDeque::new(),
            kept: BTreeMap::new(),
            left: rng.between(1, 30),
            gap_us: pick(&mut rng, &[1, 500, 30_000]),
            next_at_us: net.now_us() + rng.between(0, 5_000),
            rng,
        }
    }

    fn is_at_rest(&self) -> bool {
        self.line.is_gone() || (self.left == 0 && self.asked.is_empty())
    }

    fn next_at_us(&self) -> Option<u64> {
        let acts = !self.is_at_rest() && self.asked.is_empty() && self.line.is_connected();
        acts.then_some(self.next_at_us).into_iter().chain(self.line.waits_until_us()).min()
    }

    fn describe(&self) -> String {
        format!(
            "keeper {} ({}, {:?}) asked {:?}, {} left, keeps {:?}",
            self.number,
            self.line.local(),
            self.mode,
            self.asked,
            self.left,
            self.kept
        )
    }

    fn step(&mut self, around: &Around<'_>, truth: &Truth) -> Result<(), String> {
        if self.line.is_gone() {
            return Ok(());
        }
        for frame in self.line.heard()? {
            match frame.starts_with(b">") {
                true => self.hear_of_change(&frame)?,
                false => self.hear(around, truth, &frame)?,
            }
        }
        if self.line.is_gone() || !self.line.is_up(around)? {
            return Ok(());
        }
        let may = self.asked.is_empty() && self.left > 0 && !around.draining;
        if may && around.now_us >= self.next_at_us {
            self.act(truth);
        }
        Ok(())
    }

    fn act(&mut self, truth: &Truth) {
        if std::mem::take(&mut self.needs_password) {
            return self.ask(&[b"AUTH", PASSWORD], Asked::Password);
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.ask(&[b"HELLO", b"3"], Asked::Hello);
            return self.track();
        }
        self.left -= 1;
        match self.rng.between(0, 15) {
            0 => {
                self.ask(&[b"CLIENT", b"TRACKING", b"OFF"], Asked::Off);
                self.track();
            }
            1 | 2 => {
                let key = self.any_key();
                self.ask(&[b"MULTI"], Asked::Multi);
                self.ask(&[b"GET", &key], Asked::Queued);
                self.ask(&[b"EXEC"], Asked::Exec(key));
            }
            _ => {
                for _ in 0..self.rng.between(1, 4) {
                    let key = self.any_key();
                    let strict = truth.strict && !truth.spread;
                    let least = truth.acked.get(&key).copied().filter(|_| strict);
                    self.ask(&[b"GET", &key], Asked::Value(key.clone(), least));
                }
            }
        }
    }

    fn any_key(&mut self) -> Vec<u8> {
        name(self.rng.between(0, KEYS - 1))
    }

    fn track(&mut self) {
        let words = ["CLIENT", "TRACKING", "ON"].into_iter().chain(self.mode.iter().copied());
        let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
        self.ask(&words, Asked::On);
    }

    fn ask(&mut self, words: &[&[u8]], asked: Asked) {
        self.line.say(&request(words));
        self.asked.push_back(asked);
    }

    /// Keys changed: they are kept no longer.
    fn hear_of_change(&mut self, frame: &[u8]) -> Result<(), String> {
        let Ok(Some((Value::Push(parts), _))) = parse(frame) else {
            return Err(format!("{} is no push", quote(frame, 80)));
        };
        match parts.as_slice() {
            [Value::Bulk(b"invalidate"), Value::Null] => self.kept.clear(),
            [Value::Bulk(b"invalidate"), Value::Array(keys)] => {
                for key in keys {
                    let key = key.as_text().unwrap_or_default();
                    let own = key.starts_with(b"c:")
                        || self.mode == ["BCAST"]
                        || self.mode == ["BCAST", "NOLOOP"];
                    if !own {
                        return Err(format!("it hears of {}", quote(key, 40)));
                    }
                    self.kept.remove(key);
                }
            }
            _ => return Err(format!("{} is no change", quote(frame, 80))),
        }
        Ok(())
    }

    fn hear(&mut self, around: &Around<'_>, truth: &Truth, reply: &[u8]) -> Result<(), String> {
        self.next_at_us = around.now_us + self.rng.between(0, self.gap_us);
        if is_turned_away(around, reply) {
            self.asked.clear();
            return Ok(());
        }
        let Some(asked) = self.asked.pop_front() else {
            return Err(format!("nobody asked for {}", quote(reply, 80)));
        };
        if reply.starts_with(b"-") {
            return self.hear_error(around, truth, &asked, reply);
        }
        let fits = match &asked {
            Asked::Password | Asked::Multi | Asked::On => reply == b"+OK\r\n",
            Asked::Off => {
                self.kept.clear();
                reply == b"+OK\r\n"
            }
            Asked::Hello => reply.starts_with(b"%7\r\n"),
            Asked::Queued => reply == b"+QUEUED\r\n",
            Asked::Value(key, least) => {
                let value = value(reply)?;
                // DEL takes the number 0, so it is known only whether the last word was one.
                let is_older = least.is_some_and(|least| least > 0 && value > 0 && value < least);
                if is_older && !truth.doubtful.contains(&value) {
                    return Err(format!("{value} is older than {least:?}"));
                }
                self.kept.insert(key.clone(), value);
                true
            }
            Asked::Exec(key) => {
                let inner = reply.strip_prefix(b"*1\r\n");
                let value = value(inner.ok_or_else(|| format!("{} of EXEC", quote(reply, 80)))?)?;
                self.kept.insert(key.clone(), value);
                true
            }
        };
        fits.then_some(()).ok_or_else(|| format!("{} answers {asked:?}", quote(reply, 80)))
    }

    fn hear_error(
        &mut self,
        around: &Around<'_>,
        truth: &Truth,
        asked: &Asked,
        reply: &[u8],
    ) -> Result<(), String> {
        let in_transaction = matches!(asked, Asked::Multi | Asked::Queued | Asked::Exec(_));
        let none_fit = reply.starts_with(b"-ERR respool: no replica is fit") && !truth.strict;
        let is_left = around.epochs.begun > 0
            && (super::script::tells_of_left(reply) || reply.starts_with(b"-EXECABORT "));
        if !(around.failing || in_transaction && (truth.moves || is_left) || none_fit) {
            return Err(format!("{} answers {asked:?}", quote(reply, 80)));
        }
        if matches!(asked, Asked::Hello | Asked::On) {
            // It is told of nothing, so it keeps nothing.
            (self.left, self.begun) = (0, true);
            self.kept.clear();
            self.line.go();
        }
        Ok(())
    }
}

/// One that keeps nothing.
struct Reader {
    line: Line,
    rng: SimRng,
    resp3: bool,
    needs_password: bool,
    /// The keys that it has asked for; `None`: something else.
    asked: VecDeque<Option<Vec<u8>>>,
    /// The last value of each key, and the greatest.
    seen: BTreeMap<Vec<u8>, (u64, u64)>,
    left: u64,
    gap_us: u64,
    next_at_us: u64,
}

impl Reader {
    fn new(plan: &Plan, net: &SimNet, to: &Address, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        Self {
            line: Line::new(net, to),
            resp3: rng.chance(400_000),
            needs_password: plan.password,
            asked: VecDeque::new(),
            seen: BTreeMap::new(),
            left: rng.between(5, 60),
            gap_us: pick(&mut rng, &[1, 300, 5_000]),
            next_at_us: net.now_us() + rng.between(0, 5_000),
            rng,
        }
    }

    fn is_at_rest(&self) -> bool {
        self.line.is_gone() || (self.left == 0 && self.asked.is_empty())
    }

    fn next_at_us(&self) -> Option<u64> {
        let acts = !self.is_at_rest() && self.asked.is_empty() && self.line.is_connected();
        acts.then_some(self.next_at_us).into_iter().chain(self.line.waits_until_us()).min()
    }

    fn step(&mut self, around: &Around<'_>, truth: &Truth) -> Result<(), String> {
        if self.line.is_gone() {
            return Ok(());
        }
        for frame in self.line.heard()? {
            self.hear(around, truth, &frame)?;
        }
        if self.line.is_gone() || !self.line.is_up(around)? {
            return Ok(());
        }
        let may = self.asked.is_empty() && self.left > 0 && !around.draining;
        if may && around.now_us >= self.next_at_us {
            self.act();
        }
        Ok(())
    }

    fn act(&mut self) {
        if std::mem::take(&mut self.needs_password) {
            self.line.say(&request(&[b"AUTH", PASSWORD]));
            return self.asked.push_back(None);
        }
        if std::mem::take(&mut self.resp3) {
            self.line.say(&request(&[&b"HELLO"[..], b"3"]));
            return self.asked.push_back(None);
        }
        self.left -= 1;
        let keys: Vec<u64> = match self.left {
            // The last look is at all of them.
            0 => (0..KEYS).collect(),
            _ => (0..self.rng.between(1, 4)).map(|_| self.rng.between(0, KEYS - 1)).collect(),
        };
        let mut bytes = Vec::new();
        for key in keys.into_iter().map(name) {
            bytes.extend(request(&[&b"GET"[..], &key]));
            self.asked.push_back(Some(key));
        }
        self.line.say(&bytes);
    }

    fn hear(&mut self, around: &Around<'_>, truth: &Truth, reply: &[u8]) -> Result<(), String> {
        self.next_at_us = around.now_us + self.rng.between(0, self.gap_us);
        if is_turned_away(around, reply) {
            self.asked.clear();
            return Ok(());
        }
        let Some(asked) = self.asked.pop_front() else {
            return Err(format!("nobody asked for {}", quote(reply, 80)));
        };
        let none_fit = reply.starts_with(b"-ERR respool: no replica is fit") && !truth.strict;
        let is_left = around.epochs.begun > 0 && super::script::tells_of_left(reply);
        if reply.starts_with(b"-") {
            let forgiven = around.failing || none_fit || is_left;
            return forgiven.then_some(()).ok_or_else(|| quote(reply, 80));
        }
        let Some(key) = asked else { return Ok(()) };
        let value = value(reply)?;
        let (last, most) = self.seen.entry(key).or_default();
        if truth.keeps && value > 0 && value < *most && !truth.doubtful.contains(&value) {
            return Err(format!("{value} after {most}"));
        }
        (*last, *most) = (value, value.max(*most));
        Ok(())
    }
}

/// The number in a reply to GET; 0: there is no value.
fn value(reply: &[u8]) -> Result<u64, String> {
    match parse(reply) {
        Ok(Some((Value::Null, _))) => Ok(0),
        Ok(Some((Value::Bulk(text), _))) => resp::number::parse_i64(text)
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(|| format!("{} was never written", quote(text, 40))),
        _ => Err(format!("{} is no value", quote(reply, 80))),
    }
}

/// See the module.
pub(crate) struct Caches {
    writer: Writer,
    keepers: Vec<Keeper>,
    readers: Vec<Reader>,
    truth: Truth,
    judged: u64,
}

impl Caches {
    /// Those of a plan, which connect now. In a crowd there are none.
    pub(crate) fn new(plan: &Plan, net: &SimNet, to: &Address) -> Option<Self> {
        if plan.kind == Kind::Crowd {
            return None;
        }
        let mut rng = SimRng::new(plan.seed ^ 0x0063_6163_6865);
        let writer = Writer::new(plan, net, to, rng.next_u64());
        let keepers = (0..rng.between(1, 4))
            .map(|number| Keeper::new(plan, net, to, number, rng.next_u64()))
            .collect();
        let strict = !plan.spreads_reads();
        let moves = matches!(plan.layout, Layout::Cluster(_));
        let spread = matches!(plan.layout, Layout::Shards { cache: true, .. });
        let keeps = !plan.changes() && (plan.layout == Layout::One || plan.is_as_direct());
        let truth = Truth { keeps, strict, moves, spread, ..Truth::default() };
        let readers = match plan.settings.cache.enabled {
            true => (0..3).map(|_| Reader::new(plan, net, to, rng.next_u64())).collect(),
            false => Vec::new(),
        };
        Some(Self { writer, keepers, readers, truth, judged: 0 })
    }

    /// Everybody does what is to be done now.
    pub(crate) fn step(&mut self, around: &Around<'_>) -> Result<(), String> {
        let truth = &mut self.truth;
        self.writer.step(around, truth).map_err(|why| format!("the writer: {why}"))?;
        for keeper in &mut self.keepers {
            let step = keeper.step(around, truth);
            step.map_err(|why| format!("{why}: {}", keeper.describe()))?;
        }
        for reader in &mut self.readers {
            let step = reader.step(around, truth);
            step.map_err(|why| format!("the reader at {}: {why}", reader.line.local()))?;
        }
        Ok(())
    }

    /// Whether all is said and heard, for now.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.writer.is_at_rest()
            && self.keepers.iter().all(Keeper::is_at_rest)
            && self.readers.iter().all(Reader::is_at_rest)
    }

    /// When somebody next does something of its own accord.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        let keepers = self.keepers.iter().filter_map(Keeper::next_at_us);
        let readers = self.readers.iter().filter_map(Reader::next_at_us);
        keepers.chain(readers).chain(self.writer.next_at_us()).min()
    }

    /// Everything is well: everybody reads and writes once more.
    pub(crate) fn check_up(&mut self) {
        self.writer.left += CHECKUP_ACTS;
        self.keepers.iter_mut().for_each(|keeper| keeper.left += CHECKUP_ACTS);
    }

    /// Nothing changes any more: what readers read now is what is there.
    pub(crate) fn last_look(&mut self) {
        self.readers.iter_mut().for_each(|reader| reader.left += 1);
    }

    /// All is quiet: whether somebody keeps what is not there any more.
    pub(crate) fn judge(&mut self, site: &Site) -> Result<(), String> {
        if self.truth.spread {
            return Ok(());
        }
        for keeper in self.keepers.iter().filter(|keeper| !keeper.line.is_gone()) {
            for (key, kept) in &keeper.kept {
                let effects = site.effects(0, key, false)?;
                let there = match effects.last() {
                    Some(Effect::Set(text)) => resp::number::parse_i64(text).unwrap_or_default(),
                    _ => 0,
                };
                if there != *kept as i64 {
                    let key = quote(key, 20);
                    return Err(format!("{key} is {there} and not {kept}: {}", keeper.describe()));
                }
                self.judged += 1;
            }
        }
        for reader in self.readers.iter().filter(|reader| !reader.line.is_gone()) {
            for (key, (last, _)) in reader.seen.iter().filter(|_| self.truth.strict) {
                let effects = site.effects(0, key, false)?;
                let there = match effects.last() {
                    Some(Effect::Set(text)) => resp::number::parse_i64(text).unwrap_or_default(),
                    _ => 0,
                };
                if there != *last as i64 {
                    let (key, who) = (quote(key, 20), reader.line.local());
                    return Err(format!("{key} is {there}, and the reader at {who} sees {last}"));
                }
            }
        }
        Ok(())
    }

    /// Whether each value was written once at most.
    pub(crate) fn judge_writes(&self, site: &Site) -> Result<(), String> {
        for key in (0..KEYS).map(name) {
            let mut seen = BTreeSet::new();
            for effect in site.effects(0, &key, self.truth.spread)? {
                if let Effect::Set(value) = effect
                    && !seen.insert(value.clone())
                {
                    let [key, value] = [&key, &value].map(|text| quote(text, 20));
                    return Err(format!("{key} was set to {value} twice"));
                }
            }
        }
        Ok(())
    }

    /// Values that were kept when all was quiet, and were right.
    pub(crate) fn judged(&self) -> u64 {
        self.judged
    }

    /// After the drain: whether anybody is still connected.
    pub(crate) fn connected(&self) -> Option<String> {
        let keeper = self.keepers.iter().find(|keeper| !keeper.line.is_gone());
        let is_there = |reader: &&Reader| !reader.line.is_gone();
        let reader = self.readers.iter().find(is_there).map(|reader| reader.line.local());
        let writer = (!self.writer.line.is_gone()).then(|| "the writer".to_owned()).or(reader);
        keeper.map(Keeper::describe).or(writer)
    }

    /// For messages.
    pub(crate) fn describe(&self) -> String {
        let mut text: Vec<String> = self.keepers.iter().map(Keeper::describe).collect();
        text.push(format!("writer: {} left, asked {:?}", self.writer.left, self.writer.asked));
        text.join("\n")
    }

    /// Everybody goes for good.
    pub(crate) fn close(&mut self) {
        self.keepers.iter_mut().for_each(|keeper| keeper.line.go());
        self.readers.iter_mut().for_each(|reader| reader.line.go());
        self.writer.line.go();
    }
}
