//! The users of `[acl]`: lines of Redis' rules with where their passwords are, or Redis' ACL file.
//!
//! ```text
//!   "alice on ~app:* +@read password_file=/run/secrets/alice"
//!     └ name └ rules, as in Redis   └ ours: a password that stands elsewhere
//! ```
//! Not here: what rules mean (`engine::acl`), who reads files and runs commands (the caller).
//!
//! Invariant: no text made here repeats a word of a line that may be a password.

use crate::compile::{Draft, Place, read_secret};
use crate::problem::Fault;
use crate::rules::Finding;
use crate::secret::Secret;
use engine::acl::file::{parse, rules_of, users_of, words};
use engine::acl::{DEFAULT, RuleError, Rules, User, Users};
use engine::limits::USERS_MAX;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What a line looks like, for messages.
pub(crate) const USER_FORMS: &str = "a name and Redis' ACL rules, behind them password_file=PATH, password_env=NAME or \
     password_command=COMMAND if needed, as in \"alice on ~app:* +@read password_file=/run/secrets/alice\"";

/// Which options of the proxy clients change by `CONFIG SET`, and write into the file by `CONFIG REWRITE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientChanges {
    /// Those that do no harm.
    #[default]
    Safe,
    /// Bounds, logs and most policies as well.
    All,
    /// None.
    None,
}

impl ClientChanges {
    /// All of them, in the order of [`Self::NAMES`].
    pub const ALL: [Self; 3] = [Self::Safe, Self::All, Self::None];
    /// Their names in the file.
    pub const NAMES: [&'static str; 3] = ["safe", "all", "none"];
}

/// The table `[acl]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// Users, a line each.
    pub users: Vec<UserLine>,
    /// Redis' ACL file, instead of them.
    pub file: Option<PathBuf>,
    /// Users with restrictions may call scripts.
    pub unchecked_scripts: bool,
    /// Who is none of the users may be one of the servers.
    pub pass_through: bool,
    /// Users whom their password alone lets in, by name.
    pub by_password: Vec<String>,
    /// What clients may change of the configuration.
    pub config_set: ClientChanges,
}

impl Acl {
    /// What is said of users beside who they are.
    pub fn set_others(&self, users: &mut Users) {
        users.unchecked_scripts = self.unchecked_scripts;
        users.by_password = self.by_password.iter().map(|name| name.as_bytes().into()).collect();
    }
}

/// Where a password stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Variable(String),
    Command(String),
}

/// One line.
#[derive(Clone, PartialEq, Eq)]
pub struct UserLine {
    name: String,
    /// With the passwords of `sources`, once they are read.
    rules: Rules,
    sources: Vec<Source>,
    /// The line without what may be a password.
    shown: String,
}

impl fmt::Display for UserLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for UserLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl UserLine {
    /// Reads a line. An error names words by their number.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let words = words(text.as_bytes())
            .ok_or_else(|| "has a quote that does not end, or something behind one".to_owned())?;
        let words: Vec<String> =
            words.into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
        let Some((name, words)) = words.split_first() else {
            return Err("is empty".to_owned());
        };
        if name.bytes().any(|byte| byte.is_ascii_whitespace() || byte == 0) || name.is_empty() {
            return Err("has a name with spaces in it, or an empty one".to_owned());
        }
        if name.starts_with(['>', '<', '#', '!', '~', '&', '+', '-', '%', '(']) {
            return Err("begins with a rule; its first word is the name".to_owned());
        }
        let mut line = Self {
            name: name.clone(),
            rules: Rules::default(),
            sources: Vec::new(),
            shown: name.clone(),
        };
        let mut rules: Vec<&[u8]> = Vec::new();
        for word in words {
            match source(word) {
                Some(source) => line.sources.push(source?),
                None => rules.push(word.as_bytes()),
            }
            if !word.starts_with(['>', '<', '#', '!']) {
                line.shown.push(' ');
                line.shown.push_str(&quoted(word));
            }
        }
        line.rules = line.read(&rules)?;
        Ok(line)
    }

    fn read(&self, words: &[&[u8]]) -> Result<Rules, String> {
        let (rules, wrong) = rules_of(words);
        if wrong.is_empty() {
            return Ok(rules);
        }
        // One after the other, to tell which it is. A selector is told by its first word.
        let mut tried = Rules::default();
        for (number, word) in (2..).zip(words) {
            if word.starts_with(b"(") {
                break;
            }
            if let Err(error) = tried.apply(word) {
                let text = error.text();
                return Err(match error {
                    // What may follow a sign is no secret.
                    RuleError::UnknownCommand => {
                        format!("word {number}, `{}`: {text}", String::from_utf8_lossy(word))
                    }
                    _ => format!("word {number}: {text}"),
                });
            }
        }
        Err(format!("in a selector: {}", wrong.concat().trim_end()))
    }
}

