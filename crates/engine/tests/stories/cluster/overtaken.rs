//! A request that a server does not serve while it does what stands behind it.

use crate::words::Story;
use crate::words::cluster::list;

const TRYAGAIN: &str = "-TRYAGAIN Multiple keys request during rehashing of slot";
const OVERTAKEN: &str = "-ERR respool: not done: while slots or nodes were on the move, the server did what \
                         this client sent behind it";
const GAVE_UP: &str = "-ERR respool: given up after 1 tries, the last answer was: TRYAGAIN \
                       Multiple keys request during rehashing of slot";

#[test]
fn what_was_done_behind_it_is_not_undone() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MSET {a4}x 1 {a4}y 1", "GET {a4}z", "SET {a4}x 2"]);
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "GET {a4}z", "SET {a4}x 2"]);
    story.node("n1").answers([TRYAGAIN, "nil", "+OK"]);
    story.after_ms(1).client("a").gets([OVERTAKEN, "nil", "+OK"]);
    story.after_ms(100).node("n1").gets_nothing();
}

#[test]
fn a_read_that_was_put_off_does_not_see_what_was_written_behind_it() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MGET {a4}x {a4}y", "SET {a4}x 2"]);
    story.node("n1").gets(["MGET {a4}x {a4}y", "SET {a4}x 2"]).answers([TRYAGAIN, "+OK"]);
    story.after_ms(1).client("a").gets([OVERTAKEN, "+OK"]);
    story.after_ms(100).node("n1").gets_nothing();
}

#[test]
fn a_read_behind_it_sees_what_it_wrote() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MSET {a4}x 1 {a4}y 1", "GET {a4}x", "GET {a4}z", "GET {a4}y"]);
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "GET {a4}x", "GET {a4}z", "GET {a4}y"]);
    story.node("n1").answers([TRYAGAIN, "\"old\"", "\"z\"", "\"old\""]).gets_nothing();
    story.after_ms(1).node("n1").gets(["MSET {a4}x 1 {a4}y 1", "GET {a4}x", "GET {a4}y"]);
    story.node("n1").answers(["+OK", "\"1\"", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\"", "\"z\"", "\"1\""]);
}

#[test]
fn what_does_not_concern_it_is_not_waited_for_long() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MSET {a4}x 1 {a4}y 1", "SET {a4}z 2", "GET b4"]);
    story.client("b").says("SET {a4}x 9");
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "SET {a4}z 2", "SET {a4}x 9"]);
    story.node("n1").answers(TRYAGAIN);
    // Mostly they are answered at once; if not, it is looked at what they are.
    story.after_ms(9).node("n1").gets_nothing();
    story.after_ms(2).node("n1").gets("MSET {a4}x 1 {a4}y 1").answers(["+OK", "+OK", "+OK"]);
    story.node("n2").gets("GET b4").answers("nil");
    story.client("a").gets(["+OK", "+OK", "nil"]);
    story.client("b").gets("+OK");
}

#[test]
fn what_concerns_it_is_waited_for() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MSET {a4}x 1 {a4}y 1", "GET {a4}z", "SET {a4}y 2"]);
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "GET {a4}z", "SET {a4}y 2"]);
    story.node("n1").answers([TRYAGAIN, "nil"]);
    story.after_ms(100).node("n1").gets_nothing().answers(TRYAGAIN);
    story.after_ms(1).node("n1").gets(["MSET {a4}x 1 {a4}y 1", "SET {a4}y 2"]);
    story.node("n1").answers(["+OK", "+OK"]);
    story.client("a").gets(["+OK", "nil", "+OK"]);
}

// The slot went to n2 and came back between two requests of a pipeline.
#[test]
fn what_a_slot_that_came_back_let_by_is_not_undone() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "SET a8 1", "SET a4 2"]);
    story.node("n1").gets(["SET a4 1", "SET a8 1", "SET a4 2"]).moved("a4", "n2");
    story.node("n2").gets_nothing();
    story.node("n1").answers(["+OK", "+OK"]);
    story.after_ms(1).client("a").gets([OVERTAKEN, "+OK", "+OK"]);
    story.after_ms(100).node("n1").gets_nothing();
    story.node("n2").gets_nothing();
}

#[test]
fn a_read_that_a_slot_let_by_that_came_back_is_asked_again() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "GET a4", "GET a8"]);
    story.node("n1").gets(["SET a4 1", "GET a4", "GET a8"]).moved("a4", "n2");
    story.node("n1").answers(["\"old\"", "\"8\""]);
    // n1 has it again, as n2 says.
    story.node("n2").gets(["SET a4 1", "GET a4"]).moved("a4", "n1").moved("a4", "n1");
    story.node("n1").gets(["SET a4 1", "GET a4"]).answers(["+OK", "\"1\""]);
    story.client("a").gets(["+OK", "\"1\"", "\"8\""]);
}

