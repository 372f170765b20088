//! SLOWLOG: what took long, as the proxy saw it.

use crate::words::{Story, large_set};
use engine::Settings;
use engine::acl::Users;
use engine::slowlog::Options;

fn story(slower_than_us: u64, max_len: usize) -> Story {
    let slowlog = Options { slower_than_us, max_len };
    Story::with(Settings { slowlog, unix_ahead_us: 1_600_000_000_000_000, ..Settings::default() })
}

/// One entry as the wire has it; its number is that of the time.
fn entry(at_ms: u64, took_us: u64, args: &[&str], from: &str, name: &str) -> String {
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let args: String = std::iter::once(format!("*{}\r\n", args.len()))
        .chain(args.iter().map(|arg| bulk(arg)))
        .collect();
    let (number, seconds) = (1_000_000 + at_ms * 1_000, 1_600_000_001 + at_ms / 1_000);
    format!("*6\r\n:{number}\r\n:{seconds}\r\n:{took_us}\r\n{args}{}{}", bulk(from), bulk(name))
}

#[test]
fn what_is_slow_is_kept_with_its_arguments_and_its_client_the_newest_first() {
    let mut story = story(10_000, 128);
    story.client("a").says(["CLIENT SETNAME web", "SET k v", "GET other"]).gets("+OK");
    story.after_ms(9).server().gets(["SET k v"]).answers("+OK");
    story.after_ms(10).server().gets("GET other").answers("nil");
    story.client("b").says("GET k");
    story.after_ms(2_000).server().answers("\"v\"");
    story.client("b").says("SLOWLOG LEN").takes();
    let second = entry(2_019, 2_000_000, &["GET", "k"], "10.0.0.1:5002", "");
    let first = entry(19, 10_000, &["GET", "other"], "10.0.0.1:5001", "web");
    let all = format!("*2\r\n{second}{first}");
    for line in ["SLOWLOG GET", "SLOWLOG GET -1", "SLOWLOG GET 2", "slowlog get 1000"] {
        story.client("b").says(line).gets(all.as_str());
    }
    story.client("b").says("SLOWLOG GET 1").gets(format!("*1\r\n{second}").as_str());
    story.client("b").says(["SLOWLOG GET 0", "SLOWLOG LEN", "SLOWLOG RESET", "SLOWLOG LEN"]);
    story.client("b").gets(["*0", ":2", "+OK", ":0"]);
    story.client("b").says("SLOWLOG GET").gets("*0");
}

#[test]
fn requests_that_were_answered_together_are_one_entry() {
    let mut story = story(10_000, 128);
    story.client("a").says(["GET k1", "GET k2", "GET k3", "SET k 1"]);
    story.after_ms(50).server().answers(["nil", "nil", "nil", "+OK"]);
    story.client("a").takes();
    let set = entry(50, 50_000, &["SET", "k", "1"], "10.0.0.1:5001", "");
    let set = set.replacen(":1050000", ":1050001", 1);
    story.client("a").says("SLOWLOG GET").gets(format!("*1\r\n{set}").as_str());
    // GET takes a server constant time, and SET is not said to.
    assert_eq!(behind(&mut story), [3]);
}

/// How many requests waited behind each entry, the newest first.
fn behind(story: &mut Story) -> Vec<u64> {
    story.client("reader").says("SLOWLOG GET -1 DETAIL");
    let text = story.client("reader").takes_text();
    let entries = text.split("*10\r\n").skip(1);
    let counts = entries.map(|entry| entry.trim_end().rsplit(':').next().expect("a number"));
    counts.map(|count| count.parse().expect("a number")).collect()
}

// One script of 38 ms and 200 clients: there were 128 entries of GET, and none of the script.
#[test]
fn who_waited_behind_a_slow_request_is_counted_and_not_listed() {
    let mut story = story(10_000, 128);
    story.client("early").says("GET early");
    story.client("a").says("EVAL slow 0");
    for number in 0..200 {
        story.client(&number.to_string()).says("GET k");
    }
    // In one piece with the first of those behind it, and then the rest.
    story
        .after_ms(38)
        .server()
        .sends(&[b"$-1\r\n:1\r\n".to_vec(), b"$-1\r\n".repeat(100)].concat());
    story.after_ms(1).server().sends(&b"$-1\r\n".repeat(100));
    story.client("b").says("SLOWLOG GET");
    let script = entry(38, 38_000, &["EVAL", "slow", "0"], "10.0.0.1:5002", "");
    let script = script.replacen(":1038000", ":1038001", 1);
    story.client("b").gets(format!("*1\r\n{script}").as_str());
    assert_eq!(behind(&mut story), [201]);
}

#[test]
fn of_requests_that_are_all_quick_by_themselves_the_first_is_listed() {
    let mut story = story(10_000, 128);
    story.client("a").says(["GET a", "GET b"]);
    story.client("b").says("HGET c d");
    story.after_ms(20).server().answers(["nil"; 3]);
    story.client("a").takes();
    story.client("b").takes();
    story.client("a").says("SLOWLOG GET");
    let first = entry(20, 20_000, &["GET", "a"], "10.0.0.1:5001", "");
    story.client("a").gets(format!("*1\r\n{first}").as_str());
    assert_eq!(behind(&mut story), [2]);
}

