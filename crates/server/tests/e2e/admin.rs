//! The admin listener: what it tells, what it changes, and whom it answers.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::ports::Port;
use testkit::{Conn, RedisServer, Respool, wait};
use ureq::http::{HeaderValue, Request, Response};
use ureq::middleware::MiddlewareNext;
use ureq::{Agent, Body, SendBody};

use crate::setup::{RESPOOL, SOON, direct};

/// What the admin listener asks for, unless a test says otherwise.
pub(crate) const TOKEN: &str = "of-tests";

/// A server, and a proxy with an admin listener in front of it.
pub(crate) struct Looked {
    // The order matters: the proxy goes before its server.
    pub(crate) proxy: Respool,
    pub(crate) server: RedisServer,
    pub(crate) base: String,
    pub(crate) agent: Agent,
}

impl Looked {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(args: &[&str]) -> Self {
        Self::of(2, args)
    }

    /// Without a token: it only shows.
    pub(crate) fn open() -> Self {
        Self::launch(2, &[])
    }

    /// With so many workers. Where no token is given it has [`TOKEN`], which `agent` presents.
    pub(crate) fn of(workers: u32, args: &[&str]) -> Self {
        match args.contains(&"--admin-token") {
            true => Self::launch(workers, args),
            false => Self::launch(workers, &[args, &["--admin-token", TOKEN]].concat()),
        }
    }

    fn launch(workers: u32, args: &[&str]) -> Self {
        let server = RedisServer::start();
        let admin = Port::v4().release().to_string();
        let all = [&["--admin-listen", &admin], args].concat();
        let proxy = Respool::to_url(RESPOOL, &server.endpoint().url());
        let proxy = proxy.workers(workers).args(&all).start();
        Self { proxy, server, base: format!("http://{admin}"), agent: agent() }
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        told(self.agent.get(format!("{}{path}", self.base)).call())
    }

    /// `/metrics` as text.
    pub(crate) fn page(&self) -> String {
        let page = self.agent.get(format!("{}/metrics", self.base)).call();
        page.and_then(|mut page| page.body_mut().read_to_string()).expect("the page")
    }

    fn post(&self, path: &str) -> (u16, Value) {
        told(self.agent.post(format!("{}{path}", self.base)).send_empty())
    }

    fn delete(&self, path: &str) -> (u16, Value) {
        told(self.agent.delete(format!("{}{path}", self.base)).call())
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> (u16, Value) {
        told(self.agent.patch(format!("{}{path}", self.base)).send_json(body))
    }

    pub(crate) fn option(&self, name: &str) -> Value {
        let (status, config) = self.get("/config");
        assert_eq!(status, 200);
        let options = config["options"].as_array().expect("options").clone();
        options.into_iter().find(|option| option["name"] == name).expect("the option")
    }
}

/// Errors of the server are answers like others. It presents [`TOKEN`] where a test presents nothing.
pub(crate) fn agent() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false).middleware(present);
    config.timeout_global(Some(Duration::from_secs(20))).build().into()
}

fn present(
    mut request: Request<SendBody<'_>>,
    next: MiddlewareNext<'_>,
) -> Result<Response<Body>, ureq::Error> {
    let headers = request.headers_mut();
    if !headers.contains_key("authorization") {
        headers.insert("authorization", HeaderValue::from_static("Bearer of-tests"));
    }
    next.handle(request)
}

fn told(answer: Result<Response<Body>, ureq::Error>) -> (u16, Value) {
    let mut answer = answer.expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a body");
    let body =
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") };
    (answer.status().as_u16(), body)
}

