//! What runs beside the workers: signals, the resolver of names.
//!
//! Not here: anything on the way of a request.
//!
//! Invariant: control talks to workers through their mailboxes only.

pub mod resolver;
pub mod signals;
