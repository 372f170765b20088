//! The kinds of value an option can have: how each is read, checked, named and shown.
//!
//! A value comes in two dresses. From the file it is typed (`workers = "4"` is a mistake that is worth a message); from
//! the command line and the environment it is a word. [`Item`] holds both, so that each kind is read in one place.
//! Rules between options are not here but in [`crate::rules`].
//!
//! Invariant: [`Kind::assign`] changes the draft only when it returns `Ok`, and its messages never repeat the value of a
//! kind for which [`Kind::is_secret`] holds.
//! Read next: `scalar` (the two dresses), `describe` (the words for a person), `json` (the same for editors).

mod describe;
mod entries;
mod hints;
mod json;
pub(crate) mod monitors;
mod names;
mod scalar;

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

use engine::command::CommandId;
use engine::route::shard::{Distribution, ROUTES_MAX, ShardsError};
use engine::stats::monitors::MonitorOptions;

use crate::address::{ListenAddress, UpstreamUrl, parse_announced};
use crate::compile::Draft;
use crate::listen::Listen;
use crate::mirrors::{self, MirrorLine};
use crate::network::{NETWORKS_MAX, Network};
use crate::policies::{self, Policy, RuleLine};
use crate::problem::Fault;
use crate::read_targets::{self, ReadTargetLine};
use crate::schema::MappedAddress;
use crate::secret::{Secret, SecretUrl};
use crate::sharding::{self, Entry, RouteLine};
use crate::tls::{CertFiles, MORE_CERTS_MAX};
use crate::users::{self, UserLine};
use crate::values::{self, KeyLine};
use names::is_http_url;
use scalar::{cpu_range, integer, items, mode, switch, text, within};

pub(crate) use scalar::{Item, Raw, Scalar, octal, size};

