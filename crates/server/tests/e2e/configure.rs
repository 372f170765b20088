//! Other settings while the proxy runs: by SIGHUP, by the file itself, by CONFIG SET; what they change, and what is refused.
//!
//! Invariant of all of them: no client connection is closed by a change, and no reply is lost.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use testkit::ports::Port;
use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct};

/// A server, and a proxy with a configuration file in front of it.
struct Configured {
    // The order matters: the proxy goes before its server and its file.
    proxy: Respool,
    server: RedisServer,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Configured {
    /// One whose clients may change what they cannot do much harm with.
    fn with(text: &str) -> Self {
        Self::with_args(text, &[])
    }

    /// One whose clients are trusted.
    fn trusting(text: &str) -> Self {
        Self::with_args(text, &["--acl-config-set", "all"])
    }

    fn with_args(text: &str, args: &[&str]) -> Self {
        let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
        let file = folder.path().join("respool.toml");
        let this = |file: &PathBuf, text: &str| {
            fs::write(file, format!("upstream = \"{}\"\n{text}", server.endpoint().url()))
        };
        this(&file, text).expect("the file");
        let proxy = Respool::with_config(RESPOOL, &file).args(args).start();
        Self { proxy, server, file, _folder: folder }
    }

    /// Puts another text into the file.
    fn write(&self, text: &str) {
        let text = format!("upstream = \"{}\"\n{text}", self.server.endpoint().url());
        fs::write(&self.file, text).expect("the file");
    }

    fn hang_up(&self) {
        self.proxy.process().signal(Signal::HUP);
    }

    /// Waits until the log has these words.
    fn logs(&self, words: &str) -> String {
        let log = || Some(self.proxy.process().log()).filter(|log| log.contains(words));
        wait::until(&format!("`{words}` in the log"), SOON, log)
    }
}

/// The value of an option, as CONFIG GET tells it.
fn value(conn: &mut Conn, name: &str) -> String {
    let reply = conn.ask(&format!("CONFIG GET respool.{name}"));
    let lines: Vec<&str> = reply.split("\r\n").collect();
    assert_eq!(lines[2], format!("respool.{name}"), "{reply}");
    lines[4].to_owned()
}

#[test]
fn clients_see_and_set_what_the_proxy_works_by() {
    if direct() {
        return;
    }
    let stack = Configured::trusting("[timeouts]\nrequest_ms = 7000\n");
    let mut conn = stack.proxy.connect();
    assert_eq!(value(&mut conn, "timeouts.request_ms"), "7000");
    assert_eq!(value(&mut conn, "workers"), "2");
    assert_eq!(conn.ask("CONFIG GET respool.nothing"), "*0\r\n");
    let many = conn.ask("CONFIG GET respool.timeouts.* respool.log.level");
    assert!(many.contains("respool.timeouts.stall_ms") && many.contains("respool.log.level"));
    // What is not ours is the server's.
    assert!(conn.ask("CONFIG GET maxmemory").contains("maxmemory"));
    assert_eq!(conn.ask("CONFIG SET maxmemory-samples 6"), "+OK\r\n");

    let set = "CONFIG SET RESPOOL.timeouts.request_ms 300 respool.log.level debug";
    assert_eq!(conn.ask(set), "+OK\r\n");
    assert_eq!(value(&mut conn, "timeouts.request_ms"), "300");
    // It holds for the clients of all workers at once.
    for mut other in (0..4).map(|_| stack.proxy.connect()) {
        wait::until_true("a connection to the server", SOON, || other.ask("GET k") == "$-1\r\n");
        stack.server.process().pause();
        let error = other.ask("GET k");
        stack.server.process().resume();
        assert!(error.contains("gave no reply for 300 ms"), "{error}");
    }
    let log = stack.logs("the configuration has changed");
    assert!(log.contains("timeouts.request_ms") && log.contains("7000"), "{log}");
}

#[test]
fn what_is_wrong_with_a_change_is_told_and_changes_nothing() {
    if direct() {
        return;
    }
    let stack = Configured::trusting("");
    let mut conn = stack.proxy.connect();
    for (set, error) in [
        (
            "respool.nope 1",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'respool.nope'",
        ),
        (
            "respool.slowlog.max_len 5 respool.timeouts.request_ms soon",
            "-ERR CONFIG SET failed (possibly related to argument 'respool.timeouts.request_ms') - found `soon`; \
             allowed: a whole number of milliseconds from 0 to 86400000",
        ),
        (
            "respool.timeouts.reconnect_min_ms 5000",
            "-ERR CONFIG SET failed (possibly related to argument 'respool.timeouts.reconnect_min_ms') - ",
        ),
        (
            "respool.workers 1",
            "-ERR CONFIG SET failed (possibly related to argument 'respool.workers') - can't set protected config",
        ),
        (
            "respool.password x",
            "-ERR CONFIG SET failed (possibly related to argument 'respool.password') - can't set protected config",
        ),
        (
            "respool.log.file /tmp/x",
            "-ERR CONFIG SET failed (possibly related to argument 'respool.log.file') - can't set protected config",
        ),
        (
            "respool.max_clients 5 respool.max_clients 6",
            "-ERR CONFIG SET failed (possibly related to argument 'respool.max_clients') - duplicate parameter",
        ),
    ] {
        let got = conn.ask(&format!("CONFIG SET {set}"));
        assert!(got.starts_with(error), "{got}");
    }
    assert_eq!(value(&mut conn, "slowlog.max_len"), "128");
    assert_eq!(value(&mut conn, "workers"), "2");
}

#[test]
fn sighup_takes_the_file_over_and_a_wrong_one_not_at_all() {
    if direct() {
        return;
    }
    let stack = Configured::trusting("");
    let (mut old, mut idle) = (stack.proxy.connect(), stack.proxy.connect());
    assert_eq!(idle.ask("SET k v"), "+OK\r\n");
    assert_eq!(old.ask("CONFIG SET respool.max_clients 77"), "+OK\r\n");

    stack.write("password = \"hidden-word\"\nmax_clients = 99\nunix_mode = \"0777\"\n");
    stack.hang_up();
    let log = stack.logs("this option needs a restart");
    assert!(log.contains("unix_mode"), "{log}");
    wait::until_true("a password to be asked for", SOON, || {
        stack.proxy.connect().ask("GET k").starts_with("-NOAUTH")
    });
    let mut new = stack.proxy.connect();
    assert_eq!(new.ask("AUTH hidden-word"), "+OK\r\n");
    assert_eq!(new.ask("GET k"), "$1\r\nv\r\n");
    // Whoever was there stays, and the file counts for more than what was set before.
    assert_eq!(old.ask("GET k"), "$1\r\nv\r\n");
    assert_eq!(value(&mut old, "max_clients"), "99");
    assert_eq!(value(&mut old, "unix_mode"), "0700");
    assert_eq!(value(&mut old, "password"), "***");

    stack.write("password = \"other-word\"\nmax_clients = 0\nnonsense = 1\n");
    stack.hang_up();
    let log = stack.logs("the configuration stays as it was");
    assert!(
        log.contains("respool.toml:3:15: max_clients") && log.contains(":4:1: nonsense"),
        "{log}"
    );
    assert_eq!(value(&mut old, "max_clients"), "99");
    assert_eq!(stack.proxy.connect().ask("AUTH hidden-word"), "+OK\r\n");
    assert_eq!(idle.ask("GET k"), "$1\r\nv\r\n");
    assert!(!stack.proxy.process().log().contains("-word"), "a secret in the log");
}

#[test]
fn a_file_that_is_watched_is_taken_over_by_itself() {
    if direct() {
        return;
    }
    let stack = Configured::with("watch_config = true\n[slowlog]\nmax_len = 5\n");
    let mut conn = stack.proxy.connect();
    let becomes = |conn: &mut Conn, expected: &str| {
        wait::until_true("the option to change", SOON, || {
            value(conn, "slowlog.max_len") == expected
        });
    };
    stack.write("watch_config = true\n[slowlog]\nmax_len = 6\n");
    becomes(&mut conn, "6");
    // Another file in its place, as editors and configuration systems do it.
    let beside = stack.file.with_extension("new");
    let text = fs::read_to_string(&stack.file).expect("the file").replace("= 6", "= 7");
    fs::write(&beside, text).expect("another file");
    fs::rename(&beside, &stack.file).expect("in its place");
    becomes(&mut conn, "7");
    // From then on nobody watches, so the word to do so again needs a signal.
    stack.write("[slowlog]\nmax_len = 8\n");
    becomes(&mut conn, "8");
    stack.write("watch_config = true\n[slowlog]\nmax_len = 9\n");
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(value(&mut conn, "slowlog.max_len"), "8");
    stack.hang_up();
    becomes(&mut conn, "9");
}

#[test]
fn what_was_set_is_written_into_the_file_and_nothing_else() {
    if direct() {
        return;
    }
    let stack = Configured::trusting("# kept\n[slowlog]\nmax_len = 5 # few\n");
    let before = fs::read_to_string(&stack.file).expect("the file");
    let mut conn = stack.proxy.connect();
    let set = "CONFIG SET respool.slowlog.max_len 9 respool.max_clients 50 respool.limits.client_out_high_bytes 2MiB";
    assert_eq!(conn.ask(set), "+OK\r\n");
    assert_eq!(fs::read_to_string(&stack.file).expect("the file"), before, "before REWRITE");
    assert_eq!(conn.ask("CONFIG REWRITE RESPOOL"), "+OK\r\n");
    let after = fs::read_to_string(&stack.file).expect("the file");
    let expected =
        before.replace("# kept\n", "max_clients = 50\n# kept\n").replace("5 # few", "9 # few")
            + "\n[limits]\nclient_out_high_bytes = \"2MiB\"\n";
    assert_eq!(after, expected);
    stack.hang_up();
    stack.logs("the configuration is as before");
    assert_eq!(value(&mut conn, "slowlog.max_len"), "9");
    // Somebody else's words in the file are not overwritten.
    assert_eq!(conn.ask("CONFIG SET respool.max_clients 51"), "+OK\r\n");
    fs::write(&stack.file, expected.replace("9 # few", "10 # more")).expect("the file");
    let refused = conn.ask("CONFIG REWRITE RESPOOL");
    assert!(
        refused.starts_with("-ERR Rewriting config file: it was changed by somebody else"),
        "{refused}"
    );
    let server = RedisServer::start();
    let without = Respool::to(RESPOOL, server.endpoint()).start();
    let error = without.connect().ask("CONFIG REWRITE respool");
    assert_eq!(error, "-ERR The server is running without a config file\r\n");
}

/// Changes of the options that a client would like to have, were it hostile.
const HOSTILE: &[(&str, &str)] = &[
    ("upstream", "redis://127.0.0.1:1"),
    ("upstream_user", "x"),
    ("address_map", "127.0.0.1=127.0.0.2"),
    ("listen", "127.0.0.1:1"),
    ("admin.listen", "127.0.0.1:1"),
    ("admin.token", "x"),
    ("acl.users", "x on nopass +@all"),
    ("acl.unchecked_scripts", "true"),
    ("acl.config_set", "all"),
    ("password_file", "/dev/null"),
    ("protected_mode", "false"),
    ("unix_mode", "0777"),
    ("allow_clients", ""),
    ("log.file", "/dev/null"),
    ("log.level", "trace"),
    ("alarms.webhook", "http://127.0.0.1:1/"),
    ("tracing.endpoint", "http://127.0.0.1:1/"),
    ("mirrors.targets", "redis://127.0.0.1:1"),
    ("read_targets.targets", "redis://127.0.0.1:1"),
    ("sharding.shards", "redis://127.0.0.1:1"),
    ("facade.announce", "127.0.0.1:1"),
    ("policies.deny", ""),
    ("policies.block", "get"),
    ("policies.namespace.prefix", "z:"),
    ("max_clients", "1"),
    ("limits.memory_max_bytes", "16MiB"),
    ("cache.enabled", "true"),
    ("reads.policy", "any"),
];

#[test]
fn clients_change_what_the_operator_lets_them_and_write_no_more() {
    if direct() {
        return;
    }
    let stack = Configured::with("max_clients = 500\n[timeouts]\nrequest_ms = 7000\n");
    let mut conn = stack.proxy.connect();
    for (option, value) in HOSTILE {
        let set = ["CONFIG", "SET", &format!("respool.{option}"), value];
        let refused = conn.command(&set).expect("a reply");
        let why = "- can't set protected config\r\n";
        let refused = String::from_utf8_lossy(&refused).into_owned();
        assert!(refused.starts_with("-ERR CONFIG SET failed (possibly"), "{option}: {refused}");
        assert!(refused.ends_with(why), "{option}: {refused}");
        // Nor together with one that may be set.
        let pair = [&set[..], &["respool.timeouts.request_ms", "1"]].concat();
        assert!(conn.command(&pair).expect("a reply").ends_with(why.as_bytes()), "{option}");
    }
    assert_eq!(value(&mut conn, "timeouts.request_ms"), "7000");
    assert_eq!(conn.ask("CONFIG SET respool.timeouts.request_ms 800"), "+OK\r\n");
    assert_eq!(conn.ask("CONFIG REWRITE RESPOOL"), "+OK\r\n");
    let after = fs::read_to_string(&stack.file).expect("the file");
    assert!(after.contains("request_ms = 800") && after.contains("max_clients = 500"), "{after}");

    let closed = Configured::with_args("", &["--acl-config-set", "none"]);
    let mut conn = closed.proxy.connect();
    let refused = conn.ask("CONFIG SET respool.timeouts.request_ms 800");
    assert!(refused.ends_with("- can't set protected config\r\n"), "{refused}");
    let refused = conn.ask("CONFIG REWRITE RESPOOL");
    assert!(refused.starts_with("-ERR Rewriting config file: clients may not"), "{refused}");
    assert_eq!(value(&mut conn, "timeouts.request_ms"), "10000");
}

#[test]
fn a_client_does_not_make_the_operators_changes_permanent() {
    if direct() {
        return;
    }
    let admin = Port::v4().release().to_string();
    let listen = ["--admin-listen", &admin, "--admin-token", "word"];
    let stack = Configured::with_args("", &listen);
    let agent = ureq::Agent::new_with_defaults();
    let body = serde_json::json!({"max_clients": 77, "slowlog.slower_than_us": 5});
    let patch = agent.patch(format!("http://{admin}/config"));
    let patch = patch.header("Authorization", "Bearer word").send_json(body);
    assert_eq!(patch.expect("an answer").status(), 200);
    let mut conn = stack.proxy.connect();
    assert_eq!(conn.ask("CONFIG REWRITE RESPOOL"), "+OK\r\n");
    let after = fs::read_to_string(&stack.file).expect("the file");
    assert!(after.contains("slower_than_us = 5") && !after.contains("max_clients"), "{after}");
    // It holds on, and the operator can write it.
    assert_eq!(value(&mut conn, "max_clients"), "77");
    let rewrite = agent.post(format!("http://{admin}/config/rewrite"));
    let rewrite = rewrite.header("Authorization", "Bearer word").send_empty();
    assert_eq!(rewrite.expect("an answer").status(), 204);
    let after = fs::read_to_string(&stack.file).expect("the file");
    assert!(after.contains("max_clients = 77"), "{after}");
}

#[test]
fn another_server_takes_the_place_of_the_first_under_load() {
    if direct() {
        return;
    }
    let (stack, second) = (Configured::with(""), RedisServer::start());
    let done = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        let load = || {
            let (mut conn, done) = (stack.proxy.connect(), &done);
            scope.spawn(move || {
                let (mut count, mut failed) = (0u64, 0u64);
                while !done.load(Ordering::Relaxed) {
                    let requests = vec![b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n".to_vec(); 10];
                    for reply in conn.pipeline(&requests).expect("the replies") {
                        count += u64::from(reply.starts_with(b":"));
                        failed += u64::from(!reply.starts_with(b":"));
                    }
                }
                (count, failed)
            })
        };
        let clients: Vec<_> = (0..8).map(|_| load()).collect();
        let mut listener = stack.proxy.connect();
        listener.send_command(&["SUBSCRIBE", "news"]).expect("the request");
        listener.reply().expect("the confirmation");
        let mut waiting = stack.proxy.connect();
        waiting.send_command(&["BLPOP", "list", "0"]).expect("the request");
        for round in 0..10 {
            let server = if round % 2 == 0 { &second } else { &stack.server };
            fs::write(&stack.file, format!("upstream = \"{}\"\n", server.endpoint().url()))
                .expect("the file");
            stack.hang_up();
            let listens = || server.connect().ask("PUBSUB NUMSUB news").ends_with(":1\r\n");
            wait::until_true("the listener at the new server", SOON, listens);
        }
        let error = String::from_utf8_lossy(&waiting.reply().expect("an answer")).into_owned();
        assert!(error.contains("is no server of the configuration any more"), "{error}");
        done.store(true, Ordering::Relaxed);
        let counts = clients.into_iter().map(|client| client.join().expect("a client"));
        counts.fold((0, 0), |(count, failed), (more, also)| (count + more, failed + also))
    });
    println!("increments: {}, errors: {}", count.0, count.1);
    let counted = |server: &RedisServer| -> u64 {
        let reply = server.connect().ask("GET n");
        reply.lines().nth(1).and_then(|text| text.parse().ok()).expect("a number")
    };
    assert_eq!(count.1, 0, "requests failed");
    assert_eq!(counted(&stack.server) + counted(&second), count.0, "each was done once");
}

