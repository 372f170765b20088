//! Other settings while clients are connected: what holds from then on, and that nobody loses anything by it.

use crate::words::Story;
use crate::words::cluster::list;
use engine::acl::Users;
use engine::fleet::{Answer, ConfigWish, Question};
use engine::node::Address;
use engine::settings::{Facade, Password, ReadPolicy};

#[test]
fn a_shorter_time_holds_for_what_is_under_way() {
    let mut story = Story::with_timeouts(|timeouts| timeouts.request_ms = 0);
    story.client("a").says("GET k");
    story.server().gets("GET k");
    story.reconfigures(|settings| settings.timeouts.request_ms = 500).after_ms(499);
    story.client("a").gets_nothing();
    story.after_ms(2);
    let error = story.client("a").takes_text();
    assert!(error.contains("gave no reply for 500 ms"), "{error}");
}

#[test]
fn a_password_is_asked_of_those_that_come_and_none_of_anybody() {
    let mut story = Story::new();
    story.client("old").says("PING").gets("+PONG");
    story.reconfigures(|settings| settings.users = Users::with_password(b"pw").into());
    story.client("old").says("PING").gets("+PONG");
    story.client("new").says(["PING", "AUTH pw", "PING"]);
    story.client("new").gets(["-NOAUTH Authentication required.", "+OK", "+PONG"]);
    story.client("never").says("PING").gets("-NOAUTH Authentication required.");
    story.reconfigures(|settings| settings.users = Users::default().into());
    story.client("never").says("PING").gets("+PONG");
}

#[test]
fn what_the_servers_were_told_of_the_slow_log_holds_until_the_proxys_option_changes() {
    let mut story = Story::new();
    let slower = |story: &Story| story.engine.settings().slowlog.slower_than_us;
    story.client("a").says("CONFIG SET slowlog-log-slower-than 5");
    story.server().gets("CONFIG SET slowlog-log-slower-than 5").answers("+OK");
    assert_eq!(slower(&story), 5);
    story.reconfigures(|settings| {
        settings.slowlog = engine::slowlog::Options::default();
        settings.timeouts.stall_ms += 1;
    });
    assert_eq!(slower(&story), 5, "another option has nothing to do with it");
    story.reconfigures(|settings| settings.slowlog.slower_than_us = 77);
    assert_eq!(slower(&story), 77);
}

#[test]
fn hot_keys_begin_again_and_what_a_client_switched_on_stays_on() {
    let mut story = Story::new();
    story.client("a").says("TOPKEYS ENABLE").gets("+OK");
    story.reconfigures(|settings| settings.hotkeys.sample = 1);
    story.client("a").says("GET hot");
    story.server().gets("GET hot").answers("nil");
    let is_hot = |story: &mut Story| {
        story.client("a").takes();
        story.client("a").says("TOPKEYS GET").takes_text().contains("hot")
    };
    assert!(is_hot(&mut story));
    story.reconfigures(|settings| settings.timeouts.stall_ms += 1);
    assert!(is_hot(&mut story), "another option has nothing to do with it");
    story.reconfigures(|settings| settings.hotkeys.window_s = 99);
    assert!(!is_hot(&mut story));
    story.reconfigures(|settings| settings.hotkeys.enabled = true);
    story.reconfigures(|settings| settings.hotkeys.enabled = false);
    assert!(!story.engine.settings().hotkeys.enabled);
    story.client("a").says("INFO hotkeys");
    assert!(story.client("a").takes_text().contains("hotkeys_enabled:0"));
}

#[test]
fn more_connections_are_for_those_that_come_and_fewer_for_all() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.reconfigures(|settings| settings.limits.shared_conns = 2);
    story.client("b").says("SET b 1");
    story.conn(2).gets("SET b 1");
    story.reconfigures(|settings| settings.limits.shared_conns = 1);
    // What is under way is not overtaken by what comes behind it over another connection.
    story.client("b").says("GET b");
    story.conn(1).gets_nothing();
    story.conn(2).gets_nothing().answers("+OK");
    story.client("b").gets("+OK");
    story.conn(1).gets("GET b").answers("\"1\"");
    story.client("b").gets("\"1\"");
    story.conn(2).is_closed();
    story.client("c").says("GET c");
    story.conn(1).gets("GET c");
    assert_eq!(story.connects_made(), 2);
}