/// The kind of an option: bounds, and the field that takes the value.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A number of things.
    Count { min: usize, max: usize, at: fn(&mut Draft) -> &mut usize },
    /// A size in bytes; `64MiB` in a string is taken as well.
    Bytes { min: usize, max: usize, at: fn(&mut Draft) -> &mut usize },
    /// A time; the unit is part of the option's name.
    Time { unit: &'static str, min: u64, max: u64, at: fn(&mut Draft) -> &mut u64 },
    /// True or false.
    Switch { at: fn(&mut Draft) -> &mut bool },
    /// Permission bits.
    Mode { at: fn(&mut Draft) -> &mut u32 },
    /// A name that Redis takes for `CLIENT SETNAME`; may be empty.
    ClientName { at: fn(&mut Draft) -> &mut String },
    /// Free text that is not empty.
    Text { at: fn(&mut Draft) -> &mut Option<String> },
    /// A path of a file.
    Path { at: fn(&mut Draft) -> &mut Option<PathBuf> },
    /// A password.
    Secret { at: fn(&mut Draft) -> &mut Option<Secret> },
    /// One of a few names.
    Choice {
        /// The names; asked for and not written down where the engine has them.
        names: fn() -> &'static [&'static str],
        set: fn(&mut Draft, usize),
        /// Which is chosen; `None` where nothing is.
        index: fn(&Draft) -> Option<usize>,
    },
    /// Numbers of CPUs, also as ranges.
    Cpus { at: fn(&mut Draft) -> &mut Vec<usize> },
    /// Addresses to listen on.
    Listen { at: fn(&mut Draft) -> &mut Vec<ListenAddress> },
    /// Addresses to listen on, one at least, with what holds for the clients that come there.
    Listeners { at: fn(&mut Draft) -> &mut Vec<Listen> },
    /// Networks.
    Networks { at: fn(&mut Draft) -> &mut Vec<Network> },
    /// Addresses that clients connect to from elsewhere.
    Announce { at: fn(&mut Draft) -> &mut Vec<SocketAddr> },
    /// The URL of the server.
    Upstream { at: fn(&mut Draft) -> &mut UpstreamUrl },
    /// Several of them.
    Shards { at: fn(&mut Draft) -> &mut Vec<Entry> },
    /// Rules of a policy.
    Rules { policy: Policy, at: fn(&mut Draft) -> &mut Vec<RuleLine> },
    /// Commands and their other names; a table.
    Renames { at: fn(&mut Draft) -> &mut Vec<(String, String)> },
    /// Users and their rules.
    Users { at: fn(&mut Draft) -> &mut Vec<UserLine> },
    /// Mirrors.
    Mirrors { at: fn(&mut Draft) -> &mut Vec<MirrorLine> },
    /// Read targets.
    ReadTargets { at: fn(&mut Draft) -> &mut Vec<ReadTargetLine> },
    /// Lists of bucket numbers, one for each shard.
    Buckets { at: fn(&mut Draft) -> &mut Vec<String> },
    /// Prefixes and the shards of the keys that begin so; a table.
    Routes { at: fn(&mut Draft) -> &mut Vec<RouteLine> },
    /// Those of them that are removed.
    Prefixes { at: fn(&mut Draft) -> &mut Vec<String> },
    /// Patterns as `KEYS` takes them.
    Patterns { at: fn(&mut Draft) -> &mut Vec<String> },
    /// Names of users.
    UserNames { at: fn(&mut Draft) -> &mut Vec<String> },
    /// Keys that values are encrypted with.
    SealingKeys { at: fn(&mut Draft) -> &mut Vec<KeyLine> },
    /// Files of certificates, each with that of its key.
    CertFiles { at: fn(&mut Draft) -> &mut Vec<CertFiles> },
    /// The two characters of a hash tag, or none.
    HashTag { at: fn(&mut Draft) -> &mut Option<Option<[u8; 2]>> },
    /// What to connect to instead of addresses that servers tell; a table.
    AddressMap { at: fn(&mut Draft) -> &mut Vec<MappedAddress> },
    /// Servers or hosts and their zones; a table.
    Zones { at: fn(&mut Draft) -> &mut Vec<(String, String)> },
    /// Servers or hosts and their weights; a table.
    Weights { at: fn(&mut Draft) -> &mut Vec<(String, u16)> },
    /// Latency monitors; a table.
    Monitors { at: fn(&mut Draft) -> &mut Vec<MonitorOptions> },
    /// Names of commands.
    Commands { at: fn(&mut Draft) -> &mut Vec<CommandId> },
    /// Some of a few names.
    Names {
        /// All that there are.
        names: &'static [&'static str],
        at: fn(&mut Draft) -> &mut Vec<&'static str>,
    },
    /// A URL that begins with `http://`.
    HttpUrl { at: fn(&mut Draft) -> &mut Option<SecretUrl> },
}

/// Highest CPU number taken; `cpu_set_t` of the C library ends there (sched_setaffinity(2)).
const CPU_MAX: usize = 1023;

/// Most patterns of a list: each is tried for each key that is to be kept.
const TEXTS_MAX: usize = 64;

/// Most addresses to listen on, and most that are announced.
const ADDRESSES_MAX: usize = 64;

impl Kind {
    /// Reads a value into the draft. Several faults are possible for lists.
    pub(crate) fn assign(&self, draft: &mut Draft, raw: &Raw<'_>) -> Result<(), Vec<Fault>> {
        if self.assign_several(draft, raw)? {
            return Ok(());
        }
        let item = match raw {
            Raw::One(item) => item,
            Raw::List(_) => return Err(vec![self.fault(None, &Scalar::Other("list"))]),
        };
        self.assign_scalar(draft, &item.scalar)
            .map_err(|message| vec![Fault { span: None, message }])
    }

