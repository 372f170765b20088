//! A request on the long way is judged by all policies in their order.
//!
//! Not here: what each policy says (beside), and who may do what (`permit`, which comes before).
//!
//! Invariant: a request that is refused has cost nothing of a rate, and one that waits has its turn reserved.

use super::state::Outcome;
use super::{Kind, Look, Per, Policies, Rate, Refusal, Rule, fault, rate, shared_ns};
use crate::client::{Client, Hold};
use crate::command::ids::{self, EXEC};
use crate::command::{CommandId, Learned};
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::pubsub;
use crate::reject;
use crate::request::Step;
use crate::route::{self, Known};
use crate::scatter::{keys_of, row_of};
use crate::shares::Group;
use crate::time::Time;
use crate::transfer::tells_all;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// What a request must do that does not go on.
enum Ruled {
    /// Wait; the time is known.
    Wait,
    /// End with this error.
    Refused(Refusal),
}

impl<'a> Look<'a> {
    pub(super) fn new(
        command: Option<CommandId>,
        args: &'a [&'a [u8]],
        bytes: u64,
        learned: Option<&Learned>,
    ) -> Self {
        let row = command.map(|id| row_of(id, args));
        let mut keys: Vec<&[u8]> = keys_of(args, learned).into_iter().map(|(_, key)| key).collect();
        let channels = match row {
            Some(ids::PUBLISH) => args.get(1..2),
            Some(row) if pubsub::verb(row).is_some() && row.row().keys.is_empty() => args.get(1..),
            _ => None,
        };
        keys.extend(channels.unwrap_or_default());
        Self { row, args, keys, bytes, args_count: args.len() as u64 }
    }
}

impl Engine {
    /// What becomes of a request that a policy is about; `None`: it goes on. `bytes`: of the whole request.
    pub(crate) fn unless_ruled_out(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        bytes: usize,
        args: &[&[u8]],
    ) -> Option<Step> {
        let policies = self.settings.policies.clone()?;
        let look = Look::new(known.id, args, bytes as u64, self.learned.as_ref());
        match self.judge(now, id, &policies, &look).err()? {
            Ruled::Wait => Some(Step::Hold(Hold::Delayed)),
            Ruled::Refused(refusal) => Some(self.refuse_ruled(now, id, known.id, refusal)),
        }
    }

    /// The same for a large request, of which only the first arguments are here; its only key must be among them. `Err`: the error that it gets.
    pub(crate) fn unless_large_ruled_out(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        bytes: u64,
        head: &[&[u8]],
    ) -> Option<Result<Step, Vec<u8>>> {
        let policies = self.settings.policies.clone()?;
        if let Some(error) = self.unless_large_unseen(id, known, head) {
            return Some(Err(error));
        }
        let row = known.id?;
        let keys = row.row().only_key_at().and_then(|at| head.get(at)).copied();
        let (keys, args_count) = (keys.into_iter().collect(), head.len() as u64);
        let look = Look { row: known.id, args: head, keys, bytes, args_count };
        match self.judge(now, id, &policies, &look).err()? {
            Ruled::Wait => Some(Ok(Step::Hold(Hold::Delayed))),
            Ruled::Refused(refusal) => {
                self.note_ruled(known.id, &refusal);
                Some(Err(refusal.reply))
            }
        }
    }

    /// Why a large request is refused for its size alone, which is known before the rest of it is.
    pub(crate) fn unless_oversized(
        &mut self,
        known: &Known,
        bytes: u64,
        head: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let policies = self.settings.policies.as_ref()?;
        let row = known.id.filter(|row| !row.row().is_container());
        let key = row.and_then(|row| head.get(row.row().only_key_at()?)).copied();
        let keys = key.into_iter().collect();
        let args_count = head.len() as u64;
        let refusal = policies.oversized(&Look { row, args: head, keys, bytes, args_count })?;
        self.note_ruled(known.id, &refusal);
        Some(refusal.reply)
    }

    /// Whether more than the first arguments of a large request must be known, so that it is kept until it is whole. A rule that looks at keys is to see
    /// all of them: a request is streamed past it only if its one key is among these arguments (see [`tells_all`]).
    pub(crate) fn must_be_whole(&self, known: &Known, head: &[&[u8]]) -> bool {
        let name = head[0];
        let counts_args = |policies: &Policies| {
            policies
                .rules
                .size
                .iter()
                .any(|rule| rule.detail.args_max != u64::MAX && rule.what.names(known.id, name))
        };
        let looks_at_keys = |policies: &Policies| {
            !tells_all(known.id, head) && policies.look_at_keys(known.id, name)
        };
        let policies = self.settings.policies.as_ref();
        policies.is_some_and(|policies| counts_args(policies) || looks_at_keys(policies))
            || self.is_renamed(name)
            || self.is_changed_whole(known.id, head)
    }

    /// Whether a request will be refused: those that watch are not shown it.
    pub(crate) fn is_ruled_out(&self, id: ClientId, args: &[&[u8]]) -> bool {
        let Some(policies) = &self.settings.policies else { return false };
        let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
        let bytes = args.iter().map(|arg| arg.len() as u64).sum();
        let look = Look::new(known.id, args, bytes, self.learned.as_ref());
        self.refused_for_good(id, policies, &look).is_some()
    }

