//! Users with restrictions: what is refused never reaches a server, what is allowed goes as it always did, and a change of the rules
//! holds for those who are there.

use crate::words::{HELLO_2, Story, large_set, request};
use engine::Settings;
use engine::acl::Users;

const NO_KEY: &str = "-NOPERM No permissions to access a key";

/// Users with these rules, and `default`, which may do everything.
pub(crate) fn users(lines: &[&str]) -> Users {
    let mut users = Users::default();
    for line in lines {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        users.set(words[0], &words[1..]).expect("rules");
    }
    users
}

const WRITER: &str = "w on nopass ~app:* %R~shared:* &news:* +@all -@dangerous";

fn story(lines: &[&str]) -> Story {
    let mut story = Story::with(Settings { users: users(lines).into(), ..Settings::default() });
    story.client("warm").says("GET warm");
    story.server().gets("GET warm").answers("nil");
    story.client("warm").gets("nil");
    story
}

#[test]
fn a_pipeline_is_split_into_what_goes_and_what_is_refused() {
    let mut story = story(&[WRITER]);
    story.client("a").says("AUTH w x").gets("+OK");
    story.client("a").says([
        "GET app:1",
        "GET app:2",
        "GET other",
        "SET shared:1 x",
        "GET shared:1",
        "FLUSHALL",
    ]);
    story.server().gets(["GET app:1", "GET app:2", "GET shared:1"]).gets_nothing();
    story.server().answers(["nil", "nil", "nil"]);
    let no_command = "-NOPERM User w has no permissions to run the 'flushall' command";
    story.client("a").gets(["nil", "nil", NO_KEY, NO_KEY, "nil", no_command]);
    story.client("warm").says("FLUSHALL");
    story.server().gets("FLUSHALL");
}

#[test]
fn of_a_split_request_all_keys_count_before_any_part_goes() {
    let mut story = Story::warm_cluster();
    story.reconfigures(|settings| settings.users = users(&["w on nopass ~a* +@all"]).into());
    story
        .client("a")
        .says(["AUTH w x", "MGET a4 b4 a8", "DEL a4 c1"])
        .gets(["+OK", NO_KEY, NO_KEY]);
    for node in ["n1", "n2", "n3"] {
        assert_eq!(story.node(node).waiting(), 0);
    }
    story.client("a").says("MGET a4 a8");
    assert_eq!(story.node("n1").waiting(), 2);
}

#[test]
fn of_a_large_request_the_keys_count_too() {
    const MIB: usize = 1 << 20;
    let mut story = story(&[WRITER]);
    story.client("a").says("AUTH w x").gets("+OK");
    story.client("a").sends(&large_set("other", MIB)).gets(NO_KEY);
    let before = story.server().bytes();
    story.client("a").sends(&large_set("app:big", MIB));
    let written: usize = (1..=story.connects_made()).map(|conn| story.conn(conn).bytes()).sum();
    assert!(written > before + MIB, "it goes to a server");
    // A single key at a known place is enough to stream what follows.
    let mut append = b"*3\r\n$6\r\nAPPEND\r\n$5\r\nother\r\n$1048576\r\n".to_vec();
    append.extend(vec![b'x'; 1_000]);
    story.client("b").says("AUTH w x").gets("+OK");
    story.client("b").sends(&append).gets_nothing();
}

#[test]
fn what_is_refused_ends_a_transaction() {
    let mut story = story(&[WRITER]);
    story.client("a").says(["AUTH w x", "MULTI"]);
    story.conn(2).gets("MULTI").answers("+OK");
    story.client("a").gets(["+OK", "+OK"]);
    story.client("a").says(["SET app:1 x", "SET other x", "EXEC"]);
    story.conn(2).gets(["SET app:1 x", "DISCARD"]).answers(["+QUEUED", "+OK"]);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    story.client("a").gets(["+QUEUED", NO_KEY, aborted]);
}

