//! MONITOR: clients that are shown the requests of all clients, of all workers.
//!
//! Every worker knows who watches (a `Watch` each), and writes a line for each request that it processed and that the watch wants: to its own
//! client at once, to another worker's in one piece of news at the end of the turn. While nobody watches, the way of a request costs one
//! look at an empty list; while somebody does, requests take the slow way.
//!
//! ```text
//!   MONITOR at worker 1 ─▶ question to all: watch for client c ─▶ +OK
//!   a request at worker 0 ─▶ line ─▶ [watch of c] ─ end of turn ─▶ Seen(lines) ─▶ worker 1 ─▶ client c
//!                                         └ ahead_bytes ◀──────── Took(bytes) ◀──┘
//! ```
//! A monitor that does not keep up is closed: at the bound of its output, or when a worker has [`MONITOR_AHEAD_BYTES`] on the way to it.
//!
//! What stands between MULTI and EXEC is shown when EXEC was done, and EXEC behind it, as a server does it all then; until then it is kept with the
//! lease. What was not done is not shown.
//!
//! What is shown and what not is as at a server (`call` in Redis' server.c): nothing of administrators, no secrets. What a script
//! or function does inside is the server's to show.
//!
//! Not here: the writing of frames between replies (`push`).
//!
//! Invariant: a client that watches has its watch on every worker, or is gone.

use crate::account::KeptFrames;
use crate::client::Client;
use crate::command::{self, CommandId, Flags, ids};
use crate::engine::{Action, Engine};
use crate::glob;
use crate::ids::ClientId;
use crate::limits::{MONITOR_AHEAD_BYTES, MONITOR_KEPT_BYTES, MONITOR_PART};
use crate::news::{Audience, News, What};
use crate::redact;
use crate::route::{self, Way};
use crate::time::Time;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a line costs in a turn beside its bytes, in bytes.
const MONITOR_LINE_BYTES: usize = 64;

/// Which requests a monitor wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those with an argument, the command's name included, that matches one of these. Empty: all.
    pub patterns: Vec<Vec<u8>>,
    /// Those of clients with these numbers. Empty: of all.
    pub clients: Vec<u64>,
}

impl Filter {
    fn wants(&self, number: u64, args: &[&[u8]]) -> bool {
        let of_client = self.clients.is_empty() || self.clients.contains(&number);
        let any = |pattern: &Vec<u8>| {
            (0..args.len()).any(|index| glob::means(pattern, redact::shown(args, index)))
        };
        of_client && (self.patterns.is_empty() || self.patterns.iter().any(any))
    }
}

/// A monitor, as the workers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Its worker.
    pub worker: u32,
    /// Its id there.
    pub client: ClientId,
}

/// What is shown of a request, but for what only its end tells.
pub(crate) struct Line {
    id: ClientId,
    row: Option<CommandId>,
    number: u64,
    db: u32,
    addr: String,
    text: Vec<u8>,
}

impl Line {
    /// Whether a server shows a call with so many arguments: if somebody executes it, and any EXEC, as that ends a transaction
    /// (`execCommandAbort`).
    pub(crate) fn fits(&self, count: usize) -> bool {
        self.row.is_none_or(|row| row == ids::EXEC || crate::local::arity_fits(row, count))
    }

    /// There is more of the request, which is not here.
    pub(crate) fn end_open(&mut self) {
        self.text.extend_from_slice(b" ...");
    }
}

/// Requests of a transaction that are shown when it was done, EXEC the last, and the database of each.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    requests: KeptFrames<u32>,
}

impl Kept {
    /// Memory for all requests.
    pub(crate) fn held_bytes(&self) -> usize {
        self.requests.held_bytes()
    }
}

/// What workers tell each other of monitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MonitorNews {
    /// Lines for it, of this worker.
    Seen(Monitor, u32, Arc<[u8]>),
    /// So many bytes of this worker came there.
    Took(Monitor, usize),
    /// It is gone.
    Gone(Monitor),
    /// It does not keep up.
    TooSlow(Monitor),
}

/// A monitor and what is on the way to it.
#[derive(Debug)]
pub(crate) struct Watch {
    monitor: Monitor,
    filter: Filter,
    /// Lines of this turn.
    lines: Vec<u8>,
    /// Told to its worker, which has not said that it took them.
    ahead_bytes: usize,
}

impl Watch {
    /// Bytes of lines that its worker did not take.
    pub(crate) fn held_bytes(&self) -> usize {
        self.lines.len()
            + self.ahead_bytes
            + self.filter.patterns.iter().map(Vec::len).sum::<usize>()
    }
}

