//! Users of the servers: what a client says in AUTH is asked of a server, and its requests go over connections that are logged in with it.

use std::sync::Arc;

use engine::acl::Users;
use engine::limits::{LOGIN_BYTES_MAX, LOGIN_FAILED_MS, LOGINS_TRIED_MAX, WORD_LATE_MS};
use engine::login::Said;
use engine::reject;
use engine::settings::Settings;
use engine::tenancy::TenantId;

use crate::words::Story;

const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

/// A proxy where nobody is anybody without a password, and `root` is its own.
fn settings() -> Settings {
    let mut users = Users::default();
    users.set(b"default", &[b"off"]).expect("rules");
    users.set(b"root", &[b"on", b">pw", b"~*", b"&*", b"+@all"]).expect("rules");
    Settings { users: Arc::new(users), pass_through: true, ..Settings::default() }
}

/// The engine of the login of bob.
fn bobs() -> Story {
    let said = Said::new(Some(b"bob"), b"pb");
    Story::with(settings().for_login(TenantId::DEFAULT, &said).expect("a user of the servers"))
}

/// Both, and the client `c` is bob.
fn logged_in() -> (Story, Story) {
    let (mut base, mut bob) = (Story::with(settings()), bobs());
    base.client("c").says("AUTH bob pb").gets_nothing();
    assert!(base.logs_over("c", &mut bob));
    bob.client("c").gets("+OK");
    (base, bob)
}

#[test]
fn a_server_is_asked_and_what_stands_behind_auth_is_done_by_the_login() {
    let mut base = Story::with(settings()).by_hand();
    base.client("c").says(["AUTH bob pb", "GET b:1"]).gets_nothing();
    base.connects();
    base.server().gets("AUTH bob pb").gets_nothing();
    assert_eq!(base.logs_in("c"), None, "nobody has said yes");
    base.server().answers("+OK");
    assert_eq!(base.logs_in("c"), Some(Said::new(Some(b"bob"), b"pb")));
    assert_ne!(base.logs_in("c"), Some(Said::new(Some(b"bob"), b"PB")));
    let mut bob = bobs().by_hand();
    assert!(base.logs_over("c", &mut bob));
    bob.connects();
    bob.server().gets("HELLO 2 AUTH bob pb").answers(crate::words::HELLO_2);
    bob.server().gets(["COMMAND", "GET b:1"]).answers(["*0", "\"v\""]);
    bob.client("c").gets(["+OK", "\"v\""]);
}

// Found by an attack: the client got the error, and its next requests went over the connections of the login.
#[test]
fn hello_that_fails_at_the_login_leaves_nobody_there() {
    let mut base = Story::with(settings());
    base.client("c").says("HELLO 3 AUTH bob pb").gets_nothing();
    let mut bob = bobs().by_hand();
    assert!(base.logs_over("c", &mut bob));
    bob.client("c").says("GET b:1");
    bob.connect_fails("refused");
    let text = bob.client("c").takes_text();
    assert!(text.starts_with("-ERR respool: upstream") && text.lines().count() == 1, "{text}");
    bob.client("c").is_closed();
}

#[test]
fn a_wrong_password_gets_the_servers_words_and_costs_one_question() {
    let mut base = Story::with(settings());
    base.server_says_to("AUTH bob", WRONGPASS);
    base.client("c")
        .says(["AUTH bob no", "GET k"])
        .gets([WRONGPASS, "-NOAUTH Authentication required."]);
    assert_eq!((base.logs_in("c"), base.connects_made()), (None, 1));
    // The same again is answered without the server, for a while; another one is not.
    base.server_says_to("AUTH bob", "+OK");
    base.client("c").says("AUTH bob no").gets(WRONGPASS);
    base.client("d").says("AUTH bob yes").gets_nothing();
    assert!(base.logs_in("d").is_some());
    base.after_ms(LOGIN_FAILED_MS);
    base.client("c").says("AUTH bob no").gets_nothing();
    assert!(base.logs_in("c").is_some(), "it is right by now");
    assert_eq!(base.connects_made(), 1, "all over one connection");
    let stats = base.report().stats;
    assert_eq!((stats.logins_accepted, stats.logins_refused), (2, 2));
}