#[test]
fn rules_that_change_in_a_transaction_end_it() {
    let mut story = story(&[WRITER]);
    story.client("a").says(["AUTH w x", "MULTI"]);
    story.conn(2).gets("MULTI").answers("+OK");
    story.client("a").says("SET app:1 x");
    story.conn(2).gets("SET app:1 x").answers("+QUEUED");
    story.client("a").gets(["+OK", "+OK", "+QUEUED"]);
    story.reconfigures(|settings| {
        let mut users = Users::clone(&settings.users);
        users.set(b"w", &[b"-set"]).expect("rules");
        settings.users = users.into();
    });
    story.client("a").says("EXEC");
    story.conn(2).gets("DISCARD").answers("+OK");
    let text = story.client("a").takes_text();
    assert!(
        text.starts_with("-EXECABORT Transaction discarded because of: NOPERM ACLs rules changed"),
        "{text}"
    );
    story.client("a").says("SET app:1 x");
    let refused = "-NOPERM User w has no permissions to run the 'set' command";
    story.client("a").gets(refused);
}

#[test]
fn a_change_of_rules_holds_at_once_and_who_is_gone_is_closed() {
    let mut story = story(&[WRITER, "gone on nopass ~* &* +@all"]);
    story.client("a").says("AUTH w x").gets("+OK");
    story.client("g").says("AUTH gone x").gets("+OK");
    story.client("a").says("GET app:1");
    story.server().gets("GET app:1").answers("nil");
    story.client("a").gets("nil");
    story.reconfigures(|settings| {
        let mut users = Users::clone(&settings.users);
        users.set(b"w", &[b"resetkeys", b"~only"]).expect("rules");
        assert_eq!(users.remove(&["gone"]), 1);
        settings.users = users.into();
    });
    story.client("g").is_closed();
    story.client("a").is_open().says(["GET app:1", "GET only"]);
    story.server().gets("GET only").answers("nil");
    story.client("a").gets([NO_KEY, "nil"]);
    // Who may do everything from now on takes the short way again.
    story.reconfigures(|settings| {
        settings.users = {
            let mut users = Users::clone(&settings.users);
            users.set(b"w", &[b"allkeys", b"allchannels", b"+@all"]).expect("rules");
            users.into()
        }
    });
    story.client("a").says(["GET any", "RANDOMKEY"]);
    story.server().gets(["GET any", "RANDOMKEY"]);
}

/// Other rules for the user `w`.
fn change(story: &mut Story, words: &[&str]) {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    story.reconfigures(|settings| {
        let mut users = Users::clone(&settings.users);
        users.set(b"w", &words).expect("rules");
        settings.users = users.into();
    });
}

// Redis checks a blocking command again when an element arrives (since 7.2).
#[test]
fn who_waits_for_what_it_may_not_any_more_is_closed() {
    for (left, command) in [
        (&["resetkeys", "~app:m"][..], "BLPOP app:l 0"),
        (&["-xread"], "XREAD BLOCK 0 STREAMS app:l $"),
    ] {
        let mut story = story(&[WRITER]);
        story.client("a").says("AUTH w x").gets("+OK").says(command);
        story.conn(2).gets(command);
        story.client("b").says("AUTH w x").gets("+OK").says("BLPOP app:m 0");
        story.conn(3).gets("BLPOP app:m 0");
        change(&mut story, left);
        story.client("a").is_closed();
        story.conn(2).is_closed();
        story.conn(3).answers("*2\r\n$5\r\napp:m\r\n$1\r\n1\r\n");
        story.client("b").gets("*2\r\n$5\r\napp:m\r\n$1\r\n1\r\n").is_open();
    }
}

/// Two clients of `w` have a request each that waits until its slot has an owner, or the first one of a transaction.
fn story_without_owner<const N: usize>(sent: [&str; N], replies: [&str; N], rest: &str) -> Story {
    let mut story = Story::warm_cluster_with(|settings| settings.users = users(&[WRITER]).into());
    story.client("w").says("AUTH w x").gets("+OK").says(sent).says(rest);
    story.node("n1").gets(sent).answers(replies);
    story.client("m").says("AUTH w x").gets("+OK").says("SET app:{a4}m 1");
    story.node_conn("n1", 1).gets("SET app:{a4}m 1").answers(DOWN);
    story
}

