//! Bytes into TLS records and back, for one connection: the only file of the worker that knows the library.
//!
//! The library is used with its own buffers, not with its "unbuffered" interface: that one allocates for each record as well, and its next
//! major version has it no more ([decision 22](../../../../../docs/internals/decisions/0022-tls-is-a-layer-over-the-driver.md)).
//!
//! Not here: sockets, when anything is sent or received, whose turn it is.
//!
//! Invariant: after an error nothing but what [`Records::write`] still has (an alert) is wanted of the connection.

use super::{CAUSE_BYTES_MAX, Reason};
use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, Connection, Error, HandshakeKind,
    ServerConfig, ServerConnection,
};
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

/// How clients are met: certificates, versions, whose certificates are wanted.
#[derive(Clone)]
pub struct ForClients(pub Arc<ServerConfig>);

/// How servers are met.
#[derive(Clone)]
pub struct ForUpstreams {
    /// Whom to trust, which certificate to show.
    pub config: Arc<ClientConfig>,
    /// The name that certificates of servers must have; `None`: the one that each is connected by.
    pub name: Option<String>,
}

/// The two hold keys, of which nothing is shown.
impl fmt::Debug for ForClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForClients")
    }
}

impl fmt::Debug for ForUpstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForUpstreams {{ name: {:?} }}", self.name)
    }
}

/// Why a connection cannot be secured, or is secure no more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Under which it is counted.
    pub(super) reason: Reason,
    /// For people.
    pub(super) cause: String,
}

/// What a piece of the peer's stream came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fed {
    /// The peer has said that nothing more comes.
    pub(super) ended: bool,
    /// There is something to be sent.
    pub(super) wants_write: bool,
}

/// One side of one connection.
pub(super) struct Records {
    connection: Box<Connection>,
}

impl Records {
    /// The side that a client has connected to.
    pub(super) fn server(with: &ForClients) -> Result<Self, Failure> {
        let connection = ServerConnection::new(Arc::clone(&with.0)).map_err(|e| failure(&e, false));
        Ok(Self { connection: Box::new(Connection::Server(connection?)) })
    }

    /// The side that has connected to the server of this host. Makes its first keys: not for free.
    pub(super) fn client(with: &ForUpstreams, host: &str) -> Result<Self, Failure> {
        let name = with.name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| Failure {
            reason: Reason::Certificate,
            cause: format!("`{}` is no name that a certificate can have", printable(name)),
        })?;
        let connection = ClientConnection::new(Arc::clone(&with.config), name);
        let connection = connection.map_err(|error| failure(&error, false))?;
        Ok(Self { connection: Box::new(Connection::Client(connection)) })
    }

    /// Whether nothing of ours can be sent yet.
    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the first message of the peer is there and makes sense; that of a client is answered then.
    pub(super) fn is_understood(&self) -> bool {
        self.connection.protocol_version().is_some()
    }

    /// Whether the handshake was one that went on from an earlier connection.
    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Takes what the peer sent, and puts what it says behind `plain`, which may happen before a failure as well.
    pub(super) fn feed(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<Fed, Failure> {
        let mut ended = false;
        // Whatever comes behind the end is nothing.
        while !bytes.is_empty() && !ended {
            // Until the first message of a peer is understood, what it sends may be anything.
            let heard = self.is_understood();
            // It reads from memory: what fails is a message that is too long.
            self.connection.read_tls(&mut bytes).map_err(|error| Failure {
                reason: Reason::Protocol,
                cause: printable(&error.to_string()),
            })?;
            let state =
                self.connection.process_new_packets().map_err(|error| failure(&error, heard));
            let state = match state {
                Ok(state) => state,
                Err(failure) => {
                    // What came before it was said well.
                    while self.take_plain(READ_BYTES, plain) {}
                    return Err(failure);
                }
            };
            self.take_plain(state.plaintext_bytes_to_read(), plain);
            ended = state.peer_has_closed();
        }
        Ok(Fed { ended, wants_write: self.connection.wants_write() })
    }

    /// Takes up to so many bytes of what was read; whether there were any.
    fn take_plain(&mut self, count: usize, plain: &mut Vec<u8>) -> bool {
        if count == 0 {
            return false;
        }
        let at = plain.len();
        plain.resize(at + count, 0);
        // It reads from memory; its only error is that there is nothing more.
        let taken = self.connection.reader().read(&mut plain[at..]).unwrap_or_default();
        plain.truncate(at + taken);
        taken > 0
    }

    /// Seals bytes of ours behind `sealed`. Only when the handshake is over.
    ///
    /// # Errors
    /// The library takes no more of them, which it never does on a connection that is sound.
    pub(super) fn seal(&mut self, mut plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), Failure> {
        debug_assert!(!self.is_handshaking(), "bytes of ours before the end of the handshake");
        while !plain.is_empty() {
            // Takes as much as its own bound on what waits allows; nothing waits when this returns.
            let taken = self.connection.writer().write(plain).unwrap_or_default();
            self.write(sealed);
            if taken == 0 {
                let cause = "nothing more can be sealed".to_owned();
                return Err(Failure { reason: Reason::Protocol, cause });
            }
            plain = &plain[taken..];
        }
        Ok(())
    }

    /// Puts what the library itself has to say behind `sealed`.
    pub(super) fn write(&mut self, sealed: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // A vector takes everything.
            let _ = self.connection.write_tls(sealed);
        }
    }

    /// Says that nothing more comes from us.
    pub(super) fn say_end(&mut self) {
        self.connection.send_close_notify();
    }
}

