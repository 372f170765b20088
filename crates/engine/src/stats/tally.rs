//! Replies that came in one read, counted together.
//!
//! What a worker reads at once was mostly sent at once: then all replies of one command took equally long. So they are added up while the
//! command and the time of sending stay the same, and go to the histograms as one record.
//!
//! Not here: the slow log, which looks at each run (`reply`).
//!
//! Invariant: it is empty between two calls of the engine, so that whoever asks for the counters sees every reply.

use crate::command::CommandId;
use crate::engine::Engine;
use crate::histogram::Sample;
use crate::ids::{NodeId, UpstreamId};
use crate::time::Time;
use crate::upstream::inflight::Run;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    node: Option<NodeId>,
    command: Option<CommandId>,
    sent_at: Time,
    waited_us: u64,
    count: u64,
}

impl Engine {
    /// So many replies of this run came, this long after it was sent.
    #[inline]
    pub(crate) fn tally(&mut self, id: UpstreamId, run: &Run, waited_us: u64, count: u32) {
        let tally = &mut self.tally;
        if tally.count > 0 && tally.command == run.command && tally.sent_at == run.sent_at {
            tally.count += u64::from(count);
            return;
        }
        if tally.count > 0 {
            self.end_tally();
        }
        self.tally = Tally {
            node: self.upstreams.get(id).map(|upstream| upstream.key.node),
            command: run.command,
            sent_at: run.sent_at,
            waited_us,
            count: u64::from(count),
        };
    }

    /// What was added up is counted.
    pub(crate) fn end_tally(&mut self) {
        let Self { nodes, stats, monitors, tally, .. } = self;
        let Tally { node, command, waited_us, count, .. } = *tally;
        if count == 0 {
            return;
        }
        tally.count = 0;
        let sample = Sample::new(waited_us);
        stats.command(command).usec += waited_us * count;
        stats.latency(command).record(sample, count);
        let mut node = node.and_then(|node| nodes.get_mut(node));
        if let Some(node) = &mut node {
            node.stats.latency.record(sample, count);
        }
        if !monitors.is_on() {
            return;
        }
        for (at, bounds_us) in monitors.of(command) {
            stats.monitors.record(at, bounds_us, waited_us, count);
            if let Some(node) = &mut node {
                node.stats.monitors.record(at, bounds_us, waited_us, count);
            }
        }
    }
}
