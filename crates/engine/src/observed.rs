//! Requests that somebody wants to be told of one by one: for the access log, for traces, and for the alarm of slow ones.
//!
//! ```text
//!   a reply is counted ─ waited_us < look_from_us? ─ yes, nearly always: while all is off that is the bound of the slow log
//!                                                  └ no ─▶ slow log; which of these replies fit ─▶ queue ─ end of turn ─▶ whoever drives the engine
//! ```
//! Conditions that hold for all requests of a run are looked at once for it, then one of so many that fit is taken. The request's key is
//! read from the connection's output, which is kept until the reply while anything is on; of a request that was streamed, or was sent before it
//! was on, there is none.
//!
//! One is told for each part of a request that was split between servers. Of a run one slow request is told, the
//! first, and no wait that the client asked for (BLPOP), as in the slow log. What was answered without a server, and what was lost with a connection, is
//! told as well, but for what stands inside a transaction: there EXEC is told.
//!
//! Not here: how it is written or sent (the caller), the counts of all requests (`stats::tally`).
//!
//! Invariant: at most [`OBSERVED_MAX`] wait at a time; what comes beyond is counted and told with the next one. Of the arguments only the first key
//! is told, as far as it is no secret.

use crate::bigkeys::{key_of, name_of};
use crate::client::Client;
use crate::command::{self, COUNT, CommandId};
use crate::engine::Engine;
use crate::glob;
use crate::hotkeys::gap;
use crate::ids::{ClientId, UpstreamId};
use crate::key_name::KeyName;
use crate::limits::{OBSERVED_ARGS, OBSERVED_ERROR_BYTES, OBSERVED_MAX};
use crate::redirect::find_request_bytes;
use crate::request::Step;
use crate::settings::Settings;
use crate::slowlog::SlowLog;
use crate::time::Time;
use crate::upstream::inflight::{Owner, Run};
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use resp::{Args, ReplyScanner, Scan};

/// Who wants to be told of what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// For the access log.
    pub access: Access,
    /// One request of so many becomes a span; 0: none.
    pub traces_sample: u32,
    /// A request that took so long is told as a slow one, in microseconds; 0: none is.
    pub slow_over_us: u64,
}

/// Which requests stand in the access log. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// One of so many that fit; 0: none, and nothing is looked at.
    pub sample: u32,
    /// Of these commands; empty: of all.
    pub commands: Vec<CommandId>,
    /// Whose first key begins so; empty: all.
    pub key_prefix: Vec<u8>,
    /// Of clients whose address or name matches this pattern (see [`glob`]); empty: of all.
    pub client: Vec<u8>,
    /// That took so long at least, in microseconds.
    pub slower_than_us: u64,
}

impl Options {
    /// Whether anybody wants anything.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.threshold_us() < u64::MAX
    }

    /// What took less long nobody wants to be told of.
    fn threshold_us(&self) -> u64 {
        let access_us = if self.access.sample > 0 { self.access.slower_than_us } else { u64::MAX };
        let traces_us = if self.traces_sample > 0 { 0 } else { u64::MAX };
        let slow_us = if self.slow_over_us > 0 { self.slow_over_us } else { u64::MAX };
        access_us.min(traces_us).min(slow_us)
    }
}

/// For whom a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The access log.
    pub access: bool,
    /// A trace.
    pub trace: bool,
    /// The alarm of slow requests.
    pub slow: bool,
}

impl Wanted {
    fn is_any(self) -> bool {
        self.access || self.trace || self.slow
    }
}

/// One request and its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// For whom.
    pub wanted: Wanted,
    /// When its reply came, in microseconds since 1970.
    pub unix_us: u64,
    /// The client's number.
    pub client: u64,
    /// Its address.
    pub addr: String,
    /// Its name; empty if it has none.
    pub name: Vec<u8>,
    /// Name of the command.
    pub command: String,
    /// The first key, cut and with escapes; empty if there is none, or it is not known.
    pub key: String,
    /// Label of the node that answered; empty if none did.
    pub node: String,
    /// How long the request waited here before it was given on; in microseconds.
    pub queued_us: u64,
    /// How long the reply took from then on; in microseconds.
    pub upstream_us: u64,
    /// Bytes of the reply.
    pub reply_bytes: u64,
    /// First word of an error reply; empty if it is none.
    pub error: String,
    /// So many before this one were wanted and are not told, as there were too many at a time.
    pub left_out: u64,
    /// Whose client it was; the caller enters it, where there are tenants.
    pub tenant: Option<Arc<str>>,
}

