//! The words for a story with sentinels: what each of them tells, and whom the proxy asked.
//!
//! ```text
//!   Story::sentinels()                     s1 and s2, which know `mymaster`: the primary n1, its replica n2, and each other
//!   story.sentinels_say("n2 n1")           from now on: a primary, then its replicas; "": they know no such name
//!   story.sentinel_says("s1", "n1")        the same of one of them
//!   story.sentinels_lag("s1", "n2 n1")     these sentinels keep their answers and epoch, the others tell of a failover
//!   story.sentinels_are_cut_off("s1")      these sentinels report all others as down
//!   story.forgets_epochs()                 no sentinel tells the epoch of its configuration
//!   story.sentinels_are("s1 s2 s3")        whom each of them tells of, itself left out
//!   story.asked_sentinels()                who was asked since this was last looked at
//!   story.switch_master("s2")              this one sends `+switch-master`
//! ```
//! Sentinels answer the four questions and SUBSCRIBE by themselves, each after its earlier replies. A sentinel that
//! [`Story::is_mute`] takes everything and answers nothing. Connects are made to fail with the words of `cluster`.
//!
//! Not here: the servers that they watch; those are a story's ([`Story::node`]).
//!
//! Invariant: a sentinel answers in the protocol that its connection was greeted with.

use super::{Story, wire};
use engine::Settings;
use engine::node::Address;
use engine::settings::{Node, Pool};
use engine::upstream::Lane;
use std::collections::{BTreeMap, BTreeSet};

/// Port of every server that sentinels tell of, as in `cluster`.
const PORT: u16 = 7_000;

/// Port of every sentinel.
const SENTINEL_PORT: u16 = 26_379;

/// What sentinels tell and how they are.
#[derive(Default)]
pub(crate) struct Sentinels {
    /// What all say that do not say something else: the primary, then replicas.
    told: String,
    own: BTreeMap<String, (String, u64)>,
    /// Epoch of the configuration: the number of changes.
    epoch: u64,
    /// Sentinels refuse `SENTINEL MASTER`.
    no_epoch: bool,
    /// Second names of sentinels, and the first ones.
    also: BTreeMap<String, String>,
    all: Vec<String>,
    /// Replicas that are told of as dead.
    dead: BTreeSet<String>,
    mute: BTreeSet<String>,
    cut_off: BTreeSet<String>,
    asked: Vec<String>,
}

/// The settings of a pool behind these sentinels.
pub(crate) fn behind(names: &[&str]) -> Settings {
    let seeds = names.iter().map(|name| Address::tcp(*name, SENTINEL_PORT)).collect();
    let mut settings = Settings::default();
    let greeting = Node { address: Address::tcp(names[0], SENTINEL_PORT), ..settings.node.clone() };
    settings.pool = Pool::Sentinel { seeds, name: b"mymaster".to_vec(), greeting };
    settings
}

/// A list of instances as a sentinel tells it: of maps in RESP3, flat in RESP2.
fn instances(names: &[(String, u16, &str)], resp3: bool) -> String {
    let mut out = format!("*{}\r\n", names.len());
    for (host, port, flags) in names {
        let port = port.to_string();
        let fields = [("name", host), ("ip", host), ("port", &port), ("flags", &flags.to_string())];
        let head = if resp3 { "%4\r\n" } else { "*8\r\n" };
        out.push_str(head);
        for (field, value) in fields {
            out.push_str(&format!(
                "${}\r\n{field}\r\n${}\r\n{value}\r\n",
                field.len(),
                value.len()
            ));
        }
    }
    out
}

impl Story {
    /// Two sentinels, a primary and a replica.
    pub(crate) fn sentinels() -> Self {
        Self::sentinels_with(|_| {})
    }

