//! Other proxies' configuration files made into ours, for `respool convert`.
//!
//! ```text
//!   the peer's file ─▶ its reader (one module a peer) ─▶ Sheet ─▶ TOML, and notes about the rest
//! ```
//! A reader takes the peer's text as the peer's own program reads it, with its defaults and its oddities, and says for each
//! key one of three things: what it becomes here, why it becomes nothing (a note), or that the peer does not know it either
//! (a problem). What the values mean here is asked of the option table and not repeated.
//!
//! Not here: files. The caller hands in the text, and a function that reads what the text refers to.
//!
//! Invariant: what [`convert`] returns is taken by [`crate::load_file`], and every key of the peer's file is in it, in a
//! note, or in a problem.
//! Read next: `sheet` (what readers write to), then `nutcracker` (the simplest reader).

mod camellia;
mod detect;
mod nutcracker;
mod overlord;
mod predixy;
mod redis_cluster_proxy;
mod sheet;
mod url;
mod values;
mod yaml;

use std::fmt;
use std::io;
use std::path::Path;

use crate::compile::FileText;
use crate::problem::{Origin, Problems};
use sheet::{Place, Sheet};

/// A proxy whose configuration can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// predixy.
    Predixy,
    /// twemproxy, whose program and files are called nutcracker.
    Nutcracker,
    /// Redis Labs' redis-cluster-proxy.
    RedisClusterProxy,
    /// overlord's proxy.
    Overlord,
    /// camellia-redis-proxy.
    Camellia,
}

impl Peer {
    /// All, in the order of [`Peer::NAMES`].
    pub const ALL: [Self; 5] =
        [Self::Predixy, Self::Nutcracker, Self::RedisClusterProxy, Self::Overlord, Self::Camellia];
    /// Their names on the command line.
    pub const NAMES: [&'static str; 5] =
        ["predixy", "nutcracker", "redis-cluster-proxy", "overlord", "camellia"];

    /// The peer of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let index = Self::NAMES.iter().position(|known| *known == name)?;
        Self::ALL.get(index).copied()
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What is to be converted.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The peer's file.
    pub file: FileText<'a>,
    /// Whose it is; `None`: to be told by name and content.
    pub peer: Option<Peer>,
    /// Which of its pools; `None`: the only one.
    pub pool: Option<&'a str>,
    /// Reads a file that the first one refers to.
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

/// A converted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Whose file it was.
    pub peer: Peer,
    /// Ours, with the notes as comments at its head. May hold passwords.
    pub toml: String,
    /// What was not carried over, or not as it was, in the order of the file. Holds no password.
    pub notes: Vec<Note>,
}

/// One thing that a person must know about a converted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The place in the peer's file; [`Origin::Unset`]: it is about what does not stand there.
    pub origin: Origin,
    /// The peer's key; empty where none is concerned.
    pub key: String,
    /// Why it was not carried over, or what is different now.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Converts a peer's configuration.
///
/// # Errors
/// All that is wrong in it, at once.
pub fn convert(source: &Source<'_>) -> Result<Converted, Problems> {
    let mut sheet = Sheet::new(source.file.name);
    let Some(peer) = source.peer.or_else(|| detect::peer(source.file)) else {
        let message = format!(
            "cannot tell whose configuration this is; say so with --from, one of: {}",
            Peer::NAMES.join(", ")
        );
        sheet.wrong(&Place::of_file(source.file.name), "", message);
        return Err(sheet.into_problems());
    };
    match peer {
        Peer::Predixy => predixy::read(source, &mut sheet),
        Peer::Nutcracker => nutcracker::read(source, &mut sheet),
        Peer::RedisClusterProxy => redis_cluster_proxy::read(source, &mut sheet),
        Peer::Overlord => overlord::read(source, &mut sheet),
        Peer::Camellia => camellia::read(source, &mut sheet),
    }
    sheet.finish(peer)
}
