//! What one client says, and what it must hear.
//!
//! Every request leaves an [`Expected`] behind, in order; a request that asks for no reply leaves none. While neither the server
//! nor the way to it may fail, the same bytes are also given to a model of the client's own, as over a direct connection:
//! its replies are what the client must get, to the byte. The client's keys are its own, so nobody else changes them.
//!
//! Not here: when and in which pieces the bytes go out (`client`).
//!
//! Invariant: a reply that is accepted names, as far as it names anything, the client that asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::settings::ReadPolicy;
use netio::sim::SimRng;
use testkit::frames::{quote, request};
use testkit::{Model, ModelConn};

use crate::ledger::{Keeps, Known, Ledger, Use};
use crate::plan::{Layout, PASSWORD, Plan, pick};
use crate::site::Site;
use crate::world::Epochs;

mod changing;
mod common;
mod greeting;
mod hostile;
mod many;
mod parts;
mod transaction;

pub(crate) use changing::tells_of_left;
use parts::{bulk, integer, is_as_direct};

/// From this size on a reply may be given in halves, and an upstream that dies between them closes the client.
const CUT_THROUGH_BYTES: usize = 32 << 10;

/// What a flood asks for, and how often: more than a client may let wait, and more than stops an upstream.
const FLOOD_BYTES: usize = 200_000;
const FLOOD_GETS: usize = 60;

/// What a request is told that must not be done any more, as what its client sent behind it was done.
pub(crate) const OVERTAKEN: &[u8] = b"-ERR respool: not done: ";

/// Databases that clients use.
const DATABASES: u64 = 3;

type Key = (u32, Vec<u8>);

