//! Routes that remove their prefix: what clients call `order:7` its servers call `7`.
//!
//! ```text
//!   engine, clients' names        edge of one connection         servers' names
//!   upstream.out ── GET order:7 ─▶ inward ──────────────────────▶ GET 7
//!   reply, push ◀────── order:q v ◀─ outward ◀── its end: reply, delimiter ── q v
//! ```
//! All of the engine thinks in the names that clients say: routes, slots (`topology` takes the prefix off before it counts), what is kept to be sent on,
//! parked, watched, tracked and hot keys. Only here, between the output of a connection and the driver, and between the driver and the replies, is a
//! name another one. So there is one place to forget nothing, and what is under way while routes change keeps the names that it was sent with.
//!
//! Not here: which shards remove what (`route::shard`), where names stand in replies (`policy::outward`).
//!
//! Invariant: a request goes out with all its names changed, or another one goes in its place that a server refuses.

mod inward;
mod outward;

use crate::command::{CommandId, Learned};
use crate::engine::Engine;
use crate::ids::NodeId;
use crate::policy::namespace::Within;
use crate::policy::outward::Shape;
use crate::pool::BufferPool;
use crate::upstream::{Lane, Upstream, UpstreamKey};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use inward::Requests;
use outward::Replies;

/// What the servers of a shard do not see of its keys.
#[derive(Debug)]
pub(crate) struct Removal {
    prefix: Arc<[u8]>,
    /// What it has to do with each row of the command table.
    rows: Box<[Treat]>,
}

/// What removal has to do with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treat {
    /// Nothing.
    AsIs,
    /// Its keys, which the command table finds; and this stands in its reply.
    Keys(Shape),
    /// The same, and patterns of keys.
    Sort,
    /// Keys that fit a pattern.
    Pattern,
    /// Keys, page by page.
    Scan,
    /// Prefixes of keys stand behind a word.
    Tracking,
    /// No key is named, and this stands in the reply.
    Tells(Shape),
    /// What comes behind it is queued.
    Multi,
    /// It ends that, and its reply has all replies in it.
    Exec,
    /// It ends that.
    Discard,
    /// It is not known what it tells of keys.
    Closed,
}

impl Treat {
    fn of(id: CommandId) -> Self {
        match id.name() {
            "multi" => return Self::Multi,
            "exec" => return Self::Exec,
            "discard" | "reset" => return Self::Discard,
            "randomkey" => return Self::Tells(Shape::Name),
            "cluster|getkeysinslot" => return Self::Tells(Shape::Names),
            "keys" => return Self::Pattern,
            // Of keys, not of channels.
            "cluster|keyslot" => return Self::Keys(Shape::None),
            _ => {}
        }
        match Within::of(id) {
            // Channels keep their names.
            Within::Free | Within::Whole | Within::Names(..) | Within::Pattern(_) => Self::AsIs,
            Within::Keys(shape) => Self::Keys(shape),
            Within::Sort => Self::Sort,
            Within::Scan => Self::Scan,
            Within::Tracking => Self::Tracking,
            Within::Closed => Self::Closed,
        }
    }
}

impl Removal {
    /// `None`: nothing is removed.
    pub(crate) fn new(prefix: &[u8]) -> Option<Arc<Self>> {
        let rows = || CommandId::all().map(Treat::of).collect();
        (!prefix.is_empty()).then(|| Arc::new(Self { prefix: prefix.into(), rows: rows() }))
    }

    /// What the servers call this key.
    #[inline]
    pub(crate) fn at_servers<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.strip_prefix(&*self.prefix).unwrap_or(key)
    }
}

/// Both directions of one connection to servers that know keys without their prefix.
#[derive(Debug)]
pub(crate) struct Edge {
    removal: Arc<Removal>,
    requests: Requests,
    replies: Replies,
    /// The engine's words of what the driver has.
    in_flight: Option<Vec<u8>>,
    /// The memory of the next buffer of the driver.
    spare: Vec<u8>,
    /// Bytes of what changes replies, when the account last looked.
    replies_bytes: usize,
}

impl Edge {
    fn new(removal: Arc<Removal>) -> Box<Self> {
        Box::new(Self {
            removal,
            requests: Requests::default(),
            replies: Replies::default(),
            in_flight: None,
            spare: Vec::new(),
            replies_bytes: 0,
        })
    }

