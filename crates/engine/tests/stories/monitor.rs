//! MONITOR: what all clients ask for, shown to those that want to see it.

use crate::words::{Story, large_set, request};
use engine::Settings;
use engine::acl::Users;
use engine::fleet::{Questioner, ReplyTo};
use engine::tenancy::TenantId;

/// The story's clock stands at one second; `m` watches.
fn watched(how: &str) -> Story {
    let mut story =
        Story::with(Settings { unix_ahead_us: 1_600_000_000_000_000, ..Settings::default() });
    story.client("m").says(how).gets("+OK");
    story
}

#[test]
fn requests_are_shown_as_a_server_shows_them() {
    let mut story = watched("MONITOR");
    story.client("a").says(["set k \"v\n", "PING", "SELECT 0", "GET"]);
    story.client("m").gets([
        "+1600000001.000000 [0 10.0.0.1:5002] \"set\" \"k\" \"\\\"v\\n\"",
        "+1600000001.000000 [0 10.0.0.1:5002] \"PING\"",
        "+1600000001.000000 [0 10.0.0.1:5002] \"SELECT\" \"0\"",
    ]);
    story.after_ms(1_500).client("m").says("ECHO x");
    story.client("m").gets(["\"x\"", "+1600000002.500000 [0 10.0.0.1:5001] \"ECHO\" \"x\""]);
}

#[test]
fn secrets_and_administrators_are_not_shown() {
    let settings = Settings { users: Users::with_password(b"pw").into(), ..Settings::default() };
    let mut story = Story::with(settings);
    story.client("m").says(["AUTH pw", "MONITOR"]).gets(["+OK", "+OK"]);
    story.client("a").says(["GET k", "AUTH wrong", "AUTH pw", "CONFIG SET requirepass x"]);
    story.client("a").says(["CLIENT LIST", "HELLO 2 AUTH default pw", "GET k"]);
    let text = story.client("m").takes_text();
    let lines: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once("] ")?.1)).collect();
    let hello = "\"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\"";
    assert_eq!(
        lines,
        ["\"AUTH\" \"(redacted)\"", "\"AUTH\" \"(redacted)\"", hello, "\"GET\" \"k\""]
    );
}

#[test]
fn lines_stand_between_replies_and_cost_the_server_nothing() {
    let mut story = watched("MONITOR");
    story.client("m").says("GET k").takes();
    story.client("a").says("GET other");
    story.server().gets(["GET k", "GET other"]).answers(["\"1\"", "\"2\""]);
    let text = story.client("m").takes_text();
    assert!(text.ends_with("\"GET\" \"other\"\r\n$1\r\n1\r\n"), "{text}");
    story.client("a").gets("\"2\"");
}

#[test]
fn a_held_request_is_shown_once_and_when_it_goes() {
    let mut story = watched("MONITOR").by_hand();
    story.client("a").says("GET k");
    story.client("m").gets_nothing();
    story.connects().server().answers(crate::words::HELLO_2);
    let text = story.client("m").takes_text();
    assert_eq!(text.matches("\"GET\" \"k\"").count(), 1, "{text}");
}

#[test]
fn of_a_large_request_its_begin_is_shown() {
    let mut story = watched("MONITOR");
    story.client("a").sends(&large_set("k", 1 << 20));
    let text = story.client("m").takes_text();
    assert!(text.ends_with("] \"SET\" \"k\" ...\r\n"), "{text}");
}

