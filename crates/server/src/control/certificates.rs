//! From files of certificates and keys to what workers meet clients and servers with.
//!
//! Files are read with the configuration, each time it is: at the start, by SIGHUP, when one of them changed. What is wrong with one is a problem of the
//! configuration as any other, told with the option and its place, and changes nothing. What is the same as before stays as it is, so that clients can go on
//! from their last handshake across a reload that is about something else.
//!
//! Those who look after the proxy are met with what is made here as well, and so are those who get spans and alarms (`receivers`).
//!
//! Not here: handshakes (`worker/tls`, `admin/secured`), which options go together (`config`).
//!
//! Invariant: keys leave this file in what rustls made of them, and in no text.

pub mod receivers;

use crate::sources::read_certificates;
use crate::worker::tls::{ForClients, ForUpstreams, TlsSettings};
use config::{CertFiles, ClientAuth, Config, Finding, Secret, TlsVersion};
use receivers::{Material, Trust, Trusts};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};
use std::path::Path;
use std::sync::Arc;

/// What is in force, and what it was made of.
#[derive(Clone)]
pub struct Certificates {
    clients: Option<(ClientsMaterial, ForClients)>,
    upstreams: Option<(UpstreamsMaterial, ForUpstreams)>,
    /// Those who ask the admin listener.
    admin: Option<(ClientsMaterial, ForClients)>,
    collector: Option<(Material, Trust)>,
    webhook: Option<(Material, Trust)>,
    handshake_ms: u64,
}

/// What clients are met with, as it was read.
#[derive(Clone, PartialEq, Eq)]
struct ClientsMaterial {
    own: Vec<Pair>,
    ca: Option<Vec<u8>>,
    auth: ClientAuth,
    min_version: TlsVersion,
    resumption: bool,
}

/// The same of servers.
#[derive(Clone, PartialEq, Eq)]
struct UpstreamsMaterial {
    own: Option<Pair>,
    /// `None`: whom the system trusts.
    ca: Option<Vec<u8>>,
    name: Option<String>,
    insecure: bool,
}

/// A certificate with what leads to it, and its key, as their files have them.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    chain: Vec<u8>,
    key: Secret,
}

/// The option whose file something is wrong with.
type Names = &'static [&'static str];

/// Where what clients are met with comes from.
struct ClientFiles<'a> {
    /// Of certificate, key and authorities.
    names: [Names; 3],
    cert: Option<&'a Path>,
    key: Option<&'a Path>,
    more: &'a [CertFiles],
    ca: Option<&'a Path>,
}

impl Certificates {
    /// Those of a configuration.
    ///
    /// # Errors
    /// Everything that is wrong with the files.
    pub fn read(config: &Config) -> Result<Self, Vec<Finding>> {
        let nothing = Self {
            clients: None,
            upstreams: None,
            admin: None,
            collector: None,
            webhook: None,
            handshake_ms: 0,
        };
        nothing.renewed(config)
    }

