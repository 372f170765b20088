//! TLS end to end: the real binary between clients and servers that speak it, with certificates that are made here.
//!
//! ```text
//!   setup      servers, proxies, who signs for whom
//!   clients    what clients meet: certificates both ways, versions, names, tickets, who speaks something else
//!   upstreams  servers, clusters, sentinels that are reached over TLS only, and such that are not to be trusted
//!   reload     other certificates while clients are connected
//!   room       what TLS holds, and who goes when that is too much
//!   observers  spans and alarms that go out over TLS
//!   admin      those who look after the proxy
//!   guide      the configurations of the guide
//! ```
//! A server without TLS has nothing to be tested here with: then a test says so and passes, unless `RESPOOL_TEST_TLS=1`.
//!
//! Invariant: tests share nothing; each has its own authority, server and proxy.

mod admin;
mod clients;
mod guide;
mod observers;
mod reload;
mod room;
mod setup;
mod upstreams;
