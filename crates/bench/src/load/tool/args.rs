//! What of a plan redis-benchmark and valkey-benchmark can do, as their arguments.
//!
//! Both have the same options (those of redis-benchmark 7.0). This module runs nothing.
//!
//! Invariant: what cannot be said exactly is an error that names it; nothing is left out quietly.

use config::UpstreamAddress;

use super::super::Endpoint;
use crate::plan::{Distribution, LoadPlan, Shape};
use crate::template::{Part, Word};

/// What the tools replace by twelve digits, anew for each request.
const RANDOM: &str = "__rand_int__";

/// The length of a key that is `key:` and twelve digits.
const KEY_BYTES: u32 = 16;

/// The arguments for so many requests. The error says what the tool cannot do, to be read behind its name.
pub(super) fn args(
    endpoint: &Endpoint,
    plan: &LoadPlan,
    requests: u64,
) -> Result<Vec<String>, String> {
    check(endpoint, plan)?;
    let mut args = Vec::new();
    let mut say = |option: &str, value: String| args.extend([option.to_owned(), value]);
    match &endpoint.url.address {
        UpstreamAddress::Tcp { host, port } => {
            say("-h", host.clone());
            say("-p", port.to_string());
        }
        UpstreamAddress::Unix(path) => say("-s", path.to_string_lossy().into_owned()),
    }
    if let Some(password) = &endpoint.url.password {
        let password = String::from_utf8(password.reveal().to_vec());
        say("-a", password.map_err(|_| "takes no password that is not UTF-8".to_owned())?);
    }
    if let Some(user) = &endpoint.url.user {
        say("--user", user.clone());
    }
    if endpoint.url.db != 0 {
        say("--dbnum", endpoint.url.db.to_string());
    }
    say("-c", plan.clients.to_string());
    say("-P", plan.pipeline.to_string());
    say("-n", requests.to_string());
    say("-r", plan.keys.count.to_string());
    // With one thread the tool takes its ordinary loop, as in published runs.
    if plan.threads > 1 {
        say("--threads", plan.threads.to_string());
    }
    if plan.shape == Shape::Storm {
        say("-k", "0".to_owned());
    }
    // Microseconds instead of whole milliseconds.
    say("--precision", "3".to_owned());
    args.push("--csv".to_owned());
    if plan.resp == 3 {
        args.push("-3".to_owned());
    }
    args.extend(words(plan)?);
    Ok(args)
}

/// Refuses what the tools have no option for.
fn check(endpoint: &Endpoint, plan: &LoadPlan) -> Result<(), String> {
    let cannot =
        |what: &str| Err(format!("cannot {what}; leave the tool to `builtin` for this test"));
    match plan.shape {
        Shape::Closed | Shape::Storm => {}
        Shape::Open { .. } => return cannot("send at a fixed rate (shape `open`)"),
        Shape::SlowReader { .. } => return cannot("read slowly (shape `slow-reader`)"),
    }
    match plan.keys.distribution {
        Distribution::Uniform => {}
        Distribution::Zipf { .. } => return cannot("draw keys from a zipf distribution"),
        Distribution::Sequential => return cannot("take keys in sequence"),
    }
    if plan.mix.len() != 1 {
        return cannot("mix several requests");
    }
    if endpoint.tls.is_some() {
        return cannot("use this run's TLS configuration");
    }
    if plan.keys.hit_ratio < 1.0 && plan.mix.iter().any(|(template, _)| template.reads()) {
        return cannot("keep a hit ratio below 1");
    }
    Ok(())
}

/// The request's words.
fn words(plan: &LoadPlan) -> Result<Vec<String>, String> {
    let value = "x".repeat(plan.value_bytes as usize);
    let Some((template, _)) = plan.mix.first() else { return Err("needs a request".to_owned()) };
    if template.has_keys() && (plan.keys.bytes_min, plan.keys.bytes_max) != (KEY_BYTES, KEY_BYTES) {
        return Err(format!(
            "knows keys of {KEY_BYTES} bytes only (`key:` and twelve digits), not of {} to {}; leave the tool to \
             `builtin` for this test",
            plan.keys.bytes_min, plan.keys.bytes_max
        ));
    }
    let key = format!("key:{RANDOM}");
    let mut words = Vec::new();
    for word in template.words() {
        match word {
            Word::Parts(parts) => {
                words.push(parts.iter().map(|part| part_text(part, &key, &value)).collect());
            }
            Word::Keys(count) => words.extend((0..*count).map(|_| key.clone())),
            Word::Pairs(count) => {
                words.extend((0..*count).flat_map(|_| [key.clone(), value.clone()]));
            }
        }
    }
    Ok(words)
}

/// A number comes with leading zeros there, which every command that takes a number takes too.
fn part_text<'a>(part: &'a Part, key: &'a str, value: &'a str) -> &'a str {
    match part {
        Part::Text(text) => text,
        Part::Key => key,
        Part::Value => value,
        Part::Number => RANDOM,
    }
}
