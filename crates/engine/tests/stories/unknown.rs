//! Commands and subcommands that neither the table nor the servers' `COMMAND` knows: none of them travels over a connection that clients share. A name
//! with a NUL is nobody's; others are asked for, and what servers do not tell of goes over a connection that is closed behind the reply.

use crate::words::{HELLO_2, Story, request};
use engine::acl::Users;
use engine::command::CommandId;
use engine::limits::{LOOKUP_EVERY_MS, LOOKUP_NAMES_MAX, LOOKUP_WAIT_MS, LOOKUP_WAITERS_MAX};
use engine::settings::{Limits, Settings};

const NOSUCH: &str = "-ERR unknown command 'NOSUCH', with args beginning with: 'x' ";
const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.";
const REFUSED: &str = "-NOPERM this user has no permissions to run the 'command' command";

/// The answer to `COMMAND INFO` of one name.
fn info(name: &str, flag: &str) -> String {
    let len = name.len();
    format!("*1\r\n*6\r\n${len}\r\n{name}\r\n:-2\r\n*1\r\n+{flag}\r\n:1\r\n:1\r\n:1\r\n")
}

/// A server whose commands are known, and that has answered something.
fn warm(mut story: Story) -> Story {
    story.client("w").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("w").gets("nil");
    story
}

/// A server that tells nobody its commands.
fn untold(mut story: Story) -> Story {
    story.server_says_to("COMMAND", REFUSED);
    warm(story)
}

#[test]
fn what_no_server_has_is_answered_here_in_the_servers_words() {
    let mut story = warm(Story::new());
    story.client("a").says(["NOSUCH x", "GET k"]).gets(NOSUCH);
    story.conn(1).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.after_ms(20).client("a").says(["OBJECT NOPE k", "OBJECT"]);
    story.client("a").gets("-ERR unknown subcommand 'NOPE'. Try OBJECT HELP.");
    story.conn(1).gets("OBJECT").answers("-ERR arity");
    story.client("a").gets("-ERR arity").is_open();
    assert_eq!(story.connects_made(), 1);
}

/// Every command and every subcommand of the table, followed by a NUL: nothing of it reaches a server, not even as a question.
#[test]
fn a_name_with_a_nul_is_nobodys_whatever_stands_before_it() {
    for begin in [warm, untold] {
        let mut story = begin(Story::new());
        let writes = story.conn(1).writes();
        for id in CommandId::all() {
            let names = match id.name().split_once('|') {
                None => vec![format!("{}\0", id.name()), format!("{}\0x9", id.name())],
                Some((container, sub)) => vec![
                    format!("{container} {sub}\0"),
                    format!("{container} {sub}\0x9"),
                    format!("{container}\0 {sub}"),
                    format!("{} {sub}\0", container.to_ascii_uppercase()),
                ],
            };
            for name in names {
                story.client("a").says(&format!("{name} k 1 2"));
                let text = story.client("a").is_open().takes_text();
                let shown = name.split(' ').find(|word| word.contains('\0')).unwrap_or_default();
                let shown = shown.split('\0').next().unwrap_or_default();
                let kind = if name.starts_with(shown) { "command" } else { "subcommand" };
                let begin = format!("-ERR unknown {kind} '{shown}'");
                assert!(text.starts_with(&begin), "{name:?}: {text:?} is not {begin:?}");
            }
        }
        story.conn(1).gets_nothing();
        assert_eq!((story.conn(1).writes(), story.connects_made()), (writes, 1));
    }
}

#[test]
fn what_cannot_be_a_name_is_not_asked_for() {
    let mut story = warm(Story::new());
    let writes = story.conn(1).writes();
    for name in ["config|get", "''", "client|reply", &"n".repeat(129), "OBJECT encoding|x"] {
        story.client("a").says(&format!("{name} x"));
        let text = story.client("a").takes_text();
        assert!(text.starts_with("-ERR unknown "), "{name}: {text}");
    }
    for line in ["SLOWLOG SERVER GET\0 1", "CLIENT NOPE", "CLIENT\0 REPLY OFF"] {
        story.client("a").says(line);
        assert!(story.client("a").takes_text().starts_with("-ERR unknown "), "{line}");
    }
    // The form for people has an escape for any byte.
    story.client("a").sends(b"\"CLIENT\\x00\" REPLY OFF\r\n");
    let error = "-ERR unknown command 'CLIENT', with args beginning with: 'REPLY' 'OFF' ";
    story.client("a").gets(error);
    assert_eq!((story.conn(1).writes(), story.connects_made()), (writes, 1));
}

