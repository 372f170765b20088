//! Which parked requests are overtaken by a request that stands behind them, found by the keys of that request.
//!
//! A client may have hundreds parked and hundreds behind them. So the keys of a parked request are read once, when it is parked, and each request behind
//! it looks up its own keys.
//!
//! ```text
//!   MSET a b ─▶ parked: all, a, b ─┐
//!   INCR a   ─▶ parked: all, a ────┴─▶ [a: MSET, INCR] [b: MSET] [all: MSET, INCR]      by connection and client
//!                                          ▲
//!   SET a    ─▶ +OK ───────────────────────┘ overtakes both
//! ```
//! Keys are known by a hash of 64 bits: nothing but requests of one client on one connection is compared.
//!
//! Not here: what becomes of those that are overtaken (`overtaken`).
//!
//! Invariant: of each parked request that watches a connection its [`Watch`] has all touches, but those that were found already.

use crate::topology::Place;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// Something that two requests can have in common.
type Touch = u64;

/// Of each parked request.
const ALL: Touch = 0;
/// Of a parked request without a key that may concern any.
const ANYWHERE: Touch = 1;
/// Hashes begin here.
const HASHED: Touch = 2;

/// What one touch of a parked request takes.
pub(crate) const TOUCH_BYTES: usize = 56;

/// Clients do not choose what is compared with theirs, so this is no secret.
const SECRETS: RapidSecrets = RapidSecrets::seed(15);

/// A parked request among those of its client: its place in the order of the client, and which part of a request it is.
pub(crate) type Ticket = (u32, u32);

/// What a request does, as far as it matters for its order.
#[derive(Debug)]
pub(crate) struct Touches {
    /// It changes nothing.
    pub(crate) reads: bool,
    touches: Vec<Touch>,
}

impl Touches {
    /// Of a parked request. `anywhere`: it has no key, and may concern any.
    pub(crate) fn parked(
        place: Option<Place>,
        (reads, is_whole, anywhere): (bool, bool, bool),
        keys: &[Option<&[u8]>],
    ) -> Self {
        let mut touches = alloc::vec![ALL];
        match place {
            Some(place) if is_whole => touches.push(hashed(place, None)),
            Some(place) => touches.extend(keys.iter().map(|key| hashed(place, Some(*key)))),
            None if anywhere => touches.push(ANYWHERE),
            None => {}
        }
        touches.sort_unstable();
        touches.dedup();
        Self { reads: reads && !is_whole, touches }
    }

    /// Of a request that stands behind parked ones.
    pub(crate) fn later(
        place: Option<Place>,
        (reads, anywhere): (bool, bool),
        keys: &[Option<&[u8]>],
    ) -> Self {
        let mut touches = Vec::new();
        match place {
            Some(place) => {
                touches.extend([ANYWHERE, hashed(place, None)]);
                touches.extend(keys.iter().map(|key| hashed(place, Some(*key))));
            }
            None if anywhere => touches.push(ALL),
            None => {}
        }
        Self { reads, touches }
    }

    /// Of one behind them of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self { reads: false, touches: alloc::vec![ALL] }
    }

    pub(crate) fn len(&self) -> usize {
        self.touches.len()
    }
}

/// `key`: one of the place, where `Some(None)` stands for a key that nobody knows; `None`: any of the place.
fn hashed(place: Place, key: Option<Option<&[u8]>>) -> Touch {
    let (kind, bytes) = match key {
        None => (0, &[][..]),
        Some(None) => (1, &[][..]),
        Some(Some(key)) => (2, key),
    };
    let at = u64::from(place.pool) << 18 | u64::from(place.slot) << 2 | kind;
    let spread = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (rapidhash_v3_seeded(bytes, &SECRETS) ^ spread).max(HASHED)
}

/// Whether the second place in the order of a client stands behind the first.
pub(crate) fn is_behind(later: u32, first: u32) -> bool {
    later != first && later.wrapping_sub(first) < 1 << 31
}

/// What a parked request does, and whether that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Write,
    /// A write that is known to be overtaken.
    Overtaken,
}

/// The parked requests of one client that wait for what stands behind them on one connection.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    touches: BTreeSet<(Touch, Kind, Ticket)>,
    /// How many requests.
    pub(crate) count: usize,
    /// Of some it was not looked at yet what stands behind them.
    pub(crate) is_unsettled: bool,
}

