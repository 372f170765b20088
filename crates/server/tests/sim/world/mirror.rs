//! A world's mirror at the end: whether it has what the site has.
//!
//! Not here: how the two are held against each other (`mirrored`).
//!
//! Invariant: nobody writes any more when this looks.

use engine::mirror::MirrorReport;

use super::{CHECKUP_US, World};
use crate::mirrored::Mirror;

/// Reads to which a mirror said the same.
pub(super) fn read_alike(mirror: &MirrorReport) -> u64 {
    mirror.shadow.map_or(0, |shadow| shadow.equal)
}

/// Writes that a mirror did not get, or perhaps.
pub(super) fn missed(mirror: &MirrorReport) -> u64 {
    mirror.counts.failed + mirror.counts.dropped + mirror.counts.unsure
}

impl World {
    /// All servers do what can be done now.
    pub(super) fn pump(&mut self) {
        self.site.pump(self.net.now_us());
        self.mirror.iter_mut().for_each(Mirror::pump);
    }

    /// Whether a mirror has not got everything: a drain tells it first, within its time, whoever is still owed something.
    pub(super) fn tells_mirror(&self) -> bool {
        !self.workers.iter().flatten().all(|worker| worker.engine().mirrors_are_idle())
    }

    /// All of them go for good.
    pub(super) fn close_servers(&mut self) {
        self.site.close();
        self.mirror.iter_mut().for_each(Mirror::close);
    }

    /// A mirror gets what is still on its way; then it has what the site has.
    pub(super) fn check_mirror(&mut self) -> Result<(), String> {
        if self.mirror.is_none() {
            return Ok(());
        }
        let is_told = |world: &Self| {
            world.workers.iter().flatten().all(|worker| worker.engine().mirrors_are_idle())
        };
        self.live_until("mirror", self.net.now_us() + CHECKUP_US, is_told)?;
        let (Some(mirror), Some(site)) = (&self.mirror, self.site.model()) else { return Ok(()) };
        for worker in self.workers.iter().flatten() {
            let report = worker.engine().report(engine::Time(self.net.now_us()));
            self.reached.see(&report);
            let is_it = |one: &&MirrorReport| one.name == "mirror";
            let of_it = report.mirrors.iter().find(is_it).ok_or("there is no mirror")?;
            self.compared = mirror.judge(of_it, site)?;
        }
        Ok(())
    }
}
