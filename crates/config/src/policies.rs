//! The rules of `[policies]`: lines of words, in the manner of `listen` and `acl.users`.
//!
//! ```text
//!   "get mget @write key=user:42:* name=incident-7 \"error=ERR user 42 is being repaired\""
//!    └ commands ───┘ └ patterns, as in KEYS; several may stand there      └ quotes as in Redis' configuration file
//! ```
//! Words without `=` are commands and categories; what else may stand in a line depends on the policy.
//!
//! Not here: what rules do (`engine::policy`).
//!
//! Invariant: a line is shown by its `Display` as words that read as the same one.

use engine::acl::file::words;
use engine::command::CommandId;
use engine::limits::POLICY_RULES_MAX;
use engine::policy::{
    self, Again, Fault, Namespace, Own, Per, Rate, Renaming, Rule, Rules, Size, Unit, What,
};
use std::fmt;
use std::sync::Arc;

use crate::compile::Draft;
use crate::kind::size;
use crate::problem::Fault as Problem;
use crate::rules::Finding;
use crate::suggest::closest;
use crate::values::{self, ALGORITHMS, KeyLine, TYPES};

/// The policies that have lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Deny,
    Block,
    Size,
    Own,
    Rate,
    Fault,
    DoubleDelete,
}

impl Policy {
    /// The keys that a line may have.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Deny => &["name", "error"],
            Self::Block => &["key", "name", "error"],
            Self::Size => &["bytes", "args", "key", "name", "error"],
            Self::Own => &["file", "fuel", "memory_max", "on_failure", "key", "name", "error"],
            Self::Rate => &[
                "requests",
                "bytes",
                "connections",
                "burst",
                "per",
                "delay_ms",
                "key",
                "name",
                "error",
            ],
            Self::Fault => &["percent", "delay_ms", "key", "name", "error"],
            Self::DoubleDelete => &["delay_ms", "key", "name"],
        }
    }

    /// What a line looks like, for messages.
    pub(crate) fn forms(self) -> &'static str {
        match self {
            Self::Deny => {
                "commands (get, config|set) or categories (@dangerous), behind them name=TEXT and \"error=TEXT\" if needed, as in \"keys flushall\""
            }
            Self::Block => {
                "commands or categories, or key=PATTERN, or both, behind them name=TEXT and \"error=TEXT\" if needed, as in \"get mget key=user:42:*\""
            }
            Self::Size => {
                "bytes=SIZE or args=N, or both, commands or categories, key=PATTERN, name=TEXT and \"error=TEXT\" if needed, as in \"bytes=1MiB\""
            }
            Self::Own => {
                "file=PATH of a module of WebAssembly (.wasm, or .wat as text), if needed fuel=N, memory_max=SIZE, on_failure=refuse or pass, commands or \
                 categories, key=PATTERN, name=TEXT and \"error=TEXT\", as in \"file=/etc/respool/guard.wasm set @string key=user:*\""
            }
            Self::Rate => {
                "requests=N or bytes=SIZE of a second, if needed burst=N or burst=SIZE, per=all, user, client, prefix or address, delay_ms=N, commands or categories, \
                 key=PATTERN, name=TEXT and \"error=TEXT\", as in \"requests=1000 per=client delay_ms=100\"; or connections=N, if needed burst=N, per=all or address, \
                 name=TEXT and \"error=TEXT\", as in \"connections=100 per=address\""
            }
            Self::Fault => {
                "percent=N from 0.0001 to 100, if needed delay_ms=N, \"error=TEXT\", commands or categories, key=PATTERN and name=TEXT, as in \"percent=5 get delay_ms=100\""
            }
            Self::DoubleDelete => {
                "delay_ms=N, if needed commands (del and unlink else), key=PATTERN and name=TEXT, as in \"delay_ms=500 key=cache:*\""
            }
        }
    }
}

