//! Who else gets the reply to a request that one client has in the queue of a connection.
//!
//! ```text
//!   runs:      [a: GET k][b: SET l][c: GET m ×3] …        what is on its way, a reply for each
//!   sharers:    └ d, e                     └ f            the same bytes for these; nothing was written for them
//! ```
//! A sharer keeps a run of its own: its place in its client, when it asked, and where the bytes of the request stand that it shares. So whatever
//! ends other than with a reply (a redirect, a lost connection) is done with it as with any other request.
//!
//! Not here: who may share what (`coalesce`), and the queue itself (`inflight`).
//!
//! Invariant: groups stand in the order of their places, none is empty, none has more than [`SHARERS_MAX`], and no client is twice in one, nor the cache (`near`)
//! or mirrors (`mirror::shadow`).

use super::inflight::{OwnCommand, Owner, Run};
use crate::ids::ClientId;
use crate::limits::{SHARERS_MAX, SPARE_SHARERS_MAX};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Those that share one request.
#[derive(Debug)]
struct Group {
    /// Which one, by its place in the queue.
    place: u64,
    runs: Vec<Run>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sharers {
    groups: VecDeque<Group>,
    /// How many are in them.
    len: usize,
    /// Lists for the next groups, so that nothing is allocated for them.
    spare: Vec<Vec<Run>>,
}

impl Sharers {
    /// Whether there are none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The place of the first request that is shared.
    #[inline]
    pub(super) fn first_place(&self) -> Option<u64> {
        self.groups.front().map(|group| group.place)
    }

    /// Where the group of this place stands, or is to stand.
    fn find(&self, place: u64) -> Result<usize, usize> {
        self.groups.binary_search_by_key(&place, |group| group.place)
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether one more may share this request.
    pub(super) fn has_room(&self, place: u64) -> bool {
        self.find(place).map_or(true, |at| self.groups[at].runs.len() < SHARERS_MAX)
    }

    /// One more shares the request at this place.
    pub(super) fn add(&mut self, place: u64, run: Run) {
        debug_assert!(run.shares && run.count == 1, "what shares a reply is one request");
        debug_assert!(self.has_room(place), "more share a reply than may");
        let at = self.find(place).unwrap_or_else(|at| {
            let runs = self.spare.pop().unwrap_or_default();
            self.groups.insert(at, Group { place, runs });
            at
        });
        self.groups[at].runs.push(run);
        self.len += 1;
    }

    /// Takes the first group out if it is of a place before this one.
    pub(super) fn take_before(&mut self, place: u64) -> Option<Vec<Run>> {
        let group = self.groups.pop_front_if(|group| group.place < place)?;
        self.len -= group.runs.len();
        Some(group.runs)
    }

    /// The same, but only the first of the group.
    pub(super) fn take_one_before(&mut self, place: u64) -> Option<Run> {
        let group = self.groups.front_mut().filter(|group| group.place < place)?;
        let run = group.runs.remove(0);
        self.len -= 1;
        if group.runs.is_empty()
            && let Some(group) = self.groups.pop_front()
        {
            self.give_back(group.runs);
        }
        Some(run)
    }

    /// A list is used again.
    pub(super) fn give_back(&mut self, mut runs: Vec<Run>) {
        if self.spare.len() < SPARE_SHARERS_MAX {
            runs.clear();
            self.spare.push(runs);
        }
    }

    /// Who shares the request at this place.
    pub(super) fn of(&self, place: u64) -> &[Run] {
        self.find(place).map_or(&[], |at| &self.groups[at].runs)
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Run> {
        self.groups.iter().flat_map(|group| &group.runs)
    }

    /// The same, each with the place of the reply that it shares.
    pub(super) fn all_at(&self) -> impl Iterator<Item = (u64, &Run)> {
        self.groups.iter().flat_map(|group| group.runs.iter().map(|run| (group.place, run)))
    }

    /// Whether this client shares a request at this place or behind it. Looks at so many groups; where there are more, it counts as if it did.
    pub(super) fn shares_from(&self, client: ClientId, place: u64, looks_max: usize) -> bool {
        let behind = self.groups.iter().rev().take_while(|group| group.place >= place);
        let is_of = |run: &Run| matches!(run.owner, Owner::Client { id, .. } if id == client);
        behind.enumerate().any(|(looks, group)| looks == looks_max || group.runs.iter().any(is_of))
    }

    /// The place of the last group with one for which `is_meant` holds, looked for as above.
    pub(super) fn last_place(
        &self,
        looks_max: usize,
        is_meant: impl Fn(&Run) -> bool,
    ) -> Option<u64> {
        let mut behind = self.groups.iter().rev().enumerate();
        let found =
            behind.find(|(looks, group)| *looks == looks_max || group.runs.iter().any(&is_meant));
        found.map(|(_, group)| group.place)
    }

    /// Checks the invariant, and that all of them wait for one of these places.
    pub(super) fn check(&self, places: core::ops::Range<u64>) {
        assert_eq!(self.len, self.all().count(), "those that share");
        for (group, next) in self.groups.iter().zip(self.groups.iter().skip(1)) {
            assert!(group.place < next.place, "shared requests out of order");
        }
        for group in &self.groups {
            assert!(places.contains(&group.place), "a shared request that is not on its way");
            assert!((1..=SHARERS_MAX).contains(&group.runs.len()), "a group of a wrong size");
            let clients: alloc::collections::BTreeSet<_> = group
                .runs
                .iter()
                .map(|run| match run.owner {
                    Owner::Client { id, .. } => Some(id),
                    Owner::Own(OwnCommand::Near(_) | OwnCommand::Shadow(_)) => None,
                    _ => panic!("only clients, the cache and mirrors share"),
                })
                .collect();
            assert_eq!(clients.len(), group.runs.len(), "one shares a request twice");
        }
    }
}
