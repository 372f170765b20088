//! Log lines: where they go and what they look like.
//!
//! Standard error by default, so that standard output stays free for what a command prints. Lines are for a person, or
//! JSON objects for a collector. Nothing on the path of a request logs.
//!
//! Invariant: colours appear only on a terminal, never in a file or a pipe.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::sync::Mutex;

use config::{Log, LogFormat, LogLevel};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// A filter that takes the place of `log.level`, for finding a fault: `info,server=debug`.
const FILTER_VARIABLE: &str = "RESPOOL_LOG";

/// Starts logging for the whole process.
///
/// # Errors
/// A text for a person: the file cannot be opened, or the filter in `RESPOOL_LOG` is not understood.
pub(crate) fn start(log: &Log) -> Result<(), String> {
    let filter = filter(log.level)?;
    let (writer, colours) = match &log.file {
        None => (BoxMakeWriter::new(io::stderr), wants_colours(log.format)),
        Some(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let file = file.map_err(|error| {
                format!("respool: cannot open the log file {}: {error}", path.display())
            })?;
            (BoxMakeWriter::new(Mutex::new(file)), false)
        }
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(colours)
        .with_target(false);
    let started = match log.format {
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init(),
        LogFormat::Auto | LogFormat::Human => lines.compact().try_init(),
    };
    started.map_err(|error| format!("respool: logging cannot be started: {error}"))
}

/// The filter of the environment, or the level of the configuration.
fn filter(level: LogLevel) -> Result<EnvFilter, String> {
    match std::env::var(FILTER_VARIABLE) {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text)
            .map_err(|error| format!("environment {FILTER_VARIABLE}: {error}; allowed: a level, or a list such as info,server=debug")),
        _ => Ok(EnvFilter::new(LogLevel::NAMES[level as usize])),
    }
}

/// Whether a person looks at standard error and has not asked for plain text (no-color.org).
fn wants_colours(format: LogFormat) -> bool {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    format == LogFormat::Auto && !plain && io::stderr().is_terminal()
}
