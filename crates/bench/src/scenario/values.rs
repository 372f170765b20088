//! How single values of a scenario are written: numbers, sizes, durations, and the small forms such as `zipf:0.99`.
//!
//! The functions on `&str` serve the command line as well. Each error says what was found and what is allowed, and
//! nothing here knows where the value stands.
//!
//! Invariant: a reader accepts exactly the forms that its error text names.

use std::ops::RangeInclusive;

use config::suggest::closest;
use toml::de::DeValue;

use super::limits::{
    BYTES_PER_S_MAX, CPU_MAX, DURATION_S_MAX, KEY_BYTES_MAX, NAME_CHARS_MAX, RATE_MAX,
    VALUE_BYTES_MAX,
};
use super::reader::{found, shown};
use crate::plan::{Distribution, Figure, NetDriver, Shape, TargetKind, Tool, TopologyKind};
use crate::template::Template;

/// Reads a whole number within bounds.
pub(super) fn whole<T: TryFrom<u64>>(
    allowed: RangeInclusive<u64>,
) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        integer(value)
            .filter(|number| allowed.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| {
                let (low, high) = (allowed.start(), allowed.end());
                format!("found {}; allowed: a whole number from {low} to {high}", found(value))
            })
    }
}

/// Reads a number within bounds; whole numbers count.
pub(super) fn real(
    allowed: RangeInclusive<f64>,
    unit: &str,
) -> impl Fn(&DeValue<'_>) -> Result<f64, String> {
    move |value| {
        number(value).filter(|number| allowed.contains(number)).ok_or_else(|| {
            let (low, high) = (allowed.start(), allowed.end());
            format!("found {}; allowed: a number{unit} from {low} to {high}", found(value))
        })
    }
}

/// Reads seconds as milliseconds.
pub(super) fn seconds(least_s: f64) -> impl Fn(&DeValue<'_>) -> Result<u64, String> {
    move |value| real(least_s..=DURATION_S_MAX, " of seconds")(value).map(milliseconds)
}

/// Seconds as whole milliseconds. Bounded by the caller, so the conversion loses nothing but fractions.
#[must_use]
pub fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}

/// Reads `true` or `false`.
pub(super) fn switch(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("found {}; allowed: true or false", found(value)))
}

/// Reads a text that is not empty.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_str().map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("found {}; allowed: a text that is not empty", found(value))),
    }
}

/// Reads a name: one line, short enough for a column of a table.
pub(super) fn name(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    if name.chars().count() > NAME_CHARS_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "found {}; allowed: one line of at most {NAME_CHARS_MAX} characters",
            found(value)
        ));
    }
    Ok(name)
}

/// Reads a text by one of the functions below.
pub(super) fn word<T>(
    read: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| match value {
        DeValue::String(text) => read(text),
        // A single CPU or a length may be written without quotes.
        DeValue::Integer(number) if number.radix() == 10 => read(number.as_str()),
        other => Err(format!("found {}; allowed: a text", found(other))),
    }
}

/// Reads a request. See [`Template::parse`].
///
/// # Errors
/// As [`Template::parse`].
pub fn request(text: &str) -> Result<Template, String> {
    Template::parse(text)
}

/// Reads the name of a load's tool.
///
/// # Errors
/// Names the allowed ones.
pub fn tool(text: &str) -> Result<Tool, String> {
    choice(text, TOOLS)
}

/// Reads a topology's kind.
pub(super) fn topology_kind(text: &str) -> Result<TopologyKind, String> {
    choice(text, TOPOLOGY_KINDS)
}

/// Reads a target's kind. A `command` is completed by its `program`.
pub(super) fn target_kind(text: &str) -> Result<TargetKind, String> {
    choice(text, TARGET_KINDS).map(|make| make())
}

/// Reads the driver of a floor or a respool.
///
/// # Errors
/// Names the allowed ones.
pub fn net_driver(text: &str) -> Result<NetDriver, String> {
    choice(text, NET_DRIVERS)
}

/// Reads a figure's name, as in `run.json`.
///
/// # Errors
/// Names the allowed ones.
pub fn figure(text: &str) -> Result<Figure, String> {
    choice(text, FIGURES)
}

