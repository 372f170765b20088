//! Commands of the proxy's own between MULTI and EXEC: a stand-in keeps their place at the server.

use crate::words::{Story, request};
use engine::Settings;
use engine::acl::Users;
use std::sync::Arc;

const QUEUED: &str = "+QUEUED";
/// Stands in for what a server that loads does as well, but not one whose script runs for too long.
const ECHO: &str = "ECHO ";
/// Stands in for what a server always does.
const UNWATCH: &str = "UNWATCH";
const NOPERM: &str = "-NOPERM No permissions to access a key\r\n";
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
    story.conn(1).gets(["MULTI", ECHO, "SET k 1", ECHO, ECHO, UNWATCH]);
    story.conn(1).answers(["+OK", QUEUED, QUEUED, QUEUED, QUEUED, QUEUED]);
    story.client("a").gets(["+OK", QUEUED, QUEUED, QUEUED, QUEUED, QUEUED]);
    story.client("b").says("CLIENT LIST");
    let text = story.client("b").takes_text();
    assert!(text.contains(" name= ") && text.contains(" multi=5 "), "{text}");
    story.client("a").says(["EXEC", "PING"]);
    story.conn(1).gets("EXEC").answers("*5\r\n$0\r\n\r\n+OK\r\n$0\r\n\r\n$0\r\n\r\n+OK\r\n");
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
    story.conn(1).gets(["WATCH w", "MULTI", ECHO, "EXEC"]);
    story.conn(1).answers(["+OK", "+OK", QUEUED, "*-1\r\n"]);
    story.client("a").gets(["+OK", "+OK", QUEUED, "*-1\r\n", "nil"]);
    story.client("a").says(["MULTI", "CLIENT SETNAME x", "DISCARD", "CLIENT GETNAME"]);
    story.conn(1).gets(["MULTI", ECHO, "DISCARD"]).answers(["+OK", QUEUED, "+OK"]);
    story.client("a").gets(["+OK", QUEUED, "+OK", "nil"]);
    story.client("a").says(["MULTI", "CLIENT SETNAME x", "NOSUCH", "EXEC", "CLIENT GETNAME"]);
    story.conn(1).gets(["MULTI", ECHO, "NOSUCH", "EXEC"]);
    story.conn(1).answers(["+OK", QUEUED, "-ERR unknown command", ABORT]);
    story.client("a").gets(["+OK", QUEUED, "-ERR unknown command", ABORT, "nil"]);
}

// The client's next transaction begins before the server has answered the DISCARD of the former one.
#[test]
fn nothing_of_a_transaction_that_was_given_up_reaches_the_next_one() {
    let own = [
        ("CLIENT SETNAME x", ECHO),
        ("CLIENT ID", ECHO),
        ("CLIENT TRACKING ON", ECHO),
        ("CLIENT NO-EVICT ON", ECHO),
        ("SUBSCRIBE ch", ECHO),
        ("AUTH nobody x", UNWATCH),
        ("SLOWLOG LEN", ECHO),
        ("SELECT 2", "SELECT 2"),
    ];
    for (line, sent) in own {
        for between in [None, Some("WATCH w")] {
            let mut story = Story::new();
            story.client("a").says(["MULTI", line, "SUBSCRIBE", "EXEC"]);
            story.conn(1).gets(["MULTI", sent, "DISCARD"]).answers(["+OK", QUEUED]);
            let arity = "-ERR wrong number of arguments for 'subscribe' command";
            story.client("a").gets(["+OK", QUEUED, arity, ABORT]);
            if let Some(watch) = between {
                story.client("a").says(watch);
                story.conn(1).gets(watch);
            }
            story.client("a").says(["MULTI", "GET k", "EXEC"]);
            story.conn(1).gets(["MULTI", "GET k", "EXEC"]).answers("+OK");
            if between.is_some() {
                story.conn(1).answers("+OK");
                story.client("a").gets("+OK");
            }
            story.conn(1).answers(["+OK", QUEUED, "*1\r\n$1\r\nv\r\n"]);
            story.client("a").gets(["+OK", QUEUED, "*1\r\n$1\r\nv\r\n"]);
            story.client("a").says("CLIENT INFO");
            let info = story.client("a").takes_text();
            let unchanged = [" name= ", " flags=N ", " db=0 ", " sub=0 "];
            assert!(unchanged.iter().all(|field| info.contains(field)), "{line}: {info}");
        }
    }
}