#[test]
fn under_load_no_reply_is_lost_by_a_change() {
    if direct() {
        return;
    }
    let stack = Configured::trusting("");
    let done = AtomicBool::new(false);
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let load = |at: usize| {
            let (mut conn, done) = (stack.proxy.connect(), &done);
            scope.spawn(move || {
                let mut count = 0;
                while !done.load(Ordering::Relaxed) {
                    let requests =
                        vec![format!("*2\r\n$4\r\nINCR\r\n$2\r\nk{at}\r\n").into_bytes(); 20];
                    for reply in conn.pipeline(&requests).expect("the replies") {
                        count += 1;
                        assert_eq!(reply, format!(":{count}\r\n").into_bytes());
                    }
                }
                count
            })
        };
        let clients: Vec<_> = (0..8).map(load).collect();
        let mut conn = stack.proxy.connect();
        for round in 0..60 {
            let conns = 1 + round % 3 * 2;
            let set = format!(
                "CONFIG SET respool.limits.conns_per_node {conns} respool.batching.gather_us {} respool.slowlog.max_len {} \
                 respool.timeouts.request_ms {}",
                round % 2 * 300,
                round % 4 * 10,
                5_000 + round,
            );
            assert_eq!(conn.ask(&set), "+OK\r\n");
        }
        done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    println!("requests of each client: {counts:?}");
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
}

