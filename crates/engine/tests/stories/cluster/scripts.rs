//! Calls of scripts by digest, on servers that were not taught them.

use crate::words::Story;
use engine::news::Audience;

/// The digest of `return 1`.
const DIGEST: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

/// A cluster whose client said `SCRIPT LOAD` of [`BODY`], which has no blank.
fn loaded() -> Story {
    let mut story = Story::warm_cluster();
    story.client("a").sends(b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$8\r\nreturn 1\r\n");
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets("SCRIPT LOAD return 1").answers(&*format!("\"{DIGEST}\""));
    }
    story.client("a").gets(&*format!("\"{DIGEST}\""));
    story
}

fn call(key: &str) -> String {
    format!("EVALSHA {DIGEST} 1 {key}")
}

/// The question whether a server has the script.
fn exists() -> String {
    format!("SCRIPT EXISTS {DIGEST}")
}

#[test]
fn a_script_that_answers_noscript_itself_is_run_once() {
    for said in ["*1\r\n:1\r\n", "-NOPERM no", "*0\r\n"] {
        let mut story = loaded();
        story.client("a").says(&*call("a4"));
        story.node("n1").gets(["SCRIPT LOAD return 1", &*call("a4")]);
        story.node("n1").answers(["+x", "-NOSCRIPT No matching script. Please use EVAL."]);
        story.client("a").gets_nothing();
        story.node("n1").gets(&*exists()).answers(said);
        story.client("a").gets("-NOSCRIPT No matching script. Please use EVAL.");
        story.node("n1").gets_nothing();
    }
}

#[test]
fn a_connection_that_breaks_before_it_tells_of_a_script_leaves_the_reply() {
    let mut story = loaded();
    story.client("a").says(&*call("a4"));
    story.node("n1").gets(["SCRIPT LOAD return 1", &*call("a4")]).answers(["+x", "-NOSCRIPT No"]);
    story.node("n1").gets(&*exists()).dies("connection reset");
    story.after_ms(1_600).client("a").gets("-NOSCRIPT No");
    story.node("n1").gets_nothing();
}

#[test]
fn a_connection_is_taught_once_in_front_of_the_first_call() {
    let mut story = loaded();
    story.client("a").says([&*call("a4"), &*call("a8"), "GET a4"]);
    story
        .node("n1")
        .gets(["SCRIPT LOAD return 1", &*call("a4"), &*call("a8"), "GET a4"])
        .answers([&*format!("\"{DIGEST}\""), ":1", ":2", "nil"]);
    story.client("a").gets([":1", ":2", "nil"]);
    story.client("b").says(&*format!("EVALSHA {} 1 a4", DIGEST.to_uppercase()));
    story.node("n1").gets(&*format!("EVALSHA {} 1 a4", DIGEST.to_uppercase())).answers(":3");
    story.client("b").gets(":3");
}

// SCRIPT LOAD behind MULTI would be queued, and EXEC would answer for it.
#[test]
fn a_redirected_transaction_is_taught_its_script_before_multi() {
    let mut story = loaded();
    story.client("a").says(["MULTI", &*call("a4")]);
    story.cluster_is("0-5460 n3, 5461-10922 n2, 10923-16383 n3");
    story.node_conn("n1", 2).gets(["MULTI", &*call("a4")]).answers("+OK").moved("a4", "n3");
    story.after_ms(1_600);
    let all = ["SCRIPT LOAD return 1", "MULTI", &*call("a4")];
    story.node_conn("n3", 2).gets(all).answers(["+x", "+OK", "+QUEUED"]);
    story.client("a").gets(["+OK", "+QUEUED"]).says("EXEC");
    story.node_conn("n3", 2).gets("EXEC").answers("*1\r\n:1\r\n");
    story.client("a").gets("*1\r\n:1\r\n");
}

#[test]
fn a_server_that_comes_back_empty_is_taught_again() {
    let mut story = loaded();
    story.client("a").says(&*call("a4"));
    story.node("n1").gets(["SCRIPT LOAD return 1", &*call("a4")]).answers(["+x", ":1"]);
    story.client("a").gets(":1");
    story.node("n1").dies("connection reset");
    story.client("a").says(&*call("a4"));
    story.node("n1").gets(["SCRIPT LOAD return 1", &*call("a4")]).answers(["+x", ":1"]);
    story.client("a").gets(":1");
}

#[test]
fn an_eval_on_one_server_makes_it_known_on_all() {
    let mut story = Story::warm_cluster();
    story.client("a").sends(b"*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$2\r\na4\r\n");
    story.node("n1").gets("EVAL return 1 1 a4").answers(":1");
    story.client("a").gets(":1").says(&*call("b4"));
    story.node("n2").gets(["SCRIPT LOAD return 1", &*call("b4")]).answers(["+x", ":1"]);
    story.client("a").gets(":1");
}

#[test]
fn a_script_that_nobody_told_of_is_the_servers_to_answer() {
    let mut story = Story::warm_cluster();
    story.client("a").says(&*call("a4"));
    story.node("n1").gets(&*call("a4")).answers("-NOSCRIPT No matching script. Please use EVAL.");
    story.client("a").gets("-NOSCRIPT No matching script. Please use EVAL.");
}

