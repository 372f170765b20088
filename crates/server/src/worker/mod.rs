//! One worker: an engine for each tenant, a driver, and what joins them.
//!
//! This folder is the only place that knows both sides: `turn` is the order of things, `conn` turns tokens of the driver into ids of the
//! engine and back, `house` has the engines, `moves` takes clients from one to another, `entrance`, `accept` and `arrivals` are the ways in for clients, `tls` puts TLS between the two, `gather` decides how long to wait for more before a flush, `mailbox` is the only way in from other threads,
//! `names` looks whether the names of servers still mean the same, `room` who is closed where TLS holds too much.
//!
//! What it deliberately is not: a thread. [`Worker::turn`] is called in a loop by [`Worker::run`] on a thread of its own, or step by step
//! by the simulator.
//!
//! Invariant: nothing here is shared with another thread but the mailboxes and the counters of clients per worker.

pub mod entrance;
pub mod gather;
pub mod house;
pub mod mailbox;
pub mod tls;

mod accept;
mod actions;
mod address;
mod arrivals;
mod conn;
pub(crate) mod facts;
mod moves;
mod names;
mod observed;
mod room;
mod turn;

use crate::export::Outlet;
use arrivals::Arrivals;
use conn::{Clients, Conns};
use engine::ids::UpstreamKind;
use engine::{Engine, Settings, Time};
use entrance::Entrances;
use gather::{Gather, GatherOptions};
use house::{House, TenantSettings};
use mailbox::{Fleet, Mailbox};
use netio::{Accepted, Driver, Tuning};
use std::sync::Arc;
use std::time::Instant;
use tls::{Secured, TlsSettings};

pub use facts::{Chosen, Host, Process, Usage};

/// What a worker is given at its start.
pub struct WorkerOptions<S> {
    /// For its engine.
    pub settings: Settings,
    /// For those of tenants beside the default one.
    pub tenants: Vec<TenantSettings>,
    /// Feeds the jitter of reconnects.
    pub seed: u64,
    /// Random bytes that nobody can guess, for passwords and for nonces of encrypted values. No other worker has the same.
    pub entropy: Option<[u8; 32]>,
    /// Batching.
    pub gather: GatherOptions,
    /// Clients of all workers together; one more is turned away.
    pub clients_max: usize,
    /// What its driver is told before it accepts anybody.
    pub tuning: Tuning,
    /// What holds where clients come in.
    pub entrances: Entrances,
    /// Its way in.
    pub mailbox: Mailbox<S>,
    /// The ways to all workers and to the resolver.
    pub fleet: Arc<Fleet<S>>,
    /// What INFO tells of the process.
    pub process: Arc<Process>,
    /// Where spans and alarms go.
    pub outlet: Outlet,
    /// Certificates, and who speaks TLS.
    pub tls: TlsSettings,
}

/// See the module. Generic over the network, so that the simulator runs the same code.
pub struct Worker<D: Driver> {
    index: usize,
    driver: Secured<D>,
    /// The driver's clock. Held apart because the driver is borrowed while it delivers events, whose time must be read
    /// after the sleep and not before.
    clock: Box<dyn Fn() -> u64>,
    engine: House,
    clients: Clients,
    upstreams: Conns<UpstreamKind>,
    gather: Gather,
    clients_max: usize,
    entrances: Entrances,
    mailbox: Mailbox<D::Socket>,
    fleet: Arc<Fleet<D::Socket>>,
    process: Arc<Process>,
    outlet: Outlet,
    accepted: Vec<Accepted<D::Socket>>,
    arrivals: Arrivals,
    /// Questions of this worker, with the answers that came.
    questions: Vec<actions::Open>,
    names: names::Names,
    last_now: Time,
    /// When it is looked again what logins hold.
    logins_weighed_at: Time,
    /// Clients were closed for memory, which the allocator may still have.
    has_freed: bool,
    trimmed_at: Time,
    /// Other settings came: what follows from them is done in this turn.
    changed: bool,
    drain_until: Option<Time>,
    stopped: bool,
    /// Turns since the invariants were checked.
    #[cfg(debug_assertions)]
    unchecked_turns: u8,
}

impl<D: Driver> Worker<D> {
    /// A worker that begins to connect to its node. `clock` reads the same time as the driver's `now_us`.
    pub fn new(driver: D, clock: Box<dyn Fn() -> u64>, options: WorkerOptions<D::Socket>) -> Self {
        let now = Time(clock());
        let index = options.settings.worker as usize;
        let names = names::Names::new(options.settings.timeouts.resolve_ms);
        let unix_ahead_us = facts::unix_us().saturating_sub(now.0);
        let settings = Settings { unix_ahead_us, ..options.settings };
        let engine = House::new(settings, options.tenants, (options.seed, options.entropy), now);
        let mut worker = Self {
            index,
            driver: Secured::new(driver, options.tls),
            clock,
            engine,
            clients: Clients::default(),
            upstreams: Conns::default(),
            gather: Gather::new(options.gather),
            clients_max: options.clients_max,
            entrances: options.entrances,
            mailbox: options.mailbox,
            fleet: options.fleet,
            process: options.process,
            outlet: options.outlet,
            accepted: Vec::new(),
            arrivals: Arrivals::default(),
            questions: Vec::new(),
            names,
            last_now: now,
            logins_weighed_at: now,
            has_freed: false,
            trimmed_at: now,
            changed: false,
            drain_until: None,
            stopped: false,
            #[cfg(debug_assertions)]
            unchecked_turns: 0,
        };
        worker.carry_out(now);
        worker
    }

    /// Turns until the worker is told to stop, or has drained.
    pub fn run(mut self) {
        let started = Instant::now();
        while !self.is_done() {
            self.turn();
        }
        self.engine.end_mirrors(self.last_now);
        self.tell();
        tracing::debug!(
            worker = self.index,
            seconds = started.elapsed().as_secs(),
            clients_left = self.engine.client_count(),
            "worker ends"
        );
    }

    /// Whether there is nothing left to do: told to stop, or drained.
    pub fn is_done(&self) -> bool {
        let drained = self.drain_until.is_some_and(|until| {
            let is_empty = self.engine.client_count() == 0 && self.accepted.is_empty();
            // What clients wrote is still told to mirrors.
            self.last_now >= until || (is_empty && self.engine.mirrors_are_idle())
        });
        self.stopped || drained
    }

    /// The engine of the default tenant, for tests that look inside.
    pub fn engine(&self) -> &Engine {
        self.engine.first()
    }

    /// All engines, for tests that look inside.
    pub fn house(&self) -> &House {
        &self.engine
    }

    /// The driver, for tests that need its clock.
    pub fn driver(&self) -> &D {
        self.driver.inner()
    }
}
