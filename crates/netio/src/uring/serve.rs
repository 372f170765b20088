//! From completions to events.
//!
//! Not here: what is asked of the kernel (the parent), and how a connection goes (`close`).
//!
//! Invariant: the bytes of a connection are told in the order in which they came: what was kept first, and what arrives while something is kept is kept, too.

use super::*;

impl UringDriver {
    /// Tells what was kept, handles what the kernel completed, then the connections that failed outside of it.
    ///
    /// All that is there, up to a bound: kernels from 6.13 on complete twenty operations in a system call, and a worker that flushes after
    /// the first twenty of fifty requests makes two batches of one (decision 19).
    pub(super) fn dispatch(&mut self, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        let mut told = 0;
        self.input_bytes = 0;
        for id in std::mem::take(&mut self.ready) {
            told += self.tell_kept(id, on_event);
        }
        told += self.take_completions(on_event);
        for _ in 0..FETCHES_MAX {
            if !self.ring.has_more() || self.input_bytes >= INPUT_PER_WAIT_BYTES {
                break;
            }
            self.ring.enter(0, None);
            told += self.take_completions(on_event);
        }
        // After the sockets' own events, so that bytes that came before a failure are told first.
        let mut failing = std::mem::take(&mut self.failing);
        for id in failing.drain(..) {
            told += self.fail(id, on_event);
        }
        debug_assert!(self.failing.is_empty(), "telling a failure finds none");
        self.failing = failing;
        told
    }

    /// Handles what the kernel has completed.
    fn take_completions(&mut self, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        let mut told = 0;
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.take(&mut completions);
        for completion in completions.drain(..) {
            told += self.complete(completion, on_event);
        }
        self.completions = completions;
        told
    }

    fn complete(
        &mut self,
        completion: Completion,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let Completion { op, result, more, filled } = completion;
        match op {
            Op::Recv(id) => {
                let told = self.received(id, (result, more), filled.as_ref(), on_event);
                if let Some(filled) = filled {
                    self.ring.recycle(filled);
                }
                told
            }
            Op::Send(id) => self.sent(id, result, on_event),
            Op::Watch(id) => self.watched(id, result, on_event),
            Op::Listen(listener) => self.acceptor.serve(listener, on_event),
            Op::Wake => {
                self.waker_armed = false;
                if result.is_err() {
                    return 0;
                }
                self.waker.take();
                on_event(Event::Woken);
                1
            }
            Op::Cancel | Op::Nop => 0,
        }
    }

    /// Bytes came, or none will come any more.
    fn received(
        &mut self,
        id: ConnId,
        (result, more): (Result<u32, Errno>, bool),
        filled: Option<&Filled>,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        if !more {
            self.mark_dirty(id);
        }
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        let large = conn.receiving == Receiving::Armed(Buffers::Large);
        if !more {
            conn.receiving = Receiving::Idle;
        }
        let end = match (result, filled) {
            (Ok(1..), Some(filled)) => {
                if conn.sizes.note(self.ring.is_full(filled)) {
                    self.mark_dirty(id);
                }
                return self.tell_or_keep(id, filled, on_event);
            }
            (Ok(_), _) => End::Eof,
            (Err(Errno::NOBUFS), _) => {
                // It is begun again with the next wait, when the buffers of this batch are back.
                self.no_buffers += 1;
                self.starved.push(id);
                self.ring.grow(large);
                return 0;
            }
            (Err(Errno::CANCELED | Errno::INTR | Errno::AGAIN), _) => return 0,
            (Err(error), _) => End::Broken(error),
        };
        conn.end = Some(end);
        self.tell_end(id, on_event)
    }

    fn tell_or_keep(
        &mut self,
        id: ConnId,
        filled: &Filled,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        let bytes = self.ring.bytes(filled);
        self.input_bytes += bytes.len();
        if !conn.must_keep(self.round) {
            conn.note_told(bytes.len());
            on_event(Event::Received(conn.token, bytes));
            return 1;
        }
        conn.keep(bytes);
        // What is kept stops the receiving.
        self.mark_dirty(id);
        self.mark_ready(id);
        0
    }

