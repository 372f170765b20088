//! `respool convert FILE`: the configuration of another proxy as ours.
//!
//! What it means is known to `config::convert`; here files are read, and the result is written: ours to standard output, the
//! notes to standard error.
//!
//! Invariant: standard output is either a whole configuration or empty.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::ArgMatches;
use config::FileText;
use config::convert::{Peer, Source};
use server::sources::read_utf8;

use super::{Failure, print};

/// Runs the command.
pub(super) fn convert(matches: &ArgMatches) -> Result<(), Failure> {
    // clap has made sure that the file is given, and that the name of the proxy is one.
    let path = matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let peer = matches.get_one::<String>("from").and_then(|name| Peer::from_name(name));
    let pool = matches.get_one::<String>("pool").map(String::as_str);
    let name = path.display().to_string();
    let text = read_utf8(&path)
        .map_err(|error| Failure::Usage(format!("{name}: cannot be read: {error}")))?;
    let file = FileText { name: &name, text: &text };
    let converted = config::convert::convert(&Source { file, peer, pool, read: &read_utf8 })
        .map_err(|problems| {
            Failure::Usage(format!("{problems}\nrespool: nothing was converted"))
        })?;
    for note in &converted.notes {
        // Nobody is left to tell when standard error is closed; the notes stand in the output, too.
        let _ = writeln!(io::stderr(), "{note}");
    }
    Ok(print(converted.toml.as_bytes())?)
}