/// One line.
#[derive(Clone, PartialEq, Eq)]
pub struct RuleLine {
    what: What,
    name: String,
    error: Option<String>,
    /// What is said by numbers; `None`: nothing.
    bytes: Option<u64>,
    args: Option<u64>,
    requests: Option<u64>,
    connections: Option<u64>,
    burst: Option<u64>,
    delay_ms: Option<u64>,
    per_million: Option<u32>,
    per: Per,
    file: Option<String>,
    fuel: Option<u64>,
    memory_max_bytes: Option<u64>,
    passes_on_failure: bool,
    shown: String,
}

impl fmt::Display for RuleLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RuleLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The table `[policies]` as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    /// Commands with other names, each with its new one.
    pub rename: Vec<(String, String)>,
    /// Commands that are refused.
    pub deny: Vec<RuleLine>,
    /// What is refused for a while.
    pub block: Vec<RuleLine>,
    /// Writes are refused.
    pub read_only: bool,
    /// The error for them.
    pub read_only_error: Option<String>,
    /// How large requests may be.
    pub size: Vec<RuleLine>,
    /// Programs that look at requests.
    pub own: Vec<RuleLine>,
    /// How many may come.
    pub rate: Vec<RuleLine>,
    /// What fails or waits on purpose.
    pub fault: Vec<RuleLine>,
    /// What is deleted once more.
    pub double_delete: Vec<RuleLine>,
    /// What stands before all names of clients.
    pub namespace_prefix: Option<String>,
    /// What is about more than that goes on all the same.
    pub namespace_whole: bool,
    /// Keys whose values are stored compressed.
    pub compress: Vec<String>,
    /// From how many bytes on.
    pub compress_from_bytes: usize,
    /// By what, one of `lz4` and `zstd`.
    pub compress_algorithm: &'static str,
    /// How hard zstd tries.
    pub compress_level: usize,
    /// Keys whose values are stored encrypted.
    pub encrypt: Vec<String>,
    /// Of these keys nothing else is shown.
    pub encrypted_only: bool,
    /// What they are encrypted with; the first one writes.
    pub keys: Vec<KeyLine>,
    /// The types whose values are meant.
    pub value_types: Vec<&'static str>,
    /// Requests that wait at a time, over all workers.
    pub waiting_max: usize,
}

/// From how many bytes on strings are compressed, unless something else is set.
pub(crate) const COMPRESS_FROM_BYTES: usize = 1_024;

/// The level of zstd unless something else is set: its own choice, too.
pub(crate) const COMPRESS_LEVEL: usize = 3;

impl Default for Policies {
    fn default() -> Self {
        Self {
            rename: Vec::new(),
            deny: Vec::new(),
            block: Vec::new(),
            read_only: false,
            read_only_error: None,
            size: Vec::new(),
            own: Vec::new(),
            rate: Vec::new(),
            fault: Vec::new(),
            double_delete: Vec::new(),
            namespace_prefix: None,
            namespace_whole: false,
            compress: Vec::new(),
            compress_from_bytes: COMPRESS_FROM_BYTES,
            compress_algorithm: ALGORITHMS[0],
            compress_level: COMPRESS_LEVEL,
            encrypt: Vec::new(),
            encrypted_only: false,
            keys: Vec::new(),
            value_types: TYPES[..1].to_vec(),
            waiting_max: Rules::default().waiting_max,
        }
    }
}

