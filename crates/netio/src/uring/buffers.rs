//! Buffers that the kernel picks from when bytes come ("provided buffers"), in groups of one size.
//!
//! ```text
//!   ring    │ bid 7 │ bid 2 │ bid 5 │   │   │     entries between the kernel's head and our `tail` are the kernel's
//!               ▲ head            ▲ tail
//!   region  │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │ 7 │ …   address space for `buffers_max`; memory only for those provided so far
//! ```
//!
//! A buffer goes to the kernel ([`Group::provide`]), comes back with a completion as a [`Filled`], is read, and goes to the kernel again. A group begins
//! with few buffers and doubles their number when the kernel had none left.
//!
//! Not here: which connection receives into which group.
//!
//! Invariant: a buffer is read only through its [`Filled`], of which there is one for each completion that brought it; so nobody reads what
//! the kernel may write.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A buffer that the kernel has given to us, with what it wrote. To be given back with [`Group::provide`].
#[derive(Debug)]
#[must_use = "a buffer that is not provided again is lost to the kernel"]
pub(super) struct Filled {
    /// The buffer's name, of all groups of a ring.
    pub(super) bid: u16,
    /// Bytes written into it.
    pub(super) len: u32,
}

/// How a group begins and how far it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupOptions {
    /// Bytes of a buffer.
    pub(super) buffer_bytes: u32,
    /// Buffers at the beginning, at least 1.
    pub(super) buffers: u16,
    /// Buffers at most; a power of two, at most 2^15.
    pub(super) buffers_max: u16,
}

/// Buffers of one size. See the module.
#[derive(Debug)]
pub(super) struct Group {
    options: GroupOptions,
    /// Names are `bid_first` and following.
    bid_first: u16,
    ring: Map,
    region: Map,
    /// Buffers that exist so far.
    count: u16,
    /// Where the next entry goes; runs on beyond the size of the ring.
    tail: u16,
}

impl Group {
    /// A group whose buffers have names from `bid_first` on. The kernel does not know of it yet.
    pub(super) fn new(options: GroupOptions, bid_first: u16) -> Result<Self, Errno> {
        debug_assert!(options.buffers_max.is_power_of_two() && options.buffers > 0);
        let entries = usize::from(options.buffers_max);
        let ring = Map::new(entries * size_of::<BufRingEntry>())?;
        let region = Map::new(entries * options.buffer_bytes as usize)?;
        let mut group = Self { options, bid_first, ring, region, count: 0, tail: 0 };
        group.add(options.buffers.min(options.buffers_max));
        Ok(group)
    }

    /// Address and entries of the ring, for the kernel to be told.
    pub(super) fn ring(&self) -> (u64, u16) {
        (self.ring.at.as_ptr() as u64, self.options.buffers_max)
    }

    /// Whether the buffer is one of this group.
    pub(super) fn has(&self, filled: &Filled) -> bool {
        (self.bid_first..self.bid_first + self.options.buffers_max).contains(&filled.bid)
    }

    /// The size of its buffers, in bytes.
    pub(super) const fn buffer_bytes(&self) -> u32 {
        self.options.buffer_bytes
    }

    /// What the kernel has written.
    pub(super) fn bytes(&self, filled: &Filled) -> &[u8] {
        let at = usize::from(filled.bid - self.bid_first);
        assert!(at < usize::from(self.count), "a buffer that never was provided");
        assert!(filled.len <= self.options.buffer_bytes, "more bytes than the buffer has");
        // SAFETY: the place lies in the region, which is mapped, zeroed at first and lives as long as `self`. The kernel gave the buffer up with
        // the completion that `filled` stands for, and gets it again only when `filled` is given to `provide`, which needs `&mut self`.
        // Test: `buffers_come_back_with_what_was_sent` in ring.rs.
        unsafe {
            let start = self.region.at.as_ptr().add(at * self.options.buffer_bytes as usize);
            std::slice::from_raw_parts(start, filled.len as usize)
        }
    }

