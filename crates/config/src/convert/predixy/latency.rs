//! `LatencyMonitor`: predixy's become ours, which take the same words.
//!
//! Invariant: what cannot be one of ours is noted at its line, and the rest of the monitor is carried.

use super::Sheet;
use super::tree::Node;
use crate::kind::monitors::{BOUNDS_MAX, NAME_BYTES_MAX};
use engine::limits::LATENCY_MONITORS_MAX;

/// Our option.
const OPTION: &str = "latency.monitors";

/// Reads all of them.
pub(super) fn read(nodes: &[Node], sheet: &mut Sheet) {
    let monitors: Vec<&Node> = nodes.iter().filter(|node| node.is("LatencyMonitor")).collect();
    for node in monitors.iter().skip(LATENCY_MONITORS_MAX) {
        sheet.lost(&node.place, &node.key, "there are at most 16 latency.monitors");
    }
    for node in monitors.into_iter().take(LATENCY_MONITORS_MAX) {
        let words = [commands(node, sheet), bounds(node, sheet)].concat();
        let name = name(node, sheet);
        sheet.entry(OPTION, (name, words.join(" ")), &node.place, &node.key);
    }
}

/// As INFO can show it.
fn name(node: &Node, sheet: &mut Sheet) -> String {
    let fits = |char: &char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    let mut name: String =
        node.value.chars().map(|char| if fits(&char) { char } else { '_' }).collect();
    name.truncate(NAME_BYTES_MAX);
    if name != node.value {
        sheet.note(&node.place, &node.key, format!("is called {name} here"));
    }
    name
}

/// `+ get`, `- blpop`, in their order.
fn commands(node: &Node, sheet: &mut Sheet) -> Vec<String> {
    let mut words = Vec::new();
    for item in children_of(node, "Commands") {
        let name = item.value.to_ascii_lowercase();
        if name == "all" || engine::command::lookup(name.as_bytes()).is_some() {
            words.push(format!("{}{name}", item.key));
        } else {
            sheet.lost(&item.place, &item.key, "the table of commands does not have it");
        }
    }
    words
}

/// Microseconds, growing.
fn bounds(node: &Node, sheet: &mut Sheet) -> Vec<String> {
    let mut bounds: Vec<u64> = Vec::new();
    for item in children_of(node, "TimeSpan") {
        match item.value.parse() {
            Ok(us) => bounds.push(us),
            Err(_) => sheet.wrong(&item.place, &item.key, "allowed: a number of microseconds"),
        }
    }
    bounds.sort_unstable();
    bounds.dedup();
    if bounds.len() > BOUNDS_MAX {
        sheet.note(
            &node.place,
            &node.key,
            format!("of its time spans the first {BOUNDS_MAX} are kept"),
        );
        bounds.truncate(BOUNDS_MAX);
    }
    bounds.iter().map(u64::to_string).collect()
}

fn children_of<'n>(node: &'n Node, key: &str) -> impl Iterator<Item = &'n Node> {
    node.children.iter().filter(move |inner| inner.is(key)).flat_map(|inner| &inner.children)
}