#[test]
fn a_long_transaction_of_them_leaves_other_clients_their_turn() {
    const COUNT: usize = 3_000;
    let mut story = Story::new();
    story.client("b").says("PING").gets("+PONG");
    for name in ["a", "c"] {
        story.client(name).says("MULTI");
        let conn = story.connects_made();
        story.conn(conn).gets("MULTI").answers("+OK");
        story.client(name).sends(&request("CLIENT ID").repeat(COUNT - 1));
        story.client(name).says("CLIENT SETNAME last");
        while story.conn(conn).waiting() > 0 {
            let queued = story.conn(conn).takes_requests();
            story.conn(conn).sends("+QUEUED\r\n".repeat(queued).as_bytes());
        }
        story.client(name).takes();
    }
    let sent_before = story.client("a").sends_seen();
    for (name, conn) in [("a", 1), ("c", 2)] {
        story.client(name).says(["EXEC", "CLIENT GETNAME"]);
        story.conn(conn).takes_requests();
    }
    let stand_ins = format!("*{COUNT}\r\n{}", "$0\r\n\r\n".repeat(COUNT));
    for conn in [1, 2] {
        story.conn(conn).sends_at_once(stand_ins.as_bytes());
    }
    // The commands of a transaction are done little by little, and other clients have their turn meanwhile.
    story.turn_once();
    for _ in 0..3 {
        story.client("b").sends_at_once(&request("PING"));
        assert!(story.turn_once());
    }
    assert_eq!(story.client("a").sends_seen() - sent_before, 0, "all of it was done at once");
    story.turn();
    assert_eq!(story.client("b").takes_text(), "+PONG\r\n".repeat(3));
    for (name, id) in [("a", 2), ("c", 3)] {
        let ids = format!(":{id}\r\n").repeat(COUNT - 1);
        let whole = format!("*{COUNT}\r\n{ids}+OK\r\n$4\r\nlast\r\n");
        assert!(story.client(name).takes_text() == whole, "{name}");
    }
}

// Found by an attack: all questions of a transaction were asked at once, whatever was open.
#[test]
fn the_questions_of_a_transaction_are_asked_one_by_one() {
    const COUNT: usize = 20;
    let mut story = Story::new();
    story.client("a").says("MULTI");
    story.conn(1).gets("MULTI").answers("+OK");
    let lens = request("SLOWLOG LEN").repeat(COUNT - 2);
    story.client("a").sends(&lens).says(["CLIENT SETNAME behind", "CLIENT LIST"]);
    let queued = story.conn(1).takes_requests();
    story.conn(1).sends("+QUEUED\r\n".repeat(queued).as_bytes());
    story.client("a").takes();
    story.holds_questions();
    story.client("a").says(["EXEC", "CLIENT GETNAME", "SLOWLOG LEN"]);
    story.conn(1).gets("EXEC");
    story.conn(1).sends(format!("*{COUNT}\r\n{}", "$0\r\n\r\n".repeat(COUNT)).as_bytes());
    for _ in 0..COUNT - 1 {
        assert_eq!(story.questions_open(), 1, "of one client");
        assert_eq!(story.client("a").takes_text(), "");
        story.workers_answer_open();
    }
    let text = story.client("a").takes_text();
    let begin = format!("*{COUNT}\r\n{}+OK\r\n$", ":0\r\n".repeat(COUNT - 2));
    assert!(text.starts_with(&begin) && text.contains(" name=behind "), "{text}");
    assert!(text.ends_with("$6\r\nbehind\r\n"), "{text}");
    story.workers_answer();
    story.client("a").gets(":0");
}

// Found by an attack: the error of a command that is refused here was decided before the EXEC in front of it.
#[test]
fn nothing_behind_exec_is_decided_before_its_reply() {
    let mut users = Users::default();
    for (name, rule) in [(&b"u"[..], &b"~u*"[..]), (b"w", b"~w*")] {
        users.set(name, &[b"on", b">pw", rule, b"&*", b"+@all"]).expect("rules");
    }
    let settings = || Settings { users: Arc::new(users.clone()), ..Settings::default() };
    for (inside, behind, replies) in [
        ("CLIENT REPLY SKIP", "NOPE", ""),
        ("CLIENT REPLY OFF", "NOPE", ""),
        ("AUTH w pw", "GET w1", "$1\r\nW\r\n"),
        ("AUTH w pw", "GET u1", NOPERM),
    ] {
        let mut story = Story::with(settings());
        story.client("a").says("AUTH u pw").gets("+OK");
        story.client("a").says(["MULTI", inside, "EXEC", behind]);
        story.conn(1).takes_requests();
        story.conn(1).answers(["+OK", QUEUED, "*1\r\n$0\r\n\r\n"]);
        if behind == "GET w1" {
            let last = story.connects_made();
            story.conn(last).gets(behind).answers("\"W\"");
        }
        let done = if inside.starts_with("AUTH") { "*1\r\n+OK\r\n" } else { "*1\r\n" };
        let got = story.client("a").takes_text();
        assert_eq!(got, format!("+OK\r\n+QUEUED\r\n{done}{replies}"), "{inside} {behind}");
        if inside == "CLIENT REPLY SKIP" {
            story.client("a").says("PING").gets("+PONG");
        }
    }
}

