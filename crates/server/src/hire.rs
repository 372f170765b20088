//! Worker threads, each with its driver, before they are told what to do.
//!
//! Which driver it is decides the configuration and, where that is io_uring, the system: if it cannot be used here, in one worker or in all, all
//! workers have epoll, and a line of the log says why.
//!
//! `auto` is epoll on every kernel: over 128 loads io_uring costs respool 1.02 times as much in the median, more than 1.05 times as much in a quarter of them, and
//! is cheaper by 3 % in an eighth (`docs/internals/driver-sweep.md`, with the rule by which that would change).
//!
//! Not here: what a worker works with (`run`).
//!
//! Invariant: all workers have the same driver, which is the one that `INFO` names.

use crate::run::{StartError, system, tuning};
use crate::worker::{Chosen, Worker, WorkerOptions};
use config::{Config, NetDriver};
use netio::epoll::Stream;
use netio::uring::{self, Unfit};
use netio::{Driver, EpollDriver, EpollOptions, Listener, UringDriver, UringOptions, Waker, sys};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A worker thread before it is told what to do: its driver stands, since a driver cannot travel between threads.
pub(crate) struct Hired {
    /// The thread, to be waited for.
    pub(crate) thread: JoinHandle<()>,
    /// Wakes its driver.
    pub(crate) waker: Waker,
    /// Dropped unused, it sends the thread home: that is how a start that fails half way ends.
    pub(crate) begin: SyncSender<WorkerOptions<Stream>>,
}

/// All workers.
pub(crate) struct Crew {
    /// One for each, in their order.
    pub(crate) hired: Vec<Hired>,
    /// What `INFO` tells of their driver.
    pub(crate) driver: Chosen,
}

/// Why a worker's driver does not stand.
enum Trouble {
    /// Another driver may do.
    Unfit(Unfit),
    /// None would.
    Start(StartError),
}

/// Starts the threads and waits until their drivers stand.
///
/// # Errors
/// No thread, no descriptor or no epoll can be had.
pub(crate) fn crew(config: &Config, listeners: &[Listener]) -> Result<Crew, StartError> {
    let hire_all = |driver| -> Result<Vec<Hired>, Trouble> {
        (0..config.workers).map(|index| hire(config, index, listeners, driver)).collect()
    };
    let wanted = NetDriver::NAMES[config.driver as usize];
    let chosen = |name, reason| Chosen { name, wanted, reason };
    let mut reason = String::new();
    if config.driver == NetDriver::Uring {
        // Asked before: a system that forbids it is told of without threads that come and go.
        match uring::probe().map_err(Trouble::Unfit).and_then(|()| hire_all(NetDriver::Uring)) {
            Ok(hired) => return Ok(Crew { hired, driver: chosen("uring", reason) }),
            Err(Trouble::Unfit(unfit)) => {
                tracing::warn!(reason = %unfit, "io_uring cannot be used here, the workers use epoll");
                reason = unfit.to_string();
            }
            Err(Trouble::Start(error)) => return Err(error),
        }
    }
    match hire_all(NetDriver::Epoll) {
        Ok(hired) => Ok(Crew { hired, driver: chosen("epoll", reason) }),
        Err(Trouble::Start(error)) => Err(error),
        Err(Trouble::Unfit(unfit)) => Err(system("set up epoll", io::Error::other(unfit))),
    }
}

/// Starts a worker's thread and waits until its driver stands.
fn hire(
    config: &Config,
    index: usize,
    listeners: &[Listener],
    driver: NetDriver,
) -> Result<Hired, Trouble> {
    let system = |what| move |error| Trouble::Start(system(what, error));
    let shares: io::Result<Vec<Listener>> = listeners.iter().map(Listener::try_clone).collect();
    let shares = shares.map_err(system("share a listener"))?;
    let tuning = tuning(config, None);
    let name = format!("respool-{index}");
    let cpu = config.cpus.get(index % config.cpus.len().max(1)).copied();
    let (begin, orders) = sync_channel(1);
    let (tell, told) = sync_channel(1);
    let body = {
        let name = name.clone();
        move || {
            let _sentinel = Sentinel(index);
            if let Err(error) = sys::thread_setup(&name, cpu) {
                tracing::warn!(worker = index, %error, "cannot pin the worker to its CPU or set its timer");
            }
            match driver {
                NetDriver::Uring => {
                    let options = UringOptions { tuning, ..UringOptions::default() };
                    let driver = UringDriver::new(&options, shares).map_err(Trouble::Unfit);
                    work(driver, UringDriver::waker, &tell, &orders);
                }
                NetDriver::Auto | NetDriver::Epoll => {
                    let options = EpollOptions { tuning, ..EpollOptions::default() };
                    let driver = EpollDriver::new(&options, shares).map_err(system("set up epoll"));
                    work(driver, EpollDriver::waker, &tell, &orders);
                }
            }
        }
    };
    let builder = std::thread::Builder::new().name(name);
    let thread = builder.spawn(body).map_err(system("start a worker thread"))?;
    let gone = || system("set up a driver")(io::Error::other("the worker thread ended at once"));
    let waker = told.recv().map_err(|_| gone())??;
    Ok(Hired { thread, waker, begin })
}

/// The life of a worker's thread once its driver stands, or the word that it does not.
fn work<D: Driver<Socket = Stream>>(
    driver: Result<D, Trouble>,
    waker: impl Fn(&D) -> Waker,
    tell: &SyncSender<Result<Waker, Trouble>>,
    orders: &Receiver<WorkerOptions<Stream>>,
) {
    let mut driver = match driver {
        Ok(driver) => driver,
        Err(trouble) => return drop(tell.send(Err(trouble))),
    };
    // Whoever hires waits for it.
    let _ = tell.send(Ok(waker(&driver)));
    if let Ok(options) = orders.recv() {
        driver.tune(&options.tuning);
        driver.accept(true);
        Worker::new(driver, Box::new(sys::monotonic_us), options).run();
    }
}

/// Ends the process in order when its worker's thread ends by a panic, which is a bug of ours: a proxy that goes on with fewer workers would
/// send clients to one that is gone. Whoever supervises the process starts it again.
struct Sentinel(usize);

impl Drop for Sentinel {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                worker = self.0,
                "a worker met a bug and is gone; please report it. The others drain"
            );
            // It can only fail for a signal that does not exist.
            let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTERM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_worker_that_ends_by_a_panic_asks_the_process_to_end() {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&asked)).unwrap();
        let sound = std::thread::spawn(|| drop(Sentinel(0)));
        assert!(sound.join().is_ok() && !asked.load(Ordering::Relaxed));
        let broken = std::thread::spawn(|| {
            let _sentinel = Sentinel(1);
            panic!("planted");
        });
        assert!(broken.join().is_err());
        assert!(asked.load(Ordering::Relaxed), "no SIGTERM was raised");
    }
}
