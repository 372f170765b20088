//! From the sources (file, environment, command line) to one checked [`Config`].
//!
//! Sources are applied from the weakest to the strongest (file, environment, command line, changes at run time), each value checked where it stands even if a stronger source
//! replaces it: a mistake that is hidden today is an outage when the flag is taken away. Then passwords are read from
//! their files, and [`crate::rules`] looks at values together. All problems are collected on the way.
//!
//! Invariant: a `Config` comes out only when there is no problem at all.

use std::io;
use std::path::{Path, PathBuf};

use crate::address::UpstreamUrl;
use crate::environment;
use crate::file::Reader;
use crate::kind::{Item, Raw, Scalar};
use crate::loaded::Loaded;
use crate::options::{OPTIONS, OptionSpec};
use crate::problem::{Fault, Origin, Problem, Problems};
use crate::rules;
use crate::schema::{self, Config};
use crate::secret::Secret;
use crate::sharding;
use crate::tenants;
use crate::users;
use crate::values;

/// A configuration file that the caller has read.
#[derive(Clone, Copy, Debug)]
pub struct FileText<'a> {
    /// Its name, as messages shall show it.
    pub name: &'a str,
    /// Its content.
    pub text: &'a str,
}

/// What a configuration is made of.
pub struct Sources<'a> {
    /// The file, if there is one.
    pub file: Option<FileText<'a>>,
    /// Memory that the process may use, as far as that is known: a default depends on it.
    pub memory_bytes: Option<u64>,
    /// Environment variables whose names begin with [`ENVIRONMENT_PREFIX`](crate::options::ENVIRONMENT_PREFIX). Of those that no option has, one
    /// is refused whose name is nearly that of an option.
    pub environment: &'a [(String, String)],
    /// Flags by the option's name, each with the values that were given.
    pub arguments: &'a [Given],
    /// What was changed while the program ran, likewise.
    pub changes: &'a [Given],
    /// Reads what stands elsewhere.
    pub read_secret: &'a dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
}

