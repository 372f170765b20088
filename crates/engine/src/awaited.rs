//! Long-running requests: blocking commands (`BLPOP`), large requests that the client is still sending, and requests that are parked until their slot has
//! an owner. respool checks them again when the ACL rules of their user, or policies, change.
//!
//! ```text
//!   BLPOP l 0 ──▶ permitted, noted ──▶ the server waits …   ACL SETUSER u -blpop ──▶ checked again: respool closes the client, the server pops nothing
//! ```
//! Redis checks a blocking command again when an element arrives (since 7.2, `processCommandAndResetClient`), and a large request when it is complete.
//! respool checks both before it forwards them, and the user can lose the right later. Servers answer all other requests at once.
//!
//! Not here: the checks (`permit`, `policy`), transactions (`mark_rules_changed`), subscriptions (`listens_in_vain`).
//!
//! Invariant: a note counts only while the request at its place is unanswered.

use crate::account::kept_bytes;
use crate::client::Client;
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::route;
use alloc::boxed::Box;
use alloc::vec::Vec;
use resp::{Args, encode};

/// See the module.
#[derive(Debug)]
pub(crate) struct Awaited {
    /// Place of the request in the client's reply order.
    place: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Complete request in the client's words.
    Whole(Vec<u8>),
    /// First arguments of a large request, encoded as a request.
    Head(Vec<u8>),
    /// Request in the server's words (namespace): the rules of users do not apply to them, so any change of rules closes the client.
    Reworded,
}

impl Awaited {
    /// Memory of the note, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        kept_bytes::<Self>(match &self.kind {
            Kind::Whole(request) | Kind::Head(request) => request.capacity(),
            Kind::Reworded => 0,
        })
    }
}

impl Client {
    /// Place of the client's latest request.
    fn last_place(&self) -> u32 {
        self.places.next().wrapping_sub(1)
    }
}

impl Engine {
    /// Notes the client's latest request, a blocking command.
    pub(crate) fn note_awaited(&mut self, id: ClientId, frame: &[u8]) {
        let kind = match self.namespace() {
            Some(_) => Kind::Reworded,
            None => Kind::Whole(frame.to_vec()),
        };
        self.keep_awaited(id, kind);
    }

    /// Notes the first arguments of a large request that the client is sending.
    pub(crate) fn note_sending(&mut self, id: ClientId, head: &[&[u8]]) {
        let mut request = Vec::new();
        encode::request(&mut request, head);
        self.keep_awaited(id, Kind::Head(request));
    }

    fn keep_awaited(&mut self, id: ClientId, kind: Kind) {
        let Some(client) = self.clients.get_mut(id) else { return };
        let awaited = Awaited { place: client.last_place(), kind };
        client.identity.awaited = Some(Box::new(awaited));
        self.account_rest(id);
    }

    /// Whether the ACL rules of its user now refuse the client's long-running request.
    pub(crate) fn awaits_in_vain(&self, id: ClientId) -> bool {
        self.awaits(id, |client, request| match request {
            Judged::Whole(args) => self.is_refused(id, client, args),
            Judged::Head(head) => {
                let known = route::classify(head.len(), |n| head[n], self.learned.as_ref());
                !self.permits_head(client, &known, head)
            }
        })
    }

    /// Closes clients whose long-running request the new policies refuse, and clients that are sending a request which the new policies need complete
    /// (a value transform).
    pub(crate) fn close_who_awaits_in_vain(&mut self) {
        for id in self.clients.ids() {
            let is_against_them = self.awaits(id, |_, request| match request {
                Judged::Whole(args) => self.is_ruled_out(id, args),
                Judged::Head(head) => {
                    let known = route::classify(head.len(), |n| head[n], self.learned.as_ref());
                    self.is_ruled_out(id, head) || self.must_be_whole(&known, head)
                }
            });
            if is_against_them {
                self.drop_parked(Some(id));
                self.close_client(id, Some("a new policy is against what it waits for"));
            }
        }
    }

    /// Whether the client has an unanswered long-running request, or a parked one, that this check refuses. A request in the server's words counts as
    /// refused, and so does a parked transaction.
    fn awaits(&self, id: ClientId, is_against: impl Fn(&Client, Judged<'_>) -> bool) -> bool {
        let Some(client) = self.clients.get(id) else { return false };
        let is_open = |awaited: &&Awaited| {
            awaited.place.wrapping_sub(client.places.head()) < client.places.open()
        };
        let is_refused = |request: &[u8], is_head: bool| {
            let args: Vec<&[u8]> = Args::new(request).collect();
            is_against(client, if is_head { Judged::Head(&args) } else { Judged::Whole(&args) })
        };
        let noted = client.identity.awaited.as_deref().filter(is_open);
        let is_noted_refused = noted.is_some_and(|awaited| match &awaited.kind {
            Kind::Reworded => true,
            Kind::Whole(request) => is_refused(request, false),
            Kind::Head(request) => is_refused(request, true),
        });
        let is_reworded = self.namespace().is_some();
        is_noted_refused
            || self.parked.of(Some(id)).any(|parked| {
                is_reworded || !parked.rest.is_empty() || is_refused(&parked.bytes, false)
            })
    }
}

/// Arguments of a request that respool checks again.
enum Judged<'a> {
    /// All arguments.
    Whole(&'a [&'a [u8]]),
    /// First arguments.
    Head(&'a [&'a [u8]]),
}
