//! What processes cost, read from `/proc`.
//!
//! ```text
//!   Account (pids of one role) ── read ──► Reading ── since(earlier) ──► Usage, Cores
//!     exact CPU   task/TID/schedstat, first field: nanoseconds on a CPU, per thread
//!     user/system stat, utime and stime: sampled at the clock tick, so only their proportion is used
//!     switches    task/TID/status, per thread
//!     memory      status, VmRSS; its greatest value VmHWM, which can be begun anew
//! ```
//!
//! A thread that ended takes its `schedstat` with it, while `utime` and `stime` of the process go on counting it. So when
//! the ticks tell more than the threads that still live, the ticks are taken (see [`Reading::since`]); switches of ended
//! threads are lost. Kernels without scheduler statistics (`CONFIG_SCHED_INFO`) show zeros in `schedstat`: then all is
//! taken from the ticks, and [`Account::exact`] says so.
//!
//! What it is not: a profiler, and no judge of what the figures mean (that is `stats`).
//!
//! Invariant: time never runs backwards: no field of a [`Usage`] is negative, and `user_s + system_s == cpu_s`. A process
//! that is gone, or whose id was given to another one since, is an error that names it, never a zero.

use std::fs;

use crate::record::{Cores, Usage};

pub mod machine;
pub mod own;
mod parse;

pub use own::OwnAccount;
use parse::Stat;

/// Reads the CPU of a group of processes (one role).
#[derive(Clone, Debug)]
pub struct Account {
    processes: Vec<Known>,
    exact: bool,
}

/// A process as it was when the account was opened.
#[derive(Clone, Debug)]
struct Known {
    pid: u32,
    /// For messages.
    name: String,
    /// Ticks after boot at its start; with the pid it names a process for good. `None`: it was gone already.
    started: Option<u64>,
}

/// The counts of a group at one moment.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// In the order of the account.
    processes: Vec<ProcessReading>,
}

/// The counts of one process.
#[derive(Clone, Debug, Default)]
struct ProcessReading {
    /// Ascending by id.
    threads: Vec<ThreadReading>,
    user_ticks: u64,
    system_ticks: u64,
    rss_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThreadReading {
    tid: u32,
    on_cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
}

impl Account {
    /// Of these processes. One that does not exist shows at the first [`Account::read`].
    #[must_use]
    pub fn new(pids: &[u32]) -> Self {
        Self { processes: pids.iter().map(|&pid| Known::open(pid)).collect(), exact: exact() }
    }

    /// Whether CPU times are exact. If not they are sums of clock ticks, good to a percent only over seconds.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.exact
    }

    /// Begins [`Account::peak_bytes`] anew. Whether that was possible for all of them: it is for processes of the same user.
    pub fn forget_peak(&self) -> bool {
        // 5 sets the high-water mark back to what is resident now and touches nothing else (proc(5), since Linux 4.0).
        let forget = |known: &Known| fs::write(format!("/proc/{}/clear_refs", known.pid), "5");
        self.processes.iter().all(|known| forget(known).is_ok())
    }

    /// Greatest resident memory of each process since [`Account::forget_peak`], together, in bytes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.processes.iter().map(|known| known.status_bytes("VmHWM")).sum()
    }

    /// Resident memory of all processes together now, in bytes.
    #[must_use]
    pub fn rss_bytes(&self) -> u64 {
        self.processes.iter().map(|known| known.status_bytes("VmRSS")).sum()
    }

    /// Counts now.
    ///
    /// # Errors
    /// When a process is gone: names it.
    pub fn read(&self) -> Result<Reading, String> {
        let processes = self.processes.iter().map(|known| known.read(self.exact));
        Ok(Reading { processes: processes.collect::<Result<_, _>>()? })
    }
}

/// Whether this kernel counts nanoseconds per thread. This thread has run, so a zero means that nothing is counted.
fn exact() -> bool {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    parse::schedstat_ns(&text).is_some_and(|ns| ns > 0)
}

/// Whether a process with this id exists, and its name. A zombie has ended, whatever its id says.
#[must_use]
pub fn name_of(pid: u32) -> Option<String> {
    let stat = read_stat(pid)?;
    (stat.state != 'Z').then_some(stat.name)
}

