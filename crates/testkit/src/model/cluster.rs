//! A cluster of model servers: slots that move key by key, primaries that change, nodes that have not heard of it yet.
//!
//! ```text
//!   slot 7 of A:  begin ─▶ A: ASK for keys that are gone, TRYAGAIN for a mix    B: serves behind ASKING, else MOVED to A
//!                 move one key, and one more …
//!                 end   ─▶ B: owns it     A: knows nothing of it, and says ASK for every key
//!                 settle ▶ A: MOVED to B  others: MOVED to A until they are told
//! ```
//! A node decides as `getNodeByQuery` of Redis 7 does (cluster.c), with its own view of who owns what. What all nodes hold is one data
//! set with one log ([`ModelCluster::effects`]): a copy is never behind its primary, so whatever was acknowledged outlives a failover, and
//! what was done twice shows wherever it was done. Two things are Valkey 8's: a failover keeps the state of slots on their way, and a
//! copy of a node that gives a slot away says ASK too (in Redis 7 it says null).
//!
//! Not here: who is dead, and when anything happens; that is the caller's.
//!
//! Invariant: of two nodes at most one executes a write to a key at a time, since source and target of a slot know at once.

use std::collections::{BTreeMap, BTreeSet};

use resp::encode;

use super::{After, Call, Effect, Face, Model, ModelConn, Place, iterate, table};

/// Slots of a cluster; the number is the protocol's.
pub const SLOTS: usize = 16_384;

/// What a node says to requests for keys that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The reply.
    Well,
    /// `CLUSTERDOWN`: it takes its cluster for down.
    Down,
    /// `LOADING`.
    Loading,
    /// `READONLY` to writes, as a primary does that was made a copy behind its cluster's back.
    ReadOnly,
}

/// See the module.
#[derive(Debug)]
pub struct ModelCluster {
    model: Model,
    shards: Vec<Shard>,
    nodes: Vec<Node>,
    /// Which shard has a slot, in truth.
    owners: Vec<u8>,
    moves: BTreeMap<u16, Move>,
}

/// A primary and its copies.
#[derive(Debug)]
struct Shard {
    primary: usize,
    members: Vec<usize>,
}

#[derive(Debug)]
struct Node {
    host: String,
    port: u16,
    shard: usize,
    /// What it believes: the shard of each slot, the primary of each shard.
    owners: Vec<u8>,
    primaries: Vec<usize>,
    standing: Standing,
}

/// A slot on its way.
#[derive(Debug)]
struct Move {
    from: usize,
    to: usize,
    /// Keys that are at the target already.
    there: BTreeSet<Vec<u8>>,
    /// The target owns it; the source has not heard of that.
    ended: bool,
}

/// The end of one connection at a node.
#[derive(Debug)]
pub struct ClusterConn {
    conn: ModelConn,
    asking: bool,
    readonly: bool,
}

impl ModelCluster {
    /// Shards of one primary and `replicas` copies each, at these addresses, primaries first, and the slots spread evenly.
    ///
    /// # Panics
    /// If the addresses are not as many as shards and copies come to, or there are more than 255 shards.
    pub fn new(shards: usize, replicas: usize, addresses: &[(String, u16)]) -> Self {
        assert!(shards > 0 && shards < 256, "1 to 255 shards");
        assert_eq!(addresses.len(), shards * (1 + replicas), "an address for each node");
        let owners: Vec<u8> = (0..SLOTS).map(|slot| (slot * shards / SLOTS) as u8).collect();
        let primaries: Vec<usize> = (0..shards).collect();
        let nodes = addresses.iter().enumerate().map(|(index, (host, port))| Node {
            host: host.clone(),
            port: *port,
            shard: index % shards,
            owners: owners.clone(),
            primaries: primaries.clone(),
            standing: Standing::Well,
        });
        let members = |shard| (0..addresses.len()).filter(move |node| node % shards == shard);
        let shards = (0..shards)
            .map(|shard| Shard { primary: shard, members: members(shard).collect() })
            .collect();
        Self { model: Model::new(), nodes: nodes.collect(), shards, owners, moves: BTreeMap::new() }
    }

