//! The CPU of the load: this process and, while one runs, an external tool.
//!
//! The tool is a child of this process. While it lives it is read as any other; once it was waited for, the kernel adds
//! what it used to the children's time of this process, in clock ticks. So the sum of both never misses it, whenever the
//! tool ends: exactly while it lives, to 10 ms afterwards.
//!
//! What it is not: exact to what the load alone used. The threads that sample and draw the progress bar are in it, some
//! tenths of a percent of a core.
//!
//! Invariant: a tool is counted once, alive or ended.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Account, Reading, TICK_S, read_stat};
use crate::record::Usage;

/// Account of this process, with a tool that comes and goes. Shared by the thread that drives and the one that samples.
#[derive(Debug)]
pub struct OwnAccount {
    own: Account,
    /// 0: none.
    tool: AtomicU32,
}

/// The counts at one moment.
#[derive(Clone, Debug, Default)]
pub struct OwnReading {
    own: Reading,
    tool: Option<(u32, Reading)>,
    children_user_ticks: u64,
    children_system_ticks: u64,
}

impl Default for OwnAccount {
    fn default() -> Self {
        Self { own: Account::new(&[std::process::id()]), tool: AtomicU32::new(0) }
    }
}

impl OwnAccount {
    /// From now on this process belongs to the load as well.
    pub fn tool_started(&self, pid: u32) {
        self.tool.store(pid, Ordering::Relaxed);
    }

    /// Whether CPU times are exact, see [`Account::exact`].
    #[must_use]
    pub fn exact(&self) -> bool {
        self.own.exact()
    }

    /// Counts now.
    ///
    /// # Errors
    /// When `/proc` does not show this process.
    pub fn read(&self) -> Result<OwnReading, String> {
        let mut reading = self.read_once()?;
        // The tool may be waited for between the two looks at it, and would then be in neither or in both. It ends once, so
        // the second try is sound.
        if children(self)? != (reading.children_user_ticks, reading.children_system_ticks) {
            reading = self.read_once()?;
        }
        Ok(reading)
    }

    fn read_once(&self) -> Result<OwnReading, String> {
        let (children_user_ticks, children_system_ticks) = children(self)?;
        let pid = self.tool.load(Ordering::Relaxed);
        // A tool that is gone is in the children's ticks.
        let tool = (pid != 0).then(|| Account::new(&[pid]).read().ok().map(|read| (pid, read)));
        Ok(OwnReading {
            own: self.own.read()?,
            tool: tool.flatten(),
            children_user_ticks,
            children_system_ticks,
        })
    }
}

/// Ticks of the children that ended.
fn children(account: &OwnAccount) -> Result<(u64, u64), String> {
    let stat = read_stat(std::process::id());
    let stat = stat.ok_or_else(|| account.own.processes[0].gone())?;
    Ok((stat.children_user_ticks, stat.children_system_ticks))
}

impl OwnReading {
    /// Resident memory of this process and of a tool that lives, in bytes.
    #[must_use]
    pub fn rss_bytes(&self) -> u64 {
        self.own.rss_bytes() + self.tool.as_ref().map_or(0, |(_, tool)| tool.rss_bytes())
    }

    /// What was used since `earlier`, by this process and by the tool.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Usage {
        let mut usage = self.own.since(&earlier.own);
        match (&self.tool, &earlier.tool) {
            (Some((pid, now)), Some((same, then))) if pid == same => {
                add(&mut usage, &now.since(then));
            }
            // It began after `earlier`: all of it counts.
            (Some((_, now)), _) => add(&mut usage, &now.since(&now.zero())),
            (None, _) => {}
        }
        self.add_ended(earlier, &mut usage);
        usage
    }

    /// Adds what the children used that ended since `earlier`, less what a tool that lived then had used before.
    fn add_ended(&self, earlier: &Self, usage: &mut Usage) {
        let ticks = |now: u64, then: u64| now.saturating_sub(then) as f64 * TICK_S;
        let mut user_s = ticks(self.children_user_ticks, earlier.children_user_ticks);
        let mut system_s = ticks(self.children_system_ticks, earlier.children_system_ticks);
        let now = self.tool.as_ref().map(|(pid, _)| *pid);
        if let Some((_, tool)) = earlier.tool.as_ref().filter(|(pid, _)| Some(*pid) != now) {
            let before = tool.since(&tool.zero());
            user_s = (user_s - before.user_s).max(0.0);
            system_s = (system_s - before.system_s).max(0.0);
            usage.rss_bytes_max += before.rss_bytes_max;
        }
        usage.user_s += user_s;
        usage.system_s += system_s;
        usage.cpu_s += user_s + system_s;
    }
}

impl Reading {
    /// The same processes before they used anything.
    fn zero(&self) -> Self {
        Self { processes: vec![super::ProcessReading::default(); self.processes.len()] }
    }
}

/// Adds one role's part to the other's.
fn add(sum: &mut Usage, part: &Usage) {
    sum.cpu_s += part.cpu_s;
    sum.user_s += part.user_s;
    sum.system_s += part.system_s;
    sum.voluntary_switches += part.voluntary_switches;
    sum.involuntary_switches += part.involuntary_switches;
    sum.rss_bytes_max += part.rss_bytes_max;
}
