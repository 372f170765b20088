//! Clients that wait for something of which there are only so many, in turn by group.
//!
//! ```text
//!   group a: 1 2 3 4 5 …      turns: a1 b1 c1 a2 b2 a3 …       b comes when a1 was served: it stands behind a2 at most, however many of a wait
//!   group b: 1 2
//!   group c: 1
//! ```
//! Each client has the round after that of the last one of its group, and not before that of who was served last. Whoever comes first in a round is served
//! first. Of a group that may have no more just now nobody is served, and nobody waits behind it.
//!
//! Not here: what wakes them (`lease`, `transfer`, `login::words`), and who may have one more (`shares`).
//!
//! Invariant: each client stands in it once, in the queue of its line, and all three maps have the same clients.

use crate::ids::ClientId;
use crate::shares::Group;
use crate::time::Time;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Who waits together: a group, and what it is for (`lease::Use`).
pub(crate) type Line<U> = (Group, U);

/// When somebody's turn is: the round, and in it the order in which they came.
type Turn = (u64, u64);

/// See the module.
#[derive(Debug)]
pub(crate) struct Waiters<U> {
    /// The round of the last one that was served.
    round: u64,
    came: u64,
    lines: BTreeMap<Line<U>, BTreeMap<Turn, ClientId>>,
    places: BTreeMap<ClientId, (Line<U>, Turn, Time)>,
    since: BTreeSet<(Time, ClientId)>,
}

impl<U> Default for Waiters<U> {
    fn default() -> Self {
        Self {
            round: 0,
            came: 0,
            lines: BTreeMap::new(),
            places: BTreeMap::new(),
            since: BTreeSet::new(),
        }
    }
}

impl<U: Copy + Ord> Waiters<U> {
    /// The client waits from now on, if it does not already; since when.
    pub(crate) fn enter(&mut self, id: ClientId, line: Line<U>, now: Time) -> Time {
        if let Some((before, _, since)) = self.places.get(&id) {
            let since = *since;
            if *before == line {
                return since;
            }
            // It is somebody else by now, or wants something else.
            self.forget(id);
            return self.place(id, line, since);
        }
        self.place(id, line, now)
    }

    fn place(&mut self, id: ClientId, line: Line<U>, since: Time) -> Time {
        let turn = self.next_turn(&line);
        self.came += 1;
        self.lines.entry(line).or_default().insert(turn, id);
        self.places.insert(id, (line, turn, since));
        self.since.insert((since, id));
        since
    }

    /// The turn of whoever comes to this line now.
    fn next_turn(&self, line: &Line<U>) -> Turn {
        let last = self.lines.get(line).and_then(|line| line.last_key_value());
        let last = last.map_or(0, |((round, _), _)| *round);
        (last.max(self.round) + 1, self.came)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// It has what it waited for.
    pub(crate) fn served(&mut self, id: ClientId) {
        if let Some((_, (round, _), _)) = self.places.get(&id) {
            self.round = self.round.max(*round);
        }
        self.forget(id);
    }

    /// It does not wait any more.
    pub(crate) fn forget(&mut self, id: ClientId) {
        let Some((line, turn, since)) = self.places.remove(&id) else { return };
        self.since.remove(&(since, id));
        if let Some(clients) = self.lines.get_mut(&line) {
            clients.remove(&turn);
            if clients.is_empty() {
                self.lines.remove(&line);
            }
        }
    }

    /// Who waits longest, and since when.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = (Time, ClientId)> {
        self.since.iter().copied()
    }

