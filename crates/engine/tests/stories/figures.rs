//! What is counted: times, errors by kind and cause, each server by itself, latency monitors; as INFO and the report tell it.

use crate::words::Story;
use crate::words::cluster::moved;
use engine::Settings;
use engine::command::ids::{GET, SET};
use engine::fleet::Report;
use engine::histogram::Histogram;
use engine::report::{CONN_ROLES, NodeReport, WAITS};
use engine::stats::errors::Cause;
use engine::stats::monitors::MonitorOptions;

fn info(story: &mut Story, line: &str) -> String {
    story.client("asks").says(line);
    story.client("asks").takes_text()
}

fn report(story: &Story) -> Report {
    story.engine.report(story.now)
}

fn node(story: &Story, label: &str) -> NodeReport {
    let nodes = report(story).nodes;
    nodes.into_iter().find(|node| node.label == label).unwrap_or_else(|| panic!("no {label}"))
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn latencystats_are_those_of_redis_and_come_only_when_asked_for() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "GET l"]);
    story.after_ms(2).server().gets(["GET k", "GET l"]).answers(["nil", "nil"]);
    story.client("a").says("GET m");
    story.after_ms(50).server().gets("GET m").answers("nil");
    // Learnt only later, so that the server answers: nothing is known of how long it takes.
    story.client("a").says("NOSUCH").takes();
    let text = info(&mut story, "INFO latencystats");
    assert!(text.contains("# Latencystats\r\n"), "{text}");
    // The end of the bucket: an eighth above at most.
    has(&text, &["latency_percentiles_usec_get:p50=2047.000,p99=53247.000,p99.9=53247.000\r\n"]);
    assert!(!text.contains("usec_set") && !text.contains("usec_info"), "{text}");
    assert!(!info(&mut story, "INFO").contains("# Latencystats"));
    assert!(info(&mut story, "INFO all").contains("# Latencystats"));
}

#[test]
fn what_was_read_at_once_is_counted_by_command_and_time_of_sending() {
    let mut story = Story::new();
    for line in ["GET 1", "GET 2", "SET 3 x"] {
        story.client("a").says(line);
        story.after_ms(1);
    }
    story.client("b").says(["SET 4 x", "GET 5"]);
    story.after_ms(1).server().answers(["nil", "nil", "+OK", "+OK", "nil"]);
    let stats = report(&story).stats;
    let of = |command| {
        let histogram = &stats.latencies[engine::command::CommandId::index(command)];
        (histogram.count(), histogram.sum_us(), stats.commands[command.index()].usec)
    };
    assert_eq!(of(GET), (3, 8_000, 8_000));
    assert_eq!(of(SET), (2, 3_000, 3_000));
    let latency = node(&story, "127.0.0.1:6379").stats.latency;
    assert_eq!((latency.count(), latency.sum_us()), (5, 11_000));
}

#[test]
fn error_replies_are_counted_by_their_first_word_whoever_gave_them() {
    let mut story = Story::with_password("pw");
    story.client("a").says(["GET k", "AUTH no", "AUTH pw"]).takes();
    story.client("a").says(["INCR k", "LPUSH k x", "GET k", "SYNC"]);
    story.server().gets(["INCR k", "LPUSH k x", "GET k"]);
    story.server().answers(["-WRONGTYPE no", "-WRONGTYPE no", "nil"]);
    story.client("a").takes();
    story.client("asks").says("AUTH pw").takes();
    let text = info(&mut story, "INFO");
    let errors = "# Errorstats\r\nerrorstat_ERR:count=1\r\nerrorstat_NOAUTH:count=1\r\n\
                  errorstat_WRONGPASS:count=1\r\nerrorstat_WRONGTYPE:count=2\r\n";
    has(
        &text,
        &[
            errors,
            "proxy_errors_auth:2\r\n",
            "proxy_errors_refused:1\r\n",
            "proxy_errors_upstream:0\r\n",
            ",error_replies=2,",
        ],
    );
}

