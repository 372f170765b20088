//! Finds where a server's reply ends, in RESP2 and RESP3, without building anything.
//!
//! Known types: `+ - : $ * _ , # ! = ( % ~ > |`, the nulls `$-1` and `*-1`, and the streamed forms `$?` (with
//! its `;N` chunks) and `*? %? ~?` (closed by `.`). An attribute (`|`) stands before a reply and belongs to
//! its frame. Unlike a request, a reply is read strictly: servers write it well-formed, so any oddity means
//! that one side lost its place, and then the connection must go before a reply reaches the wrong request.
//! Lenient is only the text of `+ - , (`: it ends at the first `\r\n`, and a lone CR or LF is part of it,
//! because modules can write such lines and every client library reads them so.
//!
//! Not here: whose reply it is, whether it is an answer or a push (look at its first byte), its meaning.
//!
//! Invariant: any chunking gives the same frames and the same error, and memory is at most
//! `depth_max` levels, whatever lengths a reply announces.

use alloc::vec::Vec;

use memchr::{memchr, memchr_iter};

use crate::error::ReplyError;
pub use crate::limits::ReplyLimits;
use crate::limits::{
    LONG_FRAME_BYTES, LONG_FRAME_ELEMENTS, REPLY_HEADER_BYTES_MAX, REPLY_LEVELS_KEPT_MAX,
};
use crate::number::parse_i64;
pub use crate::scan::Scan;
use crate::scan::{bulk_digits, is_digits_32};

/// What is known of a reply that has [`LONG_FRAME_BYTES`] or more, or [`LONG_FRAME_ELEMENTS`] elements or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongReply {
    /// Bytes of the whole reply, however many scans it took.
    pub bytes: u64,
    /// Elements that its outermost array, set or map announced (a map's keys and values); 0 if it is none, or did not say.
    pub elements: u64,
}

/// What must come next inside the element that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaiting {
    /// The first byte and the number line of an element.
    Element,
    /// The rest of a free text line, of which so many bytes are consumed.
    Text(u64),
    /// So many bytes of a bulk, or of a chunk.
    Payload(u64),
    /// The `\r\n` behind a bulk or a chunk.
    PayloadEnd,
    /// The `;N` line of a streamed string's next chunk.
    Chunk,
}

/// How an aggregate (or the frame itself, which is one element) comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// After the announced number of elements.
    Counted,
    /// The same, but it was an attribute: what it belongs to is still to come.
    Attribute,
    /// At a `.`.
    Streamed,
    /// At a `.`, and only behind whole pairs.
    StreamedPairs,
}

/// One aggregate that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    /// Elements not yet begun; of a streamed kind, the number begun.
    elements: u64,
    /// 0 for the frame itself, 1 for an array directly in it.
    depth: u32,
    kind: Kind,
}

impl Level {
    const FRAME: Self = Self { elements: 1, depth: 0, kind: Kind::Counted };

    /// All its announced elements are begun.
    const fn is_exhausted(&self) -> bool {
        self.elements == 0 && matches!(self.kind, Kind::Counted | Kind::Attribute)
    }

    const fn begin_element(&mut self) {
        match self.kind {
            Kind::Counted | Kind::Attribute => self.elements -= 1,
            Kind::Streamed | Kind::StreamedPairs => self.elements += 1,
        }
    }
}

/// Finds the ends of one server's replies. Holds no bytes, only where it stands.
///
/// ```text
///   outer (waiting, innermost last)          level (being read)
///   ┌──────────┐ ┌──────────┐                ┌──────────┐
///   │ frame: 0 │ │ *3: 1    │ …              │ %2: 3    │   numbers: elements not yet begun
///   └──────────┘ └──────────┘                └──────────┘
/// ```
/// A level that is exhausted when an inner one opens is not kept in `outer` (it has nothing more to say), so
/// flat replies, and the last element of any aggregate, need no memory.
#[derive(Clone, Debug)]
pub struct ReplyScanner {
    position: u64,
    awaiting: Awaiting,
    level: Level,
    outer: Vec<Level>,
    /// Within a streamed string: a finished payload is a chunk, not the element.
    in_chunks: bool,
    /// An attribute has just ended; a `.` cannot follow.
    after_attribute: bool,
    /// Elements that the outermost aggregate announced.
    top_elements: u64,
    limits: ReplyLimits,
}

