//! What is told to somebody at once, as JSON by a webhook.
//!
//! The events are those that the log tells, and slow requests. How often hot and big keys are told is bounded by the engine, a server that cannot be
//! reached is told for the first failure in a row.
//!
//! Not here: the queue and the POST (`outbox`).
//!
//! Invariant: an alarm holds no argument of a request but its first key.

use std::time::{SystemTime, UNIX_EPOCH};

use config::Alarms;
use engine::Notice;
use engine::observed::Observed;
use serde_json::{Value, json};

use super::outbox::Target;

/// One event.
pub(crate) struct Alarm {
    kind: &'static str,
    unix_ms: u64,
    worker: usize,
    /// What else is known of it.
    facts: Value,
}

impl Alarm {
    /// What this notice is, if it is an alarm.
    pub(super) fn of(worker: usize, notice: &Notice) -> Option<Self> {
        let (kind, facts) = match notice {
            Notice::HotKey { key, count, window_s, node } => {
                ("hot", json!({ "key": key, "count": count, "window_s": window_s, "node": node }))
            }
            Notice::BigKey { key, command, direction, bytes, elements, addr, node } => (
                "big",
                json!({
                    "key": (!key.is_empty()).then_some(key), "command": command, "direction": direction, "bytes": bytes,
                    "elements": elements, "addr": addr, "node": node
                }),
            ),
            Notice::NodeDown { node, cause, .. } => {
                ("upstream_down", json!({ "node": node, "cause": cause }))
            }
            _ => return None,
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Some(Self { kind, unix_ms, worker, facts })
    }

    /// A request that took too long.
    pub(super) fn slow(worker: usize, observed: &Observed) -> Self {
        let Observed { client, addr, name, command, key, node, queued_us, upstream_us, .. } =
            observed;
        let facts = json!({
            "client": client, "addr": addr, "name": name.escape_ascii().to_string(), "command": command,
            "key": key, "node": node, "queued_us": queued_us, "upstream_us": upstream_us
        });
        Self { kind: "slow", unix_ms: observed.unix_us / 1000, worker, facts }
    }

    /// Of this tenant, if there are any.
    pub(super) fn of_tenant(mut self, tenant: Option<&str>) -> Self {
        if let Some(tenant) = tenant {
            self.facts["tenant"] = tenant.into();
        }
        self
    }

    /// The bit of its kind, in the order of [`Alarms::KINDS`].
    pub(super) fn bit(&self) -> u8 {
        bit(self.kind)
    }
}

/// Bits of these kinds.
pub(super) fn bits(kinds: &[&str]) -> u8 {
    kinds.iter().map(|kind| bit(kind)).fold(0, |all, bit| all | bit)
}

fn bit(kind: &str) -> u8 {
    Alarms::KINDS.iter().position(|known| *known == kind).map_or(0, |at| 1 << at)
}

/// The body of one POST.
pub(super) fn body(_: &Target, alarms: &[Alarm], dropped: u64) -> String {
    let alarms: Vec<Value> = alarms
        .iter()
        .map(|alarm| {
            let mut all = json!({
                "kind": alarm.kind, "unix_ms": alarm.unix_ms, "worker": alarm.worker
            });
            if let (Some(all), Some(facts)) = (all.as_object_mut(), alarm.facts.as_object()) {
                all.extend(facts.clone());
            }
            all
        })
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    json!({ "source": "respool", "version": version, "dropped": dropped, "alarms": alarms })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::SecretUrl;

    #[test]
    fn notices_become_alarms_of_their_kind() {
        let hot =
            Notice::HotKey { key: "k".to_owned(), count: 7, window_s: 10, node: "n:1".to_owned() };
        let alarm = Alarm::of(3, &hot).unwrap().of_tenant(None).of_tenant(Some("blue"));
        assert_eq!((alarm.bit(), &alarm.facts["tenant"]), (bits(&["hot"]), &json!("blue")));
        let target = Target::new(SecretUrl::new(""), String::new(), None);
        let body: Value = serde_json::from_str(&body(&target, &[alarm], 2)).unwrap();
        assert_eq!((&body["dropped"], &body["alarms"][0]["kind"]), (&json!(2), &json!("hot")));
        assert_eq!(
            (&body["alarms"][0]["worker"], &body["alarms"][0]["key"]),
            (&json!(3), &json!("k"))
        );
        let asked = Notice::TopologyAsked { node: String::new() };
        assert!(Alarm::of(0, &asked).is_none());
    }

    #[test]
    fn each_kind_has_its_bit() {
        assert_eq!(bits(&Alarms::KINDS), 0b1111);
        assert_eq!(bits(&[]), 0);
    }
}
