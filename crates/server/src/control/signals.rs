//! SIGTERM and SIGINT: the first drains, the second ends at once. SIGHUP: the configuration is read again. SIGPIPE is none of our business:
//! sends are made without it.
//!
//! Invariant: from [`Signals::listen`] on the process does not die of these signals by itself.

use super::{Order, Orders};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals as Iterator};
use std::io;
use std::thread::JoinHandle;

/// The signals that we act on.
pub struct Signals(Iterator);

/// The thread that waits for them.
pub struct Watching {
    closer: Handle,
    thread: JoinHandle<()>,
}

impl Signals {
    /// Takes them over.
    ///
    /// # Errors
    /// The system refuses to.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(Iterator::new([SIGTERM, SIGINT, SIGHUP])?))
    }

    /// Tells each of them from now on.
    ///
    /// # Errors
    /// There is no thread left.
    pub fn tell(mut self, orders: Orders) -> io::Result<Watching> {
        let closer = self.0.handle();
        let body = move || {
            for signal in self.0.forever() {
                let order = match signal {
                    SIGHUP => Order::Reload,
                    SIGINT => Order::End("SIGINT"),
                    _ => Order::End("SIGTERM"),
                };
                // The control thread may have ended a moment ago.
                let _ = orders.send(order);
            }
        };
        let builder = std::thread::Builder::new().name("respool-signals".to_owned());
        Ok(Watching { closer, thread: builder.spawn(body)? })
    }
}

impl Watching {
    /// Waits no more.
    pub fn end(self) {
        self.closer.close();
        // The thread only waits for signals; it ends with the closer.
        let _ = self.thread.join();
    }
}
