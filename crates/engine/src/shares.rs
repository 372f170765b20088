//! Fair shares of what is scarce, so that nobody takes all of it: dedicated connections, large transfers, requests that policies let wait, passwords that
//! servers are asked about, engines of logins, bytes of subscriptions and of parked requests.
//!
//! Clients of one user from one address are a *group*. A group may have one more while it has less than `SHARE_TIMES` times what would be left for others:
//! alone it gets seven eighths, and whoever comes then finds something that is free. With a fixed part for each group most would lie idle where there is one;
//! with none the first would take all. (Switches share their buffers in this way: Choudhury and Hahne, "Dynamic queue length thresholds".)
//!
//! ```text
//!   16 at most:   group a takes 14        b comes: 1        c comes: 1        a has 1 less: b or d may have it, not a
//! ```
//! Not here: in which order those come that wait (`waiters`), and what is held (`upstream::roles`, `policy::delayed`, `login::words`, `pubsub`, `parked`,
//! the caller for engines of logins).
//!
//! Invariant: of each kind the sum over all groups is the total, and a group without anything is not in the table.

use crate::acl::{User, Users};
use crate::client::Client;
use crate::ids::NodeId;
use crate::tenancy::TenantId;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::net::IpAddr;

/// So many times what is left over for others a group may have.
pub(crate) const SHARE_TIMES: usize = 7;

/// Of connections for single clients this part of all is left for commands that do not wait for something: one of so many.
pub const RESERVE_PART: usize = 8;

/// Clients that share what is scarce: one user, one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// The tag of its name: its place in the table changes when users come and go.
    user: u64,
    net: Net,
}

/// The network address by which clients count as one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Net {
    /// A socket file, or none.
    #[default]
    Local,
    /// All of an IPv4 address.
    V4(u32),
    /// The first half of an IPv6 address: one host usually owns all addresses with this half.
    V6(u64),
}

impl Group {
    pub(crate) fn of(client: &Client, users: &Users) -> Self {
        let name = users.at(client.user as usize).map_or(&b""[..], User::name);
        Self { user: tag(name), net: Net::of(&client.identity.addr) }
    }

    /// Whoever tells this name, of users of the servers of a tenant, from this address. Servers have taken it, so it is the operator's, too.
    #[must_use]
    pub fn of_login(base: TenantId, name: &[u8], addr: &str) -> Self {
        let user = base.0.to_le_bytes().iter().fold(tag(name), mix);
        Self { user, net: Net::of(addr) }
    }

    /// The same user at all addresses.
    #[must_use]
    pub fn anywhere(self) -> Self {
        Self { net: Net::default(), ..self }
    }

    /// All users from the same address.
    #[must_use]
    pub fn of_anybody(self) -> Self {
        Self { user: 0, ..self }
    }

    #[cfg(test)]
    pub(crate) fn of_user(user: u64) -> Self {
        Self { user, net: Net::Local }
    }
}

/// FNV-1a. Names of users are the operator's.
fn tag(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn mix(tag: u64, byte: &u8) -> u64 {
    (tag ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
}

impl Net {
    /// Of an address as Redis prints it.
    fn of(addr: &str) -> Self {
        let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
        host.trim_matches(['[', ']']).parse().map_or(Self::Local, Self::of_ip)
    }

    /// Of an address; an IPv4 address that is written as an IPv6 address is the IPv4 address.
    #[must_use]
    pub fn of_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.to_bits()),
            IpAddr::V6(ip) => Self::V6((ip.to_bits() >> 64) as u64),
        }
    }
}

/// How many, or how many bytes, each group has of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    total: usize,
    of: BTreeMap<Group, usize>,
}

impl Held {
    /// All groups together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// A group has one more.
    pub fn add(&mut self, group: Group) {
        self.add_many(group, 1);
    }

    /// A group has so many more.
    pub(crate) fn add_many(&mut self, group: Group, count: usize) {
        if count > 0 {
            self.total += count;
            *self.of.entry(group).or_default() += count;
        }
    }

    /// A group has one less.
    pub(crate) fn remove(&mut self, group: Group) {
        self.remove_many(group, 1);
    }

