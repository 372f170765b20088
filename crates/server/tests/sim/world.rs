//! The whole: workers, the server behind, clients, and virtual time.
//!
//! ```text
//!   storm (clients talk, troubles come) ─▶ calm (all is well) ─▶ checkup (everybody once more, no error is forgiven) ─▶ drain
//!     └── on some seeds the drain comes in the middle of the storm ───────────────────────────────────────────────────▲
//! ```
//! Not here: what is said and what it must be answered (`script`), what a seed means (`plan`).
//!
//! Invariant: virtual time and the number of turns are bounded, so whatever waits for something that never comes is a failure
//! and no hang.

use engine::fleet::Report;
use engine::settings::Limits;
use netio::Address;
use netio::sim::{SimDriver, SimFaults, SimNet, SimRng, SimSocket};
use server::worker::Worker;
use server::worker::gather::GatherOptions;
use server::worker::mailbox::{Message, Post};

use crate::cache::Caches;
use crate::client::{Around, Client};
use crate::cluster::CameTo;
use crate::crew::{self, Crew, Terms};
use crate::mirrored::Mirror;
use crate::plan::{Layout, Plan};
use crate::queue::Queues;
use crate::radio::Radio;
use crate::site::Site;
use crate::upstream::Planted;
use changes::Changes;

mod changes;
mod mirror;

pub(crate) use changes::{Changed, Epochs};

/// Longest storm, in virtual microseconds. Clients that send single bytes over a network that delays each of them take long.
const STORM_US: u64 = 3_600_000_000;
/// Longest checkup.
const CHECKUP_US: u64 = 600_000_000;
/// How long it takes until everybody has heard of the last slot that moved, and of the last client that went.
const REST_US: u64 = 2_000_000;
/// How long it takes until those who listen do so at other servers, in milliseconds.
const AFTER_CHANGES_MS: u64 = 3_000;
/// What the drain is given.
const DRAIN_MS: u64 = 5_000;
/// Clients that connect at the same moment.
const ARRIVALS: usize = 500;
/// Turns in one moment of virtual time.
const TURNS_PER_MOMENT_MAX: u32 = 100_000;
/// Times at which everybody acts, in a run.
const ACTS_MAX: u64 = 3_000_000;

/// What a good run tells.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Tells two runs apart.
    pub(crate) digest: u64,
    /// How often the planted fault hit.
    pub(crate) hits: u32,
    /// Errors that a failure of the server explained.
    pub(crate) errors: u32,
    /// Requests that the model executed.
    pub(crate) executed: u64,
    /// What it came to.
    pub(crate) reached: Reached,
    /// What slots and primaries did.
    pub(crate) came_to: CameTo,
    /// What its changes of the configuration came to.
    pub(crate) changed: Changed,
    /// Iterations over all keys that came to their end.
    pub(crate) iterations: u32,
    /// Transactions that were done.
    pub(crate) transactions: u32,
    /// Messages that listeners heard.
    pub(crate) messages: u64,
    /// Elements that somebody waited for and got.
    pub(crate) elements: u64,
    /// Values that clients kept, and that were right at the end.
    pub(crate) kept: u64,
    /// Pushers that went when all was well, and had a successor.
    pub(crate) successors: u32,
    /// Turns of all workers.
    pub(crate) turns: u64,
    /// The drain came in the middle of the storm.
    pub(crate) is_cut_short: bool,
    /// The data of a mirror were held against those of its primary.
    pub(crate) compared: bool,
}

