//! Who may ask.
//!
//! With a token in the configuration a request must present it. Without one the listener is read-only. The machine itself can connect (`config`
//! sees to that), and so can every local user and every service that can be made to send a request; options may name commands, which would make these
//! respool's own user. A connection that had to show a certificate may change something. A page in a browser of this machine is kept out altogether. Such a page can send requests, but not without a `Host` by a name
//! of its own (rebinding) or an `Origin` (another site), so these two are refused. Over TLS a name of its own does not get it here: the browser
//! would miss it in our certificate, so there any `Host` is taken.
//!
//! The files of the console are for everybody: a browser has no token to load them with, and without one they show nothing.
//!
//! Invariant: a request that changes something, or costs something, has presented a token or a certificate.

use super::listen::Talk;
use super::{App, Refusal, web};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Paths that tell nothing but whether the proxy lives; orchestrators ask them without a token.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Whether whoever can connect gets this: it tells nothing of what the proxy does.
fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || web::has(path)
}

/// What somebody hears who would change something and has presented nothing.
const READ_ONLY: &str = "the admin listener is read-only without a token: set admin.token_file (or admin.token) to change something or to make a CPU profile";

/// A path that is looked at and costs something: signals interrupt the workers while a profile is made.
const COSTLY: &str = "/debug/flame";

/// Whether this method only looks.
fn looks(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

/// Whether this neither changes anything nor costs more than the answer.
fn is_harmless(method: &Method, path: &str) -> bool {
    looks(method) && path != COSTLY
}

/// Whether it waits for its turn with others that only look. Orchestrators wait for nobody, nor does a profile, which takes its time.
pub(super) fn is_bound(method: &Method, path: &str) -> bool {
    is_harmless(method, path) && !is_open(path)
}

/// Lets a request through or refuses it.
pub(super) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let settings = app.settings.borrow().clone();
    let path = request.uri().path();
    let refusal = match &settings.token {
        _ if Talk::is_reserved(&request) && !OPEN.contains(&path) => {
            let error = "all connections of the admin listener are in use: this one answers /healthz and /readyz only";
            Some(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error))
        }
        _ if is_open(path) && looks(request.method()) => None,
        Some(token) => {
            let given = bearer(request.headers());
            let fits = given.is_some_and(|given| token.matches(given));
            let error = "the token is missing or wrong: Authorization: Bearer TOKEN";
            (!fits).then(|| Refusal::new(StatusCode::UNAUTHORIZED, error))
        }
        None => {
            let is_secured = Talk::is_secured(&request);
            let may_change = Talk::is_certified(&request) || is_harmless(request.method(), path);
            let error = foreign(request.headers(), is_secured);
            let error = error.or((!may_change).then_some(READ_ONLY));
            error.map(|error| Refusal::new(StatusCode::FORBIDDEN, error))
        }
    };
    match refusal {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

/// Why a request looks as if another site's page had sent it; `None`: it does not.
fn foreign(headers: &HeaderMap, is_secured: bool) -> Option<&'static str> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_one = headers.get_all(HOST).iter().count() == 1;
    let Some(host) = text(HOST).filter(|_| is_one) else {
        return Some("without a token a request must have one Host");
    };
    if !is_secured && !is_own(host) {
        return Some("without a token the Host must be an IP address or localhost");
    }
    let scheme = if is_secured { "https://" } else { "http://" };
    let same = |origin: &str| origin.strip_prefix(scheme) == Some(host);
    match text(ORIGIN) {
        Some(origin) if !same(origin) => Some("without a token other sites cannot ask"),
        None if headers.contains_key(ORIGIN) => Some("without a token other sites cannot ask"),
        _ => None,
    }
}

/// Whether this `Host` is no name that somebody could have given this machine.
fn is_own(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok()
        || v6.is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (name.parse().expect("a name"), HeaderValue::from_str(value).expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        let is_foreign = |pairs: &[(&'static str, &str)]| foreign(&headers(pairs), false).is_some();
        for host in ["127.0.0.1:9000", "localhost", "LOCALHOST:1", "[::1]:9", "10.0.0.1"] {
            assert!(!is_foreign(&[("host", host)]), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "",
            "[::1]evil",
            "[::1]evil:9",
            "::1",
            "127.0.0.1:99999",
            "127.0.0.1:",
            "evil@127.0.0.1",
        ] {
            assert!(is_foreign(&[("host", host)]), "{host}");
        }
        assert!(is_foreign(&[("host", "127.0.0.1"), ("host", "evil.example")]));
        assert!(is_foreign(&[]));
        let own = "127.0.0.1:9000";
        assert!(!is_foreign(&[("host", own), ("origin", "http://127.0.0.1:9000")]));
        assert!(is_foreign(&[("host", own), ("origin", "http://127.0.0.1:9001")]));
        assert!(is_foreign(&[("host", own), ("origin", "null")]));
    }

    #[test]
    fn over_tls_the_certificate_has_the_name_and_the_origin_says_so() {
        let is_foreign = |pairs: &[(&'static str, &str)]| foreign(&headers(pairs), true).is_some();
        let own = ("host", "proxy.example:6390");
        assert!(!is_foreign(&[own]));
        assert!(!is_foreign(&[own, ("origin", "https://proxy.example:6390")]));
        for origin in ["http://proxy.example:6390", "https://evil.example", "null"] {
            assert!(is_foreign(&[own, ("origin", origin)]), "{origin}");
        }
        assert!(is_foreign(&[]));
    }

    #[test]
    fn only_health_and_the_files_of_the_console_are_open() {
        assert!(["/healthz", "/readyz", "/", "/console/main.js"].into_iter().all(is_open));
        let closed = ["/stats", "/console", "/console/", "/console/../stats", "//", "/config", ""];
        assert!(!closed.into_iter().any(is_open));
    }

    /// Every endpoint of the document: what is no GET is refused, so that one that is added later is as well.
    #[test]
    fn nothing_is_harmless_that_changes_something() {
        let document: serde_json::Value =
            serde_json::from_str(&crate::admin::openapi::page()).expect("a document");
        let paths = document["paths"].as_object().expect("paths");
        let mut shown = 0;
        for (path, methods) in paths {
            for method in methods.as_object().expect("methods").keys() {
                let is_get = method == "get";
                let method =
                    Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
                let is_harmless = is_harmless(&method, path);
                assert_eq!(is_harmless, is_get && path != COSTLY, "{method} {path}");
                shown += usize::from(is_harmless);
            }
        }
        assert!(shown > 10 && paths.contains_key(COSTLY), "{shown}");
        assert!(!is_harmless(&Method::PATCH, "/") && !is_harmless(&Method::OPTIONS, "/stats"));
    }

    #[test]
    fn a_token_comes_as_bearer() {
        assert_eq!(bearer(&headers(&[("authorization", "Bearer abc")])), Some(&b"abc"[..]));
        assert_eq!(bearer(&headers(&[("authorization", "bearer  abc ")])), Some(&b"abc"[..]));
        assert_eq!(bearer(&headers(&[("authorization", "Basic abc")])), None);
        assert_eq!(bearer(&headers(&[("authorization", "x")])), None);
        assert_eq!(bearer(&headers(&[])), None);
    }
}