impl RuleLine {
    /// Reads a line. The error goes on after the line's number.
    pub(crate) fn parse(policy: Policy, text: &str) -> Result<Self, String> {
        let words = words(text.as_bytes())
            .ok_or_else(|| "has a quote that does not end, or something behind one".to_owned())?;
        let mut line = Self {
            what: What::default(),
            name: String::new(),
            error: None,
            bytes: None,
            args: None,
            requests: None,
            connections: None,
            burst: None,
            delay_ms: None,
            per_million: None,
            per: Per::All,
            file: None,
            fuel: None,
            memory_max_bytes: None,
            passes_on_failure: false,
            shown: String::new(),
        };
        let (mut commands, mut keys): (Vec<String>, Vec<Box<[u8]>>) = (Vec::new(), Vec::new());
        let mut seen: Vec<String> = Vec::new();
        for word in &words {
            let word = std::str::from_utf8(word).map_err(|_| "is no UTF-8".to_owned())?;
            if !line.shown.is_empty() {
                line.shown.push(' ');
            }
            line.shown.push_str(&quoted(word));
            let Some((key, value)) = word.split_once('=') else {
                commands.push(word.to_owned());
                continue;
            };
            let known = policy.keys();
            if !known.contains(&key) {
                let advice = closest(key, known.iter().copied())
                    .map_or_else(String::new, |known| format!(" (did you mean `{known}`?)"));
                return Err(format!("has `{key}`, which is no key{advice}"));
            }
            if key == "key" {
                if value.is_empty() {
                    return Err("has a key= with nothing behind it".to_owned());
                }
                keys.push(value.as_bytes().into());
                continue;
            }
            if seen.iter().any(|other| other == key) {
                return Err(format!("has `{key}` twice"));
            }
            seen.push(key.to_owned());
            line.set(key, value).map_err(|why| format!("has `{key}`, which {why}"))?;
        }
        line.complete(policy, &mut commands, !keys.is_empty())?;
        let own = matches!(policy, Policy::Deny | Policy::Block);
        let words: Vec<&str> = commands.iter().map(String::as_str).collect();
        if policy == Policy::Own {
            policy::own::check_words(&words).map_err(|word| {
                format!("names `{word}`, which no program is asked about: it is about the connection, or never reaches a server")
            })?;
        }
        line.what = What::new(&words, keys, own).map_err(|word| {
            let advice = closest(&word, CommandId::all().map(CommandId::name))
                .map_or_else(String::new, |known| format!(" (did you mean `{known}`?)"));
            format!("names `{word}`, which is no command and no category{advice}")
        })?;
        Ok(line)
    }

