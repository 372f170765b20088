//! Scripts that return the errors with which a server sends a request on, with addresses of nodes and of nobody.
//!
//! Each call has a key of its own that it counts in, so what was done shows how often it ran. A call runs again only if the table said meanwhile that its slot
//! has another owner, which a slot that moves between the run and the look at the table can cause once.
//!
//! Not here: how the model runs it (`testkit::model`).
//!
//! Invariant: what a script returned reaches its client to the byte, and then it ran; else its client has a server's refusal.

use engine::route::slot::slot;
use testkit::frames::request;

use super::{Key, Layout, Reply, Script};
use crate::plan::FIRST_PORT;
use crate::site::Site;

/// A call runs so often at most: once, and again for a slot that moves.
const RUNS_MAX: usize = 2;

/// A port on which nobody listens.
const NOBODY: u16 = 9;

/// The calls of one client.
#[derive(Debug, Default)]
pub(super) struct Hostile {
    /// The key of each, and whether its reply came.
    calls: Vec<(Key, bool)>,
}

impl Script {
    /// A call of a script that counts and then makes up an error.
    pub(super) fn hostile(&mut self, out: &mut Vec<u8>) {
        if !matches!(self.layout, Layout::Cluster(_)) {
            return self.ping(out);
        }
        self.seq += 1;
        let key = format!("h{}:{}", self.number, self.seq);
        let own = slot(key.as_bytes());
        let slots = [own, own, own, (own + 1) % 16_384];
        let named = slots[self.rng.between(0, 3) as usize];
        let port = match self.rng.between(0, 3) {
            0 => NOBODY,
            _ => FIRST_PORT + self.rng.between(0, 8) as u16,
        };
        let text = match self.rng.between(0, 11) {
            0..=2 => format!("MOVED {named} 127.0.0.1:{port}"),
            3 | 4 => format!("ASK {named} 127.0.0.1:{port}"),
            5 => "TRYAGAIN Multiple keys request during rehashing of slot".to_owned(),
            6 => "CLUSTERDOWN The cluster is down".to_owned(),
            7 => "LOADING Redis is loading the dataset in memory".to_owned(),
            8 => "READONLY You can't write against a read only replica.".to_owned(),
            9 => "MASTERDOWN Link with MASTER is down".to_owned(),
            10 => "NOSCRIPT No matching script. Please use EVAL.".to_owned(),
            _ => "MOVED to nowhere".to_owned(),
        };
        let at = self.hostile.calls.len();
        self.hostile.calls.push(((self.db, key.clone().into_bytes()), false));
        let reply = Reply::Hostile(at, format!("-{text}\r\n").into_bytes());
        self.say(out, &request(&["EVAL", "count", "1", &key, &text]), reply, true);
    }

    /// Whether this is a right reply to a call: what its script returned, or a refusal of a server, which is as good as that of a script unless the table
    /// has another owner of the slot. Where slots move back, or a cluster is in trouble, it has not.
    pub(super) fn hear_hostile(
        &mut self,
        at: usize,
        text: &[u8],
        reply: &[u8],
        failing: bool,
    ) -> bool {
        let is_it = text == reply;
        self.hostile.calls[at].1 |= is_it;
        let begins = |words: &[&str]| words.iter().any(|word| reply.starts_with(word.as_bytes()));
        let moved = begins(&["-MOVED ", "-ASK ", "-TRYAGAIN "]);
        let fails = begins(&["-CLUSTERDOWN ", "-LOADING ", "-READONLY ", "-MASTERDOWN "]);
        is_it || moved || (failing && fails)
    }

    /// Compares with what the servers did.
    pub(super) fn judge_hostile(&self, site: &Site) -> Result<(), String> {
        for ((db, key), came) in &self.hostile.calls {
            let runs = site.effects(*db, key, false)?.len();
            let least = usize::from(*came);
            if !(least..=RUNS_MAX).contains(&runs) {
                let key = String::from_utf8_lossy(key);
                return Err(format!("the script of {key} ran {runs} times (answered: {came})"));
            }
        }
        Ok(())
    }
}
