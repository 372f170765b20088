//! Resolves the names of servers for workers.
//!
//! On each connect anew, and again every while for those that are connected, so that a server which moved to another address is found; off
//! the workers' threads, because the system's resolver blocks: for ten seconds and more where a name server is silent. Several names are resolved at a
//! time, each on a thread of its own. Kept: nothing; the system knows how long an answer holds.
//!
//! ```text
//!   question ─▶ under way or in line already? ─ yes ─▶ joins those that wait for the name
//!                  └ no ─▶ [line of its tenant] ─▶ a thread takes the first of each line in turn:
//!                             of a tenant one at any time, and more, at most `NAMES_OF_TENANT_MAX`, while all tenants have `NAMES_MAX` or fewer;
//!                             of these at most `SLOW_OF_TENANT_MAX` names with a slow last lookup
//! ```
//! The servers of a tenant may name thousands of servers that do not exist, so each tenant has a line. Unanswered lookups delay no name of another tenant,
//! and from the second lookup of a name on no other name of the tenant.
//!
//! Invariant: everyone that asked gets an answer, one for all its questions that came while the name was under way; there are at
//! most `NAMES_MAX` threads and one for each tenant.

use crate::worker::mailbox::{Asker, Fleet, Line, Message, Name, Resolve};
use netio::Address;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Names that are resolved at once, beside the first one of each tenant.
const NAMES_MAX: usize = 16;

/// Names of one tenant that are resolved at once.
const NAMES_OF_TENANT_MAX: usize = 6;

/// Names of one tenant with a slow last lookup (`SLOW`) that are resolved at once.
const SLOW_OF_TENANT_MAX: usize = 3;

/// Lookups of this time or longer are slow: a name server answers within milliseconds, or not at all.
const SLOW: Duration = Duration::from_secs(1);

/// Bound on the names that are remembered as slow. respool forgets all of them when it is reached.
const SLOW_MAX: usize = 4_096;

/// What a name became: all its addresses, at least one.
type Answer = Result<Vec<Address>, String>;

/// Answers until all askers are gone: the fleet holds the asking end, so it is held weakly here.
pub fn run<S: Send + 'static>(questions: &Receiver<Resolve>, fleet: &Weak<Fleet<S>>) {
    let fleet = fleet.clone();
    let names = Arc::new(Names {
        lines: Mutex::default(),
        turn: AtomicUsize::new(0),
        lookup: resolve,
        deliver: move |name: &Name,
                       Asker { worker, upstream }: Asker,
                       answer: &Answer,
                       turn: usize| {
            let Some(fleet) = fleet.upgrade() else { return };
            let message = match upstream {
                Some(upstream) => {
                    let one = answer.as_ref().map(|all| one_of(all, turn));
                    Message::Resolved(upstream, one.map_err(Clone::clone))
                }
                None => Message::Renewed(name.clone(), answer.clone().ok()),
            };
            fleet.send(worker, message);
        },
    });
    while let Ok(question) = questions.recv() {
        names.ask(question);
    }
}

/// Names that are to be resolved.
#[derive(Default)]
struct Lines {
    /// Those that wait for each name.
    asked: HashMap<Name, Asked>,
    /// Names that no thread has taken yet; the first line is the next one that a thread looks at.
    waiting: VecDeque<(Line, VecDeque<Name>)>,
    /// How many names of each are with a thread.
    under_way: HashMap<Line, UnderWay>,
    /// Names with a slow last lookup.
    slow: HashSet<Name>,
}

#[derive(Default)]
struct Asked {
    askers: Vec<Asker>,
    is_under_way: bool,
}

/// Names of one line that are with a thread.
#[derive(Clone, Copy, Default)]
struct UnderWay {
    all: usize,
    slow: usize,
}

/// A name for a thread.
#[derive(Clone)]
struct Task {
    line: Line,
    name: Name,
    /// The name counts as slow for its line until the lookup ends.
    is_slow: bool,
}

impl Lines {
    fn enter(&mut self, Resolve { asker, name }: Resolve) {
        let of = asker.line();
        let asked = self.asked.entry(name.clone()).or_default();
        // It gave up waiting and asks again; one answer is enough.
        if asked.askers.contains(&asker) {
            return;
        }
        let is_new = !asked.is_under_way && !asked.askers.iter().any(|other| other.line() == of);
        asked.askers.push(asker);
        if is_new {
            match self.waiting.iter_mut().find(|(line, _)| *line == of) {
                Some((_, line)) => line.push_back(name),
                None => self.waiting.push_back((of, VecDeque::from([name]))),
            }
        }
    }

