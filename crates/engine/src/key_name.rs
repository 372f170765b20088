//! A key as it is kept to be shown: cut, so that what is kept has a bound however long keys are.
//!
//! Two keys are the same if they agree in what is kept and in their length; so of keys longer than the bound some may be taken for one.
//!
//! Not here: which keys are kept (`hotkeys`, `bigkeys`).
//!
//! Invariant: at most [`KEY_SHOWN_BYTES`] of a key are kept.

use crate::limits::KEY_SHOWN_BYTES;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The begin of a key and its length.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName {
    begin: Vec<u8>,
    len: usize,
}

impl KeyName {
    /// What is kept of this key.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        Self { begin: key[..key.len().min(KEY_SHOWN_BYTES)].to_vec(), len: key.len() }
    }

    /// Bytes of the whole key.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there was no key, or the empty one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether this is kept of that key.
    #[must_use]
    pub fn is_of(&self, key: &[u8]) -> bool {
        self.len == key.len() && key.starts_with(&self.begin)
    }

    /// For a reply: the key, or its begin and how much more there is, in the form of the slow log.
    #[must_use]
    pub fn shown(&self) -> Vec<u8> {
        let mut shown = self.begin.clone();
        if let Some(more) = self.len.checked_sub(self.begin.len()).filter(|more| *more > 0) {
            shown.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
        }
        shown
    }

    /// For a log or a line of INFO: the same, with everything that is no printable character as an escape.
    #[must_use]
    pub fn text(&self) -> String {
        self.shown().escape_ascii().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_is_its_begin_and_its_length() {
        let key = [b'k'; KEY_SHOWN_BYTES + 3];
        let name = KeyName::new(&key);
        assert!(name.is_of(&key) && !name.is_of(&key[1..]) && !name.is_empty());
        assert_eq!(name.len(), KEY_SHOWN_BYTES + 3);
        assert_eq!(name.shown(), [&key[3..], b"... (3 more bytes)"].concat());
        let short = KeyName::new(b"a\r\nb");
        assert_eq!((short.shown(), short.text()), (b"a\r\nb".to_vec(), "a\\r\\nb".to_string()));
        assert!(KeyName::default().is_empty());
    }
}
