//! camellia's URLs of servers.
//!
//! They look like ours and are not: an `@` is always there, one word before it is a password, nothing is percent-encoded.
//! Read as `RedisResourceUtil.parseResourceByUrl` reads them.
//!
//! Invariant: no error repeats a piece of the URL but its scheme, since any other piece may be one of a password.

use crate::address::{PoolKind, UpstreamAddress, UpstreamUrl};
use crate::convert::url;
use crate::convert::values::whole;
use crate::secret::Secret;

/// What a URL stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// The servers.
    pub(super) url: UpstreamUrl,
    /// For URLs that are for reads only: whether the primary answers as well.
    pub(super) replicas: Option<bool>,
}

/// The schemes that respool has something for.
const SCHEMES: &str = "redis://, redis-sentinel://, redis-cluster://, redis-uds:// and, for reads, redis-sentinel-slaves:// and \
     redis-cluster-slaves://; all but redis-uds:// also as rediss";

/// Reads a URL.
pub(super) fn parse(text: &str) -> Result<Resource, String> {
    let (scheme, rest) =
        text.split_once("://").ok_or_else(|| format!("no URL; allowed: {SCHEMES}"))?;
    let (plain, tls) = match scheme.strip_prefix("rediss") {
        Some(rest) => (format!("redis{rest}"), true),
        None => (scheme.to_owned(), false),
    };
    let known = [
        "redis",
        "redis-sentinel",
        "redis-cluster",
        "redis-uds",
        "redis-sentinel-slaves",
        "redis-cluster-slaves",
    ];
    if !known.contains(&plain.as_str()) || (tls && plain == "redis-uds") {
        let why = match scheme {
            "redis-proxies" | "redis-proxies-discovery" => {
                "respool has nothing for several servers of which any does"
            }
            "redis-kv" => "respool stores nothing itself",
            _ => return Err(format!("an unknown scheme; allowed: {SCHEMES}")),
        };
        return Err(format!("{scheme}:// has no counterpart: {why}; allowed: {SCHEMES}"));
    }
    let (main, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (user_info, place) = main.rsplit_once('@').ok_or("an `@` is missing before the address")?;
    let (user, password) = match user_info.split_once(':') {
        Some((user, password)) => (user, password),
        None => ("", user_info),
    };
    let mut url = servers(&plain, place)?;
    // Sentinels have TLS of their own there (`sentinelSSL`).
    url.tls = tls;
    url.user = Some(user).filter(|user| !user.is_empty()).map(str::to_owned);
    url.password = Some(password).filter(|password| !password.is_empty()).map(Secret::new);
    let mut resource = Resource { url, replicas: scheme.ends_with("-slaves").then_some(false) };
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        set(&mut resource, parameter)?;
    }
    Ok(resource)
}

/// The servers, as the scheme has them.
fn servers(scheme: &str, place: &str) -> Result<UpstreamUrl, String> {
    match scheme {
        "redis" => Ok(url::standalone(UpstreamAddress::from_server_line(place)?)),
        "redis-uds" if place.starts_with('/') => {
            Ok(url::standalone(UpstreamAddress::from_server_line(place)?))
        }
        "redis-uds" => Err("the path of the unix socket does not begin with /".to_owned()),
        "redis-cluster" | "redis-cluster-slaves" => {
            url::cluster(nodes(place)?).ok_or_else(|| "no node is named".to_owned())
        }
        _ => {
            let (hosts, name) = place.split_once('/').unwrap_or((place, ""));
            if name.is_empty() {
                return Err("behind the sentinels the name of the server is missing".to_owned());
            }
            url::sentinels(nodes(hosts)?, name).ok_or_else(|| "no sentinel is named".to_owned())
        }
    }
}

fn nodes(text: &str) -> Result<Vec<UpstreamAddress>, String> {
    text.split(',').map(UpstreamAddress::from_server_line).collect()
}

/// Takes a parameter behind the `?`.
fn set(resource: &mut Resource, parameter: &str) -> Result<(), String> {
    let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let pool = &mut resource.url.pool;
    match (key, pool, value) {
        ("db", PoolKind::Cluster { .. }, _) => Err("a cluster has the database 0 only".to_owned()),
        ("db", _, value) => {
            let db = whole(value).and_then(|db| u32::try_from(db).ok());
            resource.url.db = db.ok_or("the database is not a whole number")?;
            Ok(())
        }
        ("withMaster", _, "true" | "false" | "") if resource.replicas.is_some() => {
            resource.replicas = Some(value == "true");
            Ok(())
        }
        ("sentinelUserName", PoolKind::Sentinel { user, .. }, value) => {
            *user = Some(value.to_owned()).filter(|user| !user.is_empty());
            Ok(())
        }
        ("sentinelPassword", PoolKind::Sentinel { password, .. }, value) => {
            *password = Some(value).filter(|value| !value.is_empty()).map(Secret::new);
            Ok(())
        }
        ("sentinelSSL", PoolKind::Sentinel { tls, .. }, _) => {
            *tls = value == "true";
            Ok(())
        }
        _ => Err("a parameter that is not known for such a URL; known: db, withMaster, sentinelUserName, sentinelPassword, sentinelSSL".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_become_ours() {
        for (theirs, ours, replicas) in [
            ("redis://@127.0.0.1:6379", "redis://127.0.0.1:6379", None),
            ("redis://pass@127.0.0.1:6379", "redis://:pass@127.0.0.1:6379", None),
            ("redis://u:p@h:1?db=2", "redis://u:p@h:1/2", None),
            ("redis://a@b:c%@h:1", "redis://a%40b:c%25@h:1", None),
            ("redis-cluster://p@a:1,b:2", "redis-cluster://:p@a:1,b:2", None),
            ("redis-sentinel://@a:1,b:2/m?db=1", "redis-sentinel://a:1,b:2/m?db=1", None),
            (
                "redis-sentinel://p@a:1/m?sentinelUserName=u&sentinelPassword=s&sentinelSSL=false",
                "redis-sentinel://:p@a:1/m?sentinel_user=u&sentinel_password=s",
                None,
            ),
            (
                "redis-sentinel-slaves://p@a:1/m?withMaster=true",
                "redis-sentinel://:p@a:1/m",
                Some(true),
            ),
            ("redis-cluster-slaves://@a:1", "redis-cluster://a:1", Some(false)),
            ("redis-uds://p@/run/r.sock?db=3", "redis+unix://:p@/run/r.sock?db=3", None),
        ] {
            let resource = parse(theirs).unwrap();
            assert_eq!((url::text(&resource.url).as_str(), resource.replicas), (ours, replicas));
        }
    }

    #[test]
    fn mistakes_repeat_nothing_that_may_be_secret() {
        for (text, word) in [
            ("hunter2", "no URL"),
            ("http://hunter2@h:1", "unknown scheme"),
            ("rediss-uds://hunter2@/s", "unknown scheme"),
            ("redis-proxies://hunter2@h:1", "of which any does"),
            ("redis://hunter2:1", "`@` is missing"),
            ("redis://hunter2@h", "port"),
            ("redis://x@hunt?er2:1", "port"),
            ("redis://@h:1?hunter2=1", "parameter"),
            ("redis-cluster://@h:1?db=1", "database 0 only"),
            ("redis-sentinel://hunter2@h:1", "name of the server"),
            ("redis-uds://hunter2@r.sock", "begin with /"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains(word) && !error.contains("hunt") && !error.contains("er2"),
                "{text}: {error}"
            );
        }
    }
}
