//! What a process asks of its kernel beside sockets: limits, processor, names, its own costs. And the
//! few system calls that rustix lacks.
//!
//! Not here: sockets, and any decision about how many descriptors or which processor; callers say.
//!
//! Invariant: this module, those in it ([`sampler`]) and `uring::{ring, buffers}` are the only ones of the workspace with `unsafe` in them, and each
//! block names the test that runs it.
#![allow(unsafe_code)]

pub mod sampler;

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Processor time that was used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In our own code, in microseconds.
    pub user_us: u64,
    /// In the kernel on our behalf, in microseconds. The larger part, for a proxy.
    pub system_us: u64,
}

/// Raises the limit of open descriptors (RLIMIT_NOFILE) so that `wanted` fit, as far as allowed, and
/// returns the soft limit that holds afterwards, which may be less. It is never lowered.
///
/// The hard limit is raised too where the process has the right to (CAP_SYS_RESOURCE).
pub fn raise_open_files(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    // `None` is "unlimited" in both fields.
    let Some(soft) = now.current else { return u64::MAX };
    if soft >= wanted {
        return soft;
    }
    let hard = now.maximum.unwrap_or(u64::MAX);
    if hard < wanted
        && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: Some(wanted) })
            .is_ok()
    {
        return wanted;
    }
    let current = wanted.min(hard);
    match setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..now }) {
        Ok(()) => current,
        Err(_) => soft,
    }
}

/// The soft limit of open descriptors.
pub fn open_files_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many descriptors this process has open now.
///
/// # Errors
/// `/proc` is not mounted.
pub fn open_files() -> io::Result<usize> {
    // One of them is that of the folder itself.
    Ok(std::fs::read_dir("/proc/self/fd")?.count().saturating_sub(1))
}

/// The processors that this thread may run on, by their kernel numbers.
///
/// # Errors
/// Only if the kernel has more processors than a `CpuSet` counts (1024).
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Binds the calling thread to one processor.
///
/// # Errors
/// EINVAL if there is no such processor or this process may not use it.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Names the calling thread as `top -H` and `/proc` show it; cut to 15 bytes, NULs dropped.
///
/// # Errors
/// Does not fail on a Linux with prctl.
pub fn name_thread(name: &str) -> io::Result<()> {
    // TASK_COMM_LEN is 16 with the NUL; the kernel would cut within a character.
    let mut end = name.len().min(15);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = name[..end].bytes().filter(|byte| *byte != 0).collect::<Vec<u8>>();
    let name = CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(rustix::thread::set_name(&name)?)
}

/// Prepares the calling thread to be a worker: its name, its processor if one is given, and fine
/// timers.
///
/// The kernel may end a sleep up to 50 µs late by default ("timer slack"), which would double the
/// waits of [`Wait::Gather`](crate::Wait::Gather); it is set to 1 µs for this thread.
///
/// # Errors
/// Those of [`pin_thread`].
pub fn thread_setup(name: &str, cpu: Option<usize>) -> io::Result<()> {
    name_thread(name)?;
    rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS))?;
    match cpu {
        Some(cpu) => pin_thread(cpu),
        None => Ok(()),
    }
}

/// Processor time of the whole process, from its start.
pub fn process_cpu() -> CpuTime {
    resource_usage(libc::RUSAGE_SELF)
}

/// Processor time of the calling thread, from its start.
pub fn thread_cpu() -> CpuTime {
    resource_usage(libc::RUSAGE_THREAD)
}

/// Memory of this process that is in RAM (resident set), in bytes.
///
/// # Errors
/// `/proc` is not mounted or holds something unexpected.
pub fn resident_bytes() -> io::Result<u64> {
    // Field two of statm (proc(5)), in pages.
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).and_then(|field| field.parse::<u64>().ok());
    let pages = pages.ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages * page_bytes())
}

/// Microseconds of CLOCK_MONOTONIC; the clock of [`EpollDriver`](crate::EpollDriver).
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Monotonic time starts at boot and is never negative.
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// Sleeps until [`monotonic_us`] is `until_us`, or less if a signal comes.
pub(crate) fn sleep_until(until_us: u64) {
    // A time in the past returns at once, at the price of a system call that the caller can spare.
    // An early return is allowed by the contract of the caller (`Wait::Gather`).
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &timespec(until_us));
}

/// Room for the events of one epoll wait, and those of the last one.
///
/// rustix's own event type holds a pointer, which would tie the driver to the thread that made it.
pub(crate) struct EpollEvents {
    events: Vec<libc::epoll_event>,
}

