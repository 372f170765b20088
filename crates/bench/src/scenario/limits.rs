//! Bounds of what a scenario may ask for.
//!
//! They protect against slips (a zero too much), not against intent: whoever needs more changes the constant. A value
//! beyond its bound is a problem that names the bound; `tests/scenarios.rs` reaches each.
//!
//! Invariant: every product of bounds that the code computes fits into 64 bits.

/// Tests that a file may unfold into. At the bound the file is refused: such a run would take days.
pub const TESTS_MAX: usize = 200;
/// Targets that a file may unfold into. At the bound the file is refused.
pub const TARGETS_MAX: usize = 50;
/// Servers of one topology.
pub const NODES_MAX: u64 = 64;
/// Rounds.
pub const ROUNDS_MAX: u64 = 1000;
/// Connections of one load.
pub const CLIENTS_MAX: u64 = 60_000;
/// Requests in flight on one connection.
pub const PIPELINE_MAX: u64 = 10_000;
/// Threads of the generator, and workers of a target.
pub const THREADS_MAX: u64 = 256;
/// Different keys.
pub const KEYS_MAX: u64 = 1_000_000_000;
/// Longest key in bytes.
pub const KEY_BYTES_MAX: u64 = 64 * 1024;
/// Longest value in bytes.
pub const VALUE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Weight of a request within a mix.
pub const WEIGHT_MAX: u64 = 1_000_000;
/// Requests of one visit.
pub const REQUESTS_MAX: u64 = 1_000_000_000_000;
/// Shortest visit in seconds. Below, the counts of /proc say nothing.
pub const DURATION_S_MIN: f64 = 0.05;
/// Longest visit, warm-up or pause in seconds: a day.
pub const DURATION_S_MAX: f64 = 86_400.0;
/// Requests per second of an open load.
pub const RATE_MAX: f64 = 1e9;
/// Bytes per second of a slow reader.
pub const BYTES_PER_S_MAX: u64 = 1 << 40;
/// Highest number of a CPU, as in `respool.toml`.
pub const CPU_MAX: u32 = 1023;
/// Longest name of a test, target or topology in characters: names are columns of tables.
pub const NAME_CHARS_MAX: usize = 60;
