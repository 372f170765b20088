//! Policies: what they refuse never reaches a server, what they delay keeps its order, and everything else goes as it always did.

use crate::words::{Story, large_set, request};
use engine::Settings;
use engine::acl::Users;
use engine::policy::{Again, Fault, Per, Policies, Rate, Renaming, Rule, Rules, Size, Unit, What};
use std::sync::Arc;

/// A rule about these commands and keys: `get key=a:*`. `own`: also about what the proxy answers itself.
fn rule<T>(words: &str, own: bool, detail: T) -> Rule<T> {
    let (keys, commands): (Vec<&str>, Vec<&str>) =
        words.split(' ').filter(|word| !word.is_empty()).partition(|word| word.starts_with("key="));
    let keys = keys.iter().map(|key| key.as_bytes()[4..].into()).collect();
    let what = What::new(&commands, keys, own).expect("commands");
    Rule { what, name: String::new(), error: None, detail }
}

fn rate(per_s: u64, burst: u64, per: Per, delay_ms: u64) -> Rate {
    Rate { unit: Unit::Requests, per_s, burst, per, delay_ms }
}

fn of(rules: Rules) -> Option<Arc<Policies>> {
    Policies::new(rules).map(Arc::new)
}

/// A client `a` that has spoken to its server, under these rules.
fn story(rules: Rules) -> Story {
    let mut story = Story::with(Settings { policies: of(rules), ..Settings::default() });
    story.client("a").says("TYPE warm");
    story.server().gets("TYPE warm").answers("+none");
    story.client("a").gets("+none");
    story
}

fn deny(words: &str) -> Rules {
    Rules { deny: vec![rule(words, true, ())], ..Rules::default() }
}

fn block(words: &str) -> Rules {
    Rules { block: vec![rule(words, true, ())], ..Rules::default() }
}

fn rated(words: &str, detail: Rate) -> Rules {
    Rules { rate: vec![rule(words, false, detail)], ..Rules::default() }
}

const BLOCKED: &str = "-ERR respool: the operator has blocked this request (policies.block)";
const TOO_MANY: &str = "-ERR respool: too many requests (policies.rate)";
const FAULT: &str = "-ERR respool: the operator lets this request fail (policies.fault)";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";
const READ_ONLY: &str = "-READONLY You can't write against a read only replica.";

fn denied(command: &str) -> String {
    format!("-ERR respool: the operator has denied the command '{command}' (policies.deny)")
}

#[test]
fn a_denied_command_is_refused_in_the_middle_of_a_pipeline() {
    let mut story = story(deny("keys config|set ping @dangerous"));
    story.client("a").says([
        "GET k",
        "KEYS *",
        "SET k v",
        "CONFIG SET a b",
        "PING",
        "FLUSHALL",
        "GET k",
    ]);
    story.server().gets(["GET k", "SET k v", "GET k"]).gets_nothing();
    story.server().answers(["nil", "+OK", "nil"]);
    let errors = ["keys", "config|set", "ping", "flushall"].map(denied);
    let [keys, set, ping, flushall] = errors.each_ref().map(String::as_str);
    story.client("a").gets(["nil", keys, "+OK", set, ping, flushall, "nil"]);
    // Inline as well.
    story.client("a").sends(b"keys *\r\n").gets(keys);
}

#[test]
fn users_come_first_and_then_policies() {
    let mut users = Users::default();
    users.set(b"w", &[b"on", b"nopass", b"~app:*", b"+@all", b"-flushall"]).expect("rules");
    let mut story = story(deny("flushall"));
    story.reconfigures(|settings| settings.users = users.into());
    story.client("b").says(["AUTH w x", "FLUSHALL", "GET other", "GET app:1"]);
    story.server().gets("GET app:1").answers("nil");
    story.client("b").gets([
        "+OK",
        "-NOPERM User w has no permissions to run the 'flushall' command",
        "-NOPERM No permissions to access a key",
        "nil",
    ]);
    let unknown = "-ERR unknown command 'NO.SUCH', with args beginning with: 'x' ";
    for client in ["a", "b"] {
        story.client(client).says("NO.SUCH x").gets(unknown);
    }
}

