//! Client-side caching: whoever may have a key in its cache is told when it changes, and never before it has the value.

use crate::words::Story;
use crate::words::cluster::moved;
use engine::Settings;
use engine::fleet::{Answer, Question};
use engine::limits::TRACKED_REQUEST_KEYS_MAX;

/// `>2 invalidate [k …]`.
pub(crate) fn changed(keys: &str) -> String {
    let keys: Vec<&str> = keys.split(' ').collect();
    let mut out = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len());
    keys.iter().for_each(|key| out += &format!("${}\r\n{key}\r\n", key.len()));
    out
}

/// All is to be dropped.
pub(crate) const ALL: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// A client in RESP3 that caches; `words` behind CLIENT TRACKING ON.
pub(crate) fn caches(story: &mut Story, client: &str, words: &str) {
    story.client(client).says("HELLO 3").takes();
    let line = format!("CLIENT TRACKING ON {words}");
    story.client(client).says(line.trim_end()).gets("+OK");
}

/// What `CLIENT ID` tells the client, for others to name it in REDIRECT.
pub(crate) fn number_of(story: &mut Story, client: &str) -> String {
    story.client(client).says("CLIENT ID");
    let id = story.client(client).takes_text();
    id.trim_start_matches(':').trim_end().to_owned()
}

/// The client reads a key over the tracked connection, which is the second one.
fn reads(story: &mut Story, client: &str, key: &str) {
    story.client(client).says(&*format!("GET {key}"));
    story.conn(2).gets(&*format!("GET {key}")).answers("\"v\"");
    story.client(client).gets("\"v\"");
}

/// The first client's first read opens the connection.
pub(crate) fn opens(story: &mut Story, client: &str, key: &str) {
    story.client(client).says(&*format!("GET {key}"));
    story.conn(2).gets("CLIENT TRACKING ON").answers("+OK");
    story.conn(2).gets(&*format!("GET {key}")).answers("\"v\"");
    story.client(client).gets("\"v\"");
}

#[test]
fn whoever_read_a_key_is_told_once_and_nobody_else() {
    let mut story = Story::new();
    for client in ["a", "b", "c"] {
        caches(&mut story, client, "");
    }
    opens(&mut story, "a", "k");
    reads(&mut story, "b", "k");
    reads(&mut story, "c", "other");
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
    story.client("b").gets(&*changed("k"));
    story.client("c").gets_nothing();
    // A server forgets what it told; whoever wants to know again reads again.
    reads(&mut story, "a", "k");
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
    story.client("b").gets_nothing();
    // Clients that do not cache share no connection with those that do.
    story.client("plain").says("GET k");
    story.conn(2).gets_nothing();
}

#[test]
fn a_change_while_the_reply_is_on_its_way_is_told_again_behind_it() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    caches(&mut story, "b", "");
    opens(&mut story, "a", "k");
    story.client("b").says("GET k");
    story.conn(2).gets("GET k");
    story.conn(2).answers([&*changed("k"), "\"new\""]);
    story.client("a").gets(&*changed("k"));
    story.client("b").gets([&*changed("k"), "\"new\"", &*changed("k")]);
    // The server tracks that read, so the next change is told too.
    story.conn(2).answers(&*changed("k"));
    story.client("b").gets(&*changed("k"));
}

#[test]
fn a_push_that_comes_in_pieces_is_one_push() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    let push = changed("k");
    for byte in push.as_bytes() {
        story.client("a").gets_nothing();
        story.conn(2).sends(&[*byte]);
    }
    story.client("a").gets(&*push);
    reads(&mut story, "a", "k");
}

#[test]
fn a_lost_connection_and_a_flush_drop_everything() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.conn(2).answers(ALL);
    story.client("a").gets(ALL);
    reads(&mut story, "a", "k");
    story.after_ms(2_000);
    story.conn(2).dies("Connection reset by peer");
    story.turn();
    story.client("a").gets(ALL);
    story.client("a").says("GET k");
    story.conn(3).gets("CLIENT TRACKING ON").answers("+OK").gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn with_optin_only_what_was_asked_for_is_told() {
    let mut story = Story::new();
    caches(&mut story, "a", "OPTIN");
    opens(&mut story, "a", "k");
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets_nothing();
    story.client("a").says("CLIENT CACHING YES").gets("+OK");
    reads(&mut story, "a", "k");
    reads(&mut story, "a", "other");
    story.conn(2).answers([&*changed("other"), &*changed("k")]);
    story.client("a").gets(&*changed("k")).gets_nothing();
}

