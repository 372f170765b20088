//! `policies.rate`: so many requests, bytes or new clients in a second, of all clients together or of each of some kind.
//!
//! ```text
//!   full_at: when the bucket will be full again        now ──── burst ────▶
//!                                              ──────|──────────|─────────|──▶ time
//!                                                    now     full_at    now + burst: empty, whoever comes must wait
//! ```
//! A token bucket that is kept as one time: each request moves it ahead by its cost. All workers move the same times by atomic
//! additions, nobody waits for anybody. Two that look at the same moment may both pass where one had to wait; the time is
//! moved for both, so over a second the rate holds.
//!
//! Buckets of users, clients and prefixes stand in a table of a fixed size, by hash. One that is full is as good as none, and its place is taken when
//! another is needed. If [`PROBES`] places in a row are in use, keys share a bucket, which is stricter and never more generous.
//!
//! Not here: who waits how long (`judge`).
//!
//! Invariant: nothing here waits or allocates after the start.

use crate::limits::RATE_BUCKETS;
use alloc::boxed::Box;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use rapidhash::v3::rapidhash_v3;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests.
    Requests,
    /// Their bytes as they came.
    Bytes,
    /// Clients that come, before they have said anything.
    Connections,
}

/// Who shares a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// All clients.
    All,
    /// Those of one user.
    User,
    /// Each has its own.
    Client,
    /// Requests whose keys begin alike, up to the first `:`.
    Prefix,
    /// Clients with the same IP address, whatever their ports.
    Address,
}

impl Per {
    /// All of them, in the order of [`Per::NAMES`].
    pub const ALL: [Self; 5] = [Self::All, Self::User, Self::Client, Self::Prefix, Self::Address];
    /// The words of the configuration.
    pub const NAMES: [&'static str; 5] = ["all", "user", "client", "prefix", "address"];
}

/// How much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Of what.
    pub unit: Unit,
    /// So much in a second, 1 at least.
    pub per_s: u64,
    /// So much at once, 1 at least. What alone is more than that goes when the bucket is full.
    pub burst: u64,
    /// Of whom.
    pub per: Per,
    /// What comes too early waits so long at most, in milliseconds, and is refused if that is not enough; 0: it is refused at once.
    pub delay_ms: u64,
}

impl Rate {
    fn ns(&self, units: u64) -> u64 {
        let ns = u128::from(units) * 1_000_000_000 / u128::from(self.per_s.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// What a request of so many bytes costs.
    pub(super) fn cost(&self, bytes: u64) -> u64 {
        match self.unit {
            Unit::Requests | Unit::Connections => self.ns(1),
            Unit::Bytes => self.ns(bytes),
        }
    }

    /// How long a request with this cost must wait in this bucket, in nanoseconds.
    fn wait(&self, full_at: u64, now_ns: u64, cost: u64) -> u64 {
        if full_at <= now_ns {
            return 0;
        }
        let fits_at = full_at.saturating_add(cost).saturating_sub(self.ns(self.burst));
        fits_at.min(full_at).saturating_sub(now_ns)
    }
}

/// One bucket.
#[derive(Default)]
struct Bucket {
    /// Whose; 0: nobody's yet.
    tag: AtomicU64,
    /// When it will be full, in nanoseconds.
    full_at: AtomicU64,
}

/// The buckets of one rule, of all workers.
pub(super) struct Buckets(Box<[Bucket]>);

impl core::fmt::Debug for Buckets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} buckets", self.0.len())
    }
}

impl Buckets {
    pub(super) fn new(per: Per) -> Self {
        let count = if per == Per::All { 1 } else { RATE_BUCKETS };
        Self((0..count).map(|_| Bucket::default()).collect())
    }

    /// The places where a bucket of this hash may stand.
    fn probed(&self, hash: u64) -> impl Iterator<Item = &Bucket> {
        let len = self.0.len();
        let home = (hash % len as u64) as usize;
        (0..PROBES.min(len)).map(move |step| &self.0[(home + step) % len])
    }

    /// How long a request must wait, in nanoseconds.
    pub(super) fn wait(&self, rate: &Rate, hash: u64, now_ns: u64, cost: u64) -> u64 {
        let full_at = |bucket: &Bucket| bucket.full_at.load(Ordering::Relaxed);
        let mut free = false;
        for bucket in self.probed(hash) {
            if self.0.len() == 1 || bucket.tag.load(Ordering::Relaxed) == hash {
                return rate.wait(full_at(bucket), now_ns, cost);
            }
            free |= full_at(bucket) <= now_ns;
        }
        let home = self.probed(hash).next().filter(|_| !free);
        home.map_or(0, |bucket| rate.wait(full_at(bucket), now_ns, cost))
    }

    /// A request with this cost passes, now or when it has waited.
    pub(super) fn charge(&self, hash: u64, now_ns: u64, cost: u64) {
        let Some(bucket) = self.own(hash).or_else(|| self.taken(hash, now_ns)) else { return };
        let later = |full_at: u64| Some(full_at.max(now_ns).saturating_add(cost));
        // The closure always gives a time, so this cannot fail.
        let _ = bucket.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    fn own(&self, hash: u64) -> Option<&Bucket> {
        let is_own =
            |bucket: &&Bucket| self.0.len() == 1 || bucket.tag.load(Ordering::Relaxed) == hash;
        self.probed(hash).find(is_own)
    }

    /// One that is full becomes this one's; if there is none, another's is shared.
    fn taken(&self, hash: u64, now_ns: u64) -> Option<&Bucket> {
        for bucket in self.probed(hash) {
            let tag = bucket.tag.load(Ordering::Relaxed);
            let is_full = bucket.full_at.load(Ordering::Relaxed) <= now_ns;
            let swap =
                || bucket.tag.compare_exchange(tag, hash, Ordering::Relaxed, Ordering::Relaxed);
            if is_full && swap().is_ok() {
                return Some(bucket);
            }
        }
        self.probed(hash).next()
    }
}

/// The tag of a bucket; never 0.
pub(super) fn hash_of(whose: &[u8]) -> u64 {
    rapidhash_v3(whose) | 1
}

/// The tag of the bucket of an address as Redis prints it: that of its IP, in one of whatever forms; of a socket file the whole.
pub(super) fn hash_of_address(addr: &str) -> u64 {
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    match host.trim_matches(['[', ']']).parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(IpAddr::V4(ip)) => hash_of(&ip.octets()),
        Ok(IpAddr::V6(ip)) => hash_of(&ip.octets()),
        Err(_) => hash_of(host.as_bytes()),
    }
}

