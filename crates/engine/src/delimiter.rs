//! The end of a reply whose text a script, a function or a module chooses.
//!
//! Servers put such text into the line of an error or a status, and some leave line breaks in it: Redis 8.2 those of `error('…')` in a script, Redis 7.0
//! and 8.2 and Valkey 8.1 and 9.1 those of `FUNCTION LOAD`, Redis 8.2 and both versions of Valkey those of `FUNCTION LIST` (`addReplyErrorSds` does not
//! replace them; CVE-2025-67733 is one such text of a script in older versions of Valkey). Bytes behind the break look like the next reply, which belongs to another client.
//!
//! ```text
//!   EVAL "error('x\r\n+y')" 0   ECHO respool:3f…   GET k     to the server
//!   -ERR x ␍␊ +y ␍␊             $24 respool:3f…    $1 v      from it
//!   -ERR x    +y                                             to the client
//! ```
//! A request of this kind is followed by an `ECHO` of a secret word, the *delimiter*, which nobody can put into a text as nobody can know it. All before the delimiter is
//! the reply. If it is more than one frame, the client gets it as one line.
//!
//! A server may refuse ECHO (`NOPERM`, or `BUSY` while another script runs). Then a command whose name is a second secret word follows: each server answers that one, whatever state it
//! is in, with an error that names the word. Up to there as many replies must have come as are due, and then each is what it looks like.
//!
//! Between the reply and the delimiter a server puts pushes that tell of changed keys, on connections that it tells them (`CLIENT TRACKING`). A text can hold what looks like a push, so
//! nothing there is taken for one before the delimiter is here, and only if all in between are whole pushes of that kind. Otherwise a text that has line breaks may hold some, and
//! all that is cached is dropped. So a text can say that keys changed, and cannot keep it from anybody.
//!
//! Not here: what the error of a script makes the proxy do (`trust`).
//!
//! Invariant: of a reply that may hold line breaks nothing is given on beyond the delimiter, and nothing before the delimiter is taken for another reply or for a push that is
//! not whole.

use crate::command::CommandId;
use crate::engine::Engine;
use crate::ids::UpstreamId;
use crate::limits::{CUT_THROUGH_BYTES, PUSHES_BEHIND_BYTES_MAX, TEXT_LINE_BYTES_MAX};
use crate::reply::{Fault, Front};
use crate::time::Time;
use crate::tracking::wire;
use crate::upstream::inflight::{OwnCommand, Owner, Run};
use crate::upstream::{Upstream, UpstreamKey};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use memchr::memmem;
use resp::{ReplyScanner, Scan};
use sha2::{Digest as _, Sha256};

/// Bytes of a word: `respool:` and 16 hexadecimal digits.
const WORD_BYTES: usize = 24;

/// Bytes of the reply to an ECHO of it.
const FRAME_BYTES: usize = WORD_BYTES + 7;

/// The reply that a client gets in place of one that is not valid RESP.
const NOT_RESP: &[u8] = b"-ERR respool: the server's reply to this command is not valid RESP\r\n";

/// The reply that a client gets in place of an error or a status of more than [`TEXT_LINE_BYTES_MAX`].
const TOO_LONG: &[u8] = b"-ERR respool: the server's reply to this command is an error or a status of more than 1048576 bytes\r\n";

/// The cause of a lost connection: the end of a text cannot be found.
const NO_END: &str = "sent an error with line breaks, and does not take ECHO to find its end";

/// True if the reply to this command may hold line breaks where RESP has none. `None`: the table does not know the command.
#[inline]
#[must_use]
pub fn breaks_lines(command: Option<CommandId>) -> bool {
    command.is_none_or(CommandId::breaks_lines)
}

/// Secret words, and what is known of replies whose end has not come.
#[derive(Debug, Default)]
pub(crate) struct Delimiters {
    words: Words,
    open: BTreeMap<UpstreamId, Open>,
    /// Connections with as many replies as are due up to the answer to this second word.
    counted: BTreeMap<UpstreamId, u64>,
}

/// Words that nobody can guess: SHA-256 in counter mode.
#[derive(Default)]
struct Words {
    key: [u8; 32],
    block: u64,
    ready: Vec<u64>,
}

impl core::fmt::Debug for Words {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("***")
    }
}