#[test]
fn with_optout_all_but_what_was_excepted_is_told() {
    let mut story = Story::new();
    caches(&mut story, "a", "OPTOUT");
    opens(&mut story, "a", "k");
    story.client("a").says("CLIENT CACHING NO").gets("+OK");
    reads(&mut story, "a", "other");
    story.conn(2).answers([&*changed("other"), &*changed("k")]);
    story.client("a").gets(&*changed("k")).gets_nothing();
}

// Simulator, seed 1001021: a reply waited for that of another server, and what had changed since was told before it.
#[test]
fn with_bcast_a_reply_that_waits_for_another_is_followed_by_what_changed_since() {
    let mut story = Story::warm_cluster();
    story.client("c").says("HELLO 3").takes();
    story.client("c").says("CLIENT TRACKING ON BCAST").gets_nothing();
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
    }
    story.client("c").gets("+OK").says(["GET a4", "GET b4"]);
    story.node("n2").gets("GET b4").answers("\"old\"").answers(&*changed("b4"));
    story.client("c").gets(&*changed("b4"));
    story.node("n1").gets("GET a4").answers("nil");
    story.client("c").gets(["nil", "\"old\"", &*changed("b4")]).gets_nothing();
}

#[test]
fn changes_are_heard_where_a_servers_name_leads_now() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST").gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
    story.client("a").gets("+OK");
    story.after_ms(10).conn(2).has_moved().is_closed();
    story.client("a").gets(ALL);
    story.conn(3).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
    story.conn(3).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
}

#[test]
fn many_prefixes_of_many_clients_become_the_one_that_they_have_in_common() {
    let mut story = Story::new();
    let mut asked = 0;
    for client in ["a", "b", "c"] {
        let prefixes: Vec<String> =
            (0..200).map(|n| format!(" PREFIX app:{client}:{n:03}")).collect();
        story.client(client).says("HELLO 3").takes();
        story.client(client).says(&*format!("CLIENT TRACKING ON BCAST{}", prefixes.concat()));
        while let Some(line) = story.conn(2).takes_one() {
            asked += line.matches(" PREFIX ").count();
            // Of two clients the server has 400, and of all the one.
            let is_common = line.ends_with("BCAST PREFIX app:");
            assert!(client == "a" || is_common || line.ends_with("TRACKING OFF"), "{line}");
            story.conn(2).answers("+OK");
        }
        story.client(client).takes();
    }
    assert_eq!(asked, 201);
    // What changed in the moment of that exchange is not known.
    story.client("a").gets(ALL);
    story.conn(2).answers(&*changed("app:a:007:x app:b:008 app:d:009 app:b:00"));
    story.client("a").gets(&*changed("app:a:007:x"));
    story.client("b").gets(&*changed("app:b:008"));
    story.client("c").gets_nothing();
}

