//! CLIENT and its subcommands: true answers about the connection between a client and the proxy.

use crate::words::{HELLO_2, Story};

const NAME_ERROR: &str = "-ERR Client names cannot contain spaces, newlines or special characters.";

#[test]
fn ids_grow_and_are_unique_over_the_workers() {
    let settings = engine::Settings { worker: 1, workers: 4, ..engine::Settings::default() };
    let mut story = Story::with(settings);
    story.client("a").says("CLIENT ID").gets(":2");
    story.client("b").says("CLIENT ID").gets(":6");
}

#[test]
fn a_name_is_kept_and_taken_away() {
    let mut story = Story::new();
    story.client("a").says(["CLIENT GETNAME", "CLIENT SETNAME web-1", "CLIENT GETNAME"]);
    story.client("a").gets(["nil", "+OK", "\"web-1\""]);
    story.client("a").says(["CLIENT SETNAME a\tb", "CLIENT SETNAME ''", "CLIENT GETNAME"]);
    story.client("a").gets([NAME_ERROR, "+OK", "nil"]);
}

#[test]
fn a_name_has_a_longest_length() {
    let mut story = Story::new();
    let longest = engine::limits::CLIENT_NAME_BYTES;
    story.client("a").says(format!("CLIENT SETNAME {}", "n".repeat(longest)).as_str()).gets("+OK");
    let line = format!("CLIENT SETNAME {}", "n".repeat(longest + 1));
    story.client("a").says(line.as_str()).gets(NAME_ERROR);
}

#[test]
fn setinfo_knows_two_attributes() {
    let mut story = Story::new();
    story.client("a").says([
        "CLIENT SETINFO lib-name go-redis",
        "CLIENT SETINFO LIB-VER 9.1",
        "CLIENT SETINFO lib-ver a\tb",
        "CLIENT SETINFO nope x",
        "CLIENT SETINFO lib-name",
    ]);
    story.client("a").gets([
        "+OK",
        "+OK",
        "-ERR lib-ver cannot contain spaces, newlines or special characters.",
        "-ERR Unrecognized option 'nope'",
        "-ERR wrong number of arguments for 'client|setinfo' command",
    ]);
    story.client("a").says("CLIENT INFO");
    let text = story.client("a").takes_text();
    assert!(text.contains(" lib-name=go-redis lib-ver=9.1\n"), "{text}");
}

#[test]
fn a_line_has_a_servers_fields_in_its_order() {
    let mut story = Story::new();
    story.client("a").says("CLIENT INFO");
    let text = story.client("a").takes_text();
    let line = text.lines().nth(1).expect("a line");
    let fields: Vec<&str> =
        line.split(' ').filter_map(|field| Some(field.split_once('=')?.0)).collect();
    assert_eq!(
        fields.join(" "),
        "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem \
         rbs rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver"
    );
    story.client("b").says("HELLO 3").takes();
    story.client("b").says("CLIENT TRACKING ON BCAST PREFIX x");
    story.server().gets("CLIENT TRACKING ON BCAST PREFIX x").answers("+OK");
    story.client("b").gets("+OK");
    story.client("b").says("CLIENT INFO");
    let text = story.client("b").takes_text();
    assert!(text.contains(" flags=tB ") && text.contains(" redir=0 resp=3 "), "{text}");
}

#[test]
fn info_is_the_clients_own_line() {
    let mut story = Story::new();
    story.client("a").says("CLIENT SETNAME n").gets("+OK");
    story.after_ms(7_000).client("a").says("CLIENT INFO");
    let text = story.client("a").takes_text();
    let begin =
        "id=1 addr=10.0.0.1:5001 laddr=10.0.0.9:6380 fd=-1 name=n age=7 idle=0 flags=N db=0 ";
    assert!(text.contains(begin), "{text}");
    assert!(text.contains(" cmd=client|info user=default redir=-1 resp=2 "), "{text}");
    assert!(text.starts_with('$') && text.ends_with("\n\r\n"), "{text}");
}

#[test]
fn lists_are_verbatim_in_resp3_and_bulk_in_resp2() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    for line in ["CLIENT LIST", "CLIENT INFO", "INFO"] {
        story.client("a").says(line);
        let text = story.client("a").takes_text();
        assert!(text.starts_with('=') && text.contains("\r\ntxt:"), "{line}: {text}");
        story.client("b").says(line);
        assert!(story.client("b").takes_text().starts_with('$'), "{line}");
    }
}

