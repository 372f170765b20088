//! How simulated connections come to be: connects, listeners, the choice of the worker.
//!
//! A connect takes one delay to the listener and one back, as a TCP handshake does, and the server's
//! side may speak before the client knows.
//!
//! Invariant: a connection that has reached a listener is in exactly one backlog until it is accepted
//! or its listener closes.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::{Connect, End, EndId, ListenerState, Net, Owner, Script, What};
use crate::driver::Address;
use crate::sim::faults::SimFaults;
use crate::sim::pipe::Pipe;
use crate::socket::tcp_text;

impl Net {
    /// Begins a connect and returns the client's end.
    pub(in crate::sim) fn connect(&mut self, to: &Address) -> EndId {
        let faults = self.faults_for(to);
        let (local, peer) = self.names(to);
        let end = self.add_end(to, faults, local, peer);
        let delay_us = self.delay_us(&faults);
        let at_us = self.now_us + delay_us;
        // A refusal takes one delay, as from a firewall that answers for the host; nobody listening
        // takes two, there and back.
        if self.rng.chance(faults.connect_refused_ppm) {
            self.schedule(at_us, What::ConnectDone(end, Err(libc::ECONNREFUSED)));
        } else if !self.rng.chance(faults.connect_hangs_ppm) {
            let place = self.listener_place(to);
            self.schedule(at_us, What::Syn(end, place as u32));
        }
        end
    }

    pub(super) fn syn(&mut self, client: EndId, place: usize) {
        // Given up in the meantime: the handshake comes to nothing, and the server never hears of it.
        if self.end(client).closed {
            return;
        }
        if !self.listeners[place].open {
            return self.send_to(client, What::ConnectDone(client, Err(libc::ECONNREFUSED)));
        }
        if self.listeners[place].backlog.len() >= BACKLOG_MAX {
            // As Linux does: the connect is not answered.
            return;
        }
        // The two ends see each other's addresses the other way round.
        let state = self.end(client);
        let to = state.to.clone();
        let (faults, local, peer) = (state.faults, state.peer.clone(), state.local.clone());
        let server = self.add_end(&to, faults, local, peer);
        self.end_mut(server).connect = Connect::Done;
        self.end_mut(server).other = Some(client);
        self.end_mut(client).other = Some(server);
        let chosen = self.choose_driver(place);
        self.listeners[place].backlog.push_back((server, chosen));
        self.send_to(client, What::ConnectDone(client, Ok(())));
    }

    /// The kernel wakes one of the workers that accept; which one is chance.
    pub(super) fn choose_driver(&mut self, place: usize) -> Option<usize> {
        let drivers = self.listeners[place].drivers.iter().copied();
        let accepting: Vec<usize> = drivers.filter(|at| self.drivers[*at].accepting).collect();
        let last = accepting.len().checked_sub(1)?;
        Some(accepting[self.rng.between(0, last as u64) as usize])
    }

    /// The place of an address in the list of listeners; a closed listener if nobody listens there.
    pub(in crate::sim) fn listener_place(&mut self, address: &Address) -> usize {
        if let Some(place) = self.listeners.iter().position(|state| state.address == *address) {
            return place;
        }
        self.listeners.push(ListenerState {
            address: address.clone(),
            drivers: Vec::new(),
            open: false,
            backlog: VecDeque::new(),
        });
        self.listeners.len() - 1
    }

    /// Closes a listener; who still waits to be accepted is reset, as by the kernel.
    pub(in crate::sim) fn close_listener(&mut self, place: usize) {
        let listener = &mut self.listeners[place];
        listener.open = false;
        listener.drivers.clear();
        for (end, _) in std::mem::take(&mut listener.backlog) {
            self.abort(end);
        }
    }

    /// The next connection that `driver` may accept, with the place of its listener.
    pub(in crate::sim) fn waiting_for(&self, driver: usize) -> Option<(usize, usize)> {
        let state = &self.drivers[driver];
        if !state.accepting || state.accept_from_us > self.now_us {
            return None;
        }
        self.listeners.iter().enumerate().find_map(|(place, listener)| {
            // One that was given to a driver which has stopped accepting is anybody's.
            let mine = |chosen: &Option<usize>| match chosen {
                Some(other) if *other != driver => !self.drivers[*other].accepting,
                _ => true,
            };
            let shared = listener.drivers.contains(&driver);
            let at = listener.backlog.iter().position(|(_, chosen)| shared && mine(chosen))?;
            Some((place, at))
        })
    }

    /// The client's own address, which is made up, and the server's, as text.
    pub(super) fn names(&mut self, to: &Address) -> (String, String) {
        match to {
            Address::Tcp(addr) => {
                // Thousands of connections per test, never more at once than there are ports.
                let port = 32_768 + (self.ports % 28_000) as u16;
                self.ports += 1;
                (tcp_text(&SocketAddr::new(addr.ip(), port)), tcp_text(addr))
            }
            Address::Unix(path) => {
                let text = format!("{}:0", path.display());
                (text.clone(), text)
            }
        }
    }

    /// A new end, not yet connected and with no owner to tell.
    pub(super) fn add_end(
        &mut self,
        to: &Address,
        faults: SimFaults,
        local: String,
        peer: String,
    ) -> EndId {
        let id = EndId(self.ends.len() as u32);
        self.ends.push(End {
            other: None,
            to: to.clone(),
            owner: Owner::Nobody,
            connect: Connect::Pending,
            faults,
            local,
            peer,
            inbox: Pipe::default(),
            wants_room: false,
            ended: false,
            reset: false,
            queued: false,
            closed: false,
            script: Script::default(),
        });
        id
    }
}

/// Connections that wait to be accepted at one listener.
const BACKLOG_MAX: usize = 1024;
