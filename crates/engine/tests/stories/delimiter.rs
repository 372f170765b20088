//! Replies with line breaks that a script, a function or a module put into them reach their own client only.

use crate::tracking::{ALL, changed};
use crate::words::Story;
use engine::limits::TEXT_LINE_BYTES_MAX;

const ECHO_FRAME: &str = "$24\r\n";

/// The answer to the delimiter with this word.
fn end(word: &str) -> String {
    format!("{ECHO_FRAME}{word}\r\n")
}

/// Client `a` sends `request` and client `b` a GET behind it on the same connection; the word of the delimiter between both.
fn ask(story: &mut Story, request: &str) -> String {
    let command = "*6\r\n$8\r\njson.get\r\n:-2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n";
    story.server_says_to("COMMAND INFO json.get", &format!("*1\r\n{command}"));
    if story.connects_made() == 0 {
        story.client("w").says("GET w");
        story.conn(1).gets("GET w").answers("nil");
    }
    story.client("a").says(request);
    story.client("b").says("GET k");
    let mut conn = story.conn(1);
    assert_eq!(conn.takes_requests(), 2, "{request}");
    let word = conn.takes_delimiter();
    conn.gets_no_delimiter();
    word
}

const REQUESTS: [&str; 8] = [
    "EVAL return 0",
    "EVAL_RO return 0",
    "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
    "FCALL f 0",
    "FCALL_RO f 0",
    "FUNCTION LIST WITHCODE",
    "FUNCTION LOAD text",
    "JSON.GET k",
];

#[test]
fn an_error_with_line_breaks_is_one_line_and_nobody_else_gets_a_part_of_it() {
    for request in REQUESTS {
        let mut story = Story::new();
        for text in
            ["-ERR x\r\n+y", "-x\r\n$3\r\nabc\r\n:1", "-\r\n\r\n", "+x\r\n-y", "-x\n\r\r\n*2\r\n"]
        {
            let word = ask(&mut story, request);
            let reply = format!("{text}\r\n{}$1\r\nv\r\n", end(&word));
            story.conn(1).sends(reply.as_bytes());
            let line = text.replace(['\r', '\n'], " ");
            story.client("a").gets(&*format!("{line}\r\n"));
            story.client("b").gets("\"v\"");
        }
    }
}

#[test]
fn it_does_not_matter_in_which_pieces_they_come() {
    let mut story = Story::new();
    let reply = "-ERR x\r\n$9999\r\n+y\r\n";
    let whole = |word: &str| format!("{reply}{}$1\r\nv\r\n", end(word));
    for cut in 1..whole(&"w".repeat(24)).len() {
        let word = ask(&mut story, "EVAL return 0");
        let bytes = whole(&word);
        story.conn(1).sends(&bytes.as_bytes()[..cut]);
        story.conn(1).sends(&bytes.as_bytes()[cut..]);
        // Behind a break that comes alone the server is asked a second time, in vain.
        if story.conn(1).waiting() > 0 {
            let second = story.conn(1).takes_one().expect("the second word");
            story.conn(1).answers(&*format!("-ERR unknown command '{second}'"));
        }
        story.client("a").gets("-ERR x  $9999  +y\r\n");
        story.client("b").gets("\"v\"");
    }
}

#[test]
fn a_length_that_a_text_makes_up_takes_nothing_of_the_next_reply() {
    let mut story = Story::new();
    for text in ["*2\r\n+x\r\n$5\r\n", "*1\r\n-x\r\n:1\r\n", "%1\r\n+a\r\n$40\r\nx\r\n", "*-7\r\n"]
    {
        for request in ["EVAL return 0", "JSON.GET k"] {
            let word = ask(&mut story, request);
            let others = "$30\r\nsecretsecretsecretsecret123456\r\n";
            story.conn(1).sends(format!("{text}{}{others}", end(&word)).as_bytes());
            let got = story.client("a").takes_text();
            assert_eq!(
                got,
                "-ERR respool: the server's reply to this command is not valid RESP\r\n"
            );
            assert_eq!(story.client("b").takes_text(), others);
        }
    }
}

