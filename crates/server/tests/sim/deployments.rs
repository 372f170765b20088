//! Several deployments behind: servers and clusters of which the settings name one at a time, all with one set of data.
//!
//! It is as if the data had gone along when the servers were replaced: what a client wrote it reads again, wherever it is sent. So what is
//! overtaken, done twice or lost between the former servers and the new ones shows as with one server. Who did what is in the log.
//!
//! ```text
//!   Deployment 0, 1, … ── pump ─▶ Model, while it acts as this one ── effects, and the doer of each ─▶ ledger
//! ```
//! Not here: when which one is named (`plan`, `world::changes`).
//!
//! Invariant: the model is with one deployment at most, and only while that does something.

use netio::Address;
use netio::sim::SimNet;
use testkit::Model;

use crate::cluster::{CameTo, ClusterSite};
use crate::plan::{Layout, Plan, Trouble};
use crate::upstream::{Planted, Server};

/// With the planted fault one of so many turns is another deployment's.
const MISTAKEN_ONE_IN: u64 = 5;

/// One server, or a cluster.
enum Deployment {
    Server(Box<Server>),
    Cluster(Box<ClusterSite>),
}

/// See the module.
pub(crate) struct Deployments {
    model: Model,
    all: Vec<Deployment>,
    planted: Planted,
    pumped: u64,
    hits: u32,
}

impl Deployment {
    fn swap_model(&mut self, other: &mut Model) {
        match self {
            Self::Server(server) => server.swap_model(other),
            Self::Cluster(site) => site.swap_model(other),
        }
    }

    fn addresses(&self) -> Vec<Address> {
        match self {
            Self::Server(server) => vec![server.at().clone()],
            Self::Cluster(site) => site.hosts().iter().map(|host| host.at().clone()).collect(),
        }
    }

    fn open_conns(&self) -> usize {
        match self {
            Self::Server(server) => server.open_conns(),
            Self::Cluster(site) => site.hosts().iter().map(|host| host.open_conns()).sum(),
        }
    }

    fn pump(&mut self, now_us: u64) {
        match self {
            Self::Server(server) => server.pump(),
            Self::Cluster(site) => site.pump(now_us),
        }
    }
}

impl Deployments {
    /// Those of a plan.
    pub(crate) fn new(plan: &Plan, net: &SimNet, planted: Planted) -> Self {
        let new = |(layout, at): &(Layout, Vec<Address>)| match layout {
            Layout::Cluster(restless) => {
                let site = ClusterSite::new(plan, *restless, net, at, planted);
                Deployment::Cluster(Box::new(site))
            }
            _ => {
                let server = Server::new(net, at[0].clone(), plan.password, planted);
                Deployment::Server(Box::new(server))
            }
        };
        let mut model = Model::new();
        if plan.password {
            model.require_password(crate::plan::PASSWORD);
        }
        let all = plan.deployments.iter().map(new).collect();
        Self { model, all, planted, pumped: 0, hits: 0 }
    }

    /// Has one of them do something with the data that all have.
    fn with<T>(&mut self, number: usize, act: impl FnOnce(&mut Deployment) -> T) -> T {
        let deployment = &mut self.all[number];
        self.model.act_as(number);
        deployment.swap_model(&mut self.model);
        let done = act(deployment);
        deployment.swap_model(&mut self.model);
        done
    }

    /// Has each of them do something.
    fn each(&mut self, mut act: impl FnMut(&mut Deployment)) {
        (0..self.all.len()).for_each(|number| self.with(number, &mut act));
    }

    /// Prints from now on what they hear and say.
    pub(crate) fn talk(&mut self) {
        for deployment in &mut self.all {
            match deployment {
                Deployment::Server(server) => server.talk(),
                Deployment::Cluster(site) => site.talk(),
            }
        }
    }

    /// The data, and what was done to it.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Where all servers listen, one deployment after the other.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.all.iter().flat_map(Deployment::addresses).collect()
    }

    /// Something happens to one of the servers, counted through all deployments.
    pub(crate) fn suffer(&mut self, now_us: u64, server: usize, trouble: Trouble) {
        let mut first = 0;
        for number in 0..self.all.len() {
            let count = self.all[number].addresses().len();
            if server < first + count {
                return self.with(number, |deployment| match deployment {
                    Deployment::Server(server) => server.host().suffer(trouble),
                    Deployment::Cluster(site) => site.suffer(now_us, server - first, trouble),
                });
            }
            first += count;
        }
    }

    /// Everything is well again.
    pub(crate) fn settle(&mut self, now_us: u64) {
        self.each(|deployment| match deployment {
            Deployment::Server(server) => server.host().suffer(Trouble::Well),
            Deployment::Cluster(site) => site.settle(now_us),
        });
    }

    /// Nothing happens of its own accord any more.
    pub(crate) fn rest(&mut self) {
        self.each(|deployment| {
            if let Deployment::Cluster(site) = deployment {
                site.rest();
            }
        });
    }

    /// Does what can be done now.
    pub(crate) fn pump(&mut self, now_us: u64) {
        for number in 0..self.all.len() {
            self.pumped += 1;
            let before = self.model.executed();
            let mistaken = self.planted == Planted::OtherDeployment
                && self.pumped.is_multiple_of(MISTAKEN_ONE_IN);
            let as_whom = if mistaken { (number + 1) % self.all.len() } else { number };
            self.model.act_as(as_whom);
            self.all[number].swap_model(&mut self.model);
            self.all[number].pump(now_us);
            self.all[number].swap_model(&mut self.model);
            self.hits += u32::from(mistaken && self.model.executed() > before);
        }
    }

    /// When any of them next does something of its own accord.
    pub(crate) fn next_at_us(&self) -> Option<u64> {
        let next = |deployment: &Deployment| match deployment {
            Deployment::Server(_) => None,
            Deployment::Cluster(site) => site.next_at_us(),
        };
        self.all.iter().filter_map(next).min()
    }

    /// How often the planted fault hit.
    pub(crate) fn hits(&self) -> u32 {
        let hits = |deployment: &Deployment| match deployment {
            Deployment::Server(server) => server.hits(),
            Deployment::Cluster(site) => site.hits(),
        };
        self.hits + self.all.iter().map(hits).sum::<u32>()
    }

    /// Connections that are open to each of them.
    pub(crate) fn open_conns(&self) -> Vec<usize> {
        self.all.iter().map(Deployment::open_conns).collect()
    }

    /// How often slots and primaries changed.
    pub(crate) fn came_to(&self) -> CameTo {
        let mut sum = CameTo::default();
        for deployment in &self.all {
            if let Deployment::Cluster(site) = deployment {
                sum.moves += site.came_to.moves;
                sum.keys += site.came_to.keys;
                sum.failovers += site.came_to.failovers;
            }
        }
        sum
    }

    /// They go for good.
    pub(crate) fn close(&mut self) {
        self.each(|deployment| match deployment {
            Deployment::Server(server) => server.close(),
            Deployment::Cluster(site) => site.close(),
        });
    }
}
