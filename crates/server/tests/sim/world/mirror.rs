//! A world's mirror at the end: whether it has what the site has.
//!
//! Not here: how the two are held against each other (`mirrored`).
//!
//! Invariant: nobody writes any more when this looks.

use super::{CHECKUP_US, World};
use crate::mirrored::Mirror;

impl World {
    /// All servers do what can be done now.
    pub(super) fn pump(&mut self) {
        self.site.pump(self.net.now_us());
        self.mirror.iter_mut().for_each(Mirror::pump);
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
            self.compared = mirror.judge(&self.plan, &report.mirrors[0], site)?;
        }
        Ok(())
    }
}
