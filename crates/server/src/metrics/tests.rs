//! The page is what Prometheus and OpenMetrics say it should be, and says what the reports say.

mod wire;

use std::collections::BTreeSet;

use engine::Time;
use engine::elsewhere::{ReadTargetReport, ReadsElsewhereCounts};
use engine::fleet::{ProcessFacts, Report, RingReport};
use engine::histogram::Sample;
use engine::losses::Loss;
use engine::mirror::{MirrorCounts, MirrorReport, ShadowCounts};
use engine::report::NodeReport;
use engine::stats::errors::Cause;
use engine::stats::monitors::MonitorOptions;
use engine::{Engine, Settings};

use super::names::METRICS;
use super::row::Kind;
use super::{Format, page, reference};

fn process() -> ProcessFacts {
    let mut losses = [0; engine::losses::LOSSES];
    losses[Loss::SpansPost as usize] = 12;
    ProcessFacts {
        losses,
        version: "1.2.3".into(),
        driver: "epoll".into(),
        driver_wanted: "uring".into(),
        driver_reason: "no \"locked\" memory".into(),
        started_unix_s: 1_700_000_000,
        cpu_system_us: 1_500_000,
        cpu_user_us: 250_000,
        ..ProcessFacts::default()
    }
}

fn reports() -> Vec<Report> {
    let report = |worker: u32| {
        let settings = Settings { worker, workers: 2, monitors: monitors(), ..Settings::default() };
        let mut report = Engine::new(settings, 1, Time(0)).report(Time(5));
        let get = engine::command::lookup(b"get");
        report.stats.command(get).calls = 3;
        report.stats.latency(get).record(Sample::new(100), 2);
        report.stats.latency(None).record(Sample::new(40_000_000), 1);
        report.stats.errors.note(b"-NOAUTH x\r\n", 1);
        report.stats.own_errors[Cause::Auth as usize] = 1;
        report.stats.requests = 10 + u64::from(worker);
        report.topology_age_us = Some(2_500_000);
        report.stats.observed_left_out = 4;
        report.stats.monitors.record(0, &[200, 1_000_000], 200, 3);
        report.nodes[0].stats.monitors.record(0, &[200, 1_000_000], 200, 2);
        report
    };
    let ring = RingReport { no_buffers: 7, overflows: 1, buffers: [256, 8] };
    // No process has both kinds of workers; the page does not depend on it.
    let counts = MirrorCounts { errors: vec![("OOM".to_owned(), 2)], ..MirrorCounts::default() };
    let shadow = Some(ShadowCounts { equal: 5, ..ShadowCounts::default() });
    let mirror = MirrorReport { name: "new".to_owned(), counts, shadow, ..MirrorReport::default() };
    let read_targets = vec![ReadTargetReport { name: "near".to_owned(), ..Default::default() }];
    let reads_elsewhere = Some(ReadsElsewhereCounts::default());
    let mirrors = vec![mirror];
    let second = Report { ring: Some(ring), mirrors, read_targets, reads_elsewhere, ..report(1) };
    vec![report(0), second]
}

fn monitors() -> Vec<MonitorOptions> {
    let monitor = |name: &str, bounds_us: &[u64]| MonitorOptions {
        name: name.to_owned(),
        commands: vec![None],
        bounds_us: bounds_us.to_vec(),
    };
    vec![monitor("reads", &[200, 1_000_000]), monitor("unused", &[5])]
}

fn text_of(reports: &[Report], format: Format) -> String {
    String::from_utf8(page(reports, &process(), format)).expect("text")
}

fn lines(format: Format) -> Vec<String> {
    text_of(&reports(), format).lines().map(str::to_owned).collect()
}

