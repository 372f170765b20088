//! Where the configuration comes from: a file, the environment, the command line; and later changes.
//!
//! Read once at the start and again for each change while the program runs, in the same way. The text of the file is read apart from the
//! rest, so that a change of one option does not also take in what somebody has written into the file meanwhile.
//!
//! Not here: what is right (`config`), what is done with it (`control`, the command line).
//!
//! Invariant: nothing that is read here is larger than its bound, so a wrong path (a device, a log) does not fill the memory; and a dry run reads no file
//! and runs no command.

use crate::control::{certificates, extensions};
use crate::machine;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::options::{ENVIRONMENT_PREFIX, OPTIONS, OptionSpec};
use config::{Config, FileText, Given, Loaded, Place, Problems};

/// Longest configuration file, and longest file of users or certificates.
const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// So long a command may take that prints a password: the start waits for it.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether such a command has ended.
const POLL: Duration = Duration::from_millis(5);
/// Places outside of the configuration whose content is kept for dry runs; the oldest go first.
const SECRETS_MAX: usize = 4096;
/// Longest password file; a password goes to the server in one argument of `AUTH`.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// Why there is no configuration. The texts are for a person and have no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A file or a variable cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// What was read is wrong.
    #[error("{0}")]
    Wrong(Problems),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Sources {
    file: Option<PathBuf>,
    arguments: Vec<Given>,
    takes: fn(&OptionSpec) -> bool,
    extensions: extensions::Known,
    secrets: Secrets,
}

/// What was read last from each place outside of the configuration, for dry runs. Clones share it.
#[derive(Clone, Default)]
struct Secrets(Arc<Mutex<Kept>>);

/// What is known of them.
#[derive(Default)]
struct Kept {
    /// Each place that was ever read.
    places: Places,
    /// The files among those that the configuration named that was loaded last.
    files: Vec<PathBuf>,
}

/// Each place with its bytes.
type Places = Vec<(Named, Vec<u8>)>;

/// A [`Place`] that is kept.
#[derive(PartialEq, Eq)]
enum Named {
    File(PathBuf),
    Variable(String),
    Command(String),
    Users(PathBuf),
}

impl From<Place<'_>> for Named {
    fn from(place: Place<'_>) -> Self {
        match place {
            Place::File(path) => Self::File(path.to_owned()),
            Place::Variable(name) => Self::Variable(name.to_owned()),
            Place::Command(command) => Self::Command(command.to_owned()),
            Place::Users(path) => Self::Users(path.to_owned()),
        }
    }
}

impl Named {
    fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(path) | Self::Users(path) => Some(path),
            Self::Variable(_) | Self::Command(_) => None,
        }
    }

    fn place(&self) -> Place<'_> {
        match self {
            Self::File(path) => Place::File(path),
            Self::Variable(name) => Place::Variable(name),
            Self::Command(command) => Place::Command(command),
            Self::Users(path) => Place::Users(path),
        }
    }
}

/// They are never shown.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// These were read now. What is not among them may still be in force, as somebody may yet refuse what was read.
    fn keep(&self, read: Places) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.files = read.iter().filter_map(|(named, _)| named.file().cloned()).collect();
        known.places.retain(|(named, _)| read.iter().all(|(other, _)| other != named));
        known.places.extend(read);
        let over = known.places.len().saturating_sub(SECRETS_MAX);
        known.places.drain(..over);
    }

    /// Whether a file holds something else than when it was read. One that is away counts not: it may be replaced just now.
    fn have_changed(&self) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.places.iter().any(|(named, bytes)| {
            let is_named = named.file().is_some_and(|file| known.files.contains(file));
            is_named && read_secret(named.place()).is_ok_and(|now| now != *bytes)
        })
    }

    /// The last output of a command.
    fn printed(&self, place: Place<'_>) -> Option<Vec<u8>> {
        let Place::Command(_) = place else { return None };
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = Named::from(place);
        known.places.iter().find(|(one, _)| *one == named).map(|(_, bytes)| bytes.clone())
    }

    /// What was read there last. Of a place where nobody has read yet, something that is right in form: 64 digits are a password and a key.
    fn known(&self, place: Place<'_>) -> Vec<u8> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = Named::from(place);
        match known.places.iter().find(|(one, _)| *one == named) {
            Some((_, bytes)) => bytes.clone(),
            None if matches!(place, Place::Users(_)) => b"user default off\n".to_vec(),
            None => vec![b'0'; 64],
        }
    }
}

