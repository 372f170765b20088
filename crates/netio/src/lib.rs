//! Sockets behind one trait (stub head, the netio author completes it).
pub mod driver;
pub use driver::{Accepted, Address, CloseReason, ConnId, Driver, Event, Token, Wait};