/// Reads `closed`, `open:RATE`, `storm` or `slow-reader:BYTES_PER_S`.
///
/// # Errors
/// Names the allowed forms.
pub fn shape(text: &str) -> Result<Shape, String> {
    let (kind, argument) = split(text);
    match (kind, argument) {
        ("closed", None) => return Ok(Shape::Closed),
        ("storm", None) => return Ok(Shape::Storm),
        ("open", Some(rate)) => {
            if let Some(rate) = rate.parse().ok().filter(|rate| *rate > 0.0 && *rate <= RATE_MAX) {
                return Ok(Shape::Open { rate });
            }
        }
        ("slow-reader", Some(bytes)) => {
            let bytes = bytes.parse().ok().filter(|bytes| (1..=BYTES_PER_S_MAX).contains(bytes));
            if let Some(bytes_per_s) = bytes {
                return Ok(Shape::SlowReader { bytes_per_s });
            }
        }
        _ => {}
    }
    Err(format!(
        "found `{}`; allowed: \"closed\", \"open:REQUESTS_PER_S\", \"storm\", \"slow-reader:BYTES_PER_S\"",
        shown(text)
    ))
}

/// Reads `uniform`, `zipf:EXPONENT` or `sequential`.
///
/// # Errors
/// Names the allowed forms.
pub fn distribution(text: &str) -> Result<Distribution, String> {
    match split(text) {
        ("uniform", None) => return Ok(Distribution::Uniform),
        ("sequential", None) => return Ok(Distribution::Sequential),
        ("zipf", Some(exponent)) => {
            if let Some(exponent) = exponent.parse().ok().filter(|e| *e > 0.0 && *e <= 10.0) {
                return Ok(Distribution::Zipf { exponent });
            }
        }
        _ => {}
    }
    Err(format!(
        "found `{}`; allowed: \"uniform\", \"sequential\", \"zipf:EXPONENT\" with an exponent above 0, at most 10",
        shown(text)
    ))
}

/// Reads a key's length: `16`, or a range `9-14`.
///
/// # Errors
/// Names the allowed forms.
pub fn key_bytes(text: &str) -> Result<(u32, u32), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let number = text.trim().parse::<u32>().ok()?;
        (1..=KEY_BYTES_MAX).contains(&u64::from(number)).then_some(number)
    };
    match (number(low), number(high)) {
        (Some(low), Some(high)) if low <= high => Ok((low, high)),
        _ => Err(format!(
            "found `{}`; allowed: a number of bytes from 1 to {KEY_BYTES_MAX}, or a range such as \"9-14\"",
            shown(text)
        )),
    }
}

/// Reads a size: `100`, `16B`, `4KiB`, `1MiB`.
///
/// # Errors
/// Names the allowed forms.
pub fn value_bytes(text: &str) -> Result<u32, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "kib" => Some(1024),
        "mib" => Some(1024 * 1024),
        _ => None,
    };
    digits
        .trim()
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .filter(|bytes| *bytes <= VALUE_BYTES_MAX)
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| {
            format!(
                "found `{}`; allowed: a number of bytes from 0 to {VALUE_BYTES_MAX}, or with a unit: \"16B\", \"4KiB\", \"1MiB\"",
                shown(text)
            )
        })
}

/// Reads CPU numbers: `0`, `0-1,3`.
///
/// # Errors
/// Names the allowed forms.
pub fn cpus(text: &str) -> Result<Vec<u32>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        match (low.trim().parse::<u32>(), high.trim().parse::<u32>()) {
            (Ok(low), Ok(high)) if low <= high && high <= CPU_MAX => cpus.extend(low..=high),
            _ => {
                return Err(format!(
                    "found `{}`; allowed: numbers of CPUs from 0 to {CPU_MAX} and ranges, such as \"0-1,3\"",
                    shown(text)
                ));
            }
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// A size as the files write it: `16B`, `4KiB`, `1MiB`.
#[must_use]
pub fn size(bytes: u32) -> String {
    match bytes {
        0 => "0B".to_owned(),
        _ if bytes.is_multiple_of(1024 * 1024) => format!("{}MiB", bytes / (1024 * 1024)),
        _ if bytes.is_multiple_of(1024) => format!("{}KiB", bytes / 1024),
        _ => format!("{bytes}B"),
    }
}

/// One of several words.
fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let meant = closest(text, names.iter().copied())
        .map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    Err(format!("found `{}`; allowed: {}{meant}", shown(text), names.join(", ")))
}

/// `kind:argument`.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((kind, argument)) => (kind, Some(argument)),
        None => (text, None),
    }
}

/// An integer that is not negative.
fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Any number.
fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(_) => integer(value).map(|number| number as f64),
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

