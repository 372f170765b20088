//! A model of the server: bytes in, bytes out, no socket, no clock.
//!
//! It stands behind the simulated network, where thousands of runs a minute need a server that is
//! exact, fast and can be looked into. It knows the commands of `table` only, with the server's
//! own reply shapes and error texts (those of Redis 7.2; checked beside a real server by a test of
//! this crate), strings and lists, transactions, 16 databases, RESP2 and RESP3, subscriptions, client-side caching. Of what blocks there is
//! BLPOP. Of scripts there is one, which counts and returns an error; expiry is deliberately absent.
//!
//! [`ModelCluster`] is a cluster of such servers, whose slots move and whose primaries change.
//!
//! Beyond the data it keeps a log of what was applied, per key and in order ([`Model::effects`]): a
//! write that was executed twice shows there, even if the value happens to look right.
//!
//! Invariant: each request gets exactly one reply, in order, whatever the pieces in which its bytes
//! came.

mod blocking;
mod cluster;
mod connection;
mod data;
mod iterate;
mod pubsub;
mod table;
mod tracking;
mod transaction;

use std::collections::{BTreeMap, VecDeque};

use resp::Protocol;

use crate::frames::Requests;

pub use cluster::{ClusterConn, ModelCluster, SLOTS, Standing, key_slot};

/// Number of databases, as in the server's default configuration.
pub const DATABASES: usize = 16;
/// What the model calls itself in HELLO and INFO.
pub const VERSION: &str = "7.2.4";

/// A change that was applied to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// SET or MSET with this value.
    Set(Vec<u8>),
    /// INCR and its relatives.
    Incr {
        /// What was added.
        by: i64,
        /// The value afterwards.
        result: i64,
    },
    /// APPEND of these bytes.
    Append(Vec<u8>),
    /// LPUSH or RPUSH of this element.
    Push(Vec<u8>),
    /// BLPOP of this element.
    Pop(Vec<u8>),
    /// DEL of an existing key.
    Delete,
}

/// What is to be done with a connection after [`Model::feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum After {
    /// It stays open.
    Open,
    /// The server closes it once the replies are sent (QUIT, malformed input).
    Close,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(Vec<u8>),
    List(VecDeque<Vec<u8>>),
}

/// A model server.
#[derive(Debug)]
pub struct Model {
    databases: Vec<BTreeMap<Vec<u8>, Value>>,
    effects: BTreeMap<(u32, Vec<u8>), Vec<Effect>>,
    /// For each of them the deployment that did it.
    doers: BTreeMap<(u32, Vec<u8>), Vec<usize>>,
    /// Whoever acts now ([`Model::act_as`]).
    deployment: usize,
    password: Option<Vec<u8>>,
    /// Named users with their passwords.
    users: Vec<(Vec<u8>, Vec<u8>)>,
    listeners: pubsub::Listeners,
    waiting: blocking::Waiting,
    trackers: tracking::Trackers,
    conns_made: u64,
    executed: u64,
    time_us: u64,
    refuses_command: bool,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// An empty server without a password.
    pub fn new() -> Self {
        Self {
            databases: vec![BTreeMap::new(); DATABASES],
            effects: BTreeMap::new(),
            doers: BTreeMap::new(),
            deployment: 0,
            password: None,
            users: Vec::new(),
            listeners: pubsub::Listeners::default(),
            waiting: blocking::Waiting::default(),
            trackers: tracking::Trackers::default(),
            conns_made: 0,
            executed: 0,
            time_us: 0,
            refuses_command: false,
        }
    }

    /// What a named user gets for a key that does not begin with its name and a colon.
    pub const NOPERM: &str =
        "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";

    /// A user with a password, who may do everything to keys that begin with its name and a colon.
    pub fn add_user(&mut self, name: &[u8], password: &[u8]) {
        self.users.push((name.to_vec(), password.to_vec()));
    }

    /// Demands a password of connections that are made from now on.
    pub fn require_password(&mut self, password: &[u8]) {
        self.password = Some(password.to_vec());
    }

    /// From now on nobody may ask for its commands.
    pub fn refuse_command(&mut self) {
        self.refuses_command = true;
    }