const DOWN: &str = "-CLUSTERDOWN Hash slot not served";

// Found by a test from outside: a request that waited for an owner of its slot was done after its user had lost the right, or was gone.
#[test]
fn who_waits_for_an_owner_of_its_slot_is_closed_if_it_may_not_any_more() {
    for mut story in [
        story_without_owner(["SET app:{a4} 1"], [DOWN], "PING"),
        story_without_owner(["MULTI", "SET app:{a4} 1"], ["+OK", DOWN], "EXEC"),
    ] {
        change(&mut story, &["resetkeys", "~app:{a4}m"]);
        story.client("w").is_closed();
        story.after_ms(100);
        story.node_conn("n1", 1).gets("SET app:{a4}m 1").answers("+OK");
        story.node("n1").gets_nothing();
        story.client("m").gets("+OK").is_open();
    }
}

#[test]
fn who_waits_for_an_owner_of_its_slot_is_closed_with_its_user() {
    let mut story = story_without_owner(["SET app:{a4} 1"], [DOWN], "PING");
    story.reconfigures(|settings| settings.users = users(&[]).into());
    story.client("w").is_closed();
    story.client("m").is_closed();
    story.after_ms(1_000);
    story.node("n1").gets_nothing();
}

// Found by a test from outside: the request was executed after `CLIENT KILL` had been answered.
#[test]
fn a_request_that_waits_for_an_owner_of_its_slot_goes_with_its_killed_client() {
    let mut story = story_without_owner(["SET app:{a4} 1"], [DOWN], "PING");
    story.client("k").says("CLIENT KILL USER w").takes_text();
    story.client("w").is_closed();
    story.after_ms(1_000);
    story.node("n1").gets_nothing();
}

#[test]
fn what_was_waited_for_and_has_come_closes_nobody() {
    let mut story = story(&[WRITER]);
    story.client("a").says("AUTH w x").gets("+OK").says("BLPOP app:l 0");
    story.conn(2).gets("BLPOP app:l 0").answers("*-1\r\n");
    story.client("a").gets("*-1\r\n").says("GET app:1");
    story.conn(1).gets("GET app:1");
    change(&mut story, &["-blpop"]);
    story.conn(1).answers("nil");
    story.client("a").gets("nil").is_open();
}

#[test]
fn who_sends_what_it_may_not_any_more_is_closed_before_it_is_whole() {
    let set = large_set("app:big", 4 << 20);
    let append = [&b"*3\r\n$6\r\nAPPEND\r\n"[..], &set[13..]].concat();
    for (user, whole) in
        [(WRITER, &append), ("w on nopass ~* &* +@all", &append), ("w on nopass ~* &* +@all", &set)]
    {
        let denied: [&[&str]; 2] = [&["-append", "-set"], &["resetkeys", "~o"]];
        for left in denied {
            let mut story = story(&[user]);
            story.client("a").says("AUTH w x").gets("+OK").sends(&whole[..2_000_000]);
            change(&mut story, left);
            story.client("a").is_closed();
            assert_eq!(story.conn(1).waiting(), 0, "{user} {left:?}");
        }
    }
}

#[test]
fn who_sends_what_it_still_may_goes_on() {
    let set = large_set("app:big", 4 << 20);
    let append = [&b"*3\r\n$6\r\nAPPEND\r\n"[..], &set[13..]].concat();
    let mut story = story(&[WRITER]);
    story.client("a").says("AUTH w x").gets("+OK").sends(&append[..2_000_000]);
    change(&mut story, &["-get"]);
    story.client("a").is_open().sends(&append[2_000_000..]);
    story.server().answers(":4194304");
    story.client("a").gets(":4194304");
    // The options of SET follow its value: respool keeps the whole request and checks it then.
    story.client("a").sends(&set[..2_000_000]);
    change(&mut story, &["-set"]);
    story.client("a").sends(&set[2_000_000..]);
    story.client("a").gets("-NOPERM User w has no permissions to run the 'set' command");
}