    /// The same, if it is a list or a table; whether it is.
    fn assign_several(&self, draft: &mut Draft, raw: &Raw<'_>) -> Result<bool, Vec<Fault>> {
        match self {
            Self::Cpus { at } => *at(draft) = self.read_cpus(raw)?,
            Self::Listen { at } => {
                *at(draft) = self.read_addresses(raw, 0, ListenAddress::parse, PartialEq::eq)?;
            }
            Self::Listeners { at } => {
                let is_same = |one: &Listen, other: &Listen| one.address == other.address;
                *at(draft) = self.read_addresses(raw, 1, Listen::parse, is_same)?;
            }
            Self::Networks { at } => *at(draft) = self.read_networks(raw)?,
            Self::Announce { at } => {
                *at(draft) = self.read_addresses(raw, 0, parse_announced, PartialEq::eq)?;
            }
            Self::Shards { at } => *at(draft) = self.read_shards(raw)?,
            Self::Users { at } => {
                let items = items(raw);
                *at(draft) = users::read_lines(self.lines(items), |at| items[at].span.clone())?;
            }
            Self::SealingKeys { at } => {
                let items = items(raw);
                *at(draft) = values::read_lines(self.lines(items), |at| items[at].span.clone())?;
            }
            Self::Rules { policy, at } => {
                let (items, lines) = (items(raw), self.lines(items(raw)));
                *at(draft) = policies::read_lines(*policy, lines, |at| items[at].span.clone())?;
            }
            Self::Renames { at } => *at(draft) = self.read_renames(raw)?,
            Self::Mirrors { at } => *at(draft) = self.read_mirrors(raw)?,
            Self::ReadTargets { at } => {
                let items = items(raw);
                let span = |at: usize| items[at].span.clone();
                *at(draft) = read_targets::read_lines(self.lines(items), span)?;
            }
            Self::CertFiles { at } => *at(draft) = self.read_cert_files(raw)?,
            Self::Buckets { at } => *at(draft) = self.read_buckets(raw)?,
            Self::Routes { at } => *at(draft) = self.read_routes(raw)?,
            Self::Patterns { at } | Self::UserNames { at } | Self::Prefixes { at } => {
                *at(draft) = self.read_texts(raw)?;
            }
            Self::AddressMap { at } => *at(draft) = self.read_address_map(raw)?,
            Self::Zones { at } => *at(draft) = self.read_zones(raw)?,
            Self::Weights { at } => *at(draft) = self.read_weights(raw)?,
            Self::Monitors { at } => *at(draft) = self.read_monitors(raw)?,
            Self::Commands { at } => *at(draft) = self.read_commands(raw)?,
            Self::Names { names, at } => *at(draft) = self.read_names(raw, names)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Items that are lines of words.
    fn lines<'r>(
        &'r self,
        items: &'r [Item<'r>],
    ) -> impl Iterator<Item = Result<&'r str, Fault>> + 'r {
        items.iter().map(|item| {
            text(&item.scalar).ok_or_else(|| self.fault(item.span.clone(), &item.scalar))
        })
    }

