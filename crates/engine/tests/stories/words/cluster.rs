//! The words for a story with several servers: a cluster, told apart by the names of its nodes.
//!
//! ```text
//!   Story::cluster()                                n1, n2 and n3, a third of the slots each
//!   story.cluster_is("0-5460 n1 n4, 5461-10922 n2, …")   what CLUSTER SLOTS says from now on; a primary, then its replicas
//!   story.node("n2").gets("GET b4").moved("b4", "n1")    as `story.server()`, of the connection made last to that node
//!   story.is_down("n2")                             connects there are refused; lets_connects_hang: not answered
//! ```
//! The keys a4, a8, a12 and a16 lie on n1; b4, b8, b11 and b12 on n2; c1, c5, c9 and c13 on n3, as the cluster is at first.
//! Of n1, n2 and n3 the channel b4 is at home at n1, a4 and news140 at n2, a8 at n3; with n4 news140 is there, with n5 at n5.
//! The servers answer CLUSTER SLOTS by themselves, each when what it was asked before is answered; everything else is the story's.
//!
//! Not here: the ends of a connection (`ends`).
//!
//! Invariant: a question for the table is never among the requests that a story looks at, unless it holds the table
//! ([`Story::holds_the_table`]).

use super::{Conn, ServerWords, Story, Words, wire};
use engine::Settings;
use engine::node::Address;
use engine::route::slot::slot;
use engine::settings::Pool;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Port of every node.
const PORT: u16 = 7_000;

/// What CLUSTER INFO says, as far as the engine looks at it.
const WHOLE: &str = "$41\r\ncluster_state:ok\r\ncluster_known_nodes:3\r\n\r\n";
/// The same from a node that is cut off.
const DOWN: &str = "$43\r\ncluster_state:fail\r\ncluster_known_nodes:3\r\n\r\n";

/// What the servers of a cluster say and how they are.
#[derive(Default)]
pub(crate) struct Servers {
    /// The reply to CLUSTER SLOTS; `None`: it is left to the story.
    table: Option<Vec<u8>>,
    /// Who was asked for it, oldest first.
    asked: Vec<String>,
    cut_off: BTreeSet<String>,
    gives: BTreeSet<(String, u16)>,
    members: BTreeSet<String>,
    alone: BTreeSet<String>,
    /// What single nodes say instead.
    own_tables: BTreeMap<String, Vec<u8>>,
    down: BTreeSet<String>,
    silent: BTreeSet<String>,
}

/// The settings of a pool with these seeds.
pub(crate) fn seeds(names: &[&str]) -> Settings {
    let seeds: Vec<Address> = names.iter().map(|name| Address::tcp(*name, PORT)).collect();
    let mut settings = Settings { pool: Pool::Cluster { seeds }, ..Settings::default() };
    settings.node.address = Address::tcp(names[0], PORT);
    settings
}

/// `-MOVED 7071 n2:7000`, as a server says that has not the slot of `key`.
pub(crate) fn moved(key: &str, to: &str) -> String {
    format!("-MOVED {} {to}:{PORT}", slot(key.as_bytes()))
}

/// `-ASK 7071 n2:7000`.
pub(crate) fn ask(key: &str, to: &str) -> String {
    format!("-ASK {} {to}:{PORT}", slot(key.as_bytes()))
}

/// The error of a request whose connection to this node was lost, or whose node is down.
pub(crate) fn lost(node: &str, cause: &str) -> String {
    format!("-ERR respool: upstream {node}:{PORT}: {cause}")
}

/// An array of these replies.
pub(crate) fn list(replies: impl Words) -> String {
    let replies = replies.each();
    let mut out = format!("*{}\r\n", replies.len());
    for reply in replies {
        out.push_str(&String::from_utf8(wire(reply)).expect("written as text"));
    }
    out
}

/// The reply to CLUSTER SLOTS that says `0-5460 n1 n4, 5461-16383 n2`.
pub(crate) fn table(words: &str) -> String {
    let ranges: Vec<&str> = words.split(", ").filter(|range| !range.is_empty()).collect();
    let mut out = format!("*{}\r\n", ranges.len());
    for range in ranges {
        let mut parts = range.split(' ');
        let slots = parts.next().and_then(|slots| slots.split_once('-'));
        let (first, last) = slots.expect("first and last slot");
        let nodes: Vec<&str> = parts.collect();
        let _ = write!(out, "*{}\r\n:{first}\r\n:{last}\r\n", 2 + nodes.len());
        for node in nodes {
            let _ = write!(out, "*3\r\n${}\r\n{node}\r\n:{PORT}\r\n$2\r\nid\r\n", node.len());
        }
    }
    out
}

impl Story {
    /// Three primaries, all of them seeds.
    pub(crate) fn cluster() -> Self {
        Self::cluster_with(|_| {})
    }