/// What a reply must be.
#[derive(Debug)]
pub(crate) enum Reply {
    /// These bytes.
    Exact(Vec<u8>),
    /// OK to SET number `nth` of this key.
    Set(Key, u64),
    /// The result of INCR, APPEND, LPUSH number `nth`.
    Added(Key, u64),
    /// The value of a key of which so much was known.
    Value(Key, Known),
    /// Several of them.
    Values(Vec<(Key, Known)>),
    /// OK to an MSET of these writes.
    SetMany(Vec<(Key, u64)>),
    /// A number between these.
    Count(i64, i64),
    /// A page of an iteration over all keys.
    Page,
    /// Keys of its own, these among them.
    Keys(BTreeSet<Vec<u8>>),
    /// The greeting; the client speaks this protocol from then on.
    Hello(u8),
    /// OK, and the client is in this database.
    Select(u32),
    /// An integer.
    Integer,
    /// Text about the proxy: verbatim in RESP3, else a bulk.
    Text {
        /// Protocol of the client when it asked.
        resp3: bool,
    },
    /// OK to something that only the proxy does.
    Done,
    /// An error that begins like this.
    Error(&'static str),
    /// What a transaction is told.
    InTransaction(transaction::Word),
    /// What is there of what all clients write and read.
    Common(common::Word),
    /// The error that the script of this call returned.
    Hostile(usize, Vec<u8>),
    /// Whatever the model of its own says.
    Reference,
}

/// A reply to come.
#[derive(Debug)]
pub(crate) struct Expected {
    /// For messages.
    pub(crate) asked: String,
    /// What it must be.
    pub(crate) reply: Reply,
    /// Its arguments, the keys among them.
    args: BTreeSet<Vec<u8>>,
    /// What a direct connection gives.
    reference: Option<Vec<u8>>,
    /// An upstream takes part, so it may fail where upstreams do.
    fallible: bool,
    /// How often servers had been replaced in all workers when it was asked.
    said: usize,
}

/// See the module.
pub(crate) struct Script {
    number: usize,
    rng: SimRng,
    /// Says the same directly.
    reference: Option<(Model, ModelConn)>,
    ledgers: BTreeMap<Key, Ledger>,
    db: u32,
    resp3: bool,
    wants_resp3: bool,
    greeted: bool,
    password: bool,
    seq: u64,
    value_bytes_max: u64,
    large_from_bytes: usize,
    bytes_left: usize,
    pipeline_max: u64,
    /// Replies to come.
    pub(crate) expected: VecDeque<Expected>,
    /// The last error that a failure of the server explains.
    pub(crate) errors_seen: u32,
    layout: Layout,
    /// Some of its keys are kept together by a tag.
    has_tags: bool,
    keeps: Keeps,
    /// Where only copies answer, a shard whose new primary is known before its copies has none for a moment.
    may_lack_copies: bool,
    /// An iteration over all keys that is not over.
    iteration: Option<many::Iteration>,
    /// Iterations that came to their end.
    pub(crate) iterations: u32,
    /// What was heard of the transaction whose replies come.
    heard: transaction::Heard,
    /// Transactions of which nobody told whether they were done.
    doubtful: Vec<transaction::Writes>,
    /// Transactions that were done.
    pub(crate) transactions: u32,
    /// How often servers were replaced so far.
    pub(crate) epochs: Epochs,
    changing: changing::Changing,
    common: common::Common,
    hostile: hostile::Hostile,
}

impl Script {
    /// The script of one client of a plan.
    pub(crate) fn new(plan: &Plan, number: usize, seed: u64) -> Self {
        let mut rng = SimRng::new(seed);
        let reference = plan.is_as_direct().then(|| {
            let mut model = Model::new();
            if plan.password {
                model.require_password(PASSWORD);
            }
            let conn = model.conn();
            (model, conn)
        });
        let keeps = match plan.layout {
            Layout::Shards { cache: true, .. } => Keeps::Perhaps,
            _ if plan.reorders => Keeps::InAnyOrder,
            _ if plan.spreads_reads() => Keeps::UpToAsking,
            _ if plan.kind.server_fails() && (plan.layout != Layout::One || plan.changes()) => {
                Keeps::AllButReadAgain
            }
            _ => Keeps::All,
        };
        Self {
            number,
            wants_resp3: rng.chance(400_000),
            rng,
            reference,
            ledgers: BTreeMap::new(),
            db: 0,
            resp3: false,
            greeted: false,
            password: plan.password,
            seq: 0,
            value_bytes_max: plan.value_bytes_max,
            large_from_bytes: plan.settings.limits.large_request_bytes as usize,
            bytes_left: plan.bytes_budget / plan.clients,
            pipeline_max: plan.pipeline_max,
            expected: VecDeque::new(),
            errors_seen: 0,
            layout: plan.layout,
            has_tags: match plan.layout {
                Layout::One => false,
                Layout::Shards { .. } => true,
                // A request for a key that is there and one that is gone waits, and what is behind it does not.
                Layout::Cluster(restless) => plan.reorders || restless.steps == 0,
            },
            keeps,
            may_lack_copies: plan.reads_by(ReadPolicy::Replica),
            iteration: None,
            iterations: 0,
            heard: transaction::Heard::default(),
            doubtful: Vec::new(),
            transactions: 0,
            epochs: Epochs::default(),
            changing: changing::Changing::new(plan),
            common: common::Common::new(plan),
            hostile: hostile::Hostile::default(),
        }
    }

    /// The next pipeline. Where upstreams fail, a request on whose outcome the next ones depend goes alone.
    pub(crate) fn burst(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.greeted {
            self.greet(&mut out);
            if self.reference.is_none() {
                return out;
            }
        }
        let alone = self.reference.is_none() && self.rng.chance(200_000);
        if alone {
            if self.wants_resp3 && !self.resp3 {
                self.hello(&mut out);
            } else {
                self.select(&mut out);
            }
            return out;
        }
        for _ in 0..self.rng.between(1, self.pipeline_max) {
            self.one(&mut out);
        }
        out
    }

    /// A round of everything, for when all is well again.
    pub(crate) fn checkup(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.bytes_left = self.bytes_left.max(4_000);
        if !self.greeted {
            self.greet(&mut out);
        }
        self.echo(&mut out);
        self.set(&mut out, 40);
        self.get(&mut out);
        self.add(&mut out, Use::Counter);
        out
    }

    /// A pipeline whose replies come to many times its size.
    pub(crate) fn flood(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.greeted {
            self.greet(&mut out);
        }
        let key = (self.db, format!("t{}:flood", self.number).into_bytes());
        let value = self.value(&key, FLOOD_BYTES);
        let nth = self.ledger(&key).send(value.clone());
        let known = self.ledger(&key).known();
        let set = request(&[b"SET", key.1.as_slice(), &value]);
        self.say(&mut out, &set, Reply::Set(key.clone(), nth), true);
        for _ in 0..FLOOD_GETS {
            self.say(
                &mut out,
                &request(&[b"GET", key.1.as_slice()]),
                Reply::Value(key.clone(), known),
                true,
            );
        }
        out
    }