    /// Demands a password of connections that are made from now on.
    pub fn require_password(&mut self, password: &[u8]) {
        self.model.require_password(password);
    }

    /// Changes places with the model behind: several clusters and servers can have one set of data so, each while it acts
    /// ([`Model::act_as`]). Which slot is where is each cluster's own.
    pub fn swap_model(&mut self, other: &mut Model) {
        std::mem::swap(&mut self.model, other);
    }

    /// A new connection to a node.
    pub fn conn(&mut self) -> ClusterConn {
        ClusterConn { conn: self.model.conn(), asking: false, readonly: false }
    }

    /// As [`Model::feed`], of this node.
    pub fn feed(
        &mut self,
        node: usize,
        conn: &mut ClusterConn,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> After {
        conn.conn.requests.push(bytes);
        let is_primary = self.is_primary(node);
        conn.conn.face = if is_primary { Face::Primary } else { Face::Replica };
        while !conn.conn.closing {
            self.deliver(conn, out);
            match conn.conn.requests.pop() {
                Ok(Some(frame)) if frame.args.is_empty() => {}
                Ok(Some(frame)) => self.execute(node, conn, &frame.args, out),
                Ok(None) => return After::Open,
                Err(error_reply) => {
                    out.extend_from_slice(&error_reply);
                    conn.conn.closing = true;
                }
            }
        }
        After::Close
    }

    /// As [`Model::deliver`].
    pub fn deliver(&mut self, conn: &ClusterConn, out: &mut Vec<u8>) {
        let deployment = self.model.deployment;
        for (node, channel, primary) in self.model.listeners.shard_channels(deployment) {
            if self.believed_primary(node, &channel) != primary {
                self.model.listeners.end_shard_channel(deployment, node, &channel);
            }
        }
        self.model.deliver(&conn.conn, out);
    }

    /// As [`Model::leave`].
    pub fn leave(&mut self, conn: &ClusterConn) {
        self.model.leave(&conn.conn);
    }

    /// The primary of a key's slot, as a node believes.
    fn believed_primary(&self, node: usize, key: &[u8]) -> usize {
        let me = &self.nodes[node];
        me.primaries[usize::from(me.owners[usize::from(key_slot(key))])]
    }

    /// Everything that was applied to a key, by whichever nodes, in order.
    pub fn effects(&self, key: &[u8]) -> &[Effect] {
        self.model.effects(0, key)
    }

    /// Requests executed by all nodes together; those that were sent on elsewhere are none.
    pub fn executed(&self) -> u64 {
        self.model.executed()
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Number of a shard's primary.
    pub fn primary(&self, shard: usize) -> usize {
        self.shards[shard].primary
    }

    /// The nodes of a shard, its primary among them.
    pub fn members(&self, shard: usize) -> &[usize] {
        &self.shards[shard].members
    }

    /// The shard that owns a slot.
    pub fn owner(&self, slot: u16) -> usize {
        self.owners[usize::from(slot)].into()
    }

    /// The `nth` of all keys, counted around; `None` if there is none.
    pub fn nth_key(&self, nth: usize) -> Option<&[u8]> {
        let all = &self.model.databases[0];
        all.keys().nth(nth % all.len().max(1)).map(Vec::as_slice)
    }

    /// `127.0.0.1:7000`, as a node is named in redirections.
    pub fn label(&self, node: usize) -> String {
        format!("{}:{}", self.nodes[node].host, self.nodes[node].port)
    }

    // What happens to it. ---------------------------------------------------------------------------------------------

    /// Sets what a node says to requests for its keys.
    pub fn stand(&mut self, node: usize, standing: Standing) {
        self.nodes[node].standing = standing;
    }

    /// A slot begins its way to another shard; false if it cannot, being there or under way.
    pub fn begin_move(&mut self, slot: u16, to: usize) -> bool {
        let from = self.owner(slot);
        let can = from != to && !self.moves.contains_key(&slot);
        if can {
            let there = BTreeSet::new();
            self.moves.insert(slot, Move { from, to, there, ended: false });
        }
        can
    }

    /// Whether any slot is under way.
    pub fn is_moving(&self) -> bool {
        !self.moves.is_empty()
    }

    /// The slots under way, with source, target and whether the target owns it already.
    pub fn moves(&self) -> Vec<(u16, usize, usize, bool)> {
        self.moves.iter().map(|(slot, way)| (*slot, way.from, way.to, way.ended)).collect()
    }

    /// Moves one more key of a slot under way; false if there is none left.
    pub fn move_key(&mut self, slot: u16) -> bool {
        let Some(way) = self.moves.get_mut(&slot).filter(|way| !way.ended) else { return false };
        let mut keys = self.model.databases[0].keys();
        let next = keys.find(|key| key_slot(key) == slot && !way.there.contains(*key));
        let Some(next) = next.cloned() else { return false };
        // It is gone from the source (`MIGRATE` deletes it there).
        let source = &self.shards[way.from].members;
        let Model { trackers, deployment, .. } = &mut self.model;
        trackers.changed(&next, None, Some(source), *deployment);
        way.there.insert(next)
    }

    /// Loses the key that moved last of a slot under way, as no cluster should: for proving those that would notice. False if there is none.
    pub fn lose_key(&mut self, slot: u16) -> bool {
        let Some(way) = self.moves.get_mut(&slot) else { return false };
        let lost = way.there.pop_last();
        lost.is_some_and(|key| self.model.databases[0].remove(&key).is_some())
    }

    /// The target owns the slot, with all of its keys. The source hears of it by [`Self::settle`].
    pub fn end_move(&mut self, slot: u16) {
        let Some(way) = self.moves.get_mut(&slot) else { return };
        way.ended = true;
        let (from, to) = (way.from, way.to);
        let late = |key: &&Vec<u8>| key_slot(key) == slot && !way.there.contains(*key);
        let late: Vec<Vec<u8>> = self.model.databases[0].keys().filter(late).cloned().collect();
        for key in late {
            let Model { trackers, deployment, .. } = &mut self.model;
            trackers.changed(&key, None, Some(&self.shards[from].members), *deployment);
        }
        self.owners[usize::from(slot)] = to as u8;
        for member in self.shards[to].members.clone() {
            self.nodes[member].owners[usize::from(slot)] = to as u8;
        }
    }

    /// The source of a slot whose way has ended hears of that.
    pub fn settle(&mut self, slot: u16) {
        let Some(way) = self.moves.get(&slot).filter(|way| way.ended) else { return };
        let (from, to) = (way.from, way.to);
        for member in self.shards[from].members.clone() {
            self.nodes[member].owners[usize::from(slot)] = to as u8;
        }
        self.moves.remove(&slot);
    }

    /// A copy takes over from its primary, which is a copy from now on. Both know at once (a primary that is dead or frozen hears of it
    /// before it says anything else), the others by [`Self::tell`]. False if it was the primary.
    pub fn fail_over(&mut self, to: usize) -> bool {
        let shard = self.nodes[to].shard;
        let from = std::mem::replace(&mut self.shards[shard].primary, to);
        for node in [from, to] {
            self.tell(node);
        }
        from != to
    }

    /// A node hears of everything. What it gives away it knows better than others, so that is settled first.
    pub fn tell(&mut self, node: usize) {
        let shard = self.nodes[node].shard;
        let own = |way: &Move| way.ended && way.from == shard;
        let ended: Vec<u16> =
            self.moves.iter().filter(|(_, way)| own(way)).map(|(slot, _)| *slot).collect();
        ended.into_iter().for_each(|slot| self.settle(slot));
        self.nodes[node].owners.clone_from(&self.owners);
        self.nodes[node].primaries = self.shards.iter().map(|shard| shard.primary).collect();
    }

    // What a node does. -----------------------------------------------------------------------------------------------

    fn is_primary(&self, node: usize) -> bool {
        let node_of = &self.nodes[node];
        node_of.primaries[node_of.shard] == node
    }

    fn execute(
        &mut self,
        node: usize,
        conn: &mut ClusterConn,
        args: &[Vec<u8>],
        out: &mut Vec<u8>,
    ) {
        let asking = std::mem::take(&mut conn.asking);
        let word = |at: usize| {
            args.get(at)
                .map_or(String::new(), |arg| String::from_utf8_lossy(arg).to_ascii_lowercase())
        };
        match (word(0).as_str(), conn.conn.authenticated) {
            ("asking", true) => {
                conn.asking = true;
                return encode::simple(out, b"OK");
            }
            // At EXEC it is one reply more than the client waits for.
            ("readonly" | "readwrite", true) if conn.conn.queue.is_some() => {
                conn.conn.queue.iter_mut().for_each(|queue| queue.calls.push(args.to_vec()));
                return encode::simple(out, b"QUEUED");
            }
            ("readonly" | "readwrite", true) => {
                conn.readonly = word(0) == "readonly";
                return encode::simple(out, b"OK");
            }
            ("cluster", true) => return self.tell_of_itself(node, conn, &word(1), out),
            ("role", true) if !self.is_primary(node) => return self.role(node, out),
            ("select", true) if args.len() == 2 && word(1) != "0" => {
                return encode::error(out, b"ERR SELECT is not allowed in cluster mode");
            }
            _ => {}
        }
        // EXEC touches what was queued.
        let executes = word(0) == "exec" && conn.conn.queue.is_some();
        let queued = conn.conn.queue.as_ref().filter(|_| executes);
        let queued = queued.map_or(Vec::new(), |queue| queue.calls.clone());
        let access = match queued.iter().filter_map(|args| table::access(args)).reduce(join) {
            Some(access) => Some(access),
            None => table::access(args).filter(|_| conn.conn.authenticated),
        };
        let keys = match &access {
            Some(access) => match self.refusal(node, conn.readonly, asking, access) {
                Some(error) => {
                    match &mut conn.conn.queue {
                        queue if executes => *queue = None,
                        Some(queue) => queue.refused = true,
                        None => {}
                    }
                    return encode::error(out, error.as_bytes());
                }
                None => access.keys.clone(),
            },
            None => Vec::new(),
        };
        self.model.executed += 1;
        let on_all = matches!(word(0).as_str(), "keys" | "scan" | "dbsize" | "randomkey");
        let own = if on_all && access.is_some() { Some(self.keys_of(node)) } else { None };
        let place = Place {
            node,
            primary: keys.first().map_or(node, |key| self.believed_primary(node, key)),
            shard: Some(self.shards[self.nodes[node].shard].members.clone()),
        };
        let mut call = Call { model: &mut self.model, conn: &mut conn.conn, args, out, place };
        match own {
            Some(own) => iterate::of_list(&mut call, &own),
            None => table::execute(&mut call),
        }
        keys.into_iter().for_each(|key| self.note_place(node, key));
    }

    /// Why this node does not execute a request, in its own words.
    fn refusal(
        &self,
        node: usize,
        readonly: bool,
        asking: bool,
        access: &table::Access<'_>,
    ) -> Option<String> {
        let me = &self.nodes[node];
        let standing = me.standing;
        if standing == Standing::Loading && !access.while_loading {
            return Some("LOADING Redis is loading the dataset in memory".to_owned());
        }
        let slot = key_slot(access.keys.first()?);
        if access.keys.iter().any(|key| key_slot(key) != slot) {
            return Some("CROSSSLOT Keys in request don't hash to the same slot".to_owned());
        }
        if standing == Standing::Down && !access.channels {
            return Some("CLUSTERDOWN The cluster is down".to_owned());
        }
        let believed = usize::from(me.owners[usize::from(slot)]);
        let moved = || Some(format!("MOVED {slot} {}", self.label(me.primaries[believed])));
        let mine = believed == me.shard;
        let as_a_copy = (readonly || access.channels) && mine && !access.writes;
        if !(as_a_copy || self.is_primary(node)) {
            return moved();
        }
        if access.channels {
            return if mine { None } else { moved() };
        }
        let way = self.moves.get(&slot);
        let missing = access.keys.iter().filter(|key| !self.is_at(me.shard, key)).count();
        let distinct = access.keys.iter().collect::<BTreeSet<_>>().len();
        let try_again = "TRYAGAIN Multiple keys request during rehashing of slot".to_owned();
        if let Some(way) = way.filter(|way| mine && way.from == me.shard && missing > 0) {
            let target = me.primaries[way.to];
            return Some(match missing < access.keys.len() {
                true => try_again,
                false => format!("ASK {slot} {}", self.label(target)),
            });
        }
        let importing = way.is_some_and(|way| way.to == me.shard && !way.ended);
        if importing && asking {
            return (distinct > 1 && missing > 0).then_some(try_again);
        }
        if !mine {
            return moved();
        }
        let refuses = access.writes && standing == Standing::ReadOnly;
        refuses.then(|| "READONLY You can't write against a read only replica.".to_owned())
    }

    /// Whether a key exists and this shard has it.
    fn is_at(&self, shard: usize, key: &[u8]) -> bool {
        self.model.databases[0].contains_key(key) && self.home(key) == shard
    }

    /// The shard that has a key, if the key exists.
    fn home(&self, key: &[u8]) -> usize {
        let slot = key_slot(key);
        match self.moves.get(&slot) {
            Some(way) if !way.ended && way.there.contains(key) => way.to,
            _ => self.owner(slot),
        }
    }

    fn keys_of(&self, node: usize) -> Vec<Vec<u8>> {
        let shard = self.nodes[node].shard;
        let all = self.model.databases[0].keys();
        all.filter(|key| self.home(key) == shard).cloned().collect()
    }

    /// A node executed something on this key: one that was made at the target of a slot under way is there, one that is gone is nowhere.
    fn note_place(&mut self, node: usize, key: &[u8]) {
        let exists = self.model.databases[0].contains_key(key);
        let Some(way) = self.moves.get_mut(&key_slot(key)).filter(|way| !way.ended) else { return };
        match exists {
            true if way.to == self.nodes[node].shard => {
                way.there.insert(key.to_vec());
            }
            true => {}
            false => {
                way.there.remove(key);
            }
        }
    }

    // What a node tells. ----------------------------------------------------------------------------------------------

    fn tell_of_itself(&self, node: usize, conn: &ClusterConn, sub: &str, out: &mut Vec<u8>) {
        let protocol = conn.conn.protocol;
        match sub {
            "slots" => self.slots(node, out),
            "info" => encode::verbatim(out, *b"txt", self.info(node).as_bytes(), protocol),
            "nodes" => encode::verbatim(out, *b"txt", self.lines(node).as_bytes(), protocol),
            "myid" => encode::bulk(out, id(node).as_bytes()),
            _ => encode::error(out, b"ERR unknown subcommand. Try CLUSTER HELP."),
        }
    }

    fn slots(&self, node: usize, out: &mut Vec<u8>) {
        let runs = self.runs(node);
        encode::array(out, runs.len());
        for (first, last, shard) in runs {
            let primary = self.nodes[node].primaries[shard];
            let copies = self.shards[shard].members.iter().filter(|member| **member != primary);
            let nodes: Vec<usize> = [primary].into_iter().chain(copies.copied()).collect();
            encode::array(out, 2 + nodes.len());
            encode::integer(out, first as i64);
            encode::integer(out, last as i64);
            for node in nodes {
                encode::array(out, 3);
                encode::bulk(out, self.nodes[node].host.as_bytes());
                encode::integer(out, self.nodes[node].port.into());
                encode::bulk(out, id(node).as_bytes());
            }
        }
    }

    /// Ranges of slots with one owner, as a node believes: first, last, shard.
    fn runs(&self, node: usize) -> Vec<(usize, usize, usize)> {
        let mut runs = Vec::new();
        let mut first = 0;
        for run in self.nodes[node].owners.chunk_by(|left, right| left == right) {
            runs.push((first, first + run.len() - 1, usize::from(run[0])));
            first += run.len();
        }
        runs
    }

    fn info(&self, node: usize) -> String {
        let state = if self.nodes[node].standing == Standing::Down { "fail" } else { "ok" };
        format!(
            "cluster_state:{state}\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_known_nodes:{}\r\ncluster_size:{}\r\n",
            self.nodes.len(),
            self.shards.len()
        )
    }

    /// CLUSTER NODES: a line for each node, and in its own what comes and goes.
    fn lines(&self, node: usize) -> String {
        let mut text = String::new();
        let runs = self.runs(node);
        for (index, other) in self.nodes.iter().enumerate() {
            let primary = self.nodes[node].primaries[other.shard];
            let myself = if index == node { "myself," } else { "" };
            let (role, of) = match primary == index {
                true => ("master", "-".to_owned()),
                false => ("slave", id(primary)),
            };
            text.push_str(&format!(
                "{} {}@{} {myself}{role} {of} 0 0 1 connected",
                id(index),
                self.label(index),
                u32::from(other.port) + 10_000
            ));
            let own = runs.iter().filter(|(_, _, shard)| primary == index && *shard == other.shard);
            own.for_each(|(first, last, _)| text.push_str(&format!(" {first}-{last}")));
            if index == node && primary == index {
                text.push_str(&self.ways_of(node));
            }
            text.push('\n');
        }
        text
    }

    fn ways_of(&self, node: usize) -> String {
        let me = &self.nodes[node];
        let mut text = String::new();
        for (slot, way) in &self.moves {
            let mine = usize::from(me.owners[usize::from(*slot)]) == me.shard;
            if way.from == me.shard && mine {
                text.push_str(&format!(" [{slot}->-{}]", id(me.primaries[way.to])));
            } else if way.to == me.shard && !way.ended {
                text.push_str(&format!(" [{slot}-<-{}]", id(me.primaries[way.from])));
            }
        }
        text
    }

    /// ROLE of a copy.
    fn role(&self, node: usize, out: &mut Vec<u8>) {
        let me = &self.nodes[node];
        let primary = &self.nodes[me.primaries[me.shard]];
        encode::array(out, 5);
        encode::bulk(out, b"slave");
        encode::bulk(out, primary.host.as_bytes());
        encode::integer(out, primary.port.into());
        encode::bulk(out, b"connected");
        encode::integer(out, 0);
    }
}

/// What two requests of a transaction access together.
fn join<'a>(mut all: table::Access<'a>, one: table::Access<'a>) -> table::Access<'a> {
    all.keys.extend(one.keys);
    all.writes |= one.writes;
    all.while_loading &= one.while_loading;
    all.channels |= one.channels;
    all
}

/// The name of a node, 40 hex digits.
fn id(node: usize) -> String {
    format!("{:040x}", node + 0xa0)
}

/// The slot of a key, by the definition of the cluster specification and nothing cleverer: an oracle for whoever computes it fast.
pub fn key_slot(key: &[u8]) -> u16 {
    let open = key.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        Some(&rest[..close]).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % SLOTS as u16
}

/// CRC-16/XMODEM.
pub(super) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| crc << 8 ^ CRC16_OF_BYTE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// Of each byte, bit by bit: a simulated cluster asks for slots by the million.
const CRC16_OF_BYTE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests;
