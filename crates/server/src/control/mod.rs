//! What runs beside the workers, on the main thread and a few that wait for it.
//!
//! ```text
//!   signals ──┐                                 ┌─ Drain, Stop ─────────▶ every worker
//!   file ─────┼─ Order ─▶ Control, one at a time┼─ Configure, Question ─▶ every worker ─ Answer ─┐
//!   workers ──┘     ▲                           └─ the reply to whoever asked                    │
//!                   └────────────────────────────────────────────────────────────────────────────┘
//! ```
//! `changes` decides what another configuration means and has the workers change, `rounds` collects what all workers say to one question,
//! `signals` and `watch` tell what happened outside, `resolver` looks names up.
//!
//! What it deliberately is not: on the path of a request. When this thread hangs, requests go on.
//!
//! Invariant: orders are carried out one after the other, so there is one configuration at a time.

mod changes;
pub mod resolver;
mod rounds;
pub mod signals;
mod watch;

use crate::log::Logging;
use crate::sources::Sources;
use crate::worker::mailbox::{Message, Post, Upward};
use changes::Replier;
use config::{Given, Loaded};
use engine::fleet::{Answer, ReplyTo};
use rounds::Rounds;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use watch::Watch;

/// What somebody wants of the control thread.
#[derive(Debug)]
pub enum Order {
    /// SIGTERM or SIGINT, by its name.
    End(&'static str),
    /// SIGHUP: the file is to be read again.
    Reload,
    /// The file may have changed.
    FileChanged,
    /// A worker says something.
    Worker(Upward),
    /// All workers have ended; false: one of them by a bug.
    Ended(bool),
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
    logging: Logging,
    watch: Option<Watch>,
    rounds: Rounds<Replier>,
    draining: bool,
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
    /// The log.
    pub logging: Logging,
}

impl<S> Control<S> {
    /// One that looks after these workers.
    pub fn new(begin: Begin<S>) -> Self {
        let Begin { posts, orders, sources, text, loaded, logging } = begin;
        let mut control = Self {
            posts,
            orders,
            sources,
            text,
            changes: Vec::new(),
            loaded,
            logging,
            watch: None,
            rounds: Rounds::default(),
            draining: false,
        };
        control.follow_file();
        control
    }

    /// Carries out orders until all workers have ended; false: one of them by a bug.
    pub async fn run(mut self, mut inbox: Inbox) -> bool {
        while let Some(order) = inbox.recv().await {
            match order {
                Order::End(signal) => self.end(signal),
                Order::Reload => self.reload("SIGHUP"),
                Order::FileChanged => self.file_changed(),
                Order::Worker(Upward::Config(to, wish)) => self.config_wish(to, wish),
                Order::Worker(Upward::Answer(ticket, answer)) => self.answered(ticket, answer),
                Order::Ended(sound) => return sound,
            }
        }
        true
    }

    /// The first time drains, the second time ends at once.
    fn end(&mut self, signal: &str) {
        if self.draining {
            self.posts.iter().for_each(|post| post.send(Message::Stop));
            return;
        }
        self.draining = true;
        tracing::info!(
            signal,
            "draining: no new clients, the others get what they are owed; a second signal ends at once"
        );
        let drain_ms = self.loaded.config.timeouts.drain_ms;
        self.posts.iter().for_each(|post| post.send(Message::Drain(drain_ms)));
    }

    /// A worker answered a question of this thread.
    fn answered(&mut self, ticket: u64, answer: Answer) {
        if let Some((replier, answers)) = self.rounds.answered(ticket, answer) {
            self.finish(replier, &answers);
        }
    }

    /// The answer to a client's question.
    fn reply(&self, to: ReplyTo, answer: Answer) {
        if let engine::fleet::Questioner::Worker(index) = to.who
            && let Some(post) = self.posts.get(index)
        {
            post.send(Message::Answer(to.ticket, answer));
        }
    }
}