impl Observed {
    /// Of this client, at this time.
    fn of(client: &Client, unix_us: u64) -> Self {
        Self {
            wanted: Wanted::default(),
            unix_us,
            client: client.number,
            addr: client.identity.addr.clone(),
            name: client.identity.name.clone(),
            command: String::new(),
            key: String::new(),
            node: String::new(),
            queued_us: 0,
            upstream_us: 0,
            reply_bytes: 0,
            error: String::new(),
            left_out: 0,
            tenant: None,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Observer {
    options: Options,
    /// A request that waited so long is looked at; the end of time if nobody wants any.
    from_us: u64,
    /// The same of the slow log.
    slowlog_from_us: u64,
    /// The lower one of both, so that one comparison tells for all.
    pub(crate) look_from_us: u64,
    /// By [`CommandId::index`], and one for those that the table does not know; empty: all fit.
    commands: Vec<bool>,
    /// Requests that fit, up to the next one that is told.
    access_left: u32,
    traces_left: u32,
    /// Nothing but the access log is on, and all requests fit.
    takes_any: bool,
    random: u64,
    queue: VecDeque<Observed>,
    left_out: u64,
    /// What a client was just answered without a server, while anybody wants anything.
    own: Option<Own>,
}

/// A reply that was made here.
#[derive(Debug)]
pub(crate) struct Own {
    client: ClientId,
    bytes: u64,
    error: String,
}

/// A request that all workers were asked about, until they have answered.
#[derive(Debug)]
pub(crate) struct Asking {
    began: Time,
    command: Option<CommandId>,
    name: String,
}

impl Observer {
    /// By these settings; `seed` feeds the gaps between samples.
    pub(crate) fn of(settings: &Settings, seed: u64) -> Self {
        Self::new(&settings.observed, SlowLog::from_us_of(&settings.slowlog), seed)
    }

    /// `seed` feeds the gaps between samples.
    fn new(options: &Options, slowlog_from_us: u64, seed: u64) -> Self {
        let mut observer = Self {
            options: Options::default(),
            from_us: u64::MAX,
            slowlog_from_us,
            look_from_us: slowlog_from_us,
            commands: Vec::new(),
            access_left: 0,
            traces_left: 0,
            takes_any: false,
            random: seed | 1,
            queue: VecDeque::new(),
            left_out: 0,
            own: None,
        };
        observer.change(options);
        observer
    }

    /// Requests are slow from here on, for the slow log.
    pub(crate) fn set_slowlog(&mut self, from_us: u64) {
        self.slowlog_from_us = from_us;
        self.look_from_us = from_us.min(self.from_us);
    }

    /// Others are wanted from now on.
    pub(crate) fn change(&mut self, options: &Options) {
        self.options = options.clone();
        self.from_us = options.threshold_us();
        self.look_from_us = self.from_us.min(self.slowlog_from_us);
        self.commands.clear();
        if !options.access.commands.is_empty() {
            self.commands.resize(COUNT + 1, false);
            options.access.commands.iter().for_each(|id| self.commands[id.index()] = true);
        }
        let every = Access { sample: options.access.sample, ..Access::default() };
        self.takes_any = every.sample > 0
            && *options == Options { access: every, traces_sample: 0, slow_over_us: 0 };
        self.access_left = gap(&mut self.random, options.access.sample.max(1));
        self.traces_left = gap(&mut self.random, options.traces_sample.max(1));
    }

    /// Whether all conditions hold that are the same for a whole run.
    fn fits_access(
        &self,
        command: Option<CommandId>,
        waited_us: u64,
        addr: &str,
        name: &[u8],
    ) -> bool {
        let access = &self.options.access;
        let is_meant = |text: &[u8]| glob::means(&access.client, text);
        access.sample > 0
            && waited_us >= access.slower_than_us
            && self.commands.get(command.map_or(COUNT, CommandId::index)).copied().unwrap_or(true)
            && (access.client.is_empty() || is_meant(addr.as_bytes()) || is_meant(name))
    }

    /// One more request that fits; whether it is one that is told.
    fn takes_access(&mut self) -> bool {
        takes(&mut self.access_left, &mut self.random, self.options.access.sample)
    }

    fn takes_trace(&mut self) -> bool {
        takes(&mut self.traces_left, &mut self.random, self.options.traces_sample)
    }

    /// The same, where no condition must be looked at to know it: whoever takes one of a thousand of all passes nearly all of them over here.
    #[inline]
    pub(crate) fn skips_unseen(&mut self, count: u32) -> bool {
        let skips = self.takes_any && self.access_left > count;
        self.access_left -= if skips { count } else { 0 };
        skips
    }

    /// Passes over `count` requests at once where none of them is told; whether it did. `fits_access`: as far as the whole run tells.
    fn skips(&mut self, count: u32, fits_access: bool) -> bool {
        let has_traces = self.options.traces_sample > 0;
        // Which ones fit, only their keys tell.
        let by_key = fits_access && !self.options.access.key_prefix.is_empty();
        let is_due =
            (fits_access && self.access_left <= count) || (has_traces && self.traces_left <= count);
        if by_key || is_due {
            return false;
        }
        self.access_left -= if fits_access { count } else { 0 };
        self.traces_left -= if has_traces { count } else { 0 };
        true
    }

    fn push(&mut self, observed: Observed) {
        self.queue
            .push_back(Observed { left_out: core::mem::take(&mut self.left_out), ..observed });
    }

    fn is_full(&self) -> bool {
        self.queue.len() >= OBSERVED_MAX
    }

    /// Whether anybody wants anything.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.from_us < u64::MAX
    }

    /// A client was answered without a server.
    #[inline]
    pub(crate) fn note_own(&mut self, client: ClientId, reply: &[u8]) {
        if self.is_on() {
            let (bytes, error) = (reply.len() as u64, error_of(reply));
            self.own = Some(Own { client, bytes, error });
        }
    }
}

/// Counts down to the next sample.
fn takes(left: &mut u32, random: &mut u64, sample: u32) -> bool {
    *left -= 1;
    if *left > 0 {
        return false;
    }
    *left = gap(random, sample);
    true
}

/// The next replies of one run, as they lie in the input.
pub(crate) struct Replies<'a> {
    /// So many came.
    pub(crate) count: u32,
    /// Bytes of the first that were given on before.
    pub(crate) forwarded: u64,
    /// Those that were not looked at.
    pub(crate) rest: &'a [u8],
}

impl<'a> Replies<'a> {
    /// The bytes of the next one that are here, and how many it has in all.
    fn next(&mut self) -> (&'a [u8], u64) {
        let before = core::mem::take(&mut self.forwarded);
        // Of one that was given on in parts only the end is here, and it is alone.
        let len = match before {
            0 => match ReplyScanner::default().scan(self.rest) {
                Ok(Scan::Complete { consumed, .. }) => consumed,
                _ => self.rest.len(),
            },
            _ => self.rest.len(),
        };
        let (reply, rest) = self.rest.split_at(len);
        self.rest = rest;
        (if before == 0 { reply } else { &[] }, before + len as u64)
    }
}

/// The first word of an error reply.
fn error_of(reply: &[u8]) -> String {
    let line = match reply {
        [b'-', line @ ..] => line,
        // RESP3 has a long form: a length, and then the text.
        [b'!', long @ ..] => long.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default(),
        _ => return String::new(),
    };
    let word = line.split(|byte| b" \r\n".contains(byte)).next().unwrap_or_default();
    word[..word.len().min(OBSERVED_ERROR_BYTES)].escape_ascii().to_string()
}

impl Engine {
    /// The next request that somebody wants to be told of, oldest first. To be taken at the end of each turn.
    #[must_use]
    #[inline]
    pub fn poll_observed(&mut self) -> Option<Observed> {
        self.observer.queue.pop_front()
    }

