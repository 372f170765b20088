//! What every test begins with: the proxy's binary, a server, the two together.
//!
//! With the environment variable `E2E_DIRECT=1` the tests that only need *something that speaks
//! like a server* run against the server itself. That is for work on the tests: whatever fails
//! there is no fault of the proxy.
//!
//! Invariant: tests share nothing; each has its own server and its own proxy.

use std::time::Duration;

use testkit::{Conn, Endpoint, RedisServer, Respool};

/// The binary under test, built by cargo for this test.
pub(crate) const RESPOOL: &str = env!("CARGO_BIN_EXE_respool");

/// A limit for things that take milliseconds, on a machine that is busy with something else.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Whether the tests run against the server itself.
pub(crate) fn direct() -> bool {
    std::env::var_os("E2E_DIRECT").is_some()
}

/// Whether the long versions of tests were asked for (`RESPOOL_LONG=1`).
pub(crate) fn long() -> bool {
    std::env::var_os("RESPOOL_LONG").is_some()
}

/// A server with a proxy in front of it.
pub(crate) struct Stack {
    // The order matters: the proxy goes before its server.
    pub(crate) proxy: Option<Respool>,
    pub(crate) server: RedisServer,
}

impl Stack {
    /// Two workers, default options.
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With more options for the proxy.
    #[track_caller]
    pub(crate) fn with(args: &[&str]) -> Self {
        let server = RedisServer::start();
        let proxy = (!direct()).then(|| Respool::to(RESPOOL, server.endpoint()).args(args).start());
        Self { proxy, server }
    }

    /// Where clients connect.
    pub(crate) fn front(&self) -> &Endpoint {
        self.proxy.as_ref().map_or(self.server.endpoint(), Respool::endpoint)
    }

    /// A new client.
    #[track_caller]
    pub(crate) fn connect(&self) -> Conn {
        Conn::to(self.front())
    }

    /// Resident memory of the process that clients talk to.
    pub(crate) fn rss_bytes(&self) -> u64 {
        let process = self.proxy.as_ref().map_or(self.server.process(), Respool::process);
        process.rss_bytes()
    }

    /// Fails the test if the proxy has ended.
    #[track_caller]
    pub(crate) fn assert_alive(&mut self) {
        if let Some(proxy) = &mut self.proxy {
            proxy.assert_alive();
        }
    }
}

/// A field of INFO, by its line `name:value`.
pub(crate) fn info_field(conn: &mut Conn, section: &str, name: &str) -> Option<String> {
    let info = conn.ask(&format!("INFO {section}"));
    let prefix = format!("{name}:");
    info.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}