#[test]
fn a_client_with_prefixes_hears_of_keys_that_it_never_read() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST PREFIX user: PREFIX item:").gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON BCAST PREFIX item: PREFIX user:").answers("+OK");
    story.client("a").gets("+OK");
    story.conn(2).answers(&*changed("user:1 item:2"));
    // As at a server: a message for each prefix.
    story.client("a").gets([&*changed("item:2"), &*changed("user:1")]);
    // Others ask for more, and each hears of its own.
    story.client("b").says("HELLO 3").takes();
    story.client("b").says("CLIENT TRACKING ON BCAST PREFIX order:").gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON BCAST PREFIX order:").answers("+OK");
    story.client("b").gets("+OK");
    story.conn(2).answers(&*changed("user:1 order:2"));
    story.client("a").gets(&*changed("user:1"));
    story.client("b").gets(&*changed("order:2"));
    // A prefix of theirs takes their place at the server, and what changed in that moment is not known.
    story.client("c").says("HELLO 3").takes();
    story.client("c").says("CLIENT TRACKING ON BCAST PREFIX u").gets(ALL);
    story.conn(2).gets([
        "CLIENT TRACKING OFF",
        "CLIENT TRACKING ON BCAST PREFIX item: PREFIX order: PREFIX u",
    ]);
    story.conn(2).answers(["+OK", "+OK"]);
    story.client("c").gets("+OK");
    for client in ["a", "b"] {
        story.client(client).gets(ALL);
    }
    story.conn(2).answers(&*changed("user:9 ux"));
    story.client("a").gets(&*changed("user:9"));
    story.client("c").gets(&*changed("user:9 ux"));
    // Its reads go over the same connection, in order with what it is told.
    story.client("a").says("GET user:1");
    story.conn(2).gets("GET user:1");
    for client in ["a", "b", "c"] {
        story.client(client).dies();
    }
    story.conn(2).answers("nil");
    // respool looks for clients that are left once a second.
    story.after_ms(1_000);
    story.conn(2).is_closed();
}

#[test]
fn a_resp2_client_is_told_through_another_one() {
    let mut story = Story::new();
    let id = number_of(&mut story, "ear");
    story.client("ear").says("SUBSCRIBE __redis__:invalidate");
    let confirmed = "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n";
    story.conn(1).gets("subscribe __redis__:invalidate").answers(confirmed);
    story.client("ear").gets(confirmed);
    story.client("a").says(&*format!("CLIENT TRACKING ON REDIRECT {id}")).gets("+OK");
    story.client("a").says("CLIENT GETREDIR").gets(&*format!(":{id}"));
    story.client("a").says("GET k");
    story
        .conn(2)
        .gets("CLIENT TRACKING ON BCAST PREFIX ''".replace("''", "").as_str())
        .answers("+OK");
    story.conn(3).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.conn(2).answers(&*changed("other k"));
    story
        .client("ear")
        .gets("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n");
    story.client("a").gets_nothing();
}

#[test]
fn what_is_read_in_a_transaction_is_told_right_behind_it() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    story.client("a").says(["MULTI", "GET k"]);
    story.conn(2).gets("MULTI").answers("+OK");
    story.conn(2).gets("GET k").answers("+QUEUED");
    story.client("a").gets(["+OK", "+QUEUED"]);
    story.client("a").says("EXEC");
    story.conn(2).gets("EXEC").answers("*1\r\n$1\r\nv\r\n");
    story.client("a").gets(["*1\r\n$1\r\nv\r\n", &*changed("k")]);
}

#[test]
fn it_ends_with_off_and_reset() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.client("a").says("CLIENT TRACKING OFF").gets("+OK");
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets_nothing();
    story.client("a").says("GET k");
    story.conn(1).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.client("a").says(["CLIENT TRACKING ON", "RESET", "CLIENT GETREDIR"]);
    story.client("a").gets(["+OK", "+RESET", ":-1"]);
}

#[test]
fn wrong_options_are_told_in_the_servers_words() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    for (words, begin) in [
        ("ON PREFIX a", "-ERR PREFIX option requires BCAST mode"),
        ("ON BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        ("ON OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode"),
        (
            "ON BCAST PREFIX a PREFIX ab",
            "-ERR Prefix 'a' overlaps with another provided prefix 'ab'.",
        ),
        ("ON REDIRECT 99999", "-ERR The client ID you want redirect to does not exist"),
        ("ON REDIRECT x", "-ERR value is not an integer"),
        ("ON NOSUCH", "-ERR syntax error"),
        ("MAYBE", "-ERR syntax error"),
    ] {
        story.client("a").says(&*format!("CLIENT TRACKING {words}"));
        let got = story.client("a").takes_text();
        assert!(got.starts_with(begin), "{words}: {got}");
    }
    story.client("a").says("CLIENT CACHING YES");
    assert!(story.client("a").takes_text().starts_with("-ERR CLIENT CACHING can be called only"));
    story.client("a").says([
        "CLIENT TRACKING ON OPTIN",
        "CLIENT CACHING NO",
        "CLIENT TRACKING ON BCAST",
    ]);
    let got = story.client("a").takes_text();
    assert!(got.contains("CACHING NO is only valid") && got.contains("switch BCAST mode"), "{got}");
}

