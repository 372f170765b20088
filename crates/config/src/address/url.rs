//! The URL of the server behind the proxy, of a cluster, or of the sentinels that know the server.
//!
//! What the forms share (user information, hosts, databases, percent-decoding) is in `parts`. With an `s` behind `redis` a form
//! is the same over TLS. Forms of other programs are recognised so that the message can say what to write.
//!
//! Invariant: no error text of this module contains user information, nor a part of the URL that could be a piece of a
//! badly escaped password. When in doubt the text names the rule and shows nothing.

use super::parts::{
    UserInfo, decode, decode_text, parse_db, parse_host_port, parse_user_info, split_user_info,
};
use super::{
    DEFAULT_PORT, PoolKind, SEEDS_MAX, SENTINEL_PORT, UPSTREAM_FORMS, UpstreamAddress, UpstreamUrl,
    unix_path,
};
use crate::secret::Secret;
use crate::suggest::closest;

impl UpstreamUrl {
    /// Reads a URL. The error says what is wrong and what is allowed, without any part that may be secret.
    pub fn parse(url: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            let hint = if is_address(url) { " (write redis:// before the address)" } else { "" };
            return Err(format!("not a URL{hint}; allowed: {UPSTREAM_FORMS}"));
        };
        match scheme {
            "redis" => parse_tcp(rest, false),
            "rediss" => parse_tcp(rest, true),
            "redis+unix" => parse_unix(rest),
            "redis-cluster" => parse_cluster(rest, false),
            "rediss-cluster" => parse_cluster(rest, true),
            "redis-sentinel" => parse_sentinel(rest, false),
            "rediss-sentinel" => parse_sentinel(rest, true),
            _ => Err(refuse_scheme(scheme)),
        }
    }
}

/// All that are taken.
const SCHEMES: [&str; 7] = [
    "redis",
    "rediss",
    "redis+unix",
    "redis-cluster",
    "rediss-cluster",
    "redis-sentinel",
    "rediss-sentinel",
];

/// Whether this is an address without a scheme.
fn is_address(text: &str) -> bool {
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    matches!(port, Some(Ok(_))) && !text.contains('@')
}

/// Why a scheme is not taken. Only schemes of the family are repeated: a stray one might be a piece of a password.
fn refuse_scheme(scheme: &str) -> String {
    let write = match scheme {
        "unix" | "redis-socket" => "redis+unix://",
        "valkey" => "redis://",
        "valkeys" => "rediss://",
        "rediss+unix" => {
            return format!(
                "found scheme `{scheme}`: there is no TLS to a unix socket; allowed: {UPSTREAM_FORMS}"
            );
        }
        _ => {
            let meant = closest(scheme, SCHEMES);
            let hint =
                meant.map_or_else(String::new, |meant| format!(" (did you mean {meant}://?)"));
            return format!("unknown scheme{hint}; allowed: {UPSTREAM_FORMS}");
        }
    };
    format!("found scheme `{scheme}`, write {write}; allowed: {UPSTREAM_FORMS}")
}

/// The part after `redis://` and `rediss://`.
fn parse_tcp(rest: &str, tls: bool) -> Result<UpstreamUrl, String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (user_info, host_port) = split_user_info(authority, tail)?;
    let (host, port) = parse_host_port(host_port, DEFAULT_PORT)?;
    let db = match tail {
        "" | "/" => 0,
        _ => parse_db(tail.strip_prefix('/').unwrap_or(tail))?,
    };
    let UserInfo { user, password } = parse_user_info(user_info)?;
    let address = UpstreamAddress::Tcp { host, port };
    Ok(UpstreamUrl { address, pool: PoolKind::Standalone, user, password, db, tls })
}

/// The part after `redis-cluster://` and `rediss-cluster://`.
fn parse_cluster(rest: &str, tls: bool) -> Result<UpstreamUrl, String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (user_info, hosts) = split_user_info(authority, tail)?;
    if !matches!(tail, "" | "/" | "/0") {
        return Err("a cluster has the database 0 only, so nothing follows the hosts".to_owned());
    }
    let (address, more_seeds) = parse_seeds(hosts, DEFAULT_PORT)?;
    let UserInfo { user, password } = parse_user_info(user_info)?;
    Ok(UpstreamUrl { address, pool: PoolKind::Cluster { more_seeds }, user, password, db: 0, tls })
}

/// The part after `redis-sentinel://` and `rediss-sentinel://`. User and password before the hosts are those of the server, not of the sentinels.
fn parse_sentinel(rest: &str, tls: bool) -> Result<UpstreamUrl, String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (user_info, hosts) = split_user_info(authority, tail)?;
    let (name, query) = tail.split_once('?').unwrap_or((tail, ""));
    let raw = name.strip_prefix('/').unwrap_or_default();
    let name = decode_text(raw, "the name")?;
    if name.is_empty() || name.contains(char::is_control) || raw.contains('/') || tail.contains('#')
    {
        return Err(
            "after the sentinels stands the name under which they know the server, as in \
             redis-sentinel://host1,host2,host3/mymaster (`/` and `#` in it are written %2F and %23)"
                .to_owned(),
        );
    }
    let Parameters { db, user: sentinel_user, password: sentinel_password, tls: sentinel_tls } =
        parse_parameters(query)?;
    let (address, more_seeds) = parse_seeds(hosts, SENTINEL_PORT)?;
    let UserInfo { user, password } = parse_user_info(user_info)?;
    let pool = PoolKind::Sentinel {
        more_seeds,
        name,
        user: sentinel_user,
        password: sentinel_password,
        tls: sentinel_tls.unwrap_or(tls),
    };
    Ok(UpstreamUrl { address, pool, user, password, db, tls })
}