#[test]
fn replies_in_one_frame_are_as_the_server_sent_them() {
    let mut story = Story::new();
    for frame in
        ["$-1", "$4\r\nx\r\ny", ":7", "+OK", "-ERR no", "*2\r\n$1\r\na\r\n*1\r\n:1", "*-1", "*0"]
    {
        for request in ["EVAL return 0", "JSON.GET k"] {
            let word = ask(&mut story, request);
            story.conn(1).sends(format!("{frame}\r\n{}$1\r\nv\r\n", end(&word)).as_bytes());
            assert_eq!(story.client("a").takes_text(), format!("{frame}\r\n"));
            story.client("b").gets("\"v\"");
        }
    }
}

// While a script runs for too long, a server refuses ECHO as it refuses the script.
#[test]
fn a_server_that_refuses_echo_is_asked_for_what_each_server_answers() {
    let mut story = Story::new();
    for refusal in ["-BUSY Redis is busy", "-NOPERM no echo", "-LOADING soon"] {
        for reply in ["-BUSY Redis is busy", "+OK", "*1\r\n:1", ":1"] {
            ask(&mut story, "EVAL return 0");
            story.conn(1).sends(format!("{reply}\r\n{refusal}\r\n").as_bytes());
            let second = story.conn(1).takes_one().expect("a second word");
            assert!(second.starts_with("respool:"), "{second}");
            story.conn(1).sends(b"$1\r\nv\r\n");
            story.client("b").gets_nothing();
            story.conn(1).sends(format!("-ERR unknown command '{second}', with\r\n").as_bytes());
            assert_eq!(story.client("a").takes_text(), format!("{reply}\r\n"));
            story.client("b").gets("\"v\"");
            story.conn(1).gets_nothing();
        }
    }
}

#[test]
fn a_text_that_looks_like_a_refusal_deceives_nobody() {
    let mut story = Story::new();
    // ECHO was taken: its word is found.
    let word = ask(&mut story, "EVAL return 0");
    story.conn(1).sends(b"-x\r\n-NOPERM no echo\r\n+y\r\n");
    let second = story.conn(1).takes_one().expect("a second word");
    story.client("b").gets_nothing();
    story
        .conn(1)
        .sends(format!("{}$1\r\nv\r\n-ERR unknown command '{second}'\r\n", end(&word)).as_bytes());
    story.client("a").gets("-x  -NOPERM no echo  +y\r\n");
    story.client("b").gets("\"v\"");
    // It was not, and there are more replies than requests: none of them goes to anybody.
    ask(&mut story, "EVAL return 0");
    story.conn(1).sends(b"-x\r\n+y\r\n-NOPERM no echo\r\n$1\r\nv\r\n");
    let second = story.conn(1).takes_one().expect("a second word");
    story.conn(1).sends(format!("-ERR unknown command '{second}'\r\n").as_bytes());
    story.conn(1).is_closed();
    for client in ["a", "b"] {
        assert!(!story.client(client).takes_text().contains('y'));
    }
}

#[test]
fn a_transaction_with_a_script_ends_at_a_delimiter() {
    let mut story = Story::new();
    let lines = ["MULTI", "EVAL return 0", "SET k 1", "EXEC"];
    for (exec, got) in [
        (
            "*2\r\n-x\r\n+y\r\n+OK\r\n",
            "-ERR respool: the server's reply to this command is not valid RESP\r\n",
        ),
        ("*2\r\n:1\r\n+OK\r\n", "*2\r\n:1\r\n+OK\r\n"),
    ] {
        story.client("a").says(lines);
        story.client("b").says("GET k");
        let mut conn = story.conn(1);
        assert_eq!(conn.takes_requests(), 5);
        let word = conn.takes_delimiter();
        conn.gets_no_delimiter();
        let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
        story.conn(1).sends(format!("{queued}{exec}{}$1\r\nv\r\n", end(&word)).as_bytes());
        assert_eq!(story.client("a").takes_text(), format!("{queued}{got}"));
        story.client("b").gets("\"v\"");
    }
    // One without a script costs nothing more.
    story.client("a").says(["MULTI", "SET k 1", "EXEC"]);
    story.conn(1).gets(["MULTI", "SET k 1", "EXEC"]).gets_no_delimiter();
}

