//! From a configuration to a running proxy, and to its end.
//!
//! [`run`] reads as the list of the boot order (signals are taken over before it): descriptors, listeners, mailboxes, workers, resolver, then `control`, which has this thread from then on. Everything that can
//! fail does so before the first client is accepted; a server behind that cannot be reached is no failure but a warning, because it may
//! come.
//!
//! Invariant: when [`run`] returns, every worker has ended and every listener is closed. (The resolver is left to end by itself: the
//! system may keep it waiting for a name for longer than anyone wants to wait for us.)

use crate::admin::{self, App};
use crate::control::certificates::Certificates;
use crate::control::signals::Signals;
use crate::control::{Begin, Control, Order, Orders, resolver};
use crate::descriptors::{self, Allotment, Descriptors, Scarce};
use crate::export::Outlet;
use crate::hire::{self, Crew, Hired};
use crate::listeners::Listeners;
use crate::log::Logging;
use crate::losses::Losses;
use crate::settings;
use crate::sources::Sources;
use crate::tenants::Registry;
use crate::worker::entrance::Entrances;
use crate::worker::mailbox::{Fleet, Mailbox, Post, Resolve, mailbox};
use crate::worker::tls::TlsSettings;
use crate::worker::{Chosen, Host, Process, Usage, WorkerOptions};
use config::{Config, Listen, ListenAddress, Loaded, Problems};
use netio::epoll::Stream;
use netio::{Keepalive, Tuning, sys};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::watch;

/// Why the proxy did not start, or did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened at.
    #[error("cannot listen on {address}: {}", in_words(error))]
    Listen {
        /// Which.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// The system allows too few descriptors.
    #[error(transparent)]
    Scarce(#[from] Scarce),
    /// A certificate or a key is not as it was when the configuration was checked.
    #[error("{0}")]
    Certificates(Problems),
    /// It ran, and a worker met a bug.
    #[error("a worker met a bug (see the log); the others have drained")]
    WorkerDied,
    /// A thread, a driver or the signal handling cannot be set up.
    #[error("cannot {what}: {}", with_limit(error))]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: io::Error,
    },
}

/// What a proxy is started with.
pub struct Boot {
    /// Where the configuration came from, to have it read again.
    pub sources: Sources,
    /// What stood in its file.
    pub text: Option<String>,
    /// What became of it.
    pub loaded: Loaded,
    /// The log, to be changed.
    pub logging: Logging,
    /// Where the log counts what it loses.
    pub losses: Losses,
    /// Signals, since before the configuration was read.
    pub signals: Signals,
}

/// Runs the proxy until a signal ends it.
///
/// # Errors
/// Something that is needed cannot be had; nothing keeps running then.
pub fn run(boot: Boot) -> Result<(), StartError> {
    let Boot { sources, text, loaded, logging, losses, mut signals } = boot;
    let config = &loaded.config;
    // They were looked at with the rest of the configuration, but files can change in between.
    let certificates = Certificates::read(config)
        .map_err(|found| StartError::Certificates(loaded.problems(found)))?;
    certificates.warn();
    sys::return_large_buffers();
    descriptors::raise(config);
    let (orders, inbox) = signals.begin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| system("set up the control thread", error))?;
    let (listeners, bound) = Listeners::default().changed_to(config)?;
    let admin_listeners = admin::listen::bind(&config.admin.listen, config.unix_mode)?;
    let Crew { hired, driver } = hire::crew(config, &bound)?;
    let descriptors = Descriptors::count(config);
    let share = descriptors.share(config)?;
    share.tell(config, None);
    let outlet = Outlet::start(config, &certificates.trusts(), &losses);
    let outlet = outlet.map_err(|error| system("start the threads of the outlet", error))?;
    let tenants = Registry::default().changed_to(config);
    let fit = share.fit(config);
    let process = Arc::new(process(config, sources.file_name(), driver, losses));
    let known = Known {
        process: &process,
        outlet: &outlet,
        entrances: listeners.entrances(config, &tenants),
        tls: certificates.settings(),
        tenants: &tenants,
        share,
    };
    let posts = start_workers(&fit, &known, hired, &orders)?;
    drop(bound);
    tracing::info!(
        upstream = %config.upstream,
        listen = %config.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        workers = config.workers,
        tenants = (!config.tenants.is_empty()).then_some(config.tenants.len()),
        one_worker_for = config.wants_one_worker().then_some("mirrors (mirrors.across_workers)"),
        "respool {} listens",
        env!("CARGO_PKG_VERSION")
    );
    let (admin, admin_settings) = watch::channel(Arc::new(settings::admin(&fit, &certificates)));
    let app = App::new(orders.clone(), admin_settings, process);
    let (limit, access_lines) = (logging.limit(), logging.access_lines());
    let begin = Begin {
        posts,
        orders,
        sources,
        text,
        loaded,
        certificates,
        listeners,
        tenants,
        logging,
        outlet,
        descriptors: (descriptors, share),
        admin,
    };
    let sound = runtime.block_on(async {
        // They are bound, so this fails only where the system has nothing left; the clients are served all the same.
        let files = admin::listen::serve(admin_listeners, &app, share.admin);
        let _files = files.inspect_err(|error| tracing::error!(%error, "no admin listener"));
        tokio::spawn(limit.clone().run());
        Control::new(begin).run(inbox).await
    });
    signals.end();
    limit.finish();
    access_lines.finish();
    tracing::info!("respool has ended");
    if sound { Ok(()) } else { Err(StartError::WorkerDied) }
}

