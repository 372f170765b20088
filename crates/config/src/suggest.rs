//! "Did you mean": the closest known name to a mistyped one.
//!
//! Invariant: a suggestion is always one of the candidates, and none is made when the distance would make it a guess.

/// The closest candidate, or `None` if all are too far away. Dashes count as underscores, capitals as small letters.
#[must_use]
pub fn closest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain =
        |text: &str| -> Vec<char> { text.to_lowercase().replace('-', "_").chars().collect() };
    let typed: Vec<char> = plain(typed).into_iter().take(TYPED_CHARS_MAX).collect();
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, &plain(candidate)), candidate))
        .min_by_key(|&(distance, _)| distance)
        .filter(|&(distance, candidate)| distance <= candidate.chars().count().max(3) / 3)
        .map(|(_, candidate)| candidate)
}

/// Edit distance with transpositions of neighbours ("optimal string alignment"), the commonest slips of a keyboard.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut rows = vec![0; (a.len() + 1) * width];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i * width + j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (rows[(i - 1) * width + j - 1] + change)
                    .min(rows[(i - 1) * width + j] + 1)
                    .min(rows[i * width + j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[(i - 2) * width + j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len() * width + b.len()]
}

/// Characters of a typed name that are looked at; bounds the quadratic work for absurd input.
const TYPED_CHARS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["workers", "max_clients", "listen", "log"];
        assert_eq!(closest("wrokers", names), Some("workers"));
        assert_eq!(closest("max-client", names), Some("max_clients"));
        assert_eq!(closest("Listen", names), Some("listen"));
        assert_eq!(closest("logs", names), Some("log"));
        assert_eq!(closest("threads", names), None);
        assert_eq!(closest("", names), None);
        assert_eq!(closest("predixi_8", ["scale", "predixy-8"]), Some("predixy-8"));
        assert_eq!(closest("set p=2", ["GET P=20", "SET P=20"]), Some("SET P=20"));
    }

    #[test]
    fn distances() {
        for (a, b, expected) in
            [("", "abc", 3), ("abc", "abc", 0), ("acb", "abc", 1), ("kitten", "sitting", 3)]
        {
            let (a, b): (Vec<_>, Vec<_>) = (a.chars().collect(), b.chars().collect());
            assert_eq!(distance(&a, &b), expected);
        }
    }
}
