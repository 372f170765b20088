//! What a client says that concerns several servers: commands that are split between them, and those that go to all.
//!
//! An iteration by SCAN is a request after the other, each with the cursor that the last one brought; at its end every key
//! that was there when it began must have come.
//!
//! Not here: requests for one key (`script`).
//!
//! Invariant: of an iteration at most one page is under way.

use std::collections::BTreeSet;

use testkit::frames::{quote, request};

use super::{Key, Layout, Reply, Script};
use crate::ledger::Use;
use crate::plan::pick;

/// Pages after which an iteration is given up: where slots move all the time it begins again and again.
const PAGES_MAX: u32 = 150;

/// An iteration over all keys.
#[derive(Debug)]
pub(super) struct Iteration {
    cursor: Vec<u8>,
    db: u32,
    /// Keys that must come and have not.
    due: BTreeSet<Vec<u8>>,
    count: String,
    pages: u32,
    is_asked: bool,
    /// How often servers had been replaced when it began: at others its cursor means nothing.
    pub(super) begun: usize,
}

impl Script {
    pub(super) fn of_many(&mut self, out: &mut Vec<u8>) {
        match self.rng.between(0, 15) {
            0..=2 => self.mget(out),
            3..=5 => self.mset(out),
            6 | 7 => self.count_keys(out),
            8 => self.delete(out),
            9 => self.say(out, &request(&["DBSIZE"]), Reply::Integer, true),
            10 => self.list_keys(out),
            11 | 12 => self.hostile(out),
            _ => self.begin_iteration(out),
        }
    }

    fn mset(&mut self, out: &mut Vec<u8>) {
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        for _ in 0..self.rng.between(1, 4) {
            let key = self.key(Use::Text);
            keys.insert(key);
        }
        let mut args: Vec<Vec<u8>> = vec![b"MSET".to_vec()];
        let mut writes = Vec::new();
        for key in keys {
            let value = self.value(&key, 1);
            let nth = self.ledger(&key).send(value.clone());
            args.extend([key.1.clone(), value]);
            writes.push((key, nth));
        }
        self.say(out, &request(&args), Reply::SetMany(writes), true);
    }

    fn count_keys(&mut self, out: &mut Vec<u8>) {
        let name = ["EXISTS", "TOUCH"][self.rng.between(0, 1) as usize];
        let mut args: Vec<Vec<u8>> = vec![name.into()];
        let (mut least, mut most) = (0, 0);
        for _ in 0..self.rng.between(1, 6) {
            let used = [Use::Text, Use::Counter][self.rng.between(0, 1) as usize];
            let key = self.key(used);
            least += i64::from(self.ledger(&key).known().exists());
            most += 1;
            args.push(key.1);
        }
        if self.keeps == crate::ledger::Keeps::Perhaps {
            least = 0;
        }
        self.say(out, &request(&args), Reply::Count(least, most), true);
    }

    /// Keys that come and go, of which nobody keeps a ledger.
    fn delete(&mut self, out: &mut Vec<u8>) {
        let name = |which: u64| format!("d{}:{which}", self.number);
        let names: Vec<String> = (0..4).map(name).collect();
        let which = self.rng.between(0, 3) as usize;
        let mset = ["MSET", names[which].as_str(), "x", names[(which + 1) % 4].as_str(), "y"];
        self.say(out, &request(&mset), Reply::Exact(b"+OK\r\n".to_vec()), true);
        let word = ["DEL", "UNLINK"][self.rng.between(0, 1) as usize];
        let most = self.rng.between(1, 4) as usize;
        let mut args = vec![word];
        args.extend(names.iter().take(most).map(String::as_str));
        self.say(out, &request(&args), Reply::Count(0, most as i64), true);
    }

    /// Its own keys that surely are there.
    fn surely_there(&self) -> BTreeSet<Vec<u8>> {
        if self.keeps == crate::ledger::Keeps::Perhaps {
            return BTreeSet::new();
        }
        let own = self.ledgers.iter().filter(|((db, _), _)| *db == self.db);
        own.filter(|(_, ledger)| ledger.known().exists()).map(|((_, key), _)| key.clone()).collect()
    }

    fn list_keys(&mut self, out: &mut Vec<u8>) {
        // A key that moves while all are asked may be seen nowhere; the nodes are not asked at one moment.
        let due = match self.layout {
            Layout::Cluster(_) => BTreeSet::new(),
            _ => self.surely_there(),
        };
        self.spend(400);
        let pattern = format!("?{}:*", self.number);
        let due = due.into_iter().filter(|key| !key.contains(&b'{')).collect();
        self.say(out, &request(&["KEYS", &pattern]), Reply::Keys(due), true);
    }