    /// A group has so many less.
    pub(crate) fn remove_many(&mut self, group: Group, removed: usize) {
        if removed == 0 {
            return;
        }
        let count = self.of.get_mut(&group).filter(|count| **count >= removed);
        let Some(count) = count else {
            debug_assert!(false, "a group gives back more than it has");
            return;
        };
        self.total -= removed;
        *count -= removed;
        if *count == 0 {
            self.of.remove(&group);
        }
    }

    /// How many a group has.
    #[must_use]
    pub fn of(&self, group: Group) -> usize {
        self.of.get(&group).copied().unwrap_or(0)
    }

    /// Whether a group may have so many more of `max`.
    #[must_use]
    pub fn has_room(&self, group: Group, wanted: usize, max: usize) -> bool {
        let fits = self.total + wanted <= max;
        fits && (self.of(group) == 0 || self.has_room_for_bytes(group, wanted, max))
    }

    /// How many more a group can get of `max`, one after the other.
    fn left_for(&self, group: Group, max: usize) -> usize {
        let left = max.saturating_sub(self.total) * SHARE_TIMES;
        left.saturating_sub(self.of(group)) / (SHARE_TIMES + 1)
    }

    /// Whether a group may have so many more bytes of `max`. A group that has none does not get all of them at once.
    pub(crate) fn has_room_for_bytes(&self, group: Group, wanted: usize, max: usize) -> bool {
        let Some(left) = max.checked_sub(self.total + wanted) else { return false };
        is_share(self.of(group) + wanted, left)
    }

    /// Checks that these are the parts of all groups; for debug builds.
    pub(crate) fn check(&self, parts: impl Iterator<Item = (Group, usize)>) {
        let mut held = Self::default();
        parts.for_each(|(group, count)| held.add_many(group, count));
        assert_eq!(*self, held, "what each group holds");
    }
}

/// The parts of each group, and of each group at each node: a node that does not answer holds what a group has there, and something is left for the other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldAtNodes {
    all: Held,
    at: BTreeMap<(Group, NodeId), usize>,
}

impl HeldAtNodes {
    /// All groups together.
    pub(crate) fn total(&self) -> usize {
        self.all.total()
    }

    /// How many a group has at all nodes.
    pub(crate) fn of(&self, group: Group) -> usize {
        self.all.of(group)
    }

    /// A group has one more at this node.
    pub(crate) fn add(&mut self, group: Group, node: NodeId) {
        self.all.add(group);
        *self.at.entry((group, node)).or_default() += 1;
    }