#[test]
fn the_list_has_a_line_for_each_client_in_order() {
    let mut story = Story::new();
    for name in ["a", "b", "c"] {
        story.client(name).says("PING").gets("+PONG");
    }
    story.client("b").dies();
    story.client("d").says("CLIENT LIST");
    let text = story.client("d").takes_text();
    let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id=")).collect();
    let ids: Vec<&str> = ids.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(ids, ["1", "3", "4"]);
}

#[test]
fn the_list_can_be_limited_to_ids_and_types() {
    let mut story = Story::new();
    story.client("a").says("PING").gets("+PONG");
    story.client("b").says("CLIENT LIST ID 1 77");
    let text = story.client("b").takes_text();
    assert!(text.contains("id=1 ") && !text.contains("id=2 "), "{text}");
    story.client("b").says("CLIENT LIST TYPE normal");
    assert_eq!(story.client("b").takes_text().matches("id=").count(), 2);
    story.client("b").says("CLIENT LIST TYPE pubsub").gets("\"\"");
    story.client("b").says(["CLIENT LIST TYPE x", "CLIENT LIST ID", "CLIENT LIST ID a"]).gets([
        "-ERR Unknown client type 'x'",
        "-ERR syntax error",
        "-ERR Invalid client ID",
    ]);
}

#[test]
fn reply_off_silences_all_until_on() {
    let mut story = Story::new();
    story.client("b").says("GET k");
    story.server().gets("GET k").answers("nil");
    story
        .client("a")
        .says(["CLIENT REPLY OFF", "PING", "GET k", "NOSUCH", "CLIENT ID"])
        .gets_nothing();
    story.server().gets("GET k").answers("\"v\"");
    story.client("a").gets_nothing();
    story.client("a").says(["CLIENT REPLY SKIP", "PING", "CLIENT REPLY ON", "PING"]);
    story.client("a").gets(["+OK", "+PONG"]);
}

#[test]
fn reply_skip_silences_one_command() {
    let mut story = Story::new();
    story.client("a").says(["GET a", "CLIENT REPLY SKIP", "GET b", "GET c", "PING"]);
    story.server().gets(["GET a", "GET b", "GET c"]).answers(["\"a\"", "\"b\"", "\"c\""]);
    story.client("a").gets(["\"a\"", "\"c\"", "+PONG"]);
}

#[test]
fn reply_skip_covers_local_refused_and_failing_commands_alike() {
    let mut story = Story::new();
    for silenced in [
        "PING",
        "CLIENT ID",
        "CLIENT NOPE",
        "CLIENT SETNAME a\tb",
        "CLIENT LIST",
        "INFO",
        "SHUTDOWN",
        "PING a b c",
        "SELECT x",
        "CLIENT REPLY",
        "CLIENT REPLY maybe",
        "CLIENT NO-TOUCH",
        "RESET",
    ] {
        story.client("a").says(["CLIENT REPLY SKIP", silenced, "ECHO next"]).gets("\"next\"");
    }
}

#[test]
fn reply_skip_covers_a_command_that_waits() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "CLIENT REPLY SKIP", "CLIENT KILL ID 99", "ECHO next"]);
    story.server().gets("GET k").answers("nil");
    story.client("a").gets(["nil", "\"next\""]);
    story.client("a").says(["CLIENT LIST", "CLIENT REPLY SKIP", "CLIENT LIST", "ECHO last"]);
    let text = story.client("a").takes_text();
    assert!(text.matches("id=1 ").count() == 1 && text.ends_with("$4\r\nlast\r\n"), "{text}");
}

#[test]
fn errors_fill_one_buffer_after_another() {
    let mut story = Story::new();
    let line = format!("CLIENT {}", "n".repeat(120));
    story.client("a").stops_taking().says(vec![line.as_str(); 6_000]);
    story.client("a").takes_all();
    let text = story.client("a").takes_text();
    let error = format!("-ERR unknown subcommand '{}'. Try CLIENT HELP.\r\n", "n".repeat(120));
    assert!(text == error.repeat(6_000), "{} bytes", text.len());
}