    /// These replies of this run took so long that the slow log or somebody else may want to know.
    #[cold]
    pub(crate) fn look_closer(
        &mut self,
        now: Time,
        id: UpstreamId,
        run: &Run,
        replies: Replies<'_>,
    ) {
        let waited_us = now.since(run.sent_at);
        if waited_us >= self.slowlog.from_us {
            self.note_slow(now, id, run, replies.count);
        }
        if waited_us >= self.observer.from_us {
            self.observe(now, id, run, replies);
        }
    }

    fn observe(&mut self, now: Time, id: UpstreamId, run: &Run, mut replies: Replies<'_>) {
        let Self { upstreams, clients, merges, observer, learned, nodes, settings, stats, .. } =
            self;
        let Some(upstream) = upstreams.get(id) else { return };
        let client = match run.owner {
            Owner::Client { id, .. } => Some(id),
            Owner::Part { merge, .. } => merges.get(merge).map(|merge| merge.client),
            Owner::Own(_) => None,
        };
        let Some(client) = client.and_then(|id| clients.get(id)) else { return };
        let identity = &client.identity;
        let upstream_us = now.since(run.sent_at);
        let fits = observer.fits_access(run.command, upstream_us, &identity.addr, &identity.name);
        let slow_us = observer.options.slow_over_us;
        let is_slow = slow_us > 0 && upstream_us >= slow_us && upstream.no_reply_before.is_none();
        if !is_slow && observer.skips(replies.count, fits) {
            return;
        }
        let prefix = core::mem::take(&mut observer.options.access.key_prefix);
        for nth in 0..replies.count {
            let (reply, reply_bytes) = replies.next();
            let request = |args_max: usize| -> Vec<&[u8]> {
                let bytes = find_request_bytes(upstream, run, run.done + nth);
                bytes
                    .map(|(_, bytes)| Args::new(bytes).take(args_max).collect())
                    .unwrap_or_default()
            };
            let key = |args: &[&[u8]]| KeyName::new(key_of(run.command, args, learned.as_ref()));
            let begins = || {
                key_of(run.command, &request(OBSERVED_ARGS), learned.as_ref()).starts_with(&prefix)
            };
            let is_meant = fits && (prefix.is_empty() || begins());
            let wanted = Wanted {
                access: is_meant && observer.takes_access(),
                trace: observer.options.traces_sample > 0 && observer.takes_trace(),
                slow: is_slow && nth == 0,
            };
            if !wanted.is_any() {
                continue;
            }
            if observer.is_full() {
                observer.left_out += 1;
                stats.observed_left_out += 1;
                continue;
            }
            let args = request(OBSERVED_ARGS);
            observer.push(Observed {
                wanted,
                command: name_of(run.command, &args),
                key: key(&args).text(),
                node: nodes
                    .get(upstream.key.node)
                    .map(|node| node.label.clone())
                    .unwrap_or_default(),
                queued_us: identity.late.waited_us(run.sent_at),
                upstream_us,
                reply_bytes,
                error: error_of(reply),
                ..Observed::of(client, now.0 + settings.unix_ahead_us)
            });
        }
        observer.options.access.key_prefix = prefix;
    }

