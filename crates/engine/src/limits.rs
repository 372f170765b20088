//! Every bound of the engine that is not configured, and what happens at it.
//!
//! Configured bounds stand in [`crate::settings::Limits`] with the same kind of doc line. A queue, loop or buffer without
//! a bound in one of these files is a defect. `limits/homes.rs` has the times of channels' homes in a cluster,
//! `limits/scripts.rs` the bounds of scripts.

mod homes;
mod scripts;

pub use homes::*;
pub use scripts::*;

/// Commands of one transaction whose answers hold keys that get the prefix of their route back. With more of them the answer to EXEC is an error; what
/// it says is done all the same.
pub const RENAMED_IN_EXEC_MAX: usize = 16_384;

/// Unanswered requests of one client before its replies told anything about their size (see [`PROBES_MAX`]). At the bound the client is not
/// read until replies went out; then the window follows the size of its replies (see [`WINDOW_BYTES`]).
pub const WINDOW_START: u32 = 64;

/// The smallest window: so many requests of one client may always be unanswered, however large its replies are.
pub const WINDOW_MIN: u32 = 4;

/// Silent clients (`CLIENT REPLY`) of a worker with requests for long replies under way at a node; further clients wait, in turn by group.
pub const SILENT_MAX: usize = 4;

/// Replies that a silent client has under way, in bytes by their mean size; one reply in any case, and at most [`WINDOW_MIN`].
pub const SILENT_BYTES: u32 = 256 << 10;

/// A silent client has its place among [`SILENT_MAX`] for this time at most, in milliseconds.
pub const SILENT_PLACE_MS: u64 = 250;

/// The window of a client is what it may have unanswered so that its replies, at their recent mean size, come to about this
/// many bytes. A pipeline of large replies is slowed by it instead of filling the memory.
pub const WINDOW_BYTES: u64 = 4 << 20;

/// From here on the part of a reply that has come is handed to a client before the rest is there (cut-through). Below it
/// a reply is kept until it is whole, so that an upstream that dies in its middle can still be answered with an error.
pub const CUT_THROUGH_BYTES: usize = 32 << 10;

/// A client that takes its reply slower than the server gives it stops the reading of that upstream when so much waits for it
/// and nobody else waits behind it.
pub const CLIENT_STREAM_BYTES: usize = 4 << 20;

/// Where so much is to come over a shared connection, for one client by the size of its next reply or for all by the mean of the last ones, others wait
/// no longer behind it: they get a fresh one.
pub const BACKLOG_BYTES: u64 = 4 * WINDOW_BYTES;

/// Where so much of a reply is to come over a connection on which nobody waits any more, it is given up.
pub const DESERTED_BYTES: u64 = 1 << 20;

/// A client that sends nothing of a large request for so long makes room when others wait for a place.
pub const TRANSFER_IDLE_MS: u64 = 1_000;

/// When memory is short, a client that takes none of its output counts once more for each of these times.
pub const UNTAKEN_UNIT_MS: u64 = 10;

/// So many times at most.
pub const UNTAKEN_UNITS_MAX: u64 = 63;

/// An error or a status of a script, a function or a module has at most so many bytes, since it is kept until its end is known (see `delimiter`). The client
/// gets an error in place of a longer one, which is dropped as it comes.
pub const TEXT_LINE_BYTES_MAX: usize = 1 << 20;

/// Pushes between the reply to a script and its delimiter are kept until the delimiter is here, at most so many bytes. With more, all keys count as
/// changed.
pub const PUSHES_BEHIND_BYTES_MAX: usize = 64 << 20;

/// Requests behind a large reply that are compared with the one that it is for: their replies will be as large.
pub const EQUAL_LOOKS_MAX: usize = 64;

/// Requests of one client that are not plain (answered here, refused, put together of several servers') in one turn of a worker: behind them others have
/// their turn. Some 100 µs; a server reads 16 KiB of a client before it looks at the next.
pub const SLOW_TURN_MAX: u32 = 256;

/// The same of all clients in one turn, for those with few arguments and those with many each; a request counts as one and one for each
/// [`SLOW_TURN_ARGS`] of its arguments and [`SLOW_TURN_BYTES`] of its bytes. Some milliseconds.
pub const SLOW_TURN_COST_MAX: usize = 4_096;

/// See [`SLOW_TURN_COST_MAX`]. A key of `MGET` that goes to its server takes some 0.2 µs, a channel of `SUBSCRIBE` 1 µs.
pub const SLOW_TURN_ARGS: usize = 4;

/// So many bytes of a request count for one more: they are copied, hashed or looked through. Some 1 µs to 20 µs.
pub const SLOW_TURN_BYTES: usize = 4 << 10;

/// So many servers that a request goes to count for one more.
pub const SLOW_TURN_PARTS: usize = 8;

/// From so many arguments on a request has many of them.
pub const SLOW_TURN_LARGE_ARGS: usize = 64;

/// Bound on the cost of copies of messages and invalidations in one turn, in bytes; those behind go out in the next one. Some 20 ms.
pub const FAN_TURN_COST: usize = 32 << 20;

/// Cost of a copy beside its bytes.
pub const FAN_COPY_COST: usize = 64;

