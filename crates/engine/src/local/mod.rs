//! Commands that the proxy answers itself, because they are about the connection between it and the client.
//!
//! The answers are those that the server would give to a client that is connected to it directly, to the byte where nothing but the
//! connection matters; what only the server knows (its version, its databases) was learnt from it.
//!
//! Files: this one has the small commands, `hello` HELLO and AUTH, `client_command` CLIENT, `client_list` its lines, `info` INFO,
//! `slowlog` SLOWLOG, `monitor` MONITOR, `topkeys` TOPKEYS, `bigkeys` BIGKEYS, `acl` ACL.
//!
//! Invariant: each command answers exactly once or holds untouched; none of them writes upstream.

mod acl;
mod bigkeys;
mod client_command;
mod client_list;
mod cluster;
pub(crate) mod config;
mod hello;
pub(crate) mod info;
mod monitor;
pub(crate) mod slowlog;
mod topkeys;

use crate::client::{Client, Hold, ReplyMode};
use crate::command::{CommandId, ids};
use crate::connect::Availability;
use crate::engine::Engine;
use crate::fleet::{Answer, Asked, ProcessFacts, Purpose, Question, ReplyTo, Report};
use crate::ids::ClientId;
use crate::inside::Inside;
use crate::pubsub::Kind;
use crate::questions::{asked_bytes, only_reads};
use crate::reject;
use crate::request::Step;
use crate::route::Known;
use crate::scatter::row_of;
use crate::server_loss::Failure;
use crate::time::Time;
use alloc::vec::Vec;
use resp::{Protocol, encode, number};

/// One command to be answered here.
pub(crate) struct Call<'a> {
    /// Who asks.
    pub(crate) id: ClientId,
    /// The row of the command (of the container for CLIENT).
    pub(crate) command: CommandId,
    /// All arguments, the command first.
    pub(crate) args: &'a [&'a [u8]],
    /// No reply is wanted.
    pub(crate) silent: bool,
    /// Where the answer belongs if it is one of a transaction.
    pub(crate) inside: Option<Inside>,
}

impl<'a> Call<'a> {
    /// A command by itself.
    pub(crate) fn new(
        id: ClientId,
        command: CommandId,
        args: &'a [&'a [u8]],
        silent: bool,
    ) -> Self {
        Self { id, command, args, silent, inside: None }
    }
}

impl Engine {
    /// Answers one command of class Local.
    pub(crate) fn answer_locally(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        args: &[&[u8]],
        silent: bool,
    ) -> Step {
        let Some(command) = known.id else { return Step::Done };
        let call = Call::new(id, command, args, silent);
        // MONITOR takes words here that a server's does not.
        if !arity_fits(command, args.len()) && command != ids::MONITOR {
            self.stats.command(known.id).rejected += 1;
            self.reply(id, silent, |out| match command {
                ids::EXEC => reject::write(out, reject::EXEC_ARITY),
                _ => reject::arity(out, command.name()),
            });
            self.end_skip(id, silent);
            return Step::Done;
        }
        let ticket = self.next_ticket;
        let written = |engine: &Self| engine.clients.get(id).map_or(0, Client::waiting_out);
        let before = written(self);
        let step = self.answer_command(now, &call);
        self.grants.slow.pay_reply(args.len(), written(self).saturating_sub(before));
        if !matches!(step, Step::Hold(_)) {
            self.end_arrival(id);
            if self.settings.pass_through {
                self.forget_word(id);
            }
        }
        if step == Step::Done {
            self.note_local(now, id, args, ticket);
            self.stats.command(Some(row_of(command, args))).calls += 1;
            if command != ids::CLIENT {
                self.end_skip(id, silent);
            }
        }
        step
    }

