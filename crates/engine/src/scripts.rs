//! Scripts that clients loaded, so that a call by digest finds its script on whichever server it goes to.
//!
//! Behind one name stand several servers: `SCRIPT LOAD` reaches all that are there, but a server that was restarted, took over or joined later
//! knows nothing of it, and an `EVAL` taught its script to one server only. A client that knows of one server cannot know that. So
//! the proxy remembers bodies, and the first call by digest over a connection goes out behind a `SCRIPT LOAD` of its own:
//!
//! ```text
//!   client  EVALSHA 5332… 1 k ──▶  SCRIPT LOAD "return 1"   EVALSHA 5332… 1 k  ──▶ a server, in one write
//! ```
//! In front of the call and not after a `NOSCRIPT`: in a pipeline what stands behind the call would overtake it otherwise. A server that lost
//! its scripts on a connection that stands (`SCRIPT FLUSH` past the proxy) is healed only where nothing of the client is behind the call;
//! else the client sees the `NOSCRIPT`, and every later call is right again.
//!
//! Not here: a single server. There `NOSCRIPT` is the truth, and client libraries know what to do; of its scripts only those are remembered that say
//! whether they write, for `CLIENT PAUSE … WRITE`. Functions are not either: servers keep and replicate them.
//!
//! Invariant: at most [`SCRIPTS_MAX`] scripts of together [`SCRIPTS_BYTES_MAX`] are kept; the oldest go first.

use crate::command::{CommandId, ids};
use crate::delimiter::Delimiters;
use crate::engine::Engine;
use crate::ids::UpstreamId;
use crate::limits::{SCRIPTS_BYTES_MAX, SCRIPTS_MAX};
use crate::news::What;
use crate::route;
use crate::scatter::Wish;
use crate::time::Time;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use resp::Args;
use sha1::{Digest as _, Sha1};

/// SHA-1 of a script's text.
pub(crate) type Digest = [u8; 20];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    by_digest: BTreeMap<Digest, Arc<[u8]>>,
    /// The same the other way round, so that an `EVAL` of a known script costs no digest.
    digests: BTreeMap<Arc<[u8]>, Digest>,
    oldest: VecDeque<Digest>,
    bytes: usize,
    /// Where the replies of scripts end; at most one small entry for each connection.
    pub(crate) delimiters: Box<Delimiters>,
}

