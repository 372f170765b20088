//! `respool demo`: a private server, the proxy in front of it, and how to connect.
//!
//! The server is found on PATH, listens on a unix socket in a temporary folder that only this user can enter, and keeps
//! nothing. It is not started by this process but by a guard, a second process of the same binary (see [`mod@guard`]), so
//! that server and folder go away however this process ends.
//!
//! ```text
//!   respool demo ──pipe──▶ guard ──child──▶ redis-server     the guard stops its child when the pipe closes
//!        └────────────── unix socket ────────────┘
//! ```
//!
//! Invariant: no process is signalled but the guard's own child, and no file is removed outside the folder made here.

mod guard;
mod load;
mod private;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ArgMatches;
use config::options::OptionSpec;
use config::{Config, Given, ListenAddress};
use server::sources::Sources;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::{self, Failure};
use private::PrivateServer;

pub(crate) use guard::{COMMAND as GUARD_COMMAND, run as guard};

/// Ports after the wanted one that are tried before the system chooses.
const NEARBY_PORTS: u16 = 20;

/// Whether the demo takes this option: all but those that name a server, which is what the demo brings.
pub(crate) fn takes(option: &OptionSpec) -> bool {
    !option.name.starts_with("upstream") && option.table() != Some("sharding")
}

/// `respool demo [options]`.
pub(crate) fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let mut arguments = cli::arguments(matches)?;
    let loads = matches.get_flag(LOAD);
    default_to(&mut arguments, "admin.listen", ADMIN);
    if loads {
        default_to(&mut arguments, "hotkeys.enabled", "true");
        // Little traffic: more of it is looked at.
        default_to(&mut arguments, "hotkeys.sample", "8");
    }
    // Only so that the rule "a server must be named" is content; the real address is known later.
    let mut config = read_config(&arguments, "redis+unix:///demo")?;
    // From here on a signal must not end this process before the guard is told; once the proxy runs, it takes signals
    // for itself, and these flags stay unread.
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopped))?;
    }
    let server = PrivateServer::start(&stopped)?;
    if stopped.load(Ordering::Relaxed) {
        return Ok(());
    }
    let clients = config.listen.iter_mut().map(|entry| &mut entry.address);
    let moved = move_from_taken_ports(clients)?;
    move_from_taken_ports(config.admin.listen.iter_mut())?;
    introduce(&config, &server, &moved, loads)?;
    let clients = config.listen.iter().map(ToString::to_string).collect();
    let admins = config.admin.listen.iter().map(ToString::to_string).collect();
    for (name, words) in [("listen", clients), ("admin.listen", admins)] {
        arguments.retain(|(given, _)| *given != name);
        arguments.push((name, words));
    }
    if loads {
        let password = config.password.as_ref();
        let text = password.map(|password| String::from_utf8_lossy(password.reveal()).into_owned());
        load::begin(&config.listen, text)?;
    }
    let ended = cli::start(sources(&arguments, &server.url()));
    // Said in so many words because it is the point: the server goes before the result is told.
    drop(server);
    ended
}

/// The flag for the sample load.
pub(crate) const LOAD: &str = "load";

/// Where the demo's admin listener is, unless it is told otherwise or the port is taken.
const ADMIN: &str = "127.0.0.1:6390";

/// Gives an option a value for the demo, if nobody gave it one.
fn default_to(arguments: &mut Vec<Given>, name: &'static str, value: &str) {
    let variable = OptionSpec::find(name).and_then(|option| std::env::var_os(option.environment()));
    if variable.is_none() && arguments.iter().all(|(given, _)| *given != name) {
        arguments.push((name, vec![value.to_owned()]));
    }
}

/// Environment and flags, with this server.
fn sources(arguments: &[Given], upstream: &str) -> Sources {
    let mut arguments = arguments.to_vec();
    arguments.push(("upstream", vec![upstream.to_owned()]));
    Sources::new(None, arguments, takes)
}