#[test]
fn a_connection_of_its_own_that_a_script_went_over_serves_nobody_else() {
    let mut story = Story::new();
    story.client("a").says("WATCH w");
    story.conn(1).gets("WATCH w").answers("+OK");
    story.client("a").gets("+OK").says(["MULTI", "EVAL return 0", "EXEC"]);
    story.conn(1).gets(["MULTI", "EVAL return 0", "EXEC"]).gets_no_delimiter();
    story.conn(1).answers(["+OK", "+QUEUED", "*1\r\n:1"]);
    story.client("a").gets("+OK\r\n+QUEUED\r\n*1\r\n:1\r\n");
    story.conn(1).is_closed();
}

#[test]
fn a_request_that_is_sent_on_ends_at_a_delimiter_again() {
    let mut story = Story::warm_cluster();
    story.client("a").says("EVAL return 1 a4");
    story.node("n1").gets("EVAL return 1 a4").moved("a4", "n2");
    story.node("n1").gets("EXISTS a4").moved("a4", "n2");
    let word = {
        let mut conn = story.node("n2");
        assert_eq!(conn.takes_one().as_deref(), Some("EVAL return 1 a4"));
        conn.takes_delimiter()
    };
    story.node("n2").sends(format!("-x\r\n+y\r\n{}", end(&word)).as_bytes());
    story.client("a").gets("-x  +y\r\n");
}

#[test]
fn a_large_script_ends_at_a_delimiter() {
    let mut story = Story::new();
    let script = "x".repeat(300_000);
    story.client("a").says(&*format!("EVAL {script} 0"));
    let large = story.connects_made();
    let word = {
        let mut conn = story.conn(large);
        assert_eq!(conn.takes_requests(), 1);
        conn.takes_delimiter()
    };
    story.conn(large).sends(format!("-x\r\n+y\r\n{}", end(&word)).as_bytes());
    story.client("a").gets("-x  +y\r\n");
}

#[test]
fn a_reply_without_end_is_not_kept_for_a_client_that_is_gone() {
    let mut story = Story::new();
    let word = ask(&mut story, "EVAL return 0");
    story.client("a").dies();
    let piece = format!("*100000\r\n{}", "$1\r\nx\r\n".repeat(8_000));
    for _ in 0..20 {
        story.conn(1).sends(piece.as_bytes());
    }
    assert!(story.report().buffered_bytes < 200_000);
    story.conn(1).sends(format!("{}$1\r\nv\r\n", end(&word)).as_bytes());
    story.client("b").gets("\"v\"");
}

/// Sends so many mebibytes of a reply over connection 1; none of them is kept for long.
fn sends_mebibytes(story: &mut Story, begin: &str, count: usize, bound: usize) {
    story.conn(1).sends(begin.as_bytes());
    let piece = "q".repeat(1 << 18);
    for _ in 0..4 * count {
        story.conn(1).sends(piece.as_bytes());
        let buffered = story.report().buffered_bytes;
        assert!(buffered < bound as u64, "{begin:?}: {buffered} bytes are kept");
    }
    if let Some(second) = story.conn(1).takes_one() {
        assert!(second.starts_with("respool:"), "{second}");
    }
}

