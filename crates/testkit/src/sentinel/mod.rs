//! A primary, its replicas, and the sentinels that watch them: real processes.
//!
//! The sentinels are told of each other in their configuration, as after a restart, because finding
//! each other takes them seconds of gossip. Everything after that is their own work: noticing that
//! the primary is down, voting, promoting, telling `+switch-master`.
//!
//! ```text
//!   SentinelGroup ─┬─ server 0        primary at the start      (relay)
//!                  ├─ server 1 …      replicas at the start     (relay)
//!                  └─ sentinel 0 …    each with a folder of its own, where it rewrites its file
//! ```
//!
//! With relays, every server has one before it and announces it, and both clients and sentinels go
//! through it: a frozen relay is a partition that makes the sentinels promote another server while
//! the old primary is alive behind it.
//!
//! Invariant: a server keeps its number for the life of the group; only its role changes.

mod process;

use std::time::Duration;

use crate::admin::{self, Login, field};
use crate::conn::Conn;
use crate::endpoint::Endpoint;
use crate::ports::Port;
use crate::redis::RedisServer;
use crate::relay::Relay;
use crate::wait;

use process::{Identity, Sentinel, Server, Watch};

/// How long the group may take for anything: to come up, to notice, to promote.
const LIMIT: Duration = Duration::from_secs(60);
/// Default of [`Builder::down_after_ms`].
const DOWN_AFTER_MS: u64 = 1_000;
/// Default of [`Builder::failover_timeout_ms`].
const FAILOVER_TIMEOUT_MS: u64 = 2_000;

/// How to start a group.
#[derive(Debug)]
pub struct Builder {
    replicas: usize,
    sentinels: usize,
    relays: bool,
    args: Vec<String>,
    watch: Watch,
}

impl Builder {
    /// The name under which the primary is watched; `mymaster` if not told.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.watch.name);
        self
    }

    /// How many sentinels must agree that the primary is down; more than half if not told.
    pub fn quorum(mut self, quorum: usize) -> Self {
        self.watch.quorum = quorum;
        self
    }

    /// After how many milliseconds without an answer a server counts as down; 1000 if not told. A
    /// new primary is there some 1 to 4 s later.
    pub fn down_after_ms(mut self, down_after_ms: u64) -> Self {
        self.watch.down_after_ms = down_after_ms;
        self
    }

    /// How many milliseconds each step of a promotion may take; 2000 if not told. Sentinels begin
    /// none for twice this time after another one, so that a second death costs that much more.
    pub fn failover_timeout_ms(mut self, failover_timeout_ms: u64) -> Self {
        self.watch.failover_timeout_ms = failover_timeout_ms;
        self
    }

    /// Who the servers let in.
    pub fn login(mut self, login: Login) -> Self {
        self.watch.login = login;
        self
    }

    /// The password that the sentinels themselves ask for.
    pub fn sentinel_password(mut self, password: &str) -> Self {
        self.watch.sentinel_password = Some(password.to_owned());
        self
    }

    /// Puts a relay before each server, which the server announces as its own address.
    pub fn relays(mut self) -> Self {
        self.relays = true;
        self
    }

    /// Adds arguments of the servers.
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Starts all processes and waits until replicas are in sync and every sentinel knows all.
    #[track_caller]
    pub fn start(self) -> SentinelGroup {
        let mut servers: Vec<Server> = Vec::new();
        for _ in 0..=self.replicas {
            let primary = servers.first().map(|server| server.endpoint().clone());
            let server =
                Server::start(&self.watch.login, self.relays, &self.args, primary.as_ref());
            servers.push(server.unwrap_or_else(|error| panic!("{error}")));
        }
        let mut group = SentinelGroup { servers, sentinels: Vec::new(), watch: self.watch };
        for replica in 1..group.servers.len() {
            group.wait_in_sync(replica);
        }
        group.start_sentinels(self.sentinels);
        group
    }
}