    /// The begin of a request that never ends.
    pub(crate) fn half_request(&mut self) -> Vec<u8> {
        let large = if self.large_from_bytes * 2 < self.bytes_left {
            self.large_from_bytes * 2
        } else {
            10
        };
        let bytes = pick(&mut self.rng, &[10, large as u64]);
        let mut out = format!("*3\r\n$3\r\nSET\r\n$5\r\nk:abc\r\n${}\r\n", bytes + 10).into_bytes();
        out.resize(out.len() + bytes as usize / 2, b'h');
        out
    }

    /// A question to the proxy.
    pub(crate) fn ask_proxy(&mut self, out: &mut Vec<u8>, words: &[&str], reply: Reply) {
        self.say(out, &request(words), reply, false);
    }

    /// A question to the proxy that is answered in text.
    pub(crate) fn ask_about(&mut self, out: &mut Vec<u8>, words: &[&str]) {
        let reply = Reply::Text { resp3: self.resp3 };
        self.say(out, &request(words), reply, false);
    }

    /// Whether it cannot go on before it knows its database and protocol.
    pub(crate) fn must_wait(&self) -> bool {
        let decides =
            |expected: &Expected| matches!(expected.reply, Reply::Hello(_) | Reply::Select(_));
        self.reference.is_none() && self.expected.iter().any(decides)
    }

    /// Whether its requests still wait for a large reply.
    pub(crate) fn waits_for_much(&self) -> bool {
        let much = |key: &Key| {
            self.ledgers.get(key).is_some_and(|ledger| ledger.bytes_max() > CUT_THROUGH_BYTES / 2)
        };
        self.expected.iter().any(|expected| match &expected.reply {
            Reply::Value(key, _) => much(key),
            Reply::Common(word) => self.common.is_much(*word),
            Reply::Values(keys) => keys.len() > 1 || keys.iter().any(|(key, _)| much(key)),
            _ => false,
        })
    }

    /// Takes the next reply. `failing`: the server may have failed on its way.
    pub(crate) fn hear(&mut self, reply: &[u8], failing: bool) -> Result<(), String> {
        let Some(expected) = self.expected.pop_front() else {
            return Err(format!("a reply that nobody asked for: {}", quote(reply, 80)));
        };
        self.accept(&expected, reply, failing)
            .map_err(|why| format!("asked {}, got {}: {why}", expected.asked, quote(reply, 80)))
    }

    fn accept(&mut self, expected: &Expected, reply: &[u8], failing: bool) -> Result<(), String> {
        if let Reply::InTransaction(word) = &expected.reply {
            self.hear_transaction(word, expected, reply, failing)?;
            if self.may_move(reply) || self.may_be_left(expected, reply) {
                self.leave_reference();
                return Ok(());
            }
        }
        if let Reply::Hostile(at, text) = &expected.reply
            && self.hear_hostile(*at, text, reply, failing)
        {
            return Ok(());
        }
        if self.is_lost_page(expected, reply) {
            return self.hear_failure(expected, true);
        }
        if self.may_lack_copies && reply.starts_with(b"-ERR respool: no replica is fit") {
            return self.hear_failure(expected, true);
        }
        if self.is_failure(reply) {
            if reply.starts_with(OVERTAKEN) {
                return self.hear_overtaken(expected);
            }
            return self.hear_failure(expected, failing && expected.fallible);
        }
        if let Some(reference) = &expected.reference
            && !is_as_direct(reply, reference)
        {
            return Err(format!("a direct connection gives {}", quote(reference, 80)));
        }
        self.accept_served(expected, reply)
    }

