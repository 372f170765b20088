//! The admin listener: where it is, who may ask, and when it says that it is ready.
//!
//! Not here: TLS with those who ask (`edges`).
//!
//! Invariant: that of the module above.

use super::super::OptionSpec;
use crate::kind::Kind;
use crate::schema::ReadyUpstreams;

pub(super) const ROWS: &[OptionSpec] = &[
    OptionSpec::new(
        "admin.listen",
        "Addresses of the admin listener; none: there is no such listener",
        "HTTP; those of TCP over TLS where `admin.tls.cert_file` is set. An address that other machines can reach needs a token, or `admin.tls.client_auth = \"required\"`, see `protected_mode`. Without a token and TLS only requests are \
         answered whose `Host` is an IP address or `localhost`, so that a page in a browser cannot get there by a name of its own.",
        Kind::Listen { at: |d| &mut d.config.admin.listen },
    )
    .needs_restart(),
    OptionSpec::new(
        "admin.token",
        "Token that requests to the admin listener must present",
        "As `Authorization: Bearer TOKEN`. `/healthz` and `/readyz` need none. Better kept in `admin.token_file`.",
        Kind::Secret { at: |d| &mut d.config.admin.token },
    ),
    OptionSpec::new(
        "admin.token_file",
        "File that holds the token of the admin listener",
        "Read at the start and with the configuration; one newline at the end does not count.",
        Kind::Path { at: |d| &mut d.config.admin.token_file },
    ),
    OptionSpec::new(
        "admin.ready_upstreams",
        "Which upstreams `/readyz` asks for besides this process",
        "`none`: this process alone: it runs and is not drained. So a dead server makes no pod unready, of which others would be the next to meet it. `any`: one upstream at least \
         serves all of its keys. `all`: each does, those of every tenant and shard. A request may ask for another one: `/readyz?upstreams=all`, or names of shards and tenants.",
        Kind::Choice {
            names: || &ReadyUpstreams::NAMES,
            set: |d, i| d.config.admin.ready_upstreams = ReadyUpstreams::ALL[i],
            index: |d| Some(d.config.admin.ready_upstreams as usize),
        },
    ),
];