    /// Tells a piece of what was kept, and the end if it is next.
    fn tell_kept(&mut self, id: ConnId, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        conn.is_ready = false;
        if !conn.has_to_tell() {
            return 0;
        }
        let mut told = 0;
        if conn.has_kept() {
            // It may have told bytes of this very round already.
            let _ = conn.must_keep(self.round);
            let piece = conn.kept_piece();
            let bytes = piece.len();
            on_event(Event::Received(conn.token, piece));
            conn.note_told(bytes);
            conn.told_kept(bytes);
            told += 1;
        }
        self.mark_dirty(id);
        told += self.tell_end(id, on_event);
        self.mark_ready(id);
        told
    }

    /// Tells how the stream ended, if that is known and nothing is in front of it.
    fn tell_end(&mut self, id: ConnId, on_event: &mut impl FnMut(Event<'_, Stream>)) -> usize {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        match conn.end {
            // What was kept is lost if nobody reads, as what the kernel holds is when a connection is reset.
            Some(End::Broken(error)) if !(conn.reads() && conn.has_kept()) => {
                self.remove_broken(id, error, on_event);
                1
            }
            Some(End::Eof) if conn.reads() && !conn.has_kept() => {
                (conn.end, conn.eof) = (None, true);
                on_event(Event::Eof(conn.token));
                self.mark_dirty(id);
                1
            }
            Some(_) => {
                self.mark_ready(id);
                0
            }
            None => 0,
        }
    }

    /// A send came back.
    fn sent(
        &mut self,
        id: ConnId,
        result: Result<u32, Errno>,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let Some(flight) = self.ring.flight_mut(id) else { return 0 };
        if flight.linger.is_some() {
            self.sent_lingering(id, result);
            return 0;
        }
        let (owner, whole) = (flight.conn, flight.rest().is_empty());
        let Some(Entry::Live(conn)) = self.conns.get_mut(owner) else {
            // Nobody's: now the kernel has no use for the bytes any more.
            self.ring.land(id);
            return 0;
        };
        match result {
            Ok(1..) | Err(Errno::INTR | Errno::AGAIN) if !whole => {
                self.ring.relaunch(conn.fd.as_raw_fd(), id);
                return 0;
            }
            Ok(1..) => {}
            Ok(0) => return self.lost(id, owner, Errno::PIPE),
            Err(error) => return self.lost(id, owner, error),
        }
        conn.flight = None;
        let goes_on = !conn.out.is_empty() || conn.held.is_some();
        let token = conn.token;
        if goes_on {
            self.mark_dirty(owner);
        }
        let Some(flight) = self.ring.land(id) else { return 0 };
        if flight.copied {
            self.keep_spare(flight.land());
            return 0;
        }
        on_event(Event::Sent(token, flight.land()));
        1
    }

    /// A send failed; its bytes are lost with the connection.
    fn lost(&mut self, id: ConnId, owner: ConnId, error: Errno) -> usize {
        if let Some(conn) = self.live(owner) {
            conn.flight = None;
        }
        self.ring.land(id);
        self.mark_failed(owner, error);
        0
    }

    /// A connect has an outcome, or a connection from which nothing is received has broken.
    fn watched(
        &mut self,
        id: ConnId,
        result: Result<u32, Errno>,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        self.mark_dirty(id);
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        conn.watch = Watch::Idle;
        let Ok(events) = result else { return 0 };
        if conn.connecting {
            return self.finish_connect(id, on_event);
        }
        if conn.wants_recv() {
            // Receiving is armed since, and tells it behind the bytes that come before it.
            return 0;
        }
        if events & libc::POLLERR as u32 == 0 {
            // A unix peer that closed hangs up at once, although its last bytes are still to be read. That is no end yet.
            conn.watch = Watch::Parked;
            return 0;
        }
        let error = match sockopt::socket_error(&conn.fd) {
            Ok(Err(error)) | Err(error) => error,
            // The error was taken by somebody; the connection is no better for it.
            Ok(Ok(())) => Errno::PIPE,
        };
        conn.end = Some(End::Broken(error));
        self.tell_end(id, on_event)
    }

    fn finish_connect(
        &mut self,
        id: ConnId,
        on_event: &mut impl FnMut(Event<'_, Stream>),
    ) -> usize {
        let Some(Entry::Live(conn)) = self.conns.get_mut(id) else { return 0 };
        match connect_outcome(&conn.fd) {
            Ok(()) => {
                conn.connecting = false;
                on_event(Event::Connected(conn.token));
            }
            Err(error) => self.remove_broken(id, error, on_event),
        }
        1
    }
}
