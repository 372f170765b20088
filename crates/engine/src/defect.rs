//! Frames that a server refuses as no protocol although the scanner let them pass.
//!
//! `resp::RequestScanner` is as strict as the strictest supported server, so that this never happens. If it does, the server closes a connection
//! that many clients share: a defect, which is counted (`upstream_protocol_errors`) and logged with the shape of the frame, by which the rule is
//! found that the scanner lacks. Values are never shown.
//!
//! ```text
//!   -ERR Protocol error … ── the last reply ── the server closes ──▶ counted, logged
//!                         └─ further replies come ─────────────────▶ a script's text: forgotten
//! ```
//! Not here: what clients get (`connect`).
//!
//! Invariant: a shape holds lengths and names of commands of the table, nothing that a client chose.

use crate::command;
use crate::engine::{Engine, Notice};
use crate::ids::UpstreamId;
use crate::redirect::find_request_bytes;
use crate::upstream::Upstream;
use crate::upstream::inflight::Run;
use alloc::format;
use alloc::string::{String, ToString};
use resp::Args;

/// How a server begins to say that what it was sent is no protocol.
const PROTOCOL_ERROR: &[u8] = b"-ERR Protocol error";

/// So many lengths of arguments are shown.
const SHOWN_ARGS_MAX: usize = 8;

/// A reply that said so.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Its place among the replies of the connection.
    place: u64,
    shape: String,
}

/// Whether this error reply says that what the server was sent is no protocol.
pub(crate) fn is_protocol_error(reply: &[u8]) -> bool {
    reply.starts_with(PROTOCOL_ERROR)
}

impl Upstream {
    /// The reply to this request of the front run says so.
    pub(crate) fn note_refused(&mut self, run: &Run, index: u32) {
        let shape = match find_request_bytes(self, run, run.done + index) {
            Some((_, frame)) => shape_of(frame),
            None => String::from("a request that is not kept"),
        };
        let place = self.inflight.place() + u64::from(index);
        self.refused = Some(alloc::boxed::Box::new(Refused { place, shape }));
    }
}

impl Engine {
    /// A connection ends with this cause: looks whether the server refused a frame.
    pub(crate) fn note_refused_frame(&mut self, id: UpstreamId, cause: &str, ours: bool) {
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let last = upstream.inflight.place();
        let refused = upstream.refused.take().filter(|refused| refused.place + 1 == last && !ours);
        let shape = match refused {
            Some(refused) => refused.shape,
            // The frame was not whole for the server, or had ended for it before.
            None if cause.contains("ERR Protocol error") => String::from("not known"),
            None => return,
        };
        let node = upstream.key.node;
        self.stats.upstream_protocol_errors += 1;
        let node = self.label(node).to_string();
        self.notices.push_back(Notice::FrameRefused { node, shape });
    }
}

/// `get *2 $3 $16`: the command, and what the lines of the frame say.
fn shape_of(frame: &[u8]) -> String {
    let args = Args::new(frame);
    let count = args.left();
    let name = args.clone().next().and_then(command::lookup);
    let mut shape = format!("{} *{count}", name.map_or("(unknown)", |name| name.name()));
    for arg in args.take(SHOWN_ARGS_MAX) {
        shape.push_str(&format!(" ${}", arg.len()));
    }
    if count as usize > SHOWN_ARGS_MAX {
        shape.push_str(" …");
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_shows_lengths_and_no_values() {
        assert_eq!(shape_of(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$6\r\nsecret\r\n"), "set *3 $3 $1 $6");
        assert_eq!(shape_of(b"*1\r\n$6\r\nsecret\r\n"), "(unknown) *1 $6");
        let many = [&b"*10\r\n$3\r\nDEL\r\n"[..], &b"$1\r\na\r\n".repeat(9)].concat();
        assert_eq!(shape_of(&many), "del *10 $3 $1 $1 $1 $1 $1 $1 $1 …");
    }
}
