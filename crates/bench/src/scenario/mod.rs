//! Scenarios as data: TOML in, a checked [`Plan`] out.
//!
//! ```text
//!   text ─► reader (places, unknown keys) ─► load, parts, unfold (what the file says) ─► changes (command line) ─► Plan
//! ```
//!
//! What a file may say is written down in `docs/reference/bench-scenarios.md`. Nothing is started here and no file is
//! opened: the built-in scenarios are part of the program, others are read by the caller.
//!
//! Invariant: a plan that [`load`] returns satisfies every rule of [`crate::plan`]; otherwise all problems come back at
//! once, each with its place.

mod changes;
pub mod limits;
mod load;
mod parts;
mod reader;
mod unfold;
pub mod values;

use config::Problems;
use config::suggest::closest;

pub use changes::Changes;
pub(crate) use reader::shown;
pub use unfold::check_load;

use crate::plan::{Plan, Stop};
use load::{LOAD_KEYS, LoadDraft};
use reader::{Notes, Section};

/// (name, text) of every scenario that is built in.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("camellia-4", include_str!("../../../../bench/scenarios/camellia-4.toml")),
    ("camellia-cluster", include_str!("../../../../bench/scenarios/camellia-cluster.toml")),
    ("churn", include_str!("../../../../bench/scenarios/churn.toml")),
    ("cost", include_str!("../../../../bench/scenarios/cost.toml")),
    ("idle", include_str!("../../../../bench/scenarios/idle.toml")),
    ("large", include_str!("../../../../bench/scenarios/large.toml")),
    ("monitoring-cost", include_str!("../../../../bench/scenarios/monitoring-cost.toml")),
    ("near-cache", include_str!("../../../../bench/scenarios/near-cache.toml")),
    ("pipeline-ladder", include_str!("../../../../bench/scenarios/pipeline-ladder.toml")),
    ("predixy-8", include_str!("../../../../bench/scenarios/predixy-8.toml")),
    ("scale", include_str!("../../../../bench/scenarios/scale.toml")),
    ("server-cost", include_str!("../../../../bench/scenarios/server-cost.toml")),
    ("sweep", include_str!("../../../../bench/scenarios/sweep.toml")),
];

/// Keys at the top of a file.
const ROOT_KEYS: &[&str] = &[
    "about",
    "source",
    "base",
    "rounds",
    "pause_s",
    "duration_s",
    "requests",
    "warmup_s",
    "short",
    "pin",
    "load",
    "topology",
    "target",
    "test",
    "limit",
];

/// Keys of `[short]`.
const SHORT_KEYS: &[&str] = &["rounds", "pause_s", "duration_s", "requests", "warmup_s", "only"];

/// What `[short]` puts in the place of the file's values.
#[derive(Debug, Default)]
struct Short {
    rounds: Option<u32>,
    pause_ms: Option<u64>,
    warmup_ms: Option<u64>,
    stop: Option<Stop>,
    only: Vec<String>,
}

/// The text of a built-in scenario.
///
/// # Errors
/// One sentence with the names there are, or with the one that was probably meant.
pub fn built_in(name: &str) -> Result<&'static str, String> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return Ok(text);
    }
    let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let advice = match closest(name, names.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are: {} (or give the path of a .toml file)", names.join(", ")),
    };
    Err(format!("no scenario is called `{}`; {advice}", shown(name)))
}

/// Reads a scenario: `name` for messages and (without folder and `.toml`) as the plan's name.
///
/// # Errors
/// All problems at once, each with file, line, key and what is allowed.
pub fn load(name: &str, text: &str, changes: &Changes) -> Result<Plan, Problems> {
    let mut notes = Notes::new(name, text);
    let draft = match notes.parse() {
        Some(table) => {
            let root = Section::open(&mut notes, table.get_ref(), 0..0, String::new(), ROOT_KEYS);
            Some(read(&mut notes, &root, plan_name(name)))
        }
        None => None,
    };
    // What the command line takes away is looked at only in a file that is right: rules on top of mistakes mislead.
    let plan = match draft {
        Some((plan, short)) if notes.len() == 0 => Some(changes.apply(&mut notes, plan, &short)),
        _ => None,
    };
    notes.finish()?;
    plan.ok_or_else(Problems::default)
}