impl Scripts {
    /// None are known.
    pub(crate) fn new(seed: u64) -> Self {
        Self { delimiters: Box::new(Delimiters::new(seed)), ..Self::default() }
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Remembers a script.
    pub(crate) fn learn(&mut self, body: Arc<[u8]>) {
        if body.len() > SCRIPTS_BYTES_MAX || self.digests.contains_key(&body) {
            return;
        }
        let digest: Digest = Sha1::digest(&body).into();
        self.bytes += body.len();
        self.by_digest.insert(digest, Arc::clone(&body));
        self.digests.insert(body, digest);
        self.oldest.push_back(digest);
        while self.oldest.len() > SCRIPTS_MAX || self.bytes > SCRIPTS_BYTES_MAX {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some(digest) = self.oldest.pop_front() else { return };
        if let Some(body) = self.by_digest.remove(&digest) {
            self.bytes -= body.len();
            self.digests.remove(&body);
        }
    }

    fn knows(&self, body: &[u8]) -> bool {
        self.digests.contains_key(body)
    }

    /// The script with this digest, which is as a client gave it.
    pub(crate) fn text(&self, digest: &[u8]) -> Option<&[u8]> {
        self.body(&digest_of(digest)?).map(|body| &**body)
    }

    fn body(&self, digest: &Digest) -> Option<&Arc<[u8]>> {
        self.by_digest.get(digest)
    }
}

/// The digest that a client gave as 40 hexadecimal digits of either case; `None` if it is none.
fn digest_of(text: &[u8]) -> Option<Digest> {
    let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    let mut digest = Digest::default();
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(digest)
}

/// Whether this command calls a script by its digest.
fn calls_by_digest(command: Option<CommandId>) -> bool {
    matches!(command, Some(ids::EVALSHA | ids::EVALSHA_RO))
}

impl Engine {
    /// Looks at a request on its way for what it says of scripts.
    pub(crate) fn note_script(&mut self, wish: &Wish<'_>) {
        match wish.row {
            Some(ids::EVAL | ids::EVAL_RO) => {
                if let Some(body) = wish.args.get(1)
                    && !self.scripts.knows(body)
                {
                    self.scripts.learn(Arc::from(*body));
                }
            }
            Some(ids::SCRIPT_LOAD) if wish.args.len() == 3 => {
                let body: Arc<[u8]> = Arc::from(wish.args[2]);
                self.scripts.learn(Arc::clone(&body));
                self.tell_others(0, What::Script(body));
            }
            Some(ids::SCRIPT_FLUSH) => {
                self.forget_scripts();
                self.tell_others(0, What::NoScripts);
            }
            _ => {}
        }
    }

    /// The same where there is one server: only what a call by digest does not tell by itself is of use there.
    pub(crate) fn note_flags(&mut self, command: Option<CommandId>, args: &[&[u8]]) {
        match (command.filter(|_| self.is_one()), args) {
            (Some(ids::SCRIPT_LOAD), [_, _, body]) if route::may_write(body).is_some() => {
                let body: Arc<[u8]> = Arc::from(*body);
                self.scripts.learn(Arc::clone(&body));
                self.tell_others(0, What::Script(body));
            }
            (Some(ids::SCRIPT_FLUSH), _) => {
                self.forget_scripts();
                self.tell_others(0, What::NoScripts);
            }
            _ => {}
        }
    }

    /// Whether a request writes, or may pass something on to replicas: what a server takes it for that writes are paused at (`getCommandFlags`).
    pub(crate) fn writes(&self, command: Option<CommandId>, args: &[&[u8]]) -> bool {
        let Some(row) = command else { return true };
        let first = args.get(1).copied();
        if row == ids::FCALL && first.is_some_and(|name| self.readers.has(name)) {
            return false;
        }
        let digest = first.filter(|_| calls_by_digest(command)).and_then(digest_of);
        let body = digest.and_then(|digest| self.scripts.body(&digest));
        match body.and_then(|body| route::may_write(body)) {
            Some(writes) => writes,
            None => route::writes(row, first),
        }
    }

    /// Servers are told to forget: so must we.
    pub(crate) fn forget_scripts(&mut self) {
        // Words stay secret, and what is open on a connection stays open.
        let delimiters = core::mem::take(&mut self.scripts.delimiters);
        self.scripts = Scripts { delimiters, ..Scripts::default() };
        for id in self.upstreams.ids() {
            if let Some(upstream) = self.upstreams.get_mut(id) {
                upstream.scripts.clear();
            }
        }
    }

    /// A request is about to be written to this connection: if it calls a script that this connection has not loaded, that goes first.
    pub(crate) fn load_script_before(
        &mut self,
        now: Time,
        id: UpstreamId,
        command: Option<CommandId>,
        request: &[u8],
    ) {
        if !calls_by_digest(command) {
            return;
        }
        let Some(digest) = Args::new(request).nth(1).and_then(digest_of) else { return };
        let Some(body) = self.scripts.body(&digest) else { return };
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        if !upstream.scripts.insert(digest) {
            return;
        }
        let body = Arc::clone(body);
        self.say_own(now, id, OwnCommand::Script, &[b"SCRIPT", b"LOAD", &body]);
        self.delimit_last(now, id);
    }

    /// The front request of this connection, whose bytes are here, got `NOSCRIPT`. The script to be loaded if the call may be sent again behind it.
    pub(crate) fn heals_noscript(
        &mut self,
        id: UpstreamId,
        run: &Run,
        request: &[u8],
    ) -> Option<Digest> {
        if !calls_by_digest(run.command) {
            return None;
        }
        let digest = Args::new(request).nth(1).and_then(digest_of)?;
        if let Some(upstream) = self.upstreams.get_mut(id) {
            // The script itself may have said so: its next call is behind a SCRIPT LOAD, those of others are as they were.
            upstream.scripts.remove(&digest);
        }
        let alone = match run.owner {
            Owner::Client { id, seq, .. } => {
                self.clients.get(id).is_some_and(|client| client.places.is_last(seq))
            }
            _ => false,
        };
        let heals = alone && run.tries == 0 && self.scripts.body(&digest).is_some();
        heals.then_some(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_digest_is_forty_digits_of_either_case() {
        let digest: Digest = Sha1::digest(b"return 1").into();
        let lower = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        assert_eq!(digest_of(lower), Some(digest));
        assert_eq!(digest_of(&lower.to_ascii_uppercase()), Some(digest));
        for wrong in [&b""[..], &lower[..39], b"g0e1f9fabfc9d4800c877a703b823ac0578ff8db"] {
            assert_eq!(digest_of(wrong), None);
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_go_first() {
        let mut scripts = Scripts::default();
        for number in 0..2 * SCRIPTS_MAX {
            scripts.learn(Arc::from(format!("return {number}").as_bytes()));
        }
        assert_eq!((scripts.oldest.len(), scripts.by_digest.len()), (SCRIPTS_MAX, SCRIPTS_MAX));
        assert!(
            !scripts.knows(b"return 0")
                && scripts.knows(format!("return {SCRIPTS_MAX}").as_bytes())
        );
        for number in 0..9u8 {
            scripts.learn(Arc::from(alloc::vec![number; SCRIPTS_BYTES_MAX / 4]));
        }
        assert!(
            scripts.bytes <= SCRIPTS_BYTES_MAX && scripts.digests.len() == scripts.by_digest.len()
        );
        scripts.learn(Arc::from(alloc::vec![9; SCRIPTS_BYTES_MAX + 1]));
        assert!(scripts.bytes <= SCRIPTS_BYTES_MAX);
    }
}
