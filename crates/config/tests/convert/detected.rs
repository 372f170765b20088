//! Whose file it is, and what is said when that cannot be told.

use super::*;

#[test]
fn a_file_is_known_by_its_content_or_name() {
    let file = |name, text| Files { peer: None, pool: None, files: vec![(name, text)] };
    for (name, text, peer) in [
        ("p.conf", "ClusterServerPool {\n Servers {\n + h:1\n }\n}\n", Peer::Predixy),
        (
            "t.yml",
            "a:\n listen: 127.0.0.1:1\n redis: true\n servers: [\"h:1:1\"]\n",
            Peer::Nutcracker,
        ),
        ("r.conf", "cluster h:1\n", Peer::RedisClusterProxy),
        (
            "o.toml",
            "[[clusters]]\nname='a'\ncache_type='redis'\nlisten_addr='1'\nservers=['h:1:1']\n",
            Peer::Overlord,
        ),
        ("c.properties", "route.conf=redis://@h:1\n", Peer::Camellia),
    ] {
        assert_eq!(file(name, text).convert().map(|converted| converted.peer), Ok(peer), "{name}");
    }
    assert_eq!(
        file("x.conf", "port 7\n").bad(),
        [
            "x.conf:1:1: cannot tell whose configuration this is; say so with --from, one of: predixy, nutcracker, \
          redis-cluster-proxy, overlord, camellia"
        ]
    );
}