    /// Reads a value of a kind that is no list.
    fn assign_scalar(&self, draft: &mut Draft, scalar: &Scalar<'_>) -> Result<(), String> {
        let wrong = || self.fault(None, scalar).message;
        match self {
            Self::Count { min, max, at } => {
                *at(draft) = integer(scalar).and_then(within(*min, *max)).ok_or_else(wrong)?;
            }
            Self::Time { min, max, at, .. } => {
                *at(draft) = integer(scalar).and_then(within(*min, *max)).ok_or_else(wrong)?;
            }
            Self::Bytes { min, max, at } => {
                let bytes = integer(scalar).or_else(|| text(scalar).and_then(size));
                *at(draft) = bytes.and_then(within(*min, *max)).ok_or_else(wrong)?;
            }
            Self::Switch { at } => *at(draft) = switch(scalar).ok_or_else(wrong)?,
            Self::Mode { at } => *at(draft) = mode(scalar).ok_or_else(wrong)?,
            Self::ClientName { at } => {
                // The characters that Redis' `validateClientName` takes, beside spaces: '!' to '~'.
                let name = text(scalar).filter(|name| name.bytes().all(|b| b.is_ascii_graphic()));
                *at(draft) = name.ok_or_else(wrong)?.to_owned();
            }
            Self::Text { at } => {
                *at(draft) =
                    Some(text(scalar).filter(|t| !t.is_empty()).ok_or_else(wrong)?.to_owned());
            }
            Self::HttpUrl { at } => {
                let url = text(scalar).filter(|url| is_http_url(url));
                *at(draft) = Some(SecretUrl::new(url.ok_or_else(wrong)?));
            }
            Self::Path { at } => {
                let path = text(scalar).filter(|t| !t.is_empty() && !t.contains('\0'));
                *at(draft) = Some(path.ok_or_else(wrong)?.into());
            }
            Self::Secret { at } => {
                *at(draft) =
                    Some(Secret::new(text(scalar).filter(|t| !t.is_empty()).ok_or_else(wrong)?));
            }
            Self::Choice { names, set, .. } => {
                let name = text(scalar).and_then(|t| names().iter().position(|name| *name == t));
                set(draft, name.ok_or_else(wrong)?);
            }
            Self::Upstream { at } => {
                *at(draft) = UpstreamUrl::parse(text(scalar).ok_or_else(wrong)?)?;
            }
            Self::HashTag { at } => {
                let tag = text(scalar).filter(|text| text.bytes().all(|b| b.is_ascii_graphic()));
                *at(draft) = Some(match tag.ok_or_else(wrong)?.as_bytes() {
                    [] => None,
                    [open, close] => Some([*open, *close]),
                    _ => return Err(wrong()),
                });
            }
            Self::Cpus { .. }
            | Self::Listen { .. }
            | Self::Listeners { .. }
            | Self::Networks { .. }
            | Self::Announce { .. }
            | Self::Shards { .. }
            | Self::Users { .. }
            | Self::Rules { .. }
            | Self::Renames { .. }
            | Self::Mirrors { .. }
            | Self::ReadTargets { .. }
            | Self::Buckets { .. }
            | Self::Routes { .. }
            | Self::Patterns { .. }
            | Self::Prefixes { .. }
            | Self::UserNames { .. }
            | Self::SealingKeys { .. }
            | Self::CertFiles { .. }
            | Self::AddressMap { .. }
            | Self::Zones { .. }
            | Self::Weights { .. }
            | Self::Monitors { .. }
            | Self::Commands { .. }
            | Self::Names { .. } => return Err(wrong()),
        }
        Ok(())
    }

    /// Reads addresses. One that stands twice is a mistake: it would end in "address in use", or in two shares for one node.
    fn read_addresses<T: fmt::Display>(
        &self,
        raw: &Raw<'_>,
        min: usize,
        parse: fn(&str) -> Result<T, String>,
        is_same: fn(&T, &T) -> bool,
    ) -> Result<Vec<T>, Vec<Fault>> {
        let (items, mut faults) = (items(raw), Vec::new());
        let mut addresses: Vec<T> = Vec::with_capacity(items.len());
        for item in items {
            let address = match text(&item.scalar) {
                Some(text) => parse(text),
                None => Err(self.fault(None, &item.scalar).message),
            };
            match address {
                Ok(address) if addresses.iter().any(|other| is_same(other, &address)) => faults
                    .push(Fault {
                        span: item.span.clone(),
                        message: format!("`{address}` stands here twice; name each address once"),
                    }),
                Ok(address) => addresses.push(address),
                Err(message) => faults.push(Fault { span: item.span.clone(), message }),
            }
        }
        if faults.is_empty() && !(min..=ADDRESSES_MAX).contains(&addresses.len()) {
            let message =
                format!("found {} addresses; allowed: {min} to {ADDRESSES_MAX}", addresses.len());
            faults.push(Fault { span: None, message });
        }
        if faults.is_empty() { Ok(addresses) } else { Err(faults) }
    }

