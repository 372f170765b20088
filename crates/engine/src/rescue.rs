//! What goes on when a connection of several breaks.
//!
//! A request that was written may have been done, so it is never sent again, with two exceptions: what never left the connection, and what only
//! reads, unless a write of the same client to the same key stands behind it that may have been done.
//!
//! Not here: how it is sent on (`redirect`).
//!
//! Invariant: no write is sent twice.

use crate::engine::Engine;
use crate::ids::UpstreamId;
use crate::parked::Parked;
use crate::redirect::{find_request, keys_of_run, nth, reads};
use crate::time::Time;
use crate::upstream::Carried;
use crate::upstream::inflight::{Bond, OwnCommand, Owner, Run};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Engine {
    /// A connection of several broke. Takes those of its requests out that may be sent again: what never left it, and what only reads.
    /// Returns the runs that are left, to be answered with an error.
    pub(crate) fn rescue(&mut self, now: Time, id: UpstreamId, runs: Vec<Run>) -> Vec<Run> {
        if self.is_one() {
            return runs;
        }
        if let Some(node) = self.upstreams.get(id).map(|upstream| upstream.key.node) {
            self.want_topology_without(node);
        }
        // Of the first reply; all that share it have that half.
        let mut half_given = self.upstreams.get(id).is_some_and(|up| up.forwarded > 0);
        let mut is_first = true;
        let in_doubt = self.before_lost_writes(id, &runs);
        let mut lost = Vec::new();
        let mut in_doubt = in_doubt.into_iter();
        for run in runs {
            for index in 0..run.count {
                let one = nth(&run, index);
                let in_doubt = in_doubt.next().unwrap_or_default();
                half_given &= core::mem::take(&mut is_first) || run.shares;
                if half_given || in_doubt {
                    lost.push(one);
                    continue;
                }
                match self.rescue_one(now, id, &run, index, one) {
                    Ok(parked) => self.park(now, parked),
                    Err(one) => lost.push(one),
                }
            }
        }
        self.lost_behind(id, &lost);
        lost
    }

    /// Of each request, whether a write of the same client to the same key stands behind it that may have been done: asked again, a read would
    /// see what its client wrote after it.
    fn before_lost_writes(&self, id: UpstreamId, runs: &[Run]) -> Vec<bool> {
        let Some(upstream) = self.upstreams.get(id) else { return Vec::new() };
        let untouched = upstream.out.untouched_from();
        let lost_write = |run: &&Run| !reads(run.command) && run.at < untouched;
        let writers: BTreeSet<_> =
            runs.iter().filter(lost_write).filter_map(|run| self.client_of(run.owner)).collect();
        // In order, as requests are found in order.
        let mut requests = Vec::new();
        for run in runs {
            let client = self.client_of(run.owner).filter(|client| writers.contains(client));
            for index in 0..run.count {
                let learned = self.learned.as_ref();
                let keys = client.map(|_| keys_of_run(upstream, run, run.done + index, learned));
                requests.push((client, lost_write(&run), keys.unwrap_or_default()));
            }
        }
        let mut written = BTreeSet::new();
        let mut doubts: Vec<bool> = requests
            .into_iter()
            .rev()
            .map(|(client, lost_write, keys)| {
                let Some(client) = client else { return false };
                if lost_write {
                    written.extend(keys.into_iter().map(|key| (client, key)));
                    return false;
                }
                written.contains(&(client, None))
                    || keys.into_iter().any(|key| written.contains(&(client, key)))
            })
            .collect();
        doubts.reverse();
        doubts
    }

    fn rescue_one(
        &self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        index: u32,
        one: Run,
    ) -> Result<Parked, Run> {
        let Some(upstream) = self.upstreams.get(id) else { return Err(one) };
        if matches!(run.owner, Owner::Own(_)) || run.bond != Bond::None {
            return Err(one);
        }
        let Some((at, bytes)) = find_request(upstream, run, run.done + index) else {
            return Err(one);
        };
        // One that was sent on before has its time already; without it, a read that kills its server would be sent for ever.
        let until = match run.tries {
            0 => now.plus_ms(self.settings.timeouts.failover_hold_ms),
            _ => run.until,
        };
        let may_go_on = reads(run.command) || at >= upstream.out.untouched_from();
        if !may_go_on || until < now {
            return Err(one);
        }
        let Some(place) = self.place_of(&bytes) else { return Err(one) };
        let times = (now, until);
        Ok(Parked::to_place(upstream.key, &one, bytes, place, times, "its connection was lost"))
    }

    /// A connection to the only server broke and is made anew: what never left it, as a server closes an idle connection at the moment of a
    /// request, goes out over the next one. Returns the runs that are left, to be answered with an error.
    pub(crate) fn carry(&mut self, id: UpstreamId, mut runs: Vec<Run>) -> Vec<Run> {
        let Some(upstream) = self.upstreams.get_mut(id) else { return runs };
        let untouched = upstream.out.untouched_from();
        let goes_on = |run: &Run| run.at >= untouched && run.done == 0 && !run.shares;
        let first = runs.iter().position(goes_on);
        let Some(first) = first else { return runs };
        let rest = runs.split_off(first);
        let from = rest[0].at;
        let all = upstream.out.untouched_bytes(from);
        // A run that shares a reply has no request of its own.
        let starts = rest.iter().filter(|run| !run.shares).map(|run| run.at - from);
        let ends: Vec<u64> = starts.skip(1).chain([all.len() as u64]).collect();
        let mut ends = ends.into_iter();
        let (mut carried, mut at) = (Carried { bytes: Vec::new(), runs: Vec::new() }, 0);
        for run in rest {
            if !run.shares {
                at = carried.bytes.len() as u64;
                let request = (run.at - from) as usize..ends.next().unwrap_or_default() as usize;
                let request = all.get(request);
                debug_assert!(request.is_some(), "a request that lies in the output");
                let Some(request) = request.filter(|_| !ends_with_its_connection(run.owner)) else {
                    runs.push(run);
                    continue;
                };
                carried.bytes.extend_from_slice(request);
            }
            carried.runs.push(Run { at, ..run });
        }
        upstream.carried = Some(carried).filter(|carried| !carried.runs.is_empty());
        runs
    }

    /// What was carried over goes out first.
    pub(crate) fn send_carried(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let Some(carried) = upstream.carried.take() else { return };
        let base = upstream.append(&mut self.pool, &carried.bytes);
        for run in carried.runs {
            let run = Run { at: base + run.at, ..run };
            match run.shares {
                false => upstream.inflight.push(run),
                true => upstream.inflight.share(upstream.inflight.end() - 1, run),
            }
        }
        self.touch_upstream(id);
    }

    /// The next connection that something was to be carried over to does not come.
    pub(crate) fn give_up_carried(&mut self, now: Time, id: UpstreamId, cause: &str) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let key = upstream.key;
        if let Some(carried) = upstream.carried.take() {
            self.answer_lost(now, id, key, &carried.runs, false, cause);
        }
    }
}

/// Whether a request of respool configures the connection that it was sent over. respool configures the next connection behind its greeting, and a `REDIRECT`
/// number names a connection at the former server process.
fn ends_with_its_connection(owner: Owner) -> bool {
    matches!(owner, Owner::Own(OwnCommand::Track | OwnCommand::Near(_)))
}
