//! Times that concern the home of a channel: the one node of a cluster where respool publishes to the
//! channel and listens to it.
//!
//! Not here: bounds of subscriptions (`super`), how a home is chosen (`pubsub::homes`).
//!
//! Invariant: all are in milliseconds, as their names say.

/// So long a former primary that no table names keeps its channels, if it can be reached: others hear
/// only with its next ping that it is a copy now. Nodes
/// send one at least every half of `cluster-node-timeout`, which is 15 s unless configured.
pub const HOME_MISSING_MS: u64 = 15_000;

/// How long after a change of the homes of channels other workers and proxies may still publish at a former home, in milliseconds.
pub const HOMES_SETTLE_MS: u64 = 1_000;

/// How long after a change of the homes of channels PUBLISH goes to the former home, in milliseconds: each worker has connections of its own and sees the change
/// at another time.
pub const HOMES_SEEN_MS: u64 = 250;

/// How long a node of a cluster is reached again before it becomes the home of channels, in milliseconds. Other nodes connect their bus to it meanwhile; until then
/// messages that are published there reach no other node (seen with Valkey 9.1: 0.6 s after its start).
pub const HOME_RETURNS_MS: u64 = 1_000;

/// A client that leaves a channel within [`HOMES_SETTLE_MS`] after a change of its home leaves it so much later: the bus of the cluster may have messages for
/// it that were published before. See [`RECENT_MS`](super::RECENT_MS) for the delay of that bus.
pub const LEAVE_SETTLE_MS: u64 = 500;

/// Delay of a PUNSUBSCRIBE in a cluster with several homes, in milliseconds: the bus of the cluster
/// may still carry messages that were published before. Nodes pass messages on within 40 ms, unless
/// they are short of processor time (see [`RECENT_MS`](super::RECENT_MS)).
pub const PATTERN_SETTLE_MS: u64 = 100;
