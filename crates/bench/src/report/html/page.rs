//! The page: sections in the order in which a reader asks.
//!
//! What came out (numbers, warnings), how the run went (timeline), then CPU, throughput, latency, what depends on what,
//! and at the end all figures and where they come from. Words that explain a picture stand above it.
//!
//! Invariant: warnings and what was left out come before the first picture.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::headline;
use super::ladders::{self, Ladder};
use super::picture::Picture;
use super::plots;
use super::table;
use super::text;
use super::theme;
use super::timeline;
use super::view::View;
use crate::record::{Run, Test};
use crate::stats;

/// Width that the timeline is drawn with for documents and wide windows; a narrow window gets the second.
pub(super) const TIMELINE_WIDTH: f64 = 1180.0;
const TIMELINE_WIDTH_NARROW: f64 = 820.0;

/// Nothing may be fetched. The icon is an empty `data:`, so that browsers do not ask for one; styles stand in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// The whole document.
pub(super) fn draw(view: &View) -> Markup {
    let run = view.run;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (run.scenario) " · respool-bench" }
                style { (PreEscaped(theme::page())) }
            }
            body {
                header { (top(run)) }
                main {
                    (cards(view))
                    (boxes(run))
                    (whole_run(view))
                    (section(view, "CPU per request", CPU_WORDS, plots::cpu, true))
                    (section(view, "Throughput", THROUGHPUT_WORDS, plots::throughput, false))
                    (section(view, "Latency", LATENCY_WORDS, plots::latency, false))
                    @for ladder in ladders::all(view) { (by_axis(&ladder)) }
                    (figures(view))
                    (how_to_read(run))
                    (provenance(run))
                }
                footer { "Made by respool-bench " (run.bench_version) ". This file fetches nothing and runs no script." }
            }
        }
    }
}

fn top(run: &Run) -> Markup {
    let choices = [("auto", "Auto"), ("light", "Light"), ("dark", "Dark")];
    html! {
        div class="top" {
            div class="eyebrow" { "respool-bench · " (run.began) }
            fieldset class="theme" {
                legend { "Colours" }
                @for (value, name) in choices {
                    label {
                        input type="radio" name="theme" id={ "theme-" (value) } checked[value == "auto"];
                        (name)
                    }
                }
            }
        }
        h1 { (run.scenario) }
        p class="lead" { (run.about) }
        p class="quiet" { (headline::sentence(run)) }
    }
}

fn cards(view: &View) -> Markup {
    let cards = headline::cards(view);
    html! {
        @if !cards.is_empty() {
            dl class="cards" {
                @for card in cards {
                    div class="card" {
                        dt { (card.label) }
                        dd class="value" { (card.value) " " small { (card.unit) } }
                        dd class="note" { (card.note) }
                    }
                }
            }
        }
    }
}

fn boxes(run: &Run) -> Markup {
    let boxes = [
        ("box warn", "Read this before believing a figure", &run.warnings),
        ("box", "Left out", &run.left_out),
    ];
    html! {
        @for (class, heading, sentences) in boxes.into_iter().filter(|(.., s)| !s.is_empty()) {
            aside class=(class) {
                h2 { (heading) }
                ul { @for sentence in sentences { li { (sentence) } } }
            }
        }
    }
}

fn whole_run(view: &View) -> Markup {
    let drawn = |width| timeline::draw(view, width);
    let variant = |picture: Picture, class: &str| {
        html! { div class={ "scroll " (class) } tabindex="0" { (picture.inline()) } }
    };
    html! {
        @if let (Some(broad), Some(compact)) = (drawn(TIMELINE_WIDTH), drawn(TIMELINE_WIDTH_NARROW)) {
            section {
                h2 { "The whole run" }
                p {
                    "CPU of each role and throughput, second by second; pauses are cut out. Each column is a test, each "
                    "colour a target. A core that is full stands at 1."
                }
                (key(view, true))
                figure class="wide" { (variant(broad, "broad")) (variant(compact, "compact")) }
            }
        }
    }
}

/// What the colours mean. Where names stand beside what they name, only the tones are left to tell.
fn key(view: &View, targets: bool) -> Markup {
    html! {
        ul class="key" {
            @if targets {
                @for target in &view.run.targets {
                    li { span class={ "dot " (view.class(&target.name)) } {} (target.name) }
                }
            }
            li class="tone" { span class="dot k" {} "user" }
            li class="tone" { span class="dot k light" {} "system" }
        }
    }
}

const CPU_WORDS: &str = "What one request costs in the server and in the proxy: the figure that capacity is bought by. \
    The full tone is time in the program, the pale tone time in the kernel. Both columns of a test have one scale; the \
    thin line reaches from the cheapest to the dearest round.";
