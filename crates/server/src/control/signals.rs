//! SIGTERM and SIGINT: the first drains, the second ends at once. SIGPIPE is none of our business: sends are made without it.
//!
//! Invariant: from [`Signals::listen`] on the process does not die of these signals by itself.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals as Iterator;
use std::io;

/// The signals that end the process.
pub struct Signals(Iterator);

impl Signals {
    /// Takes them over.
    ///
    /// # Errors
    /// The system refuses to.
    pub fn listen() -> io::Result<Self> {
        Ok(Self(Iterator::new([SIGTERM, SIGINT])?))
    }

    /// Blocks until one comes; its name.
    pub fn wait(&mut self) -> &'static str {
        match self.0.forever().next() {
            Some(SIGINT) => "SIGINT",
            _ => "SIGTERM",
        }
    }

    /// A handle that ends a [`Self::wait`] from another thread, as if SIGTERM had come.
    pub fn closer(&self) -> signal_hook::iterator::Handle {
        self.0.handle()
    }
}
