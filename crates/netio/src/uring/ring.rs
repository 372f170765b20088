//! The two queues that are shared with the kernel, and the memory that it reads and writes: buffers to receive into, flights that are sent.
//!
//! ```text
//!   driver ─push─▶ SQ ─enter─▶ kernel ─completion─▶ CQ ─take─▶ driver
//!                  │ full: the overhang waits in `waiting`, in order
//! ```
//!
//! Deferred task work: the kernel completes nothing behind our back, only inside [`Ring::enter`], which always asks for completions
//! (IORING_ENTER_GETEVENTS). A single thread uses the ring, the one that made it.
//!
//! Not here: what an operation means for a connection.
//!
//! Invariant: memory that was named to the kernel stays until the last completion of the operation that names it has been taken. Where that cannot be waited for (a
//! drop while the kernel does not answer), the memory is left to the process for good.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;

use super::buffers::{Filled, Group, GroupOptions};
use super::conn::Buffers;
use super::flight::Flight;
use super::op::Op;
use super::probe::{Unfit, knows_operations};
use crate::driver::ConnId;
use crate::slab::Slab;
use crate::sys;

/// Sizes of a ring and its buffers.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingOptions {
    /// Operations that go to the kernel in one system call.
    pub(super) sq_entries: u32,
    /// Completions that have room before the kernel must keep them for itself.
    pub(super) cq_entries: u32,
    /// Buffers of connections that receive little at a time.
    pub(super) small: GroupOptions,
    /// Buffers of connections that receive much.
    pub(super) large: GroupOptions,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            sq_entries: 256,
            cq_entries: 4096,
            // Requests and replies of most applications; a page.
            small: GroupOptions { buffer_bytes: 4 << 10, buffers: 128, buffers_max: 2048 },
            // As long as the reads of the epoll driver.
            large: GroupOptions { buffer_bytes: 64 << 10, buffers: 8, buffers_max: 64 },
        }
    }
}

impl RingOptions {
    /// The same with rings of a fraction of the size, for a process that may lock little memory: some 20 KiB.
    pub(super) fn modest(self) -> Self {
        let few = |group: GroupOptions, most: u16| GroupOptions {
            buffers: group.buffers.min(most),
            buffers_max: group.buffers_max.min(most),
            ..group
        };
        Self {
            sq_entries: self.sq_entries.min(64),
            cq_entries: self.cq_entries.min(512),
            small: few(self.small, 256),
            large: few(self.large, 16),
        }
    }
}

/// What came of an operation.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) op: Op,
    pub(super) result: Result<u32, Errno>,
    /// The operation goes on (IORING_CQE_F_MORE).
    pub(super) more: bool,
    /// A buffer that came with it.
    pub(super) filled: Option<Filled>,
}

/// Queues and memory. See the module.
pub(super) struct Ring {
    uring: IoUring,
    memory: ManuallyDrop<Memory>,
    /// The ring's descriptor, or its place among those registered for this thread.
    enter_fd: RawFd,
    enter_flags: u32,
    /// Operations for which the queue had no room.
    waiting: VecDeque<squeue::Entry>,
    /// Operations whose last completion has not been taken.
    open: usize,
    /// Sends among those that the kernel has not seen.
    sends_queued: u32,
    /// What flights hold that are copies.
    copies_bytes: usize,
    overflows: u64,
    /// It belongs to the thread that made it (IORING_SETUP_SINGLE_ISSUER).
    _thread: PhantomData<*const ()>,
}

/// What the kernel reads and writes.
#[derive(Debug)]
struct Memory {
    small: Group,
    large: Group,
    flights: Slab<Flight>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("open", &self.open).finish_non_exhaustive()
    }
}

