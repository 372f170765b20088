//! Bugs of other proxies that need a scripted server to show, one story each.
//!
//! The stories are named for the table `docs/internals/peer-bugs.md`, which says whose bug it was and what guards us. Where a rule of
//! the engine has its own story elsewhere, the table names that one and there is none here.
//!
//! Not here: bugs that real servers show (`server/tests/e2e/peer_bugs`).
//!
//! Invariant: each story replays the trigger that the report names, not only the rule behind it.

use crate::waits::MOVES_OFFSET;
use crate::words::cluster::{list, moved, seeds, table};
use crate::words::{HELLO_2, Story, request, wire};
use engine::command::{COUNT, CommandId};
use engine::node::Address;
use engine::{Action, ClientId, Engine, Settings, Time, UpstreamId};
use std::collections::BTreeSet;

// A1, twemproxy #404: a script ran longer than the timeout, and what the server said later went to other clients in pieces. Here
// the server stops after each byte of its reply in turn.
#[test]
fn a1_a_reply_that_stops_at_any_byte_until_the_timeout_reaches_nobody_else() {
    let reply = list(["\"of-a\"", "nil", ":7"]);
    for cut in 0..reply.len() {
        let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 100);
        story.client("a").says("EVAL script 0");
        story.client("b").says("GET b");
        story.server().gets(["EVAL script 0", "GET b"]).sends(&reply.as_bytes()[..cut]);
        story.after_ms(150);
        let late = "-ERR respool: upstream 127.0.0.1:6379: ";
        for name in ["a", "b"] {
            let got = story.client(name).takes_text();
            assert!(got.starts_with(late) && got.ends_with("\r\n"), "cut at {cut}: {got:?}");
            assert_eq!(got.matches("-ERR").count(), 1, "cut at {cut}: {got:?}");
        }
        // The rest would come on a connection that is closed: there is nobody to read it.
        story.conn(1).is_closed();
        story.client("b").says("GET c");
        story.conn(2).gets("GET c").answers("\"of-b\"");
        story.client("b").gets("\"of-b\"");
        story.client("a").gets_nothing();
    }
}

// A2, codis #1717: GET got PONG. Whatever the proxy asks for itself, in the middle of a pipeline, is answered in its own place.
#[test]
fn a2_what_the_proxy_asks_itself_is_answered_to_the_proxy() {
    let mut story = Story::warm_cluster_with(|settings| settings.timeouts.topology_period_ms = 500);
    story.holds_the_table();
    let (mut asked, mut sent) = (0, 0);
    for _ in 0..40 {
        story.after_ms(400);
        story.client("a").says(["GET a4", "INCR b4", "GET c1"]);
        sent += 1;
        for node in ["n1", "n2", "n3"] {
            while let Some(line) = story.node(node).takes_one() {
                if line == "CLUSTER SLOTS" {
                    asked += 1;
                    let slots = table("0-5460 n1, 5461-10922 n2, 10923-16383 n3");
                    story.node(node).sends(slots.as_bytes());
                } else {
                    story.node(node).answers(&*format!("\"{line}\""));
                }
            }
        }
        story.client("a").gets(["\"GET a4\"", "\"INCR b4\"", "\"GET c1\""]);
    }
    assert!(asked >= 10, "asked {asked} times beside {sent} pipelines");
}

// A4, twemproxy #149: the server answers with an error after the first part of a large value and hangs up.
#[test]
fn a4_an_error_before_the_whole_request_is_sent_and_a_close_are_one_error() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    let large = crate::words::large_set("big", 1 << 20);
    let (first, rest) = large.split_at(512 << 10);
    story.client("a").sends(first);
    let refused = "-ERR max memory for one value";
    story.server().answers(refused);
    story.client("a").gets(refused);
    story.server().dies("connection reset");
    story.client("a").sends(rest).sends(&request("GET k"));
    story.conn(1).gets("GET k").answers("\"v\"");
    // Once, and the next request is in step.
    story.client("a").gets("\"v\"").is_open();
}

