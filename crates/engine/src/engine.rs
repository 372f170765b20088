//! The state of one worker, and how the caller gets at what is to be done.
//!
//! The behaviour stands in the modules beside it, one concern each: `lifecycle` (clients come and go), `request`, `transfer`,
//! `reply`, `connect`, `timers`, `local`. All of them are `impl Engine`.
//!
//! Invariant: see [`Engine::check_invariants`].

use crate::account::Account;
use crate::acl;
use crate::bigkeys::BigKeys;
use crate::busy::Busy;
use crate::client::{Client, Hold};
use crate::coalesce::Coalescer;
use crate::command::Learned;
use crate::cork::Cork;
use crate::dirty::DirtyUpstreams;
use crate::elsewhere::Elsewhere;
use crate::fleet::{Answer, Question, ReplyTo};
use crate::functions::Readers;
use crate::grants::Grants;
use crate::hotkeys::HotKeys;
use crate::ids::{ClientId, ClientKind, MergeKind, NodeId, Slab, UpstreamId, UpstreamKind};
use crate::inside::Assemblies;
use crate::lease::Use;
use crate::lifecycle::Numbers;
use crate::login::Said;
use crate::login::words::Words;
use crate::merge::{Merge, Spare};
use crate::mirror::{Mirrors, is_mirrors};
use crate::monitor::Watch;
use crate::near::Near;
use crate::news::{Audience, News};
use crate::node::Nodes;
use crate::observed::Observer;
use crate::parked::ParkedRequests;
use crate::peers::Peers;
use crate::policy;
use crate::pool::BufferPool;
use crate::pubsub::Subscriptions;
use crate::questions::OpenQuestions;
use crate::scatter::Scratch;
use crate::scripts::Scripts;
use crate::settings::Settings;
use crate::slowlog::SlowLog;
use crate::stats::Stats;
use crate::stats::monitors::Monitors;
use crate::stats::tally::Tally;
use crate::tenancy::TenantId;
use crate::time::Time;
use crate::timers::Sweep;
use crate::topology::{Router, shards_of};
use crate::tracking::Caches;
use crate::unblock::Unblock;
use crate::upstream::greeting::ServerFacts;
use crate::upstream::inflight::{Owner, Run};
use crate::upstream::roles::{Opening, Roles};
use crate::upstream::{Lane, Role, Upstream, UpstreamKey};
use crate::waiters::Waiters;
use crate::whole::Group;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

/// What the caller must do. Carried out after the sends of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Resolve the node's name and connect; ends in `handle_upstream_connected` or `handle_upstream_closed`.
    Connect(UpstreamId),
    /// Close the socket of this upstream (which may be a connect under way). No event of it may follow.
    CloseUpstream(UpstreamId),
    /// Close the socket of this client, whose id is stale already. No event of it may follow.
    CloseClient(ClientId),
    /// Reset the connection of this client, which did not read, so that the kernel drops its unsent bytes. Otherwise as [`Action::CloseClient`].
    ResetClient(ClientId),
    /// Read from the client, or stop reading.
    ReadClient(ClientId, bool),
    /// Read from the upstream, or stop reading.
    ReadUpstream(UpstreamId, bool),
    /// Carry the question to every worker and bring the answers to [`Engine::answer`] under this ticket.
    Ask(u64, Question),
    /// Carry the answer to the engine that asked; [`Engine::answer`] had none yet.
    Answer(ReplyTo, Answer),
    /// Carry the news to other workers' [`Engine::handle_news`].
    Tell(Audience, News),
    /// The client belongs to this tenant, and waits to be taken there: [`Engine::release_client`] here and [`Engine::admit_client`] there, or
    /// [`Engine::keep_client`] here if that cannot be.
    Move(ClientId, TenantId),
    /// A server takes what the client said for a login of its own: it waits to be taken to the engine that has it ([`Settings::for_login`]), as with
    /// [`Action::Move`].
    LogIn(ClientId, Box<Said>),
}

