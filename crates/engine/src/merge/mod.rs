//! Replies of several servers become one.
//!
//! ```text
//!   part 0: :2   part 1: :0   part 2: :1     ── Sum ──▶  :3
//!   part 0: *2 a c   part 1: *1 b            ── Elements ──▶  *3 a b c   (in the order of the request's keys)
//! ```
//! Replies are kept as they came and put together when the last one is there; elements are copied as bytes, never read into a tree. An
//! error of one part is the error of the whole, the first by the order of the parts.
//!
//! Not here: whom to ask (`scatter`).
//!
//! Invariant: `open` is the number of parts without a reply; the merged reply is one whole RESP value.

mod answered;
mod check;
pub mod scan;

use crate::account::Charge;
use crate::command::spread::Gather;
use crate::ids::ClientId;
use crate::limits::MERGED_ELEMENTS_MAX;
use crate::pool::{BufferPool, append_piece, taken_bytes};
use crate::reject;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use resp::{Protocol, ReplyScanner, Scan, encode};
use scan::{Place, Seen};

/// In which way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// All replies alike.
    All(Gather),
    /// The elements, each at the position of its unit in the request.
    Elements {
        /// The positions of all elements, part by part.
        units: Vec<u32>,
        /// Of each part, where its own end in `units`.
        ends: Vec<u32>,
    },
    /// The sum of the numbers and this one.
    Add(i64),
    /// Of arrays in which a name and a number take turns: the sums of the numbers, and of these.
    AddEach(Vec<i64>),
    /// The reply to PING as a client in RESP2 gets it that listens to channels.
    Pong,
    /// One page of an iteration over all nodes.
    Scan {
        /// Where it is.
        place: Place,
        /// Number of nodes.
        nodes: usize,
        /// The question for the table stands right before it.
        asked: bool,
    },
    /// INFO of all primaries, for the question of this number (`local/info/servers`).
    Info {
        /// Its number.
        ticket: u64,
    },
}

/// A request whose parts are under way.
#[derive(Debug)]
pub struct Merge {
    /// Who waits.
    pub client: ClientId,
    /// At which place.
    pub seq: u32,
    /// The reply is dropped.
    pub silent: bool,
    /// The server of a part was lost, and with it the client's connection ends (see `server_loss`).
    pub(crate) is_lost: bool,
    protocol: Protocol,
    how: How,
    open: u32,
    parts: u32,
    /// Replies as they came: so many of consecutive parts in these bytes.
    room: Room,
    /// What they have in the engine's account.
    pub(crate) charge: Charge,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    part: u32,
    start: usize,
    end: usize,
}

/// Where the elements stand.
pub type Spans = Vec<(u32, u32)>;

/// Empty lists and an empty buffer for the replies of one request.
#[derive(Debug, Default)]
pub struct Room {
    chunks: Vec<Chunk>,
    bytes: Vec<u8>,
}

/// Lists of merges that are done, kept so that none is allocated for the next one.
#[derive(Debug, Default)]
pub struct Spare {
    numbers: Vec<Vec<u32>>,
    chunks: Vec<Vec<Chunk>>,
    /// For the one that is being written.
    pub spans: Spans,
}

impl Spare {
    /// A list of these.
    pub fn list(&mut self, numbers: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut list = self.numbers.pop().unwrap_or_default();
        list.extend(numbers);
        list
    }

    /// Room for the replies, in this empty buffer.
    pub fn room(&mut self) -> Room {
        Room { chunks: self.chunks.pop().unwrap_or_default(), bytes: Vec::new() }
    }

    /// This one is done. Gives the buffer back.
    pub fn take_apart(&mut self, merge: Merge) -> Vec<u8> {
        if let How::Elements { units, ends } = merge.how {
            keep(&mut self.numbers, units);
            keep(&mut self.numbers, ends);
        }
        keep(&mut self.chunks, merge.room.chunks);
        if self.spans.capacity() > SPANS_MAX {
            self.spans = Spans::new();
        }
        merge.room.bytes
    }
}