impl Ring {
    /// Sets a ring up and has an operation that does nothing go through it.
    pub(super) fn new(options: &RingOptions) -> Result<Self, Unfit> {
        let uring = set_up(options)?;
        let failed = |what| move |error: Errno| Unfit::Failed(what, error.raw_os_error());
        let mut known = Probe::new();
        let asked = uring.submitter().register_probe(&mut known).map_err(errno_of);
        asked.map_err(failed("ask for the operations of io_uring"))?;
        knows_operations(&known)?;
        let no_memory = failed("have memory for buffers");
        let memory = Memory {
            small: Group::new(options.small, 0).map_err(no_memory)?,
            large: Group::new(options.large, options.small.buffers_max).map_err(no_memory)?,
            flights: Slab::new(),
        };
        let (fd, overhang) = (uring.as_raw_fd(), VecDeque::new());
        let mut enter_flags = ENTER_GETEVENTS | ENTER_EXT_ARG;
        if uring.params().is_feature_no_iowait() {
            // An idle worker would look like one that waits for a disk.
            enter_flags |= ENTER_NO_IOWAIT;
        }
        let mut ring = Self {
            uring,
            memory: ManuallyDrop::new(memory),
            enter_fd: fd,
            enter_flags,
            waiting: overhang,
            open: 0,
            sends_queued: 0,
            copies_bytes: 0,
            overflows: 0,
            _thread: PhantomData,
        };
        ring.register_groups().map_err(|error| match error {
            Errno::NOMEM => Unfit::Memory,
            error => failed("register buffers to receive into")(error),
        })?;
        ring.register_own_fd();
        ring.try_out()?;
        Ok(ring)
    }

