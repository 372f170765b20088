//! predixy's read priorities as our `reads.policy`, where one is exactly that.
//!
//! A read goes to the servers of the highest priority that live, and never to one with priority 0. *Static* replicas are those
//! that the configuration names, *dynamic* ones those that a cluster or sentinels tell.
//!
//! Invariant: a policy is set only where it sends reads to the same servers; else there is a note.

use super::pool::{Kind, Pool};
use crate::convert::sheet::Sheet;
use crate::convert::values::number;

/// The keys, and their defaults.
const KEYS: [(&str, u64); 3] =
    [("MasterReadPriority", 50), ("StaticSlaveReadPriority", 0), ("DynamicSlaveReadPriority", 0)];

/// Reads the priorities of a pool.
pub(super) fn read(pool: &Pool<'_>, sheet: &mut Sheet) {
    let values = KEYS.map(|(key, default)| match pool.find(key) {
        Some(node) => number(&node.value, &node.place, key, sheet),
        None => Some(default),
    });
    let [Some(primary), Some(listed), Some(told)] = values else { return };
    let given = || KEYS.iter().filter_map(|(key, _)| Some((*key, pool.find(key)?)));
    let Some((first, node)) = given().next() else { return };
    let most = pool.node.children.iter().filter(|inner| inner.is("Group"));
    let most = most.map(|group| group.children.len()).max().unwrap_or(0);
    let [listed, told] = match pool.kind {
        Kind::Cluster => [listed, told],
        // Groups of sentinels that list no servers have dynamic replicas only.
        Kind::Sentinel => [if most == 0 { told } else { listed }, told],
        // Fixed ones have static replicas only, and none where each group has one server.
        Kind::Fixed => [if most > 1 { listed } else { 0 }, 0],
    };
    match policy(pool.kind, primary, listed, told) {
        Some(policy) => sheet.text("reads.policy", policy, &node.place, first),
        None => {
            for (key, node) in given() {
                sheet.note(&node.place, key, "no reads.policy is exactly this, so that the primaries answer all reads; see reads.policy for others");
            }
        }
    }
}

/// The policy that is exactly this, if there is one.
fn policy(kind: Kind, primary: u64, listed: u64, told: u64) -> Option<&'static str> {
    // Replicas of fixed servers are not taken over, so that only the primary is left.
    if kind == Kind::Fixed && listed > 0 {
        return None;
    }
    match (primary, listed, told) {
        (1.., 0, 0) => Some("primary"),
        (_, listed, told) if listed != told => None,
        (0, 1.., _) => Some("replica"),
        (primary, replica, _) if primary == replica && primary > 0 => Some("any"),
        (primary, replica, _) if 0 < primary && primary < replica => Some("prefer-replica"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_policies() {
        for (primary, listed, told, expected) in [
            (50, 0, 0, Some("primary")),
            (0, 50, 50, Some("replica")),
            (50, 50, 50, Some("any")),
            (10, 50, 50, Some("prefer-replica")),
            // The primary answers, and replicas while it is dead: no policy is that.
            (60, 50, 50, None),
            (50, 0, 60, None),
            (50, 60, 0, None),
            (0, 0, 0, None),
        ] {
            assert_eq!(
                policy(Kind::Cluster, primary, listed, told),
                expected,
                "{primary} {listed} {told}"
            );
        }
        assert_eq!(policy(Kind::Fixed, 50, 0, 0), Some("primary"));
        assert_eq!(policy(Kind::Fixed, 50, 60, 0), None);
    }
}