#[test]
fn a_server_that_cannot_track_is_an_error_and_no_stale_cache() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    story.client("a").says("GET k");
    story.conn(2).gets("CLIENT TRACKING ON").answers("-NOPERM no");
    story.turn();
    let got = story.client("a").takes_text();
    assert!(got.contains("refused CLIENT TRACKING"), "{got}");
}

#[test]
fn a_key_whose_slot_goes_to_another_node_is_told() {
    let mut story = Story::warm_cluster();
    caches(&mut story, "b", "");
    story.client("b").says("GET b4");
    story.node("n2").gets("CLIENT TRACKING ON").answers("+OK").gets("GET b4").answers("nil");
    story.client("b").takes();
    // The new owner knows nothing of that read, and the old one has nothing to tell: there was no such key.
    story.cluster_is("0-10922 n1, 10923-16383 n3");
    story.client("a").says("GET b4");
    story.node_conn("n2", 1).gets("GET b4").answers(&*moved("b4", "n1"));
    story.after_ms(50);
    story.client("b").gets(&*changed("b4"));
}

#[test]
fn what_was_read_before_the_change_to_bcast_is_not_told() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    caches(&mut story, "b", "");
    opens(&mut story, "a", "k");
    reads(&mut story, "b", "k");
    story.client("a").says(["CLIENT TRACKING OFF", "CLIENT TRACKING ON BCAST PREFIX p"]);
    story.conn(3).gets("CLIENT TRACKING ON BCAST PREFIX p").answers("+OK");
    story.client("a").gets(["+OK", "+OK"]);
    story.conn(2).answers(&*changed("k"));
    story.client("b").gets(&*changed("k"));
    story.client("a").gets_nothing();
}

#[test]
fn with_redirect_each_prefix_has_a_message_of_its_own() {
    let mut story = Story::new();
    let confirmed = "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n";
    story.client("to").says("SUBSCRIBE __redis__:invalidate");
    story.conn(1).gets("subscribe __redis__:invalidate").answers(confirmed);
    story.client("to").gets(confirmed);
    let line = "CLIENT TRACKING ON BCAST REDIRECT 1 PREFIX a: PREFIX b:";
    story.client("a").says(line).gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON BCAST PREFIX a: PREFIX b:").answers("+OK");
    story.client("a").gets("+OK");
    story.conn(2).answers(&*changed("a:1 b:1 a:2 c:1"));
    let message = |keys: &str| {
        let told = changed(keys);
        let (_, list) = told.split_once("invalidate\r\n").unwrap();
        format!("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n{list}")
    };
    story.client("to").gets([&*message("a:1 a:2"), &*message("b:1")]);
}

#[test]
fn what_changes_while_exec_is_under_way_is_told_behind_its_reply() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.client("a").says(["MULTI", "INCR k", "EXEC"]);
    story.conn(3).gets(["MULTI", "INCR k", "EXEC"]).answers(["+OK", "+QUEUED"]);
    story.client("a").gets(["+OK", "+QUEUED"]);
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets_nothing();
    story.conn(3).answers("*1\r\n:2\r\n");
    story.client("a").gets(["*1\r\n:2\r\n", &*changed("k")]);
}

#[test]
fn a_ping_comes_back_behind_what_changed_before_it() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.client("a").says("PING").gets_nothing();
    story.conn(2).gets("PING").answers([&*changed("k"), "+PONG"]);
    story.client("a").gets([&*changed("k"), "+PONG"]);
}

