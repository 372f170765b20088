//! Patterns as Redis matches them (`stringmatchlen` in its util.c): `*`, `?`, `[a-z]`, `[^a]`, `\` for the next one as it is.
//!
//! ```text
//!   matches ── short and ordinary ──▶ walk: back to the last star where something does not fit
//!      └─────── too many steps ─────▶ Matcher: the pattern taken apart once, each part between stars looked for with bits, 64 of its elements at a time
//! ```
//! To go back to the last star only is enough: what stands before it fits already, and no longer text for an earlier star changes what may follow
//! (`skipLongerMatches` in Redis). A server's own way takes the product of both lengths, which is a second for a pattern of 10 KB and a key of 20 KB
//! that were made for it; such a pattern must not hold a worker, so that one is matched by [`Matcher`].
//!
//! Not here: what is done where a client's pattern is matched with all of many texts; that has a budget (`limits::MATCH_STEPS_PER_BYTE`).
//!
//! Invariant: whatever the pattern, the answer is a server's, also for what is malformed (a `[` that is not closed, a `\` at the end), and the time
//! is at most the length of the pattern, and that of the text times a 64th of the pattern's.

mod begins;
mod matcher;

pub use begins::{Begins, FEW};
pub use matcher::{Matcher, Spent};

use core::ffi::c_char;

/// Stars with something behind them that a pattern may have; one with more matches nothing (`nesting` in Redis' stringmatchlen_impl, since 6.2.16,
/// 7.0.15 and 7.2.6). Some in a row count as one.
const STARS_MAX: usize = 1_000;

/// Steps for each byte of pattern and text after which [`Matcher`] is the cheaper way.
const STEPS_PER_BYTE: usize = 8;

/// Bytes of the text that are passed over in one step where the pattern goes on with an ordinary byte.
const BYTES_PER_STEP: usize = 16;

/// Whether the text matches as it does at a server. There an empty text matches the empty pattern only, not `*`.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    by_begin(pattern, text).unwrap_or_else(|| matches_at_all(pattern, text))
}

/// The same, if it takes no more steps than are left.
///
/// # Errors
/// It takes more.
pub fn matches_within(pattern: &[u8], text: &[u8], left: &mut usize) -> Result<bool, Spent> {
    match by_begin(pattern, text) {
        Some(found) => left.checked_sub(1).ok_or(Spent).map(|less| {
            *left = less;
            found
        }),
        None => matches_at_all_within(pattern, text, left),
    }
}

/// Whether a rule of respool's own means this text: as [`matches()`], and stars match an empty text as well.
#[must_use]
pub fn means(pattern: &[u8], text: &[u8]) -> bool {
    by_begin(pattern, text).unwrap_or_else(|| match text.is_empty() {
        true => pattern.iter().all(|byte| *byte == b'*'),
        false => matches_at_all(pattern, text),
    })
}

/// Whether the text matches, if the ordinary bytes at the begin of the pattern tell: one is another one in the text, or behind them there is nothing but a star.
/// Of most keys that are compared with many patterns nothing else is looked at.
#[inline]
fn by_begin(pattern: &[u8], text: &[u8]) -> Option<bool> {
    for (at, (one, byte)) in pattern.iter().zip(text).enumerate() {
        if is_special(*one) {
            return (*one == b'*' && at + 1 == pattern.len()).then_some(true);
        }
        if one != byte {
            return Some(false);
        }
    }
    None
}

fn matches_at_all(pattern: &[u8], text: &[u8]) -> bool {
    let mut left = usize::MAX;
    matches_at_all_within(pattern, text, &mut left).unwrap_or(false)
}

fn matches_at_all_within(pattern: &[u8], text: &[u8], left: &mut usize) -> Result<bool, Spent> {
    let allowed = STEPS_PER_BYTE * (pattern.len() + text.len()) + 1;
    let mut steps = allowed.min(*left);
    let before = steps;
    let found = walk(pattern, text, &mut steps);
    *left -= before - steps;
    match found {
        Some(found) => Ok(found),
        None => Matcher::new(pattern).matches_within(text, left),
    }
}

