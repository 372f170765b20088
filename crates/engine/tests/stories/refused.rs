//! What the proxy does not give on gets one clear error and an open connection.

use crate::words::Story;
use engine::limits::SCRIPT_RELIEF_MS;

#[test]
fn commands_that_need_a_connection_of_their_own_get_one_error_each() {
    let mut story = Story::new();
    for line in ["SYNC", "PSYNC ? -1", "SCRIPT DEBUG YES"] {
        story.client("a").says(line);
        let text = story.client("a").is_open().takes_text();
        let whole = text.starts_with("-ERR respool: '")
            && text.ends_with("connect to the server directly for it\r\n")
            && text.matches("\r\n").count() == 1;
        assert!(whole, "{line}: {text}");
        let word = line.split(' ').next().unwrap_or_default().to_lowercase();
        assert!(text.to_lowercase().contains(&word), "{line}: {text}");
    }
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn commands_that_stop_the_server_are_refused() {
    let mut story = Story::new();
    for (line, name) in [("SHUTDOWN", "shutdown"), ("DEBUG SLEEP 1", "debug")] {
        let error = format!(
            "-ERR respool: '{name}' is not given on to the server by the proxy: it would stop the server for all"
        );
        story.client("a").says(line).gets(error.as_str()).is_open();
    }
    let error = "-ERR wrong number of arguments for 'debug' command";
    story.client("a").says("DEBUG").gets(error).is_open();
    assert_eq!(story.connects_made(), 0);
}

// The server would stop until the other one has answered, and nobody would find the keys any more.
#[test]
fn keys_are_not_sent_away_through_the_proxy() {
    let refused = "-ERR respool: 'migrate' is not given on to the server by the proxy: \
                   the server would wait for the other one, and respool would not find the keys";
    let lines = ["MIGRATE 10.0.0.1 6379 k 0 5000", "migrate 10.0.0.1 6379 '' 0 5 COPY KEYS k l"];
    let mut story = Story::new();
    for line in lines {
        story.client("a").says(line).gets(refused).is_open();
    }
    let error = "-ERR wrong number of arguments for 'migrate' command";
    story.client("a").says("MIGRATE 10.0.0.1 6379").gets(error).is_open();
    assert_eq!(story.connects_made(), 0);
    let mut story = Story::warm_cluster();
    for line in lines {
        story.client("a").says(line).gets(refused).is_open();
    }
    story.client("a").says(["MULTI", lines[0], "EXEC"]).gets([
        "+OK",
        refused,
        "-EXECABORT Transaction discarded because of previous errors.",
    ]);
}

#[test]
fn a_refusal_in_a_pipeline_keeps_its_place() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "SHUTDOWN", "GET l"]);
    story.server().gets(["GET k", "GET l"]).answers(["\"1\"", "\"2\""]);
    let refused = "-ERR respool: 'shutdown' is not given on to the server by the proxy: it would stop the server for all";
    story.client("a").gets(["\"1\"", refused, "\"2\""]);
}

#[test]
fn a_transaction_that_was_not_begun_ends_as_with_redis() {
    let mut story = Story::new();
    story.client("a").says(["EXEC", "DISCARD", "UNWATCH"]).gets([
        "-ERR EXEC without MULTI",
        "-ERR DISCARD without MULTI",
        "+OK",
    ]);
}

#[test]
fn script_kill_does_not_wait_behind_the_script() {
    let mut story = Story::new();
    story.client("a").says("EVAL while_true 0");
    story.client("b").says("SCRIPT KILL");
    assert_eq!(story.connects_made(), 2, "it has a lane of its own");
    story.conn(2).gets("SCRIPT KILL").answers("+OK");
    story.client("b").gets("+OK");
    story.conn(1).gets("EVAL while_true 0").answers("-ERR Script killed by user");
    story.client("a").gets("-ERR Script killed by user");
}

#[test]
fn a_small_busy_reply_threshold_opens_no_connection_early() {
    let mut story = Story::new();
    story.client("a").says("CONFIG SET busy-reply-threshold 1");
    story.conn(1).gets("CONFIG SET busy-reply-threshold 1").answers("+OK");
    story.client("a").gets("+OK").says("EVAL x 0");
    story.after_ms(SCRIPT_RELIEF_MS - 1);
    assert_eq!(story.connects_made(), 1);
    story.after_ms(2);
    assert_eq!(story.connects_made(), 2);
}

