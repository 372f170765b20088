//! Where clients come in: what holds at each listener, and how many are there.
//!
//! ```text
//!   accepted ─▶ Entrance::admit ─▶ Seat ─▶ travels with the connection, to another worker too ─▶ dropped when the client is gone
//! ```
//! Not here: which worker serves a client (`mailbox`), sockets (`netio`).
//!
//! Invariant: a listener's count is the number of its seats, whatever became of the connections.

use config::{ClientRules, Network};
use engine::stats::Refused;
use engine::tenancy::TenantId;
use netio::{Accepted, ListenerId};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What holds for clients that come in.
#[derive(Clone, Debug, Default)]
pub struct Entrances {
    /// One for each listener.
    pub list: Vec<Entrance>,
    /// Who may come, wherever.
    pub rules: ClientRules,
    /// Whose headers are believed; empty: everybody's.
    pub header_from: Vec<Network>,
    /// What a client has for its header.
    pub header_ms: u64,
}

/// What holds at one listener.
#[derive(Clone, Debug)]
pub struct Entrance {
    /// Which.
    pub id: ListenerId,
    /// What it is called.
    pub label: Arc<str>,
    /// Each connection begins with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Clients speak TLS; behind that header, if there is one.
    pub tls: bool,
    /// Clients at the same time.
    pub clients_max: usize,
    /// Who may come.
    pub rules: ClientRules,
    /// Its clients at all workers, those on their way in included.
    pub clients: Arc<AtomicUsize>,
    /// Where its clients begin.
    pub tenant: TenantId,
}

/// The place of one client at its listener, or in its tenant.
#[derive(Debug)]
pub struct Seat(Arc<AtomicUsize>);

/// How many clients there may be of some kind, and are, at all workers.
#[derive(Clone, Debug)]
pub struct Seats {
    /// The bound.
    pub max: usize,
    /// The count, which all workers share.
    pub taken: Arc<AtomicUsize>,
}

impl Seats {
    /// One of them; `None`: all are taken.
    pub(super) fn take(&self) -> Option<Seat> {
        Seat::take(&self.taken, self.max)
    }
}

impl Seat {
    fn take(taken: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let one_more = |count: usize| (count < max).then_some(count + 1);
        let done = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        done.ok().map(|_| Self(Arc::clone(taken)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that may become a client.
#[derive(Debug)]
pub struct Newcomer<S> {
    /// The connection.
    pub accepted: Accepted<S>,
    /// Its place.
    pub seat: Seat,
}

impl Entrance {
    /// One that lets everybody in.
    pub fn open(id: ListenerId, label: &str) -> Self {
        Self {
            id,
            label: label.into(),
            proxy_protocol: false,
            tls: false,
            clients_max: usize::MAX,
            rules: ClientRules::default(),
            clients: Arc::default(),
            tenant: TenantId::DEFAULT,
        }
    }

    /// A seat, if there is one.
    fn seat(&self) -> Result<Seat, Refused> {
        Seat::take(&self.clients, self.clients_max).ok_or(Refused::ListenerMaxClients)
    }
}

impl Entrances {
    /// That of a listener; `None`: it is closed meanwhile.
    pub(super) fn get(&self, id: ListenerId) -> Option<&Entrance> {
        self.list.iter().find(|entrance| entrance.id == id)
    }

    /// Whether clients of this listener speak TLS.
    pub(super) fn has_tls(&self, id: ListenerId) -> bool {
        self.get(id).is_some_and(|entrance| entrance.tls)
    }

    /// Lets a connection in, or says why not. Where a header is to come its address counts, and is judged later ([`Entrances::judge`]).
    pub(super) fn admit<S>(
        &self,
        entrance: &Entrance,
        accepted: &Accepted<S>,
    ) -> Result<Seat, Refused> {
        let from = &self.header_from;
        if !entrance.proxy_protocol {
            self.judge(entrance, accepted.ip)?;
        } else if !from.is_empty() && !from.iter().any(|network| network.contains(accepted.ip)) {
            return Err(Refused::HeaderSource);
        }
        entrance.seat()
    }

    /// Whether a client with this address may come.
    pub(super) fn judge(&self, entrance: &Entrance, ip: Option<IpAddr>) -> Result<(), Refused> {
        let may_come = self.rules.admit(ip) && entrance.rules.admit(ip);
        if may_come { Ok(()) } else { Err(Refused::Address) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_given_back_and_a_lower_maximum_waits_for_that() {
        let mut entrance = Entrance { clients_max: 2, ..Entrance::open(ListenerId(0), "a") };
        let (first, second) = (entrance.seat().unwrap(), entrance.seat().unwrap());
        assert_eq!(entrance.seat().err(), Some(Refused::ListenerMaxClients));
        entrance.clients_max = 1;
        drop(first);
        assert!(entrance.seat().is_err(), "there is one still");
        drop(second);
        let _third = entrance.seat().unwrap();
        assert_eq!(entrance.clients.load(Ordering::Relaxed), 1);
    }
}
