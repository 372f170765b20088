//! Clients that are connected and ask nothing: most of those that a proxy has.
//!
//! Each logs in and asks once for a key that does not exist, as a pool of connections does that was used and then left alone: what a proxy keeps for a
//! client after its first request is part of what an idle client costs.
//!
//! What it is not: a load. Nothing is read or sent between [`IdleClients::connect`] and [`IdleClients::check`].
//!
//! Invariant: when [`IdleClients::connect`] returns, every client was answered, so the target has taken all of them in.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

use resp::encode;

use super::stream::Stream;
use super::{Endpoint, LoadError, greet};

/// What each asks once.
const QUESTION: [&[u8]; 2] = [b"GET", b"respool-bench:idle"];

/// Connected clients that ask nothing. They end with their owner.
#[derive(Debug)]
pub struct IdleClients {
    endpoint: Endpoint,
    streams: Vec<Stream>,
}

impl IdleClients {
    /// Connects so many, one after the other.
    ///
    /// # Errors
    /// When one is refused or answered an error; when `cancel` is set meanwhile.
    pub fn connect(
        endpoint: &Endpoint,
        protocol: u8,
        clients: u32,
        cancel: &AtomicBool,
    ) -> Result<Self, LoadError> {
        let address = greet::find(endpoint, protocol)?;
        let mut question = Vec::new();
        encode::request(&mut question, &QUESTION);
        let mut streams = Vec::with_capacity(clients as usize);
        for _ in 0..clients {
            if cancel.load(Ordering::Relaxed) {
                return Err(LoadError::Cancelled);
            }
            let mut stream = greet::connect(endpoint, &address, protocol, None)?;
            let reply = greet::exchange(endpoint, &mut stream, &question)?;
            greet::refuse_error("GET", &reply)?;
            stream.set_blocking(false).map_err(|error| greet::unreachable(endpoint, &error))?;
            streams.push(stream);
        }
        Ok(Self { endpoint: endpoint.clone(), streams })
    }

    /// Looks whether all of them still stand.
    ///
    /// # Errors
    /// The target closed one, or said something unasked.
    pub fn check(&mut self) -> Result<(), LoadError> {
        for stream in &mut self.streams {
            let url = &self.endpoint.url;
            match stream.read(&mut [0; 64]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(greet::unreachable(&self.endpoint, &error)),
                Ok(0) => {
                    return Err(LoadError::Connection(format!("{url}: it closed an idle client")));
                }
                Ok(_) => {
                    let text = format!("{url}: it said something to an idle client");
                    return Err(LoadError::Protocol(text));
                }
            }
        }
        Ok(())
    }
}