/// A client says this; a connect for it succeeds.
fn tries(base: &mut Story, client: &str, line: &str) {
    let before = base.connects_made();
    base.client(client).says(line);
    if base.connects_made() > before {
        base.connects();
    }
}

// Found by an attack: Redis from 7.2 on does not answer a wrong password behind a reply that it has not sent yet, and `OK` for one client was taken for
// another's.
#[test]
fn no_password_is_tried_behind_another_one_on_a_connection() {
    let mut base = Story::with(settings()).by_hand();
    for name in ["a", "b"] {
        tries(&mut base, name, &format!("AUTH {name} x"));
    }
    base.conn(1).gets("AUTH a x").gets_nothing();
    base.conn(2).gets("AUTH b x").gets_nothing();
    base.conn(1).answers(WRONGPASS);
    base.client("a").gets(WRONGPASS);
    base.client("b").gets_nothing();
    // A connection without a question is used again.
    tries(&mut base, "c", "AUTH c x");
    base.conn(1).gets("AUTH c x").answers(WRONGPASS);
    base.client("c").gets(WRONGPASS);
    base.conn(2).answers(WRONGPASS);
    base.client("b").gets(WRONGPASS);
    assert_eq!(base.connects_made(), 2);
}

#[test]
fn only_so_many_are_tried_at_a_time_and_the_others_wait() {
    let mut base = Story::with(settings()).by_hand();
    // From one address there are fewer.
    let name = |number| format!("c{number}@10.0.1.{number}");
    let names: Vec<String> = (0..LOGINS_TRIED_MAX + 2).map(name).collect();
    for (number, name) in names.iter().enumerate() {
        tries(&mut base, name, &format!("AUTH u{number} x"));
    }
    for number in 0..LOGINS_TRIED_MAX {
        base.conn(number + 1).gets(&*format!("AUTH u{number} x")).gets_nothing();
    }
    assert_eq!(base.connects_made(), LOGINS_TRIED_MAX);
    // One that leaves frees its place with the answer, and who waits and leaves takes none.
    base.client(&names[0]).dies();
    base.client(&names[LOGINS_TRIED_MAX]).dies();
    base.conn(1).answers(WRONGPASS);
    base.conn(1).gets(&*format!("AUTH u{} x", LOGINS_TRIED_MAX + 1)).gets_nothing();
    for number in 1..=LOGINS_TRIED_MAX {
        base.conn(number).answers(WRONGPASS);
    }
    base.client(&names[1]).gets(WRONGPASS);
    base.client(&names[LOGINS_TRIED_MAX + 1]).gets(WRONGPASS);
}

#[test]
fn one_machine_that_tries_passwords_leaves_others_their_turn() {
    let mut base = Story::with(settings()).by_hand();
    for number in 0..LOGINS_TRIED_MAX + 100 {
        tries(&mut base, &format!("a{number}"), &format!("AUTH u{number} x"));
    }
    let tried = LOGINS_TRIED_MAX * 7 / 8;
    for number in 0..tried {
        base.conn(number + 1).gets(&*format!("AUTH u{number} x"));
    }
    assert_eq!(base.connects_made(), tried);
    tries(&mut base, "b@10.0.0.2", "AUTH bob x");
    base.conn(tried + 1).gets("AUTH bob x");
    // With all places taken the next is for the next address, however many of the first wait.
    tries(&mut base, "d@10.0.0.9", "AUTH dora x");
    assert_eq!(base.connects_made(), LOGINS_TRIED_MAX);
    base.conn(1).answers(WRONGPASS);
    base.conn(1).gets("AUTH dora x").gets_nothing();
}

