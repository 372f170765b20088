//! Strings that are stored compressed: each reply is opened by its own request, and large ones are kept until they are whole.

use crate::words::{Story, large_set};
use engine::Settings;
use engine::policy::{Policies, Rules, Values, Wanted};
use std::sync::Arc;

fn story() -> Story {
    let compress = vec![b"p:*".as_slice().into()];
    let wanted = Wanted { compress, compress_from_bytes: 100, ..Wanted::default() };
    let values = Values::new(wanted);
    let policies = Policies::new(Rules { values, ..Rules::default() }).map(Arc::new);
    Story::with(Settings { policies, ..Settings::default() })
}

const RAW: &str = "-ERR respool: 'append' would see a value as it is stored, and not as it was written (policies.values)";

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let mut story = story();
    // It would be taken for one of ours.
    let marked = b"*3\r\n$3\r\nSET\r\n$3\r\np:m\r\n$4\r\n\xffrsp\r\n";
    story.client("a").says(["GET p:k", "GET k", "APPEND p:k x", "SET p:k v"]).sends(marked);
    story.server().gets(["GET p:k", "GET k"]).gets("SET p:k v");
    assert!(story.server().takes_one().is_some_and(|one| one.starts_with("SET p:m ")));
    story.server().answers(["nil", "\"v\"", "+OK", "+OK"]);
    story.client("a").gets(["nil", "\"v\"", RAW, "+OK", "+OK"]);
    story.client("a").says(["MGET p:a k", "PING"]);
    story.server().gets("MGET p:a k");
    story.server().sends(b"*2\r\n$9\r\n\xffrsp\x00");
    story.client("a").gets_nothing();
    story.server().sends(b"text\r\n$5\r\n\xffrsp\x00\r\n");
    let got = story.client("a").takes();
    assert_eq!(got, b"*2\r\n$4\r\ntext\r\n$5\r\n\xffrsp\x00\r\n+PONG\r\n");
}

#[test]
fn a_large_value_is_compressed_when_it_is_whole() {
    let mut story = story();
    let set = large_set("p:big", 2 << 20);
    story.client("a").sends(&set[..1 << 20]);
    story.client("a").sends(&set[1 << 20..]);
    let sent = story.server().takes_one().expect("the request");
    assert!(sent.len() < 20_000, "{} bytes", sent.len());
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    // Others are streamed as ever.
    story.client("a").sends(&large_set("big", 2 << 20)[..1 << 20]);
    assert!(story.conn(2).bytes_of_unfinished() > (1 << 20) - 100);
}
