//! What a fresh connection says first, and what the server's answers mean.
//!
//! `HELLO n [AUTH user password] [SETNAME name]` and `SELECT db` go out in one packet. A server before Redis 6 does not know
//! HELLO: a RESP2 connection then says AUTH, SELECT and CLIENT SETNAME instead; a RESP3 one is refused with the server's own words.
//! The first good answer to HELLO also tells what the server is, which is what our clients' HELLO and INFO need.
//!
//! Not here: when a greeting counts as overdue (`Upstream::deadline`).
//!
//! Invariant: every command written here has its entry in the in-flight FIFO, pushed by the caller in the same order.

use super::inflight::OwnCommand;
use super::{Lane, Upstream, UpstreamKey};
use crate::engine::Engine;
use crate::ids::{NodeKind, Slab, UpstreamId};
use crate::node::{self, Address};
use crate::settings::{Node, Settings};
use crate::time::Time;
use crate::topology::Router;
use crate::write_offset::MovedBy;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use resp::value::Value;
use resp::{Protocol, encode};

/// Writes the greeting and returns what was asked, in order.
pub fn write(out: &mut Vec<u8>, node: &Node, key: &UpstreamKey) -> Vec<OwnCommand> {
    let mut asked = Vec::new();
    let version: &[u8] = if key.resp3 { b"3" } else { b"2" };
    let mut hello: Vec<&[u8]> = alloc::vec![b"HELLO", version];
    if let Some(password) = &node.password {
        hello.extend([b"AUTH", node.user.as_deref().unwrap_or(b"default"), password.bytes()]);
    }
    if !node.client_name.is_empty() {
        hello.extend([&b"SETNAME"[..], &node.client_name]);
    }
    encode::request(out, &hello);
    asked.push(OwnCommand::Hello);
    select(out, key, &mut asked);
    asked
}

/// Writes the greeting for a server that knows no HELLO.
pub fn write_old(out: &mut Vec<u8>, node: &Node, key: &UpstreamKey) -> Vec<OwnCommand> {
    let mut asked = Vec::new();
    if let Some(password) = &node.password {
        // A server that knows no HELLO knows no users either.
        encode::request(out, &[b"AUTH", password.bytes()]);
        asked.push(OwnCommand::Auth);
    }
    select(out, key, &mut asked);
    if !node.client_name.is_empty() {
        encode::request(out, &[b"CLIENT", b"SETNAME", &node.client_name]);
        asked.push(OwnCommand::SetName);
    }
    asked
}

fn select(out: &mut Vec<u8>, key: &UpstreamKey, asked: &mut Vec<OwnCommand>) {
    if key.db != 0 {
        encode::request(out, &[b"SELECT", key.db.to_string().as_bytes()]);
        asked.push(OwnCommand::Select);
    }
}

/// Whether this error to HELLO says that the server is too old to know it.
pub fn knows_no_hello(error: &[u8]) -> bool {
    error.starts_with(b"ERR unknown command")
}

/// Maximum length of a version, role, mode or server name, in bytes.
const FACT_BYTES_MAX: usize = 32;

/// What a server said of itself in its answer to HELLO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// The reply to HELLO as it came, per protocol (RESP2, RESP3): given to clients with their own id put in.
    hello: [Option<Vec<u8>>; 2],
    /// `redis`, `valkey`, …
    pub server: String,
    /// `7.0.15`.
    pub version: String,
    /// `standalone`, `cluster`, `sentinel`.
    pub mode: String,
    /// `master`, `replica`.
    pub role: String,
}

impl ServerFacts {
    /// Takes a good reply to HELLO in.
    pub fn learn(&mut self, reply: &[u8], protocol: Protocol) {
        self.hello[usize::from(protocol == Protocol::Resp3)] = Some(as_one(reply));
        let Ok(Some((value, _))) = resp::value::parse(reply) else { return };
        for (name, value) in pairs(value) {
            let (Some(name), Some(text)) = (text_of(&name), text_of(&value)) else { continue };
            let text = word_of(text);
            match name {
                b"server" => self.server = text,
                b"version" => self.version = text,
                b"mode" => self.mode = text,
                b"role" => self.role = text,
                _ => {}
            }
        }
    }