#[test]
fn a_command_that_was_renamed_goes_on_under_its_real_name() {
    let renaming =
        |from: &str, to: &str| Renaming { from: from.as_bytes().into(), to: to.as_bytes().into() };
    let rules = Rules {
        rename: vec![renaming("config", "conf-7"), renaming("set", "put"), renaming("keys", "")],
        ..Rules::default()
    };
    let mut story = story(rules);
    story.client("a").says(["GET k", "CONF-7 GET x", "put k v", "GET k"]);
    story.server().gets(["GET k", "config GET x", "set k v", "GET k"]);
    story.server().answers(["nil", "*0", "+OK", "nil"]);
    story.client("a").gets(["nil", "*0", "+OK", "nil"]);
    let unknown = |name: &str, args: &str| {
        format!("-ERR unknown command '{name}', with args beginning with: {args}")
    };
    story.client("a").says(["SET k v", "Keys *", "CONFIG GET x"]);
    let errors =
        [unknown("SET", "'k' 'v' "), unknown("Keys", "'*' "), unknown("CONFIG", "'GET' 'x' ")];
    story.client("a").gets(errors.each_ref().map(String::as_str));
    // A large one is not streamed past that.
    story.client("a").sends(&large_set("k", 1 << 20)).takes_text();
    story.server().gets_nothing();
    // In a transaction it ends that.
    story.client("a").says(["MULTI", "SET k v", "put k v", "EXEC"]);
    story.conn(2).gets("MULTI").answers("+OK");
    story.conn(2).gets(["set k v", "DISCARD"]).answers(["+QUEUED", "+OK"]);
    let text = story.client("a").takes_text();
    assert!(text.contains("unknown command 'SET'") && text.contains(ABORTED), "{text}");
}

// Found by a test from outside: a large request under a new name was an unknown command.
#[test]
fn a_large_request_under_a_new_name_is_done() {
    let rename = vec![Renaming { from: b"set".as_slice().into(), to: b"put".as_slice().into() }];
    let mut story = story(Rules { rename, ..Rules::default() });
    let mut put = large_set("k", 1 << 20);
    put[8..11].copy_from_slice(b"put");
    for begun in [11, 1_000, 900_000] {
        story.client("a").sends(&put[..begun]).sends(&put[begun..]);
        assert_eq!(story.server().takes_requests(), 1);
        story.server().answers("+OK");
        story.client("a").gets("+OK");
    }
    // A client without a login is refused.
    story.reconfigures(|settings| {
        let mut users = Users::default();
        users.set(b"default", &[b"off"]).expect("rules");
        settings.users = users.into();
    });
    story.client("b").sends(&put[..1_000]);
    assert!(story.client("b").takes_text().starts_with("-"));
}

#[test]
fn a_blocked_key_is_refused_wherever_it_stands() {
    let mut story = story(block("key=user:42:* key=news"));
    story.client("a").says([
        "GET user:1:x",
        "GET user:42:x",
        "MGET user:1:x user:42:x",
        "EVAL return 0 user:42:x",
        "EVAL x 1 user:42:x",
        "SORT user:1:x STORE\0 user:42:x",
        "BLPOP user:42:x 0",
        "PUBLISH news x",
        "SUBSCRIBE other news",
        "GET user:42",
    ]);
    story.server().gets(["GET user:1:x", "EVAL return 0 user:42:x", "GET user:42"]).gets_nothing();
    story.server().answers(["nil", ":1", "nil"]);
    story
        .client("a")
        .gets(["nil", BLOCKED, BLOCKED, ":1", BLOCKED, BLOCKED, BLOCKED, BLOCKED, BLOCKED, "nil"]);
}

#[test]
fn of_a_split_request_no_part_goes_when_one_key_is_blocked() {
    let mut story = Story::warm_cluster();
    story.reconfigures(|settings| settings.policies = of(block("mget mset del key=b4")));
    story.client("a").says(["MGET a4 b4 c1", "MSET a4 1 b4 1", "DEL c1 b4"]);
    story.client("a").gets([BLOCKED, BLOCKED, BLOCKED]);
    for node in ["n1", "n2", "n3"] {
        assert_eq!(story.node(node).waiting(), 0);
    }
    story.client("a").says("MGET a4 c1");
    assert_eq!((story.node("n1").waiting(), story.node("n3").waiting()), (1, 1));
}

