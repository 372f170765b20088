//! What goes to others than clients and servers: spans of traces, and alarms.
//!
//! ```text
//!   worker ─ end of turn ─▶ Outlet ─┬─ spans  ─▶ outbox ─ POST ─▶ collector (OTLP over HTTP)
//!                                   └─ alarms ─▶ outbox ─ POST ─▶ webhook
//! ```
//! OTLP is written by hand, as one form of JSON, and so is the body of the webhook; docs/internals/dependencies.md tells why.
//!
//! What it deliberately is not: on the path of a request. A collector that hangs, or is not there, costs items, which are counted.
//!
//! Invariant: no method here waits for another machine.

mod alarms;
mod outbox;
mod spans;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use alarms::Alarm;
use config::{Config, SecretUrl};
use engine::Notice;
use engine::losses::Loss;
use engine::observed::Observed;
use outbox::{Naming, Outbox, Target};

use crate::control::certificates::receivers::Trusts;
use crate::losses::Losses;

/// The way out; clones share it. The default leads nowhere.
#[derive(Clone, Default)]
pub struct Outlet {
    spans: Outbox<Observed>,
    alarms: Outbox<Alarm>,
    /// Which alarms are wanted, in bits.
    kinds: Arc<AtomicU8>,
}

/// What spans are called, and where they are counted.
const SPANS: Naming = Naming {
    thread: "respool-spans",
    what: "spans",
    queue: Loss::SpansQueue,
    post: Loss::SpansPost,
};

/// The same of alarms.
const ALARMS: Naming = Naming {
    thread: "respool-alarms",
    what: "alarms",
    queue: Loss::AlarmsQueue,
    post: Loss::AlarmsPost,
};

impl Outlet {
    /// With a thread for each kind of receiver; what they do not get is counted there.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(config: &Config, trusts: &Trusts, losses: &Losses) -> io::Result<Self> {
        let outlet = Self {
            spans: Outbox::start(&SPANS, spans::body, losses)?,
            alarms: Outbox::start(&ALARMS, alarms::body, losses)?,
            kinds: Arc::default(),
        };
        outlet.change(config, trusts);
        Ok(outlet)
    }

    /// Other receivers from now on, or the same with other certificates.
    pub fn change(&self, config: &Config, trusts: &Trusts) {
        let tracing = &config.tracing;
        let service_name = tracing.service_name.clone().unwrap_or_default();
        let traces = tracing.endpoint.as_ref().filter(|_| tracing.sample > 0);
        self.spans.change(traces.map(|endpoint| {
            let url = format!("{}/v1/traces", endpoint.reveal().trim_end_matches('/'));
            Target::new(SecretUrl::new(url), service_name, trusts.collector.as_ref())
        }));
        self.kinds.store(alarms::bits(&config.alarms.kinds), Ordering::Relaxed);
        let webhook = config.alarms.webhook.clone();
        let target = |url| Target::new(url, String::new(), trusts.webhook.as_ref());
        self.alarms.change(webhook.map(target));
    }

    /// Something happened at this worker, to this tenant; it may be an alarm.
    pub(crate) fn notice(&self, worker: usize, tenant: Option<&str>, notice: &Notice) {
        if self.alarms.is_on()
            && let Some(alarm) = Alarm::of(worker, notice)
        {
            self.alarm(alarm.of_tenant(tenant));
        }
    }

    /// Somebody wants to be told of this request.
    pub(crate) fn observed(&self, worker: usize, observed: Observed) {
        if observed.wanted.slow && self.alarms.is_on() {
            let tenant = observed.tenant.as_deref();
            self.alarm(Alarm::slow(worker, &observed).of_tenant(tenant));
        }
        if observed.wanted.trace {
            // The engine has counted them; the next line of the log and the next POST tell of them.
            self.spans.tell_dropped(observed.left_out);
            self.spans.offer(observed);
        }
    }

    fn alarm(&self, alarm: Alarm) {
        if self.kinds.load(Ordering::Relaxed) & alarm.bit() != 0 {
            self.alarms.offer(alarm);
        }
    }
}
