//! Reads `[[test]]` and unfolds the lists in it into tests: `pipeline = [1, 20]` makes two.
//!
//! Lists of one table multiply with each other. What varies is appended to the name, so that tables can be read without
//! the file: `SET P=20`, `GET c=1000 on shards-3`. Rules that concern one load (which tools can do what) are here too,
//! since they hold for each unfolded test.
//!
//! Invariant: tests have different names, and there are at most [`TESTS_MAX`] of them.

use toml::Spanned;
use toml::de::DeValue;

use super::limits::{KEYS_MAX, TESTS_MAX, WEIGHT_MAX};
use super::load::{LOAD_KEYS, LoadDraft};
use super::parts::{Member, exist, named};
use super::reader::{Notes, Section, found};
use super::values;
use crate::plan::{Distribution, KeyPlan, LoadPlan, Shape, Stop, TestPlan, Tool, Topology};
use crate::template::Template;

/// Keys of a test besides those of a load.
const TEST_KEYS: &[&str] = &["name", "request", "mix", "topology", "targets"];
const MIX_KEYS: &[&str] = &["request", "weight"];

/// One or several requests with their weights.
type Mix = Vec<(Template, u32)>;

/// A test in the making, with what was appended to its name so far.
#[derive(Clone)]
struct Variant {
    topology: String,
    labels: Vec<String>,
    load: LoadPlan,
}

/// Reads every `[[test]]`.
pub(super) fn tests(
    notes: &mut Notes<'_>,
    root: &Section<'_>,
    defaults: &LoadDraft,
    topologies: &[Topology],
    members: &[Member],
) -> Vec<TestPlan> {
    let keys: Vec<&str> = TEST_KEYS.iter().chain(LOAD_KEYS).copied().collect();
    let mut tests: Vec<TestPlan> = Vec::new();
    for section in root.sections(notes, "test", &keys) {
        let name = section.one(notes, "name", values::name);
        let draft = LoadDraft::read(notes, &section).over(defaults);
        let mixes = mixes(notes, &section);
        let topologies = test_topologies(notes, &section, topologies);
        let targets = section.list(notes, "targets", values::name).unwrap_or_default();
        let targets = named(notes, &section.key("targets"), targets, members);
        let count = product(&draft, mixes.len(), topologies.len());
        if tests.len().saturating_add(count) > TESTS_MAX {
            let all = tests.len().saturating_add(count);
            let message =
                format!("the tests unfold into {all} with this one; allowed: at most {TESTS_MAX}");
            notes.at(&section.span, &section.key("name"), message);
            return tests;
        }
        for variant in variants(&draft, &mixes, &topologies) {
            let test = finish(name.as_deref(), &targets, variant);
            check(notes, &section, &test, &tests);
            tests.push(test);
        }
    }
    tests
}

/// The requests of a test: each element becomes a test of its own, with one request or a mix.
fn mixes(notes: &mut Notes<'_>, section: &Section<'_>) -> Vec<(Option<String>, Mix)> {
    let request = |value: &DeValue<'_>| match value {
        DeValue::String(text) => values::request(text),
        other => Err(format!("found {}; allowed: a text such as \"GET {{key}}\"", found(other))),
    };
    match (section.has("request"), section.has("mix")) {
        (true, true) => {
            let message = "`request` and `mix` both say what is sent; keep one of them";
            notes.at(&section.span_of("mix"), &section.key("mix"), message);
            Vec::new()
        }
        (false, false) => {
            let message = "is missing: what is sent, such as \"GET {key}\" (or `mix`)";
            notes.at(&section.span, &section.key("request"), message);
            Vec::new()
        }
        (true, false) => {
            let requests = section.list(notes, "request", request).unwrap_or_default();
            let unfolds = requests.len() > 1;
            let mix = |request: Spanned<Template>| {
                let label = unfolds.then(|| request.get_ref().command().to_owned());
                (label, vec![(request.into_inner(), 1)])
            };
            requests.into_iter().map(mix).collect()
        }
        (false, true) => {
            let mut mix = Vec::new();
            for section in section.sections(notes, "mix", MIX_KEYS) {
                let sent = section.required(notes, "request", "what is sent", request);
                let why = "how often it is sent, compared with the others";
                let weight = section.required(notes, "weight", why, values::whole(1..=WEIGHT_MAX));
                mix.extend(sent.zip(weight));
            }
            if mix.is_empty() { Vec::new() } else { vec![(None, mix)] }
        }
    }
}

