//! Users of the servers: a name and a password that are given on, and connections that are logged in with them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use engine::limits::LOGINS_TRIED_MAX;
use rustix::process::Signal;
use testkit::cluster::RedisCluster;
use testkit::ports::Port;
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct, info_field};

const USERS: [&str; 3] = [
    "ACL SETUSER ann on >pa ~a:* &a* +@all -@dangerous -@admin",
    "ACL SETUSER bob on >pb ~b:* &b* +@read +set +incr +@scripting +@pubsub +@connection +@transaction +acl|whoami",
    // No more than it needs.
    "ACL SETUSER gus on >pg ~g:* resetchannels -@all +get",
];

/// A server with users, a proxy in front of it that has one of its own, and an admin listener.
struct Stage {
    // The order matters: the proxy goes before its server.
    proxy: Respool,
    server: RedisServer,
    admin: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn open() -> Self {
        let server = RedisServer::start();
        let mut root = server.connect();
        for user in USERS {
            assert_eq!(root.ask(user), "+OK\r\n");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("respool.toml");
        let [main, admin] = [(); 2].map(|()| Port::v4().release());
        let text = format!(
            "upstream = \"{}\"\nlisten = [\"{main}\"]\nworkers = 2\n[acl]\npass_through = true\nusers = [\"default off\", \
             \"root on >pw ~* &* +@all\", \"gone off >pz ~* +@all\"]\n[admin]\nlisten = [\"{admin}\"]\n",
            server.endpoint().url()
        );
        fs::write(&file, text).expect("the file");
        let proxy =
            Respool::with_config(RESPOOL, &file).listens_by_config(&Endpoint::Tcp(main)).start();
        Self { proxy, server, admin, _folder: folder }
    }

    fn connect(&self) -> Conn {
        self.proxy.connect()
    }

    #[track_caller]
    fn log_in(&self, name: &str, password: &str) -> Conn {
        let mut conn = self.connect();
        assert_eq!(conn.ask(&format!("AUTH {name} {password}")), "+OK\r\n");
        conn
    }

    fn root(&self) -> Conn {
        self.log_in("root", "pw")
    }

    /// Lines of the server's list of clients with this user.
    fn conns_of(&self, user: &str) -> usize {
        let list = self.server.connect().ask("CLIENT LIST");
        list.lines().filter(|line| line.contains(&format!(" user={user} "))).count()
    }

    fn http(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).expect("the admin listener");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }
}

#[test]
fn a_name_and_a_password_of_the_server_are_enough() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let mut conn = stage.connect();
    assert!(conn.ask("GET a:1").starts_with("-NOAUTH"));
    // A pipeline over the change, in one packet.
    let requests = ["PING", "AUTH ann pa", "SET a:1 x", "GET a:1", "ACL WHOAMI", "GET b:1"];
    let requests: Vec<Vec<u8>> = requests.map(request).into();
    let replies = conn.pipeline(&requests).expect("the replies");
    let replies: Vec<String> =
        replies.iter().map(|reply| String::from_utf8_lossy(reply).into_owned()).collect();
    assert!(replies[0].starts_with("-NOAUTH"), "{replies:?}");
    assert_eq!(replies[1..5].concat(), "+OK\r\n+OK\r\n$1\r\nx\r\n$3\r\nann\r\n");
    // In the words of the server, as a direct client has them.
    let mut straight = stage.server.connect();
    assert_eq!(straight.ask("AUTH ann pa"), "+OK\r\n");
    assert_eq!(replies[5], straight.ask("GET b:1"));
    assert!(replies[5].starts_with("-NOPERM"));
    // HELLO, in RESP3, over to another one, and back to nobody.
    let hello = conn.command(&["HELLO", "3", "AUTH", "bob", "pb", "SETNAME", "b1"]).unwrap();
    assert!(hello.starts_with(b"%"), "{}", String::from_utf8_lossy(&hello));
    assert_eq!(conn.ask("ACL WHOAMI"), "$3\r\nbob\r\n");
    assert_eq!(conn.ask("CLIENT GETNAME"), "$2\r\nb1\r\n");
    assert_eq!(conn.ask("GET b:none"), "_\r\n");
    assert!(conn.ask("GET a:1").starts_with("-NOPERM"));
    assert_eq!(conn.ask("RESET"), "+RESET\r\n");
    assert!(conn.ask("GET b:none").starts_with("-NOAUTH"));
    // One of the proxy's own.
    assert_eq!(conn.ask("AUTH root pw"), "+OK\r\n");
    assert_eq!(conn.ask("GET a:1"), "$1\r\nx\r\n");
    assert_eq!(conn.ask("AUTH bob pb"), "+OK\r\n");
    assert_eq!(conn.ask("AUTH root pw"), "+OK\r\n");
    assert_eq!(conn.ask("GET a:1"), "$1\r\nx\r\n");
    // The database stays, as at a server.
    let mut conn = stage.root();
    assert_eq!(conn.ask("SELECT 3"), "+OK\r\n");
    assert_eq!(conn.ask("SET a:3 three"), "+OK\r\n");
    assert_eq!(conn.ask("AUTH ann pa"), "+OK\r\n");
    assert_eq!(conn.ask("GET a:3"), "$5\r\nthree\r\n");
}