/// What happened that an operator may want to know. The caller logs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The node answers.
    NodeReady {
        /// Its label.
        node: String,
        /// Database and protocol of the connection.
        key: UpstreamKey,
        /// Name and version of the server, if it told.
        server: String,
        /// It is the connection that tells whether the node is up; the others come and go with what clients ask for.
        main: bool,
    },
    /// The node could not be reached, or the greeting was refused. Told for the first failure of a row.
    NodeDown {
        /// Its label.
        node: String,
        /// Database and protocol of the connection.
        key: UpstreamKey,
        /// In words.
        cause: String,
    },
    /// Another respool of the facade is dead and not shown to clients any more, or lives again.
    Peer {
        /// As announced.
        address: String,
        /// Dead.
        down: bool,
    },
    /// A connection ended while requests waited for replies.
    UpstreamLost {
        /// Label of the node.
        node: String,
        /// In words.
        cause: String,
        /// Requests that were answered with an error.
        requests: usize,
    },
    /// A server refused a frame as no protocol and closed the connection: a defect of the scanner.
    FrameRefused {
        /// Label of the node.
        node: String,
        /// The command and the lengths of the frame.
        shape: String,
    },
    /// A node is asked who owns what.
    TopologyAsked {
        /// Its label.
        node: String,
    },
    /// A node told who owns what.
    TopologyTold {
        /// Label of the node.
        node: String,
        /// What is known with it, in words.
        state: String,
        /// Something has another owner than before.
        changed: bool,
    },
    /// Whoever was asked did not tell who owns what.
    TopologyFailed {
        /// In words, with the node.
        cause: String,
    },
    /// A shard is left out, or takes part again.
    Shard {
        /// Its name.
        name: String,
        /// Left out.
        out: bool,
    },
    /// A key came so often that the operator wants to know. Told once for each window.
    HotKey {
        /// As text.
        key: String,
        /// How often it came in this window up to now, at this worker; an estimate.
        count: u64,
        /// Length of the window, in seconds.
        window_s: u64,
        /// Label of its node.
        node: String,
    },
    /// A request or reply was large. Told once in a while for each key.
    BigKey {
        /// As text; empty if it is not known.
        key: String,
        /// Name of the command.
        command: String,
        /// `request` or `reply`.
        direction: &'static str,
        /// Bytes of the largest.
        bytes: u64,
        /// Most elements of one.
        elements: u64,
        /// Address of the client.
        addr: String,
        /// Label of the node.
        node: String,
    },
    /// A mirror did not get everything. Told once in a while, with what came to it since.
    Mirror {
        /// Its name.
        name: String,
        /// Writes that it refused, or of which nobody knows whether it did them.
        failed: u64,
        /// Writes that were never sent to it.
        dropped: u64,
        /// Writes of which nobody knows whether the primary did them.
        unsure: u64,
        /// The last cause, in words.
        sample: String,
    },
    /// One that is no mirror any more is told nothing more.
    MirrorGone {
        /// Its name.
        name: String,
        /// Writes that it did, since it was one.
        done: u64,
        /// Those that it did not get, or perhaps; each was counted by its cause.
        missed: u64,
    },
    /// A read target failed and is left out, or answers again.
    ReadTarget {
        /// Its name.
        name: String,
        /// Left out.
        out: bool,
        /// Why, in words; empty if it is back.
        cause: String,
    },
    /// An operator's program failed. Told for the first failure of a row.
    ProgramFailed {
        /// Name of its rule.
        name: String,
        /// One of `policy::own::FAILURES`.
        cause: &'static str,
    },
    /// An operator's program has something to say.
    ProgramLine {
        /// Name of its rule.
        name: String,
        /// As it wrote it.
        line: String,
    },
    /// A client was closed for a reason that it may complain about.
    ClientClosed {
        /// Its number.
        client: u64,
        /// Its address.
        addr: String,
        /// In words.
        cause: String,
    },
}

/// `CLIENT PAUSE` in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    pub(crate) until: Time,
    pub(crate) writes_only: bool,
}

