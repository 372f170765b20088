//! BIGKEYS: large requests and replies, as they pass.

use crate::words::{Story, bulk, large_set};
use engine::bigkeys::Options;
use engine::{Notice, Settings};
use resp::Value;

const MIB: usize = 1 << 20;

fn story(options: Options) -> Story {
    Story::with(Settings {
        bigkeys: options,
        unix_ahead_us: 1_600_000_000_000_000,
        ..Settings::default()
    })
}

/// What BIGKEYS GET shows: each as `key command direction bytes elements count`.
fn entries(story: &mut Story) -> Vec<String> {
    story.client("x").says("BIGKEYS GET -1");
    let bytes = story.client("x").takes();
    let (value, _) = resp::value::parse(&bytes).expect("RESP").expect("a whole reply");
    let entries = value.as_list().expect("a list").iter();
    let entry_of = |entry: &Value<'_>| {
        let fields = ["key", "command", "direction", "bytes_max", "elements_max", "count"];
        fields.map(|name| field(entry, name)).join(" ")
    };
    entries.map(entry_of).collect()
}

fn field(entry: &Value<'_>, name: &str) -> String {
    let mut pairs = entry.as_list().expect("a map of RESP2").chunks(2);
    let pair = pairs.find(|pair| pair[0].as_text() == Some(name.as_bytes())).expect("a field");
    match &pair[1] {
        Value::Integer(number) => number.to_string(),
        text => String::from_utf8_lossy(text.as_text().expect("a text")).into_owned(),
    }
}

#[test]
fn a_large_reply_is_noted_once_however_it_comes_and_a_small_one_is_not() {
    let reply = bulk(2 * MIB);
    for step in [30_000, 65_536, MIB, reply.len()] {
        let mut story = story(Options::default());
        story.client("a").says(["GET small", "GET big", "GET small"]);
        story.server().answers("\"v\"");
        for part in reply.chunks(step) {
            story.server().sends(part);
        }
        story.server().answers("\"v\"");
        let small = b"$1\r\nv\r\n";
        assert!(story.client("a").takes() == [small, &reply[..], small].concat());
        let wanted = format!("big get reply {} 0 1", reply.len());
        assert_eq!(entries(&mut story), [wanted.as_str()], "{step}");
    }
}

#[test]
fn what_is_just_below_is_not_noted() {
    let mut story = story(Options { bytes_min: 100_000, ..Options::default() });
    for bytes in [99_989, 99_990] {
        story.client("a").says("GET k");
        story.server().sends(&bulk(bytes));
        story.client("a").takes();
    }
    assert_eq!(entries(&mut story), ["k get reply 100000 0 1"]);
}

#[test]
fn a_large_request_is_noted_whether_it_is_kept_or_streamed() {
    for (value_bytes, conn) in [(100_000, 1), (2 * MIB, 2)] {
        let mut story = story(Options { bytes_min: 100_000, ..Options::default() });
        story.client("a").says("SET k v");
        story.server().gets("SET k v").answers("+OK");
        let set = large_set("big", value_bytes);
        story.client("a").gets("+OK").sends(&set).sends(&set);
        // What is streamed comes one after the other, with the reply in between.
        let mut answered = 0;
        while answered < 2 {
            let waiting = story.conn(conn).takes_requests();
            assert!(waiting > 0, "{answered} came");
            story.conn(conn).sends("+OK\r\n".repeat(waiting).as_bytes());
            answered += waiting;
        }
        story.client("a").gets(["+OK", "+OK"]);
        let wanted = format!("big set request {} 3 2", set.len());
        assert_eq!(entries(&mut story), [wanted.as_str()]);
    }
}

#[test]
fn many_elements_are_noted_of_requests_and_replies() {
    let mut story = story(Options { elements_min: 1_000, ..Options::default() });
    let keys: Vec<String> = (0..999).map(|n| format!("k{n}")).collect();
    story.client("a").says(&format!("MGET {}", keys.join(" ")));
    story.server().sends(format!("*999\r\n{}", "$-1\r\n".repeat(999)).as_bytes());
    story.client("a").says(["SMEMBERS s", "LRANGE l 0 -1"]);
    for count in [1_000, 999] {
        let reply = format!("*{count}\r\n{}", ":1\r\n".repeat(count));
        story.server().sends(reply.as_bytes());
    }
    story.client("a").takes();
    assert_eq!(
        entries(&mut story),
        ["s smembers reply 4007 1000 1", "k0 mget request 9897 1000 1"]
    );
}