/// A start that fails for want of something of the system.
pub(crate) fn system(what: &'static str, error: io::Error) -> StartError {
    StartError::System { what, error }
}

/// With the limit of open files, if that is the reason.
fn with_limit(error: &io::Error) -> String {
    if error.raw_os_error() != Some(rustix::io::Errno::MFILE.raw_os_error()) {
        return error.to_string();
    }
    format!(
        "{error}: the limit is {}, raise it (`ulimit -n`, LimitNOFILE=)",
        sys::open_files_limit()
    )
}

/// "in use" is by far the most frequent reason, and deserves to be said so that a person knows what to do.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is in use by another process; stop that one or choose another `listen`"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied (ports below 1024 need a privilege)".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => with_limit(error),
    }
}

/// What sockets are like. Workers have no share yet when their drivers are made, and accept nobody before they have.
pub(crate) fn tuning(config: &Config, share: Option<&Allotment>) -> Tuning {
    let (accepts_max, descriptors_max) = share.map_or((1, u32::MAX), Allotment::accepting);
    Tuning {
        accepts_max,
        descriptors_max,
        keepalive: keepalive(config),
        // No longer than a reply may take: what a dead peer does not acknowledge will not be answered either.
        user_timeout_ms: u32::try_from(config.timeouts.request_ms).unwrap_or(u32::MAX),
    }
}

/// How silent peers are probed.
pub(crate) fn keepalive(config: &Config) -> Option<Keepalive> {
    let idle_s = u16::try_from(config.timeouts.tcp_keepalive_s)
        .unwrap_or(KEEPALIVE_MAX_S)
        .min(KEEPALIVE_MAX_S);
    (idle_s > 0).then(|| Keepalive { idle_s, ..Keepalive::default() })
}

/// The longest TCP_KEEPIDLE that Linux takes, in seconds.
const KEEPALIVE_MAX_S: u16 = 32_767;

/// What all workers are told.
struct Known<'a> {
    process: &'a Arc<Process>,
    outlet: &'a Outlet,
    entrances: Entrances,
    tls: TlsSettings,
    tenants: &'a Registry,
    share: Allotment,
}

