//! Resolves the names of servers for workers.
//!
//! On each connect anew, and again every while for those that are connected, so that a server which moved to another address is found; off
//! the workers' threads, because the system's resolver blocks: for ten seconds and more where a name server is silent. So each name
//! has a thread of its own while it is being resolved, and one that takes its time keeps nobody from the others. Who asks for a name
//! that is under way joins those that wait for it. Kept: nothing; the system knows how long an answer holds.
//!
//! Invariant: everyone that asked gets an answer, one for all its questions that came while the name was under way; there are at
//! most `NAMES_MAX` threads.

use crate::worker::mailbox::{Asker, Fleet, Message, Name, Resolve};
use netio::Address;
use std::collections::HashMap;
use std::net::ToSocketAddrs;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// Names that are resolved at once. One more is resolved on the thread that takes the questions, and those behind it wait.
const NAMES_MAX: usize = 16;

/// What a name became: all its addresses, at least one.
type Answer = Result<Vec<Address>, String>;

/// Answers until all askers are gone: the fleet holds the asking end, so it is held weakly here.
pub fn run<S: Send + 'static>(questions: &Receiver<Resolve>, fleet: &Weak<Fleet<S>>) {
    let fleet = fleet.clone();
    let names = Arc::new(Names {
        waiting: Mutex::default(),
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
    let mut turn = 0usize;
    while let Ok(question) = questions.recv() {
        turn = turn.wrapping_add(1);
        names.ask(question, turn);
    }
}

/// The names that are being resolved, each with those that wait for it.
struct Names<L, D> {
    waiting: Mutex<HashMap<Name, Vec<Asker>>>,
    lookup: L,
    deliver: D,
}

impl<L, D> Names<L, D>
where
    L: Fn(&Name) -> Answer + Send + Sync + 'static,
    D: Fn(&Name, Asker, &Answer, usize) + Send + Sync + 'static,
{
    /// Takes a question; the answer goes out when it is there.
    fn ask(self: &Arc<Self>, question: Resolve, turn: usize) {
        let Resolve { asker, name } = question;
        let under_way = {
            let mut waiting = self.lock();
            let under_way = waiting.len();
            if let Some(askers) = waiting.get_mut(&name) {
                // It gave up waiting and asks again; one answer is enough.
                if !askers.contains(&asker) {
                    askers.push(asker);
                }
                return;
            }
            waiting.insert(name.clone(), vec![asker]);
            under_way
        };
        let (names, own) = (Arc::clone(self), name.clone());
        let builder = thread::Builder::new().name("respool-name".to_owned());
        let started =
            under_way < NAMES_MAX && builder.spawn(move || names.answer(&own, turn)).is_ok();
        if !started {
            self.answer(&name, turn);
        }
    }

    fn answer(&self, name: &Name, turn: usize) {
        let answer = (self.lookup)(name);
        let askers = self.lock().remove(name).unwrap_or_default();
        for asker in askers {
            (self.deliver)(name, asker, &answer, turn);
        }
    }

    /// No one panics with the lock held, and the map is whole after each call anyway.
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Vec<Asker>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn a_name_that_takes_its_time_keeps_nobody_from_another_one() {
        let (let_go, held) = channel::<()>();
        let held = Mutex::new(held);
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let names = Arc::new(Names {
            waiting: Mutex::default(),
            lookup: move |name: &Name| {
                if name.host == "slow" {
                    let _ = held.lock().unwrap().recv();
                }
                Err(name.host.clone())
            },
            deliver: move |_: &Name, asker: Asker, answer: &Answer, _: usize| {
                tell.lock().unwrap().send((asker.worker, answer.clone())).unwrap();
            },
        });
        let ask = |worker: usize, host: &str| {
            names.ask(Resolve { asker: Asker { worker, upstream: None }, name: name(host) }, 0);
        };
        // Asked again and again while it hangs, as after each connect that was given up.
        (0..100).for_each(|_| ask(1, "slow"));
        ask(2, "slow");
        ask(3, "quick");
        let next = || told.recv_timeout(Duration::from_secs(10)).expect("an answer");
        assert_eq!(next(), (3, Err("quick".to_owned())));
        let_go.send(()).unwrap();
        let slow = [next(), next()].map(|(worker, _)| worker);
        assert_eq!(slow, [1, 2]);
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err(), "one answer each");
        assert!(names.lock().is_empty());
    }
}
