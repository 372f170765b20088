//! The tables `[tenants.NAME]`: who belongs to a tenant, and what holds for it in the place of what holds for the others.
//!
//! ```text
//!   [tenants.blue]
//!   users = ["alice"]                       who belongs to it
//!   upstream = "redis://10.0.0.7"           its route: nothing of it is taken from the main one
//!   [tenants.blue.limits]
//!   client_inflight_max = 100               an option as at the top of the file, for this tenant
//! ```
//! The configuration of a tenant is the main one (file, environment, flags, changes) with its own table laid over it, but for what says where the
//! servers are and how to log in there: a tenant that names no server gets none, and never the passwords of others.
//!
//! Not here: what the options mean, and which may stand here ([`OptionSpec::is_of_tenant`]).
//!
//! Invariant: a problem with a value of a tenant is told with its line and as `tenants.NAME.option`; one with what it has from the main
//! configuration is told there.

use std::io;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::compile::{Draft, FileText, Place, TENANT_SECRETS, read_secrets};
use crate::file::Reader;
use crate::options::OPTIONS;
use crate::problem::{Origin, Problem, Problems};
use crate::rules;
use crate::schema::{CLIENTS_MAX, Config};

/// Most tenants beside the default one.
pub const TENANTS_MAX: usize = 32;

/// Most users, or patterns, of one.
const MEMBERS_MAX: usize = 1024;

/// Longest name of a tenant, and longest pattern.
const NAME_BYTES_MAX: usize = 64;

/// What whoever belongs to no tenant belongs to.
pub const DEFAULT_TENANT: &str = "default";

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// What it is called: letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// Its users; each belongs to one tenant.
    pub users: Vec<String>,
    /// Clients whose names match one of these glob patterns belong to it, unless their user belongs to another.
    pub client_names: Vec<String>,
    /// Its clients at the same time, beside `max_clients` of all; `None`: as many as those.
    pub clients_max: Option<usize>,
    /// What holds for it: options of the process are those of the main configuration.
    pub config: Config,
}

/// A key of the table that is no option.
pub(crate) struct TenantKey {
    /// The key.
    pub(crate) name: &'static str,
    /// One line, without a full stop.
    pub(crate) help: &'static str,
    /// Its type in a few words, and what is allowed.
    pub(crate) allowed: &'static str,
}

/// All of them, in the order of the documents.
pub(crate) const KEYS: [TenantKey; 3] = [
    TenantKey {
        name: "users",
        help: "Users that belong to the tenant, by their names in `acl.users` or `acl.file`",
        allowed: "a list of names, each of them in one tenant at most",
    },
    TenantKey {
        name: "client_names",
        help: "Clients that call themselves so (`CLIENT SETNAME`, `HELLO … SETNAME`) belong to the tenant, unless their user belongs to another",
        allowed: "a list of glob patterns such as \"blue-*\"",
    },
    TenantKey {
        name: "clients_max",
        help: "Clients of the tenant at the same time, beside `max_clients` of all",
        allowed: "a whole number from 1 to 1000000",
    },
];

/// What may stand in the table of a tenant, for messages.
pub(crate) const ALLOWED: &str = "users, client_names, clients_max; upstream and what belongs to it, address_map, client_name_upstream; and the tables sharding, reads, facade, \
     timeouts, limits, policies, cache, slowlog, latency, hotkeys, bigkeys, access_log, mirrors and read_targets";

/// Options that say where servers are and how to log in there.
const ROUTE: [&str; 8] = [
    "upstream",
    "upstream_user",
    "upstream_password",
    "upstream_password_file",
    "sentinel_user",
    "sentinel_password",
    "sentinel_password_file",
    "address_map",
];

/// Makes the tenants of a file. `base` is the main configuration before its rules were looked at, whose users are made.
pub(crate) fn load(
    file: FileText<'_>,
    base: &Draft,
    read: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
    problems: &mut Problems,
) -> Vec<Tenant> {
    let (root, errors) = DeTable::parse_recoverable(file.text);
    let tenants = root.get_ref().iter().find(|(key, _)| key.get_ref() == "tenants");
    let Some((_, value)) = tenants.filter(|_| errors.is_empty()) else { return Vec::new() };
    let mut list = List { file, base, read, problems, tenants: Vec::new() };
    let DeValue::Table(entries) = value.get_ref() else {
        list.problem(&value.span(), "tenants", "no table; allowed: tables [tenants.NAME]");
        return Vec::new();
    };
    let mut entries: Vec<_> = entries.iter().collect();
    // In the order of the file, not of the map.
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        list.add(key, value);
    }
    list.tenants
}