/// Everything that the file says.
fn read(notes: &mut Notes<'_>, root: &Section<'_>, name: String) -> (changes::Draft, Short) {
    let about =
        root.required(notes, "about", "one sentence on what the scenario shows", values::text);
    let source = root.one(notes, "source", values::text);
    let rounds = root.one(notes, "rounds", values::whole(1..=limits::ROUNDS_MAX));
    let pause_ms = root.one(notes, "pause_s", values::seconds(0.0));
    let defaults = defaults(notes, root);
    let short = short(notes, root);
    let pins = parts::pins(notes, root);
    let topologies = parts::topologies(notes, root);
    let members = parts::targets(notes, root, &topologies);
    let tests = unfold::tests(notes, root, &defaults, &topologies, &members);
    let limit_drafts = parts::limit_drafts(notes, root);
    let limits = parts::limits(notes, limit_drafts, &members, &tests);
    for (key, empty, what) in [
        ("target", members.is_empty(), "what is measured"),
        ("test", tests.is_empty(), "what is sent"),
    ] {
        if empty && !root.has(key) {
            notes.whole_file(format!("no [[{key}]]; at least one says {what}"));
        }
    }
    let base = base(notes, root, &members);
    let plan = Plan {
        name,
        about: about.unwrap_or_default(),
        source,
        rounds: rounds.unwrap_or(3),
        pause_ms: pause_ms.unwrap_or(500),
        base,
        topologies,
        targets: members.iter().map(|member| member.plan.clone()).collect(),
        tests,
        limits,
        pins,
    };
    let families = members.into_iter().map(|member| (member.plan.name, member.family)).collect();
    (changes::Draft { plan, families }, short)
}

/// The defaults of every test: `[load]`, and the end of a visit, which may stand at the top of the file as well.
fn defaults(notes: &mut Notes<'_>, root: &Section<'_>) -> LoadDraft {
    let top = LoadDraft {
        stop: load::read_stop(notes, root),
        warmup_ms: root.one(notes, "warmup_s", values::seconds(0.0)),
        ..LoadDraft::default()
    };
    match root.section(notes, "load", LOAD_KEYS) {
        Some(section) => LoadDraft::read(notes, &section).over(&top),
        None => top,
    }
}

/// Reads `[short]`.
fn short(notes: &mut Notes<'_>, root: &Section<'_>) -> Short {
    let Some(section) = root.section(notes, "short", SHORT_KEYS) else { return Short::default() };
    let only = section.list(notes, "only", values::text).unwrap_or_default();
    Short {
        rounds: section.one(notes, "rounds", values::whole(1..=limits::ROUNDS_MAX)),
        pause_ms: section.one(notes, "pause_s", values::seconds(0.0)),
        warmup_ms: section.one(notes, "warmup_s", values::seconds(0.0)),
        stop: load::read_stop(notes, &section),
        only: only.into_iter().map(toml::Spanned::into_inner).collect(),
    }
}

/// The target that ratios are taken to: the named one, or the first.
fn base(notes: &mut Notes<'_>, root: &Section<'_>, members: &[parts::Member]) -> String {
    let Some(name) = root.one(notes, "base", values::name) else {
        return members.first().map(|member| member.plan.name.clone()).unwrap_or_default();
    };
    let span = root.span_of("base");
    let named = parts::named(notes, "base", vec![toml::Spanned::new(span.clone(), name)], members);
    if named.len() > 1 {
        let message = format!("stands for several targets; name one of: {}", named.join(", "));
        notes.at(&span, "base", message);
    }
    named.into_iter().next().unwrap_or_default()
}

/// The plan's name: the file's, without folder and ending.
fn plan_name(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.strip_suffix(".toml").unwrap_or(file).to_owned()
}