    /// The connection is gone.
    pub(crate) fn reset(&mut self) {
        *self = *Self::new(self.removal.clone());
    }

    /// The clients' name of a key that has this one at the servers.
    pub(crate) fn at_clients(&self, key: &[u8]) -> Arc<[u8]> {
        [&*self.removal.prefix, key].concat().into()
    }

    /// The account looks now: bytes of what changes replies come and go with each request and reply.
    pub(crate) fn settle(&mut self) {
        self.replies_bytes = self.replies.bytes();
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let in_flight = self.in_flight.as_ref().map_or(0, Vec::len);
        in_flight + self.requests.bytes() + self.replies_bytes
    }

    /// What goes to the server in the place of these bytes.
    fn begin_send(&mut self, buf: Vec<u8>, learned: Option<&Learned>) -> Vec<u8> {
        let mut out = core::mem::take(&mut self.spare);
        out.clear();
        self.requests.write(&self.removal, &buf, learned, &mut out, &mut self.replies);
        self.in_flight = Some(buf);
        out
    }

    /// The driver gives back what it was given; returns the engine's words of it.
    pub(crate) fn end_send(&mut self, sent: Vec<u8>, pool: &mut BufferPool) -> Vec<u8> {
        match sent.capacity() <= crate::limits::POOLED_BUFFER_BYTES {
            true => self.spare = sent,
            false => pool.give(sent),
        }
        self.in_flight.take().unwrap_or_default()
    }
}

impl Upstream {
    /// Bytes that the edge holds.
    pub(crate) fn edge_bytes(&self) -> usize {
        self.edge.as_ref().map_or(0, |edge| edge.bytes())
    }

    /// The next buffer for the driver, in the servers' words if those are others.
    #[inline]
    pub(crate) fn begin_send(
        &mut self,
        learned: Option<&Learned>,
        pool: &mut BufferPool,
    ) -> Option<Vec<u8>> {
        match &self.edge {
            None => self.out.begin_send(),
            Some(_) => self.begin_edge_send(learned, pool),
        }
    }

    #[cold]
    fn begin_edge_send(
        &mut self,
        learned: Option<&Learned>,
        pool: &mut BufferPool,
    ) -> Option<Vec<u8>> {
        let edge = self.edge.as_mut()?;
        loop {
            let sent = edge.begin_send(self.out.begin_send()?, learned);
            if !sent.is_empty() {
                return Some(sent);
            }
            // It was the begin of a request whose key is still to come.
            let own = edge.end_send(sent, pool);
            self.out.finish_send_and_keep(own, pool);
        }
    }
}

impl Engine {
    /// Whether this node knows keys without a prefix.
    pub(crate) fn removes_at(&self, node: NodeId) -> bool {
        self.nodes.get(node).is_some_and(|node| self.router.removal_of(node.pool).is_some())
    }

    /// The edge of a new connection of this key, if one is needed. What sentinels, channels and other respools are asked names no keys.
    pub(crate) fn edge_of(&self, key: &UpstreamKey) -> Option<Box<Edge>> {
        let pool = self.nodes.get(key.node)?.pool;
        let removal = self.router.removal_of(pool)?;
        let names_keys = key.lane.carries_requests() || key.lane == Lane::Feed;
        names_keys.then(|| Edge::new(removal.clone()))
    }
}

/// A pattern of clients' names, as it is asked of servers that know them without the prefix.
#[derive(Debug, PartialEq, Eq)]
enum Asked<'a> {
    /// With this pattern.
    As(&'a [u8]),
    /// For all, as a wildcard may stand for a part of the prefix and for more: what does not fit is left out here.
    All,
    /// For none: no key there fits.
    None,
}

impl<'a> Asked<'a> {
    fn of(prefix: &[u8], mut pattern: &'a [u8]) -> Self {
        for byte in prefix {
            pattern = match pattern {
                [b'*' | b'[', ..] => return Self::All,
                [b'?', rest @ ..] => rest,
                [b'\\', escaped, rest @ ..] if escaped == byte => rest,
                [b'\\', _, ..] => return Self::None,
                [first, rest @ ..] if first == byte => rest,
                _ => return Self::None,
            };
        }
        Self::As(pattern)
    }

