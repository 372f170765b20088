//! What sentinels tell of one primary, and what of it is believed.
//!
//! respool asks a sentinel five questions in one write: its identity, the epoch of its configuration, the primary, the replicas, the other sentinels. The
//! answers come in order, and respool applies each by itself. A message of `+switch-master` is only a sign to ask its sender again, so a
//! lost message costs a moment and never a wrong primary.
//!
//! Sentinels may disagree: a sentinel that is cut off from the others goes on naming the former primary, and reports the others as down. respool keeps the
//! last word of each sentinel and counts a sentinel as live as long as respool reaches it itself; flags of other sentinels do not matter. Each failover has a
//! greater epoch than all before (`config-epoch`, Sentinel's specification), so respool changes to another primary if the told epoch is greater than the epoch
//! of the primary in use. Without a greater epoch (no sentinel tells epochs, or the configuration was made anew), more than half of the live sentinels must
//! name the other primary, at least two of several, and no live sentinel may name the primary in use with a greater epoch. A sentinel may be configured by a
//! name and told of by its address; `SENTINEL MYID` (Redis 6.2) tells that both are one, which counts once.
//!
//! Not here: when and whom to ask (`refresh`), and the proof that the named node is a primary indeed: its own answer to HELLO
//! (`connect`).
//!
//! Invariant: configured sentinels are never forgotten; other sentinels stay as long as a live sentinel tells of them. A sentinel does not tell of itself.

use crate::ids::NodeId;
use crate::limits::SENTINEL_NODES_MAX;
use crate::node::Address;
use crate::topology::slots::read_host;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use resp::value::Value;

/// Length of a sentinel's identity (`CONFIG_RUN_ID_SIZE` in Redis' server.h).
const SENTINEL_ID_BYTES: usize = 40;

/// One primary with its replicas, as sentinels see it.
#[derive(Debug)]
pub(crate) struct Group {
    /// Name of the primary at the sentinels.
    pub(crate) name: Vec<u8>,
    /// Who it is; none until a sentinel told.
    pub(crate) primary: Option<NodeId>,
    /// Epoch of the failover that made this node the primary, if a sentinel told it.
    epoch: Option<u64>,
    /// The last word of each live sentinel.
    words: BTreeMap<NodeId, Word>,
    /// The identities that sentinels told.
    ids: BTreeMap<NodeId, Vec<u8>>,
    /// The other sentinels that each of them told of.
    others: BTreeMap<NodeId, Vec<NodeId>>,
    /// Who it was before, in case that the new one turns out to be none.
    pub(super) before: Option<NodeId>,
    /// The primary reported the role of a replica: respool believes the next sentinel.
    pub(super) is_disowned: bool,
    /// Its copies that are in order.
    pub(crate) replicas: Vec<NodeId>,
    /// A sentinel told of replicas before.
    pub(super) knows_replicas: bool,
    /// Configured.
    pub(super) seeds: Vec<NodeId>,
    /// Told of by others.
    pub(super) found: Vec<NodeId>,
}

/// The primary that one sentinel names.
#[derive(Debug)]
struct Word {
    named: Address,
    epoch: Option<u64>,
    /// The named primary is the one in use.
    is_current: bool,
}

impl Group {
    /// One of which nothing is known but whom to ask.
    pub(super) fn new(name: Vec<u8>, seeds: Vec<NodeId>) -> Self {
        Self {
            name,
            primary: None,
            epoch: None,
            words: BTreeMap::new(),
            ids: BTreeMap::new(),
            others: BTreeMap::new(),
            before: None,
            is_disowned: false,
            replicas: Vec::new(),
            knows_replicas: false,
            seeds,
            found: Vec::new(),
        }
    }

    /// Decides on the primary that this sentinel names, with the epoch of its configuration. `is_current`: the primary in use has this address. `live`: the
    /// known sentinels that respool reaches.
    pub(super) fn believes(
        &mut self,
        teller: NodeId,
        (named, is_current): (&Address, bool),
        epoch: Option<u64>,
        live: &[NodeId],
    ) -> Told {
        self.words.retain(|teller, _| live.contains(teller));
        let word = Word { named: named.clone(), epoch, is_current };
        let before = self.words.insert(teller, word);
        if is_current {
            (self.epoch, self.is_disowned) = (self.epoch.max(epoch), false);
            return Told::Believed;
        }
        if !self.is_later(named, epoch, self.count(live.iter().copied())) {
            let is_new = before.is_none_or(|before| before.named != *named);
            return if is_new { Told::Doubted } else { Told::DoubtedAgain };
        }
        self.words.retain(|_, word| word.named == *named);
        self.words.values_mut().for_each(|word| word.is_current = true);
        (self.epoch, self.is_disowned) = (self.last_epoch(|word| word.is_current), false);
        Told::Believed
    }