/// Keeps a list if few are kept and it is small.
fn keep<T>(kept: &mut Vec<Vec<T>>, mut list: Vec<T>) {
    if kept.len() < SPARE_LISTS_MAX && list.capacity() <= SPARE_LEN_MAX {
        list.clear();
        kept.push(list);
    }
}

/// Lists kept of each kind, and elements of each: some half a megabyte at most.
const SPARE_LISTS_MAX: usize = 128;
const SPARE_LEN_MAX: usize = 128;
/// Spans kept: 128 KiB.
const SPANS_MAX: usize = 16 << 10;

impl Merge {
    /// One of so many parts, none of which is answered.
    pub fn new(
        client: ClientId,
        seq: u32,
        silent: bool,
        protocol: Protocol,
        how: How,
        parts: u32,
        mut room: Room,
    ) -> Self {
        // Mostly each part is answered by itself; of many some come together.
        room.chunks.reserve(parts.min(64) as usize);
        let (open, charge) = (parts, Charge::default());
        let is_lost = false;
        Self { client, seq, silent, is_lost, protocol, how, open, parts, room, charge }
    }

    /// Gives it a buffer for its replies, if it has none: before the first of them comes it needs none.
    pub(crate) fn make_room(&mut self, pool: &mut BufferPool) {
        if self.room.bytes.capacity() == 0 {
            self.room.bytes = pool.take();
        }
    }

    /// Takes `count` replies in, of the parts from `part` on.
    pub fn take(&mut self, part: u32, count: u32, bytes: &[u8]) {
        debug_assert!(count <= self.open, "more replies than parts");
        self.open -= count.min(self.open);
        let Room { chunks, bytes: kept } = &mut self.room;
        let start = kept.len();
        append_piece(kept, bytes, 0);
        chunks.push(Chunk { part, start, end: kept.len() });
    }

    /// Whether the reply to its only part is the merged reply as it is.
    pub(crate) fn gives_on(&self) -> bool {
        self.parts == 1 && self.open == 1 && self.how == How::All(Gather::AllOk)
    }

    /// Whether all parts are answered.
    pub fn is_whole(&self) -> bool {
        self.open == 0
    }

    /// Bytes kept, with what is known of the parts.
    pub fn held_bytes(&self) -> usize {
        let lists = match &self.how {
            How::Elements { units, ends } => (units.len() + ends.len()) * size_of::<u32>(),
            How::AddEach(numbers) => numbers.len() * size_of::<i64>(),
            How::All(_) | How::Add(_) | How::Pong | How::Scan { .. } | How::Info { .. } => 0,
        };
        let chunks = self.room.chunks.capacity() * size_of::<Chunk>();
        size_of::<Self>() + taken_bytes(&self.room.bytes) + chunks + lists
    }

    /// Nobody waits for them any more: what came counts as empty, as what comes later will be.
    pub(crate) fn forget_replies(&mut self) {
        self.room.bytes = Vec::new();
        if self.info_ticket().is_none() {
            self.how = How::All(Gather::AllOk);
        }
        self.room.chunks = Vec::new();
    }

    /// The question that waits for these replies.
    pub(crate) fn info_ticket(&self) -> Option<u64> {
        match self.how {
            How::Info { ticket } => Some(ticket),
            _ => None,
        }
    }

    /// The replies by part.
    pub(crate) fn replies(&self) -> Vec<&[u8]> {
        let mut replies: Vec<&[u8]> = alloc::vec![&[][..]; self.parts as usize];
        let mut scanner = ReplyScanner::default();
        for chunk in &self.room.chunks {
            let mut rest = &self.room.bytes[chunk.start..chunk.end];
            let mut part = chunk.part as usize;
            while let Ok(Scan::Complete { consumed, .. }) = scanner.scan(rest) {
                let (reply, after) = rest.split_at(consumed);
                if let Some(place) = replies.get_mut(part) {
                    *place = reply;
                }
                (rest, part) = (after, part + 1);
                if rest.is_empty() {
                    break;
                }
            }
        }
        replies
    }

    /// Which of the nodes gives the page of SCAN that this is, and whether the question for the table stands right before it; `None`: it is none.
    pub fn page_of(&self) -> Option<(usize, bool)> {
        match self.how {
            How::Scan { place, asked, .. } => Some((place.index, asked)),
            _ => None,
        }
    }