impl Words {
    fn next(&mut self) -> u64 {
        if self.ready.is_empty() {
            self.block += 1;
            let digest: [u8; 32] = Sha256::new()
                .chain_update(self.key)
                .chain_update(self.block.to_le_bytes())
                .finalize()
                .into();
            let words = digest.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
            self.ready.extend(words);
        }
        self.ready.pop().unwrap_or_default()
    }
}

impl Delimiters {
    /// With this secret.
    pub(crate) fn new(seed: u64) -> Self {
        let mut delimiters = Self::default();
        delimiters.stir(&seed.to_le_bytes());
        delimiters
    }

    /// The words depend on these bytes, too.
    pub(crate) fn stir(&mut self, bytes: &[u8]) {
        let words = &mut self.words;
        words.key = Sha256::new().chain_update(words.key).chain_update(bytes).finalize().into();
        words.ready.clear();
    }

    /// Whether the next bytes of this connection may be of a text: something of it was dropped, or its delimiter is due.
    #[cold]
    pub(crate) fn may_be_text(&self, id: UpstreamId, upstream: &Upstream) -> bool {
        upstream.inflight.front().is_some_and(|run| {
            let is_due = matches!(run.owner, Owner::Own(OwnCommand::Delimiter(_)));
            is_due || self.open.get(&id).is_some_and(Open::is_dropped)
        })
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, id: UpstreamId) {
        self.open.remove(&id);
        self.counted.remove(&id);
    }
}

/// What is known of the front reply of a connection, of which nothing was given on.
#[derive(Debug, Default)]
struct Open {
    /// Where the search for the delimiter goes on.
    searched: usize,
    scanner: ReplyScanner,
    /// Bytes that the scanner has seen.
    scanned: usize,
    /// Where the first frame ends.
    first_ends: Option<usize>,
    /// The first frame is none.
    is_broken: bool,
    /// The second word, which was asked for.
    second: Option<u64>,
    /// respool dropped the begin of the reply; the client gets this text in its place.
    instead: Option<&'static [u8]>,
    /// The reply before it was given on in parts, so nobody looked for a text in it.
    is_streamed: bool,
}

/// The front reply of a connection.
enum Delimited {
    /// It is what it looks like.
    Sound,
    /// It is looked at again when more is here; so many bytes of its begin are not kept.
    Open(usize),
    /// So many bytes belong to it and to nothing else.
    Part(usize),
    /// The same, and the delimiter stands behind them.
    Rest(usize),
    /// So many bytes before the delimiter tell of changed keys.
    Pushes(usize),
    /// So many bytes are the reply, and this takes its place.
    Instead(usize, Vec<u8>),
}

impl Open {
    /// Of a delimiter: nothing should stand before it.
    fn of_delimiter() -> Self {
        Self { first_ends: Some(0), ..Self::default() }
    }

    /// State of a reply whose begin was dropped; the client gets this text in its place.
    fn of_dropped(instead: &'static [u8]) -> Self {
        Self { instead: Some(instead), ..Self::default() }
    }

    /// Drops the bytes that were searched; returns their number.
    fn drop_searched(&mut self, instead: &'static [u8]) -> usize {
        let dropped = self.searched;
        *self = Self { second: self.second, ..Self::of_dropped(instead) };
        dropped
    }

    fn is_dropped(&self) -> bool {
        self.instead.is_some()
    }

    /// Looks at what came, as far as the first frame goes.
    fn look(&mut self, input: &[u8]) {
        if self.first_ends.is_some() || self.is_broken || self.is_dropped() {
            return;
        }
        let Some(rest) = input.get(self.scanned..).filter(|rest| !rest.is_empty()) else { return };
        match self.scanner.scan(rest) {
            Ok(Scan::Complete { consumed, .. }) => self.first_ends = Some(self.scanned + consumed),
            Ok(Scan::Partial { consumed }) => self.scanned += consumed,
            Err(_) => self.is_broken = true,
        }
    }

    /// Whether something stands behind the first frame that is no begin of the delimiter.
    fn is_strange(&self, input: &[u8], frame: &[u8]) -> bool {
        let behind = self.behind(input);
        let may_be_it = frame.starts_with(&behind[..behind.len().min(frame.len())]);
        self.is_broken || self.is_dropped() || !may_be_it
    }