// A6, redis-cluster-proxy #44 and #48: after an error of the proxy's own the next request was never answered.
#[test]
fn a6_after_every_error_of_our_own_the_next_request_is_answered() {
    let errors = [
        ("BLPOP a4 b4 0", "-CROSSSLOT"),
        ("MSETNX a4 1 b4 2", "-CROSSSLOT"),
        ("MSET a4 1 b4", "-ERR wrong number of arguments"),
        ("SELECT 3", "-ERR SELECT is not allowed"),
        ("SHUTDOWN", "-ERR respool: 'shutdown'"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("READONLY", "-ERR This instance has cluster support disabled"),
        ("CLUSTER SLOTS", "-ERR This instance has cluster support disabled"),
        ("CLIENT NOSUCH", "-ERR unknown subcommand"),
        ("PING a b", "-ERR wrong number of arguments"),
    ];
    for (line, begin) in errors {
        let mut story = Story::warm_cluster();
        story.client("a").says([line, "MGET a4 b4", line, "PING"]);
        story.node("n1").gets("MGET a4").answers(&*list(["\"1\""]));
        story.node("n2").gets("MGET b4").answers(&*list(["\"2\""]));
        let got = story.client("a").takes_text();
        assert!(got.starts_with(begin), "{line}: {got}");
        let (_, rest) = got.split_once("\r\n").expect("a line");
        let rest = rest.strip_prefix("*2\r\n$1\r\n1\r\n$1\r\n2\r\n").expect("MGET's reply");
        assert!(rest.starts_with(begin) && rest.ends_with("\r\n+PONG\r\n"), "{line}: {got}");
    }
}

// The same where the error is that of a missing password.
#[test]
fn a6_a_request_before_auth_does_not_cost_the_one_behind_it() {
    let mut story = Story::with_password("secret");
    story.client("a").says(["GET k", "AUTH secret", "GET k"]);
    story.server().gets("GET k").answers("\"v\"").gets_nothing();
    story.client("a").gets(["-NOAUTH Authentication required.", "+OK", "\"v\""]);
}

// A9, twemproxy #332, #357, #661 and camellia #356: too few arguments crashed it or closed the connection. Every command with no
// to five arguments, in front of each kind of deployment: one reply each, in order, and the connection stays.
#[test]
fn a9_every_command_with_any_number_of_arguments_gets_one_reply() {
    let stories: [fn() -> Story; 3] =
        [Story::warm_cluster, Story::warm_shards, Story::warm_sentinels];
    for begin in stories {
        let mut story = begin();
        let mut asked = 0;
        for id in (0..COUNT).filter_map(CommandId::from_index) {
            // What ends the connection or makes it silent has stories of its own.
            if [
                "quit",
                "client|reply",
                "client|kill",
                "client|pause",
                "reset",
                "hello",
                "multi",
                "watch",
                "monitor",
            ]
            .contains(&id.name())
                // A confirmation for each name.
                || id.name().ends_with("subscribe")
            {
                continue;
            }
            for count in 0..=5 {
                let mut args: Vec<&str> = id.name().split('|').collect();
                args.extend(["2", "a", "b", "''", "1"].iter().take(count));
                story.client("a").says(&*args.join(" "));
                if id.row().is_container() {
                    // The second word may be one that servers are asked for.
                    story.after_ms(20);
                }
                while answer_all(&mut story) > 0 {}
                let got = story.client("a").takes();
                let mut scanner = resp::ReplyScanner::default();
                let whole = matches!(scanner.scan(&got), Ok(resp::Scan::Complete { consumed, .. }) if consumed == got.len());
                assert!(whole, "{args:?}: {:?}", String::from_utf8_lossy(&got));
                story.client("a").is_open();
                asked += 1;
            }
        }
        story.client("a").says("PING").gets("+PONG");
        assert!(asked > 2_000, "only {asked} requests");
    }
}

/// Every server refuses what it was asked; how many requests there were.
fn answer_all(story: &mut Story) -> usize {
    let mut answered = 0;
    for number in 1..=story.connects_made() {
        while let Some(line) = story.conn(number).takes_one() {
            // An error would close the connection of WAIT.
            let is_in_front = line == MOVES_OFFSET;
            story.conn(number).answers(if is_in_front { "+OK" } else { "-ERR syntax error" });
            answered += 1;
        }
    }
    answered
}

// C3, predixy #107: the first table that was told lacks the very node that told it, and its first clients got MOVED.
#[test]
fn c3_a_first_table_without_the_node_that_told_it_shows_no_redirect() {
    let mut story = Story::with(seeds(&["n1", "n2", "n3"]));
    story.cluster_is("0-5460 n2, 5461-10922 n2, 10923-16383 n3");
    story.client("a").says(["SET a4 1", "GET a4"]);
    story
        .node("n2")
        .gets(["SET a4 1", "GET a4"])
        .answers([&*moved("a4", "n1"), &*moved("a4", "n1")]);
    story.client("a").gets_nothing();
    story.node("n1").gets(["SET a4 1", "GET a4"]).answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\""]);
}

