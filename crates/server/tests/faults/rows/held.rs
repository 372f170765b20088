//! Rows 20 and 27: clients of whom a node keeps something: those whose commands hold a connection of their own (MULTI, WATCH,
//! BLPOP), those that listen and those that cache. They leave in the middle, or the node in whose hands they are goes.
//!
//! Invariant: nothing is done by half, and nothing of them is left at any server; who listens goes on hearing.

use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::{Failover, RedisCluster};
use testkit::listen::{frame, until_heard};
use testkit::relay::End;
use testkit::{Cache, Conn, Endpoint, wait};

use crate::judge::Expect;
use crate::load::Load;
use crate::run::run;
use crate::stage::{
    IMPATIENT, REQUEST_TIMEOUT, SOON, Scale, clients, front, key_on, quick_six, served,
    three_behind_relays,
};

/// Each so many-th batch its client leaves.
const LEAVES_EVERY: u32 = 8;
/// How a transaction ends that cannot be done.
const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";
/// A slot of the first primary.
const SLOT: u16 = 4_300;
/// How long after its slot is served again a listener may miss what is published (I7).
const RECOVERY: Duration = Duration::from_secs(2);
/// Who waits is told that it was for nothing.
const RELEASED: [&str; 2] = ["-UNBLOCKED ", "-ERR respool: upstream "];

/// No server has a client that waits, or is in a transaction.
#[track_caller]
fn assert_nothing_held(cluster: &RedisCluster) {
    for node in cluster.running() {
        let mut server = cluster.node(node).connect();
        wait::until_true("nothing held at the servers", SOON, || {
            let clients = server.ask("CLIENT LIST");
            let mut clients = clients.lines().filter(|line| line.starts_with("id="));
            let info = server.ask("INFO clients");
            info.contains("blocked_clients:0\r\n")
                && clients.all(|line| line.contains(" multi=-1 "))
        });
    }
}

// Every eighth batch of every client ends in the middle: in a pipeline, between MULTI and EXEC, in a BLPOP. Meanwhile the
// connections to one node are reset again and again.
#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_20_clients_leave_with_requests_in_flight() {
    let scale = Scale::long();
    let cluster = three_behind_relays();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load =
        Load::usual(&proxy, &cluster, 0, scale).each(|checker| checker.leaves_every = LEAVES_EVERY);
    let relay = cluster.node(1).relay();
    let report = run(&mut proxy, load, scale, |_| {
        let end = Instant::now() + scale.phase;
        while Instant::now() < end {
            relay.end_all(End::Reset);
            thread::sleep(Duration::from_secs(2));
        }
    });
    let left: u64 = report.groups.iter().map(|(_, verdict)| verdict.left).sum();
    println!("{left} clients left in the middle");
    assert!(left > 100, "{left} clients left");
    Expect { texts: vec!["-ERR respool: upstream ", "-EXECABORT"], ..Expect::hits(&[1]) }
        .judge(&report);
    assert_nothing_held(&cluster);
}

// Transactions and waits are in the load as well; those of the primary that goes get errors and nothing by half.
#[test]
#[ignore = "a minute or two: make test-faults"]
fn row_27_held_connections_while_primaries_fail_over() {
    let scale = Scale::long();
    let mut cluster = quick_six();
    let mut proxy = front(&cluster, &IMPATIENT);
    let load = Load::usual(&proxy, &cluster, 1, scale);
    let mut conns = clients(&proxy);
    served(&mut conns, &[0, 1, 2]);
    let endpoint = proxy.endpoint().clone();
    let report = run(&mut proxy, load, scale, |_| {
        for round in 0..scale.of_thirty(6, 2) as usize {
            let (old, new) = if round % 2 == 0 { (0, 3) } else { (3, 0) };
            let held = Held::new(&endpoint, round);
            let attached = Attached::new(&endpoint, round);
            cluster.failover(new, Failover::Graceful);
            if round % 3 == 2 {
                cluster.kill(old);
            }
            held.assert_released(&mut conns);
            attached.assert_goes_on(&mut conns, false);
            if round % 3 == 2 {
                cluster.restart(old);
            }
            cluster.wait_ok();
            thread::sleep(Duration::from_secs(2));
        }
    });
    let mut texts = vec!["-ERR respool: ", "-EXECABORT", "-CLUSTERDOWN", "-UNBLOCKED"];
    texts.extend(super::MOVED_AWAY);
    Expect { texts, nodes_met: 3, ..Expect::hits(&[0]) }.judge(&report);
    assert_nothing_held(&cluster);
}

