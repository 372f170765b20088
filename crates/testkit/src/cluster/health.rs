//! When a cluster counts as whole, and waiting for it.
//!
//! A cluster has no one place that knows how it is: each node has a view of its own, and says
//! `cluster_state:ok` when that view is complete, also when it is out of date. So all running nodes
//! are asked, and they must agree. Nodes that a test has killed or paused are not asked, but the
//! others must have dealt with them where slots are at stake.
//!
//! Invariant: a wait ends only with a round in which every running node was asked and passed.

use super::{LIMIT, RedisCluster, SLOTS};
use crate::admin::field;
use crate::wait;

/// Of each running node: its number, the id of its primary, its slots.
type View = Vec<(usize, Option<String>, Vec<(u16, u16)>)>;

impl RedisCluster {
    /// Waits until all running nodes agree on roles and owners and doubt none of each other.
    #[track_caller]
    pub fn wait_agreed(&self) {
        self.wait_each("agreement", |_, _| Ok(()));
    }

    /// Waits until the cluster is whole: all running nodes agree, every slot is served, every node
    /// says `cluster_state:ok`, running replicas are in sync and listed in everybody's
    /// `CLUSTER SLOTS`.
    #[track_caller]
    pub fn wait_ok(&self) {
        self.wait_each("a whole cluster", |index, view| {
            let info = self.nodes[index].peer().text(&["CLUSTER", "INFO"])?;
            let slots = SLOTS.to_string();
            let good = field(&info, "cluster_state") == Some("ok")
                && field(&info, "cluster_slots_ok") == Some(&slots);
            if !good {
                return Err(format!("it says: {}", info.replace("\r\n", " ")));
            }
            let slots = self.nodes[index].connect().ask("CLUSTER SLOTS");
            match view
                .iter()
                .find(|(other, of, _)| of.is_some() && !slots.contains(self.nodes[*other].id()))
            {
                Some((other, ..)) => Err(format!("its slots do not list replica {other}")),
                None => self.check_replication(index, view),
            }
        });
    }

    /// Asks the running nodes in turn until each passes `check` and has the view of the first.
    #[track_caller]
    fn wait_each(&self, what: &str, check: impl Fn(usize, &View) -> Result<(), String>) {
        let running = self.running();
        let mut reason = String::new();
        // One node at a time while something is amiss; the last round asks all of them.
        let mut suspect = 0;
        let done = wait::poll(LIMIT, || {
            let mut agreed: Option<View> = None;
            for step in 0..running.len() {
                let at = (suspect + step) % running.len();
                let view = self.view(running[at]).and_then(|view| {
                    check(running[at], &view)?;
                    let other = agreed.as_ref().is_some_and(|agreed| *agreed != view);
                    if other { Err("it sees another cluster".to_owned()) } else { Ok(view) }
                });
                match view {
                    Ok(view) => agreed = Some(view),
                    Err(error) => {
                        reason = format!("node {}: {error}", running[at]);
                        suspect = at;
                        return None;
                    }
                }
            }
            Some(())
        });
        assert!(done.is_some(), "waited {LIMIT:?} in vain for {what}; {reason}");
    }

    /// What a node believes about the running nodes.
    pub(super) fn view(&self, index: usize) -> Result<View, String> {
        let members = self.nodes[index].members()?;
        let mut view: View = Vec::new();
        for other in self.running() {
            let node = &self.nodes[other];
            let member = members.iter().find(|member| member.id == node.id());
            let member = member.ok_or_else(|| format!("it does not know node {other}"))?;
            let at = node.endpoint().tcp().port();
            if !member.is_settled() || (member.port != at && other != index) {
                return Err(format!("it doubts node {other}: {member:?}"));
            }
            // Names travel with pings, later than addresses.
            if self.setup.hostname.is_some() && member.hostname.is_none() {
                return Err(format!("it does not know the name of node {other}"));
            }
            view.push((other, member.primary.clone(), member.slots.clone()));
        }
        Ok(view)
    }

    /// Replicas are in sync with their primary, and primaries feed all their running replicas.
    fn check_replication(&self, index: usize, view: &View) -> Result<(), String> {
        let info = self.nodes[index].peer().text(&["INFO", "replication"])?;
        let id = self.nodes[index].id();
        let followers = view.iter().filter(|(_, of, _)| of.as_deref() == Some(id)).count();
        let online = info.lines().filter(|line| line.contains(",state=online,")).count();
        let good = match field(&info, "role") {
            Some("slave") => {
                field(&info, "master_link_status") == Some("up")
                    && field(&info, "master_sync_in_progress") == Some("0")
            }
            _ => online >= followers,
        };
        good.then_some(()).ok_or_else(|| format!("no sync: {}", info.replace("\r\n", " ")))
    }
}
