//! What one worker tells the others: of the topology, so that servers are asked once for all of them, of shards and peers that fail, of
//! scripts, of CONFIG, of how many listen to topics, of changed keys, and what monitors are to see.
//!
//! ```text
//!   worker 3 ── Wanted ──▶ worker 0 ── CLUSTER SLOTS ──▶ a server
//!   worker 1, 2, 3 … ◀──── Answer ──── worker 0 ◀──────── its answer
//!   worker 1, 2, 3 … ◀──── Script ──── the worker whose client said SCRIPT LOAD
//! ```
//! The first worker is the one that asks for topologies. The others tell it when they see a sign that what is known is stale, and take its
//! answers in as if they had asked themselves. So a cluster sees one question however many workers there are, and a message of a
//! sentinel reaches all.
//!
//! What it deliberately is not: shared state. Each worker has its own table, which a redirect patches at once; nothing is locked.
//!
//! Not here: how news travel (`server/src/worker/mailbox.rs`), when a server is asked (`topology::refresh`).
//!
//! Invariant: a worker that is not the first one never asks for a topology, and has at most one `Wanted` per pool under way.

use crate::engine::{Action, Engine};
use crate::ids::NodeId;
use crate::monitor::MonitorNews;
use crate::node::Address;
use crate::time::Time;
use crate::topology::refresh::Sign;
use crate::upstream::inflight::OwnCommand;
use alloc::string::String;
use alloc::sync::Arc;

/// Something that other workers are to know. The caller carries it to them ([`Action::Tell`]) and hands it to [`Engine::handle_news`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Which pool it is about.
    pub(crate) pool: u16,
    /// Of which servers: workers replace them one after the other.
    pub(crate) generation: u32,
    pub(crate) what: What,
}

/// See [`News`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// There was a sign that what is known is stale.
    Wanted(Sign<Address>),
    /// A server answered a question.
    Answer {
        /// Who.
        from: Address,
        /// Which, and when it was written.
        question: (OwnCommand, Time),
        /// The reply as it came.
        reply: Arc<[u8]>,
    },
    /// Nobody answers; why, in words.
    Failed(String),
    /// A shard could not be used.
    ShardFailed,
    /// A shard is left out, or takes part again.
    ShardOut(bool),
    /// A node of a cluster could not be reached, and takes connections again.
    NodeBack(Address),
    /// Another respool of the facade is dead, or lives again.
    Peer {
        /// Of its address among those announced.
        index: usize,
        /// Dead.
        down: bool,
    },
    /// How many listen to topics at this worker.
    Listeners {
        /// Which.
        worker: u32,
        /// Those whose number changed.
        topics: Arc<[crate::pubsub::Listeners]>,
    },
    /// Keys changed that a client of this number is told of.
    Changed {
        /// Its number.
        client: u64,
        /// Which.
        changed: crate::tracking::Changed,
    },
    /// A client loaded this script on all servers.
    Script(Arc<[u8]>),
    /// A client had the servers forget all scripts.
    NoScripts,
    /// A client changed the servers' configuration in what the proxy has a share in.
    Config(crate::overheard::Change),
    /// A worker's script is what the server is busy with.
    Busy {
        /// Which worker.
        worker: u32,
        /// It is no more, otherwise.
        is_busy: bool,
    },
    /// Of a client that is shown the requests of all.
    Monitor(MonitorNews),
}

/// Whom [`Action::Tell`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The first worker.
    First,
    /// Every worker but the one that tells.
    Others,
    /// This one.
    Worker(u32),
}

/// Of a tenant's engines and those of the logins at its servers (see `login`), whom news are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The tenant's: they ask the servers for all of them.
    Asker,
    /// All: it is about the servers.
    All,
    /// Those of the tenant or of the login whose engine tells it: it is about clients.
    Same,
}

impl News {
    /// See [`Reach`].
    #[must_use]
    pub fn reach(&self) -> Reach {
        match self.what {
            What::Wanted(_) | What::ShardFailed => Reach::Asker,
            What::Answer { .. } | What::Failed(_) | What::ShardOut(_) | What::Peer { .. } => {
                Reach::All
            }
            _ => Reach::Same,
        }
    }
}

impl Engine {
    /// Whether this is the worker that asks for topologies, for all of them.
    #[inline]
    pub(crate) fn asks(&self) -> bool {
        self.settings.is_first()
    }