    /// Begins to receive: with each completion comes a buffer.
    pub(super) fn recv(&mut self, fd: BorrowedFd<'_>, id: ConnId, buffers: Buffers) {
        let fd = types::Fd(fd.as_raw_fd());
        let once = |group: u16, bytes: u32| {
            opcode::Recv::new(fd, std::ptr::null_mut(), bytes)
                .buf_group(group)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT)
        };
        let entry = match buffers {
            Buffers::First => once(SMALL_GROUP, self.memory.small.buffer_bytes()),
            Buffers::Small => opcode::RecvMulti::new(fd, SMALL_GROUP).build(),
            Buffers::Large => once(LARGE_GROUP, self.memory.large.buffer_bytes()),
        };
        self.push(entry, Op::Recv(id));
    }

    /// Waits once for events of poll(2).
    pub(super) fn poll(&mut self, fd: BorrowedFd<'_>, events: u32, op: Op) {
        self.push(opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), events).build(), op);
    }

    /// Stops an operation. It ends with a completion of its own, ECANCELED or what it came to before.
    pub(super) fn cancel(&mut self, op: Op) {
        let which = types::CancelBuilder::user_data(op.data());
        self.push(quiet_cancel(which), Op::Cancel);
    }

    /// Sends what is left of a flight. The kernel goes on by itself while the peer does not read (MSG_WAITALL); the completion comes when all is out, or when the
    /// connection breaks. The descriptor must stay open until the kernel has seen it ([`Ring::is_submitted`]).
    pub(super) fn launch(&mut self, fd: RawFd, flight: Flight) -> ConnId {
        self.copies_bytes += flight.copy_bytes();
        let id = self.memory.flights.insert(flight);
        self.relaunch(fd, id);
        id
    }

    /// Sends what is left of a flight that has come back.
    pub(super) fn relaunch(&mut self, fd: RawFd, id: ConnId) {
        let Some(flight) = self.memory.flights.get_mut(id) else { return };
        assert!(!flight.is_in_kernel(), "one operation for each flight");
        let rest = flight.rest();
        // Longer ones are sent in pieces, as the result must fit into an i32.
        let len = rest.len().min(SEND_BYTES_MAX) as u32;
        let entry = opcode::Send::new(types::Fd(fd), rest.as_ptr(), len)
            // Without NOSIGNAL a broken connection would kill the process by SIGPIPE.
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build();
        flight.launched();
        self.sends_queued += 1;
        self.push(entry, Op::Send(id));
    }

    /// A flight, to say more about it.
    pub(super) fn flight_mut(&mut self, id: ConnId) -> Option<&mut Flight> {
        self.memory.flights.get_mut(id)
    }

    /// Takes a flight out that has come back.
    pub(super) fn land(&mut self, id: ConnId) -> Option<Flight> {
        let in_kernel = self.memory.flights.get(id)?.is_in_kernel();
        assert!(!in_kernel, "a flight was taken before its completion");
        let flight = self.memory.flights.remove(id)?;
        self.copies_bytes -= flight.copy_bytes();
        Some(flight)
    }

    /// What flights hold that are copies.
    pub(super) const fn copies_bytes(&self) -> usize {
        self.copies_bytes
    }

    /// The bytes that came with a completion.
    pub(super) fn bytes(&self, filled: &Filled) -> &[u8] {
        match self.memory.small.has(filled) {
            true => self.memory.small.bytes(filled),
            false => self.memory.large.bytes(filled),
        }
    }

    /// Whether a buffer is full.
    pub(super) fn is_full(&self, filled: &Filled) -> bool {
        filled.len >= self.memory.small.buffer_bytes()
    }

    /// Gives a buffer to the kernel again.
    pub(super) fn recycle(&mut self, filled: Filled) {
        match self.memory.small.has(&filled) {
            true => self.memory.small.provide(filled),
            false => self.memory.large.provide(filled),
        }
    }

    /// More buffers of a size, of which there were none left.
    pub(super) fn grow(&mut self, large: bool) {
        match large {
            true => self.memory.large.grow(),
            false => self.memory.small.grow(),
        };
    }

    /// Small and large buffers that exist.
    pub(super) fn buffers(&self) -> (u16, u16) {
        (self.memory.small.count(), self.memory.large.count())
    }

    /// Sends that go to the kernel with the next [`Ring::enter`].
    pub(super) const fn sends_queued(&self) -> u32 {
        self.sends_queued
    }

    /// Whether the kernel has seen all that was pushed. Only then may a descriptor be closed that an operation names.
    pub(super) fn is_submitted(&mut self) -> bool {
        self.waiting.is_empty() && self.uring.submission().is_empty()
    }

    /// How often there were more completions than room. The kernel keeps them, and nothing is lost, at a price.
    pub(super) const fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Hands the kernel all that was pushed, and waits for `want` completions or so many microseconds. While the kernel does not take
    /// everything there is no waiting: an operation that it has not seen would never end the wait. No system call is made where there
    /// is nothing to hand over, nothing to wait for and nothing to be completed.
    pub(super) fn enter(&mut self, want: u32, timeout_us: Option<u64>) {
        self.hand_over();
        match self.waiting.is_empty() {
            true => self.call(want, timeout_us),
            false => self.call(0, None),
        }
    }

    /// Empties `waiting` through the queue, in as many system calls as that takes. What the kernel does not take now stays.
    fn hand_over(&mut self) {
        self.refill();
        while !self.waiting.is_empty() {
            self.call(0, None);
            if !self.uring.submission().is_empty() {
                return;
            }
            self.refill();
        }
    }

    /// One system call, for what is in the queue.
    fn call(&mut self, want: u32, timeout_us: Option<u64>) {
        let (queued, busy, overflown) = {
            let sq = self.uring.submission();
            (sq.len() as u32, sq.taskrun(), sq.cq_overflow())
        };
        self.overflows += u64::from(overflown);
        if queued == 0 && want == 0 && !busy && !overflown {
            return;
        }
        let timeout = timeout_us.map(sys::timespec);
        let timeout_at = timeout.as_ref().map_or(0, |timeout| std::ptr::from_ref(timeout) as u64);
        let arg = GetEvents { sigmask: 0, sigmask_bytes: 0, min_wait_us: 0, timeout_at };
        // SAFETY: the queue's entries name memory that stays (see `push`); `arg` has the layout of `struct io_uring_getevents_arg` and lives, with the time it
        // points to, until the call returns. Test: `a_wait_for_completions_ends_by_its_time`.
        let entered = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                queued,
                want,
                self.enter_flags,
                std::ptr::from_ref(&arg),
                size_of::<GetEvents>(),
            )
        };
        if entered < 0 {
            // ETIME: the time is over. EINTR: a signal. EBUSY: completions must be taken first. EAGAIN, ENOMEM: what was not taken is tried again. In each
            // case the caller takes what there is and comes again.
            let error = sys::last_error();
            debug_assert!(
                matches!(
                    error,
                    Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN | Errno::NOMEM
                ),
                "io_uring_enter failed: {error}"
            );
        }
        if self.uring.submission().is_empty() {
            self.sends_queued = 0;
        }
    }

    /// Whether the kernel has more to complete than it did in the last [`Ring::enter`].
    pub(super) fn has_more(&mut self) -> bool {
        self.uring.submission().taskrun()
    }

    /// Appends the completions that are there.
    pub(super) fn take(&mut self, into: &mut Vec<Completion>) {
        let Self { uring, memory, open, .. } = self;
        for entry in uring.completion() {
            let more = cqueue::more(entry.flags());
            let result = match u32::try_from(entry.result()) {
                Ok(result) => Ok(result),
                Err(_) => Err(Errno::from_raw_os_error(-entry.result())),
            };
            let op = Op::of(entry.user_data());
            if let Op::Send(id) = op
                && let Some(flight) = memory.flights.get_mut(id)
            {
                flight.completed(result.unwrap_or(0) as usize);
            }
            let filled = cqueue::buffer_select(entry.flags())
                .map(|bid| Filled { bid, len: result.unwrap_or(0) });
            if !more && op != Op::Cancel {
                *open -= 1;
            }
            into.push(Completion { op, result, more, filled });
        }
    }

    /// Puts an operation into the queue. What it points to must be a flight, which stays, or a group of buffers, which lives as long as the ring.
    fn push(&mut self, entry: squeue::Entry, op: Op) {
        let entry = entry.user_data(op.data());
        if op != Op::Cancel {
            self.open += 1;
        }
        if self.waiting.is_empty() && self.push_now(&entry) {
            return;
        }
        self.waiting.push_back(entry);
        if self.waiting.len() == 1 {
            // The queue is full: the kernel takes it, and there is room for more.
            self.hand_over();
        }
    }

    fn push_now(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the entries of this file point to nothing, or to bytes of a flight that was marked as launched: it is neither
        // changed nor freed before its completion was taken (`Flight::land`), also when the ring is dropped.
        // Test: `a_buffer_in_the_kernel_cannot_be_had` in flight.rs, `a_ring_goes_with_operations_in_flight`.
        unsafe { self.uring.submission().push(entry) }.is_ok()
    }

    /// Moves operations that had no room into the queue, in order.
    fn refill(&mut self) {
        while let Some(entry) = self.waiting.pop_front() {
            if !self.push_now(&entry) {
                self.waiting.push_front(entry);
                return;
            }
        }
    }

    fn register_groups(&mut self) -> Result<(), Errno> {
        for (id, group) in [(SMALL_GROUP, &self.memory.small), (LARGE_GROUP, &self.memory.large)] {
            let (at, entries) = group.ring();
            // SAFETY: the address is a mapping with room for so many entries, page-aligned, which lives until the ring is gone
            // or for good. Test: `buffers_come_back_with_what_was_sent`.
            let told =
                unsafe { self.uring.submitter().register_buf_ring_with_flags(at, entries, id, 0) };
            told.map_err(errno_of)?;
        }
        Ok(())
    }

    /// Has the kernel find the ring without looking at the descriptor table. Without it all works as well.
    fn register_own_fd(&mut self) {
        let mut update =
            RingFd { offset: u32::MAX, reserved: 0, data: self.uring.as_raw_fd() as u64 };
        if self.register_fds(REGISTER_RING_FDS, &mut update) == 1 {
            self.enter_fd = update.offset as RawFd;
            self.enter_flags |= ENTER_REGISTERED_RING;
        }
    }

    /// The registered place holds the ring open, so it must be given up for the ring to go.
    fn unregister_own_fd(&mut self) {
        if self.enter_flags & ENTER_REGISTERED_RING != 0 {
            let mut update = RingFd { offset: self.enter_fd as u32, reserved: 0, data: 0 };
            self.register_fds(UNREGISTER_RING_FDS, &mut update);
            self.enter_fd = self.uring.as_raw_fd();
            self.enter_flags &= !ENTER_REGISTERED_RING;
        }
    }

    fn register_fds(&self, what: libc::c_uint, update: &mut RingFd) -> libc::c_long {
        // SAFETY: `update` has the layout of `struct io_uring_rsrc_update`, one of them, and the kernel does not keep the pointer.
        // Test: `a_ring_is_found_by_its_place_and_gives_it_back`.
        unsafe {
            libc::syscall(
                libc::SYS_io_uring_register,
                self.uring.as_raw_fd(),
                what,
                std::ptr::from_mut(update),
                1,
            )
        }
    }

    /// Has an operation that does nothing come back.
    fn try_out(&mut self) -> Result<(), Unfit> {
        self.push(opcode::Nop::new().build(), Op::Nop);
        self.enter(1, Some(PATIENCE_US));
        let mut done = Vec::new();
        self.take(&mut done);
        match done.as_slice() {
            [Completion { op: Op::Nop, result: Ok(_), .. }] => Ok(()),
            _ => Err(Unfit::Failed("run an operation of io_uring", libc::EIO)),
        }
    }

    /// Ends all operations. Returns whether the last completion of each has come.
    fn settle(&mut self) -> bool {
        let until_us = sys::monotonic_us() + PATIENCE_US;
        let mut done = Vec::new();
        while self.open > 0 && sys::monotonic_us() < until_us {
            // Again in each round: what had no room before may be in the kernel only now.
            self.push(quiet_cancel(types::CancelBuilder::any().all()), Op::Cancel);
            self.enter(1, Some(SETTLE_US));
            self.take(&mut done);
            done.clear();
        }
        self.open == 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let settled = self.settle();
        debug_assert!(settled || std::thread::panicking(), "{} operations did not end", self.open);
        self.unregister_own_fd();
        if settled {
            // SAFETY: it is not used after this, and as no operation is open the kernel has no use for it either.
            // Test: `a_ring_goes_with_operations_in_flight`.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

fn set_up(options: &RingOptions) -> Result<IoUring, Unfit> {
    let ring = IoUring::builder()
        // One thread, and completions only when it asks: no interrupt of what it does, and the kernel needs no lock.
        .setup_single_issuer()
        .setup_defer_taskrun()
        // Tells by a flag that there is something to complete, so that a poll without need costs no system call.
        .setup_taskrun_flag()
        // One bad operation does not hold those behind it up.
        .setup_submit_all()
        .setup_cqsize(options.cq_entries)
        .build(options.sq_entries);
    let ring = ring.map_err(|error| {
        let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
        Unfit::of_setup(errno_of(error), disabled.as_deref())
    })?;
    let params = ring.params();
    if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
        return Err(Unfit::TooOld("waits have no time, or completions may be lost"));
    }
    Ok(ring)
}

fn quiet_cancel(which: types::CancelBuilder) -> squeue::Entry {
    opcode::AsyncCancel2::new(which).build().flags(squeue::Flags::SKIP_SUCCESS)
}

#[allow(clippy::needless_pass_by_value)]
fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EINVAL))
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct GetEvents {
    sigmask: u64,
    sigmask_bytes: u32,
    min_wait_us: u32,
    timeout_at: u64,
}

/// `struct io_uring_rsrc_update`, as it serves for registered rings.
#[repr(C)]
struct RingFd {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// `IORING_ENTER_*` and `IORING_*REGISTER_*` of linux/io_uring.h, which libc lacks and the crate keeps to itself.
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const ENTER_NO_IOWAIT: u32 = 1 << 7;
const REGISTER_RING_FDS: libc::c_uint = 20;
const UNREGISTER_RING_FDS: libc::c_uint = 21;

const SMALL_GROUP: u16 = 0;
const LARGE_GROUP: u16 = 1;

/// Bytes of one send; more go in several.
const SEND_BYTES_MAX: usize = 1 << 30;

/// How long the kernel may take to answer where nothing but itself is waited for, in microseconds.
const PATIENCE_US: u64 = 1_000_000;

/// A round of the end.
const SETTLE_US: u64 = 10_000;

#[cfg(test)]
mod tests;
