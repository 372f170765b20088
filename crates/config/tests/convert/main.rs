//! Files of other proxies, converted and loaded again.
//!
//! The words with which the tests of each peer are written stand here; the files are small ones of our own. Each peer also has
//! a list of all keys that its source knows, written out here and not taken from the code: each of them must do something.
//!
//! Invariant: what these words return as converted was loaded as a configuration.

mod camellia;
mod detected;
mod golden;
mod guide;
mod nutcracker;
mod overlord;
mod predixy;
mod redis_cluster_proxy;

use std::collections::HashMap;
use std::io;
use std::path::Path;

use config::convert::{Converted, Peer, Source, convert};
use config::{Config, FileText, ShardUrl, Sharding, Upstream, load_file};

/// Files by name; the first one is converted.
struct Files<'a> {
    peer: Option<Peer>,
    pool: Option<&'a str>,
    files: Vec<(&'a str, &'a str)>,
}

impl<'a> Files<'a> {
    fn one(peer: Peer, name: &'a str, text: &'a str) -> Self {
        Self { peer: Some(peer), pool: None, files: vec![(name, text)] }
    }

    fn pool(mut self, pool: &'a str) -> Self {
        self.pool = Some(pool);
        self
    }

    fn with(mut self, name: &'a str, text: &'a str) -> Self {
        self.files.push((name, text));
        self
    }

    fn convert(&self) -> Result<Converted, String> {
        let others: HashMap<&Path, &str> =
            self.files.iter().map(|(name, text)| (Path::new(*name), *text)).collect();
        let read = |path: &Path| {
            let text = others.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok((*text).to_owned())
        };
        let (name, text) = self.files[0];
        let file = FileText { name, text };
        convert(&Source { file, peer: self.peer, pool: self.pool, read: &read })
            .map_err(|problems| problems.to_string())
    }

    /// The configuration, the notes as lines, and the TOML.
    fn good(&self) -> (Config, Vec<String>, String) {
        let converted = self.convert().unwrap_or_else(|problems| panic!("{problems}"));
        let notes = converted.notes.iter().map(ToString::to_string).collect();
        (load(&converted.toml), notes, converted.toml)
    }

    /// The problems as lines.
    fn bad(&self) -> Vec<String> {
        match self.convert() {
            Ok(converted) => panic!("was converted:\n{}", converted.toml),
            Err(problems) => problems.lines().map(str::to_owned).collect(),
        }
    }
}

/// Loads our own text, which names no password file.
fn load(toml: &str) -> Config {
    let none =
        |_: config::Place<'_>| -> io::Result<Vec<u8>> { Err(io::ErrorKind::NotFound.into()) };
    load_file(FileText { name: "converted.toml", text: toml }, &none)
        .unwrap_or_else(|problems| panic!("{problems}\n{toml}"))
}

fn listen(config: &Config) -> Vec<String> {
    config.listen.iter().map(ToString::to_string).collect()
}

/// The one place of all keys, without credentials.
fn upstream(config: &Config) -> String {
    match &config.upstream {
        Upstream::One(url) => url.to_string(),
        Upstream::Shards(_) => panic!("keys are spread"),
    }
}

fn sharding(config: &Config) -> &Sharding {
    match &config.upstream {
        Upstream::Shards(sharding) => sharding,
        Upstream::One(url) => panic!("one place: {url}"),
    }
}

/// Address, name and weight of each shard.
fn shards(config: &Config) -> Vec<(String, &str, u32)> {
    let shard = |ShardUrl { url, shard }: &'_ ShardUrl| (url.to_string(), shard.weight);
    sharding(config)
        .shards
        .iter()
        .map(|entry| {
            let (url, weight) = shard(entry);
            (url, entry.shard.name.as_str(), weight)
        })
        .collect()
}

fn password(secret: Option<&config::Secret>) -> Option<String> {
    secret.map(|secret| String::from_utf8_lossy(secret.reveal()).into_owned())
}

/// What a shard or an upstream logs in with.
fn passwords(config: &Config) -> Vec<Option<String>> {
    config.upstream.urls().map(|url| password(url.password.as_ref())).collect()
}

/// Asserts that one of the notes has all these words.
#[track_caller]
fn noted(notes: &[String], words: &[&str]) {
    let found = notes.iter().any(|note| words.iter().all(|word| note.contains(word)));
    assert!(found, "no note with {words:?} in {notes:#?}");
}

/// Asserts that each variant of a file (a key, and the file with it) differs from the file without it, or has a note on the key.
#[track_caller]
fn each_key_does_something<'a>(
    plain: &Files<'a>,
    variants: impl IntoIterator<Item = (&'a str, Files<'a>)>,
) {
    // The head names what was left out, so only the settings are compared.
    let settings = |toml: String| -> Vec<String> {
        toml.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    let (_, _, before) = plain.good();
    let before = settings(before);
    for (key, variant) in variants {
        let (_, notes, toml) = variant.good();
        let is_noted = notes.iter().any(|note| note.contains(&format!(": {key}: ")));
        assert!(is_noted || settings(toml) != before, "{key} is neither carried over nor noted");
    }
}