#[test]
fn wrong_passwords_get_the_servers_words_and_change_nothing() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let mut straight = stage.server.connect();
    let wrong = straight.ask("AUTH ann nonsense");
    assert!(wrong.starts_with("-WRONGPASS"));
    let mut conn = stage.connect();
    assert_eq!(conn.ask("AUTH ann nonsense"), wrong);
    assert!(conn.ask("GET a:1").starts_with("-NOAUTH"), "nobody still");
    assert_eq!(conn.ask("AUTH nobody x"), straight.ask("AUTH nobody x"));
    let hello = ["HELLO", "3", "AUTH", "ann", "nonsense"];
    assert_eq!(conn.command(&hello).unwrap(), straight.command(&hello).unwrap());
    // Who is one of the proxy's own is judged here, and a name alone opens nothing.
    assert!(conn.ask("AUTH gone pz").starts_with("-WRONGPASS"));
    let mut ann = stage.log_in("ann", "pa");
    assert_eq!(ann.ask("SET a:1 x"), "+OK\r\n");
    for password in ["pb", "PA", "", "pa "] {
        let reply = conn.command(&["AUTH", "ann", password]).unwrap();
        assert!(reply.starts_with(b"-WRONGPASS"), "{password}");
    }
    assert!(conn.ask("GET a:1").starts_with("-NOAUTH"));
    // Who was somebody stays that.
    assert_eq!(ann.ask("AUTH bob nonsense"), wrong);
    assert_eq!(ann.ask("ACL WHOAMI"), "$3\r\nann\r\n");
    assert_eq!(ann.ask("GET a:1"), "$1\r\nx\r\n");
    let mut root = stage.root();
    assert_eq!(root.ask("AUTH bob nonsense"), wrong);
    assert_eq!(root.ask("ACL WHOAMI"), "$4\r\nroot\r\n");
    assert_eq!(stage.conns_of("bob"), 0, "no connection for a wrong password");
    // The server has a password for its own default user, too.
    assert_eq!(straight.ask("CONFIG SET requirepass hush"), "+OK\r\n");
    assert_eq!(conn.ask("AUTH hush"), "+OK\r\n");
    assert_eq!(conn.ask("ACL WHOAMI"), "$7\r\ndefault\r\n");
    assert_eq!(conn.ask("GET a:1"), "$1\r\nx\r\n");
    let mut other = stage.connect();
    assert!(other.ask("AUTH nonsense").starts_with("-WRONGPASS"));
    assert_eq!(other.ask("AUTH default hush"), "+OK\r\n");
    assert_eq!(straight.ask("CONFIG SET requirepass ''"), "+OK\r\n");
}

