//! Which connections serve whom: what would else be found by looking at all of them.
//!
//! A worker may have thousands of connections that each wait for one client. None of the others must pay for that, so whatever is asked
//! of them by role is counted or ordered here.
//!
//! Not here: what the roles mean (`lease`, `errand`, `transfer`, `retire`), and when something is due (`timers`).
//!
//! Invariant: equal to what [`Roles::of`] finds in all upstreams.

use super::{Role, Upstream, UpstreamKey};
use crate::ids::{ClientId, UpstreamId};
use alloc::collections::BTreeSet;

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Connections that clients have of their own.
    pub(crate) leases: usize,
    /// Those that were retired.
    pub(crate) retired: usize,
    /// Large requests under way.
    pub(crate) transfers: usize,
    /// Connections of clients that cache with NOLOOP, whatever they are used for just now.
    pub(crate) noloop: usize,
    spares: BTreeSet<(UpstreamKey, UpstreamId)>,
    owned: BTreeSet<(ClientId, UpstreamId)>,
}

impl Roles {
    /// Found by looking at all.
    pub(crate) fn of<'a>(upstreams: impl Iterator<Item = (UpstreamId, &'a Upstream)>) -> Self {
        let mut roles = Self::default();
        upstreams.for_each(|(id, upstream)| roles.enter(id, &upstream.key, upstream.role));
        roles
    }

    /// This connection has this role now.
    pub(crate) fn enter(&mut self, id: UpstreamId, key: &UpstreamKey, role: Role) {
        match role {
            Role::Shared => {}
            Role::Retired => self.retired += 1,
            Role::Spare(_) => _ = self.spares.insert((*key, id)),
            Role::Transfer(_) => self.transfers += 1,
            Role::Leased(_) | Role::Errand(_) => self.leases += usize::from(key.owner.is_none()),
        }
        self.noloop += usize::from(key.owner.is_some());
        if let Some(client) = serves(key, role) {
            self.owned.insert((client, id));
        }
    }

    /// It has it no more.
    pub(crate) fn leave(&mut self, id: UpstreamId, key: &UpstreamKey, role: Role) {
        match role {
            Role::Shared => {}
            Role::Retired => self.retired -= 1,
            Role::Spare(_) => _ = self.spares.remove(&(*key, id)),
            Role::Transfer(_) => self.transfers -= 1,
            Role::Leased(_) | Role::Errand(_) => self.leases -= usize::from(key.owner.is_none()),
        }
        self.noloop -= usize::from(key.owner.is_some());
        if let Some(client) = serves(key, role) {
            self.owned.remove(&(client, id));
        }
    }

    /// Idle connections of all keys.
    pub(crate) fn spare_count(&self) -> usize {
        self.spares.len()
    }

    /// Idle connections of this key. Always in the same order, so that those at the end stay idle and go.
    pub(crate) fn spares(&self, key: &UpstreamKey) -> impl Iterator<Item = UpstreamId> {
        let key = *key;
        let from = (key, UpstreamId::new(0, 0));
        self.spares.range(from..).take_while(move |(of, _)| *of == key).map(|(_, id)| *id)
    }

    /// Connections that serve this client alone.
    pub(crate) fn owned(&self, client: ClientId) -> impl Iterator<Item = UpstreamId> {
        let from = (client, UpstreamId::new(0, 0));
        self.owned.range(from..).take_while(move |(of, _)| *of == client).map(|(_, id)| *id)
    }
}

/// The one client that this connection serves.
fn serves(key: &UpstreamKey, role: Role) -> Option<ClientId> {
    match role {
        Role::Transfer(client) | Role::Leased(client) | Role::Errand(client) => Some(client),
        Role::Shared | Role::Retired | Role::Spare(_) => key.owner,
    }
}
