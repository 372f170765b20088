//! The URL of the server behind the proxy.
//!
//! Forms that later versions will take (`rediss://`, `redis-cluster://`, `redis-sentinel://`) are recognised so that the
//! message can say so.
//!
//! Invariant: no error text of this module contains user information, nor a part of the URL that could be a piece of a
//! badly escaped password. When in doubt the text names the rule and shows nothing.

use std::net::Ipv6Addr;

use super::{
    DEFAULT_PORT, PoolKind, UPSTREAM_FORMS, UpstreamAddress, UpstreamUrl, unix_path,
};
use crate::secret::Secret;

impl UpstreamUrl {
    /// Reads a URL. The error says what is wrong and what is allowed, without any part that may be secret.
    pub fn parse(url: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!("not a URL; allowed: {UPSTREAM_FORMS}"));
        };
        match scheme {
            "redis" => parse_tcp(rest),
            "redis+unix" => parse_unix(rest),
            "redis-cluster" => parse_cluster(rest),
            _ => Err(refuse_scheme(scheme)),
        }
    }
}

/// Why a scheme is not taken. Only schemes of the family are repeated: a stray one might be a piece of a password.
fn refuse_scheme(scheme: &str) -> String {
    let why = match scheme {
        "rediss" | "valkeys" => "TLS to the server comes later".to_owned(),
        "rediss-cluster" => "TLS to the servers comes later".to_owned(),
        "redis-sentinel" | "rediss-sentinel" => "Sentinel comes later".to_owned(),
        "unix" | "redis-socket" => {
            return format!(
                "found scheme `{scheme}`, write redis+unix://; allowed: {UPSTREAM_FORMS}"
            );
        }
        "valkey" => {
            return format!("found scheme `valkey`, write redis://; allowed: {UPSTREAM_FORMS}");
        }
        _ => return format!("unknown scheme; allowed: {UPSTREAM_FORMS}"),
    };
    format!("found scheme `{scheme}`: {why}; allowed: {UPSTREAM_FORMS}")
}

/// What stands before the host: `user:password`, both optional.
struct UserInfo {
    user: Option<String>,
    password: Option<Secret>,
}

/// The part after `redis://`.
fn parse_tcp(rest: &str) -> Result<UpstreamUrl, String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (user_info, host_port) = split_user_info(authority, tail)?;
    let (host, port) = parse_host_port(host_port)?;
    let db = match tail {
        "" | "/" => 0,
        _ => parse_db(tail.strip_prefix('/').unwrap_or(tail))?,
    };
    let UserInfo { user, password } = parse_user_info(user_info)?;
    let address = UpstreamAddress::Tcp { host, port };
    Ok(UpstreamUrl { address, pool: PoolKind::Standalone, user, password, db })
}

/// The part after `redis-cluster://`.
fn parse_cluster(rest: &str) -> Result<UpstreamUrl, String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (user_info, hosts) = split_user_info(authority, tail)?;
    if !matches!(tail, "" | "/" | "/0") {
        return Err("a cluster has the database 0 only, so nothing follows the hosts".to_owned());
    }
    let mut seeds = Vec::new();
    for host in hosts.split(',') {
        let (host, port) = parse_host_port(host)?;
        seeds.push(UpstreamAddress::Tcp { host, port });
    }
    let UserInfo { user, password } = parse_user_info(user_info)?;
    // `split` gives at least one piece, and each became a seed.
    let address = seeds.remove(0);
    let pool = PoolKind::Cluster { more_seeds: seeds };
    Ok(UpstreamUrl { address, pool, user, password, db: 0 })
}

/// The part after `redis+unix://`.
fn parse_unix(rest: &str) -> Result<UpstreamUrl, String> {
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (user_info, host) = split_user_info(authority, tail)?;
    if !host.is_empty() || tail.is_empty() {
        return Err(format!(
            "a unix socket needs an absolute path, as in redis+unix:///run/redis.sock; allowed: {UPSTREAM_FORMS}"
        ));
    }
    let (path, query) =
        tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
    let db = match query {
        None | Some("") => 0,
        Some(query) => match query.strip_prefix("db=") {
            Some(db) => parse_db(db)?,
            None => return Err("unknown parameter after `?`; allowed: db=n".to_owned()),
        },
    };
    let path = decode_text(path, "the path")?;
    let UserInfo { user, password } = parse_user_info(user_info)?;
    let address = UpstreamAddress::Unix(unix_path(&path)?);
    Ok(UpstreamUrl { address, pool: PoolKind::Standalone, user, password, db })
}