    /// The same of the configuration that comes next.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn renewed(&self, config: &Config) -> Result<Self, Vec<Finding>> {
        let mut wrong = Vec::new();
        let clients = config.has_tls_clients().then(|| self.clients_of(config));
        let upstreams = config.has_tls_upstreams().then(|| self.upstreams_of(config));
        let admin = config.admin.tls.cert_file.is_some().then(|| self.admin_of(config));
        let collector = config.has_tls_collector().then(|| {
            receivers::of(&config.tracing.tls, receivers::COLLECTOR, self.collector.as_ref())
        });
        let webhook = config
            .has_tls_webhook()
            .then(|| receivers::of(&config.alarms.tls, receivers::WEBHOOK, self.webhook.as_ref()));
        let renewed = Self {
            clients: sound(clients, &mut wrong),
            upstreams: sound(upstreams, &mut wrong),
            admin: sound(admin, &mut wrong),
            collector: sound(collector, &mut wrong),
            webhook: sound(webhook, &mut wrong),
            handshake_ms: config.tls.handshake_ms,
        };
        if wrong.is_empty() { Ok(renewed) } else { Err(wrong) }
    }

    /// Whether what is in the files, or is taken of them, is another.
    pub fn differs(&self, other: &Self) -> bool {
        is_other(&self.clients, &other.clients)
            || is_other(&self.upstreams, &other.upstreams)
            || is_other(&self.admin, &other.admin)
            || is_other(&self.collector, &other.collector)
            || is_other(&self.webhook, &other.webhook)
    }

    /// For the admin listener; `None`: it does without TLS.
    pub fn admin(&self) -> Option<ForClients> {
        self.admin.as_ref().map(|(_, made)| made.clone())
    }

    /// For those who bring spans and alarms to their receivers.
    pub fn trusts(&self) -> Trusts {
        let made = |known: &Option<(Material, Trust)>| known.as_ref().map(|(_, made)| made.clone());
        Trusts { collector: made(&self.collector), webhook: made(&self.webhook) }
    }

    /// For a worker.
    pub fn settings(&self) -> TlsSettings {
        TlsSettings {
            clients: self.clients.as_ref().map(|(_, made)| made.clone()),
            upstreams: self.upstreams.as_ref().map(|(_, made)| made.clone()),
            handshake_ms: self.handshake_ms,
        }
    }

    /// Says loudly what nobody should overlook.
    pub fn warn(&self) {
        if self.upstreams.as_ref().is_some_and(|(material, _)| material.insecure) {
            tracing::warn!(
                "upstream_tls.insecure: certificates of servers are NOT checked; whoever is on the way can read and change everything"
            );
        }
    }

    fn clients_of(&self, config: &Config) -> Result<(ClientsMaterial, ForClients), Vec<Finding>> {
        let tls = &config.tls;
        let files = ClientFiles {
            names: [CERT, KEY, CLIENT_CA],
            cert: tls.cert_file.as_deref(),
            key: tls.key_file.as_deref(),
            more: &tls.more_certs,
            ca: tls.client_ca_file.as_deref(),
        };
        let (own, ca) = files.read()?;
        let material = ClientsMaterial {
            own,
            ca,
            auth: tls.client_auth,
            min_version: tls.min_version,
            resumption: tls.resumption,
        };
        material.with(&files, self.clients.as_ref())
    }

    fn admin_of(&self, config: &Config) -> Result<(ClientsMaterial, ForClients), Vec<Finding>> {
        let tls = &config.admin.tls;
        let files = ClientFiles {
            names: [ADMIN_CERT, ADMIN_KEY, ADMIN_CA],
            cert: tls.cert_file.as_deref(),
            key: tls.key_file.as_deref(),
            more: &[],
            ca: tls.client_ca_file.as_deref(),
        };
        let (own, ca) = files.read()?;
        let (auth, min_version, resumption) = (tls.client_auth, TlsVersion::V12, true);
        let material = ClientsMaterial { own, ca, auth, min_version, resumption };
        material.with(&files, self.admin.as_ref())
    }

    fn upstreams_of(
        &self,
        config: &Config,
    ) -> Result<(UpstreamsMaterial, ForUpstreams), Vec<Finding>> {
        let tls = &config.upstream_tls;
        let mut found = Vec::new();
        let own = tls.cert_file.is_some().then(|| {
            let key = (UP_KEY, tls.key_file.as_deref());
            pair((UP_CERT, tls.cert_file.as_deref()), key, &mut found)
        });
        let ca = file(UP_CA, tls.ca_file.as_deref(), &mut found);
        if !found.is_empty() {
            return Err(found);
        }
        let name = tls.server_name.clone();
        let material = UpstreamsMaterial { own: own.flatten(), ca, name, insecure: tls.insecure };
        match &self.upstreams {
            Some((known, made)) if *known == material => Ok((material, made.clone())),
            _ => material.make(config).map(|made| (material, made)),
        }
    }
}

/// The files that a configuration names for TLS.
pub(super) fn files(config: &Config) -> impl Iterator<Item = &Path> {
    let (tls, upstream) = (&config.tls, &config.upstream_tls);
    let (admin, spans, alarms) = (&config.admin.tls, &config.tracing.tls, &config.alarms.tls);
    let observers = [
        &admin.cert_file,
        &admin.key_file,
        &admin.client_ca_file,
        &spans.ca_file,
        &spans.cert_file,
        &spans.key_file,
        &alarms.ca_file,
        &alarms.cert_file,
        &alarms.key_file,
    ];
    let ours = [&tls.cert_file, &tls.key_file, &tls.client_ca_file];
    let theirs = [&upstream.ca_file, &upstream.cert_file, &upstream.key_file];
    let more = tls.more_certs.iter().flat_map(|files| [&files.cert, &files.key]);
    let named = ours.into_iter().chain(theirs).chain(observers).flatten().chain(more);
    named.map(std::path::PathBuf::as_path)
}

/// What is wrong with the files that a configuration names, if anything.
pub fn look(config: &Config) -> Vec<Finding> {
    Certificates::read(config).err().unwrap_or_default()
}