/// The proxy of one worker. See the crate's head for how to drive it.
#[derive(Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) clients: Slab<ClientKind, Client>,
    pub(crate) numbers: Numbers,
    /// The servers behind.
    pub(crate) nodes: Nodes,
    /// The one that was configured, or a cluster's first seed.
    pub(crate) first_node: NodeId,
    /// Who owns which keys.
    pub(crate) router: Router,
    /// The other respools of the facade.
    pub(crate) peers: Peers,
    /// How often the servers were replaced by others (see `replace`).
    pub(crate) generation: u32,
    /// How often a slot got another owner, or a connection another one in its place (see `topology`).
    pub(crate) route_epoch: u32,
    /// Until when slots and nodes count as on the move (see `overtaken`).
    pub(crate) unsettled_until: Time,
    pub(crate) topology_waiters: Vec<ClientId>,
    /// Requests on their way to another server.
    pub(crate) parked: ParkedRequests,
    /// For requests that are split.
    pub(crate) scratch_parts: Scratch,
    /// Lists of requests that were split, for the next one.
    pub(crate) spare: Spare,
    /// For transactions that came whole.
    pub(crate) scratch_groups: Vec<Group>,
    /// Requests whose parts are under way.
    pub(crate) merges: Slab<MergeKind, Merge>,
    pub(crate) upstreams: Slab<UpstreamKind, Upstream>,
    /// The upstream that new requests of a key use. Others (retired, for transfers) are in the slab only.
    pub(crate) by_key: BTreeMap<UpstreamKey, UpstreamId>,
    pub(crate) pool: BufferPool,
    pub(crate) stats: Stats,
    /// Clients that are not read.
    pub(crate) grants: Grants,
    /// Replies that are not counted yet.
    pub(crate) tally: Tally,
    /// Which commands the operator has an eye on.
    pub(crate) monitors: Monitors,
    pub(crate) slowlog: SlowLog,
    /// What is kept beside the users.
    pub(crate) acl: acl::Kept,
    /// What the settings said of it; `Settings::slowlog` may be what somebody told the servers since.
    pub(crate) slowlog_told: crate::slowlog::Options,
    /// Which keys come most often.
    pub(crate) hotkeys: HotKeys,
    /// Which requests and replies are large.
    pub(crate) bigkeys: BigKeys,
    /// Which requests somebody wants to be told of.
    pub(crate) observer: Observer,
    pub(crate) facts: ServerFacts,
    pub(crate) learned: Option<Learned>,
    pub(crate) scripts: Scripts,
    pub(crate) learning: crate::learn::Learning,
    pub(crate) dirty_clients: Vec<ClientId>,
    /// Whose replies wait for more of them.
    pub(crate) cork: Cork,
    pub(crate) dirty_upstreams: DirtyUpstreams,
    /// Reads that may be shared.
    pub(crate) coalescer: Coalescer,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) notices: VecDeque<Notice>,
    /// Clients whose hold may be over; looked at once a turn.
    pub(crate) resume: VecDeque<ClientId>,
    pub(crate) pause: Option<Pause>,
    /// Functions that do not write, while writes are paused.
    pub(crate) readers: Readers,
    pub(crate) busy: Busy,
    pub(crate) paused_clients: Vec<ClientId>,
    pub(crate) transfer_waiters: Waiters<NodeId>,
    /// What clients listen to.
    pub(crate) subscriptions: Subscriptions,
    /// What clients may have in their caches.
    pub(crate) caches: Caches,
    /// Which connections serve whom.
    pub(crate) roles: Roles,
    /// Connections for single clients that are being opened.
    pub(crate) opening: Opening,
    /// When each upstream is looked at again.
    pub(crate) deadlines: BTreeSet<(Time, UpstreamId)>,
    /// Who waits for a connection of its own.
    pub(crate) lease_waiters: Waiters<(Use, NodeId)>,
    pub(crate) asked: OpenQuestions,
    /// Answers to EXEC that are being put together.
    pub(crate) assemblies: Assemblies,
    /// Waits that are to end (see `unblock`).
    pub(crate) unblocks: Vec<Unblock>,
    /// Who is shown what is asked for.
    pub(crate) watches: Vec<Watch>,
    pub(crate) next_ticket: u64,
    /// The number of the next question about a reply (see `trust`).
    pub(crate) next_question: u64,
    /// When the command of the proxy's own was written whose reply is looked at.
    pub(crate) own_asked_at: Time,
    pub(crate) random: u64,
    pub(crate) draining: bool,
    pub(crate) sweep: Sweep,
    /// What is held for clients.
    pub(crate) account: Account,
    /// For replies that are built and must be kept.
    pub(crate) scratch: Vec<u8>,
    pub(crate) input_events: u64,
    pub(crate) epoch: u32,
    pub(crate) epoch_clients: u64,
    pub(crate) gone_clients: usize,
    /// How many clients use each of the shared connections of a node; as long as their number.
    pub(crate) conn_clients: Vec<u32>,
    /// What policies keep; `None`: there never were any.
    pub(crate) policy: Option<Box<policy::State>>,
    /// Clients' input is looked at for reads that are shared or kept.
    pub(crate) looks_at_reads: bool,
    /// Replies that are kept.
    pub(crate) near: Option<Box<Near>>,
    /// Other deployments that get what clients write, if there are any.
    pub(crate) mirrors: Option<Box<Mirrors>>,
    /// Held by others for our connections (see `outside`).
    pub(crate) outside_bytes: usize,
    /// Other deployments that answer what clients read, if there are any.
    pub(crate) elsewhere: Option<Box<Elsewhere>>,
    /// What servers are asked about users of theirs, and what logins are told.
    pub(crate) words: Box<Words>,
}