// Redis' own suite: with HELLO a client was told of all that it had read, and not when it changed.
#[test]
fn what_was_read_in_another_protocol_is_told_when_it_changes() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.client("a").says("HELLO 2").takes();
    story.client("a").says("HELLO 3").takes();
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
    let id = number_of(&mut story, "ear");
    story.client("ear").says("HELLO 3").takes();
    story.client("a").says(&*format!("CLIENT TRACKING ON REDIRECT {id}")).gets("+OK");
    reads(&mut story, "a", "k");
    story.client("a").says("HELLO 2").takes();
    story.client("ear").gets_nothing();
    // In RESP2 it hears of every key over a connection of its own; what it read before is told by the one that it was read over.
    story.client("a").says("GET late");
    story.conn(4).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
    story.conn(3).gets("GET late").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.conn(2).answers(&*changed("k"));
    story.client("ear").gets(&*changed("k"));
    story.conn(4).answers(&*changed("k"));
    story.client("ear").gets_nothing();
    // And the other way round.
    story.client("a").says("HELLO 3").takes();
    story.conn(4).answers(&*changed("late"));
    story.client("ear").gets(&*changed("late"));
}

// After SELECT it heard of nothing that it had read before.
#[test]
fn what_was_read_in_another_database_is_told_when_it_changes() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.client("a").says("SELECT 1").gets("+OK");
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
}

#[test]
fn a_redirect_to_nobody_is_shown() {
    let mut story = Story::new();
    let id = number_of(&mut story, "ear");
    caches(&mut story, "a", &format!("REDIRECT {id}"));
    opens(&mut story, "a", "k");
    story.client("ear").dies();
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n"));
    story.client("a").says("CLIENT TRACKINGINFO");
    let told = story.client("a").takes_text();
    assert!(told.contains("~2\r\n$2\r\non\r\n$15\r\nbroken_redirect\r\n"), "{told}");
}

#[test]
fn after_a_flush_nothing_is_told_of_keys_from_before() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.conn(2).answers(ALL);
    story.client("a").gets(ALL);
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets_nothing();
}

// Redis' own suite: a key that was changed right behind CLIENT TRACKING was not told of.
#[test]
fn what_is_changed_right_behind_client_tracking_does_not_overtake_it() {
    let mut story = Story::new();
    let confirmed = "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n";
    story.client("to").says("SUBSCRIBE __redis__:invalidate");
    story.conn(1).gets("subscribe __redis__:invalidate").answers(confirmed);
    story.client("to").gets(confirmed);
    story.client("a").says(["CLIENT TRACKING ON BCAST REDIRECT 1 PREFIX k", "SET k 1"]);
    assert_eq!(story.connects_made(), 2, "it waits");
    story.conn(2).gets("CLIENT TRACKING ON BCAST PREFIX k").answers("+OK");
    story.conn(3).gets("SET k 1").answers("+OK");
    story.client("a").gets(["+OK", "+OK"]);
}

// Redis' own suite: what another client changed right behind the answer was told to nobody.
#[test]
fn client_tracking_is_answered_when_the_server_tells_of_changes() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST NOLOOP").gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX ").gets_nothing();
    story.client("a").gets_nothing();
    story.conn(2).answers("+OK");
    story.client("a").gets("+OK");
}

// Found by an attack: both were asked for in one request, which the server refused, again and again.
#[test]
fn all_keys_behind_some_of_them_are_asked_for_without_those() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST PREFIX a NOLOOP").gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX a").answers("+OK");
    story.client("a").gets("+OK").says("CLIENT TRACKING ON BCAST NOLOOP");
    story.conn(2).gets(["CLIENT TRACKING OFF", "CLIENT TRACKING ON NOLOOP BCAST PREFIX "]);
    story.conn(2).answers(["+OK", "+OK"]);
    assert!(story.client("a").takes_text().contains("+OK"));
    let made = story.connects_made();
    story.conn(2).dies("reset");
    story.after_ms(100);
    story.conn(made + 1).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX ").gets_nothing();
}

#[test]
fn it_is_answered_no_earlier_when_another_worker_has_the_client_that_is_told() {
    let mut story = Story::with(Settings { workers: 2, ..Settings::default() });
    for (words, tells) in [("ON BCAST REDIRECT 99", true), ("ON REDIRECT 99", false)] {
        story.holds_questions();
        story.client(words).says(&*format!("CLIENT TRACKING {words}")).gets_nothing();
        assert!(matches!(story.asked(), Some((_, Question::List { .. }))));
        // Found by an attack: the worker slept for seconds before it asked the server.
        assert!(story.is_answered(Answer::Lines(vec![(99, "id=99".into())])));
        if tells {
            story.client(words).gets_nothing();
            story.conn(1).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
        }
        story.client(words).gets("+OK");
    }
}