// Each takes a millisecond, and the last reply comes after twenty.
#[test]
fn many_that_are_not_slow_make_none_of_them_slow() {
    let mut story = story(10_000, 128);
    story.client("a").says(["LRANGE l 0 -1"; 20]);
    for _ in 0..20 {
        story.after_ms(1).server().answers("*0");
    }
    story.client("a").takes();
    story.client("a").says("SLOWLOG LEN").gets(":0");
}

#[test]
fn each_that_may_have_been_slow_is_listed() {
    let mut story = story(10_000, 128);
    story.client("a").says("SMEMBERS a");
    story.client("b").says("KEYS *");
    story.client("c").says("SMEMBERS c");
    story.after_ms(20).conn(1).answers(["*0", "*0"]);
    story.client("a").takes();
    story.client("a").says("SLOWLOG LEN").gets(":2");
    story.after_ms(5).conn(1).gets(["SMEMBERS a", "SMEMBERS c"]);
}

#[test]
fn the_oldest_go_first() {
    let mut story = story(1_000, 2);
    for key in ["a", "b", "c"] {
        story.client("a").says(&format!("GET {key}"));
        story.after_ms(1).server().answers("nil");
    }
    story.client("a").takes();
    let kept = ["c", "b"].map(|key| {
        entry(if key == "c" { 3 } else { 2 }, 1_000, &["GET", key], "10.0.0.1:5001", "")
    });
    story.client("a").says("SLOWLOG LEN").gets(":2");
    story.client("a").says("SLOWLOG GET").gets(format!("*2\r\n{}", kept.concat()).as_str());
}

#[test]
fn a_wait_that_was_asked_for_is_not_slow() {
    let mut story = story(10_000, 128);
    story.client("a").says("BLPOP l 0");
    story.after_ms(60_000).server().answers("*-1\r\n");
    story.client("a").gets("*-1\r\n").says("SLOWLOG LEN").gets(":0");
}

#[test]
fn with_a_threshold_of_zero_a_wait_stands_there_too() {
    let mut story = story(0, 128);
    story.client("a").says("BLPOP l 0");
    story.after_ms(60_000).server().answers("*-1\r\n");
    story.client("a").gets("*-1\r\n").says("SLOWLOG GET");
    let wait = entry(60_000, 0, &["BLPOP", "l", "0"], "10.0.0.1:5001", "");
    story.client("a").gets(format!("*1\r\n{wait}").as_str());
}

#[test]
fn of_what_was_streamed_only_the_name_is_known() {
    let mut story = story(10_000, 128);
    story.client("a").sends(&large_set("k", 1 << 20));
    story.after_ms(20).server().answers("+OK");
    story.client("a").gets("+OK").says("SLOWLOG GET");
    let entry = entry(20, 20_000, &["set"], "10.0.0.1:5001", "");
    story.client("a").gets(format!("*1\r\n{entry}").as_str());
}

#[test]
fn switched_off_nothing_is_kept() {
    let mut story = story(0, 0);
    story.client("a").says("GET k");
    story.after_ms(1_000).server().answers("nil");
    story.client("a").gets("nil").says(["SLOWLOG LEN", "SLOWLOG GET"]).gets([":0", "*0"]);
}

#[test]
fn the_parts_of_a_split_request_are_slow_by_themselves() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MGET a4 b4");
    story.node_conn("n1", 1).gets("MGET a4").answers("*1\r\n$-1\r\n");
    story.after_ms(500).node_conn("n2", 1).gets("MGET b4").answers("*1\r\n$-1\r\n");
    story.client("a").takes();
    story.client("a").says("SLOWLOG GET");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("*1\r\n*6\r\n") && text.contains("\r\n:500000\r\n"), "{text}");
    assert!(text.contains("*2\r\n$4\r\nMGET\r\n$2\r\nb4\r\n"), "{text}");
}

#[test]
fn that_of_the_servers_is_asked_for_by_name() {
    let mut story = Story::new();
    story.client("a").says(["SLOWLOG SERVER GET 3", "slowlog server len", "SLOWLOG SERVER X y"]);
    story.server().gets(["SLOWLOG GET 3", "slowlog len"]).answers(["*0", ":7"]);
    let unknown = "-ERR unknown subcommand 'X'. Try SLOWLOG HELP.";
    story.client("a").gets(["*0", ":7", unknown]);
    let mut story = Story::warm_cluster();
    story.client("a").says("SLOWLOG SERVER LEN");
    for node in ["n1", "n2", "n3"] {
        story.node_conn(node, 1).gets("SLOWLOG LEN").answers(":2");
    }
    story.client("a").gets(":6");
}

