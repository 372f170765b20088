//! Tenants: clients with servers, limits and figures of their own, in front of real servers.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use rustix::process::Signal;
use testkit::cluster::RedisCluster;
use testkit::ports::Port;
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct, info_field};

const USERS: &str = "[acl]\nusers = [\"ann on >pw ~* &* +@all\", \"bob on >pw ~* &* +@all\", \"eve on >pw ~* &* +@all\"]\n";

/// A server for everybody, one for a tenant, and a proxy in front of both.
struct Houses {
    // The order matters: the proxy goes before its servers and its file.
    proxy: Respool,
    red: RedisServer,
    blue: RedisServer,
    file: PathBuf,
    main: SocketAddr,
    side: SocketAddr,
    admin: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Houses {
    /// With these tables of tenants, in which `BLUE` is the second server; the listener at the side leads to the tenant `blue`.
    fn open(tenants: &str) -> Self {
        Self::open_with(2, tenants)
    }

    /// With so many workers.
    fn open_with(workers: u32, tenants: &str) -> Self {
        let (red, blue) = (RedisServer::start(), RedisServer::start());
        for (server, name) in [(&red, "red"), (&blue, "blue")] {
            assert_eq!(server.connect().ask(&format!("SET who {name}")), "+OK\r\n");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("respool.toml");
        let [main, side, admin] = [(); 3].map(|()| Port::v4().release());
        let text = Self::text(&red, &blue, (main, side, admin), tenants);
        fs::write(&file, text).expect("the file");
        let proxy = Respool::with_config(RESPOOL, &file).workers(workers);
        let proxy = proxy.listens_by_config(&Endpoint::Tcp(main)).start();
        Self { proxy, red, blue, file, main, side, admin, _folder: folder }
    }

    fn text(
        red: &RedisServer,
        blue: &RedisServer,
        (main, side, admin): (SocketAddr, SocketAddr, SocketAddr),
        tenants: &str,
    ) -> String {
        let side = match tenants.contains("[tenants.blue]") {
            true => format!("\"{side} name=side tenant=blue\""),
            false => format!("\"{side} name=side\""),
        };
        let tenants =
            tenants.replace("BLUE", &blue.endpoint().url()).replace("RED", &red.endpoint().url());
        format!(
            "upstream = \"{}\"\nlisten = [\"{main} name=main\", {side}]\n{USERS}[admin]\ntoken = \"t\"\nlisten = [\"{admin}\"]\n{tenants}",
            red.endpoint().url()
        )
    }

    /// Other tables from now on; returns when all workers work by them.
    fn change(&self, tenants: &str) {
        let at = (self.main, self.side, self.admin);
        self.reload(&Self::text(&self.red, &self.blue, at, tenants));
    }

    /// The same with the whole text.
    fn reload(&self, text: &str) {
        fs::write(&self.file, text).expect("the file");
        let body = self.http("POST", "/config/reload");
        assert!(body.contains("\"applied\":true"), "{body}");
    }

    /// The answer of the admin listener, whose workers have all done what was asked.
    fn http(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).expect("the admin listener");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer t\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    fn main(&self) -> Conn {
        Conn::to(&Endpoint::Tcp(self.main))
    }

    fn side(&self) -> Conn {
        Conn::to(&Endpoint::Tcp(self.side))
    }

    fn as_user(&self, name: &str) -> Conn {
        let mut conn = self.main();
        assert_eq!(conn.ask(&format!("AUTH {name} pw")), "+OK\r\n");
        conn
    }
}

/// Which server answers.
fn who(conn: &mut Conn) -> String {
    conn.ask("GET who").lines().nth(1).unwrap_or_default().to_owned()
}

const BLUE: &str =
    "[tenants.blue]\nupstream = \"BLUE\"\nusers = [\"bob\"]\nclient_names = [\"blue-*\"]\n";

#[test]
fn users_names_and_listeners_lead_to_a_tenant() {
    if direct() {
        return;
    }
    let houses = Houses::open(BLUE);
    let (mut main, mut side) = (houses.main(), houses.side());
    assert_eq!([who(&mut main), who(&mut side)], ["red", "blue"]);
    assert_eq!(who(&mut houses.as_user("ann")), "red");
    assert_eq!(who(&mut houses.as_user("bob")), "blue");
    // A pipeline over the change, in one packet.
    let requests = ["SET n 1", "AUTH bob pw", "GET who", "INCR n", "CLIENT SETNAME x", "GET who"];
    let requests: Vec<Vec<u8>> = requests.map(request).into();
    let replies = houses.main().pipeline(&requests).expect("the replies").concat();
    let expected = "+OK\r\n+OK\r\n$4\r\nblue\r\n:1\r\n+OK\r\n$4\r\nblue\r\n";
    assert_eq!(String::from_utf8_lossy(&replies), expected);
    assert_eq!(houses.red.connect().ask("GET n"), "$1\r\n1\r\n");
    assert_eq!(houses.blue.connect().ask("GET n"), "$1\r\n1\r\n");
    // By name, and back.
    assert_eq!(main.ask("CLIENT SETNAME blue-7"), "+OK\r\n");
    assert_eq!(who(&mut main), "blue");
    assert_eq!(main.ask("RESET"), "+RESET\r\n");
    assert_eq!(who(&mut main), "red");
    // HELLO over the change, in RESP3.
    main.command(&["HELLO", "3", "AUTH", "bob", "pw"]).expect("the facts");
    assert_eq!(main.ask("GET nothing"), "_\r\n");
    assert_eq!(who(&mut main), "blue");
    // Who listens cannot go.
    let mut listens = houses.main();
    listens.command(&["HELLO", "3"]).expect("the facts");
    listens.command(&["SUBSCRIBE", "news"]).expect("the confirmation");
    let refused = listens.ask("AUTH bob pw");
    assert!(refused.starts_with("-ERR respool: that belongs to another tenant"), "{refused}");
}

fn request(line: &str) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    testkit::frames::request(&words)
}

#[test]
fn a_tenant_sees_itself_and_the_operator_sees_all() {
    if direct() {
        return;
    }
    let houses = Houses::open(BLUE);
    let mut bobs: Vec<Conn> = (0..6).map(|_| houses.as_user("bob")).collect();
    let mut anns: Vec<Conn> = (0..4).map(|_| houses.as_user("ann")).collect();
    let lines = |conn: &mut Conn| {
        let text = conn.ask("CLIENT LIST");
        let lines: Vec<String> =
            text.lines().filter(|line| line.starts_with("id=")).map(str::to_owned).collect();
        lines
    };
    let of_bob = lines(&mut bobs[0]);
    assert_eq!(of_bob.len(), 6, "{of_bob:?}");
    assert!(of_bob.iter().all(|line| line.contains("user=bob") && line.ends_with(" tenant=blue")));
    let of_ann = lines(&mut anns[0]);
    assert!(of_ann.iter().all(|line| line.ends_with(" tenant=default")), "{of_ann:?}");
    assert_eq!(info_field(&mut bobs[0], "proxy", "tenant").as_deref(), Some("blue"));
    assert_eq!(info_field(&mut bobs[0], "clients", "connected_clients").as_deref(), Some("6"));
    // Numbers are those of one process.
    let mut ids: Vec<String> =
        bobs.iter_mut().chain(&mut anns).map(|c| c.ask("CLIENT ID")).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 10);
    // Nobody kills whom it does not see.
    let ann = anns[0].ask("CLIENT ID").trim().trim_start_matches(':').to_owned();
    assert_eq!(bobs[0].ask(&format!("CLIENT KILL ID {ann}")), ":0\r\n");
    let refused = bobs[0].ask("CONFIG GET respool.upstream");
    assert!(refused.starts_with("-ERR respool: this is about the whole proxy"), "{refused}");
    assert!(anns[0].ask("CONFIG GET respool.upstream").contains("upstream"));

