//! Patterns as Redis matches them (`stringmatchlen` in its util.c): `*`, `?`, `[a-z]`, `[^a]`, `\` for the next one as it is.
//!
//! A `*` is tried against ever longer texts; only the last one is ever taken back, so the time is bounded by the product of the lengths.
//!
//! Invariant: what is malformed (a `[` that is not closed, a `\` at the end) matches as it does in Redis.

/// Whether the text matches.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star does not fit: behind it, with one more byte taken by it.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        let fits = match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (None, Some(_)) | (Some(_), None) => None,
            (Some(_), Some(byte)) => one(&pattern[p..], *byte),
        };
        match (fits, star) {
            (Some(used), _) => (p, t) = (p + used, t + 1),
            (None, Some((behind, taken))) if taken < text.len() => {
                star = Some((behind, taken + 1));
                (p, t) = (behind, taken + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Whether the pattern's first element fits this byte; so many bytes of the pattern it has.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    let (fits, used) = match pattern {
        [b'?', ..] => (true, 1),
        [b'\\', escaped, ..] => (*escaped == byte, 2),
        [b'[', set @ ..] => {
            let (fits, used) = in_set(set, byte);
            (fits, used + 1)
        }
        [first, ..] => (*first == byte, 1),
        [] => (false, 0),
    };
    fits.then_some(used)
}

/// Whether a byte is in a set, and how many bytes the set has with its closing bracket, if it is closed.
fn in_set(set: &[u8], byte: u8) -> (bool, usize) {
    let negated = set.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &set[at.min(set.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                let (low, high) = if from <= to { (from, to) } else { (to, from) };
                found |= (low..=high).contains(&&byte);
                at += 3;
            }
            [first, ..] => {
                found |= *first == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

/// Whether a text that begins with `begin` could match.
pub(crate) fn may_begin_with(pattern: &[u8], begin: &[u8]) -> bool {
    let special = |byte: &u8| b"*?[\\".contains(byte);
    let plain = pattern.iter().position(special).unwrap_or(pattern.len());
    let common = plain.min(begin.len());
    pattern[..common] == begin[..common] && (plain < pattern.len() || plain >= begin.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_redis_matches() {
        let yes = [
            ("*", ""),
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
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = b"a*".repeat(64);
        let text = [b'a'; 4096];
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
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
