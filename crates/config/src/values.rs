//! The table `[policies.values]`: which values are stored compressed or encrypted, and where the keys for that are.
//!
//! ```text
//!   "2026-11 key_file=/run/secrets/values-2026-11"
//!    └ name  └ where 64 hexadecimal digits stand
//! ```
//! Not here: what is stored (`engine::policy::values`), who reads files and runs commands (the caller).
//!
//! Invariant: a key never stands in a line, and no text made here repeats a word of a line that could be one.

use std::fmt;
use std::io;
use std::path::PathBuf;

use engine::acl::file::words;
use engine::limits::SEALING_KEYS_MAX;
use engine::policy::values::is_name;
use engine::policy::{Compression, SealingKey, Values, Wanted};

use crate::compile::{Draft, Place};
use crate::policies::{COMPRESS_FROM_BYTES, COMPRESS_LEVEL, Policies, quoted};
use crate::problem::Fault;
use crate::rules::Finding;

/// What a line looks like, for messages.
pub(crate) const KEY_FORMS: &str = "a name of 1 to 32 letters, digits, `_`, `-` and `.`, and where 64 hexadecimal digits stand: key_file=PATH, key_env=NAME or key_command=COMMAND, as in \
     \"2026-11 key_file=/run/secrets/values-2026-11\"";

/// The types that values can be changed of.
pub(crate) const TYPES: [&str; 2] = ["string", "hash"];

/// What values can be compressed by.
pub(crate) const ALGORITHMS: [&str; 2] = ["lz4", "zstd"];

/// Where a key stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Variable(String),
    Command(String),
}

/// One line.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyLine {
    name: String,
    source: Source,
    /// Once it was read.
    key: Option<SealingKey>,
}

impl fmt::Display for KeyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match &self.source {
            Source::File(path) => format!("key_file={}", path.display()),
            Source::Variable(name) => format!("key_env={name}"),
            Source::Command(command) => format!("key_command={command}"),
        };
        write!(f, "{} {}", self.name, quoted(&word))
    }
}

impl fmt::Debug for KeyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl KeyLine {
    /// Reads a line. The error goes on after the line's number.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let words = words(text.as_bytes())
            .ok_or("has a quote that does not end, or something behind one")?;
        let words: Vec<String> =
            words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
        let [name, source] = words.as_slice() else {
            return Err("is not two words, a name and where the key is");
        };
        if !is_name(name.as_bytes()) {
            return Err("has another name than can be told");
        }
        let (kind, place) = source.split_once('=').unwrap_or((source, ""));
        if place.is_empty() || place.contains('\0') {
            return Err("does not say where the key is");
        }
        let source = match kind {
            "key_file" => Source::File(place.into()),
            "key_env" => Source::Variable(place.to_owned()),
            "key_command" => Source::Command(place.to_owned()),
            _ => return Err("does not say where the key is"),
        };
        Ok(Self { name: name.clone(), source, key: None })
    }

    fn read(&mut self, read: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>) -> Result<(), String> {
        let (place, name) = match &self.source {
            Source::File(path) => (Place::File(path), path.display().to_string()),
            Source::Variable(name) => (Place::Variable(name), format!("the variable {name}")),
            Source::Command(command) => {
                (Place::Command(command), "what its key_command says".to_owned())
            }
        };
        let bytes = read(place).map_err(|error| format!("cannot read {name}: {error}"))?;
        let key = SealingKey::new(&self.name, bytes.trim_ascii());
        self.key = Some(key.map_err(|why| format!("{name} {why}"))?);
        Ok(())
    }
}

/// Reads lines; a name stands in one of them.
pub(crate) fn read_lines<'a>(
    lines: impl Iterator<Item = Result<&'a str, Fault>>,
    span: impl Fn(usize) -> Option<std::ops::Range<usize>>,
) -> Result<Vec<KeyLine>, Vec<Fault>> {
    let (mut keys, mut faults): (Vec<KeyLine>, Vec<Fault>) = (Vec::new(), Vec::new());
    for (at, line) in lines.enumerate() {
        let why = match line.map(KeyLine::parse) {
            Err(wrong) => {
                faults.push(wrong);
                continue;
            }
            Ok(Ok(key)) if keys.iter().all(|known| known.name != key.name) => {
                keys.push(key);
                continue;
            }
            Ok(Ok(_)) => "has the name of one before it",
            Ok(Err(why)) => why,
        };
        let message = format!("key {} {why}; allowed: {KEY_FORMS}", at + 1);
        faults.push(Fault { span: span(at), message });
    }
    if faults.is_empty() && keys.len() > SEALING_KEYS_MAX {
        let message = format!("found {} keys; allowed: up to {SEALING_KEYS_MAX}", keys.len());
        faults.push(Fault { span: None, message });
    }
    if faults.is_empty() { Ok(keys) } else { Err(faults) }
}

/// Reads all keys from where they are; what is wrong with them.
pub(crate) fn read_keys(
    policies: &mut Policies,
    read: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
) -> Vec<String> {
    let each = (1..).zip(&mut policies.keys);
    each.filter_map(|(number, key)| key.read(read).err().map(|why| format!("key {number}: {why}")))
        .collect()
}

