//! Requests that are told one by one: which, with what, and how many at most.

use crate::words::{Story, large_set};
use engine::limits::OBSERVED_MAX;
use engine::observed::{Access, Observed, Options};
use engine::{Notice, Settings};

fn story(options: Options) -> Story {
    Story::with(Settings { observed: options, ..Settings::default() })
}

/// With each request in the access log that fits.
fn logged(access: Access) -> Story {
    story(Options { access: Access { sample: 1, ..access }, ..Options::default() })
}

fn taken(story: &mut Story) -> Vec<Observed> {
    std::iter::from_fn(|| story.engine.poll_observed()).collect()
}

/// Each as `command key error bytes`.
fn lines(story: &mut Story) -> Vec<String> {
    let line =
        |one: Observed| format!("{} {} {} {}", one.command, one.key, one.error, one.reply_bytes);
    taken(story).into_iter().map(line).collect()
}

#[test]
fn each_reply_of_a_server_is_told_with_what_is_known_of_its_request() {
    let mut story = logged(Access::default());
    story.client("a").says(["CLIENT SETNAME web", "GET k1", "GET k2", "LPUSH k2 x", "PING"]);
    story.after_ms(3).server().answers(["\"v\"", "nil", "-WRONGTYPE no list"]);
    story.client("a").takes();
    let all = taken(&mut story);
    let told: Vec<String> = all
        .iter()
        .map(|one| format!("{} {} {} {}", one.command, one.key, one.error, one.reply_bytes))
        .collect();
    let here = ["client|setname   5", "ping   7"];
    assert_eq!(told, [here[0], here[1], "get k1  7", "get k2  5", "lpush k2 WRONGTYPE 20"]);
    assert!(all[0].node.is_empty() && all[0].client == all[2].client);
    let first = &all[2];
    assert_eq!((first.addr.as_str(), first.name.as_slice()), ("10.0.0.1:5001", &b"web"[..]));
    assert_eq!((first.queued_us, first.upstream_us, first.left_out), (0, 3_000, 0));
    assert!(!first.node.is_empty() && first.wanted.access && !first.wanted.trace);
}

#[test]
fn what_is_answered_without_a_server_is_told() {
    let mut story = logged(Access::default());
    story.client("a").says(["CLIENT NOPE", "AUTH x", "SYNC"]).takes();
    let errors: Vec<String> = taken(&mut story).into_iter().map(|one| one.error).collect();
    assert_eq!(errors, ["ERR"; 3]);
    story.client("a").says("CLIENT LIST").takes();
    let all = taken(&mut story);
    assert_eq!((all.len(), all[0].command.as_str()), (1, "client|list"));
    assert!(all[0].reply_bytes > 100, "{:?}", all[0]);
    story.holds_questions();
    story.client("a").says("CLIENT LIST").gets_nothing();
    assert_eq!(taken(&mut story), [], "it is not answered yet");
    story.after_ms(2).workers_answer();
    assert_eq!(taken(&mut story)[0].queued_us, 2_000);
}

#[test]
fn what_is_answered_here_must_fit_as_well() {
    let commands = vec![engine::command::lookup(b"ping").expect("a command")];
    let mut story = logged(Access { commands, ..Access::default() });
    story.client("a").says(["PING", "ECHO x", "PING", "PING"]).takes();
    assert_eq!(lines(&mut story).len(), 3);
    let mut story = logged(Access { key_prefix: b"user:".to_vec(), ..Access::default() });
    story.client("a").says(["PING", "SORT user:1 BY", "ECHO user:1"]).takes();
    assert_eq!(lines(&mut story), [""; 0]);
    let options = Options { traces_sample: 2, ..Options::default() };
    let mut story = self::story(options);
    for _ in 0..100 {
        story.client("a").says("PING").takes();
    }
    let count = taken(&mut story).iter().filter(|one| one.wanted.trace).count();
    assert!((35..66).contains(&count), "{count}");
}

#[test]
fn what_was_lost_with_its_connection_is_told_with_the_error() {
    let mut story = logged(Access::default());
    story.client("a").says(["GET k1", "GET k2"]);
    story.server().answers("nil").dies("reset");
    story.client("a").takes();
    let all = taken(&mut story);
    let told: Vec<_> = all.iter().map(|one| (one.key.as_str(), one.error.as_str())).collect();
    assert_eq!(told, [("k1", ""), ("k2", "ERR")]);
    assert!(!all[1].node.is_empty() && all[1].reply_bytes > 20);
}

#[test]
fn while_nobody_wants_any_there_are_none() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.after_ms(100).server().answers("nil");
    assert_eq!(taken(&mut story), []);
}

#[test]
fn only_those_are_told_for_which_all_conditions_hold() {
    let commands = vec![engine::command::lookup(b"get").expect("a command")];
    let mut story = logged(Access {
        commands,
        key_prefix: b"user:".to_vec(),
        client: b"web*".to_vec(),
        slower_than_us: 2_000,
        ..Access::default()
    });
    story.client("a").says("CLIENT SETNAME web-1").gets("+OK");
    story.client("a").says(["GET user:1", "GET other", "SET user:2 x", "GET user:3"]);
    story.client("b").says("GET user:4");
    story.after_ms(2).server().answers(["nil", "nil", "+OK", "nil", "nil"]);
    story.client("a").says("GET user:5");
    story.after_ms(1).server().answers("nil");
    assert_eq!(lines(&mut story), ["get user:1  5", "get user:3  5"]);
}

