//! The table of options: one row each, and everything that people read or type comes from it.
//!
//! From a row come the key in the file, the flag, the environment name, the checks, `--help`, the reference page, the
//! example file, the man page and the completions. Defaults are not repeated here: they are read from
//! `Config::default()`. The rows themselves are in `rows`; what a kind of value does is in `kind`.
//!
//! Invariant: what is made of a row depends on the row alone.

mod mirrors;
mod policies;
mod read_targets;
mod rows;
mod users;

use crate::compile::Draft;
use crate::kind::Kind;
use crate::users::ClientChanges;
use std::fmt;

pub use rows::{OPTIONS, TABLES};

/// One option.
#[derive(Clone, Copy)]
pub struct OptionSpec {
    /// The key in the file, dotted where it stands in a table: `workers`, `timeouts.connect_ms`.
    pub name: &'static str,
    /// The one-letter flag, for the few that are typed often.
    pub short: Option<char>,
    /// One line, without a full stop.
    pub help: &'static str,
    /// Sentences that follow the line where there is room; may be empty.
    pub long: &'static str,
    /// Whether a change of it needs a restart.
    needs_restart: bool,
    /// Whose word changes it while the program runs.
    setter: Setter,
    /// Whether few look for it, so that the short help does without.
    pub is_rare: bool,
    /// The default in words, where the value says little or depends on the machine.
    default_note: Option<&'static str>,
    /// How the value is read, and where it goes.
    pub(crate) kind: Kind,
}

/// Who may change an option while the program runs, beside the operator (the file, the admin listener).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Setter {
    /// Nobody else.
    Operator,
    /// Clients that the operator trusts: with `acl.config_set = "all"`.
    TrustedClients,
    /// Clients, unless `acl.config_set = "none"`.
    Clients,
}

impl fmt::Debug for OptionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl OptionSpec {
    /// A row that only the operator changes; the last argument is its kind.
    ///
    /// A new option belongs here unless clients cannot do harm with it: by it they cannot lead traffic or passwords
    /// elsewhere, open files or sockets, let anybody in, or change what others may do.
    const fn new(name: &'static str, help: &'static str, long: &'static str, kind: Kind) -> Self {
        let (needs_restart, is_rare, setter) = (false, false, Setter::Operator);
        let (short, default_note) = (None, None);
        Self { name, short, help, long, needs_restart, setter, is_rare, default_note, kind }
    }

    /// A row that clients may change where the operator trusts them with bounds, logs and policies.
    const fn for_trusted_clients(
        name: &'static str,
        help: &'static str,
        long: &'static str,
        kind: Kind,
    ) -> Self {
        let mut row = Self::new(name, help, long, kind);
        row.setter = Setter::TrustedClients;
        row
    }

    /// A row that every client with `+config|set` may change: figures that respool collects, and the time for a reply.
    const fn for_clients(
        name: &'static str,
        help: &'static str,
        long: &'static str,
        kind: Kind,
    ) -> Self {
        let mut row = Self::new(name, help, long, kind);
        row.setter = Setter::Clients;
        row
    }

    /// Gives the row a one-letter flag.
    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    /// Marks a row whose value is read at the start only: what binds sockets, and the number of workers.
    const fn needs_restart(mut self) -> Self {
        self.needs_restart = true;
        self
    }

    /// Leaves the row out of the short help.
    const fn rare(mut self) -> Self {
        self.is_rare = true;
        self
    }

    /// Gives the row a default in words.
    const fn default_note(mut self, note: &'static str) -> Self {
        self.default_note = Some(note);
        self
    }

