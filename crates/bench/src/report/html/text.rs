//! Numbers and names as they stand in a picture: short, finite, and narrow enough for their place.
//!
//! No fonts are measured, because none are known: a report is read on other machines than it was made on. Widths are
//! estimated on the wide side (DejaVu Sans, one of the widest common system fonts), so that text which is said to fit does.
//!
//! Invariant: nothing here ever writes `NaN` or `inf`; a number that is none becomes [`NONE`] or, as a coordinate, 0.

use std::fmt;

/// What stands where there is no figure.
pub(super) const NONE: &str = "–";

/// A coordinate: at most one digit after the point, because a tenth of a pixel is not seen and a file has thousands.
#[derive(Clone, Copy)]
pub(super) struct Px(pub f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = if self.0.is_finite() { (self.0 * 10.0).round() } else { 0.0 };
        // Adding 0.0 turns a negative zero into a plain one.
        write!(f, "{}", tenths / 10.0 + 0.0)
    }
}

impl maud::Render for Px {
    fn render_to(&self, out: &mut String) {
        use fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!(out, "{self}");
    }
}

/// Three significant digits, without an exponent: `0.0123`, `4.31`, `17.4`, `982`.
pub(super) fn sig3(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let size = value.abs();
    let digits = match size {
        0.0 => 0,
        s if s < 0.0995 => 4,
        s if s < 0.9995 => 3,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A ratio: two digits after the point, which is more than most runs can bear.
pub(super) fn ratio(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { NONE.to_owned() }
}

/// A count with k, M or G: `174 k`, `1.71 M`.
pub(super) fn si(value: f64) -> String {
    let size = value.abs();
    let (divisor, unit) = match size {
        s if s >= 999.5e6 => (1e9, " G"),
        s if s >= 999.5e3 => (1e6, " M"),
        s if s >= 999.5 => (1e3, " k"),
        _ => (1.0, ""),
    };
    format!("{}{unit}", sig3(value / divisor))
}

/// As [`si`], without the zeros that a tick of an axis does not need: `200 k`, `1.5 M`.
pub(super) fn si_tick(value: f64) -> String {
    let text = si(value);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = trim_zeros(number);
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

/// A tick of an axis of plain numbers.
pub(super) fn tick(value: f64) -> String {
    trim_zeros(&sig3(value)).to_owned()
}

/// A time given in microseconds, with its unit: `84 µs`, `1.3 ms`, `2 s`.
pub(super) fn micros(us: f64) -> String {
    match us.abs() {
        s if s >= 999.5e3 => format!("{} s", tick(us / 1e6)),
        s if s >= 999.5 => format!("{} ms", tick(us / 1e3)),
        _ => format!("{} µs", tick(us)),
    }
}

/// A number of bytes in binary units: `16 B`, `64 KiB`.
pub(super) fn bytes(count: f64) -> String {
    match count {
        c if c >= 1024.0 * 1024.0 * 1024.0 => format!("{} GiB", tick(c / 1024.0 / 1024.0 / 1024.0)),
        c if c >= 1024.0 * 1024.0 => format!("{} MiB", tick(c / 1024.0 / 1024.0)),
        c if c >= 1024.0 => format!("{} KiB", tick(c / 1024.0)),
        c => format!("{} B", tick(c)),
    }
}

/// A length of time for a person: `48 s`, `12 min`, `1.5 h`.
pub(super) fn length(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => NONE.to_owned(),
        s if s >= 5400.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 90.0 => format!("{:.0} min", s / 60.0),
        s => format!("{s:.0} s"),
    }
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Estimated width of `text` at a font size, in the same unit; rather too much than too little.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| em(c) * size).sum()
}

fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.36,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '·' => 0.44,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.02,
        '=' | '+' | '<' | '>' | '×' | '&' => 0.85,
        c if c.is_ascii_uppercase() => 0.75,
        c if c.is_ascii() => 0.65,
        // Letters with accents are as wide as plain ones; from the Hangul on, scripts are square.
        c if (c as u32) < 0x1100 => 0.75,
        _ => 1.1,
    }
}

/// `text`, cut with an ellipsis when it is wider than `room` at that font size.
pub(super) fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut left = room - width("…", size);
    let kept: String = text
        .chars()
        .take_while(|&c| {
            left -= em(c) * size;
            left >= 0.0
        })
        .collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(sig3(4.3149), "4.31");
        assert_eq!(sig3(9.996), "10.0");
        assert_eq!(sig3(0.0), "0");
        assert_eq!(sig3(0.9), "0.900");
        assert_eq!(si(174_321.0), "174 k");
        assert_eq!(si(999_600.0), "1.00 M");
        assert_eq!(si(1_708_000.0), "1.71 M");
        assert_eq!(si_tick(1_500_000.0), "1.5 M");
        assert_eq!(si_tick(200_000.0), "200 k");
        assert_eq!(micros(1300.0), "1.3 ms");
        assert_eq!(micros(84.0), "84 µs");
        assert_eq!(bytes(65_536.0), "64 KiB");
        assert_eq!(length(7200.0), "2.0 h");
    }

    #[test]
    fn what_is_no_number_never_shows() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for text in
                [sig3(odd), si(odd), tick(odd), micros(odd), length(odd), Px(odd).to_string()]
            {
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
        }
        assert_eq!(Px(-0.01).to_string(), "0");
        assert_eq!(Px(12.345).to_string(), "12.3");
    }

    #[test]
    fn a_name_is_cut_to_its_room() {
        assert_eq!(fit("direct", 13.0, 100.0), "direct");
        let cut = fit("a very long name of a target", 13.0, 80.0);
        assert!(cut.ends_with('…') && width(&cut, 13.0) <= 80.0, "{cut}");
        // No room at all still gives something, and no panic.
        assert_eq!(fit("abc", 13.0, 0.0), "…");
    }
}
