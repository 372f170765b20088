//! Who a client is and what it speaks: HELLO, AUTH, RESET, and what it may say before.

use crate::words::{HELLO_2, HELLO_3, Story, request};

const NOAUTH: &str = "-NOAUTH Authentication required.";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

fn with_id(hello: &str, id: u64) -> String {
    hello.replace(":991\r\n", &format!(":{id}\r\n"))
}

#[test]
fn hello_is_the_servers_own_answer_with_the_clients_id() {
    let mut story = Story::new();
    story.client("x").says("PING").gets("+PONG");
    story.client("a").says("HELLO").gets(with_id(HELLO_2, 2).as_str());
    story.client("a").says("HELLO 3").gets(with_id(HELLO_3, 2).as_str());
    story.client("a").says("HELLO").gets(with_id(HELLO_3, 2).as_str());
    story.client("a").says("HELLO 2").gets(with_id(HELLO_2, 2).as_str());
}

#[test]
fn each_protocol_has_its_own_connection() {
    let mut story = Story::new();
    story.client("two").says("HGETALL h");
    story.client("three").says("HELLO 3").takes();
    story.client("three").says("HGETALL h");
    assert!(!story.conn(1).key().resp3 && story.conn(2).key().resp3);
    story.conn(1).gets("HGETALL h").answers("*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
    story.conn(2).gets("HGETALL h").answers("%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
    story.client("two").gets("*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
    story.client("three").gets("%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
}

#[test]
fn the_protocol_changes_between_two_requests_of_a_pipeline() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "CLIENT GETNAME", "HELLO 3", "CLIENT GETNAME", "GET l"]);
    story.conn(1).gets("GET k").gets_nothing().answers("nil");
    story.client("a").gets(["nil", "nil", with_id(HELLO_3, 1).as_str(), "_"]);
    story.conn(2).gets("GET l").answers("_");
    story.client("a").gets("_");
}

#[test]
fn an_answer_of_the_workers_has_the_protocol_of_its_request() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("HELLO 2").takes();
    story.holds_questions();
    story.client("a").says(["CLIENT LIST", "HELLO 3"]);
    story.workers_answer();
    let text = story.client("a").takes_text();
    assert!(text.starts_with('$') && text.contains("%7\r\n"), "{text}");
}

#[test]
fn hello_sets_the_name_and_authenticates() {
    let mut story = Story::with_password("secret");
    story.client("a").says("HELLO 3 AUTH default secret SETNAME worker-1");
    story.client("a").gets(with_id(HELLO_3, 1).as_str());
    story.client("a").says("CLIENT GETNAME").gets("\"worker-1\"");
}

#[test]
fn hello_takes_its_options_in_any_order_and_case() {
    let mut story = Story::with_password("secret");
    story.client("a").says("hello 2 setname w auth default secret");
    story.client("a").gets(with_id(HELLO_2, 1).as_str()).says("CLIENT GETNAME").gets("\"w\"");
}

#[test]
fn a_hello_that_fails_changes_nothing() {
    let mut story = Story::with_password("secret");
    let noauth = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                  HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
                  select the RESP protocol version at the same time";
    for (line, error) in [
        ("HELLO 3", noauth),
        ("HELLO", noauth),
        ("HELLO 3 AUTH default wrong SETNAME n", WRONGPASS),
        ("HELLO 3 AUTH someone secret", WRONGPASS),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO 1", "-NOPROTO unsupported protocol version"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'"),
        ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"),
        ("HELLO 3 NOPE", "-ERR Syntax error in HELLO option 'NOPE'"),
        (
            "HELLO 3 SETNAME a\tb AUTH default secret",
            "-ERR Client names cannot contain spaces, newlines or special characters.",
        ),
    ] {
        story.client("a").says(line).gets(error).is_open();
    }
    story.client("a").says("GET k").gets(NOAUTH);
    story.client("a").says(["AUTH secret", "CLIENT GETNAME"]).gets(["+OK", "nil"]);
}

#[test]
fn the_name_in_hello_is_looked_at_before_the_password() {
    let mut story = Story::with_password("secret");
    story
        .client("a")
        .says("HELLO 3 AUTH default wrong SETNAME a\tb")
        .gets("-ERR Client names cannot contain spaces, newlines or special characters.");
}

#[test]
fn what_clients_send_first_in_one_packet_works() {
    let mut story = Story::new();
    story.client("a").says([
        "HELLO 3",
        "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip",
        "CLIENT SETINFO LIB-NAME redis-py",
        "CLIENT SETINFO LIB-VER 8.0.0",
        "SET k v",
    ]);
    story.server().gets("SET k v").answers("+OK");
    story.client("a").gets([
        with_id(HELLO_3, 1).as_str(),
        "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
        "+OK",
        "+OK",
        "+OK",
    ]);
}