#[test]
fn hello_while_keys_are_watched_may_say_the_protocol_that_the_client_has() {
    let mut story = Story::new();
    story.client("a").says("WATCH k");
    story.conn(1).gets("WATCH k").answers("+OK");
    story.client("a").gets("+OK").says("HELLO 2 SETNAME me");
    assert!(story.client("a").takes_text().starts_with("*14\r\n$6\r\nserver\r\n"));
    story.client("a").says("HELLO 3");
    assert!(story.client("a").takes_text().contains("'hello' is not possible"));
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
    story.conn(1).gets(["MULTI", ECHO, "PING", ECHO, "EXEC"]);
    story.conn(1).answers(["+OK", QUEUED, QUEUED, QUEUED]);
    story.conn(1).answers("*3\r\n$0\r\n\r\n+PONG\r\n$0\r\n\r\n");
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
    story.conn(2).gets(["MULTI", "GET before", ECHO, "GET k", "EXEC"]);
    story.conn(2).answers(["+OK", QUEUED, QUEUED, QUEUED]);
    story.conn(2).answers("*3\r\n$1\r\nx\r\n$0\r\n\r\n$1\r\nv\r\n");
    let text = story.client("a").takes_text();
    let end = "*3\r\n$1\r\nx\r\n+OK\r\n$1\r\nv\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    assert!(text.ends_with(end), "{text}");
}

