//! TLS with clients and with servers.
//!
//! Not here: which listeners speak it (`listen`), and which servers (their URLs).
//!
//! Invariant: that of the module above.

use super::super::OptionSpec;
use crate::kind::Kind;
use crate::tls::{ClientAuth, TlsVersion};

pub(super) const ROWS: &[OptionSpec] = &[
    OptionSpec::new(
        "tls.cert_file",
        "File with the certificate that clients are shown, PEM",
        "Behind it in the file stand those that lead to one that clients trust. Read again with the configuration, without a connection that is \
         lost. Needed where `listen` has `tls=true`.",
        Kind::Path { at: |d| &mut d.config.tls.cert_file },
    ),
    OptionSpec::new(
        "tls.key_file",
        "File with the key of the certificate, PEM",
        "Not encrypted.",
        Kind::Path { at: |d| &mut d.config.tls.key_file },
    ),
    OptionSpec::new(
        "tls.more_certs",
        "More certificates, for clients that ask for a name in one of them (SNI)",
        "Each entry has two files, of the certificate and of its key, separated by a blank; the paths have none. Who asks for a name that none \
         of these has, or for no name, gets the one of `tls.cert_file`.",
        Kind::CertFiles { at: |d| &mut d.config.tls.more_certs },
    ),
    OptionSpec::new(
        "tls.client_ca_file",
        "File with the authorities whose certificates clients may show, PEM",
        "For `tls.client_auth`.",
        Kind::Path { at: |d| &mut d.config.tls.client_ca_file },
    ),
    OptionSpec::new(
        "tls.client_auth",
        "Whether clients have to show a certificate",
        "With `optional` they may come without one, but not with one that none of `tls.client_ca_file` vouches for.",
        Kind::Choice {
            names: || &ClientAuth::NAMES,
            set: |d, i| d.config.tls.client_auth = ClientAuth::ALL[i],
            index: |d| Some(d.config.tls.client_auth as usize),
        },
    ),
    OptionSpec::new(
        "tls.min_version",
        "The oldest version of TLS that clients may speak",
        "Of older ones nothing is there. Ciphers cannot be chosen: of both versions there are only those that are held to be sound.",
        Kind::Choice {
            names: || &TlsVersion::NAMES,
            set: |d, i| d.config.tls.min_version = TlsVersion::ALL[i],
            index: |d| Some(d.config.tls.min_version as usize),
        },
    ),
    OptionSpec::new(
        "tls.resumption",
        "Clients that come again go on from their last handshake",
        "That is most of what a handshake costs. Keys for it are in memory only, change every six hours, and with what they stand for: the \
         certificates, and whose are wanted.",
        Kind::Switch { at: |d| &mut d.config.tls.resumption },
    ),
    OptionSpec::new(
        "tls.handshake_ms",
        "Time for a client's handshake",
        "Who takes longer is closed.",
        Kind::Time {
            unit: "milliseconds",
            min: 1,
            max: 3_600_000,
            at: |d| &mut d.config.tls.handshake_ms,
        },
    ),
    OptionSpec::new(
        "upstream_tls.ca_file",
        "File with the authorities that vouch for servers, PEM; none: those whom the system trusts",
        "",
        Kind::Path { at: |d| &mut d.config.upstream_tls.ca_file },
    ),
    OptionSpec::new(
        "upstream_tls.cert_file",
        "File with the certificate that servers are shown, PEM",
        "For servers that want one, which those of Redis do unless they have `tls-auth-clients no`.",
        Kind::Path { at: |d| &mut d.config.upstream_tls.cert_file },
    ),
    OptionSpec::new(
        "upstream_tls.key_file",
        "File with its key, PEM",
        "Not encrypted.",
        Kind::Path { at: |d| &mut d.config.upstream_tls.key_file },
    ),
    OptionSpec::new(
        "upstream_tls.server_name",
        "The name that certificates of servers must have, which is also asked for (SNI)",
        "Without it that is the host of each, as it stands in the URL or as a server told it: of a cluster mostly an IP address, which its certificate \
         must have then.",
        Kind::Text { at: |d| &mut d.config.upstream_tls.server_name },
    ),
    OptionSpec::new(
        "upstream_tls.insecure",
        "Takes any certificate of a server",
        "Whoever is on the way can then read and change everything, passwords too. For trying only; the log warns of it.",
        Kind::Switch { at: |d| &mut d.config.upstream_tls.insecure },
    ),
];