    let metrics = houses.http("GET", "/metrics");
    let sum = |tenant: &str| -> u64 {
        let wanted = format!("tenant=\"{tenant}\"}}");
        let lines =
            metrics.lines().filter(|l| l.starts_with("respool_clients{") && l.contains(&wanted));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    assert_eq!((sum("blue"), sum("default")), (6, 4));
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("respool_build_info{") && !line.contains("tenant"))
    );
    let stats = houses.http("GET", "/stats");
    assert!(stats.contains("\"tenant\":\"blue\"") && stats.contains("\"clients\":6"), "{stats}");
    let clients = houses.http("GET", "/clients");
    assert_eq!(clients.matches("\"tenant\":\"blue\"").count(), 6, "{clients}");
    let topology = houses.http("GET", "/topology");
    assert_eq!(topology.matches("\"tenant\":\"blue\"").count(), 1, "{topology}");
    assert!(houses.http("GET", "/readyz").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_tenant_has_limits_of_its_own() {
    if direct() {
        return;
    }
    let slow = "[slowlog]\nslower_than_us = 60000000\n";
    let tenants =
        format!("{slow}{BLUE}clients_max = 2\n[tenants.blue.slowlog]\nslower_than_us = 0\n");
    let houses = Houses::open(&tenants);
    let (mut one, mut two) = (houses.as_user("bob"), houses.side());
    assert_eq!(two.ask("PING"), "+PONG\r\n");
    let full = "-ERR max number of clients of the tenant reached\r\n";
    let mut third = houses.main();
    assert_eq!(third.ask("AUTH bob pw"), full);
    assert_eq!(
        (who(&mut third), third.ask("ACL WHOAMI")),
        ("red".into(), "$7\r\ndefault\r\n".into())
    );
    let refused = houses.side().read_to_close().unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&refused), full);
    drop(two);
    wait::until_true("the seat", SOON, || houses.main().ask("AUTH bob pw") == "+OK\r\n");
    assert_eq!(third.ask("GET who").trim(), "$3\r\nred");
    assert_ne!(one.ask("SLOWLOG LEN"), ":0\r\n");
    assert_eq!(third.ask("SLOWLOG LEN"), ":0\r\n");
}

