//! Two runs against each other, and a run against its limits.

mod made;

use bench::check::{self, Outcome};
use bench::compare::{self, Comparison, Row};
use bench::plan::{Bound, Figure, Limit};
use bench::record::{Run, Visit};
use bench::report::table::{self, Look};
use bench::stats::noise::Verdict;
use made::{rounds, test};

/// Rounds that differ by a percent, so that there is a noise to be beyond of.
fn run(change: impl Fn(&mut Visit)) -> Run {
    let visits = rounds(&["direct", "respool"], 5, |visit| {
        let wobble = 1.0 + f64::from(visit.round) / 100.0;
        visit.requests = (visit.requests as f64 * wobble) as u64;
        change(visit);
    });
    made::run(vec![test("SET P=1", visits)])
}

/// A machine so many times as fast: more requests in the same time with the same CPU.
fn speed(visit: &mut Visit, factor: f64) {
    visit.requests = (visit.requests as f64 * factor) as u64;
}

fn find<'a>(comparison: &'a Comparison, target: &str, figure: Figure) -> &'a Row {
    comparison.rows.iter().find(|row| row.target == target && row.figure == figure).unwrap()
}

#[test]
fn a_run_is_the_same_as_itself() {
    let comparison = compare::compare(&run(|_| {}), &run(|_| {}));
    assert_eq!(comparison.count(Verdict::Same), comparison.rows.len());
    // direct: throughput, p50, p99 and three of the server; respool: three of the proxy besides, and its memory.
    assert_eq!(comparison.rows.len(), 6 + 10);
    assert_eq!(comparison.only_in_one, Vec::<String>::new());
}

#[test]
fn a_faster_machine_is_no_better_proxy() {
    let comparison = compare::compare(&run(|_| {}), &run(|visit| speed(visit, 1.5)));
    for figure in [Figure::Throughput, Figure::ServerCpu, Figure::ProxyCpu, Figure::ProxyUser] {
        let row = find(&comparison, "respool", figure);
        assert_ne!(row.absolute.verdict(figure), Verdict::Same, "{figure:?} itself did change");
        assert_eq!(row.verdict, Verdict::Same, "{figure:?} against the base did not");
    }
    assert!((find(&comparison, "respool", Figure::Throughput).absolute.factor - 1.5).abs() < 1e-3);
    assert_eq!(find(&comparison, "direct", Figure::Throughput).verdict, Verdict::Better);
    let moved =
        comparison.warnings.iter().find(|text| text.starts_with("The base moved: ")).unwrap();
    assert!(moved.contains("server CPU of direct in SET P=1 is 0.67 times"), "{moved}");
}

#[test]
fn a_base_that_was_disturbed_is_no_measure() {
    let disturbed = run(|visit| {
        let share =
            if visit.target == "direct" { 0.3 + f64::from(visit.round) / 25.0 } else { 1.0 };
        speed(visit, share);
    });
    let comparison = compare::compare(&run(|_| {}), &disturbed);
    let moved =
        comparison.warnings.iter().find(|text| text.starts_with("The base moved: ")).unwrap();
    assert!(moved.ends_with("so neither kind of change is safe."), "{moved}");
}

#[test]
fn a_better_proxy_is_seen_on_a_slower_machine() {
    let comparison = compare::compare(
        &run(|_| {}),
        &run(|visit| {
            speed(visit, 0.7);
            if visit.target == "respool" {
                speed(visit, 1.2);
                visit.latency.percentiles = vec![(50.0, 400.0)];
            }
        }),
    );
    let row = find(&comparison, "respool", Figure::Throughput);
    assert_eq!(row.absolute.verdict(Figure::Throughput), Verdict::Worse);
    assert_eq!(row.verdict, Verdict::Better);
    assert!((row.relative.unwrap().factor - 1.2).abs() < 1e-3);
    assert_eq!(find(&comparison, "respool", Figure::ProxyCpu).verdict, Verdict::Better);
    assert_eq!(find(&comparison, "respool", Figure::P50).verdict, Verdict::Worse);
    let missing =
        comparison.rows.iter().any(|row| row.target == "respool" && row.figure == Figure::P99);
    assert!(!missing, "the second run has no such percentile, so there is nothing to compare");
}