/// Many clients of two users whose rights have nothing in common, over the same workers, with all kinds of requests in pipelines.
#[test]
fn two_users_multiplexed_never_have_each_others_rights() {
    if direct() {
        return;
    }
    const CLIENTS: usize = 60;
    const ROUNDS: usize = 60;
    let stage = Stage::open();
    let mut root = stage.server.connect();
    assert_eq!(root.ask("SET a:secret of-ann"), "+OK\r\n");
    assert_eq!(root.ask("SET b:secret of-bob"), "+OK\r\n");
    assert_eq!(root.ask("ACL LOG RESET"), "+OK\r\n");
    let front = stage.proxy.endpoint().clone();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let front = front.clone();
            scope.spawn(move || {
                let mut conn = Conn::to(&front);
                for round in 0..ROUNDS {
                    // Now and then a client becomes the other one.
                    let is_ann = (number + round / 20) % 2 == 0;
                    let (own, other, name, password) =
                        if is_ann { ("a", "b", "ann", "pa") } else { ("b", "a", "bob", "pb") };
                    if round % 20 == 0 {
                        assert_eq!(conn.ask(&format!("AUTH {name} {password}")), "+OK\r\n");
                    }
                    let value = format!("{number}-{round}");
                    let requests = [
                        format!("SET {own}:{number} {value}"),
                        format!("GET {own}:{number}"),
                        format!("GET {other}:secret"),
                        format!("GET {own}:secret"),
                        format!("EVAL return(redis.call('get','{other}:secret')) 0"),
                        format!("EVAL return(redis.call('get','{own}:secret')) 0"),
                        "ACL WHOAMI".to_owned(),
                        format!("SET {other}:{number} bad"),
                    ];
                    let requests: Vec<Vec<u8>> =
                        requests.iter().map(|line| request(line)).collect();
                    let replies = conn.pipeline(&requests).expect("the replies");
                    let texts: Vec<String> = replies
                        .iter()
                        .map(|reply| String::from_utf8_lossy(reply).into_owned())
                        .collect();
                    let secret = format!("$6\r\nof-{name}\r\n");
                    assert_eq!(texts[0], "+OK\r\n");
                    assert_eq!(texts[1], format!("${}\r\n{value}\r\n", value.len()));
                    assert!(texts[2].starts_with("-NOPERM"), "{texts:?}");
                    assert_eq!(texts[3], secret);
                    // Since Redis 7.2 it is the second.
                    let refusals =
                        ["-ERR The user executing the script can't", "-NOPERM ACL failure"];
                    assert!(refusals.iter().any(|text| texts[4].starts_with(text)), "{texts:?}");
                    assert_eq!(texts[5], secret);
                    assert_eq!(texts[6], format!("$3\r\n{name}\r\n"));
                    assert!(texts[7].starts_with("-NOPERM"), "{texts:?}");
                }
            });
        }
    });
    // The server saw nobody but the two try what is not theirs, each with the other's keys only.
    let log = root.ask("ACL LOG 128");
    assert!(log.contains("b:secret") && log.contains("a:secret"), "{log}");
    for number in 0..CLIENTS {
        for own in ["a", "b"] {
            assert_ne!(root.ask(&format!("GET {own}:{number}")), "$3\r\nbad\r\n");
        }
    }
    // They share connections: in each of the workers one of the login, and those over which clients logged in last as this one.
    for user in ["ann", "bob"] {
        let count = stage.conns_of(user);
        // The two logins and the proxy itself try passwords.
        let most = 2 * (1 + 3 * LOGINS_TRIED_MAX);
        assert!(most < CLIENTS / 2 && (1..=most).contains(&count), "{user}: {count}");
    }
}

