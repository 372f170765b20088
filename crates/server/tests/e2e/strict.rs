//! Frames that some server takes for no protocol: none of them ends the connection that all clients share.
//!
//! Invariant: a client that sends one is refused by itself, and nobody else notices.

use std::time::Duration;

use crate::setup::{SOON, Stack, info_field};

/// Sound requests, to be damaged.
const SOUND: &[&str] = &[
    "*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
    "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$12\r\nabcdefghijkl\r\n",
    "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n",
    "*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$2\r\nab\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
    "*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n",
    "*11\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n$1\r\ni\r\n$1\r\nj\r\n",
];

const BYTES: &[u8] = b"\r\n\0x*$019-: \"";

/// Each sound request with each of its line ends damaged, and more with bytes changed, left out and doubled at places that a seed chooses.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for sound in SOUND {
        for (at, _) in sound.match_indices("\r\n") {
            for end in ["xx", "\rx", "x\n", "\n\r", "\r", "\n", ""] {
                frames.push([&sound[..at], end, &sound[at + 2..]].concat().into_bytes());
            }
        }
    }
    let large = format!("*2\r\n$4\r\nECHO\r\n$300000\r\n{}", "v".repeat(300_000));
    frames.extend(["xx", "\rx", "x\n"].map(|end| [&large, end].concat().into_bytes()));
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    for _ in 0..600 {
        let mut frame = SOUND[next(SOUND.len())].as_bytes().to_vec();
        for _ in 0..=next(3) {
            let (at, byte) = (next(frame.len()), BYTES[next(BYTES.len())]);
            match next(3) {
                0 => frame[at] = byte,
                1 => drop(frame.remove(at)),
                _ => frame.insert(at, byte),
            }
        }
        frames.push(frame);
    }
    frames
}

#[test]
fn no_damaged_frame_ends_the_connection_that_others_share() {
    let stack = Stack::start();
    let mut steady = stack.connect();
    for frame in frames() {
        let mut conn = stack.connect();
        conn.set_timeout(Duration::from_secs(10));
        conn.send(&frame).expect("sent");
        // With its end there is no more to wait for. A refusal may have closed it before.
        let _ = conn.half_close();
        let _ = conn.read_to_close();
        assert_eq!(steady.ask("ECHO x"), "$1\r\nx\r\n", "{}", frame.escape_ascii());
    }
    for field in ["upstream_losses", "upstream_protocol_errors"] {
        let count = info_field(&mut steady, "upstreams", field);
        assert_eq!(count.as_deref(), Some("0"), "{field}");
    }
}

#[test]
fn what_the_strictest_server_refuses_is_refused_in_its_words() {
    let stack = Stack::start();
    const TEXT: &str = "-ERR Protocol error: invalid CRLF in request\r\n";
    for frame in [
        "*1\r\n$4\r\nPINGxxPING\r\n",
        "*1\rX$4\rXPINGXXPING\r\n",
        "*2\r\n$3\r\nGET\r\n$1\r\na\rx",
        "*2\r\n$3\rxGET\r\n$1\r\na\r\n",
    ] {
        let mut conn = stack.connect();
        conn.set_timeout(SOON);
        conn.send(frame.as_bytes()).expect("sent");
        let got = conn.read_to_close().expect("closed");
        assert_eq!(String::from_utf8_lossy(&got), TEXT, "{frame:?}");
    }
}
