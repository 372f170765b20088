//! Requests that a rule is about are shown to its program, before they are anything else than a request.
//!
//! ```text
//!   dispatch ─▶ rename ─▶ dispatch_judged ┬ refused anyway, held back, not one to be asked about ─┐
//!                                         ├ Pass ─────────────────────────────────────────────────┴─▶ dispatch_observed
//!                                         ├ Rewrite ─▶ dispatch_observed, which knows only the rewritten one
//!                                         ├ Read, Upstream ─▶ dispatch_observed, and `elsewhere` asks who was said
//!                                         └ Answer, Refuse ─▶ the client, at the request's place
//! ```
//! Whether users' rules, earlier policies, CLIENT PAUSE or a subscription have something against the request is asked before, so that programs
//! cannot be had by whoever may not send it; if so, the ordinary way says it in its words. What is rewritten goes that whole way.
//!
//! Not here: the policies behind (`super::judge`), large requests on their way (`transfer`).
//!
//! Invariant: a program is asked once about a request, however often that is looked at because it must wait, as long as there is room to remember.

use super::state::{Kept, Said};
use super::{Failure, Own, Verdict, View, frames, may_be_asked_about};
use crate::elsewhere::Asks;
use crate::engine::{Engine, Notice};
use crate::ids::ClientId;
use crate::limits::OWN_LINE_BYTES_MAX;
use crate::local::arity_fits;
use crate::policy::{Common, Kind, Look, Policies, Rule, State};
use crate::reject;
use crate::request::Step;
use crate::route::{self, Known, Way};
use crate::scatter::Wish;
use crate::time::Time;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::encode;

/// What the rules together say.
enum Ruling {
    Pass,
    Answer(Vec<u8>),
    Rewrite(Vec<u8>),
    Route(Asks),
    Refuse(crate::policy::Refusal),
}

impl Engine {
    /// A request under its real name: what the operator's programs make of it goes on.
    pub(in crate::policy) fn dispatch_judged(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
    ) -> Step {
        let policies = match &self.settings.policies {
            Some(policies) if policies.has_own() => Arc::clone(policies),
            _ => return self.dispatch_observed(now, id, frame, args),
        };
        let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
        let Some(ruling) = self.ruling(now, id, &policies, &known, args) else {
            return self.dispatch_observed(now, id, frame, args);
        };
        match ruling {
            Ruling::Pass => self.dispatch_observed(now, id, frame, args),
            Ruling::Refuse(refusal) => self
                .observing(now, id, args, |engine| engine.refuse_ruled(now, id, known.id, refusal)),
            Ruling::Answer(answer) => self.observing(now, id, args, |engine| {
                engine.answer_ruled(now, id, &known, (frame, args), &answer)
            }),
            Ruling::Rewrite(frame) => {
                let Some(args) = frames::request(&frame) else { return Step::Done };
                let step = self.dispatch_observed(now, id, &frame, &args);
                // What it was rewritten to may show more than what it was.
                self.grow_wary(id, &[]);
                step
            }
            Ruling::Route(asks) => {
                self.set_asks(Some(asks));
                let step = self.dispatch_observed(now, id, frame, args);
                self.set_asks(None);
                step
            }
        }
    }

    /// What the programs say; `None`: none is to be asked.
    fn ruling(
        &mut self,
        now: Time,
        id: ClientId,
        policies: &Policies,
        known: &Known,
        args: &[&[u8]],
    ) -> Option<Ruling> {
        if !policies.concerns(Kind::Own, known.id) || !may_be_asked(known) {
            return None;
        }
        let bytes: usize = args.iter().map(|arg| arg.len()).sum();
        let look = Look::new(known.id, args, bytes as u64, self.learned.as_ref());
        let meant = |(_, rule): &(usize, &Rule<Own>)| look.is_meant(&rule.what);
        let rules = policies.rules.own.iter().enumerate().filter(meant);
        let rules: Vec<(usize, &Rule<Own>)> = rules.collect();
        if rules.is_empty() || !self.goes_on_so_far(id, policies, known, &look) {
            return None;
        }
        let kept = self.policy.as_ref().and_then(|state| state.own.kept(id));
        let ruling = match kept.clone() {
            Some(Kept::Passed) => Ruling::Pass,
            Some(Kept::Rewritten(frame)) => Ruling::Rewrite(frame),
            Some(Kept::Answered(answer)) => Ruling::Answer(answer),
            Some(Kept::Routed(asks)) => Ruling::Route(asks),
            None => self.ask_programs(now, id, policies, &rules, args)?,
        };
        if let Some(state) = &mut self.policy {
            state.own.fresh = match (&kept, &ruling) {
                (Some(_), _) | (_, Ruling::Refuse(_)) => None,
                (_, Ruling::Pass) => Some(Kept::Passed),
                (_, Ruling::Rewrite(frame)) => Some(Kept::Rewritten(frame.clone())),
                (_, Ruling::Answer(answer)) => Some(Kept::Answered(answer.clone())),
                (_, Ruling::Route(asks)) => Some(Kept::Routed(*asks)),
            };
        }
        Some(ruling)
    }