#[test]
fn what_the_proxy_answers_is_asked_of_the_server_too() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let mut gus = stage.log_in("gus", "pg");
    let mut straight = stage.server.connect();
    assert_eq!(straight.ask("AUTH gus pg"), "+OK\r\n");
    assert_eq!(gus.ask("GET g:1"), "$-1\r\n");
    for line in [
        "PING",
        "ECHO x",
        "SELECT 1",
        "INFO",
        "CLIENT LIST",
        "CLIENT ID",
        "CLIENT SETNAME x",
        "CLIENT KILL ID 99999",
        "CLIENT PAUSE 1000",
        "CLIENT UNBLOCK 1",
        "SLOWLOG GET",
        "ACL WHOAMI",
        "ACL LIST",
        "ACL SETUSER gus +@all",
        "SUBSCRIBE g",
        "EVAL return(1) 0",
        "GET b:1",
        "SET g:1 x",
        "CONFIG GET maxmemory",
        "WATCH g:1",
    ] {
        let (here, there) = (gus.ask(line), straight.ask(line));
        assert!(there.starts_with("-NOPERM"), "{line}: {there}");
        assert_eq!(here, there, "{line}");
    }
    assert!(gus.ask("MONITOR").starts_with("-NOPERM"));
    assert!(gus.ask("CONFIG GET respool.*").starts_with("-"));
    // What it needs at least is the right to read its keys.
    assert_eq!(stage.server.connect().ask("SET g:1 mine"), "+OK\r\n");
    assert_eq!(gus.ask("GET g:1"), "$4\r\nmine\r\n");
    // Who may, may; and sees the clients of its own login.
    let mut bob = stage.log_in("bob", "pb");
    assert_eq!(bob.ask("PING"), "+PONG\r\n");
    assert_eq!(bob.ask("CLIENT SETNAME b-1"), "+OK\r\n");
    let mut fellow = stage.log_in("bob", "pb");
    let list = fellow.ask("CLIENT LIST");
    assert!(list.contains("-NOPERM") || list.contains("name=b-1"), "{list}");
    assert!(!list.contains("user=gus"), "{list}");
    // A user of the proxy sees all.
    let list = stage.root().ask("CLIENT LIST");
    for user in ["gus", "bob", "root"] {
        assert!(list.contains(&format!(" user={user} ")), "{user}: {list}");
    }
    assert_eq!(stage.root().ask("CLIENT KILL USER gus"), ":1\r\n");
    wait::until_true("gus to be gone", SOON, || gus.command(&["GET", "g:1"]).is_err());
}

#[test]
fn channels_are_judged_by_the_server() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let (mut ann, mut bob) = (stage.log_in("ann", "pa"), stage.log_in("bob", "pb"));
    let mut straight = stage.server.connect();
    assert_eq!(straight.ask("AUTH bob pb"), "+OK\r\n");
    assert_eq!(bob.ask("SUBSCRIBE a1"), straight.ask("SUBSCRIBE a1"));
    assert_eq!(ann.ask("PUBLISH b1 x"), {
        let mut straight = stage.server.connect();
        straight.ask("AUTH ann pa");
        straight.ask("PUBLISH b1 x")
    });
    assert!(bob.ask("SUBSCRIBE b1").starts_with("*3\r\n$9\r\nsubscribe"));
    let mut sender = stage.server.connect();
    assert_eq!(sender.ask("PUBLISH b1 hello"), ":1\r\n");
    assert!(String::from_utf8_lossy(&bob.reply().unwrap()).contains("hello"));
    // The right is taken away: the server closes who listens, and so is the client here.
    assert_eq!(sender.ask("ACL SETUSER bob resetchannels"), "+OK\r\n");
    let closed = bob.read_to_close();
    assert!(closed.is_ok(), "{closed:?}");
    // Others of the login are there still.
    let mut fellow = stage.log_in("bob", "pb");
    assert_eq!(fellow.ask("SET b:1 x"), "+OK\r\n");
    assert!(fellow.ask("SUBSCRIBE b1").starts_with("-NOPERM"));
}

