//! Requests that took long at their server, and how many others waited for them.
//!
//! ```text
//!   given on   EVAL  GET a  GET b
//!   replies           │      EVAL ── GET a ── GET b │        one look at the socket: 38 ms behind the reply before it
//!   the log           EVAL 38 ms, 2 waited behind it
//! ```
//! A server answers the requests of one connection one after the other, so a request has the server's time from the
//! reply before it on, and the time until then is told beside, as a wait. Replies that come in one piece have that time
//! together. Then the requests that a server does in constant or logarithmic time (its flag FAST) waited for the others,
//! and are counted and not listed; if all are of that kind the first is listed. A wait that the client asked for (BLPOP)
//! does not count. Of requests that a client sent together and that were answered together one entry is kept, the first,
//! and of a request that was split between servers one for each part that was slow.
//!
//! Connections of other workers know nothing of each other: at each of them the first request that waited is listed.
//!
//! The arguments are read from the connection's output, which is kept until the reply for as long as the log is on; so an entry costs
//! nothing before it is known to be slow. Of a request that was streamed, or whose bytes are gone for another reason, only the name stands there.
//!
//! A request that could not be given on at once waited here first: for its client's earlier replies, say, or for room on a connection. That is a wait, too,
//! and does not make a request slow.
//!
//! Not here: the commands that show the log (`local::slowlog`).
//!
//! Invariant: at most `slowlog.max_len` entries, the newest, with numbers that grow with time over all workers.

use crate::command::Flags;
use crate::engine::Engine;
use crate::ids::{ClientId, UpstreamId};
use crate::limits::{SLOWLOG_ARG_BYTES, SLOWLOG_ARGS, SLOWLOG_PART};
use crate::redact;
use crate::redirect::request_of;
use crate::time::Time;
use crate::upstream::inflight::{Owner, Run};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What the slow log is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// From here on a request is slow.
    pub slower_than_us: u64,
    /// Entries that are kept; 0: the log is off.
    pub max_len: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { slower_than_us: 10_000, max_len: 128 }
    }
}

impl Options {
    /// Whether anything is ever kept.
    pub fn is_on(&self) -> bool {
        self.max_len > 0
    }
}

/// One slow request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Unique in the process and growing.
    pub number: u64,
    /// When its reply came.
    pub at: Time,
    /// How long that took, from being given on or from the reply before it on its connection; in microseconds.
    pub took_us: u64,
    /// How long it had waited before, here and behind others on its connection; in microseconds.
    pub queued_us: u64,
    /// Requests behind it on its connection that waited for it and were not slow themselves.
    pub behind: u64,
    /// The server that answered; empty: the proxy itself.
    pub node: String,
    /// Its arguments, cut as servers cut them.
    pub args: Vec<Vec<u8>>,
    /// Whose it was: address and name.
    pub addr: String,
    /// See `addr`.
    pub name: Vec<u8>,
}

impl Entry {
    /// What it takes.
    fn bytes(&self) -> usize {
        let args: usize = self.args.iter().map(|arg| arg.len() + size_of::<Vec<u8>>()).sum();
        size_of::<Self>() + args + self.addr.len() + self.name.len() + self.node.len()
    }
}

/// What the log knows of a connection.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// The place of the last reply, and when it came.
    place: u64,
    replied_at: Time,
    last: Option<Last>,
}

/// The last entry of a connection.
#[derive(Clone, Copy, Debug)]
struct Last {
    at: Time,
    number: u64,
    /// Whether its command takes a server constant or logarithmic time, so that another one answered with it is more
    /// likely to have been slow.
    is_fast: bool,
}

impl Pulse {
    /// Replies came, up to this place.
    #[inline]
    pub(crate) fn beat(&mut self, now: Time, place: u64) {
        if self.place != place {
            (self.place, self.replied_at) = (place, now);
        }
    }

    /// The entry for which a request waited that was given on then.
    fn culprit(&self, sent_at: Time) -> Option<Last> {
        self.last.filter(|last| last.at >= sent_at)
    }
}

/// Where a request's time went.
#[derive(Debug, Default)]
struct Took {
    took_us: u64,
    queued_us: u64,
    behind: u64,
    node: String,
}

/// A command of the proxy's own, as it would stand in the log.
#[derive(Debug)]
pub(crate) struct Noted {
    at: Time,
    args: Vec<Vec<u8>>,
    /// Address and name of the client.
    identity: (String, Vec<u8>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// A request that took so long is slow; the end of time if the log is off, so that one comparison tells.
    pub(crate) from_us: u64,
    max_len: usize,
    /// Newest first.
    entries: VecDeque<Entry>,
    /// What they take.
    bytes: usize,
    last_number: u64,
}

impl SlowLog {
    pub(crate) fn new(options: &Options) -> Self {
        let from_us = Self::from_us_of(options);
        let (max_len, entries) = (options.max_len, VecDeque::new());
        Self { from_us, max_len, entries, bytes: 0, last_number: 0 }
    }

