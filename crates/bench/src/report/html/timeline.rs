//! The whole run in one picture: throughput, and CPU of server, proxy and load, second by second.
//!
//! This is the picture of predixy's article: one sees at a glance where the CPU time goes, and how steady it was. Time
//! runs to the right, pauses between visits are cut out. A band is a test, the colour is the target that was visited;
//! the full tone of an area is user time, the pale tone on top of it system time. All three CPU panels have one scale,
//! so a core is as high in each of them.
//!
//! Invariant: a visit lies within the band of its test, and nothing is drawn without a tick. At most [`SAMPLES_MAX`]
//! samples are drawn; of a longer run neighbours within a visit are averaged.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::picture::{FONT, Picture};
use super::scale::linear_ticks;
use super::text::{self, Px};
use super::view::View;
use crate::record::{Cores, Run, Tick};

/// Samples that are drawn at most: about what the widest picture has pixels for.
const SAMPLES_MAX: usize = 1500;
/// A gap between ticks of more than that many seconds is a pause between two visits of one target.
const PAUSE_S: f64 = 1.9;

const LEFT: f64 = 52.0;
const RIGHT: f64 = 8.0;
/// Names of tests, and the ribbon of targets under them.
const BANDS: f64 = 50.0;
const RIBBON: f64 = 18.0;
const PANEL: f64 = 92.0;
const PANEL_GAP: f64 = 34.0;

/// A second or some.
#[derive(Clone, Copy)]
struct Sample {
    seconds: f64,
    rate: Option<f64>,
    server: Cores,
    proxy: Cores,
    load: Cores,
}

/// A visit as far as the timeline knows it.
struct Span<'a> {
    test: usize,
    target: &'a str,
    samples: Vec<Sample>,
    /// Where it begins, in pixels; set by [`place`].
    x: f64,
}

impl Span<'_> {
    fn seconds(&self) -> f64 {
        self.samples.iter().map(|s| s.seconds).sum()
    }
}

/// A row of the picture.
struct Panel {
    name: &'static str,
    unit: &'static str,
    /// User and system part; for throughput only the first.
    parts: fn(&Sample) -> Option<(f64, f64)>,
}

const PANELS: [Panel; 4] = [
    Panel { name: "Throughput", unit: "requests per second", parts: |s| s.rate.map(|r| (r, 0.0)) },
    Panel { name: "Server CPU", unit: "cores", parts: |s| Some((s.server.user, s.server.system)) },
    Panel { name: "Proxy CPU", unit: "cores", parts: |s| Some((s.proxy.user, s.proxy.system)) },
    Panel { name: "Load CPU", unit: "cores", parts: |s| Some((s.load.user, s.load.system)) },
];

/// Draws it `width` wide; `None` when the run has no ticks.
pub(super) fn draw(view: &View, width: f64) -> Option<Picture> {
    let mut spans = spans(view.run);
    if spans.is_empty() {
        return None;
    }
    let px_per_s = place(&mut spans, width - LEFT - RIGHT);
    let bottom = BANDS + PANELS.len() as f64 * (PANEL + PANEL_GAP);
    let cores = PANELS[1..].iter().map(|p| greatest(&spans, p.parts)).fold(0.0, f64::max);
    let body = html! {
        (bands(view, &spans, px_per_s, bottom))
        @for (i, panel) in PANELS.iter().enumerate() {
            @let top = BANDS + PANEL_GAP + i as f64 * (PANEL + PANEL_GAP);
            @let max = if i == 0 { greatest(&spans, panel.parts) } else { cores };
            (draw_panel(view, &spans, panel, px_per_s, (top, max), width))
        }
    };
    let title = "CPU and throughput over the whole run".to_owned();
    Some(Picture { title, width, height: bottom + 8.0, body })
}

/// Ticks by visit, thinned to [`SAMPLES_MAX`].
fn spans(run: &Run) -> Vec<Span<'_>> {
    let mut spans: Vec<Span> = Vec::new();
    let mut before: Option<&Tick> = None;
    let starts: Vec<f64> = run.tests.iter().flat_map(|t| &t.visits).map(|v| v.began_s).collect();
    for tick in run.timeline.iter().filter(|t| t.test < run.tests.len() && t.at_s.is_finite()) {
        let passed = before.map_or(f64::INFINITY, |b| tick.at_s - b.at_s);
        let new = before.is_none_or(|b| {
            let visit_between = starts.iter().any(|s| *s > b.at_s && *s < tick.at_s);
            b.test != tick.test
                || b.target != tick.target
                || visit_between
                || !(0.0..PAUSE_S).contains(&passed)
        });
        // The first tick of a visit has no one before it to tell its length; it is about a second.
        let seconds = if new { 1.0 } else { passed };
        let sample = Sample {
            seconds,
            rate: tick.requests_per_s.filter(|r| r.is_finite()),
            server: tick.server,
            proxy: tick.proxy,
            load: tick.load,
        };
        match spans.last_mut().filter(|_| !new) {
            Some(span) => span.samples.push(sample),
            None => spans.push(Span {
                test: tick.test,
                target: &tick.target,
                samples: vec![sample],
                x: 0.0,
            }),
        }
        before = Some(tick);
    }
    fill_rates(run, &mut spans);
    let every = run.timeline.len().div_ceil(SAMPLES_MAX);
    if every > 1 {
        for span in &mut spans {
            span.samples = span.samples.chunks(every).map(mean).collect();
        }
    }
    spans
}

