//! The machine as a whole: what it is, and who else was busy on it.
//!
//! A figure of a benchmark is worth little when strangers used the cores meanwhile, or when the host of a virtual machine
//! took them away. Both are read from `/proc/stat`, in clock ticks, and recorded with every visit.
//!
//! Invariant: nothing here fails: a figure that the kernel does not give is empty or 0, and the run goes on.

use std::fs;

use super::{TICK_S, parse};
use crate::record::Machine;

/// What all CPUs did since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineReading {
    busy_s: f64,
    stolen_s: f64,
}

impl MachineReading {
    /// Counts now.
    #[must_use]
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let (busy, stolen) = parse::machine_ticks(&text).unwrap_or((0, 0));
        Self { busy_s: busy as f64 * TICK_S, stolen_s: stolen as f64 * TICK_S }
    }

    /// Seconds that all CPUs were busy since `earlier`.
    #[must_use]
    pub fn busy_s_since(&self, earlier: &Self) -> f64 {
        (self.busy_s - earlier.busy_s).max(0.0)
    }

    /// Seconds that the host took away since `earlier`.
    #[must_use]
    pub fn stolen_s_since(&self, earlier: &Self) -> f64 {
        (self.stolen_s - earlier.stolen_s).max(0.0)
    }
}

/// What this machine is. `pinned` is left empty.
#[must_use]
pub fn describe() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    Machine {
        cpu: parse::cpu_model(&read("/proc/cpuinfo")).unwrap_or_else(|| text(uname.machine())),
        cores: parse::cores_online(&read("/proc/stat")),
        memory_bytes: parse::status_number(&read("/proc/meminfo"), "MemTotal").unwrap_or(0) * 1024,
        kernel: text(uname.release()),
        pinned: String::new(),
    }
}

/// A sentence when the frequency of the CPUs is governed for saving power: then a target that is busy longer runs on
/// faster cores, and CPU seconds of two targets are not of the same kind. `None` also where nothing is known, as in most
/// virtual machines.
#[must_use]
pub fn governor_warning() -> Option<String> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let governor = fs::read_to_string(path).ok()?;
    let governor = governor.trim();
    (governor != "performance").then(|| {
        format!(
            "The CPU frequency governor is `{governor}`: cores change their speed with the load, so CPU times are less \
             comparable than with `performance`."
        )
    })
}
