//! predixy's server pools: a Redis Cluster, groups known by sentinels, or groups of fixed servers.
//!
//! Keys are spread over groups only where there are several; their order counts, not their names. With one group predixy
//! does not hash at all, so that it becomes an `upstream` here.
//!
//! Invariant: hash, distribution and tag are written as predixy understands them, or not at all.

use engine::route::shard::Compat;

use super::tree::Node;
use super::{CUT, duration_us, note_repeated, reads};
use crate::address::{UpstreamAddress, UpstreamUrl};
use crate::convert::sheet::{Place, Sheet, Value};
use crate::convert::url;
use crate::convert::values::{choice, number};
use crate::secret::Secret;

/// Keys of every pool that become nothing, and why.
const LOST: [(&str, &str); 3] = [
    (
        "ServerFailureLimit",
        "a server that fails is tried again by itself, see timeouts.reconnect_max_ms",
    ),
    (
        "ServerRetryTimeout",
        "a server that fails is tried again by itself, see timeouts.reconnect_max_ms",
    ),
    ("Databases", "clients may SELECT whatever databases the servers have"),
];
/// Keys of every pool that become something.
const CARRIED: [&str; 7] = [
    "Password",
    "MasterReadPriority",
    "StaticSlaveReadPriority",
    "DynamicSlaveReadPriority",
    "RefreshInterval",
    "ServerTimeout",
    "KeepAlive",
];
/// Keys of a pool with groups.
const GROUPED: [&str; 6] =
    ["RefreshMethod", "Distribution", "Hash", "HashTag", "Sentinels", "Group"];

/// How the servers of a pool are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cluster,
    Sentinel,
    Fixed,
}

/// A pool that is being read.
pub(super) struct Pool<'a> {
    pub(super) node: &'a Node,
    pub(super) kind: Kind,
}

/// A server with the password that stands before its address.
struct Server {
    place: Place,
    address: UpstreamAddress,
    password: Option<String>,
}

/// Reads the pool.
pub(super) fn read(node: &Node, sheet: &mut Sheet) {
    if !node.is_scope {
        return sheet.wrong(&node.place, &node.key, "is a scope: a name and `{`");
    }
    let grouped: &[&str] = if node.is("ClusterServerPool") { &["Servers"] } else { &GROUPED };
    for inner in &node.children {
        let known = LOST.iter().map(|(key, _)| *key).chain(CARRIED).chain(grouped.iter().copied());
        if !known.clone().any(|key| inner.is(key)) {
            sheet.unknown(&inner.place, &inner.key, known);
        }
    }
    note_repeated(&node.children, &["Group", "Servers", "Sentinels"], sheet);
    for inner in node.children.iter().filter(|inner| inner.is_cut) {
        sheet.note(&inner.place, &inner.key, CUT);
    }
    let Some(kind) = kind(node, sheet) else { return };
    let pool = Pool { node, kind };
    pool.settings(sheet);
    match kind {
        Kind::Cluster => pool.cluster(sheet),
        Kind::Sentinel | Kind::Fixed => pool.groups(sheet),
    }
    reads::read(&pool, sheet);
}

/// How the servers are found; for a StandaloneServerPool its RefreshMethod says it.
fn kind(node: &Node, sheet: &mut Sheet) -> Option<Kind> {
    if node.is("ClusterServerPool") {
        return Some(Kind::Cluster);
    }
    let method = node.children.iter().rfind(|inner| inner.is("RefreshMethod"));
    let Some(method) = method else {
        if node.is("SentinelServerPool") {
            return Some(Kind::Sentinel);
        }
        sheet.wrong(&node.place, "RefreshMethod", "is missing");
        return None;
    };
    match method.value.to_lowercase().as_str() {
        "fixed" => Some(Kind::Fixed),
        "sentinel" => Some(Kind::Sentinel),
        _ => {
            sheet.wrong(&method.place, "RefreshMethod", "allowed: fixed, sentinel");
            None
        }
    }
}

