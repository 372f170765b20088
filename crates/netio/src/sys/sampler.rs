//! Takes samples of what the threads of this process do: their registers and the top of their stacks, at a rate of processor time.
//!
//! ```text
//!   setitimer ─ SIGPROF ─▶ on_tick, on the thread that runs ─▶ a free slot: free ─▶ filling ─▶ full
//!                                                                           ▲                   │
//!                                                                           └────── drain ◀─────┘  on the thread that asked
//! ```
//! The signal handler only copies, by a system call that answers with an error where an ordinary read of a wrong address would end the process.
//! It takes no lock, allocates nothing and unwinds nothing, so it may interrupt anything, `malloc` too. What
//! the bytes mean is found out later, by whoever drains them.
//!
//! Not here: unwinding, symbols, names of threads.
//!
//! Invariant: while there is no [`Sampler`], there is no timer and no handler, and a slot that is not `free` is touched by one thread only.

use std::cell::UnsafeCell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// What a thread did at one moment.
#[derive(Debug)]
pub struct Sample<'a> {
    /// The kernel's number of the thread.
    pub tid: u32,
    /// Its registers.
    pub registers: Registers,
    /// Whether it had just left the kernel: signals wait for the end of a system call, so its time is that of the instruction before `registers.pc`.
    pub in_kernel: bool,
    /// Its stack from `registers.sp` upwards, as far as it was copied.
    stack: &'a [u8],
}

/// The registers that unwinding begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Address of the instruction that comes next.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, whether or not it is used as one.
    pub fp: u64,
    /// Where the function returns to, on processors that have a register for it; else 0.
    pub lr: u64,
}

impl Sample<'_> {
    /// The eight bytes at an address of the stack; `None` outside of what was copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.registers.sp)?).ok()?;
        let bytes = self.stack.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

/// Samples are taken while it lives. At most one at a time in a process.
#[derive(Debug)]
pub struct Sampler {
    /// What `RING` points to; freed when this is dropped.
    ring: *mut Ring,
}

impl Sampler {
    /// Begins to take `hz` samples for each second of processor time, of all threads together. The kernel looks at its ticks, so that more than some
    /// hundred are not to be had; 0 counts as 1.
    ///
    /// SIGPROF is handled from here on, and ignored when it has ended: one that the kernel has under way must not end the process.
    ///
    /// # Errors
    /// `ResourceBusy` while there is another one; `Unsupported` on processors other than x86-64 and ARM64; what the system says
    /// if it lets a process neither have a timer nor read its own memory by `process_vm_readv`.
    pub fn start(hz: u32) -> io::Result<Self> {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let probe = 7u64;
        let mut again = [0u8; 8];
        if copy(ptr::from_ref(&probe) as u64, &mut again)? != again.len() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if RUNNING.swap(true, Ordering::SeqCst) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let ring = Box::into_raw(Box::new(Ring::new()));
        RING.store(ring, Ordering::SeqCst);
        // From here on its drop undoes whatever was done.
        let sampler = Self { ring };
        handle(on_tick as *const () as libc::sighandler_t, libc::SA_SIGINFO | libc::SA_RESTART)?;
        set_timer(1_000_000 / hz.clamp(1, HZ_MAX))?;
        Ok(sampler)
    }