/// The highest of some figures that any worker told: whether runs come to what they are made for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    /// Connections to the server that broke in use.
    pub(crate) losses: u64,
    /// Connections that were given up for an overdue reply.
    pub(crate) timeouts: u64,
    /// Connects and greetings that failed.
    pub(crate) failures: u64,
    /// Clients closed for their memory or their slowness.
    pub(crate) evicted: u64,
    /// Clients that were not the protocol.
    pub(crate) protocol_errors: u64,
    /// Bytes that waited for one client.
    pub(crate) out_bytes: u64,
    /// Bytes that waited of one client.
    pub(crate) in_bytes: u64,
    /// Connections to the server.
    pub(crate) upstreams: u64,
    /// Requests that were sent on to another server.
    pub(crate) redirects: u64,
    /// Requests that were not sent, as an equal one of another client was.
    pub(crate) coalesced: u64,
    /// Requests that were answered with a reply that was kept.
    pub(crate) cache_hits: u64,
    /// Of all runs together: slots that reached their new owner.
    pub(crate) moves: u64,
    /// Of all runs together: keys that moved before their slot did.
    pub(crate) keys: u64,
    /// Of all runs together: copies that took over.
    pub(crate) failovers: u64,
    /// Of all runs together: changes of the configuration.
    pub(crate) changes: u64,
    /// Of all runs together: servers that others took the place of.
    pub(crate) replaced: u64,
    /// Of all runs together: requests that were under way then.
    pub(crate) under_way: u64,
    /// Of all runs together: mirrors whose data were held against those of the primary.
    pub(crate) compared: u64,
    /// Writes that a mirror did.
    pub(crate) mirrored: u64,
    /// Writes that a mirror did not get, or perhaps.
    pub(crate) missed: u64,
    /// Reads to which a mirror said the same.
    pub(crate) read_alike: u64,
}

impl Reached {
    fn see(&mut self, report: &Report) {
        let stats = &report.stats;
        let seen = [
            (&mut self.losses, stats.upstream_losses),
            (&mut self.timeouts, stats.upstream_timeouts),
            (&mut self.failures, stats.upstream_failures),
            (&mut self.evicted, stats.clients_evicted),
            (&mut self.protocol_errors, stats.protocol_errors),
            (&mut self.out_bytes, report.client_out_bytes_max),
            (&mut self.in_bytes, report.client_in_bytes_max),
            (&mut self.upstreams, report.upstreams),
            (&mut self.redirects, stats.redirects),
            (&mut self.coalesced, stats.coalesced),
            (&mut self.cache_hits, stats.cache_hits),
            (&mut self.mirrored, report.mirrors.iter().map(|one| one.counts.done).sum()),
            (&mut self.missed, report.mirrors.iter().map(mirror::missed).sum()),
            (&mut self.read_alike, report.mirrors.iter().map(mirror::read_alike).sum()),
        ];
        seen.into_iter().for_each(|(most, is)| *most = is.max(*most));
    }

    /// Takes another run in.
    pub(crate) fn join(&mut self, other: &Self) {
        let pairs = [
            (&mut self.losses, other.losses),
            (&mut self.timeouts, other.timeouts),
            (&mut self.failures, other.failures),
            (&mut self.evicted, other.evicted),
            (&mut self.protocol_errors, other.protocol_errors),
            (&mut self.out_bytes, other.out_bytes),
            (&mut self.in_bytes, other.in_bytes),
            (&mut self.upstreams, other.upstreams),
            (&mut self.redirects, other.redirects),
            (&mut self.coalesced, other.coalesced),
            (&mut self.cache_hits, other.cache_hits),
            (&mut self.mirrored, other.mirrored),
            (&mut self.missed, other.missed),
            (&mut self.read_alike, other.read_alike),
        ];
        pairs.into_iter().for_each(|(most, is)| *most = is.max(*most));
    }
}

/// See the module.
pub(crate) struct World {
    plan: Plan,
    net: SimNet,
    listen: Address,
    workers: Vec<Option<Worker<SimDriver>>>,
    posts: Vec<Post<SimSocket>>,
    site: Site,
    clients: Vec<Client>,
    radio: Radio,
    queues: Option<Queues>,
    caches: Option<Caches>,
    changes: Changes,
    mirror: Option<Mirror>,
    compared: bool,
    /// Bounds that hold all the time.
    widest: Limits,
    failing: bool,
    draining: bool,
    begun_us: u64,
    troubles_done: usize,
    turns: u64,
    /// How often everybody did what could be done.
    acts: u64,
    /// The invariants are checked behind each turn of each worker, and not behind one of four.
    checks_each_turn: bool,
    reached: Reached,
}

