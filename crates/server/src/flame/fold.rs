//! Stacks folded into a tree: what begins alike is one branch.
//!
//! Not here: pixels (`svg`), and where stacks come from.
//!
//! Invariant: a node's samples are at least those of its children together, and there are at most [`NODES_MAX`] nodes; where a stack
//! finds no room for a deeper one, its samples stay with the last that it has.

use std::collections::BTreeMap;
use std::fmt::Write;

/// See the module. Its first nodes are threads.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Children come after their parents.
    nodes: Vec<Node>,
    threads: BTreeMap<String, usize>,
    samples: u64,
}

#[derive(Debug, Default)]
struct Node {
    samples: u64,
    /// Places in `nodes`, by name: two graphs of the same work look alike.
    children: BTreeMap<String, usize>,
}

/// A node with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed<'a> {
    /// The thread, or a function.
    pub(super) name: &'a str,
    /// 0 for a thread.
    pub(super) depth: usize,
    /// Samples to the left of it.
    pub(super) before: u64,
    /// Its own and those of what it called.
    pub(super) samples: u64,
    /// Those of what it called.
    pub(super) in_children: u64,
}

impl Tree {
    /// One more stack: of which thread, its functions with the outermost first, and how often it was seen.
    pub(super) fn add<'a>(
        &mut self,
        thread: &'a str,
        functions: impl Iterator<Item = &'a str>,
        samples: u64,
    ) {
        self.samples += samples;
        let mut parent = None;
        for name in std::iter::once(thread).chain(functions) {
            let Some(node) = self.child(parent, name) else { return };
            self.nodes[node].samples += samples;
            parent = Some(node);
        }
    }

    /// The child of that name; made if there is room.
    fn child(&mut self, parent: Option<usize>, name: &str) -> Option<usize> {
        let next = self.nodes.len();
        let children = match parent {
            Some(parent) => &mut self.nodes[parent].children,
            None => &mut self.threads,
        };
        if let Some(node) = children.get(name) {
            return Some(*node);
        }
        if next >= NODES_MAX {
            return None;
        }
        children.insert(name.to_owned(), next);
        self.nodes.push(Node::default());
        Some(next)
    }

    /// All samples.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Every node, each before its children, and these in the order of their names.
    pub(super) fn placed(&self) -> Vec<Placed<'_>> {
        let mut placed = Vec::with_capacity(self.nodes.len());
        self.place(&self.threads, (0, 0), &mut placed);
        placed
    }

    /// A stack is no deeper than what was unwound, so this is not, either.
    fn place<'a>(
        &'a self,
        siblings: &'a BTreeMap<String, usize>,
        (depth, mut before): (usize, u64),
        placed: &mut Vec<Placed<'a>>,
    ) {
        for (name, node) in siblings {
            let Node { samples, children } = &self.nodes[*node];
            let in_children = children.values().map(|child| self.nodes[*child].samples).sum();
            placed.push(Placed { name, depth, before, samples: *samples, in_children });
            self.place(children, (depth + 1, before), placed);
            before += samples;
        }
    }

    /// A line for each stack: its names with `;` between, and how often it was seen.
    pub(super) fn folded(&self) -> String {
        let (mut out, mut path) = (String::new(), Vec::new());
        for Placed { name, depth, samples, in_children, .. } in self.placed() {
            path.truncate(depth);
            path.push(name);
            if samples > in_children {
                // Writing to a string does not fail.
                let _ = writeln!(out, "{} {}", path.join(";"), samples - in_children);
            }
        }
        out
    }
}

/// Nodes of a tree. A minute under load has some thousands.
const NODES_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(stacks: &[(&str, u64)]) -> Tree {
        let mut tree = Tree::default();
        for (stack, samples) in stacks {
            let mut names = stack.split(';');
            let thread = names.next().expect("a thread");
            tree.add(thread, names, *samples);
        }
        tree
    }

    #[test]
    fn stacks_that_begin_alike_share_a_branch() {
        let tree = tree(&[("t;b;c", 3), ("t;a", 2), ("s;a", 1), ("t;b", 4), ("t;b;c", 1)]);
        let placed = |name, depth, before, samples, in_children| Placed {
            name,
            depth,
            before,
            samples,
            in_children,
        };
        let expected = [
            placed("s", 0, 0, 1, 1),
            placed("a", 1, 0, 1, 0),
            placed("t", 0, 1, 10, 10),
            placed("a", 1, 1, 2, 0),
            placed("b", 1, 3, 8, 4),
            placed("c", 2, 3, 4, 0),
        ];
        assert_eq!(tree.placed(), expected);
        assert_eq!(tree.samples(), 11);
        assert_eq!(tree.folded(), "s;a 1\nt;a 2\nt;b 4\nt;b;c 4\n");
    }

    #[test]
    fn nothing_makes_nothing() {
        assert_eq!((Tree::default().folded(), Tree::default().samples()), (String::new(), 0));
        assert!(Tree::default().placed().is_empty());
    }

    #[test]
    fn a_full_tree_keeps_the_count() {
        let mut tree = Tree::default();
        for number in 0..NODES_MAX as u64 + 10 {
            let name = number.to_string();
            tree.add("t", [name.as_str(), "deeper"].into_iter(), 1);
        }
        assert_eq!(tree.nodes.len(), NODES_MAX);
        assert_eq!(tree.samples(), NODES_MAX as u64 + 10);
        assert_eq!(tree.placed()[0].samples, tree.samples(), "they stay with the thread");
        tree.add("another thread", ["a"].into_iter(), 5);
        assert_eq!(tree.samples(), NODES_MAX as u64 + 15);
    }
}