    /// Whether the server is of this version or a later one; one that did not say counts as later.
    #[must_use]
    pub fn is_since(&self, major: u32, minor: u32) -> bool {
        let mut parts = self.version.split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(own)), Some(Ok(own_minor))) => (own, own_minor) >= (major, minor),
            _ => true,
        }
    }

    /// Whether the server has agreed to this protocol.
    #[must_use]
    pub fn has_agreed(&self, protocol: Protocol) -> bool {
        self.hello[usize::from(protocol == Protocol::Resp3)].is_some()
    }

    /// The commands that move the write offset of a connection (`call` in server.c of Redis 7.2).
    pub(crate) fn offset_moved_by(&self) -> MovedBy {
        match self.is_since(7, 2) {
            _ if self.version.is_empty() => MovedBy::Unknown,
            true => MovedBy::Writes,
            false => MovedBy::Any,
        }
    }

    /// Whether it is a Valkey of this version or a later one, as far as is known.
    #[must_use]
    pub fn may_be_valkey(&self, major: u32, minor: u32) -> bool {
        self.server.is_empty() || self.is_valkey_since(major, minor)
    }

    /// Whether the server is known to be a Valkey of this version or a later one.
    #[must_use]
    pub fn is_valkey_since(&self, major: u32, minor: u32) -> bool {
        self.server == "valkey" && self.is_since(major, minor)
    }

    /// Whether it is a Valkey of this version or a later one, and no node of a cluster.
    #[must_use]
    pub fn is_single_valkey(&self, major: u32, minor: u32) -> bool {
        self.mode == "standalone" && self.is_valkey_since(major, minor)
    }

    /// Writes the server's answer to HELLO with the client's id in place of ours; false if there is none yet. `as_cluster`: in the mode of
    /// a cluster, whatever the server's is.
    #[must_use]
    pub fn write_hello(
        &self,
        out: &mut Vec<u8>,
        protocol: Protocol,
        id: u64,
        as_cluster: bool,
    ) -> bool {
        let Some(reply) = &self.hello[usize::from(protocol == Protocol::Resp3)] else {
            return false;
        };
        // Fields are found as bytes, so that whatever else the server says stays as it is.
        let mut reply = reply.clone();
        if let Some(at) = find(&reply, ID) {
            let number = at + ID.len();
            let end = reply[number..].iter().position(|b| *b == b'\r');
            let end = end.map_or(reply.len(), |length| number + length);
            reply.splice(number..end, id.to_string().bytes());
        }
        if as_cluster {
            exchange(&mut reply, MODE_STANDALONE, MODE_CLUSTER);
        }
        out.extend_from_slice(&reply);
        true
    }
}

/// Whether the answer to HELLO says that the server is a copy of another one, or a sentinel.
pub fn says_no_primary(reply: &[u8]) -> bool {
    let is = |field: &[u8]| find(reply, field).is_some();
    is(b"role\r\n$7\r\nreplica\r\n") || is(b"mode\r\n$8\r\nsentinel\r\n")
}