/// A key that is looked at when a server tells that all keys changed costs as much as a copy of so many bytes.
pub const FAN_KEY_COST: usize = 256;

/// Cost of the name of a key in an invalidation beside its bytes, and of a prefix of a client that is looked for.
pub const FAN_NAME_COST: usize = 64;

/// Cost of a change of a key for each client that may have it, beside that: respool looks whether the client reads the key just now, and forgets that it
/// has it. Some 2 µs.
pub const FAN_READER_COST: usize = 3 << 10;

/// Cost of a client's first copy in a turn beside that, as it takes a send.
pub const FAN_SEND_COST: usize = 2 << 10;

/// Bytes of replies that get other names or values (`policies.namespace`, `policies.values`) in one turn; those behind are changed in the next one.
/// A few milliseconds.
pub const CHANGED_TURN_BYTES: usize = 4 << 20;

/// What a command of respool's own between MULTI and EXEC counts for, as its reply may be that of `SLOWLOG GET`: 256 of them are a turn.
pub const SLOW_TURN_INSIDE: usize = 16;

/// Keys of one request that a client may have in its cache. One that reads more is told behind the reply to drop them.
pub const TRACKED_REQUEST_KEYS_MAX: usize = 10_000;

/// So many steps of patterns, or names that are compared, count for one more.
pub const SLOW_TURN_STEPS: usize = 512;

/// Steps that a prefix of `CLIENT TRACKING … BCAST` counts for whenever its client adds others, some 50 ns.
pub const PREFIX_STEPS: usize = 32;

/// So many bytes of its reply count for one more.
pub const SLOW_TURN_REPLY_BYTES: usize = 64;

/// Requests with large replies that a server has at a time over one connection. With one a slow line would be idle
/// between two replies.
pub const LARGE_INFLIGHT_MAX: usize = 4;

/// Requests with large replies that are known at most.
pub const LARGE_REPLIES_MAX: usize = 1_024;

/// A request is forgotten to which no large reply has come for so long.
pub const LARGE_REPLY_KEPT_MS: u64 = 60_000;

/// Replies of a connection over which their mean size is taken.
pub const PACE_REPLIES: u64 = 16;

/// Bytes of one read from which respool computes the mean size of a connection's replies again.
pub const PACE_LOOK_BYTES: usize = 16 << 10;

/// Replies that a client asks for in its turn at a connection, in bytes by their mean size, while others wait for theirs; [`WINDOW_MIN`] requests in any
/// case.
pub const TURN_REPLY_BYTES: u64 = 64 << 10;

/// Runs of that connection that are looked through for what can be asked again over the fresh one. Whoever has more behind them waits.
pub const BACKLOG_RUNS_MAX: usize = 10_000;

/// Bytes of requests that are asked again there. Others wait.
pub const MOVED_BYTES_MAX: usize = 4 << 20;

/// What a client is owed at most, in bytes, by the recent size of its replies, for its reads to be asked again.
pub const MOVED_REPLIES_MAX: u64 = 256 << 10;

/// Unanswered requests of one client while nothing says how long servers take for them (see `speed`).
pub const WINDOW_UNTRIED: u32 = 256;

/// And at most, however fast servers answer: about as many short requests as a server reads of one client before it turns to the next
/// (`PROTO_IOBUF_LEN` in Redis 7.0). That the last ones were cheap says nothing of the next.
pub const WINDOW_MOST: u32 = 512;

/// Questions to all workers that are under way for the clients of one worker. Others wait, so that no more answers are held than of these.
pub const QUESTIONS_MAX: usize = 4;

/// Other requests have so many times as long as a question took before the next one of the same worker is given on.
pub const QUESTIONS_REST: u64 = 4;

/// Questions may be ahead of that by so much, in microseconds: a few hundred small ones come at once and wait for nothing.
pub const QUESTIONS_AHEAD_US: u64 = 10_000;

/// What a question is taken to cost in any case, in microseconds.
pub const QUESTION_US: u64 = 5;

/// And so many bytes of its reply for one more: a line of CLIENT LIST is copied some five times.
pub const ANSWER_BYTES_PER_US: usize = 512;

/// And so many clients of a worker that are looked at for one more.
pub const ANSWER_CLIENTS_PER_US: usize = 32;

/// CLIENT LIST has at most this part of `Limits::memory_max_bytes`; a larger one is refused.
pub const LIST_PART: usize = 4;

/// Clients of a worker that may begin with [`WINDOW_START`] at a time; others begin with [`WINDOW_WARY`]. What hundreds would ask for, of whom nothing is
/// known, may be gigabytes.
pub const PROBES_MAX: u32 = 2;

/// The first window of a client while enough others are at their first, too.
pub const WINDOW_WARY: u32 = 2;

/// Upstreams that were retired because a slow client held them up. At the bound no further one is retired: others ask
/// over the stopped one, which is read on for them.
pub const RETIRED_MAX: usize = 16;

/// Connections for single clients that are being opened to one server at a time, per worker; the next clients wait their turn. A server's queue of new
/// connections has 511 places unless it is told otherwise, and what finds none is tried again by the kernel after a second at the earliest.
pub const LEASES_OPENING_MAX: usize = 128;

