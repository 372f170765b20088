//! Reads topologies, targets, pins and limits: the parts of a scenario that are not tests.
//!
//! A target whose `workers` is a list stands for several; all of them share its *family* name, and wherever a file
//! names a family, each of its members is meant.
//!
//! Invariant: names are unique, and each target's topologies exist.

use config::suggest::closest;
use toml::Spanned;

use super::limits::{CLIENTS_MAX, NODES_MAX, TARGETS_MAX, THREADS_MAX};
use super::reader::{Notes, Section, shown};
use super::values;
use crate::plan::{
    Beside, Bound, Figure, Limit, NetDriver, Pins, Question, TargetKind, TargetPlan, TestPlan,
    Topology, TopologyKind,
};

const TOPOLOGY_KEYS: &[&str] = &["name", "kind", "nodes"];
const TARGET_KEYS: &[&str] = &[
    "name",
    "kind",
    "program",
    "driver",
    "workers",
    "options",
    "optional",
    "topologies",
    "beside",
    "idle",
];
const BESIDE_KEYS: &[&str] = &["command", "page", "every_ms"];
const PIN_KEYS: &[&str] = &["proxy", "server", "load"];
const LIMIT_KEYS: &[&str] =
    &["figure", "target", "of", "tests", "of_test", "at_most", "at_least", "enough"];

/// What may stand in braces within a command's `program`.
const PLACES: &[&str] = &["port", "workers", "servers", "dir"];

/// A target, and the name it was unfolded from.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) family: String,
    pub(super) plan: TargetPlan,
}

/// A limit in the making: its names are looked up when tests and targets are known.
pub(super) struct LimitDraft<'t> {
    section: Section<'t>,
    figure: Figure,
    target: Spanned<String>,
    of: Option<Spanned<String>>,
    tests: Vec<Spanned<String>>,
    of_test: Option<Spanned<String>>,
    bound: Bound,
    enough: Option<f64>,
}

/// Reads `[[topology]]`; without any there is one server, called `one`.
pub(super) fn topologies(notes: &mut Notes<'_>, root: &Section<'_>) -> Vec<Topology> {
    if !root.has("topology") {
        return vec![Topology { name: "one".to_owned(), kind: TopologyKind::Single, nodes: 1 }];
    }
    let mut topologies: Vec<Topology> = Vec::new();
    for section in root.sections(notes, "topology", TOPOLOGY_KEYS) {
        let name = section.required(notes, "name", "tests name it", values::name);
        let kind = section.required(
            notes,
            "kind",
            "single, shards or cluster",
            values::word(values::topology_kind),
        );
        let nodes = section.one(notes, "nodes", values::whole(1..=NODES_MAX));
        let (Some(name), Some(kind)) = (name, kind) else { continue };
        if kind == TopologyKind::Single && nodes.is_some_and(|nodes| nodes != 1) {
            let message =
                "kind `single` is one server; leave `nodes` out, or write kind = \"shards\"";
            notes.at(&section.span_of("nodes"), &section.key("nodes"), message);
        }
        if kind != TopologyKind::Single && !section.has("nodes") {
            notes.at(&section.span, &section.key("nodes"), "is missing: how many servers");
        }
        if topologies.iter().any(|known| known.name == name) {
            twice(notes, &section, "topologies", &name);
        }
        topologies.push(Topology { name, kind, nodes: nodes.unwrap_or(1) });
    }
    topologies
}

/// Reads `[[target]]` and unfolds lists of workers.
pub(super) fn targets(
    notes: &mut Notes<'_>,
    root: &Section<'_>,
    topologies: &[Topology],
) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    for section in root.sections(notes, "target", TARGET_KEYS) {
        let Some((plan, workers)) = target(notes, &section, topologies) else { continue };
        let unfolds = workers.len() > 1;
        for count in workers {
            let mut one = plan.clone();
            one.workers = count;
            if unfolds {
                one.name = format!("{} w={count}", plan.name);
                one.axis = Some(("workers".to_owned(), f64::from(count)));
            }
            if members.iter().any(|known| known.plan.name == one.name || known.family == one.name) {
                twice(notes, &section, "targets", &one.name);
            }
            members.push(Member { family: plan.name.clone(), plan: one });
        }
    }
    if members.len() > TARGETS_MAX {
        let message =
            format!("the targets unfold into {}; allowed: at most {TARGETS_MAX}", members.len());
        notes.whole_file(message);
    }
    members
}

