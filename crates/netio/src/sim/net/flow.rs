//! How bytes move between simulated ends, how connections end, and what scripted peers do by themselves.
//!
//! Invariant: between a writer and its reader there are at most `socket_bytes_max` bytes, and a writer
//! that was told "no room" is told again when there is some.

use std::sync::PoisonError;

use super::{Connect, EndId, Net, What};
use crate::driver::Address;

impl Net {
    /// Writes as much of `bytes` as there is room for, at most `count_max`; returns how much. If that
    /// is less than all, the owner is told when there is room again.
    pub(in crate::sim) fn write(&mut self, from: EndId, bytes: &[u8], count_max: usize) -> usize {
        let Some(to) = self.end(from).other else { return 0 };
        if self.end(to).reset {
            // The writer has not heard of the reset yet, so its kernel takes the bytes; putting them
            // behind the ones that the reset cut off would make a stream with a hole.
            return bytes.len().min(count_max);
        }
        let faults = self.end(from).faults;
        let room = faults.socket_bytes_max.saturating_sub(self.end(to).inbox.held());
        let taken = bytes.len().min(count_max).min(room);
        self.end_mut(to).inbox.write(&bytes[..taken]);
        // Each piece has its own delay; `send_to` keeps them in order.
        let mut left = taken;
        while left > 0 {
            let piece = self.some_of(left, faults.segment_bytes_max);
            self.send_to(to, What::Arrive(to, piece));
            left -= piece;
        }
        if taken < bytes.len() {
            self.end_mut(from).wants_room = true;
            if taken < room {
                // Not the room but chance has cut the write, so no reader will call for more.
                self.call_for_more(from);
            }
        }
        taken
    }

    /// Takes up to `count` arrived bytes at an end.
    pub(in crate::sim) fn read(&mut self, at: EndId, count: usize) -> Vec<u8> {
        let bytes = self.end_mut(at).inbox.read(count);
        if let Some(other) = self.end(at).other
            && !bytes.is_empty()
            && self.end(other).wants_room
        {
            self.call_for_more(other);
        }
        bytes
    }

    /// Tells a writer, after a delay, to go on. Once per want: the flag is its ticket.
    pub(super) fn call_for_more(&mut self, writer: EndId) {
        self.end_mut(writer).wants_room = false;
        let faults = self.end(writer).faults;
        let at_us = self.now_us + self.delay_us(&faults);
        self.schedule(at_us, What::GoOn(writer));
    }

    /// 1 to `max` by chance, but no more than there is.
    pub(in crate::sim) fn some_of(&mut self, available: usize, max: usize) -> usize {
        match max {
            usize::MAX => available,
            max => available.min(self.rng.between(1, max.max(1) as u64) as usize),
        }
    }

    /// The end of the own stream; receiving goes on.
    pub(in crate::sim) fn end_stream(&mut self, from: EndId) {
        if let Some(to) = self.end(from).other
            && !std::mem::replace(&mut self.end_mut(from).ended, true)
        {
            self.send_to(to, What::End(to));
        }
    }

    /// Closes an end as close(2) does: what was written still arrives; bytes that were received and
    /// not read make it a reset.
    pub(in crate::sim) fn close(&mut self, id: EndId) {
        let end = self.end_mut(id);
        if std::mem::replace(&mut end.closed, true) {
            return;
        }
        // Linux answers a close with unread bytes by a reset, so that the writer learns that they were
        // never seen (RFC 2525, 2.17).
        let unread = end.inbox.readable() > 0;
        end.inbox.clear();
        end.script.outbox.clear();
        match unread {
            true => self.reset_other(id),
            false => self.end_stream(id),
        }
    }

    /// Closes an end with a reset; what it had written and has not arrived is lost.
    pub(in crate::sim) fn abort(&mut self, id: EndId) {
        let end = self.end_mut(id);
        if std::mem::replace(&mut end.closed, true) {
            return;
        }
        end.inbox.clear();
        end.script.outbox.clear();
        if let Some(other) = self.end(id).other {
            self.end_mut(other).inbox.cut_off();
        }
        self.reset_other(id);
    }

    /// Sends a reset to the far end, unless that end is beyond caring.
    pub(super) fn reset_other(&mut self, id: EndId) {
        if let Some(other) = self.end(id).other
            && !self.end(other).closed
            && !self.end(other).reset
        {
            self.send_to(other, What::Reset(other));
        }
    }

    /// Something in the middle of the network resets the connection towards both ends.
    pub(in crate::sim) fn break_both(&mut self, id: EndId) {
        self.reset_other(id);
        if let Some(other) = self.end(id).other {
            self.reset_other(other);
        }
    }

    /// [`Net::break_both`] for every open connection to one address; returns how many ends it had.
    pub(in crate::sim) fn break_all_to(&mut self, to: &Address) -> usize {
        let listed = self.ends.iter().enumerate();
        let open = listed.filter(|(_, end)| end.to == *to && !end.closed && end.other.is_some());
        let open: Vec<EndId> = open.map(|(at, _)| EndId(at as u32)).collect();
        for end in &open {
            self.break_both(*end);
        }
        open.len()
    }

    /// Closes the sockets that were accepted and dropped unadopted.
    pub(in crate::sim) fn bury_dropped(&mut self) {
        // A panic elsewhere cannot leave a vector of ids in a bad state.
        let dropped = {
            let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *dropped)
        };
        for end in dropped {
            self.close(end);
        }
    }

    /// Makes a scripted peer not read for a while.
    pub(in crate::sim) fn stall(&mut self, id: EndId, stall_us: u64) {
        let until_us = self.now_us + stall_us;
        self.end_mut(id).script.stalled_until_us = until_us;
        self.schedule(until_us, What::GoOn(id));
    }

    /// Lets a scripted peer read what it may and write what it can.
    pub(in crate::sim) fn run_script(&mut self, id: EndId) {
        let now_us = self.now_us;
        let end = self.end_mut(id);
        if end.closed || end.connect != Connect::Done {
            return;
        }
        if !end.script.paused && end.script.stalled_until_us <= now_us {
            let bytes = self.read(id, usize::MAX);
            let end = self.end_mut(id);
            end.script.received.extend(bytes);
            end.script.eof = end.inbox.ended;
        }
        // Taken out for the time of writing, as `write` needs the whole network.
        let mut outbox = std::mem::take(&mut self.end_mut(id).script.outbox);
        if !outbox.is_empty() && !self.end(id).reset {
            let (front, back) = outbox.as_slices();
            let mut taken = self.write(id, front, usize::MAX);
            if taken == front.len() && !back.is_empty() {
                taken += self.write(id, back, usize::MAX);
            }
            outbox.drain(..taken);
        }
        let script = &mut self.end_mut(id).script;
        let finished = outbox.is_empty() && script.ends_after_outbox;
        script.outbox = outbox;
        if finished {
            self.end_stream(id);
        }
    }
}
