//! Bugs that users of other proxies reported, each replayed on real servers.
//!
//! ```text
//!   replies   whose reply is it, and is it whole      themes A
//!   alive     crashes, hangs, names that do not resolve, connections left behind      B, D, G
//!   moves     servers that die and come back, again and again, and slots that spread over more nodes     C, J
//! ```
//! The table `docs/internals/peer-bugs.md` says whose bug each was. Bugs that need a server which misbehaves on purpose are stories of
//! the engine (`engine/tests/stories/peer_bugs.rs`). `RESPOOL_LONG=1` makes the loops as long as the reports were.
//!
//! Invariant: each test replays the trigger of its report; it is named by the letter and number of the table.

mod alive;
mod moves;
mod page;
mod replies;
