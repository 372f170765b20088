//! The mirrors of `[mirrors]`: other deployments that get what clients write.
//!
//! ```text
//!   "redis-cluster://b1,b2 name=new mode=all keys=app:* percent=50 password_file=/run/secrets/b"
//!    └ a URL as for `upstream`      └ ours, in any order; keys= as often as wanted
//! ```
//! Not here: what mirrors do (`engine::mirror`).
//!
//! Invariant: no text made here repeats a piece of an entry that may be a password.

use std::fmt;
use std::path::Path;

use engine::limits::MIRRORS_MAX;
use engine::mirror::Mode;

use crate::address::{PoolKind, UpstreamUrl};
use crate::compile::Draft;
use crate::problem::Fault;
use crate::rules::{Finding, SENTINEL_USER_ALONE};
use crate::secret::Secret;
use crate::sharding::Entry;

/// What an entry looks like, for messages.
pub(crate) const MIRROR_FORMS: &str = "a URL as for `upstream`, behind it name=TEXT, mode=first, all or all-checked, keys=PATTERN (several times \
     if wanted), percent=N from 1 to 100, shadow_reads=N from 1 to 100, password_file=PATH and sentinel_password_file=PATH if needed, as in \
     \"redis-cluster://10.0.0.1,10.0.0.2 name=new mode=first\"";

/// The table `[mirrors]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrors {
    /// Each of them.
    pub targets: Vec<MirrorLine>,
    /// Bytes of writes that one of them has not answered.
    pub queue_max_bytes: usize,
    /// There may be several workers, and the order of writes holds within each.
    pub across_workers: bool,
    /// `FLUSHALL` and `FLUSHDB` go to them as well.
    pub flush: bool,
    /// The report on reads that differ shows values.
    pub shadow_samples: bool,
    /// Times to live that lie no further apart are equal.
    pub shadow_ttl_tolerance_ms: u64,
}

impl Mirrors {
    /// Whether there are any.
    pub fn is_on(&self) -> bool {
        !self.targets.is_empty()
    }

    /// Whether all writes go over one worker, so that their order is known.
    pub(crate) fn wants_one_worker(&self) -> bool {
        self.is_on() && !self.across_workers
    }
}

impl Default for Mirrors {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            queue_max_bytes: 64 << 20,
            across_workers: false,
            flush: false,
            shadow_samples: false,
            shadow_ttl_tolerance_ms: 1_000,
        }
    }
}

/// One mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorLine {
    entry: Entry,
    /// What clients wait for.
    pub mode: Mode,
    /// Patterns of keys; empty: all.
    pub keys: Vec<String>,
    /// Of these so many in a hundred.
    pub percent: u8,
    /// Of a hundred reads so many are compared; 0: none.
    pub shadow_percent: u8,
}

impl fmt::Display for MirrorLine {
    /// Without user, password and the files that hold them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.entry)?;
        if self.mode != Mode::First {
            write!(f, " mode={}", self.mode.name())?;
        }
        for keys in &self.keys {
            write!(f, " keys={keys}")?;
        }
        if self.percent != 100 {
            write!(f, " percent={}", self.percent)?;
        }
        if self.shadow_percent != 0 {
            write!(f, " shadow_reads={}", self.shadow_percent)?;
        }
        Ok(())
    }
}

