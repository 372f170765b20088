//! Our URLs and entries of shards as text, credentials included.
//!
//! `Display` of [`UpstreamUrl`] leaves credentials out, since it is for logs; this is for a configuration file.
//!
//! Invariant: [`UpstreamUrl::parse`] of the text gives the same URL.

use std::fmt::Write;

use crate::address::{PoolKind, UpstreamAddress, UpstreamUrl, encode};
use crate::secret::Secret;

/// A server alone at an address, without credentials.
pub(super) fn standalone(address: UpstreamAddress) -> UpstreamUrl {
    UpstreamUrl {
        address,
        pool: PoolKind::Standalone,
        user: None,
        password: None,
        db: 0,
        tls: false,
    }
}

/// A cluster with these nodes; `None` without any.
pub(super) fn cluster(nodes: Vec<UpstreamAddress>) -> Option<UpstreamUrl> {
    let mut nodes = nodes.into_iter();
    let address = nodes.next()?;
    let pool = PoolKind::Cluster { more_seeds: nodes.collect() };
    Some(UpstreamUrl { pool, ..standalone(address) })
}

/// What these sentinels know by `name`; `None` without any of them.
pub(super) fn sentinels(nodes: Vec<UpstreamAddress>, name: &str) -> Option<UpstreamUrl> {
    let mut nodes = nodes.into_iter();
    let address = nodes.next()?;
    let pool = PoolKind::Sentinel {
        more_seeds: nodes.collect(),
        name: name.to_owned(),
        user: None,
        password: None,
        tls: false,
    };
    Some(UpstreamUrl { pool, ..standalone(address) })
}

/// The URL as it stands in a file.
pub(super) fn text(url: &UpstreamUrl) -> String {
    let form = match (&url.pool, &url.address) {
        (PoolKind::Cluster { .. }, _) => "-cluster://",
        (PoolKind::Sentinel { .. }, _) => "-sentinel://",
        (PoolKind::Standalone, UpstreamAddress::Tcp { .. }) => "://",
        (PoolKind::Standalone, UpstreamAddress::Unix(_)) => "+unix://",
    };
    let mut text = format!("redis{}{form}", if url.tls { "s" } else { "" });
    if url.user.is_some() || url.password.is_some() {
        text.push_str(&encode(url.user.as_deref().unwrap_or("")));
        if let Some(password) = &url.password {
            let _ = write!(text, ":{}", secret(password));
        }
        text.push('@');
    }
    if let (PoolKind::Standalone, UpstreamAddress::Unix(path)) = (&url.pool, &url.address) {
        let path = path.to_string_lossy();
        let parts: Vec<String> = path.split('/').map(encode).collect();
        text.push_str(&parts.join("/"));
    } else {
        let hosts: Vec<String> = url.addresses().map(ToString::to_string).collect();
        text.push_str(&hosts.join(","));
    }
    text.push_str(&tail(url));
    text
}

/// Name, database and parameters.
fn tail(url: &UpstreamUrl) -> String {
    let mut parameters = Vec::new();
    let mut text = String::new();
    let is_tcp = matches!(url.address, UpstreamAddress::Tcp { .. });
    match &url.pool {
        PoolKind::Standalone if is_tcp && url.db != 0 => text = format!("/{}", url.db),
        PoolKind::Standalone if is_tcp => {}
        _ if url.db != 0 => parameters.push(format!("db={}", url.db)),
        _ => {}
    }
    if let PoolKind::Sentinel { name, user, password, tls, .. } = &url.pool {
        text = format!("/{}", encode(name));
        parameters.extend(user.as_deref().map(|user| format!("sentinel_user={}", encode(user))));
        parameters.extend(
            password.as_ref().map(|secret_| format!("sentinel_password={}", secret(secret_))),
        );
        parameters.extend((*tls != url.tls).then(|| format!("sentinel_tls={tls}")));
    }
    if !parameters.is_empty() {
        let _ = write!(text, "?{}", parameters.join("&"));
    }
    text
}

/// A password, percent-encoded. Those of configuration files are text.
fn secret(password: &Secret) -> String {
    encode(&String::from_utf8_lossy(password.reveal()))
}

/// An entry of `sharding.shards`. A name that an entry cannot hold is left out.
pub(super) fn entry(url: &UpstreamUrl, weight: u32, name: Option<&str>) -> String {
    let mut text = text(url);
    if weight != 1 {
        let _ = write!(text, " weight={weight}");
    }
    if let Some(name) = name.filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))
    {
        let _ = write!(text, " name={name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_as_they_were() {
        for url in [
            "redis://10.0.0.1:6379",
            "redis://u:p%40%2F%25@h:1/3",
            "redis://:p@[::1]:7",
            "redis+unix:///run/my%20r.sock?db=2",
            "redis+unix://:p@/run/r.sock",
            "redis-cluster://:p@a:1,[::1]:2",
            "redis-sentinel://u:p@a:1,b:2/m%20n?db=3&sentinel_user=x&sentinel_password=y%26",
            "redis-sentinel://a:1/m?sentinel_password=y",
            "rediss://u:p@h:1/3",
            "rediss-cluster://a:1,b:2",
            "rediss-sentinel://a:1/m",
            "rediss-sentinel://a:1/m?db=1&sentinel_tls=false",
            "redis-sentinel://a:1/m?sentinel_tls=true",
        ] {
            let parsed = UpstreamUrl::parse(url).unwrap();
            assert_eq!(UpstreamUrl::parse(&text(&parsed)).unwrap(), parsed, "{url}");
        }
    }

    #[test]
    fn entries() {
        let url = UpstreamUrl::parse("redis://h:1").unwrap();
        assert_eq!(entry(&url, 1, None), "redis://h:1");
        assert_eq!(entry(&url, 2, Some("a")), "redis://h:1 weight=2 name=a");
        assert_eq!(entry(&url, 1, Some("a b")), "redis://h:1");
    }
}