impl Sources {
    /// This file, the environment of the process, and these flags. Of the environment only the options count that `takes` accepts.
    pub fn new(
        file: Option<PathBuf>,
        arguments: Vec<Given>,
        takes: fn(&OptionSpec) -> bool,
    ) -> Self {
        let (extensions, secrets) = (extensions::Known::default(), Secrets::default());
        Self { file, arguments, takes, extensions, secrets }
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Its name for a person, empty if there is none.
    pub fn file_name(&self) -> String {
        self.file.as_deref().map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// What stands in the file now; `None` if there is no file.
    ///
    /// # Errors
    /// It cannot be read, is too long, or is not UTF-8.
    pub fn read_file(&self) -> Result<Option<String>, SourceError> {
        self.file.as_deref().map(read_text).transpose()
    }

    /// The configuration of this text, the environment, the flags and these changes.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn load(&self, text: Option<&str>, changes: &[Given]) -> Result<Loaded, SourceError> {
        self.load_by(text, changes, &read_secret)
    }

    /// The same for a change of some options: commands that printed passwords are not run again.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_changed(
        &self,
        text: Option<&str>,
        changes: &[Given],
    ) -> Result<Loaded, SourceError> {
        self.load_by(text, changes, &|place| match self.secrets.printed(place) {
            Some(bytes) => Ok(bytes),
            None => read_secret(place),
        })
    }

    fn load_by(
        &self,
        text: Option<&str>,
        changes: &[Given],
        read_secret: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
    ) -> Result<Loaded, SourceError> {
        let read = std::cell::RefCell::new(Vec::new());
        let read_secret = |place: Place<'_>| {
            let bytes = read_secret(place)?;
            read.borrow_mut().push((Named::from(place), bytes.clone()));
            Ok(bytes)
        };
        let mut loaded = self.load_with(text, changes, &read_secret)?;
        let mut found = certificates::look(&loaded.config);
        found.extend(self.extensions.take_into(&mut loaded));
        if !found.is_empty() {
            return Err(SourceError::Wrong(loaded.problems(found)));
        }
        self.secrets.keep(read.into_inner());
        Ok(loaded)
    }

    /// The same for somebody who only wants to know what would change: what stands in files, or is printed by commands, is as it was when it was
    /// last read, and not looked at where nobody has read it. So a change can still fail for what stands there.
    ///
    /// # Errors
    /// Everything that is wrong with the words.
    pub fn load_dry(&self, text: Option<&str>, changes: &[Given]) -> Result<Loaded, SourceError> {
        self.load_with(text, changes, &|place| Ok(self.secrets.known(place)))
    }

    fn load_with(
        &self,
        text: Option<&str>,
        changes: &[Given],
        read_secret: &dyn Fn(Place<'_>) -> io::Result<Vec<u8>>,
    ) -> Result<Loaded, SourceError> {
        let (name, environment) = (self.file_name(), self.environment()?);
        let sources = config::Sources {
            file: text.map(|text| FileText { name: &name, text }),
            memory_bytes: machine::memory_bytes(),
            environment: &environment,
            arguments: &self.arguments,
            changes,
            read_secret,
        };
        config::load(&sources).map_err(SourceError::Wrong)
    }

    /// Whether a program that this configuration names stands otherwise in its file than when it was last loaded, or cannot be read.
    pub(crate) fn have_programs_changed(&self, config: &Config) -> bool {
        self.extensions.have_changed(config)
    }

    /// The files of passwords, keys and users that the configuration names.
    pub(crate) fn secret_files(&self) -> Vec<PathBuf> {
        self.secrets.0.lock().unwrap_or_else(PoisonError::into_inner).files.clone()
    }

    /// Whether one of these files stands otherwise than when it was last read.
    pub(crate) fn have_secrets_changed(&self) -> bool {
        self.secrets.have_changed()
    }

    /// The environment variables of this program.
    fn environment(&self) -> Result<Vec<(String, String)>, SourceError> {
        let mut variables = Vec::new();
        for option in OPTIONS.iter().filter(|option| (self.takes)(option)) {
            let name = option.environment();
            debug_assert!(
                name.starts_with(ENVIRONMENT_PREFIX),
                "variables of one program share their prefix"
            );
            match std::env::var(&name) {
                Ok(value) => variables.push((name, value)),
                Err(std::env::VarError::NotPresent) => {}
                Err(std::env::VarError::NotUnicode(_)) => {
                    let text = format!("environment {name}: not valid UTF-8");
                    return Err(SourceError::Unreadable(text));
                }
            }
        }
        // Among those that no option has, one may be mistyped.
        let others = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(ENVIRONMENT_PREFIX));
            Some((name?, value.to_string_lossy().into_owned()))
        });
        let is_option = |name: &str| OPTIONS.iter().any(|option| option.environment() == name);
        variables.extend(others.filter(|(name, _)| !is_option(name)));
        Ok(variables)
    }
}