#[test]
fn one_of_so_many_is_told() {
    let mut story =
        story(Options { access: Access { sample: 10, ..Access::default() }, ..Options::default() });
    let mut count = 0;
    for _ in 0..100 {
        story.client("a").says(vec!["GET k"; 20]);
        story.server().sends("$-1\r\n".repeat(20).as_bytes());
        story.client("a").takes();
        count += taken(&mut story).len();
    }
    assert!((140..260).contains(&count), "{count} of 2000");
}

#[test]
fn what_comes_beyond_the_bound_of_a_turn_is_counted() {
    let mut story = logged(Access::default());
    // Of two clients, as one may not have so many under way.
    let many = (OBSERVED_MAX + 10) / 2;
    story.client("a").says(vec!["GET k"; many]);
    story.client("b").says(vec!["GET k"; many]);
    story.server().sends("$-1\r\n".repeat(2 * many).as_bytes());
    assert_eq!(taken(&mut story).len(), OBSERVED_MAX);
    story.client("a").takes();
    story.client("a").says("GET k");
    story.server().answers("nil");
    let next = taken(&mut story);
    assert_eq!((next.len(), next[0].left_out), (1, 10));
    story.client("a").takes();
    story.client("a").says("INFO proxy");
    let text = story.client("a").takes_text();
    assert!(text.contains("proxy_telemetry_dropped_requests_turn:10\r\n"), "{text}");
}

#[test]
fn a_secret_is_not_told_and_a_key_is_cut() {
    let mut story = logged(Access::default());
    let long = "k".repeat(200);
    story.client("a").says(&format!("GET {long}"));
    story.server().answers("nil");
    story.client("a").says("SET k secret-value").says("GETSET k other-secret");
    story.server().answers(["+OK", "\"secret-value\""]);
    let all = taken(&mut story);
    assert_eq!(all[0].key, format!("{}... (72 more bytes)", &long[..128]));
    assert!(all.iter().all(|one| !format!("{one:?}").contains("secret")), "{all:?}");
}

#[test]
fn a_reply_that_was_given_on_in_parts_is_told_once_with_all_its_bytes() {
    let mut story = logged(Access::default());
    story.client("a").says("GET big");
    let value = "x".repeat(300_000);
    let reply = format!("${}\r\n{value}\r\n", value.len());
    let (head, rest) = reply.split_at(100_000);
    story.server().sends(head.as_bytes());
    assert_eq!(taken(&mut story), []);
    story.server().sends(rest.as_bytes());
    assert_eq!(lines(&mut story), [format!("get big  {}", reply.len())]);
}

#[test]
fn a_request_that_waited_here_tells_how_long() {
    let mut story = logged(Access::default());
    story.client("a").says("GET k");
    story.after_ms(20).server().answers("nil");
    story.client("b").says("CLIENT PAUSE 100").gets("+OK");
    story.client("a").says("GET l");
    // The pause ends after 100 of them.
    story.after_ms(101);
    story.after_ms(30).server().answers("nil");
    let times: Vec<_> =
        taken(&mut story).iter().map(|one| (one.queued_us, one.upstream_us)).collect();
    // CLIENT PAUSE itself stands between them.
    assert_eq!(times, [(0, 20_000), (0, 0), (100_000, 31_000)]);
}

#[test]
fn a_streamed_request_has_no_key() {
    let mut story = logged(Access::default());
    story.client("a").sends(&large_set("big", 1 << 20));
    story.server().answers("+OK");
    assert_eq!(lines(&mut story), ["set   5"]);
}

#[test]
fn traces_and_slow_ones_are_told_apart() {
    let mut story = story(Options { traces_sample: 1, slow_over_us: 5_000, ..Options::default() });
    story.client("a").says(["GET k", "GET k"]);
    story.after_ms(4).server().answers(["nil", "nil"]);
    let fast = taken(&mut story);
    assert!(fast.len() == 2 && fast.iter().all(|one| one.wanted.trace && !one.wanted.slow));
    story.client("a").says(["GET k", "GET k"]);
    story.after_ms(5).server().answers(["nil", "nil"]);
    let slow: Vec<bool> = taken(&mut story).iter().map(|one| one.wanted.slow).collect();
    assert_eq!(slow, [true, false], "one of a run");
    story.client("a").says("BLPOP l 0");
    story.after_ms(60_000).server().answers("*-1\r\n");
    assert!(taken(&mut story).iter().all(|one| !one.wanted.slow), "a wait that was asked for");
    assert!(!story.notices.iter().any(|notice| matches!(notice, Notice::ClientClosed { .. })));
}

#[test]
fn it_is_switched_on_and_off_while_clients_are_connected() {
    let mut story = Story::new();
    story.client("a").says("GET before");
    story.server().answers("nil");
    story.reconfigures(|settings| settings.observed.access.sample = 1);
    story.client("a").says("GET during");
    story.server().answers("nil");
    assert_eq!(lines(&mut story), ["get during  5"]);
    story.reconfigures(|settings| settings.observed.access.sample = 0);
    story.client("a").says("GET after");
    story.server().answers("nil");
    assert_eq!(taken(&mut story), []);
}