    pub(crate) fn answer_command(&mut self, now: Time, call: &Call<'_>) -> Step {
        if let Some(step) = self.unless_denied(now, call) {
            return step;
        }
        if let Some(text) = self.leaves_database(Some(call.command), call.args) {
            return self.refuse(call, text);
        }
        match call.command {
            ids::PING => self.ping(call),
            ids::ECHO => self.say(call, |out| encode::bulk(out, call.args[1])),
            ids::QUIT if self.leaves_before_end(now, call.id) => Step::Hold(Hold::Drained),
            ids::QUIT => {
                self.say(call, |out| encode::simple(out, b"OK"));
                self.begin_close(call.id);
                Step::Done
            }
            ids::RESET => self.reset(now, call),
            ids::SUBSCRIBE => self.subscribe(now, call, Kind::Channel),
            ids::PSUBSCRIBE => self.subscribe(now, call, Kind::Pattern),
            // These need one reply for each command, or the connection for themselves (`CLIENT_DENY_BLOCKING`).
            ids::SSUBSCRIBE if call.inside.is_some() => {
                self.refuse(call, reject::SSUBSCRIBE_INSIDE)
            }
            ids::MONITOR if call.inside.is_some() => self.refuse(call, reject::MONITOR_INSIDE),
            ids::SSUBSCRIBE => self.subscribe(now, call, Kind::Shard),
            ids::UNSUBSCRIBE => self.unsubscribe(now, call, Kind::Channel),
            ids::PUNSUBSCRIBE => self.unsubscribe(now, call, Kind::Pattern),
            ids::SUNSUBSCRIBE => self.unsubscribe(now, call, Kind::Shard),
            ids::SELECT => self.select(now, call),
            ids::HELLO => self.hello(now, call),
            ids::AUTH => self.auth(now, call),
            ids::ACL => self.acl_command(call),
            ids::INFO => self.info(now, call),
            ids::EXEC => self.refuse(call, reject::EXEC_WITHOUT_MULTI),
            ids::DISCARD => self.refuse(call, reject::DISCARD_WITHOUT_MULTI),
            ids::UNWATCH => self.ok(call),
            ids::READONLY | ids::READWRITE | ids::ASKING if self.settings.facade.on => {
                self.ok(call)
            }
            // They are about the redirections of `CLIENT CAPA redirect`, and without that about nothing.
            ids::READONLY | ids::READWRITE if self.facts.is_single_valkey(8, 0) => self.ok(call),
            ids::READONLY | ids::READWRITE | ids::ASKING => self.refuse(call, reject::NO_CLUSTER),
            ids::SLOWLOG => self.slowlog_command(call),
            ids::MONITOR => self.monitor_command(call),
            ids::TOPKEYS => self.topkeys_command(call),
            ids::BIGKEYS => self.bigkeys_command(call),
            _ => self.client_command(now, call),
        }
    }

    /// Writes a reply.
    pub(crate) fn say(&mut self, call: &Call<'_>, write: impl FnOnce(&mut Vec<u8>)) -> Step {
        match call.inside {
            None => self.reply(call.id, call.silent, write),
            Some(at) => {
                let mut reply = Vec::new();
                write(&mut reply);
                self.answer_inside(call.id, at, &reply);
            }
        }
        Step::Done
    }

    /// Answers that a server cannot be asked.
    pub(crate) fn say_failure(&mut self, call: &Call<'_>, failure: &Failure) -> Step {
        match call.inside {
            None => self.reply_failure(call.id, call.silent, failure),
            Some(at) => self.answer_inside(call.id, at, failure),
        }
        Step::Done
    }

    /// Answers OK.
    pub(crate) fn ok(&mut self, call: &Call<'_>) -> Step {
        self.say(call, |out| encode::simple(out, b"OK"))
    }

    /// Answers an error.
    pub(crate) fn refuse(&mut self, call: &Call<'_>, text: &str) -> Step {
        self.stats.command(Some(row_of(call.command, call.args))).failed += 1;
        self.say(call, |out| reject::write(out, text))
    }

    fn ping(&mut self, call: &Call<'_>) -> Step {
        let listens = self.clients.get(call.id).is_some_and(Client::listens_in_resp2);
        match call.args {
            [_] | [_, _] if listens => self.say(call, |out| {
                encode::array(out, 2);
                encode::bulk(out, b"pong");
                encode::bulk(out, call.args.get(1).copied().unwrap_or_default());
            }),
            [_] => self.say(call, |out| encode::simple(out, b"PONG")),
            [_, text] => self.say(call, |out| encode::bulk(out, text)),
            _ => self.say(call, |out| reject::arity(out, call.command.name())),
        }
    }