/// The tenants so far.
struct List<'a> {
    file: FileText<'a>,
    base: &'a Draft,
    read: &'a dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
    problems: &'a mut Problems,
    tenants: Vec<Tenant>,
}

impl List<'_> {
    fn problem(&mut self, span: &Range<usize>, key: &str, message: impl Into<String>) {
        let origin = Origin::of_file(self.file, span);
        let key = Some(key.to_owned());
        self.problems.0.push(Problem { origin, key, message: message.into(), excerpt: None });
    }

    fn add(&mut self, key: &Spanned<toml::de::DeString<'_>>, value: &Spanned<DeValue<'_>>) {
        let name = key.get_ref().as_ref();
        let shown: String =
            name.chars().take(NAME_BYTES_MAX).flat_map(char::escape_debug).collect();
        let head = format!("tenants.{shown}");
        let is_letter =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_letter) {
            let message = format!(
                "no name for a tenant; allowed: 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`"
            );
            return self.problem(&key.span(), &head, message);
        }
        if name == DEFAULT_TENANT {
            let message = "`default` is the tenant of whoever belongs to no other one; it is configured at the top of the file. Choose another name";
            return self.problem(&key.span(), &head, message);
        }
        if self.tenants.len() == TENANTS_MAX {
            let message = format!("more than {TENANTS_MAX} tenants; allowed: at most so many");
            return self.problem(&key.span(), &head, message);
        }
        let DeValue::Table(entries) = value.get_ref() else {
            let message = format!("no table; allowed: a table, written [{head}]");
            return self.problem(&value.span(), &head, message);
        };
        let mut tenant = Tenant {
            name: name.to_owned(),
            users: Vec::new(),
            client_names: Vec::new(),
            clients_max: None,
            config: Config::default(),
        };
        self.read_members(&mut tenant, entries);
        tenant.config = self.read_options(name, &key.span(), entries);
        self.tenants.push(tenant);
    }

    /// The keys that are no options.
    fn read_members(&mut self, tenant: &mut Tenant, entries: &DeTable<'_>) {
        for (key, value) in entries {
            let own = key.get_ref().as_ref();
            let name = format!("tenants.{}.{own}", tenant.name);
            match own {
                "users" => tenant.users = self.read_users(&name, value),
                "client_names" => tenant.client_names = self.read_patterns(&name, value),
                "clients_max" => {
                    let number = match value.get_ref() {
                        DeValue::Integer(n) => usize::from_str_radix(n.as_str(), n.radix()).ok(),
                        _ => None,
                    };
                    tenant.clients_max = number.filter(|n| (1..=CLIENTS_MAX).contains(n));
                    if tenant.clients_max.is_none() {
                        let message = format!("not allowed: {}", found(value))
                            + "; allowed: "
                            + KEYS[2].allowed;
                        self.problem(&value.span(), &name, message);
                    }
                }
                _ => {}
            }
        }
    }

    fn read_users(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Vec<String> {
        let mut users: Vec<String> = Vec::new();
        // What is wrong with the users themselves is told there.
        let unsure = |problem: &Problem| {
            problem.key.as_deref().is_some_and(|key| key.starts_with("acl.") || key == "password")
        };
        let is_sure = !self.problems.0.iter().any(unsure);
        for (span, user) in self.words(name, value, KEYS[0].allowed) {
            let known = &self.base.config.users;
            let elsewhere = self.tenants.iter().find(|other| other.users.contains(&user));
            let wrong = match elsewhere {
                Some(other) => Some(format!(
                    "the user `{user}` belongs to the tenant `{}` already; allowed: one tenant for each user",
                    other.name
                )),
                None if users.contains(&user) => {
                    Some(format!("the user `{user}` stands here twice"))
                }
                None if is_sure && known.get(user.as_bytes()).is_none() => {
                    let names = known.iter().map(|known| String::from_utf8_lossy(known.name()));
                    let names: Vec<_> = names.take(20).map(|name| format!("`{name}`")).collect();
                    Some(format!(
                        "there is no user `{user}`; allowed: names of users of [acl], which has {}",
                        names.join(", ")
                    ))
                }
                None => None,
            };
            match wrong {
                Some(message) => self.problem(&span, name, message),
                None => users.push(user),
            }
        }
        users
    }

    fn read_patterns(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Vec<String> {
        let mut patterns: Vec<String> = Vec::new();
        for (span, pattern) in self.words(name, value, KEYS[1].allowed) {
            let elsewhere = self.tenants.iter().find(|other| other.client_names.contains(&pattern));
            if let Some(other) = elsewhere {
                let message = format!(
                    "the pattern `{pattern}` is one of the tenant `{}` already; allowed: patterns of one tenant each",
                    other.name
                );
                self.problem(&span, name, message);
            } else if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        patterns
    }

    /// The words of a list, or of one text, with their places.
    fn words(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        allowed: &str,
    ) -> Vec<(Range<usize>, String)> {
        let one = std::slice::from_ref(value);
        let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => one.iter().collect(),
        };
        if items.len() > MEMBERS_MAX {
            let message = format!("found {} entries; allowed: at most {MEMBERS_MAX}", items.len());
            self.problem(&value.span(), name, message);
            return Vec::new();
        }
        let mut words = Vec::new();
        for item in items {
            match item.get_ref() {
                DeValue::String(text) if is_word(text) => {
                    words.push((item.span(), text.to_string()));
                }
                _ => {
                    let message = format!("not allowed: {}; allowed: {allowed}", found(item));
                    self.problem(&item.span(), name, message);
                }
            }
        }
        words
    }

    /// The main configuration with the tenant's options laid over it.
    fn read_options(&mut self, name: &str, head: &Range<usize>, entries: &DeTable<'_>) -> Config {
        let mut draft = self.base.clone();
        let route = |option: &&'static crate::options::OptionSpec| {
            ROUTE.contains(&option.name)
                || option.name.starts_with("sharding.")
                // What one tenant writes is nothing for the mirrors of another.
                || option.name.starts_with("mirrors.")
                // Nor have read targets what another tenant's servers have.
                || option.name.starts_with("read_targets.")
        };
        for option in OPTIONS.iter().filter(route) {
            option.kind.copy(&mut Draft::default(), &mut draft);
            draft.forget_origin(option.name);
        }
        let prefix = format!("tenants.{name}.");
        let (own, read) = Reader::read_tenant(self.file, &prefix, entries, &mut draft);
        let mut found = Problems(Vec::new());
        let refused = |option: &str| {
            let key = format!("{prefix}{option}");
            read.iter().any(|problem| problem.key.as_deref() == Some(&*key))
        };
        let has_route = ["upstream", "sharding.shards"]
            .iter()
            .any(|option| own.contains(option) || refused(option));
        // Values that were refused are at what the main configuration says, against which the others would be held wrongly.
        if has_route && read.is_empty() {
            read_secrets(&mut draft, TENANT_SECRETS, self.read, &mut found);
            rules::complete(&mut draft);
            rules::check_tenant(&mut draft, &mut found);
        } else if !has_route {
            let message = "no server is named; say which one the tenant is for, as in upstream = \"redis://127.0.0.1:6379\", or give sharding.shards: \
                           nothing of this is taken from the top of the file";
            self.problem(head, prefix.trim_end_matches('.'), message);
        }
        self.problems.0.extend(read);
        for problem in found.0 {
            self.retell(problem, &own, &prefix, head);
        }
        draft.config
    }

    /// A problem of a rule, told where it can be changed.
    fn retell(
        &mut self,
        mut problem: Problem,
        own: &[&'static str],
        prefix: &str,
        head: &Range<usize>,
    ) {
        let is_own = |key: &String| own.contains(&key.as_str());
        if problem.key.as_ref().is_some_and(is_own) {
            problem.key = problem.key.map(|key| format!("{prefix}{key}"));
        } else {
            problem.origin = Origin::of_file(self.file, head);
            let key = problem.key.unwrap_or_default();
            problem.message = inherited(&key, &problem.message);
            problem.key = Some(prefix.trim_end_matches('.').to_owned());
        }
        self.problems.0.push(problem);
    }
}

fn inherited(key: &str, message: &str) -> String {
    format!("with {key} of the main configuration: {message}")
}

/// What is wrong with the main configuration, and would be told of each tenant as well.
pub(crate) fn leave_out_repeated(problems: &mut Problems) {
    let told: Vec<String> = problems
        .0
        .iter()
        .map(|problem| inherited(problem.key.as_deref().unwrap_or_default(), &problem.message))
        .collect();
    problems.0.retain(|problem| !told.contains(&problem.message));
}

/// What stands there, in a word: values may be secrets in the wrong place.
fn found(value: &Spanned<DeValue<'_>>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "this text",
        DeValue::Integer(_) => "this number",
        other => other.type_str(),
    }
}

/// Whether a text can be the name of a user or of a client, or a pattern of such names.
fn is_word(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_graphic() || byte >= 0x80;
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_letter)
}