    /// The bytes behind the first frame.
    fn behind<'a>(&self, input: &'a [u8]) -> &'a [u8] {
        self.first_ends.and_then(|end| input.get(end..)).unwrap_or_default()
    }

    /// Text for the client in place of a large reply that is not valid RESP or a line that is too long; `None` while the reply may still be valid.
    fn lost(&self, input: &[u8], is_strange: bool) -> Option<&'static [u8]> {
        let behind = self.behind(input);
        let may_be_pushes = behind.starts_with(b">") && behind.len() <= PUSHES_BEHIND_BYTES_MAX;
        let text = if may_be_pushes { self.first_ends.unwrap_or_default() } else { input.len() };
        match is_line(input) {
            _ if self.is_dropped() => self.instead,
            true => (text > TEXT_LINE_BYTES_MAX).then_some(TOO_LONG),
            false => (is_strange && !may_be_pushes).then_some(NOT_RESP),
        }
    }
}

impl Engine {
    /// The end of the request that was written last to this connection is marked, if its reply may break lines.
    #[inline]
    pub(crate) fn delimit(&mut self, now: Time, id: UpstreamId, command: Option<CommandId>) {
        if breaks_lines(command) {
            self.delimit_last(now, id);
        }
    }

    /// The end of the request that was written last to this connection is marked.
    #[cold]
    pub(crate) fn delimit_last(&mut self, now: Time, id: UpstreamId) {
        self.note_script_sent(id);
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        upstream.inflight.delimit_last();
        let word = self.scripts.delimiters.words.next();
        self.say_own(now, id, OwnCommand::Delimiter(word), &[b"ECHO", &text_of(word)]);
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.inflight.delimit_last();
        }
    }

    /// Hands over the front reply, or a part of it, as far as it goes. Returns the bytes done with, and whether there may be more to do.
    #[cold]
    pub(crate) fn next_delimited(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        watch: bool,
        input: &[u8],
    ) -> Result<(usize, bool), Fault> {
        self.note_trial(now, id, run, input);
        Ok(match self.delimited(now, id, run, input)? {
            Delimited::Sound => self.next_beside_sharers(now, id, run, watch, input)?,
            Delimited::Part(bytes) => {
                match self.next_beside_sharers(now, id, run, watch, &input[..bytes]) {
                    Err(_) if self.breaks_off(id, run) => (bytes, true),
                    handed => handed?,
                }
            }
            Delimited::Open(dropped) => (dropped, dropped > 0),
            Delimited::Pushes(bytes) => {
                let mut at = 0;
                while let Some(used) = wire::invalidation(&input[at..bytes]) {
                    self.invalidated(now, id, &input[at..at + used])?;
                    at += used;
                }
                (bytes, true)
            }
            Delimited::Instead(bytes, reply) => match self.hand_instead(now, id, run, &reply) {
                true => {
                    self.scripts.delimiters.open.remove(&id);
                    (bytes, true)
                }
                false => (0, false),
            },
            Delimited::Rest(0) => {
                self.end_endless(now, id, run);
                (0, true)
            }
            Delimited::Rest(bytes) => {
                let rest = &input[..bytes];
                let handed = match self.next_beside_sharers(now, id, run, watch, rest) {
                    Err(_) if self.breaks_off(id, run) => return Ok((bytes, true)),
                    handed => handed,
                };
                let (used, goes_on) = handed?;
                if !goes_on && self.upstreams.get(id).is_some_and(|up| up.waits_for_buffer) {
                    return Ok((used, false));
                }
                if !goes_on && used == 0 {
                    self.end_endless(now, id, run);
                    return Ok((bytes, true));
                }
                (used, true)
            }
        })
    }

    /// Looks for the end of the front reply of this connection, or for the delimiter if that is due.
    fn delimited(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        input: &[u8],
    ) -> Result<Delimited, Fault> {
        let Some(upstream) = self.upstreams.get(id) else { return Ok(Delimited::Open(0)) };
        let Some(word) = upstream.inflight.delimiter() else { return Ok(Delimited::Sound) };
        let is_due = run.owner == Owner::Own(OwnCommand::Delimiter(word));
        let frame = frame_of(word);
        if !Front::of(upstream).begins() {
            let open = Open { is_streamed: true, ..Open::of_delimiter() };
            self.scripts.delimiters.open.insert(id, open);
            return Ok(given_on(input, &frame));
        }
        if self.scripts.delimiters.counted.contains_key(&id) {
            return Ok(Delimited::Sound);
        }
        let known = self.scripts.delimiters.open.remove(&id);
        let is_dropped = known.as_ref().is_some_and(Open::is_dropped);
        // A length or a number is the server's own word, and so is the end of what has one.
        if !is_due && !is_dropped && matches!(input[0], b'$' | b':' | b'_' | b'#' | b'=') {
            return Ok(Delimited::Sound);
        }
        let key = upstream.key;
        let tells = key.lane.tells();
        let fresh = || if is_due { Open::of_delimiter() } else { Open::default() };
        let mut open = known.unwrap_or_else(fresh);
        open.look(input);
        let first = open.first_ends.and_then(|end| input.split_at_checked(end));
        if let Some((reply, _)) = first.filter(|(_, behind)| behind.starts_with(&frame)) {
            if tells && holds_push(reply) {
                self.drop_caches(key);
            }
            return Ok(Delimited::Sound);
        }
        let from = open.searched.min(input.len());
        if let Some(at) = memmem::find(&input[from..], &frame).map(|at| from + at) {
            return Ok(self.ended(id, (key, is_due), (at, input), open));
        }
        open.searched = input.len().saturating_sub(FRAME_BYTES - 1);
        let is_strange = open.is_strange(input, &frame);
        if let Some(second) = open.second {
            if let Some(at) = memmem::find(&input[from..], &text_of(second)) {
                if open.is_dropped() {
                    // The bytes that are left begin in the middle of a text.
                    return Err(String::from(NO_END));
                }
                self.count_up_to(id, second, &input[..from + at], open.is_streamed)?;
                return Ok(Delimited::Sound);
            }
        } else if is_strange {
            let second = self.scripts.delimiters.words.next();
            self.say_own(now, id, OwnCommand::Unknown(second), &[&text_of(second)]);
            open.second = Some(second);
        }
        let is_large = input.len() >= CUT_THROUGH_BYTES;
        if is_large && !is_strange && open.first_ends.is_none() && !is_line(input) {
            // Arrays go out as they come.
            let part = open.searched;
            self.scripts.delimiters.open.insert(id, open);
            return Ok(Delimited::Part(part));
        }
        let dropped = match open.lost(input, is_strange) {
            _ if !is_large => 0,
            Some(instead) => open.drop_searched(instead),
            None => self.bound_open(now, id, run, &mut open),
        };
        self.scripts.delimiters.open.insert(id, open);
        Ok(Delimited::Open(dropped))
    }

    /// The delimiter stands at this place, and not right behind the first frame.
    fn ended(
        &mut self,
        id: UpstreamId,
        (key, is_due): (UpstreamKey, bool),
        (at, input): (usize, &[u8]),
        open: Open,
    ) -> Delimited {
        let tells = key.lane.tells();
        let behind = open.first_ends.and_then(|end| input.get(end..at));
        // A server sends `tracking-redir-broken` on connections that do not tell of changes.
        let push = if tells { wire::invalidation } else { any_push };
        if !open.is_dropped() && behind.is_some_and(|behind| are_all(behind, push)) {
            return match is_due {
                true if tells => Delimited::Pushes(at),
                true => Delimited::Open(at),
                false => Delimited::Sound,
            };
        }
        if tells {
            // The text may hold real pushes, so respool tells all clients that hear of changes over this connection that all keys changed.
            self.drop_caches(key);
        }
        if is_due {
            return Delimited::Open(at);
        }
        let line = in_one_line(&input[..at], &open);
        // The request may have to wait for its buffer. respool then looks at the text again.
        self.scripts.delimiters.open.insert(id, open);
        Delimited::Instead(at, line)
    }

    /// A reply that waits for its end is its client's in the account. Nothing of one that nobody waits for is kept; returns the bytes dropped.
    fn bound_open(&mut self, now: Time, id: UpstreamId, run: &Run, open: &mut Open) -> usize {
        let client = self.client_of(run.owner);
        if let Some(client) = client.filter(|client| self.clients.get(*client).is_some()) {
            self.note_if_large(now, id);
            self.look_at_backlog(now, id, client);
            return 0;
        }
        open.drop_searched(NOT_RESP)
    }

    /// Hands this over in place of the reply to the front request, which was not one frame. Returns false if that must be looked at again.
    fn hand_instead(&mut self, now: Time, id: UpstreamId, run: &Run, reply: &[u8]) -> bool {
        if let Owner::Own(own) = run.owner {
            if let Some(upstream) = self.upstreams.get_mut(id) {
                upstream.answered(1);
            }
            self.own_reply(now, id, own, reply);
            return true;
        }
        if let Some(upstream) = self.upstreams.get_mut(id) {
            // What was looked at of it was no frame.
            upstream.scanner = ReplyScanner::default();
        }
        self.count_data(id, run, reply);
        let Some(front) = self.upstreams.get(id).map(Front::of) else { return true };
        let (used, _) = self.replies_of_run(now, id, run, front, (1, reply.len(), false), reply);
        used > 0
    }

    /// A reply of which a part went out turned out to be no RESP: all up to the delimiter is dropped, and its client is closed. Returns false if nothing of it went out.
    fn breaks_off(&mut self, id: UpstreamId, run: &Run) -> bool {
        let Some(upstream) = self.upstreams.get_mut(id).filter(|up| up.forwarded > 0) else {
            return false;
        };
        upstream.scanner = ReplyScanner::default();
        upstream.forwarded = 0;
        let key = upstream.key;
        if key.lane.tells() {
            self.drop_caches(key);
        }
        self.scripts.delimiters.open.insert(id, Open::of_dropped(NOT_RESP));
        self.evict_asker(run);
        true
    }

    /// The client of this request got no whole reply, so it can only be closed.
    fn evict_asker(&mut self, run: &Run) {
        if let Some(client) = self.client_of(run.owner) {
            self.evict(client, "the server's reply to its script was not valid RESP");
        }
    }

    /// A reply of which a part went out or was dropped has no end. respool closes the client that has the part; a merge and respool's own command get an error.
    fn end_endless(&mut self, now: Time, id: UpstreamId, run: &Run) {
        if let Some(upstream) = self.upstreams.get_mut(id) {
            upstream.scanner = ReplyScanner::default();
            upstream.forwarded = 0;
            upstream.answered(1);
            let key = upstream.key;
            if key.lane.tells() {
                self.drop_caches(key);
            }
        }
        match run.owner {
            Owner::Client { .. } => self.evict_asker(run),
            Owner::Part { merge, part } => self.part_reply(now, merge, part, NOT_RESP),
            Owner::Own(own) => self.own_reply(now, id, own, NOT_RESP),
        }
    }

    /// The server did not take the delimiter. These bytes stand before its answer to the second word: replies to all that was asked before that one, if
    /// no text had line breaks.
    fn count_up_to(
        &mut self,
        id: UpstreamId,
        second: u64,
        input: &[u8],
        is_streamed: bool,
    ) -> Result<(), Fault> {
        let Some(upstream) = self.upstreams.get(id) else { return Ok(()) };
        let is_second = |run: &&Run| run.owner == Owner::Own(OwnCommand::Unknown(second));
        let due = upstream.inflight.runs().take_while(|run| !is_second(run));
        let due = due.flat_map(|run| {
            let due = match run.owner {
                Owner::Own(OwnCommand::Delimiter(word)) => Due::Delimiter(word),
                _ if run.marks.is_delimited() => Due::Text,
                _ => Due::Plain,
            };
            core::iter::repeat_n(due, run.count as usize)
        });
        if !are_due(input, due, is_streamed) {
            return Err(String::from(NO_END));
        }
        self.scripts.delimiters.counted.insert(id, second);
        Ok(())
    }

    /// The server answered a second word.
    pub(crate) fn second_word_answered(&mut self, id: UpstreamId, word: u64) {
        if self.scripts.delimiters.counted.get(&id) == Some(&word) {
            self.scripts.delimiters.counted.remove(&id);
        }
    }
}

