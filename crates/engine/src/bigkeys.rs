//! Requests and replies that are large: whose key, which command, how large, from where.
//!
//! ```text
//!   a scanner finds a frame's end ─▶ long? ─ no, nearly always and for nothing
//!                                      └ yes ─▶ as large as the options say? ─▶ an entry for its key, command and direction
//! ```
//! Bytes are those of the whole frame, as the scanner has counted them; elements are a request's arguments, or what the outermost array, set or map of
//! a reply announced. So what is streamed costs nothing more and is measured all the same.
//!
//! The key of a reply is that of its request, whose bytes are kept until the reply as for the slow log. Where they are not (in front of one
//! server without a slow log, or of a request that was streamed) the key is empty.
//!
//! Not here: the command (`local::bigkeys`), and frames below the scanners' [`resp::limits::LONG_FRAME_BYTES`] and
//! [`resp::limits::LONG_FRAME_ELEMENTS`], whatever the options say.
//!
//! Invariant: at most `max_len` entries, those that were seen last, the newest first, each key, command and direction once.

use crate::client::Hold;
use crate::command::{self, CommandId, KeyFlags, Learned};
use crate::engine::{Engine, Notice};
use crate::ids::{ClientId, UpstreamId};
use crate::key_name::KeyName;
use crate::limits::{BIGKEYS_ENTRIES_MAX, BIGKEYS_TOLD_EVERY_MS, BIGKEYS_TOLD_MAX};
use crate::redact;
use crate::redirect::request_of;
use crate::route::{Known, Way};
use crate::scatter::row_of;
use crate::time::Time;
use crate::upstream::inflight::{Owner, Run};
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use resp::{Args, LongReply};

/// Arguments of a request among which its first key is looked for.
const LOOKED_ARGS: usize = 64;

/// What is large, and how much is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// A request or reply of so many bytes is large.
    pub bytes_min: u64,
    /// One of so many elements is, too.
    pub elements_min: u64,
    /// Entries that are kept; 0: none, and nothing is counted. At most `limits::BIGKEYS_ENTRIES_MAX`.
    pub max_len: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { bytes_min: 1 << 20, elements_min: 10_000, max_len: 128 }
    }
}

/// Which way it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// To the server.
    Request,
    /// From the server.
    Reply,
}

impl Direction {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Reply => "reply",
        }
    }
}

/// Large requests or replies of one key and command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first key; empty if it is not known, or there is none.
    pub key: KeyName,
    /// Name of the command, as servers write it.
    pub command: String,
    /// Which of both it was.
    pub direction: Direction,
    /// How often it was large.
    pub count: u64,
    /// Bytes of the largest.
    pub bytes_max: u64,
    /// Most elements of one.
    pub elements_max: u64,
    /// Address of the client, the last time.
    pub addr: String,
    /// Label of the node, the last time.
    pub node: String,
    /// When it was large the last time.
    pub at: Time,
}

impl Entry {
    fn is_like(&self, other: &Self) -> bool {
        (&self.key, &self.command, self.direction) == (&other.key, &other.command, other.direction)
    }

    /// Takes in what was seen of the same key, command and direction.
    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.bytes_max = self.bytes_max.max(other.bytes_max);
        self.elements_max = self.elements_max.max(other.elements_max);
        if other.at >= self.at {
            (self.at, self.addr, self.node) = (other.at, other.addr, other.node);
        }
    }
}

/// How many were large since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BigSeen {
    /// Requests.
    pub requests: u64,
    /// Replies.
    pub replies: u64,
}

impl BigSeen {
    /// Adds what another worker saw.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.replies += other.replies;
    }
}

/// The entries of all workers, each's newest first, as one list, the newest first, at most so many.
#[must_use]
pub fn merged(entries: impl IntoIterator<Item = Entry>, len_max: usize) -> Vec<Entry> {
    let mut entries: Vec<(usize, Entry)> = entries.into_iter().enumerate().collect();
    entries.sort_by_cached_key(|(_, entry)| {
        (entry.key.clone(), entry.command.clone(), entry.direction)
    });
    entries.dedup_by(|(_, later), (_, earlier)| {
        let is_like = earlier.is_like(later);
        if is_like {
            earlier.join(later.clone());
        }
        is_like
    });
    // Those of one moment stay in the order in which they came here.
    entries.sort_by_key(|(index, entry)| (core::cmp::Reverse(entry.at), *index));
    entries.into_iter().map(|(_, entry)| entry).take(len_max).collect()
}

