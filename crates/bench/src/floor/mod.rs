//! The floor: an endpoint that only receives and answers, on the drivers of respool itself.
//!
//! ```text
//!   load ─▶ recv ─▶ RequestScanner ─▶ a reply put together in advance ─▶ one send for all replies of a read ─▶ load
//! ```
//!
//! A proxy does all of this towards its clients and more besides, so no proxy on the same driver can cost less. What a
//! proxy costs as a multiple of the floor says how much of its cost is its own, on any machine.
//!
//! What it is not: a server, and nothing to keep data in; no part of the proxy either. One thread, loopback only.
//!
//! Invariant: what it does for a request is what each proxy must do; nothing is measured, logged or looked up besides.
//!
//! Read next: `client` (bytes to replies), `replies` (which), `service` (the turn).

mod client;
mod limits;
mod replies;
mod service;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use netio::{
    Address, Driver, EpollDriver, EpollOptions, ListenOptions, Listener, UringDriver, UringOptions,
    Waker,
};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::plan::NetDriver;
use replies::Replies;

/// How the floor is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What it waits and sends with.
    pub driver: NetDriver,
    /// Port of 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// Size of the value that `GET` is answered with, in bytes.
    pub value_bytes: u32,
}

/// Why io_uring cannot be used here, in words; `None` where `driver` works.
#[must_use]
pub fn unfit(driver: NetDriver) -> Option<String> {
    match driver {
        NetDriver::Epoll => None,
        NetDriver::Uring => netio::uring::probe().err().map(|why| why.to_string()),
    }
}

/// Answers until SIGTERM or SIGINT. `ready` gets the address when clients can connect.
///
/// # Errors
/// In words: the port is taken, or the driver cannot be had.
pub fn run(options: &Options, ready: impl FnOnce(SocketAddr)) -> Result<(), String> {
    let wanted = SocketAddr::from(([127, 0, 0, 1], options.port));
    let listener = Listener::bind(&Address::Tcp(wanted), &ListenOptions::default())
        .map_err(|error| format!("cannot listen on {wanted}: {error}"))?;
    let address = match listener.local_addr() {
        Address::Tcp(address) => *address,
        Address::Unix(_) => wanted,
    };
    let replies = Replies::new(options.value_bytes);
    let listeners = vec![listener];
    match options.driver {
        NetDriver::Epoll => {
            let driver = EpollDriver::new(&EpollOptions::default(), listeners);
            let driver = driver.map_err(|error| format!("no epoll: {error}"))?;
            let waker = driver.waker();
            serve(driver, waker, &replies, || ready(address))
        }
        NetDriver::Uring => {
            let driver = UringDriver::new(&UringOptions::default(), listeners);
            let driver = driver.map_err(|why| format!("no io_uring: {why}"))?;
            let waker = driver.waker();
            serve(driver, waker, &replies, || ready(address))
        }
    }
}

fn serve<D: Driver>(
    mut driver: D,
    waker: Waker,
    replies: &Replies,
    ready: impl FnOnce(),
) -> Result<(), String> {
    let ended = Arc::new(AtomicBool::new(false));
    end_with_signals(Arc::clone(&ended), waker)?;
    ready();
    service::serve(&mut driver, replies, &ended);
    Ok(())
}

/// Lets the first signal end the service. The thread sleeps until then and costs nothing that would be measured.
fn end_with_signals(ended: Arc<AtomicBool>, waker: Waker) -> Result<(), String> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| format!("cannot listen for signals: {error}"))?;
    let wait = move || {
        if signals.forever().next().is_some() {
            ended.store(true, Ordering::Relaxed);
            waker.wake();
        }
    };
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| format!("no thread for signals: {error}"))
}