    /// As a connection that was just opened, but for the socket (`resetCommand`).
    fn reset(&mut self, now: Time, call: &Call<'_>) -> Step {
        if self.reset_waits(call.id) {
            return Step::Hold(Hold::Drained);
        }
        if self.leaves_before_end(now, call.id) {
            return Step::Hold(Hold::Drained);
        }
        self.leave_all(call.id);
        self.end_tracking(call.id);
        let db = self.settings.node.db;
        self.end_monitor(call.id);
        // What CLIENT REPLY SKIP skips is RESET itself; OFF ends before its reply.
        let mode = self.clients.get(call.id).map(|client| client.reply_mode);
        let is_skipped = mode == Some(ReplyMode::SkipNext);
        if let Some(client) = self.clients.get_mut(call.id) {
            client.db = db;
            if client.protocol != Protocol::Resp2 {
                client.route_epoch = self.route_epoch.wrapping_sub(1);
            }
            client.protocol = Protocol::Resp2;
            Self::enter_as_default(&self.settings, client);
            client.identity.name.clear();
            client.identity.no_evict = false;
            client.identity.no_touch = false;
            // Of one that has never said who it is the time goes on.
            self.sweep.look_for_unknown(Time::default());
        }
        if let Some(step) = self.unless_reset_here(call) {
            return step;
        }
        if let Some(client) = self.clients.get_mut(call.id) {
            client.reply_mode = ReplyMode::On;
        }
        self.reply(call.id, is_skipped, |out| encode::simple(out, b"RESET"));
        Step::Done
    }

    /// The database exists if a connection can select it, so the first client to ask waits for one.
    pub(crate) fn select(&mut self, now: Time, call: &Call<'_>) -> Step {
        let Some(db) = number::parse_i64(call.args[1]) else {
            return self.refuse(call, reject::NOT_AN_INTEGER);
        };
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        let (protocol, current) = (client.protocol, client.db);
        if i32::try_from(db).is_err() {
            return self.refuse(call, reject::NOT_AN_INTEGER);
        }
        let Ok(db) = u32::try_from(db) else { return self.refuse(call, reject::DB_RANGE) };
        if self.router.has_cluster() && db != 0 {
            return self.refuse(call, reject::SELECT_CLUSTER);
        }
        if db != current
            && let Some(step) = self.unless_agreed(now, call, protocol, db)
        {
            return step;
        }
        self.take_way(call.id, protocol, db);
        self.ok(call)
    }

    /// What becomes of the call unless the server has agreed to this protocol and database: it waits until the server has said so, or the
    /// server's refusal is the answer.
    pub(crate) fn unless_agreed(
        &mut self,
        now: Time,
        call: &Call<'_>,
        protocol: Protocol,
        db: u32,
    ) -> Option<Step> {
        if self.router.any_node().is_none() {
            return Some(self.unserved_call(now, call, 0));
        }
        match self.probe(now, protocol, db, call.id) {
            Availability::Ready(_) => None,
            Availability::Wait(upstream) => Some(Step::Hold(Hold::Upstream(upstream))),
            Availability::Down(_) if self.agreed_before(call.id, protocol, db) => None,
            Availability::Down(error) => {
                let step = self.say_failure(call, &error);
                self.forget_refused(protocol, db);
                Some(step)
            }
        }
    }

    /// Whether there is no room for a connection that asks the server, and the server has agreed to this protocol before. Requests get the error then: behind a
    /// refused HELLO a client may go on in its former protocol, and read the replies as if HELLO had succeeded.
    fn agreed_before(&self, id: ClientId, protocol: Protocol, db: u32) -> bool {
        let key = self.shared_key(self.node_to_probe(protocol, db), protocol, db);
        let is_db_known = self.clients.get(id).is_some_and(|client| client.db == db);
        is_db_known && self.facts.has_agreed(protocol) && !self.by_key.contains_key(&key)
    }

    /// What becomes of a call for which no node is known; in a transaction it cannot wait for one.
    pub(crate) fn unserved_call(&mut self, now: Time, call: &Call<'_>, pool: u16) -> Step {
        match self.unserved(now, pool) {
            Ok(hold) => Step::Hold(hold),
            Err(error) => self.say(call, |out| out.extend_from_slice(&error)),
        }
    }

