//! What is behind the proxy: one server, several that know nothing of each other, a cluster, or those that the settings name by turns.
//!
//! Not here: what they do (`upstream`, `cluster`, `deployments`).
//!
//! Invariant: the log of a key is in one place, unless the plan lets keys move without their values (shards that are left out).

use netio::Address;
use netio::sim::SimNet;
use testkit::Model;
use testkit::frames::quote;
use testkit::model::Effect;

use crate::cluster::{CameTo, ClusterSite};
use crate::deployments::Deployments;
use crate::plan::{Layout, Plan, Trouble};
use crate::upstream::{Planted, Server};

/// See the module.
pub(crate) enum Site {
    /// One server, or several.
    Servers(Vec<Server>),
    /// A cluster.
    Cluster(Box<ClusterSite>),
    /// Those that the settings name by turns.
    Deployments(Box<Deployments>),
}

impl Site {
    /// What a plan has behind the proxy.
    pub(crate) fn new(plan: &Plan, net: &SimNet, planted: Planted) -> Self {
        if plan.changes() {
            return Self::Deployments(Box::new(Deployments::new(plan, net, planted)));
        }
        let at = plan.addresses();
        match plan.layout {
            Layout::One | Layout::Shards { .. } => {
                let server = |(index, at): (usize, Address)| {
                    let mut server = Server::new(net, at, plan.password, planted);
                    server.namespace = plan.namespace();
                    server.removed = plan.removed_at(index);
                    server
                };
                Self::Servers(at.into_iter().enumerate().map(server).collect())
            }
            Layout::Cluster(restless) => {
                Self::Cluster(Box::new(ClusterSite::new(plan, restless, net, &at, planted)))
            }
        }
    }

    /// Prints from now on what happens in a cluster.
    pub(crate) fn talk(&mut self) {
        match self {
            Self::Servers(servers) => servers.iter_mut().for_each(Server::talk),
            Self::Cluster(site) => site.talk(),
            Self::Deployments(all) => all.talk(),
        }
    }

    /// Where its servers listen.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        match self {
            Self::Servers(servers) => servers.iter().map(|server| server.at().clone()).collect(),
            Self::Cluster(site) => site.hosts().iter().map(|host| host.at().clone()).collect(),
            Self::Deployments(all) => all.addresses(),
        }
    }

    /// Something happens to one of its servers.
    pub(crate) fn suffer(&mut self, now_us: u64, server: usize, trouble: Trouble) {
        match self {
            Self::Servers(servers) => servers[server].host().suffer(trouble),
            Self::Cluster(site) => site.suffer(now_us, server, trouble),
            Self::Deployments(all) => all.suffer(now_us, server, trouble),
        }
    }

    /// Everything is well again.
    pub(crate) fn settle(&mut self, now_us: u64) {
        match self {
            Self::Servers(servers) => {
                servers.iter_mut().for_each(|server| server.host().suffer(Trouble::Well));
            }
            Self::Cluster(site) => site.settle(now_us),
            Self::Deployments(all) => all.settle(now_us),
        }
    }

    /// Nothing happens of its own accord any more.
    pub(crate) fn rest(&mut self) {
        match self {
            Self::Servers(_) => {}
            Self::Cluster(site) => site.rest(),
            Self::Deployments(all) => all.rest(),
        }
    }

    /// Does what can be done now.
    pub(crate) fn pump(&mut self, now_us: u64) {
        match self {
            Self::Servers(servers) => servers.iter_mut().for_each(Server::pump),
            Self::Cluster(site) => site.pump(now_us),
            Self::Deployments(all) => all.pump(now_us),
        }
    }

    /// When it next does something of its own accord.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        match self {
            Self::Servers(_) => None,
            Self::Cluster(site) => site.next_at_us(),
            Self::Deployments(all) => all.next_at_us(),
        }
    }

    /// Everything that was done to a key, in order. `several`: it may have been done by more servers than one, then server by server.
    ///
    /// # Errors
    /// Two servers did something to it, and that must not be.
    pub(crate) fn effects(
        &self,
        db: u32,
        key: &[u8],
        several: bool,
    ) -> Result<Vec<Effect>, String> {
        let namespace = match self {
            Self::Cluster(site) => site.namespace,
            Self::Servers(servers) => servers[0].namespace,
            Self::Deployments(_) => "",
        };
        let key = [namespace.as_bytes(), key].concat();
        let servers = match self {
            Self::Cluster(site) if db == 0 => return Ok(site.model().effects(&key).to_vec()),
            Self::Cluster(_) => return Ok(Vec::new()),
            Self::Deployments(all) => return Ok(all.model().effects(db, &key).to_vec()),
            Self::Servers(servers) => servers,
        };
        let logs: Vec<&[Effect]> = servers
            .iter()
            .filter_map(|server| Some((server, key.strip_prefix(&*server.removed)?)))
            .map(|(server, key)| server.model().effects(db, key))
            .filter(|log| !log.is_empty())
            .collect();
        if logs.len() > 1 && !several {
            return Err(format!("key {} was written on {} shards", quote(&key, 40), logs.len()));
        }
        Ok(logs.concat())
    }

    /// The model of the only server, if there is but one.
    pub(crate) fn model(&self) -> Option<&Model> {
        match self {
            Self::Servers(servers) if servers.len() == 1 => Some(servers[0].model()),
            _ => None,
        }
    }

    /// How often the planted fault hit.
    pub(crate) fn hits(&self) -> u32 {
        match self {
            Self::Servers(servers) => servers.iter().map(Server::hits).sum(),
            Self::Cluster(site) => site.hits(),
            Self::Deployments(all) => all.hits(),
        }
    }

    /// Requests that its models executed.
    pub(crate) fn executed(&self) -> u64 {
        match self {
            Self::Servers(servers) => servers.iter().map(|server| server.model().executed()).sum(),
            Self::Cluster(site) => site.model().executed(),
            Self::Deployments(all) => all.model().executed(),
        }
    }

    /// Connections that are open.
    pub(crate) fn open_conns(&self) -> usize {
        match self {
            Self::Servers(servers) => servers.iter().map(Server::open_conns).sum(),
            Self::Cluster(site) => site.hosts().iter().map(|host| host.open_conns()).sum(),
            Self::Deployments(all) => all.open_conns().iter().sum(),
        }
    }

    /// Connections that are open to each of several deployments.
    pub(crate) fn open_conns_of_each(&self) -> Vec<usize> {
        match self {
            Self::Servers(_) | Self::Cluster(_) => Vec::new(),
            Self::Deployments(all) => all.open_conns(),
        }
    }

    /// For each effect of a key which of several deployments did it.
    pub(crate) fn doers(&self, db: u32, key: &[u8]) -> Option<&[usize]> {
        match self {
            Self::Servers(_) | Self::Cluster(_) => None,
            Self::Deployments(all) => Some(all.model().doers(db, key)),
        }
    }

    /// How often slots and primaries changed.
    pub(crate) fn came_to(&self) -> CameTo {
        match self {
            Self::Servers(_) => CameTo::default(),
            Self::Cluster(site) => site.came_to,
            Self::Deployments(all) => all.came_to(),
        }
    }

    /// It goes for good.
    pub(crate) fn close(&mut self) {
        match self {
            Self::Servers(servers) => servers.iter_mut().for_each(Server::close),
            Self::Cluster(site) => site.close(),
            Self::Deployments(all) => all.close(),
        }
    }
}