#[test]
fn a_route_changes_and_a_tenant_comes_and_goes() {
    if direct() {
        return;
    }
    let houses = Houses::open(BLUE);
    let (mut bob, mut ann, mut eve) =
        (houses.as_user("bob"), houses.as_user("ann"), houses.as_user("eve"));
    assert_eq!([who(&mut bob), who(&mut ann), who(&mut eve)], ["blue", "red", "red"]);
    // Another route: the client keeps its connection.
    houses.change(&BLUE.replace("BLUE", "RED"));
    assert_eq!(who(&mut bob), "red");
    // To a cluster.
    let cluster = RedisCluster::start(3, 0);
    houses.change(&BLUE.replace("BLUE", &cluster.url()));
    for n in 0..20 {
        assert_eq!(bob.ask(&format!("SET k{n} v")), "+OK\r\n");
    }
    assert!(bob.ask("MGET k1 k2 k3 k4").starts_with("*4\r\n$1\r\nv\r\n"));
    assert_eq!(houses.red.connect().ask("EXISTS k1 k2 k3"), ":0\r\n");
    // A second tenant, to which a user goes that is here: it is closed, and comes where it belongs.
    let both = format!("{BLUE}[tenants.green]\nusers = [\"eve\"]\nupstream = \"BLUE/5\"\n");
    houses.change(&both);
    assert_eq!(who(&mut bob), "blue");
    assert!(eve.read_to_close().unwrap_or_default().is_empty());
    let mut eve = houses.as_user("eve");
    assert_eq!(eve.ask("GET who"), "$-1\r\n");
    // A tenant goes: its clients are closed, everybody else stays.
    houses.change("");
    assert!(bob.read_to_close().unwrap_or_default().is_empty());
    assert!(eve.read_to_close().unwrap_or_default().is_empty());
    assert_eq!(who(&mut ann), "red");
    assert_eq!(who(&mut houses.as_user("bob")), "red");
    assert!(houses.proxy.process().log().contains("a tenant is gone"));
    // And comes back, as another one.
    houses.change(BLUE);
    assert_eq!(who(&mut houses.as_user("bob")), "blue");
    assert_eq!(who(&mut houses.side()), "blue");
    // What is wrong changes nothing, and is told where it stands.
    let at = (houses.main, houses.side, houses.admin);
    let wrong = BLUE.replace("bob", "nobody") + "workers = 2\n";
    fs::write(&houses.file, Houses::text(&houses.red, &houses.blue, at, &wrong)).expect("the file");
    houses.proxy.process().signal(Signal::HUP);
    wait::until_true("the message", SOON, || {
        let log = houses.proxy.process().log();
        log.contains("there is no user `nobody`") && log.contains("tenants.blue.workers")
    });
    assert_eq!(who(&mut houses.as_user("bob")), "blue");
}

