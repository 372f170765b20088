//! A value as it was written, and how its words become numbers, sizes, switches and bits.
//!
//! The readers return `None` for what they do not take; the message is made by the kind, which knows what is allowed.
//!
//! Invariant: a reader takes exactly the forms that `describe` names.

use std::ops::Range;

/// One scalar, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum Scalar<'a> {
    /// From the command line or the environment: any kind may read it.
    Word(&'a str),
    /// A string of the file.
    Text(&'a str),
    /// An integer of the file; `None` when it does not fit.
    Integer(Option<i64>),
    /// A boolean of the file.
    Switch(bool),
    /// A key and its value, a string, of a table in the file whose keys are the operator's own.
    Pair(&'a str, &'a str),
    /// The same with an integer.
    Weighed(&'a str, &'a str),
    /// Something else of the file, by its name in TOML ("float", "table" ...).
    Other(&'static str),
}

/// A scalar and where it stands in the file.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) scalar: Scalar<'a>,
    pub(crate) span: Option<Range<usize>>,
}

/// A value as it was written: one item, or several.
#[derive(Clone, Debug)]
pub(crate) enum Raw<'a> {
    One(Item<'a>),
    List(Vec<Item<'a>>),
}

/// Characters of a wrong value that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;

impl Scalar<'_> {
    /// The value for a message, short and without control characters.
    pub(super) fn shown(&self) -> String {
        let cut = |text: &str| {
            let mut shown: String =
                text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
            if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
                shown.push_str("...");
            }
            shown
        };
        match self {
            Self::Word(word) => format!("`{}`", cut(word)),
            Self::Text(text) => format!("the string \"{}\"", cut(text)),
            Self::Integer(Some(n)) => format!("{n}"),
            Self::Integer(None) => "a number that is too large".to_owned(),
            Self::Switch(value) => value.to_string(),
            // The value may be a password that stands in the wrong table.
            Self::Pair(key, _) => format!("the entry \"{}\"", cut(key)),
            Self::Weighed(..) => "an integer".to_owned(),
            Self::Other(name) => format!("{} {name}", article(name)),
        }
    }

    /// The type of the value only, for options whose value is not to be shown.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Word("") | Self::Text("") => "an empty string",
            Self::Word(_) | Self::Text(_) => "a string",
            Self::Integer(_) => "a number",
            Self::Switch(_) => "true or false",
            Self::Pair(..) => "a string",
            Self::Weighed(..) => "a number",
            Self::Other("table") => "a table",
            Self::Other("list") => "a list",
            Self::Other(_) => "another type",
        }
    }
}

/// "a" or "an", as the word's first letter asks for.
fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// The items of a value, one or many.
pub(super) fn items<'r, 'a>(raw: &'r Raw<'a>) -> &'r [Item<'a>] {
    match raw {
        Raw::One(item) => std::slice::from_ref(item),
        Raw::List(items) => items,
    }
}

/// The text of a scalar that is one.
pub(super) fn text<'a>(scalar: &Scalar<'a>) -> Option<&'a str> {
    match scalar {
        Scalar::Word(text) | Scalar::Text(text) => Some(text),
        _ => None,
    }
}

/// The number of a scalar that is one. A string in the file is none: TOML has numbers.
pub(super) fn integer(scalar: &Scalar<'_>) -> Option<u64> {
    match scalar {
        Scalar::Integer(n) => n.and_then(|n| u64::try_from(n).ok()),
        Scalar::Word(word) if word.bytes().all(|b| b.is_ascii_digit()) => word.parse().ok(),
        _ => None,
    }
}

/// Keeps a number inside bounds, in the type of the field.
pub(super) fn within<T>(min: T, max: T) -> impl Fn(u64) -> Option<T>
where
    T: TryFrom<u64> + PartialOrd,
{
    move |n| T::try_from(n).ok().filter(|n| *n >= min && *n <= max)
}

/// Reads `64MiB`. Only the unambiguous units are taken: `MB` is 1000² to some and 1024² to Redis.
pub(crate) fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A boolean; words in the forms people write.
pub(super) fn switch(scalar: &Scalar<'_>) -> Option<bool> {
    match scalar {
        Scalar::Switch(value) => Some(*value),
        Scalar::Word("true" | "yes" | "on") => Some(true),
        Scalar::Word("false" | "no" | "off") => Some(false),
        _ => None,
    }
}

/// Permission bits, always as a string: the numbers `0o770` and `504` are the same to TOML, and a plain `770`, which is
/// what people would write, would silently be something else.
pub(super) fn mode(scalar: &Scalar<'_>) -> Option<u32> {
    text(scalar).and_then(octal)
}

/// Reads `0770`.
pub(crate) fn octal(text: &str) -> Option<u32> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let mode = is_octal.then(|| u32::from_str_radix(text, 8).ok()).flatten()?;
    (mode <= 0o777).then_some(mode)
}

/// Reads `3` or `0-3`.
pub(super) fn cpu_range(word: &str) -> Option<std::ops::RangeInclusive<usize>> {
    let number = |text: &str| {
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<usize>().ok()).flatten()
    };
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [("0B", 0), ("64MiB", 64 << 20), ("1 gib", 1 << 30), ("3KiB", 3072)] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "1MB", "1k", "-1KiB", "1.5MiB", "99999999999999GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn modes_are_octal_strings_only() {
        assert_eq!(mode(&Scalar::Text("0770")), Some(0o770));
        assert_eq!(mode(&Scalar::Word("700")), Some(0o700));
        for scalar in [
            Scalar::Integer(Some(770)),
            Scalar::Text("0999"),
            Scalar::Text("1777"),
            Scalar::Text("7"),
        ] {
            assert_eq!(mode(&scalar), None, "{scalar:?}");
        }
    }

    #[test]
    fn words_of_cpus() {
        assert_eq!(cpu_range("0-3"), Some(0..=3));
        assert_eq!(cpu_range("7"), Some(7..=7));
        for word in ["", "3-1", "a", "-1", "1-", "+1"] {
            assert_eq!(cpu_range(word), None, "{word}");
        }
    }
}
