//! What the process knows of itself, for INFO.
//!
//! Read when someone asks, never before. Not here: anything about clients or upstreams.

use crate::losses::Losses;
use engine::fleet::ProcessFacts;
use netio::sys::CpuTime;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What stays the same while the process lives.
#[derive(Debug)]
pub struct Process {
    /// When it started.
    pub started: Instant,
    /// Port of the first TCP listener, 0 if there is none.
    pub tcp_port: u16,
    /// Path of the configuration file, empty if there is none.
    pub config_file: String,
    /// Which driver the workers have.
    pub driver: Chosen,
    /// What it is and where it runs.
    pub host: Host,
    /// Measures what it has used since it started: [`Usage::since`], but where runs have to be repeatable.
    pub measure: fn(Instant) -> Usage,
    /// The same of the thread that calls it: [`netio::sys::thread_cpu`].
    pub measure_thread: fn() -> CpuTime,
    /// What observers did not get.
    pub losses: Losses,
    /// The number of the client that came last (`CLIENT ID`): whoever comes later has a greater one, at whatever worker.
    pub last_client: AtomicU64,
}

/// Which driver the workers have, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its name.
    pub name: &'static str,
    /// The name that the configuration has.
    pub wanted: &'static str,
    /// Why it is not the one that was asked for; empty where it is.
    pub reason: String,
}

/// What a process is to its machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its number.
    pub pid: u32,
    /// Path of what it executes; empty if that is not known.
    pub executable: String,
    /// The kernel's name, release and architecture.
    pub os: String,
    /// When it started, in seconds since 1970: told once, so that it never seems to start again.
    pub started_unix_s: u64,
}

impl Host {
    /// This process.
    pub fn this() -> Self {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            pid: std::process::id(),
            executable: std::env::current_exe()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            os: format!("Linux {} {}", release.trim(), std::env::consts::ARCH),
            started_unix_s: unix_us() / 1_000_000,
        }
    }
}

/// What a process has used up to one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// The most that was ever resident.
    pub rss_max_bytes: u64,
    /// Processor time in the kernel.
    pub cpu_system_us: u64,
    /// Processor time outside of it.
    pub cpu_user_us: u64,
}

impl Usage {
    /// What this process has used by now, which started then.
    pub fn since(started: Instant) -> Self {
        let cpu = netio::sys::process_cpu();
        Self {
            uptime_s: started.elapsed().as_secs(),
            rss_bytes: netio::sys::resident_bytes().unwrap_or(0),
            rss_max_bytes: rss_max_bytes(),
            cpu_system_us: cpu.system_us,
            cpu_user_us: cpu.user_us,
        }
    }
}

impl Process {
    /// The number of the next client.
    pub fn next_client(&self) -> u64 {
        self.last_client.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Everything at this moment.
    pub(crate) fn facts(&self, workers: usize, clients_max: usize) -> ProcessFacts {
        let usage = (self.measure)(self.started);
        ProcessFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: self.host.pid,
            uptime_s: usage.uptime_s,
            started_unix_s: self.host.started_unix_s,
            tcp_port: self.tcp_port,
            config_file: self.config_file.clone(),
            executable: self.host.executable.clone(),
            os: self.host.os.clone(),
            driver: self.driver.name.to_owned(),
            driver_wanted: self.driver.wanted.to_owned(),
            driver_reason: self.driver.reason.clone(),
            workers: u32::try_from(workers).unwrap_or(u32::MAX),
            rss_bytes: usage.rss_bytes,
            rss_max_bytes: usage.rss_max_bytes,
            cpu_system_us: usage.cpu_system_us,
            cpu_user_us: usage.cpu_user_us,
            unix_us: unix_us(),
            clients_max: clients_max as u64,
            losses: self.losses.counts(),
        }
    }
}

/// Microseconds since 1970.
pub(crate) fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// By how much the calendar is ahead of the workers' clock, in microseconds.
pub(crate) fn unix_ahead_us() -> u64 {
    unix_us().saturating_sub(netio::sys::monotonic_us())
}

/// Highest resident memory so far: `VmHWM` of proc(5), in KiB there.
fn rss_max_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kib = line.trim().trim_end_matches("kB").trim().parse::<u64>();
    kib.map_or(0, |kib| kib * 1024)
}
