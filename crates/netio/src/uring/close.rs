//! How a connection goes: closed by us, broken, or with the driver.
//!
//! ```text
//!   close ─┬ operations are stopped; their completions find nobody
//!          ├ nothing to send ─▶ the socket is closed
//!          └ copies to send  ─▶ now, if the socket has room ─▶ closed
//!                               else they linger: the kernel goes on with them, for `linger_us` at most, `LINGERING_MAX` at a time
//! ```
//!
//! Not here: freeing of what the kernel still uses; the ring keeps flights until they came back.
//!
//! Invariant: what [`Driver::send`] gave back goes out before the socket is closed, unless the peer does not take it in time, or the connection is broken.

use super::*;
use crate::socket::end_output;

impl UringDriver {
    /// Ends what the kernel does for a connection that has left the slab, and closes its socket. With `orderly` its copies go out before.
    pub(super) fn retire(&mut self, id: ConnId, mut conn: Conn, orderly: bool) {
        if matches!(conn.receiving, Receiving::Armed(_)) {
            self.cancels.push(Op::Recv(id));
        }
        if conn.watch == Watch::Armed {
            self.cancels.push(Op::Watch(id));
        }
        let orderly = orderly && !conn.connecting && conn.failed.is_none();
        if let Some(flight) = conn.flight {
            match self.ring.flight_mut(flight) {
                Some(copies) if orderly && copies.copied => {
                    let until_us = sys::monotonic_us() + self.linger_us;
                    copies.linger = Some(Linger { fd: conn.fd, rest: conn.out, until_us });
                    return self.linger(until_us, flight);
                }
                _ => self.cancels.push(Op::Send(flight)),
            }
        } else if orderly && conn.send_copied() == Ok(false) {
            let until_us = sys::monotonic_us() + self.linger_us;
            let fd = conn.fd.as_raw_fd();
            let mut copies = Flight::new(id, conn.out, 0, true);
            copies.linger = Some(Linger { fd: conn.fd, rest: Vec::new(), until_us });
            let flight = self.ring.launch(fd, copies);
            return self.linger(until_us, flight);
        }
        if orderly {
            // The socket itself is closed later, when the kernel has ended its operations; the peer hears of it now.
            end_output(&conn.fd);
        }
        self.doom(conn.fd);
    }

    /// A closed connection goes on with its copies. Of too many the oldest one is given up: their descriptors count as nobody's.
    fn linger(&mut self, until_us: u64, flight: ConnId) {
        self.lingering.push_back((until_us, flight));
        if self.lingering.len() > LINGERING_MAX
            && let Some((_, oldest)) = self.lingering.pop_front()
        {
            self.cancels.push(Op::Send(oldest));
        }
    }

    /// Closes a socket, at once unless an operation that the kernel has not seen may name it.
    fn doom(&mut self, fd: OwnedFd) {
        if !self.ring.is_submitted() {
            self.doomed.push(fd);
        }
    }

    /// A send of a closed connection came back.
    pub(super) fn sent_lingering(&mut self, id: ConnId, result: Result<u32, Errno>) {
        let Some(flight) = self.ring.flight_mut(id) else { return };
        let whole = flight.rest().is_empty();
        let Some(linger) = &mut flight.linger else { return };
        let goes_on = result.is_ok() && sys::monotonic_us() < linger.until_us;
        let (fd, rest) = (linger.fd.as_raw_fd(), std::mem::take(&mut linger.rest));
        if goes_on && !whole {
            linger.rest = rest;
            self.ring.relaunch(fd, id);
            return;
        }
        let Some(Flight { conn, linger: Some(linger), .. }) = self.ring.land(id) else { return };
        self.lingering.retain(|(_, lingering)| *lingering != id);
        if goes_on && !rest.is_empty() {
            let mut next = Flight::new(conn, rest, 0, true);
            let until_us = linger.until_us;
            next.linger = Some(linger);
            let next = self.ring.launch(fd, next);
            let at = self.lingering.partition_point(|(other_us, _)| *other_us <= until_us);
            self.lingering.insert(at, (until_us, next));
        }
    }

