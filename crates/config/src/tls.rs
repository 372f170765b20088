//! What a configuration says of TLS, and the rules for it.
//!
//! Not here: what is in the files (`server/src/control/certificates`); they are named and not read.
//!
//! Invariant: what a rule complains of would otherwise be found out by a client that is not served, or by nobody.

use std::fmt;
use std::path::PathBuf;

use crate::address::{ListenAddress, PoolKind};
use crate::compile::Draft;
use crate::rules::Finding;
use crate::schema::Config;
use crate::secret::SecretUrl;

/// How clients are met that speak TLS. The files are read by whoever needs them, which is when they are checked, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Our certificate, with those that lead to the one that clients trust.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// More certificates, for clients that ask for the names in them: files of certificate and key.
    pub more_certs: Vec<CertFiles>,
    /// Who vouches for clients.
    pub client_ca_file: Option<PathBuf>,
    /// Whether clients have to show a certificate.
    pub client_auth: ClientAuth,
    /// The oldest version that is spoken.
    pub min_version: TlsVersion,
    /// Clients that come again need no whole handshake.
    pub resumption: bool,
    /// A client that takes longer for its handshake is closed.
    pub handshake_ms: u64,
}

/// How servers are met that speak TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Who vouches for servers; `None`: those whom the system trusts.
    pub ca_file: Option<PathBuf>,
    /// The certificate that we show.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// The name that certificates of servers must have; `None`: the host that each is connected by.
    pub server_name: Option<String>,
    /// Certificates of servers are not looked at.
    pub insecure: bool,
}

/// How those are met who ask the admin listener by TCP. A unix socket is guarded by its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminTls {
    /// Our certificate, with those that lead to the one that is trusted; `None`: they speak HTTP without TLS.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Who vouches for those who ask.
    pub client_ca_file: Option<PathBuf>,
    /// Whether they have to show a certificate.
    pub client_auth: ClientAuth,
}

/// How somebody is met to whom we post something over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverTls {
    /// Who vouches for the receiver; `None`: those whom the system trusts.
    pub ca_file: Option<PathBuf>,
    /// The certificate that we show.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertFiles {
    /// The certificate, with those that lead to the one that clients trust.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked for one.
    #[default]
    Off,
    /// They may; one that is not good is refused.
    Optional,
    /// They must.
    Required,
}

impl ClientAuth {
    /// All of them, in the order of [`ClientAuth::NAMES`].
    pub const ALL: [Self; 3] = [Self::Off, Self::Optional, Self::Required];
    /// The names in the configuration.
    pub const NAMES: [&'static str; 3] = ["off", "optional", "required"];
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2.
    V12,
    /// 1.3.
    V13,
}

impl TlsVersion {
    /// All of them, in the order of [`TlsVersion::NAMES`].
    pub const ALL: [Self; 2] = [Self::V12, Self::V13];
    /// The names in the configuration.
    pub const NAMES: [&'static str; 2] = ["1.2", "1.3"];
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            cert_file: None,
            key_file: None,
            more_certs: Vec::new(),
            client_ca_file: None,
            client_auth: ClientAuth::Off,
            min_version: TlsVersion::V12,
            resumption: true,
            handshake_ms: 5000,
        }
    }
}

impl CertFiles {
    /// Reads `cert.pem key.pem`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace().map(PathBuf::from);
        let files = Self { cert: words.next()?, key: words.next()? };
        (words.next().is_none() && !text.contains('\0')).then_some(files)
    }
}

impl fmt::Display for CertFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.cert.display(), self.key.display())
    }
}

impl Config {
    /// Whether a listener for clients speaks TLS.
    pub fn has_tls_clients(&self) -> bool {
        self.listen.iter().any(|entry| entry.tls)
    }

    /// Whether other respools of the facade are spoken to over TLS: as their clients have to, so as ours have to.
    pub fn has_tls_peers(&self) -> bool {
        let is_tcp = |entry: &&crate::Listen| !matches!(entry.address, ListenAddress::Unix(_));
        let mut tcp = self.listen.iter().filter(is_tcp).peekable();
        self.facade.announce.len() > 1 && tcp.peek().is_some() && tcp.all(|entry| entry.tls)
    }

    /// Whether spans go out over TLS. Where none are made, whoever is to get them is known all the same.
    pub fn has_tls_collector(&self) -> bool {
        self.tracing.endpoint.as_ref().is_some_and(SecretUrl::is_https)
    }

    /// Whether alarms go out over TLS.
    pub fn has_tls_webhook(&self) -> bool {
        self.alarms.webhook.as_ref().is_some_and(SecretUrl::is_https)
    }

    /// Whether a server, a sentinel or another respool is spoken to over TLS.
    pub fn has_tls_upstreams(&self) -> bool {
        let of_sentinels = |pool: &PoolKind| matches!(pool, PoolKind::Sentinel { tls: true, .. });
        let peers = self.tenants.iter().any(|tenant| tenant.config.has_tls_peers());
        self.urls().any(|url| url.tls || of_sentinels(&url.pool)) || self.has_tls_peers() || peers
    }
}

/// Most certificates beside the first.
pub(crate) const MORE_CERTS_MAX: usize = 256;