    /// Reads networks. One that stands twice does no harm in lists that programs write.
    fn read_networks(&self, raw: &Raw<'_>) -> Result<Vec<Network>, Vec<Fault>> {
        let (mut networks, mut faults) = (Vec::new(), Vec::new());
        for item in items(raw) {
            match text(&item.scalar).map(|text| (text, Network::parse(text))) {
                Some((_, Ok(network))) => networks.push(network),
                Some((text, Err(why))) => {
                    let message = format!("found `{text}`{why}; allowed: {}", self.allowed());
                    faults.push(Fault { span: item.span.clone(), message });
                }
                None => faults.push(self.fault(item.span.clone(), &item.scalar)),
            }
        }
        if faults.is_empty() && networks.len() > NETWORKS_MAX {
            let message =
                format!("found {} networks; allowed: up to {NETWORKS_MAX}", networks.len());
            faults.push(Fault { span: None, message });
        }
        if faults.is_empty() { Ok(networks) } else { Err(faults) }
    }

    /// Reads mirrors, likewise.
    fn read_mirrors(&self, raw: &Raw<'_>) -> Result<Vec<MirrorLine>, Vec<Fault>> {
        let items = items(raw);
        let lines = items.iter().map(|item| {
            text(&item.scalar).ok_or_else(|| self.fault(item.span.clone(), &item.scalar))
        });
        mirrors::read_lines(lines, |at| items[at].span.clone())
    }

    /// Reads shards, without looking at one beside the other.
    fn read_shards(&self, raw: &Raw<'_>) -> Result<Vec<Entry>, Vec<Fault>> {
        let (mut entries, mut faults) = (Vec::new(), Vec::new());
        for item in items(raw) {
            match text(&item.scalar).map(Entry::parse) {
                Some(Ok(entry)) => entries.push(entry),
                Some(Err(message)) => faults.push(Fault { span: item.span.clone(), message }),
                None => faults.push(self.fault(item.span.clone(), &item.scalar)),
            }
        }
        if faults.is_empty() && !(1..=sharding::ENTRIES_MAX).contains(&entries.len()) {
            let (count, max) = (entries.len(), sharding::ENTRIES_MAX);
            let message = format!("found {count} shards; allowed: 1 to {max}");
            faults.push(Fault { span: None, message });
        }
        if faults.is_empty() { Ok(entries) } else { Err(faults) }
    }

    /// Reads lists of buckets; whether they fit together is a matter of all of them, and of the shards.
    fn read_buckets(&self, raw: &Raw<'_>) -> Result<Vec<String>, Vec<Fault>> {
        let (mut lists, mut faults) = (Vec::new(), Vec::new());
        for item in items(raw) {
            let alone = |list: &&str| {
                !matches!(Distribution::buckets([*list]), Err(ShardsError::BadBuckets(_)))
            };
            match text(&item.scalar).filter(alone) {
                Some(list) => lists.push(list.to_owned()),
                None => faults.push(self.fault(item.span.clone(), &item.scalar)),
            }
        }
        if faults.is_empty() { Ok(lists) } else { Err(faults) }
    }

    /// Reads texts, none of which is empty.
    fn read_texts(&self, raw: &Raw<'_>) -> Result<Vec<String>, Vec<Fault>> {
        let (mut texts, mut faults) = (Vec::new(), Vec::new());
        for item in items(raw) {
            match text(&item.scalar).filter(|text| !text.is_empty()) {
                Some(text) => texts.push(text.to_owned()),
                None => faults.push(self.fault(item.span.clone(), &item.scalar)),
            }
        }
        let (what, max) = match self {
            Self::Patterns { .. } => ("patterns", TEXTS_MAX),
            Self::Prefixes { .. } => ("prefixes", ROUTES_MAX),
            _ => ("names", TEXTS_MAX),
        };
        if faults.is_empty() && texts.len() > max {
            let message = format!("found {} {what}; allowed: up to {max}", texts.len());
            faults.push(Fault { span: None, message });
        }
        if faults.is_empty() { Ok(texts) } else { Err(faults) }
    }

    /// Reads pairs of files.
    fn read_cert_files(&self, raw: &Raw<'_>) -> Result<Vec<CertFiles>, Vec<Fault>> {
        let (mut pairs, mut faults) = (Vec::new(), Vec::new());
        for item in items(raw) {
            match text(&item.scalar).and_then(CertFiles::parse) {
                Some(pair) => pairs.push(pair),
                None => faults.push(self.fault(item.span.clone(), &item.scalar)),
            }
        }
        if pairs.len() > MORE_CERTS_MAX {
            let message = format!("found {} pairs; allowed: 0 to {MORE_CERTS_MAX}", pairs.len());
            faults.push(Fault { span: None, message });
        }
        if faults.is_empty() { Ok(pairs) } else { Err(faults) }
    }

