//! The keys that values are encrypted with.
//!
//! ```text
//!   [new, old]     new: writes and reads     old: reads what was written with it
//! ```
//! Not here: where keys are kept (`config`), what is stored (`stored`).
//!
//! Invariant: no key is shown by `Debug`, and its bytes are wiped when it is dropped.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use zeroize::Zeroizing;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// Longest name of a key.
pub const KEY_NAME_BYTES_MAX: usize = 32;

/// A key and the name by which stored values tell that they were encrypted with it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealingKey {
    name: Box<str>,
    key: Zeroizing<[u8; KEY_BYTES]>,
}

impl SealingKey {
    /// A key of 64 hexadecimal digits.
    ///
    /// # Errors
    /// What the name or the digits are not; nothing of the digits is told. The text goes on after what the key is called.
    pub fn new(name: &str, digits: &[u8]) -> Result<Self, &'static str> {
        if !is_name(name.as_bytes()) {
            return Err("has no name of 1 to 32 letters, digits, `_`, `-` and `.`");
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != KEY_BYTES || !rest.is_empty() {
            return Err("is not 64 hexadecimal digits (32 bytes)");
        }
        for (byte, [high, low]) in key.iter_mut().zip(pairs) {
            let digit = |text: u8| char::from(text).to_digit(16);
            match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => *byte = (high << 4 | low) as u8,
                _ => return Err("is not 64 hexadecimal digits (32 bytes)"),
            }
        }
        Ok(Self { name: name.into(), key })
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ***", self.name)
    }
}

/// Whether a key can be called so.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=KEY_NAME_BYTES_MAX).contains(&name.len()) && name.iter().all(is_letter)
}

/// All keys; the first one writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ring(pub(super) Vec<SealingKey>);

impl Ring {
    pub(super) fn writes(&self) -> Option<&SealingKey> {
        self.0.first()
    }

    pub(super) fn named(&self, name: &str) -> Option<&SealingKey> {
        self.0.iter().find(|key| &*key.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    #[test]
    fn a_key_is_of_64_digits_and_is_not_shown() {
        let digits: String = (0..32).map(|n| format!("{n:02x}")).collect();
        let key = SealingKey::new("k-1", digits.as_bytes()).expect("a key");
        assert_eq!(key.bytes().to_vec(), (0..32).collect::<Vec<u8>>());
        assert_eq!(key, SealingKey::new("k-1", digits.to_uppercase().as_bytes()).expect("a key"));
        assert_eq!(format!("{key:?}"), "k-1 ***");
        for (name, digits) in [
            ("", digits.as_str()),
            ("a b", &digits),
            ("k", &digits[1..]),
            ("k", &digits[2..]),
            ("k", &digits.replace('0', "g")),
            ("k", &format!("{digits}00")),
            (&"x".repeat(33), &digits),
        ] {
            assert!(SealingKey::new(name, digits.as_bytes()).is_err(), "{name} {digits}");
        }
    }
}
