//! Which crate may know which: the arrows of the architecture, as data.
//!
//! ```text
//!   resp ◄── engine ◄── config          netio
//!              ▲   ▲       ▲              ▲
//!              │ extension │              │
//!              └────── server ────────────┘      (only server/src/worker names engine and netio)
//!                 bench ──► resp, config, netio
//! ```
//!
//! Cargo refuses cycles, but not a wrong arrow; and within `server` a module boundary is no crate
//! boundary at all. So manifests and the words in the sources are both checked.
//!
//! Invariant: `engine` and `netio` never see each other. That is what lets one state machine run
//! on epoll, on io_uring and on the simulated network without a difference.

use super::Problems;
use super::manifest::{self, Dependency};
use super::source::{Source, is_word};

/// Each crate and the crates of this workspace it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("resp", &[]),
    ("engine", &["resp"]),
    ("config", &["engine"]),
    ("netio", &[]),
    // The sandbox of operators' programs: what the engine asks of one, and nothing else of it.
    ("extension", &["engine"]),
    ("server", &["engine", "netio", "config", "extension"]),
    // The URLs of `config` are the same everywhere, and so are the words for what is wrong in a file.
    // Its floor runs on the drivers of `netio`, as what it is the floor of does.
    ("bench", &["resp", "config", "netio"]),
    ("testkit", &["resp", "netio"]),
    ("xtask", &[]),
];

/// What tests may use anywhere besides.
const DEV_EXTRA: &[&str] = &["resp", "testkit"];

/// Runtimes, serialisers and loggers: they stay out of the data path's crates.
const HEAVY: &[&str] = &[
    "tokio",
    "hyper",
    "hyper-util",
    "axum",
    "serde",
    "serde_json",
    "toml",
    "tracing",
    "tracing-subscriber",
];
/// Crates that may name them.
const HEAVY_ALLOWED: &[&str] = &["server", "config", "bench", "xtask"];

/// The part of `server` that is the data path.
const WORKER: &str = "crates/server/src/worker/";
/// Its one file that other threads may write to.
const MAILBOX: &str = "crates/server/src/worker/mailbox.rs";
/// What the data path must not name: runtimes, and whatever makes a worker wait for a thread.
const WORKER_BANNED: &[&str] =
    &["tokio", "Mutex", "RwLock", "Condvar", "Barrier", "mpsc", "crossbeam", "parking_lot"];

/// Checks the manifests (path and text).
pub(crate) fn check_manifests(manifests: &[(String, String)], problems: &mut Problems) {
    for (path, text) in manifests {
        let Some(name) = crate_name(path) else { continue };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            problems.add(
                path,
                0,
                format!("crate `{name}` has no arrows: add it in tidy/arrows.rs"),
            );
            continue;
        };
        for dependency in manifest::dependencies(text) {
            if let Some(said) = wrong_arrow(name, allowed, &dependency) {
                problems.add(path, dependency.line, said);
            }
        }
    }
}

/// The crate whose manifest lies at `path`; `None` for the workspace's own and for `fuzz`.
fn crate_name(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    match folder.strip_prefix("crates/") {
        Some(name) => Some(name),
        None => (folder == "xtask").then_some(folder),
    }
}

fn wrong_arrow(name: &str, allowed: &[&str], dependency: &Dependency) -> Option<String> {
    let to = dependency.name.as_str();
    let internal = ARROWS.iter().any(|(known, _)| *known == to);
    let dev_extra = dependency.dev && DEV_EXTRA.contains(&to);
    if internal && to != name && !allowed.contains(&to) && !dev_extra {
        return Some(format!("no arrow {name} → {to}"));
    }
    if HEAVY.contains(&to) && !dependency.dev && !HEAVY_ALLOWED.contains(&name) {
        return Some(format!("`{to}` stays out of `{name}`"));
    }
    None
}

/// Checks what the sources name.
pub(crate) fn check_sources(sources: &[Source], problems: &mut Problems) {
    for source in sources {
        let code = source.code_without_tests();
        for (folder, other) in [("crates/engine/", "netio"), ("crates/netio/", "engine")] {
            if source.path.starts_with(folder)
                && let Some(line) = names_crate(&source.code, other)
            {
                problems.add(&source.path, line, format!("must not know `{other}`"));
            }
        }
        if source.path.starts_with(WORKER) {
            check_worker(source, code, problems);
        } else if source.path.starts_with("crates/server/src/")
            && names_crate(code, "engine").is_some()
            && let Some(line) = names_crate(code, "netio")
        {
            let said = "names engine and netio: only server/src/worker may know both";
            problems.add(&source.path, line, said);
        }
    }
    one_file_knows_tls(sources, problems);
}

