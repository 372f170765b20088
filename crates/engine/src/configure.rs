//! Other settings while the worker runs: what is in force changes between two turns, and no client is let go for it.
//!
//! Most settings are read where they are needed, so they hold from the next look on. What was derived from one, and what waits for a time
//! that a setting gave, is renewed here:
//!
//! ```text
//!   timeouts ─▶ every deadline anew        reads ─▶ who answers reads          address_map ─▶ the topology is asked for
//!   slowlog  ─▶ its entries and bounds     facade ─▶ the peers                 limits.shared_conns ─▶ clients and connections
//!   monitors, hotkeys ─▶ their counts begin again                       bigkeys ─▶ its entries and bounds
//!   policies ─▶ how closely requests are looked at, and who waits
//!   cache ─▶ what was kept by the former one goes
//!   observed ─▶ the next samples                                         coalesce_reads ─▶ what is remembered of unsent reads
//!   users    ─▶ who clients are, and what they may do (`permit`)        other servers ─▶ see `replace`
//!   tenancy  ─▶ who belongs elsewhere goes (`tenancy`)
//!   mirrors, elsewhere ─▶ some come, some go, and how closely requests are looked at (`mirror::change`, `elsewhere::change`)
//! ```
//! Not here: what the values may be (`config`), how all workers come to change together (`server/src/control`).
//!
//! Invariant: `worker`, `workers` and `unix_ahead_us` stay as they were; a client is closed by nothing that changes but its user and its tenant.

use crate::beside::BESIDE_FROM;
use crate::engine::Engine;
use crate::ids::ClientId;
use crate::peers::{self, Peers};
use crate::replace;
use crate::settings::{self, ReadPolicy, Settings};
use crate::stats::monitors::{MonitorCounts, Monitors};
use crate::time::Time;
use crate::topology::Topology;
use crate::upstream::{Lane, Role};
use alloc::vec::Vec;

impl Engine {
    /// From now on these settings are in force.
    pub fn reconfigure(&mut self, now: Time, settings: Settings) {
        let Settings { worker, workers, unix_ahead_us, .. } = self.settings;
        let new = Settings { worker, workers, unix_ahead_us, ..settings };
        let old = core::mem::replace(&mut self.settings, new);
        self.change_slowlog(&old);
        if self.settings.monitors != old.monitors {
            self.change_monitors();
        }
        if self.settings.hotkeys != old.hotkeys {
            let workers = self.settings.workers;
            self.hotkeys.change(&old.hotkeys, &self.settings.hotkeys, workers, now);
        }
        if self.settings.bigkeys != old.bigkeys {
            self.bigkeys.change(&self.settings.bigkeys);
        }
        if self.settings.observed != old.observed {
            self.observer.change(&self.settings.observed);
        }
        if !self.settings.coalesce_reads {
            self.coalescer.forget();
        }
        if replace::same_servers(&self.settings, &old) {
            self.change_greetings();
        } else {
            // Among the new ones may be those of a mirror that goes.
            self.end_leaving_mirrors(now);
            self.replace_servers(now, &old);
        }
        self.change_mirrors(now, &old);
        self.change_elsewhere(now, &old);
        self.change_cache(now, &old.cache);
        self.looks_at_reads = self.settings.coalesce_reads || self.near.is_some();
        self.keep_outputs();
        self.change_users(&old.users);
        if self.settings.policies != old.policies {
            self.change_policies(now, &old);
        } else if self.settings.looks_at_requests() != old.looks_at_requests() {
            self.renew_access();
        }
        self.close_strangers();
        if self.settings.limits.shared_conns != old.limits.shared_conns {
            self.spread_over_conns(now);
        }
        if self.settings.facade != old.facade {
            self.change_peers(now);
        }
        if self.settings.reads != old.reads {
            self.change_reads(now);
        }
        if self.settings.address_map != old.address_map {
            (0..self.router.pools.len()).for_each(|pool| self.want_topology(pool as u16));
        }
        self.change_periods(now, &old);
        self.account_anew();
        // Another time for idle clients may have passed already.
        self.sweep.idle_from = now;
        self.sweep.look_for_unknown(now);
        self.upstreams.ids().into_iter().for_each(|id| self.schedule(id));
    }

