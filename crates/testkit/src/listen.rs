//! What tests of subscriptions need: the frames that a listener gets, and waiting until it hears something.
//!
//! Not here: clients that judge what they hear for the whole of a run (`checker::subscribers`).
//!
//! Invariant: what a listener heard is given to the test, none of it is dropped.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::conn::Conn;

/// How long the listener waits for what was just published before more of it is.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long replies may take on the listener's connection afterwards.
const LIMIT: Duration = Duration::from_secs(20);

/// A frame of these words, with `*` (RESP2) or `>` (RESP3) before them; a number behind a colon is an integer.
pub fn frame(sign: char, words: &[&str]) -> String {
    let mut out = format!("{sign}{}\r\n", words.len());
    for word in words {
        out += &match word.strip_prefix(':') {
            Some(number) => format!(":{number}\r\n"),
            None => format!("${}\r\n{word}\r\n", word.len()),
        };
    }
    out
}

/// Publishes number after number until the listener hears one, and gives all that it heard.
///
/// Fails the test when nothing was heard within `limit`.
#[track_caller]
pub fn until_heard(
    publish: &mut dyn FnMut(u32),
    listener: &mut Conn,
    limit: Duration,
) -> Vec<String> {
    let begun = Instant::now();
    let mut heard = Vec::new();
    listener.set_timeout(PATIENCE);
    for n in 0.. {
        publish(n);
        // All that is there, and of what is on its way what comes soon.
        loop {
            match listener.reply() {
                Ok(message) => heard.push(String::from_utf8_lossy(&message).into_owned()),
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                Err(error) => panic!("the listener: {error}"),
            }
        }
        if !heard.is_empty() {
            break;
        }
        assert!(begun.elapsed() < limit, "nothing was heard for {limit:?}");
    }
    listener.set_timeout(LIMIT);
    heard
}