#[test]
fn a_lame_duck_is_not_ready_and_serves_until_its_time_is_over() {
    if direct() {
        return;
    }
    let begins = |lame_duck_ms: &str| {
        let looked = Looked::with(&["--timeouts-lame-duck-ms", lame_duck_ms]);
        wait::until_true("readiness", SOON, || looked.get("/readyz").0 == 200);
        looked.proxy.signal_terminate();
        looked
    };
    // A time that does not come, and a second signal in its place.
    let mut looked = begins("600000");
    wait::until_true("no readiness", SOON, || looked.get("/readyz").0 == 503);
    let mut conn = looked.proxy.connect();
    assert_eq!(conn.ask("SET k v"), "+OK\r\n", "who comes now is served");
    assert_eq!(looked.get("/healthz").0, 200);
    assert!(looked.proxy.terminate(SOON).is_some_and(|status| status.success()));
    assert!(looked.proxy.endpoint().connect().is_err());
    // A time that comes.
    let mut looked = begins("1");
    assert!(looked.proxy.wait_exit(SOON).is_some_and(|status| status.success()));
}

#[test]
fn it_lives_and_is_ready_while_every_key_can_be_served() {
    if direct() {
        return;
    }
    let mut looked = Looked::start();
    wait::until_true("readiness", SOON, || looked.get("/readyz").0 == 200);
    assert_eq!(looked.get("/healthz"), (200, json!({"status": "ok", "workers": 2})));
    assert_eq!(looked.post("/drain"), (200, json!({"drained": true, "clients": 0})));
    let (status, why) = looked.get("/readyz");
    assert!(status == 503 && why["error"].as_str().expect("why").contains("drained"), "{why}");
    assert_eq!(looked.get("/healthz").0, 200, "it lives");
    let mut conn = looked.proxy.connect();
    assert_eq!(conn.ask("PING"), "+PONG\r\n", "who comes all the same is served");
    let waited = looked.post("/drain?wait_ms=50");
    assert_eq!(waited, (200, json!({"drained": true, "clients": 1})));
    assert_eq!(looked.post("/undrain"), (200, json!({"drained": false, "clients": 1})));
    assert_eq!(looked.get("/readyz").0, 200);

    for wanted in ["none", "any", "all"] {
        let path = format!("/readyz?upstreams={wanted}");
        wait::until_true("readiness", SOON, || looked.get(&path).0 == 200);
    }
    let (status, why) = looked.get("/readyz?upstreams=billing");
    assert_eq!(status, 404);
    let why = why["error"].as_str().expect("why");
    assert!(why.contains("billing") && why.contains("any"), "{why}");

    looked.server.kill();
    for wanted in ["any", "all"] {
        let path = format!("/readyz?upstreams={wanted}");
        let why = wait::until("the loss of the server", SOON, || {
            let (status, why) = looked.get(&path);
            (status == 503).then_some(why)
        });
        let why = why["error"].as_str().expect("why").to_owned();
        assert!(why.contains("is down") && why.contains("127.0.0.1"), "{why}");
    }
    assert_eq!(looked.get("/readyz").0, 200, "no instance would serve better");
    assert_eq!(looked.get("/healthz").0, 200, "a restart would not help");
    let body = json!({"admin.ready_upstreams": "all"});
    assert_eq!(looked.patch("/config", &body).0, 200);
    assert_eq!(looked.get("/readyz").0, 503);
}

// Newcomer's walk: one tenant without its server, or one shard, took every instance out of service at once.
#[test]
fn a_dead_tenant_or_shard_makes_nobody_unready_who_does_not_ask_for_it() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let (live, dead) = (server.endpoint().url(), format!("redis://{}", Port::v4().release()));
    let shards = format!("[sharding]\nshards = [\"{live} name=a\", \"{dead} name=b\"]\n");
    let tenants = format!(
        "upstream = \"{live}\"\n[tenants.live]\nupstream = \"{live}\"\n[tenants.dead]\nupstream = \"{dead}\"\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respool.toml");
    for (text, serves, fails) in [(shards, "a", "b"), (tenants, "live", "dead")] {
        fs::write(&file, text).expect("written");
        let admin = Port::v4().release().to_string();
        let args = ["--admin-listen", &admin, "--admin-token", TOKEN];
        let _proxy = Respool::with_config(RESPOOL, &file).args(&args).start();
        let (base, agent) = (format!("http://{admin}"), agent());
        let status = |query: &str| told(agent.get(format!("{base}/readyz{query}")).call()).0;
        // Nobody has sent a request yet.
        wait::until_true("one that serves", SOON, || {
            status(&format!("?upstreams={serves}")) == 200
        });
        wait::until_true("the dead one", SOON, || status(&format!("?upstreams={fails}")) == 503);
        assert_eq!(status(""), 200);
        assert_eq!(status("?upstreams=any"), 200);
        assert_eq!(status("?upstreams=all"), 503);
        assert_eq!(status(&format!("?upstreams={serves},{fails}")), 503);
    }
}