    /// Tells of every sample that waits, and makes room for others. To be called often enough: see [`Self::lost`].
    pub fn drain(&mut self, mut on_sample: impl FnMut(&Sample<'_>)) {
        for slot in &self.ring().slots {
            if slot.state.load(Ordering::Acquire) != FULL {
                continue;
            }
            // SAFETY: a full slot is nobody's but of who drains, and `&mut self` makes that one. The handler filled it before it
            // said so. Test: `a_busy_thread_is_seen_where_it_is`.
            let raw = unsafe { &*slot.raw.get() };
            let stack = &raw.stack[..raw.stack_len];
            let (tid, registers, in_kernel) = (raw.tid, raw.registers, raw.in_kernel);
            on_sample(&Sample { tid, registers, in_kernel, stack });
            slot.state.store(FREE, Ordering::Release);
        }
    }

    /// Samples that found no room, since the start: [`Self::drain`] did not come in time.
    pub fn lost(&self) -> u64 {
        self.ring().lost.load(Ordering::Relaxed)
    }

    fn ring(&self) -> &Ring {
        // SAFETY: made by `start`, freed by `drop` only. Test: `a_busy_thread_is_seen_where_it_is`.
        unsafe { &*self.ring }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // Neither can fail: timer and signal exist, and the arguments are constants.
        let _ = set_timer(0);
        RING.store(ptr::null_mut(), Ordering::SeqCst);
        // A handler that runs has counted itself before it looked at `RING`. It is a few microseconds long.
        while INSIDE.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        // With it the kernel forgets what is still under way.
        let _ = handle(libc::SIG_IGN, 0);
        // SAFETY: it came from `Box::into_raw`, no handler holds it any more, and none can find it.
        // Test: `it_can_be_started_again_and_only_once_at_a_time`.
        drop(unsafe { Box::from_raw(self.ring) });
        RUNNING.store(false, Ordering::SeqCst);
    }
}

/// Where samples wait for [`Sampler::drain`].
#[derive(Debug)]
struct Ring {
    slots: Vec<Slot>,
    lost: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    state: AtomicU8,
    raw: UnsafeCell<Raw>,
}

// SAFETY: `raw` is touched only by the thread that moved `state` from `FREE` to `FILLING`, until it says `FULL`, and then by who
// drains, until that one says `FREE`. Test: `many_threads_are_sampled_at_once`.
unsafe impl Sync for Slot {}

/// A sample as the handler writes it.
#[derive(Debug)]
struct Raw {
    tid: u32,
    registers: Registers,
    in_kernel: bool,
    /// Bytes of `stack` that were copied.
    stack_len: usize,
    stack: Box<[u8]>,
}

impl Ring {
    fn new() -> Self {
        let slot = |_| {
            let stack = vec![0; STACK_BYTES].into_boxed_slice();
            let registers = Registers::default();
            let raw = Raw { tid: 0, registers, in_kernel: false, stack_len: 0, stack };
            Slot { state: AtomicU8::new(FREE), raw: UnsafeCell::new(raw) }
        };
        Self { slots: (0..SLOTS).map(slot).collect(), lost: AtomicU64::new(0) }
    }