/// A server knows whoever has an identity of its own there, and its rules hold: for the shared connections, and for those that are lent.
#[test]
fn a_user_can_be_somebody_of_its_own_at_the_servers() {
    if direct() {
        return;
    }
    let upstream = |user: &str| {
        format!(
            "[tenants.{user}]\nusers = [\"{user}\"]\nupstream = \"RED\"\nupstream_user = \"{user}\"\nupstream_password = \"of-{user}\"\n"
        )
    };
    let tables = upstream("bob") + &upstream("eve");
    let houses = Houses::open("");
    let mut server = houses.red.connect();
    for user in ["bob", "eve"] {
        let rule = format!("ACL SETUSER {user} on >of-{user} ~{user}:* &* +@all");
        assert_eq!(server.ask(&rule), "+OK\r\n");
    }
    houses.change(&tables);
    let mut anybody = houses.main();
    assert_eq!(anybody.ask("ACL SERVER WHOAMI"), "$7\r\ndefault\r\n");
    for (user, other) in [("bob", "eve"), ("eve", "bob")] {
        let mut conn = houses.as_user(user);
        assert_eq!(conn.ask("ACL SERVER WHOAMI"), format!("$3\r\n{user}\r\n"));
        assert_eq!(conn.ask(&format!("SET {user}:k 1")), "+OK\r\n");
        let refused = conn.ask(&format!("SET {other}:k 1"));
        assert!(refused.starts_with("-NOPERM"), "{refused}");
        assert_eq!(conn.ask(&format!("WATCH {user}:k")), "+OK\r\n");
        assert_eq!(conn.ask("MULTI"), "+OK\r\n");
        assert_eq!(conn.ask(&format!("INCR {user}:k")), "+QUEUED\r\n");
        assert_eq!(conn.ask("EXEC"), "*1\r\n:2\r\n");
        assert_eq!(conn.ask(&format!("WATCH {user}:k")), "+OK\r\n");
        assert_eq!(conn.ask("MULTI"), "+OK\r\n");
        let refused = conn.ask(&format!("INCR {other}:k"));
        assert!(refused.starts_with("-NOPERM"), "{refused}");
    }
    let log = server.ask("ACL LOG");
    assert!(log.contains("\r\nbob\r\n") && log.contains("\r\neve\r\n"), "{log}");
}

/// Clients that can say nothing but a password come to the tenant of whoever has it.
#[test]
fn a_password_alone_leads_to_a_tenant() {
    if direct() {
        return;
    }
    let tables = "[tenants.blue]\nusers = [\"bob\"]\nupstream = \"BLUE\"\n";
    let houses = Houses::open(tables);
    let text = fs::read_to_string(&houses.file).expect("the file");
    let own = text
        .replace("bob on >pw", "bob on >of-bob")
        .replace("[acl]\n", "[acl]\nby_password = [\"bob\", \"ann\"]\n");
    let mut conn = houses.main();
    let not_configured = conn.ask("AUTH of-bob");
    assert!(
        not_configured.starts_with("-ERR AUTH <password> called without any"),
        "{not_configured}"
    );
    fs::write(&houses.file, own).expect("the file");
    houses.proxy.reread(SOON);
    for line in ["AUTH of-bob", "AUTH default of-bob", "AUTH bob of-bob"] {
        let mut conn = houses.main();
        assert_eq!(conn.ask(line), "+OK\r\n", "{line}");
        assert_eq!(who(&mut conn), "blue", "{line}");
        assert_eq!(conn.ask("ACL WHOAMI"), "$3\r\nbob\r\n", "{line}");
    }
    let mut conn = houses.main();
    assert_eq!(conn.ask("AUTH pw"), "+OK\r\n");
    assert_eq!(
        (who(&mut conn).as_str(), conn.ask("ACL WHOAMI").as_str()),
        ("red", "$3\r\nann\r\n")
    );
    let wrong = houses.main().ask("AUTH nobodys");
    assert_eq!(wrong, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
}

/// What the guide tells people to write does what it says.
#[test]
fn the_configuration_of_the_guide_runs() {
    if direct() {
        return;
    }
    let guide = include_str!("../../../../docs/guides/tenants.md");
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let (red, cluster) = (RedisServer::start(), RedisCluster::start(3, 0));
    let [main, side] = [(); 2].map(|()| Port::v4().release());
    let folder = tempfile::tempdir().expect("a folder");
    let password = folder.path().join("password");
    fs::write(&password, "pw\n").expect("the file");
    let mut text = text.expect("a configuration").to_owned();
    for (from, to) in [
        ("redis-cluster://127.0.0.1:7000,127.0.0.1:7001", cluster.url()),
        ("redis://127.0.0.1:6379", red.endpoint().url()),
        ("127.0.0.1:6380", main.to_string()),
        ("127.0.0.1:6390 ", format!("{side} ")),
        ("/etc/respool/app-password", password.display().to_string()),
        ("/etc/respool/shop-password", password.display().to_string()),
        ("/etc/respool/invoices-password", password.display().to_string()),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, &to);
    }
    let file = folder.path().join("respool.toml");
    fs::write(&file, text).expect("the file");
    let _proxy =
        Respool::with_config(RESPOOL, &file).listens_by_config(&Endpoint::Tcp(main)).start();
    let login = |at: SocketAddr, user: &str| {
        let mut conn = Conn::to(&Endpoint::Tcp(at));
        assert_eq!(conn.ask(&format!("AUTH {user} pw")), "+OK\r\n");
        conn
    };
    let tenant = |conn: &mut Conn| info_field(conn, "proxy", "tenant").expect("a tenant");
    let (mut app, mut shop) = (login(main, "app"), login(main, "shop"));
    assert_eq!((&*tenant(&mut app), &*tenant(&mut shop)), ("default", "billing"));
    assert_eq!(tenant(&mut login(side, "app")), "billing");
    assert_eq!(app.ask("SET k app"), "+OK\r\n");
    assert_eq!((shop.ask("GET k"), shop.ask("SET k shop")), ("$-1\r\n".into(), "+OK\r\n".into()));
    assert_eq!(app.ask("GET k"), "$3\r\napp\r\n");
    assert_eq!(app.ask("CLIENT SETNAME batch-1"), "+OK\r\n");
    assert_eq!((tenant(&mut app), app.ask("GET k")), ("batch".into(), "$-1\r\n".into()));
    assert_eq!(app.ask("SELECT 0"), "+OK\r\n");
    assert_eq!(app.ask("GET k"), "$3\r\napp\r\n");
}