    /// Writes the merged reply; `seen` is needed for a page of SCAN only, and `spans` is a list whose memory is used.
    pub fn write(&self, out: &mut Vec<u8>, seen: Option<scan::Seen>, spans: &mut Spans) {
        if let How::Elements { units, ends } = &self.how
            && self.write_elements(out, units, ends, spans).is_some()
        {
            return;
        }
        out.clear();
        let replies = self.replies();
        if replies.iter().any(|reply| reply.is_empty()) {
            // Nobody was there to read it when it came.
            return encode::null(out, self.protocol);
        }
        let error = replies.iter().find(|reply| is_error(reply));
        if let Some(error) = error
            && self.how != How::All(Gather::OneOk)
        {
            return out.extend_from_slice(error);
        }
        if is_too_long(&self.how, &replies) {
            return reject::write(out, reject::TOO_LARGE_TO_MERGE);
        }
        let written = match &self.how {
            How::All(Gather::Sum) => fold(out, &replies, |sum, n| sum.saturating_add(n)),
            How::All(Gather::Min) => fold(out, &replies, i64::min),
            How::All(Gather::Max) => fold(out, &replies, i64::max),
            How::All(Gather::AllOk) => first(out, &replies),
            How::All(Gather::OneOk) => {
                let good: Vec<&[u8]> =
                    replies.iter().copied().filter(|reply| !is_error(reply)).collect();
                first(out, if good.is_empty() { &replies } else { &good })
            }
            How::All(Gather::MinEach) => bits(out, &replies, i64::min),
            How::All(Gather::And) => bits(out, &replies, |all, bit| all & bit),
            How::All(Gather::Or) => bits(out, &replies, |any, bit| any | bit),
            How::All(Gather::Join) => join(out, &replies),
            How::All(Gather::SumEach) => add_each(out, &replies, &[]),
            How::All(Gather::Union) => union(out, &replies),
            How::Add(more) => {
                fold(out, &replies, |sum, n| sum.saturating_add(n)).and_then(|()| add(out, *more))
            }
            How::AddEach(more) => add_each(out, &replies, more),
            How::Pong => pong(out, &replies),
            How::All(Gather::AnyOfSome) => self.any(out, &replies),
            // They were not what they should be, and not an error either.
            How::Elements { .. } | How::Info { .. } | How::All(Gather::InOrder) => None,
            How::Scan { place, nodes, .. } => {
                seen.and_then(|seen| page(out, replies[0], *place, *nodes, seen))
            }
        };
        if written.is_none() {
            out.clear();
            reject::write(out, reject::NOT_MERGED);
        }
    }

    /// The common case in one pass over the bytes as they came. `None`: there is an error among them, or something unforeseen.
    fn write_elements(
        &self,
        out: &mut Vec<u8>,
        units: &[u32],
        ends: &[u32],
        spans: &mut Spans,
    ) -> Option<()> {
        spans.clear();
        // Positions have 32 bits.
        u32::try_from(self.room.bytes.len()).ok()?;
        spans.resize(units.len(), (0, 0));
        for chunk in &self.room.chunks {
            let mut part = chunk.part as usize;
            let (bytes, mut pos) = (&self.room.bytes[..chunk.end], chunk.start);
            while pos < chunk.end {
                let begin = if part == 0 { 0 } else { *ends.get(part - 1)? as usize };
                let own = units.get(begin..*ends.get(part)? as usize)?;
                let (count, body) = header(&bytes[pos..])?;
                if bytes[pos] != b'*' || count != own.len() {
                    return None;
                }
                pos = chunk.end - body.len();
                for unit in own {
                    let len = element_len(&bytes[pos..])?;
                    *spans.get_mut(*unit as usize)? = (pos as u32, (pos + len) as u32);
                    pos += len;
                }
                part += 1;
            }
        }
        if spans.iter().any(|(_, end)| *end == 0) {
            return None;
        }
        encode::array(out, spans.len());
        for (start, end) in spans {
            out.extend_from_slice(&self.room.bytes[*start as usize..*end as usize]);
        }
        Some(())
    }