#[test]
fn clients_are_listed_and_one_of_them_closed() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    let mut conns: Vec<Conn> = (0..6).map(|_| looked.proxy.connect()).collect();
    for (at, conn) in conns.iter_mut().enumerate() {
        assert_eq!(conn.ask(&format!("CLIENT SETNAME c{at}")), "+OK\r\n");
    }
    let (status, list) = looked.get("/clients");
    assert_eq!((status, list["count"].as_u64()), (200, Some(6)));
    let clients = list["clients"].as_array().expect("clients");
    let names: BTreeSet<&str> =
        clients.iter().map(|client| client["name"].as_str().expect("a name")).collect();
    assert_eq!(names.len(), 6);
    let third = clients.iter().find(|client| client["name"] == "c3").expect("the client");
    let path = format!("/clients/{}", third["id"].as_str().expect("an id"));
    assert_eq!(looked.delete(&path), (200, json!({"killed": 1})));
    assert_eq!(conns[3].read_to_close().expect("the end"), b"");
    assert_eq!(looked.delete(&path).0, 404);
    assert_eq!(looked.delete("/clients/nobody").0, 400);
    assert_eq!(looked.get("/clients").1["count"], 5);
}

#[test]
fn servers_are_shown_with_what_they_have() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    wait::until_true("readiness", SOON, || looked.get("/readyz").0 == 200);
    let address = looked.server.endpoint().url().replace("redis://", "");
    let (_, topology) = looked.get("/topology");
    let node = &topology["pools"][0]["nodes"][0];
    assert_eq!(
        (&node["address"], &node["state"]),
        (&json!(address), &json!("ready")),
        "{topology}"
    );
    assert_eq!(topology["pools"][0]["kind"], "standalone");
    let (_, upstreams) = looked.get("/upstreams");
    let upstream = &upstreams["upstreams"][0];
    assert_eq!((&upstream["role"], &upstream["state"]), (&json!("primary"), &json!("ready")));
    assert!(upstream["conns"]["shared"].as_u64() >= Some(2), "{upstreams}");
}