    /// Takes one word. The error goes on after it.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "name" => {
                if !is_name(value) {
                    return Err(format!(
                        "is no name of 1 to {NAME_BYTES_MAX} letters, digits, `_`, `-` and `.`"
                    ));
                }
                self.name = value.to_owned();
            }
            "error" => self.error = Some(error_text(value)?),
            "bytes" => self.bytes = Some(amount(value, true)?),
            "file" => {
                if value.is_empty() {
                    return Err("is empty".to_owned());
                }
                self.file = Some(value.to_owned());
            }
            "fuel" => {
                let fuel = value.parse().ok().filter(|fuel| FUEL.contains(fuel));
                self.fuel = Some(fuel.ok_or_else(|| {
                    format!("is no whole number from {} to {}", FUEL.start(), FUEL.end())
                })?);
            }
            "memory_max" => {
                let bytes = size(value).filter(|bytes| PROGRAM_MEMORY.contains(bytes));
                self.memory_max_bytes =
                    Some(bytes.ok_or("is no size from 64KiB to 64MiB".to_owned())?);
            }
            "on_failure" => {
                self.passes_on_failure = match value {
                    "pass" => true,
                    "refuse" => false,
                    _ => return Err("is none of refuse, pass".to_owned()),
                };
            }
            "args" => self.args = Some(amount(value, false)?),
            "requests" => self.requests = Some(amount(value, false)?),
            "connections" => self.connections = Some(amount(value, false)?),
            "burst" => self.burst = Some(amount(value, true)?),
            "delay_ms" => {
                let ms = amount(value, false).ok().filter(|ms| *ms <= DELAY_MS_MAX);
                self.delay_ms = Some(ms.ok_or_else(|| {
                    format!("is no whole number of milliseconds from 1 to {DELAY_MS_MAX}")
                })?);
            }
            "percent" => {
                let per_million = per_million(value);
                self.per_million =
                    Some(per_million.ok_or("is no number from 0.0001 to 100".to_owned())?);
            }
            _ => {
                let at = Per::NAMES.iter().position(|name| *name == value);
                let at = at.ok_or_else(|| format!("is none of {}", Per::NAMES.join(", ")))?;
                self.per = Per::ALL[at];
            }
        }
        Ok(())
    }

    /// Looks at what belongs together. The error goes on after the line's number.
    fn complete(
        &mut self,
        policy: Policy,
        commands: &mut Vec<String>,
        has_keys: bool,
    ) -> Result<(), String> {
        let missing = match policy {
            Policy::Deny => commands.is_empty().then_some("names no command"),
            Policy::Block => {
                (commands.is_empty() && !has_keys).then_some("names no command and no key")
            }
            Policy::Size => (self.bytes.is_none() && self.args.is_none())
                .then_some("has no bytes= and no args="),
            Policy::Own => self.file.is_none().then_some("has no file="),
            Policy::Rate => self.rate_lacks(!commands.is_empty() || has_keys),
            Policy::Fault => self.per_million.is_none().then_some("has no percent="),
            Policy::DoubleDelete => self.delay_ms.is_none().then_some("has no delay_ms="),
        };
        if policy == Policy::DoubleDelete && commands.is_empty() {
            commands.extend(["del".to_owned(), "unlink".to_owned()]);
        }
        if policy == Policy::Own && missing.is_none() && self.name.is_empty() {
            self.name = name_of(self.file.as_deref().unwrap_or_default())?;
        }
        missing.map_or(Ok(()), |missing| Err(missing.to_owned()))
    }

    /// What is wrong with a rate, if something is.
    fn rate_lacks(&self, names_requests: bool) -> Option<&'static str> {
        let units = [self.requests, self.bytes, self.connections];
        match units.iter().flatten().count() {
            0 => return Some("has no requests=, no bytes= and no connections="),
            1 => {}
            _ => {
                return Some(
                    "has several of requests=, bytes= and connections=; give each its line",
                );
            }
        }
        self.connections?;
        if names_requests {
            return Some(
                "has connections=, and commands or keys, which clients that come have not said yet",
            );
        }
        if self.delay_ms.is_some() {
            return Some(
                "has connections= and delay_ms=; a client that comes too early gets an error and is closed, and is not kept waiting",
            );
        }
        let may_share = matches!(self.per, Per::All | Per::Address);
        (!may_share).then_some("has connections= and a per= that is not all or address")
    }

    fn rule<T>(&self, detail: T) -> Rule<T> {
        Rule { what: self.what.clone(), name: self.name.clone(), error: self.error.clone(), detail }
    }

    fn size(&self) -> Size {
        let or_any = |max: Option<u64>| max.unwrap_or(u64::MAX);
        Size { bytes_max: or_any(self.bytes), args_max: or_any(self.args) }
    }

    fn rate(&self) -> Rate {
        let (unit, per_s) = match (self.requests, self.connections) {
            (Some(requests), _) => (Unit::Requests, requests),
            (None, Some(connections)) => (Unit::Connections, connections),
            (None, None) => (Unit::Bytes, self.bytes.unwrap_or(1)),
        };
        let burst = self.burst.unwrap_or(per_s);
        Rate { unit, per_s, burst, per: self.per, delay_ms: self.delay_ms.unwrap_or(0) }
    }

    fn fault(&self) -> Fault {
        Fault {
            per_million: self.per_million.unwrap_or(0),
            delay_ms: self.delay_ms.unwrap_or(0),
            fails: self.delay_ms.is_none() || self.error.is_some(),
        }
    }

    fn own(&self) -> Own {
        Own {
            file: self.file.clone().unwrap_or_default(),
            fuel: self.fuel.unwrap_or(FUEL_DEFAULT),
            // Its bound is far below.
            memory_max_bytes: self.memory_max_bytes.unwrap_or(PROGRAM_MEMORY_DEFAULT) as usize,
            passes_on_failure: self.passes_on_failure,
        }
    }

    fn again(&self) -> Again {
        Again { delay_ms: self.delay_ms.unwrap_or(1) }
    }
}

