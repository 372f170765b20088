//! The dependencies a `Cargo.toml` names, and that each has a stated reason.
//!
//! Reads the few forms cargo accepts for a dependency, line by line; everything else in the file
//! is skipped. A manifest that cargo itself refuses may be misread here, which does no harm.
//!
//! Invariant: the list in `docs/internals/dependencies.md` and the root manifest name the same
//! crates, and a version is written in the root manifest only.

use super::Problems;

/// Where the reasons stand, one table row a crate: "| `name` | reason |".
pub(crate) const REASONS: &str = "docs/internals/dependencies.md";
const ROOT: &str = "Cargo.toml";

/// A dependency as a manifest names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Line in the manifest, from 1.
    pub(crate) line: usize,
    /// Only for tests, benches and examples.
    pub(crate) dev: bool,
    /// The version comes from the root manifest.
    pub(crate) from_workspace: bool,
    /// A crate of this repository.
    pub(crate) by_path: bool,
}

/// All dependencies of a manifest, in its order.
pub(crate) fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    // The section we are in: whether it lists dependencies, and whether those are for tests.
    let mut section = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            section = dependency_section(header);
            if let Some((dev, Some(name))) = section {
                found.push(Dependency::new(name, index + 1, dev, ""));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        match section {
            Some((dev, None)) if !line.starts_with('#') => {
                found.push(Dependency::new(key, index + 1, dev, value));
            }
            // A key of a table such as `[dependencies.tokio]`.
            Some((_, Some(_))) => {
                if let Some(last) = found.last_mut() {
                    last.from_workspace |= key.trim() == "workspace";
                    last.by_path |= key.trim() == "path";
                }
            }
            _ => {}
        }
    }
    found
}

impl Dependency {
    fn new(key: &str, line: usize, dev: bool, value: &str) -> Self {
        let (name, dotted) = key.trim().split_once('.').unwrap_or((key.trim(), ""));
        Self {
            name: name.trim_matches('"').to_owned(),
            line,
            dev,
            from_workspace: dotted == "workspace" || value.contains("workspace = true"),
            by_path: dotted == "path" || value.contains("path ="),
        }
    }
}

/// For a header that lists dependencies: whether they are for tests only, and the crate if the
/// header names one (`[dependencies.tokio]`).
fn dependency_section(header: &str) -> Option<(bool, Option<&str>)> {
    // `target.'cfg(unix)'.dependencies` ends as the plain one does.
    let header = header.rsplit_once("'.").map_or(header, |(_, rest)| rest);
    let header = header.strip_prefix("workspace.").unwrap_or(header);
    let (kind, name) = match header.split_once('.') {
        Some((kind, name)) => (kind, Some(name)),
        None => (header, None),
    };
    match kind {
        "dependencies" | "build-dependencies" => Some((false, name)),
        "dev-dependencies" => Some((true, name)),
        _ => None,
    }
}

/// Checks all manifests (path and text) against each other and against the list of reasons.
pub(crate) fn check(manifests: &[(String, String)], reasons: &str, problems: &mut Problems) {
    let root = manifests.iter().find(|(path, _)| path == ROOT).map(|(_, text)| text.as_str());
    let declared: Vec<Dependency> =
        dependencies(root.unwrap_or_default()).into_iter().filter(|d| !d.by_path).collect();
    let listed = listed(reasons);
    for Dependency { name, line, .. } in &declared {
        if !listed.iter().any(|(_, listed, _)| listed == name) {
            problems.add(ROOT, *line, format!("`{name}` has no reason in {REASONS}"));
        }
        let used = manifests
            .iter()
            .filter(|(path, _)| path != ROOT)
            .any(|(_, text)| dependencies(text).iter().any(|used| used.name == *name));
        if !used {
            problems.add(ROOT, *line, format!("`{name}` is declared, but no crate uses it"));
        }
    }
    for (line, name, reason) in &listed {
        if !declared.iter().any(|dependency| dependency.name == *name) {
            problems.add(REASONS, *line, format!("`{name}` is no dependency any more"));
        }
        if reason.len() < 10 {
            problems.add(REASONS, *line, format!("`{name}` needs a reason"));
        }
    }
    for (path, text) in manifests.iter().filter(|(path, _)| path != ROOT) {
        for Dependency { name, line, .. } in
            dependencies(text).iter().filter(|dependency| !dependency.from_workspace)
        {
            problems.add(path, *line, format!("`{name}`: write `{name}.workspace = true`"));
        }
    }
}

/// The rows of the list of reasons: line, crate, reason.
fn listed(reasons: &str) -> Vec<(usize, String, String)> {
    let row = |(index, line): (usize, &str)| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
        let reason = rest.trim().trim_end_matches('|').trim();
        Some((index + 1, name.to_owned(), reason.to_owned()))
    };
    reasons.lines().enumerate().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"x\"\n\n[dependencies]\n# why\nresp.workspace = true\n\
        tokio = { version = \"1\" }\n\n[target.'cfg(unix)'.dev-dependencies]\n\
        libc = { workspace = true }\n\n[dependencies.serde]\nworkspace = true\nfeatures = []\n";

    #[test]
    fn every_form_of_a_dependency_is_read() {
        let read: Vec<_> = dependencies(MANIFEST)
            .into_iter()
            .map(|d| (d.name, d.line, d.dev, d.from_workspace))
            .collect();
        let row = |name: &str, line, dev, workspace| (name.to_owned(), line, dev, workspace);
        assert_eq!(
            read,
            [
                row("resp", 6, false, true),
                row("tokio", 7, false, false),
                row("libc", 10, true, true),
                row("serde", 12, false, true),
            ]
        );
    }

    fn problems(root: &str, member: &str, reasons: &str) -> String {
        let manifests = [
            ("Cargo.toml".to_owned(), root.to_owned()),
            ("crates/a/Cargo.toml".to_owned(), member.to_owned()),
        ];
        let mut problems = Problems::default();
        check(&manifests, reasons, &mut problems);
        problems.to_string()
    }

    const GOOD_ROOT: &str =
        "[workspace.dependencies]\na = { path = \"crates/a\" }\nlibc = \"0.2\"\n";
    const GOOD_MEMBER: &str = "[dependencies]\nlibc.workspace = true\n";
    const GOOD_REASONS: &str = "| `libc` | a long enough reason |\n";

    #[test]
    fn a_consistent_workspace_has_no_problem() {
        assert_eq!(problems(GOOD_ROOT, GOOD_MEMBER, GOOD_REASONS), "");
    }

    #[test]
    fn each_inconsistency_is_named() {
        assert!(problems(GOOD_ROOT, GOOD_MEMBER, "").contains("has no reason"));
        assert!(problems(GOOD_ROOT, "", GOOD_REASONS).contains("no crate uses it"));
        let stale = format!("{GOOD_REASONS}| `gone` | a long enough reason |\n");
        assert!(problems(GOOD_ROOT, GOOD_MEMBER, &stale).contains("no dependency any more"));
        assert!(problems(GOOD_ROOT, GOOD_MEMBER, "| `libc` | |\n").contains("needs a reason"));
        let pinned = "[dependencies]\nlibc = \"0.2\"\n";
        assert!(problems(GOOD_ROOT, pinned, GOOD_REASONS).contains("libc.workspace = true"));
    }
}
