//! `respool top`: the essentials of a running respool in a terminal, asked of its admin listener once a second.
//!
//! ```text
//!   admin listener ─ JSON ─▶ source ─▶ figures (differences of two answers) ─▶ screen
//! ```
//! `--once` prints one frame as text, for a script or a ticket.
//!
//! Not here: changing anything; that is the console's and `curl`'s.
//!
//! Invariant: the terminal is as it was before when the command ends, however it ends.

mod figures;
mod others;
mod screen;
mod source;

use super::{Failure, print};
use clap::ArgMatches;
use figures::Figures;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use server::control::certificates::receivers::Trust;
use source::Source;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Size of a frame that is printed as text.
const ONCE_COLUMNS: u16 = 110;
const ONCE_LINES: u16 = 44;

/// Between the two answers of a frame that is printed.
const ONCE_SPAN: Duration = Duration::from_millis(1_000);

/// Runs the command.
pub(super) fn top(matches: &ArgMatches) -> Result<(), Failure> {
    let source = source(matches)?;
    let every_ms = matches.get_one::<u64>("every_ms").copied().unwrap_or(1_000);
    match matches.get_flag("once") {
        true => once(&source),
        false => watch(&source, Duration::from_millis(every_ms)),
    }
}

fn source(matches: &ArgMatches) -> Result<Source, Failure> {
    // clap gives it a default.
    let base = matches.get_one::<String>("admin").cloned().unwrap_or_default();
    let token = match matches.get_one::<PathBuf>("token_file") {
        None => None,
        Some(path) => {
            let text = server::sources::read_utf8(path).map_err(|error| {
                Failure::Usage(format!("{}: cannot be read: {error}", path.display()))
            })?;
            Some(text.trim_end().to_owned())
        }
    };
    let path = |name: &str| matches.get_one::<PathBuf>(name).map(PathBuf::as_path);
    let [ca, cert, key] = ["ca_file", "cert_file", "key_file"].map(path);
    let is_secured = base.starts_with("https://");
    if !is_secured && (ca.is_some() || cert.is_some()) {
        let text = format!("{base} is without TLS; write https://… for it");
        return Err(Failure::Usage(text));
    }
    let trust = is_secured.then(|| Trust::of_flags(ca, cert, key)).transpose();
    Ok(Source::new(&base, token.as_deref(), trust.map_err(Failure::Usage)?.as_ref()))
}

/// One frame as text.
fn once(source: &Source) -> Result<(), Failure> {
    let mut figures = Figures::default();
    figures.take(source.ask().map_err(Failure::Runtime)?);
    std::thread::sleep(ONCE_SPAN);
    figures.take(source.ask().map_err(Failure::Runtime)?);
    // A backend that only keeps what is drawn: it cannot fail.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(ONCE_COLUMNS, ONCE_LINES));
    let Ok(frame) = terminal.draw(|frame| screen::draw(frame, &figures, None));
    let buffer = frame.buffer;
    let mut text = String::new();
    for line in buffer.content().chunks(usize::from(ONCE_COLUMNS)) {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(print(format!("{}\n", text.trim_end()).as_bytes())?)
}

/// Frames until somebody says `q`.
fn watch(source: &Source, every: Duration) -> Result<(), Failure> {
    let mut figures = Figures::default();
    // The first answer tells whether there is anything to watch, before the screen is taken.
    figures.take(source.ask().map_err(Failure::Runtime)?);
    let mut terminal = ratatui::try_init()?;
    let ended = frames(&mut terminal, source, &mut figures, every);
    ratatui::restore();
    Ok(ended?)
}

fn frames(
    terminal: &mut ratatui::DefaultTerminal,
    source: &Source,
    figures: &mut Figures,
    every: Duration,
) -> std::io::Result<()> {
    let mut trouble = None;
    loop {
        terminal.draw(|frame| screen::draw(frame, figures, trouble.as_deref()))?;
        let until = Instant::now() + every;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if event::poll(left)? && wants_to_end(&event::read()?) {
                return Ok(());
            }
        }
        trouble = match source.ask() {
            Ok(answer) => {
                figures.take(answer);
                None
            }
            Err(error) => Some(error),
        };
    }
}

fn wants_to_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    key.kind == KeyEventKind::Press
        && (interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}