/// Reads lines, all of them, however many are wrong.
pub(crate) fn read_lines<'a>(
    policy: Policy,
    lines: impl Iterator<Item = Result<&'a str, Problem>>,
    span: impl Fn(usize) -> Option<std::ops::Range<usize>>,
) -> Result<Vec<RuleLine>, Vec<Problem>> {
    let (mut rules, mut faults) = (Vec::new(), Vec::new());
    for (at, line) in lines.enumerate() {
        match line.map(|line| RuleLine::parse(policy, line)) {
            Ok(Ok(rule)) => rules.push(rule),
            Ok(Err(why)) => {
                let message = format!("rule {} {why}; allowed: {}", at + 1, policy.forms());
                faults.push(Problem { span: span(at), message });
            }
            Err(wrong) => faults.push(wrong),
        }
    }
    if faults.is_empty() && rules.len() > POLICY_RULES_MAX {
        let message = format!("found {} rules; allowed: up to {POLICY_RULES_MAX}", rules.len());
        faults.push(Problem { span: None, message });
    }
    if faults.is_empty() { Ok(rules) } else { Err(faults) }
}

/// What a renaming looks like, for messages.
pub(crate) const RENAME_FORMS: &str = "command = \"new name\", or command = \"\" for one that nobody can call; a new name of letters, digits, `_`, `-` and `.` that no \
     command has";

/// Reads one renaming. The error goes on after "which".
pub(crate) fn renaming(command: &str, name: &str) -> Result<(String, String), String> {
    let is_known = engine::command::lookup(command.as_bytes()).is_some();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_of_module = command.contains('.') && command.bytes().all(is_letter);
    if !is_known && !is_of_module {
        let advice = closest(command, CommandId::all().map(CommandId::name))
            .map_or_else(String::new, |known| format!(" (did you mean `{known}`?)"));
        return Err(format!("is no command{advice}"));
    }
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(is_letter) {
        return Err("has a new name that no client could say".to_owned());
    }
    Ok((command.to_ascii_lowercase(), name.to_owned()))
}

/// What all renamings together have wrong with them.
pub(crate) fn check_renamings(renamings: &[(String, String)]) -> Option<Problem> {
    if renamings.len() > POLICY_RULES_MAX {
        let (count, max) = (renamings.len(), POLICY_RULES_MAX);
        let message = format!("found {count} renamings; allowed: up to {max}");
        return Some(Problem { span: None, message });
    }
    let list: Vec<Renaming> = renamings.iter().map(to_renaming).collect();
    let (at, why) = policy::rename::check(&list).err()?;
    let message =
        format!("found the entry \"{}\", which {why}; allowed: {RENAME_FORMS}", renamings[at].0);
    Some(Problem { span: None, message })
}

fn to_renaming((from, to): &(String, String)) -> Renaming {
    Renaming { from: from.as_bytes().into(), to: to.as_bytes().into() }
}

impl Policies {
    /// The namespace that is wanted, or what is wrong with it.
    fn namespace(&self) -> Option<Result<Namespace, String>> {
        let prefix = self.namespace_prefix.as_ref()?;
        Some(Namespace::new(prefix.as_bytes(), self.namespace_whole))
    }

    /// What the engine is told; `None`: nothing is wanted.
    pub(crate) fn compiled(&self) -> Option<Arc<policy::Policies>> {
        fn each<T>(lines: &[RuleLine], detail: fn(&RuleLine) -> T) -> Vec<Rule<T>> {
            lines.iter().map(|line| line.rule(detail(line))).collect()
        }
        let rates = each(&self.rate, RuleLine::rate).into_iter();
        let (connections, rate) =
            rates.partition(|rule: &Rule<Rate>| rule.detail.unit == Unit::Connections);
        let rules = Rules {
            rename: self.rename.iter().map(to_renaming).collect(),
            deny: each(&self.deny, |_| ()),
            block: each(&self.block, |_| ()),
            read_only: self.read_only,
            read_only_error: self.read_only_error.clone().map(with_code),
            size: each(&self.size, RuleLine::size),
            own: each(&self.own, RuleLine::own),
            rate,
            connections,
            fault: each(&self.fault, RuleLine::fault),
            double_delete: each(&self.double_delete, RuleLine::again),
            namespace: self.namespace().and_then(Result::ok),
            values: self.values(),
            waiting_max: self.waiting_max,
        };
        policy::Policies::new(rules).map(Arc::new)
    }
}

