//! SIGTERM and SIGINT: the first drains, the second ends at once. SIGHUP: the configuration is read again. SIGUSR1 and SIGUSR2, by which some log rotations and supervisors
//! ask for something, would end a process by default: they are logged and nothing else. SIGPIPE is none of our business: sends are made without it.
//!
//! ```text
//!   main ─▶ Hangup ── another command: SIGHUP ends it, as it ends any program
//!              └───── the proxy ─▶ Signals::watch, before the configuration is read
//!                        SIGHUP          ─▶ queued: read again once the proxy runs
//!                        SIGTERM, SIGINT ─▶ nothing is bound yet: ends at once, with success;   then ─▶ queued: drains
//! ```
//! Invariant: from the first line of `main` on SIGHUP never ends a proxy, and from [`Signals::watch`] on neither do the other two by themselves.

use super::{Inbox, Order, Orders, orders};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::{Handle, Signals as Iterator};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// SIGHUP between the first line of `main` and the moment when it is known which command this is.
pub struct Hangup {
    /// A signal came.
    came: Arc<AtomicBool>,
    /// It ends the process.
    ends: Arc<AtomicBool>,
    /// Whoever started the process wants it to be ignored (`nohup`).
    is_ignored: bool,
}

impl Hangup {
    /// From here on the signal is only noted.
    ///
    /// # Errors
    /// The system refuses to.
    pub fn note() -> io::Result<Self> {
        let is_ignored = is_ignored();
        let (came, ends) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        signal_hook::flag::register_conditional_default(SIGHUP, Arc::clone(&ends))?;
        signal_hook::flag::register(SIGHUP, Arc::clone(&came))?;
        Ok(Self { came, ends, is_ignored })
    }

    /// This is no proxy: the signal does what it does to any program, also one that came already.
    pub fn end_by_it(self) {
        if self.is_ignored {
            return;
        }
        self.ends.store(true, Ordering::SeqCst);
        if self.came.load(Ordering::SeqCst) {
            // It can only fail for a signal that does not exist.
            let _ = signal_hook::low_level::emulate_default_handler(SIGHUP);
        }
    }
}

/// Whether SIGHUP was ignored when this program began, by proc(5): a mask whose lowest bit is signal 1. Without /proc it was not.
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// The signals that we act on, and the thread that waits for them.
pub struct Signals {
    closer: Handle,
    thread: JoinHandle<()>,
    /// There is something that has to end in order.
    begun: Arc<AtomicBool>,
    orders: Orders,
    inbox: Option<Inbox>,
}

impl Signals {
    /// Takes them over, before the proxy reads its configuration.
    ///
    /// # Errors
    /// The system refuses to, or there is no thread left.
    pub fn watch() -> io::Result<Self> {
        let mut signals = Iterator::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2])?;
        let (orders, inbox) = orders();
        let begun = Arc::new(AtomicBool::new(false));
        let closer = signals.handle();
        let (to, has_begun) = (orders.clone(), Arc::clone(&begun));
        let body = move || {
            for signal in signals.forever() {
                let order = match signal {
                    SIGHUP => Order::Reload,
                    SIGUSR1 | SIGUSR2 => {
                        tracing::warn!(
                            signal,
                            "SIGUSR1 and SIGUSR2 do nothing; SIGHUP reads the configuration again and opens the log anew"
                        );
                        continue;
                    }
                    // Whoever starts it may wait for a command that prints a password; nobody is served and nothing is open.
                    _ if !has_begun.load(Ordering::SeqCst) => std::process::exit(0),
                    SIGINT => Order::End("SIGINT"),
                    _ => Order::End("SIGTERM"),
                };
                // The control thread may have ended a moment ago.
                let _ = to.send(order);
            }
        };
        let builder = std::thread::Builder::new().name("respool-signals".to_owned());
        Ok(Self { closer, thread: builder.spawn(body)?, begun, orders, inbox: Some(inbox) })
    }

    /// From here on there is something to be drained: where orders go, and where they come from.
    ///
    /// # Panics
    /// The second time.
    pub(crate) fn begin(&mut self) -> (Orders, Inbox) {
        self.begun.store(true, Ordering::SeqCst);
        let inbox = self.inbox.take().expect("a proxy begins once");
        (self.orders.clone(), inbox)
    }

    /// Waits no more.
    pub(crate) fn end(self) {
        self.closer.close();
        // The thread only waits for signals; it ends with the closer.
        let _ = self.thread.join();
    }
}