#[test]
fn rights_and_users_that_are_taken_away_are_gone_at_once() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let mut root = stage.server.connect();
    let (mut ann, mut bob, mut idle) =
        (stage.log_in("ann", "pa"), stage.log_in("bob", "pb"), stage.log_in("bob", "pb"));
    assert_eq!(bob.ask("SET b:1 x"), "+OK\r\n");
    assert_eq!(root.ask("ACL SETUSER bob -set"), "+OK\r\n");
    assert!(bob.ask("SET b:1 y").starts_with("-NOPERM"));
    assert_eq!(bob.ask("GET b:1"), "$1\r\nx\r\n");
    assert_eq!(root.ask("ACL SETUSER bob resetkeys ~c:*"), "+OK\r\n");
    assert!(bob.ask("GET b:1").starts_with("-NOPERM"));
    // Another password: who is in stays in, as at a server, and the old one opens nothing any more.
    assert_eq!(root.ask("ACL SETUSER bob resetpass >new ~b:*"), "+OK\r\n");
    assert_eq!(bob.ask("GET b:1"), "$1\r\nx\r\n");
    let mut late = stage.connect();
    assert!(late.ask("AUTH bob pb").starts_with("-WRONGPASS"));
    assert!(late.ask("GET b:1").starts_with("-NOAUTH"));
    assert!(bob.ask("AUTH bob pb").starts_with("-WRONGPASS"));
    assert_eq!(late.ask("AUTH bob new"), "+OK\r\n");
    assert_eq!(late.ask("GET b:1"), "$1\r\nx\r\n");
    // When its connections break, the login with the old password is over; that with the new one is not.
    assert!(root.ask("CLIENT KILL USER bob").starts_with(':'));
    assert!(bob.read_to_close().is_ok(), "the busy one");
    assert!(idle.read_to_close().is_ok(), "the idle one");
    wait::until_true("the new login to go on", SOON, || late.ask("GET b:1") == "$1\r\nx\r\n");
    // The user is removed: its clients go, nobody else's.
    assert_eq!(root.ask("ACL DELUSER bob"), ":1\r\n");
    assert!(late.read_to_close().is_ok());
    assert_eq!(ann.ask("SET a:1 x"), "+OK\r\n");
    assert!(stage.connect().ask("AUTH bob new").starts_with("-WRONGPASS"));
    // And comes back as another one.
    assert_eq!(root.ask("ACL SETUSER bob on >new ~d:* +get"), "+OK\r\n");
    let mut again = stage.connect();
    wait::until_true("what was wrong to be asked again", SOON, || {
        again.ask("AUTH bob new") == "+OK\r\n"
    });
    assert!(again.ask("GET b:1").starts_with("-NOPERM"));
}

#[test]
fn a_server_that_comes_back_knows_them_still_or_closes_them() {
    if direct() {
        return;
    }
    let mut stage = Stage::open();
    let mut ann = stage.log_in("ann", "pa");
    assert_eq!(ann.ask("SET a:1 x"), "+OK\r\n");
    stage.server.kill();
    assert!(ann.ask("GET a:1").starts_with("-ERR respool: "));
    // Nobody can say who that is; the cause is told.
    let mut late = stage.connect();
    wait::until_true("the node to be known as down", SOON, || {
        let reply = late.ask("AUTH bob pb");
        assert!(reply.starts_with("-ERR respool: "), "{reply}");
        reply.contains("refused")
    });
    stage.server.restart();
    // It was started without users: the login is none of its any more.
    let closed = ann.read_to_close();
    assert!(closed.is_ok(), "{closed:?}");
    let mut root = stage.server.connect();
    assert_eq!(root.ask(USERS[0]), "+OK\r\n");
    wait::until_true("the user to be known", SOON, || {
        late.ask("AUTH ann pa") == "+OK\r\n" && late.ask("SET a:1 y") == "+OK\r\n"
    });
}

