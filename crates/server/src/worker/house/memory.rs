//! Engines of logins have the memory of their tenant together with its own engine: `limits.memory_max_bytes` bounds all of them, so that nobody gets
//! more of it by another login.
//!
//! Not here: what one engine holds, and which of its clients goes (`engine::account`).
//!
//! Invariant: after [`House::bound_logins`] a tenant's engines hold no more together than one of them may, or none has a client that holds much.

use super::House;
use engine::tenancy::TenantId;

impl House {
    /// Closes clients of those engines that hold most, as long as a tenant's engines hold too much.
    pub(in crate::worker) fn bound_logins(&mut self) {
        let is_login = |place: &usize| {
            let tenant = self.others.get(place - 1).and_then(Option::as_ref);
            tenant.is_some_and(|tenant| tenant.login.is_some())
        };
        let logins = (1..self.places()).filter(is_login);
        let mut bases: Vec<TenantId> = logins.map(|place| self.base_at(place)).collect();
        bases.sort_unstable();
        bases.dedup();
        bases.into_iter().for_each(|base| self.bound_logins_of(base));
    }

    /// See [`engine::Engine::take_freed`].
    pub(in crate::worker) fn take_freed(&mut self) -> bool {
        self.engines_mut().fold(false, |freed, engine| engine.take_freed() | freed)
    }

    fn bound_logins_of(&mut self, base: TenantId) {
        let Some(max) = self.find(base).and_then(|at| self.get(at)) else { return };
        let max = max.settings().limits.memory_max_bytes;
        loop {
            let of_base = (0..self.places()).filter(|place| self.base_at(*place) == base);
            let held = of_base.filter_map(|place| Some((self.get(place)?.held_bytes(), place)));
            let held: Vec<(usize, usize)> = held.collect();
            let over = held.iter().map(|(bytes, _)| bytes).sum::<usize>().saturating_sub(max);
            let Some((_, place)) = held.into_iter().max().filter(|_| over > 0) else { return };
            if self.get_mut(place).is_none_or(|engine| engine.make_room(over) == 0) {
                return;
            }
        }
    }
}
