//! What respool counts in front of real servers: INFO beside a server's own, latency monitors, the slow log in detail.
//!
//! Invariant: what tools read of a server's INFO stands in the proxy's under the same names.

use testkit::{RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, Stack, direct, info_field};

/// Fields that exporters and dashboards ask for, of those that mean anything for a proxy.
const READ_BY_TOOLS: [&str; 21] = [
    "redis_version",
    "redis_mode",
    "os",
    "arch_bits",
    "multiplexing_api",
    "process_id",
    "tcp_port",
    "uptime_in_seconds",
    "uptime_in_days",
    "connected_clients",
    "maxclients",
    "blocked_clients",
    "used_memory",
    "used_memory_rss",
    "used_memory_peak",
    "total_connections_received",
    "total_commands_processed",
    "rejected_connections",
    "used_cpu_sys",
    "used_cpu_user",
    "role",
];

#[test]
fn what_tools_read_of_a_server_is_there_under_the_same_names() {
    if direct() {
        return;
    }
    let stack = Stack::start();
    let (mut proxy, mut server) = (stack.connect(), stack.server.connect());
    for conn in [&mut proxy, &mut server] {
        for line in ["SET k v", "GET k", "LPUSH k x", "NOSUCH"] {
            conn.ask(line);
        }
    }
    let texts = [proxy.ask("INFO"), server.ask("INFO")];
    for text in &texts {
        for field in READ_BY_TOOLS {
            assert!(text.contains(&format!("\r\n{field}:")), "{field} is not in\n{text}");
        }
    }
    // The lines that both write, digits left out, are the same to the letter.
    let shape = |text: &str, begin: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with(begin));
        let letters = |line: &str| line.chars().filter(|c| !c.is_ascii_digit()).collect();
        lines.map(letters).collect()
    };
    let all = [proxy.ask("INFO everything"), server.ask("INFO everything")];
    for begin in
        ["cmdstat_get:", "cmdstat_set:", "latency_percentiles_usec_get:", "errorstat_WRONGTYPE:"]
    {
        let [ours, servers] = [0, 1].map(|at: usize| shape(&all[at], begin));
        assert_eq!((ours.len(), &ours), (1, &servers), "{begin}");
    }
    for text in &texts {
        let has = |head: &str| text.contains(&format!("# {head}\r\n"));
        assert!(has("Errorstats") && !has("Commandstats") && !has("Latencystats"), "{text}");
    }
}

#[test]
fn counters_begin_again_with_resetstat_over_all_workers() {
    if direct() {
        return;
    }
    let stack = Stack::start();
    let mut conns: Vec<_> = (0..4).map(|_| stack.connect()).collect();
    for conn in &mut conns {
        conn.ask("SET k v");
        assert!(conn.ask("LPUSH k x").starts_with("-WRONGTYPE"));
    }
    let asks = &mut conns[0];
    assert_eq!(info_field(asks, "errorstats", "errorstat_WRONGTYPE"), Some("count=4".into()));
    assert_eq!(asks.ask("CONFIG RESETSTAT"), "+OK\r\n");
    wait::poll(SOON, || {
        info_field(asks, "errorstats", "errorstat_WRONGTYPE").is_none().then_some(())
    });
    let line = info_field(asks, "upstreams", "upstream_0").expect("a server");
    assert!(line.contains(",error_replies=0,") && line.contains(",replies="), "{line}");
}

#[test]
fn each_worker_tells_its_processor_time() {
    if direct() {
        return;
    }
    let stack = Stack::start();
    let mut conn = stack.connect();
    let pipeline = "GET k\r\n".repeat(2_000);
    let us = |value: &str| -> u64 {
        let parts = value.split(',').filter_map(|part| part.split_once('='));
        parts.map(|(_, s)| (s.parse::<f64>().expect("seconds") * 1e6) as u64).sum()
    };
    wait::poll(SOON, || {
        conn.send(pipeline.as_bytes()).expect("sent");
        (0..2_000).for_each(|_| drop(conn.reply().expect("a reply")));
        let workers = ["0", "1"].map(|worker| {
            let field = format!("proxy_cpu_worker_{worker}");
            us(&info_field(&mut conn, "proxy", &field).expect("each worker's time"))
        });
        workers.iter().any(|us| *us > 50_000).then_some(())
    });
}

#[test]
fn monitors_of_the_configuration_are_shown_by_name() {
    if direct() {
        return;
    }
    let args = [
        "--latency-monitors",
        "fast=+all -get 1 1000000",
        "--latency-monitors",
        "get=+get 10000000",
    ];
    let stack = Stack::with(&args);
    let mut conn = stack.connect();
    for line in ["SET k v", "GET k", "GET k"] {
        conn.ask(line);
    }
    let text = conn.ask("INFO latency get");
    assert!(
        text.contains("latency_get_le_10000000:count=2,share=100.00,cumulated=100.00,"),
        "{text}"
    );
    assert!(text.contains("latency_get_upstream_0:address=127.0.0.1:"), "{text}");
    assert!(
        text.contains("latency_get_le_inf:count=0,share=0.00,cumulated=100.00,usec=0"),
        "{text}"
    );
    let listed = info_field(&mut conn, "latency", "latency_fast").expect("listed");
    assert!(listed.contains(",count=1,"), "{listed}");
    // The server's own command goes to the server.
    assert!(conn.ask("LATENCY RESET").starts_with(':'));
}

#[test]
fn the_detail_of_the_slow_log_names_the_server() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let proxy =
        Respool::to(RESPOOL, server.endpoint()).args(&["--slowlog-slower-than-us", "0"]).start();
    let mut conn = testkit::Conn::to(proxy.endpoint());
    conn.ask("GET k");
    let (plain, detail) = (conn.ask("SLOWLOG GET -1"), conn.ask("SLOWLOG GET -1 DETAIL"));
    assert!(plain.contains("\r\n*6\r\n") && !plain.contains("\r\n*10\r\n"), "{plain}");
    let label = server.endpoint().tcp().to_string();
    assert!(
        detail.contains(&format!("${}\r\n{label}\r\n", label.len())),
        "{label} is not in\n{detail}"
    );
}