    /// Reads CPU numbers, each a number or a range `a-b`.
    fn read_cpus(&self, raw: &Raw<'_>) -> Result<Vec<usize>, Vec<Fault>> {
        let (mut cpus, mut faults): (Vec<usize>, Vec<Fault>) = (Vec::new(), Vec::new());
        for item in items(raw) {
            let range = match &item.scalar {
                Scalar::Integer(n) => n.and_then(|n| usize::try_from(n).ok()).map(|n| n..=n),
                Scalar::Text(word) | Scalar::Word(word) => cpu_range(word),
                Scalar::Switch(_) | Scalar::Other(_) | Scalar::Pair(..) | Scalar::Weighed(..) => {
                    None
                }
            };
            match range.filter(|range| *range.end() <= CPU_MAX) {
                Some(range) => {
                    for cpu in range {
                        if cpus.contains(&cpu) {
                            let message =
                                format!("CPU {cpu} stands here twice; name each CPU once");
                            faults.push(Fault { span: item.span.clone(), message });
                        } else {
                            cpus.push(cpu);
                        }
                    }
                }
                None => faults.push(self.fault(item.span.clone(), &item.scalar)),
            }
        }
        if faults.is_empty() { Ok(cpus) } else { Err(faults) }
    }

    /// "Found this; allowed is that", without the value of a secret.
    fn fault(&self, span: Option<Range<usize>>, scalar: &Scalar<'_>) -> Fault {
        let found = if self.is_secret() { scalar.type_name().to_owned() } else { scalar.shown() };
        let hint = match scalar {
            Scalar::Word(text) | Scalar::Text(text) => self.hint(text),
            _ => String::new(),
        };
        Fault { span, message: format!("found {found}{hint}; allowed: {}", self.allowed()) }
    }

    /// Whether the value must never be repeated. A URL counts: it may hold a password.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(
            self,
            Self::Secret { .. }
                | Self::Upstream { .. }
                | Self::HttpUrl { .. }
                | Self::Shards { .. }
                | Self::Users { .. }
                | Self::Mirrors { .. }
                | Self::SealingKeys { .. }
                | Self::ReadTargets { .. }
        )
    }

    /// Whether several values can be given.
    pub(crate) fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Cpus { .. }
                | Self::Listen { .. }
                | Self::Listeners { .. }
                | Self::Networks { .. }
                | Self::Announce { .. }
                | Self::Shards { .. }
                | Self::Users { .. }
                | Self::Rules { .. }
                | Self::Mirrors { .. }
                | Self::ReadTargets { .. }
                | Self::Buckets { .. }
                | Self::Patterns { .. }
                | Self::Prefixes { .. }
                | Self::UserNames { .. }
                | Self::SealingKeys { .. }
                | Self::CertFiles { .. }
                | Self::Commands { .. }
                | Self::Names { .. }
        ) || self.is_table()
    }

    /// Whether the value is a table in the file, with keys of the operator's own.
    pub(crate) fn is_table(&self) -> bool {
        matches!(
            self,
            Self::AddressMap { .. }
                | Self::Routes { .. }
                | Self::Zones { .. }
                | Self::Weights { .. }
                | Self::Monitors { .. }
                | Self::Renames { .. }
        )
    }

    /// What stands between several values in a variable or after a flag. URLs of clusters and sentinels have commas, and prefixes may.
    pub(crate) fn separator(&self) -> char {
        match self {
            Self::Shards { .. }
            | Self::Users { .. }
            | Self::Rules { .. }
            | Self::Routes { .. }
            | Self::Prefixes { .. }
            | Self::Mirrors { .. }
            | Self::SealingKeys { .. }
            | Self::ReadTargets { .. } => ';',
            _ => ',',
        }
    }
}
