//! Rules of `shard` that hold for every pool, and every way in which a pool can be refused.
//!
//! Where keys go exactly is `golden`'s matter.

use super::*;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use proptest::prelude::*;

fn shard(name: &str, weight: u32) -> Shard {
    Shard { name: name.to_owned(), weight }
}

fn named(weights: &[u32]) -> Vec<Shard> {
    weights
        .iter()
        .enumerate()
        .map(|(n, weight)| shard(&format!("10.0.0.{n}:6379"), *weight))
        .collect()
}

fn sharding(distribution: Distribution, hash: Hash) -> Sharding {
    Sharding { compat: Compat::Twemproxy, distribution, hash, tag: Some(*b"{}"), routes: None }
}

fn pool(distribution: Distribution, weights: &[u32]) -> Shards {
    Shards::new(sharding(distribution, Hash::Fnv1a64), named(weights)).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key:{n}").into_bytes()
}

fn of(shards: &Shards, key: &[u8]) -> usize {
    shards.of(key, || panic!("asked for a random number"))
}

fn refused(sharding: Sharding, shards: Vec<Shard>) -> ShardsError {
    Shards::new(sharding, shards).expect_err("to be refused")
}

#[test]
fn a_pool_that_makes_no_sense_is_refused() {
    let ketama = || sharding(Distribution::Ketama, Hash::Md5);
    let modula = || sharding(Distribution::Modula, Hash::Md5);
    assert_eq!(refused(ketama(), Vec::new()), ShardsError::Empty);
    assert_eq!(refused(ketama(), named(&[1, 0])), ShardsError::ZeroWeight(1));
    assert_eq!(refused(modula(), named(&[u32::MAX, 1])), ShardsError::WeightOverflow);
    let same = vec![shard("a", 1), shard("b", 1), shard("a", 2)];
    assert_eq!(refused(ketama(), same.clone()), ShardsError::SameName("a".to_owned()));
    assert_eq!(refused(modula(), same.clone()), ShardsError::SameName("a".to_owned()));
    let atol = sharding(Distribution::Ketama, Hash::Atol);
    assert_eq!(refused(atol, named(&[1, 1])), ShardsError::NotForRings(Hash::Atol));
    // predixy's groups may be called anything.
    let predixy = Sharding { compat: Compat::Predixy, ..modula() };
    assert!(Shards::new(predixy, same).is_ok());
}

#[test]
fn the_bound_on_shards() {
    assert!(
        Shards::new(sharding(Distribution::Modula, Hash::Md5), named(&[1; SHARDS_MAX])).is_ok()
    );
    let error = refused(sharding(Distribution::Modula, Hash::Md5), named(&[1; SHARDS_MAX + 1]));
    assert_eq!(error, ShardsError::TooMany(SHARDS_MAX + 1));
    let groups: Vec<_> = (0..=SHARDS_MAX).map(|n| n.to_string()).collect();
    let error = Distribution::buckets(groups.iter().map(String::as_str)).expect_err("too many");
    assert_eq!(error, ShardsError::TooMany(SHARDS_MAX + 1));
}

#[test]
fn bucket_maps() {
    let read = |groups: &[&str]| Distribution::buckets(groups.iter().copied());
    assert_eq!(read(&["0-2-4", "1-3-5"]), Ok(Distribution::Buckets(vec![0, 1, 0, 1, 0, 1])));
    assert_eq!(read(&["0", "1-2-1"]), Err(ShardsError::BucketTwice(1)));
    assert_eq!(read(&["0", "2"]), Err(ShardsError::BucketMissing(1)));
    assert_eq!(read(&["0", "x"]), Err(ShardsError::BadBuckets("x".to_owned())));
    assert_eq!(read(&["0", ""]), Err(ShardsError::BadBuckets(String::new())));
    assert_eq!(read(&["0-65536"]), Err(ShardsError::BadBuckets("0-65536".to_owned())));

    let build = |owners: Vec<u16>| {
        Shards::new(sharding(Distribution::Buckets(owners), Hash::Java31), named(&[1, 1]))
    };
    assert!(build(vec![0, 1, 1]).is_ok());
    assert_eq!(build(vec![0, 2]).expect_err("no shard 2"), ShardsError::BucketShard(2));
    assert_eq!(build(Vec::new()).expect_err("no bucket"), ShardsError::BucketMissing(0));
    assert!(build(vec![0; BUCKETS_MAX]).is_ok());
    assert!(matches!(build(vec![0; BUCKETS_MAX + 1]), Err(ShardsError::BadBuckets(_))));
}