    fn any(&self, out: &mut Vec<u8>, replies: &[&[u8]]) -> Option<()> {
        let some: Vec<&[u8]> = replies.iter().copied().filter(|reply| !is_null(reply)).collect();
        if some.is_empty() {
            return first(out, replies);
        }
        out.extend_from_slice(some[self.seq as usize % some.len()]);
        Some(())
    }
}

/// `+PONG`, or the text that was given along, as a message.
fn pong(out: &mut Vec<u8>, replies: &[&[u8]]) -> Option<()> {
    let reply = replies.first()?;
    encode::array(out, 2);
    encode::bulk(out, b"pong");
    match reply.first()? {
        b'$' => out.extend_from_slice(reply),
        _ => encode::bulk(out, b""),
    }
    Some(())
}

fn is_error(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'!'))
}

fn is_null(reply: &[u8]) -> bool {
    reply.first() == Some(&b'_') || reply.starts_with(b"$-1") || reply.starts_with(b"*-1")
}

fn first(out: &mut Vec<u8>, replies: &[&[u8]]) -> Option<()> {
    out.extend_from_slice(replies.first()?);
    Some(())
}

/// The integer that this reply is. Nothing is read of a reply of another type, however long it is.
fn number(reply: &[u8]) -> Option<i64> {
    let digits = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    resp::number::parse_i64(digits)
}

fn fold(out: &mut Vec<u8>, replies: &[&[u8]], both: impl Fn(i64, i64) -> i64) -> Option<()> {
    let mut total: Option<i64> = None;
    for reply in replies {
        let next = number(reply)?;
        total = Some(total.map_or(next, |total| both(total, next)));
    }
    encode::integer(out, total?);
    Some(())
}

/// The number that was just written and this one.
fn add(out: &mut Vec<u8>, more: i64) -> Option<()> {
    let sum = number(out)?.saturating_add(more);
    out.clear();
    encode::integer(out, sum);
    Some(())
}

/// Arrays of a name and a number in turn.
fn add_each(out: &mut Vec<u8>, replies: &[&[u8]], more: &[i64]) -> Option<()> {
    let mut sums: Vec<(&[u8], i64)> = Vec::new();
    for (index, reply) in replies.iter().enumerate() {
        let items = items(reply)?;
        if index > 0 && items.len() != sums.len() * 2 {
            return None;
        }
        for (at, pair) in items.chunks(2).enumerate() {
            let [name, count] = pair else { return None };
            match index {
                0 => sums.push((
                    name,
                    number(count)?.saturating_add(more.get(at).copied().unwrap_or(0)),
                )),
                _ => sums[at].1 = sums[at].1.saturating_add(number(count)?),
            }
        }
    }
    encode::array(out, sums.len() * 2);
    for (name, sum) in sums {
        out.extend_from_slice(name);
        encode::integer(out, sum.max(0));
    }
    Some(())
}

/// The elements of all, each once, in the order in which they came.
fn union(out: &mut Vec<u8>, replies: &[&[u8]]) -> Option<()> {
    if let [only] = replies {
        header(only)?;
        out.extend_from_slice(only);
        return Some(());
    }
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for reply in replies {
        all.extend(items(reply)?.into_iter().filter(|item| seen.insert(*item)));
    }
    encode::array(out, all.len());
    all.into_iter().for_each(|item| out.extend_from_slice(item));
    Some(())
}

fn bits(out: &mut Vec<u8>, replies: &[&[u8]], both: impl Fn(i64, i64) -> i64) -> Option<()> {
    let (first, others) = replies.split_first()?;
    let mut total = items(first)?.into_iter().map(number).collect::<Option<Vec<i64>>>()?;
    for reply in others {
        let row = items(reply)?;
        if row.len() != total.len() {
            return None;
        }
        for (bit, other) in total.iter_mut().zip(row) {
            *bit = both(*bit, number(other)?);
        }
    }
    encode::array(out, total.len());
    total.into_iter().for_each(|bit| encode::integer(out, bit));
    Some(())
}