impl EpollEvents {
    /// Room for `count` events.
    pub(crate) fn with_room(count: usize) -> Self {
        Self { events: Vec::with_capacity(count) }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// What happened at place `at`, and the data under which the descriptor was registered.
    pub(crate) fn at(&self, at: usize) -> (epoll::EventFlags, u64) {
        let libc::epoll_event { events, u64: data } = self.events[at];
        (epoll::EventFlags::from_bits_retain(events), data)
    }

    /// Waits for events, at most `timeout_us` microseconds or for ever. What was here before is gone.
    ///
    /// # Errors
    /// EINTR when a signal came.
    pub(crate) fn wait(
        &mut self,
        epoll: BorrowedFd<'_>,
        timeout_us: Option<u64>,
    ) -> Result<(), Errno> {
        self.events.clear();
        // Without a time to keep to the older call does the same. With one it knows only
        // milliseconds, and epoll_pwait2 (kernel 5.11) nanoseconds.
        let fine = timeout_us.filter(|us| *us > 0);
        let count = match fine {
            Some(us) if !PWAIT2_MISSING.load(Ordering::Relaxed) => self.wait_ns(epoll, us),
            _ => self.wait_ms(epoll, timeout_us),
        };
        let count = match count {
            // An old kernel does not know the new call; an old seccomp profile (Docker's before
            // 2021) answers EPERM to what it does not know.
            Err(Errno::NOSYS | Errno::PERM) if fine.is_some() => {
                PWAIT2_MISSING.store(true, Ordering::Relaxed);
                self.wait_ms(epoll, timeout_us)?
            }
            count => count?,
        };
        assert!(count <= self.events.capacity(), "more events than there is room for");
        // SAFETY: the kernel has written that many events, which is within the capacity, and an event
        // is plain data. Test: `until_keeps_microseconds` in tests/epoll.rs.
        unsafe { self.events.set_len(count) };
        Ok(())
    }

    /// epoll_pwait2; returns how many events the kernel wrote.
    fn wait_ns(&mut self, epoll: BorrowedFd<'_>, timeout_us: u64) -> Result<usize, Errno> {
        let timeout = timespec(timeout_us);
        // SAFETY: the pointer is good for `capacity` events, `Timespec` has the layout of `struct
        // __kernel_timespec`, a null sigmask is allowed, and the kernel keeps none of the pointers.
        // By number, as the C library has no wrapper before glibc 2.35.
        // Test: `until_keeps_microseconds` in tests/epoll.rs.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.capacity() as libc::c_int,
                std::ptr::from_ref(&timeout),
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        usize::try_from(count).map_err(|_| last_error())
    }

    /// epoll_wait, with the time rounded up so that it is never too short.
    fn wait_ms(&mut self, epoll: BorrowedFd<'_>, timeout_us: Option<u64>) -> Result<usize, Errno> {
        let round_up = |us: u64| us.div_ceil(1_000).min(libc::c_int::MAX as u64) as libc::c_int;
        let timeout_ms = timeout_us.map_or(-1, round_up);
        let capacity = self.events.capacity() as libc::c_int;
        // SAFETY: the pointer is good for `capacity` events, and the kernel does not keep it.
        // Test: `whole_milliseconds_serve_where_the_fine_call_is_missing`.
        let count = unsafe {
            libc::epoll_wait(epoll.as_raw_fd(), self.events.as_mut_ptr(), capacity, timeout_ms)
        };
        usize::try_from(count).map_err(|_| last_error())
    }
}

/// The error of the last system call of this thread.
pub(crate) fn last_error() -> Errno {
    Errno::from_raw_os_error(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
}

fn resource_usage(who: libc::c_int) -> CpuTime {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is good for one `rusage`. Test: `cpu_time_grows_with_work`.
    let failed = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    // It fails only for a `who` that does not exist, and ours are constants.
    debug_assert_eq!(failed, 0, "getrusage knows RUSAGE_SELF and RUSAGE_THREAD");
    // SAFETY: all zeroes are a valid `rusage`, whether or not the kernel wrote it.
    // Test: `cpu_time_grows_with_work`.
    let usage = unsafe { usage.assume_init() };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    CpuTime { user_us: us(usage.ru_utime), system_us: us(usage.ru_stime) }
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf takes no pointer. Test: `memory_is_counted_in_bytes`.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // POSIX demands an answer; 4 KiB is the smallest page of any Linux.
    u64::try_from(bytes).unwrap_or(4096)
}

/// Microseconds as the kernel takes them.
pub(crate) fn timespec(us: u64) -> Timespec {
    // Far beyond any uptime, far below what the kernel's own nanosecond arithmetic can hold.
    let us = us.min(SLEEP_US_MAX);
    Timespec { tv_sec: (us / 1_000_000) as i64, tv_nsec: (us % 1_000_000 * 1_000) as _ }
}

/// Lets the memory of large buffers go back to the system when they are freed. To be called once, before there are threads.
///
/// glibc's malloc takes the first large buffers from the system and gives them back. But with each that is freed it moves its limit for
/// that up, to 32 MiB in the end, and from then on cuts them out of the heap of each thread, of which a small block behind them holds all
/// (mallopt(3), `M_MMAP_THRESHOLD`). After requests with a hundred thousand keys, 35 MiB were left of a process that had
/// 7 before and needed 10. A limit that is set stays where it is. Other allocators have no such call, nor need of it.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    for (option, bytes) in
        [(libc::M_MMAP_THRESHOLD, LARGE_BUFFER_BYTES), (libc::M_TRIM_THRESHOLD, HEAP_SPARE_BYTES)]
    {
        // SAFETY: mallopt takes numbers and no pointer. Test: `large_buffers_go_back_to_the_system`.
        let taken = unsafe { libc::mallopt(option, bytes) };
        debug_assert_eq!(taken, 1, "glibc knows both options");
    }
}

/// Gives memory back to the system that the allocator keeps between what is in use. It goes through all that is free, so it is for moments in which much
/// of it is. Other allocators than glibc's have no such call, nor need of it.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes a number and no pointer, and locks what it looks at. Test: `what_is_free_between_other_memory_goes_back`.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Above what sends and replies take at a time, so that these are not mapped and unmapped again and again.
#[cfg(target_env = "gnu")]
const LARGE_BUFFER_BYTES: libc::c_int = 1 << 20;

/// What a heap keeps at its end for the next allocations.
#[cfg(target_env = "gnu")]
const HEAP_SPARE_BYTES: libc::c_int = 4 << 20;

/// Timer slack of workers. One microsecond is of the order of the cost of waking up.
const TIMER_SLACK_NS: u64 = 1_000;

/// A hundred years.
const SLEEP_US_MAX: u64 = 100 * 365 * 24 * 3600 * 1_000_000;

/// Whether epoll_pwait2 was asked for and refused. The kernel does not change while we run.
static PWAIT2_MISSING: AtomicBool = AtomicBool::new(false);

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::PoisonError;

