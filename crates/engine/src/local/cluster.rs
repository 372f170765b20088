//! CLUSTER in front of several servers: respool shown as a cluster of its own, or as none.
//!
//! A client that knows clusters would connect to the nodes that it is told of, past the proxy. So by default it gets what a server that is
//! no cluster answers, and works as with one server. With `facade` on, respool shows itself as a cluster: of one node, or of one
//! node per announced address, each with an equal share of the slots. Any of them serves any slot, so a client that finds the
//! "wrong" one is served and never redirected.
//!
//! Of several announced addresses those that are known to be dead (`peers`) get no slots: the living share all of them. The address that a
//! client is connected to lives, whatever is thought of it. Where nobody is left to be shown (a balancer's address that is not ours, say)
//! all are.
//!
//! Not here: the real slots (`topology`), and what changes a cluster or looks into a slot (`CLUSTER FAILOVER`, `COUNTKEYSINSLOT`).
//!
//! Invariant: every slot is told of exactly once, and what is told depends on nothing but the list and who of it lives.

use super::Call;
use crate::command::ids;
use crate::engine::Engine;
use crate::node::Address;
use crate::reject;
use crate::request::Step;
use crate::route::slot::slot;
use crate::topology::slots::SLOTS;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use resp::{Protocol, encode};

/// One node of the cluster that is shown.
struct Shown {
    host: String,
    port: u16,
    id: String,
    /// The first and the last of its slots; none: it is dead.
    slots: Option<(u16, u16)>,
}

impl Engine {
    /// Answers a CLUSTER command.
    pub(crate) fn answer_cluster(&mut self, call: &Call<'_>) -> Step {
        if !self.settings.facade.on {
            return match (call.command, call.args.get(1)) {
                // A server that is no cluster knows the subcommands all the same.
                (ids::CLUSTER, Some(word)) => {
                    self.say(call, |out| reject::unknown_subcommand(out, "cluster", word))
                }
                (ids::CLUSTER, None) => self.say(call, |out| reject::arity(out, "cluster")),
                _ => self.refuse(call, reject::NO_CLUSTER),
            };
        }
        let Some(client) = self.clients.get(call.id) else { return Step::Gone };
        let protocol = client.protocol;
        let shown = self.shown(&client.identity.laddr);
        let mine = shown.iter().find(|node| client.identity.laddr == node.address());
        let me = mine.or_else(|| shown.iter().find(|node| node.slots.is_some()));
        let mut reply = Vec::new();
        answer(&mut reply, call, &shown, me.unwrap_or(&shown[0]), self.peers.epoch(), protocol);
        self.say(call, |out| out.extend_from_slice(&reply))
    }

    /// The nodes that are shown, at least one: those announced, or the address that this client connected to.
    fn shown(&self, laddr: &str) -> Vec<Shown> {
        let mut living = Vec::new();
        let mut addresses: Vec<(String, u16)> = Vec::new();
        for (index, address) in self.settings.facade.announce.iter().enumerate() {
            if let Address::Tcp { host, port } = address {
                addresses.push((host.clone(), *port));
                living.push(!self.peers.is_down(index) || address.label() == laddr);
            }
        }
        if addresses.is_empty() {
            let (host, port) = laddr.rsplit_once(':').unwrap_or((laddr, "0"));
            addresses.push((host.trim_matches(['[', ']']).to_string(), port.parse().unwrap_or(0)));
        }
        if !living.contains(&true) {
            living = alloc::vec![true; addresses.len()];
        }
        share(addresses, &living)
    }
}

/// Equal shares for those that live, in the order of the list.
fn share(addresses: Vec<(String, u16)>, living: &[bool]) -> Vec<Shown> {
    let count = living.iter().filter(|lives| **lives).count();
    let mut turn = 0;
    let nodes = addresses.into_iter().zip(living).map(|((host, port), lives)| {
        let slots = lives.then(|| {
            let first = turn * SLOTS / count;
            turn += 1;
            (first as u16, (turn * SLOTS / count - 1) as u16)
        });
        Shown { id: id_of(&host, port), host, port, slots }
    });
    nodes.collect()
}

