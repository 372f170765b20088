//! Options that are a table with keys of the operator's own, and lists of command names.
//!
//! In the file such a table is one of TOML (`"10.0.0.5:6379" = "127.0.0.1:7000"`), on the command line and in the environment a list
//! of `key=value`. Both come here as pairs.
//!
//! Not here: what the entries do (`engine::address_map`, `engine::settings::Reads`).
//!
//! Invariant: no message repeats a value, which may be a password in the wrong table; an address is kept as servers tell it, IP addresses in their shortest form, so that the engine compares plain text.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use engine::command::{self, CommandId};

use super::Kind;
use super::scalar::{Item, Raw, Scalar, items, text};
use crate::address::is_host;
use crate::options::{OPTIONS, OptionSpec};
use crate::policies;
use crate::problem::Fault;
use crate::schema::MappedAddress;
use crate::sharding::RouteLine;
use crate::suggest::closest;

/// Most entries of one table.
const ENTRIES_MAX: usize = 4096;

/// What an entry of the address map looks like, for messages.
pub(super) const MAP_FORMS: &str = "\"host:port\" = \"host:port\", or \"host\" = \"host\" for every other port of a host; IPv6 with a \
     port is written [::1]:6379";

/// What an entry of the zones looks like, for messages.
pub(super) const ZONE_FORMS: &str = "\"host:port\" = \"zone\", or \"host\" = \"zone\" for every other port of a host; IPv6 with a port is written [::1]:6379";

/// What an entry of the weights looks like, for messages.
pub(super) const WEIGHT_FORMS: &str =
    "\"host:port\" = N, or \"host\" = N for every other port of a host, N from 0 to 100";

/// Highest weight: a list of readers names each as often.
pub(super) const WEIGHT_MAX: u16 = 100;

/// A key and its value, and where they stand.
pub(super) struct Pair<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    span: Option<Range<usize>>,
}

impl Kind {
    /// Reads the address map.
    pub(super) fn read_address_map(&self, raw: &Raw<'_>) -> Result<Vec<MappedAddress>, Vec<Fault>> {
        self.read_entries(
            raw,
            |pair| {
                let (from, to) = (Place::parse(pair.key)?, Place::parse(pair.value)?);
                Ok(match (from, to) {
                    (Place { host, port: Some(port) }, Place { host: to, port: Some(to_port) }) => {
                        MappedAddress::Port { host, port, to_host: to, to_port }
                    }
                    (Place { host, port: None }, Place { host: to_host, port: None }) => {
                        MappedAddress::Host { host, to_host }
                    }
                    _ => return Err("has a port on one side only".to_owned()),
                })
            },
            MappedAddress::is_same_place,
        )
    }

    /// Reads routes. A prefix is taken as it is, blanks and all.
    pub(super) fn read_routes(&self, raw: &Raw<'_>) -> Result<Vec<RouteLine>, Vec<Fault>> {
        self.read_entries(
            raw,
            |pair| RouteLine::parse(pair.key, pair.value),
            |one, other| one.prefix == other.prefix,
        )
    }

    /// Reads zones: the label of a server, or its host, and the zone.
    pub(super) fn read_zones(&self, raw: &Raw<'_>) -> Result<Vec<(String, String)>, Vec<Fault>> {
        self.read_entries(
            raw,
            |pair| {
                if pair.value.is_empty() {
                    return Err("has no zone".to_owned());
                }
                Ok((Place::parse(pair.key)?.label(), pair.value.to_owned()))
            },
            |one, other| one.0 == other.0,
        )
    }

    /// Reads other names of commands, each with the command's own.
    pub(super) fn read_renames(&self, raw: &Raw<'_>) -> Result<Vec<(String, String)>, Vec<Fault>> {
        let renames = self.read_entries(
            raw,
            |pair| policies::renaming(pair.key, pair.value),
            |one, other| one.0 == other.0,
        )?;
        policies::check_renamings(&renames).map_or(Ok(renames), |fault| Err(vec![fault]))
    }

