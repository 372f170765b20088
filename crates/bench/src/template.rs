//! The text of a request with places for keys and values: `SET {key} {value}`.
//!
//! Invariant: a template has at least one word, and none of its words holds a CR or LF.

/// A request with places.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    text: String,
}

impl Template {
    /// Reads one. Words are split as a shell does; places are `{key}`, `{value}`, `{keys:30}`, `{pairs:30}`, `{number}`.
    ///
    /// # Errors
    /// In words: what was found and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned() })
    }
}

impl std::fmt::Display for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