    /// The same with other settings.
    pub(crate) fn cluster_with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = seeds(&["n1", "n2", "n3"]);
        change(&mut settings);
        let mut story = Self::with(settings);
        story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
        story
    }

    /// A cluster to which the client `a` has spoken: every node is connected, and nothing is left to look at. The table was just asked
    /// for, so it is not asked for again within half a second.
    pub(crate) fn warm_cluster() -> Self {
        Self::warm_cluster_with(|_| {})
    }

    /// The same with other settings.
    pub(crate) fn warm_cluster_with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut story = Self::cluster_with(change);
        story.warm_up();
        story
    }

    /// The same with one more node, of which the table tells: a copy of n3.
    pub(crate) fn warm_cluster_beside(node: &str) -> Self {
        Self::warm_cluster_beside_with(node, |_| {})
    }

    /// The same with other settings.
    pub(crate) fn warm_cluster_beside_with(node: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let mut story = Self::cluster_with(change);
        story.cluster_is(&format!("0-5460 n1, 5461-10922 n2, 10923-16383 n3 {node}"));
        story.warm_up();
        story
    }

    /// The client `a` speaks to each of the three.
    pub(crate) fn warm_up(&mut self) {
        self.client("a").says(["GET a4", "GET b4", "GET c1"]);
        for (node, key) in [("n1", "a4"), ("n2", "b4"), ("n3", "c1")] {
            self.node(node).gets(&*format!("GET {key}")).answers("nil").gets_nothing();
        }
        self.client("a").gets(["nil", "nil", "nil"]);
    }

    /// What the servers say of the slots from now on.
    pub(crate) fn cluster_is(&mut self, words: &str) -> &mut Self {
        self.servers.table = Some(wire(&table(words)));
        self
    }

    /// Node `from` redirects a GET of client `b` to `to`, which answers: a sign that the table is stale.
    #[track_caller]
    pub(crate) fn redirects(&mut self, key: &str, from: &str, to: &str) -> &mut Self {
        let get = format!("GET {key}");
        self.client("b").says(&*get);
        self.node_conn(from, 1).gets(&*get).answers(&*moved(key, to));
        self.node_conn(to, 1).gets(&*get).answers("nil");
        self.client("b").gets("nil");
        self
    }

    /// What this node alone says of the slots from now on.
    pub(crate) fn node_tells(&mut self, node: &str, words: &str) -> &mut Self {
        self.servers.own_tables.insert(node.to_string(), wire(&table(words)));
        self
    }

    /// The question for the table is from now on a request as others are.
    pub(crate) fn holds_the_table(&mut self) -> &mut Self {
        self.servers.table = None;
        self
    }

    /// Who was asked for the table since this was last looked at.
    pub(crate) fn asked_for_the_table(&mut self) -> Vec<String> {
        std::mem::take(&mut self.servers.asked)
    }

    /// This node gives a slot away from now on.
    pub(crate) fn gives_slots(&mut self, node: &str) -> &mut Self {
        self.servers.gives.insert((node.to_string(), 93));
        self
    }

    /// The nodes tell of one more from now on, which has no slots.
    pub(crate) fn has_member(&mut self, node: &str) -> &mut Self {
        self.servers.members.insert(node.to_string());
        self
    }

    /// This node knows no other one from now on, as after `CLUSTER RESET`.
    pub(crate) fn is_alone(&mut self, node: &str) -> &mut Self {
        self.servers.alone.insert(node.to_string());
        self
    }

    /// This node takes its cluster for down from now on.
    pub(crate) fn is_cut_off(&mut self, node: &str) -> &mut Self {
        self.servers.cut_off.insert(node.to_string());
        self
    }

    /// Connects to this node are refused from now on.
    pub(crate) fn is_down(&mut self, node: &str) -> &mut Self {
        self.servers.down.insert(node.to_string());
        self
    }

    /// They succeed again.
    pub(crate) fn is_up(&mut self, node: &str) -> &mut Self {
        self.servers.down.remove(node);
        self
    }

    /// Connects to this node neither succeed nor fail from now on.
    pub(crate) fn lets_connects_hang(&mut self, node: &str) -> &mut Self {
        self.servers.silent.insert(node.to_string());
        self
    }

    /// Those that hang succeed, and later ones as well.
    pub(crate) fn lets_connect(&mut self, node: &str) -> &mut Self {
        self.servers.silent.remove(node);
        for index in 0..self.conns.len() {
            let conn = &self.conns[index];
            if conn.node == node && conn.open && !conn.connected {
                self.connect(index);
            }
        }
        self.turn();
        self
    }

    /// The node is gone: its connections break, and new ones are refused.
    pub(crate) fn crashes(&mut self, node: &str) -> &mut Self {
        self.is_down(node);
        for index in 0..self.conns.len() {
            if self.conns[index].node == node && self.conns[index].open {
                ServerWords::new(self, index).dies("connection reset");
            }
        }
        self
    }

    /// The node's end of the connection that was made to it last.
    #[track_caller]
    pub(crate) fn node(&mut self, node: &str) -> ServerWords<'_> {
        let index = self.conns.iter().rposition(|conn| conn.node == node && conn.connected);
        let Some(index) = index else { panic!("nobody connected to {node}") };
        ServerWords::new(self, index)
    }

    /// The node's end of the `number`-th connection to it, from 1.
    #[track_caller]
    pub(crate) fn node_conn(&mut self, node: &str, number: usize) -> ServerWords<'_> {
        let mut conns = self.conns.iter().enumerate().filter(|(_, conn)| conn.node == node);
        let Some((index, _)) = conns.nth(number - 1) else {
            panic!("there were fewer than {number} connects to {node}");
        };
        ServerWords::new(self, index)
    }

    /// How many connects to this node there were.
    pub(crate) fn connects_to(&self, node: &str) -> usize {
        self.conns.iter().filter(|conn| conn.node == node).count()
    }

    /// How many connections to this node are open.
    pub(crate) fn open_conns_to(&self, node: &str) -> usize {
        self.conns.iter().filter(|conn| conn.node == node && conn.open).count()
    }

    pub(super) fn refuses_connects(&self, node: &str) -> bool {
        self.servers.down.contains(node)
    }

    pub(super) fn leaves_connects(&self, node: &str) -> bool {
        self.servers.silent.contains(node)
    }

    /// The answer to what stands first of this connection's requests, if it is the question for the table.
    pub(super) fn table_reply(&mut self, index: usize) -> Option<Vec<u8>> {
        let conn = &self.conns[index];
        if conn.owed == 0
            && conn.requests.front()? == "CLUSTER INFO"
            && self.servers.table.is_some()
        {
            let cut_off = self.servers.cut_off.contains(&conn.node);
            return Some(wire(if cut_off { DOWN } else { WHOLE }));
        }
        if conn.owed == 0
            && conn.requests.front()? == "CLUSTER NODES"
            && self.servers.table.is_some()
        {
            let node = &conn.node;
            let own = self.servers.gives.iter().filter(|(gives, _)| gives == node);
            let ways: String = own.map(|(_, slot)| format!(" [{slot}->-292f]")).collect();
            let mut text = format!(
                "e7d1 10.0.0.1:{PORT}@17000,{node} myself,master - 0 0 1 connected 0-5460{ways}\n"
            );
            let seeds = ["n1", "n2", "n3"].map(String::from);
            let others = seeds.iter().chain(&self.servers.members).filter(|other| *other != node);
            for member in others.filter(|_| !self.servers.alone.contains(node)) {
                let _ = writeln!(text, "a1 {member}:{PORT}@17000 master - 0 0 1 connected");
            }
            return Some(wire(&format!("${}\r\n{text}\r\n", text.len())));
        }
        let asked = conn.owed == 0 && conn.requests.front()? == "CLUSTER SLOTS";
        let own = self.servers.own_tables.get(&conn.node).or(self.servers.table.as_ref());
        let reply = own.cloned().filter(|_| asked)?;
        self.servers.asked.push(conn.node.clone());
        Some(reply)
    }
}

