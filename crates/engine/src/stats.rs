//! What a worker counts.
//!
//! Plain numbers of one worker, added up over the workers by whoever asks (`fleet`). Nothing here is shared between threads.
//!
//! Invariant: every counter only grows, until all begin again (`overheard`).

use crate::command::{COUNT, CommandId};
use alloc::vec;
use alloc::vec::Vec;

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
    /// Clients that connected.
    pub clients_accepted: u64,
    /// Clients that were turned away at the maximum.
    pub clients_rejected: u64,
    /// Clients closed because they took their replies too slowly, or memory ran short.
    pub clients_evicted: u64,
    /// Requests of clients.
    pub requests: u64,
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
    /// Connects and greetings that failed.
    pub upstream_failures: u64,
    /// Connections that broke or were closed by the server while in use.
    pub upstream_losses: u64,
    /// Connections closed because a reply was overdue.
    pub upstream_timeouts: u64,
    /// Malformed requests.
    pub protocol_errors: u64,
    /// Replies that sent a request on to another server, or to the same one later.
    pub redirects: u64,
    /// Messages of topics that were given to a client, for each that got one.
    pub messages: u64,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            commands: vec![CommandStats::default(); COUNT + 1],
            clients_accepted: 0,
            clients_rejected: 0,
            clients_evicted: 0,
            requests: 0,
            client_in_bytes: 0,
            client_out_bytes: 0,
            upstream_in_bytes: 0,
            upstream_out_bytes: 0,
            upstream_writes: 0,
            upstream_connects: 0,
            upstream_failures: 0,
            upstream_losses: 0,
            upstream_timeouts: 0,
            protocol_errors: 0,
            redirects: 0,
            messages: 0,
        }
    }
}

impl Stats {
    /// The counters of one command; `None` is any that the table does not know.
    #[inline]
    pub fn command(&mut self, id: Option<CommandId>) -> &mut CommandStats {
        &mut self.commands[id.map_or(COUNT, CommandId::index)]
    }

    /// Adds another worker's counters.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.commands.iter_mut().zip(&other.commands) {
            own.calls += other.calls;
            own.usec += other.usec;
            own.rejected += other.rejected;
            own.failed += other.failed;
        }
        for (own, other) in self.totals_mut().into_iter().zip(other.clone().totals_mut()) {
            *own += *other;
        }
    }

    fn totals_mut(&mut self) -> [&mut u64; 16] {
        [
            &mut self.clients_accepted,
            &mut self.clients_rejected,
            &mut self.clients_evicted,
            &mut self.requests,
            &mut self.client_in_bytes,
            &mut self.client_out_bytes,
            &mut self.upstream_in_bytes,
            &mut self.upstream_out_bytes,
            &mut self.upstream_writes,
            &mut self.upstream_connects,
            &mut self.upstream_failures,
            &mut self.upstream_losses,
            &mut self.upstream_timeouts,
            &mut self.protocol_errors,
            &mut self.redirects,
            &mut self.messages,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_adds_every_counter() {
        let mut one = Stats::default();
        for total in one.totals_mut() {
            *total = 3;
        }
        one.command(None).failed = 5;
        let mut sum = one.clone();
        sum.add(&one);
        assert!(sum.totals_mut().into_iter().all(|total| *total == 6));
        assert_eq!(sum.command(None).failed, 10);
    }
}
