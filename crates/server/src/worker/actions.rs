//! What the engine asks for, and what other threads do.
//!
//! Invariant: every question of this worker's engine is answered by every worker once, and the engine gets all answers together.

use super::Worker;
use super::address::NodeAddress;
use super::conn::upstream_token;
use super::entrance::{Entrance, Entrances};
use super::mailbox::{Asker, Change, Message, Resolve, UpstreamOf, Upward};
use engine::fleet::{Answer, Question, Questioner, ReplyTo, Report, RingReport};
use engine::login::Said;
use engine::news::{Audience, News, Reach};
use engine::tenancy::TenantId;
use engine::{Action, ClientId, Notice, Time, UpstreamId};
use netio::{Address, Driver, Listener};

/// A question whose answers are not all there.
pub(super) struct Open {
    ticket: u64,
    /// Of the client that asked.
    tenant: TenantId,
    /// So many workers have not answered.
    missing: usize,
    answers: Vec<Answer>,
}

/// Where a client goes.
enum Goal {
    Tenant(TenantId),
    Login(Box<Said>),
}

impl<D: Driver> Worker<D> {
    /// Carries out what the engine asks for. It asks for the close of a client only when that has what it is owed.
    pub(super) fn carry_out(&mut self, now: Time) {
        let mut moves = Vec::new();
        loop {
            self.carry_out_but_moves(now, &mut moves);
            // Closes come before the next one, who may get the place of a client that went.
            match moves.pop() {
                Some((id, Goal::Tenant(to))) => self.move_client(now, id, to),
                Some((id, Goal::Login(said))) => self.log_client_in(now, id, &said),
                None => break,
            }
        }
        for conn in self.clients.take_displaced().into_iter().chain(self.upstreams.take_displaced())
        {
            self.driver.close(conn);
        }
        self.count_clients_gone();
    }

    fn carry_out_but_moves(&mut self, now: Time, moves: &mut Vec<(ClientId, Goal)>) {
        while let Some((tenant, action)) = self.engine.poll_action() {
            match action {
                Action::Connect(id) => self.connect(now, id),
                Action::CloseUpstream(id) => {
                    if let Some(conn) = self.upstreams.take(id) {
                        self.driver.close(conn);
                    }
                }
                Action::CloseClient(id) => {
                    if let Some(conn) = self.clients.take(id) {
                        self.driver.close(conn);
                    }
                }
                Action::ResetClient(id) => {
                    if let Some(conn) = self.clients.take(id) {
                        self.driver.reset(conn);
                    }
                }
                Action::ReadClient(id, on) => {
                    if let Some(conn) = self.clients.get(id) {
                        self.driver.recv(conn, on);
                    }
                }
                Action::ReadUpstream(id, on) => {
                    if let Some(conn) = self.upstreams.get(id) {
                        self.driver.recv(conn, on);
                    }
                }
                Action::Ask(ticket, question) => self.ask(now, (tenant, ticket), &question),
                Action::Answer(to, answer) => self.give_answer(to, answer),
                Action::Tell(audience, news) => self.tell_news(now, tenant, audience, &news),
                Action::Move(id, to) => moves.push((id, Goal::Tenant(to))),
                Action::LogIn(id, said) => moves.push((id, Goal::Login(said))),
            }
        }
    }

    /// The loads count clients from their placing on; what the engine has let go is taken off here.
    fn count_clients_gone(&mut self) {
        let gone = self.engine.take_gone_clients();
        if gone > 0 {
            self.fleet.client_gone(self.index, gone);
        }
    }

    fn connect(&mut self, now: Time, id: UpstreamId) {
        let Some(address) = self.engine.upstream_address(id) else { return };
        match NodeAddress::from(address) {
            NodeAddress::Fixed(address) => self.connect_to(id, &address),
            NodeAddress::Name(name) => {
                let upstream = Some((self.engine.tenant_of(id), id));
                let resolve = Resolve { asker: Asker { worker: self.index, upstream }, name };
                if !self.fleet.resolve(resolve) {
                    self.engine.handle_upstream_closed(now, id, "no resolver is running");
                }
            }
        }
    }

    fn connect_to(&mut self, id: UpstreamId, address: &Address) {
        if let Some(old) = self.upstreams.take(id) {
            // It was connecting for an engine's attempt that is over.
            self.driver.close(old);
        }
        let token = upstream_token(id);
        let host = self.engine.upstream_tls_host(id);
        let conn = match host {
            None => self.driver.connect(address, token),
            Some(host) => self.driver.connect_secured(address, token, host),
        };
        self.upstreams.set(id, conn);
    }