#[test]
fn what_is_counted_is_told_to_collectors_and_people() {
    if direct() {
        return;
    }
    let args =
        ["--hotkeys-enabled", "true", "--hotkeys-sample", "1", "--bigkeys-bytes-min", "16KiB"];
    let looked = Looked::with(&args);
    let mut conn = looked.proxy.connect();
    for _ in 0..20 {
        conn.ask("GET hot");
    }
    let large = "v".repeat(20_000);
    assert_eq!(conn.ask(&format!("SET big {large}")), "+OK\r\n");
    let (_, latency) = looked.get("/latency");
    let commands = latency["commands"].as_array().expect("commands");
    let get = commands.iter().find(|command| command["name"] == "get").expect("GET");
    assert_eq!((&get["calls"], &get["latency"]["count"]), (&json!(20), &json!(20)));
    assert!(conn.ask("LPUSH big x").starts_with("-WRONGTYPE"));
    assert!(conn.ask("AUHT secret").starts_with("-ERR unknown command"));
    let (_, errors) = looked.get("/errors");
    let errors = errors["errors"].as_array().expect("errors");
    let of = |word: &str| errors.iter().find(|error| error["word"] == word).expect("the error");
    let wrong = of("WRONGTYPE");
    assert_eq!((&wrong["command"], &wrong["count"]), (&json!("lpush"), &json!(1)));
    assert_eq!(wrong["node"], json!(looked.server.endpoint().tcp().to_string()));
    let client = format!(" addr={} ", wrong["client"].as_str().expect("an address"));
    assert!(conn.ask("CLIENT INFO").contains(&client), "{client}");
    assert!(wrong["text"].as_str().expect("a text").contains("wrong kind of value"));
    assert_eq!(of("ERR")["text"], json!("ERR unknown command 'AUHT'"));
    let (_, hot) = looked.get("/hotkeys");
    assert_eq!((&hot["keys"][0]["key"], &hot["keys"][0]["count"]), (&json!("hot"), &json!(20)));
    let (_, big) = looked.get("/bigkeys");
    assert_eq!(
        (&big["keys"][0]["key"], &big["keys"][0]["command"]),
        (&json!("big"), &json!("set"))
    );
    for path in ["/hotkeys", "/bigkeys"] {
        assert_eq!(looked.delete(path).0, 204);
        assert_eq!(looked.get(path).1["keys"], json!([]));
    }
    let page = |accept: &str| {
        let get = looked.agent.get(format!("{}/metrics", looked.base));
        let mut answer = get.header("Accept", accept).call().expect("the page");
        let kind = answer.headers()["content-type"].to_str().expect("text").to_owned();
        (kind, answer.body_mut().read_to_string().expect("the page"))
    };
    let (kind, text) = page("text/plain;version=0.0.4");
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    assert!(text.contains("# TYPE respool_requests_total counter"), "{text}");
    let (kind, text) = page("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(
        kind.starts_with("application/openmetrics-text") && text.ends_with("# EOF\n"),
        "{kind}"
    );
}

#[test]
fn options_are_shown_and_changed_and_written() {
    if direct() {
        return;
    }
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let (file, admin) = (folder.path().join("respool.toml"), Port::v4().release().to_string());
    let text = format!(
        "upstream = \"{}\"\n[admin]\ntoken = \"{TOKEN}\"\nlisten = \"{admin}\" # here\n",
        server.endpoint().url()
    );
    fs::write(&file, &text).expect("the file");
    let proxy = Respool::with_config(RESPOOL, &file).start();
    let looked = Looked { proxy, server, base: format!("http://{admin}"), agent: agent() };
    assert_eq!(looked.option("admin.listen")["origin"], "file");
    assert_eq!(looked.option("admin.listen")["live"], false);

    let wish = json!({"timeouts.request_ms": 123, "reads.weights": {"10.0.0.1": 3}, "password": "of-clients"});
    let (status, would) = looked.patch("/config?dry_run=true", &wish);
    assert_eq!((status, &would["applied"]), (200, &json!(false)));
    assert_eq!(would["changes"].as_array().map(Vec::len), Some(3), "{would}");
    assert_eq!(looked.option("timeouts.request_ms")["value"], 10_000);
    let (status, done) = looked.patch("/config", &wish);
    assert_eq!((status, &done["applied"]), (200, &json!(true)), "{done}");
    assert!(!done.to_string().contains("of-clients"), "{done}");
    assert_eq!(looked.option("timeouts.request_ms")["value"], 123);
    assert_eq!(looked.option("reads.weights")["value"], json!({"10.0.0.1": 3}));
    assert_eq!(looked.option("password")["value"], "***");
    assert!(looked.proxy.connect().ask("GET k").starts_with("-NOAUTH"));

    for (wrong, status, says) in [
        (
            json!({"timeouts.request_ms": "soon", "max_clients": 5}),
            422,
            "timeouts.request_ms: found `soon`",
        ),
        (json!({"timeouts.requst_ms": 1}), 422, "did you mean `timeouts.request_ms`"),
        (json!({"workers": 1}), 422, "workers: it needs a restart"),
        (json!([1]), 400, "invalid type"),
    ] {
        let (got, error) = looked.patch("/config", &wrong);
        assert_eq!(got, status, "{error}");
        assert!(error["error"].as_str().expect("an error").contains(says), "{error}");
    }
    assert_eq!(looked.option("max_clients")["value"], 10_000);

    assert_eq!(looked.post("/config/rewrite").0, 204);
    let written = fs::read_to_string(&file).expect("the file");
    assert!(written.contains("# here") && written.contains("request_ms = 123"), "{written}");
    assert_eq!(looked.patch("/config", &json!({"timeouts.request_ms": 124})).0, 200);
    // Taken back, what the file says counts again.
    assert_eq!(looked.patch("/config", &json!({"timeouts.request_ms": null})).0, 200);
    assert_eq!(looked.option("timeouts.request_ms")["value"], 123);
    let edited = written.replace("request_ms = 123", "request_ms = 77");
    fs::write(&file, edited).expect("the file");
    let (status, changes) = looked.post("/config/reload");
    let expected = json!([{"name": "timeouts.request_ms", "old": "123", "new": "77"}]);
    assert_eq!((status, &changes["changes"]), (200, &expected));
    fs::write(&file, "nonsense = 1\n").expect("the file");
    let (status, error) = looked.post("/config/reload");
    assert!(status == 422 && error.to_string().contains("unknown key"), "{error}");

    let put = |level: &str| {
        told(
            looked
                .agent
                .put(format!("{}/loglevel", looked.base))
                .send_json(json!({"level": level})),
        )
    };
    assert_eq!(put("debug").0, 200);
    assert_eq!(looked.get("/loglevel").1, json!({"level": "debug"}));
    assert_eq!(put("loud").0, 422);
}

