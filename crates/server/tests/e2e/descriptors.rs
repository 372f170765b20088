//! Few descriptors and many who want one: clients get their part and no more, so that servers, the admin listener and files always have theirs.

use std::time::Duration;

use serde_json::json;
use testkit::ports::Port;
use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct, info_field};

const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

/// A proxy with so many descriptors, one that is in, and what asks the admin listener.
struct Scarce {
    // The order matters: the proxy goes before its server.
    proxy: Respool,
    server: RedisServer,
    there: Conn,
    base: String,
    limit: u32,
}

impl Scarce {
    fn start(limit: u32, workers: u32, args: &[&str]) -> Self {
        let server = RedisServer::start();
        let admin = Port::v4().release().to_string();
        let all = [&["--admin-listen", &admin, "--admin-token", "t"], args].concat();
        let proxy = Respool::to(RESPOOL, server.endpoint()).fd_limit(limit).workers(workers);
        let proxy = proxy.args(&all).start();
        let mut there = proxy.connect();
        wait::until_true("the server", SOON, || there.ask("SET k v") == "+OK\r\n");
        Self { proxy, server, there, base: format!("http://{admin}"), limit }
    }

    fn clients_max(&mut self) -> usize {
        let max = info_field(&mut self.there, "clients", "maxclients").expect("the maximum");
        max.parse().expect("a number")
    }

    fn is_healthy(&self) -> bool {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5)));
        let agent: ureq::Agent = config.build().into();
        agent.get(format!("{}/healthz", self.base)).call().is_ok()
    }

    /// Connects as many as there may be and many more: those that are in, and how many are not.
    fn flood(&mut self) -> (Vec<Conn>, usize) {
        let mut turned_away = 0;
        let mut inside = Vec::new();
        for _ in 0..self.limit * 3 {
            let Ok(mut conn) = Conn::open(self.proxy.endpoint()) else { continue };
            conn.set_timeout(SOON);
            match conn.command(&["PING"]) {
                Ok(reply) if reply == b"+PONG\r\n" => inside.push(conn),
                // Its own words may have met a connection that was closed already.
                Ok(reply) => {
                    assert_eq!(reply, FULL);
                    turned_away += 1;
                }
                Err(_) => turned_away += 1,
            }
        }
        (inside, turned_away)
    }

    /// Each connection of the proxy to its server is lost, and each that is needed comes back, to all workers of these clients.
    fn lose_the_servers_connections(&mut self, others: &mut [Conn]) {
        let mut root = self.server.connect();
        assert!(root.ask("CLIENT KILL TYPE normal SKIPME yes").starts_with(':'));
        for conn in others.iter_mut().chain([&mut self.there]) {
            wait::until_true("the server again", SOON, || conn.ask("GET k") == "$1\r\nv\r\n");
        }
        let there = &mut self.there;
        assert_eq!(there.ask("MULTI"), "+OK\r\n");
        assert_eq!(there.ask("GET k"), "+QUEUED\r\n");
        assert_eq!(there.ask("EXEC"), "*1\r\n$1\r\nv\r\n");
    }
}

#[test]
fn clients_get_what_is_left_of_the_limit_and_a_lost_server_is_reached_again() {
    if direct() {
        return;
    }
    for (driver, limit, workers) in
        [("epoll", 64, 1), ("epoll", 120, 2), ("uring", 120, 1), ("epoll", 1_024, 2)]
    {
        let mut scarce = Scarce::start(limit, workers, &["--driver", driver]);
        let max = scarce.clients_max();
        assert!(max > 4 && max < limit as usize - 20, "{driver} {limit}: {max}");
        let log = scarce.proxy.process().log();
        let told = format!("max_clients is lowered from 10000 to {max}");
        assert!(log.contains(&told), "{driver} {limit}: {log}");
        let (mut inside, turned_away) = scarce.flood();
        assert_eq!(inside.len() + 1, max, "{driver} {limit}");
        assert_eq!(turned_away, limit as usize * 3 - inside.len(), "{driver} {limit}");
        assert!(scarce.proxy.process().fds() < limit as usize, "{driver} {limit}");
        assert!(scarce.is_healthy(), "{driver} {limit}");
        for _ in 0..3 {
            scarce.lose_the_servers_connections(&mut inside);
        }
        // All at once want a connection of their own: they take turns.
        for conn in &mut inside {
            conn.set_timeout(SOON);
            conn.send(b"*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nEXEC\r\n")
                .expect("sent");
        }
        for conn in &mut inside {
            let replies: Vec<Vec<u8>> = (0..3).map(|_| conn.reply().expect("a reply")).collect();
            assert_eq!(replies.concat(), b"+OK\r\n+QUEUED\r\n*1\r\n$1\r\nv\r\n");
        }
        assert!(scarce.is_healthy(), "{driver} {limit}");
        // Those who go make room.
        drop(inside);
        let there = &mut scarce.there;
        wait::until_true("the others to go", SOON, || {
            info_field(there, "clients", "connected_clients").as_deref() == Some("1")
        });
        assert_eq!(scarce.flood().0.len() + 1, max, "{driver} {limit}: again");
        let log = scarce.proxy.process().log();
        assert!(!log.contains("Too many open files"), "{driver} {limit}: {log}");
    }
}

#[test]
fn more_clients_than_there_is_room_for_are_refused_or_lowered() {
    if direct() {
        return;
    }
    let mut scarce = Scarce::start(120, 2, &["--acl-config-set", "all"]);
    let max = scarce.clients_max();
    let refused = scarce.there.ask(&format!("CONFIG SET respool.max_clients {}", max + 1));
    assert!(refused.starts_with("-ERR CONFIG SET failed"), "{refused}");
    assert!(refused.contains("(120)") && refused.contains(&format!("at most {max}")), "{refused}");
    let mut patched = ureq::patch(format!("{}/config", scarce.base))
        .config()
        .http_status_as_error(false)
        .build()
        .header("Authorization", "Bearer t")
        .send_json(json!({ "max_clients": 10_001 }))
        .expect("an answer");
    let text = patched.body_mut().read_to_string().expect("text");
    assert!(patched.status() == 422 && text.contains("(120)"), "{text}");
    // Another option may change all the same, and fewer clients are always possible.
    assert_eq!(scarce.there.ask("CONFIG SET respool.timeouts.ping_ms 4000"), "+OK\r\n");
    assert_eq!(scarce.clients_max(), max);
    assert_eq!(scarce.there.ask("CONFIG SET respool.max_clients 5"), "+OK\r\n");
    assert_eq!(scarce.clients_max(), 5);
    assert_eq!(scarce.flood().0.len(), 4);
}

#[test]
fn a_limit_that_is_too_low_is_refused_with_numbers() {
    if direct() {
        return;
    }
    for limit in [12, 24] {
        let server = RedisServer::start();
        let script = format!(
            "ulimit -n {limit} && exec {RESPOOL} --upstream {} --listen {} --workers 2",
            server.endpoint().url(),
            Port::v4().release()
        );
        let done = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh");
        let text = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{text}");
        assert!(text.contains(&limit.to_string()) && text.contains("ulimit -n"), "{text}");
    }
}
