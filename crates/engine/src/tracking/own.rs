//! Connections of its own for a client that caches with NOLOOP: the server must tell its changes from those of others.
//!
//! ```text
//!   client a, NOLOOP ─ GET k, SET k, MULTI … EXEC, BLPOP … ─▶ connection of a ─ CLIENT TRACKING ON NOLOOP ─▶ server
//! ```
//! There is one to each server that it talks to, made with the first request there; in BCAST mode one to each primary from the beginning. All of
//! its requests take it, also those for which others take a connection for as long as the command lasts, since what it changes in a
//! transaction is its own doing, too.
//!
//! They last as long as the client tracks, so their number has a limit of its own: under that of `lease` a few clients that cache would leave no
//! transaction a connection. Beyond it CLIENT TRACKING is refused, or a request to a server that came later; a client in BCAST mode is closed then, as it
//! would not hear of what changes there.
//!
//! A client in RESP2 hears of nothing over the connection that its requests take, so it has two to each server, a *pair*: the first is redirected to
//! the second, which is in RESP3 and asks for nothing. The second comes first; without it the first is not used.
//!
//! ```text
//!   client b, RESP2 ─ GET k, SET k … ─▶ connection of b ─ CLIENT TRACKING ON REDIRECT 7 NOLOOP ─▶ server
//!          told ◀─ invalidate k ─────── connection of b in RESP3, to the server client 7 ◀──────── server
//! ```
//! Not here: what they tell (`tracking`).
//!
//! Invariant: an upstream with an owner is that client's, which tracks with NOLOOP, or it is retired.

use super::{Ear, Name};
use crate::client::Hold;
use crate::connect::Availability;
use crate::engine::Engine;
use crate::ids::{ClientId, NodeId, UpstreamId};
use crate::lease::Way;
use crate::reject;
use crate::shares::Group;
use crate::time::Time;
use crate::upstream::inflight::OwnCommand;
use crate::upstream::{Lane, Role, Upstream, UpstreamKey};
use alloc::vec::Vec;
use resp::Protocol;

/// The number of a connection that tells for another one, which has 0.
pub(super) const TELLS: u16 = 1;

/// Whether this connection is one of two.
pub(super) fn is_of_pair(key: &UpstreamKey) -> bool {
    key.owner.is_some() && (only_tells(key) || !key.resp3)
}

/// Whether it is the one that asks for nothing.
pub(super) fn only_tells(key: &UpstreamKey) -> bool {
    key.owner.is_some() && key.conn == TELLS
}

impl Ear {
    /// The connections to this node by which a client hears, in the order in which they must be there: the one that tells, and of a pair the
    /// other one.
    pub(super) fn conns_at(self, node: NodeId) -> impl Iterator<Item = UpstreamKey> {
        let tells = self.at(node);
        let asks = self.pairs.then_some(UpstreamKey { resp3: false, conn: 0, ..tells });
        core::iter::once(tells).chain(asks)
    }
}

impl Engine {
    /// Whether this client may have one more connection of its own.
    pub(crate) fn may_own(&self, id: ClientId) -> bool {
        let wants =
            self.clients.get(id).is_some_and(|client| client.owner(Lane::Tracked).is_some());
        // Whether it has its fair share was asked when it began (`room_for_own`).
        wants && self.roles.noloop.total() < self.settings.limits.noloop_conns_max
    }