/// Splits `user:password@host`. More than one `@`, or one after the authority, means a password that was not escaped.
fn split_user_info<'a>(
    authority: &'a str,
    tail: &str,
) -> Result<(Option<&'a str>, &'a str), String> {
    let escaped = "an `@` in a place where none can be: in user and password the characters / ? # @ : % must be \
                   written %2F %3F %23 %40 %3A %25 (or use upstream_password_file)";
    if tail.contains('@') {
        return Err(escaped.to_owned());
    }
    match authority.split_once('@') {
        Some((_, host)) if host.contains('@') => Err(escaped.to_owned()),
        Some((user_info, host)) => Ok((Some(user_info), host)),
        None => Ok((None, authority)),
    }
}

/// Reads `user:password`, `:password` or `user`.
fn parse_user_info(text: Option<&str>) -> Result<UserInfo, String> {
    let Some(text) = text else {
        return Ok(UserInfo { user: None, password: None });
    };
    let (user, password) = text.split_once(':').map_or((text, None), |(u, p)| (u, Some(p)));
    let user = match user {
        "" => None,
        _ => Some(decode_text(user, "the user")?),
    };
    let password = match password {
        None | Some("") => None,
        Some(password) => Some(Secret::new(decode(password, "the password")?)),
    };
    Ok(UserInfo { user, password })
}

/// Reads `host`, `host:port` or `[v6]:port`. What is echoed stands after the only `@` and before the first `/`.
fn parse_host_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else {
                return Err(
                    "an IPv6 address in brackets has no closing `]`, as in [::1]:6379".to_owned()
                );
            };
            if host.parse::<Ipv6Addr>().is_err() {
                return Err(
                    "what stands in brackets is no IPv6 address, as in [::1]:6379".to_owned()
                );
            }
            if !port.is_empty() && !port.starts_with(':') {
                return Err("after `]` only :port can follow, as in [::1]:6379".to_owned());
            }
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address must stand in brackets, as in [::1]:6379".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(format!("no host; allowed: {UPSTREAM_FORMS}"));
    }
    if !host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':')) {
        return Err("a host has letters, digits and `.` `-` `_` only".to_owned());
    }
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        // The port is not repeated: in `redis://host:pass/word@…` it is a piece of a password.
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port != 0 => port,
            _ => return Err("the port is not a number from 1 to 65535".to_owned()),
        },
    };
    Ok((host.to_owned(), port))
}

/// Reads a database number. Redis takes as many databases as its option `databases` says; `SELECT` reads an int.
fn parse_db(text: &str) -> Result<u32, String> {
    text.parse::<u32>()
        .ok()
        .filter(|&db| i32::try_from(db).is_ok() && text.bytes().all(|b| b.is_ascii_digit()))
        .ok_or_else(|| {
            format!(
                "the database is not a whole number from 0 to {}, as in redis://host:6379/0",
                i32::MAX
            )
        })
}

/// Percent-decodes text that must be UTF-8 afterwards.
fn decode_text(text: &str, what: &str) -> Result<String, String> {
    String::from_utf8(decode(text, what)?)
        .map_err(|_| format!("{what} is not valid UTF-8 after percent-decoding"))
}