impl Default for ReplyScanner {
    fn default() -> Self {
        Self::with_limits(ReplyLimits::default())
    }
}

impl ReplyScanner {
    /// A fresh scanner with other bounds than the default ones.
    #[must_use]
    pub const fn with_limits(limits: ReplyLimits) -> Self {
        Self {
            position: 0,
            awaiting: Awaiting::Element,
            level: Level::FRAME,
            outer: Vec::new(),
            in_chunks: false,
            after_attribute: false,
            top_elements: 0,
            limits,
        }
    }

    /// Looks for the end of the current reply.
    ///
    /// `bytes` begins at the first byte not yet consumed of it. Payload and long lines are consumed as they
    /// come and never needed again; an unfinished number line is not consumed and must be presented again
    /// with more. After [`Scan::Complete`] the scanner is fresh again.
    ///
    /// # Errors
    /// What makes the bytes no RESP. The connection cannot be used further; the scanner must be
    /// [`reset`](Self::reset) before any other use.
    #[inline]
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Scan<()>, ReplyError> {
        if let Some(consumed) = self.scan_short(bytes) {
            return Ok(Scan::Complete { consumed, frame: () });
        }
        Ok(match self.scan_any(bytes)? {
            Scan::Complete { consumed, .. } => Scan::Complete { consumed, frame: () },
            Scan::Partial { consumed } => Scan::Partial { consumed },
        })
    }

    /// The bytes of the current reply if it is whole and as short as nearly all are: what [`Self::scan`] tries first. It may be called by itself
    /// where the rest is rare; `None` says nothing, and [`Self::scan_any`] decides. It is not long: nine bulks below 1000 bytes.
    #[inline]
    pub fn scan_short(&self, bytes: &[u8]) -> Option<usize> {
        if self.position > 0 {
            return None;
        }
        short_element(bytes, &self.limits).or_else(|| short_array(bytes, &self.limits))
    }

    /// How many whole replies at the begin of `bytes`, at most `most`, are a `+OK`, a null, a number of one digit or a bulk below 1000 bytes, and their
    /// bytes: what a pipeline's replies nearly all are, passed in one loop. None is an error or a push. 0 says nothing.
    #[inline]
    #[must_use]
    pub fn pass_short(&self, bytes: &[u8], most: u32) -> (u32, usize) {
        let (mut count, mut end) = (0, 0);
        if self.position == 0 {
            while count < most
                && let Some(len) =
                    bytes.get(end..).and_then(|rest| short_element(rest, &self.limits))
            {
                end += len;
                count += 1;
            }
        }
        (count, end)
    }

    /// Bytes of the unfinished reply consumed so far.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Whether nothing of a reply has been consumed.
    #[must_use]
    pub const fn is_fresh(&self) -> bool {
        self.position == 0
    }

    /// Lower bound of the bytes still to come until the reply ends; 0 while the scanner is fresh.
    #[must_use]
    pub fn missing(&self) -> u64 {
        if self.is_fresh() {
            return 0;
        }
        let element = match self.awaiting {
            Awaiting::Element => 0,
            Awaiting::Text(_) | Awaiting::PayloadEnd => 2,
            Awaiting::Payload(left) => left.saturating_add(2),
            Awaiting::Chunk => 4,
        };
        let begun =
            core::iter::once(&self.level).chain(&self.outer).map(|level| match level.kind {
                // The shortest element is `_\r\n`, as long as the `.\r\n` that ends a streamed one.
                Kind::Counted | Kind::Attribute => level.elements.saturating_mul(ELEMENT_BYTES_MIN),
                Kind::Streamed | Kind::StreamedPairs => ELEMENT_BYTES_MIN,
            });
        begun.fold(element, u64::saturating_add)
    }

