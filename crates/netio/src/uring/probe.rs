//! Whether this kernel lets this process use io_uring as the driver does, and if not, why, in words that help.
//!
//! Three things are asked for: a ring with the flags of the driver (Linux 6.1), the operations that it uses, and that an
//! operation that does nothing comes back. Containers forbid the system calls by seccomp (Docker's profile since
//! 2023), distributions by the setting `kernel.io_uring_disabled`.
//!
//! Not here: what to do instead; that is the caller's decision.
//!
//! Invariant: what the probe accepts is set up by the same code that the driver runs on ([`Ring`]).

use std::fmt;

use io_uring::{Probe, opcode};
use rustix::io::Errno;

use super::ring::{Ring, RingOptions};

/// Why io_uring cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The system call does not exist: the kernel was built without it, or a seccomp profile says so.
    Missing,
    /// EPERM, with the value of `kernel.io_uring_disabled` if it can be read.
    Forbidden {
        /// 0: a seccomp profile or a security module forbids it. 1: only a group may, 2: nobody.
        disabled: Option<u8>,
    },
    /// The kernel does not know what is needed.
    TooOld(&'static str),
    /// No memory may be locked, or none is left.
    Memory,
    /// Anything else: what was tried, and the number of the error.
    Failed(&'static str, i32),
}

impl Unfit {
    /// What the failure of setting a ring up means; `disabled` is the text of `/proc/sys/kernel/io_uring_disabled`.
    pub(super) fn of_setup(error: Errno, disabled: Option<&str>) -> Self {
        match error {
            Errno::NOSYS => Self::Missing,
            // Docker's profile answers EPERM, others EACCES.
            Errno::PERM | Errno::ACCESS => {
                Self::Forbidden { disabled: disabled.and_then(|text| text.trim().parse().ok()) }
            }
            // It does not know one of the flags, of which the youngest is IORING_SETUP_DEFER_TASKRUN.
            Errno::INVAL => Self::TooOld("it has no deferred task work, which came with Linux 6.1"),
            // Rings count as locked memory (RLIMIT_MEMLOCK, of all processes of a user) on many kernels, 6.18 among them, unless the process has CAP_IPC_LOCK.
            Errno::NOMEM => Self::Memory,
            error => Self::Failed("set up a ring", error.raw_os_error()),
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => {
                f.write_str("the kernel has no io_uring, or a seccomp profile hides it (ENOSYS)")
            }
            Self::Forbidden { disabled: Some(2) } => {
                f.write_str("the setting kernel.io_uring_disabled = 2 forbids io_uring to everybody")
            }
            Self::Forbidden { disabled: Some(1) } => f.write_str(
                "the setting kernel.io_uring_disabled = 1 allows io_uring only to the group of kernel.io_uring_group",
            ),
            Self::Forbidden { .. } => f.write_str(
                "io_uring is forbidden to this process (EPERM): a seccomp profile, as Docker's default one, or a security module",
            ),
            Self::TooOld(what) => write!(f, "the kernel is too old for this use of io_uring: {what}"),
            Self::Memory => f.write_str(
                "no memory for the rings (ENOMEM): raise the limit of locked memory, see `ulimit -l`",
            ),
            Self::Failed(what, errno) => {
                write!(f, "cannot {what}: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for Unfit {}

/// Whether [`UringDriver`](super::UringDriver) can work here. Sets up a small ring, and takes it down.
///
/// # Errors
/// The reason why not.
pub fn probe() -> Result<(), Unfit> {
    Ring::new(&RingOptions::default().modest()).map(drop)
}

/// Whether the operations of the driver are among those that the kernel knows.
pub(super) fn knows_operations(probe: &Probe) -> Result<(), Unfit> {
    let needed = [
        opcode::Nop::CODE,
        opcode::Recv::CODE,
        opcode::Send::CODE,
        opcode::PollAdd::CODE,
        opcode::AsyncCancel2::CODE,
    ];
    match needed.iter().all(|code| probe.is_supported(*code)) {
        true => Ok(()),
        false => Err(Unfit::TooOld("it lacks an operation on sockets")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_reason() {
        let of = |errno, disabled| Unfit::of_setup(errno, disabled).to_string();
        assert!(of(Errno::PERM, Some("2\n")).contains("kernel.io_uring_disabled = 2"));
        assert!(of(Errno::PERM, Some("1\n")).contains("kernel.io_uring_group"));
        for text in [Some("0\n"), Some("garbage"), None] {
            assert!(of(Errno::PERM, text).contains("seccomp"), "{text:?}");
            assert!(of(Errno::ACCESS, text).contains("seccomp"), "{text:?}");
        }
        assert!(of(Errno::NOSYS, None).contains("ENOSYS"));
        assert!(of(Errno::INVAL, None).contains("Linux 6.1"));
        assert!(of(Errno::NOMEM, None).contains("ulimit -l"));
        assert!(of(Errno::MFILE, None).contains("open files"));
    }

    #[test]
    fn a_kernel_without_an_operation_is_too_old() {
        // As it is before anybody has asked the kernel: nothing is supported.
        assert!(matches!(knows_operations(&Probe::new()), Err(Unfit::TooOld(_))));
    }
}