#[test]
fn a_flood_of_wrong_passwords_costs_few_connections_and_no_memory() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let mut ann = stage.log_in("ann", "pa");
    assert_eq!(ann.ask("SET a:1 x"), "+OK\r\n");
    let before = stage.server.connect().ask("INFO clients");
    let before_conns = connected(&before);
    let stop = Arc::new(AtomicBool::new(false));
    let front = stage.proxy.endpoint().clone();
    let tried: usize = thread::scope(|scope| {
        let attackers: Vec<_> = (0..8)
            .map(|attacker| {
                let (front, stop) = (front.clone(), stop.clone());
                scope.spawn(move || {
                    let mut conn = Conn::to(&front);
                    let mut tried = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let lines = (0..50).map(|at| format!("AUTH u{attacker}-{tried}-{at} x"));
                        let requests: Vec<Vec<u8>> = lines.map(|line| request(&line)).collect();
                        for reply in conn.pipeline(&requests).expect("the replies") {
                            assert!(reply.starts_with(b"-WRONGPASS"));
                        }
                        tried += 50;
                    }
                    tried
                })
            })
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            // Who is in works on, and who has the right password comes in.
            assert_eq!(ann.ask("GET a:1"), "$1\r\nx\r\n");
            assert_eq!(stage.log_in("bob", "pb").ask("GET b:1"), "$-1\r\n");
        }
        let during = connected(&stage.server.connect().ask("INFO clients"));
        let most = before_conns + 2 * LOGINS_TRIED_MAX;
        assert!(during <= most, "{before_conns} connections before, {during} now");
        stop.store(true, Ordering::Relaxed);
        attackers.into_iter().map(|attacker| attacker.join().expect("an attacker")).sum()
    });
    assert!(tried > 500, "{tried}");
    let mut root = stage.root();
    let refused: usize = info_field(&mut root, "stats", "logins_refused").unwrap().parse().unwrap();
    assert!(refused >= tried, "{refused} of {tried}");
    // The same wrong one again and again is answered without the server.
    let calls = |stage: &Stage| {
        let stats = stage.server.connect().ask("INFO commandstats");
        let line = stats.lines().find(|line| line.starts_with("cmdstat_auth:")).unwrap().to_owned();
        let calls = line.split(['=', ',']).nth(1).unwrap();
        calls.parse::<u64>().unwrap()
    };
    let before = calls(&stage);
    let mut conn = stage.connect();
    for _ in 0..200 {
        assert!(conn.ask("AUTH ann same").starts_with("-WRONGPASS"));
    }
    assert!(calls(&stage) - before < 20);
}

#[test]
fn figures_tell_of_logins_and_nothing_tells_a_password() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let mut ann = stage.connect();
    assert_eq!(ann.ask("AUTH ann pa"), "+OK\r\n");
    assert_eq!(ann.ask("SET a:1 x"), "+OK\r\n");
    assert!(stage.connect().ask("AUTH bob hunter2secret").starts_with("-WRONGPASS"));
    let mut root = stage.root();
    assert_eq!(info_field(&mut root, "stats", "logins_accepted").as_deref(), Some("1"));
    assert_eq!(info_field(&mut root, "stats", "logins_refused").as_deref(), Some("1"));
    assert_eq!(info_field(&mut root, "clients", "logins").as_deref(), Some("1"));
    let metrics = stage.http("/metrics");
    for counted in ["logins_refused_total", "logins_accepted_total", "logins"] {
        let begin = format!("respool_{counted}{{");
        let samples = metrics.lines().filter(|line| line.starts_with(&begin));
        let sum: u64 = samples.filter_map(|line| line.split(' ').nth(1)?.parse::<u64>().ok()).sum();
        assert_eq!(sum, 1, "{counted}");
    }
    assert!(!metrics.contains("\"ann\"") && !metrics.contains("login=\""));
    // Each sample once: a login has no label, and is counted in.
    let mut samples: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("respool_clients{"))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let count = samples.len();
    samples.dedup();
    assert_eq!(samples.len(), count, "{samples:?}");
    let told = [
        metrics,
        stage.http("/stats"),
        stage.http("/clients"),
        stage.http("/upstreams"),
        stage.http("/config"),
        root.ask("INFO everything"),
        root.ask("CLIENT LIST"),
        root.ask("CONFIG GET respool.*"),
        root.ask("ACL LOG"),
        root.ask("SLOWLOG GET"),
        stage.proxy.process().log(),
    ];
    for text in told {
        assert!(!text.contains("hunter2secret"), "{text}");
    }
    assert!(root.ask("ACL LOG").contains("bob"), "who failed is told");
}