const THROUGHPUT_WORDS: &str = "Medians; the thin line reaches from the slowest to the fastest round. The factor is \
    the median of the ratios within each round, because a machine changes its speed from one minute to the next.";
const LATENCY_WORDS: &str = "How long a reply took, from the median to one request in ten thousand. Each step to the \
    right adds a nine. Under full load this is mostly time in a queue: compare targets, not single values.";

fn section(
    view: &View,
    heading: &str,
    words: &str,
    draw: fn(&View, &Test) -> Option<Picture>,
    tones: bool,
) -> Markup {
    let pictures: Vec<Picture> = view.run.tests.iter().filter_map(|t| draw(view, t)).collect();
    html! {
        @if !pictures.is_empty() {
            section {
                h2 { (heading) }
                p { (words) }
                @if tones { (key(view, false)) }
                (grid(&pictures))
            }
        }
    }
}

fn by_axis(ladder: &Ladder) -> Markup {
    html! {
        section {
            h2 { "By " (ladders::words(&ladder.axis)) }
            p {
                @if ladder.of_targets {
                    "One program started in different ways. A dashed line is a target that was started in one way only."
                } @else {
                    "Tests that differ in this number only. Thin lines reach from the least to the greatest round."
                }
            }
            @for group in &ladder.groups { (grid(group)) }
        }
    }
}

fn grid(pictures: &[Picture]) -> Markup {
    let class = if pictures.len() == 4 { "grid four" } else { "grid" };
    html! { div class=(class) { @for picture in pictures { figure { (picture.inline()) } } } }
}

fn figures(view: &View) -> Markup {
    html! {
        section {
            h2 { "All figures" }
            p {
                "Medians over the rounds; × base is to " strong { (view.run.base) } ", within each round. Spread is the "
                "distance from the least to the greatest round, relative to the median."
            }
            figure class="tables" { (table::draw(view)) }
        }
    }
}

fn how_to_read(run: &Run) -> Markup {
    html! {
        section {
            h2 { "How to read it" }
            h3 { "Why a proxy can raise throughput" }
            p {
                "A server that is asked one request at a time spends most of its time in the kernel: a read, a write and a "
                "wake-up for each request of each connection. A proxy gathers the requests of many clients into a few writes "
                "on one connection, so the server reads dozens at once. Its system time per request falls, and with the "
                "same core it answers more. The work has not vanished: the proxy does it instead, on a core of its own. "
                "Clients that pipeline by themselves have that gain already; there a proxy is one more station on the way."
            }
            h3 { "Why more requests per second than direct is no saving by itself" }
            p {
                "A proxy that is bound to a core of its own brings that core along, while the direct connection runs on "
                "what server and load have. So compare CPU per request: the server's, which is what becomes free, and "
                "the proxy's, which is the price."
            }
            @if let Some(floor) = stats::floor(run) {
                h3 { "What × " (floor) " says" }
                p {
                    (floor) " only receives requests and answers them, which every proxy does towards its clients and more "
                    "besides. A proxy's CPU per request as a multiple of that is how much of its cost is its own, and holds "
                    "on fast machines and slow ones. The floor's user part is tiny, so a multiple of it is large and coarse."
                }
            }
            h3 { "What the figures can bear" }
            p {
                "Compare within one report only. Ratios are taken within each round, because both partners saw the "
                "same minute of the machine. A difference smaller than the spread is none. CPU is exact (the scheduler's count); "
                "its split into user and system is sampled by the clock tick, so the third digit of the parts means nothing in "
                "a short run. All traffic stays on one machine: nothing here is a real network."
            }
        }
    }
}

fn provenance(run: &Run) -> Markup {
    let machine = &run.machine;
    let mut facts = vec![
        (
            "Machine",
            format!(
                "{}, {} cores, {}",
                machine.cpu,
                machine.cores,
                text::bytes(machine.memory_bytes as f64)
            ),
        ),
        ("Kernel", machine.kernel.clone()),
        (
            "Bound to",
            if machine.pinned.is_empty() {
                "nothing; the scheduler decided".to_owned()
            } else {
                machine.pinned.clone()
            },
        ),
        ("Began", format!("{}, took {}", run.began, text::length(run.seconds))),
        ("Rounds", run.rounds.to_string()),
    ];
    if let Some(source) = &run.source {
        facts.push(("Reproduces", source.clone()));
    }
    html! {
        section {
            h2 { "Where the figures come from" }
            dl class="facts" {
                @for (name, fact) in facts { dt { (name) } dd { (fact) } }
                @for target in &run.targets { dt { (target.name) } dd { (target.what) } }
                dt { "Command" } dd { code { (run.command) } }
            }
        }
    }
}