    /// The same with other settings.
    pub(crate) fn sentinels_with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = behind(&["s1", "s2"]);
        change(&mut settings);
        let mut story = Self::with(settings);
        story.sentinels_are("s1 s2").sentinels_say("n1 n2");
        story
    }

    /// The same after the client `a` has spoken to the primary n1.
    pub(crate) fn warm_sentinels() -> Self {
        Self::warm_sentinels_with(|_| {})
    }

    /// The same with other settings.
    pub(crate) fn warm_sentinels_with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut story = Self::sentinels_with(change);
        story.client("a").says("GET k");
        story.node("n1").gets("GET k").answers("nil").gets_nothing();
        story.client("a").gets("nil");
        story
    }

    /// What sentinels say from now on.
    pub(crate) fn sentinels_say(&mut self, nodes: &str) -> &mut Self {
        self.sentinels.told = nodes.to_string();
        self.sentinels.own.clear();
        self.sentinels.epoch += 1;
        self
    }

    /// All sentinels but these tell of a failover.
    pub(crate) fn sentinels_lag(&mut self, lagging: &str, nodes: &str) -> &mut Self {
        let before = (self.sentinels.told.clone(), self.sentinels.epoch);
        self.sentinels_say(nodes);
        for sentinel in lagging.split_whitespace() {
            self.sentinels.own.insert(sentinel.to_string(), before.clone());
        }
        self
    }

    /// These sentinels report all others as down.
    pub(crate) fn sentinels_are_cut_off(&mut self, names: &str) -> &mut Self {
        self.sentinels.cut_off = names.split_whitespace().map(str::to_string).collect();
        self
    }

    /// An operator removed the primary from all sentinels and added it again.
    pub(crate) fn sentinels_begin_anew(&mut self, nodes: &str) -> &mut Self {
        self.sentinels_say(nodes).sentinels.epoch = 0;
        self
    }

    /// `name` is another name of this sentinel.
    pub(crate) fn is_also(&mut self, name: &str, sentinel: &str) -> &mut Self {
        self.sentinels.also.insert(name.to_string(), sentinel.to_string());
        self
    }

    /// No sentinel tells the epoch of its configuration from now on.
    pub(crate) fn forgets_epochs(&mut self) -> &mut Self {
        self.sentinels.no_epoch = true;
        self
    }

    /// What this sentinel says, whatever the others say.
    pub(crate) fn sentinel_says(&mut self, sentinel: &str, nodes: &str) -> &mut Self {
        let told = (nodes.to_string(), self.sentinels.epoch);
        self.sentinels.own.insert(sentinel.to_string(), told);
        self
    }

    /// Which sentinels there are.
    pub(crate) fn sentinels_are(&mut self, names: &str) -> &mut Self {
        self.sentinels.all = names.split_whitespace().map(str::to_string).collect();
        self
    }

    /// Sentinels tell of this replica as of one that is down.
    pub(crate) fn is_told_dead(&mut self, node: &str) -> &mut Self {
        self.sentinels.dead.insert(node.to_string());
        self
    }

    /// This sentinel answers nothing from now on.
    pub(crate) fn is_mute(&mut self, sentinel: &str) -> &mut Self {
        self.sentinels.mute.insert(sentinel.to_string());
        self
    }

    /// Which sentinels were asked for the primary since this was last looked at.
    pub(crate) fn asked_sentinels(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sentinels.asked)
    }

    /// This sentinel tells those who listen that there is a new primary.
    #[track_caller]
    pub(crate) fn switch_master(&mut self, sentinel: &str) -> &mut Self {
        let text = "mymaster n1 7000 n2 7000";
        let channel = "+switch-master";
        let push = format!(
            ">3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{text}\r\n",
            channel.len(),
            text.len()
        );
        let index = self.conns.iter().rposition(|conn| conn.node == sentinel && conn.connected);
        let conn = &mut self.conns[index.expect("nobody connected to it")];
        assert!(conn.open && conn.key.resp3, "nobody listens there");
        conn.unread.push(push.as_bytes());
        self.turn();
        self
    }

    /// A sentinel's answer to what stands first of this connection's requests.
    pub(super) fn sentinel_reply(&mut self, index: usize) -> Option<Vec<u8>> {
        let conn = &self.conns[index];
        let sentinels = &mut self.sentinels;
        let line = conn.requests.front().filter(|_| conn.owed == 0)?;
        if conn.key.lane != Lane::Sentinel || sentinels.mute.contains(&conn.node) {
            return None;
        }
        if line == "SUBSCRIBE +switch-master" {
            return Some(wire(">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"));
        }
        let own = sentinels.own.get(&conn.node).map(|(told, epoch)| (told, *epoch));
        let (told, epoch) = own.unwrap_or((&sentinels.told, sentinels.epoch));
        let mut nodes = told.split_whitespace();
        let primary = nodes.next();
        let reply = match (line.strip_prefix("SENTINEL ")?, primary) {
            ("MYID", _) => {
                let name = sentinels.also.get(&conn.node).unwrap_or(&conn.node);
                format!("$40\r\n{name:0>40}\r\n")
            }
            ("GET-MASTER-ADDR-BY-NAME mymaster", primary) => {
                sentinels.asked.push(conn.node.clone());
                match primary {
                    Some(host) => format!("*2\r\n${}\r\n{host}\r\n$4\r\n{PORT}\r\n", host.len()),
                    None if conn.key.resp3 => "_\r\n".to_string(),
                    None => "*-1\r\n".to_string(),
                }
            }
            ("MASTER mymaster", Some(_)) if sentinels.no_epoch => {
                "-NOPERM this user has no permissions\r\n".to_string()
            }
            ("MASTER mymaster", Some(_)) => {
                let (head, epoch) = (if conn.key.resp3 { "%1" } else { "*2" }, epoch.to_string());
                format!("{head}\r\n$12\r\nconfig-epoch\r\n${}\r\n{epoch}\r\n", epoch.len())
            }
            (_, None) => "-ERR No such master with that name\r\n".to_string(),
            ("SLAVES mymaster", _) => {
                let flags = |node: &str| match sentinels.dead.contains(node) {
                    true => "s_down,slave,disconnected",
                    false => "slave",
                };
                let replicas = nodes.map(|node| (node.to_string(), PORT, flags(node)));
                instances(&replicas.collect::<Vec<_>>(), conn.key.resp3)
            }
            ("SENTINELS mymaster", _) => {
                let others = sentinels.all.iter().filter(|other| **other != conn.node);
                let flags = match sentinels.cut_off.contains(&conn.node) {
                    true => "s_down,sentinel,disconnected",
                    false => "sentinel",
                };
                let others = others.map(|other| (other.clone(), SENTINEL_PORT, flags));
                instances(&others.collect::<Vec<_>>(), conn.key.resp3)
            }
            _ => return None,
        };
        Some(reply.into_bytes())
    }
}
