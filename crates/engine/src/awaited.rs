//! Requests that are under way for long: one that waits at its server until something comes (`BLPOP`), and a large one of which the client has not sent
//! everything yet. Each is judged again when the rules of its user, or policies, change.
//!
//! ```text
//!   BLPOP l 0 ──▶ permitted, noted ──▶ the server waits …   ACL SETUSER u -blpop ──▶ judged again: the client is closed, and nothing is popped for it
//! ```
//! A server judges a blocking command again when something has come (Redis 7.2, `processCommandAndResetClient`), and a large one when all of it is there. respool
//! has judged them before they went out, and the right may be gone by then. All other requests are under way for no longer than a server takes to answer.
//!
//! Not here: what rules and policies say (`permit`, `policy`), transactions (`EXEC` is `EXECABORT` when rules have changed), subscriptions (`permit`, `listens_in_vain`).
//!
//! Invariant: a note is about the request at its place among those of its client, and means nothing once that is answered.

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
    /// The place of the request among those of its client.
    place: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A whole request, as its client sent it.
    Whole(Vec<u8>),
    /// The first arguments of a large request, as a request.
    Head(Vec<u8>),
    /// A request that went to the server in other words, which its user's rules are not about.
    Reworded,
}

impl Awaited {
    /// Bytes that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        kept_bytes::<Self>(match &self.kind {
            Kind::Whole(request) | Kind::Head(request) => request.capacity(),
            Kind::Reworded => 0,
        })
    }
}

impl Client {
    /// The last place that was taken.
    fn last_place(&self) -> u32 {
        self.places.next().wrapping_sub(1)
    }
}

impl Engine {
    /// This client waits for the reply to this request, which it sent last.
    pub(crate) fn note_awaited(&mut self, id: ClientId, frame: &[u8]) {
        let kind = match self.namespace() {
            Some(_) => Kind::Reworded,
            None => Kind::Whole(frame.to_vec()),
        };
        self.keep_awaited(id, kind);
    }

    /// This client sends a large request, which begins with these arguments.
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

    /// Whether this client waits for the reply to a request that its user may not send any more.
    pub(crate) fn awaits_in_vain(&self, id: ClientId) -> bool {
        self.awaits(id, |client, request| match request {
            Judged::Whole(args) => self.is_refused(id, client, args),
            Judged::Head(head) => {
                let known = route::classify(head.len(), |n| head[n], self.learned.as_ref());
                !self.permits_head(client, &known, head)
            }
        })
    }

    /// Other policies: who waits for the reply to a request that is ruled out now is closed, and who sends one that they must see as a whole, as they change
    /// its value.
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
                self.close_client(id, Some("a new policy is against what it waits for"));
            }
        }
    }

    /// Whether a client has such a request under way, and it is against this law. Of one in other words nobody knows.
    fn awaits(&self, id: ClientId, is_against: impl Fn(&Client, Judged<'_>) -> bool) -> bool {
        let Some(client) = self.clients.get(id) else { return false };
        let Some(awaited) = &client.identity.awaited else { return false };
        if awaited.place.wrapping_sub(client.places.head()) >= client.places.open() {
            return false;
        }
        match &awaited.kind {
            Kind::Reworded => true,
            Kind::Whole(request) => {
                let args: Vec<&[u8]> = Args::new(request).collect();
                is_against(client, Judged::Whole(&args))
            }
            Kind::Head(request) => {
                let args: Vec<&[u8]> = Args::new(request).collect();
                is_against(client, Judged::Head(&args))
            }
        }
    }
}

/// The arguments of a request that is judged again.
enum Judged<'a> {
    /// All of them.
    Whole(&'a [&'a [u8]]),
    /// The first ones.
    Head(&'a [&'a [u8]]),
}
