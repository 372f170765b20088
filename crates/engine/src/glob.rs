//! Patterns of `?`, `*`, `[a-z]` and `\`, as in `KEYS` (`stringmatchlen` in Redis' util.c).
//!
//! Not here: how patterns of commands that are given on match; that is the server's.
//!
//! Invariant: a match takes at most pattern length × text length steps, whatever the pattern.

/// Whether the pattern matches all of the text.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut pos) = (0, 0);
    // Where the last star stood, and the text from which on it was last tried.
    let mut star: Option<(usize, usize)> = None;
    while pos < text.len() {
        match one(&pattern[at..], text[pos]) {
            One::Star => {
                star = Some((at, pos));
                at += 1;
            }
            One::Yes(used) => {
                at += used;
                pos += 1;
            }
            One::No => {
                let Some((star_at, tried)) = star else { return false };
                // The star takes one more.
                star = Some((star_at, tried + 1));
                (at, pos) = (star_at + 1, tried + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

enum One {
    /// The pattern goes on behind so many bytes.
    Yes(usize),
    No,
    Star,
}

/// Whether the first element of the pattern matches this byte.
fn one(pattern: &[u8], byte: u8) -> One {
    match pattern {
        [b'*', ..] => One::Star,
        [b'?', ..] => One::Yes(1),
        [b'\\', escaped, ..] => {
            if *escaped == byte {
                One::Yes(2)
            } else {
                One::No
            }
        }
        [b'[', class @ ..] => {
            let (found, used) = in_class(class, byte);
            if found { One::Yes(1 + used) } else { One::No }
        }
        [plain, ..] if *plain == byte => One::Yes(1),
        _ => One::No,
    }
}

/// Whether the byte is in a class, and how long the class is. One that is not closed ends with the pattern.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let (not, mut at) = if class.first() == Some(&b'^') { (true, 1) } else { (false, 0) };
    let mut found = false;
    loop {
        match &class[at..] {
            [] => return (found != not, at),
            [b']', ..] => return (found != not, at + 1),
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= *plain == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_those_of_keys() {
        for (pattern, text, is) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hbllo", true),
            ("h[a-b]llo", "hcllo", false),
            (r"\*", "*", true),
            (r"\*", "x", false),
            (r"[\]]", "]", true),
            ("[a", "a", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("user:*:name", "user:7:name", true),
            (r"a\", r"a\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), is, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_are_no_trap() {
        let pattern = b"*a".repeat(50);
        let text = b"a".repeat(20_000);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
    }
}
