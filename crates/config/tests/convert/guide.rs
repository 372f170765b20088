//! The examples of the guide are what `respool convert` really makes.
//!
//! Invariant: each peer has an example, and no output of the guide was written by hand.

use super::*;

const GUIDE: &str = include_str!("../../../../docs/guides/migrating.md");

/// The peers in the order of the guide, and what their files are called there.
const EXAMPLES: [(Peer, &str); 5] = [
    (Peer::Nutcracker, "nutcracker.yml"),
    (Peer::Predixy, "predixy.conf"),
    (Peer::RedisClusterProxy, "proxy.conf"),
    (Peer::Overlord, "overlord.toml"),
    (Peer::Camellia, "camellia-redis-proxy.properties"),
];

#[test]
fn its_outputs_are_current() {
    let blocks: Vec<&str> = GUIDE
        .split("```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').map_or("", |(_, text)| text))
        .collect();
    // The first block shows the command.
    assert_eq!(blocks.len(), 1 + 2 * EXAMPLES.len());
    for ((peer, name), pair) in EXAMPLES.into_iter().zip(blocks[1..].chunks(2)) {
        let file = Files { peer: None, pool: None, files: vec![(name, pair[0])] };
        assert_eq!(file.convert().map(|converted| converted.peer), Ok(peer));
        let (_, _, toml) = file.good();
        assert_eq!(
            pair[1], toml,
            "the guide shows something else for {name}; it should be:\n{toml}"
        );
    }
}