#[test]
fn what_only_one_run_has_is_listed() {
    let mut before = run(|_| {});
    let mut after = run(|_| {});
    before.tests.push(test("GET P=1", rounds(&["direct"], 3, |_| {})));
    after.tests[0].visits.retain(|visit| visit.target == "direct");
    let comparison = compare::compare(&before, &after);
    assert_eq!(
        comparison.only_in_one,
        [
            "Only the first run visits respool in SET P=1.",
            "Only the first run has the test GET P=1."
        ]
    );
    assert!(comparison.rows.iter().all(|row| row.target == "direct" && row.test == "SET P=1"));
}

#[test]
fn runs_that_are_hard_to_compare_are_told_so() {
    let before = run(|_| {});
    let mut after = run(|_| {});
    after.machine.cpu = "Other CPU".to_owned();
    after.machine.pinned = "proxy on 0".to_owned();
    after.tests[0].tool = "redis-benchmark".to_owned();
    after.tests[0].axes[0].1 = 20.0;
    after.targets[1].what = "respool 2.0".to_owned();
    after.base = "respool".to_owned();
    let comparison = compare::compare(&before, &after);
    let all = comparison.warnings.join("\n");
    for part in [
        "The machine's CPU differs: Example CPU then Other CPU",
        "The pinning differs: nothing then proxy on 0",
        "The base differs: direct then respool",
        "tool (respool-bench then redis-benchmark)",
        "numbers (pipeline 1, value_bytes 3 then pipeline 20, value_bytes 3)",
    ] {
        assert!(all.contains(part), "{part:?} is not in\n{all}");
    }
    assert_eq!(comparison.notes, ["respool was respool 1.0, and is respool 2.0."]);
    assert!(comparison.rows.iter().all(|row| row.relative.is_none()), "no base in common");
}

#[test]
fn a_comparison_as_text() {
    let better = run(|visit| {
        if visit.target == "respool" {
            speed(visit, 1.2);
        }
    });
    let text = table::comparison(
        &compare::compare(&run(|_| {}), &better),
        Look { width: 160, colour: false },
    );
    let line = text
        .lines()
        .find(|line| line.contains("throughput, req/s") && line.contains("+20"))
        .unwrap();
    assert!(line.contains("+20.0 % [") && line.trim_end().ends_with("better"), "{line}");
    let last = text.split_once("\nbetter").map(|(_, last)| last).unwrap();
    assert!(last.contains("SET P=1, respool:  throughput +20.0 %, proxy CPU -16.7 %"), "{text}");
    assert!(last.contains("0 worse, 7 better, 9 the same within the noise"), "{text}");
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn one_round_each_says_so() {
    let one = || made::run(vec![test("t", rounds(&["direct", "respool"], 1, |_| {}))]);
    let comparison = compare::compare(&one(), &one());
    assert_eq!(comparison.count(Verdict::Same), comparison.rows.len());
    let text = table::comparison(&comparison, Look { width: 200, colour: false });
    assert!(text.contains("[too few rounds]"), "{text}");
}

fn limit(figure: Figure, target: &str, of: &str, at_most: f64) -> Limit {
    Limit {
        figure,
        target: target.to_owned(),
        of: Some(of.to_owned()),
        tests: Vec::new(),
        of_test: None,
        bound: Bound::AtMost(at_most),
        enough: None,
    }
}

#[test]
fn limits_are_judged_line_by_line() {
    let run = run(|visit| {
        if visit.target == "respool" {
            visit.server.cpu_s = 0.1;
        }
    });
    let limits = [
        limit(Figure::ServerCpu, "respool", "direct", 0.25001),
        limit(Figure::ServerCpu, "respool", "direct", 0.24),
        limit(Figure::ServerCpu, "respool", "predixy", 0.9),
        limit(Figure::ProxyCpu, "respool", "direct", 0.9),
        Limit {
            tests: vec!["GET P=1".to_owned()],
            ..limit(Figure::ServerCpu, "respool", "direct", 0.5)
        },
    ];
    let verdicts = check::judge(&limits, &run);
    let lines: Vec<String> = verdicts.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "ok    SET P=1: server CPU of respool is 0.250 × direct's (at most 0.25001)",
            "FAIL  SET P=1: server CPU of respool is 0.250 × direct's (at most 0.24)",
            "skip  SET P=1: server CPU of respool (at most 0.9 × predixy's): predixy was not visited in this test",
            "FAIL  SET P=1: proxy CPU of respool was not measured (at most 0.9 × direct's)",
            "skip  GET P=1: server CPU of respool (at most 0.5 × direct's): this test is not in the run",
        ]
    );
    assert!(!check::held(&verdicts));
    assert!(check::held(&verdicts[..1]));
    assert!(
        check::held(&[verdicts[0].clone(), verdicts[2].clone()]),
        "an absent partner is no failure"
    );
    assert!(!check::held(&verdicts[2..3]), "but a check that judged nothing is not passed");
    assert!(check::held(&[]), "and without limits there is nothing to pass");
    assert!(matches!(verdicts[1].outcome, Outcome::Missed(ratio) if (ratio - 0.25).abs() < 1e-3));
}

