//! What runs beside the workers, on the main thread and a few that wait for it.
//!
//! ```text
//!   signals ──┐                                 ┌─ Drain, Stop ─────────▶ every worker
//!   file ─────┼─ Order ─▶ Control, one at a time┼─ Configure, Question ─▶ every worker ─ Answer ─┐
//!   HTTP ─────┤     ▲                           │                                                │
//!   workers ──┘     │                           └─ the reply to whoever asked                    │
//!                   └────────────────────────────────────────────────────────────────────────────┘
//! ```
//! `apart` reads a configuration on another thread, `certificates` reads what TLS needs, `changes` decides what another configuration means and has the workers change, `users` does so for the users, `rounds` collects what all workers say to one question,
//! `signals` and `file` tell what happened outside, `resolver` looks names up.
//!
//! What it deliberately is not: on the path of a request. When this thread hangs, requests go on.
//!
//! Invariant: orders are carried out one after the other, so there is one configuration at a time.

mod apart;
pub mod certificates;
mod changes;
pub(crate) mod extensions;
mod file;
pub mod resolver;
mod rounds;
pub mod signals;
mod users;

use crate::admin::AdminSettings;
use crate::descriptors::{Allotment, Descriptors};
use crate::export::Outlet;
use crate::listeners::{Listeners, Share};
use crate::log::Logging;
use crate::sources::Sources;
use crate::tenants::Registry;
use crate::worker::mailbox::{Message, Post, Upward};
use apart::Apart;
use certificates::Certificates;
use changes::Replier;
use config::options::OptionSpec;
use config::{Change, Given, Loaded, OptionValue};
use engine::acl::Users;
use engine::fleet::{Answer, Question, ReplyTo};
use file::Watch;
use rounds::Rounds;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot::Sender;
use tokio::sync::watch;

/// What somebody wants of the control thread.
#[derive(Debug)]
pub enum Order {
    /// SIGTERM or SIGINT, by its name.
    End(&'static str),
    /// `timeouts.lame_duck_ms` are over.
    LameDuckOver,
    /// SIGHUP: the file is to be read again.
    Reload,
    /// The file may have changed.
    FileChanged,
    /// A worker says something.
    Worker(Upward),
    /// Whoever looks after the proxy, by HTTP.
    Admin(AdminOrder),
    /// Another thread has finished a reading.
    Read,
    /// All workers have ended; false: one of them by a bug.
    Ended(bool),
}

/// An option, and the words that it is to have; `None`: what the file says.
pub(crate) type Wish = (&'static OptionSpec, Option<Vec<String>>);

/// What comes by HTTP, each with where the answer goes. That may have gone away meanwhile, which is no matter of ours.
#[derive(Debug)]
pub enum AdminOrder {
    /// Ask every worker.
    Ask(Question, Sender<Vec<Answer>>),
    /// The configuration's file, all options, and those that wait for a restart.
    Values(Sender<(String, Vec<OptionValue>, Vec<Change>)>),
    /// Change these options, or only tell what would change.
    Change(Vec<Wish>, bool, Sender<Result<Vec<Change>, String>>),
    /// Read the file again.
    Reload(Sender<Result<Vec<Change>, String>>),
    /// Write changes into the file.
    Rewrite(Sender<Result<(), String>>),
    /// Say that nobody is to be sent here, or the opposite.
    Drain(bool, Sender<()>),
    /// Whether nobody is to be sent here.
    IsDrained(Sender<bool>),
}

/// Where orders go.
pub type Orders = UnboundedSender<Order>;

/// Where they come from. Unbounded by type, bounded by what is sent: each signal and change of the file one, each client's question one, and
/// each answer of a worker one.
pub type Inbox = UnboundedReceiver<Order>;

/// A new way for orders.
pub fn orders() -> (Orders, Inbox) {
    unbounded_channel()
}

/// See the module.
pub struct Control<S> {
    /// The ways to the workers, in their order.
    posts: Vec<Post<S>>,
    orders: Orders,
    sources: Sources,
    /// What stood in the file when it was last taken over.
    text: Option<String>,
    /// What was changed since, and is not in the file.
    changes: Vec<Given>,
    /// The configuration in force.
    loaded: Loaded,
    /// Options that stand otherwise in the file and wait for a restart.
    pending: Vec<Change>,
    certificates: Certificates,
    /// Where clients come in.
    listeners: Listeners,
    tenants: Registry,
    /// Each worker's share of listeners that it does not know yet.
    shares: Vec<Share>,
    /// The users in force: those of the configuration, and what was changed since.
    users: Arc<Users>,
    logging: Logging,
    outlet: Outlet,
    descriptors: Descriptors,
    /// What each part gets of them.
    share: Allotment,
    watch: Option<Watch>,
    apart: Apart<S>,
    rounds: Rounds<Replier>,
    /// Until when deployments may be told something that are mirrors no more.
    mirrors_leave_until: Option<Instant>,
    phase: Phase,
    /// Nobody is to be sent here, says `/readyz`.
    drained: bool,
    admin: watch::Sender<Arc<AdminSettings>>,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody asked for it.
    Serving,
    /// SIGTERM came. Clients are still accepted, and `/readyz` says no.
    LameDuck,
    /// No clients are accepted; those that are there get what they are owed.
    Draining,
}

/// What a [`Control`] begins with.
pub struct Begin<S> {
    /// The ways to the workers, in their order.
    pub posts: Vec<Post<S>>,
    /// Where it takes orders, so that others can be told.
    pub orders: Orders,
    /// Where the configuration came from.
    pub sources: Sources,
    /// What stood in the file.
    pub text: Option<String>,
    /// What became of it.
    pub loaded: Loaded,
    /// What it says of TLS.
    pub certificates: Certificates,
    /// Its listeners.
    pub(crate) listeners: Listeners,
    /// Its tenants.
    pub(crate) tenants: Registry,
    /// The log.
    pub logging: Logging,
    /// Where spans and alarms go.
    pub outlet: Outlet,
    /// What was open at the start, and what each part gets of what may be.
    pub(crate) descriptors: (Descriptors, Allotment),
    /// Tells the admin listener what holds for it.
    pub(crate) admin: watch::Sender<Arc<AdminSettings>>,
}

impl<S: 'static> Control<S> {
    /// One that looks after these workers.
    pub fn new(begin: Begin<S>) -> Self {
        let Begin { posts, orders, sources, text, loaded, certificates, .. } = begin;
        let Begin { listeners, tenants, logging, outlet, admin, .. } = begin;
        let (descriptors, share) = begin.descriptors;
        let users = loaded.config.users.clone();
        let mut control = Self {
            posts,
            orders,
            sources,
            text,
            changes: Vec::new(),
            loaded,
            pending: Vec::new(),
            certificates,
            listeners,
            tenants,
            shares: Vec::new(),
            users,
            logging,
            outlet,
            descriptors,
            share,
            watch: None,
            apart: Apart::default(),
            rounds: Rounds::default(),
            mirrors_leave_until: None,
            phase: Phase::Serving,
            drained: false,
            admin,
        };
        control.follow_file();
        control
    }

    /// Carries out orders until all workers have ended; false: one of them by a bug.
    pub async fn run(mut self, mut inbox: Inbox) -> bool {
        while let Some(order) = inbox.recv().await {
            match self.unless_it_waits(order) {
                Some(Order::Ended(sound)) => return sound,
                Some(order) => self.carry_out(order),
                None => {}
            }
        }
        true
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::End(signal) => self.end(signal),
            Order::LameDuckOver => self.drain(),
            Order::Reload => {
                self.reopen_log();
                self.reload("SIGHUP", None);
            }
            Order::FileChanged => self.file_changed(),
            Order::Worker(Upward::Config(to, wish)) => self.config_wish(to, wish),
            Order::Worker(Upward::Acl(to, wish)) => self.acl_wish(to, wish),
            Order::Worker(Upward::Answer(ticket, answer)) => self.answered(ticket, answer),
            Order::Admin(order) => self.admin_order(order),
            Order::Read => self.was_read(),
            Order::Ended(_) => {}
        }
    }