/// Whether so many elements are merged one by one that this takes too long, or too much memory: a list of them is in no account.
fn is_too_long(how: &How, replies: &[&[u8]]) -> bool {
    let one_by_one = match how {
        How::All(Gather::Union) => replies.len() > 1,
        How::All(Gather::MinEach | Gather::And | Gather::Or | Gather::SumEach) => true,
        How::AddEach(_) => true,
        _ => false,
    };
    let count = |reply: &&[u8]| header(reply).map_or(0, |(count, _)| count);
    one_by_one && replies.iter().map(count).fold(0, usize::saturating_add) > MERGED_ELEMENTS_MAX
}

/// The header's sign and the elements of an array, a set or a map, as bytes.
fn items(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut rest) = header(reply)?;
    let mut scanner = ReplyScanner::default();
    let mut items = Vec::with_capacity(count.min(rest.len() / 3 + 1));
    for _ in 0..count {
        let Ok(Scan::Complete { consumed, .. }) = scanner.scan(rest) else { return None };
        let (item, after) = rest.split_at(consumed);
        items.push(item);
        rest = after;
    }
    Some(items)
}

/// Length of the element at the begin: a bulk string by its header, anything else by the scanner.
fn element_len(bytes: &[u8]) -> Option<usize> {
    if let Some(rest) = bytes.strip_prefix(b"$") {
        let (len, line_bytes) = number_line(rest)?;
        let head = 1 + line_bytes;
        return match len {
            -1 => Some(head),
            len => {
                let whole = head + usize::try_from(len).ok()? + 2;
                (bytes.len() >= whole).then_some(whole)
            }
        };
    }
    match ReplyScanner::default().scan(bytes) {
        Ok(Scan::Complete { consumed, .. }) => Some(consumed),
        _ => None,
    }
}

/// Number of elements and what follows the header; a map has two elements a pair.
fn header(reply: &[u8]) -> Option<(usize, &[u8])> {
    let (sign, rest) = reply.split_first()?;
    let (count, line_bytes) = number_line(rest)?;
    let count = usize::try_from(count).ok()?;
    let count = match sign {
        b'*' | b'~' => count,
        b'%' => count.checked_mul(2)?,
        _ => return None,
    };
    Some((count, rest.get(line_bytes..)?))
}

/// Parses a line that is one number: its value, and the length of the line with CRLF in bytes.
#[inline]
fn number_line(bytes: &[u8]) -> Option<(i64, usize)> {
    match *bytes {
        // Fast path: most lines have one or two digits.
        [one @ b'0'..=b'9', b'\r', ..] => Some((i64::from(one - b'0'), 3)),
        [ten @ b'1'..=b'9', one @ b'0'..=b'9', b'\r', ..] => {
            Some((i64::from(ten - b'0') * 10 + i64::from(one - b'0'), 4))
        }
        _ => {
            let end = bytes.iter().position(|byte| *byte == b'\r')?;
            Some((resp::number::parse_i64(&bytes[..end])?, end + 2))
        }
    }
}

/// Elements of all parts behind one header of the first part's kind.
fn join(out: &mut Vec<u8>, replies: &[&[u8]]) -> Option<()> {
    let sign = *replies.first()?.first()?;
    let mut count = 0;
    let mut bodies = Vec::with_capacity(replies.len());
    for reply in replies {
        if reply.first() != Some(&sign) {
            return None;
        }
        let (more, body) = header(reply)?;
        count += more;
        bodies.push(body);
    }
    let count = if sign == b'%' { count / 2 } else { count };
    out.push(sign);
    out.extend_from_slice(alloc::string::ToString::to_string(&count).as_bytes());
    out.extend_from_slice(b"\r\n");
    bodies.into_iter().for_each(|body| out.extend_from_slice(body));
    Some(())
}

/// A server's cursor with its header: 20 digits at most.
const CURSOR_BYTES_MAX: usize = 32;