impl World {
    /// The world of a plan.
    pub(crate) fn new(plan: Plan, planted: Planted) -> Self {
        let address = |text: &str| Address::Tcp(text.parse().expect("a literal address"));
        let listen = address("127.0.0.1:6380");
        let general =
            SimFaults { split_batch_ppm: plan.client_faults.split_batch_ppm, ..SimFaults::none() };
        let net = SimNet::new(plan.seed, general);
        net.set_faults_at(&listen, plan.client_faults);
        let site = Site::new(&plan, &net, planted);
        site.addresses().iter().for_each(|at| net.set_faults_at(at, plan.server_faults));
        let mirror = Mirror::new(&plan, &net);
        let Crew { workers, posts, told, .. } = hire(&plan, &net, &listen);
        let workers = workers.into_iter().map(Some).collect();
        let radio = Radio::new(&plan, &net, &listen);
        let queues = Queues::new(&plan, &net, &listen);
        let caches = Caches::new(&plan, &net, &listen);
        let failing = plan.kind.server_fails();
        let begun_us = net.now_us();
        let widest = plan.widest();
        Self {
            plan,
            net,
            listen,
            workers,
            posts,
            site,
            clients: Vec::new(),
            radio,
            queues,
            caches,
            changes: Changes::new(told),
            mirror,
            compared: false,
            widest,
            failing,
            draining: false,
            begun_us,
            troubles_done: 0,
            turns: 0,
            acts: 0,
            checks_each_turn: crate::is_long() || crate::number("SIM_SEED").is_some(),
            reached: Reached::default(),
        }
    }

    /// Keeps a line for everything that happens in the network, and prints what the nodes of a cluster say.
    pub(crate) fn record(&mut self) {
        self.site.talk();
        self.net.record_trace();
    }

    /// The last of these lines.
    pub(crate) fn trace(&self, count: usize) -> Vec<String> {
        let mut lines = self.net.take_trace();
        lines.split_off(lines.len().saturating_sub(count))
    }

    /// The whole run.
    pub(crate) fn run(&mut self) -> Result<Outcome, String> {
        for number in 0..self.plan.clients {
            self.clients.push(Client::new(&self.plan, number, &self.net, &self.listen));
            if number % ARRIVALS == ARRIVALS - 1 {
                // More at once would not fit the listener's queue.
                self.pass("arrival", self.net.now_us() + 2_000)?;
            }
        }
        let in_the_middle = SimRng::new(!self.plan.seed).chance(300_000);
        if in_the_middle {
            let until_us = self.net.now_us() + SimRng::new(self.plan.seed).between(0, 400_000);
            self.pass("storm", until_us)?;
        } else {
            let until_us = self.begun_us + STORM_US;
            self.live_until("storm", until_us, Self::is_at_rest)?;
            self.calm()?;
            self.check_up()?;
        }
        self.drain()?;
        Ok(Outcome { is_cut_short: in_the_middle, ..self.judge()? })
    }

    fn is_at_rest(&self) -> bool {
        self.troubles_done == self.plan.troubles.len()
            && self.has_changed()
            && self.mirror.as_ref().is_none_or(|mirror| mirror.next_after_us().is_none())
            && self.clients.iter().all(Client::is_at_rest)
            && self.radio.is_at_rest()
            && self.queues.as_ref().is_none_or(Queues::is_at_rest)
            && self.caches.as_ref().is_none_or(Caches::is_at_rest)
    }

    /// Lets time pass until `done`; that it never comes, or comes late, is a failure.
    fn live_until(
        &mut self,
        phase: &str,
        until_us: u64,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let mut moment = (0, 0);
        loop {
            self.act().map_err(|why| format!("{phase} at {} us: {why}", self.net.now_us()))?;
            if done(self) {
                return Ok(());
            }
            let now_us = self.net.now_us();
            moment = if moment.0 == now_us { (now_us, moment.1 + 1) } else { (now_us, 0) };
            if moment.1 > TURNS_PER_MOMENT_MAX || self.acts > ACTS_MAX {
                return Err(format!(
                    "{phase}: no end of turns at {now_us} us: {} since the time last moved, {} in all; next {:?}\n{}",
                    moment.1,
                    self.turns,
                    self.next_us(until_us),
                    self.describe()
                ));
            }
            match self.next_us(until_us) {
                Some(next_us) if next_us <= until_us => self.net.advance_to(next_us),
                Some(_) => {
                    return Err(format!("{phase}: not over at {until_us} us\n{}", self.describe()));
                }
                None => {
                    return Err(format!("{phase}: nothing will ever happen\n{}", self.describe()));
                }
            }
        }
    }