/// Idle upstreams kept for the next large request or lease, per worker. More are closed.
pub const SPARES_MAX: usize = 32;

/// Clients that share a read with the one that asked first (see `coalesce`). The next one's read is sent, and may be shared in its turn.
pub const SHARERS_MAX: usize = 31;

/// Lists of sharers that a connection keeps for the next ones. More are given back to the allocator.
pub const SPARE_SHARERS_MAX: usize = 64;

/// Bytes of a read that may be shared. A longer one is sent as it is: to compare it could cost more than it saves.
pub const SHARED_READ_BYTES_MAX: usize = 1 << 10;

/// Reads of a worker that are remembered until they are sent, in a table of so many entries (a power of two). Of two that fall on the same entry the later one
/// is remembered.
pub const UNSENT_READS_MAX: usize = 1 << 10;

/// Requests of others behind an unsent read that are looked through for one of the client that would share it. Where there are more, it is not shared.
pub const SHARED_LOOKS_MAX: usize = 64;

/// The largest reply that the near cache keeps, whatever is configured: a larger one is given on as it comes, and is never here as a whole.
pub const CACHE_VALUE_BYTES_MAX: usize = CUT_THROUGH_BYTES;

/// The near cache counts how often a request comes in windows of this time, in milliseconds.
pub const CACHE_WINDOW_MS: u64 = 10_000;

/// Keys of a request whose reply the near cache may keep. What has more is given on.
pub const CACHE_KEYS_MAX: usize = 16;

/// A server that refuses `CLIENT TRACKING` is asked again over the same connection after this time, in milliseconds.
pub const CACHE_REFUSED_MS: u64 = 10_000;

/// An idle upstream kept for large requests and leases is closed after this time.
pub const SPARE_IDLE_MS: u64 = 10_000;

/// A piece of a request with so many bytes gets room for the rest at once, instead of by growing, which copies what is there already
/// with each step. Below it growing costs less than memory that may never be used.
pub const PART_BYTES: usize = 16 << 10;

/// Room that is made for what is still to come of it, at most.
pub const PART_ROOM_BYTES: usize = 256 << 10;

/// A buffer that grew beyond this is given back to the allocator after use and not kept for the next.
pub const POOLED_BUFFER_BYTES: usize = 64 << 10;

/// Spare buffers of a worker together; more are given back to the allocator.
pub const POOL_BYTES: usize = 8 << 20;

/// Replies of a pipeline that wait for those behind them leave when they are so many bytes (see `cork`).
pub const CORKED_BYTES_MAX: usize = 16 << 10;

/// The shortest period of the sweep that looks at every client for one that is idle for too long, in milliseconds.
pub const SWEEP_MS: u64 = 100;

/// The longest period of that sweep: so much later than configured an idle client may be closed.
pub const SWEEP_MS_MAX: u64 = 1_000;

/// Between the two the period is the configured time divided by this.
pub const SWEEP_PART: u64 = 64;

/// The period while the worker drains, in milliseconds: then every idle client goes at once.
pub const DRAIN_SWEEP_MS: u64 = 5;

/// Name of a connection (`CLIENT SETNAME`, `CLIENT SETINFO`). Longer ones are refused, as nobody can read them in a list.
pub const CLIENT_NAME_BYTES: usize = 4 << 10;

/// Arguments of a request that the slow log keeps; the last one tells how many more there were.
pub const SLOWLOG_ARGS: usize = 32;

/// The slow log takes this part of `Limits::memory_max_bytes` at most; the oldest entries go.
pub const SLOWLOG_PART: usize = 16;

/// Bytes of an argument that the slow log keeps.
pub const SLOWLOG_ARG_BYTES: usize = 128;

/// Lines on their way from one worker to a monitor of another one. At the bound the monitor is closed: it, or its worker, does not keep up.
pub const MONITOR_AHEAD_BYTES: usize = 4 << 20;

/// And those of all monitors never more than this part of `Limits::memory_max_bytes`.
pub const MONITOR_PART: usize = 8;

/// Requests of one transaction that are kept until EXEC to be shown to those that watch. At the bound they are shown before.
pub const MONITOR_KEPT_BYTES: usize = 256 << 10;

/// Patterns and clients together that one MONITOR may name; with more it is refused.
pub const MONITOR_FILTERS_MAX: usize = 64;

/// A longer reply to a command of the proxy's own that asks for a list (`COMMAND`, `CLUSTER SLOTS`) closes the upstream connection. The
/// reply to `COMMAND` of Redis 8 with all its modules has some 300 KiB; few of them are under way at a time.
pub const OWN_LIST_BYTES: usize = 8 << 20;

/// The same of all others, of which each connection may await one (`HELLO`, `SELECT`). That to `HELLO` names the server's modules.
pub const OWN_REPLY_BYTES: usize = 64 << 10;

/// Bytes of a peer's error text that are quoted in ours.
pub const QUOTED_ERROR_BYTES: usize = 256;

/// A connection that lasts less than this, twice in a row, counts as a failed connect (backoff, errors at once).
pub const SHORT_LIFE_US: u64 = 1_000_000;

/// The least time that a client which stops an upstream gets, when clients before it have used the stall timeout up, until the upstream is read all
/// the same.
pub const STALL_MIN_US: u64 = 1_000;

