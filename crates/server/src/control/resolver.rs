//! Resolves the names of servers for workers that want to connect.
//!
//! On each connect anew, so that a server which moved to another address is found again, and on a thread of its own, because the system's
//! resolver blocks. One thread is enough: a worker waits with its connect, not with its clients.
//!
//! Invariant: each question gets exactly one answer, in its order.

use crate::worker::mailbox::{Fleet, Message, Resolve};
use netio::Address;
use std::net::ToSocketAddrs;
use std::sync::Weak;
use std::sync::mpsc::Receiver;

/// Answers until all askers are gone: the fleet holds the asking end, so it is held weakly here.
pub fn run<S>(questions: &Receiver<Resolve>, fleet: &Weak<Fleet<S>>) {
    let mut turn = 0usize;
    while let Ok(Resolve { worker, upstream, host, port }) = questions.recv() {
        let Some(fleet) = fleet.upgrade() else { return };
        turn = turn.wrapping_add(1);
        fleet.send(worker, Message::Resolved(upstream, resolve(&host, port, turn)));
    }
}

/// One of the name's addresses, another one each time: one that is dead does not keep us from the others.
fn resolve(host: &str, port: u16, turn: usize) -> Result<Address, String> {
    let addresses: Vec<_> = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("the name {host} cannot be resolved: {error}"))?
        .collect();
    match addresses.len() {
        0 => Err(format!("the name {host} has no address")),
        len => Ok(Address::Tcp(addresses[turn % len])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_an_address_and_a_wrong_one_a_reason() {
        let Ok(Address::Tcp(address)) = resolve("localhost", 6379, 0) else {
            panic!("localhost is not resolved")
        };
        assert!(address.ip().is_loopback());
        let error = resolve("no-such-host.invalid", 6379, 0).unwrap_err();
        assert!(error.contains("no-such-host.invalid"), "{error}");
    }
}
