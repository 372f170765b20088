//! One visit: the load on one thread, its watcher on another, and what is asked beside it.
//!
//! ```text
//!   driver thread (bound to the load's cores; its threads and tools inherit)      this thread
//!     load::drive ── Started(pid) ──► OwnAccount                                   once a second: read /proc ──► Tick
//!                 ── MeasureBegins ─► read /proc ──┐ Told                          interrupted? a process gone?
//!                 ── MeasureEnds ───► read /proc ──┴──────────────────────────►      ──► Live::cancel
//!   idle clients: connected before the load, looked at after it
//!   beside threads: one request every so often ─────── a failure ─────────────►
//! ```
//!
//! The counts at the begin and the end of the measurement are read on the thread that drives, in the moment that the load
//! says so; the watcher only feeds the timeline. So the figures of a visit do not hang on when the watcher woke up.
//!
//! Invariant: a `record::Visit` is made only when the load ended well, answered at least one request, and every process
//! was there from begin to end.

use super::page;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::account::machine::MachineReading;
use crate::account::{Account, OwnAccount, Reading, cores, own::OwnReading};
use crate::load::{self, Endpoint, IdleClients, Live, LoadError, Outcome, Phase};
use crate::plan::{Beside, LoadPlan, Question, Tool};
use crate::record::{self, Tick, Usage};
use crate::target::pin;

/// What is needed for one visit.
pub(super) struct Visit<'a> {
    /// Index of the test.
    pub(super) test: usize,
    pub(super) target: &'a str,
    /// From 1.
    pub(super) round: u32,
    pub(super) endpoint: &'a Endpoint,
    pub(super) load: &'a LoadPlan,
    pub(super) beside: &'a [Beside],
    pub(super) admin: Option<&'a Path>,
    /// Clients that stay connected and ask nothing.
    pub(super) idle: u32,
    /// Whether the processes were started by us, and may have their peak of memory begun anew.
    pub(super) is_ours: bool,
    pub(super) proxy: Account,
    pub(super) server: Account,
    pub(super) load_cores: &'a [u32],
    /// Of the run.
    pub(super) began: Instant,
    pub(super) interrupted: &'a AtomicBool,
}

/// What a visit brought.
pub(super) struct Visited {
    pub(super) record: record::Visit,
    /// Requests that were due and not answered; they are in the latency, but not in the requests.
    pub(super) unanswered: u64,
}

/// What everybody had used at one moment.
#[derive(Clone, Debug)]
struct Readings {
    at: Instant,
    proxy: Reading,
    server: Reading,
    load: OwnReading,
    machine: MachineReading,
}

/// What other threads of a visit tell the watcher.
enum Told {
    Begins(Readings),
    Ends(Readings),
    Done(Result<Outcome, LoadError>),
}

/// What the threads of a visit share.
#[derive(Default)]
struct Shared {
    live: Live,
    own: OwnAccount,
    /// The first thing that went wrong outside of the load, which is cancelled then.
    failure: Mutex<Option<String>>,
}

/// What a visit has brought so far.
#[derive(Default)]
struct Gathered {
    begins: Option<Readings>,
    ends: Option<Readings>,
    /// Greatest memory of proxy, server and load that any reading saw.
    rss_bytes_max: [u64; 3],
}