#[test]
fn wrong_words_get_the_servers_errors() {
    let settings = Settings { users: Users::with_password(b"pw").into(), ..Settings::default() };
    let mut story = Story::with(settings);
    story.client("a").says("SLOWLOG SERVER LEN").gets("-NOAUTH Authentication required.");
    story.client("a").says("AUTH pw").gets("+OK");
    for (line, error) in [
        ("SLOWLOG", "-ERR wrong number of arguments for 'slowlog' command"),
        ("SLOWLOG NOPE", "-ERR unknown subcommand 'NOPE'. Try SLOWLOG HELP."),
        ("SLOWLOG SERVER", "-ERR unknown subcommand 'SERVER'. Try SLOWLOG HELP."),
        ("SLOWLOG LEN x", "-ERR wrong number of arguments for 'slowlog|len' command"),
        ("SLOWLOG GET x", "-ERR count should be greater than or equal to -1"),
        ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1"),
    ] {
        story.client("a").says(line).gets(error);
    }
    story.client("a").says("SLOWLOG HELP");
    let text = story.client("a").takes_text();
    assert!(text.starts_with('*') && text.ends_with("+    Print this help.\r\n"), "{text}");
}

#[test]
fn the_detail_tells_how_long_it_waited_here_and_who_answered() {
    let mut story = story(10_000, 128);
    story.client("a").says("GET k");
    story.after_ms(20).server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.client("b").says("CLIENT PAUSE 100").gets("+OK");
    story.client("a").says("GET l");
    // The pause ends after 100 of them.
    story.after_ms(101);
    story.after_ms(30).server().gets("GET l").answers("nil");
    story.client("a").gets("nil");
    let detail = |entry: &str, queued_us: u64, total_us: u64| {
        let entry = entry.replacen("*6", "*10", 1);
        format!("{entry}:{queued_us}\r\n:{total_us}\r\n$14\r\n127.0.0.1:6379\r\n:0\r\n")
    };
    let from = "10.0.0.1:5001";
    let first = entry(20, 20_000, &["GET", "k"], from, "");
    let held = entry(151, 31_000, &["GET", "l"], from, "");
    story.client("b").says("SLOWLOG GET").gets(format!("*2\r\n{held}{first}").as_str());
    let all = format!("*2\r\n{}{}", detail(&held, 100_000, 131_000), detail(&first, 0, 20_000));
    for line in ["SLOWLOG GET DETAIL", "SLOWLOG GET -1 detail", "SLOWLOG GET 9 DETAIL"] {
        story.client("b").says(line).gets(all.as_str());
    }
    story.client("b").says("SLOWLOG GET x DETAIL");
    story.client("b").gets("-ERR count should be greater than or equal to -1");
    let syntax =
        "-ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.";
    story.client("b").says("SLOWLOG GET 1 2 DETAIL").gets(syntax);
}

#[test]
fn config_set_of_the_servers_holds_here_too() {
    let mut story = story(10_000_000, 128);
    let set = "CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2";
    story.client("a").says(set);
    story.server().gets(set).answers("+OK");
    story.client("a").gets("+OK").says(["PING", "GET k"]);
    story.after_ms(1).server().gets("GET k").answers("nil");
    story.client("a").gets(["+PONG", "nil"]);
    let newest = entry(1, 1_000, &["GET", "k"], "10.0.0.1:5001", "");
    story.client("b").says("SLOWLOG GET 1").gets(format!("*1\r\n{newest}").as_str());
    // The log is asked before the question stands in it.
    story.client("b").says("SLOWLOG RESET").gets("+OK").says("SLOWLOG GET");
    let reset = entry(1, 0, &["SLOWLOG", "RESET"], "10.0.0.1:5002", "");
    let reset = reset.replacen(":1001000", ":1001002", 1);
    story.client("b").gets(format!("*1\r\n{reset}").as_str());
    story.client("b").says("SLOWLOG LEN").gets(":2");
    let off = "CONFIG SET slowlog-log-slower-than -1";
    story.client("a").says([off, "SLOWLOG RESET"]);
    story.server().gets(off).answers("+OK");
    story.client("a").gets(["+OK", "+OK"]).says("GET k");
    story.after_ms(5_000).server().gets("GET k").answers("nil");
    story.client("a").gets("nil").says("SLOWLOG LEN").gets(":0");
    // What the servers refuse by its form changes nothing.
    let wrong = "CONFIG SET slowlog-log-slower-than soon";
    story.client("a").says(wrong);
    story.server().gets(wrong).answers("-ERR no");
    story.client("a").gets("-ERR no").says(["GET k"]);
    story.after_ms(5_000).server().gets("GET k").answers("nil");
    story.client("a").gets("nil").says("SLOWLOG LEN").gets(":0");
}

#[test]
fn the_other_workers_hear_of_it() {
    let settings = |worker| Settings { worker, workers: 2, ..Settings::default() };
    let (mut one, mut other) = (Story::with(settings(0)), Story::with(settings(1)));
    one.client("a").says("CONFIG SET slowlog-log-slower-than 0");
    one.server().gets("CONFIG SET slowlog-log-slower-than 0").answers("+OK");
    for (_, news) in one.tells() {
        other.hears(news);
    }
    other.client("b").says("ECHO x").gets("\"x\"").says("SLOWLOG LEN").gets(":1");
}