    /// Sets what TIME answers, in microseconds of the Unix epoch.
    pub fn set_time_us(&mut self, time_us: u64) {
        self.time_us = time_us;
    }

    /// A new connection.
    pub fn conn(&mut self) -> ModelConn {
        self.conns_made += 1;
        ModelConn {
            id: self.conns_made,
            requests: Requests::default(),
            protocol: Protocol::Resp2,
            database: 0,
            name: Vec::new(),
            authenticated: self.password.is_none(),
            user: None,
            closing: false,
            face: Face::Standalone,
            queue: None,
            executes: false,
            watched: Vec::new(),
            replies: Replies::On,
        }
    }

    /// Takes bytes that came in on `conn`, executes the requests that are whole, and appends their
    /// replies to `out`. Input after a request that closes the connection is ignored, as the server
    /// does. What stands behind one that waits is executed with the next bytes that come after it was served.
    pub fn feed(&mut self, conn: &mut ModelConn, bytes: &[u8], out: &mut Vec<u8>) -> After {
        conn.requests.push(bytes);
        while !conn.closing {
            self.deliver(conn, out);
            if self.waiting.holds(conn.id) {
                return After::Open;
            }
            match conn.requests.pop() {
                Ok(Some(frame)) if frame.args.is_empty() => {}
                Ok(Some(frame)) => {
                    self.executed += 1;
                    let place = Place::default();
                    table::execute(&mut Call { model: self, conn, args: &frame.args, out, place });
                    self.serve_waiting();
                }
                Ok(None) => return After::Open,
                Err(error_reply) => {
                    out.extend_from_slice(&error_reply);
                    conn.closing = true;
                }
            }
        }
        After::Close
    }

    /// Appends what came in between for a connection: messages that others published, an element that it waited for, keys
    /// that changed.
    pub fn deliver(&mut self, conn: &ModelConn, out: &mut Vec<u8>) {
        self.listeners.take(conn.id, conn.protocol, out);
        self.waiting.take(conn.id, out);
        self.trackers.take(conn.id, conn.protocol, out);
    }

    /// A connection is over.
    pub fn leave(&mut self, conn: &ModelConn) {
        self.listeners.forget(conn.id);
        self.waiting.forget(conn.id);
        self.trackers.forget(conn.id);
    }

    /// Everything that was applied to a key, in order, since the model was made. Flushing does not
    /// forget it.
    pub fn effects(&self, database: u32, key: &[u8]) -> &[Effect] {
        self.effects.get(&(database, key.to_vec())).map_or(&[], Vec::as_slice)
    }

    /// For each of the key's effects which deployment did it: 0, unless [`Model::act_as`] said otherwise.
    pub fn doers(&self, database: u32, key: &[u8]) -> &[usize] {
        self.doers.get(&(database, key.to_vec())).map_or(&[], Vec::as_slice)
    }

    /// From now on it acts for this one of several servers or clusters that have one set of data, as where the data went along from one to the
    /// other. What is published is heard by those who listen at the same one, what changes is told to all.
    pub fn act_as(&mut self, deployment: usize) {
        self.deployment = deployment;
    }

    /// The string value of a key; `None` if there is none or it is a list.
    pub fn text(&self, database: u32, key: &[u8]) -> Option<&[u8]> {
        match self.databases.get(database as usize)?.get(key)? {
            Value::Text(text) => Some(text),
            Value::List(_) => None,
        }
    }

    /// The first key that is not the same in both, in words; `None`: they hold the same.
    pub fn difference(&self, other: &Self) -> Option<String> {
        for (number, (own, theirs)) in self.databases.iter().zip(&other.databases).enumerate() {
            let keys = own.keys().chain(theirs.keys());
            if let Some(key) = keys.into_iter().find(|key| own.get(*key) != theirs.get(*key)) {
                let shown = |value: Option<&Value>| {
                    let text = format!("{value:?}");
                    text.chars().take(300).collect::<String>()
                };
                return Some(format!(
                    "database {number}, key {}: {} and {}",
                    key.escape_ascii(),
                    shown(own.get(key)),
                    shown(theirs.get(key))
                ));
            }
        }
        None
    }