impl Watch {
    pub(crate) fn add(&mut self, ticket: Ticket, parked: &Touches) {
        let kind = if parked.reads { Kind::Read } else { Kind::Write };
        self.touches.extend(parked.touches.iter().map(|touch| (*touch, kind, ticket)));
        (self.count, self.is_unsettled) = (self.count + 1, true);
    }

    /// Whether that was the last one.
    pub(crate) fn remove(&mut self, ticket: Ticket, parked: &Touches) -> bool {
        self.count -= 1;
        if self.count == 0 {
            return true;
        }
        for touch in &parked.touches {
            for kind in [Kind::Read, Kind::Write, Kind::Overtaken] {
                self.touches.remove(&(*touch, kind, ticket));
            }
        }
        false
    }

    fn of(&self, touch: Touch, kind: Kind) -> impl Iterator<Item = Ticket> {
        let range = (touch, kind, (0, 0))..=(touch, kind, (u32::MAX, u32::MAX));
        self.touches.range(range).map(|(_, _, ticket)| *ticket)
    }

    fn is_there(&self, touch: Touch, reads: bool, seq: u32) -> bool {
        // A read does not matter to a read.
        let kinds = [Kind::Write, Kind::Overtaken, Kind::Read];
        let kinds = if reads { &kinds[..2] } else { &kinds[..] };
        kinds.iter().any(|kind| self.of(touch, *kind).any(|(first, _)| is_behind(seq, first)))
    }

    /// Whether something went before this place in the order of the client.
    pub(crate) fn has_before(&self, seq: u32) -> bool {
        self.is_there(ALL, false, seq)
    }

    /// Whether a request with this place in the order of the client overtakes any.
    pub(crate) fn is_overtaken(&self, later: &Touches, seq: u32) -> bool {
        later.touches.iter().any(|touch| self.is_there(*touch, later.reads, seq))
    }

    /// Which of them are overtaken by this request, but those that were said before.
    pub(crate) fn overtake(&mut self, later: &Touches, seq: u32) -> Vec<Ticket> {
        let mut found = Vec::new();
        let kinds = [Kind::Write, Kind::Read];
        let kinds = if later.reads { &kinds[..1] } else { &kinds[..] };
        for touch in &later.touches {
            for kind in kinds {
                let before = self.of(*touch, *kind).filter(|(first, _)| is_behind(seq, *first));
                let before: Vec<Ticket> = before.collect();
                for ticket in &before {
                    self.touches.remove(&(*touch, *kind, *ticket));
                    if *kind == Kind::Write {
                        self.touches.insert((*touch, Kind::Overtaken, *ticket));
                    }
                }
                found.extend(before);
            }
        }
        found
    }
}

/// What of one client is on its way over a connection, by what it touches: for a look at all that stands behind its parked requests.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// With the place on the connection, and that in the order of the client.
    touches: Vec<(Touch, bool, u64, u32)>,
    /// Of some nobody knows yet what they touch.
    pub(crate) is_unknown: bool,
}

impl Ahead {
    pub(crate) fn add(&mut self, (place, seq): (u64, u32), later: Option<&Touches>) {
        self.is_unknown |= later.is_none();
        match later {
            Some(later) => {
                let touches = later.touches.iter();
                self.touches.extend(touches.map(|touch| (*touch, later.reads, place, seq)));
            }
            None => self.touches.push((ALL, false, place, seq)),
        }
    }

    /// All are there.
    pub(crate) fn sort(&mut self) {
        self.touches.sort_unstable();
    }

