//! One cursor over the primaries of a cluster.
//!
//! ```text
//!   cursor = the node's own cursor << 24 | which node << 16 | pass << 14 | mark of the slot table (1 to 16383)
//! ```
//! The nodes are visited in the order of their first slot. SCAN promises every key that is there from begin to end of the iteration, and
//! allows keys to come twice. Two things could break the promise:
//!
//! - The slot table changed since the cursor was given (its mark differs): keys may have moved from a node that was to come to one that is
//!   done. The iteration begins again.
//! - A slot is on its way, and has its old owner until the last key moved. Then a key may go to a node that is done without any change of
//!   the table. So when a node says of itself that it gives a slot away, all nodes are visited once more when the first
//!   pass is over: what had left by then is where it went.
//!
//! Not here: asking the nodes.
//!
//! Invariant: a cursor that is not the end of the iteration is not 0, since no mark is.

use alloc::vec::Vec;

/// Why a node is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// For the first time.
    First,
    /// For the first time, and a node before it gave a slot away.
    FirstOfTwo,
    /// Once more.
    Second,
}

/// Where an iteration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of the nodes.
    pub index: usize,
    /// The node's own cursor.
    pub cursor: u64,
    /// Which time.
    pub pass: Pass,
    /// Mark of the slot table that the iteration runs on.
    pub mark: u16,
}

/// How the servers were when a page came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Mark of the slot table.
    pub mark: u16,
    /// The node that gave the page gives a slot away.
    pub gives: bool,
}

/// Nodes that an iteration can tell apart.
pub const NODES_MAX: usize = 256;

/// Marks are at most this.
pub const MARK_MAX: u16 = (1 << PASS_AT) - 1;

const PASS_AT: u32 = 14;

/// Reads a cursor as servers do: an unsigned number of 64 bits.
pub fn read(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Writes a number.
pub fn text(cursor: u64) -> Vec<u8> {
    alloc::string::ToString::to_string(&cursor).into_bytes()
}

/// Where to go on with the cursor that a client gave, on `nodes` nodes and a table of this mark.
pub fn resume(given: u64, nodes: usize, mark: u16) -> Place {
    let begin = Place { index: 0, cursor: 0, pass: Pass::First, mark };
    let (index, given_mark) = ((given >> 16) as u8, given as u16 & MARK_MAX);
    let pass = match given >> PASS_AT & 3 {
        0 => Pass::First,
        1 => Pass::FirstOfTwo,
        2 => Pass::Second,
        _ => return begin,
    };
    if given_mark != mark || usize::from(index) >= nodes {
        return begin;
    }
    Place { index: index.into(), cursor: given >> 24, pass, mark }
}

/// The cursor to give to the client when the node's answer was `cursor`; `gives`: the node gives a slot away. `None`: it does not fit.
pub fn next(place: Place, nodes: usize, cursor: u64, gives: bool) -> Option<u64> {
    let pass = if gives && place.pass == Pass::First { Pass::FirstOfTwo } else { place.pass };
    let at_end = cursor == 0 && place.index + 1 >= nodes;
    let (index, cursor, pass) = match (cursor, pass) {
        (0, Pass::FirstOfTwo) if at_end => (0, 0, Pass::Second),
        (0, _) if at_end => return Some(0),
        (0, pass) => (place.index + 1, 0, pass),
        (more, pass) => (place.index, more, pass),
    };
    // Servers count in slots of a hash table, so their cursors are far smaller than this; and some clients' numbers have a sign.
    let fits = cursor < 1 << 39 && index < NODES_MAX;
    let (index, pass) = (index as u64, pass as u64);
    fits.then(|| cursor << 24 | index << 16 | pass << PASS_AT | u64::from(place.mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nodes and cursors of an iteration of two pages a node; `gives` tells which of the pages come from a node that gives a slot away.
    fn visited(gives: impl Fn(usize) -> bool) -> Vec<(usize, u64)> {
        let mut given = 0;
        let mut visited = Vec::new();
        loop {
            let place = resume(given, 3, 7);
            let answer = if place.cursor == 0 { 99 } else { 0 };
            given = next(place, 3, answer, gives(visited.len())).unwrap();
            visited.push((place.index, place.cursor));
            if given == 0 {
                return visited;
            }
        }
    }

    #[test]
    fn an_iteration_visits_every_node_to_its_end() {
        let once = [(0, 0), (0, 99), (1, 0), (1, 99), (2, 0), (2, 99)];
        assert_eq!(visited(|_| false), once);
        // Also where the very last page says so; and whatever is said in the second pass, there is no third.
        for page in 0..6 {
            assert_eq!(visited(|at| at == page || at > 6), [once, once].concat());
        }
    }

    #[test]
    fn another_table_or_a_made_up_cursor_begins_again() {
        let begin = |mark| Place { index: 0, cursor: 0, pass: Pass::First, mark };
        let second = Place { index: 1, ..begin(7) };
        let given = next(second, 3, 5, false).unwrap();
        assert_eq!(resume(given, 3, 7), Place { cursor: 5, ..second });
        assert_eq!(resume(given, 3, 8), begin(8));
        assert_eq!(resume(given, 1, 7), begin(7));
        for made_up in [0, u64::MAX, 3 << PASS_AT | 7] {
            assert_eq!(resume(made_up, 3, 7), begin(7));
        }
        assert_eq!(next(begin(7), 1, 1 << 39, false), None);
    }
}