    /// The row with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.name == name)
    }

    /// The flag without its dashes: `timeouts.connect_ms` is `timeouts-connect-ms`.
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    /// The environment variable: `timeouts.connect_ms` is `RESPOOL_TIMEOUTS_CONNECT_MS`.
    pub fn environment(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}", self.name.replace('.', "_").to_uppercase())
    }

    /// The table the key stands in (`sharding.eject`: a table in a table); `None` for the top of the file.
    pub fn table(&self) -> Option<&'static str> {
        self.name.rsplit_once('.').map(|(table, _)| table)
    }

    /// The key inside its table.
    pub fn key(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, key)| key)
    }

    /// Whether several values can be given: repeated flags, commas in the environment, a list in the file.
    pub fn is_list(&self) -> bool {
        self.kind.is_list()
    }

    /// Whether the value can change while the program runs.
    pub fn is_live(&self) -> bool {
        !self.needs_restart
    }

    /// Whether clients may change the value (`CONFIG SET`) where `acl.config_set` says this.
    pub fn may_clients_set(&self, changes: ClientChanges) -> bool {
        match changes {
            ClientChanges::None => false,
            ClientChanges::Safe => self.setter == Setter::Clients,
            ClientChanges::All => self.setter != Setter::Operator,
        }
    }

    /// Whether the option may differ between tenants: it says what is done with the requests of clients, and nothing of the process. One that stands in none
    /// of these tables is the process'.
    pub fn is_of_tenant(&self) -> bool {
        const TOP: [&str; 9] = [
            "upstream",
            "upstream_user",
            "upstream_password",
            "upstream_password_file",
            "sentinel_user",
            "sentinel_password",
            "sentinel_password_file",
            "address_map",
            "client_name_upstream",
        ];
        const OF_TABLES: [&str; 17] = [
            "sharding",
            "sharding.eject",
            "reads",
            "facade",
            "timeouts",
            "limits",
            "policies",
            "policies.namespace",
            "policies.values",
            "cache",
            "slowlog",
            "latency",
            "hotkeys",
            "bigkeys",
            "access_log",
            "mirrors",
            "read_targets",
        ];
        const OF_PROCESS: [&str; 4] = [
            "timeouts.proxy_header_ms",
            "timeouts.drain_ms",
            "timeouts.resolve_ms",
            "timeouts.tcp_keepalive_s",
        ];
        match self.table() {
            None => TOP.contains(&self.name),
            Some(table) => OF_TABLES.contains(&table) && !OF_PROCESS.contains(&self.name),
        }
    }

    /// What separates several values in a variable or after a flag.
    pub fn separator(&self) -> char {
        self.kind.separator()
    }

    /// Whether the value must not be shown to anybody.
    pub fn is_secret(&self) -> bool {
        self.kind.is_secret()
    }

    /// Whether clients are not shown the value (`CONFIG GET`), though the operator is: a command that has another name is for those who
    /// were told it.
    pub fn is_hidden_from_clients(&self) -> bool {
        matches!(self.kind, Kind::Renames { .. })
    }

    /// The placeholder of the value in `--help`.
    pub fn placeholder(&self) -> &'static str {
        self.kind.placeholder()
    }

    /// The names to choose from, for completions; empty where the option is no choice.
    pub fn choices(&self) -> &'static [&'static str] {
        match &self.kind {
            Kind::Choice { names, .. } => names(),
            Kind::Switch { .. } => &["true", "false"],
            _ => &[],
        }
    }

    /// Whether the value is the path of a file, for completions.
    pub fn is_path(&self) -> bool {
        matches!(self.kind, Kind::Path { .. })
    }

    /// The type in a few words.
    pub fn type_name(&self) -> &'static str {
        self.kind.type_name()
    }

    /// What is allowed, in words.
    pub fn allowed(&self) -> String {
        self.kind.allowed()
    }

    /// What the option's value looks like in a JSON schema, with its words.
    pub fn json_schema(&self) -> serde_json::Value {
        let mut schema = self.kind.json_schema();
        schema["description"] = format!("{}. {}", self.help, self.long).trim_end().into();
        schema
    }

    /// The default, in words or as it is written in the file.
    pub fn default_text(&self) -> String {
        match self.default_note {
            Some(note) => note.to_owned(),
            None => self.default_toml().unwrap_or_else(|| "none".to_owned()),
        }
    }

    /// What was given after a flag or in a variable, as a value of the file.
    pub fn toml_of(&self, words: &[String]) -> String {
        self.kind.toml_of(words)
    }

    /// What is written for one value, or for several with [`Self::separator`] between them, as words.
    pub fn words_of(&self, text: &str) -> Vec<String> {
        if self.is_list() && text.is_empty() {
            Vec::new()
        } else if self.is_list() {
            text.split(self.separator()).map(|word| word.trim().to_owned()).collect()
        } else {
            vec![text.to_owned()]
        }
    }

    /// The default as TOML; `None` where nothing is set by default.
    pub fn default_toml(&self) -> Option<String> {
        self.kind.toml_value(&mut Draft::default())
    }
}

