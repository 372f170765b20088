//! Runs to draw: the sample of the repository, and what real ones may turn into.

use bench::record::{Cores, Latency, Run, Usage};

/// The sample run: four targets, four tests, three rounds.
pub(crate) fn predixy() -> Run {
    serde_json::from_str(include_str!("../data/run.json")).unwrap()
}

/// The sample with one target, one test and the words around them called `name`.
pub(crate) fn renamed(name: &str) -> Run {
    let mut run = predixy();
    let old = run.targets[1].name.clone();
    run.targets[1].name = name.to_owned();
    for visit in run.tests.iter_mut().flat_map(|t| &mut t.visits).filter(|v| v.target == old) {
        visit.target = name.to_owned();
    }
    for tick in run.timeline.iter_mut().filter(|t| t.target == old) {
        tick.target = name.to_owned();
    }
    run.tests[0].name = name.to_owned();
    for words in [
        &mut run.scenario,
        &mut run.about,
        &mut run.command,
        &mut run.warnings[0],
        &mut run.left_out[0],
    ] {
        *words = name.to_owned();
    }
    run
}

/// The sample with twelve targets: more than the palette has colours.
pub(crate) fn many_targets() -> Run {
    let mut run = predixy();
    for i in 0..8 {
        let mut target = run.targets[1].clone();
        target.name = format!("proxy {i}");
        target.axis = None;
        for test in &mut run.tests {
            let like: Vec<_> =
                test.visits.iter().filter(|v| v.target == "nutcracker").cloned().collect();
            test.visits.extend(like.into_iter().map(|mut visit| {
                visit.target.clone_from(&target.name);
                visit
            }));
        }
        run.targets.push(target);
    }
    run
}

/// Runs that lack something, or hold what no run should.
pub(crate) fn odd() -> Vec<(&'static str, Run)> {
    let changed = |change: &dyn Fn(&mut Run)| {
        let mut run = predixy();
        change(&mut run);
        run
    };
    vec![
        (
            "one round",
            changed(&|run| {
                run.rounds = 1;
                run.tests.iter_mut().for_each(|t| t.visits.retain(|v| v.round == 1));
            }),
        ),
        ("no ticks", changed(&|run| run.timeline.clear())),
        ("one tick", changed(&|run| run.timeline.truncate(1))),
        (
            "only the server",
            changed(&|run| {
                run.targets.truncate(1);
                run.timeline.retain(|t| t.target == "direct");
                run.tests.iter_mut().for_each(|t| t.visits.retain(|v| v.target == "direct"));
            }),
        ),
        (
            "no tail",
            changed(&|run| {
                for visit in run.tests.iter_mut().flat_map(|t| &mut t.visits) {
                    visit.latency.percentiles.retain(|(p, _)| [50.0, 95.0, 99.0].contains(p));
                }
                run.timeline.iter_mut().for_each(|t| t.requests_per_s = None);
            }),
        ),
        (
            "all zero",
            changed(&|run| {
                for visit in run.tests.iter_mut().flat_map(|t| &mut t.visits) {
                    (visit.requests, visit.seconds) = (0, 0.0);
                    visit.latency = Latency::default();
                    (visit.proxy, visit.server, visit.load) = Default::default();
                }
                for tick in &mut run.timeline {
                    (tick.proxy, tick.server, tick.load) = Default::default();
                    tick.requests_per_s = Some(0.0);
                }
            }),
        ),
        ("no numbers", changed(&|run| not_a_number(run, f64::NAN))),
        ("infinite", changed(&|run| not_a_number(run, f64::INFINITY))),
        (
            "empty",
            changed(&|run| {
                run.tests.clear();
                run.targets.clear();
                run.timeline.clear();
            }),
        ),
        ("many targets", many_targets()),
        (
            "many hours",
            changed(&|run| {
                let ticks = run.timeline.clone();
                let length = run.seconds;
                run.timeline = (0..60)
                    .flat_map(|i| {
                        ticks.iter().cloned().map(move |mut tick| {
                            tick.at_s += f64::from(i) * length;
                            tick
                        })
                    })
                    .collect();
            }),
        ),
    ]
}

/// Puts `odd` wherever a run has a fraction.
fn not_a_number(run: &mut Run, odd: f64) {
    let usage = Usage { cpu_s: odd, user_s: odd, system_s: odd, ..Usage::default() };
    let cores = Cores { user: odd, system: odd };
    run.seconds = odd;
    for test in &mut run.tests {
        test.axes.iter_mut().for_each(|(_, value)| *value = odd);
        for visit in &mut test.visits {
            (visit.seconds, visit.began_s) = (odd, odd);
            (visit.proxy, visit.server, visit.load) = (usage, usage, usage);
            visit.latency.percentiles.iter_mut().for_each(|(_, us)| *us = odd);
        }
    }
    for (i, tick) in run.timeline.iter_mut().enumerate() {
        // Some ticks have a place in time, so that something is drawn at all.
        tick.at_s = if i % 2 == 0 { odd } else { i as f64 };
        tick.requests_per_s = Some(odd);
        (tick.proxy, tick.server, tick.load) = (cores, cores, cores);
    }
}
