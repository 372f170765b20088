//! All clients of the floor on one driver.
//!
//! A turn: wait, answer whatever came in, then one send for each client that has replies. That is what every proxy
//! does towards its clients, and nothing else.
//!
//! What it is not: fair, or patient. A client that does not read is not read either until it does, and nobody is ever
//! closed for being idle.
//!
//! Invariant: while a send of a client is in flight, nothing is received from it.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use netio::{Accepted, ConnId, Driver, Event, Token, Wait};

use super::client::Client;
use super::limits::OUT_BYTES_KEPT_MAX;
use super::replies::Replies;

/// Serves until `ended`, which is looked at after each wait.
pub(super) fn serve<D: Driver>(driver: &mut D, replies: &Replies, ended: &AtomicBool) {
    let mut service = Service { replies, places: Vec::new(), free: Vec::new(), dirty: Vec::new() };
    let mut accepted = Vec::new();
    driver.accept(true);
    while !ended.load(Ordering::Relaxed) {
        driver.wait(Wait::Forever, &mut |event| service.handle(event, &mut accepted));
        for client in accepted.drain(..) {
            service.adopt(driver, client);
        }
        service.flush(driver);
    }
    driver.close_listeners();
}

/// The clients by their tokens.
struct Service<'a> {
    replies: &'a Replies,
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    /// Places to be looked at when the wait is over. One may be empty by then, or have another client, which has
    /// nothing to send yet.
    dirty: Vec<usize>,
}

/// A client with its connection.
struct Place {
    conn: ConnId,
    client: Client,
    dirty: bool,
    /// A send is in flight.
    sending: bool,
    /// Receiving is off until it went out.
    paused: bool,
    /// It will send no more.
    ended: bool,
}

impl Service<'_> {
    #[inline]
    fn handle<S>(&mut self, event: Event<'_, S>, accepted: &mut Vec<Accepted<S>>) {
        match event {
            Event::Received(token, bytes) => {
                let replies = self.replies;
                self.change(token, |place| place.client.receive(bytes, replies));
            }
            Event::Sent(token, buf) => self.change(token, |place| {
                place.sending = false;
                if place.client.out.is_empty() {
                    place.client.out = emptied(buf);
                }
            }),
            Event::Eof(token) => self.change(token, |place| place.ended = true),
            Event::Closed(token, _) => self.forget(index(token)),
            Event::Accepted(client) => accepted.push(client),
            Event::Connected(_) | Event::AcceptFailed(_) | Event::Woken => {}
        }
    }

    #[inline]
    fn change(&mut self, token: Token, change: impl FnOnce(&mut Place)) {
        let at = index(token);
        let Some(Some(place)) = self.places.get_mut(at) else { return };
        change(place);
        if !mem::replace(&mut place.dirty, true) {
            self.dirty.push(at);
        }
    }

    fn adopt<D: Driver>(&mut self, driver: &mut D, client: Accepted<D::Socket>) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let conn = driver.adopt(client, Token(at as u64));
        let client = Client::default();
        let (dirty, sending, paused, ended) = (false, false, false, false);
        self.places[at] = Some(Place { conn, client, dirty, sending, paused, ended });
    }

    fn forget(&mut self, at: usize) {
        if self.places.get_mut(at).and_then(Option::take).is_some() {
            self.free.push(at);
        }
    }

    fn flush<D: Driver>(&mut self, driver: &mut D) {
        let mut dirty = mem::take(&mut self.dirty);
        for at in dirty.drain(..) {
            let Some(Some(place)) = self.places.get_mut(at) else { continue };
            if place.flush(driver, self.replies) {
                driver.close(place.conn);
                self.forget(at);
            }
        }
        self.dirty = dirty;
    }
}

impl Place {
    /// Sends the replies that there are; whether the connection is done with.
    fn flush<D: Driver>(&mut self, driver: &mut D, replies: &Replies) -> bool {
        self.dirty = false;
        if self.sending {
            return false;
        }
        while !self.client.out.is_empty() || self.client.is_held() {
            if self.client.out.is_empty() {
                self.client.receive(&[], replies);
                continue;
            }
            match driver.send(self.conn, mem::take(&mut self.client.out)) {
                Some(buf) => self.client.out = emptied(buf),
                None => {
                    self.sending = true;
                    self.paused = true;
                    driver.recv(self.conn, false);
                    return false;
                }
            }
        }
        if mem::take(&mut self.paused) && !self.ended {
            driver.recv(self.conn, true);
        }
        self.ended || self.client.has_failed()
    }
}

/// The buffer without its bytes, and without its memory if that is much.
fn emptied(mut buf: Vec<u8>) -> Vec<u8> {
    if buf.capacity() > OUT_BYTES_KEPT_MAX {
        return Vec::new();
    }
    buf.clear();
    buf
}

fn index(token: Token) -> usize {
    token.0 as usize
}
