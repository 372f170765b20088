//! A queue to somebody outside who takes JSON over HTTP, and the thread that brings it there.
//!
//! ```text
//!   worker ─ offer ─▶ [queue of ITEMS_MAX] ─▶ thread: all that is there in one POST, then a second of rest
//!                      └ full: dropped, and counted
//! ```
//! What cannot be delivered is not kept for a second try: it is counted and told in the log, and what came meanwhile is next. Nobody is followed who says that
//! it is to be brought elsewhere: who gets it is in the configuration, and behind `https` nothing ever goes out in plain text.
//!
//! Not here: what the body looks like (`alarms`, `spans`).
//!
//! Invariant: whoever offers never waits. At most one POST is under way, and none begins within [`REST`] of the end of the one before.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::SecretUrl;
use engine::losses::Loss;

use crate::control::certificates::receivers::Trust;
use crate::losses::Losses;

/// Items that wait to be sent; what comes beyond is dropped.
pub(super) const ITEMS_MAX: usize = 2048;

/// From one POST to the next.
const REST: Duration = Duration::from_secs(1);

/// A POST that takes longer has failed.
const POST_TIMEOUT: Duration = Duration::from_secs(5);

/// Where it goes to.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Of HTTP or HTTPS. What is behind its host is as good as a password.
    url: SecretUrl,
    /// Under which name.
    pub(super) service_name: String,
    /// Keeps the connection from one POST to the next, and knows whom to trust.
    agent: ureq::Agent,
    is_secured: bool,
}

/// Whether the other side has just gone.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

impl Target {
    /// One at this URL; of HTTPS, if somebody is trusted.
    pub(super) fn new(url: SecretUrl, service_name: String, trust: Option<&Trust>) -> Self {
        // Whoever looks after the proxy says where it goes; an environment for browsers does not.
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(POST_TIMEOUT))
            .proxy(None)
            .max_redirects(0)
            .https_only(trust.is_some());
        let config = match trust {
            Some(trust) => config.tls_config(trust.config()),
            None => config,
        };
        Self { url, service_name, agent: config.build().into(), is_secured: trust.is_some() }
    }

    /// Brings it there.
    ///
    /// # Errors
    /// Why not, without what is secret of the URL.
    fn post(&self, body: String) -> Result<(), String> {
        self.try_post(body).map_err(|error| self.url.without_secrets(&error))
    }

    fn try_post(&self, body: String) -> Result<(), String> {
        let post = self.agent.post(self.url.reveal()).header("content-type", "application/json");
        let answer = post.send(body).map_err(|error| match error {
            ureq::Error::BadUri(_) | ureq::Error::RequireHttpsOnly(_) => {
                "the URL cannot be used".to_owned()
            }
            ureq::Error::Io(error) if self.is_secured && is_end(&error) => {
                // With TLS 1.3 a receiver refuses us when we are through with the handshake, and its reason may be lost.
                format!("{error} (does it want another certificate of ours, or is it a port without TLS?)")
            }
            error => error.to_string(),
        })?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status if status.is_redirection() => {
                Err(format!("http status: {} (nobody is followed elsewhere)", status.as_u16()))
            }
            status => Err(format!("http status: {}", status.as_u16())),
        }
    }
}

/// What is made of items: a JSON text, of so many items that were dropped before too.
pub(super) type Body<T> = fn(&Target, &[T], u64) -> String;

/// What an outbox is called, and where it counts what it loses.
#[derive(Debug)]
pub(super) struct Naming {
    /// The name of its thread.
    pub(super) thread: &'static str,
    /// Its items in the log.
    pub(super) what: &'static str,
    /// Items for which there was no room.
    pub(super) queue: Loss,
    /// Items that nobody took.
    pub(super) post: Loss,
}

