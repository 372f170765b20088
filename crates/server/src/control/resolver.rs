//! Resolves the names of servers for workers.
//!
//! On each connect anew, and again every while for those that are connected, so that a server which moved to another address is found; on
//! threads of their own, because the system's resolver blocks. A few of them: a name whose servers do not answer keeps one of them for
//! seconds, and other names should not wait for it. Kept: nothing. The system knows how long an answer holds.
//!
//! Invariant: each question gets exactly one answer.

use crate::worker::mailbox::{Fleet, Message, Name, Resolve};
use netio::Address;
use std::net::ToSocketAddrs;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError, Weak};

/// So many names can be slow before another one must wait.
pub const THREADS: usize = 4;

/// Answers until all askers are gone: the fleet holds the asking end, so it is held weakly here. Several threads may share the questions.
pub fn run<S>(questions: &Mutex<Receiver<Resolve>>, fleet: &Weak<Fleet<S>>) {
    let mut turn = 0usize;
    while let Some(Resolve { worker, upstream, name }) = next(questions) {
        let addresses = resolve(&name);
        let Some(fleet) = fleet.upgrade() else { return };
        turn = turn.wrapping_add(1);
        let message = match upstream {
            Some(upstream) => Message::Resolved(upstream, addresses.map(|all| one_of(&all, turn))),
            None => Message::Renewed(name, addresses.ok()),
        };
        fleet.send(worker, message);
    }
}

fn next(questions: &Mutex<Receiver<Resolve>>) -> Option<Resolve> {
    // Whoever waits holds the lock; a receiver cannot be left half used.
    questions.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Another one each time: one that is dead does not keep us from the others.
fn one_of(addresses: &[Address], turn: usize) -> Address {
    addresses[turn % addresses.len()].clone()
}

/// All addresses of a name, at least one.
fn resolve(name: &Name) -> Result<Vec<Address>, String> {
    let Name { host, port } = name;
    let addresses: Vec<Address> = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|error| format!("the name {host} cannot be resolved: {error}"))?
        .map(Address::Tcp)
        .collect();
    if addresses.is_empty() {
        Err(format!("the name {host} has no address"))
    } else {
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str) -> Name {
        Name { host: host.to_owned(), port: 6379 }
    }

    #[test]
    fn a_name_becomes_an_address_and_a_wrong_one_a_reason() {
        let addresses = resolve(&name("localhost")).expect("localhost is resolved");
        let Address::Tcp(address) = one_of(&addresses, 7) else { panic!("no TCP address") };
        assert!(address.ip().is_loopback());
        let error = resolve(&name("no-such-host.invalid")).unwrap_err();
        assert!(error.contains("no-such-host.invalid"), "{error}");
    }
}
