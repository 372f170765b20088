//! Log lines: where they go and what they look like.
//!
//! Standard error by default, so that standard output stays free for what a command prints. Lines are for a person, or
//! JSON objects for a collector. Nothing on the path of a request logs.
//!
//! All of it can change while the program runs: filter and writer are layers that are replaced ([`Logging::change`]).
//!
//! Invariant: colours appear only on a terminal, never in a file or a pipe.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::sync::Mutex;

use config::{Log, LogFormat, LogLevel};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

/// A filter that takes the place of `log.level`, for finding a fault: `info,server=debug`.
const FILTER_VARIABLE: &str = "RESPOOL_LOG";

/// What writes lines.
type Writer = Box<dyn Layer<Registry> + Send + Sync>;

/// The log of this process, to be changed.
pub struct Logging {
    writer: reload::Handle<Writer, Registry>,
    filter: reload::Handle<
        EnvFilter,
        tracing_subscriber::layer::Layered<reload::Layer<Writer, Registry>, Registry>,
    >,
}

/// Starts logging for the whole process.
///
/// # Errors
/// A text for a person: the file cannot be opened, or the filter in `RESPOOL_LOG` is not understood.
pub fn start(log: &Log) -> Result<Logging, String> {
    let (filter, filter_handle) = reload::Layer::new(filter(log.level)?);
    let (writer, writer_handle) = reload::Layer::new(writer(log)?);
    let started = tracing_subscriber::registry().with(writer).with(filter).try_init();
    started.map_err(|error| format!("logging cannot be started: {error}"))?;
    Ok(Logging { writer: writer_handle, filter: filter_handle })
}

impl Logging {
    /// Logs in this way from now on.
    ///
    /// # Errors
    /// As [`start`]; then everything stays as it was.
    pub fn change(&self, log: &Log) -> Result<(), String> {
        let (filter, writer) = (filter(log.level)?, writer(log)?);
        let gone = |error: reload::Error| format!("logging cannot be changed: {error}");
        self.writer.reload(writer).map_err(gone)?;
        self.filter.reload(filter).map_err(gone)
    }
}

fn writer(log: &Log) -> Result<Writer, String> {
    let (writer, colours) = match &log.file {
        None => (BoxMakeWriter::new(io::stderr), wants_colours(log.format)),
        Some(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let file = file
                .map_err(|error| format!("cannot open the log file {}: {error}", path.display()))?;
            (BoxMakeWriter::new(Mutex::new(file)), false)
        }
    };
    let lines =
        tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours).with_target(false);
    Ok(match log.format {
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
        LogFormat::Auto | LogFormat::Human => lines.compact().boxed(),
    })
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
