//! The page is what Prometheus and OpenMetrics say it should be, and says what the reports say.

use std::collections::BTreeSet;

use engine::Time;
use engine::fleet::{ProcessFacts, Report};
use engine::histogram::Sample;
use engine::report::NodeReport;
use engine::{Engine, Settings};

use super::names::{Kind, METRICS};
use super::{Format, page, reference};

fn process() -> ProcessFacts {
    ProcessFacts {
        version: "1.2.3".into(),
        driver: "epoll".into(),
        started_unix_s: 1_700_000_000,
        cpu_system_us: 1_500_000,
        cpu_user_us: 250_000,
        ..ProcessFacts::default()
    }
}

fn reports() -> Vec<Report> {
    let report = |worker: u32| {
        let settings = Settings { worker, workers: 2, ..Settings::default() };
        let mut report = Engine::new(settings, 1, Time(0)).report(Time(5));
        let get = engine::command::lookup(b"get");
        report.stats.command(get).calls = 3;
        report.stats.latency(get).record(Sample::new(100), 2);
        report.stats.latency(None).record(Sample::new(40_000_000), 1);
        report.stats.note_own_error(b"-NOAUTH x\r\n", 1);
        report.stats.requests = 10 + u64::from(worker);
        report.topology_age_us = Some(2_500_000);
        report
    };
    vec![report(0), report(1)]
}

fn lines(format: Format) -> Vec<String> {
    page(&reports(), &process(), format).lines().map(str::to_owned).collect()
}

#[test]
fn the_page_says_what_the_reports_say() {
    let lines = lines(Format::Prometheus);
    for line in [
        "# TYPE respool_build_info gauge",
        "respool_build_info{version=\"1.2.3\",driver=\"epoll\"} 1",
        "process_start_time_seconds 1700000000",
        "process_cpu_seconds_total 1.75",
        "# TYPE respool_requests_total counter",
        "respool_requests_total{worker=\"0\"} 10",
        "respool_requests_total{worker=\"1\"} 11",
        "respool_errors_total{cause=\"auth\"} 2",
        "respool_error_replies_total{error=\"NOAUTH\"} 2",
        "respool_command_calls_total{command=\"get\"} 6",
        "# TYPE respool_command_duration_seconds histogram",
        "respool_command_duration_seconds_bucket{command=\"get\",le=\"0.000064\"} 0",
        "respool_command_duration_seconds_bucket{command=\"get\",le=\"0.000128\"} 4",
        "respool_command_duration_seconds_bucket{command=\"unknown\",le=\"16.777216\"} 0",
        "respool_command_duration_seconds_bucket{command=\"unknown\",le=\"+Inf\"} 2",
        "respool_command_duration_seconds_sum{command=\"get\"} 0.0004",
        "respool_command_duration_seconds_count{command=\"get\"} 4",
        "respool_node_info{node=\"127.0.0.1:6379\",pool=\"0\",role=\"primary\",state=\"idle\"} 1",
        "respool_topology_age_seconds{worker=\"1\"} 2.5",
    ] {
        assert!(
            lines.iter().any(|written| written == line),
            "{line} is not in\n{}",
            lines.join("\n")
        );
    }
    let set = lines.iter().any(|line| line.contains("command=\"set\""));
    assert!(!set, "a command that nobody used is on the page");
}

#[test]
fn openmetrics_has_units_and_an_end() {
    let lines = lines(Format::OpenMetrics);
    for line in [
        "# TYPE respool_build info",
        "respool_build_info{version=\"1.2.3\",driver=\"epoll\"} 1",
        "# TYPE respool_requests counter",
        "respool_requests_total{worker=\"0\"} 10",
        "# UNIT respool_command_duration_seconds seconds",
        "# UNIT respool_client_sent_bytes bytes",
    ] {
        assert!(
            lines.iter().any(|written| written == line),
            "{line} is not in\n{}",
            lines.join("\n")
        );
    }
    assert_eq!(lines.last().map(String::as_str), Some("# EOF"));
}

#[test]
fn each_sample_stands_once_under_its_head_with_the_labels_of_its_row() {
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let (mut seen, mut heads) = (BTreeSet::new(), BTreeSet::new());
        let mut row = None;
        for line in lines(format) {
            if let Some(head) = line.strip_prefix("# HELP ") {
                let name = head.split(' ').next().unwrap_or_default();
                assert!(heads.insert(name.to_owned()), "{name} has two heads");
                row = METRICS.iter().find(|row| row.name == name || row.shown_name() == name);
            }
            if line.starts_with('#') {
                continue;
            }
            let row = row.expect("a head");
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            assert!(seen.insert(sample.to_owned()), "{sample} stands there twice");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
            assert!(name.starts_with(row.name), "{name} is under {}", row.name);
            let names: Vec<&str> =
                labels.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
            let names: Vec<&str> = names.into_iter().filter(|name| *name != "le").collect();
            assert_eq!(names, row.labels, "{line}");
        }
        assert!(heads.len() > 40);
    }
}

#[test]
fn odd_names_are_escaped() {
    let node = NodeReport { label: "/run/\"a\\b\n".into(), ..NodeReport::default() };
    let report = Report { nodes: vec![node], ..Report::default() };
    let text = page(&[report], &process(), Format::Prometheus);
    assert!(text.contains("respool_node_up{node=\"/run/\\\"a\\\\b\\n\",pool=\"0\"} 1\n"), "{text}");
}

#[test]
fn the_rows_follow_the_rules_of_names() {
    let mut names = BTreeSet::new();
    for row in METRICS {
        assert!(names.insert(row.name), "{} stands there twice", row.name);
        assert!(row.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", row.name);
        assert!(!row.name.ends_with("_total") && !row.name.ends_with("_info"), "{}", row.name);
        assert!(!row.help.ends_with('.') && !row.help.is_empty(), "{}", row.name);
        assert!(row.kind != Kind::Histogram || row.unit() == Some("seconds"), "{}", row.name);
        assert!(reference().contains(&format!("| `{}` |", row.shown_name())));
    }
}
