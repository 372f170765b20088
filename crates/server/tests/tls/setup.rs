//! What every test begins with: an authority, a server with a port for TLS, and a proxy with one.
//!
//! The plain port of each stays open for the test itself, which looks there whether the process is ready.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use testkit::ports::Port;
use testkit::tls::{Authority, Pair};
use testkit::{Conn, Endpoint, RedisServer, Respool};

/// The binary under test.
pub(crate) const RESPOOL: &str = env!("CARGO_BIN_EXE_respool");

/// A limit for things that take milliseconds, on a machine that is busy with something else.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Both drivers; where io_uring is forbidden the second run is as the first.
pub(crate) const DRIVERS: [&str; 2] = ["epoll", "uring"];

/// The name in certificates of the proxy.
pub(crate) const NAME: &str = "proxy.example";

/// A server that can also be reached over TLS.
pub(crate) struct Server {
    pub(crate) plain: RedisServer,
    pub(crate) port: u16,
}

impl Server {
    /// With more arguments; `None` where the server was built without TLS.
    pub(crate) fn start(authority: &Authority, own: &Pair, args: &[&str]) -> Option<Self> {
        let port = Port::v4().release().port();
        let args = [&tls_args(authority, own, port)[..], &owned(args)].concat();
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let place = Endpoint::Tcp(Port::v4().release());
        match RedisServer::try_start_at(&place, &words) {
            Ok(plain) => Some(Self { plain, port }),
            Err(log) => {
                let has_none = log.contains("tls-port") || log.contains("TLS");
                assert!(has_none && std::env::var_os("RESPOOL_TEST_TLS").is_none(), "{log}");
                eprintln!("skipped: this server has no TLS: {log}");
                None
            }
        }
    }

    /// The URL by this host.
    pub(crate) fn url(&self, host: &str) -> String {
        format!("rediss://{host}:{}", self.port)
    }
}

pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What makes a server listen with TLS there.
pub(crate) fn tls_args(authority: &Authority, own: &Pair, port: u16) -> Vec<String> {
    let (cert, key) = (own.cert_file.display(), own.key_file.display());
    let words = format!(
        "--tls-port {port} --tls-cert-file {cert} --tls-key-file {key} --tls-ca-cert-file {} --tls-auth-clients no",
        authority.ca_file().display()
    );
    words.split(' ').map(str::to_owned).collect()
}

/// A proxy with a listener for TLS beside the plain one.
pub(crate) struct Proxy {
    pub(crate) plain: Respool,
    pub(crate) tls: Endpoint,
}

impl Proxy {
    /// In front of this URL, with this certificate and these options.
    pub(crate) fn start(upstream: &str, own: &Pair, args: &[&str]) -> Self {
        let tls = Endpoint::Tcp(Port::v4().release());
        let listen = format!("{} tls=true", tls.listen_value());
        let (cert, key) = (own.cert_file.display().to_string(), own.key_file.display().to_string());
        let given = ["--listen", &listen, "--tls-cert-file", &cert, "--tls-key-file", &key];
        let plain = Respool::to_url(RESPOOL, upstream).args(&given).args(args).start();
        Self { plain, tls }
    }

    /// A client over TLS, which has to be let in.
    #[track_caller]
    pub(crate) fn connect(&self, config: &Arc<ClientConfig>) -> Conn {
        Conn::open_tls(&self.tls, config, NAME).expect("connect")
    }

    /// What a client is answered that may not come in.
    pub(crate) fn refusal(&self, config: &Arc<ClientConfig>) -> String {
        let mut conn = self.connect(config);
        conn.set_timeout(SOON);
        match conn.command(&["PING"]) {
            Ok(reply) => panic!("it was let in: {}", String::from_utf8_lossy(&reply)),
            Err(error) => error.to_string(),
        }
    }

    /// A field of INFO's part about TLS.
    pub(crate) fn info(&self, name: &str) -> u64 {
        let info = self.plain.connect().ask("INFO tls");
        let prefix = format!("{name}:");
        let field = info.lines().find_map(|line| line.strip_prefix(&prefix));
        field.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name} in {info}"))
    }

    /// One failure, by its reason.
    pub(crate) fn failures(&self, side: &str, reason: &str) -> u64 {
        let info = self.plain.connect().ask("INFO tls");
        let prefix = format!("tls_{side}_failures:");
        let field = info.lines().find_map(|line| line.strip_prefix(&prefix));
        let of = field
            .and_then(|all| all.split(',').find_map(|one| one.strip_prefix(&format!("{reason}="))));
        of.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {side} {reason} in {info}"))
    }
}

pub(crate) fn client(authority: &Authority, own: Option<&Pair>) -> Arc<ClientConfig> {
    Arc::new(authority.client(own))
}
