//! The HTML report: what it says, that it is well-formed whatever a run holds, and how it looks in a real browser.
//!
//! The browser is Chromium, without a window, on files of a temporary folder. It is looked at in two ways: pixels of
//! screenshots (both themes, wide and narrow), and the boxes of all texts, measured by a script that only the test's copy
//! of the page has. Without Chromium these tests fail and say how to get it: a picture that nobody looked at is not tested.

#[path = "html/browser.rs"]
mod browser;
#[path = "html/markup.rs"]
mod markup;
#[path = "html/samples.rs"]
mod samples;

use bench::report::html::{pictures, render};

/// A name that breaks out of every context in which it is not escaped.
const NASTY: &str = "<b>&\"'</script>";

#[test]
fn every_target_and_test_is_named() {
    let run = samples::predixy();
    let page = render(&run);
    for target in &run.targets {
        assert!(page.contains(&target.name) && page.contains(&target.what), "{}", target.name);
    }
    for test in &run.tests {
        assert!(page.contains(&test.name) && page.contains(&test.requests), "{}", test.name);
    }
    for words in
        [&run.about, &run.command.clone(), &run.machine.kernel, &run.warnings[0], &run.left_out[0]]
    {
        assert!(page.contains(&markup::escaped(words)), "{words}");
    }
    // Warnings come before anything that could be believed.
    assert!(page.find(&run.warnings[0]) < page.find("<svg"));
}

#[test]
fn names_are_escaped_everywhere() {
    let run = samples::renamed(NASTY);
    let mut documents = vec![render(&run)];
    documents.extend(pictures(&run).into_iter().map(|(_, svg)| svg));
    for document in documents {
        assert!(document.contains(&markup::escaped(NASTY)), "the name is there");
        assert!(!document.contains("<b>") && !document.contains("</script>"), "and nowhere raw");
        markup::check(&document).unwrap();
    }
}

#[test]
fn the_page_fetches_nothing_and_runs_nothing() {
    let mut run = samples::predixy();
    run.source = Some("https://example.invalid/article".to_owned());
    run.about = "see http://example.invalid/".to_owned();
    let page = render(&run);
    assert!(page.contains("default-src 'none'"));
    assert!(!page.contains("<script") && !page.contains("@import") && !page.contains("url("));
    for (name, value) in markup::attributes(&page) {
        assert!(!name.starts_with("on"), "{name}");
        let address = ["src", "href", "xlink:href", "srcset", "action", "poster", "data"]
            .contains(&name.as_str());
        assert!(!address || value == "data:,", "{name}={value}");
    }
}

#[test]
fn the_numbers_at_the_top_are_ratios_within_the_run() {
    let run = samples::predixy();
    let page = render(&run);
    let ratio = |test: usize| {
        let figure = bench::plan::Figure::ServerCpu;
        bench::stats::ratio(&run.tests[test], "respool", "direct", figure).unwrap().median
    };
    let all: Vec<f64> = (0..run.tests.len()).map(ratio).collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(0.0, f64::max);
    assert!(page.contains(&format!("{low:.2}–{high:.2}")), "{low} {high}");
}

#[test]
fn odd_runs_make_well_formed_pages_of_valid_numbers() {
    for (what, run) in samples::odd() {
        let page = render(&run);
        markup::check(&page).unwrap_or_else(|problem| panic!("{what}: {problem}"));
        markup::check_numbers(&page).unwrap_or_else(|problem| panic!("{what}: {problem}"));
        for (file, svg) in pictures(&run) {
            markup::check(&svg).unwrap_or_else(|problem| panic!("{what}: {file}: {problem}"));
            markup::check_numbers(&svg)
                .unwrap_or_else(|problem| panic!("{what}: {file}: {problem}"));
        }
    }
}