    #[test]
    fn cpu_time_grows_with_work() {
        let (process, thread) = (process_cpu(), thread_cpu());
        let total = |time: CpuTime| time.user_us + time.system_us;
        let mut sum = 0u64;
        // Bounded by the work, not by the clock: each round is some microseconds.
        for round in 0..50_000_000u64 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(round));
            if round % 10_000 == 0 && total(thread_cpu()) > total(thread) + 5_000 {
                break;
            }
        }
        let used = total(thread_cpu()) - total(thread);
        assert!(used >= 5_000, "the loop took {used} µs of processor time");
        assert!(total(process_cpu()) - total(process) >= 5_000);
    }

    #[test]
    fn whole_milliseconds_serve_where_the_fine_call_is_missing() {
        use rustix::event::{EventfdFlags, epoll, eventfd};
        use std::os::fd::AsFd;

        let _alone = sampler::tests::ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut events = EpollEvents::with_room(4);
        let begin_us = monotonic_us();
        assert_eq!(events.wait_ms(epoll.as_fd(), Some(1_001)), Ok(0));
        assert!(monotonic_us() - begin_us >= 1_900, "1001 µs are rounded up to two milliseconds");

        let ready = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        epoll::add(&epoll, &ready, epoll::EventData::new_u64(77), epoll::EventFlags::IN).unwrap();
        for timeout_us in [None, Some(0), Some(1_000_000)] {
            events.wait(epoll.as_fd(), timeout_us).unwrap();
            assert_eq!(events.len(), 1, "{timeout_us:?}");
            assert_eq!(events.at(0), (epoll::EventFlags::IN, 77), "{timeout_us:?}");
        }
    }

    #[test]
    fn a_worker_thread_has_its_name_processor_and_slack() {
        let cpu = allowed_cpus().unwrap()[0];
        std::thread::spawn(move || {
            thread_setup("worker-with-a-long-näme", Some(cpu)).unwrap();
            assert_eq!(rustix::thread::name().unwrap().to_str().unwrap(), "worker-with-a-l");
            assert_eq!(allowed_cpus().unwrap(), [cpu]);
            assert_eq!(rustix::thread::current_timer_slack().unwrap(), TIMER_SLACK_NS);
        })
        .join()
        .unwrap();
        assert!(pin_thread(100_000).is_err(), "no such processor");
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        std::thread::spawn(|| {
            name_thread("fourteen-bytesä").unwrap();
            assert_eq!(rustix::thread::name().unwrap().to_str().unwrap(), "fourteen-bytes");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn open_files_are_raised_and_never_lowered() {
        let achieved = raise_open_files(64);
        assert!(achieved >= 64);
        assert_eq!(raise_open_files(1), achieved, "asking for less changes nothing");
        assert_eq!(open_files_limit(), achieved);
        let open = open_files().unwrap();
        assert!(open >= 3 && (open as u64) < achieved, "{open}");
    }
}