    /// The next name for a thread.
    fn next(&mut self) -> Option<Task> {
        for _ in 0..self.waiting.len() {
            let (line, mut names) = self.waiting.pop_front()?;
            let task = self.first_of(line, &mut names);
            if !names.is_empty() {
                self.waiting.push_back((line, names));
            }
            if let Some(task) = task {
                let under_way = self.under_way.entry(line).or_default();
                under_way.all += 1;
                under_way.slow += usize::from(task.is_slow);
                return Some(task);
            }
        }
        None
    }

    /// The first name of a line that may be taken.
    fn first_of(&mut self, line: Line, names: &mut VecDeque<Name>) -> Option<Task> {
        let all: usize = self.under_way.values().map(|of| of.all).sum();
        let own = self.under_way.get(&line).copied().unwrap_or_default();
        if own.all > 0 && (all >= NAMES_MAX || own.all >= NAMES_OF_TENANT_MAX) {
            return None;
        }
        // A thread that took a name from another line answers the askers of this line, too.
        let waits = |name: &Name| self.asked.get(name).is_some_and(|asked| !asked.is_under_way);
        names.retain(waits);
        let is_slow = |name: &Name| self.slow.contains(name);
        let at = names.iter().position(|name| own.slow < SLOW_OF_TENANT_MAX || !is_slow(name))?;
        let name = names.remove(at)?;
        let is_slow = is_slow(&name);
        self.asked.get_mut(&name)?.is_under_way = true;
        Some(Task { line, name, is_slow })
    }

    /// A name is resolved; who asked for it.
    fn end(&mut self, task: &Task, took: Duration) -> Vec<Asker> {
        if let Some(under_way) = self.under_way.get_mut(&task.line) {
            under_way.all -= 1;
            under_way.slow -= usize::from(task.is_slow);
            if under_way.all == 0 {
                self.under_way.remove(&task.line);
            }
        }
        if took < SLOW {
            self.slow.remove(&task.name);
        } else {
            if self.slow.len() >= SLOW_MAX {
                self.slow.clear();
            }
            self.slow.insert(task.name.clone());
        }
        self.asked.remove(&task.name).unwrap_or_default().askers
    }
}

/// See the module.
struct Names<L, D> {
    lines: Mutex<Lines>,
    turn: AtomicUsize,
    lookup: L,
    deliver: D,
}