/// Which topologies a test is for; without a word it is for the first.
fn test_topologies(
    notes: &mut Notes<'_>,
    section: &Section<'_>,
    topologies: &[Topology],
) -> Vec<String> {
    let known: Vec<&str> = topologies.iter().map(|topology| topology.name.as_str()).collect();
    match section.list(notes, "topology", values::name) {
        Some(names) => exist(notes, &section.key("topology"), "topology", names, &known),
        None => known.first().map(|name| (*name).to_owned()).into_iter().collect(),
    }
}

/// How many tests the lists of one table make.
fn product(draft: &LoadDraft, mixes: usize, topologies: usize) -> usize {
    fn len<T>(list: Option<&Vec<T>>) -> usize {
        list.map_or(1, Vec::len)
    }
    [
        mixes,
        topologies,
        len(draft.shape.as_ref()),
        len(draft.clients.as_ref()),
        len(draft.pipeline.as_ref()),
        len(draft.threads.as_ref()),
        len(draft.keys.as_ref()),
        len(draft.value_bytes.as_ref()),
        len(draft.distribution.as_ref()),
        len(draft.hit_ratio.as_ref()),
    ]
    .into_iter()
    .fold(1, usize::saturating_mul)
}

/// Every combination; topologies and requests vary slowest.
fn variants(
    draft: &LoadDraft,
    mixes: &[(Option<String>, Mix)],
    topologies: &[String],
) -> Vec<Variant> {
    let mut all = Vec::new();
    for topology in topologies {
        for (command, mix) in mixes {
            all.push(Variant {
                topology: topology.clone(),
                labels: command.iter().cloned().collect(),
                load: plain(draft, mix.clone()),
            });
        }
    }
    let all = each(
        all,
        draft.shape.as_deref(),
        |load, shape| load.shape = shape,
        |shape| shape_name(*shape),
    );
    let all =
        each(all, draft.threads.as_deref(), |load, n| load.threads = n, |n| format!("threads={n}"));
    let all =
        each(all, draft.pipeline.as_deref(), |load, n| load.pipeline = n, |n| format!("P={n}"));
    let all = each(all, draft.clients.as_deref(), |load, n| load.clients = n, |n| format!("c={n}"));
    let all =
        each(all, draft.keys.as_deref(), |load, n| load.keys.count = n, |n| format!("keys={n}"));
    let all = each(
        all,
        draft.value_bytes.as_deref(),
        |load, n| load.value_bytes = n,
        |n| values::size(*n),
    );
    let all = each(
        all,
        draft.distribution.as_deref(),
        |load, distribution| load.keys.distribution = distribution,
        |distribution| distribution_name(*distribution),
    );
    let mut all = each(
        all,
        draft.hit_ratio.as_deref(),
        |load, ratio| load.keys.hit_ratio = ratio,
        |ratio| format!("hit={ratio}"),
    );
    if topologies.len() > 1 {
        for variant in &mut all {
            variant.labels.push(format!("on {}", variant.topology));
        }
    }
    all
}

/// Multiplies the variants by the values of one key; a single value leaves the names alone.
fn each<T: Copy>(
    variants: Vec<Variant>,
    values: Option<&[T]>,
    put: impl Fn(&mut LoadPlan, T),
    label: impl Fn(&T) -> String,
) -> Vec<Variant> {
    let Some(values) = values else { return variants };
    let mut all = Vec::with_capacity(variants.len() * values.len());
    for variant in variants {
        for value in values {
            let mut one = variant.clone();
            put(&mut one.load, *value);
            if values.len() > 1 {
                one.labels.push(label(value));
            }
            all.push(one);
        }
    }
    all
}

