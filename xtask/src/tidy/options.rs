//! Option words of requests are compared in one place of the engine.
//!
//! A server compares an option up to its first NUL. A comparison of whole strings misses options that the server sees, and
//! the keys behind them, so the engine compares by `command/word.rs` only.
//!
//! Not here: names of commands, which `command/lookup.rs` compares with all of their bytes.
//!
//! Invariant: each exception is a file that compares no argument of a client.

use super::Problems;
use super::source::Source;

/// Where requests are read.
const FOLDER: &str = "crates/engine/src/";

/// Files that may compare regardless of case: path and reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/engine/src/command/word.rs", "it is the comparison"),
    ("crates/engine/src/command/lookup.rs", "names of commands"),
];

/// Checks every source.
pub(crate) fn check(sources: &[Source], problems: &mut Problems) {
    for source in sources.iter().filter(|source| source.path.starts_with(FOLDER)) {
        if ALLOWED.iter().any(|(path, _)| *path == source.path) {
            continue;
        }
        for (index, line) in source.code_without_tests().lines().enumerate() {
            let matches_folded = line.contains("match ") && line.contains(".to_ascii_lowercase()");
            if line.contains("eq_ignore_ascii_case") || matches_folded {
                let text =
                    "option words are compared by `command::word`, names by `word::same_name`";
                problems.add(&source.path, index + 1, text);
            }
        }
    }
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
    fn comparisons_of_whole_arguments_are_found_in_the_engine() {
        let text = "//! x\nfn f(a: &[u8]) -> bool { a.eq_ignore_ascii_case(b\"get\") }\n";
        assert_eq!(count("crates/engine/src/a.rs", text), 1);
        assert_eq!(count("crates/engine/src/command/word.rs", text), 0);
        assert_eq!(count("crates/config/src/a.rs", text), 0);
        let text = "fn f() { match &*arg.to_ascii_lowercase() { b\"get\" => 1, _ => 2 } }\n";
        assert_eq!(count("crates/engine/src/a.rs", text), 1);
    }

    #[test]
    fn words_in_comments_and_tests_are_left_alone() {
        let text = "// eq_ignore_ascii_case\n#[cfg(test)]\nmod tests { fn f() { a.eq_ignore_ascii_case(b) } }\n";
        assert_eq!(count("crates/engine/src/a.rs", text), 0);
    }
}
