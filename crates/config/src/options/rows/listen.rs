//! Where clients connect, and which of them.
//!
//! Not here: how long they may take, and how much they may hold (`super`).
//!
//! Invariant: that of the module above.

use super::super::OptionSpec;
use crate::kind::Kind;
use crate::schema::CLIENTS_MAX;

pub(super) const ROWS: &[OptionSpec] = &[
    OptionSpec::new(
        "listen",
        "Addresses to listen on",
        "On the command line the flag may be repeated. \
         An address that other machines can reach needs a password, see `protected_mode`. Behind an address may stand what holds for its clients, \
         separated by blanks: `max_clients` beside the one of all listeners, `mode` in the place of `unix_mode`, `name` for logs and metrics, `tenant` for that of clients whose users belong to none, \
         `proxy_protocol=on` where each connection begins with a header of the PROXY protocol, `allow` and `deny` with networks beside `allow_clients` and `deny_clients`, `tls=true`. \
         While it runs listeners come and go, and what stands behind an address changes; clients that are there stay. See the [guide](../guides/listeners.md).",
        Kind::Listeners { at: |d| &mut d.config.listen },
    )
    .short('l'),
    OptionSpec::new(
        "unix_mode",
        "Permission bits of unix sockets listened on",
        "A client needs the write bit to connect (unix(7)). `mode` behind an address in `listen` wins.",
        Kind::Mode { at: |d| &mut d.config.unix_mode },
    )
    .needs_restart(),
    OptionSpec::for_trusted_clients(
        "max_clients",
        "Clients at the same time",
        "One more gets the same error as from Redis and is closed. Each needs a file descriptor: the soft limit is \
         raised at the start as far as the hard one allows. Where that is too little, there are [fewer](../guides/operations.md#open-files).",
        Kind::Count { min: 1, max: CLIENTS_MAX, at: |d| &mut d.config.max_clients },
    ),
    OptionSpec::new(
        "allow_clients",
        "Networks that clients may come from; none: from anywhere",
        "Another client gets an error that begins with `DENIED`, and is closed. At a listener with `proxy_protocol=on` the address of its header counts. IPv4 addresses \
         in IPv6 ones count as the former; `unix` is for clients of unix sockets. A change concerns those that come from then on; see the [guide](../guides/listeners.md#who-may-come).",
        Kind::Networks { at: |d| &mut d.config.client_rules.allow },
    )
    .rare(),
    OptionSpec::new(
        "deny_clients",
        "Networks that no client may come from",
        "Wins over `allow_clients`.",
        Kind::Networks { at: |d| &mut d.config.client_rules.deny },
    )
    .rare(),
    OptionSpec::new(
        "proxy_protocol_from",
        "Networks that headers of the PROXY protocol may come from; none: from anywhere",
        "Those of the balancers in front. Whoever else comes to a listener with `proxy_protocol=on` gets an error that begins with `DENIED`, and is closed: a header could name any address.",
        Kind::Networks { at: |d| &mut d.config.proxy_protocol_from },
    )
    .rare(),
];