    /// The same for a reply of a server that did the request.
    fn accept_served(&mut self, expected: &Expected, reply: &[u8]) -> Result<(), String> {
        match &expected.reply {
            Reply::Exact(bytes) if bytes == reply => Ok(()),
            Reply::Exact(bytes) => Err(format!("must be {}", quote(bytes, 80))),
            Reply::Set(key, nth) if reply == b"+OK\r\n" => {
                self.ledger(key).set(*nth);
                Ok(())
            }
            Reply::Added(key, nth) => {
                let result = integer(reply)?;
                self.ledger(key).added(*nth, result)
            }
            Reply::Value(key, known) => {
                let value = bulk(reply)?;
                self.ledger(key).reads(value, *known)
            }
            Reply::Values(keys) => self.values(keys, reply),
            Reply::SetMany(writes) if reply == b"+OK\r\n" => {
                writes.iter().for_each(|(key, nth)| self.ledger(key).set(*nth));
                Ok(())
            }
            Reply::Count(least, most) => match integer(reply)? {
                count if (*least..=*most).contains(&count) => Ok(()),
                _ => Err(format!("must be from {least} to {most}")),
            },
            Reply::Common(word) => self.common.hear(*word, reply),
            Reply::Page => self.page(reply),
            Reply::Keys(due) => self.keys(due, reply),
            Reply::Hello(version) => {
                let resp3 = *version == 3;
                let head = if resp3 {
                    reply.starts_with(b"%7\r\n")
                } else {
                    reply.starts_with(b"*14\r\n")
                };
                if self.reference.is_none() {
                    self.resp3 = resp3;
                }
                head.then_some(()).ok_or_else(|| "no greeting".to_owned())
            }
            Reply::Select(db) if reply == b"+OK\r\n" => {
                if self.reference.is_none() {
                    self.db = *db;
                }
                Ok(())
            }
            Reply::Done if reply == b"+OK\r\n" => Ok(()),
            Reply::Integer => integer(reply).map(|_| ()),
            Reply::Text { resp3: true } if reply.starts_with(b"=") => Ok(()),
            Reply::Text { resp3: false } if reply.starts_with(b"$") => Ok(()),
            Reply::Error(begin) if reply.starts_with(begin.as_bytes()) => Ok(()),
            Reply::Reference | Reply::InTransaction(_) => Ok(()),
            other => Err(format!("must be {other:?}")),
        }
    }

    /// It was not served while the server did what its client had sent behind it for the same key, so it must not be done any more.
    fn hear_overtaken(&mut self, expected: &Expected) -> Result<(), String> {
        let shares = |other: &Expected| !other.args.is_disjoint(&expected.args);
        let has_cause = self.moves() && self.expected.iter().any(shares);
        self.hear_failure(expected, has_cause)?;
        if let Reply::Set(key, nth) | Reply::Added(key, nth) = &expected.reply {
            self.ledger(key).never(*nth);
        }
        Ok(())
    }

    /// Nobody knows whether this was done.
    fn hear_failure(&mut self, expected: &Expected, has_cause: bool) -> Result<(), String> {
        if !has_cause {
            return Err("an error without a cause".to_owned());
        }
        self.errors_seen += 1;
        self.leave_reference();
        self.unknown(&expected.reply);
        if matches!(expected.reply, Reply::Page) {
            self.iteration = None;
        }
        Ok(())
    }

    /// Something was not done that the reference has done.
    fn leave_reference(&mut self) {
        self.reference = None;
        self.expected.iter_mut().for_each(|expected| expected.reference = None);
    }

    /// Whether its keys may go from one server to another.
    fn moves(&self) -> bool {
        matches!(self.layout, Layout::Cluster(_))
    }

    fn values(&mut self, keys: &[(Key, Known)], reply: &[u8]) -> Result<(), String> {
        let Ok(Some((resp::value::Value::Array(values), _))) = resp::value::parse(reply) else {
            return Err("must be an array".to_owned());
        };
        if values.len() != keys.len() {
            return Err(format!("{} values for {} keys", values.len(), keys.len()));
        }
        for ((key, known), value) in keys.iter().zip(&values) {
            let value = match value {
                resp::value::Value::Bulk(bytes) => Some(*bytes),
                _ => None,
            };
            self.ledger(key).reads(value, *known)?;
        }
        Ok(())
    }

    /// The client is gone: whatever was not answered may have been done. What is expected is forgotten.
    pub(crate) fn abandon(&mut self) {
        while let Some(expected) = self.expected.pop_front() {
            self.unknown(&expected.reply);
        }
    }

