//! The only way into a worker from another thread.
//!
//! A mailbox is a queue that wakes its worker. What comes by it is rare: accepted clients that another worker has no room for, questions that
//! concern all clients, news of topologies, resolved names, other settings, drain and stop. No request and no reply ever does.
//!
//! Not here: what a message means (`actions`, `accept`).
//!
//! A worker reads its messages at the begin of a turn, and news in front of the other messages also before it looks at a client's request: a client that sends a
//! request because of a reply of another worker finds the news that this worker told before the reply.
//!
//! Invariant: a message that was sent is read in the receiver's next turn, and messages are read in the order of the sending. The queue is unbounded by type and bounded by what is
//! sent: one message per accepted client, question, resolve and signal, each answered before the next of its kind, and of news at most what a
//! topology changes (`engine::news`).

use super::entrance::{Entrances, Newcomer};
use super::gather::GatherOptions;
use super::house::TenantSettings;
use super::tls::TlsSettings;
use engine::acl::Digest;
use engine::fleet::{AclWish, Answer, ConfigWish, Question, ReplyTo};
use engine::news::News;
use engine::tenancy::TenantId;
use engine::{Settings, UpstreamId};
use netio::{Address, Listener, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// What one thread tells a worker.
pub enum Message<S> {
    /// A client for it.
    Client(Newcomer<S>),
    /// A question of a worker, or of the control thread.
    Question(ReplyTo, Question),
    /// The answer to its own question.
    Answer(ReplyTo, Answer),
    /// The node's name is resolved for this upstream, or why it is not.
    Resolved(UpstreamOf, Result<Address, String>),
    /// The addresses that a name has now; `None`: nobody can tell.
    Renewed(Name, Option<Vec<Address>>),
    /// What another worker has to tell the engine of this tenant, or of this login at its servers.
    News(NewsTo, News),
    /// Other settings from now on; answered when they are in force.
    Configure(ReplyTo, Box<Change>),
    /// Take no more clients, end when the others have what they are owed or after so many milliseconds.
    Drain(u64),
    /// End now.
    Stop,
}

/// The tenant of an engine, and the login at its servers if it is one of a login.
pub type NewsTo = (TenantId, Option<Digest>);

/// What is in force in a worker, as far as it can change while it runs.
#[derive(Debug)]
pub struct Change {
    /// For its engine.
    pub settings: Settings,
    /// Those of tenants beside the default one; who is not among them goes.
    pub tenants: Vec<TenantSettings>,
    /// How long clients of those that go have for what they are owed, in milliseconds.
    pub leave_ms: u64,
    /// Batching.
    pub gather: GatherOptions,
    /// Clients of all workers together; one more is turned away.
    pub clients_max: usize,
    /// What holds where clients come in. Listeners that are not in it are closed.
    pub entrances: Entrances,
    /// Its share of the listeners that are new.
    pub listeners: Vec<Listener>,
    /// What sockets are like.
    pub tuning: Tuning,
    /// Certificates, and who speaks TLS.
    pub tls: TlsSettings,
}

/// What a worker tells the control thread.
#[derive(Debug)]
pub enum Upward {
    /// A client wants something of the configuration.
    Config(ReplyTo, ConfigWish),
    /// A client wants something of the users.
    Acl(ReplyTo, AclWish),
    /// The answer to a question of the control thread, under its ticket.
    Answer(u64, Answer),
}

/// How workers reach the control thread; safe to call from any thread.
pub type ToControl = Box<dyn Fn(Upward) + Send + Sync>;

/// Wakes a worker that waits; safe to call from any thread and any number of times.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The receiving end.
pub struct Mailbox<S> {
    receiver: Receiver<Message<S>>,
    /// A message was sent since the worker looked last.
    unread: Arc<AtomicBool>,
    /// The oldest message, if the worker looked for news and found another kind of message.
    kept: Option<Message<S>>,
}

/// The sending end.
pub struct Post<S> {
    sender: Sender<Message<S>>,
    unread: Arc<AtomicBool>,
    wake: Wake,
}

/// A mailbox, and the end that others keep.
pub fn mailbox<S>(wake: Wake) -> (Mailbox<S>, Post<S>) {
    let (sender, receiver) = channel();
    let unread = Arc::new(AtomicBool::new(false));
    let post = Post { sender, unread: Arc::clone(&unread), wake };
    (Mailbox { receiver, unread, kept: None }, post)
}

impl<S> Clone for Post<S> {
    fn clone(&self) -> Self {
        let (sender, unread) = (self.sender.clone(), Arc::clone(&self.unread));
        Self { sender, unread, wake: Arc::clone(&self.wake) }
    }
}

impl<S> Mailbox<S> {
    /// The oldest message, if there is one.
    pub fn take(&mut self) -> Option<Message<S>> {
        self.kept.take().or_else(|| self.receive())
    }

    /// Whether a message was sent since the last look.
    #[inline]
    pub fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }

    /// The oldest message, if it is news.
    pub fn take_news(&mut self) -> Option<(NewsTo, News)> {
        match self.take()? {
            Message::News(to, news) => Some((to, news)),
            other => {
                self.kept = Some(other);
                None
            }
        }
    }

    fn receive(&mut self) -> Option<Message<S>> {
        // Before the look: a message that comes behind it is unread.
        self.unread.store(false, Ordering::Release);
        self.receiver.try_recv().ok()
    }
}

