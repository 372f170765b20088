//! Waiting for sockets: a level-triggered epoll and a timer, over rustix.
//!
//! Level-triggered, so that a read which leaves something behind is simply told again. The timer exists because
//! epoll's own timeout has milliseconds, far too coarse for a schedule of thousands of requests per second.
//!
//! Invariant: [`Poll::wait`] returns after [`TICK`] at the latest, so that whoever waits sees that the load is over.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// Longest time between two looks at the world. A cancelled load ends within it.
const TICK: Duration = Duration::from_millis(20);

/// Events taken at once.
const EVENTS: usize = 1024;

/// The token of the timer, which no connection has.
const TIMER: u64 = u64::MAX;

/// What happened to a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// The number it was added with.
    pub(super) token: usize,
    /// It can be read, or it ended or failed, which a read will tell.
    pub(super) readable: bool,
    /// It ended or failed.
    pub(super) broken: bool,
    /// It can be written.
    pub(super) writable: bool,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, self.read);
        flags.set(epoll::EventFlags::OUT, self.write);
        flags
    }
}

/// An epoll instance with its timer.
pub(super) struct Poll {
    epoll: OwnedFd,
    timer: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(Self { epoll, timer, events: Vec::with_capacity(EVENTS) })
    }

    /// Adds a socket. It leaves by being closed.
    pub(super) fn add(
        &self,
        socket: impl AsFd,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            socket,
            epoll::EventData::new_u64(token as u64),
            interest.flags(),
        )?)
    }

    /// Changes what is waited for.
    pub(super) fn set(
        &self,
        socket: impl AsFd,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            socket,
            epoll::EventData::new_u64(token as u64),
            interest.flags(),
        )?)
    }

    /// Makes the next `wait` return after `ns` at the latest. An earlier wish is forgotten.
    pub(super) fn wake_after(&self, ns: u64) -> io::Result<()> {
        // A timer of 0 would be none.
        let ns = ns.max(1);
        let after = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as _,
            },
        };
        // Setting it also takes back that it rang, so it need not be read.
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &after)?;
        Ok(())
    }

    /// Waits until something happens, for at most [`TICK`].
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.events.clear();
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as _ };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Event number `at` of the last `wait`, without those of the timer; `None` behind the last.
    #[inline]
    pub(super) fn event(&self, at: usize) -> Option<Option<Event>> {
        let event = self.events.get(at)?;
        let (token, flags) = (event.data.u64(), event.flags);
        if token == TIMER {
            return Some(None);
        }
        let broken = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        Some(Some(Event {
            token: token as usize,
            readable: broken || flags.contains(epoll::EventFlags::IN),
            broken,
            writable: flags.contains(epoll::EventFlags::OUT),
        }))
    }
}
