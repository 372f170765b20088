//! How a run is shown and kept: the terminal's table, Markdown, plain progress, the run file.

mod made;

use bench::record::{FORMAT, Idle, Run, Usage};
use bench::report::progress::Lines;
use bench::report::table::{self, Look};
use bench::report::{json, markdown};
use bench::run::Watch;
use bench::stats;
use made::{rounds, test, usage, visit};

const PLAIN: Look = Look { width: 300, colour: false };

/// The run that stands for a real one wherever a whole report is made.
fn sample() -> Run {
    json::from_text(include_str!("data/run.json"), "run.json").unwrap()
}

/// Three rounds: the proxy answers 1.5 times as many, and its server works half as much for each.
fn made_run() -> Run {
    let visits = rounds(&["direct", "respool"], 3, |visit| {
        if visit.target == "respool" {
            visit.requests = 150_000;
            visit.server = usage(0.3, 0.75);
        }
    });
    made::run(vec![test("SET P=1", visits)])
}

#[test]
fn a_wide_table_holds_every_figure() {
    let text = table::run(&made_run(), PLAIN);
    let line =
        |target: &str| text.lines().find(|line| line.trim_start().starts_with(target)).unwrap();
    for part in [
        "150",                          // k req/s
        "1.50",                         // times direct
        "200",                          // p50
        "800",                          // p99
        "1.33 (0.33 + 1.00)",           // proxy, µs/req
        "0.200 (0.050 user 0.150 sys)", // its cores
        "2.00 (1.50 + 0.50)",           // server
        "0.50",                         // times direct's
        "0.300 (0.225 user 0.075 sys)",
        "0 %, 0 %",
    ] {
        assert!(line("respool ").contains(part), "{part:?} is not in {:?}", line("respool "));
    }
    assert!(
        line("direct ").contains('—'),
        "a direct connection has no proxy: {:?}",
        line("direct ")
    );
    assert!(!line("direct ").contains("0.000"), "what was not measured is no zero");
    assert!(text.contains("SET P=1  SET {key} {value}; closed; pipeline 1, value bytes 3; one server; by respool-bench"));
}

#[test]
fn what_a_proxy_costs_is_shown_as_a_multiple_of_the_floor() {
    let visits = rounds(&["direct", "respool", "floor"], 3, |visit| {
        if visit.target == "floor" {
            // 1 µs, a tenth of it user, where the proxy has 2 µs and a quarter.
            (visit.proxy, visit.server) = (usage(0.1, 0.1), Usage::default());
        }
    });
    let mut run = made::run(vec![test("SET P=1", visits)]);
    let without = markdown::markdown(&run);
    assert!(!without.contains("× floor"), "{without}");
    let mut floor = run.targets[1].clone();
    (floor.name, floor.floor) = ("floor".to_owned(), true);
    run.targets.push(floor);

    let times = stats::all_times_floor(&run);
    let [times] = times.as_slice() else { panic!("{times:?}") };
    assert_eq!((times.target.as_str(), times.floor.as_str()), ("respool", "floor"));
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(times.cpu, 2.0) && near(times.user.unwrap(), 5.0), "{times:?}");
    assert!(near(times.system.unwrap(), 1.5 / 0.9), "{times:?}");

    for text in [table::run(&run, PLAIN), markdown::markdown(&run)] {
        assert!(text.contains("× floor") && text.contains("2.00 (5.00 + 1.67)"), "{text}");
    }
    let narrow = table::test(&run, &run.tests[0], Look { width: 80, colour: false });
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("2.00 (5.00 + 1.67)"), "{narrow}");
    let text = markdown::markdown(&run);
    let cost: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(4).collect();
    let cells = |row: &str| row.matches('|').count();
    assert!(cost.iter().all(|row| cells(row) == cells(cost[0])), "{cost:#?}");
    assert!(cost[1].contains("| direct | — | — | — |"), "{cost:#?}");
    assert!(cost[3].contains("| floor | 1.00 (0.10 + 0.90) | 1 |"), "{cost:#?}");
    assert!(text.contains("- floor only receives and answers"), "{text}");
    assert!(!stats::all_warnings(&run).iter().any(|text| text.contains("servers' CPU")));
}

