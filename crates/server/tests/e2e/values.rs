//! Values that are stored compressed or encrypted, in front of real servers.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use testkit::cluster::RedisCluster;
use testkit::{Conn, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, direct};

/// Text that shrinks.
fn page(number: usize) -> String {
    format!("<li>item {number}</li>").repeat(200)
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[test]
fn the_configuration_of_the_guide_runs() {
    if direct() {
        return;
    }
    let guide = include_str!("../../../../docs/guides/values.md");
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let text = text.expect("a configuration").to_owned();
    assert!(text.contains("redis://127.0.0.1:6379"));
    let file = folder.path().join("respool.toml");
    let text = text.replace("redis://127.0.0.1:6379", &server.endpoint().url());
    fs::write(&file, text).expect("the file");
    let proxy = Respool::with_config(RESPOOL, &file).start();
    let (mut conn, mut behind) = (proxy.connect(), server.connect());
    let mut say =
        |words: &[&str]| String::from_utf8(conn.command(words).expect("a reply")).expect("text");
    let (one, two) = (page(1), page(2));
    assert_eq!(behind.command(&["SET", "page:old", &one]).expect("a reply"), b"+OK\r\n");
    assert_eq!(say(&["SET", "page:1", &one]), "+OK\r\n");
    assert_eq!(say(&["SET", "page:1", &two, "GET", "EX", "100"]), bulk(&one));
    assert_eq!(say(&["GETSET", "page:1", &one]), bulk(&two));
    assert_eq!(say(&["MSET", "page:2", &two, "plain", &two, "page:3", "small"]), "+OK\r\n");
    let all = ["$-1\r\n".to_owned(), bulk(&one), bulk(&two), bulk(&two), bulk("small"), bulk(&one)];
    let words = ["MGET", "page:none", "page:1", "page:2", "plain", "page:3", "page:old"];
    assert_eq!(say(&words), format!("*6\r\n{}", all.concat()));
    assert_eq!(say(&["SETEX", "session:a", "100", &two]), "+OK\r\n");
    assert_eq!(say(&["GETEX", "session:a", "PERSIST"]), bulk(&two));
    assert_eq!(say(&["MULTI"]), "+OK\r\n");
    for words in [&["GET", "page:1"][..], &["SET", "page:4", &one], &["GETDEL", "page:2"]] {
        assert_eq!(say(words), "+QUEUED\r\n");
    }
    assert_eq!(say(&["EXEC"]), format!("*3\r\n{}+OK\r\n{}", bulk(&one), bulk(&two)));
    for words in [
        &["APPEND", "page:1", "x"][..],
        &["STRLEN", "page:1"],
        &["EVAL", "return redis.call('get', KEYS[1])", "1", "page:1"],
        &["RENAME", "page:1", "plain"],
        &["SORT", "list", "GET", "page:*"],
    ] {
        assert!(say(words).contains("(policies.values)"), "{words:?}");
    }
    assert_eq!(say(&["RENAME", "page:1", "page:5"]), "+OK\r\n");
    assert_eq!(say(&["GET", "page:5"]), bulk(&one));
    assert_eq!(say(&["LPUSH", "page:list", &one]), ":1\r\n");
    assert_eq!(
        say(&["GET", "page:list"]),
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
    );
    let len = |reply: String| {
        reply.trim_start_matches(':').trim_end().parse::<usize>().expect("a number")
    };
    assert!(len(behind.ask("STRLEN page:5")) < one.len() / 3, "it is compressed");
    assert_eq!(len(behind.ask("STRLEN plain")), two.len());
    assert!(behind.ask("APPEND page:5 damage").starts_with(':'));
    assert!(say(&["GET", "page:5"]).starts_with("-ERR respool: the stored value cannot be read"));
    assert_eq!(say(&["GET", "page:4"]), bulk(&one));
}

#[test]
fn in_a_cluster_and_a_namespace_each_value_is_that_of_its_key() {
    if direct() {
        return;
    }
    let cluster = RedisCluster::start(3, 0);
    let args = ["--policies-namespace-prefix", "a:", "--policies-values-compress", "p:*"];
    let proxy = Respool::to_url(RESPOOL, &cluster.url()).args(&args).start();
    let mut conn = proxy.connect();
    let mut say =
        |words: &[&str]| String::from_utf8(conn.command(words).expect("a reply")).expect("text");
    let pages: Vec<String> = (0..20).map(page).collect();
    for (number, page) in pages.iter().enumerate() {
        let key = |kind: &str| format!("{kind}:{number}");
        assert_eq!(say(&["MSET", &key("p"), page, &key("q"), page]), "+OK\r\n");
    }
    let keys: Vec<String> =
        (0..20).flat_map(|number| [format!("q:{number}"), format!("p:{number}")]).collect();
    let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let expected: String = pages.iter().map(|page| bulk(page).repeat(2)).collect();
    assert_eq!(say(&words), format!("*40\r\n{expected}"));
    assert_eq!(say(&["KEYS", "p:1"]), "*1\r\n$3\r\np:1\r\n");
}

/// A file with a key of this byte; what names it in a list of keys.
fn key_file(folder: &Path, name: &str, byte: &str) -> String {
    let file = folder.join(name);
    fs::write(&file, format!("{}\n", byte.repeat(32))).expect("a key");
    format!("{name} key_file={}", file.display())
}

fn said(conn: &mut Conn, words: &[&str]) -> String {
    String::from_utf8_lossy(&conn.command(words).expect("a reply")).into_owned()
}

#[test]
fn the_configuration_of_the_guide_about_keys_runs() {
    if direct() {
        return;
    }
    let guide = include_str!("../../../../docs/guides/values.md");
    let text = guide.split("```toml\n").nth(2).and_then(|rest| rest.split("```").next());
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let text = text.expect("a second configuration").to_owned();
    for name in ["values-2026-11", "values-2025-11"] {
        assert!(text.contains(&format!("/run/secrets/{name}")), "{name}");
        fs::write(folder.path().join(name), name[9..11].repeat(32)).expect("a key");
    }
    let text = text.replace("redis://127.0.0.1:6379", &server.endpoint().url());
    let text = text.replace("/run/secrets", &folder.path().display().to_string());
    let file = folder.path().join("respool.toml");
    fs::write(&file, text).expect("the file");
    let proxy = Respool::with_config(RESPOOL, &file).start();
    let (mut conn, mut behind) = (proxy.connect(), server.connect());
    assert_eq!(said(&mut conn, &["SET", "secret:1", "the treasure"]), "+OK\r\n");
    assert_eq!(said(&mut conn, &["GET", "secret:1"]), bulk("the treasure"));
    let long = page(1);
    assert_eq!(said(&mut conn, &["HSET", "user:1", "mail", "a@b", "page", &long]), ":2\r\n");
    assert_eq!(said(&mut conn, &["HGET", "user:1", "mail"]), bulk("a@b"));
    let stored = said(&mut behind, &["GET", "secret:1"]);
    assert!(stored.contains("rsp\u{2}\u{7}2026-11") && !stored.contains("treasure"), "{stored}");
    let stored = said(&mut behind, &["HGETALL", "user:1"]);
    assert!(stored.contains("mail") && !stored.contains("a@b") && !stored.contains("item"));
    assert!(stored.len() < long.len() / 3, "it is compressed before");
    for words in [&["HINCRBY", "user:1", "n", "1"][..], &["HSTRLEN", "user:1", "mail"]] {
        assert!(said(&mut conn, words).contains("(policies.values)"), "{words:?}");
    }
    // What somebody planted there is not shown, and neither is what was changed.
    assert_eq!(said(&mut behind, &["SET", "secret:2", "planted"]), "+OK\r\n");
    assert!(said(&mut conn, &["GET", "secret:2"]).contains("is not encrypted"));
    assert!(said(&mut behind, &["SETRANGE", "secret:1", "60", "X"]).starts_with(':'));
    let reply = said(&mut conn, &["GET", "secret:1"]);
    assert!(reply.starts_with("-ERR respool: the stored value was changed"), "{reply}");
    // Nobody is told a key.
    let shown = said(&mut conn, &["CONFIG", "GET", "respool.policies.values.*"]);
    let info = said(&mut conn, &["INFO", "everything"]);
    let key = "26".repeat(8);
    for text in [&shown, &info, &proxy.process().log()] {
        assert!(!text.contains(&key));
    }
    assert!(shown.contains("2026-11 key_file="), "{shown}");
}

/// Reads what was written to 50 keys, in one of two versions, until somebody says that it ends.
fn read_until(mut conn: Conn, ends: &AtomicBool, reads: &AtomicUsize) {
    while !ends.load(Ordering::Relaxed) {
        let number = reads.fetch_add(1, Ordering::Relaxed) % 50;
        let reply = said(&mut conn, &["GET", &format!("s:{number}")]);
        let is_right = |kind: &str| reply == bulk(&format!("{kind} {number}"));
        assert!(is_right("old") || is_right("new"), "{reply}");
    }
}

#[test]
fn keys_turn_by_a_reload_while_clients_read_and_two_proxies_share_them() {
    if direct() {
        return;
    }
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let old = key_file(folder.path(), "old", "a1");
    let new = key_file(folder.path(), "new", "b2");
    let file = folder.path().join("respool.toml");
    let write = |keys: &str| {
        let text = format!(
            "upstream = \"{}\"\n[policies.values]\nencrypt = [\"s:*\"]\nencrypted_only = true\nkeys = [{keys}]\n",
            server.endpoint().url()
        );
        fs::write(&file, text).expect("the file");
    };
    write(&format!("\"{old}\""));
    let proxy = Respool::with_config(RESPOOL, &file).start();
    let both = format!("{new}; {old}");
    let args = ["--policies-values-encrypt", "s:*", "--policies-values-keys", &both];
    let other = Respool::to(RESPOOL, server.endpoint()).args(&args).start();
    let mut conn = proxy.connect();
    for number in 0..50 {
        let key = format!("s:{number}");
        assert_eq!(said(&mut conn, &["SET", &key, &format!("old {number}")]), "+OK\r\n");
    }
    assert_eq!(said(&mut other.connect(), &["GET", "s:7"]), bulk("old 7"));
    let (ends, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    // What the first key of the list is now, by what is stored.
    let writes_with = |name: &str| {
        let (mut conn, mut behind) = (proxy.connect(), server.connect());
        assert_eq!(said(&mut conn, &["SET", "s:probe", "v"]), "+OK\r\n");
        let stored = said(&mut behind, &["GET", "s:probe"]);
        assert!(stored.contains(&format!("\u{3}{name}")), "{stored}");
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let conn = proxy.connect();
            scope.spawn(|| read_until(conn, &ends, &reads));
        }
        write(&format!("\"{old}\", \"{new}\""));
        proxy.reread(SOON);
        write(&format!("\"{new}\", \"{old}\""));
        proxy.reread(SOON);
        writes_with("new");
        let mut conn = proxy.connect();
        for number in 0..50 {
            let key = format!("s:{number}");
            assert_eq!(said(&mut conn, &["SET", &key, &format!("new {number}")]), "+OK\r\n");
        }
        let before = reads.load(Ordering::Relaxed);
        wait::until("more reads", SOON, || {
            (reads.load(Ordering::Relaxed) > before + 100).then_some(())
        });
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(said(&mut other.connect(), &["GET", "s:7"]), bulk("new 7"));
    // The old key is taken away; nobody needs it any more. The content of a file can change, too.
    write(&format!("\"{new}\""));
    proxy.reread(SOON);
    assert_eq!(said(&mut conn, &["GET", "s:7"]), bulk("new 7"));
    key_file(folder.path(), "new", "c3");
    proxy.reread(SOON);
    let reply = said(&mut conn, &["GET", "s:7"]);
    assert!(reply.contains("or with another key than 'new'"), "{reply}");
    let log = proxy.process().log();
    assert!(!log.contains("a1a1a1") && !log.contains("b2b2b2") && !log.contains("c3c3c3"));
}

#[test]
fn what_lz4_and_zstd_made_is_read_whichever_is_wanted() {
    if direct() {
        return;
    }
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let key = key_file(folder.path(), "k", "a1");
    let file = folder.path().join("respool.toml");
    let write = |algorithm: &str| {
        let text = format!(
            "upstream = \"{}\"\n[policies.values]\ncompress = [\"*\"]\nencrypt = [\"s:*\"]\nkeys = [\"{key}\"]\ntypes = [\"string\", \"hash\"]\n{algorithm}",
            server.endpoint().url()
        );
        fs::write(&file, text).expect("the file");
    };
    write("");
    let proxy = Respool::with_config(RESPOOL, &file).start();
    let (mut conn, mut behind) = (proxy.connect(), server.connect());
    let pages: Vec<String> = (0..3).map(page).collect();
    let versions = [
        ("lz4", "", 1),
        ("zstd", "compress_algorithm = \"zstd\"\n", 3),
        ("high", "compress_algorithm = \"zstd\"\ncompress_level = 9\n", 3),
        ("again", "compress_algorithm = \"lz4\"\n", 1),
    ];
    let mut lens = Vec::new();
    for (at, (name, text, kind)) in versions.iter().enumerate() {
        if at > 0 {
            write(text);
            proxy.reread(SOON);
        }
        let (plain, sealed, hash) = (format!("p:{name}"), format!("s:{name}"), format!("h:{name}"));
        assert_eq!(said(&mut conn, &["SET", &plain, &pages[0]]), "+OK\r\n");
        assert_eq!(said(&mut conn, &["SET", &sealed, &pages[1]]), "+OK\r\n");
        assert_eq!(said(&mut conn, &["HSET", &hash, "f", &pages[2]]), ":1\r\n");
        let stored = behind.command(&["GET", &plain]).expect("a reply");
        let mark = [&b"\xffrsp"[..], &[*kind]].concat();
        assert!(stored.windows(5).any(|five| five == mark), "{name}");
        let stored = behind.command(&["GET", &sealed]).expect("a reply");
        assert!(stored.windows(7).any(|seven| seven == b"\xffrsp\x02\x01k"), "{name}");
        assert!(stored.len() < pages[1].len() / 3, "it is compressed before");
        lens.push(stored.len());
        // All that is there is read, whatever made it.
        for (name, ..) in &versions[..=at] {
            assert_eq!(said(&mut conn, &["GET", &format!("p:{name}")]), bulk(&pages[0]));
            assert_eq!(said(&mut conn, &["GET", &format!("s:{name}")]), bulk(&pages[1]));
            let words = ["HGET", &format!("h:{name}"), "f"];
            assert_eq!(said(&mut conn, &words), bulk(&pages[2]));
        }
    }
    assert!(lens[1] < lens[0] && lens[3] == lens[0], "{lens:?}");
    // What is damaged is an error, and the next one is read.
    assert!(said(&mut behind, &["SETRANGE", "p:zstd", "20", "damage"]).starts_with(':'));
    let reply = said(&mut conn, &["GET", "p:zstd"]);
    assert!(reply.starts_with("-ERR respool: the stored value cannot be read"), "{reply}");
    assert_eq!(said(&mut conn, &["GET", "p:high"]), bulk(&pages[0]));
}