    /// Gives a buffer to the kernel again.
    pub(super) fn provide(&mut self, filled: Filled) {
        self.put(filled.bid);
        self.publish();
    }

    /// The kernel had no buffer left: there will be twice as many, up to the limit. Returns whether there are more now.
    pub(super) fn grow(&mut self) -> bool {
        let more = self.count.min(self.options.buffers_max - self.count);
        self.add(more);
        more > 0
    }

    /// How many buffers there are.
    pub(super) const fn count(&self) -> u16 {
        self.count
    }

    fn add(&mut self, more: u16) {
        for _ in 0..more {
            let bid = self.bid_first + self.count;
            self.count += 1;
            self.put(bid);
        }
        self.publish();
    }

    /// Writes an entry at the tail; the kernel does not look there before `publish`.
    fn put(&mut self, bid: u16) {
        let place = usize::from(self.tail & (self.options.buffers_max - 1));
        let at = usize::from(bid - self.bid_first);
        assert!(at < usize::from(self.count), "a buffer of another group");
        // SAFETY: `place` is below the number of entries, for which the mapping has room; a mapping is page-aligned and zeroed, which is a valid
        // entry. There are never more buffers than entries, so the entry at the tail is not among those that the kernel reads, and
        // of the first one's tail field only `publish` writes. `at` is below the number of buffers of the region.
        // Test: `buffers_come_back_with_what_was_sent` in ring.rs.
        unsafe {
            let entry = &mut *self.ring.at.as_ptr().cast::<BufRingEntry>().add(place);
            let start = self.region.at.as_ptr().add(at * self.options.buffer_bytes as usize);
            entry.set_addr(start as u64);
            entry.set_len(self.options.buffer_bytes);
            entry.set_bid(bid);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the entries written so far to the kernel.
    fn publish(&mut self) {
        // SAFETY: the ring's base is a page with at least one entry, in whose reserved field the tail lies, 2-aligned; the kernel only reads it. Release: it sees
        // the entries before the tail that covers them. Test: `buffers_come_back_with_what_was_sent` in ring.rs.
        unsafe {
            let tail = BufRingEntry::tail(self.ring.at.as_ptr().cast()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Anonymous memory of whole pages.
#[derive(Debug)]
struct Map {
    at: NonNull<u8>,
    bytes: usize,
}

impl Map {
    fn new(bytes: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory of ours. NORESERVE: most of it may never
        // be used. Test: `a_group_grows_to_its_limit_and_no_further`.
        let at = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)?
        };
        let at = NonNull::new(at.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Self { at, bytes })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it is the mapping that `new` made, whole, and nothing points into it any more: slices borrow the group, and the
        // ring is told to leave its buffers alone before the groups are dropped (`Ring`'s drop).
        // Test: `a_ring_goes_with_operations_in_flight` in ring.rs.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast::<c_void>(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_grows_to_its_limit_and_no_further() {
        let options = GroupOptions { buffer_bytes: 4096, buffers: 3, buffers_max: 8 };
        let mut group = Group::new(options, 100).unwrap();
        assert_eq!(group.count(), 3);
        assert!(group.grow());
        assert_eq!(group.count(), 6);
        assert!(group.grow());
        assert_eq!((group.count(), group.grow()), (8, false));
        assert!(
            group.has(&Filled { bid: 107, len: 0 }) && !group.has(&Filled { bid: 108, len: 0 })
        );
        assert_eq!(group.bytes(&Filled { bid: 107, len: 9 }), [0; 9]);
    }

    #[test]
    #[should_panic(expected = "more bytes than the buffer has")]
    fn a_length_beyond_the_buffer_is_not_believed() {
        let options = GroupOptions { buffer_bytes: 4096, buffers: 1, buffers_max: 1 };
        let group = Group::new(options, 0).unwrap();
        let _ = group.bytes(&Filled { bid: 0, len: 4097 });
    }
}
