//! What a kind of value is called, allows, and looks like, in words for a person.
//!
//! Help, reference, example file, messages and `CONFIG GET` all take their words from here, so that they agree. Nothing is read or
//! checked here.
//!
//! Invariant: no text made here contains the value of a secret.

use engine::route::shard::BUCKETS_MAX;

use super::entries::{MAP_FORMS, WEIGHT_FORMS, ZONE_FORMS};
use super::monitors::{self, MONITOR_FORMS};
use super::{CPU_MAX, Kind};
use crate::address::{ANNOUNCE_FORMS, LISTEN_FORMS, UPSTREAM_FORMS};
use crate::compile::Draft;
use crate::listen::ENTRY_FORMS;
use crate::mirrors::MIRROR_FORMS;
use crate::network::NETWORK_FORMS;
use crate::policies::RENAME_FORMS;
use crate::read_targets::READ_TARGET_FORMS;
use crate::sharding::{ROUTE_FORMS, SHARD_FORMS};
use crate::users::USER_FORMS;
use crate::values::KEY_FORMS;

impl Kind {
    /// What is allowed, as the end of a sentence.
    pub(crate) fn allowed(&self) -> String {
        match self {
            Self::Count { min, max, .. } => format!("a whole number from {min} to {max}"),
            Self::Bytes { min, max, .. } => format!(
                "a size from {} to {}, as a number of bytes or with KiB, MiB, GiB (\"64MiB\")",
                shown_size(*min),
                shown_size(*max)
            ),
            Self::Time { unit, min, max, .. } => {
                format!("a whole number of {unit} from {min} to {max}")
            }
            Self::Switch { .. } => "true or false".to_owned(),
            Self::Mode { .. } => {
                "permission bits as an octal string, \"0000\" to \"0777\"".to_owned()
            }
            Self::ClientName { .. } => "printable ASCII without spaces, or nothing".to_owned(),
            Self::Text { .. } => "a string that is not empty".to_owned(),
            Self::Path { .. } => "the path of a file".to_owned(),
            Self::Secret { .. } => "a string that is not empty".to_owned(),
            Self::Choice { names, .. } => names().join(", "),
            Self::Cpus { .. } => {
                format!("numbers of CPUs from 0 to {CPU_MAX}, or ranges such as \"0-3\"")
            }
            Self::Listen { .. } => LISTEN_FORMS.to_owned(),
            Self::Listeners { .. } => ENTRY_FORMS.to_owned(),
            Self::Networks { .. } => NETWORK_FORMS.to_owned(),
            Self::Announce { .. } => ANNOUNCE_FORMS.to_owned(),
            Self::Upstream { .. } => UPSTREAM_FORMS.to_owned(),
            Self::Shards { .. } => SHARD_FORMS.to_owned(),
            Self::Users { .. } => USER_FORMS.to_owned(),
            Self::Rules { policy, .. } => policy.forms().to_owned(),
            Self::Renames { .. } => RENAME_FORMS.to_owned(),
            Self::Mirrors { .. } => MIRROR_FORMS.to_owned(),
            Self::ReadTargets { .. } => READ_TARGET_FORMS.to_owned(),
            Self::CertFiles { .. } => {
                "two paths separated by a blank, of a certificate and of its key".to_owned()
            }
            Self::SealingKeys { .. } => KEY_FORMS.to_owned(),
            Self::Patterns { .. } => "patterns as `KEYS` takes them, such as \"user:*\"".to_owned(),
            Self::Prefixes { .. } => "prefixes of `sharding.routes`, such as \"order:\"".to_owned(),
            Self::UserNames { .. } => "names of users, such as \"shop\"".to_owned(),
            Self::Buckets { .. } => format!(
                "for each shard its buckets as numbers below {BUCKETS_MAX} joined by `-`, such as \"0-2-4\""
            ),
            Self::HashTag { .. } => {
                "two printable ASCII characters, such as \"{}\", or nothing".to_owned()
            }
            Self::AddressMap { .. } => MAP_FORMS.to_owned(),
            Self::Routes { .. } => ROUTE_FORMS.to_owned(),
            Self::Zones { .. } => ZONE_FORMS.to_owned(),
            Self::Weights { .. } => WEIGHT_FORMS.to_owned(),
            Self::Monitors { .. } => MONITOR_FORMS.to_owned(),
            Self::Names { names, .. } => format!("any of {}", names.join(", ")),
            Self::HttpUrl { .. } => {
                "http://host[:port][/path] or https://host[:port][/path]".to_owned()
            }
            Self::Commands { .. } => {
                "names of commands, such as \"get\" or \"object|freq\"".to_owned()
            }
        }
    }