/// How many are connected, as the server says.
fn connected(info: &str) -> usize {
    let line = info.lines().find_map(|line| line.strip_prefix("connected_clients:"));
    line.expect("the field").trim().parse().expect("a number")
}

#[test]
fn a_user_that_becomes_one_of_the_proxys_goes_and_so_do_all_when_it_is_off() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let (mut ann, mut bob) = (stage.log_in("ann", "pa"), stage.log_in("bob", "pb"));
    let mut root = stage.root();
    assert_eq!(root.ask("ACL SETUSER ann on >other ~* +@all"), "+OK\r\n");
    assert!(ann.read_to_close().is_ok());
    assert!(stage.connect().ask("AUTH ann pa").starts_with("-WRONGPASS"));
    assert_eq!(bob.ask("SET b:1 x"), "+OK\r\n");
    assert_eq!(stage.log_in("ann", "other").ask("SET any x"), "+OK\r\n");
    // As long as there is a pause, it is one for them, too.
    assert_eq!(root.ask("CLIENT PAUSE 60000"), "+OK\r\n");
    bob.send(&request("GET b:1")).unwrap();
    assert!(bob.is_silent_for(Duration::from_millis(100)));
    assert_eq!(root.ask("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(bob.reply().unwrap(), b"$1\r\nx\r\n");
    stage.proxy.process().signal(Signal::HUP);
    wait::until_true("what ACL SETUSER did to be over", SOON, || {
        stage.connect().ask("AUTH ann pa") == "+OK\r\n"
    });
    assert_eq!(bob.ask("GET b:1"), "$1\r\nx\r\n");
}

#[test]
fn transactions_and_blocking_commands_are_those_of_the_user() {
    if direct() {
        return;
    }
    let stage = Stage::open();
    let mut bob = stage.log_in("bob", "pb");
    assert_eq!(bob.ask("MULTI"), "+OK\r\n");
    assert_eq!(bob.ask("SET b:1 x"), "+QUEUED\r\n");
    assert!(bob.ask("SET a:1 x").starts_with("-NOPERM"));
    assert!(bob.ask("EXEC").starts_with("-EXECABORT"));
    let requests: Vec<Vec<u8>> = ["MULTI", "SET b:2 x", "GET b:2", "EXEC"].map(request).into();
    let replies = bob.pipeline(&requests).expect("the replies").concat();
    assert!(replies.ends_with(b"*2\r\n+OK\r\n$1\r\nx\r\n"));
    // While something is begun nobody becomes somebody else.
    assert_eq!(bob.ask("WATCH b:2"), "+OK\r\n");
    assert!(bob.ask("AUTH ann pa").contains("UNWATCH"));
    assert_eq!(bob.ask("AUTH bob pb"), "+OK\r\n");
    assert_eq!(bob.ask("UNWATCH"), "+OK\r\n");
    assert_eq!(bob.ask("AUTH ann pa"), "+OK\r\n");
    assert!(bob.ask("BLPOP b:list 1").starts_with("-NOPERM"));
    assert_eq!(bob.ask("RPUSH a:list one"), ":1\r\n");
    assert_eq!(bob.ask("BLPOP a:list 1"), "*2\r\n$6\r\na:list\r\n$3\r\none\r\n");
    let mut gus = stage.log_in("gus", "pg");
    assert!(gus.ask("BLPOP g:list 1").starts_with("-NOPERM"));
    assert!(gus.ask("WATCH g:1").starts_with("-NOPERM"));
}

#[test]
fn each_node_of_a_cluster_judges_and_a_user_need_not_know_of_slots() {
    if direct() {
        return;
    }
    let cluster = RedisCluster::start(3, 0);
    for node in cluster.running() {
        let mut root = Conn::to(&cluster.endpoints()[node]);
        assert_eq!(root.ask("ACL SETUSER gus on >pg ~g:* -@all +get +set +mget"), "+OK\r\n");
    }
    let proxy = Respool::to_url(RESPOOL, &cluster.url())
        .args(&["--acl-pass-through", "true", "--acl-users", "default off"])
        .workers(2)
        .start();
    let mut conns: Vec<Conn> = (0..4).map(|_| proxy.connect()).collect();
    for conn in &mut conns {
        wait::until_true("the cluster to be known", SOON, || conn.ask("AUTH gus pg") == "+OK\r\n");
        for key in 0..30 {
            assert_eq!(conn.ask(&format!("SET g:{key} {key}")), "+OK\r\n", "{key}");
        }
        assert_eq!(conn.ask("MGET g:1 g:2 g:3"), "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
        assert!(conn.ask("MGET g:1 x:2 g:3").starts_with("-NOPERM"));
        assert!(conn.ask("GET x:1").starts_with("-NOPERM"));
    }
    // One of the nodes has other rules: what it says is the answer for its keys.
    let mut odd = Conn::to(&cluster.endpoints()[0]);
    assert_eq!(odd.ask("ACL SETUSER gus -get"), "+OK\r\n");
    let replies: Vec<String> = (0..30).map(|key| conns[0].ask(&format!("GET g:{key}"))).collect();
    assert!(replies.iter().any(|reply| reply.starts_with("-NOPERM")));
    assert!(replies.iter().any(|reply| reply.starts_with('$')));
}

#[test]
fn a_tenants_users_are_those_of_its_servers() {
    if direct() {
        return;
    }
    let (red, blue) = (RedisServer::start(), RedisServer::start());
    for (server, password) in [(&red, "pr"), (&blue, "pb")] {
        let mut root = server.connect();
        assert_eq!(root.ask(&format!("ACL SETUSER sam on >{password} ~* +@all")), "+OK\r\n");
        assert_eq!(root.ask(&format!("SET who {password}")), "+OK\r\n");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("respool.toml");
    let [main, side] = [(); 2].map(|()| Port::v4().release());
    let text = format!(
        "upstream = \"{}\"\nlisten = [\"{main}\", \"{side} tenant=blue\"]\n[acl]\npass_through = true\nusers = [\"default off\"]\n\
         [tenants.blue]\nupstream = \"{}\"\nclients_max = 1\n",
        red.endpoint().url(),
        blue.endpoint().url()
    );
    fs::write(&file, text).expect("the file");
    let _proxy =
        Respool::with_config(RESPOOL, &file).listens_by_config(&Endpoint::Tcp(main)).start();
    let mut conn = Conn::to(&Endpoint::Tcp(main));
    assert!(conn.ask("AUTH sam pb").starts_with("-WRONGPASS"));
    assert_eq!(conn.ask("AUTH sam pr"), "+OK\r\n");
    assert_eq!(conn.ask("GET who"), "$2\r\npr\r\n");
    // The only seat of the tenant is kept over AUTH and RESET.
    let mut conn = Conn::to(&Endpoint::Tcp(side));
    assert!(conn.ask("AUTH sam pr").starts_with("-WRONGPASS"));
    assert_eq!(conn.ask("AUTH sam pb"), "+OK\r\n");
    assert_eq!(conn.ask("GET who"), "$2\r\npb\r\n");
    assert_eq!(conn.ask("RESET"), "+RESET\r\n");
    assert_eq!(conn.ask("AUTH sam pb"), "+OK\r\n");
    assert_eq!(conn.ask("GET who"), "$2\r\npb\r\n");
    let mut other = Conn::to(&Endpoint::Tcp(side));
    let refused = other.reply().unwrap();
    assert!(refused.starts_with(b"-ERR max number of clients"), "it counts its clients");
}

/// One request of words, in bytes.
fn request(line: &str) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    let mut out = format!("*{}\r\n", words.len());
    for word in words {
        out += &format!("${}\r\n{word}\r\n", word.len());
    }
    out.into_bytes()
}