    /// These requests were lost with their connection; `error` is what their clients get.
    pub(crate) fn observe_lost(&mut self, now: Time, id: UpstreamId, runs: &[Run], error: &[u8]) {
        if !self.observer.is_on() {
            return;
        }
        for run in runs {
            let errors = error.repeat(run.count as usize);
            self.observe(now, id, run, Replies { count: run.count, forwarded: 0, rest: &errors });
        }
    }

    /// Gives a request on to whoever answers it, and tells of it if that was the proxy.
    pub(crate) fn dispatch_observed(
        &mut self,
        now: Time,
        id: ClientId,
        frame: &[u8],
        args: &[&[u8]],
    ) -> Step {
        self.observing(now, id, args, |engine| engine.dispatch_shown(now, id, frame, args))
    }

    /// The same, whatever is done with the request.
    pub(crate) fn observing(
        &mut self,
        now: Time,
        id: ClientId,
        args: &[&[u8]],
        process: impl FnOnce(&mut Self) -> Step,
    ) -> Step {
        if !self.observer.is_on() {
            return process(self);
        }
        let next_ticket = self.next_ticket;
        self.observer.own = None;
        let step = process(self);
        let own = self.observer.own.take().filter(|own| own.client == id && step == Step::Done);
        let command = command::lookup(args[0]);
        if let Some(own) = own {
            let name = name_of(command, args);
            self.observe_own(now, now, own, (command, name), args);
        } else if let Some(asked) = self.asked.newest_since(next_ticket) {
            let name = name_of(command, args);
            asked.observed = Some(Asking { began: now, command, name });
        }
        step
    }