/// A reply that is due before the answer to a second word.
#[derive(Clone, Copy)]
enum Due {
    /// Its text is the server's.
    Plain,
    /// Its text may be a client's.
    Text,
    /// The reply is the echo of this word, or an error.
    Delimiter(u64),
}

/// Whether these replies, and the begin of an error behind them, stand here and are what they look like. `holds_text`: the reply before was a client's text.
fn are_due(mut input: &[u8], due: impl Iterator<Item = Due>, mut holds_text: bool) -> bool {
    for due in due {
        let Ok(Scan::Complete { consumed, .. }) = ReplyScanner::default().scan(input) else {
            return false;
        };
        let (frame, behind) = input.split_at(consumed);
        input = behind;
        // Behind a text, what looks like a push may have replies of others in it, and so may what has a length: then the refusal of ECHO is among them.
        let hides = |from: usize| memmem::find(&frame[from..], b"\r\n-").is_some();
        let text_at = text_in(frame);
        let is_sound = match due {
            Due::Plain => !holds_text || !hides(0),
            Due::Text => (!holds_text || !hides(0)) && !text_at.is_some_and(hides),
            Due::Delimiter(word) => frame[0] == b'-' || frame == frame_of(word),
        };
        if !is_sound || frame[0] == b'>' {
            return false;
        }
        holds_text |= matches!(due, Due::Text) && text_at.is_some();
    }
    // A further line would belong to a text, and the answer to the second word would reach another request.
    input.starts_with(b"-") && memmem::find(input, b"\r\n").is_none()
}