#[test]
fn memory_is_shown_where_it_is_at_stake() {
    let wide = Look { width: u16::MAX, colour: false };
    let table = |run: &Run| table::test(run, &run.tests[0], wide);
    let small = made_run();
    assert!(!table(&small).contains("MiB"), "{}", table(&small));
    let mut large = small.clone();
    large.tests[0].axes = vec![("value_bytes".to_owned(), 1e6)];
    assert!(
        table(&large).contains("proxy MiB") && table(&large).contains(" 8.00 "),
        "{}",
        table(&large)
    );
    let mut beside = small;
    for visit in beside.tests[0].visits.iter_mut().filter(|visit| visit.target == "respool") {
        let (rss_before_bytes, rss_bytes) = (1 << 20, 3 << 20);
        visit.idle = Some(Idle { clients: 1000, rss_before_bytes, rss_bytes });
    }
    let text = table(&beside);
    assert!(text.contains("KiB/idle client") && text.contains(" 2.05 "), "{text}");
}

#[test]
fn a_narrow_table_is_cut_and_not_its_cells() {
    let run = made_run();
    let text = table::test(&run, &run.tests[0], Look { width: 118, colour: false });
    assert!(text.lines().all(|line| line.chars().count() <= 118), "{text}");
    assert_eq!(text.matches("respool").count(), 2, "one row in each part:\n{text}");
    assert!(text.contains("0.300 (0.225 user 0.075 sys)"), "{text}");
    let usual = table::test(&run, &run.tests[0], Look { width: 80, colour: false });
    assert!(usual.lines().all(|line| line.chars().count() <= 80), "{usual}");
    assert_eq!(usual.matches("respool").count(), 3, "{usual}");
    assert!(usual.contains("0.300 (0.225 user 0.075 sys)"), "{usual}");
    let tiny = table::test(&run, &run.tests[0], Look { width: 60, colour: false });
    assert!(tiny.lines().all(|line| line.chars().count() <= 60), "{tiny}");
}

#[test]
fn colour_says_what_the_text_says_and_stays_out_of_files() {
    let run = made_run();
    let plain = table::run(&run, PLAIN);
    assert!(!plain.contains('\u{1b}'));
    let coloured = table::run(&run, Look { width: 300, colour: true });
    assert!(
        coloured.contains("\u{1b}[38;5;10m") || coloured.contains("\u{1b}[32m"),
        "{coloured:?}"
    );
    // Colours take no room: without them the text is the same.
    let mut bare = String::new();
    let mut inside = false;
    for c in coloured.chars() {
        let counts = !inside && c != '\u{1b}';
        inside = c == '\u{1b}' || (inside && c != 'm');
        bare.extend(counts.then_some(c));
    }
    let trimmed: Vec<&str> = bare.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
}

#[test]
fn a_difference_within_the_noise_is_marked() {
    let visits = rounds(&["direct", "respool"], 3, |visit| {
        if visit.target == "respool" {
            visit.requests = [90_000, 110_000, 105_000][visit.round as usize - 1];
        }
    });
    let text = table::run(&made::run(vec![test("t", visits)]), PLAIN);
    assert!(text.contains("1.05~"), "{text}");
    assert!(text.contains("~ marks a difference within the noise"), "{text}");
}

#[test]
fn every_form_shows_every_test_target_warning_and_omission() {
    let run = sample();
    for text in [table::run(&run, PLAIN), markdown::markdown(&run)] {
        for test in &run.tests {
            assert!(text.contains(&test.name), "{}", test.name);
        }
        for target in &run.targets {
            assert!(text.contains(&target.name), "{}", target.name);
        }
        for line in stats::all_warnings(&run).iter().chain(&run.left_out) {
            assert!(text.contains(line.as_str()), "{line}");
        }
    }
}

#[test]
fn markdown_tables_are_whole() {
    let mut run = made_run();
    run.tests[0].name = "SET | evil\nname".to_owned();
    let text = markdown::tables(&run);
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 * (2 + 2), "two tables: header, rule and two targets each:\n{text}");
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    for table in rows.chunks(4) {
        assert!(table.iter().all(|row| cells(row) == cells(table[0])), "{table:#?}");
    }
    assert!(text.contains("| SET \\| evil name | respool |"), "{text}");
    assert!(text.contains("| **1.50** |") && text.contains("| **0.50** |"), "{text}");
    assert!(
        text.contains("Machine: Example CPU, 8 cores, 16 GiB, Linux 6.12, nothing pinned."),
        "{text}"
    );
    assert!(text.contains("by `respool-bench run made` in 1 min 15 s"), "{text}");
}

