//! What the command line asks for, from the arguments to the exit code.
//!
//! The command line itself is built from the option table in [`command`]; documents made from it are in [`documents`].
//! This module joins the sources of the configuration (it is the one that reads files and the environment) and prints
//! what went wrong for a person.
//!
//! Invariant: exit code 2 means that nothing was started, because of what was written; 1 means that something failed
//! while doing what was asked.

mod command;
mod commands_page;
mod convert;
mod documents;
mod topology_page;

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;
use config::options::{ENVIRONMENT_PREFIX, OPTIONS, OptionSpec};
use config::{Config, FileText, Problems, Sources};

use crate::{demo, log};

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
    // Prints help, version and mistakes in flags itself, and leaves with 0 or 2 as this module does.
    let matches = command::build(command::Purpose::Parse).get_matches();
    match dispatch(&matches) {
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

fn dispatch(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("check", matches)) => check(matches),
        Some(("convert", matches)) => convert::convert(matches),
        Some(("demo", matches)) => demo::run(matches),
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
    let text = path.as_deref().map(read_text).transpose()?;
    let name = path.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
    let file = text.as_deref().map(|text| FileText { name: &name, text });
    let config = load(file, &arguments(matches)?, |_| true)?;
    start(&config, &name)
}

/// Starts logging and the proxy, whose configuration came from `file` (empty: none); returns when it was asked to stop and is done.
pub(crate) fn start(config: &Config, file: &str) -> Result<(), Failure> {
    log::start(&config.log).map_err(Failure::Runtime)?;
    server::run::run(config, file).map_err(|error| Failure::runtime(&error))
}

/// `respool check FILE...`: all mistakes of all files.
fn check(matches: &ArgMatches) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for path in matches.get_many::<PathBuf>("file").into_iter().flatten() {
        let name = path.display().to_string();
        let checked = read_text(path).and_then(|text| {
            config::load_file(FileText { name: &name, text: &text }, &read_secret)
                .map_err(|p| Failure::Usage(p.to_string()))
        });
        match checked {
            Ok(_) => print(format!("{name}: ok\n").as_bytes())?,
            Err(failure) => wrong.push(failure.to_string()),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Usage(wrong.join("\n"))) }
}

/// Joins file, environment and command line. Of the environment only the options count that `takes` accepts.
pub(crate) fn load(
    file: Option<FileText<'_>>,
    arguments: &[(&'static str, Vec<String>)],
    takes: fn(&OptionSpec) -> bool,
) -> Result<Config, Failure> {
    let environment = environment(takes)?;
    let sources = Sources { file, environment: &environment, arguments, read_secret: &read_secret };
    config::load(&sources).map_err(|problems| Failure::Usage(describe(&problems)))
}

/// The flags that were given, by option.
pub(crate) fn arguments(matches: &ArgMatches) -> Result<Vec<(&'static str, Vec<String>)>, Failure> {
    let mut arguments = Vec::new();
    for option in OPTIONS {
        // A subcommand may take fewer options than there are.
        if let Ok(Some(values)) = matches.try_get_many::<String>(option.name) {
            arguments.push((option.name, values.cloned().collect()));
        }
    }
    Ok(arguments)
}

/// The environment variables of this program.
fn environment(takes: fn(&OptionSpec) -> bool) -> Result<Vec<(String, String)>, Failure> {
    let mut variables = Vec::new();
    for option in OPTIONS.iter().filter(|option| takes(option)) {
        let name = option.environment();
        debug_assert!(
            name.starts_with(ENVIRONMENT_PREFIX),
            "variables of one program share their prefix"
        );
        match std::env::var(&name) {
            Ok(value) => variables.push((name, value)),
            Err(std::env::VarError::NotPresent) => {}
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(Failure::Usage(format!("environment {name}: not valid UTF-8")));
            }
        }
    }
    Ok(variables)
}

/// The problems, and how many there are.
fn describe(problems: &Problems) -> String {
    let count = problems.0.len();
    let things = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
    format!(
        "{problems}\nrespool: {things} in the configuration, nothing was started (see `respool --help`)"
    )
}

/// Reads a configuration file.
fn read_text(path: &Path) -> Result<String, Failure> {
    let bytes = read_bounded(path, CONFIG_BYTES_MAX)
        .map_err(|error| Failure::Usage(format!("{}: cannot be read: {error}", path.display())))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::Usage(format!("{}: not valid UTF-8 at byte {at}; TOML is UTF-8", path.display()))
    })
}

/// Reads a password file.
fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    read_bounded(path, SECRET_BYTES_MAX)
}

/// Reads a file that must be small, so that a wrong path (a device, a log) does not fill the memory.
fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {bytes_max} bytes"),
        ));
    }
    Ok(bytes)
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

/// Longest configuration file.
const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Longest password file; a password goes to the server in one argument of `AUTH`.
const SECRET_BYTES_MAX: u64 = 64 << 10;
