//! Conducts a load: starts its threads, keeps its phases, tells them, and adds up what was counted.
//!
//! ```text
//!   caller's thread:  find the endpoint ─► threads connect ─► gate ─► warm-up ─► MeasureBegins ─► … ─► MeasureEnds
//! ```
//!
//! The moments are taken just before they are told, so that whoever reads the CPU in the callback reads it equally
//! late at both ends.
//!
//! Invariant: when [`conduct`] returns, all its threads have ended and all its connections are closed.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::control::{Control, Tally};
use super::keys::Chooser;
use super::storm::Storm;
use super::worker::{Job, Worker};
use super::{Endpoint, Live, LoadError, Outcome, Phase, greet};
use crate::plan::{LoadPlan, Shape, Stop};

/// How often a waiting conductor looks whether it is cancelled.
const LOOK: Duration = Duration::from_millis(10);

/// Descriptors for everything but connections: standard streams, files, the epoll and timer of each thread.
const SPARE_FDS: u64 = 128;

/// An endpoint that says nothing at all for so long is given up. In an open loop that ends by time it is not: there the
/// silence is a result.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What a thread tells the conductor.
#[derive(Debug)]
enum News {
    /// Its clients stand.
    Connected,
    /// Its part is done, or the load is over.
    Done(Tally),
    /// It failed; why stands in `Control`.
    Failed,
}

/// Drives the endpoint with the built-in generator.
pub(super) fn conduct(
    endpoint: &Endpoint,
    plan: &LoadPlan,
    live: &Live,
    on: &mut dyn FnMut(Phase),
) -> Result<Outcome, LoadError> {
    conduct_with(endpoint, plan, live, on, SILENCE_MAX)
}

fn conduct_with(
    endpoint: &Endpoint,
    plan: &LoadPlan,
    live: &Live,
    on: &mut dyn FnMut(Phase),
    silence_max: Duration,
) -> Result<Outcome, LoadError> {
    check(plan)?;
    allow_descriptors(plan)?;
    let address = greet::find(endpoint, plan.resp)?;
    let value =
        Chooser::new(&plan.keys, plan.seed, 0, 1).map_err(LoadError::Plan)?.value(plan.value_bytes);
    let control = Control::new(plan.stop, live);
    // More threads than connections would have nothing to do.
    let threads = plan.threads.min(plan.clients);
    let (sender, news) = channel();
    thread::scope(|scope| {
        for thread in 0..threads {
            let teller = Teller { sender: sender.clone(), control: &control, is_told: false };
            let job = Job {
                endpoint,
                address: &address,
                plan,
                control: &control,
                thread,
                threads,
                value: &value,
                silence_max,
            };
            let named = thread::Builder::new().name(format!("load-{thread}"));
            if let Err(error) = named.spawn_scoped(scope, move || work(job, teller)) {
                control.fail(LoadError::Plan(format!("no thread could be started: {error}")));
            }
        }
        drop(sender);
        let (connected, done, tally) = (0, 0, Tally::new());
        let mut conductor =
            Conductor { plan, control: &control, news, threads, connected, done, tally };
        let result = conductor.phases(on);
        // Whatever happened: nobody may wait for a gate or for time that will not come, or the scope never ends.
        if let Err(error) = result {
            control.fail(error);
            return Err(control.take_failure().unwrap_or(LoadError::Cancelled));
        }
        result
    })
}

/// The caller's side of a running load.
#[derive(Debug)]
struct Conductor<'a> {
    plan: &'a LoadPlan,
    control: &'a Control<'a>,
    news: Receiver<News>,
    threads: u32,
    connected: u32,
    done: u32,
    tally: Tally,
}