/// How often one request is sent on by `MOVED` or `ASK` without a wait. While two servers name each other it then waits twice as long each time.
pub const SENT_ON_AT_ONCE: u8 = 3;

/// So long a request is sent on, or tried again that a server cannot serve just now (`TRYAGAIN`, `CLUSTERDOWN`, `LOADING`), at the least; the
/// option `timeouts.failover_hold_ms` makes it longer. Then its client gets an error.
pub const REDIRECT_WAIT_MS: u64 = 2_000;

/// A cluster of which no server has said CLUSTERDOWN for so long was up in between: requests that wait ask again more often, at least every
/// [`RETRY_MAX_MS`].
pub const OUTAGE_GAP_MS: u64 = 1_000;

/// The wait before a request that finds no node, or one that is down, looks again.
pub const RETRY_FIRST_MS: u64 = 5;

/// Bytes of a host that a server names: the longest host name (RFC 1035, 2.3.4). Longer ones are none.
pub const HOST_BYTES_MAX: usize = 255;

/// An `ASK` is followed for so long, in microseconds. Then respool asks the owner of the slot again: the slot may be on its way elsewhere, or back.
pub const ASK_HOLDS_US: u64 = 100_000;

/// So long a reply that may be a redirect or a script's data waits for the answer of a known node. Then it counts as data.
pub const QUESTION_MS: u64 = 1_500;

/// So long after a redirect slots and nodes count as on the move.
pub const UNSETTLED_MS: u64 = 1_000;

/// The longest of these waits.
pub const RETRY_MAX_MS: u64 = 200;

/// A request that a server did not serve waits so long for what stands behind it there, which is mostly answered at once. Then it is looked at
/// whether that concerns it.
pub const BEHIND_LOOK_MS: u64 = 10;

/// Looks at what stands behind parked requests rest so many times as long as they took.
pub const BEHIND_LOOK_REST: u64 = 10;

/// So much of that rest may be taken in advance: looks that are short do not wait for one another.
pub const BEHIND_LOOKS_AHEAD_MS: u64 = 100;

/// How many runs of a connection are looked at, from behind, for the last of a client. Where there are more, they count as such.
pub const BEHIND_LOOKS_MAX: usize = 1_000;

/// Bytes of requests that wait for another server, per worker, shared by user and address ([`shares`](crate::shares)). A request that does not fit is
/// answered with an error.
pub const PARKED_BYTES_MAX: usize = 64 << 20;

/// Bytes that wait to be sent over a connection while clients wait for room there, beyond which the next of them waits: about as much as a server reads of
/// one client before it turns to the next (`PROTO_IOBUF_LEN` in Redis 7.0).
pub const TURN_BYTES: usize = 16 << 10;

/// A connect that fails within so long is known to fail as soon as it is tried (the host refuses it), in milliseconds.
pub const QUICK_MS: u64 = 50;

/// Sent bytes of one connection that are kept until they are answered, for the case that they must be sent on. At the bound the connection
/// counts as full.
pub const KEPT_BYTES_MAX: usize = 16 << 20;

/// And not more than this part of `Limits::memory_max_bytes`, unless that is less than [`KEPT_BYTES_MIN`].
pub const KEPT_PART: usize = 8;

/// See [`KEPT_PART`].
pub const KEPT_BYTES_MIN: usize = 256 << 10;

/// The table of a cluster is asked for at most so often, in milliseconds, however many signs there are that it is stale.
pub const TOPOLOGY_EVERY_MS: u64 = 500;

/// The pause before `COMMAND` is asked again when its reply was lost more than once.
pub const LEARN_AGAIN_MS: u64 = 1_000;

/// The least pause between two `COMMAND`s, however many names are unknown.
pub const LEARN_EVERY_MS: u64 = 10_000;

/// Names that one `COMMAND INFO` asks for. More wait for the next one.
pub const LOOKUP_NAMES_MAX: usize = 64;

/// How long respool waits for the answer about names, in milliseconds. One server that hangs delays clients of the others no longer; the next names go to another server.
pub const LOOKUP_WAIT_MS: u64 = 1_000;

/// The least pause between two of them, in milliseconds: with [`LOOKUP_NAMES_MAX`] this bounds what clients with unknown names cost a server.
pub const LOOKUP_EVERY_MS: u64 = 20;

/// Clients that wait until their name can be asked for. For one more a name that is not known is an unknown command.
pub const LOOKUP_WAITERS_MAX: usize = 1_024;

/// Names of which servers were asked that are remembered, and for so long, in milliseconds. At the bound all are forgotten.
pub const LOOKUPS_KEPT_MAX: usize = 1_024;

/// See [`LOOKUPS_KEPT_MAX`].
pub const LOOKUP_KEPT_MS: u64 = 1_000;

/// Who was asked for the table of a cluster and has not answered in this time (a server that was stopped, say) is passed over for another one.
pub const TOPOLOGY_PATIENCE_MS: u64 = 1_000;

/// The wait after a question for it that brought nothing.
pub const TOPOLOGY_AGAIN_MS: u64 = 100;