/// The id that the server gave to this connection.
pub fn server_id(reply: &[u8]) -> Option<u64> {
    let digits = &reply[find(reply, ID)? + ID.len()..];
    let end = digits.iter().position(|byte| *byte == b'\r')?;
    core::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// The zone that a server tells in its answer to HELLO, if it does.
pub fn zone(reply: &[u8]) -> Option<String> {
    let (value, _) = resp::value::parse(reply).ok()??;
    let field =
        pairs(value).into_iter().find(|(name, _)| text_of(name) == Some(b"availability_zone"));
    let zone =
        field.as_ref().and_then(|(_, zone)| text_of(zone)).filter(|zone| !zone.is_empty())?;
    core::str::from_utf8(zone).ok().map(String::from)
}

/// The reply as a server gives it that stands alone and is nobody's copy: what a client of the proxy is connected to.
fn as_one(reply: &[u8]) -> Vec<u8> {
    let mut reply = reply.to_vec();
    exchange(&mut reply, MODE_CLUSTER, MODE_STANDALONE);
    exchange(&mut reply, b"role\r\n$7\r\nreplica\r\n", b"role\r\n$6\r\nmaster\r\n");
    reply
}

const ID: &[u8] = b"$2\r\nid\r\n:";
const MODE_CLUSTER: &[u8] = b"mode\r\n$7\r\ncluster\r\n";
const MODE_STANDALONE: &[u8] = b"mode\r\n$10\r\nstandalone\r\n";

/// Puts `shown` where the reply says `told`.
fn exchange(reply: &mut Vec<u8>, told: &[u8], shown: &[u8]) {
    if let Some(at) = find(reply, told) {
        reply.splice(at..at + told.len(), shown.iter().copied());
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn pairs(value: Value<'_>) -> Vec<(Value<'_>, Value<'_>)> {
    match value {
        Value::Map(pairs) => pairs,
        Value::Array(items) => {
            let mut items = items.into_iter();
            core::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
        }
        _ => Vec::new(),
    }
}

/// Reduces a fact of a HELLO reply to printable ASCII: INFO and log lines show it.
fn word_of(text: &[u8]) -> String {
    let graphic = text.iter().filter(|byte| byte.is_ascii_graphic());
    graphic.take(FACT_BYTES_MAX).map(|byte| char::from(*byte)).collect()
}

fn text_of<'a>(value: &Value<'a>) -> Option<&'a [u8]> {
    match value {
        Value::Bulk(text) | Value::Simple(text) => Some(text),
        _ => None,
    }
}

impl Engine {
    /// A command of the greeting was answered: the next one is written, or the connection is ready.
    pub(crate) fn greet_on(&mut self, now: Time, id: UpstreamId, answered: OwnCommand) {
        let has_greeted = self.upstreams.get(id).is_some_and(Upstream::has_greeted);
        if has_greeted && (answered == OwnCommand::Track || !self.ask_to_tell(now, id)) {
            self.upstream_ready(now, id);
        }
        if answered == OwnCommand::Track {
            self.feed_confirmed(now, id);
        }
    }

    /// The server refused what the connection is of no use without.
    pub(crate) fn own_refused(
        &mut self,
        now: Time,
        id: UpstreamId,
        own: OwnCommand,
        error: Vec<u8>,
    ) {
        if !self.upstreams.get(id).is_some_and(Upstream::is_ready) {
            return self.refuse_greeting(now, id, own, error);
        }
        if own == OwnCommand::Track && self.replaces_feed(now, id) {
            return;
        }
        let error = String::from_utf8_lossy(&error);
        let cause = format!("refused {}: {error}", own.needed());
        self.lose_upstream(now, id, &cause, true);
    }

    /// The server refused what the greeting asks for.
    fn refuse_greeting(&mut self, now: Time, id: UpstreamId, own: OwnCommand, error: Vec<u8>) {
        let text = crate::reject::quoted(&error);
        let cause = match own {
            OwnCommand::Track => format!("refused {}: {text}", own.needed()),
            _ => format!("refused the greeting: {text}"),
        };
        // Clients see a refused SELECT or HELLO 3 as the server's own answer to theirs. A refused password is not theirs.
        // Nor is that the server is full or loading: then the node is down, and tried again.
        let theirs = match own {
            OwnCommand::Select => !text.starts_with("NOAUTH"),
            OwnCommand::Track => text.starts_with("BUSY"),
            _ => text.starts_with("NOPROTO") || knows_no_hello(&error),
        };
        let node = self.upstreams.get(id).map(|upstream| upstream.key.node);
        self.fail_upstream(now, id, &cause, theirs.then(|| error.clone()));
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.is_refused = true;
        }
        if let Some(node) = node.filter(|_| !matches!(own, OwnCommand::Select | OwnCommand::Track))
        {
            self.login_refused(node, &error);
        }
    }

    /// The host that the other end has to show a certificate of, if the connection goes over TLS: as its pool is configured, or as the respools of
    /// a facade speak it.
    pub fn upstream_tls_host(&self, id: UpstreamId) -> Option<&str> {
        let Some(upstream) = self.upstreams.get(id) else {
            return self.at_mirror(id, |engine, id| engine.upstream_tls_host(id));
        };
        let key = &upstream.key;
        let has_tls = match key.lane {
            Lane::Peer => self.settings.facade.tls,
            _ => of(&self.router, &self.nodes, &self.settings, key).tls,
        };
        match &self.nodes.get(key.node)?.address {
            Address::Tcp { host, .. } if has_tls => Some(host),
            _ => None,
        }
    }
}

