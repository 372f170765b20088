//! One reply for several clients: all of it, a part of it, or none.
//!
//! Each gets what it would get alone. A whole reply is copied to all. A large one goes on as it comes, to all in step: the connection is read
//! while each of them has room, as for one client with others behind it (`reply`), and who takes it too slowly is closed as such a one is. A
//! reply that sends the request on does so with each of them by itself.
//!
//! Not here: replies that are one client's alone (`reply`).
//!
//! Invariant: of a reply that is given on in parts, all that share it and are still there have the same bytes.

use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::CUT_THROUGH_BYTES;
use crate::near::Answer;
use crate::observed::Replies;
use crate::overtaken::Seen;
use crate::redirect::{Sent, find_request_bytes};
use crate::reply::{Front, Piece};
use crate::stats::samples::Source;
use crate::time::Time;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use alloc::vec::Vec;
use resp::LongReply;

impl Engine {
    /// This was found at the begin of the input, and it is for the front request, which several clients share. Returns how many bytes are done
    /// with, and whether there may be more to do.
    #[cold]
    pub(crate) fn shared_piece(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        front: Front,
        piece: Piece,
        input: &[u8],
    ) -> (usize, bool) {
        match piece {
            // What the proxy asks for itself nobody shares.
            Piece::Nothing | Piece::Own(..) => (0, false),
            Piece::Redirect(bytes) => match self.redirect(now, id, run, &input[..bytes]) {
                Sent::NotYet => (self.wait_for_buffer(id, 0), false),
                Sent::On => {
                    self.redirect_sharers(now, id, &input[..bytes]);
                    (bytes, true)
                }
                Sent::Data => {
                    self.count_data(id, run, &input[..bytes]);
                    self.shared_reply(now, id, run, front, &input[..bytes])
                }
            },
            Piece::Big { bytes, reply, .. } => {
                self.note_big_reply(now, id, run, 0, reply);
                self.note_big_shared_reply(now, id, reply);
                self.shared_reply(now, id, run, front, &input[..bytes])
            }
            Piece::Replies { count: 0, .. } => {
                (self.cut_through_to_all(now, id, run, input), false)
            }
            Piece::Replies { bytes, .. } => self.shared_reply(now, id, run, front, &input[..bytes]),
        }
    }

    /// All of the reply is here; of its bytes these are not given on yet.
    fn shared_reply(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        front: Front,
        rest: &[u8],
    ) -> (usize, bool) {
        if front.is_watched && front.begins() && self.request_is_away(id, run) {
            // Whether it is to be asked again depends on the request, for each of them.
            return (self.wait_for_buffer(id, 0), false);
        }
        let piece = (1, rest.len(), false);
        let (used, goes_on) = self.replies_of_run(now, id, run, front, piece, rest);
        debug_assert!(used == rest.len() && goes_on, "a whole reply that is not done with");
        self.for_sharers(id, |engine, run| engine.copy_reply(now, id, run, front, rest));
        (used, goes_on)
    }

    /// The same reply for one that shares it.
    fn copy_reply(&mut self, now: Time, id: UpstreamId, run: &Run, front: Front, rest: &[u8]) {
        let Owner::Client { id: client, seq, silent } = run.owner else {
            // What is watched may be asked again.
            let answer = match (front.is_watched, front.begins()) {
                (true, _) => Answer::None,
                (false, true) => Answer::Whole(rest),
                (false, false) => Answer::InParts,
            };
            return self.own_answer(now, id, run, answer);
        };
        let first = front.begins().then_some(rest[0]);
        if front.is_watched && matches!(self.seen_behind(now, id, run, first), Seen::Again) {
            return;
        }
        if first == Some(b'-') {
            self.stats.command(run.command).failed += 1;
            if let Some(upstream) = self.upstreams.get(id) {
                self.stats.note_error(Source::of_run(upstream, run), rest, 1);
            }
        }
        self.count_wait(now, id, run, Replies { count: 1, forwarded: front.forwarded, rest });
        self.deliver(client, seq, 1, silent, rest);
        self.check_stall(now, id, client);
    }

    /// Something of ours that shared the reply has it.
    fn own_answer(&mut self, now: Time, id: UpstreamId, run: &Run, answer: Answer<'_>) {
        match run.owner {
            Owner::Own(OwnCommand::Shadow(ticket)) => self.shadow_answered(now, ticket, answer),
            _ => self.cached_answer(id, answer),
        }
    }

    /// Whether the driver has the bytes of this request just now.
    fn request_is_away(&self, id: UpstreamId, run: &Run) -> bool {
        self.upstreams.get(id).is_some_and(|upstream| {
            upstream.out.in_flight() && find_request_bytes(upstream, run, run.done).is_none()
        })
    }

    /// Those that shared the request that was answered last are done with, one after the other.
    fn for_sharers(&mut self, id: UpstreamId, mut each: impl FnMut(&mut Self, &Run)) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let Some(runs) = upstream.inflight.take_sharers() else { return };
        runs.iter().for_each(|run| each(self, run));
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.inflight.end_share(runs);
        }
    }

    /// The request that was sent on just now was shared: each that shared it is sent on for itself.
    fn redirect_sharers(&mut self, now: Time, id: UpstreamId, reply: &[u8]) {
        self.for_sharers(id, |engine, run| {
            if matches!(run.owner, Owner::Own(_)) {
                return engine.own_answer(now, id, run, Answer::None);
            }
            if engine.redirect(now, id, run, reply) != Sent::On {
                debug_assert!(false, "the one whose reply they share was sent on a moment ago");
                engine.redirect_streamed(now, id, run, reply);
            }
        });
    }

    /// The large reply to the front request is seen for each that shares it.
    fn note_big_shared_reply(&mut self, now: Time, id: UpstreamId, reply: LongReply) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        for run in upstream.inflight.front_sharers().to_vec() {
            self.note_big_reply(now, id, &run, 0, reply);
        }
    }

    /// The part of a large reply that is here goes out to all at once; returns the bytes taken. All of them must be there to take it: what
    /// somebody else owes one of them first is waited for, within the bound of a client.
    fn cut_through_to_all(&mut self, now: Time, id: UpstreamId, run: &Run, rest: &[u8]) -> usize {
        let Some(upstream) = self.upstreams.get(id) else { return 0 };
        let scanned = (upstream.scanner.position() - upstream.forwarded) as usize;
        if upstream.forwarded == 0 && scanned < CUT_THROUGH_BYTES {
            return 0;
        }
        let takers = self.takers(id, run);
        let early: Vec<ClientId> = takers
            .iter()
            .filter(|(client, seq)| {
                self.clients.get(*client).is_some_and(|client| client.places.head() != *seq)
            })
            .map(|(client, _)| *client)
            .collect();
        if !early.is_empty() {
            return 0;
        }
        for (client, _) in &takers {
            self.give_part(*client, id, &rest[..scanned]);
        }
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.forwarded += scanned as u64;
        }
        for (client, _) in takers {
            self.settle_if_needed(client);
            self.check_stall(now, id, client);
        }
        scanned
    }

    /// Who waits for the reply to the front request, and at which place.
    fn takers(&self, id: UpstreamId, run: &Run) -> Vec<(ClientId, u32)> {
        let sharers = self.upstreams.get(id).map_or(&[][..], |up| up.inflight.front_sharers());
        let place = |run: &Run| match run.owner {
            Owner::Client { id, seq, .. } => Some((id, seq)),
            _ => None,
        };
        core::iter::once(run).chain(sharers).filter_map(place).collect()
    }
}
