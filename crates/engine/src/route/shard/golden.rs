//! Holds `shard` against where the proxies themselves put keys. How each file was made stands at its top.
//!
//! Invariant: every line of every file is checked for every key, and a file without lines fails.

use super::*;
use alloc::borrow::ToOwned;
use alloc::string::ToString;
use core::str::FromStr;

const KEYS: &str = include_str!("golden/keys.txt");

/// One line of a file: a pool, and the shard of each key in it.
struct Vector<'a> {
    hash: Hash,
    distribution: &'a str,
    tag: Option<[u8; 2]>,
    dead: Vec<usize>,
    servers: Vec<&'a str>,
    expected: &'a str,
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

fn keys() -> Vec<Vec<u8>> {
    let byte = |hex: &[u8]| u8::from_str_radix(core::str::from_utf8(hex).unwrap(), 16).unwrap();
    let key = |line: &str| line.as_bytes()[1..].chunks(2).map(byte).collect();
    lines(KEYS).map(key).collect()
}

impl<'a> Vector<'a> {
    fn read(line: &'a str) -> Self {
        let (pool, expected) = line.rsplit_once(" = ").expect("pool = shards");
        let fields: Vec<&str> = pool.splitn(5, ' ').collect();
        let optional = |text: &'a str| Some(text).filter(|text| *text != "-");
        Self {
            hash: Hash::from_name(fields[0]).expect("a known hash"),
            distribution: fields[1],
            tag: optional(fields[2]).map(|tag| tag.as_bytes().try_into().expect("two characters")),
            dead: optional(fields[3]).map_or(Vec::new(), |list| {
                list.split(',').map(|n| usize::from_str(n).unwrap()).collect()
            }),
            servers: fields[4].split('|').collect(),
            expected,
        }
    }

    fn shards(&self, compat: Compat) -> Shards {
        let distribution = match self.distribution {
            "ketama" => Distribution::Ketama,
            "modula" => Distribution::Modula,
            "buckets" => Distribution::buckets(self.servers.iter().copied()).unwrap(),
            other => panic!("no distribution {other}"),
        };
        let shard = |text: &&str| match compat {
            Compat::Predixy | Compat::Camellia => Shard { name: (*text).to_owned(), weight: 1 },
            _ => ServerLine::parse(compat, text).unwrap().shard,
        };
        let sharding =
            Sharding { compat, distribution, hash: self.hash, tag: self.tag, routes: None };
        let shards = Shards::new(sharding, self.servers.iter().map(shard).collect()).unwrap();
        if self.dead.is_empty() { shards } else { shards.without(&self.dead) }
    }
}

/// Checks every line of a file and gives their number.
fn check(compat: Compat, text: &str) -> usize {
    let keys = keys();
    for line in lines(text) {
        let vector = Vector::read(line);
        let shards = vector.shards(compat);
        assert_eq!(vector.expected.len(), keys.len(), "one digit for each key");
        for (key, expected) in keys.iter().zip(vector.expected.chars()) {
            let got = shards.of(key, || unreachable!("no random distribution here"));
            let pool = line.rsplit_once(" = ").unwrap().0;
            assert_eq!(
                got,
                expected.to_digit(36).unwrap() as usize,
                "{:?} of {pool}",
                key.escape_ascii().to_string()
            );
        }
    }
    lines(text).count()
}

#[test]
fn twemproxy() {
    assert_eq!(check(Compat::Twemproxy, include_str!("golden/twemproxy.txt")), 94);
}

#[test]
fn twemproxy_on_arm() {
    assert_eq!(check(Compat::TwemproxyArm, include_str!("golden/twemproxy-arm.txt")), 12);
}

#[test]
fn overlord() {
    assert_eq!(check(Compat::Overlord, include_str!("golden/overlord.txt")), 37);
}

#[test]
fn predixy() {
    assert_eq!(check(Compat::Predixy, include_str!("golden/predixy.txt")), 32);
}

#[test]
fn camellia() {
    assert_eq!(check(Compat::Camellia, include_str!("golden/camellia.txt")), 15);
}
