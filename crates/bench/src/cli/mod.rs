//! The command line: reads what is asked for, lets the rest of the crate do it, and says how it went.
//!
//! Standard output holds results (tables, lists), standard error everything else, so that results can be piped. Exit
//! codes: 0 it worked; 1 the run failed, or a limit was missed, or a comparison found something worse; 2 the command
//! line, a scenario or a file was wrong.
//!
//! Parts: `args` (what can be written), `endpoint` (`--target` and what must not be shown of it), `ad_hoc` (the plan of
//! `load`), `measure` (`run` and `load`), `show` (`list` and `show`).
//!
//! Invariant: no text that is printed or recorded holds the password of a URL; the parser's own messages, which repeat
//! arguments, pass `endpoint::mask_in` first.

mod ad_hoc;
mod args;
mod endpoint;
mod measure;
mod show;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::report::{html, json, markdown, table};
use crate::stats::noise::Verdict;
use crate::{compare, floor as floor_service, record, scenario};
use args::{Args, Command, CompareArgs, FloorArgs, ReportArgs};

/// Why the program ends with another code than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line, a scenario or a file was wrong: code 2.
    Usage(String),
    /// What was asked for was tried and failed: code 1.
    Failed(String),
}

impl Failure {
    fn usage(message: impl ToString) -> Self {
        Self::Usage(message.to_string())
    }

    fn failed(message: impl ToString) -> Self {
        Self::Failed(message.to_string())
    }
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let args = match Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            // `--help` and `--version`: nothing is wrong, and a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            complain(endpoint::mask_in(&error.render().to_string(), &words).trim_end());
            return ExitCode::from(2);
        }
    };
    let done = match args.command {
        Command::Run(args) => measure::run(&args, &endpoint::command_line(&words)),
        Command::Load(args) => measure::load(&args, &endpoint::command_line(&words)),
        Command::Floor(args) => floor(&args),
        Command::List => show::list(),
        Command::Show(args) => show::show(&args),
        Command::Report(args) => report(&args),
        Command::Compare(args) => compare(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            complain(&format!("error: {message}"));
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            complain(&format!("error: {message}"));
            ExitCode::from(2)
        }
    }
}

/// `report`: shows a run file again.
fn report(args: &ReportArgs) -> Result<(), Failure> {
    let run = json::read(&args.run).map_err(Failure::usage)?;
    if args.html.is_none() && args.markdown.is_none() && args.pictures.is_none() {
        say(&table::run(&run, table::Look::of_stdout()));
        return Ok(());
    }
    write_documents(&run, args.html.as_deref(), args.markdown.as_deref())?;
    if let Some(folder) = &args.pictures {
        for (name, svg) in html::pictures(&run) {
            write(&folder.join(name), &svg)?;
        }
    }
    Ok(())
}

/// `floor`: answers until it is told to end.
fn floor(args: &FloorArgs) -> Result<(), Failure> {
    let FloorArgs { driver, port, value_bytes } = *args;
    let options = floor_service::Options { driver, port, value_bytes };
    let ready = |address| {
        say(&format!(
            "listening on {address} ({}, values of {})",
            driver.name(),
            scenario::values::size(value_bytes)
        ));
    };
    floor_service::run(&options, ready).map_err(Failure::failed)
}

/// `compare`: says what got better or worse.
fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let comparison = compare::files(&args.before, &args.after).map_err(Failure::usage)?;
    say(&table::comparison(&comparison, table::Look::of_stdout()));
    match comparison.count(Verdict::Worse) {
        worse if worse > 0 && args.fail_on_worse => {
            Err(Failure::failed(format!("{worse} figures got worse beyond the noise")))
        }
        _ => Ok(()),
    }
}

/// Writes the forms of a report that were asked for, and says where each lies.
fn write_documents(
    run: &record::Run,
    html_path: Option<&Path>,
    markdown_path: Option<&Path>,
) -> Result<(), Failure> {
    if let Some(path) = html_path {
        write(path, &html::render(run))?;
    }
    if let Some(path) = markdown_path {
        write(path, &markdown::markdown(run))?;
    }
    Ok(())
}

/// Writes a file, with the folders above it, and says so.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
    wrote(path);
    Ok(())
}

/// Says where a file lies. On standard error, since it is no result.
fn wrote(path: &Path) {
    complain(&format!("wrote {}", path.display()));
}

/// A scenario's text by its name or path: what ends in `.toml` or has a folder is a file.
fn scenario_text(name: &str) -> Result<String, Failure> {
    if !name.contains('/') && !name.ends_with(".toml") {
        return scenario::built_in(name).map(str::to_owned).map_err(Failure::usage);
    }
    fs::read_to_string(name)
        .map_err(|error| Failure::usage(format!("cannot read the scenario {name}: {error}")))
}

/// Writes a result. A reader that went away (`| head`) is no error of this program.
fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.trim_end().as_bytes()).and_then(|()| out.write_all(b"\n"));
}

/// Writes what is no result.
fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