#[test]
fn reset_ends_reply_off_and_is_answered() {
    let mut story = Story::new();
    story.client("a").says(["CLIENT REPLY OFF", "PING", "RESET", "PING"]).gets(["+RESET", "+PONG"]);
}

#[test]
fn reply_with_a_wrong_word_is_a_syntax_error() {
    let mut story = Story::new();
    story
        .client("a")
        .says(["CLIENT REPLY", "CLIENT REPLY maybe"])
        .gets(["-ERR wrong number of arguments for 'client|reply' command", "-ERR syntax error"]);
}

#[test]
fn a_silent_request_on_a_lost_connection_stays_silent() {
    let mut story = Story::new();
    story.client("a").says(["GET a", "CLIENT REPLY SKIP", "GET b", "GET c"]);
    story.server().answers("\"a\"");
    story.client("a").gets("\"a\"");
    story.server().dies("connection reset");
    story.client("a").gets("-ERR respool: upstream 127.0.0.1:6379: connection reset");
}

#[test]
fn kill_by_address_in_the_old_form() {
    let mut story = Story::new();
    story.client("a").says("PING").gets("+PONG");
    story.client("b").says("CLIENT KILL 10.0.0.1:5001").gets("+OK");
    story.client("a").is_closed();
    story.client("b").says("CLIENT KILL 10.0.0.1:5001").gets("-ERR No such client");
}

#[test]
fn a_client_that_kills_itself_gets_its_answer_first() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "CLIENT KILL 10.0.0.1:5001", "PING"]);
    story.client("a").gets_nothing().is_open();
    story.server().answers("\"v\"");
    story.client("a").gets(["\"v\"", "+OK"]).is_closed();
}

#[test]
fn kill_in_the_new_form_counts_and_spares_the_asker() {
    let mut story = Story::new();
    for name in ["a", "b", "c"] {
        story.client(name).says("PING").gets("+PONG");
    }
    story.client("d").says("CLIENT KILL ID 1 SKIPME no").gets(":1");
    story.client("a").is_closed();
    story.client("d").says("CLIENT KILL ADDR 10.0.0.1:5002").gets(":1");
    story.client("b").is_closed();
    story.client("d").says("CLIENT KILL TYPE pubsub").gets(":0");
    story.client("d").says("CLIENT KILL TYPE normal USER default LADDR 10.0.0.9:6380").gets(":1");
    story.client("c").is_closed();
    story.client("d").is_open().says("CLIENT KILL TYPE normal SKIPME no").gets(":1").is_closed();
}

#[test]
fn kill_by_age() {
    let mut story = Story::new();
    story.client("a").says("PING").gets("+PONG");
    story.after_ms(10_000);
    story.client("b").says("CLIENT KILL MAXAGE 11").gets(":0");
    story.client("b").says("CLIENT KILL MAXAGE 10").gets(":1");
    story.client("a").is_closed();
}

#[test]
fn kill_with_wrong_options_kills_nobody() {
    let mut story = Story::new();
    story.client("a").says("PING").gets("+PONG");
    for (line, error) in [
        ("CLIENT KILL", "-ERR wrong number of arguments for 'client|kill' command"),
        ("CLIENT KILL ID 0", "-ERR client-id should be greater than 0"),
        ("CLIENT KILL ID x", "-ERR client-id should be greater than 0"),
        ("CLIENT KILL TYPE x", "-ERR Unknown client type 'x'"),
        ("CLIENT KILL USER bob", "-ERR No such user 'bob'"),
        ("CLIENT KILL SKIPME maybe", "-ERR syntax error"),
        ("CLIENT KILL ID 1 ADDR", "-ERR syntax error"),
        ("CLIENT KILL NOPE 1", "-ERR syntax error"),
    ] {
        story.client("b").says(line).gets(error);
    }
    story.client("a").is_open();
}

