//! The texts of `/proc`, parsed. Pure functions of a text, so that tests can show them any kernel's.
//!
//! What it is not: a reader of files.
//!
//! Invariant: a text that is not as proc(5) says gives `None`, never a wrong number.

/// What is needed of `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// The program's name, cut to 15 bytes by the kernel.
    pub(super) name: String,
    /// `R`, `S`, … and `Z` for one that has ended.
    pub(super) state: char,
    /// Of all threads, also those that ended.
    pub(super) user_ticks: u64,
    /// Likewise.
    pub(super) system_ticks: u64,
    /// Of children that ended and were waited for.
    pub(super) children_user_ticks: u64,
    /// Likewise.
    pub(super) children_system_ticks: u64,
    /// Ticks after boot.
    pub(super) started: u64,
}

/// `/proc/PID/stat`.
pub(super) fn stat(text: &str) -> Option<Stat> {
    // The name stands in parentheses and may itself hold spaces and parentheses, so fields are counted from its end.
    let (head, tail) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // proc(5) counts from 1 with the pid; the state, field 3, is our number 0.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        children_user_ticks: number(16)?,
        children_system_ticks: number(17)?,
        started: number(22)?,
    })
}

/// `/proc/PID/task/TID/schedstat`: nanoseconds on a CPU, nanoseconds waiting for one, number of times on one.
pub(super) fn schedstat_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The number of a line `key:  number unit` of a status file or of meminfo.
pub(super) fn status_number(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// The `cpu` line of `/proc/stat` in ticks: what all CPUs were busy (user, nice, system, irq, softirq; a guest's time is
/// in user already), and what the host took away (steal).
pub(super) fn machine_ticks(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|t| t.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal guest guest_nice
    let busy = ticks.first()? + ticks.get(1)? + ticks.get(2)? + ticks.get(5)? + ticks.get(6)?;
    Some((busy, *ticks.get(7)?))
}

/// Cores online: the lines `cpu0`, `cpu1`, … of `/proc/stat`.
pub(super) fn cores_online(text: &str) -> u32 {
    let numbered = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    u32::try_from(text.lines().filter(numbered).count()).unwrap_or(u32::MAX)
}

/// Model name of the first CPU in `/proc/cpuinfo`. ARM kernels give none.
pub(super) fn cpu_model(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    // Vendors pad with blanks.
    Some(name.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}
