//! Values that several peers write alike: numbers, ports, choices of a pool.
//!
//! Invariant: nothing here takes a text that it does not understand as a whole.

use super::sheet::{Place, Sheet};

/// A whole number of digits only; no sign, no unit.
pub(super) fn whole(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A port, from 1 to 65535.
pub(super) fn port(text: &str) -> Option<u16> {
    whole(text).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)
}

/// A whole number, or a problem.
pub(super) fn number(text: &str, at: &Place, key: &str, sheet: &mut Sheet) -> Option<u64> {
    let number = whole(text);
    if number.is_none() {
        sheet.wrong(at, key, "not a whole number from 0 up");
    }
    number
}

/// One of several names, or a problem that lists them. The index of the name.
pub(super) fn choice(
    text: &str,
    names: &[&str],
    at: &Place,
    key: &str,
    sheet: &mut Sheet,
) -> Option<usize> {
    let index = names.iter().position(|name| *name == text);
    if index.is_none() {
        sheet.wrong(at, key, format!("allowed: {}", names.join(", ")));
    }
    index
}

/// Permission bits in octal, as our option takes them: `0770`.
pub(super) fn mode(text: &str, at: &Place, key: &str, sheet: &mut Sheet) -> Option<String> {
    let bits = u32::from_str_radix(text, 8)
        .ok()
        .filter(|bits| *bits <= 0o777 && text.bytes().all(|byte| byte.is_ascii_digit()));
    if bits.is_none() {
        sheet.wrong(at, key, "permissions are an octal number up to 777");
    }
    bits.map(|bits| format!("0{bits:03o}"))
}

/// The index of the pool to convert: the one that is asked for, or the only one.
pub(super) fn pool(
    names: &[&str],
    wanted: Option<&str>,
    file: &str,
    sheet: &mut Sheet,
) -> Option<usize> {
    let listed = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(*name));
    if let Some((_, name)) = twice {
        sheet.wrong(&Place::of_file(file), "", format!("has two pools with the name `{name}`"));
        return None;
    }
    let message = match (wanted, names.len()) {
        (_, 0) => "has no pool in it".to_owned(),
        (Some(wanted), _) => match names.iter().position(|name| *name == wanted) {
            Some(index) => return Some(index),
            None => format!("has no pool `{}`; there are {}", wanted.escape_debug(), listed()),
        },
        (None, 1) => return Some(0),
        (None, count) => format!(
            "has {count} pools, and one respool serves one of them; choose it with --pool NAME, one of {}",
            listed()
        ),
    };
    sheet.wrong(&Place::of_file(file), "", message);
    None
}

/// A problem if a pool is asked for by name where a peer has no names for them.
pub(super) fn no_pools(wanted: Option<&str>, file: &str, sheet: &mut Sheet) {
    if wanted.is_some() {
        let message = "--pool is for files with several pools by name, which this kind has not";
        sheet.wrong(&Place::of_file(file), "", message);
    }
}