    /// Reads weights: the label of a server, or its host, and the number.
    pub(super) fn read_weights(&self, raw: &Raw<'_>) -> Result<Vec<(String, u16)>, Vec<Fault>> {
        self.read_entries(
            raw,
            |pair| match pair.value.parse() {
                Ok(weight) if weight <= WEIGHT_MAX => Ok((Place::parse(pair.key)?.label(), weight)),
                _ => Err(format!("has no weight from 0 to {WEIGHT_MAX}")),
            },
            |one, other| one.0 == other.0,
        )
    }

    /// Reads entries, all of them, however many are wrong.
    pub(super) fn read_entries<T>(
        &self,
        raw: &Raw<'_>,
        read: impl Fn(&Pair<'_>) -> Result<T, String>,
        is_same: impl Fn(&T, &T) -> bool,
    ) -> Result<Vec<T>, Vec<Fault>> {
        let (mut entries, mut faults): (Vec<T>, Vec<Fault>) = (Vec::new(), Vec::new());
        for item in items(raw) {
            let found = match self {
                Self::Routes { .. } => pair_of_prefix(item),
                _ => pair(item, matches!(self, Self::Weights { .. })),
            };
            let Some(pair) = found else {
                faults.push(self.fault(item.span.clone(), &item.scalar));
                continue;
            };
            let found = format!("found {}", Scalar::Pair(pair.key, pair.value).shown());
            let fault = |message| Fault { span: pair.span.clone(), message };
            match belongs_here(&pair).and_then(|()| read(&pair)) {
                Ok(entry) if entries.iter().any(|other| is_same(other, &entry)) => {
                    faults.push(fault(format!(
                        "{found}, whose left side stands here twice; name each once"
                    )));
                }
                Ok(entry) => entries.push(entry),
                Err(why) => {
                    faults
                        .push(fault(format!("{found}, which {why}; allowed: {}", self.allowed())));
                }
            }
        }
        if faults.is_empty() && entries.len() > ENTRIES_MAX {
            let message = format!("found {} entries; allowed: up to {ENTRIES_MAX}", entries.len());
            faults.push(Fault { span: None, message });
        }
        if faults.is_empty() { Ok(entries) } else { Err(faults) }
    }

    /// Reads names of commands. One with subcommands stands for all of them.
    pub(super) fn read_commands(&self, raw: &Raw<'_>) -> Result<Vec<CommandId>, Vec<Fault>> {
        let (mut commands, mut faults) = (Vec::new(), Vec::new());
        for item in items(raw) {
            match text(&item.scalar).map(|name| (name, find_command(name))) {
                Some((_, Some(id))) => {
                    commands.extend(std::iter::once(id).chain(id.subcommands()));
                }
                Some((name, None)) => {
                    let advice = closest(name, CommandId::all().map(CommandId::name))
                        .map_or_else(String::new, |known| format!(" (did you mean `{known}`?)"));
                    let message = format!(
                        "found {}, a command that respool does not know{advice}; such commands go to the primary in any case; allowed: {}",
                        item.scalar.shown(),
                        self.allowed()
                    );
                    faults.push(Fault { span: item.span.clone(), message });
                }
                None => faults.push(self.fault(item.span.clone(), &item.scalar)),
            }
        }
        commands.sort_unstable_by_key(|id| id.index());
        commands.dedup();
        if faults.is_empty() { Ok(commands) } else { Err(faults) }
    }
}

/// A command by its name in any case: `get`, `object|freq` or `object freq`.
pub(super) fn find_command(name: &str) -> Option<CommandId> {
    match name.split_once(['|', ' ']) {
        Some((container, sub)) => {
            command::lookup_sub(command::lookup(container.as_bytes())?, sub.trim().as_bytes())
        }
        None => command::lookup(name.as_bytes()),
    }
}

/// In TOML everything behind a table's head is the table's. A password that ended up in it would silently be none.
fn belongs_here(pair: &Pair<'_>) -> Result<(), String> {
    let is_option = |option: &OptionSpec| option.key() == pair.key;
    if pair.key.contains("password") && OPTIONS.iter().any(is_option) {
        return Err("is an option of its own; its line belongs before the first [table]".to_owned());
    }
    Ok(())
}

/// Key and value of an item that has both; `numbers`: the value may be one.
fn pair<'a>(item: &Item<'a>, numbers: bool) -> Option<Pair<'a>> {
    let (key, value) = match item.scalar {
        Scalar::Pair(key, value) => (key, value),
        Scalar::Weighed(key, value) if numbers => (key, value),
        Scalar::Word(word) => word.split_once('=')?,
        _ => return None,
    };
    Some(Pair { key: key.trim(), value: value.trim(), span: item.span.clone() })
}