    /// Tells the first worker that a topology is wanted, once until there is an answer.
    pub(crate) fn pass_wish_on(&mut self, pool: u16, sign: Sign<NodeId>) {
        let sign = sign.map(|node| self.nodes.get(node).map(|node| node.address.clone()));
        let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return };
        if !core::mem::replace(&mut state.refresh.wish_passed_on, true) {
            let news = self.news(pool, What::Wanted(sign));
            self.actions.push_back(Action::Tell(Audience::First, news));
        }
    }

    pub(crate) fn news(&self, pool: u16, what: What) -> News {
        News { pool, generation: self.generation, what }
    }

    /// Tells the others, if there are any.
    pub(crate) fn tell_others(&mut self, pool: u16, what: What) {
        // Engines of logins, of this worker too, are told by those of their tenant.
        if self.settings.workers > 1 || self.settings.pass_through {
            self.actions.push_back(Action::Tell(Audience::Others, self.news(pool, what)));
        }
    }

    pub(crate) fn tell_answer(
        &mut self,
        pool: u16,
        from: Address,
        question: (OwnCommand, Time),
        reply: &[u8],
    ) {
        if self.settings.workers > 1 || self.settings.pass_through {
            let what = What::Answer { from, question, reply: Arc::from(reply) };
            self.keep_told(pool, &what);
            self.tell_others(pool, what);
        }
    }

    /// Keeps the last answer to each question for the engines of logins that begin later.
    fn keep_told(&mut self, pool: u16, what: &What) {
        let What::Answer { question: (question, _), .. } = what else { return };
        if !self.settings.pass_through || self.settings.login.is_some() {
            return;
        }
        let is_older = |news: &News| {
            let same =
                |of: &What| matches!(of, What::Answer { question: (of, _), .. } if of == question);
            news.generation != self.generation || (news.pool == pool && same(&news.what))
        };
        self.words.told.retain(|news| !is_older(news));
        let news = self.news(pool, what.clone());
        self.words.told.push(news);
    }

    /// What is known of who owns what, as servers told it.
    pub(crate) fn told(&self) -> impl Iterator<Item = News> {
        self.words.told.iter().filter(|news| news.generation == self.generation).cloned()
    }

    /// Another worker has news.
    pub fn handle_news(&mut self, now: Time, news: News) {
        let News { pool, generation, what } = news;
        let what = match what {
            What::Peer { index, down } => return self.hear_of_peer(index, down),
            What::Listeners { worker, topics } => return self.hear_listeners(worker, &topics),
            What::Changed { client, changed } => {
                self.push_changed_to(client, &changed);
                return;
            }
            What::Monitor(news) => return self.hear_of_monitor(news),
            What::Config(change) => return self.take_over(change),
            What::Busy { worker, is_busy } => return self.hear_of_busy(worker, is_busy),
            what => what,
        };
        if generation != self.generation {
            // Of other servers than ours. Whoever lacks it asks for it.
            return;
        }
        let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return };
        match what {
            What::Peer { .. }
            | What::Listeners { .. }
            | What::Changed { .. }
            | What::Config(_)
            | What::Busy { .. }
            | What::Monitor(_) => {}
            What::ShardFailed => self.shard_failed(now, pool),
            What::ShardOut(out) => self.hear_of_shard(now, pool, out),
            What::NodeBack(address) => {
                if let Some(node) = self.known_node(pool, &address) {
                    self.try_others(now, node);
                }
            }
            What::Script(body) => self.scripts.learn(body),
            What::NoScripts => self.forget_scripts(),
            What::Wanted(sign) => {
                // The other worker's table may be older than ours.
                let sign = sign.map(|address| self.known_node_at(pool, &address));
                self.heed_sign(pool, sign);
            }
            What::Answer { from, question, reply } => {
                let what = What::Answer { from: from.clone(), question, reply: reply.clone() };
                self.keep_told(pool, &what);
                let Some(state) = self.router.pools.get_mut(usize::from(pool)) else { return };
                state.refresh.wish_passed_on = false;
                state.refresh.cause.clear();
                let from = self.find_node(pool, &from);
                if let Ok(Some((value, _))) = resp::value::parse(&reply) {
                    // It was of use to the one that tells it, so it is to us.
                    let _ = self.take_answer(now, pool, from, question, &value);
                }
            }
            What::Failed(cause) => {
                state.refresh.wish_passed_on = false;
                state.refresh.cause = cause;
            }
        }
    }
}