impl Policies {
    /// The values that are to be stored otherwise; `None`: none.
    pub(crate) fn values(&self) -> Option<Values> {
        let patterns = |all: &[String]| all.iter().map(|one| one.as_bytes().into()).collect();
        Values::new(Wanted {
            compress: patterns(&self.compress),
            compress_from_bytes: self.compress_from_bytes,
            compression: self.compression(),
            encrypt: patterns(&self.encrypt),
            encrypted_only: self.encrypted_only,
            keys: self.keys.iter().filter_map(|line| line.key.clone()).collect(),
            strings: self.value_types.contains(&TYPES[0]),
            hashes: self.value_types.contains(&TYPES[1]),
        })
    }
}

impl Policies {
    fn compression(&self) -> Compression {
        // The option allows no more than a byte has room for.
        let level = u8::try_from(self.compress_level).unwrap_or(u8::MAX);
        if self.is_by_zstd() { Compression::Zstd { level } } else { Compression::Lz4 }
    }

    fn is_by_zstd(&self) -> bool {
        self.compress_algorithm == ALGORITHMS[1]
    }
}

/// Whether what is wanted of values belongs together, and goes with what else is wanted.
pub(crate) fn check(draft: &Draft, found: &mut Vec<Finding>) {
    const COMPRESS: &str = "policies.values.compress";
    const ENCRYPT: &str = "policies.values.encrypt";
    let policies = &draft.config.policies;
    let is_without = |option: &'static [&'static str], other: &str, what: &str| -> Finding {
        (option, format!("set without {other}, which it is about; give {what}, or leave this out"))
    };
    // What is shown of a configuration can be given again, so the usual value may stand there.
    if policies.compress.is_empty() && policies.compress_from_bytes != COMPRESS_FROM_BYTES {
        let option = &["policies.values.compress_from_bytes"];
        found.push(is_without(option, &format!("`{COMPRESS}`"), "the patterns of keys"));
    }
    if policies.compress.is_empty() && policies.is_by_zstd() {
        let option = &["policies.values.compress_algorithm"];
        found.push(is_without(option, &format!("`{COMPRESS}`"), "the patterns of keys"));
    }
    if !policies.is_by_zstd() && policies.compress_level != COMPRESS_LEVEL {
        let option = &["policies.values.compress_level"];
        let zstd = "`policies.values.compress_algorithm = \"zstd\"`";
        found.push(is_without(option, zstd, "that"));
    }
    if policies.encrypt.is_empty() && policies.encrypted_only {
        let option = &["policies.values.encrypted_only"];
        found.push(is_without(option, &format!("`{ENCRYPT}`"), "the patterns of keys"));
    }
    if !policies.encrypt.is_empty() && policies.keys.is_empty() {
        let message = "no key is named; give `policies.values.keys`, whose first key encrypts, or leave this out";
        found.push((&[ENCRYPT, "policies.values.keys"], message.to_owned()));
    }
    if policies.compress.is_empty() && policies.encrypt.is_empty() {
        let both = format!("`{ENCRYPT}` and `{COMPRESS}`");
        if !policies.keys.is_empty() {
            found.push(is_without(&["policies.values.keys"], &both, "patterns of clients' keys"));
        }
        if policies.value_types != TYPES[..1] {
            found.push(is_without(&["policies.values.types"], &both, "the patterns of keys"));
        }
        return;
    }
    if policies.value_types.is_empty() {
        let message = format!("found no type; allowed: one of {} or both", TYPES.join(", "));
        found.push((&["policies.values.types"], message));
    }
    if draft.config.cache.enabled {
        let message = "replies are kept as servers give them, and values that are stored compressed or encrypted are not for clients; turn the cache off, or leave \
                       `policies.values` out";
        found.push((&["cache.enabled", COMPRESS, ENCRYPT], message.to_owned()));
    }
    if !draft.config.mirrors.targets.is_empty() {
        let message = "mirrors are told what clients write by what is written and read, which is not the same with compressed or encrypted values; leave out \
                       `mirrors.targets` or `policies.values`";
        found.push((&[COMPRESS, ENCRYPT, "mirrors.targets"], message.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_shown_as_words_that_read_as_the_same() {
        for text in [
            "2026-11 key_file=/run/secrets/k",
            "a \"key_file=/a b\"",
            "b.1 key_env=KEY",
            "c_2 \"key_command=vault read -field=key 'x y'\"",
        ] {
            let line = KeyLine::parse(text).expect("a line");
            assert_eq!(line.to_string(), text);
            assert_eq!(format!("{line:?}"), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_what_may_be_a_key() {
        let secret = "0123456789abcdef".repeat(4);
        for (text, why) in [
            (String::new(), "is not two words"),
            ("k".to_owned(), "is not two words"),
            (format!("k {secret}"), "does not say where"),
            (format!("k key={secret}"), "does not say where"),
            (secret.clone(), "is not two words"),
            (format!("{secret} key_env=A"), "has another name"),
            ("k key_file=".to_owned(), "does not say where"),
            ("k key_env=A key_env=B".to_owned(), "is not two words"),
            ("k \"key_env=A".to_owned(), "quote that does not end"),
            ("k/2 key_env=A".to_owned(), "has another name"),
        ] {
            let message = KeyLine::parse(&text).expect_err("wrong");
            assert!(message.contains(why), "{text}: {message}");
            assert!(!message.contains(&secret[..8]));
        }
    }
}
