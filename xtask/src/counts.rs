//! Counts the instructions of the hot path and compares them with those that are committed.
//!
//! ```text
//!   cargo bench (callgrind) ─▶ NAME CASE COUNT ─┬─ --write ─▶ docs/internals/instruction-counts.txt
//!                                               └─ else    ─▶ more than 3 % above what stands there is an error
//! ```
//! Counts are the same on every machine with the same compiler, so a change of the code is what changes them. Who makes the path longer with good
//! reason writes the new counts, and the reason into the commit.
//!
//! Not here: what is counted (`benches/` of `resp` and `engine`), what the numbers mean (`docs/internals/instruction-counts.md`).
//!
//! Invariant: a case that is not in the file, or is only there, is an error: nothing is left uncompared without a word.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Where the counts stand.
const FILE: &str = "docs/internals/instruction-counts.txt";

/// So many thousandths above what is committed are an error.
const ABOVE_MAX: u64 = 30;

/// By the name of a benchmark and of its case.
type Counts = BTreeMap<String, u64>;

/// Counts, and compares or writes.
pub(crate) fn run(root: &Path, write: bool) -> Result<()> {
    let counted = count(root)?;
    let path = root.join(FILE);
    if write {
        let lines: String =
            counted.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
        fs::write(&path, lines).with_context(|| format!("cannot write {FILE}"))?;
        println!("counts: {} written to {FILE}", counted.len());
        return Ok(());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    let problems = compare(&parse_file(&text)?, &counted);
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    ensure!(
        problems.is_empty(),
        "counts: {} problems; if they are meant to be so: cargo xtask counts --write",
        problems.len()
    );
    println!(
        "counts: {} cases, none more than {}.{} % above {FILE}",
        counted.len(),
        ABOVE_MAX / 10,
        ABOVE_MAX % 10
    );
    Ok(())
}

/// Runs the benchmarks.
fn count(root: &Path) -> Result<Counts> {
    let mut cargo = Command::new("cargo");
    cargo.args([
        "bench",
        "-p",
        "resp",
        "-p",
        "engine",
        "--bench",
        "instructions",
        "--bench",
        "cluster",
    ]);
    let done = cargo.current_dir(root).output().context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&done.stdout);
    ensure!(
        done.status.success(),
        "cargo bench failed (it needs valgrind and gungraun-runner):\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let counted = parse_output(&text);
    ensure!(!counted.is_empty(), "cargo bench has counted nothing:\n{text}");
    Ok(counted)
}

/// What gungraun prints: `group::function case:(words)`, and under it lines such as `Instructions: 1386|1338 (+3.5 %)`.
fn parse_output(text: &str) -> Counts {
    let mut counts = Counts::new();
    let mut name = None;
    for line in text.lines() {
        if let Some((head, _)) = line.split_once(":(").filter(|_| !line.starts_with(' ')) {
            name = Some(head.to_owned());
        } else if let Some(count) = line.trim_start().strip_prefix("Instructions:")
            && let Some(name) = name.take()
        {
            let digits = count.trim_start().split('|').next().unwrap_or_default();
            counts.extend(digits.trim().parse().ok().map(|count| (name, count)));
        }
    }
    counts
}

fn parse_file(text: &str) -> Result<Counts> {
    let parse = |line: &str| -> Result<(String, u64)> {
        let Some((name, count)) = line.rsplit_once(' ') else { bail!("{FILE}: {line:?}") };
        Ok((name.to_owned(), count.parse().with_context(|| format!("{FILE}: {line:?}"))?))
    };
    text.lines().map(parse).collect()
}

/// What is wrong, a line each.
fn compare(committed: &Counts, counted: &Counts) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, count) in counted {
        match committed.get(name) {
            None => problems.push(format!("{name}: {count}, and no count in {FILE}")),
            Some(before) if count * 1000 > before * (1000 + ABOVE_MAX) => {
                problems.push(format!("{name}: {count} instructions, {before} in {FILE}"));
            }
            Some(_) => {}
        }
    }
    let gone = committed.keys().filter(|name| !counted.contains_key(*name));
    problems.extend(gone.map(|name| format!("{name}: in {FILE}, and not counted")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(&str, u64)]) -> Counts {
        all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn the_output_of_the_benchmarks_is_read() {
        let text = "     Running benches/instructions.rs\n\
            instructions::path::request_in get:(before_request(GET, 1))\n  \
              Instructions:                    1386|1422     (-2.53165%) [-1.02597x]\n  \
              L1 Hits:                         1886|1922     (-2.5%)\n\
            instructions::path::request_in set:(before_request(SET, 1))\n  \
              Instructions:                    1411|N/A      (*********)\n";
        let wanted = [
            ("instructions::path::request_in get", 1386),
            ("instructions::path::request_in set", 1411),
        ];
        assert_eq!(parse_output(text), counts(&wanted));
    }

    #[test]
    fn three_percent_are_allowed_and_nothing_goes_unnoticed() {
        let committed = counts(&[("a x", 1000), ("b", 1000), ("c", 1000), ("gone", 1)]);
        let counted = counts(&[("a x", 1030), ("b", 1031), ("c", 500), ("new", 1)]);
        let problems = compare(&committed, &counted);
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].starts_with("b: 1031"), "{problems:?}");
        assert!(problems[1].starts_with("new: ") && problems[2].starts_with("gone: "));
    }

    #[test]
    fn the_file_is_read_as_it_is_written() {
        let all = counts(&[("a::b c_1", 7), ("d e", 8)]);
        let text: String = all.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
        assert_eq!(parse_file(&text).unwrap(), all);
        assert!(parse_file("a b\n").is_err());
    }
}
