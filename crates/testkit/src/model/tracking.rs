//! The model's client-side caching: which connection has read what, and what it is told when that changes.
//!
//! Known are CLIENT TRACKING ON and OFF with BCAST, PREFIX, NOLOOP, REDIRECT and OPTIN, and CLIENT CACHING YES; who is told is in RESP3. The table is that of Redis' tracking.c: keys by
//! name, whatever the database; a connection is told once of a key that it read, and reads it again to be told again.
//!
//! In a cluster a node tells of what changes in its own shard, and of keys that leave it.
//!
//! Not here: who caches (`server/tests/sim/cache.rs`).
//!
//! Invariant: what a connection is told of its own change comes behind the reply to it.

use std::collections::{BTreeMap, BTreeSet};

use resp::{Protocol, encode};

use super::{Call, table};

/// Everybody who is told of changes, by the number of the connection.
#[derive(Debug, Default)]
pub(super) struct Trackers {
    all: BTreeMap<u64, Tracker>,
}

#[derive(Debug, Default)]
struct Tracker {
    /// The deployment and the node of a cluster at which it is.
    deployment: usize,
    node: usize,
    /// It is not told of what it changes itself.
    no_loop: bool,
    /// The connection that is told instead.
    redirect: Option<u64>,
    /// Only what is read right behind CLIENT CACHING YES is remembered.
    opt_in: bool,
    /// That was said: 2, or it was the last command: 1.
    caching: u8,
    /// In BCAST mode: it is told of all keys that begin so.
    prefixes: Option<BTreeSet<Vec<u8>>>,
    /// Keys that it read and was not told of since.
    read: BTreeSet<Vec<u8>>,
    /// What it is told next; `None` stands for all keys.
    waiting: Vec<Option<Vec<u8>>>,
}

impl Tracker {
    /// How often it is to be told of this key: once, in BCAST mode for each prefix.
    fn messages(&mut self, key: &[u8]) -> usize {
        match &self.prefixes {
            None => usize::from(self.read.remove(key)),
            Some(prefixes) => prefixes.iter().filter(|prefix| key.starts_with(prefix)).count(),
        }
    }
}

impl Trackers {
    /// A connection is over, or caches nothing any more.
    pub(super) fn forget(&mut self, conn: u64) {
        self.all.remove(&conn);
    }

    /// A key changed at these nodes of a deployment, or left them; `None`: there is one server. `by`: the connection that changed it. Other
    /// deployments have the same data and no such nodes.
    pub(super) fn changed(
        &mut self,
        key: &[u8],
        by: Option<u64>,
        nodes: Option<&[usize]>,
        deployment: usize,
    ) {
        for (conn, own) in &mut self.all {
            let is_other = own.deployment != deployment;
            if !is_other && nodes.is_some_and(|nodes| !nodes.contains(&own.node)) {
                continue;
            }
            let messages = own.messages(key);
            if !(own.no_loop && by == Some(*conn)) {
                own.waiting.extend(std::iter::repeat_n(Some(key.to_vec()), messages));
            }
        }
    }

    /// All keys went.
    pub(super) fn flushed(&mut self) {
        for own in self.all.values_mut() {
            own.read.clear();
            own.waiting.push(None);
        }
    }

    /// Gives out what waits for a connection.
    pub(super) fn take(&mut self, conn: u64, protocol: Protocol, out: &mut Vec<u8>) {
        let is_told = |of: u64, tracker: &Tracker| tracker.redirect.unwrap_or(of) == conn;
        let told = self.all.iter_mut().filter(|(of, tracker)| is_told(**of, tracker));
        let waiting: Vec<_> = told.flat_map(|(_, own)| own.waiting.drain(..)).collect();
        for key in waiting.into_iter().filter(|_| protocol == Protocol::Resp3) {
            encode::push(out, 2);
            encode::bulk(out, b"invalidate");
            match key {
                Some(key) => {
                    encode::array(out, 1);
                    encode::bulk(out, &key);
                }
                None => encode::null(out, protocol),
            }
        }
    }
}

/// CLIENT TRACKING on|off …
pub(super) fn client_tracking(call: &mut Call<'_>) {
    let deployment = call.model.deployment;
    let mut wanted = Tracker { deployment, node: call.place.node, ..Tracker::default() };
    let (mut broadcast, mut prefixes) = (false, BTreeSet::new());
    let mut at = 3;
    while at < call.args.len() {
        match call.word(at).as_str() {
            "bcast" => broadcast = true,
            "noloop" => wanted.no_loop = true,
            "optin" => wanted.opt_in = true,
            "redirect" if at + 1 < call.args.len() => {
                at += 1;
                wanted.redirect = call.word(at).parse().ok();
            }
            "prefix" if at + 1 < call.args.len() => {
                at += 1;
                prefixes.insert(call.args[at].clone());
            }
            _ => return call.error("ERR syntax error"),
        }
        at += 1;
    }
    match call.word(2).as_str() {
        "on" => {}
        "off" => {
            call.model.trackers.forget(call.conn.id);
            return call.ok();
        }
        _ => return call.error("ERR syntax error"),
    }
    if broadcast && prefixes.is_empty() {
        prefixes.insert(Vec::new());
    }
    let own = call.model.trackers.all.entry(call.conn.id).or_default();
    if broadcast {
        // Those of before stay (`enableBcastTrackingForPrefix`).
        prefixes.extend(own.prefixes.take().unwrap_or_default());
        wanted.prefixes = Some(prefixes);
    }
    (wanted.read, wanted.waiting) =
        (std::mem::take(&mut own.read), std::mem::take(&mut own.waiting));
    *own = wanted;
    call.ok();
}

/// CLIENT CACHING YES
pub(super) fn client_caching(call: &mut Call<'_>) {
    match call.model.trackers.all.get_mut(&call.conn.id).filter(|own| own.opt_in) {
        Some(own) => own.caching = 2,
        None => {
            return call.error(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            );
        }
    }
    call.ok();
}

/// A command was executed that only reads these keys.
pub(super) fn remember(call: &mut Call<'_>) {
    let Some(own) = call.model.trackers.all.get_mut(&call.conn.id) else { return };
    let is_wanted = !own.opt_in || own.caching == 1;
    own.caching = own.caching.saturating_sub(1);
    let Some(access) = table::access(call.args).filter(|access| !access.writes) else { return };
    if is_wanted && own.prefixes.is_none() && !access.channels {
        own.read.extend(access.keys.into_iter().map(<[u8]>::to_vec));
    }
}
