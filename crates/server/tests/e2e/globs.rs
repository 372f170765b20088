//! Patterns mean here what they mean to a server.

use testkit::RedisServer;

/// Numbers from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }

    fn word(&mut self, len: usize, bytes: &[u8]) -> Vec<u8> {
        (0..len).map(|_| bytes[self.below(bytes.len())]).collect()
    }
}

#[test]
fn keys_finds_the_same_as_the_proxys_own_matching() {
    let server = RedisServer::start();
    let (mut conn, mut chance) = (server.connect(), Chance(3));
    let mut names: Vec<Vec<u8>> = (0..400)
        .map(|_| {
            let len = 1 + chance.below(9);
            chance.word(len, b"aaabbb[]^-\\*?\x7f\x80\xff")
        })
        .collect();
    names.sort();
    names.dedup();
    for name in &names {
        assert_eq!(conn.command(&[b"SET", &name[..], b"v"]).expect("a reply"), b"+OK\r\n");
    }
    for _ in 0..3_000 {
        let len = 1 + chance.below(10);
        let pattern = chance.word(len, b"aabb**?[]^-\\\x80\xff");
        let reply = conn.command(&[b"KEYS", &pattern[..]]).expect("a reply");
        let mut found: Vec<Vec<u8>> = resp::Args::new(&reply).map(<[u8]>::to_vec).collect();
        found.sort();
        let mut matcher = engine::glob::Matcher::new(&pattern);
        for (way, ours) in [
            names.iter().filter(|name| engine::glob::matches(&pattern, name)).cloned().collect(),
            names.iter().filter(|name| matcher.matches(name)).cloned().collect::<Vec<Vec<u8>>>(),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(ours, found, "{} ({way})", pattern.escape_ascii());
        }
    }
}