#[test]
fn what_lies_elsewhere_does_not_keep_a_moved_request_from_going() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "SET a8 1", "MULTI", "SET a12 1", "EXEC"]);
    story.node("n1").gets(["SET a4 1", "SET a8 1", "MULTI", "SET a12 1", "EXEC"]);
    story.node("n1").moved("a4", "n2").answers(["+OK", "+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    story.node("n2").gets("SET a4 1").answers("+OK");
    story.client("a").gets(["+OK", "+OK", "+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
}

#[test]
fn a_transaction_that_was_sent_on_is_not_done_behind_what_was_done() {
    let mut story = Story::warm_cluster();
    let all = ["MULTI", "SET a4 1", "EXEC", "SET a8 2", "SET a4 2"];
    story.client("a").says(all);
    story.node_conn("n1", 1).gets(all).answers("+OK").moved("a4", "n2");
    story.node_conn("n1", 1).answers(["-EXECABORT x", "+OK", "+OK"]);
    let abort = "-EXECABORT Transaction discarded because of previous errors.";
    story.after_ms(1).client("a").gets(["+OK", OVERTAKEN, abort, "+OK", "+OK"]);
    story.after_ms(100).node("n2").gets_nothing();
}

// A request with several keys, of which some are at the next owner, asks the old owner until the slot has gone.
#[test]
fn what_goes_behind_asking_does_not_overtake_a_request_that_cannot() {
    let mut story = Story::warm_cluster();
    let set = "MSET {a4}x 1 {a4}y 1";
    story.client("a").says([set, "INCR {a4}x", "INCR {a4}x"]);
    story.node("n1").gets([set, "INCR {a4}x", "INCR {a4}x"]);
    story.node("n1").answers(TRYAGAIN).ask("{a4}x", "n2").ask("{a4}x", "n2");
    for _ in 0..2 {
        story.after_ms(40).node("n2").gets_nothing();
        story.node("n1").gets(set).answers(TRYAGAIN);
    }
    story.after_ms(40).node("n2").gets_nothing();
    // The ASKs are old by then: their requests go to the owner, too.
    story.node("n1").gets([set, "INCR {a4}x", "INCR {a4}x"]);
    story.node("n1").moved("{a4}x", "n2").moved("{a4}x", "n2").moved("{a4}x", "n2");
    story.after_ms(240).node("n2").gets([set, "INCR {a4}x", "INCR {a4}x"]);
    story.node("n2").answers(["+OK", ":2", ":3"]);
    story.client("a").gets(["+OK", ":2", ":3"]);
}

#[test]
fn what_the_server_refused_did_not_overtake_anything() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "LPUSH a4 2"]);
    story.node("n1").gets(["SET a4 1", "LPUSH a4 2"]).moved("a4", "n2");
    story.node("n1").answers("-WRONGTYPE x").gets_nothing();
    story.node("n2").gets("SET a4 1").answers("+OK");
    story.client("a").gets(["+OK", "-WRONGTYPE x"]);
}

#[test]
fn a_script_that_failed_may_have_done_something() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "EVAL x 1 a4"]);
    story.node("n1").gets(["SET a4 1", "EVAL x 1 a4"]).moved("a4", "n2");
    story.node("n1").answers("-ERR in its middle");
    story.after_ms(1).client("a").gets([OVERTAKEN, "-ERR in its middle"]);
    story.node("n2").gets_nothing();
}

// Of what a server lost, only what concerns it keeps it from being done.
#[test]
fn a_moved_request_goes_on_when_the_server_is_lost_that_sent_it() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["SET a4 1", "SET a8 2"]);
    story.node("n1").gets(["SET a4 1", "SET a8 2"]).moved("a4", "n2");
    story.node("n1").dies("connection reset");
    story.node("n2").gets("SET a4 1").answers("+OK");
    story.client("a").gets(["+OK", "-ERR respool: upstream n1:7000: connection reset"]);
}

#[test]
fn reads_do_not_mind_each_other() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MGET {a4}x {a4}y", "GET {a4}x"]);
    story.node("n1").gets(["MGET {a4}x {a4}y", "GET {a4}x"]).answers([TRYAGAIN, "nil"]);
    story.after_ms(1).node("n1").gets("MGET {a4}x {a4}y").answers(&*list(["nil", "nil"]));
    story.client("a").gets([&*list(["nil", "nil"]), "nil"]);
}

#[test]
fn what_was_sent_on_behind_it_comes_behind_it_again() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2", "SET {a4}y 2"]);
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2", "SET {a4}y 2"]);
    story.node("n1").answers(TRYAGAIN).ask("{a4}x", "n2").moved("{a4}y", "n2");
    story.after_ms(1);
    story.node("n2").gets("MSET {a4}x 1 {a4}y 1");
    story.node("n2").gets(["ASKING", "SET {a4}x 2", "SET {a4}y 2"]);
    story.node("n2").answers(["+OK", "+OK", "+OK", "+OK"]);
    story.client("a").gets(["+OK", "+OK", "+OK"]);
}

#[test]
fn when_the_server_is_lost_nobody_knows_what_it_did() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2"]);
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2"]).answers(TRYAGAIN);
    story.node("n1").dies("connection reset");
    story
        .after_ms(1)
        .client("a")
        .gets([OVERTAKEN, "-ERR respool: upstream n1:7000: connection reset"]);
}