impl Engine {
    /// An engine with no clients and no connections. `seed` feeds the jitter of reconnects and the choice of
    /// requests that are looked at for hot keys, and is the secret of the near cache's hashes. What a configuration names was checked; without it, whatever is asked finds no owner.
    pub fn new(settings: Settings, seed: u64, now: Time) -> Self {
        Self {
            clients: Slab::default(),
            numbers: Numbers::new(settings.worker),
            nodes: Nodes::default(),
            first_node: NodeId::new(0, 0),
            router: Router::new(shards_of(&settings).unwrap_or(None), settings.eject()),
            peers: Peers::new(&settings.facade, now),
            generation: 0,
            route_epoch: 0,
            unsettled_until: Time::default(),
            topology_waiters: Vec::new(),
            parked: ParkedRequests::default(),
            scratch_parts: Scratch::default(),
            spare: Spare::default(),
            scratch_groups: Vec::new(),
            merges: Slab::default(),
            upstreams: Slab::default(),
            by_key: BTreeMap::new(),
            pool: BufferPool::default(),
            stats: Stats::default(),
            grants: Grants::default(),
            tally: Tally::default(),
            monitors: Monitors::new(&settings.monitors),
            observer: Observer::of(&settings, seed),
            slowlog: SlowLog::new(&settings.slowlog),
            slowlog_told: settings.slowlog,
            acl: acl::Kept::default(),
            hotkeys: HotKeys::new(&settings.hotkeys, settings.workers, seed, now),
            bigkeys: BigKeys::new(&settings.bigkeys),
            facts: ServerFacts::default(),
            learned: None,
            scripts: Scripts::new(seed),
            learning: crate::learn::Learning::default(),
            dirty_clients: Vec::new(),
            cork: Cork::default(),
            dirty_upstreams: DirtyUpstreams::default(),
            coalescer: Coalescer::default(),
            actions: VecDeque::new(),
            notices: VecDeque::new(),
            resume: VecDeque::new(),
            pause: None,
            readers: Readers::default(),
            paused_clients: Vec::new(),
            busy: Busy::default(),
            transfer_waiters: Waiters::default(),
            caches: Caches::default(),
            subscriptions: Subscriptions::default(),
            roles: Roles::default(),
            opening: Opening::default(),
            deadlines: BTreeSet::new(),
            lease_waiters: Waiters::default(),
            asked: OpenQuestions::default(),
            assemblies: Assemblies::default(),
            unblocks: Vec::new(),
            watches: Vec::new(),
            next_ticket: 1,
            next_question: 0,
            own_asked_at: Time::default(),
            random: seed,
            draining: false,
            sweep: Sweep::new(now),
            account: Account::new(&settings.limits, settings.workers),
            scratch: Vec::new(),
            input_events: 0,
            epoch: 1,
            epoch_clients: 0,
            gone_clients: 0,
            conn_clients: alloc::vec![0; usize::from(settings.limits.shared_conns.max(1))],
            policy: settings.policies.as_ref().map(|_| Box::default()),
            looks_at_reads: settings.coalesce_reads || settings.cache.enabled,
            near: Near::new(&settings.cache, seed, now),
            mirrors: Mirrors::new(&settings, seed, now),
            outside_bytes: 0,
            elsewhere: Elsewhere::new(&settings, seed, now),
            words: Box::default(),
            settings,
        }
        .begin(now)
    }

