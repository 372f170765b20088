//! Reads `CLUSTER SLOTS`, in every form that servers have given it from Redis 3.0 on.
//!
//! ```text
//!   [ [first, last, [endpoint, port, id, [metadata…]], [replica…], …], … ]
//! ```
//! The endpoint is an address, since 7.0 perhaps a host name, and it is null or empty when the server does not know its own: then it is
//! the host that was asked. `?` is what a server with an unknown preferred name says, and means the same.
//!
//! The reply comes from a server that may be broken, so what does not fit is skipped, never believed.
//!
//! Invariant: in what [`parse`] returns every slot is below [`SLOTS`] and every range has a primary.

use crate::limits::{CLUSTER_NODES_MAX, HOST_BYTES_MAX};
use crate::node::Address;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use resp::value::Value;

/// Number of hash slots of a cluster.
pub const SLOTS: usize = 16_384;

/// Consecutive slots with one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// First slot.
    pub first: u16,
    /// Last slot, included.
    pub last: u16,
    /// Who owns them.
    pub primary: Address,
    /// Who has a copy.
    pub replicas: Vec<Address>,
}

impl Range {
    /// Its primary and its replicas.
    pub fn nodes(&self) -> impl Iterator<Item = &Address> {
        [&self.primary].into_iter().chain(&self.replicas)
    }
}

/// How many different nodes a table names.
pub(super) fn count_nodes(ranges: &[Range]) -> usize {
    ranges.iter().flat_map(Range::nodes).collect::<BTreeSet<_>>().len()
}

/// Reads a reply; `asked_host` is the host of the node that gave it. `None` if it is none of this form.
pub fn parse(reply: &Value<'_>, asked_host: &str) -> Option<Vec<Range>> {
    let ranges = reply.as_list()?;
    Some(ranges.iter().filter_map(|range| read_range(range, asked_host)).collect())
}

/// Whether a reply to `CLUSTER INFO` says that the node takes its cluster for down: it reaches too few of the others, or slots have no
/// owner (cluster.c of Redis, `clusterUpdateState`).
pub(super) fn says_down(reply: &Value<'_>) -> bool {
    let text = reply.as_text().unwrap_or_default();
    text.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_end() == b"cluster_state:fail")
}

/// What a reply to `CLUSTER NODES` tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    /// Addresses of all nodes, each by its address and by its host name.
    pub(super) addresses: Vec<Address>,
    /// Whether the node which gave the reply is giving slots away: `[93->-<node>]` behind the line of itself
    /// (`clusterGenNodeDescription` in Redis' cluster.c).
    pub(super) gives: bool,
}

/// Reads a reply to `CLUSTER NODES`. Nodes that have not joined yet are left out.
pub(super) fn members(reply: &Value<'_>, asked_host: &str) -> Members {
    let text = reply.as_text().unwrap_or_default();
    let mut members = Members::default();
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
        let (Some(_), Some(endpoint), Some(flags)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let has = |flag: &[u8]| flags.split(|byte| *byte == b',').any(|word| word == flag);
        let has_room = members.addresses.len() < CLUSTER_NODES_MAX;
        if has_room && !has(b"handshake") && !has(b"noaddr") {
            members.addresses.extend(addresses(endpoint, asked_host));
        }
        if has(b"myself") {
            members.gives |= words.any(|word| gives_slot(word).is_some());
        }
    }
    members
}

/// The slot of `[93->-<node>]`.
fn gives_slot(word: &[u8]) -> Option<u16> {
    let slot = word.strip_prefix(b"[")?;
    let end = slot.windows(3).position(|sign| sign == b"->-")?;
    u16::try_from(resp::number::parse_i64(&slot[..end])?).ok()
}

/// `10.0.0.1:7000@17000,host.example,shard-id=…`: the address, and the host name with the port.
fn addresses(endpoint: &[u8], asked_host: &str) -> Vec<Address> {
    let mut parts = endpoint.split(|byte| *byte == b',');
    let address = parts.next().unwrap_or_default();
    let address = address.split(|byte| *byte == b'@').next().unwrap_or_default();
    let Some(colon) = address.iter().rposition(|byte| *byte == b':') else { return Vec::new() };
    let port = resp::number::parse_i64(&address[colon + 1..]);
    let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else { return Vec::new() };
    let name = parts.next().filter(|name| !name.is_empty() && !name.contains(&b'='));
    let hosts = [Some(&address[..colon]), name].into_iter().flatten();
    hosts.filter_map(|host| Some(Address::tcp(host_or(host, asked_host)?, port))).collect()
}

