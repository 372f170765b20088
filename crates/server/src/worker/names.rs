//! Whether the names of servers still mean what we are connected to.
//!
//! Behind a name another server may come up while the old one still answers (a service of Kubernetes, a managed failover), and then nothing
//! breaks that would make us resolve it again. So the names of live connections are resolved again every `timeouts.resolve_ms`; where a
//! connection's address is none of the name's any more, the engine lets it go ([`engine::Engine::handle_upstream_moved`]).
//!
//! Not here: the resolving (`control::resolver`), and names of connects to come (`actions`). An address that was configured or told as one
//! is never looked at.
//!
//! Invariant: of each name at most one question is under way.

use super::mailbox::Name;
use engine::{Time, UpstreamId};
use netio::Address;

/// A connection that was made by name.
struct Known {
    upstream: UpstreamId,
    name: Name,
    address: Address,
}

/// See the module.
pub(super) struct Names {
    every_ms: u64,
    due: Option<Time>,
    known: Vec<Known>,
    asked: Vec<Name>,
}

impl Names {
    /// Looks so often; 0: never.
    pub(super) fn new(every_ms: u64) -> Self {
        Self { every_ms, due: None, known: Vec::new(), asked: Vec::new() }
    }

    /// Looks so often from now on, after the connections that are known.
    pub(super) fn change(&mut self, now: Time, every_ms: u64) {
        if every_ms == self.every_ms {
            return;
        }
        self.every_ms = every_ms;
        if every_ms == 0 {
            self.known.clear();
        }
        self.due = (!self.known.is_empty()).then(|| now.plus_ms(every_ms));
    }

    /// This upstream connects to an address of this name.
    pub(super) fn connects(
        &mut self,
        now: Time,
        upstream: UpstreamId,
        name: Name,
        address: &Address,
    ) {
        if self.every_ms == 0 {
            return;
        }
        self.known.retain(|known| known.upstream != upstream);
        self.known.push(Known { upstream, name, address: address.clone() });
        self.due.get_or_insert(now.plus_ms(self.every_ms));
    }

    /// Of these connections nothing is to be told any more.
    pub(super) fn forget(&mut self, is_over: impl Fn(UpstreamId) -> bool) {
        self.known.retain(|known| !is_over(known.upstream));
    }

    /// When [`Self::due`] has something to tell.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// Names that are to be resolved now. `lives` tells which connections still are.
    pub(super) fn due(&mut self, now: Time, lives: impl Fn(UpstreamId) -> bool) -> Vec<Name> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.known.retain(|known| lives(known.upstream));
        self.due = (!self.known.is_empty()).then(|| now.plus_ms(self.every_ms));
        let mut wanted: Vec<Name> = Vec::new();
        for known in &self.known {
            if !self.asked.contains(&known.name) && !wanted.contains(&known.name) {
                wanted.push(known.name.clone());
            }
        }
        self.asked.extend(wanted.iter().cloned());
        wanted
    }

    /// A name has these addresses now; `None`: nobody can tell, and what stands goes on. Returns the connections to addresses that it has no
    /// more.
    pub(super) fn renewed(
        &mut self,
        name: &Name,
        addresses: Option<&[Address]>,
    ) -> Vec<UpstreamId> {
        self.asked.retain(|asked| asked != name);
        let Some(addresses) = addresses else { return Vec::new() };
        let moved = |known: &Known| known.name == *name && !addresses.contains(&known.address);
        let gone =
            self.known.iter().filter(|known| moved(known)).map(|known| known.upstream).collect();
        self.known.retain(|known| !moved(known));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str) -> Name {
        Name { host: host.to_owned(), port: 6379 }
    }

    fn address(text: &str) -> Address {
        Address::Tcp(text.parse().unwrap())
    }

    fn upstream(index: u32) -> UpstreamId {
        UpstreamId::new(index, 1)
    }

    #[test]
    fn a_connection_to_an_address_that_the_name_has_no_more_is_told() {
        let mut names = Names::new(1_000);
        let (old, new) = (address("10.0.0.1:6379"), address("10.0.0.2:6379"));
        names.connects(Time(0), upstream(1), name("a"), &old);
        names.connects(Time(0), upstream(2), name("b"), &old);
        assert_eq!(names.due(Time(999_999), |_| true), []);
        assert_eq!(names.due(Time(1_000_000), |_| true), [name("a"), name("b")]);
        assert_eq!(names.renewed(&name("a"), Some(&[new.clone(), old.clone()])), []);
        assert_eq!(names.renewed(&name("b"), None), [], "a resolver that fails changes nothing");
        assert_eq!(names.due(Time(2_000_000), |_| true), [name("a"), name("b")]);
        assert_eq!(names.renewed(&name("a"), Some(&[new])), [upstream(1)]);
    }

    #[test]
    fn of_a_slow_resolver_nothing_is_asked_twice() {
        let mut names = Names::new(10);
        names.connects(Time(0), upstream(1), name("a"), &address("10.0.0.1:6379"));
        assert_eq!(names.due(Time(10_000), |_| true).len(), 1);
        assert_eq!(names.due(Time(20_000), |_| true).len(), 0);
    }

    #[test]
    fn connections_that_are_gone_are_forgotten() {
        let mut names = Names::new(10);
        names.connects(Time(0), upstream(1), name("a"), &address("10.0.0.1:6379"));
        assert_eq!(names.due(Time(10_000), |_| false), []);
        assert_eq!(names.deadline(), None);
    }

    #[test]
    fn where_it_is_off_nothing_is_kept() {
        let mut names = Names::new(0);
        names.connects(Time(0), upstream(1), name("a"), &address("10.0.0.1:6379"));
        assert_eq!(names.deadline(), None);
    }
}