#[test]
fn a_module_that_was_loaded_later_works_at_once_and_is_asked_for_once() {
    let mut story = warm(Story::new());
    story.server_says_to("COMMAND INFO m.get", &info("m.get", "readonly"));
    story.server_says_to("COMMAND INFO m.wait", &info("M.WAIT", "blocking"));
    story.client("a").says("M.GET k");
    story.conn(1).gets("M.GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    let writes = story.conn(1).writes();
    story.client("a").says("m.get k");
    story.conn(1).gets("m.get k").answers("\"v\"");
    assert_eq!(story.conn(1).writes(), writes + 1);
    story.client("a").gets("\"v\"");
    // One that blocks gets a connection of its own.
    story.after_ms(20).client("a").says("M.WAIT k");
    story.conn(2).gets("M.WAIT k").answers(":1");
    story.client("a").gets(":1");
}

#[test]
fn a_subcommand_that_only_the_server_knows_is_learnt() {
    let mut story = Story::new();
    let sub = "*6\r\n$15\r\nconfig|brandnew\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n";
    let config = format!(
        "*1\r\n*10\r\n$6\r\nconfig\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*1\r\n{sub}"
    );
    story.server_says_to("COMMAND", &config);
    let mut story = warm(story);
    story.client("a").says("CONFIG BrandNew x");
    story.conn(1).gets("CONFIG BrandNew x").answers("+OK");
    story.client("a").gets("+OK").says("CONFIG BRANDNEW\0 x");
    story.client("a").gets("-ERR unknown subcommand 'BRANDNEW'. Try CONFIG HELP.");
    story.server_says_to("COMMAND INFO object|newer", &info("object|newer", "readonly"));
    story.client("a").says("OBJECT NEWER k");
    story.conn(1).gets("OBJECT NEWER k").answers(":7");
    story.client("a").gets(":7");
}

/// `rename-command SELECT secret`: whatever it does, it does it to a connection that nobody else gets.
#[test]
fn a_command_that_the_server_renamed_goes_over_a_connection_that_is_closed() {
    let mut story = warm(Story::new());
    story.server_says_to("COMMAND INFO secret", &info("select", "fast"));
    story.client("a").says(["SECRET 1", "GET k"]).gets_nothing();
    story.conn(2).gets("SECRET 1");
    story.conn(1).gets_nothing();
    story.conn(2).answers("+OK").is_closed();
    story.client("a").gets("+OK");
    story.conn(1).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn where_no_server_tells_its_commands_strangers_go_apart_and_hold_up_nobody_else() {
    let mut story = untold(Story::with_timeouts(|timeouts| timeouts.request_ms = 1_000));
    story.client("a").says(["NOSUCH x", "PING"]).gets_nothing();
    story.client("b").says(["GET k", "OBJECT NOPE k"]);
    story.conn(1).gets("GET k").gets_nothing().answers("\"v\"");
    story.client("b").gets("\"v\"");
    story.conn(2).gets("NOSUCH x").answers(NOSUCH).is_closed();
    story.client("a").gets([NOSUCH, "+PONG"]);
    // One that gets no reply: `CLIENT REPLY OFF` under another name.
    story.client("a").says("NOSUCH y").gets_nothing();
    story.after_ms(500).client("b").is_open();
    story.after_ms(600);
    let text = story.client("a").is_open().takes_text();
    assert!(text.starts_with("-ERR respool: upstream ") && text.contains("1000 ms"), "{text}");
    let text = story.client("b").is_open().takes_text();
    assert!(text.starts_with("-ERR respool: upstream "), "{text}");
    story.client("b").says("GET k");
    story.conn(1).gets("GET k").answers("\"v\"");
    story.client("b").gets("\"v\"");
}

#[test]
fn a_server_that_refuses_the_question_answers_for_itself() {
    let mut story = warm(Story::new());
    story.server_says_to("COMMAND INFO", "-NOPERM no");
    story.client("a").says("NOSUCH x");
    story.conn(2).gets("NOSUCH x").answers("-ERR its own words").is_closed();
    story.client("a").gets("-ERR its own words");
}

#[test]
fn a_question_that_is_never_answered_ends_with_the_connection() {
    let settings = Settings::default();
    let mut story = Story::with(settings).by_hand();
    story.client("a").says("GET k");
    story.connects();
    story.server().gets("HELLO 2").answers(HELLO_2);
    story.server().gets(["COMMAND", "GET k"]).answers(["*0", "nil"]);
    story.client("a").gets("nil").says(["NOSUCH x", "GET k"]).gets_nothing();
    story.conn(1).gets("COMMAND INFO nosuch").dies("connection reset");
    // It is no more than a command that nobody knows at a server that does not answer.
    story.after_ms(60_000);
    let text = story.client("a").is_open().takes_text();
    assert!(text.starts_with("-ERR respool: upstream "), "{text}");
}

// Found by a test from outside: names waited for `request_ms` for the node that was asked, though their own node answered.
#[test]
fn a_node_that_hangs_delays_unknown_names_of_other_nodes_by_a_second() {
    let mut story = Story::warm_cluster().by_hand();
    let connects = |story: &Story| ["n1", "n2", "n3"].map(|node| story.connects_to(node));
    let before: usize = connects(&story).iter().sum();
    story.client("a").says("NOSUCH b4").gets_nothing();
    story.after_ms(LOOKUP_WAIT_MS - 100).client("a").gets_nothing();
    assert_eq!(connects(&story).iter().sum::<usize>(), before);
    story.after_ms(200);
    assert_eq!(connects(&story).iter().sum::<usize>(), before + 1, "it goes apart");
}

/// It came before `COMMAND` was answered, and when its connection is ready the servers' commands are known.
#[test]
fn a_connection_that_was_made_for_a_stranger_is_given_up_when_no_server_has_it() {
    let mut story = Story::new().by_hand();
    story.client("b").says("GET k");
    story.connects();
    story.conn(1).gets("HELLO 2").answers(HELLO_2);
    story.conn(1).gets(["COMMAND", "GET k"]);
    story.client("a").says("NOSUCH x").gets_nothing();
    story.connects();
    story.conn(1).answers(["*0", "nil"]);
    story.client("b").gets("nil");
    story.conn(2).gets("HELLO 2").answers(HELLO_2);
    story.conn(1).gets("COMMAND INFO nosuch").answers("*1\r\n*-1\r\n");
    story.client("a").gets(NOSUCH).is_open();
    assert_eq!((story.connects_made(), story.open_conns()), (2, 1));
}

#[test]
fn a_flood_of_names_costs_a_small_question_in_a_while() {
    let mut story = warm(Story::new());
    let writes = story.conn(1).writes();
    let names: Vec<String> = (0..200).map(|number| format!("no.such{number}")).collect();
    for name in &names {
        story.client(name).says(&format!("{name} x"));
    }
    story.after_ms(100);
    // One for the first name, and then 64 at a time.
    assert_eq!(story.conn(1).writes() - writes, 5);
    for again in [false, true] {
        for name in &names {
            if again {
                story.client(name).says(&format!("{name} x"));
            }
            let error = format!("-ERR unknown command '{name}', with args beginning with: 'x' ");
            story.client(name).gets(error.as_str());
        }
    }
    assert_eq!(story.conn(1).writes() - writes, 5, "what was found is remembered");
    story.after_ms(1_000).client("a").says(&format!("{} x", names[0]));
    assert_eq!(story.conn(1).writes() - writes, 6, "and for a while only");
}

// Found by an attack: whoever had an answer had its next name asked for before those that waited.
#[test]
fn names_are_asked_for_in_the_order_in_which_their_clients_came() {
    let mut story = warm(Story::new());
    for client in 0..200 {
        let lines = (0..50).map(|number| request(&format!("no.{client}.{number} x")));
        story.client(&client.to_string()).sends(&lines.collect::<Vec<_>>().concat());
    }
    story.client("z").says("no.z x");
    let rounds = 200_u64.div_ceil(LOOKUP_NAMES_MAX as u64) + 2;
    for _ in 0..rounds * (LOOKUP_EVERY_MS / 5) {
        story.after_ms(5);
    }
    story.client("z").gets("-ERR unknown command 'no.z', with args beginning with: 'x' ");
}

#[test]
fn for_one_client_too_many_that_waits_the_command_is_unknown() {
    let mut story = warm(Story::with_limits(|limits| limits.clients_max = 10_000));
    let name = |number: usize| format!("no.such{number}");
    // The first is asked for at once, 64 stand in the next question.
    for number in 0..=64 + LOOKUP_WAITERS_MAX {
        story.client(&name(number)).says(&name(number));
    }
    story.client(&name(64 + LOOKUP_WAITERS_MAX)).gets_nothing();
    let last = name(65 + LOOKUP_WAITERS_MAX);
    let error = format!("-ERR unknown command '{last}', with args beginning with: ");
    story.client(&last).says(&last).gets(error.as_str());
    story.after_ms(1_000);
    for number in 0..=64 + LOOKUP_WAITERS_MAX {
        assert!(story.client(&name(number)).takes_text().starts_with("-ERR unknown command"));
    }
}

#[test]
fn an_unknown_command_in_a_transaction_aborts_it() {
    for name in ["NOSUCH x", "SELECT\0 1", "OBJECT ENCODING\0 k"] {
        let mut story = warm(Story::new());
        story.client("a").says(["MULTI", "SET k 1", name, "EXEC"]);
        story.conn(2).gets(["MULTI", "SET k 1"]).answers(["+OK", "+QUEUED"]);
        story.conn(2).gets("DISCARD").answers("+OK");
        let text = story.client("a").takes_text();
        assert!(text.starts_with("+OK\r\n+QUEUED\r\n-ERR unknown "), "{name}: {text}");
        assert!(text.ends_with(&format!("{ABORT}\r\n")), "{name}: {text}");
    }
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "NOSUCH x", "EXEC"]).gets(["+OK", NOSUCH, ABORT]);
}

