//! One cursor over the primaries of a cluster.
//!
//! ```text
//!   cursor = the node's own cursor << 24 | which node << 16 | mark of the slot table (1 to 65535)
//! ```
//! The nodes are visited in the order of their first slot. SCAN promises every key that is there from begin to end of the iteration, and
//! allows keys to come twice. So when the slot table changed since the cursor was given (its mark differs) the iteration begins again: keys
//! may have moved from a node that was to come to one that is done.
//!
//! Not here: asking the nodes.
//!
//! Invariant: a cursor that is not the end of the iteration is not 0, since no mark is.

use alloc::vec::Vec;

/// Where an iteration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of the nodes.
    pub index: usize,
    /// The node's own cursor.
    pub cursor: u64,
    /// Mark of the slot table that the iteration runs on.
    pub mark: u16,
}

/// Nodes that an iteration can tell apart.
pub const NODES_MAX: usize = 256;

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
    let (index, given_mark) = ((given >> 16) as u8, given as u16);
    let begin = Place { index: 0, cursor: 0, mark };
    let known = given_mark == mark && usize::from(index) < nodes;
    if given == 0 || !known {
        begin
    } else {
        Place { index: index.into(), cursor: given >> 24, mark }
    }
}

/// The cursor to give to the client when the node's answer was `cursor`. `None`: it does not fit.
pub fn next(place: Place, nodes: usize, cursor: u64) -> Option<u64> {
    let (index, cursor) = match cursor {
        0 if place.index + 1 >= nodes => return Some(0),
        0 => (place.index + 1, 0),
        more => (place.index, more),
    };
    // Servers count in slots of a hash table, so their cursors are far smaller than this.
    let fits = cursor < 1 << 40 && index < NODES_MAX;
    fits.then(|| cursor << 24 | (index as u64) << 16 | u64::from(place.mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iteration_visits_every_node_to_its_end() {
        let mark = 7;
        let mut given = 0;
        let mut visited = Vec::new();
        loop {
            let place = resume(given, 3, mark);
            visited.push((place.index, place.cursor));
            // Each node has two pages.
            let answer = if place.cursor == 0 { 99 } else { 0 };
            given = next(place, 3, answer).unwrap();
            if given == 0 {
                break;
            }
        }
        assert_eq!(visited, [(0, 0), (0, 99), (1, 0), (1, 99), (2, 0), (2, 99)]);
    }

    #[test]
    fn another_table_or_a_made_up_cursor_begins_again() {
        let begin = |mark| Place { index: 0, cursor: 0, mark };
        let given = next(Place { index: 1, cursor: 0, mark: 7 }, 3, 5).unwrap();
        assert_eq!(resume(given, 3, 8), begin(8));
        assert_eq!(resume(given, 1, 7), begin(7));
        assert_eq!(resume(u64::MAX, 3, 7), begin(7));
        assert_eq!(next(begin(7), 1, 1 << 40), None);
    }
}