#[test]
fn a_block_begins_and_ends_while_clients_are_there() {
    let mut story = story(block("get key=k"));
    story.client("a").says("GET k").gets(BLOCKED);
    story.reconfigures(|settings| settings.policies = None);
    story.client("a").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("a").gets("nil");
    story.reconfigures(|settings| settings.policies = of(block("get key=k")));
    story.client("a").says("GET k").gets(BLOCKED);
    story.client("new").says("GET k").gets(BLOCKED);
}

#[test]
fn what_is_refused_in_a_transaction_ends_it() {
    let mut story = story(block("key=bad"));
    story.client("a").says("MULTI");
    story.conn(2).gets("MULTI").answers("+OK");
    story.client("a").says(["SET k 1", "SET bad 1", "EXEC"]);
    story.conn(2).gets(["SET k 1", "DISCARD"]).answers(["+QUEUED", "+OK"]);
    story.client("a").gets(["+OK", "+QUEUED", BLOCKED, ABORTED]);
    // The same in one packet, which would go over the shared connection else.
    story.client("a").says(["MULTI", "SET bad 1", "EXEC", "GET k"]);
    story.conn(2).gets("MULTI").answers("+OK").gets("DISCARD").answers("+OK");
    story.conn(1).gets("GET k").answers("nil");
    story.client("a").gets(["+OK", BLOCKED, ABORTED, "nil"]);
}

#[test]
fn exec_itself_can_be_denied() {
    let mut story = story(deny("exec"));
    story.client("a").says(["MULTI", "SET k 1"]);
    story.conn(2).gets("MULTI").answers("+OK").gets("SET k 1").answers("+QUEUED");
    story.client("a").says("EXEC");
    story.conn(2).gets("DISCARD").answers("+OK");
    let text = story.client("a").takes_text();
    assert!(text.contains("-EXECABORT") && text.contains("denied the command 'exec'"), "{text}");
    story.client("a").says("GET k");
    story.conn(1).gets("GET k");
}

#[test]
fn in_read_only_mode_writes_get_a_replicas_words() {
    let mut story = story(Rules { read_only: true, ..Rules::default() });
    story.client("a").says([
        "GET k",
        "SET k v",
        "DEL k",
        "EVAL x 0",
        "EVAL_RO x 0",
        "PUBLISH c m",
        "PING",
        "FLUSHALL",
        "BLPOP k 0",
    ]);
    story.server().gets(["GET k", "EVAL_RO x 0", "PUBLISH c m"]).gets_nothing();
    story.server().answers(["nil", ":1", ":0"]);
    story
        .client("a")
        .gets(["nil", READ_ONLY, READ_ONLY, READ_ONLY, ":1", ":0", "+PONG", READ_ONLY, READ_ONLY]);
    // One that writes and would be streamed.
    story.client("a").sends(&large_set("k", 1 << 20)).gets(READ_ONLY);
    let error = Some("READONLY until noon".to_owned());
    story.reconfigures(|settings| {
        settings.policies =
            of(Rules { read_only: true, read_only_error: error, ..Rules::default() });
    });
    story.client("a").says("SET k v").gets("-READONLY until noon");
}

#[test]
fn what_was_queued_before_writes_were_refused_is_refused_with_exec() {
    let mut story = story(deny("keys"));
    story.client("a").says(["MULTI", "SET k 1"]);
    story.conn(2).gets("MULTI").answers("+OK").gets("SET k 1").answers("+QUEUED");
    story.client("a").gets(["+OK", "+QUEUED"]);
    story.reconfigures(|settings| {
        settings.policies = of(Rules { read_only: true, ..Rules::default() });
    });
    story.client("a").says("EXEC");
    story.conn(2).gets("DISCARD").answers("+OK");
    let text = story.client("a").takes_text();
    assert!(text.starts_with("-EXECABORT") && text.contains("READONLY"), "{text}");
}