/// The reply of the node `me`; an error for a subcommand that the facade has not, or with the wrong number of arguments.
fn answer(
    out: &mut Vec<u8>,
    call: &Call<'_>,
    shown: &[Shown],
    me: &Shown,
    epoch: u64,
    protocol: Protocol,
) {
    let Some(word) = call.args.get(1) else { return reject::arity(out, "cluster") };
    // Replicas, failure reports: of a node, which must be one of those shown.
    let of_node = |out: &mut Vec<u8>, node: &[u8], reply: fn(&mut Vec<u8>)| {
        if shown.iter().any(|one| one.id.as_bytes() == node) {
            reply(out);
        } else {
            encode::error(out, &[b"ERR Unknown node ", node].concat());
        }
    };
    match (call.command.name(), &call.args[2..]) {
        ("cluster|slots", []) => slots(out, shown, protocol),
        ("cluster|shards", []) => shards(out, shown, protocol),
        ("cluster|nodes", []) => {
            encode::verbatim(out, *b"txt", nodes(shown, &me.id).as_bytes(), protocol);
        }
        ("cluster|info", []) => {
            let text = info(shown, epoch);
            encode::verbatim(out, *b"txt", text.as_bytes(), protocol);
        }
        ("cluster|myid" | "cluster|myshardid", []) => encode::bulk(out, me.id.as_bytes()),
        ("cluster|keyslot", [key]) => encode::integer(out, i64::from(slot(key))),
        // The nodes shown have no bus and no replicas.
        ("cluster|links", []) => encode::array(out, 0),
        ("cluster|replicas" | "cluster|slaves", [node]) => {
            of_node(out, node, |out| encode::array(out, 0));
        }
        ("cluster|count-failure-reports", [node]) => {
            of_node(out, node, |out| encode::integer(out, 0));
        }
        ("cluster|help", []) => help(out),
        (name, _) if ANSWERED.contains(&name) => reject::arity(out, name),
        _ => reject::unknown_subcommand(out, "cluster", word),
    }
}

/// Those that live, with the first and the last of their slots.
fn living(shown: &[Shown]) -> impl Iterator<Item = (&Shown, u16, u16)> {
    shown.iter().filter_map(|node| node.slots.map(|(first, last)| (node, first, last)))
}

impl Shown {
    fn address(&self) -> String {
        Address::tcp(self.host.clone(), self.port).label()
    }
}

/// Forty hexadecimal digits that only depend on the address, so that a restart changes no node's id.
fn id_of(host: &str, port: u16) -> String {
    let mut id = String::new();
    for part in 0..3 {
        let digest = md5::compute(format!("respool {part} {host}:{port}").as_bytes());
        id.push_str(&format!("{digest:x}"));
    }
    id.truncate(40);
    id
}

fn slots(out: &mut Vec<u8>, shown: &[Shown], protocol: Protocol) {
    encode::array(out, living(shown).count());
    for (node, first, last) in living(shown) {
        encode::array(out, 3);
        encode::integer(out, i64::from(first));
        encode::integer(out, i64::from(last));
        encode::array(out, 4);
        encode::bulk(out, node.host.as_bytes());
        encode::integer(out, i64::from(node.port));
        encode::bulk(out, node.id.as_bytes());
        // Metadata, from Redis 7.0 on: a map, empty when the endpoint is the address.
        encode::map(out, 0, protocol);
    }
}

fn shards(out: &mut Vec<u8>, shown: &[Shown], protocol: Protocol) {
    let text = |out: &mut Vec<u8>, name: &str, value: &str| {
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, value.as_bytes());
    };
    encode::array(out, living(shown).count());
    for (node, first, last) in living(shown) {
        encode::map(out, 2, protocol);
        encode::bulk(out, b"slots");
        encode::array(out, 2);
        encode::integer(out, i64::from(first));
        encode::integer(out, i64::from(last));
        encode::bulk(out, b"nodes");
        encode::array(out, 1);
        encode::map(out, 7, protocol);
        text(out, "id", &node.id);
        encode::bulk(out, b"port");
        encode::integer(out, i64::from(node.port));
        text(out, "ip", &node.host);
        text(out, "endpoint", &node.host);
        text(out, "role", "master");
        encode::bulk(out, b"replication-offset");
        encode::integer(out, 0);
        text(out, "health", "online");
    }
}