impl Conductor<'_> {
    fn phases(&mut self, on: &mut dyn FnMut(Phase)) -> Result<Outcome, LoadError> {
        let control = self.control;
        self.wait(None, |conductor| conductor.connected == conductor.threads)?;
        let warmup_ns = self.plan.warmup_ms.saturating_mul(1_000_000);
        let begin = |on: &mut dyn FnMut(Phase)| {
            let now_ns = control.now_ns();
            control.begin(now_ns);
            on(Phase::MeasureBegins(control.instant(now_ns)));
            now_ns
        };
        // Without a warm-up it begins before the gate opens, so that every request counts.
        let begin_ns = if warmup_ns == 0 {
            let begin_ns = begin(on);
            control.open_gate();
            begin_ns
        } else {
            control.open_gate();
            let over = control.now_ns().saturating_add(warmup_ns);
            self.wait(Some(over), Self::is_done)?;
            begin(on)
        };
        let end_ns = match self.plan.stop {
            Stop::AfterMs(ms) => {
                self.wait(
                    Some(begin_ns.saturating_add(ms.saturating_mul(1_000_000))),
                    Self::is_done,
                )?;
                control.now_ns()
            }
            Stop::AfterRequests(_) => {
                self.wait(None, Self::is_done)?;
                self.tally.last_ns
            }
        };
        if self.is_done() && end_ns <= begin_ns {
            let warmup_ms = self.plan.warmup_ms;
            return Err(LoadError::Plan(format!(
                "all requests were answered within the warm-up of {warmup_ms} ms, so there is nothing to measure"
            )));
        }
        control.end(end_ns);
        on(Phase::MeasureEnds(control.instant(end_ns)));
        self.wait(None, Self::is_done)?;
        Ok(Outcome {
            seconds: (end_ns - begin_ns) as f64 / 1e9,
            requests: self.tally.requests,
            nulls: self.tally.nulls,
            unanswered: self.tally.unanswered,
            latency: self.tally.latency.latency(),
        })
    }

    fn is_done(&self) -> bool {
        self.done == self.threads
    }

    /// Takes news until `until` holds or the time has come; fails when a thread did, or when cancelled.
    fn wait(
        &mut self,
        deadline_ns: Option<u64>,
        until: impl Fn(&Self) -> bool,
    ) -> Result<(), LoadError> {
        while !until(self) {
            if self.control.is_cancelled() {
                return Err(LoadError::Cancelled);
            }
            let left = deadline_ns.map(|deadline| deadline.saturating_sub(self.control.now_ns()));
            if left == Some(0) {
                return Ok(());
            }
            let pause = left.map_or(LOOK, |left| LOOK.min(Duration::from_nanos(left)));
            match self.news.recv_timeout(pause) {
                Ok(News::Connected) => self.connected += 1,
                Ok(News::Done(tally)) => {
                    self.done += 1;
                    self.tally.add(&tally);
                }
                Ok(News::Failed) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.control.take_failure().unwrap_or(LoadError::Cancelled));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(())
    }
}

/// Tells the conductor of one thread's end, also when that is a panic.
#[derive(Debug)]
struct Teller<'a> {
    sender: Sender<News>,
    control: &'a Control<'a>,
    is_told: bool,
}

impl Teller<'_> {
    /// The conductor outlives all threads; when it has given up it does not listen, which is as well.
    fn tell(&self, news: News) {
        let _ = self.sender.send(news);
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.control.fail(LoadError::Plan("a thread of the load panicked".to_owned()));
            self.tell(News::Failed);
        }
    }
}

/// One thread, from its first connect to its end.
fn work(job: Job<'_>, mut teller: Teller<'_>) {
    let result = match job.plan.shape {
        Shape::Storm => Storm::prepare(job).and_then(|storm| {
            teller.tell(News::Connected);
            job.control.wait_gate();
            storm.run()
        }),
        _ => Worker::connect(job).and_then(|worker| {
            teller.tell(News::Connected);
            job.control.wait_gate();
            worker.run()
        }),
    };
    teller.is_told = true;
    match result {
        Ok(tally) => teller.tell(News::Done(tally)),
        Err(error) => {
            job.control.fail(error);
            teller.tell(News::Failed);
        }
    }
}