/// What every environment variable of the program begins with.
pub const ENVIRONMENT_PREFIX: &str = "RESPOOL_";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{LogFormat, LogLevel, NetDriver};

    #[test]
    fn names_flags_and_variables_are_unique_and_tables_are_known() {
        let mut seen = std::collections::HashSet::new();
        for option in OPTIONS {
            assert!(
                seen.insert(option.name) && seen.len() <= OPTIONS.len(),
                "{} twice",
                option.name
            );
            assert!(
                OPTIONS.iter().filter(|o| o.flag() == option.flag()).count() == 1,
                "{}",
                option.name
            );
            assert!(
                OPTIONS.iter().filter(|o| o.environment() == option.environment()).count() == 1
            );
            assert!(
                option.table().is_none_or(|t| TABLES.iter().any(|(name, _)| *name == t)),
                "{}",
                option.name
            );
            assert!(!option.help.is_empty() && !option.help.ends_with('.'), "{}", option.name);
            assert!(option.long.is_empty() || option.long.ends_with('.'), "{}", option.name);
        }
    }

    /// The rows of `setter`, and not one more: whoever adds one here has thought of a hostile client.
    #[test]
    fn clients_change_what_stands_here_and_nothing_else() {
        let of = |changes| {
            let rows = OPTIONS.iter().filter(move |option| option.may_clients_set(changes));
            rows.map(|option| option.name).collect::<Vec<_>>()
        };
        assert_eq!(of(ClientChanges::None), [""; 0]);
        let safe = [
            "timeouts.request_ms",
            "slowlog.slower_than_us",
            "latency.monitors",
            "hotkeys.enabled",
            "hotkeys.sample",
            "hotkeys.top",
            "hotkeys.window_s",
            "bigkeys.bytes_min",
            "bigkeys.elements_min",
            "bigkeys.max_len",
        ];
        assert_eq!(of(ClientChanges::Safe), safe);
        let all = of(ClientChanges::All);
        assert!(safe.iter().all(|name| all.contains(name)));
        for option in OPTIONS.iter().filter(|option| all.contains(&option.name)) {
            let leads_away = matches!(
                option.kind,
                Kind::Path { .. }
                    | Kind::AddressMap { .. }
                    | Kind::HttpUrl { .. }
                    | Kind::Upstream { .. }
                    | Kind::Announce { .. }
                    | Kind::CertFiles { .. }
            );
            let lets_in = matches!(
                option.kind,
                Kind::Listen { .. }
                    | Kind::Listeners { .. }
                    | Kind::Networks { .. }
                    | Kind::Mode { .. }
                    | Kind::Users { .. }
                    | Kind::UserNames { .. }
            );
            assert!(!leads_away && !lets_in && !option.is_secret(), "{}", option.name);
            assert!(option.is_live(), "{} needs a restart, so nobody can set it", option.name);
            let trusts = ["acl", "admin", "mirrors", "read_targets", "facade", "sharding", "tls"];
            let table = option.table().unwrap_or_default().split('.').next().unwrap_or_default();
            assert!(!trusts.contains(&table), "{}", option.name);
        }
    }

    #[test]
    fn choice_rows_agree_with_their_enums() {
        assert_eq!(OptionSpec::find("log.level").unwrap().default_text(), "\"info\"");
        assert_eq!(OptionSpec::find("log.format").unwrap().default_text(), "\"auto\"");
        for (index, level) in LogLevel::ALL.iter().enumerate() {
            assert_eq!(*level as usize, index);
        }
        assert_eq!(OptionSpec::find("driver").unwrap().default_text(), "\"auto\"");
        for (index, driver) in NetDriver::ALL.iter().enumerate() {
            assert_eq!(*driver as usize, index);
        }
        for (index, format) in LogFormat::ALL.iter().enumerate() {
            assert_eq!(*format as usize, index);
        }
    }
}