/// A running group.
#[derive(Debug)]
pub struct SentinelGroup {
    servers: Vec<Server>,
    sentinels: Vec<Sentinel>,
    watch: Watch,
}

impl SentinelGroup {
    /// Starts a primary with so many replicas and so many sentinels, with the default options.
    #[track_caller]
    pub fn start(replicas: usize, sentinels: usize) -> Self {
        Self::with(replicas, sentinels).start()
    }

    /// Begins a group with options.
    pub fn with(replicas: usize, sentinels: usize) -> Builder {
        let watch = Watch {
            name: "mymaster".to_owned(),
            quorum: sentinels / 2 + 1,
            down_after_ms: DOWN_AFTER_MS,
            failover_timeout_ms: FAILOVER_TIMEOUT_MS,
            login: Login::default(),
            sentinel_password: None,
        };
        Builder { replicas, sentinels, relays: false, args: Vec::new(), watch }
    }

    /// Where clients connect, in the order of the servers: the relays if there are any.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.servers.iter().map(|server| server.endpoint().clone()).collect()
    }

    /// Where the sentinels listen, dead ones included.
    pub fn sentinel_endpoints(&self) -> Vec<Endpoint> {
        self.sentinels.iter().map(|sentinel| sentinel.identity.endpoint.clone()).collect()
    }

    /// The group as a URL: `redis-sentinel://user:password@s1,s2,s3/name`, with
    /// `?sentinel_password=` where the sentinels ask for one.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|s| s.identity.endpoint.tcp().to_string()).collect();
        let Watch { name, login, sentinel_password, .. } = &self.watch;
        let own = sentinel_password.as_ref().map(|p| format!("?sentinel_password={p}"));
        let own = own.unwrap_or_default();
        format!("redis-sentinel://{}{}/{name}{own}", login.url_part(), hosts.join(","))
    }

    /// The name under which the primary is watched.
    pub fn name(&self) -> &str {
        &self.watch.name
    }

    /// A server, to look at or to pause.
    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers[index].server
    }

    /// A server, to kill or to restart. One that was the primary at the start comes back as a
    /// primary until the sentinels have seen it, some 10 s.
    pub fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index].server
    }

    /// The relay before a server.
    ///
    /// # Panics
    /// When the group was started without relays.
    pub fn relay(&self, index: usize) -> &Relay {
        self.servers[index].relay.as_ref().expect("this group was started without relays")
    }

    /// A connection to a server, past its relay, authenticated.
    #[track_caller]
    pub fn connect(&self, index: usize) -> Conn {
        let endpoint = self.server(index).endpoint();
        self.watch.login.open(endpoint).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A connection to a sentinel, authenticated.
    #[track_caller]
    pub fn connect_sentinel(&self, index: usize) -> Conn {
        let conn = self.watch.sentinel_login().open(&self.sentinels[index].identity.endpoint);
        conn.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The number of the server that one sentinel takes for the primary. `None` when the sentinel
    /// does not answer.
    pub fn primary_by(&self, sentinel: usize) -> Option<usize> {
        let mut conn =
            self.watch.sentinel_login().open(&self.sentinels[sentinel].identity.endpoint).ok()?;
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.watch.name];
        let reply = admin::list(&mut conn, &ask).ok()?;
        let port = reply.get(1)?;
        self.servers.iter().position(|server| {
            server.endpoint().tcp().port().to_string().as_bytes() == port.as_slice()
        })
    }

    /// The number of the primary: the server that all running sentinels name and that takes itself
    /// for one. `None` while they do not agree.
    pub fn find_primary(&self) -> Option<usize> {
        let mut named: Vec<Option<usize>> =
            self.running().into_iter().map(|sentinel| self.primary_by(sentinel)).collect();
        named.dedup();
        match named[..] {
            [Some(primary)] => self.is_primary(primary).then_some(primary),
            _ => None,
        }
    }

    /// As [`SentinelGroup::find_primary`], waiting for agreement.
    #[track_caller]
    pub fn primary(&self) -> usize {
        wait::until("the sentinels to agree", LIMIT, || self.find_primary())
    }

    /// Waits until all running sentinels agree on another primary than `former`, and gives its
    /// number.
    #[track_caller]
    pub fn wait_new_primary(&self, former: usize) -> usize {
        wait::until("a new primary", LIMIT, || {
            self.find_primary().filter(|primary| *primary != former)
        })
    }

    /// Tells the first running sentinel to promote a replica, waits until all agree on it, and gives
    /// its number. The former primary goes on as one until the sentinels make it a replica, some
    /// 8 s later (four times `SENTINEL_PUBLISH_PERIOD` in the server).
    #[track_caller]
    pub fn failover(&self) -> usize {
        let former = self.primary();
        let sentinel = *self.running().first().expect("a running sentinel");
        let tell = ["SENTINEL", "FAILOVER", &self.watch.name];
        // Right after another failover it is refused (`-INPROG`, `-NOGOODSLAVE`) for a while.
        wait::until("the order to be taken", LIMIT, || {
            admin::text(&mut self.connect_sentinel(sentinel), &tell).ok()
        });
        self.wait_new_primary(former)
    }

    /// Waits until a server is a replica and in sync with its primary.
    #[track_caller]
    pub fn wait_in_sync(&self, replica: usize) {
        wait::until_true("a replica in sync", LIMIT, || {
            self.replication(replica).is_some_and(|info| {
                field(&info, "role") == Some("slave")
                    && field(&info, "master_link_status") == Some("up")
            })
        });
    }

    /// Starts one more sentinel and waits until it and the running others know each other. Gives its
    /// number.
    #[track_caller]
    pub fn add_sentinel(&mut self) -> usize {
        self.start_sentinels(1);
        self.sentinels.len() - 1
    }

    /// Kills a sentinel (SIGKILL). The others do not forget it: that is the operator's part
    /// (`SENTINEL RESET`).
    pub fn kill_sentinel(&mut self, index: usize) {
        self.sentinels[index].kill();
    }

    /// Starts a killed sentinel again, with what it knew.
    #[track_caller]
    pub fn restart_sentinel(&mut self, index: usize) {
        let login = self.watch.sentinel_login();
        let back = self.sentinels[index].restart(&login);
        back.unwrap_or_else(|log| panic!("sentinel {index} does not come back: {log}"));
    }

    /// Numbers of the sentinels that run.
    pub fn running(&self) -> Vec<usize> {
        (0..self.sentinels.len()).filter(|index| self.sentinels[*index].is_running).collect()
    }

    /// Starts sentinels that know of each other and of those that run, and waits until all have met.
    #[track_caller]
    fn start_sentinels(&mut self, count: usize) {
        let primary = if self.running().is_empty() { 0 } else { self.primary() };
        let primary = self.servers[primary].endpoint().clone();
        let running = self.sentinels.iter().filter(|other| other.is_running);
        let mut known: Vec<Identity> = running.map(|other| other.identity.clone()).collect();
        // The ports stay reserved until all are chosen, so that they differ.
        let ports: Vec<Port> = (0..count).map(|_| Port::v4()).collect();
        let new = ports.into_iter().map(Identity::at).collect::<Vec<_>>();
        known.extend(new.iter().cloned());
        for identity in new {
            let started = Sentinel::start(&self.watch, identity, &primary, &known);
            self.sentinels.push(started.unwrap_or_else(|error| panic!("{error}")));
        }
        self.wait_sentinels_meet();
    }

    /// Every running sentinel has a connection to every other one and to the primary
    /// (`SENTINEL CKQUORUM` counts those), and has heard of all replicas.
    fn wait_sentinels_meet(&self) {
        let running = self.running();
        let usable = format!("{} usable Sentinels", running.len());
        let replicas = format!("slaves={}", self.servers.len() - 1);
        wait::until_true("the sentinels to meet", LIMIT, || {
            running.iter().all(|index| {
                let mut conn = self.connect_sentinel(*index);
                let quorum = admin::text(&mut conn, &["SENTINEL", "CKQUORUM", &self.watch.name]);
                let info = admin::text(&mut conn, &["INFO", "sentinel"]).unwrap_or_default();
                // `master0:name=mymaster,status=ok,address=…,slaves=2,sentinels=3`
                let knows = field(&info, "master0").is_some_and(|line| line.contains(&replicas));
                // Fewer sentinels than the quorum are an error, which tells their number too.
                quorum.unwrap_or_else(|error| error).contains(&usable) && knows
            })
        });
    }

    fn is_primary(&self, index: usize) -> bool {
        self.replication(index).is_some_and(|info| field(&info, "role") == Some("master"))
    }

    fn replication(&self, index: usize) -> Option<String> {
        let mut conn = self.watch.login.open(self.server(index).endpoint()).ok()?;
        admin::text(&mut conn, &["INFO", "replication"]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_promote_when_told() {
        let group = SentinelGroup::start(2, 3);
        assert_eq!(group.primary(), 0);
        // WAIT speaks of the writes of its own connection.
        let mut conn = group.connect(0);
        assert_eq!(conn.ask("SET k v"), "+OK\r\n");
        assert!(conn.ask("WAIT 2 10000").starts_with(":2"));
        let promoted = group.failover();
        assert_ne!(promoted, 0);
        assert_eq!(group.connect(promoted).ask("GET k"), "$1\r\nv\r\n");
    }

    #[test]
    fn sentinels_promote_when_the_primary_dies() {
        let mut group = SentinelGroup::start(2, 3);
        let mut conn = group.connect(0);
        assert_eq!(conn.ask("SET k v"), "+OK\r\n");
        assert!(conn.ask("WAIT 2 10000").starts_with(":2"));
        group.kill_sentinel(0);
        group.server_mut(0).kill();
        let promoted = group.wait_new_primary(0);
        assert_eq!(group.connect(promoted).ask("GET k"), "$1\r\nv\r\n");
        assert_eq!((group.running(), group.primary_by(0)), (vec![1, 2], None));
    }

    #[test]
    fn sentinels_come_back_and_are_added() {
        let mut group = SentinelGroup::with(1, 2).name("cache").quorum(1).start();
        assert_eq!(group.name(), "cache");
        group.kill_sentinel(1);
        group.restart_sentinel(1);
        assert_eq!(group.primary_by(1), Some(0), "it remembers");
        assert_eq!(group.add_sentinel(), 2);
        assert_eq!((group.running(), group.sentinel_endpoints().len()), (vec![0, 1, 2], 3));
        assert!(group.url().ends_with("/cache"));
    }

    #[test]
    fn logins_of_servers_and_of_sentinels() {
        let group = SentinelGroup::with(1, 2)
            .login(Login::with_user("app", "secret"))
            .sentinel_password("guard")
            .start();
        assert!(Conn::to(&group.endpoints()[0]).ask("GET k").starts_with("-NOAUTH"));
        assert!(Conn::to(&group.sentinel_endpoints()[0]).ask("PING").starts_with("-NOAUTH"));
        assert_eq!(group.failover(), 1);
        let url = group.url();
        assert!(url.starts_with("redis-sentinel://app:secret@127.0.0.1:"), "{url}");
        assert!(url.ends_with("/mymaster?sentinel_password=guard"), "{url}");
    }

    #[test]
    fn a_frozen_relay_is_a_partition() {
        let group = SentinelGroup::with(1, 3).relays().down_after_ms(500).start();
        group.connect(0).ask("SET k old");
        group.relay(0).set(|faults| faults.blackhole = true);
        assert_eq!(group.wait_new_primary(0), 1);
        assert!(group.is_primary(0), "it does not know");
        group.connect(1).ask("SET k new");
        assert_eq!(group.connect(0).ask("GET k"), "$3\r\nold\r\n");
        assert_eq!(Conn::to(&group.endpoints()[1]).ask("GET k"), "$3\r\nnew\r\n");
    }
}