#[test]
fn entries_tell_who_when_and_where() {
    let mut story = story(Options::default());
    story.client("a").says("GET k");
    story.after_ms(2_000).server().sends(&bulk(MIB));
    story.client("b").says("GET k");
    story.after_ms(3_000).server().sends(&bulk(MIB + 5));
    story.client("x").says("BIGKEYS GET");
    let bytes = story.client("x").takes();
    let (value, _) = resp::value::parse(&bytes).expect("RESP").expect("a whole reply");
    let [entry] = value.as_list().expect("a list") else { panic!("one entry") };
    let told = ["client", "node", "last_seen", "count"].map(|name| field(entry, name));
    assert_eq!(told, ["10.0.0.1:5002", "127.0.0.1:6379", "1600000006", "2"]);
    let told = story.notices.iter().filter(|notice| matches!(notice, Notice::BigKey { .. }));
    assert_eq!(told.count(), 1, "once a minute for each key");
}

#[test]
fn the_newest_are_kept_and_forgotten_on_demand() {
    let mut story = story(Options { bytes_min: 10_240, max_len: 2, ..Options::default() });
    for key in ["a", "b", "a", "c"] {
        story.client("a").says(&format!("GET {key}"));
        story.server().sends(&bulk(20_000));
    }
    story.client("a").takes();
    assert_eq!(entries(&mut story), ["c get reply 20010 0 1", "a get reply 20010 0 2"]);
    story.client("a").says(["BIGKEYS LEN", "BIGKEYS RESET", "BIGKEYS LEN", "BIGKEYS GET"]);
    story.client("a").gets([":2", "+OK", ":0", "*0"]);
    story.client("a").says("INFO bigkeys");
    let text = story.client("a").takes_text();
    assert!(
        text.contains("bigkeys_entries:0\r\nbigkeys_requests:0\r\nbigkeys_replies:4\r\n"),
        "{text}"
    );
}

#[test]
fn switched_off_nothing_is_kept() {
    let mut story = story(Options { max_len: 0, ..Options::default() });
    story.client("a").sends(&large_set("k", 2 * MIB));
    story.server().answers("+OK");
    story.client("a").gets("+OK").says("GET k");
    story.server().sends(&bulk(2 * MIB));
    story.client("a").takes();
    story.client("a").says(["BIGKEYS GET", "BIGKEYS LEN"]).gets(["*0", ":0"]);
}

#[test]
fn without_kept_requests_the_key_of_a_reply_is_not_known() {
    let slowlog = engine::slowlog::Options { max_len: 0, ..Default::default() };
    let mut story = Story::with(Settings { slowlog, ..Settings::default() });
    story.client("a").says("GET k");
    story.server().sends(&bulk(MIB));
    story.client("a").takes();
    assert_eq!(entries(&mut story), [" get reply 1048588 0 1"]);
}

#[test]
fn large_parts_of_a_split_request_are_noted_by_themselves() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MGET a4 b4");
    story.node_conn("n1", 1).gets("MGET a4").answers("*1\r\n$-1\r\n");
    let reply = [&b"*1\r\n"[..], &bulk(MIB)].concat();
    story.node_conn("n2", 1).gets("MGET b4").sends(&reply);
    assert_eq!(story.client("a").takes().len(), reply.len() + 5);
    assert_eq!(entries(&mut story), ["b4 mget reply 1048592 1 1"]);
}

#[test]
fn a_large_request_of_a_transaction_is_noted_and_what_is_refused_is_not() {
    let options = Options { bytes_min: 10_240, ..Options::default() };
    let mut story = story(options);
    let echo = format!("ECHO {}", "x".repeat(20_000));
    story.client("a").says(&echo).takes();
    let set = large_set("k", 20_000);
    let mut all = crate::words::request("MULTI");
    all.extend_from_slice(&set);
    all.extend_from_slice(&crate::words::request("EXEC"));
    story.client("a").sends(&all);
    story.server().answers(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    story.client("a").gets(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    let wanted = format!("k set request {} 3 1", set.len());
    assert_eq!(entries(&mut story), [wanted.as_str()]);
}

#[test]
fn wrong_words_get_errors_and_help_is_given() {
    let mut story = Story::new();
    for (line, error) in [
        ("BIGKEYS", "-ERR wrong number of arguments for 'bigkeys' command"),
        ("BIGKEYS NOPE", "-ERR unknown subcommand 'NOPE'. Try BIGKEYS HELP."),
        ("BIGKEYS LEN x", "-ERR wrong number of arguments for 'bigkeys|len' command"),
        ("BIGKEYS GET -2", "-ERR count should be greater than or equal to -1"),
    ] {
        story.client("a").says(line).gets(error);
    }
    story.client("a").says("BIGKEYS HELP");
    let text = story.client("a").takes_text();
    assert!(text.starts_with('*') && text.ends_with("+    Print this help.\r\n"), "{text}");
}
