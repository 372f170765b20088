//! Replies on their way in: names get the prefix back.
//!
//! ```text
//!   reply.rs, delimiter.rs: where the front reply ends ─▶ next_at_edge ─▶ no names in it: it goes on as it comes
//!                                                                     └▶ names in it:    kept in the tail until it is whole, renamed ─▶ reply.rs
//! ```
//! The engine says which bytes belong to the front reply, so the edge never looks for the end of a reply whose text may be a client's (`delimiter`). A reply in which names
//! stand is kept within the bound of what a client may have waiting; one beyond it is dropped as it comes, and an error stands in its place.
//!
//! Not here: where names stand in a reply (`policy::outward`).
//!
//! Invariant: as many replies are awaited as requests were sent and not answered, and each reply takes the first of them; a push takes none.

use super::Edge;
use crate::engine::Engine;
use crate::ids::UpstreamId;
use crate::limits::RENAMED_IN_EXEC_MAX;
use crate::policy::outward::{Names, Shape};
use crate::reject;
use crate::reply::{Fault, malformed};
use crate::time::Time;
use crate::upstream::inflight::{Owner, Run};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use resp::{ReplyScanner, Scan, number};

/// The change that one reply needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// The reply stays as it is.
    Plain,
    /// Names in the reply get their prefix.
    Names(Names),
    /// This reply takes its place.
    Instead(Vec<u8>),
    /// If the reply is no error, requests are queued from here on.
    Multi,
    /// All that was queued is answered in it.
    Exec,
    /// Nothing is queued any more.
    Discard,
}

impl Awaited {
    /// Bytes that it holds beside itself.
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Names(names) => names.heap_bytes(),
            Self::Instead(reply) => reply.len(),
            Self::Plain | Self::Multi | Self::Exec | Self::Discard => 0,
        }
    }
}

/// What a transaction has queued.
#[derive(Debug, Default)]
struct Queued {
    count: usize,
    /// Bytes that `named` holds beside itself.
    heap_bytes: usize,
    /// Those whose answers have names, by their index.
    named: Vec<(usize, Names)>,
    /// There were more of them than are remembered.
    is_full: bool,
}

/// The replies to what was sent over one connection.
#[derive(Debug, Default)]
pub(super) struct Replies {
    /// The changes, the oldest first.
    pub(super) awaited: VecDeque<Awaited>,
    /// Bytes that they hold beside themselves.
    heap_bytes: usize,
    /// Between MULTI and EXEC.
    queued: Option<Queued>,
    /// More of the front reply is to come, or came, than may be kept.
    large: Large,
}

/// The front reply, as far as it is too large to be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Large {
    #[default]
    No,
    /// The begin of the reply was dropped, and respool drops the rest as it comes.
    Drops,
    /// The reply was dropped up to its last byte. The last byte stays until the engine took the reply in its place.
    Dropped,
}

/// The change of the transaction that a whole reply tells of.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// The transaction begins.
    Begun,
    /// One more request is queued, and its answer may have names.
    Queued(Option<Names>),
}

const QUEUED: &[u8] = b"+QUEUED\r\n";

impl Replies {
    /// The reply to the request that is sent next needs this change.
    pub(super) fn push(&mut self, awaited: Awaited) {
        self.heap_bytes += awaited.heap_bytes();
        self.awaited.push_back(awaited);
    }

    /// The front request was answered.
    fn pass(&mut self) {
        self.large = Large::No;
        let Some(passed) = self.awaited.pop_front() else { return };
        self.heap_bytes -= passed.heap_bytes();
        if matches!(passed, Awaited::Exec | Awaited::Discard) {
            self.queued = None;
        }
    }

    /// Bytes of the changes.
    pub(super) fn bytes(&self) -> usize {
        let named =
            |queued: &Queued| queued.named.len() * size_of::<(usize, Names)>() + queued.heap_bytes;
        self.awaited.len() * size_of::<Awaited>()
            + self.heap_bytes
            + self.queued.as_ref().map_or(0, named)
    }

    /// Whether the front reply, which begins with this byte, is wanted whole.
    fn keeps(&self, first: u8) -> bool {
        let is_queueing = self.queued.is_some() && first == b'+';
        match self.awaited.front() {
            None => false,
            Some(Awaited::Plain) => is_queueing,
            Some(Awaited::Names(names)) if names.shape == Shape::Errors => {
                is_queueing || first == b'-'
            }
            Some(Awaited::Exec) => self
                .queued
                .as_ref()
                .is_some_and(|queued| queued.is_full || !queued.named.is_empty()),
            Some(Awaited::Names(_) | Awaited::Instead(_) | Awaited::Multi | Awaited::Discard) => {
                true
            }
        }
    }