/// Whether figures may call a rule so.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_letter)
}

/// What a program is called whose rule has no name: as its file, without what is behind the dot. The error goes on after the line's number.
fn name_of(file: &str) -> Result<String, String> {
    let stem = std::path::Path::new(file).file_stem().and_then(|stem| stem.to_str());
    stem.filter(|stem| is_name(stem)).map(str::to_owned).ok_or_else(|| {
        "has a file whose name does not do as a name for figures; give it a name=TEXT".to_owned()
    })
}

/// Whether requests that are changed go with what else is wanted.
pub(crate) fn check_changes(draft: &Draft, found: &mut Vec<Finding>) {
    check_namespace(draft, found);
    values::check(draft, found);
}

/// Whether a namespace can be what it is to be, and goes with what else is wanted.
fn check_namespace(draft: &Draft, found: &mut Vec<Finding>) {
    let config = &draft.config;
    match config.policies.namespace() {
        None if config.policies.namespace_whole => {
            let message = "set without `policies.namespace.prefix`, which it is about; give the prefix, or leave this out";
            found.push((&["policies.namespace.whole_database"], message.to_owned()));
        }
        None => {}
        Some(Err(allowed)) => {
            let prefix = config.policies.namespace_prefix.as_deref().unwrap_or_default();
            let message = format!("found \"{prefix}\"; allowed: {allowed}");
            found.push((&["policies.namespace.prefix"], message));
        }
        Some(Ok(_)) => {
            if config.cache.enabled {
                let message = "replies are kept by the requests of clients, whose names are not those of the servers in a namespace; turn the cache off, or leave \
                               `policies.namespace` out";
                found.push((&["cache.enabled", "policies.namespace.prefix"], message.to_owned()));
            }
            if !config.mirrors.targets.is_empty() {
                let message = "mirrors are told what clients write in the clients' words, and not in those of a namespace; leave out `mirrors.targets` or \
                               `policies.namespace`";
                found.push((&["policies.namespace.prefix", "mirrors.targets"], message.to_owned()));
            }
        }
    }
}

/// An error's text. The error goes on after "which".
fn error_text(text: &str) -> Result<String, String> {
    if !(1..=ERROR_BYTES_MAX).contains(&text.len()) || text.chars().any(char::is_control) {
        return Err(format!("is no text of 1 to {ERROR_BYTES_MAX} bytes on one line"));
    }
    Ok(with_code(text.to_owned()))
}

/// An error begins with a word in capitals, by which libraries tell it; `ERR` if there is none.
fn with_code(text: String) -> String {
    let code = text.split(' ').next().unwrap_or_default();
    let is_code = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase());
    if is_code(code) { text } else { format!("ERR {text}") }
}

/// A whole number from 1 on, or a size. The error goes on after "which".
fn amount(value: &str, sizes: bool) -> Result<u64, String> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { value.parse().ok() } else { None };
    let number = number.or_else(|| size(value).filter(|_| sizes));
    number.filter(|number| (1..=AMOUNT_MAX).contains(number)).ok_or_else(|| match sizes {
        true => "is no number from 1 to 1099511627776, also with KiB, MiB, GiB".to_owned(),
        false => "is no whole number from 1 to 1099511627776".to_owned(),
    })
}

/// `0.5` of a hundred is 5000 of a million.
fn per_million(value: &str) -> Option<u32> {
    let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 4 || whole.len() > 3 {
        return None;
    }
    let part: u32 = format!("{part:0<4}").parse().ok()?;
    let per_million = whole.parse::<u32>().ok()? * 10_000 + part;
    (1..=policy::fault::MILLION).contains(&per_million).then_some(per_million)
}

/// With quotes, if it needs some to be one word.
pub(crate) fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains([' ', '"', '\'', '\\', '\t', ';']) {
        return format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
    }
    word.to_owned()
}