/// An external tool tells no rate while it runs: the mean of the target's visits in that test stands in for it.
fn fill_rates(run: &Run, spans: &mut [Span]) {
    for span in spans.iter_mut().filter(|s| s.samples.iter().all(|s| s.rate.is_none())) {
        let test = &run.tests[span.test];
        let rate = crate::stats::summary(test, span.target, crate::plan::Figure::Throughput);
        for sample in &mut span.samples {
            sample.rate = rate.map(|r| r.median);
        }
    }
}

/// Mean of neighbouring samples, weighed by their length. `samples` is not empty (it comes from `chunks`).
fn mean(samples: &[Sample]) -> Sample {
    let seconds: f64 = samples.iter().map(|s| s.seconds).sum();
    let weigh = |part: &dyn Fn(&Sample) -> f64| {
        samples.iter().map(|s| part(s) * s.seconds).sum::<f64>() / seconds.max(f64::MIN_POSITIVE)
    };
    let cores = |of: fn(&Sample) -> Cores| Cores {
        user: weigh(&|s| of(s).user),
        system: weigh(&|s| of(s).system),
    };
    Sample {
        seconds,
        rate: samples[0].rate.map(|_| weigh(&|s| s.rate.unwrap_or(0.0))),
        server: cores(|s| s.server),
        proxy: cores(|s| s.proxy),
        load: cores(|s| s.load),
    }
}

/// Sets the places of all spans; tells how many pixels a second takes.
fn place(spans: &mut [Span], room: f64) -> f64 {
    let visits = spans.len().max(1) as f64;
    // Gaps may take an eighth of the room, however many there are.
    let visit_gap = (room / 16.0 / visits).min(3.0);
    let tests = spans.windows(2).filter(|w| w[0].test != w[1].test).count() as f64;
    let test_gap = (room / 16.0 / tests.max(1.0)).min(12.0);
    let gaps = visit_gap * (visits - 1.0 - tests) + test_gap * tests;
    let seconds: f64 = spans.iter().map(Span::seconds).sum();
    let px_per_s = (room - gaps) / seconds.max(f64::MIN_POSITIVE);
    let mut x = LEFT;
    let mut test = spans.first().map_or(0, |s| s.test);
    for (i, span) in spans.iter_mut().enumerate() {
        if i > 0 {
            x += if span.test == test { visit_gap } else { test_gap };
        }
        test = span.test;
        span.x = x;
        x += span.seconds() * px_per_s;
    }
    px_per_s
}

