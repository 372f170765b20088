//! The workers of a simulated process: they listen at one address, have each other's mailboxes, and their time is that of the network.
//!
//! Not here: what is around them.
//!
//! Invariant: nothing of the machine that it runs on is in them.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use engine::Settings;
use netio::sim::{SimDriver, SimNet, SimSocket};
use netio::{Address, Driver, ListenerId};
use server::export::Outlet;
use server::losses::Losses;
use server::worker::entrance::{Entrance, Entrances};
use server::worker::gather::GatherOptions;
use server::worker::house::TenantSettings;
use server::worker::mailbox::{Fleet, Post, Resolve, Upward, mailbox};
use server::worker::tls::TlsSettings;
use server::worker::{Chosen, Host, Process, Usage, Worker, WorkerOptions};

/// What all workers have alike.
pub(crate) struct Terms {
    pub(crate) seed: u64,
    pub(crate) gather: GatherOptions,
    pub(crate) clients_max: usize,
    pub(crate) entrances: Entrances,
    pub(crate) tls: TlsSettings,
    pub(crate) meanwhile: Meanwhile,
}

/// Happens when the first worker next reads the time: at its first event of a turn.
pub(crate) type Meanwhile = Rc<Cell<Option<Box<dyn FnOnce()>>>>;

impl Terms {
    /// They do not wait for more input, and clients come in by one door.
    pub(crate) fn plain(seed: u64) -> Self {
        let gather = GatherOptions { gather_us: 0, completions: 0, clients_min: 0, polls: 1 };
        let tls = TlsSettings::default();
        let meanwhile = Meanwhile::default();
        Self { seed, gather, clients_max: 1_000, entrances: entrances(), tls, meanwhile }
    }
}

/// One way in, for everybody. Workers share its count.
pub(crate) fn entrances() -> Entrances {
    Entrances { list: vec![Entrance::open(ListenerId(0), "sim")], ..Entrances::default() }
}

/// What was hired.
pub(crate) struct Crew {
    pub(crate) workers: Vec<Worker<SimDriver>>,
    /// The ways to their mailboxes.
    pub(crate) posts: Vec<Post<SimSocket>>,
    /// What they tell the control thread.
    pub(crate) told: Receiver<Upward>,
    /// What they ask the resolver.
    pub(crate) questions: Receiver<Resolve>,
}

/// Hires so many workers that listen at `at`; each has settings of its own, by its number.
pub(crate) fn hire(
    net: &SimNet,
    at: &Address,
    count: u32,
    terms: Terms,
    settings: impl Fn(usize) -> (Settings, Vec<TenantSettings>),
) -> Crew {
    let (mut drivers, mut boxes, mut posts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let mut driver = net.driver(std::slice::from_ref(at));
        driver.accept(true);
        let waker = driver.waker();
        let (inbox, post) = mailbox(Arc::new(move || waker.wake()));
        drivers.push(driver);
        boxes.push(inbox);
        posts.push(post);
    }
    let ((tell, told), (ask, questions)) = (channel(), channel());
    // Nobody hears of it any more when the world is over.
    let control = Box::new(move |word| drop(tell.send(word)));
    let fleet = Arc::new(Fleet::new(posts.clone(), ask, control));
    let process = Arc::new(process());
    let worker = |(index, (driver, mailbox))| {
        let clock = net.clone();
        let meanwhile = (index == 0).then(|| Rc::clone(&terms.meanwhile));
        let clock = move || {
            if let Some(act) = meanwhile.as_ref().and_then(|meanwhile| meanwhile.take()) {
                act();
            }
            clock.now_us()
        };
        let (settings, tenants) = settings(index);
        let options = WorkerOptions {
            entropy: None,
            settings,
            tenants,
            seed: terms.seed,
            gather: terms.gather,
            clients_max: terms.clients_max,
            tuning: netio::Tuning::default(),
            entrances: terms.entrances.clone(),
            mailbox,
            fleet: Arc::clone(&fleet),
            process: Arc::clone(&process),
            outlet: Outlet::default(),
            tls: terms.tls.clone(),
        };
        Worker::new(driver, Box::new(clock), options)
    };
    let workers = drivers.into_iter().zip(boxes).enumerate().map(worker).collect();
    Crew { workers, posts, told, questions }
}

/// Lets time pass for those that are at work, everybody around them doing what can be done (`around`).
pub(crate) fn pass(
    net: &SimNet,
    workers: &mut [Worker<SimDriver>],
    ms: u64,
    mut around: impl FnMut(),
) {
    let until_us = net.now_us() + ms * 1_000;
    loop {
        for _ in 0..4 {
            workers.iter_mut().filter(|worker| !worker.is_done()).for_each(Worker::turn);
            around();
        }
        let deadlines = workers.iter().filter_map(Worker::deadline).map(|at| at.0);
        let next_us = net.next_wakeup().into_iter().chain(deadlines).min();
        let next_us = next_us.unwrap_or(until_us).clamp(net.now_us(), until_us);
        if next_us == until_us && net.now_us() == until_us {
            return;
        }
        net.advance_to(next_us.max(net.now_us() + 1).min(until_us));
    }
}

fn process() -> Process {
    Process {
        started: Instant::now(),
        tcp_port: 6380,
        config_file: String::new(),
        driver: Chosen { name: "sim", wanted: "sim", reason: String::new() },
        host: host(),
        measure: |_| Usage::default(),
        measure_thread: Default::default,
        losses: Losses::default(),
        last_client: AtomicU64::new(0),
    }
}

/// What INFO tells of the process and its machine is to be as long in each run of a seed, wherever that is.
fn host() -> Host {
    Host {
        pid: 4711,
        executable: "/usr/bin/respool".to_owned(),
        os: "Linux 6.1 sim".to_owned(),
        started_unix_s: 0,
    }
}