/// Whether this byte means something else than itself.
#[inline]
fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// Whether the text matches; `None`: not found out within so many steps.
fn walk(pattern: &[u8], text: &[u8], steps: &mut usize) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    if text.is_empty() {
        return Some(pattern.is_empty());
    }
    let (mut p, mut t, mut stars) = (0, 0, 0);
    // Where to go on if what follows the last star does not fit: behind it, with one more byte taken by it.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += pattern[p..].iter().take_while(|byte| **byte == b'*').count();
            if p == pattern.len() {
                return Some(true);
            }
            stars += 1;
            if stars > STARS_MAX {
                return Some(false);
            }
            star = Some((p, t));
        }
        if let Some((behind, _)) = star.filter(|(behind, _)| *behind == p) {
            let Some(skipped) = may_begin_at(&pattern[behind..], &text[t..]) else {
                return Some(false);
            };
            *steps = steps.checked_sub(skipped / BYTES_PER_STEP)?;
            t += skipped;
            star = Some((behind, t));
        }
        let (used, fits) = match (&pattern[p..], text.get(t)) {
            ([], None) => return Some(true),
            // Whatever begins later has even less text.
            (_, None) => return Some(false),
            ([], Some(_)) => (0, false),
            (rest, Some(byte)) => one(rest, *byte),
        };
        *steps = steps.checked_sub(used.max(1))?;
        if fits {
            (p, t) = (p + used, t + 1);
            continue;
        }
        let Some((behind, taken)) = star.filter(|(_, taken)| taken + 1 < text.len()) else {
            return Some(false);
        };
        star = Some((behind, taken + 1));
        (p, t) = (behind, taken + 1);
    }
}

/// How many bytes from the beginning of the text on the pattern, which begins with no star, cannot match; `None`: it matches nowhere.
fn may_begin_at(pattern: &[u8], text: &[u8]) -> Option<usize> {
    match pattern {
        [first, ..] if !is_special(*first) => memchr::memchr(*first, text),
        _ => Some(0),
    }
}

/// So many bytes of the pattern its first element has, which is no star, and whether it fits this byte.
fn one(pattern: &[u8], byte: u8) -> (usize, bool) {
    match pattern {
        [b'?', ..] => (1, true),
        [b'\\', escaped, ..] => (2, *escaped == byte),
        [b'[', set @ ..] => {
            let mut found = false;
            let (used, negated) = each_of_set(set, |low, high| {
                found |= (signed(low)..=signed(high)).contains(&signed(byte));
            });
            (used + 1, found != negated)
        }
        [first, ..] => (1, *first == byte),
        [] => (0, false),
    }
}

/// The ranges of a set, from behind its bracket on; how many bytes it has with its closing bracket, if it is closed, and whether all others are meant.
fn each_of_set(set: &[u8], mut each: impl FnMut(u8, u8)) -> (usize, bool) {
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    loop {
        match &set[at.min(set.len())..] {
            [] => return (at, negated),
            [b'\\', escaped, ..] => {
                each(*escaped, *escaped);
                at += 2;
            }
            [b']', ..] => return (at + 1, negated),
            [from, b'-', to, ..] => {
                match signed(*from) <= signed(*to) {
                    true => each(*from, *to),
                    false => each(*to, *from),
                }
                at += 3;
            }
            [first, ..] => {
                each(*first, *first);
                at += 1;
            }
        }
    }
}

/// A byte as a server compares it in a range: as C's `char` on the machine that it was built for, so `[a-\xff]` is from -1 to 97 on most.
fn signed(byte: u8) -> i32 {
    match c_char::MIN == 0 {
        true => i32::from(byte),
        false => i32::from(byte.cast_signed()),
    }
}