    /// Asks every worker; the reply takes its place now and comes when all have answered.
    pub(crate) fn ask(&mut self, call: &Call<'_>, question: Question, purpose: Purpose) -> Step {
        if self.waits_for_answer(call) {
            return Step::Hold(Hold::Drained);
        }
        self.stats.requests += 1;
        let Some(client) = self.clients.get_mut(call.id) else { return Step::Gone };
        let seq = if call.inside.is_none() { client.places.reserve(1) } else { 0 };
        let (protocol, silent, inside) = (client.protocol, call.silent, call.inside);
        let changes = !only_reads(&question);
        if changes {
            // The client's own next request comes after the pause has begun, or after it was killed.
            self.hold_for_answers(call.id);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let bytes = asked_bytes(&question, &purpose, call.args);
        let (client, turn, noted, observed) = (call.id, None, None, None);
        let asked = Asked {
            ticket,
            client,
            seq,
            inside,
            silent,
            protocol,
            purpose,
            changes,
            turn,
            bytes,
            noted,
            observed,
        };
        let waits = asked.waits_for_servers();
        self.asked.insert(asked);
        if !waits {
            self.ask_workers(ticket, question);
        }
        Step::Done
    }

    /// This worker's answer to a question of any worker; `None`: it comes by [`Action::Answer`](crate::Action::Answer).
    #[must_use]
    pub fn answer(&mut self, now: Time, to: ReplyTo, question: &Question) -> Option<Answer> {
        Some(match question {
            Question::Unblock { number, error } => {
                return self.unblock(now, to, *number, *error);
            }
            Question::List { ids, listens, listener } => {
                self.client_lines(now, ids.as_deref(), *listens, *listener)
            }
            Question::Kill(filter) => Answer::Killed(self.kill_clients(now, filter)),
            Question::Pause { ms, writes_only } => {
                let until = now.plus_ms(*ms);
                let both = self.pause.filter(|pause| pause.until > until);
                self.pause = Some(crate::engine::Pause {
                    until: both.map_or(until, |pause| pause.until),
                    writes_only: *writes_only,
                });
                Answer::Done
            }
            Question::Unpause => {
                self.end_pause();
                Answer::Done
            }
            Question::Monitor(monitor, filter) => {
                self.watch(*monitor, filter.clone());
                Answer::Done
            }
            Question::SlowLog(count) => Answer::SlowLog(self.slowlog.newest(*count)),
            Question::SlowLen => Answer::SlowLen(self.slowlog.len() as u64),
            Question::SlowReset => {
                self.slowlog.clear();
                Answer::Done
            }
            Question::HotKeys => Answer::HotKeys(self.hotkeys.report(now)),
            Question::HotReset => {
                self.hotkeys.reset(now);
                Answer::Done
            }
            Question::HotSwitch(on) => {
                self.hotkeys.switch(now, *on);
                Answer::Done
            }
            Question::BigKeys => Answer::BigKeys(self.bigkeys.newest()),
            Question::BigReset => {
                self.bigkeys.clear();
                Answer::Done
            }
            Question::Shadow => Answer::Shadow(self.shadow_reports()),
            Question::ShadowReset => {
                self.reset_shadow();
                Answer::Done
            }
            Question::Report => {
                let hotkeys = self.hotkeys.report(now);
                Answer::Report(alloc::boxed::Box::new(Report { hotkeys, ..self.report(now) }))
            }
            Question::AclLog(count) => Answer::AclLog(self.acl.log.newest(*count)),
            Question::AclLogReset => {
                self.acl.log.clear();
                Answer::Done
            }
            // The caller's to answer; without it there is nothing to be changed.
            Question::Config(_) => Answer::Config(Err(reject::NO_CONFIG.into())),
            Question::Acl(_) => Answer::Acl(Err(reject::NO_CONFIG.into())),
            Question::View => Answer::View(self.view()),
            Question::ConnectIdle => {
                self.connect_idle(now);
                Answer::Done
            }
        })
    }

    /// All workers have answered the question of this ticket.
    pub fn handle_answers(
        &mut self,
        now: Time,
        ticket: u64,
        answers: Vec<Answer>,
        facts: &ProcessFacts,
    ) {
        let Some(asked) = self.take_answered(ticket) else { return };
        let reply_bytes = self.make_reply(now, asked, answers, facts);
        self.pay_question(now, reply_bytes);
    }

    /// Makes one reply of all workers' answers; returns its length.
    fn make_reply(
        &mut self,
        now: Time,
        mut asked: Asked,
        answers: Vec<Answer>,
        facts: &ProcessFacts,
    ) -> usize {
        let protocol = asked.protocol;
        let mut out = Vec::new();
        match &mut asked.purpose {
            Purpose::Ok => encode::simple(&mut out, b"OK"),
            Purpose::List => client_list::write(&mut out, answers, protocol, self.list_bytes_max()),
            Purpose::Monitor => self.begin_monitor(asked.client, &mut out),
            Purpose::SlowLog { count, detail } => {
                let unix_ahead_us = self.settings.unix_ahead_us;
                slowlog::write(&mut out, answers, (*count, *detail), unix_ahead_us);
            }
            Purpose::SlowLen => {
                let len = slowlog::len(&answers, self.settings.slowlog.max_len);
                encode::integer(&mut out, len as i64);
            }
            Purpose::HotKeys(count) => {
                topkeys::write(&mut out, &topkeys::merged(answers, *count), protocol);
            }
            Purpose::BigKeys(count) => {
                let count = (*count).min(self.settings.bigkeys.max_len);
                let entries = bigkeys::merged(answers, count);
                bigkeys::write(&mut out, &entries, self.settings.unix_ahead_us, protocol);
            }
            Purpose::BigLen => {
                let entries = bigkeys::merged(answers, self.settings.bigkeys.max_len);
                encode::integer(&mut out, entries.len() as i64);
            }
            Purpose::Unblock => {
                let ended = answers.contains(&Answer::Unblocked(true));
                encode::integer(&mut out, i64::from(ended));
            }
            Purpose::Kill => encode::integer(&mut out, client_command::killed(&answers) as i64),
            Purpose::KillOne if client_command::killed(&answers) == 0 => {
                reject::write(&mut out, reject::NO_SUCH_CLIENT);
            }
            Purpose::KillOne => encode::simple(&mut out, b"OK"),
            Purpose::Track(wanted) => {
                let wanted = core::mem::take(&mut **wanted);
                if self.track_to(asked.client, wanted, &answers) {
                    self.answer_when_told(now, asked);
                    return 0;
                }
                reject::write(&mut out, reject::REDIRECT_NOBODY);
            }
            Purpose::Config(wish) => config::write(&mut out, wish, &answers, protocol),
            Purpose::Acl => acl::write_done(&mut out, &answers),
            Purpose::AclLog(count) => {
                let ahead_us = self.settings.unix_ahead_us;
                let unix_ms = move |at: Time| ahead_us.saturating_add(at.0) / 1_000;
                let unix_ms = self.facts.is_since(7, 2).then_some(unix_ms);
                acl::write_log(&mut out, now, answers, *count, protocol, unix_ms);
            }
            Purpose::Info(wish) => self.write_info(&mut out, wish, answers, facts, protocol),
        }
        self.answer_asked(now, asked, &out);
        out.len()
    }

    /// The reply to what all workers were asked takes its place.
    pub(crate) fn answer_asked(&mut self, now: Time, asked: Asked, reply: &[u8]) {
        if let Some(asking) = asked.observed {
            self.observe_asked(now, asked.client, asking, reply);
        }
        match asked.inside {
            None => self.deliver(asked.client, asked.seq, 1, asked.silent, reply),
            Some(at) => self.answer_inside_late(asked.client, at, reply),
        }
        if let Some(noted) = asked.noted {
            self.enter_noted(noted);
        }
    }
}

/// Whether so many arguments, the command included, fit the row.
pub(crate) fn arity_fits(command: CommandId, count: usize) -> bool {
    let arity = i64::from(command.row().arity);
    let count = count as i64;
    if arity >= 0 { count == arity } else { count >= -arity }
}
