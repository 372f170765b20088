//! Resolves the names of servers for workers.
//!
//! On each connect anew, and again every while for those that are connected, so that a server which moved to another address is found; off
//! the workers' threads, because the system's resolver blocks: for ten seconds and more where a name server is silent. Several names are resolved at a
//! time, each on a thread of its own. Kept: nothing; the system knows how long an answer holds.
//!
//! ```text
//!   question ─▶ under way or in line already? ─ yes ─▶ joins those that wait for the name
//!                  └ no ─▶ [line of its tenant] ─▶ a thread takes the first of each line in turn, of a tenant `NAMES_OF_TENANT_MAX` at a time
//! ```
//! A tenant's servers may name thousands of others that do not exist, so the names of others have lines of their own.
//!
//! Invariant: everyone that asked gets an answer, one for all its questions that came while the name was under way; there are at
//! most `NAMES_MAX` threads.

use crate::worker::mailbox::{Asker, Fleet, Line, Message, Name, Resolve};
use netio::Address;
use std::collections::{HashMap, VecDeque};
use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// Names that are resolved at once.
const NAMES_MAX: usize = 16;

/// Names of one tenant that are resolved at once.
const NAMES_OF_TENANT_MAX: usize = 6;

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
    under_way: HashMap<Line, usize>,
    threads: usize,
}

#[derive(Default)]
struct Asked {
    askers: Vec<Asker>,
    is_under_way: bool,
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
    fn next(&mut self) -> Option<(Line, Name)> {
        for _ in 0..self.waiting.len() {
            let (of, mut line) = self.waiting.pop_front()?;
            let has_room = self.under_way.get(&of).is_none_or(|count| *count < NAMES_OF_TENANT_MAX);
            let name = if has_room { self.first_of(&mut line) } else { None };
            if !line.is_empty() {
                self.waiting.push_back((of, line));
            }
            if let Some(name) = name {
                *self.under_way.entry(of).or_default() += 1;
                return Some((of, name));
            }
        }
        None
    }

    /// The first name of a line that was not taken from another one meanwhile.
    fn first_of(&mut self, line: &mut VecDeque<Name>) -> Option<Name> {
        while let Some(name) = line.pop_front() {
            if let Some(asked) = self.asked.get_mut(&name).filter(|asked| !asked.is_under_way) {
                asked.is_under_way = true;
                return Some(name);
            }
        }
        None
    }

    /// A name is resolved; who asked for it.
    fn end(&mut self, of: Line, name: &Name) -> Vec<Asker> {
        if let Some(count) = self.under_way.get_mut(&of) {
            *count -= 1;
            if *count == 0 {
                self.under_way.remove(&of);
            }
        }
        self.asked.remove(name).unwrap_or_default().askers
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
        {
            let mut lines = self.lock();
            lines.enter(question);
            if lines.threads >= NAMES_MAX {
                return;
            }
            lines.threads += 1;
        }
        let names = Arc::clone(self);
        let builder = thread::Builder::new().name("respool-name".to_owned());
        if builder.spawn(move || names.work()).is_err() {
            // The system has no thread left: those behind it wait.
            self.work();
        }
    }

    /// Resolves names until no line has one that may be taken.
    fn work(&self) {
        loop {
            let (of, name) = {
                let mut lines = self.lock();
                let Some(next) = lines.next() else {
                    lines.threads -= 1;
                    return;
                };
                next
            };
            let answer = (self.lookup)(&name);
            let askers = self.lock().end(of, &name);
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            for asker in askers {
                (self.deliver)(&name, asker, &answer, turn);
            }
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
    use std::time::Duration;

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
}