#[test]
fn a_stranger_in_a_transaction_spoils_its_connection_and_no_other() {
    let mut story = untold(Story::new());
    story.client("a").says(["MULTI", "SECRET 1", "EXEC"]);
    story.conn(2).gets(["MULTI", "SECRET 1", "EXEC"]);
    story.conn(2).answers(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]).is_closed();
    story.client("a").gets(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    story.conn(1).gets_nothing();
    // Behind WATCH it goes over that connection, which nobody gets afterwards either.
    story.client("b").says("WATCH k");
    let number = story.connects_made();
    let number = if number > 3 { number - 1 } else { number };
    story.conn(number).gets("WATCH k").answers("+OK");
    story.client("b").gets("+OK").says("SECRET 1");
    story.conn(number).gets("SECRET 1").answers("+OK");
    story.client("b").gets("+OK").says("UNWATCH");
    story.conn(number).gets("UNWATCH").answers("+OK").is_closed();
    story.client("b").gets("+OK");
}

#[test]
fn whoever_wants_no_reply_gets_none() {
    let mut story = warm(Story::new());
    story.client("a").says(["CLIENT REPLY SKIP", "NOSUCH x", "PING"]).gets("+PONG");
    story.client("a").says(["CLIENT REPLY SKIP", "GET\0 x", "PING"]).gets("+PONG");
    story.client("a").says(["CLIENT REPLY OFF", "NOSUCH x", "OBJECT x\0"]).gets_nothing();
}

