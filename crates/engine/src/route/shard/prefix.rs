//! Routes: keys that begin alike go to shards of their own; the longest prefix decides.
//!
//! ```text
//!   "user:" ──────▶ shards a, b        key "user:7"      ─▶ "user:"
//!   "user:vip:" ──▶ shard c            key "user:vip:7"  ─▶ "user:vip:"
//!   "" (the rest) ▶ shard d            key "x"           ─▶ ""
//! ```
//! A search over sorted prefixes: the greatest one that is not above the key is the longest that the key begins with, or begins itself with that
//! one; so each prefix knows the longest other one that it begins with, and the way up finds the answer. What is compared first is the begin of
//! a text as one number, which settles nearly all steps. Nothing is allocated for a key.
//!
//! Not here: which of the shards of a route has a key (`layout`).
//!
//! Invariant: prefixes differ (also in the case of letters, where case is ignored), are sorted, and every parent stands before its child.

use super::ShardsError;
use super::layout::Layout;
use crate::command::word;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Routes at most. More are refused when the pool is built: a table of so many takes 1 MiB with the longest prefixes.
pub const ROUTES_MAX: usize = 4096;

/// Bytes of a prefix at most; a longer one is refused when the pool is built.
pub const PREFIX_BYTES_MAX: usize = 256;

/// Shards in all different lists of routes together, at most: each has its points on the ring of each list, 1.3 KiB.
pub const ROUTE_SHARDS_MAX: usize = 8192;

/// Which shards share the keys that begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Whether ASCII letters of keys match prefixes in either case. Keys stay as they are.
    pub ignore_case: bool,
    /// In any order; the longest prefix decides.
    pub list: Vec<Route>,
}

/// Where keys go that begin with this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What they begin with; empty: all that no other route has.
    pub prefix: Vec<u8>,
    /// Indices of the shards that share them; one at least, none twice.
    pub shards: Vec<u16>,
    /// The servers of these shards know the keys without the prefix (`removal`). Then none of the shards stands in another route.
    pub removes: bool,
}

impl Routes {
    /// Whether a table can be made of it for so many shards.
    pub(super) fn check(&self, shards: usize) -> Result<(), ShardsError> {
        if self.list.is_empty() {
            return Err(ShardsError::NoRoute);
        }
        if self.list.len() > ROUTES_MAX {
            return Err(ShardsError::TooManyRoutes);
        }
        let mut prefixes: Vec<Vec<u8>> = Vec::with_capacity(self.list.len());
        for Route { prefix, shards: lead_to, .. } in &self.list {
            if prefix.len() > PREFIX_BYTES_MAX {
                return Err(ShardsError::LongPrefix(prefix.clone()));
            }
            let mut sorted = lead_to.clone();
            sorted.sort_unstable();
            let is_twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
            let is_beyond = sorted.last().is_none_or(|last| usize::from(*last) >= shards);
            if is_twice || is_beyond {
                return Err(ShardsError::RouteShards(prefix.clone()));
            }
            prefixes.push(self.folded(prefix));
        }
        self.check_removed()?;
        prefixes.sort_unstable();
        if let Some(pair) = prefixes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ShardsError::PrefixTwice(pair[0].clone()));
        }
        match self.groups().iter().map(Vec::len).sum::<usize>() {
            0..=ROUTE_SHARDS_MAX => Ok(()),
            _ => Err(ShardsError::TooManyRoutes),
        }
    }

    /// A text as it is compared.
    /// What a server is not told must be the same for all its keys, or nobody could say what a name of its own is called here.
    fn check_removed(&self) -> Result<(), ShardsError> {
        for (at, route) in self.list.iter().enumerate().filter(|(_, route)| route.removes) {
            if self.ignore_case {
                return Err(ShardsError::RemovedCase);
            }
            let shares = |other: &Route| other.shards.iter().any(|one| route.shards.contains(one));
            let mut others = self.list.iter().enumerate().filter(|(other, _)| *other != at);
            if route.prefix.is_empty() || others.any(|(_, other)| shares(other)) {
                return Err(ShardsError::RemovedShared(route.prefix.clone()));
            }
        }
        Ok(())
    }

    fn folded(&self, text: &[u8]) -> Vec<u8> {
        if self.ignore_case { text.to_ascii_lowercase() } else { text.to_vec() }
    }

    /// The different sets of shards, sorted.
    fn groups(&self) -> Vec<Vec<u16>> {
        let mut groups: Vec<Vec<u16>> = self.list.iter().map(Route::group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }
}

