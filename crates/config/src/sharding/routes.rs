//! Routes: which shards share the keys that begin alike, as it is written, and what becomes of it.
//!
//! ```text
//!   [sharding.routes]  "user:" = "users-a users-b"      --sharding-routes "user:=users-a users-b"
//!   [sharding]         catch_all = "rest"               the keys that no prefix fits
//!                      remove_prefix = ["order:"]       what servers do not see
//! ```
//! Not here: which prefix fits a key (`engine::route::shard`).
//!
//! Invariant: a route that [`resolve`] returns names shards that there are, each by its index.

use std::fmt;

use engine::route::shard::{PREFIX_BYTES_MAX, Route, Routes};

use super::ShardUrl;
use crate::rules::Finding;

/// What an entry looks like, for messages.
pub(crate) const ROUTE_FORMS: &str = "\"prefix\" = \"shard shard ...\", the names of the shards that share the keys that begin so, \
     separated by blanks, as in \"user:\" = \"users-a users-b\"; the shards of all other keys are `sharding.catch_all`";

/// One entry as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteLine {
    pub(crate) prefix: String,
    pub(crate) shards: Vec<String>,
}

impl fmt::Display for RouteLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.prefix, self.shards.join(" "))
    }
}

impl RouteLine {
    /// An entry of a prefix and the names behind it. The error goes on after "which".
    pub(crate) fn parse(prefix: &str, names: &str) -> Result<Self, String> {
        if prefix.is_empty() {
            return Err("has no prefix".to_owned());
        }
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(format!("has a prefix of more than {PREFIX_BYTES_MAX} bytes"));
        }
        // As a word it is read from the last `=` on.
        if names.contains('=') {
            return Err("has a `=` among the names of shards".to_owned());
        }
        let shards = names_of(names);
        if shards.is_empty() {
            return Err("names no shard".to_owned());
        }
        Ok(Self { prefix: prefix.to_owned(), shards })
    }
}

fn names_of(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// What was written of routes.
#[derive(Clone, Default)]
pub(crate) struct RoutesDraft {
    pub(crate) lines: Vec<RouteLine>,
    pub(crate) catch_all: Option<String>,
    pub(crate) ignore_case: bool,
    /// Prefixes that servers do not see.
    pub(crate) removed: Vec<String>,
}

impl RoutesDraft {
    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.catch_all.is_none() && self.removed.is_empty()
    }

    /// Finds the shards that are named; `None`: no routes are written, or something is wrong with them.
    pub(super) fn resolve(&self, shards: &[ShardUrl], found: &mut Vec<Finding>) -> Option<Routes> {
        if self.lines.is_empty() {
            if self.catch_all.is_some() {
                let message = "set without `sharding.routes`, beside which it says where all other keys go; give the routes, or leave \
                               this out";
                found.push((CATCH_ALL, message.to_owned()));
            }
            if !self.removed.is_empty() {
                let message = "set without `sharding.routes`, whose prefixes it names; give the routes, or leave this out";
                found.push((REMOVED, message.to_owned()));
            }
            return None;
        }
        let before = found.len();
        let mut list: Vec<Route> = Vec::with_capacity(self.lines.len() + 1);
        for (at, line) in self.lines.iter().enumerate() {
            let is_same = |other: &RouteLine| {
                self.ignore_case && other.prefix.eq_ignore_ascii_case(&line.prefix)
            };
            if let Some(other) = self.lines[..at].iter().find(|other| is_same(other)) {
                let message = format!(
                    "{:?} and {:?} are the same prefix with `sharding.ignore_case`; leave one of them out",
                    other.prefix, line.prefix
                );
                found.push((ROUTES, message));
            }
            let whose = format!("the route of {:?}", line.prefix);
            let shards = indices(&line.shards, shards, &whose, ROUTES, found);
            let removes = self.removed.contains(&line.prefix);
            list.push(Route { prefix: line.prefix.clone().into_bytes(), shards, removes });
        }
        if let Some(rest) = &self.catch_all {
            let names = names_of(rest);
            if names.is_empty() {
                found.push((
                    CATCH_ALL,
                    "names no shard; leave it out if only keys with a route are to be served"
                        .to_owned(),
                ));
            }
            let shards = indices(&names, shards, "the route of all other keys", CATCH_ALL, found);
            list.push(Route { prefix: Vec::new(), shards, removes: false });
        }
        self.check_removed(found);
        for (index, shard) in shards.iter().enumerate() {
            if !list.iter().any(|route| route.shards.contains(&(index as u16))) {
                let message = format!(
                    "no route leads to shard {} ({}); name it in one of them or in `sharding.catch_all`, or leave it out",
                    index + 1,
                    shard.shard.name
                );
                found.push((ROUTES, message));
            }
        }
        let ignore_case = self.ignore_case;
        (found.len() == before).then_some(Routes { ignore_case, list })
    }
}

impl RoutesDraft {
    /// What is removed is the prefix of a route.
    fn check_removed(&self, found: &mut Vec<Finding>) {
        for (at, prefix) in self.removed.iter().enumerate() {
            let is_twice = self.removed[..at].contains(prefix);
            let is_known = self.lines.iter().any(|line| line.prefix == *prefix);
            let message = match (is_twice, is_known) {
                (true, _) => format!("names {prefix:?} twice; once is enough"),
                (_, false) => format!(
                    "names {prefix:?}, which is no prefix of `sharding.routes`; write it as it stands there"
                ),
                _ => continue,
            };
            found.push((REMOVED, message));
        }
    }
}

/// The indices of the shards of these names.
fn indices(
    names: &[String],
    shards: &[ShardUrl],
    whose: &str,
    at: &'static [&'static str],
    found: &mut Vec<Finding>,
) -> Vec<u16> {
    let mut indices: Vec<u16> = Vec::with_capacity(names.len());
    for name in names {
        let mut is_it = (0..).zip(shards).filter(|(_, shard)| shard.shard.name == *name);
        match (is_it.next(), is_it.next()) {
            (Some((index, _)), None) if indices.contains(&index) => {
                found.push((at, format!("{whose} names {name:?} twice; once is enough")));
            }
            (Some((index, _)), None) => indices.push(index),
            (Some(_), Some(_)) => {
                let message = format!(
                    "{whose} names {name:?}, which several shards are called; give each its own name=TEXT"
                );
                found.push((at, message));
            }
            (None, _) => {
                let known: Vec<&str> =
                    shards.iter().map(|shard| shard.shard.name.as_str()).collect();
                let known = match known.len() {
                    0..=SHOWN_NAMES_MAX => known.join(", "),
                    _ => format!("{} ...", known[..SHOWN_NAMES_MAX].join(", ")),
                };
                found.push((
                    at,
                    format!("{whose} names {name:?}, which no shard is called; allowed: {known}"),
                ));
            }
        }
    }
    indices
}

/// Names that a message lists.
const SHOWN_NAMES_MAX: usize = 10;

/// Options that findings are about.
pub(super) const ROUTES: &[&str] = &["sharding.routes", "sharding.shards"];
pub(super) const REMOVED: &[&str] = &["sharding.remove_prefix"];
const CATCH_ALL: &[&str] = &["sharding.catch_all"];