/// Reads a configuration file.
///
/// # Errors
/// It cannot be read, is longer than 4 MiB, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, SourceError> {
    read_utf8(path).map_err(|error| {
        SourceError::Unreadable(match error.kind() {
            io::ErrorKind::InvalidData => format!("{}: {error}; TOML is UTF-8", path.display()),
            _ => format!("{}: cannot be read: {error}", path.display()),
        })
    })
}

/// Reads a file that is text.
///
/// # Errors
/// It cannot be read, is longer than 4 MiB, or is not UTF-8.
pub fn read_utf8(path: &Path) -> io::Result<String> {
    let bytes = read_bounded(path, CONFIG_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("not valid UTF-8 at byte {at}"))
    })
}

/// Reads what stands outside of the configuration: passwords and files of users.
///
/// # Errors
/// It cannot be read, or is longer than 64 KiB, or 4 MiB if it is a file of users.
pub fn read_secret(place: Place<'_>) -> io::Result<Vec<u8>> {
    match place {
        Place::File(path) => read_bounded(path, SECRET_BYTES_MAX),
        Place::Users(path) => read_bounded(path, CONFIG_BYTES_MAX),
        Place::Variable(name) => match std::env::var_os(name) {
            Some(value) => Ok(std::os::unix::ffi::OsStringExt::into_vec(value)),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "it is not set")),
        },
        Place::Command(command) => run(command),
    }
}

/// A program of `policies.own`.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn read_program(path: &Path) -> io::Result<Vec<u8>> {
    read_bounded(path, extension::PROGRAM_BYTES_MAX as u64)
}

/// A file of certificates, or of a key: bundles of authorities are larger than passwords are.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn read_certificates(path: &Path) -> io::Result<Vec<u8>> {
    read_bounded(path, CONFIG_BYTES_MAX)
}