#[test]
fn reads_go_to_copies_from_then_on_and_back() {
    let mut story = Story::cluster();
    story.cluster_is("0-16383 n1 r1");
    story.node_says_to("n1", "ROLE", "*3\r\n$6\r\nmaster\r\n:10\r\n*0\r\n");
    let copy = "*5\r\n$5\r\nslave\r\n$2\r\nn1\r\n:7000\r\n$9\r\nconnected\r\n:10\r\n";
    story.node_says_to("r1", "ROLE", copy);
    story.node_says_to("r1", "READONLY", "+OK");
    let read_at = |story: &mut Story, node: &str| {
        story.client("a").says("GET k");
        story.node(node).gets("GET k").answers("\"v\"");
        story.client("a").gets("\"v\"");
    };
    read_at(&mut story, "n1");
    story.reconfigures(|settings| settings.reads.policy = ReadPolicy::Replica).after_ms(10);
    read_at(&mut story, "r1");
    story.reconfigures(|settings| settings.reads.policy = ReadPolicy::Primary);
    read_at(&mut story, "n1");
}

#[test]
fn the_facade_is_another_one_at_once() {
    let mut story = Story::cluster();
    story.cluster_is("0-16383 n1");
    story.client("a").says("CLUSTER INFO");
    story.client("a").gets("-ERR This instance has cluster support disabled");
    let announce = vec![Address::tcp("10.9.9.9", 1), Address::tcp("10.9.9.8", 2)];
    story.reconfigures(|settings| {
        settings.facade = Facade { on: true, announce, ..Facade::default() }
    });
    let slots = story.client("a").says("CLUSTER SLOTS").takes_text();
    assert!(slots.contains("10.9.9.9") && slots.contains("10.9.9.8"), "{slots}");
    story.reconfigures(|settings| settings.facade.announce.truncate(1));
    let slots = story.client("a").says("CLUSTER SLOTS").takes_text();
    assert!(slots.contains("10.9.9.9") && !slots.contains("10.9.9.8"), "{slots}");
}

#[test]
fn new_connections_are_greeted_in_the_new_way() {
    let mut story = Story::new();
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.reconfigures(|settings| settings.node.password = Some(Password::new("new")));
    assert_eq!(story.connects_made(), 1, "what stands is not touched");
    let mut story = story.by_hand();
    story.server().dies("broke");
    story.after_ms(100).connects();
    story.conn(2).gets("HELLO 2 AUTH default new");
}

#[test]
fn an_address_map_takes_effect_with_the_next_table_which_is_asked_for() {
    let mut story = Story::cluster();
    story.cluster_is("0-16383 n1");
    story.asked_for_the_table();
    story.reconfigures(|settings| settings.address_map.map_host("n1", "elsewhere"));
    story.after_ms(2_000);
    assert!(!story.asked_for_the_table().is_empty());
    story.client("a").says("GET k");
    story.node("elsewhere").gets("GET k");
}

#[test]
fn a_client_asks_for_what_it_does_not_know_and_the_caller_answers_once() {
    let mut story = Story::new();
    story.holds_questions();
    story.client("a").says(["CONFIG SET respool.log.level Debug", "PING"]);
    let wish = ConfigWish::Set(vec![("log.level".into(), "Debug".into())]);
    let (_, question) = story.asked().expect("a question");
    assert_eq!(question, Question::Config(wish));
    // The next request is one of the new configuration.
    story.client("a").gets_nothing();
    story.is_answered(Answer::Config(Ok(Vec::new())));
    story.client("a").gets(["+OK", "+PONG"]);

    story.client("a").says("CONFIG GET respool.log.* respool.x");
    let (_, question) = story.asked().expect("a question");
    assert_eq!(question, Question::Config(ConfigWish::Get(vec!["log.*".into(), "x".into()])));
    let values = vec![("log.level".into(), "debug".into())];
    story.is_answered(Answer::Config(Ok(values)));
    let reply = list(["\"respool.log.level\"", "\"debug\""]);
    story.client("a").gets(&reply);

    story.client("a").says("CONFIG REWRITE respool");
    story.is_answered(Answer::Config(Err("ERR no file".into())));
    story.client("a").gets("-ERR no file");
    assert_eq!(story.connects_made(), 0, "no server was asked");
}

#[test]
fn a_config_of_both_is_refused_and_one_in_a_transaction_too() {
    let mut story = Story::new();
    let mixed = "-ERR respool: options of the proxy (respool.*) and parameters of the servers cannot stand in one CONFIG";
    story.client("a").says("CONFIG SET respool.log.level debug maxmemory 1").gets(mixed);
    story.client("a").says("CONFIG GET maxmemory respool.*").gets(mixed);
    story.client("a").says("CONFIG SET respool.log.level");
    story.client("a").gets("-ERR wrong number of arguments for 'config|set' command");
    story.client("a").says(["MULTI", "CONFIG GET respool.*", "EXEC"]);
    story.conn(1).gets(["MULTI", "DISCARD"]).answers(["+OK", "+OK"]);
    let refused = "-ERR Command not allowed inside a transaction";
    let abort = "-EXECABORT Transaction discarded because of previous errors.";
    story.client("a").gets(["+OK", refused, abort]);
}