/// One `[[target]]`, with the numbers of workers it unfolds into.
fn target(
    notes: &mut Notes<'_>,
    section: &Section<'_>,
    topologies: &[Topology],
) -> Option<(TargetPlan, Vec<u32>)> {
    let name = section.required(notes, "name", "tables call the target by it", values::name);
    let kind = if section.has("kind") {
        section.one(notes, "kind", values::word(values::target_kind))
    } else {
        kind_by_name(notes, section, name.as_deref())
    };
    let program = section.list(notes, "program", values::text);
    let driver = section.one(notes, "driver", values::word(values::net_driver));
    let workers = section.list(notes, "workers", values::whole(1..=THREADS_MAX));
    let options = section.list(notes, "options", values::text).unwrap_or_default();
    let optional = section.one(notes, "optional", values::switch).unwrap_or(false);
    let named = section.list(notes, "topologies", values::name).unwrap_or_default();
    let known: Vec<&str> = topologies.iter().map(|topology| topology.name.as_str()).collect();
    let topologies = exist(notes, &section.key("topologies"), "topology", named, &known);
    let beside = beside(notes, section);
    let idle = section.one(notes, "idle", values::whole(1..=CLIENTS_MAX)).unwrap_or(0);
    let kind = complete(notes, section, kind?, program);
    let (kind, driver) = with_driver(notes, section, kind, driver);
    let asks_page = beside.iter().any(|beside| matches!(beside.question, Question::Page(_)));
    if asks_page && kind != TargetKind::Respool {
        let message = "has a `page`, which only respool has".to_owned();
        notes.at(&section.span_of("beside"), &section.key("beside"), message);
    }
    let plan = TargetPlan {
        name: name?,
        kind,
        workers: 1,
        driver,
        options: options.into_iter().map(Spanned::into_inner).collect(),
        optional,
        topologies,
        axis: None,
        beside,
        idle,
    };
    let workers = workers.unwrap_or_else(|| vec![Spanned::new(0..0, 1)]);
    Some((plan, workers.into_iter().map(Spanned::into_inner).collect()))
}

/// The kind of a target that is called by its kind.
fn kind_by_name(
    notes: &mut Notes<'_>,
    section: &Section<'_>,
    name: Option<&str>,
) -> Option<TargetKind> {
    let kind = name.and_then(|name| values::target_kind(name).ok());
    if kind.is_none() && name.is_some() {
        let message = "is missing: direct, respool, nutcracker, predixy, haproxy, floor or command \
                       (it may only be left out when the name says it)";
        notes.at(&section.span, &section.key("kind"), message);
    }
    kind
}

/// Puts the words of `program` into a command, and checks which keys the kind can have.
fn complete(
    notes: &mut Notes<'_>,
    section: &Section<'_>,
    kind: TargetKind,
    program: Option<Vec<Spanned<String>>>,
) -> TargetKind {
    let not_for = |notes: &mut Notes<'_>, key: &str, why: &str| {
        if section.has(key) {
            notes.at(&section.span_of(key), &section.key(key), why);
        }
    };
    match &kind {
        TargetKind::Command(_) => {
            if !section.has("program") {
                let message = "is missing: the words of the command line, such as \
                               [\"someproxy\", \"--port\", \"{port}\", \"{servers}\"]";
                notes.at(&section.span, &section.key("program"), message);
            }
            let words = program.unwrap_or_default();
            for word in &words {
                check_places(notes, section, word);
            }
            return TargetKind::Command(words.into_iter().map(Spanned::into_inner).collect());
        }
        TargetKind::Direct => {
            for key in ["workers", "options"] {
                not_for(
                    notes,
                    key,
                    "kind `direct` is the server itself and starts no program; leave it out",
                );
            }
        }
        TargetKind::Nutcracker => {
            not_for(notes, "workers", "nutcracker has one thread; leave it out");
        }
        TargetKind::Floor(_) => {
            for key in ["workers", "options"] {
                not_for(notes, key, "the floor has one thread and no options; leave it out");
            }
        }
        TargetKind::Respool
        | TargetKind::Predixy
        | TargetKind::Haproxy
        | TargetKind::External(_) => {}
    }
    not_for(notes, "program", "is for kind `command` only; leave it out");
    kind
}