    /// Whether nothing that comes before programs has something against this request.
    fn goes_on_so_far(
        &self,
        id: ClientId,
        policies: &Policies,
        known: &Known,
        look: &Look<'_>,
    ) -> bool {
        let Some(client) = self.clients.get(id) else { return false };
        let fits = known.id.is_none_or(|row| arity_fits(row, look.args.len()));
        client.is_authenticated()
            && fits
            && !client.listens_in_resp2()
            && !self.is_refused(id, client, look.args)
            && !self.is_paused_for(id, known, look.args)
            && self.refused_for_good(id, policies, look).is_none()
    }

    /// One program after the other, until one does not let it pass.
    fn ask_programs(
        &mut self,
        now: Time,
        id: ClientId,
        policies: &Policies,
        rules: &[(usize, &Rule<Own>)],
        args: &[&[u8]],
    ) -> Option<Ruling> {
        let mut frame = Vec::new();
        encode::request(&mut frame, args);
        for (at, rule) in rules {
            let random = self.next_random();
            let is_inside = self.is_queueing(id);
            let Self { clients, settings, policy, .. } = &mut *self;
            let client = clients.get(id)?;
            let (protocol, user) = (client.protocol, settings.users.at(client.user as usize));
            let view = View {
                request: &frame,
                user: user.map_or(b"", |user| user.name()),
                client_address: &client.identity.addr,
                client_name: &client.identity.name,
                client: client.number,
                db: client.db,
                protocol: if protocol == resp::Protocol::Resp3 { 3 } else { 2 },
                is_inside,
                unix_ms: (settings.unix_ahead_us.saturating_add(now.0)) / 1_000,
                random,
            };
            let own = &mut policy.as_mut()?.own;
            let (said, fuel, line) = own.ask(now, *at, &policies.programs, &view);
            let ruling = self.ruled(now, (*at, rule), said, (protocol, args));
            self.note_program(now, &rule.name, fuel, line);
            if let Some(ruling) = ruling {
                return Some(ruling);
            }
        }
        Some(Ruling::Pass)
    }

    /// What comes of what a program said; `None`: the request goes on to the next one.
    fn ruled(
        &mut self,
        now: Time,
        (at, rule): (usize, &Rule<Own>),
        said: Said,
        (protocol, args): (resp::Protocol, &[&[u8]]),
    ) -> Option<Ruling> {
        let learned = self.learned.as_ref();
        let may_go_on = |frame: &[u8]| {
            frames::request(frame).is_some_and(|args| {
                may_be_asked(&route::classify(args.len(), |n| args[n], learned))
            })
        };
        let ruling = match said {
            Said::Verdict(Verdict::Pass) => Ok(Ruling::Pass),
            Said::Verdict(Verdict::Answer(reply)) if frames::is_reply(&reply, protocol) => {
                Ok(Ruling::Answer(reply))
            }
            Said::Verdict(Verdict::Rewrite(frame)) if may_go_on(&frame) => {
                Ok(Ruling::Rewrite(frame))
            }
            Said::Verdict(Verdict::Upstream) => Ok(Ruling::Route(Asks::Upstream)),
            Said::Verdict(Verdict::Read(name)) => match self.read_target_named(&name, args) {
                Some(at) => Ok(Ruling::Route(Asks::Target(at))),
                None => Err(Some((Failure::Verdict, true))),
            },
            Said::Verdict(Verdict::Refuse(text)) => match frames::error(&text) {
                Some(text) => Ok(Ruling::Refuse(refusal(rule, Some(text)))),
                None => Err(Some((Failure::Verdict, true))),
            },
            Said::Verdict(_) => Err(Some((Failure::Verdict, true))),
            Said::Failed(failure, is_first) => Err(Some((failure, is_first))),
            Said::Rests => Err(None),
        };
        let own = &mut self.policy.as_mut()?.own;
        let ruling = ruling.map_err(|failed| match failed {
            // The judge itself thinks that all is well.
            Some((Failure::Verdict, _)) => Some((Failure::Verdict, own.fail(now, at))),
            failed => failed,
        });
        let report = own.report(&rule.name);
        match &ruling {
            Ok(Ruling::Pass) => report.passed += 1,
            Ok(Ruling::Answer(_)) => report.answered += 1,
            Ok(Ruling::Rewrite(_)) => report.rewritten += 1,
            Ok(Ruling::Route(_)) => report.routed += 1,
            Ok(Ruling::Refuse(_)) => report.refused += 1,
            Err(Some((failure, _))) => report.failures[*failure as usize] += 1,
            Err(None) => report.rested += 1,
        }
        match ruling {
            Ok(Ruling::Pass) => None,
            Ok(ruling) => Some(ruling),
            Err(failed) => {
                if let Some((failure, true)) = failed {
                    let (name, cause) = (rule.name.clone(), super::FAILURES[failure as usize]);
                    self.notices.push_back(Notice::ProgramFailed { name, cause });
                }
                let refuses = !rule.detail.passes_on_failure;
                refuses.then(|| Ruling::Refuse(refusal(rule, None)))
            }
        }
    }