/// A word of ours; `None`: it is a rule.
fn source(word: &str) -> Option<Result<Source, String>> {
    let (key, value) = word.split_once('=')?;
    let source = match key {
        "password_file" => Source::File(value.into()),
        "password_env" => Source::Variable(value.to_owned()),
        "password_command" => Source::Command(value.to_owned()),
        _ => return None,
    };
    let is_empty = value.is_empty() || value.contains('\0');
    Some(if is_empty { Err(format!("{key}= has nothing behind it")) } else { Ok(source) })
}

/// With quotes, if it needs some to be one word.
fn quoted(word: &str) -> String {
    if word.contains([' ', '"', '\'', '\\', '\t']) {
        return format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
    }
    word.to_owned()
}

/// Reads lines; a name stands in one of them.
pub(crate) fn read_lines<'a>(
    lines: impl Iterator<Item = Result<&'a str, Fault>>,
    span: impl Fn(usize) -> Option<std::ops::Range<usize>>,
) -> Result<Vec<UserLine>, Vec<Fault>> {
    let (mut users, mut faults): (Vec<UserLine>, Vec<Fault>) = (Vec::new(), Vec::new());
    for (at, line) in lines.enumerate() {
        let fault = |message: String| Fault {
            span: span(at),
            message: format!("user {} {message}; allowed: {USER_FORMS}", at + 1),
        };
        match line.map(UserLine::parse) {
            Err(wrong) => faults.push(wrong),
            Ok(Err(message)) => faults.push(fault(message)),
            Ok(Ok(user)) if users.iter().any(|known| known.name == user.name) => {
                faults.push(fault("has the name of one before it".to_owned()));
            }
            Ok(Ok(user)) => users.push(user),
        }
    }
    if users.len() >= USERS_MAX {
        let message = format!("found {} users; allowed: less than {USERS_MAX}", users.len());
        faults.push(Fault { span: None, message });
    }
    if faults.is_empty() { Ok(users) } else { Err(faults) }
}

/// Makes the users of all that says who they are, reading what has to be read.
pub(crate) fn complete(
    draft: &mut Draft,
    read: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for (number, user) in (1..).zip(&mut draft.config.acl.users) {
        for source in &user.sources {
            match source.read(read) {
                Ok(secret) => user.rules.add_password(secret.reveal()),
                Err(message) => {
                    found.push((&["acl.users"], format!("user {number}: {message}")));
                }
            }
        }
    }
    let acl = &draft.config.acl;
    let users = match &acl.file {
        Some(_) if !acl.users.is_empty() => {
            let message =
                "`acl.users` and `acl.file` are both set; the users stand in the one or the other"
                    .to_owned();
            found.push((&["acl.file", "acl.users"], message));
            return found;
        }
        Some(file) => read_users(file, read),
        None => Ok(lines(&acl.users)),
    };
    let mut users = match users {
        Ok(users) => users,
        Err(message) => {
            found.push((&["acl.file"], message));
            return found;
        }
    };
    if let Some(password) = &draft.config.password {
        let line = acl.users.iter().find(|user| user.name.as_bytes() == DEFAULT);
        if line.is_some_and(|user| user.rules.has_password() || user.rules.nopass()) {
            let message =
                "`password` and a password of `default` in `acl.users` are both set; give one of the two".to_owned();
            found.push((&["acl.users", "password", "password_file"], message));
        }
        users.change(DEFAULT, |rules| rules.set_password(password.reveal()));
    }
    acl.set_others(&mut users);
    check_by_password(acl, &users, &mut found);
    draft.config.users = users.into();
    found
}