/// Looks whether what is said of TLS fits together.
pub(crate) fn check(draft: &Draft, found: &mut Vec<Finding>) {
    let (tls, upstream) = (&draft.config.tls, &draft.config.upstream_tls);
    pair(&PAIRS[0], &tls.cert_file, &tls.key_file, found);
    pair(&PAIRS[1], &upstream.cert_file, &upstream.key_file, found);
    vouched(&VOUCHED[0], tls.client_auth, tls.client_ca_file.is_some(), found);
    if draft.config.has_tls_clients() {
        if tls.cert_file.is_none() {
            let message = "an entry has tls=true, and there is no certificate; give tls.cert_file and tls.key_file";
            found.push((&["listen"], message.to_owned()));
        }
    } else {
        let said: [(Names, bool); 3] = [
            (&["tls.cert_file"], tls.cert_file.is_some()),
            (&["tls.more_certs"], !tls.more_certs.is_empty()),
            (&["tls.client_auth"], tls.client_auth != ClientAuth::Off),
        ];
        without(&said, "no entry of `listen` has tls=true", found);
    }
    if !draft.config.has_tls_upstreams() {
        let said: [(Names, bool); 4] = [
            (&["upstream_tls.ca_file"], upstream.ca_file.is_some()),
            (&["upstream_tls.cert_file"], upstream.cert_file.is_some()),
            (&["upstream_tls.server_name"], upstream.server_name.is_some()),
            (&["upstream_tls.insecure"], upstream.insecure),
        ];
        without(&said, "no URL begins with rediss", found);
    }
    check_admin(&draft.config, found);
    check_receivers(&draft.config, found);
}

/// What is said of TLS with those who look after the proxy.
fn check_admin(config: &Config, found: &mut Vec<Finding>) {
    let tls = &config.admin.tls;
    pair(&PAIRS[2], &tls.cert_file, &tls.key_file, found);
    vouched(&VOUCHED[1], tls.client_auth, tls.client_ca_file.is_some(), found);
    let is_tcp = |address: &ListenAddress| matches!(address, ListenAddress::Tcp(_));
    if tls.cert_file.is_some() && !config.admin.listen.iter().any(is_tcp) {
        let said: [(Names, bool); 1] = [(&["admin.tls.cert_file"], true)];
        without(&said, "`admin.listen` has no address of TCP", found);
    }
    if tls.cert_file.is_none() && tls.client_auth != ClientAuth::Off {
        let said: [(Names, bool); 1] = [(&["admin.tls.client_auth"], true)];
        without(&said, "there is no admin.tls.cert_file, so the listener speaks no TLS", found);
    }
}

/// What is said of TLS with those who get spans and alarms.
fn check_receivers(config: &Config, found: &mut Vec<Finding>) {
    let (spans, alarms) = (&config.tracing.tls, &config.alarms.tls);
    pair(&PAIRS[3], &spans.cert_file, &spans.key_file, found);
    pair(&PAIRS[4], &alarms.cert_file, &alarms.key_file, found);
    if !config.has_tls_collector() {
        let said: [(Names, bool); 2] = [
            (&["tracing.tls.ca_file"], spans.ca_file.is_some()),
            (&["tracing.tls.cert_file"], spans.cert_file.is_some()),
        ];
        without(&said, "`tracing.endpoint` does not begin with https", found);
    }
    if !config.has_tls_webhook() {
        let said: [(Names, bool); 2] = [
            (&["alarms.tls.ca_file"], alarms.ca_file.is_some()),
            (&["alarms.tls.cert_file"], alarms.cert_file.is_some()),
        ];
        without(&said, "`alarms.webhook` does not begin with https", found);
    }
}

/// Whoever asks for certificates says who vouches for them, and the other way round. The names are of the two options.
fn vouched(names: &'static [Names; 2], auth: ClientAuth, has_ca: bool, found: &mut Vec<Finding>) {
    let [auth_name, ca_name] = [names[0][0], names[1][0]];
    match (auth, has_ca) {
        (ClientAuth::Optional | ClientAuth::Required, false) => {
            let message = format!(
                "clients are to show certificates, and nothing says who vouches for them; give {ca_name}"
            );
            found.push((names[0], message));
        }
        (ClientAuth::Off, true) => {
            let message = format!(
                "set without {auth_name}, so no client is asked for a certificate; set {auth_name} to \"required\" or \"optional\", or leave this out"
            );
            found.push((names[1], message));
        }
        _ => {}
    }
}

/// A certificate goes with its key.
fn pair(
    names: &'static [Names; 2],
    cert: &Option<PathBuf>,
    key: &Option<PathBuf>,
    found: &mut Vec<Finding>,
) {
    let [cert_name, key_name] = [names[0][0], names[1][0]];
    match (cert, key) {
        (Some(_), None) => found.push((names[0], format!("set without `{key_name}`; give both"))),
        (None, Some(_)) => found.push((names[1], format!("set without `{cert_name}`; give both"))),
        _ => {}
    }
}

/// Whoever sets what changes nothing believes in something that is not so.
fn without(said: &[(Names, bool)], why: &str, found: &mut Vec<Finding>) {
    for (names, _) in said.iter().filter(|(_, is_said)| *is_said) {
        found.push((names, format!("set, but {why}; do that, or leave this out")));
    }
}

/// An option, as a finding names it.
type Names = &'static [&'static str];

const PAIRS: [[Names; 2]; 5] = [
    [&["tls.cert_file"], &["tls.key_file"]],
    [&["upstream_tls.cert_file"], &["upstream_tls.key_file"]],
    [&["admin.tls.cert_file"], &["admin.tls.key_file"]],
    [&["tracing.tls.cert_file"], &["tracing.tls.key_file"]],
    [&["alarms.tls.cert_file"], &["alarms.tls.key_file"]],
];

const VOUCHED: [[Names; 2]; 2] = [
    [&["tls.client_auth"], &["tls.client_ca_file"]],
    [&["admin.tls.client_auth"], &["admin.tls.client_ca_file"]],
];