    /// From how many microseconds on a request is slow; the end of time if the log is off.
    pub(crate) fn from_us_of(options: &Options) -> u64 {
        if options.is_on() { options.slower_than_us } else { u64::MAX }
    }

    /// Other bounds hold from now on.
    pub(crate) fn change(&mut self, options: &Options) {
        let changed = Self::new(options);
        (self.from_us, self.max_len) = (changed.from_us, changed.max_len);
        self.truncate(self.max_len, usize::MAX);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the entries.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0, 0);
    }

    /// Drops the oldest entries until there are so many at most, with so many bytes.
    fn truncate(&mut self, len: usize, bytes_max: usize) {
        while self.entries.len() > len || self.bytes > bytes_max {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.bytes -= oldest.bytes();
        }
    }

    /// The newest entries.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.iter().take(count).cloned().collect()
    }

    /// A number above all before it, of this worker and, but for the same microsecond, of all.
    fn number(&mut self, now: Time, worker: u32, workers: u32) -> u64 {
        let workers = u64::from(workers.max(1));
        let by_time = now.0.saturating_mul(workers).saturating_add(u64::from(worker));
        self.last_number = by_time.max(self.last_number.saturating_add(workers));
        self.last_number
    }

    /// So many requests waited for this one.
    fn add_behind(&mut self, number: u64, count: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.number == number) {
            entry.behind += count;
        }
    }

    /// Takes an entry out that is one of the newest; how many requests waited for it, itself included.
    fn take(&mut self, number: u64) -> u64 {
        let Some(at) = self.entries.iter().position(|entry| entry.number == number) else {
            return 0;
        };
        let Some(entry) = self.entries.remove(at) else { return 0 };
        self.bytes -= entry.bytes();
        entry.behind + 1
    }

    /// Takes one in. The oldest make room for it.
    fn push(&mut self, entry: Entry, bytes_max: usize) {
        let bytes = entry.bytes();
        self.truncate(self.max_len.saturating_sub(1), bytes_max.saturating_sub(bytes));
        self.bytes += bytes;
        self.entries.push_front(entry);
    }
}

impl Engine {
    /// The proxy answered this itself, which takes no time; so it is slow only if everything is.
    /// If it asked all workers, since this ticket, it is answered when they have.
    pub(crate) fn note_local(&mut self, now: Time, id: ClientId, args: &[&[u8]], ticket: u64) {
        if self.slowlog.from_us > 0 {
            return;
        }
        let Some(client) = self.clients.get(id) else { return };
        let identity = (client.identity.addr.clone(), client.identity.name.clone());
        let noted = Noted { at: now, args: cut(args), identity };
        match self.asked.newest_since(ticket) {
            Some(asked) => asked.noted = Some(noted),
            None => self.enter_noted(noted),
        }
    }

    /// A command of the proxy's own was answered.
    pub(crate) fn enter_noted(&mut self, noted: Noted) {
        if self.slowlog.from_us == 0 {
            let _ = self.enter_slow(noted.at, Took::default(), noted.args, noted.identity);
        }
    }

    fn enter_slow(
        &mut self,
        now: Time,
        took: Took,
        args: Vec<Vec<u8>>,
        (addr, name): (String, Vec<u8>),
    ) -> u64 {
        let number = self.slowlog.number(now, self.settings.worker, self.settings.workers);
        let Took { took_us, queued_us, behind, node } = took;
        let bytes_max = self.settings.limits.memory_max_bytes / SLOWLOG_PART;
        let entry = Entry { number, at: now, took_us, queued_us, behind, node, args, addr, name };
        self.slowlog.push(entry, bytes_max);
        number
    }

    /// The next `count` replies of this run came, and not in time. If the server was at something else meanwhile, they
    /// are counted where that stands.
    pub(crate) fn note_slow(&mut self, now: Time, id: UpstreamId, run: &Run, count: u32) {
        let from_us = self.slowlog.from_us;
        let Some(upstream) = self.upstreams.get_mut(id) else { return };
        let is_fast = run.command.is_some_and(|command| command.row().flags.has(Flags::FAST));
        let since = run.sent_at.max(upstream.slow.replied_at);
        let (took_us, mut behind) = (now.since(since), u64::from(count) - 1);
        let culprit = upstream.slow.culprit(run.sent_at).filter(|_| from_us > 0);
        let with = culprit.filter(|culprit| culprit.at == now);
        match (culprit, with) {
            (Some(culprit), _) if took_us < from_us => {
                return self.slowlog.add_behind(culprit.number, behind + 1);
            }
            (None, _) if took_us < from_us => return,
            (_, Some(with)) if is_fast => {
                return self.slowlog.add_behind(with.number, behind + 1);
            }
            (_, Some(with)) if with.is_fast => behind += self.slowlog.take(with.number),
            _ => {}
        }
        if let Some(number) = self.list_slow(now, id, run, (since, behind))
            && let Some(upstream) = self.upstreams.get_mut(id)
        {
            upstream.slow.last = Some(Last { at: now, number, is_fast });
        }
    }