    /// Stops the sends of closed connections whose time is over.
    pub(super) fn give_up_lingering(&mut self) {
        if self.lingering.is_empty() {
            return;
        }
        let now_us = self.now_us();
        while let Some((until_us, id)) = self.lingering.front().copied() {
            if until_us > now_us {
                return;
            }
            self.lingering.pop_front();
            self.cancels.push(Op::Send(id));
        }
    }

    /// Ends a connection whose failure was found by a send, or that never was. What the peer sent before is told
    /// first: often it is the error text that explains the failure.
    pub(super) fn fail(
        &mut self,
        id: ConnId,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let conn = match self.conns.get_mut(id) {
            None => return 0,
            Some(Entry::Live(conn)) => conn,
            Some(Entry::Stillborn(token, error)) => {
                let reason = CloseReason::ConnectFailed(error.raw_os_error());
                on_event(Event::Closed(*token, reason));
                self.conns.remove(id);
                return 1;
            }
        };
        let Some(error) = conn.failed else { return 0 };
        let mut told = 0;
        while conn.reads() && conn.has_kept() {
            let piece = conn.kept_piece();
            let bytes = piece.len();
            on_event(Event::Received(conn.token, piece));
            conn.told_kept(bytes);
            told += 1;
        }
        // All completions of this round are handled, so what the socket has now came after them.
        let mut buf = vec![0; LAST_READ_BYTES];
        while conn.reads() && conn.end.is_none() && told < LAST_READS_MAX {
            let Some(count) = conn.receive_now(&mut buf) else { break };
            on_event(Event::Received(conn.token, &buf[..count]));
            told += 1;
        }
        self.remove_broken(id, error, on_event);
        told + 1
    }

    /// Ends a connection, and tells why.
    pub(super) fn remove_broken(
        &mut self,
        id: ConnId,
        error: Errno,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) {
        if let Some(Entry::Live(conn)) = self.conns.remove(id) {
            let reason = match conn.connecting {
                true => CloseReason::ConnectFailed(error.raw_os_error()),
                false => CloseReason::Broken(error.raw_os_error()),
            };
            on_event(Event::Closed(conn.token, reason));
            self.retire(id, conn, false);
        }
    }
}

impl Drop for UringDriver {
    /// What was given back to the caller goes out, as far as the sockets have room; what lingers has a last moment for it. Then the ring ends all
    /// operations.
    fn drop(&mut self) {
        // Operations that name sockets are handed over before these are closed.
        self.ring.enter(0, None);
        for entry in self.conns.drain() {
            if let Entry::Live(mut conn) = entry
                && conn.flight.is_none()
                && !conn.connecting
            {
                // A connection that is broken has nobody who would miss them.
                let _ = conn.send_copied();
            }
        }
        self.acceptor.close(&mut self.ring);
        let until_us = self.now_us() + LAST_LINGER_US;
        while !self.lingering.is_empty() && self.now_us() < until_us {
            self.flush();
            self.ring.enter(1, Some(LAST_LINGER_US / 10));
            // Of connections there are none any more, so there are no events but wakes.
            self.dispatch(&mut |_| {});
        }
    }
}

/// How long copies that linger may still take when the driver goes, in microseconds. A process that drains ends so much later at most.
const LAST_LINGER_US: u64 = 1_000_000;

/// Closed connections whose copies go on. Peers that take nothing could otherwise hold as many descriptors as they make connections in `linger_us`.
pub(super) const LINGERING_MAX: usize = 128;

/// One of the last reads of a connection that failed on sending.
const LAST_READ_BYTES: usize = 64 << 10;

/// How many of them, before its end is told: 1 MiB, more than an error text needs.
const LAST_READS_MAX: usize = 16;