#[test]
fn what_waits_for_a_restart_blocks_nothing_else_and_is_told() {
    if direct() {
        return;
    }
    let stack = Configured::trusting("");
    let mut conn = stack.proxy.connect();
    assert!(!conn.ask("INFO proxy").contains("proxy_config_pending"));
    stack.write("unix_mode = \"0777\"\n");
    stack.hang_up();
    stack.logs("every worker works by what was read");
    let pending = "proxy_config_pending:unix_mode\r\n";
    let told = || conn.ask("INFO proxy").contains(pending);
    wait::until_true("INFO to tell what waits", SOON, told);
    // Others change, and those that wait stay so.
    assert_eq!(conn.ask("CONFIG SET respool.timeouts.request_ms 601"), "+OK\r\n");
    assert_eq!(value(&mut conn, "timeouts.request_ms"), "601");
    assert_eq!(value(&mut conn, "unix_mode"), "0700");
    assert!(conn.ask("INFO proxy").contains(pending));
    assert_eq!(conn.ask("CONFIG REWRITE RESPOOL"), "+OK\r\n");
    let text = fs::read_to_string(&stack.file).expect("the file");
    assert!(text.contains("0777") && text.contains("request_ms = 601"), "{text}");
    let log = stack.proxy.process().log();
    assert!(!log.contains("the environment or a flag wins"), "{log}");
    // What the file takes back waits no more.
    stack.write("");
    stack.hang_up();
    let told = || !conn.ask("INFO proxy").contains("proxy_config_pending");
    wait::until_true("nothing to wait any more", SOON, told);
}