    /// An entry for the next reply of this run, at which the server was since then. Returns its number.
    fn list_slow(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        (since, behind): (Time, u64),
    ) -> Option<u64> {
        let upstream = self.upstreams.get(id)?;
        let client = match run.owner {
            Owner::Client { id, .. } => id,
            Owner::Part { merge, .. } => match self.merges.get(merge) {
                Some(merge) => merge.client,
                None => return None,
            },
            Owner::Own(_) => return None,
        };
        let client = self.clients.get(client)?;
        // With a threshold of 0 it stands there all the same, as everything does.
        let waited = upstream.no_reply_before.is_some();
        if waited && self.slowlog.from_us > 0 {
            return None;
        }
        let request = request_of(upstream, run, run.done).unwrap_or_default();
        let args: Vec<&[u8]> = resp::Args::new(&request).collect();
        let args = match (args.is_empty(), run.command) {
            (false, _) => cut(&args),
            (true, Some(command)) => alloc::vec![command.name().as_bytes().to_vec()],
            (true, None) => alloc::vec![b"(unknown)".to_vec()],
        };
        let identity = (client.identity.addr.clone(), client.identity.name.clone());
        let took = Took {
            took_us: if waited { 0 } else { now.since(since) },
            queued_us: client.identity.late.waited_us(run.sent_at) + since.since(run.sent_at),
            behind,
            node: self.label(upstream.key.node).to_string(),
        };
        Some(self.enter_slow(now, took, args, identity))
    }
}

/// The arguments as the log keeps them (`slowlogCreateEntry` in Redis' slowlog.c).
fn cut(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > SLOWLOG_ARGS { SLOWLOG_ARGS - 1 } else { args.len() };
    let mut out: Vec<Vec<u8>> = Vec::with_capacity(kept + 1);
    for index in 0..kept {
        let arg = redact::shown(args, index);
        let mut text = arg[..arg.len().min(SLOWLOG_ARG_BYTES)].to_vec();
        if let Some(more) = arg.len().checked_sub(SLOWLOG_ARG_BYTES).filter(|more| *more > 0) {
            text.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
        }
        out.push(text);
    }
    if kept < args.len() {
        out.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut_as_a_server_cuts_them() {
        let long = [b'x'; 130];
        let kept = cut(&[b"SET", b"k", &long]);
        assert_eq!(kept[..2], [b"SET".to_vec(), b"k".to_vec()]);
        assert_eq!(kept[2], [&long[..128], b"... (2 more bytes)"].concat());
        assert_eq!(cut(&[&long[..128]])[0].len(), 128);
        let many = [&b"a"[..]; 33];
        assert_eq!(cut(&many[..32]).len(), 32);
        let kept = cut(&many);
        assert_eq!((kept.len(), kept[31].as_slice()), (32, &b"... (2 more arguments)"[..]));
        assert_eq!(cut(&[b"AUTH", b"pw"])[1], b"(redacted)");
    }

    #[test]
    fn a_part_of_the_memory_bounds_the_log() {
        let mut log = SlowLog::new(&Options { max_len: 1_000, ..Options::default() });
        let entry = |number: u64| Entry {
            number,
            at: Time(number),
            took_us: 1,
            queued_us: 0,
            behind: 0,
            node: String::from("h:1"),
            args: alloc::vec![alloc::vec![b'x'; 100]; 10],
            addr: String::from("10.0.0.1:1"),
            name: Vec::new(),
        };
        let each = entry(0).bytes();
        (0..50).for_each(|number| log.push(entry(number), 7 * each));
        assert_eq!((log.len(), log.bytes()), (7, 7 * each));
        assert_eq!(log.newest(1)[0].number, 49);
        log.change(&Options { max_len: 3, ..Options::default() });
        assert_eq!((log.len(), log.bytes()), (3, 3 * each));
        log.clear();
        assert_eq!((log.len(), log.bytes()), (0, 0));
    }

    #[test]
    fn numbers_grow_with_time_over_all_workers() {
        let mut one = SlowLog::new(&Options::default());
        let mut other = SlowLog::new(&Options::default());
        let numbers = [
            one.number(Time(10), 0, 2),
            other.number(Time(10), 1, 2),
            one.number(Time(10), 0, 2),
            one.number(Time(11), 0, 2),
            other.number(Time(13), 1, 2),
        ];
        assert_eq!(numbers, [20, 21, 22, 24, 27]);
    }
}
