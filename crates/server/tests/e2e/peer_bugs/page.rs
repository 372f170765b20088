//! The table `docs/internals/peer-bugs.md` names tests; each must be where it says.
//!
//! `tests/readme.rs` looks for long names in all pages, wherever they are; here the file counts as well, and every id of the field's
//! list must have a row, with a test or the issue that it waits for.
//!
//! Invariant: a row without a test says that it has none, and why.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where a path of the table is; it may leave out the crates' folder and the usual ones.
fn file(name: &str) -> PathBuf {
    let long = match name.split_once('/') {
        Some(("e2e", rest)) => format!("crates/server/tests/e2e/{rest}"),
        Some(("sim", rest)) => format!("crates/server/tests/sim/{rest}"),
        Some(("stories", rest)) => format!("crates/engine/tests/stories/{rest}"),
        _ => format!("crates/{name}"),
    };
    root().join(long)
}

/// The rows of the tables: their cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| id "));
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The tests that a cell names: `file` `test`, the file once for all that follow it.
fn tests(cell: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut file = String::new();
    for span in cell.split('`').skip(1).step_by(2) {
        if span.ends_with(".rs") {
            span.clone_into(&mut file);
        } else if !file.is_empty() {
            found.push((file.clone(), span.to_owned()));
        }
    }
    found
}

#[test]
fn every_test_that_the_table_names_is_there() {
    let page = fs::read_to_string(root().join("docs/internals/peer-bugs.md")).expect("the page");
    let (mut named, mut ids) = (0, BTreeSet::new());
    for row in rows(&page) {
        let [id, what, cell] = row[..] else { panic!("three cells: {row:?}") };
        ids.extend(id.split([',', ' ']).filter(|id| !id.is_empty()).map(str::to_owned));
        assert!(what.len() > 20, "{id}: what went wrong?");
        let tests = tests(cell);
        assert!(!tests.is_empty() || cell.starts_with("later: "), "{id}: no test and no reason");
        for (name, test) in tests {
            let source =
                fs::read_to_string(file(&name)).unwrap_or_else(|_| panic!("{id}: no {name}"));
            assert!(source.contains(&format!("fn {test}(")), "{id}: no {test} in {name}");
            named += 1;
        }
    }
    let themes = [("A", 10), ("B", 8), ("C", 12), ("D", 4), ("J", 10)];
    let themes = themes
        .into_iter()
        .flat_map(|(letter, last)| (1..=last).map(move |n| format!("{letter}{n}")));
    for id in themes.chain(["G1".to_owned(), "G3".to_owned()]) {
        assert!(ids.contains(&id), "{id} has no row");
    }
    assert!(named > 60, "only {named} tests are named");
}

#[test]
fn the_reader_of_the_table_sees_what_is_missing() {
    let page = "| id | bug | test |\n|---|---|---|\n| A1, R01 | x | `e2e/a.rs` `b`, `c`; `stories/d.rs` `e` |\n";
    let rows = rows(page);
    assert_eq!(rows, [["A1, R01", "x", "`e2e/a.rs` `b`, `c`; `stories/d.rs` `e`"]]);
    let named: Vec<(String, String)> = tests(rows[0][2]);
    let names: Vec<&str> = named.iter().map(|(_, test)| test.as_str()).collect();
    assert_eq!(names, ["b", "c", "e"]);
    assert_eq!(named[1].0, "e2e/a.rs");
    assert!(file("e2e/peer_bugs/page.rs").exists() && !file("e2e/nothing.rs").exists());
}