    /// Writes the front reply, which is whole, as the engine gets it.
    fn rename(&self, frame: &[u8], out: &mut Vec<u8>) -> Told {
        let is_queued = self.queued.is_some() && frame == QUEUED;
        match self.awaited.front() {
            Some(Awaited::Instead(reply)) => out.extend_from_slice(reply),
            Some(Awaited::Names(names)) if !is_queued => names.write(frame, out),
            Some(Awaited::Exec) => match &self.queued {
                Some(queued) => queued.write(frame, out),
                None => out.extend_from_slice(frame),
            },
            _ => out.extend_from_slice(frame),
        }
        match self.awaited.front() {
            Some(Awaited::Names(names)) if is_queued => Told::Queued(Some(names.clone())),
            Some(Awaited::Plain) if is_queued => Told::Queued(None),
            Some(Awaited::Multi) if self.queued.is_none() && frame == b"+OK\r\n" => Told::Begun,
            _ => Told::Nothing,
        }
    }

    fn note(&mut self, told: Told) {
        match (told, &mut self.queued) {
            (Told::Begun, _) => self.queued = Some(Queued::default()),
            (Told::Queued(Some(names)), Some(queued)) => queued.push(names),
            (Told::Queued(None), Some(queued)) => queued.count += 1,
            _ => {}
        }
    }

    /// The reply that takes the place of the front one, which was larger than may be kept.
    fn instead_of_large(&self) -> Vec<u8> {
        match self.awaited.front() {
            Some(Awaited::Instead(reply)) => reply.clone(),
            _ => {
                let mut reply = Vec::new();
                reject::write(&mut reply, reject::TOO_LARGE_TO_PREFIX);
                reply
            }
        }
    }
}

impl Edge {
    /// The front request was answered.
    #[cold]
    pub(crate) fn answered(&mut self, count: u32) {
        (0..count).for_each(|_| self.replies.pass());
    }

    /// Whether the begin of the front reply was dropped.
    pub(crate) fn drops(&self) -> bool {
        self.replies.large != Large::No
    }
}

impl Engine {
    /// Hands over the front reply of a connection that has an edge, or the part of it that is here. Returns the bytes done with, and whether there may be more to do.
    #[cold]
    pub(crate) fn next_at_edge(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        watch: bool,
        input: &[u8],
    ) -> Result<(usize, bool), Fault> {
        // Each reply has a change of its own.
        let run = &Run { count: run.count.min(1), ..*run };
        let Some(upstream) = self.upstreams.get_mut(id) else { return Ok((input.len(), false)) };
        let Some(edge) = &upstream.edge else { return Ok((0, false)) };
        if edge.drops() {
            return self.drop_large(now, id, run, input);
        }
        if upstream.forwarded > 0 || !edge.replies.keeps(input[0]) {
            return self.next_whole_or_part(now, id, run, watch, input);
        }
        let seen = upstream.scanner.position() as usize;
        let Some(rest) = input.get(seen..).filter(|rest| !rest.is_empty()) else {
            return Ok((0, false));
        };
        match upstream.scanner.scan(rest).map_err(|error| malformed(&error))? {
            Scan::Complete { consumed, .. } => {
                let mut renamed = Vec::new();
                let told = edge.replies.rename(&input[..seen + consumed], &mut renamed);
                let (used, goes_on) = self.next_whole_or_part(now, id, run, watch, &renamed)?;
                if used == 0 {
                    return Ok((0, goes_on));
                }
                if let Some(edge) = self.upstreams.get_mut(id).and_then(|up| up.edge.as_mut()) {
                    edge.replies.note(told);
                    // A transaction holds more with each of its requests.
                    self.weigh_upstream(id);
                }
                Ok((seen + consumed, goes_on))
            }
            Scan::Partial { .. } => self.keep_at_edge(now, id, run, input.len()),
        }
    }

