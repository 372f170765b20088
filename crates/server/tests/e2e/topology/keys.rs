//! Requests for many keys, for all keys, or for none, before three primaries.
//!
//! Invariant: what a node did not do is told by an error. No reply counts too little, leaves a value
//! out or puts one in another's place.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use testkit::cluster::{RedisCluster, SLOTS};
use testkit::frames::request;
use testkit::process::find_on_path;
use testkit::{Conn, Respool, wait};

use super::{front, key_on};
use crate::setup::{SOON, long};

/// Keys of the iterations.
const KEYS: usize = 10_000;

fn three() -> (RedisCluster, Respool, Conn) {
    let cluster = RedisCluster::start(3, 0);
    let proxy = front(&cluster, &[]);
    let conn = proxy.connect();
    (cluster, proxy, conn)
}

/// The strings of a reply of strings.
#[track_caller]
fn strings(reply: &[u8]) -> Vec<String> {
    let value = resp::value::parse(reply).expect("RESP").expect("whole").0;
    let list = value.as_list().unwrap_or_else(|| panic!("{value:?}"));
    let texts = list.iter().map(|item| item.as_text().map(String::from_utf8_lossy));
    texts.map(|text| text.expect("a string").into_owned()).collect()
}

/// A whole iteration: all keys, as often as they came, and the number of pages.
#[track_caller]
fn scan(conn: &mut Conn, options: &[&str], mut each_page: impl FnMut()) -> (Vec<String>, usize) {
    let (mut cursor, mut all, mut pages) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let args = [&["SCAN", &cursor], options].concat();
        let reply = conn.command(&args).expect("a page");
        let value = resp::value::parse(&reply).expect("RESP").expect("whole").0;
        let page = value.as_list().unwrap_or_else(|| panic!("{value:?}"));
        let next = page[0].as_text().expect("a cursor");
        let keys = page[1].as_list().expect("keys").iter().filter_map(|key| key.as_text());
        all.extend(keys.map(|key| String::from_utf8_lossy(key).into_owned()));
        cursor = String::from_utf8_lossy(next).into_owned();
        pages += 1;
        each_page();
        assert!(pages < 100_000, "an iteration that does not end");
        if cursor == "0" {
            return (all, pages);
        }
    }
}

/// Sets so many keys, `name:0` on, a thousand in a request.
#[track_caller]
fn fill(conn: &mut Conn, name: &str, count: usize) {
    let numbers: Vec<usize> = (0..count).collect();
    for chunk in numbers.chunks(1_000) {
        let words: Vec<String> = chunk.iter().map(|n| format!("{name}:{n} v{n}")).collect();
        assert_eq!(conn.ask(&format!("MSET {}", words.join(" "))), "+OK\r\n");
    }
}

#[test]
fn an_iteration_finds_every_key_once_while_nothing_changes() {
    let (cluster, proxy, mut conn) = three();
    fill(&mut conn, "key", KEYS);
    assert_eq!(conn.ask("RPUSH list a"), ":1\r\n");
    assert_eq!(conn.ask("DBSIZE"), format!(":{}\r\n", KEYS + 1));
    let expected: BTreeSet<String> = (0..KEYS).map(|n| format!("key:{n}")).collect();

    for hello in ["HELLO 2", "HELLO 3"] {
        conn.ask(hello);
        let (keys, pages) = scan(&mut conn, &["COUNT", "500", "TYPE", "string"], || {});
        println!("{} keys in {pages} pages", keys.len());
        let found: BTreeSet<String> = keys.iter().cloned().collect();
        assert_eq!(found, expected);
        assert_eq!(keys.len(), KEYS, "no key twice on servers that do not grow");
        assert!(pages >= KEYS / 500, "{pages} pages");
    }
    let (keys, _) = scan(&mut conn, &["MATCH", "key:*7", "COUNT", "1000"], || {});
    assert_eq!(keys.len(), KEYS / 10);
    let (keys, _) = scan(&mut conn, &["TYPE", "list"], || {});
    assert_eq!(keys, ["list"]);
    // Each page may come over another connection, and so from another worker.
    let mut next = 0;
    let mut conns: Vec<Conn> = (0..5).map(|_| proxy.connect()).collect();
    let mut cursor = "0".to_owned();
    let mut found = BTreeSet::new();
    loop {
        let reply = conns[next % 5].command(&["SCAN", &cursor, "COUNT", "700"]).expect("a page");
        let value = resp::value::parse(&reply).expect("RESP").expect("whole").0;
        let page = value.as_list().expect("a page");
        cursor = String::from_utf8_lossy(page[0].as_text().expect("cursor")).into_owned();
        let keys = page[1].as_list().expect("keys").iter().filter_map(|key| key.as_text());
        found.extend(keys.map(|key| String::from_utf8_lossy(key).into_owned()));
        next += 1;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), KEYS + 1);

    assert_eq!(strings(&conn.command(&["KEYS", "*"]).expect("keys")).len(), KEYS + 1);
    assert!(conn.ask("RANDOMKEY").starts_with('$'));
    assert_eq!(conn.ask("FLUSHALL"), "+OK\r\n");
    assert_eq!(conn.ask("DBSIZE"), ":0\r\n");
    for node in 0..3 {
        assert!(cluster.node(node).keys().is_empty());
    }
    assert!(["$-1\r\n", "_\r\n"].contains(&conn.ask("RANDOMKEY").as_str()));
    for wrong in ["SCAN", "SCAN x", "SCAN 0 COUNT 0", "SCAN 0 COUNT x", "SCAN 0 NOPE"] {
        let direct = cluster.node(0).connect().ask(wrong);
        assert_eq!(conn.ask(wrong), direct, "{wrong}");
    }
}

