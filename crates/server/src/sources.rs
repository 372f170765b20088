//! Where the configuration comes from: a file, the environment, the command line; and later changes.
//!
//! Read once at the start and again for each change while the program runs, in the same way. The text of the file is read apart from the
//! rest, so that a change of one option does not also take in what somebody has written into the file meanwhile.
//!
//! Not here: what is right (`config`), what is done with it (`control`, the command line).
//!
//! Invariant: nothing that is read here is larger than its bound, so a wrong path (a device, a log) does not fill the memory.

use std::io;
use std::path::{Path, PathBuf};

use config::options::{ENVIRONMENT_PREFIX, OPTIONS, OptionSpec};
use config::{FileText, Given, Loaded, Problems};

/// Longest configuration file.
const CONFIG_BYTES_MAX: u64 = 4 << 20;
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
}

impl Sources {
    /// This file, the environment of the process, and these flags. Of the environment only the options count that `takes` accepts.
    pub fn new(
        file: Option<PathBuf>,
        arguments: Vec<Given>,
        takes: fn(&OptionSpec) -> bool,
    ) -> Self {
        Self { file, arguments, takes }
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
        let (name, environment) = (self.file_name(), self.environment()?);
        let sources = config::Sources {
            file: text.map(|text| FileText { name: &name, text }),
            environment: &environment,
            arguments: &self.arguments,
            changes,
            read_secret: &read_secret,
        };
        config::load(&sources).map_err(SourceError::Wrong)
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

/// Reads a password file.
///
/// # Errors
/// It cannot be read or is longer than 64 KiB.
pub fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    read_bounded(path, SECRET_BYTES_MAX)
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