#[test]
fn every_error_says_what_is_wrong() {
    for (error, part) in [
        (ShardsError::Empty, "no shards"),
        (ShardsError::TooMany(2000), "2000"),
        (ShardsError::ZeroWeight(3), "shard 3"),
        (ShardsError::WeightOverflow, "4294967295"),
        (ShardsError::SameName("x".to_owned()), "\"x\""),
        (ShardsError::NotForRings(Hash::Atol), "\"atol\""),
        (ShardsError::BadBuckets("1,2".to_owned()), "\"1,2\""),
        (ShardsError::BucketTwice(4), "bucket 4"),
        (ShardsError::BucketMissing(5), "bucket 5"),
        (ShardsError::BucketShard(6), "shard 6"),
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_pool_of_one_is_not_hashed() {
    for distribution in [Distribution::Ketama, Distribution::Modula, Distribution::Random] {
        assert_eq!(of(&pool(distribution, &[7]), b"any"), 0);
    }
}

#[test]
fn random_takes_the_number_it_is_given_and_no_weight() {
    let shards = pool(Distribution::Random, &[1, 1000, 1]);
    let got: Vec<_> = (0..6).map(|n| shards.of(b"key", || n)).collect();
    assert_eq!(got, [0, 1, 2, 0, 1, 2]);
    let left = shards.without(&[1]);
    let got: Vec<_> = (0..4).map(|n| left.of(b"key", || n)).collect();
    assert_eq!(got, [0, 2, 0, 2]);
}

#[test]
fn modula_takes_a_share_for_each_unit_of_weight() {
    // atol makes the key the hash. 2^32-1 units in all, so a table of them would not fit.
    let sharding =
        Sharding { compat: Compat::Predixy, ..sharding(Distribution::Modula, Hash::Atol) };
    let shards = Shards::new(sharding, named(&[2, 1, u32::MAX - 3])).unwrap();
    for (key, expected) in
        [("0", 0), ("1", 0), ("2", 1), ("3", 2), ("4294967294", 2), ("4294967295", 0)]
    {
        assert_eq!(of(&shards, key.as_bytes()), expected, "{key}");
    }
}

/// With nobody left there is no better answer than the usual one: the request fails at its own shard.
#[test]
fn all_dead_is_as_none_dead() {
    for distribution in [Distribution::Ketama, Distribution::Modula] {
        let shards = pool(distribution, &[1, 2, 3]);
        let none = shards.without(&[0, 1, 2]);
        assert!((0..500).all(|n| of(&shards, &key(n)) == of(&none, &key(n))));
    }
}

#[test]
fn buckets_have_fixed_owners() {
    let distribution = Distribution::buckets(["0-2", "1"]).unwrap();
    let shards = pool(distribution, &[1, 1]);
    let without = shards.without(&[0]);
    assert!((0..500).all(|n| of(&shards, &key(n)) == of(&without, &key(n))));
}

#[test]
fn a_ring_without_a_shard_moves_only_its_keys() {
    let shards = pool(Distribution::Ketama, &[1; 5]);
    let left = shards.without(&[2]);
    let mut moved = 0;
    for n in 0..5000 {
        let (before, after) = (of(&shards, &key(n)), of(&left, &key(n)));
        assert_ne!(after, 2);
        if before == 2 {
            moved += 1;
        } else {
            assert_eq!(before, after, "key {n} was not the dead shard's");
        }
    }
    assert!((500..1500).contains(&moved), "{moved} of 5000 were on one of five");
    // And back: the pool that was first asked is unchanged.
    assert_eq!(left.count(), 5);
    let again = left.without(&[]);
    assert!((0..5000).all(|n| of(&shards, &key(n)) == of(&again, &key(n))));
}

/// With MD5 as the hash, the text that a point is made from is a key that meets this very point: its shard has it.
#[test]
fn a_point_belongs_to_its_shard() {
    let shards = Shards::new(sharding(Distribution::Ketama, Hash::Md5), named(&[1; 5])).unwrap();
    for (index, shard) in shards.shards().iter().enumerate() {
        for four in 0..40 {
            assert_eq!(of(&shards, format!("{}-{four}", shard.name).as_bytes()), index);
        }
    }
}

#[test]
fn weights_are_kept_to_in_the_large() {
    for distribution in [Distribution::Ketama, Distribution::Modula] {
        let shards = pool(distribution, &[1, 2, 5]);
        let mut counts = [0_u32; 3];
        for n in 0..20_000 {
            counts[of(&shards, &key(n))] += 1;
        }
        for (count, ideal) in counts.iter().zip([2500_u32, 5000, 12_500]) {
            assert!(count.abs_diff(ideal) < ideal / 3, "{counts:?}");
        }
    }
}

/// The order in which a configuration lists twemproxy's servers is of no account.
#[test]
fn twemproxy_orders_by_name() {
    let lines = [shard("beta", 1), shard("alpha", 2), shard("z", 3), shard("gamma", 1)];
    for distribution in [Distribution::Ketama, Distribution::Modula] {
        let given =
            Shards::new(sharding(distribution.clone(), Hash::Murmur), lines.to_vec()).unwrap();
        let reversed: Vec<_> = lines.iter().rev().cloned().collect();
        let reversed = Shards::new(sharding(distribution, Hash::Murmur), reversed).unwrap();
        for n in 0..500 {
            assert_eq!(of(&given, &key(n)), 3 - of(&reversed, &key(n)));
        }
    }
}

/// predixy's groups stay in the order of the configuration, so the names say nothing.
#[test]
fn predixy_orders_as_given() {
    let build = |names: [&str; 3]| {
        let sharding =
            Sharding { compat: Compat::Predixy, ..sharding(Distribution::Modula, Hash::Crc16) };
        Shards::new(sharding, names.map(|name| shard(name, 1)).to_vec()).unwrap()
    };
    let (given, renamed) = (build(["long-name", "b", "a"]), build(["a", "b", "c"]));
    assert!((0..500).all(|n| of(&given, &key(n)) == of(&renamed, &key(n))));
}

#[test]
fn what_an_empty_tag_means() {
    let with = |compat| {
        let sharding = Sharding { compat, ..sharding(Distribution::Ketama, Hash::Fnv1a64) };
        Shards::new(sharding, named(&[1; 9])).unwrap()
    };
    let overlord = with(Compat::Overlord);
    assert!((0..100).all(|n| of(&overlord, &[b"{}", &key(n)[..]].concat()) == of(&overlord, b"")));
    let twemproxy = with(Compat::Twemproxy);
    assert!(
        (0..100).any(|n| of(&twemproxy, &[b"{}", &key(n)[..]].concat()) != of(&twemproxy, b"{}"))
    );
}

proptest! {
    /// Any pool, any key: an index that exists and is not left out, always the same.
    #[test]
    fn the_invariant(
        weights in proptest::collection::vec(1_u32..2000, 1..12),
        dead in proptest::collection::vec(0_usize..14, 0..8),
        keys in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..20),
        compat in proptest::sample::select(Compat::all().collect::<Vec<_>>()),
        hash in proptest::sample::select(Hash::all().collect::<Vec<_>>()),
        ring in any::<bool>(),
    ) {
        let distribution = if ring && hash.is_for_rings() { Distribution::Ketama } else { Distribution::Modula };
        let sharding = Sharding { compat, ..sharding(distribution, hash) };
        let shards = Shards::new(sharding, named(&weights)).unwrap();
        let left = shards.without(&dead);
        let someone_lives = (0..weights.len()).any(|n| !dead.contains(&n));
        for key in &keys {
            prop_assert!(of(&shards, key) < shards.count());
            let got = of(&left, key);
            prop_assert!(got < left.count());
            prop_assert!(!someone_lives || weights.len() == 1 || !dead.contains(&got));
            prop_assert_eq!(got, of(&left, key));
        }
    }

    /// Keys of one tag go together, whatever stands around it.
    #[test]
    fn a_tag_keeps_keys_together(tag in "[^{}]{1,8}", before in "[^{]{0,8}", behind in ".{0,8}") {
        let shards = pool(Distribution::Ketama, &[1; 7]);
        let key = format!("{before}{{{tag}}}{behind}");
        prop_assert_eq!(of(&shards, key.as_bytes()), of(&shards, tag.as_bytes()));
    }
}