#[test]
fn an_error_or_a_status_without_end_is_not_kept() {
    for begin in ["-ERR ", "+", "-x\r\n+y", "+\r\n*1\r\n$1\r\n"] {
        for end_of_line in ["\r\n", "\r\n-x\r\n", ""] {
            let mut story = Story::new();
            let word = ask(&mut story, "EVAL return 0");
            sends_mebibytes(&mut story, begin, 20, TEXT_LINE_BYTES_MAX + (1 << 20));
            story.client("a").gets_nothing();
            story.conn(1).sends(format!("{end_of_line}{}$1\r\nv\r\n", end(&word)).as_bytes());
            let got = story.client("a").takes_text();
            let bound = format!("more than {TEXT_LINE_BYTES_MAX} bytes\r\n");
            assert!(got.starts_with("-ERR respool: ") && got.ends_with(&bound), "{got:?}");
            story.client("b").gets("\"v\"");
            // The connection is as it was.
            ask(&mut story, "EVAL return 0");
        }
    }
}

#[test]
fn an_error_or_a_status_up_to_the_bound_is_as_the_server_sent_it() {
    for begin in ["-ERR ", "+"] {
        let mut story = Story::new();
        let word = ask(&mut story, "EVAL return 0");
        let line = format!("{begin}{}\r\n", "q".repeat(TEXT_LINE_BYTES_MAX - 100));
        for piece in line.as_bytes().chunks(100_000) {
            story.conn(1).sends(piece);
        }
        story.conn(1).sends(format!("{}$1\r\nv\r\n", end(&word)).as_bytes());
        assert_eq!(story.client("a").takes_text().len(), line.len());
        story.client("b").gets("\"v\"");
    }
}

#[test]
fn bytes_behind_an_array_that_are_neither_its_delimiter_nor_pushes_are_not_kept() {
    for begin in ["*1\r\n:1\r\nx", "*1\r\n:1\r\n+", "*1\r\n:1\r\n$9999999999\r\n", "*x", "@"] {
        let mut story = Story::new();
        let word = ask(&mut story, "EVAL return 0");
        sends_mebibytes(&mut story, begin, 4, 1 << 20);
        story.conn(1).sends(format!("\r\n{}$1\r\nv\r\n", end(&word)).as_bytes());
        let not_resp = "-ERR respool: the server's reply to this command is not valid RESP\r\n";
        assert_eq!(story.client("a").takes_text(), not_resp, "{begin:?}");
        story.client("b").gets("\"v\"");
    }
}

#[test]
fn a_large_array_goes_out_as_it_comes_and_no_further_than_to_its_delimiter() {
    let element = format!("$10000\r\n{}\r\n", "x".repeat(10_000));
    for (behind, is_whole) in [
        ("", true),
        (":1\r\n+y\r\n", true),
        ("-x\r\n$70\r\n", false),
        ("*9", false),
        ("-x\r\nYY\r\n", false),
        ("-x\r\n$4\r\nabcdefgh\r\n+z\r\n", false),
        ("-x\r\n\r\n\r\n", false),
    ] {
        for cut in [0, 1, 20, 31, 40, 70] {
            let mut story = Story::new();
            let word = ask(&mut story, "EVAL return 0");
            let elements = if is_whole { 100 } else { 102 };
            let array = format!("*{elements}\r\n{}", element.repeat(100));
            let others = "$30\r\nsecretsecretsecretsecret123456\r\n";
            let all = format!("{array}{behind}{}{others}", end(&word));
            let (first, rest) = all.as_bytes().split_at(600_000);
            story.conn(1).sends(first);
            assert!(story.client("a").takes_text().len() > 500_000, "nothing goes out");
            let (second, third) = rest.split_at(rest.len() - cut);
            story.conn(1).sends(second).sends(third);
            assert_eq!(story.client("b").takes_text(), others, "{behind:?} {cut}");
            let got = story.client("a").takes_text();
            assert!(!got.contains("respool:") && !got.contains("secret"), "{behind:?} {cut}");
            if is_whole {
                assert!(got.ends_with("x\r\n"), "{behind:?} {cut}");
            } else {
                story.client("a").is_closed();
            }
        }
    }
}