#[test]
fn a_rate_of_connections_is_that_of_the_listeners_tenant() {
    if direct() {
        return;
    }
    let rate = "[tenants.blue.policies]\nrate = [\"connections=1 burst=3 name=blue\"]\n";
    let houses = Houses::open(&format!("[tenants.blue]\nupstream = \"BLUE\"\n{rate}"));
    let begin = std::time::Instant::now();
    let (mut came, mut refused) = (Vec::new(), 0);
    for _ in 0..12 {
        let mut conn = houses.side();
        match conn.command(&["PING"]) {
            Ok(reply) if reply == b"+PONG\r\n" => came.push(conn),
            _ => refused += 1,
        }
    }
    let most = 3 + begin.elapsed().as_secs() as usize + 2;
    assert!((3..=most).contains(&came.len()), "{} of {most}", came.len());
    // Others come as they like, and who is there goes on.
    for _ in 0..20 {
        assert_eq!(who(&mut houses.main()), "red");
    }
    assert_eq!(who(&mut came[0]), "blue");
    let info = came[0].ask("INFO policies");
    assert!(info.contains(&format!("policy_rate-blue:refused={refused},")), "{info}");
    let all = info_field(&mut houses.main(), "stats", "refused_clients_rate");
    assert_eq!(all, Some(refused.to_string()));
}

