//! The command in front of `WAIT` and `WAITAOF`, which moves the write offset of their connection.
//!
//! Not here: primaries that were lost (`unconfirmed`), several primaries (`blocking`).

use crate::words::{HELLO_2, Story};
use engine::Settings;
use engine::settings::OnLoss;

/// The request in front of a `WAIT`, as stories show it.
pub(crate) const MOVES_OFFSET: &str =
    "FUNCTION RESTORE \n\0]\u{fffd}\\@\u{f}\u{7f}\u{fffd}\u{fffd} APPEND";

const NOPERM: &str = "-NOPERM this user has no permissions to run the 'function|restore' command";

/// A story with a server of this version.
fn server_of(version: &str) -> Story {
    let mut story = Story::new();
    let bytes = version.len();
    let hello = HELLO_2.replace("$5\r\n7.2.5", &format!("${bytes}\r\n{version}"));
    story.server_says_to("HELLO 2", &hello);
    story
}

// Found by an attack: WAIT counted all replicas at once, since PING does not move the offset since Redis 7.2.
#[test]
fn the_command_in_front_of_wait_is_one_that_moves_the_write_offset_of_this_server() {
    for (version, in_front) in [
        ("6.2.14", "PING"),
        ("7.0.15", "PING"),
        ("7.2.4", MOVES_OFFSET),
        ("8.2.3", MOVES_OFFSET),
        ("9.1.2", MOVES_OFFSET),
        ("unstable", MOVES_OFFSET),
    ] {
        for wait in ["WAIT 1 100", "WAITAOF 0 1 100"] {
            let mut story = server_of(version);
            story.client("a").says(["SET k 1", wait]);
            story.conn(1).gets("SET k 1").answers("+OK");
            story.conn(2).gets([in_front, wait]).answers(["+OK", ":0"]);
            story.client("a").gets(["+OK", ":0"]);
        }
    }
}

// Found by an attack: respool took a server without HELLO for an old one.
#[test]
fn both_commands_stand_in_front_of_wait_where_the_version_of_the_server_is_unknown() {
    let renamed = "-ERR unknown command 'FUNCTION', with args beginning with: 'RESTORE' ";
    let old = "-ERR unknown command `FUNCTION`, with args beginning with: `RESTORE`, ";
    for (reply, got) in [("+OK", ":1"), (old, ":1"), (renamed, renamed)] {
        let mut story = Story::new();
        story.server_says_to(
            "HELLO",
            "-ERR unknown command `HELLO`, with args beginning with: `2`, ",
        );
        story.client("a").says(["SET k 1", "WAIT 1 100"]);
        story.conn(1).gets("SET k 1").answers("+OK");
        story.conn(2).gets(["PING", MOVES_OFFSET, "WAIT 1 100"]).answers(["+PONG", reply, ":1"]);
        story.client("a").gets(["+OK", got]).is_open();
    }
}

// Found by a review: an unknown PING was taken for a sign of an old server.
#[test]
fn an_unknown_command_in_front_of_wait_counts_for_nothing_where_another_one_does_not_move_the_offset()
 {
    let no_ping = "-ERR unknown command `PING`, with args beginning with: ";
    let no_function = "-ERR unknown command `FUNCTION`, with args beginning with: `RESTORE`, ";
    for (version, in_front, error) in
        [("6.2.14", "PING", no_ping), ("7.2.4", MOVES_OFFSET, no_function)]
    {
        let mut story = server_of(version);
        story.client("a").says(["SET k 1", "WAIT 1 100"]);
        story.conn(1).gets("SET k 1").answers("+OK");
        story.conn(2).gets([in_front, "WAIT 1 100"]).answers([error, ":1"]).is_closed();
        story.client("a").gets(["+OK", error]).is_open();
    }
    let mut story = Story::new();
    story.server_says_to("HELLO", "-ERR unknown command `HELLO`, with args beginning with: `2`, ");
    story.client("a").says(["SET k 1", "WAIT 1 100"]);
    story.conn(1).gets("SET k 1").answers("+OK");
    story.conn(2).gets(["PING", MOVES_OFFSET, "WAIT 1 100"]).answers([no_ping, no_function, ":1"]);
    story.client("a").gets(["+OK", no_ping]).is_open();
}

#[test]
fn wait_of_a_client_that_watches_keys_has_a_command_in_front_too() {
    let mut story = Story::new();
    story.client("a").says(["SET k 1", "WATCH k", "WAIT 1 100"]);
    story.conn(1).gets("SET k 1").answers("+OK");
    story.conn(2).gets("WATCH k").answers("+OK");
    story.conn(2).gets([MOVES_OFFSET, "WAIT 1 100"]).answers(["+OK", ":0"]);
    story.client("a").gets(["+OK", "+OK", ":0"]);
}

#[test]
fn a_refused_command_in_front_is_the_reply_to_wait_and_closes_no_client() {
    for on_loss in [OnLoss::Error, OnLoss::Close] {
        let mut story = Story::with(Settings { on_upstream_loss: on_loss, ..Settings::default() });
        story.client("a").says(["WAIT 1 100", "PING"]);
        // The server counts with an old offset.
        story.conn(1).gets([MOVES_OFFSET, "WAIT 1 100"]).answers([NOPERM, ":1"]).is_closed();
        story.client("a").gets([NOPERM, "+PONG"]).is_open();
    }
}

#[test]
fn a_refused_command_in_front_at_one_of_several_servers_is_the_reply_to_wait() {
    let mut story = Story::warm_cluster();
    story.client("a").says("WAIT 1 100");
    for (node, reply) in [("n1", "+OK"), ("n2", NOPERM), ("n3", "+OK")] {
        story.node_conn(node, 2).gets([MOVES_OFFSET, "WAIT 1 100"]).answers([reply, ":1"]);
    }
    story.client("a").gets(NOPERM).is_open();
}

// Nothing can stand in front of it there.
#[test]
fn a_transaction_with_wait_is_refused_where_ping_does_not_move_the_offset() {
    const REFUSED: &str = "-EXECABORT Transaction discarded because of: respool cannot count replicas for WAIT or WAITAOF inside MULTI with this server; say it behind EXEC";
    let mut story = server_of("8.2.3");
    story.client("a").says(["MULTI", "SET k 1", "WAIT 1 0"]);
    story.conn(1).gets(["MULTI", "SET k 1", "WAIT 1 0"]).answers(["+OK", "+QUEUED", "+QUEUED"]);
    story.client("a").gets(["+OK", "+QUEUED", "+QUEUED"]).says("EXEC").gets(REFUSED);
    story.conn(1).gets("DISCARD").answers("+OK");
    let mut story = Story::warm_cluster();
    story.client("a").says(["MULTI", "WAIT 1 0", "EXEC"]).gets(["+OK", "+QUEUED", REFUSED]);
}