/// A password alone must tell who it is.
fn check_by_password(acl: &Acl, users: &Users, found: &mut Vec<Finding>) {
    let mut wrong = |message: String| found.push((&["acl.by_password"], message));
    let mut before = vec![String::from_utf8_lossy(DEFAULT).into_owned()];
    for name in &acl.by_password {
        let Some(user) = users.get(name.as_bytes()) else {
            wrong(format!("`{name}` is no user of `acl.users` or `acl.file`"));
            continue;
        };
        if before.contains(name) {
            wrong(match name.as_bytes() == DEFAULT {
                true => "`default` is asked in any case; leave it out".to_owned(),
                false => format!("`{name}` is there twice"),
            });
            continue;
        }
        if user.rules().nopass() {
            wrong(format!("`{name}` has `nopass`, so every password would be its"));
        }
        // Whoever is off has none: so a password can go over from one to another.
        let shares = |other: &&String| {
            let other = users.get(other.as_bytes()).map(User::rules);
            let rules = user.rules();
            other
                .is_some_and(|other| other.is_on() && rules.is_on() && other.shares_password(rules))
        };
        for other in before.iter().filter(shares) {
            wrong(format!(
                "`{other}` and `{name}` have a password in common, which is to tell them apart"
            ));
        }
        before.push(name.clone());
    }
}

fn lines(lines: &[UserLine]) -> Users {
    users_of(lines.iter().map(|user| (user.name.as_bytes().into(), user.rules.clone())).collect())
}

/// Reads Redis' ACL file.
///
/// # Errors
/// What is wrong, for a person.
pub fn read_users(
    file: &Path,
    read: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
) -> Result<Users, String> {
    let name = file.display().to_string();
    let text = read(Place::Users(file));
    let text =
        text.map_err(|error| format!("Error loading ACLs, opening file '{name}': {error}"))?;
    parse(&text, &name).map(users_of)
}

impl Source {
    fn read(&self, read: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>) -> Result<Secret, String> {
        match self {
            Self::File(path) => read_secret(read, Place::File(path), &path.display().to_string()),
            Self::Variable(name) => {
                read_secret(read, Place::Variable(name), &format!("the variable {name}"))
            }
            Self::Command(command) => {
                read_secret(read, Place::Command(command), "what its password_command says")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_without_its_passwords() {
        let line = "alice on >pw1 ~app:* +@read password_env=ALICE \"password_command=get 'a b'\" (~x +get)";
        let user = UserLine::parse(line).unwrap();
        let shown =
            "alice on ~app:* +@read password_env=ALICE \"password_command=get 'a b'\" (~x +get)";
        assert_eq!((user.to_string().as_str(), format!("{user:?}").as_str()), (shown, shown));
        let again = UserLine::parse(shown).unwrap();
        assert_eq!((again.name, again.sources), (user.name, user.sources));
    }

    #[test]
    fn what_is_wrong_is_told_without_passwords() {
        for (line, message) in [
            ("", "is empty"),
            (">hunter2 on", "begins with a rule; its first word is the name"),
            ("a \"hunter2", "has a quote that does not end, or something behind one"),
            ("a on +nosuch", "word 3, `+nosuch`: Unknown command or category name in ACL"),
            ("a on hunter2", "word 3: Syntax error"),
            (
                "a <hunter2",
                "word 2: The password you are trying to remove from the user does not exist",
            ),
            ("a (~x +get", "in a selector: Unmatched parenthesis in selector definition."),
            ("a password_file=", "password_file= has nothing behind it"),
        ] {
            assert_eq!(UserLine::parse(line).unwrap_err(), message, "{line}");
        }
    }
}