    pub(super) fn keys(&mut self, due: &BTreeSet<Vec<u8>>, reply: &[u8]) -> Result<(), String> {
        let came = list(reply)?;
        let own = format!("{}:", self.number).into_bytes();
        if let Some(foreign) = came.iter().find(|key| !key[1..].starts_with(&own)) {
            return Err(format!("{} does not fit the pattern", quote(foreign, 40)));
        }
        match due.iter().find(|key| !came.contains(key)) {
            Some(missing) => Err(format!("{} is missing", quote(missing, 40))),
            None => Ok(()),
        }
    }

    fn begin_iteration(&mut self, out: &mut Vec<u8>) {
        if self.iteration.is_some() {
            return self.ping(out);
        }
        self.iteration = Some(Iteration {
            cursor: b"0".to_vec(),
            db: self.db,
            due: self.surely_there(),
            count: pick(&mut self.rng, &[1, 10, 1_000]).to_string(),
            pages: 0,
            is_asked: false,
            begun: self.epochs.settled,
        });
        self.next_page(out);
    }

    /// Whether the next page of an iteration is to be asked for.
    pub(crate) fn has_page_due(&self) -> bool {
        self.iteration.as_ref().is_some_and(|iteration| !iteration.is_asked)
    }

    /// Asks for the next page.
    pub(crate) fn next_page(&mut self, out: &mut Vec<u8>) {
        let (db, number, left) = (self.db, self.number, self.bytes_left);
        let begun = self.epochs.begun;
        let Some(iteration) = self.iteration.as_mut() else { return };
        // Its cursor is of a database; and where single bytes travel it must end some time.
        let lasts = iteration.db == db && iteration.begun == begun;
        if !lasts || iteration.pages > PAGES_MAX || left == 0 {
            self.iteration = None;
            return self.ping(out);
        }
        iteration.is_asked = true;
        iteration.pages += 1;
        let pattern = format!("*{number}*:*");
        let args: [&[u8]; 6] = [
            b"SCAN",
            &iteration.cursor.clone(),
            b"MATCH",
            pattern.as_bytes(),
            b"COUNT",
            &iteration.count.clone().into_bytes(),
        ];
        let bytes = request(&args);
        self.spend(100);
        self.say(out, &bytes, Reply::Page, true);
    }

    pub(super) fn page(&mut self, reply: &[u8]) -> Result<(), String> {
        let parsed = resp::value::parse(reply);
        let Ok(Some((resp::value::Value::Array(parts), _))) = parsed else {
            return Err("must be a page".to_owned());
        };
        let [resp::value::Value::Bulk(cursor), resp::value::Value::Array(keys)] = parts.as_slice()
        else {
            return Err("must be a cursor and keys".to_owned());
        };
        let begun = self.epochs.begun;
        let Some(iteration) = self.iteration.as_mut() else { return Ok(()) };
        if iteration.begun != begun {
            self.iteration = None;
            return Ok(());
        }
        for key in keys {
            if let resp::value::Value::Bulk(key) = key {
                iteration.due.remove(*key);
            }
        }
        iteration.cursor = cursor.to_vec();
        iteration.is_asked = false;
        if iteration.cursor != b"0" {
            return Ok(());
        }
        let missing = iteration.due.pop_first();
        self.iteration = None;
        self.iterations += 1;
        match missing {
            None => Ok(()),
            Some(key) => Err(format!("the iteration is over and {} never came", quote(&key, 40))),
        }
    }

    /// Whether a reply is an error that a failing server explains.
    pub(crate) fn is_failure(&self, reply: &[u8]) -> bool {
        let always: [&[u8]; 2] = [b"-ERR respool: upstream ", b"-ERR max number of clients"];
        let of_several: [&[u8]; 4] = [
            b"-ERR respool: given up after ",
            b"-CLUSTERDOWN Hash slot not served (respool: ",
            b"-ERR respool: no replica is fit",
            super::OVERTAKEN,
        ];
        let begins = |begin: &&[u8]| reply.starts_with(begin);
        always.iter().any(begins) || (self.layout != Layout::One && of_several.iter().any(begins))
    }
}

/// The elements of an array of bulks.
fn list(reply: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let Ok(Some((resp::value::Value::Array(parts), _))) = resp::value::parse(reply) else {
        return Err("must be an array".to_owned());
    };
    let bulk = |value: &resp::value::Value<'_>| match value {
        resp::value::Value::Bulk(bytes) => Ok(bytes.to_vec()),
        _ => Err("must be bulks".to_owned()),
    };
    parts.iter().map(bulk).collect()
}