    /// What all workers were asked about is answered.
    pub(crate) fn observe_asked(&mut self, now: Time, id: ClientId, asking: Asking, reply: &[u8]) {
        let own = Own { client: id, bytes: reply.len() as u64, error: error_of(reply) };
        self.observe_own(now, asking.began, own, (asking.command, asking.name), &[]);
    }

    fn observe_own(
        &mut self,
        now: Time,
        began: Time,
        own: Own,
        (command, name): (Option<CommandId>, String),
        args: &[&[u8]],
    ) {
        let Self { clients, observer, learned, settings, .. } = self;
        let Some(client) = clients.get(own.client) else { return };
        let identity = &client.identity;
        let queued_us = identity.late.waited_us(began) + now.since(began);
        let key = key_of(command, args, learned.as_ref());
        let fits = observer.fits_access(command, queued_us, &identity.addr, &identity.name)
            && key.starts_with(&observer.options.access.key_prefix);
        let wanted = Wanted {
            access: fits && observer.takes_access(),
            trace: observer.options.traces_sample > 0 && observer.takes_trace(),
            slow: false,
        };
        if !wanted.is_any() {
            return;
        }
        if observer.is_full() {
            observer.left_out += 1;
            return;
        }
        observer.push(Observed {
            wanted,
            command: name,
            key: KeyName::new(key).text(),
            queued_us,
            reply_bytes: own.bytes,
            error: own.error,
            ..Observed::of(client, now.0 + settings.unix_ahead_us)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::ids::{EXEC, GET};

    fn access(sample: u32) -> Access {
        Access { sample, ..Access::default() }
    }

    #[test]
    fn nothing_is_looked_at_while_nobody_wants_any() {
        assert!(!Options::default().is_on());
        let look_from_us = |options: &Options| Observer::new(options, 10_000, 1).look_from_us;
        assert_eq!(look_from_us(&Options::default()), 10_000);
        let slow = Options { slow_over_us: 7, ..Options::default() };
        assert_eq!(look_from_us(&slow), 7);
        let slower = Access { slower_than_us: 5, ..access(1) };
        let both = Options { access: slower, ..slow.clone() };
        assert_eq!(look_from_us(&both), 5);
        assert_eq!(look_from_us(&Options { traces_sample: 9, ..both }), 0);
        let off = Access { slower_than_us: 0, ..access(0) };
        let mut off = Observer::new(&Options { access: off, ..slow }, 10_000, 1);
        assert_eq!(off.look_from_us, 7);
        off.set_slowlog(3);
        assert_eq!(off.look_from_us, 3);
        off.change(&Options::default());
        assert_eq!((off.look_from_us, off.from_us), (3, u64::MAX));
    }

    #[test]
    fn all_conditions_must_hold() {
        let access = Access {
            commands: alloc::vec![GET],
            client: b"10.0.*".to_vec(),
            slower_than_us: 10,
            ..access(1)
        };
        let observer = Observer::new(&Options { access, ..Options::default() }, 0, 1);
        let fits = |command, waited_us, addr: &str, name: &str| {
            observer.fits_access(command, waited_us, addr, name.as_bytes())
        };
        assert!(fits(Some(GET), 10, "10.0.0.1:5", ""));
        assert!(fits(Some(GET), 10, "1.1.1.1:5", "10.0.me"), "the name will do");
        assert!(!fits(Some(GET), 9, "10.0.0.1:5", ""));
        assert!(!fits(Some(EXEC), 10, "10.0.0.1:5", ""));
        assert!(!fits(None, 10, "10.0.0.1:5", ""));
        assert!(!fits(Some(GET), 10, "1.1.1.1:5", ""));
    }

    #[test]
    fn one_of_so_many_is_taken() {
        for (sample, low, high) in [(1, 10_000, 10_000), (10, 900, 1_100), (100, 80, 120)] {
            let options = Options { access: access(sample), ..Options::default() };
            let mut observer = Observer::new(&options, 0, 3);
            let taken = (0..10_000).filter(|_| observer.takes_access()).count();
            assert!((low..=high).contains(&taken), "{sample}: {taken}");
        }
    }

    #[test]
    fn runs_that_are_passed_over_take_nothing_from_the_samples() {
        let options = Options { access: access(50), traces_sample: 70, ..Options::default() };
        let taken = |run: u32, options: &Options| {
            let mut observer = Observer::new(options, 0, 3);
            let mut taken = Vec::new();
            for first in (0..12_000).step_by(run as usize) {
                if observer.skips_unseen(run) || observer.skips(run, true) {
                    continue;
                }
                for at in first..first + run {
                    let access = observer.takes_access();
                    let trace = options.traces_sample > 0 && observer.takes_trace();
                    taken.push((at, access, trace));
                }
            }
            taken.retain(|(_, access, trace)| *access || *trace);
            taken.into_iter().map(|(at, ..)| at).collect::<Vec<u32>>()
        };
        let alone = Options { access: access(50), ..Options::default() };
        for (options, takes_any) in [(options, false), (alone, true)] {
            let mut observer = Observer::new(&options, 0, 3);
            assert_eq!(observer.takes_any, takes_any);
            let traces = options.traces_sample > 0;
            let mut told = || observer.takes_access() | (traces && observer.takes_trace());
            let each: Vec<u32> = (0..12_000).filter(|_| told()).collect();
            assert!(each.len() > 200, "{}", each.len());
            for run in [1, 20, 60] {
                assert_eq!(taken(run, &options), each, "{run}");
            }
        }
        let prefix = Access { key_prefix: b"a".to_vec(), ..access(50) };
        let mut observer = Observer::new(&Options { access: prefix, ..Options::default() }, 0, 3);
        assert!(!observer.skips(1, true), "its key tells");
        assert!(observer.skips(1_000, false));
    }

    #[test]
    fn errors_are_told_by_their_first_word() {
        for (reply, word) in [
            (&b"-ERR no such\r\n"[..], "ERR"),
            (b"-MOVED 1 a:1\r\n", "MOVED"),
            (b"!12\r\nSYNTAX wrong\r\n", "SYNTAX"),
            (b"-\r\n", ""),
            (b"$2\r\n-a\r\n", ""),
        ] {
            assert_eq!(error_of(reply), word);
        }
        let long = [b"-".as_slice(), &[b'x'; 100], b"\r\n"].concat();
        assert_eq!(error_of(&long).len(), OBSERVED_ERROR_BYTES);
    }

    #[test]
    fn each_reply_has_its_bytes() {
        let mut replies = Replies { count: 3, forwarded: 0, rest: b"+OK\r\n$3\r\nabc\r\n:1\r\n" };
        let sizes: Vec<u64> = (0..3).map(|_| replies.next().1).collect();
        assert_eq!(sizes, [5, 9, 4]);
        let mut end = Replies { count: 1, forwarded: 1_000, rest: b"xx\r\n" };
        assert_eq!(end.next(), (&[][..], 1_004));
    }
}