    /// The place behind the last one that overtakes this parked request, if it is done; 0: none does.
    pub(crate) fn end(&self, seq: u32, parked: &Touches) -> u64 {
        let kinds = if parked.reads { &[false][..] } else { &[false, true][..] };
        let of = |touch: Touch, reads: bool| {
            let end = self.touches.partition_point(|one| (one.0, one.1) <= (touch, reads));
            let all = self.touches[..end].iter().rev();
            let mut alike = all.take_while(move |one| (one.0, one.1) == (touch, reads));
            alike.find(|one| is_behind(one.3, seq)).map_or(0, |one| one.2 + 1)
        };
        let ends =
            parked.touches.iter().flat_map(|touch| kinds.iter().map(move |reads| (*touch, *reads)));
        ends.map(|(touch, reads)| of(touch, reads)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Option<Place> = Some(Place { pool: 0, slot: 7 });

    fn parked(reads: bool, keys: &[&str]) -> Touches {
        let keys: Vec<_> = keys.iter().map(|key| Some(key.as_bytes())).collect();
        Touches::parked(PLACE, (reads, false, false), &keys)
    }

    fn later(reads: bool, key: &str) -> Touches {
        Touches::later(PLACE, (reads, false), &[Some(key.as_bytes())])
    }

    #[test]
    fn a_request_finds_those_before_it_with_its_key_and_each_once() {
        let mut watch = Watch::default();
        for seq in 0..256 {
            watch.add((seq, 0), &parked(seq % 2 == 0, &["a", "b"]));
        }
        assert!(!watch.is_overtaken(&later(false, "x"), 300));
        assert!(watch.overtake(&later(false, "x"), 300).is_empty());
        // A read matters to writes alone, and to those before it.
        assert!(
            watch.is_overtaken(&later(true, "a"), 2) && !watch.is_overtaken(&later(true, "a"), 1)
        );
        assert_eq!(watch.overtake(&later(true, "a"), 10).len(), 5);
        assert_eq!(watch.overtake(&later(false, "a"), 300).len(), 251);
        assert!(watch.overtake(&later(false, "a"), 301).is_empty(), "they were found");
        // A read is still asked again behind them.
        assert!(watch.is_overtaken(&later(true, "a"), 302));
        for seq in 0..255 {
            assert!(!watch.remove((seq, 0), &parked(seq % 2 == 0, &["a", "b"])));
        }
        assert_eq!(watch.touches.len(), 3);
        assert!(watch.remove((255, 0), &parked(false, &["a", "b"])));
    }

    #[test]
    fn what_has_no_key_or_all_of_a_place_is_found_as_well() {
        let mut watch = Watch::default();
        watch.add((0, 0), &Touches::parked(PLACE, (true, true, false), &[Some(b"a")]));
        watch.add((1, 0), &Touches::parked(None, (false, false, true), &[None]));
        watch.add((2, 0), &Touches::parked(None, (true, false, false), &[None]));
        let other = Some(Place { pool: 0, slot: 8 });
        let elsewhere = Touches::later(other, (false, false), &[Some(b"a")]);
        assert_eq!(watch.overtake(&elsewhere, 9), [(1, 0)]);
        assert_eq!(watch.overtake(&later(true, "x"), 9), [(0, 0)], "a transaction");
        let flush = Touches::later(None, (false, true), &[None]);
        assert_eq!(watch.overtake(&flush, 9), [(0, 0), (1, 0), (2, 0)]);
        assert!(watch.overtake(&Touches::unknown(), 9).is_empty());
        assert!(watch.has_before(1) && !watch.has_before(0));
        let nothing = Touches::later(None, (false, false), &[None]);
        assert!(!watch.is_overtaken(&nothing, 9));
    }

    #[test]
    fn one_look_finds_the_last_that_overtakes_each() {
        let mut ahead = Ahead::default();
        for place in 0..100 {
            // The places of a client begin anew behind the highest.
            let seq = u32::MAX.wrapping_add(place);
            let key = ["a", "b"][place as usize % 2];
            ahead.add((u64::from(place), seq), Some(&later(place > 50, key)));
        }
        ahead.sort();
        let first = u32::MAX - 1;
        assert_eq!(ahead.end(first, &parked(true, &["a"])), 51);
        assert_eq!(ahead.end(first, &parked(false, &["a"])), 99);
        assert_eq!(ahead.end(first, &parked(false, &["b", "c"])), 100);
        assert_eq!(ahead.end(first, &parked(false, &["c"])), 0);
        assert_eq!(ahead.end(90, &parked(false, &["a"])), 99);
        assert_eq!(ahead.end(98, &parked(false, &["a"])), 0, "nothing is behind it");
        assert!(!ahead.is_unknown);
        ahead.add((200, 500), None);
        ahead.sort();
        assert_eq!((ahead.end(first, &parked(true, &["c"])), ahead.is_unknown), (201, true));
    }
}