impl Engine {
    /// From now on this monitor is shown what this worker's clients ask for.
    pub(crate) fn watch(&mut self, monitor: Monitor, filter: Filter) {
        self.watches.push(Watch { monitor, filter, lines: Vec::new(), ahead_bytes: 0 });
    }

    /// The client is no monitor any more.
    pub(crate) fn end_monitor(&mut self, client: ClientId) {
        let Some(identity) = self.clients.get_mut(client).map(|client| &mut client.identity) else {
            return;
        };
        if core::mem::take(&mut identity.is_monitor) {
            self.forget_monitor(client);
        }
    }

    /// Nobody watches for this client any more.
    pub(crate) fn forget_monitor(&mut self, client: ClientId) {
        let monitor = Monitor { worker: self.settings.worker, client };
        self.watches.retain(|watch| watch.monitor != monitor);
        self.tell_others(0, What::Monitor(MonitorNews::Gone(monitor)));
    }

    /// What there is to show of a request that will be processed, if anything.
    pub(crate) fn line_of(&self, id: ClientId, args: &[&[u8]]) -> Option<Line> {
        let client = self.clients.get(id)?;
        let row = args.first().and_then(|name| command::lookup(name));
        let row =
            row.map(|row| args.get(1).and_then(|sub| command::lookup_sub(row, sub)).unwrap_or(row));
        let flags = row.map(|row| row.row().flags);
        // Nobody executes what no server knows.
        let known = route::classify(args.len(), |n| args[n], self.learned.as_ref());
        let is_unknown = known.way == Way::Unknown;
        let is_hidden = is_unknown || flags.is_some_and(|flags| flags.has(Flags::ADMIN));
        let before_auth = flags.is_some_and(|flags| flags.has(Flags::NO_AUTH));
        if is_hidden
            || !(client.is_authenticated() || before_auth)
            || self.is_refused(id, client, args)
            || self.is_ruled_out(id, args)
        {
            return None;
        }
        let mut text = Vec::new();
        for index in 0..args.len() {
            text.push(b' ');
            quote(&mut text, redact::shown(args, index));
        }
        let (number, db, addr) = (client.number, client.db, client.identity.addr.clone());
        Some(Line { id, row, number, db, addr, text })
    }

    /// How many requests of this client's transaction were sent; `None`: it is in none.
    pub(crate) fn sent_inside(&self, id: ClientId) -> Option<u32> {
        let lease = self.clients.get(id)?.lease.as_ref()?;
        lease.is_transaction().then_some(lease.sent)
    }

    /// A request was processed: it is shown, or kept until the transaction is done in which it stands. `sent`: [`Engine::sent_inside`] before it.
    pub(crate) fn show_processed(
        &mut self,
        now: Time,
        sent: Option<u32>,
        frame: &[u8],
        args: &[&[u8]],
        mut line: Line,
    ) {
        let Some(client) = self.clients.get_mut(line.id) else { return };
        // SELECT is shown with the database that it led to.
        line.db = client.db;
        let lease = client.lease.as_mut().zip(sent);
        let stands_inside = lease.filter(|(lease, sent)| match line.row {
            Some(ids::MULTI | ids::WATCH | ids::DISCARD | ids::QUIT) => false,
            Some(ids::EXEC) => lease.sent > *sent,
            _ => lease.is_transaction(),
        });
        let Some((lease, _)) = stands_inside else { return self.show(now, args, &line) };
        lease.kept.requests.push(lease.db_after.unwrap_or(client.db), frame.to_vec());
        if lease.kept.requests.frame_bytes() > MONITOR_KEPT_BYTES {
            let kept = core::mem::take(&mut lease.kept);
            self.show_kept(now, line.id, kept.requests);
        }
        self.account_rest(line.id);
    }

    /// The answer to EXEC came.
    pub(crate) fn show_transaction(&mut self, now: Time, id: ClientId) {
        let Some(Client { lease: Some(lease), db, .. }) = self.clients.get_mut(id) else { return };
        let kept = core::mem::take(&mut lease.kept).requests;
        if lease.done {
            self.account_rest(id);
            return self.show_kept(now, id, kept);
        }
        // Of what was not done only the end is shown.
        let end = kept.into_iter().last().map(|(_, frame)| (*db, frame));
        self.account_rest(id);
        self.show_kept(now, id, end);
    }

    fn show_kept(
        &mut self,
        now: Time,
        id: ClientId,
        kept: impl IntoIterator<Item = (u32, Vec<u8>)>,
    ) {
        for (db, frame) in kept {
            let args: Vec<&[u8]> = resp::Args::new(&frame).collect();
            if let Some(line) = self.line_of(id, &args).filter(|line| line.fits(args.len())) {
                self.show(now, &args, &Line { db, ..line });
            }
        }
    }