fn greatest(spans: &[Span], parts: fn(&Sample) -> Option<(f64, f64)>) -> f64 {
    let all = spans.iter().flat_map(|s| &s.samples).filter_map(parts);
    all.map(|(user, system)| user + system).filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// The names of the tests over their bands, and the ribbon that says which target was visited when.
fn bands(view: &View, spans: &[Span], px_per_s: f64, bottom: f64) -> Markup {
    let mut tests: Vec<(usize, f64, f64)> = Vec::new();
    for span in spans {
        let end = span.x + span.seconds() * px_per_s;
        match tests.last_mut() {
            Some(last) if last.0 == span.test => last.2 = end,
            _ => tests.push((span.test, span.x, end)),
        }
    }
    html! {
        @for (test, from, to) in &tests {
            @let name = &view.run.tests[*test].name;
            rect class="band" x=(Px(*from)) y="0" width=(Px(to - from)) height=(Px(bottom)) rx="3" { title { (name) } }
            @if to - from > 30.0 {
                text class="name middle" x=(Px((from + to) / 2.0)) y="19" { (text::fit(name, FONT * 1.06, to - from - 6.0)) }
            }
        }
        @for span in spans {
            @let wide = span.seconds() * px_per_s;
            g class=(view.class(span.target)) {
                rect class="u" x=(Px(span.x)) y=(Px(BANDS - RIBBON - 2.0)) width=(Px(wide)) height=(Px(RIBBON)) rx="1.5" {
                    title { (view.run.tests[span.test].name) ": " (span.target) }
                }
                @if wide >= text::width(span.target, 10.5) + 4.0 {
                    text class="on" x=(Px(span.x + wide / 2.0)) y=(Px(BANDS - 7.0)) { (span.target) }
                }
            }
        }
    }
}

fn draw_panel(
    view: &View,
    spans: &[Span],
    panel: &Panel,
    px_per_s: f64,
    (top, max): (f64, f64),
    width: f64,
) -> Markup {
    let (end, ticks) = linear_ticks(max, 3.0);
    let y = |value: f64| top + PANEL - (value / end).clamp(0.0, 1.0) * PANEL;
    let throughput = panel.unit != "cores";
    html! {
        text class="name" x=(Px(LEFT + 4.0)) y=(Px(top - 9.0)) {
            (panel.name) tspan class="small" dx="7" { (panel.unit) }
        }
        @for tick in ticks {
            line class="grid" x1=(Px(LEFT)) x2=(Px(width - RIGHT)) y1=(Px(y(tick))) y2=(Px(y(tick))) {}
            text class="small end" x=(Px(LEFT - 7.0)) y=(Px(y(tick) + 4.0)) {
                @if throughput { (text::si_tick(tick)) } @else { (text::tick(tick)) }
            }
        }
        @for span in spans {
            g class=(view.class(span.target)) {
                path class="u" d=(area(span, px_per_s, &y, &|s| (panel.parts)(s).map(|p| (0.0, p.0)))) {}
                @if !throughput {
                    path class="s" d=(area(span, px_per_s, &y, &|s| (panel.parts)(s).map(|p| (p.0, p.0 + p.1)))) {}
                }
            }
        }
    }
}

/// The area between two values of each sample, in steps, closed; empty where all of it is zero or nothing is known.
fn area(
    span: &Span,
    px_per_s: f64,
    y: &dyn Fn(f64) -> f64,
    bounds: &dyn Fn(&Sample) -> Option<(f64, f64)>,
) -> String {
    let (mut upper, mut lower) = (String::new(), Vec::new());
    let mut x = span.x;
    let mut any = false;
    for sample in &span.samples {
        let (low, high) = bounds(sample).unwrap_or((0.0, 0.0));
        let next = x + sample.seconds * px_per_s;
        any |= high > low;
        let begin = if upper.is_empty() {
            format!("M{} {}", Px(x), Px(y(high)))
        } else {
            format!("V{}", Px(y(high)))
        };
        // Writing to a String cannot fail.
        let _ = write!(upper, "{begin}H{}", Px(next));
        lower.push((x, y(low)));
        x = next;
    }
    if !any {
        return String::new();
    }
    for (x, low) in lower.iter().rev() {
        let _ = write!(upper, "V{}H{}", Px(*low), Px(*x));
    }
    upper + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64, user: f64) -> Sample {
        let cores = Cores { user, system: user / 2.0 };
        Sample { seconds, rate: Some(100.0), server: cores, proxy: cores, load: cores }
    }

    #[test]
    fn samples_are_averaged_by_their_length() {
        let one = mean(&[sample(1.0, 0.2), sample(3.0, 0.6)]);
        assert!((one.seconds - 4.0).abs() < 1e-9);
        assert!((one.server.user - 0.5).abs() < 1e-9 && (one.load.system - 0.25).abs() < 1e-9);
        assert_eq!(one.rate, Some(100.0));
    }

    #[test]
    fn spans_fill_the_room_in_order() {
        let span =
            |test, seconds| Span { test, target: "a", samples: vec![sample(seconds, 0.1)], x: 0.0 };
        let mut spans = vec![span(0, 2.0), span(0, 4.0), span(1, 2.0)];
        let px_per_s = place(&mut spans, 800.0);
        assert!(spans.windows(2).all(|w| w[0].x + w[0].seconds() * px_per_s <= w[1].x));
        let end = spans[2].x + spans[2].seconds() * px_per_s;
        assert!((end - (LEFT + 800.0)).abs() < 1e-6, "{end}");
    }

    #[test]
    fn an_area_goes_there_and_back() {
        let span = Span {
            test: 0,
            target: "a",
            samples: vec![sample(1.0, 0.5), sample(1.0, 1.0)],
            x: 10.0,
        };
        let path = area(&span, 10.0, &|v| 100.0 - v * 100.0, &|s| Some((0.0, s.server.user)));
        assert_eq!(path, "M10 50H20V0H30V100H20V100H10Z");
        assert_eq!(area(&span, 10.0, &|v| v, &|_| None), "");
    }
}
