//! The read targets of `[read_targets]`: other deployments that answer what clients read.
//!
//! ```text
//!   "redis-cluster://b1,b2 name=near password_file=/run/secrets/b"
//!    └ a URL as for `upstream`   └ ours
//! ```
//! Not here: what is done with them (`engine::elsewhere`).
//!
//! Invariant: no text made here repeats a piece of an entry that may be a password.

use std::fmt;
use std::path::Path;

use engine::elsewhere::Order;
use engine::limits::READ_TARGETS_MAX;

use crate::address::{PoolKind, UpstreamUrl};
use crate::compile::Draft;
use crate::problem::Fault;
use crate::rules::{Finding, SENTINEL_USER_ALONE};
use crate::secret::Secret;
use crate::sharding::Entry;

/// What an entry looks like, for messages.
pub(crate) const READ_TARGET_FORMS: &str = "a URL as for `upstream`, behind it name=TEXT, password_file=PATH and sentinel_password_file=PATH if needed, \
     as in \"redis://10.0.0.1 name=near\"";

/// The table `[read_targets]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTargets {
    /// Each of them.
    pub targets: Vec<ReadTargetLine>,
    /// Who is asked first.
    pub order: Order,
    /// Patterns of keys; empty: all.
    pub keys: Vec<String>,
    /// Of these reads so many in a hundred.
    pub percent: usize,
    /// Only of keys that a worker is asked for so often in a second; 0: of all.
    pub hot_per_s: usize,
    /// Somebody else is asked after this time.
    pub timeout_ms: u64,
    /// A target is asked, too, if the upstream has not answered for so long; 0: none is.
    pub hedge_after_ms: u64,
    /// Of a hundred reads at most so many.
    pub hedge_percent: usize,
    /// Bytes of reads that one of them has not answered.
    pub inflight_max_bytes: usize,
}

impl ReadTargets {
    /// Whether there are any.
    pub fn is_on(&self) -> bool {
        !self.targets.is_empty()
    }
}

impl Default for ReadTargets {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            order: Order::Targets,
            keys: Vec::new(),
            percent: 100,
            hot_per_s: 0,
            timeout_ms: 500,
            hedge_after_ms: 0,
            hedge_percent: 5,
            inflight_max_bytes: 4 << 20,
        }
    }
}

/// One target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTargetLine {
    entry: Entry,
}

impl fmt::Display for ReadTargetLine {
    /// Without user, password and the files that hold them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry.fmt(f)
    }
}

impl ReadTargetLine {
    /// Reads an entry.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        if !words.next().is_some_and(|url| url.contains("://")) {
            return Err(format!("begins with no URL; allowed: {READ_TARGET_FORMS}"));
        }
        const KNOWN: [&str; 3] = ["name", "password_file", "sentinel_password_file"];
        let is_known = |word: &str| {
            word.contains("://")
                || word.split_once('=').is_none_or(|(name, _)| KNOWN.contains(&name))
        };
        if !words.all(is_known) {
            return Err(format!(
                "has a word that is none of a read target; allowed: {READ_TARGET_FORMS}"
            ));
        }
        Ok(Self { entry: Entry::parse(text)? })
    }

    /// Where it is, and how to log in there.
    ///
    /// # Panics
    /// Never: an entry without a URL is refused when it is read.
    pub fn url(&self) -> &UpstreamUrl {
        match &self.entry {
            Entry::Url { url, .. } => url,
            Entry::Line(_) => unreachable!("`parse` takes URLs only"),
        }
    }

    /// As logs call it: its name, else its URL without user and password.
    pub fn name(&self) -> String {
        match &self.entry {
            Entry::Url { name: Some(name), .. } => name.clone(),
            _ => self.url().to_string(),
        }
    }

    /// Reads the passwords that are in files.
    pub(crate) fn read_secrets(
        &mut self,
        read: &dyn Fn(&Path, &str) -> Result<Secret, String>,
    ) -> Result<(), String> {
        self.entry.read_secrets(read)
    }
}

/// Reads entries, without looking at one beside the other.
pub(crate) fn read_lines<'a>(
    lines: impl Iterator<Item = Result<&'a str, Fault>>,
    span: impl Fn(usize) -> Option<std::ops::Range<usize>>,
) -> Result<Vec<ReadTargetLine>, Vec<Fault>> {
    let (mut targets, mut faults) = (Vec::new(), Vec::new());
    for (at, line) in lines.enumerate() {
        match line.map(ReadTargetLine::parse) {
            Err(fault) => faults.push(fault),
            Ok(Err(message)) => {
                let message = format!("read target {} {message}", at + 1);
                faults.push(Fault { span: span(at), message });
            }
            Ok(Ok(target)) => targets.push(target),
        }
    }
    if targets.len() > READ_TARGETS_MAX {
        let message =
            format!("found {} read targets; allowed: up to {READ_TARGETS_MAX}", targets.len());
        faults.push(Fault { span: None, message });
    }
    if faults.is_empty() { Ok(targets) } else { Err(faults) }
}

/// Rules between read targets, and between them and others.
pub(crate) fn check(draft: &Draft, found: &mut Vec<Finding>) {
    let options = &draft.config.read_targets;
    let targets = &options.targets;
    if options.hedge_after_ms > 0 {
        if options.order != Order::Main {
            let message = "`read_targets.hedge_after_ms` asks targets beside the upstream, which is asked first with `read_targets.order = \"main\"` only; \
                 set that, or leave it out";
            found.push((&["read_targets.hedge_after_ms", "read_targets.order"], message.into()));
        }
        if options.hedge_after_ms >= options.timeout_ms {
            let message = format!(
                "`read_targets.hedge_after_ms` is {}, and must be below `read_targets.timeout_ms`, which is {}: then a target is asked in any case",
                options.hedge_after_ms, options.timeout_ms
            );
            found.push((&["read_targets.hedge_after_ms", "read_targets.timeout_ms"], message));
        }
    }
    for (at, target) in targets.iter().enumerate() {
        let number = at + 1;
        let mut wrong = |message: String| found.push((TARGETS, message));
        let url = target.url();
        if url.user.is_some() && url.password.is_none() {
            wrong(format!(
                "read target {number} has a user without a password; give user:password@ in its URL, or password_file=PATH behind it \
                 (for a user with `nopass` any password does)"
            ));
        }
        if let PoolKind::Sentinel { user: Some(_), password: None, .. } = &url.pool {
            wrong(format!("read target {number} has {SENTINEL_USER_ALONE}"));
        }
        if targets[..at].iter().any(|other| other.name() == target.name()) {
            wrong(format!(
                "read target {number} has the name of one before it; give each another name=TEXT"
            ));
        }
        let is_primary = |other: &UpstreamUrl| {
            other.db == url.db && other.addresses().any(|one| url.addresses().any(|own| own == one))
        };
        if draft.config.upstream.urls().any(is_primary) {
            wrong(format!(
                "read target {number} is the upstream itself, which is asked at last in any case; name another deployment"
            ));
        }
    }
}

const TARGETS: &[&str] = &["read_targets.targets", "upstream"];
