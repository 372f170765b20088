//! End to end: the real binary in front of a real server, over loopback.
//!
//! One file per kind of behaviour. Needs `redis-server` or `valkey-server` on PATH. Environment:
//! `SOAK_SECONDS=n` makes the soak longer, `RESPOOL_LONG=1` runs the large versions of the heavy
//! tests, `E2E_DIRECT=1` puts the server itself in the proxy's place (see [`setup`]),
//! `RESPOOL_TEST_SERVER` names another server program.

mod admin;
mod big_values;
mod checker_proof;
mod coalescing;
mod configure;
mod console;
mod descriptors;
mod differential;
mod drivers;
mod faults;
mod figures;
mod flame;
mod globs;
mod greetings;
mod hot_and_big_keys;
mod idle_clients;
mod lanes;
mod leases;
mod listeners;
mod logs;
mod memory;
mod metrics;
mod mirrors;
mod names;
mod namespaces;
mod near_cache;
mod observers;
mod own_connection;
mod own_policies;
mod passed_through;
mod peer_bugs;
mod policies;
mod pubsub;
mod reads_elsewhere;
mod resets;
mod rollout;
mod route_changes;
mod server_loss;
mod setup;
mod soak;
mod starts;
mod strict;
mod tenants;
mod topology;
mod tracking;
mod unblock;
mod users;
mod values;
mod workers;