    /// The front reply is wanted whole, and a part of it is here.
    fn keep_at_edge(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        waiting: usize,
    ) -> Result<(usize, bool), Fault> {
        let room = self.settings.limits.client_out_max_bytes as u64;
        let Some(upstream) = self.upstreams.get_mut(id) else { return Ok((0, false)) };
        let (position, missing) = (upstream.scanner.position(), upstream.scanner.missing());
        if position.saturating_add(missing) > room {
            let Some(edge) = upstream.edge.as_mut() else { return Ok((0, false)) };
            edge.replies.large = Large::Drops;
            upstream.forwarded = position;
            return Ok((position as usize, false));
        }
        match run.owner {
            Owner::Own(own) if waiting > own.reply_bytes_max() => {
                Err(String::from("sent too long a reply to a command of the proxy"))
            }
            Owner::Own(_) => Ok((0, false)),
            // Others wait for it, too.
            _ if !upstream.inflight.front_sharers().is_empty() => Ok((0, false)),
            Owner::Client { .. } | Owner::Part { .. } => {
                let client = self.client_of(run.owner);
                Ok((self.bound_whole(now, id, client, waiting), false))
            }
        }
    }

    /// Drops what comes of a reply that is too large to be kept; its client gets an error behind it.
    fn drop_large(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        input: &[u8],
    ) -> Result<(usize, bool), Fault> {
        let Some(upstream) = self.upstreams.get_mut(id) else { return Ok((input.len(), false)) };
        let Some(edge) = upstream.edge.as_mut() else { return Ok((input.len(), true)) };
        if edge.replies.large == Large::Dropped {
            let reply = edge.replies.instead_of_large();
            return self.hand_instead_of_large(now, id, run, &reply);
        }
        match upstream.scanner.scan(input).map_err(|error| malformed(&error))? {
            Scan::Partial { consumed } => {
                upstream.forwarded += consumed as u64;
                Ok((consumed, false))
            }
            Scan::Complete { consumed, .. } => {
                edge.replies.large = Large::Dropped;
                Ok((consumed - 1, true))
            }
        }
    }

    /// Hands over this reply for the last byte of one that was dropped. The request may have to wait for a buffer: then the byte is looked at again.
    fn hand_instead_of_large(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        reply: &[u8],
    ) -> Result<(usize, bool), Fault> {
        let Some(upstream) = self.upstreams.get_mut(id) else { return Ok((1, false)) };
        let forwarded = core::mem::take(&mut upstream.forwarded);
        let (used, goes_on) = self.next_whole_or_part(now, id, run, false, reply)?;
        if used == 0 {
            if let Some(upstream) = self.upstreams.get_mut(id) {
                upstream.forwarded = forwarded;
            }
            return Ok((0, goes_on));
        }
        Ok((1, true))
    }
}

impl Queued {
    fn push(&mut self, names: Names) {
        if self.named.len() < RENAMED_IN_EXEC_MAX {
            self.heap_bytes += names.heap_bytes();
            self.named.push((self.count, names));
        } else {
            self.is_full = true;
        }
        self.count += 1;
    }

    /// The answer to EXEC.
    fn write(&self, frame: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        if matches!(frame[0], b'-' | b'!' | b'_') || frame.starts_with(b"*-1") {
            return out.extend_from_slice(frame);
        }
        if self.is_full || self.write_elements(frame, out).is_none() {
            out.truncate(begin);
            let is_full = self.is_full;
            reject::write(
                out,
                if is_full { reject::TOO_LARGE_TO_PREFIX } else { reject::NOT_PREFIXED },
            );
        }
    }

