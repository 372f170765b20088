//! What a worker counts.
//!
//! Plain numbers of one worker, added up over the workers by whoever asks (`fleet`). Nothing here is shared between threads.
//!
//! Files: this one has what is counted over all servers, `node` what is counted of each, `errors` kinds of errors, `samples` the last errors with
//! their requests, `monitors` the latency monitors, `tally` brings replies to the histograms.
//!
//! Invariant: every counter only grows, until all begin again (`overheard`).

pub mod errors;
pub mod monitors;
pub mod node;
pub mod samples;
pub(crate) mod tally;

use crate::command::{COUNT, CommandId, Flags};
use crate::histogram::Histogram;
use alloc::vec;
use alloc::vec::Vec;
use errors::{CAUSES, Cause, ErrorKinds};
use monitors::MonitorCounts;
use samples::{ErrorSamples, Source};

/// What servers say that send a request on, in the order of [`Stats::redirect_kinds`].
pub const REDIRECT_KINDS: [&str; 9] = [
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "READONLY",
    "NOSCRIPT",
    "UNBLOCKED",
];

/// Why a client was turned away, or what was to become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There are as many as `max_clients` allows, or the proxy is about to end.
    MaxClients,
    /// There are as many as its listener allows.
    ListenerMaxClients,
    /// Clients with its address may not come.
    Address,
    /// It came to a listener where each connection begins with a header, and began with none.
    HeaderMissing,
    /// It began with a header that is wrong.
    HeaderBroken,
    /// It did not send the whole header in time.
    HeaderLate,
    /// It came from where no header is to be believed.
    HeaderSource,
    /// There are as many as its tenant allows.
    TenantMaxClients,
    /// So many came in a short time that a rule of `policies.rate` was against it.
    Rate,
    /// It did not say who it is in time.
    AuthLate,
}

impl Refused {
    /// All of them, in the order of [`REFUSALS`].
    pub const ALL: [Self; REFUSALS.len()] = [
        Self::MaxClients,
        Self::ListenerMaxClients,
        Self::Address,
        Self::HeaderMissing,
        Self::HeaderBroken,
        Self::HeaderLate,
        Self::HeaderSource,
        Self::TenantMaxClients,
        Self::Rate,
        Self::AuthLate,
    ];

    /// In one word.
    pub const fn word(self) -> &'static str {
        REFUSALS[self as usize]
    }
}

/// Why clients were turned away, in one word each; see [`Refused`] and [`Stats::refused`].
pub const REFUSALS: [&str; 10] = [
    "max_clients",
    "listener_max_clients",
    "address",
    "header_missing",
    "header_broken",
    "header_late",
    "header_source",
    "tenant_max_clients",
    "rate",
    "auth_late",
];

/// Counters of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStats {
    /// Requests that were given on or answered.
    pub calls: u64,
    /// Time from writing the request to the arrival of the reply, over all calls, in microseconds.
    pub usec: u64,
    /// Requests that the proxy refused itself.
    pub rejected: u64,
    /// Error replies.
    pub failed: u64,
}

/// Counters of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Per command, by [`CommandId::index`]; the last one counts all that the table does not know.
    pub commands: Vec<CommandStats>,
    /// Per command as above, from writing a request to its reply.
    pub latencies: Vec<Histogram>,
    /// The same in the buckets of the configured monitors.
    pub monitors: MonitorCounts,
    /// Error replies that clients got, by their first word.
    pub errors: ErrorKinds,
    /// The last of each kind to each command.
    pub samples: ErrorSamples,
    /// Those of them that the proxy gave itself, by [`Cause`].
    pub own_errors: [u64; CAUSES],
    /// `redirects` by what was said; see [`REDIRECT_KINDS`].
    pub redirect_kinds: [u64; REDIRECT_KINDS.len()],
    /// Clients that connected.
    pub clients_accepted: u64,
    /// Clients that were turned away, by [`Refused`].
    pub refused: [u64; REFUSALS.len()],
    /// Clients closed because they took their replies too slowly, or memory ran short.
    pub clients_evicted: u64,
    /// Clients closed because a server was lost (see `server_loss`).
    pub clients_lost: u64,
    /// Requests of clients.
    pub requests: u64,
    /// Those of them that were not sent, as an equal one was (see `coalesce`).
    pub coalesced: u64,
    /// Those of them that were answered with a reply that was kept (see `near`).
    pub cache_hits: u64,
    /// Those of them that might have been, and were not kept.
    pub cache_misses: u64,
    /// Those of them whose reply was kept, and whose client might have seen a later one.
    pub cache_bypassed: u64,
    /// Replies that were put there.
    pub cache_kept: u64,
    /// Those that went since a key changed, or was written by a client.
    pub cache_dropped_changed: u64,
    /// Those that went for want of room.
    pub cache_dropped_evicted: u64,
    /// Those whose time was over.
    pub cache_dropped_expired: u64,
    /// Those that went with a connection, or since slots or nodes moved.
    pub cache_dropped_lost: u64,
    /// How often a server refused to tell of changes.
    pub cache_refused: u64,
    /// Bytes from clients.
    pub client_in_bytes: u64,
    /// Bytes to clients.
    pub client_out_bytes: u64,
    /// Bytes from upstreams.
    pub upstream_in_bytes: u64,
    /// Bytes to upstreams.
    pub upstream_out_bytes: u64,
    /// Writes to upstreams; requests ÷ this is the size of a batch.
    pub upstream_writes: u64,
    /// Connects that succeeded.
    pub upstream_connects: u64,
    /// Those of them that took the place of one that was lost, or was down.
    pub upstream_reconnects: u64,
    /// Connects and greetings that failed.
    pub upstream_failures: u64,
    /// Connections that broke or were closed by the server while in use.
    pub upstream_losses: u64,
    /// Connections that a server closed because of a frame that is no protocol to it (see `defect`).
    pub upstream_protocol_errors: u64,
    /// Connections closed because a reply was overdue.
    pub upstream_timeouts: u64,
    /// AUTH of users of the servers that a server took (see `login`).
    pub logins_accepted: u64,
    /// Those that a server refused, or had refused just before.
    pub logins_refused: u64,
    /// Logins whose clients were closed, as a server took their password no more.
    pub logins_revoked: u64,
    /// Malformed requests.
    pub protocol_errors: u64,
    /// Replies that sent a request on to another server, or to the same one later.
    pub redirects: u64,
    /// Messages of topics that were given to a client, for each that got one.
    pub messages: u64,
    /// Requests that somebody wanted to be told of and was not, as there were too many in a turn (see `observed`).
    pub observed_left_out: u64,
}