    /// A group has one less at this node.
    pub(crate) fn remove(&mut self, group: Group, node: NodeId) {
        self.all.remove(group);
        if let Entry::Occupied(mut count) = self.at.entry((group, node)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Whether a group may have one more of `max`.
    pub(crate) fn has_room(&self, group: Group, max: usize) -> bool {
        self.all.has_room(group, 1, max)
    }

    /// Whether a group may have one more of `max` at this node, which is one of several.
    pub(crate) fn has_room_at(&self, group: Group, node: NodeId, max: usize) -> bool {
        let here = self.at.get(&(group, node)).copied().unwrap_or(0);
        let left = self.all.left_for(group, max).saturating_sub(1);
        self.has_room(group, max) && (here == 0 || is_share(here + 1, left))
    }
}

/// Whether a group may have so much where so much is left for others.
pub(crate) fn is_share(held: usize, left: usize) -> bool {
    held <= left.saturating_mul(SHARE_TIMES)
}

/// Of so many connections for single clients commands that wait for something may take these.
pub(crate) fn for_blocking(max: usize) -> usize {
    match max {
        0 | 1 => max,
        _ => max - (max / RESERVE_PART).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(user: u64, addr: &str) -> Group {
        Group { user, net: Net::of(addr) }
    }

    #[test]
    fn a_group_is_a_user_at_an_address() {
        let one = group(1, "10.0.0.7:1000");
        assert_eq!(group(1, "10.0.0.7:2000"), one);
        assert_eq!(group(1, "[::ffff:10.0.0.7]:1"), one);
        for other in [group(2, "10.0.0.7:1000"), group(1, "10.0.0.8:1000"), group(1, "/run/s:0")] {
            assert_ne!(other, one);
        }
        let login = |base, name: &[u8], addr| Group::of_login(TenantId(base), name, addr);
        let one = login(0, b"bob", "10.0.0.7:1000");
        for other in [login(1, b"bob", "10.0.0.7:1"), login(0, b"eve", "10.0.0.7:1")] {
            assert!(other != one && other.anywhere() != one.anywhere());
        }
        let elsewhere = login(0, b"bob", "10.0.0.8:1");
        assert!(elsewhere != one && elsewhere.anywhere() == one.anywhere());
        // Of a network of IPv6 whoever is in it can have any address.
        assert_eq!(group(1, "[2001:db8::7]:1"), group(1, "[2001:db8::8:9]:1"));
        assert_ne!(group(1, "[2001:db8::7]:1"), group(1, "[2001:db8:1::7]:1"));
    }

    /// So many of `max` this group can take.
    fn takes(held: &mut Held, group: Group, max: usize) -> usize {
        let mut count = 0;
        while held.has_room(group, 1, max) {
            held.add(group);
            count += 1;
        }
        count
    }

    #[test]
    fn nobody_takes_all_and_who_comes_finds_something() {
        for max in [2, 3, 4, 8, 16, 100, 1_024] {
            let mut held = Held::default();
            let all: alloc::vec::Vec<Group> =
                (0..4).map(|n| group(0, &alloc::format!("10.0.0.{n}:1"))).collect();
            let first = takes(&mut held, all[0], max);
            assert!(first >= max * 3 / 4 - 1 && first < max, "{first} of {max}");
            assert!(takes(&mut held, all[1], max) >= 1, "{max}");
            while held.total() > 0 {
                let any = *held.of.keys().next().expect("a group");
                held.remove(any);
            }
            assert_eq!(held, Held::default());
        }
        // The only one is given to whoever comes.
        assert_eq!(takes(&mut Held::default(), group(0, "10.0.0.1:1"), 1), 1);
        // Several at once are given at once, or not at all.
        let mut held = Held::default();
        assert!(held.has_room(group(0, ""), 3, 3) && !held.has_room(group(0, ""), 4, 3));
        held.add(group(0, ""));
        assert!(!held.has_room(group(0, ""), 3, 4) && held.has_room(group(1, ""), 3, 4));
    }

    #[test]
    fn a_group_does_not_take_its_whole_share_at_one_node() {
        let [one, other] = [group(0, "10.0.0.1:1"), group(0, "10.0.0.2:1")];
        let [hung, second, third] = [0, 1, 2].map(|index| NodeId::new(index, 1));
        let mut held = HeldAtNodes::default();
        let mut takes = |group, node| {
            let mut count = 0;
            while held.has_room_at(group, node, 16) {
                held.add(group, node);
                count += 1;
            }
            count
        };
        // Alone it has 14, as where there is one node, and others find something.
        assert_eq!([takes(one, hung), takes(one, second), takes(one, third)], [12, 1, 1]);
        assert_eq!([takes(other, hung), takes(other, second)], [1, 0]);
        held.remove(other, hung);
        (0..12).for_each(|_| held.remove(one, hung));
        for node in [second, third] {
            held.remove(one, node);
        }
        assert_eq!(held, HeldAtNodes::default());
    }

    #[test]
    fn of_bytes_something_is_left_however_much_one_group_asks_for() {
        let (one, other) = (group(0, "10.0.0.1:1"), group(0, "10.0.0.2:1"));
        let mut held = Held::default();
        assert!(!held.has_room_for_bytes(one, 800, 800) && !held.has_room_for_bytes(one, 701, 800));
        assert!(held.has_room_for_bytes(one, 700, 800));
        held.add_many(one, 700);
        assert!(!held.has_room_for_bytes(one, 1, 800) && held.has_room_for_bytes(other, 87, 800));
        held.add_many(other, 0);
        held.remove_many(one, 700);
        assert_eq!(held, Held::default());
    }

    #[test]
    fn some_are_left_for_what_does_not_wait() {
        assert_eq!([0, 1, 2, 3, 8, 16, 1_024].map(for_blocking), [0, 1, 1, 2, 7, 14, 896]);
    }
}