/// What can stand behind the `?` of a URL of sentinels.
#[derive(Default)]
struct Parameters {
    db: u32,
    user: Option<String>,
    password: Option<Secret>,
    tls: Option<bool>,
}

/// Reads `db=1&sentinel_user=u&sentinel_password=p&sentinel_tls=false`. Nothing is repeated in errors: with an `&` that was not escaped,
/// what looks like the name of a parameter is the rest of a password.
fn parse_parameters(query: &str) -> Result<Parameters, String> {
    let mut parameters = Parameters::default();
    let mut seen = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match key {
            "db" => parameters.db = parse_db(value)?,
            "sentinel_user" => {
                let user = decode_text(value, "sentinel_user")?;
                parameters.user = Some(user).filter(|user| !user.is_empty());
            }
            "sentinel_password" => {
                let password = decode(value, "sentinel_password")?;
                parameters.password = Some(password).filter(|p| !p.is_empty()).map(Secret::new);
            }
            "sentinel_tls" => match value {
                "true" => parameters.tls = Some(true),
                "false" => parameters.tls = Some(false),
                _ => return Err("sentinel_tls is neither true nor false".to_owned()),
            },
            _ => {
                return Err("unknown parameter after `?`; allowed: db=n, sentinel_user=…, sentinel_password=…, \
                            sentinel_tls=true|false, joined by `&` (in a value it is written %26)"
                    .to_owned());
            }
        }
        if seen.contains(&key) {
            return Err(format!("the parameter {key} stands in the URL twice"));
        }
        seen.push(key);
    }
    Ok(parameters)
}