/// An entry, and when the operator was told of it.
#[derive(Debug)]
struct Kept {
    entry: Entry,
    told_at: Option<Time>,
}

/// A request that is being streamed: what will not be there any more when its size is known.
#[derive(Debug)]
struct Stream {
    client: ClientId,
    key: KeyName,
    command: String,
    node: String,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct BigKeys {
    options: Options,
    /// The newest first.
    kept: VecDeque<Kept>,
    seen: BigSeen,
    /// At most as many as there may be transfers.
    streams: Vec<Stream>,
    /// Since when how many were told.
    told: (Time, u32),
}

impl BigKeys {
    pub(crate) fn new(options: &Options) -> Self {
        let (kept, streams) = (VecDeque::new(), Vec::new());
        let options = Options { max_len: options.max_len.min(BIGKEYS_ENTRIES_MAX), ..*options };
        Self { options, kept, seen: BigSeen::default(), streams, told: (Time(0), 0) }
    }

    /// Other bounds hold from now on; of what is kept the newest that fit stay.
    pub(crate) fn change(&mut self, options: &Options) {
        self.options = Self::new(options).options;
        self.kept.truncate(self.options.max_len);
    }

    /// Whether a frame of this size is large.
    #[inline]
    pub(crate) fn is_big(&self, bytes: u64, elements: u64) -> bool {
        (bytes >= self.options.bytes_min || elements >= self.options.elements_min)
            && self.options.max_len > 0
    }

    /// The newest entries.
    pub(crate) fn newest(&self) -> Vec<Entry> {
        self.kept.iter().map(|kept| kept.entry.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }

    pub(crate) fn seen(&self) -> BigSeen {
        self.seen
    }

    /// One more. Gives what the operator is to be told.
    fn note(&mut self, entry: Entry) -> Option<Notice> {
        match entry.direction {
            Direction::Request => self.seen.requests += 1,
            Direction::Reply => self.seen.replies += 1,
        }
        let now = entry.at;
        let kept = match self.kept.iter().position(|kept| kept.entry.is_like(&entry)) {
            Some(at) => {
                let mut kept = self.kept.remove(at)?;
                kept.entry.join(entry);
                kept
            }
            None => Kept { entry, told_at: None },
        };
        self.kept.truncate(self.options.max_len.saturating_sub(1));
        self.kept.push_front(kept);
        let may_tell = self.may_tell(now);
        let newest = self.kept.front_mut()?;
        let is_due = |told: Time| told.plus_ms(BIGKEYS_TOLD_EVERY_MS) <= now;
        if !may_tell || !newest.told_at.is_none_or(is_due) {
            return None;
        }
        newest.told_at = Some(now);
        self.told.1 += 1;
        let entry = &newest.entry;
        Some(Notice::BigKey {
            key: entry.key.text(),
            command: entry.command.clone(),
            direction: entry.direction.word(),
            bytes: entry.bytes_max,
            elements: entry.elements_max,
            addr: entry.addr.clone(),
            node: entry.node.clone(),
        })
    }

    /// Whether the log takes more of them just now: where very many keys are large, not each is told.
    fn may_tell(&mut self, now: Time) -> bool {
        if self.told.0.plus_ms(BIGKEYS_TOLD_EVERY_MS) <= now {
            self.told = (now, 0);
        }
        self.told.1 < BIGKEYS_TOLD_MAX
    }
}

impl Engine {
    /// A large request was given on to this node.
    #[cold]
    pub(crate) fn note_big_request(
        &mut self,
        now: Time,
        id: ClientId,
        upstream: Option<UpstreamId>,
        command: Option<CommandId>,
        frame: &[u8],
    ) {
        let args: Vec<&[u8]> = Args::new(frame).take(LOOKED_ARGS).collect();
        let elements = u64::from(Args::new(frame).left());
        let key = key_of(command, &args, self.learned.as_ref());
        let node = upstream.and_then(|id| self.upstreams.get(id)).map(|up| up.key.node);
        let node = node.map_or_else(|| self.label_for(key), |node| self.label(node).to_string());
        let Some(client) = self.clients.get(id) else { return };
        let entry = Entry {
            key: KeyName::new(key),
            command: name_of(command, &args),
            direction: Direction::Request,
            count: 1,
            bytes_max: frame.len() as u64,
            elements_max: elements,
            addr: client.identity.addr.clone(),
            node,
            at: now,
        };
        self.notices.extend(self.bigkeys.note(entry));
    }

