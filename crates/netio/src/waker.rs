//! Wakes a worker that sleeps in [`Driver::wait`](crate::Driver::wait), from any thread.
//!
//! It carries no message: whoever wakes puts the message somewhere first, and the worker looks there
//! after [`Event::Woken`](crate::Event::Woken). Many wakes before the worker looks are one event and
//! one system call.
//!
//! In the simulated network it has no eventfd: the driver there never sleeps and only looks.
//!
//! Invariant: whatever was written before [`Waker::wake`] is visible to the worker when it handles
//! the next `Woken`, and that `Woken` comes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes one driver. Cheap to clone; holding one does not keep the driver alive.
#[derive(Clone, Debug)]
pub struct Waker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// What epoll watches; `None` in the simulated network.
    eventfd: Option<OwnedFd>,
    /// True from the first wake until the driver has taken it: later wakes then need no system call.
    pending: AtomicBool,
}

impl Waker {
    /// A waker with its own eventfd.
    ///
    /// # Errors
    /// No descriptor left (EMFILE, ENFILE) or no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Shared { eventfd: Some(eventfd), pending: AtomicBool::new(false) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A waker that only remembers, for a driver that never sleeps.
    pub(crate) fn simulated() -> Self {
        Self { shared: Arc::new(Shared { eventfd: None, pending: AtomicBool::new(false) }) }
    }

    /// The descriptor that epoll has to watch, if there is one.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.shared.eventfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether a wake-up waits to be taken.
    pub(crate) fn is_pending(&self) -> bool {
        self.shared.pending.load(Ordering::Acquire)
    }

    /// Makes the driver's current or next wait return with [`Event::Woken`](crate::Event::Woken).
    pub fn wake(&self) {
        if self.shared.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(eventfd) = &self.shared.eventfd {
            // An eventfd write fails only if the counter would overflow, and `pending` allows one
            // write per take. There is nobody to tell, and nothing to do about it.
            let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Takes the wake-up, on the driver's side.
    ///
    /// The eventfd is emptied first and `pending` cleared after. The other way round, a wake in
    /// between would have its write swallowed while `pending` stayed true, and no later wake would
    /// ever write again.
    pub(crate) fn take(&self) {
        if let Some(eventfd) = &self.shared.eventfd {
            let mut count = [0u8; 8];
            let _ = rustix::io::read(eventfd, &mut count);
        }
        self.shared.pending.swap(false, Ordering::AcqRel);
    }
}