/// Reads `host[:port],host[:port]…` into the first one and the others.
fn parse_seeds(
    hosts: &str,
    default_port: u16,
) -> Result<(UpstreamAddress, Vec<UpstreamAddress>), String> {
    let count = hosts.split(',').count();
    if count > SEEDS_MAX {
        return Err(format!("found {count} hosts; allowed: 1 to {SEEDS_MAX}"));
    }
    let mut seeds = Vec::with_capacity(count);
    for host in hosts.split(',') {
        let (host, port) = parse_host_port(host, default_port)?;
        seeds.push(UpstreamAddress::Tcp { host, port });
    }
    // `split` gives at least one piece, and each became a seed.
    let first = seeds.remove(0);
    Ok((first, seeds))
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
    Ok(UpstreamUrl { address, pool: PoolKind::Standalone, user, password, db, tls: false })
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
    fn sentinel_urls() {
        let url = UpstreamUrl::parse(
            "redis-sentinel://u:p@s1,10.0.0.2:7001,[::1]/my%20main?db=3&sentinel_user=w&sentinel_password=a%26b%FF",
        )
        .unwrap();
        let tcp = |host: &str, port| UpstreamAddress::Tcp { host: host.into(), port };
        assert_eq!(url.address, tcp("s1", 26379));
        assert_eq!(
            (url.user.as_deref(), url.password, url.db),
            (Some("u"), Some(Secret::new("p")), 3)
        );
        let pool = PoolKind::Sentinel {
            more_seeds: vec![tcp("10.0.0.2", 7001), tcp("::1", 26379)],
            name: "my main".into(),
            user: Some("w".into()),
            password: Some(Secret::new(*b"a&b\xff")),
            tls: false,
        };
        assert_eq!(url.pool, pool);
        for plain in ["redis-sentinel://s/m", "redis-sentinel://s/m?", "redis-sentinel://s/m?db=0"]
        {
            let url = UpstreamUrl::parse(plain).unwrap();
            assert!(matches!(url.pool, PoolKind::Sentinel { user: None, password: None, .. }));
        }
        let password_alone =
            UpstreamUrl::parse("redis-sentinel://s/m?sentinel_password=p").unwrap();
        assert!(matches!(password_alone.pool, PoolKind::Sentinel { password: Some(_), .. }));
        for (url, word) in [
            ("redis-sentinel://s1,s2", "mymaster"),
            ("redis-sentinel://s1/", "mymaster"),
            ("redis-sentinel://s1?db=1", "mymaster"),
            ("redis-sentinel://s1/a/b", "mymaster"),
            ("redis-sentinel://s1/a%0A", "mymaster"),
            ("redis-sentinel://s1/a#b", "mymaster"),
            ("redis-sentinel://s1/m?db=x", "database"),
            ("redis-sentinel://s1/m?sentinel=x", "allowed: db=n"),
            ("redis-sentinel://s1/m?db=1&db=1", "db stands in the URL twice"),
            ("redis-sentinel://s1,/m", "no host"),
            ("redis-sentinel:///m", "no host"),
        ] {
            let text = UpstreamUrl::parse(url).unwrap_err();
            assert!(text.contains(word), "{url}: {text}");
        }
        let many = |count| format!("redis-cluster://{}h", "h,".repeat(count - 1));
        assert!(UpstreamUrl::parse(&many(SEEDS_MAX)).is_ok());
        assert!(UpstreamUrl::parse(&many(SEEDS_MAX + 1)).unwrap_err().contains("found 257 hosts"));
    }

    #[test]
    fn with_an_s_it_is_the_same_over_tls() {
        for url in ["redis://u:p@h:1/2", "redis-cluster://h,i:2", "redis-sentinel://:p@h/m?db=1"] {
            let plain = UpstreamUrl::parse(url).unwrap();
            let secured = UpstreamUrl::parse(&url.replacen("redis", "rediss", 1)).unwrap();
            assert!(!plain.tls && secured.tls, "{url}");
            let mut expected = UpstreamUrl { tls: true, ..plain };
            if let PoolKind::Sentinel { tls, .. } = &mut expected.pool {
                *tls = true;
            }
            assert_eq!(secured, expected);
        }
        for (url, servers, sentinels) in [
            ("redis-sentinel://h/m?sentinel_tls=true", false, true),
            ("rediss-sentinel://h/m?sentinel_tls=false", true, false),
            ("rediss-sentinel://h/m?sentinel_tls=true", true, true),
        ] {
            let url = UpstreamUrl::parse(url).unwrap();
            let of_sentinels =
                matches!(url.pool, PoolKind::Sentinel { tls, .. } if tls == sentinels);
            assert!(url.tls == servers && of_sentinels, "{url}");
        }
        let text = UpstreamUrl::parse("redis-sentinel://h/m?sentinel_tls=yes").unwrap_err();
        assert!(text.contains("neither true nor false"), "{text}");
    }

    #[test]
    fn schemes_of_others_say_what_to_write_and_name_what_is_allowed() {
        for (url, word) in [
            ("valkeys://h", "write rediss://"),
            ("valkey://h", "write redis://"),
            ("rediss+unix:///s", "no TLS to a unix socket"),
            ("unix:///s", "redis+unix://"),
            ("http://h", "unknown scheme"),
            ("reddis://h", "did you mean redis://?"),
            ("redis-clutser://h", "did you mean redis-cluster://?"),
            ("127.0.0.1:6379", "not a URL (write redis:// before the address)"),
            ("cache.internal:6379", "not a URL (write redis:// before the address)"),
            ("cache", "not a URL; "),
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
            "rediss://u:hunter@2@h",
            "hunter://h",
            "hunter2",
            "redis+unix://u:hunter2@h/s",
            "redis+unix://u:hunt/er2@/s",
            "redis-cluster://u:hunter2@h,h:x",
            "redis-cluster://u:hunter2@h,h/1",
            "redis-cluster://u:hunt,er2@h@h",
            "redis-sentinel://u:hunter2@s",
            "redis-sentinel://u:hunt/er2@s/m",
            "redis-sentinel://:hunt/er2",
            "redis-sentinel://u:hunter2@s/m/x",
            "redis-sentinel://s/m?sentinel_password=hunt&er2",
            "redis-sentinel://s/m?sentinel_password=hunter@2",
            "redis-sentinel://s/m?sentinel_password=hunt#er2",
            "redis-sentinel://s/m?sentinel_password=hunter%2",
            "redis-sentinel://s/m?sentinel_password=a&sentinel_password=hunter2",
            "redis-sentinel://s/m?hunter2",
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
            ("rediss://u:hunter2@h/3", "rediss://h:6379/3"),
            ("rediss-cluster://:hunter2@a", "rediss-cluster://a:6379"),
            ("rediss-sentinel://:hunter2@a/m", "rediss-sentinel://a:26379/m"),
            (
                "redis-sentinel://a/m?sentinel_tls=true&db=4",
                "redis-sentinel://a:26379/m?db=4&sentinel_tls=true",
            ),
            ("redis+unix://:hunter2@/s?db=1", "redis+unix:///s?db=1"),
            ("redis-cluster://:hunter2@a,[::1]:2,c:3", "redis-cluster://a:6379,[::1]:2,c:3"),
            (
                "redis-sentinel://u:hunter2@a,[::1]:2/m%20%2F?sentinel_user=x&sentinel_password=hunter2",
                "redis-sentinel://a:26379,[::1]:2/m%20%2F",
            ),
            (
                "redis-sentinel://a/m?sentinel_password=hunter2&db=4",
                "redis-sentinel://a:26379/m?db=4",
            ),
        ] {
            let parsed = UpstreamUrl::parse(url).unwrap();
            assert_eq!(parsed.to_string(), shown);
            assert!(!format!("{parsed:?}").contains("hunter2"));
            let again = UpstreamUrl::parse(shown).unwrap();
            assert_eq!((again.to_string().as_str(), again.db), (shown, parsed.db));
            assert!(again.addresses().eq(parsed.addresses()));
        }
    }
}