#[test]
fn errors_behind_a_reply_that_went_out_as_it_came_are_counted_too() {
    let mut story = Story::new();
    story.client("a").says(["GET big", "GET k", "GET l", "GET m"]);
    let begin = [&b"$300000\r\n"[..], &[b'-'; 200_000]].concat();
    let rest = [&[b'-'; 100_000][..], b"\r\n-WRONGTYPE x\r\n-ERR y\r\n$-1\r\n"].concat();
    story.server().sends(&begin).sends(&rest);
    story.client("a").takes();
    let stats = report(&story).stats;
    let seen: Vec<_> = stats.errors.iter().collect();
    assert_eq!((seen, stats.commands[GET.index()].failed), (vec![("ERR", 1), ("WRONGTYPE", 1)], 2));
    assert_eq!(node(&story, "127.0.0.1:6379").stats.traffic.errors, 2);
}

#[test]
fn requests_that_are_lost_are_errors_of_the_proxy_with_their_cause() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "GET l"]);
    story.server().gets(["GET k", "GET l"]).dies("closed the connection");
    story.client("a").says("GET m");
    story.after_ms(10_001);
    let own = report(&story).stats.own_errors;
    assert_eq!((own[Cause::Upstream as usize], own[Cause::Timeout as usize]), (2, 1));
    let node = node(&story, "127.0.0.1:6379").stats;
    assert_eq!([node.connects, node.losses, node.timeouts, node.failures], [3, 2, 1, 0]);
    assert_eq!(report(&story).stats.upstream_reconnects, 2);
    assert_eq!(node.latency.count(), 0, "no reply came");
}

#[test]
fn redirects_are_counted_by_what_was_said_and_are_no_errors() {
    let mut story = Story::warm_cluster();
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").moved("a4", "n2");
    story.node("n2").gets("GET a4").answers("-TRYAGAIN x");
    story.after_ms(100);
    story.node("n2").gets("GET a4").answers("nil");
    story.client("a").gets("nil");
    let text = info(&mut story, "INFO stats errorstats");
    has(
        &text,
        &["redirects:2\r\nredirects_moved:1\r\nredirects_ask:0\r\nredirects_tryagain:1\r\n"],
    );
    assert!(!text.contains("errorstat_"), "{text}");
    // In front of one server it is an error like any other.
    let mut story = Story::new();
    story.client("a").says("GET a4");
    story.server().answers(moved("a4", "n2").as_str());
    story.client("a").takes();
    has(
        &info(&mut story, "INFO errorstats stats"),
        &["errorstat_MOVED:count=1\r\n", "redirects:0\r\n"],
    );
}

#[test]
fn each_server_has_its_line_with_its_role_and_its_traffic() {
    let mut story = Story::cluster();
    story.cluster_is("0-5460 n1 n4, 5461-10922 n2, 10923-16383 n3");
    // Each of them answers one GET at once.
    story.warm_up();
    story.client("a").says(["GET a4", "SET b4 value"]);
    story.after_ms(3);
    story.node("n1").answers("\"v\"");
    story.node("n2").answers("-ERR no");
    story.client("a").takes();
    let (n1, n2) = (node(&story, "n1:7000"), node(&story, "n2:7000"));
    assert_eq!((n1.role, n1.state, node(&story, "n4:7000").role), ("primary", "ready", "replica"));
    assert_eq!((n1.stats.latency.count(), n1.stats.traffic.errors), (2, 0));
    assert_eq!((n2.stats.latency.sum_us(), n2.stats.traffic.errors), (3_000, 1));
    assert!(n1.stats.traffic.writes > 0 && n1.stats.traffic.out_bytes > 0);
    assert!(n1.stats.traffic.in_bytes > 0 && n1.since_us == Some(3_000));
    assert_eq!((n1.conns[0], n1.inflight), (1, 0));
    assert_eq!(report(&story).topology_age_us, Some(3_000));
    let text = info(&mut story, "INFO upstreams proxy");
    has(
        &text,
        &[
            "upstream_0:address=n1:7000,pool=0,role=primary,state=ready,since_seconds=0,requests=",
            ",replies=2,error_replies=1,",
            ",usec=3000,p50=0,p99=3071,p99.9=3071,conns_shared=1,",
            "proxy_topology_age_seconds:0\r\n",
            "address=n4:7000,pool=0,role=replica,state=idle,",
        ],
    );
}