    /// A request was processed that needed a second look.
    #[inline]
    pub(crate) fn note_if_big(
        &mut self,
        now: Time,
        id: ClientId,
        known: &Known,
        frame: &[u8],
        args: usize,
    ) {
        // What the proxy answers or refuses is none of the servers' concern.
        if self.bigkeys.is_big(frame.len() as u64, args as u64)
            && matches!(known.way, Way::Shared | Way::Leased | Way::Control)
        {
            self.note_big_request(now, id, None, known.id, frame);
        }
    }

    /// A request begins to be streamed, of which these are the first arguments.
    pub(crate) fn note_stream(
        &mut self,
        id: ClientId,
        upstream: UpstreamId,
        command: Option<CommandId>,
        head: &[&[u8]],
    ) {
        if self.bigkeys.options.max_len == 0 {
            return;
        }
        let key = KeyName::new(key_of(command, head, self.learned.as_ref()));
        let node = self.upstreams.get(upstream).map(|upstream| upstream.key.node);
        let node = node.map(|node| self.label(node).to_string()).unwrap_or_default();
        let stream = Stream { client: id, key, command: name_of(command, head), node };
        let streams = |client: ClientId| {
            let hold = self.clients.get(client).map(|client| client.hold);
            matches!(hold, Some(Hold::Streaming(_)))
        };
        self.bigkeys.streams.retain(|other| other.client != id && streams(other.client));
        self.bigkeys.streams.push(stream);
    }

    /// The request that this client streamed is at its end, with so many bytes and arguments.
    pub(crate) fn note_streamed(&mut self, now: Time, id: ClientId, bytes: u64, elements: u64) {
        let Some(at) = self.bigkeys.streams.iter().position(|stream| stream.client == id) else {
            return;
        };
        let Stream { key, command, node, .. } = self.bigkeys.streams.swap_remove(at);
        let Some(client) = self.clients.get(id) else { return };
        if !self.bigkeys.is_big(bytes, elements) {
            return;
        }
        let entry = Entry {
            key,
            command,
            direction: Direction::Request,
            count: 1,
            bytes_max: bytes,
            elements_max: elements,
            addr: client.identity.addr.clone(),
            node,
            at: now,
        };
        self.notices.extend(self.bigkeys.note(entry));
    }

    /// A large reply came, to the request of this run behind so many others that are not answered yet.
    #[cold]
    pub(crate) fn note_big_reply(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        before: u32,
        long: LongReply,
    ) {
        let Some(upstream) = self.upstreams.get(id) else { return };
        let client = match run.owner {
            Owner::Client { id, .. } => Some(id),
            Owner::Part { merge, .. } => self.merges.get(merge).map(|merge| merge.client),
            Owner::Own(_) => None,
        };
        let Some(client) = client.and_then(|id| self.clients.get(id)) else { return };
        let request = request_of(upstream, run, run.done + before).unwrap_or_default();
        let args: Vec<&[u8]> = Args::new(&request).take(LOOKED_ARGS).collect();
        let entry = Entry {
            key: KeyName::new(key_of(run.command, &args, self.learned.as_ref())),
            command: name_of(run.command, &args),
            direction: Direction::Reply,
            count: 1,
            bytes_max: long.bytes,
            elements_max: long.elements,
            addr: client.identity.addr.clone(),
            node: self.label(upstream.key.node).to_string(),
            at: now,
        };
        self.notices.extend(self.bigkeys.note(entry));
    }