#[test]
fn markdown_between_markers() {
    let document = "a\n<!-- bench begin -->\nold\n<!-- bench end -->\nz\n";
    let once = markdown::replace_between(document, "bench", "new\n\n").unwrap();
    assert_eq!(once, "a\n<!-- bench begin -->\nnew\n<!-- bench end -->\nz\n");
    assert_eq!(markdown::replace_between(&once, "bench", "new").unwrap(), once, "twice is once");
    for (broken, said) in [
        ("<!-- bench begin -->", "no line <!-- bench end -->"),
        ("<!-- bench end --><!-- bench begin -->", "wrong order"),
        ("<!-- bench begin --><!-- bench begin --><!-- bench end -->", "more than once"),
    ] {
        let error = markdown::replace_between(broken, "bench", "x").unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn plain_progress_is_one_line_per_visit() {
    let mut written = Vec::new();
    let mut lines = Lines::new(&mut written);
    lines.begins(2);
    lines.notice("predixy was left out: it is not on PATH.");
    for target in ["direct", "respool"] {
        lines.visit_begins("SET P=1", target, 1, None);
        let mut visit = visit(target, 1);
        if target == "direct" {
            visit.server = Usage::default();
        }
        lines.visit_ends(&visit);
    }
    assert_eq!(
        String::from_utf8(written).unwrap(),
        "note: predixy was left out: it is not on PATH.\n\
         [1/2] SET P=1, direct, round 1: 100 k req/s, p99 800 µs\n\
         [2/2] SET P=1, respool, round 1: 100 k req/s, p99 800 µs, proxy 2.00 µs/req, server 4.00 µs/req\n"
    );
}

#[test]
fn a_run_file_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, "an older file").unwrap();
    let run = sample();
    json::write(&run, &path).unwrap();
    assert_eq!(json::read(&path).unwrap(), run);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_file_that_is_no_run_is_refused_by_name() {
    let run = made_run();
    let mut later = run.clone();
    later.format = FORMAT + 1;
    let mut lost = run.clone();
    lost.timeline = vec![bench::record::Tick {
        at_s: 1.5,
        test: 1,
        target: "direct".to_owned(),
        requests_per_s: None,
        proxy: Default::default(),
        server: Default::default(),
        load: Default::default(),
    }];
    let whole = json::to_text(&run);
    for (text, said) in [
        (&whole[..whole.len() / 2], "this is no JSON"),
        ("{\"name\": \"other\"}", "no number called `format`"),
        ("[1, 2]", "no number called `format`"),
        ("{\"format\": 1}", "missing field"),
        (&json::to_text(&later), "its format is 2, this respool-bench reads up to 1"),
        (&json::to_text(&lost), "a tick at 1.5 s belongs to test number 1"),
    ] {
        let error = json::from_text(text, "some/file.json").unwrap_err().to_string();
        assert!(error.starts_with("some/file.json: ") && error.contains(said), "{error}");
    }
    let error = json::read(std::path::Path::new("no/such/run.json")).unwrap_err().to_string();
    assert!(error.starts_with("no/such/run.json: ") && error.contains("No such file"), "{error}");
}

/// Not judged: `cargo test -p bench --test forms -- --ignored --nocapture` shows the forms to a person.
#[test]
#[ignore = "shows, does not judge"]
fn show() {
    let run = sample();
    println!("{}", table::run(&run, Look { width: 120, colour: true }));
    println!("{}", markdown::markdown(&run));
    let mut other = run.clone();
    for visit in other.tests.iter_mut().flat_map(|test| &mut test.visits) {
        if visit.target == "respool" {
            visit.requests = visit.requests * 6 / 5;
        }
    }
    let comparison = bench::compare::compare(&run, &other);
    println!("{}", table::comparison(&comparison, Look { width: 120, colour: true }));
}