/// Where something stands that belongs to the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A password file.
    File(&'a Path),
    /// A variable of the environment that holds a password.
    Variable(&'a str),
    /// A command that prints a password.
    Command(&'a str),
    /// A file of users.
    Users(&'a Path),
}

/// An option by its name, and the words that were given for it.
pub type Given = (&'static str, Vec<String>);

/// Makes the configuration.
///
/// # Errors
/// All problems of all sources at once.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, Problems> {
    let mut draft = Draft::default();
    let mut problems = Problems::default();
    if let Some(FileText { name, text }) = sources.file {
        problems.0.extend(Reader::read(name, text, &mut draft));
    }
    for option in OPTIONS {
        let name = option.environment();
        // An empty variable is how shells and compose files say "not set".
        let set = sources.environment.iter().find(|(key, value)| *key == name && !value.is_empty());
        if let Some((_, value)) = set {
            let words = option.words_of(value);
            apply_words(option, &words, Origin::Environment(name), &mut draft, &mut problems);
        }
    }
    let mistyped = environment::mistyped(sources);
    let arguments = sources.arguments.iter().map(|given| (given, false));
    for ((name, values), is_change) in
        arguments.chain(sources.changes.iter().map(|given| (given, true)))
    {
        if let Some(option) = OptionSpec::find(name) {
            let flag = || Origin::Argument(format!("--{}", option.flag()));
            let origin = if is_change { Origin::Change } else { flag() };
            apply_words(option, values, origin, &mut draft, &mut problems);
        }
    }
    let mut written = Draft::default();
    // A file with a syntax error was not read at all, so that rules would complain about what it may well contain.
    if problems.0.iter().all(|problem| problem.key.is_some()) {
        suit_memory(&mut draft, sources.memory_bytes);
        let mut base = draft.clone();
        read_secrets(&mut draft, &SECRETS, sources.read_secret, &mut problems);
        for (names, message) in users::complete(&mut draft, sources.read_secret) {
            problems.0.push(rules::problem(&draft, names, message));
        }
        if let Some(file) = sources.file {
            base.config.users = draft.config.users.clone();
            draft.config.tenants = tenants::load(file, &base, sources.read_secret, &mut problems);
        }
        rules::complete(&mut draft);
        draft.config.share_workers();
        written = draft.clone();
        rules::check(&mut draft, &mut problems);
        tenants::leave_out_repeated(&mut problems);
    }
    problems.0.extend(mistyped);
    problems.sort();
    if problems.0.is_empty() { Ok(Loaded::new(draft.config, written)) } else { Err(problems) }
}

/// What `limits.memory_max_bytes` is where nothing else is written: a part of the memory that the process may use, and never more than where that is not
/// known. It is not below `limits.client_out_max_bytes`, or a configuration that is right would be wrong on a smaller machine.
fn suit_memory(draft: &mut Draft, memory_bytes: Option<u64>) {
    let Some(memory_bytes) = memory_bytes.filter(|_| !draft.is_set(MEMORY_MAX)) else { return };
    let limits = &mut draft.config.limits;
    let most = limits.memory_max_bytes;
    let least = limits.client_out_max_bytes.max(MEMORY_MAX_LEAST).min(most);
    let part = usize::try_from(memory_bytes / MEMORY_PART).unwrap_or(most);
    limits.memory_max_bytes = part.clamp(least, most);
}

const MEMORY_MAX: &str = "limits.memory_max_bytes";

/// Half of the memory: buffers grow and allocators keep some, and there are programs, tables and the kernel's buffers beside.
const MEMORY_PART: u64 = 2;

/// The least that may be written.
const MEMORY_MAX_LEAST: usize = 16 << 20;

/// Makes the configuration of one file alone, without environment and command line.
///
/// # Errors
/// All problems at once.
pub fn load_file(
    file: FileText<'_>,
    read_secret: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
) -> Result<Config, Problems> {
    let sources = Sources {
        file: Some(file),
        memory_bytes: None,
        environment: &[],
        arguments: &[],
        changes: &[],
        read_secret,
    };
    load(&sources).map(|loaded| loaded.config)
}

/// A configuration in the making: the values, and where each came from.
#[derive(Clone)]
pub(crate) struct Draft {
    /// Its `upstream` is made of the four below when all sources are read.
    pub(crate) config: Config,
    /// The option `upstream`.
    pub(crate) upstream: UpstreamUrl,
    /// The table `[sharding]`.
    pub(crate) sharding: sharding::Draft,
    /// Kept apart from the URL, because a stronger source may replace the one without the other.
    pub(crate) upstream_user: Option<String>,
    /// As above.
    pub(crate) upstream_password: Option<Secret>,
    /// As above, for sentinels.
    pub(crate) sentinel_user: Option<String>,
    /// As above.
    pub(crate) sentinel_password: Option<Secret>,
    /// The strongest source of each option that was set.
    origins: Vec<(&'static str, Origin)>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            config: Config::default(),
            upstream: schema::default_upstream(),
            sharding: sharding::Draft::default(),
            upstream_user: None,
            upstream_password: None,
            sentinel_user: None,
            sentinel_password: None,
            origins: Vec::new(),
        }
    }
}

impl Draft {
    /// Notes where an option's value came from.
    pub(crate) fn set_origin(&mut self, option: &OptionSpec, origin: Origin) {
        self.origins.retain(|(name, _)| *name != option.name);
        self.origins.push((option.name, origin));
    }

    /// Where an option's value came from.
    pub(crate) fn origin(&self, name: &str) -> Origin {
        self.origins
            .iter()
            .find(|(key, _)| *key == name)
            .map_or(Origin::Unset, |(_, origin)| origin.clone())
    }

    /// The option has its default, as if nobody had set it.
    pub(crate) fn forget_origin(&mut self, name: &str) {
        self.origins.retain(|(known, _)| *known != name);
    }

    /// Whether an option was set by any source.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.origin(name) != Origin::Unset
    }
}

/// Applies a value that was written as words.
fn apply_words(
    option: &'static OptionSpec,
    values: &[String],
    origin: Origin,
    draft: &mut Draft,
    problems: &mut Problems,
) {
    let item = |word| Item { scalar: Scalar::Word(word), span: None };
    let raw = match values {
        [word] => Raw::One(item(word)),
        words => Raw::List(words.iter().map(|word| item(word)).collect()),
    };
    match option.kind.assign(draft, &raw) {
        Ok(()) => draft.set_origin(option, origin),
        Err(faults) => {
            for Fault { message, .. } in faults {
                let key = Some(option.name.to_owned());
                problems.0.push(Problem { origin: origin.clone(), key, message, excerpt: None });
            }
        }
    }
}

/// An option with a password, the one with its file, and where path and password are kept.
pub(crate) type SecretOption = (
    &'static str,
    &'static str,
    fn(&mut Draft) -> &mut Option<PathBuf>,
    fn(&mut Draft) -> &mut Option<Secret>,
);

/// Those that a tenant has for itself.
pub(crate) const TENANT_SECRETS: &[SecretOption] = SECRETS.split_at(1).1.split_at(2).0;

/// Every password of an option. Those of single shards stand in their entries.
const SECRETS: [SecretOption; 4] = [
    ("password", "password_file", |d| &mut d.config.password_file, |d| &mut d.config.password),
    (
        "upstream_password",
        "upstream_password_file",
        |d| &mut d.config.upstream_password_file,
        |d| &mut d.upstream_password,
    ),
    (
        "sentinel_password",
        "sentinel_password_file",
        |d| &mut d.config.sentinel_password_file,
        |d| &mut d.sentinel_password,
    ),
    (
        "admin.token",
        "admin.token_file",
        |d| &mut d.config.admin.token_file,
        |d| &mut d.config.admin.token,
    ),
];

/// Reads the password files of these options where they are in force, and those of shards.
pub(crate) fn read_secrets(
    draft: &mut Draft,
    secrets: &[SecretOption],
    read: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
    problems: &mut Problems,
) {
    for &(direct, file, path, secret) in secrets {
        let (direct_layer, file_layer) = (draft.origin(direct).layer(), draft.origin(file).layer());
        if file_layer == 0 || direct_layer > file_layer {
            continue;
        }
        let read = if direct_layer == file_layer {
            Err(format!("`{direct}` and `{file}` are both set; give one of them"))
        } else {
            let Some(path) = path(draft).clone() else { continue };
            read_secret(read, Place::File(&path), &path.display().to_string())
        };
        match read {
            Ok(read) => *secret(draft) = Some(read),
            Err(message) => problems.0.push(about(draft, file, message)),
        }
    }
    let mut wrong = Vec::new();
    for (number, entry) in (1..).zip(&mut draft.sharding.entries) {
        // Which file is not said: with a space in a password that was not escaped, the path could be a piece of it.
        if let Err(message) =
            entry.read_secrets(&|path, name| read_secret(read, Place::File(path), name))
        {
            wrong.push(format!("shard {number}: {message}"));
        }
    }
    problems.0.extend(wrong.into_iter().map(|message| about(draft, "sharding.shards", message)));
    let wrong = values::read_keys(&mut draft.config.policies, read);
    problems
        .0
        .extend(wrong.into_iter().map(|message| about(draft, "policies.values.keys", message)));
    let mut wrong = Vec::new();
    for (number, mirror) in (1..).zip(&mut draft.config.mirrors.targets) {
        if let Err(message) =
            mirror.read_secrets(&|path, name| read_secret(read, Place::File(path), name))
        {
            wrong.push(format!("mirror {number}: {message}"));
        }
    }
    problems.0.extend(wrong.into_iter().map(|message| about(draft, "mirrors.targets", message)));
    let mut wrong = Vec::new();
    for (number, target) in (1..).zip(&mut draft.config.read_targets.targets) {
        if let Err(message) =
            target.read_secrets(&|path, name| read_secret(read, Place::File(path), name))
        {
            wrong.push(format!("read target {number}: {message}"));
        }
    }
    let wrong = wrong.into_iter().map(|message| about(draft, "read_targets.targets", message));
    problems.0.extend(wrong);
}

/// A problem with the value of an option that was set.
fn about(draft: &Draft, option: &str, message: String) -> Problem {
    Problem { origin: draft.origin(option), key: Some(option.to_owned()), message, excerpt: None }
}

/// Reads one password, whose place messages call `name`.
pub(crate) fn read_secret(
    read: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
    place: Place<'_>,
    name: &str,
) -> Result<Secret, String> {
    let mut bytes = read(place).map_err(|error| format!("cannot read {name}: {error}"))?;
    // Editors and `echo` end the file with a newline that is no part of the password.
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.is_empty() {
        return Err(format!("{name} is empty; it must hold the password"));
    }
    Ok(Secret::new(bytes))
}
