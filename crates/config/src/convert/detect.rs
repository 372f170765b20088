//! Tells whose configuration a file is, by its content, then by its name.
//!
//! Content comes first: people name files as they like, but each peer has words that no other has.
//!
//! Invariant: a guess is made only where one peer alone fits.

use std::path::Path;

use super::Peer;
use crate::compile::FileText;

/// The peer whose file this is, if it can be told.
pub(super) fn peer(file: FileText<'_>) -> Option<Peer> {
    only(Peer::ALL.into_iter().filter(|peer| has_words_of(*peer, file.text)))
        .or_else(|| only(Peer::ALL.into_iter().filter(|peer| is_named_after(*peer, file.name))))
}

/// The one of a sequence that has one.
fn only(mut peers: impl Iterator<Item = Peer>) -> Option<Peer> {
    peers.next().filter(|_| peers.next().is_none())
}

/// Whether a line stands in the text that this peer alone would write.
fn has_words_of(peer: Peer, text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first_word = |line: &str| line.split([' ', '\t', '{']).next().unwrap_or("").to_lowercase();
    match peer {
        Peer::Predixy => lines.any(|line| {
            let pools = ["clusterserverpool", "sentinelserverpool", "standaloneserverpool"];
            pools.contains(&first_word(line).as_str())
        }),
        Peer::Nutcracker => {
            let begins = |key: &str| text.lines().any(|line| line.trim_start().starts_with(key));
            begins("servers:") && begins("listen:")
        }
        Peer::RedisClusterProxy => {
            let words = ["cluster", "entry-point", "connections-pool-size", "enable-cross-slot"];
            lines.any(|line| words.contains(&first_word(line).as_str()))
        }
        Peer::Overlord => lines.any(|line| line.replace(' ', "").starts_with("[[clusters]]")),
        Peer::Camellia => lines.any(|line| {
            line.starts_with("camellia-redis-proxy:") || line.starts_with("route.conf")
        }),
    }
}

/// Whether the file's name says so.
fn is_named_after(peer: Peer, name: &str) -> bool {
    let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    match peer {
        Peer::Nutcracker => name.contains("nutcracker") || name.contains("twemproxy"),
        Peer::RedisClusterProxy => name.contains("redis-cluster-proxy") || name == "proxy.conf",
        peer => name.contains(peer.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, text: &str) -> Option<Peer> {
        peer(FileText { name, text })
    }

    #[test]
    fn content_tells_and_else_the_name() {
        assert_eq!(told("x", "# c\nStandaloneServerPool {\n"), Some(Peer::Predixy));
        assert_eq!(told("x", "a:\n  listen: l\n  servers:\n"), Some(Peer::Nutcracker));
        assert_eq!(told("x", "cluster 127.0.0.1:7000\n"), Some(Peer::RedisClusterProxy));
        assert_eq!(told("x", "[[clusters]]\n"), Some(Peer::Overlord));
        assert_eq!(told("x", "port=1\nroute.conf=redis://@h:1\n"), Some(Peer::Camellia));
        assert_eq!(told("x", "camellia-redis-proxy:\n"), Some(Peer::Camellia));
        assert_eq!(told("etc/predixy.conf", "Include a\n"), Some(Peer::Predixy));
        assert_eq!(told("proxy.conf", "port 7\n"), Some(Peer::RedisClusterProxy));
        assert_eq!(told("twemproxy.yaml", ""), Some(Peer::Nutcracker));
        assert_eq!(told("x.conf", "port 7\n"), None);
        // A misleading name does not win over the content, nor a comment over both.
        assert_eq!(told("predixy.conf", "[[clusters]]\n"), Some(Peer::Overlord));
        assert_eq!(told("x", "# ClusterServerPool {\n"), None);
        assert_eq!(told("x", "[[clusters]]\ncluster 127.0.0.1:7000\n"), None);
    }
}
