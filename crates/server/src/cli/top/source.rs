//! What the admin listener tells, as far as it is shown.
//!
//! Fields that a newer respool adds do no harm.
//!
//! Invariant: an answer is of one moment, within the time that its few questions take.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use server::control::certificates::receivers::Trust;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An answer takes milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Slow requests that are asked for.
const SLOW_SHOWN: usize = 8;

/// Where it is asked.
pub(super) struct Source {
    base: String,
    token: Option<String>,
    agent: ureq::Agent,
}

/// Everything at one moment.
pub(super) struct Answer {
    pub(super) at: Instant,
    pub(super) stats: Stats,
    pub(super) upstreams: Vec<Upstream>,
    pub(super) commands: Vec<Command>,
    pub(super) hot: HotKeys,
    pub(super) big: Vec<BigKey>,
    pub(super) slow: Vec<Slow>,
}

/// `/stats`.
#[derive(Deserialize)]
pub(super) struct Stats {
    pub(super) version: String,
    pub(super) uptime_us: u64,
    pub(super) cpu_user_us: u64,
    pub(super) cpu_system_us: u64,
    pub(super) rss_bytes: u64,
    pub(super) clients_max: u64,
    pub(super) total: Totals,
    pub(super) workers: Vec<Worker>,
    pub(super) latency: Times,
    #[serde(default)]
    pub(super) tenants: Vec<Tenant>,
    #[serde(default)]
    pub(super) mirrors: Vec<Mirror>,
    #[serde(default)]
    pub(super) read_targets: Vec<ReadTarget>,
}

/// A tenant of it.
#[derive(Deserialize)]
pub(super) struct Tenant {
    pub(super) tenant: String,
    #[serde(flatten)]
    pub(super) totals: Totals,
}

/// A mirror of it.
#[derive(Deserialize)]
pub(super) struct Mirror {
    pub(super) name: String,
    #[serde(default)]
    pub(super) tenant: Option<String>,
    pub(super) state: String,
    pub(super) lag_ms: u64,
    pub(super) queued: u64,
    pub(super) queued_bytes: u64,
    pub(super) failed: u64,
    pub(super) dropped: u64,
    pub(super) unsure: u64,
    #[serde(default)]
    pub(super) shadow: Option<Compared>,
}

/// Reads that were compared with it.
#[derive(Deserialize)]
pub(super) struct Compared {
    pub(super) equal: u64,
    pub(super) different: u64,
    pub(super) mismatch_rate: f64,
}

/// A read target of it.
#[derive(Deserialize)]
pub(super) struct ReadTarget {
    pub(super) name: String,
    #[serde(default)]
    pub(super) tenant: Option<String>,
    pub(super) state: String,
    pub(super) open: u64,
    pub(super) answered: u64,
    pub(super) failed: u64,
    pub(super) late: u64,
    pub(super) refused: u64,
    pub(super) full: u64,
    pub(super) hedged: u64,
    pub(super) outages: u64,
}

/// A worker of it.
#[derive(Deserialize)]
pub(super) struct Worker {
    pub(super) busy_user_us: u64,
    pub(super) busy_system_us: u64,
}

/// Its sums.
#[derive(Deserialize)]
pub(super) struct Totals {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) upstream_requests: u64,
    pub(super) upstream_writes: u64,
    pub(super) clients: u64,
    pub(super) inflight: u64,
    pub(super) buffered_bytes: u64,
    #[serde(default)]
    pub(super) cache_hits: u64,
    #[serde(default)]
    pub(super) cache_misses: u64,
}

/// Its times.
#[derive(Deserialize)]
pub(super) struct Times {
    pub(super) buckets: Vec<(Option<u64>, u64)>,
}

/// One of `/upstreams`.
#[derive(Deserialize)]
pub(super) struct Upstream {
    pub(super) address: String,
    pub(super) role: String,
    pub(super) state: String,
    pub(super) cause: String,
    pub(super) requests: u64,
    pub(super) writes: u64,
    pub(super) error_replies: u64,
    pub(super) inflight: u64,
    pub(super) latency: Latency,
    pub(super) conns: BTreeMap<String, u64>,
}

/// One of `/latency`.
#[derive(Deserialize)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) latency: Latency,
}

/// Times since the start.
#[derive(Deserialize)]
pub(super) struct Latency {
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
}

/// `/hotkeys`.
#[derive(Deserialize)]
pub(super) struct HotKeys {
    pub(super) enabled: bool,
    pub(super) keys: Vec<HotKey>,
}

/// One of them.
#[derive(Deserialize)]
pub(super) struct HotKey {
    pub(super) key: String,
    pub(super) per_second: f64,
}

/// One of `/bigkeys`.
#[derive(Deserialize)]
pub(super) struct BigKey {
    pub(super) key: String,
    pub(super) command: String,
    pub(super) direction: String,
    pub(super) bytes_max: u64,
    pub(super) elements_max: u64,
}

/// One of `/slowlog`.
#[derive(Deserialize)]
pub(super) struct Slow {
    pub(super) took_us: u64,
    pub(super) queued_us: u64,
    pub(super) behind: u64,
    pub(super) args: Vec<String>,
    pub(super) client: String,
}

#[derive(Deserialize)]
struct Upstreams {
    upstreams: Vec<Upstream>,
}

#[derive(Deserialize)]
struct Commands {
    commands: Vec<Command>,
}

#[derive(Deserialize)]
struct BigKeys {
    keys: Vec<BigKey>,
}

#[derive(Deserialize)]
struct SlowLog {
    entries: Vec<Slow>,
}

impl Source {
    /// An admin listener at this URL, or at this address. Over TLS somebody is trusted.
    pub(super) fn new(base: &str, token: Option<&str>, trust: Option<&Trust>) -> Self {
        let base = base.trim_end_matches('/');
        let base = match base.contains("://") {
            true => base.to_owned(),
            false => format!("http://{base}"),
        };
        // A token goes to whoever was named, and to nobody else.
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_WITHIN))
            .max_redirects(0)
            .https_only(trust.is_some());
        let config = match trust {
            Some(trust) => config.tls_config(trust.config()),
            None => config,
        };
        Self { base, token: token.map(str::to_owned), agent: config.build().into() }
    }

    /// Asks for everything.
    ///
    /// # Errors
    /// A text for a person.
    pub(super) fn ask(&self) -> Result<Answer, String> {
        Ok(Answer {
            at: Instant::now(),
            stats: self.get("/stats")?,
            upstreams: self.get::<Upstreams>("/upstreams")?.upstreams,
            commands: self.get::<Commands>("/latency")?.commands,
            hot: self.get("/hotkeys")?,
            big: self.get::<BigKeys>("/bigkeys")?.keys,
            slow: self.get::<SlowLog>(&format!("/slowlog?count={SLOW_SHOWN}"))?.entries,
        })
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.get(&url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call().map_err(|error| match error {
            ureq::Error::StatusCode(401) => {
                format!("{}: it wants a token, see --token-file", self.base)
            }
            error => format!("{url}: {error} (is `admin.listen` set there?)"),
        })?;
        answer.body_mut().read_json().map_err(|error| format!("{url}: {error}"))
    }
}