#[test]
fn what_a_connection_counted_stays_when_it_is_gone() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "BLPOP l 0"]);
    story.conn(1).answers("nil");
    story.conn(2).gets("BLPOP l 0");
    let before = node(&story, "127.0.0.1:6379");
    let leased = CONN_ROLES.iter().position(|role| *role == "leased").unwrap();
    assert_eq!((before.conns[leased], before.inflight), (1, 1));
    assert_eq!(report(&story).leases_taken, 1);
    story.client("a").ends();
    story.conn(2).is_closed();
    let after = node(&story, "127.0.0.1:6379");
    assert_eq!((after.conns[leased], after.inflight), (0, 0));
    assert_eq!(after.stats.traffic.requests, before.stats.traffic.requests);
    assert_eq!(after.stats.traffic.out_bytes, before.stats.traffic.out_bytes);
    assert!(after.stats.traffic.in_bytes >= before.stats.traffic.in_bytes);
}

#[test]
fn a_server_that_is_down_is_told_with_its_cause_and_since_when() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    story.connect_fails("connect: no route, no luck").after_ms(5);
    let node = node(&story, "127.0.0.1:6379");
    assert_eq!((node.state, node.cause.as_str()), ("down", "connect: no route, no luck"));
    assert_eq!((node.since_us, node.stats.failures), (Some(5_000), 1));
    has(
        &info(&mut story, "INFO upstreams"),
        &[",state=down,since_seconds=0,", ",last_failure=connect: no route; no luck\r\n"],
    );
}

#[test]
fn clients_that_wait_are_told_by_what_for() {
    let mut story = Story::with_limits(|limits| limits.leases_max = 1);
    story.client("a").says("BLPOP l 0");
    story.client("b").says("BLPOP l 0");
    story.client("c").says(["GET k", "SELECT 1", "GET k"]);
    let waiting = |story: &Story, why: &str| {
        report(story).waiting[WAITS.iter().position(|word| *word == why).unwrap()]
    };
    assert_eq!((waiting(&story, "lease"), report(&story).leases_waiting), (1, 1));
    // Behind a blocking command nothing goes on either.
    assert_eq!(waiting(&story, "drained"), 2);
    has(&info(&mut story, "INFO clients"), &["waiting_clients_lease:1\r\n", "_drained:2\r\n"]);
    let mut story = Story::new();
    story.client("a").says(["CLIENT PAUSE 1000 WRITE", "SET k 1"]);
    has(&info(&mut story, "INFO clients"), &["waiting_clients_paused:1\r\n"]);
}

#[test]
fn memory_is_told_by_what_it_is_for() {
    let mut story = Story::new();
    story.client("a").says("SUBSCRIBE topic").takes();
    story.client("b").says("GET k");
    story.after_ms(20).server().answers("nil");
    story.client("b").says("GET unanswered");
    let text = info(&mut story, "INFO memory");
    for kind in ["pool", "kept", "subscriptions", "slowlog"] {
        let field = format!("\r\nmemory_{kind}_bytes:");
        let at = text.find(&field).unwrap_or_else(|| panic!("{field} is not in\n{text}"));
        assert!(!text[at + field.len()..].starts_with('0'), "{kind}: {text}");
    }
}

#[test]
fn resetstat_begins_everything_again_and_keeps_what_is_no_counter() {
    let options =
        MonitorOptions { name: "m".into(), commands: vec![Some(GET)], bounds_us: vec![1] };
    let mut story = Story::with(Settings { monitors: vec![options], ..Settings::default() });
    story.client("a").says(["GET k", "INCR k", "SYNC"]);
    story.after_ms(20).server().answers(["nil", "-WRONGTYPE no"]);
    story.client("a").takes();
    let before = report(&story);
    let errors: u64 = before.stats.errors.iter().map(|(_, count)| count).sum();
    assert_eq!((errors, before.stats.own_errors[Cause::Refused as usize]), (2, 1));
    assert_eq!(before.stats.monitors.buckets(0)[1].count, 1);
    // It is the giving on that begins the counters again, not the server's answer.
    story.client("b").says("CONFIG RESETSTAT");
    let report = report(&story);
    assert_eq!(report.stats.errors.iter().count(), 0);
    assert_eq!(report.stats.own_errors.iter().sum::<u64>(), 0);
    assert!(report.stats.latencies.iter().all(Histogram::is_empty));
    assert!(report.stats.monitors.buckets(0).is_empty());
    let node = &report.nodes[0];
    assert_eq!(node.stats.latency.count() + node.stats.traffic.errors + node.stats.connects, 0);
    assert_eq!((node.stats.traffic.requests, node.stats.traffic.writes), (0, 1));
    assert_eq!((node.state, node.conns[0], node.inflight), ("ready", 1, 1));
    assert_eq!(report.slowlog_entries, 1, "the slow log is no counter");
}