impl Route {
    fn group(&self) -> Vec<u16> {
        let mut group = self.shards.clone();
        group.sort_unstable();
        group
    }
}

/// Routes, ready to be asked for keys.
#[derive(Clone, Debug)]
pub(super) struct Routed {
    table: Table,
    /// Each different set of shards once.
    layouts: Box<[Layout]>,
    /// That of all other keys.
    rest: Option<u16>,
}

impl Routed {
    /// Makes the table; `lay` lays a set of shards out.
    pub(super) fn new(routes: &Routes, lay: impl Fn(&[u16]) -> Layout) -> Self {
        let groups = routes.groups();
        // At most ROUTES_MAX routes were let in, so an index fits; each has its group among all.
        let layout_of = |route: &Route| groups.binary_search(&route.group()).unwrap_or(0) as u16;
        let (rest, named): (Vec<&Route>, Vec<&Route>) =
            routes.list.iter().partition(|route| route.prefix.is_empty());
        let named = named.iter().map(|route| (routes.folded(&route.prefix), layout_of(route)));
        Self {
            table: Table::new(named.collect(), routes.ignore_case),
            layouts: groups.iter().map(|group| lay(group)).collect(),
            rest: rest.first().map(|route| layout_of(route)),
        }
    }

    /// How the shards share keys such as this one; `None`: no route leads anywhere.
    #[inline(never)]
    pub(super) fn layout(&self, key: &[u8]) -> Option<&Layout> {
        self.layouts.get(usize::from(self.table.longest(key).or(self.rest)?))
    }

    /// The same for all keys that begin so; `None` as well if they have several routes.
    pub(super) fn sure_layout(&self, begin: &[u8]) -> Option<&Layout> {
        if self.table.goes_on(begin) { None } else { self.layout(begin) }
    }

    /// Whether there are keys that no route leads anywhere.
    pub(super) fn has_gaps(&self) -> bool {
        self.rest.is_none()
    }
}

/// Sorted prefixes.
#[derive(Clone, Debug)]
struct Table {
    ignore_case: bool,
    /// The begin of each as a number.
    heads: Box<[u64]>,
    entries: Box<[Entry]>,
    texts: Box<[u8]>,
}

/// One prefix.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its text is.
    from: u32,
    to: u32,
    /// The longest other one that it begins with.
    parent: Option<u16>,
    layout: u16,
}

impl Table {
    fn new(mut prefixes: Vec<(Vec<u8>, u16)>, ignore_case: bool) -> Self {
        prefixes.sort_unstable();
        let (mut entries, mut texts): (Vec<Entry>, Vec<u8>) = (Vec::new(), Vec::new());
        for (prefix, layout) in &prefixes {
            // Whatever it begins with is the one before, or what that one begins with.
            let mut parent = entries.len().checked_sub(1);
            while let Some(index) = parent
                && !prefix.starts_with(&prefixes[index].0)
            {
                parent = entries[index].parent.map(usize::from);
            }
            let from = texts.len() as u32;
            texts.extend_from_slice(prefix);
            let parent = parent.map(|index| index as u16);
            entries.push(Entry { from, to: texts.len() as u32, parent, layout: *layout });
        }
        let heads = prefixes.iter().map(|(prefix, _)| head(prefix)).collect();
        Self { ignore_case, heads, entries: entries.into(), texts: texts.into() }
    }

    fn text(&self, entry: &Entry) -> &[u8] {
        &self.texts[entry.from as usize..entry.to as usize]
    }

    fn begins(&self, key: &[u8], prefix: &[u8]) -> bool {
        match (key.get(..prefix.len()), self.ignore_case) {
            (None, _) => false,
            (Some(begin), false) => begin == prefix,
            (Some(begin), true) => word::same_name(begin, prefix),
        }
    }

    /// Whether this text is not above the key.
    fn is_not_above(&self, text: &[u8], key: &[u8]) -> bool {
        if self.ignore_case {
            text.iter().copied().le(key.iter().map(u8::to_ascii_lowercase))
        } else {
            text <= key
        }
    }

    /// How many entries are not above the key.
    fn position(&self, key: &[u8]) -> usize {
        let mut begin = head(key).to_be_bytes();
        if self.ignore_case {
            begin.make_ascii_lowercase();
        }
        let begin = u64::from_be_bytes(begin);
        let end = self.heads.partition_point(|head| *head <= begin);
        // Few have the same begin as the key, most often none or one: whether any is above it is asked of the last one first.
        match self.entries[..end].last() {
            Some(last) if !self.is_not_above(self.text(last), key) => {
                let first = self.heads[..end].partition_point(|head| *head < begin);
                let alike = &self.entries[first..end];
                first + alike.partition_point(|entry| self.is_not_above(self.text(entry), key))
            }
            _ => end,
        }
    }

