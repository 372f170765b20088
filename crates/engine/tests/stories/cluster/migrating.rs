//! Transactions while a slot migrates (`SETSLOT MIGRATING`), with a key at the next owner or at no node yet.
//!
//! A server keeps `ASKING` for a whole transaction if it stands before `MULTI` (`resetClient`, Redis 6.2 to Valkey 9.1).

use crate::words::Story;

const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.";

#[test]
fn a_transaction_that_came_whole_goes_on_behind_asking() {
    let mut story = Story::warm_cluster();
    let whole = ["MULTI", "INCR a4", "INCR a4", "EXEC"];
    story.client("a").says(whole).says("INCR a4");
    story.node_conn("n1", 1).gets(whole).gets("INCR a4");
    story.node_conn("n1", 1).answers("+OK").ask("a4", "n2").ask("a4", "n2").answers(ABORT);
    story.node_conn("n1", 1).ask("a4", "n2");
    let n2 = story.node("n2").gets("ASKING").gets(whole).gets(["ASKING", "INCR a4"]);
    n2.answers(["+OK", "+OK", "+QUEUED", "+QUEUED", "*2\r\n:1\r\n:2\r\n", "+OK", ":3"]);
    story.client("a").gets(["+OK", "+QUEUED", "+QUEUED", "*2\r\n:1\r\n:2\r\n", ":3"]);
}

#[test]
fn a_transaction_that_comes_by_parts_goes_on_behind_asking() {
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "PING"]).gets(["+OK", "+QUEUED"]).says("INCR a4");
    story.node_conn("n1", 2).gets(["MULTI", "PING", "INCR a4"]).answers(["+OK", "+QUEUED"]);
    story.node_conn("n1", 2).ask("a4", "n2");
    story.node_conn("n2", 2).gets(["ASKING", "MULTI", "PING", "INCR a4"]);
    story.node_conn("n2", 2).answers(["+OK", "+OK", "+QUEUED", "+QUEUED"]);
    story.client("a").gets("+QUEUED").says(["INCR a4", "EXEC"]);
    // The server would queue a second ASKING.
    story.node_conn("n2", 2).gets(["INCR a4", "EXEC"]);
    story.node_conn("n2", 2).answers(["+QUEUED", "*3\r\n+PONG\r\n:1\r\n:2\r\n"]);
    story.client("a").gets(["+QUEUED", "*3\r\n+PONG\r\n:1\r\n:2\r\n"]).says("GET b4");
}

#[test]
fn watched_keys_at_the_next_owner_have_asking_before_each_request() {
    let mut story = Story::warm_cluster();
    story.client("a").says("WATCH a4");
    story.node_conn("n1", 2).gets("WATCH a4").ask("a4", "n2");
    story.node_conn("n2", 2).gets(["ASKING", "WATCH a4"]).answers(["+OK", "+OK"]);
    story.client("a").gets("+OK").says("GET a4");
    story.node_conn("n2", 2).gets(["ASKING", "GET a4"]).answers(["+OK", "\"1\""]);
    story.client("a").gets("\"1\"").says(["MULTI", "SET a4 2", "EXEC"]);
    story.node_conn("n2", 2).gets(["ASKING", "MULTI", "SET a4 2", "EXEC"]);
    story.node_conn("n2", 2).answers(["+OK", "+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    story.client("a").gets(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
    // The next transaction goes by the table again.
    story.client("a").says(["MULTI"]).gets("+OK").says("INCR a4");
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4"]);
}

#[test]
fn a_blocking_command_beside_watched_keys_at_the_next_owner_goes_there() {
    let mut story = Story::warm_cluster();
    story.client("a").says("WATCH a4");
    story.node_conn("n1", 2).gets("WATCH a4").ask("a4", "n2");
    story.node_conn("n2", 2).gets(["ASKING", "WATCH a4"]).answers(["+OK", "+OK"]);
    story.client("a").gets("+OK").says("BLPOP a4 1");
    story.node_conn("n2", 2).gets(["ASKING", "BLPOP a4 1"]).answers(["+OK", "nil"]);
    story.client("a").gets("nil");
}

#[test]
fn a_transaction_whose_second_command_meets_the_migration_is_not_done() {
    let mut story = Story::warm_cluster();
    story.client("a").says("MULTI").gets("+OK").says("INCR a4");
    story.node_conn("n1", 2).gets(["MULTI", "INCR a4"]).answers(["+OK", "+QUEUED"]);
    story.client("a").gets("+QUEUED").says(["INCR {a4}x", "EXEC"]);
    story.node_conn("n1", 2).gets("INCR {a4}x").ask("{a4}x", "n2");
    story.node_conn("n1", 2).gets("EXEC").answers(ABORT);
    story.client("a").gets([
        "-ERR respool: the keys of this transaction went to another node in its middle, nothing of it was done",
        ABORT,
    ]);
    story.node("n2").gets_nothing();
}
