//! TOPKEYS: which keys come most often, by looking at some of the requests.

use crate::words::{Story, large_set};
use engine::hotkeys::Options;
use engine::{Notice, Settings};

fn story(options: Options) -> Story {
    Story::with(Settings { hotkeys: options, ..Settings::default() })
}

/// Every request is looked at.
fn every() -> Options {
    Options { enabled: true, sample: 1, ..Options::default() }
}

/// The client's next reply, which is a list of maps: each as `key count window last_window reads writes`.
fn keys(story: &mut Story, name: &str, line: &str) -> Vec<String> {
    story.client(name).says(line);
    let bytes = story.client(name).takes();
    let (value, _) = resp::value::parse(&bytes).expect("RESP").expect("a whole reply");
    let entries = value.as_list().expect("a list").iter();
    entries.map(|entry| entry_of(entry.as_list().expect("a map of RESP2"))).collect()
}

fn entry_of(entry: &[resp::Value<'_>]) -> String {
    let field = |name: &str| {
        let mut pairs = entry.chunks(2);
        let pair = pairs.find(|pair| pair[0].as_text() == Some(name.as_bytes())).expect("a field");
        match &pair[1] {
            resp::Value::Integer(number) => number.to_string(),
            text => String::from_utf8_lossy(text.as_text().expect("a text")).into_owned(),
        }
    };
    ["key", "count", "window", "last_window", "reads", "writes"].map(field).join(" ")
}

/// Whatever waits at the server is answered.
fn answer_all(story: &mut Story) {
    let waiting = story.server().takes_requests();
    story.server().sends("$-1\r\n".repeat(waiting).as_bytes());
    story.client("a").takes();
}

#[test]
fn a_hot_key_is_found_among_ten_thousand_by_samples() {
    let mut story = story(Options { sample: 16, ..every() });
    for round in 0..100 {
        let lines: Vec<String> = (0..200)
            .map(|n| match n % 2 {
                0 => String::from("GET hot"),
                _ => format!("GET cold:{}", round * 100 + n / 2),
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        story.client("a").says(lines);
        answer_all(&mut story);
    }
    let found = keys(&mut story, "a", "TOPKEYS GET 3");
    let (key, counts) = found[0].split_once(' ').expect("a count");
    let count: u32 = counts.split(' ').next().expect("a count").parse().expect("a number");
    assert_eq!((found.len(), key), (3, "hot"));
    assert!((8_500..11_500).contains(&count), "{count} of 10000");
    // Each of the others was looked at once at most.
    assert!(found[1].ends_with(" 16 16 0 16 0") && found[1].starts_with("cold:"), "{found:?}");
}

#[test]
fn every_key_of_a_request_counts_and_writes_are_told_apart() {
    let mut story = story(every());
    story.client("a").says([
        "MGET a b a",
        "MSET b 1 c 2",
        "GET a",
        "PING",
        "TIME",
        "OBJECT FREQ c",
    ]);
    story.client("a").says(["SPUBLISH a x", "EVAL s 1 c b", "set a 1"]);
    answer_all(&mut story);
    let wanted = ["a 4 4 0 3 1", "c 3 3 0 1 2", "b 2 2 0 1 1"];
    assert_eq!(keys(&mut story, "a", "TOPKEYS GET"), wanted);
    assert_eq!(keys(&mut story, "a", "topkeys get 1"), wanted[..1]);
    assert_eq!(keys(&mut story, "a", "TOPKEYS GET -1"), wanted);
    assert_eq!(keys(&mut story, "a", "TOPKEYS GET 0").len(), 0);
}

#[test]
fn a_window_ends_and_the_last_one_is_known() {
    let mut story = story(every());
    story.client("a").says(["GET a", "GET a", "GET b"]);
    answer_all(&mut story);
    story.after_ms(11_000).client("a").says(["GET b"]);
    answer_all(&mut story);
    assert_eq!(keys(&mut story, "a", "TOPKEYS GET"), ["a 2 0 2 2 0", "b 2 1 1 2 0"]);
    story.after_ms(10_000);
    assert_eq!(keys(&mut story, "a", "TOPKEYS GET"), ["b 1 0 1 1 0"]);
    story.after_ms(10_000).client("a").says("TOPKEYS GET").gets("*0");
}

#[test]
fn what_was_counted_is_forgotten_and_it_is_switched_on_and_off() {
    let mut story = story(Options { enabled: false, ..every() });
    story.client("a").says("GET a");
    answer_all(&mut story);
    story.client("a").says("TOPKEYS GET").gets("*0").says("TOPKEYS ENABLE").gets("+OK");
    story.client("a").says("GET a");
    answer_all(&mut story);
    assert_eq!(keys(&mut story, "a", "TOPKEYS GET"), ["a 1 1 0 1 0"]);
    // A second time it changes nothing.
    story.client("a").says(["TOPKEYS ENABLE", "TOPKEYS RESET"]).gets(["+OK", "+OK"]);
    story.client("a").says("TOPKEYS GET").gets("*0").says("GET b");
    answer_all(&mut story);
    assert_eq!(keys(&mut story, "a", "TOPKEYS GET"), ["b 1 1 0 1 0"]);
    story.client("a").says(["TOPKEYS DISABLE", "TOPKEYS GET"]).gets(["+OK", "*0"]);
    story.client("a").says("TOPKEYS ENABLE").gets("+OK").says("TOPKEYS GET").gets("*0");
}

#[test]
fn the_operator_is_told_of_a_hot_key_once_a_window() {
    let mut story = story(Options { min_per_s: 1, ..every() });
    for seconds in [0, 1, 10] {
        story.after_ms(seconds * 1_000);
        story.client("a").says(vec!["GET k"; 15]);
        answer_all(&mut story);
    }
    let told: Vec<&Notice> =
        story.notices.iter().filter(|notice| matches!(notice, Notice::HotKey { .. })).collect();
    let key = String::from("k");
    let node = String::from("127.0.0.1:6379");
    let notice = Notice::HotKey { key, count: 10, window_s: 10, node };
    assert_eq!(told, [&notice, &notice]);
}

#[test]
fn requests_on_connections_of_their_own_and_streamed_ones_count() {
    let mut story = story(every());
    story.client("a").says(["MULTI", "INCR n", "EXEC"]);
    story.server().answers(["+OK", "+QUEUED", "*1\r\n:1\r\n"]);
    story.client("a").takes();
    story.client("b").sends(&large_set("big", 1 << 20));
    story.client("b").says("TOPKEYS GET").gets_nothing();
    story.conn(2).takes_requests();
    story.conn(2).answers("+OK");
    let bytes = story.client("b").takes();
    let (_, used) = resp::value::parse(&bytes).expect("RESP").expect("OK");
    let (value, _) = resp::value::parse(&bytes[used..]).expect("RESP").expect("a list");
    let entries = value.as_list().expect("a list").iter();
    let entries: Vec<String> =
        entries.map(|entry| entry_of(entry.as_list().expect("a map"))).collect();
    assert_eq!(entries, ["big 1 1 0 0 1", "n 1 1 0 0 1"]);
}

#[test]
fn the_parts_of_a_split_request_and_what_is_sent_on_count_each_key_once() {
    let mut story = Story::warm_cluster_with(|settings| settings.hotkeys = every());
    story.client("a").says("TOPKEYS RESET").gets("+OK");
    story.client("a").says("MGET a4 b4");
    story.node_conn("n1", 1).gets("MGET a4").answers("*1\r\n$-1\r\n");
    story.node_conn("n2", 1).gets("MGET b4").answers("*1\r\n$-1\r\n");
    story.client("a").takes();
    story.client("a").says("GET a4");
    story.node("n1").gets("GET a4").moved("a4", "n2");
    story.node("n2").gets("GET a4").answers("nil");
    story.client("a").gets("nil");
    assert_eq!(keys(&mut story, "a", "TOPKEYS GET"), ["a4 2 2 0 2 0", "b4 1 1 0 1 0"]);
}

#[test]
fn many_requests_of_one_write_are_looked_at_and_what_is_kept_is_bounded() {
    let mut story = story(Options { top: 3, ..every() });
    story.client("a").says(vec!["GET k"; 50]);
    answer_all(&mut story);
    // Of one request only so many keys count.
    story.client("a").says(&format!("MGET{}", " many".repeat(1_030)));
    answer_all(&mut story);
    let others: Vec<String> = (0..50).map(|n| format!("GET other:{n}")).collect();
    story.client("a").says(others.iter().map(String::as_str).collect::<Vec<_>>());
    answer_all(&mut story);
    let found = keys(&mut story, "a", "TOPKEYS GET -1");
    assert_eq!(found.len(), 3);
    assert_eq!(found[..2], ["many 1024 1024 0 1024 0", "k 50 50 0 50 0"]);
}

#[test]
fn hotkeys_is_the_servers_own() {
    let mut story = Story::new();
    let lines = ["HOTKEYS START METRICS 1 CPU", "hotkeys get", "HOTKEYS STOP"];
    story.client("a").says(lines);
    story.server().gets(["HOTKEYS START METRICS 1 CPU", "hotkeys get", "HOTKEYS STOP"]);
    story.server().answers(["+OK", "*0", "nil"]);
    let before = "-ERR unknown command 'HOTKEYS', with args beginning with: 'GET' ";
    story.client("a").gets(["+OK", "*0", "nil"]);
    // Before Redis 8.6.
    story.client("b").says("HOTKEYS GET");
    story.server().gets("HOTKEYS GET").answers(before);
    story.client("b").gets(before);
}

#[test]
fn every_shard_has_hot_keys_and_their_lists_are_put_together() {
    let mut story = Story::warm_cluster();
    let list = |node: &str| format!("*1\r\n*2\r\n$4\r\nname\r\n$2\r\n{node}\r\n");
    for (line, replies, gets) in [
        ("HOTKEYS START METRICS 1 CPU", ["+OK".into(), "+OK".into(), "+OK".into()], "+OK".into()),
        (
            "HOTKEYS GET",
            ["n1", "n2", "n3"].map(list),
            format!(
                "*3\r\n{}",
                ["n1", "n2", "n3"].map(|node| list(node)[4..].to_string()).concat()
            ),
        ),
        ("HOTKEYS STOP", ["+OK".into(), "+OK".into(), "+OK".into()], "+OK".into()),
    ] {
        story.client("a").says(line);
        for (node, reply) in ["n1", "n2", "n3"].into_iter().zip(&replies) {
            story.node(node).gets(line).answers(&**reply);
        }
        story.client("a").gets(&*gets);
    }
}

#[test]
fn wrong_words_get_errors_and_help_is_given() {
    let mut story = Story::new();
    for (line, error) in [
        ("TOPKEYS", "-ERR wrong number of arguments for 'topkeys' command"),
        ("TOPKEYS NOPE", "-ERR unknown subcommand 'NOPE'. Try TOPKEYS HELP."),
        ("TOPKEYS RESET x", "-ERR wrong number of arguments for 'topkeys|reset' command"),
        ("TOPKEYS GET x", "-ERR count should be greater than or equal to -1"),
        ("TOPKEYS GET -2", "-ERR count should be greater than or equal to -1"),
    ] {
        story.client("a").says(line).gets(error);
    }
    story.client("a").says("TOPKEYS GET 1 2");
    assert!(story.client("a").takes_text().starts_with("-ERR "));
    story.client("a").says("TOPKEYS HELP");
    let text = story.client("a").takes_text();
    assert!(text.starts_with('*') && text.ends_with("+    Print this help.\r\n"), "{text}");
}

#[test]
fn info_shows_them_and_so_does_resp3() {
    let mut story = story(every());
    story.client("a").says(["SET a 1", "GET a\r\nb", "GET a"]);
    answer_all(&mut story);
    story.client("a").says("INFO hotkeys");
    let text = story.client("a").takes_text();
    for line in [
        "# Hotkeys\r\nhotkeys_enabled:1\r\nhotkeys_sample:1\r\nhotkeys_window_s:10\r\n",
        "hotkey_0:per_second=2,count=2,reads=1,writes=1,key=a\r\n",
        "hotkey_1:per_second=1,count=1,reads=1,writes=0,key=a\\r\\nb\r\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("TOPKEYS GET 1");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("*1\r\n%7\r\n$3\r\nkey\r\n$1\r\na\r\n"), "{text}");
}
