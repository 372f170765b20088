//! The servers behind: where each is, what it is called, and the shared connections to it.
//!
//! A node is known by its address as the topology tells it. Several pools may name the same address; they share the node only
//! when they log in as the same user, which is why a node belongs to one pool.
//!
//! Not here: which node a key belongs to (`topology`), the connections themselves (`upstream`).
//!
//! Invariant: a node's label is its address in words, and two live nodes of an engine never have the same one.

use crate::ids::{NodeId, NodeKind, Slab, UpstreamId};
use crate::stats::node::{NodeStats, Standing};
use crate::topology::reads::Health;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A TCP endpoint. The host is a name, to be resolved on each connect, or an IP address (IPv6 without brackets).
    Tcp {
        /// Name or IP address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Path of a unix socket.
    Unix(String),
}

impl Address {
    /// A TCP endpoint.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp { host: host.into(), port }
    }

    /// How error texts and logs name it: `127.0.0.1:6379`, `[::1]:6379`, `/run/redis.sock`.
    pub fn label(&self) -> String {
        match self {
            Self::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port } => format!("{host}:{port}"),
            Self::Unix(path) => path.to_string(),
        }
    }
}

/// A server's word on a login (`acl.pass_through`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginAnswer {
    /// The node was not asked yet, or could not be reached since.
    Open,
    /// The node took the login at least once.
    Taken,
    /// The node refused the login, and never took it before.
    Refused,
}

/// One server.
#[derive(Debug)]
pub struct Node {
    /// Which pool it belongs to.
    pub pool: u16,
    /// Where it is.
    pub address: Address,
    /// [`Address::label`], kept because error texts need it.
    pub label: String,
    /// Of the label: channels belong to nodes by it (see `pubsub::homes`).
    pub(crate) label_hash: u64,
    /// How it is, for reads.
    pub health: Health,
    /// Whether it was giving slots to other nodes when it was last asked.
    pub gives: bool,
    /// Its zone, if it told one (Valkey 8).
    pub zone: String,
    /// What is counted of it; of live connections the traffic is counted there.
    pub stats: NodeStats,
    /// The node's last word on the login of this engine, where that has one.
    pub(crate) login: LoginAnswer,
    /// Whether it could be reached.
    pub(crate) standing: Standing,
    /// The shared connections of the database that clients start in, for RESP2 and RESP3: what the short path looks at.
    pub shared: [Option<UpstreamId>; 2],
    /// The same for the clients of the second and further connections (`Limits::shared_conns`), apart so that the usual case is no
    /// slower for them.
    pub more_shared: Vec<[Option<UpstreamId>; 2]>,
}

/// All nodes, each found by its pool and address. Invariant: the index has those that belong to a pool, each under its address.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    slab: Slab<NodeKind, Node>,
    at: BTreeMap<u16, BTreeMap<Address, NodeId>>,
}

impl Nodes {
    /// One more.
    pub(crate) fn insert(&mut self, node: Node) -> NodeId {
        let (pool, address) = (node.pool, node.address.clone());
        let id = self.slab.insert(node);
        self.at.entry(pool).or_default().insert(address, id);
        id
    }

    /// It is known no more.
    pub(crate) fn remove(&mut self, id: NodeId) {
        self.unlist(id);
        self.slab.remove(id);
    }

    /// It belongs to another pool now, in which nobody looks for it by its address.
    pub(crate) fn leave_for(&mut self, id: NodeId, pool: u16) {
        self.unlist(id);
        if let Some(node) = self.slab.get_mut(id) {
            node.pool = pool;
        }
    }

    /// The node at this address.
    pub(crate) fn find(&self, pool: u16, address: &Address) -> Option<NodeId> {
        self.at.get(&pool)?.get(address).copied()
    }

    /// See [`Slab::get_mut`]. Pool and address change by [`Self::leave_for`] alone.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.slab.get_mut(id)
    }

    /// See [`Slab::iter_mut`].
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (NodeId, &mut Node)> {
        self.slab.iter_mut()
    }

    fn unlist(&mut self, id: NodeId) {
        let Some(node) = self.slab.get(id) else { return };
        if let Some(of_pool) = self.at.get_mut(&node.pool)
            && of_pool.get(&node.address) == Some(&id)
        {
            of_pool.remove(&node.address);
        }
    }
}

impl core::ops::Deref for Nodes {
    type Target = Slab<NodeKind, Node>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.slab
    }
}

impl Node {
    /// One without connections.
    pub fn new(pool: u16, address: Address) -> Self {
        let label = address.label();
        Self {
            pool,
            address,
            label_hash: rapidhash::v3::rapidhash_v3(label.as_bytes()),
            label,
            health: Health::default(),
            gives: false,
            zone: String::new(),
            stats: NodeStats::default(),
            login: LoginAnswer::Open,
            standing: Standing::default(),
            shared: [None; 2],
            more_shared: Vec::new(),
        }
    }

    /// The shared connection with this number, for RESP2 (0) or RESP3 (1).
    #[inline]
    pub fn shared_at(&self, conn: u16, resp3: usize) -> Option<UpstreamId> {
        match usize::from(conn) {
            0 => self.shared[resp3],
            further => self.more_shared.get(further - 1)?[resp3],
        }
    }

    /// Notes the shared connection with this number, or that there is none.
    pub fn set_shared(&mut self, conn: u16, resp3: usize, id: Option<UpstreamId>) {
        let further = usize::from(conn);
        if further > self.more_shared.len() {
            self.more_shared.resize(further, [None; 2]);
        }
        match further {
            0 => self.shared[resp3] = id,
            _ => self.more_shared[further - 1][resp3] = id,
        }
    }

    /// All shared connections of the database that clients start in.
    pub fn all_shared(&self) -> impl Iterator<Item = UpstreamId> {
        self.shared.iter().chain(self.more_shared.iter().flatten()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_as_addresses_are_written() {
        assert_eq!(Address::tcp("::1", 7000).label(), "[::1]:7000");
        assert_eq!(Address::tcp("cache.example", 6379).label(), "cache.example:6379");
        assert_eq!(Address::Unix("/run/r.sock".into()).label(), "/run/r.sock");
    }
}