/// The counters that are one number each, by reference.
macro_rules! totals {
    ($stats:expr $(, $mut:tt)?) => {
        [
            &$($mut)? $stats.clients_accepted,
            &$($mut)? $stats.clients_evicted,
            &$($mut)? $stats.clients_lost,
            &$($mut)? $stats.requests,
            &$($mut)? $stats.coalesced,
            &$($mut)? $stats.cache_hits,
            &$($mut)? $stats.cache_misses,
            &$($mut)? $stats.cache_bypassed,
            &$($mut)? $stats.cache_kept,
            &$($mut)? $stats.cache_dropped_changed,
            &$($mut)? $stats.cache_dropped_evicted,
            &$($mut)? $stats.cache_dropped_expired,
            &$($mut)? $stats.cache_dropped_lost,
            &$($mut)? $stats.cache_refused,
            &$($mut)? $stats.client_in_bytes,
            &$($mut)? $stats.client_out_bytes,
            &$($mut)? $stats.upstream_in_bytes,
            &$($mut)? $stats.upstream_out_bytes,
            &$($mut)? $stats.upstream_writes,
            &$($mut)? $stats.upstream_connects,
            &$($mut)? $stats.upstream_reconnects,
            &$($mut)? $stats.upstream_failures,
            &$($mut)? $stats.upstream_losses,
            &$($mut)? $stats.upstream_protocol_errors,
            &$($mut)? $stats.upstream_timeouts,
            &$($mut)? $stats.logins_accepted,
            &$($mut)? $stats.logins_refused,
            &$($mut)? $stats.logins_revoked,
            &$($mut)? $stats.protocol_errors,
            &$($mut)? $stats.redirects,
            &$($mut)? $stats.messages,
            &$($mut)? $stats.observed_left_out,
        ]
    };
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            commands: vec![CommandStats::default(); COUNT + 1],
            latencies: vec![Histogram::default(); COUNT + 1],
            monitors: MonitorCounts::default(),
            errors: ErrorKinds::default(),
            samples: ErrorSamples::default(),
            own_errors: [0; CAUSES],
            redirect_kinds: [0; REDIRECT_KINDS.len()],
            clients_accepted: 0,
            refused: [0; REFUSALS.len()],
            clients_evicted: 0,
            clients_lost: 0,
            requests: 0,
            coalesced: 0,
            cache_hits: 0,
            cache_misses: 0,
            cache_bypassed: 0,
            cache_kept: 0,
            cache_dropped_changed: 0,
            cache_dropped_evicted: 0,
            cache_dropped_expired: 0,
            cache_dropped_lost: 0,
            cache_refused: 0,
            client_in_bytes: 0,
            client_out_bytes: 0,
            upstream_in_bytes: 0,
            upstream_out_bytes: 0,
            upstream_writes: 0,
            upstream_connects: 0,
            upstream_reconnects: 0,
            upstream_failures: 0,
            upstream_losses: 0,
            upstream_protocol_errors: 0,
            upstream_timeouts: 0,
            logins_accepted: 0,
            logins_refused: 0,
            logins_revoked: 0,
            protocol_errors: 0,
            redirects: 0,
            messages: 0,
            observed_left_out: 0,
        }
    }
}