    fn admin_order(&mut self, order: AdminOrder) {
        match order {
            AdminOrder::Ask(question, reply) => {
                let to = self.rounds.begin(self.posts.len(), Replier::Answers(reply));
                let ask = |post: &Post<S>| post.send(Message::Question(to, question.clone()));
                self.posts.iter().for_each(ask);
            }
            AdminOrder::Values(reply) => {
                let file = self.sources.file_name();
                let _ = reply.send((file, self.loaded.values(), self.pending.clone()));
            }
            AdminOrder::Change(wishes, dry_run, reply) => self.change(wishes, dry_run, reply),
            AdminOrder::Reload(reply) => self.reload("POST /config/reload", Some(reply)),
            AdminOrder::Rewrite(reply) => {
                self.rewrite(&|_| true, move |_, done| drop(reply.send(done)));
            }
            AdminOrder::Drain(drained, reply) => {
                if self.drained != drained {
                    tracing::info!(drained, "/readyz says otherwise now");
                }
                self.drained = drained;
                let _ = reply.send(());
            }
            AdminOrder::IsDrained(reply) => {
                let _ = reply.send(self.drained || self.phase != Phase::Serving);
            }
        }
    }

    /// Whoever rotates the log moved its file away; also where the configuration cannot be read just now.
    fn reopen_log(&self) {
        if let Err(error) = self.logging.reopen(&self.loaded.config.log) {
            tracing::error!("the log goes on into the file as it was: {error}");
        }
    }

    /// SIGTERM begins the time as a lame duck, if there is one. Any further signal, or SIGINT, drains; the next one ends at once.
    fn end(&mut self, signal: &str) {
        let lame_duck_ms = self.loaded.config.timeouts.lame_duck_ms;
        match self.phase {
            Phase::Serving if signal == "SIGTERM" && lame_duck_ms > 0 => {
                self.phase = Phase::LameDuck;
                tracing::info!(
                    signal,
                    lame_duck_ms,
                    "/readyz says no, clients are still accepted; a second signal drains at once"
                );
                let orders = self.orders.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(lame_duck_ms)).await;
                    // The control thread may have ended a moment ago.
                    let _ = orders.send(Order::LameDuckOver);
                });
            }
            Phase::Serving | Phase::LameDuck => {
                tracing::info!(signal, "asked to end; a further signal ends at once");
                self.drain();
            }
            Phase::Draining => self.posts.iter().for_each(|post| post.send(Message::Stop)),
        }
    }

    /// No clients are accepted any more.
    fn drain(&mut self) {
        if self.phase == Phase::Draining {
            return;
        }
        self.phase = Phase::Draining;
        tracing::info!("draining: no new clients, the others get what they are owed");
        let drain_ms = self.loaded.config.timeouts.drain_ms;
        self.posts.iter().for_each(|post| post.send(Message::Drain(drain_ms)));
    }

    /// A worker answered a question of this thread.
    fn answered(&mut self, ticket: u64, answer: Answer) {
        if let Some((replier, answers)) = self.rounds.answered(ticket, answer) {
            self.finish(replier, answers);
        }
    }

    /// The answer to a client's question.
    fn reply(&self, to: ReplyTo, answer: Answer) {
        if let engine::fleet::Questioner::Worker(index) = to.who
            && let Some(post) = self.posts.get(index)
        {
            post.send(Message::Answer(to, answer));
        }
    }
}