/// Steps of matching a client's pattern with the names of one reply, for each byte of these, where respool does that itself (`KEYS` and `SCAN` where a
/// route removes a prefix). A usual pattern takes one or two. With more the client gets an error, so that its pattern holds up nobody else.
pub const MATCH_STEPS_PER_BYTE: usize = 8;

/// See [`MATCH_STEPS_PER_BYTE`]: so many it may take in any case.
pub const MATCH_STEPS_MIN: usize = 64 << 10;

/// Steps of matching patterns that clients listen to with the channel of one PUBLISH, to tell how many got it. With more, those that were not
/// matched yet are not counted; the message goes to them all the same.
pub const PUBLISH_STEPS_MAX: usize = 4 << 20;

/// A request that must be whole before it goes on, to be split between nodes or looked at by a rule that is about more than its head, has at most so
/// many bytes; a larger one gets an error.
pub const WHOLE_REQUEST_BYTES_MAX: u64 = 64 << 20;

/// Sentinels are asked at least so often, in milliseconds: their messages of a new primary may get lost.
pub const SENTINEL_EVERY_MS: u64 = 1_000;

/// Nodes that could answer reads are asked so often how they are, in milliseconds, while a policy sends reads to replicas.
pub const ROLE_EVERY_MS: u64 = 1_000;

/// The other respools of the facade are asked so often whether they live, in milliseconds; one that owes an answer is not asked again.
pub const PEER_EVERY_MS: u64 = 1_000;

/// So many failures in a row, and another respool counts as dead: one may be a restart or a lost packet.
pub const PEER_FAILURES: u32 = 2;

/// Bytes of a name to listen to. All clients of a worker listen over one connection, which a server closes for a longer argument than its
/// `proto-max-bulk-len`; that is at least so much (Redis' `config.c`).
pub const TOPIC_BYTES_MAX: usize = 1 << 20;

/// Names of topics that clients listen to, with what each listener takes, in bytes per worker, shared by user and address
/// ([`shares`](crate::shares)). At the bound SUBSCRIBE gets an error.
pub const SUBSCRIBED_BYTES_MAX: usize = 256 << 20;

/// Channels and patterns of one client. At the bound SUBSCRIBE gets an error.
pub const CLIENT_TOPICS_MAX: usize = 128 << 10;

/// Topics that clients which are gone are taken out of in a turn, some 1 µs each.
pub const GONE_TOPICS_PER_TURN: usize = 16 << 10;

/// Topics that one client leaves in one piece, some 2 µs each. More of them are left by [`LEFT_TOPICS_PER_TURN`].
pub const LEFT_TOPICS_AT_ONCE: usize = 1 << 10;

/// Topics that all clients together leave in a turn beyond [`LEFT_TOPICS_AT_ONCE`], some 2 µs each.
pub const LEFT_TOPICS_PER_TURN: usize = 4 << 10;

/// Names that one connection for subscriptions was asked for and has not confirmed, in bytes. The server confirms with the same names, and closes a connection
/// that reads its confirmations too late: `client-output-buffer-limit pubsub` is 32 MiB at once and 8 MiB for a minute (Redis' and Valkey's defaults).
pub const UNANSWERED_TOPICS_BYTES_MAX: usize = 4 << 20;

/// Names of one SUBSCRIBE or UNSUBSCRIBE of which respool knows the servers before the client waits for one of them that confirms late. A client with more
/// names waits if any server does so.
pub const CROWDED_NAMES_MAX: usize = 1 << 10;

/// Nodes of a cluster that channels are spread over. Each look for the home of a channel takes a few ns for each of them, and a cluster may name
/// [`CLUSTER_NODES_MAX`] nodes.
pub const CHANNEL_HOMES_MAX: usize = 128;

/// Topics that are looked at in a turn, whether each is subscribed to where it belongs, some 1 µs each.
pub const RELINK_TOPICS_PER_TURN: usize = 8 << 10;

/// Keys of clients' caches, each with one client, and replies of the near cache that a turn removes when all of them are dropped at once, some 2 µs each.
pub const DROPPED_PER_TURN: usize = 2 << 10;

/// Keys that clients may have in their caches, per worker; and their names' bytes with what each client takes. Beyond it the first one is told to
/// be dropped.
pub const TRACKED_KEYS_MAX: usize = 1_000_000;

/// See [`TRACKED_KEYS_MAX`].
pub const TRACKED_BYTES_MAX: usize = 128 << 20;

/// And never more than this part of `Limits::memory_max_bytes`.
pub const TRACKED_PART: usize = 4;

/// The near cache never takes more than this part of `Limits::memory_max_bytes`.
pub const NEAR_PART: usize = 2;

/// The wait before topics are looked at again after slots moved: many often do so at once.
pub const RELINK_MS: u64 = 20;

/// How long a topic that goes to another server is heard from the old one first: until then all workers should know of it.
pub const HANDOVER_LINGER_MS: u64 = 1_000;

/// Nodes that the table of a cluster may name; one that names more is of no use. The largest clusters that are known have 2,000 (Valkey 9.0).
pub const CLUSTER_NODES_MAX: usize = 4_096;

/// Replicas of a primary, and other sentinels, that are taken from what a sentinel tells.
pub const SENTINEL_NODES_MAX: usize = 256;

/// Connections that are made in one second only to ask nodes how they are.
pub const HEALTH_CONNECTS_MAX: usize = 64;