#[test]
fn a_pause_of_writes_holds_writes_only() {
    let mut story = Story::new();
    story.client("a").says("CLIENT PAUSE 500 WRITE").gets("+OK");
    story.client("r").says(["GET k", "PING"]);
    story.server().gets("GET k").answers("\"v\"");
    story.client("r").gets(["\"v\"", "+PONG"]);
    story.client("w").says(["PING", "SET k 1", "GET k"]).gets("+PONG");
    for (name, may_write) in [("x", "EVAL script 0"), ("y", "PUBLISH c m")] {
        story.client(name).says(may_write);
    }
    // A server looks a command up before it looks at the pause.
    let unknown = "-ERR unknown command 'NOSUCH', with args beginning with: ";
    story.client("z").says("NOSUCH").gets(unknown);
    story.server().gets_nothing();
    story.after_ms(499).server().gets_nothing();
    story.after_ms(1).server().gets(["SET k 1", "GET k", "EVAL script 0", "PUBLISH c m"]);
}

#[test]
fn a_pause_begins_before_the_next_request_of_its_own_client() {
    let mut story = Story::new();
    story.client("a").says(["CLIENT PAUSE 100 WRITE", "SET k 1", "PING"]).gets("+OK");
    assert_eq!(story.connects_made(), 0);
    story.after_ms(100).server().gets("SET k 1").answers("+OK");
    story.client("a").gets(["+OK", "+PONG"]);
}

#[test]
fn a_pause_holds_all_that_goes_to_the_server_and_unpause_ends_it() {
    let mut story = Story::new();
    story.client("a").says("CLIENT PAUSE 60000").gets("+OK");
    story.client("b").says(["GET k", "SET k 1"]).gets_nothing();
    story.client("c").says("EVAL x 0").gets_nothing();
    assert_eq!(story.connects_made(), 0);
    story.client("a").says("CLIENT UNPAUSE").gets("+OK");
    story.server().gets(["GET k", "SET k 1", "EVAL x 0"]);
}

#[test]
fn a_longer_pause_is_not_shortened_by_a_later_one() {
    let mut story = Story::new();
    story
        .client("a")
        .says(["CLIENT PAUSE 1000 WRITE", "CLIENT PAUSE 10 WRITE"])
        .gets(["+OK", "+OK"]);
    story.client("b").says("SET k 1");
    story.after_ms(999);
    assert_eq!(story.connects_made(), 0);
    story.after_ms(1).server().gets("SET k 1");
}