    fn resolved(&mut self, now: Time, (tenant, id): UpstreamOf, outcome: Result<Address, String>) {
        if self.engine.tenant_of(id) != tenant || !self.engine.wants_connect(id) {
            return;
        }
        match outcome {
            Ok(address) => {
                if let Some(NodeAddress::Name(name)) =
                    self.engine.upstream_address(id).map(NodeAddress::from)
                {
                    self.names.connects(now, id, name, &address);
                }
                self.connect_to(id, &address);
            }
            Err(cause) => self.engine.handle_upstream_closed(now, id, &cause),
        }
    }

    /// Has the names of live connections resolved again when that is due.
    pub(super) fn renew_names(&mut self, now: Time) {
        let Self { names, upstreams, fleet, index, .. } = self;
        for name in names.due(now, |id| upstreams.get(id).is_some()) {
            // Without a resolver names keep what they mean.
            let _ =
                fleet.resolve(Resolve { asker: Asker { worker: *index, upstream: None }, name });
        }
    }

    fn tell_news(&mut self, now: Time, tenant: TenantId, audience: Audience, news: &News) {
        let login = self.engine.login_of(tenant);
        let reach = news.reach();
        // What a login sees of the servers is for its tenant.
        let to = match login {
            Some((base, digest)) => (base, (reach == Reach::Same).then_some(digest)),
            None => (tenant, None),
        };
        let others = match audience {
            Audience::First => 0..1,
            Audience::Others => 0..self.fleet.len(),
            Audience::Worker(worker) => worker as usize..worker as usize + 1,
        };
        let is_here = others.contains(&self.index);
        for worker in others.filter(|worker| *worker != self.index) {
            self.fleet.send(worker, Message::News(to, news.clone()));
        }
        match (reach, login) {
            (Reach::Asker, Some(_)) if is_here => self.engine.handle_news(now, to, news.clone()),
            (Reach::All, None) => self.engine.tell_logins(now, tenant, news),
            _ => {}
        }
    }

    fn ask(&mut self, now: Time, (tenant, ticket): (TenantId, u64), question: &Question) {
        let login = self.engine.login_of(tenant);
        let to = ReplyTo { who: Questioner::Worker(self.index), tenant, login, ticket };
        let open = |missing| Open { ticket, tenant, missing, answers: Vec::new() };
        if let Question::Config(wish) = question {
            self.questions.push(open(1));
            return self.fleet.tell_control(Upward::Config(to, wish.clone()));
        }
        if let Question::Acl(wish) = question {
            self.questions.push(open(1));
            return self.fleet.tell_control(Upward::Acl(to, wish.clone()));
        }
        self.questions.push(open(self.fleet.len()));
        if let Some(own) = self.own_answer(now, to, question) {
            self.answered(to, own);
        }
        for worker in (0..self.fleet.len()).filter(|worker| *worker != self.index) {
            self.fleet.send(worker, Message::Question(to, question.clone()));
        }
    }

    /// This worker's answer, if it is there at once, with what the engine cannot know.
    fn own_answer(&mut self, now: Time, to: ReplyTo, question: &Question) -> Option<Answer> {
        let mut answer = match to.who {
            Questioner::Worker(_) => self.engine.answer(now, to, question)?,
            Questioner::Control => self.engine.answers(now, to, question),
        };
        if let Some(report) = report_of_first(&mut answer) {
            let cpu = (self.process.measure_thread)();
            (report.cpu_user_us, report.cpu_system_us) = (cpu.user_us, cpu.system_us);
            report.tls = self.driver.report();
            for Entrance { label, .. } in &self.entrances.list {
                if report.listeners.iter().all(|(known, _)| known != label) {
                    report.listeners.push((label.clone(), 0));
                }
            }
            report.ring = self.driver.uring_counts().map(|counts| RingReport {
                no_buffers: counts.no_buffers,
                overflows: counts.overflows,
                buffers: [counts.small_buffers, counts.large_buffers].map(u64::from),
            });
        }
        Some(answer)
    }

    fn give_answer(&mut self, to: ReplyTo, answer: Answer) {
        match to.who {
            Questioner::Worker(index) if index == self.index => self.answered(to, answer),
            Questioner::Worker(index) => {
                self.fleet.send(index, Message::Answer(to, answer));
            }
            Questioner::Control => self.fleet.tell_control(Upward::Answer(to.ticket, answer)),
        }
    }

