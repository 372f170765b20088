//! Certificates that are made in the test, and how a client shows and checks them.
//!
//! Keys are of elliptic curves: making an RSA key takes a second of a test.
//!
//! Invariant: nothing that is made here is trusted by anybody but who is told to.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use tempfile::TempDir;

/// Somebody who signs certificates, with a folder for files of them.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key, in files too.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate, PEM.
    pub cert: String,
    /// Its key, PEM.
    pub key: String,
    /// Where the certificate lies.
    pub cert_file: PathBuf,
    /// Where the key lies.
    pub key_file: PathBuf,
}

impl Authority {
    /// One of this name.
    ///
    /// # Panics
    /// When none can be made: a failed test.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("authority");
        let folder = tempfile::tempdir().expect("temporary folder");
        fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("ca.pem");
        Self { issuer, folder }
    }

    /// The file with its own certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A certificate for these names and addresses, in files `NAME.pem` and `NAME.key`; of the same name again, the files are replaced.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn issue(&self, name: &str, subjects: &[&str]) -> Pair {
        self.issue_until(name, subjects, 2100)
    }

    /// The same, valid until the beginning of this year.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn issue_until(&self, name: &str, subjects: &[&str], year: i32) -> Pair {
        let subjects: Vec<String> = subjects.iter().map(|subject| (*subject).to_owned()).collect();
        let mut params = CertificateParams::new(subjects).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("key");
        let cert = params.signed_by(&key, &self.issuer).expect("certificate");
        let file = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        let pair = Pair {
            cert: cert.pem(),
            key: key.serialize_pem(),
            cert_file: file("pem"),
            key_file: file("key"),
        };
        fs::write(&pair.cert_file, &pair.cert).expect("certificate's file");
        fs::write(&pair.key_file, &pair.key).expect("key's file");
        pair
    }

    /// Itself, to be trusted.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("root");
        roots
    }

    /// How a client checks servers: they must have a certificate of this authority. It shows `own`, if there is one.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn client(&self, own: Option<&Pair>) -> ClientConfig {
        self.client_of(own, rustls::ALL_VERSIONS)
    }

    /// The same with these versions only.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn client_of(
        &self,
        own: Option<&Pair>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(self.roots());
        match own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let (chain, key) = pair.parts();
                builder.with_client_auth_cert(chain, key).expect("own certificate")
            }
        }
    }

    /// How a server shows itself; it wants a certificate of this authority from clients, or none.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn server(&self, own: &Pair, wants: bool) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions");
        let builder = match wants {
            false => builder.with_no_client_auth(),
            true => {
                let roots = Arc::new(self.roots());
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                builder.with_client_cert_verifier(verifier.build().expect("verifier"))
            }
        };
        let (chain, key) = own.parts();
        builder.with_single_cert(chain, key).expect("own certificate")
    }
}

impl Pair {
    fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.cert.as_bytes());
        let chain = chain.collect::<Result<_, _>>().expect("certificate");
        (chain, PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("key"))
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// One end of TLS without a network: the test carries its bytes.
pub struct Speaker(Connection);

impl Speaker {
    /// The end that begins, towards who must have a certificate for `name`.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn client(config: ClientConfig, name: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).expect("a name for a certificate");
        let conn = ClientConnection::new(Arc::new(config), name).expect("client");
        Self(Connection::Client(conn))
    }

    /// The other end.
    ///
    /// # Panics
    /// As [`Authority::new`].
    pub fn server(config: ServerConfig) -> Self {
        let conn = ServerConnection::new(Arc::new(config)).expect("server");
        Self(Connection::Server(conn))
    }

    /// Whether it has agreed on keys with the other end.
    pub fn is_ready(&self) -> bool {
        !self.0.is_handshaking()
    }

    /// Whether the other end has said that nothing more comes.
    pub fn is_ended(&mut self) -> bool {
        self.0.process_new_packets().is_ok_and(|state| state.peer_has_closed())
    }

    /// Says something, once the keys are there.
    ///
    /// # Panics
    /// When it takes less: a failed test.
    pub fn say(&mut self, bytes: &[u8]) {
        self.0.set_buffer_limit(None);
        self.0.writer().write_all(bytes).expect("room");
    }

    /// Says that nothing more comes.
    pub fn say_end(&mut self) {
        self.0.send_close_notify();
    }

    /// What is to be carried to the other end.
    ///
    /// # Panics
    /// Never: a vector takes everything.
    pub fn wire(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut wire).expect("a vector");
        }
        wire
    }

    /// What came from the other end; what it says.
    ///
    /// # Errors
    /// Why it is not understood, or not trusted.
    pub fn hear(&mut self, mut wire: &[u8]) -> Result<Vec<u8>, String> {
        let mut said = Vec::new();
        while !wire.is_empty() {
            if self.0.read_tls(&mut wire).map_err(|error| error.to_string())? == 0 {
                break;
            }
            self.0.process_new_packets().map_err(|error| error.to_string())?;
            // Its only error is that there is nothing more.
            let _ = self.0.reader().read_to_end(&mut said);
        }
        Ok(said)
    }
}