    /// Whether a client that wants NOLOOP finds room for its connections to each server.
    pub(super) fn room_for_own(&self, id: ClientId, redirects: bool) -> Result<(), &'static str> {
        let Some(client) = self.clients.get(id) else { return Ok(()) };
        let each = match client.protocol {
            Protocol::Resp3 => 1,
            _ if redirects => 2,
            _ => 0,
        };
        let wanted = each * self.router.primaries().len().max(1);
        let max = self.settings.limits.noloop_conns_max;
        let has_some = self.own_conns(id).next().is_some();
        let has_room =
            || self.roles.noloop.has_room(Group::of(client, &self.settings.users), wanted, max);
        match wanted == 0 || has_some || has_room() {
            true => Ok(()),
            false => Err(reject::NOLOOP_MAX),
        }
    }

    fn own_conns(&self, id: ClientId) -> impl Iterator<Item = UpstreamId> {
        let is_own = move |upstream: &UpstreamId| {
            self.upstreams.get(*upstream).is_some_and(|up| up.key.owner == Some(id))
        };
        self.roles.owned(id).filter(is_own)
    }

    /// The client needs none of them any more but those of `kept`. If it reads by them and tracks on it drops all, as nobody tells it of that.
    pub(super) fn leave_own(&mut self, id: ClientId, kept: Option<Ear>) {
        for upstream in self.own_conns(id).collect::<Vec<_>>() {
            let goes = |up: &Upstream| up.role == Role::Shared && Some(Ear::of(&up.key)) != kept;
            if self.upstreams.get(upstream).is_some_and(goes) {
                self.retire(upstream);
            }
        }
    }

    /// The client's own connection of this key, for a transaction or a blocking command.
    pub(crate) fn lease_own(
        &mut self,
        now: Time,
        key: UpstreamKey,
        role: Role,
    ) -> Result<UpstreamId, Way> {
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => self.new_private(key, Role::Shared).map_err(Way::Down)?,
        };
        match self.availability(now, id) {
            Availability::Ready(id) => {
                self.set_role(id, role);
                Ok(id)
            }
            Availability::Wait(id) => Err(Way::Hold(Hold::Upstream(id))),
            Availability::Down(error) => Err(Way::Down(error)),
        }
    }

    /// The command that held state on a client's own connection is over. `unclean`: it is not as it was.
    pub(crate) fn end_lease_of_own(&mut self, id: UpstreamId, owner: ClientId, unclean: bool) {
        let wants =
            self.clients.get(owner).is_some_and(|client| client.owner(Lane::Tracked).is_some());
        if unclean || !wants || !self.is_paired(id) {
            return self.remove_upstream(id);
        }
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.no_reply_before = None;
        }
        self.set_role(id, Role::Shared);
        self.wake_waiters(id);
    }

    /// A client in BCAST mode with NOLOOP has a connection to each primary.
    pub(super) fn renew_own_feed(&mut self, now: Time, id: ClientId) {
        let ear = self.clients.get(id).and_then(|client| client.ear());
        let Some(ear @ Ear { lane: Lane::Broadcast, owner: Some(_), .. }) = ear else { return };
        for node in self.router.primaries() {
            for key in ear.conns_at(node) {
                let listed = self.by_key.get(&key).copied();
                let Some(upstream) = listed.or_else(|| self.new_upstream(key, Role::Shared)) else {
                    let cause = "there is no room for one more connection of a client with NOLOOP";
                    return self.close_client(id, Some(cause));
                };
                // One that is not ready says what it wants when it is; the second of a pair comes when the first is there.
                if !matches!(self.availability(now, upstream), Availability::Ready(_)) {
                    break;
                }
            }
        }
    }

    /// The connection that tells what this one of a pair asks for, and its number at the server.
    pub(super) fn teller_of(&self, key: &UpstreamKey) -> Option<(&Upstream, u64)> {
        let teller = self.by_key.get(&Ear::of(key).at(key.node))?;
        let teller = self.upstreams.get(*teller).filter(|up| up.is_ready())?;
        Some((teller, teller.server_id?))
    }

    /// Whether what the server was told of the other one of a pair still holds.
    fn is_paired(&self, id: UpstreamId) -> bool {
        let Some(upstream) = self.upstreams.get(id) else { return false };
        !is_of_pair(&upstream.key)
            || self.teller_of(&upstream.key).is_some_and(|(up, _)| up.ready_at <= upstream.ready_at)
    }

    /// The connection of a pair that tells is ready: now the other one can come, or end its greeting.
    pub(super) fn teller_ready(&mut self, now: Time, key: &UpstreamKey) {
        self.caches.changed.extend(key.owner);
        let asks = self.by_key.get(&UpstreamKey { resp3: false, conn: 0, ..*key }).copied();
        if let Some(asks) = asks
            && self.upstreams.get(asks).is_some_and(Upstream::has_greeted)
        {
            self.ask_to_tell(now, asks);
        }
    }

    /// The connection of a pair that told is gone: what the other one asked for is told to nobody.
    pub(super) fn teller_lost(&mut self, key: &UpstreamKey) {
        let asks = UpstreamKey { resp3: false, conn: 0, ..*key };
        let Some(upstream) = self.by_key.get(&asks).copied() else { return };
        if self.upstreams.get(upstream).is_some_and(|up| up.role == Role::Shared) {
            self.retire(upstream);
        }
    }

    /// A client with connections of its own in BCAST mode asks for more prefixes.
    pub(super) fn add_own_prefixes(&mut self, now: Time, id: ClientId, added: &[Name]) {
        for upstream in self.own_conns(id).collect::<Vec<_>>() {
            let Some(up) = self.upstreams.get(upstream).filter(|up| up.asked_to_tell()) else {
                continue;
            };
            if up.key.lane != Lane::Broadcast || only_tells(&up.key) {
                continue;
            }
            let (key, all) = (up.key, self.prefixes_of(upstream));
            let tracking = self.clients.get(id).and_then(|client| client.tracking.as_ref());
            if tracking.is_some_and(|tracking| tracking.prefixes.len() == all.len()) {
                self.say_prefixes(now, upstream, added);
                continue;
            }
            // All keys and some of them: a server takes that of a client, and no prefix that begins another one. Those go first.
            self.say_own(now, upstream, OwnCommand::Track, &[b"CLIENT", b"TRACKING", b"OFF"]);
            self.say_prefixes(now, upstream, &all);
            self.drop_caches(key);
        }
    }
}