#[test]
fn nobody_is_left_waiting_when_the_connection_is_lost_or_the_client_goes() {
    let mut story = Story::with(Settings { workers: 2, ..Settings::default() });
    story.holds_questions();
    for client in ["stays", "goes"] {
        story.client(client).says("CLIENT TRACKING ON BCAST REDIRECT 99");
        story.is_answered(Answer::Lines(vec![(99, "id=99".into())]));
    }
    story.client("goes").dies();
    story.client("stays").gets_nothing();
    story.conn(1).gets("CLIENT TRACKING ON BCAST PREFIX ").dies("reset");
    story.client("stays").gets("+OK");
}

// What a transaction reads comes over another connection than what changed, so that may come first.
#[test]
fn with_bcast_a_transaction_is_followed_by_what_changed_while_it_was_under_way() {
    let mut story = Story::new();
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST PREFIX k").gets_nothing();
    let feed = story.connects_made();
    story.conn(feed).gets("CLIENT TRACKING ON BCAST PREFIX k").answers("+OK");
    story.client("a").gets("+OK");
    for changes in [false, true] {
        story.client("a").says(["MULTI", "GET k1", "GET k2", "EXEC"]).takes();
        let own = story.connects_made();
        let mut own = story.conn(own);
        let asked = own.takes_requests();
        assert_eq!(asked, 4);
        own.answers(["+OK", "+QUEUED", "+QUEUED"]);
        if changes {
            story.conn(feed).answers(changed("k1").as_str());
            let told = story.client("a").takes_text();
            assert!(told.contains("k1"), "{told}");
        } else {
            story.client("a").takes();
        }
        let own = story.connects_made();
        story.conn(own).sends(b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
        let got = story.client("a").takes_text();
        assert!(got.contains("*2\r\n$1\r\n1\r\n$1\r\n2\r\n"), "{got}");
        assert_eq!(got.matches("invalidate").count(), usize::from(changes), "{got}");
        assert!(!got.contains("k2"), "nobody changed it: {got}");
    }
}

// Redis' own suite: in another database than the first, HELLO in BCAST mode told to drop everything.
#[test]
fn in_bcast_mode_another_protocol_changes_nothing_of_what_is_told() {
    let mut story = Story::new();
    let id = number_of(&mut story, "ear");
    story.client("ear").says("HELLO 3").takes();
    story.client("a").says("SELECT 1").gets("+OK");
    story.client("a").says(&*format!("CLIENT TRACKING ON BCAST REDIRECT {id}")).gets_nothing();
    let feed = story.connects_made();
    story.conn(feed).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
    story.client("a").gets("+OK");
    for hello in ["HELLO 3", "HELLO 2"] {
        story.client("a").says(hello).takes();
        story.client("ear").gets_nothing();
        story.conn(feed).answers(&*changed("k"));
        story.client("ear").gets(&*changed("k"));
    }
}

// Redis' own suite: what was read in a transaction was told of behind EXEC, whether it changed or not.
#[test]
fn what_is_read_in_a_transaction_is_marked_first() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.client("a").says(["MULTI", "GET k", "GET other", "EXEC"]);
    story.conn(3).gets(["MULTI", "GET k", "GET other"]).answers(["+OK", "+QUEUED", "+QUEUED"]);
    story.client("a").gets(["+OK", "+QUEUED", "+QUEUED"]);
    // EXEC comes behind the marks.
    story.conn(3).gets_nothing();
    story.conn(2).gets("EXISTS k").answers(":1").gets("EXISTS other");
    story.conn(3).gets_nothing();
    story.conn(2).answers(":0");
    let reply = "*2\r\n$1\r\nv\r\n$-1\r\n";
    story.conn(3).gets("EXEC").answers(reply);
    story.client("a").gets(reply);
    story.conn(2).answers(&*changed("other"));
    story.client("a").gets(&*changed("other"));
}