    /// Answers behind the closes that the question led to: a client that gets the answer may at once push an element, and no client that was closed may still
    /// wait for that element at a server.
    fn answer_when_closed(&mut self, now: Time, to: ReplyTo, answer: Answer) {
        self.carry_out(now);
        self.give_answer(to, answer);
    }

    fn answered(&mut self, to: ReplyTo, answer: Answer) {
        let asked = (to.tenant, to.ticket);
        let is_this = |open: &Open| (open.tenant, open.ticket) == asked;
        let Some(at) = self.questions.iter().position(is_this) else { return };
        let open = &mut self.questions[at];
        match answer {
            Answer::Each(answers) => open.answers.extend(answers),
            answer => open.answers.push(answer),
        }
        open.missing -= 1;
        if open.missing == 0 {
            let open = self.questions.swap_remove(at);
            let facts = self.process.facts(self.fleet.len(), self.clients_max);
            self.engine.handle_answers(Time((self.clock)()), asked, open.answers, &facts);
        }
    }

    /// The tenant is gone: nobody waits for what it asked.
    pub(super) fn forget_questions(&mut self, tenant: TenantId) {
        self.questions.retain(|open| open.tenant != tenant);
    }

    /// Takes what other threads have sent.
    pub(super) fn read_mail(&mut self) {
        while let Some(message) = self.mailbox.take() {
            let now = Time((self.clock)());
            match message {
                Message::Client(newcomer) => self.welcome(now, newcomer),
                Message::Question(to, question) => {
                    if let Some(answer) = self.own_answer(now, to, &question) {
                        self.answer_when_closed(now, to, answer);
                    }
                }
                Message::Answer(to, answer) => self.answered(to, answer),
                Message::Resolved(of, outcome) => self.resolved(now, of, outcome),
                Message::Renewed(name, addresses) => {
                    for id in self.names.renewed(&name, addresses.as_deref()) {
                        tracing::info!(worker = self.index, name = %name.host, "the name means another address now");
                        self.engine.handle_upstream_moved(id);
                    }
                }
                Message::News(to, news) => self.engine.handle_news(now, to, news),
                Message::Configure(to, change) => {
                    self.reconfigure(now, *change);
                    self.changed = true;
                    self.answer_when_closed(now, to, Answer::Done);
                }
                Message::Drain(ms) => self.begin_drain(now, ms),
                Message::Stop => self.stopped = true,
            }
        }
    }

    /// Other settings from now on.
    fn reconfigure(&mut self, now: Time, change: Change) {
        let Change { settings, tenants, leave_ms, gather, clients_max, .. } = change;
        let Change { entrances, listeners, tuning, tls, .. } = change;
        self.driver.change(tls);
        self.gather.change(gather);
        self.clients_max = clients_max;
        self.change_entrances(entrances, listeners);
        self.driver.tune(&tuning);
        self.names.change(now, settings.timeouts.resolve_ms);
        self.engine.reconfigure(now, settings, tenants, now.plus_ms(leave_ms));
    }

    /// Other ways in. One that ends has closed all of them for good.
    fn change_entrances(&mut self, entrances: Entrances, listeners: Vec<Listener>) {
        let stays = |entrance: &Entrance| entrances.get(entrance.id).is_some();
        let is_same = listeners.is_empty() && self.entrances.list.iter().all(stays);
        if !is_same && self.drain_until.is_none() {
            self.driver.listen(&|id| entrances.get(id).is_some(), listeners);
        }
        self.entrances = entrances;
    }

    fn begin_drain(&mut self, now: Time, ms: u64) {
        self.driver.close_listeners();
        self.close_arrivals();
        self.engine.drain();
        self.drain_until = Some(now.plus_ms(ms));
        self.last_now = now;
    }