#[test]
fn a_pipeline_of_scripts_that_are_answered_keeps_its_connection() {
    let mut story = Story::new();
    story.client("a").says(["EVAL x 0"; 20]);
    story.conn(1).gets(["EVAL x 0"; 20]);
    for _ in 0..20 {
        story.after_ms(100).conn(1).answers(":1");
    }
    assert_eq!(story.connects_made(), 1);
}

// A server answers nobody before `busy-reply-threshold`, greetings neither.
#[test]
fn script_kill_waits_for_a_server_that_greets_late() {
    let mut story = Story::new();
    story.client("a").says("EVAL while_true 0");
    story.servers_are_busy(true);
    story.client("b").says("SCRIPT KILL");
    story.after_ms(4_900).client("b").gets_nothing();
    // The third is for clients behind the script.
    assert_eq!(story.connects_made(), 3);
    story.servers_are_busy(false);
    story.conn(2).gets("SCRIPT KILL").answers("+OK");
    story.client("b").gets("+OK");
    story.conn(1).gets("EVAL while_true 0").answers("-ERR Script killed by user");
    story.client("a").gets("-ERR Script killed by user");
}

// Its worker knows nothing of the script: it runs over another worker's connection, or past the proxy.
#[test]
fn function_stats_and_script_kill_wait_for_a_server_that_greets_late_for_whatever_reason() {
    for line in ["SCRIPT KILL", "FUNCTION KILL", "FUNCTION STATS"] {
        let mut story = Story::new();
        story.client("a").says("GET k");
        story.conn(1).gets("GET k").answers("nil");
        story.servers_are_busy(true);
        story.client("b").says(line);
        story.after_ms(4_900).client("b").gets_nothing();
        story.servers_are_busy(false);
        story.conn(2).gets(line).answers("+OK");
        story.client("b").gets("+OK");
    }
}

#[test]
fn function_stats_tells_of_what_its_client_did_before() {
    let mut story = Story::new();
    story.client("a").says(["FUNCTION LOAD code", "FUNCTION STATS", "FUNCTION DELETE lib"]);
    story.conn(1).gets("FUNCTION LOAD code").gets_nothing().answers("$3\r\nlib");
    story.conn(2).gets("FUNCTION STATS");
    // Nor of what it does later.
    story.conn(1).gets_nothing();
    story.conn(2).answers("*0");
    story.conn(1).gets("FUNCTION DELETE lib").answers("+OK");
    story.client("a").gets(["$3\r\nlib", "*0", "+OK"]);
}

#[test]
fn script_kill_is_not_refused_where_select_is() {
    let mut story = Story::new();
    for name in ["a", "b"] {
        story.client(name).says("SELECT 9").gets("+OK");
    }
    story.client("a").says("EVAL while_true 0");
    story.server_says_to("SELECT 9", "-BUSY Redis is busy running a script.");
    story.client("b").says("SCRIPT KILL");
    story.conn(2).gets("SCRIPT KILL").answers("+OK");
    story.client("b").gets("+OK");
}

#[test]
fn ping_is_answered_here_until_a_script_has_kept_the_server_busy() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    // Both in one go: the server keeps the reply to the first back.
    story.client("a").gets("nil").says(["GET k", "EVAL while_true 0"]);
    story.after_ms(4_990).client("b").says("PING").gets("+PONG");
    // The second is for clients behind the script.
    story.after_ms(10).client("b").says("PING");
    story.conn(3).gets("PING").answers("-BUSY Redis is busy running a script.");
    story.client("b").gets("-BUSY Redis is busy running a script.");
    story.client("b").says("FUNCTION STATS");
    story.conn(3).gets("FUNCTION STATS").answers("*0");
    story.client("b").gets("*0");
    // Behind what its client sent before, it is about another time: a server looks at it when the script has ended.
    story.client("a").says("PING").gets_nothing();
    story.conn(1).gets(["GET k", "EVAL while_true 0"]);
    story.conn(1).answers(["nil", "-ERR Script killed by user"]);
    story.client("a").gets(["nil", "-ERR Script killed by user", "+PONG"]);
    story.after_ms(5_000).client("b").says("PING").gets("+PONG");
    assert_eq!(story.connects_made(), 3);
}

