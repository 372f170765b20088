//! Sockets behind one trait: epoll and io_uring for the real network, and a simulated network with a seed.
//!
//! [`Driver`] is what a worker sees: buffers in, events out. [`EpollDriver`] keeps that promise with
//! level-triggered epoll, [`UringDriver`] with io_uring where the kernel allows that; [`sim::SimDriver`] keeps it inside
//! [`sim::SimNet`], where time is virtual and every fault comes from a seed, so that a failing run can be replayed.
//!
//! Not here: RESP, routes, policy, logging, TLS, name resolution (names are resolved before they
//! come here). This is the one crate of the workspace that may hold `unsafe`, and all of it is in
//! [`sys`] and, for the memory that io_uring shares with the kernel, in `uring::ring` and `uring::buffers`.
//!
//! Invariant: all drivers pass the same behaviour tests (`tests/suite`), so that what was proved on
//! the simulated network holds on the real one.
//!
//! ```
//! use netio::{Address, Driver, EpollDriver, EpollOptions, Event, ListenOptions, Listener};
//! use netio::{Token, Wait};
//!
//! # fn main() -> std::io::Result<()> {
//! let at = Address::Tcp(([127, 0, 0, 1], 0).into());
//! let listener = Listener::bind(&at, &ListenOptions::default())?;
//! let at = listener.local_addr().clone();
//! let mut driver = EpollDriver::new(&EpollOptions::default(), vec![listener])?;
//! driver.accept(true);
//! let upstream = driver.connect(&at, Token(1));
//! let mut clients = Vec::new();
//! while clients.is_empty() {
//!     driver.wait(Wait::Forever, &mut |event| {
//!         if let Event::Accepted(client) = event {
//!             clients.push(client);
//!         }
//!     });
//! }
//! for client in clients {
//!     assert!(client.peer.starts_with("127.0.0.1:"));
//!     driver.adopt(client, Token(2));
//! }
//! driver.close(upstream);
//! # Ok(())
//! # }
//! ```
//!
//! Where to read next: [`driver`] for the contract, [`epoll`] and [`uring`] for the real thing, [`sim`] for the
//! simulated one. Linux only; epoll with `EPOLLEXCLUSIVE` needs kernel 4.5, io_uring as it is used here 6.1.

mod accepting;
pub mod driver;
pub mod epoll;
pub mod listener;
pub mod proxy_header;
pub mod sim;
mod slab;
mod socket;
pub mod sys;
pub mod uring;
pub mod waker;

pub use driver::{
    ACCEPTS_MAX, Accepted, Address, CloseReason, ConnId, Driver, Event, ListenerId, Token, Tuning,
    Wait,
};
pub use epoll::{EpollDriver, EpollOptions, Stream};
pub use listener::{ListenOptions, Listener};
pub use socket::Keepalive;
pub use uring::{UringDriver, UringOptions};
pub use waker::Waker;