/// The load with everything that is no list, and the defaults of redis-benchmark for what the file leaves out: they are
/// what most published figures were made with.
fn plain(draft: &LoadDraft, mix: Mix) -> LoadPlan {
    let (bytes_min, bytes_max) = draft.key_bytes.unwrap_or((16, 16));
    LoadPlan {
        tool: draft.tool.unwrap_or(Tool::Builtin),
        shape: Shape::Closed,
        mix,
        clients: 50,
        pipeline: 1,
        threads: 1,
        keys: KeyPlan {
            count: 10_000,
            distribution: Distribution::Uniform,
            bytes_min,
            bytes_max,
            hit_ratio: 1.0,
        },
        value_bytes: 3,
        resp: draft.resp.unwrap_or(2),
        stop: draft.stop.unwrap_or(Stop::AfterMs(10_000)),
        warmup_ms: draft.warmup_ms.unwrap_or(1000),
        seed: draft.seed.unwrap_or(1),
    }
}

/// Gives a variant its name.
fn finish(name: Option<&str>, targets: &[String], variant: Variant) -> TestPlan {
    let mut words = variant.labels;
    match name {
        Some(name) => words.insert(0, name.to_owned()),
        // A list of requests has put the command there already.
        None if words.first().is_some_and(|word| is_command(word, &variant.load.mix)) => {}
        None => words.insert(0, mix_name(&variant.load.mix)),
    }
    TestPlan {
        name: words.join(" "),
        topology: variant.topology,
        targets: targets.to_vec(),
        load: variant.load,
    }
}

/// Rules between the values of one test.
fn check(notes: &mut Notes<'_>, section: &Section<'_>, test: &TestPlan, earlier: &[TestPlan]) {
    let mut problem = |key: &str, message: String| {
        notes.at(&section.span_of(key), &section.key(key), message);
    };
    if earlier.iter().any(|other| other.name == test.name) {
        problem(
            "name",
            format!("two tests are called `{}`; give this one another `name`", test.name),
        );
    }
    if let Err(message) = keys_fit(&test.load) {
        problem("keys", message);
    }
    if let Err(message) = tool_can(&test.load) {
        problem("tool", format!("{message} (test `{}`)", test.name));
    }
}

/// The rules between the values of one load, for loads that do not come from a file.
///
/// # Errors
/// The first that is broken, in words.
pub fn check_load(load: &LoadPlan) -> Result<(), String> {
    keys_fit(load).and_then(|()| tool_can(load))
}

/// Whether so many keys can be told apart by decimal digits in so many bytes.
fn keys_fit(load: &LoadPlan) -> Result<(), String> {
    let (count, bytes) = (load.keys.count, load.keys.bytes_min);
    debug_assert!(count <= KEYS_MAX, "bounded where it was read");
    if 10_u64.checked_pow(bytes).is_none_or(|room| count <= room) {
        return Ok(());
    }
    Err(format!("{count} different keys do not fit into {bytes} bytes"))
}

/// Whether a load is one that its tool can make.
///
/// # Errors
/// Says what the tool cannot do.
pub(super) fn tool_can(load: &LoadPlan) -> Result<(), String> {
    let name = match load.tool {
        Tool::Builtin => return Ok(()),
        Tool::RedisBenchmark => "redis-benchmark",
        Tool::ValkeyBenchmark => "valkey-benchmark",
    };
    let cannot = if load.mix.len() > 1 {
        "sends one kind of request only"
    } else if load.shape != Shape::Closed {
        "makes a closed load only"
    } else if load.keys.distribution != Distribution::Uniform {
        "chooses keys uniformly only"
    } else if load.keys.hit_ratio < 1.0 {
        "knows no hit ratio"
    } else {
        return Ok(());
    };
    Err(format!("{name} {cannot}; allowed here: builtin"))
}

/// What a mix is called: its commands, joined.
fn mix_name(mix: &Mix) -> String {
    mix.iter().map(|(request, _)| request.command()).collect::<Vec<_>>().join("+")
}

/// Whether a label is the command of the only request.
fn is_command(label: &str, mix: &Mix) -> bool {
    mix.len() == 1 && mix[0].0.command() == label
}

fn shape_name(shape: Shape) -> String {
    match shape {
        Shape::Closed => "closed".to_owned(),
        Shape::Open { rate } => format!("open {rate}/s"),
        Shape::Storm => "storm".to_owned(),
        Shape::SlowReader { bytes_per_s } => format!("slow reader {bytes_per_s}B/s"),
    }
}

fn distribution_name(distribution: Distribution) -> String {
    match distribution {
        Distribution::Uniform => "uniform".to_owned(),
        Distribution::Zipf { exponent } => format!("zipf {exponent}"),
        Distribution::Sequential => "sequential".to_owned(),
    }
}
