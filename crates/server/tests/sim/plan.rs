//! What a seed means: how many workers and clients, which bounds and times, what goes wrong and when.
//!
//! A seed's kind is its remainder modulo 8, so that one number replays a run without naming the test that found it. Seeds from
//! [`SEVERAL_FROM`] on have several servers behind; those from [`CHANGING_FROM`] on have a configuration that changes.
//!
//! Not here: the run itself (`world`), what clients say (`script`).
//!
//! Invariant: a plan depends on its seed and on nothing else.

use engine::Settings;
use engine::acl::Users;
use engine::policy::{Fault, Namespace, Per, Policies, Rate, Rule, Rules, Unit, What};
use engine::route::shard::Route;
use engine::settings::{Limits, OnLoss, Password, Timeouts};
use netio::Address;
use netio::sim::{SimFaults, SimRng};
use std::sync::Arc;

use crate::cluster::Restless;
use crate::mirrored::{MirrorPlan, make_mirrored};
use crate::plan::changing::make_changing;
use crate::plan::several::make_several;

mod changing;
mod several;

pub(crate) use changing::Change;

/// Seeds from here on have several servers behind.
pub(crate) const SEVERAL_FROM: u64 = 1_000_000;

/// In seeds from here on the configuration changes.
pub(crate) const CHANGING_FROM: u64 = 2_000_000;

/// Seeds from here on have a mirror.
pub(crate) const MIRRORED_FROM: u64 = 3_000_000;

/// Of those, seeds from here on have mirrors that come, go and change.
pub(crate) const MIRRORS_CHANGING_FROM: u64 = 4_000_000;

/// Port of the first server behind; the others have those that follow.
pub(crate) const FIRST_PORT: u16 = 7000;

/// The password on seeds that have one.
pub(crate) const PASSWORD: &[u8] = b"open sesame";

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything is cut and delayed, nothing breaks, clients behave: no errors, byte-exact replies.
    Sound,
    /// The server is well; clients and their network are not. Nobody else may notice.
    UnkindClients,
    /// Clients behave; the server dies, freezes, refuses, resets, comes back.
    TroubledServer,
    /// All of it at once.
    Everything,
    /// Large requests and replies through small bounds; the server is well.
    Heavy,
    /// Two thousand clients and more.
    Crowd,
    /// A cluster whose slots move and whose primaries hand over; nothing breaks: no errors, byte-exact replies.
    MovingCluster,
    /// The same, and its nodes die, freeze, lie, and others follow them.
    TroubledCluster,
    /// The same with unkind clients.
    ClusterAndAll,
    /// Servers among which the proxy spreads the keys; they are well: no errors, byte-exact replies.
    Shards,
    /// The same with servers in trouble; on some seeds they are left out then, and the proxy is that of a cache.
    TroubledShards,
    /// A cluster whose copies answer reads, which may be older than what was acknowledged meanwhile; nothing breaks: no errors.
    Replicas,
    /// The same with nodes in trouble.
    TroubledReplicas,
    /// Settings change, and other servers take the place of those that there are; nothing breaks: no errors but for what was tied to the
    /// former servers.
    Reconfigured,
    /// The same, and servers of both are in trouble.
    TroubledReconfigured,
    /// The same with unkind clients.
    ReconfiguredAndAll,
    /// One server and a mirror; nothing breaks: no errors, byte-exact replies, and the mirror has the same data in the end.
    Mirrored,
    /// The same, and the mirror is in trouble: clients notice nothing.
    MirrorAway,
    /// Both are in trouble.
    TroubledMirrored,
    /// Mirrors come, go and get other options; nothing breaks: no errors, and one that was there all the time has the same data in the end.
    ChangingMirrors,
}

