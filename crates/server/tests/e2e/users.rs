//! Users of the proxy: as at a real server with the same users, byte for byte; changed by clients, files and SIGHUP.

use std::fs;
use std::path::{Path, PathBuf};

use testkit::{Conn, RedisServer, Respool};

use crate::setup::{RESPOOL, SOON, Stack, direct};

/// Users of the tables, each with its rules.
const USERS: &[(&str, &str)] = &[
    ("writer", "on nopass ~app:* %R~shared:* %W~log:* &news:* +@all -@dangerous -@scripting"),
    ("reader", "on nopass ~* &* +@read +@connection -keys"),
    ("several", "on nopass +get ~a (+set ~b) (+@pubsub &c*) +select|0 +multi +exec +discard"),
    ("plain", "on nopass ~a %R~b %W~c &d* +get (~x +set)"),
    ("nobody", "on nopass"),
    ("full", "on nopass ~* &* +@all"),
];

/// What each of them asks for, in this order over one connection.
const REQUESTS: &[&str] = &[
    "get app:1",
    "get other",
    "set app:1 x",
    "set shared:1 x",
    "get shared:1",
    "mget app:1 other",
    "mset app:1 a app:2 b",
    "mset app:1 a z b",
    "del app:1 zz",
    "exists log:1",
    "set log:1 v get",
    "set log:1 v",
    "copy shared:1 app:9",
    "rename app:2 other",
    "bitfield shared:1 get u8 0",
    "bitfield shared:1 incrby u8 0 1",
    "sort app:l by w_*",
    "sort app:l get #",
    "sort app:l by nosort",
    "sort app:l store other",
    "georadius app:g 0 0 1 m store other",
    "zunionstore app:z 2 app:y other",
    "xread count 1 streams app:s other 0 0",
    // A server reads an option up to its first NUL.
    "sort app:l store\0 other",
    "sort app:l get\0x #",
    "georadius app:g 0 0 1 m STORE\0x other",
    "xread count\0 1 streams\0 app:s other 0 0",
    "xreadgroup group g c streams\0 other >",
    "set log:1 v get\0",
    "set log:1 v ex\0 get",
    "bitfield log:1 get\0 u8 0",
    "bitfield shared:1 get\0x u8 0",
    "xgroup create other g 0",
    "object encoding zz",
    "object nosuch zz",
    "config get maxmemory",
    "config nosuch",
    "config",
    "nosuchcommand a b",
    "get",
    "flushall x y",
    "swapdb 0 nosuch",
    "client setname x",
    "client getname",
    "client kill x",
    "acl whoami",
    "acl users",
    "acl getuser plain",
    "acl list x",
    "publish news:1 x",
    "publish other x",
    "psubscribe zzz*",
    "psubscribe news:* zzz*",
    "ssubscribe other",
    "unsubscribe other",
    "select 0",
    "select 1",
    "select 0",
    "ping",
    "echo x",
    "auth bad bad",
    "auth default x",
    "hello 9",
    "command count x",
    "multi",
    "get other",
    "set app:1 5",
    "exec",
    "multi",
    "config get x",
    "discard",
    "multi",
    "get b",
    "incr app:1",
    "exec",
    "exec",
    "watch other",
    "unwatch",
    "blpop app:zz other 1",
    "zadd z 1 a",
    "incr app:1",
    "set b 1",
    "set a 1",
    "get a",
    "acl cat nosuch",
    "acl dryrun writer get other",
    "acl dryrun writer set app:1 x",
    "acl dryrun writer publish other x",
    "acl dryrun writer nosuch",
    "acl dryrun writer config nosuch",
    "acl dryrun stranger get x",
    "acl dryrun writer get",
    "acl dryrun nobody get x",
    "acl genpass 5000",
    "acl genpass x",
    "acl deluser default",
    "acl deluser stranger",
    "acl nosuch",
    "acl setuser stranger +nosuch",
    "acl setuser stranger on (+get",
    "acl setuser stranger <none",
    "acl getuser stranger",
    "acl save",
    "acl load",
    "acl log x",
    "acl log reset",
    "acl log",
    "reset",
    "acl whoami",
];

