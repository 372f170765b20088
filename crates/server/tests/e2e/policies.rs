//! Policies in front of a real server: the guide's configuration, rates over all workers, and changes while clients are there.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct};

/// A server, and a proxy with a configuration file in front of it.
struct Ruled {
    // The order matters: the proxy goes before its server and its file.
    proxy: Respool,
    server: RedisServer,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Ruled {
    fn with(text: &str) -> Self {
        let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
        let file = folder.path().join("respool.toml");
        let text = format!("upstream = \"{}\"\n{text}", server.endpoint().url());
        fs::write(&file, text).expect("the file");
        let proxy = Respool::with_config(RESPOOL, &file).start();
        Self { proxy, server, file, _folder: folder }
    }
}

const TOO_MANY: &str = "-ERR respool: too many requests (policies.rate)\r\n";

#[test]
fn the_policies_of_the_guide_do_what_it_says() {
    if direct() {
        return;
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/policies.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let block = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let lines = block.expect("a configuration in the guide").lines();
    let text: Vec<&str> = lines.filter(|line| !line.starts_with("upstream")).collect();
    let stack = Ruled::with(&text.join("\n"));
    let (mut conn, mut direct) = (stack.proxy.connect(), stack.server.connect());
    let denied = "-ERR respool: the operator has denied the command 'keys' (policies.deny)\r\n";
    assert_eq!(conn.ask("KEYS *"), denied);
    assert_eq!(conn.ask("FLUSHALL"), "-NOPERM ask the operators\r\n");
    assert_eq!(conn.ask("SET user:1:a x"), "+OK\r\n");
    let repaired = "-TRYLATER user 42 is being repaired\r\n";
    assert_eq!(conn.ask("SET user:42:a x"), repaired);
    assert_eq!(conn.ask("EVAL return(1) 2 user:1:a user:42:a"), repaired);
    assert_eq!(conn.ask("MGET user:1:a user:42:a"), repaired);
    assert_eq!(conn.ask("GET user:1:a"), "$1\r\nx\r\n");
    assert!(conn.ask("CONFIG GET maxmemory").starts_with("-ERR unknown command 'CONFIG'"));
    assert!(conn.ask("CONFIG-1B7F GET maxmemory").contains("maxmemory"));
    assert!(conn.ask("DEBUG SLEEP 0").starts_with("-ERR unknown command 'DEBUG'"));
    let value = vec![b'v'; 2 << 20];
    let large = conn.command(&[b"SET".as_slice(), b"large", &value]).expect("a reply");
    assert_eq!(large, b"-ERR respool: this request is too large (policies.size)\r\n");
    assert_eq!(direct.ask("EXISTS large user:42:a"), ":0\r\n");

    // Somebody puts the old value back right behind the deletion.
    assert_eq!(conn.ask("SET cache:1 new"), "+OK\r\n");
    assert_eq!(conn.ask("DEL cache:1"), ":1\r\n");
    assert_eq!(direct.ask("SET cache:1 old"), "+OK\r\n");
    wait::until_true("the second deletion", SOON, || direct.ask("EXISTS cache:1") == ":0\r\n");

    let info = conn.ask("INFO policies");
    assert!(info.contains("policy_block-incident-7:refused=3,delayed=0"), "{info}");
    assert!(info.contains("policy_double_delete:refused=0,delayed=0,repeated=1"), "{info}");
}

#[test]
fn a_rate_holds_over_all_workers_and_is_kept_by_a_reload() {
    if direct() {
        return;
    }
    let text = "workers = 2\n[policies]\nrate = [\"requests=1 burst=20 get\"]\n";
    let stack = Ruled::with(text);
    let mut conns: Vec<_> = (0..8).map(|_| stack.proxy.connect()).collect();
    let begin = Instant::now();
    let mut passed = 0;
    for _ in 0..5 {
        for conn in &mut conns {
            passed += usize::from(conn.ask("GET k") == "$-1\r\n");
        }
    }
    // Two workers that look at the same moment may both pass.
    let most = 20 + begin.elapsed().as_secs() as usize + 2;
    assert!((20..=most).contains(&passed), "{passed} of {most}");
    // Another rule comes: who has used up the rate has used it up.
    wait::until_true("a refusal", SOON, || conns[0].ask("GET k") == TOO_MANY);
    let begin = Instant::now();
    let text = fs::read_to_string(&stack.file).expect("the file");
    fs::write(&stack.file, format!("{text}deny = [\"keys\"]\n")).expect("the file");
    stack.proxy.reread(SOON);
    assert!(conns[0].ask("KEYS *").contains("denied"));
    let again = (0..20).filter(|_| conns[1].ask("GET k") == "$-1\r\n").count();
    let most = begin.elapsed().as_secs() as usize + 2;
    assert!(again <= most, "{again} of {most}");
}

#[test]
fn a_rush_of_clients_is_refused_over_all_workers_and_ends() {
    if direct() {
        return;
    }
    let rule = r#"rate = ["connections=1 burst=12 per=address name=rush 'error=LATER too many'"]"#;
    let stack = Ruled::with(&format!("workers = 2\n[policies]\n{rule}\n"));
    let begin = Instant::now();
    // One at a time: two workers that look at the same moment may both let one in.
    let mut conns: Vec<Conn> = Vec::new();
    let mut refused = 0;
    for _ in 0..30 {
        let mut conn = stack.proxy.connect();
        match conn.command(&["PING"]) {
            Ok(reply) if reply == b"+PONG\r\n" => conns.push(conn),
            Ok(reply) => {
                assert_eq!(reply, b"-LATER too many\r\n");
                refused += 1;
            }
            // It was closed before it had said anything.
            Err(_) => refused += 1,
        }
    }
    let most = 12 + begin.elapsed().as_secs() as usize + 2;
    assert!(conns.len() <= most && refused >= 10, "{} came, {refused} refused", conns.len());
    // Those that are there go on.
    conns.iter_mut().for_each(|conn| assert_eq!(conn.ask("PING"), "+PONG\r\n"));
    let stats = conns[0].ask("INFO stats");
    assert!(stats.contains(&format!("refused_clients_rate:{refused}\r\n")), "{stats}");
    let info = conns[0].ask("INFO policies");
    assert!(info.contains(&format!("policy_rate-rush:refused={refused},")), "{info}");
    // Later others may come.
    wait::until_true("a client that may come", SOON, || {
        stack.proxy.connect().command(&["PING"]).is_ok_and(|reply| reply == b"+PONG\r\n")
    });
}

#[test]
fn what_is_delayed_comes_later_and_in_order() {
    if direct() {
        return;
    }
    let stack = Ruled::with("[policies]\nrate = [\"requests=20 burst=1 delay_ms=5000 incr\"]\n");
    let mut conn = stack.proxy.connect();
    let begin = Instant::now();
    let requests: Vec<Vec<u8>> =
        (0..11).map(|_| b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n".to_vec()).collect();
    let replies = conn.pipeline(&requests).expect("replies");
    let expected: Vec<Vec<u8>> = (1..=11).map(|n| format!(":{n}\r\n").into_bytes()).collect();
    assert_eq!(replies, expected);
    assert!(begin.elapsed() >= Duration::from_millis(490), "{:?}", begin.elapsed());
}

#[test]
fn clients_block_and_unblock_keys_and_cannot_lift_what_is_denied() {
    if direct() {
        return;
    }
    let stack = Ruled::with(
        "[acl]\nconfig_set = \"all\"\n[policies]\ndeny = [\"keys\"]\n[policies.rename]\ntouch = \"t0uch\"\n",
    );
    let (mut conn, mut other) = (stack.proxy.connect(), stack.proxy.connect());
    let set = |conn: &mut testkit::Conn, option: &str, value: &str| {
        let reply = conn.command(&["CONFIG", "SET", option, value]).expect("a reply");
        String::from_utf8_lossy(&reply).into_owned()
    };
    assert_eq!(set(&mut conn, "respool.policies.block", "key=a:* name=now;get key=b"), "+OK\r\n");
    let blocked = "-ERR respool: the operator has blocked this request (policies.block)\r\n";
    assert_eq!(other.ask("SET a:1 x"), blocked);
    assert_eq!(other.ask("GET b"), blocked);
    assert_eq!(other.ask("SET b x"), "+OK\r\n");
    let shown = conn.ask("CONFIG GET respool.policies.block");
    assert!(shown.contains("key=a:* name=now;get key=b"), "{shown}");
    let wrong = set(&mut conn, "respool.policies.block", "gett key=b");
    assert!(wrong.contains("rule 1 names `gett`, which is no command"), "{wrong}");
    assert!(wrong.contains("did you mean `get`?"), "{wrong}");
    assert_eq!(other.ask("GET b"), blocked, "what is wrong changes nothing");
    assert_eq!(set(&mut conn, "respool.policies.block", ""), "+OK\r\n");
    assert_eq!(other.ask("GET b"), "$1\r\nx\r\n");
    for option in ["respool.policies.deny", "respool.policies.rename"] {
        let refused = set(&mut conn, option, "");
        assert!(refused.contains("can't set protected config"), "{refused}");
    }
    let names = conn.ask("CONFIG GET respool.policies.*");
    assert!(names.contains("respool.policies.rename") && !names.contains("t0uch"), "{names}");
    assert_eq!(conn.ask("T0UCH b"), ":1\r\n");
    assert_eq!(set(&mut conn, "respool.policies.read_only", "true"), "+OK\r\n");
    assert!(other.ask("SET b y").starts_with("-READONLY "));
    assert_eq!(other.ask("GET b"), "$1\r\nx\r\n");
}