    /// Whether this primary, told with this epoch, comes after the one in use.
    fn is_later(&self, named: &Address, epoch: Option<u64>, live: usize) -> bool {
        if self.primary.is_none() || (self.epoch.is_some() && epoch > self.epoch) {
            return true;
        }
        if self.is_disowned {
            return epoch >= self.last_epoch(|word| !word.is_current);
        }
        // Dead sentinels may stay in the configuration. One sentinel of several may be the only one on this side of a partition.
        let voters = self.words.iter().filter(|(_, word)| word.named == *named);
        let votes = self.count(voters.map(|(node, _)| *node));
        let known = self.count(self.candidates().into_iter());
        let is_majority = votes * 2 > live && votes >= known.min(2);
        let last = self.last_epoch(|word| word.named == *named);
        is_majority && self.last_epoch(|word| word.is_current) <= last
    }

    /// A sentinel told this identity, or none.
    pub(super) fn is_known_as(&mut self, node: NodeId, id: Option<Vec<u8>>) {
        let candidates = self.candidates();
        self.ids.retain(|node, _| candidates.contains(node));
        match id.filter(|_| candidates.contains(&node)) {
            Some(id) => _ = self.ids.insert(node, id),
            None => _ = self.ids.remove(&node),
        }
    }

    /// How many sentinels these are; those with one identity are one.
    fn count(&self, nodes: impl Iterator<Item = NodeId>) -> usize {
        let (known, others): (Vec<_>, Vec<_>) =
            nodes.map(|node| self.ids.get(&node).ok_or(node)).partition(Result::is_ok);
        let ids: BTreeSet<_> = known.into_iter().flatten().collect();
        ids.len() + others.len()
    }

    /// The greatest epoch in these words.
    fn last_epoch(&self, of: impl Fn(&Word) -> bool) -> Option<u64> {
        self.words.values().filter(|word| of(word)).filter_map(|word| word.epoch).max()
    }

    /// Whether this sentinel names another primary than the one in use.
    pub(super) fn dissents(&self, teller: NodeId) -> bool {
        self.words.get(&teller).is_some_and(|word| !word.is_current)
    }

    /// Records the other sentinels that this sentinel tells of.
    pub(super) fn knows_others(&mut self, teller: NodeId, others: Vec<NodeId>) {
        self.others.retain(|teller, _| self.words.contains_key(teller));
        self.others.insert(teller, others);
        let mut found: Vec<NodeId> = self.others.values().flatten().copied().collect();
        found.extend(self.found.contains(&teller).then_some(teller));
        // The order does not depend on the teller, so each sentinel has its turn.
        found.sort_unstable();
        found.dedup();
        found.truncate(SENTINEL_NODES_MAX);
        self.found = found;
    }

    /// Sentinels that can be asked, each once.
    pub(crate) fn candidates(&self) -> Vec<NodeId> {
        let found = self.found.iter().filter(|node| !self.seeds.contains(node));
        self.seeds.iter().chain(found).copied().collect()
    }
}

/// Decision on the primary that a sentinel names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// respool uses this primary.
    Believed,
    /// Rejected, for the first time for this sentinel and address.
    Doubted,
    /// Rejected again.
    DoubtedAgain,
}

/// The answer to `SENTINEL MYID`: 40 hexadecimal digits; `None` for an error.
pub(super) fn id(reply: &[u8]) -> Option<Vec<u8>> {
    let (reply, _) = resp::value::parse(reply).ok()??;
    reply.as_text().filter(|id| id.len() == SENTINEL_ID_BYTES).map(<[u8]>::to_vec)
}

/// `config-epoch` in the reply to `SENTINEL MASTER`; `None` for an error (ACL rules of the sentinel) or a reply without this field.
pub(super) fn epoch(reply: &[u8]) -> Option<u64> {
    let (reply, _) = resp::value::parse(reply).ok()??;
    core::str::from_utf8(field(&reply, b"config-epoch")?).ok()?.parse().ok()
}