    fn unknown(&mut self, reply: &Reply) {
        let writes = match reply {
            Reply::Set(key, nth) => vec![(key.clone(), *nth)],
            Reply::SetMany(writes) => writes.clone(),
            Reply::InTransaction(word) => return self.transaction_unknown(&word.clone()),
            _ => Vec::new(),
        };
        writes.iter().for_each(|(key, nth)| self.ledger(key).unknown(*nth));
    }

    /// Compares with what the server did.
    pub(crate) fn judge(&self, site: &Site) -> Result<(), String> {
        let several = self.keeps == Keeps::Perhaps;
        self.judge_transactions(site)?;
        self.judge_hostile(site)?;
        self.ledgers.iter().try_for_each(|((db, key), ledger)| {
            ledger.judge(&site.effects(*db, key, several)?, *db, key)?;
            self.judge_doers(site, &(*db, key.clone()), ledger)
        })
    }

    fn ledger(&mut self, key: &Key) -> &mut Ledger {
        let (used, keeps) = (use_of(&key.1), self.keeps);
        let ledger = self.ledgers.entry(key.clone()).or_insert_with(|| Ledger::new(used, keeps));
        ledger.epochs = self.epochs;
        ledger
    }

    // What it says. ---------------------------------------------------------------------------------------------------

    fn say(&mut self, out: &mut Vec<u8>, bytes: &[u8], reply: Reply, fallible: bool) {
        let reference = self.direct(bytes);
        let reference = match reply {
            // What the proxy says of itself is its own.
            Reply::Integer | Reply::Text { .. } | Reply::Error(_) | Reply::Done => None,
            // Several servers give them in their own order.
            Reply::Page | Reply::Keys(_) => None,
            // Others write it, too.
            Reply::Common(_) => None,
            _ => reference,
        };
        let asked = quote(bytes, 60);
        let args = resp::Args::new(bytes).skip(1).map(<[u8]>::to_vec).collect();
        let said = self.epochs.settled;
        self.expected.push_back(Expected { asked, reply, args, reference, fallible, said });
        self.spend(bytes.len());
        out.extend_from_slice(bytes);
    }

    /// What a direct connection would answer.
    fn direct(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (model, conn) = self.reference.as_mut()?;
        let mut reply = Vec::new();
        let _ = model.feed(conn, bytes, &mut reply);
        Some(reply)
    }

    /// Says something that gets no reply.
    fn say_silently(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        self.direct(bytes);
        self.spend(bytes.len());
        out.extend_from_slice(bytes);
    }