#[test]
fn slow_requests_are_shown_and_forgotten() {
    if direct() {
        return;
    }
    let looked = Looked::with(&["--slowlog-slower-than-us", "0"]);
    let mut conn = looked.proxy.connect();
    assert_eq!(conn.ask("SET slow-key 1"), "+OK\r\n");
    assert!(conn.ask("AUTH hidden").starts_with('-'));
    let (_, log) = looked.get("/slowlog?count=10");
    let entries = log["entries"].as_array().expect("entries");
    let has = |args: &Value| entries.iter().any(|entry| entry["args"] == *args);
    assert!(has(&json!(["SET", "slow-key", "1"])), "{log}");
    assert!(has(&json!(["AUTH", "(redacted)"])), "{log}");
    assert_eq!(looked.delete("/slowlog").0, 204);
    assert_eq!(looked.get("/slowlog").1, json!({"entries": []}));
    assert_eq!(looked.get("/slowlog?count=x").0, 400);
}

#[test]
fn without_the_token_only_the_health_is_told() {
    if direct() {
        return;
    }
    let looked = Looked::with(&["--admin-token", "first"]);
    assert_eq!(looked.get("/healthz").0, 200);
    let asked = |token: &str| {
        let get = looked.agent.get(format!("{}/clients", looked.base));
        told(get.header("Authorization", format!("Bearer {token}")).call()).0
    };
    assert_eq!((looked.get("/clients").0, asked("wrong"), asked("first")), (401, 401, 200));
    let patch = looked.agent.patch(format!("{}/config", looked.base));
    let done = told(
        patch.header("Authorization", "Bearer first").send_json(json!({"admin.token": "second"})),
    );
    assert_eq!(done.0, 200);
    assert_eq!((asked("first"), asked("second")), (401, 200));
    assert!(!looked.proxy.process().log().contains("second"), "a secret in the log");
}

#[test]
fn pages_of_other_sites_get_nothing() {
    if direct() {
        return;
    }
    let looked = Looked::open();
    let asked = |name: &str, value: &str| {
        told(looked.agent.get(format!("{}/clients", looked.base)).header(name, value).call()).0
    };
    assert_eq!(asked("Origin", "http://evil.example"), 403);
    assert_eq!(asked("Host", "evil.example"), 403);
    assert_eq!(asked("Origin", &looked.base), 200);
}

