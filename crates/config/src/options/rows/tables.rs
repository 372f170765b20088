//! The tables of the file, and what each is about.
//!
//! Data only: the rows of each stand beside.
//!
//! Invariant: every table that a row names is here.

use super::super::{mirrors, policies, read_targets, users};
use super::{cache, edges};

/// What the tables of the file are about, in the order of the documents.
pub const TABLES: &[(&str, &str)] = &[
    (
        "sharding",
        "Keys spread over several servers, clusters or sentinel groups by the proxy, as twemproxy, overlord, predixy and camellia \
         do it, key for key. Takes the place of `upstream`.",
    ),
    (
        "sharding.eject",
        "When a shard that fails is left out, so that its keys go to the others, as twemproxy's `auto_eject_hosts` does it. For caches: \
         what the shard held is not found meanwhile. Off unless this table is there; its head alone turns it on.",
    ),
    ("reads", "Which copy of the data answers requests that only read, where there are replicas."),
    ("facade", "How respool shows itself to clients that know clusters."),
    users::TABLE,
    ("timeouts", "How long things may take. The unit is the end of each name."),
    ("limits", "How much things may hold. Sizes are bytes, or strings such as \"64MiB\"."),
    ("slowlog", "Requests that took long."),
    (
        "latency",
        "How long commands take, with bounds of your own. What `INFO latencystats` shows is counted in any case.",
    ),
    ("hotkeys", "Keys that come often."),
    ("bigkeys", "Requests and replies that are large."),
    ("batching", "How requests are gathered into larger writes, which makes small requests cheap."),
    cache::TABLE,
    ("log", "What is logged, how and where."),
    (
        "access_log",
        "Requests that stand in the log one by one: those for which all that is set here holds. See the \
         [operations guide](../guides/operations.md#the-access-log).",
    ),
    (
        "tracing",
        "Requests as spans for OpenTelemetry. See the [operations guide](../guides/operations.md#traces).",
    ),
    (
        "alarms",
        "What is posted to somebody else at once. See the [operations guide](../guides/operations.md#alarms).",
    ),
    (
        "admin",
        "HTTP for those who look after the proxy: health, metrics, clients, configuration. See the [guide](../guides/admin.md).",
    ),
    policies::TABLE,
    policies::NAMESPACE,
    policies::VALUES,
    ("tls", "TLS with clients. See the [guide](../guides/tls.md)."),
    ("upstream_tls", "TLS with servers. See the [guide](../guides/tls.md)."),
    edges::ADMIN,
    edges::TRACING,
    edges::ALARMS,
    mirrors::TABLE,
    read_targets::TABLE,
];