#[test]
fn a_run_without_ticks_has_no_timeline_and_one_without_a_proxy_no_rival() {
    let odd = samples::odd();
    let of = |name: &str| render(&odd.iter().find(|(what, _)| *what == name).unwrap().1);
    assert!(render(&samples::predixy()).contains("The whole run"));
    assert!(!of("no ticks").contains("The whole run"));
    assert!(!of("only the server").contains("Proxy CPU per request"));
    assert!(of("no tail").contains("Latency"), "p50, p95 and p99 are a curve still");
}

#[test]
fn a_floor_has_columns_of_its_own_and_is_no_rival() {
    let mut run = samples::predixy();
    let columns = |page: &str| page.matches("scope=\"col\"").count();
    let before = render(&run);
    let rival = run.targets.iter_mut().find(|target| target.name == "nutcracker").unwrap();
    rival.floor = true;
    let page = render(&run);
    markup::check(&page).unwrap();
    markup::check_numbers(&page).unwrap();
    assert!(page.contains("proxy CPU, × nutcracker") && page.contains("What × nutcracker says"));
    assert_eq!(columns(&page), columns(&before) + 3);
    assert!(before.contains("Proxy CPU per request"));
    assert!(!page.contains("<small>× nutcracker</small>"), "a floor is no rival");
}

#[test]
fn pictures_are_files_of_their_own() {
    let files = pictures(&samples::predixy());
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "predixy-8-timeline.svg",
            "predixy-8-cpu.svg",
            "predixy-8-throughput.svg",
            "predixy-8-latency.svg",
            "predixy-8-by-pipeline.svg",
            "predixy-8-by-workers.svg",
        ]
    );
    for (name, svg) in &files {
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("prefers-color-scheme"), "{name}");
        assert!(!svg.contains("href") && !svg.contains("<script"), "{name}");
    }
}

#[test]
fn the_page_looks_right_in_both_themes_and_widths() {
    let page = render(&samples::predixy());
    for (width, dark) in [(1280, false), (1280, true), (420, false), (420, true)] {
        let picture = browser::screenshot(&page, "html", (width, 3000), dark);
        let what = format!("{width} px, dark: {dark}");
        assert_eq!(picture.size, (width, 3000), "{what}");
        let theme = browser::theme(&page, dark);
        // The margin is the page's own colour, from top to bottom.
        for y in [2, 1500, 2998] {
            assert_eq!(picture.at(2, y), theme["page"], "{what}");
        }
        let bright = u32::from(theme["page"][0]);
        assert!(if dark { bright < 40 } else { bright > 230 }, "{what}: {bright}");
        for target in ["t0", "t1", "t2", "t3"] {
            let area = picture.area(theme[target]);
            assert!(area > 800, "{what}: {target} covers {area} pixels only");
        }
        assert_eq!(picture.area(theme["t7"]), 0, "a colour of no target");
        let blank = picture.area(theme["page"]) + picture.area(theme["paper"]);
        let share = blank as f64 / f64::from(width * 3000);
        assert!((0.3..0.93).contains(&share), "{what}: {share} is blank");
    }
}

#[test]
fn a_picture_file_follows_the_theme() {
    let files = pictures(&samples::predixy());
    let (_, svg) = files.iter().find(|(name, _)| name.ends_with("-cpu.svg")).unwrap();
    for dark in [false, true] {
        let picture = browser::screenshot(svg, "svg", (900, 420), dark);
        let theme = browser::theme(svg, dark);
        assert!(picture.area(theme["paper"]) > 100_000, "dark: {dark}");
        assert!(picture.area(theme["t1"]) > 800, "dark: {dark}");
    }
}

#[test]
fn no_text_is_cut_off_or_lies_on_another() {
    let sample = samples::predixy();
    let long = samples::renamed("a target whose name is far too long for any place in any picture");
    let many = samples::many_targets();
    for (what, run) in [("sample", &sample), ("long names", &long), ("many targets", &many)] {
        let page = render(run);
        for width in [360, 1000, 1600] {
            let problems = browser::problems_of_layout(&page, width);
            assert!(problems.is_empty(), "{what} at {width} px:\n{}", problems.join("\n"));
        }
    }
}
