//! TLS against a real server with a certificate made here.

use std::sync::Arc;

use bench::load::{Endpoint, ask};
use bench::plan::{Shape, Stop};
use testkit::RedisServer;

use crate::support::{at, endpoint, plan, run};

/// A server with a TLS port, and the endpoint of that port; `None` where the server was built without TLS.
fn secured() -> Option<(RedisServer, Endpoint)> {
    let folder = tempfile::tempdir().expect("folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("certificate");
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("certificate");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("key");
    let server = RedisServer::start();
    let port = testkit::ports::Port::v4().release().port();
    // Given while it runs: a server without TLS says that it does not know the option, instead of not starting.
    let (cert, key) = (cert.display(), key.display());
    let set = format!(
        "CONFIG SET tls-cert-file {cert} tls-key-file {key} tls-auth-clients no tls-port {port}"
    );
    if let Err(error) = ask(&endpoint(&server), &set) {
        eprintln!("skipped: this server has no TLS: {error}");
        return None;
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("root");
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .expect("versions")
    .with_root_certificates(roots)
    .with_no_client_auth();
    let mut secured = at(&format!("redis://127.0.0.1:{port}"));
    secured.tls = Some((Arc::new(config), "localhost".to_owned()));
    Some((server, secured))
}

#[test]
fn every_shape_speaks_tls() {
    let Some((_server, place)) = secured() else { return };
    for (shape, stop, replies) in [
        (Shape::Closed, Stop::AfterRequests(2000), 2000..=2000),
        (Shape::Open { rate: 1000.0 }, Stop::AfterMs(300), 280..=u64::MAX),
        (Shape::Storm, Stop::AfterRequests(100), 100..=100),
        (Shape::SlowReader { bytes_per_s: 50_000 }, Stop::AfterRequests(100), 100..=100),
    ] {
        let mut plan = plan(&[("SET {key} {value}", 1), ("GET {key}", 1)]);
        (plan.shape, plan.stop) = (shape, stop);
        let outcome = run(&place, &plan).expect("load");
        assert!(replies.contains(&outcome.requests), "{shape:?}: {}", outcome.requests);
        if let Shape::Open { rate } = shape {
            // On a busy machine the end is noticed some milliseconds late, and requests are due until then.
            let due = (rate * outcome.seconds) as u64 + 1;
            assert!(outcome.requests <= due, "{shape:?}: {} of {due}", outcome.requests);
        }
    }
    let mut large = plan(&[("SET {key} {value}", 1), ("GET {key}", 1)]);
    (large.value_bytes, large.stop, large.keys.count) = (300_000, Stop::AfterRequests(100), 2);
    assert_eq!(run(&place, &large).expect("load").requests, 100);
}

#[test]
fn a_certificate_of_somebody_else_is_refused() {
    let Some((_server, mut place)) = secured() else { return };
    if let Some((_, name)) = &mut place.tls {
        *name = "elsewhere".to_owned();
    }
    for shape in [Shape::Closed, Shape::Storm] {
        let mut plan = plan(&[("PING", 1)]);
        plan.shape = shape;
        let error = run(&place, &plan).expect_err("refused");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}