    /// Logs what happened.
    pub(super) fn tell(&mut self) {
        while let Some((tenant, notice)) = self.engine.poll_notice() {
            let worker = self.index;
            // Where there are no tenants, no line names one.
            let tenant = tenant.as_deref();
            self.outlet.notice(worker, tenant, &notice);
            match notice {
                Notice::NodeReady { node, key, server, main: false } => {
                    tracing::debug!(worker, tenant, %node, db = key.db, resp3 = key.resp3, %server, "upstream ready");
                }
                Notice::NodeReady { node, key, server, main: true } => {
                    tracing::info!(worker, tenant, %node, db = key.db, resp3 = key.resp3, %server, "upstream ready");
                }
                Notice::NodeDown { node, key, cause } => {
                    tracing::warn!(worker, tenant, %node, db = key.db, resp3 = key.resp3, %cause, "upstream down");
                }
                Notice::UpstreamLost { node, cause, requests } => {
                    tracing::warn!(worker, tenant, %node, %cause, requests, "upstream lost, its requests got an error");
                }
                Notice::FrameRefused { node, shape } => {
                    tracing::error!(worker, tenant, %node, %shape, "protocol error at the server: please report it with this line");
                }
                Notice::TopologyAsked { node } => {
                    tracing::debug!(worker, tenant, %node, "asked for the topology");
                }
                Notice::TopologyTold { node, state, changed: false } => {
                    tracing::debug!(worker, tenant, %node, %state, "the topology is as before");
                }
                Notice::TopologyTold { node, state, changed: true } => {
                    tracing::info!(worker, tenant, %node, %state, "the topology has changed");
                }
                Notice::TopologyFailed { cause } => {
                    tracing::debug!(worker, tenant, %cause, "no topology");
                }
                Notice::Shard { name, out: true } => {
                    tracing::warn!(worker, tenant, shard = %name, "shard left out: it fails, its keys go to the others");
                }
                Notice::Shard { name, out: false } => {
                    tracing::warn!(worker, tenant, shard = %name, "shard takes part again");
                }
                Notice::Peer { address, down: true } => {
                    tracing::warn!(worker, tenant, %address, "respool of the facade is dead: its slots go to the others");
                }
                Notice::Peer { address, down: false } => {
                    tracing::warn!(worker, tenant, %address, "respool of the facade lives again");
                }
                Notice::HotKey { key, count, window_s, node } => {
                    let key = key.as_str();
                    tracing::warn!(worker, tenant, key, count, window_s, %node, "hot key: it came so often in this window");
                }
                Notice::BigKey { key, command, direction, bytes, elements, addr, node } => {
                    // As texts in quotes: what clients name is no part of the line's form.
                    let ((key, what), command) = (large(key.as_str()), command.as_str());
                    tracing::warn!(worker, tenant, key, command, direction, bytes, elements, %addr, %node, "{what}");
                }
                Notice::Mirror { name, failed, dropped, unsure, sample } => {
                    let cause = sample.as_str();
                    tracing::warn!(worker, tenant, mirror = %name, failed, dropped, unsure, cause, "a mirror did not get every write");
                }
                Notice::MirrorGone { name, done, missed } => {
                    tell_of_former((worker, tenant), &name, done, missed);
                }
                Notice::ReadTarget { name, out, cause } => {
                    tell_of_read_target((worker, tenant), &name, out, cause.as_str());
                }
                Notice::ProgramFailed { name, cause } => {
                    tracing::warn!(worker, tenant, extension = %name, cause, "an extension failed; it begins anew with the next request");
                }
                Notice::ProgramLine { name, line } => {
                    // As a text in quotes: what an extension says is no part of the line's form.
                    let line = line.as_str();
                    tracing::info!(worker, tenant, extension = %name, line, "an extension says");
                }
                Notice::ClientClosed { client, addr, cause } => {
                    tracing::warn!(worker, tenant, client, %addr, %cause, "client closed");
                }
            }
        }
    }
}

/// The last words about a mirror that is one no more.
fn tell_of_former((worker, tenant): (usize, Option<&str>), mirror: &str, done: u64, missed: u64) {
    match missed {
        0 => {
            tracing::info!(worker, tenant, %mirror, done, "it is no mirror any more, and has got every write");
        }
        _ => {
            tracing::warn!(worker, tenant, %mirror, done, missed, "it is no mirror any more, and did not get every write");
        }
    }
}

/// A read target that is left out, or that takes part again.
fn tell_of_read_target(
    (worker, tenant): (usize, Option<&str>),
    name: &str,
    out: bool,
    cause: &str,
) {
    if out {
        tracing::warn!(worker, tenant, read_target = %name, cause, "a read target is left out until it answers again");
    } else {
        tracing::warn!(worker, tenant, read_target = %name, "a read target answers again");
    }
}

/// Where the report is that tells what is the whole worker's, so that it is told once: the default tenant's.
fn report_of_first(answer: &mut Answer) -> Option<&mut Report> {
    match answer {
        Answer::Report(report) => Some(report),
        Answer::Each(answers) => answers.iter_mut().find_map(report_of_first),
        _ => None,
    }
}

/// How a large request or reply is told: with its key, if it has one of its own.
fn large(key: &str) -> (Option<&str>, &'static str) {
    match key.is_empty() {
        true => (None, "large without a key"),
        false => (Some(key), "big key"),
    }
}