#[test]
fn what_changed_between_the_mark_and_exec_is_told_again_behind_it() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.client("a").says(["MULTI", "GET x", "GET y", "GET z"]);
    story.conn(3).gets(["MULTI", "GET x", "GET y", "GET z"]);
    story.conn(3).answers(["+OK", "+QUEUED", "+QUEUED", "+QUEUED"]);
    story.client("a").takes();
    story.conn(2).gets(["EXISTS x", "EXISTS y", "EXISTS z"]).answers([":1", ":1"]);
    // This one the server will not tell of again, and this one it could not mark.
    story.conn(2).answers(&*changed("x"));
    story.client("a").gets(&*changed("x"));
    story.conn(2).answers("-NOPERM no");
    story.client("a").says("EXEC");
    let reply = "*3\r\n:1\r\n:2\r\n:3\r\n";
    story.conn(3).gets("EXEC").answers(reply);
    story.client("a").gets([reply, &*changed("x z")]);
    story.conn(2).answers(&*changed("y"));
    story.client("a").gets(&*changed("y"));
}

#[test]
fn marks_that_are_lost_hold_up_no_transaction() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k");
    story.after_ms(2_000);
    story.client("a").says(["MULTI", "GET x", "EXEC"]);
    story.conn(3).gets(["MULTI", "GET x"]).answers(["+OK", "+QUEUED"]);
    story.client("a").takes();
    story.conn(2).gets("EXISTS x").dies("Connection reset by peer");
    story.turn();
    story.conn(3).gets("EXEC").answers("*1\r\n:1\r\n");
    story.client("a").gets([ALL, "*1\r\n:1\r\n", &*changed("x")]);
    // What was queued and thrown away is told of by nobody.
    story.conn(4).gets("CLIENT TRACKING ON").answers("+OK");
    story.client("a").says(["MULTI", "GET x", "DISCARD", "MULTI", "EXEC"]);
    story.conn(4).gets("EXISTS x").answers(":1");
    story.conn(3).gets(["MULTI", "GET x", "DISCARD"]).answers(["+OK", "+QUEUED", "+OK"]);
    story.conn(3).gets(["MULTI", "EXEC"]).answers(["+OK", "*0\r\n"]);
    story.client("a").gets(["+OK", "+QUEUED", "+OK", "+OK", "*0\r\n"]);
}

// Redis' own suite: what BLMOVE changed was told before its reply.
#[test]
fn what_a_blocking_command_changes_is_told_behind_its_reply() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "to");
    reads(&mut story, "a", "other");
    story.client("a").says("BLMOVE from to LEFT LEFT 0");
    story.conn(3).gets("BLMOVE from to LEFT LEFT 0");
    story.conn(2).answers([&*changed("to"), &*changed("other")]);
    story.client("a").gets_nothing();
    story.conn(3).answers("\"x\"");
    story.client("a").gets(["\"x\"", &*changed("to"), &*changed("other")]);
    // The fences are answered when nobody waits for them any more.
    story.conn(2).gets(["PING", "PING"]).answers(["+PONG", "+PONG"]);
    story.client("a").gets_nothing();
}

#[test]
fn what_others_change_is_told_while_a_client_waits() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "to");
    reads(&mut story, "a", "other");
    story.client("a").says("BLMOVE from to LEFT LEFT 0");
    story.conn(3).gets("BLMOVE from to LEFT LEFT 0");
    // Of a key that the command does not name at once.
    story.conn(2).answers(&*changed("other"));
    story.client("a").gets(&*changed("other"));
    story.conn(2).answers(&*changed("to"));
    story.client("a").gets_nothing();
    story.conn(2).gets("PING").answers("+PONG");
    story.client("a").gets(&*changed("to"));
    story.conn(3).answers("\"x\"");
    story.client("a").gets("\"x\"");
}