impl Kind {
    /// The kind of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        if seed >= MIRRORS_CHANGING_FROM {
            return Self::ChangingMirrors;
        }
        if seed >= MIRRORED_FROM {
            return match seed % 8 {
                0..=2 => Self::Mirrored,
                3..=5 => Self::MirrorAway,
                _ => Self::TroubledMirrored,
            };
        }
        match seed % 8 {
            0..=3 if seed >= CHANGING_FROM => Self::Reconfigured,
            4..=6 if seed >= CHANGING_FROM => Self::TroubledReconfigured,
            7 if seed >= CHANGING_FROM => Self::ReconfiguredAndAll,
            0 | 1 if seed >= SEVERAL_FROM => Self::MovingCluster,
            2 | 3 if seed >= SEVERAL_FROM => Self::TroubledCluster,
            4 if seed >= SEVERAL_FROM => Self::ClusterAndAll,
            5 if seed >= SEVERAL_FROM => Self::Shards,
            6 if seed >= SEVERAL_FROM => Self::TroubledShards,
            7 if seed >= SEVERAL_FROM && seed % 16 == 7 => Self::Replicas,
            7 if seed >= SEVERAL_FROM => Self::TroubledReplicas,
            0 | 1 => Self::Sound,
            2 => Self::UnkindClients,
            3 | 4 => Self::TroubledServer,
            5 => Self::Everything,
            6 => Self::Heavy,
            _ if seed % 64 == 63 => Self::Crowd,
            _ => Self::Everything,
        }
    }

    /// The first seed that may be of this kind.
    pub(crate) fn first_seed(self) -> u64 {
        match self {
            Self::Sound
            | Self::UnkindClients
            | Self::TroubledServer
            | Self::Everything
            | Self::Heavy
            | Self::Crowd => 0,
            Self::Reconfigured | Self::TroubledReconfigured | Self::ReconfiguredAndAll => {
                CHANGING_FROM
            }
            Self::ChangingMirrors => MIRRORS_CHANGING_FROM,
            Self::Mirrored | Self::MirrorAway | Self::TroubledMirrored => MIRRORED_FROM,
            _ => SEVERAL_FROM,
        }
    }

    /// Whether servers and the way to them may fail.
    pub(crate) fn server_fails(self) -> bool {
        matches!(
            self,
            Self::TroubledServer
                | Self::Everything
                | Self::TroubledCluster
                | Self::ClusterAndAll
                | Self::TroubledShards
                | Self::TroubledReplicas
                | Self::TroubledReconfigured
                | Self::ReconfiguredAndAll
                | Self::TroubledMirrored
        )
    }

    /// Whether clients and the way to them may fail.
    pub(crate) fn clients_fail(self) -> bool {
        matches!(
            self,
            Self::UnkindClients | Self::Everything | Self::ClusterAndAll | Self::ReconfiguredAndAll
        )
    }
}

/// What is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One server.
    One,
    /// Servers that know nothing of each other.
    Shards {
        /// How many.
        count: usize,
        /// Those that fail are left out: a key may be on another server the next time, without its value.
        cache: bool,
    },
    /// A cluster.
    Cluster(Restless),
}

/// Something that is done to the server at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Gone: its connections are reset, connects are refused.
    Dead,
    /// It takes bytes and does nothing; when it wakes it does all of it.
    Frozen,
    /// It executes and does not answer.
    Mute,
    /// It is full: an error and a close for each new connection; those that are there are closed.
    Full,
    /// Every connection is closed in the middle of the next reply.
    HalfReplies,
    /// Every connection to it is reset once, on both sides.
    Reset,
    /// Of a cluster's node: it says `CLUSTERDOWN`.
    Down,
    /// Of a cluster's node: it says `LOADING`.
    Loading,
    /// Of a cluster's node: it says `READONLY` to writes.
    ReadOnly,
    /// Of a cluster's node: a copy follows the primary of its shard, though nobody is dead.
    FailOver,
    /// Of a cluster's node: it hears of nothing that does not concern it.
    InTheDark,
    /// It is well again.
    Well,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    pub(crate) workers: usize,
    pub(crate) clients: usize,
    pub(crate) clients_max: usize,
    pub(crate) password: bool,
    pub(crate) settings: Settings,
    pub(crate) client_faults: SimFaults,
    pub(crate) server_faults: SimFaults,
    /// Bytes that all clients together may cause to travel, so that a run of single bytes stays short.
    pub(crate) bytes_budget: usize,
    /// Bursts of each client, at most.
    pub(crate) bursts_max: u64,
    /// Requests of a burst, at most.
    pub(crate) pipeline_max: u64,
    /// Largest value, in bytes.
    pub(crate) value_bytes_max: u64,
    /// What is behind.
    pub(crate) layout: Layout,
    /// What is behind by turns, and where.
    pub(crate) deployments: Vec<(Layout, Vec<Address>)>,
    /// Which of them is at the begin.
    pub(crate) deployment: usize,
    /// Changes of the configuration, sorted by time.
    pub(crate) changes: Vec<Change>,
    /// Not all that is behind has more databases than one.
    pub(crate) one_database: bool,
    /// Servers may refuse a request for a while and take the one behind it: then what a client pipelined is not done in its order, by
    /// whatever way it reaches them.
    pub(crate) reorders: bool,
    /// When what happens to which server, sorted by time (microseconds after the begin).
    pub(crate) troubles: Vec<(u64, usize, Trouble)>,
    /// One of the clients asks CLIENT LIST, KILL, PAUSE and INFO.
    pub(crate) has_admin: bool,
    /// One client asks for megabytes and reads nothing.
    pub(crate) floods: bool,
    /// A bound is so low that well-behaved clients may be closed at it.
    pub(crate) tight: bool,
    /// What happens to the mirror, if there is one.
    pub(crate) mirror: Option<MirrorPlan>,
}