// Found by an attack: whoever was woken for a place and was answered without one took the wake-up along. With four of these at the head of the line nobody could
// log in any more.
#[test]
fn who_waits_for_a_place_and_needs_none_keeps_nobody_from_it() {
    let mut base = Story::with(settings()).by_hand();
    let tried = LOGINS_TRIED_MAX * 7 / 8;
    for number in 0..tried + 20 {
        tries(&mut base, &format!("a{number}"), "AUTH nobody bad");
    }
    tries(&mut base, "b", "AUTH bob pb");
    for number in 0..tried {
        base.conn(number + 1).gets("AUTH nobody bad").answers(WRONGPASS);
    }
    for number in 0..tried + 20 {
        base.client(&format!("a{number}")).gets(WRONGPASS);
    }
    base.conn(1).gets("AUTH bob pb").answers("+OK");
    assert!(base.logs_in("b").is_some());
    assert_eq!(base.connects_made(), tried);
    tries(&mut base, "d", "AUTH dora pd");
    base.conn(1).gets("AUTH dora pd").answers("+OK");
    assert!(base.logs_in("d").is_some());
}

#[test]
fn all_places_that_are_free_are_given_to_those_who_wait() {
    let mut base = Story::with(settings()).by_hand();
    let tried = LOGINS_TRIED_MAX * 7 / 8;
    for number in 0..4 * tried {
        tries(&mut base, &format!("a{number}"), &format!("AUTH u{number} x"));
    }
    // The place that the group before them must leave is for those behind.
    tries(&mut base, "b@10.0.0.2", "AUTH bob x");
    tries(&mut base, "c@10.0.0.3", "AUTH carl x");
    (tried..2 * tried).for_each(|number| base.client(&format!("a{number}")).dies());
    base.conn(1).gets("AUTH u0 x").answers(WRONGPASS);
    base.conn(1).gets("AUTH carl x").gets_nothing();
    let asked = |base: &mut Story| -> usize {
        (1..=LOGINS_TRIED_MAX).map(|conn| base.conn(conn).takes_requests()).sum()
    };
    assert_eq!(asked(&mut base), LOGINS_TRIED_MAX - 1);
    for conn in 1..=LOGINS_TRIED_MAX {
        base.conn(conn).answers(WRONGPASS);
    }
    // Those that are left wait for places, and not for each other.
    assert_eq!(asked(&mut base), tried);
}

#[test]
fn what_is_too_long_for_a_password_is_wrong() {
    let mut base = Story::with(settings());
    base.client("c").says("AUTH root pw").gets("+OK");
    let long = "x".repeat(LOGIN_BYTES_MAX);
    base.client("c").says(&format!("AUTH bob {long}")).gets(WRONGPASS);
    assert_eq!(base.connects_made(), 0);
}

#[test]
fn who_is_of_the_proxy_is_judged_by_it_alone() {
    let mut base = Story::with(settings());
    base.client("c").says("AUTH root no").gets(WRONGPASS);
    base.client("c").says("AUTH root pw").gets("+OK").says("ACL WHOAMI").gets("\"root\"");
    assert_eq!(base.connects_made(), 0);
    base.reconfigures(|settings| settings.pass_through = false);
    base.client("c").says("AUTH bob pb").gets(WRONGPASS);
    assert_eq!(base.connects_made(), 0);
    // A password alone is that of the servers' default user, as there is none here.
    base.reconfigures(|settings| settings.pass_through = true);
    base.client("c").says("AUTH hush").gets_nothing();
    assert_eq!(base.logs_in("c"), Some(Said::new(None, b"hush")));
}

#[test]
fn a_login_that_has_no_place_leaves_the_client_as_it_was() {
    let mut base = Story::with(settings());
    base.client("c").says("AUTH root pw").gets("+OK");
    base.client("c").says("AUTH bob pb").gets_nothing();
    base.keeps("c", reject::LOGINS_FULL);
    base.client("c").gets(&*format!("-{}", reject::LOGINS_FULL));
    base.client("c").says("ACL WHOAMI").gets("\"root\"");
}

