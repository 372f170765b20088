//! Suggestions for sizes and times that are written as other programs take them.
//!
//! Not here: what is allowed (`describe`), which stands behind it in the message.
//!
//! Invariant: what a hint says to write is read as the value that was meant.

use super::Kind;

/// How sizes are written elsewhere, and here.
const SIZES: [(&str, &str); 12] = [
    ("k", "KiB"),
    ("kb", "KiB"),
    ("ki", "KiB"),
    ("kib", "KiB"),
    ("m", "MiB"),
    ("mb", "MiB"),
    ("mi", "MiB"),
    ("mib", "MiB"),
    ("g", "GiB"),
    ("gb", "GiB"),
    ("gi", "GiB"),
    ("gib", "GiB"),
];

/// Units of time and their microseconds.
const TIMES: [(&str, u64); 9] = [
    ("us", 1),
    ("µs", 1),
    ("microseconds", 1),
    ("ms", 1_000),
    ("milliseconds", 1_000),
    ("s", 1_000_000),
    ("seconds", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
];

impl Kind {
    /// What to write instead; empty where nobody knows.
    pub(super) fn hint(&self, text: &str) -> String {
        let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = (text[..end].parse::<u64>(), text[end..].trim().to_lowercase());
        let Ok(number) = number else { return String::new() };
        let meant = match self {
            Self::Bytes { .. } => {
                let size = SIZES.iter().find(|(name, _)| *name == unit);
                size.map(|(_, unit)| format!("{number}{unit}"))
            }
            Self::Time { unit: own, .. } => {
                in_unit(number, &unit, own).map(|time| time.to_string())
            }
            _ => None,
        };
        meant.map_or_else(String::new, |meant| format!(" (write {meant})"))
    }
}

/// A time in another unit, if it is a whole number of it.
fn in_unit(number: u64, unit: &str, own: &str) -> Option<u64> {
    let us_of = |unit: &str| TIMES.iter().find(|(name, _)| *name == unit).map(|(_, us)| *us);
    let (us, own_us) = (number.checked_mul(us_of(unit)?)?, us_of(own)?);
    us.is_multiple_of(own_us).then(|| us / own_us)
}

#[cfg(test)]
mod tests {
    use crate::compile::Draft;
    use crate::kind::{Item, Raw, Scalar};
    use crate::options::OptionSpec;

    #[test]
    fn sizes_and_times_of_other_programs_are_understood() {
        for (name, text, meant) in [
            ("limits.memory_max_bytes", "512MB", " (write 512MiB)"),
            ("limits.memory_max_bytes", "1 g", " (write 1GiB)"),
            ("timeouts.request_ms", "5s", " (write 5000)"),
            ("timeouts.request_ms", "2m", " (write 120000)"),
            ("slowlog.slower_than_us", "10ms", " (write 10000)"),
            ("timeouts.request_ms", "100us", ""),
            ("timeouts.request_ms", "soon", ""),
            ("workers", "5s", ""),
        ] {
            let kind = &OptionSpec::find(name).expect("the option").kind;
            assert_eq!(kind.hint(text), meant, "{name} = {text:?}");
            let Some(meant) = meant.strip_prefix(" (write ").and_then(|m| m.strip_suffix(')'))
            else {
                continue;
            };
            let raw = Raw::One(Item { scalar: Scalar::Word(meant), span: None });
            assert!(kind.assign(&mut Draft::default(), &raw).is_ok(), "{name} = {meant:?}");
        }
    }
}