/// See the module. The default is one that nobody empties: it takes nothing.
pub(super) struct Outbox<T> {
    queue: Option<(SyncSender<T>, Loss)>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    target: Mutex<Option<Target>>,
    /// Whether there is a target; read for each item.
    is_on: AtomicBool,
    /// Of which nobody was told.
    dropped: AtomicU64,
    losses: Losses,
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), state: Arc::clone(&self.state) }
    }
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self { queue: None, state: Arc::default() }
    }
}

impl<T: Send + 'static> Outbox<T> {
    /// With a thread that empties it.
    pub(super) fn start(
        naming: &'static Naming,
        body: Body<T>,
        losses: &Losses,
    ) -> io::Result<Self> {
        let (sender, queue) = sync_channel(ITEMS_MAX);
        let state = Arc::new(State { losses: losses.clone(), ..State::default() });
        let outbox = Self { queue: Some((sender, naming.queue)), state: Arc::clone(&state) };
        let run = move || run(&queue, &state, naming, body);
        std::thread::Builder::new().name(naming.thread.to_owned()).spawn(run)?;
        Ok(outbox)
    }

    /// From now on it goes there; what waits, too.
    pub(super) fn change(&self, target: Option<Target>) {
        self.state.is_on.store(target.is_some(), Ordering::Relaxed);
        *self.state.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Whether anybody takes what is offered.
    pub(super) fn is_on(&self) -> bool {
        self.state.is_on.load(Ordering::Relaxed)
    }

    /// One more; dropped where the queue is full.
    pub(super) fn offer(&self, item: T) {
        if let Some((queue, loss)) = self.queue.as_ref().filter(|_| self.is_on())
            && queue.try_send(item).is_err()
        {
            self.state.losses.add(*loss, 1);
            self.tell_dropped(1);
        }
    }

    /// So many are dropped, which whoever takes the next ones is told.
    pub(super) fn tell_dropped(&self, count: u64) {
        self.state.dropped.fetch_add(count, Ordering::Relaxed);
    }
}

fn run<T>(queue: &Receiver<T>, state: &State, naming: &Naming, body: Body<T>) {
    let what = naming.what;
    while let Ok(first) = queue.recv() {
        let items: Vec<T> =
            std::iter::once(first).chain(queue.try_iter().take(ITEMS_MAX)).collect();
        let target = state.target.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Switched off meanwhile: nobody wants them.
        let Some(target) = target else { continue };
        let dropped = state.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(what, dropped, "more came than can be delivered; some were dropped");
        }
        if let Err(error) = target.post(body(&target, &items, dropped)) {
            let (receiver, count) = (target.url.host(), items.len());
            state.losses.add(naming.post, count as u64);
            tracing::warn!(what, receiver, count, %error, "could not be delivered");
        }
        std::thread::sleep(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_a_receiver_without_its_path() {
        for (url, receiver) in [
            ("http://hooks.example:80/services/T0/B0/secret", "hooks.example:80"),
            ("http://me:secret@h/", "h"),
            ("http://h", "h"),
        ] {
            let target = Target::new(SecretUrl::new(url), String::new(), None);
            assert_eq!(target.url.host(), receiver);
        }
    }

    #[test]
    fn a_full_queue_drops_and_counts_and_nobody_waits() {
        let (sender, _queue) = sync_channel::<u64>(2);
        let outbox = Outbox { queue: Some((sender, Loss::AlarmsQueue)), state: Arc::default() };
        outbox.offer(0);
        assert_eq!(outbox.state.dropped.load(Ordering::Relaxed), 0, "nobody wants it");
        let target = Target::new(SecretUrl::new("http://h"), String::new(), None);
        outbox.change(Some(target));
        (0..5).for_each(|n| outbox.offer(n));
        assert_eq!(outbox.state.dropped.load(Ordering::Relaxed), 3);
        assert_eq!(outbox.state.losses.counts()[Loss::AlarmsQueue as usize], 3);
        outbox.change(None);
        assert!(!outbox.is_on());
        assert!(!Outbox::<u64>::default().is_on());
    }
}