fn read_config(arguments: &[Given], upstream: &str) -> Result<Config, Failure> {
    let loaded = sources(arguments, upstream).load(None, &[]).map_err(cli::refused)?;
    Ok(loaded.config)
}

/// Replaces TCP addresses that are in use by free ports; returns which became which.
fn move_from_taken_ports<'a>(
    listen: impl Iterator<Item = &'a mut ListenAddress>,
) -> Result<Vec<(SocketAddr, SocketAddr)>, Failure> {
    let mut moved = Vec::new();
    for address in listen {
        let ListenAddress::Tcp(wanted) = address else { continue };
        let free = free_address(*wanted).map_err(|error| {
            Failure::Runtime(format!("respool demo: cannot listen on {wanted}: {error}"))
        })?;
        if free != *wanted {
            moved.push((*wanted, free));
            *wanted = free;
        }
    }
    Ok(moved)
}

/// The wanted address if it is free, otherwise the next ports, otherwise any port.
fn free_address(wanted: SocketAddr) -> io::Result<SocketAddr> {
    let nearby = (0..=NEARBY_PORTS).filter_map(|step| wanted.port().checked_add(step));
    for port in nearby.chain([0]) {
        // Bound and let go again: the proxy binds it a moment later. Should another program be faster, the proxy says so.
        match TcpListener::bind(SocketAddr::new(wanted.ip(), port)) {
            Ok(listener) => return listener.local_addr(),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrInUse))
}

/// Prints what runs and how to connect.
fn introduce(
    config: &Config,
    server: &PrivateServer,
    moved: &[(SocketAddr, SocketAddr)],
    loads: bool,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "respool demo")?;
    writeln!(out, "  server  {}, private, in {}", server.name(), server.folder().display())?;
    for entry in &config.listen {
        writeln!(out, "  proxy   {}", entry.address)?;
    }
    for (wanted, free) in moved {
        writeln!(out, "  note    {wanted} is taken, so {free} is used instead")?;
    }
    writeln!(out, "\nIn another terminal:")?;
    let password = if config.password.is_some() { " --askpass" } else { "" };
    if let Some(entry) = config.listen.first() {
        let target = client_target(&entry.address);
        writeln!(out, "  redis-cli {target}{password}")?;
        writeln!(out, "  redis-benchmark {target} -t set,get -c 50 -P 16 -q")?;
    }
    if let Some(ListenAddress::Tcp(admin)) = config.admin.listen.first() {
        writeln!(out, "  respool top --admin {admin}")?;
        writeln!(out, "\nIn a browser: http://{admin}/")?;
    }
    if loads {
        writeln!(
            out,
            "\nA sample load runs: find its hot key, its large value and its slow script."
        )?;
    }
    writeln!(out, "\nCtrl-C stops both; nothing is kept.\n")?;
    out.flush()
}

/// How redis-cli is told where to connect.
fn client_target(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Unix(path) => format!("-s {}", path.display()),
        // redis-cli's own default host.
        ListenAddress::Tcp(tcp)
            if tcp.ip().is_unspecified() || tcp.ip().to_string() == "127.0.0.1" =>
        {
            format!("-p {}", tcp.port())
        }
        ListenAddress::Tcp(tcp) => format!("-h {} -p {}", tcp.ip(), tcp.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_left_for_a_free_one() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let wanted = taken.local_addr().unwrap();
        let free = free_address(wanted).unwrap();
        assert_ne!(free.port(), wanted.port());
        assert_eq!(free.ip(), wanted.ip());
        drop(taken);
        assert_eq!(free_address(wanted).unwrap(), wanted);
    }

    #[test]
    fn clients_are_told_where_to_connect() {
        for (address, target) in [
            ("127.0.0.1:6380", "-p 6380"),
            ("0.0.0.0:1", "-p 1"),
            ("[::1]:2", "-h ::1 -p 2"),
            ("unix:/run/r.sock", "-s /run/r.sock"),
        ] {
            assert_eq!(client_target(&ListenAddress::parse(address).unwrap()), target);
        }
    }
}