// Found by an attack: the client was never told of `k`.
#[test]
fn keys_that_are_read_behind_client_caching_are_told_of_again() {
    let told = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    for options in ["OPTIN", "OPTIN NOLOOP"] {
        let mut story = Story::new();
        crate::tracking::caches(&mut story, "a", options);
        story.client("a").says(["MULTI", "GET o", "CLIENT CACHING YES", "GET k", "EXEC"]);
        let asks = story.conn_with_any(["CLIENT TRACKING ON NOLOOP", "MULTI"]);
        if story.conn(asks).is_next("CLIENT TRACKING ON NOLOOP") {
            story.conn(asks).gets("CLIENT TRACKING ON NOLOOP").answers("+OK");
        }
        story.conn(asks).gets(["MULTI", "GET o", ECHO, "GET k", "EXEC"]);
        story.conn(asks).answers(["+OK", QUEUED, QUEUED, QUEUED]);
        story.conn(asks).answers("*3\r\n$1\r\nx\r\n$0\r\n\r\n$1\r\nv\r\n");
        let text = story.client("a").takes_text();
        let end = format!("*3\r\n$1\r\nx\r\n+OK\r\n$1\r\nv\r\n{told}");
        assert!(text.ends_with(&end), "{options}: {text}");
        // CLIENT CACHING ends with the transaction.
        story.client("a").says("GET o");
        let reads = story.conn_with_any(["CLIENT TRACKING ON", "GET o"]);
        if story.conn(reads).is_next("CLIENT TRACKING ON") {
            story.conn(reads).gets("CLIENT TRACKING ON").answers("+OK");
        }
        story.conn(reads).gets("GET o").answers("+x");
        story.client("a").gets("+x");
        story.conn(reads).answers(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\no\r\n");
        story.client("a").gets_nothing();
    }
}

#[test]
fn on_a_cluster_they_wait_for_the_node_as_all_else() {
    let mut story = Story::cluster();
    story.client("a").says(["MULTI", "CLIENT ID", "SET a 1", "EXEC"]);
    story.node("n3").gets(["MULTI", ECHO, "SET a 1"]).answers(["+OK", QUEUED, QUEUED]);
    story.node("n3").gets("EXEC").answers("*2\r\n$0\r\n\r\n+OK\r\n");
    story.client("a").gets(["+OK", QUEUED, QUEUED, "*2\r\n:1\r\n+OK\r\n"]);
}

#[test]
fn a_large_answer_is_put_together_too_and_bounded_by_the_memory_of_all() {
    let mut story = Story::with_limits(|limits| {
        (limits.client_out_max_bytes, limits.memory_max_bytes) = (1 << 20, 8 << 20);
    });
    let begin = |story: &mut Story, bytes: usize| {
        story.client("a").says(["MULTI", "GET k", "CLIENT ID", "EXEC"]);
        story.conn(1).gets(["MULTI", "GET k", ECHO, "EXEC"]);
        story.conn(1).answers(["+OK", QUEUED, QUEUED]);
        story.client("a").gets(["+OK", QUEUED, QUEUED]);
        let value = format!("*2\r\n${bytes}\r\n{}\r\n", "v".repeat(bytes));
        let half = value.len() / 2;
        story.conn(1).sends(&value.as_bytes()[..half]).sends(&value.as_bytes()[half..]);
        value
    };
    for bytes in [200_000, 2_000_000] {
        let value = begin(&mut story, bytes);
        story.conn(1).sends(b"$0\r\n\r\n");
        story.client("a").gets(format!("{value}:1").as_str());
    }
    begin(&mut story, 10_000_000);
    story.client("a").is_closed();
}

/// What confirms: `subscribe news 1`.
fn confirms(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let [verb, name, count] = words[..] else { panic!("three words") };
    format!("*3\r\n${}\r\n{verb}\r\n${}\r\n{name}\r\n:{count}\r\n", verb.len(), name.len())
}

/// The client begins a transaction of these lines over this connection, and sends EXEC.
fn begins(story: &mut Story, conn: usize, lines: &[&str], servers: &[&str], answer: &str) {
    let ends = |lines: &[&str]| [&["MULTI"], lines, &["EXEC"]].concat().join("\n");
    let (said, arrived) = (ends(lines), ends(servers));
    story.client("a").says(said.lines().collect::<Vec<_>>());
    story.conn(conn).gets(arrived.split('\n').collect::<Vec<_>>());
    story.conn(conn).answers("+OK");
    for _ in lines {
        story.conn(conn).answers(QUEUED);
    }
    story.client("a").gets([&["+OK"], &*vec![QUEUED; lines.len()]].concat());
    story.conn(conn).answers(answer);
}

const EMPTY: &str = "$0\r\n\r\n";

#[test]
fn a_subscription_begins_with_exec_and_is_confirmed_in_its_place() {
    let mut story = Story::new();
    let lines = ["SUBSCRIBE a b", "SET k 1", "PING", "UNSUBSCRIBE b", "PSUBSCRIBE p"];
    let servers = [ECHO, "SET k 1", "PING", ECHO, ECHO];
    let answer = format!("*5\r\n{EMPTY}+OK\r\n+PONG\r\n{EMPTY}{EMPTY}");
    begins(&mut story, 1, &lines, &servers, &answer);
    story.client("a").says("GET k").gets_nothing();
    story.conn(2).gets(["subscribe a", "subscribe b"]);
    story.conn(2).answers([&*confirms("subscribe a 1"), &*confirms("subscribe b 2")]);
    // What is told meanwhile would look like the answer.
    story.conn(2).answers("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n");
    story.conn(2).gets("unsubscribe b");
    story.client("a").gets_nothing();
    story.conn(2).answers(&*confirms("unsubscribe b 1"));
    story.conn(2).gets("psubscribe p").answers(&*confirms("psubscribe p 2"));
    let words = ["subscribe a 1", "subscribe b 2", "unsubscribe b 1", "psubscribe p 2"];
    let [a, b, unsubscribed, p] = words.map(confirms);
    let pong = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
    let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n";
    let answer = format!("*5\r\n{a}{b}+OK\r\n{pong}{unsubscribed}{p}");
    let error = "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
    story.client("a").gets([&*answer, message, error]);
}

#[test]
fn in_resp3_confirmations_are_pushes_and_what_was_heard_before_goes_on() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("SUBSCRIBE a");
    story.conn(2).gets("subscribe a").answers(&*confirms("subscribe a 1"));
    story.client("a").takes();
    begins(&mut story, 3, &["SUBSCRIBE b"], &[ECHO], &format!("*1\r\n{EMPTY}"));
    story.conn(2).gets("subscribe b");
    story.conn(2).answers("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n");
    story.client("a").gets_nothing();
    story.conn(2).answers(&*confirms("subscribe b 1"));
    let push = |frame: &str| frame.replacen('*', ">", 1);
    let answer = format!("*1\r\n{}", push(&confirms("subscribe b 2")));
    story.client("a").gets([&*answer, ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n"]);
}

#[test]
fn what_needs_the_connection_for_itself_is_an_error_of_exec() {
    let mut story = Story::new();
    let lines = ["SSUBSCRIBE s", "MONITOR", "SUNSUBSCRIBE"];
    let answer = format!("*3\r\n{}", EMPTY.repeat(3));
    begins(&mut story, 1, &lines, &[ECHO; 3], &answer);
    story.client("a").gets(
        "*3\r\n-ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client\r\n\
         -ERR MONITOR isn't allowed for DENY BLOCKING client\r\n\
         *3\r\n$12\r\nsunsubscribe\r\n$-1\r\n:0\r\n",
    );
    story.client("a").says(["MULTI", "SUBSCRIBE", "EXEC"]);
    story.conn(1).gets(["MULTI", "DISCARD"]).answers(["+OK", "+OK"]);
    let arity = "-ERR wrong number of arguments for 'subscribe' command";
    story.client("a").gets(["+OK", arity, ABORT]);
    story.client("a").says(["MULTI", "SYNC", "EXEC"]);
    story.conn(1).gets(["MULTI", "DISCARD"]).answers(["+OK", "+OK"]);
    story.client("a").gets(["+OK", "-ERR Command not allowed inside a transaction", ABORT]);
}

#[test]
fn a_subscription_that_a_server_refuses_is_an_error_in_its_place() {
    let mut story = Story::new();
    let answer = format!("*2\r\n{EMPTY}+OK\r\n");
    begins(&mut story, 1, &["SUBSCRIBE a", "SET k 1"], &[ECHO, "SET k 1"], &answer);
    story.conn(2).gets("subscribe a").answers("-NOPERM no");
    story.client("a").gets("*2\r\n-NOPERM no\r\n+OK\r\n").says("GET k");
    // It listens to nothing and is an ordinary client.
    story.conn(3).gets("GET k");
}

#[test]
fn on_a_cluster_a_subscription_goes_to_the_home_of_its_channel_and_survives_a_loss() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "SUBSCRIBE abc", "SET b4 1", "EXEC"]);
    story.node("n2").gets(["MULTI", ECHO, "SET b4 1"]).answers(["+OK", QUEUED, QUEUED]);
    story.node("n2").gets("EXEC").answers(&*format!("*2\r\n{EMPTY}+OK\r\n"));
    story.client("a").gets(["+OK", QUEUED, QUEUED]);
    story.node("n1").gets("subscribe abc").dies("connection reset");
    story.client("a").gets_nothing();
    story.node("n1").gets("subscribe abc").answers(&*confirms("subscribe abc 1"));
    story.client("a").gets(&*format!("*2\r\n{}+OK\r\n", confirms("subscribe abc 1")));
}