/// How long it is known what was heard of a topic before it went to another server, which may tell it again for as long, in milliseconds. Nodes pass
/// messages on within 40 ms, but for most of a second where they are short of processor time (seen with 300 ms here). The longer, the more of what is
/// published over and over with one text may be missing, of which servers promise nothing; that a message comes twice they do not know.
pub const RECENT_MS: u64 = 1_000;

/// So many messages of all topics of a worker are known then.
pub const RECENT_MAX: usize = 8_192;

/// Messages of a topic that one server has told and the other has not, while it goes from one to the other, in bytes with their records. At the bound those that
/// wait go out at once, and one of them may come twice.
pub const HANDOVER_BYTES_MAX: usize = 1 << 20;

/// And those of all topics never more than this part of `Limits::memory_max_bytes`.
pub const HANDOVER_PART: usize = 8;

/// The wait before a topic is asked for again that a server refused, or that belongs to nobody just now.
pub const RELINK_REFUSED_MS: u64 = 500;

/// A transaction in one packet goes over the shared connection if it has no more bytes than this. A longer one would keep the others there
/// waiting, and goes over a connection of its own.
pub const WHOLE_BYTES_MAX: usize = 64 << 10;

/// Entries of the slow log, whatever a client sets with CONFIG SET; the bound of `slowlog.max_len`, too.
pub const SLOWLOG_ENTRIES_MAX: usize = 1_000_000;

/// Commands that are kept of a transaction, in bytes: those before its first key, and those that the proxy answers. At the bound the next
/// one is refused, and so is EXEC.
pub const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Questions for the table of a cluster that stand before pages of SCAN and are not answered, on one connection. A server that holds its answers back could
/// otherwise have thousands of tables taken in at once, each of which takes a millisecond where it names thousands of nodes.
pub const PAGE_QUESTIONS_MAX: u32 = 64;

/// Keys of a request that is split between nodes, as many as older versions of Redis take arguments: it is worked off in one piece. Beyond it the client
/// gets an error.
pub const SPLIT_KEYS_MAX: usize = 1 << 20;

/// Elements of all replies to a request in parts that are looked at one by one, as those of `PUBSUB CHANNELS` and `SCRIPT EXISTS`: as many as Redis takes
/// arguments of a request. Beyond it the client gets an error. Replies that are only joined have no such bound.
pub const MERGED_ELEMENTS_MAX: usize = 1 << 20;

/// Bytes of a server's `INFO` that is read for the `INFO` of all servers; one that is longer counts as not answered. Servers with statistics of all
/// commands and keys say some 30 to 100 KB.
pub const INFO_BYTES_MAX: usize = 1 << 20;

/// First words of error replies that are counted apart, per worker, as Redis keeps them; all others are counted together.
pub const ERROR_KINDS_MAX: usize = 64;

/// Latency monitors; further ones of a configuration are refused.
pub const LATENCY_MONITORS_MAX: usize = 16;

/// How many of a client's last waits are kept, for the slow log. Of a request that was sent before them it is not known that it waited.
pub const LATE_MAX: usize = 8;

/// Bytes of a key that are kept where keys are shown later (hot keys, big keys); of a longer one its begin and its length.
pub const KEY_SHOWN_BYTES: usize = 128;

/// Kinds of errors of which the last one is kept, one for each word and command.
pub const ERROR_SAMPLES_MAX: usize = 64;

/// So much is kept of an error's text.
pub const ERROR_TEXT_BYTES: usize = 256;

/// The text of an error that comes all the time is looked at so often.
pub const ERROR_SAMPLE_MS: u64 = 100;

/// Keys that are known of each window of hot keys; the bound of `hotkeys.top`. The sketch behind knows all others.
pub const HOTKEYS_TOP_MAX: usize = 128;

/// Keys of one sampled request that are counted; the others of it are not.
pub const HOTKEYS_KEYS_MAX: usize = 1_024;

/// Requests that are looked up at a time in the queue of a connection; for more it is gone through again.
pub const HOTKEYS_AT_ONCE: usize = 16;

/// Entries of big keys; the bound of `bigkeys.max_len`. At it the one goes that was not seen for the longest time.
pub const BIGKEYS_ENTRIES_MAX: usize = 1_024;

/// The operator is told of a big key at most once in this time, in milliseconds.
pub const BIGKEYS_TOLD_EVERY_MS: u64 = 60_000;

/// Requests that are told one by one (access log, traces, slow ones), of a worker and a turn. What comes beyond is counted and told with the next.
pub const OBSERVED_MAX: usize = 64;

/// Arguments of such a request among which its first key is looked for.
pub const OBSERVED_ARGS: usize = 64;

/// Bytes of the first word of an error reply that are told with it.
pub const OBSERVED_ERROR_BYTES: usize = 64;

/// The operator is told of so many big keys of a worker in that time; what comes beyond is only kept.
pub const BIGKEYS_TOLD_MAX: u32 = 20;

/// Buckets of one rule of `policies.rate` that goes by users, clients or prefixes. Of more than fit some share one, which is stricter.
pub const RATE_BUCKETS: usize = 4_096;