    /// Who is asked for the request that is under way just now, if a program said it.
    pub(crate) fn asks_whom(&self) -> Option<Asks> {
        self.policy.as_ref()?.own.asks
    }

    fn set_asks(&mut self, asks: Option<Asks>) {
        if let Some(state) = &mut self.policy {
            state.own.asks = asks;
        }
    }

    /// What a call took, which counts for the turn as steps of patterns do, and what it wants to be told.
    fn note_program(&mut self, now: Time, name: &str, fuel: u64, line: Option<String>) {
        self.grants.slow.pay_steps(0, usize::try_from(fuel).unwrap_or(usize::MAX));
        let Some(state) = &mut self.policy else { return };
        state.own.report(name).fuel += fuel;
        let Some(mut line) = line.filter(|_| state.own.may_tell(now)) else { return };
        while line.len() > OWN_LINE_BYTES_MAX {
            line.pop();
        }
        self.notices.push_back(Notice::ProgramLine { name: name.into(), line });
    }

    /// A program answers: at the request's place, or, in a transaction, in its place of the answer to EXEC.
    fn answer_ruled(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        (frame, args): (&[u8], &[&[u8]]),
        answer: &[u8],
    ) -> Step {
        let silent = self.is_silent(id);
        if let Some(client) = self.clients.get_mut(id) {
            client.last_command = known.id;
        }
        if self.clients.get(id).is_some_and(|client| client.lease.is_some()) {
            let wish = Wish { id, frame, args, row: known.id, silent };
            if self.is_queueing(id) {
                return self.queue_answer(now, &wish, answer);
            }
        }
        self.stats.command(known.id).calls += 1;
        self.reply(id, silent, |out| out.extend_from_slice(answer));
        self.end_skip(id, silent);
        Step::Done
    }

    /// A request that is too large to be shown, of which only the first arguments are here: the error that it gets, if a rule is about it that lets
    /// nothing pass unseen.
    pub(crate) fn unless_large_unseen(
        &mut self,
        id: ClientId,
        known: &Known,
        head: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let policies = self.settings.policies.clone().filter(|policies| policies.has_own())?;
        if !policies.concerns(Kind::Own, known.id) || !may_be_asked(known) {
            return None;
        }
        let key = known.id.and_then(|row| head.get(row.row().only_key_at()?)).copied();
        let keys = key.into_iter().collect();
        let look = Look { row: known.id, args: head, keys, bytes: 0, args_count: 0 };
        let own = &mut self.policy.as_mut()?.own;
        if own.kept(id).is_some() {
            return None;
        }
        for rule in policies.rules.own.iter().filter(|rule| look.is_meant(&rule.what)) {
            own.report(&rule.name).failures[Failure::Large as usize] += 1;
            own.fresh = Some(Kept::Passed);
            if !rule.detail.passes_on_failure {
                own.fresh = None;
                let refusal = refusal(rule, None);
                self.note_ruled(known.id, &refusal);
                return Some(refusal.reply);
            }
        }
        None
    }
}

/// Whether programs may be asked about a request, and may make one of another.
fn may_be_asked(known: &Known) -> bool {
    match known.way {
        Way::Shared => known.id.is_none_or(may_be_asked_about),
        Way::Leased => known.id.is_some_and(crate::blocking::blocks),
        _ => false,
    }
}

fn refusal(rule: &Rule<Own>, text: Option<Vec<u8>>) -> crate::policy::Refusal {
    match text {
        Some(text) => {
            let mut reply = Vec::new();
            encode::error(&mut reply, &text);
            crate::policy::Refusal { kind: Kind::Own, name: rule.name.clone(), reply }
        }
        None => Common { name: &rule.name, error: rule.error.as_deref() }
            .refusal(Kind::Own, || reject::OWN_FAILED.into()),
    }
}

impl State {
    /// What the operator's programs did so far.
    pub(crate) fn own_reports(&self) -> Vec<super::OwnReport> {
        self.own.reports()
    }
}