#[test]
fn the_page_says_what_the_reports_say() {
    let lines = lines(Format::Prometheus);
    for line in [
        "# TYPE respool_build_info gauge",
        "respool_build_info{version=\"1.2.3\",driver=\"epoll\"} 1",
        "respool_driver_info{driver=\"epoll\",wanted=\"uring\",reason=\"no \\\"locked\\\" memory\"} 1",
        "respool_uring_no_buffers_total{worker=\"1\"} 7",
        "respool_uring_overflows_total{worker=\"1\"} 1",
        "respool_uring_buffers{worker=\"1\",size=\"small\"} 256",
        "respool_uring_buffers{worker=\"1\",size=\"large\"} 8",
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
        "respool_monitor_duration_seconds_bucket{monitor=\"reads\",le=\"0.0002\"} 6",
        "respool_monitor_duration_seconds_bucket{monitor=\"reads\",le=\"1.0\"} 6",
        "respool_monitor_duration_seconds_sum{monitor=\"reads\"} 0.0012",
        "respool_monitor_duration_seconds_bucket{monitor=\"unused\",le=\"+Inf\"} 0",
        "respool_monitor_node_duration_seconds_count{monitor=\"reads\",node=\"127.0.0.1:6379\",pool=\"0\"} 4",
        "respool_telemetry_dropped_total{what=\"spans\",cause=\"post\"} 12",
        "respool_telemetry_dropped_total{what=\"alarms\",cause=\"queue\"} 0",
        "respool_telemetry_dropped_total{what=\"requests\",cause=\"turn\"} 8",
    ] {
        assert!(
            lines.iter().any(|written| written == line),
            "{line} is not in\n{}",
            lines.join("\n")
        );
    }
    let none = lines.iter().any(|line| line.contains("_uring_") && line.contains("worker=\"0\""));
    assert!(!none, "a worker without a ring is on the page");
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

/// A decoded page as lines of the text format, without native histograms.
fn as_text(families: &[wire::Family]) -> String {
    let mut text = String::new();
    for wire::Family { name, help, kind, samples } in families {
        let kind = ["counter", "gauge", "", "", "histogram"][*kind as usize];
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for sample in samples {
            let mut line = |end: &str, le: Option<String>, value: f64| {
                let le = le.map(|le| ("le".to_owned(), le));
                let labels = sample.labels.iter().cloned().chain(le);
                let labels: Vec<String> =
                    labels.map(|(label, value)| format!("{label}={value:?}")).collect();
                let labels = if labels.is_empty() {
                    String::new()
                } else {
                    format!("{{{}}}", labels.join(","))
                };
                text.push_str(&format!("{name}{end}{labels} {value}\n"));
            };
            let Some(histogram) = &sample.histogram else {
                let of_kind = if kind == "counter" { sample.counter } else { sample.gauge };
                line("", None, of_kind.expect("a value of its kind"));
                continue;
            };
            for (end, count) in &histogram.classic {
                let le = if end.fract() == 0.0 { format!("{end}.0") } else { format!("{end}") };
                line("_bucket", Some(le), *count as f64);
            }
            line("_bucket", Some("+Inf".to_owned()), histogram.count as f64);
            line("_sum", None, histogram.sum);
            line("_count", None, histogram.count as f64);
        }
    }
    text
}

#[test]
fn protobuf_says_what_the_text_says() {
    let families = wire::families(&page(&reports(), &process(), Format::Protobuf));
    assert_eq!(as_text(&families), text_of(&reports(), Format::Prometheus));
    let empty = wire::families(&page(&[], &process(), Format::Protobuf));
    assert_eq!(as_text(&empty), text_of(&[], Format::Prometheus));
}

#[test]
fn protobuf_has_native_histograms_with_every_observation() {
    let families = wire::families(&page(&reports(), &process(), Format::Protobuf));
    let mut natives = 0;
    for family in families.iter().filter(|family| family.kind == 4) {
        let is_native = !family.name.starts_with("respool_monitor_");
        for histogram in family.samples.iter().filter_map(|sample| sample.histogram.as_ref()) {
            assert_eq!(histogram.schema, is_native.then_some(4), "{}", family.name);
            if !is_native {
                assert!(histogram.spans.is_empty() && histogram.zero_threshold == 0.0);
                continue;
            }
            let counted: i64 = histogram.native().iter().map(|(_, count)| count).sum();
            assert_eq!(counted as u64 + histogram.zero_count, histogram.count);
            assert_eq!(histogram.zero_threshold, 1e-6);
            natives += 1;
        }
    }
    assert_eq!(natives, 2);
    let times = families.iter().find(|family| family.name == "respool_command_duration_seconds");
    let of = |command: &str| {
        let is = |sample: &&wire::Sample| sample.labels[0] == ("command".into(), command.into());
        let sample = times.expect("the family").samples.iter().find(is).expect("the command");
        sample.histogram.as_ref().expect("a histogram").native()
    };
    // 100 µs are in the engine's bucket from 96 to 104 µs, whose middle is a ten-thousandth of a second: 2^(-13.29).
    assert_eq!(of("get"), [(-212, 4)]);
    assert_eq!(of("unknown").len(), 1);
}

#[test]
fn monitors_that_change_are_not_told_until_all_workers_agree() {
    let mut reports = reports();
    reports[1].monitors[1].bounds_us = vec![6];
    assert!(!text_of(&reports, Format::Prometheus).contains("respool_monitor_"));
    reports[0].monitors[1].bounds_us = vec![6];
    assert!(
        text_of(&reports, Format::Prometheus).contains("{monitor=\"unused\",le=\"0.000006\"} 0")
    );
}

#[test]
fn odd_names_are_escaped() {
    let node = NodeReport { label: "/run/\"a\\b\n".into(), ..NodeReport::default() };
    let report = Report { nodes: vec![node], ..Report::default() };
    let text = text_of(&[report], Format::Prometheus);
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

/// With tenants each of them has samples of its own, and what is the process' is told once.
#[test]
fn tenants_are_a_label_and_the_process_is_told_once() {
    let of = |name: &str, requests: u64| {
        let mut list = reports();
        for report in &mut list {
            report.tenant = Some(name.into());
            report.stats.requests = requests;
            report.clients = requests;
        }
        list
    };
    let both = [of("default", 3), of("blue", 5)].concat();
    let text = String::from_utf8(page(&both, &process(), Format::Prometheus)).expect("text");
    let lines = |name: &str| -> Vec<&str> {
        text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).collect()
    };
    assert_eq!(
        lines("respool_clients"),
        [
            "respool_clients{worker=\"0\",tenant=\"default\"} 3",
            "respool_clients{worker=\"1\",tenant=\"default\"} 3",
            "respool_clients{worker=\"0\",tenant=\"blue\"} 5",
            "respool_clients{worker=\"1\",tenant=\"blue\"} 5",
        ]
    );
    assert_eq!(lines("respool_build_info").len(), 1);
    assert_eq!(lines("respool_worker_cpu_seconds_total").len(), 4);
    let mut samples = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, _) = line.rsplit_once(' ').expect("a value");
        assert!(samples.insert(sample), "{sample} twice");
        let name = sample.split(['{', ' ']).next().unwrap_or_default();
        let rows = METRICS.iter().filter(|metric| name.starts_with(metric.name));
        let metric = rows.max_by_key(|metric| metric.name.len()).expect("a row");
        assert_eq!(sample.contains("tenant="), !metric.is_of_process(), "{sample}");
    }
    let plain = String::from_utf8(page(&reports(), &process(), Format::Prometheus)).expect("text");
    assert!(!plain.contains("tenant="));
}
