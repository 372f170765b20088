//! How a client begins and changes its connection: HELLO, AUTH, SELECT.
//!
//! Invariant: the protocol and the database that a client is in change with the reply, not with the request.

use testkit::frames::request;

use super::{DATABASES, Layout, Reply, Script};
use crate::plan::PASSWORD;

impl Script {
    /// The last words of a client that goes: QUIT, or something that is not the protocol.
    pub(crate) fn farewell(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let words: [&[u8]; 4] =
            [b"*1\r\n$4\r\nQUIT\r\n", b"*1\r\n:3\r\n", b"*1\r\n$-5\r\n", b"SET \"unbalanced\r\n"];
        let exact: [&[u8]; 4] = [
            b"+OK\r\n",
            b"-ERR Protocol error: expected '$', got ':'\r\n",
            b"-ERR Protocol error: invalid bulk length\r\n",
            b"-ERR Protocol error: unbalanced quotes in request\r\n",
        ];
        let at = self.rng.between(0, 3) as usize;
        self.say(&mut out, words[at], Reply::Exact(exact[at].to_vec()), false);
        out
    }

    pub(super) fn greet(&mut self, out: &mut Vec<u8>) {
        self.greeted = true;
        if self.password {
            if self.rng.chance(300_000) {
                self.say(out, &request(&["GET", "x"]), Reply::Error("-NOAUTH "), false);
            }
            self.say(out, &request(&[b"AUTH", PASSWORD]), Reply::Exact(b"+OK\r\n".to_vec()), false);
        }
        if self.reference.is_some() && self.wants_resp3 {
            self.hello(out);
        } else if self.password {
            // Nothing else is to be said.
        } else {
            self.echo(out);
        }
    }

    pub(super) fn hello(&mut self, out: &mut Vec<u8>) {
        let version = if self.wants_resp3 { 3 } else { 2 };
        self.say(out, &request(&["HELLO", &version.to_string()]), Reply::Hello(version), true);
        if self.reference.is_some() {
            // Nothing fails, so what follows in the pipeline is in the new protocol.
            self.resp3 = version == 3;
        }
    }

    pub(super) fn select(&mut self, out: &mut Vec<u8>) {
        if self.changing.one_database {
            return self.ping(out);
        }
        if matches!(self.layout, Layout::Cluster(_)) {
            // A server alone would do it, so the model of its own is not told.
            let reference = self.reference.take();
            let refused = Reply::Error("-ERR SELECT is not allowed in cluster mode");
            self.say(out, &request(&["SELECT", "1"]), refused, false);
            self.reference = reference;
            return;
        }
        let db = self.rng.between(0, DATABASES - 1) as u32;
        self.say(out, &request(&["SELECT", &db.to_string()]), Reply::Select(db), true);
        if self.reference.is_some() {
            self.db = db;
        }
    }
}