/// What a command prints. It is ended if it takes too long; what it says on its error output goes where ours goes.
fn run(command: &str) -> io::Result<Vec<u8>> {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // So that what it starts itself ends with it.
        .process_group(0)
        .spawn()?;
    let output = child.stdout.take();
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output
            .map_or(Ok(0), |output| output.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes));
        // Nobody waits any more when it took too long.
        let _ = told.send(read.map(|_| bytes));
    });
    let until = Instant::now() + COMMAND_TIME_MAX;
    let read = heard.recv_timeout(COMMAND_TIME_MAX);
    // It may have closed its output and go on.
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if read.is_ok() && Instant::now() < until => std::thread::sleep(POLL),
            None => {
                let group = rustix::process::Pid::from_child(&child);
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                child.wait()?;
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the command took too long"));
            }
        }
    };
    let bytes = match read {
        Ok(read) => read?,
        Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "its output does not end")),
    };
    match bytes.len() as u64 > SECRET_BYTES_MAX {
        _ if !status.success() => Err(io::Error::other(format!("the command ended with {status}"))),
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {bytes_max} bytes"),
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each place that a configuration can name: a dry run leaves no trace there, and what is in force is known to it.
    #[test]
    fn a_dry_run_reads_no_file_and_runs_no_command() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let word = |word: &str| vec![word.to_owned()];
        let known =
            format!("known on ~* +@all \"password_command=echo k >> {}; echo pw\"", path("known"));
        let text = format!("upstream = \"redis://127.0.0.1:1\"\n[acl]\nusers = ['{known}']\n");
        let sources = Sources::new(None, Vec::new(), |_| false);
        let loaded = sources.load(Some(&text), &[]).expect("a configuration");
        let runs = || std::fs::read_to_string(path("known")).map(|text| text.lines().count());
        assert_eq!(runs().expect("it ran"), 1);
        // A pipe that nobody writes to holds whoever opens it, for ever.
        let pipe = path("pipe");
        assert!(
            std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success()
        );
        let user = format!("new on \"password_command=touch {}; echo pw\"", path("ran"));
        let in_file = format!("new on password_file={pipe}");
        let key_command =
            format!("k \"key_command=touch {}; echo {}\"", path("ran"), "0".repeat(64));
        let changes: [(&[&'static str], String); 11] = [
            (&["acl.users"], user),
            (&["acl.users"], in_file),
            (&["policies.values.keys"], key_command),
            (&["policies.values.keys"], format!("k key_file={pipe}")),
            (&["upstream_password_file"], pipe.clone()),
            (&["password_file"], pipe.clone()),
            (&["admin.token_file"], pipe.clone()),
            (&["tls.cert_file", "tls.key_file"], pipe.clone()),
            (&["upstream_tls.ca_file"], pipe.clone()),
            (&["mirrors.targets"], format!("redis://127.0.0.1:2 password_file={pipe}")),
            (&["policies.own"], format!("o file={pipe}")),
        ];
        for (options, value) in changes {
            let changes: Vec<Given> = options
                .iter()
                .map(|option| (*option, word(&value)))
                .chain([("workers", word("1"))])
                .collect();
            // Some of them want more to go with them; what matters is that it comes back.
            let dry = sources.load_dry(Some(&text), &changes);
            assert!(!Path::new(&path("ran")).exists(), "{options:?}");
            if let Ok(dry) = dry {
                let names: Vec<&str> =
                    loaded.changes_to(&dry).iter().map(|c| c.option.name).collect();
                assert!(options.iter().all(|option| names.contains(option)), "{names:?}");
            }
        }
        let dry = sources.load_dry(Some(&text), &[]).expect("a configuration");
        assert!(dry.config.users == loaded.config.users && loaded.changes_to(&dry).is_empty());
        assert_eq!(runs().expect("it ran"), 1, "not again");
    }

    #[test]
    fn a_command_prints_a_password_or_is_an_error_in_time() {
        assert_eq!(run("echo pw").expect("a password"), b"pw\n");
        assert!(
            run("echo pw; exit 3").expect_err("it failed").to_string().contains("exit status: 3")
        );
        let began = Instant::now();
        for slow in ["echo pw; exec sleep 600", "echo pw; exec >&-; sleep 600"] {
            let error = run(slow).expect_err("it takes too long");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        }
        assert!(began.elapsed() < COMMAND_TIME_MAX * 6);
        let large = format!("head -c {} /dev/zero", SECRET_BYTES_MAX + 1);
        assert_eq!(run(&large).expect_err("too much").kind(), io::ErrorKind::FileTooLarge);
    }
}