#[test]
fn a_request_that_is_too_large_is_refused_before_it_is_streamed() {
    let size = |bytes_max: u64, args_max: u64| Size { bytes_max, args_max };
    let large = "-ERR respool: this request is too large (policies.size)";
    let mut story = story(Rules {
        size: vec![
            rule("", false, size(600_000, u64::MAX)),
            rule("set key=small:*", false, size(100, u64::MAX)),
            rule("mget", false, size(u64::MAX, 3)),
        ],
        ..Rules::default()
    });
    story.client("a").says(["GET k", "MGET a b", "MGET a b c"]);
    story.server().gets(["GET k", "MGET a b"]).answers(["nil", "*0"]);
    story.client("a").gets(["nil", "*0", large]);
    story.client("a").sends(&large_set("small:1", 200)).gets(large);
    // Of a megabyte nothing goes to the server, and nothing is kept.
    let before = story.server().bytes();
    story.client("a").sends(&large_set("k", 1 << 20)).gets(large);
    let mut begun = large_set("k", 1 << 20);
    begun.truncate(300_000);
    story.client("b").sends(&begun).gets(large);
    assert_eq!(story.server().bytes(), before);
    story.client("b").sends(&large_set("k", 1 << 20)[300_000..]).gets_nothing();
    story.client("b").says("GET k");
    story.server().gets("GET k");
    // Large, but not too large: it is streamed as ever.
    story.client("a").sends(&large_set("k", 500_000)).gets_nothing();
    let written: usize = (1..=story.connects_made()).map(|conn| story.conn(conn).bytes()).sum();
    assert!(written > 500_000);
}

#[test]
fn a_rate_lets_a_burst_pass_and_refuses_the_rest() {
    let mut story = story(rated("get", rate(10, 3, Per::All, 0)));
    story.client("a").says(["GET 1", "GET 2", "SET k v", "GET 3", "GET 4"]);
    story.client("b").says("GET 5").gets(TOO_MANY);
    story.server().gets(["GET 1", "GET 2", "SET k v", "GET 3"]).gets_nothing();
    story.server().answers(["nil", "nil", "+OK", "nil"]);
    story.client("a").gets(["nil", "nil", "+OK", "nil", TOO_MANY]);
    story.after_ms(100);
    story.client("a").says(["GET 6", "GET 7"]);
    story.server().gets("GET 6").gets_nothing();
}

/// So many new clients in a second.
fn newcomers(per_s: u64, burst: u64, per: Per) -> Rule<Rate> {
    let detail = Rate { unit: Unit::Connections, ..rate(per_s, burst, per, 0) };
    rule("", false, detail)
}

#[test]
fn who_comes_too_early_is_refused_and_costs_nothing() {
    const TOO_EARLY: &[u8] = b"-ERR respool: too many new connections (policies.rate)\r\n";
    let mut of_one = newcomers(1, 2, Per::Address);
    of_one.name = "one".to_owned();
    of_one.error = Some("LATER please".to_owned());
    let rules = Rules { connections: vec![of_one, newcomers(10, 3, Per::All)], ..Rules::default() };
    let settings = Settings { policies: of(rules), ..Settings::default() };
    let mut story = Story::with(settings);
    let comes = |story: &mut Story, addr: &str| {
        story.engine.unless_too_many_come(story.now, addr).unwrap_or(b"+".to_vec())
    };
    assert_eq!(comes(&mut story, "10.0.0.1:1"), b"+");
    assert_eq!(comes(&mut story, "10.0.0.1:2"), b"+");
    assert_eq!(comes(&mut story, "10.0.0.1:3"), b"-LATER please\r\n");
    // That one has cost nothing of what all share.
    assert_eq!(comes(&mut story, "10.0.0.2:1"), b"+");
    assert_eq!(comes(&mut story, "10.0.0.3:1"), TOO_EARLY);
    story.after_ms(100);
    assert_eq!(comes(&mut story, "10.0.0.1:4"), b"-LATER please\r\n");
    assert_eq!(comes(&mut story, "10.0.0.3:1"), b"+");
    story.after_ms(1_000);
    assert_eq!(comes(&mut story, "10.0.0.1:5"), b"+");
    let report = story.report();
    let counted: Vec<_> = report.policies.iter().map(|of| (&*of.name, of.counts[0])).collect();
    assert_eq!(counted, [("", 1), ("one", 2)]);
    // Requests go as if there were no policy, on their shortest way.
    story.client("a").says(["GET 1", "GET 2"]);
    story.server().gets(["GET 1", "GET 2"]).answers(["nil", "nil"]);
    story.client("a").gets(["nil", "nil"]);
    // Who could not come in any case does not count.
    story.engine.drain();
    (0..9).for_each(|_| assert_eq!(comes(&mut story, "10.0.0.9:1"), b"+"));
}