/// The place of the first line in this frame that may hold line breaks.
fn text_in(frame: &[u8]) -> Option<usize> {
    let begins_line = |at: &usize| is_line(&frame[*at..]);
    let mut lines = memmem::find_iter(frame, b"\r\n").map(|at| at + 2);
    Some(0).filter(begins_line).or_else(|| lines.find(begins_line))
}

/// Whether a push stands inside a list, where a text made room for it.
fn holds_push(reply: &[u8]) -> bool {
    let is_list = matches!(reply.first(), Some(b'*' | b'%' | b'~'));
    is_list && memmem::find(reply, wire::BEGIN).is_some()
}

/// The length of the whole push, of any kind, at the begin of these bytes.
fn any_push(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(b">") {
        return None;
    }
    match ReplyScanner::default().scan(bytes) {
        Ok(Scan::Complete { consumed, .. }) => Some(consumed),
        _ => None,
    }
}

/// Whether these bytes are whole pushes; `length`: that of the one at the begin of bytes, if one stands there.
fn are_all(mut bytes: &[u8], length: impl Fn(&[u8]) -> Option<usize>) -> bool {
    while let Some(used) = length(bytes) {
        bytes = &bytes[used..];
    }
    bytes.is_empty()
}

/// Gives on a reply as it comes, without bytes that may be of the delimiter.
fn given_on(input: &[u8], frame: &[u8]) -> Delimited {
    if let Some(at) = memmem::find(input, frame) {
        return Delimited::Rest(at);
    }
    let ends_with = |len: &usize| input.ends_with(&frame[..*len]);
    let kept = (1..frame.len()).rev().find(ends_with).unwrap_or(0);
    match input.len() - kept {
        0 => Delimited::Open(0),
        part => Delimited::Part(part),
    }
}