/// How the node of this key is greeted.
pub(crate) fn of<'a>(
    router: &'a Router,
    nodes: &Slab<NodeKind, node::Node>,
    settings: &'a Settings,
    key: &UpstreamKey,
) -> &'a Node {
    let pool = nodes.get(key.node).and_then(|node| router.pools.get(usize::from(node.pool)));
    match pool {
        Some(pool) if key.lane == Lane::Sentinel => pool.sentinel.as_ref().unwrap_or(&pool.node),
        Some(pool) => &pool.node,
        None => &settings.node,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::NodeId;
    use crate::settings::{Password, Settings};
    use crate::upstream::Lane;

    #[test]
    fn a_word_of_a_server_is_short_and_has_no_line_break() {
        assert_eq!(word_of(b"7.0\n WARN \x1b[31m\xff"), "7.0WARN[31m");
        assert_eq!(word_of(&[b'1'; 100]).len(), FACT_BYTES_MAX);
    }

    const HELLO_2: &[u8] = b"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n\
        $2\r\nid\r\n:77\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

    #[test]
    fn the_servers_hello_is_given_on_with_the_clients_id() {
        let mut facts = ServerFacts::default();
        facts.learn(HELLO_2, Protocol::Resp2);
        assert_eq!((facts.server.as_str(), facts.version.as_str()), ("redis", "7.0.15"));
        assert_eq!((facts.mode.as_str(), facts.role.as_str()), ("standalone", "master"));
        let mut out = Vec::new();
        assert!(facts.write_hello(&mut out, Protocol::Resp2, 123_456, false));
        let text = String::from_utf8(out).unwrap();
        assert_eq!(server_id(text.as_bytes()), Some(123_456));
        assert!(text.contains("id\r\n:123456\r\n$4\r\nmode\r\n$10\r\nstandalone"), "{text}");
        assert!(!facts.write_hello(&mut Vec::new(), Protocol::Resp3, 1, false));
        let mut out = Vec::new();
        assert!(facts.write_hello(&mut out, Protocol::Resp2, 5, true));
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("id\r\n:5\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$4\r\nrole"), "{text}");
    }

    #[test]
    fn a_greeting_says_who_we_are_in_one_packet() {
        let mut node = Settings::default().node;
        node.password = Some(Password::new(*b"pw"));
        node.client_name = b"respool".to_vec();
        let key = UpstreamKey {
            node: NodeId::new(0, 1),
            resp3: true,
            db: 4,
            lane: Lane::Shared,
            conn: 0,
            owner: None,
        };
        let mut out = Vec::new();
        assert_eq!(write(&mut out, &node, &key), [OwnCommand::Hello, OwnCommand::Select]);
        let mut expected = Vec::new();
        let hello: [&[u8]; 7] =
            [b"HELLO", b"3", b"AUTH", b"default", b"pw", b"SETNAME", b"respool"];
        encode::request(&mut expected, &hello);
        encode::request(&mut expected, &[b"SELECT", b"4"]);
        assert_eq!(out, expected);
    }
}