#[test]
fn a_log_that_was_moved_away_is_opened_anew_by_sighup() {
    if direct() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, moved) = (folder.path().join("respool.log"), folder.path().join("respool.log.1"));
    let text = format!("[log]\nfile = \"{}\"\n", file.display());
    let stack = Configured::with(&text);
    wait::until_true("the log", SOON, || file.exists());
    fs::rename(&file, &moved).expect("to be moved");
    // Also where the configuration is wrong just now.
    stack.write(&format!("{text}nonsense = 1\n"));
    stack.hang_up();
    let lines = |words: &str| fs::read_to_string(&file).is_ok_and(|text| text.contains(words));
    wait::until_true("a new file", SOON, || lines("the configuration stays as it was"));
    let before = fs::read_to_string(&moved).expect("the old one");
    assert!(before.contains(" listens ") && !before.contains("stays as it was"), "{before}");
}

#[test]
fn a_password_that_a_link_leads_to_is_watched() {
    if direct() {
        return;
    }
    // As Kubernetes does it: links to `..data`, which is a link that is swapped.
    let folder = tempfile::tempdir().expect("a folder");
    let volume = |name: &str, word: &str| {
        fs::create_dir(folder.path().join(name)).expect("a folder");
        fs::write(folder.path().join(name).join("password"), word).expect("a file");
        std::os::unix::fs::symlink(name, folder.path().join("..new")).expect("a link");
        fs::rename(folder.path().join("..new"), folder.path().join("..data")).expect("a swap");
    };
    volume("..1", "first");
    let file = folder.path().join("password");
    std::os::unix::fs::symlink("..data/password", &file).expect("a link");
    let text = format!("watch_config = true\npassword_file = \"{}\"\n", file.display());
    let stack = Configured::with(&text);
    let says = |word: &str| stack.proxy.connect().ask(&format!("AUTH {word}")) == "+OK\r\n";
    assert!(says("first") && !says("second"));
    for (name, word) in [("..2", "second"), ("..3", "third")] {
        volume(name, word);
        wait::until_true("the new password", SOON, || says(word));
        assert!(!says("first"));
    }
    stack.logs("the file of a password changed");
}