impl Stats {
    /// The counters of one command; `None` is any that the table does not know.
    #[inline]
    pub fn command(&mut self, id: Option<CommandId>) -> &mut CommandStats {
        &mut self.commands[id.map_or(COUNT, CommandId::index)]
    }

    /// The times of one command, as above.
    #[inline]
    pub fn latency(&mut self, id: Option<CommandId>) -> &mut Histogram {
        &mut self.latencies[id.map_or(COUNT, CommandId::index)]
    }

    /// Time from writing a request to the arrival of its reply, over all calls of commands that do not wait on purpose, in microseconds. What it
    /// grows by in a second is how many of them are under way at one time (Little's law). It is added up anew, not for each request.
    pub fn waited_us(&self) -> u64 {
        let waits = |id: CommandId| id.row().flags.has(Flags::BLOCKING);
        let counted = CommandId::all().filter(|id| !waits(*id)).map(CommandId::index);
        counted.chain([COUNT]).map(|index| self.commands[index].usec).sum()
    }

    /// A client got this error so often.
    #[cold]
    pub(crate) fn note_error(&mut self, source: Source, reply: &[u8], count: u64) {
        self.errors.note(reply, count);
        self.samples.note(source, reply, count);
    }

    /// A client got this error so often from the proxy itself.
    #[cold]
    pub(crate) fn note_own_error(&mut self, source: Source, reply: &[u8], count: u64) {
        self.own_errors[Cause::of(reply) as usize] += count;
        self.note_error(source, reply, count);
    }

    /// Clients that were turned away at a maximum, as Redis counts them.
    pub fn clients_rejected(&self) -> u64 {
        [Refused::MaxClients, Refused::ListenerMaxClients, Refused::TenantMaxClients]
            .map(|why| self.refused[why as usize])
            .iter()
            .sum()
    }

    /// A server sent a request on with this reply.
    #[cold]
    pub fn note_redirect(&mut self, reply: &[u8]) {
        self.redirects += 1;
        let said =
            |word: &str| reply.get(1..).is_some_and(|text| text.starts_with(word.as_bytes()));
        if let Some(kind) = REDIRECT_KINDS.iter().position(|word| said(word)) {
            self.redirect_kinds[kind] += 1;
        }
    }

    /// Adds another worker's counters.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.commands.iter_mut().zip(&other.commands) {
            own.calls += other.calls;
            own.usec += other.usec;
            own.rejected += other.rejected;
            own.failed += other.failed;
        }
        for (own, other) in self.latencies.iter_mut().zip(&other.latencies) {
            own.merge(other);
        }
        self.monitors.add(&other.monitors);
        self.errors.add(&other.errors);
        self.samples.add(&other.samples);
        let kinds = self.own_errors.iter_mut().chain(&mut self.redirect_kinds);
        let others = other.own_errors.iter().chain(&other.redirect_kinds).chain(&other.refused);
        for (own, other) in kinds.chain(&mut self.refused).zip(others) {
            *own += other;
        }
        for (own, other) in self.totals_mut().into_iter().zip(other.totals()) {
            *own += *other;
        }
    }

    fn totals(&self) -> [&u64; 32] {
        totals!(self)
    }

    fn totals_mut(&mut self) -> [&mut u64; 32] {
        totals!(self, mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blocks_has_not_waited_for_a_server() {
        let mut stats = Stats::default();
        let command = |name: &str| crate::command::lookup(name.as_bytes());
        stats.command(command("GET")).usec = 3;
        stats.command(command("BLPOP")).usec = 50;
        stats.command(command("XREAD")).usec = 700;
        stats.command(None).usec = 1_000;
        assert_eq!(stats.waited_us(), 1_003);
    }

    #[test]
    fn adding_adds_every_counter() {
        let mut one = Stats::default();
        for total in one.totals_mut() {
            *total = 3;
        }
        one.command(None).failed = 5;
        one.latency(None).record(crate::histogram::Sample::new(10), 6);
        one.monitors.record(0, &[10], 10, 7);
        let source = Source::own(crate::Time(1), None, None);
        one.note_own_error(source, b"-NOAUTH x\r\n", 8);
        one.note_redirect(b"-ASK 1 h:1\r\n");
        one.refused = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let mut sum = one.clone();
        sum.add(&one);
        assert!(sum.totals_mut().into_iter().all(|total| *total == 6 || *total == 8));
        assert_eq!((sum.redirects, sum.redirect_kinds[1]), (8, 2));
        assert_eq!((sum.latency(None).count(), sum.monitors.buckets(0)[0].count), (12, 14));
        assert_eq!(sum.own_errors[Cause::Auth as usize], 16);
        assert_eq!(sum.errors.iter().collect::<Vec<_>>(), [("NOAUTH", 16)]);
        assert_eq!(sum.command(None).failed, 10);
        assert_eq!(
            (sum.refused, sum.clients_rejected()),
            ([2, 4, 6, 8, 10, 12, 14, 16, 18, 20], 22)
        );
        assert!(Refused::ALL.iter().enumerate().all(|(at, why)| *why as usize == at));
    }
}