/// The begin of a key that [`Per::Prefix`] goes by.
pub(super) fn prefix(key: &[u8]) -> &[u8] {
    let end = key.iter().position(|byte| *byte == b':').unwrap_or(key.len());
    &key[..end]
}

/// Places where a bucket may stand.
const PROBES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn rate(per_s: u64, burst: u64, per: Per) -> (Rate, Buckets) {
        let rate = Rate { unit: Unit::Requests, per_s, burst, per, delay_ms: 0 };
        (rate, Buckets::new(per))
    }

    /// Whether a request passes, which then counts.
    fn passes(of: &(Rate, Buckets), hash: u64, now: u64, bytes: u64) -> bool {
        let (rate, buckets) = of;
        let cost = rate.cost(bytes);
        let passes = buckets.wait(rate, hash, now, cost) == 0;
        if passes {
            buckets.charge(hash, now, cost);
        }
        passes
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let of = rate(10, 5, Per::All);
        let at_once = (0..20).filter(|_| passes(&of, 1, S, 0)).count();
        assert_eq!(at_once, 5);
        let later = (1..=100).filter(|step| passes(&of, 1, S + step * S / 100, 0)).count();
        assert!((9..=10).contains(&later), "{later}");
        // After a rest the bucket is full, and not more than full.
        assert_eq!((0..20).filter(|_| passes(&of, 1, 100 * S, 0)).count(), 5);
    }

    #[test]
    fn how_long_somebody_must_wait_is_told_and_is_enough() {
        let (rate, buckets) = rate(10, 1, Per::All);
        buckets.charge(1, S, rate.cost(0));
        assert_eq!(buckets.wait(&rate, 1, S, rate.cost(0)), S / 10);
        // Whoever waits has its turn, and who comes behind waits for longer.
        buckets.charge(1, S, rate.cost(0));
        assert_eq!(buckets.wait(&rate, 1, S, rate.cost(0)), S / 5);
        assert_eq!(buckets.wait(&rate, 1, S + S / 5, rate.cost(0)), 0);
    }

    #[test]
    fn what_is_larger_than_the_burst_goes_when_the_bucket_is_full() {
        let mut of = rate(1_000, 100, Per::All);
        of.0.unit = Unit::Bytes;
        assert!(passes(&of, 1, S, 5_000), "the bucket is full");
        assert!(!passes(&of, 1, S + 4 * S, 1));
        assert!(passes(&of, 1, S + 5 * S, 1));
        // Nothing overflows, whatever the numbers.
        assert!(passes(&of, 1, 100 * S, u64::MAX));
        assert!(!passes(&of, 1, 1_000_000 * S, 1));
    }

    #[test]
    fn each_has_its_own_bucket_and_a_full_table_is_stricter() {
        let of = rate(1, 1, Per::Client);
        assert!(passes(&of, 3, S, 0) && passes(&of, 5, S, 0) && !passes(&of, 3, S, 0));
        let passed = (1..=2 * RATE_BUCKETS as u64).filter(|n| passes(&of, n * 2 + 1, S, 0)).count();
        assert!(passed < RATE_BUCKETS && passed > RATE_BUCKETS / 2, "{passed}");
        // A second later all are full, and their places can be taken.
        assert!((1..=1_000).all(|n| passes(&of, hash_of(&[n as u8, (n >> 8) as u8]), 3 * S, 0)));
    }

    #[test]
    fn the_same_buckets_serve_several_threads() {
        extern crate std;
        let of = rate(1, 1_000, Per::All);
        let count = || (0..1_000).filter(|_| passes(&of, 1, S, 0)).count();
        let passed: usize = std::thread::scope(|scope| {
            let threads: alloc::vec::Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
        });
        // Four that look at the same moment may all pass at the end.
        assert!((1_000..=1_003).contains(&passed), "{passed}");
    }

    #[test]
    fn an_address_is_the_same_from_each_port_and_in_each_form() {
        let one = hash_of_address("10.0.0.7:1000");
        assert_eq!(hash_of_address("10.0.0.7:2000"), one);
        assert_eq!(hash_of_address("[::ffff:10.0.0.7]:1000"), one);
        let other = hash_of_address("[2001:db8::7]:1");
        assert_eq!(hash_of_address("[2001:0db8:0::7]:2"), other);
        assert_eq!(hash_of_address("/run/a:0"), hash_of_address("/run/a:0"));
        let all = [one, other, hash_of_address("10.0.0.8:1000"), hash_of_address("/run/a:0")];
        assert!((1..all.len()).all(|at| !all[..at].contains(&all[at])));
    }

    #[test]
    fn a_prefix_ends_before_the_colon() {
        assert_eq!(prefix(b"user:42:name"), b"user");
        assert_eq!(prefix(b"user"), b"user");
        assert_eq!(prefix(b":x"), b"");
    }
}
