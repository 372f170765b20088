//! What the command line asks for, from the arguments to the exit code.
//!
//! The command line itself is built from the option table in [`command`]; documents made from it are in [`documents`].
//! This module names the sources of the configuration and prints what went wrong for a person.
//!
//! Invariant: exit code 2 means that nothing was started, because of what was written; 1 means that something failed
//! while doing what was asked.

mod command;
mod commands_page;
mod convert;
mod documents;
mod top;
mod topology_page;

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ArgMatches;
use config::options::OPTIONS;
use config::{Given, Problems};
use server::control::signals::{Hangup, Signals};
use server::log;
use server::losses::Losses;
use server::run::Boot;
use server::sources::{SourceError, Sources, read_text};

use crate::demo;

/// Names a configuration file where `--config` does not.
const CONFIG_VARIABLE: &str = "RESPOOL_CONFIG";

/// Why a command did not end well.
pub(crate) enum Failure {
    /// What was written is wrong; exit code 2.
    Usage(String),
    /// It could not be done; exit code 1.
    Runtime(String),
}

impl Failure {
    /// A runtime failure with all the causes that an error knows.
    pub(crate) fn runtime(error: &dyn Error) -> Self {
        let mut text = format!("respool: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            let part = error.to_string();
            // Some errors print their cause themselves.
            if !text.ends_with(&part) {
                text = format!("{text}: {part}");
            }
            cause = error.source();
        }
        Self::Runtime(text)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::runtime(&error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Runtime(text)) = self;
        f.write_str(text)
    }
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    // Before anything else: a supervisor that reloads right after the start must not end the proxy.
    let hangup = Hangup::note();
    // Prints help, version and mistakes in flags itself, and leaves with 0 or 2 as this module does.
    let matches = command::build(command::Purpose::Parse).get_matches();
    match hangup.map_err(Failure::from).and_then(|hangup| dispatch(&matches, hangup)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(io::stderr(), "{failure}");
            ExitCode::from(match failure {
                Failure::Usage(_) => 2,
                Failure::Runtime(_) => 1,
            })
        }
    }
}

fn dispatch(matches: &ArgMatches, hangup: Hangup) -> Result<(), Failure> {
    if !matches!(matches.subcommand_name(), None | Some("demo")) {
        hangup.end_by_it();
    }
    match matches.subcommand() {
        Some(("check", matches)) => check(matches),
        Some(("convert", matches)) => convert::convert(matches),
        Some(("demo", matches)) => demo::run(matches),
        Some(("top", matches)) => top::top(matches),
        Some((demo::GUARD_COMMAND, matches)) => demo::guard(matches),
        Some(("completions", matches)) => documents::completions(matches),
        Some(("man", _)) => documents::man(),
        Some(("generate-docs", matches)) => documents::generate_docs(matches),
        _ => serve(matches),
    }
}

/// `respool [options]`: the proxy.
fn serve(matches: &ArgMatches) -> Result<(), Failure> {
    let path = matches
        .get_one::<PathBuf>("config")
        .cloned()
        .or_else(|| std::env::var_os(CONFIG_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from));
    start(Sources::new(path, arguments(matches)?, |_| true))
}

/// Starts logging and the proxy; returns when it was asked to stop and is done.
pub(crate) fn start(sources: Sources) -> Result<(), Failure> {
    let signals = Signals::watch()?;
    let text = sources.read_file().map_err(refused)?;
    let loaded = sources.load(text.as_deref(), &[]).map_err(refused)?;
    let losses = Losses::default();
    let logging = log::start(&loaded.config.log, &losses)
        .map_err(|error| Failure::Runtime(format!("respool: {error}")))?;
    let boot = Boot { sources, text, loaded, logging, losses, signals };
    server::run::run(boot).map_err(|error| Failure::runtime(&error))
}

/// What is wrong with the configuration, for a person.
pub(crate) fn refused(error: SourceError) -> Failure {
    Failure::Usage(match &error {
        SourceError::Wrong(problems) => describe(problems),
        SourceError::Unreadable(text) => text.clone(),
    })
}

/// `respool check FILE...`: all mistakes of all files.
fn check(matches: &ArgMatches) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for path in matches.get_many::<PathBuf>("file").into_iter().flatten() {
        let name = path.display().to_string();
        let alone = Sources::new(Some(path.clone()), Vec::new(), |_| false);
        let checked = read_text(path).and_then(|text| alone.load(Some(&text), &[]));
        match checked {
            Ok(_) => print(format!("{name}: ok\n").as_bytes())?,
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Usage(wrong.join("\n"))) }
}

/// The flags that were given, by option.
pub(crate) fn arguments(matches: &ArgMatches) -> Result<Vec<Given>, Failure> {
    let mut arguments = Vec::new();
    for option in OPTIONS {
        // A subcommand may take fewer options than there are.
        if let Ok(Some(values)) = matches.try_get_many::<String>(option.name) {
            arguments.push((option.name, values.cloned().collect()));
        }
    }
    Ok(arguments)
}

/// The problems, and how many there are.
fn describe(problems: &Problems) -> String {
    let count = problems.0.len();
    let things = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
    format!(
        "{problems}\nrespool: {things} in the configuration, nothing was started (see `respool --help`)"
    )
}

/// Writes to standard output. A reader that has seen enough (`respool man | head`) is no failure.
pub(crate) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Finds a program on PATH.
pub(crate) fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}