// Slots go from node to node between the pages. What was there all the time must be found; keys may
// come twice.
#[test]
fn an_iteration_finds_every_key_while_slots_move() {
    let (cluster, proxy, mut conn) = three();
    fill(&mut conn, "key", KEYS);
    for round in 0_u16..if long() { 20 } else { 4 } {
        // Away from the last node, which is scanned last, to the first one, which is done by then:
        // and the other way round.
        let (slots, to) = match round % 2 {
            0 => (SLOTS - 300..SLOTS, 0),
            _ => (SLOTS - 300..SLOTS, 2),
        };
        let mut slots = slots.step_by(20);
        let mut pages = 0;
        let (keys, count) = scan(&mut conn, &["COUNT", "400"], || {
            pages += 1;
            if pages % 4 == 0
                && let Some(slot) = slots.next()
            {
                let moved = cluster.begin_move(slot, to);
                moved.and_then(testkit::cluster::SlotMove::finish).expect("the move");
                // Somebody asks for one of its keys, so that the proxy knows.
                let mut other = proxy.connect();
                other.ask(&format!("GET {}", testkit::cluster::key_in_slot(slot, 0)));
            }
        });
        let found: BTreeSet<String> = keys.into_iter().collect();
        let missing = (0..KEYS).filter(|n| !found.contains(&format!("key:{n}"))).count();
        println!("round {round}: {count} pages, {missing} missing");
        assert_eq!(missing, 0, "round {round}");
    }
}

// Nobody tells the proxy of the move before the iteration is over.
#[test]
fn an_iteration_finds_the_keys_of_a_slot_that_moves_behind_its_back() {
    let (cluster, _proxy, mut conn) = three();
    fill(&mut conn, "key", KEYS);
    let moving: Vec<u16> = (SLOTS - 40..SLOTS).collect();
    let mut pages = 0;
    let (keys, _) = scan(&mut conn, &["COUNT", "400"], || {
        pages += 1;
        // By then the first node is done.
        if pages == 15 {
            for slot in &moving {
                let moved = cluster.begin_move(*slot, 0);
                moved.and_then(testkit::cluster::SlotMove::finish).expect("the move");
            }
        }
    });
    let found: BTreeSet<String> = keys.into_iter().collect();
    let missing = (0..KEYS).filter(|n| !found.contains(&format!("key:{n}"))).count();
    assert_eq!(missing, 0, "keys that were there from begin to end");
}