    /// Takes a sample of the calling thread. Called by the signal handler: no allocation, no lock.
    fn take(&self, registers: Registers) {
        let claim = |slot: &&Slot| {
            let order = (Ordering::Acquire, Ordering::Relaxed);
            slot.state.compare_exchange(FREE, FILLING, order.0, order.1).is_ok()
        };
        let Some(slot) = self.slots.iter().find(claim) else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // SAFETY: the slot was free and is ours now. Test: `many_threads_are_sampled_at_once`.
        let raw = unsafe { &mut *slot.raw.get() };
        // SAFETY: gettid takes nothing and cannot fail. Test: `a_busy_thread_is_seen_where_it_is`.
        raw.tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        raw.registers = registers;
        raw.in_kernel = is_behind_system_call(registers.pc);
        // Without its stack the innermost function is known all the same.
        raw.stack_len = copy(registers.sp, &mut raw.stack).unwrap_or(0);
        slot.state.store(FULL, Ordering::Release);
    }
}

/// The handler of SIGPROF.
extern "C" fn on_tick(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the C library has an errno for each thread. What was interrupted must find its own.
    // Test: `a_busy_thread_is_seen_where_it_is`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    INSIDE.fetch_add(1, Ordering::SeqCst);
    // SAFETY: what `RING` points to is not freed while `INSIDE` is above zero, see `drop`.
    // Test: `many_threads_are_sampled_at_once`.
    if let Some(ring) = unsafe { RING.load(Ordering::SeqCst).as_ref() } {
        // SAFETY: with SA_SIGINFO the kernel hands over the interrupted thread's `ucontext_t` here. Test: as above.
        ring.take(registers(unsafe { &*context.cast::<libc::ucontext_t>() }));
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { *errno = before };
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let register = |which: libc::c_int| context.uc_mcontext.gregs[which as usize] as u64;
    Registers {
        pc: register(libc::REG_RIP),
        sp: register(libc::REG_RSP),
        fp: register(libc::REG_RBP),
        lr: 0,
    }
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers { pc: machine.pc, sp: machine.sp, fp: machine.regs[29], lr: machine.regs[30] }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn registers(_: &libc::ucontext_t) -> Registers {
    Registers::default()
}

/// Whether the instruction before this address enters the kernel. May be called in a signal handler.
fn is_behind_system_call(pc: u64) -> bool {
    let mut before = [0; SYSTEM_CALL.len()];
    let from = pc.wrapping_sub(SYSTEM_CALL.len() as u64);
    copy(from, &mut before).is_ok_and(|len| len == before.len()) && before == SYSTEM_CALL
}

/// `syscall`.
#[cfg(target_arch = "x86_64")]
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// `svc #0`.
#[cfg(target_arch = "aarch64")]
const SYSTEM_CALL: [u8; 4] = [0x01, 0x00, 0x00, 0xd4];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const SYSTEM_CALL: [u8; 1] = [0];

/// Copies memory of this process from an address upwards, up to the first page that cannot be read, and tells how many bytes. May be called in a
/// signal handler.
fn copy(from: u64, into: &mut [u8]) -> io::Result<usize> {
    let mut remote = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; PIECES];
    let (mut at, mut left, mut pieces) = (from as usize, into.len(), 0);
    while left > 0 && pieces < PIECES {
        // The kernel may leave out a piece of which any byte cannot be read, so no piece is on two pages.
        let len = left.min(PAGE_BYTES - at % PAGE_BYTES);
        remote[pieces] = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: len };
        (at, left, pieces) = (at.wrapping_add(len), left - len, pieces + 1);
    }
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: `local` is the slice that is ours to write, and the kernel checks every address of `remote` and writes to none.
    // Test: `what_cannot_be_read_is_no_fault`.
    let copied = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            ptr::from_ref(&local),
            1,
            remote.as_ptr(),
            pieces as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

/// Has SIGPROF handled in this way.
fn handle(handler: libc::sighandler_t, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: all zeroes are a valid `sigaction` with an empty mask. Test: `it_can_be_started_again_and_only_once_at_a_time`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the handler is `on_tick`, which does nothing that a handler must not, or SIG_IGN. Test: as above.
    let done = unsafe { libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A SIGPROF each time that the process has used so much processor time, in microseconds; 0: none.
fn set_timer(every_us: u32) -> io::Result<()> {
    let every = libc::timeval {
        tv_sec: libc::time_t::from(every_us / 1_000_000),
        tv_usec: libc::suseconds_t::from(every_us % 1_000_000),
    };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // By number, as the name has types of its own in each C library.
    // SAFETY: the kernel reads one `itimerval` and writes nothing. Test: `a_busy_thread_is_seen_where_it_is`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_setitimer,
            libc::ITIMER_PROF,
            &raw const timer,
            ptr::null_mut::<libc::itimerval>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Samples that can wait. Whoever drains every 10 ms has room for 3200 in a second, more than a kernel of 1000 ticks takes on three processors.
const SLOTS: usize = 32;

/// Bytes of a stack that are copied. Those of a worker are a tenth of that; what is deeper is cut at its root.
const STACK_BYTES: usize = 64 << 10;

/// Smallest page of any Linux; where they are larger it is a part of one.
const PAGE_BYTES: usize = 4096;

/// Pages on which a copy can lie.
const PIECES: usize = STACK_BYTES / PAGE_BYTES + 1;

/// Most samples in a second; the timer counts microseconds.
const HZ_MAX: u32 = 1_000_000;

const FREE: u8 = 0;
const FILLING: u8 = 1;
const FULL: u8 = 2;

/// There is a [`Sampler`].
static RUNNING: AtomicBool = AtomicBool::new(false);

/// Where the handler puts samples; null: nowhere.
static RING: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());

/// Handlers that run at this moment.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::{Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// Held by those that sample, as there is one timer in a process, and by those that no signal may interrupt.
    pub(in crate::sys) static ALONE: Mutex<()> = Mutex::new(());

    #[inline(never)]
    fn burn(until: impl Fn() -> bool) -> u64 {
        let mut sum = 0u64;
        while !until() {
            for round in 0..10_000u64 {
                sum = black_box(sum.wrapping_mul(31).wrapping_add(round));
            }
        }
        sum
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn a_busy_thread_is_seen_where_it_is() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sampler = Sampler::start(500).unwrap();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (mut own, end) = (0, soon());
        while own < 5 && Instant::now() < end {
            let until = Instant::now() + Duration::from_millis(20);
            burn(|| Instant::now() >= until);
            let here = ptr::from_ref(&own) as u64;
            sampler.drain(|sample| {
                if sample.tid != tid {
                    return;
                }
                own += 1;
                let Registers { pc, sp, .. } = sample.registers;
                assert!(pc != 0 && here.abs_diff(sp) < 1 << 20, "{:?}", sample.registers);
                assert!(sample.word(sp).is_some() && sample.word(sp - 8).is_none());
                assert!(sample.word(u64::MAX).is_none());
            });
        }
        assert!(own >= 5, "{own} samples of a thread that worked all the time");
    }

    #[test]
    fn many_threads_are_sampled_at_once() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| burn(|| done.load(Ordering::Relaxed)));
            }
            let end = soon();
            let mut tids = std::collections::BTreeSet::new();
            // Started and ended while handlers run on other threads.
            while tids.len() < 4 && Instant::now() < end {
                let mut sampler = Sampler::start(1_000).unwrap();
                std::thread::sleep(Duration::from_millis(30));
                sampler.drain(|sample| {
                    tids.insert(sample.tid);
                });
            }
            done.store(true, Ordering::Relaxed);
            assert!(tids.len() >= 4, "{tids:?}");
        });
    }

    #[test]
    fn time_in_the_kernel_is_told_apart() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (zero, mut bytes) = (std::fs::File::open("/dev/zero").unwrap(), vec![0u8; 1 << 20]);
        let mut share = |in_kernel: bool| {
            let mut sampler = Sampler::start(500).unwrap();
            let (mut all, mut kernel, end) = (0, 0, soon());
            while all < 20 && Instant::now() < end {
                let until = Instant::now() + Duration::from_millis(20);
                match in_kernel {
                    // Reading of zeroes is nothing but work of the kernel.
                    true => {
                        while Instant::now() < until {
                            let _ = rustix::io::read(&zero, &mut bytes);
                        }
                    }
                    false => drop(burn(|| Instant::now() >= until)),
                }
                sampler.drain(|sample| {
                    all += u32::from(sample.tid == tid);
                    kernel += u32::from(sample.tid == tid && sample.in_kernel);
                });
            }
            (all, kernel)
        };
        let (all, kernel) = share(true);
        assert!(all >= 20 && kernel * 4 >= all * 3, "{kernel} of {all}");
        let (all, kernel) = share(false);
        assert!(all >= 20 && kernel * 4 <= all, "{kernel} of {all}");
    }

    #[test]
    fn it_can_be_started_again_and_only_once_at_a_time() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..3 {
            let sampler = Sampler::start(99).unwrap();
            assert_eq!(Sampler::start(99).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
            drop(sampler);
        }
        // What is left of it does no harm.
        rustix::process::kill_process(
            rustix::process::getpid(),
            rustix::process::Signal::from_named_raw(libc::SIGPROF).unwrap(),
        )
        .unwrap();
    }

    #[test]
    fn samples_that_nobody_drains_are_counted_and_lost() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sampler = Sampler::start(99).unwrap();
        for _ in 0..SLOTS + 3 {
            sampler.ring().take(Registers::default());
        }
        assert!(sampler.lost() >= 3);
        let mut count = 0;
        sampler.drain(|_| count += 1);
        assert_eq!(count, SLOTS);
    }

    #[test]
    fn what_cannot_be_read_is_no_fault() {
        let mut into = [1u8; 64];
        assert!(copy(8, &mut into).is_err());
        assert!(copy(u64::MAX - 7, &mut into).is_err());
        // Two pages, of which the second one cannot be read: the copy ends there.
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
        // SAFETY: fresh memory that nothing else points to. Test: this one.
        unsafe {
            let (both, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let pages = mmap_anonymous(ptr::null_mut(), 2 << 16, both, flags).unwrap();
            mprotect(pages.byte_add(1 << 16), 1 << 16, MprotectFlags::empty()).unwrap();
            let last = pages as u64 + (1 << 16) - 16;
            assert_eq!(copy(last, &mut into).unwrap(), 16);
            munmap(pages, 2 << 16).unwrap();
        }
        assert_eq!((into[15], into[16]), (0, 1));
    }
}
