//! Bytes that are no proper request, and what comes back until the connection closes or goes on.
//!
//! Each case is sent on a connection of its own, in one write and cut in two at several places. A
//! case that leaves the connection open ends with an ECHO that shows it.
//!
//! Invariant: a case either closes the connection or ends at a request's end, so that the ECHO is
//! understood.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use testkit::Endpoint;
use testkit::frames::quote;

/// One input.
pub(super) struct Case {
    pub(super) name: String,
    input: Vec<u8>,
    /// What comes back is expected to be nothing: not tried in pieces, since each try takes the
    /// silence.
    waits: bool,
}

const SENTINEL: &[u8] = b"*2\r\n$4\r\nECHO\r\n$8\r\nsentinel\r\n";
const SENTINEL_REPLY: &[u8] = b"$8\r\nsentinel\r\n";

/// Inputs as text; each is shown as it stands in messages.
const TEXTS: &[&[u8]] = &[
    // Empty requests and line ends.
    b"\r\n",
    b"\n",
    b"\r\n\r\n\r\nPING\r\n",
    b"*0\r\nPING\r\n",
    b"*-1\r\nPING\r\n",
    b"*-10\r\nPING\r\n",
    b"PING\n",
    b"PING\r\n",
    b"   PING   \r\n",
    b"\tPING\r\n",
    b"    \r\nPING\r\n",
    // Inline quoting.
    b"SET k \"a b\"\r\nGET k\r\n",
    b"SET k 'a b'\r\nGET k\r\n",
    b"SET k 'it\\'s'\r\nGET k\r\n",
    b"SET k \"\\x41\\n\\r\\t\\a\\b\\\\\\\"\"\r\nGET k\r\n",
    b"SET k \"\\xZZ\"\r\nGET k\r\n",
    b"SET k \"unbalanced\r\n",
    b"SET k 'unbalanced\r\n",
    b"SET k \"a\"b\r\n",
    b"SET k 'a'b\r\n",
    b"SET k a\"b c\"\r\nGET k\r\n",
    b"SET k \"\"\r\nGET k\r\n",
    b"PING \"unbalanced\r\nPING\r\n",
    b"GET / HTTP/1.1\r\nX: y\r\n\r\n",
    // Numbers of arguments.
    b"*abc\r\n",
    b"*\r\nPING\r\n",
    b"*1x\r\n",
    b"* 1\r\n",
    b"*+1\r\n",
    b"*01\r\n",
    b"*1073741824\r\n",
    b"*2147483648\r\n",
    b"*99999999999999999999\r\n",
    b"*-2147483649\r\nPING\r\n",
    // Lengths of bulks.
    b"*1\r\n$abc\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$\r\n",
    b"*1\r\n$+4\r\nPING\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n$2000000000\r\n",
    b"*1\r\n$536870913\r\n",
    b"*1\r\n$99999999999999999999\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-1\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
    b"*1\r\n$0\r\n\r\n",
    // Wrong type bytes.
    b"*1\r\nPING\r\n",
    b"*1\r\n:4\r\n",
    b"*1\r\n*1\r\n$4\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n+hello\r\n",
    b"*1\r\n\r\n",
    b"$4\r\nPING\r\n",
    b"+OK\r\n",
    b"-ERR x\r\n",
    b"%1\r\n",
    // Good requests first, then garbage: the good ones are answered.
    b"SET k v\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n:oops\r\n",
    b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n*x\r\n*1\r\n$4\r\nPING\r\n",
    b"PING\r\nECHO a\r\nSTRLEN n\r\nSET k \"bad\r\nPING\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n$x\r\n",
    b"\xff\xfe\xfd\r\nPING\r\n",
    // After QUIT nothing is executed.
    b"SET k before\r\nQUIT\r\nSET k after\r\n",
    b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
];

/// Inputs at which the server waits for more: a header ends at a CR and nowhere else, a line of an
/// inline request is looked for up to the first zero byte.
const WAITING: &[&[u8]] = &[
    b"*1\n$4\nPING\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\n",
    b"SET \x00 \xff\r\nGET \x00\r\n",
];

/// How long a connection is silent before it counts as waiting. Too short it would be a guess on a
/// busy machine.
const SILENCE: Duration = Duration::from_millis(1500);

/// All cases, whole and cut.
pub(super) fn cases() -> Vec<Case> {
    let case = |text: &&[u8], waits| Case {
        name: quote(text, 100),
        input: [text, SENTINEL].concat(),
        waits,
    };
    let mut cases: Vec<Case> = TEXTS.iter().map(|text| case(text, false)).collect();
    cases.extend(WAITING.iter().map(|text| case(text, true)));
    // Lines without an end: the server gives up after 64 KiB.
    for (name, head) in [
        ("endless inline line", "PING "),
        ("endless array header", "*1"),
        ("endless bulk header", "*1\r\n$1"),
    ] {
        let input = [head.as_bytes(), &[b'1'; 70 * 1024]].concat();
        cases.push(Case { name: name.to_owned(), input, waits: false });
    }
    cases
}

/// What comes back, in words: the bytes, and whether the connection was closed.
pub(super) fn answer(to: &Endpoint, case: &Case) -> String {
    let whole = exchange(to, &[&case.input]);
    if case.waits {
        return whole;
    }
    // The same bytes in other packets are the same input. Long ones are cut at few places only.
    let cuts = [1, 2, case.input.len() / 2, case.input.len() - 1];
    for cut in cuts.into_iter().filter(|cut| (1..case.input.len()).contains(cut)) {
        let (a, b) = case.input.split_at(cut);
        let cut_up = exchange(to, &[a, b]);
        if cut_up != whole {
            return format!("whole {whole} but cut at {cut} {cut_up}");
        }
    }
    whole
}

fn exchange(to: &Endpoint, pieces: &[&[u8]]) -> String {
    let mut stream = to.connect().expect("connect");
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            // Long enough, most of the time, for the first piece to be read alone; the result must
            // not depend on it.
            std::thread::sleep(Duration::from_millis(2));
        }
        // The peer may close before it has read everything.
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    stream.set_read_timeout(SILENCE).expect("timeout");
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return format!("{} closed", quote(&all, 500)),
            Ok(count) => all.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return format!("{} and then nothing", quote(&all, 500));
            }
            // A reset is a close with input unread.
            Err(_) => return format!("{} closed", quote(&all, 500)),
        }
        if all.ends_with(SENTINEL_REPLY) {
            return format!("{} open", quote(&all, 500));
        }
    }
}