impl<S> Post<S> {
    /// Sends a message. To a worker that has ended it is lost, as everything of that worker is.
    pub fn send(&self, message: Message<S>) {
        if self.sender.send(message).is_ok() {
            self.unread.store(true, Ordering::Release);
            (self.wake)();
        }
    }
}

/// Where a server is by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The name.
    pub host: String,
    /// The port, which becomes a part of each of its addresses.
    pub port: u16,
}

/// Who wants a name resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Index of the worker.
    pub worker: usize,
    /// What it will connect; `None`: it is connected, and looks whether the name still means that ([`Message::Renewed`]).
    pub upstream: Option<UpstreamOf>,
}

impl Asker {
    /// In which line its names stand: that of its tenant, or that of connections which stand.
    pub fn line(&self) -> Line {
        self.upstream.map(|(tenant, _)| tenant)
    }

    /// One of a worker that connects for this tenant.
    #[cfg(test)]
    pub fn of(worker: usize, tenant: u32) -> Self {
        let upstream = Some((TenantId(tenant), UpstreamId::new(worker as u32, 1)));
        Self { worker, upstream }
    }
}

/// See [`Asker::line`].
pub type Line = Option<TenantId>;

/// An upstream of a tenant: when that is gone, another one may have the same id.
pub type UpstreamOf = (TenantId, UpstreamId);

/// A name to be resolved.
pub struct Resolve {
    /// Who asks.
    pub asker: Asker,
    /// What to resolve.
    pub name: Name,
}

/// All workers as each of them sees the others.
pub struct Fleet<S> {
    posts: Vec<Post<S>>,
    resolver: Sender<Resolve>,
    control: ToControl,
    /// Clients of each worker, those on the way to it included.
    loads: Vec<AtomicUsize>,
}

impl<S> Fleet<S> {
    /// The fleet of these workers, in the order of their indexes.
    pub fn new(posts: Vec<Post<S>>, resolver: Sender<Resolve>, control: ToControl) -> Self {
        let loads = posts.iter().map(|_| AtomicUsize::new(0)).collect();
        Self { posts, resolver, control, loads }
    }

    /// Tells the control thread.
    pub fn tell_control(&self, word: Upward) {
        (self.control)(word);
    }

    /// Number of workers.
    pub fn len(&self) -> usize {
        self.posts.len()
    }

    /// Whether there is no worker at all.
    pub fn is_empty(&self) -> bool {
        self.posts.is_empty()
    }

    /// Sends a message to one worker.
    pub fn send(&self, worker: usize, message: Message<S>) {
        if let Some(post) = self.posts.get(worker) {
            post.send(message);
        }
    }

    /// Asks for a name to be resolved; false if nobody resolves any more.
    pub fn resolve(&self, resolve: Resolve) -> bool {
        self.resolver.send(resolve).is_ok()
    }

    /// Chooses the worker for a new client: the one with the fewest, `own` if it is one of them. Counts the client there. `None` if there
    /// are `clients_max` already.
    ///
    /// Two workers may decide at the same moment, so counts can differ by a few more than one; they even out with the next clients.
    pub fn place_client(&self, own: usize, clients_max: usize) -> Option<usize> {
        let load =
            |index: usize| self.loads.get(index).map_or(usize::MAX, |n| n.load(Ordering::Relaxed));
        let total: usize = (0..self.len()).map(load).sum();
        if total >= clients_max {
            return None;
        }
        let least = (0..self.len()).min_by_key(|index| (load(*index), *index != own))?;
        self.loads[least].fetch_add(1, Ordering::Relaxed);
        Some(least)
    }

    /// A client of this worker is gone.
    pub fn client_gone(&self, worker: usize, count: usize) {
        if let Some(load) = self.loads.get(worker) {
            load.fetch_sub(count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(workers: usize) -> Fleet<()> {
        let posts = (0..workers).map(|_| mailbox(Arc::new(|| {})).1).collect();
        Fleet::new(posts, channel().0, Box::new(drop))
    }

    #[test]
    fn clients_go_where_the_fewest_are() {
        let fleet = fleet(4);
        for _ in 0..64 {
            fleet.place_client(2, 1_000).unwrap();
        }
        assert!(fleet.loads.iter().all(|load| load.load(Ordering::Relaxed) == 16));
        fleet.client_gone(1, 3);
        assert_eq!(fleet.place_client(0, 1_000), Some(1));
    }

    #[test]
    fn beyond_the_maximum_there_is_no_place() {
        let fleet = fleet(2);
        assert!((0..5).all(|_| fleet.place_client(0, 5).is_some()));
        assert_eq!(fleet.place_client(0, 5), None);
    }
}
