//! TLS with those who look after the proxy, and with those who are told of it.
//!
//! Not here: TLS with clients and servers (`tls`), and where these others are (`super`).
//!
//! Invariant: that of the module above.

use super::super::OptionSpec;
use crate::kind::Kind;
use crate::tls::ClientAuth;

/// The tables of these rows.
pub(super) const ADMIN: (&str, &str) = (
    "admin.tls",
    "TLS with those who ask the admin listener by TCP. See the [guide](../guides/admin.md#tls).",
);
pub(super) const TRACING: (&str, &str) = (
    "tracing.tls",
    "TLS with the collector of spans, where `tracing.endpoint` begins with `https`. See the [guide](../guides/tls.md#spans-and-alarms).",
);
pub(super) const ALARMS: (&str, &str) = (
    "alarms.tls",
    "TLS with the receiver of alarms, where `alarms.webhook` begins with `https`. See the [guide](../guides/tls.md#spans-and-alarms).",
);

pub(super) const ROWS: &[OptionSpec] = &[
    OptionSpec::new(
        "admin.tls.cert_file",
        "File with the certificate of the admin listener, PEM",
        "Behind it in the file stand those that lead to one that is trusted. With it all TCP addresses of `admin.listen` speak TLS and nothing else; unix \
         sockets never do. Read again with the configuration, without a connection that is lost.",
        Kind::Path { at: |d| &mut d.config.admin.tls.cert_file },
    )
    .rare(),
    OptionSpec::new(
        "admin.tls.key_file",
        "File with its key, PEM",
        "Not encrypted.",
        Kind::Path { at: |d| &mut d.config.admin.tls.key_file },
    )
    .rare(),
    OptionSpec::new(
        "admin.tls.client_ca_file",
        "File with the authorities whose certificates those may show who ask, PEM",
        "For `admin.tls.client_auth`.",
        Kind::Path { at: |d| &mut d.config.admin.tls.client_ca_file },
    )
    .rare(),
    OptionSpec::new(
        "admin.tls.client_auth",
        "Whether those who ask have to show a certificate",
        "With `required` nobody gets anything without one, not even `/healthz`, and a token is not needed. With `optional` they may come without one, but not with one that none of \
         `admin.tls.client_ca_file` vouches for. The token is asked for as without.",
        Kind::Choice {
            names: || &ClientAuth::NAMES,
            set: |d, i| d.config.admin.tls.client_auth = ClientAuth::ALL[i],
            index: |d| Some(d.config.admin.tls.client_auth as usize),
        },
    )
    .rare(),
    OptionSpec::new(
        "tracing.tls.ca_file",
        "File with the authorities that vouch for the collector, PEM; none: those whom the system trusts",
        "The certificate must have the host that stands in the URL.",
        Kind::Path { at: |d| &mut d.config.tracing.tls.ca_file },
    )
    .rare(),
    OptionSpec::new(
        "tracing.tls.cert_file",
        "File with the certificate that the collector is shown, PEM",
        "For one that wants it.",
        Kind::Path { at: |d| &mut d.config.tracing.tls.cert_file },
    )
    .rare(),
    OptionSpec::new(
        "tracing.tls.key_file",
        "File with its key, PEM",
        "Not encrypted.",
        Kind::Path { at: |d| &mut d.config.tracing.tls.key_file },
    )
    .rare(),
    OptionSpec::new(
        "alarms.tls.ca_file",
        "File with the authorities that vouch for the receiver of alarms, PEM; none: those whom the system trusts",
        "The certificate must have the host that stands in the URL.",
        Kind::Path { at: |d| &mut d.config.alarms.tls.ca_file },
    )
    .rare(),
    OptionSpec::new(
        "alarms.tls.cert_file",
        "File with the certificate that the receiver of alarms is shown, PEM",
        "For one that wants it.",
        Kind::Path { at: |d| &mut d.config.alarms.tls.cert_file },
    )
    .rare(),
    OptionSpec::new(
        "alarms.tls.key_file",
        "File with its key, PEM",
        "Not encrypted.",
        Kind::Path { at: |d| &mut d.config.alarms.tls.key_file },
    )
    .rare(),
];