// Killed, so that connections break; and demoted, so that they stay.
#[test]
fn short_row_27_held_connections_while_a_primary_goes() {
    for kills in [true, false] {
        let mut cluster = quick_six();
        let proxy = front(&cluster, &IMPATIENT);
        let mut conns = clients(&proxy);
        served(&mut conns, &[0, 1, 2]);
        let held = Held::new(proxy.endpoint(), 0);
        if kills {
            cluster.kill(0);
        } else {
            cluster.failover(3, Failover::Graceful);
        }
        assert_eq!(held.assert_released(&mut conns), !kills, "killed: {kills}");
        assert_nothing_held(&cluster);
    }
}

#[test]
fn short_row_27_listeners_and_caches_while_a_primary_goes() {
    for kills in [true, false] {
        let mut cluster = quick_six();
        let proxy = front(&cluster, &IMPATIENT);
        let mut conns = clients(&proxy);
        served(&mut conns, &[0, 1, 2]);
        let attached = Attached::new(proxy.endpoint(), 0);
        if kills {
            cluster.kill(0);
        } else {
            cluster.failover(3, Failover::Graceful);
        }
        cluster.wait_new_owner(SLOT, 0);
        attached.assert_goes_on(&mut conns, kills);
    }
}

/// Clients that have a connection of their own to the primary of the first keys, in every state.
struct Held {
    key: String,
    list: String,
    queued: Conn,
    watching: Conn,
    waiting: Conn,
}

impl Held {
    #[track_caller]
    fn new(proxy: &Endpoint, round: usize) -> Self {
        let key = |kind: &str| format!("{{{}}}{kind}{round}", key_on(0, 4_200));
        let (mut queued, mut watching, mut waiting) =
            (Conn::to(proxy), Conn::to(proxy), Conn::to(proxy));
        for conn in [&mut queued, &mut watching, &mut waiting] {
            conn.set_timeout(SOON);
        }
        assert_eq!(queued.ask("MULTI"), "+OK\r\n");
        for _ in 0..2 {
            assert_eq!(queued.ask(&format!("INCR {}", key("n"))), "+QUEUED\r\n");
        }
        assert_eq!(watching.ask(&format!("WATCH {}", key("n"))), "+OK\r\n");
        assert_eq!(watching.ask(&format!("GET {}", key("n"))), "$-1\r\n");
        waiting.send(format!("BLPOP {} 0\r\n", key("l")).as_bytes()).expect("sent");
        assert!(waiting.is_silent_for(Duration::from_millis(100)));
        Self { key: key("n"), list: key("l"), queued, watching, waiting }
    }

