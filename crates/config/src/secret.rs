//! A password, or a URL with one, that cannot leak by accident.
//!
//! The type [`Secret`] is wrapped around every password the configuration holds, so that `{:?}` on a whole `Config`, a log line or
//! an error text shows a placeholder. It is not a vault: the bytes stay in ordinary memory and are not wiped.
//!
//! Invariant: the bytes leave this type through [`Secret::reveal`] only, which is easy to search for.

use std::fmt;

/// A password. `Debug` and `Display` print a placeholder; [`Secret::reveal`] gives the bytes.
///
/// Bytes and not text, because Redis passwords may be any bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Wraps the bytes of a password.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into_boxed_slice())
    }

    /// The password itself, for the one who sends or compares it. Never log it.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// A URL of HTTP whose user, path and query are secrets: tokens of webhooks and of collectors stand there.
///
/// `Debug` and `Display` print scheme, host and port; [`SecretUrl::reveal`] gives the whole URL.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(Box<str>);

impl SecretUrl {
    /// Wraps a URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into().into_boxed_str())
    }

    /// The URL itself, for the one who connects. Never log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is spoken to over TLS.
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// Host and port, as far as they can be told.
    pub fn host(&self) -> &str {
        let (_, authority, _) = self.parts();
        authority.rsplit('@').next().unwrap_or_default()
    }

    /// A text of somebody who knows the URL, without what is secret of it.
    pub fn without_secrets(&self, text: &str) -> String {
        let (_, authority, rest) = self.parts();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        // A client of HTTP may show the URL, or the path as it stands in the request, or parts of it.
        let secrets = [&*self.0, rest, rest.trim_matches(['/', '?']), user];
        let hides = |text: String, secret: &&str| text.replace(*secret, HIDDEN);
        secrets
            .iter()
            .filter(|secret| secret.trim_matches('/').len() > 1)
            .fold(text.to_owned(), hides)
    }

    /// Scheme with its slashes, user with host and port, all that is behind.
    fn parts(&self) -> (&str, &str, &str) {
        let start = self.0.find("://").map_or(0, |at| at + "://".len());
        let (scheme, behind) = self.0.split_at(start);
        let (authority, rest) =
            behind.split_at(behind.find(['/', '?', '#']).unwrap_or(behind.len()));
        (scheme, authority, rest)
    }
}

/// What stands for a secret part.
const HIDDEN: &str = "***";

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority, rest) = self.parts();
        let user = if authority.contains('@') { "***@" } else { "" };
        let rest = match rest {
            "" | "/" => rest,
            _ => "/***",
        };
        write!(f, "{scheme}{user}{}{rest}", self.host())
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_as_host_and_port() {
        for (url, shown) in [
            ("https://hooks.example/services/T0/B0/tok3n", "https://hooks.example/***"),
            ("http://h:80?key=tok3n", "http://h:80/***"),
            ("http://tok3n:tok3n@h:80/", "http://***@h:80/"),
            ("http://[::1]:4318", "http://[::1]:4318"),
            ("http://h#tok3n", "http://h/***"),
            ("http://h//@tok3n", "http://h/***"),
            ("tok3n/tok3n", "tok3n/***"),
        ] {
            let url = SecretUrl::new(url);
            assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), shown.to_owned()));
        }
        let url = SecretUrl::new("https://u:tok3n@hooks.example/a/tok3n?q=tok3n");
        assert_eq!(url.host(), "hooks.example");
        for said in [
            "bad uri: https://u:tok3n@hooks.example/a/tok3n?q=tok3n",
            "POST /a/tok3n?q=tok3n HTTP/1.1: refused",
            "`a/tok3n?q=tok3n` of u:tok3n",
        ] {
            let shown = url.without_secrets(said);
            assert!(!shown.contains("tok3n") && shown.contains("***"), "{shown}");
        }
        assert_eq!(SecretUrl::new("http://h/").without_secrets("a/b is no h"), "a/b is no h");
    }

    #[test]
    fn neither_debug_nor_display_shows_the_bytes() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {:?}", Some(&secret)),
            "<secret> <secret> Some(<secret>)"
        );
        assert_eq!(secret.reveal(), b"hunter2");
    }
}
