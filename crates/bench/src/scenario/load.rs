//! The keys of a load: in `[load]` as defaults, in `[[test]]` as values of their own.
//!
//! A key that a load can be varied by takes one value or a list. This module reads them and lays a test's values over
//! the defaults; what lists unfold into is the business of `unfold`.
//!
//! Invariant: a list that was read holds at least one value, and each is within the bounds of `limits`.

use toml::Spanned;
use toml::de::DeValue;

use super::limits::{
    CLIENTS_MAX, DURATION_S_MIN, KEYS_MAX, PIPELINE_MAX, REQUESTS_MAX, THREADS_MAX,
};
use super::reader::{Notes, Section};
use super::values;
use crate::plan::{Distribution, Shape, Stop, Tool};

/// Every key of a load, in the order of the reference page.
pub(super) const LOAD_KEYS: &[&str] = &[
    "tool",
    "shape",
    "clients",
    "pipeline",
    "threads",
    "keys",
    "key_bytes",
    "value_bytes",
    "distribution",
    "hit_ratio",
    "resp",
    "seed",
    "duration_s",
    "requests",
    "warmup_s",
];

/// A load in the making: what the file says, `None` where it says nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadDraft {
    pub(super) tool: Option<Tool>,
    pub(super) shape: Option<Vec<Shape>>,
    pub(super) clients: Option<Vec<u32>>,
    pub(super) pipeline: Option<Vec<u32>>,
    pub(super) threads: Option<Vec<u32>>,
    pub(super) keys: Option<Vec<u64>>,
    pub(super) key_bytes: Option<(u32, u32)>,
    pub(super) value_bytes: Option<Vec<u32>>,
    pub(super) distribution: Option<Vec<Distribution>>,
    pub(super) hit_ratio: Option<Vec<f64>>,
    pub(super) resp: Option<u8>,
    pub(super) seed: Option<u64>,
    pub(super) stop: Option<Stop>,
    pub(super) warmup_ms: Option<u64>,
}

impl LoadDraft {
    /// Reads the keys of a load from a table that may have others as well.
    pub(super) fn read(notes: &mut Notes<'_>, section: &Section<'_>) -> Self {
        let mut draft = Self {
            tool: section.one(notes, "tool", values::word(values::tool)),
            shape: several(notes, section, "shape", values::word(values::shape)),
            clients: several(notes, section, "clients", values::whole(1..=CLIENTS_MAX)),
            pipeline: several(notes, section, "pipeline", values::whole(1..=PIPELINE_MAX)),
            threads: several(notes, section, "threads", values::whole(1..=THREADS_MAX)),
            keys: several(notes, section, "keys", values::whole(1..=KEYS_MAX)),
            key_bytes: section.one(notes, "key_bytes", values::word(values::key_bytes)),
            value_bytes: several(notes, section, "value_bytes", values::word(values::value_bytes)),
            distribution: several(
                notes,
                section,
                "distribution",
                values::word(values::distribution),
            ),
            hit_ratio: several(notes, section, "hit_ratio", values::real(0.0..=1.0, "")),
            resp: section.one(notes, "resp", values::whole(2..=3)),
            seed: section.one(notes, "seed", values::whole(0..=u64::MAX >> 1)),
            stop: None,
            warmup_ms: section.one(notes, "warmup_s", values::seconds(0.0)),
        };
        draft.stop = read_stop(notes, section);
        draft
    }

    /// These values, and those of `defaults` where this has none.
    pub(super) fn over(self, defaults: &Self) -> Self {
        Self {
            tool: self.tool.or(defaults.tool),
            shape: self.shape.or_else(|| defaults.shape.clone()),
            clients: self.clients.or_else(|| defaults.clients.clone()),
            pipeline: self.pipeline.or_else(|| defaults.pipeline.clone()),
            threads: self.threads.or_else(|| defaults.threads.clone()),
            keys: self.keys.or_else(|| defaults.keys.clone()),
            key_bytes: self.key_bytes.or(defaults.key_bytes),
            value_bytes: self.value_bytes.or_else(|| defaults.value_bytes.clone()),
            distribution: self.distribution.or_else(|| defaults.distribution.clone()),
            hit_ratio: self.hit_ratio.or_else(|| defaults.hit_ratio.clone()),
            resp: self.resp.or(defaults.resp),
            seed: self.seed.or(defaults.seed),
            stop: self.stop.or(defaults.stop),
            warmup_ms: self.warmup_ms.or(defaults.warmup_ms),
        }
    }
}

/// When a visit ends: after a time or after a number of requests, not both.
pub(super) fn read_stop(notes: &mut Notes<'_>, section: &Section<'_>) -> Option<Stop> {
    let after_ms = section.one(notes, "duration_s", values::seconds(DURATION_S_MIN));
    let after = section.one(notes, "requests", values::whole(1..=REQUESTS_MAX));
    if section.has("duration_s") && section.has("requests") {
        let message = "`duration_s` and `requests` both end a visit; keep one of them";
        notes.at(&section.span_of("requests"), &section.key("requests"), message);
    }
    after.map(Stop::AfterRequests).or_else(|| after_ms.map(Stop::AfterMs))
}

/// A value or a list of different ones.
fn several<T: PartialEq>(
    notes: &mut Notes<'_>,
    section: &Section<'_>,
    name: &str,
    read: impl Fn(&DeValue<'_>) -> Result<T, String>,
) -> Option<Vec<T>> {
    let list = section.list(notes, name, read)?;
    for (index, value) in list.iter().enumerate() {
        // Two equal values would make two tests of the same name.
        if list[..index].iter().any(|earlier| earlier.get_ref() == value.get_ref()) {
            notes.at(&value.span(), &section.key(name), "stands here twice; name each value once");
        }
    }
    Some(list.into_iter().map(Spanned::into_inner).collect())
}
