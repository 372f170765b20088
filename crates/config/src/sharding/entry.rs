//! One entry of `sharding.shards`: a URL with weight and name, or a line copied from another proxy.
//!
//! ```text
//!   redis-sentinel://s1,s2/cache weight=2 name=a      10.0.0.1:6379:1 a
//!   ^^^^^^^^ any form of a URL                        ^^^^^^^^ twemproxy's and overlord's `servers:`
//! ```
//! Not here: rules between entries (`super`).
//!
//! Invariant: no error text repeats a piece of the entry, which may be a part of a badly written password.

use engine::route::shard::{Compat, ServerLine, Shard};

use std::fmt;
use std::path::{Path, PathBuf};

use super::ShardUrl;
use crate::address::{PoolKind, UpstreamAddress, UpstreamUrl};
use crate::secret::Secret;

/// What an entry looks like, for messages.
pub(crate) const SHARD_FORMS: &str = "a URL as for `upstream`, behind it weight=N, name=TEXT, password_file=PATH and \
     sentinel_password_file=PATH if needed, as in \
     \"redis://10.0.0.1:6379 weight=2 name=a\"; or host:port:weight and a name if there is one, as twemproxy and overlord \
     write it: \"10.0.0.1:6379:2 a\"";

/// Longest name. twemproxy and overlord cut longer ones where they make points of them.
const NAME_BYTES_MAX: usize = 250;

/// An entry as it was written; what it is called depends on `sharding.compat`, which may come later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A URL with what stood behind it.
    Url { url: Box<UpstreamUrl>, weight: u32, name: Option<String>, files: SecretFiles },
    /// A line of a server list, which was looked through already.
    Line(String),
}

/// Files that hold the passwords of one entry, until they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecretFiles {
    server: Option<PathBuf>,
    sentinel: Option<PathBuf>,
}

impl fmt::Display for Entry {
    /// As it was written, without user, password and the files that hold them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            Self::Url { url, weight, name, .. } => {
                write!(f, "{url}")?;
                if *weight != 1 {
                    write!(f, " weight={weight}")?;
                }
                name.iter().try_for_each(|name| write!(f, " name={name}"))
            }
        }
    }
}

impl Entry {
    /// Reads an entry.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let first = words.next().unwrap_or("");
        if !first.contains("://") {
            read_line(Compat::default(), text)?;
            return Ok(Self::Line(text.to_owned()));
        }
        let url = Box::new(UpstreamUrl::parse(first)?);
        let (mut weight, mut name, mut files) = (None, None, SecretFiles::default());
        for word in words {
            match word.split_once('=') {
                Some(("weight", number)) if weight.is_none() => weight = Some(read_weight(number)?),
                Some(("name", text)) if name.is_none() => name = Some(read_name(text)?),
                Some(("password_file", path)) if files.server.is_none() => {
                    files.server = Some(read_path(path)?);
                }
                Some(("sentinel_password_file", path)) if files.sentinel.is_none() => {
                    files.sentinel = Some(read_path(path)?);
                }
                Some(("weight" | "name" | "password_file" | "sentinel_password_file", _)) => {
                    return Err("one of the words behind the URL stands there twice".to_owned());
                }
                _ => {
                    return Err("behind the URL only weight=N, name=TEXT, password_file=PATH and \
                                sentinel_password_file=PATH can follow; a space in a password is written %20"
                        .to_owned());
                }
            }
        }
        files.check(&url)?;
        Ok(Self::Url { url, weight: weight.unwrap_or(1), name, files })
    }

    /// Reads the passwords that are in files; `read` gets a path and how messages call it.
    pub(crate) fn read_secrets(
        &mut self,
        read: &dyn Fn(&Path, &str) -> Result<Secret, String>,
    ) -> Result<(), String> {
        let Self::Url { url, files, .. } = self else { return Ok(()) };
        if let Some(path) = files.server.take() {
            url.password = Some(read(&path, "its password_file")?);
        }
        if let Some(path) = files.sentinel.take()
            && let PoolKind::Sentinel { password, .. } = &mut url.pool
        {
            *password = Some(read(&path, "its sentinel_password_file")?);
        }
        Ok(())
    }

    /// Gives the entry the name that `compat` gives it. Without `names_count` any name does.
    ///
    /// # Errors
    /// There is no name that could be relied on; the text goes on after "shard N".
    pub(super) fn resolve(&self, compat: Compat, names_count: bool) -> Result<ShardUrl, String> {
        match self {
            Self::Line(line) => read_line(compat, line).map_err(|error| format!(": {error}")),
            Self::Url { url, weight, name, .. } => {
                let name = name.clone().or_else(|| default_name(compat, url, *weight));
                let name = name.or_else(|| (!names_count).then(|| url.to_string()));
                let name = name.ok_or(
                    "has no name, by which its keys would be found again when its URL changes; add name=TEXT",
                )?;
                let shard = Shard { name, weight: *weight };
                Ok(ShardUrl { url: UpstreamUrl::clone(url), shard })
            }
        }
    }
}

impl SecretFiles {
    /// Whether each file is for a password that has no other place.
    fn check(&self, url: &UpstreamUrl) -> Result<(), String> {
        let twice = |what| Err(format!("has {what} and the file of it; give one of the two"));
        if self.server.is_some() && url.password.is_some() {
            return twice("a password in its URL");
        }
        match &url.pool {
            _ if self.sentinel.is_none() => Ok(()),
            PoolKind::Sentinel { password: Some(_), .. } => twice("sentinel_password in its URL"),
            PoolKind::Sentinel { .. } => Ok(()),
            _ => Err("has a sentinel_password_file and no redis-sentinel:// URL".to_owned()),
        }
    }
}