    /// So many from the first on whose turn it is, of lines that may have one more.
    pub(crate) fn first(&self, count: usize, may: impl Fn(&Line<U>) -> bool) -> Vec<ClientId> {
        let lines = self.lines.iter().filter(|(line, _)| may(line));
        let mut turns: Vec<(Turn, ClientId)> = lines
            .flat_map(|(_, clients)| clients.iter().take(count).map(|(turn, id)| (*turn, *id)))
            .collect();
        turns.sort_unstable();
        turns.truncate(count);
        turns.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether somebody waits whose line may have one more.
    pub(crate) fn any(&self, may: impl Fn(&Line<U>) -> bool) -> bool {
        self.lines.keys().any(may)
    }

    /// Whether it would be the turn of this client, waiting or not, if so many were served.
    pub(crate) fn is_among_first(
        &self,
        id: ClientId,
        line: &Line<U>,
        room: usize,
        may: impl Fn(&Line<U>) -> bool,
    ) -> bool {
        let waits = self.places.get(&id).filter(|(own, ..)| own == line);
        let own = waits.map_or_else(|| self.next_turn(line), |(_, turn, _)| *turn);
        let lines = self.lines.iter().filter(|(line, _)| may(line));
        let before = lines.flat_map(|(_, clients)| clients.range(..own).take(room));
        before.take(room).count() < room
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether this client waits.
    pub(crate) fn contains(&self, id: ClientId) -> bool {
        self.places.contains_key(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn line(user: u8) -> Line<u8> {
        (Group::default(), user)
    }

    fn all(_: &Line<u8>) -> bool {
        true
    }

    #[test]
    fn within_a_line_whoever_came_first_is_first_and_comes_once() {
        let mut waiters = Waiters::default();
        let [a, b, c] = [1, 2, 3].map(|n| ClientId::new(n, 1));
        let one = line(1);
        assert_eq!(waiters.enter(b, one, Time(1)), Time(1));
        assert_eq!(waiters.enter(a, one, Time(2)), Time(2));
        assert_eq!(waiters.enter(b, one, Time(3)), Time(1), "it keeps its place");
        assert_eq!(waiters.first(9, all), [b, a]);
        assert_eq!(waiters.oldest().collect::<Vec<_>>(), [(Time(1), b), (Time(2), a)]);
        let is_first =
            |waiters: &Waiters<u8>, id, room| waiters.is_among_first(id, &one, room, all);
        assert!(is_first(&waiters, b, 1) && !is_first(&waiters, a, 1));
        assert!(is_first(&waiters, c, 3) && !is_first(&waiters, c, 2));
        assert!(!is_first(&waiters, b, 0));
        waiters.served(b);
        assert!(is_first(&waiters, a, 1));
        assert_eq!(waiters.enter(b, one, Time(4)), Time(4), "at the end again");
        assert!(!is_first(&waiters, b, 1) && waiters.contains(b));
        waiters.forget(a);
        waiters.forget(b);
        assert_eq!((waiters.len(), waiters.any(all)), (0, false));
    }

    #[test]
    fn lines_are_served_in_turn_and_who_comes_late_waits_for_one_of_each() {
        let mut waiters = Waiters::default();
        let id = |n| ClientId::new(n, 1);
        for n in 0..100 {
            waiters.enter(id(n), line(1), Time(0));
        }
        for _ in 0..5 {
            let first = waiters.first(1, all)[0];
            waiters.served(first);
        }
        waiters.enter(id(200), line(2), Time(1));
        waiters.enter(id(201), line(2), Time(1));
        assert_eq!(waiters.first(4, all), [5, 200, 6, 201].map(id));
        // Whoever is not waiting yet has the turn that it would get.
        assert!(waiters.is_among_first(id(300), &line(3), 3, all));
        assert!(!waiters.is_among_first(id(300), &line(3), 2, all));
        // Of those who may have no more nobody stands in the way.
        let may = |line: &Line<u8>| line.1 != 1;
        assert_eq!(waiters.first(4, may), [200, 201].map(id));
        assert!(waiters.is_among_first(id(300), &line(3), 2, may));
        assert!(waiters.any(may) && !waiters.any(|line| line.1 == 3));
        // One that gives up at the end of a long line takes nobody's turn along.
        waiters.forget(id(99));
        waiters.enter(id(301), line(3), Time(2));
        assert_eq!(waiters.first(3, all), [5, 200, 301].map(id));
        // What it waits for may be something else by now; since when stays.
        assert_eq!(waiters.enter(id(301), line(4), Time(3)), Time(2));
        assert_eq!(waiters.first(9, |line| line.1 == 3), vec![]);
    }
}