/// A field of a line of INFO that has several.
fn figure(conn: &mut Conn, section: &str, line: &str, name: &str) -> u64 {
    let line = info_field(conn, section, line).expect("there is such a line");
    let value = line.split(',').find_map(|field| field.strip_prefix(&format!("{name}=")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
}

#[test]
fn each_tenants_writes_go_to_its_own_mirror_and_reports_say_whose() {
    if direct() {
        return;
    }
    let [for_red, for_blue] = [(); 2].map(|()| RedisServer::start());
    let [red_url, blue_url] = [&for_red, &for_blue].map(|server| server.endpoint().url());
    // Both are called the same: names are a tenant's own.
    let tables = format!(
        "[mirrors]\ntargets = \"{red_url} name=new shadow_reads=100\"\n{BLUE}\
         [tenants.blue.mirrors]\ntargets = \"{blue_url} name=new shadow_reads=100\"\n"
    );
    let houses = Houses::open_with(1, &tables);
    let (mut red, mut blue) = (houses.main(), houses.side());
    for number in 0..20 {
        assert_eq!(red.ask(&format!("SET r:{number} red")), "+OK\r\n");
        assert_eq!(blue.ask(&format!("SET b:{number} blue")), "+OK\r\n");
    }
    blue.ask("SET b:more blue");
    let done = |conn: &mut Conn| figure(conn, "mirrors", "mirror_0", "done");
    wait::until_true("both are told", SOON, || done(&mut red) == 20 && done(&mut blue) == 21);
    assert_eq!(for_red.connect().ask("DBSIZE"), ":20\r\n");
    assert_eq!(for_blue.connect().ask("DBSIZE"), ":21\r\n");
    assert_eq!(for_blue.connect().ask("EXISTS r:1"), ":0\r\n");
    // What one of them reads otherwise is told of that one.
    for_blue.connect().ask("SET b:1 other");
    let compared =
        |conn: &mut Conn, name: &str| figure(conn, "mirrors", "mirror_0_shadow_reads", name);
    wait::until_true("a difference is seen", SOON, || {
        red.ask("GET r:1");
        blue.ask("GET b:1");
        compared(&mut blue, "different") > 0 && compared(&mut red, "equal") > 0
    });
    assert_eq!(compared(&mut red, "different"), 0);
    let body = |path: &str| {
        let answer = houses.http("GET", path);
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    };
    let shadow: serde_json::Value = serde_json::from_str(&body("/shadow")).expect("JSON");
    let of = |name: &str| {
        let all = shadow["mirrors"].as_array().expect("a list");
        all.iter().find(|one| one["tenant"] == name).cloned().expect("that of the tenant")
    };
    assert_eq!((&of("blue")["mirror"], &of("default")["mirror"]), (&"new".into(), &"new".into()));
    assert_eq!(of("blue")["samples"][0]["key"], "b:1");
    assert_eq!(of("default")["total"]["different"], 0);
    let stats: serde_json::Value = serde_json::from_str(&body("/stats")).expect("JSON");
    let told: Vec<_> = stats["mirrors"].as_array().expect("a list").iter().collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().any(|one| one["tenant"] == "blue" && one["done"] == 21), "{told:?}");
    let metrics = body("/metrics");
    for (tenant, done) in [("default", 20), ("blue", 21)] {
        let sample = format!(
            "respool_mirror_writes_total{{mirror=\"new\",outcome=\"done\",tenant=\"{tenant}\"}} {done}\n"
        );
        assert!(metrics.contains(&sample), "{metrics}");
    }
}

/// The tenant `blue` with a mirror that got a write and then hangs: the mirror, the proxy, a client of the tenant, and the tenant's tables.
fn with_a_hung_mirror() -> (RedisServer, Houses, Conn, String) {
    let mirror = RedisServer::start();
    let tables = format!(
        "{BLUE}[tenants.blue.mirrors]\ntargets = \"{} name=new\"\n",
        mirror.endpoint().url()
    );
    let houses = Houses::open_with(1, &tables);
    let mut blue = houses.side();
    assert_eq!(blue.ask("SET first 1"), "+OK\r\n");
    wait::until_true("it is told", SOON, || figure(&mut blue, "mirrors", "mirror_0", "done") == 1);
    mirror.pause();
    (mirror, houses, blue, tables)
}

#[test]
fn a_tenant_that_goes_leaves_its_mirror_nothing_unsaid() {
    if direct() {
        return;
    }
    let (mirror, houses, mut blue, _) = with_a_hung_mirror();
    for number in 0..50 {
        assert_eq!(blue.ask(&format!("SET k:{number} v")), "+OK\r\n");
    }
    houses.change("");
    blue.read_to_close().expect("its tenant is gone");
    mirror.resume();
    let mut there = mirror.connect();
    wait::until_true("all was told", SOON, || there.ask("DBSIZE") == ":51\r\n");
}

// More than sockets hold waits for the mirror that hangs when the tenant goes; the tenant that comes back writes the keys anew.
#[test]
fn a_tenant_that_comes_back_tells_its_mirror_behind_what_it_left() {
    if direct() {
        return;
    }
    let (mirror, houses, mut blue, tables) = with_a_hung_mirror();
    let value = "x".repeat(32 << 10);
    for number in 0..400 {
        assert_eq!(blue.ask(&format!("SET k:{} old{value}", number % 4)), "+OK\r\n");
    }
    houses.change("");
    blue.read_to_close().expect("its tenant is gone");
    houses.change(&tables);
    let mut blue = houses.side();
    for number in 0..4 {
        assert_eq!(blue.ask(&format!("SET k:{number} new")), "+OK\r\n");
    }
    mirror.resume();
    wait::until_true("all was told", SOON, || {
        figure(&mut blue, "mirrors", "mirror_0", "done") == 4
    });
    let mut there = mirror.connect();
    for number in 0..4 {
        assert_eq!(there.ask(&format!("GET k:{number}")), "$3\r\nnew\r\n");
    }
}

#[test]
fn a_tenant_reads_from_a_target_of_its_own() {
    if direct() {
        return;
    }
    let near = RedisServer::start();
    near.connect().ask("SET who near");
    let tables = format!(
        "{BLUE}[tenants.blue.read_targets]\ntargets = \"{} name=near\"\n",
        near.endpoint().url()
    );
    let houses = Houses::open(&tables);
    let (mut red, mut blue) = (houses.main(), houses.side());
    wait::until_true("the target answers", SOON, || who(&mut blue) == "near");
    assert_eq!(who(&mut red), "red");
    assert_eq!(info_field(&mut red, "read_targets", "read_targets").as_deref(), Some("0"));
    assert!(figure(&mut blue, "read_targets", "read_target_0", "answered") > 0);
    let stats = houses.http("GET", "/stats");
    assert!(stats.contains("\"read_targets\":[{\"name\":\"near\",\"tenant\":\"blue\""), "{stats}");
    // Who goes over to the tenant is answered by its target, and who comes back is not.
    let mut bob = houses.as_user("bob");
    assert_eq!(who(&mut bob), "near");
    bob.ask("AUTH ann pw");
    assert_eq!(who(&mut bob), "red");
    drop(near);
    assert_eq!(who(&mut blue), "blue", "the upstream answers what the target does not");
}

#[test]
fn a_tenants_mirror_and_target_come_and_go_with_the_file() {
    if direct() {
        return;
    }
    let [mirror, near] = [(); 2].map(|()| RedisServer::start());
    near.connect().ask("SET who near");
    let with = format!(
        "{BLUE}[tenants.blue.mirrors]\ntargets = \"{} name=new\"\n[tenants.blue.read_targets]\ntargets = \"{} name=near\"\n",
        mirror.endpoint().url(),
        near.endpoint().url()
    );
    let houses = Houses::open_with(1, BLUE);
    let (mut red, mut blue) = (houses.main(), houses.side());
    for round in 0..3 {
        assert_eq!((who(&mut red), who(&mut blue)), ("red".to_owned(), "blue".to_owned()));
        houses.change(&with);
        assert_eq!(red.ask(&format!("SET r:{round} 1")), "+OK\r\n");
        assert_eq!(blue.ask(&format!("SET b:{round} 1")), "+OK\r\n");
        wait::until_true("the target answers", SOON, || who(&mut blue) == "near");
        assert_eq!(who(&mut red), "red");
        houses.change(BLUE);
        assert_eq!(blue.ask(&format!("SET late:{round} 1")), "+OK\r\n");
    }
    let mut there = mirror.connect();
    wait::until_true("the mirror has all", SOON, || there.ask("DBSIZE") == ":3\r\n");
    assert_eq!(there.ask("EXISTS b:0 b:1 b:2 r:0 late:0"), ":3\r\n");
    // Other servers of a tenant with mirrors wait for a restart, and the mirrors with them.
    houses.change(&with);
    let other = with.replace("\"BLUE\"", "\"RED\"").replace("name=new", "name=other");
    houses.change(&other);
    assert!(houses.proxy.process().log().contains("other servers of a tenant with mirrors"));
    blue.ask("SET last 1");
    assert_eq!(houses.blue.connect().ask("EXISTS last"), ":1\r\n");
    wait::until_true("it is still the mirror", SOON, || there.ask("EXISTS last") == ":1\r\n");
    // With two workers there is no order, and nothing changes.
    let several = Houses::open_with(2, BLUE);
    let at = (several.main, several.side, several.admin);
    let text = Houses::text(&several.red, &several.blue, at, &with);
    fs::write(&several.file, text).expect("the file");
    let body = several.http("POST", "/config/reload");
    assert!(!body.contains("\"applied\":true"), "{body}");
    assert!(body.contains("tenants.blue.mirrors.targets: `workers` is 2"), "{body}");
}
