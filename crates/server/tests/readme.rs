//! What the README and the other pages for people promise, checked: the configuration passes `respool check`, and no link is broken.
//!
//! Not here: the generated pages, whose freshness `tests/cli.rs` checks.
//!
//! Invariant: every block of TOML in a page is a whole configuration file, so that a reader may copy it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All pages: those at the root and all below `docs`.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![root().join("docs")];
    let mut take = |path: PathBuf, folders: Option<&mut Vec<PathBuf>>| match folders {
        Some(folders) if path.is_dir() => folders.push(path),
        _ if path.extension().is_some_and(|extension| extension == "md") => pages.push(path),
        _ => {}
    };
    for entry in fs::read_dir(root()).unwrap() {
        take(entry.unwrap().path(), None);
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            take(entry.unwrap().path(), Some(&mut folders));
        }
    }
    pages.sort();
    pages
}

/// The fenced blocks of this language in a page.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == fence {
            let block: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            blocks.push(block.join("\n") + "\n");
        }
    }
    blocks
}

/// A page without its fenced blocks and code spans, whose brackets are no links.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let outside = line.split('`').step_by(2).collect::<Vec<_>>();
            prose.push_str(&outside.join("code"));
            prose.push('\n');
        }
    }
    prose
}

/// The targets of a page's links, `](target)`.
fn links(text: &str) -> Vec<String> {
    prose(text)
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.to_owned())
        .collect()
}

/// The anchors that a page's headings make: lower case, blanks as dashes, nothing but letters, digits, dashes and underscores.
fn anchors(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut anchors = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if !fenced && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            anchors.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    anchors
}

#[test]
fn configurations_in_the_pages_pass_the_check() {
    let folder = tempfile::tempdir().unwrap();
    // Named by the examples; respool reads password files when it checks.
    let secret = folder.path().join("password");
    fs::write(&secret, "secret\n").unwrap();
    // Certificates as well.
    let authority = testkit::tls::Authority::new("ca");
    for name in ["proxy", "upstream", "other", "admin", "observed"] {
        authority.issue(name, &["proxy.example"]);
    }
    for name in ["app-ca", "upstream-ca", "operators-ca", "observers-ca"] {
        fs::copy(authority.ca_file(), authority.folder().join(format!("{name}.pem"))).unwrap();
    }
    let certificates = authority.folder().display().to_string();
    // Keys that values are encrypted with.
    let keys = folder.path().join("keys");
    fs::create_dir(&keys).unwrap();
    for name in ["values-2026-11", "values-2025-11"] {
        fs::write(keys.join(name), "5a".repeat(32)).unwrap();
    }
    let keys = format!("key_file={}", keys.display());
    // And the extension that its guide shows.
    let extensions = root().join("docs/guides/own-policies").display().to_string();
    let mut checked = 0;
    // That page is about files for respool-bench, whose own tests read its examples.
    let about_respool = |page: &PathBuf| !page.ends_with("reference/bench-scenarios.md");
    for page in pages().into_iter().filter(about_respool) {
        for block in blocks(&fs::read_to_string(&page).unwrap(), "toml") {
            let block = block.replace("/etc/respool/tls", &certificates);
            let block = block.replace("/etc/respool/extensions", &extensions);
            let block = block.replace("key_file=/run/secrets", &keys);
            let file = folder.path().join("respool.toml");
            let mut text = String::new();
            for line in block.lines() {
                let secret_file = ["password_file = ", "token_file = "]
                    .into_iter()
                    .find_map(|key| line.split_once(key).map(|(name, _)| (name, key)));
                match secret_file {
                    Some((name, key)) => text += &format!("{name}{key}\"{}\"\n", secret.display()),
                    None => text += &format!("{}\n", with_secret(line, folder.path())),
                }
            }
            fs::write(&file, text).unwrap();
            let check = Command::new(env!("CARGO_BIN_EXE_respool"))
                .arg("check")
                .arg(&file)
                .env("READER_PASSWORD", "secret")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&check.stderr);
            assert!(check.status.success(), "{}: {said}", page.display());
            checked += 1;
        }
    }
    assert!(checked >= 2, "the README and the tutorial each show a configuration, found {checked}");
}

/// The line with a file that is there in the place of each that a user's password stands in, and in each another password.
fn with_secret(line: &str, folder: &Path) -> String {
    let mut pieces = line.split("/etc/respool/");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let name = piece.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(piece.len());
        let secret = folder.join(format!("of-{}", &piece[..name]));
        fs::write(&secret, format!("secret of {}\n", &piece[..name])).unwrap();
        text += &secret.display().to_string();
        text += &piece[name..];
    }
    text
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut followed = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap();
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { folder.join(path) };
            assert!(target.exists(), "{}: no {link}", page.display());
            if !anchor.is_empty() {
                let there = anchors(&fs::read_to_string(&target).unwrap());
                assert!(there.iter().any(|known| known == anchor), "{}: no {link}", page.display());
            }
            followed += 1;
        }
    }
    assert!(followed > 20, "only {followed} links were found");
}

/// All sources of the crates, as one text.
fn sources() -> String {
    let mut text = String::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn tests_that_the_pages_name_exist() {
    let sources = sources();
    let mut named = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        // Tests have names like sentences; of other names only some fields of INFO and metrics are as long, and those are literals, but for the
        // end that the kind of a metric adds.
        for name in text.split('`').filter(|span| span.matches('_').count() >= 4) {
            if name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
                let metric = ["_total", "_info"].iter().find_map(|end| name.strip_suffix(end));
                let known = sources.contains(&format!("fn {name}("))
                    // One for each driver.
                    || sources.contains(&format!("fn {name}<"))
                    || sources.contains(&format!("\"{}\"", metric.unwrap_or(name)));
                assert!(known, "{}: no test {name}", page.display());
                named += 1;
            }
        }
    }
    assert!(named > 20, "only {named} tests are named");
}

#[test]
fn the_readers_of_pages_find_what_they_look_for() {
    let text = "# A b\n[x](y.md#a-b) `[no](link)`\n```toml\nk = 1\n```\n```sh\n# no heading\n```\n";
    assert_eq!(blocks(text, "toml"), ["k = 1\n"]);
    assert_eq!(links(text), ["y.md#a-b"]);
    assert_eq!(anchors(text), ["a-b"]);
}
