//! The listeners of a configuration: bound at the start, and again for what another configuration adds.
//!
//! A listener that stays keeps its number and its count of clients, whatever changed of what stands behind its address. The sockets
//! themselves are the workers': here is only what they are told.
//!
//! Not here: accepting (`netio`), what holds for a client that comes (`worker::entrance`).
//!
//! Invariant: a number is given once, so that a client that was accepted at a listener that is closed is never taken for one of another.

use crate::run::{StartError, keepalive};
use crate::tenants::Registry;
use crate::worker::entrance::{Entrance, Entrances};
use config::{Config, Listen, ListenAddress, NetDriver};
use netio::{Address, ListenOptions, Listener, ListenerId};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    list: Vec<Running>,
    /// The number of the next one.
    next: u32,
}

/// One that is bound.
#[derive(Clone, Debug)]
struct Running {
    id: ListenerId,
    entry: Listen,
    clients: Arc<AtomicUsize>,
}

/// What a worker gets of listeners that are new.
pub(crate) type Share = Vec<Listener>;

/// A share of each of these for so many workers.
///
/// # Errors
/// No descriptor left.
pub(crate) fn shares(bound: &[Listener], workers: usize) -> io::Result<Vec<Share>> {
    (0..workers).map(|_| bound.iter().map(Listener::try_clone).collect()).collect()
}

impl Listeners {
    /// Those of this configuration, and the sockets that are new, which nobody accepts from yet.
    ///
    /// # Errors
    /// An address cannot be had. Nothing has changed then.
    pub(crate) fn changed_to(&self, config: &Config) -> Result<(Self, Vec<Listener>), StartError> {
        let (mut list, mut next, mut bound) = (Vec::new(), self.next, Vec::new());
        for entry in &config.listen {
            let same = self.list.iter().find(|running| running.entry.address == entry.address);
            let (id, clients) = match same {
                Some(running) => (running.id, Arc::clone(&running.clients)),
                None => {
                    bound.push(bind(config, entry, ListenerId(next))?);
                    next += 1;
                    (ListenerId(next - 1), Arc::default())
                }
            };
            list.push(Running { id, entry: entry.clone(), clients });
        }
        Ok((Self { list, next }, bound))
    }

    /// Gives the unix sockets that stay the permissions that they are to have now.
    pub(crate) fn set_modes(&self, old: &Self, config: &Config) {
        for Running { id, entry, .. } in &self.list {
            let ListenAddress::Unix(path) = &entry.address else { continue };
            let was = old.list.iter().find(|running| running.id == *id);
            if was.is_none_or(|was| was.entry.mode == entry.mode) {
                continue;
            }
            let mode = Permissions::from_mode(entry.mode.unwrap_or(config.unix_mode));
            if let Err(error) = std::fs::set_permissions(path, mode) {
                tracing::warn!(path = %path.display(), %error, "the mode of the socket stays as it was");
            }
        }
    }

    /// What workers are told.
    pub(crate) fn entrances(&self, config: &Config, tenants: &Registry) -> Entrances {
        let list = self.list.iter().map(|Running { id, entry, clients }| Entrance {
            id: *id,
            label: entry.label().into(),
            proxy_protocol: entry.proxy_protocol,
            tls: entry.tls,
            clients_max: entry.max_clients.unwrap_or(usize::MAX),
            rules: entry.rules.clone(),
            clients: Arc::clone(clients),
            tenant: tenants.of_listener(entry),
        });
        Entrances {
            list: list.collect(),
            rules: config.client_rules.clone(),
            header_from: config.proxy_protocol_from.clone(),
            header_ms: config.timeouts.proxy_header_ms,
        }
    }
}

fn bind(config: &Config, entry: &Listen, id: ListenerId) -> Result<Listener, StartError> {
    let options = ListenOptions {
        unix_mode: Some(entry.mode.unwrap_or(config.unix_mode)),
        keepalive: keepalive(config),
        id,
        ..ListenOptions::default()
    };
    let to = match &entry.address {
        ListenAddress::Tcp(address) => Address::Tcp(*address),
        ListenAddress::Unix(path) => Address::Unix(path.clone()),
    };
    bind_patiently(&to, &options, config.driver)
        .map_err(|error| StartError::Listen { address: entry.address.to_string(), error })
}

/// Binds an address. With io_uring it may be in use for a moment longer than a predecessor lives that was killed: the
/// kernel ends the operations of its rings, which hold the socket, only behind its back.
fn bind_patiently(
    to: &Address,
    options: &ListenOptions,
    driver: NetDriver,
) -> io::Result<Listener> {
    let begun = Instant::now();
    loop {
        match Listener::bind(to, options) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && driver == NetDriver::Uring
                    && begun.elapsed() < TAKEN_MAX =>
            {
                std::thread::sleep(TAKEN_STEP);
            }
            bound => return bound,
        }
    }
}

/// How long an address may be taken before that is an error, and how often it is tried meanwhile.
const TAKEN_MAX: Duration = Duration::from_secs(3);
const TAKEN_STEP: Duration = Duration::from_millis(10);
