//! Which of many patterns may match a text, by the ordinary bytes that they begin with.
//!
//! ```text
//!   user:1:*  user:2:*  user:*  *tmp        "user:2:x" ─▶ user:2:*, user:*, *tmp
//! ```
//! A user has a hundred patterns and a request a million keys; that each is compared with each takes a worker seconds.
//!
//! Not here: whether a pattern does match.
//!
//! Invariant: every pattern that matches a text is among those found for it.

use super::is_special;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound::{Included, Unbounded};

/// So many patterns are compared one by one sooner than they are looked up.
pub const FEW: usize = 8;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begins(BTreeMap<Box<[u8]>, Vec<usize>>);

impl Begins {
    /// Takes in a pattern, which is known by this number.
    pub fn add(&mut self, number: usize, pattern: &[u8]) {
        let plain = pattern.iter().position(|byte| is_special(*byte)).unwrap_or(pattern.len());
        self.0.entry(pattern[..plain].into()).or_default().push(number);
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The numbers of those whose ordinary bytes this text begins with, longest first.
    pub fn of<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let mut left = Some(text);
        let groups = core::iter::from_fn(move || {
            // What the text begins with stands at or before it, and so does what this one begins with.
            while let Some(up_to) = left {
                let (begin, numbers) =
                    self.0.range::<[u8], _>((Unbounded, Included(up_to))).next_back()?;
                let common = begin.iter().zip(up_to).take_while(|(one, other)| one == other);
                let common = common.count();
                if common == begin.len() {
                    left = common.checked_sub(1).map(|shorter| &text[..shorter]);
                    return Some(numbers);
                }
                left = Some(&text[..common]);
            }
            None
        });
        groups.flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::matches;
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use proptest::prelude::*;

    fn of(patterns: &[&str], text: &str) -> Vec<usize> {
        let mut begins = Begins::default();
        patterns.iter().enumerate().for_each(|(at, one)| begins.add(at, one.as_bytes()));
        begins.of(text.as_bytes()).collect()
    }

    #[test]
    fn those_are_found_that_the_text_begins_with() {
        let patterns = ["user:1:*", "user:2:*", "user:*", "*tmp", "user:2:x", "use", "user:2:xy"];
        assert_eq!(of(&patterns, "user:2:x"), [4, 1, 2, 5, 3]);
        assert_eq!(of(&patterns, "user:10"), [2, 5, 3]);
        assert_eq!(of(&patterns, "a"), [3]);
        assert_eq!(of(&patterns, ""), [3]);
        assert!(of(&["a?", "b*"], "c").is_empty() && of(&[], "c").is_empty());
    }

    #[test]
    fn one_of_ten_thousand_is_found_without_a_look_at_the_others() {
        let patterns: Vec<String> = (0..10_000).map(|n| format!("app{n}:*:x")).collect();
        let mut begins = Begins::default();
        patterns.iter().enumerate().for_each(|(at, one)| begins.add(at, one.as_bytes()));
        assert_eq!(begins.of(b"app777:k:x").collect::<Vec<_>>(), [777]);
        assert_eq!(begins.of(b"k777").count(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn every_pattern_that_matches_is_among_them(
            patterns in proptest::collection::vec("[ab]{0,3}[ab*?\\[\\]\\\\-]{0,3}", 0..12),
            text in "[ab*?]{0,6}",
        ) {
            let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
            let found = of(&patterns, &text);
            for (at, pattern) in patterns.iter().enumerate() {
                let times = found.iter().filter(|number| **number == at).count();
                prop_assert!(times <= 1);
                prop_assert!(times == 1 || !matches(pattern.as_bytes(), text.as_bytes()));
            }
        }
    }
}