#[test]
fn scripts_flushed_past_the_proxy_are_healed_where_nothing_can_be_overtaken() {
    let mut story = loaded();
    story.client("a").says(&*call("a4"));
    story.node("n1").gets(["SCRIPT LOAD return 1", &*call("a4")]).answers(["+x", ":1"]);
    // Alone: taught and called again.
    story.client("a").gets(":1").says(&*call("a4"));
    story.node("n1").gets(&*call("a4")).answers("-NOSCRIPT No matching script.");
    story.node("n1").gets(&*exists()).answers("*1\r\n:0\r\n");
    story.node("n1").gets(["SCRIPT LOAD return 1", &*call("a4")]).answers(["+x", ":2"]);
    // With something behind it: told, and the next call is right.
    story.client("a").gets(":2").says([&*call("a4"), "GET a4"]);
    story
        .node("n1")
        .gets([&*call("a4"), "GET a4"])
        .answers(["-NOSCRIPT No matching script.", "nil"]);
    story.client("a").gets(["-NOSCRIPT No matching script.", "nil"]).says(&*call("a4"));
    story.node("n1").gets(["SCRIPT LOAD return 1", &*call("a4")]).answers(["+x", ":3"]);
    story.client("a").gets(":3");
}

#[test]
fn a_server_that_does_not_take_the_script_is_not_asked_for_ever() {
    let mut story = loaded();
    story.client("a").says(&*call("a4"));
    story
        .node("n1")
        .gets(["SCRIPT LOAD return 1", &*call("a4")])
        .answers(["-NOPERM no", "-NOSCRIPT No"]);
    story.node("n1").gets(&*exists()).answers("*1\r\n:0\r\n");
    story
        .node("n1")
        .gets(["SCRIPT LOAD return 1", &*call("a4")])
        .answers(["-NOPERM no", "-NOSCRIPT No"]);
    story.client("a").gets("-NOSCRIPT No");
    story.node("n1").gets_nothing();
}

#[test]
fn what_clients_have_flushed_is_forgotten() {
    let mut story = loaded();
    story.client("a").says("SCRIPT FLUSH");
    for node in ["n1", "n2", "n3"] {
        story.node(node).gets("SCRIPT FLUSH").answers("+OK");
    }
    story.client("a").gets("+OK").says(&*call("a4"));
    story.node("n1").gets(&*call("a4")).answers("-NOSCRIPT No");
    story.client("a").gets("-NOSCRIPT No");
}

#[test]
fn a_call_that_is_sent_on_behind_asking_is_taught_before_that() {
    let mut story = loaded();
    story.client("a").says(&*call("a4"));
    story.node("n1").gets(["SCRIPT LOAD return 1", &*call("a4")]);
    story.node("n1").answers("+x").ask("a4", "n2");
    story.node("n1").gets("EXISTS a4").ask("a4", "n2");
    story
        .node("n2")
        .gets(["SCRIPT LOAD return 1", "ASKING", &*call("a4")])
        .answers(["+x", "+OK", ":1"]);
    story.client("a").gets(":1");
}

#[test]
fn other_workers_hear_of_it() {
    let mut first = Story::warm_cluster_with(|settings| settings.workers = 2);
    first.tells();
    first.client("a").says("SCRIPT LOAD 1");
    let news = first.tells();
    let mut second = Story::warm_cluster();
    for (audience, news) in news {
        assert_eq!(audience, Audience::Others);
        second.hears(news);
    }
    // SHA-1 of `1`.
    let call = "EVALSHA 356a192b7913b04c54574d18c28d46e6395428ab 1 a4";
    second.client("a").says(call);
    second.node("n1").gets(["SCRIPT LOAD 1", call]);
}

/// The requests over the connection to `n1` with this call.
fn with_call(story: &mut Story, call: &str) -> Vec<String> {
    for conn in 1..=story.connects_to("n1") {
        let mut lines = Vec::new();
        while let Some(line) = story.node_conn("n1", conn).takes_one() {
            lines.push(line);
        }
        if lines.iter().any(|line| line == call) {
            return lines;
        }
    }
    panic!("{call} did not arrive");
}

#[test]
fn a_script_over_a_dedicated_connection_is_loaded_before_its_call() {
    let mut story = loaded();
    story.client("b").says(["WATCH a4", &*call("a4")]);
    story.node_conn("n1", 2).gets("WATCH a4").answers("+OK");
    story.client("b").gets("+OK");
    assert_eq!(with_call(&mut story, &call("a4")), ["SCRIPT LOAD return 1", &*call("a4")]);
}

#[test]
fn a_script_of_a_client_that_caches_is_loaded_before_its_call_by_digest_too() {
    let mut story = loaded();
    story.client("a").says("EVAL a 1 a4");
    story.node("n1").gets("EVAL a 1 a4");
    story.client("t").says(["HELLO 3", "CLIENT TRACKING ON"]).takes();
    story.client("t").says(&*call("a4"));
    assert_eq!(with_call(&mut story, &call("a4")), ["SCRIPT LOAD return 1", &*call("a4")]);
}