fn read_range(range: &Value<'_>, asked_host: &str) -> Option<Range> {
    let fields = range.as_list()?;
    let slot = |index: usize| match fields.get(index)? {
        Value::Integer(number) => u16::try_from(*number).ok().filter(|n| usize::from(*n) < SLOTS),
        _ => None,
    };
    let (first, last) = (slot(0)?, slot(1)?);
    let mut nodes = fields.get(2..)?.iter().map(|node| read_node(node, asked_host));
    let primary = nodes.next()??;
    let range = Range { first, last, primary, replicas: nodes.flatten().collect() };
    (first <= last).then_some(range)
}

fn read_node(node: &Value<'_>, asked_host: &str) -> Option<Address> {
    let fields = node.as_list()?;
    let host = fields.first()?.as_text().unwrap_or_default();
    let host = host_or(host, asked_host)?;
    match fields.get(1)? {
        Value::Integer(port) => Some(Address::tcp(host, u16::try_from(*port).ok()?)),
        _ => None,
    }
}

/// The host that a server names, or that of the server itself where it names none. `None`: it is none (a name or an address of at most [`HOST_BYTES_MAX`] bytes).
pub fn host_or(host: &[u8], asked_host: &str) -> Option<String> {
    match host {
        b"" | b"?" => Some(String::from(asked_host)),
        host => read_host(host),
    }
}

/// Accepts host names and addresses only: other bytes could forge log lines, markup or terminal escapes.
pub(super) fn read_host(host: &[u8]) -> Option<String> {
    let is_of_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:%".contains(byte);
    let host = Some(host).filter(|host| (1..=HOST_BYTES_MAX).contains(&host.len()))?;
    let host = Some(host).filter(|host| host.iter().all(is_of_host))?;
    core::str::from_utf8(host).ok().map(String::from)
}