impl<L, D> Names<L, D>
where
    L: Fn(&Name) -> Answer + Send + Sync + 'static,
    D: Fn(&Name, Asker, &Answer, usize) + Send + Sync + 'static,
{
    /// Takes a question; the answer goes out when it is there.
    fn ask(self: &Arc<Self>, question: Resolve) {
        self.lock().enter(question);
        self.start();
    }

    /// Starts a thread for each name that may be taken.
    fn start(self: &Arc<Self>) {
        loop {
            let Some(task) = self.lock().next() else { return };
            let (names, of_thread) = (Arc::clone(self), task.clone());
            let builder = thread::Builder::new().name("respool-name".to_owned());
            let spawned = builder.spawn(move || {
                names.resolve(&of_thread);
                names.start();
            });
            if spawned.is_err() {
                // The system has no thread left: those behind it wait.
                self.resolve(&task);
            }
        }
    }

    /// Resolves one name and answers all who asked for it.
    fn resolve(&self, task: &Task) {
        let begun = Instant::now();
        let answer = (self.lookup)(&task.name);
        let askers = self.lock().end(task, begun.elapsed());
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        for asker in askers {
            (self.deliver)(&task.name, asker, &answer, turn);
        }
    }

    /// No one panics with the lock held, and the lines are whole after each call anyway.
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another one each time: one that is dead does not keep us from the others.
fn one_of(addresses: &[Address], turn: usize) -> Address {
    addresses[turn % addresses.len()].clone()
}

fn resolve(name: &Name) -> Answer {
    let Name { host, port } = name;
    let addresses: Vec<Address> = (host.as_str(), *port)
        .to_socket_addrs()
        .map_err(|error| format!("the name {host} cannot be resolved: {error}"))?
        .map(Address::Tcp)
        .collect();
    if addresses.is_empty() {
        Err(format!("the name {host} has no address"))
    } else {
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn name(host: &str) -> Name {
        Name { host: host.to_owned(), port: 6379 }
    }

    #[test]
    fn a_name_becomes_an_address_and_a_wrong_one_a_reason() {
        let addresses = resolve(&name("localhost")).expect("localhost is resolved");
        let Address::Tcp(address) = one_of(&addresses, 7) else { panic!("no TCP address") };
        assert!(address.ip().is_loopback());
        let error = resolve(&name("no-such-host.invalid")).unwrap_err();
        assert!(error.contains("no-such-host.invalid"), "{error}");
    }

    /// Names called `slow…` are not resolved before something is sent to the first; who got which answer comes from the second.
    #[allow(clippy::type_complexity)]
    fn names() -> (
        Arc<
            Names<
                impl Fn(&Name) -> Answer + Send + Sync + 'static,
                impl Fn(&Name, Asker, &Answer, usize) + Send + Sync + 'static,
            >,
        >,
        std::sync::mpsc::Sender<()>,
        Receiver<(usize, Answer)>,
    ) {
        let (let_go, held) = channel::<()>();
        let held = Mutex::new(held);
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let names = Arc::new(Names {
            lines: Mutex::default(),
            turn: AtomicUsize::new(0),
            lookup: move |name: &Name| {
                if name.host.starts_with("slow") {
                    let _ = held.lock().unwrap().recv();
                }
                Err(name.host.clone())
            },
            deliver: move |_: &Name, asker: Asker, answer: &Answer, _: usize| {
                tell.lock().unwrap().send((asker.worker, answer.clone())).unwrap();
            },
        });
        (names, let_go, told)
    }

    fn question(worker: usize, tenant: u32, host: &str) -> Resolve {
        Resolve { asker: Asker::of(worker, tenant), name: name(host) }
    }

    fn next(told: &Receiver<(usize, Answer)>) -> (usize, Answer) {
        told.recv_timeout(Duration::from_secs(10)).expect("an answer")
    }

    #[test]
    fn a_name_that_takes_its_time_keeps_nobody_from_another_one() {
        let (names, let_go, told) = names();
        // Asked again and again while it hangs, as after each connect that was given up.
        (0..100).for_each(|_| names.ask(question(1, 1, "slow")));
        names.ask(question(2, 1, "slow"));
        names.ask(question(3, 1, "quick"));
        assert_eq!(next(&told), (3, Err("quick".to_owned())));
        let_go.send(()).unwrap();
        let slow = [next(&told), next(&told)].map(|(worker, _)| worker);
        assert_eq!(slow, [1, 2]);
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err(), "one answer each");
        assert!(names.lock().asked.is_empty() && names.lock().under_way.is_empty());
    }

    // Found by an attack: 3,000 names of a cluster that does not exist kept other tenants from their servers.
    #[test]
    fn many_names_of_one_tenant_keep_no_other_from_its_own() {
        let (names, let_go, told) = names();
        (0..3_000).for_each(|n| names.ask(question(n, 1, &format!("slow{n}"))));
        names.ask(question(3_000, 1, "both"));
        names.ask(question(5_000, 2, "quick"));
        assert_eq!(next(&told), (5_000, Err("quick".to_owned())));
        // A name for which the other one waits in its line.
        names.ask(question(5_001, 2, "both"));
        assert_eq!([next(&told).0, next(&told).0], [3_000, 5_001]);
        drop(let_go);
        (0..3_000).for_each(|_| drop(next(&told)));
        assert!(names.lock().asked.is_empty() && names.lock().under_way.is_empty());
    }

    // An attack: unanswered lookups of sixteen tenants delayed the server of another tenant by 8 to 18 s.
    #[test]
    fn silent_names_of_many_tenants_keep_no_other_from_its_own() {
        const TENANTS: usize = 100;
        let (names, let_go, told) = names();
        for tenant in 0..TENANTS {
            (0..30).for_each(|n| {
                names.ask(question(n, tenant as u32, &format!("slow{tenant}.{n}")));
            });
        }
        names.ask(question(5_000, 1_000, "quick"));
        assert_eq!(next(&told), (5_000, Err("quick".to_owned())));
        let under_way: usize = names.lock().under_way.values().map(|of| of.all).sum();
        assert!(under_way <= NAMES_MAX + TENANTS, "{under_way} threads");
        drop(let_go);
        (0..TENANTS * 30).for_each(|_| drop(next(&told)));
    }

    #[test]
    fn names_that_were_slow_before_keep_no_name_of_their_tenant_waiting() {
        let (names, let_go, told) = names();
        let slow: Vec<String> = (0..30).map(|n| format!("slow{n}")).collect();
        names.lock().slow = slow.iter().map(|host| name(host)).collect();
        slow.iter().enumerate().for_each(|(n, host)| names.ask(question(n, 1, host)));
        for worker in 100..110 {
            names.ask(question(worker, 1, "quick"));
            assert_eq!(next(&told), (worker, Err("quick".to_owned())));
        }
        drop(let_go);
        (0..slow.len()).for_each(|_| drop(next(&told)));
    }

    #[test]
    fn a_name_is_slow_until_its_answer_comes_at_once() {
        let mut lines = Lines::default();
        for (took_ms, is_slow) in [(0, false), (10_000, false), (999, true), (0, false)] {
            lines.enter(question(1, 1, "host"));
            let task = lines.next().expect("the name");
            assert_eq!(task.is_slow, is_slow);
            assert_eq!(lines.end(&task, Duration::from_millis(took_ms)).len(), 1);
        }
        assert!(lines.under_way.is_empty() && lines.asked.is_empty());
    }
}