    /// The layout of the longest prefix that the key begins with.
    fn longest(&self, key: &[u8]) -> Option<u16> {
        let mut entry = self.entries.get(self.position(key).checked_sub(1)?)?;
        while !self.begins(key, self.text(entry)) {
            entry = self.entries.get(usize::from(entry.parent?))?;
        }
        Some(entry.layout)
    }

    /// Whether some prefix begins with this and is longer.
    fn goes_on(&self, begin: &[u8]) -> bool {
        let next = self.entries.get(self.position(begin));
        next.is_some_and(|next| {
            let start = self.text(next).get(..begin.len());
            start.is_some_and(|start| self.begins(begin, start))
        })
    }
}

/// The first bytes of a text as a number that is ordered as texts are, but that several may have the same.
#[inline]
fn head(text: &[u8]) -> u64 {
    match text.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut bytes = [0; 8];
            bytes[..text.len()].copy_from_slice(text);
            u64::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Compat, Distribution, NOWHERE, Shard, Sharding, Shards};
    use super::*;
    use crate::route::hash::Hash;
    use alloc::format;
    use alloc::vec;
    use proptest::prelude::*;

    fn routes(ignore_case: bool, list: &[(&[u8], &[u16])]) -> Routes {
        let route = |(prefix, shards): &(&[u8], &[u16])| Route {
            prefix: prefix.to_vec(),
            shards: shards.to_vec(),
            removes: false,
        };
        Routes { ignore_case, list: list.iter().map(route).collect() }
    }

    fn laid_out(
        distribution: Distribution,
        count: usize,
        routes: Routes,
    ) -> Result<Shards, ShardsError> {
        let shards = (0..count).map(|n| Shard { name: format!("s{n}"), weight: 1 }).collect();
        let routes = Some(routes);
        let (compat, hash, tag) = (Compat::Overlord, Hash::Fnv1a64, Some(*b"{}"));
        Shards::new(Sharding { compat, distribution, hash, tag, routes }, shards)
    }

    fn pool(count: usize, routes: Routes) -> Shards {
        laid_out(Distribution::Modula, count, routes).unwrap()
    }

    fn of(shards: &Shards, key: &[u8]) -> usize {
        shards.of(key, || panic!("asked for a random number"))
    }

    #[test]
    fn the_longest_prefix_decides_and_the_rest_has_its_own() {
        let list: &[(&[u8], &[u16])] =
            &[(b"user:", &[0]), (b"", &[3]), (b"user:vip:", &[1]), (b"u", &[2])];
        let shards = pool(4, routes(false, list));
        for (key, shard) in [
            (&b"user:7"[..], 0),
            (b"user:", 0),
            (b"user:vip", 0),
            (b"user:vip:", 1),
            (b"user:vip:7", 1),
            (b"user", 2),
            (b"user;", 2),
            (b"v", 3),
            (b"", 3),
            (b"User:7", 3),
            (b"{user:}7", 3),
        ] {
            assert_eq!(of(&shards, key), shard, "{}", key.escape_ascii());
        }
        assert!(!shards.has_gaps());
    }

    #[test]
    fn without_a_route_for_the_rest_a_key_goes_nowhere() {
        let shards = pool(1, routes(false, &[(b"a:", &[0])]));
        assert!(shards.has_gaps());
        assert_eq!(
            (of(&shards, b"a:1"), of(&shards, b"b:1"), of(&shards, b"")),
            (0, NOWHERE, NOWHERE)
        );
    }

    #[test]
    fn case_can_be_ignored() {
        let shards =
            pool(3, routes(true, &[(b"User:", &[0]), (b"USER:VIP:long", &[1]), (b"", &[2])]));
        for (key, shard) in
            [(&b"user:1"[..], 0), (b"USER:1", 0), (b"uSER:vIp:LONGer", 1), (b"use", 2), (b"z", 2)]
        {
            assert_eq!(of(&shards, key), shard, "{}", key.escape_ascii());
        }
        let twice = routes(true, &[(b"a", &[0]), (b"A", &[1])]);
        let error = laid_out(Distribution::Modula, 2, twice).expect_err("the same prefix");
        assert_eq!(error, ShardsError::PrefixTwice(b"a".to_vec()));
        assert!(
            laid_out(Distribution::Modula, 2, routes(false, &[(b"a", &[0]), (b"A", &[1])])).is_ok()
        );
    }

    #[test]
    fn shards_of_a_route_share_its_keys_as_a_pool_of_them_would() {
        let shards = pool(4, routes(false, &[(b"u:", &[2, 0]), (b"", &[1, 2, 3])]));
        let own = |count| {
            let shards = (0..count).map(|n| Shard { name: format!("s{n}"), weight: 1 }).collect();
            let (compat, hash, tag) = (Compat::Overlord, Hash::Fnv1a64, Some(*b"{}"));
            let distribution = Distribution::Modula;
            Shards::new(Sharding { compat, distribution, hash, tag, routes: None }, shards).unwrap()
        };
        let (two, three) = (own(2), own(3));
        for n in 0..200 {
            let key = format!("u:{n}").into_bytes();
            assert_eq!(of(&shards, &key), [0, 2][of(&two, &key)]);
            let key = format!("x:{n}").into_bytes();
            assert_eq!(of(&shards, &key), 1 + of(&three, &key));
        }
    }

    #[test]
    fn a_dead_shard_leaves_its_keys_to_those_of_its_routes() {
        let shards = pool(4, routes(false, &[(b"u:", &[0, 1]), (b"o:", &[2]), (b"", &[2, 3])]));
        let left = shards.without(&[1, 2]);
        for n in 0..100 {
            assert_eq!(of(&left, format!("u:{n}").as_bytes()), 0);
            assert_eq!(of(&left, format!("x:{n}").as_bytes()), 3);
            // Nobody else has these.
            assert_eq!(of(&left, format!("o:{n}").as_bytes()), 2);
        }
    }

    #[test]
    fn chance_chooses_among_the_shards_of_the_route() {
        let list = routes(false, &[(b"u:", &[0, 2]), (b"", &[1])]);
        let shards = laid_out(Distribution::Random, 3, list).unwrap();
        let found: Vec<usize> = (0..4).map(|n| shards.of(b"u:1", || n)).collect();
        assert_eq!((found, shards.of(b"x", || 7)), (vec![0, 2, 0, 2], 1));
        assert!(
            shards.may_have(2, b"u:1") && !shards.may_have(1, b"u:1") && shards.may_have(1, b"x")
        );
    }

    #[test]
    fn patterns_are_sure_where_no_longer_prefix_could_follow() {
        let shards = pool(
            4,
            routes(false, &[(b"u:", &[0]), (b"u:v:", &[1]), (b"w:", &[2, 3]), (b"", &[3])]),
        );
        for (pattern, is_sure) in [
            (&b"u:x*"[..], true),
            (b"u:v:*", true),
            (b"u:*", false),
            (b"u*", false),
            (b"*", false),
            (b"q*", true),
            (b"w:*", false),
            (b"w:{a}*", true),
            (b"w:{*}", false),
        ] {
            assert_eq!(shards.holds_together(pattern), is_sure, "{}", pattern.escape_ascii());
        }
    }

    #[test]
    fn routes_that_make_no_sense_are_refused() {
        let refused = |list: Routes| laid_out(Distribution::Modula, 2, list).expect_err("refused");
        assert_eq!(refused(routes(false, &[])), ShardsError::NoRoute);
        for shards in [&[][..], &[2], &[0, 0], &[1, 0, 1]] {
            let error = refused(routes(false, &[(b"a", shards)]));
            assert_eq!(error, ShardsError::RouteShards(b"a".to_vec()));
        }
        let twice = routes(false, &[(b"a", &[0]), (b"b", &[0]), (b"a", &[1])]);
        assert_eq!(refused(twice), ShardsError::PrefixTwice(b"a".to_vec()));
        let two_rests = routes(false, &[(b"", &[0]), (b"", &[1])]);
        assert_eq!(refused(two_rests), ShardsError::PrefixTwice(Vec::new()));
        let long = vec![b'x'; PREFIX_BYTES_MAX + 1];
        assert!(laid_out(Distribution::Modula, 2, routes(false, &[(&long[1..], &[0])])).is_ok());
        assert_eq!(refused(routes(false, &[(&long, &[0])])), ShardsError::LongPrefix(long));
        let buckets = Distribution::Buckets(vec![0, 1]);
        let error = laid_out(buckets, 2, routes(false, &[(b"a", &[0])])).expect_err("refused");
        assert_eq!(error, ShardsError::RoutesWithBuckets);
    }

    #[test]
    fn a_prefix_is_removed_where_its_shards_have_no_other() {
        let removing = |ignore_case, list: &[(&[u8], &[u16])], removed: &[usize]| {
            let mut routes = routes(ignore_case, list);
            removed.iter().for_each(|at| routes.list[*at].removes = true);
            laid_out(Distribution::Modula, 4, routes)
        };
        let list: &[(&[u8], &[u16])] = &[(b"a:", &[0, 1]), (b"a:b:", &[2]), (b"", &[3])];
        let shards = removing(false, list, &[0, 1]).unwrap();
        let removed: Vec<&[u8]> = (0..4).map(|shard| shards.removed(shard)).collect();
        assert_eq!(removed, [&b"a:"[..], b"a:", b"a:b:", b""]);
        assert_eq!(removing(true, list, &[0]).expect_err("case"), ShardsError::RemovedCase);
        let shared = |prefix: &[u8]| ShardsError::RemovedShared(prefix.to_vec());
        assert_eq!(removing(false, list, &[2]).expect_err("the rest"), shared(b""));
        let list: &[(&[u8], &[u16])] = &[(b"a:", &[0, 1]), (b"b:", &[1, 2]), (b"", &[3])];
        assert_eq!(removing(false, list, &[0]).expect_err("two prefixes"), shared(b"a:"));
        assert_eq!(removing(false, list, &[1]).expect_err("two prefixes"), shared(b"b:"));
    }

    #[test]
    fn the_bounds_on_routes() {
        let list = |count: usize| {
            let route = |n: usize| Route {
                prefix: format!("{n}:").into_bytes(),
                shards: vec![0],
                removes: false,
            };
            Routes { ignore_case: false, list: (0..count).map(route).collect() }
        };
        assert!(laid_out(Distribution::Modula, 1, list(ROUTES_MAX)).is_ok());
        let error = laid_out(Distribution::Modula, 1, list(ROUTES_MAX + 1)).expect_err("too many");
        assert_eq!(error, ShardsError::TooManyRoutes);
        // Each list leaves another shard out.
        let lists = |count: u16, shards: u16| {
            let all = |n: u16| (0..shards).filter(|shard| *shard != n).collect();
            let route = |n: u16| Route {
                prefix: format!("{n}:").into_bytes(),
                shards: all(n),
                removes: false,
            };
            Routes { ignore_case: false, list: (0..count).map(route).collect() }
        };
        assert!(laid_out(Distribution::Modula, 129, lists(64, 129)).is_ok());
        let error = laid_out(Distribution::Modula, 129, lists(65, 129)).expect_err("too many");
        assert_eq!(error, ShardsError::TooManyRoutes);
    }

    /// The longest of the prefixes that the key begins with, by looking at each.
    fn naive(list: &[(Vec<u8>, u16)], key: &[u8]) -> Option<u16> {
        let fits = list.iter().filter(|(prefix, _)| key.starts_with(prefix));
        fits.max_by_key(|(prefix, _)| prefix.len()).map(|(_, layout)| *layout)
    }

    /// Texts of few letters, so that many begin alike; some have a zero byte, or are longer than a head.
    fn texts() -> impl Strategy<Value = Vec<u8>> {
        let letter = prop_oneof![Just(b'a'), Just(b'b'), Just(b'B'), Just(0u8), Just(0xff)];
        prop_oneof![
            proptest::collection::vec(letter.clone(), 0..5),
            proptest::collection::vec(letter, 0..4)
                .prop_map(|end| [&b"same-begin:"[..], &end].concat()),
        ]
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_looking_at_each_finds(
            prefixes in proptest::collection::btree_set(texts(), 0..40),
            keys in proptest::collection::vec(texts(), 1..40),
            ignore_case: bool,
        ) {
            let fold = |text: &[u8]| if ignore_case { text.to_ascii_lowercase() } else { text.to_vec() };
            let mut list: Vec<Vec<u8>> = prefixes.iter().map(|prefix| fold(prefix)).collect();
            list.sort_unstable();
            list.dedup();
            let list: Vec<(Vec<u8>, u16)> =
                list.into_iter().filter(|prefix| !prefix.is_empty()).zip(0..).collect();
            let table = Table::new(list.clone(), ignore_case);
            for key in &keys {
                prop_assert_eq!(table.longest(key), naive(&list, &fold(key)));
                let goes_on = list.iter().any(|(prefix, _)| {
                    prefix.len() > key.len() && prefix.starts_with(&fold(key))
                });
                prop_assert_eq!(table.goes_on(key), goes_on);
            }
        }
    }
}
