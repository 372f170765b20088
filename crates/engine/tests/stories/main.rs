//! Stories of the engine on virtual time: one story a rule, told in the words of [`words`].
//!
//! A story that fails names its rule; what it says and expects is what goes over the wire. Files: one for each part of what
//! the engine promises. Chance and partial traffic are the simulator's (`server/tests/sim`), a real server the end-to-end tests'.

mod leases;
mod noloop;
mod tracking;
mod transactions;
mod unblock;
mod values;
mod whole;
mod words;

mod acl;
mod address_map;
mod bigkeys;
mod blocking;
mod bounds;
mod by_topology;
mod client_command;
mod cluster;
mod coalescing;
mod configure;
mod conns;
mod cork;
mod deep_pipelines;
mod ejection;
mod elsewhere;
mod facade;
mod figures;
mod greeting;
mod hello_auth;
mod hotkeys;
mod info;
mod inside;
mod large_replies;
mod large_requests;
mod leaving;
mod mirror;
mod mirror_changes;
mod mirror_reads;
mod monitor;
mod namespace;
mod near;
mod nodes;
mod observed;
mod order;
mod own_policies;
mod passed_through;
mod peer_bugs;
mod poison;
mod policies;
mod pubsub;
mod quiet;
mod reads;
mod refused;
mod removal;
mod replaced;
mod routes;
mod select;
mod sentinel;
mod shards;
mod slowlog;
mod tenants;