#[test]
fn who_goes_while_a_subscription_is_under_way_leaves_nothing() {
    let mut story = Story::new();
    begins(&mut story, 1, &["SUBSCRIBE a"], &[ECHO], &format!("*1\r\n{EMPTY}"));
    story.conn(2).gets("subscribe a");
    story.client("a").dies();
    story.conn(2).gets("unsubscribe a");
    story.conn(2).answers([&*confirms("subscribe a 1"), &*confirms("unsubscribe a 0")]);
    assert!(story.engine.is_quiet());
}

#[test]
fn client_reply_inside_leaves_out_what_a_server_leaves_out() {
    let mut story = Story::new();
    let ok = |count: usize| format!("*{count}\r\n{}", "+OK\r\n".repeat(count));
    let (on, off, skip) = ("CLIENT REPLY ON", "CLIENT REPLY OFF", "CLIENT REPLY SKIP");
    let cases: [(&[&str], &str, &[&str]); 5] = [
        (&[on, "SET k 1"], "*2\r\n+OK\r\n+OK\r\n", &["+PONG", "+PONG"]),
        (&[skip, "SET k 1"], "*2\r\n+OK\r\n", &["+PONG"]),
        (&[skip, on, "SET k 1"], "*3\r\n+OK\r\n+OK\r\n", &["+PONG"]),
        (&["SET k 1", off, "SET k 1", on], "*4\r\n+OK\r\n+OK\r\n", &["+PONG", "+PONG"]),
        (&["SET k 1", off, "SET k 1"], "*3\r\n+OK\r\n", &[]),
    ];
    for (lines, answer, behind) in cases {
        let servers: Vec<&str> =
            lines.iter().map(|line| if line.starts_with("SET") { line } else { ECHO }).collect();
        begins(&mut story, 1, lines, &servers, &ok(lines.len()));
        story.client("a").gets(answer).says(["PING", "PING"]).gets(behind.to_vec());
    }
    // Nothing was wanted when EXEC came.
    story.client("a").says(["MULTI", "SET k 1", on, "SET k 1", "SUBSCRIBE a", "EXEC"]);
    story.conn(1).gets(["MULTI", "SET k 1", ECHO, "SET k 1", ECHO, "EXEC"]);
    story.conn(1).answers(["+OK", QUEUED, QUEUED, QUEUED, QUEUED, &*ok(4)]);
    story.conn(2).gets("subscribe a").answers(&*confirms("subscribe a 1"));
    story.client("a").gets(&*format!("+OK\r\n+OK\r\n{}", confirms("subscribe a 1")));
}

