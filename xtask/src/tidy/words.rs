//! One word for one thing, and no trace of a single machine.
//!
//! The house style fixes the words of this domain; a second word for the same thing makes readers
//! look for a difference that does not exist. Only identifiers are judged: prose may well say that
//! other proxies call an upstream something else.
//!
//! Invariant: a file in the repository reads the same wherever it is checked out, so it names no
//! folder of the person who wrote it.

use super::Problems;
use super::source::Source;

/// Banned within identifiers, and the word to use.
const BANNED: &[(&str, &str)] =
    &[("backend", "node or upstream"), ("session", "client"), ("downstream", "client")];

/// Identifiers that hold a banned word for a reason of their own: they are somebody else's names.
const ALLOWED: &[(&str, &str)] = &[
    ("setsid", "the name of a system call"),
    ("SessionID", "rustls"),
    ("ClientSessionMemoryCache", "rustls"),
    ("session_storage", "rustls"),
    ("NoServerSessionStorage", "rustls"),
    ("TestBackend", "ratatui"),
];

/// Modules of others that are named by a banned word.
const ALLOWED_PATHS: &[&str] = &["ratatui::backend::"];

/// Folders that exist on one machine only. Judged in every text file.
const PRIVATE_FOLDERS: &[&str] = &["root", "home", "Users", "work", "workspace"];

/// The file that must name what it looks for.
const THIS_FILE: &str = "xtask/src/tidy/words.rs";

/// Checks the identifiers of a Rust file.
pub(crate) fn check_identifiers(source: &Source, problems: &mut Problems) {
    let code = ALLOWED_PATHS.iter().fold(source.code.clone(), |code, path| code.replace(path, ""));
    for (line, word) in Source::words(&code) {
        if ALLOWED.iter().any(|(allowed, _)| *allowed == word) {
            continue;
        }
        let lower = word.to_lowercase();
        for (banned, instead) in BANNED {
            if lower.contains(banned) {
                problems.add(&source.path, line, format!("`{word}`: the word here is {instead}"));
            }
        }
    }
}

/// Checks any text file for folders of one machine.
pub(crate) fn check_paths(path: &str, text: &str, problems: &mut Problems) {
    if path == THIS_FILE {
        return;
    }
    for (index, line) in text.lines().enumerate() {
        if let Some(folder) = private_folder(line) {
            problems.add(path, index + 1, format!("names a folder of one machine: /{folder}/"));
        }
    }
}

/// The private folder that `line` names as an absolute path, if any.
fn private_folder(line: &str) -> Option<&'static str> {
    PRIVATE_FOLDERS.iter().copied().find(|folder| {
        let needle = format!("/{folder}/");
        line.match_indices(&needle).any(|(at, _)| begins_a_path(&line[..at]))
    })
}

/// Whether a `/` after `before` is the root: in `src/work/` or `https://x/home/` it is not.
fn begins_a_path(before: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || "._-~/*}$".contains(c);
    !before.ends_with(part_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifiers(text: &str) -> usize {
        let mut problems = Problems::default();
        check_identifiers(&Source::new("a.rs", text), &mut problems);
        problems.count()
    }

    #[test]
    fn banned_words_are_found_within_identifiers_only() {
        assert_eq!(identifiers("struct BackendPool { session_id: u32 }"), 2);
        assert_eq!(identifiers("// a backend\nlet s = \"downstream\";"), 0);
        assert_eq!(identifiers("let upstream = client;"), 0);
    }

    #[test]
    fn names_of_others_are_allowed_exactly() {
        assert_eq!(identifiers("setsid(); ClientSessionMemoryCache::new();"), 0);
        assert_eq!(identifiers("client_session_memory_cache"), 1);
    }

    #[test]
    fn only_absolute_paths_are_private() {
        assert_eq!(private_folder("see /home/me/x"), Some("home"));
        assert_eq!(private_folder(concat!("cd (/wo", "rk/main)")), Some("work"));
        assert_eq!(private_folder("https://example.org/home/x, docs/work/x"), None);
        assert_eq!(private_folder("$X/work/y and a / b"), None);
    }
}