    /// Number of requests executed, errors included.
    pub fn executed(&self) -> u64 {
        self.executed
    }

    /// Number of connections ever made.
    pub fn conns_made(&self) -> u64 {
        self.conns_made
    }
}

/// What a server calls itself in its greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    /// A server that is in no cluster.
    Standalone,
    /// A primary of a cluster.
    Primary,
    /// A copy in a cluster.
    Replica,
}

impl Face {
    fn mode(self) -> &'static str {
        if self == Self::Standalone { "standalone" } else { "cluster" }
    }

    fn role(self) -> &'static str {
        if self == Self::Replica { "replica" } else { "master" }
    }
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct ModelConn {
    id: u64,
    requests: Requests,
    protocol: Protocol,
    database: u32,
    name: Vec<u8>,
    authenticated: bool,
    /// `None`: the default user.
    user: Option<Vec<u8>>,
    closing: bool,
    face: Face,
    /// Between MULTI and EXEC.
    queue: Option<transaction::Queue>,
    /// EXEC is under way.
    executes: bool,
    watched: Vec<transaction::Watched>,
    replies: Replies,
}

impl ModelConn {
    /// A request was executed: takes its reply back, if it has none. `mode`: what held before it.
    fn mute(&mut self, mode: Replies, before: usize, out: &mut Vec<u8>) {
        if self.replies != Replies::On {
            out.truncate(before);
        }
        if (mode, self.replies) == (Replies::Skip, Replies::Skip) {
            self.replies = Replies::On;
        }
    }

    /// The id that CLIENT ID answers.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The selected database.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// The protocol that HELLO chose.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }
}

/// See [`Call::name`].
fn found_as(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).to_ascii_lowercase()
}

/// Which replies of a connection are sent (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replies {
    On,
    Off,
    /// Not the next one.
    Skip,
}

/// Where a request is executed.
#[derive(Clone, Debug, Default)]
struct Place {
    /// The node of a cluster; 0 where there is one server.
    node: usize,
    /// The primary of the first key's slot, as that node believes.
    primary: usize,
    /// The nodes of that node's shard; `None`: there is one server.
    shard: Option<Vec<usize>>,
}

/// One request while it is executed.
struct Call<'a> {
    model: &'a mut Model,
    conn: &'a mut ModelConn,
    args: &'a [Vec<u8>],
    out: &'a mut Vec<u8>,
    place: Place,
}

impl Call<'_> {
    fn ok(&mut self) {
        resp::encode::simple(self.out, b"OK");
    }

    fn error(&mut self, text: &str) {
        resp::encode::error(self.out, text.as_bytes());
    }

    fn integer(&mut self, value: i64) {
        resp::encode::integer(self.out, value);
    }

    fn length(&mut self, value: usize) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// A bulk, or the null of the connection's protocol.
    fn bulk_or_null(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => resp::encode::bulk(self.out, value),
            None => resp::encode::null(self.out, self.conn.protocol),
        }
    }

    /// The argument as a server finds a command by it: in lower case, and as a C string, which ends at a NUL. A real one looks in the bucket of the
    /// whole name, so that only some suffixes are found; here all are.
    fn name(&self, at: usize) -> String {
        self.args.get(at).map_or(String::new(), |arg| found_as(arg))
    }

    /// The argument in lower case, for words whose case does not matter; empty where there is none.
    fn word(&self, at: usize) -> String {
        self.args
            .get(at)
            .map_or(String::new(), |arg| String::from_utf8_lossy(arg).to_ascii_lowercase())
    }

    fn keyspace(&mut self) -> &mut BTreeMap<Vec<u8>, Value> {
        // `database` is checked by SELECT, the only place that sets it.
        &mut self.model.databases[self.conn.database as usize]
    }

    fn note(&mut self, key: &[u8], effect: Effect) {
        let place = (self.conn.database, key.to_vec());
        let Model { effects, doers, deployment, trackers, .. } = &mut *self.model;
        doers.entry(place.clone()).or_default().push(*deployment);
        effects.entry(place).or_default().push(effect);
        trackers.changed(key, Some(self.conn.id), self.place.shard.as_deref(), *deployment);
    }
}

#[cfg(test)]
mod tests;