#[test]
fn what_is_begun_does_not_go_over_and_the_server_is_not_even_asked() {
    let mut base = Story::with(settings());
    base.client("c").says("AUTH root pw").gets("+OK").says("WATCH k");
    base.server().gets("WATCH k").answers("+OK");
    base.client("c").gets("+OK").says("AUTH bob pb");
    let text = base.client("c").takes_text();
    assert!(text.contains("say UNWATCH or DISCARD first"), "{text}");
    assert_eq!(base.connects_made(), 1);
}

#[test]
fn a_lost_question_is_asked_once_more_and_then_the_cause_is_told() {
    let mut base = Story::with(settings()).by_hand();
    base.client("c").says("AUTH bob pb");
    base.connects();
    base.server().gets("AUTH bob pb");
    base.server().dies("closed the connection");
    base.connects();
    base.client("c").gets_nothing();
    base.server().gets("AUTH bob pb");
    base.server().dies("closed the connection");
    base.client("c").gets("-ERR respool: upstream 127.0.0.1:6379: closed the connection");
    base.client("c").says("GET k").gets("-NOAUTH Authentication required.");
}

#[test]
fn a_server_that_cannot_be_reached_lets_nobody_in() {
    let mut base = Story::with(settings()).by_hand();
    base.client("c").says("AUTH bob pb");
    base.connect_fails("connect: Connection refused");
    base.client("c").gets("-ERR respool: upstream 127.0.0.1:6379: connect: Connection refused");
    base.client("c").says("GET k").gets("-NOAUTH Authentication required.");
}

#[test]
fn each_auth_is_asked_anew_also_by_who_is_that_user() {
    let (mut base, mut bob) = logged_in();
    bob.client("c").says("AUTH bob pb").gets("+OK");
    bob.server_says_to("AUTH bob pb", WRONGPASS);
    bob.client("c").says("AUTH bob pb").gets(WRONGPASS).says("CLIENT ID").gets_nothing();
    base.server_says_to("AUTH bob pb", WRONGPASS);
    base.client("late").says("AUTH bob pb").gets(WRONGPASS);
}

#[test]
fn reset_and_a_user_of_the_proxy_lead_back() {
    let (mut base, mut bob) = logged_in();
    bob.client("c").says(["RESET", "GET k"]).gets_nothing();
    assert!(bob.hands_over("c", &mut base));
    base.client("c").gets(["+RESET", "-NOAUTH Authentication required."]);
    base.server_says_to("AUTH bob no", WRONGPASS);
    base.client("c").says("AUTH bob no").gets(WRONGPASS).is_open();
    base.client("c").says("AUTH bob pb").gets_nothing();
    assert!(base.logs_over("c", &mut bob));
    bob.client("c").gets("+OK").says("AUTH root no").gets(WRONGPASS);
    bob.client("c").says("AUTH root pw").gets_nothing();
    assert!(bob.hands_over("c", &mut base));
    base.client("c").gets("+OK").says("ACL WHOAMI").gets("\"root\"");
}

// Found by a test from outside: AUTH as a user of the proxy led back to the first database without a word.
#[test]
fn auth_as_a_user_of_the_proxy_keeps_the_database() {
    let (mut base, mut bob) = logged_in();
    bob.client("c").says("SELECT 3").gets("+OK");
    bob.client("c").says(["AUTH root pw", "CLIENT INFO"]).gets_nothing();
    assert!(bob.hands_over("c", &mut base));
    let info = base.client("c").takes_text();
    assert!(info.contains(" db=3 "), "{info}");
}