/// Puts the `driver` into a floor, and leaves it beside a respool, which may choose by itself.
fn with_driver(
    notes: &mut Notes<'_>,
    section: &Section<'_>,
    kind: TargetKind,
    driver: Option<NetDriver>,
) -> (TargetKind, Option<NetDriver>) {
    match kind {
        TargetKind::Floor(default) => (TargetKind::Floor(driver.unwrap_or(default)), None),
        TargetKind::Respool => (kind, driver),
        kind => {
            if section.has("driver") {
                let message = "is for kinds `floor` and `respool` only; leave it out";
                notes.at(&section.span_of("driver"), &section.key("driver"), message);
            }
            (kind, None)
        }
    }
}

/// Notes braces that nothing will be put into: the program would get them as they are.
fn check_places(notes: &mut Notes<'_>, section: &Section<'_>, word: &Spanned<String>) {
    for piece in word.get_ref().split('{').skip(1) {
        let place = piece.split('}').next().unwrap_or("");
        if !PLACES.contains(&place) {
            let message = format!(
                "`{{{}}}` is unknown; allowed: {{port}}, {{workers}}, {{servers}}, {{dir}}",
                shown(place)
            );
            notes.at(&word.span(), &section.key("program"), message);
        }
    }
}

/// Reads `beside`: requests that a monitoring system would send meanwhile.
fn beside(notes: &mut Notes<'_>, section: &Section<'_>) -> Vec<Beside> {
    let mut list = Vec::new();
    for section in section.sections(notes, "beside", BESIDE_KEYS) {
        let question = if section.has("page") {
            if section.has("command") {
                let message = "stands beside `command`; give one of the two".to_owned();
                notes.at(&section.span_of("page"), &section.key("page"), message);
            }
            section.one(notes, "page", values::name).map(Question::Page)
        } else {
            let command = section.required(notes, "command", "such as \"INFO\"", values::name);
            command.map(Question::Command)
        };
        let every_ms = section.required(
            notes,
            "every_ms",
            "milliseconds between two of them",
            values::whole(1..=86_400_000),
        );
        if let (Some(question), Some(every_ms)) = (question, every_ms) {
            list.push(Beside { question, every_ms });
        }
    }
    list
}

/// Reads `[pin]`.
pub(super) fn pins(notes: &mut Notes<'_>, root: &Section<'_>) -> Pins {
    let Some(section) = root.section(notes, "pin", PIN_KEYS) else { return Pins::default() };
    let mut role = |name| section.one(notes, name, values::word(values::cpus)).unwrap_or_default();
    Pins { proxy: role("proxy"), server: role("server"), load: role("load") }
}

/// Reads `[[limit]]`; its names are looked up by [`limits`].
pub(super) fn limit_drafts<'t>(notes: &mut Notes<'_>, root: &Section<'t>) -> Vec<LimitDraft<'t>> {
    let mut drafts = Vec::new();
    for section in root.sections(notes, "limit", LIMIT_KEYS) {
        let figure = section.required(
            notes,
            "figure",
            "what is compared, such as \"server_cpu\"",
            values::word(values::figure),
        );
        let spanned = |key, name| Spanned::new(section.span_of(key), name);
        let target = section.required(notes, "target", "the target that is judged", values::name);
        let target = target.map(|name| spanned("target", name));
        let of = section.one(notes, "of", values::name).map(|name| spanned("of", name));
        let tests = section.list(notes, "tests", values::name).unwrap_or_default();
        let of_test = section
            .one(notes, "of_test", values::name)
            .map(|name| Spanned::new(section.span_of("of_test"), name));
        let bound = bound(notes, &section);
        let enough = section.one(notes, "enough", values::real(0.0..=1e9, ""));
        for key in ["of_test", "enough"].into_iter().filter(|key| section.has(key)) {
            if of.is_none() {
                let message = "is for a ratio; say `of` which target, or leave it out";
                notes.at(&section.span_of(key), &section.key(key), message);
            }
        }
        if let (Some(figure), Some(target), Some(bound)) = (figure, target, bound) {
            drafts.push(LimitDraft { section, figure, target, of, tests, of_test, bound, enough });
        }
    }
    drafts
}