    /// The type in one or two words, for the reference.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Count { .. } => "number",
            Self::Bytes { .. } => "size in bytes",
            Self::Time { unit, .. } => unit,
            Self::Switch { .. } => "true or false",
            Self::Mode { .. } => "octal string",
            Self::ClientName { .. } | Self::Text { .. } => "string",
            Self::Path { .. } => "path",
            Self::Secret { .. } => "string (secret)",
            Self::Choice { .. } => "choice",
            Self::Cpus { .. } => "list of CPUs",
            Self::Listen { .. } | Self::Announce { .. } => "list of addresses",
            Self::Listeners { .. } => "list of listeners",
            Self::Networks { .. } => "list of networks",
            Self::Upstream { .. } => "URL",
            Self::HttpUrl { .. } => "URL (secret but for its host)",
            Self::Shards { .. } => "list of shards",
            Self::Users { .. } => "list of users",
            Self::Rules { .. } => "list of rules",
            Self::Buckets { .. }
            | Self::CertFiles { .. }
            | Self::Patterns { .. }
            | Self::Prefixes { .. }
            | Self::UserNames { .. } => "list of strings",
            Self::Mirrors { .. } => "list of mirrors",
            Self::SealingKeys { .. } => "list of keys",
            Self::ReadTargets { .. } => "list of read targets",
            Self::HashTag { .. } => "two characters",
            Self::AddressMap { .. }
            | Self::Routes { .. }
            | Self::Zones { .. }
            | Self::Weights { .. }
            | Self::Monitors { .. }
            | Self::Renames { .. } => "table",
            Self::Commands { .. } => "list of commands",
            Self::Names { .. } => "list of names",
        }
    }

    /// The placeholder of the value on the command line.
    pub(crate) fn placeholder(&self) -> &'static str {
        match self {
            Self::Count { .. } => "N",
            Self::Bytes { .. } => "SIZE",
            Self::Time { unit: "milliseconds", .. } => "MS",
            Self::Time { unit: "microseconds", .. } => "US",
            Self::Time { .. } => "S",
            Self::Switch { .. } => "BOOL",
            Self::Mode { .. } => "MODE",
            Self::ClientName { .. } | Self::Text { .. } => "NAME",
            Self::Path { .. } => "FILE",
            Self::Secret { .. } => "PASSWORD",
            Self::Choice { .. } => "NAME",
            Self::Cpus { .. } => "CPUS",
            Self::Listen { .. } | Self::Listeners { .. } | Self::Announce { .. } => "ADDRESS",
            Self::Networks { .. } => "NETWORK",
            Self::Upstream { .. } | Self::HttpUrl { .. } => "URL",
            Self::Shards { .. } => "SHARD",
            Self::Users { .. } => "USER",
            Self::Rules { .. } => "RULE",
            Self::Renames { .. } => "COMMAND=NAME",
            Self::Mirrors { .. } => "MIRROR",
            Self::ReadTargets { .. } => "TARGET",
            Self::Buckets { .. } => "BUCKETS",
            Self::Patterns { .. } => "PATTERN",
            Self::UserNames { .. } => "NAME",
            Self::Prefixes { .. } => "PREFIX",
            Self::SealingKeys { .. } => "KEY",
            Self::CertFiles { .. } => "FILES",
            Self::HashTag { .. } => "CHARS",
            Self::AddressMap { .. } => "ADDRESS=ADDRESS",
            Self::Routes { .. } => "PREFIX=SHARDS",
            Self::Zones { .. } => "ADDRESS=ZONE",
            Self::Weights { .. } => "ADDRESS=N",
            Self::Monitors { .. } => "NAME=WORDS",
            Self::Commands { .. } => "COMMANDS",
            Self::Names { .. } => "NAMES",
        }
    }

    /// The value that the draft holds, written as TOML; `None`: nothing is set.
    pub(crate) fn toml_value(&self, draft: &mut Draft) -> Option<String> {
        self.words(draft).map(|words| self.toml_of(&words))
    }

    /// The value that the draft holds, as words for a flag; `None`: nothing is set. Secrets are three stars.
    pub(crate) fn words(&self, draft: &mut Draft) -> Option<Vec<String>> {
        let one = |word: String| Some(vec![word]);
        match self {
            Self::Count { at, .. } => one(at(draft).to_string()),
            Self::Bytes { at, .. } => one(shown_size(*at(draft))),
            Self::Time { at, .. } => one(at(draft).to_string()),
            Self::Switch { at } => one(at(draft).to_string()),
            Self::Mode { at } => one(format!("{:04o}", at(draft))),
            Self::ClientName { at } => one(at(draft).clone()),
            Self::Text { at } => at(draft).clone().and_then(one),
            Self::HttpUrl { at } => at(draft).as_ref().and_then(|url| one(url.to_string())),
            Self::Names { at, .. } => Some(shown_each(at(draft))),
            Self::Path { at } => {
                at(draft).as_ref().and_then(|path| one(path.display().to_string()))
            }
            Self::Secret { at } => at(draft).as_ref().and_then(|_| one(HIDDEN.to_owned())),
            Self::Choice { names, index, .. } => {
                index(draft).and_then(|index| one(names()[index].to_owned()))
            }
            Self::HashTag { at } => at(draft).and_then(|tag| {
                one(tag.map(|tag| tag.map(char::from).iter().collect()).unwrap_or_default())
            }),
            Self::Upstream { at } => one(at(draft).to_string()),
            Self::Cpus { at } => Some(shown_each(at(draft))),
            Self::Listen { at } => Some(shown_each(at(draft))),
            Self::Listeners { at } => Some(shown_each(at(draft))),
            Self::Networks { at } => Some(shown_each(at(draft))),
            Self::Announce { at } => Some(shown_each(at(draft))),
            Self::Commands { at } => {
                Some(at(draft).iter().map(|id| id.name().to_owned()).collect())
            }
            Self::Shards { at } => some_each(at(draft)),
            Self::Users { at } => some_each(at(draft)),
            Self::Rules { at, .. } => some_each(at(draft)),
            Self::Mirrors { at } => some_each(at(draft)),
            Self::SealingKeys { at } => Some(shown_each(at(draft))),
            Self::ReadTargets { at } => some_each(at(draft)),
            Self::Buckets { at } => some_each(at(draft)),
            Self::Patterns { at } | Self::UserNames { at } | Self::Prefixes { at } => {
                Some(shown_each(at(draft)))
            }
            Self::CertFiles { at } => Some(shown_each(at(draft))),
            Self::AddressMap { at } => some_each(at(draft)),
            Self::Routes { at } => some_each(at(draft)),
            Self::Zones { at } | Self::Renames { at } => {
                let pairs = at(draft).iter().map(|(at, zone)| format!("{at}={zone}"));
                Some(pairs.collect()).filter(|pairs: &Vec<_>| !pairs.is_empty())
            }
            Self::Weights { at } => {
                let pairs = at(draft).iter().map(|(at, weight)| format!("{at}={weight}"));
                Some(pairs.collect()).filter(|pairs: &Vec<_>| !pairs.is_empty())
            }
            Self::Monitors { at } => {
                let shown: Vec<String> = at(draft).iter().map(monitors::words).collect();
                Some(shown).filter(|shown| !shown.is_empty())
            }
        }
    }

    /// Words, as they stand after a flag, as a value of the file.
    pub(crate) fn toml_of(&self, words: &[String]) -> String {
        if self.is_table() {
            let pairs = words.iter().map(|pair| {
                let (key, value) = match self {
                    Self::Routes { .. } => pair.rsplit_once('='),
                    _ => pair.split_once('=').map(|(key, value)| (key.trim(), value)),
                }
                .unwrap_or((pair, ""));
                format!("{} = {}", quoted(key), self.toml_scalar(value.trim()))
            });
            return format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "));
        }
        let mut items = words.iter().map(|word| self.toml_scalar(word));
        if self.is_list() {
            return format!("[{}]", items.collect::<Vec<_>>().join(", "));
        }
        items.next().unwrap_or_else(|| quoted(""))
    }

    fn toml_scalar(&self, word: &str) -> String {
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Self::Bytes { .. } | Self::Cpus { .. } | Self::Weights { .. } if !is_number => {
                quoted(word)
            }
            Self::Count { .. }
            | Self::Time { .. }
            | Self::Bytes { .. }
            | Self::Cpus { .. }
            | Self::Weights { .. } => without_leading_zeros(word).to_owned(),
            Self::Switch { .. } => matches!(word, "true" | "yes" | "on").to_string(),
            _ => quoted(word),
        }
    }

    /// Whether two drafts hold the same value.
    pub(crate) fn is_same(&self, one: &mut Draft, other: &mut Draft) -> bool {
        match self {
            Self::Count { at, .. } | Self::Bytes { at, .. } => at(one) == at(other),
            Self::Time { at, .. } => at(one) == at(other),
            Self::Switch { at } => at(one) == at(other),
            Self::Mode { at } => at(one) == at(other),
            Self::ClientName { at } => at(one) == at(other),
            Self::Text { at } => at(one) == at(other),
            Self::HttpUrl { at } => at(one) == at(other),
            Self::Names { at, .. } => at(one) == at(other),
            Self::Path { at } => at(one) == at(other),
            Self::Secret { at } => at(one) == at(other),
            Self::Choice { index, .. } => index(one) == index(other),
            Self::HashTag { at } => at(one) == at(other),
            Self::Upstream { at } => at(one) == at(other),
            Self::Cpus { at } => at(one) == at(other),
            Self::Listen { at } => at(one) == at(other),
            Self::Listeners { at } => at(one) == at(other),
            Self::Networks { at } => at(one) == at(other),
            Self::Announce { at } => at(one) == at(other),
            Self::Commands { at } => at(one) == at(other),
            Self::Shards { at } => at(one) == at(other),
            Self::Users { at } => at(one) == at(other),
            Self::Rules { at, .. } => at(one) == at(other),
            Self::Buckets { at }
            | Self::Patterns { at }
            | Self::Prefixes { at }
            | Self::UserNames { at } => at(one) == at(other),
            Self::Mirrors { at } => at(one) == at(other),
            Self::SealingKeys { at } => at(one) == at(other),
            Self::ReadTargets { at } => at(one) == at(other),
            Self::CertFiles { at } => at(one) == at(other),
            Self::AddressMap { at } => at(one) == at(other),
            Self::Routes { at } => at(one) == at(other),
            Self::Zones { at } | Self::Renames { at } => at(one) == at(other),
            Self::Weights { at } => at(one) == at(other),
            Self::Monitors { at } => at(one) == at(other),
        }
    }
}