/// What the monitor was shown, without times and addresses: database and request.
fn lines(story: &mut Story) -> Vec<String> {
    let text = story.client("m").takes_text();
    let line = |line: &str| {
        let (head, request) = line.split_once("] ")?;
        let db = head.split_once('[')?.1.split(' ').next()?;
        Some(format!("{db} {}", request.replace('"', "")))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn a_transaction_is_shown_when_it_was_done() {
    let mut story = watched("MONITOR");
    let packet = ["MULTI", "SET k 1", "GET k", "EXEC"].map(request).concat();
    story.client("a").sends(&packet);
    assert_eq!(lines(&mut story), ["0 MULTI"]);
    story.client("b").says("PING");
    story.conn(1).gets(["MULTI", "SET k 1", "GET k", "EXEC"]);
    story.conn(1).answers(["+OK", "+QUEUED", "+QUEUED"]);
    assert_eq!(lines(&mut story), ["0 PING"]);
    story.conn(1).answers("*2\r\n+OK\r\n$1\r\n1\r\n");
    assert_eq!(lines(&mut story), ["0 SET k 1", "0 GET k", "0 EXEC"]);
}

#[test]
fn of_a_transaction_that_was_not_done_its_ends_are_shown() {
    let abort = "-EXECABORT Transaction discarded because of previous errors.";
    for (end, answer) in [("EXEC", "*-1\r\n"), ("EXEC", abort), ("DISCARD", "+OK")] {
        let mut story = watched("MONITOR");
        story.client("a").says(["MULTI", "SET k 1", "CLIENT ID", end]);
        story.conn(1).gets(["MULTI", "SET k 1", "ECHO ", end]);
        story.conn(1).answers(["+OK", "+QUEUED", "+QUEUED", answer]);
        assert_eq!(lines(&mut story), ["0 MULTI".to_string(), format!("0 {end}")]);
    }
    // Refused here.
    let mut story = watched("MONITOR");
    story.client("a").says(["MULTI", "SET k 1", "SHUTDOWN", "EXEC"]);
    story.conn(1).gets(["MULTI", "SET k 1", "DISCARD"]).answers(["+OK", "+QUEUED", "+OK"]);
    assert_eq!(lines(&mut story), ["0 MULTI", "0 EXEC"]);
    story.client("a").says(["MULTI", "SET k 1", "EXEC x"]);
    story.conn(1).gets(["MULTI", "SET k 1", "DISCARD"]).answers(["+OK", "+QUEUED", "+OK"]);
    assert_eq!(lines(&mut story), ["0 MULTI", "0 EXEC x"]);
    // Lost.
    story.client("a").says(["MULTI", "SET k 1"]);
    story.conn(1).gets(["MULTI", "SET k 1"]).answers("+OK").dies("connection reset");
    story.client("a").says(["SET k 1", "EXEC", "PING"]);
    assert_eq!(lines(&mut story), ["0 MULTI", "0 EXEC", "0 PING"]);
}

#[test]
fn in_a_transaction_each_request_is_shown_with_its_database() {
    let mut story = watched("MONITOR");
    let said = ["MULTI", "SET k 1", "SELECT 3", "AUTH x", "GET k", "EXEC"];
    story.client("a").says(said);
    story.conn(1).gets(["MULTI", "SET k 1", "SELECT 3", "UNWATCH", "GET k", "EXEC"]);
    story.conn(1).answers(["+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED"]);
    story.conn(1).answers("*4\r\n+OK\r\n+OK\r\n+OK\r\n$-1\r\n");
    let shown = ["0 MULTI", "0 SET k 1", "3 SELECT 3", "3 AUTH (redacted)", "3 GET k", "3 EXEC"];
    assert_eq!(lines(&mut story), shown);
}

#[test]
fn of_a_long_transaction_what_was_queued_is_shown_before_its_end() {
    let mut story = watched("MONITOR");
    story.client("a").says("MULTI");
    let set = large_set("k", 100 << 10);
    for round in 0..3 {
        story.client("a").sends(&set);
        assert_eq!(lines(&mut story).len(), [1, 0, 3][round], "round {round}");
    }
    story.client("a").says("EXEC");
    story.conn(1).takes_requests();
    story.conn(1).answers(["+OK", "+QUEUED", "+QUEUED", "+QUEUED"]);
    story.conn(1).answers("*3\r\n+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(lines(&mut story), ["0 EXEC"]);
}

#[test]
fn a_monitor_may_say_what_it_wants_to_see() {
    let mut story = watched("MONITOR MATCH user:* MATCH [Pp][Ii]* CLIENT 2 CLIENT 3");
    story.client("a").says(["GET user:1", "PING", "GET k"]);
    story.client("b").says(["MGET k user:2"]);
    story.client("c").says(["GET user:3"]);
    let text = story.client("m").takes_text();
    let lines: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once("] ")?.1)).collect();
    assert_eq!(lines, ["\"GET\" \"user:1\"", "\"PING\"", "\"MGET\" \"k\" \"user:2\""]);
    for (line, error) in [
        ("MONITOR x", "-ERR syntax error"),
        ("MONITOR MATCH", "-ERR syntax error"),
        ("MONITOR CLIENT x", "-ERR Invalid client ID"),
        (
            &*format!("MONITOR{}", " MATCH x".repeat(65)),
            "-ERR respool: too many patterns and clients for one MONITOR",
        ),
    ] {
        story.client("d").says(line).gets(error);
    }
}

#[test]
fn reset_or_its_end_make_it_an_ordinary_client() {
    let mut story = watched("MONITOR");
    story.client("m").says("MONITOR").gets_nothing();
    story.client("a").says("CLIENT LIST ID 1");
    assert!(story.client("a").takes_text().contains(" flags=O "));
    story.client("m").says("RESET");
    story.client("m").gets(["+RESET"]);
    story.client("a").says("PING");
    story.client("m").gets_nothing().says("MONITOR").gets("+OK");
    story.client("m").dies();
    story.client("a").says("GET k");
    story.server().gets("GET k");
}

#[test]
fn one_that_does_not_take_its_lines_is_closed_and_holds_nobody_up() {
    let mut story = watched("MONITOR");
    story.client("m").stops_taking();
    let line = format!("ECHO {}", "x".repeat(60_000));
    for _ in 0..300 {
        story.client("a").says(line.as_str()).takes();
    }
    story.client("m").is_closed();
    assert!(story.was_told("took its messages too slowly"));
    story.client("a").is_open();
}

/// A worker beside that of the monitor, which has the number 0.
fn beside() -> (Story, Story) {
    let settings = |worker| Settings { worker, workers: 2, ..Settings::default() };
    let (mut one, mut other) = (Story::with(settings(0)), Story::with(settings(1)));
    one.holds_questions();
    one.client("m").says("MONITOR");
    let (_, question) = one.asked().expect("asked");
    one.workers_answer();
    one.client("m").gets("+OK");
    let to =
        ReplyTo { who: Questioner::Worker(0), tenant: TenantId::DEFAULT, login: None, ticket: 1 };
    assert!(other.engine.answer(other.now, to, &question).is_some());
    (one, other)
}

#[test]
fn lines_of_other_workers_come_together_and_are_confirmed() {
    let (mut one, mut other) = beside();
    other.client("a").says(["PING", "ECHO x"]);
    let told = other.tells();
    assert_eq!(told.len(), 1, "one piece of news a turn");
    one.hears(told[0].1.clone());
    let text = one.client("m").takes_text();
    assert!(text.contains("\"PING\"\r\n+") && text.ends_with("\"ECHO\" \"x\"\r\n"), "{text}");
    for (_, news) in one.tells() {
        other.hears(news);
    }
    one.client("m").dies();
    for (_, news) in one.tells() {
        other.hears(news);
    }
    other.client("a").says("PING");
    assert!(other.tells().is_empty(), "nobody watches any more");
}

#[test]
fn a_worker_that_does_not_confirm_is_told_no_more() {
    let (mut one, mut other) = beside();
    let line = format!("ECHO {}", "x".repeat(60_000));
    for _ in 0..80 {
        other.client("a").says(line.as_str()).takes();
    }
    let told = other.tells();
    assert!((60..75).contains(&told.len()), "{}", told.len());
    for (_, news) in told {
        one.hears(news);
    }
    one.client("m").is_closed();
}

#[test]
fn what_no_server_knows_is_not_shown() {
    let settings = Settings { unix_ahead_us: 1_600_000_000_000_000, ..Settings::default() };
    let mut story = Story::with(settings);
    let known = "*1\r\n*6\r\n$7\r\nmod.get\r\n:-2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n";
    story.server_says_to("COMMAND", known);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("m").says("MONITOR").gets("+OK");
    story.client("a").says(["syntax error", "mod.get k"]);
    story.client("m").gets("+1600000001.000000 [0 10.0.0.1:5001] \"mod.get\" \"k\"");
}

// Found by an attack: a thousand monitors were shown thousands of requests in one turn.
#[test]
fn requests_that_many_monitors_are_shown_have_turns() {
    let mut story = watched("MONITOR");
    for number in 0..100 {
        story.client(&format!("m{number}")).says("MONITOR").gets("+OK");
    }
    let names: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    for name in &names {
        story.client(name).says("PING").takes();
    }
    for name in &names {
        story.client(name).sends_at_once(&request("PING").repeat(100));
    }
    story.turn_once();
    let answered: usize =
        names.iter().map(|name| story.client(name).takes_text().matches("+PONG").count()).sum();
    assert!((10..300).contains(&answered), "{answered} in one turn");
    story.turn();
    let rest: usize =
        names.iter().map(|name| story.client(name).takes_text().matches("+PONG").count()).sum();
    assert_eq!(answered + rest, 1_000);
}