/// Everything else that can fail comes first; only then do the workers begin. The control thread is told when all have ended.
fn start_workers(
    config: &Config,
    known: &Known<'_>,
    hired: Vec<Hired>,
    orders: &Orders,
) -> Result<Vec<Post<Stream>>, StartError> {
    let (mailboxes, posts): (Vec<_>, Vec<_>) = hired
        .iter()
        .map(|hired| {
            let waker = hired.waker.clone();
            mailbox(Arc::new(move || waker.wake()))
        })
        .unzip();
    let (ask_resolver, questions) = channel();
    let to_control = {
        let orders = orders.clone();
        // Nobody is left to be told when the control thread has ended.
        Box::new(move |word| drop(orders.send(Order::Worker(word))))
    };
    let fleet = Arc::new(Fleet::new(posts.clone(), ask_resolver, to_control));
    start_resolver(questions, &fleet)?;
    let mut workers = Vec::new();
    for (index, (hired, mailbox)) in hired.into_iter().zip(mailboxes).enumerate() {
        let options = worker_options(config, index, mailbox, &fleet, known);
        // It waits for this; if it is gone, its join tells.
        let _ = hired.begin.send(options);
        workers.push(hired.thread);
    }
    tell_the_end(workers, orders.clone())?;
    Ok(posts)
}

/// Tells the control thread when all workers have ended.
fn tell_the_end(workers: Vec<JoinHandle<()>>, orders: Orders) -> Result<(), StartError> {
    let body = move || {
        let outcomes: Vec<_> = workers.into_iter().map(JoinHandle::join).collect();
        // Nobody is left to be told when the control thread has ended.
        let _ = orders.send(Order::Ended(outcomes.iter().all(Result::is_ok)));
    };
    let builder = std::thread::Builder::new().name("respool-end".to_owned());
    builder.spawn(body).map_err(|error| system("start a thread", error))?;
    Ok(())
}

/// What this process is, from now on.
fn process(config: &Config, config_file: String, driver: Chosen, losses: Losses) -> Process {
    Process {
        started: Instant::now(),
        tcp_port: first_port(config),
        config_file,
        driver,
        host: Host::this(),
        measure: Usage::since,
        measure_thread: netio::sys::thread_cpu,
        losses,
        last_client: AtomicU64::new(0),
    }
}

fn worker_options(
    config: &Config,
    index: usize,
    mailbox: Mailbox<Stream>,
    fleet: &Arc<Fleet<Stream>>,
    known: &Known<'_>,
) -> WorkerOptions<Stream> {
    let (settings, tenants) = known.tenants.settings(config, &config.users, index);
    WorkerOptions {
        settings,
        tenants,
        seed: seed(index),
        entropy: entropy(),
        gather: settings::gather(config),
        clients_max: config.max_clients,
        tuning: tuning(config, Some(&known.share)),
        entrances: known.entrances.clone(),
        mailbox,
        fleet: Arc::clone(fleet),
        process: Arc::clone(known.process),
        outlet: known.outlet.clone(),
        tls: known.tls.clone(),
    }
}

/// Different for each worker and each start, and known to nobody as long as the system has random bytes.
fn seed(index: usize) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
        ^ ((index as u64) << 56)
        ^ u64::from(std::process::id())
        ^ random_bytes().map_or(0, u64::from_le_bytes)
}

/// From the system; without it passwords are not made, and values are not encrypted.
fn entropy() -> Option<[u8; 32]> {
    let read = random_bytes();
    if let Err(error) = &read {
        tracing::warn!(
            "cannot read /dev/urandom: {error}; ACL GENPASS is refused, and what would have to be encrypted"
        );
    }
    read.ok()
}

fn random_bytes<const COUNT: usize>() -> std::io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    let mut source = std::fs::File::open("/dev/urandom")?;
    std::io::Read::read_exact(&mut source, &mut bytes)?;
    Ok(bytes)
}

fn first_port(config: &Config) -> u16 {
    let port = |entry: &Listen| match &entry.address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::Unix(_) => None,
    };
    config.listen.iter().find_map(port).unwrap_or(0)
}

/// What resolves names: also where the configured address is no name, as a topology may tell names later. It ends when the last worker is
/// gone.
fn start_resolver(
    questions: Receiver<Resolve>,
    fleet: &Arc<Fleet<Stream>>,
) -> Result<(), StartError> {
    let fleet = Arc::downgrade(fleet);
    let body = move || resolver::run(&questions, &fleet);
    let builder = std::thread::Builder::new().name("respool-resolver".to_owned());
    builder.spawn(body).map_err(|error| system("start the resolver thread", error))?;
    Ok(())
}