    /// The label of the node that has this key, if it is known just now.
    fn label_for(&self, key: &[u8]) -> String {
        let node = match self.is_one() {
            true => Some(self.first_node),
            false if key.is_empty() => None,
            false => self.router.node(self.router.place(key)),
        };
        node.map(|node| self.label(node).to_string()).unwrap_or_default()
    }
}

/// The first key of a call; empty if there is none, or the call is not known.
pub(crate) fn key_of<'a>(
    command: Option<CommandId>,
    args: &[&'a [u8]],
    learned: Option<&Learned>,
) -> &'a [u8] {
    let mut first = None;
    match command {
        Some(id) => {
            let row = row_of(id, args).row();
            command::keys(row, args.iter().copied(), |index, _, flags| {
                if !flags.has(KeyFlags::NOT_KEY) {
                    first = first.or(Some(index));
                }
            });
        }
        None => {
            let row = args.first().zip(learned).and_then(|(name, learned)| learned.lookup(name));
            if let Some(row) = row {
                row.keys(args.iter().copied(), |index, _| first = first.or(Some(index)));
            }
        }
    }
    first.map_or(&[], |index| redact::shown(args, index))
}

/// The name of a command; as it was called if the table does not know it.
pub(crate) fn name_of(command: Option<CommandId>, args: &[&[u8]]) -> String {
    match (command, args.first()) {
        (Some(id), _) => row_of(id, args).name().to_string(),
        (None, Some(name)) => KeyName::new(&name.to_ascii_lowercase()).text(),
        (None, None) => String::from("(unknown)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn entry(key: &str, bytes: u64, second: u64) -> Entry {
        Entry {
            key: KeyName::new(key.as_bytes()),
            command: String::from("get"),
            direction: Direction::Reply,
            count: 1,
            bytes_max: bytes,
            elements_max: 0,
            addr: format!("client {second}"),
            node: String::from("n1"),
            at: Time(second * 1_000_000),
        }
    }

    fn keys(entries: &[Entry]) -> Vec<(String, u64, u64)> {
        entries.iter().map(|entry| (entry.key.text(), entry.count, entry.bytes_max)).collect()
    }

    #[test]
    fn a_key_has_one_entry_and_the_newest_are_kept() {
        let mut big = BigKeys::new(&Options { max_len: 2, ..Options::default() });
        for (key, bytes, second) in [("a", 5, 1), ("b", 6, 2), ("a", 4, 3), ("c", 7, 4)] {
            big.note(entry(key, bytes, second));
        }
        let newest = big.newest();
        assert_eq!(keys(&newest), [("c".to_string(), 1, 7), ("a".to_string(), 2, 5)]);
        assert_eq!(newest[1].addr, "client 3");
        let request = Entry { direction: Direction::Request, ..entry("c", 1, 5) };
        big.note(request);
        assert_eq!(big.newest().len(), 2, "another direction is another entry");
        assert_eq!(big.seen(), BigSeen { requests: 1, replies: 4 });
        big.clear();
        assert_eq!((big.newest().len(), big.seen().replies), (0, 4));
    }

    #[test]
    fn the_operator_is_told_once_a_minute_and_not_of_very_many() {
        let mut big = BigKeys::new(&Options { max_len: 1_000, ..Options::default() });
        let told: Vec<bool> =
            [0, 1, 59, 60, 61].map(|second| big.note(entry("k", 9, second)).is_some()).into();
        assert_eq!(told, [true, false, false, true, false]);
        let others = (0..100).filter(|n| big.note(entry(&format!("k{n}"), 9, 62)).is_some());
        assert_eq!(others.count() as u32, BIGKEYS_TOLD_MAX - 1);
        assert!(big.note(entry("k0", 9, 200)).is_some());
    }

    #[test]
    fn what_workers_saw_is_one_list() {
        let all = [entry("a", 5, 1), entry("b", 6, 2), entry("a", 9, 3), entry("c", 1, 2)];
        let all = merged(all, 10);
        let names = [("a".to_string(), 2, 9), ("b".to_string(), 1, 6), ("c".to_string(), 1, 1)];
        assert_eq!(keys(&all), names);
        assert_eq!(all[0].addr, "client 3");
        assert_eq!(merged(all, 1).len(), 1);
    }

    #[test]
    fn the_first_key_is_shown_and_no_secret() {
        let shown = |line: &str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let command = command::lookup(args[0]);
            (key_of(command, &args, None).to_vec(), name_of(command, &args))
        };
        for (line, key, name) in [
            ("MSET a 1 b 2", "a", "mset"),
            ("OBJECT ENCODING k", "k", "object|encoding"),
            ("EVAL s 2 x y", "x", "eval"),
            ("SPUBLISH channel text", "", "spublish"),
            ("AUTH secret", "", "auth"),
            ("Nope k", "", "nope"),
        ] {
            assert_eq!(shown(line), (key.as_bytes().to_vec(), name.to_string()), "{line}");
        }
    }

    #[test]
    fn size_or_elements_make_it_large() {
        let options = Options { bytes_min: 100, elements_min: 10, max_len: 1 };
        let big = BigKeys::new(&options);
        assert!(big.is_big(100, 0) && big.is_big(0, 10) && !big.is_big(99, 9));
        assert!(!BigKeys::new(&Options { max_len: 0, ..options }).is_big(1_000, 1_000));
    }
}