#[test]
fn of_a_script_that_runs_past_the_proxy_ping_says_what_others_were_told() {
    const BUSY: &str = "-BUSY Redis is busy running a script.";
    let mut story = Story::new();
    story.client("b").says("PING").gets("+PONG");
    story.client("a").says("GET k");
    story.server().gets("GET k").answers(BUSY);
    story.client("a").gets(BUSY);
    for _ in 0..3 {
        story.after_ms(900).client("b").says("PING");
        story.conn(2).gets("PING").answers(BUSY);
        story.client("b").gets(BUSY);
    }
    story.client("b").says("PING");
    story.conn(2).gets("PING").answers("+PONG");
    story.client("b").gets("+PONG");
    story.after_ms(1_000).client("b").says("PING").gets("+PONG");
}

// It got `+PONG`, which is no message.
#[test]
fn a_resp2_client_that_listens_gets_its_pong_as_a_message() {
    const BUSY: &str = "-BUSY Redis is busy running a script.";
    let mut story = Story::new();
    story.client("b").says("SUBSCRIBE news");
    story.conn(1).gets("subscribe news").answers("*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    story.client("b").takes();
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers(BUSY);
    story.client("a").gets(BUSY);
    for (ping, answer, message) in [
        ("PING", "+PONG", "*2\r\n$4\r\npong\r\n$0\r\n\r\n"),
        ("PING x", "\"x\"", "*2\r\n$4\r\npong\r\n$1\r\nx\r\n"),
        ("PING", BUSY, BUSY),
    ] {
        story.client("b").says(ping);
        story.conn(3).gets(ping).answers(answer);
        story.client("b").gets(message);
    }
}

#[test]
fn who_changes_when_a_server_says_busy_changes_it_for_ping() {
    let mut story = Story::new();
    story.client("a").says("CONFIG SET lua-time-limit 10");
    story.server().gets("CONFIG SET lua-time-limit 10").answers("+OK");
    story.client("a").gets("+OK").says(["MULTI", "EVAL while_true 0", "EXEC"]);
    story.server().gets(["MULTI", "EVAL while_true 0"]).answers(["+OK", "+QUEUED"]);
    story.after_ms(10).client("b").says("PING hello");
    story.conn(2).gets("PING hello").answers("-BUSY x");
    story.client("b").gets("-BUSY x");
}

#[test]
fn the_killer_itself_gets_its_replies_in_its_own_order() {
    let mut story = Story::new();
    story.client("a").says(["EVAL while_true 0", "SCRIPT KILL", "PING"]);
    story.conn(2).gets("SCRIPT KILL").answers("+OK");
    story.client("a").gets_nothing();
    story.conn(1).answers("-ERR Script killed by user");
    story.client("a").gets(["-ERR Script killed by user", "+OK", "+PONG"]);
}

#[test]
fn cluster_switches_are_answered_as_by_a_server_that_is_no_cluster() {
    let mut story = Story::new();
    for line in ["READONLY", "READWRITE", "ASKING"] {
        story.client("a").says(line).gets("-ERR This instance has cluster support disabled");
    }
}

#[test]
fn small_commands_with_wrong_arguments() {
    let mut story = Story::new();
    for (line, reply) in [
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("PING ''", "\"\""),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command"),
        ("RESET x", "-ERR wrong number of arguments for 'reset' command"),
        (
            "EXEC x",
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
        ),
    ] {
        story.client("a").says(line).gets(reply).is_open();
    }
}

#[test]
fn a_client_that_speaks_http_is_closed_and_the_server_hears_nothing_of_it() {
    for line in ["POST / HTTP/1.1\r\n", "Host: 127.0.0.1:6380\r\n", "*1\r\n$4\r\npost\r\n"] {
        let mut story = Story::new();
        story.client("a").sends(b"PING\r\n").gets("+PONG").is_open();
        story.client("a").sends(line.as_bytes()).gets_nothing().is_closed();
        assert_eq!(story.connects_made(), 0, "{line}");
    }
}
