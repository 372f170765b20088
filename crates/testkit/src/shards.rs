//! Independent servers side by side, for pools that shard over them.
//!
//! The servers know nothing of each other; which key belongs to which is the business of whoever
//! asks. They are plain [`RedisServer`]s: what can be done to one is done through
//! [`Shards::server`] and [`Shards::server_mut`].
//!
//! Invariant: the number and the addresses of the shards stay as they were at the start, also while
//! some of them are dead.

use crate::admin::{self, Login};
use crate::conn::Conn;
use crate::endpoint::Endpoint;
use crate::redis::RedisServer;
use crate::relay::Relay;

/// Independent servers.
#[derive(Debug)]
pub struct Shards {
    // Relays go before the servers behind them.
    relays: Vec<Relay>,
    servers: Vec<RedisServer>,
    login: Login,
}

impl Shards {
    /// Starts so many servers.
    #[track_caller]
    pub fn start(count: usize) -> Self {
        Self::start_with(count, &Login::default(), &[])
    }

    /// Starts so many servers that ask for this login, with more arguments for each of them.
    #[track_caller]
    pub fn start_with(count: usize, login: &Login, args: &[&str]) -> Self {
        let own = login.server_args();
        let all: Vec<&str> = own.iter().map(String::as_str).chain(args.iter().copied()).collect();
        let servers = (0..count).map(|_| RedisServer::start_with(&all)).collect();
        Self { relays: Vec::new(), servers, login: login.clone() }
    }

    /// Puts a relay before each server; [`Shards::endpoints`] are then those of the relays.
    #[track_caller]
    pub fn behind_relays(mut self) -> Self {
        self.relays = self.servers.iter().map(|server| Relay::to(server.endpoint())).collect();
        self
    }

    /// Number of servers.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// Where clients connect, in the order of the shards.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        match self.relays.is_empty() {
            true => self.servers.iter().map(|server| server.endpoint().clone()).collect(),
            false => self.relays.iter().map(|relay| relay.endpoint().clone()).collect(),
        }
    }

    /// One server.
    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers[index]
    }

    /// One server, to kill or restart it.
    pub fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// The relay before a server.
    ///
    /// # Panics
    /// Without [`Shards::behind_relays`].
    pub fn relay(&self, index: usize) -> &Relay {
        self.relays.get(index).expect("these shards were started without relays")
    }

    /// A connection to one server, past its relay.
    #[track_caller]
    pub fn connect(&self, index: usize) -> Conn {
        let endpoint = self.servers[index].endpoint();
        self.login.open(endpoint).unwrap_or_else(|error| panic!("connect to shard: {error}"))
    }

    /// All keys of one server, in order.
    #[track_caller]
    pub fn keys_on(&self, index: usize) -> Vec<Vec<u8>> {
        let keys = admin::list(&mut self.connect(index), &["KEYS", "*"]);
        let mut keys = keys.unwrap_or_else(|error| panic!("{error}"));
        keys.sort();
        keys
    }

    /// How often one server has executed a command.
    #[track_caller]
    pub fn calls(&self, index: usize, command: &str) -> u64 {
        let info = admin::text(&mut self.connect(index), &["INFO", "commandstats"]);
        admin::calls_in(&info.unwrap_or_else(|error| panic!("{error}")), command)
    }

    /// [`Shards::calls`] of all servers together.
    #[track_caller]
    pub fn calls_total(&self, command: &str) -> u64 {
        (0..self.count()).map(|index| self.calls(index, command)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::End;

    #[test]
    fn servers_share_nothing() {
        let shards = Shards::start_with(3, &Login::with_password("pw"), &["--databases", "2"]);
        assert_eq!(shards.connect(0).ask("SET a 1"), "+OK\r\n");
        assert_eq!(shards.connect(2).ask("MSET c 1 b 1"), "+OK\r\n");
        assert_eq!(shards.keys_on(0), [b"a"]);
        assert!(shards.keys_on(1).is_empty());
        assert_eq!(shards.keys_on(2), [b"b", b"c"]);
        assert_eq!((shards.calls(0, "set"), shards.calls_total("SET")), (1, 1));
        assert!(shards.connect(0).ask("SELECT 5").starts_with("-ERR"), "arguments arrive");
    }

    #[test]
    fn relays_stand_before_them() {
        let mut shards = Shards::start(2).behind_relays();
        let endpoints = shards.endpoints();
        let mut conn = Conn::to(&endpoints[1]);
        assert_eq!(conn.ask("SET k v"), "+OK\r\n");
        assert_eq!(shards.keys_on(1), [b"k"]);
        shards.relay(1).end_all(End::Reset);
        assert!(conn.command(&["PING"]).is_err());
        shards.server_mut(1).restart();
        assert_eq!(Conn::to(&endpoints[1]).ask("DBSIZE"), ":0\r\n");
    }
}