impl Plan {
    /// The plan of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let rng = &mut SimRng::new(seed ^ 0x7265_7370_6f6f_6c00);
        let kind = Kind::of(seed);
        let (client_faults, server_faults) = faults(kind, rng);
        let single = finest_cut(&client_faults).min(finest_cut(&server_faults));
        let crowd = kind == Kind::Crowd;
        let clients = match kind {
            Kind::Crowd => 2_000 + rng.between(0, 400),
            Kind::Heavy => rng.between(1, 8),
            _ => pick(rng, &[1, 2, 5, 12, 30]) + rng.between(0, 8),
        } as usize;
        let workers = rng.between(1, 3) as usize;
        let heavy = kind == Kind::Heavy;
        let mut plan = Self {
            seed,
            kind,
            workers,
            clients,
            clients_max: 100_000,
            password: rng.chance(300_000),
            settings: Settings::default(),
            client_faults,
            server_faults,
            bytes_budget: match single {
                0..=3 => 30_000,
                4..=20 => 120_000,
                _ if heavy => 24 << 20,
                _ => 600_000,
            },
            bursts_max: if crowd { 2 } else { rng.between(1, 12) },
            pipeline_max: if crowd { 3 } else { pick(rng, &[1, 5, 20, 200]) },
            value_bytes_max: match (heavy, single) {
                (true, 100..) => pick(rng, &[20_000, 200_000, 1_500_000]),
                (_, 0..=20) => pick(rng, &[100, 3_000, 9_000]),
                _ => pick(rng, &[100, 10_000, 60_000]),
            },
            layout: Layout::One,
            deployments: Vec::new(),
            deployment: 0,
            changes: Vec::new(),
            one_database: false,
            reorders: false,
            troubles: Vec::new(),
            floods: kind.clients_fail() && single > 100 && rng.chance(600_000),
            has_admin: !crowd && rng.chance(500_000),
            tight: false,
            mirror: None,
        };
        plan.settings = settings(&mut plan, rng);
        if seed >= MIRRORED_FROM {
            if kind.server_fails() {
                plan.troubles = troubles(rng);
            }
            make_mirrored(&mut plan, rng);
        } else if seed >= CHANGING_FROM {
            make_changing(&mut plan, rng);
        } else if seed >= SEVERAL_FROM {
            make_several(&mut plan, rng);
        } else if kind.server_fails() {
            plan.troubles = troubles(rng);
        }
        plan
    }

    /// Where the servers behind listen.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        if !self.deployments.is_empty() {
            return self.deployments.iter().flat_map(|(_, at)| at.clone()).collect();
        }
        let count = match self.layout {
            Layout::One => 1,
            Layout::Shards { count, .. } => count,
            Layout::Cluster(restless) => restless.shards * (1 + restless.replicas),
        };
        let at = |index: usize| ([127, 0, 0, 1], FIRST_PORT + index as u16).into();
        (0..count).map(|index| Address::Tcp(at(index))).collect()
    }

    /// Whether it is a cluster that is behind.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.layout, Layout::Cluster(_))
    }

    /// Whether a reply is, to the byte, what a connection to one well server gives.
    pub(crate) fn is_as_direct(&self) -> bool {
        !(self.kind.server_fails() || self.reorders || self.spreads_reads())
    }

    /// Whether a stream may be cut or delayed so finely that a request is under way for long.
    fn is_slow(&self) -> bool {
        let late = |faults: &SimFaults| faults.delay_us.1 > 500;
        self.finest_cut() < 1_000 || late(&self.client_faults) || late(&self.server_faults)
    }

    /// The smallest piece into which a stream may be cut.
    fn finest_cut(&self) -> usize {
        finest_cut(&self.client_faults).min(finest_cut(&self.server_faults))
    }

    /// What stands at the servers before the keys of clients. Not where the configuration changes: there clients would be closed for it.
    pub(crate) fn namespace(&self) -> &'static str {
        let is_for_it = self.kind != Kind::Crowd && self.seed < CHANGING_FROM;
        if is_for_it && self.seed / 8 % 8 == 7 { "team-a:" } else { "" }
    }

    /// What a server does not see of keys.
    pub(crate) fn removed_at(&self, server: usize) -> Vec<u8> {
        let shards = self.settings.shards.iter();
        let mut routes =
            shards.flat_map(|shards| &shards.sharding.routes).flat_map(|all| &all.list);
        let is_its = |route: &&Route| route.removes && route.shards.contains(&(server as u16));
        routes.find(is_its).map(|route| route.prefix.clone()).unwrap_or_default()
    }

    /// Whether clients have a user with restrictions in an eighth of the runs. None of what they say meets one: so they get what they got, the long way. Not
    /// where the configuration changes, which would end their transactions.
    fn is_confined(&self) -> bool {
        self.kind != Kind::Crowd && self.seed < CHANGING_FROM && self.seed / 8 % 8 == 4
    }

    /// The settings of one worker.
    pub(crate) fn settings_of(&self, worker: usize) -> Settings {
        Settings { worker: worker as u32, workers: self.workers as u32, ..self.settings.clone() }
    }
}

