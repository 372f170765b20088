//! Whom our own requests over HTTPS trust, and what they show: those that bring spans and alarms, and those of `respool top`.
//!
//! The client of HTTP is `ureq`, which speaks TLS with the same library and the same cryptography as everybody here. It is handed certificates and makes
//! the rest of them itself, so they are looked at here first: what it cannot use it would leave out, or panic over.
//!
//! Not here: what is sent (`export`), which options go together (`config`).
//!
//! Invariant: that of the module above. A name is always checked; there is no way to do without.

use super::{Names, Pair, certificates, file, pair, provider, roots};
use config::{Finding, ReceiverTls};
use std::fmt;
use std::path::Path;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

/// The options of authorities, certificate and key.
type Options = [Names; 3];

/// Those about the collector of spans.
pub(super) const COLLECTOR: Options =
    [&["tracing.tls.ca_file"], &["tracing.tls.cert_file"], &["tracing.tls.key_file"]];

/// Those about the receiver of alarms.
pub(super) const WEBHOOK: Options =
    [&["alarms.tls.ca_file"], &["alarms.tls.cert_file"], &["alarms.tls.key_file"]];

/// The flags of `respool top`.
const FLAGS: Options = [&["--ca-file"], &["--cert-file"], &["--key-file"]];

/// What holds for connections to one of them. Clones are the same to whoever keeps connections.
#[derive(Clone)]
pub struct Trust(TlsConfig);

/// It holds a key, of which nothing is shown.
impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

/// Those of everybody whom something is posted to; `None`: without TLS.
#[derive(Clone, Debug, Default)]
pub struct Trusts {
    /// Of the collector of spans.
    pub collector: Option<Trust>,
    /// Of the receiver of alarms.
    pub webhook: Option<Trust>,
}

/// What it is made of, as it was read.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    /// `None`: whom the system trusts.
    ca: Option<Vec<u8>>,
    own: Option<Pair>,
}

/// What these files come to; the same as before where they are.
pub(super) fn of(
    files: &ReceiverTls,
    options: Options,
    known: Option<&(Material, Trust)>,
) -> Result<(Material, Trust), Vec<Finding>> {
    let [ca, cert, key] = options;
    let mut found = Vec::new();
    let own = files.cert_file.is_some().then(|| {
        pair((cert, files.cert_file.as_deref()), (key, files.key_file.as_deref()), &mut found)
    });
    let ca = file(ca, files.ca_file.as_deref(), &mut found);
    if !found.is_empty() {
        return Err(found);
    }
    let material = Material { ca, own: own.flatten() };
    let made = match known {
        Some((known, made)) if *known == material => made.clone(),
        _ => material.make(files, options).map_err(|finding| vec![finding])?,
    };
    Ok((material, made))
}

impl Material {
    fn make(&self, files: &ReceiverTls, [ca, cert, key]: Options) -> Result<Trust, Finding> {
        let path = |file: &'_ Option<std::path::PathBuf>| file.clone().unwrap_or_default();
        let roots: Vec<Certificate<'static>> = match &self.ca {
            Some(bytes) => {
                let path = path(&files.ca_file);
                // Whether each can be one of an authority.
                roots(ca, &path, bytes)?;
                let all = certificates(ca, &path, bytes)?;
                all.iter().map(|one| Certificate::from_der(one).to_owned()).collect()
            }
            None => {
                super::system_roots(ca)?;
                let all = rustls_native_certs::load_native_certs().certs;
                all.iter().map(|one| Certificate::from_der(one).to_owned()).collect()
            }
        };
        let own = match &self.own {
            None => None,
            Some(pair) => {
                let (cert_file, key_file) = (path(&files.cert_file), path(&files.key_file));
                pair.certified(cert, (&cert_file, &key_file))?;
                let chain = certificates(cert, &cert_file, &pair.chain)?;
                let chain: Vec<_> =
                    chain.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
                // It was read just now, by another reader; what stands in it is no matter for a text.
                let own = PrivateKey::from_pem(pair.key.reveal())
                    .map_err(|_| (key, format!("{} is no PEM", key_file.display())))?;
                Some(ClientCert::new_with_certs(&chain, own))
            }
        };
        let config = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider())
            .root_certs(RootCerts::new_with_certs(&roots))
            .client_cert(own);
        Ok(Trust(config.build()))
    }
}

impl Trust {
    /// What the flags of a command name.
    ///
    /// # Errors
    /// A text for a person: a file cannot be used.
    pub fn of_flags(
        ca: Option<&Path>,
        cert: Option<&Path>,
        key: Option<&Path>,
    ) -> Result<Self, String> {
        let owned = |path: Option<&Path>| path.map(Path::to_owned);
        let files =
            ReceiverTls { ca_file: owned(ca), cert_file: owned(cert), key_file: owned(key) };
        let made = of(&files, FLAGS, None);
        made.map(|(_, trust)| trust).map_err(|found| {
            let lines: Vec<_> =
                found.into_iter().map(|(names, why)| format!("{}: {why}", names[0])).collect();
            lines.join("\n")
        })
    }

    /// For an agent of HTTP.
    pub fn config(&self) -> TlsConfig {
        self.0.clone()
    }
}