    /// Shows a request.
    pub(crate) fn show(&mut self, now: Time, args: &[&[u8]], line: &Line) {
        let db = line.db;
        let unix_us = now.0 + self.settings.unix_ahead_us;
        let (seconds, micros) = (unix_us / 1_000_000, unix_us % 1_000_000);
        let mut whole = format!("{seconds}.{micros:06} [{db} {}]", line.addr).into_bytes();
        whole.extend_from_slice(&line.text);
        let mut own = Vec::new();
        let (number, mut shown) = (line.number, 0);
        for watch in self.watches.iter_mut().filter(|watch| watch.filter.wants(number, args)) {
            shown += 1;
            if watch.monitor.worker == self.settings.worker {
                own.push(watch.monitor.client);
            } else {
                resp::encode::simple(&mut watch.lines, &whole);
            }
        }
        for client in own {
            let monitor = Monitor { worker: self.settings.worker, client };
            if self.is_monitor(monitor) {
                self.push(client, |out| resp::encode::simple(out, &whole));
            }
        }
        self.grants.slow.pay_reply(args.len(), shown * (whole.len() + MONITOR_LINE_BYTES));
    }

    /// The end of a turn: what was collected goes to the monitors' workers.
    pub(crate) fn tell_lines(&mut self) {
        let own = self.settings.worker;
        let part = self.settings.limits.memory_max_bytes / MONITOR_PART;
        let ahead_max = MONITOR_AHEAD_BYTES.min(part / self.watches.len().max(1));
        let mut slow = Vec::new();
        for watch in &mut self.watches {
            if watch.lines.is_empty() {
                continue;
            }
            let lines = core::mem::take(&mut watch.lines);
            watch.ahead_bytes += lines.len();
            let what = if watch.ahead_bytes > ahead_max {
                slow.push(watch.monitor);
                MonitorNews::TooSlow(watch.monitor)
            } else {
                MonitorNews::Seen(watch.monitor, own, Arc::from(lines))
            };
            let news = News { pool: 0, generation: 0, what: What::Monitor(what) };
            self.actions.push_back(Action::Tell(Audience::Worker(watch.monitor.worker), news));
        }
        self.watches.retain(|watch| !slow.contains(&watch.monitor));
    }

    pub(crate) fn hear_of_monitor(&mut self, news: MonitorNews) {
        match news {
            MonitorNews::Seen(monitor, from, lines) => {
                if self.is_monitor(monitor) {
                    self.push(monitor.client, |out| out.extend_from_slice(&lines));
                }
                let took = What::Monitor(MonitorNews::Took(monitor, lines.len()));
                let news = News { pool: 0, generation: 0, what: took };
                self.actions.push_back(Action::Tell(Audience::Worker(from), news));
            }
            MonitorNews::Took(monitor, bytes) => {
                if let Some(watch) = self.watches.iter_mut().find(|watch| watch.monitor == monitor)
                {
                    watch.ahead_bytes = watch.ahead_bytes.saturating_sub(bytes);
                }
            }
            MonitorNews::Gone(monitor) => self.watches.retain(|watch| watch.monitor != monitor),
            MonitorNews::TooSlow(monitor) => {
                if self.is_monitor(monitor) {
                    self.evict_unread(monitor.client, "it took the lines of MONITOR too slowly");
                }
            }
        }
    }

    /// Whether it has its `OK` and is one still.
    fn is_monitor(&self, monitor: Monitor) -> bool {
        self.clients.get(monitor.client).is_some_and(|client| client.identity.is_monitor)
    }
}

/// As `sdscatrepr` of Redis' sds.c writes it.
fn quote(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_as_a_server_quotes_them() {
        let mut out = Vec::new();
        quote(&mut out, b"a b\"\\\r\n\t\x07\x08\x00\xff\x7f");
        assert_eq!(out, br#""a b\"\\\r\n\t\a\b\x00\xff\x7f""#);
    }

    #[test]
    fn a_filter_wants_what_matches_both() {
        let filter = Filter {
            patterns: alloc::vec![b"user:*".to_vec(), b"[Gg][Ee][Tt]".to_vec()],
            clients: alloc::vec![7],
        };
        assert!(filter.wants(7, &[b"SET", b"user:1", b"x"]));
        assert!(filter.wants(7, &[b"get", b"k"]));
        assert!(!filter.wants(8, &[b"get", b"k"]));
        assert!(!filter.wants(7, &[b"SET", b"k", b"x"]));
        let secret = Filter { patterns: alloc::vec![b"pw*".to_vec()], clients: Vec::new() };
        assert!(!secret.wants(7, &[b"AUTH", b"pw1"]), "a pattern finds no password");
    }
}