#[test]
fn monitors_count_the_commands_that_they_name_over_all_servers_and_for_each() {
    let monitor = |name: &str, commands: &[_], bounds_us: &[u64]| MonitorOptions {
        name: name.into(),
        commands: commands.to_vec(),
        bounds_us: bounds_us.to_vec(),
    };
    let monitors = vec![
        monitor("all", &[Some(GET), Some(SET), None], &[1_000, 5_000]),
        monitor("set", &[Some(SET)], &[10]),
    ];
    // Each of the three servers answers one GET at once.
    let mut story = Story::warm_cluster_with(|settings| settings.monitors = monitors);
    story.client("a").says(["GET a4", "GET b4"]);
    story.after_ms(1);
    story.node("n1").answers("nil");
    story.after_ms(3);
    story.node("n2").answers("nil");
    story.client("a").says("GET a4");
    story.after_ms(10);
    story.node("n1").answers("nil");
    story.client("a").takes();
    let text = info(&mut story, "INFO latency");
    let list = "# Latency\r\nlatency_monitors:2\r\n\
                latency_all:commands=3,count=6,usec=15000,usec_per_call=2500.00\r\n\
                latency_set:commands=1,count=0,usec=0,usec_per_call=0.00\r\n";
    assert!(text.contains(list), "{text}");
    // The name of a monitor wins over that of a section.
    let text = info(&mut story, "INFO latency all");
    has(
        &text,
        &[
            "# Latency\r\nlatency_all:commands=3,count=6,usec=15000,usec_per_call=2500.00\r\n\
             latency_all_le_1000:count=4,share=66.66,cumulated=66.66,usec=1000\r\n\
             latency_all_le_5000:count=1,share=16.66,cumulated=83.33,usec=4000\r\n\
             latency_all_le_inf:count=1,share=16.66,cumulated=100.00,usec=10000\r\n",
            "latency_all_upstream_0:address=n1:7000,count=3,usec=11000,usec_per_call=3666.66\r\n\
             latency_all_upstream_0_le_1000:count=2,share=66.66,cumulated=66.66,usec=1000\r\n\
             latency_all_upstream_0_le_5000:count=0,share=0.00,cumulated=66.66,usec=0\r\n\
             latency_all_upstream_0_le_inf:count=1,share=33.33,cumulated=100.00,usec=10000\r\n",
            "latency_all_upstream_1:address=n2:7000,count=2,usec=4000,",
        ],
    );
    assert!(!text.contains("# Server") && !text.contains("latency_set"), "{text}");
    assert!(info(&mut story, "INFO latency stats").contains("# Stats"));
}

#[test]
fn without_monitors_there_is_nothing_to_tell() {
    let mut story = Story::new();
    assert!(info(&mut story, "INFO latency").ends_with("# Latency\r\nlatency_monitors:0\r\n\r\n"));
    assert!(!info(&mut story, "INFO").contains("# Latency"));
}

#[test]
fn other_monitors_begin_at_once_and_those_that_stay_keep_what_they_counted() {
    let monitor = |name: &str, bound_us| MonitorOptions {
        name: name.into(),
        commands: vec![Some(GET)],
        bounds_us: vec![bound_us],
    };
    let settings = |monitors: Vec<MonitorOptions>| Settings { monitors, ..Settings::default() };
    let mut story = Story::with(settings(vec![monitor("a", 10)]));
    let count = |story: &Story, at: usize| {
        report(story).stats.monitors.buckets(at).iter().map(|bucket| bucket.count).sum::<u64>()
    };
    let get = |story: &mut Story| {
        story.client("a").says("GET k");
        story.server().answers("nil");
        story.client("a").gets("nil");
    };
    get(&mut story);
    story.engine.reconfigure(story.now, settings(vec![monitor("a", 10)]));
    get(&mut story);
    assert_eq!(count(&story, 0), 2);
    story.engine.reconfigure(story.now, settings(vec![monitor("a", 20), monitor("b", 5)]));
    assert_eq!(count(&story, 0), 0);
    get(&mut story);
    assert_eq!((count(&story, 0), count(&story, 1)), (1, 1));
    story.engine.reconfigure(story.now, settings(Vec::new()));
    get(&mut story);
    assert_eq!(
        (count(&story, 0), info(&mut story, "INFO latency").contains("monitors:0")),
        (0, true)
    );
}