/// Whether an error or a status begins here.
fn is_line(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'+'))
}

/// The text of an error or a status without its line breaks; of anything else that is not one frame nothing is left.
fn in_one_line(reply: &[u8], open: &Open) -> Vec<u8> {
    if let Some(instead) = open.instead {
        return instead.to_vec();
    }
    if !is_line(reply) {
        return NOT_RESP.to_vec();
    }
    let text = reply.strip_suffix(b"\r\n").unwrap_or(reply);
    let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    let mut line: Vec<u8> = text.iter().map(blank).collect();
    line.extend_from_slice(b"\r\n");
    line
}

/// The word that is sent as this text.
pub(crate) fn word_of(text: &[u8]) -> Option<u64> {
    let digits = core::str::from_utf8(text.strip_prefix(b"respool:")?).ok()?;
    let word = u64::from_str_radix(digits, 16).ok()?;
    (text_of(word) == text).then_some(word)
}

/// A word as it is sent.
fn text_of(word: u64) -> [u8; WORD_BYTES] {
    let mut text = *b"respool:0000000000000000";
    for (at, digit) in text[8..].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(word >> (60 - 4 * at) & 15) as usize];
    }
    text
}

/// The reply to an ECHO of it.
fn frame_of(word: u64) -> [u8; FRAME_BYTES] {
    let mut frame = *b"$24\r\n________________________\r\n";
    frame[5..5 + WORD_BYTES].copy_from_slice(&text_of(word));
    frame
}