/// The name of a shard whose URL has none behind it: that of a server list with the same server, or the one that sentinels
/// know it by. A cluster has none, because its seeds are a matter of chance: one more of them, and all keys would move.
fn default_name(compat: Compat, url: &UpstreamUrl, weight: u32) -> Option<String> {
    match (&url.pool, &url.address) {
        (PoolKind::Cluster { .. }, _) => None,
        (PoolKind::Sentinel { name, .. }, _) => Some(name.clone()),
        (PoolKind::Standalone, UpstreamAddress::Tcp { host, port }) => {
            let line = format!("{host}:{port}:{weight}");
            ServerLine::parse(compat, &line).ok().map(|line| line.shard.name)
        }
        (PoolKind::Standalone, UpstreamAddress::Unix(path)) => {
            // A blank would end the path in a server list.
            let path = path.to_str().filter(|path| !path.contains(' '))?;
            let line = format!("{path}:{weight}");
            ServerLine::parse(compat, &line).ok().map(|line| line.shard.name)
        }
    }
}

/// Reads a line of a server list.
fn read_line(compat: Compat, line: &str) -> Result<ShardUrl, String> {
    let ServerLine { address, shard } = ServerLine::parse(compat, line).map_err(|error| {
        // The engine's text begins with the line, which must not be shown.
        let rest = error.strip_prefix(&format!("{line:?} ")).unwrap_or_default();
        let what = rest.split_once(';').map_or("is none", |(what, _)| what);
        format!("what has no :// in it is read as a server of a list, and it {what}; allowed: {SHARD_FORMS}")
    })?;
    let shard = Shard { name: read_name(&shard.name)?, ..shard };
    let address = UpstreamAddress::from_server_line(&address)?;
    let pool = PoolKind::Standalone;
    let url = UpstreamUrl { address, pool, user: None, password: None, db: 0, tls: false };
    Ok(ShardUrl { url, shard })
}

fn read_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("the path of a password file is empty or has a NUL".to_owned());
    }
    Ok(PathBuf::from(text))
}

fn read_weight(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    number
        .filter(|weight| *weight > 0)
        .ok_or_else(|| format!("the weight is not a whole number from 1 to {}", u32::MAX))
}

fn read_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(char::is_control) {
        return Err(format!("the name has not from 1 to {NAME_BYTES_MAX} printable bytes"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// URL, name and weight of an entry.
    fn read(compat: Compat, text: &str) -> (String, String, u32) {
        let shard = Entry::parse(text).unwrap().resolve(compat, true).unwrap();
        (shard.url.to_string(), shard.shard.name, shard.shard.weight)
    }

    #[test]
    fn urls_and_server_lines_of_the_same_server_have_the_same_name() {
        for compat in Compat::all() {
            for (url, line) in [
                ("redis://10.0.0.1", "10.0.0.1:6379:1"),
                ("redis://cache:7000 weight=3", "cache:7000:3"),
                ("redis://cache:11211", "cache:11211:1"),
                ("redis://[::1]:7000", "::1:7000:1"),
                ("redis+unix:///run/r.sock weight=2", "/run/r.sock:2"),
                ("redis://10.0.0.1 name=a weight=2", "10.0.0.1:6379:2 a"),
            ] {
                assert_eq!(read(compat, url), read(compat, line), "{url}");
            }
        }
        assert_eq!(read(Compat::Twemproxy, "redis://cache:11211").1, "cache");
        assert_eq!(read(Compat::Overlord, "cache:11211:1").1, "cache:11211");
        assert_eq!(read(Compat::Twemproxy, "redis-sentinel://s1,s2/main").1, "main");
    }

    #[test]
    fn a_name_is_asked_for_where_none_would_last() {
        for text in ["redis-cluster://a,b", "redis+unix:///run/my%20r.sock"] {
            let entry = Entry::parse(text).unwrap();
            assert!(entry.resolve(Compat::Twemproxy, true).unwrap_err().contains("name=TEXT"));
            assert!(entry.resolve(Compat::Twemproxy, false).is_ok());
            let named = Entry::parse(&format!("{text} name=a")).unwrap();
            assert_eq!(named.resolve(Compat::Twemproxy, true).unwrap().shard.name, "a");
        }
    }

    #[test]
    fn mistakes_say_what_is_allowed_and_repeat_nothing() {
        let long = format!("redis://u:hunter2@h name={}", "n".repeat(NAME_BYTES_MAX + 1));
        for (text, word) in [
            ("", "has no weight"),
            ("hunter2", "has no weight"),
            ("u:hunter2@h:6379", "has no port from"),
            ("u:hunter2@h:6379:1", "a host has"),
            ("hunter2@h:6379:1", "a host has"),
            ("h:6379:0 hunter2", "weight from 1"),
            ("redis://u:hunter 2@h", "the port is"),
            ("redis://u:hunter2@h hunter2", "only weight=N"),
            ("redis://u:hunter2@h weight=0", "not a whole number"),
            ("redis://u:hunter2@h weight=+1", "not a whole number"),
            ("redis://u:hunter2@h weight=1 weight=2", "twice"),
            ("redis://u@h password_file=hunter2 password_file=b", "twice"),
            ("redis://u:hunter2@h password_file=a", "give one of the two"),
            ("redis://u@h password_file=", "path of a password file"),
            ("redis://u@h sentinel_password_file=hunter2", "no redis-sentinel"),
            ("redis-sentinel://s/m?sentinel_password=hunter2 sentinel_password_file=a", "give one"),
            ("redis://u:hunter2@h name=", "printable"),
            (&long, "printable"),
            ("redis://u:hunter2@h/x", "database"),
            ("hunter2://h", "unknown scheme"),
        ] {
            let error = Entry::parse(text).unwrap_err();
            assert!(error.contains(word) && !error.contains("hunt"), "{text}: {error}");
        }
    }
}