/// A page of SCAN with our cursor in place of the node's. If the table changed meanwhile the iteration begins again.
fn page(out: &mut Vec<u8>, reply: &[u8], place: Place, nodes: usize, seen: Seen) -> Option<()> {
    let (2, body) = header(reply)? else { return None };
    let (cursor, keys) = body.split_at(element_len(body)?);
    if cursor.len() > CURSOR_BYTES_MAX {
        return None;
    }
    let (cursor, _) = resp::value::parse(cursor).ok()??;
    let cursor = scan::read(cursor.as_text()?)?;
    let next = match seen.mark == place.mark {
        true => scan::next(place, nodes, cursor, seen.gives)?,
        false => u64::from(seen.mark),
    };
    encode::array(out, 2);
    encode::bulk(out, &scan::text(next));
    out.extend_from_slice(keys);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn merged(how: How, replies: &[&str]) -> String {
        let id = ClientId::new(0, 1);
        let mut merge =
            Merge::new(id, 0, false, Protocol::Resp2, how, replies.len() as u32, Room::default());
        // They come in any order.
        for (part, reply) in replies.iter().enumerate().rev() {
            assert!(!merge.is_whole());
            merge.take(part as u32, 1, reply.as_bytes());
        }
        let mut out = Vec::new();
        merge.write(&mut out, Some(Seen { mark: 7, gives: false }), &mut Spans::new());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers() {
        assert_eq!(merged(How::All(Gather::Sum), &[":2\r\n", ":0\r\n", ":40\r\n"]), ":42\r\n");
        assert_eq!(merged(How::All(Gather::Min), &[":2\r\n", ":0\r\n"]), ":0\r\n");
        assert_eq!(merged(How::All(Gather::Max), &[":2\r\n", ":9\r\n"]), ":9\r\n");
        assert!(merged(How::All(Gather::Sum), &[":2\r\n", "+OK\r\n"]).starts_with("-ERR respool:"));
    }

    #[test]
    fn nothing_is_read_of_a_reply_that_is_no_number() {
        let array = alloc::format!("*300000\r\n{}", ":1\r\n".repeat(300_000));
        for gather in [Gather::Sum, Gather::Min, Gather::Max] {
            assert!(merged(How::All(gather), &[&array]).starts_with("-ERR respool: the replies"));
        }
        assert_eq!(number(b":12\r\n"), Some(12));
        for other in ["*1\r\n:1\r\n", "$1\r\n1\r\n", ":1", "", "+1\r\n", ":x\r\n"] {
            assert_eq!(number(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn of_replies_with_very_many_elements_no_list_is_made() {
        let many = |count: usize| alloc::format!("*{count}\r\n{}", ":1\r\n".repeat(count));
        let (half, more) = (many(MERGED_ELEMENTS_MAX / 2), many(MERGED_ELEMENTS_MAX / 2 + 1));
        let error = alloc::format!("-{}\r\n", reject::TOO_LARGE_TO_MERGE);
        for gather in [Gather::Union, Gather::MinEach, Gather::And, Gather::Or, Gather::SumEach] {
            assert_eq!(merged(How::All(gather), &[&half, &more]), error);
            assert!(!merged(How::All(gather), &[&half, &half]).starts_with('-'), "{gather:?}");
        }
        // One reply has no element twice, and is given on as it is.
        let one = many(MERGED_ELEMENTS_MAX + 1);
        assert_eq!(merged(How::All(Gather::Union), &[&one]), one);
    }

    #[test]
    fn a_page_is_a_cursor_and_keys() {
        let how = || How::Scan {
            place: Place { mark: 7, index: 0, cursor: 0, pass: scan::Pass::First },
            nodes: 1,
            asked: true,
        };
        let keys = "*1\r\n$1\r\nk\r\n";
        let long = alloc::format!("*2\r\n*300000\r\n{}{keys}", ":1\r\n".repeat(300_000));
        assert!(merged(how(), &[&long]).starts_with("-ERR respool: the replies"));
        assert!(merged(how(), &["*3\r\n:1\r\n:1\r\n:1\r\n"]).starts_with("-ERR respool:"));
        let page = alloc::format!("*2\r\n$1\r\n0\r\n{keys}");
        assert_eq!(merged(how(), &[&page]), page);
    }

    #[test]
    fn an_error_of_a_part_is_the_error_of_the_whole() {
        assert_eq!(
            merged(How::All(Gather::Sum), &[":2\r\n", "-ERR one\r\n", "-ERR two\r\n"]),
            "-ERR one\r\n"
        );
        assert_eq!(merged(How::All(Gather::AllOk), &["+OK\r\n", "-ERR x\r\n"]), "-ERR x\r\n");
        assert_eq!(merged(How::All(Gather::AllOk), &["+OK\r\n", "+OK\r\n"]), "+OK\r\n");
        assert_eq!(merged(How::All(Gather::OneOk), &["-NOTBUSY\r\n", "+OK\r\n"]), "+OK\r\n");
        assert_eq!(
            merged(How::All(Gather::OneOk), &["-NOTBUSY 1\r\n", "-NOTBUSY 2\r\n"]),
            "-NOTBUSY 1\r\n"
        );
    }

    #[test]
    fn elements_stand_in_the_order_of_the_request() {
        let how = || How::Elements { units: alloc::vec![1, 3, 0, 2], ends: alloc::vec![2, 3, 4] };
        let replies = ["*2\r\n$1\r\nb\r\n$-1\r\n", "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\nc\r\n"];
        assert_eq!(merged(how(), &replies), "*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$-1\r\n");
        let short = ["*1\r\n$1\r\nb\r\n", "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\nc\r\n"];
        assert!(merged(how(), &short).starts_with("-ERR respool:"));
    }

    #[test]
    fn collections_are_joined_and_bits_compared() {
        assert_eq!(
            merged(How::All(Gather::Join), &["*1\r\n:1\r\n", "*0\r\n", "*2\r\n:2\r\n:3\r\n"]),
            "*3\r\n:1\r\n:2\r\n:3\r\n"
        );
        assert_eq!(
            merged(How::All(Gather::Join), &["%1\r\n:1\r\n:2\r\n", "%1\r\n:3\r\n:4\r\n"]),
            "%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n"
        );
        assert_eq!(
            merged(How::All(Gather::And), &["*2\r\n:1\r\n:0\r\n", "*2\r\n:1\r\n:1\r\n"]),
            "*2\r\n:1\r\n:0\r\n"
        );
        assert_eq!(
            merged(How::All(Gather::Or), &["*2\r\n:1\r\n:0\r\n", "*2\r\n:0\r\n:0\r\n"]),
            "*2\r\n:1\r\n:0\r\n"
        );
        assert_eq!(merged(How::All(Gather::AnyOfSome), &["$-1\r\n", "$1\r\nk\r\n"]), "$1\r\nk\r\n");
        assert_eq!(merged(How::All(Gather::AnyOfSome), &["$-1\r\n", "$-1\r\n"]), "$-1\r\n");
    }

    #[test]
    fn replies_of_consecutive_parts_may_come_together() {
        let mut merge = Merge::new(
            ClientId::new(0, 1),
            0,
            false,
            Protocol::Resp2,
            How::All(Gather::Sum),
            3,
            Room::default(),
        );
        merge.take(1, 2, b":1\r\n:2\r\n");
        merge.take(0, 1, b":4\r\n");
        let mut out = Vec::new();
        merge.write(&mut out, Some(Seen { mark: 7, gives: false }), &mut Spans::new());
        assert_eq!(out, b":7\r\n");
    }

    #[test]
    fn a_page_of_scan_gets_our_cursor() {
        let place = Place { index: 0, cursor: 0, pass: scan::Pass::First, mark: 7 };
        let how = |nodes| How::Scan { place, nodes, asked: true };
        let page = "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n";
        assert_eq!(merged(how(1), &[page]), page);
        let next = scan::next(place, 2, 0, false).unwrap().to_string();
        assert_eq!(
            merged(how(2), &[page]),
            page.replace("$1\r\n0", &alloc::format!("${}\r\n{next}", next.len()))
        );
        let moved = How::Scan { place: Place { mark: 8, ..place }, nodes: 1, asked: true };
        assert!(merged(moved, &[page]).starts_with("*2\r\n$1\r\n7\r\n"), "begins again");
    }

    use alloc::string::ToString;
}