/// Keys that are to be deleted once more, per worker, and their bytes together. At the bound the next one is left out and counted.
pub const DELETES_MAX: usize = 65_536;

/// See [`DELETES_MAX`].
pub const DELETES_BYTES_MAX: usize = 16 << 20;

/// So many keys are deleted once more in one turn; the others in the next.
pub const DELETES_AT_ONCE: usize = 1_024;

/// One that could not be sent is tried again after so many milliseconds.
pub const DELETE_AGAIN_MS: u64 = 100;

/// And so often, before it is given up: for half a minute, in which a failover is done.
pub const DELETE_TRIES: u32 = 300;

/// Rules of one policy; of a configuration with more none is taken.
pub const POLICY_RULES_MAX: usize = 64;

/// Keys that values of one configuration are encrypted with, or were.
pub const SEALING_KEYS_MAX: usize = 16;

/// The highest level of zstd that values are compressed with. What it needs for a value is bounded by the level and the value's length; above this one the
/// worker, for which all its clients wait, would take a second for a megabyte.
pub const ZSTD_LEVEL_MAX: u8 = 9;

/// Bytes of a value up to which the configured level of zstd holds; respool compresses a larger one with level 1. At level 9 this takes some 10 ms.
pub const ZSTD_LEVEL_BYTES_MAX: usize = 256 << 10;

/// The most memory of zstd that an engine keeps from one value to the next, which [`ZSTD_LEVEL_MAX`] and [`ZSTD_LEVEL_BYTES_MAX`] bound.
pub const ZSTD_KEPT_BYTES: usize = 4 << 20;

/// Bytes of a reply or a request that an operator's program makes; a larger one counts as a failure.
pub const OWN_FRAME_BYTES_MAX: usize = 1 << 20;

/// Bytes of an error that an operator's program makes; a longer one counts as a failure.
pub const OWN_ERROR_BYTES_MAX: usize = 256;

/// Bytes of a line for the log of an operator's program; what is longer is cut.
pub const OWN_LINE_BYTES_MAX: usize = 256;

/// Lines that operators' programs may log in a second, at each worker; others are left out.
pub const OWN_LINES_MAX: u32 = 10;

/// Bytes that programs made of requests that wait for something else; of what goes beyond nothing is kept, and the program is asked again.
pub const OWN_KEPT_BYTES_MAX: usize = 16 << 20;

/// Failures in a row after which a rule's program rests.
pub const OWN_FAILURES_MAX: u32 = 16;

/// For how long, in milliseconds.
pub const OWN_REST_MS: u64 = 5_000;

/// Names of rules that are counted apart, since the start; what further ones do is counted together.
pub const POLICY_NAMES_MAX: usize = 256;

/// Users of the proxy. `ACL SETUSER` of one more is refused, and a file with more is wrong.
pub const USERS_MAX: usize = 16_384;

/// Selectors of one user. respool compares all keys of a request with one selector after the other until a selector allows the request.
pub const ACL_SELECTORS_MAX: usize = 64;

/// Patterns of keys and channels of one user, and of each of its selectors.
pub const ACL_PATTERNS_MAX: usize = 4_096;

/// Entries of `ACL LOG`, of each worker; at it the oldest goes.
pub const ACL_LOG_ENTRIES: usize = 128;

/// Bytes of a command, key or channel that are kept in `ACL LOG`.
pub const ACL_LOG_OBJECT_BYTES: usize = 1_024;

/// Mirrors of a configuration; further ones are refused.
pub const MIRRORS_MAX: usize = 16;

/// Writes that a mirror has not answered, and their bytes: what comes beyond waits in its queue, which the configuration bounds.
pub const MIRROR_WINDOW_MAX: usize = 1_024;

/// See [`MIRROR_WINDOW_MAX`]. One write more than fits goes all the same.
pub const MIRROR_WINDOW_BYTES: usize = 1 << 20;

/// Replies of mirrors that are held together, as this part of `Limits::memory_max_bytes`. Beyond it the connections of a mirror are closed; each write under way
/// is sent once more at most.
pub const MIRROR_PART: usize = 8;

/// A mirror that was not reached is asked again after this time, which doubles with each failure, in milliseconds.
pub const MIRROR_RETRY_MIN_MS: u64 = 20;

/// The longest of these times.
pub const MIRROR_RETRY_MAX_MS: u64 = 1_000;

/// When a mirror comes, writes for mirrors wait for so long at most until what was under way is answered, in milliseconds; then they go on. What is
/// answered later may be done in another order at the mirror than at the primary.
pub const MIRROR_BEFORE_MAX_MS: u64 = 1_000;

/// So often it is looked at, in milliseconds.
pub const MIRROR_BEFORE_LOOK_MS: u64 = 1;

/// The log is told of what a mirror did not get at most once in this time, in milliseconds; what comes between is told together.
pub const MIRROR_TOLD_EVERY_MS: u64 = 10_000;

/// First words of a mirror's errors that are counted apart; others only count as failed.
pub const MIRROR_ERROR_KINDS_MAX: usize = 32;

/// Values that a command took and that mirrors are told by name: beyond so many it is not told to them, and counted as dropped. Read and made into
/// words they are some 50 MB for a moment, and 50 ms.
pub const MIRROR_TAKEN_MAX: usize = 1 << 18;