#[test]
fn requests_of_one_address_have_one_measure() {
    let mut story = story(rated("get", rate(1, 2, Per::Address, 0)));
    story.client("a").says("GET 1");
    story.client("b").says(["GET 2", "GET 3"]);
    story.server().gets(["GET 1", "GET 2"]).gets_nothing();
    story.server().answers(["nil", "nil"]);
    story.client("a").gets("nil");
    story.client("b").gets(["nil", TOO_MANY]);
}

#[test]
fn each_client_user_or_prefix_has_its_own_measure() {
    let mut story = story(rated("get", rate(1, 1, Per::Client, 0)));
    story.client("a").says(["GET 1", "GET 2"]);
    story.client("b").says(["GET 3", "GET 4"]);
    story.server().gets(["GET 1", "GET 3"]).gets_nothing();
    story.server().answers(["nil", "nil"]);
    story.client("a").gets(["nil", TOO_MANY]);
    story.client("b").gets(["nil", TOO_MANY]);
    story.reconfigures(|settings| {
        settings.policies = of(rated("get mget", rate(1, 1, Per::Prefix, 0)));
    });
    story.client("a").says(["GET x:1", "GET y:1", "GET x:2", "MGET z:1 y:2", "MGET z:1 z:2"]);
    story.server().gets(["GET x:1", "GET y:1", "MGET z:1 z:2"]).gets_nothing();
    story.server().answers(["nil", "nil", "*0"]);
    story.client("a").gets(["nil", "nil", TOO_MANY, TOO_MANY, "*0"]);
    story.reconfigures(|settings| {
        let mut users = Users::default();
        users.set(b"w", &[b"on", b"nopass", b"~*", b"+@all"]).expect("rules");
        settings.users = users.into();
        settings.policies = of(rated("get", rate(1, 1, Per::User, 0)));
    });
    story.client("c").says(["AUTH w x", "GET 1", "GET 2"]);
    story.client("a").says(["GET 3", "GET 4"]);
    story.server().gets(["GET 1", "GET 3"]).gets_nothing();
}

#[test]
fn what_comes_too_early_waits_and_holds_what_is_behind_it() {
    let mut story = story(rated("get", rate(10, 1, Per::All, 250)));
    story.client("a").says(["GET 1", "GET 2", "SET k v", "PING"]);
    story.server().gets("GET 1").gets_nothing();
    story.server().answers("nil");
    story.client("a").gets("nil");
    // The one of another client goes after it, and one more would have to wait for too long.
    story.client("b").says("GET 3").gets_nothing();
    story.client("c").says("GET 4").gets(TOO_MANY);
    story.client("d").says("SET other v");
    story.server().gets("SET other v").answers("+OK");
    story.after_ms(99);
    story.server().gets_nothing();
    story.after_ms(1);
    story.server().gets(["GET 2", "SET k v"]).gets_nothing();
    story.server().answers(["nil", "+OK"]);
    story.client("a").gets(["nil", "+OK", "+PONG"]);
    story.after_ms(100);
    story.server().gets("GET 3").answers("nil");
    story.client("b").gets("nil");
    story.client("d").gets("+OK");
}

#[test]
fn only_so_many_wait() {
    let mut story = story(Rules { waiting_max: 2, ..rated("get", rate(10, 1, Per::All, 10_000)) });
    story.client("a").says("GET 1");
    for name in ["b", "c@10.0.0.2"] {
        story.client(name).says("GET 2").gets_nothing();
    }
    story.client("d").says("GET 3").gets(TOO_MANY);
    // One that leaves makes room, and is not waited for.
    story.client("b").dies();
    story.client("d").says("GET 3").gets_nothing();
    story.server().gets("GET 1").gets_nothing();
    story.after_ms(1_000);
    story.server().gets(["GET 2", "GET 3"]).gets_nothing();
}