#[test]
fn auth_in_all_its_forms() {
    let mut story = Story::with_password("secret");
    story.client("a").says([
        "AUTH wrong",
        "AUTH default wrong",
        "AUTH someone secret",
        "AUTH default secret more",
        "AUTH",
        "GET k",
    ]);
    story.client("a").gets([
        WRONGPASS,
        WRONGPASS,
        WRONGPASS,
        "-ERR syntax error",
        "-ERR wrong number of arguments for 'auth' command",
        NOAUTH,
    ]);
    story.client("a").says(["AUTH secret", "PING"]).gets(["+OK", "+PONG"]);
    // A wrong one later takes nothing away.
    story.client("a").says(["AUTH wrong", "PING"]).gets([WRONGPASS, "+PONG"]);
    story.client("b").says(["AUTH default secret", "PING"]).gets(["+OK", "+PONG"]);
}

#[test]
fn auth_where_there_is_no_password() {
    let mut story = Story::new();
    story.client("a").says(["AUTH x", "AUTH default x", "AUTH someone x"]).gets([
        "-ERR AUTH <password> called without any password configured for the default user. \
         Are you sure your configuration is correct?",
        "+OK",
        WRONGPASS,
    ]);
}

#[test]
fn before_auth_a_command_is_looked_up_and_counted_first() {
    let mut story = Story::with_password("secret");
    story.client("a").says(["NOPE a b", "GET", "GET k", "CLIENT ID", "PING", "MULTI", "SHUTDOWN"]);
    story.client("a").gets([
        "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' ",
        "-ERR wrong number of arguments for 'get' command",
        NOAUTH,
        NOAUTH,
        NOAUTH,
        NOAUTH,
        NOAUTH,
    ]);
    // EXEC ends a transaction whatever is wrong with it.
    story.client("a").says(["EXEC", "EXEC x"]).gets([
        "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.",
        "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
    ]);
    assert_eq!(story.connects_made(), 0, "nobody is let through to the server");
}

#[test]
fn quit_and_reset_are_allowed_before_auth() {
    let mut story = Story::with_password("secret");
    story.client("a").says("RESET").gets("+RESET").is_open();
    story.client("a").says("QUIT").gets("+OK").is_closed();
}

#[test]
fn a_large_request_needs_authentication_like_a_small_one() {
    let mut settings = engine::Settings {
        users: engine::acl::Users::with_password(b"secret").into(),
        ..engine::Settings::default()
    };
    settings.limits.large_request_bytes = 8 << 10;
    let mut story = Story::with(settings);
    let set = crate::words::large_set("k", 16_000);
    story.client("a").sends(&set[..10_000]).sends(&set[10_000..]).gets(NOAUTH);
    assert_eq!(story.connects_made(), 0);
    story.client("a").says("AUTH secret").gets("+OK");
}

#[test]
fn before_auth_large_requests_are_a_protocol_error() {
    let mut story = Story::with_password("secret");
    story.client("a").sends(b"*11\r\n");
    story.client("a").gets("-ERR Protocol error: unauthenticated multibulk length").is_closed();
    story.client("b").sends(b"*1\r\n$16385\r\n");
    story.client("b").gets("-ERR Protocol error: unauthenticated bulk length").is_closed();
}

#[test]
fn reset_is_a_new_connection_but_for_the_socket() {
    let mut story = Story::with_password("secret");
    story.client("a").says("HELLO 3 AUTH default secret SETNAME n").takes();
    story.client("a").says(["SELECT 2", "CLIENT REPLY OFF", "PING"]).gets("+OK");
    story.client("a").says(["RESET", "GET k"]).gets(["+RESET", NOAUTH]);
    story.client("a").says(["AUTH secret", "CLIENT GETNAME"]).gets(["+OK", "nil"]);
    story.client("a").says("GET k");
    let key = story.server().key();
    assert_eq!((key.db, key.resp3), (0, false));
}

#[test]
fn the_requests_before_a_reset_are_answered_before_it() {
    let mut story = Story::new();
    story.client("a").says(["GET k", "RESET"]).gets_nothing();
    story.server().answers("\"v\"");
    story.client("a").gets(["\"v\"", "+RESET"]);
}

#[test]
fn a_password_that_arrives_in_pieces_is_the_same_password() {
    let bytes = [request("AUTH secret"), request("GET k")].concat();
    for split in 1..bytes.len() {
        let mut story = Story::with_password("secret");
        story.client("a").sends(&bytes[..split]).sends(&bytes[split..]).gets("+OK");
        story.server().gets("GET k");
    }
}

#[test]
fn hello_on_a_node_that_is_down_says_so_and_changes_nothing() {
    let mut story = Story::new().by_hand();
    story.client("a").says("HELLO 3 SETNAME n");
    story.connect_fails("connect: Connection refused");
    story
        .client("a")
        .gets("-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused")
        .says("CLIENT GETNAME")
        .gets("nil");
}