#[test]
fn what_the_proxy_answers_the_server_must_allow() {
    let (_base, mut bob) = logged_in();
    bob.client("c").says("CLIENT LIST").gets_nothing();
    let no = "-NOPERM User bob has no permissions to run the 'client|list' command";
    bob.server().gets("CLIENT LIST no such").answers(no);
    bob.client("c").gets(no).says(["CLIENT LIST", "CLIENT ID"]).gets_nothing();
    bob.server().gets("CLIENT LIST no such").answers("-ERR syntax error");
    let text = bob.client("c").takes_text();
    assert!(text.contains(" user=bob "), "{text}");
    bob.server().gets("CLIENT ID").answers(":991");
    bob.client("c").gets(":1").says("ACL LIST");
    bob.server().gets("ACL LIST").answers("-NOPERM no");
    bob.client("c")
        .gets("-NOPERM no")
        .says("MONITOR")
        .gets(&*format!("-{}", reject::NOT_OF_LOGINS));
    // A word serves the request that it was asked for.
    bob.client("c").says("PING");
    bob.server().gets("PING").answers("+PONG");
    bob.client("c").gets("+PONG").says("PING").gets_nothing();
    bob.server().gets("PING");
}

#[test]
fn what_the_proxy_answers_in_a_transaction_the_server_must_allow_when_it_is_queued() {
    let (_base, mut bob) = logged_in();
    for (verdict, queued, ends) in [
        (
            "-NOPERM no",
            "-NOPERM no",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        (":5", "+QUEUED", "*1\r\n$-1\r\n"),
    ] {
        bob.client("c").says(["MULTI", "CLIENT GETNAME"]);
        let conn = 1;
        bob.conn(conn).gets("MULTI").answers("+OK");
        bob.server().gets("CLIENT GETNAME").answers(verdict);
        if queued == "+QUEUED" {
            bob.conn(conn).gets("ECHO ").answers("+QUEUED");
        }
        bob.client("c").gets(["+OK", queued]).says("EXEC");
        match queued {
            "+QUEUED" => drop(bob.conn(conn).gets("EXEC").answers("*1\r\n$0\r\n\r\n")),
            _ => drop(bob.conn(conn).gets("DISCARD").answers("+OK")),
        }
        bob.client("c").gets(ends);
    }
}

// Found by an attack: the next client of this user got the connection, and `QUEUED` for a BLPOP.
#[test]
fn a_connection_whose_discard_was_refused_serves_nobody_else() {
    let (_base, mut bob) = logged_in();
    bob.client("c").says("MULTI");
    let conn = bob.connects_made();
    bob.conn(conn).gets("MULTI").answers("+OK");
    bob.client("c").says(["SYNC", "EXEC"]);
    bob.conn(conn)
        .gets("DISCARD")
        .answers("-NOPERM User bob has no permissions to run the 'discard' command");
    let text = bob.client("c").takes_text();
    assert!(text.contains("-EXECABORT"), "{text}");
    bob.client("c").says("PING");
    bob.server().gets("PING").answers("+PONG");
    bob.client("c").gets("+PONG");
    bob.conn(conn).is_closed();
    bob.client("c").says(["MULTI", "GET k"]);
    let next = bob.connects_made();
    assert!(next > conn);
    bob.conn(next).gets(["MULTI", "GET k"]);
}

#[test]
fn a_login_that_is_refused_after_it_was_taken_ends_with_its_clients() {
    let (_base, mut bob) = logged_in();
    bob.client("c").says("GET k");
    bob.server().gets("GET k").answers("nil");
    bob.client("c").gets("nil");
    bob.server_says_to("HELLO", WRONGPASS);
    bob.server().dies("closed the connection");
    bob.client("c").is_closed();
    assert!(bob.engine.is_draining());
    assert_eq!(bob.report().stats.logins_revoked, 1);
}

// Found by a test from outside: AUTH waited for 20 s for the node of the first slots, while the others answered.
#[test]
fn a_node_that_does_not_answer_a_password_in_a_second_has_a_successor() {
    let mut story = Story::warm_cluster_with(|settings| settings.pass_through = true).by_hand();
    let connects = |story: &Story| ["n1", "n2", "n3"].map(|node| story.connects_to(node));
    let before = connects(&story);
    story.client("c").says("AUTH bob pb").gets_nothing();
    story.connects();
    let first = connects(&story);
    let asked = |before: [usize; 3], after: [usize; 3]| {
        let mut nodes = ["n1", "n2", "n3"].into_iter().zip(before.into_iter().zip(after));
        nodes.find(|(_, (before, after))| after > before).map(|(node, _)| node)
    };
    let hung = asked(before, first).expect("a node is asked");
    story.node(hung).gets("AUTH bob pb");
    story.after_ms(WORD_LATE_MS + 10);
    let other = asked(first, connects(&story)).expect("another node is asked");
    assert_ne!(other, hung);
    story.connects();
    story.node(other).gets("AUTH bob pb").answers("+OK");
    assert_eq!(story.logs_in("c"), Some(Said::new(Some(b"bob"), b"pb")));
    story.node(hung).answers(WRONGPASS);
    assert_eq!(story.engine.stats().logins_refused, 0);
}

/// The login `bob` has a client, and node n2 of the cluster refuses this login.
fn refused_by_one_node() -> Story {
    let base = Story::warm_cluster_with(|settings| {
        settings.pass_through = true;
        settings.timeouts.failover_hold_ms = 6_000;
    });
    let said = Said::new(Some(b"bob"), b"pb");
    let login = base.engine.settings().for_login(TenantId::DEFAULT, &said);
    let mut bob = Story::with(login.expect("a user of the servers"));
    // It asks nobody who owns what: its tenant's engine does, and tells.
    bob.engine.brief(bob.now, &base.engine);
    let mut base = base;
    base.client("c").says("AUTH bob pb").gets_nothing();
    assert!(base.logs_over("c", &mut bob));
    bob.client("c").gets("+OK").says("GET a4");
    bob.node("n1").gets("GET a4").answers("\"a\"");
    bob.client("c").gets("\"a\"");
    bob.node_says_to("n2", "HELLO", WRONGPASS);
    bob.client("c").says("GET b4");
    let text = bob.client("c").takes_text();
    assert!(
        text.starts_with("-ERR respool: upstream n2:7000: refused the greeting: WRONGPASS"),
        "{text}"
    );
    bob
}

// An attack: requests waited for a new primary, although the node was up.
#[test]
fn of_several_nodes_one_that_never_took_a_login_is_an_error_and_ends_nobody() {
    let mut bob = refused_by_one_node();
    bob.client("c").says("GET a4");
    bob.node("n1").gets("GET a4").answers("\"a\"");
    bob.client("c").gets("\"a\"");
    // One that took it takes it no more: so does a server that removes a user.
    bob.node_says_to("n1", "HELLO", WRONGPASS);
    bob.node("n1").dies("closed the connection");
    bob.client("c").is_closed();
}

#[test]
fn a_node_that_refused_a_login_and_is_down_may_have_a_successor() {
    let mut bob = refused_by_one_node();
    bob.is_down("n2").after_ms(2_000);
    bob.client("c").says("GET b4").gets_nothing();
    bob.after_ms(6_000);
    let text = bob.client("c").takes_text();
    assert!(text.contains("Connection refused"), "{text}");
}

#[test]
fn a_channel_that_is_taken_away_closes_who_listens() {
    let (_base, mut bob) = logged_in();
    bob.client("c").says("SUBSCRIBE b1");
    bob.server().gets("subscribe b1").answers("*3\r\n$9\r\nsubscribe\r\n$2\r\nb1\r\n:1\r\n");
    let text = bob.client("c").takes_text();
    assert!(text.starts_with("*3\r\n$9\r\nsubscribe"), "{text}");
    bob.server_says_to(
        "subscribe",
        "-NOPERM this user has no permissions to access one of the channels used as arguments",
    );
    bob.server().dies("closed the connection");
    bob.after_ms(2_000);
    bob.client("c").is_closed();
    assert!(!bob.engine.is_draining(), "the user is one still");
}