#[test]
fn a_pause_of_all_holds_what_the_proxy_answers_too() {
    let held = [
        ("PING", "+PONG"),
        ("ECHO x", "$1\r\nx\r\n"),
        ("SELECT 0", "+OK"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT PAUSE 10", "+OK"),
        ("CLIENT NO-EVICT on", "+OK"),
    ];
    let mut story = Story::new();
    story.client("a").says("CLIENT PAUSE 1000").gets("+OK");
    for (line, _) in held {
        story.client(line).says(line).gets_nothing();
    }
    // A server looks these up, and counts their arguments, before it looks at the pause.
    story.client("b").says("ECHO").gets("-ERR wrong number of arguments for 'echo' command");
    let unknown = "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.";
    story.client("b").says("CLIENT NOSUCH").gets(unknown);
    story.after_ms(999);
    for (line, _) in held {
        story.client(line).gets_nothing();
    }
    story.after_ms(1).after_ms(10);
    for (line, reply) in held {
        story.client(line).gets(reply);
    }
}

#[test]
fn a_client_that_goes_while_it_is_paused_leaves_nothing() {
    let mut story = Story::new();
    story.client("a").says("CLIENT PAUSE 1000").gets("+OK");
    story.client("b").says("GET k");
    story.client("b").dies();
    story.after_ms(1_000);
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn pause_with_wrong_words() {
    let mut story = Story::new();
    for (line, error) in [
        ("CLIENT PAUSE", "-ERR wrong number of arguments for 'client|pause' command"),
        ("CLIENT PAUSE x", "-ERR timeout is not an integer or out of range"),
        ("CLIENT PAUSE -1", "-ERR timeout is negative"),
        ("CLIENT PAUSE 1 SOME", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
    ] {
        story.client("a").says(line).gets(error);
    }
    story.client("a").says("GET k");
    story.server().gets("GET k");
}

#[test]
fn switches_and_the_rest_answer_as_a_client_without_tracking() {
    let mut story = Story::new();
    for (line, reply) in [
        ("CLIENT NO-EVICT on", "+OK"),
        ("CLIENT NO-EVICT OFF", "+OK"),
        ("CLIENT NO-EVICT x", "-ERR syntax error"),
        ("CLIENT NO-TOUCH on", "+OK"),
        ("CLIENT GETREDIR", ":-1"),
        (
            "CLIENT CACHING yes",
            "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
             OPTOUT mode enabled",
        ),
        ("CLIENT TRACKING off", "+OK"),
        ("CLIENT TRACKING x", "-ERR syntax error"),
        (
            "CLIENT TRACKINGINFO",
            "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n",
        ),
        ("CLIENT UNBLOCK 1", ":0"),
        ("CLIENT UNBLOCK -1", ":0"),
        ("CLIENT UNBLOCK 1 SOON", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        (
            "CLIENT UNBLOCK 1 ERROR x",
            "-ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.",
        ),
        ("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range"),
        ("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP."),
        ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"),
    ] {
        story.client("a").says(line).gets(reply).is_open();
    }
    story.client("a").says("CLIENT HELP");
    let text = story.client("a").takes_text();
    assert!(text.starts_with('*') && text.ends_with("+    Print this help.\r\n"), "{text}");
}

#[test]
fn trackinginfo_is_a_map_with_a_set_in_resp3() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKINGINFO").gets(
        "%3\r\n$5\r\nflags\r\n~1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n",
    );
}

#[test]
fn a_pause_of_writes_holds_exec_back_if_it_would_write() {
    let mut story = Story::new();
    for (name, line) in [("r", "GET k"), ("w", "SET k 1")] {
        story.client(name).says(["MULTI", line]);
    }
    story.conn(1).gets(["MULTI", "GET k"]).answers(["+OK", "+QUEUED"]);
    story.conn(2).gets(["MULTI", "SET k 1"]).answers(["+OK", "+QUEUED"]);
    story.client("a").says("CLIENT PAUSE 1000 WRITE").gets("+OK");
    story.client("r").says("EXEC").gets(["+OK", "+QUEUED"]);
    story.client("w").says("EXEC").gets(["+OK", "+QUEUED"]);
    story.conn(1).gets("EXEC").answers("*1\r\n:1\r\n");
    story.client("r").gets("*1\r\n:1\r\n");
    story.conn(2).gets_nothing();
    story.client("a").says("INFO clients");
    assert!(story.client("a").takes_text().contains("blocked_clients:1"));
    story.client("a").says("CLIENT UNPAUSE").gets("+OK");
    story.conn(2).gets("EXEC").answers("*1\r\n+OK\r\n");
    story.client("w").gets("*1\r\n+OK\r\n");
}

#[test]
fn a_pause_of_writes_lets_scripts_pass_that_only_read_and_what_is_wrong_anyway() {
    let mut story = Story::new();
    story.client("a").says("CLIENT PAUSE 1000 WRITE").gets("+OK");
    let reads = resp_request(&["EVAL", "#!lua flags=no-writes\nreturn 1", "0"]);
    story.client("a").sends(&reads).says("SET k");
    assert_eq!(
        story.server().takes_one().as_deref(),
        Some("EVAL #!lua flags=no-writes\nreturn 1 0")
    );
    story.server().gets("SET k").answers([":1", "-ERR wrong number of arguments"]);
    story.client("a").gets([":1", "-ERR wrong number of arguments"]);
    story.client("a").says("EVAL return1 0");
    story.server().gets_nothing();
}

#[test]
fn a_pause_of_writes_lets_functions_pass_that_the_server_says_do_not_write() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.client("a").says("CLIENT PAUSE 1000 WRITE").gets("+OK").says("FCALL reads 0");
    story.client("b").says("FCALL writes 0");
    let function = |name: &str, flags: &str| {
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        format!("*4\r\n{}{}{}{flags}\r\n", bulk("name"), bulk(name), bulk("flags"))
    };
    let functions = function("writes", "*0") + &function("reads", "*1\r\n+no-writes");
    let told = format!("*1\r\n*2\r\n$9\r\nfunctions\r\n*2\r\n{}", functions);
    story.server().gets("FUNCTION LIST").gets_nothing().answers(told.trim_end());
    story.server().gets("FCALL reads 0").answers(":1");
    story.client("a").gets(":1").says("FCALL reads 0");
    story.server().gets("FCALL reads 0").gets_nothing().answers(":1");
    // The next pause asks anew.
    story.after_ms(1_000).server().gets("FCALL writes 0").answers(":2");
    story.client("b").gets(":2").says("CLIENT PAUSE 1000 WRITE").gets("+OK").says("FCALL reads 0");
    story.server().gets("FUNCTION LIST").answers("-ERR unknown command");
    story.server().gets_nothing();
}

#[test]
fn whether_a_function_writes_is_asked_again_when_the_answer_is_lost() {
    let mut story = Story::new();
    story.client("a").says("CLIENT PAUSE 5000 WRITE").gets("+OK").says("FCALL reads 0");
    // Nobody had a connection yet.
    story.client("b").says("GET k");
    story.server().gets(["FUNCTION LIST", "GET k"]).dies("reset");
    story.client("b").takes();
    story.client("b").says("GET k");
    story.server().gets(["FUNCTION LIST", "GET k"]);
}

#[test]
fn a_pause_of_writes_lets_a_known_script_pass_by_its_digest() {
    let mut story = Story::new();
    let digest = "77f21361171213377cb083e2ffc2ae24ffdff8fb";
    let writes = "cb70127618f0b0be70c53cf6bfcfa54a29d9b0c0";
    for (body, digest) in [("#!lua flags=no-writes\nreturn 1", digest), ("#!lua\nreturn 1", writes)]
    {
        story.client("a").sends(&resp_request(&["SCRIPT", "LOAD", body]));
        story.conn(1).takes_one();
        story.conn(1).answers(&*format!("\"{digest}\""));
        story.client("a").takes();
    }
    story.client("a").says("CLIENT PAUSE 1000 WRITE").gets("+OK");
    let call = format!("EVALSHA {digest} 0");
    story.client("a").says(&*call);
    story.conn(1).gets(&*call).answers(":1");
    story.client("a").gets(":1");
    story.client("b").says(["MULTI", &*call, "EXEC"]);
    story.conn(2).gets(["MULTI", &*call, "EXEC"]);
    // Another, one that says it may write and will be refused, and one that the server forgot.
    story.client("c").says(&*format!("EVALSHA {} 0", "0".repeat(40)));
    story.client("d").says(&*format!("EVALSHA_RO {writes} 0"));
    story.conn(1).gets_nothing();
    story.client("a").says(["SCRIPT FLUSH", &*call]);
    story.conn(1).gets("SCRIPT FLUSH").gets_nothing().answers("+OK");
}

fn resp_request(args: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    resp::encode::request(&mut out, &args);
    out
}

/// In front of a Valkey of this version.
fn before_valkey(version: &str) -> Story {
    let mut story = Story::new();
    let hello = HELLO_2.replace("$5\r\nredis", "$6\r\nvalkey").replace("7.2.5", version);
    story.server_says_to("HELLO 2", &hello);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story
}

#[test]
fn nothing_is_answered_with_ok_that_has_no_effect() {
    let disabled = "-ERR This instance has cluster support disabled";
    let unknown = |name: &str| format!("-ERR unknown subcommand '{name}'. Try CLIENT HELP.");
    let mut story = before_valkey("9.1.2");
    let redirect = "-ERR respool: CLIENT CAPA redirect is not supported: clients are not sent to other servers";
    for (line, reply) in [
        ("CLIENT CAPA redirect", redirect),
        ("CLIENT CAPA x REDIRECT", redirect),
        ("CLIENT CAPA x", "+OK"),
        ("CLIENT CAPA", "-ERR wrong number of arguments for 'client|capa' command"),
        ("CLIENT IMPORT-SOURCE ON", "-ERR Server is not in import mode"),
        ("CLIENT IMPORT-SOURCE x", "-ERR Server is not in import mode"),
        ("CLIENT IMPORT-SOURCE OFF", "+OK"),
        ("READONLY", "+OK"),
        ("READWRITE", "+OK"),
        ("ASKING", disabled),
    ] {
        story.client("a").says(line).gets(reply);
    }
    let mut story = before_valkey("8.0.1");
    story.client("a").says("CLIENT IMPORT-SOURCE OFF").gets(&*unknown("IMPORT-SOURCE"));
    // Redis knows none of it.
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.client("a").says("CLIENT CAPA x").gets(&*unknown("CAPA"));
    story.client("a").says("CLIENT IMPORT-SOURCE OFF").gets(&*unknown("IMPORT-SOURCE"));
    story.client("a").says("READONLY").gets(disabled);
}