    /// Asks for the connections that are wanted before any client comes.
    fn begin(mut self, now: Time) -> Self {
        self.begin_topology(now);
        self.begin_peers();
        self.run_mirrors(now);
        self.run_elsewhere(now);
        self
    }

    /// What to do next, oldest first; `None` when there is nothing.
    #[must_use]
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What happened, oldest first.
    #[must_use]
    #[inline]
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Next upstream with something to send; call [`Self::begin_upstream_send`] for it until that gives nothing.
    #[must_use]
    #[inline]
    pub fn poll_dirty_upstream(&mut self) -> Option<UpstreamId> {
        let id = self.dirty_upstreams.pop()?;
        Some(self.clean(id))
    }

    /// The same, but no connection that clients share: what waits for those may become more.
    #[must_use]
    #[inline]
    pub fn poll_dirty_private_upstream(&mut self) -> Option<UpstreamId> {
        let id = self.dirty_upstreams.pop_first()?;
        Some(self.clean(id))
    }

    /// It is sent now.
    #[inline]
    fn clean(&mut self, id: UpstreamId) -> UpstreamId {
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.out.dirty = false;
            upstream.note_others();
        }
        // Whatever was written in this turn has its deadline by now.
        self.schedule(id);
        id
    }

    /// Next client with something to send; call [`Self::begin_client_send`] for it until that gives nothing.
    #[must_use]
    #[inline]
    pub fn poll_dirty_client(&mut self) -> Option<ClientId> {
        let id = self.dirty_clients.pop()?;
        if let Some(client) = self.clients.get_mut(id) {
            client.out.dirty = false;
        }
        Some(id)
    }

    /// The next buffer for this upstream; it comes back by [`Self::handle_upstream_sent`]. `None`: nothing to send, or one is
    /// in flight.
    #[must_use]
    #[inline]
    pub fn begin_upstream_send(&mut self, id: UpstreamId) -> Option<Vec<u8>> {
        if self.hotkeys.is_on() {
            self.sample_requests(id);
        }
        self.weigh_upstream(id);
        let Some(upstream) = self.upstreams.get_mut(id) else {
            return self.begin_mirror_send(id);
        };
        let buf = upstream.begin_send(self.learned.as_ref(), &mut self.pool)?;
        self.stats.upstream_writes += 1;
        self.stats.upstream_out_bytes += buf.len() as u64;
        upstream.traffic.writes += 1;
        upstream.traffic.out_bytes += buf.len() as u64;
        Some(buf)
    }

    /// The next buffer for this client; it comes back by [`Self::handle_client_sent`].
    #[must_use]
    #[inline]
    pub fn begin_client_send(&mut self, id: ClientId) -> Option<Vec<u8>> {
        let buf = self.clients.get_mut(id)?.out.begin_send()?;
        self.stats.client_out_bytes += buf.len() as u64;
        Some(buf)
    }

    /// A send in flight ended: what was filled meanwhile is to be sent.
    pub fn mark_client_dirty(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id)
            && !client.out.dirty
            && client.out.pending() > 0
        {
            client.out.dirty = true;
            self.dirty_clients.push(id);
        }
    }

    /// A send in flight ended: what was filled meanwhile is to be sent.
    pub fn mark_upstream_dirty(&mut self, id: UpstreamId) {
        match self.upstreams.get(id) {
            Some(upstream) if upstream.out.pending() > 0 => self.touch_upstream(id),
            None if is_mirrors(id) => {
                let now = self.last_mirror_time();
                self.mirror_event(now, id, &mut |engine, id| engine.mark_upstream_dirty(id));
            }
            _ => {}
        }
    }

    /// This upstream has something to send.
    #[inline]
    pub(crate) fn touch_upstream(&mut self, id: UpstreamId) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        match (upstream.role, upstream.key.lane) {
            (Role::Leased(_), _) | (_, Lane::Messages) => {
                self.dirty_upstreams.push_first(id, upstream);
            }
            _ => self.dirty_upstreams.push(id, upstream),
        }
    }

    /// How often clients' input came, since the start. The difference over a wait tells how much it brought.
    #[inline]
    pub fn input_events(&self) -> u64 {
        self.input_events
    }

    /// Number of different clients that sent something since this was last called.
    pub fn end_epoch(&mut self) -> u64 {
        self.epoch = self.epoch.wrapping_add(1);
        core::mem::take(&mut self.epoch_clients)
    }

    /// Number of clients that went since this was last called.
    pub fn take_gone_clients(&mut self) -> usize {
        core::mem::take(&mut self.gone_clients)
    }

    /// Number of clients connected.
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// On how many connections that clients share requests wait to be sent: what a gathering worker makes batches of.
    #[inline]
    pub fn shared_upstreams_dirty(&self) -> usize {
        self.dirty_upstreams.shared_len()
    }

    /// Whether anything waits to be sent.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.shared_upstreams_dirty() > 0 || self.has_private_output()
    }

    /// Whether anything waits to be sent that does not go to a connection that clients share.
    #[inline]
    pub fn has_private_output(&self) -> bool {
        self.dirty_upstreams.has_first() || !self.dirty_clients.is_empty()
    }

    /// Whether nothing of a client is kept any more, not even a request in flight for one that is gone: so it is after a complete drain. What
    /// the proxy asks for itself, now and then, does not count.
    pub fn is_quiet(&self) -> bool {
        let is_own = |run: &Run| matches!(run.owner, Owner::Own(_));
        self.clients.is_empty()
            && self.merges.is_empty()
            && self.parked.is_empty()
            && !self.mirrors_owe_clients()
            && self
                .upstreams
                .iter()
                .all(|(_, up)| up.carried.is_none() && up.inflight.runs().all(is_own))
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What it was told at the start.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Random bytes that nobody can guess, for `ACL GENPASS` and for nonces of encrypted values; without them both are refused. No other engine may get
    /// the same: two values with the same nonce would tell about each other.
    pub fn take_entropy(&mut self, bytes: [u8; 32]) {
        self.scripts.delimiters.stir(&bytes);
        self.acl.entropy = Some(acl::Entropy::new(bytes));
    }

    /// The next number of an own small generator (splitmix64): jitter must differ between workers, nothing more.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Checks what must hold between any two calls; debug builds call it at the end of each turn, tests after each step.
    ///
    /// # Panics
    /// When something does not hold: a bug of ours.
    pub fn check_invariants(&self) {
        for (id, upstream) in self.upstreams.iter() {
            upstream.inflight.check();
            upstream.check_stall();
            assert!(
                upstream.has_socket() || upstream.inflight.is_empty(),
                "requests wait on an upstream without a socket"
            );
            assert!(upstream.out.dirty == self.dirty_upstreams.contains(id));
            if upstream.role == Role::Shared {
                assert_eq!(
                    self.by_key.get(&upstream.key),
                    Some(&id),
                    "a shared upstream that none finds"
                );
            }
        }
        let counted: u32 = self.conn_clients.iter().sum();
        assert_eq!(counted as usize, self.clients.len(), "clients of all connections");
        assert_eq!(self.roles, Roles::of(self.upstreams.iter()), "who uses which connection");
        self.check_deadlines();
        self.check_account();
        self.check_merges();
        self.check_grants();
        self.check_questions();
        self.check_users();
        self.check_policies();
        assert_eq!(self.looks_at_reads, self.settings.coalesce_reads || self.near.is_some());
        self.near.iter().for_each(|near| near.check());
        self.check_mirrors();
        self.check_login();
        self.check_words();
        self.check_lookups();
        self.check_marks();
        for (id, client) in self.clients.iter() {
            client.places.check();
            if let Some(upstream) = client.lease.as_ref().and_then(|lease| lease.upstream) {
                let role = self.upstreams.get(upstream).map(|upstream| upstream.role);
                assert_eq!(role, Some(Role::Leased(id)), "a lease without its connection");
            }
            assert!(
                client.hold != Hold::Drained
                    || client.places.open() > 0
                    || self.resume.contains(&id),
                "a client waits for replies of which none is open"
            );
            if let Hold::Upstream(upstream) = client.hold {
                let waits = self
                    .upstreams
                    .get(upstream)
                    .is_some_and(|up| up.waiters.iter().any(|waiter| waiter == id));
                assert!(waits || self.resume.contains(&id), "a held client that nobody will wake");
            }
            if client.hold == Hold::Topology {
                let waits = self.topology_waiters.contains(&id) || self.resume.contains(&id);
                assert!(waits, "a client waits for an owner of its slot and will not be woken");
            }
            assert!(client.out.dirty == self.dirty_clients.contains(&id));
        }
    }
}
