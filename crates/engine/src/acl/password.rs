//! Passwords as Redis keeps them: SHA-256, without salt.
//!
//! Invariant: `Debug` shows three stars; two digests are compared in a time that tells nothing.

use crate::limits::PASSWORD_BYTES_MAX;
use alloc::string::String;
use core::fmt;
use sha2::{Digest as _, Sha256};

/// The digest of a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// That of this password.
    #[must_use]
    pub fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// That of one that somebody says; `None`: it is longer than any that is right.
    pub(crate) fn of_given(password: &[u8]) -> Option<Self> {
        (password.len() <= PASSWORD_BYTES_MAX).then(|| Self::of(password))
    }

    /// That of a name with its password. The length of the name stands before both, so that no two logins are the same bytes.
    #[must_use]
    pub fn of_login(name: &[u8], password: &[u8]) -> Self {
        let length = (name.len() as u64).to_le_bytes();
        let whole = Sha256::new().chain_update(length).chain_update(name).chain_update(password);
        Self(whole.finalize().into())
    }

    /// The one that is written so: 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// As it is written.
    #[must_use]
    pub fn hex(&self) -> String {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// Whether the two are the same; looks at all bytes.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |different, (one, other)| different | (one ^ other)) == 0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