// What goes over to a fresh connection would go without its delimiter.
#[test]
fn a_script_that_only_reads_is_not_asked_again_behind_a_backlog() {
    let mut story = Story::new();
    for name in ["a", "b", "c"] {
        story.client(name).says("GET k");
        story.server().gets("GET k").answers("nil");
        story.client(name).gets("nil");
    }
    story.client("a").says(["GET big"; 20]);
    story.client("b").says("EVAL_RO return 1 k");
    story.client("c").says("GET c");
    assert_eq!(story.conn(1).takes_requests(), 22);
    let word = story.conn(1).takes_delimiter();
    let reply = format!("$1048576\r\n{}\r\n", "x".repeat(1 << 20));
    story.conn(1).sends(&reply.as_bytes()[..40_000]);
    assert_eq!(story.connects_made(), 2);
    story.conn(2).gets("GET c").gets_nothing().gets_no_delimiter().answers("\"c\"");
    story.client("c").gets("\"c\"");
    story.conn(1).sends(&reply.as_bytes()[40_000..]).sends(reply.repeat(19).as_bytes());
    story.conn(1).sends(format!("-x\r\n+y\r\n{}$1\r\nc\r\n", end(&word)).as_bytes());
    story.client("b").gets("-x  +y\r\n");
    story.client("c").gets_nothing();
}

/// Clients `a` and `b` with RESP3 on one connection, which tells `b` of changed keys if `tracked`.
fn with_pushes(tracked: bool) -> Story {
    let mut story = Story::new();
    for name in ["a", "b"] {
        story.client(name).says("HELLO 3").takes_text();
        if tracked {
            story.client(name).says("CLIENT TRACKING ON").takes_text();
        }
    }
    story.client("b").says("GET warm");
    if tracked {
        story.server().gets("CLIENT TRACKING ON").answers("+OK");
    }
    story.server().gets("GET warm").answers("nil");
    story.client("b").takes_text();
    story
}

/// Client `a` sends a command whose reply may hold line breaks, and `b` a GET behind it on the connection made last. Scripts do not take connections that tell of changes.
fn ask_with_pushes(story: &mut Story) -> String {
    story.client("a").says("FUNCTION LIST");
    story.client("b").says("GET k");
    let mut conn = story.server();
    assert_eq!(conn.takes_requests(), 2);
    conn.takes_delimiter()
}

// Found by an attack: the text of an error went on as a push, which took the delimiter and replies of others in.
#[test]
fn a_text_that_looks_like_a_push_takes_nothing_of_the_next_reply() {
    let texts = [
        ">2\r\n",
        ">2\r\n$5\r\nother\r\n$300\r\n",
        ">3\r\n+x\r\n$100000000\r\n",
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$60\r\n",
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n>2\r\n",
        ">1\r\n+x\r\n",
        "+y\r\n>2\r\n$300\r\n",
        ">>>>",
    ];
    for tracked in [false, true] {
        for text in texts {
            let all = |word: &str| {
                let others = "$30\r\nsecretsecretsecretsecret123456\r\n";
                format!("-ERR x\r\n{text}\r\n{}{others}", end(word))
            };
            for cut in 0..all(&"w".repeat(24)).len() {
                let mut story = with_pushes(tracked);
                let word = ask_with_pushes(&mut story);
                let all = all(&word);
                story.server().sends(&all.as_bytes()[..cut]);
                if let Some(second) = story.server().takes_one() {
                    story.server().sends(&all.as_bytes()[cut..]);
                    story.server().sends(format!("-ERR unknown '{second}'\r\n").as_bytes());
                } else {
                    story.server().sends(&all.as_bytes()[cut..]);
                }
                let line = all[..all.find("\r\n$24\r\n").unwrap()].replace(['\r', '\n'], " ");
                let (got, heard) = (story.client("a").takes_text(), story.client("b").takes_text());
                assert_eq!(got.replace(ALL, ""), format!("{line}\r\n"), "{cut}");
                let heard_of_k = heard.replace(&changed("k"), "");
                assert_eq!(
                    heard_of_k.replace(ALL, ""),
                    "$30\r\nsecretsecretsecretsecret123456\r\n"
                );
                // Keys of which the server told may stand in the text.
                assert_eq!(heard.contains(ALL), tracked, "{cut}");
            }
        }
    }
}