/// The digits of a number as TOML takes them. `CONFIG SET` and the admin listener accept leading zeros.
fn without_leading_zeros(word: &str) -> &str {
    let last = word.len().saturating_sub(1);
    let zeros = word.bytes().take(last).take_while(|byte| *byte == b'0').count();
    &word[zeros..]
}

impl Kind {
    /// Gives a draft the value that another one has. Choices have no field to be copied: they are set by their number.
    pub(crate) fn copy(&self, from: &mut Draft, to: &mut Draft) {
        match self {
            Self::Count { at, .. } | Self::Bytes { at, .. } => *at(to) = *at(from),
            Self::Time { at, .. } => *at(to) = *at(from),
            Self::Switch { at } => *at(to) = *at(from),
            Self::Mode { at } => *at(to) = *at(from),
            Self::ClientName { at } => at(to).clone_from(at(from)),
            Self::Text { at } => at(to).clone_from(at(from)),
            Self::HttpUrl { at } => at(to).clone_from(at(from)),
            Self::Names { at, .. } => at(to).clone_from(at(from)),
            Self::Path { at } => at(to).clone_from(at(from)),
            Self::Secret { at } => at(to).clone_from(at(from)),
            Self::Choice { set, index, .. } => {
                if let Some(index) = index(from) {
                    set(to, index);
                }
            }
            Self::HashTag { at } => *at(to) = *at(from),
            Self::Upstream { at } => at(to).clone_from(at(from)),
            Self::Cpus { at } => at(to).clone_from(at(from)),
            Self::Listen { at } => at(to).clone_from(at(from)),
            Self::Listeners { at } => at(to).clone_from(at(from)),
            Self::Networks { at } => at(to).clone_from(at(from)),
            Self::Announce { at } => at(to).clone_from(at(from)),
            Self::Commands { at } => at(to).clone_from(at(from)),
            Self::Shards { at } => at(to).clone_from(at(from)),
            Self::Users { at } => at(to).clone_from(at(from)),
            Self::Rules { at, .. } => at(to).clone_from(at(from)),
            Self::Buckets { at }
            | Self::Patterns { at }
            | Self::Prefixes { at }
            | Self::UserNames { at } => {
                at(to).clone_from(at(from));
            }
            Self::Mirrors { at } => at(to).clone_from(at(from)),
            Self::SealingKeys { at } => at(to).clone_from(at(from)),
            Self::ReadTargets { at } => at(to).clone_from(at(from)),
            Self::CertFiles { at } => at(to).clone_from(at(from)),
            Self::AddressMap { at } => at(to).clone_from(at(from)),
            Self::Routes { at } => at(to).clone_from(at(from)),
            Self::Zones { at } | Self::Renames { at } => at(to).clone_from(at(from)),
            Self::Weights { at } => at(to).clone_from(at(from)),
            Self::Monitors { at } => at(to).clone_from(at(from)),
        }
    }
}

/// What stands in the place of a secret.
pub(crate) const HIDDEN: &str = "***";

fn shown_each(items: &[impl ToString]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

/// As above; nothing is set where there is nothing.
fn some_each(items: &[impl ToString]) -> Option<Vec<String>> {
    Some(shown_each(items)).filter(|items| !items.is_empty())
}

/// A size with the largest unit that divides it.
fn shown_size(bytes: usize) -> String {
    [("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            char if char.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_with_the_largest_unit_that_divides_them() {
        for (bytes, text) in
            [(0, "0B"), (1000, "1000B"), (1024, "1KiB"), (1536 << 10, "1536KiB"), (2 << 30, "2GiB")]
        {
            assert_eq!(shown_size(bytes), text);
        }
    }

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(quoted("a\nb"), r#""a\u000Ab""#);
    }
}