/// One of these by chance.
pub(crate) fn pick(rng: &mut SimRng, of: &[u64]) -> u64 {
    of[rng.between(0, of.len() as u64 - 1) as usize]
}

/// The smallest piece into which these faults may cut a stream.
fn finest_cut(faults: &SimFaults) -> usize {
    let cuts = [
        faults.read_bytes_max,
        faults.write_bytes_max,
        faults.segment_bytes_max,
        faults.socket_bytes_max,
    ];
    cuts.into_iter().min().unwrap_or(usize::MAX)
}

fn faults(kind: Kind, rng: &mut SimRng) -> (SimFaults, SimFaults) {
    let (mut client, mut server) = (SimFaults::cutting(rng), SimFaults::cutting(rng));
    if kind.clients_fail() {
        client = SimFaults::breaking(rng);
    }
    if kind.server_fails() && rng.chance(600_000) {
        server = SimFaults::breaking(rng);
    }
    match kind {
        Kind::Crowd => (SimFaults::none(), SimFaults::none()),
        // Megabytes in single bytes would be all that a run does.
        Kind::Heavy if rng.chance(700_000) => {
            let coarse = |mut faults: SimFaults, rng: &mut SimRng| {
                let pieces = pick(rng, &[1_500, 9_000, 70_000]) as usize;
                faults.read_bytes_max = pieces;
                faults.write_bytes_max = usize::MAX;
                faults.segment_bytes_max = pieces;
                faults.socket_bytes_max = pick(rng, &[4_096, 65_536, 262_144]) as usize;
                faults.delay_us = (10, 10 + pick(rng, &[40, 400]));
                faults
            };
            (coarse(client, rng), coarse(server, rng))
        }
        _ => (client, server),
    }
}