#[test]
fn a_push_that_a_large_reply_ends_with_takes_nothing_either() {
    let mut story = with_pushes(false);
    let word = ask_with_pushes(&mut story);
    let array = format!("*100\r\n{}", format!("$1000\r\n{}\r\n", "x".repeat(1_000)).repeat(100));
    story.server().sends(array.as_bytes());
    story.server().sends(b">2\r\n$5\r\nother\r\n$300\r\n");
    story.server().sends(format!("{}$1\r\nv\r\n", end(&word)).as_bytes());
    assert_eq!(story.client("a").takes_text().len(), array.len());
    story.client("b").gets("\"v\"");
}

#[test]
fn a_text_of_which_nothing_is_kept_is_nothing_else_either() {
    for (cut, first) in
        (0..8).flat_map(|cut| [">9", "$9", "$20000", ":x", "_", "#t", "=5"].map(|f| (cut, f)))
    {
        let mut story = with_pushes(false);
        let word = ask_with_pushes(&mut story);
        story.client("a").dies();
        story.server().sends(
            format!("-x\r\n{}{}", "y".repeat(cut), format!("{first}\r\n").repeat(20_000))
                .as_bytes(),
        );
        story.server().sends(format!("{}$1\r\nv\r\n", end(&word)).as_bytes());
        story.client("b").gets("\"v\"");
    }
}

#[test]
fn what_is_told_of_changed_keys_between_a_reply_and_its_delimiter_is_told() {
    let told = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\nwarm\r\n";
    for reply in ["-ERR x\r\n", ":1\r\n", "$1\r\nx\r\n", "*1\r\n:1\r\n", "+OK\r\n"] {
        let all = |word: &str| format!("{reply}{told}{}$1\r\nv\r\n", end(word));
        for cut in 0..all(&"w".repeat(24)).len() {
            let mut story = with_pushes(true);
            let word = ask_with_pushes(&mut story);
            let all = all(&word);
            story.server().sends(&all.as_bytes()[..cut]).sends(&all.as_bytes()[cut..]);
            assert_eq!(story.client("a").takes_text(), reply, "{cut}");
            assert_eq!(story.client("b").takes_text(), format!("{told}$1\r\nv\r\n"), "{cut}");
        }
    }
}

#[test]
fn where_echo_is_refused_a_push_in_a_text_ends_the_connection() {
    let mut story = with_pushes(false);
    ask_with_pushes(&mut story);
    story.server().sends(b"-x\r\n+y\r\n+z\r\n>2\r\n-NOPERM no echo\r\n$6\r\nsecret\r\n");
    let second = story.server().takes_one().expect("a second word");
    story.server().sends(format!("-ERR unknown command '{second}'\r\n").as_bytes());
    for client in ["a", "b"] {
        let got = story.client(client).takes_text();
        assert!(!got.contains("+y") && !got.contains("+z"), "{got}");
    }
}

#[test]
fn words_stay_secret_when_servers_forget_their_scripts() {
    let word_behind_flush = |entropy: u8| {
        let mut story = Story::new();
        story.engine.take_entropy([entropy; 32]);
        story.client("a").says("SCRIPT FLUSH");
        story.server().takes_one();
        story.server().takes_delimiter();
        story.server().answers("+OK");
        let word = ask(&mut story, "EVAL return 0");
        assert!(word.starts_with("respool:"), "{word}");
        word
    };
    assert_ne!(word_behind_flush(1), word_behind_flush(2));
}