#[test]
fn a_request_pays_once_however_long_it_waits_for_its_server() {
    let settings =
        Settings { policies: of(rated("", rate(10, 2, Per::All, 0))), ..Settings::default() };
    let mut story = Story::with(settings).by_hand();
    // The connection is not there yet: each of them is looked at again when it is.
    story.client("a").says("GET 1").gets_nothing();
    story.client("b").says("GET 2").gets_nothing();
    story.client("c").says("GET 3").gets(TOO_MANY);
    story.connects();
    story.server().takes_requests();
    story.server().answers(crate::words::HELLO_2);
    story.server().gets(["COMMAND", "GET 1", "GET 2"]).gets_nothing();
}

#[test]
fn bytes_are_counted_too() {
    let bytes = Rate { unit: Unit::Bytes, per_s: 1_000, burst: 1_000, per: Per::All, delay_ms: 0 };
    let mut story = story(rated("set", bytes));
    story.client("a").sends(&large_set("k", 800));
    story.client("a").sends(&large_set("k", 800));
    story.server().takes_requests();
    story.server().answers("+OK");
    story.client("a").gets(["+OK", TOO_MANY]);
}

#[test]
fn a_new_rule_lets_those_go_who_wait_for_an_old_one() {
    let mut story = story(rated("get", rate(1, 1, Per::All, 10_000)));
    story.client("a").says(["GET 1", "GET 2", "GET 3"]);
    story.server().gets("GET 1").gets_nothing();
    story.reconfigures(|settings| settings.policies = None);
    story.server().gets(["GET 2", "GET 3"]).answers(["nil", "nil", "nil"]);
    story.client("a").gets(["nil", "nil", "nil"]);
}

fn fault(words: &str, detail: Fault) -> Rules {
    Rules { fault: vec![rule(words, false, detail)], ..Rules::default() }
}

#[test]
fn faults_hit_what_they_are_about_and_nothing_else() {
    let always = Fault { per_million: 1_000_000, delay_ms: 0, fails: true };
    let mut story = story(fault("get key=bad:*", always));
    story.client("a").says(["GET bad:1", "GET good", "SET bad:1 x", "PING"]);
    story.server().gets(["GET good", "SET bad:1 x"]).answers(["nil", "+OK"]);
    story.client("a").gets([FAULT, "nil", "+OK", "+PONG"]);
    story.client("a").says("MULTI");
    story.conn(2).gets("MULTI").answers("+OK");
    story.client("a").says(["GET bad:1", "EXEC"]);
    story.conn(2).gets("DISCARD").answers("+OK");
    story.client("a").gets(["+OK", FAULT, ABORTED]);
}

#[test]
fn some_of_many_requests_fail() {
    let mut story = story(fault("get", Fault { per_million: 250_000, delay_ms: 0, fails: true }));
    let mut failed = 0;
    for _ in 0..400 {
        story.client("a").says("GET k");
        match story.server().takes_one() {
            Some(_) => {
                story.server().answers("nil");
                story.client("a").gets("nil");
            }
            None => {
                failed += 1;
                story.client("a").gets(FAULT);
            }
        }
    }
    assert!((60..=140).contains(&failed), "{failed}");
}

#[test]
fn a_delayed_request_keeps_its_order_and_may_fail_afterwards() {
    let mut story =
        story(fault("get", Fault { per_million: 1_000_000, delay_ms: 50, fails: false }));
    story.client("a").says(["SET k v", "GET k", "SET k w"]);
    story.server().gets("SET k v").gets_nothing();
    story.server().answers("+OK");
    story.client("b").says("SET b x");
    story.server().gets("SET b x").answers("+OK");
    story.after_ms(50);
    story.server().gets(["GET k", "SET k w"]).answers(["\"v\"", "+OK"]);
    story.client("a").gets(["+OK", "\"v\"", "+OK"]);
    story.reconfigures(|settings| {
        let detail = Fault { per_million: 1_000_000, delay_ms: 50, fails: true };
        settings.policies = of(fault("get", detail));
    });
    story.client("a").says("GET k").gets_nothing();
    story.after_ms(50);
    story.client("a").gets(FAULT);
    story.server().gets_nothing();
}

