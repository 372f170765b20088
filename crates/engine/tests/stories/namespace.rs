//! A namespace: clients and servers name the same things in other words, and each request still gets its own reply.

use crate::tracking::{changed, number_of};
use crate::words::{Story, large_set, wire};
use engine::Settings;
use engine::acl::Users;
use engine::policy::{Namespace, Policies, Rule, Rules, What};
use std::sync::Arc;

const WHOLE: &str = "-ERR respool: 'flushall' is about whole databases, and this client lives in a part of one (policies.namespace)";
/// The reply to BLPOP, from the server and for the client.
const POPPED: &str = "*2\r\n$6\r\nt:list\r\n$1\r\nx\r\n";
const POPPED_OUTWARD: &str = "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

fn rules(prefix: &str) -> Rules {
    let namespace = Namespace::new(prefix.as_bytes(), false).expect("a prefix");
    Rules { namespace: Some(namespace), ..Rules::default() }
}

fn of(rules: Rules) -> Option<Arc<Policies>> {
    Policies::new(rules).map(Arc::new)
}

pub(crate) fn story() -> Story {
    Story::with(Settings { policies: of(rules("t:")), ..Settings::default() })
}

#[test]
fn a_name_behind_an_option_with_a_nul_stays_in_its_part() {
    let mut story = story();
    story.client("a").says([
        "XREAD STREAMS\0 s 0",
        "SORT l BY nosort GET\0x o_* STORE\0 d",
        "GEORADIUS g 1 2 3 m storedist\0 d",
        "SCAN 0 MATCH\0 a*",
        "XREADGROUP NOACK GROUP streams c STREAMS s >",
    ]);
    story.server().gets([
        "XREAD STREAMS\0 t:s 0",
        "SORT t:l BY nosort GET\0x t:o_* STORE\0 t:d",
        "GEORADIUS t:g 1 2 3 m storedist\0 t:d",
        "SCAN 0 MATCH t:* MATCH\0 t:a*",
        "XREADGROUP NOACK GROUP streams c STREAMS t:s >",
    ]);
}

#[test]
fn a_pipeline_is_answered_in_its_order_whatever_is_changed_in_it() {
    let mut story = story();
    story.client("a").says([
        "GET k",
        "ZMPOP 1 z MIN",
        "PING",
        "FLUSHALL",
        "LMPOP 2 a b LEFT",
        "MGET a b",
        "XGROUP CREATE s g 0",
        "GET l",
    ]);
    story.server().gets([
        "GET t:k",
        "ZMPOP 1 t:z MIN",
        "LMPOP 2 t:a t:b LEFT",
        "MGET t:a t:b",
        "XGROUP CREATE t:s g 0",
        "GET t:l",
    ]);
    story.server().answers(["\"t:v\"", "*2\r\n$3\r\nt:z\r\n*0\r\n"]);
    story.client("a").gets(["\"t:v\"", "*2\r\n$1\r\nz\r\n*0\r\n", "+PONG", WHOLE]);
    story.server().answers([
        "*2\r\n$3\r\nt:b\r\n*1\r\n$3\r\nt:x\r\n",
        "*2\r\n$-1\r\n$-1\r\n",
        "-NOGROUP No such key 't:s'",
        "nil",
    ]);
    story.client("a").gets([
        "*2\r\n$1\r\nb\r\n*1\r\n$3\r\nt:x\r\n",
        "*2\r\n$-1\r\n$-1\r\n",
        "-NOGROUP No such key 's'",
        "nil",
    ]);
}