impl<'a> Pool<'a> {
    /// The last one of a key, which is the one that counts.
    pub(super) fn find(&self, key: &str) -> Option<&'a Node> {
        self.node.children.iter().rfind(|inner| inner.is(key))
    }

    /// The servers of all scopes with this key, which add up in predixy.
    fn servers(&self, key: &str, sheet: &mut Sheet) -> Vec<Server> {
        let scopes = self.node.children.iter().filter(|inner| inner.is(key));
        scopes.flat_map(|scope| servers(scope, sheet)).collect()
    }

    fn settings(&self, sheet: &mut Sheet) {
        for (key, advice) in LOST {
            if let Some(node) = self.find(key) {
                sheet.lost(&node.place, key, advice);
            }
        }
        if let Some(node) = self.find("Password").filter(|node| !node.value.is_empty()) {
            sheet.text("upstream_password", &node.value, &node.place, "Password");
        }
        self.timeout(sheet);
        self.refresh(sheet);
        if let Some(node) = self.find("KeepAlive") {
            match number(&node.value, &node.place, "KeepAlive", sheet) {
                Some(0) => sheet.lost(
                    &node.place,
                    "KeepAlive",
                    "probes are for clients, too, so they stay on; see timeouts.tcp_keepalive_s",
                ),
                Some(seconds) => {
                    sheet.number("timeouts.tcp_keepalive_s", seconds, &node.place, "KeepAlive");
                    sheet.note(
                        &node.place,
                        "KeepAlive",
                        "timeouts.tcp_keepalive_s is for connections of clients as well",
                    );
                }
                None => {}
            }
        }
    }

    fn timeout(&self, sheet: &mut Sheet) {
        let (ms, place) = match self.find("ServerTimeout") {
            Some(node) => (self.duration_ms(node, sheet), &node.place),
            None => (Some(0), &self.node.place),
        };
        let Some(ms) = ms else { return };
        sheet.number("timeouts.request_ms", ms, place, "ServerTimeout");
        if ms == 0 {
            sheet.remark("timeouts.request_ms = 0: without `ServerTimeout` predixy waits for replies without end; a limit is better");
        }
    }

    /// A cluster's nodes are asked for its slots that often. Sentinels are asked once a second here, and fixed servers nothing.
    fn refresh(&self, sheet: &mut Sheet) {
        let Some(node) = self.find("RefreshInterval") else { return };
        let Some(ms) = self.duration_ms(node, sheet) else { return };
        match self.kind {
            Kind::Cluster if ms > 0 => {
                sheet.number("timeouts.topology_period_ms", ms, &node.place, "RefreshInterval");
            }
            Kind::Cluster => {
                sheet.lost(&node.place, "RefreshInterval", "see timeouts.topology_period_ms");
            }
            Kind::Sentinel => sheet.lost(
                &node.place,
                "RefreshInterval",
                "sentinels are asked once a second, and tell of changes themselves",
            ),
            Kind::Fixed => sheet.note(
                &node.place,
                "RefreshInterval",
                "has no effect in predixy either, with fixed servers",
            ),
        }
    }

    /// A duration in whole milliseconds, rounded up.
    fn duration_ms(&self, node: &Node, sheet: &mut Sheet) -> Option<u64> {
        let ms = duration_us(&node.value).map(|us| us.div_ceil(1000));
        if ms.is_none() {
            sheet.wrong(
                &node.place,
                &node.key,
                "allowed: a number of seconds, or with ms or us behind it",
            );
        }
        ms
    }

    fn cluster(&self, sheet: &mut Sheet) {
        let Some(node) = self.find("Servers") else {
            return sheet.wrong(&self.node.place, "Servers", "is missing");
        };
        let servers = self.servers("Servers", sheet);
        if !sheet.has("upstream_password")
            && let Some(password) = servers.iter().find_map(|server| server.password.as_ref())
        {
            sheet.text("upstream_password", password, &node.place, "Servers");
        }
        if servers.iter().any(|server| server.password.is_some()) {
            sheet.note(&node.place, "Servers", "the nodes of a cluster share one password here: that of the pool, or the first one before an address");
        }
        match url::cluster(servers.into_iter().map(|server| server.address).collect()) {
            Some(url) => sheet.text("upstream", &url::text(&url), &node.place, "Servers"),
            None => sheet.wrong(&node.place, "Servers", "no server in it"),
        }
    }

    fn groups(&self, sheet: &mut Sheet) {
        let groups: Vec<&Node> =
            self.node.children.iter().filter(|inner| inner.is("Group")).collect();
        let sentinels = self.sentinels(sheet);
        let urls: Vec<Option<UpstreamUrl>> =
            groups.iter().map(|group| self.group(group, &sentinels, sheet)).collect();
        match (groups.as_slice(), urls.as_slice()) {
            ([], _) => sheet.wrong(&self.node.place, "Group", "is missing"),
            ([group], [Some(url)]) => {
                sheet.text("upstream", &url::text(url), &group.place, "Group");
                for key in ["Distribution", "Hash", "HashTag"] {
                    if let Some(node) = self.find(key) {
                        sheet.note(
                            &node.place,
                            key,
                            "has no effect in predixy either, with one group",
                        );
                    }
                }
            }
            ([_], _) => {}
            _ => {
                for (group, url) in groups.iter().zip(&urls) {
                    if let Some(url) = url {
                        let entry = url::entry(url, 1, Some(&group.value));
                        sheet.push("sharding.shards", entry, &group.place, "Group");
                    }
                }
                self.rules(sheet);
            }
        }
    }

    /// The URL of a group: what its sentinels know by its name, or the first of its fixed servers.
    fn group(
        &self,
        group: &Node,
        sentinels: &[UpstreamAddress],
        sheet: &mut Sheet,
    ) -> Option<UpstreamUrl> {
        let listed = servers(group, sheet);
        if self.kind == Kind::Sentinel {
            for server in &listed {
                sheet.note(
                    &server.place,
                    "Group",
                    "need not be told: the sentinels tell the servers of a group",
                );
            }
            if group.value.is_empty() {
                sheet.wrong(&group.place, "Group", "has no name, by which sentinels would know it");
                return None;
            }
            return url::sentinels(sentinels.to_vec(), &group.value);
        }
        for server in listed.iter().skip(1) {
            sheet.lost(&server.place, "Group", "a replica is read from only where sentinels or a cluster tell that it is one; the first server of the group is used");
        }
        let Some(first) = listed.into_iter().next() else {
            sheet.wrong(&group.place, "Group", "no server in it");
            return None;
        };
        let password = first.password.map(Secret::new);
        Some(UpstreamUrl { password, ..url::standalone(first.address) })
    }

    /// The sentinels; none with fixed servers. Their password stands behind the key, or before an address.
    fn sentinels(&self, sheet: &mut Sheet) -> Vec<UpstreamAddress> {
        let node = match (self.find("Sentinels"), self.kind) {
            (Some(node), Kind::Sentinel) => node,
            (Some(node), _) => {
                sheet.wrong(&node.place, "Sentinels", "is only for RefreshMethod sentinel");
                return Vec::new();
            }
            (None, Kind::Sentinel) => {
                sheet.wrong(&self.node.place, "Sentinels", "is missing");
                return Vec::new();
            }
            (None, _) => return Vec::new(),
        };
        let servers = self.servers("Sentinels", sheet);
        if servers.is_empty() {
            sheet.wrong(&node.place, "Sentinels", "no sentinel in it");
        }
        let own = servers.iter().find_map(|server| server.password.as_ref());
        if own.is_some() {
            sheet.note(&node.place, "Sentinels", "all sentinels share one password here: that behind `Sentinels`, or the first one before an address");
        }
        if let Some(password) = Some(&node.value).filter(|value| !value.is_empty()).or(own) {
            sheet.text("sentinel_password", password, &node.place, "Sentinels");
        }
        servers.into_iter().map(|server| server.address).collect()
    }

    /// Hash, distribution and tag. predixy asks for the first two, and heeds tags only where they are told.
    fn rules(&self, sheet: &mut Sheet) {
        sheet.text("sharding.compat", Compat::Predixy.name(), &self.node.place, "");
        for (key, option, names) in [
            ("Distribution", "sharding.distribution", &["modula", "random"][..]),
            ("Hash", "sharding.hash", &["atol", "crc16"][..]),
        ] {
            let Some(node) = self.find(key) else {
                sheet.wrong(
                    &self.node.place,
                    key,
                    "is missing; with several groups predixy asks for it",
                );
                continue;
            };
            if let Some(index) = choice(&node.value.to_lowercase(), names, &node.place, key, sheet)
            {
                sheet.text(option, names[index], &node.place, key);
            }
        }
        let Some(node) = self.find("HashTag") else { return };
        match node.value.len() {
            0 | 2 => sheet.set(
                "sharding.hash_tag",
                Value::Text(node.value.clone()),
                &node.place,
                "HashTag",
            ),
            _ => sheet.wrong(
                &node.place,
                "HashTag",
                "allowed: two characters, as in \"{}\", or none",
            ),
        }
    }
}

/// The servers of a scope: `+ [password@]address`, up to a blank.
fn servers(node: &Node, sheet: &mut Sheet) -> Vec<Server> {
    if !node.is_scope && !node.is("Group") {
        sheet.wrong(&node.place, &node.key, "is a scope: a name and `{`");
    }
    let mut servers = Vec::new();
    for inner in &node.children {
        if inner.key != "+" {
            sheet.wrong(&inner.place, &node.key, "a server is written as + address");
            continue;
        }
        if inner.is_cut || inner.value.contains(char::is_whitespace) {
            sheet.note(
                &inner.place,
                &node.key,
                "what stands behind the blank does not count in predixy either",
            );
        }
        let (password, address) = match inner.value.split_once('@') {
            Some((password, address)) => (Some(password.to_owned()), address),
            None => (None, inner.value.as_str()),
        };
        let address = address.split_ascii_whitespace().next().unwrap_or("");
        match UpstreamAddress::from_server_line(address) {
            Ok(address) => servers.push(Server {
                place: inner.place.clone(),
                address,
                password: password.filter(|password| !password.is_empty()),
            }),
            Err(message) => sheet.wrong(&inner.place, &node.key, message),
        }
    }
    servers
}