    /// Lets time pass.
    fn pass(&mut self, phase: &str, until_us: u64) -> Result<(), String> {
        while self.net.now_us() < until_us {
            self.act().map_err(|why| format!("{phase} at {} us: {why}", self.net.now_us()))?;
            let next_us = self.next_us(until_us).unwrap_or(until_us).min(until_us);
            self.net.advance_to(next_us);
            if self.acts > ACTS_MAX {
                return Err(format!("{phase}: no end of turns\n{}", self.describe()));
            }
        }
        Ok(())
    }

    /// Everybody does what can be done now.
    fn act(&mut self) -> Result<(), String> {
        self.suffer();
        self.change();
        for worker in self.workers.iter_mut().flatten() {
            // A worker that sleeps over its work is a bug, so it has no turn without a reason.
            if worker.driver().is_due() || worker.is_due() {
                worker.turn();
                self.turns += 1;
                if self.checks_each_turn {
                    worker.check_invariants();
                }
            }
        }
        self.hear_of_changes()?;
        self.pump();
        let victims: Vec<String> = match self.plan.has_admin {
            true => self.clients[1..]
                .iter()
                .filter(|client| !client.is_gone())
                .map(|client| client.addr.clone())
                .collect(),
            false => Vec::new(),
        };
        let around = Around {
            plan: &self.plan,
            now_us: self.net.now_us(),
            failing: self.failing,
            draining: self.draining,
            epochs: self.changes.epochs,
            victims: &victims,
        };
        for client in &mut self.clients {
            client.step(&around)?;
        }
        self.radio.step(&around)?;
        self.queues.as_mut().map_or(Ok(()), |queues| queues.step(&around))?;
        self.caches.as_mut().map_or(Ok(()), |caches| caches.step(&around))?;
        if self.plan.has_admin {
            for addr in std::mem::take(&mut self.clients[0].kills) {
                self.clients
                    .iter_mut()
                    .filter(|client| client.addr == addr)
                    .for_each(|client| client.killed = true);
            }
        }
        self.acts += 1;
        if self.acts.is_multiple_of(32) {
            self.check_bounds()?;
        }
        Ok(())
    }

    /// What happens to the server by now.
    fn suffer(&mut self) {
        let now_us = self.net.now_us();
        while let Some((at_us, server, trouble)) =
            self.plan.troubles.get(self.troubles_done).copied()
            && self.begun_us + at_us <= now_us
        {
            self.site.suffer(now_us, server, trouble);
            self.troubles_done += 1;
        }
        self.mirror.iter_mut().for_each(|mirror| mirror.suffer(now_us - self.begun_us));
    }

    /// The next moment at which anybody has something to do.
    fn next_us(&self, until_us: u64) -> Option<u64> {
        let now_us = self.net.now_us();
        let workers =
            self.workers.iter().flatten().filter_map(|worker| worker.deadline().map(|at| at.0));
        let clients = self.clients.iter().filter(|_| !self.draining).filter_map(Client::next_at_us);
        let troubles =
            self.plan.troubles.get(self.troubles_done).map(|(at_us, ..)| self.begun_us + at_us);
        let mirror = self.mirror.as_ref().and_then(Mirror::next_after_us);
        let mirror = mirror.map(|after_us| self.begun_us + after_us);
        let radio = self.radio.next_at_us().filter(|_| !self.draining);
        let queues = self.queues.as_ref().and_then(Queues::next_at_us).filter(|_| !self.draining);
        let caches = self.caches.as_ref().and_then(Caches::next_at_us).filter(|_| !self.draining);
        let end = self.draining.then_some(until_us);
        let next = self
            .net
            .next_wakeup()
            .into_iter()
            .chain(workers)
            .chain(clients)
            .chain(troubles)
            .chain(mirror)
            .chain(self.next_change_us())
            .chain(radio)
            .chain(queues)
            .chain(caches)
            .chain(self.site.next_at_us())
            .chain(end)
            .min()?;
        Some(next.max(now_us))
    }

