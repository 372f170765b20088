//! Where the programs are, and which versions.
//!
//! A program is looked for where the command line says, then beside this one (that is where cargo and packages put
//! `respool`), then on PATH, then where Debian keeps daemons, which is not on everybody's PATH.
//!
//! What it is not: an installer. A message names the package.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::process::{Process, Stop, wait_for};

/// A program on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name it was looked for by: `nutcracker`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its version as it says itself, or empty.
    pub version: String,
}

impl Program {
    /// Finds a program and asks for its version. `given` is what the command line says: (name, path).
    ///
    /// # Errors
    /// A sentence that names the program and how to get it.
    pub fn find(name: &str, given: &[(String, PathBuf)]) -> Result<Self, String> {
        let path = locate(name, given)?;
        let version = version(name, &path);
        Ok(Self { name: name.to_owned(), path, version })
    }

    /// Finds a program that cannot be asked for its version: what an unknown one does with `--version` nobody knows.
    ///
    /// # Errors
    /// As [`Program::find`].
    pub fn find_unasked(name: &str, given: &[(String, PathBuf)]) -> Result<Self, String> {
        let path = locate(name, given)?;
        Ok(Self { name: name.to_owned(), path, version: String::new() })
    }

    /// The first of several that is there; the message is that of the first.
    ///
    /// # Errors
    /// As [`Program::find`].
    pub fn find_one_of(names: &[&str], given: &[(String, PathBuf)]) -> Result<Self, String> {
        let mut tried = names.iter().map(|name| Self::find(name, given));
        let first = tried.next().unwrap_or_else(|| Err("no program was asked for".to_owned()));
        first.or_else(|why| tried.find_map(Result::ok).ok_or(why))
    }

    /// `respool 0.1.0`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let name = match self.name.as_str() {
            "redis-server" => "Redis",
            "valkey-server" => "Valkey",
            name => name,
        };
        format!("{name} {}", self.version).trim_end().to_owned()
    }
}

fn locate(name: &str, given: &[(String, PathBuf)]) -> Result<PathBuf, String> {
    if let Some((_, path)) = given.iter().find(|(of, _)| of == name) {
        // A child is started in a folder of its own, where a relative path would lead nowhere.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        return if is_program(&path) {
            Ok(path)
        } else {
            Err(format!("{name}: {} is no program that can be started", path.display()))
        };
    }
    // As in a shell, a name with a slash is a path.
    let found = if name.contains('/') {
        std::path::absolute(name).ok().filter(|path| is_program(path))
    } else {
        beside(name).or_else(|| on_path(name))
    };
    found.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> String {
    let how = match name {
        "redis-server" => "install it (Debian: apt-get install redis-server) or valkey-server",
        "valkey-server" => "install it (Debian: apt-get install valkey-server)",
        "nutcracker" => {
            "install it (Debian: apt-get install nutcracker) or name it with --nutcracker PATH"
        }
        "haproxy" => "install it (Debian: apt-get install haproxy) or name it with --haproxy PATH",
        path if path.contains('/') => "look at its path and its permissions",
        "predixy" => {
            "no distribution has it: build https://github.com/joyieldInc/predixy and name it with --predixy PATH"
        }
        "respool" => {
            "build it (cargo build --release --package server --bin respool) or name it with --respool PATH"
        }
        _ => "put it on PATH",
    };
    format!("the program `{name}` is not on this machine; {how}")
}

fn beside(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.parent()?.join(name)).filter(|path| is_program(path))
}

/// A program on PATH, or where daemons are.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let daemons = DAEMONS.iter().map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(daemons)
        .map(|folder| folder.join(name))
        .find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Asks for the version. A program that does not tell within a moment has none: it is a label only.
fn version(name: &str, path: &Path) -> String {
    let ask = || -> Option<String> {
        let folder = tempfile::tempdir().ok()?;
        let args = ["--version".into()];
        let mut process = Process::spawn(name, path, &args, folder.path(), Stop::Kill).ok()?;
        wait_for(VERSION_LIMIT, || process.exited())?;
        version_in(&process.log_tail())
    };
    ask().unwrap_or_default()
}

/// The first number with a dot in it, with what clings to it: `v=7.0.15`, `nutcracker-0.5.0`, `1.2.0-rc1`.
fn version_in(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || ".-+".contains(c)));
    words.find_map(|word| {
        let number = &word[word.find(|c: char| c.is_ascii_digit())?..];
        let (major, rest) = number.split_once('.')?;
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        (digits(major) && rest.starts_with(|c: char| c.is_ascii_digit())).then(|| number.to_owned())
    })
}

/// Where Debian keeps nutcracker and haproxy.
const DAEMONS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// How long `--version` may take.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_programs_tell_them() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0";
        assert_eq!(version_in(redis).unwrap(), "7.0.15");
        assert_eq!(
            version_in("This is nutcracker-0.5.0\nasync event backend: epoll").unwrap(),
            "0.5.0"
        );
        assert_eq!(version_in("predixy-1.0.5").unwrap(), "1.0.5");
        assert_eq!(
            version_in("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/")
                .unwrap(),
            "2.6.12-1+deb12u4"
        );
        assert_eq!(version_in("respool 0.1.0-rc1").unwrap(), "0.1.0-rc1");
        assert_eq!(version_in("Valkey server v=8.1.0 sha=0").unwrap(), "8.1.0");
        assert_eq!(version_in("usage: x -p port 6379"), None);
    }

    #[test]
    fn what_the_command_line_names_wins_and_must_be_a_program() {
        let given = |path: &str| vec![("sh".to_owned(), PathBuf::from(path))];
        assert_eq!(Program::find("sh", &given("/bin/cat")).unwrap().path, Path::new("/bin/cat"));
        let text = Program::find("sh", &given("/etc/passwd")).unwrap_err();
        assert_eq!(text, "sh: /etc/passwd is no program that can be started");
        assert!(Program::find("sh", &[]).unwrap().path.ends_with("sh"));
    }

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let text = Program::find("no-such-program", &[]).unwrap_err();
        assert_eq!(text, "the program `no-such-program` is not on this machine; put it on PATH");
        assert!(missing("nutcracker").contains("apt-get install nutcracker"));
        assert!(missing("haproxy").contains("apt-get install haproxy"));
        let text = Program::find_unasked("./no-such", &[]).unwrap_err();
        assert!(text.ends_with("look at its path and its permissions"), "{text}");
        assert!(Program::find_unasked("/bin/cat", &[]).unwrap().version.is_empty());
        let found = Program::find_one_of(&["no-such-program", "cat"], &[]).unwrap();
        assert_eq!(found.name, "cat");
        let text = Program::find_one_of(&["no-such-program", "nor-this"], &[]).unwrap_err();
        assert!(text.contains("no-such-program"));
    }

    #[test]
    fn words() {
        let program = |name: &str, version: &str| {
            let (name, version) = (name.to_owned(), version.to_owned());
            Program { name, path: PathBuf::new(), version }.in_words()
        };
        assert_eq!(program("redis-server", "7.0.15"), "Redis 7.0.15");
        assert_eq!(program("predixy", ""), "predixy");
    }
}
