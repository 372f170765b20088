//! Documents made from the command line, the option table and the command table: completions, the manual page, the reference pages.
//!
//! `generate-docs` is a hidden command of the binary and not a build script, because documents are committed: a reader
//! without a toolchain finds them in the repository, and `tests/cli.rs` fails when they are stale.
//!
//! Invariant: the output depends on the source alone, not on terminal, machine or time.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ArgMatches;
use clap_complete::{Shell, generate};

use super::command::{Purpose, build};
use super::{Failure, commands_page, print, topology_page};

/// Makes the content of a document.
type Make = fn() -> io::Result<Vec<u8>>;

/// The generated files below the root of the repository, and what makes each.
const GENERATED: &[(&str, Make)] = &[
    ("docs/reference/commands-by-topology.md", || Ok(topology_page::page().into_bytes())),
    ("docs/reference/commands.md", || Ok(commands_page::page().into_bytes())),
    ("docs/reference/configuration.md", || Ok(config::documents::reference().into_bytes())),
    ("docs/reference/metrics.md", || Ok(server::metrics::reference().into_bytes())),
    ("docs/reference/openapi.json", || Ok(server::admin::openapi::page().into_bytes())),
    ("docs/reference/respool.1", man_page),
    ("docs/reference/respool.schema.json", || Ok(config::documents::schema().into_bytes())),
    ("respool.example.toml", || Ok(config::documents::example().into_bytes())),
];

/// `respool completions SHELL`.
pub(super) fn completions(matches: &ArgMatches) -> Result<(), Failure> {
    let shell = match matches.get_one::<String>("shell").map(String::as_str) {
        Some("zsh") => Shell::Zsh,
        Some("fish") => Shell::Fish,
        _ => Shell::Bash,
    };
    let mut script = Vec::new();
    generate(shell, &mut build(Purpose::Complete), "respool", &mut script);
    Ok(print(&script)?)
}

/// `respool man`.
pub(super) fn man() -> Result<(), Failure> {
    Ok(print(&man_page()?)?)
}

/// `respool generate-docs FOLDER`: writes all documents below the root of the repository, and names them.
pub(super) fn generate_docs(matches: &ArgMatches) -> Result<(), Failure> {
    // clap has made sure that the folder is given.
    let root = matches.get_one::<PathBuf>("root").cloned().unwrap_or_default();
    for (name, make) in GENERATED {
        let path = root.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, make()?)?;
        print(format!("{}\n", path.display()).as_bytes())?;
    }
    Ok(())
}

/// The manual page in roff.
fn man_page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    writeln!(
        page,
        ".\\\" Generated from crates/config/src/options.rs by `{}`. Do not edit.",
        config::documents::REGENERATE
    )?;
    clap_mangen::Man::new(build(Purpose::Parse)).render(&mut page)?;
    Ok(page)
}