    fn spend(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    fn one(&mut self, out: &mut Vec<u8>) {
        if self.common.is_on() && self.rng.chance(400_000) && self.bytes_left > 0 {
            return self.of_common(out);
        }
        if self.layout != Layout::One && self.rng.chance(250_000) && self.bytes_left > 0 {
            return self.of_many(out);
        }
        match self.rng.between(0, 99) {
            _ if self.bytes_left == 0 => self.ping(out),
            0..=24 => {
                let bytes = self.value_bytes();
                self.set(out, bytes);
            }
            25..=44 => self.get(out),
            45..=54 => self.add(out, Use::Counter),
            55..=59 => self.add(out, Use::Log),
            60..=62 => self.add(out, Use::List),
            63..=66 => self.mget(out),
            67..=74 => self.echo(out),
            75..=80 => self.ping(out),
            81..=83 => self.inline(out),
            84..=86 => self.nothing(out),
            87..=90 => self.silent(out),
            91 => self.of_the_proxy(out),
            92 => self.refused(out),
            93..=95 => self.transaction(out),
            _ if self.reference.is_some() => self.only_when_well(out),
            _ => self.ping(out),
        }
    }

    fn key(&mut self, used: Use) -> Key {
        let letter = match used {
            Use::Text => 't',
            Use::Counter => 'n',
            Use::Log => 'l',
            Use::List => 'p',
        };
        let which = self.rng.between(0, 3);
        let number = self.number;
        // Keys with a tag are in one slot, so that requests for several of them go there whole.
        let name = match self.has_tags && which >= 2 {
            true => format!("{letter}{{{number}}}:{which}"),
            false => format!("{letter}{number}:{which}"),
        };
        (self.db, name.into_bytes())
    }

    fn value_bytes(&mut self) -> usize {
        let most = self.value_bytes_max.min(self.bytes_left as u64);
        match self.rng.between(0, 9) {
            0..=6 => self.rng.between(1, 40) as usize,
            7 | 8 => self.rng.between(1, most.clamp(1, 2_000)) as usize,
            _ => self.rng.between(1, most.max(1)) as usize,
        }
    }

    /// A value that no other request writes, and that tells whose it is.
    fn value(&mut self, key: &Key, bytes: usize) -> Vec<u8> {
        self.seq += 1;
        let mut value =
            format!("v{}:{}:{}:", self.number, String::from_utf8_lossy(&key.1), self.seq)
                .into_bytes();
        let padding = b'a' + (self.seq % 26) as u8;
        value.resize(value.len().max(bytes), padding);
        value
    }

    fn set(&mut self, out: &mut Vec<u8>, bytes: usize) {
        let key = self.key(Use::Text);
        let value = self.value(&key, bytes);
        let nth = self.ledger(&key).send(value.clone());
        let bytes = request(&[b"SET", key.1.as_slice(), &value]);
        self.say(out, &bytes, Reply::Set(key, nth), true);
    }

    fn get(&mut self, out: &mut Vec<u8>) {
        let used = if self.rng.chance(800_000) { Use::Text } else { Use::Log };
        let key = self.key(used);
        let (costs, known) = (self.ledger(&key).bytes_max(), self.ledger(&key).known());
        if costs > self.bytes_left {
            return self.ping(out);
        }
        self.spend(costs);
        let bytes = request(&[b"GET", key.1.as_slice()]);
        self.say(out, &bytes, Reply::Value(key, known), true);
    }

    fn mget(&mut self, out: &mut Vec<u8>) {
        let mut keys = Vec::new();
        for _ in 0..self.rng.between(1, 4) {
            let key = self.key(Use::Text);
            let (costs, known) = (self.ledger(&key).bytes_max(), self.ledger(&key).known());
            self.spend(costs);
            keys.push((key, known));
        }
        let mut args: Vec<&[u8]> = vec![b"MGET"];
        args.extend(keys.iter().map(|((_, key), _)| key.as_slice()));
        let bytes = request(&args);
        self.say(out, &bytes, Reply::Values(keys), true);
    }

    fn add(&mut self, out: &mut Vec<u8>, used: Use) {
        let key = self.key(used);
        let (tag, nth) = self.tag(&key);
        let bytes = match used {
            Use::Counter => request(&[b"INCR", key.1.as_slice()]),
            Use::Log => request(&[b"APPEND", key.1.as_slice(), &tag]),
            _ => request(&[b"LPUSH", key.1.as_slice(), &tag]),
        };
        self.say(out, &bytes, Reply::Added(key, nth), true);
    }

    fn text(&mut self) -> String {
        self.seq += 1;
        format!("client {} request {}", self.number, self.seq)
    }

    fn echo(&mut self, out: &mut Vec<u8>) {
        let text = self.text();
        let reply = Reply::Exact(format!("${}\r\n{text}\r\n", text.len()).into_bytes());
        self.say(out, &request(&["ECHO", &text]), reply, false);
    }

    fn ping(&mut self, out: &mut Vec<u8>) {
        self.say(out, &request(&["PING"]), Reply::Exact(b"+PONG\r\n".to_vec()), false);
    }

    fn inline(&mut self, out: &mut Vec<u8>) {
        if self.rng.chance(500_000) {
            return self.say(out, b"ping\n", Reply::Exact(b"+PONG\r\n".to_vec()), false);
        }
        let key = self.key(Use::Text);
        let value = self.value(&key, 1);
        let nth = self.ledger(&key).send(value.clone());
        let line = format!(
            "set {} \"{}\"\r\n",
            String::from_utf8_lossy(&key.1),
            String::from_utf8_lossy(&value)
        );
        self.say(out, line.as_bytes(), Reply::Set(key, nth), true);
    }

    /// Requests of nothing.
    fn nothing(&mut self, out: &mut Vec<u8>) {
        let of: [&[u8]; 4] = [b"\r\n", b"*0\r\n", b"*-1\r\n", b"   \n"];
        let at = self.rng.between(0, 3) as usize;
        self.say_silently(out, of[at]);
    }

    /// Requests whose replies are not wanted.
    fn silent(&mut self, out: &mut Vec<u8>) {
        let off = self.rng.chance(300_000);
        let mode = if off { "OFF" } else { "SKIP" };
        // The model of its own is not told of it; its replies to these are not looked at.
        out.extend_from_slice(&request(&["CLIENT", "REPLY", mode]));
        for _ in 0..if off { self.rng.between(0, 5) } else { 1 } {
            if self.rng.chance(300_000) {
                self.say_silently(out, &request(&["PING"]));
                continue;
            }
            let key = self.key(Use::Text);
            let bytes = self.value_bytes();
            let value = self.value(&key, bytes);
            let nth = self.ledger(&key).send(value.clone());
            self.ledger(&key).unknown(nth);
            self.say_silently(out, &request(&[b"SET", key.1.as_slice(), &value]));
        }
        if off {
            self.say(out, &request(&["CLIENT", "REPLY", "ON"]), Reply::Done, false);
        }
    }

    /// What the proxy answers itself.
    fn of_the_proxy(&mut self, out: &mut Vec<u8>) {
        let text = Reply::Text { resp3: self.resp3 };
        match self.rng.between(0, 3) {
            0 => self.say(out, &request(&["CLIENT", "ID"]), Reply::Integer, false),
            1 => self.say(out, &request(&["CLIENT", "INFO"]), text, false),
            2 => self.say(out, &request(&["INFO", "memory"]), text, false),
            _ => {
                let name = format!("client-{}", self.number);
                self.say(
                    out,
                    &request(&["CLIENT", "SETNAME", &name]),
                    Reply::Exact(b"+OK\r\n".to_vec()),
                    false,
                );
                let reply = format!("${}\r\n{name}\r\n", name.len()).into_bytes();
                self.say(out, &request(&["CLIENT", "GETNAME"]), Reply::Exact(reply), false);
            }
        }
    }

    /// What is refused, small and large.
    fn refused(&mut self, out: &mut Vec<u8>) {
        let large = "x".repeat(
            if self.rng.chance(300_000) && self.bytes_left > self.large_from_bytes + 100 {
                self.large_from_bytes + self.rng.between(1, 100) as usize
            } else {
                3
            },
        );
        match self.rng.between(0, 2) {
            0 => self.say(out, &request(&["SYNC"]), Reply::Error("-ERR respool: 'sync'"), false),
            1 => self.say(
                out,
                &request(&["DEBUG", &large]),
                Reply::Error("-ERR respool: 'debug"),
                false,
            ),
            // Alone it is kept up to its end and answered; in pieces it may be found too large first.
            _ if large.len() > 3 => self.say(
                out,
                &request(&["PSYNC", &large, "x"]),
                Reply::Error("-ERR respool: 'psync'"),
                false,
            ),
            _ => self.say(
                out,
                &request(&["GET"]),
                Reply::Error("-ERR wrong number of arguments for 'get'"),
                true,
            ),
        }
    }

    /// What would make the bookkeeping of an unsure world too lenient.
    fn only_when_well(&mut self, out: &mut Vec<u8>) {
        let key = String::from_utf8_lossy(&self.key(Use::Text).1).into_owned();
        match self.rng.between(0, 5) {
            0 => self.select(out),
            1 => {
                self.wants_resp3 = !self.wants_resp3;
                self.hello(out);
            }
            2 => self.say(out, &request(&["NO.SUCH", &key, "a b"]), Reply::Reference, true),
            3 => self.say(out, &request(&["EXISTS", &key, &key]), Reply::Reference, true),
            4 => self.say(out, &request(&["LLEN", &key]), Reply::Reference, true),
            _ => self.say(out, &request(&["STRLEN", &key]), Reply::Reference, true),
        }
    }
}

/// How a key is used, from its first letter.
fn use_of(key: &[u8]) -> Use {
    match key.first() {
        Some(b'n') => Use::Counter,
        Some(b'l') => Use::Log,
        Some(b'p') => Use::List,
        _ => Use::Text,
    }
}
