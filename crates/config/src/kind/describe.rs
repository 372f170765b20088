//! What a kind of value is called, allows, and looks like, in words for a person.
//!
//! Help, reference, example file and messages all take their words from here, so that they agree. Nothing is read or
//! checked here.
//!
//! Invariant: no text made here contains the value of a secret.

use engine::route::shard::BUCKETS_MAX;

use super::entries::{MAP_FORMS, WEIGHT_FORMS, ZONE_FORMS};
use super::{CPU_MAX, Kind};
use crate::address::{ANNOUNCE_FORMS, LISTEN_FORMS, UPSTREAM_FORMS};
use crate::compile::Draft;
use crate::sharding::SHARD_FORMS;

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
            Self::Announce { .. } => ANNOUNCE_FORMS.to_owned(),
            Self::Upstream { .. } => UPSTREAM_FORMS.to_owned(),
            Self::Shards { .. } => SHARD_FORMS.to_owned(),
            Self::Buckets { .. } => format!(
                "for each shard its buckets as numbers below {BUCKETS_MAX} joined by `-`, such as \"0-2-4\""
            ),
            Self::HashTag { .. } => {
                "two printable ASCII characters, such as \"{}\", or nothing".to_owned()
            }
            Self::AddressMap { .. } => MAP_FORMS.to_owned(),
            Self::Zones { .. } => ZONE_FORMS.to_owned(),
            Self::Weights { .. } => WEIGHT_FORMS.to_owned(),
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
            Self::Upstream { .. } => "URL",
            Self::Shards { .. } => "list of shards",
            Self::Buckets { .. } => "list of strings",
            Self::HashTag { .. } => "two characters",
            Self::AddressMap { .. } | Self::Zones { .. } | Self::Weights { .. } => "table",
            Self::Commands { .. } => "list of commands",
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
            Self::Listen { .. } | Self::Announce { .. } => "ADDRESS",
            Self::Upstream { .. } => "URL",
            Self::Shards { .. } => "SHARD",
            Self::Buckets { .. } => "BUCKETS",
            Self::HashTag { .. } => "CHARS",
            Self::AddressMap { .. } => "ADDRESS=ADDRESS",
            Self::Zones { .. } => "ADDRESS=ZONE",
            Self::Weights { .. } => "ADDRESS=N",
            Self::Commands { .. } => "COMMANDS",
        }
    }

    /// The value that the draft holds, written as TOML; `None`: nothing is set.
    pub(crate) fn toml_value(&self, draft: &mut Draft) -> Option<String> {
        match self {
            Self::Count { at, .. } => Some(at(draft).to_string()),
            Self::Bytes { at, .. } => Some(format!("\"{}\"", shown_size(*at(draft)))),
            Self::Time { at, .. } => Some(at(draft).to_string()),
            Self::Switch { at } => Some(at(draft).to_string()),
            Self::Mode { at } => Some(format!("\"{:04o}\"", at(draft))),
            Self::ClientName { at } => Some(quoted(at(draft))),
            Self::Text { at } => at(draft).as_deref().map(quoted),
            Self::Path { at } => at(draft).as_ref().map(|path| quoted(&path.display().to_string())),
            Self::Secret { .. } => None,
            Self::Choice { names, index, .. } => index(draft).map(|index| quoted(names()[index])),
            Self::Cpus { at } => Some(format!("{:?}", at(draft))),
            Self::Listen { at } => Some(quoted_list(at(draft))),
            Self::Announce { at } => Some(quoted_list(at(draft))),
            Self::Upstream { at } => Some(quoted(&at(draft).to_string())),
            Self::Commands { at } => {
                let names: Vec<String> = at(draft).iter().map(|id| quoted(id.name())).collect();
                Some(format!("[{}]", names.join(", ")))
            }
            // Only defaults are shown, and by default nothing is sharded and these tables are empty.
            Self::Shards { .. }
            | Self::Buckets { .. }
            | Self::HashTag { .. }
            | Self::AddressMap { .. }
            | Self::Zones { .. }
            | Self::Weights { .. } => None,
        }
    }
}

/// A size with the largest unit that divides it.
fn shown_size(bytes: usize) -> String {
    [("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|(_, shift)| bytes != 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// A TOML array of strings.
fn quoted_list(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(&item.to_string())).collect();
    format!("[{}]", items.join(", "))
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
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
    }
}