/// Longest name of a rule, and longest new name of a command.
const NAME_BYTES_MAX: usize = 64;

/// What one call of a program may cost.
const FUEL: std::ops::RangeInclusive<u64> = 1_000..=100_000_000;

/// See [`FUEL`]; some tenths of a millisecond at most.
const FUEL_DEFAULT: u64 = 100_000;

/// Bytes that a program's memory may have.
const PROGRAM_MEMORY: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 20;

/// See [`PROGRAM_MEMORY`]. A program that was written in Rust has some 1.1 MiB from the start.
const PROGRAM_MEMORY_DEFAULT: u64 = 4 << 20;

/// Longest error.
const ERROR_BYTES_MAX: usize = 256;

/// Longest delay: an hour.
const DELAY_MS_MAX: u64 = 3_600_000;

/// The largest number: 1 TiB.
const AMOUNT_MAX: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(policy: Policy, text: &str) -> RuleLine {
        RuleLine::parse(policy, text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn lines_are_read_and_shown_as_words_that_read_as_the_same() {
        for (policy, text) in [
            (Policy::Deny, "keys config|set @dangerous"),
            (Policy::Block, "get key=a:* key=b name=x \"error=WAIT a bit\""),
            (Policy::Block, "\"key=a \\\"b\\\" \\\\*\""),
            (Policy::Size, "bytes=1MiB args=100 @write"),
            (Policy::Rate, "requests=10 burst=5 per=client delay_ms=100 key=a*"),
            (Policy::Rate, "bytes=10KiB per=prefix"),
            (Policy::Rate, "connections=10 burst=50 per=address name=n \"error=LATER please\""),
            (Policy::Fault, "percent=0.5 delay_ms=5 error=x get"),
            (Policy::DoubleDelete, "delay_ms=500 key=cache:*"),
            (
                Policy::Own,
                "file=/etc/g.wasm get set key=a:* fuel=1000 memory_max=64KiB on_failure=pass name=g",
            ),
        ] {
            let line = read(policy, text);
            assert_eq!(line.to_string(), text);
            assert_eq!(read(policy, &line.to_string()), line);
        }
    }

    #[test]
    fn numbers_mean_what_they_say() {
        let rate = read(Policy::Rate, "requests=10 delay_ms=7").rate();
        let expected =
            Rate { unit: Unit::Requests, per_s: 10, burst: 10, per: Per::All, delay_ms: 7 };
        assert_eq!(rate, expected);
        let rate = read(Policy::Rate, "bytes=1KiB burst=2KiB per=user").rate();
        assert_eq!(
            (rate.unit, rate.per_s, rate.burst, rate.per),
            (Unit::Bytes, 1024, 2048, Per::User)
        );
        let rate = read(Policy::Rate, "connections=5 per=address").rate();
        assert_eq!(
            (rate.unit, rate.per_s, rate.burst, rate.per),
            (Unit::Connections, 5, 5, Per::Address)
        );
        let size = read(Policy::Size, "args=3").size();
        assert_eq!(size, Size { bytes_max: u64::MAX, args_max: 3 });
        for (text, per_million, delay_ms, fails) in [
            ("percent=100", 1_000_000, 0, true),
            ("percent=0.0001 delay_ms=5", 1, 5, false),
            ("percent=12.5 delay_ms=5 error=no", 125_000, 5, true),
        ] {
            let fault = read(Policy::Fault, text).fault();
            assert_eq!(fault, Fault { per_million, delay_ms, fails }, "{text}");
        }
    }

    #[test]
    fn a_program_has_limits_and_a_name_of_its_file() {
        let line = read(Policy::Own, "file=/etc/respool/guard.v2.wasm");
        let expected = Own {
            file: "/etc/respool/guard.v2.wasm".into(),
            fuel: 100_000,
            memory_max_bytes: 4 << 20,
            passes_on_failure: false,
        };
        assert_eq!((line.own(), line.name.as_str()), (expected, "guard.v2"));
        let line = read(Policy::Own, "file=g.wat fuel=5000 memory_max=1MiB on_failure=pass name=n");
        let own = line.own();
        assert_eq!((own.fuel, own.memory_max_bytes, own.passes_on_failure), (5_000, 1 << 20, true));
        assert_eq!(line.name, "n");
    }

    #[test]
    fn an_error_has_a_code() {
        let error = |text: &str| read(Policy::Deny, &format!("get \"error={text}\"")).error;
        assert_eq!(error("WAIT for it"), Some("WAIT for it".to_owned()));
        assert_eq!(error("Wait for it"), Some("ERR Wait for it".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (policy, text, why) in [
            (Policy::Deny, "", "names no command"),
            (Policy::Deny, "gett", "no command and no category (did you mean `get`?)"),
            (Policy::Deny, "@nosuch", "names `@nosuch`"),
            (Policy::Deny, "get key=a", "has `key`, which is no key"),
            (Policy::Block, "name=x", "names no command and no key"),
            (Policy::Block, "key=", "key= with nothing behind it"),
            (Policy::Block, "get nam=x", "did you mean `name`?"),
            (Policy::Block, "get name=a/b", "is no name of"),
            (Policy::Block, "get \"error=", "quote that does not end"),
            (Policy::Block, "get error=", "is no text of"),
            (Policy::Size, "get", "has no bytes= and no args="),
            (Policy::Size, "bytes=0", "is no number from 1"),
            (Policy::Rate, "get", "has no requests=, no bytes= and no connections="),
            (Policy::Rate, "requests=1 bytes=1", "has several of requests="),
            (Policy::Rate, "connections=1 get", "have not said yet"),
            (Policy::Rate, "connections=1 key=a", "have not said yet"),
            (Policy::Rate, "connections=1 delay_ms=5", "is not kept waiting"),
            (Policy::Rate, "connections=1 per=user", "that is not all or address"),
            (Policy::Rate, "connections=0", "is no whole number from 1"),
            (Policy::Rate, "requests=1KiB", "is no whole number"),
            (Policy::Rate, "requests=1 requests=2", "has `requests` twice"),
            (Policy::Rate, "requests=1 per=key", "is none of all, user, client, prefix, address"),
            (Policy::Rate, "requests=1 delay_ms=3600001", "milliseconds from 1 to 3600000"),
            (Policy::Fault, "delay_ms=5", "has no percent="),
            (Policy::Fault, "percent=101", "is no number from 0.0001 to 100"),
            (Policy::Fault, "percent=.5", "is no number"),
            (Policy::DoubleDelete, "del", "has no delay_ms="),
            (Policy::Own, "get", "has no file="),
            (Policy::Own, "file=", "has `file`, which is empty"),
            (Policy::Own, "file=g.wasm fuel=999", "is no whole number from 1000 to 100000000"),
            (Policy::Own, "file=g.wasm memory_max=1", "is no size from 64KiB to 64MiB"),
            (Policy::Own, "file=g.wasm memory_max=65MiB", "is no size from 64KiB to 64MiB"),
            (Policy::Own, "file=g.wasm on_failure=no", "is none of refuse, pass"),
            (Policy::Own, "file=g.wasm get auth", "names `auth`, which no program is asked about"),
            (Policy::Own, "\"file=/a b/c d.wasm\"", "give it a name=TEXT"),
        ] {
            let message = RuleLine::parse(policy, text).expect_err(text);
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    #[test]
    fn renamings_are_of_commands_and_to_names_that_none_has() {
        assert_eq!(renaming("CONFIG", "c1"), Ok(("config".to_owned(), "c1".to_owned())));
        assert!(renaming("ft.search", "").is_ok());
        assert!(renaming("confg", "x").is_err_and(|why| why.contains("did you mean `config`?")));
        assert!(renaming("config", "a b").is_err());
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert!(check_renamings(&[pair("config", "c"), pair("keys", "")]).is_none());
        let twice = check_renamings(&[pair("config", "c"), pair("keys", "C")]);
        assert!(twice.is_some_and(|problem| {
            problem.message.contains("\"keys\", which has a new name that stands here twice")
        }));
    }
}