    /// In the server's words, and what is left out here.
    fn words(self, pattern: &[u8]) -> (&'a [u8], Option<Box<[u8]>>) {
        match self {
            // A server's `*` fits the empty name, too, and its `**` does not (`KEYS` and `SCAN`; `stringmatchlen`).
            Self::As(rest @ [b'*', ..]) if rest.iter().all(|byte| *byte == b'*') => (b"*", None),
            Self::As(rest) => (rest, None),
            Self::All => {
                (b"*", (!pattern.iter().all(|byte| *byte == b'*')).then(|| pattern.into()))
            }
            // A set with nothing in it fits no byte (`stringmatchlen` in Redis' util.c).
            Self::None => (b"[]", None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob;
    use proptest::prelude::*;

    #[test]
    fn patterns_lose_the_prefix_or_ask_for_all() {
        for (pattern, asked) in [
            (&b"o:7*"[..], Asked::As(&b"7*"[..])),
            (b"o:", Asked::As(b"")),
            (b"?\\:[ab]", Asked::As(b"[ab]")),
            (b"*", Asked::All),
            (b"o*7", Asked::All),
            (b"[op]:7", Asked::All),
            (b"o", Asked::None),
            (b"u:*", Asked::None),
            (b"o\\;", Asked::None),
            (b"", Asked::None),
        ] {
            assert_eq!(Asked::of(b"o:", pattern), asked, "{}", pattern.escape_ascii());
        }
        assert_eq!(Asked::of(b"a\\", b"a\\"), Asked::As(b""));
        assert_eq!(Asked::All.words(b"**").1, None);
    }

    #[test]
    fn what_has_keys_is_not_sent_as_it_is() {
        for id in CommandId::all().filter(|id| !id.row().keys.is_empty()) {
            let is_refused = id.row().class == crate::command::Class::Refused;
            let names_channels = matches!(Within::of(id), Within::Names(..));
            let is_as_it_is = Treat::of(id) == Treat::AsIs;
            assert!(!is_as_it_is || is_refused || names_channels, "{} has keys", id.name());
        }
    }

    #[test]
    fn each_row_is_treated_as_a_namespace_does_or_has_a_reason() {
        for id in CommandId::all() {
            let (treat, within) = (Treat::of(id), Within::of(id));
            let is_alike = match (treat, within) {
                (Treat::Keys(one), Within::Keys(other)) => one == other,
                (Treat::Sort, Within::Sort)
                | (Treat::Scan, Within::Scan)
                | (Treat::Tracking, Within::Tracking)
                | (Treat::Pattern, Within::Pattern(1))
                | (Treat::AsIs, Within::Free | Within::Whole | Within::Names(..))
                | (Treat::AsIs, Within::Pattern(2))
                | (Treat::Multi | Treat::Exec | Treat::Discard, Within::Free)
                | (Treat::Closed, Within::Closed) => true,
                // A namespace is a part of a database; here it is the whole of one, and a slot is one of the servers' names.
                _ => ["randomkey", "cluster|getkeysinslot", "cluster|keyslot"].contains(&id.name()),
            };
            assert!(is_alike, "{}: {treat:?} and {within:?}", id.name());
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            Just(b'a'),
            Just(b'b'),
            Just(b'*'),
            Just(b'?'),
            Just(b'['),
            Just(b']'),
            Just(b'\\'),
            Just(b'^'),
            Just(b'-'),
        ];
        proptest::collection::vec(byte, 0..7)
    }

    proptest! {
        /// What a server finds by its pattern, and is not left out here, is what the client's pattern fits.
        #[test]
        fn no_name_is_missed_and_none_too_many(
            prefix in text().prop_filter("a prefix that is removed", |prefix| !prefix.is_empty()),
            pattern in text(),
            name in text(),
        ) {
            let (asked, left) = Asked::of(&prefix, &pattern).words(&pattern);
            let whole = [&prefix[..], &name].concat();
            let found = asked == b"*" || glob::matches(asked, &name);
            let shown = found && left.is_none_or(|left| glob::matches(&left, &whole));
            prop_assert_eq!(shown, glob::matches(&pattern, &whole));
        }
    }
}