    /// Forgets the unfinished reply. Keeps its memory for the next nested one, unless that is much.
    pub fn reset(&mut self) {
        if self.outer.capacity() > REPLY_LEVELS_KEPT_MAX {
            self.outer = Vec::new();
        }
        self.position = 0;
        self.awaiting = Awaiting::Element;
        self.level = Level::FRAME;
        self.outer.clear();
        self.in_chunks = false;
        self.after_attribute = false;
        self.top_elements = 0;
    }

    /// As [`Self::scan`], and tells of a long reply how long it was; the general case: aggregates, long elements, anything that arrives in pieces.
    ///
    /// # Errors
    /// Those of [`Self::scan`].
    #[inline(never)]
    pub fn scan_any(&mut self, bytes: &[u8]) -> Result<Scan<Option<LongReply>>, ReplyError> {
        let mut at = 0;
        loop {
            // `at` never passes the end: each step reports what it found within `rest`.
            let rest = bytes.get(at..).unwrap_or(&[]);
            let step = match self.awaiting {
                Awaiting::Element => self.element(rest)?,
                Awaiting::Text(used) => self.text(rest, used)?,
                Awaiting::Payload(left) => self.payload(rest, left),
                Awaiting::PayloadEnd => self.payload_end(rest)?,
                Awaiting::Chunk => self.chunk(rest)?,
            };
            match step {
                Step::On(consumed) => at += consumed,
                Step::FrameEnd(consumed) => {
                    let consumed = at + consumed;
                    let (bytes, elements) = (self.position + consumed as u64, self.top_elements);
                    let is_long =
                        bytes >= LONG_FRAME_BYTES || elements >= u64::from(LONG_FRAME_ELEMENTS);
                    self.reset();
                    let frame = is_long.then_some(LongReply { bytes, elements });
                    return Ok(Scan::Complete { consumed, frame });
                }
                Step::More(consumed) => {
                    at += consumed;
                    self.position += at as u64;
                    return Ok(Scan::Partial { consumed: at });
                }
            }
        }
    }

    /// Reads the beginning of an element.
    fn element(&mut self, bytes: &[u8]) -> Result<Step, ReplyError> {
        if self.level.kind == Kind::Counted {
            let consumed = self.short_elements(bytes);
            if consumed > 0 {
                return Ok(self.ended(consumed));
            }
        }
        let Some(&kind) = bytes.first() else { return Ok(Step::More(0)) };
        match kind {
            b'+' | b'-' | b',' | b'(' => {
                self.level.begin_element();
                self.awaiting = Awaiting::Text(0);
                return Ok(Step::On(1));
            }
            // A push is no value that an attribute could belong to: it would pass for the reply.
            // Within an array a push is a value: the reply to `SUBSCRIBE` in that of `EXEC`.
            b'>' if self.after_attribute && self.level.depth == 0 => {
                return Err(ReplyError::UnexpectedByte(kind));
            }
            b':' | b'_' | b'#' | b'$' | b'!' | b'=' | b'*' | b'%' | b'~' | b'>' | b'|' => {}
            b'.' if self.may_end_stream() => {}
            other => return Err(ReplyError::UnexpectedByte(other)),
        }
        let Some((line, consumed)) = header(bytes)? else { return Ok(Step::More(0)) };
        match kind {
            b':' => parse_i64(line).map(drop).ok_or(ReplyError::BadInteger)?,
            b'_' if !line.is_empty() => return Err(ReplyError::BadNull),
            b'#' if !matches!(line, b"t" | b"f") => return Err(ReplyError::BadBool),
            b'$' | b'!' | b'=' => return self.bulk(kind, line, consumed),
            b'*' | b'%' | b'~' | b'>' | b'|' => return self.aggregate(kind, line, consumed),
            b'.' => return self.stream_end(line, consumed),
            _ => {}
        }
        self.level.begin_element();
        Ok(self.ended(consumed))
    }

    /// Skips as many short elements as come one behind the other within the present level: the elements of a
    /// flat array mostly are such, and need none of the care of `element`.
    #[inline]
    fn short_elements(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while self.level.elements > 0
            && let Some(behind) = short_element(rest, &self.limits).and_then(|len| rest.get(len..))
        {
            rest = behind;
            self.level.elements -= 1;
        }
        bytes.len() - rest.len()
    }

