//! Clients of the plainest kind, beside the proxy's: what Redis itself loses shows in those that ask it directly.
//!
//! Each has one counter and raises it again and again. A direct one follows `-MOVED` and goes to another node when its
//! connection ends, as a cluster client does; one before the proxy has only that to go to. What was acknowledged and is not
//! there in the end is lost.
//!
//! Invariant: a direct client and one before the proxy are the same code with other addresses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testkit::{Conn, Endpoint};

/// Time between two requests of a client.
const PACE: Duration = Duration::from_millis(4);
/// After an answer that is no number.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Raises a counter until it is told to stop; gives how often that was acknowledged.
pub(crate) fn count(nodes: &[Endpoint], key: &str, stop: &AtomicBool) -> u64 {
    let (mut acked, mut turn) = (0, 0);
    let mut conn: Option<Conn> = None;
    while !stop.load(Ordering::Acquire) {
        let Some(mut open) = conn.take().or_else(|| connect(&nodes[turn % nodes.len()])) else {
            turn += 1;
            thread::sleep(PAUSE);
            continue;
        };
        match open.command(&["INCR", key]) {
            Ok(reply) if reply.starts_with(b":") => {
                acked += 1;
                conn = Some(open);
                thread::sleep(PACE);
            }
            Ok(reply) => match moved_to(&reply) {
                Some(owner) => conn = connect(&owner),
                None => {
                    conn = Some(open);
                    thread::sleep(PAUSE);
                }
            },
            Err(_) => turn += 1,
        }
    }
    acked
}

fn connect(to: &Endpoint) -> Option<Conn> {
    let mut conn = Conn::open(to).ok()?;
    conn.set_timeout(PATIENCE);
    Some(conn)
}

/// Whom `-MOVED <slot> <address>:<port>` names.
fn moved_to(reply: &[u8]) -> Option<Endpoint> {
    let text = std::str::from_utf8(reply.strip_prefix(b"-MOVED ")?).ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Endpoint::Tcp)
}
