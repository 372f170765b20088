//! From the sources (file, environment, command line) to one checked [`Config`].
//!
//! Sources are applied from the weakest to the strongest, each value checked where it stands even if a stronger source
//! replaces it: a mistake that is hidden today is an outage when the flag is taken away. Then passwords are read from
//! their files, and [`crate::rules`] looks at values together. All problems are collected on the way.
//!
//! Invariant: a `Config` comes out only when there is no problem at all.

use std::io;
use std::path::Path;

use crate::address::UpstreamUrl;
use crate::file::Reader;
use crate::kind::{Item, Raw, Scalar};
use crate::options::{OPTIONS, OptionSpec};
use crate::problem::{Fault, Origin, Problem, Problems};
use crate::rules;
use crate::schema::{self, Config};
use crate::secret::Secret;
use crate::sharding;

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
    /// Environment variables; those that no option has are ignored, because orchestrators put `RESPOOL_*` variables of
    /// their own (Kubernetes: `RESPOOL_PORT` for a service of that name).
    pub environment: &'a [(String, String)],
    /// Flags by the option's name, each with the values that were given.
    pub arguments: &'a [(&'static str, Vec<String>)],
    /// Reads a password file.
    pub read_secret: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

/// Makes the configuration.
///
/// # Errors
/// All problems of all sources at once.
pub fn load(sources: &Sources<'_>) -> Result<Config, Problems> {
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
            let values = if option.is_list() {
                value.split(option.separator()).map(str::trim).collect()
            } else {
                vec![value.as_str()]
            };
            apply_words(option, &values, Origin::Environment(name), &mut draft, &mut problems);
        }
    }
    for (name, values) in sources.arguments {
        if let Some(option) = OptionSpec::find(name) {
            let values = values.iter().map(String::as_str).collect::<Vec<_>>();
            let origin = Origin::Argument(format!("--{}", option.flag()));
            apply_words(option, &values, origin, &mut draft, &mut problems);
        }
    }
    // A file with a syntax error was not read at all, so that rules would complain about what it may well contain.
    if problems.0.iter().all(|problem| problem.key.is_some()) {
        read_secrets(&mut draft, sources.read_secret, &mut problems);
        rules::check(&mut draft, &mut problems);
    }
    problems.sort();
    if problems.0.is_empty() { Ok(draft.config) } else { Err(problems) }
}

/// Makes the configuration of one file alone, without environment and command line.
///
/// # Errors
/// All problems at once.
pub fn load_file(
    file: FileText<'_>,
    read_secret: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Config, Problems> {
    load(&Sources { file: Some(file), environment: &[], arguments: &[], read_secret })
}

/// A configuration in the making: the values, and where each came from.
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

    /// Whether an option was set by any source.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.origin(name) != Origin::Unset
    }
}

/// Applies a value that was written as words.
fn apply_words(
    option: &'static OptionSpec,
    values: &[&str],
    origin: Origin,
    draft: &mut Draft,
    problems: &mut Problems,
) {
    let item = |word| Item { scalar: Scalar::Word(word), span: None };
    let raw = match values {
        [word] => Raw::One(item(word)),
        words => Raw::List(words.iter().copied().map(item).collect()),
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

/// Reads the two password files where they are in force.
fn read_secrets(
    draft: &mut Draft,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    problems: &mut Problems,
) {
    for (direct, file) in
        [("password", "password_file"), ("upstream_password", "upstream_password_file")]
    {
        let (direct_layer, file_layer) = (draft.origin(direct).layer(), draft.origin(file).layer());
        if file_layer == 0 || direct_layer > file_layer {
            continue;
        }
        let mut problem = |message| {
            let key = Some(file.to_owned());
            problems.0.push(Problem { origin: draft.origin(file), key, message, excerpt: None });
        };
        if direct_layer == file_layer {
            problem(format!("`{direct}` and `{file}` are both set; give one of them"));
            continue;
        }
        let upstream = file == "upstream_password_file";
        let path = if upstream {
            &draft.config.upstream_password_file
        } else {
            &draft.config.password_file
        };
        let Some(path) = path.clone() else { continue };
        match read(&path) {
            Err(error) => problem(format!("cannot read {}: {error}", path.display())),
            Ok(mut bytes) => {
                // Editors and `echo` end the file with a newline that is no part of the password.
                if bytes.last() == Some(&b'\n') {
                    bytes.pop();
                    if bytes.last() == Some(&b'\r') {
                        bytes.pop();
                    }
                }
                if bytes.is_empty() {
                    problem(format!("{} is empty; it must hold the password", path.display()));
                } else if upstream {
                    draft.upstream_password = Some(Secret::new(bytes));
                } else {
                    draft.config.password = Some(Secret::new(bytes));
                }
            }
        }
    }
}