#[test]
fn it_is_given_up_in_time_when_nothing_is_heard_of_those_behind_it() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2"]);
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2"]).answers(TRYAGAIN);
    story.after_ms(1_900).client("a").gets_nothing();
    story.after_ms(200).client("a").gets(GAVE_UP);
    story.node("n1").gets_nothing().answers("+OK");
    story.client("a").gets("+OK");
}

#[test]
fn while_slots_move_nothing_is_sent_behind_a_request_with_several_keys() {
    let mut story = Story::warm_cluster();
    story.client("b").says("GET {a4}b");
    story.node("n1").gets("GET {a4}b").ask("{a4}b", "n2");
    story.node("n2").gets(["ASKING", "GET {a4}b"]).answers(["+OK", "nil"]);
    story.client("b").gets("nil");
    story.client("a").says(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2"]);
    story.node("n1").gets("MSET {a4}x 1 {a4}y 1").gets_nothing().answers(TRYAGAIN);
    story.after_ms(1).node("n1").gets("MSET {a4}x 1 {a4}y 1").gets_nothing().answers("+OK");
    story.node("n1").gets("SET {a4}x 2").answers("+OK");
    story.client("a").gets(["+OK", "+OK"]);
    // A second later they do not.
    story.after_ms(1_100).client("a").says(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2"]);
    story.node("n1").gets(["MSET {a4}x 1 {a4}y 1", "SET {a4}x 2"]);
}

// Three answers that say "not now" are no reason to follow no ASK any more.
#[test]
fn an_ask_that_comes_late_is_followed_as_long_as_the_slot_is_on_its_way() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MGET {a4}1 {a4}2");
    for _ in 0..5 {
        let asked = story.node("n1").takes_one();
        assert_eq!(asked.as_deref(), Some("MGET {a4}1 {a4}2"));
        story.node("n1").answers("-TRYAGAIN Multiple keys request during rehashing of slot");
        story.after_ms(40);
    }
    for _ in 0..2 {
        if let Some(asked) = story.node("n1").takes_one() {
            assert_eq!(asked, "MGET {a4}1 {a4}2");
            story.node("n1").ask("a4", "n2");
            story.after_ms(200);
        }
    }
    story.node("n2").gets(["ASKING", "MGET {a4}1 {a4}2"]).answers(["+OK", "*2\r\n:1\r\n:2\r\n"]);
    story.client("a").gets("*2\r\n:1\r\n:2\r\n");
}

// Each reply looks up its own keys: it does not compare them with all that is parked.
#[test]
fn of_hundreds_that_are_put_off_those_are_overtaken_whose_keys_are_written() {
    let mut story = Story::warm_cluster();
    let count = 100;
    let put_off: Vec<String> = (0..count).map(|n| format!("INCR {{a4}}{}", n % 50)).collect();
    let later: Vec<String> = (0..count).map(|n| format!("SET {{a4}}{} 1", 49 + n)).collect();
    let all: Vec<&str> = put_off.iter().chain(&later).map(String::as_str).collect();
    story.client("a").says(all.clone());
    story.node("n1").gets(all).answers(vec![TRYAGAIN; count]).answers(vec!["+OK"; count]);
    // One key of fifty is written behind them; the first of the others goes on when all before it were told.
    story.after_ms(1);
    let open: Vec<&str> =
        put_off.iter().map(String::as_str).filter(|line| *line != "INCR {a4}49").collect();
    story.node("n1").gets(open.clone()).answers(vec![":1"; open.len()]);
    let replies: Vec<&str> = (0..count)
        .map(|n| if n % 50 == 49 { OVERTAKEN } else { ":1" })
        .chain(vec!["+OK"; count])
        .collect();
    story.client("a").gets(replies);
}

// One look at the connection tells for which reply each of them waits: nobody is looked at again until that is there.
#[test]
fn what_waits_goes_on_with_the_last_reply_that_concerns_it() {
    let mut story = Story::warm_cluster();
    story.client("b").says("INCR {a4}x");
    story.client("c").says("INCR {a4}x");
    story.client("b").says(["SET {a4}x 1", "GET {a4}z"]);
    story.client("c").says(["GET {a4}z", "GET {a4}z"]);
    assert_eq!(story.node("n1").takes_requests(), 6);
    story.node("n1").answers([TRYAGAIN, TRYAGAIN]).gets_nothing();
    // Nothing concerns the one of c.
    story.after_ms(11).node("n1").gets("INCR {a4}x").gets_nothing();
    // The rest does not concern the one of b.
    story.node("n1").answers(TRYAGAIN).gets("INCR {a4}x").gets_nothing();
    story.node("n1").answers("nil");
    story.after_ms(5).node("n1").gets("SET {a4}x 1");
    story.node("n1").answers(["nil", "nil", ":1", ":2", "+OK"]);
    story.client("b").gets([":2", "+OK", "nil"]);
    story.client("c").gets([":1", "nil", "nil"]);
}