impl MirrorLine {
    /// Reads an entry.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut mode, mut percent, mut shadow_percent) = (None, None, None);
        let mut keys = Vec::new();
        let mut rest: Vec<&str> = Vec::new();
        for word in text.split_ascii_whitespace() {
            match word.split_once('=').filter(|_| !word.contains("://")) {
                Some(("mode", name)) if mode.is_none() => {
                    let known = Mode::ALL.into_iter().find(|mode| mode.name() == name);
                    mode = Some(known.ok_or("has no such mode; allowed: first, all, all-checked")?);
                }
                Some(("keys", pattern)) if !pattern.is_empty() => keys.push(pattern.to_owned()),
                Some(("percent", number)) if percent.is_none() => {
                    percent = Some(hundredths(number).ok_or("has no percent from 1 to 100")?);
                }
                Some(("shadow_reads", number)) if shadow_percent.is_none() => {
                    let number = hundredths(number);
                    shadow_percent = Some(number.ok_or("has no shadow_reads from 1 to 100")?);
                }
                Some(("mode" | "percent" | "shadow_reads", _)) => {
                    return Err("has one of its words twice".to_owned());
                }
                Some(("weight" | "keys", _)) => {
                    return Err(format!(
                        "has a word that is none of a mirror; allowed: {MIRROR_FORMS}"
                    ));
                }
                _ => rest.push(word),
            }
        }
        if !rest.first().is_some_and(|url| url.contains("://")) {
            return Err(format!("begins with no URL; allowed: {MIRROR_FORMS}"));
        }
        let entry = Entry::parse(&rest.join(" "))?;
        Ok(Self {
            entry,
            mode: mode.unwrap_or_default(),
            keys,
            percent: percent.unwrap_or(100),
            shadow_percent: shadow_percent.unwrap_or(0),
        })
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

/// A number from 1 to 100.
fn hundredths(text: &str) -> Option<u8> {
    text.parse().ok().filter(|number| (1..=100).contains(number))
}

/// Reads entries, without looking at one beside the other.
pub(crate) fn read_lines<'a>(
    lines: impl Iterator<Item = Result<&'a str, Fault>>,
    span: impl Fn(usize) -> Option<std::ops::Range<usize>>,
) -> Result<Vec<MirrorLine>, Vec<Fault>> {
    let (mut mirrors, mut faults) = (Vec::new(), Vec::new());
    for (at, line) in lines.enumerate() {
        match line.map(MirrorLine::parse) {
            Err(fault) => faults.push(fault),
            Ok(Err(message)) => {
                let message = format!("mirror {} {message}", at + 1);
                faults.push(Fault { span: span(at), message });
            }
            Ok(Ok(mirror)) => mirrors.push(mirror),
        }
    }
    if mirrors.len() > MIRRORS_MAX {
        let message = format!("found {} mirrors; allowed: up to {MIRRORS_MAX}", mirrors.len());
        faults.push(Fault { span: None, message });
    }
    if faults.is_empty() { Ok(mirrors) } else { Err(faults) }
}

/// With mirrors, be they a tenant's, there is one worker, unless somebody said otherwise, which is refused where the order of all writes is to hold.
pub(crate) fn complete(draft: &mut Draft) {
    if draft.config.wants_one_worker() && !draft.is_set("workers") {
        draft.config.workers = 1;
    }
}

/// Rules between mirrors, and between them and others.
pub(crate) fn check(draft: &Draft, workers: &'static [&'static str], found: &mut Vec<Finding>) {
    let mirrors = &draft.config.mirrors.targets;
    if mirrors.is_empty() {
        return;
    }
    if draft.config.mirrors.wants_one_worker() && draft.config.workers > 1 {
        let message = format!(
            "{}; leave `workers` out, set it to 1, or allow that by `mirrors.across_workers`",
            too_many_workers(draft.config.workers)
        );
        found.push((workers, message));
    }
    if !draft.config.policies.double_delete.is_empty() {
        let message = "`policies.double_delete` deletes at the primary only, and a mirror would keep what is gone; use one of them";
        found.push((&["policies.double_delete", "mirrors.targets"], message.to_owned()));
    }
    for (at, mirror) in mirrors.iter().enumerate() {
        let number = at + 1;
        let mut wrong = |message: String| found.push((TARGETS, message));
        let url = mirror.url();
        if url.user.is_some() && url.password.is_none() {
            wrong(format!(
                "mirror {number} has a user without a password; give user:password@ in its URL, or password_file=PATH behind it \
                 (for a user with `nopass` any password does)"
            ));
        }
        if let PoolKind::Sentinel { user: Some(_), password: None, .. } = &url.pool {
            wrong(format!("mirror {number} has {SENTINEL_USER_ALONE}"));
        }
        if mirrors[..at].iter().any(|other| other.name() == mirror.name()) {
            wrong(format!(
                "mirror {number} has the name of one before it; give each another name=TEXT"
            ));
        }
        let is_primary = |other: &UpstreamUrl| {
            other.db == url.db && other.addresses().any(|one| url.addresses().any(|own| own == one))
        };
        if draft.config.upstream.urls().any(is_primary) {
            wrong(format!(
                "mirror {number} is the upstream itself, which would do every write twice; name another deployment"
            ));
        }
    }
}

/// Why there may not be so many workers.
pub(crate) fn too_many_workers(workers: usize) -> String {
    format!(
        "`workers` is {workers}, and with mirrors it must be 1: writes of one key that go over two workers could reach a mirror in another order \
         than the primary"
    )
}

const TARGETS: &[&str] = &["mirrors.targets", "upstream"];