#[test]
fn what_is_open_on_a_connection_is_forgotten_with_it() {
    for reply in [String::from("-x\r\n+y\r\n"), format!("-{}", "x".repeat(50_000))] {
        for leaves in [false, true] {
            let mut story = with_pushes(true);
            ask_with_pushes(&mut story);
            if leaves {
                story.client("a").dies();
            }
            story.server().sends(reply.as_bytes());
            story.server().dies("closed the connection");
            story.after_ms(1_000).client("c").says("HELLO 3").takes_text();
            story.client("c").says("CLIENT TRACKING ON").takes_text();
            story.client("c").says("GET k");
            assert_eq!(story.server().takes_one().as_deref(), Some("CLIENT TRACKING ON"));
            story.server().answers("+OK");
            assert_eq!(story.server().takes_one().as_deref(), Some("GET k"));
            story.server().sends(changed("other").as_bytes());
            story.server().sends(b"$1\r\nv\r\n");
            assert!(story.client("c").takes_text().ends_with("$1\r\nv\r\n"), "{leaves}");
            story.client("c").says("FUNCTION LIST");
            assert_eq!(story.server().takes_requests(), 1);
            let word = story.server().takes_delimiter();
            story.server().sends(format!(":1\r\n{}", end(&word)).as_bytes());
            story.client("c").gets(":1\r\n");
        }
    }
}

// Where ECHO is refused only the number of replies tells where each begins: one that may hide some of them ends the connection.
#[test]
fn no_pipeline_of_texts_makes_up_a_reply_where_echo_is_refused() {
    let no = "-NOPERM no echo\r\n";
    // The replies to both scripts and to the GET between or behind them, with what the texts add.
    for (is_between, replies) in [
        // A number, then a text that hides a refusal and the value.
        (false, format!(":1\r\n{no}-x\r\n{no}$27\r\n{no}$6\r\nsecret\r\n")),
        // A list hides its refusal, and the second text gives back what is missing.
        (true, format!("*2\r\n-x\r\n$17\r\n{no}\r\n$6\r\nsecret\r\n-x\r\n+fake\r\n{no}")),
        (true, format!("*2\r\n-x\r\n*1\r\n{no}-WRONGTYPE y\r\n-x\r\n+fake\r\n{no}")),
    ] {
        let mut story = Story::new();
        story.client("w").says("GET w");
        story.conn(1).gets("GET w").answers("nil");
        story.client("a").says("EVAL return 0");
        if is_between {
            story.client("b").says("GET k");
            story.client("a").says("EVAL return 0");
        } else {
            story.client("a").says("EVAL return 0");
            story.client("b").says("GET k");
        }
        let mut conn = story.conn(1);
        assert_eq!(conn.takes_requests(), 3);
        (0..2).for_each(|_| drop(conn.takes_delimiter()));
        story.conn(1).sends(replies.as_bytes());
        let second = story.conn(1).takes_one().expect("a second word");
        story.conn(1).sends(format!("-ERR unknown command '{second}'\r\n").as_bytes());
        story.conn(1).is_closed();
        let got = story.client("b").takes_text();
        assert!(got.is_empty() || got.starts_with("-ERR respool"), "{replies:?}: {got:?}");
    }
}

// All lines before the answer to the second word are counted: one line too many shifts all replies.
#[test]
fn one_line_too_many_ends_the_connection_where_echo_is_refused() {
    for text in ["-ERR x\r\n-y\r\n", "-ERR x\r\n-NOPERM no echo\r\n", "+x\r\n-y\r\n-z\r\n"] {
        for last in ["$6\r\nsecret\r\n", "-WRONGTYPE Operation\r\n", ""] {
            let mut story = Story::new();
            story.client("w").says("GET w");
            story.conn(1).gets("GET w").answers("nil");
            story.client("a").says("EVAL return 0");
            if !last.is_empty() {
                story.client("b").says("GET k");
            }
            assert_eq!(story.conn(1).takes_requests(), if last.is_empty() { 1 } else { 2 });
            story.conn(1).takes_delimiter();
            story.conn(1).sends(format!("{text}-NOPERM no echo\r\n{last}").as_bytes());
            let second = story.conn(1).takes_one().expect("a second word");
            story.client("c").says("GET c");
            story.conn(1).gets("GET c");
            let answer = format!("-ERR unknown command '{second}', with args\r\n$1\r\nc\r\n");
            story.conn(1).sends(answer.as_bytes()).is_closed();
            for client in ["b", "c"] {
                let got = story.client(client).takes_text();
                assert!(got.is_empty() || got.starts_with("-ERR respool"), "{text:?}: {got:?}");
            }
        }
    }
}