/// An error of the library as we count and tell it. `heard`: something before it was TLS.
fn failure(error: &Error, heard: bool) -> Failure {
    let (reason, cause) = match error {
        Error::InvalidMessage(_) if !heard => {
            (Reason::NotTls, "the peer does not speak TLS here".to_owned())
        }
        Error::NoCertificatesPresented => {
            (Reason::NoCertificate, "the peer shows no certificate".to_owned())
        }
        Error::InvalidCertificate(_) => (Reason::Certificate, error.to_string()),
        Error::PeerIncompatible(_) => (Reason::Incompatible, error.to_string()),
        Error::AlertReceived(alert) => (Reason::Refused, refused(*alert)),
        _ => (Reason::Protocol, error.to_string()),
    };
    Failure { reason, cause: printable(&cause) }
}

/// What a peer's alert means to whoever runs the proxy.
fn refused(alert: AlertDescription) -> String {
    let hint = match alert {
        AlertDescription::CertificateRequired => "it wants a certificate of ours",
        AlertDescription::UnknownCA | AlertDescription::BadCertificate => {
            "it does not trust our certificate, or nobody who vouches for it"
        }
        AlertDescription::ProtocolVersion => "it speaks another version of TLS",
        _ => "it refused us",
    };
    format!("{hint} (alert {alert:?})")
}

/// One line of bounded length: some of it is what a peer sent.
fn printable(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = plain.collect();
    if let Some((end, _)) = shown.char_indices().find(|(at, _)| *at >= CAUSE_BYTES_MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// What is taken at once where it is not known how much there is.
const READ_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_puts_into_a_cause_stays_one_line_of_bounded_length() {
        assert_eq!(printable("a\r\nb"), "a  b");
        let long = printable(&"ü".repeat(CAUSE_BYTES_MAX));
        assert!(long.len() <= CAUSE_BYTES_MAX + 4 && long.ends_with('…'), "{}", long.len());
    }

    #[test]
    fn errors_are_counted_by_who_is_to_blame() {
        let garbage = Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        assert_eq!(failure(&garbage, false).reason, Reason::NotTls);
        assert_eq!(failure(&garbage, true).reason, Reason::Protocol);
        let alert = Error::AlertReceived(AlertDescription::CertificateRequired);
        let told = failure(&alert, true);
        assert_eq!(told.reason, Reason::Refused);
        assert!(told.cause.contains("certificate of ours"), "{}", told.cause);
        assert_eq!(failure(&Error::NoCertificatesPresented, true).reason, Reason::NoCertificate);
        assert_eq!(failure(&Error::DecryptError, true).reason, Reason::Protocol);
    }
}