    fn bulk(&mut self, kind: u8, line: &[u8], consumed: usize) -> Result<Step, ReplyError> {
        self.level.begin_element();
        match (kind, line) {
            (b'$', b"-1") => return Ok(self.ended(consumed)),
            (b'$', b"?") => {
                self.in_chunks = true;
                self.awaiting = Awaiting::Chunk;
            }
            _ => {
                let len = self.bulk_len(line)?;
                if kind == b'=' && len < VERBATIM_BYTES_MIN {
                    return Err(ReplyError::BadVerbatim);
                }
                self.awaiting = Awaiting::Payload(len);
            }
        }
        Ok(Step::On(consumed))
    }

    fn aggregate(&mut self, kind: u8, line: &[u8], consumed: usize) -> Result<Step, ReplyError> {
        if kind != b'|' {
            self.level.begin_element();
        }
        let (elements, kind) = match (kind, line) {
            (b'*', b"-1") => return Ok(self.ended(consumed)),
            (b'*' | b'~', b"?") => (0, Kind::Streamed),
            (b'%', b"?") => (0, Kind::StreamedPairs),
            (b'%', _) => (pairs(line)?, Kind::Counted),
            (b'|', _) => (pairs(line)?, Kind::Attribute),
            _ => (length(line)?, Kind::Counted),
        };
        if self.level.depth == 0 && kind != Kind::Attribute {
            self.top_elements = elements;
        }
        let depth = self.level.depth + 1;
        if depth as usize > self.limits.depth_max {
            return Err(ReplyError::TooDeep);
        }
        // `ended` must see the end of an attribute, even if the new level is its last element.
        if !self.level.is_exhausted() || self.level.kind == Kind::Attribute {
            self.outer.push(self.level);
        }
        self.level = Level { elements, depth, kind };
        Ok(self.ended(consumed))
    }

    /// Whether a `.` may stand here: in a streamed aggregate, behind whole pairs, not behind a lone attribute.
    const fn may_end_stream(&self) -> bool {
        let at_end = match self.level.kind {
            Kind::Streamed => true,
            Kind::StreamedPairs => self.level.elements.is_multiple_of(2),
            Kind::Counted | Kind::Attribute => false,
        };
        at_end && !self.after_attribute
    }

    /// A `.` line: the streamed level becomes one of which nothing is left.
    fn stream_end(&mut self, line: &[u8], consumed: usize) -> Result<Step, ReplyError> {
        if !line.is_empty() {
            return Err(ReplyError::BadNull);
        }
        self.level = Level { elements: 0, depth: self.level.depth, kind: Kind::Counted };
        Ok(self.ended(consumed))
    }

    /// An element ended or an aggregate began, `consumed` bytes on: closes every level that is complete.
    fn ended(&mut self, consumed: usize) -> Step {
        self.awaiting = Awaiting::Element;
        self.after_attribute = false;
        while self.level.is_exhausted() {
            self.after_attribute = self.level.kind == Kind::Attribute;
            match self.outer.pop() {
                Some(level) => self.level = level,
                None => return Step::FrameEnd(consumed),
            }
        }
        Step::On(consumed)
    }

    /// A free text line: up to the first `\r\n`.
    fn text(&mut self, bytes: &[u8], used: u64) -> Result<Step, ReplyError> {
        let end = memchr_iter(b'\n', bytes)
            .find(|at| at.checked_sub(1).and_then(|cr| bytes.get(cr)) == Some(&b'\r'));
        // A `\r` at the end stays unconsumed, so that its `\n` is always seen together with it.
        let held_back = usize::from(bytes.last() == Some(&b'\r'));
        let text_bytes = end.map_or(bytes.len() - held_back, |newline| newline - 1);
        let used = used.saturating_add(text_bytes as u64);
        if used > self.limits.line_bytes_max {
            return Err(ReplyError::LineTooLong);
        }
        if end.is_some() {
            return Ok(self.ended(text_bytes + 2));
        }
        self.awaiting = Awaiting::Text(used);
        Ok(Step::More(text_bytes))
    }