    fn judge(
        &mut self,
        now: Time,
        id: ClientId,
        policies: &Policies,
        look: &Look<'_>,
    ) -> Result<(), Ruled> {
        let refused = self.refused_for_good(id, policies, look);
        let Some(state) = &mut self.policy else { return Ok(()) };
        state.deletes.unmark();
        if let Some(refusal) = refused {
            state.end_judged(id);
            return Err(Ruled::Refused(refusal));
        }
        match state.judged.get_mut(&id) {
            Some(judged) if judged.at > now => return Err(Ruled::Wait),
            Some(judged) => {
                if let Some(refusal) = judged.refusal.take() {
                    return Err(Ruled::Refused(refusal));
                }
            }
            None => self.judge_anew(now, id, policies, look)?,
        }
        self.mark_deletes(id, policies, look);
        Ok(())
    }

    /// What is decided once for a request.
    fn judge_anew(
        &mut self,
        now: Time,
        id: ClientId,
        policies: &Policies,
        look: &Look<'_>,
    ) -> Result<(), Ruled> {
        let mut at = self.rated(now, id, policies, look).map_err(Ruled::Refused)?;
        let drawn = policies.fault(look, || self.next_random());
        let is_delayed = drawn.as_ref().is_some_and(|drawn| drawn.delay_ms > 0);
        let room = is_delayed && self.delay_room(id);
        let Some(state) = &mut self.policy else { return Ok(()) };
        state.current = Some(id);
        let mut refusal = None;
        if let Some(fault::Drawn { name, delay_ms, refusal: error }) = drawn {
            if delay_ms > 0 && room {
                at = at.plus_ms(delay_ms);
                state.count(Kind::Fault, &name, Outcome::Delayed);
            } else if delay_ms > 0 {
                state.count(Kind::Fault, &name, Outcome::Dropped);
            }
            refusal = error;
        }
        if at > now {
            self.delay(id, at, refusal);
            return Err(Ruled::Wait);
        }
        refusal.map_or(Ok(()), |refusal| Err(Ruled::Refused(refusal)))
    }

    /// When the rates let a request go, whose turn that is then.
    fn rated(
        &mut self,
        now: Time,
        id: ClientId,
        policies: &Policies,
        look: &Look<'_>,
    ) -> Result<Time, Refusal> {
        let Some(client) = self.clients.get(id) else { return Ok(now) };
        let now_ns = shared_ns(&self.settings, now);
        let mut passed = Vec::new();
        let mut slowest = None;
        for (rule, buckets) in policies.rules.rate.iter().zip(&policies.buckets) {
            if !look.is_meant(&rule.what) {
                continue;
            }
            let cost = rule.detail.cost(look.bytes);
            for hash in self.buckets_of(client, rule.detail.per, look) {
                let wait_ns = buckets.wait(&rule.detail, hash, now_ns, cost);
                passed.push((buckets, hash, cost));
                let too_long = wait_ns > rule.detail.delay_ms.saturating_mul(1_000_000);
                if wait_ns > 0 && (too_long || !self.delay_room(id)) {
                    return Err(rule.refusal(Kind::Rate, || reject::TOO_MANY_REQUESTS.into()));
                }
                slowest = slowest.max((wait_ns > 0).then_some((wait_ns, &rule.name)));
            }
        }
        passed.iter().for_each(|(buckets, hash, cost)| buckets.charge(*hash, now_ns, *cost));
        let Some((wait_ns, name)) = slowest else { return Ok(now) };
        if let Some(state) = &mut self.policy {
            state.count(Kind::Rate, name, Outcome::Delayed);
        }
        Ok(now + wait_ns.div_ceil(1_000))
    }