/// What `full` would wait for, or listen to.
const NOT_FOR_ALL: &[&str] = &["blpop", "psubscribe", "ssubscribe", "unsubscribe"];

/// Makes a user as the rules say.
fn make(conn: &mut Conn, name: &str, rules: &str) -> String {
    conn.ask(&format!("ACL SETUSER {name} {rules}"))
}

#[test]
fn replies_are_those_of_a_server_with_the_same_users() {
    let stack = Stack::start();
    let server = RedisServer::start();
    let mut admins = [server.connect(), stack.connect()];
    for (name, rules) in USERS {
        let made = admins.each_mut().map(|conn| make(conn, name, rules));
        assert_eq!(made, ["+OK\r\n", "+OK\r\n"], "{name}");
    }
    let mut differences = Vec::new();
    for (name, _) in USERS {
        let mut conns = [server.connect(), stack.connect()];
        for conn in &mut conns {
            assert_eq!(conn.ask(&format!("AUTH {name} x")), "+OK\r\n");
        }
        for request in REQUESTS {
            let is_full = matches!(*name, "full" | "reader");
            if is_full && NOT_FOR_ALL.iter().any(|word| request.starts_with(word)) {
                continue;
            }
            let [theirs, ours] = conns.each_mut().map(|conn| conn.ask(request));
            if theirs != ours {
                differences
                    .push(format!("{name}: {request}\n  server {theirs:?}\n  proxy  {ours:?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

const COMMANDS: &str = "get set mget config config|get config|set client client|id select publish \
    subscribe nosuch config|nosuch get|x multi GET";
const CATEGORIES: &str =
    "all read write string dangerous fast slow connection nosuch pubsub keyspace";
const WORDS: &str = "on off nopass reset resetpass allkeys ~* resetkeys allchannels resetchannels \
    allcommands nocommands clearselectors sanitize-payload";
const SECRETS: &str = ">a <a #a !a >b <b (+get~b) (+nosuch) (~a +set) (on) () \
    #ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb \
    !ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";

/// A small generator: the same rules on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    /// One of the words.
    fn pick<'a>(&mut self, from: &'a str) -> &'a str {
        let words: Vec<&str> = from.split_whitespace().collect();
        words[self.roll(words.len())]
    }

    /// A word that is a rule, or nearly.
    fn word(&mut self) -> String {
        match self.roll(9) {
            0 | 1 => format!("{}{}", self.pick("+ -"), self.pick(COMMANDS)),
            2 => format!("{}@{}", self.pick("+ -"), self.pick(CATEGORIES)),
            3 => format!("+{}|{}", self.pick(COMMANDS), self.pick("0 id get nosuch")),
            4 => format!("{}{}", self.pick("~ %R~ %W~ %RW~"), self.pick("a b* [a-c]?")),
            5 => format!("&{}", self.pick("* a c*")),
            6 => self.pick(WORDS).to_owned(),
            7 => self.pick(SECRETS).to_owned(),
            _ => (0..self.roll(4)).map(|_| self.pick("+ - @ a | & x %R")).collect(),
        }
    }
}

/// Calls by which two sets of rules are told from each other.
const CALLS: &[&str] = &[
    "get a",
    "get b1",
    "set a 1",
    "set b1 1",
    "mget a b",
    "config get x",
    "config set x y",
    "client id",
    "client list",
    "select 0",
    "select 1",
    "publish a x",
    "publish b x",
    "subscribe cc",
    "psubscribe c*",
    "multi",
    "copy a b",
    "del zz",
    "ping",
    "flushall",
];

/// Random rules get the same verdict, word for word, and mean the same.
#[test]
fn random_rules_mean_the_same() {
    if testkit::redis::major_version() < 7 {
        return;
    }
    let stack = Stack::start();
    let server = RedisServer::start();
    let mut conns = [server.connect(), stack.connect()];
    let mut dice = Dice(20);
    let (mut taken, mut refused) = (0, 0);
    for round in 0..400 {
        let words: Vec<String> = (0..=dice.roll(5)).map(|_| dice.word()).collect();
        let name = format!("u{}", round % 40);
        let mut args = vec!["ACL", "SETUSER", &name];
        args.extend(words.iter().map(String::as_str));
        let [theirs, ours] = conns.each_mut().map(|conn| conn.command(&args).expect("a reply"));
        let text = |reply: &[u8]| String::from_utf8_lossy(reply).into_owned();
        assert_eq!(text(&theirs), text(&ours), "{words:?}");
        match theirs.starts_with(b"+") {
            true => taken += 1,
            false => refused += 1,
        }
        for call in CALLS {
            let ask = format!("ACL DRYRUN {name} {call}");
            let [theirs, ours] = conns.each_mut().map(|conn| conn.ask(&ask));
            assert_eq!(theirs, ours, "{ask} after {words:?}");
        }
    }
    assert!(taken > 50 && refused > 50, "{taken} taken, {refused} refused");
}

/// A proxy with a configuration of its own, in a folder of its own.
struct Configured {
    // The order matters: the proxy goes before its server and its files.
    proxy: Respool,
    server: RedisServer,
    folder: tempfile::TempDir,
}

impl Configured {
    fn with(text: impl FnOnce(&Path) -> String, files: &[(&str, &str)]) -> Self {
        let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        let file = folder.path().join("respool.toml");
        let upstream = format!("upstream = \"{}\"\n", server.endpoint().url());
        fs::write(&file, upstream + &text(folder.path())).expect("the configuration");
        let proxy = Respool::with_config(RESPOOL, &file).start();
        Self { proxy, server, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn client(&self, user: &str, password: &str) -> Conn {
        let mut conn = self.proxy.connect();
        assert_eq!(conn.ask(&format!("AUTH {user} {password}")), "+OK\r\n");
        conn
    }
}

#[test]
fn a_change_by_a_client_holds_for_all_workers_when_it_is_answered() {
    if direct() {
        return;
    }
    let stack = Configured::with(|_| String::new(), &[]);
    let mut admin = stack.proxy.connect();
    assert_eq!(admin.ask("ACL SETUSER app on >pw ~app:* +@all"), "+OK\r\n");
    let mut conns: Vec<Conn> = (0..6).map(|_| stack.client("app", "pw")).collect();
    for conn in &mut conns {
        assert_eq!(conn.ask("SET app:1 x"), "+OK\r\n");
        assert!(conn.ask("SET other x").starts_with("-NOPERM"));
    }
    assert_eq!(admin.ask("ACL SETUSER app -set ~other"), "+OK\r\n");
    for conn in &mut conns {
        assert!(conn.ask("SET app:1 x").starts_with("-NOPERM"));
        assert_eq!(conn.ask("GET other"), "$-1\r\n");
    }
    let seen = admin.ask("CLIENT LIST");
    assert_eq!(seen.matches(" user=app ").count(), 6, "{seen}");
    assert!(admin.ask("ACL LOG 100").contains("\r\nother\r\n"), "the logs of all workers");
    // In a transaction it is done with EXEC.
    for request in ["MULTI", "ACL SETUSER app +set", "EXEC"] {
        admin.ask(request);
    }
    assert_eq!(conns[0].ask("SET app:1 x"), "+OK\r\n");
    // One that removes itself gets its reply.
    assert_eq!(admin.ask("ACL SETUSER self on nopass ~* &* +@all"), "+OK\r\n");
    let mut own = stack.client("self", "x");
    assert_eq!(own.ask("ACL DELUSER self app nobody"), ":2\r\n");
    assert_eq!(own.read_to_close().expect("closed"), b"");
    for conn in &mut conns {
        assert_eq!(conn.read_to_close().expect("closed"), b"");
    }
    let digits = admin.ask("ACL GENPASS");
    assert!(digits.starts_with("$64\r\n") && digits != admin.ask("ACL GENPASS"), "{digits}");
    // What the proxy's log says of it has no password.
    let log = stack.proxy.process().log();
    assert!(!log.contains("pw"), "{log}");
    assert!(
        stack.server.connect().ask("ACL USERS").starts_with("*1\r\n"),
        "the server's are its own"
    );
}

#[test]
fn files_are_loaded_and_saved() {
    if direct() {
        return;
    }
    let text =
        "user default on nopass ~* &* +@all\nuser app on >one ~app:* +@all\nuser gone on >x +get\n";
    let stack = Configured::with(
        |folder| format!("[acl]\nfile = {:?}\n", folder.join("users.acl")),
        &[("users.acl", text)],
    );
    let mut app = stack.client("app", "one");
    let mut gone = stack.client("gone", "x");
    let mut admin = stack.proxy.connect();
    assert_eq!(admin.ask("ACL SETUSER new on >three +get ~n"), "+OK\r\n");
    assert_eq!(admin.ask("ACL SAVE"), "+OK\r\n");
    let saved = fs::read_to_string(stack.path("users.acl")).expect("the file");
    assert!(saved.contains("user new on #") && !saved.contains("three"), "{saved}");
    let listed = admin.ask("ACL LIST");
    assert_eq!(admin.ask("ACL LOAD"), "+OK\r\n");
    assert_eq!(admin.ask("ACL LIST"), listed, "what was saved is loaded as the same");
    assert_eq!(app.ask("ACL WHOAMI"), "$3\r\napp\r\n");

    let without: Vec<&str> = saved.lines().filter(|line| !line.contains("user gone")).collect();
    fs::write(stack.path("users.acl"), without.join("\n")).expect("the file");
    stack.proxy.reread(SOON);
    assert_eq!(gone.read_to_close().expect("closed"), b"");
    assert_eq!(app.ask("GET app:1"), "$-1\r\n", "who is still there stays");

    fs::write(stack.path("users.acl"), "user a on +nosuch\nuser b on #hunter2\n")
        .expect("the file");
    let error = admin.ask("ACL LOAD");
    let name = stack.path("users.acl").display().to_string();
    assert_eq!(
        error,
        format!(
            "-ERR {name}:1: Error in applying operation '+nosuch': Unknown command or category name in ACL. {name}:2: The \
             password hash must be exactly 64 characters and contain only lowercase hexadecimal characters. WARNING: ACL errors \
             detected, no change to the previously active ACL rules was performed\r\n"
        )
    );
    assert_eq!(app.ask("GET app:1"), "$-1\r\n");
}

#[test]
fn the_configuration_of_the_guide_works_and_takes_other_passwords() {
    if direct() {
        return;
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/users.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let block = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let block = block.expect("a configuration in the guide").to_owned();
    let passwords = [("app-password", "first\n"), ("operator-password", "op\n")];
    let stack = Configured::with(
        |folder| {
            // Where it runs, and instead of a variable a file: a test has no environment of its own.
            let lines = block
                .lines()
                .filter(|line| !line.starts_with("upstream") && !line.starts_with("listen"));
            let folder = folder.display().to_string();
            let text = lines.collect::<Vec<_>>().join("\n").replace("/etc/respool", &folder);
            text.replace("password_env=READER_PASSWORD", "password_command='echo reads'")
        },
        &passwords,
    );
    let mut stranger = stack.proxy.connect();
    assert_eq!(stranger.ask("GET app:1"), "-NOAUTH Authentication required.\r\n");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    assert_eq!(stranger.ask("AUTH default x"), wrong);
    let mut app = stack.client("app", "first");
    assert_eq!(app.ask("SET app:1 x"), "+OK\r\n");
    assert!(app.ask("SET shared:1 x").starts_with("-NOPERM"));
    let mut reader = stack.client("reader", "reads");
    assert_eq!(reader.ask("GET app:1"), "$1\r\nx\r\n");
    assert!(reader.ask("DEL app:1").starts_with("-NOPERM"));
    assert_eq!(stack.client("operator", "op").ask("DBSIZE"), ":1\r\n");

    fs::write(stack.path("app-password"), "second\n").expect("the file");
    stack.proxy.reread(SOON);
    assert_eq!(stranger.ask("AUTH app second"), "+OK\r\n");
    assert_eq!(stranger.ask("AUTH app first"), wrong);
    assert_eq!(app.ask("GET app:1"), "$1\r\nx\r\n", "a client stays that is there");
    let log = stack.proxy.process().log();
    assert!(!log.contains("first") && !log.contains("second"), "{log}");
}
