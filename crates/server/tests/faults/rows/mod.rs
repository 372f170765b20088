//! The rows, by what they do to the servers.
//!
//! ```text
//!   failover    1 to 5          a primary goes, a replica takes over
//!   reshard     7, 8            slots move, or stand still in the middle
//!   messages    9               what is published meanwhile
//!   nodes       6, 10, 11, 12   replicas, addresses, the start, most of a cluster
//!   partition   13 to 17        what lies between proxy and node
//!   limits      25              what a node says of its own accord
//!   held        20, 27          clients with a connection of their own leave, or lose it
//!   fan_out     26              requests for a hundred thousand keys
//! ```
//! Invariant: a row's name begins with its number in the fault matrix.

mod failover;
mod fan_out;
mod held;
mod limits;
mod messages;
mod nodes;
mod partition;
mod reshard;

/// What a large request is told whose slot moved while its bytes were streamed away, as the guide to
/// clusters says.
///
/// And a transaction whose slot moved in its middle, of which nothing is done.
pub(crate) const MOVED_AWAY: [&str; 4] = [
    "given up after 1 tries, the last answer was: MOVED",
    "given up after 1 tries, the last answer was: ASK",
    "the keys of this transaction went to another node",
    "-EXECABORT ",
];
