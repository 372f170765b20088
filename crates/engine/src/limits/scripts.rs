//! Bounds of scripts and functions.
//!
//! Not here: bounds of replies to scripts (`super`).
//!
//! Invariant: times are in milliseconds, as their names say.

/// A script that runs for longer makes a server answer others with `-BUSY`, in milliseconds (`busy-reply-threshold`, 5000 in Redis 7.0 unless it is
/// configured otherwise).
pub const SCRIPT_BUSY_MS: u64 = 5_000;

/// The time between two looks at shared connections with scripts under way, in milliseconds. If nothing was answered between two looks, other clients go on over
/// a fresh connection, where the server answers `-BUSY` after `busy-reply-threshold`, as it does directly.
pub const SCRIPT_RELIEF_MS: u64 = 500;

/// `PING` asks a server for this time after the server told a client that it is busy, in milliseconds.
pub const BUSY_TOLD_MS: u64 = 1_000;

/// Scripts that respool remembers, and their bytes together. Above the bound respool forgets the oldest script, and the server answers its calls.
pub const SCRIPTS_MAX: usize = 1_024;

/// See [`SCRIPTS_MAX`].
pub const SCRIPTS_BYTES_MAX: usize = 4 << 20;

/// Connections of a worker to a node, for each protocol, that scripts take of which no end was seen. Each of them has scripts of one client at a time, and scripts with one text take one of them.
/// In each database but the first there is one.
pub const TRIAL_CONNS: u16 = 32;

/// The connections for trials are at most this part of `upstream_conns_max`: one of so many.
pub const TRIALS_PART: usize = 4;

/// Scripts of which a worker knows that they end. With more of them the ones that were not called for longest are tried anew.
pub const SCRIPTS_TRIED_MAX: usize = 4_096;