    fn check_bounds(&mut self) -> Result<(), String> {
        let limits = &self.widest;
        let servers = self.site.addresses().len() as u64;
        for worker in self.workers.iter().flatten() {
            let report = worker.engine().report(engine::Time::default());
            // Reading is stopped at the end of a turn, and a turn takes up to four reads: the first, two polls, one sleep.
            let one_turn = 4 * (64 << 10);
            let value = self.plan.value_bytes_max.max(200_000);
            // Who writes all before it reads, or reads nothing while others wait behind it, may have as much waiting as all together.
            let out_max = limits.memory_max_bytes as u64 + value + one_turn;
            // For a mirror a large write is kept whole.
            let whole = if self.mirror.is_some() { 2 * value } else { 0 };
            let in_max =
                (limits.client_in_high_bytes as u64).max(limits.large_request_bytes).max(whole)
                    + one_turn;
            // What is not added up: clients below 16 KiB, upstreams (unsent requests; a tail below the cut), the pool.
            let ceiling = limits.memory_max_bytes as u64
                + report.clients * (16 << 10)
                + (report.upstreams + 64)
                    * (limits.upstream_out_high_bytes as u64 + value + one_turn)
                + (8 << 20);
            let checks = [
                ("replies that wait for one client", report.client_out_bytes_max, out_max),
                ("input that waits of one client", report.client_in_bytes_max, in_max),
                ("bytes of the worker", report.buffered_bytes, ceiling),
                ("upstreams", report.upstreams, limits.upstreams_max as u64 * servers),
            ];
            self.reached.see(&report);
            for (what, is, most) in checks {
                if is > most {
                    return Err(format!(
                        "worker {}: {what}: {is}, and the bound is {most}",
                        report.worker
                    ));
                }
            }
        }
        Ok(())
    }

    /// All is made well, and time passes until the proxy has noticed.
    fn calm(&mut self) -> Result<(), String> {
        self.site.settle(self.net.now_us());
        self.mirror.iter_mut().for_each(|mirror| mirror.settle(&self.net));
        let behind = self.site.addresses();
        behind.iter().for_each(|at| self.net.set_faults_at(at, SimFaults::none()));
        self.net.set_faults_at(&self.listen, SimFaults::none());
        if self.plan.kind.server_fails() {
            // Connects that have begun keep their faults; by then they are connections, and go with the others.
            self.pass("calm", self.net.now_us() + 50_000)?;
            behind.iter().for_each(|at| {
                self.net.reset_all_to(at);
            });
        }
        let timeouts = &self.plan.settings.timeouts;
        let quiet_ms = match self.plan.kind.server_fails() {
            // Those who listen do so at the new servers then.
            false if self.plan.changes() => AFTER_CHANGES_MS,
            true => {
                2 * timeouts.reconnect_max_ms
                    + 2 * timeouts.connect_ms
                    + timeouts.request_ms
                    + 1_500
                    + self.until_known_ms()
            }
            false => 0,
        };
        // New clients that find everything well beside the old ones, and that keep a clock running.
        let until_us = self.net.now_us() + quiet_ms * 1_000;
        self.pass("calm", until_us)?;
        self.failing = false;
        Ok(())
    }

    /// How long it takes a proxy to know several servers again: who owns what, which copies are fit, which shards answer.
    fn until_known_ms(&self) -> u64 {
        let timeouts = &self.plan.settings.timeouts;
        match self.plan.layout {
            Layout::One => 0,
            _ => timeouts.topology_wait_ms + timeouts.failover_hold_ms + 3_000,
        }
    }