/// Whoever can connect may be any user of the machine, or a service that was made to send a request.
#[test]
fn without_a_token_it_only_shows() {
    if direct() {
        return;
    }
    let looked = Looked::open();
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let touch = |text: &str| text.replace("MARK", &mark.display().to_string());
    let changes = [
        json!({"acl.users": [touch("x on ~* +@all \"password_command=touch MARK; echo pw\"")]}),
        json!({"policies.values.keys": [touch("k \"key_command=touch MARK; openssl rand -hex 32\"")]}),
        json!({"log.file": touch("MARK")}),
        json!({"timeouts.request_ms": 5}),
    ];
    for change in &changes {
        for path in ["/config", "/config?dry_run=true"] {
            let (status, said) = looked.patch(path, change);
            assert!(status == 403 && said.to_string().contains("admin.token"), "{path}: {said}");
        }
    }
    for path in ["/config/reload", "/config/rewrite", "/drain", "/undrain", "/healthz", "/"] {
        let (status, said) = looked.post(path);
        assert!(status == 403 && said.to_string().contains("admin.token"), "{path}: {said}");
    }
    for path in ["/clients/1", "/slowlog", "/hotkeys", "/bigkeys", "/shadow"] {
        assert_eq!(looked.delete(path).0, 403, "{path}");
    }
    assert_eq!(looked.get("/debug/flame?seconds=1").0, 403);
    for path in ["/healthz", "/config", "/stats", "/clients", "/slowlog", "/hotkeys", "/shadow"] {
        assert_eq!(looked.get(path).0, 200, "{path}");
    }
    assert_eq!(looked.option("timeouts.request_ms")["value"], 10_000);
    assert!(!mark.exists());
}

/// With a token a dry run is still only a question.
#[test]
fn a_dry_run_runs_no_command_and_the_change_does() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let line = format!("x on ~* +@all \"password_command=touch {}; echo pw\"", mark.display());
    let wish = json!({ "acl.users": [line] });
    let (status, would) = looked.patch("/config?dry_run=true", &wish);
    assert_eq!((status, &would["changes"][0]["name"]), (200, &json!("acl.users")), "{would}");
    assert!(!mark.exists(), "a dry run runs a command");
    assert_eq!(looked.patch("/config", &wish).0, 200);
    assert!(mark.exists());
    fs::remove_file(&mark).expect("the mark");
    // What is in force is known, and not asked for again.
    let (status, would) = looked.patch("/config?dry_run=true", &json!({"timeouts.ping_ms": 7}));
    assert_eq!((status, would["changes"].as_array().map(Vec::len)), (200, Some(1)), "{would}");
    assert!(!mark.exists());
}

/// Whoever changes an address does not know the password, or does not mean to tell it there.
#[test]
fn another_server_gets_no_password_that_was_given_for_the_first() {
    if direct() {
        return;
    }
    let other = TcpListener::bind("127.0.0.1:0").expect("a listener");
    other.set_nonblocking(true).expect("a listener that does not wait");
    let url = format!("redis://{}", other.local_addr().expect("its address"));
    let looked = Looked::with(&["--upstream-password", "hush"]);
    let (status, said) = looked.patch("/config", &json!({ "upstream": url }));
    assert!(status == 422 && said.to_string().contains("upstream_password"), "{said}");
    let before = looked.option("upstream");
    let both = json!({ "upstream": url, "upstream_password": "its-own" });
    assert_eq!(looked.patch("/config", &both).0, 200);
    assert_ne!(looked.option("upstream")["value"], before["value"]);
    let mut conn = wait::until("a connection", SOON, || other.accept().ok()).0;
    conn.set_nonblocking(false).expect("a connection that waits");
    conn.set_read_timeout(Some(SOON)).expect("a timeout");
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains("its-own") {
        let mut buf = [0; 4096];
        let count = conn.read(&mut buf).expect("the greeting");
        assert!(count > 0, "the end");
        said.extend_from_slice(&buf[..count]);
    }
    assert!(!String::from_utf8_lossy(&said).contains("hush"));
}