/// Names of the tools.
const TOOLS: &[(&str, Tool)] = &[
    ("builtin", Tool::Builtin),
    ("redis-benchmark", Tool::RedisBenchmark),
    ("valkey-benchmark", Tool::ValkeyBenchmark),
];

/// Names of the kinds of topology.
const TOPOLOGY_KINDS: &[(&str, TopologyKind)] = &[
    ("single", TopologyKind::Single),
    ("shards", TopologyKind::Shards),
    ("cluster", TopologyKind::Cluster),
];

/// Makes an empty kind; a function, because a program's words are owned.
type MakeKind = fn() -> TargetKind;

/// Names of the kinds of target. `External` has none: such targets come from the command line.
const TARGET_KINDS: &[(&str, MakeKind)] = &[
    ("direct", || TargetKind::Direct),
    ("respool", || TargetKind::Respool),
    ("nutcracker", || TargetKind::Nutcracker),
    ("predixy", || TargetKind::Predixy),
    ("haproxy", || TargetKind::Haproxy),
    // Its `driver` is read beside it.
    ("floor", || TargetKind::Floor(NetDriver::Epoll)),
    ("command", || TargetKind::Command(Vec::new())),
];

/// Names of the drivers.
const NET_DRIVERS: &[(&str, NetDriver)] =
    &[("epoll", NetDriver::Epoll), ("uring", NetDriver::Uring)];

/// Names of the figures.
pub(super) const FIGURES: &[(&str, Figure)] = &[
    ("throughput", Figure::Throughput),
    ("proxy_cpu", Figure::ProxyCpu),
    ("proxy_user", Figure::ProxyUser),
    ("proxy_system", Figure::ProxySystem),
    ("server_cpu", Figure::ServerCpu),
    ("server_user", Figure::ServerUser),
    ("server_system", Figure::ServerSystem),
    ("p50", Figure::P50),
    ("p99", Figure::P99),
    ("p999", Figure::P999),
    ("proxy_rss", Figure::ProxyRss),
    ("idle_rss", Figure::IdleRss),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_forms_are_read() {
        assert_eq!(shape("open:2500.5"), Ok(Shape::Open { rate: 2500.5 }));
        assert_eq!(shape("slow-reader:4096"), Ok(Shape::SlowReader { bytes_per_s: 4096 }));
        assert_eq!(distribution("zipf:0.99"), Ok(Distribution::Zipf { exponent: 0.99 }));
        assert_eq!(key_bytes("9-14"), Ok((9, 14)));
        assert_eq!(key_bytes("16"), Ok((16, 16)));
        assert_eq!(cpus("3,0-1,1"), Ok(vec![0, 1, 3]));
        for (text, bytes) in
            [("0", 0), ("100", 100), ("16B", 16), ("4KiB", 4096), ("1MiB", 1 << 20)]
        {
            assert_eq!(value_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn small_forms_are_refused() {
        for text in
            ["open", "open:0", "open:-1", "open:nan", "closed:1", "storm:2", "slow-reader:0", ""]
        {
            assert!(shape(text).unwrap_err().contains("allowed: \"closed\""), "{text}");
        }
        for text in ["zipf", "zipf:0", "zipf:inf", "uniform:1", "normal"] {
            assert!(distribution(text).unwrap_err().contains("zipf:EXPONENT"), "{text}");
        }
        for text in ["", "0", "14-9", "9-", "-9", "70000"] {
            assert!(key_bytes(text).unwrap_err().contains("range such as"), "{text}");
        }
        for text in ["", "-1", "1KB", "1 GiB", "65MiB", "99999999999999999999MiB"] {
            assert!(value_bytes(text).unwrap_err().contains("1MiB"), "{text}");
        }
        for text in ["", "a", "1-0", "1024", "0,,1"] {
            assert!(cpus(text).unwrap_err().contains("0-1,3"), "{text}");
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for bytes in [0, 1, 16, 1023, 1024, 4096, 65_536, 1 << 20, 3 << 20] {
            assert_eq!(value_bytes(&size(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn figures_have_the_names_of_the_run_file() {
        for (name, figure) in FIGURES {
            assert_eq!(serde_json::to_string(figure).unwrap(), format!("\"{name}\""));
        }
        assert_eq!(
            figure("server_cpuu").unwrap_err(),
            "found `server_cpuu`; allowed: throughput, proxy_cpu, proxy_user, proxy_system, server_cpu, \
             server_user, server_system, p50, p99, p999, proxy_rss, idle_rss; did you mean `server_cpu`?"
        );
    }
}