#[test]
fn who_listens_to_what_it_may_not_any_more_is_closed() {
    let mut story = story(&["l on nopass &news:* &jobs +@all", "k on nopass &* +@all"]);
    for (name, user, subscribe) in [
        ("stays", "l", "SUBSCRIBE jobs"),
        ("goes", "l", "PSUBSCRIBE news:*"),
        ("other", "k", "SUBSCRIBE news:1"),
    ] {
        story.client(name).says(&*format!("AUTH {user} x")).gets("+OK");
        let (word, channel) = subscribe.split_once(' ').expect("two words");
        let word = word.to_lowercase();
        let confirmed =
            format!("*3\r\n${}\r\n{word}\r\n${}\r\n{channel}\r\n:1\r\n", word.len(), channel.len());
        story.client(name).says(subscribe);
        story.conn(2).gets(&*format!("{word} {channel}")).answers(&*confirmed);
        story.client(name).gets(&*confirmed);
    }
    story.reconfigures(|settings| {
        let mut users = Users::clone(&settings.users);
        users.set(b"l", &[b"resetchannels", b"&jobs"]).expect("rules");
        settings.users = users.into();
    });
    story.client("goes").is_closed();
    story.client("stays").is_open();
    story.client("other").is_open();
}

#[test]
fn clients_are_shown_and_closed_by_user_and_reset_ends_it() {
    let mut story = story(&[WRITER]);
    story.client("a").says("AUTH w x").gets("+OK");
    let line = story.client("a").says("CLIENT INFO").takes_text();
    assert!(line.contains(" user=w "), "{line}");
    story.client("a").says(["RESET", "ACL WHOAMI", "FLUSHALL"]);
    story.server().gets("FLUSHALL").answers("+OK");
    story.client("a").gets(["+RESET", "\"default\"", "+OK"]);
    story.client("b").says("AUTH w x").gets("+OK");
    story.client("a").says("CLIENT KILL USER nobody").gets("-ERR No such user 'nobody'");
    story.client("a").says("CLIENT KILL USER w").gets(":1");
    story.client("b").is_closed();
    story.client("a").is_open();
}

#[test]
fn what_was_refused_stands_in_the_log_and_is_shown_to_nobody_else() {
    let mut story = story(&[WRITER]);
    story.client("m").says("MONITOR").gets("+OK");
    story.client("a").says("AUTH w x").gets("+OK");
    story.client("a").says(["GET other", "GET other", "PUBLISH x y"]).takes();
    story.client("a").says("AUTH w").takes();
    story.client("a").says("GET app:1");
    let seen = story.client("m").takes_text();
    assert!(seen.contains("\"GET\" \"app:1\"") && !seen.contains("other"), "{seen}");
    story.server().takes_requests();
    let log = story.client("warm").says("ACL LOG").takes_text();
    assert!(
        log.starts_with("*2\r\n*20\r\n$5\r\ncount\r\n:1\r\n$6\r\nreason\r\n$7\r\nchannel\r\n"),
        "{log}"
    );
    assert!(
        log.contains("count\r\n:2\r\n$6\r\nreason\r\n$3\r\nkey\r\n")
            && log.contains("$5\r\nother\r\n"),
        "{log}"
    );
    story.client("warm").says(["ACL LOG RESET", "ACL LOG"]).gets(["+OK", "*0"]);
    story.client("warm").says("AUTH nobody x").takes();
    let log = story.client("warm").says("ACL LOG 1").takes_text();
    assert!(log.contains("$4\r\nauth\r\n") && log.contains("$6\r\nnobody\r\n"), "{log}");
}