// C4, ioredis #2135, rueidis #37 and #641: MOVED names the host that says it. An endless loop, or a panic.
#[test]
fn c4_a_node_that_names_itself_is_neither_asked_for_ever_nor_believed() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "PING"]);
    let (begin, mut tries) = (story.now, 0);
    let got = loop {
        while story.node("n1").waiting() > 0 {
            story.node("n1").gets("SET a4 1").moved("a4", "n1");
            tries += 1;
        }
        let got = story.client("a").takes_text();
        if !got.is_empty() {
            break got;
        }
        story.after_ms(1);
        assert!(story.now.since(begin) <= 2_300_000, "it is not given up");
    };
    assert!(tries < 40, "{tries} tries");
    let begin = format!("-ERR respool: given up after {tries} tries, the last answer was: MOVED ");
    assert!(got.starts_with(&begin) && got.ends_with("\r\n+PONG\r\n"), "{got}");
}

// C4, the other half: MemoryDB and load balancers say this on a connection that leads to the former node, while new connections to
// the same address lead to the right one.
#[test]
fn c4_a_node_that_names_itself_is_asked_over_a_new_connection() {
    let mut story = Story::warm_cluster();
    // One that has just been made would be believed.
    story.after_ms(2_000);
    let before = story.connects_to("n1");
    story.client("a").says("SET a4 1");
    for _ in 0..500 {
        if story.connects_to("n1") > before {
            break;
        }
        while story.node("n1").waiting() > 0 {
            story.node("n1").gets("SET a4 1").moved("a4", "n1");
        }
        story.after_ms(5);
    }
    assert!(story.connects_to("n1") > before, "only the old connection was ever asked");
    story.after_ms(300).node("n1").gets("SET a4 1").answers("+OK");
    story.client("a").gets("+OK");
}

// C5, envoy #8099: a node on the losing side of a partition tells the table of before the failover.
#[test]
fn c5_an_old_table_of_a_minority_node_costs_a_round_trip_and_no_error() {
    let now = "0-5460 n4, 5461-10922 n2, 10923-16383 n3";
    let mut story = Story::warm_cluster();
    story.cluster_is(now).after_ms(12_000);
    story.client("a").says("GET a4");
    story.node("n4").gets("GET a4").answers("nil");
    story.client("a").gets("nil");
    // n1 is back, has not heard of its demotion, and is asked.
    story.cluster_is("0-5460 n1, 5461-10922 n2, 10923-16383 n3").after_ms(12_000);
    story.node_says_to("n1", "SET", "-CLUSTERDOWN The cluster is down");
    story.client("a").says(["SET a4 1", "SET a8 2"]).gets_nothing();
    story.cluster_is(now).after_ms(1_000);
    // The node that says it is down was asked again and again meanwhile, in order; now the other one is.
    story.node("n4").gets(["SET a4 1", "SET a8 2"]).answers(["+OK", "+OK"]);
    story.client("a").gets(["+OK", "+OK"]);
}