    fn payload(&mut self, bytes: &[u8], left: u64) -> Step {
        let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - taken as u64;
        if left > 0 {
            self.awaiting = Awaiting::Payload(left);
            return Step::More(taken);
        }
        self.awaiting = Awaiting::PayloadEnd;
        Step::On(taken)
    }

    fn payload_end(&mut self, bytes: &[u8]) -> Result<Step, ReplyError> {
        match bytes {
            [b'\r', b'\n', ..] if self.in_chunks => {
                self.awaiting = Awaiting::Chunk;
                Ok(Step::On(2))
            }
            [b'\r', b'\n', ..] => Ok(self.ended(2)),
            [_, _, ..] => Err(ReplyError::BadLineEnd),
            _ => Ok(Step::More(0)),
        }
    }

    fn chunk(&mut self, bytes: &[u8]) -> Result<Step, ReplyError> {
        match bytes.first() {
            None => return Ok(Step::More(0)),
            Some(b';') => {}
            Some(other) => return Err(ReplyError::UnexpectedByte(*other)),
        }
        let Some((line, consumed)) = header(bytes)? else { return Ok(Step::More(0)) };
        match self.bulk_len(line)? {
            0 => {
                self.in_chunks = false;
                Ok(self.ended(consumed))
            }
            len => {
                self.awaiting = Awaiting::Payload(len);
                Ok(Step::On(consumed))
            }
        }
    }

    fn bulk_len(&self, line: &[u8]) -> Result<u64, ReplyError> {
        length(line).and_then(|len| {
            if len > self.limits.bulk_bytes_max { Err(ReplyError::BadLength) } else { Ok(len) }
        })
    }
}

/// What one step of the general case came to; all count bytes of the slice that the step was given.
enum Step {
    /// Something was read; go on behind it.
    On(usize),
    /// The frame ended there.
    FrameEnd(usize),
    /// More bytes are needed.
    More(usize),
}

/// The bytes of a whole `+OK`, null, one-digit integer, or bulk below 1000 bytes at the beginning of `bytes`:
/// nearly all replies there are. `None` says nothing: the general case decides.
#[inline]
fn short_element(bytes: &[u8], limits: &ReplyLimits) -> Option<usize> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    let word = u32::from_le_bytes(*word);
    let single = word ^ u32::from_le_bytes(*b"$0\r\n");
    if is_digits_32(single, 0x0000_0100) {
        return bulk_end(bytes, 4, single >> 8, limits);
    }
    if word == u32::from_le_bytes(*b"+OK\r") || word == u32::from_le_bytes(*b"$-1\r") {
        return (*rest.first()? == b'\n').then_some(5);
    }
    if is_digits_32(word ^ u32::from_le_bytes(*b":0\r\n"), 0x0000_0100) {
        return Some(4);
    }
    match bulk_digits(word)? {
        (len, 2) if *rest.first()? == b'\n' => bulk_end(bytes, 5, len, limits),
        (len, 3) if rest.starts_with(b"\r\n") => bulk_end(bytes, 6, len, limits),
        _ => None,
    }
}

/// The bytes of a whole array of one to nine such elements: what a part of a split `MGET` gets. `None` says nothing.
#[inline]
fn short_array(bytes: &[u8], limits: &ReplyLimits) -> Option<usize> {
    let word = u32::from_le_bytes(*bytes.first_chunk::<4>()?);
    let count = word ^ u32::from_le_bytes(*b"*0\r\n");
    if !is_digits_32(count, 0x0000_0100) || limits.depth_max == 0 {
        return None;
    }
    (0..count >> 8).try_fold(4, |at, _| Some(at + short_element(bytes.get(at..)?, limits)?))
}