    fn check_up(&mut self) -> Result<(), String> {
        for number in self.plan.clients..self.plan.clients + 3 {
            let mut client = Client::new(&self.plan, number, &self.net, &self.listen);
            client.fall_silent();
            self.clients.push(client);
        }
        let now_us = self.net.now_us();
        self.clients.iter_mut().for_each(|client| client.check_up(now_us));
        self.radio.check_up(&self.plan, &self.net, &self.listen);
        if let Some(queues) = &mut self.queues {
            queues.check_up(&self.plan);
        }
        self.caches.iter_mut().for_each(Caches::check_up);
        self.live_until("checkup", now_us + CHECKUP_US, |world| {
            world.clients.iter().all(Client::is_at_rest)
                && world.radio.is_at_rest()
                && world.queues.as_ref().is_none_or(Queues::is_at_rest)
                && world.caches.as_ref().is_none_or(Caches::is_at_rest)
        })?;
        self.site.rest();
        self.pass("rest", self.net.now_us() + REST_US)?;
        self.check_replaced()?;
        self.caches.iter_mut().for_each(Caches::last_look);
        let until_us = self.net.now_us() + CHECKUP_US;
        self.live_until("last look", until_us, |world| {
            world.caches.as_ref().is_none_or(Caches::is_at_rest)
        })?;
        self.check_mirror()?;
        self.caches.as_mut().map_or(Ok(()), |caches| caches.judge(&self.site))?;
        self.radio.last_call();
        let until_us = self.net.now_us() + CHECKUP_US;
        self.live_until("last call", until_us, |world| world.radio.is_at_rest())?;
        if self.plan.seed.is_multiple_of(2) {
            // Where nobody listens nothing is left at the drain, not even the end of a subscription.
            self.radio.close();
            self.pass("farewell", self.net.now_us() + REST_US)?;
        }
        Ok(())
    }