#[test]
fn a_target_can_be_judged_by_itself_in_another_test() {
    let visits = |cost: f64| {
        rounds(&["respool"], 3, move |visit| {
            visit.server.cpu_s *= cost * (1.0 + f64::from(visit.round) / 10.0);
        })
    };
    let run = made::run(vec![test("few", visits(1.0)), test("many", visits(1.4))]);
    let of = |other: &str, at_most| Limit {
        tests: vec!["many".to_owned()],
        of_test: Some(other.to_owned()),
        ..limit(Figure::ServerCpu, "respool", "respool", at_most)
    };
    let verdicts = check::judge(&[of("few", 1.5), of("few", 1.3), of("none", 1.5)], &run);
    let lines: Vec<String> = verdicts.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "ok    many: server CPU of respool is 1.400 × respool's in few (at most 1.5)",
            "FAIL  many: server CPU of respool is 1.400 × respool's in few (at most 1.3)",
            "skip  many: server CPU of respool (at most 1.5 × respool's in none): the test to compare with is not in the run",
        ]
    );
}

#[test]
fn a_figure_can_be_judged_by_itself_and_from_below() {
    let visits = rounds(&["direct", "respool"], 3, |visit| {
        if visit.target == "respool" {
            visit.requests = 80_000;
        }
    });
    let run = made::run(vec![test("SET P=1", visits)]);
    let (respool, of) = ("respool".to_owned(), Some("direct".to_owned()));
    let judge = |figure, of: &Option<String>, bound, enough| {
        let limit = Limit { of: of.clone(), bound, enough, ..limit(figure, &respool, "", 1.0) };
        check::judge(&[limit], &run)[0].to_string()
    };
    // 8 MiB, 80 000 requests of 2.5 µs.
    assert_eq!(
        judge(Figure::ProxyRss, &None, Bound::AtMost(8.0), None),
        "ok    SET P=1: proxy memory of respool is 8.00 MiB (at most 8)"
    );
    assert_eq!(
        judge(Figure::ProxyRss, &None, Bound::AtMost(7.5), None),
        "FAIL  SET P=1: proxy memory of respool is 8.00 MiB (at most 7.5)"
    );
    assert_eq!(
        judge(Figure::IdleRss, &None, Bound::AtMost(4.0), None),
        "FAIL  SET P=1: memory per idle client of respool was not measured (at most 4 KiB)"
    );
    assert_eq!(
        judge(Figure::Throughput, &of, Bound::AtLeast(0.8), None),
        "ok    SET P=1: throughput of respool is 0.800 × direct's (at least 0.8)"
    );
    assert_eq!(
        judge(Figure::Throughput, &of, Bound::AtLeast(0.81), Some(90_000.0)),
        "FAIL  SET P=1: throughput of respool is 0.800 × direct's (at least 0.81, or 90000 req/s)"
    );
    assert_eq!(
        judge(Figure::Throughput, &of, Bound::AtLeast(0.81), Some(70_000.0)),
        "ok    SET P=1: throughput of respool is 80000 req/s (70000 is enough)"
    );
    let absent = Some("predixy".to_owned());
    assert_eq!(
        judge(Figure::ProxyCpu, &absent, Bound::AtMost(1.0), Some(3.0)),
        "ok    SET P=1: proxy CPU of respool is 2.50 µs/req (3 is enough)"
    );
}

#[test]
fn a_run_without_tests_is_skipped_and_said() {
    let verdicts =
        check::judge(&[limit(Figure::P99, "respool", "direct", 1.0)], &made::run(Vec::new()));
    assert_eq!(
        verdicts[0].to_string(),
        "skip  latency p99 of respool (at most 1 × direct's): the run has no tests"
    );
}