// A command has five seconds for each password. The admin listener and the signals need the same thread.
#[test]
fn while_a_command_is_asked_for_a_password_the_proxy_answers_and_ends() {
    if direct() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, asked) = (folder.path().join("gate"), folder.path().join("asked"));
    fs::write(&gate, "").expect("the gate");
    let script = folder.path().join("password");
    // Without the folder the command ends: it may outlive the proxy.
    let lines = format!(
        "touch {asked}\nuntil [ -e {gate} ] || [ ! -e {asked} ]; do sleep 0.05; done\necho word\n",
        asked = asked.display(),
        gate = gate.display()
    );
    fs::write(&script, lines).expect("the command");
    let text = format!(
        "[acl]\nusers = [\"default on nopass ~* &* +@all\", 'slow on ~* +@all password_command=\"sh {}\"']\n",
        script.display()
    );
    let admin = Port::v4().release().to_string();
    let mut stack =
        Configured::with_args(&text, &["--admin-listen", &admin, "--acl-config-set", "all"]);
    let asks = |stack: &Configured| {
        fs::remove_file(&gate).expect("the gate");
        fs::remove_file(&asked).expect("the command was run before");
        stack.hang_up();
        wait::until_true("the command", SOON, || asked.exists());
    };
    asks(&stack);
    let mut conn = stack.proxy.connect();
    conn.send(b"CONFIG SET respool.timeouts.request_ms 4321\r\n").expect("sent");
    let ready = ureq::get(format!("http://{admin}/readyz")).call();
    assert_eq!(ready.expect("an answer").status(), 200);
    assert_ne!(value(&mut stack.proxy.connect(), "timeouts.request_ms"), "4321");
    let log = stack.proxy.process().log();
    assert!(!log.contains("every worker works by what was read"), "{log}");
    assert!(!log.contains("the configuration stays as it was"), "{log}");
    fs::write(&gate, "").expect("the gate");
    // The reload comes first, then the change of the client.
    assert_eq!(conn.reply().expect("the change"), b"+OK\r\n");
    stack.logs("every worker works by what was read");
    assert_eq!(value(&mut conn, "timeouts.request_ms"), "4321");
    assert_eq!(conn.ask("AUTH slow word"), "+OK\r\n");
    asks(&stack);
    assert!(stack.proxy.terminate(SOON).is_some_and(|status| status.success()));
    let log = stack.proxy.process().log();
    assert!(!log.contains("the configuration stays as it was"), "{log}");
}