    /// Ends the workers; those that behave are owed nothing when they go.
    fn drain(&mut self) -> Result<(), String> {
        let waits = self.queues.as_ref().is_some_and(Queues::waits);
        let calm = !(self.failing || waits) && self.clients.iter().all(Client::is_at_rest);
        let tells = self.tells_mirror();
        self.draining = true;
        self.site.rest();
        self.posts.iter().for_each(|post| post.send(Message::Drain(DRAIN_MS)));
        let begun_us = self.net.now_us();
        let until_us = begun_us + DRAIN_MS * 1_000 + 100_000;
        while self.workers.iter().any(Option::is_some) {
            self.act().map_err(|why| format!("drain: {why}"))?;
            let now_us = self.net.now_us();
            for at in 0..self.workers.len() {
                let Some(worker) = self.workers[at].take_if(|worker| worker.is_done()) else {
                    continue;
                };
                if calm {
                    let others = self.mirror.as_ref().map_or(0, Mirror::open_conns);
                    nothing_is_left(&worker, &self.plan, others)
                        .map_err(|why| format!("{why}\n{}", self.describe()))?;
                }
            }
            if now_us > until_us || self.acts > ACTS_MAX {
                return Err(format!("drain: a worker did not end\n{}", self.describe()));
            }
            let next_us = self.next_us(until_us).unwrap_or(until_us);
            self.net.advance_to(next_us.min(until_us + 1).max(now_us));
            if next_us == now_us && self.workers.iter().all(Option::is_none) {
                break;
            }
        }
        if calm && !tells && self.net.now_us() - begun_us > 1_000_000 {
            return Err(
                "drain: nobody was owed anything, and it took more than a second".to_owned()
            );
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<Outcome, String> {
        // The server does what it still has in its sockets; the clients see their ends.
        self.site.settle(self.net.now_us());
        self.site.rest();
        for _ in 0..100_000 {
            self.pump();
            let now_us = self.net.now_us();
            let around = Around {
                plan: &self.plan,
                now_us,
                failing: self.failing,
                draining: true,
                epochs: self.changes.epochs,
                victims: &[],
            };
            self.clients.iter_mut().try_for_each(|client| client.step(&around))?;
            self.radio.step(&around)?;
            self.queues.as_mut().map_or(Ok(()), |queues| queues.step(&around))?;
            self.caches.as_mut().map_or(Ok(()), |caches| caches.step(&around))?;
            if !self.net.step() {
                break;
            }
        }
        let hangs = self.plan.client_faults.connect_hangs_ppm > 0;
        if let Some(client) =
            self.clients.iter().find(|client| !client.is_gone() && !hangs && !client.never_reads())
        {
            return Err(format!(
                "after the drain a client is still connected: {}",
                client.describe()
            ));
        }
        if let Some(who) = self.radio.connected().filter(|_| !hangs) {
            return Err(format!("after the drain somebody is still connected: {who}"));
        }
        let waits = self.queues.as_ref().and_then(Queues::connected);
        if let Some(who) = waits.filter(|_| !hangs) {
            return Err(format!("after the drain somebody is still connected: {who}"));
        }
        let keeps = self.caches.as_ref().and_then(Caches::connected);
        if let Some(who) = keeps.filter(|_| !hangs) {
            return Err(format!("after the drain somebody is still connected: {who}"));
        }
        self.queues.as_mut().map_or(Ok(()), |queues| queues.judge(&self.site))?;
        self.caches.as_ref().map_or(Ok(()), |caches| caches.judge_writes(&self.site))?;
        let mut outcome = Outcome {
            elements: self.queues.as_ref().map_or(0, Queues::got),
            successors: self.queues.as_ref().map_or(0, Queues::successors),
            messages: self.radio.heard(),
            kept: self.caches.as_ref().map_or(0, Caches::judged),
            digest: self.net.digest(),
            hits: self.site.hits(),
            executed: self.site.executed(),
            turns: self.turns,
            came_to: self.site.came_to(),
            changed: self.changes.came_to,
            compared: self.compared,
            reached: self.reached.clone(),
            ..Outcome::default()
        };
        for client in &mut self.clients {
            client.script.abandon();
            outcome.errors += client.script.errors_seen;
            outcome.iterations += client.script.iterations;
            outcome.transactions += client.script.transactions;
            client
                .script
                .judge(&self.site)
                .map_err(|why| format!("client {}: {why}", client.number))?;
        }
        self.clients.clear();
        self.radio.close();
        self.queues.iter_mut().for_each(Queues::close);
        self.caches.iter_mut().for_each(Caches::close);
        self.close_servers();
        match self.net.open_ends() {
            0 => Ok(outcome),
            open => Err(format!("{open} ends of connections are open after the end of everything")),
        }
    }

    fn describe(&self) -> String {
        let busy = self.clients.iter().filter(|client| !client.is_at_rest()).take(12);
        let mut text: Vec<String> = busy.map(Client::describe).collect();
        text.push(self.radio.describe());
        text.extend(self.queues.as_ref().map(Queues::describe));
        text.extend(self.caches.as_ref().map(Caches::describe));
        text.push(format!("server: {} connections", self.site.open_conns()));
        for worker in self.workers.iter().flatten() {
            let report = worker.engine().report(engine::Time::default());
            text.push(format!(
                "worker {}: {} clients, {} upstreams, {} in flight, {} bytes, state {}, deadline {:?}",
                report.worker,
                report.clients,
                report.upstreams,
                report.inflight,
                report.buffered_bytes,
                report.node_state,
                worker.deadline()
            ));
        }
        text.join("\n")
    }
}

/// How workers gather that wait so long for more.
fn gather(gather_us: u64) -> GatherOptions {
    GatherOptions { gather_us, completions: 24, clients_min: 8, polls: 2 }
}

/// The workers of a plan, which listen at `at`.
fn hire(plan: &Plan, net: &SimNet, at: &Address) -> Crew {
    let terms =
        Terms { gather: gather(60), clients_max: plan.clients_max, ..Terms::plain(plan.seed) };
    crew::hire(net, at, plan.workers as u32, terms, |index| (plan.settings_of(index), Vec::new()))
}

/// After a drain in peace the worker has no client, nobody waits, and only idle upstreams have a connection.
fn nothing_is_left(worker: &Worker<SimDriver>, plan: &Plan, others: usize) -> Result<(), String> {
    let (engine, report) = (worker.engine(), worker.engine().report(engine::Time::default()));
    // A client that ran away may have left requests behind, whose replies are on their way to nobody.
    let may_wait = plan.kind.clients_fail();
    if engine.client_count() > 0 || !(engine.is_quiet() || may_wait) {
        return Err(format!(
            "drained, and {} clients are left, {} requests in flight",
            report.clients, report.inflight
        ));
    }
    // One may still be greeting the server where the drain came before the first request.
    if worker.driver().conns() as u64 > report.upstreams.max(1) + others as u64 {
        return Err(format!(
            "drained, and {} connections are open for {} upstreams",
            worker.driver().conns(),
            report.upstreams
        ));
    }
    Ok(())
}