/// Certificates with their keys, and the authorities, as their files have them.
type ClientBytes = (Vec<Pair>, Option<Vec<u8>>);

/// What was made, unless something is wrong, which is noted.
fn sound<T>(made: Option<Result<T, Vec<Finding>>>, wrong: &mut Vec<Finding>) -> Option<T> {
    made?.map_err(|found| wrong.extend(found)).ok()
}

/// Whether it is made of something else.
fn is_other<M: PartialEq, T>(one: &Option<(M, T)>, other: &Option<(M, T)>) -> bool {
    one.as_ref().map(|(material, _)| material) != other.as_ref().map(|(material, _)| material)
}

impl ClientFiles<'_> {
    /// Certificates with their keys, and the authorities.
    fn read(&self) -> Result<ClientBytes, Vec<Finding>> {
        let [cert, key, ca] = self.names;
        let mut found = Vec::new();
        let own = pair((cert, self.cert), (key, self.key), &mut found);
        let mut pairs: Vec<Pair> = own.into_iter().collect();
        for CertFiles { cert, key } in self.more {
            pairs.extend(pair((MORE, Some(cert)), (MORE, Some(key)), &mut found));
        }
        let ca = file(ca, self.ca, &mut found);
        if found.is_empty() { Ok((pairs, ca)) } else { Err(found) }
    }
}

impl ClientsMaterial {
    /// With what is made of it, which stays as it is where this is the same as before.
    fn with(
        self,
        files: &ClientFiles<'_>,
        known: Option<&(Self, ForClients)>,
    ) -> Result<(Self, ForClients), Vec<Finding>> {
        let made = match known {
            Some((known, made)) if *known == self => made.clone(),
            _ => self.make(files)?,
        };
        Ok((self, made))
    }

    fn make(&self, from: &ClientFiles<'_>) -> Result<ForClients, Vec<Finding>> {
        let [cert_names, _, ca_names] = from.names;
        let files = from.cert.iter().zip(&from.key).map(|(cert, key)| (cert_names, *cert, *key));
        let more = from.more.iter().map(|files| (MORE, &*files.cert, &*files.key));
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        for (pair, (names, cert, key)) in self.own.iter().zip(files.chain(more)) {
            match pair.certified(names, (cert, key)) {
                Ok(key) => keys.push(Arc::new(key)),
                Err(finding) => found.push(finding),
            }
        }
        let verifier = match &self.ca {
            Some(ca) if self.auth != ClientAuth::Off => {
                let path = from.ca.unwrap_or(Path::new(""));
                let verifier = roots(ca_names, path, ca).and_then(|roots| {
                    let builder =
                        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
                    let builder = match self.auth {
                        ClientAuth::Optional => builder.allow_unauthenticated(),
                        ClientAuth::Off | ClientAuth::Required => builder,
                    };
                    builder
                        .build()
                        .map_err(|error| (ca_names, format!("{}: {error}", path.display())))
                });
                verifier.map_err(|finding| found.push(finding)).ok()
            }
            _ => Some(WebPkiClientVerifier::no_client_auth()),
        };
        let (Some(verifier), true) = (verifier, found.is_empty()) else { return Err(found) };
        let versions: &[&SupportedProtocolVersion] = match self.min_version {
            TlsVersion::V12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            TlsVersion::V13 => &[&rustls::version::TLS13],
        };
        let failed = |error: Error| vec![(cert_names, error.to_string())];
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .map_err(failed)?;
        let mut made =
            builder.with_client_cert_verifier(verifier).with_cert_resolver(Arc::new(ByName(keys)));
        if self.resumption {
            // In tickets that clients keep, so that it does not matter which worker they come to.
            made.ticketer = ring::Ticketer::new().map_err(failed)?;
        } else {
            made.session_storage = Arc::new(NoServerSessionStorage {});
            made.send_tls13_tickets = 0;
        }
        Ok(ForClients(Arc::new(made)))
    }
}

impl UpstreamsMaterial {
    fn make(&self, config: &Config) -> Result<ForUpstreams, Vec<Finding>> {
        let tls = &config.upstream_tls;
        let path = |file: &Option<std::path::PathBuf>| file.clone().unwrap_or_default();
        if let Some(name) = &self.name
            && ServerName::try_from(name.as_str()).is_err()
        {
            let why = format!("found `{name}`; allowed: a name of the DNS or an IP address");
            return Err(vec![(UP_NAME, why)]);
        }
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| vec![(UP_CA, error.to_string())])?;
        let builder = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider())))
        } else {
            let roots = match &self.ca {
                Some(ca) => roots(UP_CA, &path(&tls.ca_file), ca),
                None => system_roots(UP_CA),
            };
            builder.with_root_certificates(roots.map_err(|finding| vec![finding])?)
        };
        let made = match &self.own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let files = (&*path(&tls.cert_file), &*path(&tls.key_file));
                let key = pair.certified(UP_CERT, files).map_err(|finding| vec![finding])?;
                builder
                    .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)))
            }
        };
        Ok(ForUpstreams { config: Arc::new(made), name: self.name.clone() })
    }
}