#[test]
fn a_large_request_waits_as_others_do() {
    let mut story =
        story(fault("set", Fault { per_million: 1_000_000, delay_ms: 50, fails: false }));
    let before = story.server().bytes();
    story.client("a").sends(&large_set("k", 1 << 20)).gets_nothing();
    assert_eq!((story.connects_made(), story.server().bytes()), (1, before));
    story.after_ms(50);
    let written: usize = (1..=story.connects_made()).map(|conn| story.conn(conn).bytes()).sum();
    assert!(written > 1 << 20);
}

fn double_delete(words: &str, delay_ms: u64) -> Rules {
    Rules { double_delete: vec![rule(words, false, Again { delay_ms })], ..Rules::default() }
}

#[test]
fn a_key_that_was_deleted_is_deleted_once_more() {
    let mut story = story(double_delete("del unlink key=cache:*", 500));
    story.client("a").says(["DEL cache:1 other", "GET k", "UNLINK cache:2"]);
    story.server().gets(["DEL cache:1 other", "GET k", "UNLINK cache:2"]);
    story.server().answers([":2", "nil", ":1"]);
    story.client("a").gets([":2", "nil", ":1"]);
    story.after_ms(499);
    story.server().gets_nothing();
    story.after_ms(1);
    story.server().gets(["DEL cache:1", "DEL cache:2"]).gets_nothing();
    // Nobody is told, whatever comes, and whoever asks next gets what is theirs.
    story.client("a").says("GET k");
    story.server().gets("GET k").answers([":1", "-ERR no", "\"v\""]);
    story.client("a").gets("\"v\"");
    story.after_ms(1_000);
    story.server().gets_nothing();
    assert!(story.engine.is_quiet() || story.engine.client_count() > 0);
}

#[test]
fn of_a_transaction_keys_are_deleted_once_more_if_it_was_done() {
    let mut story = story(double_delete("del", 100));
    for (last, reply, again) in
        [("EXEC", "*1\r\n:1\r\n", true), ("EXEC", "*-1\r\n", false), ("DISCARD", "+OK", false)]
    {
        story.client("a").says("MULTI");
        story.conn(2).gets("MULTI").answers("+OK");
        story.client("a").says(["DEL k", last]);
        story.conn(2).gets(["DEL k", last]).answers(["+QUEUED", reply]);
        story.client("a").takes();
        story.after_ms(100);
        match again {
            true => drop(story.conn(1).gets("DEL k").answers(":0")),
            false => drop(story.conn(1).gets_nothing()),
        }
    }
    // A transaction that was begun and given up leaves nothing behind.
    story.after_ms(1_000);
    story.conn(1).gets_nothing();
}

#[test]
fn the_second_deletion_goes_to_the_owner_and_follows_a_move() {
    let mut story = Story::warm_cluster();
    story.reconfigures(|settings| settings.policies = of(double_delete("del", 100)));
    story.client("a").says("DEL b4");
    story.node("n2").gets("DEL b4").answers(":1");
    story.client("a").gets(":1");
    story.client("a").dies();
    story.after_ms(100);
    story.node("n2").gets("DEL b4").moved("b4", "n1");
    story.node("n1").gets("DEL b4").answers(":1");
}

#[test]
fn a_second_deletion_waits_for_a_server_that_is_away() {
    let mut story = story(double_delete("del", 1_000));
    story.client("a").says("DEL k");
    story.server().gets("DEL k").answers(":1");
    let mut story = story.by_hand();
    story.server().dies("reset");
    story.after_ms(1_500);
    story.connects();
    let last = story.connects_made();
    story.conn(last).takes_requests();
    story.conn(last).answers([crate::words::HELLO_2]);
    story.after_ms(200);
    assert!(story.conn(last).takes_requests() > 0, "the deletion, among what else is asked");
}

