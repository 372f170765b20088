//! Which prefixes of `CLIENT TRACKING … BCAST` overlap.
//!
//! A server refuses a prefix that begins another one of the same client. It compares each with each (`checkPrefixCollisionsOrReply` in Redis 7.0); a request
//! may name ten thousand of them, for which a worker has no such time.
//!
//! Not here: what is asked of servers (`feed`).
//!
//! Invariant: the pair that is found is the one that a server names.

use alloc::collections::BTreeSet;
use core::borrow::Borrow;
use core::ops::Bound;

/// The first of these that overlaps with one behind it, and the first of those.
pub(super) fn first_overlap<'a>(prefixes: &[&'a [u8]]) -> Option<(&'a [u8], &'a [u8])> {
    let mut behind: BTreeSet<&[u8]> = BTreeSet::new();
    let mut first = None;
    for (at, one) in prefixes.iter().enumerate().rev() {
        if overlapping(&behind, one).is_some() {
            first = Some(at);
        }
        // Whatever overlaps with a name that it begins overlaps with it, too.
        while let Some(longer) = overlapping(&behind, one).filter(|other| other.len() > one.len()) {
            let longer = *longer;
            behind.remove(longer);
        }
        if overlapping(&behind, one).is_none() {
            behind.insert(one);
        }
    }
    let at = first?;
    let one = prefixes[at];
    let other = prefixes[at + 1..].iter().find(|other| overlap(one, other))?;
    Some((one, other))
}

/// The first of `names` that overlaps with this one. No two of `names` overlap.
pub(super) fn overlapping<'a, Name>(names: &'a BTreeSet<Name>, one: &[u8]) -> Option<&'a Name>
where
    Name: Borrow<[u8]> + Ord,
{
    // If one of them begins it, all between the two would begin with that one, too.
    let up_to = (Bound::Unbounded, Bound::Included(one));
    let shorter = names.range::<[u8], _>(up_to).next_back();
    let from = (Bound::Excluded(one), Bound::Unbounded);
    let longer = || names.range::<[u8], _>(from).next();
    shorter
        .filter(|other| one.starts_with((*other).borrow()))
        .or_else(|| longer().filter(|other| (*other).borrow().starts_with(one)))
}

fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// As a server looks for them.
    fn by_all_pairs<'a>(prefixes: &[&'a [u8]]) -> Option<(&'a [u8], &'a [u8])> {
        prefixes.iter().enumerate().find_map(|(at, one)| {
            let other = prefixes[at + 1..].iter().find(|other| overlap(one, other))?;
            Some((*one, *other))
        })
    }

    #[test]
    fn prefixes_overlap_when_one_begins_the_other() {
        let found = |names: &[&'static str]| {
            let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
            first_overlap(&names).is_some()
        };
        assert!(found(&["", "a"]) && found(&["ab", "a"]) && found(&["a", "a"]));
        assert!(!found(&["ab", "ac"]) && !found(&["b", "a"]) && !found(&["a"]) && !found(&[]));
    }

    #[test]
    fn the_pair_is_the_one_that_a_server_finds() {
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let (mut some, mut none) = (0, 0);
        for _ in 0..20_000 {
            let count = next(7);
            let names: Vec<Vec<u8>> = (0..count)
                .map(|_| (0..next(6)).map(|_| b"ab\0\xff"[next(4) as usize]).collect())
                .collect();
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let wanted = by_all_pairs(&names);
            assert_eq!(first_overlap(&names), wanted, "{names:?}");
            *if wanted.is_some() { &mut some } else { &mut none } += 1;
            if let Some((last, rest)) = names.split_last()
                && by_all_pairs(rest).is_none()
            {
                let set: BTreeSet<&[u8]> = rest.iter().copied().collect();
                let wanted = set.iter().find(|other| overlap(last, other));
                assert_eq!(overlapping(&set, last), wanted, "{names:?}");
            }
        }
        assert!(some > 1_000 && none > 1_000, "{some} {none}");
    }

    #[test]
    fn a_hundred_thousand_take_no_time() {
        let names: Vec<Vec<u8>> =
            (0..100_000).map(|n| alloc::format!("name:{n:06}").into_bytes()).collect();
        let mut names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        // All pairs would be five billion.
        assert_eq!(first_overlap(&names), None);
        names.push(b"name:050000:x");
        assert_eq!(first_overlap(&names), Some((&b"name:050000"[..], &b"name:050000:x"[..])));
    }
}