fn check_worker(source: &Source, code: &str, problems: &mut Problems) {
    if source.path == MAILBOX {
        return;
    }
    for (line, word) in Source::words(code) {
        if WORKER_BANNED.contains(&word) {
            problems.add(&source.path, line, format!("`{word}` has no place in a worker"));
        }
    }
}

/// rustls changes its interface often, so one file of the data path deals with it.
fn one_file_knows_tls(sources: &[Source], problems: &mut Problems) {
    let knows = |source: &&Source| {
        source.path.starts_with(WORKER) && names_crate(&source.code, "rustls").is_some()
    };
    for source in sources.iter().filter(knows).skip(1) {
        problems.add(&source.path, 0, "a second file of the worker names rustls");
    }
}

/// The first line of `code` that uses a path which begins with crate `name`.
fn names_crate(code: &str, name: &str) -> Option<usize> {
    let path = format!("{name}::");
    let used = format!("use {name};");
    let names = |line: &str| {
        let begins = |at: usize| !line[..at].ends_with(|c: char| is_word(c) || c == ':');
        line.contains(&used) || line.match_indices(&path).any(|(at, _)| begins(at))
    };
    code.lines().position(names).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest_problems(name: &str, text: &str) -> String {
        let mut problems = Problems::default();
        check_manifests(&[(format!("crates/{name}/Cargo.toml"), text.to_owned())], &mut problems);
        problems.to_string()
    }

    fn source_problems(files: &[(&str, &str)]) -> String {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let mut problems = Problems::default();
        check_sources(&sources, &mut problems);
        problems.to_string()
    }

    #[test]
    fn the_drawn_arrows_hold_and_others_do_not() {
        assert_eq!(manifest_problems("engine", "[dependencies]\nresp.workspace = true\n"), "");
        let wrong = manifest_problems("engine", "[dependencies]\nnetio.workspace = true\n");
        assert!(wrong.contains("no arrow engine → netio"), "{wrong}");
        let wrong = manifest_problems("engine", "[dev-dependencies]\nnetio.workspace = true\n");
        assert!(wrong.contains("no arrow engine → netio"), "{wrong}");
        assert_eq!(
            manifest_problems("netio", "[dev-dependencies]\ntestkit.workspace = true\n"),
            ""
        );
        assert!(manifest_problems("stray", "").contains("has no arrows"));
    }

    #[test]
    fn heavy_crates_stay_out_of_the_data_path() {
        let text = "[dependencies]\nserde.workspace = true\n";
        assert!(manifest_problems("engine", text).contains("`serde` stays out"));
        assert_eq!(manifest_problems("config", text), "");
    }

    #[test]
    fn engine_and_netio_do_not_name_each_other() {
        assert!(
            source_problems(&[("crates/engine/src/a.rs", "use netio::Driver;")]).contains("know")
        );
        assert!(source_problems(&[("crates/netio/src/a.rs", "engine::Id")]).contains("know"));
        assert_eq!(
            source_problems(&[("crates/engine/src/a.rs", "// netio::x\nuse my::netio::X;")]),
            ""
        );
    }

    #[test]
    fn only_the_worker_knows_both() {
        let both = "use engine::Engine;\nuse netio::Driver;\n";
        assert!(source_problems(&[("crates/server/src/run.rs", both)]).contains("run.rs:2"));
        assert_eq!(source_problems(&[("crates/server/src/worker/turn.rs", both)]), "");
        assert_eq!(source_problems(&[("crates/server/src/run.rs", "use netio::Driver;")]), "");
    }

    #[test]
    fn a_worker_waits_for_nobody() {
        let text = "use std::sync::Mutex;\n";
        assert!(source_problems(&[("crates/server/src/worker/turn.rs", text)]).contains("`Mutex`"));
        assert_eq!(source_problems(&[("crates/server/src/worker/mailbox.rs", text)]), "");
        assert_eq!(source_problems(&[("crates/server/src/control/mod.rs", text)]), "");
        let in_tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n use std::sync::Mutex;\n}\n";
        assert_eq!(source_problems(&[("crates/server/src/worker/turn.rs", in_tests)]), "");
    }

    #[test]
    fn a_second_file_with_tls_is_found() {
        let one = ("crates/server/src/worker/tls.rs", "use rustls::X;");
        let two = ("crates/server/src/worker/turn.rs", "rustls::Y");
        assert_eq!(source_problems(&[one]), "");
        assert!(source_problems(&[one, two]).contains("second file"));
    }
}