#[test]
fn a_second_deletion_goes_behind_clients_that_wait_for_room() {
    let mut story = story(double_delete("del", 100));
    story.reconfigures(|settings| settings.limits.upstream_out_high_bytes = 64 << 10);
    story.client("a").says("DEL k");
    story.server().gets("DEL k").answers(":1").stops_taking();
    let large = format!("MGET {}", "key ".repeat(9_000).trim_end());
    story.client("large").says(large.as_str());
    story.client("waits").says("GET waits");
    // It is due, and is looked at again after 100 ms: when there is room, and the client has not had its turn yet.
    story.after_ms(199).server().takes_again();
    story.now = story.now.plus_ms(1);
    story.turn();
    assert!(story.server().takes_one().is_some_and(|line| line.len() > 9_000));
    story.server().gets("GET waits").gets_nothing();
    story.after_ms(100).server().gets("DEL k");
}

// Found by an attack: thirty clients with 20,000 keys each made a `SET` of another client wait for as many turns.
#[test]
fn a_small_request_does_not_wait_for_the_turns_of_large_ones() {
    let mut story = story(double_delete("del", 1_000));
    story.reconfigures(|settings| settings.limits.upstream_out_high_bytes = 1 << 20);
    let names: Vec<String> = (0..20).map(|number| format!("large{number}")).collect();
    for name in names.iter().map(String::as_str).chain(["small"]) {
        story.client(name).says("PING").gets("+PONG");
    }
    let large = request(&format!("DEL {}", "k ".repeat(5_000).trim_end()));
    for name in &names {
        story.client(name).sends_at_once(&large);
    }
    story.client("small").sends_at_once(&request("DEL k"));
    story.turn_once();
    let before = story.server().position("DEL k");
    assert!(before < 5, "{before} large requests stand before it");
    story.turn();
    assert_eq!(story.server().waiting(), 21);
}

#[test]
fn what_policies_did_is_told() {
    let mut rules = block("get key=bad");
    rules.block[0].name = "incident".to_owned();
    rules.deny = vec![rule("keys", true, ())];
    let mut story = story(rules);
    story.client("a").says(["GET bad", "KEYS *", "KEYS *", "GET bad", "GET bad"]).takes();
    let text = story.client("a").says("INFO policies").takes_text();
    assert!(text.contains("policy_block-incident:refused=3,delayed=0,"), "{text}");
    assert!(text.contains("policy_deny:refused=2,delayed=0,"), "{text}");
    let stats = story.client("a").says("INFO commandstats").takes_text();
    assert!(
        stats.contains("cmdstat_keys:calls=0,usec=0,usec_per_call=0.00,rejected_calls=2"),
        "{stats}"
    );
}

#[test]
fn who_watches_is_not_shown_what_is_refused() {
    let mut story = story(block("key=bad"));
    story.client("m").says("MONITOR").gets("+OK");
    story.client("a").says(["GET bad", "GET good"]);
    let shown = story.client("m").takes_text();
    assert!(shown.contains("\"good\"") && !shown.contains("\"bad\""), "{shown}");
}

#[test]
fn replies_that_nobody_wants_are_not_written() {
    let mut story = story(deny("keys"));
    story.client("a").says(["CLIENT REPLY SKIP", "KEYS *", "KEYS *", "CLIENT REPLY OFF", "KEYS *"]);
    story.client("a").gets(&denied("keys"));
    story.client("a").says("CLIENT REPLY ON").gets("+OK");
}

// A waiting BLPOP popped an element in read-only mode.
#[test]
fn who_waits_for_what_a_new_rule_is_against_is_closed() {
    let read_only = Rules { read_only: true, ..Rules::default() };
    for (rules, is_open) in
        [(read_only, false), (deny("blpop"), false), (block("key=l"), false), (deny("get"), true)]
    {
        let mut story = Story::new();
        story.client("a").says("BLPOP l 0");
        story.conn(1).gets("BLPOP l 0");
        story.reconfigures(|settings| settings.policies = of(rules));
        if is_open {
            story.conn(1).answers("*-1\r\n");
            story.client("a").gets("*-1\r\n").is_open();
        } else {
            story.client("a").is_closed();
            story.conn(1).is_closed();
        }
    }
}