#[test]
fn stand_ins_are_refused_when_the_command_would_be() {
    let mut story = Story::new();
    for (line, stand_in) in [
        ("CLIENT ID", ECHO),
        ("AUTH x", UNWATCH),
        ("HELLO", UNWATCH),
        ("READONLY", ECHO),
        ("ASKING", "PING"),
        ("SLOWLOG LEN", ECHO),
        ("BIGKEYS LEN", ECHO),
        ("TOPKEYS ENABLE", "PING"),
    ] {
        story.client("a").says(["MULTI", line, "DISCARD"]);
        story.conn(1).gets(["MULTI", stand_in, "DISCARD"]).answers(["+OK", QUEUED, "+OK"]);
        story.client("a").gets(["+OK", QUEUED, "+OK"]);
    }
}

#[test]
fn a_client_that_asks_for_itself_inside_is_in_its_transaction() {
    let mut story = Story::new();
    let lines = ["SET k 1", "CLIENT INFO", "CLIENT LIST"];
    begins(
        &mut story,
        1,
        &lines,
        &["SET k 1", ECHO, ECHO],
        &format!("*3\r\n+OK\r\n{EMPTY}{EMPTY}"),
    );
    let text = story.client("a").takes_text();
    assert_eq!(text.matches(" flags=x ").count(), 2, "{text}");
    assert_eq!(text.matches(" multi=3 ").count(), 2, "{text}");
    assert_eq!(text.matches(" cmd=exec ").count(), 2, "{text}");
}

#[test]
fn the_servers_slow_log_is_read_inside_in_its_own_words() {
    let mut story = Story::new();
    begins(&mut story, 1, &["slowlog server LEN"], &["slowlog LEN"], "*1\r\n:7\r\n");
    story.client("a").gets("*1\r\n:7\r\n");
    let own = ["TOPKEYS ENABLE", "TOPKEYS DISABLE", "BIGKEYS LEN"];
    let sent = ["PING", "PING", ECHO];
    begins(&mut story, 1, &own, &sent, &format!("*3\r\n+PONG\r\n+PONG\r\n{EMPTY}"));
    story.client("a").gets("*3\r\n+OK\r\n+OK\r\n:0\r\n").says("TOPKEYS GET").gets("*0");
}

// An attack: respool executed the CLIENT of the second transaction with the EXEC of the first one.
#[test]
fn a_transaction_behind_a_whole_one_answers_in_its_own_place() {
    let mut story = Story::warm_cluster();
    story.client("a").says([
        "MULTI",
        "SET a4 v",
        "EXEC",
        "MULTI",
        "CLIENT SETNAME name",
        "GET a4",
        "DISCARD",
        "CLIENT GETNAME",
    ]);
    story.node("n1").gets(["MULTI", "SET a4 v", "EXEC"]);
    story.node("n1").answers(["+OK", "+QUEUED", "*1\r\n+OK"]);
    story.client("a").gets(["+OK", "+QUEUED", "*1\r\n+OK", "+OK", "+QUEUED"]);
    story.node("n1").gets(["MULTI", "ECHO ", "GET a4"]);
    story.node("n1").answers(["+OK", "+QUEUED", "+QUEUED"]).gets("DISCARD").answers("+OK");
    story.client("a").gets(["+QUEUED", "+OK", "nil"]);
}