impl Visit<'_> {
    /// Does it. `on_tick` is called about once a second, and once at the end.
    ///
    /// # Errors
    /// In words: the load failed, a process is gone, a request beside failed, it was cancelled.
    pub(super) fn carry_out(&self, on_tick: &mut dyn FnMut(Tick)) -> Result<Visited, String> {
        let shared = Shared::default();
        let (mut idle, idle_record) = self.connect_idle()?;
        let has_peaks = self.is_ours && self.proxy.forget_peak() && self.server.forget_peak();
        let begin = self.read(&shared.own)?;
        let (gathered, outcome) = thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let shared = &shared;
            // Dropping a sender ends the thread that waits at the other end.
            let mut besides = Vec::new();
            for beside in self.beside {
                let (stop, stopped) = mpsc::channel::<()>();
                besides.push(stop);
                scope.spawn(move || self.ask_beside(beside, shared, &stopped));
            }
            scope.spawn(move || self.drive(shared, &tell));
            let watched = self.watch(shared, begin.clone(), &told, on_tick);
            drop(besides);
            watched
        });
        // What we saw ourselves is the cause; that the load was cancelled is only the consequence.
        if let Some(failure) = shared.failure.into_inner().unwrap_or_else(|e| e.into_inner()) {
            return Err(failure);
        }
        if let Some(idle) = &mut idle {
            idle.check().map_err(|error| error.to_string())?;
        }
        let mut visited = self.record(&begin, gathered, outcome)?;
        visited.record.idle = idle_record;
        if has_peaks {
            let Visited { record: record::Visit { proxy, server, .. }, .. } = &mut visited;
            for (usage, account) in [(proxy, &self.proxy), (server, &self.server)] {
                usage.rss_bytes_max = usage.rss_bytes_max.max(account.peak_bytes());
            }
        }
        Ok(visited)
    }

    /// Connects the idle clients, and looks what they cost the proxy.
    fn connect_idle(&self) -> Result<(Option<IdleClients>, Option<record::Idle>), String> {
        if self.idle == 0 {
            return Ok((None, None));
        }
        let rss_before_bytes = self.proxy.rss_bytes();
        let clients =
            IdleClients::connect(self.endpoint, self.load.resp, self.idle, self.interrupted);
        let clients = clients.map_err(|error| format!("idle clients: {error}"))?;
        let rss_bytes = self.proxy.rss_bytes();
        let record = record::Idle { clients: self.idle, rss_before_bytes, rss_bytes };
        Ok((Some(clients), Some(record)))
    }

    /// The body of the driving thread.
    fn drive(&self, shared: &Shared, tell: &Sender<Told>) {
        // The watcher holds the other end until this thread is done, so a message is never lost.
        let send = |told| drop(tell.send(told));
        if let Err(why) = pin::this_thread(self.load_cores) {
            shared.fail(why);
            return;
        }
        let mut on = |phase| match phase {
            Phase::Started(pid) => shared.own.tool_started(pid),
            Phase::MeasureBegins(_) | Phase::MeasureEnds(_) => match self.read(&shared.own) {
                Ok(readings) if matches!(phase, Phase::MeasureBegins(_)) => {
                    send(Told::Begins(readings));
                }
                Ok(readings) => send(Told::Ends(readings)),
                Err(why) => shared.fail(why),
            },
        };
        let outcome = load::drive(self.endpoint, self.load, &shared.live, &mut on);
        send(Told::Done(outcome));
    }

    /// The body of a thread that sends one request again and again.
    fn ask_beside(&self, beside: &Beside, shared: &Shared, stopped: &Receiver<()>) {
        let every = Duration::from_millis(beside.every_ms.max(1));
        while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            let asked = match &beside.question {
                Question::Command(command) => {
                    load::ask(self.endpoint, command).map(drop).map_err(|error| error.to_string())
                }
                Question::Page(path) => match self.admin {
                    Some(socket) => page::get(socket, path).map_err(|error| error.to_string()),
                    None => Err("there is no admin listener".to_owned()),
                },
            };
            if let Err(error) = asked {
                shared.fail(format!("`{}` beside the load: {error}", beside.question));
                return;
            }
        }
    }

    /// Watches until the load is done: ticks, interrupts, processes that are gone. `None` as outcome: the driver gave up.
    fn watch(
        &self,
        shared: &Shared,
        begin: Readings,
        told: &Receiver<Told>,
        on_tick: &mut dyn FnMut(Tick),
    ) -> (Gathered, Option<Result<Outcome, LoadError>>) {
        let mut gathered = Gathered::default();
        let mut clock = Clock::new(begin);
        loop {
            match told.recv_timeout(clock.wait()) {
                Ok(Told::Begins(readings)) => gathered.begins = Some(gathered.seen(readings)),
                Ok(Told::Ends(readings)) => gathered.ends = Some(gathered.seen(readings)),
                Ok(Told::Done(outcome)) => {
                    self.last_tick(shared, &mut clock, on_tick);
                    return (gathered, Some(outcome));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return (gathered, None),
            }
            if self.interrupted.load(Ordering::Relaxed) {
                shared.live.cancel.store(true, Ordering::Relaxed);
            }
            if clock.due() {
                match self.read(&shared.own) {
                    Ok(readings) => {
                        on_tick(self.tick(shared, &mut clock, gathered.seen(readings)));
                    }
                    Err(why) => shared.fail(why),
                }
            }
        }
    }

    /// What is left of the last second, unless it is too short to say something.
    fn last_tick(&self, shared: &Shared, clock: &mut Clock, on_tick: &mut dyn FnMut(Tick)) {
        if clock.begun() >= LAST_TICK_MIN {
            // The visit's own readings say whether a process is gone; here one tick less is no loss.
            if let Ok(readings) = self.read(&shared.own) {
                on_tick(self.tick(shared, clock, readings));
            }
        }
    }

    fn tick(&self, shared: &Shared, clock: &mut Clock, now: Readings) -> Tick {
        let replies = shared.live.replies.load(Ordering::Relaxed);
        let seconds = now.at.duration_since(clock.last.at).as_secs_f64();
        let rate = (replies - clock.replies) as f64 / seconds;
        let then = &clock.last;
        let tick = Tick {
            at_s: now.at.duration_since(self.began).as_secs_f64(),
            test: self.test,
            target: self.target.to_owned(),
            requests_per_s: (self.load.tool == Tool::Builtin).then_some(rate),
            proxy: now.proxy.cores_since(&then.proxy, seconds),
            server: now.server.cores_since(&then.server, seconds),
            load: cores(&now.load.since(&then.load), seconds),
        };
        clock.ticked(now, replies);
        tick
    }

    fn read(&self, own: &OwnAccount) -> Result<Readings, String> {
        Ok(Readings {
            at: Instant::now(),
            proxy: self.proxy.read()?,
            server: self.server.read()?,
            load: own.read()?,
            machine: MachineReading::now(),
        })
    }

    fn record(
        &self,
        begin: &Readings,
        gathered: Gathered,
        outcome: Option<Result<Outcome, LoadError>>,
    ) -> Result<Visited, String> {
        let outcome = match outcome {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err("the load gave up without a word".to_owned()),
        };
        let Gathered { begins: Some(begins), ends: Some(ends), rss_bytes_max } = gathered else {
            return Err("the load did not say when it began and ended to measure".to_owned());
        };
        if outcome.requests == 0 {
            return Err("not one request was answered in the time that was measured".to_owned());
        }
        let mut usages = ends.since(&begins);
        for (usage, rss) in usages.iter_mut().zip(rss_bytes_max) {
            usage.rss_bytes_max = usage.rss_bytes_max.max(rss);
        }
        let [proxy, server, load] = usages;
        let wall = ends.at.duration_since(begins.at).as_secs_f64();
        let strangers = ends.machine.busy_s_since(&begins.machine)
            - usages.iter().map(|usage| usage.cpu_s).sum::<f64>();
        let record = record::Visit {
            target: self.target.to_owned(),
            round: self.round,
            began_s: begin.at.duration_since(self.began).as_secs_f64(),
            seconds: outcome.seconds,
            requests: outcome.requests,
            nulls: outcome.nulls,
            latency: outcome.latency,
            proxy,
            server,
            load,
            idle: None,
            load_threads: self.load.threads,
            other_cores: per(strangers.max(0.0), wall),
            stolen_cores: per(ends.machine.stolen_s_since(&begins.machine), wall),
        };
        Ok(Visited { record, unanswered: outcome.unanswered })
    }
}