/// The same where the key is a prefix of the operator's keys: any text, which ends at the last `=` of a word.
fn pair_of_prefix<'a>(item: &Item<'a>) -> Option<Pair<'a>> {
    let (key, value) = match item.scalar {
        Scalar::Pair(key, value) => (key, value),
        Scalar::Word(word) => word.rsplit_once('=')?,
        _ => return None,
    };
    Some(Pair { key, value: value.trim(), span: item.span.clone() })
}

/// A host, and a port if one is meant.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    host: String,
    port: Option<u16>,
}

impl Place {
    /// Reads `host`, `host:port`, `::1`, `[::1]` or `[::1]:port`. The error goes on after "which".
    fn parse(text: &str) -> Result<Self, String> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or("has no closing `]`")?;
                if host.parse::<Ipv6Addr>().is_err() {
                    return Err("has no IPv6 address in its brackets".to_owned());
                }
                match port.strip_prefix(':') {
                    None if port.is_empty() => (host, None),
                    Some(port) => (host, Some(port)),
                    None => return Err("has more than a port after `]`".to_owned()),
                }
            }
            None if text.parse::<Ipv6Addr>().is_ok() => (text, None),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if !is_host(host) || (host.contains(':') && host.parse::<Ipv6Addr>().is_err()) {
            return Err("is no host (letters, digits and `.` `-` `_` only)".to_owned());
        }
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port != 0 => Some(port),
            Some(_) => return Err("has a port that is not a number from 1 to 65535".to_owned()),
        };
        // Servers tell addresses in the form of inet_ntop(3), which is also Rust's.
        let host = host.parse::<IpAddr>().map_or_else(|_| host.to_owned(), |ip| ip.to_string());
        Ok(Self { host, port })
    }

    /// As the engine labels servers; without a port the host alone.
    fn label(&self) -> String {
        match self.port {
            Some(port) => engine::node::Address::tcp(self.host.as_str(), port).label(),
            None => self.host.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_in_every_form_and_labelled_as_the_engine_does() {
        for (text, label) in [
            ("10.0.0.5", "10.0.0.5"),
            ("10.0.0.5:6379", "10.0.0.5:6379"),
            ("cache-1.example_x:7000", "cache-1.example_x:7000"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("[0:0::1]:7000", "[::1]:7000"),
        ] {
            assert_eq!(Place::parse(text).unwrap().label(), label, "{text}");
        }
        for text in [
            "", ":6379", "a:0", "a:70000", "a:b:c", "a:", "[::1", "[a]:1", "[::1]x", "a b",
            "a/b:1", "1:2:3",
        ] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn commands_are_found_in_every_form() {
        for name in ["get", "GET", "object|freq", "OBJECT FREQ", "xinfo stream"] {
            assert!(find_command(name).is_some(), "{name}");
        }
        for name in ["", "gett", "object|gett", "get|x", "|", " "] {
            assert!(find_command(name).is_none(), "{name}");
        }
    }
}
