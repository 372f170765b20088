//! Fields of human-readable log lines: text of servers and clients cannot forge a line or send escapes to a terminal.
//!
//! ```text
//!   version of a server: 7.0\n2026-11-27 WARN …  ──▶  … INFO upstream ready server=redis 7.0\n2026-11-27 WARN …
//! ```
//! Errors, names and versions can hold any byte. `Escaped` writes control characters as in Rust strings (`\n`, `\u{1b}`).
//!
//! Not here: JSON lines, whose encoder escapes them.
//!
//! Invariant: no field writes a control character.

use std::fmt::{self, Debug, Write};

use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Formats `message name=value name=value`.
pub(super) fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    let each = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        let mut line = Escaped(writer);
        match field.name() {
            "message" => write!(line, "{value:?}"),
            name => write!(line, "{name}={value:?}"),
        }
    };
    debug_fn(each).delimited(" ")
}

/// Writes text with its control characters as escapes.
struct Escaped<'a, 'writer>(&'a mut Writer<'writer>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            self.0.write_str(plain)?;
            part[plain.len()..]
                .chars()
                .try_for_each(|each| write!(self.0, "{}", each.escape_default()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // A tenant's server forged log lines about other tenants.
    #[test]
    fn text_of_a_peer_is_no_line_of_its_own() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .compact()
            .fmt_fields(fields());
        let version = "7.0\n2026-11-27 WARN forged\r\u{1b}[31m\u{9b}";
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(worker = 0, server = %version, name = version, "of {version}");
        });
        let text = lines.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8(text).expect("UTF-8");
        let plain = r"7.0\n2026-11-27 WARN forged\r\u{1b}[31m\u{9b}";
        assert!(
            text.contains(&format!("of {plain} worker=0 server={plain} name=\"{plain}\"")),
            "{text}"
        );
        assert_eq!(text.matches(char::is_control).collect::<String>(), "\n");
        assert!(text.ends_with('\n'));
    }
}