/// Read targets of a configuration; further ones are refused.
pub const READ_TARGETS_MAX: usize = 8;

/// Reads under way to one target, also those that nobody waits for any more; one more goes to the next target, or to the upstream.
pub const READ_TARGET_OPEN_MAX: usize = 65_536;

/// Replies of read targets that are held together, as this part of `Limits::memory_max_bytes`. Beyond it the longest one is dropped, and another deployment
/// is asked.
pub const READ_TARGET_PART: usize = 4;

/// Clients by which one target is asked: one for each database, protocol, server and shared connection. At it, those are closed by which nothing is
/// asked; if there are none, a read that needs another one goes on.
pub const READ_TARGET_FEEDERS_MAX: usize = 1_024;

/// A target that failed is asked whether it is back after this time, which doubles with each time that it is not, in milliseconds.
pub const READ_TARGET_RETRY_MIN_MS: u64 = 100;

/// The longest of these times.
pub const READ_TARGET_RETRY_MAX_MS: u64 = 2_000;

/// Keys that count as often read (`read_targets.hot_per_s`), of one worker in one window; further ones do not.
pub const READ_TARGET_HOT_MAX: usize = 1_024;

/// The window, in milliseconds.
pub const READ_TARGET_HOT_WINDOW_MS: u64 = 1_000;

/// Reads of one worker whose replies are to be compared with those of mirrors and are not yet (see `mirror::shadow`); one more is not looked at.
pub const SHADOW_OPEN_MAX: usize = 8_192;

/// Bytes of such reads, with the primary's replies, that wait for a mirror, for each of them.
pub const SHADOW_QUEUE_BYTES: usize = 4 << 20;

/// Bytes of a mirror's reply that are kept. A longer one to a read is another one than the primary's, which is at most [`CUT_THROUGH_BYTES`] long; of one
/// to a write, whose begin tells whether it is an error, the rest is dropped as it comes.
pub const MIRROR_REPLY_BYTES: usize = 8 * CUT_THROUGH_BYTES;

/// A mirror that has not answered a write for so long is not asked for reads, in milliseconds; and a reply that comes so long after the primary's says nothing.
pub const SHADOW_LATE_MS: u64 = 1_000;

/// Where replies differ both sides are asked again after this time, in milliseconds.
pub const SHADOW_AGAIN_MS: u64 = 500;

/// How often replies must differ to count as different.
pub const SHADOW_LOOKS: u8 = 3;

/// Prefixes of keys that are counted apart; reads of others are counted together.
pub const SHADOW_PREFIXES_MAX: usize = 256;

/// Bytes of a prefix.
pub const SHADOW_PREFIX_BYTES: usize = 64;

/// Differences that are kept; at it the oldest goes.
pub const SHADOW_SAMPLES_MAX: usize = 64;

/// Bytes of each of the two replies of such a difference.
pub const SHADOW_SAMPLE_BYTES: usize = 256;

/// Passwords of users of the servers that a worker has servers look at at a time, for each tenant, each over a connection of its own. The next clients
/// wait their turn.
pub const LOGINS_TRIED_MAX: usize = 4;

/// Refused passwords that are remembered, and for so long, in milliseconds: the same one is answered without a server. The oldest is forgotten for one more.
pub const LOGINS_FAILED_MAX: usize = 256;

/// See [`LOGINS_FAILED_MAX`].
pub const LOGIN_FAILED_MS: u64 = 1_000;

/// Bytes of a password that may be right: what a client may say before it has said one. A longer one is wrong, whatever its digest is.
pub const PASSWORD_BYTES_MAX: usize = resp::limits::UNAUTHENTICATED_BULK_BYTES_MAX as usize;

/// Bytes of a name and a password together that are given on to a server. With more they are wrong.
pub const LOGIN_BYTES_MAX: usize = 16 << 10;

/// A node that owes an answer for so long is not asked about logins while another node answers, in milliseconds.
pub const WORD_LATE_MS: u64 = 1_000;

/// So long a server's word on a request holds, in milliseconds. If the client is held longer, the server is asked again.
pub const WORD_MS: u64 = 10_000;

/// An index of a connection has so many bits, those of mirrors and read targets included, which have the upper half of them (see `mirror::outer`). A process has
/// not as many descriptors, so there is no more.
pub const CONN_INDEX_BITS: u32 = 21;

/// So many of them are a mirror's or a read target's own, of whom there are at most 32.
pub const MIRROR_INDEX_BITS: u32 = CONN_INDEX_BITS - 6;

/// The connections of a worker to a node over which clients with `CLIENT TRACKING … BCAST` hear and read, one for each database, are at most this part of
/// `upstream_conns_max`: one of so many. These connections stay as long as such a client is connected, so they do not count for that limit.
pub const FEEDS_PART: usize = 4;

/// Prefixes of keys that a connection asks for on behalf of all clients with `CLIENT TRACKING … BCAST`: of more it asks for the one that all have in common.
/// A server compares each new one with each that it has (`checkPrefixCollisionsOrReply` in Redis' tracking.c).
pub const FEED_PREFIXES_MAX: usize = 256;

/// The same of their bytes.
pub const FEED_PREFIX_BYTES_MAX: usize = 64 << 10;
