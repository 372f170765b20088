//! Each Rust file opens with what it is; each core crate with what it forbids itself.
//!
//! `unsafe` is allowed in `netio` only. Clippy demands the `// SAFETY:` beside each block there;
//! here only the place is checked, as clippy's lint can be allowed anywhere by one attribute.
//!
//! Invariant: the crates in `CORE` cannot name `std` and cannot contain unsafe code, because their
//! first lines make both compile errors.

use super::Problems;
use super::source::Source;

/// Crates that must stay pure.
const CORE: &[&str] = &["resp", "engine"];
/// What the root file of a core crate must say.
const CORE_ATTRIBUTES: &[&str] = &["#![no_std]", "#![forbid(unsafe_code)]"];
/// The only folder that may hold `unsafe`.
const UNSAFE_FOLDER: &str = "crates/netio/";

/// Files outside that folder that may hold `unsafe`: path and reason. Tests only.
pub(crate) const UNSAFE_ELSEWHERE: &[(&str, &str)] = &[];

/// Checks every source.
pub(crate) fn check(sources: &[Source], problems: &mut Problems) {
    for source in sources {
        if !opens_with_doc(&source.text) {
            problems.add(&source.path, 1, "a file opens with a `//!` that says what it is");
        }
        unsafe_in_its_place(source, problems);
    }
    for name in CORE {
        let path = format!("crates/{name}/src/lib.rs");
        let Some(source) = sources.iter().find(|source| source.path == path) else { continue };
        for attribute in CORE_ATTRIBUTES {
            if !source.code.contains(attribute) {
                problems.add(&path, 1, format!("a core crate says {attribute}"));
            }
        }
    }
}

fn unsafe_in_its_place(source: &Source, problems: &mut Problems) {
    let exempt = UNSAFE_ELSEWHERE.iter().any(|(path, _)| *path == source.path);
    if source.path.starts_with(UNSAFE_FOLDER) || exempt {
        return;
    }
    for (line, word) in Source::words(&source.code) {
        if word == "unsafe" {
            problems.add(&source.path, line, "`unsafe` lives in crates/netio only");
        }
    }
}

/// Whether the first thing in the file, attributes and plain comments aside, is a `//!` line.
fn opens_with_doc(text: &str) -> bool {
    let skipped = |line: &&str| {
        let line = line.trim();
        let comment = line.starts_with("//") && !line.starts_with("//!");
        line.is_empty() || line.starts_with("#!") || comment
    };
    text.lines().find(|line| !skipped(line)).is_some_and(|line| line.trim().starts_with("//!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        let mut problems = Problems::default();
        check(&[Source::new(path, text)], &mut problems);
        problems.count()
    }

    #[test]
    fn a_head_may_follow_attributes_and_comments() {
        assert!(opens_with_doc("// licence\n#![no_std]\n\n//! What it is.\n"));
        assert!(!opens_with_doc("use std::io;\n//! Too late.\n"));
        assert!(!opens_with_doc(""));
    }

    #[test]
    fn unsafe_outside_netio_is_found_once_per_place() {
        let text = "//! x\nfn f() { unsafe { g() } }\n// unsafe in a comment\n";
        assert_eq!(count("crates/server/src/a.rs", text), 1);
        assert_eq!(count("crates/netio/src/a.rs", text), 0);
    }

    #[test]
    fn the_attribute_that_forbids_unsafe_is_not_unsafe() {
        let text = "#![no_std]\n#![forbid(unsafe_code)]\n//! x\n";
        assert_eq!(count("crates/resp/src/lib.rs", text), 0);
    }

    #[test]
    fn a_core_crate_without_its_attributes_is_found() {
        assert_eq!(count("crates/engine/src/lib.rs", "//! x\n// #![no_std]\n"), 2);
    }
}
