//! Endpoints that somebody else started: looked at before the run, and never signalled or configured.
//!
//! What is asked of them is what makes figures possible: that the endpoint answers a PING with our login, and that the
//! process ids exist. The load's own id is refused, since its CPU would be taken for the target's.

use std::net::IpAddr;
use std::sync::Arc;

use config::{UpstreamAddress, UpstreamUrl};

use crate::account;
use crate::load::{self, Endpoint, LoadError};
use crate::plan::External;

/// The endpoint of an external target.
///
/// # Errors
/// When it speaks TLS and no configuration of TLS was given.
pub(super) fn endpoint(
    external: &External,
    tls: Option<&Arc<rustls::ClientConfig>>,
) -> Result<Endpoint, String> {
    let tls = match (external.tls, tls) {
        (false, _) => None,
        (true, Some(tls)) => Some((Arc::clone(tls), server_name(&external.url))),
        (true, None) => {
            return Err(
                "it speaks TLS, and no certificates to trust were named (--tls-ca FILE)".to_owned()
            );
        }
    };
    Ok(Endpoint { url: external.url.clone(), tls })
}

/// Looks whether it can be measured; returns what it is, in words.
///
/// # Errors
/// In words, naming the endpoint or the process.
pub(super) fn check(external: &External, endpoint: &Endpoint) -> Result<String, String> {
    let own = std::process::id();
    let mut names = Vec::new();
    for &pid in external.proxy_pids.iter().chain(&external.server_pids) {
        if pid == own {
            return Err(format!("process {pid} is this benchmark itself"));
        }
        names.push(account::name_of(pid).ok_or_else(|| format!("there is no process {pid}"))?);
    }
    let at = place(&external.url);
    load::ask(endpoint, "PING").map_err(|error| refused(&at, &error))?;
    let name = names.first().map_or_else(|| "something".to_owned(), Clone::clone);
    Ok(format!("{name} at {at}"))
}

fn refused(at: &str, error: &LoadError) -> String {
    match error {
        LoadError::ErrorReply { text, .. } => format!("{at} answers PING with an error: {text}"),
        other => format!("{at} does not answer PING: {other}"),
    }
}

/// Host and port, or the path; never user or password.
fn place(url: &UpstreamUrl) -> String {
    match &url.address {
        UpstreamAddress::Tcp { host, port }
            if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) =>
        {
            format!("[{host}]:{port}")
        }
        UpstreamAddress::Tcp { host, port } => format!("{host}:{port}"),
        UpstreamAddress::Unix(path) => path.display().to_string(),
    }
}

fn server_name(url: &UpstreamUrl) -> String {
    match &url.address {
        UpstreamAddress::Tcp { host, .. } => host.clone(),
        // There is no name in a path; certificates of test servers most often say this.
        UpstreamAddress::Unix(_) => "localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn external(url: &str, pids: &[u32]) -> External {
        let url = UpstreamUrl::parse(url).unwrap();
        External { url, tls: false, proxy_pids: pids.to_vec(), server_pids: Vec::new() }
    }

    #[test]
    fn pids_are_looked_at_before_the_endpoint() {
        let check = |pid| {
            let external = external("redis://127.0.0.1:1", &[pid]);
            check(&external, &endpoint(&external, None).unwrap()).unwrap_err()
        };
        let own = std::process::id();
        assert_eq!(check(own), format!("process {own} is this benchmark itself"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(check(child.id()), format!("there is no process {}", child.id()));
    }

    #[test]
    fn places_hold_no_secret() {
        let place = |url| place(&UpstreamUrl::parse(url).unwrap());
        assert_eq!(place("redis://user:secret@example.org:6380/3"), "example.org:6380");
        assert_eq!(place("redis://[::1]:6379"), "[::1]:6379");
        assert_eq!(place("redis+unix://:secret@/run/redis.sock"), "/run/redis.sock");
    }

    #[test]
    fn tls_needs_certificates_to_trust() {
        let mut external = external("redis://127.0.0.1:1", &[]);
        external.tls = true;
        assert!(endpoint(&external, None).unwrap_err().contains("--tls-ca"));
    }
}
