//! The files as anybody gets them, and the totals that the charts are made of.

use serde_json::{Value, json};
use testkit::wait;
use ureq::http::HeaderMap;

use crate::admin::Looked;
use crate::setup::{SOON, direct};

fn text(headers: &HeaderMap, name: &str) -> String {
    headers[name].to_str().expect("text").to_owned()
}

/// Paths that a file names: as attributes, or as imports.
fn named(file: &str) -> Vec<String> {
    let paths = file.split('"').filter(|part| part.starts_with("/console/")).map(str::to_owned);
    let imports = file.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next());
    paths.chain(imports.map(|name| format!("/console/{name}"))).collect()
}

#[test]
fn the_files_come_without_a_token_with_their_types_and_a_policy() {
    if direct() {
        return;
    }
    let looked = Looked::with(&["--admin-token", "secret"]);
    let mut open = vec!["/".to_owned()];
    let mut seen: Vec<String> = Vec::new();
    while let Some(path) = open.pop() {
        let got = looked.agent.get(format!("{}{path}", looked.base)).call();
        let mut answer = got.expect("the file");
        assert_eq!(answer.status().as_u16(), 200, "{path}");
        let kind = match path.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        let headers = answer.headers();
        assert_eq!(text(headers, "content-type"), kind, "{path}");
        assert!(text(headers, "content-security-policy").starts_with("default-src 'self';"));
        assert_eq!(text(headers, "x-content-type-options"), "nosniff");
        let file = answer.body_mut().read_to_string().expect("text");
        let other = file.replace("http://www.w3.org/2000/svg", "");
        assert!(!other.contains("://"), "{path} names another host");
        open.extend(named(&file).into_iter().filter(|path| !seen.contains(path)));
        seen.push(path);
    }
    assert!(seen.len() > 10, "{seen:?}");
    assert_eq!(looked.get("/stats").0, 401, "what has data is closed");
    assert_eq!(looked.get("/console/nothing.js").0, 401);
}

#[test]
fn totals_add_up_over_the_workers_and_grow_with_requests() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    wait::until_true("readiness", SOON, || looked.get("/readyz").0 == 200);
    let (status, before) = looked.get("/stats");
    assert_eq!((status, before["workers"].as_array().map(Vec::len)), (200, Some(2)));
    let mut conns = [looked.proxy.connect(), looked.proxy.connect()];
    for conn in &mut conns {
        for _ in 0..50 {
            conn.ask("SET k v");
        }
        assert!(conn.ask("LPUSH k v").starts_with("-WRONGTYPE"));
    }
    let (_, after) = looked.get("/stats");
    let of = |stats: &Value, name: &str| stats["total"][name].as_u64().expect("a number");
    let grown = |name: &str| of(&after, name) - of(&before, name);
    assert_eq!((grown("requests"), grown("errors"), of(&after, "clients")), (102, 2, 2));
    assert!(grown("upstream_requests") >= 102 && grown("upstream_writes") >= 1, "{after}");
    assert!(grown("client_in_bytes") > 0 && grown("client_out_bytes") > 0, "{after}");
    for (name, total) in after["total"].as_object().expect("totals") {
        let workers = after["workers"].as_array().expect("workers").iter();
        let sum: u64 = workers.map(|worker| worker[name].as_u64().expect("a number")).sum();
        assert_eq!(total, &json!(sum), "{name}");
    }
    let times = &after["latency"];
    let buckets = times["buckets"].as_array().expect("buckets");
    let count: u64 = buckets.iter().map(|bucket| bucket[1].as_u64().expect("a count")).sum();
    assert_eq!((times["count"].as_u64(), count >= 102), (Some(count), true));
    assert!(after["uptime_us"].as_u64() > before["uptime_us"].as_u64());
    assert!(after["rss_bytes"].as_u64() > Some(1 << 20), "{after}");
}