/// Each of these holds a connection of the admin listener for as long as it may.
#[test]
fn connections_that_say_nothing_or_little_do_not_keep_health_checks_out() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    let address = looked.base.trim_start_matches("http://").to_owned();
    let begins: [&[u8]; 5] = [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ",
        b"POST /drain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n",
        b"PATCH /config HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer of-tests\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer of-tests\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n",
    ];
    let mut held: Vec<TcpStream> = Vec::new();
    for at in 0..200 {
        let mut conn = TcpStream::connect(&address).expect("a connection");
        conn.write_all(begins[at % begins.len()]).expect("sent");
        held.push(conn);
        if at % 20 == 0 {
            let begun = std::time::Instant::now();
            assert_eq!(looked.get("/healthz").0, 200, "{at}");
            assert_eq!(looked.get("/stats").0, 200, "{at}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{at}: {:?}", begun.elapsed());
        }
    }
    // All of them are cut, whatever they go on saying.
    wait::until_true("all to be cut", Duration::from_secs(40), || {
        assert_eq!(looked.get("/healthz").0, 200);
        held.retain_mut(|conn| conn.write_all(b"1").is_ok());
        held.is_empty()
    });
}

#[test]
fn wrong_requests_and_many_connections_do_no_harm() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    assert_eq!(looked.get("/nothing").0, 404);
    assert_eq!(looked.post("/clients").0, 405);
    // Far beyond the bound: all of it is read before the refusal closes the connection.
    let large = json!({"password": "x".repeat(8 << 20)});
    assert_eq!(looked.patch("/config", &large).0, 413);
    let address = looked.base.trim_start_matches("http://").to_owned();
    // More than are served at once, and each says nothing or nonsense.
    let mut idle: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(&address).expect("a connection")).collect();
    for conn in idle.iter_mut().take(50) {
        conn.write_all(b"\x00\xff nonsense\r\n\r\n").expect("the nonsense");
    }
    // One more, which is the last to make room for others.
    let mut latest = TcpStream::connect(&address).expect("a connection");
    latest.write_all(b"\x00\xff nonsense\r\n\r\n").expect("the nonsense");
    let mut answer = Vec::new();
    let _ = latest.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(looked.proxy.connect().ask("PING"), "+PONG\r\n");
    // On a connection of its own: the one from before was the idlest, and had to make room.
    let health = || told(agent().get(format!("{}/healthz", looked.base)).call()).0;
    assert_eq!(health(), 200);
    drop(idle);
    assert_eq!(health(), 200);
}

#[test]
fn the_document_names_every_path() {
    if direct() {
        return;
    }
    let looked = Looked::start();
    let (status, document) = looked.get("/openapi.json");
    assert_eq!(status, 200);
    let paths = document["paths"].as_object().expect("paths");
    for (path, methods) in paths {
        // Not JSON: `metrics` above and `flame` ask for these.
        let is_text = ["/metrics", "/debug/flame"].contains(&path.as_str());
        let get = methods.get("get").is_some() && !path.contains('{') && !is_text;
        assert!(!get || matches!(looked.get(path).0, 200 | 503), "{path}");
    }
    assert!(paths.len() > 10, "{}", paths.len());
}

#[test]
fn it_can_be_a_unix_socket_whose_file_goes_with_it() {
    if direct() {
        return;
    }
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("admin.sock");
    let args = ["--admin-listen", &format!("unix:{}", path.display())];
    let mut proxy = Respool::to(RESPOOL, server.endpoint()).args(&args).start();
    let mut conn = std::os::unix::net::UnixStream::connect(&path).expect("a connection");
    conn.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("the request");
    let mut text = String::new();
    conn.read_to_string(&mut text).expect("the answer");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(proxy.terminate(SOON).is_some_and(|status| status.success()));
    assert!(!path.exists());
}