    fn write_elements(&self, frame: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let line = frame.iter().position(|byte| *byte == b'\r')? + 2;
        let count = usize::try_from(number::parse_i64(frame.get(1..line - 2)?)?).ok()?;
        let (head, mut rest) = frame.split_at_checked(line)?;
        if head[0] != b'*' || count != self.count {
            return None;
        }
        out.extend_from_slice(head);
        let mut named = self.named.iter().peekable();
        for index in 0..count {
            let Ok(Scan::Complete { consumed, .. }) = ReplyScanner::default().scan(rest) else {
                return None;
            };
            let (element, behind) = rest.split_at(consumed);
            match named.next_if(|(at, _)| *at == index) {
                Some((_, names)) => names.write(element, out),
                None => out.extend_from_slice(element),
            }
            rest = behind;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::outward::Rename;
    use alloc::string::String;
    use resp::ReplyScanner;

    fn names(shape: Shape) -> Awaited {
        let rename = Rename::With(b"o:".as_slice().into(), None);
        Awaited::Names(Names { rename, shape })
    }

    /// The replies as the engine gets them, and how many are still awaited.
    fn given(awaited: Vec<Awaited>, stream: &[u8]) -> (String, usize) {
        let mut replies = Replies::default();
        awaited.into_iter().for_each(|one| replies.push(one));
        let (mut out, mut rest) = (Vec::new(), stream);
        while let Ok(Scan::Complete { consumed, .. }) = ReplyScanner::default().scan(rest) {
            let (frame, behind) = rest.split_at(consumed);
            match replies.keeps(frame[0]) {
                true => {
                    let told = replies.rename(frame, &mut out);
                    replies.pass();
                    replies.note(told);
                }
                false => {
                    out.extend_from_slice(frame);
                    replies.pass();
                }
            }
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        assert!(!replies.awaited.is_empty() || replies.bytes() == 0, "bytes of nothing");
        (String::from_utf8_lossy(&out).into(), replies.awaited.len())
    }

    const HEAD: &[u8] = b"*2\r\n$1\r\nq\r\n$1\r\nv\r\n";
    const FULL_HEAD: &str = "*2\r\n$3\r\no:q\r\n$1\r\nv\r\n";

    #[test]
    fn each_reply_becomes_what_is_awaited() {
        let stream = [b"$1\r\nq\r\n", HEAD, b"-ERR unknown command\r\n"].concat();
        let instead = Awaited::Instead(b"-ERR no\r\n".to_vec());
        let awaited = alloc::vec![Awaited::Plain, names(Shape::Head), instead];
        assert_eq!(
            given(awaited, &stream),
            (["$1\r\nq\r\n", FULL_HEAD, "-ERR no\r\n"].concat(), 0)
        );
    }

    #[test]
    fn answers_of_a_transaction_are_changed_one_by_one() {
        let awaited = || {
            alloc::vec![
                Awaited::Multi,
                Awaited::Plain,
                names(Shape::Head),
                names(Shape::Errors),
                Awaited::Exec,
                names(Shape::Head),
            ]
        };
        let exec = [b"*3\r\n+OK\r\n", HEAD, b"-NOGROUP No such key 's' or\r\n"].concat();
        let stream = [b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n", &exec[..], HEAD].concat();
        let expected = alloc::format!(
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n{FULL_HEAD}-NOGROUP No such key 'o:s' or\r\n{FULL_HEAD}"
        );
        assert_eq!(given(awaited(), &stream), (expected, 0));
        // What was not queued has no answer; and a transaction that is not done has none either.
        let stream =
            [b"+OK\r\n-ERR wrong\r\n+QUEUED\r\n-ERR no\r\n-EXECABORT x\r\n", HEAD].concat();
        let (shown, _) = given(awaited(), &stream);
        assert!(shown.ends_with(&alloc::format!("-EXECABORT x\r\n{FULL_HEAD}")), "{shown}");
        let stream = [b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n", HEAD].concat();
        let (shown, _) = given(awaited(), &stream);
        assert!(shown.ends_with(&alloc::format!("*-1\r\n{FULL_HEAD}")), "{shown}");
        // Nothing is queued behind DISCARD.
        let mut all = alloc::vec![Awaited::Multi, names(Shape::Head), Awaited::Discard];
        all.extend([Awaited::Exec, names(Shape::Head)]);
        let stream = [b"+OK\r\n+QUEUED\r\n+OK\r\n*0\r\n", HEAD].concat();
        let (shown, _) = given(all, &stream);
        assert_eq!(shown, alloc::format!("+OK\r\n+QUEUED\r\n+OK\r\n*0\r\n{FULL_HEAD}"));
    }

    #[test]
    fn only_so_many_answers_of_a_transaction_are_remembered() {
        let mut awaited = alloc::vec![Awaited::Multi];
        awaited.extend((0..=RENAMED_IN_EXEC_MAX).map(|_| names(Shape::Name)));
        awaited.push(Awaited::Exec);
        let mut stream = b"+OK\r\n".to_vec();
        stream.extend(QUEUED.repeat(RENAMED_IN_EXEC_MAX + 1));
        stream.extend(alloc::format!("*{}\r\n", RENAMED_IN_EXEC_MAX + 1).bytes());
        stream.extend(b"$1\r\nk\r\n".repeat(RENAMED_IN_EXEC_MAX + 1));
        let (shown, left) = given(awaited, &stream);
        assert!(shown.contains("+QUEUED\r\n-ERR respool: the reply is too large") && left == 0);
    }
}