// C6, corvus #80 and envoy #36764: each redirect asked for the whole table. Here ten thousand of them in a second, of a table with a
// thousand ranges, for ten seconds: at most two questions a second, and what is kept stays as large as it is.
#[test]
fn c6_a_storm_of_redirects_asks_for_a_large_table_twice_a_second() {
    let mut words = "0-5460 n1".to_string();
    for number in 0..1_000 {
        let (first, node) = (5_461 + number * 10, ["n1", "n2", "n3"][number % 3]);
        words += &format!(", {first}-{} {node}", first + 9);
    }
    words += ", 15461-16383 n2";
    let mut story = Story::warm_cluster();
    story.cluster_is(&words).after_ms(12_000);
    story.asked_for_the_table();
    let (mut kept, mut redirects) = (Vec::new(), 0);
    for second in 0..10 {
        let info = allocation_counter::measure(|| {
            for round in 0..100 {
                story.client("a").says(vec!["GET a4"; 100]);
                // The slot goes back and forth between the two, and each redirects to the other one.
                let nodes = if round % 2 == 0 { ["n1", "n2"] } else { ["n2", "n1"] };
                redirects += serve(&mut story, nodes);
                story.after_ms(10);
                redirects += serve(&mut story, nodes);
                story.client("a").gets(vec!["nil"; 100]);
            }
        });
        kept.push(info.bytes_current);
        let asked = story.asked_for_the_table().len();
        assert!(asked <= 3, "second {second}: asked {asked} times");
    }
    assert!(redirects > 50_000, "only {redirects} redirects in ten seconds");
    let grown: i64 = kept[2..].iter().sum();
    assert!(grown < 64 << 10, "{kept:?}");
}

/// The first node sends everything to the second, which serves; how many redirects that were.
fn serve(story: &mut Story, [from, to]: [&str; 2]) -> usize {
    let mut redirects = 0;
    loop {
        let (moves, serves) = (story.node(from).takes_requests(), story.node(to).takes_requests());
        if moves + serves == 0 {
            return redirects;
        }
        redirects += moves;
        story.node(from).sends(format!("{}\r\n", moved("a4", to)).repeat(moves).as_bytes());
        story.node(to).sends("$-1\r\n".repeat(serves).as_bytes());
    }
}

