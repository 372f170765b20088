//! Namespaces in front of real servers: the guide's configuration, a cluster, subscriptions and client-side caching.

use std::fs;

use testkit::cluster::RedisCluster;
use testkit::ports::Port;
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};

use crate::setup::{RESPOOL, SOON, Stack, direct};

const PREFIX: [&str; 2] = ["--policies-namespace-prefix", "team-a:"];

#[test]
fn the_configuration_of_the_guide_runs() {
    if direct() {
        return;
    }
    let guide = include_str!("../../../../docs/guides/namespaces.md");
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let server = RedisServer::start();
    let [main, side] = [(); 2].map(|()| Port::v4().release());
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = text.expect("a configuration").to_owned();
    for (from, to) in [
        ("redis://127.0.0.1:6379", server.endpoint().url()),
        ("127.0.0.1:6380", main.to_string()),
        ("127.0.0.1:6390 ", format!("{side} ")),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, &to);
    }
    let file = folder.path().join("respool.toml");
    fs::write(&file, text).expect("the file");
    let proxy =
        Respool::with_config(RESPOOL, &file).listens_by_config(&Endpoint::Tcp(main)).start();
    let (mut shop, mut billing) = (proxy.connect(), Conn::to(&Endpoint::Tcp(side)));
    let mut behind = server.connect();
    for (conn, value) in [(&mut shop, "s"), (&mut billing, "b")] {
        assert_eq!(conn.ask("GET k"), "$-1\r\n");
        assert_eq!(conn.ask(&format!("SET k {value}")), "+OK\r\n");
        assert_eq!(conn.ask("KEYS *"), "*1\r\n$1\r\nk\r\n");
        assert!(conn.ask("FLUSHALL").contains("(policies.namespace)"));
    }
    assert_eq!(behind.ask("MGET shop:k billing:k k"), "*3\r\n$1\r\ns\r\n$1\r\nb\r\n$-1\r\n");
    // One that is streamed, and its neighbours.
    let large = "v".repeat(3 << 20);
    assert_eq!(shop.command(&["SET", "large", &large]).expect("a reply"), b"+OK\r\n");
    let reply = behind.command(&["GET", "shop:large"]).expect("a reply");
    assert!(reply == format!("${}\r\n{large}\r\n", large.len()).as_bytes());
    assert!(shop.command(&["GET", "large"]).expect("a reply") == reply);
    // Neither hears the other.
    assert!(shop.ask("SUBSCRIBE news").ends_with("$4\r\nnews\r\n:1\r\n"));
    assert_eq!(billing.ask("PUBLISH news x"), ":0\r\n");
    assert_eq!(behind.ask("PUBLISH shop:news y"), ":1\r\n");
    let message = String::from_utf8(shop.reply().expect("a message")).expect("text");
    assert_eq!(message, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\ny\r\n");
    let info = billing.ask("INFO policies");
    assert!(info.contains("policy_namespace:refused=1"), "{info}");
}

#[test]
fn in_a_cluster_the_clients_tags_say_which_keys_lie_together() {
    if direct() {
        return;
    }
    let cluster = RedisCluster::start(3, 0);
    let proxy = Respool::to_url(RESPOOL, &cluster.url()).args(&PREFIX).start();
    let mut conn = proxy.connect();
    for number in 0..50 {
        assert_eq!(conn.ask(&format!("MSET {{t}}:{number} {number} k{number} x")), "+OK\r\n");
    }
    for words in ["MULTI", "SET {t}:1 one", "LPUSH {t}:l a b", "LMPOP 2 {t}:x {t}:l LEFT"] {
        assert!(conn.ask(words).starts_with('+'), "{words}");
    }
    let popped = "*2\r\n$5\r\n{t}:l\r\n*1\r\n$1\r\nb\r\n";
    assert_eq!(conn.ask("EXEC"), format!("*3\r\n+OK\r\n:2\r\n{popped}"));
    assert_eq!(conn.ask("BLPOP {t}:x {t}:l 0"), "*2\r\n$5\r\n{t}:l\r\n$1\r\na\r\n");
    // Between the nodes, and one after the other.
    assert_eq!(conn.ask("EXISTS k0 k1 k2 k3 {t}:1 k99"), ":5\r\n");
    let reply = conn.ask("KEYS k*");
    assert!(reply.starts_with("*50\r\n") && !reply.contains("team-a"), "{reply}");
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let page = conn.command(&["SCAN", &cursor, "COUNT", "7"]).expect("a page");
        let page = String::from_utf8(page).expect("text");
        let mut texts = page.split("\r\n").filter(|line| !line.starts_with(['$', '*']));
        cursor = texts.next().expect("a cursor").to_owned();
        found.extend(texts.filter(|text| !text.is_empty()).map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|name| name.starts_with('k') || name.starts_with("{t}:")));
    // The slot of a client's tag is that of the key.
    let slot = conn.ask("CLUSTER KEYSLOT {t}:1");
    assert_eq!(conn.ask("CLUSTER KEYSLOT t"), conn.ask("CLUSTER KEYSLOT t"));
    assert_eq!(slot, conn.ask("CLUSTER KEYSLOT x{t}y"));
}

