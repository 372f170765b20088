//! Log lines: where they go and what they look like.
//!
//! Standard error by default, so that standard output stays free for what a command prints. Lines are for a person, or
//! JSON objects for a collector. Nothing on the path of a request logs, but for lines of the access log, which wait for nobody (`lossy`). A reader that hangs holds up nobody for long (`patient`). How often
//! lines of one kind are written is bounded (`limit`).
//!
//! All of it can change while the program runs: filter and writer are layers that are replaced ([`Logging::change`]).
//!
//! Invariant: colours appear only on a terminal, never in a file or a pipe; text of peers cannot begin a log line (`fields`).

mod fields;
mod limit;
mod lossy;
mod patient;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::losses::Losses;
use config::{Log, LogFormat, LogLevel};
use fields::fields;
use lossy::Lossy;
use patient::Patient;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

/// A filter that takes the place of `log.level`, for finding a fault: `info,server=debug`.
const FILTER_VARIABLE: &str = "RESPOOL_LOG";

/// At the end of the process lines of the access log are waited for no longer than this.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// The target of lines of the access log.
pub(crate) const ACCESS: &str = "access";

pub use limit::Limit;

/// What writes lines.
type Writer = Box<dyn Layer<Registry> + Send + Sync>;

/// The log of this process, to be changed.
pub struct Logging {
    writer: reload::Handle<Writer, Registry>,
    filter: reload::Handle<
        EnvFilter,
        tracing_subscriber::layer::Layered<reload::Layer<Writer, Registry>, Registry>,
    >,
    limit: Limit,
    access: AccessLines,
    losses: Losses,
}

/// Lines of the access log that are on their way; clones are about the same.
#[derive(Clone)]
pub struct AccessLines(Arc<Mutex<Lossy>>);

impl AccessLines {
    /// Waits until they are written, at the end of the process, but not for long.
    pub fn finish(&self) {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        lines.flush_within(FINISH_TIMEOUT);
    }
}

/// Starts logging for the whole process; lines that are not written are counted there.
///
/// # Errors
/// A text for a person: the file cannot be opened, or the filter in `RESPOOL_LOG` is not understood.
pub fn start(log: &Log, losses: &Losses) -> Result<Logging, String> {
    let (filter, filter_handle) = reload::Layer::new(filter(log.level)?);
    let (writer, access) = writer(log, losses)?;
    let (writer, writer_handle) = reload::Layer::new(writer);
    let limit = Limit::new(log.burst, log.burst_window_s, losses.clone());
    let started = tracing_subscriber::registry().with(writer).with(filter);
    // Not `try_init`: it would let in what libraries say by the crate `log`, such as URLs of requests with their paths.
    let started = tracing::subscriber::set_global_default(started.with(limit.clone()));
    started.map_err(|error| format!("logging cannot be started: {error}"))?;
    let access = AccessLines(Arc::new(Mutex::new(access)));
    let losses = losses.clone();
    Ok(Logging { writer: writer_handle, filter: filter_handle, limit, access, losses })
}

impl Logging {
    /// What bounds how often lines are written.
    pub fn limit(&self) -> Limit {
        self.limit.clone()
    }

    /// What waits to be written.
    pub fn access_lines(&self) -> AccessLines {
        self.access.clone()
    }

    /// Opens the file anew, after it was moved away; nothing where there is none. `log` is what holds already.
    ///
    /// # Errors
    /// It cannot be opened; then lines go on into the file that is open.
    pub fn reopen(&self, log: &Log) -> Result<(), String> {
        if log.file.is_none() {
            return Ok(());
        }
        let (writer, access) = writer(log, &self.losses)?;
        let gone = |error: reload::Error| format!("logging cannot be changed: {error}");
        self.writer.reload(writer).map_err(gone)?;
        *self.access.0.lock().unwrap_or_else(PoisonError::into_inner) = access;
        Ok(())
    }

    /// Logs in this way from now on.
    ///
    /// # Errors
    /// As [`start`]; then everything stays as it was.
    pub fn change(&self, log: &Log) -> Result<(), String> {
        let (filter, (writer, access)) = (filter(log.level)?, writer(log, &self.losses)?);
        let gone = |error: reload::Error| format!("logging cannot be changed: {error}");
        self.writer.reload(writer).map_err(gone)?;
        self.filter.reload(filter).map_err(gone)?;
        *self.access.0.lock().unwrap_or_else(PoisonError::into_inner) = access;
        self.limit.change(log.burst, log.burst_window_s);
        Ok(())
    }
}

/// What writes lines, and the part of it on which nobody waits.
fn writer(log: &Log, losses: &Losses) -> Result<(Writer, Lossy), String> {
    let losses = losses.clone();
    let (file, colours) = match &log.file {
        // The lock of standard error is not taken: a thread that waits for room would hold it.
        None => {
            let file = io::stderr().as_fd().try_clone_to_owned().map(File::from);
            let file = file.map_err(|error| format!("cannot log to standard error: {error}"))?;
            (file, wants_colours(log.format))
        }
        Some(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let file = file
                .map_err(|error| format!("cannot open the log file {}: {error}", path.display()))?;
            (file, false)
        }
    };
    let access = file.try_clone().and_then(|file| Lossy::to(file, losses.clone()));
    let access = access.map_err(|error| format!("the access log cannot be started: {error}"))?;
    let direct = Patient::to(file, losses);
    let writer = Writers { direct, access: access.clone() };
    let lines =
        tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(colours).with_target(false);
    let writer = match log.format {
        LogFormat::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
        LogFormat::Auto | LogFormat::Human => lines.compact().fmt_fields(fields()).boxed(),
    };
    Ok((writer, access))
}

/// Where lines go: those of the access log by a way on which nobody waits.
struct Writers {
    direct: Patient,
    access: Lossy,
}

impl<'a> MakeWriter<'a> for Writers {
    type Writer = Box<dyn Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Box::new(self.direct.clone())
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        if metadata.target() == ACCESS {
            return Box::new(self.access.clone());
        }
        self.make_writer()
    }
}

/// The filter of the environment, or the level of the configuration.
fn filter(level: LogLevel) -> Result<EnvFilter, String> {
    match std::env::var(FILTER_VARIABLE) {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text)
            .map_err(|error| format!("environment {FILTER_VARIABLE}: {error}; allowed: a level, or a list such as info,server=debug")),
        // Whoever turns the access log on wants to see it.
        _ => Ok(EnvFilter::new(format!(
            "{},{ACCESS}=info,{LIBRARIES}",
            LogLevel::NAMES[level as usize]
        ))),
    }
}

/// What the libraries of TLS and HTTP say of peers we say ourselves, once and without what is secret in a URL.
const LIBRARIES: &str = "rustls=off,ureq=off,ureq_proto=off";

/// Whether a person looks at standard error and has not asked for plain text (no-color.org).
fn wants_colours(format: LogFormat) -> bool {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    format == LogFormat::Auto && !plain && io::stderr().is_terminal()
}