    /// The tags of the buckets that a request counts in, each once.
    fn buckets_of(&self, client: &Client, per: Per, look: &Look<'_>) -> Vec<u64> {
        let user = || self.user_of(client).map_or(&b""[..], |user| user.name());
        let mut tags = match per {
            Per::All => alloc::vec![1],
            Per::User => alloc::vec![rate::hash_of(user())],
            Per::Client => alloc::vec![rate::hash_of(&client.number.to_le_bytes())],
            Per::Address => alloc::vec![rate::hash_of_address(&client.identity.addr)],
            Per::Prefix => look.keys.iter().map(|key| rate::hash_of(rate::prefix(key))).collect(),
        };
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// Whether one more request of this client's group may wait at this worker.
    fn delay_room(&self, id: ClientId) -> bool {
        let workers = self.settings.workers.max(1) as usize;
        let max = self.settings.policies.as_ref().map_or(0, |policies| policies.rules.waiting_max);
        let client = self.clients.get(id);
        let group = client.map(|client| Group::of(client, &self.settings.users));
        let group = group.unwrap_or_default();
        let max = max.div_ceil(workers);
        self.policy.as_ref().is_some_and(|state| state.delayed.has_room(group, max))
    }

    /// What refuses a request however often it comes.
    pub(super) fn refused_for_good(
        &self,
        id: ClientId,
        policies: &Policies,
        look: &Look<'_>,
    ) -> Option<Refusal> {
        let writes = || {
            let script_writes = self.writes(look.row, look.args);
            // What was queued before writes were refused is refused with EXEC, as at a server that became a replica.
            let executes = look.row == Some(EXEC) && self.is_queueing(id) && self.queues_writes(id);
            executes || look.writes(self.learned.as_ref(), script_writes)
        };
        policies
            .denied(look)
            .or_else(|| policies.blocked(look))
            .or_else(|| policies.read_only().filter(|_| writes()))
            .or_else(|| policies.oversized(look))
            .or_else(|| policies.rules.namespace.as_ref()?.outside(look, self.learned.as_ref()))
            .or_else(|| policies.rules.values.as_ref()?.outside(look))
    }

    /// A request is refused: its client gets the error, and its transaction, if it is in one, cannot be done any more.
    pub(super) fn refuse_ruled(
        &mut self,
        now: Time,
        id: ClientId,
        command: Option<CommandId>,
        refusal: Refusal,
    ) -> Step {
        let silent = self.is_silent(id);
        let is_inside = self.is_queueing(id);
        self.note_ruled(command, &refusal);
        self.mark_refused(id);
        let mut error = refusal.reply;
        if command == Some(EXEC) {
            if is_inside {
                self.abandon(now, id);
            }
            error = reject::exec_aborted(&error);
        }
        self.reply(id, silent, |out| out.extend_from_slice(&error));
        self.end_skip(id, silent);
        Step::Done
    }

    pub(super) fn note_ruled(&mut self, command: Option<CommandId>, refusal: &Refusal) {
        self.stats.command(command).rejected += 1;
        if let Some(state) = &mut self.policy {
            state.count(refusal.kind, &refusal.name, Outcome::Refused);
            state.deletes.unmark();
        }
    }

    /// What is to be deleted once more if this request goes on.
    fn mark_deletes(&mut self, id: ClientId, policies: &Policies, look: &Look<'_>) {
        let Some(client) = self.clients.get(id) else { return };
        // In a transaction it is in the database of the last SELECT before it.
        let db = client.lease.as_ref().and_then(|lease| lease.db_after).unwrap_or(client.db);
        let Some(state) = &mut self.policy else { return };
        for rule in &policies.rules.double_delete {
            if !rule.what.names(look.row, look.args[0]) {
                continue;
            }
            let namespace = policies.rules.namespace.as_ref();
            let keys = look.keys.iter().filter(|key| rule.what.has_any(core::iter::once(**key)));
            let named = keys.map(|key| match namespace {
                Some(namespace) => namespace.prefixed(key),
                None => Cow::Borrowed(*key),
            });
            state.deletes.mark(rule, db, named);
        }
    }
}

impl Policies {
    /// Whether a rule may look at keys or channels of this command, or at more of it than that. Of containers and of what the table does not know any
    /// may.
    fn look_at_keys(&self, command: Option<CommandId>, name: &[u8]) -> bool {
        fn any<T>(rules: &[Rule<T>], command: Option<CommandId>, name: &[u8]) -> bool {
            rules.iter().any(|rule| rule.what.has_keys() && rule.what.names(command, name))
        }
        let Some(row) = command.filter(|row| !row.row().is_container()) else {
            return self.about_requests;
        };
        // Renamed, refused by what a script says, answered by a program, with other names, or with other values.
        let by_kind = [Kind::Rename, Kind::ReadOnly, Kind::Own, Kind::Namespace, Kind::Values];
        let rules = &self.rules;
        let is_by_prefix =
            |rule: &Rule<Rate>| rule.detail.per == Per::Prefix && rule.what.names(command, name);
        by_kind.iter().any(|kind| self.concerns(*kind, Some(row)))
            || self.concerns(Kind::DoubleDelete, Some(row))
            || any(&rules.deny, command, name)
            || any(&rules.block, command, name)
            || any(&rules.size, command, name)
            || any(&rules.rate, command, name)
            || any(&rules.fault, command, name)
            || rules.rate.iter().any(is_by_prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    fn keys<'a>(args: &'a [&'a [u8]]) -> Vec<&'a [u8]> {
        Look::new(command::lookup(args[0]), args, 0, None).keys
    }

    #[test]
    fn keys_of_scripts_and_names_of_channels_are_looked_at() {
        assert_eq!(keys(&[b"EVAL", b"return 1", b"2", b"a", b"b", b"c"]), [b"a", b"b"]);
        assert_eq!(keys(&[b"BLPOP", b"a", b"b", b"0"]), [b"a", b"b"]);
        assert_eq!(keys(&[b"SUBSCRIBE", b"a", b"b"]), [b"a", b"b"]);
        assert_eq!(keys(&[b"SSUBSCRIBE", b"a"]), [b"a"]);
        assert_eq!(keys(&[b"PUBLISH", b"a", b"b"]), [b"a"]);
        assert!(keys(&[b"PING", b"a"]).is_empty());
    }
}