/// What only a server of a cluster says.
impl ServerWords<'_> {
    /// The slot of this key is at that node.
    #[track_caller]
    pub(crate) fn moved(self, key: &str, to: &str) -> Self {
        self.answers(&*moved(key, to))
    }

    /// This key is at that node already.
    #[track_caller]
    pub(crate) fn ask(self, key: &str, to: &str) -> Self {
        self.answers(&*ask(key, to))
    }
}

impl Conn {
    /// Replies as they go out, with those to delimiters, which the server gives by itself. So many requests less are owed one.
    pub(super) fn with_delimiters(&mut self, bytes: &[u8]) -> Vec<u8> {
        let (mut out, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let is_push = self.replies.is_fresh() && rest[0] == b'>';
            let consumed = match self.replies.scan(rest) {
                Ok(resp::Scan::Complete { consumed, .. }) => consumed,
                Ok(resp::Scan::Partial { .. }) => break,
                Err(_) => {
                    self.replies = resp::ReplyScanner::default();
                    break;
                }
            };
            out.extend_from_slice(&rest[..consumed]);
            rest = &rest[consumed..];
            if !is_push {
                self.owed = self.owed.saturating_sub(1);
                self.answered += 1;
            }
            while let Some((_, word)) = self.delimiters.pop_front_if(|(at, _)| *at <= self.answered)
            {
                out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            }
        }
        out.extend_from_slice(rest);
        out
    }
}