fn read_stat(pid: u32) -> Option<Stat> {
    parse::stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

impl Known {
    fn open(pid: u32) -> Self {
        let stat = read_stat(pid);
        let name = stat.as_ref().map_or_else(|| "unknown".to_owned(), |stat| stat.name.clone());
        Self { pid, name, started: stat.map(|stat| stat.started) }
    }

    fn gone(&self) -> String {
        format!("process {} ({}) is gone", self.pid, self.name)
    }

    fn read(&self, exact: bool) -> Result<ProcessReading, String> {
        // The exact counts come first and close together: a group of many processes takes milliseconds to read.
        let mut threads = self.threads().ok_or_else(|| self.gone())?;
        if exact {
            threads.retain_mut(|thread| self.read_cpu(thread).is_some());
        }
        let stat = read_stat(self.pid).filter(|stat| stat.state != 'Z');
        let stat = stat.filter(|stat| Some(stat.started) == self.started);
        let stat = stat.ok_or_else(|| self.gone())?;
        for thread in &mut threads {
            self.read_switches(thread);
        }
        Ok(ProcessReading {
            threads,
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            rss_bytes: self.status_bytes("VmRSS"),
        })
    }

    fn threads(&self) -> Option<Vec<ThreadReading>> {
        let entries = fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut threads: Vec<_> =
            tids.map(|tid| ThreadReading { tid, ..ThreadReading::default() }).collect();
        threads.sort_unstable_by_key(|thread| thread.tid);
        Some(threads)
    }

    /// `None`: the thread ended between the listing and now.
    fn read_cpu(&self, thread: &mut ThreadReading) -> Option<()> {
        let text = self.task_file(thread.tid, "schedstat")?;
        thread.on_cpu_ns = parse::schedstat_ns(&text)?;
        Some(())
    }

    /// Leaves the counts at 0 when the thread ended meanwhile; its CPU was read and counts.
    fn read_switches(&self, thread: &mut ThreadReading) {
        let text = self.task_file(thread.tid, "status").unwrap_or_default();
        thread.voluntary = parse::status_number(&text, "voluntary_ctxt_switches").unwrap_or(0);
        thread.involuntary = parse::status_number(&text, "nonvoluntary_ctxt_switches").unwrap_or(0);
    }

    fn status_bytes(&self, key: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        // proc(5) says kB and means KiB.
        parse::status_number(&text, key).unwrap_or(0) * 1024
    }

    fn task_file(&self, tid: u32, file: &str) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/task/{tid}/{file}", self.pid)).ok()
    }
}

impl Reading {
    /// What was used since `earlier`, a reading of the same account.
    ///
    /// CPU is the sum over the threads that live at both moments, or began between them, exact to the nanosecond. Threads
    /// that ended between them are in the process's ticks only; when those tell of more than three ticks beyond the
    /// exact sum, the ticks are the figure. So at most 30 ms per process of ended threads go unseen.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Usage {
        let mut usage =
            Usage { rss_bytes_max: self.rss_bytes().max(earlier.rss_bytes()), ..Usage::default() };
        for (now, then) in self.processes.iter().zip(&earlier.processes) {
            now.add_since(then, &mut usage);
        }
        usage
    }

    /// As cores in use over `seconds`. 0 when no time has passed.
    #[must_use]
    pub fn cores_since(&self, earlier: &Self, seconds: f64) -> Cores {
        cores(&self.since(earlier), seconds)
    }

    /// Resident memory of all processes together, in bytes.
    #[must_use]
    pub fn rss_bytes(&self) -> u64 {
        self.processes.iter().map(|process| process.rss_bytes).sum()
    }
}

/// A usage as cores in use over `seconds`. 0 when no time has passed.
#[must_use]
pub fn cores(usage: &Usage, seconds: f64) -> Cores {
    if seconds <= 0.0 {
        return Cores::default();
    }
    Cores { user: usage.user_s / seconds, system: usage.system_s / seconds }
}

impl ProcessReading {
    fn add_since(&self, earlier: &Self, usage: &mut Usage) {
        let mut on_cpu_ns = 0;
        for thread in &self.threads {
            let then = earlier.thread(thread.tid);
            on_cpu_ns += thread.on_cpu_ns.saturating_sub(then.on_cpu_ns);
            usage.voluntary_switches += thread.voluntary.saturating_sub(then.voluntary);
            usage.involuntary_switches += thread.involuntary.saturating_sub(then.involuntary);
        }
        let user = self.user_ticks.saturating_sub(earlier.user_ticks);
        let system = self.system_ticks.saturating_sub(earlier.system_ticks);
        let cpu_s = cpu_s(on_cpu_ns, user + system);
        let user_s = cpu_s * self.user_share(user, system);
        usage.cpu_s += cpu_s;
        usage.user_s += user_s;
        usage.system_s += cpu_s - user_s;
    }

    /// Zeros for a thread that did not exist.
    fn thread(&self, tid: u32) -> ThreadReading {
        let found = self.threads.binary_search_by_key(&tid, |thread| thread.tid);
        found.map_or_else(|_| ThreadReading::default(), |at| self.threads[at])
    }

    /// The user part of the ticks of a span; without any tick in it, that of the whole life of the process, and of one
    /// that never had a tick, half.
    fn user_share(&self, user_ticks: u64, system_ticks: u64) -> f64 {
        let share = |user: u64, system: u64| {
            (user + system > 0).then(|| user as f64 / (user + system) as f64)
        };
        share(user_ticks, system_ticks)
            .or_else(|| share(self.user_ticks, self.system_ticks))
            .unwrap_or(0.5)
    }
}

/// The exact sum, unless the ticks show that threads are missing from it.
fn cpu_s(exact_ns: u64, ticks: u64) -> f64 {
    let exact_s = exact_ns as f64 / 1e9;
    let ticks_s = ticks as f64 * TICK_S;
    if ticks_s > exact_s + TICKS_UNSURE * TICK_S { ticks_s } else { exact_s }
}

/// Seconds of a clock tick in `/proc`: `USER_HZ` is 100 in the ABI of every architecture that Linux still builds for,
/// whatever the kernel's own tick is.
const TICK_S: f64 = 0.01;

/// How many ticks the sampled sum of a process may lie beside the exact one: `utime` and `stime` are cut to whole ticks,
/// each at both ends of a span, and are read a moment later.
const TICKS_UNSURE: f64 = 3.0;

#[cfg(test)]
mod tests;