#[test]
fn entries_of_the_log_have_numbers_and_times_where_servers_give_them() {
    let settings = Settings {
        users: users(&[WRITER]).into(),
        unix_ahead_us: 1_700_000_000_000_000,
        ..Settings::default()
    };
    let mut story = Story::with(settings);
    story.client("a").says(["AUTH nobody x", "AUTH other x"]).takes();
    // Within a minute it is the entry that was there.
    story.after_ms(10_000).client("a").says("AUTH nobody x").takes();
    let log = story.client("a").says("ACL LOG").takes_text();
    let last = story.now.0 / 1_000 + 1_700_000_000_000;
    let first = last - 10_000;
    let entry = |id: u64, created: u64, updated: u64| {
        format!(
            "$8\r\nentry-id\r\n:{id}\r\n$17\r\ntimestamp-created\r\n:{created}\r\n$22\r\ntimestamp-last-updated\r\n:{updated}\r\n"
        )
    };
    assert!(log.starts_with("*2\r\n*20\r\n$5\r\ncount\r\n:2\r\n"), "{log}");
    assert!(log.contains(&entry(0, first, last)), "{log}");
    assert!(log.ends_with(&entry(1, first, first)), "{log}");
}

#[test]
fn entries_of_the_log_are_as_before_in_front_of_older_servers() {
    let settings = Settings { users: users(&[WRITER]).into(), ..Settings::default() };
    let mut story = Story::with(settings);
    story.server_says_to("HELLO 2", &HELLO_2.replace("7.2.5", "7.0.5"));
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil").says("AUTH nobody x").takes();
    let log = story.client("a").says("ACL LOG").takes_text();
    assert!(log.starts_with("*1\r\n*14\r\n") && !log.contains("entry-id"), "{log}");
}

#[test]
fn reads_are_shared_with_nobody_who_may_not_make_them() {
    let mut story = story(&[WRITER]);
    story.reconfigures(|settings| settings.coalesce_reads = true);
    story.client("a").says("AUTH w x").gets("+OK");
    for name in ["warm", "a"] {
        story.client(name).sends_at_once(&request("GET other"));
    }
    story.turn();
    story.server().gets("GET other").gets_nothing().answers("\"v\"");
    story.client("warm").gets("\"v\"");
    story.client("a").gets(NO_KEY);
}

#[test]
fn scripts_are_for_those_who_may_do_everything() {
    let mut story = story(&[WRITER]);
    story.client("a").says("AUTH w x").gets("+OK");
    let text = story.client("a").says("EVAL return 1 app:1").takes_text();
    assert!(text.contains("-NOPERM respool: what a script does"), "{text}");
    story.reconfigures(|settings| {
        let mut users = Users::clone(&settings.users);
        users.unchecked_scripts = true;
        settings.users = users.into();
    });
    story.client("a").says(["EVAL return 1 other", "EVAL return 1 app:1"]);
    story.client("a").gets(NO_KEY);
    assert_eq!(story.server().waiting(), 1);
}

#[test]
fn nothing_changes_for_a_user_of_the_servers() {
    let mut story = story(&[WRITER]);
    story.client("warm").says("ACL SERVER LIST");
    story.server().gets("ACL LIST").answers("*0");
    story.client("warm").gets("*0");
    story.client("a").says("AUTH w x").gets("+OK");
    let refused = "-NOPERM User w has no permissions to run the 'acl|list' command";
    story.client("a").says("ACL SERVER LIST").gets(refused);
}

#[test]
fn a_password_alone_makes_a_client_whoever_of_the_list_has_it() {
    let mut story = story(&["w on >x ~* &* +@all"]);
    let not_configured = "-ERR AUTH <password> called without any password configured for the default user. \
                          Are you sure your configuration is correct?";
    story.client("a").says("AUTH x").gets(not_configured);
    story.reconfigures(|settings| {
        let mut users = Users::clone(&settings.users);
        users.by_password = vec![b"w".as_slice().into()];
        settings.users = users.into();
    });
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    story.client("a").says("AUTH y").gets(wrong);
    story.client("a").says("ACL WHOAMI").gets("\"default\"");
    story.client("a").says("AUTH x").gets("+OK");
    story.client("a").says("ACL WHOAMI").gets("\"w\"");
    // Many clients say `default` where they mean nobody.
    story.client("b").says("AUTH default x").gets("+OK");
    story.client("b").says("ACL WHOAMI").gets("\"w\"");
    story.client("c").says("HELLO 2 AUTH default x").takes();
    story.client("c").says("ACL WHOAMI").gets("\"w\"");
    story.client("c").says("AUTH w y").gets(wrong);
}