impl Pair {
    /// The two, if they belong together.
    fn certified(
        &self,
        names: Names,
        (cert, key): (&Path, &Path),
    ) -> Result<CertifiedKey, Finding> {
        let chain = certificates(names, cert, &self.chain)?;
        let cert = cert.display();
        let own = PrivateKeyDer::from_pem_slice(self.key.reveal()).map_err(|error| {
            let why = match error {
                pem::Error::NoItemsFound => "holds no key in PEM that is not encrypted".to_owned(),
                // What stands in the file is no matter for a text.
                _ => "is no PEM".to_owned(),
            };
            (names, format!("{} {why}", key.display()))
        })?;
        CertifiedKey::from_der(chain, own, &provider()).map_err(|error| {
            let why = match error {
                Error::InconsistentKeys(_) => {
                    format!("the key in {} is not that of the certificate in {cert}", key.display())
                }
                error => format!("{cert} with {}: {error}", key.display()),
            };
            (names, why)
        })
    }
}

/// The certificate that has the name that a client asks for, else the first.
#[derive(Debug)]
struct ByName(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let is_for = |key: &&Arc<CertifiedKey>, name: &ServerName<'_>| {
            let parsed = key.end_entity_cert().and_then(ParsedCertificate::try_from);
            parsed.is_ok_and(|cert| rustls::client::verify_server_name(&cert, name).is_ok())
        };
        let asked = name.and_then(|name| self.0.iter().skip(1).find(|key| is_for(key, &name)));
        asked.or(self.0.first()).cloned()
    }
}

/// Takes any certificate, but only from who has its key.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads a certificate and its key.
fn pair(
    (cert_names, cert): (Names, Option<&Path>),
    (key_names, key): (Names, Option<&Path>),
    found: &mut Vec<Finding>,
) -> Option<Pair> {
    let (chain, key) = (file(cert_names, cert, found), file(key_names, key, found));
    Some(Pair { chain: chain?, key: Secret::new(key?) })
}

/// Reads a file, if one is named.
fn file(names: Names, path: Option<&Path>, found: &mut Vec<Finding>) -> Option<Vec<u8>> {
    let path = path?;
    let failed = |error| found.push((names, format!("cannot read {}: {error}", path.display())));
    read_certificates(path).map_err(failed).ok()
}

fn certificates(
    names: Names,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Finding> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let path = path.display();
    match all {
        Ok(all) if all.is_empty() => Err((names, format!("{path} holds no certificate in PEM"))),
        Ok(all) => Ok(all),
        Err(_) => Err((names, format!("{path} is no PEM"))),
    }
}

/// The authorities in a file.
fn roots(names: Names, path: &Path, bytes: &[u8]) -> Result<RootCertStore, Finding> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(names, path, bytes)? {
        roots.add(certificate).map_err(|error| (names, format!("{}: {error}", path.display())))?;
    }
    Ok(roots)
}

/// Those whom the system trusts.
fn system_roots(names: Names) -> Result<RootCertStore, Finding> {
    let mut roots = RootCertStore::empty();
    // Some that are too old to be read are in every system's list.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let why = "the system trusts nobody (no certificates of authorities are installed); give the file with those that \
                   vouch for the servers";
        return Err((names, why.to_owned()));
    }
    Ok(roots)
}

const CERT: Names = &["tls.cert_file"];
const KEY: Names = &["tls.key_file"];
const MORE: Names = &["tls.more_certs"];
const CLIENT_CA: Names = &["tls.client_ca_file"];
const UP_CA: Names = &["upstream_tls.ca_file"];
const UP_CERT: Names = &["upstream_tls.cert_file"];
const UP_KEY: Names = &["upstream_tls.key_file"];
const UP_NAME: Names = &["upstream_tls.server_name"];
const ADMIN_CERT: Names = &["admin.tls.cert_file"];
const ADMIN_KEY: Names = &["admin.tls.key_file"];
const ADMIN_CA: Names = &["admin.tls.client_ca_file"];