/// Reads `12 127.0.0.1:7001`, what follows MOVED and ASK: the slot and the address. The host may be missing, and an IPv6 address has no
/// brackets.
pub fn parse_redirect(text: &[u8], asked_host: &str) -> Option<(u16, Address)> {
    let mut words = text.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let slot = resp::number::parse_i64(words.next()?)?;
    let endpoint = words.next()?;
    let colon = endpoint.iter().rposition(|byte| *byte == b':')?;
    let port = u16::try_from(resp::number::parse_i64(&endpoint[colon + 1..])?).ok()?;
    let slot = u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < SLOTS)?;
    Some((slot, Address::tcp(host_or(&endpoint[..colon], asked_host)?, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    fn ranges(reply: &str) -> Option<Vec<Range>> {
        let (value, _) = resp::value::parse(reply.as_bytes()).unwrap().unwrap();
        parse(&value, "asked.example")
    }

    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    // Found by an attack: a name of several MB was copied, looked up and logged.
    #[test]
    fn a_host_that_is_longer_than_any_name_is_none() {
        let names = [HOST_BYTES_MAX, HOST_BYTES_MAX + 1].map(|bytes| "n".repeat(bytes));
        let [longest, longer] = names.each_ref().map(|name| host_or(name.as_bytes(), "asked"));
        assert_eq!((longest.as_ref(), longer), (Some(&names[0]), None));
        for name in names.iter().skip(1) {
            assert_eq!(parse_redirect(format!("3 {name}:7000").as_bytes(), "asked"), None);
            let line = format!("e7 {name}:7000@17000,{name} master - 0 0 1 connected\n");
            assert_eq!(members(&Value::Bulk(line.as_bytes()), "asked").addresses, []);
        }
    }

    // Host names with line breaks forged log lines.
    #[test]
    fn a_host_has_no_bytes_but_those_of_names_and_addresses() {
        for host in ["10.0.0.1", "fe80::1%eth0", "redis_1.example-net", "a"] {
            assert_eq!(host_or(host.as_bytes(), "asked").as_deref(), Some(host));
        }
        for host in ["h\n2026 WARN", "h\u{1b}[31m", "<img>", "h h", "h\"", "h\u{e9}", "a/b"] {
            assert_eq!(host_or(host.as_bytes(), "asked"), None, "{host:?}");
        }
    }

    #[test]
    fn a_node_tells_of_itself_which_slots_it_gives_away() {
        let text = |own: &str, other: &str| {
            alloc::format!(
                "07c3 127.0.0.1:30004@31004,h slave e7d1 0 1426238317239 4 connected{other}\n\
                 e7d1 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460{own}\n"
            )
        };
        let gives = |text: &str| members(&Value::Bulk(text.as_bytes()), "x").gives;
        let away = "292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f";
        assert!(gives(&text(&format!(" [93->-{away}] [94->-{away}]"), "")));
        assert!(!gives(&text(" [77-<-e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca]", " [1->-a]")));
        assert!(!gives(&text("", "")) && !gives(""));
        assert_eq!(members(&Value::Integer(1), "x"), Members::default());
    }

    #[test]
    fn the_nodes_of_a_cluster_are_read_by_address_and_by_name() {
        let text = "a 127.0.0.1:7000@17000,one.example,shard-id=x myself,master - 0 0 1 connected 0-5\r\n\
                    b ::1:7001@17001 slave a 0 0 1 connected\n\
                    c :7002@17002,,tls-port=0 master - 0 0 1 connected\n\
                    d 10.9.9.9:1@2 handshake - 0 0 0 connected\n\
                    e 10.9.9.9:2@3 master,noaddr - 0 0 0 disconnected\n\
                    f 127.0.0.1:x@1 master - 0\n\
                    g\n";
        let read = members(&Value::Bulk(text.as_bytes()), "asked.example");
        let wanted =
            [("127.0.0.1", 7000), ("one.example", 7000), ("::1", 7001), ("asked.example", 7002)];
        assert_eq!(read.addresses, wanted.map(|(host, port)| Address::tcp(host, port)));
    }

    #[test]
    fn the_forms_of_all_versions_are_read() {
        let three_0 = format!("*3\r\n:0\r\n:5460\r\n*2\r\n{}:7000\r\n", bulk("10.0.0.1"));
        let four = format!(
            "*4\r\n:5461\r\n:5461\r\n*3\r\n{}:7001\r\n{}*3\r\n{}:7004\r\n{}",
            bulk("::1"),
            bulk("id"),
            bulk("n4.example"),
            bulk("id")
        );
        let seven = format!(
            "*3\r\n:5462\r\n:16383\r\n*4\r\n$-1\r\n:7002\r\n{}*2\r\n{}{}",
            bulk("id"),
            bulk("hostname"),
            bulk("n2.example")
        );
        let read = ranges(&format!("*3\r\n{three_0}{four}{seven}")).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].primary, Address::tcp("10.0.0.1", 7000));
        assert_eq!((read[1].first, read[1].last), (5461, 5461));
        assert_eq!(read[1].replicas, vec![Address::tcp("n4.example", 7004)]);
        assert_eq!(read[2].primary, Address::tcp("asked.example", 7002));
    }

    #[test]
    fn what_does_not_fit_is_not_believed() {
        assert_eq!(ranges("-ERR no\r\n"), None);
        assert_eq!(ranges("*0\r\n"), Some(Vec::new()));
        for broken in [
            "*2\r\n:0\r\n:1\r\n",
            "*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
            "*3\r\n:2\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
            "*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n",
            "*3\r\n:0\r\n:1\r\n$1\r\na\r\n",
        ] {
            assert_eq!(ranges(&format!("*1\r\n{broken}")), Some(Vec::new()), "{broken}");
        }
    }

    #[test]
    fn redirects_name_slot_and_address() {
        let read = |text: &str| parse_redirect(text.as_bytes(), "here");
        assert_eq!(read("3999 127.0.0.1:6381"), Some((3999, Address::tcp("127.0.0.1", 6381))));
        assert_eq!(read("1 ::1:7000"), Some((1, Address::tcp("::1", 7000))));
        assert_eq!(read("1 :7000"), Some((1, Address::tcp("here", 7000))));
        assert_eq!(read("1 n.example:7000"), Some((1, Address::tcp("n.example", 7000))));
        for wrong in ["", "x 1:1", "16384 a:1", "1", "1 a", "1 a:x", "1 a:70000"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