/// Refuses what no load can be. `scenario` says the same with line numbers; this guards other callers.
fn check(plan: &LoadPlan) -> Result<(), LoadError> {
    let refused = |what: &str| Err(LoadError::Plan(what.to_owned()));
    match plan.shape {
        Shape::Open { rate } if !(rate.is_finite() && rate > 0.0) => {
            return refused("the rate of an open load must be above 0");
        }
        Shape::SlowReader { bytes_per_s: 0 } => {
            return refused("a slow reader must read at least 1 byte per second");
        }
        _ => {}
    }
    if plan.clients == 0 || plan.pipeline == 0 || plan.threads == 0 || plan.keys.count == 0 {
        return refused("clients, pipeline, threads and keys must each be at least 1");
    }
    if !(0.0..=1.0).contains(&plan.keys.hit_ratio) {
        return refused("the hit ratio must be from 0 to 1");
    }
    if !matches!(plan.resp, 2 | 3) {
        return refused("the protocol must be 2 or 3");
    }
    Ok(())
}

/// Raises this process's limit of open files when the load needs it.
fn allow_descriptors(plan: &LoadPlan) -> Result<(), LoadError> {
    let wanted = u64::from(plan.clients) + 2 * u64::from(plan.threads) + SPARE_FDS;
    let limit = getrlimit(Resource::Nofile);
    // `None` is no limit.
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let is_enough = limit.maximum.is_none_or(|maximum| maximum >= wanted);
    if is_enough && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let allowed = limit.maximum.unwrap_or(0);
    Err(LoadError::Plan(format!(
        "{} connections need {wanted} open files, and this process may have {allowed} (see `ulimit -n`)",
        plan.clients
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Distribution, KeyPlan, Tool};
    use crate::template::Template;
    use std::net::TcpListener;
    use std::time::Instant;

    fn plan(shape: Shape, stop: Stop) -> LoadPlan {
        let distribution = Distribution::Uniform;
        LoadPlan {
            tool: Tool::Builtin,
            shape,
            mix: vec![(Template::parse("PING").expect("template"), 1)],
            clients: 3,
            pipeline: 2,
            threads: 2,
            keys: KeyPlan { count: 1, distribution, bytes_min: 16, bytes_max: 16, hit_ratio: 1.0 },
            value_bytes: 3,
            resp: 2,
            stop,
            warmup_ms: 0,
            seed: 1,
        }
    }

    #[test]
    fn an_endpoint_that_never_answers_is_given_up() {
        // The kernel takes the connections; nobody reads them.
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let url = format!("redis://{}", listener.local_addr().expect("address"));
        let endpoint = Endpoint { url: config::UpstreamUrl::parse(&url).expect("URL"), tls: None };
        let drive = |shape, stop| {
            let silence = Duration::from_millis(200);
            conduct_with(&endpoint, &plan(shape, stop), &Live::default(), &mut |_| {}, silence)
        };
        let (timed, open) = (Stop::AfterMs(60_000), Shape::Open { rate: 500.0 });
        for (shape, stop) in [
            (Shape::Closed, timed),
            (Shape::Storm, timed),
            (Shape::SlowReader { bytes_per_s: 1000 }, timed),
            (open, Stop::AfterRequests(1000)),
        ] {
            let began = Instant::now();
            let error = drive(shape, stop).expect_err("given up");
            assert!(
                matches!(&error, LoadError::Connection(text) if text.contains("stopped answering")),
                "{shape:?}: {error}"
            );
            assert!(began.elapsed() < Duration::from_secs(5), "{shape:?}");
        }
        // An open loop that ends by time says how long they waited instead.
        let outcome = drive(open, Stop::AfterMs(600)).expect("the silence is the result");
        assert_eq!(outcome.requests, 0);
        let due = (outcome.seconds * 500.0) as u64 + 1;
        assert!((due - 10..=due).contains(&outcome.unanswered), "{} of {due}", outcome.unanswered);
        assert!(outcome.latency.max_us > 500_000.0);
    }
}
