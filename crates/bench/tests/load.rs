//! The load against real servers: its counts agree with the server's, and nothing that fails becomes a figure.

#[path = "load/support.rs"]
mod support;

#[path = "load/cost.rs"]
mod cost;
#[path = "load/counts.rs"]
mod counts;
#[path = "load/failures.rs"]
mod failures;
#[path = "load/shapes.rs"]
mod shapes;
#[path = "load/tls.rs"]
mod tls;
#[path = "load/tools.rs"]
mod tools;