fn settings(plan: &mut Plan, rng: &mut SimRng) -> Settings {
    let mut limits = Limits {
        client_out_high_bytes: pick(rng, &[1_000, 16_000, 1 << 20]) as usize,
        client_out_max_bytes: pick(rng, &[100_000, 64 << 20]) as usize,
        client_in_high_bytes: pick(rng, &[4_096, 70_000, 1 << 20]) as usize,
        client_inflight_max: pick(rng, &[1, 7, 64, 16_384]) as u32,
        upstream_out_high_bytes: pick(rng, &[1_000, 30_000, 4 << 20]) as usize,
        large_request_bytes: pick(rng, &[1_000, 4_096, 40_000, 256 << 10]),
        large_transfers_max: pick(rng, &[1, 2, 16]) as usize,
        ..Limits::default()
    };
    if plan.kind == Kind::Crowd {
        limits.client_inflight_max = 64;
    }
    if matches!(plan.kind, Kind::Everything | Kind::UnkindClients) && rng.chance(250_000) {
        plan.tight = true;
        limits.memory_max_bytes = pick(rng, &[40_000, 300_000]) as usize;
    }
    if matches!(plan.kind, Kind::Everything | Kind::UnkindClients) && rng.chance(150_000) {
        plan.tight = true;
        plan.clients_max = plan.clients.div_ceil(2);
        limits.clients_max = plan.clients_max;
    }
    // In half of the runs what is read goes from one connection to another all the time.
    limits.large_reply_bytes = [1 << 20, 33_000, 200_000, 33_000][(plan.seed / 8 % 4) as usize];
    let mut settings = Settings { limits, ..Settings::default() };
    // In half of the runs, and not by a draw, so that what a seed does stays the same.
    settings.hotkeys.enabled = (plan.seed / 8).is_multiple_of(2);
    settings.hotkeys.sample = 1 + (plan.seed / 16 % 3) as u32;
    settings.bigkeys.bytes_min = 10 << 10;
    settings.coalesce_reads = plan.kind == Kind::Crowd || matches!(plan.seed / 8 % 8, 3..=6);
    settings.cache = engine::near::Options {
        enabled: matches!(plan.seed / 8 % 8, 2..=5),
        min_reads: 1 + (plan.seed / 64 % 3) as u32,
        memory_max_bytes: if (plan.seed / 16).is_multiple_of(4) { 2_000 } else { 1 << 20 },
        // Only what the servers tell drops anything.
        ttl_ms: 3_600_000_000,
        ..engine::near::Options::default()
    };
    // Where nothing fails nothing may be given up, however slowly single bytes travel.
    let patient = Timeouts {
        connect_ms: 3_000_000,
        request_ms: 0,
        stall_ms: 300,
        topology_wait_ms: 3_000_000,
        ..Timeouts::default()
    };
    settings.timeouts = match plan.kind.server_fails() {
        false => patient,
        true => Timeouts {
            connect_ms: 200,
            request_ms: pick(rng, &[200, 1_000]),
            auth_ms: 0,
            client_idle_ms: 0,
            stall_ms: 200,
            reconnect_min_ms: 5,
            reconnect_max_ms: pick(rng, &[20, 200]),
            ..Timeouts::default()
        },
    };
    // A quarter of the runs in which servers fail, and not by a draw.
    if plan.kind.server_fails() && plan.seed / 8 % 4 == 3 {
        settings.on_upstream_loss = OnLoss::Close;
    }
    settings.node.address = engine::node::Address::tcp("127.0.0.1", FIRST_PORT);
    settings.node.client_name = if rng.chance(500_000) { b"respool".to_vec() } else { Vec::new() };
    if plan.password {
        settings.users = Users::with_password(PASSWORD).into();
        settings.node.password = Some(Password::new(PASSWORD));
    }
    if plan.is_confined() {
        settings.users = confined(&settings.users).into();
    }
    settings.policies = policies(plan);
    settings
}

/// The default user may not say one command, and each key lies in one of two selectors.
fn confined(users: &Users) -> Users {
    let mut users = users.clone();
    let rules: [&[u8]; 4] = [b"-shutdown", b"resetkeys", b"%W~*", b"(+@all -shutdown ~* &*)"];
    users.set(b"default", &rules).expect("rules");
    users.unchecked_scripts = true;
    users
}

/// All clients live in a namespace in an eighth of the runs, and know nothing of it.
fn namespaced(plan: &Plan) -> Option<Rules> {
    let namespace = plan.namespace();
    let namespace = (!namespace.is_empty()).then(|| Namespace::new(namespace.as_bytes(), true))?;
    Some(Rules { namespace: Some(namespace.expect("a prefix")), ..Rules::default() })
}

/// Some requests are delayed in a quarter of the runs, and not by a draw: what stands behind them must not overtake them, and nothing is refused.
pub(super) fn policies(plan: &Plan) -> Option<Arc<Policies>> {
    fn rule<T>(detail: T) -> Vec<Rule<T>> {
        let what = What::new(&[], Vec::new(), false).expect("all commands");
        vec![Rule { what, name: String::new(), error: None, detail }]
    }
    if let Some(rules) = namespaced(plan) {
        return Policies::new(rules).map(Arc::new);
    }
    if plan.kind == Kind::Crowd || plan.seed / 8 % 4 != 2 {
        return None;
    }
    let (unit, per, delay_ms) = (Unit::Requests, Per::Client, 3_600_000);
    let rules = Rules {
        fault: rule(Fault { per_million: 50_000, delay_ms: 1, fails: false }),
        rate: rule(Rate { unit, per_s: 50_000, burst: 5, per, delay_ms }),
        waiting_max: usize::MAX,
        ..Rules::default()
    };
    Policies::new(rules).map(Arc::new)
}

fn troubles(rng: &mut SimRng) -> Vec<(u64, usize, Trouble)> {
    let kinds = [
        Trouble::Dead,
        Trouble::Frozen,
        Trouble::Mute,
        Trouble::Full,
        Trouble::HalfReplies,
        Trouble::Reset,
    ];
    let mut list = Vec::new();
    let mut at_us = 0;
    for _ in 0..rng.between(1, 4) {
        at_us += rng.between(0, 300_000);
        list.push((at_us, 0, kinds[rng.between(0, kinds.len() as u64 - 1) as usize]));
        at_us += rng.between(1_000, 700_000);
        list.push((at_us, 0, Trouble::Well));
    }
    list
}
