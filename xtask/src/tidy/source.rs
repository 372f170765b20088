//! A Rust file with its comments and literals blanked out, so that words can be searched in it.
//!
//! It is a lexer of the few things that hide text (comments, strings, characters), not a parser:
//! what it must get right is where those begin and end. Everything else is left as it stands.
//!
//! Invariant: `code` has the same number of lines as the file, and each line the same number of
//! characters, so that a position in one is a position in the other.

/// A Rust file as the checks see it.
pub(crate) struct Source {
    /// Path relative to the root, with `/`.
    pub(crate) path: String,
    /// The text as it is.
    pub(crate) text: String,
    /// The text with comments, strings and character literals replaced by spaces.
    pub(crate) code: String,
}

impl Source {
    /// Takes the text of the file at `path`.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: blank(text) }
    }

    /// The code before the module of unit tests, which stands last by the house style.
    pub(crate) fn code_without_tests(&self) -> &str {
        let tests = self.code.find("#[cfg(test)]\nmod tests {");
        &self.code[..tests.unwrap_or(self.code.len())]
    }

    /// Each word (identifier, keyword, number) of `code` with its 1-based line.
    pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
        code.lines().enumerate().flat_map(|(index, line)| {
            line.split(|c: char| !is_word(c))
                .filter(|word| !word.is_empty())
                .map(move |word| (index + 1, word))
        })
    }
}

/// Whether `c` may stand in an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Replaces what is not code by spaces.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let length = hidden_length(&chars, at);
        if length == 0 {
            // A word is taken whole, so that the `r` at its end opens no raw string.
            let word = chars[at..].iter().take_while(|c| is_word(**c)).count().max(1);
            out.extend(&chars[at..at + word]);
            at += word;
        } else {
            let end = (at + length).min(chars.len());
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// How many characters from `at` are a comment or a literal; 0 if code begins there.
fn hidden_length(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => rest.iter().take_while(|c| **c != '\n').count(),
        ['/', '*', ..] => block_comment_length(rest),
        ['"', ..] => quoted_length(rest, 1),
        ['b' | 'c', '"', ..] => quoted_length(rest, 2),
        ['r', '"' | '#', ..] => raw_length(rest, 1),
        ['b' | 'c', 'r', '"' | '#', ..] => raw_length(rest, 2),
        ['b', '\'', ..] => 1 + char_length(&rest[1..]),
        ['\'', ..] => char_length(rest),
        _ => 0,
    }
}

/// Block comments nest in Rust.
fn block_comment_length(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// A string whose text begins `from` characters after the start; a backslash hides one character.
fn quoted_length(rest: &[char], from: usize) -> usize {
    let mut at = from;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r#"…"#` with any number of `#`; 0 if it is a raw identifier such as `r#type`.
fn raw_length(rest: &[char], from: usize) -> usize {
    let hashes = rest[from..].iter().take_while(|c| **c == '#').count();
    let open = from + hashes;
    if rest.get(open) != Some(&'"') {
        return 0;
    }
    let mut at = open + 1;
    while at < rest.len() {
        let closing = rest[at + 1..].iter().take(hashes).filter(|c| **c == '#').count();
        if rest[at] == '"' && closing == hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    rest.len()
}

/// A character literal; 0 if the quote opens a lifetime or a label.
fn char_length(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', ..] => {
            // The escaped character itself may be a quote: look for the end behind it.
            let end = rest.iter().skip(3).position(|c| *c == '\'');
            end.map_or(rest.len(), |end| end + 4)
        }
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn blanked(text: &str, expected: &str) {
        assert_eq!(blank(text), expected);
        assert_eq!(text.chars().count(), expected.chars().count(), "the test itself is wrong");
    }

    #[test]
    fn comments_are_blanked_and_lines_kept() {
        blanked("a // b\nc", "a     \nc");
        blanked("a /* b /* c */\n d */ e", "a             \n      e");
    }

    #[test]
    fn strings_are_blanked_with_their_escapes() {
        blanked(r#"f("a\"b", c)"#, "f(      , c)");
        blanked(r##"f(r#"a"b"#, c)"##, "f(        , c)");
        blanked(r#"f(b"a", br"\", c)"#, "f(    ,      , c)");
    }

    #[test]
    fn lifetimes_and_labels_are_code() {
        blanked("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)");
        blanked("'outer: loop {}", "'outer: loop {}");
    }

    #[test]
    fn characters_are_blanked() {
        blanked(r"['{', '\'', b'\n', '\u{1F600}']", "[   ,     ,      ,            ]");
    }

    #[test]
    fn a_word_that_ends_like_a_prefix_is_code() {
        blanked(r#"bar"x""#, "bar   ");
        blanked("r#type", "r#type");
    }

    #[test]
    fn unfinished_literals_end_with_the_file() {
        blanked("\"abc", "    ");
        blanked("/* abc", "      ");
        blanked(r#"r"abc"#, "     ");
    }

    #[test]
    fn unit_tests_are_cut_off() {
        let source = Source::new("a.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(source.code_without_tests(), "fn f() {}\n");
    }
}
