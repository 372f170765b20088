//! Some of a few names, and URLs of HTTP.
//!
//! Not here: one of a few names (`Kind::Choice`).
//!
//! Invariant: a list holds each name once, in the order of the names that there are.

use super::Kind;
use super::scalar::{Item, Raw, items, text};
use crate::problem::Fault;

impl Kind {
    /// Reads names, each of which must be one of these.
    pub(super) fn read_names(
        &self,
        raw: &Raw<'_>,
        names: &'static [&'static str],
    ) -> Result<Vec<&'static str>, Vec<Fault>> {
        let given = items(raw);
        let known = |item: &&Item<'_>| text(&item.scalar).is_some_and(|name| names.contains(&name));
        let faults: Vec<Fault> = given
            .iter()
            .filter(|item| !known(item))
            .map(|item| self.fault(item.span.clone(), &item.scalar))
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let is_given = |name: &&&str| given.iter().any(|item| text(&item.scalar) == Some(**name));
        Ok(names.iter().filter(is_given).copied().collect())
    }
}

/// Whether this is `http://host[:port][/path]` or the same with `https`, without a user, spaces or a fragment.
pub(super) fn is_http_url(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(rest) = rest else { return false };
    let host = rest.split('/').next().unwrap_or_default();
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    is_plain && !name.is_empty() && !host.contains('@') && port_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_http_without_a_user() {
        for url in [
            "http://h",
            "https://h",
            "http://127.0.0.1:4318",
            "https://[::1]:443/a",
            "http://[::1]:80/a?b=c",
            "http://[::1]/",
        ] {
            assert!(is_http_url(url), "{url}");
        }
        for url in [
            "",
            "h:80",
            "ftp://h",
            "https:/h",
            "https://",
            "https://u@h",
            "http://",
            "http://u:p@h",
            "http://h:0",
            "http://h:x",
            "http://h/ b",
        ] {
            assert!(!is_http_url(url), "{url}");
        }
    }
}
