//! predixy's configuration: keys and scopes, spread over files by `Include`.
//!
//! Read as `Conf.cpp` of predixy 7 reads it; the text itself is read in `tree`, the pools in `pool`, passwords of clients in
//! `authority`.
//!
//! Invariant: a key that predixy knows is carried over or noted, at whatever depth it stands.

mod authority;
mod latency;
mod pool;
mod reads;
mod tree;

use super::Source;
use super::sheet::Sheet;
use super::values::{no_pools, number, whole};
use tree::Node;

/// Keys at the top that become nothing, and why.
const LOST: [(&str, &str); 12] = [
    ("Name", "INFO shows no name; see client_name_upstream for the one on the servers"),
    ("BufSize", "buffers grow and shrink by themselves"),
    ("LogRotate", "the log is rotated from outside"),
    ("AllowMissLog", "no log line is left out"),
    ("LogVerbSample", "see log.level"),
    ("LogDebugSample", "see log.level"),
    ("LogInfoSample", "see log.level"),
    ("LogNoticeSample", "see log.level"),
    ("LogWarnSample", "see log.level"),
    ("LogErrorSample", "see log.level"),
    ("LocalDC", "see reads.zone and the policy `zone`"),
    ("DataCenter", "see reads.zones and the policy `zone`"),
];
/// The keys at the top that become something.
const CARRIED: [&str; 11] = [
    "Bind",
    "WorkerThreads",
    "MaxMemory",
    "ClientTimeout",
    "Log",
    "Authority",
    "ClusterServerPool",
    "SentinelServerPool",
    "StandaloneServerPool",
    "CustomCommand",
    "LatencyMonitor",
];

/// What is noted where predixy cuts a value.
const CUT: &str = "predixy cuts off as many characters at the end as the value has blanks, and so does this; quotes prevent it";

/// Reads the file and those that it includes.
pub(super) fn read(source: &Source<'_>, sheet: &mut Sheet) {
    no_pools(source.pool, source.file.name, sheet);
    let nodes = tree::read(source, sheet);
    if sheet.is_wrong() {
        return;
    }
    let file = super::Place::of_file(source.file.name);
    sheet.listen("0.0.0.0", "7617", &file, "Bind");
    for node in &nodes {
        read_global(node, sheet);
    }
    note_repeated(&nodes, &["LatencyMonitor", "CustomCommand", "DataCenter"], sheet);
    latency::read(&nodes, sheet);
    // Of these predixy takes the last one that stands in the file.
    if let Some(node) = nodes.iter().rfind(|node| node.is("Authority")) {
        authority::read(node, sheet);
    }
    let is_pool = |node: &&Node| {
        ["ClusterServerPool", "SentinelServerPool", "StandaloneServerPool"]
            .iter()
            .any(|pool| node.is(pool))
    };
    let mut pools = nodes.iter().filter(is_pool);
    match (pools.next(), pools.next()) {
        (Some(node), None) => pool::read(node, sheet),
        (Some(_), Some(second)) => {
            sheet.wrong(&second.place, &second.key, "a second server pool; predixy has one");
        }
        (None, _) => sheet.wrong(&file, "", "no server pool in it: a ClusterServerPool, SentinelServerPool or StandaloneServerPool is needed"),
    }
}

/// Notes keys that stand there again further down: predixy takes the last one. Of those in `several` it takes all.
fn note_repeated(nodes: &[Node], several: &[&str], sheet: &mut Sheet) {
    for (index, node) in nodes.iter().enumerate() {
        let is_again = nodes[index + 1..].iter().any(|later| later.is(&node.key));
        if is_again && !several.iter().any(|key| node.is(key)) {
            sheet.note(&node.place, &node.key, "is said again, and the last one counts");
        }
    }
}