#[test]
fn a_fence_that_is_lost_hides_nothing() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "to");
    story.after_ms(2_000);
    story.client("a").says("BLMOVE from to LEFT LEFT 0");
    story.conn(3).gets("BLMOVE from to LEFT LEFT 0");
    story.conn(2).answers(&*changed("to"));
    story.conn(2).gets("PING").dies("Connection reset by peer");
    story.turn();
    story.client("a").gets([ALL, &*changed("to")]);
    story.conn(3).answers("\"x\"");
    story.client("a").gets("\"x\"");
}

// Found by an attack: what was read in RESP2 was never told of.
#[test]
fn who_takes_resp3_later_is_told_to_drop_what_it_read_before() {
    let mut story = Story::new();
    story.client("a").says("CLIENT TRACKING ON").gets("+OK");
    story.client("a").says("GET k");
    story.conn(1).gets("GET k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.client("a").says("HELLO 3");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("%7\r\n") && text.ends_with(ALL), "{text}");
    // A second HELLO changes nothing.
    story.client("a").says("HELLO 3");
    assert!(!story.client("a").takes_text().contains("invalidate"));
    story.client("b").says("HELLO 3");
    assert!(!story.client("b").takes_text().contains("invalidate"), "it caches nothing");
}

// Found by an attack: HELLO was answered before a server told of changes, and what changed between was never told.
#[test]
fn who_takes_resp3_with_prefixes_is_told_to_drop_all_when_servers_tell_of_changes() {
    let mut story = Story::new();
    story.client("a").says("CLIENT TRACKING ON BCAST").gets("+OK");
    story.client("a").says("HELLO 3");
    assert!(!story.client("a").takes_text().contains("invalidate"));
    story.conn(2).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
    story.client("a").gets(ALL);
    story.conn(2).answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
}

// Found by an attack: a thousand clients heard of three thousand keys each time, each key looked up for each client.
#[test]
fn who_has_connections_of_its_own_hears_in_the_servers_words_and_in_order() {
    let mut story = Story::new();
    caches(&mut story, "warm", "");
    story.client("a").says("HELLO 3").takes();
    story.client("a").says("CLIENT TRACKING ON BCAST NOLOOP").gets_nothing();
    story.conn(2).gets("CLIENT TRACKING ON NOLOOP BCAST PREFIX ").answers("+OK");
    story.client("a").gets("+OK");
    story.conn(2).answers(&*changed("z a z"));
    story.client("a").gets(&*changed("z a z"));
    // While it reads, a change is told again behind the reply.
    story.client("a").says("GET k");
    story.conn(2).gets("GET k").answers(&*changed("k"));
    story.client("a").gets(&*changed("k"));
    story.conn(2).answers("\"v\"");
    story.client("a").gets(["\"v\"", &*changed("k")]);
}

// Found by an attack: half a million keys of one request were remembered, told of, and forgotten one by one.
#[test]
fn a_request_with_more_keys_than_are_tracked_is_told_of_behind_its_reply() {
    let mut story = Story::new();
    caches(&mut story, "a", "");
    opens(&mut story, "a", "k0");
    let names: Vec<String> = (0..=TRACKED_REQUEST_KEYS_MAX).map(|n| format!("k{n}")).collect();
    let line = format!("MGET {}", names.join(" "));
    story.client("a").says(line.as_str());
    let nulls = format!("*{}\r\n{}", names.len(), "_\r\n".repeat(names.len()));
    story.conn(2).gets(line.as_str()).answers(&*nulls);
    story.client("a").gets([&*nulls, &*changed(&names.join(" "))]);
    // Nothing is left of it: a change of one is told to nobody, but of the key that was read before.
    story.conn(2).answers([&*changed("k7"), &*changed("k0")]);
    story.client("a").gets(&*changed("k0"));
    // One less is tracked as ever.
    let line = format!("MGET {}", names[1..].join(" "));
    story.client("a").says(line.as_str());
    let nulls = format!("*{}\r\n{}", names.len() - 1, "_\r\n".repeat(names.len() - 1));
    story.conn(2).gets(line.as_str()).answers(&*nulls);
    story.client("a").gets(&*nulls);
    story.conn(2).answers(&*changed("k7"));
    story.client("a").gets(&*changed("k7"));
}