#[test]
fn clients_hear_what_changed_under_the_names_that_they_know() {
    if direct() {
        return;
    }
    let stack = Stack::with(&PREFIX);
    let (mut reader, mut broad, mut writer) = (stack.connect(), stack.connect(), stack.connect());
    for (conn, words) in [
        (&mut reader, "CLIENT TRACKING ON"),
        (&mut broad, "CLIENT TRACKING ON BCAST PREFIX user: PREFIX cart:"),
    ] {
        assert!(conn.ask("HELLO 3").starts_with('%'));
        assert_eq!(conn.ask(words), "+OK\r\n");
    }
    let info = broad.ask("CLIENT TRACKINGINFO");
    assert!(info.contains("$5\r\nuser:\r\n") && !info.contains("team-a"), "{info}");
    assert_eq!(reader.ask("GET user:1"), "_\r\n");
    assert_eq!(writer.ask("MSET user:1 a other b"), "+OK\r\n");
    let heard = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nuser:1\r\n";
    for conn in [&mut reader, &mut broad] {
        let push = String::from_utf8(conn.reply().expect("a push")).expect("text");
        assert_eq!(push, heard);
    }
    let overlap = broad.ask("CLIENT TRACKING ON BCAST PREFIX user:1");
    assert!(overlap.starts_with("-ERR Prefix 'user:1' overlaps"), "{overlap}");

    // In RESP2 over a channel that has the prefix at the server: what others publish on the servers' one comes to nobody here.
    let (mut ear, mut old) = (stack.connect(), stack.connect());
    let id = ear.ask("CLIENT ID");
    let id = id.trim_start_matches(':').trim_end();
    assert!(ear.ask("SUBSCRIBE __redis__:invalidate").contains("$20\r\n__redis__:invalidate"));
    assert_eq!(old.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK\r\n");
    assert_eq!(old.ask("GET other"), "$1\r\nb\r\n");
    assert_eq!(writer.ask("SET other c"), "+OK\r\n");
    let mut message = || String::from_utf8(ear.reply().expect("a message")).expect("text");
    let told = "$20\r\n__redis__:invalidate\r\n*1\r\n$5\r\nother\r\n";
    let mut heard = message();
    // When it begins to be told, all may have changed.
    if heard.ends_with("$-1\r\n") {
        heard = message();
    }
    assert!(heard.ends_with(told), "{heard}");
}

#[test]
fn another_prefix_closes_clients_and_shows_them_other_keys() {
    if direct() {
        return;
    }
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("respool.toml");
    let write = |prefix: &str| {
        let url = server.endpoint().url();
        let text = format!("upstream = \"{url}\"\n[policies.namespace]\nprefix = \"{prefix}\"\n");
        fs::write(&file, text).expect("the file");
    };
    write("a:");
    // With several each changes by itself, and closes its own.
    let proxy = Respool::with_config(RESPOOL, &file).workers(1).start();
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("SET k 1"), "+OK\r\n");
    write("b:");
    proxy.process().signal(rustix::process::Signal::HUP);
    assert_eq!(conn.read_to_close().expect("an end"), b"");
    assert_eq!(proxy.connect().ask("GET k"), "$-1\r\n");
    assert_eq!(server.connect().ask("GET a:k"), "$1\r\n1\r\n");
    wait::until_true("a new client", SOON, || proxy.connect().ask("SET k 2") == "+OK\r\n");
    // What is wrong is told and changes nothing.
    write("{b}:");
    proxy.process().signal(rustix::process::Signal::HUP);
    let mut conn = proxy.connect();
    assert_eq!(conn.ask("GET k"), "$1\r\n2\r\n");
    let denied = conn.ask("CONFIG SET respool.policies.namespace.prefix c:");
    assert!(denied.starts_with("-ERR"), "{denied}");
}

#[test]
fn no_namespace_tells_another_one_of_changed_keys() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let url = server.endpoint().url();
    let [a, b] = ["a:", "b:"].map(|prefix| {
        Respool::to_url(RESPOOL, &url).args(&["--policies-namespace-prefix", prefix]).start()
    });
    let (mut ear, mut caching, mut other) = (b.connect(), b.connect(), a.connect());
    let id = ear.ask("CLIENT ID");
    let id = id.trim_start_matches(':').trim_end();
    assert!(ear.ask("SUBSCRIBE __redis__:invalidate").contains("$20\r\n__redis__:invalidate"));
    assert_eq!(caching.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK\r\n");
    assert_eq!(caching.ask("GET k"), "$-1\r\n");
    // The other namespace, and the servers' own channel, reach nobody here; the change of a key does, and comes behind them.
    assert_eq!(other.ask("PUBLISH __redis__:invalidate x"), ":0\r\n");
    assert_eq!(server.connect().ask("PUBLISH __redis__:invalidate x"), ":0\r\n");
    assert_eq!(b.connect().ask("SET k v"), "+OK\r\n");
    let mut heard = String::from_utf8(ear.reply().expect("a message")).expect("text");
    if heard.ends_with("$-1\r\n") {
        heard = String::from_utf8(ear.reply().expect("a message")).expect("text");
    }
    assert!(heard.ends_with("$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n"), "{heard}");
}