/// Reads a key at the top of the file that is no scope to look into.
fn read_global(node: &Node, sheet: &mut Sheet) {
    let (at, value) = (&node.place, node.value.as_str());
    if node.is_cut {
        sheet.note(at, &node.key, CUT);
    }
    if let Some((key, advice)) = LOST.iter().find(|(key, _)| node.is(key)) {
        check_inner(node, sheet);
        return sheet.lost(at, key, advice);
    }
    let Some(key) = CARRIED.iter().find(|key| node.is(key)) else {
        let known = LOST.iter().map(|(key, _)| *key).chain(CARRIED);
        return sheet.unknown(at, &node.key, known);
    };
    match *key {
        "Bind" => bind(node, sheet),
        "WorkerThreads" => {
            if let Some(threads) = number(value, at, key, sheet) {
                sheet.number("workers", threads, at, key);
            }
        }
        "MaxMemory" => match memory(value) {
            Some(0) => sheet.lost(at, key, "memory is always bounded, see limits.memory_max_bytes"),
            Some(bytes) => sheet.number("limits.memory_max_bytes", bytes, at, key),
            None => sheet.wrong(at, key, "allowed: a number, with K, M or G behind it if needed"),
        },
        "ClientTimeout" => {
            if let Some(seconds) = number(value, at, key, sheet) {
                sheet.number("timeouts.client_idle_ms", seconds.saturating_mul(1000), at, key);
            }
        }
        "Log" if value.is_empty() => {}
        "Log" => sheet.text("log.file", value, at, key),
        "CustomCommand" => {
            check_inner(node, sheet);
            sheet.lost(at, key, "commands of modules are learnt from the server");
        }
        "LatencyMonitor" => check_inner(node, sheet),
        // Pools and passwords of clients are read when all is known.
        _ => {}
    }
}

/// The one address that predixy listens on.
fn bind(node: &Node, sheet: &mut Sheet) {
    let at = &node.place;
    sheet.unset("listen");
    if node.value.starts_with('/') {
        return sheet.push("listen", format!("unix:{}", node.value), at, "Bind");
    }
    match node.value.rsplit_once(':') {
        Some((host, port)) => sheet.listen(host, port, at, "Bind"),
        None => sheet.wrong(at, "Bind", "not host:port, nor the path of a unix socket"),
    }
}

/// Checks the keys inside a scope that becomes nothing as a whole, so that a slip is seen here as in predixy.
fn check_inner(node: &Node, sheet: &mut Sheet) {
    for inner in &node.children {
        let known: &[&str] =
            match () {
                () if node.is("LatencyMonitor") => &["Commands", "TimeSpan"],
                () if node.is("DataCenter") => &["DC"],
                () if node.is("DC") => &["AddrPrefix", "ReadPolicy"],
                () if node.is("CustomCommand") => {
                    for key in inner.children.iter().filter(|key| {
                        !["Mode", "MinArgs", "MaxArgs"].iter().any(|known| key.is(known))
                    }) {
                        sheet.unknown(&key.place, &key.key, ["Mode", "MinArgs", "MaxArgs"]);
                    }
                    continue;
                }
                () => &[],
            };
        if known.iter().any(|known| inner.is(known)) {
            if inner.is("DC") {
                check_inner(inner, sheet);
            }
        } else {
            sheet.unknown(&inner.place, &inner.key, known.iter().copied());
        }
    }
}

/// A size as predixy writes it: a number of bytes, or with `B`, `K`, `KB`, `M`, `MB`, `G`, `GB` behind it.
fn memory(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let shift = match unit.to_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// A duration in microseconds: a number of seconds, or with `s`, `m` or `ms` (both milliseconds), `u` or `us` behind it.
fn duration_us(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit.to_lowercase().as_str() {
        "" | "s" => 1_000_000,
        "m" | "ms" => 1000,
        "u" | "us" => 1,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Splits digits from what stands behind them.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((whole(digits)?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("100M", Some(100 << 20)),
            ("1g", Some(1 << 30)),
            ("10k", Some(10 << 10)),
            ("7B", Some(7)),
            ("3GB", Some(3 << 30)),
            ("1T", None),
            ("", None),
            ("-1", None),
            ("99999999999999999G", None),
        ] {
            assert_eq!(memory(text), bytes, "{text}");
        }
        for (text, us) in [
            ("1", Some(1_000_000)),
            ("2s", Some(2_000_000)),
            ("5ms", Some(5000)),
            ("5m", Some(5000)),
            ("7us", Some(7)),
            ("7u", Some(7)),
            ("1h", None),
        ] {
            assert_eq!(duration_us(text), us, "{text}");
        }
    }
}