/// The answer to `SENTINEL GET-MASTER-ADDR-BY-NAME`: `[host, port]`; null if the sentinel knows no such name.
pub(super) fn primary(reply: &Value<'_>) -> Option<Address> {
    match reply.as_list()? {
        [host, port] => address(host.as_text()?, port.as_text()?),
        _ => None,
    }
}

/// The answer to `SENTINEL REPLICAS`: a list of instances, each a map or a flat list of fields. Those that the sentinel takes for dead or has not reached are
/// left out.
pub(super) fn replicas(reply: &Value<'_>) -> Option<Vec<Address>> {
    let live = reply.as_list()?.iter().filter(|replica| !is_flagged_dead(replica));
    Some(live.filter_map(instance).collect())
}

/// The answer to `SENTINEL SENTINELS`: a list of instances, also of those that the sentinel does not reach: the sentinel itself may be cut off.
pub(super) fn sentinels(reply: &Value<'_>) -> Option<Vec<Address>> {
    Some(reply.as_list()?.iter().filter_map(instance).collect())
}

/// One field of an instance, which is a map in RESP3 and a flat list in RESP2.
fn field<'a>(instance: &'a Value<'_>, name: &[u8]) -> Option<&'a [u8]> {
    match instance {
        Value::Map(pairs) => {
            let pair = pairs.iter().find(|(field, _)| field.as_text() == Some(name));
            pair.and_then(|(_, value)| value.as_text())
        }
        _ => {
            let mut fields = instance.as_list()?.chunks_exact(2);
            fields.find(|pair| pair[0].as_text() == Some(name)).and_then(|pair| pair[1].as_text())
        }
    }
}

fn is_flagged_dead(instance: &Value<'_>) -> bool {
    let flags = field(instance, b"flags").unwrap_or_default();
    let dead = [&b"s_down"[..], b"o_down", b"disconnected"];
    flags.split(|byte| *byte == b',').any(|flag| dead.contains(&flag))
}

fn instance(instance: &Value<'_>) -> Option<Address> {
    address(field(instance, b"ip")?, field(instance, b"port")?)
}

fn address(host: &[u8], port: &[u8]) -> Option<Address> {
    let host = read_host(host)?;
    let port = core::str::from_utf8(port).ok()?.parse().ok().filter(|port| *port != 0)?;
    Some(Address::tcp(host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn with<T>(reply: &str, read: impl Fn(&Value<'_>) -> T) -> T {
        let (value, _) = resp::value::parse(reply.as_bytes()).unwrap().unwrap();
        read(&value)
    }

    #[test]
    fn a_primary_is_a_host_and_a_port_in_text() {
        let told = "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7000\r\n";
        assert_eq!(with(told, primary), Some(Address::tcp("127.0.0.1", 7000)));
        for nothing in [
            "*-1\r\n",
            "_\r\n",
            "-ERR x\r\n",
            "*2\r\n$0\r\n\r\n$4\r\n7000\r\n",
            "*2\r\n$1\r\na\r\n$1\r\n0\r\n",
        ] {
            assert_eq!(with(nothing, primary), None, "{nothing}");
        }
    }

    #[test]
    fn instances_come_flat_or_as_maps_and_dead_replicas_are_left_out() {
        let fields = |port: &str, flags: &str| {
            alloc::format!(
                "$2\r\nip\r\n$1\r\na\r\n$4\r\nport\r\n${}\r\n{port}\r\n$5\r\nflags\r\n${}\r\n{flags}\r\n",
                port.len(),
                flags.len()
            )
        };
        let live = fields("1", "slave");
        let dead = fields("2", "s_down,slave,disconnected");
        let flat = alloc::format!("*2\r\n*6\r\n{live}*6\r\n{dead}");
        assert_eq!(with(&flat, replicas), Some(vec![Address::tcp("a", 1)]));
        assert_eq!(with(&flat, sentinels).map(|all| all.len()), Some(2));
        let maps = alloc::format!("*2\r\n%3\r\n{dead}%3\r\n{live}");
        assert_eq!(with(&maps, replicas), Some(vec![Address::tcp("a", 1)]));
        assert_eq!(with("-ERR No such master\r\n", replicas), None);
    }
}