/// Whether a text that begins with `begin` could match.
pub(crate) fn may_begin_with(pattern: &[u8], begin: &[u8]) -> bool {
    let plain = pattern.iter().position(|byte| is_special(*byte)).unwrap_or(pattern.len());
    let common = plain.min(begin.len());
    pattern[..common] == begin[..common] && (plain < pattern.len() || plain >= begin.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn as_redis_matches() {
        let yes = [
            ("", ""),
            ("*", "anything"),
            ("h?llo", "hello"),
            ("h*llo", "hllo"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("\\*", "*"),
            ("a\\", "a\\"),
            ("a[\\]]b", "a]b"),
            ("a*b*c", "axxbyybzzc"),
            ("[abc", "c"),
            ("**a**", "a"),
            ("news.*.eu", "news.sport.eu"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no = [
            ("h?llo", "hllo"),
            ("h[ae]llo", "hillo"),
            ("h[^e]llo", "hello"),
            ("\\*", "x"),
            ("a*b*c", "axxbyybzz"),
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("[^a-z]", "q"),
            ("*", ""),
            ("**", ""),
            ("[", "["),
            ("[", ""),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        // In a rule of respool's own a star means what it looks like.
        assert!(means(b"*", b"") && means(b"**", b"") && means(b"", b"") && !means(b"?", b""));
    }

    /// Redis' way, line by line (`stringmatchlen_impl` of 7.2.6, without `nocase`); the byte behind a string is a zero, as it is there.
    fn oracle(pattern: &[u8], text: &[u8], skip: &mut bool, nesting: usize) -> bool {
        let (mut p, mut t) = (pattern, text);
        let at = |p: &[u8], index: usize| p.get(index).copied().unwrap_or(0);
        if nesting > 1_000 {
            return false;
        }
        while !p.is_empty() && !t.is_empty() {
            match p[0] {
                b'*' => {
                    while at(p, 1) == b'*' {
                        p = &p[1..];
                    }
                    if p.len() == 1 {
                        return true;
                    }
                    while !t.is_empty() {
                        if oracle(&p[1..], t, skip, nesting + 1) {
                            return true;
                        }
                        if *skip {
                            return false;
                        }
                        t = &t[1..];
                    }
                    *skip = true;
                    return false;
                }
                b'?' => (p, t) = (&p[1..], &t[1..]),
                b'[' => {
                    p = &p[1..];
                    let negated = at(p, 0) == b'^';
                    p = &p[usize::from(negated)..];
                    let mut found = false;
                    while !p.is_empty() {
                        if p.len() >= 2 && p[0] == b'\\' {
                            p = &p[1..];
                            found |= p[0] == t[0];
                        } else if p[0] == b']' {
                            p = &p[1..];
                            break;
                        } else if p.len() >= 3 && p[1] == b'-' {
                            let (mut low, mut high) = (signed(p[0]), signed(p[2]));
                            if low > high {
                                core::mem::swap(&mut low, &mut high);
                            }
                            p = &p[2..];
                            found |= (low..=high).contains(&signed(t[0]));
                        } else {
                            found |= p[0] == t[0];
                        }
                        p = &p[1..];
                    }
                    if found == negated {
                        return false;
                    }
                    t = &t[1..];
                }
                _ => {
                    if p[0] == b'\\' && p.len() >= 2 {
                        p = &p[1..];
                    }
                    if p[0] != t[0] {
                        return false;
                    }
                    (p, t) = (&p[1..], &t[1..]);
                }
            }
            if t.is_empty() {
                while at(p, 0) == b'*' {
                    p = &p[1..];
                }
                break;
            }
        }
        p.is_empty() && t.is_empty()
    }

    fn as_oracle(pattern: &[u8], text: &[u8]) -> bool {
        oracle(pattern, text, &mut false, 0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Whatever stands in it, a pattern means what it means to a server, whichever way it is matched.
        #[test]
        fn every_way_matches_as_a_server_does(
            pattern in proptest::collection::vec(
                prop_oneof![
                    4 => proptest::sample::select(&b"ab*?"[..]),
                    3 => proptest::sample::select(&b"[]^-\\a"[..]),
                    1 => any::<u8>(),
                ],
                0..14,
            ),
            text in proptest::collection::vec(
                prop_oneof![
                    6 => proptest::sample::select(&b"ab"[..]),
                    2 => proptest::sample::select(&b"[]^-\\*?"[..]),
                    1 => any::<u8>(),
                ],
                0..12,
            ),
        ) {
            let expected = as_oracle(&pattern, &text);
            prop_assert_eq!(matches(&pattern, &text), expected);
            prop_assert_eq!(walk(&pattern, &text, &mut usize::MAX.clone()), Some(expected));
            prop_assert_eq!(Matcher::new(&pattern).matches(&text), expected);
            // Asked again it has nothing left of the first text.
            let mut matcher = Matcher::new(&pattern);
            for other in [&text[..], b"abab", b"", &text[..text.len() / 2], &text[..]] {
                prop_assert_eq!(matcher.matches(other), as_oracle(&pattern, other));
            }
        }

        /// The same of parts that are longer than a word of bits.
        #[test]
        fn long_parts_match_as_a_server_does(
            parts in proptest::collection::vec(("[ab?]{0,3}", 0usize..90), 1..4),
            text in "[ab]{0,60}a{0,140}[ab]{0,140}",
            ends in any::<bool>(),
        ) {
            let parts = parts.iter().map(|(begin, count)| begin.clone() + &"a".repeat(*count));
            let mut pattern = parts.collect::<Vec<String>>().join("*");
            if ends {
                pattern.push('*');
            }
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            let expected = as_oracle(pattern, text);
            prop_assert_eq!(Matcher::new(pattern).matches(text), expected);
            prop_assert_eq!(matches(pattern, text), expected);
        }
    }

    #[test]
    fn so_many_stars_match_nothing_as_at_a_server() {
        let text = [b'a'; 1_200];
        for (count, matches_all) in [(999, true), (1_000, true), (1_001, false)] {
            for end in ["", "*", "**"] {
                let pattern = [&b"*a".repeat(count)[..], end.as_bytes()].concat();
                assert_eq!(matches(&pattern, &text), matches_all, "{count} {end}");
                assert_eq!(Matcher::new(&pattern).matches(&text), matches_all, "{count} {end}");
            }
        }
        assert!(matches(&[b'*'; 2_000], &text));
    }

    /// Steps are counted, not seconds: each is some instructions.
    #[test]
    fn no_pattern_takes_long() {
        let text = vec![b'a'; 20_000];
        let many =
            |part: &[u8], count: usize, end: &[u8]| [b"*", &part.repeat(count)[..], end].concat();
        for pattern in [
            many(b"a", 10_000, b"b"),
            many(b"a", 10_000, b"b*"),
            many(b"?", 9_999, b"b*"),
            many(b"[ab]", 10_000, b"b*"),
            many(b"[^b-z]", 10_000, b"b*"),
            many(b"a*", 900, b"b*"),
            many(b"[aaaaaaaaaaaaaaaa]", 5_000, b"b*"),
            many(b"*", 10_000, b"b*"),
            many(b"\\a", 10_000, b"b*"),
        ] {
            let mut left = 8_000_000;
            let found = Matcher::new(&pattern).matches_within(&text, &mut left);
            assert_eq!(found, Ok(false), "{}", String::from_utf8_lossy(&pattern[..20]));
            assert!(!matches(&pattern, &text));
        }
        let mut left = 1_000_000;
        let found = Matcher::new(&many(b"a", 10_000, b"b*")).matches_within(&text, &mut left);
        assert_eq!(found, Err(Spent));
    }

    #[test]
    fn a_pattern_tells_what_it_may_begin_with() {
        for pattern in
            ["*", "__key*", "__keyevent@0__:expired", "__keyspace@?__:*", "[_]x", "_\\_key*"]
        {
            assert!(
                ["__keyspace@", "__keyevent@"]
                    .iter()
                    .any(|begin| may_begin_with(pattern.as_bytes(), begin.as_bytes())),
                "{pattern}"
            );
        }
        for pattern in ["news.*", "a", "__key", "_", "", "__keyx*"] {
            assert!(!may_begin_with(pattern.as_bytes(), b"__keyspace@"), "{pattern}");
        }
    }
}
