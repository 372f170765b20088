//! What a kind of value looks like in a JSON schema, for editors that check a file as it is typed.
//!
//! A schema knows types, bounds and patterns; what two options mean beside each other, and whether an address is one, is left to `respool check`.
//!
//! Invariant: what a kind takes from a file, its schema takes.

use engine::limits::{MIRRORS_MAX, READ_TARGETS_MAX, USERS_MAX};
use serde_json::{Value, json};

use super::entries::WEIGHT_MAX;
use super::{ADDRESSES_MAX, CPU_MAX, Kind};
use crate::network::NETWORKS_MAX;
use crate::sharding::ENTRIES_MAX;
use crate::tls::MORE_CERTS_MAX;
use engine::limits::{POLICY_RULES_MAX, SEALING_KEYS_MAX};
use engine::route::shard::ROUTES_MAX;

impl Kind {
    /// The schema of a value in the file.
    pub(crate) fn json_schema(&self) -> Value {
        match self {
            Self::Count { min, max, .. } => integer(min, max),
            Self::Time { min, max, .. } => integer(min, max),
            Self::Bytes { min, max, .. } => {
                let text = pattern("^[0-9]+\\s*([bB]|[kKmMgG][iI][bB])$");
                json!({ "anyOf": [integer(min, max), text] })
            }
            Self::Switch { .. } => json!({ "type": "boolean" }),
            Self::Mode { .. } => pattern("^0?[0-7]{3}$"),
            Self::ClientName { .. } => pattern("^[!-~]*$"),
            Self::Text { .. } | Self::Path { .. } | Self::Secret { .. } => {
                json!({ "type": "string", "minLength": 1 })
            }
            Self::Choice { names, .. } => json!({ "enum": names() }),
            Self::Cpus { .. } => {
                let range = pattern("^[0-9]+(-[0-9]+)?$");
                list(&json!({ "anyOf": [integer(&0, &CPU_MAX), range] }), 0, CPU_MAX + 1)
            }
            Self::Listeners { .. } => list(&json!({ "type": "string" }), 1, ADDRESSES_MAX),
            Self::Listen { .. } | Self::Announce { .. } => {
                list(&json!({ "type": "string" }), 0, ADDRESSES_MAX)
            }
            Self::Networks { .. } => list(&json!({ "type": "string" }), 0, NETWORKS_MAX),
            Self::Upstream { .. } => pattern("^redis(\\+unix|s?(-cluster|-sentinel)?)://"),
            Self::Shards { .. } => list(&json!({ "type": "string" }), 1, ENTRIES_MAX),
            Self::Users { .. } => list(&json!({ "type": "string" }), 0, USERS_MAX - 1),
            Self::Mirrors { .. } => list(&json!({ "type": "string" }), 0, MIRRORS_MAX),
            Self::SealingKeys { .. } => list(&json!({ "type": "string" }), 0, SEALING_KEYS_MAX),
            Self::ReadTargets { .. } => list(&json!({ "type": "string" }), 0, READ_TARGETS_MAX),
            Self::CertFiles { .. } => list(&pattern("^ *[^ ]+ +[^ ]+ *$"), 0, MORE_CERTS_MAX),
            Self::Prefixes { .. } => {
                list(&json!({ "type": "string", "minLength": 1 }), 0, ROUTES_MAX)
            }
            Self::Patterns { .. } | Self::UserNames { .. } => {
                list(&json!({ "type": "string", "minLength": 1 }), 0, super::TEXTS_MAX)
            }
            Self::Buckets { .. } => list(&pattern("^[0-9]+(-[0-9]+)*$"), 0, ENTRIES_MAX),
            Self::HashTag { .. } => pattern("^([!-~]{2})?$"),
            Self::AddressMap { .. }
            | Self::Routes { .. }
            | Self::Zones { .. }
            | Self::Monitors { .. } => table(&json!({ "type": "string", "minLength": 1 })),
            Self::Renames { .. } => table(&json!({ "type": "string" })),
            Self::Rules { .. } => list(&json!({ "type": "string" }), 0, POLICY_RULES_MAX),
            Self::Weights { .. } => table(&integer(&0, &WEIGHT_MAX)),
            // One may stand there twice.
            Self::Names { names, .. } => list(&json!({ "enum": names }), 0, usize::from(u16::MAX)),
            Self::HttpUrl { .. } => pattern("^https?://[^ #@]+$"),
            Self::Commands { .. } => list(&json!({ "type": "string" }), 0, usize::from(u16::MAX)),
        }
    }
}

fn integer<T: Into<Value> + Copy>(min: &T, max: &T) -> Value {
    json!({ "type": "integer", "minimum": (*min).into(), "maximum": (*max).into() })
}

fn pattern(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn table(value: &Value) -> Value {
    json!({ "type": "object", "additionalProperties": value })
}

/// So many of something, or one alone.
fn list(item: &Value, min: usize, max: usize) -> Value {
    let list = json!({ "type": "array", "items": item, "minItems": min, "maxItems": max });
    json!({ "anyOf": [item, list] })
}