/// One of `at_most` and `at_least`.
fn bound(notes: &mut Notes<'_>, section: &Section<'_>) -> Option<Bound> {
    let mut value = |key| section.one(notes, key, values::real(0.0..=1e9, ""));
    let (at_most, at_least) = (value("at_most"), value("at_least"));
    match (section.has("at_most"), section.has("at_least")) {
        (true, true) => {
            let message = "stands beside `at_most`; give one of the two";
            notes.at(&section.span_of("at_least"), &section.key("at_least"), message);
        }
        (false, false) => {
            let message = "is missing: the greatest ratio that is good (or `at_least`, the least)";
            notes.at(&section.span, &section.key("at_most"), message);
        }
        _ => {}
    }
    at_most.map(Bound::AtMost).or(at_least.map(Bound::AtLeast))
}

/// The limits over the targets and tests of the whole file, before the command line takes any away.
pub(super) fn limits(
    notes: &mut Notes<'_>,
    drafts: Vec<LimitDraft<'_>>,
    members: &[Member],
    tests: &[TestPlan],
) -> Vec<Limit> {
    let known: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let mut limits = Vec::new();
    for draft in drafts {
        let key = |name| draft.section.key(name);
        let targets = named(notes, &key("target"), vec![draft.target], members);
        let is_ratio = draft.of.is_some();
        let bases = named(notes, &key("of"), draft.of.into_iter().collect(), members);
        let tests = exist(notes, &key("tests"), "test", draft.tests, &known);
        let other: Vec<_> = draft.of_test.into_iter().collect();
        let of_test = exist(notes, &key("of_test"), "test", other, &known).pop();
        for target in &targets {
            let limit = |of| Limit {
                figure: draft.figure,
                target: target.clone(),
                of,
                tests: tests.clone(),
                of_test: of_test.clone(),
                bound: draft.bound,
                enough: draft.enough,
            };
            if !is_ratio {
                limits.push(limit(None));
            }
            // With itself a target is compared in two tests only.
            let bases = bases.iter().filter(|of| (*of == target) == of_test.is_some());
            limits.extend(bases.map(|of| limit(Some(of.clone()))));
        }
    }
    limits
}

/// The targets that names stand for; a family stands for each of its members.
pub(super) fn named(
    notes: &mut Notes<'_>,
    key: &str,
    names: Vec<Spanned<String>>,
    members: &[Member],
) -> Vec<String> {
    let mut known: Vec<&str> = Vec::new();
    for member in members {
        known.extend([member.plan.name.as_str(), member.family.as_str()]);
    }
    known.dedup();
    let names = exist(notes, key, "target", names, &known);
    members
        .iter()
        .filter(|member| names.contains(&member.plan.name) || names.contains(&member.family))
        .map(|member| member.plan.name.clone())
        .collect()
}

/// The names that are known; the others are noted.
pub(super) fn exist(
    notes: &mut Notes<'_>,
    key: &str,
    what: &str,
    names: Vec<Spanned<String>>,
    known: &[&str],
) -> Vec<String> {
    let mut good = Vec::new();
    for name in names {
        if known.contains(&name.get_ref().as_str()) {
            good.push(name.into_inner());
            continue;
        }
        let advice = match closest(name.get_ref(), known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are: {}", known.join(", ")),
        };
        let message = format!("no {what} is called `{}`; {advice}", shown(name.get_ref()));
        notes.at(&name.span(), key, message);
    }
    good
}

/// Notes that a name is taken.
fn twice(notes: &mut Notes<'_>, section: &Section<'_>, what: &str, name: &str) {
    let message = format!("two {what} are called `{}`", shown(name));
    notes.at(&section.span_of("name"), &section.key("name"), message);
}