#[test]
fn before_a_password_nobody_is_asked() {
    let mut story = Story::with_password("secret");
    story.client("a").says("NOSUCH x").gets(NOSUCH);
    story.client("a").says("GET\0 k");
    let error = "-ERR unknown command 'GET', with args beginning with: 'k' ";
    story.client("a").gets(error).says("OBJECT NOPE k");
    story.client("a").gets("-ERR unknown subcommand 'NOPE'. Try OBJECT HELP.");
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn for_a_restricted_user_a_command_is_looked_up_before_it_is_refused() {
    let mut users = Users::default();
    users.set(b"w", &[b"on", b"nopass", b"~app:*", b"+@all"]).expect("rules");
    users.set(b"n", &[b"on", b"nopass", b"~*", b"-@all", b"+get"]).expect("rules");
    let settings = Settings { users: users.into(), ..Settings::default() };
    let mut story = warm(Story::with(settings));
    story.server_says_to("COMMAND INFO m.get", &info("m.get", "readonly"));
    story.client("a").says("AUTH w x").gets("+OK").says("M.GET app:1");
    story.conn(1).gets("M.GET app:1").answers("\"v\"");
    story.client("a").gets("\"v\"").says("M.GET other");
    story.client("a").gets("-NOPERM No permissions to access a key");
    story.client("n").says("AUTH n x").gets("+OK");
    story.after_ms(20).client("n").says("NOSUCH x").gets(NOSUCH).says("M.GET k");
    story.client("n").gets("-NOPERM User n has no permissions to run the 'm.get' command");
    story.client("n").says("GET\0 k");
    story.client("n").gets("-ERR unknown command 'GET', with args beginning with: 'k' ");
}

#[test]
fn of_a_large_request_only_the_name_must_be_here() {
    let mut story = warm(Story::with_limits(|limits: &mut Limits| {
        limits.large_request_bytes = 2_000;
    }));
    let writes = story.conn(1).writes();
    for (name, asks) in [("NOSUCH", 1), ("GET\0", 0), (&*"n".repeat(10_000), 0)] {
        let mut bytes = Vec::new();
        resp::encode::request(&mut bytes, &[name.as_bytes(), &[b'x'; 10_000], b"z"]);
        story.client("a").sends(&bytes[..1_000.max(name.len() + 100)]);
        let shown = name.trim_end_matches('\0');
        let (shown, x) = (&shown[..shown.len().min(128)], "x".repeat(128));
        let error = format!("-ERR unknown command '{shown}', with args beginning with: '{x}' ");
        let text = story.client("a").takes_text();
        let args = if name.len() > 128 { "" } else { &error };
        assert!(text.starts_with(args), "{text}");
        assert!(text.starts_with(&format!("-ERR unknown command '{shown}'")), "{text}");
        story.client("a").sends(&bytes[1_000.max(name.len() + 100)..]);
        story.client("a").gets_nothing().says("PING").gets("+PONG");
        story.after_ms(20);
        assert!(story.conn(1).writes() - writes <= 1 || asks == 0);
    }
    // The number of arguments alone tells nothing of the name.
    let mut many = b"*1001\r\n".to_vec();
    story.client("a").sends(&many).gets_nothing();
    many.clear();
    many.extend_from_slice(b"$3\r\nDEL\r\n");
    many.extend((0..1_000).flat_map(|_| *b"$1\r\nk\r\n"));
    story.client("a").sends(&many);
    assert_eq!(story.conn(1).waiting(), 1);
    story.conn(1).answers(":0");
    story.client("a").gets(":0");
}

#[test]
fn a_large_request_of_a_stranger_goes_whole_and_apart() {
    let mut story = untold(Story::with_limits(|limits: &mut Limits| {
        limits.large_request_bytes = 2_000;
    }));
    let line = format!("SECRET {}", "x".repeat(10_000));
    let bytes = request(&line);
    story.client("a").sends(&bytes[..5_000]).gets_nothing();
    assert_eq!(story.connects_made(), 1);
    story.client("a").sends(&bytes[5_000..]);
    assert_eq!(story.conn(2).waiting(), 1);
    story.conn(2).answers("+OK").is_closed();
    story.client("a").gets("+OK");
    // A container's second word must be here, too.
    story.client("a").sends(b"*3\r\n$6\r\nOBJECT\r\n$5000\r\nENCODING\0");
    story.client("a").gets_nothing().sends(&[b'x'; 4_991]).sends(b"\r\n$1\r\nk\r\n");
    story.client("a").gets("-ERR unknown subcommand 'ENCODING'. Try OBJECT HELP.");
    story.conn(1).gets_nothing();
}