    /// Those with a transaction are told that it was for nothing, nothing was done, and all go on as others do. Whether the one that waits went on waiting
    /// at the new primary; otherwise it was told in time.
    #[track_caller]
    fn assert_released(mut self, conns: &mut [Conn]) -> bool {
        let begun = Instant::now();
        served(conns, &[0]);
        if self.waiting.is_silent_for(Duration::from_millis(100)) {
            conns[0].ask(&format!("RPUSH {} v", self.list));
        }
        let told = String::from_utf8(self.waiting.reply().expect("a reply")).expect("text");
        let goes_on = told.starts_with("*2\r\n") && told.ends_with("\r\n$1\r\nv\r\n");
        let is_released = RELEASED.iter().any(|known| told.starts_with(known));
        assert!(goes_on || is_released, "{told}");
        assert!(begun.elapsed() < REQUEST_TIMEOUT + SOON, "{:?}", begun.elapsed());
        let incr = format!("INCR {}", self.key);
        let abort = |conn: &mut Conn| {
            let reply = conn.ask("EXEC");
            // Watched keys that went to another node count as changed.
            assert!(reply == ABORT || reply == "*-1\r\n", "{reply}");
        };
        abort(&mut self.queued);
        assert_eq!(self.watching.ask("MULTI"), "+OK\r\n");
        self.watching.ask(&incr);
        abort(&mut self.watching);
        assert_eq!(conns[0].ask(&format!("EXISTS {}", self.key)), ":0\r\n", "half a transaction");
        for conn in [&mut self.queued, &mut self.watching, &mut self.waiting] {
            assert_eq!(conn.ask("MULTI"), "+OK\r\n");
            assert_eq!(conn.ask(&incr), "+QUEUED\r\n");
            assert!(conn.ask("EXEC").starts_with("*1\r\n:"));
        }
        assert_eq!(conns[0].ask(&format!("DEL {}", self.key)), ":1\r\n");
        goes_on
    }
}

/// Clients that stay as they are while the primary of the first keys goes: two that listen, and one that caches.
struct Attached {
    channel: String,
    plain: Conn,
    shard: Conn,
    cache: Cache,
}

impl Attached {
    #[track_caller]
    fn new(proxy: &Endpoint, round: usize) -> Self {
        let channel = format!("{{{}}}attached{round}", key_on(0, SLOT));
        let (mut plain, mut shard) = (Conn::to(proxy), Conn::to(proxy));
        let listens = |conn: &mut Conn, verb: &str| {
            let confirmed = conn.ask(&format!("{verb} {channel}"));
            assert_eq!(confirmed, frame('*', &[&verb.to_lowercase(), &channel, ":1"]));
        };
        listens(&mut plain, "SUBSCRIBE");
        listens(&mut shard, "SSUBSCRIBE");
        let mut cache = Cache::new(Conn::to(proxy), "");
        // The key has the channel's name, and so its slot.
        assert_eq!(Conn::to(proxy).ask(&format!("SET {channel} old")), "+OK\r\n");
        assert_eq!(cache.get(&channel), "$3\r\nold\r\n");
        Self { channel, plain, shard, cache }
    }

    /// Who listens hears what is published from now on, and nothing of others; who caches drops what it has.
    #[track_caller]
    fn assert_goes_on(self, conns: &mut [Conn], flushed: bool) {
        served(conns, &[0]);
        let Self { channel, mut plain, mut shard, mut cache } = self;
        for (verb, kind, listener) in
            [("PUBLISH", "message", &mut plain), ("SPUBLISH", "smessage", &mut shard)]
        {
            let mut publish = |n: u32| {
                // Of a neighbour in the same slot, which nobody listens to.
                conns[1].ask(&format!("{verb} {channel}x {n}"));
                conns[0].ask(&format!("{verb} {channel} {n}"));
            };
            let heard = until_heard(&mut publish, listener, RECOVERY);
            let mut numbers = 0..;
            for message in heard {
                let known = numbers
                    .by_ref()
                    .take(1_000)
                    .any(|n: u32| message == frame('*', &[kind, &channel, &n.to_string()]));
                assert!(known, "foreign, twice or out of order: {message}");
            }
        }
        assert_eq!(conns[0].ask(&format!("SET {channel} new")), "+OK\r\n");
        wait::until_true("the stale value to be dropped", RECOVERY, || {
            cache.listen(Duration::from_millis(20));
            !cache.values.contains_key(&channel)
        });
        // A lost connection may have hidden any change; when a slot only moves, its keys are told of one by one.
        assert!(!flushed || cache.dropped > 0, "no flush, told of {} keys", cache.told);
        assert_eq!(cache.get(&channel), "$3\r\nnew\r\n");
        // And it is told of changes at the new primary.
        assert_eq!(conns[0].ask(&format!("SET {channel} newer")), "+OK\r\n");
        wait::until_true("the change to be told", RECOVERY, || {
            cache.listen(Duration::from_millis(20));
            !cache.values.contains_key(&channel)
        });
    }
}