#[test]
fn a_reply_that_comes_in_pieces_is_changed_when_it_is_whole() {
    let mut story = story();
    story.client("a").says(["KEYS *", "GET k"]);
    story.conn(1).gets("KEYS t:*");
    for piece in ["*2\r\n$3\r\nt", ":a\r\n$4\r", "\nt:bc\r\n"] {
        story.conn(1).sends(piece.as_bytes());
    }
    story.client("a").gets("*2\r\n$1\r\na\r\n$2\r\nbc\r\n");
    story.conn(2).gets("GET t:k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn what_waits_at_the_server_is_told_which_key_it_was() {
    let mut story = story();
    story.client("a").says("BLPOP list other 0");
    story.conn(1).gets("BLPOP t:list t:other 0");
    story.conn(1).answers(POPPED);
    story.client("a").gets(POPPED_OUTWARD);
    story.client("a").says("XREAD BLOCK 0 STREAMS s $");
    story.conn(1).gets("XREAD BLOCK 0 STREAMS t:s $").answers("*1\r\n*2\r\n$3\r\nt:s\r\n*0\r\n");
    story.client("a").gets("*1\r\n*2\r\n$1\r\ns\r\n*0\r\n");
    story.client("a").says("BLPOP list 1");
    story.conn(1).gets("BLPOP t:list 1").answers("*-1\r\n");
    story.client("a").gets("*-1\r\n");
}

// respool answers EXEC itself and sends DISCARD.
#[test]
fn what_waits_at_the_server_behind_an_aborted_transaction_is_told_which_key_it_was() {
    let mut story = story();
    story.client("a").says("MULTI");
    story.conn(1).gets("MULTI").answers("+OK");
    story.client("a").gets("+OK").says(["EXEC x", "EXEC", "BLPOP list 0"]);
    story.client("a").takes();
    story.conn(1).gets(["DISCARD", "BLPOP t:list 0"]);
    story.conn(1).answers(["+OK", POPPED]);
    story.client("a").gets(POPPED_OUTWARD);
}

// The server's error for the second MULTI arrives after respool has aborted the transaction.
#[test]
fn a_client_that_nests_multi_in_an_aborted_transaction_stays() {
    let mut story = story();
    story.client("a").says("MULTI");
    story.conn(1).gets("MULTI").answers("+OK");
    story.client("a").gets("+OK").says(["DEBUG x", "MULTI", "GET k", "EXEC", "GET k"]);
    story.conn(1).gets(["MULTI", "GET t:k", "DISCARD"]);
    let nested = "-ERR MULTI calls can not be nested";
    story.conn(1).answers([nested, "+QUEUED", "+OK"]);
    let got = story.client("a").takes_text();
    assert!(got.contains(nested) && got.contains(ABORTED), "{got}");
    story.conn(2).gets("GET t:k").answers("\"v\"");
    story.client("a").gets("\"v\"");
}

#[test]
fn each_element_of_a_transaction_is_changed_by_its_own_command() {
    let mut story = story();
    story.client("a").says([
        "WATCH w",
        "MULTI",
        "GET k",
        "LMPOP 1 l LEFT",
        "CLIENT ID",
        "KEYS *",
        "GET k",
        "EXEC",
        "GET after",
    ]);
    let inside =
        ["WATCH t:w", "MULTI", "GET t:k", "LMPOP 1 t:l LEFT", "ECHO ", "KEYS t:*", "GET t:k"];
    story.conn(1).gets(inside).gets("EXEC");
    let queued = ["+OK", "+OK", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED", "+QUEUED"];
    story.conn(1).answers(queued);
    let popped = "*2\r\n$3\r\nt:l\r\n*1\r\n$1\r\nx\r\n";
    story.conn(1).answers(&*format!(
        "*5\r\n$3\r\nt:v\r\n{popped}$0\r\n\r\n*1\r\n$3\r\nt:k\r\n$3\r\nt:v\r\n"
    ));
    let popped = popped.replace("$3\r\nt:l", "$1\r\nl");
    let exec = format!("*5\r\n$3\r\nt:v\r\n{popped}:1\r\n*1\r\n$1\r\nk\r\n$3\r\nt:v\r\n");
    story.client("a").gets(queued.into_iter().chain([&*exec]).collect::<Vec<&str>>());
    story.server().gets("GET t:after");
}

#[test]
fn what_is_refused_in_a_transaction_ends_it() {
    let mut story = story();
    story.client("a").says(["MULTI", "SET k 1", "FLUSHALL", "EXEC", "GET k"]);
    story.conn(1).gets(["MULTI", "SET t:k 1", "DISCARD"]).answers(["+OK", "+QUEUED", "+OK"]);
    story.client("a").gets(["+OK", "+QUEUED", WHOLE, ABORTED]);
    // One in a single packet is looked at no less.
    story.server().gets("GET t:k");
}

#[test]
fn users_and_policies_are_about_what_clients_say() {
    let mut users = Users::default();
    users.set(b"w", &[b"on", b"nopass", b"~app:*", b"&news", b"+@all"]).expect("rules");
    let what = What::new(&[], vec![b"app:bad*".as_slice().into()], false).expect("a pattern");
    let block = vec![Rule { what, name: String::new(), error: None, detail: () }];
    let policies = of(Rules { block, ..rules("t:") });
    let mut story = Story::with(Settings { policies, users: users.into(), ..Settings::default() });
    story.client("a").says(["AUTH w x", "GET app:1", "GET t:app:1", "GET app:bad"]);
    story.server().gets("GET t:app:1").answers("nil");
    let blocked = "-ERR respool: the operator has blocked this request (policies.block)";
    story.client("a").gets(["+OK", "nil", "-NOPERM No permissions to access a key", blocked]);
    story.client("a").says("PUBLISH news x");
    story.server().gets("PUBLISH t:news x");
}

#[test]
fn who_listens_hears_the_names_it_said() {
    let mut story = story();
    story.client("a").says("SUBSCRIBE news");
    story.conn(1).gets("subscribe t:news");
    story.conn(1).answers("*3\r\n$9\r\nsubscribe\r\n$6\r\nt:news\r\n:1\r\n");
    story.client("a").gets("*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    story.conn(1).answers("*3\r\n$7\r\nmessage\r\n$6\r\nt:news\r\n$6\r\nt:news\r\n");
    story.client("a").gets("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$6\r\nt:news\r\n");
    story.client("a").says("PSUBSCRIBE n*");
    story.conn(1).gets("psubscribe t:n*");
    story.conn(1).answers("*3\r\n$10\r\npsubscribe\r\n$4\r\nt:n*\r\n:2\r\n");
    story.client("a").gets("*3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:2\r\n");
    let message = |pattern: &str, channel: &str| {
        wire(&format!(
            "*4\r\n$8\r\npmessage\r\n${}\r\n{pattern}\r\n${}\r\n{channel}\r\n$1\r\nx\r\n",
            pattern.len(),
            channel.len()
        ))
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    story.conn(1).answers(&*text(message("t:n*", "t:nope")));
    story.client("a").gets(&*text(message("n*", "nope")));
    story.client("a").says("UNSUBSCRIBE");
    story.conn(1).gets("unsubscribe t:news");
    story.conn(1).answers("*3\r\n$11\r\nunsubscribe\r\n$6\r\nt:news\r\n:1\r\n");
    story.client("a").gets("*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let events = "-ERR respool: keyspace notifications are about all keys, and cannot be had in a namespace (policies.namespace)";
    story.client("b").says("PSUBSCRIBE __keyspace@0__:*").gets(events);
}

/// A client's SUBSCRIBE, and its server's confirmation of the other name.
fn listens(story: &mut Story, client: &str, verb: &str, said: &str) {
    let confirmed = |name: &str| {
        let (of_verb, of_name) = (verb.len(), name.len());
        format!("*3\r\n${of_verb}\r\n{verb}\r\n${of_name}\r\n{name}\r\n:1\r\n")
    };
    let known = format!("t:{said}");
    story.client(client).says(&*format!("{} {said}", verb.to_uppercase()));
    story.server().gets(&*format!("{verb} {known}")).answers(&*confirmed(&known));
    story.client(client).gets(&*confirmed(said));
}

// Found by an audit: the channel of invalidations had no prefix, so one namespace could publish into the caches of another one.
#[test]
fn no_channel_is_left_out_of_the_namespace() {
    let names =
        ["__redis__:invalidate", "__sentinel__:hello", "__keyspace@0__:k", "+switch-master"];
    for name in names {
        let mut story = story();
        story.client("a").says([&*format!("PUBLISH {name} x"), &*format!("SPUBLISH {name} x")]);
        story
            .server()
            .gets([&*format!("PUBLISH t:{name} x"), &*format!("SPUBLISH t:{name} x")])
            .gets_nothing()
            .answers([":0", ":0"]);
        story.client("a").gets([":0", ":0"]).says(&*format!("PUBSUB NUMSUB {name}"));
        story.server().gets(&*format!("PUBSUB NUMSUB t:{name}"));
        let mut story = self::story();
        if !name.starts_with("__key") {
            listens(&mut story, "b", "subscribe", name);
            listens(&mut story, "c", "ssubscribe", name);
            listens(&mut story, "d", "psubscribe", name);
        }
        // Within a transaction, and with a message that is not kept.
        story.client("e").says(["MULTI", &*format!("PUBLISH {name} x")]);
        story.server().gets(["MULTI", &*format!("PUBLISH t:{name} x")]);
        let message = "x".repeat(2 << 20);
        story.client("f").says(&*format!("PUBLISH {name} {message}"));
        let conns = 1..=story.connects_made();
        let got: Vec<String> = conns.flat_map(|conn| story.conn(conn).takes_one()).collect();
        assert!(got.len() == 1 && got[0].starts_with(&format!("PUBLISH t:{name} xxx")), "{got:?}");
    }
}

#[test]
fn invalidations_come_to_clients_in_resp2_and_nobody_else_can_tell_them() {
    let mut story = story();
    let id = number_of(&mut story, "ear");
    listens(&mut story, "ear", "subscribe", "__redis__:invalidate");
    story.client("a").says(&*format!("CLIENT TRACKING ON REDIRECT {id}")).gets("+OK");
    story.client("a").says("GET k");
    story.conn(2).gets("CLIENT TRACKING ON BCAST PREFIX ").answers("+OK");
    story.conn(3).gets("GET t:k").answers("\"v\"");
    story.client("a").gets("\"v\"");
    story.conn(2).answers(&*changed("u:k t:k"));
    let told = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n";
    story.client("ear").gets(told);
    // A message on the servers' channel of that name is none of this namespace.
    story.conn(1).answers("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$1\r\nk\r\n");
    story.client("ear").gets_nothing();
    // Within the namespace it is a channel as any other, as it is at a server.
    story.conn(1).answers("*3\r\n$7\r\nmessage\r\n$22\r\nt:__redis__:invalidate\r\n$1\r\nk\r\n");
    story.client("ear").gets("*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$1\r\nk\r\n");
}

#[test]
fn rules_for_channels_are_about_the_channel_of_invalidations_too() {
    let mut users = Users::default();
    users.set(b"w", &[b"on", b"nopass", b"~*", b"&news", b"+@all"]).expect("rules");
    users.set(b"r", &[b"on", b"nopass", b"~*", b"&__redis__:*", b"+@all"]).expect("rules");
    let policies = of(rules("t:"));
    let mut story = Story::with(Settings { policies, users: users.into(), ..Settings::default() });
    let denied = "-NOPERM No permissions to access a channel";
    for line in ["SUBSCRIBE __redis__:invalidate", "PUBLISH __redis__:invalidate x"] {
        story.client("a").says(["AUTH w x", line]).gets(["+OK", denied]);
    }
    story.client("b").says(["AUTH r x", "PUBLISH __redis__:invalidate x"]).gets("+OK");
    story.server().gets("PUBLISH t:__redis__:invalidate x");
}

#[test]
fn a_large_request_is_streamed_with_another_key() {
    let mut story = story();
    let set = large_set("big", 2 << 20);
    story.client("a").sends(&set[..1 << 20]);
    assert!(story.conn(1).bytes_of_unfinished() > (1 << 20) - 100, "what came went on at once");
    story.client("a").sends(&set[1 << 20..]);
    let got = story.conn(1).takes_one().expect("the request");
    assert!(got.starts_with("SET t:big xxxx") && story.conn(1).bytes_of_unfinished() == 0);
    story.conn(1).answers("+OK");
    story.client("a").gets("+OK").says("GET big");
    story.server().gets("GET t:big");
    // One that could not be changed as it comes is kept until it is whole.
    let value = "x".repeat(2 << 20);
    story.client("b").says(&*format!("MSET k {value} l 1"));
    let got = story.server().takes_one().expect("the request");
    assert!(got.starts_with("MSET t:k xxxx") && got.ends_with(" t:l 1"));
}

#[test]
fn what_only_the_server_knows_is_refused_and_what_nobody_knows_is_the_servers() {
    let mut story = story();
    story.client("a").says(["NO.SUCH k", "RANDOMKEY", "MIGRATE h 1 k 0 5"]);
    let refused = |name: &str| {
        format!("-ERR respool: '{name}' cannot be used in a namespace (policies.namespace)")
    };
    let never = "-ERR respool: 'migrate' is not given on to the server by the proxy: the server would wait for the other one, and respool would not find the keys";
    story.client("a").gets([&*refused("no.such"), &*refused("randomkey"), never]);
    assert_eq!(story.connects_made(), 0);
}

#[test]
fn with_another_namespace_clients_begin_anew() {
    let mut story = story();
    story.client("a").says("KEYS *");
    story.server().gets("KEYS t:*");
    story.reconfigures(|settings| settings.policies = of(rules("u:")));
    story.server().answers("*1\r\n$3\r\nt:k\r\n");
    story.client("a").gets("*1\r\n$1\r\nk\r\n").is_closed();
    story.client("b").says("GET k");
    story.server().gets("GET u:k").answers("nil");
    story.client("b").gets("nil");
    story.reconfigures(|settings| settings.policies = None);
    story.client("b").is_closed();
    story.client("c").says("GET k");
    story.server().gets("GET k");
}

#[test]
fn another_namespace_closes_who_has_sent_half_of_a_request_or_waits_for_a_channel() {
    for verb in ["subscribe", "psubscribe", "ssubscribe"] {
        let mut story = story();
        story.client("a").says(&*format!("{} news", verb.to_uppercase()));
        story.server().gets(&*format!("{verb} t:news"));
        story.reconfigures(|settings| settings.policies = of(rules("u:")));
        let text = format!("*3\r\n${}\r\n{verb}\r\n$6\r\nt:news\r\n:1\r\n", verb.len());
        story.server().answers(&*text);
        assert_eq!(story.client("a").takes_text(), "");
        story.client("a").is_closed();
    }
    let mut story = story();
    story.client("b").sends(&large_set("big", 2 << 20)[..1 << 20]);
    story.reconfigures(|settings| settings.policies = of(rules("u:")));
    story.client("b").is_closed();
}

// The server executes the commands behind it one by one, and their replies would show the server's names.
#[test]
fn who_has_sent_more_than_a_multi_that_is_refused_is_closed() {
    let refused = "-NOPERM this user has no permissions to run the 'multi' command";
    let keys = "*1\r\n$3\r\nt:k\r\n";
    let mut story = story();
    story.client("a").says(["MULTI", "KEYS *"]);
    story.conn(1).gets(["MULTI", "KEYS t:*"]).answers([refused, keys]);
    story.client("a").is_closed();
    story.client("b").says("MULTI");
    story.conn(2).gets("MULTI").answers(refused).is_closed();
    story.client("b").gets(refused).says("KEYS *");
    story.conn(3).gets("KEYS t:*").answers(keys);
    story.client("b").gets("*1\r\n$1\r\nk\r\n").is_open();
}