#[test]
fn a_text_of_which_the_begin_was_dropped_ends_the_connection_where_echo_is_refused() {
    let mut story = Story::new();
    ask(&mut story, "EVAL return 0");
    story.client("a").dies();
    // Of a text that is dropped as it comes the last 30 bytes are kept, as the delimiter may begin there.
    let kept = format!(":1\r\n-{}\r\n", "y".repeat(23));
    story.conn(1).sends(format!("-{}\r\n{kept}", "x".repeat(60_000)).as_bytes());
    story.conn(1).sends(b"$27\r\n-NOPERM no echo\r\n$6\r\nsecret\r\n");
    let second = story.conn(1).takes_one().expect("a second word");
    story.conn(1).sends(format!("-ERR unknown command '{second}'\r\n").as_bytes()).is_closed();
    assert!(!story.client("b").takes_text().contains("NOPERM"));
}

// The servers' last reply before the refusal goes out in parts.
#[test]
fn a_large_reply_before_a_refused_echo_ends_where_it_ends() {
    for reply in [
        format!("$100000\r\n{}\r\n", "x".repeat(100_000)),
        format!("*1000\r\n{}", format!("$100\r\n{}\r\n", "x".repeat(100)).repeat(1_000)),
    ] {
        let mut story = Story::new();
        ask(&mut story, "EVAL return 0");
        story.conn(1).sends(&reply.as_bytes()[..60_000]).sends(&reply.as_bytes()[60_000..]);
        story.conn(1).sends(b"-NOPERM no echo\r\n$1\r\nv\r\n");
        let second = story.conn(1).takes_one().expect("a second word");
        story.conn(1).sends(format!("-ERR unknown command '{second}'\r\n").as_bytes());
        assert_eq!(story.client("a").takes_text(), reply);
        story.client("b").gets("\"v\"");
    }
}

#[test]
fn a_length_behind_a_text_ends_the_connection_where_echo_is_refused() {
    let mut story = Story::new();
    ask(&mut story, "EVAL return 0");
    story.conn(1).sends(b"-x\r\n-NOPERM no echo\r\n$27\r\n-NOPERM no echo\r\n$6\r\nsecret\r\n");
    let second = story.conn(1).takes_one().expect("a second word");
    story.conn(1).sends(format!("-ERR unknown command '{second}'\r\n").as_bytes());
    story.conn(1).is_closed();
    assert!(!story.client("b").takes_text().contains("secret"));
}

// The server tells the connection that nobody hears of its keys any more: `tracking-redir-broken`.
#[test]
fn a_push_behind_a_script_changes_nothing_of_its_reply() {
    for reply in ["*2\r\n:1\r\n:2\r\n", "+OK\r\n", "-ERR no\r\n", ":1\r\n"] {
        for cut in [0, 1, 10, 40] {
            let mut story = Story::new();
            let word = ask(&mut story, "EVAL return 0");
            let push = ">2\r\n$21\r\ntracking-redir-broken\r\n:77\r\n";
            let all = format!("{reply}{push}{}$1\r\nv\r\n", end(&word));
            let (first, rest) = all.as_bytes().split_at(reply.len() + cut);
            story.conn(1).sends(first);
            if let Some(second) = story.conn(1).takes_one() {
                story.conn(1).sends(rest);
                let error = format!("-ERR unknown command '{second}'\r\n");
                story.conn(1).sends(error.as_bytes());
            } else {
                story.conn(1).sends(rest);
            }
            assert_eq!(story.client("a").takes_text(), reply);
            story.client("b").gets("\"v\"");
        }
    }
}