/// Percent-decodes (RFC 3986, section 2.1).
fn decode(text: &str, what: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits =
            [bytes.next(), bytes.next()].map(|b| b.and_then(|b| char::from(b).to_digit(16)));
        let [Some(high), Some(low)] = digits else {
            return Err(format!(
                "{what} has a `%` without two hexadecimal digits; a plain `%` is written %25"
            ));
        };
        // Two hexadecimal digits are at most 255.
        out.push((high * 16 + low) as u8);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::UNIX_PATH_BYTES_MAX;

    fn tcp(url: &str) -> (String, u16, u32) {
        let parsed = UpstreamUrl::parse(url).unwrap();
        match parsed.address {
            UpstreamAddress::Tcp { host, port } => (host, port, parsed.db),
            UpstreamAddress::Unix(_) => panic!("{url} became a unix socket"),
        }
    }

    #[test]
    fn tcp_urls() {
        assert_eq!(tcp("redis://cache"), ("cache".into(), 6379, 0));
        assert_eq!(tcp("redis://cache/"), ("cache".into(), 6379, 0));
        assert_eq!(tcp("redis://10.1.2.3:7000/12"), ("10.1.2.3".into(), 7000, 12));
        assert_eq!(tcp("redis://[::1]"), ("::1".into(), 6379, 0));
        assert_eq!(tcp("redis://[fe80::2]:1/3"), ("fe80::2".into(), 1, 3));
    }

    #[test]
    fn credentials_are_decoded() {
        let url = UpstreamUrl::parse("redis://al%69ce:p%40ss%2Fw%25%FF@h:1").unwrap();
        assert_eq!(url.user.as_deref(), Some("alice"));
        assert_eq!(url.password.unwrap().reveal(), b"p@ss/w%\xff");
        let url = UpstreamUrl::parse("redis://:secret@h").unwrap();
        assert_eq!((url.user, url.password), (None, Some(Secret::new("secret"))));
        let url = UpstreamUrl::parse("redis://u:a:b@h").unwrap();
        assert_eq!(url.password.unwrap().reveal(), b"a:b");
    }

    #[test]
    fn unix_urls() {
        let url = UpstreamUrl::parse("redis+unix://u:p@/run/my%20redis.sock?db=2").unwrap();
        assert_eq!(url.address, UpstreamAddress::Unix("/run/my redis.sock".into()));
        assert_eq!((url.db, url.user.as_deref()), (2, Some("u")));
        assert!(
            UpstreamUrl::parse("redis+unix://run/redis.sock")
                .unwrap_err()
                .contains("absolute path")
        );
        assert!(UpstreamUrl::parse("redis+unix:///s?x=1").unwrap_err().contains("allowed: db=n"));
        let long = format!("redis+unix:///{}", "s".repeat(UNIX_PATH_BYTES_MAX));
        assert!(UpstreamUrl::parse(&long).unwrap_err().contains("has 108 bytes"));
        assert!(UpstreamUrl::parse(&long[..long.len() - 1]).is_ok());
    }

    #[test]
    fn cluster_urls() {
        let url = UpstreamUrl::parse("redis-cluster://u:p@n1,10.0.0.2:7001,[::1]:7002/").unwrap();
        let tcp = |host: &str, port| UpstreamAddress::Tcp { host: host.into(), port };
        assert_eq!(url.address, tcp("n1", 6379));
        let more_seeds = vec![tcp("10.0.0.2", 7001), tcp("::1", 7002)];
        assert_eq!(url.pool, PoolKind::Cluster { more_seeds });
        assert_eq!((url.user.as_deref(), url.db), (Some("u"), 0));
        for (url, word) in [
            ("redis-cluster://a,,b", "no host"),
            ("redis-cluster://a/1", "database 0 only"),
            ("redis-cluster://a:0", "port"),
        ] {
            let text = UpstreamUrl::parse(url).unwrap_err();
            assert!(text.contains(word), "{url}: {text}");
        }
    }

    #[test]
    fn later_schemes_say_so_and_name_what_is_allowed() {
        for (url, word) in [
            ("rediss://h", "TLS"),
            ("rediss-cluster://h", "TLS"),
            ("redis-sentinel://h/name", "Sentinel"),
            ("unix:///s", "redis+unix://"),
            ("http://h", "unknown scheme"),
            ("127.0.0.1:6379", "not a URL"),
        ] {
            let text = UpstreamUrl::parse(url).unwrap_err();
            assert!(text.contains(word) && text.contains(UPSTREAM_FORMS), "{url}: {text}");
        }
    }

    #[test]
    fn no_error_repeats_a_badly_written_password() {
        for url in [
            "redis://:hunter/2@h:6379",
            "redis://:hunter?2@h",
            "redis://u:hunter@2@h",
            "redis://u:hunter#2@h",
            "redis://u:hunter%2x@h",
            "redis://h:hunter2",
            "redis://u:hunter2@h:99999",
            "redis://u:hunter2@h/x",
            "redis://u:hunter2@[::1",
            "redis://u:hunter2@ho st",
            "rediss://u:hunter2@h",
            "hunter://h",
            "hunter2",
            "redis+unix://u:hunter2@h/s",
            "redis+unix://u:hunt/er2@/s",
            "redis-cluster://u:hunter2@h,h:x",
            "redis-cluster://u:hunter2@h,h/1",
            "redis-cluster://u:hunt,er2@h@h",
        ] {
            let text = UpstreamUrl::parse(url).unwrap_err();
            assert!(!text.contains("hunt") && !text.contains("er2"), "{url}: {text}");
        }
    }

    #[test]
    fn urls_print_without_credentials() {
        for (url, shown) in [
            ("redis://u:hunter2@h/3", "redis://h:6379/3"),
            ("redis://[::1]:1", "redis://[::1]:1"),
            ("redis+unix://:hunter2@/s?db=1", "redis+unix:///s?db=1"),
            ("redis-cluster://:hunter2@a,[::1]:2,c:3", "redis-cluster://a:6379,[::1]:2,c:3"),
        ] {
            let parsed = UpstreamUrl::parse(url).unwrap();
            assert_eq!(parsed.to_string(), shown);
            assert!(!format!("{parsed:?}").contains("hunter2"));
            assert_eq!(UpstreamUrl::parse(shown).unwrap().address, parsed.address);
        }
    }
}
