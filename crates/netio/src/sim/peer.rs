//! Scripted peers: the ends of simulated connections that a test plays itself, as a client of the proxy
//! or as a server behind it.
//!
//! A peer reads whatever arrives, when it arrives, unless it was told to pause (or chance stalls it),
//! and its sends are never refused: what the socket has no room for waits in the peer. So a test writes
//! and looks, and moves the time.
//!
//! Invariant: `received` gives the bytes of the stream in order, each once.

use std::cell::RefCell;
use std::rc::Rc;

use super::net::{Connect, EndId, Net, Owner};
use crate::driver::Address;

/// One end of a connection in the hands of the test. Dropping it closes it.
pub struct SimPeer {
    net: Rc<RefCell<Net>>,
    end: EndId,
}

impl SimPeer {
    /// Takes over an end, and what has come to it so far.
    pub(super) fn new(net: Rc<RefCell<Net>>, end: EndId) -> Self {
        {
            let net = &mut *net.borrow_mut();
            net.end_mut(end).owner = Owner::Script;
            net.run_script(end);
        }
        Self { net, end }
    }

    /// Whether the connection is there; false while connecting and after a failed connect.
    pub fn is_connected(&self) -> bool {
        self.net.borrow().end(self.end).connect == Connect::Done
    }

    /// Why the connect failed (OS error number), if it did.
    pub fn connect_error(&self) -> Option<i32> {
        match self.net.borrow().end(self.end).connect {
            Connect::Failed(error) => Some(error),
            Connect::Pending | Connect::Done => None,
        }
    }

    /// Own address, as the other end sees it.
    pub fn local(&self) -> String {
        self.net.borrow().end(self.end).local.clone()
    }

    /// Sends bytes, in order after all earlier ones; before the connect is done they wait for it.
    /// Ignored after `close`, `reset` and `shutdown`.
    pub fn send(&self, bytes: &[u8]) {
        let net = &mut *self.net.borrow_mut();
        let end = net.end_mut(self.end);
        if end.closed || end.script.ends_after_outbox {
            return;
        }
        end.script.outbox.extend(bytes);
        net.run_script(self.end);
    }

    /// Bytes that were sent by the test and that the socket had no room for yet.
    pub fn unsent(&self) -> usize {
        self.net.borrow().end(self.end).script.outbox.len()
    }

    /// Takes the bytes that were read since the last call.
    pub fn received(&self) -> Vec<u8> {
        std::mem::take(&mut self.net.borrow_mut().end_mut(self.end).script.received)
    }

    /// Bytes that have arrived and that a paused or stalled peer has not read.
    pub fn unread(&self) -> usize {
        self.net.borrow().end(self.end).inbox.readable()
    }

    /// Whether the other end has ended its stream and all before it was read.
    pub fn is_eof(&self) -> bool {
        self.net.borrow().end(self.end).script.eof
    }

    /// Whether the connection was reset by the other end or by chance.
    pub fn is_reset(&self) -> bool {
        self.net.borrow().end(self.end).reset
    }

    /// Whether there is nothing more to come: end of stream, reset, failed connect, or closed here.
    pub fn is_over(&self) -> bool {
        let net = self.net.borrow();
        let end = net.end(self.end);
        end.script.eof || end.reset || end.closed || matches!(end.connect, Connect::Failed(_))
    }

    /// Stops (`true`) or goes on (`false`) reading. A peer that does not read fills the socket, and the
    /// other end's sends stay in flight.
    pub fn pause_reading(&self, on: bool) {
        let net = &mut *self.net.borrow_mut();
        net.end_mut(self.end).script.paused = on;
        net.run_script(self.end);
    }

    /// Does not read for `stall_us` microseconds.
    pub fn stall(&self, stall_us: u64) {
        self.net.borrow_mut().stall(self.end, stall_us);
    }

    /// Ends the own stream once all that was sent is out, and goes on reading (half close).
    pub fn shutdown(&self) {
        let net = &mut *self.net.borrow_mut();
        net.end_mut(self.end).script.ends_after_outbox = true;
        net.run_script(self.end);
    }

    /// Closes: what the socket has taken still arrives, what is [`unsent`](Self::unsent) is lost. With
    /// bytes [`unread`](Self::unread) it is a reset, as with close(2).
    pub fn close(&self) {
        self.net.borrow_mut().close(self.end);
    }

    /// Closes with a reset; what has not arrived yet is lost.
    pub fn reset(&self) {
        self.net.borrow_mut().abort(self.end);
    }
}

impl Drop for SimPeer {
    fn drop(&mut self) {
        self.close();
        // Nobody can ask for it any more; long runs make many peers.
        self.received();
    }
}

/// A scripted server's listening socket. Dropping it closes it; accepted connections live on.
pub struct SimListener {
    net: Rc<RefCell<Net>>,
    place: usize,
}

impl SimListener {
    pub(super) const fn new(net: Rc<RefCell<Net>>, place: usize) -> Self {
        Self { net, place }
    }

    /// The next connection that waits, if any.
    pub fn accept(&self) -> Option<SimPeer> {
        let (end, _) = self.net.borrow_mut().listeners[self.place].backlog.pop_front()?;
        Some(SimPeer::new(Rc::clone(&self.net), end))
    }

    /// Where it listens.
    pub fn address(&self) -> Address {
        self.net.borrow().listeners[self.place].address.clone()
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.net.borrow_mut().close_listener(self.place);
    }
}