    /// What CONFIG SET at the servers said of the slow log (`overheard`) holds until the proxy's own setting is another one.
    fn change_slowlog(&mut self, old: &Settings) {
        let told = core::mem::replace(&mut self.slowlog_told, self.settings.slowlog);
        if told == self.settings.slowlog {
            self.settings.slowlog = old.slowlog;
        } else {
            self.slowlog.change(&self.settings.slowlog);
            self.observer.set_slowlog(self.slowlog.from_us);
        }
    }

    /// Other latency monitors: what was counted has other buckets, or is of other commands, so all begin again.
    fn change_monitors(&mut self) {
        self.monitors = Monitors::new(&self.settings.monitors);
        self.stats.monitors = MonitorCounts::default();
        self.nodes.iter_mut().for_each(|(_, node)| node.stats.monitors = MonitorCounts::default());
    }

    /// Connections that are there keep what they send from now on, if it is kept now.
    fn keep_outputs(&mut self) {
        if !self.keeps_output() {
            return;
        }
        for id in self.upstreams.ids() {
            if let Some(upstream) = self.upstreams.get_mut(id)
                && upstream.role == Role::Shared
            {
                upstream.out.keeps |= upstream.key.lane.carries_requests();
            }
        }
    }

    /// With what new connections are greeted.
    fn change_greetings(&mut self) {
        let told: Vec<(settings::Node, Option<settings::Node>)> = match &self.settings.shards {
            None => {
                alloc::vec![(self.settings.node.clone(), self.settings.pool.greeting().cloned())]
            }
            Some(shards) => {
                let child = |child: &settings::ShardSettings| {
                    (child.node.clone(), child.pool.greeting().cloned())
                };
                shards.children.iter().map(child).collect()
            }
        };
        for (state, (node, sentinel)) in self.router.pools.iter_mut().zip(told) {
            (state.node, state.sentinel) = (node, sentinel);
        }
    }

    /// Another number of shared connections to each server: clients of those that there are no more go over to the others, which wait for
    /// what is under way, and new ones go where the fewest are.
    fn spread_over_conns(&mut self, now: Time) {
        let count = self.settings.limits.shared_conns.max(1);
        let moved: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, client)| client.conn >= count)
            .map(|(id, _)| id)
            .collect();
        for id in moved {
            if let Some(client) = self.clients.get_mut(id) {
                client.conn %= count;
            }
            self.take_other_connections(id);
        }
        let surplus = self.upstreams.iter().filter(|(_, up)| {
            let is_surplus = (count..BESIDE_FROM).contains(&up.key.conn);
            up.role == Role::Shared && up.key.lane == Lane::Shared && is_surplus
        });
        for id in surplus.map(|(id, _)| id).collect::<Vec<_>>() {
            self.give_up_carried(now, id, "is connected to over fewer connections now");
            self.retire(id);
        }
        self.conn_clients = alloc::vec![0; usize::from(count)];
        for (_, client) in self.clients.iter() {
            self.conn_clients[usize::from(client.conn)] += 1;
        }
    }

    /// The facade shows other nodes: all of them count as alive again.
    fn change_peers(&mut self, now: Time) {
        let asked = self.upstreams.iter().filter(|(_, up)| up.key.lane == Lane::Peer);
        for id in asked.map(|(id, _)| id).collect::<Vec<_>>() {
            self.remove_upstream(id);
        }
        let nodes = self.nodes.iter().filter(|(_, node)| node.pool == peers::POOL);
        for id in nodes.map(|(id, _)| id).collect::<Vec<_>>() {
            self.nodes.remove(id);
        }
        self.peers = Peers::after(&self.peers, &self.settings.facade, now);
        self.begin_peers();
    }

    fn change_reads(&mut self, now: Time) {
        self.router.health_at = now;
        if self.settings.reads.policy == ReadPolicy::Primary {
            self.router.pools.iter_mut().for_each(crate::topology::PoolState::forget_readers);
        }
        self.route_epoch = self.route_epoch.wrapping_add(1);
        self.renew_readers();
    }

    fn change_periods(&mut self, now: Time, old: &Settings) {
        let period_ms = self.settings.timeouts.topology_period_ms;
        if period_ms == old.timeouts.topology_period_ms {
            return;
        }
        for state in &mut self.router.pools {
            if !matches!(state.topology, Topology::One(_)) {
                state.refresh.is_due_after(now, period_ms);
            }
        }
    }
}