/// The end of a bulk of `len` bytes whose payload begins at `start`, if its CRLF is there.
#[inline(always)]
fn bulk_end(bytes: &[u8], start: usize, len: u32, limits: &ReplyLimits) -> Option<usize> {
    let end = start + len as usize;
    let is_whole = bytes.get(end..end + 2)? == b"\r\n" && u64::from(len) <= limits.bulk_bytes_max;
    is_whole.then_some(end + 2)
}

/// The text between an element's first byte and its `\r\n`, and the bytes of the whole line.
fn header(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ReplyError> {
    let window = bytes.get(..bytes.len().min(REPLY_HEADER_BYTES_MAX)).unwrap_or(bytes);
    let Some(end) = memchr(b'\r', window) else {
        if bytes.len() >= REPLY_HEADER_BYTES_MAX {
            return Err(ReplyError::LineTooLong);
        }
        return Ok(None);
    };
    match bytes.get(end + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(bytes.get(1..end).map(|text| (text, end + 2))),
        Some(_) => Err(ReplyError::BadLineEnd),
    }
}

/// A number of elements or bytes.
fn length(line: &[u8]) -> Result<u64, ReplyError> {
    parse_i64(line).and_then(|len| u64::try_from(len).ok()).ok_or(ReplyError::BadLength)
}

/// A number of pairs, as a number of elements. It cannot wrap: a length has 63 bits.
fn pairs(line: &[u8]) -> Result<u64, ReplyError> {
    length(line).map(|pairs| pairs * 2)
}

/// `_\r\n`.
const ELEMENT_BYTES_MIN: u64 = 3;

/// `txt:`.
const VERBATIM_BYTES_MIN: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans `bytes` byte by byte, so that no fast path hides what is remembered in between.
    fn scan_slowly(scanner: &mut ReplyScanner, bytes: &[u8]) {
        let mut start = 0;
        for end in 1..=bytes.len() {
            start += scanner.scan(&bytes[start..end]).expect("a sound reply").consumed();
        }
        assert!(scanner.is_fresh() && start == bytes.len(), "one whole reply");
    }

    #[test]
    fn flat_replies_and_last_elements_need_no_memory() {
        let mut scanner = ReplyScanner::default();
        for reply in [
            &b"+OK\r\n"[..],
            b"*3\r\n$1\r\na\r\n:1\r\n+x\r\n",
            b"%1\r\n+a\r\n+b\r\n",
            b"*2\r\n:0\r\n*1\r\n*1\r\n:1\r\n",
            b"$?\r\n;1\r\na\r\n;0\r\n",
        ] {
            scan_slowly(&mut scanner, reply);
            assert_eq!(scanner.outer.capacity(), 0, "{reply:?}");
        }
    }

    #[test]
    fn memory_for_nesting_is_kept_and_bounded() {
        let mut scanner = ReplyScanner::default();
        let deep = [b"*2\r\n:1\r\n".repeat(31), b":2\r\n".to_vec()].concat();
        let nested = [b"*2\r\n".repeat(31), b":1\r\n".to_vec(), b":2\r\n".repeat(31)].concat();
        scan_slowly(&mut scanner, &nested);
        let capacity = scanner.outer.capacity();
        assert!((30..=64).contains(&capacity), "{capacity} levels");
        scan_slowly(&mut scanner, &deep);
        scan_slowly(&mut scanner, &nested);
        assert_eq!(scanner.outer.capacity(), capacity);
    }

    #[test]
    fn memory_for_what_a_script_nests_is_given_back() {
        let mut scanner = ReplyScanner::default();
        // As deep as Lua's stack allows; each level has more to come, so that it must be remembered.
        let deep = [b"*2\r\n".repeat(8_000), b":1\r\n".to_vec(), b":2\r\n".repeat(8_000)].concat();
        let half = deep.len() / 2;
        let Ok(Scan::Partial { consumed }) = scanner.scan(&deep[..half]) else { panic!("a half") };
        assert!(scanner.outer.capacity() >= 7_900);
        let rest = scanner.scan(&deep[consumed..]).expect("a sound reply");
        assert_eq!(rest.consumed(), deep.len() - consumed);
        assert!(scanner.is_fresh());
        assert_eq!(scanner.outer.capacity(), 0);
    }
}