// Its keys are elsewhere already and it still has its old owner, so no table ever changes.
#[test]
fn an_iteration_finds_the_keys_of_a_slot_that_is_on_its_way() {
    let (cluster, _proxy, mut conn) = three();
    fill(&mut conn, "key", KEYS);
    let mut moves = Vec::new();
    let mut pages = 0;
    let (keys, _) = scan(&mut conn, &["COUNT", "400"], || {
        pages += 1;
        // By then the first node is done, and the last one is not.
        if pages == 15 {
            for slot in SLOTS - 40..SLOTS {
                let mut moving = cluster.begin_move(slot, 0).expect("the move");
                while moving.move_keys(100).expect("the move") > 0 {}
                moves.push(moving);
            }
        }
    });
    let found: BTreeSet<String> = keys.into_iter().collect();
    let missing = (0..KEYS).filter(|n| !found.contains(&format!("key:{n}"))).count();
    assert_eq!(missing, 0, "keys that were there from begin to end");
    assert_eq!(moves.len(), 40);
}

#[test]
fn large_fan_outs_are_exact() {
    let count = if long() { 100_000 } else { 20_000 };
    let (_cluster, _proxy, mut conn) = three();
    let keys: Vec<String> = (0..count).map(|n| format!("many:{n}")).collect();
    let values: Vec<String> = (0..count).map(|n| format!("value {n}")).collect();
    let mut mset = vec!["MSET"];
    for (key, value) in keys.iter().zip(&values) {
        mset.extend([key.as_str(), value]);
    }
    let of = |name: &'static str| {
        let mut args = vec![name];
        args.extend(keys.iter().map(String::as_str));
        args
    };
    assert_eq!(conn.command(&mset).expect("MSET"), b"+OK\r\n");
    assert_eq!(strings(&conn.command(&of("MGET")).expect("MGET")), values);
    let number = format!(":{count}\r\n").into_bytes();
    for name in ["EXISTS", "TOUCH", "UNLINK"] {
        assert_eq!(conn.command(&of(name)).expect(name), number, "{name}");
    }
    assert_eq!(conn.command(&of("DEL")).expect("DEL"), b":0\r\n");
}

// Row 26: one reply or one error for each request, however many parts it had, and after it the
// connection goes on as before.
#[test]
fn row_26_a_shard_dies_in_the_middle_of_a_fan_out() {
    const COUNT: usize = 5_000;
    let mut cluster = RedisCluster::with(3, 0).partial_coverage().start();
    let proxy = front(&cluster, &["--timeouts-topology-wait-ms", "200"]);
    let keys: Vec<String> = (0..COUNT).map(|n| format!("many:{n}")).collect();
    let mut mset = vec!["MSET"];
    keys.iter().for_each(|key| mset.extend([key.as_str(), "v"]));
    let mut mget = vec!["MGET"];
    mget.extend(keys.iter().map(String::as_str));
    let mut del = mget.clone();
    del[0] = "DEL";
    assert_eq!(proxy.connect().command(&mset).expect("MSET"), b"+OK\r\n");
    let bytes = [request(&mset), request(&mget), request(&["PING", "after"])].concat();
    let whole = format!("*{COUNT}\r\n{}", "$1\r\nv\r\n".repeat(COUNT)).into_bytes();
    let port = cluster.node(1).endpoint().tcp().port().to_string();
    let rss = proxy.process().rss_bytes();

    let errors: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|_| {
                let (proxy, bytes, whole, port) = (&proxy, &bytes, &whole, &port);
                scope.spawn(move || {
                    let mut conn = proxy.connect();
                    conn.set_timeout(Duration::from_secs(15));
                    let (mut errors, begun) = (0, Instant::now());
                    while begun.elapsed() < Duration::from_secs(3) {
                        conn.send(bytes).expect("a batch");
                        for good in [&b"+OK\r\n"[..], whole] {
                            let reply = conn.reply().expect("one reply");
                            if reply.starts_with(b"-") {
                                let text = String::from_utf8_lossy(&reply).into_owned();
                                let told = text.contains(port) || text.starts_with("-CLUSTERDOWN");
                                assert!(told, "which node: {text}");
                                errors += 1;
                            } else {
                                assert!(reply == good, "neither whole nor an error");
                            }
                        }
                        assert_eq!(conn.reply().expect("in order"), b"$5\r\nafter\r\n");
                    }
                    errors
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(700));
        cluster.kill(1);
        clients.into_iter().map(|client| client.join().expect("a client")).sum()
    });
    println!("{errors} errors");
    assert!(errors > 0, "the death was not seen");
    let growth = proxy.process().rss_bytes().saturating_sub(rss);
    assert!(growth < 64 << 20, "grew by {growth} bytes");
    let mut conn = proxy.connect();
    assert!(conn.command(&del).expect("one reply").starts_with(b"-"), "no sum that is too small");

    cluster.restart(1);
    cluster.wait_ok();
    wait::until_true("all to be served", SOON, || conn.command(&mset).expect("MSET") == b"+OK\r\n");
    let number = format!(":{COUNT}\r\n").into_bytes();
    assert_eq!(conn.command(&del).expect("DEL"), number);
}