fn nodes(shown: &[Shown], me: &str) -> String {
    let mut text = String::new();
    for node in shown {
        let (id, host, port) = (&node.id, &node.host, node.port);
        let bus = u32::from(port) + 10_000;
        let myself = if node.id == me { "myself,master" } else { "master" };
        // As in a cluster whose slots went to others when this node failed.
        let rest = match node.slots {
            Some((first, last)) => format!("{myself} - 0 0 1 connected {first}-{last}"),
            None => "master,fail - 0 0 1 disconnected".to_string(),
        };
        text.push_str(&format!("{id} {host}:{port}@{bus} {rest}\n"));
    }
    text
}

/// As servers write it, a text a line; of the subcommands only those that are answered here.
fn help(out: &mut Vec<u8>) {
    encode::array(out, 2 + ANSWERED.len());
    encode::simple(out, b"CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    for name in ANSWERED {
        let (_, word) = name.split_once('|').unwrap_or(("", name));
        let argument = match word {
            "keyslot" => " <key>",
            "replicas" | "slaves" | "count-failure-reports" => " <node-id>",
            _ => "",
        };
        encode::simple(out, format!("{}{argument}", word.to_ascii_uppercase()).as_bytes());
    }
    encode::simple(out, b"    Print this help.");
}

fn info(shown: &[Shown], epoch: u64) -> String {
    let (slots, nodes, size) = (SLOTS, shown.len(), living(shown).count());
    [
        "cluster_state:ok".to_string(),
        format!("cluster_slots_assigned:{slots}"),
        format!("cluster_slots_ok:{slots}"),
        "cluster_slots_pfail:0".to_string(),
        "cluster_slots_fail:0".to_string(),
        format!("cluster_known_nodes:{nodes}"),
        format!("cluster_size:{size}"),
        format!("cluster_current_epoch:{epoch}"),
        "cluster_my_epoch:1".to_string(),
        "cluster_stats_messages_sent:0".to_string(),
        "cluster_stats_messages_received:0".to_string(),
        "total_cluster_links_buffer_limit_exceeded:0".to_string(),
        String::new(),
    ]
    .join("\r\n")
}

/// The subcommands of the facade, by name.
const ANSWERED: [&str; 12] = [
    "cluster|slots",
    "cluster|shards",
    "cluster|nodes",
    "cluster|info",
    "cluster|myid",
    "cluster|myshardid",
    "cluster|keyslot",
    "cluster|links",
    "cluster|replicas",
    "cluster|slaves",
    "cluster|count-failure-reports",
    "cluster|help",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_look_like_a_servers_and_belong_to_an_address() {
        let id = id_of("10.0.0.1", 6380);
        assert!(id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(id, id_of("10.0.0.1", 6380));
        assert_ne!(id, id_of("10.0.0.1", 6381));
    }

    #[test]
    fn a_node_is_written_as_servers_write_it() {
        let id = id_of("h", 1);
        let shown = share(alloc::vec![("h".into(), 1)], &[true]);
        assert_eq!(
            nodes(&shown, &id),
            format!("{id} h:1@10001 myself,master - 0 0 1 connected 0-16383\n")
        );
        let dead = share(alloc::vec![("g".into(), 1), ("h".into(), 1)], &[false, true]);
        let other = format!("{} g:1@10001 master,fail - 0 0 1 disconnected\n", id_of("g", 1));
        assert_eq!(nodes(&dead, &id), other + &nodes(&shown, &id));
        let mut out = Vec::new();
        slots(&mut out, &shown, Protocol::Resp2);
        assert!(out.starts_with(b"*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$1\r\nh\r\n:1\r\n$40\r\n"));
    }
}