fn per(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

impl Readings {
    /// Of proxy, server and load.
    fn since(&self, earlier: &Self) -> [Usage; 3] {
        [
            self.proxy.since(&earlier.proxy),
            self.server.since(&earlier.server),
            self.load.since(&earlier.load),
        ]
    }
}

impl Shared {
    /// Keeps the first cause and cancels the load.
    fn fail(&self, why: String) {
        let mut failure = self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        failure.get_or_insert(why);
        self.live.cancel.store(true, Ordering::Relaxed);
    }
}

impl Gathered {
    fn seen(&mut self, readings: Readings) -> Readings {
        let now =
            [readings.proxy.rss_bytes(), readings.server.rss_bytes(), readings.load.rss_bytes()];
        for (max, rss) in self.rss_bytes_max.iter_mut().zip(now) {
            *max = (*max).max(rss);
        }
        readings
    }
}

/// When the next tick is due, and what the last one saw.
struct Clock {
    last: Readings,
    replies: u64,
    next: Instant,
}

impl Clock {
    fn new(begin: Readings) -> Self {
        let next = begin.at + TICK;
        Self { last: begin, replies: 0, next }
    }

    /// How long the watcher may sleep.
    fn wait(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now()).min(WATCH_LATENCY)
    }

    fn due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Time since the last tick.
    fn begun(&self) -> Duration {
        self.last.at.elapsed()
    }

    /// The next tick is a whole second after this one was due, so that ticks do not drift; those that a stalled machine
    /// missed are left out.
    fn ticked(&mut self, now: Readings, replies: u64) {
        while self.next <= now.at {
            self.next += TICK;
        }
        self.last = now;
        self.replies = replies;
    }
}

/// Between two ticks.
const TICK: Duration = Duration::from_secs(1);
/// A span at the end that is shorter makes no tick: clock ticks of 10 ms would make a ragged picture of it.
const LAST_TICK_MIN: Duration = Duration::from_millis(200);
/// How late the watcher may see an interrupt.
const WATCH_LATENCY: Duration = Duration::from_millis(50);
