//! Strings that are stored compressed, in front of real servers.

use std::fs;

use testkit::cluster::RedisCluster;
use testkit::{RedisServer, Respool};

use crate::setup::{RESPOOL, direct};

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