// C7, predixy #5 and #162, jgaskins/redis #73: a new release wrote the table in a new way. What each release writes for one and the
// same cluster, as captured from its servers or, for those that no longer run, from their sources (`clusterReplyMultiBulkSlots`,
// `addNodeReplyForClusterSlot`).
#[test]
fn c7_the_tables_of_all_releases_are_read() {
    let id = "$40\r\n09dbe9720cda62f7865eabc5fd8857c5d2678366\r\n";
    let host = |name: &str| format!("${}\r\n{name}\r\n", name.len());
    // From 3.0.0: address and port. From 3.2: and the id.
    let old = |name: &str, _: bool| format!("*2\r\n{}:7000\r\n", host(name));
    let with_id = |name: &str, _: bool| format!("*3\r\n{}:7000\r\n{id}", host(name));
    // From 7.0: and what else there is to know, in a map for RESP3.
    let seven = |name: &str, _: bool| format!("*4\r\n{}:7000\r\n{id}*0\r\n", host(name));
    let hostnames = |name: &str, resp3: bool| {
        let head = if resp3 { "%1" } else { "*2" };
        format!("*4\r\n{}:7000\r\n{id}{head}\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n", host(name))
    };
    let by_ip = |name: &str, resp3: bool| {
        let head = if resp3 { "%1" } else { "*2" };
        format!(
            "*4\r\n{}:7000\r\n{id}{head}\r\n$8\r\nhostname\r\n{}",
            host(name),
            host("h.example")
        )
    };
    // cluster-preferred-endpoint-type unknown-endpoint: whoever is asked, at the port that is told.
    let unknown = |name: &str, resp3: bool| {
        let (null, head) = if resp3 { ("_", "%1") } else { ("$-1", "*2") };
        format!("*4\r\n{null}\r\n:7000\r\n{id}{head}\r\n$2\r\nip\r\n{}", host(name))
    };
    type Node<'a> = &'a dyn Fn(&str, bool) -> String;
    let releases: [(&str, Node<'_>); 6] = [
        ("3.0", &old),
        ("3.2 to 6.2", &with_id),
        ("7.0 and later, Valkey 7.2 and later", &seven),
        ("the same with host names preferred", &hostnames),
        ("the same with addresses preferred", &by_ip),
        ("the same with unknown endpoints", &unknown),
    ];
    for (release, node) in releases {
        for resp3 in [false, true] {
            let range = |first: u16, last: u16, name: &str, replica: &str| {
                let nodes = node(name, resp3) + &node(replica, resp3);
                format!("*4\r\n:{first}\r\n:{last}\r\n{nodes}")
            };
            let reply = format!(
                "*3\r\n{}{}{}",
                range(0, 5460, "n1", "n4"),
                range(5461, 10922, "n2", "n5"),
                range(10923, 16383, "n3", "n6")
            );
            let mut story = Story::with(seeds(&["n1"]));
            story.node_says_to("n1", "CLUSTER INFO", "+cluster_state:ok");
            story.node_says_to("n1", "CLUSTER SLOTS", &reply);
            story.client("a").says(["GET a4", "GET b4", "GET c1"]);
            let places =
                if release.ends_with("unknown endpoints") { ["n1"; 3] } else { ["n1", "n2", "n3"] };
            for (node, key) in places.into_iter().zip(["a4", "b4", "c1"]) {
                let line = format!("GET {key}");
                story.node(node).gets(&*line).answers(&*format!("\"{key}\""));
            }
            story.client("a").gets(["\"a4\"", "\"b4\"", "\"c1\""]);
        }
    }
}

// C8, predixy #14: a sentinel that has just begun tells port 0.
#[test]
fn c8_a_sentinel_that_tells_port_0_is_not_believed() {
    let mut story = Story::sentinels();
    let ask = "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster";
    story.node_says_to("s1", ask, "*2\r\n$3\r\nbad\r\n$1\r\n0\r\n");
    story.client("a").says("SET k v");
    story.after_ms(1_500);
    story.node("n1").gets("SET k v").answers("+OK");
    story.client("a").gets("+OK");
    assert_eq!(story.connects_to("bad"), 0);
}

// D1, predixy #66, twemproxy #13: a name was resolved once, at the start. Here each connect is to the name and not to what it once was,
// also when the node is known to be down; what it becomes then is the resolver's matter (`control::resolver`).
#[test]
fn d1_every_connect_is_to_the_name() {
    let mut settings = Settings::default();
    settings.node.address = Address::tcp("cache.example", 6379);
    let mut story = Story::with(settings);
    for round in 1..=20 {
        story.client("a").says("GET k");
        story.node("cache.example").gets("GET k").answers("nil").dies("connection reset");
        story.client("a").gets("nil");
        assert_eq!(story.connects_to("cache.example"), story.connects_made());
        story.is_down("cache.example").after_ms(3_000).is_up("cache.example").after_ms(6_000);
        assert!(story.connects_made() > round, "it is tried while it is down");
    }
}

// C8, bitnami/charts #3472 and predixy #119: after the second failover the primary was wrong, and dead ones were never forgotten.
#[test]
fn c8_fifty_failovers_in_a_row_leave_what_one_leaves() {
    let mut story = Story::warm_sentinels();
    let mut open = Vec::new();
    for round in 0..50 {
        let (primary, replica) = (format!("n{}", round + 2), format!("n{}", round + 1));
        story.sentinels_say(&format!("{primary} {replica}"));
        story.after_ms(2_500);
        story.client("a").says("SET k v");
        story.node(&primary).gets("SET k v").answers("+OK").gets_nothing();
        story.client("a").gets("+OK");
        open.push(story.open_conns());
    }
    assert_eq!(open[1], *open.last().expect("fifty"), "connections pile up: {open:?}");
}

/// Nodes that left the table, one every two seconds, and stay homes of channels for a while.
const LEAVING: usize = engine::limits::HOME_MISSING_MS as usize / 2_000;

// D2, predixy #157: addresses of pods came and went until a table of fixed size was full, and writes failed.
#[test]
fn d2_ten_thousand_addresses_that_come_and_go_leave_nothing() {
    const CHANGES: usize = 10_000;
    let mut settings = seeds(&["n1"]);
    settings.timeouts.topology_period_ms = 500;
    let mut pods = Pods::new(settings);
    let mut kept = Vec::new();
    for change in 0..CHANGES {
        pods.table = table(&format!("0-5460 n1, 5461-16383 p{change}"));
        let info = allocation_counter::measure(|| pods.pass_ms(2_000));
        kept.push(info.bytes_current);
    }
    assert!(pods.asked > CHANGES, "asked {} times", pods.asked);
    assert!(pods.open() <= 3 + LEAVING, "{} connections", pods.open());
    // What grows at first (the first of everything) is not what grows for ever.
    let grown: i64 = kept[CHANGES / 10..].iter().sum();
    assert!(grown < 16 << 10, "{grown} bytes more after {CHANGES} changes");
}

/// Servers that greet and tell the table, and remember nothing, so that all that grows is the engine's.
struct Pods {
    engine: Engine,
    now: Time,
    table: String,
    asked: usize,
    conns: BTreeSet<UpstreamId>,
}

impl Pods {
    fn new(settings: Settings) -> Self {
        let now = Time(1_000_000);
        let engine = Engine::new(settings, 7, now);
        Self { engine, now, table: String::new(), asked: 0, conns: BTreeSet::new() }
    }

    fn open(&self) -> usize {
        self.conns.len()
    }

    /// Lets time pass, each event when it is due.
    fn pass_ms(&mut self, ms: u64) {
        let end = self.now.plus_ms(ms);
        loop {
            self.turn();
            match self.engine.poll_timeout(self.now) {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
        }
        self.now = end;
    }

    /// What this client was sent.
    fn got(&mut self, client: ClientId) -> String {
        let mut got = Vec::new();
        while let Some(id) = self.engine.poll_dirty_client() {
            assert_eq!(id, client, "there is one");
            while let Some(buf) = self.engine.begin_client_send(id) {
                got.extend_from_slice(&buf);
                self.engine.handle_client_sent(self.now, id, buf);
            }
        }
        String::from_utf8(got).expect("text")
    }

    fn turn(&mut self) {
        self.engine.handle_timeout(self.now);
        loop {
            let mut busy = false;
            while let Some(id) = self.engine.poll_dirty_upstream() {
                busy = true;
                while let Some(buf) = self.engine.begin_upstream_send(id) {
                    let replies = self.replies_to(&buf);
                    self.engine.handle_upstream_sent(self.now, id, buf);
                    self.engine.handle_upstream_bytes(self.now, id, replies.as_bytes());
                }
            }
            while let Some(action) = self.engine.poll_action() {
                busy = true;
                match action {
                    Action::Connect(id) => {
                        self.conns.insert(id);
                        self.engine.handle_upstream_connected(self.now, id);
                    }
                    Action::CloseUpstream(id) => {
                        self.conns.remove(&id);
                    }
                    _ => {}
                }
            }
            while self.engine.poll_notice().is_some() {}
            if !busy {
                return;
            }
        }
    }

    fn replies_to(&mut self, requests: &[u8]) -> String {
        let (mut replies, mut at) = (String::new(), 0);
        let (mut scanner, limits) = <(resp::RequestScanner, resp::RequestLimits)>::default();
        while let Ok(resp::Scan::Complete { consumed, .. }) = scanner.scan(&requests[at..], &limits)
        {
            let mut args = resp::Args::new(&requests[at..at + consumed]);
            match args.next() {
                Some(b"HELLO") => replies += HELLO_2,
                Some(b"COMMAND") => replies += "*0\r\n",
                Some(b"CLUSTER") => {
                    self.asked += 1;
                    replies += &self.table;
                }
                Some(b"SET") => replies += "+OK\r\n",
                other => panic!("nobody asks {other:?} here"),
            }
            at += consumed;
        }
        replies
    }
}

// D2 and G4, camellia #82: the same with traffic, so that each address gets a connection.
#[test]
fn d2_connections_to_addresses_that_went_go_as_well() {
    let mut settings = seeds(&["n1"]);
    settings.timeouts.topology_period_ms = 500;
    let mut story = Story::with(settings);
    for change in 0..200 {
        let name = format!("p{change}");
        story.cluster_is(&format!("0-5460 n1, 5461-16383 {name}")).after_ms(2_000);
        story.client("a").says("SET b4 v");
        story.node(&name).gets("SET b4 v").answers("+OK");
        story.client("a").gets("+OK");
        assert!(story.open_conns() <= 3 + LEAVING, "{} connections", story.open_conns());
    }
}

// J7, envoy #42889 and redis-cluster-proxy: cursors that were several, or no number.
#[test]
fn j7_a_cursor_is_one_decimal_number_that_fits_64_bits_with_sign() {
    // As large as a server makes them, and far more: 2^39 buckets of a table, or 2^25 for each slot of a cluster of Redis 8.
    for cursor in ["1", "4096", "134217728", "549755813887"] {
        let mut story = Story::warm_cluster();
        story.client("a").says("SCAN 0");
        let page = format!("*2\r\n${}\r\n{cursor}\r\n*0\r\n", cursor.len());
        story.node("n1").gets("SCAN 0").answers(&*page);
        let got = story.client("a").takes_text();
        let given: Vec<&str> = got.split("\r\n").collect();
        assert_eq!(given[0], "*2", "{got}");
        let number: i64 =
            given[2].parse().unwrap_or_else(|_| panic!("{cursor} became {}", given[2]));
        assert_eq!(number.to_string(), given[2], "as it is written, without zeros in front");
        story.client("a").says(&*format!("SCAN {number} COUNT 5"));
        story.node("n1").gets(&*format!("SCAN {cursor} COUNT 5"));
    }
}

// J8: a key that comes twice, keys that are not there, over several nodes of which one has just died.
#[test]
fn j8_mget_over_a_dead_node_is_an_error_and_without_it_in_order_with_every_nil() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MGET b4 a4 nosuch{b4} a4 c1 b4");
    story.node("n1").gets("MGET a4 a4").answers(&*list(["\"1\"", "\"1\""]));
    let b = "\"2\"";
    story.node("n2").gets("MGET b4 nosuch{b4} b4").answers(&*list([b, "nil", b]));
    story.node("n3").gets("MGET c1").answers(&*list(["nil"]));
    let wanted = list([b, "\"1\"", "nil", "\"1\"", "nil", b]);
    story.client("a").gets(&*wanted);
    story.crashes("n2");
    story.client("a").says(["MGET b4 a4 c1", "MGET a4 c1"]);
    story.node("n1").gets(["MGET a4", "MGET a4"]).answers([&*list(["\"1\""]), &*list(["\"1\""])]);
    story.node("n3").gets(["MGET c1", "MGET c1"]).answers([&*list(["nil"]), &*list(["nil"])]);
    let got = story.client("a").takes();
    let (error, rest) =
        got.split_at(got.iter().position(|byte| *byte == b'\n').expect("a line") + 1);
    let error = String::from_utf8_lossy(error);
    assert!(error.starts_with("-ERR respool: upstream n2:7000: "), "{error}");
    assert_eq!(rest, wire(&list(["\"1\"", "nil"])));
}

// J8: a request that counts its keys cannot be taken apart: the count would be wrong in each part, and a part of MSETEX would take the
// option behind its pairs for a key.
#[test]
fn j8_msetex_over_two_slots_is_refused_and_nothing_is_set() {
    let lines = ["MSETEX 2 a4 1 b4 2 EX 10", "MSETEX 2 d 1 a 2 EX 10"];
    for (mut story, line) in [Story::warm_cluster(), Story::warm_shards()].into_iter().zip(lines) {
        story.client("a").says(line).gets("-CROSSSLOT Keys in request don't hash to the same slot");
        for node in ["n1", "n2", "n3"] {
            story.node(node).gets_nothing();
        }
    }
}

// C9, corvus #103: the server closes an idle connection just as a request for it is there and not yet sent. It was never sent, so it
// goes over the next connection, also where there is but one server.
#[test]
fn c9_a_request_that_never_left_goes_over_the_next_connection() {
    for settings in [Settings::default(), seeds(&["n1"])] {
        let mut pods = Pods::new(settings);
        pods.table = table("0-16383 n1");
        let client = pods.engine.handle_client_open(pods.now, String::new(), String::new());
        let client = client.expect("there is room");
        pods.engine.handle_client_bytes(pods.now, client, &request("SET k v"));
        pods.pass_ms(100);
        pods.pass_ms(5_000);
        let conns = pods.conns.clone();
        assert_eq!(conns.len(), 1);
        let before = pods.got(client);
        assert_eq!(before, "+OK\r\n");
        // One turn of the worker brings both, the client's bytes first.
        pods.engine.handle_client_bytes(pods.now, client, &request("SET k v"));
        for conn in conns {
            pods.engine.handle_upstream_closed(pods.now, conn, "closed the connection");
        }
        pods.pass_ms(500);
        assert_eq!(pods.got(client), "+OK\r\n");
    }
}
