//! Commands of the proxy's own between MULTI and EXEC: a stand-in keeps their place at the server.

use crate::words::Story;

const QUEUED: &str = "+QUEUED";
const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn they_are_done_with_exec_and_answered_in_their_places() {
    let mut story = Story::new();
    story.client("a").says([
        "MULTI",
        "CLIENT SETNAME inside",
        "SET k 1",
        "CLIENT GETNAME",
        "CLIENT ID",
        "AUTH nobody x",
    ]);
    story.conn(1).gets(["MULTI", "PING", "SET k 1", "PING", "PING", "PING"]);
    story.conn(1).answers(["+OK", QUEUED, QUEUED, QUEUED, QUEUED, QUEUED]);
    story.client("a").gets(["+OK", QUEUED, QUEUED, QUEUED, QUEUED, QUEUED]);
    story.client("b").says("CLIENT LIST");
    let text = story.client("b").takes_text();
    assert!(text.contains(" name= ") && text.contains(" multi=5 "), "{text}");
    story.client("a").says(["EXEC", "PING"]);
    story.conn(1).gets("EXEC").answers("*5\r\n+PONG\r\n+OK\r\n+PONG\r\n+PONG\r\n+PONG\r\n");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let answer = format!("*5\r\n+OK\r\n+OK\r\n$6\r\ninside\r\n:1\r\n{wrong}");
    story.client("a").gets([&*answer, "+PONG"]);
    // The connection is free again.
    story.client("b").says("MULTI");
    story.conn(1).gets("MULTI");
}

#[test]
fn nothing_is_done_without_exec() {
    let mut story = Story::new();
    story.client("a").says(["WATCH w", "MULTI", "CLIENT SETNAME x", "EXEC", "CLIENT GETNAME"]);
    story.conn(1).gets(["WATCH w", "MULTI", "PING", "EXEC"]);
    story.conn(1).answers(["+OK", "+OK", QUEUED, "*-1\r\n"]);
    story.client("a").gets(["+OK", "+OK", QUEUED, "*-1\r\n", "nil"]);
    story.client("a").says(["MULTI", "CLIENT SETNAME x", "DISCARD", "CLIENT GETNAME"]);
    story.conn(1).gets(["MULTI", "PING", "DISCARD"]).answers(["+OK", QUEUED, "+OK"]);
    story.client("a").gets(["+OK", QUEUED, "+OK", "nil"]);
    story.client("a").says(["MULTI", "CLIENT SETNAME x", "NOSUCH", "EXEC", "CLIENT GETNAME"]);
    story.conn(1).gets(["MULTI", "PING", "NOSUCH", "EXEC"]);
    story.conn(1).answers(["+OK", QUEUED, "-ERR unknown command", ABORT]);
    story.client("a").gets(["+OK", QUEUED, "-ERR unknown command", ABORT, "nil"]);
}

#[test]
fn what_is_wrong_with_them_is_told_at_once() {
    let mut story = Story::new();
    for (line, error) in [
        ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP."),
        ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"),
        ("AUTH", "-ERR wrong number of arguments for 'auth' command"),
    ] {
        story.client("a").says(["MULTI", line, "EXEC"]);
        story.conn(1).gets(["MULTI", "DISCARD"]).answers(["+OK", "+OK"]);
        story.client("a").gets(["+OK", error, ABORT]);
    }
}

#[test]
fn what_all_workers_are_asked_comes_when_they_have_answered() {
    let mut story = Story::new();
    story.client("b").says("PING").gets("+PONG");
    story.client("a").says(["MULTI", "CLIENT KILL ID 1", "PING", "CLIENT LIST", "EXEC", "GET k"]);
    story.conn(1).gets(["MULTI", "PING", "PING", "PING", "EXEC"]);
    story.conn(1).answers(["+OK", QUEUED, QUEUED, QUEUED]);
    story.conn(1).answers("*3\r\n+PONG\r\n+PONG\r\n+PONG\r\n");
    let answers = story.client("a").takes_text();
    let begin = format!("+OK\r\n{}*3\r\n:1\r\n+PONG\r\n$", "+QUEUED\r\n".repeat(3));
    assert!(answers.starts_with(&begin), "{answers}");
    assert!(answers.contains("id=2 ") && !answers.contains("id=1 "), "{answers}");
    story.conn(2).gets("GET k").answers("nil");
    story.client("a").gets("nil");
}

#[test]
fn hello_changes_the_protocol_of_what_stands_behind_it() {
    let mut story = Story::new();
    story.client("b").says("HELLO 3").takes();
    story.client("a").says(["MULTI", "HELLO 3 SETNAME me", "HGETALL h", "EXEC"]);
    story.conn(2).gets(["MULTI", "HELLO 3", "HGETALL h", "EXEC"]);
    story.conn(2).answers(["+OK", QUEUED, QUEUED]);
    story.conn(2).answers("*2\r\n%1\r\n$5\r\nproto\r\n:3\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n%7\r\n"), "{text}");
    assert!(text.contains("$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:2\r\n"), "{text}");
    assert!(text.ends_with("%1\r\n$1\r\nf\r\n$1\r\nv\r\n"), "{text}");
    story.client("a").says("CLIENT GETNAME").gets("\"me\"");
}

#[test]
fn what_is_read_behind_client_tracking_is_told_of_again() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says(["MULTI", "GET before", "CLIENT TRACKING ON", "GET k", "EXEC"]);
    story.conn(2).gets(["MULTI", "GET before", "PING", "GET k", "EXEC"]);
    story.conn(2).answers(["+OK", QUEUED, QUEUED, QUEUED]);
    story.conn(2).answers("*3\r\n$1\r\nx\r\n+PONG\r\n$1\r\nv\r\n");
    let text = story.client("a").takes_text();
    let end = "*3\r\n$1\r\nx\r\n+OK\r\n$1\r\nv\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn on_a_cluster_they_wait_for_the_node_as_all_else() {
    let mut story = Story::cluster();
    story.client("a").says(["MULTI", "CLIENT ID", "SET a 1", "EXEC"]);
    story.node("n3").gets(["MULTI", "PING", "SET a 1"]).answers(["+OK", QUEUED, QUEUED]);
    story.node("n3").gets("EXEC").answers("*2\r\n+PONG\r\n+OK\r\n");
    story.client("a").gets(["+OK", QUEUED, QUEUED, "*2\r\n:1\r\n+OK\r\n"]);
}

#[test]
fn a_large_answer_is_put_together_too_and_bounded() {
    let mut story = Story::with_limits(|limits| limits.client_out_max_bytes = 1 << 20);
    let begin = |story: &mut Story, bytes: usize| {
        story.client("a").says(["MULTI", "GET k", "CLIENT ID", "EXEC"]);
        story.conn(1).gets(["MULTI", "GET k", "PING", "EXEC"]);
        story.conn(1).answers(["+OK", QUEUED, QUEUED]);
        story.client("a").gets(["+OK", QUEUED, QUEUED]);
        let value = format!("*2\r\n${bytes}\r\n{}\r\n", "v".repeat(bytes));
        let half = value.len() / 2;
        story.conn(1).sends(&value.as_bytes()[..half]).sends(&value.as_bytes()[half..]);
        value
    };
    let value = begin(&mut story, 200_000);
    story.conn(1).sends(b"+PONG\r\n");
    story.client("a").gets(format!("{value}:1").as_str());
    begin(&mut story, 2_000_000);
    story.client("a").is_closed();
}