#[test]
fn scripts_run_where_their_keys_are() {
    let (cluster, proxy, mut conn) = three();
    let script = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])";
    let loaded = conn.command(&["SCRIPT", "LOAD", script]).expect("SCRIPT LOAD");
    let sha = String::from_utf8_lossy(&loaded[5..45]).into_owned();
    for nth in 0..3 {
        let key = key_on(nth, 400);
        let value = format!("v{nth}");
        let expected = format!("$2\r\n{value}\r\n").into_bytes();
        let args = ["EVAL", script, "1", &key, &value];
        assert_eq!(conn.command(&args).expect("EVAL"), expected);
        // It was loaded on every node.
        let args = ["EVALSHA", &sha, "1", &key, &value];
        assert_eq!(proxy.connect().command(&args).expect("EVALSHA"), expected);
        assert_eq!(cluster.node(usize::from(nth)).keys(), [key.as_bytes()]);
    }
    assert_eq!(conn.ask(&format!("SCRIPT EXISTS {sha} {}", "0".repeat(40))), "*2\r\n:1\r\n:0\r\n");
    // One node has forgotten it: then it is not there.
    cluster.node(2).connect().ask("SCRIPT FLUSH");
    assert_eq!(conn.ask(&format!("SCRIPT EXISTS {sha}")), "*1\r\n:0\r\n");
    let (one, other) = (key_on(0, 400), key_on(1, 400));
    assert!(
        conn.command(&["EVAL", script, "2", &one, &other, "x"])
            .expect("EVAL")
            .starts_with(b"-CROSSSLOT")
    );
    assert_eq!(conn.command(&["EVAL", "return 7", "0"]).expect("EVAL"), b":7\r\n");

    let code = "#!lua name=lib\nredis.register_function('put', function(keys, args) \
                return redis.call('SET', keys[1], args[1]) end)";
    assert_eq!(conn.command(&["FUNCTION", "LOAD", code]).expect("load"), b"$3\r\nlib\r\n");
    for nth in 0..3 {
        let key = key_on(nth, 401);
        assert_eq!(conn.command(&["FCALL", "put", "1", &key, "f"]).expect("FCALL"), b"+OK\r\n");
        assert_eq!(conn.ask(&format!("GET {key}")), "$1\r\nf\r\n");
    }
    assert_eq!(conn.ask("FUNCTION DELETE lib"), "+OK\r\n");
    assert_eq!(conn.ask("FUNCTION FLUSH"), "+OK\r\n");
    assert_eq!(conn.ask("SCRIPT FLUSH"), "+OK\r\n");
}

// The tool knows nothing of clusters. It fails on the first error reply.
#[test]
fn redis_benchmark_runs() {
    let tool = ["redis-benchmark", "valkey-benchmark"].into_iter().find_map(find_on_path);
    let Some(tool) = tool else {
        println!("no redis-benchmark on PATH: nothing was tested");
        return;
    };
    let (_cluster, proxy, _) = three();
    let port = proxy.endpoint().tcp().port().to_string();
    for extra in [&["-P", "1"][..], &["-P", "32"], &["-P", "8", "-3"]] {
        let output = Command::new(&tool)
            .args(["-h", "127.0.0.1", "-p", &port, "-n", "20000", "-c", "20", "-r", "1000", "-q"])
            .args(["-t", "ping,set,get,incr,lpush,rpop,sadd,hset,spop,zadd,zpopmin,mset"])
            .args(extra)
            .output()
            .expect("the tool runs");
        let text = String::from_utf8_lossy(&output.stdout).replace('\r', "\n");
        let done = text.lines().filter(|line| line.contains("requests per second")).count();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}\n{errors}");
        assert!(!text.contains("Error") && !errors.contains("Error"), "{text}\n{errors}");
        assert!(done >= 13, "{extra:?}: {done} lines\n{text}\n{errors}");
    }
}
