//! Which kind of target can stand before which servers: the one table of it.
//!
//! A target that cannot serve a topology is left out of its tests with a sentence, so that a scenario may name all targets
//! for all tests and a later version of a program only changes a line here.

use crate::plan::{TargetKind, TargetPlan, Topology, TopologyKind};

use TopologyKind::{Cluster, Shards, Single};

/// Kind, the topologies it serves, and why not the others: what follows "because".
const TABLE: &[(&str, &[TopologyKind], &str)] = &[
    (
        "direct",
        &[Single],
        "the load talks to one endpoint and knows nothing of shards and clusters",
    ),
    ("respool", &[Single, Shards, Cluster], ""),
    ("nutcracker", &[Single, Shards], "nutcracker knows nothing of clusters"),
    ("predixy", &[Single, Shards, Cluster], ""),
    ("haproxy", &[Single], "haproxy passes bytes on and cannot spread keys over servers"),
    // It stands before nothing, and answers the same whatever servers others have.
    ("floor", &[Single, Shards, Cluster], ""),
    ("command", &[Single, Shards, Cluster], ""),
    ("external", &[Single, Shards, Cluster], ""),
];

/// Name of a kind, as scenarios write it; for kinds with a program also the program's.
#[must_use]
pub fn kind_name(kind: &TargetKind) -> &'static str {
    match kind {
        TargetKind::Direct => "direct",
        TargetKind::Respool => "respool",
        TargetKind::Nutcracker => "nutcracker",
        TargetKind::Predixy => "predixy",
        TargetKind::Haproxy => "haproxy",
        TargetKind::Floor(_) => "floor",
        TargetKind::Command(_) => "command",
        TargetKind::External(_) => "external",
    }
}

/// A whole sentence when `target` cannot stand before `topology`.
#[must_use]
pub fn refusal(target: &TargetPlan, topology: &Topology) -> Option<String> {
    let name = kind_name(&target.kind);
    let (_, serves, why) = TABLE.iter().find(|(kind, ..)| *kind == name)?;
    if !serves.contains(&topology.kind) {
        return Some(format!(
            "`{}` is not visited with the topology `{}`: {why}.",
            target.name, topology.name
        ));
    }
    (target.kind == TargetKind::Nutcracker && target.workers > 1).then(|| {
        format!(
            "`{}` is not visited: nutcracker has one worker, and {} were asked for.",
            target.name, target.workers
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::NetDriver;

    fn target(kind: TargetKind, workers: u32) -> TargetPlan {
        TargetPlan {
            name: "it".to_owned(),
            kind,
            workers,
            driver: None,
            options: Vec::new(),
            optional: false,
            topologies: Vec::new(),
            axis: None,
            beside: Vec::new(),
            idle: 0,
        }
    }

    fn topology(kind: TopologyKind) -> Topology {
        Topology { name: "servers".to_owned(), kind, nodes: 3 }
    }

    #[test]
    fn each_kind_has_a_line_and_those_that_serve_less_have_a_reason() {
        let kinds = [
            TargetKind::Direct,
            TargetKind::Respool,
            TargetKind::Nutcracker,
            TargetKind::Predixy,
            TargetKind::Haproxy,
            TargetKind::Floor(NetDriver::Epoll),
            TargetKind::Command(vec!["x".to_owned()]),
        ];
        for kind in kinds {
            let name = kind_name(&kind);
            let lines: Vec<_> = TABLE.iter().filter(|(kind, ..)| *kind == name).collect();
            assert_eq!(lines.len(), 1, "{name}");
            assert_eq!(lines[0].1.len() < 3, !lines[0].2.is_empty(), "{name}");
            assert_eq!(refusal(&target(kind, 1), &topology(Single)), None, "{name}");
        }
    }

    #[test]
    fn sentences_name_target_topology_and_reason() {
        assert_eq!(
            refusal(&target(TargetKind::Nutcracker, 1), &topology(Cluster)).unwrap(),
            "`it` is not visited with the topology `servers`: nutcracker knows nothing of clusters."
        );
        assert_eq!(refusal(&target(TargetKind::Nutcracker, 1), &topology(Shards)), None);
        assert!(refusal(&target(TargetKind::Nutcracker, 1), &topology(Cluster)).is_some());
        assert_eq!(
            refusal(&target(TargetKind::Nutcracker, 2), &topology(Single)).unwrap(),
            "`it` is not visited: nutcracker has one worker, and 2 were asked for."
        );
    }
}
